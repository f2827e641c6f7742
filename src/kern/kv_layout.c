/* Pages of keys and values: sizes and names.
 *
 *   K page, tokens are lanes            V page, d are lanes
 *   F32/F16/BF16 [d_k][16]              [16][d_v]
 *   Q8   int8 [d_k][16]                 int8 [16][d_v]
 *        F32 scale[16]                  F32 scale[16]
 *   Q4   byte [d_k/2][16]:              byte [16][d_v/2], 16 bytes a group of 32:
 *        low d = 2r, high d = 2r + 1    low d = i, high d = i + 16
 *        F32 scale[d_k/32][16]          F32 scale[16][d_v/32] */
#include "kern/kv_layout.h"
#include <string.h>
#include <strings.h>

static const struct {
    const char *name, *alias;
} names[HY_KV_TYPE_COUNT] = {
    [HY_KV_F32] = {"f32", "float32"},    [HY_KV_F16] = {"f16", "float16"},
    [HY_KV_BF16] = {"bf16", "bfloat16"}, [HY_KV_Q8] = {"q8", "q8_0"},
    [HY_KV_Q4] = {"q4", "q4_0"},
};

static uint64_t page_bytes(hy_kv_type t, uint32_t d)
{
    uint64_t n_scale = t == HY_KV_Q8 ? 1 : t == HY_KV_Q4 ? d / HY_KV_GROUP : 0;
    return HY_ROUND_UP((hy_kv_code_bytes(t, d) + n_scale * sizeof(float)) * HY_PAGE_TOK,
                       (uint64_t)HY_ALIGN);
}

uint64_t hy_kv_k_bytes(hy_kv_type t, uint32_t d_k) { return page_bytes(t, d_k); }

uint64_t hy_kv_v_bytes(hy_kv_type t, uint32_t d_v) { return page_bytes(t, d_v); }

bool hy_kv_type_from_name(const char *name, hy_kv_type *out)
{
    for (int t = 0; t < HY_KV_TYPE_COUNT; t++) {
        if (strcasecmp(name, names[t].name) && strcasecmp(name, names[t].alias)) continue;
        *out = (hy_kv_type)t;
        return true;
    }
    return false;
}

const char *hy_kv_type_name(hy_kv_type t)
{
    return (unsigned)t < HY_KV_TYPE_COUNT ? names[t].name : "?";
}

static void widen(hy_kv_type t, const uint8_t *code, float *out, size_t n)
{
    const uint16_t *half = (const uint16_t *)(const void *)code;
    switch (t) {
    case HY_KV_F32: memcpy(out, code, n * sizeof *out); break;
    case HY_KV_F16:
        for (size_t i = 0; i < n; i++) out[i] = hy_f16_f32(half[i]);
        break;
    case HY_KV_BF16:
        for (size_t i = 0; i < n; i++) out[i] = hy_bf16_f32(half[i]);
        break;
    default:
        for (size_t i = 0; i < n; i++) out[i] = (float)((const int8_t *)code)[i];
        break;
    }
}

void hy_kv_page_keys(hy_kv_type t, const uint8_t *page, uint32_t d_k, float *out)
{
    const float *scale = hy_kv_scales(t, page, d_k);
    if (t != HY_KV_Q4) widen(t, page, out, (size_t)d_k * HY_PAGE_TOK);
    for (uint32_t d = 0; d < d_k && t >= HY_KV_Q8; d++)
        for (uint32_t j = 0; j < HY_PAGE_TOK; j++) {
            float *x = out + (size_t)d * HY_PAGE_TOK + j;
            if (t == HY_KV_Q8) *x *= scale[j];
            else *x = (float)((page[(size_t)d / 2 * HY_PAGE_TOK + j] >> d % 2 * 4 & 15) - 8) *
                      scale[d / HY_KV_GROUP * HY_PAGE_TOK + j];
        }
}

void hy_kv_page_values(hy_kv_type t, const uint8_t *page, uint32_t d_v, float *out)
{
    const float *scale = hy_kv_scales(t, page, d_v);
    if (t != HY_KV_Q4) widen(t, page, out, (size_t)d_v * HY_PAGE_TOK);
    for (uint32_t j = 0; j < HY_PAGE_TOK && t >= HY_KV_Q8; j++) {
        const uint8_t *row = page + hy_kv_code_bytes(t, d_v) * j;
        for (uint32_t d = 0; d < d_v; d++) {
            float *x = out + (size_t)j * d_v + d;
            uint32_t g = d / HY_KV_GROUP, i = d % HY_KV_GROUP;
            if (t == HY_KV_Q8) *x *= scale[j];
            else *x = (float)((row[g * 16 + i % 16] >> i / 16 * 4 & 15) - 8) * scale[j * (d_v / HY_KV_GROUP) + g];
        }
    }
}
