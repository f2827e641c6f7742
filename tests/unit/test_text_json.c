/* The JSON helpers. */
#include "text/text.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void test_parse(void **state)
{
    hy_err err = { 0 };
    json_t *j = NULL;
    const char *s = " {\"b\": 1, \"a\": [1.0, true, null, \"\\u00e9\"]} ";
    assert_int_equal(hy_json_parse("body", s, strlen(s), &j, &err), HY_OK);
    assert_string_equal(json_object_iter_key(json_object_iter(j)), "b"); /* order is kept */
    const json_t *a = json_object_get(j, "a");
    assert_true(json_is_integer(json_object_get(j, "b")) && json_is_real(json_array_get(a, 0)));
    assert_string_equal(json_string_value(json_array_get(a, 3)), "\xc3\xa9");
    json_decref(j);
    assert_int_equal(hy_json_parse("x", "5", 1, &j, &err), HY_OK);
    json_decref(j);
}

static void test_errors(void **state)
{
    static const char *const bad[] = { "", "{", "[1,]", "{} x", "nul", "\"\xff\"", "01", "{\"a\" 1}" };
    for (size_t i = 0; i < HY_COUNT(bad); i++) {
        hy_err err = { 0 };
        json_t *j = NULL;
        assert_int_equal(hy_json_parse("body", bad[i], strlen(bad[i]), &j, &err), HY_E_FORMAT);
        assert_memory_equal(err.msg, "body: line 1, column ", 21);
    }
    hy_err err = { 0 };
    json_t *j = NULL;
    assert_int_equal(hy_json_parse("body", "{\n\n 1}", 6, &j, &err), HY_E_FORMAT);
    assert_memory_equal(err.msg, "body: line 3, ", 14);
    char *deep = malloc(100000);
    memset(deep, '[', 100000);
    assert_int_equal(hy_json_parse("deep", deep, 100000, &j, &err), HY_E_FORMAT);
    free(deep);
}

static void test_quote(void **state)
{
    static const struct {
        const char *in, *out;
    } cases[] = { { "", "\"\"" }, { "a\"b\\c/", "\"a\\\"b\\\\c/\"" },
                  { "\n\r\t\b\f\x01\x1f\x7f", "\"\\n\\r\\t\\b\\f\\u0001\\u001f\x7f\"" },
                  { "\xc3\xa9\xf0\x9f\x98\x80", "\"\xc3\xa9\xf0\x9f\x98\x80\"" },
                  { "a\xff\xe2\x82z", "\"a\xef\xbf\xbd\xef\xbf\xbdz\"" } };
    for (size_t i = 0; i < HY_COUNT(cases); i++) {
        hy_buf b = { 0 };
        hy_json_quote(cases[i].in, strlen(cases[i].in), &b);
        assert_string_equal(b.data, cases[i].out);
        hy_buf_free(&b);
    }
    hy_buf b = { 0 };
    hy_json_quote("a\0b", 3, &b);
    assert_string_equal(b.data, "\"a\\u0000b\"");
    hy_buf_free(&b);
}

static void test_file(void **state)
{
    char path[] = "hy_json_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "[1, 2]", 6), 6);
    close(fd);
    hy_err err = { 0 };
    json_t *j = NULL;
    assert_int_equal(hy_json_load_file(path, 6, &j, &err), HY_OK);
    assert_int_equal(json_array_size(j), 2);
    json_decref(j);
    assert_int_not_equal(hy_json_load_file(path, 5, &j, &err), HY_OK);
    unlink(path);
    assert_int_equal(hy_json_load_file(path, 5, &j, &err), HY_E_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_quote),
        cmocka_unit_test(test_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
