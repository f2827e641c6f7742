/* The roofline: what an operator's bytes and operations take at the machine's measured limits, and what
 * keeps a phase from being faster.
 *
 *   best = max( weights, keys, values / speed of memory,      each is read once a step
 *               activations / speed of the last cache,        they stay in it
 *               operations / peak of the instruction set )
 */
#include "profile.h"
#include <stdlib.h>

const char *hy_bound_name(hy_bound b)
{
    static const char *const names[] = { "memory", "cache", "arithmetic", "-" };
    return names[b];
}

static void add_weight(hy_profile *p, const hy_weight *w, double share)
{
    if (!w->present || !w->panels) return;
    const hy_panels *pan = &w->panels[0];
    double n = share * w->n_expert;
    p->type_bytes[pan->type] += (uint64_t)(n * (double)(pan->n_panel * pan->panel_bytes));
    p->type_weights[pan->type] += (uint64_t)(n * (double)(pan->n_row * pan->k));
}

/* Bytes by type of the matrices that one decoded token reads. */
void hy_prof_weights(hy_profile *p)
{
    const hy_model *m = p->core->model;
    const hy_hparams *hp = &m->hp;
    add_weight(p, &m->global[m->tied ? HY_W_TOK_EMBD : HY_W_OUTPUT], 1);
    for (uint32_t l = 0; l < hp->n_layer; l++)
        for (uint32_t r = HY_W_FIRST_LAYER_ROLE; r < HY_W_COUNT; r++) {
            bool expert = r == HY_W_E_GATE || r == HY_W_E_UP || r == HY_W_E_DOWN;
            add_weight(p, &m->layer[l][r], expert ? (double)hp->n_expert_used / HY_MAX(1u, hp->n_expert) : 1);
        }
}

static void roof_op(const hy_prof_phase *f, hy_prof_op *o, double peak8, double peak32)
{
    const hy_op_time *t = &o->t;
    double cache = f->cache_rate > 0 ? (double)(t->bytes - t->mem_bytes) / f->cache_rate * 1e9 : 0;
    o->mem_ns = f->mem_rate > 0 ? (double)t->mem_bytes / f->mem_rate * 1e9 : 0;
    o->ops_ns = (peak8 > 0 ? (double)t->ops_int8 / peak8 * 1e9 : 0) + (peak32 > 0 ? (double)t->ops_f32 / peak32 * 1e9 : 0);
    o->best_ns = HY_MAX(HY_MAX(o->mem_ns, o->ops_ns), cache);
    o->bound = o->best_ns <= 0 ? HY_BOUND_NONE : o->best_ns == o->ops_ns ? HY_BOUND_OPS
               : o->best_ns == cache ? HY_BOUND_CACHE : HY_BOUND_MEMORY;
}

double hy_prof_speed(const hy_profile *p, const hy_prof_phase *f)
{
    return f->wall_ns > 0 ? (double)f->n_tok * p->rows * 1e9 / f->wall_ns : 0;
}

static int by_time(const void *a, const void *b)
{
    uint64_t x = ((const hy_prof_op *)a)->t.ns, y = ((const hy_prof_op *)b)->t.ns;
    return (x < y) - (x > y);
}

static void find_neck(hy_prof_phase *f)
{
    double by[4] = { 0 }, most = -1;
    for (uint32_t i = 0; i < f->n_op; i++) {
        by[f->op[i].bound] += f->op[i].best_ns;
        double lost = (double)f->op[i].t.ns - f->op[i].best_ns;
        if (lost > most) {
            most = lost;
            f->i_neck = i;
        }
    }
    double work = f->wall_ns - f->wait_ns;
    if (f->wait_ns > 0.25 * f->wall_ns) f->neck = HY_NECK_WAITING;
    else if (f->mem_rate <= 0) f->neck = HY_NECK_UNKNOWN;
    else if (f->best_ns < 0.4 * work) f->neck = HY_NECK_OPERATOR;
    else f->neck = by[HY_BOUND_MEMORY] + by[HY_BOUND_CACHE] > by[HY_BOUND_OPS] ? HY_NECK_MEMORY : HY_NECK_ARITHMETIC;
}

void hy_prof_roof(hy_profile *p, hy_prof_phase *f)
{
    hy_probe_point at = hy_probe_at(&p->probe, f->n_thread);
    const char *isa = p->core->model->kern.isa;
    double peak8 = hy_probe_ops(&p->probe, isa, true, f->n_thread);
    double peak32 = hy_probe_ops(&p->probe, isa, false, f->n_thread);
    uint64_t all = 0;
    for (uint32_t i = 0; i < f->n_op; i++) all += f->op[i].t.mem_bytes;
    f->in_cache = p->top.l3_bytes && all / HY_MAX(1ull, (unsigned long long)f->n_step) < p->top.l3_bytes / 4 * 3 && at.read[HY_PROBE_L3] > 0;
    f->mem_rate = at.read[f->in_cache ? HY_PROBE_L3 : HY_PROBE_MEM];
    for (int k = HY_PROBE_L3; k >= 0 && f->cache_rate <= 0; k--) f->cache_rate = at.read[k];
    double in_ops = 0;
    for (uint32_t i = 0; i < f->n_op; i++) {
        roof_op(f, &f->op[i], peak8, peak32);
        f->best_ns += f->op[i].best_ns;
        f->wait_ns += (double)f->op[i].t.wait_ns;
        in_ops += (double)f->op[i].t.ns + (double)f->op[i].t.wait_ns;
    }
    f->outside_ns = HY_MAX(0, f->wall_ns - in_ops);
    qsort(f->op, f->n_op, sizeof *f->op, by_time);
    find_neck(f);
}
