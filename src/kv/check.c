/* Integrity of the pool: every page is either free or held, exactly as often as the tables and the cache say. */
#include "kv/pool.h"

static hy_status check_table(const hy_kv *kv, const hy_page_table *t, uint32_t i_table, uint32_t g,
                             uint32_t *held, hy_err *err)
{
    const hy_kv_pool *p = &kv->pool[g];
    uint32_t want = hy_kv_pages_of(t->n_tok);
    if (t->n_page[g] != want || t->n_page[g] > t->cap[g])
        return hy_fail(err, HY_E_INTERNAL, "table %u, group %u: %u pages for %u tokens (cap %u)",
                       i_table, g, t->n_page[g], t->n_tok, t->cap[g]);
    if (t->page_first[g] > t->n_page[g])
        return hy_fail(err, HY_E_INTERNAL, "table %u, group %u: first page %u of %u", i_table, g,
                       t->page_first[g], t->n_page[g]);
    for (uint32_t i = 0; i < t->cap[g]; i++) {
        uint32_t page = t->page[g][i];
        bool should = i >= t->page_first[g] && i < t->n_page[g];
        if (should != (page != HY_KV_NO_PAGE) || (should && page >= p->g.n_page))
            return hy_fail(err, HY_E_INTERNAL, "table %u, group %u: entry %u holds page %u", i_table,
                           g, i, page);
        if (should) held[page]++;
    }
    return HY_OK;
}

static hy_status check_group(const hy_kv *kv, uint32_t g, uint32_t *held, hy_err *err)
{
    const hy_kv_pool *p = &kv->pool[g];
    for (uint32_t i = 0; i < p->g.n_page; i++)
        if (held[i] != p->ref[i])
            return hy_fail(err, HY_E_INTERNAL, "group %u, page %u: %u references, held %u times", g, i, p->ref[i],
                           held[i]);
    if (p->n_free > p->g.n_page)
        return hy_fail(err, HY_E_INTERNAL, "group %u: %u free pages of %u", g, p->n_free, p->g.n_page);
    for (uint32_t i = 0; i < p->n_free; i++) {
        uint32_t page = p->free[i];
        if (page >= p->g.n_page || p->ref[page] != 0)
            return hy_fail(err, HY_E_INTERNAL, "group %u, page %u: on the free list, %u references",
                           g, page, page < p->g.n_page ? p->ref[page] : 0);
        if (held[page] != 0) /* held counts to 1 here, so a second time shows */
            return hy_fail(err, HY_E_INTERNAL, "group %u, page %u: twice on the free list", g, page);
        held[page] = 1;
    }
    for (uint32_t i = 0; i < p->g.n_page; i++)
        if (held[i] == 0)
            return hy_fail(err, HY_E_INTERNAL, "group %u, page %u: lost, neither free nor held", g, i);
    return HY_OK;
}

static hy_status check_all(const hy_kv *kv, const hy_page_table *const *tables, uint32_t n, uint32_t *const *held,
                           hy_err *err)
{
    for (uint32_t g = 0; g < kv->n_group; g++)
        for (uint32_t i = 0; i < n; i++) HY_TRY(check_table(kv, tables[i], i, g, held[g], err));
    HY_TRY(hy_kv_check_cache(kv, held, err));
    for (uint32_t g = 0; g < kv->n_group; g++) HY_TRY(check_group(kv, g, held[g], err));
    return HY_OK;
}

hy_status hy_kv_check(const hy_kv *kv, const hy_page_table *const *tables, uint32_t n, hy_err *err)
{
    uint32_t *held[HY_KV_GROUPS_MAX] = { NULL };
    hy_status st = HY_OK;
    for (uint32_t g = 0; g < kv->n_group && st == HY_OK; g++) {
        held[g] = HY_NEW_ARRAY(uint32_t, kv->pool[g].g.n_page);
        if (!held[g]) st = hy_fail_memory(err, "kv check", kv->pool[g].g.n_page * sizeof **held);
    }
    if (st == HY_OK) st = check_all(kv, tables, n, held, err);
    for (uint32_t g = 0; g < kv->n_group; g++) hy_free(held[g]);
    return st;
}
