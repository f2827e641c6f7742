/* base: allocation hooks, arena, buf. */
#include "base/base.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

static void test_alloc_overflow(void **state)
{
    assert_null(hy_alloc(SIZE_MAX));
    assert_null(hy_calloc(SIZE_MAX / 2, 3));
    assert_null(hy_alloc_array(SIZE_MAX / 8, 16));
    assert_null(hy_realloc_array(NULL, SIZE_MAX / 8, 16));
    assert_null(hy_alloc_big(SIZE_MAX - 5));
    void *p = hy_alloc(0);
    assert_non_null(p);
    hy_free(p);
    hy_free(NULL);
    hy_free_big(NULL, 5);
}

static void test_fail_hook(void **state)
{
    uint64_t before = hy_alloc_count();
    hy_alloc_fail_after(2);
    void *a = hy_alloc(1), *b = hy_calloc(1, 1), *c = hy_alloc(1), *d = hy_alloc(1);
    assert_non_null(a);
    assert_non_null(b);
    assert_null(c);
    assert_non_null(d);
    assert_int_equal(hy_alloc_count() - before, 3);
    /* A failed realloc leaves the old block. */
    memset(a, 7, 1);
    hy_alloc_fail_after(0);
    assert_null(hy_realloc(a, 100));
    assert_int_equal(*(uint8_t *)a, 7);
    hy_alloc_fail_after(0);
    hy_alloc_fail_after(-1);
    void *e = hy_alloc(1);
    assert_non_null(e);
    hy_free(a), hy_free(b), hy_free(d), hy_free(e);
}

static void test_big(void **state)
{
    const size_t sizes[] = {0, 1, 4096, 5000, HY_MIB, 2 * HY_MIB, 2 * HY_MIB + 1, 9 * HY_MIB};
    for (size_t i = 0; i < HY_COUNT(sizes); i++) {
        uint8_t *p = hy_alloc_big(sizes[i]);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % HY_ALIGN, 0);
        if (sizes[i] >= 2 * HY_MIB) assert_int_equal((uintptr_t)p % (2 * HY_MIB), 0);
        for (size_t k = 0; k < sizes[i]; k += 1021) {
            assert_int_equal(p[k], 0);
            p[k] = 1;
        }
        if (sizes[i]) p[sizes[i] - 1] = 2;
        hy_free_big(p, sizes[i]);
    }
}

static void test_strings(void **state)
{
    char *s = hy_strdup("hayate"), *t = hy_strndup("a\0b", 3);
    assert_string_equal(s, "hayate");
    assert_memory_equal(t, "a\0b", 4);
    hy_free(s), hy_free(t);
}

static void test_arena(void **state)
{
    hy_arena *a = hy_arena_new(1024);
    assert_non_null(a);
    size_t held = 0;
    for (int turn = 0; turn < 3; turn++) {
        uint8_t *p[200];
        for (size_t i = 0; i < HY_COUNT(p); i++) {
            size_t n = 1 + i * 37 % 300, align = (size_t)1 << i % 8;
            p[i] = hy_arena_alloc(a, n, align);
            assert_non_null(p[i]);
            assert_int_equal((uintptr_t)p[i] % align, 0);
            for (size_t k = 0; k < n; k++) assert_int_equal(p[i][k], 0);
            memset(p[i], (int)i, n);
        }
        for (size_t i = 0; i < HY_COUNT(p); i++)
            for (size_t k = 0; k < 1 + i * 37 % 300; k++) assert_int_equal(p[i][k], i);
        /* The same requests after a reset fit into what is held. */
        if (turn) assert_int_equal(hy_arena_bytes(a), held);
        held = hy_arena_bytes(a);
        hy_arena_reset(a);
    }
    assert_non_null(hy_arena_alloc(a, 0, 1));
    assert_non_null(hy_arena_alloc(a, 100000, 64)); /* larger than a block */
    assert_null(hy_arena_alloc(a, SIZE_MAX - 3, 8));
    assert_null(HY_ARENA_NEW(a, uint64_t, SIZE_MAX / 4));
    assert_string_equal(hy_arena_strndup(a, "abcdef", 3), "abc");
    hy_arena_free(a);
    hy_arena_free(NULL);
}

static void test_arena_out_of_memory(void **state)
{
    hy_alloc_fail_after(0);
    assert_null(hy_arena_new(64));
    hy_arena *a = hy_arena_new(64);
    hy_alloc_fail_after(0);
    assert_null(hy_arena_alloc(a, 10, 1));
    assert_non_null(hy_arena_alloc(a, 10, 1));
    hy_arena_free(a);
}

static void test_buf(void **state)
{
    hy_buf b = {0};
    hy_buf_put(&b, NULL, 0);
    assert_string_equal(b.data, "");
    hy_buf_str(&b, "abc");
    hy_buf_char(&b, '-');
    hy_buf_printf(&b, "%d/%s", 42, "x");
    assert_string_equal(b.data, "abc-42/x");
    assert_int_equal(b.len, 8);
    hy_buf_reset(&b);
    assert_string_equal(b.data, "");
    char longer[5000];
    memset(longer, 'z', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    hy_buf_printf(&b, "<%s>", longer);
    assert_int_equal(b.len, sizeof longer + 1);
    assert_int_equal(b.data[b.len - 1], '>');
    for (int i = 0; i < 100000; i++) hy_buf_char(&b, 'q');
    assert_int_equal(b.len, sizeof longer + 1 + 100000);
    assert_false(b.failed);
    assert_false(hy_buf_reserve(&b, SIZE_MAX - 1));
    assert_true(b.failed);
    hy_buf_free(&b);
    assert_null(b.data);
}

static void test_buf_out_of_memory(void **state)
{
    hy_buf b = {0};
    hy_buf_str(&b, "kept");
    char big[200] = {0};
    hy_alloc_fail_after(0);
    hy_buf_put(&b, big, sizeof big);
    assert_true(b.failed);
    hy_buf_str(&b, "ignored");
    assert_string_equal(b.data, "kept");
    hy_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc_overflow), cmocka_unit_test(test_fail_hook),
        cmocka_unit_test(test_big),            cmocka_unit_test(test_strings),
        cmocka_unit_test(test_arena),          cmocka_unit_test(test_arena_out_of_memory),
        cmocka_unit_test(test_buf),            cmocka_unit_test(test_buf_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
