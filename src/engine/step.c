/* The engine's thread: admit, fill, run, sample, publish. Takes no lock and allocates nothing. */
#include "engine.h"
#include <string.h>

/* ---- lists ------------------------------------------------------------------------------------ */

static void wait_push_back(hy_engine *e, hy_request *r)
{
    r->next = NULL;
    if (e->wait_last) e->wait_last->next = r;
    else e->wait_first = r;
    e->wait_last = r;
}

static void wait_push_front(hy_engine *e, hy_request *r)
{
    r->next = e->wait_first;
    e->wait_first = r;
    if (!e->wait_last) e->wait_last = r;
}

static void run_remove(hy_engine *e, uint32_t i)
{
    memmove(e->run + i, e->run + i + 1, (e->n_run - i - 1) * sizeof *e->run);
    e->n_run--;
}

/* ---- finishing -------------------------------------------------------------------------------- */

/* hy_release closes the gate and waits only while a call is inside; the engine never waits. */
void hy_request_notify(hy_request *r)
{
    hy_tick_wake(&r->tick);
    if (!r->notify) return;
    uint32_t open = 0;
    if (!atomic_compare_exchange_strong(&r->gate, &open, HY_GATE_CALLING)) return;
    r->notify(r->notify_ctx);
    if (atomic_fetch_and(&r->gate, ~HY_GATE_CALLING) & HY_GATE_RELEASED) hy_word_wake(&r->gate);
}

void hy_request_publish_finish(hy_request *r, hy_finish f)
{
    atomic_store(&r->finish, f);
    hy_request_notify(r);
}

/* What runs and what it holds, as seen from outside. */
static void count(hy_engine *e)
{
    const hy_kv *kv = e->core->kv;
    uint64_t slots = 0;
    for (uint32_t i = 0; i < e->n_run; i++) slots += e->run[i]->n_done;
    uint32_t all = hy_kv_group_of(kv, 0)->n_page;
    atomic_store(&e->c_page_all, all);
    atomic_store(&e->c_page_used, all - hy_kv_free_pages(kv, 0));
    atomic_store(&e->c_slot_used, slots);
    atomic_store(&e->c_running, e->n_run);
}

/* Pages go back, and the counters say so, before the caller hears of the end. */
static void finish(hy_engine *e, hy_request *r, hy_finish f)
{
    hy_kv_truncate(e->core->kv, &r->table, 0);
    count(e);
    if (f == HY_FINISH_CANCELLED) atomic_fetch_add(&e->c_cancelled, 1);
    hy_request_publish_finish(r, f);
    hy_request_unref(r);
}

static void fail_all(hy_engine *e, const hy_err *err)
{
    while (e->n_run) {
        hy_request *r = e->run[0];
        run_remove(e, 0);
        r->status = err->code;
        r->err = *err;
        finish(e, r, HY_FINISH_ERROR);
    }
}

static void drop_cancelled(hy_engine *e)
{
    for (uint32_t i = 0; i < e->n_run;) {
        hy_request *r = e->run[i];
        if (!atomic_load_explicit(&r->cancel, memory_order_relaxed)) {
            i++;
            continue;
        }
        run_remove(e, i);
        finish(e, r, HY_FINISH_CANCELLED);
    }
    hy_request **at = &e->wait_first, *last = NULL;
    while (*at) {
        hy_request *r = *at;
        if (atomic_load_explicit(&r->cancel, memory_order_relaxed)) {
            *at = r->next;
            atomic_fetch_sub(&e->n_waiting_all, 1);
            finish(e, r, HY_FINISH_CANCELLED);
        } else {
            last = r;
            at = &r->next;
        }
    }
    e->wait_last = last;
}

/* ---- admission -------------------------------------------------------------------------------- */

static void admit(hy_engine *e)
{
    hy_core *c = e->core;
    while (e->wait_first && e->n_run < c->n_seq) {
        hy_request *r = e->wait_first;
        /* the whole of what is known must fit beside a page of growth for each that runs */
        uint32_t n = c->kv_mode == HY_KV_CONTIGUOUS ? c->n_ctx : r->n_known + 1;
        bool windowed = false;
        for (uint32_t g = 0; g < hy_kv_n_group(c->kv); g++) windowed |= hy_kv_group_of(c->kv, g)->window != 0;
        if (e->n_run && !windowed && !hy_sched_fits(c->kv, n, e->n_run)) return;
        if (c->kv_mode == HY_KV_CONTIGUOUS &&
            hy_kv_reserve(c->kv, &r->table, r->n_prompt + r->n_max, NULL) != HY_OK)
            return;
        e->wait_first = r->next;
        if (!e->wait_first) e->wait_last = NULL;
        atomic_fetch_sub(&e->n_waiting_all, 1);
        if (!r->admitted) {
            r->admitted = true;
            r->us_start = hy_now_us();
            atomic_fetch_add(&e->c_request, 1);
        }
        e->run[e->n_run++] = r;
    }
}

static void pause_request(hy_engine *e, uint32_t i)
{
    hy_request *r = e->run[i];
    run_remove(e, i);
    hy_kv_truncate(e->core->kv, &r->table, 0);
    r->n_done = 0;
    r->n_paused++;
    atomic_fetch_add(&e->c_paused, 1);
    atomic_fetch_add(&e->n_waiting_all, 1);
    wait_push_front(e, r);
}

/* ---- a batch ---------------------------------------------------------------------------------- */

static void refill(hy_engine *e)
{
    for (uint32_t i = 0; i < e->n_run; i++)
        e->seq[i] = (hy_sched_seq){ e->run[i]->n_known, e->run[i]->n_done, 0 };
    hy_sched_fill(e->seq, e->n_run, e->core->n_step);
}

/* Pages for every row; where they run out somebody is paused and the shares are made again. */
static hy_status reserve(hy_engine *e, hy_err *err)
{
    refill(e);
    for (uint32_t i = 0; i < e->n_run; i++) {
        hy_request *r = e->run[i];
        if (e->seq[i].n_give == 0) continue;
        hy_status s = hy_kv_reserve(e->core->kv, &r->table, r->n_done + e->seq[i].n_give, err);
        if (s == HY_OK) continue;
        uint32_t victim = hy_sched_victim(e->seq, e->n_run, i);
        if (s != HY_E_LIMIT || victim == e->n_run) return s;
        pause_request(e, victim);
        refill(e);
        i = UINT32_MAX; /* again from the first: reserving twice changes nothing */
    }
    return HY_OK;
}

static void build(hy_engine *e, hy_batch *b)
{
    memset(b, 0, sizeof *b);
    for (uint32_t i = 0; i < e->n_run; i++) {
        hy_request *r = e->run[i];
        uint32_t n = e->seq[i].n_give;
        r->n_give = n;
        if (n == 0) continue;
        e->row[b->n_row] = (hy_row){ .table = &r->table, .tok_first = b->n_tok, .n_tok = n, .pos0 = r->n_done,
                                     .n_total = r->n_prompt };
        e->row_req[b->n_row++] = r;
        for (uint32_t k = 0; k < n; k++) {
            e->token[b->n_tok + k] = r->ids[r->n_done + k];
            e->pos[b->n_tok + k] = (int32_t)(r->n_done + k);
        }
        b->n_tok += n;
        if (r->n_done + n == r->n_known) e->out_tok[b->n_out++] = b->n_tok - 1;
    }
    b->token = e->token;
    b->pos = e->pos;
    b->row = e->row;
    b->out_tok = e->out_tok;
}

/* ---- after a step ----------------------------------------------------------------------------- */

/* Takes the token of one row; returns how the request goes on. */
static hy_finish take_token(hy_engine *e, hy_request *r, float *logits)
{
    uint32_t i = r->n_known - r->n_prompt;
    hy_sample_logprob *top = r->top ? r->top + (size_t)i * (uint32_t)r->top_logprobs : NULL;
    float own = 0;
    int32_t id = hy_sample(e->sampler, &r->sampling, logits, e->core->model->hp.n_vocab, r->ids, r->n_known,
                           r->n_known, r->top_logprobs, &own, top);
    uint64_t now = hy_now_us();
    if (i == 0) r->us_first = now;
    r->us_last = now;
    atomic_fetch_add(&e->c_token, 1);
    if (!r->ignore_eos && hy_tok_is_end(e->core->tok, id)) return HY_FINISH_STOP;
    r->out[i] = (hy_out_token){ id, own, now };
    r->ids[r->n_known++] = id;
    atomic_store(&r->n_out, i + 1);
    if (i + 1 == r->n_max) return HY_FINISH_LENGTH;
    hy_request_notify(r);
    return HY_FINISH_NONE;
}

static void after(hy_engine *e, const hy_batch *b)
{
    hy_core *c = e->core;
    uint32_t i_out = 0;
    for (uint32_t k = 0; k < b->n_row; k++) {
        hy_request *r = e->row_req[k];
        r->n_done += r->n_give;
        if (c->kv_mode == HY_KV_PAGED) hy_kv_slide(c->kv, &r->table, r->n_done);
        if (r->n_done < r->n_known) continue;
        hy_finish f = take_token(e, r, e->logits + (size_t)i_out++ * c->model->hp.n_vocab);
        if (c->kv_mode == HY_KV_OFF) {
            hy_kv_truncate(c->kv, &r->table, 0);
            r->n_done = 0;
        }
        if (f == HY_FINISH_NONE) continue;
        for (uint32_t i = 0; i < e->n_run; i++)
            if (e->run[i] == r) run_remove(e, i);
        finish(e, r, f);
    }
}

static void step(hy_engine *e)
{
    hy_err err = { HY_OK, "" };
    uint64_t n_alloc = hy_alloc_count_here();
    hy_batch b;
    hy_status s = reserve(e, &err);
    if (s == HY_OK) {
        build(e, &b);
        s = hy_plan_run(e->core->plan, e->core->team, e->core->kv, &b, e->logits, &err);
    }
    if (s != HY_OK) {
        hy_log(HY_LOG_ERROR, "engine: step failed", "error=\"%s\"", err.msg);
        fail_all(e, &err);
        return;
    }
    atomic_fetch_add(&e->c_step, 1);
    after(e, &b);
    count(e);
    atomic_fetch_add(&e->c_alloc, hy_alloc_count_here() - n_alloc);
}

void *hy_engine_main(void *engine)
{
    hy_engine *e = engine;
    for (;;) {
        uint32_t seen = atomic_load(&e->wake);
        hy_request *r;
        while ((r = hy_queue_take(&e->queue))) wait_push_back(e, r);
        if (atomic_load(&e->stop)) break;
        drop_cancelled(e);
        admit(e);
        if (e->n_run) {
            step(e);
        } else {
            atomic_store(&e->c_running, 0);
            hy_tick_wait(&e->wake, seen, -1);
        }
    }
    while (e->wait_first) {
        hy_request *r = e->wait_first;
        e->wait_first = r->next;
        finish(e, r, HY_FINISH_CANCELLED);
    }
    while (e->n_run) {
        hy_request *r = e->run[0];
        run_remove(e, 0);
        finish(e, r, HY_FINISH_CANCELLED);
    }
    return NULL;
}
