/* kv: the prefix cache, one behaviour at a time. */
#include "kv_help.h"

static hy_kv_cache_stats stats(const hy_kv *kv)
{
    hy_kv_cache_stats st;
    hy_kv_cache_stats_of(kv, &st);
    return st;
}

static void put_and_take(void **state)
{
    (void)state;
    hy_kv *kv = open_pool(16, 0);
    seq *a = new_seq(kv), *b = new_seq(kv);
    count_up(a, 0, 100);
    assert_int_equal(hy_kv_cache_peek(kv, 1, a->ids, 100), 0);
    fill(kv, a, 40);
    hy_kv_cache_put(kv, &a->t, 1, a->ids, 40);
    assert_int_equal(stats(kv).n_node, 2); /* full pages only */
    assert_int_equal(hy_kv_cache_peek(kv, 1, a->ids, 100), 32);
    assert_int_equal(hy_kv_cache_peek(kv, 1, a->ids, 33), 32);
    assert_int_equal(hy_kv_cache_peek(kv, 1, a->ids, 32), 16); /* the last token is always computed */
    assert_int_equal(hy_kv_cache_peek(kv, 1, a->ids, 17), 16);
    assert_int_equal(hy_kv_cache_peek(kv, 1, a->ids, 16), 0);
    assert_int_equal(hy_kv_cache_peek(kv, 1, a->ids, 0), 0);
    /* while a lives, b shares its pages */
    memcpy(b->ids, a->ids, sizeof a->ids);
    b->ids[20] = -5;
    assert_int_equal(hy_kv_cache_take(kv, &b->t, 1, b->ids, 100), 16);
    assert_int_equal(b->t.page[0][0], a->t.page[0][0]);
    assert_int_equal(hy_kv_refs(kv, 0, a->t.page[0][0]), 3);
    assert_int_equal(hy_kv_page_state(kv, 0, a->t.page[0][0]), 2);
    assert_int_equal(hy_kv_page_state(kv, 0, a->t.page[0][1]), 1);
    assert_int_equal(fill(kv, b, 60), HY_OK);
    read_back(kv, a);
    read_back(kv, b);
    sound(kv, a, b);
    hy_kv_cache_put(kv, &b->t, 1, b->ids, 60);
    assert_int_equal(stats(kv).n_node, 4);
    assert_int_equal(stats(kv).n_idle, 0);
    uint32_t page = a->t.page[0][1];
    free_seq(kv, a);
    assert_int_equal(stats(kv).n_idle, 1);
    assert_int_equal(hy_kv_page_state(kv, 0, page), 3);
    assert_int_equal(hy_kv_page_state(kv, 0, 15), 0);
    assert_int_equal(hy_kv_available(kv, 0), 16 - 4);
    assert_int_equal(hy_kv_free_pages(kv, 0), 16 - 5);
    hy_kv_cache_clear(kv);
    sound(kv, b, NULL);
    assert_int_equal(hy_kv_free_pages(kv, 0), 12);
    assert_int_equal(stats(kv).n_node, 0);
    read_back(kv, b);
    assert_int_equal(stats(kv).query_tok, 100);
    assert_int_equal(stats(kv).hit_tok, 16);
    free_seq(kv, b);
    hy_kv_close(kv);
}

static void tenants_do_not_meet(void **state)
{
    (void)state;
    hy_kv *kv = open_pool(16, 0);
    seq *a = new_seq(kv), *b = new_seq(kv);
    count_up(a, 0, 40);
    count_up(b, 0, 40);
    fill(kv, a, 40);
    hy_kv_cache_put(kv, &a->t, 1, a->ids, 40);
    assert_int_equal(hy_kv_cache_peek(kv, 2, a->ids, 40), 0);
    assert_int_equal(hy_kv_cache_peek(kv, 1 + (1ull << 40), a->ids, 40), 0);
    assert_int_equal(hy_kv_cache_take(kv, &b->t, 2, b->ids, 40), 0);
    fill(kv, b, 40);
    hy_kv_cache_put(kv, &b->t, 2, b->ids, 40);
    assert_int_equal(stats(kv).n_node, 4);
    assert_int_not_equal(a->t.page[0][0], b->t.page[0][0]);
    /* the pages of one tenant are never told to another, even through the same table */
    hy_kv_cache_put(kv, &a->t, 3, a->ids, 40);
    assert_int_equal(hy_kv_cache_peek(kv, 3, a->ids, 40), 0);
    sound(kv, a, b);
    free_seq(kv, a);
    free_seq(kv, b);
    hy_kv_close(kv);
}

/* Two sequences that computed the same tokens at the same time end up on the same pages. */
static void same_tokens_become_one_page(void **state)
{
    (void)state;
    hy_kv *kv = open_pool(16, 40);
    seq *a = new_seq(kv), *b = new_seq(kv);
    count_up(a, 0, 100);
    count_up(b, 0, 100);
    b->ids[40] = -1;
    fill(kv, a, 50);
    fill(kv, b, 50);
    assert_int_equal(hy_kv_free_pages(kv, 0), 8);
    hy_kv_cache_put(kv, &a->t, 1, a->ids, 50);
    hy_kv_cache_put(kv, &b->t, 1, b->ids, 50);
    assert_int_equal(hy_kv_free_pages(kv, 0), 10);
    assert_int_equal(hy_kv_free_pages(kv, 1), 10);
    assert_int_equal(a->t.page[1][1], b->t.page[1][1]);
    assert_int_not_equal(a->t.page[0][2], b->t.page[0][2]);
    read_back(kv, a);
    read_back(kv, b);
    sound(kv, a, b);
    free_seq(kv, a);
    free_seq(kv, b);
    sound(kv, NULL, NULL);
    hy_kv_close(kv);
}

static void oldest_leaf_goes_first(void **state)
{
    (void)state;
    hy_kv *kv = open_pool(12, 0);
    remember(kv, 0, 48);
    remember(kv, 1000, 48);
    remember(kv, 2000, 48); /* 9 idle, 3 free */
    seq *s = new_seq(kv), *other = new_seq(kv);
    count_up(s, 0, 17);
    assert_int_equal(hy_kv_cache_take(kv, &s->t, 1, s->ids, 17), 16); /* page 0 of the first is in use */
    count_up(other, 5000, 200);
    assert_int_equal(fill(kv, other, 64), HY_OK); /* one page over: the first one's last */
    assert_int_equal(peek(kv, 0, 100), 32);
    assert_int_equal(peek(kv, 1000, 100), 48);
    assert_int_equal(fill(kv, other, 80), HY_OK);
    assert_int_equal(peek(kv, 0, 100), 16);
    assert_int_equal(fill(kv, other, 128), HY_OK); /* then the second, from its end */
    assert_int_equal(peek(kv, 0, 100), 16);
    assert_int_equal(peek(kv, 1000, 100), 0);
    assert_int_equal(peek(kv, 2000, 100), 48);
    assert_int_equal(stats(kv).evicted_tok, 5 * 16);
    assert_int_equal(hy_kv_available(kv, 0), 3);
    assert_int_equal(fill(kv, other, 12 * 16), HY_E_LIMIT); /* page 0 is held: nothing changed */
    assert_int_equal(peek(kv, 2000, 100), 48);
    assert_int_equal(other->t.n_tok, 128);
    free_seq(kv, s);
    assert_int_equal(fill(kv, other, 12 * 16), HY_OK);
    assert_int_equal(stats(kv).n_node, 0);
    sound(kv, other, NULL);
    free_seq(kv, other);
    hy_kv_close(kv);
}

static void a_hit_makes_recent(void **state)
{
    (void)state;
    hy_kv *kv = open_pool(6, 0);
    remember(kv, 0, 32);
    remember(kv, 1000, 32);
    seq *s = new_seq(kv);
    count_up(s, 0, 100);
    assert_int_equal(hy_kv_cache_take(kv, &s->t, 1, s->ids, 100), 32);
    hy_kv_truncate(kv, &s->t, 0);
    count_up(s, 3000, 100);
    fill(kv, s, 64);
    assert_int_equal(peek(kv, 0, 100), 32);
    assert_int_equal(peek(kv, 1000, 100), 0);
    sound(kv, s, NULL);
    free_seq(kv, s);
    hy_kv_close(kv);
}

static void known_pages_are_not_written(void **state)
{
    (void)state;
    hy_kv *kv = open_pool(4, 0);
    seq *s = new_seq(kv), *b = new_seq(kv);
    count_up(s, 0, 100);
    fill(kv, s, 32);
    hy_kv_cache_put(kv, &s->t, 1, s->ids, 32);
    uint32_t page = s->t.page[0][1];
    hy_kv_truncate(kv, &s->t, 20);
    s->ids[20] = -7;
    fill(kv, s, 24); /* into the middle of a known page: a copy */
    assert_int_not_equal(s->t.page[0][1], page);
    assert_int_equal(stats(kv).n_cow, 1);
    read_back(kv, s);
    assert_int_equal(peek(kv, 0, 33), 32);
    count_up(b, 0, 100);
    assert_int_equal(hy_kv_cache_take(kv, &b->t, 1, b->ids, 33), 32);
    read_back(kv, b);
    sound(kv, s, b);
    free_seq(kv, b);
    free_seq(kv, s);
    /* no room for a copy: the cache forgets the page instead, and the sequence goes on with it */
    hy_kv_cache_clear(kv);
    s = new_seq(kv);
    count_up(s, 0, 100);
    fill(kv, s, 64);
    hy_kv_cache_put(kv, &s->t, 1, s->ids, 64);
    hy_kv_truncate(kv, &s->t, 50);
    assert_int_equal(fill(kv, s, 64), HY_OK);
    assert_int_equal(stats(kv).n_node, 3);
    assert_int_equal(stats(kv).n_cow, 1);
    read_back(kv, s);
    sound(kv, s, NULL);
    free_seq(kv, s);
    hy_kv_close(kv);
}

/* A window of 40: a query at position 96 sees tokens from 57 on, so pages 3, 4, 5. */
static void windows(void **state)
{
    (void)state;
    hy_kv *kv = open_pool(16, 40);
    seq *s = new_seq(kv), *b = new_seq(kv);
    count_up(s, 0, 200);
    for (uint32_t n = 8; n <= 104; n += 8) {
        fill(kv, s, n);
        hy_kv_cache_put(kv, &s->t, 1, s->ids, n);
        hy_kv_slide(kv, &s->t, n);
    }
    assert_int_equal(s->t.page_first[1], 4); /* pages 0 ... 3 slid out: the cache alone holds them */
    assert_int_equal(hy_kv_page_state(kv, 0, s->t.page[0][0]), 1);
    assert_int_equal(hy_kv_available(kv, 1), 16 - 3);
    assert_int_equal(hy_kv_free_pages(kv, 1), 16 - 7);
    count_up(b, 0, 200);
    assert_int_equal(hy_kv_cache_take(kv, &b->t, 1, b->ids, 200), 96);
    assert_int_equal(b->t.page_first[1], 3);
    assert_int_equal(b->t.page[1][2], HY_KV_NO_PAGE);
    assert_int_equal(b->t.page_first[0], 0);
    read_back(kv, b);
    sound(kv, s, b);
    free_seq(kv, b);
    assert_int_equal(hy_kv_cache_peek(kv, 1, s->ids, 60), 48);
    free_seq(kv, s);
    hy_kv_close(kv);
}

/* What a long sequence left behind goes first; a hit needs every page that its next query sees. */
static void windowed_pages_run_out(void **state)
{
    (void)state;
    const hy_kv_group g[2] = {
        { .window = 0, .n_layer = 2, .page_bytes = 256, .part_bytes = 64, .n_page = 32 },
        { .window = 32, .n_layer = 1, .page_bytes = 128, .part_bytes = 64, .n_page = 8 },
    };
    hy_kv *kv = NULL;
    assert_int_equal(hy_kv_open(&kv, g, 2, NULL), HY_OK);
    seq *s = new_seq(kv), *b = new_seq(kv);
    count_up(s, 0, 200);
    for (uint32_t n = 16; n <= 96; n += 16) {
        fill(kv, s, n);
        hy_kv_cache_put(kv, &s->t, 1, s->ids, n);
        hy_kv_slide(kv, &s->t, n);
    }
    assert_int_equal(hy_kv_free_pages(kv, 1), 2);
    assert_int_equal(hy_kv_cache_peek(kv, 1, s->ids, 33), 32);
    count_up(b, 1000, 200);
    assert_int_equal(fill(kv, b, 48), HY_OK); /* one windowed page over: page 0 of s */
    assert_int_equal(hy_kv_cache_peek(kv, 1, s->ids, 33), 0);
    assert_int_equal(hy_kv_cache_peek(kv, 1, s->ids, 49), 48); /* 17 ... 47 are seen: pages 1, 2 */
    assert_int_equal(fill(kv, b, 64), HY_OK);
    assert_int_equal(hy_kv_cache_peek(kv, 1, s->ids, 49), 0);
    assert_int_equal(hy_kv_cache_peek(kv, 1, s->ids, 200), 96);
    assert_int_equal(stats(kv).n_node, 6); /* the full group still has them all */
    assert_int_equal(stats(kv).evicted_tok, 0);
    sound(kv, s, b);
    free_seq(kv, s);
    assert_int_equal(peek(kv, 0, 200), 96);
    sound(kv, b, NULL);
    free_seq(kv, b);
    hy_kv_close(kv);
}

/* No full group: nodes carry the way to the pages that a hit needs. */
static void all_windowed(void **state)
{
    (void)state;
    const hy_kv_group g = { .window = 32, .n_layer = 1, .page_bytes = 256, .part_bytes = 256, .n_page = 6 };
    hy_kv *kv = NULL;
    assert_int_equal(hy_kv_open(&kv, &g, 1, NULL), HY_OK);
    seq *s = new_seq(kv);
    count_up(s, 0, 300);
    for (uint32_t n = 16; n <= 240; n += 16) {
        assert_int_equal(fill(kv, s, n), HY_OK);
        hy_kv_cache_put(kv, &s->t, 1, s->ids, n);
        hy_kv_slide(kv, &s->t, n);
        sound(kv, s, NULL);
    }
    assert_int_equal(stats(kv).n_node, 15);
    free_seq(kv, s);
    assert_int_equal(peek(kv, 0, 300), 240);
    remember(kv, 1000, 96); /* takes all pages: the nodes without any go too */
    assert_int_equal(peek(kv, 0, 300), 0);
    assert_int_equal(stats(kv).n_node, 6);
    sound(kv, NULL, NULL);
    hy_kv_close(kv);
}

static void check_sees_the_cache(void **state)
{
    (void)state;
    hy_kv *kv = open_pool(4, 0);
    seq *s = new_seq(kv);
    count_up(s, 0, 100);
    fill(kv, s, 32);
    hy_kv_cache_put(kv, &s->t, 1, s->ids, 32);
    sound(kv, s, NULL);
    hy_err err = { 0 };
    const hy_page_table *none[1] = { NULL };
    assert_int_equal(hy_kv_check(kv, none, 0, &err), HY_E_INTERNAL); /* s holds them, nobody says so */
    uint32_t page = s->t.page[0][0];
    s->t.page[0][0] = s->t.page[0][1];
    const hy_page_table *list[1] = { &s->t };
    assert_int_equal(hy_kv_check(kv, list, 1, &err), HY_E_INTERNAL);
    s->t.page[0][0] = page;
    free_seq(kv, s);
    sound(kv, NULL, NULL);
    hy_kv_close(kv);
}

/* 5000 prompts: nothing grows. */
static void many_prompts(void **state)
{
    (void)state;
    hy_kv *kv = open_pool(64, 48);
    remember(kv, 0, 100);
    uint64_t n_alloc = hy_alloc_count();
    for (int32_t i = 1; i <= 5000; i++) remember(kv, i * 100, 100);
    assert_int_equal(hy_alloc_count() - n_alloc, 5000 * 3); /* a sequence and its tables of two groups */
    assert_int_equal(stats(kv).n_node, 63); /* all but the last prompt's partial page */
    assert_int_equal(peek(kv, 5000 * 100, 100), 96);
    assert_int_equal(peek(kv, 100, 100), 0);
    sound(kv, NULL, NULL);
    hy_kv_close(kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put_and_take),           cmocka_unit_test(tenants_do_not_meet),
        cmocka_unit_test(same_tokens_become_one_page), cmocka_unit_test(oldest_leaf_goes_first),
        cmocka_unit_test(a_hit_makes_recent),     cmocka_unit_test(known_pages_are_not_written),
        cmocka_unit_test(windows),                cmocka_unit_test(windowed_pages_run_out),
        cmocka_unit_test(all_windowed),           cmocka_unit_test(check_sees_the_cache),
        cmocka_unit_test(many_prompts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
