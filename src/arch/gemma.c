/* Gemma: Llama with gelu, embeddings times sqrt(n_embd); safetensors store norms as w for 1 + w. */
#include "arch/rows.h"
#include <math.h>

static const hy_name hf[] = {
    HY_NAME_P1(OUT_NORM, "norm"),
    HY_NAME_P1(ATTN_NORM, "layers.%u.input_layernorm"),
    HY_NAME_P1(FFN_NORM, "layers.%u.post_attention_layernorm"),
};

hy_status hy_derive_gemma(hy_hparams *hp, hy_err *err)
{
    /* in single precision, as the reference does */
    hp->embd_scale = (float)sqrt((double)hp->n_embd);
    return HY_OK;
}

static const hy_family_io io = {
    .norm = HY_NORM_RMS, .act = HY_A_GELU_TANH, .act_fixed = true,
    .hf = HY_TABLE(hf),
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_gemma = {
    .name = "gemma", .gguf_arch = "gemma", .hf_type = "gemma", .io = &io, .derive = hy_derive_gemma,
    HY_LLAMA_TABLES,
};
