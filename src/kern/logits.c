/* What is known of a block of logits: by the table's own maximum and exp, so it is the same on every ISA. */
#include "kern/kern.h"
#include <math.h>
#include <string.h>

void hy_kern_logit_block(const void *kernels, const float *x, uint32_t n, float t, float *max, float *sum)
{
    const hy_kernels *k = kernels;
    float m = k->max(x, n);
    *max = m;
    if (!sum) return;
    float key[HY_LOGIT_BLOCK] = { 0 };
    memcpy(key, x, n * sizeof *key);
    for (uint32_t i = 0; t != 1 && i < HY_LOGIT_BLOCK; i++) key[i] = key[i] / t; /* a count that compilers make vectors of */
    *sum = m > -INFINITY ? k->exp_sum(key, m / t, n) : 0;
}
