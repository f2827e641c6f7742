/* OLMoE: Llama with experts, Q and K normed as whole rows. */
#include "arch/rows.h"

static const hy_tensor_spec tensors[] = {
    HY_TENSORS_EMBD, HY_TENSORS_NORMS, HY_TENSORS_ATTN,
    HY_VEC(Q_NORM, Q, NEEDED), HY_VEC(K_NORM, K, NEEDED), HY_TENSORS_MOE,
};

static const hy_recipe block[] = {
    HY_ROW(NORM, H, X, NONE, ATTN_NORM, 0),
    HY_ROWS_QKV(H),
    HY_ROW(NORM, Q, Q, NONE, Q_NORM, 0),
    HY_ROW(NORM, K, K, NONE, K_NORM, 0),
    HY_ROWS_ROPE,
    HY_ROWS_ATTEND(NONE),
    HY_ROW(ADD, X, X, A, NONE, 0),
    HY_ROW(NORM, H, X, NONE, FFN_NORM, 0),
    HY_ROWS_MOE(A, H),
    HY_ROW(ADD, X, X, A, NONE, 0),
};

static const hy_name hf[] = { HY_NAMES_HF_MOE };

static const hy_family_io io = {
    .norm = HY_NORM_RMS, .act = HY_A_SILU,
    .gating = HY_GATE_SOFTMAX, .hf = HY_TABLE(hf),
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_olmoe = {
    .name = "olmoe", .gguf_arch = "olmoe", .hf_type = "olmoe", .io = &io,
    .tensors = HY_TABLE(tensors), .head = HY_TABLE(hy_head_plain),
    .block = HY_TABLE(block), .tail = HY_TABLE(hy_tail_plain),
};
