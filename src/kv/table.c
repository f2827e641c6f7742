/* Page tables: reserve, truncate, slide, fork.
 *
 *   page  0 .. page_first-1   page_first .. n_page-1            n_page .. cap-1
 *         | slid out: NO_PAGE | held; all but the last are full | free           |
 *
 * A page is written only through the table that holds its single reference. Whoever reserves tokens
 * from n_tok on will write them, so that is where a shared page is copied. The cache's reference counts as
 * any other: a page that it knows is never written. */
#include "kv/pool.h"
#include <string.h>

hy_status hy_page_table_init(const hy_kv *kv, hy_page_table *t, uint32_t cap_tok, hy_err *err)
{
    memset(t, 0, sizeof *t);
    uint32_t cap = HY_MAX(1, hy_kv_pages_of(cap_tok));
    for (uint32_t g = 0; g < kv->n_group; g++) {
        t->page[g] = hy_alloc_array(cap, sizeof(uint32_t));
        if (!t->page[g]) {
            for (uint32_t i = 0; i < g; i++) hy_free(t->page[i]);
            memset(t, 0, sizeof *t);
            return hy_fail_memory(err, "page table", (uint64_t)cap * sizeof(uint32_t));
        }
        t->cap[g] = cap;
        for (uint32_t i = 0; i < cap; i++) t->page[g][i] = HY_KV_NO_PAGE;
    }
    return HY_OK;
}

void hy_page_table_free(hy_kv *kv, hy_page_table *t)
{
    if (!kv || !t) return;
    hy_kv_truncate(kv, t, 0);
    for (uint32_t g = 0; g < kv->n_group; g++) hy_free(t->page[g]);
    memset(t, 0, sizeof *t);
}

/* Where the page lies that tokens from t->n_tok on start inside, when somebody else holds it too. */
static uint32_t *shared_last(const hy_kv_pool *p, const hy_page_table *t, uint32_t g)
{
    if (t->n_tok % HY_KV_PAGE_TOK == 0) return NULL;
    uint32_t *slot = &t->page[g][t->n_tok / HY_KV_PAGE_TOK];
    return *slot != HY_KV_NO_PAGE && p->ref[*slot] > 1 ? slot : NULL;
}

/* The page would have to be copied, but there is no room: what only the cache shares with t becomes t's. */
static bool give_up(hy_kv *kv, const hy_page_table *t, uint32_t g, uint32_t want)
{
    hy_kv_pool *p = &kv->pool[g];
    const uint32_t *slot = shared_last(p, t, g);
    if (!slot || p->node[*slot] == HY_KV_NO_NODE || p->ref[*slot] > 2) return false;
    if (want - t->n_page[g] > hy_kv_available(kv, g)) return false;
    hy_kv_forget(kv, p->node[*slot]);
    return true;
}

static hy_status check_room(hy_kv *kv, const hy_page_table *t, uint32_t n_tok, uint32_t *n_need, hy_err *err)
{
    uint32_t want = hy_kv_pages_of(n_tok);
    for (uint32_t g = 0; g < kv->n_group; g++) {
        const hy_kv_pool *p = &kv->pool[g];
        if (want > t->cap[g])
            return hy_fail(err, HY_E_LIMIT, "kv: %u tokens are beyond this sequence's %u", n_tok,
                           t->cap[g] * HY_KV_PAGE_TOK);
        uint32_t need = want - t->n_page[g] + (shared_last(p, t, g) != NULL), have = hy_kv_available(kv, g);
        if (need > have && !give_up(kv, t, g, want))
            return hy_fail(err, HY_E_LIMIT, "kv group %u: %u pages needed, %u of %u free", g, need, have,
                           p->g.n_page);
    }
    for (uint32_t g = 0; g < kv->n_group; g++)
        n_need[g] = want - t->n_page[g] + (shared_last(&kv->pool[g], t, g) != NULL);
    return HY_OK;
}

/* Idle pages of the cache go until need[g] are free in every group. */
static hy_status make_room(hy_kv *kv, const uint32_t *need, hy_err *err)
{
    for (uint32_t g = 0; g < kv->n_group; g++)
        if (!hy_kv_evict(kv, g, need[g]))
            return hy_fail(err, HY_E_LIMIT, "kv group %u: %u pages needed, %u of %u free", g, need[g],
                           kv->pool[g].n_free, kv->pool[g].g.n_page);
    return HY_OK;
}

static void copy_on_write(hy_kv *kv, uint32_t g, uint32_t *slot)
{
    hy_kv_pool *p = &kv->pool[g];
    uint32_t page = hy_kv_grab(p);
    for (uint32_t i = 0; i < p->n_part; i++)
        memcpy(hy_kv_part(kv, g, page, i), hy_kv_part(kv, g, *slot, i), (size_t)p->g.part_bytes);
    hy_kv_drop(kv, g, *slot, true);
    *slot = page;
    kv->n_cow++;
}

hy_status hy_kv_reserve(hy_kv *kv, hy_page_table *t, uint32_t n_tok, hy_err *err)
{
    if (n_tok <= t->n_tok) return HY_OK;
    uint32_t need[HY_KV_GROUPS_MAX];
    HY_TRY(check_room(kv, t, n_tok, need, err));
    HY_TRY(make_room(kv, need, err));
    uint32_t want = hy_kv_pages_of(n_tok);
    for (uint32_t g = 0; g < kv->n_group; g++) {
        uint32_t *slot = shared_last(&kv->pool[g], t, g);
        if (slot) copy_on_write(kv, g, slot);
        while (t->n_page[g] < want) t->page[g][t->n_page[g]++] = hy_kv_grab(&kv->pool[g]);
    }
    t->n_tok = n_tok;
    return HY_OK;
}

hy_status hy_kv_place(hy_kv *kv, hy_page_table *t, uint32_t n_tok, const uint32_t *first, hy_err *err)
{
    uint32_t n_page = hy_kv_pages_of(n_tok), need[HY_KV_GROUPS_MAX];
    if (t->n_tok) return hy_fail(err, HY_E_ARG, "kv: the sequence holds %u tokens already", t->n_tok);
    for (uint32_t g = 0; g < kv->n_group; g++) {
        if (n_page > t->cap[g])
            return hy_fail(err, HY_E_LIMIT, "kv: %u tokens are beyond this sequence's %u", n_tok,
                           t->cap[g] * HY_KV_PAGE_TOK);
        need[g] = n_page - first[g];
        if (need[g] > hy_kv_available(kv, g))
            return hy_fail(err, HY_E_LIMIT, "kv group %u: %u pages needed, %u of %u free", g, need[g],
                           hy_kv_available(kv, g), kv->pool[g].g.n_page);
    }
    HY_TRY(make_room(kv, need, err));
    for (uint32_t g = 0; g < kv->n_group; g++) {
        t->page_first[g] = first[g];
        t->n_page[g] = n_page;
        for (uint32_t i = first[g]; i < n_page; i++) t->page[g][i] = hy_kv_grab(&kv->pool[g]);
    }
    t->n_tok = n_tok;
    return HY_OK;
}

void hy_kv_truncate(hy_kv *kv, hy_page_table *t, uint32_t n_tok)
{
    if (n_tok >= t->n_tok) return;
    uint32_t keep = hy_kv_pages_of(n_tok);
    kv->cache.tick++;
    for (uint32_t g = 0; g < kv->n_group; g++) {
        while (t->n_page[g] > keep) {
            uint32_t *slot = &t->page[g][--t->n_page[g]];
            hy_kv_drop(kv, g, *slot, true);
            *slot = HY_KV_NO_PAGE;
        }
        t->page_first[g] = HY_MIN(t->page_first[g], keep);
    }
    t->n_tok = n_tok;
}

void hy_kv_slide(hy_kv *kv, hy_page_table *t, uint32_t pos)
{
    for (uint32_t g = 0; g < kv->n_group; g++) {
        uint32_t window = kv->pool[g].g.window;
        if (window == 0 || pos <= window) continue;
        uint32_t first = HY_MIN((pos - window) / HY_KV_PAGE_TOK, t->n_page[g]);
        for (uint32_t i = t->page_first[g]; i < first; i++) {
            hy_kv_drop(kv, g, t->page[g][i], false); /* what is left behind is not used by it */
            t->page[g][i] = HY_KV_NO_PAGE;
        }
        t->page_first[g] = HY_MAX(t->page_first[g], first);
    }
}

hy_status hy_kv_fork(hy_kv *kv, hy_page_table *dst, const hy_page_table *src, uint32_t n_tok,
                     hy_err *err)
{
    if (dst->n_tok != 0)
        return hy_fail(err, HY_E_ARG, "kv: fork into a sequence that holds %u tokens", dst->n_tok);
    if (n_tok > src->n_tok)
        return hy_fail(err, HY_E_ARG, "kv: fork of %u tokens, the sequence holds %u", n_tok,
                       src->n_tok);
    uint32_t n_page = hy_kv_pages_of(n_tok);
    for (uint32_t g = 0; g < kv->n_group; g++)
        if (n_page > dst->cap[g])
            return hy_fail(err, HY_E_LIMIT, "kv: %u tokens are beyond the new sequence's %u", n_tok,
                           dst->cap[g] * HY_KV_PAGE_TOK);
    for (uint32_t g = 0; g < kv->n_group; g++) {
        for (uint32_t i = 0; i < n_page; i++) {
            uint32_t page = src->page[g][i];
            dst->page[g][i] = page;
            if (page != HY_KV_NO_PAGE) hy_kv_hold(kv, g, page);
        }
        dst->n_page[g] = n_page;
        dst->page_first[g] = HY_MIN(src->page_first[g], n_page);
    }
    dst->n_tok = n_tok;
    return HY_OK;
}
