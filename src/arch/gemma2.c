/* Gemma 2: norms on both sides of each branch, soft caps, each second layer windowed. */
#include "arch/rows.h"
#include <math.h>

static const hy_name hf[] = {
    HY_NAME_P1(OUT_NORM, "norm"),
    HY_NAME_P1(ATTN_NORM, "layers.%u.input_layernorm"),
    HY_NAME_P1(ATTN_POST_NORM, "layers.%u.post_attention_layernorm"),
    HY_NAME_P1(FFN_NORM, "layers.%u.pre_feedforward_layernorm"),
    HY_NAME_P1(FFN_POST_NORM, "layers.%u.post_feedforward_layernorm"),
};

/* GGUF has no key for the score scale. It is 1/sqrt(d_k) but in the 27B model (46 layers), whose
 * published config says query_pre_attn_scalar = n_embd / n_head. */
static hy_status derive(hy_hparams *hp, hy_err *err)
{
    if (hp->attn_scale == 0 && hp->n_layer == 46)
        hp->attn_scale = 1 / sqrt((double)hp->n_embd / hp->n_head);
    return hy_derive_gemma(hp, err);
}

static const hy_family_io io = {
    .norm = HY_NORM_RMS, .act = HY_A_GELU_TANH, .act_fixed = true,
    .window_every = 2, .hf = HY_TABLE(hf),
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_gemma2 = {
    .name = "gemma2", .gguf_arch = "gemma2", .hf_type = "gemma2", .io = &io, .derive = derive,
    .tensors = HY_TABLE(hy_sandwich_tensors), .head = HY_TABLE(hy_head_plain),
    .block = HY_TABLE(hy_sandwich_block), .tail = HY_TABLE(hy_tail_capped),
};
