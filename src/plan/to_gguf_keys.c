/* A folder's hyper-parameters as the keys that params_gguf.c reads, and the rotary factors that GGUF
 * keeps as tensors. */
#include "plan/to_gguf_impl.h"
#include <math.h>
#include <stdio.h>

typedef struct keys {
    const hy_to_gguf *c;
    hy_gguf_writer *w;
    char key[160];
} keys;

static const char *key_of(keys *k, const char *suffix)
{
    snprintf(k->key, sizeof k->key, "%s.%s", k->c->arch, suffix);
    return k->key;
}

static hy_status put_u32(keys *k, const char *suffix, uint32_t v, hy_err *err)
{
    return hy_gguf_put_u32(k->w, key_of(k, suffix), v, err);
}

static hy_status put_f32(keys *k, const char *suffix, double v, hy_err *err)
{
    return hy_gguf_put_f32(k->w, key_of(k, suffix), (float)v, err);
}

/* A number that GGUF leaves out when it changes nothing. */
static hy_status put_unless(keys *k, const char *suffix, double v, double neutral, hy_err *err)
{
    return v == neutral ? HY_OK : put_f32(k, suffix, v, err);
}

static hy_status put_sizes(keys *k, const hy_hparams *hp, hy_err *err)
{
    HY_TRY(put_u32(k, "block_count", hp->n_layer, err));
    HY_TRY(put_u32(k, "context_length", hp->n_ctx_train, err));
    HY_TRY(put_u32(k, "embedding_length", hp->n_embd, err));
    HY_TRY(put_u32(k, "feed_forward_length", hp->n_ff, err));
    HY_TRY(put_u32(k, "attention.head_count", hp->n_head, err));
    HY_TRY(put_u32(k, "attention.head_count_kv", hp->n_kv_head, err));
    HY_TRY(put_u32(k, "attention.key_length", hp->d_k, err));
    HY_TRY(put_u32(k, "attention.value_length", hp->d_v, err));
    HY_TRY(put_u32(k, "vocab_size", hp->n_vocab, err));
    if (hp->n_expert == 0) return HY_OK;
    static const uint32_t gating[] = { [HY_GATE_SOFTMAX] = 1, [HY_GATE_SIGMOID] = 2, [HY_GATE_TOPK_SOFTMAX] = 3 };
    HY_TRY(put_u32(k, "expert_count", hp->n_expert, err));
    HY_TRY(put_u32(k, "expert_used_count", hp->n_expert_used, err));
    HY_TRY(put_u32(k, "expert_feed_forward_length", hp->n_ff_expert, err));
    if (hp->n_ff_shared && hy_family_has(k->c->m->family, HY_W_S_UP))
        HY_TRY(put_u32(k, "expert_shared_feed_forward_length", hp->n_ff_shared, err));
    HY_TRY(put_u32(k, "expert_gating_func", gating[hp->gating], err));
    HY_TRY(put_unless(k, "expert_weights_scale", hp->expert_scale, 1, err));
    return hy_gguf_put_bool(k->w, key_of(k, "expert_weights_norm"), hp->norm_topk, err);
}

/* The family's block is parallel or sequential as the file says. */
static bool has_both_forms(const hy_family *fam)
{
    for (uint32_t i = 0; i < fam->n_block_rows; i++)
        if (fam->block[i].when & (HY_IF_PARALLEL | HY_IF_SEQUENTIAL)) return true;
    return false;
}

/* Values that the family derives are not written; those it inverts are written the other way. */
static hy_status put_scales(keys *k, const hy_hparams *hp, hy_err *err)
{
    hy_hparams probe = *hp;
    probe.attn_scale = 0;
    probe.embd_scale = 1;
    probe.logit_scale = 2;
    if (k->c->to->derive) HY_TRY(k->c->to->derive(&probe, err));
    HY_TRY(put_f32(k, hp->norm == HY_NORM_RMS ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
                   hp->norm_eps, err));
    double own = probe.attn_scale != 0 ? probe.attn_scale : 1 / sqrt(hp->d_k);
    if (hp->attn_scale != own) HY_TRY(put_unless(k, "attention.scale", hp->attn_scale, 0, err));
    if (probe.embd_scale == 1) HY_TRY(put_unless(k, "embedding_scale", hp->embd_scale, 1, err));
    HY_TRY(put_unless(k, "residual_scale", hp->residual_scale, 1, err));
    HY_TRY(put_unless(k, "logit_scale", probe.logit_scale == 0.5 ? 1 / hp->logit_scale : hp->logit_scale, 1, err));
    HY_TRY(put_unless(k, "attn_logit_softcapping", hp->attn_softcap, 0, err));
    HY_TRY(put_unless(k, "final_logit_softcapping", hp->logit_softcap, 0, err));
    if (!has_both_forms(k->c->to)) return HY_OK;
    return hy_gguf_put_bool(k->w, key_of(k, "use_parallel_residual"), hp->parallel, err);
}

static hy_status put_windows(keys *k, const hy_hparams *hp, hy_err *err)
{
    uint32_t every = k->c->to->io->window_every, n = 0;
    bool by_rule = true;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        bool windowed = hp->layer[i].window != 0;
        n += windowed;
        by_rule &= windowed == (every == 0 || (i + 1) % every != 0);
    }
    if (n == 0) return HY_OK;
    HY_TRY(put_u32(k, "attention.sliding_window", hp->window, err));
    /* other readers know the rule of most families, but want these to spell it out */
    bool spelled = strcmp(k->c->arch, "olmo2") == 0 || strcmp(k->c->arch, "exaone4") == 0;
    if (by_rule && !spelled) return HY_OK;
    uint8_t *flag = hy_calloc(hp->n_layer, 1);
    if (!flag) return hy_fail_memory(err, "window pattern", hp->n_layer);
    for (uint32_t i = 0; i < hp->n_layer; i++) flag[i] = hp->layer[i].window != 0;
    hy_meta m = { .key = key_of(k, "attention.sliding_window_pattern"), .type = HY_M_ARRAY, .item = HY_M_BOOL,
                  .n = hp->n_layer, .data = flag };
    hy_status s = hy_gguf_put_meta(k->w, &m, err);
    hy_free(flag);
    return s;
}

/* ---- ropes --------------------------------------------------------------------------------------- */

/* Which layers rotate, and how, is a rule of the family in GGUF; a model that departs from it has no
 * GGUF form. */
static hy_status check_layers(const hy_to_gguf *c, const hy_hparams *hp, bool local, hy_err *err)
{
    const hy_family_io *io = c->to->io;
    bool any_window = false;
    for (uint32_t i = 0; i < hp->n_layer; i++) any_window |= hp->layer[i].window != 0;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        bool windowed = hp->layer[i].window != 0, rope = !io->no_rope;
        if (io->no_rope_every) rope = rope && (i + 1) % io->no_rope_every != 0;
        if (io->full_no_rope && any_window && !windowed) rope = false;
        int want = !rope ? -1 : windowed && local ? 1 : 0;
        if (hp->layer[i].rope != want)
            return hy_fail(err, HY_E_UNSUPPORTED, "layer %u %s, which a GGUF of %s cannot say", i,
                           hp->layer[i].rope < 0 ? "has no rope" : "has a rope of its own", c->arch);
    }
    return HY_OK;
}

static hy_status put_scaling(keys *k, const hy_rope *r, hy_err *err)
{
    if (r->kind == HY_ROPE_PLAIN || r->kind == HY_ROPE_LLAMA3) return HY_OK; /* llama3: rope_freqs */
    if (r->kind == HY_ROPE_DYNAMIC)
        return hy_fail(err, HY_E_UNSUPPORTED, "GGUF has no form for dynamic rope scaling");
    const char *type = r->kind == HY_ROPE_LINEAR ? "linear" : r->kind == HY_ROPE_YARN ? "yarn" : "longrope";
    HY_TRY(hy_gguf_put_str(k->w, key_of(k, "rope.scaling.type"), type, err));
    HY_TRY(put_f32(k, "rope.scaling.factor", r->factor, err));
    if (r->kind == HY_ROPE_LINEAR) return HY_OK;
    HY_TRY(put_u32(k, "rope.scaling.original_context_length", r->n_ctx_orig, err));
    if (r->kind == HY_ROPE_LONGROPE) return put_f32(k, "rope.scaling.attn_factor", r->attn_factor, err);
    if (!r->truncate)
        hy_log(HY_LOG_WARN, "quantize_rope", "detail=\"GGUF cannot say that YaRN's range is not rounded\"");
    /* readers multiply by YaRN's own factor */
    double own = hy_yarn_attn_factor(r->factor, 1);
    if (fabs(r->attn_factor - own) > 1e-6 * own) HY_TRY(put_f32(k, "rope.scaling.attn_factor", r->attn_factor / own, err));
    HY_TRY(put_f32(k, "rope.scaling.yarn_beta_fast", r->beta_fast, err));
    return put_f32(k, "rope.scaling.yarn_beta_slow", r->beta_slow, err);
}

static hy_status put_ropes(keys *k, const hy_hparams *hp, hy_err *err)
{
    const hy_family_io *io = k->c->to->io;
    bool used[2] = { false, false };
    for (uint32_t i = 0; i < hp->n_layer; i++)
        if (hp->layer[i].rope >= 0) used[hp->layer[i].rope] = true;
    HY_TRY(check_layers(k->c, hp, used[1] || io->plain_local_rope, err));
    if (!used[0] && !used[1]) return HY_OK;
    const hy_rope *r = &hp->rope[0], *l = &hp->rope[1];
    HY_TRY(put_u32(k, "rope.dimension_count", r->n_rot, err));
    HY_TRY(put_f32(k, "rope.freq_base", r->base, err));
    HY_TRY(put_scaling(k, r, err));
    if (used[1] && (l->kind != HY_ROPE_PLAIN || l->n_rot != r->n_rot))
        return hy_fail(err, HY_E_UNSUPPORTED, "GGUF has no form for a scaled rope in windowed layers");
    return used[1] ? put_f32(k, "rope.freq_base_swa", l->base, err) : HY_OK;
}

hy_status hy_to_gguf_keys(const hy_to_gguf *c, hy_gguf_writer *w, hy_err *err)
{
    keys k = { .c = c, .w = w };
    const hy_hparams *hp = &c->m->hp;
    HY_TRY(hy_gguf_put_str(w, "general.architecture", c->arch, err));
    HY_TRY(put_sizes(&k, hp, err));
    HY_TRY(put_scales(&k, hp, err));
    HY_TRY(put_windows(&k, hp, err));
    return put_ropes(&k, hp, err);
}

/* ---- rotary factors as tensors ------------------------------------------------------------------- */

static hy_status put_factors(hy_to_gguf *c, const char *name, const float *values, uint32_t n, hy_err *err)
{
    hy_out *o = hy_to_gguf_more(c, err);
    if (!o) return HY_E_MEMORY;
    snprintf(o->t.name, sizeof o->t.name, "%s", name);
    o->t.n_dims = 1;
    o->t.dim[0] = n;
    o->t.n_row = 1;
    o->t.type = HY_Q_F32;
    o->values = values;
    return HY_OK;
}

/* Llama 3.1's scaling (Meta's release; as in transformers' "llama3" rope) as one divisor a frequency. */
static hy_status llama3_factors(hy_to_gguf *c, const hy_rope *r, hy_err *err)
{
    size_t n = r->n_rot / 2;
    float *f = HY_ARENA_NEW(c->arena, float, n);
    if (!f) return hy_fail_memory(err, "rope factors", n * sizeof *f);
    for (size_t i = 0; i < n; i++) {
        double turns = r->n_ctx_orig * pow(r->base, -2.0 * (double)i / r->n_rot) / (2 * 3.14159265358979323846);
        double smooth = (turns - r->low_freq) / (r->high_freq - r->low_freq);
        smooth = HY_MIN(1, HY_MAX(0, smooth));
        f[i] = (float)(1 / ((1 - smooth) / r->factor + smooth));
    }
    return put_factors(c, "rope_freqs.weight", f, (uint32_t)n, err);
}

hy_status hy_to_gguf_ropes(hy_to_gguf *c, hy_err *err)
{
    const hy_rope *r = &c->m->hp.rope[0];
    if (c->to->io->no_rope) return HY_OK;
    if (r->kind == HY_ROPE_LLAMA3) return llama3_factors(c, r, err);
    if (r->kind != HY_ROPE_LONGROPE) return HY_OK;
    HY_TRY(put_factors(c, "rope_factors_long.weight", r->long_factors, r->n_rot / 2, err));
    return put_factors(c, "rope_factors_short.weight", r->short_factors, r->n_rot / 2, err);
}
