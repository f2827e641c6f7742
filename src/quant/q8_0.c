/* Q8_0: 32 weights, value = d * q.
 *   half d | int8 q[32] */
#include "quant/pack.h"

enum { block_n = 32, block_bytes = 34 };

static void unpack(const void *src, float *dst, size_t n)
{
    const uint8_t *b = src;
    for (size_t i = 0; i < n; i += block_n, b += block_bytes, dst += block_n) {
        float d = load_f16(b);
        for (int k = 0; k < block_n; k++) dst[k] = (float)(int8_t)b[2 + k] * d;
    }
}

static const hy_pack_levels levels = {.lo = -127, .hi = 127, .step = 0.5f, .n_step = 3};

static void pack(const float *src, void *dst, size_t n, const float *importance)
{
    uint8_t *b = dst;
    hy_pack_group g;
    for (size_t i = 0; i < n; i += block_n, b += block_bytes) {
        hy_pack_load(&g, src + i, importance ? importance + i : NULL, block_n);
        float d = hy_pack_scale(&levels, g.x, g.w, block_n);
        uint16_t d16 = hy_pack_f16(d * g.amax);
        float inv = hy_pack_inverse(hy_f16_f32(d16) * g.inv);
        store_u16(b, d16);
        for (int k = 0; k < block_n; k++)
            b[2 + k] = (uint8_t)hy_pack_round(g.x[k] * inv, levels.lo, levels.hi);
    }
}

HY_QUANT_TRAITS(Q8_0, "q8_0", 8);
