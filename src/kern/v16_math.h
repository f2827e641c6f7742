/* kern/scalar/math.h on 16 lanes: the same steps in the same order. Included after an ISA's
 * v16_*.h. */
#ifndef HY_KERN_V16_MATH_H
#define HY_KERN_V16_MATH_H

#include "kern/scalar/math.h"

/* exp of x, with c what it is clamped to */
HY_INLINE v16 v_exp_of(v16 x, v16 c)
{
    v16 t = v_fma(c, v_set1(HY_LOG2E), v_set1(HY_EXP_MAGIC));
    v16 n = v_sub(t, v_set1(HY_EXP_MAGIC));
    v16 r = v_fnma(n, v_set1(HY_LN2_HI), c);
    r = v_fnma(n, v_set1(HY_LN2_LO), r);
    v16 p = v_fma(v_set1(HY_EXP_C4), r, v_set1(HY_EXP_C3));
    p = v_fma(p, r, v_set1(HY_EXP_C2));
    p = v_fma(p, r, v_set1(HY_EXP_C1));
    p = v_fma(p, r, v_set1(HY_EXP_C0));
    p = v_fma(p, r, v_set1(1));
    p = v_fma(p, r, v_set1(1));
    p = v_mul(p, v_half_pow2(t));
    p = v_add(p, p);
    return v_sel(v_lt(x, v_set1(HY_EXP_LO)), v_zero(), p);
}

HY_INLINE v16 v_exp(v16 x)
{
    v16 c = v_min(v_set1(HY_EXP_HI), x);
    return v_exp_of(x, v_max(v_set1(HY_EXP_LO), c));
}

/* The same for x <= 0 or NaN: lanes below HY_EXP_LO, whatever they come to, are zero at the end. */
HY_INLINE v16 v_exp_neg(v16 x) { return v_exp_of(x, x); }

HY_INLINE v16 v_tanh(v16 x)
{
    v16 a = v_abs(x), z = v_mul(x, x);
    v16 p = v_fma(v_set1(HY_TANH_C4), z, v_set1(HY_TANH_C3));
    p = v_fma(p, z, v_set1(HY_TANH_C2));
    p = v_fma(p, z, v_set1(HY_TANH_C1));
    p = v_fma(p, z, v_set1(HY_TANH_C0));
    v16 small = v_fma(v_mul(p, z), x, x);
    v16 e = v_add(v_exp(v_add(a, a)), v_set1(1));
    v16 big = v_copysign(v_sub(v_set1(1), v_div(v_set1(2), e)), x);
    return v_sel(v_lt(a, v_set1(HY_TANH_SPLIT)), small, big);
}

HY_INLINE v16 v_erf(v16 x)
{
    v16 a = v_abs(x), z = v_mul(x, x);
    v16 p = v_fma(v_set1(HY_ERF_C6), z, v_set1(HY_ERF_C5));
    p = v_fma(p, z, v_set1(HY_ERF_C4));
    p = v_fma(p, z, v_set1(HY_ERF_C3));
    p = v_fma(p, z, v_set1(HY_ERF_C2));
    p = v_fma(p, z, v_set1(HY_ERF_C1));
    p = v_fma(p, z, v_set1(HY_ERF_C0));
    v16 b = v_min(v_set1(4), a);
    v16 q = v_fma(v_set1(HY_ERFC_C6), b, v_set1(HY_ERFC_C5));
    q = v_fma(q, b, v_set1(HY_ERFC_C4));
    q = v_fma(q, b, v_set1(HY_ERFC_C3));
    q = v_fma(q, b, v_set1(HY_ERFC_C2));
    q = v_fma(q, b, v_set1(HY_ERFC_C1));
    q = v_fma(q, b, v_set1(HY_ERFC_C0));
    v16 big = v_copysign(v_sub(v_set1(1), v_exp(q)), x);
    return v_sel(v_lt(a, v_set1(1)), v_mul(p, x), big);
}

HY_INLINE v16 v_swish(v16 x, v16 ax) { return v_div(x, v_add(v_exp(v_neg(ax)), v_set1(1))); }

HY_INLINE v16 v_act(hy_act_fn_id f, v16 x)
{
    v16 r = v_max(v_zero(), x);
    switch (f) {
    case HY_ACT_SILU:
        return v_swish(x, x);
    case HY_ACT_GELU: {
        v16 e = v_add(v_erf(v_mul(x, v_set1(HY_SQRT_HALF))), v_set1(1));
        return v_mul(v_mul(x, v_set1(0.5f)), e);
    }
    case HY_ACT_GELU_TANH: {
        v16 k = v_fma(v_mul(x, x), v_set1(HY_GELU_K1), v_set1(HY_GELU_K0));
        return v_swish(x, v_mul(x, k));
    }
    case HY_ACT_RELU:
        return r;
    case HY_ACT_RELU2:
        return v_mul(r, r);
    case HY_ACT_SIGMOID:
        return v_swish(v_set1(1), x);
    case HY_ACT_SWIGLU_OAI:
        r = v_min(v_set1(HY_OAI_LIMIT), x);
        return v_swish(r, v_mul(r, v_set1(HY_OAI_ALPHA)));
    default:
        return x;
    }
}

HY_INLINE v16 v_act_mul(hy_act_fn_id f, v16 g, v16 u)
{
    if (f == HY_ACT_SWIGLU_OAI) {
        u = v_min(v_set1(HY_OAI_LIMIT), u);
        u = v_max(v_set1(-HY_OAI_LIMIT), u);
        u = v_add(u, v_set1(1));
    }
    return v_mul(v_act(f, g), u);
}

#endif
