/* Scale searches for one group of weights. */
#include "quant/pack.h"
#include <float.h>
#include <math.h>

static const float tiny = 1e-15f; /* of the largest: too small for any sub-scale to reach */

void hy_pack_load(hy_pack_group *g, const float *src, const float *importance, size_t n)
{
    HY_ASSERT(n <= HY_PACK_MAX);
    float amax = 0, wmax = 0;
    for (size_t i = 0; i < n; i++) {
        float v = src[i], w = importance ? importance[i] : 1;
        v = v < FLT_MAX ? v : v > 0 ? FLT_MAX : 0; /* the second test fails for NaN */
        v = v > -FLT_MAX ? v : -FLT_MAX;
        w = w > 0 ? HY_MIN(w, FLT_MAX) : 0;
        g->x[i] = v;
        g->w[i] = w;
        amax = HY_MAX(amax, fabsf(v));
        wmax = HY_MAX(wmax, w);
    }
    bool zero = amax < FLT_MIN; /* 1 / amax stays finite */
    g->n = n;
    g->amax = zero ? 0 : amax;
    g->inv = zero ? 0 : 1 / amax;
    for (size_t i = 0; i < n; i++) {
        g->x[i] = zero ? 0 : g->x[i] / amax;
        g->w[i] = wmax >= FLT_MIN ? g->w[i] / wmax : 1;
    }
}

uint16_t hy_pack_f16(float v)
{
    return hy_f32_f16(v > 65504 ? 65504 : v < -65504 ? -65504 : v);
}

int hy_pack_book_index(const int8_t *book, float v)
{
    int at = 0;
    for (int half = 8; half; half /= 2) {
        int next = at + half;
        if (v > 0.5f * (float)(book[next - 1] + book[next])) at = next;
    }
    return at;
}

const hy_pack_levels hy_pack_levels_nl = {
    .lo = -127, .hi = 113, .book = hy_iq4nl_values, .step = 3, .n_step = 6, .both_signs = true};

HY_INLINE float level_of(const hy_pack_levels *l, float v)
{
    if (l->book) return l->book[hy_pack_book_index(l->book, v)];
    return (float)hy_pack_round(v, l->lo, l->hi);
}

/* Sums for a candidate: d = xl / ll, and what it takes off the error is xl^2 / ll. */
static float try_inverse(const hy_pack_levels *l, const float *x, const float *w, size_t n,
                         float inv, float *d)
{
    float xl = 0, ll = 0;
    for (size_t i = 0; i < n; i++) {
        float v = level_of(l, x[i] * inv);
        xl += w[i] * x[i] * v;
        ll += w[i] * v * v;
    }
    *d = ll > 0 ? xl / ll : 0;
    return *d * xl;
}

float hy_pack_scale(const hy_pack_levels *l, const float *x, const float *w, size_t n)
{
    float extreme = 0, d, d_best = 0, best = 0;
    for (size_t i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(extreme)) extreme = x[i];
    if (fabsf(extreme) < tiny) return 0;
    for (int side = 0; side <= (int)l->both_signs; side++) {
        float level = side ? l->hi : l->lo;
        float out = side ? 1 : -1; /* away from zero */
        for (int t = -l->n_step; t <= l->n_step; t++) {
            float inv = (level + out * l->step * (float)t) / extreme;
            float gain = try_inverse(l, x, w, n, inv, &d);
            if (gain > best) best = gain, d_best = d;
        }
    }
    /* No weight on anything but zeros: keep the range instead. */
    return best > 0 ? d_best : extreme / l->lo;
}

typedef struct line { float d, m, err; } line;

/* Codes from (x - lo) * inv, then the weighted line through them. */
static line try_line(const float *x, const float *w, size_t n, float q_max, float lo, float inv,
                     bool m_negative)
{
    float sw = 0, sx = 0, sq = 0, sqq = 0, sqx = 0;
    for (size_t i = 0; i < n; i++) {
        float q = (float)hy_pack_round((x[i] - lo) * inv, 0, q_max);
        float wq = w[i] * q;
        sw += w[i];
        sx += w[i] * x[i];
        sq += wq;
        sqq += wq * q;
        sqx += wq * x[i];
    }
    line o = {.d = 1 / inv, .m = lo};
    float det = sw * sqq - sq * sq;
    if (det > 1e-6f * sw * sqq) {
        o.d = (sw * sqx - sx * sq) / det;
        o.m = (sqq * sx - sq * sqx) / det;
        if (m_negative && o.m > 0) {
            o.m = 0;
            o.d = sqx / sqq;
        }
    }
    for (size_t i = 0; i < n; i++) {
        float q = (float)hy_pack_round((x[i] - lo) * inv, 0, q_max);
        float e = o.d * q + o.m - x[i];
        o.err += w[i] * e * e;
    }
    return o;
}

void hy_pack_affine(const float *x, const float *w, size_t n, int q_max, bool m_negative,
                    float *d, float *m)
{
    enum { n_try = 12 };
    float lo = x[0], hi = x[0], sw = 0;
    for (size_t i = 0; i < n; i++) {
        lo = HY_MIN(lo, x[i]);
        hi = HY_MAX(hi, x[i]);
        sw += w[i];
    }
    if (m_negative && lo > 0) lo = 0;
    *d = 0;
    *m = lo;
    if (hi - lo < tiny) return;
    line best = {.d = (hi - lo) / (float)q_max, .m = lo, .err = FLT_MAX};
    /* From "the range is cut by a quarter of the codes" to "slightly too wide". */
    for (int t = 0; sw > 0 && t < n_try; t++) {
        float span = (float)q_max * (0.96f + 0.03f * (float)t) + 0.25f * ((float)t - 4);
        line o = try_line(x, w, n, (float)q_max, lo, HY_MAX(span, 0.5f) / (hi - lo), m_negative);
        if (o.d > 0 && o.err < best.err) best = o;
    }
    *d = best.d;
    *m = best.m;
}
