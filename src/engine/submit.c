/* hy_submit: everything about a request is checked, tokenised and allocated here, on the caller's
 * thread, so that the engine's thread allocates nothing. */
#include "engine.h"
#include <math.h>
#include <string.h>

void hy_params_init(hy_params *p)
{
    memset(p, 0, sizeof *p);
    p->temperature = 1;
    p->top_p = 1;
    p->typical_p = 1;
    p->repeat_penalty = 1;
    p->top_logprobs = -1;
    p->prompt_logprobs = -1;
    p->speculate = HY_SPECULATE_DEFAULT;
}

static hy_status copy_sampling(hy_request *r, const hy_params *p, uint32_t n_vocab, hy_err *err)
{
    hy_sampling *s = &r->sampling;
    hy_sampling_init(s);
    s->temperature = p->temperature;
    s->top_k = p->top_k;
    s->top_p = p->top_p;
    s->min_p = p->min_p;
    s->typical_p = p->typical_p;
    s->repeat = p->repeat_penalty;
    s->frequency = p->frequency_penalty;
    s->presence = p->presence_penalty;
    s->no_repeat_ngram = p->no_repeat_ngram;
    if (p->n_logit_bias) {
        r->bias = HY_NEW_ARRAY(hy_sample_bias, p->n_logit_bias);
        if (!r->bias) return hy_fail_memory(err, "logit_bias", p->n_logit_bias * sizeof *r->bias);
        for (uint32_t i = 0; i < p->n_logit_bias; i++)
            r->bias[i] = (hy_sample_bias){ p->logit_bias[i].id, p->logit_bias[i].bias };
        s->bias = r->bias;
        s->n_bias = p->n_logit_bias;
        r->bytes += p->n_logit_bias * sizeof *r->bias;
    }
    return hy_sampling_check(s, n_vocab, err);
}

static hy_status copy_stops(hy_request *r, const hy_params *p, hy_err *err)
{
    if (p->n_stop == 0) return HY_OK;
    if (p->n_stop > 64) return hy_fail(err, HY_E_ARG, "stop: %u strings are more than 64", p->n_stop);
    r->stop = HY_NEW_ARRAY(char *, p->n_stop);
    r->stop_len = HY_NEW_ARRAY(size_t, p->n_stop);
    if (!r->stop || !r->stop_len) return hy_fail_memory(err, "stop", p->n_stop * sizeof(char *));
    for (uint32_t i = 0; i < p->n_stop; i++) {
        if (!p->stop[i] || !p->stop[i][0]) return hy_fail(err, HY_E_ARG, "stop[%u]: an empty string", i);
        r->stop[i] = hy_strdup(p->stop[i]);
        if (!r->stop[i]) return hy_fail_memory(err, "stop", strlen(p->stop[i]));
        r->n_stop = i + 1;
        r->stop_len[i] = strlen(r->stop[i]);
        r->stop_max = HY_MAX(r->stop_max, r->stop_len[i]);
    }
    return HY_OK;
}

static hy_status check_numbers(const hy_params *p, hy_err *err)
{
    if (p->top_logprobs < -1 || p->top_logprobs > HY_TOP_LOGPROBS_MAX)
        return hy_fail(err, HY_E_ARG, "top_logprobs: %d is not in -1..%d", p->top_logprobs, HY_TOP_LOGPROBS_MAX);
    if (p->prompt_logprobs < -1 || p->prompt_logprobs > HY_TOP_LOGPROBS_MAX)
        return hy_fail(err, HY_E_ARG, "prompt_logprobs: %d is not in -1..%d", p->prompt_logprobs,
                       HY_TOP_LOGPROBS_MAX);
    if (p->pool < HY_POOL_NONE || p->pool > HY_POOL_MEAN)
        return hy_fail(err, HY_E_ARG, "pool: %d is not known", (int)p->pool);
    if (!isfinite(p->deadline_ms) || p->deadline_ms < 0 || p->deadline_ms > 1e12)
        return hy_fail(err, HY_E_ARG, "deadline_ms: %g is not in 0..1e12", p->deadline_ms);
    return HY_OK;
}

static hy_status check_room(const hy_core *c, uint64_t n_prompt, const hy_params *p, uint32_t *n_max, hy_err *err)
{
    bool pool = p->pool != HY_POOL_NONE;
    if (n_prompt == 0) return hy_fail(err, HY_E_ARG, "the prompt is empty");
    if (n_prompt > c->n_ctx || (!pool && n_prompt == c->n_ctx))
        return hy_fail(err, HY_E_LIMIT, "the prompt has %llu tokens; the context holds %u%s",
                       (unsigned long long)n_prompt, c->n_ctx, pool ? "" : ", one of them for the answer");
    *n_max = pool ? 0 : c->n_ctx - (uint32_t)n_prompt;
    if (p->max_tokens) *n_max = HY_MIN(*n_max, p->max_tokens);
    if (p->min_tokens > *n_max)
        return hy_fail(err, HY_E_ARG, "min_tokens: %u are more than the %u that the answer may have", p->min_tokens, *n_max);
    for (uint32_t g = 0; g < hy_kv_n_group(c->kv); g++) {
        uint32_t need = hy_sched_pages(c->kv, g, (uint32_t)n_prompt + *n_max, c->n_step);
        uint32_t have = hy_kv_group_of(c->kv, g)->n_page;
        if (need > have)
            return hy_fail(err, HY_E_LIMIT, "the request needs %u KV pages of %d tokens; the pool has %u", need,
                           HY_KV_PAGE_TOK, have);
    }
    return HY_OK;
}

/* ---- memory ----------------------------------------------------------------------------------- */

static void *take(hy_request *r, uint64_t n, size_t size, bool *failed)
{
    void *p = hy_calloc((size_t)n, size);
    if (p) r->bytes += n * size;
    else *failed = true;
    return p;
}

/* Every array that the request will ever need. */
static hy_status allocate(hy_request *r, const hy_core *c, const hy_ids *ids, hy_err *err)
{
    uint64_t n_top = r->top_logprobs > 0 ? (uint64_t)r->top_logprobs : 0, n_embd = c->model->hp.n_embd;
    bool failed = false;
    r->ids = take(r, (uint64_t)r->n_prompt + r->n_max, sizeof *r->ids, &failed);
    r->out = take(r, r->n_max, sizeof *r->out, &failed);
    r->ev_token = take(r, r->n_max, sizeof *r->ev_token, &failed);
    if (n_top) r->top = take(r, r->n_max * n_top, sizeof *r->top, &failed);
    if (r->prompt_logprobs >= 0) r->plp = take(r, r->n_prompt, sizeof *r->plp, &failed);
    if (r->prompt_logprobs > 0)
        r->plp_top = take(r, (uint64_t)r->n_prompt * (uint32_t)r->prompt_logprobs, sizeof *r->plp_top, &failed);
    if (r->pool != HY_POOL_NONE) r->embd = take(r, n_embd, sizeof *r->embd, &failed);
    if (r->pool == HY_POOL_MEAN) r->pool_sum = take(r, n_embd, sizeof *r->pool_sum, &failed);
    if (failed) return hy_fail_memory(err, "request", ((uint64_t)r->n_prompt + r->n_max) * 32);
    memcpy(r->ids, ids->id, r->n_prompt * sizeof *r->ids);
    if (r->plp) r->plp[0] = (hy_token){ .id = r->ids[0], .logprob = NAN };
    r->n_plp = 1;
    hy_detok_init(&r->detok, c->tok, r->show_special);
    uint32_t n_table = c->kv_mode == HY_KV_CONTIGUOUS ? c->n_ctx : r->n_prompt + r->n_max;
    HY_TRY(hy_page_table_init(c->kv, &r->q.table, n_table, err));
    r->bytes += sizeof *r + 4ull * HY_MAX(1u, hy_kv_n_group(c->kv)) * ((r->n_prompt + r->n_max) / HY_KV_PAGE_TOK + 1);
    return HY_OK;
}

static void request_free(hy_request *r)
{
    if (!r) return;
    HY_ASSERT(r->q.state == HY_SQ_NONE);
    hy_page_table_free(r->engine->core->kv, &r->q.table);
    hy_draft_seq_close(r);
    hy_gram_run_close(r->guide);
    for (uint32_t i = 0; i < r->n_stop; i++) hy_free(r->stop[i]);
    hy_free(r->stop);
    hy_free(r->stop_len);
    hy_free(r->bias);
    hy_free(r->ids);
    hy_free(r->out);
    hy_free(r->ev_token);
    hy_free(r->top);
    hy_free(r->plp);
    hy_free(r->plp_top);
    hy_free(r->pool_sum);
    hy_free(r->embd);
    hy_buf_free(&r->held);
    hy_buf_free(&r->text);
    hy_free(r);
}

void hy_request_unref(hy_request *r)
{
    if (atomic_fetch_sub(&r->n_ref, 1) != 1) return;
    atomic_fetch_sub(&r->engine->c_request_bytes, r->bytes);
    request_free(r);
}

/* ---- one request ------------------------------------------------------------------------------ */

uint64_t hy_engine_salt(const hy_engine *e, const char *tenant, uint32_t n_total)
{
    uint64_t rope = hy_plan_cache_salt(e->core->plan, n_total);
    return tenant ? hy_hash64(tenant, strlen(tenant), rope) : hy_hash64("", 0, rope);
}

static void to_schedule(hy_request *r, const hy_params *p)
{
    const hy_core *c = r->engine->core;
    hy_sched_req *q = &r->q;
    q->owner = r;
    q->ids = r->ids;
    q->n_prompt = q->n_known = r->n_prompt;
    q->n_max = r->n_max;
    q->priority = p->priority;
    q->us_submit = r->us_submit;
    q->us_deadline = p->deadline_ms > 0 ? r->us_submit + (uint64_t)(p->deadline_ms * 1e3) + 1 : 0;
    q->salt = hy_engine_salt(r->engine, p->tenant, r->n_prompt);
    q->put = c->prefix_cache && !p->no_cache;
    /* logits or states of every prompt token: every one is computed */
    q->take = q->put && r->prompt_logprobs < 0 && r->pool != HY_POOL_MEAN;
    q->each_out = r->prompt_logprobs >= 0;
    q->ticket = HY_SCHED_NO_TICKET;
}

static hy_status make_request(hy_engine *e, const hy_params *p, const hy_ids *ids, uint32_t n_max, hy_gram *gram,
                              hy_request **out, hy_err *err)
{
    hy_core *c = e->core;
    hy_request *r = HY_NEW(hy_request);
    *out = r;
    if (!r) return hy_fail_memory(err, "request", sizeof *r);
    r->engine = e;
    r->n_prompt = (uint32_t)ids->n;
    r->n_max = n_max;
    r->n_min = p->ignore_eos ? 0 : p->min_tokens;
    r->ignore_eos = p->ignore_eos;
    r->show_special = p->show_special;
    r->top_logprobs = p->top_logprobs;
    r->prompt_logprobs = p->prompt_logprobs;
    r->pool = p->pool;
    r->notify = p->notify;
    r->notify_ctx = p->notify_ctx;
    r->stop_index = -1;
    HY_SET(r->stop_id, -1);
    atomic_store(&r->n_ref, 2);
    HY_TRY(copy_sampling(r, p, c->model->hp.n_vocab, err));
    HY_TRY(copy_stops(r, p, err));
    HY_TRY(allocate(r, c, ids, err));
    HY_TRY(hy_draft_seq_open(r, p, err));
    if (!gram) return HY_OK;
    HY_TRY(hy_gram_run_open(&r->guide, gram, e->vocab, err));
    r->bytes += hy_gram_run_bytes(r->guide);
    return HY_OK;
}

/* All checks and all memory of n requests with one prompt. */
static hy_status make_all(hy_engine *e, const hy_params *p, uint32_t n, hy_request **out, hy_err *err)
{
    uint64_t us = hy_now_us();
    hy_ids ids = { 0 };
    hy_gram *gram = NULL;
    uint32_t n_max = 0;
    hy_status s = check_numbers(p, err);
    if (s == HY_OK && p->pool == HY_POOL_NONE) s = hy_guide_compile(e, &p->guide, &gram, err);
    if (s == HY_OK) s = hy_prompt_ids(e->core, p, &ids, err);
    if (s == HY_OK) s = check_room(e->core, ids.n, p, &n_max, err);
    uint64_t group = n > 1 ? atomic_fetch_add(&e->group_next, 1) + 1 : 0;
    for (uint32_t i = 0; i < n && s == HY_OK; i++) {
        s = make_request(e, p, &ids, n_max, gram, &out[i], err);
        if (s != HY_OK) break;
        out[i]->us_submit = us;
        out[i]->sampling.seed = p->seed + i;
        to_schedule(out[i], p);
        if (p->pool == HY_POOL_NONE) out[i]->q.group = group;
        hy_span_begin(out[i], HY_SPAN_QUEUE, us);
    }
    hy_gram_unref(gram);
    hy_ids_free(&ids);
    return s;
}

static hy_status enqueue(hy_engine *e, hy_request **r, uint32_t n, hy_err *err)
{
    hy_core *c = e->core;
    if (n > c->n_queue)
        return hy_fail(err, HY_E_ARG, "n: %u answers at once are more than the queue of %u", n, c->n_queue);
    uint32_t before = atomic_fetch_add(&e->n_waiting_all, n);
    if (before + n > c->n_queue || atomic_load(&e->stop)) {
        atomic_fetch_sub(&e->n_waiting_all, n);
        return hy_fail(err, HY_E_BUSY, "%u requests wait already; the queue holds %u", before, c->n_queue);
    }
    /* what waits is bounded by n_queue, and the array holds as many */
    for (uint32_t i = 0; i < n; i++) {
        atomic_fetch_add(&e->c_request_bytes, r[i]->bytes);
        HY_ASSERT(hy_queue_put(&e->queue, r[i]));
    }
    hy_tick_wake(&e->wake);
    return HY_OK;
}

static void count_refusal(hy_engine *e, hy_status s)
{
    if (s == HY_E_BUSY) atomic_fetch_add(&e->c_refused_busy, 1);
    else if (s == HY_E_LIMIT) atomic_fetch_add(&e->c_refused_limit, 1);
    else atomic_fetch_add(&e->c_refused_arg, 1);
}

hy_status hy_submit_n(hy_engine *e, const hy_params *p, uint32_t n, hy_request **out, hy_err *err)
{
    for (uint32_t i = 0; i < n; i++) out[i] = NULL;
    hy_status s = HY_OK;
    if (n == 0 || n > 1024) s = hy_fail(err, HY_E_ARG, "n: %u answers are not in 1..1024", n);
    else if (atomic_load(&e->drain)) s = hy_fail(err, HY_E_BUSY, "draining: no new requests are taken");
    if (s == HY_OK) s = make_all(e, p, n, out, err);
    if (s == HY_OK) s = enqueue(e, out, n, err);
    if (s == HY_OK) return HY_OK;
    count_refusal(e, s);
    for (uint32_t i = 0; i < n && n <= 1024; i++) {
        request_free(out[i]);
        out[i] = NULL;
    }
    return s;
}

hy_status hy_submit(hy_engine *e, const hy_params *p, hy_request **out, hy_err *err)
{
    return hy_submit_n(e, p, 1, out, err);
}

void hy_engine_drain(hy_engine *e)
{
    atomic_store(&e->drain, true);
    hy_tick_wake(&e->wake); /* a profile ends early */
}
