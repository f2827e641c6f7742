/* 16 lanes in two AVX registers: the words that v16_math.h, v16_vec.h and v16_att.h are written in.
 */
#ifndef HY_KERN_V16_AVX2_H
#define HY_KERN_V16_AVX2_H

#include "kern/kern.h"
#include <immintrin.h>

#include "kern/x86/v16_x86.h"

#define V16_ISA    avx2
#define V16_Q_MAX  6 /* query rows that share a load: 12 sums, 2 loads, 1 broadcast of 16 regs */
#define V16_NP_1   4 /* vectors of 16 per query for 1, 2, 3, 4 and Q_MAX queries */
#define V16_NP_2   2
#define V16_NP_3   2
#define V16_NP_4   1
#define V16_NP_MAX 1
#define V16_NP_Q4  1

typedef struct v16 {
    __m256 a, b;
} v16;
typedef struct v16m {
    __m256 a, b;
} v16m;

HY_INLINE v16 v_make(__m256 a, __m256 b)
{
    v16 r = {a, b};
    return r;
}
HY_INLINE v16 v_set1(float x) { return v_make(_mm256_set1_ps(x), _mm256_set1_ps(x)); }
HY_INLINE v16 v_zero(void) { return v_set1(0); }
HY_INLINE v16 v_load(const float *p) { return v_make(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)); }
HY_INLINE void v_store(float *p, v16 x)
{
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
HY_INLINE __m256i v_first8(int n) /* all ones in lanes below n */
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
HY_INLINE v16m v_first(uint32_t n)
{
    v16m m = {_mm256_castsi256_ps(v_first8((int)n)), _mm256_castsi256_ps(v_first8((int)n - 8))};
    return m;
}
/* lanes past n: zero, and not touched in memory */
HY_INLINE v16 v_load_n(const float *p, uint32_t n)
{
    return v_make(_mm256_maskload_ps(p, v_first8((int)n)),
                  n > 8 ? _mm256_maskload_ps(p + 8, v_first8((int)n - 8)) : _mm256_setzero_ps());
}
HY_INLINE void v_store_n(float *p, v16 x, uint32_t n)
{
    _mm256_maskstore_ps(p, v_first8((int)n), x.a);
    if (n > 8) _mm256_maskstore_ps(p + 8, v_first8((int)n - 8), x.b);
}

#define V16_OP2(name, op)                                                                          \
    HY_INLINE v16 name(v16 x, v16 y) { return v_make(op(x.a, y.a), op(x.b, y.b)); }
V16_OP2(v_add, _mm256_add_ps)
V16_OP2(v_sub, _mm256_sub_ps)
V16_OP2(v_mul, _mm256_mul_ps)
V16_OP2(v_div, _mm256_div_ps)
V16_OP2(v_min, _mm256_min_ps) /* x < y ? x : y */
V16_OP2(v_max, _mm256_max_ps) /* x > y ? x : y */
#undef V16_OP2
HY_INLINE v16 v_fma(v16 x, v16 y, v16 z) /* x * y + z */
{
    return v_make(_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b));
}
HY_INLINE v16 v_fnma(v16 x, v16 y, v16 z) /* -x * y + z */
{
    return v_make(_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b));
}
HY_INLINE v16 v_abs(v16 x)
{
    __m256 s = _mm256_set1_ps(-0.0f);
    return v_make(_mm256_andnot_ps(s, x.a), _mm256_andnot_ps(s, x.b));
}
HY_INLINE v16 v_neg(v16 x)
{
    __m256 s = _mm256_set1_ps(-0.0f);
    return v_make(_mm256_xor_ps(s, x.a), _mm256_xor_ps(s, x.b));
}
HY_INLINE v16 v_copysign(v16 x, v16 sign) /* x has a clear sign bit or is NaN */
{
    __m256 s = _mm256_set1_ps(-0.0f);
    return v_make(_mm256_or_ps(_mm256_andnot_ps(s, x.a), _mm256_and_ps(s, sign.a)),
                  _mm256_or_ps(_mm256_andnot_ps(s, x.b), _mm256_and_ps(s, sign.b)));
}
HY_INLINE v16m v_lt(v16 x, v16 y)
{
    v16m m = {_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)};
    return m;
}
HY_INLINE uint32_t v_eq_bits(v16 x, v16 y) /* bit i: lane i is equal */
{
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(x.a, y.a, _CMP_EQ_OQ)) |
           (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(x.b, y.b, _CMP_EQ_OQ)) << 8;
}
HY_INLINE v16 v_sel(v16m m, v16 yes, v16 no)
{
    return v_make(_mm256_blendv_ps(no.a, yes.a, m.a), _mm256_blendv_ps(no.b, yes.b, m.b));
}
/* 2^(n-1) from t = n + 1.5 * 2^23 */
HY_INLINE v16 v_half_pow2(v16 t)
{
    __m256i k = _mm256_set1_epi32(126);
    __m256i a = _mm256_slli_epi32(_mm256_add_epi32(_mm256_castps_si256(t.a), k), 23);
    __m256i b = _mm256_slli_epi32(_mm256_add_epi32(_mm256_castps_si256(t.b), k), 23);
    return v_make(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
}
HY_INLINE float v_fold(v16 x) /* 8+8, 4+4, 2+2, 1+1 */
{
    __m256 s = _mm256_add_ps(x.a, x.b);
    __m128 h = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    h = _mm_add_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}
HY_INLINE float v_fold_max(v16 x)
{
    __m256 s = _mm256_max_ps(x.b, x.a);
    __m128 h = _mm_max_ps(_mm256_extractf128_ps(s, 1), _mm256_castps256_ps128(s));
    h = _mm_max_ps(_mm_movehl_ps(h, h), h);
    return _mm_cvtss_f32(_mm_max_ss(_mm_movehdup_ps(h), h));
}

/* p[0..31] -> even and odd elements, and back */
HY_INLINE void v_load_pairs(const float *p, v16 *even, v16 *odd)
{
    __m256 r[4];
    for (int i = 0; i < 4; i++) r[i] = _mm256_loadu_ps(p + 8 * i);
    for (int i = 0; i < 2; i++) {
        __m256 x = _mm256_permute2f128_ps(r[2 * i], r[2 * i + 1], 0x20);
        __m256 y = _mm256_permute2f128_ps(r[2 * i], r[2 * i + 1], 0x31);
        __m256 e = _mm256_shuffle_ps(x, y, 0x88), o = _mm256_shuffle_ps(x, y, 0xdd);
        if (i == 0)
            even->a = e, odd->a = o;
        else
            even->b = e, odd->b = o;
    }
}
HY_INLINE void v_store_pairs(float *p, v16 even, v16 odd)
{
    __m256 e[2] = {even.a, even.b}, o[2] = {odd.a, odd.b};
    for (int i = 0; i < 2; i++) {
        __m256 lo = _mm256_unpacklo_ps(e[i], o[i]), hi = _mm256_unpackhi_ps(e[i], o[i]);
        _mm256_storeu_ps(p + 16 * i, _mm256_permute2f128_ps(lo, hi, 0x20));
        _mm256_storeu_ps(p + 16 * i + 8, _mm256_permute2f128_ps(lo, hi, 0x31));
    }
}
/* largest magnitude as bits: NaN above infinity above all */
HY_INLINE uint32_t v_top_bits(v16 x)
{
    __m256i k = _mm256_set1_epi32(0x7fffffff);
    __m256i m = _mm256_max_epi32(_mm256_and_si256(_mm256_castps_si256(x.a), k),
                                 _mm256_and_si256(_mm256_castps_si256(x.b), k));
    __m128i h = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0x4e));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(h);
}
/* the same of four */
HY_INLINE void v_tops4(const v16 *v, uint32_t *top)
{
    __m256i k = _mm256_set1_epi32(0x7fffffff);
    __m128i h[4];
    for (int i = 0; i < 4; i++)
        h[i] = hy_max8(_mm256_max_epi32(_mm256_and_si256(_mm256_castps_si256(v[i].a), k),
                                        _mm256_and_si256(_mm256_castps_si256(v[i].b), k)));
    _mm_storeu_si128((__m128i *)(void *)top, hy_max4x4(h[0], h[1], h[2], h[3]));
}
/* 64 such integers to bytes, 32 at q0 and at q1; b: -128 times the sums of 16 */
HY_INLINE void v_store4_i8(int8_t *q0, int8_t *q1, const v16 *v, int32_t *b)
{
    __m128i s[4];
    for (int i = 0; i < 4; i++)
        s[i] = hy_store_i8((i < 2 ? q0 : q1) + i % 2 * 16, _mm256_cvtps_epi32(v[i].a), _mm256_cvtps_epi32(v[i].b));
    _mm_storeu_si128((__m128i *)(void *)b, hy_sum4x4(s[0], s[1], s[2], s[3]));
}
/* to 16 half floats, nearest even */
HY_INLINE void v_store_f16(uint16_t *p, v16 x)
{
    __m128i *to = (__m128i *)(void *)p;
    _mm_storeu_si128(to, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(to + 1, _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}
/* integers in -127..127 held as floats, to bytes; returns their sum */
HY_INLINE int v_store_i8(int8_t *q, v16 x)
{
    __m256i a = _mm256_cvtps_epi32(x.a), b = _mm256_cvtps_epi32(x.b);
    __m256i w = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
    __m128i c = _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
    _mm_storeu_si128((__m128i *)(void *)q, c);
    __m256i s = _mm256_madd_epi16(w, _mm256_set1_epi16(1));
    __m128i h = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0x4e));
    h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0xb1));
    return _mm_cvtsi128_si32(h);
}

/* 16 stored values as floats */
HY_INLINE __m128i v_load128(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
HY_INLINE v16 v_load_f16(const void *p)
{
    return v_make(_mm256_cvtph_ps(v_load128(p)), _mm256_cvtph_ps(v_load128((const char *)p + 16)));
}
HY_INLINE v16 v_load_bf16(const void *p)
{
    __m256i a = _mm256_cvtepu16_epi32(v_load128(p));
    __m256i b = _mm256_cvtepu16_epi32(v_load128((const char *)p + 16));
    return v_make(_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)),
                  _mm256_castsi256_ps(_mm256_slli_epi32(b, 16)));
}
HY_INLINE v16 v_from_i8(__m128i c)
{
    return v_make(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(c)),
                  _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(c, 8))));
}
HY_INLINE v16 v_load_i8(const void *p) { return v_from_i8(v_load128(p)); }
/* low and high nibbles of 16 bytes, minus 8 */
HY_INLINE v16 v_load_lo4(const void *p)
{
    __m128i c = _mm_and_si128(v_load128(p), _mm_set1_epi8(15));
    return v_from_i8(_mm_sub_epi8(c, _mm_set1_epi8(8)));
}
HY_INLINE v16 v_load_hi4(const void *p)
{
    __m128i c = _mm_and_si128(_mm_srli_epi16(v_load128(p), 4), _mm_set1_epi8(15));
    return v_from_i8(_mm_sub_epi8(c, _mm_set1_epi8(8)));
}

#endif
