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

/* The searches work on four weights at a time, in the compilers' portable vectors: 128 bits are
 * in the base instruction set of every machine, and -O2 alone leaves such loops scalar (2 to 4
 * times slower). */
typedef float v4 __attribute__((vector_size(16)));
typedef int32_t m4 __attribute__((vector_size(16)));

HY_INLINE v4 load4(const float *p)
{
    v4 v;
    memcpy(&v, p, sizeof v);
    return v;
}

HY_INLINE v4 all4(float f)
{
    return (v4){f, f, f, f};
}

HY_INLINE float sum4(v4 v)
{
    return (v[0] + v[1]) + (v[2] + v[3]);
}

HY_INLINE v4 pick4(m4 mask, v4 a, v4 b)
{
    return (v4)((mask & (m4)a) | (~mask & (m4)b));
}

/* Adding and taking 1.5 * 2^23 rounds to the nearest integer. */
HY_INLINE v4 round4(v4 t, float lo, float hi)
{
    const v4 magic = all4(12582912.0f);
    t = pick4(t > all4(lo), t, all4(lo));
    t = pick4(t < all4(hi), t, all4(hi));
    return (t + magic) - magic;
}

/* The nearest of 16 ascending values to any t, at ceil(2 t) + NEAR / 2: boundaries lie at whole and half numbers. */
enum { NEAR = HY_PACK_NEAR };

hy_pack_levels hy_pack_nl(float near[NEAR])
{
    const int8_t *book = hy_iq4nl_values;
    int at = 0;
    for (int j = 1; j <= 16; j++) {
        int end = j < 16 ? book[j - 1] + book[j] + NEAR / 2 + 1 : NEAR;
        while (at < end) near[at++] = book[j - 1];
    }
    return (hy_pack_levels){.lo = -127, .hi = 113, .book = book, .near = near, .step = 4, .n_step = 4, .both_signs = true};
}

HY_INLINE v4 book4(v4 t, const float *near)
{
    v4 twice = t + t;
    twice = pick4(twice > all4(-NEAR / 2), twice, all4(-NEAR / 2));
    twice = pick4(twice < all4(NEAR / 2 - 1), twice, all4(NEAR / 2 - 1));
    m4 i = __builtin_convertvector(twice, m4);
    i -= __builtin_convertvector(i, v4) < twice; /* towards zero, and one more above it */
    i += NEAR / 2;
    return (v4){near[i[0]], near[i[1]], near[i[2]], near[i[3]]};
}

/* Sums for a candidate: d = xl / ll, and what it takes off the error is xl^2 / ll. */
static float try_inverse(const hy_pack_levels *l, const float *x, const float *w, size_t n,
                         float inv, float *d)
{
    v4 xl = all4(0), ll = all4(0);
    for (size_t i = 0; i < n; i += 4) {
        v4 xi = load4(x + i), wi = load4(w + i);
        v4 v = l->book ? book4(xi * inv, l->near) : round4(xi * inv, l->lo, l->hi);
        xl += wi * xi * v;
        ll += wi * v * v;
    }
    float x_sum = sum4(xl), l_sum = sum4(ll);
    *d = l_sum > 0 ? x_sum / l_sum : 0;
    return *d * x_sum;
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

typedef struct range {
    float lo, hi, sw, sx; /* sums of w and w x */
} range;

/* Codes from (x - lo) * inv, then the weighted line through them. */
static line try_line(const float *x, const float *w, size_t n, float q_max, const range *r,
                     float inv, bool m_negative)
{
    v4 q[HY_PACK_MAX / 4], sq = all4(0), sqq = all4(0), sqx = all4(0), err = all4(0);
    for (size_t i = 0; i < n; i += 4) {
        v4 xi = load4(x + i), qi = round4((xi - r->lo) * inv, 0, q_max), wq = load4(w + i) * qi;
        sq += wq;
        sqq += wq * qi;
        sqx += wq * xi;
        q[i / 4] = qi;
    }
    float q1 = sum4(sq), q2 = sum4(sqq), qx = sum4(sqx);
    line o = {.d = 1 / inv, .m = r->lo};
    float det = r->sw * q2 - q1 * q1;
    if (det > 1e-6f * r->sw * q2) {
        o.d = (r->sw * qx - r->sx * q1) / det;
        o.m = (q2 * r->sx - q1 * qx) / det;
        if (m_negative && o.m > 0) {
            o.m = 0;
            o.d = qx / q2;
        }
    }
    for (size_t i = 0; i < n; i += 4) {
        v4 e = o.d * q[i / 4] + o.m - load4(x + i);
        err += load4(w + i) * e * e;
    }
    o.err = sum4(err);
    return o;
}

void hy_pack_affine(const float *x, const float *w, size_t n, int q_max, bool m_negative,
                    float *d, float *m)
{
    enum { n_try = 12 };
    range r = {.lo = x[0], .hi = x[0]};
    for (size_t i = 0; i < n; i++) {
        r.lo = HY_MIN(r.lo, x[i]);
        r.hi = HY_MAX(r.hi, x[i]);
        r.sw += w[i];
        r.sx += w[i] * x[i];
    }
    if (m_negative && r.lo > 0) r.lo = 0;
    *d = 0;
    *m = r.lo;
    float width = r.hi - r.lo;
    if (width < tiny) return;
    line best = {.d = width / (float)q_max, .m = r.lo, .err = FLT_MAX};
    /* From "slightly too wide" to "the range is cut by a few codes". */
    for (int t = 0; r.sw > 0 && t < n_try; t++) {
        float span = (float)q_max * (0.96f + 0.03f * (float)t) + 0.25f * ((float)t - 4);
        line o = try_line(x, w, n, (float)q_max, &r, HY_MAX(span, 0.5f) / width, m_negative);
        if (o.d > 0 && o.err < best.err) best = o;
    }
    *d = best.d;
    *m = best.m;
}
