/* Packing the types that large files consist of at the speed of memory: four rows (of 16 bits: eight) at a time, whose
 * words are turned in vectors of 16 bytes, without taking codes apart. The layout is drawn in pack.c. Vectors are the
 * compiler's own: SSE2, NEON, or plain words. */
#include "kern/panel.h"
#include <string.h>

typedef uint32_t words __attribute__((vector_size(16)));
typedef uint16_t halves __attribute__((vector_size(16)));

#define BLOCK_BYTES_MAX 256
static const uint8_t zeros[BLOCK_BYTES_MAX]; /* a block of a row that is not there: all its bits are 0 */

HY_INLINE uint32_t load32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

HY_INLINE words load(const uint8_t *p)
{
    words v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Vector i of a group's code part: four lanes of it. */
HY_INLINE void put(uint8_t *codes, uint32_t p, uint32_t lane, uint32_t i, words v)
{
    memcpy(codes + 4 * ((size_t)i * p + lane), &v, sizeof v);
}

/* a[r] is four words of row r, and becomes word r of four rows: a perfect shuffle of all 16, twice. */
HY_INLINE void turn(words a[4])
{
    words t0 = __builtin_shufflevector(a[0], a[2], 0, 4, 1, 5), t1 = __builtin_shufflevector(a[0], a[2], 2, 6, 3, 7);
    words t2 = __builtin_shufflevector(a[1], a[3], 0, 4, 1, 5), t3 = __builtin_shufflevector(a[1], a[3], 2, 6, 3, 7);
    a[0] = __builtin_shufflevector(t0, t2, 0, 4, 1, 5);
    a[1] = __builtin_shufflevector(t0, t2, 2, 6, 3, 7);
    a[2] = __builtin_shufflevector(t1, t3, 0, 4, 1, 5);
    a[3] = __builtin_shufflevector(t1, t3, 2, 6, 3, 7);
}

/* The 16 bytes at `at` of four rows, turned. */
HY_INLINE void load_turned(const uint8_t *const src[4], uint32_t at, words a[4])
{
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) a[r] = load(src[r] + at);
    turn(a);
}

HY_INLINE void put_turned(uint8_t *codes, uint32_t p, uint32_t lane, uint32_t first, words a[4])
{
    turn(a);
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 4; i++) put(codes, p, lane, first + i, a[i]);
}

/* ---- blocks of 32 ------------------------------------------------------------------------------ */

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

/* d, perhaps m, perhaps the fifth bits, then codes whose words are the panel's words. */
HY_INLINE void quad_32(hy_qtype t, uint32_t p, uint32_t lane, const uint8_t *const src[4], uint8_t *scales, uint8_t *codes)
{
    uint32_t at = hy_pf_scale_bytes(t);
    bool has_bits = t == HY_Q_Q5_0 || t == HY_Q_Q5_1;
    for (uint32_t r = 0; r < 4; r++) {
        memcpy(scales + 2 * (lane + r), src[r], 2);
        if (at == 4) memcpy(scales + 2 * (p + lane + r), src[r] + 2, 2);
    }
    if (has_bits) {
        words v = { 0 };
        for (int r = 0; r < 4; r++) v[r] = bit_plane(load32(src[r] + at));
        put(codes, p, lane, 4, v);
        at += 4;
    }
    for (uint32_t i = 0; i < (t == HY_Q_Q8_0 ? 8u : 4u); i += 4) {
        words a[4];
        load_turned(src, at + 4 * i, a);
        for (uint32_t k = 0; k < 4; k++) put(codes, p, lane, i + k, a[k]);
    }
}

/* ---- blocks of 256 ----------------------------------------------------------------------------- */

/* 32 bytes of four rows whose low nibbles are one group's codes, and whose high ones another's. */
HY_INLINE void put_nibbles(const uint8_t *const src[4], uint32_t at, uint8_t *low_codes, uint8_t *high_codes, uint32_t p,
                           uint32_t lane)
{
    words low[4], high[4];
    const uint32_t mask = 0x0f0f0f0fu;
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) {
        words a = load(src[r] + at), b = load(src[r] + at + 16);
        low[r] = (a & mask) | (b & mask) << 4;
        high[r] = (a >> 4 & mask) | (b & ~mask);
    }
    put_turned(low_codes, p, lane, 0, low);
    put_turned(high_codes, p, lane, 0, high);
}

/* `bits` bits a code at bit `from` of every byte: those of chunk i go to bit `bits * i` of the plane's. */
HY_INLINE words plane(const words chunk[], uint32_t n, uint32_t bits, uint32_t from)
{
    const uint32_t mask = bits == 1 ? 0x01010101u : 0x03030303u;
    words v = { 0 };
#pragma GCC unroll 8
    for (uint32_t i = 0; i < n; i++) v |= (chunk[i] >> from & mask) << bits * i;
    return v;
}

/* d, dmin, 8 pairs of 6-bit sub-scales in 12 bytes. */
HY_INLINE void scales_q45_k(uint32_t p, uint32_t lane, const uint8_t *src, uint8_t *scales)
{
    const uint8_t *s = src + 4;
    memcpy(scales + 2 * lane, src, 2);
    memcpy(scales + 2 * (p + lane), src + 2, 2);
    uint8_t *sub = scales + 4 * p + lane;
    for (uint32_t g = 0; g < 4; g++) {
        sub[2 * g * p] = s[g] & 63;
        sub[(2 * g + 1) * p] = s[g + 4] & 63;
        sub[2 * (g + 4) * p] = (uint8_t)((s[g + 8] & 15) | s[g] >> 6 << 4);
        sub[(2 * (g + 4) + 1) * p] = (uint8_t)(s[g + 8] >> 4 | s[g + 4] >> 6 << 4);
    }
}

/* Sub-scales, then (Q5_K) 32 bytes with a bit for each group, then 4 times 32 bytes of two groups' nibbles. */
HY_INLINE void quad_q45_k(hy_qtype t, uint32_t p, uint32_t lane, const uint8_t *const src[4], uint8_t *scales, uint8_t *codes)
{
    uint32_t group = hy_pf_group_codes(t, p), at = 16;
    for (uint32_t r = 0; r < 4; r++) scales_q45_k(p, lane + r, src[r], scales);
    if (t == HY_Q_Q5_K) {
        words h[8];
        load_turned(src, 16, h);
        load_turned(src, 32, h + 4);
#pragma GCC unroll 8
        for (uint32_t g = 0; g < 8; g++) put(codes + g * group, p, lane, 4, plane(h, 8, 1, g));
        at = 48;
    }
    for (uint32_t j = 0; j < 4; j++)
        put_nibbles(src, at + 32 * j, codes + 2 * j * group, codes + (2 * j + 1) * group, p, lane);
}

/* Twice 64 bytes of four groups' nibbles, twice 32 of their upper two bits, 16 sub-scales, d. */
HY_INLINE void quad_q6_k(uint32_t p, uint32_t lane, const uint8_t *const src[4], uint8_t *scales, uint8_t *codes)
{
    uint32_t group = hy_pf_group_codes(HY_Q_Q6_K, p);
    for (uint32_t r = 0; r < 4; r++) {
        memcpy(scales + 2 * (lane + r), src[r] + 208, 2);
        uint8_t *sub = scales + 2 * p;
        for (uint32_t g = 0; g < 8; g++) memcpy(sub + 2 * (g * p + lane + r), src[r] + 192 + 2 * g, 2);
    }
    for (uint32_t n = 0; n < 2; n++) {
        uint8_t *half = codes + 4 * n * group;
        put_nibbles(src, 64 * n, half, half + 2 * group, p, lane);
        put_nibbles(src, 64 * n + 32, half + group, half + 3 * group, p, lane);
        words h[8];
        load_turned(src, 128 + 32 * n, h);
        load_turned(src, 128 + 32 * n + 16, h + 4);
#pragma GCC unroll 4
        for (uint32_t g = 0; g < 4; g++) {
            put(half + g * group, p, lane, 4, plane(h, 4, 2, 2 * g));
            put(half + g * group, p, lane, 5, plane(h + 4, 4, 2, 2 * g));
        }
    }
}

/* ---- a panel ----------------------------------------------------------------------------------- */

HY_INLINE void pack(hy_qtype t, uint32_t p, const hy_panels *w, uint8_t *dst, const void *const *row, uint32_t n_row)
{
    uint32_t n_group = hy_pf_unit(t);
    uint64_t n_unit = w->k / (HY_GROUP * n_group), step[16];
    const uint8_t *src[16];
    for (uint32_t r = 0; r < p; r++) {
        src[r] = r < n_row ? row[r] : zeros;
        step[r] = r < n_row ? hy_quant(t)->block_bytes : 0;
    }
    for (uint64_t i = 0; i < n_unit; i++) {
        uint8_t *scales = dst + hy_pf_scales_at(t, p, i * n_group), *codes = dst + hy_pf_codes_at(t, p, i * n_group);
        for (uint32_t r = 0; r < p; r += 4) {
            if (t == HY_Q_Q4_K || t == HY_Q_Q5_K) quad_q45_k(t, p, r, src + r, scales, codes);
            else if (t == HY_Q_Q6_K) quad_q6_k(p, r, src + r, scales, codes);
            else quad_32(t, p, r, src + r, scales, codes);
        }
        for (uint32_t r = 0; r < p; r++) src[r] += step[r];
    }
}

/* Constants fold: one loop for each type and width. */
HY_INLINE void pack_width(hy_qtype t, const hy_panels *w, uint8_t *dst, const void *const *row, uint32_t n_row)
{
    if (w->p == 16) pack(t, 16, w, dst, row, n_row);
    else pack(t, 8, w, dst, row, n_row);
}

/* ---- floats ------------------------------------------------------------------------------------ */

/* Values [first, k) of one row. */
HY_INLINE void put_row(uint32_t size, uint32_t p, uint8_t *dst, const uint8_t *src, uint32_t lane, uint64_t first, uint64_t k)
{
    for (; first < k; first++) memcpy(dst + (first * p + lane) * size, src + first * size, size);
}

/* a[r] is eight halves of row r, and becomes half r of eight rows: a perfect shuffle, three times. */
HY_INLINE void turn_halves(halves a[8])
{
#pragma GCC unroll 3
    for (int pass = 0; pass < 3; pass++) {
        halves t[8];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            t[2 * i] = __builtin_shufflevector(a[i], a[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
            t[2 * i + 1] = __builtin_shufflevector(a[i], a[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
        }
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) a[i] = t[i];
    }
}

HY_INLINE void eight_halves(uint32_t p, uint8_t *dst, const void *const *row, uint32_t lane, uint64_t at)
{
    halves a[8];
#pragma GCC unroll 8
    for (uint32_t r = 0; r < 8; r++) memcpy(&a[r], (const uint8_t *)row[lane + r] + 2 * at, sizeof a[r]);
    turn_halves(a);
#pragma GCC unroll 8
    for (uint32_t i = 0; i < 8; i++) memcpy(dst + 2 * ((at + i) * p + lane), &a[i], sizeof a[i]);
}

HY_INLINE void four_words(uint32_t p, uint8_t *dst, const void *const *row, uint32_t lane, uint64_t at)
{
    const uint8_t *src[4];
    for (uint32_t r = 0; r < 4; r++) src[r] = (const uint8_t *)row[lane + r] + 4 * at;
    words a[4];
    load_turned(src, 0, a);
    for (uint32_t i = 0; i < 4; i++) put(dst + 4 * at * p, p, lane, i, a[i]);
}

/* Squares of 8 by 8 halves or 4 by 4 words; then what is left of k, and of the rows. */
HY_INLINE void pack_floats(uint32_t size, uint32_t p, uint64_t k, uint8_t *dst, const void *const *row, uint32_t n_row)
{
    uint32_t square = 16 / size, whole = n_row / square * square;
    uint64_t at = 0;
    for (; at + square <= k; at += square)
        for (uint32_t r = 0; r < whole; r += square)
            if (size == 2) eight_halves(p, dst, row, r, at);
            else four_words(p, dst, row, r, at);
    for (uint32_t r = 0; r < n_row; r++) put_row(size, p, dst, row[r], r, r < whole ? at : 0, k);
}

HY_INLINE void pack_floats_width(uint32_t size, const hy_panels *w, uint8_t *dst, const void *const *row, uint32_t n_row)
{
    if (w->p == 16) pack_floats(size, 16, w->k, dst, row, n_row);
    else pack_floats(size, 8, w->k, dst, row, n_row);
}

bool hy_pack_quick(const hy_panels *w, uint8_t *dst, const void *const *row, uint32_t n_row)
{
    if (w->p != 8 && w->p != 16) return false;
    switch (w->type) {
    case HY_Q_F32: pack_floats_width(4, w, dst, row, n_row); return true;
    case HY_Q_F16:
    case HY_Q_BF16: pack_floats_width(2, w, dst, row, n_row); return true;
    case HY_Q_Q4_0:
    case HY_Q_IQ4_NL: pack_width(HY_Q_Q4_0, w, dst, row, n_row); return true;
    case HY_Q_Q4_1: pack_width(HY_Q_Q4_1, w, dst, row, n_row); return true;
    case HY_Q_Q5_0: pack_width(HY_Q_Q5_0, w, dst, row, n_row); return true;
    case HY_Q_Q5_1: pack_width(HY_Q_Q5_1, w, dst, row, n_row); return true;
    case HY_Q_Q8_0: pack_width(HY_Q_Q8_0, w, dst, row, n_row); return true;
    case HY_Q_Q4_K: pack_width(HY_Q_Q4_K, w, dst, row, n_row); return true;
    case HY_Q_Q5_K: pack_width(HY_Q_Q5_K, w, dst, row, n_row); return true;
    case HY_Q_Q6_K: pack_width(HY_Q_Q6_K, w, dst, row, n_row); return true;
    default: return false;
    }
}
