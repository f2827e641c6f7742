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

static void fill_avxvnni(hy_kernels *k, uint64_t cpu)
{
    hy_kern_fill_avx2(k, cpu);
    k->isa = "avxvnni";
    if (cpu & HY_CPU_AVX_VNNI) hy_mm_fill_avxvnni(k, cpu);
    else hy_mm_fill_evexvnni(k, cpu);
}

static void fill_avx512bf16(hy_kernels *k, uint64_t cpu)
{
    fill_avx512(k, cpu);
    k->isa = "avx512bf16";
    hy_mm_fill_avx512bf16(k, cpu);
}

static void fill_amx(hy_kernels *k, uint64_t cpu)
{
    fill_avx512(k, cpu);
    k->isa = "amx";
    hy_mm_fill_amx(k, cpu);
}

#ifdef HY_EMU512 /* the sources for AVX-512 through SIMDe, and AMX's tiles in C: they run wherever avx2 does */
static void emu_avx512(hy_kernels *k, uint64_t cpu) { fill_avx512(k, cpu | NEED_AVX512); }
static void emu_amx(hy_kernels *k, uint64_t cpu) { fill_amx(k, cpu | NEED_AVX512); }
#define RUN_AVX512 .need = NEED_AVX2, .fill = emu_avx512
#define RUN_AMX    .need = NEED_AVX2, .fill = emu_amx
#else
#define RUN_AVX512 .need = NEED_AVX512, .fill = fill_avx512
#define RUN_AMX    .need = NEED_AVX512 | HY_CPU_AMX, .fill = fill_amx, .allow = hy_cpu_allow_amx
#endif

#define UNPROVEN "compiled, not proven on hardware"

const hy_kern_isa hy_kern_isa_list[] = {
    { .name = "scalar", .panel = 8, .proven = true },
    { .name = "avx2", .panel = 8, .proven = true, .need = NEED_AVX2, .fill = hy_kern_fill_avx2 },
    { .name = "avxvnni", .panel = 8, .need = NEED_AVX2 | HY_CPU_AVX_VNNI, .or_need = NEED_AVX512, .fill = fill_avxvnni,
      .off = UNPROVEN },
    { .name = "avx512", .panel = 16, .proven = true, RUN_AVX512 },
    { .name = "avx512bf16", .panel = 16, .proven = true, .need = NEED_AVX512 | HY_CPU_AVX512_BF16, .fill = fill_avx512bf16,
      .off = "rounds the activations of BF16 weights to BF16: faster prompts, other numbers" },
    { .name = "amx", .panel = 16, RUN_AMX, .off = UNPROVEN },
};
const uint32_t hy_kern_isa_count = HY_COUNT(hy_kern_isa_list);
#else
typedef int hy_kern_fill_x86_empty;
#endif
