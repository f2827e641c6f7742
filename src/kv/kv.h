/* kv: page pool, page tables, integrity check. May include base.
 *
 * A page holds HY_KV_PAGE_TOK (16) tokens. Layers with the same window form a *group*; a page of a group
 * holds these tokens for all layers and KV heads of the group, [layer in group][kv head][K | V]. A
 * sequence has one page table per group; windowed groups give pages back as they slide out. The
 * pool's memory is one region a group; pages are counted by reference and never written while shared.
 * Owner: engine thread. Workers read page pointers through hy_kv_page. */
#ifndef HY_KV_H
#define HY_KV_H

#include "base/base.h"

#define HY_KV_PAGE_TOK 16
#define HY_KV_GROUPS_MAX 4
#define HY_KV_NO_PAGE UINT32_MAX

typedef struct hy_kv_group {
    uint32_t window;           /* 0: full */
    uint32_t n_layer;
    uint64_t page_bytes;       /* of a page of this group: all layers, all heads */
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
/* dst (empty) shares src's pages for its first n_tok tokens. */
hy_status hy_kv_fork(hy_kv *kv, hy_page_table *dst, const hy_page_table *src, uint32_t n_tok, hy_err *err);

uint8_t *hy_kv_page(const hy_kv *kv, uint32_t group, uint32_t page); /* start of a page's memory */
uint32_t hy_kv_free_pages(const hy_kv *kv, uint32_t group);
const hy_kv_group *hy_kv_group_of(const hy_kv *kv, uint32_t group);
uint32_t hy_kv_n_group(const hy_kv *kv);
/* Pages that n_tok tokens of a fresh sequence need in the group. */
uint32_t hy_kv_need(const hy_kv *kv, uint32_t group, uint32_t n_tok);
/* Reference counts, free list and the given tables agree; the message names the page. For tests and
 * debug builds. */
hy_status hy_kv_check(const hy_kv *kv, const hy_page_table *const *tables, uint32_t n, hy_err *err);

#endif
