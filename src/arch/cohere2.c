/* Command R7B and A: Command R with windows; only windowed layers have a rope. */
#include "arch/rows.h"

static const hy_family_io io = {
    .norm = HY_NORM_LAYER, .act = HY_A_SILU, .gguf_interleaved = true, .hf_interleaved = true,
    .rope_base = 50000, .full_no_rope = true, .window_every = 4,
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_cohere2 = {
    .name = "cohere2", .gguf_arch = "cohere2", .hf_type = "cohere2", .io = &io,
    .tensors = HY_TABLE(hy_cohere_tensors), .head = HY_TABLE(hy_head_plain),
    .block = HY_TABLE(hy_cohere_block), .tail = HY_TABLE(hy_tail_scaled),
};
