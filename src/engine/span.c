/* What a request did, span by span. Written by the engine's thread into fixed memory, read by any. */
#include "engine.h"

static hy_live_span *last_of(hy_request *r)
{
    uint32_t n = HY_GET(r->n_span);
    return n ? &r->span[n - 1] : NULL;
}

void hy_span_end(hy_request *r, uint64_t us)
{
    hy_live_span *s = last_of(r);
    if (s && HY_GET(s->us_end) == 0) HY_SET(s->us_end, us);
}

/* With no room left the last one goes on: its kind is what it began with. */
void hy_span_begin(hy_request *r, hy_span_kind kind, uint64_t us)
{
    hy_span_end(r, us);
    uint32_t n = HY_GET(r->n_span);
    if (n == HY_SPANS_MAX) {
        HY_SET(r->span[n - 1].us_end, 0);
        return;
    }
    HY_SET(r->span[n].kind, kind);
    HY_SET(r->span[n].us_begin, us);
    atomic_store_explicit(&r->n_span, n + 1, memory_order_release);
}

static uint32_t n_of(const hy_request *r, hy_span_kind kind)
{
    uint32_t n = 0, all = HY_GET(r->n_span);
    for (uint32_t i = 0; i < all; i++) n += HY_GET(r->span[i].kind) == (uint32_t)kind;
    return n;
}

/* A step in which r had n_tok tokens and others n_beside. Chunks are a span each, decoding is one until
 * something else happens. */
void hy_span_step(hy_request *r, uint64_t us_begin, uint64_t us_end, uint32_t n_tok, uint32_t n_beside)
{
    bool chunk = !r->q.decoding || n_tok > 1;
    hy_live_span *s = last_of(r);
    bool same = s && HY_GET(s->kind) == (uint32_t)(chunk ? HY_SPAN_CHUNK : HY_SPAN_DECODE);
    bool go_on = same && (!chunk || n_of(r, HY_SPAN_CHUNK) >= HY_SPAN_CHUNKS);
    if (!go_on) {
        hy_span_begin(r, chunk ? HY_SPAN_CHUNK : HY_SPAN_DECODE, us_begin);
        s = last_of(r);
    }
    s->n_step++;
    s->sum_beside += n_beside;
    HY_BUMP(s->n_tok, n_tok);
    HY_SET(s->n_beside, (uint32_t)(s->sum_beside / s->n_step));
    HY_SET(s->us_end, chunk ? us_end : 0);
}

uint32_t hy_request_spans(const hy_request *r, hy_span *out, uint32_t cap)
{
    uint32_t n = HY_MIN(atomic_load_explicit(&r->n_span, memory_order_acquire), cap);
    for (uint32_t i = 0; i < n; i++) {
        const hy_live_span *s = &r->span[i];
        out[i] = (hy_span){ .kind = (hy_span_kind)HY_GET(s->kind), .us_begin = HY_GET(s->us_begin),
                            .us_end = HY_GET(s->us_end), .n_tok = HY_GET(s->n_tok), .n_beside = HY_GET(s->n_beside) };
    }
    return n;
}
