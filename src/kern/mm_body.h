/* kern, private: the body of every vector matmul. An ISA's file defines the vector types and the
 * operations below, then includes this once; so all of them sum in the same order.
 *
 *   MM_P          rows a panel = lanes of a VF
 *   MM_FEW        up to so many tokens decode again for every MM_TILE, from L1; 0: none do
 *   MM_TILE       tokens a register tile; MM_TILE_F the same for F32 activations (times MM_NP panels)
 *   MM_PAIR       2: of many tokens (MM_PAIR_FROM and more) half as many by two panels, so that an activation is broadcast for both
 *   VI, VF        P 32-bit lanes of integers (or 4 * P bytes), of floats
 *   v_load v_and v_or v_sll v_srl (any lane of 16 or 32 bits: results are masked) v_set8
 *   v_set16       both halves of every 32-bit lane
 *   v_table v_lookup  a 16-entry table of int8, for every byte (codes 0..15)
 *   v_pairs_i8 v_pairs_u8   2 * P bytes, each widened to 16 bits: a lane is a pair
 *   v_shr16       16-bit lanes
 *   v_byte_i32    byte j of every lane as an int32, signed or not; v_sub32
 *   v_lo16 v_hi16 the halves of a pair as int32 (sign-extended)
 *   v_bcast32     an int32 from memory to every lane; v_sra32, v_add32; v_sllv32: by what lanes of another say
 *   f_load f_store f_zero f_set f_f16 f_bf16 f_u8 f_i8 f_e8m0 (from P values in memory) f_i32 f_mul
 *   f_add f_neg f_fma
 *   f_keep        the same value, which gcc may not make later: it would keep both factors of a product
 *                 alive instead, and spill
 *   v_dots(t, c, x, h, off, sum, n)  sum[j] += 2^e[h] * the dots of 16 codes, c[0..3], with half h of x_at(x, off[j]);
 *                 v_dots2(t, c, d, x, h, off, sum, n) where MM_PAIR is 2: the same of c to sum[2 j], of d to sum[2 j + 1]
 *   mm_up(t)      bits that codes are moved up by, and scales divided by; mm_offset(t): what is still to be taken off the
 *                 codes that decode_codes leaves (v_fix_signed(t, v): signed bytes into the form that v_dots wants);
 *                 mm_signed: these are signed bytes
 *   MM_SPLIT      where defined, many tokens have signed codes split: v_split(c, minus, lost) once, then v_dots_split(c, minus,
 *                 x, h, off, sum, n) onto sums that start at v_lost(lost, x)
 */
#include "kern/fill.h"
#include "kern/panel.h"

/* Types whose int8 loops are the same, by the name of one of them; an ISA may have more. */
#ifndef MM_TYPES
#define MM_CLASSES(X) X(Q8_0) X(Q4_1) X(Q2_K) X(Q3_K) X(Q6_K)
#define MM_TYPES(X)                                                                                \
    X(Q8_0, Q8_0) X(Q4_0, Q8_0) X(Q4_1, Q4_1) X(Q5_0, Q8_0) X(Q5_1, Q4_1) X(Q2_K, Q2_K)            \
    X(Q3_K, Q3_K) X(Q4_K, Q4_1) X(Q5_K, Q4_1) X(Q6_K, Q6_K) X(IQ4_NL, Q8_0) X(IQ4_XS, Q8_0)        \
    X(MXFP4, Q8_0)
#endif

#define VB (MM_P * 4)          /* bytes a vector */
#ifndef MM_PAIR
#define MM_PAIR 1
#define v_dots2(t, c, d, x, h, off, sum, n) (void)0
#endif
#ifndef MM_PAIR_FROM           /* tokens */
#define MM_PAIR_FROM 1
#endif
#define KB (MM_PAIR == 2 && MM_P == 16 ? 20 : 24) /* groups decoded at a time for many tokens: 18 KB of L1 at most, 25 for pairs of 16 rows */
#define NB 128                 /* tokens a block */
/* Bytes from the group in use to the one that is asked for. One token leaves the processor's own prefetch enough to do where a
 * group is four lines or more, or (of strips of two) a panel less than a page, and does best near it; several tokens, narrower
 * groups and floats need longer for a byte, and so does Q6_K, whose two planes of codes are read side by side. All measured (Zen 4:
 * docs/performance.md). */
#define NEAR(t, n, w)                                                                              \
    ((n) == 1 && !hy_pf_float(t) && (t) != HY_Q_Q6_K &&                                            \
     (hy_pf_group_codes(t, MM_P) >= 256 || (hy_pf_strip(t) == 2 && (w)->panel_bytes < 4096)))
#define AHEAD(t, n, w) (NEAR(t, n, w) ? 1088 : 8256)
#define FEW_F 32               /* up to so many tokens float weights are used as they are read, again from L2 for every MM_TILE */
#define FEW_GROUPS 16          /* a multiple of every type's strip */
#define UNROLL _Pragma("GCC unroll 16")
#if MM_TILE == 8
#define UP_TO_TILE(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#else
#define UP_TO_TILE(X) X(1) X(2) X(3) X(4)
#endif

/* A group of a panel, decoded. */
typedef struct dec {
    VI c[8];
    VF ws[2], wm[2];           /* of each half where types have sub-scales for them, else [0] */
} dec;
/* One that is split for many tokens: it begins like the other, and needs no more of it. */
typedef struct dec_split {
    VI c[8];
    VF ws;
    VI minus[8], lost;
} dec_split;
#ifdef MM_SPLIT
_Static_assert(sizeof(dec_split) <= MM_PAIR * sizeof(dec), "many() has room for it");
#endif

/* ---- decoding -------------------------------------------------------------------------------- */

/* Bits `from` .. of h moved to `to`, masked. */
HY_INLINE VI bits(VI h, int from, int to, int mask)
{
    VI v = from < to ? v_sll(h, to - from) : from > to ? v_srl(h, from - to) : h;
    return v_and(v, v_set8(mask));
}

HY_INLINE void decode_codes(hy_qtype t, const uint8_t *src, VI c[8])
{
    const int up = mm_up(t);
    if (t == HY_Q_Q8_0) {
        UNROLL for (int i = 0; i < 8; i++) c[i] = v_fix_signed(t, v_load(src + i * VB));
        return;
    }
    if (hy_pf_has_nibbles(t)) {
        UNROLL for (int j = 0; j < 4; j++) {
            VI v = v_load(src + j * VB);
            c[j] = bits(v, 0, up, 15 << up);
            c[j + 4] = bits(v, 4, up, 15 << up);
        }
    }
    if (t == HY_Q_Q6_K) {
        UNROLL for (int i = 0; i < 8; i++)
            c[i] = v_or(c[i], bits(v_load(src + (4 + i / 4) * VB), 2 * (i % 4), 4 + up, 0x30 << up));
    } else if (t == HY_Q_Q2_K || t == HY_Q_Q3_K) {
        UNROLL for (int i = 0; i < 8; i++)
            c[i] = bits(v_load(src + i / 4 * VB), 2 * (i % 4), up, 3 << up);
    }
    if (hy_pf_has_bit(t)) {
        int to = (t == HY_Q_Q3_K ? 2 : 4) + up;
        VI h = v_load(src + (t == HY_Q_Q3_K ? 2 : 4) * VB);
        UNROLL for (int i = 0; i < 8; i++) c[i] = v_or(c[i], bits(h, i, to, 1 << to));
    }
    if (t == HY_Q_IQ4_NL || t == HY_Q_IQ4_XS || t == HY_Q_MXFP4) {
        VI table = v_fix_signed(t, v_table(t == HY_Q_MXFP4 ? hy_mxfp4_values : hy_iq4nl_values));
        UNROLL for (int i = 0; i < 8; i++) c[i] = v_lookup(table, c[i]);
    }
}

/* The floats of a scale unit. */
HY_INLINE void unit_scales(hy_qtype t, const uint8_t *src, VF *d, VF *m)
{
    const float down = 1.0f / (float)(1 << mm_up(t));
    *d = t == HY_Q_MXFP4 ? f_e8m0(src) : f_f16(src);
    if (mm_up(t)) *d = f_mul(*d, f_set(&down)); /* exact */
    *m = hy_pf_has_min(t) ? f_f16(src + 2 * MM_P) : f_zero();
}

/* Scales of group i of a unit whose floats are d, m. */
HY_INLINE void group_scales(hy_qtype t, const uint8_t *src, uint32_t i, VF d, VF m, dec *o)
{
    o->ws[0] = d;
    if (hy_pf_has_min(t)) o->wm[0] = m;
    src += hy_pf_has_min(t) ? 4 * MM_P : 2 * MM_P;
    if (t == HY_Q_Q4_K || t == HY_Q_Q5_K) {
        o->ws[0] = f_mul(d, f_u8(src + 2 * i * MM_P));
        o->wm[0] = f_neg(f_mul(m, f_u8(src + (2 * i + 1) * MM_P)));
    } else if (t == HY_Q_IQ4_XS) {
        o->ws[0] = f_mul(d, f_i8(src + i * MM_P));
    } else if (t == HY_Q_Q2_K) {
        VI both = v_pairs_u8(src + 2 * i * MM_P);
        VI sc = v_and(both, v_set16(15)), mn = v_shr16(both, 4);
        o->ws[0] = f_mul(d, f_i32(v_lo16(sc)));
        o->ws[1] = f_mul(d, f_i32(v_hi16(sc)));
        o->wm[0] = f_neg(f_mul(m, f_i32(v_lo16(mn))));
        o->wm[1] = f_neg(f_mul(m, f_i32(v_hi16(mn))));
    } else if (hy_pf_halves(t)) {
        VI sc = v_pairs_i8(src + 2 * i * MM_P);
        o->ws[0] = f_mul(d, f_i32(v_lo16(sc)));
        o->ws[1] = f_mul(d, f_i32(v_hi16(sc)));
    }
}

/* Where a panel's groups are read from, one after the other. */
typedef struct cursor {
    const uint8_t *scale, *code;
    VF d, m;
    uint32_t i;                /* group in its strip */
} cursor;

HY_INLINE cursor cursor_at(const uint8_t *panel)
{
    return (cursor){ .code = panel, .d = f_zero(), .m = f_zero() };
}

/* What is read after the bytes up to `end`: `jump` is added to addresses from there on. */
typedef struct then {
    uintptr_t end, jump;
} then;

/* After panels up to i comes `next`, or whatever lies behind them. */
HY_INLINE then then_at(const hy_mm *m, uint64_t i, const uint8_t *next)
{
    uintptr_t end = (uintptr_t)hy_panel_at(m->w, i);
    return (then){ end, next ? (uintptr_t)next - end : 0 };
}
HY_INLINE const uint8_t *ahead_of(const uint8_t *p, size_t ahead, then th)
{
    uintptr_t at = (uintptr_t)p + ahead;
    return (const uint8_t *)(at + (at >= th.end ? th.jump : 0));
}

/* The group at the cursor, which is the u-th of its strip. */
HY_INLINE void group_of(hy_qtype t, cursor *at, uint32_t u, dec *o)
{
    const uint32_t unit = hy_pf_unit(t);
    if (u == 0) { /* a strip starts with its scales */
        at->scale = at->code;
        at->code += hy_pf_strip_scales(t, MM_P);
    }
    if (u % unit == 0) unit_scales(t, at->scale, &at->d, &at->m);
    group_scales(t, at->scale, u % unit, at->d, at->m, o);
    decode_codes(t, at->code, o->c);
    at->code += hy_pf_group_codes(t, MM_P);
    if (u % unit == unit - 1) at->scale += hy_pf_scale_bytes(t) * MM_P;
}

HY_INLINE void next_group(hy_qtype t, cursor *at, dec *o)
{
    group_of(t, at, at->i, o);
    at->i = at->i + 1 == hy_pf_strip(t) ? 0 : at->i + 1;
}

/* ---- int8 activations ------------------------------------------------------------------------ */

/* A token's place: its row's offset in bytes. One register a token, where pointers would be one each for all steps. */
HY_INLINE size_t x_off(const hy_mm *m, uint32_t t)
{
    return (m->x_row ? m->x_row[t] : t) * (size_t)(m->x8.k / HY_GROUP) * sizeof(hy_act_group);
}
HY_INLINE const hy_act_group *x_at(const hy_act_group *x, size_t off)
{
    return (const hy_act_group *)(const void *)((const uint8_t *)x + off);
}

/* -128 times the sum of half h's codes, as they are scaled. */
HY_INLINE VI x_b(const hy_act_group *x, int h)
{
    VI b = v_bcast32(x->b + h);
    return h ? b : v_sub32(b, v_bcast32(x->b + 1));
}
/* Takes the type's offset off a sum of dots; b: -128 times the sum of the same codes. */
HY_INLINE VI off_codes(hy_qtype t, VI sum, VI b)
{
    if (!mm_offset(t)) return sum;
    return v_add32(sum, mm_offset(t) == 128 ? b : v_sra32(b, __builtin_ctz(128u / (unsigned)mm_offset(t))));
}

HY_INLINE bool is_split(hy_qtype t, const bool many)
{
#ifdef MM_SPLIT
    return many && mm_signed(t);
#else
    return false;
#endif
}

/* Group g of many tokens' list. */
HY_INLINE dec *dec_at(hy_qtype t, const dec *w, uint32_t g)
{
    return (dec *)((uintptr_t)w + g * (is_split(t, true) ? sizeof(dec_split) : sizeof(dec)));
}

/* Panels that many tokens go through together: split codes take the loads that a second one would save. */
HY_INLINE uint32_t panels_of(hy_qtype t) { return is_split(t, true) ? 1 : MM_PAIR; }

/* Once a group is decoded, for many tokens. */
HY_INLINE void split(hy_qtype t, dec *w)
{
#ifdef MM_SPLIT
    dec_split *s = (dec_split *)(void *)w;
    if (is_split(t, true)) v_split(s->c, s->minus, &s->lost);
#endif
}

/* What a group's sum of dots starts at. */
HY_INLINE VI sum_start(hy_qtype t, const dec *w, const hy_act_group *x, const bool many)
{
#ifdef MM_SPLIT
    if (is_split(t, many)) return v_lost(((const dec_split *)(const void *)w)->lost, x);
#endif
    return v_zero();
}

/* The integer dots of half h for n tokens and np panels, whose groups are w and w + KB, onto sum. A vector of codes is loaded
 * once for all tokens. Token j, panel p at j * np + p, here and below. */
HY_INLINE void half_dots(hy_qtype t, const dec *w, const int np, int h, const hy_act_group *x, const size_t *off,
                         VI *sum, const int n, const bool many)
{
#ifdef MM_SPLIT
    if (is_split(t, many)) { /* one panel: see panels_of */
        v_dots_split(w->c + 4 * h, ((const dec_split *)(const void *)w)->minus + 4 * h, x, h, off, sum, n);
        return;
    }
#endif
    if (np == 1) v_dots(t, w->c + 4 * h, x, h, off, sum, n);
    else v_dots2(t, w->c + 4 * h, w[KB].c + 4 * h, x, h, off, sum, n);
}

/* The float part for one token and panel where a group has one scale; sum: both halves. */
HY_INLINE VF onto(hy_qtype t, const dec *w, const hy_act_group *x, VI sum, VF acc)
{
    sum = off_codes(t, sum, v_bcast32(x->b));
    acc = f_fma(f_mul(f_i32(sum), w->ws[0]), f_set(&x->d), acc);
    return hy_pf_has_min(t) ? f_fma(f_set(&x->s), w->wm[0], acc) : acc;
}

/* Where each half has its own: what a half adds to u. */
HY_INLINE VF half_onto(hy_qtype t, const dec *w, const hy_act_group *x, int h, VI sum, VF u)
{
    sum = off_codes(t, sum, x_b(x, h));
    return h ? f_fma(f_i32(sum), w->ws[1], u) : f_mul(f_i32(sum), w->ws[0]);
}
HY_INLINE VF minima_onto(const dec *w, const hy_act_group *x, VF u)
{
    u = f_fma(f_i32(v_sra32(x_b(x, 0), 7)), f_neg(w->wm[0]), u);
    return f_fma(f_i32(v_sra32(x_b(x, 1), 7)), f_neg(w->wm[1]), u);
}

/* One group for n tokens and np panels; many: it is one of many()'s. */
HY_INLINE void step(hy_qtype t, const dec *w, const int np, const hy_act_group *x, const size_t *off, VF *acc,
                    const int n, const bool many)
{
    VI sum[MM_TILE];
    VF u[MM_TILE];
    UNROLL for (int i = 0; i < np * n; i++) sum[i] = sum_start(t, w + i % np * KB, x_at(x, off[i / np]), many);
    half_dots(t, w, np, 0, x, off, sum, n, many);
    if (hy_pf_halves(t)) {
        UNROLL for (int i = 0; i < np * n; i++) {
            u[i] = f_keep(half_onto(t, w + i % np * KB, x_at(x, off[i / np]), 0, sum[i], f_zero()));
            sum[i] = v_zero();
        }
    }
    half_dots(t, w, np, 1, x, off, sum, n, many);
    UNROLL for (int i = 0; i < np * n; i++) {
        const dec *wi = w + i % np * KB;
        const hy_act_group *xi = x_at(x, off[i / np]);
        if (!hy_pf_halves(t)) {
            acc[i] = onto(t, wi, xi, sum[i], acc[i]);
            continue;
        }
        u[i] = half_onto(t, wi, xi, 1, sum[i], u[i]);
        if (hy_pf_has_min(t)) u[i] = minima_onto(wi, xi, u[i]);
        acc[i] = f_fma(u[i], f_set(&xi->d), acc[i]);
    }
}

HY_INLINE size_t y_at(const hy_mm *m, uint32_t t) { return m->y_row ? m->y_row[t] : t; }

/* A panel that has fewer rows. */
static __attribute__((noinline)) void put_part(const hy_mm *m, uint64_t r, size_t row, const float *v)
{
    float *y = m->y + row * m->y_stride + r;
    const float *add = m->add ? m->add + row * m->add_stride + r : NULL;
    for (uint32_t j = 0; j < m->w->n_row - r; j++) {
        float s = m->bias ? v[j] + m->bias[r + j] : v[j];
        y[j] = add ? s + add[j] : s; /* add may be y */
    }
}

/* bias, add, and out. `acc`: panel i, token t. */
HY_INLINE void put(const hy_mm *m, uint64_t i, uint32_t t, VF acc)
{
    uint64_t r = i * MM_P;
    size_t row = y_at(m, t);
    if (r + MM_P > m->w->n_row) {
        float v[MM_P];
        f_store(v, acc);
        put_part(m, r, row, v);
        return;
    }
    if (m->bias) acc = f_add(acc, f_load(m->bias + r));
    if (m->add) acc = f_add(acc, f_load(m->add + row * m->add_stride + r));
    f_store(m->y + row * m->y_stride + r, acc);
}

/* Into L2: asked for in L1, weights take its miss buffers from the activations (half the speed with 8 tokens). */
HY_INLINE void prefetch(const uint8_t *p, uint32_t bytes)
{
    UNROLL for (uint32_t i = 0; i < bytes; i += 64) v_prefetch(p + i);
}

/* Asks for what comes `ahead` bytes after the cursor's group, the u-th of its strip. */
HY_INLINE void prefetch_group(hy_qtype t, const cursor *at, uint32_t u, size_t ahead, then th)
{
    const uint8_t *p = ahead_of(at->code, ahead, th);
    if (u == 0) { /* two calls: each of a constant number of lines */
        prefetch(p, hy_pf_strip_scales(t, MM_P));
        p += hy_pf_strip_scales(t, MM_P);
    }
    prefetch(p, hy_pf_group_codes(t, MM_P));
}

/* Groups of a panel for a few tokens: each is decoded in registers and used for all of them.
 * acc: [n][P], read (but for the first groups) and written. */
HY_INLINE void few(hy_qtype t, cursor *at, uint64_t n_group, const hy_act_group *x, const size_t *off,
                   float *acc, bool first, size_t ahead, then th, const int n)
{
    VF a[MM_TILE];
    cursor c = *at;
    UNROLL for (int j = 0; j < n; j++) a[j] = first ? f_zero() : f_load(acc + j * MM_P);
    for (uint64_t g = 0; g < n_group; g += hy_pf_strip(t)) {
        _Pragma("GCC unroll 2") for (uint32_t u = 0; u < hy_pf_strip(t); u++, x++) {
            dec w;
            if (g + u == n_group) break;
            prefetch_group(t, &c, u, ahead, th);
            group_of(t, &c, u, &w);
            step(t, &w, 1, x, off, a, n, false);
        }
    }
    UNROLL for (int j = 0; j < n; j++) f_store(acc + j * MM_P, a[j]);
    *at = c;
}

typedef void few_fn(cursor *at, uint64_t n_group, const hy_act_group *x, const size_t *off, float *acc,
                    bool first, size_t ahead, then th, uint32_t n);

/* n is 1 .. MM_TILE. */
HY_INLINE void few_any(hy_qtype t, cursor *at, uint64_t n_group, const hy_act_group *x,
                       const size_t *off, float *acc, bool first, size_t ahead, then th, uint32_t n)
{
#define FEW(N) case N: few(t, at, n_group, x, off, acc, first, ahead, th, N); break;
    switch (n) {
    UP_TO_TILE(FEW)
    default: break;
    }
#undef FEW
}

/* Up to MM_FEW tokens. Where they are several tiles, these take turns in every FEW_GROUPS groups, which
 * only the first reads from beyond the L1 cache. */
HY_INLINE void few_tokens(hy_qtype t, const hy_mm *m, few_fn *run)
{
    size_t off[MM_FEW + 1];
    float acc[(MM_FEW + 1) * MM_P];
    uint64_t n_group = m->w->k / HY_GROUP, step = m->n_tok > MM_TILE ? FEW_GROUPS : n_group;
    then th = then_at(m, m->panel_last, m->next);
    for (uint32_t j = 0; j < m->n_tok; j++) off[j] = x_off(m, j);
    for (uint64_t i = m->panel_first; i < m->panel_last; i++) {
        cursor at = cursor_at(hy_panel_at(m->w, i));
        const hy_act_group *x = m->x8.g;
        for (uint64_t g = 0; g < n_group; g += step, x += step) {
            cursor end = at;
            for (uint32_t t0 = 0; t0 < m->n_tok; t0 += MM_TILE) {
                end = at;
                run(&end, HY_MIN(step, n_group - g), x, off + t0, acc + t0 * MM_P, g == 0,
                    t0 ? 0 : AHEAD(t, m->n_tok, m->w), th, HY_MIN(MM_TILE, m->n_tok - t0));
            }
            at = end;
        }
        for (uint32_t j = 0; j < m->n_tok; j++) put(m, i, j, f_load(acc + j * MM_P));
    }
}

/* Where sums of tokens t and on, panel i and on, come from and go to. */
typedef struct sums {
    const hy_mm *m;
    uint64_t i;
    uint32_t t;
    bool first, last;          /* groups of k: sums start at 0, go to y */
    float *acc;                /* [token][panel][P] in between */
} sums;

/* Asks for the lines that put() will write, and read. */
HY_INLINE void ask_for_lines(const sums *s, const int np, const int n)
{
    const hy_mm *m = s->m;
    UNROLL for (int j = 0; j < n; j++) {
        size_t row = y_at(m, s->t + (uint32_t)j), c = s->i * MM_P;
        UNROLL for (int b = 0; b < np * MM_P * 4; b += 64) {
            __builtin_prefetch((const uint8_t *)(m->y + row * m->y_stride + c) + b, 1);
            if (m->add) __builtin_prefetch((const uint8_t *)(m->add + row * m->add_stride + c) + b);
        }
    }
}

/* Decoded groups for a tile of tokens and panels. */
HY_INLINE void tile(hy_qtype t, const dec *w, uint32_t n_group, const hy_act_group *x, const size_t *off, sums *s,
                    const int np, const int n)
{
    VF a[MM_TILE];
    if (s->last) ask_for_lines(s, np, n);
    UNROLL for (int i = 0; i < np * n; i++) a[i] = s->first ? f_zero() : f_load(s->acc + i * MM_P);
    for (uint32_t g = 0; g < n_group; g++, x++) step(t, dec_at(t, w, g), np, x, off, a, n, true);
    if (s->last) {
        UNROLL for (int i = 0; i < np * n; i++)
            put(s->m, s->i + (uint64_t)(i % np), s->t + (uint32_t)(i / np), a[i]);
    } else {
        UNROLL for (int i = 0; i < np * n; i++) f_store(s->acc + i * MM_P, a[i]);
    }
    s->acc += np * n * MM_P;
    s->t += (uint32_t)n;
}

typedef void tiles_fn(const dec *w, uint32_t np, uint32_t n_group, const hy_act_group *x, const size_t *off,
                      sums s, uint32_t n);
typedef void decode_fn(cursor *at, uint32_t n, dec *out);

#ifndef MM_BIG                 /* tokens that an ISA with tiles of its own takes at once: amx_mm.c */
#define MM_BIG UINT32_MAX
HY_INLINE bool big_tile(hy_qtype t, const dec *w, uint32_t n_group, const hy_act_group *x, const size_t *off, sums *s)
{
    return false;
}
#else
static bool big_tile(hy_qtype t, const dec *w, uint32_t n_group, const hy_act_group *x, const size_t *off, sums *s);
#endif

/* n tokens, by tiles of MM_TILE sums, then of half as many, down to one token. */
HY_INLINE void tiles_by(hy_qtype t, const dec *w, uint32_t n_group, const hy_act_group *x, const size_t *off,
                        sums *s, const int np, uint32_t n)
{
    const uint32_t whole = MM_TILE / (uint32_t)np;
    for (; n >= whole; n -= whole, off += whole) tile(t, w, n_group, x, off, s, np, (int)whole);
    if (whole > 4 && n >= 4) {
        tile(t, w, n_group, x, off, s, np, 4);
        n -= 4, off += 4;
    }
    if (n >= 2) {
        tile(t, w, n_group, x, off, s, np, 2);
        n -= 2, off += 2;
    }
    if (n) tile(t, w, n_group, x, off, s, np, 1);
}

HY_INLINE void tiles(hy_qtype t, const dec *w, uint32_t np, uint32_t n_group, const hy_act_group *x,
                     const size_t *off, sums s, uint32_t n)
{
    for (; n >= MM_BIG && big_tile(t, w, n_group, x, off, &s); n -= MM_BIG) off += MM_BIG;
    if (panels_of(t) == 2 && np == 2) tiles_by(t, w, n_group, x, off, &s, MM_PAIR, n);
    else tiles_by(t, w, n_group, x, off, &s, 1, n);
}

/* Many tokens: groups of a panel (or two) are decoded into L1 and used for a block of tokens, so the cost
 * of decoding vanishes and types of one class share the inner loop. */
HY_INLINE void many(hy_qtype t, const hy_mm *m, decode_fn *decode, tiles_fn *run)
{
    size_t off[NB];
    float acc[NB * MM_PAIR * MM_P];
    dec w[MM_PAIR * KB]; /* or KB that are split */
    uint32_t n_group = (uint32_t)(m->w->k / HY_GROUP), n_part = (n_group + KB - 1) / KB;
    for (uint32_t t0 = 0; t0 < m->n_tok; t0 += NB) {
        uint32_t n = HY_MIN(NB, m->n_tok - t0), np;
        for (uint32_t j = 0; j < n; j++) off[j] = x_off(m, t0 + j);
        for (uint64_t i = m->panel_first; i < m->panel_last; i += np) {
            cursor at[MM_PAIR];
            np = n < MM_PAIR_FROM ? 1 : (uint32_t)HY_MIN(panels_of(t), m->panel_last - i);
            at[0] = cursor_at(hy_panel_at(m->w, i));
            if (MM_PAIR == 2 && np == 2) at[MM_PAIR - 1] = cursor_at(hy_panel_at(m->w, i + 1));
            for (uint32_t part = 0, g = 0; part < n_part; part++) { /* of equal length */
                uint32_t kb = (n_group - g + n_part - part - 1) / (n_part - part);
                const hy_act_group *x = m->x8.g + g;
                decode(&at[0], kb, w);
                if (MM_PAIR == 2 && np == 2) decode(&at[MM_PAIR - 1], kb, w + KB * (MM_PAIR - 1));
                run(w, np, kb, x, off, (sums){ m, i, t0, part == 0, part + 1 == n_part, acc }, n);
                g += kb;
            }
        }
    }
}

HY_INLINE void mm_q8(hy_qtype t, const hy_mm *m, few_fn *run_few, decode_fn *decode, tiles_fn *run)
{
    if (MM_FEW == 0 || m->n_tok > MM_FEW) many(t, m, decode, run);
    else few_tokens(t, m, run_few);
}

/* ---- F32 activations ------------------------------------------------------------------------- */

#define KF 64                  /* values of k dequantised at a time, of */
#define WF (MM_NP * MM_P)      /* rows, which lie side by side: 16 KB at most */

/* A decoded group as floats [32][WF]. The products are exact: see hy_panel_group_f32. */
HY_INLINE void dequant(hy_qtype t, const dec *w, float *dst)
{
    UNROLL for (int h = 0; h < 2; h++) {
        VF d = w->ws[hy_pf_halves(t) ? h : 0], mn = f_zero();
        if (hy_pf_has_min(t)) mn = w->wm[hy_pf_halves(t) ? h : 0];
        UNROLL for (int c = 4 * h; c < 4 * h + 4; c++) {
            UNROLL for (int j = 0; j < 4; j++) {
                VI v = v_byte_i32(w->c[c], j, mm_offset(t) == 0 && mm_signed(t));
                if (mm_offset(t)) v = v_sub32(v, v_set32(mm_offset(t)));
                VF f = f_mul(d, f_i32(v));
                f_store(dst + (4 * c + j) * WF, hy_pf_has_min(t) ? f_add(f, mn) : f);
            }
        }
    }
}

HY_INLINE VF f_weight(hy_qtype t, const uint8_t *src)
{
    if (t == HY_Q_F32) return f_load((const float *)(const void *)src);
    return t == HY_Q_F16 ? f_f16(src) : f_bf16(src);
}

/* The next n values of a panel, a multiple of HY_GROUP but at its end, as floats [n][WF]. Floats are many bytes for
 * their products, so as many are asked for as are read: they come while the tiles compute. */
HY_INLINE void dequant_block(hy_qtype t, cursor *at, uint32_t n, float *dst, then th)
{
    const uint32_t bytes = hy_pf_float_bytes(t) * MM_P;
    if (hy_pf_float(t)) {
        for (uint32_t k = 0; k < n; k++, at->code += bytes) {
            if (k % 2 == 0) prefetch(ahead_of(at->code, KF * bytes, th), 2 * bytes);
            f_store(dst + k * WF, f_weight(t, at->code));
        }
        return;
    }
    for (uint32_t k = 0; k < n; k += HY_GROUP) {
        dec g;
        next_group(t, at, &g);
        dequant(t, &g, dst + k * WF);
    }
}

typedef void dequant_fn(cursor *at, uint32_t n, float *dst, then th);

/* np panels by n tokens, kb values of k. acc: token j, panel p at (j * MM_NP + p) * P. */
HY_INLINE void tile_f(const float *w, uint32_t kb, const float *const *x, float *acc, const int np,
                      const int n)
{
    VF a[HY_MAX(MM_TILE_F, 4) * MM_NP];
    UNROLL for (int j = 0; j < n; j++)
        UNROLL for (int p = 0; p < np; p++) a[j * np + p] = f_load(acc + (j * MM_NP + p) * MM_P);
    for (uint32_t k = 0; k < kb; k++) {
        VF v[MM_NP];
        UNROLL for (int p = 0; p < np; p++) v[p] = f_load(w + k * WF + p * MM_P);
        UNROLL for (int j = 0; j < n; j++) {
            VF xk = f_set(x[j] + k);
            UNROLL for (int p = 0; p < np; p++) a[j * np + p] = f_fma(v[p], xk, a[j * np + p]);
        }
    }
    UNROLL for (int j = 0; j < n; j++)
        UNROLL for (int p = 0; p < np; p++) f_store(acc + (j * MM_NP + p) * MM_P, a[j * np + p]);
}

static void tiles_f(const float *w, uint32_t kb, const float *const *x, float *acc, uint32_t np,
                    uint32_t n)
{
    uint32_t j = 0;
    if (np == MM_NP) {
        for (; j + MM_TILE_F <= n; j += MM_TILE_F)
            tile_f(w, kb, x + j, acc + j * MM_NP * MM_P, MM_NP, MM_TILE_F);
        if (MM_TILE_F > 4 && j + 4 <= n) {
            tile_f(w, kb, x + j, acc + j * MM_NP * MM_P, MM_NP, 4);
            j += 4;
        }
        if (MM_TILE_F > 2 && j + 2 <= n) {
            tile_f(w, kb, x + j, acc + j * MM_NP * MM_P, MM_NP, 2);
            j += 2;
        }
        for (; j < n; j++) tile_f(w, kb, x + j, acc + j * MM_NP * MM_P, MM_NP, 1);
        return;
    }
    for (uint32_t p = 0; p < np; p++) {
        for (j = 0; j + 4 <= n; j += 4)
            tile_f(w + p * MM_P, kb, x + j, acc + (j * MM_NP + p) * MM_P, 1, 4);
        for (; j < n; j++) tile_f(w + p * MM_P, kb, x + j, acc + (j * MM_NP + p) * MM_P, 1, 1);
    }
}

#define NF 96                  /* tokens a block at most, for which weights are widened once; a multiple of MM_TILE_F */

/* Panels i .. i + np - 1 for tokens t0 .. t0 + n - 1. */
static void block_f(const hy_mm *m, dequant_fn *dequant_to, uint64_t i, uint32_t np, uint32_t t0,
                    uint32_t n)
{
    float acc[NF * WF], w[KF * WF];
    const float *x[NF];
    cursor at[MM_NP];
    then th[MM_NP];
    memset(acc, 0, n * WF * sizeof(float));
    for (uint32_t p = 0; p < np; p++) {
        uint64_t i_then = i + p + MM_NP;
        at[p] = cursor_at(hy_panel_at(m->w, i + p));
        th[p] = then_at(m, i + p + 1, i_then < m->panel_last ? hy_panel_at(m->w, i_then) : NULL);
    }
    for (uint64_t k = 0; k < m->w->k; k += KF) {
        uint32_t kb = (uint32_t)HY_MIN(KF, m->w->k - k);
        for (uint32_t p = 0; p < np; p++) dequant_to(&at[p], kb, w + p * MM_P, th[p]);
        for (uint32_t j = 0; j < n; j++)
            x[j] = m->x + (m->x_row ? m->x_row[t0 + j] : t0 + j) * m->x_stride + k;
        tiles_f(w, kb, x, acc, np, n);
    }
    for (uint32_t j = 0; j < n; j++)
        for (uint32_t p = 0; p < np; p++)
            put(m, i + p, t0 + j, f_load(acc + (j * MM_NP + p) * MM_P));
}

/* Float weights for a few tokens: np panels, read once in step with each other. */
HY_INLINE void few_f(hy_qtype t, const hy_mm *m, uint64_t i, uint32_t t0, const int np, const int n)
{
    const uint32_t bytes = hy_pf_float_bytes(t) * MM_P;
    const uint8_t *w[2], *next = m->next;
    const float *x[MM_TILE];
    VF a[2 * MM_TILE];
    then th[2];
    uint64_t k = 0, n_k = m->w->k;
    UNROLL for (int p = 0; p < np; p++) {
        uint64_t i_p = i + (uint64_t)p, i_then = i_p + (uint64_t)np;
        w[p] = hy_panel_at(m->w, i_p);
        th[p] = then_at(m, i_p + 1, i_then < m->panel_last ? hy_panel_at(m->w, i_then) : next);
        if (next && i_then >= m->panel_last) next += AHEAD(t, n, m->w);
    }
    UNROLL for (int j = 0; j < n; j++) {
        uint32_t tok = t0 + (uint32_t)j;
        x[j] = m->x + (m->x_row ? m->x_row[tok] : tok) * m->x_stride;
        UNROLL for (int p = 0; p < np; p++) a[j * np + p] = f_zero();
    }
    while (k < n_k) {
        uint64_t end = HY_MIN(k + 4, n_k);
        UNROLL for (int p = 0; p < np; p++) prefetch(ahead_of(w[p], AHEAD(t, n, m->w), th[p]), 4 * bytes);
        for (; k < end; k++) {
            VF v[2];
            UNROLL for (int p = 0; p < np; p++) {
                v[p] = f_weight(t, w[p]);
                w[p] += bytes;
            }
            UNROLL for (int j = 0; j < n; j++)
                UNROLL for (int p = 0; p < np; p++)
                    a[j * np + p] = f_fma(v[p], f_set(x[j] + k), a[j * np + p]);
        }
    }
    UNROLL for (int j = 0; j < n; j++)
        UNROLL for (int p = 0; p < np; p++)
            put(m, i + (uint64_t)p, t0 + (uint32_t)j, a[j * np + p]);
}

HY_INLINE void few_floats(hy_qtype t, const hy_mm *m)
{
    for (uint64_t i = m->panel_first; i < m->panel_last; i += 2) {
        bool pair = i + 1 < m->panel_last;
        for (uint32_t t0 = 0; t0 < m->n_tok; t0 += MM_TILE) {
            uint32_t n = HY_MIN(MM_TILE, m->n_tok - t0);
            for (uint32_t j = 0; !pair && j < n; j++) few_f(t, m, i, t0 + j, 1, 1);
            if (!pair) continue;
#define FEW(N) case N: few_f(t, m, i, t0, 2, N); break;
            switch (n) {
            UP_TO_TILE(FEW)
            default: break;
            }
#undef FEW
        }
    }
}

static void mm_f32(const hy_mm *m, dequant_fn *dequant_to)
{
    uint32_t n_block = (m->n_tok + NF - 1) / NF;
    if (n_block == 0) return;
    uint32_t each = HY_ROUND_UP((m->n_tok + n_block - 1) / n_block, MM_TILE_F);
    for (uint64_t i = m->panel_first; i < m->panel_last; i += MM_NP)
        for (uint32_t t0 = 0; t0 < m->n_tok; t0 += each)
            block_f(m, dequant_to, i, (uint32_t)HY_MIN(MM_NP, m->panel_last - i), t0, HY_MIN(each, m->n_tok - t0));
}

/* ---- one of each ----------------------------------------------------------------------------- */

/* The inner loops for many tokens: one for each class, named after one of its types. */
#define TILES(T)                                                                                   \
    static void tiles_##T(const dec *w, uint32_t np, uint32_t n_group, const hy_act_group *x,      \
                          const size_t *off, sums s, uint32_t n)                                   \
    {                                                                                              \
        tiles(HY_Q_##T, w, np, n_group, x, off, s, n);                                             \
    }
MM_CLASSES(TILES)

#define QUANTISED(T, CLASS)                                                                        \
    static void decode_##T(cursor *at, uint32_t n, dec *out)                                       \
    {                                                                                              \
        cursor c = *at;                                                                            \
        for (uint32_t g = 0; g < n; g++) { /* and ask for what the next call will decode */        \
            prefetch(c.code + n * hy_pf_vectors(HY_Q_##T) * VB, hy_pf_vectors(HY_Q_##T) * VB);     \
            next_group(HY_Q_##T, &c, dec_at(HY_Q_##T, out, g));                                    \
            split(HY_Q_##T, dec_at(HY_Q_##T, out, g));                                             \
        }                                                                                          \
        *at = c;                                                                                   \
    }                                                                                              \
    static void few_##T(cursor *at, uint64_t n_group, const hy_act_group *x, const size_t *off,         \
                        float *acc, bool first, size_t ahead, then th, uint32_t n)                 \
    {                                                                                              \
        few_any(HY_Q_##T, at, n_group, x, off, acc, first, ahead, th, n);                          \
    }                                                                                              \
    static void mm_q8_##T(const hy_mm *m)                                                          \
    {                                                                                              \
        mm_q8(HY_Q_##T, m, few_##T, decode_##T, tiles_##CLASS);                                    \
    }                                                                                              \
    FLOATS(T)
#define FLOATS(T)                                                                                  \
    static void dequant_##T(cursor *at, uint32_t n, float *dst, then th)                           \
    {                                                                                              \
        dequant_block(HY_Q_##T, at, n, dst, th);                                                   \
    }                                                                                              \
    static void mm_f32_##T(const hy_mm *m)                                                         \
    {                                                                                              \
        if (MM_FEW && hy_pf_float(HY_Q_##T) && m->n_tok <= FEW_F) few_floats(HY_Q_##T, m);         \
        else mm_f32(m, dequant_##T);                                                               \
    }
MM_TYPES(QUANTISED)
FLOATS(F16)
FLOATS(BF16)
FLOATS(F32)

static void fill_mm(hy_kernels *k)
{
#define FILL(T, CLASS)                                                                             \
    k->mm_q8[HY_Q_##T] = mm_q8_##T;                                                                \
    k->mm_f32[HY_Q_##T] = mm_f32_##T;
    MM_TYPES(FILL)
    k->mm_f32[HY_Q_F32] = mm_f32_F32;
    k->mm_f32[HY_Q_F16] = mm_f32_F16;
    k->mm_f32[HY_Q_BF16] = mm_f32_BF16;
}
