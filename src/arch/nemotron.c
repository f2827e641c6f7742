/* Nemotron and Minitron: LayerNorm stored as w for 1 + w, squared relu, partial rope. */
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
    HY_NAME_P1(OUT_NORM, "norm"),
    HY_NAME_P1(ATTN_NORM, "layers.%u.input_layernorm"),
    HY_NAME_P1(FFN_NORM, "layers.%u.post_attention_layernorm"),
};

static const hy_family_io io = {
    .norm = HY_NORM_LAYER, .act = HY_A_RELU2,
    .hf = HY_TABLE(hf),
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_nemotron = {
    .name = "nemotron", .gguf_arch = "nemotron", .hf_type = "nemotron", .io = &io,
    .tensors = HY_TABLE(tensors), .head = HY_TABLE(hy_head_plain),
    .block = HY_TABLE(block), .tail = HY_TABLE(hy_tail_plain),
};
