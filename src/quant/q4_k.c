/* Q4_K: 256 weights in 8 groups, value = d * sc * q - dmin * mn.
 *   half d | half dmin | scales[12], see k_scales.h | q[128]
 * Byte 32 h + k holds weight 64 h + k (low nibble) and 64 h + 32 + k (high nibble). */
#include "quant/k_scales.h"
#include "quant/pack.h"

enum { block_n = 256, block_bytes = 144, at_sc = 4, at_q = 16 };

static void unpack(const void *src, float *dst, size_t n)
{
    const uint8_t *b = src;
    for (size_t i = 0; i < n; i += block_n, b += block_bytes, dst += block_n) {
        float d = load_f16(b), dmin = load_f16(b + 2);
        for (int j = 0; j < 8; j++) {
            int sc, mn;
            k_scales_get(b + at_sc, j, &sc, &mn);
            float dl = d * (float)sc, ml = dmin * (float)mn;
            const uint8_t *q = b + at_q + j / 2 * 32;
            for (int k = 0; k < 32; k++)
                dst[32 * j + k] = dl * (float)(q[k] >> j % 2 * 4 & 15) - ml;
        }
    }
}

static void pack(const float *src, void *dst, size_t n, const float *importance)
{
    uint8_t *b = dst;
    hy_pack_min o;
    for (size_t i = 0; i < n; i += block_n, b += block_bytes) {
        hy_pack_super_min(&o, 32, 63, 15, src + i, importance ? importance + i : NULL);
        store_u16(b, o.d);
        store_u16(b + 2, o.dmin);
        k_scales_put(b + at_sc, o.sc, o.mn);
        for (int h = 0; h < 4; h++)
            for (int k = 0; k < 32; k++)
                b[at_q + 32 * h + k] = (uint8_t)(o.q[64 * h + k] | o.q[64 * h + 32 + k] << 4);
    }
}

HY_QUANT_TRAITS(Q4_K, "q4_k", 12);
