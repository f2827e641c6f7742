/* Where things lie in a page of keys or values; shared by the writers and all attention kernels. */
#ifndef HY_KERN_KV_LAYOUT_H
#define HY_KERN_KV_LAYOUT_H

#include "kern/kern.h"

#define HY_KV_GROUP 32 /* elements of d that share a Q4 scale */

/* Bytes of the codes of one token's n elements; the scales follow all 16 tokens' codes. */
HY_INLINE uint64_t hy_kv_code_bytes(hy_kv_type t, uint32_t n)
{
    switch (t) {
    case HY_KV_F32:
        return (uint64_t)n * 4;
    case HY_KV_Q8:
        return n;
    case HY_KV_Q4:
        return n / 2;
    default:
        return (uint64_t)n * 2;
    }
}

HY_INLINE const float *hy_kv_scales(hy_kv_type t, const uint8_t *page, uint32_t n)
{
    return (const float *)(const void *)(page + hy_kv_code_bytes(t, n) * HY_PAGE_TOK);
}

/* The keys of the tile that count for query row i: [*lo, *hi), relative to pos0; lo >= hi: none. */
HY_INLINE void hy_att_range(const hy_att *a, uint32_t i, uint32_t *lo, uint32_t *hi)
{
    int64_t last = (int64_t)a->q_pos[i] - a->pos0 + 1;
    int64_t first = a->window ? last - (int64_t)a->window : 0;
    *lo = first > 0 ? (uint32_t)HY_MIN(first, (int64_t)HY_ATT_TILE) : 0;
    *hi = last > 0 ? (uint32_t)HY_MIN(last, (int64_t)a->n_key) : 0;
}

#endif
