/* kern/x86, private: what both widths do on 128-bit parts. */
#ifndef HY_KERN_X86_V16_X86_H
#define HY_KERN_X86_V16_X86_H

/* Four vectors of four: the largest lane of each, in a lane. */
HY_INLINE __m128i hy_max4x4(__m128i a, __m128i b, __m128i c, __m128i d)
{
    __m128i ab = _mm_max_epi32(_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
    __m128i cd = _mm_max_epi32(_mm_unpacklo_epi32(c, d), _mm_unpackhi_epi32(c, d));
    return _mm_max_epi32(_mm_unpacklo_epi64(ab, cd), _mm_unpackhi_epi64(ab, cd));
}
/* Their sums. */
HY_INLINE __m128i hy_sum4x4(__m128i a, __m128i b, __m128i c, __m128i d)
{
    __m128i ab = _mm_add_epi32(_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
    __m128i cd = _mm_add_epi32(_mm_unpacklo_epi32(c, d), _mm_unpackhi_epi32(c, d));
    return _mm_add_epi32(_mm_unpacklo_epi64(ab, cd), _mm_unpackhi_epi64(ab, cd));
}
HY_INLINE __m128i hy_max8(__m256i x)
{
    return _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
}
/* 16 integers of -127..127 in two vectors to bytes; four sums of -128 times them. */
HY_INLINE __m128i hy_store_i8(int8_t *q, __m256i a, __m256i b)
{
    __m256i w = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
    __m128i c = _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
    _mm_storeu_si128((__m128i *)(void *)q, c);
    __m256i s = _mm256_madd_epi16(w, _mm256_set1_epi16(-128));
    return _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
}

#endif
