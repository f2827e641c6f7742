/* Measuring loops of aarch64. The newer instructions are written out: their intrinsics would need the
 * whole file to be compiled for them. */
#include "probe/probe_room.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#define OPAQUE(v) __asm__ volatile("" : "+w"(v))
enum { chains = 12 };
/* Every loop over the sums is unrolled: one that is not would keep them all in memory. */
#define EACH_CHAIN _Pragma("GCC unroll 12") for (int i = 0; i < chains; i++)

/* smull and sadalp: what a product of 8-bit integers takes before the dot product. */
static uint64_t int8_neon(uint64_t n)
{
    int32x4_t s[chains];
    int8x8_t x = vdup_n_s8(3), y = vdup_n_s8(-2);
    EACH_CHAIN s[i] = vdupq_n_s32(i);
    for (uint64_t r = 0; r < n; r++) {
        EACH_CHAIN {
            OPAQUE(x);
            s[i] = vpadalq_s16(s[i], vmull_s8(x, y));
        }
    }
    EACH_CHAIN OPAQUE(s[i]);
    return n * chains * 8 * 2;
}

static uint64_t f32_neon(uint64_t n)
{
    float32x4_t s[chains], x = vdupq_n_f32(0.999f), y = vdupq_n_f32(1e-6f);
    EACH_CHAIN s[i] = vdupq_n_f32((float)i);
    for (uint64_t r = 0; r < n; r++) {
        OPAQUE(x);
        EACH_CHAIN s[i] = vfmaq_f32(s[i], x, y);
    }
    EACH_CHAIN OPAQUE(s[i]);
    return n * chains * 4 * 2;
}

static uint64_t int8_dotprod(uint64_t n)
{
    int32x4_t s[chains];
    int8x16_t x = vdupq_n_s8(3), y = vdupq_n_s8(-2);
    EACH_CHAIN s[i] = vdupq_n_s32(i);
    for (uint64_t r = 0; r < n; r++) {
        EACH_CHAIN
            __asm__ volatile(".arch armv8.2-a+dotprod\n\tsdot %0.4s, %1.16b, %2.16b"
                             : "+w"(s[i]) : "w"(x), "w"(y));
    }
    return n * chains * 16 * 2;
}

/* A 2x8 by 8x2 product an instruction. */
static uint64_t int8_i8mm(uint64_t n)
{
    int32x4_t s[chains];
    int8x16_t x = vdupq_n_s8(3), y = vdupq_n_s8(-2);
    EACH_CHAIN s[i] = vdupq_n_s32(i);
    for (uint64_t r = 0; r < n; r++) {
        EACH_CHAIN
            __asm__ volatile(".arch armv8.2-a+dotprod+i8mm\n\tsmmla %0.4s, %1.16b, %2.16b"
                             : "+w"(s[i]) : "w"(x), "w"(y));
    }
    return n * chains * 32 * 2;
}

const hy_probe_isa hy_probe_isa_list[] = {
    { "scalar", 0, hy_probe_int8_plain, hy_probe_f32_plain, hy_probe_read_plain },
    { "neon", HY_CPU_NEON, int8_neon, f32_neon, hy_probe_read_plain },
    { "dotprod", HY_CPU_NEON | HY_CPU_DOTPROD, int8_dotprod, f32_neon, hy_probe_read_plain },
    { "i8mm", HY_CPU_NEON | HY_CPU_I8MM, int8_i8mm, f32_neon, hy_probe_read_plain },
};
const uint32_t hy_probe_isa_count = HY_COUNT(hy_probe_isa_list);
#else
typedef int hy_probe_arm_empty;
#endif
