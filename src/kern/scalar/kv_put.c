/* Writing one token's key or value into its slot of a page. */
#include "kern/kv_layout.h"
#include "kern/scalar/math.h"
#include "kern/scalar/scalar.h"

#define TINY    0x1p-100f /* below this a group counts as zero, so that 127 / x stays finite */
#define F16_MAX 65504.0f

/* The element of largest magnitude; NaN if there is any NaN or infinity. */
static float extreme(const float *x, uint32_t n)
{
    float top = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!(fabsf(x[i]) < INFINITY)) return hy_bits_f32(0x7fc00000u);
        if (fabsf(x[i]) > fabsf(top)) top = x[i];
    }
    return top;
}

/* Nearest even integer of x * inv, kept in lo..hi. */
static int code(float x, float inv, int lo, int hi)
{
    int c = (int)((x * inv + HY_EXP_MAGIC) - HY_EXP_MAGIC);
    return c < lo ? lo : c > hi ? hi : c;
}

static void q8_row(const float *x, uint32_t n, int8_t *q, size_t step, float *scale)
{
    float top = fabsf(extreme(x, n));
    bool none = !(top >= TINY); /* tiny, or not finite: then the scale is NaN and says so */
    float inv = none ? 0.0f : 127.0f / top;
    for (uint32_t i = 0; i < n; i++) q[i * step] = none ? 0 : (int8_t)code(x[i], inv, -127, 127);
    *scale = top < TINY ? 0.0f : top / 127.0f;
}

/* Codes 0..15 of one group: the extreme itself gets code 0, that is scale * -8. */
static void q4_group(const float *x, uint8_t *q, float *scale)
{
    float top = extreme(x, HY_KV_GROUP);
    bool none = !(fabsf(top) >= TINY);
    float inv = none ? 0.0f : -8.0f / top;
    for (uint32_t i = 0; i < HY_KV_GROUP; i++)
        q[i] = none ? 8 : (uint8_t)(code(x[i], inv, -8, 7) + 8);
    *scale = fabsf(top) < TINY ? 0.0f : top / -8.0f;
}

static uint16_t
half(float x) /* saturates: an infinity in the cache would poison every later token */
{
    float c = F16_MAX < x ? F16_MAX : x;
    return hy_f32_f16(-F16_MAX > c ? -F16_MAX : c);
}

/* Floats: element i at dst + i * step elements. */
static void put_float(hy_kv_type t, void *dst, size_t step, const float *x, uint32_t n)
{
    if (t == HY_KV_F32) {
        float *p = dst;
        for (uint32_t i = 0; i < n; i++) p[i * step] = x[i];
    } else {
        uint16_t *p = dst;
        for (uint32_t i = 0; i < n; i++)
            p[i * step] = t == HY_KV_F16 ? half(x[i]) : hy_f32_bf16(x[i]);
    }
}

void hy_kv_put_k_scalar(hy_kv_type t, uint8_t *page, uint32_t d_k, uint32_t slot, const float *k)
{
    float *scale = (float *)(void *)(page + hy_kv_code_bytes(t, d_k) * HY_PAGE_TOK);
    if (t == HY_KV_Q8) {
        q8_row(k, d_k, (int8_t *)page + slot, HY_PAGE_TOK, scale + slot);
    } else if (t == HY_KV_Q4) {
        for (uint32_t g = 0; g < d_k / HY_KV_GROUP; g++) {
            uint8_t q[HY_KV_GROUP];
            q4_group(k + g * HY_KV_GROUP, q, scale + g * HY_PAGE_TOK + slot);
            uint8_t *p = page + (size_t)g * HY_KV_GROUP / 2 * HY_PAGE_TOK + slot;
            for (uint32_t i = 0; i < HY_KV_GROUP; i += 2)
                p[i / 2 * HY_PAGE_TOK] = (uint8_t)(q[i] | q[i + 1] << 4);
        }
    } else {
        put_float(t, page + slot * (t == HY_KV_F32 ? 4 : 2), HY_PAGE_TOK, k, d_k);
    }
}

void hy_kv_put_v_scalar(hy_kv_type t, uint8_t *page, uint32_t d_v, uint32_t slot, const float *v)
{
    float *scale = (float *)(void *)(page + hy_kv_code_bytes(t, d_v) * HY_PAGE_TOK);
    uint8_t *row = page + hy_kv_code_bytes(t, d_v) * slot;
    if (t == HY_KV_Q8) {
        q8_row(v, d_v, (int8_t *)row, 1, scale + slot);
    } else if (t == HY_KV_Q4) {
        uint32_t n_group = d_v / HY_KV_GROUP;
        for (uint32_t g = 0; g < n_group; g++) {
            uint8_t q[HY_KV_GROUP];
            q4_group(v + g * HY_KV_GROUP, q, scale + slot * n_group + g);
            for (uint32_t i = 0; i < 16; i++) row[g * 16 + i] = (uint8_t)(q[i] | q[i + 16] << 4);
        }
    } else {
        put_float(t, row, 1, v, d_v);
    }
}
