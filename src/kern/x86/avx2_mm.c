/* kern/x86: matmul on AVX2. Codes stay bytes; maddubs wants one unsigned factor (the weight's) and
 * must not saturate, so how many of its 16-bit sums are added before widening depends on the type:
 *   codes up to 31   4 chunks (all there are): 4 * 2 * 31 * 127 = 31496
 *   up to 63         2 chunks: 32004
 *   int8             |w| times x with w's sign, one chunk: 2 * 128 * 127 = 32512
 *   MXFP4            the same, |w| <= 12: 4 chunks: 12192 */
#include "kern/x86/mm_avx2.h"

#define MM_TILE 4
#define MM_FEW 8
#define MM_TILE_F 4
#define MM_NP 3

HY_INLINE VI v_fix_signed(VI a) { return a; }
HY_INLINE bool mm_signed(hy_qtype t)
{
    return t == HY_Q_Q8_0 || t == HY_Q_IQ4_NL || t == HY_Q_IQ4_XS || t == HY_Q_MXFP4;
}
HY_INLINE int mm_up(hy_qtype t) { return 0; }
HY_INLINE int mm_offset(hy_qtype t) { return hy_pf_offset(t); }

/* Types whose int8 loops are the same, by the name of one of them. */
#define MM_CLASSES(X) X(Q8_0) X(Q4_0) X(Q4_1) X(Q5_0) X(Q2_K) X(Q3_K) X(Q6_K) X(MXFP4)
#define MM_TYPES(X)                                                                                \
    X(Q8_0, Q8_0) X(Q4_0, Q4_0) X(Q4_1, Q4_1) X(Q5_0, Q5_0) X(Q5_1, Q4_1) X(Q2_K, Q2_K)            \
    X(Q3_K, Q3_K) X(Q4_K, Q4_1) X(Q5_K, Q4_1) X(Q6_K, Q6_K) X(IQ4_NL, Q8_0) X(IQ4_XS, Q8_0)        \
    X(MXFP4, MXFP4)

HY_INLINE const hy_act_group *x_at(const hy_act_group *x, size_t off);
HY_INLINE void v_dots(hy_qtype t, const VI *c, const hy_act_group *x, int h, const size_t *off, VI *sum,
                      const int n)
{
    const bool neg = mm_signed(t);
    /* chunks whose 16-bit sums fit together */
    const int run = t == HY_Q_Q6_K ? 2 : neg && t != HY_Q_MXFP4 ? 1 : 4;
    VI v[4];
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) {
        VI w = c[i], a = neg ? _mm256_abs_epi8(w) : w;
        _Pragma("GCC unroll 4") for (int j = 0; j < n; j++) {
            const hy_act_group *xj = x_at(x, off[j]);
            int32_t four;
            memcpy(&four, xj->q + 16 * h + 4 * i, 4);
            VI q = _mm256_set1_epi32(four);
            VI p = _mm256_maddubs_epi16(a, neg ? _mm256_sign_epi8(q, w) : q);
            v[j] = i % run ? _mm256_add_epi16(v[j], p) : p;
            if (i % run == run - 1) /* widening multiplies anyway: by the half's power of two */
                sum[j] = _mm256_add_epi32(sum[j], _mm256_madd_epi16(v[j], _mm256_set1_epi32(xj->m[h])));
        }
    }
}

#include "kern/mm_body.h"

void hy_mm_fill_avx2(hy_kernels *k, uint64_t cpu)
{
    fill_mm(k);
}
