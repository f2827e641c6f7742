/* Mistral: Llama with a window. Its GGUF files say llama and lose the window. */
#include "arch/rows.h"

static const hy_family_io io = {
    .norm = HY_NORM_RMS, .act = HY_A_SILU,
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_mistral = {
    .name = "mistral", .gguf_arch = NULL, .hf_type = "mistral", .io = &io,
    HY_LLAMA_TABLES,
};
