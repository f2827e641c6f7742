/* 16 lanes in four NEON registers: the words that v16_math.h, v16_vec.h and v16_att.h are written
 * in. */
#ifndef HY_KERN_V16_NEON_H
#define HY_KERN_V16_NEON_H

#include "kern/kern.h"
#include <arm_neon.h>

#define V16_ISA    neon
#define V16_Q_MAX  6 /* query rows that share a load: 24 sums, 4 loads, 1 broadcast of 32 regs */
#define V16_NP_1   4 /* vectors of 16 per query for 1, 2, 3, 4 and Q_MAX queries */
#define V16_NP_2   2
#define V16_NP_3   1
#define V16_NP_4   1
#define V16_NP_MAX 1
#define V16_NP_Q4  1

typedef struct v16 {
    float32x4_t a, b, c, d;
} v16;
typedef struct v16m {
    uint32x4_t a, b, c, d;
} v16m;

HY_INLINE v16 v_make(float32x4_t a, float32x4_t b, float32x4_t c, float32x4_t d)
{
    v16 r = {a, b, c, d};
    return r;
}
HY_INLINE v16 v_set1(float x)
{
    float32x4_t v = vdupq_n_f32(x);
    return v_make(v, v, v, v);
}
HY_INLINE v16 v_zero(void) { return v_set1(0); }
HY_INLINE v16 v_load(const float *p)
{
    return v_make(vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12));
}
HY_INLINE void v_store(float *p, v16 x)
{
    vst1q_f32(p, x.a);
    vst1q_f32(p + 4, x.b);
    vst1q_f32(p + 8, x.c);
    vst1q_f32(p + 12, x.d);
}
HY_INLINE v16m v_first(uint32_t n)
{
    static const uint32_t lane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    uint32x4_t v = vdupq_n_u32(n);
    v16m m = {vcltq_u32(vld1q_u32(lane), v), vcltq_u32(vld1q_u32(lane + 4), v),
              vcltq_u32(vld1q_u32(lane + 8), v), vcltq_u32(vld1q_u32(lane + 12), v)};
    return m;
}
/* lanes past n: zero, and not touched in memory */
HY_INLINE v16 v_load_n(const float *p, uint32_t n)
{
    float f[16] = {0};
    if (n >= 16) return v_load(p);
    memcpy(f, p, n * sizeof(float));
    return v_load(f);
}
HY_INLINE void v_store_n(float *p, v16 x, uint32_t n)
{
    float f[16];
    if (n >= 16) {
        v_store(p, x);
        return;
    }
    v_store(f, x);
    memcpy(p, f, n * sizeof(float));
}

#define V16_OP2(name, op)                                                                          \
    HY_INLINE v16 name(v16 x, v16 y)                                                               \
    {                                                                                              \
        return v_make(op(x.a, y.a), op(x.b, y.b), op(x.c, y.c), op(x.d, y.d));                     \
    }
/* x < y ? x : y and x > y ? x : y, which vminq and vmaxq are not for NaN and zeros */
HY_INLINE float32x4_t v_min4(float32x4_t x, float32x4_t y)
{
    return vbslq_f32(vcltq_f32(x, y), x, y);
}
HY_INLINE float32x4_t v_max4(float32x4_t x, float32x4_t y)
{
    return vbslq_f32(vcgtq_f32(x, y), x, y);
}
V16_OP2(v_add, vaddq_f32)
V16_OP2(v_sub, vsubq_f32)
V16_OP2(v_mul, vmulq_f32)
V16_OP2(v_div, vdivq_f32)
V16_OP2(v_min, v_min4)
V16_OP2(v_max, v_max4)
#undef V16_OP2
HY_INLINE v16 v_fma(v16 x, v16 y, v16 z) /* x * y + z */
{
    return v_make(vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b), vfmaq_f32(z.c, x.c, y.c),
                  vfmaq_f32(z.d, x.d, y.d));
}
HY_INLINE v16 v_fnma(v16 x, v16 y, v16 z) /* -x * y + z */
{
    return v_make(vfmsq_f32(z.a, x.a, y.a), vfmsq_f32(z.b, x.b, y.b), vfmsq_f32(z.c, x.c, y.c),
                  vfmsq_f32(z.d, x.d, y.d));
}
HY_INLINE v16 v_abs(v16 x)
{
    return v_make(vabsq_f32(x.a), vabsq_f32(x.b), vabsq_f32(x.c), vabsq_f32(x.d));
}
HY_INLINE v16 v_neg(v16 x)
{
    return v_make(vnegq_f32(x.a), vnegq_f32(x.b), vnegq_f32(x.c), vnegq_f32(x.d));
}
HY_INLINE v16 v_copysign(v16 x, v16 sign)
{
    uint32x4_t s = vdupq_n_u32(0x80000000u);
    return v_make(vbslq_f32(s, sign.a, x.a), vbslq_f32(s, sign.b, x.b), vbslq_f32(s, sign.c, x.c),
                  vbslq_f32(s, sign.d, x.d));
}
HY_INLINE v16m v_lt(v16 x, v16 y)
{
    v16m m = {vcltq_f32(x.a, y.a), vcltq_f32(x.b, y.b), vcltq_f32(x.c, y.c), vcltq_f32(x.d, y.d)};
    return m;
}
HY_INLINE v16 v_sel(v16m m, v16 yes, v16 no)
{
    return v_make(vbslq_f32(m.a, yes.a, no.a), vbslq_f32(m.b, yes.b, no.b),
                  vbslq_f32(m.c, yes.c, no.c), vbslq_f32(m.d, yes.d, no.d));
}
HY_INLINE uint32_t v_eq4(float32x4_t x, float32x4_t y)
{
    static const uint32_t bit[4] = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(vceqq_f32(x, y), vld1q_u32(bit)));
}
HY_INLINE uint32_t v_eq_bits(v16 x, v16 y) /* bit i: lane i is equal */
{
    return v_eq4(x.a, y.a) | v_eq4(x.b, y.b) << 4 | v_eq4(x.c, y.c) << 8 | v_eq4(x.d, y.d) << 12;
}
/* 2^(n-1) from t = n + 1.5 * 2^23 */
HY_INLINE float32x4_t v_half_pow2_4(float32x4_t t)
{
    uint32x4_t b = vaddq_u32(vreinterpretq_u32_f32(t), vdupq_n_u32(126));
    return vreinterpretq_f32_u32(vshlq_n_u32(b, 23));
}
HY_INLINE v16 v_half_pow2(v16 t)
{
    return v_make(v_half_pow2_4(t.a), v_half_pow2_4(t.b), v_half_pow2_4(t.c), v_half_pow2_4(t.d));
}
HY_INLINE float v_fold(v16 x) /* 8+8, 4+4, 2+2, 1+1 */
{
    float32x4_t s = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
    float32x2_t h = vadd_f32(vget_low_f32(s), vget_high_f32(s));
    return vget_lane_f32(h, 0) + vget_lane_f32(h, 1);
}
HY_INLINE float v_fold_max(v16 x)
{
    float32x4_t s = v_max4(v_max4(x.d, x.b), v_max4(x.c, x.a));
    float32x2_t lo = vget_low_f32(s), hi = vget_high_f32(s);
    float32x2_t h = vbsl_f32(vcgt_f32(hi, lo), hi, lo);
    float f0 = vget_lane_f32(h, 0), f1 = vget_lane_f32(h, 1);
    return f1 > f0 ? f1 : f0;
}

/* p[0..31] -> even and odd elements, and back */
HY_INLINE void v_load_pairs(const float *p, v16 *even, v16 *odd)
{
    float32x4x2_t a = vld2q_f32(p), b = vld2q_f32(p + 8), c = vld2q_f32(p + 16),
                  d = vld2q_f32(p + 24);
    *even = v_make(a.val[0], b.val[0], c.val[0], d.val[0]);
    *odd = v_make(a.val[1], b.val[1], c.val[1], d.val[1]);
}
HY_INLINE void v_store_pairs(float *p, v16 even, v16 odd)
{
    float32x4x2_t a = {{even.a, odd.a}}, b = {{even.b, odd.b}};
    float32x4x2_t c = {{even.c, odd.c}}, d = {{even.d, odd.d}};
    vst2q_f32(p, a);
    vst2q_f32(p + 8, b);
    vst2q_f32(p + 16, c);
    vst2q_f32(p + 24, d);
}
HY_INLINE uint32x4_t v_top4(v16 x)
{
    x = v_abs(x);
    uint32x4_t s = vmaxq_u32(vreinterpretq_u32_f32(x.a), vreinterpretq_u32_f32(x.b));
    uint32x4_t t = vmaxq_u32(vreinterpretq_u32_f32(x.c), vreinterpretq_u32_f32(x.d));
    return vmaxq_u32(s, t);
}
/* largest magnitude as bits: NaN above infinity above all */
HY_INLINE uint32_t v_top_bits(v16 x) { return vmaxvq_u32(v_top4(x)); }
/* the same of four */
HY_INLINE void v_tops4(const v16 *v, uint32_t *top)
{
    for (int i = 0; i < 4; i++) top[i] = v_top_bits(v[i]);
}
/* to 16 half floats, nearest even */
HY_INLINE void v_store_f16(uint16_t *p, v16 x)
{
    vst1q_u16(p, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(x.a), x.b)));
    vst1q_u16(p + 8, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(x.c), x.d)));
}
/* integers in -127..127 held as floats, to bytes; returns their sum */
HY_INLINE int v_store_i8(int8_t *q, v16 x)
{
    int16x8_t a = vcombine_s16(vmovn_s32(vcvtq_s32_f32(x.a)), vmovn_s32(vcvtq_s32_f32(x.b)));
    int16x8_t b = vcombine_s16(vmovn_s32(vcvtq_s32_f32(x.c)), vmovn_s32(vcvtq_s32_f32(x.d)));
    vst1q_s8(q, vcombine_s8(vmovn_s16(a), vmovn_s16(b)));
    return vaddvq_s16(vaddq_s16(a, b));
}
/* 64 such integers, 32 at q0 and at q1; b: -128 times the sums of 16 */
HY_INLINE void v_store4_i8(int8_t *q0, int8_t *q1, const v16 *v, int32_t *b)
{
    for (int i = 0; i < 4; i++) b[i] = -128 * v_store_i8((i < 2 ? q0 : q1) + i % 2 * 16, v[i]);
}

/* 16 stored values as floats */
HY_INLINE v16 v_load_f16(const void *p)
{
    float16x8_t a = vreinterpretq_f16_u16(vld1q_u16(p));
    float16x8_t b = vreinterpretq_f16_u16(vld1q_u16((const uint16_t *)p + 8));
    return v_make(vcvt_f32_f16(vget_low_f16(a)), vcvt_high_f32_f16(a),
                  vcvt_f32_f16(vget_low_f16(b)), vcvt_high_f32_f16(b));
}
HY_INLINE v16 v_load_bf16(const void *p)
{
    uint16x8_t a = vld1q_u16(p), b = vld1q_u16((const uint16_t *)p + 8);
    return v_make(vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(a), 16)),
                  vreinterpretq_f32_u32(vshll_high_n_u16(a, 16)),
                  vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(b), 16)),
                  vreinterpretq_f32_u32(vshll_high_n_u16(b, 16)));
}
HY_INLINE v16 v_from_i8(int8x16_t q)
{
    int16x8_t a = vmovl_s8(vget_low_s8(q)), b = vmovl_high_s8(q);
    return v_make(vcvtq_f32_s32(vmovl_s16(vget_low_s16(a))), vcvtq_f32_s32(vmovl_high_s16(a)),
                  vcvtq_f32_s32(vmovl_s16(vget_low_s16(b))), vcvtq_f32_s32(vmovl_high_s16(b)));
}
HY_INLINE v16 v_load_i8(const void *p) { return v_from_i8(vld1q_s8(p)); }
/* low and high nibbles of 16 bytes, minus 8 */
HY_INLINE v16 v_load_lo4(const void *p)
{
    uint8x16_t c = vandq_u8(vld1q_u8(p), vdupq_n_u8(15));
    return v_from_i8(vsubq_s8(vreinterpretq_s8_u8(c), vdupq_n_s8(8)));
}
HY_INLINE v16 v_load_hi4(const void *p)
{
    uint8x16_t c = vshrq_n_u8(vld1q_u8(p), 4);
    return v_from_i8(vsubq_s8(vreinterpretq_s8_u8(c), vdupq_n_s8(8)));
}

#endif
