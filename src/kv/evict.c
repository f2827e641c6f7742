/* Which cached pages go when pages run out.
 *
 * Full groups: the least recently used leaf that no table holds. Where there is none, idle pages lie above
 * busy ones (a fork may hold a page whose beginning it knows by pages of its own): the oldest of them goes
 * with all below it, and the tables below keep their pages. Windowed groups: a node can do without its page,
 * so the least recently used page goes, wherever it is; what a long sequence has left behind is older than
 * what it still sees. So every idle page can be had. */
#include "kv/pool.h"

static bool is_windowed(const hy_kv *kv, uint32_t g)
{
    return kv->pool[g].g.window != 0;
}

void hy_kv_leaf_update(hy_kv *kv, uint32_t node)
{
    const hy_kv_node *n = &kv->cache.node[node];
    hy_kv_heap_set(kv, &kv->cache.leaf, node, n->used && n->n_busy == 0 && n->child == HY_KV_NO_NODE);
}

void hy_kv_page_busy(hy_kv *kv, uint32_t g, uint32_t page)
{
    uint32_t node = kv->pool[g].node[page];
    kv->pool[g].n_idle--;
    hy_kv_heap_set(kv, &kv->cache.old[g], node, false);
    kv->cache.node[node].n_busy++;
    hy_kv_leaf_update(kv, node);
}

void hy_kv_page_idle(hy_kv *kv, uint32_t g, uint32_t page, bool used)
{
    hy_kv_cache *c = &kv->cache;
    uint32_t node = kv->pool[g].node[page];
    kv->pool[g].n_idle++;
    if (used) {
        hy_kv_heap_touch(kv, &c->leaf, node, c->tick);
        hy_kv_heap_touch(kv, &c->old[g], node, c->tick);
    }
    hy_kv_heap_set(kv, &c->old[g], node, true);
    c->node[node].n_busy--;
    hy_kv_leaf_update(kv, node);
}

void hy_kv_attach(hy_kv *kv, uint32_t node, uint32_t g, uint32_t page)
{
    hy_kv_pool *p = &kv->pool[g];
    kv->cache.node[node].page[g] = page;
    p->node[page] = node;
    kv->cache.node[node].n_busy++; /* as if a table held it; undone at once where none does */
    hy_kv_leaf_update(kv, node);
    if (p->ref[page] == 1) hy_kv_page_idle(kv, g, page, true);
}

/* The node gives up its page of the group. */
static void detach(hy_kv *kv, uint32_t node, uint32_t g)
{
    hy_kv_pool *p = &kv->pool[g];
    hy_kv_node *n = &kv->cache.node[node];
    uint32_t page = n->page[g];
    if (page == HY_KV_NO_PAGE) return;
    if (p->ref[page] == 1) hy_kv_page_busy(kv, g, page); /* off the lists */
    n->n_busy--;
    n->page[g] = HY_KV_NO_PAGE;
    p->node[page] = HY_KV_NO_NODE;
    hy_kv_leaf_update(kv, node);
    hy_kv_drop(kv, g, page, false);
}

static void unlink_node(hy_kv *kv, uint32_t node)
{
    hy_kv_cache *c = &kv->cache;
    hy_kv_node *n = &c->node[node];
    uint32_t *at = &c->bucket[hy_kv_bucket_of(c, n->parent, n->tenant, n->ids)];
    while (*at != node) at = &c->node[*at].chain;
    *at = n->chain;
    if (n->next != HY_KV_NO_NODE) c->node[n->next].prev = n->prev;
    if (n->prev != HY_KV_NO_NODE) c->node[n->prev].next = n->next;
    else if (n->parent != HY_KV_NO_NODE) c->node[n->parent].child = n->next;
    n->used = false;
    hy_kv_leaf_update(kv, node);
    n->next = c->free;
    c->free = node;
    c->n_used--;
}

static void remove_one(hy_kv *kv, uint32_t node)
{
    hy_kv_cache *c = &kv->cache;
    uint32_t parent = c->node[node].parent;
    uint64_t tick = c->leaf.tick[node];
    for (uint32_t g = 0; g < kv->n_group; g++) detach(kv, node, g);
    unlink_node(kv, node);
    if (parent == HY_KV_NO_NODE) return;
    /* whoever used the child used the parent */
    if (c->leaf.tick[parent] < tick) hy_kv_heap_touch(kv, &c->leaf, parent, tick);
    hy_kv_leaf_update(kv, parent);
}

static bool is_empty(const hy_kv *kv, uint32_t node)
{
    const hy_kv_node *n = &kv->cache.node[node];
    if (n->child != HY_KV_NO_NODE || n->n_busy) return false;
    for (uint32_t g = 0; g < kv->n_group; g++)
        if (n->page[g] != HY_KV_NO_PAGE) return false;
    return true;
}

void hy_kv_node_prune(hy_kv *kv, uint32_t node)
{
    while (node != HY_KV_NO_NODE && is_empty(kv, node)) {
        uint32_t parent = kv->cache.node[node].parent;
        remove_one(kv, node);
        node = parent;
    }
}

void hy_kv_node_remove(hy_kv *kv, uint32_t node)
{
    uint32_t parent = kv->cache.node[node].parent;
    remove_one(kv, node);
    hy_kv_node_prune(kv, parent);
}

void hy_kv_forget(hy_kv *kv, uint32_t node)
{
    const hy_kv_node *n = kv->cache.node;
    uint32_t stop = n[node].parent;
    for (uint32_t at = node; at != stop;) {
        if (n[at].child != HY_KV_NO_NODE) {
            at = n[at].child;
            continue;
        }
        uint32_t parent = n[at].parent;
        remove_one(kv, at);
        at = parent;
    }
    hy_kv_node_prune(kv, stop);
}

bool hy_kv_evict(hy_kv *kv, uint32_t g, uint32_t n)
{
    hy_kv_cache *c = &kv->cache;
    uint32_t n_used = c->n_used;
    while (kv->pool[g].n_free < n && kv->pool[g].n_idle) {
        uint32_t oldest = c->old[g].node[0];
        if (is_windowed(kv, g)) {
            detach(kv, oldest, g);
            hy_kv_node_prune(kv, oldest);
        } else if (c->leaf.n) {
            hy_kv_node_remove(kv, c->leaf.node[0]);
        } else {
            hy_kv_forget(kv, oldest);
        }
    }
    c->evicted_tok += (uint64_t)(n_used - c->n_used) * HY_KV_PAGE_TOK;
    return kv->pool[g].n_free >= n;
}
