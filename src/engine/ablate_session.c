/* Models, variants that share them, and what is measured of one: a prompt, an answer, quality. */
#include "ablate_impl.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- models --------------------------------------------------------------------------------------- */

static bool same_name(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* What the kernel could give without swapping; 0: not known. */
static uint64_t memory_free(void)
{
    char line[128];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1) break;
    if (f) fclose(f);
    return kib * HY_KIB;
}

/* A model that does not fit ends nothing: it is said, and its rows are missing. */
static hy_status check_room(ab *a, const char *weights, hy_err *err)
{
    hy_qtype t;
    uint64_t have = memory_free();
    if (!weights || !a->models || !hy_quant_from_name(weights, &t) || !have) return HY_OK;
    const hy_core *c = hy_session_core(a->models->s);
    uint64_t n = 0;
    for (uint64_t i = 0; i < c->file->n_tensor; i++) {
        const hy_tensor *w = &c->file->tensor[i];
        n += w->known ? w->dim[0] * w->dim[1] * w->dim[2] * w->dim[3] : 0;
    }
    uint64_t need = n / hy_quant(t)->block * hy_quant(t)->block_bytes;
    if (need + need / 8 + 256 * HY_MIB <= have) return HY_OK;
    return hy_fail(err, HY_E_MEMORY, "weights in %s need %llu MiB, and %llu are free", weights,
                   (unsigned long long)(need / HY_MIB), (unsigned long long)(have / HY_MIB));
}

static bool on_load(void *ctx, uint64_t done, uint64_t all)
{
    hy_err err;
    return ab_tick(ctx, &err) != HY_OK;
}

hy_status ab_model_get(ab *a, const char *weights, bool small_pages, ab_model **out, hy_err *err)
{
    for (ab_model *m = a->models; m; m = m->next)
        if (same_name(m->weights, weights) && m->small_pages == small_pages) {
            *out = m;
            return HY_OK;
        }
    HY_TRY(check_room(a, weights, err));
    ab_model *m = HY_NEW(ab_model);
    if (!m) return hy_fail_memory(err, "model", sizeof *m);
    *m = (ab_model){ .weights = weights, .small_pages = small_pages };
    hy_options o = a->base;
    o.weights = weights;
    o.weights_all = weights != NULL;
    o.no_huge_pages = small_pages;
    o.n_seq = 1;
    o.n_step = HY_MIN(256u, a->n_ctx ? a->n_ctx : 256);
    o.kv_tokens = a->n_ctx ? HY_MAX(a->n_ctx, 16u) : 0;
    o.n_ctx = a->n_ctx;
    o.progress = on_load;
    o.progress_ctx = a;
    hy_status st = hy_session_open(&m->s, &o, err);
    if (st != HY_OK) {
        hy_free(m);
        return st;
    }
    ab_model **last = &a->models;
    while (*last) last = &(*last)->next;
    *last = m;
    *out = m;
    return HY_OK;
}

void ab_models_close(ab *a, bool all)
{
    for (ab_model **at = &a->models; *at;) {
        ab_model *m = *at;
        if (!all && (m == a->models || (same_name(m->weights, a->best.weights) && !m->small_pages))) {
            at = &m->next;
            continue;
        }
        *at = m->next;
        hy_session_close(m->s);
        hy_free(m);
    }
}

/* ---- variants ------------------------------------------------------------------------------------- */

hy_status ab_variant(ab *a, const ab_config *c, uint32_t n_ctx, uint32_t n_step, uint32_t rows, hy_session **out,
                     hy_err *err)
{
    ab_model *m;
    *out = NULL;
    HY_TRY(ab_model_get(a, c->weights, c->small_pages, &m, err));
    hy_options o = a->base;
    o.n_ctx = HY_MAX(n_ctx, 2u);
    o.n_seq = rows;
    o.n_step = n_step ? n_step : 256;
    o.kv_tokens = HY_MAX((uint64_t)o.n_ctx * rows, 16);
    o.kv_type = c->kv_type ? c->kv_type : c->act_f32 ? "f32" : "f16";
    o.act_f32 = c->act_f32;
    o.no_fuse = c->no_fuse;
    o.attention = c->materialised ? "materialised" : "flash";
    o.no_huge_pages = c->small_pages;
    return hy_session_share(out, m->s, &o, err);
}

double ab_memory(const hy_session *s, uint32_t n_ctx)
{
    hy_facts f;
    hy_session_facts(s, &f);
    return (double)(f.weight_bytes + f.kv_bytes / HY_MAX(1u, f.n_seq) * n_ctx / HY_MAX(1u, f.n_ctx) + f.plan_bytes) /
           AB_MIB;
}

hy_status ab_shape(hy_session *s, const ab_config *c, uint32_t n_prompt, uint32_t n_gen, double *ttft, double *itl,
                   hy_err *err)
{
    HY_TRY(hy_session_restart(s, 1, (uint64_t)n_prompt + n_gen, err));
    uint64_t t0 = hy_now_ns();
    HY_TRY(hy_session_rows(s, 1, 0, n_prompt, true, err));
    uint64_t t1 = hy_now_ns();
    if (c->kv_off) { /* one token more: all are computed again */
        HY_TRY(hy_session_restart(s, 1, n_prompt + 1ull, err));
        HY_TRY(hy_session_rows(s, 1, 0, n_prompt + 1, true, err));
    } else {
        for (uint32_t i = 0; i < n_gen; i++) HY_TRY(hy_session_rows(s, 1, n_prompt + i, 1, true, err));
    }
    uint64_t t2 = hy_now_ns();
    *ttft = (double)(t1 - t0) / 1e6;
    *itl = (double)(t2 - t1) / 1e6 / (c->kv_off ? 1 : n_gen);
    return HY_OK;
}

hy_status ab_shape_row(ab *a, hy_session *s, const ab_config *c, uint32_t n_prompt, ab_row *r, hy_err *err)
{
    double ttft, itl;
    HY_TRY(ab_shape(s, c, n_prompt, a->n_gen, &ttft, &itl, err));
    ab_put(&r->ttft, ttft);
    ab_put(&r->itl, itl);
    ab_put(&r->tps, 1000 / itl);
    return ab_tick(a, err);
}

hy_status ab_logits(hy_session *s, uint32_t n, uint32_t chunk, float **out, hy_err *err)
{
    uint32_t n_vocab = hy_session_core(s)->model->hp.n_vocab;
    int32_t *ids = HY_NEW_ARRAY(int32_t, n);
    float *logits = hy_alloc_array(n_vocab, sizeof *logits);
    hy_status st = ids && logits ? HY_OK : hy_fail_memory(err, "logits", n_vocab * 4ull);
    for (uint32_t i = 0; st == HY_OK && i < n; i++) ids[i] = (int32_t)(i * 104729u % n_vocab);
    if (st == HY_OK) st = hy_session_logits(s, ids, n, chunk, false, logits, err);
    hy_free(ids);
    if (st != HY_OK) {
        hy_free(logits);
        logits = NULL;
    }
    *out = logits;
    return st;
}

hy_status ab_same_logits(ab *a, hy_session *x, hy_session *y, int *same, hy_err *err)
{
    float *p = NULL, *q = NULL;
    uint32_t n = HY_MIN(24u, a->n_ctx / 2);
    hy_status st = ab_logits(x, n, 0, &p, err);
    if (st == HY_OK) st = ab_logits(y, n, 0, &q, err);
    if (st == HY_OK) *same = memcmp(p, q, hy_session_core(x)->model->hp.n_vocab * sizeof *p) == 0 ? 1 : -1;
    hy_free(p);
    hy_free(q);
    return st;
}

/* ---- quality -------------------------------------------------------------------------------------- */

/* Ctrl-C between windows. */
static bool on_window(void *ctx, uint64_t done, uint64_t all)
{
    hy_err err;
    return ab_tick(ctx, &err) != HY_OK;
}

hy_status ab_quality(ab *a, const ab_config *base, const ab_config *c, double *ppl_delta, double *kl, hy_err *err)
{
    *ppl_delta = *kl = NAN;
    if (!a->has_tok) return HY_OK;
    uint32_t window = HY_MIN(256u, a->n_ctx);
    hy_session *b = NULL, *s = NULL;
    hy_status st = ab_variant(a, base, window, window, 1, &b, err);
    if (st == HY_OK) st = ab_variant(a, c, window, window, 1, &s, err);
    hy_ppl_result r = { 0 };
    /* every variant of a run on the same windows: their number follows from the time of a prompt, not from the clock */
    double all_ms = a->minutes * 60e3, each_ms = HY_MAX(a->unit_ms * window / a->n_prompt * 8, 1);
    hy_ppl_params p = { .text = a->text, .n_text = a->n_text, .window = window, .score_first = HY_MAX(1u, window / 8),
                        .n_window = (uint32_t)HY_MAX(1, HY_MIN(16, all_ms * 0.02 / each_ms)), .progress = on_window,
                        .progress_ctx = a };
    if (st == HY_OK) st = hy_session_kl(b, s, &p, &r, err);
    hy_session_close(b);
    hy_session_close(s);
    if (st == HY_OK) {
        *ppl_delta = 100 * (r.ppl / r.ppl_base - 1);
        *kl = HY_MAX(r.kl_mean, 0);
    }
    if (st == HY_OK || a->cancelled) return st;
    ab_note(a, "quality of %s: %s", a->group, err->msg); /* speed can be told without it */
    return HY_OK;
}
