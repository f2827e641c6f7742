/* Qwen 3 with experts. */
#include "arch/rows.h"

static const hy_name hf[] = { HY_NAMES_HF_MOE };

static const hy_family_io io = {
    .norm = HY_NORM_RMS, .act = HY_A_SILU,
    .gating = HY_GATE_SOFTMAX, .norm_topk = true, .rope_base = 1000000, .hf = HY_TABLE(hf),
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_qwen3_moe = {
    .name = "qwen3_moe", .gguf_arch = "qwen3moe", .hf_type = "qwen3_moe", .io = &io,
    .tensors = HY_TABLE(hy_qwen3_tensors), .head = HY_TABLE(hy_head_plain),
    .block = HY_TABLE(hy_qwen3_block), .tail = HY_TABLE(hy_tail_plain),
};
