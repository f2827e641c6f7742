/* The engine's thread: admit, share, run, emit. Takes no lock and allocates nothing. */
#include "engine.h"
#include "profile.h"
#include <string.h>

/* ---- who goes before the step ------------------------------------------------------------------ */

static hy_finish ended(const hy_sched_req *q, uint64_t now)
{
    const hy_request *r = q->owner;
    int why = atomic_load_explicit(&r->cancel, memory_order_relaxed);
    if (why) return why == HY_WHY_STOP ? HY_FINISH_STOP : HY_FINISH_CANCELLED;
    return q->us_deadline && now >= q->us_deadline ? HY_FINISH_DEADLINE : HY_FINISH_NONE;
}

/* Cancelled ones, and those whose time is over, in every state. */
static void sweep(hy_engine *e, uint64_t now)
{
    hy_sched *s = &e->sched;
    for (uint32_t i = 0; i < s->n_run;) {
        hy_finish f = ended(s->run[i], now);
        if (f == HY_FINISH_NONE) i++;
        else hy_emit_finish(e, s->run[i]->owner, f);
    }
    for (hy_sched_req *q = s->wait_first, *next; q; q = next) {
        next = q->next;
        hy_finish f = ended(q, now);
        if (f != HY_FINISH_NONE) hy_emit_finish(e, q->owner, f);
    }
}

static void fail_all(hy_engine *e, const hy_err *err)
{
    while (e->sched.n_run) {
        hy_request *r = e->sched.run[0]->owner;
        r->status = err->code;
        r->err = *err;
        hy_emit_finish(e, r, HY_FINISH_ERROR);
    }
}

/* From the scheduler: r runs (again), or was paused. */
static void on_start(void *engine, hy_sched_req *q, uint64_t now)
{
    hy_engine *e = engine;
    hy_request *r = q->owner;
    atomic_fetch_sub(&e->n_waiting_all, 1);
    hy_span_end(r, now);
    if (HY_GET(r->us_start)) return;
    HY_SET(r->us_start, now);
    HY_BUMP(e->c_request, 1);
    hy_hist_add(&e->hist[HY_H_QUEUE], (double)(now - r->us_submit) / 1e6);
}

static void on_pause(void *engine, hy_sched_req *q, uint64_t now)
{
    hy_engine *e = engine;
    atomic_fetch_add(&e->n_waiting_all, 1);
    hy_draft_pause(e, q->owner);
    hy_span_begin(q->owner, HY_SPAN_PAUSE, now);
}

/* ---- a batch ---------------------------------------------------------------------------------- */

/* Does the token at position pos want logits or its hidden state? */
static bool wants_out(const hy_request *r, uint32_t pos)
{
    if (r->pool == HY_POOL_MEAN) return pos >= r->n_pooled;
    if (pos + 1 >= r->q.n_known) return true;
    return r->plp && pos + 1 >= r->n_plp && pos + 1 < r->n_prompt;
}

static void add_row(hy_engine *e, hy_batch *b, hy_request *r)
{
    uint32_t n = r->q.n_give + r->q.n_draft; /* drafts stand behind the last known token */
    e->row[b->n_row] = (hy_row){ .table = &r->q.table, .tok_first = b->n_tok, .n_tok = n, .pos0 = r->q.n_done,
                                 .n_total = r->n_prompt };
    e->row_req[b->n_row++] = r;
    r->at = r->q.n_done;
    r->i_out = b->n_out;
    for (uint32_t k = 0; k < n; k++) {
        e->token[b->n_tok] = r->ids[r->at + k];
        e->pos[b->n_tok] = (int32_t)(r->at + k);
        if (wants_out(r, r->at + k)) {
            bool logprobs = r->top_logprobs >= 0 || r->at + k + 1 < r->n_prompt;
            if (r->pool == HY_POOL_NONE) e->kept[b->n_out].temperature = hy_sample_sums(&r->sampling, logprobs);
            e->out_tok[b->n_out++] = b->n_tok;
        }
        b->n_tok++;
    }
    r->n_out_rows = b->n_out - r->i_out;
}

/* Rows that want only hidden states stand last. */
static void build(hy_engine *e, hy_batch *b)
{
    memset(b, 0, sizeof *b);
    for (int pool = 0; pool < 2; pool++) {
        uint32_t before = b->n_out;
        for (uint32_t i = 0; i < e->sched.n_run; i++) {
            hy_request *r = e->sched.run[i]->owner;
            if (r->q.n_give && (r->pool != HY_POOL_NONE) == pool) add_row(e, b, r);
        }
        if (pool) b->n_hidden = b->n_out - before;
    }
    b->token = e->token;
    b->pos = e->pos;
    b->row = e->row;
    b->out_tok = e->out_tok;
    b->kept = e->kept;
}

/* ---- a step ----------------------------------------------------------------------------------- */

static void step(hy_engine *e)
{
    hy_core *c = e->core;
    hy_err err = { HY_OK, "" };
    hy_batch b = { 0 };
    uint32_t n_tok = 0;
    hy_prof_moments m = { .begin = hy_now_ns() };
    hy_draft_propose(e);
    m.drafted = hy_now_ns();
    uint64_t us = hy_now_us();
    hy_status s = hy_sched_step(&e->sched, us, &n_tok, &err);
    if (s == HY_OK && n_tok) {
        build(e, &b);
        m.run = hy_now_ns();
        s = hy_plan_run(c->plan, c->team, c->kv, &b, e->logits, &err);
    }
    if (s != HY_OK) {
        hy_log(HY_LOG_ERROR, "engine: step failed", "error=\"%s\"", err.msg);
        fail_all(e, &err);
        return;
    }
    m.ran = hy_now_ns();
    hy_profiling_step(e, &b, &m);
    uint64_t now = hy_now_us();
    hy_draft_step_took(e, (double)(now - us) / 1e3, &b);
    for (uint32_t k = 0; k < b.n_row; k++)
        hy_span_step(e->row_req[k], us, now, e->row_req[k]->q.n_give, b.n_tok - e->row_req[k]->q.n_give);
    hy_sched_done(&e->sched);
    e->map_stale = true;
    hy_publish_step(e, (double)(now - us) / 1e3, b.n_tok);
    hy_emit_step(e, b.n_row);
    hy_sched_took(&e->sched, (double)(hy_now_us() - us) / 1e3); /* sampling is part of the gap that readers see */
    hy_publish_map(e, false);
}

static void work(hy_engine *e)
{
    uint64_t n_alloc = hy_alloc_count_here(), now = hy_now_us();
    hy_request *r;
    while ((r = hy_queue_take(&e->queue))) hy_sched_add(&e->sched, &r->q);
    sweep(e, now);
    hy_sched_admit(&e->sched, now);
    if (e->sched.n_run) step(e);
    HY_BUMP(e->c_alloc, hy_alloc_count_here() - n_alloc);
}

void *hy_engine_main(void *engine)
{
    hy_engine *e = engine;
    e->sched.o.ctx = e;
    e->sched.o.on_start = on_start;
    e->sched.o.on_pause = on_pause;
    hy_seat before;
    (void)hy_team_sit(e->core->team, &before); /* for good: the thread ends with the engine */
    bool settled = false;
    for (;;) {
        uint32_t seen = atomic_load(&e->wake);
        hy_engine_do_commands(e, false);
        hy_profiling_look(e);
        if (atomic_load(&e->stop)) break;
        work(e);
        if (e->sched.n_run) continue;
        if (!settled && HY_GET(e->c_step)) {
            hy_core_settle(e->core);
            if (e->drafts && e->drafts->own) hy_core_settle(e->drafts->own);
            settled = true;
        }
        hy_publish_counts(e);
        hy_publish_map(e, true);
        /* what waits while nobody runs waits for pages of files or the clock: look again soon */
        hy_profiling_wait(e, seen, e->sched.n_wait ? 1000 : -1);
    }
    hy_profiling_leave(e);
    hy_engine_do_commands(e, true);
    hy_request *r;
    while ((r = hy_queue_take(&e->queue))) hy_sched_add(&e->sched, &r->q);
    while (e->sched.n_run) hy_emit_finish(e, e->sched.run[0]->owner, HY_FINISH_CANCELLED);
    while (e->sched.wait_first) hy_emit_finish(e, e->sched.wait_first->owner, HY_FINISH_CANCELLED);
    return NULL;
}
