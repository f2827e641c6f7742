/* kern/x86: the vector types and operations of 16 lanes that mm_body.h wants, with VNNI. dpbusd multiplies unsigned by
 * signed bytes and sums four in 32 bits without saturation; weights are the unsigned side, so that activations can be
 * broadcast from memory by the instruction itself. Signed codes get 128 added, and the sums take it off. */
#ifndef HY_KERN_X86_MM_AVX512_H
#define HY_KERN_X86_MM_AVX512_H

#include "kern/fill.h"
#include "kern/panel.h"
#include "kern/x86/intrin512.h"
#ifdef HY_EMU512
#include "kern/x86/emu512_mm.h"
#endif

#define MM_P 16
typedef __m512i VI;
typedef __m512 VF;

HY_INLINE VI v_load(const void *p) { return _mm512_loadu_si512(p); }
HY_INLINE void v_prefetch(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T1); }
HY_INLINE VI v_zero(void) { return _mm512_setzero_si512(); }
HY_INLINE VI v_and(VI a, VI b) { return _mm512_and_si512(a, b); }
HY_INLINE VI v_or(VI a, VI b) { return _mm512_or_si512(a, b); }
HY_INLINE VI v_sll(VI a, int n) { return _mm512_slli_epi16(a, (unsigned)n); }
HY_INLINE VI v_srl(VI a, int n) { return _mm512_srli_epi16(a, (unsigned)n); }
HY_INLINE VI v_shr16(VI a, int n) { return _mm512_srli_epi16(a, (unsigned)n); }
HY_INLINE VI v_add32(VI a, VI b) { return _mm512_add_epi32(a, b); }
HY_INLINE VI v_sllv32(VI a, VI n) { return _mm512_sllv_epi32(a, n); }
HY_INLINE VI v_sub32(VI a, VI b) { return _mm512_sub_epi32(a, b); }
HY_INLINE VI v_set8(int b) { return _mm512_set1_epi8((char)b); }
HY_INLINE VI v_set16(int b) { return _mm512_set1_epi16((short)b); }
HY_INLINE VI v_set32(int b) { return _mm512_set1_epi32(b); }
HY_INLINE VI v_fix_signed(hy_qtype t, VI a) { return _mm512_xor_si512(a, v_set8(-128)); }
HY_INLINE VI v_table(const int8_t *p) { return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)p)); }
HY_INLINE VI v_lookup(VI table, VI v) { return _mm512_shuffle_epi8(table, v); }
HY_INLINE __m256i load_32(const uint8_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
HY_INLINE __m128i load_16(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)p); }
HY_INLINE VI v_pairs_i8(const uint8_t *p) { return _mm512_cvtepi8_epi16(load_32(p)); }
HY_INLINE VI v_pairs_u8(const uint8_t *p) { return _mm512_cvtepu8_epi16(load_32(p)); }
HY_INLINE VI v_lo16(VI v) { return _mm512_srai_epi32(_mm512_slli_epi32(v, 16), 16); }
HY_INLINE VI v_hi16(VI v) { return _mm512_srai_epi32(v, 16); }
HY_INLINE VI v_sra32(VI v, int n) { return _mm512_srai_epi32(v, (unsigned)n); }
HY_INLINE VI v_bcast32(const int32_t *p) { return _mm512_set1_epi32(*p); }
HY_INLINE VI v_byte_i32(VI v, int j, bool is_signed)
{
    return _mm512_and_si512(_mm512_srli_epi32(v, (unsigned)(8 * j)), _mm512_set1_epi32(255));
}
HY_INLINE VF f_load(const float *p) { return _mm512_loadu_ps(p); }
HY_INLINE void f_store(float *p, VF v) { _mm512_storeu_ps(p, v); }
HY_INLINE VF f_zero(void) { return _mm512_setzero_ps(); }
HY_INLINE VF f_set(const float *p) { return _mm512_set1_ps(*p); }
HY_INLINE VF f_i32(VI v) { return _mm512_cvtepi32_ps(v); }
HY_INLINE VF f_mul(VF a, VF b) { return _mm512_mul_ps(a, b); }
HY_INLINE VF f_add(VF a, VF b) { return _mm512_add_ps(a, b); }
HY_INLINE VF f_fma(VF a, VF b, VF c) { return _mm512_fmadd_ps(a, b, c); }
HY_INLINE VF f_keep(VF v)
{
#ifndef HY_EMU512
    __asm__("" : "+v"(v));
#endif
    return v;
}
HY_INLINE VF f_neg(VF a)
{
    VI sign = _mm512_set1_epi32((int)0x80000000u);
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a), sign));
}
HY_INLINE VF f_f16(const uint8_t *p) { return _mm512_cvtph_ps(load_32(p)); }
HY_INLINE VF f_bf16(const uint8_t *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_32(p)), 16));
}
HY_INLINE VF f_u8(const uint8_t *p) { return f_i32(_mm512_cvtepu8_epi32(load_16(p))); }
HY_INLINE VF f_i8(const uint8_t *p) { return f_i32(_mm512_cvtepi8_epi32(load_16(p))); }
HY_INLINE VF f_e8m0(const uint8_t *p)
{
    VI e = _mm512_cvtepu8_epi32(load_16(p)), one = _mm512_set1_epi32(1);
    VI normal = _mm512_slli_epi32(_mm512_sub_epi32(e, one), 23);
    VI tiny = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
    __mmask16 is_normal = _mm512_cmpgt_epi32_mask(e, one);
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(tiny, is_normal, normal));
}

#define v_dpbusd _mm512_dpbusd_epi32
#include "kern/x86/mm_dpbusd.h"

#endif
