/* Attention of many rows, part of v16_att.h: a tile's codes are widened to floats in `wide` first, so that groups
 * of V16_Q_MAX rows only load. Keys lie there as [d_k][HY_ATT_TILE], then values as [token][d_v]: both are read as
 * they lie. */

HY_INLINE float *wide_k(const hy_att *a, uint32_t page) { return a->wide + (size_t)page * HY_PAGE_TOK; }
HY_INLINE float *wide_v(const hy_att *a, uint32_t token)
{
    return a->wide + (size_t)HY_ATT_TILE * a->d_k + (size_t)token * a->d_v;
}

HY_INLINE void widen(hy_kv_type t, const hy_att *a)
{
    uint64_t row = hy_kv_code_bytes(t, a->d_v);
    for (uint32_t p = 0; p * HY_PAGE_TOK < a->n_key; p++) {
        float *k = wide_k(a, p), *v = wide_v(a, p * HY_PAGE_TOK);
        if (!a->k_page[p]) continue;
        for (uint32_t d = 0; d < a->d_k; d += 2) {
            v_store(k + d * HY_ATT_TILE, load_k(t, a->k_page[p], d, 0));
            if (d + 1 < a->d_k) v_store(k + (d + 1) * HY_ATT_TILE, load_k(t, a->k_page[p], d, 1));
        }
        for (uint32_t j = 0; j < HY_PAGE_TOK; j++)
            for (uint32_t d = 0; d + 16 <= a->d_v; d += 16)
                v_store(v + j * a->d_v + d, load_v(t, a->v_page[p] + row * j, d));
    }
}

/* s[i * nv + v] += q . k over d0 .. d1 - 1 for a group's rows and the nv pages from k on */
HY_INLINE void dots_wide(const float *const *q, const float *k, uint32_t nv, size_t d0, size_t d1, v16 *s)
{
    for (size_t d = d0; d < d1; d++) {
        v16 x[4];
#pragma GCC unroll 4
        for (uint32_t v = 0; v < nv; v++) x[v] = v_load(k + d * HY_ATT_TILE + v * HY_PAGE_TOK);
#pragma GCC unroll 16
        for (uint32_t i = 0; i < V16_Q_MAX; i++) {
            v16 qi = v_set1(q[i][d]);
#pragma GCC unroll 4
            for (uint32_t v = 0; v < nv; v++) s[i * nv + v] = v_fma(qi, x[v], s[i * nv + v]);
        }
    }
}

/* Scores of a group against nv pages from p on, before `scale`. */
HY_INLINE void qk_wide(hy_kv_type t, const group *g, uint32_t nv, uint32_t p)
{
    const hy_att *a = g->a;
    const float *q[V16_Q_MAX];
    v16 s[V16_SUMS], part[V16_SUMS];
#pragma GCC unroll 16
    for (uint32_t i = 0; i < V16_Q_MAX; i++) q[i] = a->q + (g->i0 + i) * a->q_stride;
#pragma GCC unroll 32
    for (uint32_t n = 0; n < V16_Q_MAX * nv; n++) s[n] = v_zero();
    if (t != HY_KV_Q4) dots_wide(q, wide_k(a, p), nv, 0, a->d_k, s);
    for (uint32_t d = 0; t == HY_KV_Q4 && d < a->d_k; d += HY_KV_GROUP) {
#pragma GCC unroll 32
        for (uint32_t n = 0; n < V16_Q_MAX * nv; n++) part[n] = v_zero();
        dots_wide(q, wide_k(a, p), nv, d, d + HY_KV_GROUP, part);
#pragma GCC unroll 4
        for (uint32_t v = 0; v < nv; v++) {
            v16 ks = v_load(hy_kv_scales(t, a->k_page[p + v], a->d_k) + d / HY_KV_GROUP * HY_PAGE_TOK);
#pragma GCC unroll 16
            for (uint32_t i = 0; i < V16_Q_MAX; i++) s[i * nv + v] = v_fma(part[i * nv + v], ks, s[i * nv + v]);
        }
    }
#pragma GCC unroll 4
    for (uint32_t v = 0; v < nv; v++) {
        v16 ks = t == HY_KV_Q8 ? v_load(hy_kv_scales(t, a->k_page[p + v], a->d_k)) : v_zero();
#pragma GCC unroll 16
        for (uint32_t i = 0; i < V16_Q_MAX; i++)
            v_store(score(g, i, (p + v) * HY_PAGE_TOK), t == HY_KV_Q8 ? v_mul(s[i * nv + v], ks) : s[i * nv + v]);
    }
}

/* nv vectors of o from d on, keys [lo, hi); fresh: o is not read, its sums start here. */
HY_INLINE void pv_wide(hy_kv_type t, const group *g, uint32_t nv, uint32_t d, size_t lo, size_t hi, bool fresh)
{
    const hy_att *a = g->a;
    const size_t d_v = a->d_v, n_scale = d_v / HY_KV_GROUP;
    float *o = a->o + g->i0 * d_v + d;
    const float *p = score(g, 0, 0), *value = wide_v(a, (uint32_t)lo) + d;
    v16 s[V16_SUMS];
#pragma GCC unroll 32
    for (uint32_t n = 0; n < V16_Q_MAX * nv; n++) s[n] = fresh ? v_zero() : v_load(o + n / nv * d_v + n % nv * 16);
    for (size_t j = lo; j < hi; j++, value += d_v) {
        v16 x[4], vs[2];
#pragma GCC unroll 4
        for (uint32_t v = 0; v < nv; v++) {
            x[v] = v_load(value + v * 16);
            if (t != HY_KV_Q4 || v % 2) continue;
            const float *scale = hy_kv_scales(t, a->v_page[j / HY_PAGE_TOK], a->d_v);
            vs[v / 2] = v_set1(scale[j % HY_PAGE_TOK * n_scale + (d + v * 16) / HY_KV_GROUP]);
        }
#pragma GCC unroll 16
        for (uint32_t i = 0; i < V16_Q_MAX; i++) {
            v16 pj = v_set1(p[i * HY_ATT_TILE + j]), w = pj;
#pragma GCC unroll 4
            for (uint32_t v = 0; v < nv; v++) {
                if (t == HY_KV_Q4 && v % 2 == 0) w = v_mul(pj, vs[v / 2]);
                s[i * nv + v] = v_fma(w, x[v], s[i * nv + v]);
            }
        }
    }
#pragma GCC unroll 32
    for (uint32_t n = 0; n < V16_Q_MAX * nv; n++) v_store(o + n / nv * d_v + n % nv * 16, s[n]);
}

/* Keys [lo, hi) of all rows. */
HY_INLINE void pv_group(hy_kv_type t, const group *g, uint32_t nv, uint32_t lo, uint32_t hi, bool fresh)
{
    uint32_t d = 0, d_v = g->a->d_v;
    for (; d + 16 * nv <= d_v; d += 16 * nv) pv_wide(t, g, nv, d, lo, hi, fresh);
    for (; nv > 1 && d + 16 <= d_v; d += 16) pv_wide(t, g, 1, d, lo, hi, fresh);
    for (uint32_t i = 0; d < d_v && i < V16_Q_MAX; i++) pv_tail(t, g, i, d, lo, hi);
}

/* Scores of the pages that a row of the group needs; others may be NULL. */
HY_INLINE void scores_wide(hy_kv_type t, const group *g, uint32_t nv)
{
    uint32_t need = 0; /* a bit each */
    for (uint32_t i = 0; i < V16_Q_MAX; i++)
        if (g->lo[i] < g->hi[i]) need |= (2u << (g->hi[i] - 1) / HY_PAGE_TOK) - (1u << g->lo[i] / HY_PAGE_TOK);
    for (uint32_t p = 0; need >> p;) {
        if (V16_NP_MAX == 4 && nv == 4 && (need >> p & 15) == 15) {
            qk_wide(t, g, 4, p);
            p += 4;
        } else if (V16_NP_MAX > 1 && nv > 1 && (need >> p & 3) == 3) {
            qk_wide(t, g, 2, p);
            p += 2;
        } else {
            if (need >> p & 1) qk_wide(t, g, 1, p);
            p++;
        }
    }
}

/* V16_Q_MAX rows from i0 on: see do_group. */
HY_INLINE void do_wide(hy_kv_type t, const hy_att *a, uint32_t i0, pv_one_fn *one)
{
    const uint32_t nq = V16_Q_MAX, nv = t == HY_KV_Q4 ? V16_NP_Q4 : V16_NP_MAX;
    group g = { .a = a, .i0 = i0 };
    common c = find_ranges(&g, nq);
    scores_wide(t, &g, nv);
    if (t == HY_KV_Q8) softmax_q8(&g, nq);
    else softmax_others(&g, nq);
    if (!values_before(&g, nq, &c, one)) return;
    pv_group(t, &g, nv, c.low, c.high, c.fresh);
    values_after(&g, nq, &c, one);
}
