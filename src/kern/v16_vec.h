/* The body of an ISA's <isa>_vec.c: kern/scalar/vec.c on 16 lanes. Included after that ISA's
 * v16_*.h. Element-wise work may cut its tail anywhere; a reduction's tail adds real elements only.
 */
#include "kern/fill.h"
#include "kern/v16_math.h"

#define V16_CAT2(a, b) a##_##b
#define V16_CAT(a, b)  V16_CAT2(a, b)

#define ACT8_TINY 0x1p-100f /* as in scalar/vec.c */

/* Two groups' halves side by side. */
typedef uint32_t u4 __attribute__((vector_size(16)));
typedef int32_t i4 __attribute__((vector_size(16)));
typedef float f4 __attribute__((vector_size(16)));
HY_INLINE u4 other_half(u4 v) { return __builtin_shufflevector(v, v, 1, 0, 3, 2); }
HY_INLINE u4 least_of(u4 a, u4 b)
{
    u4 less = (u4)(a < b);
    return (a & less) | (b & ~less);
}

typedef struct steps4 {
    u4 e;
    f4 d, inv;                 /* inv: what the halves' values are multiplied by */
} steps4;

/* False where a group is all zeros or not finite; top: the largest magnitudes of the halves, as bits. Which half is larger is
 * anybody's guess, so there is no branch on it. No exponent comes near its ends. */
HY_INLINE bool act8_steps(u4 top, steps4 *o)
{
    const u4 max = { HY_ACT_SHIFT_MAX, HY_ACT_SHIFT_MAX, HY_ACT_SHIFT_MAX, HY_ACT_SHIFT_MAX };
    const uint32_t tiny = hy_f32_bits(ACT8_TINY);
    u4 least = least_of(top, other_half(top)), most = top + other_half(top) - least;
    if (most[0] - tiny >= 0x7f800000u - tiny || most[2] - tiny >= 0x7f800000u - tiny) return false;
    o->e = least_of((top - least) >> 23, max);
    u4 n = o->e + other_half(o->e);
    o->inv = (f4)((u4)(127.0f / (f4)most) + ((n - o->e) << 23));
    o->d = (f4)((u4)((f4)most / 127.0f) - (n << 23));
    return true;
}

/* Group i of the two; b: -128 times the sum of each half's codes. */
HY_INLINE void act8_finish(const steps4 *o, const u4 *b, hy_act_group *to, int i)
{
    u4 m = (u4){ 0x10001, 0x10001, 0x10001, 0x10001 } << o->e, shifted = *b << o->e, all = shifted + other_half(shifted);
    f4 sum = __builtin_convertvector(-(i4)all, f4) * 0x1p-7f * o->d; /* the first product is exact */
    memcpy(to->e, (const uint32_t *)&o->e + 2 * i, sizeof to->e);
    memcpy(to->m, (const uint32_t *)&m + 2 * i, sizeof to->m);
    to->d = o->d[2 * i];
    to->s = sum[2 * i];
    to->b[0] = (int32_t)all[2 * i];
    to->b[1] = (int32_t)shifted[2 * i + 1];
}

HY_INLINE v16 act8_codes(v16 x, float inv)
{
    v16 magic = v_set1(HY_EXP_MAGIC);
    return v_sub(v_add(v_mul(x, v_set1(inv)), magic), magic);
}

/* Two groups: their maxima and sums are folded together. False, and nothing done, where one is not plain. */
HY_INLINE bool act8_two(const float *x, hy_act_group *to)
{
    v16 v[4];
    u4 top, b;
    steps4 o;
    for (int i = 0; i < 4; i++) v[i] = v_load(x + 16 * i);
    v_tops4(v, (uint32_t *)&top);
    if (!act8_steps(top, &o)) return false;
    for (int i = 0; i < 4; i++) v[i] = act8_codes(v[i], o.inv[i]);
    v_store4_i8(to[0].q, to[1].q, v, (int32_t *)&b);
    act8_finish(&o, &b, to, 0);
    act8_finish(&o, &b, to + 1, 1);
    return true;
}

static void act8_one(const float *x, hy_act_group *to)
{
    uint32_t t0 = v_top_bits(v_load(x)), t1 = v_top_bits(v_load(x + 16));
    steps4 o;
    if (!act8_steps((u4){ t0, t1, t0, t1 }, &o)) {
        memset(to, 0, sizeof *to);
        to->m[0] = to->m[1] = 0x10001;
        if (HY_MAX(t0, t1) >= 0x7f800000u) to->d = to->s = hy_bits_f32(0x7fc00000u);
        return;
    }
    uint32_t b0 = -128u * (uint32_t)v_store_i8(to->q, act8_codes(v_load(x), o.inv[0]));
    uint32_t b1 = -128u * (uint32_t)v_store_i8(to->q + 16, act8_codes(v_load(x + 16), o.inv[1]));
    act8_finish(&o, &(u4){ b0, b1, b0, b1 }, to, 0);
}

static void act8(const float *x, uint64_t k, hy_act8 to)
{
    uint64_t n = k / 32;
    for (uint64_t g = 0; g < n; g++) {
        if (g + 1 < n && act8_two(x + g * 32, to.g + g)) g++;
        else act8_one(x + g * 32, to.g + g);
    }
}

#include "kern/v16_put.h"

static void rmsnorm(const float *x, const float *w, float *y, uint64_t n, float eps)
{
    v16 s = v_zero();
    uint64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        v16 a = v_load(x + i);
        s = v_fma(a, a, s);
    }
    if (i < n) {
        v16 a = v_load_n(x + i, (uint32_t)(n - i));
        s = v_fma(a, a, s);
    }
    float inv1 = 1.0f / sqrtf(v_fold(s) / (float)n + eps);
    v16 inv = v_set1(inv1);
    for (i = 0; i + 16 <= n; i += 16) {
        v16 t = v_mul(v_load(x + i), inv);
        v_store(y + i, w ? v_mul(t, v_load(w + i)) : t);
    }
    if (i < n) {
        uint32_t r = (uint32_t)(n - i);
        v16 t = v_mul(v_load_n(x + i, r), inv);
        v_store_n(y + i, w ? v_mul(t, v_load_n(w + i, r)) : t, r);
    }
}

HY_INLINE v16 affine(v16 t, const float *w, const float *b, uint32_t n)
{
    v16 wv = w ? v_load_n(w, n) : v_set1(1);
    return b ? v_fma(t, wv, v_load_n(b, n)) : w ? v_mul(t, wv) : t;
}

static void layernorm(const float *x, const float *w, const float *b, float *y, uint64_t n,
                      float eps)
{
    v16 s = v_zero();
    uint64_t i = 0;
    for (; i + 16 <= n; i += 16) s = v_add(s, v_load(x + i));
    if (i < n) s = v_add(s, v_load_n(x + i, (uint32_t)(n - i)));
    v16 mean = v_set1(v_fold(s) / (float)n);
    s = v_zero();
    for (i = 0; i + 16 <= n; i += 16) {
        v16 t = v_sub(v_load(x + i), mean);
        s = v_fma(t, t, s);
    }
    if (i < n) {
        uint32_t r = (uint32_t)(n - i);
        v16 t = v_sel(v_first(r), v_sub(v_load_n(x + i, r), mean), v_zero());
        s = v_fma(t, t, s);
    }
    v16 inv = v_set1(1.0f / sqrtf(v_fold(s) / (float)n + eps));
    for (i = 0; i < n; i += 16) {
        uint32_t r = (uint32_t)HY_MIN(n - i, 16);
        v16 t = v_mul(v_sub(v_load_n(x + i, r), mean), inv);
        v_store_n(y + i, affine(t, w ? w + i : NULL, b ? b + i : NULL, r), r);
    }
}

static void add(const float *a, const float *b, float scale, float *y, uint64_t n)
{
    v16 sc = v_set1(scale);
    uint64_t i = 0;
    for (; i + 16 <= n; i += 16) v_store(y + i, v_fma(v_load(b + i), sc, v_load(a + i)));
    uint32_t r = (uint32_t)(n - i);
    if (r) v_store_n(y + i, v_fma(v_load_n(b + i, r), sc, v_load_n(a + i, r)), r);
}

static void scale_row(float *x, float s, uint64_t n)
{
    v16 sc = v_set1(s);
    uint64_t i = 0;
    for (; i + 16 <= n; i += 16) v_store(x + i, v_mul(v_load(x + i), sc));
    uint32_t r = (uint32_t)(n - i);
    if (r) v_store_n(x + i, v_mul(v_load_n(x + i, r), sc), r);
}

static void softcap(float *x, float cap, uint64_t n)
{
    v16 c = v_set1(cap);
    for (uint64_t i = 0; i < n; i += 16) {
        uint32_t r = (uint32_t)HY_MIN(n - i, 16);
        v_store_n(x + i, v_mul(v_tanh(v_div(v_load_n(x + i, r), c)), c), r);
    }
}

HY_INLINE void act_row(hy_act_fn_id f, float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 16) {
        uint32_t r = (uint32_t)HY_MIN(n - i, 16);
        v_store_n(x + i, v_act(f, v_load_n(x + i, r)), r);
    }
}

HY_INLINE void act_mul_row(hy_act_fn_id f, const float *g, const float *u, float *y, uint64_t n)
{
    uint64_t i = 0;
    for (; i + 16 <= n; i += 16) v_store(y + i, v_act_mul(f, v_load(g + i), v_load(u + i)));
    uint32_t r = (uint32_t)(n - i);
    if (r) v_store_n(y + i, v_act_mul(f, v_load_n(g + i, r), v_load_n(u + i, r)), r);
}

/* One loop per function, so that the choice is made outside it. */
#define EACH_ACT(X)                                                                                \
    X(HY_ACT_SILU)                                                                                 \
    X(HY_ACT_GELU) X(HY_ACT_GELU_TANH) X(HY_ACT_RELU) X(HY_ACT_RELU2) X(HY_ACT_SIGMOID)            \
        X(HY_ACT_SWIGLU_OAI)

static void act(hy_act_fn_id f, float *x, uint64_t n)
{
    switch (f) {
#define X(id)                                                                                      \
    case id:                                                                                       \
        act_row(id, x, n);                                                                         \
        break;
        EACH_ACT(X)
#undef X
    default:
        break;
    }
}

static void act_mul(hy_act_fn_id f, const float *g, const float *u, float *y, uint64_t n)
{
    switch (f) {
#define X(id)                                                                                      \
    case id:                                                                                       \
        act_mul_row(id, g, u, y, n);                                                               \
        break;
        EACH_ACT(X)
#undef X
    default:
        break;
    }
}

HY_INLINE void turn(v16 *a, v16 *b, v16 c, v16 s)
{
    v16 a0 = *a;
    *a = v_fnma(*b, s, v_mul(a0, c));
    *b = v_fma(a0, s, v_mul(*b, c));
}

static void rope(float *x, uint32_t n_rot, bool interleaved, const float *c, const float *s)
{
    uint32_t half = n_rot / 2, i = 0;
    v16 a, b;
    if (!interleaved) {
        for (; i < half; i += 16) {
            uint32_t r = HY_MIN(half - i, 16);
            a = v_load_n(x + i, r), b = v_load_n(x + half + i, r);
            turn(&a, &b, v_load_n(c + i, r), v_load_n(s + i, r));
            v_store_n(x + i, a, r);
            v_store_n(x + half + i, b, r);
        }
        return;
    }
    for (; i + 16 <= half; i += 16) {
        v_load_pairs(x + 2 * i, &a, &b);
        turn(&a, &b, v_load(c + i), v_load(s + i));
        v_store_pairs(x + 2 * i, a, b);
    }
    for (; i < half; i++) {
        float f = x[2 * i], g = x[2 * i + 1];
        x[2 * i] = fmaf(-g, s[i], f * c[i]);
        x[2 * i + 1] = fmaf(f, s[i], g * c[i]);
    }
}

static float exp_sum(float *x, float max, uint64_t n)
{
    v16 m = v_set1(max), sum = v_zero();
    uint64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        v16 e = v_exp(v_sub(v_load(x + i), m));
        v_store(x + i, e);
        sum = v_add(sum, e);
    }
    uint32_t r = (uint32_t)(n - i);
    if (r) {
        v16 e = v_exp(v_sub(v_load_n(x + i, r), m));
        v_store_n(x + i, e, r);
        sum = v_add(sum, v_sel(v_first(r), e, v_zero()));
    }
    return v_fold(sum);
}

static float max_row(const float *x, uint64_t n)
{
    v16 m = v_set1(-INFINITY);
    uint64_t i = 0;
    for (; i + 16 <= n; i += 16) m = v_max(v_load(x + i), m);
    uint32_t r = (uint32_t)(n - i);
    if (r) m = v_max(v_sel(v_first(r), v_load_n(x + i, r), v_set1(-INFINITY)), m);
    return v_fold_max(m);
}

/* Two passes: the second stops at the maximum, and no lane carries an index. */
static uint64_t argmax(const float *x, uint64_t n)
{
    float m1 = max_row(x, n);
    if (!(m1 > -INFINITY)) return 0;
    v16 m = v_set1(m1);
    uint64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        uint32_t hit = v_eq_bits(v_load(x + i), m);
        if (hit) return i + (uint64_t)__builtin_ctz(hit);
    }
    while (i < n && x[i] != m1) i++;
    return i;
}

void V16_CAT(hy_att_fill, V16_ISA)(hy_kernels *k);

void V16_CAT(hy_vec_fill, V16_ISA)(hy_kernels *k, uint64_t cpu)
{
    k->act8 = act8;
    k->kv_put_k = kv_put_k;
    k->kv_put_v = kv_put_v;
    k->rmsnorm = rmsnorm;
    k->layernorm = layernorm;
    k->add = add;
    k->scale = scale_row;
    k->softcap = softcap;
    k->act = act;
    k->act_mul = act_mul;
    k->rope = rope;
    k->exp_sum = exp_sum;
    k->max = max_row;
    k->argmax = argmax;
    V16_CAT(hy_att_fill, V16_ISA)(k);
}
