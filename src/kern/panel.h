/* kern, private: where things lie in a panel, and a plain reader of one row's group of 32. The layout
 * is drawn in pack.c. Kernels call the hy_pf_* functions with a constant type, so they fold away. */
#ifndef HY_KERN_PANEL_H
#define HY_KERN_PANEL_H

#include "kern/kern.h"

#define HY_GROUP 32            /* weights of a row that share one step of the integer dot */

HY_INLINE bool hy_pf_float(hy_qtype t)
{
    return t == HY_Q_F32 || t == HY_Q_F16 || t == HY_Q_BF16;
}
/* Bytes a value of a float type. */
HY_INLINE uint32_t hy_pf_float_bytes(hy_qtype t)
{
    return t == HY_Q_F32 ? 4 : 2;
}
/* Groups of 32 that share a unit of the scale part. */
HY_INLINE uint32_t hy_pf_unit(hy_qtype t)
{
    switch (t) {
    case HY_Q_Q2_K: case HY_Q_Q3_K: case HY_Q_Q4_K: case HY_Q_Q5_K: case HY_Q_Q6_K:
    case HY_Q_IQ4_XS: return 8;
    default: return 1;
    }
}
/* Bytes a row in a unit of the scale part. */
HY_INLINE uint32_t hy_pf_scale_bytes(hy_qtype t)
{
    switch (t) {
    case HY_Q_Q4_1: case HY_Q_Q5_1: return 4;
    case HY_Q_MXFP4: return 1;
    case HY_Q_Q4_K: case HY_Q_Q5_K: case HY_Q_Q2_K: return 20;
    case HY_Q_Q3_K: case HY_Q_Q6_K: return 18;
    case HY_Q_IQ4_XS: return 10;
    default: return 2;
    }
}
/* Code planes of a group, in vectors of 4 * P bytes: all of them; then each plane's first vector,
 * or -1. */
HY_INLINE uint32_t hy_pf_vectors(hy_qtype t)
{
    switch (t) {
    case HY_Q_Q8_0: return 8;
    case HY_Q_Q5_0: case HY_Q_Q5_1: case HY_Q_Q5_K: return 5;
    case HY_Q_Q6_K: return 6;
    case HY_Q_Q2_K: return 2;
    case HY_Q_Q3_K: return 3;
    default: return 4;
    }
}
HY_INLINE bool hy_pf_has_nibbles(hy_qtype t)
{
    return t != HY_Q_Q8_0 && t != HY_Q_Q2_K && t != HY_Q_Q3_K;
}
HY_INLINE bool hy_pf_has_bit(hy_qtype t) /* one-bit plane, the last vector */
{
    return t == HY_Q_Q5_0 || t == HY_Q_Q5_1 || t == HY_Q_Q5_K || t == HY_Q_Q3_K;
}
HY_INLINE bool hy_pf_has_min(hy_qtype t)
{
    return t == HY_Q_Q4_1 || t == HY_Q_Q5_1 || t == HY_Q_Q4_K || t == HY_Q_Q5_K || t == HY_Q_Q2_K;
}
/* Sub-scales of 16 weights. */
HY_INLINE bool hy_pf_halves(hy_qtype t)
{
    return t == HY_Q_Q2_K || t == HY_Q_Q3_K || t == HY_Q_Q6_K;
}
/* What is taken off an unsigned code (0 where codes are signed, looked up, or start at a minimum). */
HY_INLINE int hy_pf_offset(hy_qtype t)
{
    switch (t) {
    case HY_Q_Q4_0: return 8;
    case HY_Q_Q5_0: return 16;
    case HY_Q_Q6_K: return 32;
    case HY_Q_Q3_K: return 4;
    default: return 0;
    }
}
/* Groups of a strip: its scales are whole vectors, and its codes follow them (pack.c draws it). */
HY_INLINE uint32_t hy_pf_strip(hy_qtype t)
{
    switch (t) {
    case HY_Q_Q4_1: case HY_Q_Q5_1: return 1;
    case HY_Q_MXFP4: return 4;
    case HY_Q_Q2_K: case HY_Q_Q4_K: case HY_Q_Q5_K: return 8;
    case HY_Q_Q3_K: case HY_Q_Q6_K: case HY_Q_IQ4_XS: return 16;
    default: return 2;
    }
}
/* Bytes of a strip's scales, of a group's codes, and of a whole strip. */
HY_INLINE uint32_t hy_pf_strip_scales(hy_qtype t, uint32_t p)
{
    return hy_pf_strip(t) / hy_pf_unit(t) * hy_pf_scale_bytes(t) * p;
}
HY_INLINE uint32_t hy_pf_group_codes(hy_qtype t, uint32_t p)
{
    return hy_pf_vectors(t) * 4 * p;
}
HY_INLINE uint64_t hy_pf_strip_bytes(hy_qtype t, uint32_t p)
{
    return hy_pf_strip_scales(t, p) + hy_pf_strip(t) * hy_pf_group_codes(t, p);
}
/* Where group g of a panel has its unit's scales, and its codes. */
HY_INLINE uint64_t hy_pf_scales_at(hy_qtype t, uint32_t p, uint64_t g)
{
    uint32_t strip = hy_pf_strip(t), unit = hy_pf_unit(t);
    return g / strip * hy_pf_strip_bytes(t, p) + g % strip / unit * (hy_pf_scale_bytes(t) * p);
}
HY_INLINE uint64_t hy_pf_codes_at(hy_qtype t, uint32_t p, uint64_t g)
{
    uint32_t strip = hy_pf_strip(t);
    return g / strip * hy_pf_strip_bytes(t, p) + hy_pf_strip_scales(t, p) + g % strip * hy_pf_group_codes(t, p);
}
/* pack_quick.c: packs a panel of the types that large files consist of; false for Q2_K, Q3_K, IQ4_XS, MXFP4. */
bool hy_pack_quick(const hy_panels *w, uint8_t *dst, const void *const *row, uint32_t n_row);
HY_INLINE const uint8_t *hy_panel_at(const hy_panels *w, uint64_t i_panel)
{
    return w->data + i_panel * w->panel_bytes;
}

/* One row's group of 32: weight i = ws * sc[i / 16] * code[i] + wm * mn[i / 16]. */
typedef struct hy_group {
    int8_t code[HY_GROUP];
    int32_t sc[2], mn[2];
    float ws, wm;
} hy_group;
/* Group g (of 32 along k) of row `lane` of a panel of a quantised type. */
void hy_panel_group(const hy_panels *w, const uint8_t *panel, uint64_t g, uint32_t lane,
                    hy_group *out);
/* Its 32 weights, bit for bit quant's unpack. */
void hy_panel_group_f32(const hy_group *g, bool has_min, float dst[HY_GROUP]);

#endif
