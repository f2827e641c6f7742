/* kv: pool and page tables, one behaviour at a time. */
#include "kv/kv.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static hy_kv *open_kv(uint32_t n_page)
{
    const hy_kv_group g[2] = {
        { .window = 0, .n_layer = 2, .page_bytes = 256, .part_bytes = 64, .n_page = n_page },
        { .window = 40, .n_layer = 1, .page_bytes = 128, .part_bytes = 64, .n_page = n_page },
    };
    hy_kv *kv = NULL;
    hy_err err;
    assert_int_equal(hy_kv_open(&kv, g, 2, &err), HY_OK);
    return kv;
}

static void check(const hy_kv *kv, const hy_page_table *a, const hy_page_table *b)
{
    const hy_page_table *t[2] = { a, b };
    hy_err err = { 0 };
    hy_status st = hy_kv_check(kv, t, b ? 2 : 1, &err);
    if (st != HY_OK) fail_msg("%s", err.msg);
}

static void reserve_and_truncate(void **state)
{
    (void)state;
    hy_kv *kv = open_kv(8);
    hy_page_table t;
    assert_int_equal(hy_page_table_init(kv, &t, 200, NULL), HY_OK);
    assert_int_equal(hy_kv_need(kv, 0, 17), 2);
    assert_int_equal(hy_kv_reserve(kv, &t, 17, NULL), HY_OK);
    assert_int_equal(hy_kv_free_pages(kv, 0), 6);
    assert_int_equal(hy_kv_reserve(kv, &t, 32, NULL), HY_OK);
    assert_int_equal(hy_kv_free_pages(kv, 0), 6);
    hy_err err;
    assert_int_equal(hy_kv_reserve(kv, &t, 129, &err), HY_E_LIMIT);
    assert_non_null(strstr(err.msg, "6 of 8"));
    assert_int_equal(t.n_tok, 32);
    assert_int_equal(hy_kv_reserve(kv, &t, 201 + 15, &err), HY_E_LIMIT);
    check(kv, &t, NULL);
    hy_kv_truncate(kv, &t, 16);
    assert_int_equal(hy_kv_free_pages(kv, 0), 7);
    check(kv, &t, NULL);
    hy_page_table_free(kv, &t);
    assert_int_equal(hy_kv_free_pages(kv, 0), 8);
    assert_int_equal(hy_kv_free_pages(kv, 1), 8);
    hy_kv_close(kv);
}

static void fork_copies_on_write(void **state)
{
    (void)state;
    hy_kv *kv = open_kv(8);
    hy_page_table a, b;
    hy_page_table_init(kv, &a, 100, NULL);
    hy_page_table_init(kv, &b, 100, NULL);
    hy_kv_reserve(kv, &a, 20, NULL);
    for (uint32_t i = 0; i < 4; i++) memset(hy_kv_part(kv, 0, a.page[0][1], i), 7 + (int)i, 64);
    assert_int_equal(hy_kv_fork(kv, &b, &a, 20, NULL), HY_OK);
    assert_int_equal(hy_kv_free_pages(kv, 0), 6);
    check(kv, &a, &b);
    assert_int_equal(a.page[0][1], b.page[0][1]);
    assert_int_equal(hy_kv_reserve(kv, &b, 21, NULL), HY_OK);
    assert_int_equal(a.page[0][0], b.page[0][0]);
    assert_int_not_equal(a.page[0][1], b.page[0][1]);
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t k = 0; k < 64; k++) assert_int_equal(hy_kv_part(kv, 0, b.page[0][1], i)[k], 7 + i);
    check(kv, &a, &b);
    /* a now holds its last page alone: no copy */
    uint32_t own = a.page[0][1];
    assert_int_equal(hy_kv_reserve(kv, &a, 21, NULL), HY_OK);
    assert_int_equal(a.page[0][1], own);
    /* a full last page is never copied */
    hy_kv_truncate(kv, &b, 0);
    hy_kv_truncate(kv, &a, 16);
    assert_int_equal(hy_kv_fork(kv, &b, &a, 16, NULL), HY_OK);
    assert_int_equal(hy_kv_reserve(kv, &b, 17, NULL), HY_OK);
    assert_int_equal(a.page[0][0], b.page[0][0]);
    check(kv, &a, &b);
    assert_int_equal(hy_kv_fork(kv, &b, &a, 16, NULL), HY_E_ARG);
    hy_page_table_free(kv, &a);
    check(kv, &b, NULL);
    hy_page_table_free(kv, &b);
    hy_kv_close(kv);
}

/* Parts of all pages lie in the region, none on another; a part of neighbours of a chunk lies part_bytes apart, and a
 * chunk's parts follow each other. Pool sizes around whole chunks. */
static void parts_lie_side_by_side(void **state)
{
    (void)state;
    static const uint32_t sizes[] = { 1, 15, 16, 17, 37 };
    for (size_t z = 0; z < HY_COUNT(sizes); z++) {
        hy_kv *kv = open_kv(sizes[z]);
        for (uint32_t g = 0; g < 2; g++) {
            const hy_kv_group *grp = hy_kv_group_of(kv, g);
            uint32_t n_part = (uint32_t)(grp->page_bytes / grp->part_bytes), n_in = grp->n_page * n_part;
            uint64_t n_bytes;
            const uint8_t *mem = hy_kv_region(kv, g, &n_bytes);
            assert_true(n_bytes == sizes[z] * grp->page_bytes); /* nothing beside the pages */
            uint8_t *taken = hy_calloc((size_t)n_bytes, 1);
            assert_non_null(taken);
            for (uint32_t k = 0; k < n_in; k++) {
                uint32_t page = k / n_part, i = k % n_part, n_left = grp->n_page - page / HY_KV_CHUNK * HY_KV_CHUNK;
                const uint8_t *part = hy_kv_part(kv, g, page, i);
                assert_true(part >= mem && part + grp->part_bytes <= mem + n_bytes);
                for (uint64_t b = 0; b < grp->part_bytes; b++) assert_int_equal(taken[part - mem + b]++, 0);
                if (page % HY_KV_CHUNK) assert_ptr_equal(part, hy_kv_part(kv, g, page - 1, i) + grp->part_bytes);
                else if (i) assert_ptr_equal(part, hy_kv_part(kv, g, page, i - 1) + HY_MIN(n_left, HY_KV_CHUNK) * grp->part_bytes);
                else assert_ptr_equal(part, mem + page * grp->page_bytes);
            }
            hy_free(taken);
        }
        hy_kv_close(kv);
    }
}

/* Several parts, and pages on both sides of a chunk's end: writes of one page reach no other. */
static void copies_cross_chunks(void **state)
{
    (void)state;
    enum { N = 19 * 16 + 5, N_PAGE = 21 };
    hy_kv *kv = open_kv(N_PAGE);
    hy_page_table a, b;
    hy_page_table_init(kv, &a, N + 16, NULL);
    hy_page_table_init(kv, &b, N + 16, NULL);
    assert_int_equal(hy_kv_reserve(kv, &a, N, NULL), HY_OK);
    for (uint32_t k = 0; k < N_PAGE; k++)
        for (uint32_t i = 0; i < 4; i++) memset(hy_kv_part(kv, 0, k, i), (int)(k * 4 + i), 64);
    assert_int_equal(hy_kv_fork(kv, &b, &a, N, NULL), HY_OK);
    assert_int_equal(hy_kv_reserve(kv, &b, N + 1, NULL), HY_OK);
    uint32_t from = a.page[0][19], to = b.page[0][19];
    assert_true(from != to && to == N_PAGE - 1);
    for (uint32_t k = 0; k < N_PAGE; k++)
        for (uint32_t i = 0; i < 4; i++)
            for (uint32_t c = 0; c < 64; c++)
                assert_int_equal(hy_kv_part(kv, 0, k, i)[c], (k == to ? from : k) * 4 + i);
    check(kv, &a, &b);
    hy_page_table_free(kv, &a);
    hy_page_table_free(kv, &b);
    hy_kv_close(kv);
}

static void windows_slide(void **state)
{
    (void)state;
    hy_kv *kv = open_kv(16);
    hy_page_table t;
    hy_page_table_init(kv, &t, 200, NULL);
    hy_kv_reserve(kv, &t, 100, NULL);
    hy_kv_slide(kv, &t, 55); /* 55 - 40 = 15: page 0 still holds token 15 */
    assert_int_equal(t.page_first[1], 0);
    hy_kv_slide(kv, &t, 100); /* tokens below 60 are not seen any more: pages 0..2 */
    assert_int_equal(t.page_first[1], 3);
    assert_int_equal(t.page[1][2], HY_KV_NO_PAGE);
    assert_int_equal(t.page_first[0], 0);
    assert_int_equal(hy_kv_free_pages(kv, 1), 16 - 4);
    check(kv, &t, NULL);
    hy_kv_truncate(kv, &t, 30);
    check(kv, &t, NULL);
    hy_page_table_free(kv, &t);
    assert_int_equal(hy_kv_free_pages(kv, 1), 16);
    hy_kv_close(kv);
}

static void check_finds_faults(void **state)
{
    (void)state;
    hy_kv *kv = open_kv(4);
    hy_page_table t;
    hy_page_table_init(kv, &t, 64, NULL);
    hy_kv_reserve(kv, &t, 40, NULL);
    const hy_page_table *list[1] = { &t };
    hy_err err;
    uint32_t page = t.page[0][1];
    t.page[0][1] = t.page[0][0];
    assert_int_equal(hy_kv_check(kv, list, 1, &err), HY_E_INTERNAL);
    t.page[0][1] = HY_KV_NO_PAGE;
    assert_int_equal(hy_kv_check(kv, list, 1, &err), HY_E_INTERNAL);
    t.page[0][1] = 3; /* on the free list */
    assert_int_equal(hy_kv_check(kv, list, 1, &err), HY_E_INTERNAL);
    t.page[0][1] = page;
    assert_int_equal(hy_kv_check(kv, list, 1, &err), HY_OK);
    assert_int_equal(hy_kv_check(kv, list, 0, &err), HY_E_INTERNAL); /* held by nobody */
    hy_page_table_free(kv, &t);
    hy_kv_close(kv);
}

static void bad_pools_are_refused(void **state)
{
    (void)state;
    hy_kv *kv = NULL;
    hy_kv_group g = { .n_layer = 1, .page_bytes = UINT64_MAX / 2, .part_bytes = UINT64_MAX / 2, .n_page = 8 };
    assert_int_equal(hy_kv_open(&kv, &g, 1, NULL), HY_E_LIMIT);
    g.page_bytes = g.part_bytes = UINT64_MAX / 16 + 1; /* a chunk of them overflows */
    g.n_page = 1;
    assert_int_equal(hy_kv_open(&kv, &g, 1, NULL), HY_E_LIMIT);
    g.page_bytes = 0;
    assert_int_equal(hy_kv_open(&kv, &g, 1, NULL), HY_E_ARG);
    hy_err err = { 0 };
    static const struct {
        uint64_t page_bytes, part_bytes;
    } bad[] = { { 256, 0 }, { 256, 96 }, { 256, 512 }, { 1ull << 32, 1 } };
    for (size_t i = 0; i < HY_COUNT(bad); i++) {
        g.page_bytes = bad[i].page_bytes;
        g.part_bytes = bad[i].part_bytes;
        assert_int_equal(hy_kv_open(&kv, &g, 1, &err), HY_E_ARG);
        assert_non_null(strstr(err.msg, "whole parts"));
    }
    assert_int_equal(hy_kv_open(&kv, &g, 0, NULL), HY_E_ARG);
    hy_kv_close(NULL);
    const hy_kv_group ok[2] = { { .n_layer = 1, .page_bytes = 64, .part_bytes = 64, .n_page = 8 },
                                { .n_layer = 1, .page_bytes = 64, .part_bytes = 64, .n_page = 8, .window = 32 } };
    hy_status st = HY_E_MEMORY;
    int n = 0;
    for (; st == HY_E_MEMORY; n++) { /* each allocation of opening in turn */
        assert_true(n < 100);
        hy_alloc_fail_after(n);
        st = hy_kv_open(&kv, ok, 2, NULL);
        hy_alloc_fail_after(-1);
    }
    assert_int_equal(st, HY_OK);
    assert_true(n > 10);
    hy_kv_close(kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reserve_and_truncate), cmocka_unit_test(fork_copies_on_write),
        cmocka_unit_test(parts_lie_side_by_side), cmocka_unit_test(copies_cross_chunks),
        cmocka_unit_test(windows_slide), cmocka_unit_test(check_finds_faults),
        cmocka_unit_test(bad_pools_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
