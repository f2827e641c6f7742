/* kern/scalar: matmul, the definition that every ISA version repeats bit for bit. Rows of a panel are
 * taken one at a time, a few tokens together so that a group is taken apart once for them. */
#include "kern/fill.h"
#include "kern/panel.h"
#include <math.h>

#define TILE 8 /* tokens */

/* Sums of row `r` for tokens t0 .. t0 + n - 1: bias, then add, then into y. */
static void put(const hy_mm *m, uint64_t r, uint32_t t0, uint32_t n, const float *acc)
{
    for (uint32_t t = 0; t < n; t++) {
        size_t i = m->y_row ? m->y_row[t0 + t] : t0 + t;
        float v = acc[t];
        if (m->bias) v = v + m->bias[r];
        if (m->add) v = v + m->add[i * m->add_stride + r];
        m->y[i * m->y_stride + r] = v;
    }
}

static size_t x_row(const hy_mm *m, uint32_t t)
{
    return m->x_row ? m->x_row[t] : t;
}

/* One group of a row and of a token. */
static float group(hy_qtype t, const hy_group *w, const hy_act_group *x, float acc)
{
    int32_t dot[2] = {0, 0}, sum[2] = {0, 0};
    for (int i = 0; i < HY_GROUP; i++) {
        dot[i / 16] += w->code[i] * x->q[i] * (1 << x->e[i / 16]);
        sum[i / 16] += x->q[i] * (1 << x->e[i / 16]);
    }
    if (!hy_pf_halves(t)) {
        acc = fmaf((float)(dot[0] + dot[1]) * w->ws, x->d, acc);
        return hy_pf_has_min(t) ? fmaf(x->s, w->wm, acc) : acc;
    }
    float u = fmaf((float)dot[1], w->ws * (float)w->sc[1], (float)dot[0] * (w->ws * (float)w->sc[0]));
    for (int h = 0; hy_pf_has_min(t) && h < 2; h++) u = fmaf((float)sum[h], w->wm * (float)w->mn[h], u);
    return fmaf(u, x->d, acc);
}

static void row_q8(const hy_mm *m, const uint8_t *panel, uint32_t lane, uint32_t t0, uint32_t n,
                   float *acc)
{
    for (uint64_t g = 0; g < m->w->k / HY_GROUP; g++) {
        hy_group w;
        hy_panel_group(m->w, panel, g, lane, &w);
        for (uint32_t t = 0; t < n; t++) {
            hy_act8 x = hy_act8_at(&m->x8, x_row(m, t0 + t), g * HY_GROUP);
            acc[t] = group(m->w->type, &w, x.g, acc[t]);
        }
    }
}

static void mm_q8(const hy_mm *m)
{
    for (uint64_t i = m->panel_first; i < m->panel_last; i++) {
        for (uint64_t r = i * m->w->p; r < HY_MIN((i + 1) * m->w->p, m->w->n_row); r++) {
            for (uint32_t t = 0; t < m->n_tok; t += TILE) {
                float acc[TILE] = {0};
                uint32_t n = HY_MIN(TILE, m->n_tok - t);
                row_q8(m, hy_panel_at(m->w, i), (uint32_t)(r % m->w->p), t, n, acc);
                put(m, r, t, n, acc);
            }
        }
    }
}

/* Weights k0 .. k0 + n - 1 (n <= 32) of a row. */
static void row_weights(const hy_panels *w, const uint8_t *panel, uint32_t lane, uint64_t k0,
                        uint32_t n, float *dst)
{
    if (!hy_pf_float(w->type)) {
        hy_group g;
        hy_panel_group(w, panel, k0 / HY_GROUP, lane, &g);
        hy_panel_group_f32(&g, hy_pf_has_min(w->type), dst);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        size_t at = (k0 + i) * w->p + lane;
        uint16_t h;
        if (w->type == HY_Q_F32) {
            memcpy(dst + i, panel + at * 4, 4);
        } else {
            memcpy(&h, panel + at * 2, 2);
            dst[i] = w->type == HY_Q_F16 ? hy_f16_f32(h) : hy_bf16_f32(h);
        }
    }
}

static void mm_f32(const hy_mm *m)
{
    const hy_panels *w = m->w;
    for (uint64_t i = m->panel_first; i < m->panel_last; i++) {
        for (uint64_t r = i * w->p; r < HY_MIN((i + 1) * w->p, w->n_row); r++) {
            for (uint32_t t0 = 0; t0 < m->n_tok; t0 += TILE) {
                float acc[TILE] = {0}, v[HY_GROUP];
                uint32_t n = HY_MIN(TILE, m->n_tok - t0);
                for (uint64_t k = 0; k < w->k; k += HY_GROUP) {
                    uint32_t n_k = (uint32_t)HY_MIN(HY_GROUP, w->k - k);
                    row_weights(w, hy_panel_at(w, i), (uint32_t)(r % w->p), k, n_k, v);
                    for (uint32_t t = 0; t < n; t++) {
                        const float *x = m->x + x_row(m, t0 + t) * m->x_stride + k;
                        for (uint32_t j = 0; j < n_k; j++) acc[t] = fmaf(v[j], x[j], acc[t]);
                    }
                }
                put(m, r, t0, n, acc);
            }
        }
    }
}

void hy_mm_fill_scalar(hy_kernels *k, uint64_t cpu)
{
    for (int t = 0; t < HY_Q_COUNT; t++) {
        k->mm_q8[t] = hy_pf_float((hy_qtype)t) ? NULL : mm_q8;
        k->mm_f32[t] = mm_f32;
    }
}
