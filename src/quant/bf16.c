/* BF16: bfloat16: the upper half of a single. */
#include "quant/format.h"

enum { block_n = 1, block_bytes = 2 };

static void unpack(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t i = 0; i < n; i++) dst[i] = hy_bf16_f32(load_u16(p + 2 * i));
}

/* Rounding to nearest is the best for any weights: importance is not needed. */
static void pack(const float *src, void *dst, size_t n, const float *importance)
{
    uint8_t *p = dst;
    for (size_t i = 0; i < n; i++) store_u16(p + 2 * i, hy_f32_bf16(src[i]));
}

HY_QUANT_TRAITS_OF(BF16, "bf16", 30, true);
