/* The page pool: one region a group, reference counts, a stack of free pages. */
#include "kv/pool.h"
#include <inttypes.h>

static hy_status open_pool(hy_kv_pool *p, const hy_kv_group *g, uint32_t i, hy_err *err)
{
    if (g->page_bytes == 0 || g->n_page == 0 || g->n_page >= HY_KV_NO_PAGE)
        return hy_fail(err, HY_E_ARG, "kv group %u: %u pages of %" PRIu64 " bytes", i, g->n_page,
                       g->page_bytes);
    uint64_t bytes;
    if (!hy_mul_u64(g->page_bytes, g->n_page, &bytes) || bytes > SIZE_MAX)
        return hy_fail(err, HY_E_LIMIT, "kv group %u: %u pages of %" PRIu64 " bytes overflow", i,
                       g->n_page, g->page_bytes);
    p->g = *g;
    p->ref = HY_NEW_ARRAY(uint32_t, g->n_page);
    p->free = hy_alloc_array(g->n_page, sizeof(uint32_t));
    p->mem = hy_alloc_big((size_t)bytes);
    p->mem_bytes = bytes;
    if (!p->ref || !p->free || !p->mem) return hy_fail_memory(err, "kv pages", bytes);
    /* low pages are taken first */
    for (uint32_t k = 0; k < g->n_page; k++) p->free[k] = g->n_page - 1 - k;
    p->n_free = g->n_page;
    return HY_OK;
}

hy_status hy_kv_open(hy_kv **out, const hy_kv_group *group, uint32_t n_group, hy_err *err)
{
    if (n_group == 0 || n_group > HY_KV_GROUPS_MAX)
        return hy_fail(err, HY_E_ARG, "kv: %u groups; 1 to %u are possible", n_group,
                       HY_KV_GROUPS_MAX);
    hy_kv *kv = HY_NEW(hy_kv);
    if (!kv) return hy_fail_memory(err, "kv pool", sizeof *kv);
    for (uint32_t i = 0; i < n_group; i++) {
        kv->n_group = i + 1;
        hy_status st = open_pool(&kv->pool[i], &group[i], i, err);
        if (st != HY_OK) {
            hy_kv_close(kv);
            return st;
        }
    }
    *out = kv;
    return HY_OK;
}

void hy_kv_close(hy_kv *kv)
{
    if (!kv) return;
    for (uint32_t i = 0; i < kv->n_group; i++) {
        hy_kv_pool *p = &kv->pool[i];
        hy_free(p->ref);
        hy_free(p->free);
        if (p->mem) hy_free_big(p->mem, (size_t)p->mem_bytes);
    }
    hy_free(kv);
}

uint32_t hy_kv_take(hy_kv_pool *p)
{
    uint32_t page = p->free[--p->n_free];
    p->ref[page] = 1;
    return page;
}

void hy_kv_drop(hy_kv_pool *p, uint32_t page)
{
    if (page != HY_KV_NO_PAGE && --p->ref[page] == 0) p->free[p->n_free++] = page;
}

uint8_t *hy_kv_page(const hy_kv *kv, uint32_t group, uint32_t page)
{
    const hy_kv_pool *p = &kv->pool[group];
    return p->mem + p->g.page_bytes * page;
}

uint32_t hy_kv_free_pages(const hy_kv *kv, uint32_t group)
{
    return kv->pool[group].n_free;
}

const hy_kv_group *hy_kv_group_of(const hy_kv *kv, uint32_t group)
{
    return &kv->pool[group].g;
}

uint32_t hy_kv_n_group(const hy_kv *kv)
{
    return kv->n_group;
}

uint32_t hy_kv_need(const hy_kv *kv, uint32_t group, uint32_t n_tok)
{
    (void)kv;
    (void)group; /* a fresh sequence holds all its pages until it slides */
    return hy_kv_pages_of(n_tok);
}
