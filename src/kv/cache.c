/* Prefix cache: a tree of full pages.
 *
 *      root -- [16 tokens] -- [16 tokens] -- [16 tokens]      a sequence is a path
 *                         \-- [16 tokens]                     two that part after the first page
 *
 * Children are found by a hash of parent, tenant and tokens, and compared with all three. */
#include "kv/pool.h"
#include <string.h>

#define PAGE_IDS_BYTES (HY_KV_PAGE_TOK * sizeof(int32_t))

static void all_free(hy_kv_cache *c)
{
    for (uint32_t i = 0; i < c->n_node; i++) {
        c->node[i].used = false;
        c->node[i].next = i + 1 < c->n_node ? i + 1 : HY_KV_NO_NODE;
        c->leaf.pos[i] = UINT32_MAX;
    }
    c->free = 0;
    c->n_used = 0;
    memset(c->bucket, 0xff, ((size_t)c->mask + 1) * sizeof *c->bucket);
}

hy_status hy_kv_cache_open(hy_kv *kv, hy_err *err)
{
    hy_kv_cache *c = &kv->cache;
    uint64_t n = 0;
    kv->all_windowed = true;
    for (uint32_t g = 0; g < kv->n_group; g++) {
        n = HY_MAX(n, kv->pool[g].g.n_page);
        kv->all_windowed &= kv->pool[g].g.window != 0;
    }
    /* where every page slides out, nodes without one carry the way to those that have theirs */
    if (kv->all_windowed) n = HY_MIN(n * 4, UINT32_MAX / 4);
    c->n_node = (uint32_t)n;
    uint64_t n_bucket = 16;
    while (n_bucket < n) n_bucket *= 2;
    c->mask = (uint32_t)(n_bucket - 1);
    c->node = HY_NEW_ARRAY(hy_kv_node, c->n_node);
    c->bucket = hy_alloc_array((size_t)n_bucket, sizeof *c->bucket);
    if (!c->node || !c->bucket)
        return hy_fail_memory(err, "prefix cache", n * sizeof *c->node + n_bucket * sizeof *c->bucket);
    HY_TRY(hy_kv_heap_open(&c->leaf, c->n_node, err));
    for (uint32_t g = 0; g < kv->n_group; g++)
        HY_TRY(hy_kv_heap_open(&c->old[g], c->n_node, err));
    c->salt = hy_now_ns(); /* buckets cannot be guessed; their order decides nothing */
    all_free(c);
    return HY_OK;
}

void hy_kv_cache_close(hy_kv *kv)
{
    hy_kv_cache *c = &kv->cache;
    hy_free(c->node);
    hy_free(c->bucket);
    hy_kv_heap_close(&c->leaf);
    for (uint32_t g = 0; g < HY_KV_GROUPS_MAX; g++) hy_kv_heap_close(&c->old[g]);
}

uint32_t hy_kv_bucket_of(const hy_kv_cache *c, uint32_t parent, uint64_t tenant, const int32_t *ids)
{
    uint64_t key[2] = { tenant, parent };
    return (uint32_t)hy_hash64(ids, PAGE_IDS_BYTES, hy_hash64(key, sizeof key, c->salt)) & c->mask;
}

static uint32_t find(const hy_kv_cache *c, uint32_t parent, uint64_t tenant, const int32_t *ids)
{
    uint32_t i = c->bucket[hy_kv_bucket_of(c, parent, tenant, ids)];
    for (; i != HY_KV_NO_NODE; i = c->node[i].chain) {
        const hy_kv_node *n = &c->node[i];
        if (n->parent == parent && n->tenant == tenant && memcmp(n->ids, ids, PAGE_IDS_BYTES) == 0) break;
    }
    return i;
}

/* ---- a hit -------------------------------------------------------------------------------------- */

uint32_t hy_kv_match(const hy_kv *kv, uint64_t tenant, const int32_t *ids, uint32_t n_page, uint32_t *node)
{
    uint32_t best = 0, at = HY_KV_NO_NODE, run[HY_KV_GROUPS_MAX] = { 0 }; /* pages in a row up to here */
    *node = HY_KV_NO_NODE;
    for (uint32_t i = 0; i < n_page; i++) {
        at = find(&kv->cache, at, tenant, ids + (size_t)i * HY_KV_PAGE_TOK);
        if (at == HY_KV_NO_NODE) break;
        bool whole = true;
        for (uint32_t g = 0; g < kv->n_group; g++) {
            run[g] = kv->cache.node[at].page[g] == HY_KV_NO_PAGE ? 0 : run[g] + 1;
            whole &= run[g] >= i + 1 - hy_kv_first_seen(&kv->pool[g].g, (i + 1) * HY_KV_PAGE_TOK);
        }
        if (!whole) continue;
        best = i + 1;
        *node = at;
    }
    return best;
}

uint32_t hy_kv_cache_peek(const hy_kv *kv, uint64_t tenant, const int32_t *ids, uint32_t n)
{
    uint32_t node;
    return n ? hy_kv_match(kv, tenant, ids, (n - 1) / HY_KV_PAGE_TOK, &node) * HY_KV_PAGE_TOK : 0;
}

uint32_t hy_kv_cache_take(hy_kv *kv, hy_page_table *dst, uint64_t tenant, const int32_t *ids, uint32_t n)
{
    hy_kv_cache *c = &kv->cache;
    if (n == 0 || dst->n_tok) return 0;
    uint32_t node, n_page = hy_kv_match(kv, tenant, ids, HY_MIN((n - 1) / HY_KV_PAGE_TOK, dst->cap[0]), &node);
    c->query_tok += n;
    c->hit_tok += (uint64_t)n_page * HY_KV_PAGE_TOK;
    c->tick++;
    for (uint32_t g = 0; g < kv->n_group; g++) {
        dst->n_page[g] = n_page;
        dst->page_first[g] = hy_kv_first_seen(&kv->pool[g].g, n_page * HY_KV_PAGE_TOK);
    }
    dst->n_tok = n_page * HY_KV_PAGE_TOK;
    for (uint32_t i = n_page; i-- > 0; node = c->node[node].parent) {
        hy_kv_heap_touch(kv, &c->leaf, node, c->tick);
        for (uint32_t g = 0; g < kv->n_group; g++) {
            if (i < dst->page_first[g]) continue;
            uint32_t page = c->node[node].page[g];
            hy_kv_hold(kv, g, page);
            dst->page[g][i] = page;
            hy_kv_heap_touch(kv, &c->old[g], node, c->tick);
        }
    }
    return dst->n_tok;
}

/* ---- learning ----------------------------------------------------------------------------------- */

/* The node of t's page i, when the cache holds that very page. */
static uint32_t known(const hy_kv *kv, const hy_page_table *t, uint32_t i, uint64_t tenant, const int32_t *ids)
{
    for (uint32_t g = 0; g < kv->n_group; g++) {
        uint32_t page = t->page[g][i];
        if (page == HY_KV_NO_PAGE) continue;
        uint32_t node = kv->pool[g].node[page];
        if (node == HY_KV_NO_NODE) continue;
        const hy_kv_node *n = &kv->cache.node[node];
        if (n->depth == i && n->tenant == tenant && memcmp(n->ids, ids, PAGE_IDS_BYTES) == 0) return node;
    }
    return HY_KV_NO_NODE;
}

/* A node may be made of t's page i: it has what full groups need, and no other node holds it. */
static bool is_fresh(const hy_kv *kv, const hy_page_table *t, uint32_t i)
{
    for (uint32_t g = 0; g < kv->n_group; g++) {
        uint32_t page = t->page[g][i];
        if (page == HY_KV_NO_PAGE ? kv->pool[g].g.window == 0 : kv->pool[g].node[page] != HY_KV_NO_NODE)
            return false;
    }
    return true;
}

/* A free node; where there is none (only if all groups are windowed), the least recently used leaf's. */
static uint32_t fresh_node(hy_kv *kv)
{
    hy_kv_cache *c = &kv->cache;
    if (c->free == HY_KV_NO_NODE) {
        if (c->leaf.n == 0) return HY_KV_NO_NODE;
        uint32_t n_used = c->n_used;
        hy_kv_node_remove(kv, c->leaf.node[0]);
        c->evicted_tok += (uint64_t)(n_used - c->n_used) * HY_KV_PAGE_TOK;
    }
    uint32_t node = c->free;
    c->free = c->node[node].next;
    c->n_used++;
    return node;
}

static uint32_t add(hy_kv *kv, uint32_t parent, uint64_t tenant, const int32_t *ids, uint32_t depth)
{
    hy_kv_cache *c = &kv->cache;
    uint32_t i = fresh_node(kv);
    if (i == HY_KV_NO_NODE) return i;
    hy_kv_node *n = &c->node[i];
    *n = (hy_kv_node){ .tenant = tenant, .parent = parent, .child = HY_KV_NO_NODE, .next = HY_KV_NO_NODE,
                       .prev = HY_KV_NO_NODE, .depth = depth, .used = true };
    memcpy(n->ids, ids, PAGE_IDS_BYTES);
    for (uint32_t g = 0; g < HY_KV_GROUPS_MAX; g++) n->page[g] = HY_KV_NO_PAGE;
    uint32_t *head = &c->bucket[hy_kv_bucket_of(c, parent, tenant, ids)];
    n->chain = *head;
    *head = i;
    if (parent != HY_KV_NO_NODE) {
        n->next = c->node[parent].child;
        if (n->next != HY_KV_NO_NODE) c->node[n->next].prev = i;
        c->node[parent].child = i;
        hy_kv_leaf_update(kv, parent);
    }
    return i;
}

/* Node and t's page i are of the same tokens. Where both have a page t goes on with the node's (the bits
 * are the same, see DESIGN.md section 2), so that live sequences share it. */
static void adopt(hy_kv *kv, uint32_t node, hy_page_table *t, uint32_t i)
{
    hy_kv_cache *c = &kv->cache;
    for (uint32_t g = 0; g < kv->n_group; g++) {
        uint32_t page = t->page[g][i], have = c->node[node].page[g];
        if (page == HY_KV_NO_PAGE || page == have) continue;
        if (have != HY_KV_NO_PAGE) {
            hy_kv_hold(kv, g, have);
            hy_kv_drop(kv, g, page, false);
            t->page[g][i] = have;
        } else if (kv->pool[g].node[page] == HY_KV_NO_NODE) {
            kv->pool[g].ref[page]++;
            hy_kv_attach(kv, node, g, page);
        }
        hy_kv_heap_touch(kv, &c->old[g], node, c->tick);
    }
}

/* While a put stands on a node it must not go. */
static void stand(hy_kv *kv, uint32_t node, bool on)
{
    if (node == HY_KV_NO_NODE) return;
    kv->cache.node[node].n_busy += on ? 1 : -1u;
    hy_kv_leaf_update(kv, node);
}

void hy_kv_cache_put(hy_kv *kv, hy_page_table *t, uint64_t tenant, const int32_t *ids, uint32_t n)
{
    hy_kv_cache *c = &kv->cache;
    uint32_t n_page = HY_MIN(n, t->n_tok) / HY_KV_PAGE_TOK, i = n_page, at = HY_KV_NO_NODE;
    for (; i > 0; i--) {
        at = known(kv, t, i - 1, tenant, ids + (size_t)(i - 1) * HY_KV_PAGE_TOK);
        if (at != HY_KV_NO_NODE) break;
    }
    if (i == n_page) return;
    c->tick++;
    stand(kv, at, true);
    for (; i < n_page; i++) {
        const int32_t *page_ids = ids + (size_t)i * HY_KV_PAGE_TOK;
        uint32_t next = find(c, at, tenant, page_ids);
        if (next == HY_KV_NO_NODE && is_fresh(kv, t, i)) next = add(kv, at, tenant, page_ids, i);
        if (next == HY_KV_NO_NODE) break;
        stand(kv, next, true);
        hy_kv_heap_touch(kv, &c->leaf, next, c->tick);
        adopt(kv, next, t, i);
        stand(kv, at, false);
        at = next;
    }
    stand(kv, at, false);
    hy_kv_node_prune(kv, at);
}

void hy_kv_cache_clear(hy_kv *kv)
{
    for (uint32_t i = 0; i < kv->cache.n_node; i++)
        if (kv->cache.node[i].used && kv->cache.node[i].parent == HY_KV_NO_NODE) hy_kv_forget(kv, i);
}

void hy_kv_cache_stats_of(const hy_kv *kv, hy_kv_cache_stats *out)
{
    const hy_kv_cache *c = &kv->cache;
    *out = (hy_kv_cache_stats){ .query_tok = c->query_tok, .hit_tok = c->hit_tok, .evicted_tok = c->evicted_tok,
                                .n_cow = kv->n_cow, .n_node = c->n_used, .n_idle = kv->pool[0].n_idle };
}
