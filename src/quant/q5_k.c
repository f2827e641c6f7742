/* Q5_K: 256 weights in 8 groups, value = d * sc * q - dmin * mn.
 *   half d | half dmin | scales[12], see k_scales.h | high[32] | q[128]
 * Low nibbles as in Q4_K; the fifth bit of weight 32 j + k is bit j of high[k]. */
#include "quant/k_scales.h"
#include "quant/pack.h"

enum { block_n = 256, block_bytes = 176, at_sc = 4, at_high = 16, at_q = 48 };

static void unpack(const void *src, float *dst, size_t n)
{
    const uint8_t *b = src;
    for (size_t i = 0; i < n; i += block_n, b += block_bytes, dst += block_n) {
        float d = load_f16(b), dmin = load_f16(b + 2);
        for (int j = 0; j < 8; j++) {
            int sc, mn;
            k_scales_get(b + at_sc, j, &sc, &mn);
            float dl = d * (float)sc, ml = dmin * (float)mn;
            const uint8_t *q = b + at_q + j / 2 * 32, *high = b + at_high;
            for (int k = 0; k < 32; k++) {
                int code = (q[k] >> j % 2 * 4 & 15) | (high[k] >> j & 1) << 4;
                dst[32 * j + k] = dl * (float)code - ml;
            }
        }
    }
}

static void pack(const float *src, void *dst, size_t n, const float *importance)
{
    uint8_t *b = dst;
    hy_pack_min o;
    for (size_t i = 0; i < n; i += block_n, b += block_bytes) {
        hy_pack_super_min(&o, 32, 63, 31, src + i, importance ? importance + i : NULL);
        memset(b, 0, block_bytes);
        store_u16(b, o.d);
        store_u16(b + 2, o.dmin);
        k_scales_put(b + at_sc, o.sc, o.mn);
        for (int k = 0; k < 256; k++) {
            b[at_high + k % 32] |= (uint8_t)(o.q[k] >> 4 << k / 32);
            b[at_q + k / 64 * 32 + k % 32] |= (uint8_t)((o.q[k] & 15) << k % 64 / 32 * 4);
        }
    }
}

HY_QUANT_TRAITS(Q5_K, "q5_k", 13);
