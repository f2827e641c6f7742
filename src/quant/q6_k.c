/* Q6_K: 256 weights in 16 groups, value = d * sc * (q - 32).
 *   low[128] | high[64] | int8 sc[16] | half d
 * Weight 128 h + 32 s + k (k < 32): low nibble in low[64 h + 32 (s % 2) + k], its lower half for
 * s < 2, else its upper; upper two bits are bits 2s, 2s + 1 of high[32 h + k]. */
#include "quant/pack.h"

enum { block_n = 256, block_bytes = 210, at_high = 128, at_sc = 192, at_d = 208 };

static void unpack(const void *src, float *dst, size_t n)
{
    const uint8_t *b = src;
    for (size_t i = 0; i < n; i += block_n, b += block_bytes, dst += block_n) {
        float d = load_f16(b + at_d);
        for (int j = 0; j < 16; j++) {
            float dl = d * (float)(int8_t)b[at_sc + j];
            int h = j / 8, s = j % 8 / 2;
            const uint8_t *low = b + 64 * h + 32 * (s % 2) + j % 2 * 16;
            const uint8_t *high = b + at_high + 32 * h + j % 2 * 16;
            for (int k = 0; k < 16; k++) {
                int q = (low[k] >> s / 2 * 4 & 15) | (high[k] >> 2 * s & 3) << 4;
                dst[16 * j + k] = dl * (float)(q - 32);
            }
        }
    }
}

static const hy_pack_levels levels = {.lo = -32, .hi = 31, .step = 0.25f, .n_step = 4};

static void pack(const float *src, void *dst, size_t n, const float *importance)
{
    uint8_t *b = dst;
    hy_pack_scaled o;
    for (size_t i = 0; i < n; i += block_n, b += block_bytes) {
        hy_pack_super(&o, &levels, 16, -128, 127, src + i, importance ? importance + i : NULL);
        memset(b, 0, block_bytes);
        for (int k = 0; k < 256; k++) {
            int q = o.q[k] + 32, h = k / 128, s = k % 128 / 32;
            b[64 * h + 32 * (s % 2) + k % 32] |= (uint8_t)((q & 15) << s / 2 * 4);
            b[at_high + 32 * h + k % 32] |= (uint8_t)(q >> 4 << 2 * s);
        }
        memcpy(b + at_sc, o.sc, 16);
        store_u16(b + at_d, o.d);
    }
}

HY_QUANT_TRAITS(Q6_K, "q6_k", 14);
