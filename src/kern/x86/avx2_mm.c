/* kern/x86: matmul on AVX2. Codes stay bytes; maddubs wants one unsigned factor (the weight's) and
 * must not saturate, so how many of its 16-bit sums are added before widening depends on the type:
 *   codes up to 31   4 chunks (all there are): 4 * 2 * 31 * 127 = 31496
 *   up to 63         2 chunks: 32004
 *   int8             |w| times x with w's sign, one chunk: 2 * 128 * 127 = 32512
 * MXFP4's are moved up by 16 (4..28). */
#include "kern/x86/mm_avx2.h"

#define MM_TILE 4
#define MM_FEW 8
#define MM_TILE_F 4
#define MM_NP 3
#define MM_PAIR 2
#define MM_PAIR_FROM 48        /* fewer: what is decoded for two and all activations no longer fit L1 together */

HY_INLINE VI v_fix_signed(hy_qtype t, VI a) { return t == HY_Q_MXFP4 ? _mm256_add_epi8(a, v_set8(16)) : a; }
HY_INLINE bool mm_signed(hy_qtype t) { return t == HY_Q_Q8_0 || t == HY_Q_IQ4_NL || t == HY_Q_IQ4_XS; }
HY_INLINE int mm_up(hy_qtype t) { return 0; }
HY_INLINE int mm_offset(hy_qtype t) { return t == HY_Q_MXFP4 ? 16 : hy_pf_offset(t); }

/* Types whose int8 loops are the same, by the name of one of them. */
#define MM_CLASSES(X) X(Q8_0) X(Q4_0) X(Q4_1) X(Q5_0) X(Q2_K) X(Q3_K) X(Q6_K)
#define MM_TYPES(X)                                                                                \
    X(Q8_0, Q8_0) X(Q4_0, Q4_0) X(Q4_1, Q4_1) X(Q5_0, Q5_0) X(Q5_1, Q4_1) X(Q2_K, Q2_K)            \
    X(Q3_K, Q3_K) X(Q4_K, Q4_1) X(Q5_K, Q4_1) X(Q6_K, Q6_K) X(IQ4_NL, Q8_0) X(IQ4_XS, Q8_0)        \
    X(MXFP4, Q5_0)

HY_INLINE const hy_act_group *x_at(const hy_act_group *x, size_t off);
HY_INLINE VI four_of(const hy_act_group *x, int i)
{
    int32_t four;
    memcpy(&four, x->q + 4 * i, 4);
    return _mm256_set1_epi32(four);
}
/* v_keep: each chunk is added at once. gcc would gather all products first, and spill them (3 to 8 % of the time; with runs of two it
 * gathers no more than there are registers). */
HY_INLINE void v_dots(hy_qtype t, const VI *c, const hy_act_group *x, int h, const size_t *off, VI *sum,
                      const int n)
{
    const bool neg = mm_signed(t);
    const int run = t == HY_Q_Q6_K ? 2 : neg ? 1 : 4; /* chunks whose 16-bit sums fit together */
    VI v[4];
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) {
        VI w = c[i], a = neg ? _mm256_abs_epi8(w) : w;
        _Pragma("GCC unroll 4") for (int j = 0; j < n; j++) {
            const hy_act_group *xj = x_at(x, off[j]);
            VI q = four_of(xj, 4 * h + i), p = _mm256_maddubs_epi16(a, neg ? _mm256_sign_epi8(q, w) : q);
            v[j] = i % run ? _mm256_add_epi16(v[j], p) : p;
            if (run == 4) v[j] = v_keep(v[j]);
            if (i % run == run - 1) /* widening multiplies anyway: by the half's power of two */
                sum[j] = _mm256_add_epi32(sum[j], _mm256_madd_epi16(v[j], v_bcast32(xj->m + h)));
            if (run == 1) sum[j] = v_keep(sum[j]);
        }
    }
}

/* The same for the unsigned codes of two panels; an activation is broadcast once for both: of one panel's loads, two in a cycle, two
 * thirds are activations. */
HY_INLINE void v_dots2(hy_qtype t, const VI *c, const VI *d, const hy_act_group *x, int h, const size_t *off, VI *sum, const int n)
{
    const int run = t == HY_Q_Q6_K ? 2 : 4;
    VI v[4];
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) {
        VI w[2] = { c[i], d[i] };
        _Pragma("GCC unroll 4") for (int j = 0; j < n; j++) {
            const hy_act_group *xj = x_at(x, off[j]);
            VI q = four_of(xj, 4 * h + i);
            _Pragma("GCC unroll 2") for (int p = 2 * j; p < 2 * j + 2; p++) {
                VI s = _mm256_maddubs_epi16(w[p % 2], q);
                v[p] = v_keep(i % run ? _mm256_add_epi16(v[p], s) : s);
                if (i % run == run - 1)
                    sum[p] = _mm256_add_epi32(sum[p], _mm256_madd_epi16(v[p], v_bcast32(xj->m + h)));
            }
        }
    }
}

/* For many tokens, signed codes are split into magnitudes and signs (all bits, or none), once. To turn the bits of an activation is
 * one operation on any unit, where vpsignb takes one of the two that multiply (Zen 4: 60 and 71 GMAC/s a thread); it makes q to -1 - q,
 * so the dots lack the magnitudes of negative codes: `lost`, both halves' sums as a pair. */
#define MM_SPLIT 1
HY_INLINE void v_split(VI c[8], VI minus[8], VI *lost)
{
    VI sum[2];
    _Pragma("GCC unroll 2") for (int h = 0; h < 2; h++) {
        sum[h] = v_zero();
        _Pragma("GCC unroll 4") for (int i = 4 * h; i < 4 * h + 4; i++) {
            minus[i] = _mm256_cmpgt_epi8(v_zero(), c[i]);
            sum[h] = _mm256_sub_epi16(sum[h], _mm256_maddubs_epi16(v_set8(1), _mm256_min_epi8(c[i], v_zero())));
            c[i] = _mm256_abs_epi8(c[i]);
        }
        sum[h] = _mm256_madd_epi16(sum[h], v_set16(1)); /* at most 16 * 128 */
    }
    *lost = v_or(sum[0], _mm256_slli_epi32(sum[1], 16));
}
HY_INLINE VI v_lost(VI lost, const hy_act_group *x)
{
    int32_t m; /* 2^e of both halves: m is each of them twice */
    memcpy(&m, (const uint8_t *)x->m + 2, 4);
    return _mm256_madd_epi16(lost, _mm256_set1_epi32(m));
}
HY_INLINE void v_dots_split(const VI *c, const VI *minus, const hy_act_group *x, int h, const size_t *off, VI *sum, const int n)
{
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) {
        VI a = c[i], s = minus[i];
        _Pragma("GCC unroll 4") for (int j = 0; j < n; j++) {
            const hy_act_group *xj = x_at(x, off[j]);
            VI p = _mm256_maddubs_epi16(a, _mm256_xor_si256(four_of(xj, 4 * h + i), s));
            sum[j] = v_keep(_mm256_add_epi32(sum[j], _mm256_madd_epi16(p, v_bcast32(xj->m + h))));
        }
    }
}

#include "kern/mm_body.h"

void hy_mm_fill_avx2(hy_kernels *k, uint64_t cpu)
{
    fill_mm(k);
}
