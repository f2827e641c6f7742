/* Gemma 3, text: Gemma 2 without caps, with norms of each head; each sixth layer is full and has its
 * own rope. */
#include "arch/rows.h"
#include <math.h>

static const hy_name hf[] = {
    HY_NAME_P1(OUT_NORM, "norm"),
    HY_NAME_P1(ATTN_NORM, "layers.%u.input_layernorm"),
    HY_NAME_P1(ATTN_POST_NORM, "layers.%u.post_attention_layernorm"),
    HY_NAME_P1(FFN_NORM, "layers.%u.pre_feedforward_layernorm"),
    HY_NAME_P1(FFN_POST_NORM, "layers.%u.post_feedforward_layernorm"),
    HY_NAME_P1(Q_NORM, "layers.%u.self_attn.q_norm"),
    HY_NAME_P1(K_NORM, "layers.%u.self_attn.k_norm"),
};

/* configs of the models with vision leave these out */
static const hy_default defaults[] = {
    { "vocab_size", 262208 }, { "num_attention_heads", 8 }, { "num_key_value_heads", 4 },
    { "head_dim", 256 }, { "max_position_embeddings", 131072 }, { "rms_norm_eps", 1e-6 },
    { "query_pre_attn_scalar", 256 },
};

/* As Gemma 2; the 27B model has 62 layers. */
static hy_status derive(hy_hparams *hp, hy_err *err)
{
    if (hp->attn_scale == 0 && hp->n_layer == 62)
        hp->attn_scale = 1 / sqrt((double)hp->n_embd / hp->n_head);
    return hy_derive_gemma(hp, err);
}

static const hy_family_io io = {
    .norm = HY_NORM_RMS, .act = HY_A_GELU_TANH, .act_fixed = true,
    .rope_base = 1000000, .rope_base_local = 10000, .plain_local_rope = true, .window_every = 6,
    .hf = HY_TABLE(hf), .defaults = HY_TABLE(defaults),
    .hf_base = HY_TABLE(hy_hf_llama),
    .hf_prefix = "model.,language_model.model.,model.language_model.",
};

const hy_family hy_family_gemma3 = {
    .name = "gemma3", .gguf_arch = "gemma3", .hf_type = "gemma3_text,gemma3", .io = &io,
    .derive = derive,
    .tensors = HY_TABLE(hy_sandwich_tensors), .head = HY_TABLE(hy_head_plain),
    .block = HY_TABLE(hy_sandwich_block), .tail = HY_TABLE(hy_tail_capped),
};
