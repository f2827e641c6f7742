/* Attention over pages.
 *
 * A unit is a block of tokens of one row, one KV head and a range of tiles (64 tokens, cut at absolute
 * positions). The query heads of the KV head and the block's tokens are stacked as queries of one
 * kernel call. Each tile gives (m, l, o) for each query; they are folded in ascending order, starting
 * from (-inf, 0, 0). With few rows and a long context tiles are shared between workers, who store the
 * results; they are folded after a barrier, in the same order, so by the same operations.
 *
 * A sink (gpt-oss) is folded last, as a tile with m = the head's logit, l = 1, o = 0: a key that takes
 * its share of the softmax and adds nothing. */
#include "plan/instr.h"
#include <math.h>
#include <string.h>

typedef struct ctx {
    const hy_plan *p;
    const hy_instr *in, *quant;/* quant: NULL or the int8 form of the output */
    const hy_scratch *s;
    const hy_att_item *it;
    uint32_t group, i_kv, per; /* per: query heads of a KV head */
    uint32_t window;
    hy_att a;
} ctx;

/* Queries of the item for this KV head, in order [token][head]. */
static void stack_queries(ctx *c)
{
    const hy_plan *p = c->p;
    uint32_t d = p->m->hp.d_k, n = c->it->n_tok;
    size_t at = (size_t)c->i_kv * c->per * d;
    c->a.n_q = n * c->per;
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t h = 0; h < c->per; h++) c->s->q_pos[t * c->per + h] = (int32_t)(c->it->pos0 + t);
    c->a.q_pos = c->s->q_pos;
    c->a.q_stride = d;
    if (n == 1) {
        c->a.q = hy_slot_row(p, c->in->a, c->it->tok) + at;
        return;
    }
    for (uint32_t t = 0; t < n; t++)
        memcpy(c->s->q + (size_t)t * c->per * d, hy_slot_row(p, c->in->a, c->it->tok + t) + at,
               (size_t)c->per * d * sizeof(float));
    c->a.q = c->s->q;
}

static void tile(ctx *c, uint32_t i_tile)
{
    const hy_plan *p = c->p;
    const hy_page_table *t = c->it->table;
    uint32_t per_tile = HY_ATT_TILE / HY_PAGE_TOK, first = i_tile * per_tile;
    uint32_t end = c->it->pos0 + c->it->n_tok;
    uint64_t off = p->layer_off[c->in->i_layer] + c->i_kv * (p->k_bytes + p->v_bytes);
    c->a.pos0 = (int32_t)(i_tile * HY_ATT_TILE);
    c->a.n_key = HY_MIN(HY_ATT_TILE, end - i_tile * HY_ATT_TILE);
    for (uint32_t i = 0; i < per_tile; i++) {
        uint32_t page = i * HY_PAGE_TOK < c->a.n_key ? t->page[c->group][first + i] : HY_KV_NO_PAGE;
        const uint8_t *at = page == HY_KV_NO_PAGE ? NULL : hy_kv_page(p->kv, c->group, page) + off;
        c->a.k_page[i] = at;
        c->a.v_page[i] = at ? at + p->k_bytes : NULL;
    }
    p->k->att[p->o.kv_type](&c->a);
}

static float *out_of(const ctx *c, uint32_t i_q)
{
    uint32_t t = i_q / c->per, h = c->i_kv * c->per + i_q % c->per;
    return hy_slot_row(c->p, c->in->out, c->it->tok + t) + (size_t)h * c->p->m->hp.d_v;
}

static void start(const ctx *c)
{
    for (uint32_t i = 0; i < c->a.n_q; i++) {
        c->s->m_acc[i] = -INFINITY;
        c->s->l_acc[i] = 0;
        memset(out_of(c, i), 0, c->a.d_v * sizeof(float));
    }
}

static void fold(const ctx *c, const float *m, const float *l, const float *o)
{
    for (uint32_t i = 0; i < c->a.n_q; i++)
        c->p->k->att_fold(&c->s->m_acc[i], &c->s->l_acc[i], out_of(c, i), m[i], l[i],
                          o + (size_t)i * c->a.d_v, c->a.d_v);
}

static void finish(const ctx *c)
{
    const float *sinks = c->in->w ? c->in->w->vec : NULL;
    uint32_t d = c->a.d_v;
    if (sinks) memset(c->s->o, 0, d * sizeof(float));
    for (uint32_t i = 0; i < c->a.n_q; i++) {
        float *o = out_of(c, i);
        if (sinks)
            c->p->k->att_fold(&c->s->m_acc[i], &c->s->l_acc[i], o,
                              sinks[c->i_kv * c->per + i % c->per], 1, c->s->o, d);
        float l = c->s->l_acc[i];
        for (uint32_t k = 0; k < d; k++) o[k] /= l;
    }
    if (!c->quant) return;
    uint32_t first = c->i_kv * c->per * d;
    for (uint32_t t = 0; t < c->it->n_tok; t++)
        hy_op_elem(c->p, c->quant, c->it->tok + t, first, first + c->per * d);
}

static void begin_item(ctx *c, const hy_att_work *work, uint32_t i_item, uint32_t i_kv)
{
    c->it = &work->item[i_item];
    c->i_kv = i_kv;
    c->a.n_q = c->it->n_tok * c->per;
}

/* Results of tile i_tile of the item: index of query 0. */
static uint64_t result_at(const ctx *c, uint32_t i_tile)
{
    uint64_t n_tile = c->it->tile_last - c->it->tile_first;
    return c->it->res + (c->i_kv * n_tile + (i_tile - c->it->tile_first)) * c->a.n_q;
}

static void run_unit(ctx *c, const hy_att_work *work, const hy_att_unit *u, const hy_entry *heads)
{
    for (uint32_t i = 0; heads && i < heads->n; i++)
        hy_op_head(c->p, &c->p->prim[heads->first + i], c->it->tok, c->i_kv);
    stack_queries(c);
    if (!work->split) start(c);
    for (uint32_t i = u->tile_first; i < u->tile_last; i++) {
        if (work->split) {
            uint64_t at = result_at(c, i);
            c->a.m = c->p->att_m + at;
            c->a.l = c->p->att_l + at;
            c->a.o = c->p->att_o + at * c->a.d_v;
        }
        tile(c, i);
        if (!work->split) fold(c, c->a.m, c->a.l, c->a.o);
    }
    if (!work->split) finish(c);
}

static void fold_item(ctx *c)
{
    start(c);
    for (uint32_t i = c->it->tile_first; i < c->it->tile_last; i++) {
        uint64_t at = result_at(c, i);
        fold(c, c->p->att_m + at, c->p->att_l + at, c->p->att_o + at * c->a.d_v);
    }
    finish(c);
}

bool hy_heads_inside(const hy_plan *p, uint32_t i_entry)
{
    const hy_entry *e = &p->entry[i_entry];
    return i_entry < p->n_entry && e->heads_first && p->decode_only &&
           !p->att[p->layer_group[p->prim[e->first].i_layer]].split;
}

void hy_op_attention(const hy_plan *p, const hy_entry *e, uint32_t i_entry, hy_worker *w)
{
    const hy_hparams *hp = &p->m->hp;
    const hy_instr *in = &p->prim[e->first];
    const hy_scratch *s = &p->scratch[w->i];
    ctx c = { .p = p, .in = in, .quant = e->n > 1 ? in + 1 : NULL, .s = s,
              .group = p->layer_group[in->i_layer], .per = in->lp->n_head / in->lp->n_kv_head };
    c.a = (hy_att){
        .type = p->o.kv_type, .d_k = hp->d_k, .d_v = hp->d_v, .window = in->lp->window,
        .scale = (float)(hp->attn_scale != 0 ? hp->attn_scale : 1 / sqrt(hp->d_k)),
        .softcap = (float)hp->attn_softcap, .m = s->m, .l = s->l, .o = s->o, .work = s->work,
    };
    const hy_att_work *work = &p->att[c.group];
    const hy_entry *heads = hy_heads_inside(p, i_entry) ? e - 1 : NULL;
    uint32_t n_kv = in->lp->n_kv_head, n = work->n_unit * n_kv;
    for (uint32_t i; (i = hy_next(p, i_entry, 0)) < n;) {
        /* a KV head's units in a row; the last blocks of a prompt see most keys: they go first */
        const hy_att_unit *u = &work->unit[work->n_unit - 1 - i % work->n_unit];
        begin_item(&c, work, u->item, i / work->n_unit);
        run_unit(&c, work, u, heads);
    }
    if (!work->split) return;
    hy_team_barrier(w);
    n = work->n_item * n_kv;
    for (uint32_t i; (i = hy_next(p, i_entry, 1)) < n;) {
        begin_item(&c, work, i % work->n_item, i / work->n_item);
        fold_item(&c);
    }
}
