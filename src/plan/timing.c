/* timing: the clocks of a step, and what operators move and compute by their shapes. */
#include "plan/timing.h"
#include <string.h>

/* ---- work -------------------------------------------------------------------------------------- */

typedef struct work {
    uint64_t mem, act;         /* bytes: weights, keys and values; activations */
    uint64_t int8, f32;        /* operations */
} work;

/* Keys and values that this step reads in a layer, each once, and the pairs (query, key) of one head. */
static void count_attention(const hy_plan *p, const hy_instr *in, work *out)
{
    uint32_t window = in->lp->window;
    uint64_t tok = 0, pairs = 0;
    for (uint32_t i = 0; i < p->b->n_row; i++) {
        const hy_row *r = &p->b->row[i];
        uint64_t end = (uint64_t)r->pos0 + r->n_tok;
        uint64_t first = window && r->pos0 + 1 > window ? r->pos0 + 1 - window : 0;
        tok += end - first;
        for (uint64_t pos = r->pos0; pos < end; pos++) pairs += window ? HY_MIN(pos + 1, window) : pos + 1;
    }
    tok -= HY_MIN(tok, p->att[p->layer_group[in->i_layer]].saved * HY_ATT_TILE); /* on shared pages */
    const hy_hparams *hp = &p->m->hp;
    out->mem += tok * in->lp->n_kv_head * (p->k_bytes + p->v_bytes) / HY_PAGE_TOK;
    out->f32 += pairs * in->lp->n_head * 2 * (hp->d_k + hp->d_v);
}

static void count_prim(const hy_plan *p, const hy_entry *e, uint32_t i, work *out)
{
    const hy_instr *in = &p->prim[e->first + i];
    const hy_hparams *hp = &p->m->hp;
    uint64_t rows = hy_n_rows(p, in->on_out), ops = 0, mem = in->w_bytes;
    switch (in->op) {
    case HY_OP_EMBED:
    case HY_OP_POS_ADD: mem *= rows; break; /* w_bytes: of one row */
    case HY_OP_MATMUL: ops = 2 * rows * in->n * in->k; break;
    case HY_OP_MOE_ROUTE: ops = 2 * rows * hp->n_expert * in->k; break;
    case HY_OP_MOE_UP: {
        bool gate = p->m->layer[in->i_layer][HY_W_E_GATE].present;
        ops = 2 * rows * hp->n_expert_used * in->k * hp->n_ff_expert * (gate ? 2 : 1);
        mem = mem / hp->n_expert_used * p->moe.n_active;
        break;
    }
    case HY_OP_MOE_DOWN:
        ops = 2 * rows * hp->n_expert_used * hp->n_ff_expert * in->n;
        mem = mem / hp->n_expert_used * p->moe.n_active;
        break;
    case HY_OP_ATTENTION: count_attention(p, in, out); break;
    default: break;
    }
    out->mem += mem;
    *(in->q8 ? &out->int8 : &out->f32) += ops;
    out->act += rows * hy_prim_moves(p, e, i);
}

static void count_entry(const hy_plan *p, const hy_entry *e, work *out)
{
    for (uint32_t i = 0; i < e->n; i++) count_prim(p, e, i, out);
}

static void account(struct hy_timing *t, const hy_plan *p, uint32_t i)
{
    work w = { 0 };
    count_entry(p, &p->entry[i], &w);
    if (hy_heads_inside(p, i)) count_entry(p, &p->entry[i - 1], &w);
    hy_op_time *o = &t->work[p->entry[i].op];
    o->n++;
    o->bytes += w.mem + w.act;
    o->mem_bytes += w.mem;
    o->ops_int8 += w.int8;
    o->ops_f32 += w.f32;
}

/* ---- a worker's clock -------------------------------------------------------------------------- */

void hy_lap_begin(hy_lap *l, const hy_plan *p, hy_worker *w)
{
    struct hy_timing *t = p->timing && p->timing->on ? p->timing : NULL;
    *l = (hy_lap){ .t = t };
    if (!t) return;
    w->timed = true;
    l->clock = t->clock[w->i];
    l->wait_ns = w->wait_ns;
    if (w->i < t->ring.n_thread) l->ring = t->ring.span + (size_t)w->i * t->ring.n_span;
    l->ns = hy_now_ns();
}

void hy_lap_entry(hy_lap *l, const hy_plan *p, uint32_t i, const hy_worker *w, uint64_t ns_done)
{
    uint64_t now = hy_now_ns(), wait = w->wait_ns - l->wait_ns;
    const hy_entry *e = &p->entry[i];
    l->clock[e->op].ns += (double)(now - l->ns - HY_MIN(wait, now - l->ns)) / w->n;
    l->clock[e->op].wait_ns += (double)wait / w->n;
    if (l->ring) {
        uint64_t at = l->t->ring.n_taken[w->i]++ % l->t->ring.n_span;
        l->ring[at] = (hy_plan_span){ .ns_first = l->ns, .ns_done = ns_done, .ns_last = now, .op = e->op,
                                      .i_layer = p->prim[e->first].i_layer, .i_step = l->t->i_step };
    }
    if (w->i == 0) account(l->t, p, i);
    l->ns = now;
    l->wait_ns = w->wait_ns;
}

void hy_lap_end(hy_lap *l, hy_worker *w)
{
    if (l->t) w->timed = false;
}

/* ---- public ------------------------------------------------------------------------------------ */

bool hy_plan_timing(hy_plan *p, bool on)
{
    struct hy_timing *t = p->timing;
    if (!t && on) {
        t = hy_arena_alloc(p->arena, sizeof *t, _Alignof(struct hy_timing));
        if (t) t->clock = hy_arena_alloc(p->arena, sizeof(*t->clock) * p->o.n_thread_max, _Alignof(hy_op_clock));
        if (!t || !t->clock) return false;
        p->timing = t;
    }
    if (!t) return true;
    t->on = on;
    memset(t->clock, 0, sizeof(*t->clock) * p->o.n_thread_max);
    memset(t->work, 0, sizeof t->work);
    return true;
}

hy_status hy_plan_trace(hy_plan *p, uint32_t n_thread, uint32_t n_span, hy_err *err)
{
    if (!hy_plan_timing(p, true)) return hy_fail_memory(err, "timing", p->o.n_thread_max * sizeof(hy_op_clock));
    hy_plan_rings *r = &p->timing->ring;
    uint64_t n_ring = n_thread, n = n_ring * n_span;
    *r = (hy_plan_rings){ .span = HY_ARENA_NEW(p->arena, hy_plan_span, n), .n_taken = HY_ARENA_NEW(p->arena, uint64_t, n_ring) };
    if (!r->span || !r->n_taken) return hy_fail_memory(err, "trace", n * sizeof *r->span);
    r->n_thread = n_span ? n_thread : 0;
    r->n_span = n_span;
    return HY_OK;
}

void hy_plan_trace_into(hy_plan *p, hy_plan_rings r)
{
    if (p->timing) p->timing->ring = r;
}

hy_plan_rings hy_plan_traced(const hy_plan *p)
{
    return p->timing ? p->timing->ring : (hy_plan_rings){ 0 };
}

void hy_plan_each_span(const hy_plan_rings *r, hy_plan_span_fn *fn, void *ctx)
{
    for (uint32_t i = 0; i < r->n_thread; i++) {
        uint64_t n = r->n_taken[i], first = n > r->n_span ? n - r->n_span : 0;
        for (uint64_t k = first; k < n; k++) fn(ctx, i, &r->span[(size_t)i * r->n_span + k % r->n_span]);
    }
}

uint32_t hy_plan_times(const hy_plan *p, hy_op_time out[HY_OP_COUNT])
{
    const struct hy_timing *t = p->timing;
    uint32_t n = 0;
    for (uint32_t i = 0; t && i < HY_OP_COUNT; i++) {
        if (t->work[i].n == 0) continue;
        double ns = 0, wait = 0;
        for (uint32_t w = 0; w < p->o.n_thread_max; w++) {
            ns += t->clock[w][i].ns;
            wait += t->clock[w][i].wait_ns;
        }
        out[n] = t->work[i];
        out[n].op = (hy_op)i;
        out[n].ns = (uint64_t)ns;
        out[n++].wait_ns = (uint64_t)wait;
    }
    return n;
}
