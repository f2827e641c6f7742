/* Hyper-parameters from config.json, as hub checkpoints have it (rope_theta, rope_scaling) and as
 * transformers 5 saves it (rope_parameters, by kind of layer where ropes differ). */
#include "plan/load.h"
#include <math.h>

/* The first of the "a|b|c" keys that is there and not null. */
static json_t *pick(const json_t *o, const char *keys, char name[64])
{
    while (*keys) {
        size_t n = strcspn(keys, "|");
        if (n < 64) {
            memcpy(name, keys, n);
            name[n] = 0;
            json_t *v = json_object_get(o, name);
            if (v && !json_is_null(v)) return v;
        }
        keys += n;
        if (*keys == '|') keys++;
    }
    return NULL;
}

static const hy_default *default_of(const hy_family_io *io, const char *keys)
{
    for (uint32_t i = 0; i < io->n_defaults; i++) {
        size_t n = strlen(io->defaults[i].key);
        if (strncmp(keys, io->defaults[i].key, n) == 0 && (keys[n] == 0 || keys[n] == '|'))
            return &io->defaults[i];
    }
    return NULL;
}

typedef struct reader {
    hy_draft *d;
    const json_t *cfg; /* config.json, or its text_config */
    const hy_family_io *io;
} reader;

static hy_status get_u32(const reader *r, const char *keys, bool needed, uint64_t min, uint64_t max,
                         uint32_t *out, hy_err *err)
{
    char name[64];
    const json_t *v = pick(r->cfg, keys, name);
    const hy_default *def = v ? NULL : default_of(r->io, keys);
    if (!v && !def && needed)
        return hy_fail(err, HY_E_FORMAT, "config.json: %.*s is absent", (int)strcspn(keys, "|"),
                       keys);
    if (!v && !def) return HY_OK;
    if (v && !json_is_integer(v))
        return hy_fail(err, HY_E_FORMAT, "config.json: %s is no whole number", name);
    json_int_t i = v ? json_integer_value(v) : (json_int_t)def->value;
    if (i < 0 || (uint64_t)i < min || (uint64_t)i > max)
        return hy_fail(err, HY_E_FORMAT, "config.json: %s is %lld: must be %llu..%llu",
                       v ? name : def->key, (long long)i, (unsigned long long)min,
                       (unsigned long long)max);
    *out = (uint32_t)i;
    return HY_OK;
}

static hy_status get_f64_in(const json_t *o, const char *keys, double *out, hy_err *err)
{
    char name[64];
    const json_t *v = pick(o, keys, name);
    if (!v) return HY_OK;
    if (!json_is_number(v)) return hy_fail(err, HY_E_FORMAT, "config.json: %s is no number", name);
    *out = json_number_value(v);
    return HY_OK;
}

static hy_status get_f64(const reader *r, const char *keys, bool needed, double *out, hy_err *err)
{
    char name[64];
    if (!pick(r->cfg, keys, name)) {
        const hy_default *def = default_of(r->io, keys);
        if (def)
            *out = def->value;
        else if (needed)
            return hy_fail(err, HY_E_FORMAT, "config.json: %.*s is absent", (int)strcspn(keys, "|"),
                           keys);
        return HY_OK;
    }
    return get_f64_in(r->cfg, keys, out, err);
}

static hy_status refuse(const reader *r, hy_err *err)
{
    for (uint32_t i = 0; i < r->io->n_refuse; i++) {
        const json_t *v = json_object_get(r->cfg, r->io->refuse[i].key);
        if (!json_is_boolean(v) || json_is_true(v) != r->io->refuse[i].value) continue;
        return hy_fail(err, HY_E_UNSUPPORTED, "config.json: %s = %s is not supported for %s",
                       r->io->refuse[i].key, json_is_true(v) ? "true" : "false",
                       r->d->family->name);
    }
    const json_t *clip = json_object_get(r->cfg, "clip_qkv");
    if (json_is_number(clip))
        return hy_fail(err, HY_E_UNSUPPORTED, "config.json: clip_qkv = %g is not supported",
                       json_number_value(clip));
    const json_t *quant = json_object_get(r->d->file->config, "quantization_config");
    if (json_is_object(quant)) {
        const char *method = json_string_value(json_object_get(quant, "quant_method"));
        return hy_fail(err, HY_E_UNSUPPORTED,
                       "config.json: weights quantised by %.40s; only float safetensors are read",
                       method ? method : "an unnamed method");
    }
    return HY_OK;
}

/* Falcon says KV heads in three ways. */
static hy_status read_kv_heads(const reader *r, hy_err *err)
{
    hy_hparams *hp = r->d->hp;
    hp->n_kv_head = hp->n_head;
    const json_t *multi = json_object_get(r->cfg, "multi_query");
    if (multi && !json_is_true(json_object_get(r->cfg, "new_decoder_architecture"))) {
        if (json_is_true(multi)) hp->n_kv_head = 1;
        return HY_OK;
    }
    return get_u32(r, "num_key_value_heads|num_kv_heads", false, 1, HY_HEADS_MAX, &hp->n_kv_head,
                   err);
}

static hy_status read_sizes(const reader *r, hy_err *err)
{
    hy_hparams *hp = r->d->hp;
    HY_TRY(get_u32(r, "num_hidden_layers|n_layer", true, 1, HY_LAYERS_MAX, &hp->n_layer, err));
    HY_TRY(get_u32(r, "hidden_size|n_embd", true, 1, HY_EMBD_MAX, &hp->n_embd, err));
    HY_TRY(get_u32(r, "vocab_size", true, 1, HY_VOCAB_MAX, &hp->n_vocab, err));
    hp->n_ctx_train = 2048; /* falcon-7b's config is silent */
    HY_TRY(get_u32(r, "max_position_embeddings|n_positions|n_ctx", false, 1, HY_CTX_MAX,
                   &hp->n_ctx_train, err));
    HY_TRY(get_u32(r, "num_attention_heads|n_head", true, 1, HY_HEADS_MAX, &hp->n_head, err));
    HY_TRY(read_kv_heads(r, err));
    hp->d_k = 0;
    HY_TRY(get_u32(r, "head_dim", false, 1, HY_HEAD_DIM_MAX, &hp->d_k, err));
    if (hp->d_k == 0 && hp->n_embd % hp->n_head)
        return hy_fail(err, HY_E_FORMAT,
                       "config.json: hidden size %u is no multiple of the %u heads", hp->n_embd,
                       hp->n_head);
    if (hp->d_k == 0) hp->d_k = hp->n_embd / hp->n_head;
    hp->d_v = hp->d_k;
    hp->n_ff = 4 * hp->n_embd; /* GPT-2, Falcon */
    HY_TRY(get_u32(r, "intermediate_size|ffn_hidden_size|n_inner", false, 1, HY_FF_MAX, &hp->n_ff,
                   err));
    HY_TRY(
        get_u32(r, "num_local_experts|num_experts", false, 0, HY_EXPERTS_MAX, &hp->n_expert, err));
    if (hp->n_expert)
        HY_TRY(get_u32(r, "num_experts_per_tok", true, 1, HY_EXPERTS_MAX, &hp->n_expert_used, err));
    HY_TRY(get_u32(r, "moe_intermediate_size", false, 1, HY_FF_MAX, &hp->n_ff_expert, err));
    HY_TRY(
        get_u32(r, "shared_expert_intermediate_size", false, 1, HY_FF_MAX, &hp->n_ff_shared, err));
    HY_TRY(hy_params_alloc_layers(r->d, err));
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        hp->layer[i].n_head = hp->n_head;
        hp->layer[i].n_kv_head = hp->n_kv_head;
        hp->layer[i].n_ff = hp->n_ff;
    }
    return HY_OK;
}

static hy_status read_act(const reader *r, hy_err *err)
{
    static const struct {
        const char *name;
        hy_act_kind act;
    } acts[] = {
        {"silu", HY_A_SILU},
        {"swish", HY_A_SILU},
        {"gelu", HY_A_GELU},
        {"gelu_new", HY_A_GELU_TANH},
        {"gelu_pytorch_tanh", HY_A_GELU_TANH},
        {"gelu_fast", HY_A_GELU_TANH},
        {"relu", HY_A_RELU},
        {"relu2", HY_A_RELU2},
    };
    char key[64];
    const char *name = json_string_value(
        pick(r->cfg, "hidden_activation|hidden_act|activation_function|activation", key));
    if (!name || r->io->act_fixed) return HY_OK;
    for (size_t i = 0; i < HY_COUNT(acts); i++) {
        if (strcmp(acts[i].name, name) != 0) continue;
        r->d->hp->act = acts[i].act;
        return HY_OK;
    }
    return hy_fail(err, HY_E_UNSUPPORTED, "config.json: %s %.40s is not known", key, name);
}

static hy_status read_scales(const reader *r, hy_err *err)
{
    hy_hparams *hp = r->d->hp;
    const char *eps = hp->norm == HY_NORM_RMS
                          ? "rms_norm_eps|norm_eps|layer_norm_eps|layer_norm_epsilon"
                          : "layer_norm_eps|layer_norm_epsilon|norm_eps|norm_epsilon|rms_norm_eps";
    HY_TRY(get_f64(r, eps, true, &hp->norm_eps, err));
    HY_TRY(read_act(r, err));
    HY_TRY(get_f64(r, "embedding_multiplier", false, &hp->embd_scale, err));
    HY_TRY(get_f64(r, "attention_multiplier", false, &hp->attn_scale, err));
    HY_TRY(get_f64(r, "residual_multiplier", false, &hp->residual_scale, err));
    HY_TRY(get_f64(r, "logit_scale|logits_scaling", false, &hp->logit_scale, err));
    HY_TRY(get_f64(r, "attn_logit_softcapping", false, &hp->attn_softcap, err));
    HY_TRY(get_f64(r, "final_logit_softcapping", false, &hp->logit_softcap, err));
    double q = 0;
    HY_TRY(get_f64(r, "query_pre_attn_scalar", false, &q, err));
    if (q < 0)
        return hy_fail(err, HY_E_FORMAT, "config.json: query_pre_attn_scalar is %g: below 0", q);
    if (q > 0) hp->attn_scale = 1 / sqrt(q);
    const json_t *v = json_object_get(r->cfg, "norm_topk_prob");
    if (json_is_boolean(v)) hp->norm_topk = json_is_true(v);
    v = json_object_get(r->cfg, "use_parallel_residual");
    if (json_is_boolean(v)) hp->parallel = json_is_true(v);
    return HY_OK;
}

/* ---- windows, layers without rope ---------------------------------------------------------- */

static hy_status layer_table(const reader *r, uint8_t **out, hy_err *err)
{
    *out = HY_ARENA_NEW(r->d->arena, uint8_t, r->d->hp->n_layer);
    return *out ? HY_OK : hy_fail_memory(err, "layer table", r->d->hp->n_layer);
}

static hy_status read_layer_types(const reader *r, const json_t *types, hy_err *err)
{
    hy_hparams *hp = r->d->hp;
    if (!json_is_array(types) || json_array_size(types) < hp->n_layer)
        return hy_fail(err, HY_E_FORMAT,
                       "config.json: layer_types has %zu items: must be %u (layers)",
                       json_array_size(types), hp->n_layer);
    HY_TRY(layer_table(r, &r->d->windowed, err));
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const char *s = json_string_value(json_array_get(types, i));
        if (!s) return hy_fail(err, HY_E_FORMAT, "config.json: layer_types[%u] is no string", i);
        r->d->windowed[i] = strcmp(s, "sliding_attention") == 0;
        if (!r->d->windowed[i] && strcmp(s, "full_attention") != 0)
            return hy_fail(err, HY_E_UNSUPPORTED, "config.json: layer_types[%u] %.40s is not known",
                           i, s);
    }
    return HY_OK;
}

static hy_status read_windows(const reader *r, hy_err *err)
{
    hy_hparams *hp = r->d->hp;
    char key[64];
    if (!json_is_false(json_object_get(r->cfg, "use_sliding_window")))
        HY_TRY(get_u32(r, "sliding_window", false, 0, HY_CTX_MAX, &hp->window, err));
    if (hp->window == 0) return HY_OK;
    const json_t *types = pick(r->cfg, "layer_types", key);
    if (types) return read_layer_types(r, types, err);
    const json_t *pattern = pick(r->cfg, "sliding_window_pattern|_sliding_window_pattern", key);
    uint32_t first = 0; /* Qwen 2: windows from this layer on */
    if (json_is_string(pattern) && json_string_length(pattern) > 0) { /* "LLLG" */
        HY_TRY(layer_table(r, &r->d->windowed, err));
        for (uint32_t i = 0; i < hp->n_layer; i++)
            r->d->windowed[i] = json_string_value(pattern)[i % json_string_length(pattern)] == 'L';
    } else if (pattern) {
        HY_TRY(get_u32(r, key, true, 1, HY_LAYERS_MAX, &r->d->window_every, err));
    } else if (json_is_true(json_object_get(r->cfg, "use_sliding_window"))) {
        HY_TRY(get_u32(r, "max_window_layers", false, 0, UINT32_MAX, &first, err));
        HY_TRY(layer_table(r, &r->d->windowed, err));
        for (uint32_t i = 0; i < hp->n_layer; i++) r->d->windowed[i] = i >= first;
    }
    return HY_OK;
}

static hy_status read_no_rope(const reader *r, hy_err *err)
{
    hy_hparams *hp = r->d->hp;
    const json_t *list = json_object_get(r->cfg, "no_rope_layers"); /* 1: the layer has a rope */
    if (!json_is_array(list) || json_array_size(list) == 0) return HY_OK;
    if (json_array_size(list) < hp->n_layer)
        return hy_fail(err, HY_E_FORMAT,
                       "config.json: no_rope_layers has %zu items: must be %u (layers)",
                       json_array_size(list), hp->n_layer);
    HY_TRY(layer_table(r, &r->d->no_rope, err));
    for (uint32_t i = 0; i < hp->n_layer; i++)
        r->d->no_rope[i] = json_number_value(json_array_get(list, i)) == 0;
    return HY_OK;
}

/* ---- rope ---------------------------------------------------------------------------------- */

static hy_status read_factors(const reader *r, const json_t *o, const char *key, uint32_t n_rot,
                              const float **out, hy_err *err)
{
    const json_t *a = json_object_get(o, key);
    size_t n = n_rot / 2;
    if (!json_is_array(a) || json_array_size(a) != n)
        return hy_fail(err, HY_E_FORMAT,
                       "config.json: %s has %zu numbers: must be %zu (half the rope)", key,
                       json_array_size(a), n);
    float *f = HY_ARENA_NEW(r->d->arena, float, n);
    if (!f) return hy_fail_memory(err, key, n * sizeof *f);
    for (size_t i = 0; i < n; i++) {
        f[i] = (float)json_number_value(json_array_get(a, i));
        if (!(f[i] > 0) || !isfinite(f[i]))
            return hy_fail(err, HY_E_FORMAT, "config.json: %s[%zu] is %g: must be above 0", key, i,
                           f[i]);
    }
    *out = f;
    return HY_OK;
}

static hy_status rope_kind(const json_t *o, hy_rope_kind *out, hy_err *err)
{
    static const struct {
        const char *name;
        hy_rope_kind kind;
    } kinds[] = {
        {"default", HY_ROPE_PLAIN}, {"linear", HY_ROPE_LINEAR}, {"dynamic", HY_ROPE_DYNAMIC},
        {"llama3", HY_ROPE_LLAMA3}, {"yarn", HY_ROPE_YARN},     {"longrope", HY_ROPE_LONGROPE},
        {"su", HY_ROPE_LONGROPE},
    };
    char key[64];
    const char *name = json_string_value(pick(o, "rope_type|type", key));
    *out = HY_ROPE_PLAIN;
    if (!name) return HY_OK;
    for (size_t i = 0; i < HY_COUNT(kinds); i++) {
        if (strcmp(kinds[i].name, name) != 0) continue;
        *out = kinds[i].kind;
        return HY_OK;
    }
    return hy_fail(
        err, HY_E_UNSUPPORTED,
        "config.json: rope type %.40s; known: default, linear, dynamic, llama3, yarn, longrope",
        name);
}

/* attention_factor where given, else by the kind's formula. */
static hy_status attn_factor(const json_t *o, hy_rope *rope, double n_ctx, hy_err *err)
{
    if (rope->kind == HY_ROPE_LONGROPE)
        rope->attn_factor = hy_longrope_attn_factor(n_ctx, rope->n_ctx_orig);
    if (rope->kind == HY_ROPE_YARN) {
        double m = 0, all = 0;
        HY_TRY(get_f64_in(o, "mscale", &m, err));
        HY_TRY(get_f64_in(o, "mscale_all_dim", &all, err));
        rope->attn_factor = hy_yarn_attn_factor(rope->factor, 1);
        if (m != 0 && all != 0)
            rope->attn_factor =
                hy_yarn_attn_factor(rope->factor, m) / hy_yarn_attn_factor(rope->factor, all);
    }
    if (rope->kind == HY_ROPE_LONGROPE || rope->kind == HY_ROPE_YARN)
        HY_TRY(get_f64_in(o, "attention_factor", &rope->attn_factor, err));
    return HY_OK;
}

/* One rope from its object (scaling, or v5's parameters with the base in it); o may be NULL. */
static hy_status read_one_rope(const reader *r, const json_t *o, hy_rope *rope, hy_err *err)
{
    hy_hparams *hp = r->d->hp;
    double part = 1;
    HY_TRY(get_f64(r, "partial_rotary_factor|rotary_pct|rope_pct", false, &part, err));
    if (o) HY_TRY(get_f64_in(o, "partial_rotary_factor", &part, err));
    if (!(part > 0) || part > 1)
        return hy_fail(err, HY_E_FORMAT,
                       "config.json: rotary part is %g: must be above 0, at most 1", part);
    rope->n_rot = (uint32_t)(hp->d_k * part);
    rope->n_ctx_orig = hp->n_ctx_train;
    if (!o) return HY_OK;
    HY_TRY(rope_kind(o, &rope->kind, err));
    HY_TRY(get_f64_in(o, "rope_theta", &rope->base, err));
    if (rope->kind == HY_ROPE_PLAIN) return HY_OK;
    double orig = hp->n_ctx_train;
    if (rope->kind != HY_ROPE_DYNAMIC)
        HY_TRY(get_f64(r, "original_max_position_embeddings", false, &orig, err));
    HY_TRY(get_f64_in(o, "original_max_position_embeddings", &orig, err));
    if (!(orig >= 1 && orig <= HY_CTX_MAX))
        return hy_fail(err, HY_E_FORMAT,
                       "config.json: original_max_position_embeddings is %g: must be 1..%u", orig,
                       HY_CTX_MAX);
    rope->n_ctx_orig = (uint32_t)orig;
    rope->factor = hp->n_ctx_train / orig;
    HY_TRY(get_f64_in(o, "factor", &rope->factor, err));
    HY_TRY(get_f64_in(o, "low_freq_factor", &rope->low_freq, err));
    HY_TRY(get_f64_in(o, "high_freq_factor", &rope->high_freq, err));
    HY_TRY(get_f64_in(o, "beta_fast", &rope->beta_fast, err));
    HY_TRY(get_f64_in(o, "beta_slow", &rope->beta_slow, err));
    rope->truncate = !json_is_false(json_object_get(o, "truncate"));
    HY_TRY(attn_factor(o, rope, hp->n_ctx_train, err));
    if (rope->kind != HY_ROPE_LONGROPE) return HY_OK;
    HY_TRY(read_factors(r, o, "long_factor", rope->n_rot, &rope->long_factors, err));
    return read_factors(r, o, "short_factor", rope->n_rot, &rope->short_factors, err);
}

static hy_status read_ropes(const reader *r, hy_err *err)
{
    hy_hparams *hp = r->d->hp;
    const json_t *params = json_object_get(r->cfg, "rope_parameters");
    const json_t *full = json_object_get(params, "full_attention");
    const json_t *local = json_object_get(params, "sliding_attention");
    if (json_is_object(full)) params = full;
    if (!json_is_object(params)) params = json_object_get(r->cfg, "rope_scaling");
    if (!json_is_object(params)) params = NULL;
    HY_TRY(get_f64(r, "rope_theta|rotary_emb_base", false, &hp->rope[0].base, err));
    HY_TRY(read_one_rope(r, params, &hp->rope[0], err));
    char key[64];
    if (json_is_object(local)) {
        r->d->local_rope = true;
        if (r->io->rope_base_local) hp->rope[1].base = r->io->rope_base_local;
        return read_one_rope(r, local, &hp->rope[1], err);
    }
    if (!pick(r->cfg, "rope_local_base_freq", key)) return HY_OK;
    r->d->local_rope = true;
    HY_TRY(read_one_rope(r, NULL, &hp->rope[1], err));
    return get_f64(r, "rope_local_base_freq", false, &hp->rope[1].base, err);
}

hy_status hy_params_hf(hy_draft *d, hy_err *err)
{
    const json_t *text = json_object_get(d->file->config, "text_config");
    reader r = {.d = d, .cfg = json_is_object(text) ? text : d->file->config, .io = d->family->io};
    HY_TRY(refuse(&r, err));
    HY_TRY(read_sizes(&r, err));
    HY_TRY(read_scales(&r, err));
    HY_TRY(read_windows(&r, err));
    HY_TRY(read_no_rope(&r, err));
    return read_ropes(&r, err);
}
