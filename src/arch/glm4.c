/* GLM 4: norms on both sides of each branch, half of each head rotated in interleaved pairs, gate
 * and up in one matrix. */
#include "arch/rows.h"

static const hy_name gguf[] = { HY_NAMES_GGUF_GATE_UP };

static const hy_name hf[] = {
    HY_NAME(ATTN_POST_NORM, "layers.%u.post_self_attn_layernorm"),
    HY_NAME(FFN_POST_NORM, "layers.%u.post_mlp_layernorm"),
    { HY_W_GATE, "layers.%u.mlp.gate_up_proj", HY_PICK_FIRST, 0 },
    { HY_W_UP, "layers.%u.mlp.gate_up_proj", HY_PICK_SECOND, 0 },
};

static const hy_family_io io = {
    .norm = HY_NORM_RMS, .act = HY_A_SILU,
    .gguf_interleaved = true, .hf_interleaved = true, .gguf = HY_TABLE(gguf), .hf = HY_TABLE(hf),
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_glm4 = {
    .name = "glm4", .gguf_arch = "glm4", .hf_type = "glm4", .io = &io,
    .tensors = HY_TABLE(hy_sandwich_tensors), .head = HY_TABLE(hy_head_plain),
    .block = HY_TABLE(hy_sandwich_block), .tail = HY_TABLE(hy_tail_plain),
};
