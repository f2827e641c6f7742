/* Mixtures of experts: choose, then matmuls with the tokens of each expert gathered.
 *
 * An "entry" is one (token, rank) pair, numbered token * n_used + rank: it has a row in E (the expert's
 * hidden values) and one in moe.down. Tokens are grouped by expert so that an expert's weights are
 * read once a step; the sum over a token's experts is taken in rank order, so neither the grouping
 * nor the neighbours show in the result. */
#include "plan/instr.h"
#include <math.h>
#include <string.h>

#define CHUNK 64               /* output columns of one shared item */

static const hy_weight *weight_of(const hy_plan *p, const hy_instr *in, hy_role r)
{
    return &p->m->layer[in->i_layer][r];
}

/* ---- choosing --------------------------------------------------------------------------------- */

static void softmax(const hy_plan *p, float *x, uint32_t n)
{
    float l = p->k->exp_sum(x, p->k->max(x, n), n);
    for (uint32_t i = 0; i < n; i++) x[i] /= l;
}

/* Experts with the largest scores, ties to the lower index; `taken` is scratch. */
static void top_k(const float *score, uint32_t n, uint32_t n_used, uint32_t *expert, float *taken)
{
    memcpy(taken, score, n * sizeof *taken);
    for (uint32_t r = 0; r < n_used; r++) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < n; i++)
            if (taken[i] > taken[best]) best = i;
        expert[r] = best;
        taken[best] = -INFINITY;
    }
}

static void choose(const hy_plan *p, uint32_t tok, float *lane)
{
    const hy_hparams *hp = &p->m->hp;
    uint32_t n = hp->n_expert, n_used = hp->n_expert_used;
    float *score = p->moe.logits + (size_t)tok * n, *weight = p->moe.weight + (size_t)tok * n_used;
    uint32_t *expert = p->moe.expert + (size_t)tok * n_used;
    if (hp->gating == HY_GATE_SOFTMAX) softmax(p, score, n);
    if (hp->gating == HY_GATE_SIGMOID) p->k->act(HY_ACT_SIGMOID, score, n);
    top_k(score, n, n_used, expert, lane);
    for (uint32_t r = 0; r < n_used; r++) weight[r] = score[expert[r]];
    if (hp->gating == HY_GATE_TOPK_SOFTMAX) softmax(p, weight, n_used);
    if (hp->norm_topk && hp->gating != HY_GATE_TOPK_SOFTMAX) {
        float sum = 0;
        for (uint32_t r = 0; r < n_used; r++) sum += weight[r];
        if (sum < 1e-20f) sum = 1e-20f;
        for (uint32_t r = 0; r < n_used; r++) weight[r] /= sum;
    }
    if (hp->expert_scale != 1)
        for (uint32_t r = 0; r < n_used; r++) weight[r] *= (float)hp->expert_scale;
}

/* Counting sort of the entries by expert. */
static void group(hy_plan *p, uint32_t n_tok)
{
    const hy_hparams *hp = &p->m->hp;
    hy_moe *o = &p->moe;
    uint32_t n = n_tok * hp->n_expert_used;
    memset(o->first, 0, (hp->n_expert + 1) * sizeof *o->first);
    for (uint32_t i = 0; i < n; i++) o->first[o->expert[i] + 1]++;
    o->n_active = 0;
    for (uint32_t e = 0; e < hp->n_expert; e++) {
        if (o->first[e + 1]) o->active[o->n_active++] = e;
        o->first[e + 1] += o->first[e];
    }
    for (uint32_t i = 0; i < n; i++) { /* first[e] runs ahead to first[e + 1] ... */
        uint32_t at = o->first[o->expert[i]]++;
        o->entry[at] = i;
        o->tok[at] = i / hp->n_expert_used;
    }
    for (uint32_t e = hp->n_expert; e > 0; e--) o->first[e] = o->first[e - 1]; /* ... and back */
    o->first[0] = 0;
}

void hy_op_route(const hy_plan *p, const hy_entry *e, uint32_t i_entry, hy_worker *w)
{
    const hy_instr *in = &p->prim[e->first];
    const hy_panels *r = &in->w->panels[0];
    uint32_t n_tok = p->b->n_tok, n_expert = p->m->hp.n_expert;
    const hy_slot_mem *a = hy_slot_of(p, in->a, w);
    hy_mm m = { .w = r, .x_stride = a->stride, .y_stride = n_expert, .bias = in->w->bias };
    /* few tokens: panels are shared; many: tokens */
    bool by_tok = n_tok >= 4 * w->n;
    uint64_t first, last;
    hy_share(by_tok ? n_tok : r->n_panel, 1, w, &first, &last);
    if (first < last) {
        uint64_t t0 = by_tok ? first : 0, t1 = by_tok ? last : n_tok;
        m.panel_first = by_tok ? 0 : first;
        m.panel_last = by_tok ? r->n_panel : last;
        m.n_tok = (uint32_t)(t1 - t0);
        m.x = a->f + t0 * a->stride;
        m.y = p->moe.logits + t0 * n_expert;
        in->mm(&m);
    }
    float *lane = p->moe.lane + (size_t)w->i * n_expert;
    if (by_tok)
        for (uint64_t t = first; t < last; t++) choose(p, (uint32_t)t, lane);
    hy_team_barrier(w);
    if (w->i != 0) return;
    if (!by_tok)
        for (uint32_t t = 0; t < n_tok; t++) choose(p, t, lane);
    group((hy_plan *)p, n_tok); /* worker 0 alone writes; a barrier follows */
}

/* ---- matmuls ---------------------------------------------------------------------------------- */

typedef struct part {          /* columns of one expert */
    uint32_t expert, n;        /* n: its entries */
    const uint32_t *tok, *entry;
    uint64_t c0, c1;
} part;

/* Item i of (active expert, chunk of columns); false past the last. */
static bool part_at(const hy_plan *p, uint32_t i, uint64_t n_col, part *out)
{
    const hy_moe *o = &p->moe;
    uint32_t n_chunk = (uint32_t)((n_col + CHUNK - 1) / CHUNK);
    if (i >= o->n_active * n_chunk) return false;
    uint32_t e = o->active[i / n_chunk], first = o->first[e];
    out->expert = e;
    out->n = o->first[e + 1] - first;
    out->tok = o->tok + first;
    out->entry = o->entry + first;
    out->c0 = (uint64_t)(i % n_chunk) * CHUNK;
    out->c1 = HY_MIN(out->c0 + CHUNK, n_col);
    return true;
}

static void expert_mm(const hy_plan *p, const hy_instr *in, const hy_weight *wt, const part *t,
                      const uint32_t *x_row, float *y, size_t y_stride, const hy_worker *worker)
{
    const hy_panels *w = &wt->panels[t->expert];
    const hy_slot_mem *a = hy_slot_of(p, in->a, worker);
    hy_mm m = {
        .w = w, .panel_first = t->c0 / w->p, .panel_last = (t->c1 + w->p - 1) / w->p, .n_tok = t->n,
        .x_row = x_row, .y_row = t->entry, .y = y, .y_stride = y_stride,
        .bias = wt->bias ? wt->bias + t->expert * w->n_row : NULL,
    };
    bool q8 = in->q8 && p->k->mm_q8[w->type];
    if (q8) {
        m.x8 = a->x8;
        m.x8.k = w->k;
    } else {
        m.x = a->f;
        m.x_stride = a->stride;
    }
    (q8 ? p->k->mm_q8[w->type] : p->k->mm_f32[w->type])(&m);
}

void hy_op_moe_up(const hy_plan *p, const hy_entry *e, uint32_t i_entry, hy_worker *w)
{
    const hy_instr *in = &p->prim[e->first], *quant = e->n > 1 ? in + 1 : NULL;
    const hy_weight *gate = weight_of(p, in, HY_W_E_GATE), *up = weight_of(p, in, HY_W_E_UP);
    hy_act_fn_id act = (hy_act_fn_id)p->m->hp.act;
    uint64_t n_col = up->panels[0].n_row;
    const hy_slot_mem *out = &p->slot[in->out];
    part t;
    for (uint32_t i; (i = hy_next(p, i_entry, 0), part_at(p, i, n_col, &t));) {
        expert_mm(p, in, up, &t, t.tok, out->f, out->stride, w);
        if (gate->present) expert_mm(p, in, gate, &t, t.tok, p->moe.gate, n_col, w);
        for (uint32_t k = 0; k < t.n; k++) {
            float *y = out->f + t.entry[k] * out->stride + t.c0;
            if (gate->present)
                p->k->act_mul(act, p->moe.gate + t.entry[k] * n_col + t.c0, y, y, t.c1 - t.c0);
            else p->k->act(act, y, t.c1 - t.c0);
            if (quant) hy_op_elem(p, quant, t.entry[k], (uint32_t)t.c0, (uint32_t)t.c1);
        }
    }
}

void hy_op_moe_down(const hy_plan *p, const hy_entry *e, uint32_t i_entry, hy_worker *w)
{
    const hy_instr *in = &p->prim[e->first];
    const hy_weight *down = weight_of(p, in, HY_W_E_DOWN);
    uint32_t n_embd = in->n, n_used = p->m->hp.n_expert_used;
    part t;
    for (uint32_t i; (i = hy_next(p, i_entry, 0), part_at(p, i, n_embd, &t));)
        expert_mm(p, in, down, &t, t.entry, p->moe.down, n_embd, w);
    hy_team_barrier(w);
    uint64_t first, last;
    hy_share(p->b->n_tok, 1, w, &first, &last);
    for (uint64_t tok = first; tok < last; tok++) {
        float *y = hy_slot_row(p, in->out, tok);
        memset(y, 0, n_embd * sizeof *y);
        for (uint32_t r = 0; r < n_used; r++) {
            uint64_t k = tok * n_used + r;
            p->k->add(y, p->moe.down + k * n_embd, p->moe.weight[k], y, n_embd);
        }
    }
}
