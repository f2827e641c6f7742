/* Q2_K: 256 weights in 16 groups, value = d * sc * q - dmin * mn.
 *   u8 group[16]: sc (low nibble), mn (high) | q[64] | half d | half dmin
 * Weight 128 h + 32 s + k (k < 32) is bits 2s, 2s + 1 of byte 32 h + k. */
#include "quant/pack.h"

enum { block_n = 256, block_bytes = 84, at_q = 16, at_d = 80 };

static void unpack(const void *src, float *dst, size_t n)
{
    const uint8_t *b = src;
    for (size_t i = 0; i < n; i += block_n, b += block_bytes, dst += block_n) {
        float d = load_f16(b + at_d), dmin = load_f16(b + at_d + 2);
        for (int j = 0; j < 16; j++) {
            float dl = d * (float)(b[j] & 15), ml = dmin * (float)(b[j] >> 4);
            const uint8_t *q = b + at_q + j / 8 * 32 + j % 2 * 16;
            int shift = j % 8 / 2 * 2;
            for (int k = 0; k < 16; k++) dst[16 * j + k] = dl * (float)(q[k] >> shift & 3) - ml;
        }
    }
}

static void pack(const float *src, void *dst, size_t n, const float *importance)
{
    uint8_t *b = dst;
    hy_pack_min o;
    for (size_t i = 0; i < n; i += block_n, b += block_bytes) {
        hy_pack_super_min(&o, 16, 15, 3, src + i, importance ? importance + i : NULL);
        memset(b, 0, block_bytes);
        for (int j = 0; j < 16; j++) b[j] = (uint8_t)(o.sc[j] | o.mn[j] << 4);
        for (int k = 0; k < 256; k++)
            b[at_q + k / 128 * 32 + k % 32] |= (uint8_t)(o.q[k] << k % 128 / 32 * 2);
        store_u16(b + at_d, o.d);
        store_u16(b + at_d + 2, o.dmin);
    }
}

HY_QUANT_TRAITS(Q2_K, "q2_k", 10);
