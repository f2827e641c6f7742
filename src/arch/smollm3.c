/* SmolLM 3: Llama where each fourth layer has no rope. */
#include "arch/rows.h"

static const hy_family_io io = {
    .norm = HY_NORM_RMS, .act = HY_A_SILU,
    .rope_base = 2000000, .no_rope_every = 4, .gguf_interleaved = true,
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_smollm3 = {
    .name = "smollm3", .gguf_arch = "smollm3", .hf_type = "smollm3", .io = &io,
    HY_LLAMA_TABLES,
};
