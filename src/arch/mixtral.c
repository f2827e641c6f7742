/* Mixtral: Llama with experts; softmax over all, then the chosen divided by their sum. Its GGUF
 * files say llama. */
#include "arch/rows.h"

static const hy_name hf[] = {
    HY_NAME(ROUTER, "layers.%u.block_sparse_moe.gate"),
    HY_NAME(E_GATE, "layers.%u.block_sparse_moe.experts.%u.w1"),
    HY_NAME(E_UP, "layers.%u.block_sparse_moe.experts.%u.w3"),
    HY_NAME(E_DOWN, "layers.%u.block_sparse_moe.experts.%u.w2"),
    HY_NAME(ROUTER, "layers.%u.mlp.gate"),
    { HY_W_E_GATE, "layers.%u.mlp.experts.gate_up_proj", HY_PICK_FIRST, HY_BARE },
    { HY_W_E_UP, "layers.%u.mlp.experts.gate_up_proj", HY_PICK_SECOND, HY_BARE },
    { HY_W_E_DOWN, "layers.%u.mlp.experts.down_proj", HY_PICK_ALL, HY_BARE },
};
static const hy_family_io io = {
    .norm = HY_NORM_RMS, .act = HY_A_SILU,
    .gating = HY_GATE_SOFTMAX, .norm_topk = true, .hf = HY_TABLE(hf),
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_mixtral = {
    .name = "mixtral", .gguf_arch = NULL, .hf_type = "mixtral", .io = &io,
    HY_LLAMA_TABLES,
};
