/* 16 lanes in one AVX-512 register: the words that v16_math.h, v16_vec.h and v16_att.h are written
 * in. */
#ifndef HY_KERN_V16_AVX512_H
#define HY_KERN_V16_AVX512_H

#include "kern/kern.h"
#include "kern/x86/intrin512.h"
#ifdef HY_EMU512
#include "kern/x86/emu512_vec.h"
#endif

#include "kern/x86/v16_x86.h"

#define V16_ISA    avx512
#define V16_Q_MAX  6 /* query rows that share a load: 24 sums, 4 loads, 1 broadcast of 32 registers */
#define V16_NP_1   4 /* vectors of 16 per query for 1, 2, 3, 4 and Q_MAX queries */
#define V16_NP_2   4
#define V16_NP_3   4
#define V16_NP_4   4
#define V16_NP_MAX 4
#define V16_NP_Q4  2 /* Q_MAX rows of Q4, which has more sums */

typedef __m512 v16;
typedef __mmask16 v16m;

HY_INLINE v16 v_set1(float x) { return _mm512_set1_ps(x); }
HY_INLINE v16 v_zero(void) { return _mm512_setzero_ps(); }
HY_INLINE v16 v_load(const float *p) { return _mm512_loadu_ps(p); }
HY_INLINE void v_store(float *p, v16 x) { _mm512_storeu_ps(p, x); }
HY_INLINE v16m v_first(uint32_t n) { return (v16m)(n >= 16 ? 0xffffu : (1u << n) - 1); }
/* lanes past n: zero, and not touched in memory */
HY_INLINE v16 v_load_n(const float *p, uint32_t n) { return _mm512_maskz_loadu_ps(v_first(n), p); }
HY_INLINE void v_store_n(float *p, v16 x, uint32_t n) { _mm512_mask_storeu_ps(p, v_first(n), x); }

HY_INLINE v16 v_add(v16 x, v16 y) { return _mm512_add_ps(x, y); }
HY_INLINE v16 v_sub(v16 x, v16 y) { return _mm512_sub_ps(x, y); }
HY_INLINE v16 v_mul(v16 x, v16 y) { return _mm512_mul_ps(x, y); }
HY_INLINE v16 v_div(v16 x, v16 y) { return _mm512_div_ps(x, y); }
HY_INLINE v16 v_min(v16 x, v16 y) { return _mm512_min_ps(x, y); }               /* x < y ? x : y */
HY_INLINE v16 v_max(v16 x, v16 y) { return _mm512_max_ps(x, y); }               /* x > y ? x : y */
HY_INLINE v16 v_fma(v16 x, v16 y, v16 z) { return _mm512_fmadd_ps(x, y, z); }   /* x * y + z */
HY_INLINE v16 v_fnma(v16 x, v16 y, v16 z) { return _mm512_fnmadd_ps(x, y, z); } /* -x * y + z */

HY_INLINE __m512i v_bits(v16 x) { return _mm512_castps_si512(x); }
HY_INLINE v16 v_from_bits(__m512i x) { return _mm512_castsi512_ps(x); }
HY_INLINE v16 v_abs(v16 x)
{
    return v_from_bits(_mm512_and_si512(v_bits(x), _mm512_set1_epi32(0x7fffffff)));
}
HY_INLINE v16 v_neg(v16 x)
{
    return v_from_bits(_mm512_xor_si512(v_bits(x), _mm512_set1_epi32((int)0x80000000u)));
}
HY_INLINE v16 v_copysign(v16 x, v16 sign) /* x has a clear sign bit or is NaN */
{
    __m512i s = _mm512_and_si512(v_bits(sign), _mm512_set1_epi32((int)0x80000000u));
    return v_from_bits(_mm512_or_si512(v_bits(v_abs(x)), s));
}
HY_INLINE v16m v_lt(v16 x, v16 y) { return _mm512_cmp_ps_mask(x, y, _CMP_LT_OQ); }
HY_INLINE uint32_t v_eq_bits(v16 x, v16 y) { return _mm512_cmp_ps_mask(x, y, _CMP_EQ_OQ); }
HY_INLINE v16 v_sel(v16m m, v16 yes, v16 no) { return _mm512_mask_blend_ps(m, no, yes); }
/* 2^(n-1) from t = n + 1.5 * 2^23 */
HY_INLINE v16 v_half_pow2(v16 t)
{
    return v_from_bits(_mm512_slli_epi32(_mm512_add_epi32(v_bits(t), _mm512_set1_epi32(126)), 23));
}
HY_INLINE __m256 v_half0(v16 x) { return _mm512_castps512_ps256(x); }
HY_INLINE __m256 v_half1(v16 x)
{
    return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1));
}
HY_INLINE float v_fold(v16 x) /* 8+8, 4+4, 2+2, 1+1 */
{
    __m256 s = _mm256_add_ps(v_half0(x), v_half1(x));
    __m128 h = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    h = _mm_add_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}
HY_INLINE float v_fold_max(v16 x)
{
    __m256 s = _mm256_max_ps(v_half1(x), v_half0(x));
    __m128 h = _mm_max_ps(_mm256_extractf128_ps(s, 1), _mm256_castps256_ps128(s));
    h = _mm_max_ps(_mm_movehl_ps(h, h), h);
    return _mm_cvtss_f32(_mm_max_ss(_mm_movehdup_ps(h), h));
}

/* p[0..31] -> even and odd elements, and back */
HY_INLINE void v_load_pairs(const float *p, v16 *even, v16 *odd)
{
    __m512i e = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    __m512i o = _mm512_add_epi32(e, _mm512_set1_epi32(1));
    v16 x = v_load(p), y = v_load(p + 16);
    *even = _mm512_permutex2var_ps(x, e, y);
    *odd = _mm512_permutex2var_ps(x, o, y);
}
HY_INLINE void v_store_pairs(float *p, v16 even, v16 odd)
{
    __m512i lo = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    __m512i hi = _mm512_add_epi32(lo, _mm512_set1_epi32(8));
    v_store(p, _mm512_permutex2var_ps(even, lo, odd));
    v_store(p + 16, _mm512_permutex2var_ps(even, hi, odd));
}
HY_INLINE __m256i v_int0(__m512i x) { return _mm512_castsi512_si256(x); }
HY_INLINE __m256i v_int1(__m512i x) { return _mm512_extracti64x4_epi64(x, 1); }
/* largest magnitude as bits: NaN above infinity above all */
HY_INLINE uint32_t v_top_bits(v16 x)
{
    __m512i m = v_bits(v_abs(x));
    __m256i s = _mm256_max_epi32(v_int0(m), v_int1(m));
    __m128i h = _mm_max_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0x4e));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(h);
}
/* the same of four: a quarter of each side by side, then quarters are folded */
HY_INLINE void v_tops4(const v16 *v, uint32_t *top)
{
    __m512i a[4], m[2];
    for (int i = 0; i < 4; i++) a[i] = v_bits(v_abs(v[i]));
    for (int i = 0; i < 2; i++) {
        __m512i x = a[2 * i], y = a[2 * i + 1];
        m[i] = _mm512_max_epi32(_mm512_unpacklo_epi32(x, y), _mm512_unpackhi_epi32(x, y));
    }
    __m512i all = _mm512_max_epi32(_mm512_unpacklo_epi64(m[0], m[1]), _mm512_unpackhi_epi64(m[0], m[1]));
    __m256i s = _mm256_max_epi32(v_int0(all), v_int1(all));
    __m128i h = _mm_max_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    _mm_storeu_si128((__m128i *)(void *)top, h);
}
/* 64 such integers to bytes, 32 at q0 and at q1; b: -128 times the sums of 16. Packed, a 128-bit lane holds four of each vector, in
 * vectors' order: their sums are in their places, and the bytes are permuted into theirs. */
HY_INLINE void v_store4_i8(int8_t *q0, int8_t *q1, const v16 *v, int32_t *b)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i c[4];
    for (int i = 0; i < 4; i++) c[i] = _mm512_cvtps_epi32(v[i]);
    __m512i p = _mm512_packs_epi16(_mm512_packs_epi32(c[0], c[1]), _mm512_packs_epi32(c[2], c[3]));
    __m512i in_order = _mm512_permutexvar_epi32(order, p);
    _mm256_storeu_si256((__m256i *)(void *)q0, v_int0(in_order));
    _mm256_storeu_si256((__m256i *)(void *)q1, v_int1(in_order));
    __m512i sums = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(-128), p); /* 128 without sign */
    __m256i s = _mm256_add_epi32(v_int0(sums), v_int1(sums));
    __m128i h = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    _mm_storeu_si128((__m128i *)(void *)b, _mm_sub_epi32(_mm_setzero_si128(), h));
}
/* to 16 half floats, nearest even */
HY_INLINE void v_store_f16(uint16_t *p, v16 x)
{
    __m128i *to = (__m128i *)(void *)p;
    _mm_storeu_si128(to, _mm256_cvtps_ph(v_half0(x), _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(to + 1, _mm256_cvtps_ph(v_half1(x), _MM_FROUND_TO_NEAREST_INT));
}
/* integers in -127..127 held as floats, to bytes; returns their sum */
HY_INLINE int v_store_i8(int8_t *q, v16 x)
{
    __m256i a = _mm256_cvtps_epi32(v_half0(x)), b = _mm256_cvtps_epi32(v_half1(x));
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
HY_INLINE __m256i v_load256(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
HY_INLINE v16 v_load_f16(const void *p) { return _mm512_cvtph_ps(v_load256(p)); }
HY_INLINE v16 v_load_bf16(const void *p)
{
    return v_from_bits(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v_load256(p)), 16));
}
HY_INLINE v16 v_from_i8(__m128i c) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(c)); }
HY_INLINE v16 v_load_i8(const void *p) { return v_from_i8(v_load128(p)); }
/* low and high nibbles of 16 bytes, minus 8: looked up, by the low four bits of each lane */
HY_INLINE v16 v_from_u4(__m512i c)
{
    return _mm512_permutexvar_ps(c, _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7));
}
HY_INLINE v16 v_load_lo4(const void *p) { return v_from_u4(_mm512_cvtepu8_epi32(v_load128(p))); }
HY_INLINE v16 v_load_hi4(const void *p)
{
    return v_from_u4(_mm512_srli_epi32(_mm512_cvtepu8_epi32(v_load128(p)), 4));
}

#endif
