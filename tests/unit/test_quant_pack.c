/* quant: writing blocks. The error is held against a plain quantiser (one scale per group from its
 * range, kept in single precision), computed here, and against the block's own resolution. */
#include "quant/quant.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { n_weight = 256 * 64 };

/* What a plain quantiser of the same shape would do. */
typedef struct shape {
    hy_qtype t;
    int group;      /* weights that share a scale */
    int lo, hi;     /* codes of the plain quantiser; lo = 0: scale and minimum */
    double allowed; /* of its squared error; below 1: the search must win */
    double step;    /* largest error of one weight, in parts of its group's range */
} shape;

/* K-quants also round their scales, the plain quantiser does not: Q6_K is not asked to win by much.
 * A clipped extreme may be off by more than half a step, never by a quarter of the range. */
static const shape shapes[] = {
    {HY_Q_Q8_0, 32, -127, 127, 1.00, 0.02},  {HY_Q_Q4_0, 32, -8, 7, 0.95, 0.15},
    {HY_Q_Q4_1, 32, 0, 15, 0.95, 0.15},      {HY_Q_Q5_0, 32, -16, 15, 0.97, 0.10},
    {HY_Q_Q5_1, 32, 0, 31, 0.97, 0.10},      {HY_Q_Q2_K, 16, 0, 3, 0.95, 0.50},
    {HY_Q_Q3_K, 16, -4, 3, 0.90, 0.30},      {HY_Q_Q4_K, 32, 0, 15, 0.97, 0.15},
    {HY_Q_Q5_K, 32, 0, 31, 0.99, 0.10},      {HY_Q_Q6_K, 16, -32, 31, 1.00, 0.05},
    {HY_Q_IQ4_NL, 32, -8, 7, 0.85, 0.20},    {HY_Q_IQ4_XS, 32, -8, 7, 0.86, 0.20},
    {HY_Q_MXFP4, 32, -4, 3, 0.80, 0.20},
};

static float normal(uint64_t stream, uint64_t i)
{
    double u = hy_rng_unit(hy_rng_at(7, stream, 2 * i)), v = hy_rng_unit(hy_rng_at(7, stream, 2 * i + 1));
    return (float)(sqrt(-2 * log(u)) * cos(2 * 3.14159265358979 * v));
}

static double plain_error(const float *x, const shape *s)
{
    double err = 0;
    for (int at = 0; at < n_weight; at += s->group) {
        double lo = x[at], hi = x[at], top = 0;
        for (int i = 0; i < s->group; i++) {
            lo = fmin(lo, (double)x[at + i]), hi = fmax(hi, (double)x[at + i]);
            if (fabs((double)x[at + i]) > fabs(top)) top = (double)x[at + i];
        }
        double d = s->lo ? top / s->lo : (hi - lo) / s->hi, m = s->lo ? 0 : lo;
        for (int i = 0; i < s->group; i++) {
            double q = fmin(fmax(rint(((double)x[at + i] - m) / d), s->lo), s->hi);
            err += pow(q * d + m - (double)x[at + i], 2);
        }
    }
    return err;
}

static void pack_unpack(hy_qtype t, const float *x, const float *importance, float *y, size_t n)
{
    uint64_t bytes;
    assert_true(hy_quant_row_bytes(t, n, &bytes));
    uint8_t *b = hy_alloc(bytes);
    assert_non_null(b);
    hy_quant(t)->pack(x, b, n, importance);
    hy_quant(t)->unpack(b, y, n);
    hy_free(b);
}

static double error_of(const float *x, const float *y, const float *w, size_t n)
{
    double e = 0;
    for (size_t i = 0; i < n; i++)
        e += (w ? (double)w[i] : 1) * pow((double)y[i] - (double)x[i], 2);
    return e;
}

static void check_resolution(const shape *s, const float *x, const float *y)
{
    for (int at = 0; at < n_weight; at += s->group) {
        float lo = 0, hi = 0;
        for (int i = 0; i < s->group; i++) {
            lo = fminf(lo, x[at + i]), hi = fmaxf(hi, x[at + i]);
        }
        for (int i = 0; i < s->group; i++)
            if (!(fabsf(y[at + i] - x[at + i]) <= (float)s->step * (hi - lo)))
                fail_msg("%s: weight %d: %g became %g in a group of %g..%g", hy_quant(s->t)->name,
                         at + i, (double)x[at + i], (double)y[at + i], (double)lo, (double)hi);
    }
}

static void test_error(void **state)
{
    static float x[n_weight], y[n_weight], w[n_weight];
    for (int i = 0; i < n_weight; i++) {
        x[i] = 0.02f * normal(1, (uint64_t)i);
        w[i] = expf(2 * normal(2, (uint64_t)i % 512));
    }
    for (size_t k = 0; k < HY_COUNT(shapes); k++) {
        const shape *s = &shapes[k];
        const char *name = hy_quant(s->t)->name;
        pack_unpack(s->t, x, NULL, y, n_weight);
        double plain = plain_error(x, s), got = error_of(x, y, NULL, n_weight);
        double unaware = error_of(x, y, w, n_weight);
        print_message("%-7s %.3f of the plain error", name, got / plain);
        if (!(got <= s->allowed * plain)) fail_msg("%s: above %.3f", name, s->allowed);
        check_resolution(s, x, y);
        pack_unpack(s->t, x, w, y, n_weight);
        double aware = error_of(x, y, w, n_weight);
        print_message("; importance: %.3f\n", aware / unaware);
        if (!(aware < unaware)) fail_msg("%s: importance makes the weighted error worse", name);
    }
}

/* A block that the format holds exactly must come back exactly. */
static void test_exact(void **state)
{
    float x[256], y[256];
    for (int t = 0; t < HY_Q_COUNT; t++) {
        memset(x, 0, sizeof x);
        pack_unpack((hy_qtype)t, x, NULL, y, 256);
        for (int i = 0; i < 256; i++) assert_true(y[i] == 0);
    }
    for (int i = 0; i < 256; i++) x[i] = 0.25f * (float)(i % 16 - 8);
    pack_unpack(HY_Q_Q4_0, x, NULL, y, 256);
    assert_memory_equal(x, y, sizeof x);
    for (int i = 0; i < 256; i++) x[i] = 3 + 0.25f * (float)(i % 16);
    pack_unpack(HY_Q_Q4_1, x, NULL, y, 256);
    assert_memory_equal(x, y, sizeof x);
    for (int i = 0; i < 256; i++) x[i] = 0.5f * (float)hy_mxfp4_values[i % 16];
    pack_unpack(HY_Q_MXFP4, x, NULL, y, 256);
    for (int i = 0; i < 256; i++) assert_true(x[i] == y[i]);
    for (int i = 0; i < 256; i++) x[i] = 0.125f * (float)hy_iq4nl_values[i % 16];
    pack_unpack(HY_Q_IQ4_NL, x, NULL, y, 256);
    assert_memory_equal(x, y, sizeof x);
    for (int i = 0; i < 256; i++) x[i] = 7;
    const hy_qtype affine[] = {HY_Q_Q4_1, HY_Q_Q5_1};
    for (size_t k = 0; k < 2; k++) {
        pack_unpack(affine[k], x, NULL, y, 256);
        assert_memory_equal(x, y, sizeof x);
    }
}

/* Whatever comes in, finite weights come out and nothing traps. */
static void test_odd_inputs(void **state)
{
    enum { n = 256, n_case = 12 };
    static float x[n_case][n], w[5][n], y[n];
    for (int i = 0; i < n; i++) {
        float v = normal(3, (uint64_t)i);
        x[0][i] = i == 5 ? NAN : v;
        x[1][i] = i == 5 ? INFINITY : i == 77 ? -INFINITY : v;
        x[2][i] = NAN;
        x[3][i] = INFINITY;
        x[4][i] = 1e38f * v;
        x[5][i] = 1e-42f * v;
        x[6][i] = 1e-7f * v;
        x[7][i] = -fabsf(v);
        x[8][i] = i == 200 ? 1000 : 0;
        x[9][i] = i < 128 ? 1e-20f * v : v;
        x[10][i] = i % 2 ? FLT_MAX : -FLT_MAX;
        x[11][i] = 5;
        w[0][i] = 0;
        w[1][i] = i % 3 ? NAN : 1;
        w[2][i] = i % 2 ? INFINITY : -1;
        w[3][i] = 1e-40f;
        w[4][i] = i < 40 ? 0 : 1e30f;
    }
    for (int t = 0; t < HY_Q_COUNT; t++)
        for (int c = 0; c < n_case; c++)
            for (int k = -1; k < 5; k++) {
                if (hy_quant((hy_qtype)t)->is_float) continue;
                pack_unpack((hy_qtype)t, x[c], k < 0 ? NULL : w[k], y, n);
                for (int i = 0; i < n; i++)
                    if (!isfinite(y[i]))
                        fail_msg("%s case %d: %g became %g", hy_quant((hy_qtype)t)->name, c,
                                 (double)x[c][i], (double)y[i]);
            }
}

/* dot is the sum over unpacked weights, also where n is no multiple of any vector. */
static void test_dot(void **state)
{
    float w[512], x[512], y[512];
    uint8_t b[2048];
    for (int i = 0; i < 512; i++) w[i] = normal(4, (uint64_t)i), x[i] = normal(5, (uint64_t)i);
    for (int t = 0; t < HY_Q_COUNT; t++) {
        const hy_qtraits *q = hy_quant((hy_qtype)t);
        size_t n = q->block == 1 ? 511 : 512;
        double sum = 0;
        q->pack(w, b, n, NULL);
        q->unpack(b, y, n);
        for (size_t i = 0; i < n; i++) sum += (double)y[i] * (double)x[i];
        assert_true(fabs(sum - q->dot(b, x, n)) < 1e-10);
        assert_true(q->dot(b, x, 0) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error),
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_odd_inputs),
        cmocka_unit_test(test_dot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
