/* The non-matmul kernels: every ISA this machine can run against scalar, bit for bit, and scalar
 * against plain double arithmetic within derived bounds. Plain C, no test library: it also runs
 * cross-built under an emulator. `--bench` times the entries instead. Part of checkkern. */
#include "kern/fill.h"
#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define GUARD 64   /* bytes before and after every output */
#define N_BUF 6000 /* floats */
#define ULP   (FLT_EPSILON / 2)

int check_vec(int argc, char **argv);

static uint64_t n_pass, n_fail;
static char where[160];
static uint64_t counter;

static void check(bool ok, const char *what)
{
    if (ok) {
        n_pass++;
        return;
    }
    if (n_fail++ < 40) printf("FAIL %s: %s\n", where, what);
}

static void on_signal(int sig)
{
    static const char msg[] = "signal in ";
    ssize_t n = write(2, msg, sizeof(msg) - 1);
    n += write(2, where, strlen(where));
    n += write(2, "\n", 1);
    _exit(n > 0 ? 1 : 2);
}

static double unit(void) { return hy_rng_unit(hy_rng_at(11, 3, counter++)); }

static void noise(float *x, size_t n, double span)
{
    for (size_t i = 0; i < n; i++) x[i] = (float)((unit() - 0.5) * 2 * span);
}

/* Sprinkles values that break careless code: zeros of both signs, denormals, ties, huge, tiny. */
static void edges(float *x, size_t n)
{
    static const float v[] = {0.0f,   -0.0f, 1e-40f, -1e-44f, FLT_MIN, 3e38f,  -3e38f,
                              1e-30f, 1.0f,  -1.0f,  88.8f,   -88.0f,  -86.0f, 127.5f,
                              0.5f,   7.0f,  -7.0f,  0.625f,  4.0f};
    for (size_t i = 0; i < n; i++)
        if (unit() < 0.3) x[i] = v[(size_t)(unit() * (double)HY_COUNT(v))];
}

/* Floats in a guarded place, one float off any alignment. */
typedef struct box {
    uint8_t raw[GUARD + 4 + N_BUF * 4 + GUARD];
} box;
static box box_a, box_b;

static float *open_box(box *b)
{
    memset(b->raw, 0xA5, sizeof(b->raw));
    return (float *)(void *)(b->raw + GUARD + 4);
}

static bool guards_ok(const box *b, size_t n_bytes)
{
    for (size_t i = 0; i < GUARD + 4; i++)
        if (b->raw[i] != 0xA5) return false;
    for (size_t i = GUARD + 4 + n_bytes; i < sizeof(b->raw) && i < GUARD * 3 + n_bytes; i++)
        if (b->raw[i] != 0xA5) return false;
    return true;
}

static bool same(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (hy_f32_bits(a[i]) != hy_f32_bits(b[i]) && !(isnan(a[i]) && isnan(b[i]))) return false;
    return true;
}

static void compare(const char *what, const float *a, const float *b, size_t n)
{
    check(same(a, b, n), what);
    check(guards_ok(&box_a, n * 4) && guards_ok(&box_b, n * 4), "guard bytes written");
}

/* ---- ISA against scalar: rows -------------------------------------------------------------- */

static void isa_rows(const hy_kernels *s, const hy_kernels *k, uint64_t n, bool edge)
{
    static float px[N_BUF + 1], pw[N_BUF + 1], pb[N_BUF + 1];
    float *x = px + 1, *w = pw + 1, *b = pb + 1;
    noise(x, n, 6);
    noise(w, n, 3);
    noise(b, n, 90);
    if (edge) {
        edges(x, n);
        edges(w, n);
        edges(b, n);
    }
#define BOTH(what, init, call_s, call_k)                                                           \
    do {                                                                                           \
        float *y = open_box(&box_a), *z = open_box(&box_b);                                        \
        memcpy(y, init, n * 4);                                                                    \
        memcpy(z, init, n * 4);                                                                    \
        s->call_s;                                                                                 \
        k->call_k;                                                                                 \
        compare(what, y, z, n);                                                                    \
    } while (0)
    BOTH("rmsnorm", x, rmsnorm(x, w, y, n, 1e-6f), rmsnorm(x, w, z, n, 1e-6f));
    BOTH("rmsnorm in place, no w", x, rmsnorm(y, NULL, y, n, 1e-6f), rmsnorm(z, NULL, z, n, 1e-6f));
    BOTH("layernorm", x, layernorm(x, w, b, y, n, 1e-6f), layernorm(x, w, b, z, n, 1e-6f));
    BOTH("layernorm no b", x, layernorm(y, w, NULL, y, n, 1e-6f),
         layernorm(z, w, NULL, z, n, 1e-6f));
    BOTH("layernorm no w", x, layernorm(x, NULL, b, y, n, 1e-6f),
         layernorm(x, NULL, b, z, n, 1e-6f));
    BOTH("layernorm plain", x, layernorm(x, NULL, NULL, y, n, 1e-6f),
         layernorm(x, NULL, NULL, z, n, 1e-6f));
    BOTH("add", x, add(y, b, 0.7f, y, n), add(z, b, 0.7f, z, n));
    BOTH("scale", x, scale(y, 1.3f, n), scale(z, 1.3f, n));
    BOTH("softcap", b, softcap(y, 30.0f, n), softcap(z, 30.0f, n));
    for (hy_act_fn_id f = 0; f < HY_ACT_COUNT; f++) {
        BOTH("act", b, act(f, y, n), act(f, z, n));
        BOTH("act small", x, act(f, y, n), act(f, z, n));
        BOTH("act_mul", x, act_mul(f, x, b, y, n), act_mul(f, x, b, z, n));
        BOTH("act_mul in place", x, act_mul(f, y, w, y, n), act_mul(f, z, w, z, n));
    }
    for (int inter = 0; inter < 2; inter++)
        BOTH("rope", x, rope(y, (uint32_t)n / 2 * 2, inter, w, b),
             rope(z, (uint32_t)n / 2 * 2, inter, w, b));
#undef BOTH
}

static void isa_reductions(const hy_kernels *s, const hy_kernels *k, uint64_t n, bool edge)
{
    static float p[N_BUF + 1];
    float *x = p + 1;
    noise(x, n, 40);
    if (edge) edges(x, n);
    float m0 = s->max(x, n), m1 = k->max(x, n);
    check(same(&m0, &m1, 1), "max");
    check(s->argmax(x, n) == k->argmax(x, n), "argmax");
    float *y = open_box(&box_a), *z = open_box(&box_b);
    memcpy(y, x, n * 4);
    memcpy(z, x, n * 4);
    float e0 = s->exp_sum(y, m0, n), e1 = k->exp_sum(z, m0, n);
    compare("exp_sum", y, z, n);
    check(same(&e0, &e1, 1), "exp_sum's sum");
}

static void isa_argmax(const hy_kernels *s, const hy_kernels *k)
{
    float x[100];
    for (int i = 0; i < 100; i++) x[i] = -INFINITY;
    check(k->argmax(x, 100) == 0 && k->max(x, 100) == -INFINITY, "argmax of -inf");
    for (int i = 0; i < 100; i++) x[i] = NAN;
    check(k->argmax(x, 100) == 0 && s->argmax(x, 100) == 0, "argmax of NaN");
    x[97] = 3;
    check(k->argmax(x, 100) == 97 && s->argmax(x, 100) == 97, "argmax passes NaN over");
    for (int at = 0; at < 99; at++) {
        for (int i = 0; i < 100; i++) x[i] = (float)(i % 7);
        x[at] = x[99] = 50;
        check(k->argmax(x, 100) == (uint64_t)at && s->argmax(x, 100) == (uint64_t)at,
              "first of equals");
        check(k->max(x, 100) == 50, "max");
    }
}

static void isa_exp(const hy_kernels *s, const hy_kernels *k)
{
    static const float v[] = {INFINITY, -INFINITY, NAN,   0.0f,    -0.0f,    88.7f,
                              88.73f,   89,        1e30f, -1e30f,  -86,      -85.9999f,
                              -86.001f, -103,      -104,  FLT_MAX, -FLT_MAX, 1e-40f};
    float a[HY_COUNT(v)], b[HY_COUNT(v)];
    memcpy(a, v, sizeof(v));
    memcpy(b, v, sizeof(v));
    s->exp_sum(a, 0, HY_COUNT(v));
    k->exp_sum(b, 0, HY_COUNT(v));
    check(same(a, b, HY_COUNT(v)), "exp of edge values");
    for (hy_act_fn_id f = 0; f < HY_ACT_COUNT; f++) {
        memcpy(a, v, sizeof(v));
        memcpy(b, v, sizeof(v));
        s->act(f, a, HY_COUNT(v));
        k->act(f, b, HY_COUNT(v));
        check(same(a, b, HY_COUNT(v)), "act of edge values");
    }
    memcpy(a, v, sizeof(v));
    memcpy(b, v, sizeof(v));
    s->softcap(a, 20, HY_COUNT(v));
    k->softcap(b, 20, HY_COUNT(v));
    check(same(a, b, HY_COUNT(v)), "softcap of edge values");
}

static void isa_act8(const hy_kernels *s, const hy_kernels *k, uint64_t n_group, int kind)
{
    static float px[2049];
    float *x = px + 1;
    uint64_t n = n_group * 32;
    noise(x, n, kind == 2 ? 1e-30 : 5);
    if (kind == 1) edges(x, n);
    if (kind == 3) x[n / 2] = NAN, x[0] = -INFINITY;
    if (kind == 4) memset(x, 0, 128);
    if (kind == 5)
        for (uint64_t i = 0; i < n; i++)
            x[i] = i % 32 ? (float)(i % 64) - 31.5f : 127.0f; /* ties */
    if (kind == 6)
        for (uint64_t i = 0; i < n; i++) x[i] *= ldexpf(1, -(int)(i / 16 * 5 % 17)); /* halves of unlike size */
    static hy_act_group g0[65], g1[65];
    memset(g0, 99, sizeof(g0)), memset(g1, 99, sizeof(g1));
    s->act8(x, n, (hy_act8){g0, n});
    k->act8(x, n, (hy_act8){g1, n});
    check(!memcmp(g0, g1, sizeof(g0)), "act8");
}

/* A token's key and value into a page: every byte of the page, written or not, as scalar leaves it. */
static void isa_kv_put(const hy_kernels *s, const hy_kernels *k, uint32_t d, int kind)
{
    static uint8_t p0[600 * 64 + 2 * GUARD], p1[600 * 64 + 2 * GUARD];
    static float px[601];
    float *x = px + 1;
    for (hy_kv_type t = 0; t < HY_KV_TYPE_COUNT; t++) {
        if (t == HY_KV_Q4 && d % 32) continue;
        noise(x, d, kind == 1 ? 1e6 : kind == 2 ? 1e-31 : kind == 3 ? 7e-5 : 3);
        if (kind == 4) edges(x, d);
        if (kind == 5) x[d - 1] = NAN;
        if (kind == 6) x[d / 2] = -INFINITY;
        if (kind == 7) memset(x, 0, d * sizeof(float));
        for (uint32_t slot = 0; slot < HY_PAGE_TOK; slot += 5) {
            for (int is_k = 0; is_k < 2; is_k++) {
                memset(p0, 99, sizeof(p0)), memset(p1, 99, sizeof(p1));
                (is_k ? s->kv_put_k : s->kv_put_v)(t, p0 + GUARD, d, slot, x);
                (is_k ? k->kv_put_k : k->kv_put_v)(t, p1 + GUARD, d, slot, x);
                check(!memcmp(p0, p1, sizeof(p0)), is_k ? "kv_put_k" : "kv_put_v");
            }
        }
    }
}

#include "vec_att.h"

/* ---- scalar against double ----------------------------------------------------------------- */

static void near(double got, double want, double bound, const char *what)
{
    if (fabs(got - want) <= bound || got == want) {
        n_pass++;
        return;
    }
    char text[160];
    snprintf(text, sizeof(text), "%s: got %.9g, want %.9g, off by %.3g, bound %.3g", what, got,
             want, fabs(got - want), bound);
    check(false, text);
}

static double true_act(hy_act_fn_id f, double x)
{
    switch (f) {
    case HY_ACT_SILU:
        return x / (1 + exp(-x));
    case HY_ACT_GELU:
        return 0.5 * x * (1 + erf(x * sqrt(0.5)));
    case HY_ACT_GELU_TANH: /* x/2 (1 + tanh u) without cancelling */
        return x / (1 + exp(-2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case HY_ACT_RELU:
        return fmax(x, 0);
    case HY_ACT_RELU2:
        return fmax(x, 0) * fmax(x, 0);
    case HY_ACT_SIGMOID:
        return 1 / (1 + exp(-x));
    default:
        x = fmin(x, 7);
        return x / (1 + exp(-1.702 * x));
    }
}

static void true_functions(const hy_kernels *s)
{
    snprintf(where, sizeof(where), "scalar functions");
    for (int i = 0; i < 200000; i++) {
        float x = (float)(-86 + 174.6 * i / 200000), y = x;
        s->exp_sum(&y, 0, 1);
        near(y, exp((double)x), 2 * FLT_EPSILON * exp((double)x), "exp within 2 ulp");
    }
    float low[4] = {-86.01f, -200, -INFINITY, 89};
    s->exp_sum(low, 0, 4);
    check(low[0] == 0 && low[1] == 0 && low[2] == 0 && low[3] == INFINITY, "exp outside");
    for (int i = 0; i <= 200000; i++) {
        float x = (float)(-12 + 24.0 * i / 200000), y = x;
        s->softcap(&y, 1, 1);
        near(y, tanh((double)x), 2 * FLT_EPSILON * fabs(tanh((double)x)), "tanh within 2 ulp");
        for (hy_act_fn_id f = 0; f < HY_ACT_COUNT; f++) {
            y = x;
            s->act(f, &y, 1);
            double want = true_act(f, x);
            /* the argument of exp has an error of 2 ulp of itself; erf's is 2e-7 */
            double bound = f == HY_ACT_GELU ? 2.5e-7 * fmax(0.5, fabs((double)x))
                                            : fabs(want) * (4 + 4 * x * (double)x) * FLT_EPSILON +
                                                  fabs((double)x) / FLT_MAX; /* exp overflowed: 0 */
            near(y, want, bound, "act");
            float g = x, u = (float)(i % 19) - 9, z;
            s->act_mul(f, &g, &u, &z, 1);
            double um = f == HY_ACT_SWIGLU_OAI ? fmin(fmax(u, -7), 7) + 1 : u;
            near(z, want * um, (bound + FLT_EPSILON * fabs(want)) * fabs(um), "act_mul");
        }
    }
}

static void true_rows(const hy_kernels *s, uint32_t n)
{
    static float x[N_BUF], w[N_BUF], b[N_BUF], y[N_BUF];
    snprintf(where, sizeof(where), "scalar rows n=%u", n);
    noise(x, n, 3);
    noise(w, n, 2);
    noise(b, n, 2);
    double sq = 0, sum = 0, var = 0, es = 0;
    for (uint32_t i = 0; i < n; i++) sq += (double)x[i] * x[i], sum += x[i];
    double mean = sum / n, inv = 1 / sqrt(sq / n + 1e-5);
    for (uint32_t i = 0; i < n; i++) var += (x[i] - mean) * (x[i] - mean);
    double inv2 = 1 / sqrt(var / n + 1e-5), eps = (n / 16 + 12) * FLT_EPSILON;
    s->rmsnorm(x, w, y, n, 1e-5f);
    for (uint32_t i = 0; i < n; i++)
        near(y[i], x[i] * inv * w[i], eps * fabs(x[i] * inv * w[i]), "rmsnorm");
    s->layernorm(x, w, b, y, n, 1e-5f);
    for (uint32_t i = 0; i < n; i++)
        near(y[i], (x[i] - mean) * inv2 * w[i] + b[i], eps * (3 * inv2 + 1) * fabsf(w[i]) + eps,
             "layernorm");
    s->add(x, w, 0.25f, y, n);
    for (uint32_t i = 0; i < n; i++) near(y[i], x[i] + 0.25 * w[i], FLT_EPSILON * 4, "add");
    memcpy(y, x, n * 4);
    double got = s->exp_sum(y, 1.5f, n);
    for (uint32_t i = 0; i < n; i++) es += exp((double)x[i] - 1.5);
    near(got, es, eps * es, "exp_sum");
    for (int inter = 0; inter < 2; inter++) {
        memcpy(y, x, n * 4);
        s->rope(y, n / 2 * 2, inter, w, b);
        for (uint32_t i = 0; i < n / 2; i++) {
            uint32_t ia = inter ? 2 * i : i, ib = inter ? 2 * i + 1 : n / 2 + i;
            near(y[ia], (double)x[ia] * w[i] - (double)x[ib] * b[i], 4 * FLT_EPSILON * 12,
                 "rope a");
            near(y[ib], (double)x[ib] * w[i] + (double)x[ia] * b[i], 4 * FLT_EPSILON * 12,
                 "rope b");
        }
    }
}

/* Half h of a group whose larger half's largest value is `top`: codes, step, exponent. Returns the codes' sum. */
static int true_half(const hy_act_group *g, const float *x, int h, double top)
{
    double own = top_of(x, 16), step = (double)g->d * (1 << g->e[h]);
    int most = 0, sum = 0;
    for (int i = 0; i < 16; i++) {
        int q = g->q[16 * h + i];
        most = HY_MAX(most, abs(q));
        sum += q;
        near(q * step, x[i], step * 0.5001, "code");
    }
    check(g->m[h] == (1 << g->e[h]) * 0x10001, "the factor");
    if (own == top) {
        near(step, top / 127, top / 127 * FLT_EPSILON, "step of the larger half");
        check(most == 127, "its largest code is 127");
    } else { /* less by a power of two: as fine as it can be, but for the limit */
        check(g->e[h] == 0 && most <= 127, "the smaller half");
        check(most >= 63 || g->e[!h] == HY_ACT_SHIFT_MAX, "its codes use the range");
    }
    return sum;
}

static void true_act8(const hy_kernels *s)
{
    float x[64];
    hy_act_group to[2];
    snprintf(where, sizeof(where), "scalar act8");
    for (int round = 0; round < 400; round++) {
        noise(x, 64, round % 2 ? 3e-5 : 700);
        for (int i = 0; i < 16; i++) x[16 * (round / 2 % 4) + i] *= ldexpf(1, -round / 25);
        s->act8(x, 64, (hy_act8){to, 64});
        for (int g = 0; g < 2; g++) {
            double top = top_of(x + g * 32, 32);
            int s0 = true_half(&to[g], x + 32 * g, 0, top) * (1 << to[g].e[0]);
            int s1 = true_half(&to[g], x + 32 * g + 16, 1, top) * (1 << to[g].e[1]);
            check(to[g].b[0] == -128 * (s0 + s1) && to[g].b[1] == -128 * s1, "sums");
            near(to[g].s, (s0 + s1) * (double)to[g].d, fabs((s0 + s1) * (double)to[g].d) * FLT_EPSILON, "sum of 32");
        }
    }
    memset(x, 0, sizeof(x));
    x[40] = NAN;
    s->act8(x, 64, (hy_act8){to, 64});
    check(to[0].d == 0 && to[0].q[5] == 0 && to[0].b[0] == 0 && to[0].s == 0 && to[0].e[0] == 0, "zero group");
    check(isnan(to[1].d) && isnan(to[1].s), "a NaN shows");
    memset(x, 0, sizeof(x));
    x[3] = 5;
    s->act8(x, 32, (hy_act8){to, 32});
    near(to[0].d * (double)(1 << to[0].e[0]) * to[0].q[3], 5, 5 * FLT_EPSILON, "a half of zeros beside one that is none");
    check(to[0].q[20] == 0 && to[0].b[1] == 0, "which stays zero");
}

/* ---- the table ----------------------------------------------------------------------------- */

static void broken_scale(float *x, float s, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) x[i] = x[i] * s + (i == 76 ? 1e-3f : 0);
}

static void table(uint64_t cpu)
{
    hy_kernels k;
    hy_err err = {0};
    char msg[200] = "";
    snprintf(where, sizeof(where), "fill");
    check(hy_kern_fill(&k, cpu, NULL, &err) == HY_OK, "auto");
    check(hy_kern_fill(&k, cpu, "scalar", &err) == HY_OK && k.panel == 8, "scalar has panels of 8");
    check(hy_kern_fill(&k, cpu, "z80", &err) == HY_E_UNSUPPORTED && strstr(err.msg, "z80") &&
              strstr(err.msg, "scalar"),
          "unknown ISA");
    check(hy_kern_fill(&k, 0, "avx512", &err) == HY_E_UNSUPPORTED, "ISA without its features");
    const char *isa[8];
    uint32_t n = hy_kern_isas(cpu, isa);
    check(n >= 1 && !strcmp(isa[0], "scalar") && hy_kern_isas(0, isa) == 1, "isas");
    n = hy_kern_isas(cpu, isa);
    for (uint32_t i = 0; i < n; i++) {
        snprintf(where, sizeof(where), "selftest of %s", isa[i]);
        check(hy_kern_fill(&k, cpu, isa[i], &err) == HY_OK && !strcmp(k.isa, isa[i]),
              "fill by name");
        bool ok = hy_kern_selftest(&k, msg, sizeof(msg));
        check(ok, msg);
        k.scale = broken_scale;
        check(!hy_kern_selftest(&k, msg, sizeof(msg)) && strstr(msg, "scale"),
              "selftest sees a fault");
    }
    hy_kv_type t;
    check(hy_kv_type_from_name("Q8_0", &t) && t == HY_KV_Q8 && hy_kv_type_from_name("bf16", &t) &&
              t == HY_KV_BF16 && !hy_kv_type_from_name("q7", &t),
          "names of KV types");
    check(hy_kv_k_bytes(HY_KV_F16, 128) == 4096 && hy_kv_k_bytes(HY_KV_Q8, 128) == 2112 &&
              hy_kv_v_bytes(HY_KV_Q4, 128) == 1280 && hy_kv_v_bytes(HY_KV_BF16, 7) == 256,
          "page bytes");
}

static void check_isa(const hy_kernels *s, const hy_kernels *k)
{
    for (uint64_t n = 1; n <= 70; n++) {
        snprintf(where, sizeof(where), "%s n=%u", k->isa, (unsigned)n);
        isa_rows(s, k, n, false);
        isa_rows(s, k, n, true);
        isa_reductions(s, k, n, false);
        isa_reductions(s, k, n, true);
        isa_fold(s, k, (uint32_t)n);
    }
    for (uint64_t n = 4090; n < 4100; n += 3) {
        snprintf(where, sizeof(where), "%s n=%u", k->isa, (unsigned)n);
        isa_rows(s, k, n, n % 2);
        isa_reductions(s, k, n, n % 2);
    }
    snprintf(where, sizeof(where), "%s edges", k->isa);
    isa_argmax(s, k);
    isa_exp(s, k);
    for (uint64_t g = 1; g <= 64; g = g < 9 ? g + 1 : g * 2)
        for (int kind = 0; kind < 7; kind++) isa_act8(s, k, g, kind);
    static const uint32_t dims[] = {16, 32, 60, 64, 80, 96, 128, 256, 512, 576};
    for (size_t i = 0; i < HY_COUNT(dims); i++)
        for (int kind = 0; kind < 8; kind++) isa_kv_put(s, k, dims[i], kind);
    run_att(s, k, k == s);
}

/* ---- bench --------------------------------------------------------------------------------- */

#define TIME(label, unit_ns, call)                                                                 \
    do {                                                                                           \
        uint64_t best = UINT64_MAX, reps = 20;                                                     \
        for (int round = 0; round < 7; round++) {                                                  \
            uint64_t t0 = hy_now_ns();                                                             \
            for (uint64_t r = 0; r < reps; r++) call;                                              \
            uint64_t ns = (hy_now_ns() - t0) / reps;                                               \
            best = HY_MIN(best, ns);                                                               \
        }                                                                                          \
        printf("%-8s %-22s %9.1f ns  %8.3f ns/unit\n", k->isa, label, (double)best,                \
               (double)best / (unit_ns));                                                          \
    } while (0)

static void bench(const hy_kernels *k)
{
    static float x[4096], w[4096], y[4096];
    static hy_act_group g[128];
    int32_t pos[Q_MAX];
    noise(x, 4096, 2);
    noise(w, 4096, 2);
    TIME("act8 4096", 4096.0, k->act8(x, 4096, (hy_act8){g, 4096}));
    static uint8_t page[HY_PAGE_TOK * 128 * 4 + 64];
    TIME("kv_put_k f16 128", 128.0, k->kv_put_k(HY_KV_F16, page, 128, 3, x));
    TIME("kv_put_v f16 128", 128.0, k->kv_put_v(HY_KV_F16, page, 128, 3, x));
    TIME("kv_put_k q8 128", 128.0, k->kv_put_k(HY_KV_Q8, page, 128, 3, x));
    TIME("rmsnorm 4096", 4096.0, k->rmsnorm(x, w, y, 4096, 1e-5f));
    TIME("silu*u 4096", 4096.0, k->act_mul(HY_ACT_SILU, x, w, y, 4096));
    TIME("gelu*u 4096", 4096.0, k->act_mul(HY_ACT_GELU, x, w, y, 4096));
    TIME("exp_sum 4096", 4096.0, k->exp_sum(y, 3, 4096));
    TIME("argmax 4096", 4096.0, (void)k->argmax(x, 4096));
    for (hy_kv_type t = 0; t < HY_KV_TYPE_COUNT; t++) {
        make_seq(k, t, 128, 128, 64, 2);
        noise(q_row, HY_COUNT(q_row), 1);
        static const uint32_t n_q[] = {1, 2, 4, 8, 32};
        for (size_t i = 0; i < HY_COUNT(n_q); i++) {
            char label[40];
            for (uint32_t j = 0; j < n_q[i]; j++) pos[j] = 63;
            hy_att a = {.type = t,
                        .d_k = 128,
                        .d_v = 128,
                        .n_q = n_q[i],
                        .q = q_row,
                        .q_stride = 128,
                        .q_pos = pos,
                        .n_key = 64,
                        .scale = 0.09f,
                        .m = m_a,
                        .l = l_a,
                        .o = open_box(&box_a),
                        .work = work,
                        .wide = wide};
            set_tile(&a, &the_seq, 0, pos, n_q[i]);
            snprintf(label, sizeof(label), "att %s d128 q%u", hy_kv_type_name(t), n_q[i]);
            TIME(label, n_q[i] * 64.0 * 256, k->att[t](&a)); /* per multiply-add */
        }
    }
}

int check_vec(int argc, char **argv)
{
    bool time_it = argc > 1 && !strcmp(argv[1], "--bench");
    uint64_t cpu = hy_cpu_features();
    const char *isa[8];
    uint32_t n = hy_kern_isas(cpu, isa);
    pool_k = hy_alloc_big(SEQ_MAX * D_MAX * 4);
    pool_v = hy_alloc_big(SEQ_MAX * D_MAX * 4);
    if (!pool_k || !pool_v) return 1;
    signal(SIGILL, on_signal);
    signal(SIGSEGV, on_signal);
    for (uint32_t i = 0; i < n; i++) {
        hy_kernels s, k;
        hy_err err;
        if (hy_kern_fill(&k, cpu, isa[i], &err) != HY_OK) continue;
        hy_kern_fill_scalar(&s, k.panel);
        if (time_it) {
            bench(&k);
            continue;
        }
        printf("vec: %s\n", isa[i]);
        check_isa(&s, i ? &k : &s);
        if (i == 0) {
            true_functions(&s);
            true_act8(&s);
            for (uint32_t r = 1; r < 5000; r = r * 3 + 1) true_rows(&s, r);
        }
    }
    if (!time_it) {
        table(cpu);
        printf("vec: %llu passed, %llu failed\n", (unsigned long long)n_pass,
               (unsigned long long)n_fail);
    }
    hy_free_big(pool_k, SEQ_MAX * D_MAX * 4);
    hy_free_big(pool_v, SEQ_MAX * D_MAX * 4);
    return n_fail ? 1 : 0;
}

#ifndef HY_CHECKKERN
int main(int argc, char **argv) { return check_vec(argc, argv); }
#endif
