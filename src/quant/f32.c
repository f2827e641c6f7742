/* F32: Single precision, as it is. */
#include "quant/format.h"

enum { block_n = 1, block_bytes = 4 };

static void unpack(const void *src, float *dst, size_t n)
{
    memcpy(dst, src, n * 4);
}

/* Rounding to nearest is the best for any weights: importance is not needed. */
static void pack(const float *src, void *dst, size_t n, const float *importance)
{
    memcpy(dst, src, n * 4);
}

HY_QUANT_TRAITS_OF(F32, "f32", 0, true);
