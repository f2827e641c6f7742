/* Attention over pages.
 *
 * The query heads of a KV head and the tokens of a chunk (a block of one row, or rows that share pages:
 * att_work.c) are stacked as queries of one kernel call a tile (64 tokens, cut at absolute positions). Each
 * tile gives (m, l, o) for each query; they are folded in ascending order, starting from (-inf, 0, 0).
 *
 * Many chunks: a worker takes a chunk and KV head at a time from a common list. Few chunks and a long context:
 * the tiles of all chunks and KV heads stand in a row that is cut into shares of equal cost.
 *
 *   KV head 0        | 1                | 2                     two workers, three KV heads, one chunk
 *   worker 0 ..............|..................... worker 1
 *                     ^^^^^ ^^^^^^^^^^^^
 *                     A     B    A folds its tiles at once, B stores their results; who comes last folds B's
 *                                onto A's: the same operations in the same order
 *
 * A sink (gpt-oss) is folded last, as a tile with m = the head's logit, l = 1, o = 0: a key that takes
 * its share of the softmax and adds nothing. */
#include "plan/instr.h"
#include <math.h>
#include <string.h>

#define PER_TILE (HY_ATT_TILE / HY_PAGE_TOK)
#define FEW_Q    8             /* queries that do not hide the way from memory */

/* A worker's tiles of a chunk and KV head whose tiles are shared. */
typedef struct part {
    uint32_t i_kv, i_chunk, tile, end;
} part;

typedef struct ctx {
    const hy_plan *p;
    const hy_instr *in, *quant;/* quant: NULL or the int8 form of the output */
    const hy_scratch *s;
    const hy_att_work *work;
    const hy_att_chunk *ch;
    const hy_att_item *item;   /* the chunk's */
    const uint32_t *tok;       /* the chunk's: index in the batch */
    uint32_t group, i_kv, per; /* per: query heads of a KV head */
    uint32_t part_first;       /* of a page: the layer's KV head 0 */
    uint32_t n_q;              /* of the chunk */
    uint32_t end;              /* of the tiles that are read */
    const part *next;          /* what is read after them, or NULL */
    const float *q;            /* the chunk's queries, as those below */
    float *m, *l, *o;          /* a tile's results for them */
    hy_att a;
} ctx;

static void begin_chunk(ctx *c, uint32_t i_chunk, uint32_t i_kv)
{
    c->ch = &c->work->chunk[i_chunk];
    c->item = c->work->item + c->ch->item;
    c->tok = c->work->tok + c->ch->tok;
    c->i_kv = i_kv;
    c->n_q = c->ch->n_tok * c->per;
    c->m = c->s->m;
    c->l = c->s->l;
    c->o = c->s->o;
    c->end = c->ch->tile_last;
    c->next = NULL;
}

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

static bool is_read(const hy_att_item *it, uint32_t i_tile)
{
    return i_tile >= it->tile_first && i_tile < it->tile_last;
}

/* ---- pages -------------------------------------------------------------------------------------- */

/* Where a tile's keys lie; NULL: no such page. */
static void find_keys(const ctx *c, const hy_att_item *it, uint32_t i_kv, uint32_t i_tile, const uint8_t **k)
{
    const hy_plan *p = c->p;
    const uint32_t *page = it->table->page[c->group] + i_tile * PER_TILE;
    uint32_t n_tok = it->pos0 + it->n_tok - i_tile * HY_ATT_TILE;
    for (uint32_t i = 0; i < PER_TILE; i++) {
        bool has = i * HY_PAGE_TOK < n_tok && page[i] != HY_KV_NO_PAGE;
        k[i] = has ? hy_kv_part(p->kv, c->group, page[i], c->part_first + i_kv) : NULL;
    }
}

/* Items next to each other read a tile in common, so somebody reads each of the chunk's. Tables of the others may end
 * before it. */
static const hy_att_item *first_reader(const ctx *c, uint32_t i_chunk, uint32_t i_tile)
{
    const hy_att_item *it = c->work->item + c->work->chunk[i_chunk].item;
    while (!is_read(it, i_tile)) it++;
    return it;
}

/* The keys that are read after those of tile i_tile for the items before i_item. */
static void find_next(ctx *c, uint32_t i_tile, uint32_t i_item)
{
    for (; i_tile < c->end; i_tile++, i_item = 0)
        for (; i_item < c->ch->n_item; i_item++)
            if (is_read(&c->item[i_item], i_tile)) {
                find_keys(c, &c->item[i_item], c->i_kv, i_tile, c->a.next);
                return;
            }
    const part *next = c->next;
    if (next) find_keys(c, first_reader(c, next->i_chunk, next->tile), next->i_kv, next->tile, c->a.next);
    else memset(c->a.next, 0, sizeof c->a.next);
}

/* Asks for the keys of a chunk's tile that are read first. */
static void ask_keys(const ctx *c, uint32_t i_chunk, uint32_t i_kv, uint32_t i_tile)
{
    const hy_att_chunk *ch = &c->work->chunk[i_chunk];
    const uint8_t *k[PER_TILE];
    if (ch->n_tok * c->per > FEW_Q) return;
    find_keys(c, first_reader(c, i_chunk, i_tile), i_kv, i_tile, k);
    for (uint32_t i = 0; i < PER_TILE; i++)
        for (uint64_t at = 0; k[i] && at < c->p->k_bytes; at += HY_ALIGN) __builtin_prefetch(k[i] + at, 0, 2);
}

/* ---- tiles -------------------------------------------------------------------------------------- */

/* Items [k, end) of the chunk, which have the same pages there. */
static void read_tile(ctx *c, uint32_t i_tile, uint32_t k, uint32_t end)
{
    const hy_plan *p = c->p;
    const hy_att_item *it = &c->item[k], *last = &c->item[end - 1];
    uint32_t q0 = it->off * c->per;
    c->a.n_q = (last->off + last->n_tok) * c->per - q0;
    c->a.q = c->q + q0 * c->a.q_stride;
    c->a.q_pos = c->s->q_pos + q0;
    c->a.m = c->m + q0;
    c->a.l = c->l + q0;
    c->a.o = c->o + (size_t)q0 * c->a.d_v;
    c->a.pos0 = (int32_t)(i_tile * HY_ATT_TILE);
    c->a.n_key = HY_MIN(HY_ATT_TILE, it->pos0 + it->n_tok - i_tile * HY_ATT_TILE);
    find_keys(c, it, c->i_kv, i_tile, c->a.k_page);
    for (uint32_t i = 0; i < PER_TILE; i++) c->a.v_page[i] = c->a.k_page[i] ? c->a.k_page[i] + p->k_bytes : NULL;
    if (c->a.n_q <= FEW_Q) find_next(c, i_tile, end);
    else memset(c->a.next, 0, sizeof c->a.next);
    p->k->att[p->o.kv_type](&c->a);
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

static void start(const ctx *c)
{
    for (uint32_t i = 0; i < c->n_q; i++) {
        c->s->m_acc[i] = -INFINITY;
        c->s->l_acc[i] = 0;
    }
    memset(c->s->o_acc, 0, (size_t)c->n_q * c->a.d_v * sizeof(float));
}

static void fold(const ctx *c, uint32_t i_tile)
{
    for (uint32_t k = 0; k < c->ch->n_item; k++) {
        const hy_att_item *it = &c->item[k];
        if (!is_read(it, i_tile)) continue;
        uint32_t i = it->off * c->per, d = c->a.d_v;
        c->p->k->att_fold(it->n_tok * c->per, c->s->m_acc + i, c->s->l_acc + i, c->s->o_acc + (size_t)i * d,
                          c->m + i, c->l + i, c->o + (size_t)i * d, d);
    }
}

static void finish(const ctx *c)
{
    const hy_plan *p = c->p;
    const float *sinks = c->in->w ? c->in->w->vec : NULL, one = 1;
    uint32_t d = c->a.d_v, first = c->i_kv * c->per;
    if (sinks) memset(c->s->o, 0, d * sizeof(float));
    for (uint32_t i = 0; i < c->n_q; i++) {
        uint32_t h = first + i % c->per;
        float *acc = c->s->o_acc + (size_t)i * d, *l = &c->s->l_acc[i];
        float *o = hy_slot_row(p, c->in->out, c->tok[i / c->per]) + (size_t)h * d;
        if (sinks) p->k->att_fold(1, &c->s->m_acc[i], l, acc, &sinks[h], &one, c->s->o, d);
        memcpy(o, acc, d * sizeof(float));
        p->k->scale(o, 1 / *l, d);
    }
    for (uint32_t t = 0; c->quant && t < c->ch->n_tok; t++)
        hy_op_elem(p, c->quant, c->tok[t], first * d, (first + c->per) * d);
}

/* ---- whole chunks ------------------------------------------------------------------------------- */

static void run_chunk(ctx *c, uint32_t i_chunk, uint32_t i_kv, const hy_entry *heads)
{
    begin_chunk(c, i_chunk, i_kv);
    ask_keys(c, i_chunk, i_kv, c->ch->tile_first);
    for (uint32_t t = 0; heads && t < c->ch->n_tok; t++)
        for (uint32_t i = 0; i < heads->n; i++)
            hy_op_head(c->p, &c->p->prim[heads->first + i], c->tok[t], i_kv);
    stack_queries(c);
    start(c);
    for (uint32_t i = c->ch->tile_first; i < c->ch->tile_last; i++) {
        tile(c, i);
        fold(c, i);
    }
    finish(c);
}

/* ---- shared tiles ------------------------------------------------------------------------------- */

/* Where the results of tile i_tile of the chunk are stored. */
static void results_at(ctx *c, uint32_t i_tile)
{
    uint64_t n_tile = c->ch->tile_last - c->ch->tile_first;
    uint64_t at = c->ch->res + (c->i_kv * n_tile + (i_tile - c->ch->tile_first)) * c->n_q;
    c->m = c->p->att_m + at;
    c->l = c->p->att_l + at;
    c->o = c->p->att_o + at * c->a.d_v;
}

/* What is folded so far, to where the first tile's results would be, and back. */
static void keep(ctx *c, bool back)
{
    const hy_scratch *s = c->s;
    size_t n = c->n_q * sizeof(float), n_o = n * c->a.d_v;
    results_at(c, c->ch->tile_first);
    memcpy(back ? s->m_acc : c->m, back ? c->m : s->m_acc, n);
    memcpy(back ? s->l_acc : c->l, back ? c->l : s->l_acc, n);
    memcpy(back ? s->o_acc : c->o, back ? c->o : s->o_acc, n_o);
}

static void run_part(ctx *c, const part *pt, const part *next)
{
    begin_chunk(c, pt->i_chunk, pt->i_kv);
    stack_queries(c);
    c->end = pt->end;
    c->next = next;
    const hy_att_chunk *ch = c->ch;
    bool first = pt->tile == ch->tile_first;
    if (first) start(c);
    for (uint32_t i = pt->tile; i < pt->end; i++) {
        if (!first) results_at(c, i);
        tile(c, i);
        if (first) fold(c, i);
    }
    uint32_t n = pt->end - pt->tile, n_tile = ch->tile_last - ch->tile_first;
    if (n < n_tile) {
        hy_att_meet *meet = &c->p->att_meet[(size_t)pt->i_kv * c->work->n_chunk + pt->i_chunk];
        if (first) {
            keep(c, false);
            meet->n_folded = n;
        }
        if (atomic_fetch_add_explicit(&meet->n_done, n, memory_order_acq_rel) + n < n_tile) return;
        atomic_store_explicit(&meet->n_done, 0, memory_order_relaxed);
        if (!first) keep(c, true);
        for (uint32_t i = ch->tile_first + meet->n_folded; i < ch->tile_last; i++) {
            results_at(c, i);
            fold(c, i);
        }
    }
    finish(c);
}

/* Tiles of the chunk, whose first one is at `at`, that begin before `end`. */
static uint32_t tiles_before(const hy_att_chunk *ch, uint64_t at, uint64_t end)
{
    uint64_t n = end > at ? (end - at + ch->cost - 1) / ch->cost : 0;
    return (uint32_t)HY_MIN(n, ch->tile_last - ch->tile_first);
}

/* Finds the worker's first part from *pt's chunk and KV head on. */
static bool find_part(const ctx *c, const hy_worker *w, part *pt)
{
    const hy_att_work *work = c->work;
    uint32_t n_kv = c->in->lp->n_kv_head;
    uint64_t all = work->cost * n_kv, first = all * w->i / w->n, last = all * (w->i + 1) / w->n;
    for (; pt->i_kv < n_kv; pt->i_kv++, pt->i_chunk = 0)
        for (; pt->i_chunk < work->n_chunk; pt->i_chunk++) {
            const hy_att_chunk *ch = &work->chunk[pt->i_chunk];
            uint64_t at = pt->i_kv * work->cost + ch->at;
            pt->tile = ch->tile_first + tiles_before(ch, at, first);
            pt->end = ch->tile_first + tiles_before(ch, at, last);
            if (pt->tile < pt->end) return true;
        }
    return false;
}

/* ---- the entry ---------------------------------------------------------------------------------- */

bool hy_heads_inside(const hy_plan *p, uint32_t i_entry)
{
    const hy_entry *e = &p->entry[i_entry];
    return i_entry < p->n_entry && e->heads_first && p->decode_only && !p->o.materialised &&
           !p->att[p->layer_group[p->prim[e->first].i_layer]].split;
}

static ctx begin(const hy_plan *p, const hy_entry *e, const hy_worker *w)
{
    const hy_hparams *hp = &p->m->hp;
    const hy_instr *in = &p->prim[e->first];
    const hy_scratch *s = &p->scratch[w->i];
    ctx c = { .p = p, .in = in, .quant = e->n > 1 ? in + 1 : NULL, .s = s,
              .group = p->layer_group[in->i_layer], .per = in->lp->n_head / in->lp->n_kv_head,
              .part_first = hy_part_of(p, in->i_layer, 0) };
    c.work = &p->att[c.group];
    c.a = (hy_att){
        .type = p->o.kv_type, .d_k = hp->d_k, .d_v = hp->d_v, .window = in->lp->window,
        .scale = (float)(hp->attn_scale != 0 ? hp->attn_scale : 1 / sqrt(hp->d_k)),
        .softcap = (float)hp->attn_softcap, .work = s->work, .wide = s->wide,
        .next_bytes = (uint32_t)(p->k_bytes + p->v_bytes),
    };
    return c;
}

void hy_attention_ahead(const hy_plan *p, const hy_entry *e, const hy_worker *w)
{
    if (!p->att[p->layer_group[p->prim[e->first].i_layer]].split || p->o.materialised) return;
    ctx c = begin(p, e, w);
    part pt = { 0 };
    if (find_part(&c, w, &pt)) ask_keys(&c, pt.i_chunk, pt.i_kv, pt.tile);
}

void hy_op_attention(const hy_plan *p, const hy_entry *e, uint32_t i_entry, hy_worker *w)
{
    ctx c = begin(p, e, w);
    const hy_att_work *work = c.work;
    if (work->split) {
        part pt = { 0 };
        for (bool more = find_part(&c, w, &pt); more;) {
            part next = pt;
            next.i_chunk++;
            more = find_part(&c, w, &next);
            run_part(&c, &pt, more ? &next : NULL);
            pt = next;
        }
        return;
    }
    const hy_entry *heads = hy_heads_inside(p, i_entry) ? e - 1 : NULL;
    uint32_t n = work->n_chunk * c.in->lp->n_kv_head;
    for (uint32_t i; (i = hy_next(p, i_entry, 0)) < n;)
        /* a KV head's chunks in a row; the last blocks of a prompt see most keys: they go first */
        run_chunk(&c, work->n_chunk - 1 - i % work->n_chunk, i / work->n_chunk, heads);
}
