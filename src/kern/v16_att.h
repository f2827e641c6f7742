/* The body of an ISA's <isa>_att.c: kern/scalar/att.c for several query rows at a time. Included
 * after that ISA's v16_*.h.
 *
 * Query rows that share a KV head are taken in groups: a vector of K (16 tokens of one d) or V (16 d of one
 * token) is loaded and widened once for the group. Groups of 1 to 4 rows take several pages (K) or several
 * vectors of d (V) at once instead, to keep the fma units' pipes full; many rows are v16_att_wide.h's. Sums
 * never mix lanes, so a row's bits do not depend on its group. Everything here is inlined with constant `type`,
 * `nq`, `nv`, so that the arrays of sums become registers. */
#include "kern/kv_layout.h"
#include "kern/v16_math.h"

#define V16_CAT2(a, b) a##_##b
#define V16_CAT(a, b)  V16_CAT2(a, b)

#define N_PAGE (HY_ATT_TILE / HY_PAGE_TOK)

#define V16_SUMS HY_MAX(V16_Q_MAX * V16_NP_MAX, 16)

typedef struct group { /* rows i0 .. i0 + nq of the stack */
    const hy_att *a;
    uint32_t i0;
    uint32_t lo[V16_Q_MAX], hi[V16_Q_MAX];
} group;

HY_INLINE const float *floats_at(const uint8_t *p) { return (const float *)(const void *)p; }

HY_INLINE v16 load_codes(hy_kv_type t, const uint8_t *p)
{
    switch (t) {
    case HY_KV_F32:
        return v_load(floats_at(p));
    case HY_KV_F16:
        return v_load_f16(p);
    case HY_KV_BF16:
        return v_load_bf16(p);
    default:
        return v_load_i8(p);
    }
}

/* d + h of the keys of a page; h: d's parity */
HY_INLINE v16 load_k(hy_kv_type t, const uint8_t *page, uint32_t d, uint32_t h)
{
    if (t != HY_KV_Q4) return load_codes(t, page + (d + h) * hy_kv_code_bytes(t, HY_PAGE_TOK));
    const uint8_t *c = page + (size_t)d / 2 * HY_PAGE_TOK;
    return h ? v_load_hi4(c) : v_load_lo4(c);
}

/* 16 values of a token's row of V from d on, a multiple of 16 */
HY_INLINE v16 load_v(hy_kv_type t, const uint8_t *row, uint32_t d)
{
    if (t != HY_KV_Q4) return load_codes(t, row + hy_kv_code_bytes(t, d));
    const uint8_t *c = row + d / HY_KV_GROUP * 16;
    return d % HY_KV_GROUP ? v_load_hi4(c) : v_load_lo4(c);
}

HY_INLINE float *score(const group *g, uint32_t i, uint32_t j)
{
    return g->a->work + (size_t)(g->i0 + i) * HY_ATT_TILE + j;
}

/* ---- few rows: asking ahead ----------------------------------------------------------------- */

/* Few rows do not hide the way from memory, and the processor's own prefetch ends with each page of a few KB. So
 * for every line that they read they ask for one of what comes after the tile, page by page, so that
 * each page is a stream that the processor's prefetch may run ahead on. Asked for in one go it would take all miss
 * buffers from what is needed at once. */
#define LINE 64u
#define FEW  4 /* rows of a group that asks */

typedef struct ahead {
    const uint8_t *at, *end; /* of a page */
    uint32_t i;              /* the next one */
} ahead;

/* False: all is asked for. */
HY_INLINE bool ask(const hy_att *a, ahead *to, uint32_t n_line)
{
    if (to->at >= to->end) {
        while (to->i < N_PAGE && !a->next[to->i]) to->i++;
        if (to->i == N_PAGE) return false;
        to->at = a->next[to->i++];
        to->end = to->at + a->next_bytes;
    }
#pragma GCC unroll 4
    for (uint32_t i = 0; i < n_line; i++) __builtin_prefetch(to->at + i * LINE, 0, 2);
    to->at += n_line * LINE;
    return true;
}

/* ---- q . k --------------------------------------------------------------------------------- */

/* s[i * nv + v] += q . k at d (Q4: and d + 1, which shares its bytes) for nq rows and nv pages */
HY_INLINE void qk_step(hy_kv_type t, const float *q, size_t stride, uint32_t nq, uint32_t nv,
                       const uint8_t *const *page, uint32_t d, v16 *s)
{
    const uint32_t n_h = t == HY_KV_Q4 ? 2 : 1;
#pragma GCC unroll 2
    for (uint32_t h = 0; h < n_h; h++) {
        v16 k[4];
#pragma GCC unroll 4
        for (uint32_t v = 0; v < nv; v++) k[v] = load_k(t, page[v], d, h);
#pragma GCC unroll 16
        for (uint32_t i = 0; i < nq; i++) {
            v16 x = v_set1(q[i * stride + d + h]);
#pragma GCC unroll 4
            for (uint32_t v = 0; v < nv; v++) s[i * nv + v] = v_fma(x, k[v], s[i * nv + v]);
        }
    }
}

/* The same for d0 .. d1 - 1. to: NULL, or what is asked for meanwhile. */
HY_INLINE void qk_dots(hy_kv_type t, const hy_att *a, const float *q, uint32_t nq, uint32_t nv,
                       const uint8_t *const *page, ahead *to, uint32_t d0, uint32_t d1, v16 *s)
{
    const uint32_t n_h = t == HY_KV_Q4 ? 2 : 1;
    const uint32_t line = to ? LINE / (uint32_t)hy_kv_code_bytes(t, HY_PAGE_TOK) : n_h;
    uint32_t d = d0;
    for (; d + line <= d1; d += line) {
        if (to) ask(a, to, nv);
#pragma GCC unroll 4
        for (uint32_t u = 0; u < line; u += n_h) qk_step(t, q, a->q_stride, nq, nv, page, d + u, s);
    }
    for (; d < d1; d += n_h) qk_step(t, q, a->q_stride, nq, nv, page, d, s);
}

/* Scores of nq rows against the nv pages listed, before `scale`. */
HY_INLINE void qk(hy_kv_type t, const group *g, uint32_t nq, uint32_t nv,
                  const uint32_t *pages, ahead *to)
{
    const hy_att *a = g->a;
    const float *q = a->q + g->i0 * a->q_stride;
    v16 s[V16_SUMS], part[V16_SUMS];
    const uint8_t *page[4];
#pragma GCC unroll 4
    for (uint32_t v = 0; v < nv; v++)
        page[v] = a->k_page[pages[v]];
#pragma GCC unroll 32
    for (uint32_t n = 0; n < nq * nv; n++) s[n] = v_zero();
    if (t == HY_KV_Q4) {
        for (uint32_t d0 = 0; d0 < a->d_k; d0 += HY_KV_GROUP) {
#pragma GCC unroll 32
            for (uint32_t n = 0; n < nq * nv; n++) part[n] = v_zero();
            qk_dots(t, a, q, nq, nv, page, to, d0, d0 + HY_KV_GROUP, part);
#pragma GCC unroll 4
            for (uint32_t v = 0; v < nv; v++) {
                const float *ks = hy_kv_scales(t, a->k_page[pages[v]], a->d_k) + d0 / HY_KV_GROUP * HY_PAGE_TOK;
#pragma GCC unroll 16
                for (uint32_t i = 0; i < nq; i++)
                    s[i * nv + v] = v_fma(part[i * nv + v], v_load(ks), s[i * nv + v]);
            }
        }
    } else {
        qk_dots(t, a, q, nq, nv, page, to, 0, a->d_k, s);
    }
#pragma GCC unroll 4
    for (uint32_t v = 0; v < nv; v++) {
#pragma GCC unroll 16
        for (uint32_t i = 0; i < nq; i++) {
            v16 x = s[i * nv + v];
            if (t == HY_KV_Q8) x = v_mul(x, v_load(hy_kv_scales(t, a->k_page[pages[v]], a->d_k)));
            v_store(score(g, i, pages[v] * HY_PAGE_TOK), x);
        }
    }
}

/* The pages that any row of the group needs; others may be NULL. */
HY_INLINE uint32_t needed(const group *g, uint32_t nq, uint32_t *pages)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < N_PAGE; p++) {
        bool any = false;
        for (uint32_t i = 0; i < nq; i++)
            any |= g->lo[i] < g->hi[i] && g->lo[i] < (p + 1) * HY_PAGE_TOK &&
                   g->hi[i] > p * HY_PAGE_TOK;
        if (any) pages[n++] = p;
    }
    return n;
}

/* ---- softmax ------------------------------------------------------------------------------- */

HY_INLINE v16 only(v16 x, uint32_t j, uint32_t lo, uint32_t hi, v16 other)
{
    if (j + HY_PAGE_TOK > hi) x = v_sel(v_first(hi - j), x, other);
    if (j < lo) x = v_sel(v_first(lo - j), other, x);
    return x;
}

/* Row i: scores to m, l and the weights p, times the V scales where a token has one. */
HY_INLINE void softmax(hy_kv_type t, const group *g, uint32_t i)
{
    const hy_att *a = g->a;
    uint32_t lo = g->lo[i], hi = g->hi[i], j0 = lo / HY_PAGE_TOK * HY_PAGE_TOK;
    if (lo >= hi) hi = 0; /* no key: no page to look at */
    v16 m = v_set1(-INFINITY), l = v_zero(), cap = v_set1(a->softcap);
    for (uint32_t j = j0; j < hi; j += HY_PAGE_TOK) {
        v16 x = v_mul(v_load(score(g, i, j)), v_set1(a->scale));
        if (a->softcap != 0) x = v_mul(v_tanh(v_div(x, cap)), cap);
        x = only(x, j, lo, hi, v_set1(-INFINITY));
        v_store(score(g, i, j), x);
        m = v_max(x, m);
    }
    float m1 = v_fold_max(m);
    for (uint32_t j = j0; j < hi; j += HY_PAGE_TOK) {
        v16 p = v_exp_neg(v_sub(v_load(score(g, i, j)), v_set1(m1)));
        p = only(p, j, lo, hi, v_zero()); /* -inf - -inf is NaN */
        l = v_add(l, p);
        if (t == HY_KV_Q8)
            p = v_mul(p, v_load(hy_kv_scales(t, a->v_page[j / HY_PAGE_TOK], a->d_v)));
        v_store(score(g, i, j), p);
    }
    a->m[g->i0 + i] = m1;
    a->l[g->i0 + i] = v_fold(l);
}

/* The same of a row for which every key of the tile counts, without a soft-cap: all in registers. */
HY_INLINE void softmax_all(hy_kv_type t, const group *g, uint32_t i)
{
    const hy_att *a = g->a;
    v16 x[N_PAGE], m = v_set1(-INFINITY), l = v_zero();
#pragma GCC unroll 4
    for (uint32_t p = 0; p < N_PAGE; p++) {
        x[p] = v_mul(v_load(score(g, i, p * HY_PAGE_TOK)), v_set1(a->scale));
        m = v_max(x[p], m);
    }
    float m1 = v_fold_max(m);
#pragma GCC unroll 4
    for (uint32_t p = 0; p < N_PAGE; p++) x[p] = v_exp_neg(v_sub(x[p], v_set1(m1)));
#pragma GCC unroll 4
    for (uint32_t p = 0; p < N_PAGE; p++) {
        l = v_add(l, x[p]);
        if (t == HY_KV_Q8) x[p] = v_mul(x[p], v_load(hy_kv_scales(t, a->v_page[p], a->d_v)));
        v_store(score(g, i, p * HY_PAGE_TOK), x[p]);
    }
    a->m[g->i0 + i] = m1;
    a->l[g->i0 + i] = v_fold(l);
}

HY_INLINE void softmax_rows(hy_kv_type t, const group *g, uint32_t nq)
{
    for (uint32_t i = 0; i < nq; i++)
        if (g->lo[i] == 0 && g->hi[i] == HY_ATT_TILE && g->a->softcap == 0) softmax_all(t, g, i);
        else softmax(t, g, i);
}
/* Only Q8 has scales of V that are one a token. Once each, with the polynomial's constants in registers. */
static __attribute__((noinline)) void softmax_q8(const group *g, uint32_t nq) { softmax_rows(HY_KV_Q8, g, nq); }
static __attribute__((noinline)) void softmax_others(const group *g, uint32_t nq) { softmax_rows(HY_KV_F32, g, nq); }

/* ---- p . v --------------------------------------------------------------------------------- */

/* nv vectors of o from d on, keys [lo, hi), rows first .. first + nq of the group; fresh: o is not read, its
 * sums start here. */
HY_INLINE void pv(hy_kv_type t, const group *g, uint32_t first, uint32_t nq, uint32_t nv, uint32_t d,
                  uint32_t lo, uint32_t hi, bool fresh, ahead *to)
{
    const hy_att *a = g->a;
    float *o = a->o + (size_t)(g->i0 + first) * a->d_v + d;
    const float *p = score(g, first, 0);
    uint64_t row = hy_kv_code_bytes(t, a->d_v), n_scale = a->d_v / HY_KV_GROUP;
    const uint32_t n_line = ((uint32_t)hy_kv_code_bytes(t, nv * 16) + LINE - 1) / LINE;
    const bool whole = nv > 1 || t != HY_KV_Q4; /* d is a multiple of 16 nv: vectors of Q4 come in pairs */
    v16 s[V16_SUMS];
#pragma GCC unroll 32
    for (uint32_t n = 0; n < nq * nv; n++)
        s[n] = fresh ? v_zero() : v_load(o + n / nv * a->d_v + n % nv * 16);
    while (lo < hi) {
        uint32_t i_page = lo / HY_PAGE_TOK, end = HY_MIN(hi, (i_page + 1) * HY_PAGE_TOK);
        const uint8_t *page = a->v_page[i_page];
        const uint8_t *code = page + row * (lo % HY_PAGE_TOK) + (whole ? hy_kv_code_bytes(t, d) : 0);
        const float *scale = hy_kv_scales(t, a->v_page[i_page], a->d_v) + lo % HY_PAGE_TOK * n_scale + d / HY_KV_GROUP;
        for (; lo < end; lo++, code += row, scale += n_scale) {
            v16 x[4], vs[2];
            if (to) ask(a, to, n_line);
#pragma GCC unroll 4
            for (uint32_t v = 0; v < nv; v++) {
                x[v] = load_v(t, code, whole ? v * 16 : d);
                if (t == HY_KV_Q4 && v % 2 == 0) vs[v / 2] = v_set1(scale[v / 2]);
            }
#pragma GCC unroll 16
            for (uint32_t i = 0; i < nq; i++) {
                v16 pi = v_set1(p[i * HY_ATT_TILE + lo]), w = pi;
#pragma GCC unroll 4
                for (uint32_t v = 0; v < nv; v++) {
                    if (t == HY_KV_Q4 && v % 2 == 0) w = v_mul(pi, vs[v / 2]);
                    s[i * nv + v] = v_fma(w, x[v], s[i * nv + v]);
                }
            }
        }
    }
#pragma GCC unroll 32
    for (uint32_t n = 0; n < nq * nv; n++) v_store(o + n / nv * a->d_v + n % nv * 16, s[n]);
}

/* The last d_v % 16 elements of one row (never Q4): codes are copied, so that no read passes the
 * page. */
static void pv_tail(hy_kv_type t, const group *g, uint32_t i, uint32_t d, uint32_t lo, uint32_t hi)
{
    const hy_att *a = g->a;
    uint32_t n = a->d_v - d;
    uint64_t row = hy_kv_code_bytes(t, a->d_v), at = hy_kv_code_bytes(t, d);
    float *o = a->o + (size_t)(g->i0 + i) * a->d_v + d;
    v16 s = v_load_n(o, n);
    uint8_t code[64] = {0};
    for (; lo < hi; lo++) {
        memcpy(code, a->v_page[lo / HY_PAGE_TOK] + row * (lo % HY_PAGE_TOK) + at,
               hy_kv_code_bytes(t, n));
        v16 x = t == HY_KV_F32    ? v_load((const float *)(const void *)code)
                : t == HY_KV_F16  ? v_load_f16(code)
                : t == HY_KV_BF16 ? v_load_bf16(code)
                                  : v_load_i8(code);
        s = v_fma(v_set1(*score(g, i, lo)), x, s);
    }
    v_store_n(o, s, n);
}

HY_INLINE void pv_rows(hy_kv_type t, const group *g, uint32_t first, uint32_t nq, uint32_t nv,
                       uint32_t lo, uint32_t hi, bool fresh, ahead *to)
{
    uint32_t d = 0, d_v = g->a->d_v;
    if (lo >= hi) return;
    for (; d + 16 * nv <= d_v; d += 16 * nv) pv(t, g, first, nq, nv, d, lo, hi, fresh, to);
    if (nv > 1)
        for (; d + 16 <= d_v; d += 16) pv(t, g, first, nq, 1, d, lo, hi, fresh, to);
    if (d < d_v)
        for (uint32_t i = 0; i < nq; i++) pv_tail(t, g, first + i, d, lo, hi);
}

/* ---- one group ----------------------------------------------------------------------------- */

typedef void pv_one_fn(const group *g, uint32_t i, uint32_t lo,
                       uint32_t hi); /* pv_rows for one row */

/*  keys:  row 0      |----------------|        each row's own range [lo, hi)
 *         row 1        |----------------|      [low, high) is common: done for all rows at once;
 *                    ^ ^ low      high ^ ^     before and after it row by row, j still ascending */
typedef struct common {
    uint32_t low, high;
    uint32_t first, last;      /* of any row */
    bool fresh;                /* the common range is the first of every row: o need not be read */
} common;

HY_INLINE common find_ranges(group *g, uint32_t nq)
{
    common c = {0, HY_ATT_TILE, HY_ATT_TILE, 0, false};
    for (uint32_t i = 0; i < nq; i++) {
        hy_att_range(g->a, g->i0 + i, &g->lo[i], &g->hi[i]);
        c.low = HY_MAX(c.low, g->lo[i]);
        c.high = HY_MIN(c.high, g->hi[i]);
        c.first = HY_MIN(c.first, g->lo[i]);
        c.last = HY_MAX(c.last, g->hi[i]);
    }
    c.fresh = c.first == c.low && c.low < c.high && g->a->d_v % 16 == 0;
    return c;
}

/* p . v of what lies before the common range; false: there is none, and all is done. */
HY_INLINE bool values_before(const group *g, uint32_t nq, const common *c, pv_one_fn *one)
{
    const hy_att *a = g->a;
    if (!c->fresh) memset(a->o + (size_t)g->i0 * a->d_v, 0, (size_t)nq * a->d_v * sizeof(float));
    if (c->low >= c->high) {
        for (uint32_t i = 0; i < nq; i++) one(g, i, g->lo[i], g->hi[i]);
        return false;
    }
    for (uint32_t i = 0; i < nq && c->first < c->low; i++) one(g, i, g->lo[i], c->low);
    return true;
}

HY_INLINE void values_after(const group *g, uint32_t nq, const common *c, pv_one_fn *one)
{
    for (uint32_t i = 0; i < nq && c->high < c->last; i++) one(g, i, c->high, g->hi[i]);
}

HY_INLINE void do_group(hy_kv_type t, const hy_att *a, uint32_t i0, uint32_t nq, uint32_t nv,
                        pv_one_fn *one)
{
    group g;
    g.a = a;
    g.i0 = i0;
    uint32_t pages[N_PAGE], p = 0;
    common c = find_ranges(&g, nq);
    ahead next = {NULL, NULL, i0 == 0 ? 0 : N_PAGE}, *to = nq <= FEW ? &next : NULL; /* the first group asks */
    uint32_t n_page = needed(&g, nq, pages);
    for (; p + nv <= n_page; p += nv) qk(t, &g, nq, nv, pages + p, to);
    if (nv > 1)
        for (; p < n_page; p++) qk(t, &g, nq, 1, pages + p, to);
    if (t == HY_KV_Q8) softmax_q8(&g, nq);
    else softmax_others(&g, nq);
    if (!values_before(&g, nq, &c, one)) return;
    pv_rows(t, &g, 0, nq, nv, c.low, c.high, c.fresh, to);
    values_after(&g, nq, &c, one);
    while (to && ask(a, to, 1)) continue;
}

/* ---- many rows ------------------------------------------------------------------------------ */

#include "kern/v16_att_wide.h"

/* Rows from where widening a tile pays. */
#define V16_WIDE (2 * V16_Q_MAX)

typedef void few_fn(const hy_att *a, uint32_t i0);

HY_INLINE void att(hy_kv_type t, const hy_att *a, pv_one_fn *one, few_fn *one_row, few_fn *two,
                   few_fn *three, few_fn *four)
{
    uint32_t i = 0;
    if (a->wide && a->n_q >= V16_WIDE) {
        widen(t, a);
        for (; i + V16_Q_MAX <= a->n_q; i += V16_Q_MAX) do_wide(t, a, i, one);
    }
    for (; i + 4 <= a->n_q; i += 4) four(a, i);
    switch (a->n_q - i) {
    case 3: three(a, i); break;
    case 2: two(a, i); break;
    case 1: one_row(a, i); break;
    default: break;
    }
}

/* A function each, so that registers are given out for its loops alone. */
#define ATT_FEW(name, type, n)                                                                     \
    static __attribute__((noinline)) void few##n##_##name(const hy_att *a, uint32_t i0)            \
    {                                                                                              \
        do_group(type, a, i0, n, V16_NP_##n, one_##name);                                   \
    }

#define ATT(name, type)                                                                            \
    static __attribute__((noinline)) void one_##name(const group *g, uint32_t i, uint32_t lo,      \
                                                     uint32_t hi)                                  \
    {                                                                                              \
        pv_rows(type, g, i, 1, V16_NP_1, lo, hi, false, NULL);                              \
    }                                                                                              \
    ATT_FEW(name, type, 1)                                                                         \
    ATT_FEW(name, type, 2)                                                                         \
    ATT_FEW(name, type, 3)                                                                         \
    ATT_FEW(name, type, 4)                                                                         \
    static void att_##name(const hy_att *a)                                                        \
    {                                                                                              \
        att(type, a, one_##name, few1_##name, few2_##name, few3_##name, few4_##name);              \
    }
ATT(f32, HY_KV_F32)
ATT(f16, HY_KV_F16)
ATT(bf16, HY_KV_BF16)
ATT(q8, HY_KV_Q8)
ATT(q4, HY_KV_Q4)

HY_INLINE void fold_row(float *o_acc, const float *o, float ea, float eb, uint32_t d_v)
{
    v16 va = v_set1(ea), vb = v_set1(eb);
    uint32_t d = 0;
    for (; d + 16 <= d_v; d += 16)
        v_store(o_acc + d, v_fma(v_load(o + d), vb, v_mul(v_load(o_acc + d), va)));
    if (d < d_v) {
        uint32_t r = d_v - d;
        v_store_n(o_acc + d, v_fma(v_load_n(o + d, r), vb, v_mul(v_load_n(o_acc + d, r), va)), r);
    }
}

/* Rows are lanes for m and l. */
static void att_fold(uint32_t n, float *m_acc, float *l_acc, float *o_acc, const float *m,
                     const float *l, const float *o, uint32_t d_v)
{
    for (uint32_t i = 0; i < n; i += 16) {
        uint32_t r = HY_MIN(n - i, 16);
        v16 ma = v_load_n(m_acc + i, r), mb = v_load_n(m + i, r), top = v_max(mb, ma);
        v16 ea = v_exp_neg(v_sub(ma, top)), eb = v_exp_neg(v_sub(mb, top));
        v16 la = v_fma(v_load_n(l + i, r), eb, v_mul(v_load_n(l_acc + i, r), ea));
        float tops[16], sums[16], a[16], b[16];
        v_store(tops, top);
        v_store(sums, la);
        v_store(a, ea);
        v_store(b, eb);
        for (uint32_t j = 0; j < r; j++) {
            size_t at = i + j;
            if (l[at] == 0) continue;
            m_acc[at] = tops[j];
            l_acc[at] = sums[j];
            fold_row(o_acc + at * d_v, o + at * d_v, a[j], b[j], d_v);
        }
    }
}

void V16_CAT(hy_att_fill, V16_ISA)(hy_kernels *k);

void V16_CAT(hy_att_fill, V16_ISA)(hy_kernels *k)
{
    k->att[HY_KV_F32] = att_f32;
    k->att[HY_KV_F16] = att_f16;
    k->att[HY_KV_BF16] = att_bf16;
    k->att[HY_KV_Q8] = att_q8;
    k->att[HY_KV_Q4] = att_q4;
    k->att_fold = att_fold;
}
