/* tap: shows the inputs of matrix multiplications to whoever measures them. An entry's inputs were
 * finished before the last barrier, so worker 0 may read them while the others begin. */
#include "plan/instr.h"

void hy_plan_tap(hy_plan *p, hy_tap_fn *fn, void *ctx)
{
    p->tap = fn;
    p->tap_ctx = ctx;
}

static void show_experts(const hy_plan *p, const hy_instr *in, const hy_slot_mem *a, uint64_t k)
{
    const hy_moe *o = &p->moe;
    bool up = in->op == HY_OP_MOE_UP;
    bool gate = up && p->m->layer[in->i_layer][HY_W_E_GATE].present;
    for (uint32_t i = 0; i < o->n_active; i++) {
        uint32_t e = o->active[i];
        for (uint32_t t = o->first[e]; t < o->first[e + 1]; t++) {
            const float *x = a->f + (up ? o->tok[t] : o->entry[t]) * a->stride;
            p->tap(p->tap_ctx, in->role, in->i_layer, e, x, 1, a->stride, k);
            if (gate) p->tap(p->tap_ctx, HY_W_E_GATE, in->i_layer, e, x, 1, a->stride, k);
        }
    }
}

void hy_tap_entry(const hy_plan *p, const hy_entry *e, const hy_worker *w)
{
    for (uint32_t i = 0; i < e->n; i++) {
        const hy_instr *in = &p->prim[e->first + i];
        bool experts = in->op == HY_OP_MOE_UP || in->op == HY_OP_MOE_DOWN;
        if (!experts && in->op != HY_OP_MATMUL && in->op != HY_OP_MOE_ROUTE) continue;
        const hy_slot_mem *a = hy_slot_of(p, in->a, w);
        uint64_t k = in->w->panels[0].k;
        if (experts) show_experts(p, in, a, k);
        else p->tap(p->tap_ctx, in->role, in->i_layer, 0, a->f, hy_n_rows(p, in->on_out), a->stride, k);
    }
}
