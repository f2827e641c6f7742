/* How many steps n-grams save on given texts: each task of tests/data/spec/tasks.json is a prompt and its answer. The
 * answer is what a model is taken to say; drafts are checked against it, and a made-up cost of rows is the clock. So
 * the counts are exact and say what the proposer and the controller are worth, whatever a model would have said.
 * Tokens: words cut into pieces of at most five letters, spaces before them, single digits and signs. */
#include "spec/spec.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <ctype.h>
#include <jansson.h>
#include <string.h>

enum { MANY = 4096, PIECE = 5 };

typedef struct task {
    const char *name, *kind;
    int32_t ids[MANY];
    uint32_t n_prompt, n;
} task;

typedef struct played {
    uint32_t steps, tokens, drafted, accepted;
    double ms, plain_ms;
} played;

static json_t *tasks;

static int read_tasks(void **state)
{
    json_error_t e;
    json_t *all = json_load_file(HY_DATA "/spec/tasks.json", 0, &e);
    tasks = json_incref(json_object_get(all, "tasks"));
    json_decref(all);
    assert_true(json_array_size(tasks) > 10);
    return 0;
}

static int forget(void **state)
{
    json_decref(tasks);
    return 0;
}

static uint32_t piece(const char *s)
{
    uint32_t n = 0;
    if (*s == '\n') { /* a line's end and what the next one is indented by */
        for (n = 1; s[n] == ' ';) n++;
        return n;
    }
    if (*s == ' ') n++;
    if (!isalpha((unsigned char)s[n])) return s[n] ? n + 1 : n;
    for (uint32_t k = 0; k < PIECE && isalpha((unsigned char)s[n]); k++) n++;
    return n;
}

static uint32_t cut(const char *s, int32_t *ids, uint32_t n)
{
    for (uint32_t k; *s; s += k) {
        k = piece(s);
        assert_true(n < MANY);
        ids[n++] = (int32_t)(hy_hash64(s, k, 1) & 0x7fffffff);
    }
    return n;
}

static void read_task(size_t i, task *t)
{
    json_t *j = json_array_get(tasks, i);
    t->name = json_string_value(json_object_get(j, "name"));
    t->kind = json_string_value(json_object_get(j, "kind"));
    t->n_prompt = cut(json_string_value(json_object_get(j, "prompt")), t->ids, 0);
    t->n = cut(json_string_value(json_object_get(j, "answer")), t->ids, t->n_prompt);
}

/* One step as the engine takes it: what the n-grams promise, how much of it is drafted, what was right. */
static uint32_t one_step(const task *t, uint32_t n, uint32_t most, hy_ngram *g, hy_spec_worth *own, hy_spec_pace *pace,
                         const hy_spec_cost *cost, played *p)
{
    hy_spec_want w = { .pace = pace };
    hy_spec_worth all;
    uint8_t band[HY_SPEC_MAX];
    int32_t out[HY_SPEC_MAX];
    uint32_t n_match, k = 0;
    hy_spec_worth_init(&all, hy_spec_prior_match);
    hy_ngram_add(g, t->ids, n);
    hy_spec_pace_paid(pace, 1, 0, 0);
    w.most = hy_ngram_propose(g, t->ids, HY_MIN(most, t->n - n), out, &n_match);
    for (uint32_t i = 0; i < w.most; i++) {
        band[i] = (uint8_t)hy_spec_band_of_match(n_match + i);
        w.p[i] = hy_spec_worth_of(own, &all, band[i]);
    }
    hy_spec_share(&w, 1, 0, most, cost, NULL);
    while (k < w.n && n + k < t->n && out[k] == t->ids[n + k]) k++;
    double ms = hy_spec_cost_ms(cost, 1 + w.n), one = hy_spec_cost_ms(cost, 1);
    hy_spec_worth_add(own, band, w.n, k);
    hy_spec_pace_paid(pace, 0, k, ms / one - 1);
    if (w.trial) hy_spec_pace_tried(pace, k == w.n);
    uint32_t got = HY_MIN(k + 1, t->n - n);
    p->steps++;
    p->tokens += got;
    p->drafted += w.n;
    p->accepted += k;
    p->ms += ms;
    p->plain_ms += got * one;
    return got;
}

static played play(const task *t, uint32_t most, const hy_spec_cost *cost)
{
    played p = { 0 };
    hy_ngram g;
    hy_spec_worth own;
    hy_spec_pace pace;
    hy_spec_worth_init(&own, NULL);
    hy_spec_pace_init(&pace, NULL);
    assert_int_equal(hy_ngram_open(&g, MANY, NULL), HY_OK);
    for (uint32_t n = t->n_prompt; n < t->n;) n += one_step(t, n, most, &g, &own, &pace, cost, &p);
    hy_ngram_close(&g);
    return p;
}

/* A row costs so much of a step beside its first. */
static void line(hy_spec_cost *c, double each)
{
    double ms[HY_SPEC_KNOTS];
    for (uint32_t i = 0; i < HY_SPEC_KNOTS; i++) ms[i] = 10 * (1 + each * (hy_spec_knot[i] - 1));
    hy_spec_cost_set(c, ms, HY_SPEC_KNOTS);
}

/* The clock of a machine whose rows cost 7 % of a step each. */
static void gains(void **state)
{
    static const struct { const char *kind; double least, least_of_all; } want[] = {
        { "copy", 4, 3.5 }, { "edit", 2.2, 1.5 }, { "summary", 1.2, 1.2 }, { "json", 1.2, 1.2 }, { "chat", 0.97, 0.97 },
    };
    hy_spec_cost cost;
    line(&cost, 0.07);
    for (size_t k = 0; k < HY_COUNT(want); k++) {
        double ms = 0, plain = 0;
        for (size_t i = 0; i < json_array_size(tasks); i++) {
            static task t;
            read_task(i, &t);
            if (strcmp(t.kind, want[k].kind) != 0) continue;
            played p = play(&t, HY_SPEC_MAX, &cost);
            assert_int_equal(p.tokens, t.n - t.n_prompt);
            double gain = p.plain_ms / p.ms;
            print_message("%-8s %-22s %4u tokens, %4u steps, %5.2f a step, %.2f accepted, gain %.2f\n", t.kind, t.name, p.tokens,
                          p.steps, (double)p.tokens / p.steps, p.drafted ? (double)p.accepted / p.drafted : 0, gain);
            if (gain < want[k].least_of_all) fail_msg("%s: gain %.2f", t.name, gain);
            ms += p.ms;
            plain += p.plain_ms;
        }
        print_message("%-8s all: gain %.2f\n", want[k].kind, plain / ms);
        if (plain / ms < want[k].least) fail_msg("%s: gain %.2f", want[k].kind, plain / ms);
    }
}

/* However dear rows are, nothing is lost. */
static void never_dear(void **state)
{
    static const double each[] = { 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1, 1.5 };
    for (size_t k = 0; k < HY_COUNT(each); k++) {
        hy_spec_cost cost;
        line(&cost, each[k]);
        for (size_t i = 0; i < json_array_size(tasks); i++) {
            static task t;
            read_task(i, &t);
            for (uint32_t most = 2; most <= HY_SPEC_MAX; most *= 2) {
                played p = play(&t, most, &cost);
                if (p.plain_ms / p.ms < 0.97) fail_msg("%s, %g a row, up to %u: %.3f", t.name, each[k], most, p.plain_ms / p.ms);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(gains), cmocka_unit_test(never_dear) };
    return cmocka_run_group_tests(tests, read_tasks, forget);
}
