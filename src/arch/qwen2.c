/* Qwen 2 and 2.5: Llama with biases on Q, K and V. */
#include "arch/rows.h"

static const hy_tensor_spec tensors[] = {
    HY_TENSORS_EMBD, HY_TENSORS_NORMS,
    HY_MAT_B(Q, EMBD, Q, NEEDED), HY_MAT_B(K, EMBD, K, NEEDED), HY_MAT_B(V, EMBD, V, NEEDED),
    HY_MAT(O, O, EMBD, NEEDED), HY_TENSORS_GATED, HY_TENSORS_MOE,
};
static const hy_family_io io = {
    .norm = HY_NORM_RMS, .act = HY_A_SILU,
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_qwen2 = {
    .name = "qwen2", .gguf_arch = "qwen2", .hf_type = "qwen2", .io = &io,
    .tensors = HY_TABLE(tensors), .head = HY_TABLE(hy_head_plain),
    .block = HY_TABLE(hy_llama_block), .tail = HY_TABLE(hy_tail_plain),
};
