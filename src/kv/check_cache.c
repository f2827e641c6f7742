/* Integrity of the prefix cache: nodes, tree, buckets, heaps, and what is idle. */
#include "kv/pool.h"
#include <inttypes.h>

static hy_status check_heap(const hy_kv *kv, const hy_kv_heap *h, const char *name, hy_err *err)
{
    uint32_t n_in = 0;
    for (uint32_t i = 0; i < kv->cache.n_node; i++) n_in += h->pos[i] != UINT32_MAX;
    if (n_in != h->n)
        return hy_fail(err, HY_E_INTERNAL, "cache, heap %s: %u nodes in it, it holds %u", name, n_in, h->n);
    for (uint32_t i = 0; i < h->n; i++) {
        uint32_t node = h->node[i];
        if (node >= kv->cache.n_node || h->pos[node] != i)
            return hy_fail(err, HY_E_INTERNAL, "cache, heap %s: place %u holds node %u", name, i, node);
        if (i && h->tick[h->node[(i - 1) / 2]] > h->tick[node])
            return hy_fail(err, HY_E_INTERNAL, "cache, heap %s: node %u (tick %" PRIu64 ") under a later one", name,
                           node, h->tick[node]);
    }
    return HY_OK;
}

/* Pages of node i: held, mapped back, idle or busy. */
static hy_status check_pages(const hy_kv *kv, uint32_t i, uint32_t *const *held, uint32_t *n_idle, hy_err *err)
{
    const hy_kv_node *n = &kv->cache.node[i];
    uint32_t n_busy = 0, n_page = 0;
    for (uint32_t g = 0; g < kv->n_group; g++) {
        const hy_kv_pool *p = &kv->pool[g];
        uint32_t page = n->page[g];
        bool has = page != HY_KV_NO_PAGE;
        if (has ? page >= p->g.n_page || p->node[page] != i : p->g.window == 0)
            return hy_fail(err, HY_E_INTERNAL, "cache node %u, group %u: page %u", i, g, page);
        bool idle = has && p->ref[page] == 1;
        if ((kv->cache.old[g].pos[i] != UINT32_MAX) != idle)
            return hy_fail(err, HY_E_INTERNAL, "cache node %u, group %u: page %u and its list", i, g, page);
        if (!has) continue;
        held[g][page]++;
        n_idle[g] += idle;
        n_busy += !idle;
        n_page++;
    }
    if (n_busy != n->n_busy)
        return hy_fail(err, HY_E_INTERNAL, "cache node %u: %u busy pages, it says %u", i, n_busy, n->n_busy);
    if ((kv->cache.leaf.pos[i] != UINT32_MAX) != (n_busy == 0 && n->child == HY_KV_NO_NODE))
        return hy_fail(err, HY_E_INTERNAL, "cache node %u: leaf list", i);
    if (n_page == 0 && n->child == HY_KV_NO_NODE)
        return hy_fail(err, HY_E_INTERNAL, "cache node %u: no page and no child", i);
    return HY_OK;
}

/* Node i among its parent's children and in its bucket, once each. */
static hy_status check_links(const hy_kv *kv, uint32_t i, hy_err *err)
{
    const hy_kv_cache *c = &kv->cache;
    const hy_kv_node *n = &c->node[i];
    uint32_t seen = 0;
    for (uint32_t k = c->bucket[hy_kv_bucket_of(c, n->parent, n->tenant, n->ids)]; k != HY_KV_NO_NODE;
         k = c->node[k].chain)
        seen += k == i;
    if (seen != 1) return hy_fail(err, HY_E_INTERNAL, "cache node %u: %u times in its bucket", i, seen);
    if (n->parent == HY_KV_NO_NODE)
        return n->depth == 0 ? HY_OK : hy_fail(err, HY_E_INTERNAL, "cache node %u: depth %u, no parent", i, n->depth);
    const hy_kv_node *up = &c->node[n->parent];
    if (!up->used || up->depth + 1 != n->depth || up->tenant != n->tenant)
        return hy_fail(err, HY_E_INTERNAL, "cache node %u: not a child of node %u", i, n->parent);
    seen = 0;
    uint32_t prev = HY_KV_NO_NODE;
    for (uint32_t k = up->child; k != HY_KV_NO_NODE; prev = k, k = c->node[k].next) {
        if (c->node[k].prev != prev) return hy_fail(err, HY_E_INTERNAL, "cache node %u: prev", k);
        seen += k == i;
    }
    return seen == 1 ? HY_OK : hy_fail(err, HY_E_INTERNAL, "cache node %u: %u times a child", i, seen);
}

hy_status hy_kv_check_cache(const hy_kv *kv, uint32_t *const *held, hy_err *err)
{
    const hy_kv_cache *c = &kv->cache;
    uint32_t n_used = 0, n_free = 0, n_idle[HY_KV_GROUPS_MAX] = { 0 };
    for (uint32_t i = 0; i < c->n_node; i++) {
        if (!c->node[i].used) continue;
        n_used++;
        HY_TRY(check_pages(kv, i, held, n_idle, err));
        HY_TRY(check_links(kv, i, err));
    }
    for (uint32_t i = c->free; i != HY_KV_NO_NODE && n_free <= c->n_node; i = c->node[i].next) n_free++;
    if (n_used != c->n_used || n_used + n_free != c->n_node)
        return hy_fail(err, HY_E_INTERNAL, "cache: %u nodes used (it says %u) and %u free of %u", n_used, c->n_used,
                       n_free, c->n_node);
    HY_TRY(check_heap(kv, &c->leaf, "leaf", err));
    for (uint32_t g = 0; g < kv->n_group; g++) {
        HY_TRY(check_heap(kv, &c->old[g], "idle", err));
        if (n_idle[g] != kv->pool[g].n_idle)
            return hy_fail(err, HY_E_INTERNAL, "cache, group %u: %u idle pages, it says %u", g, n_idle[g],
                           kv->pool[g].n_idle);
        for (uint32_t i = 0; i < kv->pool[g].g.n_page; i++) {
            uint32_t node = kv->pool[g].node[i];
            if (node != HY_KV_NO_NODE && (node >= c->n_node || !c->node[node].used || c->node[node].page[g] != i))
                return hy_fail(err, HY_E_INTERNAL, "group %u, page %u: node %u does not hold it", g, i, node);
        }
    }
    return HY_OK;
}
