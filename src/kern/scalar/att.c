/* Attention of one tile, one query row and one key at a time: the version that defines the bits. */
#include "kern/kv_layout.h"
#include "kern/scalar/math.h"
#include "kern/scalar/scalar.h"

static float load16(hy_kv_type t, uint16_t h)
{
    return t == HY_KV_F16 ? hy_f16_f32(h) : hy_bf16_f32(h);
}

static float dot_k(hy_kv_type t, const uint8_t *page, uint32_t d_k, uint32_t slot, const float *q)
{
    const float *scale = hy_kv_scales(t, page, d_k);
    float s = 0, part = 0;
    for (uint32_t d = 0; d < d_k; d++) {
        size_t at = (size_t)d * HY_PAGE_TOK + slot;
        switch (t) {
        case HY_KV_F32:
            s = fmaf(q[d], ((const float *)(const void *)page)[at], s);
            break;
        case HY_KV_Q8:
            s = fmaf(q[d], (float)((const int8_t *)page)[at], s);
            break;
        case HY_KV_Q4: {
            int c = page[(size_t)d / 2 * HY_PAGE_TOK + slot] >> (d % 2 * 4) & 15;
            part = fmaf(q[d], (float)(c - 8), part);
            if (d % HY_KV_GROUP != HY_KV_GROUP - 1) break;
            s = fmaf(part, scale[d / HY_KV_GROUP * HY_PAGE_TOK + slot], s);
            part = 0;
            break;
        }
        default:
            s = fmaf(q[d], load16(t, ((const uint16_t *)(const void *)page)[at]), s);
            break;
        }
    }
    return t == HY_KV_Q8 ? s * scale[slot] : s;
}

static void add_v(hy_kv_type t, const uint8_t *page, uint32_t d_v, uint32_t slot, float p, float *o)
{
    const float *scale = hy_kv_scales(t, page, d_v);
    const uint8_t *row = page + hy_kv_code_bytes(t, d_v) * slot;
    for (uint32_t d = 0; d < d_v; d++) {
        switch (t) {
        case HY_KV_F32:
            o[d] = fmaf(p, ((const float *)(const void *)row)[d], o[d]);
            break;
        case HY_KV_Q8:
            o[d] = fmaf(p * scale[slot], (float)((const int8_t *)row)[d], o[d]);
            break;
        case HY_KV_Q4: {
            uint32_t g = d / HY_KV_GROUP, i = d % HY_KV_GROUP;
            int c = row[g * 16 + i % 16] >> (i / 16 * 4) & 15;
            o[d] = fmaf(p * scale[slot * (d_v / HY_KV_GROUP) + g], (float)(c - 8), o[d]);
            break;
        }
        default:
            o[d] = fmaf(p, load16(t, ((const uint16_t *)(const void *)row)[d]), o[d]);
            break;
        }
    }
}

void hy_att_scalar(const hy_att *a)
{
    for (uint32_t i = 0; i < a->n_q; i++) {
        uint32_t lo, hi;
        hy_att_range(a, i, &lo, &hi);
        float *s = a->work + (size_t)i * HY_ATT_TILE, *o = a->o + (size_t)i * a->d_v;
        const float *q = a->q + i * a->q_stride;
        float m, lane[16] = {0}, top[16];
        for (int n = 0; n < 16; n++) top[n] = -INFINITY;
        for (uint32_t j = lo; j < hi; j++) {
            float x =
                dot_k(a->type, a->k_page[j / HY_PAGE_TOK], a->d_k, j % HY_PAGE_TOK, q) * a->scale;
            if (a->softcap != 0) x = hy_tanh1(x / a->softcap) * a->softcap;
            s[j] = x;
            top[j % 16] = x > top[j % 16] ? x : top[j % 16];
        }
        m = hy_fold_max16(top);
        memset(o, 0, a->d_v * sizeof(float));
        for (uint32_t j = lo; j < hi; j++) {
            float p = hy_exp1(s[j] - m);
            lane[j % 16] = lane[j % 16] + p;
            add_v(a->type, a->v_page[j / HY_PAGE_TOK], a->d_v, j % HY_PAGE_TOK, p, o);
        }
        a->m[i] = m;
        a->l[i] = hy_fold16(lane);
    }
}

void hy_att_fold_scalar(uint32_t n, float *m_acc, float *l_acc, float *o_acc, const float *m,
                        const float *l, const float *o, uint32_t d_v)
{
    for (uint32_t i = 0; i < n; i++, o += d_v, o_acc += d_v) {
        if (l[i] == 0) continue; /* no key: a tile with keys has l >= 1, or NaN */
        float top = m[i] > m_acc[i] ? m[i] : m_acc[i];
        float ea = hy_exp1(m_acc[i] - top), eb = hy_exp1(m[i] - top);
        for (uint32_t d = 0; d < d_v; d++) o_acc[d] = fmaf(o[d], eb, o_acc[d] * ea);
        l_acc[i] = fmaf(l[i], eb, l_acc[i] * ea);
        m_acc[i] = top;
    }
}
