/* Packing the types that large files consist of without taking their codes apart: a panel's words are made
 * of a row's words. The layout is drawn in pack.c, and what it writes is the same byte for byte. */
#include "kern/panel.h"
#include <string.h>

HY_INLINE uint32_t load32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

/* Words into a lane, one in each vector of a group's code part. */
HY_INLINE void put_word(uint8_t *dst, uint32_t p, uint32_t lane, uint32_t i, uint32_t v)
{
    memcpy(dst + 4 * ((size_t)i * p + lane), &v, 4);
}

/* Every fourth bit of x, the lowest first, as a byte. */
HY_INLINE uint32_t every_fourth(uint32_t x)
{
    x &= 0x11111111u;
    x = (x | x >> 3) & 0x03030303u;
    x = (x | x >> 6) & 0x000f000fu;
    return (x | x >> 12) & 0xffu;
}

/* Bit i of h is weight i's; in the plane, bit c of byte k is weight 4c + k's. */
HY_INLINE uint32_t bit_plane(uint32_t h)
{
    return every_fourth(h) | every_fourth(h >> 1) << 8 | every_fourth(h >> 2) << 16 | every_fourth(h >> 3) << 24;
}

/* Blocks of 32: d, perhaps m, perhaps the fifth bits, then codes whose words are the panel's words. */
HY_INLINE void block_32(hy_qtype t, uint32_t p, uint32_t lane, const uint8_t *src, uint8_t *scales, uint8_t *codes)
{
    memcpy(scales + 2 * lane, src, 2);
    src += 2;
    if (t == HY_Q_Q4_1 || t == HY_Q_Q5_1) {
        memcpy(scales + 2 * (p + lane), src, 2);
        src += 2;
    }
    uint32_t n = t == HY_Q_Q8_0 ? 8 : 4;
    if (t == HY_Q_Q5_0 || t == HY_Q_Q5_1) {
        put_word(codes, p, lane, 4, bit_plane(load32(src)));
        src += 4;
    }
    for (uint32_t i = 0; i < n; i++) put_word(codes, p, lane, i, load32(src + 4 * i));
}

/* Q4_K: d, dmin, 8 pairs of 6-bit sub-scales in 12 bytes, then 4 times 32 bytes whose low nibbles are a group
 * and whose high ones the next. */
HY_INLINE void block_q4_k(uint32_t p, uint32_t lane, const uint8_t *src, uint8_t *scales, uint8_t *codes)
{
    const uint8_t *s = src + 4, *qs = src + 16;
    memcpy(scales + 2 * lane, src, 2);
    memcpy(scales + 2 * (p + lane), src + 2, 2);
    uint8_t *sub = scales + 4 * p + lane;
    for (uint32_t g = 0; g < 4; g++) {
        sub[2 * g * p] = s[g] & 63;
        sub[(2 * g + 1) * p] = s[g + 4] & 63;
        sub[2 * (g + 4) * p] = (uint8_t)((s[g + 8] & 15) | s[g] >> 6 << 4);
        sub[(2 * (g + 4) + 1) * p] = (uint8_t)(s[g + 8] >> 4 | s[g + 4] >> 6 << 4);
    }
    const uint32_t low = 0x0f0f0f0fu;
    for (uint32_t j = 0; j < 4; j++) {
        uint8_t *even = codes + 2 * j * 16 * (size_t)p, *odd = even + 16 * (size_t)p;
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t a = load32(qs + 32 * j + 4 * i), b = load32(qs + 32 * j + 16 + 4 * i);
            put_word(even, p, lane, i, (a & low) | (b & low) << 4);
            put_word(odd, p, lane, i, (a >> 4 & low) | (b & ~low));
        }
    }
}

HY_INLINE void pack(hy_qtype t, uint32_t p, const hy_panels *w, uint8_t *dst, const void *const *row, uint32_t n_row)
{
    uint32_t n_group = hy_pf_unit(t), block = hy_quant(t)->block_bytes;
    uint64_t n_unit = w->k / (HY_GROUP * n_group);
    for (uint64_t i = 0; i < n_unit; i++) {
        uint8_t *scales = dst + hy_pf_scales_at(t, p, i * n_group), *codes = dst + hy_pf_codes_at(t, p, i * n_group);
        for (uint32_t r = 0; r < n_row; r++) {
            const uint8_t *src = (const uint8_t *)row[r] + i * block;
            if (t == HY_Q_Q4_K) block_q4_k(p, r, src, scales, codes);
            else block_32(t, p, r, src, scales, codes);
        }
    }
}

/* Constants fold: one loop for each type and width. */
HY_INLINE void pack_width(hy_qtype t, const hy_panels *w, uint8_t *dst, const void *const *row, uint32_t n_row)
{
    if (w->p == 16) pack(t, 16, w, dst, row, n_row);
    else pack(t, 8, w, dst, row, n_row);
}

bool hy_pack_quick(const hy_panels *w, uint8_t *dst, const void *const *row, uint32_t n_row)
{
    if (w->p != 8 && w->p != 16) return false;
    switch (w->type) {
    case HY_Q_Q4_0:
    case HY_Q_IQ4_NL: pack_width(HY_Q_Q4_0, w, dst, row, n_row); return true;
    case HY_Q_Q4_1: pack_width(HY_Q_Q4_1, w, dst, row, n_row); return true;
    case HY_Q_Q5_0: pack_width(HY_Q_Q5_0, w, dst, row, n_row); return true;
    case HY_Q_Q5_1: pack_width(HY_Q_Q5_1, w, dst, row, n_row); return true;
    case HY_Q_Q8_0: pack_width(HY_Q_Q8_0, w, dst, row, n_row); return true;
    case HY_Q_Q4_K: pack_width(HY_Q_Q4_K, w, dst, row, n_row); return true;
    default: return false;
    }
}
