/* StarCoder 2: LayerNorm, biases, plain FFN, a window that GGUF files lose. */
#include "arch/rows.h"

static const hy_tensor_spec tensors[] = {
    HY_TENSORS_EMBD, HY_TENSORS_NORMS_B, HY_TENSORS_ATTN, HY_TENSORS_PLAIN_FFN,
};

static const hy_recipe block[] = {
    HY_ROW(NORM, H, X, NONE, ATTN_NORM, 0),
    HY_ROWS_QKV(H),
    HY_ROWS_ROPE,
    HY_ROWS_ATTEND(NONE),
    HY_ROW(ADD, X, X, A, NONE, 0),
    HY_ROW(NORM, H, X, NONE, FFN_NORM, 0),
    HY_ROWS_PLAIN_FFN(A, H),
    HY_ROW(ADD, X, X, A, NONE, 0),
};

static const hy_name hf[] = {
    HY_NAME(UP, "layers.%u.mlp.c_fc"),
    HY_NAME(DOWN, "layers.%u.mlp.c_proj"),
};

static const hy_family_io io = {
    .norm = HY_NORM_LAYER, .act = HY_A_GELU_TANH,
    .hf = HY_TABLE(hf),
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_starcoder2 = {
    .name = "starcoder2", .gguf_arch = "starcoder2", .hf_type = "starcoder2", .io = &io,
    .tensors = HY_TABLE(tensors), .head = HY_TABLE(hy_head_plain),
    .block = HY_TABLE(block), .tail = HY_TABLE(hy_tail_plain),
};
