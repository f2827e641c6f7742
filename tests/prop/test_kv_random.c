/* kv: random operations on several sequences against a simple model. A sequence is a list of tokens; what
 * belongs into the place of token k is a function of the tenant and the tokens 0 ... k, and every place is
 * written once, when it is reserved. Whatever is done to the others, forked, cached, evicted, taken up again,
 * a sequence must read what belongs to its own tokens. */
#include "kv/kv.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define N_SEQ 6
#define CAP 150
#define N_OP 12000
#define MAX_GROUP 3

typedef struct seq {
    hy_page_table t;
    uint64_t tenant;
    int32_t ids[CAP + HY_KV_PAGE_TOK];
    uint32_t first[MAX_GROUP]; /* tokens before it may have slid out of the group */
} seq;

typedef struct world {
    hy_kv *kv;
    const hy_kv_group *group;
    uint32_t n_group;
    seq s[N_SEQ];
    uint64_t seed, n;
    uint32_t n_hit;
} world;

static uint32_t draw(world *w, uint32_t n)
{
    return (uint32_t)(hy_rng_at(w->seed, 1, w->n++) % n);
}

/* Tokens from `from` on: pages of few kinds, so that sequences meet; now and then one token differs. */
static void make_tokens(world *w, seq *s, uint32_t from, uint32_t n)
{
    int32_t kind = 0;
    for (uint32_t k = from; k < n; k++) {
        if (k % HY_KV_PAGE_TOK == 0) kind = (int32_t)draw(w, draw(w, 3) ? 1 : 3);
        s->ids[k] = kind * 100 + (int32_t)(k % HY_KV_PAGE_TOK);
        if (draw(w, 100) == 0) s->ids[k] = 999;
    }
}

static uint32_t belongs(const seq *s, uint32_t tok)
{
    return (uint32_t)hy_hash64(s->ids, (tok + 1) * sizeof *s->ids, s->tenant);
}

static uint32_t *cell(const world *w, const seq *s, uint32_t g, uint32_t tok)
{
    uint32_t page = s->t.page[g][tok / HY_KV_PAGE_TOK];
    if (page == HY_KV_NO_PAGE) return NULL;
    uint32_t i = tok % HY_KV_PAGE_TOK; /* four tokens a part */
    return (uint32_t *)(void *)hy_kv_part(w->kv, g, page, i / 4) + i % 4;
}

static void grow(world *w, seq *s)
{
    uint32_t from = s->t.n_tok, n = from + 1 + draw(w, 40), before[MAX_GROUP];
    for (uint32_t g = 0; g < w->n_group; g++) {
        if (s->first[g] > from) return; /* cannot go on where the window's pages are gone */
        before[g] = hy_kv_available(w->kv, g);
    }
    hy_status st = hy_kv_reserve(w->kv, &s->t, n, NULL);
    if (st != HY_OK) {
        assert_int_equal(st, HY_E_LIMIT);
        assert_int_equal(s->t.n_tok, from);
        bool short_of = n > s->t.cap[0] * HY_KV_PAGE_TOK;
        for (uint32_t g = 0; g < w->n_group; g++)
            short_of |= (n + 15) / 16 - s->t.n_page[g] + 1 > before[g];
        assert_true(short_of); /* nothing is refused that idle pages could give */
        return;
    }
    make_tokens(w, s, from, n);
    for (uint32_t k = from; k < n; k++)
        for (uint32_t g = 0; g < w->n_group; g++) *cell(w, s, g, k) = belongs(s, k);
}

static void fork_one(world *w, seq *src)
{
    seq *dst = &w->s[draw(w, N_SEQ)];
    if (dst == src || src->t.n_tok == 0) return;
    if (dst->t.n_tok) {
        assert_int_equal(hy_kv_fork(w->kv, &dst->t, &src->t, 1, NULL), HY_E_ARG);
        return;
    }
    uint32_t n = 1 + draw(w, src->t.n_tok);
    assert_int_equal(hy_kv_fork(w->kv, &dst->t, &src->t, n, NULL), HY_OK);
    memcpy(dst->ids, src->ids, sizeof src->ids);
    memcpy(dst->first, src->first, sizeof src->first);
    dst->tenant = src->tenant;
}

static void take(world *w, seq *s)
{
    if (s->t.n_tok) return;
    uint32_t n = 1 + draw(w, CAP);
    s->tenant = draw(w, 2);
    const seq *like = &w->s[draw(w, N_SEQ)];
    make_tokens(w, s, 0, n);
    if (draw(w, 2)) memcpy(s->ids, like->ids, draw(w, n + 1) * sizeof *s->ids);
    uint32_t peek = hy_kv_cache_peek(w->kv, s->tenant, s->ids, n);
    uint32_t got = hy_kv_cache_take(w->kv, &s->t, s->tenant, s->ids, n);
    assert_int_equal(got, peek);
    assert_int_equal(got, s->t.n_tok);
    assert_true(got % HY_KV_PAGE_TOK == 0 && got < n);
    for (uint32_t g = 0; g < w->n_group; g++) { /* what a query at position `got` sees is there */
        uint32_t window = w->group[g].window;
        s->first[g] = window && got >= window ? got - window + 1 : 0;
    }
    w->n_hit += got != 0;
}

static void shorten(world *w, seq *s, uint32_t n)
{
    hy_kv_truncate(w->kv, &s->t, n);
    if (n == 0) memset(s->first, 0, sizeof s->first);
}

static void operate(world *w)
{
    seq *s = &w->s[draw(w, N_SEQ)];
    switch (draw(w, 12)) {
    case 0: case 1: case 2: case 3: grow(w, s); break;
    case 4: fork_one(w, s); break;
    case 5: shorten(w, s, draw(w, s->t.n_tok + 1)); break;
    case 6:
        hy_kv_slide(w->kv, &s->t, s->t.n_tok);
        for (uint32_t g = 0; g < w->n_group; g++)
            if (w->group[g].window && s->t.n_tok > w->group[g].window)
                s->first[g] = HY_MAX(s->first[g], s->t.n_tok - w->group[g].window);
        break;
    case 7: case 8:
        hy_kv_cache_put(w->kv, &s->t, s->tenant, s->ids, draw(w, 4) ? s->t.n_tok : draw(w, s->t.n_tok + 1));
        break;
    case 9: case 10: take(w, s); break;
    default:
        if (draw(w, 30)) shorten(w, s, 0);
        else if (draw(w, 4) == 0) hy_kv_cache_clear(w->kv);
    }
}

static void read_back(const world *w)
{
    for (uint32_t i = 0; i < N_SEQ; i++) {
        const seq *s = &w->s[i];
        for (uint32_t k = 0; k < s->t.n_tok; k++)
            for (uint32_t g = 0; g < w->n_group; g++) {
                const uint32_t *c = cell(w, s, g, k);
                if (k >= s->first[g]) assert_non_null(c);
                if (c) assert_int_equal(*c, belongs(s, k));
            }
    }
}

static void run(const hy_kv_group *group, uint32_t n_group, uint64_t seed)
{
    world *w = HY_NEW(world);
    w->seed = seed;
    w->group = group;
    w->n_group = n_group;
    assert_int_equal(hy_kv_open(&w->kv, group, n_group, NULL), HY_OK);
    const hy_page_table *tables[N_SEQ];
    for (uint32_t i = 0; i < N_SEQ; i++) {
        assert_int_equal(hy_page_table_init(w->kv, &w->s[i].t, CAP, NULL), HY_OK);
        tables[i] = &w->s[i].t;
    }
    uint64_t n_alloc = hy_alloc_count();
    for (uint32_t k = 0; k < N_OP; k++) {
        operate(w);
        assert_int_equal(hy_alloc_count(), n_alloc); /* nothing is allocated after opening */
        hy_err err = { 0 };
        if (hy_kv_check(w->kv, tables, N_SEQ, &err) != HY_OK)
            fail_msg("seed %d, operation %u: %s", (int)seed, k, err.msg);
        n_alloc = hy_alloc_count();
        if (k % 8 == 0) read_back(w);
    }
    assert_true(w->n_hit > 50);
    hy_kv_cache_stats st;
    hy_kv_cache_stats_of(w->kv, &st);
    assert_true(st.evicted_tok > 0 && st.n_cow > 0 && st.hit_tok < st.query_tok);
    for (uint32_t i = 0; i < N_SEQ; i++) hy_page_table_free(w->kv, &w->s[i].t);
    for (uint32_t g = 0; g < n_group; g++) assert_int_equal(hy_kv_available(w->kv, g), group[g].n_page);
    hy_kv_cache_clear(w->kv);
    for (uint32_t g = 0; g < n_group; g++) assert_int_equal(hy_kv_free_pages(w->kv, g), group[g].n_page);
    hy_kv_close(w->kv);
    hy_free(w);
}

static const hy_kv_group three[3] = {
    { .window = 0, .n_layer = 1, .page_bytes = 64, .part_bytes = 16, .n_page = 24 },
    { .window = 20, .n_layer = 1, .page_bytes = 128, .part_bytes = 16, .n_page = 20 },
    { .window = 33, .n_layer = 1, .page_bytes = 64, .part_bytes = 16, .n_page = 24 },
};

static void full(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 2; seed++) run(three, 1, seed);
}

static void mixed(void **state)
{
    (void)state;
    for (uint64_t seed = 11; seed <= 14; seed++) run(three, 3, seed);
}

static void windowed_first(void **state)
{
    (void)state;
    const hy_kv_group g[2] = { three[1], three[0] };
    for (uint64_t seed = 21; seed <= 22; seed++) run(g, 2, seed);
}

static void all_windowed(void **state)
{
    (void)state;
    hy_kv_group g[2] = { three[1], three[2] };
    for (uint64_t seed = 31; seed <= 32; seed++) run(g, 2, seed);
    g[0].n_page = 10; /* few nodes: they run out too */
    run(g, 1, 33);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full),
        cmocka_unit_test(mixed),
        cmocka_unit_test(windowed_first),
        cmocka_unit_test(all_windowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
