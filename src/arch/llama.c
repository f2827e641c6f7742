/* Llama 2 and 3, and what GGUF files call llama: Mistral, Mixtral, SmolLM 2.
 * GGUF keeps Q and K as interleaved pairs, safetensors as halves. */
#include "arch/rows.h"

static const hy_family_io io = {
    .norm = HY_NORM_RMS, .act = HY_A_SILU,
    .gating = HY_GATE_SOFTMAX, .norm_topk = true, .gguf_interleaved = true,
    .gguf = HY_TABLE(hy_gguf_experts),
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_llama = {
    .name = "llama", .gguf_arch = "llama", .hf_type = "llama", .io = &io,
    HY_LLAMA_TABLES,
};
