/* What a step's rows give: tokens, logprobs of the prompt, pooled states; and how a request ends. */
#include "engine.h"
#include <math.h>
#include <string.h>

/* ---- the end ---------------------------------------------------------------------------------- */

/* The scheduler's numbers where others may read them. */
static void show(hy_request *r)
{
    HY_SET(r->n_cached, r->q.n_cached);
    HY_SET(r->n_paused, r->q.n_paused);
    HY_SET(r->n_chunk, r->q.n_chunk);
    HY_SET(r->us_paused, r->q.us_paused);
}

static void record_end(hy_engine *e, const hy_request *r, hy_finish f, uint64_t now)
{
    HY_BUMP(e->c_finished[f], 1);
    if (f == HY_FINISH_CANCELLED) HY_BUMP(e->c_cancelled, 1);
    hy_hist_add(&e->hist[HY_H_E2E], (double)(now - r->us_submit) / 1e6);
    hy_hist_add(&e->hist[HY_H_PROMPT_TOKENS], r->n_prompt);
    hy_hist_add(&e->hist[HY_H_OUTPUT_TOKENS], r->q.n_known - r->n_prompt);
    uint64_t first = HY_GET(r->us_first);
    if (first && r->pool == HY_POOL_NONE)
        hy_hist_add(&e->hist[HY_H_DECODE], (double)(HY_GET(r->us_last) - first) / 1e6);
}

void hy_emit_finish(hy_engine *e, hy_request *r, hy_finish f)
{
    uint64_t now = hy_now_us();
    bool whole = (f == HY_FINISH_STOP || f == HY_FINISH_LENGTH) && r->pool == HY_POOL_NONE;
    if (r->q.state == HY_SQ_WAIT) atomic_fetch_sub(&e->n_waiting_all, 1);
    show(r);
    hy_draft_end(e, r);
    if (r->q.state != HY_SQ_NONE) hy_sched_remove(&e->sched, &r->q, whole ? r->q.n_known - r->n_prompt : UINT32_MAX);
    e->map_stale = true;
    hy_span_end(r, now);
    record_end(e, r, f, now);
    hy_publish_counts(e);
    atomic_store(&r->finish, f);
    hy_request_notify(r);
    hy_request_unref(r);
}

/* ---- tokens ----------------------------------------------------------------------------------- */

static void record_token(hy_engine *e, hy_request *r, bool first, uint64_t now)
{
    if (first) {
        HY_SET(r->us_first, now);
        HY_BUMP(e->c_prompt_tok, r->n_prompt);
        hy_hist_add(&e->hist[HY_H_TTFT], (double)(now - r->us_submit) / 1e6);
        hy_hist_add(&e->hist[HY_H_PREFILL], (double)(now - HY_GET(r->us_start)) / 1e6);
    } else {
        hy_hist_add(&e->hist[HY_H_ITL], (double)(now - HY_GET(r->us_last)) / 1e6);
    }
    HY_SET(r->us_last, now);
    HY_BUMP(e->c_token, 1);
}

/* The guide's word on the next token; early: no end token while there is another. False: nothing can follow. */
static bool guide_mask(hy_engine *e, hy_request *r, bool early)
{
    size_t n = HY_GRAM_WORDS(e->core->model->hp.n_vocab), any = 0;
    hy_gram_mask(r->guide, e->mask);
    while (early && any < n && !(e->mask[any] & e->not_end[any])) any++;
    if (early && any < n)
        for (size_t i = 0; i < n; i++) e->mask[i] &= e->not_end[i];
    any = 0;
    while (any < n && !e->mask[any]) any++;
    r->sampling.mask = e->mask;
    return any < n;
}

/* Everything allowed may have been taken away by other rules (no_repeat_ngram): then the first that is allowed. */
static int32_t allowed(const hy_engine *e, int32_t id)
{
    if (e->mask[id / 32] >> (id % 32) & 1) return id;
    for (uint32_t i = 0; i < e->core->model->hp.n_vocab; i++)
        if (e->mask[i / 32] >> (i % 32) & 1) return (int32_t)i;
    return id;
}

/* Takes the next token; returns how the request goes on. kept: what is known of the logits. */
static hy_finish take_token(hy_engine *e, hy_request *r, float *logits, const hy_logit_row *kept)
{
    uint32_t i = r->q.n_known - r->n_prompt, n_vocab = e->core->model->hp.n_vocab;
    hy_sample_logprob *top = r->top ? r->top + (size_t)i * (uint32_t)r->top_logprobs : NULL;
    float own = 0;
    bool early = i < r->n_min;
    r->sampling.mask = early ? e->not_end : NULL;
    if (r->guide && !guide_mask(e, r, early)) return HY_FINISH_STOP;
    int32_t id = hy_sample(e->sampler, &r->sampling, logits, kept, n_vocab, r->ids, r->q.n_known, r->q.n_known,
                           r->top_logprobs, &own, top);
    if (r->guide) id = allowed(e, id);
    uint64_t now = hy_now_us();
    record_token(e, r, i == 0, now);
    r->q.decoding = true;
    if (hy_tok_is_end(e->core->tok, id) && (!r->ignore_eos || r->guide)) {
        HY_SET(r->stop_id, id);
        return HY_FINISH_STOP;
    }
    bool done = r->guide && (!hy_gram_accept(r->guide, id) || hy_gram_done(r->guide));
    r->out[i] = (hy_out_token){ id, own, now };
    r->ids[r->q.n_known++] = id;
    HY_BUMP(e->c_output_tok, 1);
    show(r);
    atomic_store(&r->n_out, i + 1);
    if (done) return HY_FINISH_STOP;
    if (i + 1 == r->n_max) return HY_FINISH_LENGTH;
    hy_request_notify(r);
    return HY_FINISH_NONE;
}

static void token_of(hy_engine *e, hy_request *r, float *logits, const hy_logit_row *kept)
{
    hy_finish f = take_token(e, r, logits, kept);
    if (f != HY_FINISH_NONE) hy_emit_finish(e, r, f);
}

/* ---- prompt logprobs -------------------------------------------------------------------------- */

/* Logits of position pos tell the logprob of the prompt's token after it. */
static void prompt_logprob(hy_engine *e, hy_request *r, uint32_t pos, uint32_t i_out)
{
    uint32_t n_top = (uint32_t)HY_MAX(r->prompt_logprobs, 0);
    hy_sample_logprob *top = n_top ? r->plp_top + (size_t)(pos + 1) * n_top : NULL;
    hy_token *t = &r->plp[pos + 1];
    *t = (hy_token){ .id = r->ids[pos + 1], .n_top = n_top, .top = (const hy_logprob *)top };
    uint32_t n_vocab = e->core->model->hp.n_vocab;
    hy_sample_logprobs(e->sampler, e->logits + (size_t)i_out * n_vocab, &e->kept[i_out], n_vocab, t->id, n_top, &t->logprob, top);
    r->n_plp = pos + 2;
}
_Static_assert(sizeof(hy_logprob) == sizeof(hy_sample_logprob), "the two are one layout");

static void copy_prompt_logprobs(const hy_engine *e, hy_request *to, const hy_request *from)
{
    if (!to->plp || !from->plp || from->n_plp < from->n_prompt) return;
    uint32_t n_top = (uint32_t)HY_MAX(to->prompt_logprobs, 0);
    memcpy(to->plp, from->plp, to->n_prompt * sizeof *to->plp);
    if (n_top) memcpy(to->plp_top, from->plp_top, (size_t)to->n_prompt * n_top * sizeof *to->plp_top);
    for (uint32_t i = 1; i < to->n_prompt && n_top; i++)
        to->plp[i].top = (const hy_logprob *)(to->plp_top + (size_t)i * n_top);
    to->n_plp = to->n_prompt;
    to->q.each_out = false;
    atomic_store(&to->has_prompt_logprobs, true);
    (void)e;
}

/* ---- groups ----------------------------------------------------------------------------------- */

static hy_request *follower_of(const hy_engine *e, const hy_request *lead)
{
    const hy_sched *s = &e->sched;
    for (uint32_t i = 0; i < s->n_run; i++)
        if (s->run[i]->lead == &lead->q && s->run[i]->lead_fork) return s->run[i]->owner;
    return NULL;
}

/* The prompt of a group is computed: its other answers take over the pages and draw from the same logits, each
 * from a copy. */
static void fork_group(hy_engine *e, hy_request *lead, const float *logits, const hy_logit_row *kept)
{
    hy_request *r;
    uint32_t n_vocab = e->core->model->hp.n_vocab;
    while ((r = follower_of(e, lead))) {
        if (hy_sched_fork(&e->sched, &r->q, NULL) != HY_OK) {
            r->q.lead = NULL; /* computes its own */
            r->q.lead_lost = true;
            continue;
        }
        copy_prompt_logprobs(e, r, lead);
        memcpy(e->fork_logits, logits, n_vocab * sizeof *logits);
        token_of(e, r, e->fork_logits, kept);
    }
}

/* ---- pooling ---------------------------------------------------------------------------------- */

/* Token by token in the order of positions, so that chunks make no difference. */
static void pool(hy_engine *e, hy_request *r, uint32_t row)
{
    uint32_t n_embd = e->core->model->hp.n_embd;
    const float *x = hy_plan_hidden(e->core->plan, row);
    r->n_pooled++;
    if (r->pool == HY_POOL_LAST) {
        memcpy(r->embd, x, n_embd * sizeof *x);
        return;
    }
    for (uint32_t i = 0; i < n_embd; i++) r->pool_sum[i] += x[i];
    if (r->n_pooled < r->n_prompt) return;
    for (uint32_t i = 0; i < n_embd; i++) r->embd[i] = (float)(r->pool_sum[i] / r->n_prompt);
}

static void pool_rows(hy_engine *e, hy_request *r)
{
    for (uint32_t i = 0; i < r->n_out_rows; i++) pool(e, r, r->i_out + i);
    if (r->n_pooled < (r->pool == HY_POOL_LAST ? 1 : r->n_prompt)) return;
    uint64_t now = hy_now_us();
    HY_SET(r->us_first, now);
    HY_SET(r->us_last, now);
    HY_BUMP(e->c_prompt_tok, r->n_prompt);
    hy_hist_add(&e->hist[HY_H_PREFILL], (double)(now - HY_GET(r->us_start)) / 1e6);
    hy_emit_finish(e, r, HY_FINISH_STOP);
}

/* ---- drafts ----------------------------------------------------------------------------------- */

/* Rows of logits: after the last known token, and after each drafted one. As long as the draw is the drafted token
 * the next row is that of plain decoding. */
static void checked_tokens(hy_engine *e, hy_request *r, float *logits, const hy_logit_row *kept)
{
    uint32_t n = r->q.n_draft, n_vocab = e->core->model->hp.n_vocab, k = 0;
    hy_finish f;
    for (;; k++) {
        int32_t drafted = k < n ? r->ids[r->q.n_known] : -1;
        f = take_token(e, r, logits + (size_t)k * n_vocab, kept + k);
        if (f != HY_FINISH_NONE || k == n || r->ids[r->q.n_known - 1] != drafted) break;
    }
    hy_draft_settle(e, r, n, k);
    hy_sched_accept(&e->sched, &r->q, k);
    if (f != HY_FINISH_NONE) hy_emit_finish(e, r, f);
}

/* ---- rows ------------------------------------------------------------------------------------- */

static void logit_rows(hy_engine *e, hy_request *r)
{
    uint32_t end = r->at + r->q.n_give, n_vocab = e->core->model->hp.n_vocab, k = 0;
    for (uint32_t pos = r->n_plp - 1; r->plp && pos < end && pos + 1 < r->n_prompt; pos++)
        prompt_logprob(e, r, pos, r->i_out + k++);
    if (r->plp && r->n_plp == r->n_prompt) {
        r->q.each_out = false;
        atomic_store(&r->has_prompt_logprobs, true);
    }
    if (end < r->q.n_known) {
        show(r);
        return;
    }
    float *logits = e->logits + (size_t)(r->i_out + k) * n_vocab;
    const hy_logit_row *kept = &e->kept[r->i_out + k];
    if (r->q.group && !r->q.decoding) fork_group(e, r, logits, kept);
    if (r->draft.n) checked_tokens(e, r, logits, kept);
    else token_of(e, r, logits, kept);
}

void hy_emit_step(hy_engine *e, uint32_t n_row)
{
    for (uint32_t k = 0; k < n_row; k++) {
        hy_request *r = e->row_req[k];
        if (atomic_load_explicit(&r->cancel, memory_order_relaxed)) {
            HY_BUMP(e->c_after_cancel, r->q.n_give); /* it ends before the next step */
            continue;
        }
        if (r->pool != HY_POOL_NONE) pool_rows(e, r);
        else logit_rows(e, r);
    }
}
