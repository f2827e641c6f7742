/* Norms, element-wise operators, rotary embedding, reductions, activation quantising: the versions
 * that define the bits. */
#include "kern/fill.h"
#include "kern/scalar/math.h"
#include "kern/scalar/scalar.h"

#define ACT8_TINY                                                                                  \
    0x1p-100f /* a group whose largest value is below counts as zero: 127 / x stays finite */

/* The largest magnitude as bits, so that a NaN is the largest of all. */
static uint32_t top_of(const float *x)
{
    uint32_t top = 0;
    for (int i = 0; i < 16; i++) top = HY_MAX(top, hy_f32_bits(x[i]) & 0x7fffffffu);
    return top;
}

static void act8_group(const float *x, hy_act_group *to)
{
    uint32_t top[2] = {top_of(x), top_of(x + 16)}, most = HY_MAX(top[0], top[1]);
    memset(to, 0, sizeof *to);
    to->m[0] = to->m[1] = 0x10001;
    float amax = hy_bits_f32(most);
    if (most >= 0x7f800000u) to->d = to->s = hy_bits_f32(0x7fc00000u); /* the output must not look healthy */
    if (most >= 0x7f800000u || amax < ACT8_TINY) return;
    /* a difference of bits is one of exponents, less one where the larger has the smaller mantissa: floor(log2(ratio)) */
    int big = top[1] > top[0], n = (int)HY_MIN((most - top[!big]) >> 23, HY_ACT_SHIFT_MAX), sum[2] = {0, 0};
    float inv[2];
    inv[big] = 127.0f / amax;
    inv[!big] = ldexpf(inv[big], n);
    to->e[big] = n;
    to->m[big] = 0x10001 * (1 << n);
    for (int i = 0; i < 32; i++) {
        float r = x[i] * inv[i / 16] + HY_EXP_MAGIC; /* product and sum each rounded: nearest even */
        to->q[i] = (int8_t)(int32_t)(r - HY_EXP_MAGIC);
        sum[i / 16] += to->q[i] * (1 << to->e[i / 16]);
    }
    to->d = ldexpf(amax / 127.0f, -n);
    to->s = (float)(sum[0] + sum[1]) * to->d;
    to->b[0] = -128 * (sum[0] + sum[1]);
    to->b[1] = -128 * sum[1];
}

static void act8(const float *x, uint64_t k, hy_act8 to)
{
    for (uint64_t g = 0; g < k / 32; g++) act8_group(x + g * 32, to.g + g);
}

static void rmsnorm(const float *x, const float *w, float *y, uint64_t n, float eps)
{
    float lane[16] = {0};
    for (uint64_t i = 0; i < n; i++) lane[i % 16] = fmaf(x[i], x[i], lane[i % 16]);
    float inv = 1.0f / sqrtf(hy_fold16(lane) / (float)n + eps);
    for (uint64_t i = 0; i < n; i++) {
        float t = x[i] * inv;
        y[i] = w ? t * w[i] : t;
    }
}

static void layernorm(const float *x, const float *w, const float *b, float *y, uint64_t n,
                      float eps)
{
    float lane[16] = {0};
    for (uint64_t i = 0; i < n; i++) lane[i % 16] = lane[i % 16] + x[i];
    float mean = hy_fold16(lane) / (float)n;
    memset(lane, 0, sizeof(lane));
    for (uint64_t i = 0; i < n; i++) {
        float t = x[i] - mean;
        lane[i % 16] = fmaf(t, t, lane[i % 16]);
    }
    float inv = 1.0f / sqrtf(hy_fold16(lane) / (float)n + eps);
    for (uint64_t i = 0; i < n; i++) {
        float t = (x[i] - mean) * inv;
        if (b)
            y[i] = fmaf(t, w ? w[i] : 1.0f, b[i]);
        else
            y[i] = w ? t * w[i] : t;
    }
}

static void add(const float *a, const float *b, float scale, float *y, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) y[i] = fmaf(b[i], scale, a[i]);
}

static void scale_row(float *x, float s, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) x[i] = x[i] * s;
}

static void softcap(float *x, float cap, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) x[i] = hy_tanh1(x[i] / cap) * cap;
}

static void act(hy_act_fn_id f, float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) x[i] = hy_act1(f, x[i]);
}

static void act_mul(hy_act_fn_id f, const float *g, const float *u, float *y, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) y[i] = hy_act_mul1(f, g[i], u[i]);
}

static void rope(float *x, uint32_t n_rot, bool interleaved, const float *c, const float *s)
{
    uint32_t half = n_rot / 2;
    for (uint32_t i = 0; i < half; i++) {
        float *pa = interleaved ? x + 2 * i : x + i;
        float *pb = interleaved ? x + 2 * i + 1 : x + half + i;
        float a = *pa, b = *pb;
        *pa = fmaf(-b, s[i], a * c[i]);
        *pb = fmaf(a, s[i], b * c[i]);
    }
}

static float exp_sum(float *x, float max, uint64_t n)
{
    float lane[16] = {0};
    for (uint64_t i = 0; i < n; i++) {
        x[i] = hy_exp1(x[i] - max);
        lane[i % 16] = lane[i % 16] + x[i];
    }
    return hy_fold16(lane);
}

/* NaNs are passed over; of +0 and -0 the one that its lane, then the fold, met first */
static float max_row(const float *x, uint64_t n)
{
    float lane[16];
    for (int i = 0; i < 16; i++) lane[i] = -INFINITY;
    for (uint64_t i = 0; i < n; i++) lane[i % 16] = x[i] > lane[i % 16] ? x[i] : lane[i % 16];
    return hy_fold_max16(lane);
}

static uint64_t argmax(const float *x, uint64_t n)
{
    uint64_t best = 0;
    float m = -INFINITY;
    for (uint64_t i = 0; i < n; i++) {
        if (!(x[i] > m)) continue;
        m = x[i];
        best = i;
    }
    return best;
}

void hy_vec_fill_scalar(hy_kernels *k, uint64_t cpu)
{
    k->act8 = act8;
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
    k->kv_put_k = hy_kv_put_k_scalar;
    k->kv_put_v = hy_kv_put_v_scalar;
    for (int t = 0; t < HY_KV_TYPE_COUNT; t++) k->att[t] = hy_att_scalar;
    k->att_fold = hy_att_fold_scalar;
}
