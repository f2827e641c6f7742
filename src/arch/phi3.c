/* Phi 3, 3.5 and 4: Llama with fused matrices and LongRoPE. */
#include "arch/rows.h"

static const hy_name gguf[] = { HY_NAMES_GGUF_QKV, HY_NAMES_GGUF_GATE_UP };

static const hy_name hf[] = {
    { HY_W_Q, "layers.%u.self_attn.qkv_proj", HY_PICK_Q, 0 },
    { HY_W_K, "layers.%u.self_attn.qkv_proj", HY_PICK_K, 0 },
    { HY_W_V, "layers.%u.self_attn.qkv_proj", HY_PICK_V, 0 },
    { HY_W_GATE, "layers.%u.mlp.gate_up_proj", HY_PICK_FIRST, 0 },
    { HY_W_UP, "layers.%u.mlp.gate_up_proj", HY_PICK_SECOND, 0 },
};

static const hy_family_io io = {
    .norm = HY_NORM_RMS, .act = HY_A_SILU,
    .gguf = HY_TABLE(gguf), .hf = HY_TABLE(hf),
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_phi3 = {
    .name = "phi3", .gguf_arch = "phi3", .hf_type = "phi3", .io = &io,
    HY_LLAMA_TABLES,
};
