/* kern/scalar/kv_put.c on 16 lanes, for the types most used: F16 and Q8. Others stay scalar. Part of
 * v16_vec.h. Keys are written across the page, a token's codes 16 apart: converted here in a row, then
 * spread. */
#include "kern/kv_layout.h"
#include "kern/scalar/scalar.h"

#define PUT_MAX 512 /* values of a row converted at a time */

/* n values, saturated; a NaN stays one. dst: room for n rounded up to 16. */
HY_INLINE void put_f16(const float *x, uint32_t n, uint16_t *dst)
{
    v16 top = v_set1(65504.0f), low = v_set1(-65504.0f);
    for (uint32_t i = 0; i < n; i += 16) {
        v16 v = v_load_n(x + i, HY_MIN(n - i, 16)); /* v_min, v_max give the second for a NaN */
        v_store_f16(dst + i, v_max(low, v_min(top, v)));
    }
}

/* 127 over the largest magnitude, and the scale; 0 for none. False where the scalar version decides: a
 * value that is not finite, or all tiny. */
HY_INLINE bool q8_scale(const float *x, uint32_t n, float *inv, float *scale)
{
    v16 m = v_zero();
    for (uint32_t i = 0; i < n; i += 16) m = v_max(v_abs(v_load_n(x + i, HY_MIN(n - i, 16))), m);
    float top = v_fold_max(m);
    bool plain = top >= ACT8_TINY && top < INFINITY;
    for (uint32_t i = 0; i < n && plain; i += 16) { /* v_max passes over a NaN */
        v16 v = v_load_n(x + i, HY_MIN(n - i, 16));
        plain = v_eq_bits(v, v) == 0xffff;
    }
    if (!plain) return false;
    *inv = 127.0f / top;
    *scale = top / 127.0f;
    return true;
}

/* Codes of n values; dst: room for n rounded up to 16. */
HY_INLINE void put_q8(const float *x, uint32_t n, float inv, int8_t *dst)
{
    v16 magic = v_set1(HY_EXP_MAGIC), by = v_set1(inv);
    for (uint32_t i = 0; i < n; i += 16) {
        v16 v = v_mul(v_load_n(x + i, HY_MIN(n - i, 16)), by);
        v_store_i8(dst + i, v_sub(v_add(v, magic), magic));
    }
}

static void kv_put_k(hy_kv_type t, uint8_t *page, uint32_t d_k, uint32_t slot, const float *k)
{
    float inv, scale;
    if (t == HY_KV_F16) {
        uint16_t h[PUT_MAX], *dst = (uint16_t *)(void *)page + slot;
        for (uint32_t d0 = 0; d0 < d_k; d0 += PUT_MAX, dst += PUT_MAX * HY_PAGE_TOK) {
            uint32_t n = HY_MIN(d_k - d0, PUT_MAX);
            put_f16(k + d0, n, h);
            for (uint32_t d = 0; d < n; d++) dst[d * HY_PAGE_TOK] = h[d];
        }
    } else if (t == HY_KV_Q8 && q8_scale(k, d_k, &inv, &scale)) {
        int8_t c[PUT_MAX], *dst = (int8_t *)page + slot;
        for (uint32_t d0 = 0; d0 < d_k; d0 += PUT_MAX, dst += PUT_MAX * HY_PAGE_TOK) {
            uint32_t n = HY_MIN(d_k - d0, PUT_MAX);
            put_q8(k + d0, n, inv, c);
            for (uint32_t d = 0; d < n; d++) dst[d * HY_PAGE_TOK] = c[d];
        }
        ((float *)(void *)(page + (size_t)d_k * HY_PAGE_TOK))[slot] = scale;
    } else {
        hy_kv_put_k_scalar(t, page, d_k, slot, k);
    }
}

static void kv_put_v(hy_kv_type t, uint8_t *page, uint32_t d_v, uint32_t slot, const float *v)
{
    float inv, scale;
    uint32_t whole = d_v / 16 * 16, rest = d_v - whole;
    uint8_t *row = page + hy_kv_code_bytes(t, d_v) * slot;
    if (t == HY_KV_F16) {
        uint16_t h[16], *dst = (uint16_t *)(void *)row;
        put_f16(v, whole, dst);
        if (!rest) return;
        put_f16(v + whole, rest, h);
        memcpy(dst + whole, h, rest * 2);
    } else if (t == HY_KV_Q8 && q8_scale(v, d_v, &inv, &scale)) {
        int8_t c[16], *dst = (int8_t *)row;
        put_q8(v, whole, inv, dst);
        put_q8(v + whole, rest, inv, c);
        memcpy(dst + whole, c, rest);
        ((float *)(void *)(page + (size_t)d_v * HY_PAGE_TOK))[slot] = scale;
    } else {
        hy_kv_put_v_scalar(t, page, d_v, slot, v);
    }
}
