/* Choosing scales and codes; private to quant/.
 *
 * All searches minimise sum w (x - value)^2. A candidate scale gives codes, codes give the best
 * scale in closed form (least squares), and the best of some candidates around "the extreme value
 * maps to the last code" is kept. This is the idea published with the k-quants and in clipping
 * searches such as AWQ's; sub-scales are then quantised themselves, and the scale of the whole
 * block is fitted once more to the codes that result. */
#ifndef HY_QUANT_PACK_H
#define HY_QUANT_PACK_H

#include "quant/format.h"

#define HY_PACK_MAX 256

/* A group ready for the searches: |x| <= 1, 0 <= w <= 1. Real values are x * amax. */
typedef struct hy_pack_group {
    float x[HY_PACK_MAX], w[HY_PACK_MAX];
    float amax;   /* 0: all values are zero or too small for any scale */
    float inv;    /* 1 / amax, or 0 */
    size_t n;
} hy_pack_group;

/* Copies and normalises. NaN counts as 0, infinities as the largest float; weights that are NaN or
 * negative count as 0. importance may be NULL: all ones. */
void hy_pack_load(hy_pack_group *g, const float *src, const float *importance, size_t n);

/* The levels that a scale multiplies. */
typedef struct hy_pack_levels {
    float lo, hi;       /* linear: every integer lo..hi, lo < 0 */
    const int8_t *book; /* or 16 ascending values from lo to hi; NULL = linear */
    const float *near;  /* [HY_PACK_NEAR], of the book: hy_pack_nl */
    float step;         /* the search moves the extreme's level by multiples of this ... */
    int n_step;         /* ... from -n_step to n_step */
    bool both_signs;    /* lo and hi differ enough to try the extreme on either */
} hy_pack_levels;

/* Those of IQ4_NL and IQ4_XS, with their table of nearest values in `near`: made once a row. */
enum { HY_PACK_NEAR = 512 };
hy_pack_levels hy_pack_nl(float near[HY_PACK_NEAR]);

/* Nearest of lo..hi (|lo|, |hi| < 2^22); NaN gives lo. */
HY_INLINE int hy_pack_round(float v, float lo, float hi)
{
    v = v > lo ? v : lo;
    v = v < hi ? v : hi;
    /* 1.5 * 2^23: the sum's low mantissa bits are the integer, rounded to nearest even. */
    return (int)(hy_f32_bits(v + 12582912.0f) - 0x4B400000u);
}

HY_INLINE float hy_pack_inverse(float d)
{
    return d != 0 ? 1 / d : 0;
}

/* To half, never to infinity. */
uint16_t hy_pack_f16(float v);

/* Index of the nearest of 16 ascending values. */
int hy_pack_book_index(const int8_t *book, float v);

/* n is a multiple of 4 in both searches.
 * Best d for x ~ d * level; negative where the extreme is positive. */
float hy_pack_scale(const hy_pack_levels *l, const float *x, const float *w, size_t n);

/* Best d and m for x ~ d * q + m, q in 0..q_max, d >= 0; m <= 0 when m_negative. */
void hy_pack_affine(const float *x, const float *w, size_t n, int q_max, bool m_negative,
                    float *d, float *m);

/* A super-block of 256 with integer sub-scales: value = d * sc[j] * level. */
typedef struct hy_pack_scaled {
    uint16_t d;          /* half */
    int8_t sc[16];
    int8_t q[256];       /* levels; with a book: indices */
} hy_pack_scaled;
void hy_pack_super(hy_pack_scaled *o, const hy_pack_levels *l, size_t sub, int sc_lo, int sc_hi,
                   const float *src, const float *importance);

/* ... and with minima: value = d * sc[j] * q - dmin * mn[j]. */
typedef struct hy_pack_min {
    uint16_t d, dmin;    /* half */
    uint8_t sc[16], mn[16];
    uint8_t q[256];
} hy_pack_min;
void hy_pack_super_min(hy_pack_min *o, size_t sub, int sc_max, int q_max, const float *src,
                       const float *importance);

#endif
