/* Finished exchanges: a ring, and the answer to "why was it slow". */
#include "serve/record.h"
#include <pthread.h>
#include <string.h>

#define LISTENERS_MAX 4

struct hy_records {
    pthread_mutex_t lock;
    hy_record ring[HY_RECORDS];
    uint64_t n;                /* ever added */
    struct { hy_record_fn *fn; void *ctx; } listener[LISTENERS_MAX];
    uint32_t n_listener;
};

hy_status hy_records_open(hy_records **out, hy_err *err)
{
    hy_records *r = hy_alloc_big(sizeof *r);
    if (!r) return hy_fail_memory(err, "records", sizeof *r);
    pthread_mutex_init(&r->lock, NULL);
    *out = r;
    return HY_OK;
}

void hy_records_close(hy_records *r)
{
    if (!r) return;
    pthread_mutex_destroy(&r->lock);
    hy_free_big(r, sizeof *r);
}

void hy_records_listen(hy_records *r, hy_record_fn *fn, void *ctx)
{
    HY_ASSERT(r->n_listener < LISTENERS_MAX);
    r->listener[r->n_listener].fn = fn;
    r->listener[r->n_listener++].ctx = ctx;
}

void hy_records_add(hy_records *r, const hy_record *rec)
{
    for (uint32_t i = 0; i < r->n_listener; i++) r->listener[i].fn(r->listener[i].ctx, rec);
    pthread_mutex_lock(&r->lock);
    r->ring[r->n++ % HY_RECORDS] = *rec;
    pthread_mutex_unlock(&r->lock);
}

bool hy_records_find(hy_records *r, const char *id, hy_record *out)
{
    bool found = false;
    pthread_mutex_lock(&r->lock);
    uint64_t n = HY_MIN(r->n, HY_RECORDS);
    for (uint64_t i = 0; i < n && !found; i++) {
        const hy_record *c = &r->ring[(r->n - 1 - i) % HY_RECORDS];
        found = strcmp(c->id, id) == 0;
        if (found) *out = *c;
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}

void hy_record_usage(hy_record *rec, const hy_usage *u, hy_finish finish)
{
    hy_usage *t = &rec->usage;
    t->n_prompt += u->n_prompt;
    t->n_output += u->n_output;
    t->n_cached += u->n_cached;
    t->n_paused += u->n_paused;
    t->n_chunk += u->n_chunk;
    t->n_drafted += u->n_drafted;
    t->n_accepted += u->n_accepted;
    t->queue_ms = HY_MAX(t->queue_ms, u->queue_ms);
    t->ttft_ms = HY_MAX(t->ttft_ms, u->ttft_ms);
    t->prompt_ms = HY_MAX(t->prompt_ms, u->prompt_ms);
    t->decode_ms = HY_MAX(t->decode_ms, u->decode_ms);
    t->paused_ms = HY_MAX(t->paused_ms, u->paused_ms);
    rec->finish = finish;
}

const char *hy_finish_name(hy_finish f)
{
    switch (f) {
    case HY_FINISH_NONE: return "none";
    case HY_FINISH_STOP: return "stop";
    case HY_FINISH_LENGTH: return "length";
    case HY_FINISH_CANCELLED: return "cancelled";
    case HY_FINISH_ERROR: return "error";
    case HY_FINISH_DEADLINE: return "deadline";
    }
    return "none";
}

static const char *span_name(hy_span_kind k)
{
    switch (k) {
    case HY_SPAN_QUEUE: return "queue";
    case HY_SPAN_CHUNK: return "chunk";
    case HY_SPAN_DECODE: return "decode";
    case HY_SPAN_PAUSE: return "pause";
    }
    return "none";
}

static double ms(uint64_t from, uint64_t to)
{
    return to > from ? (double)(to - from) / 1e3 : 0;
}

static json_t *spans_json(const hy_record *rec, uint64_t now)
{
    json_t *a = json_array();
    for (uint32_t i = 0; i < rec->n_span; i++) {
        const hy_span *s = &rec->span[i];
        json_array_append_new(a, json_pack("{s:s, s:f, s:f, s:b, s:i, s:i}", "kind", span_name(s->kind), "begin_ms",
                                           ms(rec->us_begin, s->us_begin), "ms",
                                           ms(s->us_begin, s->us_end ? s->us_end : now), "open", s->us_end == 0,
                                           "tokens", (int)s->n_tok, "beside", (int)s->n_beside));
    }
    return a;
}

json_t *hy_record_json(const hy_record *rec)
{
    uint64_t now = rec->us_end ? rec->us_end : hy_clock_us();
    const hy_usage *u = &rec->usage;
    const char *state = !rec->us_end ? "running" : rec->client_gone || rec->cancelled ? "cancelled"
                        : rec->status >= 400 ? "failed" : "finished";
    json_t *usage = json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "prompt_tokens", (int)u->n_prompt, "cached_tokens",
                              (int)u->n_cached, "output_tokens", (int)u->n_output, "chunks", (int)u->n_chunk, "pauses",
                              (int)u->n_paused, "drafted_tokens", (int)u->n_drafted, "accepted_tokens",
                              (int)u->n_accepted);
    json_t *times = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "total_ms", ms(rec->us_begin, now), "queue_ms",
                              u->queue_ms, "ttft_ms", u->ttft_ms, "prompt_ms", u->prompt_ms, "decode_ms", u->decode_ms,
                              "paused_ms", u->paused_ms);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:b, s:I, s:i, s:s, s:o, s:o, s:o}", "id", rec->id, "object",
                     "request", "state", state, "method", rec->method, "route", rec->route, "status", rec->status,
                     "client_gone", rec->client_gone, "created", (json_int_t)(rec->unix_us / 1000000), "answers",
                     (int)rec->n_request, "finish", hy_finish_name(rec->finish), "usage", usage, "times", times, "spans",
                     spans_json(rec, now));
}
