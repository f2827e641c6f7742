/* What the engine's thread tells the world: plain stores that nobody waits for. */
#include "engine.h"

#define MAP_US 100000          /* the page map is at most so old while steps run */

/* What runs and what it holds. */
void hy_publish_counts(hy_engine *e)
{
    const hy_kv *kv = e->core->kv;
    const hy_sched *s = &e->sched;
    uint32_t all = hy_kv_group_of(kv, 0)->n_page, used = all - hy_kv_available(kv, 0), decode = 0, paused = 0;
    uint64_t slots = (uint64_t)used * HY_KV_PAGE_TOK;
    for (uint32_t i = 0; i < s->n_run; i++) {
        /* pages may be shared, but what is reserved and not filled yet is a sequence's own */
        uint64_t room = (uint64_t)s->run[i]->table.n_page[0] * HY_KV_PAGE_TOK;
        slots -= HY_MIN(slots, room - HY_MIN(room, s->run[i]->n_done));
        decode += s->run[i]->decoding;
    }
    for (const hy_sched_req *r = s->wait_first; r; r = r->next) paused += r->us_paused_at != 0;
    hy_kv_cache_stats cs;
    hy_kv_cache_stats_of(kv, &cs);
    HY_SET(e->c_page_all, all);
    HY_SET(e->c_page_used, used);
    HY_SET(e->c_slot_used, slots);
    HY_SET(e->c_running, s->n_run);
    HY_SET(e->c_run_decode, decode);
    HY_SET(e->c_run_prefill, s->n_run - decode);
    HY_SET(e->c_paused_now, paused);
    HY_SET(e->c_paused, s->count.n_paused);
    HY_SET(e->c_query, s->count.query_tok);
    HY_SET(e->c_hit, s->count.hit_tok);
    HY_SET(e->c_evicted, cs.evicted_tok);
    HY_SET(e->c_page_cached, cs.n_idle);
    HY_SET(e->c_cow, cs.n_cow);
    HY_SET(e->c_cascade, hy_plan_cascade_saved(e->core->plan));
    if (e->swap) {
        hy_kv_swap_stats ss;
        hy_kv_swap_stats_of(e->swap, &ss);
        HY_SET(e->c_swap_out, ss.out_bytes);
        HY_SET(e->c_swap_in, ss.in_bytes);
    }
    hy_sched_load l;
    hy_sched_load_of(s, &l);
    HY_SET(e->load[0], l.prompt_left);
    HY_SET(e->load[1], l.out_left);
    HY_SET(e->load[2], l.out_wait);
    HY_SET(e->load[3], l.keys);
    HY_SET(e->load[4], l.tok_free);
    HY_SET(e->load[5], l.tok_run);
    HY_SET(e->load[6], l.tok_wait);
    HY_SET(e->load[7], l.out_mean);
    HY_SET(e->load_n[0], l.n_run);
    HY_SET(e->load_n[1], l.n_wait);
    HY_SET(e->load_n[2], l.n_decode);
}

void hy_publish_step(hy_engine *e, double ms, uint32_t n_tok)
{
    HY_BUMP(e->c_step, 1);
    hy_hist_add(&e->hist[HY_H_STEP], ms / 1e3);
    hy_hist_add(&e->hist[HY_H_STEP_TOKENS], n_tok);
    for (int i = 0; i < 3; i++) HY_SET(e->cost[i], e->sched.cost.w[i]);
    HY_SET(e->cost[3], e->sched.cost.error);
    if (e->core->timing) {
        hy_op_time t[HY_OP_COUNT];
        uint32_t n = hy_plan_times(e->core->plan, t);
        for (uint32_t i = 0; i < n && i < HY_STATS_OPS; i++)
            if ((uint32_t)t[i].op < HY_STATS_OPS) HY_SET(e->op_ns[t[i].op], t[i].ns);
    }
    hy_publish_counts(e);
}

void hy_publish_map(hy_engine *e, bool now)
{
    const hy_kv *kv = e->core->kv;
    uint64_t us = hy_now_us();
    if (!e->map_stale || (!now && us - e->us_map < MAP_US)) return;
    uint32_t n = hy_kv_group_of(kv, 0)->n_page;
    for (uint32_t i = 0; i < n; i++) HY_SET(e->page_map[i], hy_kv_page_state(kv, 0, i));
    e->us_map = us;
    e->map_stale = false;
}

double hy_engine_predict_wait(const hy_engine *e, uint32_t n_prompt)
{
    hy_sched_load l = { .n_seq = e->core->n_seq, .n_step = e->core->n_step, .itl_ms = e->core->itl_ms };
    l.prompt_left = HY_GET(e->load[0]);
    l.out_left = HY_GET(e->load[1]);
    l.out_wait = HY_GET(e->load[2]);
    l.keys = HY_GET(e->load[3]);
    l.tok_free = HY_GET(e->load[4]);
    l.tok_run = HY_GET(e->load[5]);
    l.tok_wait = HY_GET(e->load[6]);
    l.out_mean = HY_GET(e->load[7]);
    l.n_run = HY_GET(e->load_n[0]);
    l.n_wait = HY_GET(e->load_n[1]);
    l.n_decode = HY_GET(e->load_n[2]);
    for (int i = 0; i < 3; i++) l.w[i] = HY_GET(e->cost[i]);
    return hy_sched_predict_wait(&l, n_prompt);
}
