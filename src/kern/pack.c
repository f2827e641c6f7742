/* kern: packed weights.
 *
 * A panel of P rows (P = 8 or 16, rows are lanes) of a quantised type is read from front to back as one
 * stream: strips of a few groups (32 weights of k each), the scales of a strip before its codes, so many
 * groups that the scales are whole vectors of 4 * P bytes and no vector of codes straddles a cache line:
 *
 *   | scales of strip 0 | codes: group 0, group 1, ... | scales of strip 1 | codes ... | ... | padding |
 *
 * Groups of a strip: Q4_1 Q5_1 1; Q8_0 Q4_0 Q5_0 IQ4_NL 2; MXFP4 4; Q4_K Q5_K Q2_K 8; Q3_K Q6_K IQ4_XS 16.
 * The last strip may have fewer, with room for all their scales. (Two streams, all scales before all codes,
 * cost a cold start of the second at every panel: 10 to 40 % of one row's speed.)
 *
 * Scales, per unit (32 weights of k; K-quants and IQ4_XS 256). "x P" means one for each row:
 *   Q8_0 Q4_0 Q5_0 IQ4_NL  d f16 x P
 *   Q4_1 Q5_1              d f16 x P, m f16 x P
 *   MXFP4                  e8m0 byte x P
 *   Q4_K Q5_K              d f16 x P, dmin f16 x P, 8 times (sc u8 x P, m u8 x P)
 *   Q2_K                   d f16 x P, dmin f16 x P, 8 times (two bytes x P: sc | m << 4 of each half)
 *   Q3_K Q6_K              d f16 x P, 8 times (two sc i8 x P, one for each half of 16 weights)
 *   IQ4_XS                 d f16 x P, 8 times (sc i8 x P)
 *
 * Codes, per group of 32: planes made of vectors of 4 * P bytes. A 32-bit lane is a row; its four
 * bytes are four consecutive k, a "chunk": chunk c = weights 4c .. 4c + 3 of the group.
 *   8 bits   vector c is chunk c                                     Q8_0
 *   nibbles  4 vectors: j holds chunk j low, chunk j + 4 high         Q4_* Q5_* Q6_K IQ4_* MXFP4
 *   2 bits   2 vectors: chunk c in vector c / 4 at bit 2 * (c % 4)    Q6_K (bits 4, 5) Q2_K Q3_K
 *   1 bit    1 vector: bit c is chunk c                               Q5_* (bit 4) Q3_K (bit 2)
 * in the order nibbles, 2 bits, 1 bit. So a panel is as large as the file's rows, up to the 6-bit
 * sub-scales, which become bytes.
 *
 * What the parts mean (q: activation codes of the group; s0, s1: their sums of 16; h: half):
 *   type         value of a code            idot                     ws        isum          wm
 *   Q8_0         c                          sum c q                  d
 *   Q4_0 Q5_0    c - 8, c - 16              sum (c - off) q          d
 *   IQ4_NL       hy_iq4nl_values[c]         sum v q                  d
 *   MXFP4        hy_mxfp4_values[c]         sum v q                  2^(e-128)
 *   IQ4_XS       hy_iq4nl_values[c]         sum v q                  d * sc
 *   Q4_1 Q5_1    c                          sum c q                  d         s0 + s1       m
 *   Q4_K Q5_K    c                          sum c q                  d * sc    s0 + s1       -(dmin * m)
 *   Q2_K         c                          sc0 sum0 + sc1 sum1      d         m0 s0 + m1 s1 -dmin
 *   Q3_K Q6_K    c - 4, c - 32              sc0 sum0 + sc1 sum1      d
 * ws, wm in F32. Bounds: |q| <= 127, so |idot| <= 128 * 32 * 127 * 32 < 2^24 (Q6_K): exact as a float. */
#include "kern/panel.h"

bool hy_panels_shape(hy_panels *w, hy_qtype type, uint32_t p, uint64_t n_row, uint64_t k)
{
    if (type >= HY_Q_COUNT || (p != 8 && p != 16)) return false;
    uint64_t bytes, total;
    if (hy_pf_float(type)) {
        if (!hy_mul_u64(k, (uint64_t)p * hy_pf_float_bytes(type), &bytes)) return false;
    } else {
        if (k % hy_quant(type)->block != 0 || k > UINT64_MAX / 1024) return false;
        uint64_t n_group = k / HY_GROUP;
        bytes = n_group ? hy_pf_codes_at(type, p, n_group - 1) + hy_pf_group_codes(type, p) : 0;
    }
    if (bytes > UINT64_MAX - HY_ALIGN || n_row > UINT64_MAX - p) return false;
    bytes = HY_ROUND_UP(bytes, HY_ALIGN);
    uint64_t n_panel = (n_row + p - 1) / p;
    if (!hy_mul_u64(n_panel, bytes, &total) || total > SIZE_MAX) return false;
    w->type = type;
    w->p = p;
    w->n_row = n_row;
    w->k = k;
    w->n_panel = n_panel;
    w->panel_bytes = bytes;
    return true;
}

/* ---- file blocks to codes: the types that pack_quick.c leaves ---------------------------------- */

/* One scale unit of one row, taken apart: `n` groups of codes and sub-scales. */
typedef struct unit {
    uint8_t code[256];
    uint16_t d, m;             /* f16 bits; MXFP4: d is the exponent byte */
    uint8_t a[16];             /* sub-scales: per group (IQ4_XS), per half (Q2_K, Q3_K) */
} unit;

static uint16_t load16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

/* 16 bytes: low nibbles are weights 0..15, high ones 16..31. */
static void nibbles_16(const uint8_t *qs, uint8_t *code)
{
    for (int i = 0; i < 16; i++) {
        code[i] = qs[i] & 15;
        code[i + 16] = qs[i] >> 4;
    }
}

/* Q2_K: scales[16], qs[64], d, dmin. Byte l of a half of 128 holds weights l, l + 32, l + 64, l + 96. */
static void two_bits(const uint8_t *qs, uint8_t *code)
{
    for (int n = 0; n < 2; n++)
        for (int j = 0; j < 4; j++)
            for (int l = 0; l < 32; l++)
                code[128 * n + 32 * j + l] = qs[32 * n + l] >> 2 * j & 3;
}

static void read_q2_k(const uint8_t *src, unit *u)
{
    memcpy(u->a, src, 16);
    two_bits(src + 16, u->code);
    u->d = load16(src + 80);
    u->m = load16(src + 82);
}

/* Q3_K: hmask[32], qs[64], scales[12], d. */
static void read_q3_k(const uint8_t *src, unit *u)
{
    const uint8_t *sc = src + 96;
    two_bits(src + 32, u->code);
    for (int g = 0; g < 8; g++)
        for (int l = 0; l < 32; l++) u->code[32 * g + l] |= (uint8_t)((src[l] >> g & 1) << 2);
    for (int s = 0; s < 16; s++) {
        int low = s < 8 ? sc[s] & 15 : sc[s - 8] >> 4;
        int high = sc[8 + s % 4] >> 2 * (s / 4) & 3;
        u->a[s] = (uint8_t)(int8_t)((low | high << 4) - 32);
    }
    u->d = load16(src + 108);
}

/* IQ4_XS: d, scales_h (u16), scales_l[4], qs[128]. */
static void read_iq4_xs(const uint8_t *src, unit *u)
{
    u->d = load16(src);
    uint32_t high = load16(src + 2);
    for (int g = 0; g < 8; g++) {
        int low = src[4 + g / 2] >> 4 * (g % 2) & 15;
        u->a[g] = (uint8_t)(int8_t)((int)((uint32_t)low | (high >> 2 * g & 3) << 4) - 32);
        nibbles_16(src + 8 + 16 * g, u->code + 32 * g);
    }
}

static void read_unit(hy_qtype t, const uint8_t *src, unit *u)
{
    switch (t) {
    case HY_Q_Q2_K: read_q2_k(src, u); break;
    case HY_Q_Q3_K: read_q3_k(src, u); break;
    case HY_Q_IQ4_XS: read_iq4_xs(src, u); break;
    default: /* MXFP4 */
        u->d = src[0];
        nibbles_16(src + 1, u->code);
        break;
    }
}

/* ---- codes to panels ------------------------------------------------------------------------- */

static void put16(uint8_t *dst, uint16_t v)
{
    dst[0] = (uint8_t)v;
    dst[1] = (uint8_t)(v >> 8);
}

/* Scales of one row into its lane; dst: the unit's scale part. */
static void put_scales(hy_qtype t, uint32_t p, uint32_t lane, const unit *u, uint8_t *dst)
{
    if (t == HY_Q_MXFP4) {
        dst[lane] = (uint8_t)u->d;
        return;
    }
    put16(dst + 2 * lane, u->d);
    dst += 2 * p;
    if (hy_pf_has_min(t)) {
        put16(dst + 2 * lane, u->m);
        dst += 2 * p;
    }
    for (uint32_t g = 0; g < 8; g++) {
        if (hy_pf_halves(t)) memcpy(dst + 2 * (g * p + lane), u->a + 2 * g, 2);
        else dst[g * p + lane] = u->a[g];
    }
}

/* Codes of one row's group into its lane; dst: the group's code part. Four codes at a time, as
 * bytes of a word: no shift below crosses a byte. */
static void put_codes(hy_qtype t, uint32_t p, uint32_t lane, const uint8_t *code, uint8_t *dst)
{
    uint32_t c[8], v[8] = {0};
    memcpy(c, code, sizeof(c));
    uint32_t n = 0;
    if (hy_pf_has_nibbles(t)) {
        const uint32_t low = 0x0f0f0f0fu;
        for (int j = 0; j < 4; j++) v[n++] = (c[j] & low) | (c[j + 4] & low) << 4;
    }
    if (hy_pf_halves(t)) {
        for (int i = 0; i < 8; i++) v[n + i / 4] |= (c[i] & 0x03030303u) << 2 * (i % 4);
        n += 2;
    }
    if (hy_pf_has_bit(t)) { /* Q3_K */
        for (int i = 0; i < 8; i++) v[n] |= (c[i] >> 2 & 0x01010101u) << i;
        n++;
    }
    for (uint32_t i = 0; i < n; i++) memcpy(dst + 4 * ((size_t)i * p + lane), &v[i], 4);
}

void hy_panel_pack(const hy_panels *w, uint8_t *dst_panel, const void *const *src_row,
                   uint32_t n_src_row)
{
    uint32_t p = w->p;
    if (n_src_row < p) memset(dst_panel, 0, w->panel_bytes);
    if (hy_pack_quick(w, dst_panel, src_row, n_src_row)) return;
    const hy_qtraits *q = hy_quant(w->type);
    uint32_t n_group = hy_pf_unit(w->type);
    uint64_t n_unit = w->k / q->block;
    /* rows inside units: the panel is written front to back */
    for (uint64_t i = 0; i < n_unit; i++) {
        for (uint32_t r = 0; r < n_src_row; r++) {
            unit u;
            read_unit(w->type, (const uint8_t *)src_row[r] + i * q->block_bytes, &u);
            put_scales(w->type, p, r, &u, dst_panel + hy_pf_scales_at(w->type, p, i * n_group));
            for (uint32_t g = 0; g < n_group; g++)
                put_codes(w->type, p, r, u.code + HY_GROUP * g,
                          dst_panel + hy_pf_codes_at(w->type, p, i * n_group + g));
        }
    }
}

/* ---- panels to rows -------------------------------------------------------------------------- */

/* Codes of one row's group, still unsigned where the type's are. */
static void get_codes(hy_qtype t, uint32_t p, uint32_t lane, const uint8_t *src, uint8_t *code)
{
    uint32_t v[8], c[8];
    uint32_t n = hy_pf_vectors(t);
    for (uint32_t i = 0; i < n; i++) memcpy(&v[i], src + 4 * ((size_t)i * p + lane), 4);
    for (uint32_t i = 0; i < 8; i++) {
        if (t == HY_Q_Q8_0)
            c[i] = v[i];
        else if (hy_pf_has_nibbles(t))
            c[i] = v[i % 4] >> 4 * (i / 4) & 0x0f0f0f0fu;
        else
            c[i] = v[i / 4] >> 2 * (i % 4) & 0x03030303u;
        if (t == HY_Q_Q6_K) c[i] |= (v[4 + i / 4] >> 2 * (i % 4) & 0x03030303u) << 4;
        if (hy_pf_has_bit(t)) c[i] |= (v[n - 1] >> i & 0x01010101u) << (t == HY_Q_Q3_K ? 2 : 4);
    }
    memcpy(code, c, HY_GROUP);
}

/* Scales of one row's group; src: its unit's scale part, i: the group's place in the unit. */
static void get_scales(hy_qtype t, uint32_t p, uint32_t lane, uint32_t i, const uint8_t *src,
                       hy_group *out)
{
    out->sc[0] = out->sc[1] = out->mn[0] = out->mn[1] = 1;
    out->wm = 0;
    if (t == HY_Q_MXFP4) {
        out->ws = hy_e8m0_half(src[lane]);
        return;
    }
    out->ws = hy_f16_f32(load16(src + 2 * lane));
    src += 2 * p;
    if (hy_pf_has_min(t)) {
        out->wm = hy_f16_f32(load16(src + 2 * lane));
        src += 2 * p;
    }
    if (t == HY_Q_IQ4_XS) {
        out->ws = out->ws * (float)(int8_t)src[i * p + lane];
    } else if (t == HY_Q_Q4_K || t == HY_Q_Q5_K) {
        out->ws = out->ws * (float)src[2 * i * p + lane];
        out->wm = -(out->wm * (float)src[(2 * i + 1) * p + lane]);
    } else if (hy_pf_halves(t)) {
        for (int h = 0; h < 2; h++) {
            uint8_t b = src[2 * (i * p + lane) + (uint32_t)h];
            out->sc[h] = t == HY_Q_Q2_K ? b & 15 : (int8_t)b;
            out->mn[h] = t == HY_Q_Q2_K ? b >> 4 : 1;
        }
        if (t == HY_Q_Q2_K) out->wm = -out->wm;
    }
}

void hy_panel_group(const hy_panels *w, const uint8_t *panel, uint64_t g, uint32_t lane,
                    hy_group *out)
{
    hy_qtype t = w->type;
    uint32_t p = w->p, n_group = hy_pf_unit(t);
    uint8_t code[HY_GROUP];
    get_scales(t, p, lane, (uint32_t)(g % n_group), panel + hy_pf_scales_at(t, p, g), out);
    get_codes(t, p, lane, panel + hy_pf_codes_at(t, p, g), code);
    const int8_t *values = t == HY_Q_MXFP4 ? hy_mxfp4_values
                           : t == HY_Q_IQ4_NL || t == HY_Q_IQ4_XS ? hy_iq4nl_values : NULL;
    for (int i = 0; i < HY_GROUP; i++)
        out->code[i] = values ? values[code[i]] : (int8_t)(code[i] - hy_pf_offset(t));
}

/* Every product here is exact (11 + 7 + 7 bits at most), so a compiler that fuses changes nothing. */
void hy_panel_group_f32(const hy_group *g, bool has_min, float dst[HY_GROUP])
{
    for (int h = 0; h < 2; h++) {
        float d = g->ws * (float)g->sc[h], m = g->wm * (float)g->mn[h];
        for (int i = 16 * h; i < 16 * h + 16; i++)
            dst[i] = has_min ? d * (float)g->code[i] + m : d * (float)g->code[i];
    }
}

void hy_panel_row(const hy_panels *w, uint64_t i_row, float *dst)
{
    const uint8_t *panel = hy_panel_at(w, i_row / w->p);
    uint32_t lane = (uint32_t)(i_row % w->p);
    if (hy_pf_float(w->type)) {
        uint32_t size = hy_pf_float_bytes(w->type);
        for (uint64_t k = 0; k < w->k; k++) {
            const uint8_t *src = panel + (k * w->p + lane) * size;
            if (w->type == HY_Q_F32)
                memcpy(dst + k, src, 4);
            else
                dst[k] = w->type == HY_Q_F16 ? hy_f16_f32(load16(src)) : hy_bf16_f32(load16(src));
        }
        return;
    }
    for (uint64_t g = 0; g < w->k / HY_GROUP; g++) {
        hy_group row;
        hy_panel_group(w, panel, g, lane, &row);
        hy_panel_group_f32(&row, hy_pf_has_min(w->type), dst + g * HY_GROUP);
    }
}
