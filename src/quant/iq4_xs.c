/* IQ4_XS: 256 weights in 8 groups, value = d * (sc - 32) * hy_iq4nl_values[q].
 *   half d | u16 upper two bits of sc, bits 2j | lower nibbles of sc, [4] | q[128]
 * Byte 16 j + k holds weight 32 j + k (low nibble) and 32 j + 16 + k (high nibble). */
#include "quant/pack.h"

enum { block_n = 256, block_bytes = 136, at_high = 2, at_low = 4, at_q = 8 };

static void unpack(const void *src, float *dst, size_t n)
{
    const uint8_t *b = src;
    for (size_t i = 0; i < n; i += block_n, b += block_bytes, dst += block_n) {
        float d = load_f16(b);
        int high = load_u16(b + at_high);
        for (int j = 0; j < 8; j++) {
            int sc = (b[at_low + j / 2] >> j % 2 * 4 & 15) | (high >> 2 * j & 3) << 4;
            float dl = d * (float)(sc - 32);
            const uint8_t *q = b + at_q + 16 * j;
            for (int k = 0; k < 16; k++) {
                dst[32 * j + k] = dl * (float)hy_iq4nl_values[q[k] & 15];
                dst[32 * j + 16 + k] = dl * (float)hy_iq4nl_values[q[k] >> 4];
            }
        }
    }
}

static void pack(const float *src, void *dst, size_t n, const float *importance)
{
    uint8_t *b = dst;
    hy_pack_scaled o;
    float near[HY_PACK_NEAR];
    hy_pack_levels levels = hy_pack_nl(near);
    for (size_t i = 0; i < n; i += block_n, b += block_bytes) {
        hy_pack_super(&o, &levels, 32, -32, 31, src + i,
                      importance ? importance + i : NULL);
        memset(b, 0, block_bytes);
        uint16_t high = 0;
        for (int j = 0; j < 8; j++) {
            int sc = o.sc[j] + 32;
            high = (uint16_t)(high | sc >> 4 << 2 * j);
            b[at_low + j / 2] |= (uint8_t)((sc & 15) << j % 2 * 4);
            for (int k = 0; k < 16; k++)
                b[at_q + 16 * j + k] = (uint8_t)(o.q[32 * j + k] | o.q[32 * j + 16 + k] << 4);
        }
        store_u16(b, o.d);
        store_u16(b + at_high, high);
    }
}

HY_QUANT_TRAITS(IQ4_XS, "iq4_xs", 23);
