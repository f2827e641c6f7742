/* MXFP4 (OCP Microscaling Formats v1.0): 32 weights, value = 2^(e - 127) * E2M1.
 *   u8 e | q[16]: as Q4_0; codes are sign, two exponent bits, one mantissa bit
 * Values come from the doubled table, so the scale is halved. */
#include "quant/pack.h"
#include <math.h>

enum { block_n = 32, block_bytes = 17 };
enum { e_max = 252 }; /* above it 6 * 2^(e - 127) is no single any more */

static void unpack(const void *src, float *dst, size_t n)
{
    const uint8_t *b = src;
    for (size_t i = 0; i < n; i += block_n, b += block_bytes, dst += block_n) {
        float d = hy_e8m0_half(b[0]);
        for (int k = 0; k < 16; k++) {
            dst[k] = (float)hy_mxfp4_values[b[1 + k] & 15] * d;
            dst[k + 16] = (float)hy_mxfp4_values[b[1 + k] >> 4] * d;
        }
    }
}

/* v in units of the halved scale; between two magnitudes the even code, as rounding there wants. */
static int code_of(double v)
{
    static const double edges[7] = {0.5, 1.5, 2.5, 3.5, 5, 7, 10};
    double a = fabs(v);
    int q = 0;
    for (int k = 0; k < 7; k++) q += a > edges[k] || (a == edges[k] && k % 2);
    return q && v < 0 ? q | 8 : q;
}

static double try_exponent(const hy_pack_group *g, int e, uint8_t *q)
{
    double d = ldexp(1, e - 128) / g->amax, err = 0; /* normalised as g->x is */
    for (int k = 0; k < block_n; k++) {
        int c = code_of((double)g->x[k] / d);
        double diff = (double)hy_mxfp4_values[c] * d - (double)g->x[k];
        q[k] = (uint8_t)c;
        err += (double)g->w[k] * diff * diff;
    }
    return err;
}

static void pack(const float *src, void *dst, size_t n, const float *importance)
{
    uint8_t *b = dst;
    hy_pack_group g;
    for (size_t i = 0; i < n; i += block_n, b += block_bytes) {
        memset(b, 0, block_bytes);
        hy_pack_load(&g, src + i, importance ? importance + i : NULL, block_n);
        if (g.amax == 0) continue;
        /* The specification's choice puts the largest value between 4 and 8; its neighbours lose
         * range or resolution, and one of them is often better. */
        int exp;
        frexpf(g.amax, &exp);
        int e_spec = exp - 1 - 2 + 127;
        double best = INFINITY;
        for (int e = HY_MAX(e_spec - 1, 0); e <= HY_MIN(e_spec + 1, e_max); e++) {
            uint8_t q[block_n];
            double err = try_exponent(&g, e, q);
            if (err >= best) continue;
            best = err;
            b[0] = (uint8_t)e;
            for (int k = 0; k < 16; k++) b[1 + k] = (uint8_t)(q[k] | q[k + 16] << 4);
        }
    }
}

HY_QUANT_TRAITS(MXFP4, "mxfp4", 39);
