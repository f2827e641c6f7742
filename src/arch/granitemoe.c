/* Granite with experts: top-k of the router, then softmax over those. */
#include "arch/rows.h"

static const hy_name hf[] = {
    HY_NAME(ROUTER, "layers.%u.block_sparse_moe.router.layer"),
    { HY_W_E_GATE, "layers.%u.block_sparse_moe.input_linear", HY_PICK_FIRST, 0 },
    { HY_W_E_UP, "layers.%u.block_sparse_moe.input_linear", HY_PICK_SECOND, 0 },
    HY_NAME(E_DOWN, "layers.%u.block_sparse_moe.output_linear"),
};

static const hy_family_io io = {
    .norm = HY_NORM_RMS, .act = HY_A_SILU,
    .gating = HY_GATE_TOPK_SOFTMAX, .gguf_interleaved = true, .hf = HY_TABLE(hf),
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_granitemoe = {
    .name = "granitemoe", .gguf_arch = "granitemoe", .hf_type = "granitemoe", .io = &io,
    .derive = hy_derive_granite,
    .tensors = HY_TABLE(hy_llama_tensors), .head = HY_TABLE(hy_head_plain),
    .block = HY_TABLE(hy_llama_block), .tail = HY_TABLE(hy_tail_scaled),
};
