/* exp, tanh, erf, sigmoid and the activation functions, one float at a time. These step lists
 * define the bits: kern/v16_math.h repeats them operation by operation on 16 lanes. Polynomials are
 * minimax fits of our own (Lawson iterations in double, coefficients rounded to float); the bounds
 * stand in tests/kern/test_kern_vec.c. "a < b ? a : b" is written out because its NaN behaviour is
 * part of the definition. */
#ifndef HY_KERN_SCALAR_MATH_H
#define HY_KERN_SCALAR_MATH_H

#include "kern/kern.h"
#include <math.h>

#define HY_EXP_LO    (-86.0f)    /* below: 0. Keeps 2^(n-1) and every result normal */
#define HY_EXP_HI    89.0f       /* above: infinite anyway */
#define HY_EXP_MAGIC 12582912.0f /* 1.5 * 2^23: adding it rounds to an integer, nearest even */
#define HY_LOG2E     0x1.715476p+0f
#define HY_LN2_HI    0x1.62e4p-1f
#define HY_LN2_LO    0x1.7f7d1cp-20f
#define HY_EXP_C0    0x1.fffffcp-2f /* e^r = 1 + r + r^2 (c0 + c1 r + ...), |r| <= ln 2 / 2 */
#define HY_EXP_C1    0x1.55548ap-3f
#define HY_EXP_C2    0x1.555916p-5f
#define HY_EXP_C3    0x1.123fc6p-7f
#define HY_EXP_C4    0x1.6a1a72p-10f

#define HY_TANH_SPLIT 0.625f
#define HY_TANH_C0    -0x1.555526p-2f /* tanh x = x + x^3 (c0 + c1 x^2 + ...) below the split */
#define HY_TANH_C1    0x1.11044ep-3f
#define HY_TANH_C2    -0x1.b7da50p-5f
#define HY_TANH_C3    0x1.4f9942p-6f
#define HY_TANH_C4    -0x1.6a5316p-8f

#define HY_ERF_C0  0x1.20dd74p+0f /* erf x = x (c0 + c1 x^2 + ...) below 1 */
#define HY_ERF_C1  -0x1.81273ep-2f
#define HY_ERF_C2  0x1.ce2d20p-4f
#define HY_ERF_C3  -0x1.b7fbb4p-6f
#define HY_ERF_C4  0x1.5419f6p-8f
#define HY_ERF_C5  -0x1.a485ecp-11f
#define HY_ERF_C6  0x1.4ae4d0p-14f
#define HY_ERFC_C0 -0x1.47a616p-12f /* log erfc x = c0 + c1 x + ..., 1 <= x <= 4 */
#define HY_ERFC_C1 -0x1.209054p+0f
#define HY_ERFC_C2 -0x1.46a35ap-1f
#define HY_ERFC_C3 -0x1.a6eff8p-4f
#define HY_ERFC_C4 0x1.66ea6ap-6f
#define HY_ERFC_C5 -0x1.847f84p-9f
#define HY_ERFC_C6 0x1.8a347ep-13f

#define HY_SQRT_HALF 0x1.6a09e6p-1f
#define HY_GELU_K0   0x1.988454p+0f /* 2 sqrt(2 / pi) */
#define HY_GELU_K1   0x1.2444f2p-4f /* 2 sqrt(2 / pi) * 0.044715 */
#define HY_OAI_ALPHA 1.702f
#define HY_OAI_LIMIT 7.0f

HY_INLINE float hy_exp1(float x)
{
    float c = HY_EXP_HI < x ? HY_EXP_HI : x;
    c = HY_EXP_LO > c ? HY_EXP_LO : c;
    float t = fmaf(c, HY_LOG2E, HY_EXP_MAGIC);
    float n = t - HY_EXP_MAGIC;
    float r = fmaf(-n, HY_LN2_HI, c);
    r = fmaf(-n, HY_LN2_LO, r);
    float p = fmaf(HY_EXP_C4, r, HY_EXP_C3);
    p = fmaf(p, r, HY_EXP_C2);
    p = fmaf(p, r, HY_EXP_C1);
    p = fmaf(p, r, HY_EXP_C0);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    p = p * hy_bits_f32((hy_f32_bits(t) + 126u) << 23); /* 2^(n-1): 2^128 has no float */
    p = p + p;
    return x < HY_EXP_LO ? 0.0f : p;
}

HY_INLINE float hy_tanh1(float x)
{
    float a = fabsf(x);
    float z = x * x;
    float p = fmaf(HY_TANH_C4, z, HY_TANH_C3);
    p = fmaf(p, z, HY_TANH_C2);
    p = fmaf(p, z, HY_TANH_C1);
    p = fmaf(p, z, HY_TANH_C0);
    float small = fmaf(p * z, x, x);
    float big = copysignf(1.0f - 2.0f / (hy_exp1(a + a) + 1.0f), x);
    return a < HY_TANH_SPLIT ? small : big;
}

HY_INLINE float hy_erf1(float x)
{
    float a = fabsf(x);
    float z = x * x;
    float p = fmaf(HY_ERF_C6, z, HY_ERF_C5);
    p = fmaf(p, z, HY_ERF_C4);
    p = fmaf(p, z, HY_ERF_C3);
    p = fmaf(p, z, HY_ERF_C2);
    p = fmaf(p, z, HY_ERF_C1);
    p = fmaf(p, z, HY_ERF_C0);
    float b = 4.0f < a ? 4.0f : a;
    float q = fmaf(HY_ERFC_C6, b, HY_ERFC_C5);
    q = fmaf(q, b, HY_ERFC_C4);
    q = fmaf(q, b, HY_ERFC_C3);
    q = fmaf(q, b, HY_ERFC_C2);
    q = fmaf(q, b, HY_ERFC_C1);
    q = fmaf(q, b, HY_ERFC_C0);
    float big = copysignf(1.0f - hy_exp1(q), x);
    return a < 1.0f ? p * x : big;
}

/* x * sigmoid(a x), which is also gelu_tanh with a x = 2 u */
HY_INLINE float hy_swish1(float x, float ax) { return x / (hy_exp1(-ax) + 1.0f); }

HY_INLINE float hy_act1(hy_act_fn_id f, float x)
{
    float r = 0.0f > x ? 0.0f : x; /* NaN stays */
    switch (f) {
    case HY_ACT_SILU:
        return hy_swish1(x, x);
    case HY_ACT_GELU:
        return (x * 0.5f) * (hy_erf1(x * HY_SQRT_HALF) + 1.0f);
    case HY_ACT_GELU_TANH:
        return hy_swish1(x, x * fmaf(x * x, HY_GELU_K1, HY_GELU_K0));
    case HY_ACT_RELU:
        return r;
    case HY_ACT_RELU2:
        return r * r;
    case HY_ACT_SIGMOID:
        return hy_swish1(1.0f, x);
    case HY_ACT_SWIGLU_OAI:
        r = HY_OAI_LIMIT < x ? HY_OAI_LIMIT : x;
        return hy_swish1(r, r * HY_OAI_ALPHA);
    default:
        return x;
    }
}

/* f(g) * u; SWIGLU_OAI: f(g) * (u + 1) with u clamped */
HY_INLINE float hy_act_mul1(hy_act_fn_id f, float g, float u)
{
    if (f == HY_ACT_SWIGLU_OAI) {
        u = HY_OAI_LIMIT < u ? HY_OAI_LIMIT : u;
        u = -HY_OAI_LIMIT > u ? -HY_OAI_LIMIT : u;
        u = u + 1.0f;
    }
    return hy_act1(f, g) * u;
}

/* Sum of 16 lanes: 8+8, 4+4, 2+2, 1+1 */
HY_INLINE float hy_fold16(const float *lane)
{
    float a[8];
    for (int i = 0; i < 8; i++) a[i] = lane[i] + lane[i + 8];
    for (int i = 0; i < 4; i++) a[i] = a[i] + a[i + 4];
    return (a[0] + a[2]) + (a[1] + a[3]);
}
/* Maximum of 16 lanes in the same order; NaNs are passed over, of two zeros the lower lane's
 * stays */
HY_INLINE float hy_fold_max16(float *lane)
{
    for (int w = 8; w > 0; w /= 2)
        for (int i = 0; i < w; i++) lane[i] = lane[i + w] > lane[i] ? lane[i + w] : lane[i];
    return lane[0];
}

#endif
