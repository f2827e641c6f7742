/* kern/arm: the operations of mm_body.h on NEON. A panel of 8 rows is two vectors of four lanes.
 * The file that includes this defines chunk(): the four products of each lane, summed. */
#ifndef HY_KERN_ARM_NEON_MM_H
#define HY_KERN_ARM_NEON_MM_H

#include "kern/fill.h"
#include "kern/panel.h"
#include <arm_neon.h>

#define MM_P 8
#define MM_FEW 8
#define MM_TILE 4
#define MM_TILE_F 2
#define MM_CLASSES(X) X(Q8_0) X(Q4_0) X(Q4_1) X(Q5_0) X(Q2_K) X(Q3_K) X(Q6_K)
#define MM_TYPES(X)                                                                                \
    X(Q8_0, Q8_0) X(Q4_0, Q4_0) X(Q4_1, Q4_1) X(Q5_0, Q5_0) X(Q5_1, Q4_1) X(Q2_K, Q2_K)            \
    X(Q3_K, Q3_K) X(Q4_K, Q4_1) X(Q5_K, Q4_1) X(Q6_K, Q6_K) X(IQ4_NL, Q8_0) X(IQ4_XS, Q8_0)        \
    X(MXFP4, Q8_0)
#define MM_NP 2
typedef struct VI {
    int32x4_t v[2];
} VI;
typedef struct VF {
    float32x4_t v[2];
} VF;

#define BOTH(type, expr)                                                                           \
    type o;                                                                                        \
    for (int h = 0; h < 2; h++) o.v[h] = expr;                                                     \
    return o
#define S8(x) vreinterpretq_s8_s32(x)
#define U8(x) vreinterpretq_u8_s32(x)
#define S16(x) vreinterpretq_s16_s32(x)
#define U16(x) vreinterpretq_u16_s32(x)
#define I32_S8(x) vreinterpretq_s32_s8(x)
#define I32_S16(x) vreinterpretq_s32_s16(x)
#define I32_U16(x) vreinterpretq_s32_u16(x)

HY_INLINE VI v_load(const void *p)
{
    BOTH(VI, I32_S8(vld1q_s8((const int8_t *)p + 16 * h)));
}
HY_INLINE void v_prefetch(const void *p) { __builtin_prefetch(p, 0, 2); }
HY_INLINE VI v_set32(int b) { BOTH(VI, vdupq_n_s32(b)); }
HY_INLINE VI v_set16(int b) { BOTH(VI, I32_S16(vdupq_n_s16((int16_t)b))); }
HY_INLINE VI v_set8(int b) { BOTH(VI, I32_S8(vdupq_n_s8((int8_t)b))); }
HY_INLINE VI v_zero(void) { return v_set32(0); }
HY_INLINE VI v_and(VI a, VI b) { BOTH(VI, vandq_s32(a.v[h], b.v[h])); }
HY_INLINE VI v_or(VI a, VI b) { BOTH(VI, vorrq_s32(a.v[h], b.v[h])); }
HY_INLINE VI v_add32(VI a, VI b) { BOTH(VI, vaddq_s32(a.v[h], b.v[h])); }
HY_INLINE VI v_sub32(VI a, VI b) { BOTH(VI, vsubq_s32(a.v[h], b.v[h])); }
/* Shifts by a variable: left, or right where negative. */
HY_INLINE VI v_sll(VI a, int n)
{
    BOTH(VI, I32_U16(vshlq_u16(U16(a.v[h]), vdupq_n_s16((int16_t)n))));
}
HY_INLINE VI v_srl(VI a, int n) { return v_sll(a, -n); }
HY_INLINE VI v_shr16(VI a, int n) { return v_sll(a, -n); }
HY_INLINE VI v_fix_signed(hy_qtype t, VI a) { return a; }
HY_INLINE VI v_table(const int8_t *p) { BOTH(VI, I32_S8(vld1q_s8(p))); }
HY_INLINE VI v_lookup(VI table, VI v)
{
    BOTH(VI, I32_S8(vqtbl1q_s8(S8(table.v[h]), U8(v.v[h]))));
}
HY_INLINE VI v_pairs_i8(const uint8_t *p)
{
    BOTH(VI, I32_S16(vmovl_s8(vld1_s8((const int8_t *)p + 8 * h))));
}
HY_INLINE VI v_pairs_u8(const uint8_t *p) { BOTH(VI, I32_U16(vmovl_u8(vld1_u8(p + 8 * h)))); }
HY_INLINE VI v_lo16(VI v) { BOTH(VI, vshrq_n_s32(vshlq_n_s32(v.v[h], 16), 16)); }
HY_INLINE VI v_hi16(VI v) { BOTH(VI, vshrq_n_s32(v.v[h], 16)); }
HY_INLINE VI v_sra32(VI v, int n) { BOTH(VI, vshlq_s32(v.v[h], vdupq_n_s32(-n))); }
HY_INLINE VI v_bcast32(const int32_t *p) { return v_set32(*p); }
HY_INLINE VI v_byte_i32(VI v, int j, bool is_signed)
{
    VI up;
    for (int h = 0; h < 2; h++) up.v[h] = vshlq_s32(v.v[h], vdupq_n_s32(24 - 8 * j));
    if (is_signed) {
        BOTH(VI, vshrq_n_s32(up.v[h], 24));
    }
    BOTH(VI, vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(up.v[h]), 24)));
}
HY_INLINE VF f_load(const float *p) { BOTH(VF, vld1q_f32(p + 4 * h)); }
HY_INLINE void f_store(float *p, VF a)
{
    vst1q_f32(p, a.v[0]);
    vst1q_f32(p + 4, a.v[1]);
}
HY_INLINE VF f_set(const float *p) { BOTH(VF, vdupq_n_f32(*p)); }
HY_INLINE VF f_zero(void) { BOTH(VF, vdupq_n_f32(0)); }
HY_INLINE VF f_i32(VI a) { BOTH(VF, vcvtq_f32_s32(a.v[h])); }
HY_INLINE VF f_mul(VF a, VF b) { BOTH(VF, vmulq_f32(a.v[h], b.v[h])); }
HY_INLINE VF f_add(VF a, VF b) { BOTH(VF, vaddq_f32(a.v[h], b.v[h])); }
HY_INLINE VF f_fma(VF a, VF b, VF c) { BOTH(VF, vfmaq_f32(c.v[h], a.v[h], b.v[h])); }
HY_INLINE VF f_keep(VF a) { return a; }
HY_INLINE VF f_neg(VF a) { BOTH(VF, vnegq_f32(a.v[h])); }
HY_INLINE VF f_f16(const uint8_t *p)
{
    BOTH(VF, vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p + 8 * h))));
}
HY_INLINE VF f_bf16(const uint8_t *p)
{
    BOTH(VF, vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p + 8 * h)), 16)));
}
HY_INLINE VF f_u8(const uint8_t *p)
{
    uint16x8_t w = vmovl_u8(vld1_u8(p));
    VI a = {{vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(w))),
             vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(w)))}};
    return f_i32(a);
}
HY_INLINE VF f_i8(const uint8_t *p)
{
    int16x8_t w = vmovl_s8(vld1_s8((const int8_t *)p));
    VI a = {{vmovl_s16(vget_low_s16(w)), vmovl_s16(vget_high_s16(w))}};
    return f_i32(a);
}
HY_INLINE VF f_e8m0(const uint8_t *p)
{
    float v[8];
    for (int i = 0; i < 8; i++) v[i] = hy_e8m0_half(p[i]);
    return f_load(v);
}

HY_INLINE bool mm_signed(hy_qtype t)
{
    return t == HY_Q_Q8_0 || t == HY_Q_IQ4_NL || t == HY_Q_IQ4_XS || t == HY_Q_MXFP4;
}
HY_INLINE int mm_up(hy_qtype t) { return 0; }
HY_INLINE int mm_offset(hy_qtype t) { return hy_pf_offset(t); }

/* Codes are below 128 in every type, so signed dots do for all. */
HY_INLINE const hy_act_group *x_at(const hy_act_group *x, size_t off);
HY_INLINE VI chunks4(VI sum, const VI *c, const int8_t *q);
HY_INLINE void v_dots(hy_qtype t, const VI *c, const hy_act_group *x, int h, const size_t *off, VI *sum,
                      const int n)
{
    for (int j = 0; j < n; j++) {
        const hy_act_group *xj = x_at(x, off[j]);
        VI s = chunks4(v_zero(), c, xj->q + 16 * h);
        for (int i = 0; i < 2; i++) sum[j].v[i] = vmlaq_n_s32(sum[j].v[i], s.v[i], 1 << xj->e[h]);
    }
}

#endif
