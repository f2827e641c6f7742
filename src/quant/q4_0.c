/* Q4_0: 32 weights, value = d * (q - 8).
 *   half d | q[16]: byte k holds weight k (low nibble) and k + 16 (high nibble) */
#include "quant/pack.h"

enum { block_n = 32, block_bytes = 18 };

static void unpack(const void *src, float *dst, size_t n)
{
    const uint8_t *b = src;
    for (size_t i = 0; i < n; i += block_n, b += block_bytes, dst += block_n) {
        float d = load_f16(b);
        for (int k = 0; k < 16; k++) {
            dst[k] = (float)((b[2 + k] & 15) - 8) * d;
            dst[k + 16] = (float)((b[2 + k] >> 4) - 8) * d;
        }
    }
}

static const hy_pack_levels levels = {.lo = -8, .hi = 7, .step = 0.15f, .n_step = 6};

static void pack(const float *src, void *dst, size_t n, const float *importance)
{
    uint8_t *b = dst;
    hy_pack_group g;
    for (size_t i = 0; i < n; i += block_n, b += block_bytes) {
        hy_pack_load(&g, src + i, importance ? importance + i : NULL, block_n);
        uint16_t d16 = hy_pack_f16(hy_pack_scale(&levels, g.x, g.w, block_n) * g.amax);
        float inv = hy_pack_inverse(hy_f16_f32(d16) * g.inv);
        store_u16(b, d16);
        for (int k = 0; k < 16; k++) {
            int low = hy_pack_round(g.x[k] * inv, levels.lo, levels.hi) + 8;
            int high = hy_pack_round(g.x[k + 16] * inv, levels.lo, levels.hi) + 8;
            b[2 + k] = (uint8_t)(low | high << 4);
        }
    }
}

HY_QUANT_TRAITS(Q4_0, "q4_0", 2);
