/* GPT-NeoX and Pythia: LayerNorm, biases, partial rope; attention and FFN read the same x unless the
 * file says otherwise. Safetensors keep Q, K, V of a head together. */
#include "arch/rows.h"

static const hy_tensor_spec tensors[] = {
    HY_TENSORS_EMBD, HY_TENSORS_NORMS_B, HY_TENSORS_ATTN, HY_TENSORS_PLAIN_FFN_B,
};

static const hy_recipe block[] = {
    HY_ROW(NORM, H, X, NONE, ATTN_NORM, 0),
    HY_ROWS_QKV(H),
    HY_ROWS_ROPE,
    HY_ROWS_ATTEND(NONE),
    HY_ROW(ADD, X, X, A, NONE, HY_IF_SEQUENTIAL),
    HY_ROW(NORM, H, X, NONE, FFN_NORM, 0),
    HY_ROWS_PLAIN_FFN(B, H),
    HY_ROW(ADD, X, X, A, NONE, HY_IF_PARALLEL),
    HY_ROW(ADD, X, X, B, NONE, 0),
};

static const hy_name gguf[] = { HY_NAMES_GGUF_QKV };

static const hy_name hf[] = {
    HY_NAME(TOK_EMBD, "gpt_neox.embed_in"),
    HY_NAME(OUT_NORM, "gpt_neox.final_layer_norm"),
    HY_NAME(OUTPUT, "embed_out"),
    HY_NAME(OUTPUT, "lm_head"),
    HY_NAME(ATTN_NORM, "gpt_neox.layers.%u.input_layernorm"),
    { HY_W_Q, "gpt_neox.layers.%u.attention.query_key_value", HY_PICK_GROUP_Q, 0 },
    { HY_W_K, "gpt_neox.layers.%u.attention.query_key_value", HY_PICK_GROUP_K, 0 },
    { HY_W_V, "gpt_neox.layers.%u.attention.query_key_value", HY_PICK_GROUP_V, 0 },
    HY_NAME(O, "gpt_neox.layers.%u.attention.dense"),
    HY_NAME(FFN_NORM, "gpt_neox.layers.%u.post_attention_layernorm"),
    HY_NAME(UP, "gpt_neox.layers.%u.mlp.dense_h_to_4h"),
    HY_NAME(DOWN, "gpt_neox.layers.%u.mlp.dense_4h_to_h"),
};

static const hy_family_io io = {
    .norm = HY_NORM_LAYER, .act = HY_A_GELU, .parallel = true,
    .gguf = HY_TABLE(gguf), .hf = HY_TABLE(hf),
};

const hy_family hy_family_gptneox = {
    .name = "gptneox", .gguf_arch = "gptneox", .hf_type = "gpt_neox", .io = &io,
    .tensors = HY_TABLE(tensors), .head = HY_TABLE(hy_head_plain), .block = HY_TABLE(block),
    .tail = HY_TABLE(hy_tail_plain),
};
