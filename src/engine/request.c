/* A request's life beside its events: notify, cancel, release, and what it can be asked for. */
#include "engine.h"
#include <string.h>

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

void hy_cancel(hy_request *r)
{
    int not = HY_WHY_NOT;
    atomic_compare_exchange_strong(&r->cancel, &not, HY_WHY_USER);
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

uint64_t hy_clock_us(void)
{
    return hy_now_us();
}

static double between_ms(uint64_t first, uint64_t last)
{
    return last > first ? (double)(last - first) / 1e3 : 0;
}

void hy_request_usage(const hy_request *r, hy_usage *u)
{
    memset(u, 0, sizeof *u);
    u->n_prompt = r->n_prompt;
    u->n_output = r->n_taken;
    u->n_cached = HY_GET(r->n_cached);
    u->n_paused = HY_GET(r->n_paused);
    u->n_chunk = HY_GET(r->n_chunk);
    u->paused_ms = (double)HY_GET(r->us_paused) / 1e3;
    hy_draft_usage(&r->draft, u);
    u->stop_index = r->stop_index;
    u->stop_id = r->stopped ? -1 : HY_GET(r->stop_id);
    uint64_t start = HY_GET(r->us_start), first = HY_GET(r->us_first);
    if (start) u->queue_ms = between_ms(r->us_submit, start);
    if (!first) return;
    u->ttft_ms = between_ms(r->us_submit, first);
    u->prompt_ms = between_ms(start, first);
    u->decode_ms = between_ms(first, HY_GET(r->us_last));
}

const int32_t *hy_request_prompt(const hy_request *r, uint32_t *n)
{
    *n = r->n_prompt;
    return r->ids;
}

const hy_token *hy_request_prompt_logprobs(const hy_request *r, uint32_t *n)
{
    bool there = r->plp && atomic_load(&r->has_prompt_logprobs);
    *n = there ? r->n_prompt : 0;
    return there ? r->plp : NULL;
}

const float *hy_request_embedding(const hy_request *r, uint32_t *n)
{
    bool there = r->embd && atomic_load(&r->finish) == HY_FINISH_STOP;
    *n = there ? r->engine->core->model->hp.n_embd : 0;
    return there ? r->embd : NULL;
}
