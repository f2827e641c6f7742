/* Hyper-parameters from GGUF metadata: `<architecture>.<key>`. */
#include "plan/load.h"
#include <math.h>
#include <stdio.h>

typedef struct reader {
    hy_draft *d;
    const hy_file *f;
    char arch[64];
    char key[160]; /* of the last look-up */
} reader;

static const char *key_of(reader *r, const char *suffix)
{
    snprintf(r->key, sizeof r->key, "%s.%s", r->arch, suffix);
    return r->key;
}

static const hy_meta *meta(reader *r, const char *suffix)
{
    return hy_file_meta(r->f, key_of(r, suffix));
}

static hy_status get_u32(reader *r, const char *suffix, bool needed, uint64_t min, uint64_t max,
                         uint32_t *out, hy_err *err)
{
    uint64_t v = *out;
    HY_TRY(hy_meta_u64(r->f, key_of(r, suffix), needed, min, max, &v, err));
    *out = (uint32_t)v;
    return HY_OK;
}

static hy_status get_f64(reader *r, const char *suffix, bool needed, double *out, hy_err *err)
{
    return hy_meta_f64(r->f, key_of(r, suffix), needed, out, err);
}

/* A number for all layers or an array of one each. `field`: offset in hy_layer_params. *max_out:
 * the largest. Absent: `absent` (0: the key is needed). */
static hy_status get_per_layer(reader *r, const char *suffix, uint32_t absent, uint64_t limit,
                               size_t field, uint32_t *max_out, hy_err *err)
{
    hy_hparams *hp = r->d->hp;
    const hy_meta *m = meta(r, suffix);
    uint64_t one = absent, largest = 0;
    bool array = m && m->type == HY_M_ARRAY;
    if (!array) HY_TRY(hy_meta_u64(r->f, r->key, absent == 0, 1, limit, &one, err));
    if (array && m->n < hp->n_layer)
        return hy_fail(err, HY_E_FORMAT, "%s has %llu items: must be %u (layers)", r->key,
                       (unsigned long long)m->n, hp->n_layer);
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        uint64_t v = one;
        if (array && !hy_meta_item_u64(m, i, &v))
            return hy_fail(err, HY_E_FORMAT, "%s[%u] is no number", r->key, i);
        if (v < 1 || v > limit)
            return hy_fail(err, HY_E_FORMAT, "%s[%u] is %llu: must be 1..%llu", r->key, i,
                           (unsigned long long)v, (unsigned long long)limit);
        uint32_t v32 = (uint32_t)v;
        memcpy((char *)&hp->layer[i] + field, &v32, sizeof v32);
        largest = HY_MAX(largest, v);
    }
    *max_out = (uint32_t)largest;
    return HY_OK;
}

static hy_status read_sizes(reader *r, hy_err *err)
{
    hy_hparams *hp = r->d->hp;
    HY_TRY(get_u32(r, "block_count", true, 1, HY_LAYERS_MAX, &hp->n_layer, err));
    HY_TRY(get_u32(r, "embedding_length", true, 1, HY_EMBD_MAX, &hp->n_embd, err));
    HY_TRY(get_u32(r, "context_length", true, 1, HY_CTX_MAX, &hp->n_ctx_train, err));
    HY_TRY(hy_params_alloc_layers(r->d, err));
    HY_TRY(get_per_layer(r, "attention.head_count", 0, HY_HEADS_MAX,
                         offsetof(hy_layer_params, n_head), &hp->n_head, err));
    if (meta(r, "attention.head_count_kv")) {
        HY_TRY(get_per_layer(r, "attention.head_count_kv", 0, HY_HEADS_MAX,
                             offsetof(hy_layer_params, n_kv_head), &hp->n_kv_head, err));
    } else {
        hp->n_kv_head = hp->n_head;
        for (uint32_t i = 0; i < hp->n_layer; i++) hp->layer[i].n_kv_head = hp->layer[i].n_head;
    }
    HY_TRY(get_u32(r, "expert_count", false, 0, HY_EXPERTS_MAX, &hp->n_expert, err));
    HY_TRY(get_u32(r, "expert_used_count", false, 0, HY_EXPERTS_MAX, &hp->n_expert_used, err));
    HY_TRY(get_u32(r, "expert_feed_forward_length", false, 1, HY_FF_MAX, &hp->n_ff_expert, err));
    HY_TRY(get_per_layer(r, "feed_forward_length", hp->n_ff_expert, HY_FF_MAX,
                         offsetof(hy_layer_params, n_ff), &hp->n_ff, err));
    hp->n_ff_shared = hp->n_ff;
    HY_TRY(get_u32(r, "expert_shared_feed_forward_length", false, 1, HY_FF_MAX, &hp->n_ff_shared,
                   err));
    if (!meta(r, "attention.key_length") && hp->n_embd % hp->n_head)
        return hy_fail(err, HY_E_FORMAT,
                       "%s is absent and %s.embedding_length %u is no multiple of the %u heads",
                       r->key, r->arch, hp->n_embd, hp->n_head);
    hp->d_k = hp->n_embd / hp->n_head;
    HY_TRY(get_u32(r, "attention.key_length", false, 1, HY_HEAD_DIM_MAX, &hp->d_k, err));
    hp->d_v = hp->d_k;
    return get_u32(r, "attention.value_length", false, 1, HY_HEAD_DIM_MAX, &hp->d_v, err);
}

static hy_status read_vocab(reader *r, hy_err *err)
{
    hy_hparams *hp = r->d->hp;
    const hy_tensor *embd = hy_file_tensor(r->f, "token_embd.weight");
    if (!embd) { /* a file of the vocabulary alone */
        const hy_meta *tokens = hy_file_meta(r->f, "tokenizer.ggml.tokens");
        hp->n_vocab = tokens ? (uint32_t)HY_MIN(tokens->n, HY_VOCAB_MAX) : 0;
        return get_u32(r, "vocab_size", hp->n_vocab == 0, 1, HY_VOCAB_MAX, &hp->n_vocab, err);
    }
    if (embd->dim[1] < 1 || embd->dim[1] > HY_VOCAB_MAX)
        return hy_fail(err, HY_E_FORMAT, "token_embd.weight has %llu rows: must be 1..%u",
                       (unsigned long long)embd->dim[1], HY_VOCAB_MAX);
    hp->n_vocab = (uint32_t)embd->dim[1];
    return HY_OK;
}

static hy_status read_scales(reader *r, hy_err *err)
{
    hy_hparams *hp = r->d->hp;
    HY_TRY(get_f64(r,
                   hp->norm == HY_NORM_RMS ? "attention.layer_norm_rms_epsilon"
                                           : "attention.layer_norm_epsilon",
                   true, &hp->norm_eps, err));
    HY_TRY(get_f64(r, "attention.scale", false, &hp->attn_scale, err));
    HY_TRY(get_f64(r, "embedding_scale", false, &hp->embd_scale, err));
    HY_TRY(get_f64(r, "residual_scale", false, &hp->residual_scale, err));
    HY_TRY(get_f64(r, "logit_scale", false, &hp->logit_scale, err));
    HY_TRY(get_f64(r, "attn_logit_softcapping", false, &hp->attn_softcap, err));
    HY_TRY(get_f64(r, "final_logit_softcapping", false, &hp->logit_softcap, err));
    HY_TRY(get_f64(r, "expert_weights_scale", false, &hp->expert_scale, err));
    HY_TRY(hy_meta_bool(r->f, key_of(r, "expert_weights_norm"), false, &hp->norm_topk, err));
    HY_TRY(hy_meta_bool(r->f, key_of(r, "use_parallel_residual"), false, &hp->parallel, err));
    uint32_t gating = 0; /* 1 softmax, 2 sigmoid, 3 softmax of the chosen */
    HY_TRY(get_u32(r, "expert_gating_func", false, 0, 3, &gating, err));
    static const hy_gating kinds[] = {HY_GATE_SOFTMAX, HY_GATE_SOFTMAX, HY_GATE_SIGMOID,
                                      HY_GATE_TOPK_SOFTMAX};
    if (gating) hp->gating = kinds[gating];
    return HY_OK;
}

static hy_status read_windows(reader *r, hy_err *err)
{
    hy_hparams *hp = r->d->hp;
    HY_TRY(get_u32(r, "attention.sliding_window", false, 0, HY_CTX_MAX, &hp->window, err));
    const hy_meta *m = meta(r, "attention.sliding_window_pattern");
    if (!m) return HY_OK;
    if (m->type != HY_M_ARRAY)
        return get_u32(r, "attention.sliding_window_pattern", false, 1, HY_LAYERS_MAX,
                       &r->d->window_every, err);
    if (m->n < hp->n_layer)
        return hy_fail(err, HY_E_FORMAT, "%s has %llu items: must be %u (layers)", r->key,
                       (unsigned long long)m->n, hp->n_layer);
    r->d->windowed = HY_ARENA_NEW(r->d->arena, uint8_t, hp->n_layer);
    if (!r->d->windowed) return hy_fail_memory(err, "window pattern", hp->n_layer);
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        uint64_t v = 0;
        if (m->item == HY_M_BOOL)
            v = ((const uint8_t *)m->data)[i];
        else if (!hy_meta_item_u64(m, i, &v))
            return hy_fail(err, HY_E_FORMAT, "%s[%u] is no truth value", r->key, i);
        r->d->windowed[i] = v != 0;
    }
    return HY_OK;
}

/* Frequency factors: a tensor of n_rot / 2 numbers. *out stays NULL when the file has none. */
static hy_status read_factors(reader *r, const char *name, const float **out, hy_err *err)
{
    const hy_tensor *t = hy_file_tensor(r->f, name);
    if (!t || !t->data) return HY_OK;
    uint64_t n = r->d->hp->rope[0].n_rot / 2;
    if (!t->known || !hy_quant(t->qtype)->is_float)
        return hy_fail(err, HY_E_UNSUPPORTED, "%s: type %u; must be a float type", name,
                       t->ggml_type);
    if (t->dim[0] != n || t->n_dims != 1)
        return hy_fail(err, HY_E_FORMAT, "%s has %llu numbers: must be %llu (half the rope)", name,
                       (unsigned long long)t->dim[0], (unsigned long long)n);
    float *f = HY_ARENA_NEW(r->d->arena, float, n);
    if (!f) return hy_fail_memory(err, name, n * sizeof *f);
    hy_quant(t->qtype)->unpack(t->data, f, n);
    for (uint64_t i = 0; i < n; i++)
        if (!(f[i] > 0) || !isfinite(f[i]))
            return hy_fail(err, HY_E_FORMAT, "%s[%llu] is %g: must be above 0", name,
                           (unsigned long long)i, f[i]);
    *out = f;
    return HY_OK;
}

static bool str_is(hy_str s, const char *t) { return s.n == strlen(t) && memcmp(s.p, t, s.n) == 0; }

static hy_status rope_kind(reader *r, hy_rope *rope, hy_err *err)
{
    static const struct {
        const char *name;
        hy_rope_kind kind;
    } kinds[] = {
        {"none", HY_ROPE_PLAIN},
        {"linear", HY_ROPE_LINEAR},
        {"yarn", HY_ROPE_YARN},
        {"longrope", HY_ROPE_LONGROPE},
    };
    hy_str type = {"none", 4};
    HY_TRY(hy_meta_string(r->f, key_of(r, "rope.scaling.type"), false, &type, err));
    for (size_t i = 0; i < HY_COUNT(kinds); i++) {
        if (!str_is(type, kinds[i].name)) continue;
        rope->kind = kinds[i].kind;
        return HY_OK;
    }
    return hy_fail(err, HY_E_UNSUPPORTED, "%s is %.*s; known: none, linear, yarn, longrope", r->key,
                   (int)HY_MIN(type.n, 40), type.p);
}

static hy_status read_rope(reader *r, hy_err *err)
{
    hy_hparams *hp = r->d->hp;
    hy_rope *rope = &hp->rope[0];
    rope->n_rot = hp->d_k;
    HY_TRY(get_u32(r, "rope.dimension_count", false, 1, hp->d_k, &rope->n_rot, err));
    HY_TRY(get_f64(r, "rope.freq_base", false, &rope->base, err));
    HY_TRY(rope_kind(r, rope, err));
    HY_TRY(get_f64(r, "rope.scaling.factor", false, &rope->factor, err));
    if (meta(r, "rope.scale_linear") && rope->kind == HY_ROPE_PLAIN) { /* an old name */
        rope->kind = HY_ROPE_LINEAR;
        HY_TRY(get_f64(r, "rope.scale_linear", false, &rope->factor, err));
    }
    if (rope->factor == 0) rope->factor = 1;
    rope->n_ctx_orig = hp->n_ctx_train;
    HY_TRY(get_u32(r, "rope.scaling.original_context_length", false, 1, HY_CTX_MAX,
                   &rope->n_ctx_orig, err));
    HY_TRY(get_f64(r, "rope.scaling.attn_factor", false, &rope->attn_factor, err));
    HY_TRY(get_f64(r, "rope.scaling.yarn_attn_factor", false, &rope->attn_factor, err));
    HY_TRY(get_f64(r, "rope.scaling.yarn_ext_factor", false, &rope->ext_factor, err));
    HY_TRY(get_f64(r, "rope.scaling.yarn_beta_fast", false, &rope->beta_fast, err));
    HY_TRY(get_f64(r, "rope.scaling.yarn_beta_slow", false, &rope->beta_slow, err));
    if (rope->kind == HY_ROPE_YARN) rope->attn_factor *= hy_yarn_attn_factor(rope->factor, 1);
    rope->truncate = !r->d->family->io->gguf_exact_yarn;
    if (rope->n_rot < 2) return HY_OK; /* said by the checks if a layer rotates */
    HY_TRY(read_factors(r, "rope_freqs.weight", &rope->freq_factors, err));
    HY_TRY(read_factors(r, "rope_factors_long.weight", &rope->long_factors, err));
    HY_TRY(read_factors(r, "rope_factors_short.weight", &rope->short_factors, err));
    if (rope->long_factors && rope->short_factors) rope->kind = HY_ROPE_LONGROPE;
    if (!meta(r, "rope.freq_base_swa")) return HY_OK;
    hy_rope *local = &hp->rope[1];
    local->n_rot = rope->n_rot;
    r->d->local_rope = true;
    return get_f64(r, "rope.freq_base_swa", false, &local->base, err);
}

hy_status hy_params_gguf(hy_draft *d, hy_err *err)
{
    reader r = {.d = d, .f = d->file};
    hy_str arch = {"", 0};
    HY_TRY(hy_meta_string(d->file, "general.architecture", true, &arch, err));
    snprintf(r.arch, sizeof r.arch, "%.*s", (int)HY_MIN(arch.n, sizeof r.arch - 1), arch.p);
    HY_TRY(read_sizes(&r, err));
    HY_TRY(read_vocab(&r, err));
    HY_TRY(read_scales(&r, err));
    HY_TRY(read_windows(&r, err));
    return read_rope(&r, err);
}
