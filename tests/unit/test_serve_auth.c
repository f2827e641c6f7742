/* API keys: the file's form, who gets in, limits by the clock that is handed in. Hashes by Python's hashlib. */
#include "serve/auth.h"
#include "serve/serve.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* hashlib.sha256(bytes.fromhex("00ff10") + b"sk-one").hexdigest(), and for b"sk-two" with salt "aa" */
#define KEY_ONE "one sha256:00ff10:" \
    "41c48840dc3048339fe901342188786880e83c862e59e3398230f348e380da59"
#define KEY_TWO "two sha256:AA:" \
    "9e5f3bd4275f2875a18bc48dfa8070690eed88a391433ccc1269f207dbeb37f6"
#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"
#define MINUTE 60000000ull

static char path[64];

static void put(const char *text)
{
    snprintf(path, sizeof path, "/tmp/hayate-keys-%d", (int)getpid());
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static hy_auth *open_keys(const char *text)
{
    hy_auth *a = NULL;
    hy_err err;
    put(text);
    if (hy_auth_open(&a, path, &err) != HY_OK) fail_msg("%s", err.msg);
    return a;
}

static void test_who(void **state)
{
    hy_auth *a = open_keys("# keys\n\n" KEY_ONE " requests=5\r\n\t" KEY_TWO "   priority=-7 # second\n");
    hy_tenant t;
    assert_true(hy_auth_needed(a));
    assert_true(hy_auth_check(a, "sk-one", &t));
    assert_string_equal(t.name, "one");
    assert_int_equal(t.priority, 0);
    assert_true(hy_auth_check(a, "sk-two", &t));
    assert_string_equal(t.name, "two");
    assert_int_equal(t.priority, -7);
    static const char *const wrong[] = { "", "sk-on", "sk-one ", "sk-onf", "SK-ONE", "one" };
    for (size_t i = 0; i < HY_COUNT(wrong); i++) {
        assert_false(hy_auth_check(a, wrong[i], &t));
        assert_string_equal(t.name, "");
    }
    assert_false(hy_auth_check(a, NULL, &t));
    hy_auth_close(a);
}

static void test_nobody_is_asked(void **state)
{
    hy_auth *a = NULL;
    hy_err err;
    hy_tenant t;
    double wait;
    const char *why;
    assert_int_equal(hy_auth_open(&a, NULL, &err), HY_OK);
    assert_false(hy_auth_needed(a));
    assert_true(hy_auth_check(a, NULL, &t) && hy_auth_check(a, "anything", &t));
    assert_true(hy_auth_enter(a, &t, 0, &wait, &why));
    hy_auth_leave(a, &t, 100);
    hy_auth_close(a);
}

static void test_wrong_files(void **state)
{
    static const struct { const char *text, *word; } rows[] = {
        { "", "no key" },
        { "# nothing\n\n", "no key" },
        { "alice\n", "line 1" },
        { KEY_ONE "\nbob sha256:00:11\n", "line 2" },
        { "bob sha1:00:cf39\n", "line 1" },
        { "bob sha256::" ZEROS "\n", "line 1" },
        { "bob sha256:0:" ZEROS "\n", "line 1" },
        { "bob sha256:zz:" ZEROS "\n", "line 1" },
        { "bob sha256:00:" ZEROS "0\n", "line 1" },
        { KEY_ONE " speed=1\n", "speed" },
        { KEY_ONE " requests\n", "requests" },
        { KEY_ONE " requests=-1\n", "requests" },
        { KEY_ONE " tokens=1e9\n", "tokens" },
        { KEY_ONE " parallel=99999999999\n", "parallel" },
        { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa sha256:00:" ZEROS "\n", "63" },
    };
    for (size_t i = 0; i < HY_COUNT(rows); i++) {
        hy_auth *a = NULL;
        hy_err err = { .msg = "" };
        put(rows[i].text);
        assert_int_not_equal(hy_auth_open(&a, path, &err), HY_OK);
        if (!strstr(err.msg, rows[i].word)) fail_msg("row %zu: %s", i, err.msg);
        assert_null(a);
    }
}

static void test_requests_a_minute(void **state)
{
    hy_auth *a = open_keys(KEY_ONE " requests=3\n");
    hy_tenant t;
    hy_rate r;
    double wait;
    const char *why;
    uint64_t now = hy_now_us() + MINUTE;
    assert_true(hy_auth_check(a, "sk-one", &t));
    for (int i = 0; i < 3; i++) {
        assert_true(hy_auth_enter(a, &t, now, &wait, &why));
        hy_auth_leave(a, &t, 1000);
        assert_true(hy_auth_rate(a, &t, now, &r));
        assert_int_equal(r.limit_requests, 3);
        assert_int_equal(r.left_requests, 2 - i);
        assert_int_equal(r.limit_tokens, 0);
    }
    assert_false(hy_auth_enter(a, &t, now, &wait, &why));
    assert_string_equal(why, "requests per minute");
    assert_float_equal(wait, 20, 0.001); /* one every 20 s */
    assert_false(hy_auth_enter(a, &t, now + MINUTE / 3 - 1000, &wait, &why));
    assert_true(hy_auth_enter(a, &t, now + MINUTE / 3 + 1000, &wait, &why));
    hy_auth_leave(a, &t, 0);
    assert_true(hy_auth_rate(a, &t, now + 10 * MINUTE, &r)); /* never more than a minute's worth */
    assert_int_equal(r.left_requests, 3);
    hy_auth_close(a);
}

static void test_tokens_a_minute(void **state)
{
    hy_auth *a = open_keys(KEY_ONE " tokens=600\n");
    hy_tenant t;
    double wait;
    const char *why;
    uint64_t now = hy_now_us() + MINUTE;
    assert_true(hy_auth_check(a, "sk-one", &t));
    assert_true(hy_auth_enter(a, &t, now, &wait, &why));
    hy_auth_leave(a, &t, 900); /* known only afterwards: 300 too many */
    assert_false(hy_auth_enter(a, &t, now, &wait, &why));
    assert_string_equal(why, "tokens per minute");
    assert_float_equal(wait, 30.1, 0.001); /* 301 tokens at 10 a second */
    assert_false(hy_auth_enter(a, &t, now + MINUTE / 2, &wait, &why));
    assert_true(hy_auth_enter(a, &t, now + MINUTE / 2 + 200000, &wait, &why));
    hy_auth_leave(a, &t, 0);
    hy_auth_close(a);
}

static void test_at_once_and_reload(void **state)
{
    hy_auth *a = open_keys(KEY_ONE " parallel=2\n" KEY_TWO "\n");
    hy_tenant t[3], other;
    hy_err err;
    double wait;
    const char *why;
    for (int i = 0; i < 3; i++) assert_true(hy_auth_check(a, "sk-one", &t[i]));
    assert_true(hy_auth_enter(a, &t[0], 1, &wait, &why));
    assert_true(hy_auth_enter(a, &t[1], 1, &wait, &why));
    assert_false(hy_auth_enter(a, &t[2], 1, &wait, &why));
    assert_string_equal(why, "requests at once");
    hy_auth_leave(a, &t[2], 0); /* was never in */
    assert_false(hy_auth_enter(a, &t[2], 1, &wait, &why));
    put(KEY_TWO "\n" KEY_ONE " parallel=3\n"); /* counts go on; the order does not matter */
    assert_int_equal(hy_auth_reload(a, path, &err), HY_OK);
    assert_true(hy_auth_enter(a, &t[2], 1, &wait, &why));
    put(KEY_TWO "\n");
    assert_int_equal(hy_auth_reload(a, path, &err), HY_OK);
    assert_false(hy_auth_check(a, "sk-one", &other));
    for (int i = 0; i < 3; i++) hy_auth_leave(a, &t[i], 5);
    assert_true(hy_auth_check(a, "sk-two", &other));
    put("broken\n");
    assert_int_not_equal(hy_auth_reload(a, path, &err), HY_OK);
    assert_true(hy_auth_check(a, "sk-two", &other));
    hy_auth_close(a);
}

static void test_keygen(void **state)
{
    char *key, *line, *key2, *line2;
    hy_err err;
    hy_tenant t;
    assert_int_equal(hy_serve_keygen("carol", &key, &line, &err), HY_OK);
    assert_int_equal(hy_serve_keygen("dave", &key2, &line2, &err), HY_OK);
    assert_string_not_equal(key, key2);
    assert_int_equal(strlen(key), 53);
    hy_buf both = { 0 };
    hy_buf_printf(&both, "%s\n%s\n", line, line2);
    hy_auth *a = open_keys(both.data);
    assert_true(hy_auth_check(a, key2, &t));
    assert_string_equal(t.name, "dave");
    assert_true(hy_auth_check(a, key, &t));
    assert_string_equal(t.name, "carol");
    hy_auth_close(a);
    hy_buf_free(&both);
    hy_free(key), hy_free(line), hy_free(key2), hy_free(line2);
    assert_int_equal(hy_serve_keygen("", &key, &line, &err), HY_E_ARG);
    assert_int_equal(hy_serve_keygen("a b", &key, &line, &err), HY_E_ARG);
}

/* Every allocation fails once: no leak (ASan), and what was open stays. */
static void test_out_of_memory(void **state)
{
    hy_err err;
    hy_auth *a = open_keys(KEY_ONE "\n");
    put(KEY_ONE "\n" KEY_TWO "\n");
    bool done = false;
    for (int64_t n = 0; n < 50 && !done; n++) {
        hy_alloc_fail_after(n);
        done = hy_auth_reload(a, path, &err) == HY_OK;
        hy_alloc_fail_after(-1);
        hy_tenant t;
        assert_true(hy_auth_check(a, "sk-one", &t));
    }
    assert_true(done);
    hy_auth_close(a);
}

static int remove_file(void **state)
{
    unlink(path);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who),
        cmocka_unit_test(test_nobody_is_asked),
        cmocka_unit_test(test_wrong_files),
        cmocka_unit_test(test_requests_a_minute),
        cmocka_unit_test(test_tokens_a_minute),
        cmocka_unit_test(test_at_once_and_reload),
        cmocka_unit_test(test_keygen),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, remove_file);
}
