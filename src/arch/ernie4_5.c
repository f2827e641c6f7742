/* ERNIE 4.5, dense: Llama with interleaved pairs in both kinds of files. */
#include "arch/rows.h"

static const hy_family_io io = {
    .norm = HY_NORM_RMS, .act = HY_A_SILU,
    .rope_base = 500000, .gguf_interleaved = true, .hf_interleaved = true,
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_ernie4_5 = {
    .name = "ernie4_5", .gguf_arch = "ernie4_5", .hf_type = "ernie4_5", .io = &io,
    HY_LLAMA_TABLES,
};
