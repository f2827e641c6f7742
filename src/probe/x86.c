/* Measuring loops of x86-64. Every function names the instruction set that it is compiled for, and is
 * called only where the processor has it. */
#include "probe/probe_room.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,fma")))
#define VNNI __attribute__((target("avx2,avxvnni")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vnni")))
/* Makes a register's value unknown to the compiler, so that no product is taken out of the loop. */
#define OPAQUE(v) __asm__ volatile("" : "+v"(v))
enum { chains = 12 };          /* latency of 4 or 5 times two a cycle, and room in 16 registers */
/* Every loop over the sums is unrolled: one that is not would keep them all in memory. */
#define EACH_CHAIN _Pragma("GCC unroll 12") for (int i = 0; i < chains; i++)

AVX2 static uint64_t read_avx2(const uint8_t *p, uint64_t bytes, uint64_t n)
{
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    for (uint64_t r = 0; r < n; r++)
        for (uint64_t i = 0; i + 256 <= bytes; i += 256) {
            const __m256i *v = (const __m256i *)(const void *)(p + i);
            a = _mm256_xor_si256(a, _mm256_load_si256(v));
            b = _mm256_xor_si256(b, _mm256_load_si256(v + 1));
            c = _mm256_xor_si256(c, _mm256_load_si256(v + 2));
            d = _mm256_xor_si256(d, _mm256_load_si256(v + 3));
            a = _mm256_xor_si256(a, _mm256_load_si256(v + 4));
            b = _mm256_xor_si256(b, _mm256_load_si256(v + 5));
            c = _mm256_xor_si256(c, _mm256_load_si256(v + 6));
            d = _mm256_xor_si256(d, _mm256_load_si256(v + 7));
        }
    a = _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d));
    return (uint64_t)_mm256_extract_epi64(a, 0);
}

/* maddubs, madd, add: what a product of 8-bit integers takes before VNNI. */
AVX2 static uint64_t int8_avx2(uint64_t n)
{
    __m256i s[chains], x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(-2), one = _mm256_set1_epi16(1);
    EACH_CHAIN s[i] = _mm256_set1_epi32(i);
    for (uint64_t r = 0; r < n; r++) {
        EACH_CHAIN {
            OPAQUE(x);
            s[i] = _mm256_add_epi32(s[i], _mm256_madd_epi16(_mm256_maddubs_epi16(x, y), one));
        }
    }
    EACH_CHAIN OPAQUE(s[i]);
    return n * chains * 32 * 2;
}

AVX2 static uint64_t f32_avx2(uint64_t n)
{
    __m256 s[chains], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-6f);
    EACH_CHAIN s[i] = _mm256_set1_ps((float)i);
    for (uint64_t r = 0; r < n; r++) {
        OPAQUE(x);
        EACH_CHAIN s[i] = _mm256_fmadd_ps(s[i], x, y);
    }
    EACH_CHAIN OPAQUE(s[i]);
    return n * chains * 8 * 2;
}

VNNI static uint64_t int8_vnni(uint64_t n)
{
    __m256i s[chains], x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(-2);
    EACH_CHAIN s[i] = _mm256_set1_epi32(i);
    for (uint64_t r = 0; r < n; r++) {
        __asm__ volatile("" : "+x"(x));
        EACH_CHAIN s[i] = _mm256_dpbusd_avx_epi32(s[i], x, y);
    }
    EACH_CHAIN __asm__ volatile("" : "+x"(s[i]));
    return n * chains * 32 * 2;
}

AVX512 static uint64_t read_avx512(const uint8_t *p, uint64_t bytes, uint64_t n)
{
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    for (uint64_t r = 0; r < n; r++)
        for (uint64_t i = 0; i + 512 <= bytes; i += 512) {
            const uint8_t *v = p + i;
            a = _mm512_xor_si512(a, _mm512_load_si512(v));
            b = _mm512_xor_si512(b, _mm512_load_si512(v + 64));
            c = _mm512_xor_si512(c, _mm512_load_si512(v + 128));
            d = _mm512_xor_si512(d, _mm512_load_si512(v + 192));
            a = _mm512_xor_si512(a, _mm512_load_si512(v + 256));
            b = _mm512_xor_si512(b, _mm512_load_si512(v + 320));
            c = _mm512_xor_si512(c, _mm512_load_si512(v + 384));
            d = _mm512_xor_si512(d, _mm512_load_si512(v + 448));
        }
    a = _mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(c, d));
    return (uint64_t)_mm512_reduce_add_epi64(a);
}

AVX512 static uint64_t int8_avx512(uint64_t n)
{
    __m512i s[chains], x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(-2);
    EACH_CHAIN s[i] = _mm512_set1_epi32(i);
    for (uint64_t r = 0; r < n; r++) {
        OPAQUE(x);
        EACH_CHAIN s[i] = _mm512_dpbusd_epi32(s[i], x, y);
    }
    EACH_CHAIN OPAQUE(s[i]);
    return n * chains * 64 * 2;
}

AVX512 static uint64_t f32_avx512(uint64_t n)
{
    __m512 s[chains], x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-6f);
    EACH_CHAIN s[i] = _mm512_set1_ps((float)i);
    for (uint64_t r = 0; r < n; r++) {
        OPAQUE(x);
        EACH_CHAIN s[i] = _mm512_fmadd_ps(s[i], x, y);
    }
    EACH_CHAIN OPAQUE(s[i]);
    return n * chains * 16 * 2;
}

#define NEED_AVX2 (HY_CPU_AVX2 | HY_CPU_FMA)
const hy_probe_isa hy_probe_isa_list[] = {
    { "scalar", 0, hy_probe_int8_plain, hy_probe_f32_plain, hy_probe_read_plain },
    { "avx2", NEED_AVX2, int8_avx2, f32_avx2, read_avx2 },
    { "avx_vnni", NEED_AVX2 | HY_CPU_AVX_VNNI, int8_vnni, f32_avx2, read_avx2 },
    { "avx512", NEED_AVX2 | HY_CPU_AVX512 | HY_CPU_AVX512_VNNI, int8_avx512, f32_avx512, read_avx512 },
};
const uint32_t hy_probe_isa_count = HY_COUNT(hy_probe_isa_list);
#else
typedef int hy_probe_x86_empty;
#endif
