/* The ISAs of a build for AArch64. Empty on other processors. */
#if defined(__aarch64__)
#include "kern/fill.h"

void hy_kern_fill_neon(hy_kernels *k, uint64_t cpu)
{
    if (!(cpu & HY_CPU_NEON)) return;
    k->isa = "neon";
    hy_mm_fill_neon(k, cpu);
    hy_vec_fill_neon(k, cpu);
}

void hy_kern_fill_dotprod(hy_kernels *k, uint64_t cpu)
{
    hy_kern_fill_neon(k, cpu);
    if (!(cpu & HY_CPU_DOTPROD)) return;
    k->isa = "dotprod";
    hy_mm_fill_dotprod(k, cpu);
    hy_vec_fill_dotprod(k, cpu);
}

void hy_kern_fill_i8mm(hy_kernels *k, uint64_t cpu)
{
    hy_kern_fill_dotprod(k, cpu);
    if (!(cpu & HY_CPU_I8MM)) return;
    k->isa = "i8mm";
    hy_mm_fill_i8mm(k, cpu);
    hy_vec_fill_i8mm(k, cpu);
}

/* Run under an emulator only so far: the self-test decides at start. */
const hy_kern_isa hy_kern_isa_list[] = {
    {"scalar", 8, true, 0, NULL},
    {"neon", 8, false, HY_CPU_NEON, hy_kern_fill_neon},
    {"dotprod", 8, false, HY_CPU_NEON | HY_CPU_DOTPROD, hy_kern_fill_dotprod},
    {"i8mm", 8, false, HY_CPU_NEON | HY_CPU_DOTPROD | HY_CPU_I8MM, hy_kern_fill_i8mm},
};
const uint32_t hy_kern_isa_count = HY_COUNT(hy_kern_isa_list);
#else
typedef int hy_kern_fill_arm_empty;
#endif
