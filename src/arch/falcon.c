/* Falcon 7B, 40B, 180B, 11B: attention and FFN read the same x, through one LayerNorm or one each.
 * Safetensors keep the query heads of a KV head beside its K and V. */
#include "arch/rows.h"

static const hy_tensor_spec tensors[] = {
    HY_TENSORS_EMBD, HY_VEC_B(OUT_NORM, EMBD, NEEDED), HY_VEC_B(ATTN_NORM, EMBD, NEEDED),
    HY_VEC_B(ATTN_NORM_2, EMBD, OPTIONAL), HY_TENSORS_ATTN, HY_TENSORS_PLAIN_FFN,
};

/* The FFN comes first: GGUF calls its norm attn_norm, and attn_norm_2 that of attention where it has
 * its own. */
static const hy_recipe block[] = {
    HY_ROW(NORM, H, X, NONE, ATTN_NORM, 0),
    HY_ROWS_PLAIN_FFN(B, H),
    HY_ROW(NORM, H, X, NONE, ATTN_NORM_2, HY_IF_W),
    HY_ROWS_QKV(H),
    HY_ROWS_ROPE,
    HY_ROWS_ATTEND(NONE),
    HY_ROW(ADD, X, X, A, NONE, 0),
    HY_ROW(ADD, X, X, B, NONE, 0),
};

static const hy_name gguf[] = { HY_NAMES_GGUF_QKV };

static const hy_name hf[] = {
    HY_NAME(TOK_EMBD, "word_embeddings"),
    HY_NAME(OUT_NORM, "ln_f"),
    HY_NAME(OUTPUT, "/lm_head"),
    HY_NAME(ATTN_NORM, "h.%u.ln_mlp"),
    HY_NAME(ATTN_NORM, "h.%u.input_layernorm"),
    HY_NAME(ATTN_NORM_2, "h.%u.ln_attn"),
    { HY_W_Q, "h.%u.self_attention.query_key_value", HY_PICK_GROUP_Q, 0 },
    { HY_W_K, "h.%u.self_attention.query_key_value", HY_PICK_GROUP_K, 0 },
    { HY_W_V, "h.%u.self_attention.query_key_value", HY_PICK_GROUP_V, 0 },
    HY_NAME(O, "h.%u.self_attention.dense"),
    HY_NAME(UP, "h.%u.mlp.dense_h_to_4h"),
    HY_NAME(DOWN, "h.%u.mlp.dense_4h_to_h"),
};

static const hy_refusal refuse[] = { { "alibi", true }, { "parallel_attn", false } };

static const hy_family_io io = {
    .norm = HY_NORM_LAYER, .act = HY_A_GELU,
    .gguf = HY_TABLE(gguf), .hf = HY_TABLE(hf), .hf_prefix = "transformer.,",
    .refuse = HY_TABLE(refuse),
};

const hy_family hy_family_falcon = {
    .name = "falcon", .gguf_arch = "falcon", .hf_type = "falcon", .io = &io,
    .tensors = HY_TABLE(tensors), .head = HY_TABLE(hy_head_plain), .block = HY_TABLE(block),
    .tail = HY_TABLE(hy_tail_plain),
};
