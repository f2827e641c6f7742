/* The start-up check of an ISA: every entry of a table against the scalar one, bit for bit, on a
 * few vectors. tests/kern does the same at length; this one guards machines those tests never saw.
 */
#include "kern/kern.h"
#include <math.h>
#include <stdio.h>

#define N        77 /* 4 whole vectors of 16 and a tail */
#define N_TOK    17 /* tiles of 16 tokens, and one more */
#define MM_K     512
#define ATT_Q    13
#define ATT_D    96
#define PAGE_MAX (HY_ATT_TILE * ATT_D * 4)

typedef struct selftest {
    const hy_kernels *k;
    hy_kernels ref;
    char *msg;
    size_t msg_n;
    uint64_t counter;
} selftest;

static void noise(selftest *t, float *x, size_t n, float span)
{
    for (size_t i = 0; i < n; i++)
        x[i] = ((float)hy_rng_unit(hy_rng_at(7, 1, t->counter++)) - 0.5f) * 2.0f * span;
}

static bool same(selftest *t, const char *what, const void *a, const void *b, size_t n_bytes)
{
    if (!memcmp(a, b, n_bytes)) return true;
    snprintf(t->msg, t->msg_n, "%s: %s differs from scalar", t->k->isa, what);
    return false;
}

static bool check_rows(selftest *t)
{
    float x[N], w[N], b[N], y0[N], y1[N];
    noise(t, x, N, 4);
    noise(t, w, N, 2);
    noise(t, b, N, 9);
    t->ref.rmsnorm(x, w, y0, N, 1e-5f);
    t->k->rmsnorm(x, w, y1, N, 1e-5f);
    if (!same(t, "rmsnorm", y0, y1, sizeof(y0))) return false;
    t->ref.layernorm(x, w, b, y0, N, 1e-5f);
    t->k->layernorm(x, w, b, y1, N, 1e-5f);
    if (!same(t, "layernorm", y0, y1, sizeof(y0))) return false;
    t->ref.add(x, w, 0.3f, y0, N);
    t->k->add(x, w, 0.3f, y1, N);
    if (!same(t, "add", y0, y1, sizeof(y0))) return false;
    t->ref.scale(y0, 1.7f, N);
    t->k->scale(y1, 1.7f, N);
    if (!same(t, "scale", y0, y1, sizeof(y0))) return false;
    t->ref.softcap(y0, 5.0f, N);
    t->k->softcap(y1, 5.0f, N);
    if (!same(t, "softcap", y0, y1, sizeof(y0))) return false;
    for (hy_act_fn_id f = 0; f < HY_ACT_COUNT; f++) {
        memcpy(y0, b, sizeof(b));
        memcpy(y1, b, sizeof(b));
        t->ref.act(f, y0, N);
        t->k->act(f, y1, N);
        if (!same(t, "act", y0, y1, sizeof(y0))) return false;
        t->ref.act_mul(f, b, x, y0, N);
        t->k->act_mul(f, b, x, y1, N);
        if (!same(t, "act_mul", y0, y1, sizeof(y0))) return false;
    }
    return true;
}

static bool check_reductions(selftest *t)
{
    float x[N], y0[N], y1[N], s0, s1;
    noise(t, x, N, 20);
    s0 = t->ref.max(x, N);
    s1 = t->k->max(x, N);
    if (!same(t, "max", &s0, &s1, sizeof(s0))) return false;
    uint64_t i0 = t->ref.argmax(x, N), i1 = t->k->argmax(x, N);
    if (!same(t, "argmax", &i0, &i1, sizeof(i0))) return false;
    memcpy(y0, x, sizeof(x));
    memcpy(y1, x, sizeof(x));
    float e0 = t->ref.exp_sum(y0, s0, N), e1 = t->k->exp_sum(y1, s0, N);
    if (!same(t, "exp_sum", y0, y1, sizeof(y0)) || !same(t, "exp_sum", &e0, &e1, sizeof(e0)))
        return false;
    for (int inter = 0; inter < 2; inter++) {
        float c[38], s[38];
        noise(t, c, 38, 1);
        noise(t, s, 38, 1);
        memcpy(y0, x, sizeof(x));
        memcpy(y1, x, sizeof(x));
        t->ref.rope(y0, 76, inter, c, s);
        t->k->rope(y1, 76, inter, c, s);
        if (!same(t, "rope", y0, y1, sizeof(y0))) return false;
    }
    hy_act_group g0[2], g1[2];
    for (int i = 0; i < 16; i++) x[i] = ldexpf(x[i], -3), x[48 + i] = ldexpf(x[48 + i], -14); /* halves of unlike size */
    for (uint64_t n = 32; n <= 64; n += 32) { /* two groups at once are another way than one */
        memset(g0, 0, sizeof g0);
        memset(g1, 0, sizeof g1);
        t->ref.act8(x, n, (hy_act8){g0, n});
        t->k->act8(x, n, (hy_act8){g1, n});
        if (!same(t, "act8", g0, g1, sizeof g0)) return false;
    }
    return true;
}

typedef struct att_bufs {
    uint8_t k0[PAGE_MAX], v0[PAGE_MAX], k1[PAGE_MAX], v1[PAGE_MAX];
    float q[ATT_Q * ATT_D], o0[ATT_Q * ATT_D], o1[ATT_Q * ATT_D], work[ATT_Q * HY_ATT_TILE];
    float wide[HY_ATT_TILE * 2 * ATT_D];
    float m0[ATT_Q], m1[ATT_Q], l0[ATT_Q], l1[ATT_Q];
} att_bufs;

static bool check_att(selftest *t, att_bufs *b, hy_kv_type type, uint32_t n_q, uint32_t window)
{
    int32_t pos[ATT_Q];
    memset(b, 0, sizeof(*b));
    hy_att a = {.type = type,
                .d_k = ATT_D,
                .d_v = ATT_D,
                .n_q = n_q,
                .q = b->q,
                .q_stride = ATT_D,
                .q_pos = pos,
                .pos0 = HY_ATT_TILE,
                .n_key = 61,
                .scale = 0.2f,
                .window = window,
                .softcap = window ? 30.0f : 0.0f,
                .work = b->work,
                .wide = b->wide};
    uint64_t k_bytes = hy_kv_k_bytes(type, ATT_D), v_bytes = hy_kv_v_bytes(type, ATT_D);
    float row[ATT_D];
    for (uint32_t j = 0; j < a.n_key; j++) {
        uint64_t page = j / HY_PAGE_TOK;
        noise(t, row, ATT_D, 3);
        t->ref.kv_put_k(type, b->k0 + page * k_bytes, ATT_D, j % HY_PAGE_TOK, row);
        t->k->kv_put_k(type, b->k1 + page * k_bytes, ATT_D, j % HY_PAGE_TOK, row);
        noise(t, row, ATT_D, 3);
        t->ref.kv_put_v(type, b->v0 + page * v_bytes, ATT_D, j % HY_PAGE_TOK, row);
        t->k->kv_put_v(type, b->v1 + page * v_bytes, ATT_D, j % HY_PAGE_TOK, row);
    }
    if (!same(t, "kv_put_k", b->k0, b->k1, PAGE_MAX) ||
        !same(t, "kv_put_v", b->v0, b->v1, PAGE_MAX))
        return false;
    for (uint32_t i = 0; i < HY_ATT_TILE / HY_PAGE_TOK; i++) {
        a.k_page[i] = b->k0 + i * k_bytes;
        a.v_page[i] = b->v0 + i * v_bytes;
    }
    noise(t, b->q, (size_t)n_q * ATT_D, 1);
    for (uint32_t i = 0; i < n_q; i++) pos[i] = HY_ATT_TILE + 55 + (int32_t)i;
    a.m = b->m0, a.l = b->l0, a.o = b->o0;
    t->ref.att[type](&a);
    a.m = b->m1, a.l = b->l1, a.o = b->o1;
    t->k->att[type](&a);
    if (!same(t, "att", b->m0, b->m1, sizeof(b->m0)) ||
        !same(t, "att", b->l0, b->l1, sizeof(b->l0)) ||
        !same(t, "att", b->o0, b->o1, sizeof(b->o0)))
        return false;
    float m[2][ATT_Q], l[2][ATT_Q];
    noise(t, m[0], ATT_Q, 2);
    noise(t, l[0], ATT_Q, 2);
    noise(t, b->o0, (size_t)n_q * ATT_D, 1);
    memcpy(m[1], m[0], sizeof(m[0]));
    memcpy(l[1], l[0], sizeof(l[0]));
    memcpy(b->o1, b->o0, sizeof(b->o0));
    t->ref.att_fold(n_q, m[0], l[0], b->o0, b->m0, b->l0, b->q, ATT_D);
    t->k->att_fold(n_q, m[1], l[1], b->o1, b->m0, b->l0, b->q, ATT_D);
    return same(t, "att_fold", b->o0, b->o1, sizeof(b->o0)) && same(t, "att_fold", m[0], m[1], sizeof(m[0])) &&
           same(t, "att_fold", l[0], l[1], sizeof(l[0]));
}

typedef struct mm_bufs {
    uint8_t row[16][MM_K * 4];
    float x[N_TOK * MM_K], w[MM_K], y0[N_TOK * 32], y1[N_TOK * 32];
    hy_act_group g[N_TOK * MM_K / 32];
} mm_bufs;

static bool check_mm(selftest *t, mm_bufs *b, hy_qtype type)
{
    hy_panels w;
    uint32_t n_row = t->k->panel * 2;
    if (!hy_panels_shape(&w, type, t->k->panel, n_row, MM_K)) return true;
    uint8_t *data = hy_alloc_big(w.n_panel * w.panel_bytes);
    if (!data) {
        snprintf(t->msg, t->msg_n, "out of memory");
        return false;
    }
    const void *rows[16];
    for (uint64_t i = 0; i < w.n_panel; i++) {
        for (uint32_t r = 0; r < w.p; r++) {
            noise(t, b->w, MM_K, 1);
            hy_quant(type)->pack(b->w, b->row[r], MM_K, NULL);
            rows[r] = b->row[r];
        }
        hy_panel_pack(&w, data + i * w.panel_bytes, rows, w.p);
    }
    w.data = data;
    noise(t, b->x, N_TOK * MM_K, 2);
    for (uint32_t i = 0; i < N_TOK * MM_K; i++) b->x[i] = ldexpf(b->x[i], -(int)(i / 16 % 15)); /* halves of unlike size */
    hy_act8 x8 = {b->g, MM_K};
    for (uint64_t i = 0; i < N_TOK; i++)
        t->ref.act8(b->x + i * MM_K, MM_K, hy_act8_at(&x8, i, 0));
    bool ok = true;
    for (uint32_t n = 1; ok && n <= N_TOK; n = n == 5 ? N_TOK : n + 1) {
        hy_mm m = {.w = &w,
                   .panel_last = w.n_panel,
                   .n_tok = n,
                   .x = b->x,
                   .x_stride = MM_K,
                   .x8 = x8,
                   .y_stride = n_row};
        for (int int8 = 0; ok && int8 < 2; int8++) {
            hy_mm_fn *f0 = int8 ? t->ref.mm_q8[type] : t->ref.mm_f32[type];
            hy_mm_fn *f1 = int8 ? t->k->mm_q8[type] : t->k->mm_f32[type];
            if (!f0 || !f1) continue;
            memset(b->y0, 0, sizeof(b->y0));
            memset(b->y1, 0, sizeof(b->y1));
            m.y = b->y0;
            f0(&m);
            m.y = b->y1;
            f1(&m);
            ok = same(t, hy_quant(type)->name, b->y0, b->y1, sizeof(b->y0));
        }
    }
    hy_free_big(data, w.n_panel * w.panel_bytes);
    return ok;
}

bool hy_kern_selftest(const hy_kernels *k, char *msg, size_t n)
{
    selftest t = {.k = k, .msg = msg, .msg_n = n};
    hy_kern_fill_scalar(&t.ref, k->panel);
    if (n) msg[0] = 0;
    if (!check_rows(&t) || !check_reductions(&t)) return false;
    att_bufs *b = HY_NEW(att_bufs);
    mm_bufs *m = HY_NEW(mm_bufs);
    bool ok = b && m;
    if (!ok) snprintf(msg, n, "out of memory");
    for (hy_kv_type type = 0; ok && type < HY_KV_TYPE_COUNT; type++)
        for (uint32_t n_q = 1; ok && n_q <= ATT_Q; n_q++)
            ok = check_att(&t, b, type, n_q, 0) && check_att(&t, b, type, n_q, 37);
    for (hy_qtype type = 0; ok && type < HY_Q_COUNT; type++) ok = check_mm(&t, m, type);
    hy_free(m);
    hy_free(b);
    return ok;
}
