/* A step's attention as a list of chunks.
 *
 * An item is a block of tokens of one row. Rows of few tokens whose sequences are on the same pages (a prefix
 * from the cache, a fork) come together in a chunk, so that each of their common tiles is read once for all
 * of them (cascade). They are sorted by their pages, so in every tile those that share it are neighbours:
 *
 *   tile      0    1    2    3    4           a chunk of three rows: in tiles 0 and 1 one kernel call
 *   row 0   | a    b  | c  | g                for all, in tile 2 one for rows 0 and 1, then row by row
 *   row 1   | a    b  | c  | h    i
 *   row 2   | a    b  | d
 *
 * A query's result in a tile is its own, whoever is stacked beside it, and tiles are folded in ascending
 * order: no bit depends on how chunks are made. */
#include "plan/instr.h"
#include <string.h>

#define PER_TILE (HY_ATT_TILE / HY_PAGE_TOK)

static bool is_read(const hy_att_item *it, uint32_t tile)
{
    return tile >= it->tile_first && tile < it->tile_last;
}

/* All of the tile was there before this step. */
static bool is_old(const hy_att_item *it, uint32_t tile)
{
    return it->pos0 / HY_ATT_TILE > tile;
}

static bool same_tile(const hy_att_item *a, const hy_att_item *b, uint32_t g, uint32_t tile)
{
    return is_old(a, tile) && is_old(b, tile) &&
           memcmp(a->table->page[g] + tile * PER_TILE, b->table->page[g] + tile * PER_TILE,
                  PER_TILE * sizeof(uint32_t)) == 0;
}

uint32_t hy_att_run_end(const hy_att_item *item, uint32_t n_item, uint32_t first, uint32_t g, uint32_t tile,
                        uint32_t *n_read)
{
    uint32_t end = first + 1;
    *n_read = 1;
    for (uint32_t i = end; i < n_item; i++) {
        if (!is_read(&item[i], tile)) continue;
        if (!same_tile(&item[first], &item[i], g, tile)) break;
        end = i + 1;
        ++*n_read;
    }
    return end;
}

/* ---- items -------------------------------------------------------------------------------------- */

static hy_att_item make_item(const hy_row *r, uint32_t at, uint32_t n, uint32_t window)
{
    uint32_t pos = r->pos0 + at, first = window && pos + 1 > window ? pos + 1 - window : 0;
    return (hy_att_item){
        .table = r->table, .tok = r->tok_first + at, .n_tok = n, .pos0 = pos,
        .tile_first = first / HY_ATT_TILE, .tile_last = (pos + n - 1) / HY_ATT_TILE + 1,
    };
}

/* Some old tile is on pages of several tables. In a full group those are the first ones. */
static bool may_share(const hy_plan *p, const hy_row *r, uint32_t g)
{
    if (p->o.no_cascade || p->b->n_row == 1 || 2 * r->n_tok > p->att_block) return false;
    uint32_t window = p->group_window[g];
    hy_att_item it = make_item(r, 0, r->n_tok, window);
    for (uint32_t t = it.tile_first; is_old(&it, t); t++) {
        if (hy_kv_page_state(p->kv, g, r->table->page[g][t * PER_TILE + PER_TILE - 1]) == 2) return true;
        if (window == 0) break;
    }
    return false;
}

/* Order by pages, from the first tile that both read. */
static bool before(const hy_att_item *a, const hy_att_item *b, uint32_t g)
{
    uint32_t i = HY_MAX(a->tile_first, b->tile_first) * PER_TILE;
    uint32_t n = HY_MIN(a->pos0, b->pos0) / HY_PAGE_TOK;
    for (; i < n; i++)
        if (a->table->page[g][i] != b->table->page[g][i]) return a->table->page[g][i] < b->table->page[g][i];
    return false;
}

/* Puts it behind those of list[0, n) that do not come after it. */
static void insert(hy_att_item *list, uint32_t n, const hy_att_item *it, uint32_t g)
{
    uint32_t lo = 0, hi = n;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (before(it, &list[mid], g)) hi = mid;
        else lo = mid + 1;
    }
    memmove(list + lo + 1, list + lo, (n - lo) * sizeof *list);
    list[lo] = *it;
}

/* First the rows that share nothing, as they come; from *n_alone on the others, sorted. */
static void list_items(hy_plan *p, hy_att_work *work, uint32_t g, uint32_t *n_alone)
{
    const hy_batch *b = p->b;
    uint32_t n = 0, window = p->group_window[g];
    bool any = false;
    for (uint32_t i = 0; i < b->n_row; i++) {
        const hy_row *r = &b->row[i];
        if (may_share(p, r, g)) {
            any = true;
            continue;
        }
        for (uint32_t t = 0; t < r->n_tok; t += p->att_block)
            work->item[n++] = make_item(r, t, HY_MIN(p->att_block, r->n_tok - t), window);
    }
    *n_alone = n;
    for (uint32_t i = 0; any && i < b->n_row; i++) {
        if (!may_share(p, &b->row[i], g)) continue;
        hy_att_item it = make_item(&b->row[i], 0, b->row[i].n_tok, window);
        insert(work->item + *n_alone, n - *n_alone, &it, g);
        n++;
    }
    work->n_item = n;
}

/* ---- chunks ------------------------------------------------------------------------------------- */

/* Chunks of up to `most` tokens of items that share their first common tile. */
static void list_chunks(const hy_plan *p, hy_att_work *work, uint32_t g, uint32_t n_alone, uint32_t most)
{
    uint32_t n_tok = 0;
    work->n_chunk = 0;
    for (uint32_t i = 0; i < work->n_item; i++) {
        hy_att_item *it = &work->item[i];
        hy_att_chunk *c = work->n_chunk ? &work->chunk[work->n_chunk - 1] : NULL;
        bool joins = i > n_alone && c->n_tok + it->n_tok <= most &&
                     same_tile(it - 1, it, g, HY_MAX(it[-1].tile_first, it->tile_first));
        if (!joins) {
            c = &work->chunk[work->n_chunk++];
            *c = (hy_att_chunk){ .item = i, .tok = n_tok, .tile_first = it->tile_first, .tile_last = it->tile_last };
        }
        it->off = c->n_tok;
        c->n_item++;
        c->n_tok += it->n_tok;
        c->tile_first = HY_MIN(c->tile_first, it->tile_first);
        c->tile_last = HY_MAX(c->tile_last, it->tile_last);
        for (uint32_t k = 0; k < it->n_tok; k++) work->tok[n_tok++] = it->tok + k;
    }
}

/* Tiles are shared when a chunk is more than a third of what each worker has to do, and their results have
 * room. A tile's cost: what does not depend on its queries is worth two of them. */
static bool wants_split(hy_plan *p, hy_att_work *work, uint32_t n_thread)
{
    uint64_t res = 0, most = 0;
    bool long_enough = false;
    if (n_thread == 1) return false;
    work->cost = 0;
    for (uint32_t i = 0; i < work->n_chunk; i++) {
        hy_att_chunk *c = &work->chunk[i];
        uint64_t n_tile = c->tile_last - c->tile_first, n_q = (uint64_t)p->head_per_kv * c->n_tok;
        c->cost = n_q + 2;
        c->at = work->cost;
        c->res = res;
        work->cost += c->cost * n_tile;
        res += p->n_kv_max * n_q * n_tile;
        most = HY_MAX(most, c->cost * n_tile);
        long_enough |= n_tile >= 4;
    }
    return long_enough && res <= p->res_cap && 3 * n_thread * most > work->cost * p->n_kv_max;
}

/* Items read in common, less those that read: in tiles. */
static uint64_t count_saved(const hy_att_work *work, uint32_t g)
{
    uint64_t saved = 0;
    for (uint32_t i = 0; i < work->n_chunk; i++) {
        const hy_att_chunk *c = &work->chunk[i];
        const hy_att_item *item = work->item + c->item;
        for (uint32_t t = c->tile_first; c->n_item > 1 && t < c->tile_last; t++)
            for (uint32_t k = 0, n_read; k < c->n_item;) {
                if (!is_read(&item[k], t)) {
                    k++;
                    continue;
                }
                k = hy_att_run_end(item, c->n_item, k, g, t, &n_read);
                saved += n_read - 1;
            }
    }
    return saved;
}

void hy_plan_att_work(hy_plan *p, uint32_t n_thread)
{
    for (uint32_t g = 0; g < p->n_group; g++) {
        hy_att_work *work = &p->att[g];
        uint32_t n_alone;
        list_items(p, work, g, &n_alone);
        list_chunks(p, work, g, n_alone, p->att_block);
        work->split = wants_split(p, work, n_thread);
        uint32_t n_want = 2 * n_thread / p->n_kv_max + 1;
        if (!work->split && n_thread > 1 && work->n_chunk < n_want && work->n_chunk < work->n_item)
            list_chunks(p, work, g, n_alone, (work->n_item + n_want - 1) / n_want); /* so that all have work */
        work->saved = count_saved(work, g);
        p->cascade_saved += work->saved * HY_ATT_TILE * p->group_layers[g];
    }
}

uint64_t hy_plan_cascade_saved(const hy_plan *p)
{
    return p->cascade_saved / p->m->hp.n_layer;
}
