/* EXAONE 4: norms after the branches and of each head. With a window, full layers have no rope. */
#include "arch/rows.h"

static const hy_tensor_spec tensors[] = {
    HY_TENSORS_EMBD, HY_VEC(OUT_NORM, EMBD, NEEDED), HY_TENSORS_ATTN,
    HY_VEC(Q_NORM, HEAD_K, NEEDED), HY_VEC(K_NORM, HEAD_K, NEEDED),
    HY_VEC(ATTN_POST_NORM, EMBD, NEEDED), HY_VEC(FFN_POST_NORM, EMBD, NEEDED),
    HY_TENSORS_GATED,
};

static const hy_recipe block[] = {
    HY_ROWS_QKV(X),
    HY_ROWS_HEAD_NORM,
    HY_ROWS_ROPE,
    HY_ROWS_ATTEND(NONE),
    HY_ROW(NORM, A, A, NONE, ATTN_POST_NORM, 0),
    HY_ROW(ADD, X, X, A, NONE, 0),
    HY_ROWS_GATED(A, X, 0),
    HY_ROW(NORM, A, A, NONE, FFN_POST_NORM, 0),
    HY_ROW(ADD, X, X, A, NONE, 0),
};

static const hy_name hf[] = {
    HY_NAME(ATTN_POST_NORM, "layers.%u.post_attention_layernorm"),
    HY_NAME(FFN_POST_NORM, "layers.%u.post_feedforward_layernorm"),
};

static const hy_family_io io = {
    .norm = HY_NORM_RMS, .act = HY_A_SILU,
    .full_no_rope = true, .window_every = 4, .hf = HY_TABLE(hf),
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_exaone4 = {
    .name = "exaone4", .gguf_arch = "exaone4", .hf_type = "exaone4", .io = &io,
    .tensors = HY_TABLE(tensors), .head = HY_TABLE(hy_head_plain),
    .block = HY_TABLE(block), .tail = HY_TABLE(hy_tail_plain),
};
