/* engine: the numbers of threads: as told, as kept, or measured. */
#include "engine/threads.h"
#include "engine/measured.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MODEL HY_DATA "/models/llama3/model-bf16.gguf"

static char folder[64];

static int enter(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/hy-threads-XXXXXX");
    return mkdtemp(folder) ? setenv("HAYATE_CACHE", folder, 1) : -1;
}

static int leave(void **state)
{
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", folder);
    return system(cmd);
}

static hy_session *open_with(uint32_t many, uint32_t few, hy_facts *f)
{
    hy_options o;
    hy_options_init(&o);
    o.model = MODEL;
    o.n_ctx = 64;
    o.n_seq = 1;
    o.n_threads = many;
    o.n_threads_decode = few;
    hy_session *s = NULL;
    hy_err err = { 0 };
    if (hy_session_open(&s, &o, &err) != HY_OK) fail_msg("%s", err.msg);
    hy_session_facts(s, f);
    return s;
}

static void expect(uint32_t many, uint32_t few, uint32_t want_many, uint32_t want_few)
{
    hy_facts f;
    hy_session_close(open_with(many, few, &f));
    assert_int_equal(f.n_threads, want_many);
    assert_int_equal(f.n_threads_decode, want_few);
}

static void test_told(void **state)
{
    expect(2, 0, 2, 2);
    expect(2, 1, 2, 1);
    expect(1, 3, 1, 3);
    hy_options o;
    hy_options_init(&o);
    o.model = MODEL;
    o.n_threads_decode = HY_THREADS_MAX + 1;
    hy_session *s = NULL;
    hy_err err = { 0 };
    assert_int_equal(hy_session_open(&s, &o, &err), HY_E_ARG);
    assert_non_null(strstr(err.msg, "257"));
}

static void keep(const char *key, const char *text)
{
    json_t *o = json_loads(text, 0, NULL);
    assert_non_null(o);
    assert_true(hy_cache_put("threads", key, o));
    json_decref(o);
}

static void test_kept(void **state)
{
    hy_facts f;
    hy_session *s = open_with(0, 0, &f); /* measured */
    hy_topology top;
    hy_cpu_topology(&top);
    assert_in_range(f.n_threads, 1, top.n_thread_default);
    assert_in_range(f.n_threads_decode, 1, top.n_thread_default);
    char *key = hy_threads_key(hy_session_core(s));
    hy_session_close(s);
    assert_non_null(key);
    uint32_t n = top.n_thread_default;
    if (n > 1) {
        keep(key, "{\"prefill\": 2, \"decode\": 1}");
        expect(0, 0, 2, 1);
        keep(key, "{\"prefill\": 1, \"decode\": 2}");
        expect(0, 0, 1, 2);
        expect(0, 1, 1, 1);
    } else {
        print_message("skipped: one processor leaves nothing to choose\n");
    }
    static const char *const bad[] = { "{\"prefill\": 0, \"decode\": 1}", "{\"prefill\": 1, \"decode\": 999}",
                                       "{\"prefill\": -1, \"decode\": 1}", "{\"decode\": 1}", "{\"prefill\": 1, \"decode\": 1e3}" };
    for (size_t i = 0; i < HY_COUNT(bad); i++) {
        keep(key, bad[i]);
        hy_session_close(open_with(0, 0, &f));
        assert_in_range(f.n_threads, 1, n);
        assert_in_range(f.n_threads_decode, 1, n);
    }
    hy_free(key);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_told), cmocka_unit_test(test_kept) };
    return cmocka_run_group_tests(tests, enter, leave);
}
