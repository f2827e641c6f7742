/* Phi 1.5 and 2: attention and FFN of the same LayerNorm, biases everywhere, partial rope. */
#include "arch/rows.h"

static const hy_tensor_spec tensors[] = {
    HY_MAT(TOK_EMBD, EMBD, VOCAB, NEEDED), HY_MAT_B(OUTPUT, EMBD, VOCAB, NEEDED),
    HY_VEC_B(OUT_NORM, EMBD, NEEDED), HY_VEC_B(ATTN_NORM, EMBD, NEEDED),
    HY_TENSORS_ATTN_B, HY_TENSORS_PLAIN_FFN_B,
};

static const hy_recipe block[] = {
    HY_ROW(NORM, H, X, NONE, ATTN_NORM, 0),
    HY_ROWS_QKV(H),
    HY_ROWS_ROPE,
    HY_ROWS_ATTEND(NONE),
    HY_ROWS_PLAIN_FFN(B, H),
    HY_ROW(ADD, X, X, A, NONE, 0),
    HY_ROW(ADD, X, X, B, NONE, 0),
};

static const hy_name gguf[] = { HY_NAMES_GGUF_QKV };

static const hy_name hf[] = {
    HY_NAME(OUT_NORM, "final_layernorm"),
    HY_NAME(O, "layers.%u.self_attn.dense"),
    HY_NAME(UP, "layers.%u.mlp.fc1"),
    HY_NAME(DOWN, "layers.%u.mlp.fc2"),
};

static const hy_refusal refuse[] = { { "qk_layernorm", true } };

static const hy_family_io io = {
    .norm = HY_NORM_LAYER, .act = HY_A_GELU_TANH,
    .gguf = HY_TABLE(gguf), .hf = HY_TABLE(hf), .refuse = HY_TABLE(refuse),
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_phi2 = {
    .name = "phi2", .gguf_arch = "phi2", .hf_type = "phi", .io = &io,
    .tensors = HY_TABLE(tensors), .head = HY_TABLE(hy_head_plain),
    .block = HY_TABLE(block), .tail = HY_TABLE(hy_tail_plain),
};
