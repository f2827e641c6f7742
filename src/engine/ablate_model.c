/* Techniques that show on one sequence: each is a few variants of a model that take turns. */
#include "ablate_impl.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define TRIES_MAX 12

/* One of those that take turns. */
typedef struct try {
    ab_config c;
    ab_row row;
    hy_session *s;
    uint32_t n_prompt;         /* 0: the shape's */
} try;

static try make_try(const char *technique, const char *baseline, const char *setting, ab_config c)
{
    return (try){ .c = c, .row = ab_row_make(technique, baseline, setting) };
}

static void close_tries(try *t, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        hy_session_close(t[i].s);
        t[i].s = NULL;
    }
}

static hy_status open_tries(ab *a, try *t, uint32_t n, hy_err *err)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!t[i].n_prompt) t[i].n_prompt = a->n_prompt;
        uint32_t n_ctx = t[i].n_prompt + a->n_gen + 1;
        HY_TRY(ab_variant(a, &t[i].c, n_ctx, HY_MAX(256u, t[i].n_prompt), 1, &t[i].s, err));
        t[i].row.memory_mib = ab_memory(t[i].s, n_ctx);
        double ttft, itl; /* wakes it up */
        HY_TRY(ab_shape(t[i].s, &t[i].c, HY_MIN(t[i].n_prompt, 16u), 2, &ttft, &itl, err));
    }
    return HY_OK;
}

static hy_status race_open(ab *a, try *t, uint32_t n, hy_err *err)
{
    hy_status st = open_tries(a, t, n, err);
    uint32_t round = 0;
    for (uint64_t us = hy_now_us(); ab_more(a, round, us, err, &st); round++)
        for (uint32_t k = 0; k < n && st == HY_OK; k++) {
            try *x = &t[round % 2 ? n - 1 - k : k];
            st = ab_shape_row(a, x->s, &x->c, x->n_prompt, &x->row, err);
        }
    ab_end(a, round);
    return st;
}

/* All of them, in turns; sessions are closed afterwards. */
static hy_status race(ab *a, try *t, uint32_t n, hy_err *err)
{
    hy_status st = race_open(a, t, n, err);
    close_tries(t, n);
    return st;
}

static double speedup(const ab_stat *off, const ab_stat *on)
{
    return ab_median(off) / ab_median(on);
}

static void gain_over(try *off, try *on, const char *what)
{
    bool first = strcmp(what, "ttft") == 0;
    ab_row_gain(&on->row, what, first ? speedup(&off->row.ttft, &on->row.ttft) : speedup(&off->row.itl, &on->row.itl));
}

static void add_all(ab *a, try *t, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) ab_row_add(a, &t[i].row);
}

/* ---- KV cache --------------------------------------------------------------------------------------- */

/* Bits of the last logits: everything at once against token by token from the cache. */
static hy_status same_cached(ab *a, hy_session *s, int *same, hy_err *err)
{
    float *x = NULL, *y = NULL;
    uint32_t n = HY_MIN(24u, a->n_ctx / 2);
    hy_status st = ab_logits(s, n, 0, &x, err);
    if (st == HY_OK) st = ab_logits(s, n, 1, &y, err);
    if (st == HY_OK) *same = memcmp(x, y, a->n_vocab * sizeof *x) == 0;
    hy_free(x);
    hy_free(y);
    return st;
}

typedef struct point {
    uint32_t n;
    ab_stat off, on;
} point;

/* One more token behind n: with a cache one step, without all n + 1 again. */
static hy_status measure_point(ab *a, hy_session *s, point *p, hy_err *err)
{
    ab_config off = { .kv_off = true }, on = { .kv_off = false };
    double ttft, itl;
    HY_TRY(ab_shape(s, &off, p->n, 1, &ttft, &itl, err));
    ab_put(&p->off, itl);
    HY_TRY(ab_shape(s, &on, p->n, HY_MIN(a->n_gen, 8u), &ttft, &itl, err));
    ab_put(&p->on, itl);
    return ab_tick(a, err);
}

/* mib: without keys and values, and of those of a token. */
static hy_status run_points(ab *a, point *p, uint32_t *n, int *same, double mib[2], hy_err *err)
{
    hy_session *s;
    uint32_t round = 0, longest = p[*n - 1].n + HY_MAX(a->n_gen, 8u) + 1;
    HY_TRY(ab_variant(a, &a->best, longest, 0, 1, &s, err));
    mib[0] = ab_memory(s, 0);
    mib[1] = (ab_memory(s, longest) - mib[0]) / longest;
    hy_status st = same_cached(a, s, same, err);
    for (uint64_t us = hy_now_us(); ab_more(a, round, us, err, &st); round++)
        for (uint32_t i = 0; i < *n && st == HY_OK; i++) {
            /* a length that would take too long is left out, but not before there are three */
            double last = i ? ab_median(&p[i - 1].off) : 0;
            if (round == 0 && i > 2 && !ab_time_for(a, 6 * last)) {
                ab_note(a, "KV cache: lengths of %u tokens and more are left out: too slow here", p[i].n);
                *n = i;
                break;
            }
            st = measure_point(a, s, &p[i], err);
        }
    ab_end(a, round);
    hy_session_close(s);
    return st;
}

/* Time of a whole answer of p[k].n tokens that begins with nothing: between the lengths, straight lines. */
static double whole(const point *p, uint32_t k, bool off)
{
    double sum = 0, last_ms = ab_median(off ? &p[0].off : &p[0].on);
    uint32_t last = 0;
    for (uint32_t i = 0; i <= k; i++) {
        double ms = ab_median(off ? &p[i].off : &p[i].on);
        double from = i || !off ? last_ms : 0; /* recomputing nothing costs nothing */
        sum += (from + ms) / 2 * (p[i].n - last);
        last = p[i].n;
        last_ms = ms;
    }
    return sum;
}

hy_status ab_group_kv(ab *a, hy_err *err)
{
    point p[8] = { { 0 } };
    uint32_t n = 0;
    for (uint32_t len = HY_MAX(8u, a->n_prompt / 4); n < HY_COUNT(p) && len + 32 < a->n_ctx && len <= 8 * a->n_prompt;
         len *= 2)
        p[n++].n = len;
    if (n == 0) return hy_fail(err, HY_E_LIMIT, "a context of %u tokens is too short", a->n_ctx);
    int same = -1;
    double mib[2];
    HY_TRY(run_points(a, p, &n, &same, mib, err));
    json_t *curve = json_array();
    double low = INFINITY, high = 0;
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        double off = ab_median(&p[i].off), on = ab_median(&p[i].on), a_off = whole(p, i, true),
               a_on = whole(p, i, false);
        low = HY_MIN(low, off / on);
        high = HY_MAX(high, off / on);
        if (p[i].n <= a->n_prompt) at = i;
        (void)json_array_append_new(curve, json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "n", (int)p[i].n, "off_ms",
            ab_number(off), "on_ms", ab_number(on), "ratio", ab_number(off / on), "answer_off_ms", ab_number(a_off),
            "answer_on_ms", ab_number(a_on), "answer_ratio", ab_number(a_off / a_on)));
    }
    json_object_set_new(a->curves, "kv_cache", curve);
    for (int on = 0; on < 2; on++) {
        ab_row r = ab_row_make("kv_cache", "best", on ? "on" : "off");
        r.itl = on ? p[at].on : p[at].off;
        for (uint32_t k = 0; k < r.itl.n; k++) ab_put(&r.tps, 1000 / r.itl.v[k]);
        r.extra = json_pack("{s:i}", "n", (int)p[at].n);
        r.same_bits = on ? same : -1;
        r.memory_mib = mib[0] + (on ? mib[1] * p[at].n : 0);
        if (on) ab_row_gain(&r, "itl", speedup(&p[at].off, &p[at].on));
        ab_row_add(a, &r);
    }
    ab_claim(a, "KV cache", "10 to 100 times", high, low, high, "ratio", high >= 10,
             "a token behind n tokens, from the cache against computed again", "%.1f to %.1f times (%u to %u tokens)",
             low, high, p[0].n, p[n - 1].n);
    return HY_OK;
}

/* ---- attention -------------------------------------------------------------------------------------- */

hy_status ab_group_attention(ab *a, hy_err *err)
{
    enum { LENGTHS = 3 };
    try t[2 * LENGTHS];
    uint32_t n = 0, longest = HY_MIN(4 * a->n_prompt, a->n_ctx - a->n_gen - 2);
    for (uint32_t i = 0; i < LENGTHS; i++) {
        uint32_t len = longest >> (LENGTHS - 1 - i);
        if (len < 8) continue;
        for (int on = 0; on < 2; on++) {
            t[n] = make_try("attention", "best", on ? "flash" : "materialised", a->best);
            t[n].c.materialised = !on;
            t[n++].n_prompt = len;
        }
    }
    HY_TRY(race(a, t, n, err));
    json_t *curve = json_array();
    for (uint32_t i = 0; i < n; i += 2)
        (void)json_array_append_new(curve, json_pack("{s:i, s:o, s:o, s:o, s:o, s:o}", "n", (int)t[i].n_prompt,
                                                     "materialised_ms", ab_number(ab_median(&t[i].row.ttft)),
                                                     "flash_ms", ab_number(ab_median(&t[i + 1].row.ttft)), "ratio",
                                                     ab_number(speedup(&t[i].row.ttft, &t[i + 1].row.ttft)),
                                                     "materialised_mib", ab_number(t[i].row.memory_mib), "flash_mib",
                                                     ab_number(t[i + 1].row.memory_mib)));
    json_object_set_new(a->curves, "attention", curve);
    try *off = &t[n - 2], *on = &t[n - 1];
    ab_config base = a->best;
    base.materialised = true;
    HY_TRY(ab_quality(a, &base, &a->best, &on->row.ppl_delta, &on->row.kl, err));
    off->row.extra = json_pack("{s:i}", "n", (int)off->n_prompt);
    on->row.extra = json_pack("{s:i, s:o}", "n", (int)on->n_prompt, "memory_saved_mib",
                              ab_number(off->row.memory_mib - on->row.memory_mib));
    gain_over(off, on, "ttft");
    add_all(a, off, 2);
    return HY_OK;
}

/* ---- fusion ------------------------------------------------------------------------------------------ */

hy_status ab_group_fusion(ab *a, hy_err *err)
{
    try t[2] = { make_try("fusion", "best", "off", a->best), make_try("fusion", "best", "on", a->best) };
    t[0].c.no_fuse = true;
    hy_status st = race_open(a, t, 2, err);
    if (st == HY_OK) st = ab_same_logits(a, t[0].s, t[1].s, &t[1].row.same_bits, err);
    if (st == HY_OK && t[1].row.same_bits < 0)
        st = ab_quality(a, &t[0].c, &a->best, &t[1].row.ppl_delta, &t[1].row.kl, err);
    if (st == HY_OK)
        st = ab_traffic(a, (hy_session *[2]){ t[0].s, t[1].s }, a->n_prompt, &t[0].row, &t[1].row, err);
    close_tries(t, 2);
    if (st != HY_OK) return st;
    gain_over(&t[0], &t[1], "itl");
    ab_claim_fusion(a, "this model", &t[0].row, &t[1].row);
    add_all(a, t, 2);
    return HY_OK;
}

/* ---- types ------------------------------------------------------------------------------------------- */

hy_status ab_group_weights(ab *a, hy_err *err)
{
    static const char *const types[] = { "f32", "f16", "q8_0", "q4_0" };
    try t[5];
    uint32_t n = 0;
    for (size_t i = 0; i < HY_COUNT(types); i++) {
        ab_config c = a->best;
        c.weights = types[i];
        if (a->best.weights && strcmp(types[i], a->best.weights) == 0) c = a->best;
        ab_model *m;
        hy_err why;
        if (ab_model_get(a, c.weights, false, &m, &why) != HY_OK) {
            if (a->cancelled) return *err = why, HY_E_CANCELLED;
            ab_note(a, "weights in %s: %s", types[i], why.msg);
            continue;
        }
        t[n++] = make_try("weights", "best", types[i], c);
    }
    if (!a->best.weights && strcmp(a->best_weights, "q8_0") != 0 && strcmp(a->best_weights, "q4_0") != 0) {
        t[n] = make_try("weights", "best", a->best_weights, a->best);
        snprintf(t[n++].row.setting, sizeof t[0].row.setting, "%s (file)", a->best_weights);
    }
    if (!a->best.weights)
        ab_note(a, "weights: the file holds %s; the other types are made from it, so those of few bits lose twice",
                a->best_weights);
    HY_TRY(race(a, t, n, err));
    bool has_ref = n && strcmp(t[0].row.setting, "f32") == 0;
    for (uint32_t i = 0; i < n; i++) {
        if (has_ref) HY_TRY(ab_quality(a, &a->reference, &t[i].c, &t[i].row.ppl_delta, &t[i].row.kl, err));
        if (i) gain_over(&t[0], &t[i], "itl");
        if (strcmp(t[i].row.setting, "q8_0") == 0 && isfinite(t[i].row.ppl_delta))
            ab_claim(a, "INT8 weights", "almost lossless: perplexity + 0.5 % at most", t[i].row.ppl_delta, NAN, NAN,
                     "percent", t[i].row.ppl_delta <= 0.5, "Q8_0 weights and int8 activations against F32",
                     "%+.2f %% perplexity, KL %.5f nats", t[i].row.ppl_delta, t[i].row.kl);
    }
    add_all(a, t, n);
    ab_models_close(a, false);
    return HY_OK;
}

hy_status ab_group_activations(ab *a, hy_err *err)
{
    try t[2] = { make_try("activations", "best", "f32", a->best), make_try("activations", "best", "int8", a->best) };
    t[0].c.act_f32 = true;
    t[0].c.kv_type = "f16";
    HY_TRY(race(a, t, 2, err));
    HY_TRY(ab_quality(a, &t[0].c, &a->best, &t[1].row.ppl_delta, &t[1].row.kl, err));
    gain_over(&t[0], &t[1], "ttft");
    add_all(a, t, 2);
    return HY_OK;
}

hy_status ab_group_kv_type(ab *a, hy_err *err)
{
    static const char *const types[] = { "f32", "f16", "q8", "q4" };
    try t[HY_COUNT(types)];
    ab_model *m;
    HY_TRY(ab_model_get(a, a->best.weights, false, &m, err));
    const hy_hparams *hp = &hy_session_core(m->s)->model->hp;
    uint32_t n = 0, longest = HY_MIN(4 * a->n_prompt, a->n_ctx - a->n_gen - 2);
    for (size_t i = 0; i < HY_COUNT(types); i++) {
        if (strcmp(types[i], "q4") == 0 && (hp->d_k % 32 || hp->d_v % 32)) {
            ab_note(a, "KV type q4: heads of %u and %u are no multiple of 32", hp->d_k, hp->d_v);
            continue;
        }
        t[n] = make_try("kv_type", "best", types[i], a->best);
        t[n].c.kv_type = types[i];
        t[n++].n_prompt = longest;
    }
    HY_TRY(race(a, t, n, err));
    for (uint32_t i = 0; i < n; i++) {
        hy_kv_type type;
        if (i) HY_TRY(ab_quality(a, &t[0].c, &t[i].c, &t[i].row.ppl_delta, &t[i].row.kl, err));
        if (i) gain_over(&t[0], &t[i], "itl");
        (void)hy_kv_type_from_name(t[i].row.setting, &type);
        double bytes = 0;
        for (uint32_t l = 0; l < hp->n_layer; l++)
            bytes += (double)hp->layer[l].n_kv_head *
                     (double)(hy_kv_k_bytes(type, hp->d_k) + hy_kv_v_bytes(type, hp->d_v)) / HY_KV_PAGE_TOK;
        t[i].row.extra = json_pack("{s:i, s:o}", "n", (int)longest, "bytes_a_token", ab_number(bytes));
    }
    add_all(a, t, n);
    return HY_OK;
}

/* ---- on a plain baseline, and step by step ------------------------------------------------------------- */

hy_status ab_group_plain(ab *a, hy_err *err)
{
    static const struct { const char *technique, *setting; } ons[] = {
        { "kv_cache", "on" }, { "attention", "flash" }, { "fusion", "on" }, { "weights", "f16" }, { "weights", "q8_0" },
        { "weights", "q4_0" },
    };
    try t[TRIES_MAX];
    uint32_t n = 1;
    t[0] = make_try("kv_cache", "plain", "off", a->plain);
    for (size_t i = 0; i < HY_COUNT(ons); i++) {
        ab_config c = a->plain;
        if (i == 0) c.kv_off = false;
        else if (i == 1) c.materialised = false;
        else if (i == 2) c.no_fuse = false;
        else c.weights = ons[i].setting, c.act_f32 = i == 3;
        c.kv_type = "f32";
        t[n++] = make_try(ons[i].technique, "plain", ons[i].setting, c);
    }
    const uint32_t steps = n; /* the ladder: each with all before; its first two are t[0] and t[1] */
    ab_config c = t[1].c;
    c.materialised = false;
    t[n++] = make_try("ladder", "", "+ flash attention", c);
    c.no_fuse = false;
    t[n++] = make_try("ladder", "", "+ fusion", c);
    c.weights = a->best.weights;
    t[n++] = make_try("ladder", "", "+ quantised weights", c);
    c.act_f32 = false;
    t[n++] = make_try("ladder", "", "+ int8 activations", c);
    HY_TRY(race(a, t, n, err));
    json_t *ladder = json_array();
    for (uint32_t i = 0; i < n; i++) {
        if (i > 1 && i < steps) continue;
        const ab_row *r = &t[i].row;
        (void)json_array_append_new(ladder, json_pack("{s:s, s:o, s:o, s:o}", "step",
                                                      i == 0   ? "plain"
                                                      : i == 1 ? "+ KV cache"
                                                               : r->setting,
                                                      "ttft_ms", ab_number(ab_median(&r->ttft)), "itl_ms",
                                                      ab_number(ab_median(&r->itl)), "tokens_s",
                                                      ab_number(ab_median(&r->tps))));
    }
    json_object_set_new(a->curves, "ladder", ladder);
    for (uint32_t i = 0; i < steps; i++) {
        if (i) gain_over(&t[0], &t[i], i == 2 ? "ttft" : "itl");
        if (i && (i == 1 || strcmp(t[i].row.technique, t[i - 1].row.technique) != 0)) {
            ab_row off = t[0].row; /* the technique's first row is the technique off */
            off.technique = t[i].row.technique;
            snprintf(off.setting, sizeof off.setting, "%s", i == 2 ? "materialised" : i == 4 ? "f32" : "off");
            ab_row_add(a, &off);
        }
        if (i) ab_row_add(a, &t[i].row);
    }
    ab_models_close(a, false);
    return HY_OK;
}

/* ---- threads ------------------------------------------------------------------------------------------ */

static hy_status run_threads(ab *a, hy_session *s, ab_row *r, const uint32_t *count, uint32_t n, hy_err *err)
{
    hy_core *c = hy_session_core(s);
    hy_status st = HY_OK;
    uint32_t round = 0;
    float *first = NULL;
    for (uint32_t i = 0; i < n && st == HY_OK; i++) {
        float *x = NULL;
        hy_plan_threads(c->plan, count[i], count[i], false);
        st = ab_logits(s, HY_MIN(24u, a->n_ctx / 2), 0, &x, err);
        if (st == HY_OK && first) r[i].same_bits = memcmp(first, x, a->n_vocab * sizeof *x) == 0;
        if (first) hy_free(x);
        else first = x;
    }
    hy_free(first);
    for (uint64_t us = hy_now_us(); ab_more(a, round, us, err, &st); round++)
        for (uint32_t i = 0; i < n && st == HY_OK; i++) {
            hy_plan_threads(c->plan, count[i], count[i], false);
            st = ab_shape_row(a, s, &a->best, a->n_prompt, &r[i], err);
        }
    ab_end(a, round);
    return st;
}

hy_status ab_group_threads(ab *a, hy_err *err)
{
    hy_session *s;
    HY_TRY(ab_variant(a, &a->best, a->n_prompt + a->n_gen + 1, 0, 1, &s, err));
    uint32_t count[8], n = 0, all = hy_team_size(hy_session_core(s)->team);
    ab_row r[HY_COUNT(count)];
    for (uint32_t k = 1; k < all && n + 1 < HY_COUNT(count); k *= 2) count[n++] = k;
    count[n++] = all;
    for (uint32_t i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", count[i]);
        r[i] = ab_row_make("threads", "best", name);
    }
    for (uint32_t i = 0; i < n; i++) r[i].memory_mib = ab_memory(s, a->n_prompt + a->n_gen + 1);
    hy_status st = run_threads(a, s, r, count, n, err);
    hy_session_close(s);
    if (st != HY_OK) return st;
    json_t *curve = json_array();
    for (uint32_t i = 0; i < n; i++) {
        (void)json_array_append_new(curve, json_pack("{s:i, s:o, s:o}", "threads", (int)count[i], "prefill_tokens_s",
                                                     ab_number(a->n_prompt * 1000.0 / ab_median(&r[i].ttft)),
                                                     "decode_tokens_s", ab_number(ab_median(&r[i].tps))));
        if (i) ab_row_gain(&r[i], "ttft", speedup(&r[0].ttft, &r[i].ttft));
        ab_row_add(a, &r[i]);
    }
    json_object_set_new(a->curves, "threads", curve);
    return HY_OK;
}

/* ---- huge pages ---------------------------------------------------------------------------------------- */

hy_status ab_group_huge(ab *a, hy_err *err)
{
    try t[2] = { make_try("huge_pages", "best", "off", a->best), make_try("huge_pages", "best", "on", a->best) };
    t[0].c.small_pages = true;
    hy_status st = race_open(a, t, 2, err);
    if (st == HY_OK) st = ab_same_logits(a, t[0].s, t[1].s, &t[1].row.same_bits, err);
    close_tries(t, 2);
    if (st != HY_OK) return st;
    gain_over(&t[0], &t[1], "itl");
    add_all(a, t, 2);
    ab_models_close(a, false);
    return HY_OK;
}
