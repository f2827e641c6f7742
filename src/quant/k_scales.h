/* The 12 bytes of six-bit scales and minima that Q4_K and Q5_K share; private to quant/.
 *   byte j < 4:      sc[j]      | upper two bits of sc[j + 4]
 *   byte 4 + j:      mn[j]      | upper two bits of mn[j + 4]
 *   byte 8 + j:      low nibble of sc[j + 4], low nibble of mn[j + 4] above it */
#ifndef HY_QUANT_K_SCALES_H
#define HY_QUANT_K_SCALES_H

#include "quant/format.h"

HY_INLINE void k_scales_get(const uint8_t *p, int j, int *sc, int *mn)
{
    if (j < 4) {
        *sc = p[j] & 63;
        *mn = p[j + 4] & 63;
    } else {
        *sc = (p[j + 4] & 15) | p[j - 4] >> 6 << 4;
        *mn = p[j + 4] >> 4 | p[j] >> 6 << 4;
    }
}

HY_INLINE void k_scales_put(uint8_t *p, const uint8_t *sc, const uint8_t *mn)
{
    for (int j = 0; j < 4; j++) {
        p[j] = (uint8_t)(sc[j] | sc[j + 4] >> 4 << 6);
        p[j + 4] = (uint8_t)(mn[j] | mn[j + 4] >> 4 << 6);
        p[j + 8] = (uint8_t)((sc[j + 4] & 15) | (mn[j + 4] & 15) << 4);
    }
}

#endif
