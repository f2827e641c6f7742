/* fuse: which prims run together between two barriers. A table of rules, tried in order at each prim;
 * a rule says how many prims it takes. Fused or not, every element sees the same operations in the
 * same order; what is saved are barriers and trips of activations through memory. */
#include "plan/instr.h"

hy_kind hy_instr_kind(hy_op op)
{
    switch (op) {
    case HY_OP_HEAD_NORM: case HY_OP_ROPE: case HY_OP_KV_PUT: return HY_KIND_HEADS;
    case HY_OP_MATMUL: return HY_KIND_COLS;
    case HY_OP_ATTENTION: return HY_KIND_ATTENTION;
    case HY_OP_MOE_ROUTE: return HY_KIND_ROUTE;
    case HY_OP_MOE_UP: return HY_KIND_UP;
    case HY_OP_MOE_DOWN: return HY_KIND_DOWN;
    default: return HY_KIND_ROWS;
    }
}

/* Is what the slot holds after prim `at` read by a later one? */
static bool read_later(const hy_plan *p, uint32_t at, hy_slot s)
{
    for (uint32_t i = at + 1; i < p->n_prim; i++) {
        const hy_instr *in = &p->prim[i];
        bool in_place = in->out == s && (in->op == HY_OP_ROPE || in->op == HY_OP_ACT ||
                                         in->op == HY_OP_POS_ADD || in->op == HY_OP_SCALE ||
                                         in->op == HY_OP_SOFTCAP);
        if (in->a == s || in->b == s || in_place) return true;
        if (in->out == s) return false;
    }
    return false;
}

static bool is(const hy_plan *p, uint32_t i, hy_op op)
{
    return i < p->n_prim && p->prim[i].op == op;
}

/* QUANT of the slot that prim i - 1 made: it can run on the same columns. */
static uint32_t quant_at(const hy_plan *p, uint32_t i)
{
    return is(p, i, HY_OP_QUANT) && p->prim[i].a == p->prim[i - 1].out;
}

/* ---- rules: fill e from prim i on, return how many prims it takes; 0: does not apply ---------- */

/* gate, up, act(gate) * up (-> int8), or up, act(up) (-> int8) */
static uint32_t gated_up(const hy_plan *p, uint32_t i, hy_entry *e)
{
    const hy_instr *in = &p->prim[i];
    if (is(p, i + 1, HY_OP_ACT) && in[1].out == in->out) {
        e->n_mm = 1;
        return 2 + quant_at(p, i + 2);
    }
    if (!is(p, i + 1, HY_OP_MATMUL) || !is(p, i + 2, HY_OP_ACT_MUL)) return 0;
    bool both = (in[2].a == in[0].out && in[2].b == in[1].out) ||
                (in[2].a == in[1].out && in[2].b == in[0].out);
    if (!both || in[0].out == in[1].out || in[0].n != in[1].n || in[0].a != in[1].a) return 0;
    if (in[0].out == in[0].a || in[1].out == in[0].a || in[2].out == in[0].a) return 0;
    if (in[0].w->panels[0].p != in[1].w->panels[0].p) return 0;
    e->n_mm = 2;
    e->paired = true;
    return 3 + quant_at(p, i + 3);
}

/* matmul whose result is only added to the residual stream */
static uint32_t matmul_add(const hy_plan *p, uint32_t i, hy_entry *e)
{
    const hy_instr *in = &p->prim[i];
    if (p->m->hp.residual_scale != 1 || !is(p, i + 1, HY_OP_ADD)) return 0;
    const hy_instr *add = &in[1];
    hy_slot other = add->a == in->out ? add->b : add->a;
    bool fits = (add->a == in->out || add->b == in->out) && other == add->out && other != in->out &&
                add->out != in->a && !in->on_out && !read_later(p, i + 1, in->out);
    if (!fits) return 0;
    e->n_mm = 1;
    return 2;
}

/* matmuls that read the same input */
static uint32_t qkv(const hy_plan *p, uint32_t i, hy_entry *e)
{
    const hy_instr *in = &p->prim[i];
    uint32_t n = 1;
    while (is(p, i + n, HY_OP_MATMUL) && in[n].a == in->a && in[n].on_out == in->on_out) {
        bool clash = in[n].out == in->a;
        for (uint32_t k = 0; k < n; k++) clash |= in[k].out == in[n].out;
        hy_entry tmp = { 0 };
        if (clash || gated_up(p, i + n, &tmp)) break;
        n++;
    }
    if (n < 2 || in->out == in->a) return 0;
    e->n_mm = n;
    return n;
}

/* logits: scale and soft cap on the columns just made */
static uint32_t matmul(const hy_plan *p, uint32_t i, hy_entry *e)
{
    uint32_t n = 1;
    while ((is(p, i + n, HY_OP_SCALE) || is(p, i + n, HY_OP_SOFTCAP)) &&
           p->prim[i + n].out == p->prim[i].out)
        n++;
    e->n_mm = 1;
    return n;
}

static uint32_t head_chain(const hy_plan *p, uint32_t i, hy_entry *e)
{
    uint32_t n = 0;
    while (i + n < p->n_prim && hy_instr_kind(p->prim[i + n].op) == HY_KIND_HEADS) n++;
    return n;
}

/* The embedding stays alone, so that the norm after it can be local like those of other layers. */
static uint32_t row_chain(const hy_plan *p, uint32_t i, hy_entry *e)
{
    uint32_t n = 0;
    if (is(p, i, HY_OP_EMBED)) return 1 + is(p, i + 1, HY_OP_POS_ADD);
    while (i + n < p->n_prim && hy_instr_kind(p->prim[i + n].op) == HY_KIND_ROWS &&
           p->prim[i + n].on_out == p->prim[i].on_out)
        n++;
    return n;
}

/* the int8 form of attention's output, one KV head's columns at a time */
static uint32_t attention(const hy_plan *p, uint32_t i, hy_entry *e)
{
    const hy_instr *in = &p->prim[i];
    bool whole = in->n / in->lp->n_kv_head % 32 == 0;
    return 1 + (whole && quant_at(p, i + 1));
}

static uint32_t moe_up(const hy_plan *p, uint32_t i, hy_entry *e)
{
    return 1 + quant_at(p, i + 1);
}

typedef struct hy_fuse_rule {
    hy_op starts;              /* HY_OP_COUNT: any prim of the kind */
    hy_kind kind;
    hy_op op;                  /* the entry's, when two or more prims are taken */
    uint32_t (*match)(const hy_plan *p, uint32_t i, hy_entry *e);
} hy_fuse_rule;

static const hy_fuse_rule rules[] = {
    { HY_OP_MATMUL, HY_KIND_COLS, HY_OP_GATED_UP, gated_up },
    { HY_OP_MATMUL, HY_KIND_COLS, HY_OP_MATMUL_ADD, matmul_add },
    { HY_OP_MATMUL, HY_KIND_COLS, HY_OP_QKV, qkv },
    { HY_OP_MATMUL, HY_KIND_COLS, HY_OP_MATMUL, matmul },
    { HY_OP_ATTENTION, HY_KIND_ATTENTION, HY_OP_ATTENTION, attention },
    { HY_OP_MOE_UP, HY_KIND_UP, HY_OP_MOE_UP, moe_up },
    { HY_OP_COUNT, HY_KIND_HEADS, HY_OP_ROPE_KV, head_chain },
    { HY_OP_ADD, HY_KIND_ROWS, HY_OP_ADD_NORM, row_chain },
    { HY_OP_NORM, HY_KIND_ROWS, HY_OP_NORM_QUANT, row_chain },
    { HY_OP_COUNT, HY_KIND_ROWS, HY_OP_COUNT, row_chain },
};

/* A chain of rows is called by what is in it. */
static hy_op chain_op(const hy_plan *p, const hy_entry *e, hy_op op)
{
    if (e->kind != HY_KIND_ROWS) return op;
    bool add = false, norm = false, quant = false;
    for (uint32_t k = 0; k < e->n; k++) {
        hy_op o = p->prim[e->first + k].op;
        add |= o == HY_OP_ADD;
        norm |= o == HY_OP_NORM;
        quant |= o == HY_OP_QUANT;
    }
    hy_op first = p->prim[e->first].op;
    if (first == HY_OP_EMBED || first == HY_OP_SELECT) return first;
    return add && norm ? HY_OP_ADD_NORM : norm && quant ? HY_OP_NORM_QUANT : first;
}

static void take(const hy_plan *p, uint32_t i, bool fuse, hy_entry *e)
{
    const hy_instr *in = &p->prim[i];
    *e = (hy_entry){ .op = in->op, .kind = hy_instr_kind(in->op), .first = i, .n = 1, .n_mm = 1,
                     .on_out = in->on_out };
    for (uint32_t r = 0; fuse && r < HY_COUNT(rules); r++) {
        if (rules[r].kind != e->kind || (rules[r].starts != HY_OP_COUNT && rules[r].starts != in->op))
            continue;
        hy_entry found = *e;
        uint32_t n = rules[r].match(p, i, &found);
        if (n == 0) continue;
        *e = found;
        e->n = n;
        if (n > 1) e->op = chain_op(p, e, rules[r].op);
        return;
    }
}

uint32_t hy_plan_fuse(const hy_plan *p, bool fuse, hy_entry *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_prim; i += out[n++].n) {
        take(p, i, fuse, &out[n]);
        out[n].heads_first = fuse && n > 0 && out[n].kind == HY_KIND_ATTENTION &&
                             out[n - 1].kind == HY_KIND_HEADS &&
                             p->prim[out[n - 1].first].i_layer == p->prim[i].i_layer;
    }
    return n;
}

/* Slots that every worker may keep a copy of: each entry that writes one does nothing else, and who
 * reads it works for any worker's columns. */
void hy_plan_find_local(hy_plan *p)
{
    for (uint32_t s = 1; s < HY_S_COUNT; s++) {
        bool ok = true, written = false;
        for (uint32_t i = 0; i < p->n_entry && ok; i++) {
            const hy_entry *e = &p->entry[i];
            bool writes = false, reads = false, only = e->kind == HY_KIND_ROWS;
            for (uint32_t k = 0; k < e->n; k++) {
                const hy_instr *in = &p->prim[e->first + k];
                writes |= in->out == s;
                reads |= in->a == s || in->b == s;
                only &= in->out == s && (in->op == HY_OP_NORM || in->op == HY_OP_QUANT ||
                                         in->op == HY_OP_SELECT);
            }
            written |= writes;
            if (writes) ok = only;
            else if (reads)
                ok = e->kind == HY_KIND_COLS || e->kind == HY_KIND_ROUTE || e->kind == HY_KIND_UP;
        }
        p->local_ok[s] = ok && written;
    }
    /* a copy made from a copy's shared form would be stale */
    for (uint32_t i = 0; i < p->n_prim; i++) {
        const hy_instr *in = &p->prim[i];
        if (p->local_ok[in->out] && in->a != in->out) p->local_ok[in->a] = false;
    }
}
