/* Super-blocks: 256 weights in groups whose scales are small integers of a common scale. */
#include "quant/pack.h"
#include <float.h>
#include <math.h>

/* Levels for the sub-scales as stored; returns the weighted error. d: normalised. */
static double scaled_codes(float *level, const hy_pack_levels *l, const hy_pack_group *g,
                           size_t sub, const int8_t *sc, float d)
{
    double err = 0;
    for (size_t i = 0; i < g->n; i++) {
        float dl = d * (float)sc[i / sub];
        float v = g->x[i] * hy_pack_inverse(dl);
        level[i] = l->book ? (float)l->book[hy_pack_book_index(l->book, v)]
                           : (float)hy_pack_round(v, l->lo, l->hi);
        float e = dl * level[i] - g->x[i];
        err += (double)(g->w[i] * e * e);
    }
    return err;
}

static void write_scaled(hy_pack_scaled *o, const hy_pack_levels *l, const float *level)
{
    for (size_t i = 0; i < 256; i++)
        o->q[i] = l->book ? (int8_t)hy_pack_book_index(l->book, level[i]) : (int8_t)level[i];
}

void hy_pack_super(hy_pack_scaled *o, const hy_pack_levels *l, size_t sub, int sc_lo, int sc_hi,
                   const float *src, const float *importance)
{
    hy_pack_group g;
    float ds[16], level[256], other[256], extreme = 0;
    hy_pack_load(&g, src, importance, 256);
    for (size_t j = 0; j < 256 / sub; j++) {
        ds[j] = hy_pack_scale(l, g.x + j * sub, g.w + j * sub, sub);
        if (fabsf(ds[j]) > fabsf(extreme)) extreme = ds[j];
    }
    float inv = hy_pack_inverse(extreme / (float)sc_lo);
    for (size_t j = 0; j < 256 / sub; j++)
        o->sc[j] = (int8_t)hy_pack_round(ds[j] * inv, (float)sc_lo, (float)sc_hi);
    o->d = hy_pack_f16(extreme / (float)sc_lo * g.amax);
    double err = scaled_codes(level, l, &g, sub, o->sc, hy_f16_f32(o->d) * g.inv);

    /* The common scale once more, now that the integers are known. */
    for (int turn = 0; turn < 2; turn++) {
        double xl = 0, ll = 0;
        for (size_t i = 0; i < 256; i++) {
            float v = (float)o->sc[i / sub] * level[i];
            xl += (double)(g.w[i] * g.x[i] * v);
            ll += (double)(g.w[i] * v * v);
        }
        if (!(ll > 0)) break;
        uint16_t d = hy_pack_f16((float)(xl / ll) * g.amax);
        double e = scaled_codes(other, l, &g, sub, o->sc, hy_f16_f32(d) * g.inv);
        if (!(e < err)) break;
        err = e;
        o->d = d;
        memcpy(level, other, sizeof level);
    }
    write_scaled(o, l, level);
}

static double min_codes(uint8_t *q, const hy_pack_min *o, const hy_pack_group *g, size_t sub,
                        int q_max, uint16_t d16, uint16_t dmin16)
{
    float d = hy_f16_f32(d16) * g->inv, dmin = hy_f16_f32(dmin16) * g->inv;
    double err = 0;
    for (size_t j = 0; j < 256 / sub; j++) {
        float dl = d * (float)o->sc[j], ml = dmin * (float)o->mn[j];
        float inv = hy_pack_inverse(dl);
        for (size_t i = j * sub; i < (j + 1) * sub; i++) {
            int c = hy_pack_round((g->x[i] + ml) * inv, 0, (float)q_max);
            float e = dl * (float)c - ml - g->x[i];
            q[i] = (uint8_t)c;
            err += (double)(g->w[i] * e * e);
        }
    }
    return err;
}

/* Least squares for both common scales; false when the system is singular. */
static bool fit_min(const hy_pack_min *o, const hy_pack_group *g, size_t sub, float *d, float *dmin)
{
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0; /* a = sc * q, b = -mn */
    for (size_t i = 0; i < 256; i++) {
        float a = (float)o->sc[i / sub] * (float)o->q[i], b = -(float)o->mn[i / sub];
        float w = g->w[i], x = g->x[i];
        aa += (double)(w * a * a), ab += (double)(w * a * b), bb += (double)(w * b * b);
        ax += (double)(w * a * x), bx += (double)(w * b * x);
    }
    if (!(aa > 0)) return false;
    *d = (float)(ax / aa);
    *dmin = 0;
    double det = aa * bb - ab * ab;
    if (det > 1e-9 * aa * bb) {
        *d = (float)((ax * bb - bx * ab) / det);
        *dmin = (float)((bx * aa - ax * ab) / det);
    } else if (bb > 0) {
        return false;
    }
    return *d > 0 && *dmin >= 0;
}

void hy_pack_super_min(hy_pack_min *o, size_t sub, int sc_max, int q_max, const float *src,
                       const float *importance)
{
    hy_pack_group g;
    float ds[16], ms[16], d_top = 0, m_top = 0;
    hy_pack_load(&g, src, importance, 256);
    for (size_t j = 0; j < 256 / sub; j++) {
        hy_pack_affine(g.x + j * sub, g.w + j * sub, sub, q_max, true, &ds[j], &ms[j]);
        d_top = HY_MAX(d_top, ds[j]);
        m_top = HY_MAX(m_top, -ms[j]);
    }
    o->d = hy_pack_f16(d_top / (float)sc_max * g.amax);
    o->dmin = hy_pack_f16(m_top / (float)sc_max * g.amax);
    /* The integers fit the scales as stored: halves near zero are coarse. */
    float d_inv = hy_pack_inverse(hy_f16_f32(o->d) * g.inv);
    float m_inv = hy_pack_inverse(hy_f16_f32(o->dmin) * g.inv);
    for (size_t j = 0; j < 256 / sub; j++) {
        o->sc[j] = (uint8_t)hy_pack_round(ds[j] * d_inv, 0, (float)sc_max);
        o->mn[j] = (uint8_t)hy_pack_round(-ms[j] * m_inv, 0, (float)sc_max);
    }
    double err = min_codes(o->q, o, &g, sub, q_max, o->d, o->dmin);
    for (int turn = 0; turn < 2; turn++) {
        float d, dmin;
        uint8_t q[256];
        if (!fit_min(o, &g, sub, &d, &dmin)) break;
        uint16_t d16 = hy_pack_f16(d * g.amax), dmin16 = hy_pack_f16(dmin * g.amax);
        double e = min_codes(q, o, &g, sub, q_max, d16, dmin16);
        if (!(e < err)) break;
        err = e;
        o->d = d16;
        o->dmin = dmin16;
        memcpy(o->q, q, sizeof q);
    }
}
