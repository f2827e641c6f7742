/* The memory ledger: its purposes sum up to what the process holds. */
#include <hayate/hayate.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_LONG = 12000 };

static uint64_t rss(void)
{
    uint64_t size, pages;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%" SCNu64 " %" SCNu64, &size, &pages), 2);
    fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t of(const hy_stats *s, const char *name)
{
    for (uint32_t i = 0; i < s->n_ledger; i++)
        if (!strcmp(s->ledger[i].name, name)) return s->ledger[i].bytes;
    fail_msg("no %s in the ledger", name);
    return 0;
}

static void compare(const hy_engine *e, const char *when, double within)
{
    hy_stats s;
    uint64_t sum = 0;
    hy_engine_stats(e, &s);
    double held = (double)rss();
    for (uint32_t i = 0; i < s.n_ledger; i++) sum += s.ledger[i].bytes;
    print_message("%s: process %.1f MiB, ledger %.1f MiB:", when, held / (1 << 20), (double)sum / (1 << 20));
    for (uint32_t i = 0; i < s.n_ledger; i++)
        print_message(" %s %.1f", s.ledger[i].name, (double)s.ledger[i].bytes / (1 << 20));
    print_message("\n");
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message("skipped: how much of the ledger goes under other: a sanitizer's own memory does\n");
    return;
#endif
    /* most of it by name, not as a rest */
    if ((double)of(&s, "other") > held * within + (16 << 20)) fail_msg("%s: too much goes under other", when);
    if ((double)sum < held * (1 - within) || (double)sum > held * (1 + within))
        fail_msg("%s: the ledger has %.0f bytes, the process %.0f", when, (double)sum, held);
}

static void chat(hy_engine *e, uint32_t n_prompt, hy_request **keep)
{
    int32_t *ids = malloc(n_prompt * sizeof *ids);
    for (uint32_t i = 0; i < n_prompt; i++) ids[i] = (int32_t)(10 + i * 17 % 400);
    hy_params p;
    hy_params_init(&p);
    p.tokens = ids;
    p.n_tokens = n_prompt;
    p.max_tokens = 4;
    p.ignore_eos = true;
    hy_err err;
    hy_event ev;
    if (hy_submit(e, &p, keep, &err) != HY_OK) fail_msg("%s", err.msg);
    do assert_int_equal(hy_poll(*keep, 600000, &ev, NULL), HY_OK);
    while (ev.kind != HY_EV_DONE);
    free(ids);
}

static hy_engine *open_model(const char *path, uint32_t n_ctx)
{
    hy_options o;
    hy_err err;
    hy_engine *e;
    hy_options_init(&o);
    o.model = path;
    o.n_ctx = n_ctx;
    o.n_threads = 2;
    if (hy_open(&e, &o, &err) != HY_OK) fail_msg("%s", err.msg);
    return e;
}

/* A tiny model with a pool that matters: what is used of it is counted, what is not is not. */
static void small_model(void **state)
{
    hy_engine *e = open_model(HY_DATA "/models/llama3/model-bf16.gguf", 32768);
    hy_stats before, after;
    hy_request *r;
    hy_engine_stats(e, &before);
    chat(e, N_LONG, &r);
    hy_engine_stats(e, &after);
    assert_true(of(&after, "kv_pool") > of(&before, "kv_pool"));
    assert_true(of(&after, "kv_pool") >= (uint64_t)N_LONG * 2 * 2 * 2 * 16); /* at least: tokens, layers, K and V, heads, F16 of 16 */
    assert_true(of(&after, "requests") >= of(&before, "requests") + N_LONG * 4);
    compare(e, "small model, long prompt", 0.10);
    hy_release(r);
    for (int i = 0; i < 10000; i++) { /* the engine lets go of it a moment after the caller */
        hy_engine_stats(e, &after);
        if (of(&after, "requests") == 0) break;
        usleep(1000);
    }
    assert_int_equal(of(&after, "requests"), 0);
    hy_close(e);
}

static void real_model(void **state)
{
    static const char *const env[] = { "HAYATE_SMOLLM2", "HAYATE_GEMMA3" };
    for (int i = 0; i < 2; i++) {
        const char *path = getenv(env[i]);
        if (!path || !*path) {
            print_message("skipped: real model: needs %s\n", env[i]);
            continue;
        }
        hy_engine *e = open_model(path, 2048);
        hy_request *r;
        compare(e, "loaded", 0.05);
        chat(e, 200, &r);
        compare(e, "after an answer", 0.05);
        hy_release(r);
        hy_close(e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(small_model), cmocka_unit_test(real_model) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
