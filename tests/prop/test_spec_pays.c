/* The controller on a made-up machine: streams whose drafts are right as often as we say, rows that cost what we say,
 * first guesses and measured curves that are wrong. Nowhere slower than 0.97 of plain decoding; faster where it can be. */
#include "spec/spec.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

enum { STREAMS = 32 };

typedef struct machine {
    const char *name;
    double each;               /* cost of a row beside the first, of a step's */
    uint32_t free_rows;        /* ... beyond so many, which cost a hundredth */
    double draft;              /* a step of the drafting model, of a step's; 0: n-grams */
} machine;

typedef struct stream {
    hy_spec_worth own;
    hy_spec_pace pace;
    double right;              /* chance that a drafted token is right */
    uint32_t left;             /* tokens until it ends and another one begins */
} stream;

static uint64_t counter;
static double chance(void) { return hy_rng_unit(hy_rng_at(7, 1, counter++)); }

static double true_ms(const machine *m, uint32_t n)
{
    double cheap = HY_MIN(n, m->free_rows + 1) - 1.0;
    return 10 * (1 + 0.01 * cheap + m->each * (n - 1 - cheap));
}

/* The curve as it was measured at start: `wrong` as dear as it is. */
static void curve(const machine *m, double wrong, hy_spec_cost *target, hy_spec_cost *draft)
{
    double ms[HY_SPEC_KNOTS];
    for (uint32_t i = 0; i < HY_SPEC_KNOTS; i++) {
        double one = true_ms(m, 1), more = true_ms(m, hy_spec_knot[i]) - one;
        ms[i] = one + wrong * more;
    }
    hy_spec_cost_set(target, ms, 12);
    for (uint32_t i = 0; i < HY_SPEC_KNOTS; i++) ms[i] = m->draft * true_ms(m, hy_spec_knot[i]);
    hy_spec_cost_set(draft, ms, m->draft > 0 ? 12 : 1);
}

static void begin(stream *s, const hy_spec_pace *all, double right, uint32_t length)
{
    hy_spec_worth_init(&s->own, NULL);
    hy_spec_pace_init(&s->pace, all);
    s->right = right;
    s->left = length;
}

typedef struct world {
    const machine *m;
    stream s[STREAMS];
    uint32_t n;
    hy_spec_cost target, draft;
    hy_spec_worth all;
    hy_spec_pace pace;
    double tokens, ms;
} world;

/* What is drafted: n-grams always claim to be fairly sure. A model says how sure it is, more or less. */
static void wants(const world *w, hy_spec_want *want, uint8_t band[STREAMS][HY_SPEC_MAX])
{
    memset(want, 0, sizeof *want * STREAMS);
    for (uint32_t i = 0; i < w->n; i++) {
        want[i].most = 8;
        want[i].model = w->m->draft > 0;
        want[i].pace = (hy_spec_pace *)(uintptr_t)&w->s[i].pace;
        for (uint32_t k = 0; k < 8; k++) {
            band[i][k] = (uint8_t)HY_MIN(3 + k / 2, 7u);
            want[i].p[k] = w->m->draft > 0 ? hy_spec_worth_mean(&w->s[i].own, &w->all)
                                           : hy_spec_worth_of(&w->s[i].own, &w->all, band[i][k]);
        }
    }
}

static void one_step(world *w)
{
    hy_spec_want want[STREAMS];
    uint8_t band[STREAMS][HY_SPEC_MAX];
    uint32_t rows = 0, level[HY_SPEC_MAX] = { 0 }, active = 0;
    double draft_ms = 0;
    wants(w, want, band);
    hy_spec_share(want, w->n, 0, 64, &w->target, w->m->draft > 0 ? &w->draft : NULL);
    for (uint32_t i = 0; i < w->n; i++) {
        rows += want[i].n;
        active += want[i].n > 0;
        for (uint32_t k = 0; k < want[i].n; k++) level[k]++;
    }
    for (uint32_t k = 0; k < 8 && level[k] && w->m->draft > 0; k++) draft_ms += w->m->draft * true_ms(w->m, level[k]);
    double noise = 0.95 + 0.1 * chance(), ms = true_ms(w->m, w->n + rows) * noise;
    double plain = hy_spec_cost_ms(&w->target, w->n), row = rows ? fmax(ms - plain, 0) / rows : 0;
    hy_spec_cost_add(&w->target, w->n + rows, ms);
    w->ms += ms + draft_ms * noise;
    for (uint32_t i = 0; i < w->n; i++) {
        stream *s = &w->s[i];
        uint32_t k = 0, n = want[i].n;
        while (k < n && chance() < s->right) k++;
        double cost = (n * row + (n && active ? draft_ms / active : 0)) / (plain / w->n);
        hy_spec_pace_paid(&s->pace, 1, k, cost);
        hy_spec_pace_paid(&w->pace, 1, k, cost);
        hy_spec_worth_add(&s->own, band[i], n, k);
        hy_spec_worth_add(&w->all, band[i], n, k);
        if (want[i].trial) hy_spec_pace_tried(&s->pace, k == n);
        w->tokens += k + 1;
        s->left -= HY_MIN(k + 1, s->left);
        if (s->left == 0) begin(s, &w->pace, s->right, 20 + (uint32_t)(chance() * 200));
    }
}

/* Tokens a millisecond over those of plain decoding, of n streams whose drafts are right so often (half of them: `right`,
 * half of them: `other`). */
static double gain_of(const machine *m, uint32_t n, double right, double other, double wrong, const double *prior)
{
    static world w;
    memset(&w, 0, sizeof w);
    w.m = m;
    w.n = n;
    curve(m, wrong, &w.target, &w.draft);
    hy_spec_worth_init(&w.all, prior);
    hy_spec_pace_init(&w.pace, NULL);
    for (uint32_t i = 0; i < n; i++) begin(&w.s[i], &w.pace, i % 2 ? other : right, 20 + (uint32_t)(chance() * 200));
    for (uint32_t k = 0; k < 2400 / (n > 4 ? 4 : 1); k++) one_step(&w);
    return w.tokens / w.ms / (n / true_ms(m, n));
}

static const machine machines[] = {
    { "rows nearly free", 0.02, 16, 0 },      { "rows cost 7 %", 0.07, 0, 0 },        { "steep behind 4 rows", 0.5, 3, 0 },
    { "bound by arithmetic", 0.9, 0, 0 },     { "free, cheap model", 0.02, 16, 0.1 }, { "7 %, model of a third", 0.07, 0, 0.35 },
    { "steep, cheap model", 0.5, 3, 0.1 },    { "bound, model", 0.9, 0, 0.2 },
};

static void nowhere_slower(void **state)
{
    static const double rights[] = { 0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98 }, wrongs[] = { 0.3, 1, 3 };
    static const uint32_t streams[] = { 1, 2, 8, 32 };
    double least = 2;
    for (size_t k = 0; k < HY_COUNT(machines); k++)
        for (size_t i = 0; i < HY_COUNT(rights); i++)
            for (size_t j = 0; j < HY_COUNT(streams); j++)
                for (size_t l = 0; l < HY_COUNT(wrongs); l++) {
                    const double *prior = machines[k].draft > 0 ? hy_spec_prior_model : hy_spec_prior_match;
                    double other = l == 1 ? 0.05 : rights[i], g = gain_of(&machines[k], streams[j], rights[i], other, wrongs[l], prior);
                    least = fmin(least, g);
                    if (g < 0.97)
                        fail_msg("%s, %u streams, right %g and %g, curve %g as dear: %.3f", machines[k].name, streams[j], rights[i],
                                 other, wrongs[l], g);
                }
    print_message("least gain: %.3f\n", least);
}

static void faster_where_it_can_be(void **state)
{
    double copy = gain_of(&machines[0], 1, 0.98, 0.98, 1, hy_spec_prior_match);
    double dear = gain_of(&machines[1], 1, 0.9, 0.9, 1, hy_spec_prior_match);
    double model = gain_of(&machines[4], 1, 0.8, 0.8, 1, hy_spec_prior_model);
    double self = gain_of(&machines[5], 1, 0.9, 0.9, 1, hy_spec_prior_model);
    double eight = gain_of(&machines[0], 8, 0.98, 0.05, 1, hy_spec_prior_match);
    print_message("copy %.2f, dear rows %.2f, model %.2f, self %.2f, eight %.2f\n", copy, dear, model, self, eight);
    assert_true(copy > 5 && dear > 2.5 && model > 2 && self > 1.5 && eight > 1.15);
}

/* Where everybody drafts as many tokens as pay best: sums by hand. */
static void gain_of_all(void **state)
{
    double flat[HY_SPEC_KNOTS], half[HY_SPEC_KNOTS], steep[HY_SPEC_KNOTS];
    hy_spec_cost free_rows, drafter, dear;
    for (uint32_t i = 0; i < HY_SPEC_KNOTS; i++) {
        flat[i] = 10;
        half[i] = 5;
        steep[i] = 10.0 * hy_spec_knot[i];
    }
    hy_spec_cost_set(&free_rows, flat, HY_SPEC_KNOTS);
    hy_spec_cost_set(&drafter, half, HY_SPEC_KNOTS);
    hy_spec_cost_set(&dear, steep, HY_SPEC_KNOTS);
    assert_true(fabs(hy_spec_gain_of_all(1, 0.5, 64, &free_rows, NULL) - (2 - pow(0.5, 16))) < 1e-9); /* 1 + 1/2 + 1/4 ... */
    assert_true(fabs(hy_spec_gain_of_all(1, 0.9, 64, &free_rows, &drafter) - 3.439 / 2.5) < 1e-9);    /* three tokens */
    assert_true(fabs(hy_spec_gain_of_all(8, 0.9, 15, &free_rows, &drafter) - 1.9 / 1.5) < 1e-9);      /* room for one each */
    assert_true(hy_spec_gain_of_all(8, 0.9, 7, &free_rows, &drafter) == 1);
    assert_true(hy_spec_gain_of_all(1, 0.5, 64, &free_rows, &drafter) == 1); /* 1.5 tokens for 1.5 steps */
    assert_true(hy_spec_gain_of_all(32, 0.9, 64, &dear, NULL) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(nowhere_slower), cmocka_unit_test(faster_where_it_can_be),
                                        cmocka_unit_test(gain_of_all) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
