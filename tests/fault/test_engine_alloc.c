/* Every allocation of opening, submitting and polling fails once, in turn: always a status and never a
 * crash; the sanitizers see that nothing leaks. */
#include "../common/engine_options.h"
#include <hayate/tools.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/base.h"

#define MODEL HY_DATA "/models/llama3/model-bf16.gguf"
enum { N_GEN = 6 };

static hy_status generate(hy_engine *e, char text[512], hy_err *err)
{
    static const char *const stop[] = { "never in this text" };
    static const hy_bias bias[] = { { 5, 1.0f } };
    hy_params p;
    hy_params_init(&p);
    p.chat_json = "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello, world\"}]}";
    p.max_tokens = N_GEN;
    p.temperature = 0;
    p.ignore_eos = true;
    p.top_logprobs = 2;
    p.stop = stop;
    p.n_stop = 1;
    p.logit_bias = bias;
    p.n_logit_bias = 1;
    hy_request *r;
    HY_TRY(hy_submit(e, &p, &r, err));
    hy_event ev;
    hy_status s;
    size_t n = 0;
    do {
        s = hy_poll(r, 600000, &ev, err);
        if (s == HY_OK && ev.kind == HY_EV_TEXT && n + ev.n_text < 511) {
            memcpy(text + n, ev.text, ev.n_text);
            n += ev.n_text;
        }
    } while (s == HY_OK && ev.kind == HY_EV_TEXT);
    text[n] = 0;
    if (s == HY_OK) assert_int_equal(ev.kind, HY_EV_DONE);
    hy_release(r);
    return s;
}

static hy_status end_of(hy_request *r, hy_err *err)
{
    hy_event ev;
    hy_status s;
    do s = hy_poll(r, 600000, &ev, err);
    while (s == HY_OK && ev.kind == HY_EV_TEXT);
    hy_release(r);
    return s;
}

/* Two answers under a guide with logprobs of the prompt, then an embedding. */
static hy_status serve(hy_engine *e, char text[512], hy_err *err)
{
    static const int32_t ids[] = { 11, 12, 13, 14 };
    hy_params p;
    hy_params_init(&p);
    p.tokens = ids;
    p.n_tokens = 4;
    p.max_tokens = N_GEN;
    p.prompt_logprobs = 2;
    p.guide = (hy_guide){ .kind = HY_GUIDE_REGEX, .text = "[ab]{3}", .n_text = 7 };
    hy_request *r[2];
    HY_TRY(hy_submit_n(e, &p, 2, r, err));
    hy_status s = end_of(r[0], err), t = end_of(r[1], s == HY_OK ? err : NULL);
    if (s == HY_OK) s = t;
    if (s != HY_OK) return s;
    p.prompt_logprobs = -1;
    p.pool = HY_POOL_MEAN;
    HY_TRY(hy_submit(e, &p, r, err));
    snprintf(text, 512, "done");
    return end_of(r[0], err);
}

static hy_options options(void)
{
    return engine_options(MODEL, 64, 1, 2);
}

static hy_status whole(char text[512], hy_err *err)
{
    hy_options o = options();
    hy_engine *e = NULL;
    hy_status s = hy_open(&e, &o, err);
    if (s != HY_OK) {
        assert_null(e);
        return s;
    }
    s = generate(e, text, err);
    hy_close(e);
    return s;
}

static hy_status whole_service(char text[512], hy_err *err)
{
    hy_options o = options();
    char swap[64];
    snprintf(swap, sizeof swap, "/tmp/hayate-fault-%d", (int)getpid());
    o.kv_swap = swap;
    o.timing = true;
    hy_engine *e = NULL;
    HY_TRY(hy_open(&e, &o, err));
    hy_status s = serve(e, text, err);
    hy_close(e);
    return s;
}

typedef hy_status run_fn(char text[512], hy_err *err);

/* Fails allocation n for n = 0, step, 2 step, ... until a run needs no n more. */
static void each(run_fn *run, uint32_t step)
{
    char want[512], text[512];
    hy_err err = { HY_OK, "" };
    hy_alloc_fail_after(-1);
    if (run(want, &err) != HY_OK) fail_msg("%s", err.msg);
    uint64_t before = hy_alloc_count();
    assert_int_equal(run(want, &err), HY_OK);
    uint64_t all = hy_alloc_count() - before;
    uint32_t n_failed = 0, n_run = 0;
    for (uint64_t n = 0; n < all + 4; n += n < 400 ? 1 : step, n_run++) {
        err = (hy_err){ HY_OK, "" };
        hy_alloc_fail_after((int64_t)n);
        hy_status s = run(text, &err);
        hy_alloc_fail_after(-1);
        if (s == HY_OK) { /* what failed was not needed: the answer must be whole */
            assert_string_equal(text, want);
            continue;
        }
        n_failed++;
        if (s != HY_E_MEMORY) fail_msg("allocation %llu: status %d, %s", (unsigned long long)n, s, err.msg);
        assert_int_not_equal(err.msg[0], 0);
        assert_int_equal(err.code, s);
    }
    print_message("%u runs of %llu allocations, %u ended with an error\n", n_run, (unsigned long long)all, n_failed);
    assert_true(n_failed > 0);
    assert_int_equal(run(text, &err), HY_OK); /* and nothing is spoilt afterwards */
    assert_string_equal(text, want);
}

static void opening_and_answering(void **state)
{
    each(whole, 17);
}

static void opening_and_serving(void **state)
{
    each(whole_service, 17);
}

static hy_engine *shared;
static hy_status one_request(char text[512], hy_err *err)
{
    return generate(shared, text, err);
}

static hy_status one_service(char text[512], hy_err *err)
{
    return serve(shared, text, err);
}

/* One engine through all the failures: each harms its own request alone. */
static void answering(void **state)
{
    hy_options o = options();
    hy_err err;
    if (hy_open(&shared, &o, &err) != HY_OK) fail_msg("%s", err.msg);
    each(one_request, 1);
    each(one_service, 1);
    hy_counters n;
    hy_engine_counters(shared, &n);
    assert_int_equal(n.page_used, 0);
    assert_int_equal(n.n_waiting, 0);
    hy_close(shared);
}

static hy_status logits(char text[512], hy_err *err)
{
    hy_options o = options();
    hy_session *s = NULL;
    HY_TRY(hy_session_open(&s, &o, err));
    static float out[512];
    int32_t ids[3] = { 1, 2, 3 };
    hy_status st = hy_session_logits(s, ids, 3, 0, false, out, err);
    if (st == HY_OK) snprintf(text, 512, "%.9g %.9g", out[0], out[511]);
    hy_session_close(s);
    return st;
}

static void session(void **state)
{
    each(logits, 17);
}

static hy_status look(char text[512], hy_err *err)
{
    hy_options o = options();
    char *info = NULL, *plan = NULL;
    text[0] = 0;
    hy_status s = hy_tool_info(MODEL, 64, true, &info, err);
    if (s == HY_OK) s = hy_tool_explain(&o, false, &plan, err);
    if (s == HY_OK) snprintf(text, 512, "%zu %zu", strlen(info), strlen(plan));
    hy_memory_free(info);
    hy_memory_free(plan);
    return s;
}

static void looking(void **state)
{
    each(look, 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(opening_and_answering), cmocka_unit_test(opening_and_serving),
                                        cmocka_unit_test(answering),
                                        cmocka_unit_test(session), cmocka_unit_test(looking) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
