/* Attention as it is written in books, to be measured beside op_attention.c: the whole matrix of scores of a layer
 * is written to memory, read again for the softmax, and read a third time for the values. Every pair of a query and
 * a key is computed, those that the mask takes away too.
 *
 *     S = Q K^T                  one product for each head     [n_tok, n_key], in memory
 *     P = softmax(S), masked     row by row
 *     O = P V                    one product for each head
 *
 * Rows of the batch are taken one after the other, with a barrier between the passes. Each sum is over keys in
 * ascending order, so here too the bits do not depend on batch, chunk or threads; they differ from op_attention.c's
 * by rounding. */
#include "plan/instr.h"
#include <math.h>
#include <string.h>

#define BLOCK 32               /* tokens of a unit of work */

typedef struct pass {
    const hy_plan *p;
    const hy_instr *in;
    const hy_row *row;
    hy_worker *w;
    uint32_t n_key, n_head, per;
    hy_panels k, v;            /* shapes; data: of the KV head at hand */
} pass;

static float *panel_of(const hy_panels *w, float *base, uint32_t row)
{
    return base + row / w->p * (w->panel_bytes / sizeof(float)) + row % w->p;
}

/* Keys of a page, [d_k][16], into panels of tokens. */
static void put_keys(const pass *s, const float *page, uint32_t first, float *to)
{
    uint32_t d_k = s->p->m->hp.d_k, lane = s->k.p;
    for (uint32_t j = 0; j < HY_PAGE_TOK && first + j < s->n_key; j++) {
        float *at = panel_of(&s->k, to, first + j);
        for (uint32_t d = 0; d < d_k; d++) at[(size_t)d * lane] = page[(size_t)d * HY_PAGE_TOK + j];
    }
}

/* Values of a page, [16][d_v], into panels of dimensions, each n_key tokens long. */
static void put_values(const pass *s, const float *page, uint32_t first, float *to)
{
    uint32_t d_v = s->p->m->hp.d_v, n = HY_MIN(HY_PAGE_TOK, s->n_key - first);
    for (uint32_t d = 0; d < d_v; d++) {
        float *at = panel_of(&s->v, to, d) + (size_t)first * s->v.p;
        for (uint32_t j = 0; j < n; j++) at[(size_t)j * s->v.p] = page[(size_t)j * d_v + d];
    }
}

/* The worker's share of (KV head, page). Pages that slid out of the window are zeros: no query sees them. */
static void gather(const pass *s)
{
    const hy_plan *p = s->p;
    uint32_t d_k = p->m->hp.d_k, d_v = p->m->hp.d_v, group = p->layer_group[s->in->i_layer];
    uint32_t n_page = (s->n_key + HY_PAGE_TOK - 1) / HY_PAGE_TOK;
    uint32_t part_first = hy_part_of(p, s->in->i_layer, 0);
    float *page = p->scratch[s->w->i].mat;
    uint64_t first, last;
    hy_share((uint64_t)s->in->lp->n_kv_head * n_page, 1, s->w, &first, &last);
    for (uint64_t i = first; i < last; i++) {
        uint32_t i_kv = (uint32_t)(i / n_page), i_page = (uint32_t)(i % n_page), at = i_page * HY_PAGE_TOK;
        uint32_t id = s->row->table->page[group][i_page];
        const uint8_t *from = id == HY_KV_NO_PAGE ? NULL : hy_kv_part(p->kv, group, id, part_first + i_kv);
        if (from) hy_kv_page_keys(p->o.kv_type, from, d_k, page);
        else memset(page, 0, (size_t)d_k * HY_PAGE_TOK * sizeof *page);
        put_keys(s, page, at, p->mat_k + i_kv * p->mat_k_len);
        if (from) hy_kv_page_values(p->o.kv_type, from + p->k_bytes, d_v, page);
        else memset(page, 0, (size_t)d_v * HY_PAGE_TOK * sizeof *page);
        put_values(s, page, at, p->mat_v + i_kv * p->mat_v_len);
    }
}

static float *scores(const pass *s, uint32_t head, uint32_t tok)
{
    return s->p->mat_s + ((size_t)head * s->p->o.n_tok_max + tok) * s->p->mat_len;
}

/* The worker's share of (head, block of tokens): scores, or outputs. */
static void products(const pass *s, bool values)
{
    const hy_plan *p = s->p;
    const hy_slot_mem *q = &p->slot[s->in->a], *out = &p->slot[s->in->out];
    uint32_t n_block = (s->row->n_tok + BLOCK - 1) / BLOCK;
    uint64_t first, last;
    hy_share((uint64_t)s->n_head * n_block, 1, s->w, &first, &last);
    for (uint64_t i = first; i < last; i++) {
        uint32_t head = (uint32_t)(i / n_block), t = (uint32_t)(i % n_block) * BLOCK, i_kv = head / s->per;
        hy_panels w = values ? s->v : s->k;
        w.data = (const uint8_t *)(values ? p->mat_v + i_kv * p->mat_v_len : p->mat_k + i_kv * p->mat_k_len);
        hy_mm m = { .w = &w, .panel_last = w.n_panel, .n_tok = HY_MIN(BLOCK, s->row->n_tok - t) };
        uint64_t row = s->row->tok_first + t;
        if (values) {
            m.x = scores(s, head, t);
            m.x_stride = p->mat_len;
            m.y = out->f + row * out->stride + (size_t)head * p->m->hp.d_v;
            m.y_stride = out->stride;
        } else {
            m.x = q->f + row * q->stride + (size_t)head * p->m->hp.d_k;
            m.x_stride = q->stride;
            m.y = scores(s, head, t);
            m.y_stride = p->mat_len;
        }
        p->k->mm_f32[HY_Q_F32](&m);
    }
}

/* One query's scores [lo, hi) to weights that sum up to 1 (or less: a sink takes its share); zero elsewhere. */
static void softmax(const pass *s, float *row, uint32_t head, uint32_t lo, uint32_t hi)
{
    const hy_kernels *k = s->p->k;
    const hy_hparams *hp = &s->p->m->hp;
    uint32_t n = hi - lo;
    k->scale(row + lo, (float)(hp->attn_scale != 0 ? hp->attn_scale : 1 / sqrt(hp->d_k)), n);
    if (hp->attn_softcap != 0) k->softcap(row + lo, (float)hp->attn_softcap, n);
    float max = k->max(row + lo, n), sink = s->in->w ? s->in->w->vec[head] : -INFINITY;
    max = sink > max ? sink : max;
    float sum = k->exp_sum(row + lo, max, n);
    if (s->in->w) sum += k->exp_sum(&sink, max, 1);
    k->scale(row + lo, 1 / sum, n);
    memset(row, 0, lo * sizeof *row);
    memset(row + hi, 0, (s->n_key - hi) * sizeof *row);
}

static void softmaxes(const pass *s)
{
    uint32_t n_tok = s->row->n_tok, window = s->in->lp->window;
    uint64_t first, last;
    hy_share((uint64_t)s->n_head * n_tok, 1, s->w, &first, &last);
    for (uint64_t i = first; i < last; i++) {
        uint32_t head = (uint32_t)(i / n_tok), t = (uint32_t)(i % n_tok), hi = s->row->pos0 + t + 1;
        softmax(s, scores(s, head, t), head, window && hi > window ? hi - window : 0, hi);
    }
}

static void one_row(pass *s)
{
    const hy_hparams *hp = &s->p->m->hp;
    s->n_key = s->row->pos0 + s->row->n_tok;
    /* sizes were checked when the plan was made */
    (void)hy_panels_shape(&s->k, HY_Q_F32, s->p->k->panel, s->n_key, hp->d_k);
    (void)hy_panels_shape(&s->v, HY_Q_F32, s->p->k->panel, hp->d_v, s->n_key);
    gather(s);
    hy_team_barrier(s->w);
    products(s, false);
    hy_team_barrier(s->w);
    softmaxes(s);
    hy_team_barrier(s->w);
    products(s, true);
    hy_team_barrier(s->w);
}

void hy_op_materialised(const hy_plan *p, const hy_entry *e, hy_worker *w)
{
    const hy_instr *in = &p->prim[e->first];
    pass s = { .p = p, .in = in, .w = w, .n_head = in->lp->n_head, .per = in->lp->n_head / in->lp->n_kv_head };
    for (uint32_t i = 0; i < p->b->n_row; i++) {
        s.row = &p->b->row[i];
        one_row(&s);
    }
    if (e->n < 2) return;
    uint64_t first, last;
    hy_share(p->b->n_tok, 1, w, &first, &last);
    for (uint64_t t = first; t < last; t++) hy_op_elem(p, in + 1, (uint32_t)t, 0, in[1].n);
}
