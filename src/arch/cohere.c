/* Command R: attention and FFN of the same LayerNorm, interleaved pairs, scaled logits. */
#include "arch/rows.h"

static const hy_family_io io = {
    .norm = HY_NORM_LAYER, .act = HY_A_SILU, .gguf_interleaved = true, .hf_interleaved = true,
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_cohere = {
    .name = "cohere", .gguf_arch = "command-r", .hf_type = "cohere", .io = &io,
    .tensors = HY_TABLE(hy_cohere_tensors), .head = HY_TABLE(hy_head_plain),
    .block = HY_TABLE(hy_cohere_block), .tail = HY_TABLE(hy_tail_scaled),
};
