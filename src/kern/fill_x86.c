/* The ISAs of a build for x86-64. Empty on other processors. */
#if defined(__x86_64__)
#include "kern/fill.h"

#define NEED_AVX2   (HY_CPU_AVX2 | HY_CPU_FMA | HY_CPU_F16C)
#define NEED_AVX512 (NEED_AVX2 | HY_CPU_AVX512 | HY_CPU_AVX512_VNNI)

void hy_kern_fill_avx2(hy_kernels *k, uint64_t cpu)
{
    if ((cpu & NEED_AVX2) != NEED_AVX2) return;
    k->isa = "avx2";
    if (k->panel == 8) hy_mm_fill_avx2(k, cpu);
    hy_vec_fill_avx2(k, cpu);
}

void hy_kern_fill_avx512(hy_kernels *k, uint64_t cpu)
{
    if ((cpu & NEED_AVX512) != NEED_AVX512) return;
    k->isa = "avx512";
    if (k->panel == 16) hy_mm_fill_avx512(k, cpu);
    hy_vec_fill_avx512(k, cpu);
}

static void fill_avx512(hy_kernels *k, uint64_t cpu)
{
    hy_kern_fill_avx2(k, cpu);
    hy_kern_fill_avx512(k, cpu);
}

#ifdef HY_EMU512 /* the avx512 sources through SIMDe: they run wherever avx2 does */
#define ISA_AVX512                                                                                 \
    {                                                                                              \
        "avx512", 16, true, NEED_AVX2, hy_kern_fill_emu512                                         \
    }
static void hy_kern_fill_emu512(hy_kernels *k, uint64_t cpu) { fill_avx512(k, cpu | NEED_AVX512); }
#else
#define ISA_AVX512                                                                                 \
    {                                                                                              \
        "avx512", 16, true, NEED_AVX512, fill_avx512                                               \
    }
#endif

const hy_kern_isa hy_kern_isa_list[] = {
    {"scalar", 8, true, 0, NULL},
    {"avx2", 8, true, NEED_AVX2, hy_kern_fill_avx2},
    ISA_AVX512,
};
const uint32_t hy_kern_isa_count = HY_COUNT(hy_kern_isa_list);
#else
typedef int hy_kern_fill_x86_empty;
#endif
