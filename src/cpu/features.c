/* Feature bits: cached, and as text. */
#include "cpu/cpu_room.h"
#include <stdatomic.h>
#include <stdio.h>

#define KNOWN (1ull << 63) /* of the cache, not of a feature */

uint64_t hy_cpu_features(void)
{
    /* The same value whoever computes it first: a race only repeats the work. */
    static _Atomic uint64_t cache;
    uint64_t f = atomic_load_explicit(&cache, memory_order_relaxed);
    if (!(f & KNOWN)) {
        f = hy_cpu_features_read() | KNOWN;
        atomic_store_explicit(&cache, f, memory_order_relaxed);
    }
    return f & ~KNOWN;
}

void hy_cpu_features_str(uint64_t f, char *out, size_t n)
{
    static const struct {
        uint64_t bit;
        const char *name;
    } names[] = {
        {HY_CPU_AVX2, "avx2"},
        {HY_CPU_FMA, "fma"},
        {HY_CPU_F16C, "f16c"},
        {HY_CPU_AVX512, "avx512"},
        {HY_CPU_AVX512_VNNI, "avx512_vnni"},
        {HY_CPU_AVX512_BF16, "avx512_bf16"},
        {HY_CPU_AVX_VNNI, "avx_vnni"},
        {HY_CPU_AMX, "amx"},
        {HY_CPU_NEON, "neon"},
        {HY_CPU_DOTPROD, "dotprod"},
        {HY_CPU_I8MM, "i8mm"},
        {HY_CPU_BF16, "bf16"},
        {HY_CPU_SVE, "sve"},
    };
    size_t at = 0;
    if (!n) return;
    out[0] = 0;
    for (size_t i = 0; i < HY_COUNT(names) && at < n; i++)
        if (f & names[i].bit)
            at += (size_t)snprintf(out + at, n - at, "%s%s", at ? " " : "", names[i].name);
}
