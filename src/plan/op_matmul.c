/* Matmuls over output columns, with the elementwise operators that follow on the same columns.
 *
 *   tokens  |  worker 0  |  worker 1  | ...     columns in units of 32, so that int8 groups and cache
 *           |  columns   |  columns   |         lines are never shared; few columns and many tokens
 *                                               are cut into token blocks as well */
#include "plan/instr.h"

#define UNIT 32                /* columns */
#define LOGIT_UNITS (HY_LOGIT_BLOCK / UNIT)
#define KEEP_UNITS 64u         /* of logits, between two looks at them: 8 KB a row */
#define BLOCK_TOK 128          /* tokens of a kernel call ... */
#define BLOCK_BYTES (192 * HY_KIB) /* ... and weights: both stay in L2 while blocks of the other pass */
#define ELEM_BYTES (128 * HY_KIB)  /* of results, between two passes of elementwise operators, which find them in L2 */

static uint64_t units(const hy_instr *in)
{
    return (in->w->panels[0].n_row + UNIT - 1) / UNIT;
}

/* Where a matmul's unit of columns has its weights. */
static const uint8_t *unit_at(const hy_instr *in, uint64_t u)
{
    const hy_panels *w = &in->w->panels[0];
    return w->data + u * (UNIT / w->p) * w->panel_bytes;
}

/* Where the worker's share of the next matmuls begins: while the team meets and normalises, memory may
 * already bring it. */
static const uint8_t *share_after(const hy_plan *p, const hy_entry *e, const hy_worker *w)
{
    const hy_entry *end = p->entry + p->n_entry;
    do e++;
    while (e < end && e->kind != HY_KIND_COLS);
    if (e == end) return NULL;
    const hy_instr *in = &p->prim[e->first];
    uint32_t n_list = e->paired ? 1 : e->n_mm;
    uint64_t n_unit = 0, first, last;
    for (uint32_t i = 0; i < n_list; i++) n_unit += units(in + i);
    hy_share(n_unit, hy_keeps_logits(p, e) ? LOGIT_UNITS : 1, w, &first, &last);
    for (uint32_t i = 0; i < n_list; first -= units(in + i++))
        if (first < units(in + i)) return unit_at(in + i, first);
    return NULL;
}

static void call(const hy_plan *p, const hy_instr *in, const hy_instr *add, uint64_t panel_first,
                 uint64_t panel_last, uint32_t t0, uint32_t t1, const uint8_t *next,
                 const hy_worker *worker)
{
    const hy_panels *w = &in->w->panels[0];
    const hy_slot_mem *a = hy_slot_of(p, in->a, worker);
    hy_slot out = add ? add->out : in->out;
    hy_mm m = {
        .w = w, .panel_first = panel_first, .panel_last = HY_MIN(panel_last, w->n_panel),
        .n_tok = t1 - t0,
        .y = hy_slot_row(p, out, t0), .y_stride = p->slot[out].stride,
        .bias = in->w->bias, .next = next,
    };
    if (in->q8) {
        m.x8 = a->x8;
        m.x8.k = w->k;
        m.x8 = hy_act8_at(&m.x8, t0, 0);
    } else {
        m.x = a->f + t0 * a->stride;
        m.x_stride = a->stride;
    }
    if (add) {
        hy_slot other = add->a == in->out ? add->b : add->a;
        m.add = hy_slot_row(p, other, t0);
        m.add_stride = p->slot[other].stride;
    }
    in->mm(&m);
}

/* Columns [u0, u1) in units, tokens [t0, t1), of one matmul or a pair, then the elementwise prims.
 * next: the weights this worker reads after them. */
static void block(const hy_plan *p, const hy_entry *e, uint32_t i_mm, uint64_t u0, uint64_t u1,
                  uint32_t t0, uint32_t t1, const uint8_t *next, const hy_worker *w)
{
    const hy_instr *in = &p->prim[e->first] + (e->paired ? 0 : i_mm);
    const hy_panels *pan = &in->w->panels[0];
    uint32_t per = UNIT / pan->p, n_mm = e->paired ? 2 : 1;
    const hy_instr *elem = &p->prim[e->first + e->n_mm];
    uint32_t n_elem = e->n - e->n_mm;
    const hy_instr *add = n_elem == 1 && elem->op == HY_OP_ADD ? elem : NULL;
    uint64_t step = u1 - u0;
    if (t1 - t0 > BLOCK_TOK) step = HY_MAX(BLOCK_BYTES / (per * pan->panel_bytes), 1);
    if (n_elem && !add) step = HY_MIN(step, HY_MAX(ELEM_BYTES / (n_mm * HY_MIN(t1 - t0, BLOCK_TOK) * UNIT * 4), 1));
    bool keep = hy_keeps_logits(p, e);
    if (keep) step = HY_ROUND_UP(HY_MIN(step, KEEP_UNITS), LOGIT_UNITS);
    for (uint64_t u = u0; u < u1; u += step) {
        uint64_t last = HY_MIN(u1, u + step);
        uint32_t c0 = (uint32_t)(u * UNIT), c1 = (uint32_t)HY_MIN(last * UNIT, in->n);
        for (uint32_t a = t0; a < t1; a += BLOCK_TOK) {
            uint32_t b = HY_MIN(t1, a + BLOCK_TOK);
            for (uint32_t i = 0; i < n_mm; i++) {
                const uint8_t *then = i + 1 < n_mm ? unit_at(in + 1, u) : last < u1 ? unit_at(in, last) : next;
                call(p, in + i, add, u * per, last * per, a, b, then, w);
            }
            for (uint32_t t = a; t < b && !add; t++)
                for (uint32_t i = 0; i < n_elem; i++) hy_op_elem(p, elem + i, t, c0, c1);
            if (keep) hy_op_keep(p, a, b, c0, c1);
        }
    }
}

void hy_op_cols(const hy_plan *p, const hy_entry *e, const hy_worker *w)
{
    const hy_instr *in = &p->prim[e->first];
    uint32_t n_tok = hy_entry_rows(p, e);
    if (n_tok == 0) return;
    uint32_t n_list = e->paired ? 1 : e->n_mm;
    uint64_t n_unit = 0;
    for (uint32_t i = 0; i < n_list; i++) n_unit += units(in + i);
    uint32_t n_block = 1; /* of tokens */
    if (n_unit < 4ull * w->n && n_tok >= 32)
        n_block = (uint32_t)HY_MIN(n_tok / 16, (4ull * w->n + n_unit - 1) / n_unit);
    uint64_t first, last, grain = 1;
    if (hy_keeps_logits(p, e)) n_block = 1, grain = LOGIT_UNITS;
    hy_share(n_unit * n_block, grain, w, &first, &last);
    const uint8_t *after = share_after(p, e, w);
    while (first < last) {
        uint32_t tb = (uint32_t)(first / n_unit);
        uint64_t u = first % n_unit, n = HY_MIN(n_unit - u, last - first);
        uint32_t t0 = (uint32_t)((uint64_t)n_tok * tb / n_block);
        uint32_t t1 = (uint32_t)((uint64_t)n_tok * (tb + 1) / n_block);
        first += n;
        for (uint32_t i = 0; i < n_list && n; i++) {
            uint64_t n_i = units(in + i);
            if (u >= n_i) {
                u -= n_i;
                continue;
            }
            uint64_t take = HY_MIN(n, n_i - u);
            n -= take;
            block(p, e, i, u, u + take, t0, t1, n ? unit_at(in + i + 1, 0) : after, w);
            u = 0;
        }
    }
}
