/* Measuring loops in plain C, one number at a time; reading in whatever vectors the compiler's base has. */
#include "probe/probe_room.h"

typedef uint64_t wide __attribute__((vector_size(16)));

uint64_t hy_probe_read_plain(const uint8_t *p, uint64_t bytes, uint64_t n)
{
    wide a = { 0 }, b = a, c = a, d = a;
    for (uint64_t r = 0; r < n; r++)
        for (uint64_t i = 0; i + 64 <= bytes; i += 64) {
            const wide *v = (const wide *)(const void *)(p + i);
            a ^= v[0];
            b ^= v[1];
            c ^= v[2];
            d ^= v[3];
        }
    a ^= b ^ c ^ d;
    return a[0] ^ a[1];
}

/* The empty asm makes a value unknown to the compiler, so that no product is taken out of the loop. */
#define OPAQUE(x) __asm__ volatile("" : "+r"(x))
enum { chains = 8 };
/* Every loop over the sums is unrolled: one that is not would keep them all in memory. */
#define EACH_CHAIN _Pragma("GCC unroll 8") for (int i = 0; i < chains; i++)

uint64_t hy_probe_int8_plain(uint64_t n)
{
    int32_t s[chains] = { 0 }, x = 3;
    for (uint64_t r = 0; r < n; r++) {
        EACH_CHAIN {
            int32_t y = -2;
            OPAQUE(y);
            s[i] += x * y;
            OPAQUE(s[i]);
        }
    }
    int32_t sum = 0;
    EACH_CHAIN sum ^= s[i];
    OPAQUE(sum);
    return n * chains * 2;
}

uint64_t hy_probe_f32_plain(uint64_t n)
{
    /* volatile values, loaded once: the compiler knows nothing about them */
    volatile float start = 1.0f, step = 0.999f, add = 1e-6f;
    float s[chains], x = step, y = add;
    EACH_CHAIN s[i] = start;
    for (uint64_t r = 0; r < n; r++) {
        EACH_CHAIN s[i] = s[i] * x + y;
        __asm__ volatile("" ::: "memory");
    }
    float sum = 0;
    EACH_CHAIN sum += s[i];
    start = sum;
    return n * chains * 2;
}
