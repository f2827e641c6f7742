/* ISA avx512bf16: BF16 weights times activations rounded to BF16. The scalar definition is held against double and against
 * the same steps written another way; the vector kernel must give its bits, and change nothing else of the table. */
#include "kern/fill.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int n_failed;
static uint64_t at_random;
static float rnd(void)
{
    return (float)(hy_rng_unit(hy_rng_at(77, 1, at_random++)) - 0.5);
}
static uint32_t below(uint32_t n)
{
    return (uint32_t)(hy_rng_at(77, 2, at_random++) % n);
}
static void check(bool ok, const char *what, uint32_t a, uint32_t b, uint32_t c)
{
    if (ok) return;
    if (n_failed++ < 20) printf("FAILED: %s (%u rows, k %u, %u tokens)\n", what, a, b, c);
}
static void *must(void *p)
{
    if (!p) exit(2);
    return p;
}

/* Values that round, cancel, underflow and overflow. */
static float any(uint32_t kind)
{
    static const float edge[] = { 0, -0.0f, 1e-39f, -1e-39f, 0x1p-126f, 0x1.fffffep-127f, 0x1p-133f, 3e38f, -3e38f, 1, -1, 0x1.018p0f,
                                  0x1.008p0f, 0x1.01p-126f, INFINITY, NAN };
    if (kind == 0) return 2 * rnd();
    if (kind == 1) return ldexpf(rnd(), (int)below(80) - 100);
    return below(6) ? rnd() : edge[below(kind == 2 ? 14 : 16)];
}

/* The steps of kern/scalar/mm_bf16.c in double, where a product and a sum of two are exact but for the last rounding. */
static double bf16_of(float x)
{
    if (fabsf(x) < 0x1p-126f) return copysign(0, x);
    if (!isfinite(x)) return x;
    int e;
    (void)frexp(x, &e);
    double unit = ldexp(1, e - 8);
    double r = nearbyint(x / unit) * unit;
    return fabs(r) > 0x1.fep127 ? copysign(INFINITY, x) : r;
}

static float plain(const uint16_t *w, const float *x, uint32_t k)
{
    float acc = 0;
    for (uint32_t i = 0; i < k; i += 2)
        for (int odd = 1; odd >= 0; odd--) {
            uint32_t at = i + (uint32_t)odd;
            double a = at < k ? bf16_of(hy_bf16_f32(w[at])) : 0, b = at < k ? bf16_of(x[at]) : 0;
            acc = fmaf((float)a, (float)b, acc);
            if (fabsf(acc) < 0x1p-126f) acc = copysignf(0, acc);
        }
    return acc;
}

typedef struct box {
    uint16_t *rows;
    float *x, *want, *got, *bias, *add;
    hy_panels w;
} box;

static bool same(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(a + i, b + i, 4) && !(isnan(a[i]) && isnan(b[i]))) return false;
    return true;
}

static void shape(const hy_kernels *vec, uint32_t n_row, uint32_t k, uint32_t n_tok, uint32_t kind)
{
    box b;
    size_t stride = k + 3, n_y = (size_t)(n_tok + 2) * (n_row + 5);
    b.rows = must(hy_alloc((size_t)n_row * k * 2));
    b.x = must(hy_alloc_array((size_t)(n_tok + 1) * stride, sizeof(float)));
    b.want = must(hy_alloc_array(n_y, sizeof(float)));
    b.got = must(hy_alloc_array(n_y, sizeof(float)));
    b.bias = must(hy_alloc_array(n_row, sizeof(float)));
    b.add = must(hy_alloc_array(n_y, sizeof(float)));
    for (size_t i = 0; i < (size_t)n_row * k; i++) b.rows[i] = hy_f32_bf16(any(kind));
    for (size_t i = 0; i < (size_t)(n_tok + 1) * stride; i++) b.x[i] = any(kind);
    for (uint32_t i = 0; i < n_row; i++) b.bias[i] = rnd();
    for (size_t i = 0; i < n_y; i++) b.add[i] = rnd();
    if (!hy_panels_shape(&b.w, HY_Q_BF16, 16, n_row, k)) exit(2);
    uint8_t *data = must(hy_alloc_big(b.w.n_panel * b.w.panel_bytes));
    for (uint64_t p = 0; p < b.w.n_panel; p++) {
        const void *src[16];
        uint32_t n = (uint32_t)HY_MIN(16, n_row - p * 16);
        for (uint32_t r = 0; r < n; r++) src[r] = b.rows + (p * 16 + r) * k;
        hy_panel_pack(&b.w, data + p * b.w.panel_bytes, src, n);
    }
    b.w.data = data;
    hy_kernels ref;
    hy_kern_fill_scalar(&ref, 16);
    hy_mm_fill_scalar_bf16(&ref);
    uint32_t x_row[64], y_row[64];
    for (uint32_t t = 0; t < n_tok; t++) {
        x_row[t] = below(n_tok + 1);
        y_row[t] = n_tok + 1 - t;
    }
    for (int how = 0; how < 2; how++) { /* plain; through lists, with bias and add */
        hy_mm m = { .w = &b.w, .panel_last = b.w.n_panel, .n_tok = n_tok, .x = b.x, .x_stride = stride, .y = b.want, .y_stride = n_row + 5 };
        if (how) m.x_row = x_row, m.y_row = y_row, m.bias = b.bias, m.add = b.add, m.add_stride = n_row + 5;
        for (size_t i = 0; i < n_y; i++) b.want[i] = b.got[i] = 7;
        ref.mm_f32[HY_Q_BF16](&m);
        for (uint32_t t = 0; t < n_tok; t++)
            for (uint32_t r = 0; r < n_row; r++) {
                uint32_t row = how ? y_row[t] : t;
                float v = plain(b.rows + (size_t)r * k, b.x + (how ? x_row[t] : t) * stride, k);
                if (how) v = v + b.bias[r] + b.add[row * (n_row + 5) + r];
                check(same(&v, &b.want[row * (n_row + 5) + r], 1), "scalar against its definition", n_row, k, n_tok);
            }
        if (!vec) continue;
        m.y = b.got;
        vec->mm_f32[HY_Q_BF16](&m);
        check(same(b.want, b.got, n_y), how ? "vectors, lists" : "vectors", n_row, k, n_tok);
    }
    hy_free_big(data, b.w.n_panel * b.w.panel_bytes);
    hy_free(b.rows);
    hy_free(b.x);
    hy_free(b.want);
    hy_free(b.got);
    hy_free(b.bias);
    hy_free(b.add);
}

/* Nothing but products of BF16 weights differs from avx512. */
static void table(const hy_kernels *vec)
{
    hy_kernels a;
    hy_err err;
    if (hy_kern_fill(&a, hy_cpu_features(), "avx512", &err) != HY_OK) exit(2);
    check(!strcmp(vec->isa, "avx512bf16") && a.mm_f32[HY_Q_BF16] != vec->mm_f32[HY_Q_BF16], "its own kernel", 0, 0, 0);
    a.isa = vec->isa;
    a.mm_f32[HY_Q_BF16] = vec->mm_f32[HY_Q_BF16];
    check(!memcmp(&a, vec, sizeof a), "the rest of the table", 0, 0, 0);
    if (hy_kern_fill(&a, hy_cpu_features(), NULL, &err) != HY_OK) exit(2);
    check(strcmp(a.isa, "avx512bf16") != 0, "never taken by itself", 0, 0, 0);
}

int main(void)
{
    hy_kernels k, *vec = NULL;
    hy_err err;
    if (hy_kern_fill(&k, hy_cpu_features(), "avx512bf16", &err) == HY_OK) vec = &k;
    else printf("skipped: vectors: %s\n", err.msg);
    if (vec) table(vec);
    static const uint32_t rows[] = { 1, 16, 17, 64, 70, 130 }, ks[] = { 1, 2, 31, 64, 257, 600 }, toks[] = { 1, 3, 4, 9, 33 };
    for (uint32_t i = 0; i < HY_COUNT(rows); i++)
        for (uint32_t j = 0; j < HY_COUNT(ks); j++)
            for (uint32_t t = 0; t < HY_COUNT(toks); t++) shape(vec, rows[i], ks[j], toks[t], (i + j + t) % 4);
    printf("%d failed\n", n_failed);
    return n_failed != 0;
}
