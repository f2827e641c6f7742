/* base: errors, parsing, hash, random numbers, log, files. */
#include "base/base.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_errors(void **state)
{
    hy_err e = {0};
    assert_int_equal(hy_fail(&e, HY_E_LIMIT, "n %d", 5), HY_E_LIMIT);
    assert_string_equal(e.msg, "n 5");
    assert_int_equal(hy_err_prefix(&e, HY_E_LIMIT, "file %s", "a"), HY_E_LIMIT);
    assert_string_equal(e.msg, "file a: n 5");
    hy_fail(&e, HY_E_IO, "again: %s", e.msg);
    assert_string_equal(e.msg, "again: file a: n 5");
    assert_int_equal(e.code, HY_E_IO);
    char longer[600];
    memset(longer, 'x', 599), longer[599] = 0;
    hy_err_prefix(&e, HY_E_IO, "%s", longer);
    assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
    assert_int_equal(hy_fail(NULL, HY_E_ARG, "x"), HY_E_ARG);
    assert_int_equal(hy_err_prefix(NULL, HY_E_ARG, "x"), HY_E_ARG);
    assert_int_equal(hy_fail_memory(&e, "pages", 77), HY_E_MEMORY);
    assert_non_null(strstr(e.msg, "77"));
    for (int s = HY_OK; s <= HY_E_INTERNAL; s++) assert_true(strlen(hy_status_name(s)) > 1);
    assert_string_equal(hy_status_name(HY_E_FORMAT), "format");
    assert_non_null(hy_status_name((hy_status)99));
}

static void test_parse_int(void **state)
{
    uint64_t u = 3;
    int64_t i = 3;
    hy_err e = {0};
    assert_int_equal(hy_parse_u64("n", "18446744073709551615", 0, UINT64_MAX, &u, &e), HY_OK);
    assert_true(u == UINT64_MAX);
    const char *const bad[] = {"", " 1", "1 ", "-1", "+1", "0x10", "1e3", "18446744073709551616",
                               "99999999999999999999999", "1.0"};
    for (size_t k = 0; k < HY_COUNT(bad); k++) {
        assert_int_equal(hy_parse_u64("--n", bad[k], 0, UINT64_MAX, &u, &e), HY_E_ARG);
        assert_true(u == UINT64_MAX);
        assert_non_null(strstr(e.msg, "--n"));
    }
    assert_int_equal(hy_parse_u64("--threads", "300", 1, 256, &u, &e), HY_E_ARG);
    assert_string_equal(e.msg, "--threads: 300 is not within 1 to 256");
    assert_int_equal(hy_parse_i64("n", "-9223372036854775808", INT64_MIN, INT64_MAX, &i, &e), HY_OK);
    assert_true(i == INT64_MIN);
    assert_int_equal(hy_parse_i64("n", "9223372036854775807", INT64_MIN, INT64_MAX, &i, &e), HY_OK);
    assert_true(i == INT64_MAX);
    assert_int_equal(hy_parse_i64("n", "9223372036854775808", INT64_MIN, INT64_MAX, &i, &e), HY_E_ARG);
    assert_int_equal(hy_parse_i64("n", "-9223372036854775809", INT64_MIN, INT64_MAX, &i, &e), HY_E_ARG);
    assert_int_equal(hy_parse_i64("n", "--5", -9, 9, &i, &e), HY_E_ARG);
    assert_int_equal(hy_parse_i64("n", "-", -9, 9, &i, &e), HY_E_ARG);
    assert_int_equal(hy_parse_i64("n", "-5", -9, 9, &i, &e), HY_OK);
    assert_int_equal(i, -5);
}

static void test_parse_float(void **state)
{
    double d = 1;
    hy_err e = {0};
    assert_int_equal(hy_parse_f64("t", "0.7", 0, 2, &d, &e), HY_OK);
    assert_true(d == 0.7);
    assert_int_equal(hy_parse_f64("t", "-1e-3", -1, 2, &d, &e), HY_OK);
    assert_true(d == -1e-3);
    const char *const bad[] = {"", "nan", "inf", "-inf", "1e999", "0x1p3", "1,5", "1.5x", " 1", "-",
                               "e5", "2.1"};
    for (size_t k = 0; k < HY_COUNT(bad); k++)
        assert_int_equal(hy_parse_f64("t", bad[k], 0, 2, &d, &e), HY_E_ARG);
    assert_true(d == -1e-3);
}

static void test_parse_bytes(void **state)
{
    static const struct { const char *s; uint64_t v; } good[] = {
        {"0", 0}, {"512", 512}, {"512B", 512}, {"16K", 16384}, {"16kb", 16384}, {"16KiB", 16384},
        {"4.5GiB", 4831838208u}, {"2g", 2147483648u}, {"1.5T", 1649267441664u}, {"0.5k", 512},
        {"16777215T", 18446742974197923840u}};
    uint64_t v;
    hy_err e = {0};
    for (size_t k = 0; k < HY_COUNT(good); k++) {
        assert_int_equal(hy_parse_bytes("m", good[k].s, &v, &e), HY_OK);
        assert_true(v == good[k].v);
    }
    const char *const bad[] = {"", "K", "4.5", ".5K", "5.K", "1X", "1KiBs", "1Ki", "-1K", " 1", "1 K",
                               "16777216T", "99999999999999999999", "1Kb2"};
    for (size_t k = 0; k < HY_COUNT(bad); k++)
        assert_int_equal(hy_parse_bytes("m", bad[k], &v, &e), HY_E_ARG);
}

static void test_checked_math(void **state)
{
    uint64_t v = 9;
    assert_false(hy_mul_u64(UINT64_MAX, 2, &v));
    assert_false(hy_add_u64(UINT64_MAX, 1, &v));
    assert_int_equal(v, 9);
    assert_true(hy_mul_u64(3, 4, &v));
    assert_int_equal(v, 12);
}

/* Values of the reference implementation (python-xxhash 3). */
static void test_hash(void **state)
{
    uint8_t bytes[200];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 7 + 3);
    static const struct { size_t n; uint64_t seed, want; } cases[] = {
        {0, 0x0u, 0xef46db3751d8e999u},
        {0, 0x123456789abcdefu, 0x51e24c0e9077a48cu},
        {1, 0x0u, 0x1f25c8d0bc1f4bb6u},
        {1, 0x123456789abcdefu, 0x20f9f4e3fba1be06u},
        {3, 0x0u, 0x31d2363f52e564c9u},
        {3, 0x123456789abcdefu, 0x076b77199119d7ddu},
        {4, 0x0u, 0x9bb64b7d66ee9fdau},
        {4, 0x123456789abcdefu, 0x27a7e5587a8a5c2eu},
        {7, 0x0u, 0x9a7b149959ce60d8u},
        {7, 0x123456789abcdefu, 0xcff13e1a810bec27u},
        {8, 0x0u, 0xdab99d95c6f90092u},
        {8, 0x123456789abcdefu, 0x841e06da64a07ce8u},
        {12, 0x0u, 0xd52e407833af5133u},
        {12, 0x123456789abcdefu, 0xbffccf3339b09e6au},
        {31, 0x0u, 0xa2aa5f33cc4a6119u},
        {31, 0x123456789abcdefu, 0x6ba872e910fbce5cu},
        {32, 0x0u, 0x23c3c17ef790fd97u},
        {32, 0x123456789abcdefu, 0x25cc07da699894a9u},
        {33, 0x0u, 0x50a7cfc7ba588784u},
        {33, 0x123456789abcdefu, 0xbf84912d4dea9670u},
        {63, 0x0u, 0x5e3e54b431c7493cu},
        {63, 0x123456789abcdefu, 0x737629700e723da5u},
        {64, 0x0u, 0x0eb64b3ef6eeb01fu},
        {64, 0x123456789abcdefu, 0xfded24eb11992703u},
        {100, 0x0u, 0xa61f8d4c170fe531u},
        {100, 0x123456789abcdefu, 0xfe1fce732c97c212u},
        {199, 0x0u, 0xf7efd3430a01de39u},
        {199, 0x123456789abcdefu, 0xc4903c6ce2648306u},
    };
    for (size_t k = 0; k < HY_COUNT(cases); k++)
        assert_true(hy_hash64(bytes, cases[k].n, cases[k].seed) == cases[k].want);
    assert_true(hy_hash64("abc", 3, 0) == 0x44BC2CF5AD770999u);
}

/* Known answers of the Philox4x32-10 authors' own test (kat_vectors of Random123). */
static void test_rng(void **state)
{
    assert_true(hy_rng_at(0, 0, 0) == 0xe169c58d6627e8d5u);
    assert_true(hy_rng_at(UINT64_MAX, UINT64_MAX, UINT64_MAX) == 0x41c83b0e408f276du);
    assert_true(hy_rng_at(0x299f31d0a4093822u, 0x0370734413198a2eu, 0x85a308d3243f6a88u) ==
                0x94fdccebd16cfe09u);
    assert_true(hy_rng_unit(0) > 0 && hy_rng_unit(UINT64_MAX) < 1);
    double sum = 0, sq = 0;
    enum { n = 100000 };
    for (uint64_t i = 0; i < n; i++) {
        double u = hy_rng_unit(hy_rng_at(1, 2, i));
        sum += u, sq += u * u;
    }
    assert_true(sum / n > 0.497 && sum / n < 0.503);
    assert_true(sq / n > 0.330 && sq / n < 0.337);
}

typedef struct lines { int n; char last[2100]; hy_log_level level; } lines;
static void keep_line(void *ctx, hy_log_level level, const char *line)
{
    lines *l = ctx;
    l->n++;
    l->level = level;
    snprintf(l->last, sizeof l->last, "%s", line);
}

static void test_log(void **state)
{
    lines l = {0};
    hy_log_set_sink(keep_line, &l);
    hy_log(HY_LOG_INFO, "kv: evicted", "pages=%d", 3);
    assert_int_equal(l.n, 0);
    hy_log_set_level(HY_LOG_DEBUG);
    hy_log(HY_LOG_INFO, "kv: evicted", "pages=%d name=%s", 3, "a\nb");
    assert_int_equal(l.n, 1);
    assert_int_equal(l.level, HY_LOG_INFO);
    assert_non_null(strstr(l.last, "Z info kv: evicted pages=3 name=a b"));
    hy_log(HY_LOG_WARN, "plain", NULL);
    assert_non_null(strstr(l.last, "Z warn plain"));
    hy_log(HY_LOG_TRACE, "no", NULL);
    assert_int_equal(l.n, 2);
    char longer[4000];
    memset(longer, 'y', sizeof longer - 1), longer[sizeof longer - 1] = 0;
    hy_log(HY_LOG_ERROR, longer, "%s", longer);
    assert_int_equal(l.n, 3);
    hy_log_set_sink(NULL, NULL);
    hy_log_set_level(HY_LOG_WARN);
}

static void test_files(void **state)
{
    char dir[] = P_tmpdir "/hy_base_XXXXXX", path[64], fifo[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/f", dir);
    snprintf(fifo, sizeof fifo, "%s/p", dir);
    enum { n = 100001 };
    char *bytes = hy_alloc(n), *back;
    for (size_t i = 0; i < n; i++) bytes[i] = (char)(i * 31 % 251);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);

    hy_map m;
    hy_err e = {0};
    size_t got;
    assert_int_equal(hy_map_open(&m, path, &e), HY_OK);
    assert_int_equal(m.bytes, n);
    assert_memory_equal(m.data, bytes, n);
    hy_map_done_with(&m, 0, n);
    hy_map_done_with(&m, 5000, UINT64_MAX);
    hy_map_done_with(&m, UINT64_MAX, 5);
    assert_memory_equal(m.data, bytes, n); /* dropped pages come back from the file */
    hy_map_close(&m);
    hy_map_close(&m);
    hy_map_close(&(hy_map){0});
    assert_int_equal(hy_read_file(path, n, &back, &got, &e), HY_OK);
    assert_int_equal(got, n);
    assert_memory_equal(back, bytes, n);
    assert_int_equal(back[n], 0);
    hy_free(back);
    assert_int_equal(hy_read_file(path, n - 1, &back, &got, &e), HY_E_LIMIT);
    hy_alloc_fail_after(0);
    assert_int_equal(hy_read_file(path, n, &back, &got, &e), HY_E_MEMORY);
    assert_true(hy_is_file(path) && !hy_is_dir(path) && hy_is_dir(dir) && !hy_is_file(dir));

    fclose(fopen(path, "wb"));
    assert_int_equal(hy_map_open(&m, path, &e), HY_OK);
    assert_true(!m.data && m.bytes == 0);
    hy_map_close(&m);
    assert_int_equal(hy_read_file(path, 0, &back, &got, &e), HY_OK);
    assert_int_equal(got, 0);
    hy_free(back);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(hy_map_open(&m, fifo, &e), HY_E_IO);
    assert_int_equal(hy_map_open(&m, dir, &e), HY_E_IO);
    unlink(path);
    unlink(fifo);
    assert_int_equal(hy_map_open(&m, path, &e), HY_E_IO);
    assert_non_null(strstr(e.msg, path));
    assert_int_equal(hy_read_file(path, 9, &back, &got, &e), HY_E_IO);
    rmdir(dir);
    hy_free(bytes);
}

static void test_time(void **state)
{
    uint64_t a = hy_now_ns(), b = hy_now_us();
    usleep(2000);
    assert_true(hy_now_ns() - a >= 2000000 && hy_now_us() - b >= 1999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors),      cmocka_unit_test(test_parse_int),
        cmocka_unit_test(test_parse_float), cmocka_unit_test(test_parse_bytes),
        cmocka_unit_test(test_checked_math), cmocka_unit_test(test_hash),
        cmocka_unit_test(test_rng),         cmocka_unit_test(test_log),
        cmocka_unit_test(test_files),       cmocka_unit_test(test_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
