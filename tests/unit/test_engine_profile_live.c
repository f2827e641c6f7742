/* engine: the running load, profiled: what it counts, one at a time, early ends, and that answers stay the same. */
#include "../common/engine_options.h"
#include "base/base.h"
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define MODEL HY_DATA "/models/llama3/model-bf16.gguf"
#define N_OUT 200

static char folder[64];

static int enter(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/hy-live-XXXXXX");
    return mkdtemp(folder) && setenv("HAYATE_CACHE", folder, 1) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", folder);
    return system(cmd);
}

static hy_engine *open_engine(bool timing, const char *speculate)
{
    hy_options o = engine_options(MODEL, 512, 2, 4);
    o.timing = timing;
    o.speculate = speculate;
    hy_engine *e = NULL;
    hy_err err = { 0 };
    if (hy_open(&e, &o, &err) != HY_OK) fail_msg("%s", err.msg);
    return e;
}

static hy_request *submit(hy_engine *e, uint32_t n_out)
{
    static const int32_t prompt[] = { 1, 5, 9, 5, 9, 5, 9, 20, 21, 22, 5, 9, 5, 9, 5 };
    hy_params p;
    hy_params_init(&p);
    p.tokens = prompt;
    p.n_tokens = HY_COUNT(prompt);
    p.max_tokens = n_out;
    p.ignore_eos = true;
    p.temperature = 0;
    hy_request *r = NULL;
    hy_err err = { 0 };
    if (hy_submit(e, &p, &r, &err) != HY_OK) fail_msg("%s", err.msg);
    return r;
}

/* All of it; the ids into out. */
static uint32_t finish(hy_request *r, int32_t *out)
{
    hy_event ev;
    hy_err err;
    uint32_t n = 0;
    do {
        assert_int_equal(hy_poll(r, -1, &ev, &err), HY_OK);
        for (uint32_t i = 0; i < ev.n_token; i++)
            if (out) out[n++] = ev.token[i].id;
            else n++;
    } while (ev.kind != HY_EV_DONE);
    assert_int_equal(ev.finish, HY_FINISH_LENGTH);
    hy_release(r);
    return n;
}

static _Atomic uint32_t n_told;
static void told(void *ctx)
{
    atomic_fetch_add((_Atomic uint32_t *)ctx, 1);
}

static void wait_done(const hy_profiling *p)
{
    while (!hy_profiling_done(p)) usleep(1000);
}

static double num(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    if (!json_is_number(v)) fail_msg("%s is no number", name);
    return json_number_value(v);
}

static json_t *report(hy_profiling *p)
{
    char *text = NULL;
    hy_err err;
    if (hy_profiling_report(p, HY_PROFILE_JSON, &text, &err) != HY_OK) fail_msg("%s", err.msg);
    json_t *o = json_loads(text, 0, NULL);
    assert_non_null(o);
    hy_memory_free(text);
    return o;
}

static hy_profiling *start(hy_engine *e, double seconds, bool trace)
{
    hy_profiling *p = NULL;
    hy_err err;
    if (hy_profiling_start(e, seconds, trace, NULL, NULL, &p, &err) != HY_OK) fail_msg("%s", err.msg);
    return p;
}

/* The operator whose time over both phases is largest, added up here. */
static void check_largest(const json_t *o)
{
    json_t *ops = json_object();
    double wall = 0, best = 0;
    const char *name = NULL, *key;
    size_t i, k;
    json_t *f, *op, *v;
    json_array_foreach(json_object_get(o, "phases"), i, f) {
        wall += num(f, "ms");
        json_array_foreach(json_object_get(f, "operators"), k, op) {
            const char *which = json_string_value(json_object_get(op, "op"));
            double sum = json_number_value(json_object_get(ops, which)) + num(op, "ms");
            json_object_set_new(ops, which, json_real(sum));
        }
    }
    json_object_foreach(ops, key, v)
        if (json_real_value(v) > best) best = json_real_value(v), name = key;
    const json_t *largest = json_object_get(o, "largest");
    assert_string_equal(json_string_value(json_object_get(largest, "operator")), name);
    assert_true(fabs(num(largest, "share") - best / wall) < 1e-3);
    json_decref(ops);
}

/* What ran while the profile did is what it counted: two answers of N_OUT tokens, and nothing else. */
static void test_counts(void **state)
{
    for (int timing = 0; timing < 2; timing++) {
        hy_engine *e = open_engine(timing, NULL);
        hy_profiling *p = NULL;
        hy_err err;
        n_told = 0;
        assert_int_equal(hy_profiling_start(e, 60, true, told, &n_told, &p, &err), HY_OK);
        hy_request *a = submit(e, N_OUT), *b = submit(e, N_OUT);
        assert_int_equal(finish(a, NULL), N_OUT);
        assert_int_equal(finish(b, NULL), N_OUT);
        assert_false(hy_profiling_done(p));
        assert_true(hy_profiling_left(e) > 0 && hy_profiling_left(e) <= 60);
        hy_profiling_stop(p);
        wait_done(p);
        json_t *o = report(p), *load = json_object_get(o, "load");
        assert_int_equal(num(load, "output_tokens"), 2 * N_OUT);
        assert_true(num(load, "prompt_tokens") >= 15 && num(load, "prompt_tokens") <= 30); /* the second may find the first's */
        assert_true(num(load, "most_requests") <= 2);
        assert_true(num(load, "requests_a_step") >= 1 && num(load, "requests_a_step") <= 2);
        double steps = 0, parts = num(load, "idle_seconds") + num(load, "model_seconds") + num(load, "sampling_seconds") +
                                  num(load, "drafting_seconds") + num(load, "scheduling_seconds");
        assert_true(fabs(parts - num(load, "seconds")) < 1e-6 + 1e-3 * num(load, "seconds"));
        size_t i;
        json_t *f;
        json_array_foreach(json_object_get(load, "steps_by_requests"), i, f) steps += num(f, "steps");
        assert_true(steps == num(load, "steps") && steps >= N_OUT && steps <= 2 * N_OUT + 2);
        double in_phases = 0, ms = 0;
        json_array_foreach(json_object_get(o, "phases"), i, f) {
            double sum = num(f, "waiting_ms") + num(f, "outside_ms");
            size_t k;
            json_t *op;
            json_array_foreach(json_object_get(f, "operators"), k, op) sum += num(op, "ms");
            assert_true(k > 5 && fabs(sum - num(f, "ms")) <= 0.02 * num(f, "ms"));
            assert_string_equal(json_string_value(json_object_get(f, "bottleneck")),
                                num(f, "waiting_ms") > 0.25 * num(f, "ms") ? "waiting" : "unknown"); /* never measured here */
            in_phases += num(f, "steps");
            ms += num(f, "ms");
        }
        assert_true(in_phases == steps);
        assert_true(fabs(ms / 1e3 - num(load, "model_seconds")) < 1e-6 + 1e-3 * ms);
        check_largest(o);
        assert_int_equal(n_told, 1);
        hy_stats s;
        hy_engine_stats(e, &s);
        assert_int_equal(s.counters.alloc_in_step, 0);
        assert_true((s.n_op > 0) == timing); /* the monitor's own clocks go on, or stay off */
        json_decref(o);
        hy_profiling_close(p);
        hy_close(e);
    }
}

static void test_forms(void **state)
{
    hy_engine *e = open_engine(false, NULL);
    hy_profiling *p = start(e, 60, true), *other = NULL;
    hy_err err;
    assert_int_equal(hy_profiling_start(e, 1, false, NULL, NULL, &other, &err), HY_E_BUSY);
    assert_null(other);
    finish(submit(e, 40), NULL);
    char *text = NULL, want[64];
    assert_int_equal(hy_profiling_report(p, HY_PROFILE_TEXT, &text, &err), HY_E_ARG); /* it runs */
    hy_profiling_stop(p);
    wait_done(p);
    json_t *o = report(p);
    const char *op = json_string_value(json_object_get(json_object_get(o, "largest"), "operator"));
    snprintf(want, sizeof want, "largest share of the steps is `%s`", op);
    assert_int_equal(hy_profiling_report(p, HY_PROFILE_TEXT, &text, &err), HY_OK);
    for (char *c = text; *c; c++)
        if (*c == '\n') *c = ' ';
    if (!strstr(text, want)) fail_msg("no '%s' in: %s", want, text);
    assert_non_null(strstr(text, "hayate cpu")); /* the machine was never measured */
    hy_memory_free(text);
    json_decref(o);
    assert_int_equal(hy_profiling_report(p, HY_PROFILE_TRACE, &text, &err), HY_OK);
    o = json_loads(text, 0, NULL);
    assert_true(json_array_size(json_object_get(o, "traceEvents")) > 100);
    json_decref(o);
    hy_memory_free(text);
    hy_profiling_close(p);
    /* without a trace none can be had; nothing ran */
    p = start(e, 60, false);
    hy_profiling_stop(p);
    wait_done(p);
    assert_int_equal(hy_profiling_report(p, HY_PROFILE_TRACE, &text, &err), HY_E_ARG);
    assert_int_equal(hy_profiling_report(p, HY_PROFILE_TEXT, &text, &err), HY_OK);
    assert_non_null(strstr(text, "Nothing ran"));
    hy_memory_free(text);
    hy_profiling_close(p);
    hy_close(e);
}

static void test_ends(void **state)
{
    hy_engine *e = open_engine(false, NULL);
    hy_profiling *p = NULL;
    hy_err err;
    assert_int_equal(hy_profiling_start(e, 0, false, NULL, NULL, &p, &err), HY_E_ARG);
    assert_int_equal(hy_profiling_start(e, NAN, false, NULL, NULL, &p, &err), HY_E_ARG);
    assert_int_equal(hy_profiling_start(e, 60.5, false, NULL, NULL, &p, &err), HY_E_ARG);
    assert_non_null(strstr(err.msg, "60"));
    /* by itself, while nothing runs */
    p = start(e, 0.02, false);
    wait_done(p);
    hy_profiling_close(p);
    assert_true(hy_profiling_left(e) == 0);
    /* closed while it runs: at once, and the next one may */
    n_told = 0;
    assert_int_equal(hy_profiling_start(e, 60, true, told, &n_told, &p, &err), HY_OK);
    hy_request *r = submit(e, 100);
    hy_profiling_close(p);
    assert_int_equal(n_told, 0);
    finish(r, NULL);
    do usleep(1000);
    while (hy_profiling_start(e, 60, false, NULL, NULL, &p, &err) == HY_E_BUSY);
    /* an engine that drains ends it */
    hy_engine_drain(e);
    wait_done(p);
    hy_profiling_close(p);
    assert_int_equal(hy_profiling_start(e, 1, false, NULL, NULL, &p, &err), HY_E_BUSY);
    hy_close(e);
}

/* The answer is the same, token for token, with the clocks on and off, and with drafts. */
static void test_same_answer(void **state)
{
    static int32_t want[N_OUT], got[N_OUT];
    hy_engine *e = open_engine(false, NULL);
    assert_int_equal(finish(submit(e, N_OUT), want), N_OUT);
    hy_profiling *p = start(e, 60, true);
    assert_int_equal(finish(submit(e, N_OUT), got), N_OUT);
    assert_memory_equal(got, want, sizeof want);
    hy_profiling_close(p);
    hy_close(e);
    e = open_engine(false, "ngram");
    p = start(e, 60, false);
    assert_int_equal(finish(submit(e, N_OUT), got), N_OUT);
    assert_memory_equal(got, want, sizeof want);
    hy_profiling_stop(p);
    wait_done(p);
    hy_stats s;
    hy_engine_stats(e, &s);
    json_t *o = report(p), *load = json_object_get(o, "load");
    assert_true(num(load, "drafted_tokens") == (double)s.n_drafted && num(load, "accepted_tokens") == (double)s.n_accepted);
    assert_string_equal(s.speculate[0], "ngram");
    assert_null(s.speculate[1]);
    json_decref(o);
    hy_profiling_close(p);
    hy_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_same_answer),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
