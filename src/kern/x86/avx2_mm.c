/* kern/x86: matmul on AVX2. Codes stay bytes; maddubs wants one unsigned factor (the weight's) and
 * must not saturate, so how many of its 16-bit sums are added before widening depends on the type:
 *   codes up to 31   4 chunks (all there are): 4 * 2 * 31 * 127 = 31496
 *   up to 63         2 chunks: 32004
 *   int8             |w| times x with w's sign, one chunk: 2 * 128 * 127 = 32512
 *   MXFP4            the same, |w| <= 12: 4 chunks: 12192 */
#include "kern/fill.h"
#include "kern/panel.h"
#include <immintrin.h>

#define MM_P 8
#define MM_TILE 4
#define MM_FEW 8
#define MM_TILE_F 2
#define MM_NP 4
typedef __m256i VI;
typedef __m256 VF;

HY_INLINE VI v_load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
HY_INLINE void v_prefetch(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T0); }
HY_INLINE VI v_zero(void) { return _mm256_setzero_si256(); }
HY_INLINE VI v_and(VI a, VI b) { return _mm256_and_si256(a, b); }
HY_INLINE VI v_or(VI a, VI b) { return _mm256_or_si256(a, b); }
HY_INLINE VI v_sll(VI a, int n) { return _mm256_slli_epi16(a, n); }
HY_INLINE VI v_srl(VI a, int n) { return _mm256_srli_epi16(a, n); }
HY_INLINE VI v_shr16(VI a, int n) { return _mm256_srli_epi16(a, n); }
HY_INLINE VI v_sub32(VI a, VI b) { return _mm256_sub_epi32(a, b); }
HY_INLINE VI v_set8(int b) { return _mm256_set1_epi8((char)b); }
HY_INLINE VI v_set16(int b) { return _mm256_set1_epi16((short)b); }
HY_INLINE VI v_set32(int b) { return _mm256_set1_epi32(b); }
HY_INLINE VI v_fix_signed(VI a) { return a; }
HY_INLINE VI v_lookup(const int8_t *table, VI v)
{
    __m128i t = _mm_loadu_si128((const __m128i *)table);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(t), v);
}
HY_INLINE VI v_pairs_i8(const uint8_t *p)
{
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p));
}
HY_INLINE VI v_pairs_u8(const uint8_t *p)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p));
}
HY_INLINE VI v_lo16(VI v) { return _mm256_srai_epi32(_mm256_slli_epi32(v, 16), 16); }
HY_INLINE VI v_hi16(VI v) { return _mm256_srai_epi32(v, 16); }
HY_INLINE VI v_sra32(VI v, int n) { return _mm256_srai_epi32(v, n); }
HY_INLINE VI v_bcast32(const int32_t *p) { return _mm256_set1_epi32(*p); }
HY_INLINE VI v_byte_i32(VI v, int j, bool is_signed)
{
    if (is_signed) return _mm256_srai_epi32(_mm256_slli_epi32(v, 24 - 8 * j), 24);
    return _mm256_and_si256(_mm256_srli_epi32(v, 8 * j), _mm256_set1_epi32(255));
}
HY_INLINE VF f_load(const float *p) { return _mm256_loadu_ps(p); }
HY_INLINE void f_store(float *p, VF v) { _mm256_storeu_ps(p, v); }
HY_INLINE VF f_zero(void) { return _mm256_setzero_ps(); }
HY_INLINE VF f_set(const float *p) { return _mm256_broadcast_ss(p); }
HY_INLINE VF f_i32(VI v) { return _mm256_cvtepi32_ps(v); }
HY_INLINE VF f_mul(VF a, VF b) { return _mm256_mul_ps(a, b); }
HY_INLINE VF f_add(VF a, VF b) { return _mm256_add_ps(a, b); }
HY_INLINE VF f_fma(VF a, VF b, VF c) { return _mm256_fmadd_ps(a, b, c); }
HY_INLINE VF f_keep(VF v)
{
    __asm__("" : "+x"(v));
    return v;
}
HY_INLINE VF f_neg(VF a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
HY_INLINE VF f_f16(const uint8_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
HY_INLINE VF f_bf16(const uint8_t *p)
{
    VI v = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(v, 16));
}
HY_INLINE VI v_u8_i32(const uint8_t *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}
HY_INLINE VF f_u8(const uint8_t *p) { return f_i32(v_u8_i32(p)); }
HY_INLINE VF f_i8(const uint8_t *p)
{
    return f_i32(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
HY_INLINE VF f_e8m0(const uint8_t *p)
{
    VI e = v_u8_i32(p), one = _mm256_set1_epi32(1);
    VI normal = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
    VI tiny = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(tiny, normal, _mm256_cmpgt_epi32(e, one)));
}

HY_INLINE bool mm_signed(hy_qtype t)
{
    return t == HY_Q_Q8_0 || t == HY_Q_IQ4_NL || t == HY_Q_IQ4_XS || t == HY_Q_MXFP4;
}
HY_INLINE int mm_offset(hy_qtype t) { return hy_pf_offset(t); }

/* Types whose int8 loops are the same, by the name of one of them. */
#define MM_CLASSES(X) X(Q8_0) X(Q4_1) X(Q2_K) X(Q3_K) X(Q6_K) X(MXFP4)
#define MM_TYPES(X)                                                                                \
    X(Q8_0, Q8_0) X(Q4_0, Q4_1) X(Q4_1, Q4_1) X(Q5_0, Q4_1) X(Q5_1, Q4_1) X(Q2_K, Q2_K)            \
    X(Q3_K, Q3_K) X(Q4_K, Q4_1) X(Q5_K, Q4_1) X(Q6_K, Q6_K) X(IQ4_NL, Q8_0) X(IQ4_XS, Q8_0)        \
    X(MXFP4, MXFP4)

HY_INLINE const int8_t *x_q(const int8_t *q, size_t off);
HY_INLINE void v_dots(hy_qtype t, const VI *c, const int8_t *q, const size_t *off, VI *sum,
                      const int n)
{
    const bool neg = mm_signed(t);
    /* chunks whose 16-bit sums fit together */
    const int run = t == HY_Q_Q6_K ? 2 : neg && t != HY_Q_MXFP4 ? 1 : 4;
    VI v[4];
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) {
        VI w = c[i], a = neg ? _mm256_abs_epi8(w) : w;
        _Pragma("GCC unroll 4") for (int j = 0; j < n; j++) {
            int32_t four;
            memcpy(&four, x_q(q, off[j]) + 4 * i, 4);
            VI x = _mm256_set1_epi32(four);
            VI p = _mm256_maddubs_epi16(a, neg ? _mm256_sign_epi8(x, w) : x);
            v[j] = i % run ? _mm256_add_epi16(v[j], p) : p;
            if (i % run == run - 1)
                sum[j] = _mm256_add_epi32(sum[j], _mm256_madd_epi16(v[j], _mm256_set1_epi16(1)));
        }
    }
}

#include "kern/mm_body.h"

void hy_mm_fill_avx2(hy_kernels *k, uint64_t cpu)
{
    fill_mm(k);
}
