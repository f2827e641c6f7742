/* Attention over pages.
 *
 * A unit is a chunk of tokens (a block of one row, or rows that share pages: att_work.c), one KV head and a
 * range of tiles (64 tokens, cut at absolute positions). The query heads of the KV head and the tokens that
 * read the same pages are stacked as queries of one kernel call. Each tile gives (m, l, o) for each query;
 * they are folded in ascending order, starting from (-inf, 0, 0). With few chunks and a long context tiles
 * are shared between workers, who store the results; they are folded after a barrier, in the same order, so
 * by the same operations.
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
    const hy_att_chunk *ch;
    const hy_att_item *item;   /* the chunk's */
    const uint32_t *tok;       /* the chunk's: index in the batch */
    uint32_t group, i_kv, per; /* per: query heads of a KV head */
    uint32_t n_q;              /* of the chunk */
    const float *q;            /* the chunk's queries, as those below */
    float *m, *l, *o;          /* a tile's results for them */
    hy_att a;
} ctx;

/* Queries of the chunk for this KV head, in order [token][head]. */
static void stack_queries(ctx *c)
{
    const hy_plan *p = c->p;
    uint32_t d = p->m->hp.d_k, n = c->ch->n_tok;
    size_t at = (size_t)c->i_kv * c->per * d;
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t h = 0; h < c->per; h++) c->s->q_pos[t * c->per + h] = p->b->pos[c->tok[t]];
    c->a.q_stride = d;
    if (n == 1) {
        c->q = hy_slot_row(p, c->in->a, c->tok[0]) + at;
        return;
    }
    for (uint32_t t = 0; t < n; t++)
        memcpy(c->s->q + (size_t)t * c->per * d, hy_slot_row(p, c->in->a, c->tok[t]) + at,
               (size_t)c->per * d * sizeof(float));
    c->q = c->s->q;
}

#define FEW_Q 8 /* queries that do not hide the way from memory */

static void prefetch(const uint8_t *p, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += 64) __builtin_prefetch(p + at, 0, 2);
}

/* Asks for what comes after the keys of tile i_tile of an item: its values, and the next tile's keys.
 * For Q8 and Q4, whose pages end before the processor's own prefetch has started: 8 to 30 % for Q8 (Zen 4,
 * a thread), where F16 loses up to 10. */
static void prefetch_next(const ctx *c, const hy_att_item *it, uint32_t i_tile, uint64_t off)
{
    const hy_plan *p = c->p;
    uint32_t per_tile = HY_ATT_TILE / HY_PAGE_TOK, first = (i_tile + 1) * per_tile;
    uint32_t end = i_tile + 1 < it->tile_last ? it->pos0 + it->n_tok : 0;
    for (uint32_t i = 0; i < per_tile; i++) {
        if (c->a.v_page[i]) prefetch(c->a.v_page[i], p->v_bytes);
        if ((first + i) * HY_PAGE_TOK >= end) continue;
        uint32_t page = it->table->page[c->group][first + i];
        if (page != HY_KV_NO_PAGE) prefetch(hy_kv_page(p->kv, c->group, page) + off, p->k_bytes);
    }
}

/* Items [k, end) of the chunk, which have the same pages there. */
static void read_tile(ctx *c, uint32_t i_tile, uint32_t k, uint32_t end)
{
    const hy_plan *p = c->p;
    const hy_att_item *it = &c->item[k], *last = &c->item[end - 1];
    const hy_page_table *t = it->table;
    uint32_t per_tile = HY_ATT_TILE / HY_PAGE_TOK, first = i_tile * per_tile, q0 = it->off * c->per;
    uint64_t off = p->layer_off[c->in->i_layer] + c->i_kv * (p->k_bytes + p->v_bytes);
    c->a.n_q = (last->off + last->n_tok) * c->per - q0;
    c->a.q = c->q + q0 * c->a.q_stride;
    c->a.q_pos = c->s->q_pos + q0;
    c->a.m = c->m + q0;
    c->a.l = c->l + q0;
    c->a.o = c->o + (size_t)q0 * c->a.d_v;
    c->a.pos0 = (int32_t)(i_tile * HY_ATT_TILE);
    c->a.n_key = HY_MIN(HY_ATT_TILE, it->pos0 + it->n_tok - i_tile * HY_ATT_TILE);
    for (uint32_t i = 0; i < per_tile; i++) {
        uint32_t page = i * HY_PAGE_TOK < c->a.n_key ? t->page[c->group][first + i] : HY_KV_NO_PAGE;
        const uint8_t *at = page == HY_KV_NO_PAGE ? NULL : hy_kv_page(p->kv, c->group, page) + off;
        c->a.k_page[i] = at;
        c->a.v_page[i] = at ? at + p->k_bytes : NULL;
    }
    if (c->a.n_q <= FEW_Q && p->o.kv_type >= HY_KV_Q8) prefetch_next(c, last, i_tile, off);
    p->k->att[p->o.kv_type](&c->a);
}

static bool is_read(const hy_att_item *it, uint32_t i_tile)
{
    return i_tile >= it->tile_first && i_tile < it->tile_last;
}

static void tile(ctx *c, uint32_t i_tile)
{
    for (uint32_t i = 0; i < c->ch->n_item;) {
        if (!is_read(&c->item[i], i_tile)) {
            i++;
            continue;
        }
        uint32_t n_read, end = hy_att_run_end(c->item, c->ch->n_item, i, c->group, i_tile, &n_read);
        read_tile(c, i_tile, i, end);
        i = end;
    }
}

static float *out_of(const ctx *c, uint32_t i_q)
{
    uint32_t t = i_q / c->per, h = c->i_kv * c->per + i_q % c->per;
    return hy_slot_row(c->p, c->in->out, c->tok[t]) + (size_t)h * c->p->m->hp.d_v;
}

static void start(const ctx *c)
{
    for (uint32_t i = 0; i < c->n_q; i++) {
        c->s->m_acc[i] = -INFINITY;
        c->s->l_acc[i] = 0;
        memset(out_of(c, i), 0, c->a.d_v * sizeof(float));
    }
}

static void fold(const ctx *c, uint32_t i_tile)
{
    for (uint32_t k = 0; k < c->ch->n_item; k++) {
        const hy_att_item *it = &c->item[k];
        if (!is_read(it, i_tile)) continue;
        for (uint32_t i = it->off * c->per; i < (it->off + it->n_tok) * c->per; i++)
            c->p->k->att_fold(&c->s->m_acc[i], &c->s->l_acc[i], out_of(c, i), c->m[i], c->l[i],
                              c->o + (size_t)i * c->a.d_v, c->a.d_v);
    }
}

static void finish(const ctx *c)
{
    const float *sinks = c->in->w ? c->in->w->vec : NULL;
    uint32_t d = c->a.d_v;
    if (sinks) memset(c->s->o, 0, d * sizeof(float));
    for (uint32_t i = 0; i < c->n_q; i++) {
        float *o = out_of(c, i);
        if (sinks)
            c->p->k->att_fold(&c->s->m_acc[i], &c->s->l_acc[i], o,
                              sinks[c->i_kv * c->per + i % c->per], 1, c->s->o, d);
        c->p->k->scale(o, 1 / c->s->l_acc[i], d);
    }
    if (!c->quant) return;
    uint32_t first = c->i_kv * c->per * d;
    for (uint32_t t = 0; t < c->ch->n_tok; t++)
        hy_op_elem(c->p, c->quant, c->tok[t], first, first + c->per * d);
}

static void begin_chunk(ctx *c, const hy_att_work *work, uint32_t i_chunk, uint32_t i_kv)
{
    c->ch = &work->chunk[i_chunk];
    c->item = work->item + c->ch->item;
    c->tok = work->tok + c->ch->tok;
    c->i_kv = i_kv;
    c->n_q = c->ch->n_tok * c->per;
}

/* Where the results of tile i_tile of the chunk are stored. */
static void results_at(ctx *c, uint32_t i_tile)
{
    uint64_t n_tile = c->ch->tile_last - c->ch->tile_first;
    uint64_t at = c->ch->res + (c->i_kv * n_tile + (i_tile - c->ch->tile_first)) * c->n_q;
    c->m = c->p->att_m + at;
    c->l = c->p->att_l + at;
    c->o = c->p->att_o + at * c->a.d_v;
}

static void run_unit(ctx *c, const hy_att_work *work, const hy_att_unit *u, const hy_entry *heads)
{
    for (uint32_t t = 0; heads && t < c->ch->n_tok; t++)
        for (uint32_t i = 0; i < heads->n; i++)
            hy_op_head(c->p, &c->p->prim[heads->first + i], c->tok[t], c->i_kv);
    stack_queries(c);
    if (!work->split) start(c);
    for (uint32_t i = u->tile_first; i < u->tile_last; i++) {
        if (work->split) results_at(c, i);
        tile(c, i);
        if (!work->split) fold(c, i);
    }
    if (!work->split) finish(c);
}

static void fold_chunk(ctx *c)
{
    start(c);
    for (uint32_t i = c->ch->tile_first; i < c->ch->tile_last; i++) {
        results_at(c, i);
        fold(c, i);
    }
    finish(c);
}

bool hy_heads_inside(const hy_plan *p, uint32_t i_entry)
{
    const hy_entry *e = &p->entry[i_entry];
    return i_entry < p->n_entry && e->heads_first && p->decode_only && !p->o.materialised &&
           !p->att[p->layer_group[p->prim[e->first].i_layer]].split;
}

void hy_op_attention(const hy_plan *p, const hy_entry *e, uint32_t i_entry, hy_worker *w)
{
    const hy_hparams *hp = &p->m->hp;
    const hy_instr *in = &p->prim[e->first];
    const hy_scratch *s = &p->scratch[w->i];
    ctx c = { .p = p, .in = in, .quant = e->n > 1 ? in + 1 : NULL, .s = s,
              .group = p->layer_group[in->i_layer], .per = in->lp->n_head / in->lp->n_kv_head,
              .m = s->m, .l = s->l, .o = s->o };
    c.a = (hy_att){
        .type = p->o.kv_type, .d_k = hp->d_k, .d_v = hp->d_v, .window = in->lp->window,
        .scale = (float)(hp->attn_scale != 0 ? hp->attn_scale : 1 / sqrt(hp->d_k)),
        .softcap = (float)hp->attn_softcap, .work = s->work, .wide = s->wide,
    };
    const hy_att_work *work = &p->att[c.group];
    const hy_entry *heads = hy_heads_inside(p, i_entry) ? e - 1 : NULL;
    uint32_t n_kv = in->lp->n_kv_head, n = work->n_unit * n_kv;
    for (uint32_t i; (i = hy_next(p, i_entry, 0)) < n;) {
        /* a KV head's units in a row; the last blocks of a prompt see most keys: they go first */
        const hy_att_unit *u = &work->unit[work->n_unit - 1 - i % work->n_unit];
        begin_chunk(&c, work, u->chunk, i / work->n_unit);
        run_unit(&c, work, u, heads);
    }
    if (!work->split) return;
    hy_team_barrier(w);
    n = work->n_chunk * n_kv;
    for (uint32_t i; (i = hy_next(p, i_entry, 1)) < n;) {
        begin_chunk(&c, work, i % work->n_chunk, i / work->n_chunk);
        fold_chunk(&c);
    }
}
