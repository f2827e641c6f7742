/* Tables that several families share. */
#include "arch/rows.h"

const hy_recipe hy_head_plain[1] = { HY_ROWS_EMBED };
const hy_recipe hy_tail_plain[3] = { HY_ROWS_LOGITS };
const hy_recipe hy_tail_scaled[4] = {
    HY_ROWS_LOGITS,
    HY_ROW(SCALE, L, NONE, NONE, NONE, 0),
};
const hy_recipe hy_tail_capped[4] = {
    HY_ROWS_LOGITS,
    HY_ROW(SOFTCAP, L, NONE, NONE, NONE, 0),
};

/* ---- llama --------------------------------------------------------------------------------- */

const hy_tensor_spec hy_llama_tensors[HY_LLAMA_TENSORS] = {
    HY_TENSORS_EMBD, HY_TENSORS_NORMS, HY_TENSORS_ATTN, HY_TENSORS_GATED, HY_TENSORS_MOE,
};
const hy_recipe hy_llama_block[HY_LLAMA_BLOCK] = {
    HY_ROW(NORM, H, X, NONE, ATTN_NORM, 0),
    HY_ROWS_QKV(H),
    HY_ROWS_ROPE,
    HY_ROWS_ATTEND(NONE),
    HY_ROW(ADD, X, X, A, NONE, 0),
    HY_ROW(NORM, H, X, NONE, FFN_NORM, 0),
    HY_ROWS_GATED(A, H, HY_IF_DENSE),
    HY_ROWS_MOE(A, H),
    HY_ROW(ADD, X, X, A, NONE, 0),
};

/* ---- qwen3 --------------------------------------------------------------------------------- */

const hy_tensor_spec hy_qwen3_tensors[HY_QWEN3_TENSORS] = {
    HY_TENSORS_EMBD, HY_TENSORS_NORMS, HY_TENSORS_ATTN,
    HY_VEC(Q_NORM, HEAD_K, NEEDED), HY_VEC(K_NORM, HEAD_K, NEEDED),
    HY_TENSORS_GATED, HY_TENSORS_MOE,
};
const hy_recipe hy_qwen3_block[HY_QWEN3_BLOCK] = {
    HY_ROW(NORM, H, X, NONE, ATTN_NORM, 0),
    HY_ROWS_QKV(H),
    HY_ROWS_HEAD_NORM,
    HY_ROWS_ROPE,
    HY_ROWS_ATTEND(NONE),
    HY_ROW(ADD, X, X, A, NONE, 0),
    HY_ROW(NORM, H, X, NONE, FFN_NORM, 0),
    HY_ROWS_GATED(A, H, HY_IF_DENSE),
    HY_ROWS_MOE(A, H),
    HY_ROW(ADD, X, X, A, NONE, 0),
};

/* ---- norms on both sides ------------------------------------------------------------------- */

const hy_tensor_spec hy_sandwich_tensors[HY_SANDWICH_TENSORS] = {
    HY_TENSORS_EMBD, HY_TENSORS_NORMS, HY_TENSORS_ATTN,
    HY_VEC(Q_NORM, HEAD_K, OPTIONAL), HY_VEC(K_NORM, HEAD_K, OPTIONAL),
    HY_VEC(ATTN_POST_NORM, EMBD, NEEDED), HY_VEC(FFN_POST_NORM, EMBD, NEEDED),
    HY_TENSORS_GATED,
};
const hy_recipe hy_sandwich_block[HY_SANDWICH_BLOCK] = {
    HY_ROW(NORM, H, X, NONE, ATTN_NORM, 0),
    HY_ROWS_QKV(H),
    HY_ROWS_HEAD_NORM,
    HY_ROWS_ROPE,
    HY_ROWS_ATTEND(NONE),
    HY_ROW(NORM, A, A, NONE, ATTN_POST_NORM, 0),
    HY_ROW(ADD, X, X, A, NONE, 0),
    HY_ROW(NORM, H, X, NONE, FFN_NORM, 0),
    HY_ROWS_GATED(A, H, 0),
    HY_ROW(NORM, A, A, NONE, FFN_POST_NORM, 0),
    HY_ROW(ADD, X, X, A, NONE, 0),
};

/* ---- olmo2 --------------------------------------------------------------------------------- */

const hy_tensor_spec hy_olmo2_tensors[HY_OLMO2_TENSORS] = {
    HY_TENSORS_EMBD, HY_VEC(OUT_NORM, EMBD, NEEDED), HY_TENSORS_ATTN,
    HY_VEC(Q_NORM, Q, NEEDED), HY_VEC(K_NORM, K, NEEDED),
    HY_VEC(ATTN_POST_NORM, EMBD, NEEDED), HY_VEC(FFN_POST_NORM, EMBD, NEEDED),
    HY_TENSORS_GATED,
};
const hy_recipe hy_olmo2_block[HY_OLMO2_BLOCK] = {
    HY_ROWS_QKV(X),
    HY_ROW(NORM, Q, Q, NONE, Q_NORM, 0),
    HY_ROW(NORM, K, K, NONE, K_NORM, 0),
    HY_ROWS_ROPE,
    HY_ROWS_ATTEND(NONE),
    HY_ROW(NORM, A, A, NONE, ATTN_POST_NORM, 0),
    HY_ROW(ADD, X, X, A, NONE, 0),
    HY_ROWS_GATED(A, X, 0),
    HY_ROW(NORM, A, A, NONE, FFN_POST_NORM, 0),
    HY_ROW(ADD, X, X, A, NONE, 0),
};

/* ---- cohere -------------------------------------------------------------------------------- */

const hy_tensor_spec hy_cohere_tensors[HY_COHERE_TENSORS] = {
    HY_TENSORS_EMBD, HY_VEC(OUT_NORM, EMBD, NEEDED), HY_VEC(ATTN_NORM, EMBD, NEEDED),
    HY_TENSORS_ATTN, HY_TENSORS_GATED,
    { HY_W_Q_NORM, { HY_D_HEAD_K, HY_D_N_HEAD, HY_D_NONE }, HY_OPTIONAL, false },
    { HY_W_K_NORM, { HY_D_HEAD_K, HY_D_N_KV_HEAD, HY_D_NONE }, HY_OPTIONAL, false },
};
const hy_recipe hy_cohere_block[HY_COHERE_BLOCK] = {
    HY_ROW(NORM, H, X, NONE, ATTN_NORM, 0),
    HY_ROWS_QKV(H),
    HY_ROWS_HEAD_NORM,
    HY_ROWS_ROPE,
    HY_ROWS_ATTEND(NONE),
    HY_ROWS_GATED(B, H, 0),
    HY_ROW(ADD, X, X, A, NONE, 0),
    HY_ROW(ADD, X, X, B, NONE, 0),
};

/* ---- names --------------------------------------------------------------------------------- */

const hy_name hy_gguf_experts[3] = {
    HY_NAME(E_GATE, "blk.%u.ffn_gate.%u"),
    HY_NAME(E_UP, "blk.%u.ffn_up.%u"),
    HY_NAME(E_DOWN, "blk.%u.ffn_down.%u"),
};

const hy_name hy_hf_llama[HY_HF_LLAMA] = {
    HY_NAME(TOK_EMBD, "embed_tokens"),
    HY_NAME(OUT_NORM, "norm"),
    HY_NAME(OUTPUT, "/lm_head"),
    HY_NAME(OUTPUT, "/language_model.lm_head"),
    HY_NAME(ATTN_NORM, "layers.%u.input_layernorm"),
    HY_NAME(Q, "layers.%u.self_attn.q_proj"),
    HY_NAME(K, "layers.%u.self_attn.k_proj"),
    HY_NAME(V, "layers.%u.self_attn.v_proj"),
    HY_NAME(O, "layers.%u.self_attn.o_proj"),
    HY_NAME(Q_NORM, "layers.%u.self_attn.q_norm"),
    HY_NAME(K_NORM, "layers.%u.self_attn.k_norm"),
    HY_NAME(FFN_NORM, "layers.%u.post_attention_layernorm"),
    HY_NAME(GATE, "layers.%u.mlp.gate_proj"),
    HY_NAME(UP, "layers.%u.mlp.up_proj"),
    HY_NAME(DOWN, "layers.%u.mlp.down_proj"),
};
