/* kern/arm: matmul with SDOT: four products a lane, the activations' four bytes picked by lane. */
#include "kern/arm/neon_mm.h"

HY_INLINE VI chunks4(VI sum, const VI *c, const int8_t *q)
{
    int8x16_t x = vld1q_s8(q);
    for (int h = 0; h < 2; h++) {
        sum.v[h] = vdotq_laneq_s32(sum.v[h], S8(c[0].v[h]), x, 0);
        sum.v[h] = vdotq_laneq_s32(sum.v[h], S8(c[1].v[h]), x, 1);
        sum.v[h] = vdotq_laneq_s32(sum.v[h], S8(c[2].v[h]), x, 2);
        sum.v[h] = vdotq_laneq_s32(sum.v[h], S8(c[3].v[h]), x, 3);
    }
    return sum;
}

#include "kern/mm_body.h"

void hy_mm_fill_dotprod(hy_kernels *k, uint64_t cpu)
{
    fill_mm(k);
}
