/* kern/x86: the vector types and operations of 8 lanes that mm_body.h wants, for the ISAs whose panels have 8 rows.
 * What they differ in (signed codes, v_dots, tiles) is in their own files. */
#ifndef HY_KERN_X86_MM_AVX2_H
#define HY_KERN_X86_MM_AVX2_H

#include "kern/fill.h"
#include "kern/panel.h"
#include <immintrin.h>

#define MM_P 8
typedef __m256i VI;
typedef __m256 VF;

HY_INLINE VI v_load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
HY_INLINE void v_prefetch(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T1); }
HY_INLINE VI v_zero(void) { return _mm256_setzero_si256(); }
HY_INLINE VI v_and(VI a, VI b) { return _mm256_and_si256(a, b); }
HY_INLINE VI v_or(VI a, VI b) { return _mm256_or_si256(a, b); }
HY_INLINE VI v_sll(VI a, int n) { return _mm256_slli_epi16(a, n); }
HY_INLINE VI v_srl(VI a, int n) { return _mm256_srli_epi16(a, n); }
HY_INLINE VI v_shr16(VI a, int n) { return _mm256_srli_epi16(a, n); }
HY_INLINE VI v_add32(VI a, VI b) { return _mm256_add_epi32(a, b); }
HY_INLINE VI v_sllv32(VI a, VI n) { return _mm256_sllv_epi32(a, n); }
HY_INLINE VI v_sub32(VI a, VI b) { return _mm256_sub_epi32(a, b); }
HY_INLINE VI v_set8(int b) { return _mm256_set1_epi8((char)b); }
HY_INLINE VI v_set16(int b) { return _mm256_set1_epi16((short)b); }
HY_INLINE VI v_set32(int b) { return _mm256_set1_epi32(b); }
HY_INLINE VI v_table(const int8_t *p) { return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p)); }
HY_INLINE VI v_lookup(VI table, VI v) { return _mm256_shuffle_epi8(table, v); }
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
HY_INLINE VI v_keep(VI v)
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

#endif
