/* kv: random operations on several sequences against a simple model: each sequence is a list of
 * stamps, one a token, and each stamp is also written where the token lives in its page. Whatever is
 * done to the others, a sequence must read its own stamps back. */
#include "kv/kv.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define N_SEQ 6
#define N_PAGE 24
#define CAP 150
#define N_OP 20000

typedef struct seq {
    hy_page_table t;
    uint32_t stamp[CAP + HY_KV_PAGE_TOK];
    uint32_t first;            /* tokens before it may have slid out of the windowed group */
} seq;

typedef struct world {
    hy_kv *kv;
    seq s[N_SEQ];
    uint64_t seed, n;
    uint32_t next;
} world;

static const hy_kv_group groups[3] = {
    { .window = 0, .n_layer = 1, .page_bytes = 64, .n_page = N_PAGE },
    { .window = 20, .n_layer = 1, .page_bytes = 128, .n_page = N_PAGE },
    { .window = 33, .n_layer = 1, .page_bytes = 64, .n_page = N_PAGE },
};

static uint32_t draw(world *w, uint32_t n)
{
    return (uint32_t)(hy_rng_at(w->seed, 1, w->n++) % n);
}

static uint32_t *cell(const world *w, const seq *s, uint32_t g, uint32_t tok)
{
    uint32_t page = s->t.page[g][tok / HY_KV_PAGE_TOK];
    if (page == HY_KV_NO_PAGE) return NULL;
    return (uint32_t *)(void *)hy_kv_page(w->kv, g, page) + tok % HY_KV_PAGE_TOK;
}

static void grow(world *w, seq *s)
{
    uint32_t from = s->t.n_tok, n = from + 1 + draw(w, 40);
    if (s->first > from) return; /* cannot go on where the window's pages are gone */
    uint32_t need = 0;
    for (uint32_t g = 0; g < 3; g++) need = HY_MAX(need, hy_kv_need(w->kv, g, n));
    uint32_t free_before[3];
    for (uint32_t g = 0; g < 3; g++) free_before[g] = hy_kv_free_pages(w->kv, g);
    hy_status st = hy_kv_reserve(w->kv, &s->t, n, NULL);
    if (st != HY_OK) {
        assert_int_equal(st, HY_E_LIMIT);
        assert_int_equal(s->t.n_tok, from);
        for (uint32_t g = 0; g < 3; g++) assert_int_equal(hy_kv_free_pages(w->kv, g), free_before[g]);
        return;
    }
    for (uint32_t k = from; k < n; k++) {
        s->stamp[k] = ++w->next;
        for (uint32_t g = 0; g < 3; g++) *cell(w, s, g, k) = s->stamp[k];
    }
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
    memcpy(dst->stamp, src->stamp, n * sizeof *dst->stamp);
    dst->first = src->first;
}

static void operate(world *w)
{
    seq *s = &w->s[draw(w, N_SEQ)];
    switch (draw(w, 8)) {
    case 0: case 1: case 2: case 3: grow(w, s); break;
    case 4: fork_one(w, s); break;
    case 5: {
        uint32_t n = draw(w, s->t.n_tok + 1);
        hy_kv_truncate(w->kv, &s->t, n);
        if (n == 0) s->first = 0;
        break;
    }
    case 6:
        hy_kv_slide(w->kv, &s->t, s->t.n_tok);
        if (s->t.n_tok > 20) s->first = HY_MAX(s->first, s->t.n_tok - 20);
        break;
    default:
        if (draw(w, 4) == 0) {
            hy_kv_truncate(w->kv, &s->t, 0);
            s->first = 0;
        }
    }
}

static void read_back(const world *w)
{
    for (uint32_t i = 0; i < N_SEQ; i++) {
        const seq *s = &w->s[i];
        for (uint32_t k = 0; k < s->t.n_tok; k++)
            for (uint32_t g = 0; g < 3; g++) {
                const uint32_t *c = cell(w, s, g, k);
                if (g == 0 || k >= s->first) assert_non_null(c);
                if (c) assert_int_equal(*c, s->stamp[k]);
            }
    }
}

static void random_operations(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        world *w = HY_NEW(world);
        w->seed = seed;
        assert_int_equal(hy_kv_open(&w->kv, groups, 3, NULL), HY_OK);
        const hy_page_table *tables[N_SEQ];
        for (uint32_t i = 0; i < N_SEQ; i++) {
            assert_int_equal(hy_page_table_init(w->kv, &w->s[i].t, CAP, NULL), HY_OK);
            tables[i] = &w->s[i].t;
        }
        for (uint32_t k = 0; k < N_OP; k++) {
            operate(w);
            hy_err err = { 0 };
            if (hy_kv_check(w->kv, tables, N_SEQ, &err) != HY_OK)
                fail_msg("seed %d, operation %u: %s", (int)seed, k, err.msg);
            if (k % 16 == 0) read_back(w);
        }
        for (uint32_t i = 0; i < N_SEQ; i++) hy_page_table_free(w->kv, &w->s[i].t);
        for (uint32_t g = 0; g < 3; g++) assert_int_equal(hy_kv_free_pages(w->kv, g), N_PAGE);
        hy_kv_close(w->kv);
        hy_free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_operations) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
