/* Techniques that show when several requests run: pages, prefix cache, chunks, batching. */
#include "ablate_ask.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hy_status no_memory(hy_err *err)
{
    return hy_fail_memory(err, "requests", sizeof(ab_ask));
}

/* ---- paged against contiguous ------------------------------------------------------------------------- */

enum { PAGED_SEQ = 32, PAGED_ASKS = 32 };

typedef struct pool {          /* seen while requests wait for room */
    double share, running;
    uint32_t n, most;
} pool;

static void look_at_pool(void *ctx, hy_engine *e)
{
    pool *p = ctx;
    hy_counters c;
    hy_engine_counters(e, &c);
    p->most = HY_MAX(p->most, c.n_running);
    if (!c.n_waiting || !c.page_used) return;
    p->share += (double)c.slot_used / ((double)c.page_used * HY_KV_PAGE_TOK);
    p->running += c.n_running;
    p->n++;
}

/* Lengths as in chats: most short, a few long (log-normal around `median`). */
static uint32_t length_of(uint32_t i, uint32_t which, uint32_t median, uint32_t most)
{
    double u = hy_rng_unit(hy_rng_at(7, which, 2 * i)), v = hy_rng_unit(hy_rng_at(7, which, 2 * i + 1));
    double z = sqrt(-2 * log(u)) * cos(2 * 3.14159265358979 * v);
    return (uint32_t)HY_MAX(2, HY_MIN(most, median * exp(0.7 * z)));
}

typedef struct paged_run {
    pool pool;
    ab_row row;
    ab_ask *q;
    ab_stat share, running;
    uint32_t most;
} paged_run;

static hy_status one_paged(ab *a, paged_run *x, bool paged, uint32_t n_ctx, uint64_t kv_tokens, hy_err *err)
{
    hy_options o = ab_engine_options(a, n_ctx, PAGED_SEQ, kv_tokens);
    o.kv_mode = paged ? HY_KV_PAGED : HY_KV_CONTIGUOUS;
    o.no_prefix_cache = true;
    hy_engine *e = NULL;
    HY_TRY(ab_engine_open(a, &e, &o, err));
    x->pool = (pool){ 0 };
    hy_status st = ab_ask_all(a, e, x->q, PAGED_ASKS, look_at_pool, &x->pool, err);
    x->row.memory_mib = ab_engine_memory(e);
    hy_close(e);
    if (st != HY_OK) return st;
    double ttft = 0, itl = 0, tokens = 0;
    uint32_t n_itl = 0;
    for (uint32_t i = 0; i < PAGED_ASKS; i++) {
        ttft += ab_ttft_ms(&x->q[i]) / PAGED_ASKS;
        tokens += x->q[i].n;
        if (x->q[i].n < 2) continue;
        itl += ab_itl_ms(&x->q[i]);
        n_itl++;
    }
    ab_put(&x->row.ttft, ttft);
    ab_put(&x->row.itl, n_itl ? itl / n_itl : NAN);
    ab_put(&x->row.tps, tokens / ab_span_s(x->q, PAGED_ASKS));
    if (x->pool.n) {
        ab_put(&x->share, 100 * x->pool.share / x->pool.n);
        ab_put(&x->running, x->pool.running / x->pool.n);
    }
    x->most = HY_MAX(x->most, x->pool.most);
    return HY_OK;
}

static hy_status run_paged(ab *a, paged_run two[2], uint32_t n_ctx, uint64_t kv_tokens, hy_err *err)
{
    hy_status st = HY_OK;
    uint32_t round = 0;
    for (uint64_t us = hy_now_us(); ab_more(a, round, us, err, &st); round++)
        for (int k = 0; k < 2 && st == HY_OK; k++) st = one_paged(a, &two[k], k, n_ctx, kv_tokens, err);
    ab_end(a, round);
    return st;
}

static void tell_paged(ab *a, paged_run two[2], uint32_t n_ctx, uint64_t kv_tokens)
{
    two[1].row.same_bits = ab_same_answers(two[0].q, two[1].q, PAGED_ASKS);
    double share[2], running[2];
    for (int k = 0; k < 2; k++) {
        share[k] = ab_median(&two[k].share);
        running[k] = ab_median(&two[k].running);
        two[k].row.extra = json_pack("{s:o, s:o, s:i, s:i, s:I}", "used_pct", ab_number(share[k]), "sequences",
                                     ab_number(running[k]), "sequences_most", (int)two[k].most, "context", (int)n_ctx,
                                     "kv_tokens", (json_int_t)kv_tokens);
    }
    ab_row_gain(&two[1].row, "sequences", running[1] / running[0]);
    for (int k = 0; k < 2; k++) ab_row_add(a, &two[k].row);
    if (isfinite(share[0]) && isfinite(share[1]))
        ab_claim(a, "paged KV memory", "20 to 40 % used before, nearly 100 % with pages", share[1], share[0],
                 share[1], "percent", share[0] <= 45 && share[1] >= 90,
                 "share of the KV memory in use that holds tokens, while requests wait",
                 "%.0f %% reserved as a whole, %.0f %% in pages; %.1f and %.1f sequences at once", share[0], share[1],
                 running[0], running[1]);
}

hy_status ab_group_paged(ab *a, hy_err *err)
{
    uint32_t n_ctx = HY_MIN(4 * a->n_prompt, a->n_ctx), median = HY_MAX(n_ctx / 12, 4u);
    uint64_t kv_tokens = 2ull * n_ctx;
    paged_run two[2] = { { .row = ab_row_make("paged", "best", "contiguous") },
                         { .row = ab_row_make("paged", "best", "paged") } };
    hy_status st = HY_OK;
    for (int k = 0; k < 2; k++) {
        two[k].q = ab_asks_new(PAGED_ASKS, n_ctx / 2, n_ctx / 2);
        if (!two[k].q) st = no_memory(err);
        for (uint32_t i = 0; two[k].q && i < PAGED_ASKS; i++) {
            uint32_t n_prompt = length_of(i, 1, median, n_ctx / 2 - 1);
            ab_ask_fill(a, &two[k].q[i], i, 0, n_prompt);
            ab_ask_set(&two[k].q[i], n_prompt, length_of(i, 2, HY_MAX(median / 2, 2u), n_ctx / 4));
        }
    }
    if (st == HY_OK) st = run_paged(a, two, n_ctx, kv_tokens, err);
    if (st == HY_OK) tell_paged(a, two, n_ctx, kv_tokens);
    for (int k = 0; k < 2; k++) ab_asks_free(two[k].q, PAGED_ASKS);
    return st;
}

/* ---- prefix cache ---------------------------------------------------------------------------------------- */

enum { TAIL = 16, SHORT = 4 };

/* A new beginning each round: asked without the cache, asked once to leave its pages, asked again with another end. */
static hy_status one_prefix(ab *a, hy_engine *e, ab_ask *q, uint32_t n_prompt, uint32_t seed, ab_row r[2],
                            uint32_t *cached, hy_err *err)
{
    for (int i = 0; i < 3; i++) {
        ab_ask_fill(a, &q[i], seed, 0, n_prompt - TAIL);
        ab_ask_fill(a, &q[i], i == 1 ? seed + 1 : seed + 2, n_prompt - TAIL, TAIL);
        ab_ask_set(&q[i], n_prompt, SHORT);
        q[i].p.no_cache = i == 0;
        HY_TRY(ab_ask_all(a, e, &q[i], 1, NULL, NULL, err));
    }
    for (int on = 0; on < 2; on++) {
        ab_put(&r[on].ttft, ab_ttft_ms(&q[2 * on]));
        ab_put(&r[on].itl, ab_itl_ms(&q[2 * on]));
        ab_put(&r[on].tps, 1000 / ab_itl_ms(&q[2 * on]));
    }
    *cached = q[2].usage.n_cached;
    bool same = ab_same_answers(&q[0], &q[2], 1);
    r[1].same_bits = r[1].same_bits < 0 ? same : r[1].same_bits && same;
    return HY_OK;
}

static hy_status run_prefix(ab *a, hy_engine *e, ab_ask *q, uint32_t n_prompt, ab_row r[2], hy_err *err)
{
    hy_status st = HY_OK;
    uint32_t round = 0, cached = 0;
    for (uint64_t us = hy_now_us(); ab_more(a, round, us, err, &st); round++)
        st = one_prefix(a, e, q, n_prompt, 1000 + 10 * round, r, &cached, err);
    ab_end(a, round);
    if (st != HY_OK) return st;
    for (int on = 0; on < 2; on++) {
        r[on].extra = json_pack("{s:i, s:i}", "n", (int)n_prompt, "cached_tokens", on ? (int)cached : 0);
        r[on].memory_mib = ab_engine_memory(e);
        if (on) ab_row_gain(&r[1], "ttft", ab_median(&r[0].ttft) / ab_median(&r[1].ttft));
        ab_row_add(a, &r[on]);
    }
    return HY_OK;
}

hy_status ab_group_prefix(ab *a, hy_err *err)
{
    uint32_t n_prompt = HY_MIN(2 * a->n_prompt, a->n_ctx - SHORT - 1);
    if (n_prompt < 2 * TAIL) return hy_fail(err, HY_E_LIMIT, "a context of %u tokens is too short", a->n_ctx);
    ab_row r[2] = { ab_row_make("prefix_cache", "best", "off"), ab_row_make("prefix_cache", "best", "on") };
    hy_options o = ab_engine_options(a, n_prompt + SHORT, 1, 4ull * (n_prompt + SHORT));
    hy_engine *e = NULL;
    ab_ask *q = ab_asks_new(3, n_prompt, SHORT);
    hy_status st = q ? ab_engine_open(a, &e, &o, err) : no_memory(err);
    if (st == HY_OK) st = run_prefix(a, e, q, n_prompt, r, err);
    ab_asks_free(q, 3);
    hy_close(e);
    return st;
}

/* ---- chunked prefill -------------------------------------------------------------------------------------- */

/* Somebody reads an answer; a long prompt arrives. How long does the reader wait for a token? */
static hy_status one_chunked(ab *a, hy_engine *e, ab_ask *q, ab_row *r, ab_stat *gap, hy_err *err)
{
    HY_TRY(ab_ask_all(a, e, q, 2, NULL, NULL, err));
    ab_put(gap, ab_worst_gap_ms(&q[0], q[1].us_asked));
    ab_put(&r->ttft, ab_ttft_ms(&q[1]));
    ab_put(&r->itl, ab_itl_ms(&q[0]));
    ab_put(&r->tps, 1000 / ab_itl_ms(&q[0]));
    return HY_OK;
}

static hy_status run_chunked(ab *a, hy_engine *const e[2], ab_ask *const q[2], uint32_t n_long, hy_err *err)
{
    ab_row r[2] = { ab_row_make("chunked_prefill", "best", "off"), ab_row_make("chunked_prefill", "best", "on") };
    ab_stat gap[2] = { { .n = 0 } };
    hy_status st = HY_OK;
    uint32_t round = 0;
    for (uint64_t us = hy_now_us(); ab_more(a, round, us, err, &st); round++)
        for (int k = 0; k < 2 && st == HY_OK; k++) st = one_chunked(a, e[k], q[k], &r[k], &gap[k], err);
    ab_end(a, round);
    if (st != HY_OK) return st;
    r[1].same_bits = ab_same_answers(q[0], q[1], 2);
    for (int k = 0; k < 2; k++) {
        r[k].extra = json_pack("{s:i, s:o, s:o}", "n", (int)n_long, "worst_gap_ms", ab_number(ab_median(&gap[k])),
                               "worst_gap_range_ms", ab_range(&gap[k]));
        r[k].memory_mib = ab_engine_memory(e[k]);
        if (k) ab_row_gain(&r[1], "gap", ab_median(&gap[0]) / ab_median(&gap[1]));
        ab_row_add(a, &r[k]);
    }
    return HY_OK;
}

hy_status ab_group_chunked(ab *a, hy_err *err)
{
    uint32_t n_read = 32, n_short = 16, n_long = HY_MIN(4 * a->n_prompt, a->n_ctx - SHORT - 1);
    hy_engine *e[2] = { NULL };
    ab_ask *q[2] = { NULL };
    hy_status st = HY_OK;
    for (int k = 0; k < 2 && st == HY_OK; k++) {
        hy_options o =
            ab_engine_options(a, HY_MAX(n_long + SHORT, n_short + n_read), 2, 2ull * (n_long + n_read + n_short));
        o.no_prefix_cache = true;
        if (k == 0) { /* the prompt in one piece */
            o.n_step = n_long + 2;
            o.itl_target_ms = 3.6e6;
        } else { /* pieces of what a reader hardly notices: a few tokens' time */
            o.itl_target_ms = HY_MAX(a->unit_ms / 4, 10);
        }
        st = ab_engine_open(a, &e[k], &o, err);
        q[k] = st == HY_OK ? ab_asks_new(2, n_long, HY_MAX(n_read, (uint32_t)SHORT)) : NULL;
        if (st == HY_OK && !q[k]) st = no_memory(err);
        if (st != HY_OK) break;
        ab_ask_fill(a, &q[k][0], 1, 0, n_short);
        ab_ask_set(&q[k][0], n_short, n_read);
        ab_ask_fill(a, &q[k][1], 2, 0, n_long);
        ab_ask_set(&q[k][1], n_long, SHORT);
        q[k][1].n_before = 4;
    }
    if (st == HY_OK) st = run_chunked(a, e, q, n_long, err);
    for (int k = 0; k < 2; k++) {
        ab_asks_free(q[k], 2);
        hy_close(e[k]);
    }
    return st;
}

/* ---- continuous batching ------------------------------------------------------------------------------------ */

enum { STREAMS = 32, POINTS = 6, QUEUE = 8 };

static void take_streams(const ab_ask *q, uint32_t n, ab_row *r)
{
    double sum_ttft = 0, sum_itl = 0, tokens = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum_ttft += ab_ttft_ms(&q[i]);
        sum_itl += ab_itl_ms(&q[i]);
        tokens += q[i].n;
    }
    ab_put(&r->ttft, sum_ttft / n);
    ab_put(&r->itl, sum_itl / n);
    ab_put(&r->tps, tokens / ab_span_s(q, n));
}

/* Alone: one after the other on an engine that runs one. Together: 1, 2, 4 ... of them at once. */
static hy_status run_batching(ab *a, hy_engine *alone, hy_engine *many, ab_ask *q, ab_ask *first, ab_row *off,
                              ab_row *on, hy_err *err)
{
    hy_status st = HY_OK;
    uint32_t round = 0;
    for (uint64_t us = hy_now_us(); ab_more(a, round, us, err, &st); round++) {
        st = ab_ask_all(a, alone, first, QUEUE, NULL, NULL, err);
        if (st == HY_OK) take_streams(first, QUEUE, off);
        for (uint32_t k = 0; k < POINTS && st == HY_OK; k++) {
            st = ab_ask_all(a, many, q, 1u << k, NULL, NULL, err);
            if (st != HY_OK) break;
            take_streams(q, 1u << k, &on[k]);
            uint32_t n = HY_MIN(1u << k, (uint32_t)QUEUE);
            bool same = ab_same_answers(first, q, n);
            on[k].same_bits = on[k].same_bits < 0 ? same : on[k].same_bits && same;
        }
    }
    ab_end(a, round);
    return st;
}

static void tell_batching(ab *a, ab_row *off, ab_row *on)
{
    json_t *curve = json_array();
    off->extra = json_pack("{s:i}", "streams", QUEUE);
    ab_row_add(a, off);
    double alone = ab_median(&on[0].tps);
    for (uint32_t k = 0; k < POINTS; k++) {
        (void)json_array_append_new(curve, json_pack("{s:i, s:o, s:o, s:o}", "streams", 1 << k, "tokens_s",
            ab_number(ab_median(&on[k].tps)), "itl_ms", ab_number(ab_median(&on[k].itl)), "ttft_ms",
            ab_number(ab_median(&on[k].ttft))));
        on[k].extra =
            json_pack("{s:i, s:o}", "streams", 1 << k, "over_one_stream", ab_number(ab_median(&on[k].tps) / alone));
        ab_row_gain(&on[k], "tokens_s", ab_median(&on[k].tps) / ab_median(&off->tps));
        if (k > 0) ab_row_add(a, &on[k]);
        else json_decref(on[k].extra);
    }
    json_object_set_new(a->curves, "streams", curve);
}

hy_status ab_group_batching(ab *a, hy_err *err)
{
    uint32_t n_prompt = HY_MAX(a->n_prompt / 8, 8u), n_answer = a->n_gen, n_ctx = n_prompt + n_answer + 1;
    ab_row off = ab_row_make("batching", "best", "one at a time"), on[POINTS];
    hy_engine *e[2] = { NULL };
    ab_ask *q = ab_asks_new(STREAMS, n_prompt, n_answer), *first = ab_asks_new(QUEUE, n_prompt, n_answer);
    hy_status st = q && first ? HY_OK : no_memory(err);
    for (uint32_t i = 0; st == HY_OK && i < STREAMS; i++) {
        ab_ask_fill(a, &q[i], 500 + i, 0, n_prompt);
        if (i < QUEUE) ab_ask_fill(a, &first[i], 500 + i, 0, n_prompt);
    }
    for (int k = 0; k < 2 && st == HY_OK; k++) {
        uint32_t n_seq = k ? STREAMS : 1;
        hy_options o = ab_engine_options(a, n_ctx, n_seq, (uint64_t)n_seq * (n_ctx + HY_KV_PAGE_TOK));
        o.no_prefix_cache = true;
        st = ab_engine_open(a, &e[k], &o, err);
        if (st != HY_OK) break;
        if (k) for (uint32_t i = 0; i < POINTS; i++) {
            char name[16];
            snprintf(name, sizeof name, "%u at once", 1u << i);
            on[i] = ab_row_make("batching", "best", name);
            on[i].memory_mib = ab_engine_memory(e[1]);
        }
        else off.memory_mib = ab_engine_memory(e[0]);
    }
    if (st == HY_OK) st = run_batching(a, e[0], e[1], q, first, &off, on, err);
    if (st == HY_OK) tell_batching(a, &off, on);
    ab_asks_free(q, STREAMS);
    ab_asks_free(first, QUEUE);
    hy_close(e[0]);
    hy_close(e[1]);
    return st;
}
