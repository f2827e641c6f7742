/* Operators on heads: norm of each head, rotation, writing keys and values into the pages. The unit
 * is one token and one KV head with the query heads that share it. */
#include "plan/instr.h"

/* Heads of slot `s` that belong to KV head i_kv: [*first, *last). */
static void heads(const hy_instr *in, hy_slot s, uint32_t i_kv, uint32_t *first, uint32_t *last)
{
    uint32_t per = s == HY_S_Q ? in->lp->n_head / in->lp->n_kv_head : 1;
    *first = i_kv * per;
    *last = *first + per;
}

static void head_norm(const hy_plan *p, const hy_instr *in, uint32_t tok, uint32_t i_kv)
{
    const hy_hparams *hp = &p->m->hp;
    uint32_t first, last, d = hp->d_k;
    heads(in, in->out, i_kv, &first, &last);
    const float *x = hy_slot_row(p, in->a, tok);
    float *y = hy_slot_row(p, in->out, tok);
    bool own = in->w->n_vec != d; /* each head has its own weights */
    for (uint32_t h = first; h < last; h++) {
        const float *g = in->w->vec + (own ? (size_t)h * d : 0);
        const float *b = in->w->bias ? in->w->bias + (own ? (size_t)h * d : 0) : NULL;
        size_t at = (size_t)h * d;
        if (hp->norm == HY_NORM_RMS) p->k->rmsnorm(x + at, g, y + at, d, (float)hp->norm_eps);
        else p->k->layernorm(x + at, g, b, y + at, d, (float)hp->norm_eps);
    }
}

static void rope(const hy_plan *p, const hy_instr *in, uint32_t tok, uint32_t i_kv)
{
    const hy_rope_table *t = &p->rope[in->lp->rope];
    uint32_t first, last;
    heads(in, in->out, i_kv, &first, &last);
    float *x = hy_slot_row(p, in->out, tok);
    size_t at = (size_t)tok * t->half;
    for (uint32_t h = first; h < last; h++)
        p->k->rope(x + (size_t)h * p->m->hp.d_k, t->r->n_rot, t->r->interleaved, t->c + at, t->s + at);
}

static const hy_row *row_of(const hy_batch *b, uint32_t tok)
{
    uint32_t lo = 0, hi = b->n_row;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (b->row[mid].tok_first <= tok) lo = mid;
        else hi = mid;
    }
    return &b->row[lo];
}

static void kv_put(const hy_plan *p, const hy_instr *in, uint32_t tok, uint32_t i_kv)
{
    const hy_hparams *hp = &p->m->hp;
    const hy_row *r = row_of(p->b, tok);
    uint32_t g = p->layer_group[in->i_layer], pos = (uint32_t)p->b->pos[tok];
    uint8_t *k = hy_kv_part(p->kv, g, r->table->page[g][pos / HY_PAGE_TOK], hy_part_of(p, in->i_layer, i_kv));
    uint32_t slot = pos % HY_PAGE_TOK;
    p->k->kv_put_k(p->o.kv_type, k, hp->d_k, slot,
                   hy_slot_row(p, in->a, tok) + (size_t)i_kv * hp->d_k);
    p->k->kv_put_v(p->o.kv_type, k + p->k_bytes, hp->d_v, slot,
                   hy_slot_row(p, in->b, tok) + (size_t)i_kv * hp->d_v);
}

void hy_op_head(const hy_plan *p, const hy_instr *in, uint32_t tok, uint32_t i_kv)
{
    switch (in->op) {
    case HY_OP_HEAD_NORM: head_norm(p, in, tok, i_kv); break;
    case HY_OP_ROPE: rope(p, in, tok, i_kv); break;
    case HY_OP_KV_PUT: kv_put(p, in, tok, i_kv); break;
    default: break;
    }
}
