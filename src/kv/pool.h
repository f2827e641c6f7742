/* The pool's inside: for pool.c, table.c and check.c only. */
#ifndef HY_KV_POOL_H
#define HY_KV_POOL_H

#include "kv/kv.h"

typedef struct hy_kv_pool {
    hy_kv_group g;
    uint8_t *mem;              /* [n_page][page_bytes] */
    uint64_t mem_bytes;
    uint32_t *ref;             /* [n_page]: tables that hold the page; 0: free */
    uint32_t *free;            /* stack of free pages */
    uint32_t n_free;
} hy_kv_pool;

struct hy_kv {
    uint32_t n_group;
    hy_kv_pool pool[HY_KV_GROUPS_MAX];
};

HY_INLINE uint32_t hy_kv_pages_of(uint32_t n_tok)
{
    return n_tok / HY_KV_PAGE_TOK + (n_tok % HY_KV_PAGE_TOK != 0);
}

uint32_t hy_kv_take(hy_kv_pool *p);                /* a page with one reference; n_free > 0 */
void hy_kv_drop(hy_kv_pool *p, uint32_t page);     /* one reference less */

#endif
