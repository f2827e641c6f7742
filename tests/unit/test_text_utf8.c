/* UTF-8 repair and streaming. */
#include "text/text.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Expected values: Python's bytes.decode("utf-8", "replace"), which replaces maximal subparts. */
static const struct {
    const char *in;
    size_t n_in;
    const char *out;
    size_t n_out;
} cases[] = {
    { "", 0, "", 0 },
    { "\x61\x62\x63", 3, "\x61\x62\x63", 3 },
    { "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9 },
    { "\x80", 1, "\xef\xbf\xbd", 3 },
    { "\xbf\x80", 2, "\xef\xbf\xbd\xef\xbf\xbd", 6 },
    { "\xc0\x80", 2, "\xef\xbf\xbd\xef\xbf\xbd", 6 },
    { "\xc1\xbf", 2, "\xef\xbf\xbd\xef\xbf\xbd", 6 },
    { "\xc2", 1, "\xef\xbf\xbd", 3 },
    { "\xc2\x41", 2, "\xef\xbf\xbd\x41", 4 },
    { "\xe0\x80\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 9 },
    { "\xe0\xa0", 2, "\xef\xbf\xbd", 3 },
    { "\xe0\xa0\x41", 3, "\xef\xbf\xbd\x41", 4 },
    { "\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 9 },
    { "\xed\x9f\xbf", 3, "\xed\x9f\xbf", 3 },
    { "\xee\x80\x80", 3, "\xee\x80\x80", 3 },
    { "\xf0\x80\x80\x80", 4, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 12 },
    { "\xf0\x90\x80", 3, "\xef\xbf\xbd", 3 },
    { "\xf0\x90\x80\x41", 4, "\xef\xbf\xbd\x41", 4 },
    { "\xf0\x90", 2, "\xef\xbf\xbd", 3 },
    { "\xf4\x90\x80\x80", 4, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 12 },
    { "\xf4\x8f\xbf\xbf", 4, "\xf4\x8f\xbf\xbf", 4 },
    { "\xf5\x80\x80\x80", 4, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 12 },
    { "\xff\xfe", 2, "\xef\xbf\xbd\xef\xbf\xbd", 6 },
    { "\x61\xf0\x9f\x98\xe2\x82\xac\x62", 8, "\x61\xef\xbf\xbd\xe2\x82\xac\x62", 8 },
    { "\xf0\x9f\x98\x80\xf0\x9f\x98", 7, "\xf0\x9f\x98\x80\xef\xbf\xbd", 7 },
    { "\xe2\x82", 2, "\xef\xbf\xbd", 3 },
    { "\xe2\xe2\x82\xac", 4, "\xef\xbf\xbd\xe2\x82\xac", 6 },
    { "\xf1\x80\x80\xc2\x80", 5, "\xef\xbf\xbd\xc2\x80", 5 },
    { "\x00\x7f\xc2\x80", 4, "\x00\x7f\xc2\x80", 4 },
    { "\xf0\x8f\xbf", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 9 },
    { "\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", 9, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\x41", 13 },
};

static void test_repair(void **state)
{
    for (size_t i = 0; i < HY_COUNT(cases); i++) {
        hy_buf b = { 0 };
        hy_utf8_repair(cases[i].in, cases[i].n_in, &b);
        assert_int_equal(b.len, cases[i].n_out);
        if (b.len) assert_memory_equal(b.data, cases[i].out, b.len);
        bool same = cases[i].n_in == cases[i].n_out &&
                    memcmp(cases[i].in, cases[i].out, cases[i].n_in) == 0;
        assert_int_equal(hy_utf8_valid(cases[i].in, cases[i].n_in), same);
        hy_buf_free(&b);
    }
}

/* In pieces, cut anywhere: the same text, and whole characters come at once. */
static void test_stream(void **state)
{
    for (size_t i = 0; i < HY_COUNT(cases); i++) {
        size_t n = cases[i].n_in;
        for (size_t x = 0; x <= n; x++) {
            for (size_t y = x; y <= n; y++) {
                hy_buf b = { 0 };
                hy_utf8_stream u = { 0 };
                hy_utf8_stream_put(&u, cases[i].in, x, &b);
                assert_true(b.len == 0 || hy_utf8_valid(b.data, b.len));
                hy_utf8_stream_put(&u, cases[i].in + x, y - x, &b);
                hy_utf8_stream_put(&u, cases[i].in + y, n - y, &b);
                hy_utf8_stream_end(&u, &b);
                assert_int_equal(b.len, cases[i].n_out);
                if (b.len) assert_memory_equal(b.data, cases[i].out, b.len);
                hy_buf_free(&b);
            }
        }
    }
    hy_buf b = { 0 };
    hy_utf8_stream u = { 0 };
    hy_utf8_stream_put(&u, "a\xe2\x82", 3, &b);
    assert_int_equal(b.len, 1);
    hy_utf8_stream_put(&u, "\xac" "b", 2, &b);
    assert_int_equal(b.len, 5);
    hy_buf_free(&b);
}

static void test_every_rune(void **state)
{
    for (uint32_t r = 0; r <= 0x10FFFF; r++) {
        if (r == 0xD800) r = 0xE000;
        char s[4];
        uint32_t back;
        size_t n = hy_utf8_put(r, s);
        assert_int_equal(hy_utf8_next(s, n, &back), n);
        assert_int_equal(back, r);
    }
    char s[4];
    assert_int_equal(hy_utf8_put(0xD800, s), 3);
    assert_memory_equal(s, "\xEF\xBF\xBD", 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repair),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_every_rune),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
