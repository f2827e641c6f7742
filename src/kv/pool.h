/* The pool's inside: for the files of this room only.
 *
 * Who may hold a page: tables, and the cache (once). A page that the cache knows is *busy* while a table
 * holds it too, *idle* otherwise; idle pages are given away when pages run out. */
#ifndef HY_KV_POOL_H
#define HY_KV_POOL_H

#include "kv/kv.h"

#define HY_KV_NO_NODE UINT32_MAX

typedef struct hy_kv_pool {
    hy_kv_group g;
    uint8_t *mem;              /* [chunk][part][page of the chunk][part_bytes]: kv.h has the drawing */
    uint64_t mem_bytes;        /* n_page * page_bytes */
    uint64_t chunk_bytes;      /* of a whole one */
    uint32_t n_part;           /* of a page */
    uint32_t *ref;             /* [n_page]: tables, and the cache, that hold the page; 0: free */
    uint32_t *node;            /* [n_page]: the cache's node of the page, or HY_KV_NO_NODE */
    uint32_t *free;            /* stack of free pages */
    uint32_t n_free;
    uint32_t n_idle;
} hy_kv_pool;

/* 16 tokens under a parent. It has a page in every full group, and in windowed groups while it lasts. */
typedef struct hy_kv_node {
    uint64_t tenant;
    uint32_t parent, child;    /* child: first of the children */
    uint32_t next, prev;       /* children of the same parent; next: also the list of free nodes */
    uint32_t chain;            /* next node of the same bucket */
    uint32_t depth;            /* index of its page in a sequence */
    uint32_t page[HY_KV_GROUPS_MAX];
    uint32_t n_busy;           /* of its pages; and one while a put stands on it */
    bool used;
    int32_t ids[HY_KV_PAGE_TOK];
} hy_kv_node;

/* Nodes by last use, least recent first; of the same tick the least deep. */
typedef struct hy_kv_heap {
    uint32_t *node;            /* [n] */
    uint32_t *pos;             /* [n_node]: where a node is, or UINT32_MAX */
    uint64_t *tick;            /* [n_node]: last use */
    uint32_t n;
} hy_kv_heap;

typedef struct hy_kv_cache {
    uint32_t n_node, n_used;
    hy_kv_node *node;          /* [n_node] */
    uint32_t free;             /* first free node */
    uint32_t *bucket;          /* [mask + 1]: first node, by hash of parent, tenant, tokens */
    uint32_t mask;
    uint64_t salt;
    uint64_t tick;
    hy_kv_heap leaf;           /* nodes without children, none of whose pages is busy */
    hy_kv_heap old[HY_KV_GROUPS_MAX]; /* nodes whose page in the group is idle */
    uint64_t query_tok, hit_tok, evicted_tok;
} hy_kv_cache;

struct hy_kv {
    uint32_t n_group;
    bool all_windowed;         /* no group keeps every page */
    hy_kv_pool pool[HY_KV_GROUPS_MAX];
    hy_kv_cache cache;
    uint64_t n_cow;
};

HY_INLINE uint32_t hy_kv_pages_of(uint32_t n_tok)
{
    return n_tok / HY_KV_PAGE_TOK + (n_tok % HY_KV_PAGE_TOK != 0);
}

/* The first page that a query at position pos sees. */
HY_INLINE uint32_t hy_kv_first_seen(const hy_kv_group *g, uint32_t pos)
{
    return g->window && pos >= g->window ? (pos - g->window + 1) / HY_KV_PAGE_TOK : 0;
}

/* pool.c */
uint32_t hy_kv_grab(hy_kv_pool *p);                /* a page with one reference; n_free > 0 */
void hy_kv_hold(hy_kv *kv, uint32_t g, uint32_t page); /* a table more; the page is held already */
/* A table less; HY_KV_NO_PAGE does nothing. used: the page, if now idle, counts as just used. */
void hy_kv_drop(hy_kv *kv, uint32_t g, uint32_t page, bool used);
/* A page in one piece, [part][part_bytes], as files have it: out of the pool into `to`, or back. */
void hy_kv_gather(const hy_kv *kv, uint32_t g, uint32_t page, uint8_t *to);
void hy_kv_scatter(const hy_kv *kv, uint32_t g, uint32_t page, const uint8_t *from);
/* table.c: t (empty) gets fresh pages for n_tok tokens, in each group from page first[g] on. */
hy_status hy_kv_place(hy_kv *kv, hy_page_table *t, uint32_t n_tok, const uint32_t *first, hy_err *err);

/* heap.c */
hy_status hy_kv_heap_open(hy_kv_heap *h, uint32_t n_node, hy_err *err);
void hy_kv_heap_close(hy_kv_heap *h);
void hy_kv_heap_set(const hy_kv *kv, hy_kv_heap *h, uint32_t node, bool in); /* puts in or takes out */
void hy_kv_heap_touch(const hy_kv *kv, hy_kv_heap *h, uint32_t node, uint64_t tick);

/* evict.c */
void hy_kv_page_idle(hy_kv *kv, uint32_t g, uint32_t page, bool used);
void hy_kv_page_busy(hy_kv *kv, uint32_t g, uint32_t page);
void hy_kv_attach(hy_kv *kv, uint32_t node, uint32_t g, uint32_t page); /* the cache's reference is counted */
void hy_kv_leaf_update(hy_kv *kv, uint32_t node);
void hy_kv_node_remove(hy_kv *kv, uint32_t node);  /* a leaf; and parents that are left without page or child */
void hy_kv_node_prune(hy_kv *kv, uint32_t node);   /* the same where it has no page and no child */
void hy_kv_forget(hy_kv *kv, uint32_t node);       /* with all below it */
/* Makes n pages of the group free; false when there are not so many. */
bool hy_kv_evict(hy_kv *kv, uint32_t g, uint32_t n);

/* cache.c */
hy_status hy_kv_cache_open(hy_kv *kv, hy_err *err);
void hy_kv_cache_close(hy_kv *kv);
uint32_t hy_kv_bucket_of(const hy_kv_cache *c, uint32_t parent, uint64_t tenant, const int32_t *ids);
/* Pages of the longest usable beginning, at most n_page; *node: the last one's. */
uint32_t hy_kv_match(const hy_kv *kv, uint64_t tenant, const int32_t *ids, uint32_t n_page, uint32_t *node);

/* check_cache.c: adds the cache's references to held[g][page]. */
hy_status hy_kv_check_cache(const hy_kv *kv, uint32_t *const *held, hy_err *err);

#endif
