/* hy_submit: everything about a request is checked, tokenised and allocated here, on the caller's
 * thread, so that the engine's thread allocates nothing. */
#include "engine.h"
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
}

static hy_status prompt_ids(const hy_core *c, const hy_params *p, hy_ids *ids, hy_err *err)
{
    if (p->tokens) {
        for (uint32_t i = 0; i < p->n_tokens; i++) {
            if (p->tokens[i] < 0 || (uint32_t)p->tokens[i] >= c->model->hp.n_vocab)
                return hy_fail(err, HY_E_ARG, "tokens[%u]: id %d is not in 0..%u", i, p->tokens[i],
                               c->model->hp.n_vocab - 1);
            if (!hy_ids_put(ids, p->tokens[i])) return hy_fail_memory(err, "prompt", ids->n * 4ull);
        }
        return HY_OK;
    }
    if (p->chat_json) {
        hy_buf text = { 0 };
        hy_status s = hy_core_chat(c->tok, p->chat_json, p->chat_template, &text, err);
        if (s == HY_OK)
            s = hy_tok_encode(c->tok, text.data ? text.data : "", text.len, false, true, ids, err);
        hy_buf_free(&text);
        return s;
    }
    if (!p->prompt) return hy_fail(err, HY_E_ARG, "no prompt was given");
    size_t n = p->n_prompt ? p->n_prompt : strlen(p->prompt);
    return hy_tok_encode(c->tok, p->prompt, n, !p->no_special, !p->no_parse_special, ids, err);
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
    s->seed = p->seed;
    if (p->n_logit_bias) {
        r->bias = HY_NEW_ARRAY(hy_sample_bias, p->n_logit_bias);
        if (!r->bias) return hy_fail_memory(err, "logit_bias", p->n_logit_bias * sizeof *r->bias);
        for (uint32_t i = 0; i < p->n_logit_bias; i++)
            r->bias[i] = (hy_sample_bias){ p->logit_bias[i].id, p->logit_bias[i].bias };
        s->bias = r->bias;
        s->n_bias = p->n_logit_bias;
    }
    if (p->top_logprobs < -1 || p->top_logprobs > HY_TOP_LOGPROBS_MAX)
        return hy_fail(err, HY_E_ARG, "top_logprobs: %d is not in -1..%d", p->top_logprobs, HY_TOP_LOGPROBS_MAX);
    r->top_logprobs = p->top_logprobs;
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

/* Every array that the request will ever need. */
static hy_status allocate(hy_request *r, const hy_core *c, const hy_ids *ids, hy_err *err)
{
    uint64_t n_top = r->top_logprobs > 0 ? (uint64_t)r->top_logprobs : 0;
    r->ids = HY_NEW_ARRAY(int32_t, (size_t)r->n_prompt + r->n_max);
    r->out = HY_NEW_ARRAY(hy_out_token, r->n_max);
    r->ev_token = HY_NEW_ARRAY(hy_token, r->n_max);
    r->top = n_top ? HY_NEW_ARRAY(hy_sample_logprob, r->n_max * n_top) : NULL;
    if (!r->ids || !r->out || !r->ev_token || (n_top && !r->top))
        return hy_fail_memory(err, "request", ((uint64_t)r->n_prompt + r->n_max) * 32);
    memcpy(r->ids, ids->id, r->n_prompt * sizeof *r->ids);
    r->n_known = r->n_prompt;
    hy_detok_init(&r->detok, c->tok, r->show_special);
    return hy_page_table_init(c->kv, &r->table, r->n_prompt + r->n_max, err);
}

static hy_status check_room(const hy_core *c, uint32_t n_prompt, uint32_t max_tokens, uint32_t *n_max, hy_err *err)
{
    if (n_prompt == 0) return hy_fail(err, HY_E_ARG, "the prompt is empty");
    if (n_prompt >= c->n_ctx)
        return hy_fail(err, HY_E_LIMIT, "the prompt has %u tokens; the context holds %u, one of them for the answer",
                       n_prompt, c->n_ctx);
    *n_max = c->n_ctx - n_prompt;
    if (max_tokens) *n_max = HY_MIN(*n_max, max_tokens);
    for (uint32_t g = 0; g < hy_kv_n_group(c->kv); g++) {
        const hy_kv_group *grp = hy_kv_group_of(c->kv, g);
        uint32_t need = hy_kv_need(c->kv, g, grp->window ? HY_MIN(n_prompt + *n_max, grp->window) : n_prompt + *n_max);
        if (need > grp->n_page)
            return hy_fail(err, HY_E_LIMIT, "the request needs %u KV pages of 16 tokens; the pool has %u",
                           need, grp->n_page);
    }
    return HY_OK;
}

static void request_free(hy_request *r)
{
    hy_page_table_free(r->engine->core->kv, &r->table);
    for (uint32_t i = 0; i < r->n_stop; i++) hy_free(r->stop[i]);
    hy_free(r->stop);
    hy_free(r->stop_len);
    hy_free(r->bias);
    hy_free(r->ids);
    hy_free(r->out);
    hy_free(r->ev_token);
    hy_free(r->top);
    hy_buf_free(&r->held);
    hy_buf_free(&r->text);
    hy_free(r);
}

void hy_request_unref(hy_request *r)
{
    if (atomic_fetch_sub(&r->n_ref, 1) == 1) request_free(r);
}

hy_status hy_submit(hy_engine *e, const hy_params *p, hy_request **out, hy_err *err)
{
    *out = NULL;
    hy_core *c = e->core;
    if (atomic_load(&e->drain)) return hy_fail(err, HY_E_BUSY, "draining: no new requests");
    hy_request *r = HY_NEW(hy_request);
    if (!r) return hy_fail_memory(err, "request", sizeof *r);
    r->engine = e;
    r->us_submit = hy_now_us();
    r->ignore_eos = p->ignore_eos;
    r->show_special = p->show_special;
    r->notify = p->notify;
    r->notify_ctx = p->notify_ctx;
    hy_ids ids = { 0 };
    hy_status s = copy_sampling(r, p, c->model->hp.n_vocab, err);
    if (s == HY_OK) s = copy_stops(r, p, err);
    if (s == HY_OK) s = prompt_ids(c, p, &ids, err);
    if (s == HY_OK) s = check_room(c, (uint32_t)HY_MIN(ids.n, UINT32_MAX), p->max_tokens, &r->n_max, err);
    r->n_prompt = (uint32_t)ids.n;
    if (s == HY_OK) s = allocate(r, c, &ids, err);
    hy_ids_free(&ids);
    if (s == HY_OK) {
        atomic_store(&r->n_ref, 2);
        uint32_t n = atomic_fetch_add(&e->n_waiting_all, 1);
        if (n >= c->n_queue || atomic_load(&e->stop) || !hy_queue_put(&e->queue, r)) {
            atomic_fetch_sub(&e->n_waiting_all, 1);
            s = hy_fail(err, HY_E_BUSY, "%u requests wait already; the queue holds %u", n, c->n_queue);
        }
    }
    if (s != HY_OK) {
        request_free(r);
        return s;
    }
    hy_tick_wake(&e->wake);
    *out = r;
    return HY_OK;
}

void hy_cancel(hy_request *r)
{
    atomic_store(&r->cancel, true);
    hy_tick_wake(&r->engine->wake);
}

void hy_release(hy_request *r)
{
    if (!r) return;
    uint32_t gate = atomic_fetch_or(&r->gate, HY_GATE_RELEASED) | HY_GATE_RELEASED;
    for (; gate & HY_GATE_CALLING; gate = atomic_load(&r->gate)) hy_word_wait(&r->gate, gate, -1);
    if (atomic_load(&r->finish) == HY_FINISH_NONE) hy_cancel(r);
    hy_request_unref(r);
}

void hy_engine_drain(hy_engine *e)
{
    atomic_store(&e->drain, true);
}
