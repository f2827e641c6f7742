/* IQ4_NL: 32 weights, value = d * hy_iq4nl_values[q].
 *   half d | q[16]: as Q4_0 */
#include "quant/pack.h"

enum { block_n = 32, block_bytes = 18 };

static void unpack(const void *src, float *dst, size_t n)
{
    const uint8_t *b = src;
    for (size_t i = 0; i < n; i += block_n, b += block_bytes, dst += block_n) {
        float d = load_f16(b);
        for (int k = 0; k < 16; k++) {
            dst[k] = d * (float)hy_iq4nl_values[b[2 + k] & 15];
            dst[k + 16] = d * (float)hy_iq4nl_values[b[2 + k] >> 4];
        }
    }
}

static void pack(const float *src, void *dst, size_t n, const float *importance)
{
    uint8_t *b = dst;
    hy_pack_group g;
    float near[HY_PACK_NEAR];
    hy_pack_levels levels = hy_pack_nl(near);
    for (size_t i = 0; i < n; i += block_n, b += block_bytes) {
        hy_pack_load(&g, src + i, importance ? importance + i : NULL, block_n);
        float d = hy_pack_scale(&levels, g.x, g.w, block_n);
        uint16_t d16 = hy_pack_f16(d * g.amax);
        float inv = hy_pack_inverse(hy_f16_f32(d16) * g.inv);
        store_u16(b, d16);
        for (int k = 0; k < 16; k++) {
            int low = hy_pack_book_index(hy_iq4nl_values, g.x[k] * inv);
            int high = hy_pack_book_index(hy_iq4nl_values, g.x[k + 16] * inv);
            b[2 + k] = (uint8_t)(low | high << 4);
        }
    }
}

HY_QUANT_TRAITS(IQ4_NL, "iq4_nl", 20);
