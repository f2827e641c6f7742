/* For preset emu512 alone: what v16_avx512.h uses and SIMDe 0.7.4 lacks, from AVX2 halves or plain
 * loops. Included after intrin512.h. */
#ifndef HY_KERN_EMU512_VEC_H
#define HY_KERN_EMU512_VEC_H

#ifndef _CMP_LT_OQ
#define _CMP_LT_OQ SIMDE_CMP_LT_OQ
#define _CMP_EQ_OQ SIMDE_CMP_EQ_OQ
#endif

HY_INLINE __m512 hy_emu_join(__m256 a, __m256 b)
{
    float f[16];
    _mm256_storeu_ps(f, a);
    _mm256_storeu_ps(f + 8, b);
    return _mm512_loadu_ps(f);
}
HY_INLINE __m512i hy_emu_join_i(__m256i a, __m256i b)
{
    int32_t v[16];
    _mm256_storeu_si256((__m256i *)(void *)v, a);
    _mm256_storeu_si256((__m256i *)(void *)(v + 8), b);
    return _mm512_loadu_si512(v);
}

HY_INLINE __m512 hy_emu_maskz_loadu_ps(__mmask16 m, const float *p)
{
    float f[16];
    for (int i = 0; i < 16; i++) f[i] = m >> i & 1 ? p[i] : 0.0f;
    return _mm512_loadu_ps(f);
}
HY_INLINE void hy_emu_mask_storeu_ps(float *p, __mmask16 m, __m512 x)
{
    float f[16];
    _mm512_storeu_ps(f, x);
    for (int i = 0; i < 16; i++)
        if (m >> i & 1) p[i] = f[i];
}
HY_INLINE __m512 hy_emu_cvtph_ps(__m256i h)
{
    return hy_emu_join(_mm256_cvtph_ps(_mm256_castsi256_si128(h)),
                       _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1)));
}
HY_INLINE __m512 hy_emu_cvtepi32_ps(__m512i x)
{
    return hy_emu_join(_mm256_cvtepi32_ps(_mm512_castsi512_si256(x)),
                       _mm256_cvtepi32_ps(_mm512_extracti64x4_epi64(x, 1)));
}
HY_INLINE __m512i hy_emu_cvtps_epi32(__m512 x)
{
    return hy_emu_join_i(_mm256_cvtps_epi32(_mm512_castps512_ps256(x)),
                         _mm256_cvtps_epi32(_mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1))));
}
HY_INLINE __m512i hy_emu_cvtepu16_epi32(__m256i x)
{
    return hy_emu_join_i(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(x)),
                         _mm256_cvtepu16_epi32(_mm256_extracti128_si256(x, 1)));
}
HY_INLINE __m512i hy_emu_cvtepu8_epi32(__m128i x)
{
    return hy_emu_join_i(_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8)));
}
HY_INLINE __m512i hy_emu_cvtepi8_epi32(__m128i x)
{
    return hy_emu_join_i(_mm256_cvtepi8_epi32(x), _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8)));
}

#undef _mm512_maskz_loadu_ps
#undef _mm512_mask_storeu_ps
#undef _mm512_cvtph_ps
#undef _mm512_cvtepi32_ps
#undef _mm512_cvtps_epi32
#undef _mm512_cvtepu16_epi32
#undef _mm512_cvtepi8_epi32
#undef _mm512_cvtepu8_epi32
#define _mm512_maskz_loadu_ps hy_emu_maskz_loadu_ps
#define _mm512_mask_storeu_ps hy_emu_mask_storeu_ps
#define _mm512_cvtph_ps       hy_emu_cvtph_ps
#define _mm512_cvtepi32_ps    hy_emu_cvtepi32_ps
#define _mm512_cvtps_epi32    hy_emu_cvtps_epi32
#define _mm512_cvtepu16_epi32 hy_emu_cvtepu16_epi32
#define _mm512_cvtepi8_epi32  hy_emu_cvtepi8_epi32
#define _mm512_cvtepu8_epi32  hy_emu_cvtepu8_epi32

#endif
