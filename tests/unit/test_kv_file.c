/* kv: a conversation's pages saved and loaded, and files that are not what they should be. */
#include "kv_help.h"
#include <dirent.h>

#define ID 0x1234
#define N_VOCAB 5000

static char path[512];

static void read_whole(char **data, size_t *n)
{
    assert_int_equal(hy_read_file(path, HY_MIB, data, n, NULL), HY_OK);
}

static void write_whole(const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void save_one(uint32_t window)
{
    hy_kv *kv = open_pool(16, window);
    seq *s = new_seq(kv);
    count_up(s, 0, 300);
    fill(kv, s, 110);
    hy_kv_cache_put(kv, &s->t, 1, s->ids, 110);
    uint32_t n = 0;
    temp_path(path, sizeof path, "kvfile");
    assert_int_equal(hy_kv_save(kv, path, ID, 1, s->ids, 110, &n, NULL), HY_OK);
    assert_int_equal(n, 96);
    sound(kv, s, NULL);
    free_seq(kv, s);
    hy_kv_close(kv);
}

static void save_and_load(void **state)
{
    (void)state;
    for (uint32_t window = 0; window <= 40; window += 40) {
        save_one(window);
        hy_kv *kv = open_pool(16, window);
        wipe(kv, 0);
        uint32_t n = 0;
        hy_err err = { 0 };
        if (hy_kv_load(kv, path, ID, 2, N_VOCAB, &n, &err) != HY_OK) fail_msg("%s", err.msg);
        assert_int_equal(n, 96);
        sound(kv, NULL, NULL);
        seq *s = new_seq(kv);
        count_up(s, 0, 300);
        assert_int_equal(hy_kv_cache_take(kv, &s->t, 1, s->ids, 300), 0); /* another tenant's */
        assert_int_equal(hy_kv_cache_peek(kv, 2, s->ids, 96), 80); /* the same tokens again */
        assert_int_equal(hy_kv_cache_take(kv, &s->t, 2, s->ids, 300), 96);
        assert_int_equal(s->t.page_first[1], window ? 3 : 0);
        read_back(kv, s);
        assert_int_equal(fill(kv, s, 120), HY_OK);
        read_back(kv, s);
        /* twice is once */
        assert_int_equal(hy_kv_load(kv, path, ID, 2, N_VOCAB, &n, NULL), HY_OK);
        assert_int_equal(n, 96);
        assert_int_equal(hy_kv_free_pages(kv, 0), 16 - 8);
        sound(kv, s, NULL);
        free_seq(kv, s);
        hy_kv_close(kv);
        unlink(path);
    }
}

/* Pages in a file are part after part, as they were when a page was one piece of memory: what the program wrote then,
 * it reads now, and the other way round. Noise does not shrink, so the bytes are the same whatever zstd is there. */
static void layout_of_the_file(void **state)
{
    (void)state;
    enum { N_PAGE = 21, WORDS = 32, HEAD = 136, PAGES = HEAD + N_PAGE * PAGE * 4, STEP = 8 + WORDS * 8 };
    hy_kv *kv = open_pool(N_PAGE, 0);
    seq *s = new_seq(kv);
    count_up(s, 0, N_PAGE * PAGE);
    assert_int_equal(hy_kv_reserve(kv, &s->t, N_PAGE * PAGE, NULL), HY_OK);
    for (uint32_t i = 0; i < N_PAGE; i++)
        for (uint32_t k = 0; k < WORDS; k++) *word(kv, 0, s->t.page[0][i], k) = hy_rng_at(9, i, k);
    hy_kv_cache_put(kv, &s->t, 1, s->ids, N_PAGE * PAGE);
    uint32_t n;
    temp_path(path, sizeof path, "kvfile");
    assert_int_equal(hy_kv_save(kv, path, ID, 1, s->ids, N_PAGE * PAGE, &n, NULL), HY_OK);
    free_seq(kv, s);
    hy_kv_close(kv);
    char *data;
    size_t n_data;
    read_whole(&data, &n_data);
    assert_int_equal(n_data, PAGES + N_PAGE * STEP + 8);
    for (uint32_t i = 0; i < N_PAGE; i++)
        for (uint32_t k = 0; k < WORDS; k++) {
            uint64_t v;
            memcpy(&v, data + PAGES + i * STEP + 8 + k * 8, sizeof v);
            assert_true(v == hy_rng_at(9, i, k));
        }
    assert_true(hy_hash64(data, n_data, 0) == 0x1c9cf2b21dcab834u); /* of the file written before pages had parts */
    hy_free(data);
    kv = open_pool(N_PAGE + 2, 0);
    wipe(kv, 0);
    s = new_seq(kv);
    count_up(s, 0, N_PAGE * PAGE + 1);
    assert_int_equal(hy_kv_load(kv, path, ID, 1, N_VOCAB, &n, NULL), HY_OK);
    assert_int_equal(hy_kv_cache_take(kv, &s->t, 1, s->ids, N_PAGE * PAGE + 1), N_PAGE * PAGE);
    for (uint32_t i = 0; i < N_PAGE; i++)
        for (uint32_t k = 0; k < WORDS; k++)
            assert_true(*word(kv, 0, s->t.page[0][i], k) == hy_rng_at(9, i, k));
    free_seq(kv, s);
    hy_kv_close(kv);
    unlink(path);
}

/* Every file that is cut or has a byte changed is refused, and leaves the pool as it was. */
static void damage_is_seen(void **state)
{
    (void)state;
    save_one(40);
    hy_kv *kv = open_pool(16, 40);
    char *data;
    size_t n;
    uint32_t got = 77;
    read_whole(&data, &n);
    for (size_t i = 0; i < n; i++) {
        hy_err err = { 0 };
        write_whole(data, i);
        assert_int_equal(hy_kv_load(kv, path, ID, 1, N_VOCAB, &got, &err), HY_E_FORMAT);
        assert_non_null(strstr(err.msg, path));
        data[i] ^= 0x11;
        write_whole(data, n);
        hy_status st = hy_kv_load(kv, path, ID, 1, N_VOCAB, &got, &err);
        assert_true(st == HY_E_FORMAT || st == HY_E_UNSUPPORTED); /* the latter: version */
        data[i] ^= 0x11;
        assert_int_equal(got, 0);
        assert_int_equal(hy_kv_free_pages(kv, 0), 16);
        assert_int_equal(hy_kv_free_pages(kv, 1), 16);
    }
    char *longer = hy_calloc(n + 1, 1);
    memcpy(longer, data, n);
    write_whole(longer, n + 1);
    assert_int_equal(hy_kv_load(kv, path, ID, 1, N_VOCAB, &got, NULL), HY_E_FORMAT);
    write_whole(data, n);
    assert_int_equal(hy_kv_load(kv, path, ID, 1, N_VOCAB, &got, NULL), HY_OK);
    assert_int_equal(got, 96);
    hy_free(longer);
    hy_free(data);
    hy_kv_close(kv);
    unlink(path);
}

/* The head's fields, changed together with its checksum (XXH64, seed 0, over all before it). */
static hy_status load_with(hy_kv *kv, const char *data, size_t n, size_t at, const void *value, size_t n_value,
                           hy_err *err)
{
    enum { HEAD = 8 + 4 * 4 + 8 + 4 * 24 };
    char *copy = hy_alloc(n);
    memcpy(copy, data, n);
    memcpy(copy + at, value, n_value);
    uint64_t hash = hy_hash64(copy, HEAD, 0);
    memcpy(copy + HEAD, &hash, sizeof hash);
    write_whole(copy, n);
    hy_free(copy);
    uint32_t got;
    hy_status st = hy_kv_load(kv, path, ID, 1, N_VOCAB, &got, err);
    if (st == HY_OK) hy_kv_cache_clear(kv);
    assert_int_equal(hy_kv_free_pages(kv, 0), hy_kv_group_of(kv, 0)->n_page);
    return st;
}

static void hostile_heads(void **state)
{
    (void)state;
    save_one(40);
    hy_kv *kv = open_pool(16, 40);
    char *data;
    size_t n;
    read_whole(&data, &n);
    hy_err err = { 0 };
    uint64_t id = ID;
    assert_int_equal(load_with(kv, data, n, 24, &id, 8, &err), HY_OK); /* nothing changed: offsets are right */
    id = ID + 1;
    assert_int_equal(load_with(kv, data, n, 24, &id, 8, &err), HY_E_ARG);
    assert_non_null(strstr(err.msg, "another model"));
    static const struct {
        size_t at;
        uint32_t value;
        hy_status status;
        const char *text;
    } bad[] = {
        { 8, 2, HY_E_UNSUPPORTED, "version 2" },
        { 12, 32, HY_E_ARG, "pages of 32" },
        { 16, 1, HY_E_ARG, "1 groups" },
        { 16, UINT32_MAX, HY_E_ARG, "4294967295 groups" },
        { 20, 0, HY_E_FORMAT, "0 tokens" },
        { 20, 95, HY_E_FORMAT, "95 tokens" },
        { 20, 0xfffffff0u, HY_E_LIMIT, "268435455 pages" },
        { 20, 16 * 17, HY_E_LIMIT, "17 pages" },
        { 20, 16 * 16, HY_E_FORMAT, "" },
        { 20, 16 * 5, HY_E_FORMAT, "" },
        { 32, 5, HY_E_ARG, "window 5" },
        { 36, 3, HY_E_ARG, "3 layers" },
        { 40, 1, HY_E_FORMAT, "starts at page 1" },
        { 48, 512, HY_E_ARG, "512 bytes" },
        { 56 + 8, 4, HY_E_FORMAT, "starts at page 4" },
        { 56 + 8, UINT32_MAX, HY_E_FORMAT, "starts at page" },
        { 56 + 8, 1, HY_E_FORMAT, "" },
    };
    for (size_t i = 0; i < HY_COUNT(bad); i++) {
        memset(&err, 0, sizeof err);
        hy_status st = load_with(kv, data, n, bad[i].at, &bad[i].value, 4, &err);
        if (st != bad[i].status || !strstr(err.msg, bad[i].text))
            fail_msg("case %zu: %s (%s)", i, hy_status_name(st), err.msg);
    }
    hy_free(data);
    hy_kv_close(kv);
    unlink(path);
}

static void other_refusals(void **state)
{
    (void)state;
    save_one(0);
    hy_kv *kv = open_pool(5, 0), *windowed = open_pool(16, 40);
    uint32_t n;
    hy_err err = { 0 };
    assert_int_equal(hy_kv_load(kv, path, ID, 1, N_VOCAB, &n, &err), HY_E_LIMIT); /* 6 pages into 5 */
    assert_int_equal(hy_kv_load(windowed, path, ID, 1, N_VOCAB, &n, &err), HY_E_ARG);
    hy_kv_close(kv);
    kv = open_pool(8, 0);
    assert_int_equal(hy_kv_load(kv, path, ID, 1, 96, &n, &err), HY_OK);
    hy_kv_cache_clear(kv);
    assert_int_equal(hy_kv_load(kv, path, ID, 1, 95, &n, &err), HY_E_FORMAT);
    assert_non_null(strstr(err.msg, "token 95 is 95"));
    seq *s = new_seq(kv);
    fill(kv, s, 48);
    assert_int_equal(hy_kv_load(kv, path, ID, 1, N_VOCAB, &n, &err), HY_E_LIMIT); /* 5 are free */
    assert_int_equal(hy_kv_save(kv, path, ID, 1, s->ids, 48, &n, &err), HY_E_ARG); /* nothing is known */
    assert_int_equal(hy_kv_load(kv, "/proc/absent", ID, 1, N_VOCAB, &n, &err), HY_E_IO);
    assert_int_equal(hy_kv_load(kv, "/", ID, 1, N_VOCAB, &n, &err), HY_E_IO);
    hy_kv_cache_put(kv, &s->t, 1, s->ids, 48);
    assert_int_equal(hy_kv_save(kv, "/proc/absent/x", ID, 1, s->ids, 48, &n, &err), HY_E_IO);
    assert_int_equal(n, 0);
    free_seq(kv, s);
    hy_kv_close(kv);
    hy_kv_close(windowed);
    unlink(path);
}

/* Allocations fail in turn; a failed save leaves the old file and no temporary one. */
static void no_memory(void **state)
{
    (void)state;
    save_one(40);
    char *before, *after, folder[512];
    size_t n_before, n_after;
    read_whole(&before, &n_before);
    hy_kv *kv = open_pool(16, 40);
    hy_status st = HY_E_MEMORY;
    uint32_t n;
    for (int k = 0; st == HY_E_MEMORY; k++) {
        assert_true(k < 20);
        hy_alloc_fail_after(k);
        st = hy_kv_load(kv, path, ID, 1, N_VOCAB, &n, NULL);
        hy_alloc_fail_after(-1);
    }
    assert_int_equal(st, HY_OK);
    int32_t ids[96];
    for (int i = 0; i < 96; i++) ids[i] = i;
    for (int k = 0; k < 3; k++) {
        hy_alloc_fail_after(k);
        assert_int_equal(hy_kv_save(kv, path, ID, 1, ids, 96, &n, NULL), HY_E_MEMORY);
        hy_alloc_fail_after(-1);
    }
    read_whole(&after, &n_after);
    assert_int_equal(n_before, n_after);
    assert_memory_equal(before, after, n_before);
    assert_int_equal(hy_kv_save(kv, path, ID, 1, ids, 96, &n, NULL), HY_OK);
    assert_int_equal(n, 96);
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (strncmp(e->d_name, strrchr(path, '/') + 1, strlen(strrchr(path, '/') + 1)) == 0)
            assert_string_equal(e->d_name, strrchr(path, '/') + 1);
    closedir(d);
    hy_free(before);
    hy_free(after);
    hy_kv_close(kv);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(save_and_load),
        cmocka_unit_test(layout_of_the_file),
        cmocka_unit_test(damage_is_seen),
        cmocka_unit_test(hostile_heads),
        cmocka_unit_test(other_refusals),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
