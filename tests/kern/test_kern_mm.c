/* Matmul kernels: every ISA this machine can run gives the scalar version's bits, over types, shapes,
 * indirections and edge values; scalar itself is held against quant's dot in double.
 *   test_kern_mm            the checks
 *   test_kern_mm --bench    times one thread: GEMV in GB/s of weights, GEMM in GMAC/s */
#include "kern/kern.h"
#include "kern/panel.h"
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t n_passed, n_failed;
static uint64_t rng_state = 1;

static uint64_t rnd(void)
{
    return hy_rng_at(20, 7, rng_state++);
}
static uint32_t below(uint32_t n)
{
    return (uint32_t)(rnd() % n);
}
static float rnd_float(void) /* about normal */
{
    double s = 0;
    for (int i = 0; i < 4; i++) s += hy_rng_unit(rnd()) - 0.5;
    return (float)(s * 1.7);
}
static void *must(void *p)
{
    if (p) return p;
    fprintf(stderr, "out of memory\n");
    exit(2);
}

static bool check(bool ok, const char *fmt, ...) HY_PRINTF(2, 3);
static bool check(bool ok, const char *fmt, ...)
{
    if (ok) {
        n_passed++;
        return true;
    }
    if (n_failed++ < 30) {
        va_list ap;
        va_start(ap, fmt);
        printf("FAILED: ");
        vprintf(fmt, ap);
        printf("\n");
        va_end(ap);
    }
    return false;
}

/* ---- weights and activations ----------------------------------------------------------------- */

typedef enum mode { RANDOM, EDGE, CODES_HIGH, CODES_LOW, MODE_COUNT } mode;

/* Where a block's f16 scales are. */
static int scale_fields(hy_qtype t, int at[2])
{
    at[0] = 0, at[1] = 2;
    switch (t) {
    case HY_Q_Q4_1: case HY_Q_Q5_1: case HY_Q_Q4_K: case HY_Q_Q5_K: return 2;
    case HY_Q_Q2_K: at[0] = 80, at[1] = 82; return 2;
    case HY_Q_Q3_K: at[0] = 108; return 1;
    case HY_Q_Q6_K: at[0] = 208; return 1;
    case HY_Q_MXFP4: return 0;
    default: return 1;
    }
}

static uint16_t edge_f16(void)
{
    static const uint16_t v[] = {0, 0x8000, 0x7bff, 0xfbff, 1, 0x8001, 0x03ff, 0x0400, 0x3c00, 0xbc00};
    return v[below(HY_COUNT(v))];
}

static void fill_float_row(hy_qtype t, mode md, uint8_t *row, uint64_t k)
{
    for (uint64_t i = 0; i < k; i++) {
        float v = md == CODES_HIGH ? 1 : md == CODES_LOW ? -1 : rnd_float();
        if (md == EDGE && below(4) == 0) v = hy_f16_f32(edge_f16());
        uint16_t h = t == HY_Q_F16 ? hy_f32_f16(v) : hy_f32_bf16(v);
        if (t == HY_Q_F32) memcpy(row + 4 * i, &v, 4);
        else memcpy(row + 2 * i, &h, 2);
    }
}

static void fill_row(hy_qtype t, mode md, uint8_t *row, uint64_t k)
{
    if (hy_pf_float(t)) {
        fill_float_row(t, md, row, k);
        return;
    }
    const hy_qtraits *q = hy_quant(t);
    int at[2], n = scale_fields(t, at);
    static const uint8_t high[] = {0xff, 0x7f, 0x80, 0x77, 0x88};
    for (uint64_t b = 0; b < k / q->block; b++, row += q->block_bytes) {
        uint8_t fixed = md == CODES_HIGH ? high[below(5)] : 0;
        for (uint32_t i = 0; i < q->block_bytes; i++)
            row[i] = md == RANDOM || md == EDGE ? (uint8_t)rnd() : fixed;
        for (int i = 0; i < n; i++) {
            uint16_t h = md == EDGE ? edge_f16() : hy_f32_f16(rnd_float() / 64);
            memcpy(row + at[i], &h, 2);
        }
        /* e = 255 would be NaN in the standard; 254 overflows with F32 sums */
        if (t == HY_Q_MXFP4) row[0] = md == EDGE ? (uint8_t)below(190) : (uint8_t)(118 + below(8));
    }
}

typedef struct weights {
    uint8_t *rows;             /* file format */
    uint64_t row_bytes;
    hy_panels w[2];            /* P = 8, 16 */
} weights;

static void make_weights(weights *o, hy_qtype t, mode md, uint64_t n_row, uint64_t k)
{
    if (!hy_quant_row_bytes(t, k, &o->row_bytes)) exit(2);
    o->rows = must(hy_alloc(n_row * o->row_bytes));
    for (uint64_t r = 0; r < n_row; r++) fill_row(t, md, o->rows + r * o->row_bytes, k);
    for (int i = 0; i < 2; i++) {
        hy_panels *w = &o->w[i];
        if (!check(hy_panels_shape(w, t, i ? 16 : 8, n_row, k), "shape %d", t)) exit(1);
        uint64_t bytes = w->n_panel * w->panel_bytes;
        uint8_t *data = must(hy_alloc_big(bytes));
        memset(data, 0xa5, bytes);
        for (uint64_t p = 0; p < w->n_panel; p++) {
            const void *src[16];
            uint32_t n = (uint32_t)HY_MIN(w->p, n_row - p * w->p);
            for (uint32_t r = 0; r < n; r++) src[r] = o->rows + (p * w->p + r) * o->row_bytes;
            hy_panel_pack(w, data + p * w->panel_bytes, src, n);
        }
        w->data = data;
    }
}

static void free_weights(weights *o)
{
    for (int i = 0; i < 2; i++)
        hy_free_big((void *)(uintptr_t)o->w[i].data, o->w[i].n_panel * o->w[i].panel_bytes);
    hy_free(o->rows);
}

typedef struct acts {
    hy_act8 a8;
    float *x;                  /* [n, stride] */
    size_t stride;
    uint64_t n, k;
    uint8_t *mem;
} acts;

/* Rows that start anywhere: nothing here is aligned but to its own type. */
static void make_acts(acts *o, mode md, uint64_t n, uint64_t k)
{
    uint64_t kg = HY_ROUND_UP(k, 32);
    o->n = n, o->k = k, o->stride = k + 3;
    o->mem = must(hy_alloc((n * kg / 32 + 1) * sizeof(hy_act_group)));
    o->x = must(hy_alloc_array(n * o->stride, sizeof(float)));
    o->a8 = (hy_act8){(hy_act_group *)(void *)(o->mem + sizeof(float)), kg};
    for (uint64_t i = 0; i < n * kg / 32; i++) {
        hy_act_group *g = &o->a8.g[i];
        for (int j = 0; j < 32; j++) {
            int q = (int)below(255) - 127;
            if (md == CODES_HIGH || md == CODES_LOW) q = below(64) ? (i / (kg / 32) % 2 ? 127 : -127) : q;
            g->q[j] = (int8_t)q;
        }
        g->d = fabsf(rnd_float()) / 50;
        if (md == EDGE && below(4) == 0) g->d = below(2) ? 0 : below(2) ? 1e-41f : 1e20f;
        int up = (int)below(2), s[2] = {0, 0};
        g->e[up] = below(4) ? (int)below(3) : (int)below(HY_ACT_SHIFT_MAX + 1);
        if (md == EDGE || md == CODES_HIGH) g->e[up] = HY_ACT_SHIFT_MAX;
        g->e[!up] = 0;
        for (int j = 0; j < 32; j++) s[j / 16] += g->q[j] * (1 << g->e[j / 16]);
        for (int h = 0; h < 2; h++) g->m[h] = (1 << g->e[h]) * 0x10001;
        g->b[0] = -128 * (s[0] + s[1]);
        g->b[1] = -128 * s[1];
        g->s = (float)(s[0] + s[1]) * g->d;
    }
    for (uint64_t i = 0; i < n * o->stride; i++) o->x[i] = rnd_float();
}

static void free_acts(acts *o)
{
    hy_free(o->mem);
    hy_free(o->x);
}

/* ---- the tables ------------------------------------------------------------------------------ */

typedef struct table {
    hy_kernels k;
    char name[24];
} table;
static table tables[12];
static uint32_t n_table;

#if defined(HY_AMX_IN_C)
void hy_mm_fill_amx_in_c(hy_kernels *k, uint64_t cpu); /* x86/amx_mm.c over x86/emu_amx.h */
static void make_amx_in_c(uint64_t cpu)
{
    hy_err err;
    if (hy_kern_fill(&tables[n_table].k, cpu, "avx512", &err) != HY_OK) return;
    hy_mm_fill_amx_in_c(&tables[n_table].k, cpu);
    snprintf(tables[n_table++].name, sizeof(tables[0].name), "amx in C");
}
#else
static void make_amx_in_c(uint64_t cpu) {}
#endif

/* Every ISA whose numbers are the scalar one's, whether it is taken by itself or only by name. */
static void make_tables(void)
{
    uint64_t cpu = hy_cpu_features();
    const char *names[16];
    uint32_t n = hy_kern_isas(cpu, names);
    n += hy_kern_isas_off(cpu, names + n);
    for (uint32_t p = 8; p <= 16; p += 8) {
        hy_kern_fill_scalar(&tables[n_table].k, p);
        snprintf(tables[n_table].name, sizeof(tables[0].name), "scalar%u", p);
        n_table++;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!strcmp(names[i], "scalar") || !strcmp(names[i], "avx512bf16")) continue; /* test_kern_bf16.c */
        hy_err err;
        if (hy_kern_fill(&tables[n_table].k, cpu, names[i], &err) != HY_OK) {
            printf("skipped: %s: %s\n", names[i], err.msg);
            continue;
        }
        snprintf(tables[n_table].name, sizeof(tables[0].name), "%s", names[i]);
        n_table++;
    }
    make_amx_in_c(cpu);
    printf("tables:");
    for (uint32_t i = 0; i < n_table; i++) printf(" %s", tables[i].name);
    printf("\n");
}

/* ---- checks ---------------------------------------------------------------------------------- */

static bool same(float a, float b)
{
    return !memcmp(&a, &b, 4) || (isnan(a) && isnan(b));
}

typedef struct job {
    const weights *w;
    const acts *a;
    uint64_t first, last_row;  /* rows asked for: first is a multiple of 16 */
    uint32_t n_tok;
    const uint32_t *x_row, *y_row;
    const float *bias, *add;
    bool add_in_place;
    size_t y_stride;
    uint64_t n_y;              /* rows of y */
} job;

#define GUARD 16

/* Runs one table's kernel into y (n_y * y_stride floats with guards on both ends). */
static void run(const table *t, bool q8, const job *j, float *y)
{
    hy_qtype type = j->w->w[0].type;
    const hy_panels *w = &j->w->w[t->k.panel == 16];
    hy_mm m = {.w = w, .panel_first = j->first / w->p,
               .panel_last = (j->last_row + w->p - 1) / w->p, .n_tok = j->n_tok,
               .x_row = j->x_row, .y_row = j->y_row, .x8 = j->a->a8, .x = j->a->x,
               .x_stride = j->a->stride, .y = y, .y_stride = j->y_stride, .bias = j->bias,
               .add = j->add_in_place ? y : j->add, .add_stride = j->y_stride,
               .next = j->n_tok % 2 ? w->data : NULL}; /* a hint, whatever it says */
    (q8 ? t->k.mm_q8[type] : t->k.mm_f32[type])(&m);
}

/* All tables against the first; base: what y holds before. */
static void compare(const job *j, bool q8, const float *base, const char *what)
{
    size_t n = j->n_y * j->y_stride + 2 * GUARD;
    float *want = must(hy_alloc_array(n, sizeof(float)));
    float *got = must(hy_alloc_array(n, sizeof(float)));
    memcpy(want, base, n * sizeof(float));
    run(&tables[0], q8, j, want + GUARD);
    for (uint32_t i = 1; i < n_table; i++) {
        memcpy(got, base, n * sizeof(float));
        run(&tables[i], q8, j, got + GUARD);
        size_t bad = n;
        for (size_t e = 0; e < n && bad == n; e++)
            if (!same(got[e], want[e])) bad = e;
        check(bad == n, "%s %s %s %s: rows %d k %d tok %u: element %d: %a, scalar %a",
              tables[i].name, hy_quant(j->w->w[0].type)->name, q8 ? "q8" : "f32", what,
              (int)j->w->w[0].n_row, (int)j->w->w[0].k, j->n_tok, (int)bad - GUARD,
              bad < n ? (double)got[bad] : 0, bad < n ? (double)want[bad] : 0);
    }
    hy_free(want);
    hy_free(got);
}

static float *random_floats(size_t n)
{
    float *v = must(hy_alloc_array(n, sizeof(float)));
    for (size_t i = 0; i < n; i++) v[i] = rnd_float();
    return v;
}

/* One shape: plain, with indirection, bias and add, and add in place; a range of panels. */
static void check_shape(hy_qtype t, mode md, uint64_t n_row, uint64_t k, uint32_t n_tok)
{
    weights w;
    acts a;
    make_weights(&w, t, md, n_row, k);
    make_acts(&a, md, n_tok + 3, k);
    size_t stride = n_row + 5;
    uint64_t n_y = n_tok + 4;
    size_t n = n_y * stride + 2 * GUARD;
    float *base = random_floats(n), *bias = random_floats(n_row), *add = random_floats(n);
    uint32_t x_row[64], y_row[64];
    for (uint32_t i = 0; i < n_tok; i++) {
        x_row[i] = below(n_tok + 3);
        y_row[i] = (i * 5 + 2) % n_tok + 4; /* below, 5 must not divide n_tok */
        if (n_tok % 5 == 0) y_row[i] = n_tok - 1 - i + 2;
    }
    job plain = {.w = &w, .a = &a, .last_row = n_row, .n_tok = n_tok, .y_stride = stride,
                 .n_y = n_y};
    job all = plain, in_place = plain, part = plain;
    all.x_row = x_row, all.y_row = y_row, all.bias = bias, all.add = add;
    in_place.y_row = y_row, in_place.add_in_place = true;
    part.first = n_row > 16 ? 16 : 0, part.x_row = x_row, part.bias = bias;
    for (int q8 = hy_pf_float(t) ? 0 : 1; q8 >= 0; q8--) {
        compare(&plain, q8, base, "plain");
        compare(&all, q8, base, "rows, bias, add");
        compare(&in_place, q8, base, "add in place");
        compare(&part, q8, base, "part");
    }
    hy_free(base);
    hy_free(bias);
    hy_free(add);
    free_acts(&a);
    free_weights(&w);
}

/* hy_panel_row against quant's unpack, rows past the end zero, for both widths. */
static void check_rows(hy_qtype t, mode md, uint64_t n_row, uint64_t k)
{
    weights w;
    make_weights(&w, t, md, n_row, k);
    float *want = must(hy_alloc_array(k, sizeof(float)));
    float *got = must(hy_alloc_array(k, sizeof(float)));
    for (int i = 0; i < 2; i++) {
        for (uint64_t r = 0; r < n_row; r++) {
            hy_quant(t)->unpack(w.rows + r * w.row_bytes, want, k);
            hy_panel_row(&w.w[i], r, got);
            check(!memcmp(want, got, k * sizeof(float)), "row %d of %s, P %u", (int)r,
                  hy_quant(t)->name, w.w[i].p);
        }
        for (uint64_t r = n_row; r < w.w[i].n_panel * w.w[i].p; r++) {
            hy_panel_row(&w.w[i], r, got);
            bool zero = true;
            for (uint64_t c = 0; c < k; c++) zero = zero && got[c] == 0;
            check(zero, "padding row %d of %s", (int)r, hy_quant(t)->name);
        }
    }
    hy_free(want);
    hy_free(got);
    free_weights(&w);
}

static float value_of(const hy_act8 *x, uint64_t tok, uint64_t c)
{
    const hy_act_group *g = &x->g[(tok * x->k + c) / 32];
    return (float)(g->q[c % 32] * (1 << g->e[c % 32 / 16])) * g->d;
}

/* Scalar against double. mag: the sum of the magnitudes of all terms. Each term's factor carries at
 * most three roundings, and each of the n additions one: |err| <= (n + 3) * 2^-24 * mag. */
static void check_double(hy_qtype t, uint64_t k)
{
    const uint64_t n_row = 11, n_tok = 3;
    weights w;
    acts a;
    make_weights(&w, t, RANDOM, n_row, k);
    make_acts(&a, RANDOM, n_tok, k);
    float y[64];
    float *x = must(hy_alloc_array(k, sizeof(float)));
    float *v = must(hy_alloc_array(k, sizeof(float)));
    job j = {.w = &w, .a = &a, .last_row = n_row, .n_tok = n_tok, .y_stride = n_row};
    for (int q8 = hy_pf_float(t) ? 0 : 1; q8 >= 0; q8--) {
        run(&tables[0], q8, &j, y);
        for (uint64_t i = 0; i < n_tok * n_row; i++) {
            uint64_t tok = i / n_row, r = i % n_row;
            const uint8_t *row = w.rows + r * w.row_bytes;
            for (uint64_t c = 0; c < k; c++)
                x[c] = q8 ? value_of(&a.a8, tok, c) : a.x[tok * a.stride + c];
            hy_quant(t)->unpack(row, v, k);
            double mag = 0, want = hy_quant(t)->dot(row, x, k);
            for (uint64_t c = 0; c < k; c++) {
                double m = fabs((double)v[c]);
                if (hy_pf_has_min(t) && q8) {
                    hy_group g;
                    hy_panel_group(&w.w[0], hy_panel_at(&w.w[0], r / 8), c / 32, r % 8, &g);
                    uint64_t h = c % 32 / 16;
                    m = fabs((double)g.ws * g.sc[h] * g.code[c % 32]) + fabs((double)g.wm * g.mn[h]);
                }
                mag += m * fabs((double)x[c]);
            }
            /* one more rounding in x itself where it stands for q * d */
            double bound = ((q8 ? (double)(k / 32) * (hy_pf_halves(t) ? 4 : 2) : (double)k) + 4) * FLT_EPSILON / 2 * mag;
            check(fabs(y[i] - want) <= bound, "%s %s against double: %g, %g (bound %g)",
                  hy_quant(t)->name, q8 ? "q8" : "f32", (double)y[i], want, bound);
        }
    }
    hy_free(x);
    hy_free(v);
    free_acts(&a);
    free_weights(&w);
}

static void check_shapes_refused(void)
{
    hy_panels w;
    check(!hy_panels_shape(&w, HY_Q_Q4_0, 8, 1, 33), "k 33 of q4_0");
    check(!hy_panels_shape(&w, HY_Q_Q4_K, 8, 1, 32), "k 32 of q4_k");
    check(!hy_panels_shape(&w, HY_Q_F32, 8, UINT64_MAX, 8), "rows overflow");
    check(!hy_panels_shape(&w, HY_Q_F32, 8, 1, UINT64_MAX / 8), "k overflows");
    check(!hy_panels_shape(&w, HY_Q_Q8_0, 16, UINT64_MAX / 64, UINT64_MAX / 32 * 32), "k huge");
    check(!hy_panels_shape(&w, HY_Q_Q8_0, 4, 1, 32), "P 4");
    check(!hy_panels_shape(&w, HY_Q_COUNT, 8, 1, 32), "no type");
}

static void check_type(hy_qtype t)
{
    uint64_t b = hy_quant(t)->block;
    uint64_t k_one = b == 1 ? 1 : b, k_odd = b == 1 ? 77 : b == 32 ? 32 * 9 : 256 * 3;
    for (int md = 0; md < MODE_COUNT; md++) {
        check_rows(t, (mode)md, 19, k_odd);
        check_shape(t, (mode)md, 40, k_odd, 7);
        check_shape(t, (mode)md, 17, k_odd, 2);
        check_shape(t, (mode)md, 9, k_one, 33);
    }
    for (uint64_t n_row = 1; n_row <= 40; n_row++)
        check_shape(t, RANDOM, n_row, k_one, 1 + (uint32_t)(n_row % 3));
    for (uint32_t n_tok = 1; n_tok <= 13; n_tok++) check_shape(t, RANDOM, 21, k_odd, n_tok);
    for (uint32_t n_tok = 15; n_tok <= 32; n_tok += 1 + n_tok / 16 * 7) /* several tiles of k in turns */
        check_shape(t, RANDOM, 33, b == 1 ? 131 : HY_ROUND_UP(32 * 41, b), n_tok);
    check_shape(t, RANDOM, 70, k_odd, 33);
    check_shape(t, RANDOM, 20, b == 1 ? 515 : HY_ROUND_UP(1056, b), 5);
    check_double(t, b == 1 ? 301 : HY_ROUND_UP(288, b));
}

/* More tokens than a block holds: one long run against the same tokens one by one. */
static void check_split(hy_qtype t)
{
    const uint32_t n_tok = 131, n_row = 24;
    weights w;
    acts a;
    make_weights(&w, t, RANDOM, n_row, 512);
    make_acts(&a, RANDOM, n_tok, 512);
    float *y = must(hy_alloc_array(n_tok * n_row, sizeof(float)));
    float *one = must(hy_alloc_array(n_row, sizeof(float)));
    for (uint32_t i = 0; i < n_table; i++) {
        for (int q8 = hy_pf_float(t) ? 0 : 1; q8 >= 0; q8--) {
            job j = {.w = &w, .a = &a, .last_row = n_row, .n_tok = n_tok, .y_stride = n_row};
            run(&tables[i], q8, &j, y);
            j.n_tok = 1;
            bool ok = true;
            for (uint32_t s = 0; s < n_tok; s++) {
                j.x_row = &s;
                j.y_row = (const uint32_t[]){0};
                run(&tables[i], q8, &j, one);
                ok = ok && !memcmp(one, y + s * n_row, n_row * sizeof(float));
            }
            check(ok, "%s %s %s: 131 tokens at once and one by one differ", tables[i].name,
                  hy_quant(t)->name, q8 ? "q8" : "f32");
        }
    }
    hy_free(y);
    hy_free(one);
    free_acts(&a);
    free_weights(&w);
}

/* ---- bench ----------------------------------------------------------------------------------- */

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Best of a few passes, in seconds of this thread: neighbours cost caches, not time. */
static double time_mm(hy_mm_fn *fn, const hy_mm *m)
{
    double best = 1e9;
    for (int i = 0; i < 12; i++) {
        double t0 = cpu_seconds();
        fn(m);
        best = HY_MIN(best, cpu_seconds() - t0);
    }
    return best;
}

static void bench(hy_qtype t, const table *tb, bool q8, uint64_t k, uint64_t kib)
{
    hy_mm_fn *fn = q8 ? tb->k.mm_q8[t] : tb->k.mm_f32[t];
    if (!fn) return;
    static const uint32_t n_toks[] = {1, 2, 4, 8, 12, 16, 32, 128};
    uint64_t row_bytes;
    if (!hy_quant_row_bytes(t, k, &row_bytes)) return;
    uint64_t n_row = HY_ROUND_UP(kib * 1024 / row_bytes, 64);
    hy_panels w;
    if (!hy_panels_shape(&w, t, tb->k.panel, n_row, k)) return;
    uint8_t *src = must(hy_alloc(16 * row_bytes)), *data = must(hy_alloc_big(w.n_panel * w.panel_bytes));
    for (int r = 0; r < 16; r++) fill_row(t, RANDOM, src + (uint64_t)r * row_bytes, k);
    for (uint64_t p = 0; p < w.n_panel; p++) {
        const void *rows[16];
        for (uint32_t r = 0; r < w.p; r++) rows[r] = src + (r + p) % 16 * row_bytes;
        hy_panel_pack(&w, data + p * w.panel_bytes, rows, w.p);
    }
    w.data = data;
    acts a;
    make_acts(&a, RANDOM, 128, k);
    float *y = must(hy_alloc_array(128 * n_row, sizeof(float)));
    memset(y, 0, 128 * n_row * sizeof(float));
    printf("%-8s %-7s %-4s k %5d ", tb->name, hy_quant(t)->name, q8 ? "q8" : "f32", (int)k);
    double gbs = 0;
    for (uint32_t i = 0; i < HY_COUNT(n_toks); i++) {
        hy_mm m = {.w = &w, .panel_last = w.n_panel, .n_tok = n_toks[i], .x8 = a.a8, .x = a.x,
                   .x_stride = a.stride, .y = y, .y_stride = n_row};
        if (n_toks[i] > 32) m.panel_last = HY_MIN(w.n_panel, 1024 / w.p);
        double s = time_mm(fn, &m);
        if (i == 0) gbs = (double)(w.n_panel * w.panel_bytes) / s * 1e-9;
        if (i == 0) printf("%6.1f GB/s |", gbs);
        printf(" %u: %6.1f", n_toks[i],
               (double)n_toks[i] * (double)(m.panel_last * w.p) * (double)k / s * 1e-9);
    }
    printf(" GMAC/s\n");
    fflush(stdout);
    hy_free(y);
    free_acts(&a);
    hy_free(src);
    hy_free_big(data, w.n_panel * w.panel_bytes);
}

/* --bench [isa [type [k [KiB of weights]]]]: "all" for any */
static void bench_all(int argc, char **argv)
{
    for (uint32_t i = 0; i < n_table; i++) {
        if (argc > 2 ? strcmp(argv[2], tables[i].name) && strcmp(argv[2], "all")
                     : !strncmp(tables[i].name, "scalar", 6)) continue;
        for (int q8 = 1; q8 >= 0; q8--)
            for (int t = 0; t < HY_Q_COUNT; t++)
                if (argc <= 3 || !strcmp(argv[3], "all") || !strcmp(argv[3], hy_quant(t)->name))
                    bench((hy_qtype)t, &tables[i], q8,
                          argc > 4 ? strtoull(argv[4], NULL, 10) : 2048,
                          argc > 5 ? strtoull(argv[5], NULL, 10) : 64 * 1024);
    }
}

int main(int argc, char **argv)
{
    make_tables();
    if (argc > 1 && !strcmp(argv[1], "--bench")) {
        bench_all(argc, argv);
        return 0;
    }
    check_shapes_refused();
    for (int t = 0; t < HY_Q_COUNT; t++) {
        check_type((hy_qtype)t);
        check_split((hy_qtype)t);
    }
    printf("%llu passed, %llu failed\n", (unsigned long long)n_passed,
           (unsigned long long)n_failed);
    return n_failed != 0;
}
