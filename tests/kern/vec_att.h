/* Part of test_kern_vec.c: attention, pages of keys and values. Uses that file's check, noise, box. */
#ifndef HY_TEST_VEC_ATT_H
#define HY_TEST_VEC_ATT_H

/* ---- attention ----------------------------------------------------------------------------- */

#define D_MAX   256
#define Q_MAX   33
#define SEQ_MAX 256

/* A sequence of keys and values in pages, and the exact stored values as this test reads them. */
typedef struct seq {
    hy_kv_type t;
    uint32_t d_k, d_v, n;
    uint8_t *k, *v; /* SEQ_MAX / 16 pages */
    double kd[SEQ_MAX][D_MAX], vd[SEQ_MAX][D_MAX];
} seq;
static seq the_seq;
static uint8_t *pool_k, *pool_v;

static double stored16(hy_kv_type t, const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    if (t == HY_KV_BF16) return hy_bf16_f32(h);
    int e = h >> 10 & 31, m = h & 1023;
    double v = e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h >> 15 ? -v : v;
}

static double stored32(const uint8_t *p)
{
    float f;
    memcpy(&f, p, 4);
    return f;
}

/* From kern.h's description of the pages, not from the kernels' helpers. */
static double read_k(const seq *s, uint32_t j, uint32_t d)
{
    const uint8_t *p = s->k + j / 16 * hy_kv_k_bytes(s->t, s->d_k);
    uint32_t slot = j % 16, at = d * 16 + slot;
    switch (s->t) {
    case HY_KV_F32:
        return stored32(p + at * 4);
    case HY_KV_Q8:
        return (int8_t)p[at] * stored32(p + s->d_k * 16 + slot * 4);
    case HY_KV_Q4: {
        int c = p[d / 2 * 16 + slot];
        c = d % 2 ? c >> 4 : c & 15;
        return (c - 8) * stored32(p + s->d_k * 8 + (d / 32 * 16 + slot) * 4);
    }
    default:
        return stored16(s->t, p + at * 2);
    }
}

static double read_v(const seq *s, uint32_t j, uint32_t d)
{
    const uint8_t *p = s->v + j / 16 * hy_kv_v_bytes(s->t, s->d_v);
    uint32_t slot = j % 16, at = slot * s->d_v + d;
    switch (s->t) {
    case HY_KV_F32:
        return stored32(p + at * 4);
    case HY_KV_Q8:
        return (int8_t)p[at] * stored32(p + s->d_v * 16 + slot * 4);
    case HY_KV_Q4: {
        int c = p[slot * (s->d_v / 2) + d / 32 * 16 + d % 16];
        c = d % 32 >= 16 ? c >> 4 : c & 15;
        return (c - 8) * stored32(p + s->d_v * 8 + (slot * (s->d_v / 32) + d / 32) * 4);
    }
    default:
        return stored16(s->t, p + at * 2);
    }
}

/* Half a step of the number that stores x; top: largest magnitude of its group */
static double half_step(hy_kv_type t, double x, double top)
{
    switch (t) {
    case HY_KV_F32:
        return 0;
    case HY_KV_F16:
        return fabs(x) * 0x1p-11 + 0x1p-25;
    case HY_KV_BF16:
        return fabs(x) * 0x1p-8;
    case HY_KV_Q8:
        return top / 127 * 0.5001;
    default:
        return top / 8 * 1.0001; /* the end opposite to the extreme is one step short */
    }
}

static double top_of(const float *x, uint32_t n)
{
    float top = 0;
    for (uint32_t i = 0; i < n; i++)
        if (fabsf(x[i]) > top) top = fabsf(x[i]);
    return top;
}

static void check_stored(const seq *s, const float *x, uint32_t n, uint32_t j, bool is_k)
{
    uint32_t g = s->t == HY_KV_Q4 ? 32 : n;
    bool ok = true;
    for (uint32_t d0 = 0; d0 < n; d0 += g) {
        double top = top_of(x + d0, g);
        for (uint32_t d = d0; d < d0 + g; d++) {
            double got = is_k ? read_k(s, j, d) : read_v(s, j, d);
            double lim = half_step(s->t, x[d], top);
            if (s->t == HY_KV_Q4 && fabs((double)x[d]) < top * 0.93) lim /= 2;
            ok &= fabs(got - x[d]) <= lim;
        }
    }
    check(ok, is_k ? "stored key" : "stored value");
}

static void make_seq(const hy_kernels *k, hy_kv_type t, uint32_t d_k, uint32_t d_v, uint32_t n,
                     double span)
{
    seq *s = &the_seq;
    s->t = t, s->d_k = d_k, s->d_v = d_v, s->n = n, s->k = pool_k, s->v = pool_v;
    memset(pool_k, 0xFF, SEQ_MAX * D_MAX * 4); /* stale slots are NaN in every float type */
    memset(pool_v, 0xFF, SEQ_MAX * D_MAX * 4);
    float row[D_MAX];
    for (uint32_t j = 0; j < n; j++) {
        noise(row, d_k, span);
        k->kv_put_k(t, s->k + j / 16 * hy_kv_k_bytes(t, d_k), d_k, j % 16, row);
        check_stored(s, row, d_k, j, true);
        noise(row, d_v, 2);
        if (j == 3) memset(row, 0, sizeof(row));
        k->kv_put_v(t, s->v + j / 16 * hy_kv_v_bytes(t, d_v), d_v, j % 16, row);
        check_stored(s, row, d_v, j, false);
    }
    for (uint32_t j = 0; j < n; j++) {
        for (uint32_t d = 0; d < d_k; d++) s->kd[j][d] = read_k(s, j, d);
        for (uint32_t d = 0; d < d_v; d++) s->vd[j][d] = read_v(s, j, d);
    }
}

/* One tile's call; pages outside every window are NULL. */
static void set_tile(hy_att *a, const seq *s, uint32_t tile, const int32_t *pos, uint32_t n_q)
{
    a->pos0 = (int32_t)(tile * HY_ATT_TILE);
    a->n_key = HY_MIN(s->n - tile * HY_ATT_TILE, HY_ATT_TILE);
    for (uint32_t p = 0; p < 4; p++) {
        int32_t j0 = a->pos0 + (int32_t)p * 16;
        bool any = false;
        for (uint32_t i = 0; i < n_q; i++)
            any |= j0 <= pos[i] && (!a->window || j0 + 15 > pos[i] - (int32_t)a->window);
        any &= (uint32_t)j0 < s->n;
        uint32_t page = tile * 4 + p;
        a->k_page[p] = any ? s->k + page * hy_kv_k_bytes(s->t, s->d_k) : NULL;
        a->v_page[p] = any ? s->v + page * hy_kv_v_bytes(s->t, s->d_v) : NULL;
        a->next[p] = page % 3 ? s->k + (page + 4) % (SEQ_MAX / 16) * hy_kv_k_bytes(s->t, s->d_k) : NULL;
        a->next_bytes = (uint32_t)hy_kv_k_bytes(s->t, s->d_k);
    }
}

static float q_row[Q_MAX * (D_MAX + 3)], work[Q_MAX * HY_ATT_TILE], wide[HY_ATT_TILE * 2 * D_MAX];
static float m_a[Q_MAX], l_a[Q_MAX], m_b[Q_MAX], l_b[Q_MAX];

/* Every tile of the sequence through both tables. */
static void isa_att(const hy_kernels *s, const hy_kernels *k, hy_att a, const int32_t *pos)
{
    const seq *q = &the_seq;
    for (uint32_t tile = 0; tile * HY_ATT_TILE < q->n; tile++) {
        set_tile(&a, q, tile, pos, a.n_q);
        float *y = open_box(&box_a), *z = open_box(&box_b);
        a.o = y, a.m = m_a, a.l = l_a;
        s->att[q->t](&a);
        a.o = z, a.m = m_b, a.l = l_b;
        k->att[q->t](&a);
        compare("att o", y, z, (size_t)a.n_q * a.d_v);
        check(same(m_a, m_b, a.n_q) && same(l_a, l_b, a.n_q), "att m, l");
        for (uint32_t i = 0; i < a.n_q; i++) { /* alone: the same bits as in company */
            hy_att one = a;
            float o[D_MAX], m, l;
            one.n_q = 1, one.q = a.q + i * a.q_stride, one.q_pos = a.q_pos + i;
            one.o = o, one.m = &m, one.l = &l;
            k->att[q->t](&one);
            check(same(o, z + (size_t)i * a.d_v, a.d_v) && same(&m, m_b + i, 1) &&
                      same(&l, l_b + i, 1),
                  "att alone");
        }
    }
}

/* Row i over the whole sequence: tiles folded, against softmax in double. */
static void true_att(const hy_kernels *k, hy_att a, const int32_t *pos, uint32_t i)
{
    const seq *s = &the_seq;
    float m_acc = -INFINITY, l_acc = 0, o_acc[D_MAX] = {0};
    double w[SEQ_MAX], top = -INFINITY, sum = 0, err = 0;
    const float *q = a.q + i * a.q_stride;
    for (uint32_t tile = 0; tile * HY_ATT_TILE < s->n; tile++) {
        float o[D_MAX], m, l;
        set_tile(&a, s, tile, pos, a.n_q);
        hy_att one = a;
        one.n_q = 1, one.q = q, one.q_pos = pos + i;
        one.o = o, one.m = &m, one.l = &l;
        k->att[s->t](&one);
        k->att_fold(1, &m_acc, &l_acc, o_acc, &m, &l, o, s->d_v);
    }
    for (uint32_t j = 0; j < s->n; j++) {
        w[j] = -INFINITY;
        if ((int64_t)j > pos[i] || (a.window && (int64_t)j <= (int64_t)pos[i] - a.window)) continue;
        double dot = 0, mag = 0;
        for (uint32_t d = 0; d < s->d_k; d++) {
            dot += q[d] * s->kd[j][d];
            mag += fabs(q[d] * s->kd[j][d]);
        }
        w[j] = dot * a.scale;
        if (a.softcap != 0) w[j] = a.softcap * tanh(w[j] / a.softcap);
        top = fmax(top, w[j]);
        /* d + 3 roundings of the dot, 6 ulp of tanh, the subtraction of m and exp's 2 ulp */
        err = fmax(err, (s->d_k + 3) * ULP * mag * fabsf(a.scale) + 8 * ULP * fabs(w[j]) + 3 * ULP);
    }
    for (uint32_t j = 0; j < s->n; j++) sum += w[j] > -INFINITY ? exp(w[j] - top) : 0;
    bool ok = true;
    for (uint32_t d = 0; d < s->d_v; d++) {
        double o = 0, mag = 0;
        for (uint32_t j = 0; j < s->n; j++) {
            if (!(w[j] > -INFINITY)) continue;
            o += exp(w[j] - top) / sum * s->vd[j][d];
            mag += exp(w[j] - top) / sum * fabs(s->vd[j][d]);
        }
        double got = (double)o_acc[d] / l_acc;
        ok &= fabs(got - o) <= mag * (4 * err + (s->n + 16) * ULP) + 1e-30;
    }
    check(ok, "att against softmax in double");
    check(m_acc == -INFINITY || fabs(m_acc - top) <= err + 4 * ULP * fabs(top), "maximum");
}

static const struct {
    uint32_t d_k, d_v, n, window, n_q;
    float softcap;
    int32_t pos, step; /* of row 0; a row's step every 3 rows */
} att_cases[] = {
    {64, 64, 200, 0, 7, 0, 190, 1},   {128, 128, 64, 0, 1, 0, 63, 0},
    {128, 128, 100, 0, 4, 50, 99, 0}, {96, 64, 250, 40, 9, 0, 120, 9},
    {32, 32, 37, 0, 33, 0, 0, 3},     {64, 128, 256, 17, 14, 20, 100, 12},
    {256, 256, 130, 0, 3, 0, 129, 0}, {64, 32, 80, 1, 6, 0, 60, 4},
    {160, 96, 90, 5, 16, 0, 10, 16},  {80, 80, 70, 0, 5, 0, 66, 1},
    {33, 41, 75, 30, 11, 0, 50, 5},   {17, 7, 66, 0, 2, 5, 64, 1},
};

static void run_att(const hy_kernels *s, const hy_kernels *k, bool truth)
{
    int32_t pos[Q_MAX];
    for (size_t c = 0; c < HY_COUNT(att_cases); c++) {
        for (hy_kv_type t = 0; t < HY_KV_TYPE_COUNT; t++) {
            if (t == HY_KV_Q4 && (att_cases[c].d_k % 32 || att_cases[c].d_v % 32)) continue;
            hy_att a = {.type = t,
                        .d_k = att_cases[c].d_k,
                        .d_v = att_cases[c].d_v,
                        .n_q = att_cases[c].n_q,
                        .q_stride = att_cases[c].d_k + 3,
                        .q_pos = pos,
                        .window = att_cases[c].window,
                        .softcap = att_cases[c].softcap,
                        .scale = 1 / sqrtf((float)att_cases[c].d_k),
                        .q = q_row,
                        .work = work,
                        .wide = c % 4 < 3 ? wide : NULL};
            memset(wide, 0xFF, sizeof(wide)); /* NaN */
            snprintf(where, sizeof(where), "%s att %s case %zu", k->isa, hy_kv_type_name(t), c);
            make_seq(k, t, a.d_k, a.d_v, att_cases[c].n, 2.5);
            noise(q_row, HY_COUNT(q_row), 2);
            for (uint32_t i = 0; i < a.n_q; i++)
                pos[i] = att_cases[c].pos + (int32_t)(i / 3) * att_cases[c].step;
            isa_att(s, k, a, pos);
            for (uint32_t i = 0; truth && i < a.n_q; i++) true_att(k, a, pos, i);
        }
    }
}

/* All pairs of maxima, a query each: more than a vector's lanes. */
enum { fold_max = 7, fold_n = fold_max * fold_max };

static void isa_fold(const hy_kernels *s, const hy_kernels *k, uint32_t d)
{
    static const float m[fold_max] = {-INFINITY, -50, -1, 0, 3, 3, 90};
    static float o[fold_n * 300], acc[fold_n * 300], y[fold_n * 300 + 1], z[fold_n * 300 + 1];
    float ma[3][fold_n], la[3][fold_n], mb[fold_n], lb[fold_n];
    size_t n = (size_t)fold_n * d;
    noise(o, n, 3);
    noise(acc, n, 3);
    for (uint32_t i = 0; i < fold_n; i++) {
        for (int w = 0; w < 3; w++) ma[w][i] = m[i / fold_max], la[w][i] = 2;
        mb[i] = m[i % fold_max];
        lb[i] = mb[i] > -INFINITY ? 1.5f : 0;
    }
    memcpy(y, acc, n * 4);
    memcpy(z, acc, n * 4);
    y[n] = z[n] = 77;
    s->att_fold(fold_n, ma[0], la[0], y, mb, lb, o, d);
    k->att_fold(fold_n, ma[1], la[1], z, mb, lb, o, d);
    check(same(y, z, n), "att_fold");
    check(y[n] == 77 && z[n] == 77, "att_fold ends with its rows");
    check(same(ma[0], ma[1], fold_n) && same(la[0], la[1], fold_n), "att_fold m, l");
    for (uint32_t i = 0; i < fold_n; i++) {
        float *one = acc + (size_t)i * d, *in_all = z + (size_t)i * d;
        if (lb[i] == 0) check(same(in_all, one, d) && ma[1][i] == m[i / fold_max] && la[1][i] == 2, "empty tile");
        k->att_fold(1, &ma[2][i], &la[2][i], one, mb + i, lb + i, o + (size_t)i * d, d);
        check(same(one, in_all, d) && same(&ma[2][i], &ma[1][i], 1) && same(&la[2][i], &la[1][i], 1), "att_fold alone");
    }
}

#endif
