/* kv: page pool, page tables, prefix cache, swap file, saved conversations, integrity check. May include base.
 *
 * A page holds HY_KV_PAGE_TOK (16) tokens. Layers with the same window form a *group*; a page of a group
 * holds these tokens for all layers and KV heads of the group: a *part* for each, [layer in group][KV head], of K
 * and then V, part_bytes long. A sequence has one page table per group; windowed groups give pages back as they
 * slide out. Pages are counted by reference and never written while shared.
 *
 * A page is not one piece of memory. Attention reads one part of page after page, and a sequence's pages mostly have
 * ids in a row; so the pool, one region a group, is chunks of HY_KV_CHUNK (16) pages in which the same part of all
 * of them lies side by side: [page / 16][part][page % 16].
 *
 *      chunk 0                                                          chunk 1
 *      | part 0                | part 1                | ... | last part | part 0
 *      | page 0 | 1 | ... | 15 | page 0 | 1 | ... | 15 |     |           | page 16 | 17 | ...
 *
 * (Parts that lay a whole page apart cost TLB misses and rows of DRAM: docs/performance.md, "Decoding in long contexts".)
 * The last chunk has as many pages as are left, so the region is n_page * page_bytes long.
 * Owner: engine thread. Workers find keys and values through hy_kv_part. */
#ifndef HY_KV_H
#define HY_KV_H

#include "base/base.h"

#define HY_KV_PAGE_TOK 16
#define HY_KV_CHUNK 16         /* pages whose parts lie side by side; a power of two */
#define HY_KV_GROUPS_MAX 4
#define HY_KV_NO_PAGE UINT32_MAX

typedef struct hy_kv_group {
    uint32_t window;           /* 0: full */
    uint32_t n_layer;
    uint64_t page_bytes;       /* of a page of this group: all layers, all heads; whole parts */
    uint64_t part_bytes;       /* of a layer's KV head in it: K, then V */
    uint32_t n_page;           /* in the pool */
} hy_kv_group;

typedef struct hy_kv hy_kv;

/* One sequence's pages. page[g][i] covers tokens [16 i, 16 i + 16); HY_KV_NO_PAGE where it slid out. */
typedef struct hy_page_table {
    uint32_t *page[HY_KV_GROUPS_MAX];
    uint32_t n_page[HY_KV_GROUPS_MAX], cap[HY_KV_GROUPS_MAX];
    uint32_t page_first[HY_KV_GROUPS_MAX]; /* pages before it have slid out */
    uint32_t n_tok;            /* tokens with room reserved */
} hy_page_table;

hy_status hy_kv_open(hy_kv **out, const hy_kv_group *group, uint32_t n_group, hy_err *err);
void hy_kv_close(hy_kv *kv);                       /* accepts NULL */

/* cap: the longest sequence in tokens; memory for the table is taken once here. */
hy_status hy_page_table_init(const hy_kv *kv, hy_page_table *t, uint32_t cap_tok, hy_err *err);
void hy_page_table_free(hy_kv *kv, hy_page_table *t); /* releases its pages too */

/* Room for tokens up to n_tok in all groups, or HY_E_LIMIT with nothing changed (err may be NULL). A
 * shared last page that would be written is copied first (copy-on-write). */
hy_status hy_kv_reserve(hy_kv *kv, hy_page_table *t, uint32_t n_tok, hy_err *err);
/* Forget tokens from n_tok on (rejected drafts, restart); pages not needed any more go back. */
void hy_kv_truncate(hy_kv *kv, hy_page_table *t, uint32_t n_tok);
/* Windowed groups: pages wholly before `pos - window` go back. */
void hy_kv_slide(hy_kv *kv, hy_page_table *t, uint32_t pos);
/* dst (empty) shares src's pages for its first n_tok tokens. Whoever reserves more from there on copies the last
 * page first; so src must have computed all tokens that it has reserved. */
hy_status hy_kv_fork(hy_kv *kv, hy_page_table *dst, const hy_page_table *src, uint32_t n_tok, hy_err *err);

/* ---- prefix cache ------------------------------------------------------------------------------
 *
 *  A tree of full pages: a node is 16 tokens under a parent node, of one tenant; children are found by hash
 *  and compared token by token. The cache holds a reference to each page it knows, so a page whose count is 1
 *  and is in the cache serves nobody now: those go first when pages run out, least recently used leaf first
 *  (inside hy_kv_reserve and hy_kv_fork). All nodes are allocated at opening: one per page.
 *  Windowed groups: a node may lack their pages (they slid out); a hit of n tokens counts only when every page
 *  that a query at position n can see is there. */

/* dst (empty) takes the cached pages of the longest known beginning of ids[0, n); returns its tokens: a
 * multiple of 16, less than n (the last token is always computed, for its logits). */
uint32_t hy_kv_cache_take(hy_kv *kv, hy_page_table *dst, uint64_t tenant, const int32_t *ids, uint32_t n);
/* Tokens that hy_kv_cache_take would give, changing nothing. */
uint32_t hy_kv_cache_peek(const hy_kv *kv, uint64_t tenant, const int32_t *ids, uint32_t n);
/* The full pages among the first n tokens of t, whose tokens are ids, become known; all n must be computed.
 * Where the cache knows a page of the same tokens already, t goes on with that one and gives its own back.
 * Cheap when all is known: call it whenever a page fills, before hy_kv_slide. */
void hy_kv_cache_put(hy_kv *kv, hy_page_table *t, uint64_t tenant, const int32_t *ids, uint32_t n);
void hy_kv_cache_clear(hy_kv *kv);

typedef struct hy_kv_cache_stats {
    uint64_t query_tok, hit_tok, evicted_tok, n_cow;
    uint32_t n_node;           /* pages known */
    uint32_t n_idle;           /* of group 0: held by the cache alone */
} hy_kv_cache_stats;
void hy_kv_cache_stats_of(const hy_kv *kv, hy_kv_cache_stats *out);
/* Pages that hy_kv_reserve could give in the group: free, or idle in the cache. */
uint32_t hy_kv_available(const hy_kv *kv, uint32_t group);
/* How many tables (and the cache) hold the page. */
uint32_t hy_kv_refs(const hy_kv *kv, uint32_t group, uint32_t page);
/* 0 free, 1 one table, 2 several tables, 3 the cache alone. */
uint8_t hy_kv_page_state(const hy_kv *kv, uint32_t group, uint32_t page);

/* ---- swap ---------------------------------------------------------------------------------------- */

/* One file for the pages of paused sequences: opened at path, unlinked at once, at most max_bytes; zstd. */
typedef struct hy_kv_swap hy_kv_swap;
hy_status hy_kv_swap_open(hy_kv_swap **out, const hy_kv *kv, const char *path, uint64_t max_bytes, hy_err *err);
void hy_kv_swap_close(hy_kv_swap *s);              /* accepts NULL */
/* Writes t's pages (n_tok tokens) and releases them; *ticket names them. HY_E_LIMIT or HY_E_IO: nothing
 * changed. */
hy_status hy_kv_swap_out(hy_kv_swap *s, hy_kv *kv, hy_page_table *t, uint32_t n_tok, uint32_t *ticket, hy_err *err);
/* Fills t (empty) again and forgets the ticket. HY_E_LIMIT: no pages now, the ticket stays. Every page has a
 * checksum; a wrong one gives HY_E_IO and forgets it (the caller computes again). */
hy_status hy_kv_swap_in(hy_kv_swap *s, hy_kv *kv, hy_page_table *t, uint32_t ticket, hy_err *err);
void hy_kv_swap_drop(hy_kv_swap *s, uint32_t ticket); /* accepts NULL, and tickets that are gone */
typedef struct hy_kv_swap_stats {
    uint64_t out_bytes, in_bytes; /* of pages, since opening */
    uint64_t used_bytes;       /* of the file, now */
} hy_kv_swap_stats;
void hy_kv_swap_stats_of(const hy_kv_swap *s, hy_kv_swap_stats *out);

/* ---- files --------------------------------------------------------------------------------------- */

/* The cached pages of ids[0, n) in a file: magic, version, `identity` (hash of model, KV type, layout), the
 * tokens, pages (zstd), checksums. *n_saved: tokens covered. Under a temporary name, renamed when whole. */
hy_status hy_kv_save(hy_kv *kv, const char *path, uint64_t identity, uint64_t tenant, const int32_t *ids, uint32_t n,
                     uint32_t *n_saved, hy_err *err);
/* n_vocab: tokens are checked against it. */
hy_status hy_kv_load(hy_kv *kv, const char *path, uint64_t identity, uint64_t tenant, uint32_t n_vocab,
                     uint32_t *n_loaded, hy_err *err);

/* Where a part of a page lies: part_bytes bytes, K `[d_k][16]` and then V `[16][d_v]`, in the form of the KV type.
 * i_part: [layer in group][KV head], less than page_bytes / part_bytes. Nothing behind them is the page's.
 * Owner:  the pool keeps the memory; the page is held by who asks, and written only while nobody else holds it.
 * Thread: any, while a step runs. Two multiplications: once for each page of a tile is cheap. */
uint8_t *hy_kv_part(const hy_kv *kv, uint32_t group, uint32_t page, uint32_t i_part);
/* The group's whole region, for whoever asks how much of it is in memory. */
const void *hy_kv_region(const hy_kv *kv, uint32_t group, uint64_t *n_bytes);
uint32_t hy_kv_free_pages(const hy_kv *kv, uint32_t group);
const hy_kv_group *hy_kv_group_of(const hy_kv *kv, uint32_t group);
uint32_t hy_kv_n_group(const hy_kv *kv);
uint64_t hy_kv_table_bytes(const hy_kv *kv);       /* beside the pages: counts, the cache's tree */
/* Pages that n_tok tokens of a fresh sequence need in the group. */
uint32_t hy_kv_need(const hy_kv *kv, uint32_t group, uint32_t n_tok);
/* Reference counts, free list and the given tables agree; the message names the page. For tests and
 * debug builds. */
hy_status hy_kv_check(const hy_kv *kv, const hy_page_table *const *tables, uint32_t n, hy_err *err);

#endif
