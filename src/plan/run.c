/* run: the team walks the entries together, a barrier after each. */
#include "plan/timing.h"

static bool is_local(const hy_plan *p, const hy_entry *e)
{
    return e->kind == HY_KIND_ROWS && p->local_on[p->prim[e->first].out];
}

static void run_rows(const hy_plan *p, const hy_entry *e, const hy_worker *w)
{
    uint64_t first = 0, last = hy_entry_rows(p, e);
    if (!is_local(p, e)) hy_share(last, 1, w, &first, &last);
    for (uint64_t r = first; r < last; r++)
        for (uint32_t i = 0; i < e->n; i++) hy_op_row(p, &p->prim[e->first + i], (uint32_t)r, w);
}

static void run_heads(const hy_plan *p, const hy_entry *e, const hy_worker *w)
{
    uint32_t n_kv = p->prim[e->first].lp->n_kv_head;
    uint64_t first, last;
    hy_share((uint64_t)p->b->n_tok * n_kv, 1, w, &first, &last);
    for (uint64_t r = first; r < last; r++)
        for (uint32_t i = 0; i < e->n; i++)
            hy_op_head(p, &p->prim[e->first + i], (uint32_t)(r / n_kv), (uint32_t)(r % n_kv));
}

static void run_entry(const hy_plan *p, uint32_t i, hy_worker *w)
{
    const hy_entry *e = &p->entry[i];
    switch (e->kind) {
    case HY_KIND_ROWS: run_rows(p, e, w); break;
    case HY_KIND_HEADS:
        run_heads(p, e, w);
        if (i + 1 < p->n_entry && e[1].kind == HY_KIND_ATTENTION) hy_attention_ahead(p, e + 1, w);
        break;
    case HY_KIND_COLS: hy_op_cols(p, e, w); break;
    case HY_KIND_ATTENTION:
        if (p->o.materialised) hy_op_materialised(p, e, w);
        else hy_op_attention(p, e, i, w);
        break;
    case HY_KIND_ROUTE: hy_op_route(p, e, i, w); break;
    case HY_KIND_UP: hy_op_moe_up(p, e, i, w); break;
    case HY_KIND_DOWN: hy_op_moe_down(p, e, i, w); break;
    }
}

static void walk(void *arg, hy_worker *w)
{
    hy_plan *p = arg;
    uint64_t first, last;
    hy_lap lap;
    hy_lap_begin(&lap, p, w);
    hy_share(p->b->n_tok, 1, w, &first, &last);
    for (uint32_t i = 0; i < 2; i++) /* read after several barriers */
        if (p->rope[i].half) hy_rope_step(&p->rope[i], p->b, (uint32_t)first, (uint32_t)last);
    for (uint32_t i = 0; i < p->n_entry; i++) {
        const hy_entry *e = &p->entry[i];
        if ((e->on_out && p->b->n_out == 0) || hy_heads_inside(p, i + 1)) continue;
        if (p->tap && w->i == 0) hy_tap_entry(p, e, w);
        run_entry(p, i, w);
        uint64_t ns_done = lap.ring ? hy_now_ns() : 0;
        if (!is_local(p, e)) hy_team_barrier(w);
        if (lap.t) hy_lap_entry(&lap, p, i, w, ns_done);
    }
    if (p->b->kept && p->b->n_out && !hy_keeps_logits(p, &p->entry[p->n_entry - 1])) hy_op_keep_share(p, w);
    hy_lap_end(&lap, w);
}

hy_status hy_plan_run(hy_plan *p, hy_team *team, const hy_kv *kv, const hy_batch *b, float *logits,
                      hy_err *err)
{
    hy_pace *pace = &p->pace;
    if (pace->watch && hy_pace_due(pace)) hy_pace_look(pace, hy_now_us(), hy_cpu_throttled());
    if (pace->n_many) hy_team_use(team, hy_pace_threads(pace, b->n_tok));
    uint32_t n_thread = hy_team_used(team);
    HY_TRY(hy_plan_check_batch(p, n_thread, kv, b, logits, err));
    p->b = b;
    p->kv = kv;
    p->slot[HY_S_L].f = logits;
    hy_plan_att_work(p, n_thread);
    p->decode_only = b->n_tok == b->n_row;
    for (uint32_t s = 0; s < HY_S_COUNT; s++)
        p->local_on[s] = p->local_ok[s] && n_thread > 1 &&
                         (s == HY_S_Y ? b->n_out : b->n_tok) <= HY_LOCAL_ROWS;
    for (uint32_t i = 0; i < 2 * p->n_entry; i++)
        atomic_store_explicit(&p->counter[i], 0, memory_order_relaxed);
    hy_team_run(team, walk, p);
    if (p->timing) p->timing->i_step++;
    p->b = NULL;
    return HY_OK;
}

const float *hy_plan_hidden(const hy_plan *p, uint32_t i_out)
{
    const hy_slot_mem *y = p->local_on[HY_S_Y] ? &p->scratch[0].slot[HY_S_Y] : &p->slot[HY_S_Y];
    return y->f + i_out * y->stride;
}

hy_region hy_plan_region(const hy_plan *p)
{
    return (hy_region){ p->mem, p->mem_bytes };
}
