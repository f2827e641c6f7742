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
    { .name = "scalar", .panel = 8, .proven = true },
    { .name = "neon", .panel = 8, .need = HY_CPU_NEON, .fill = hy_kern_fill_neon },
    { .name = "dotprod", .panel = 8, .need = HY_CPU_NEON | HY_CPU_DOTPROD, .fill = hy_kern_fill_dotprod },
    { .name = "i8mm", .panel = 8, .need = HY_CPU_NEON | HY_CPU_DOTPROD | HY_CPU_I8MM, .fill = hy_kern_fill_i8mm },
};
const uint32_t hy_kern_isa_count = HY_COUNT(hy_kern_isa_list);
#else
typedef int hy_kern_fill_arm_empty;
#endif
