/* The cost model finds the machine's numbers again; shares, ranks and victims follow from them. */
#include "sched/sched.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

static const hy_sched_shape full = { .n_part = 1, .part = { { 0, 1 } } };

static double unit(uint64_t i)
{
    return hy_rng_unit(hy_rng_at(77, 1, i));
}

static double machine(const double w[3], double tok, double keys)
{
    return w[0] + w[1] * tok + w[2] * keys / 1000;
}

/* A mix of decode steps and chunks at different depths; noise relative, now and then a hiccup. */
static void feed(hy_sched_cost *c, const double w[3], uint32_t n, double noise, double hiccup)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t tok = unit(5 * i) < 0.6 ? 1 + (uint32_t)(unit(5 * i + 1) * 16) : 16 + (uint32_t)(unit(5 * i + 1) * 240);
        double keys = tok * unit(5 * i + 2) * 4000;
        double ms = machine(w, tok, keys) * (1 + noise * (2 * unit(5 * i + 3) - 1));
        if (unit(5 * i + 4) < hiccup) ms *= 10;
        hy_sched_cost_add(c, tok, keys, ms);
    }
}

static void near_to(const hy_sched_cost *c, const double w[3], double within)
{
    const double at[4][2] = { { 1, 500 }, { 8, 8000 }, { 64, 30000 }, { 256, 256000 } };
    for (int i = 0; i < 4; i++) {
        double want = machine(w, at[i][0], at[i][1]), got = hy_sched_cost_ms(c, at[i][0], at[i][1]);
        if (fabs(got - want) > within * want) fail_msg("%g tokens: predicted %g ms, the machine takes %g", at[i][0], got, want);
    }
}

static void finds_the_machine(void **state)
{
    const double machines[3][3] = { { 20, 1.5, 0.4 }, { 2, 0.1, 0.02 }, { 150, 12, 1 } };
    for (int i = 0; i < 3; i++) {
        hy_sched_cost c;
        hy_sched_cost_init(&c);
        feed(&c, machines[i], 300, 0, 0);
        near_to(&c, machines[i], 0.02);
        assert_true(c.error < 0.02);
        feed(&c, machines[i], 300, 0.1, 0);
        near_to(&c, machines[i], 0.1);
        feed(&c, machines[i], 300, 0.05, 0.02); /* one step in fifty takes ten times as long */
        near_to(&c, machines[i], 0.35);
    }
}

/* Throttled to half its speed: a few hundred steps later the model says so. */
static void follows_a_change(void **state)
{
    const double before[3] = { 10, 1, 0.2 }, after[3] = { 20, 2, 0.4 };
    hy_sched_cost c;
    hy_sched_cost_init(&c);
    feed(&c, before, 500, 0.02, 0);
    near_to(&c, before, 0.05);
    feed(&c, after, 500, 0.02, 0);
    near_to(&c, after, 0.1);
}

/* Only one kind of step is seen for a long time: the others' coefficients stay sound. */
static void without_variety(void **state)
{
    const double w[3] = { 10, 1, 0.2 };
    hy_sched_cost c;
    hy_sched_cost_init(&c);
    feed(&c, w, 300, 0.02, 0);
    for (uint32_t i = 0; i < 5000; i++) hy_sched_cost_add(&c, 4, 4000, machine(w, 4, 4000));
    near_to(&c, w, 0.15);
    for (int i = 0; i < 3; i++) assert_true(c.w[i] >= 0 && isfinite(c.w[i]));
}

static void nonsense_changes_nothing(void **state)
{
    const double w[3] = { 10, 1, 0.2 };
    hy_sched_cost c;
    hy_sched_cost_init(&c);
    feed(&c, w, 100, 0, 0);
    hy_sched_cost before = c;
    hy_sched_cost_add(&c, 0, 0, 5);
    hy_sched_cost_add(&c, 1, 10, 0);
    hy_sched_cost_add(&c, 1, 10, -3);
    hy_sched_cost_add(&c, 1, 10, NAN);
    hy_sched_cost_add(&c, 1, 10, INFINITY);
    assert_memory_equal(&before, &c, sizeof c);
    /* times that fall with the tokens: no coefficient below zero */
    hy_sched_cost_init(&c);
    for (uint32_t i = 1; i < 200; i++) hy_sched_cost_add(&c, i, 100, 300.0 - i);
    for (int i = 0; i < 3; i++) assert_true(c.w[i] >= 0 && isfinite(c.w[i]));
}

static void keys_of_windows(void **state)
{
    const hy_sched_shape two = { .n_part = 2, .part = { { 0, 0.25 }, { 32, 0.75 } } };
    for (uint32_t pos = 0; pos < 80; pos += 7)
        for (uint32_t n = 0; n < 60; n += 11) {
            double want = 0;
            for (uint32_t p = pos; p < pos + n; p++) want += 0.25 * (p + 1) + 0.75 * HY_MIN(p + 1, 32u);
            assert_true(fabs(hy_sched_keys(&two, pos, n) - want) < 1e-6);
        }
}

/* ---- shares ----------------------------------------------------------------------------------- */

static hy_sched_cost known(double a, double b)
{
    hy_sched_cost c;
    hy_sched_cost_init(&c);
    c.w[0] = a;
    c.w[1] = b;
    c.n = 100;
    return c;
}

static void shares(void **state)
{
    const hy_sched_limits l = { .n_step = 256, .n_out = 8, .itl_ms = 100, .ttft_ms = 500 };
    hy_sched_cost c = known(20, 1);
    /* nobody decodes: the whole step, in order of rank */
    hy_sched_seq q[4] = { { .n_known = 300, .rank = 5 }, { .n_known = 100, .rank = 1 } };
    assert_int_equal(hy_sched_fill(q, 2, &l, &c, &full), 256);
    assert_int_equal(q[1].n_give, 100);
    assert_int_equal(q[0].n_give, 156);
    /* beside a reader: 100 ms are 80 tokens, his own among them; the chunk ends on a page */
    hy_sched_seq r[3] = { { .n_known = 50, .n_done = 49, .decoding = true }, { .n_known = 300, .rank = 1 },
                          { .n_known = 300, .rank = 2 } };
    r[1].wait_ms = 0;
    hy_sched_limits slow = l;
    slow.ttft_ms = 1e6;
    hy_sched_fill(r, 3, &slow, &c, &full);
    assert_int_equal(r[0].n_give, 1);
    assert_int_equal(r[1].n_give, 64);
    assert_in_range(r[2].n_give, 0, 15);
    /* the first in line would miss its target: six times the 21 ms without it, on a page */
    r[1].wait_ms = 450;
    hy_sched_fill(r, 3, &l, &c, &full);
    assert_int_equal(r[1].n_give, 96);
    /* but at most twice the reader's target, less what predictions are off by */
    c = known(60, 1);
    hy_sched_fill(r, 3, &l, &c, &full);
    assert_int_equal(r[1].n_give, 128);
    c.error = 0.1;
    hy_sched_fill(r, 3, &l, &c, &full); /* 200 / 1.3 ms */
    assert_int_equal(r[1].n_give, 80);
    /* a machine on which nothing fits: still a page */
    c = known(300, 20);
    hy_sched_fill(r, 3, &l, &c, &full);
    assert_int_equal(r[0].n_give, 1);
    assert_int_equal(r[1].n_give, 16);
    assert_int_equal(r[2].n_give, 0);
    /* the blocked get nothing; rows of logits are counted */
    r[1].blocked = true;
    r[2].each_out = true;
    c = known(1, 0.01);
    hy_sched_fill(r, 3, &l, &c, &full);
    assert_int_equal(r[1].n_give, 0);
    assert_int_equal(r[2].n_give, 8);
}

static void ranks(void **state)
{
    /* priority, then the work left, then age */
    assert_true(hy_sched_rank(-1, 0, 100, HUGE_VAL) < hy_sched_rank(0, 0, 100, HUGE_VAL));
    assert_true(hy_sched_rank(0, 0, 20, HUGE_VAL) < hy_sched_rank(0, 0, 500, HUGE_VAL));
    assert_true(hy_sched_rank(0, 600, 500, HUGE_VAL) < hy_sched_rank(0, 0, 20, HUGE_VAL));
    assert_true(hy_sched_rank(1, HY_SCHED_CLASS_MS + 1, 100, HUGE_VAL) < hy_sched_rank(0, 0, 100, HUGE_VAL));
    assert_true(hy_sched_rank(0, 0, 500, -10) < hy_sched_rank(0, 0, 20, HUGE_VAL));
    /* however large the number, waiting makes up for it */
    assert_true(hy_sched_rank(INT32_MAX, 5e6, 100, HUGE_VAL) < hy_sched_rank(0, 0, 100, HUGE_VAL));
}

static void victims(void **state)
{
    const hy_sched_hold h[5] = { { 10, 50, 0 }, { 10, 30, 0 }, { 1, 0.5, 0 }, { 0, 0, 5 }, { 10, 900, 1 } };
    assert_int_equal(hy_sched_victim(h, 5, 0), 4);  /* the least urgent class, however dear */
    assert_int_equal(hy_sched_victim(h, 4, 0), 2);  /* 0.5 ms a page; the one that frees nothing is no help */
    assert_int_equal(hy_sched_victim(h, 2, 1), 0);
    assert_int_equal(hy_sched_victim(h, 1, 0), 1);  /* nobody */
}

static void waits(void **state)
{
    hy_sched_load l = { .n_seq = 4, .n_step = 256, .itl_ms = 100, .w = { 10, 1, 0 }, .tok_free = 1e6 };
    /* an idle engine: the prompt alone */
    assert_true(fabs(hy_sched_predict_wait(&l, 100) - 110) < 1);
    /* four chunks of a long one */
    assert_true(fabs(hy_sched_predict_wait(&l, 1024) - 1064) < 10);
    /* others' prompts are ahead */
    l.prompt_left = 1000;
    l.n_run = 1;
    double behind = hy_sched_predict_wait(&l, 100);
    assert_true(behind > 1100 && behind < 1300);
    /* full: four answers of 50 tokens each at 14 ms a step; the first of them ends in some 20 steps */
    l = (hy_sched_load){ .n_seq = 4, .n_step = 256, .itl_ms = 100, .w = { 10, 1, 0 }, .n_run = 4, .n_decode = 4,
                         .out_left = 200, .tok_free = 1e6 };
    double full_up = hy_sched_predict_wait(&l, 10), last = full_up;
    assert_true(full_up > 200 && full_up < 700);
    for (uint32_t n = 1; n < 20; n++) { /* and longer with each that waits */
        l.n_wait = n;
        l.out_wait = 50.0 * n;
        double now = hy_sched_predict_wait(&l, 10);
        assert_true(now > last);
        last = now;
    }
    /* slots are free, but pages only for 100 tokens: one of two answers must end, some 17 steps on */
    l = (hy_sched_load){ .n_seq = 4, .n_step = 256, .itl_ms = 100, .w = { 10, 1, 0 }, .n_run = 2, .n_decode = 2,
                         .out_left = 50, .tok_free = 100, .tok_run = 1000 };
    double fits = hy_sched_predict_wait(&l, 90), lacks = hy_sched_predict_wait(&l, 110);
    assert_true(lacks - fits > 100 && lacks - fits < 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_machine), cmocka_unit_test(follows_a_change), cmocka_unit_test(without_variety),
        cmocka_unit_test(nonsense_changes_nothing), cmocka_unit_test(keys_of_windows), cmocka_unit_test(shares),
        cmocka_unit_test(ranks), cmocka_unit_test(victims), cmocka_unit_test(waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
