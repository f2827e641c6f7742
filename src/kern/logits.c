/* What is known of a block of logits: by the table's own maximum and exp, so it is the same on every ISA. */
#include "kern/kern.h"
#include <math.h>

void hy_kern_logit_block(const void *kernels, const float *x, uint32_t n, float t, float *max, float *sum)
{
    const hy_kernels *k = kernels;
    float m = k->max(x, n);
    *max = m;
    if (!sum) return;
    float key[HY_LOGIT_BLOCK];
    for (uint32_t i = 0; i < n; i++) key[i] = x[i];
    for (uint32_t i = 0; t != 1 && i < n; i++) key[i] = key[i] / t;
    *sum = m > -INFINITY ? k->exp_sum(key, m / t, n) : 0;
}
