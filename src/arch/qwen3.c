/* Qwen 3: Llama with a norm of each head of Q and K. */
#include "arch/rows.h"

static const hy_family_io io = {
    .norm = HY_NORM_RMS, .act = HY_A_SILU,
    .rope_base = 1000000,
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_qwen3 = {
    .name = "qwen3", .gguf_arch = "qwen3", .hf_type = "qwen3", .io = &io,
    .tensors = HY_TABLE(hy_qwen3_tensors), .head = HY_TABLE(hy_head_plain),
    .block = HY_TABLE(hy_qwen3_block), .tail = HY_TABLE(hy_tail_plain),
};
