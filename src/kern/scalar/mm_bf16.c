/* kern/scalar: BF16 weights times activations rounded to BF16, the definition of ISA avx512bf16. Pairs of k in ascending
 * order; of a pair the odd k first, each product added by one fma; what is subnormal, factors, sums and results, is zero.
 * So does VDPBF16PS (Intel's manual, vol. 2; held against a Zen 4 in tests/kern/test_kern_bf16.c). */
#include "kern/fill.h"
#include "kern/panel.h"
#include <math.h>

/* To BF16 and back: nearest even, subnormals become zero; a NaN stays one. */
static float rounded(float x)
{
    uint32_t u = hy_f32_bits(x), exponent = u & 0x7f800000u;
    if (exponent == 0) return hy_bits_f32(u & 0x80000000u);
    if (exponent == 0x7f800000u && u & 0x7fffffu) return hy_bits_f32((u | 0x400000u) & 0xffff0000u);
    return hy_bits_f32((u + 0x7fffu + (u >> 16 & 1)) & 0xffff0000u);
}

static float flushed(float x)
{
    uint32_t u = hy_f32_bits(x);
    return u & 0x7f800000u ? x : hy_bits_f32(u & 0x80000000u);
}

static float weight(const uint8_t *panel, uint32_t p, uint64_t k, uint32_t lane)
{
    uint16_t h;
    memcpy(&h, panel + (k * p + lane) * 2, 2);
    return flushed(hy_bf16_f32(h));
}

static void mm_bf16(const hy_mm *m)
{
    const hy_panels *w = m->w;
    for (uint64_t r = m->panel_first * w->p; r < HY_MIN(m->panel_last * w->p, w->n_row); r++) {
        const uint8_t *panel = hy_panel_at(w, r / w->p);
        uint32_t lane = (uint32_t)(r % w->p);
        for (uint32_t t = 0; t < m->n_tok; t++) {
            const float *x = m->x + (m->x_row ? m->x_row[t] : t) * m->x_stride;
            size_t row = m->y_row ? m->y_row[t] : t;
            float acc = 0;
            for (uint64_t k = 0; k < w->k; k += 2) {
                bool two = k + 1 < w->k;
                acc = flushed(fmaf(two ? weight(panel, w->p, k + 1, lane) : 0, two ? rounded(x[k + 1]) : 0, acc));
                acc = flushed(fmaf(weight(panel, w->p, k, lane), rounded(x[k]), acc));
            }
            if (m->bias) acc = acc + m->bias[r];
            if (m->add) acc = acc + m->add[row * m->add_stride + r];
            m->y[row * m->y_stride + r] = acc;
        }
    }
}

void hy_mm_fill_scalar_bf16(hy_kernels *k)
{
    k->mm_f32[HY_Q_BF16] = mm_bf16;
}
