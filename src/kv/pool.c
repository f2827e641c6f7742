/* The page pool: one region a group, reference counts, a stack of free pages. */
#include "kv/pool.h"
#include <inttypes.h>
#include <string.h>

_Static_assert((HY_KV_CHUNK & (HY_KV_CHUNK - 1)) == 0, "a page's place in its chunk is some bits of its id");

static hy_status check_group(const hy_kv_group *g, uint32_t i, hy_err *err)
{
    if (g->page_bytes == 0 || g->n_page == 0 || g->n_page >= HY_KV_NO_PAGE)
        return hy_fail(err, HY_E_ARG, "kv group %u: %u pages of %" PRIu64 " bytes", i, g->n_page,
                       g->page_bytes);
    if (g->part_bytes == 0 || g->page_bytes % g->part_bytes || g->page_bytes / g->part_bytes > UINT32_MAX)
        return hy_fail(err, HY_E_ARG, "kv group %u: a page of %" PRIu64 " bytes in parts of %" PRIu64
                       "; 1 to %u whole parts are possible", i, g->page_bytes, g->part_bytes, UINT32_MAX);
    return HY_OK;
}

static hy_status open_pool(hy_kv_pool *p, const hy_kv_group *g, uint32_t i, hy_err *err)
{
    HY_TRY(check_group(g, i, err));
    uint64_t bytes;
    if (!hy_mul_u64(g->page_bytes, HY_KV_CHUNK, &p->chunk_bytes) || !hy_mul_u64(g->page_bytes, g->n_page, &bytes) ||
        bytes > SIZE_MAX)
        return hy_fail(err, HY_E_LIMIT, "kv group %u: %u pages of %" PRIu64 " bytes overflow", i,
                       g->n_page, g->page_bytes);
    p->g = *g;
    p->n_part = (uint32_t)(g->page_bytes / g->part_bytes);
    p->ref = HY_NEW_ARRAY(uint32_t, g->n_page);
    p->node = hy_alloc_array(g->n_page, sizeof(uint32_t));
    p->free = hy_alloc_array(g->n_page, sizeof(uint32_t));
    p->mem = hy_alloc_big((size_t)bytes);
    p->mem_bytes = bytes;
    if (!p->ref || !p->node || !p->free || !p->mem) return hy_fail_memory(err, "kv pages", bytes);
    /* low pages are taken first */
    for (uint32_t k = 0; k < g->n_page; k++) {
        p->free[k] = g->n_page - 1 - k;
        p->node[k] = HY_KV_NO_NODE;
    }
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
    hy_status st = HY_OK;
    for (uint32_t i = 0; i < n_group && st == HY_OK; i++) {
        kv->n_group = i + 1;
        st = open_pool(&kv->pool[i], &group[i], i, err);
    }
    if (st == HY_OK) st = hy_kv_cache_open(kv, err);
    if (st != HY_OK) {
        hy_kv_close(kv);
        return st;
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
        hy_free(p->node);
        hy_free(p->free);
        if (p->mem) hy_free_big(p->mem, (size_t)p->mem_bytes);
    }
    hy_kv_cache_close(kv);
    hy_free(kv);
}

uint32_t hy_kv_grab(hy_kv_pool *p)
{
    uint32_t page = p->free[--p->n_free];
    p->ref[page] = 1;
    return page;
}

void hy_kv_hold(hy_kv *kv, uint32_t g, uint32_t page)
{
    hy_kv_pool *p = &kv->pool[g];
    if (++p->ref[page] == 2 && p->node[page] != HY_KV_NO_NODE) hy_kv_page_busy(kv, g, page);
}

void hy_kv_drop(hy_kv *kv, uint32_t g, uint32_t page, bool used)
{
    hy_kv_pool *p = &kv->pool[g];
    if (page == HY_KV_NO_PAGE) return;
    if (--p->ref[page] == 0) p->free[p->n_free++] = page;
    else if (p->ref[page] == 1 && p->node[page] != HY_KV_NO_NODE) hy_kv_page_idle(kv, g, page, used);
}

uint8_t *hy_kv_part(const hy_kv *kv, uint32_t group, uint32_t page, uint32_t i_part)
{
    const hy_kv_pool *p = &kv->pool[group];
    uint32_t chunk = page / HY_KV_CHUNK;
    uint32_t width = chunk < p->g.n_page / HY_KV_CHUNK ? HY_KV_CHUNK : p->g.n_page % HY_KV_CHUNK; /* pages of it */
    return p->mem + chunk * p->chunk_bytes + ((uint64_t)i_part * width + page % HY_KV_CHUNK) * p->g.part_bytes;
}

const void *hy_kv_region(const hy_kv *kv, uint32_t group, uint64_t *n_bytes)
{
    *n_bytes = kv->pool[group].mem_bytes;
    return kv->pool[group].mem;
}

void hy_kv_gather(const hy_kv *kv, uint32_t g, uint32_t page, uint8_t *to)
{
    size_t n = (size_t)kv->pool[g].g.part_bytes;
    for (uint32_t i = 0; i < kv->pool[g].n_part; i++) memcpy(to + i * n, hy_kv_part(kv, g, page, i), n);
}

void hy_kv_scatter(const hy_kv *kv, uint32_t g, uint32_t page, const uint8_t *from)
{
    size_t n = (size_t)kv->pool[g].g.part_bytes;
    for (uint32_t i = 0; i < kv->pool[g].n_part; i++) memcpy(hy_kv_part(kv, g, page, i), from + i * n, n);
}

uint32_t hy_kv_free_pages(const hy_kv *kv, uint32_t group)
{
    return kv->pool[group].n_free;
}

uint32_t hy_kv_available(const hy_kv *kv, uint32_t group)
{
    return kv->pool[group].n_free + kv->pool[group].n_idle;
}

uint32_t hy_kv_refs(const hy_kv *kv, uint32_t group, uint32_t page)
{
    return kv->pool[group].ref[page];
}

uint8_t hy_kv_page_state(const hy_kv *kv, uint32_t group, uint32_t page)
{
    const hy_kv_pool *p = &kv->pool[group];
    uint32_t ref = p->ref[page];
    if (ref == 0) return 0;
    uint32_t n_table = ref - (p->node[page] != HY_KV_NO_NODE);
    return n_table == 0 ? 3 : n_table == 1 ? 1 : 2;
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

uint64_t hy_kv_table_bytes(const hy_kv *kv)
{
    uint64_t sum = sizeof *kv, heap = 2 * sizeof(uint32_t) + sizeof(uint64_t);
    for (uint32_t i = 0; i < kv->n_group; i++) sum += 3ull * sizeof(uint32_t) * kv->pool[i].g.n_page;
    return sum + kv->cache.n_node * (sizeof(hy_kv_node) + (1 + kv->n_group) * heap) +
           (kv->cache.mask + 1ull) * sizeof *kv->cache.bucket;
}
