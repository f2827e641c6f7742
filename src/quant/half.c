/* Half precision by integer arithmetic: the same bits on every machine and compiler. */
#include "quant/quant.h"

float hy_f16_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exp = h >> 10 & 31, frac = h & 0x3ff;
    if (exp == 31) /* infinity; a NaN keeps its payload and becomes quiet */
        return hy_bits_f32(sign | 0x7f800000u | frac << 13 | (frac ? 0x400000u : 0));
    if (exp) return hy_bits_f32(sign | (exp + 112) << 23 | frac << 13);
    /* Subnormal: frac * 2^-24, a product of two exact numbers. */
    return hy_bits_f32(sign | hy_f32_bits((float)frac * 0x1p-24f));
}

uint16_t hy_f32_f16(float f)
{
    uint32_t u = hy_f32_bits(f);
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    u &= 0x7fffffffu;
    if (u > 0x7f800000u) return (uint16_t)(sign | 0x7e00 | (u >> 13 & 0x1ff));
    if (u >= 0x477ff000u) return (uint16_t)(sign | 0x7c00); /* from 65520 on */
    if (u < 0x38800000u) {
        /* Below 2^-14: adding 0.5 leaves the result, in units of 2^-24 and rounded to nearest even
         * by the adder, in the low bits of the sum. */
        return (uint16_t)(sign | (hy_f32_bits(hy_bits_f32(u) + 0.5f) - 0x3f000000u));
    }
    u += 0xfff + (u >> 13 & 1); /* a carry into the exponent is what rounding up means */
    return (uint16_t)(sign | ((u - 0x38000000u) >> 13));
}
