/* hy_poll: tokens -> text on the caller's thread; holds back split characters and what may become a
 * stop string. */
#include "engine.h"
#include <string.h>

/* Where the first stop string begins in the held text, or -1. Of several the earliest wins. */
static int64_t find_stop(const hy_request *r, int32_t *which)
{
    int64_t best = -1;
    for (uint32_t i = 0; i < r->n_stop; i++) {
        const char *at = r->held.len ? memmem(r->held.data, r->held.len, r->stop[i], r->stop_len[i]) : NULL;
        if (!at || (best >= 0 && at - r->held.data >= best)) continue;
        best = at - r->held.data;
        *which = (int32_t)i;
    }
    return best;
}

/* Bytes at the end of the held text that a stop string could begin with. */
static size_t maybe_stop(const hy_request *r)
{
    size_t most = r->stop_max ? HY_MIN(r->stop_max - 1, r->held.len) : 0;
    for (size_t n = most; n > 0; n--)
        for (uint32_t i = 0; i < r->n_stop; i++)
            if (n < r->stop_len[i] && memcmp(r->held.data + r->held.len - n, r->stop[i], n) == 0) return n;
    return 0;
}

/* Moves what may be sent from held to text. */
static void release_text(hy_request *r, bool last)
{
    int64_t cut = find_stop(r, &r->stop_index);
    if (cut >= 0) {
        hy_buf_put(&r->text, r->held.data, (size_t)cut);
        hy_buf_reset(&r->held);
        r->stopped = true;
        int not = HY_WHY_NOT;
        atomic_compare_exchange_strong(&r->cancel, &not, HY_WHY_STOP);
        hy_tick_wake(&r->engine->wake);
        return;
    }
    size_t keep = last ? 0 : maybe_stop(r);
    size_t n = r->held.len - keep;
    if (n == 0) return;
    hy_buf_put(&r->text, r->held.data, n);
    memmove(r->held.data, r->held.data + n, keep);
    r->held.len = keep;
    r->held.data[keep] = 0;
}

static hy_status take(hy_request *r, uint32_t n_out, hy_event *ev, hy_err *err)
{
    uint32_t first = r->n_taken;
    for (; r->n_taken < n_out && !r->stopped; r->n_taken++) {
        const hy_out_token *t = &r->out[r->n_taken];
        /* a model may have more logits than its tokenizer has tokens: those have no text */
        if ((uint32_t)t->id < hy_tok_n_vocab(r->detok.tok)) HY_TRY(hy_detok_put(&r->detok, t->id, &r->held, err));
        hy_token *e = &r->ev_token[r->n_taken];
        *e = (hy_token){ .id = t->id, .logprob = t->logprob, .us = t->us };
        if (r->top) {
            e->n_top = (uint32_t)r->top_logprobs;
            e->top = (const hy_logprob *)(r->top + (size_t)r->n_taken * e->n_top);
        }
        release_text(r, false);
    }
    ev->token = r->ev_token + first;
    ev->n_token = r->n_taken - first;
    return HY_OK;
}
/* What is left when no more tokens come. */
static void take_rest(hy_request *r)
{
    if (r->stopped) return;
    hy_detok_end(&r->detok, &r->held);
    release_text(r, true);
}

hy_status hy_poll(hy_request *r, int timeout_ms, hy_event *ev, hy_err *err)
{
    memset(ev, 0, sizeof *ev);
    hy_buf_reset(&r->text);
    uint64_t until = hy_now_us() + (timeout_ms > 0 ? (uint64_t)timeout_ms * 1000 : 0);
    for (;;) {
        uint32_t seen = atomic_load(&r->tick);
        hy_finish f = (hy_finish)atomic_load(&r->finish);
        uint32_t n_out = atomic_load(&r->n_out);
        if (n_out > r->n_taken && !r->stopped) {
            HY_TRY(take(r, n_out, ev, err));
            ev->kind = HY_EV_TEXT;
        } else if (f != HY_FINISH_NONE && !r->ended) {
            r->ended = true;
            take_rest(r);
            /* a rest of text comes as an event of its own, before the end */
            ev->kind = r->text.len ? HY_EV_TEXT : HY_EV_NONE;
        }
        if (r->text.failed || r->held.failed) return hy_fail_memory(err, "text", r->text.len);
        ev->text = r->text.data ? r->text.data : "";
        ev->n_text = r->text.len;
        if (ev->kind == HY_EV_TEXT) return HY_OK;
        if (f != HY_FINISH_NONE) {
            ev->kind = HY_EV_DONE;
            ev->finish = r->stopped ? HY_FINISH_STOP : f;
            hy_request_usage(r, &ev->usage);
            if (f != HY_FINISH_ERROR) return HY_OK;
            if (err) *err = r->err;
            return r->status;
        }
        int64_t left = -1;
        if (timeout_ms >= 0) {
            uint64_t now = hy_now_us();
            if (now >= until) return HY_OK;
            left = (int64_t)(until - now);
        }
        hy_word_wait(&r->tick, seen, left);
    }
}
