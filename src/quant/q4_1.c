/* Q4_1: 32 weights, value = d * q + m.
 *   half d | half m | q[16]: as Q4_0 */
#include "quant/pack.h"

enum { block_n = 32, block_bytes = 20 };

static void unpack(const void *src, float *dst, size_t n)
{
    const uint8_t *b = src;
    for (size_t i = 0; i < n; i += block_n, b += block_bytes, dst += block_n) {
        float d = load_f16(b), m = load_f16(b + 2);
        for (int k = 0; k < 16; k++) {
            dst[k] = (float)(b[4 + k] & 15) * d + m;
            dst[k + 16] = (float)(b[4 + k] >> 4) * d + m;
        }
    }
}

static void pack(const float *src, void *dst, size_t n, const float *importance)
{
    uint8_t *b = dst;
    hy_pack_group g;
    for (size_t i = 0; i < n; i += block_n, b += block_bytes) {
        float d, m;
        hy_pack_load(&g, src + i, importance ? importance + i : NULL, block_n);
        hy_pack_affine(g.x, g.w, block_n, 15, false, &d, &m);
        uint16_t d16 = hy_pack_f16(d * g.amax), m16 = hy_pack_f16(m * g.amax);
        float inv = hy_pack_inverse(hy_f16_f32(d16) * g.inv);
        m = hy_f16_f32(m16) * g.inv;
        store_u16(b, d16);
        store_u16(b + 2, m16);
        for (int k = 0; k < 16; k++) {
            int low = hy_pack_round((g.x[k] - m) * inv, 0, 15);
            int high = hy_pack_round((g.x[k + 16] - m) * inv, 0, 15);
            b[4 + k] = (uint8_t)(low | high << 4);
        }
    }
}

HY_QUANT_TRAITS(Q4_1, "q4_1", 3);
