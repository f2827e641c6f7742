/* F16: IEEE half precision. */
#include "quant/format.h"

enum { block_n = 1, block_bytes = 2 };

static void unpack(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t i = 0; i < n; i++) dst[i] = hy_f16_f32(load_u16(p + 2 * i));
}

/* Rounding to nearest is the best for any weights: importance is not needed. */
static void pack(const float *src, void *dst, size_t n, const float *importance)
{
    uint8_t *p = dst;
    for (size_t i = 0; i < n; i++) store_u16(p + 2 * i, hy_f32_f16(src[i]));
}

static double dot(const void *w, const float *x, size_t n)
{
    float y[256];
    double sum = 0;
    for (size_t i = 0, k; i < n; i += k) {
        k = HY_MIN(n - i, HY_COUNT(y));
        unpack((const uint8_t *)w + i * block_bytes, y, k);
        for (size_t j = 0; j < k; j++) sum += (double)y[j] * x[i + j];
    }
    return sum;
}

const hy_qtraits hy_quant_traits_F16 = {
    .name = "f16", .ggml_type = 1, .block = block_n, .block_bytes = block_bytes,
    .is_float = true, .unpack = unpack, .pack = pack, .dot = dot};
