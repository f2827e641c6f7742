/* Q3_K: 256 weights in 16 groups, value = d * (sc - 32) * (q - 4).
 *   u8 high[32] | low[64] | sc[12] | half d
 * Weight 128 h + 32 s + k (k < 32): its low bits are bits 2s, 2s + 1 of low[32 h + k], its third
 * bit is bit 4h + s of high[k]. Scale j: low nibbles in sc[0..7] (j < 8 low, else high half of
 * the byte), upper two bits in bits 2 (j / 4) of sc[8 + j % 4]. */
#include "quant/pack.h"

enum { block_n = 256, block_bytes = 110, at_low = 32, at_sc = 96, at_d = 108 };

static int scale(const uint8_t *sc, int j)
{
    int low = j < 8 ? sc[j] & 15 : sc[j - 8] >> 4;
    return (low | (sc[8 + j % 4] >> j / 4 * 2 & 3) << 4) - 32;
}

static void unpack(const void *src, float *dst, size_t n)
{
    const uint8_t *b = src;
    for (size_t i = 0; i < n; i += block_n, b += block_bytes, dst += block_n) {
        float d = load_f16(b + at_d);
        for (int j = 0; j < 16; j++) {
            float dl = d * (float)scale(b + at_sc, j);
            const uint8_t *high = b + j % 2 * 16, *low = b + at_low + j / 8 * 32 + j % 2 * 16;
            int s = j % 8 / 2, bit = j / 8 * 4 + s;
            for (int k = 0; k < 16; k++) {
                int q = (low[k] >> 2 * s & 3) | (high[k] >> bit & 1) << 2;
                dst[16 * j + k] = dl * (float)(q - 4);
            }
        }
    }
}

static const hy_pack_levels levels = {.lo = -4, .hi = 3, .step = 0.12f, .n_step = 8};

static void pack(const float *src, void *dst, size_t n, const float *importance)
{
    uint8_t *b = dst;
    hy_pack_scaled o;
    for (size_t i = 0; i < n; i += block_n, b += block_bytes) {
        hy_pack_super(&o, &levels, 16, -32, 31, src + i, importance ? importance + i : NULL);
        memset(b, 0, block_bytes);
        for (int j = 0; j < 16; j++) {
            int sc = o.sc[j] + 32;
            b[at_sc + j % 8] |= (uint8_t)((sc & 15) << j / 8 * 4);
            b[at_sc + 8 + j % 4] |= (uint8_t)(sc >> 4 << j / 4 * 2);
        }
        for (int k = 0; k < 256; k++) {
            int q = o.q[k] + 4;
            b[at_low + k / 128 * 32 + k % 32] |= (uint8_t)((q & 3) << k % 128 / 32 * 2);
            b[k % 32] |= (uint8_t)(q >> 2 << k / 32);
        }
        store_u16(b + at_d, o.d);
    }
}

HY_QUANT_TRAITS(Q3_K, "q3_k", 11);
