#include "ablate_ask.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_MS 2

ab_ask *ab_asks_new(uint32_t n, uint32_t n_prompt, uint32_t n_answer)
{
    ab_ask *q = HY_NEW_ARRAY(ab_ask, n);
    for (uint32_t i = 0; q && i < n; i++) {
        hy_params_init(&q[i].p);
        int32_t *tokens = HY_NEW_ARRAY(int32_t, HY_MAX(n_prompt, 1u));
        q[i].p.tokens = tokens;
        q[i].id = HY_NEW_ARRAY(int32_t, HY_MAX(n_answer, 1u));
        q[i].us = HY_NEW_ARRAY(uint64_t, HY_MAX(n_answer, 1u));
        if (!tokens || !q[i].id || !q[i].us) {
            ab_asks_free(q, n);
            return NULL;
        }
        ab_ask_set(&q[i], n_prompt, n_answer);
    }
    return q;
}

void ab_asks_reset(ab_ask *q, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        hy_release(q[i].r);
        q[i].r = NULL;
        q[i].n = 0;
        q[i].done = false;
    }
}

void ab_asks_free(ab_ask *q, uint32_t n)
{
    if (!q) return;
    ab_asks_reset(q, n);
    for (uint32_t i = 0; i < n; i++) {
        hy_free((void *)(uintptr_t)q[i].p.tokens);
        hy_free(q[i].id);
        hy_free(q[i].us);
    }
    hy_free(q);
}

int32_t *ab_ask_prompt(ab_ask *q)
{
    return (int32_t *)(uintptr_t)q->p.tokens;
}

void ab_ask_fill(const ab *a, ab_ask *q, uint32_t seed, uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < first + n; i++) ab_ask_prompt(q)[i] = (int32_t)(hy_rng_at(seed, 77, i) % a->n_vocab);
}

void ab_ask_set(ab_ask *q, uint32_t n_prompt, uint32_t n_answer)
{
    q->p.n_tokens = n_prompt;
    q->p.max_tokens = n_answer;
    q->p.temperature = 0;
    q->p.ignore_eos = true;
}

/* ---- asking ------------------------------------------------------------------------------------------- */

static hy_status take(ab_ask *q, int timeout_ms, hy_err *err)
{
    hy_event ev;
    HY_TRY(hy_poll(q->r, timeout_ms, &ev, err));
    for (uint32_t i = 0; i < ev.n_token && q->n < q->p.max_tokens; i++) {
        q->id[q->n] = ev.token[i].id;
        q->us[q->n++] = ev.token[i].us;
    }
    if (ev.kind == HY_EV_DONE) {
        q->done = true;
        q->usage = ev.usage;
    }
    return HY_OK;
}

/* Those whose time has come are submitted; what is there is taken; the first unfinished one is waited for. */
static hy_status turn(hy_engine *e, ab_ask *q, uint32_t n, bool *busy, hy_err *err)
{
    uint32_t wait = n;
    *busy = false;
    for (uint32_t i = 0; i < n; i++) {
        if (q[i].done) continue;
        *busy = true;
        if (!q[i].r) {
            if (q[i].n_before > q[0].n && !q[0].done) continue;
            q[i].us_asked = hy_clock_us();
            HY_TRY(hy_submit(e, &q[i].p, &q[i].r, err));
        }
        HY_TRY(take(&q[i], 0, err));
        if (!q[i].done && wait == n) wait = i;
    }
    return wait < n ? take(&q[wait], LOOK_MS, err) : HY_OK;
}

hy_status ab_ask_all(ab *a, hy_engine *e, ab_ask *q, uint32_t n, ab_look_fn *look, void *ctx, hy_err *err)
{
    ab_asks_reset(q, n);
    hy_status st = HY_OK;
    for (bool busy = true; busy && st == HY_OK;) {
        st = turn(e, q, n, &busy, err);
        if (st == HY_OK && look) look(ctx, e);
        if (st == HY_OK) st = ab_tick(a, err);
    }
    for (uint32_t i = 0; i < n; i++) {
        hy_release(q[i].r); /* cancels what still runs */
        q[i].r = NULL;
    }
    return st;
}

bool ab_same_answers(const ab_ask *x, const ab_ask *y, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (x[i].n != y[i].n || memcmp(x[i].id, y[i].id, x[i].n * sizeof *x[i].id) != 0) return false;
    return true;
}

/* ---- what came of it ------------------------------------------------------------------------------------ */

double ab_ttft_ms(const ab_ask *q)
{
    return q->n ? (double)(q->us[0] - q->us_asked) / 1e3 : NAN;
}

double ab_itl_ms(const ab_ask *q)
{
    return q->n > 1 ? (double)(q->us[q->n - 1] - q->us[0]) / 1e3 / (q->n - 1) : NAN;
}

double ab_worst_gap_ms(const ab_ask *q, uint64_t us_from)
{
    uint64_t worst = 0;
    for (uint32_t i = 1; i < q->n; i++)
        if (q->us[i] > us_from) worst = HY_MAX(worst, q->us[i] - q->us[i - 1]);
    return (double)worst / 1e3;
}

double ab_span_s(const ab_ask *q, uint32_t n)
{
    uint64_t first = UINT64_MAX, last = 0;
    for (uint32_t i = 0; i < n; i++) {
        first = HY_MIN(first, q[i].us_asked);
        if (q[i].n) last = HY_MAX(last, q[i].us[q[i].n - 1]);
    }
    return last > first ? (double)(last - first) / 1e6 : NAN;
}

/* ---- engines ---------------------------------------------------------------------------------------------- */

hy_options ab_engine_options(const ab *a, uint32_t n_ctx, uint32_t n_seq, uint64_t kv_tokens)
{
    hy_options o = a->base;
    o.weights = a->best.weights;
    o.weights_all = a->best.weights != NULL;
    o.kv_type = "f16";
    o.n_ctx = n_ctx;
    o.n_seq = n_seq;
    o.kv_tokens = HY_MAX(kv_tokens, n_ctx);
    return o;
}

static bool on_load(void *ctx, uint64_t done, uint64_t all)
{
    hy_err err;
    return ab_tick(ctx, &err) != HY_OK;
}

hy_status ab_engine_open(ab *a, hy_engine **out, hy_options *o, hy_err *err)
{
    o->progress = on_load;
    o->progress_ctx = a;
    return hy_open(out, o, err);
}

double ab_engine_memory(const hy_engine *e)
{
    hy_facts f;
    hy_engine_facts(e, &f);
    return (double)(f.weight_bytes + f.kv_bytes + f.plan_bytes) / AB_MIB;
}
