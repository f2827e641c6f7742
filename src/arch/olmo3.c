/* OLMo 3: OLMo 2 with windows; windowed layers rotate without scaling. */
#include "arch/rows.h"

static const hy_name hf[] = {
    HY_NAME(ATTN_POST_NORM, "layers.%u.post_attention_layernorm"),
    HY_NAME(FFN_POST_NORM, "layers.%u.post_feedforward_layernorm"),
};

static const hy_family_io io = {
    .norm = HY_NORM_RMS, .act = HY_A_SILU,
    .plain_local_rope = true, .window_every = 4, .hf = HY_TABLE(hf),
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_olmo3 = {
    .name = "olmo3", .gguf_arch = NULL, .hf_type = "olmo3", .io = &io,
    .tensors = HY_TABLE(hy_olmo2_tensors), .head = HY_TABLE(hy_head_plain),
    .block = HY_TABLE(hy_olmo2_block), .tail = HY_TABLE(hy_tail_plain),
};
