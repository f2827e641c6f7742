/* kern/arm: matmul on NEON without dot products: 16-bit products, added in pairs twice. */
#include "kern/arm/neon_mm.h"

/* Products of 16 bytes, summed in fours. A product fits 16 bits (128 * 127), two may not (32512 does):
 * the first pairwise addition widens. */
HY_INLINE int32x4_t dot4(int32x4_t sum, int8x16_t w, int8x16_t x)
{
    int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(w), vget_low_s8(x)));
    int32x4_t high = vpaddlq_s16(vmull_high_s8(w, x));
    return vaddq_s32(sum, vpaddq_s32(low, high));
}
HY_INLINE VI chunks4(VI sum, const VI *c, const int8_t *q)
{
    for (int i = 0; i < 4; i++) {
        int32_t four;
        memcpy(&four, q + 4 * i, 4);
        int8x16_t x = S8(vdupq_n_s32(four));
        for (int h = 0; h < 2; h++) sum.v[h] = dot4(sum.v[h], S8(c[i].v[h]), x);
    }
    return sum;
}

#include "kern/mm_body.h"

void hy_mm_fill_neon(hy_kernels *k, uint64_t cpu)
{
    fill_mm(k);
}
