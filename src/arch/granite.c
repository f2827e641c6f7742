/* Granite: Llama with scales on embeddings, scores, branches and logits. */
#include "arch/rows.h"

hy_status hy_derive_granite(hy_hparams *hp, hy_err *err)
{
    if (hp->logit_scale == 0)
        return hy_fail(err, HY_E_FORMAT, "logit scale is 0: logits cannot be divided by it");
    hp->logit_scale = 1 / hp->logit_scale;
    return HY_OK;
}

static const hy_family_io io = {
    .norm = HY_NORM_RMS, .act = HY_A_SILU,
    .gguf_interleaved = true,
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_granite = {
    .name = "granite", .gguf_arch = "granite", .hf_type = "granite", .io = &io,
    .derive = hy_derive_granite,
    .tensors = HY_TABLE(hy_llama_tensors), .head = HY_TABLE(hy_head_plain),
    .block = HY_TABLE(hy_llama_block), .tail = HY_TABLE(hy_tail_scaled),
};
