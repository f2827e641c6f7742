/* For preset emu512 alone: what avx512_mm.c uses and SIMDe 0.7.4 lacks, from AVX2 halves. */
#ifndef HY_KERN_EMU512_MM_H
#define HY_KERN_EMU512_MM_H

#include "kern/x86/emu512_vec.h"

#define MM_FEW 0 /* without the unrolled loops for few tokens: they take minutes to compile this way */

HY_INLINE __m512i hy_emu_madd_epi16(__m512i a, __m512i b)
{
    return hy_emu_join_i(
        _mm256_madd_epi16(_mm512_castsi512_si256(a), _mm512_castsi512_si256(b)),
        _mm256_madd_epi16(_mm512_extracti64x4_epi64(a, 1), _mm512_extracti64x4_epi64(b, 1)));
}
HY_INLINE __m512i hy_emu_cvtepu8_epi16(__m256i x)
{
    return hy_emu_join_i(_mm256_cvtepu8_epi16(_mm256_castsi256_si128(x)),
                         _mm256_cvtepu8_epi16(_mm256_extracti128_si256(x, 1)));
}
HY_INLINE __m512i hy_emu_srai_epi32(__m512i a, unsigned n)
{
    return hy_emu_join_i(_mm256_srai_epi32(_mm512_castsi512_si256(a), (int)n),
                         _mm256_srai_epi32(_mm512_extracti64x4_epi64(a, 1), (int)n));
}

#undef _mm512_madd_epi16
#undef _mm512_cvtepu8_epi16
#define _mm512_srai_epi32 hy_emu_srai_epi32
#define _mm512_madd_epi16 hy_emu_madd_epi16
#define _mm512_cvtepu8_epi16 hy_emu_cvtepu8_epi16

#endif
