/* kv: pages of paused sequences in a file. */
#include "kv_help.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

static hy_kv_swap *open_swap(const hy_kv *kv, uint64_t bytes)
{
    char path[512];
    temp_path(path, sizeof path, "swap");
    hy_kv_swap *s = NULL;
    hy_err err = { 0 };
    if (hy_kv_swap_open(&s, kv, path, bytes, &err) != HY_OK) fail_msg("%s", err.msg);
    assert_int_not_equal(access(path, F_OK), 0); /* unlinked at once */
    return s;
}

/* Noise, so that pages do not shrink: an even page plain, an odd one compressible. */
static void noise(hy_kv *kv, seq *s)
{
    for (uint32_t i = 0; i < s->t.n_page[0]; i += 2)
        for (uint32_t k = PAGE; k < 32; k++) *word(kv, 0, s->t.page[0][i], k) = hy_rng_at(5, i, k);
}

static void out_and_in(void **state)
{
    (void)state;
    hy_kv *kv = open_pool(40, 40);
    hy_kv_swap *sw = open_swap(kv, 4 * HY_MIB);
    seq *a = new_seq(kv), *b = new_seq(kv);
    count_up(a, 0, 300);
    count_up(b, 1000, 300);
    fill(kv, a, 200);
    hy_kv_slide(kv, &a->t, 200);
    fill(kv, b, 50);
    noise(kv, a);
    uint32_t ta, tb, n_all = hy_kv_free_pages(kv, 0) + 13 + 4;
    assert_int_equal(n_all, 40);
    assert_int_equal(hy_kv_swap_out(sw, kv, &a->t, 200, &ta, NULL), HY_OK);
    assert_int_equal(a->t.n_tok, 0);
    assert_int_equal(hy_kv_swap_out(sw, kv, &b->t, 50, &tb, NULL), HY_OK);
    assert_int_not_equal(ta, tb);
    assert_int_equal(hy_kv_free_pages(kv, 0), 40);
    assert_int_equal(hy_kv_free_pages(kv, 1), 40);
    wipe(kv, 0);
    wipe(kv, 1);
    assert_int_equal(hy_kv_swap_in(sw, kv, &b->t, tb, NULL), HY_OK);
    assert_int_equal(hy_kv_swap_in(sw, kv, &a->t, ta, NULL), HY_OK);
    assert_int_equal(a->t.n_tok, 200);
    assert_int_equal(a->t.page_first[1], 10);
    assert_int_equal(hy_kv_free_pages(kv, 1), 40 - 4 - 3);
    read_back(kv, a);
    read_back(kv, b);
    for (uint32_t i = 0; i < 13; i += 2)
        for (uint32_t k = PAGE; k < 32; k++) assert_true(*word(kv, 0, a->t.page[0][i], k) == hy_rng_at(5, i, k));
    sound(kv, a, b);
    hy_kv_swap_stats st;
    hy_kv_swap_stats_of(sw, &st);
    assert_int_equal(st.out_bytes, (13 + 4) * 256 + (3 + 4) * 128);
    assert_int_equal(st.in_bytes, st.out_bytes);
    assert_int_equal(st.used_bytes, 0);
    hy_err err = { 0 };
    assert_int_equal(hy_kv_swap_in(sw, kv, &a->t, ta, &err), HY_E_ARG); /* forgotten */
    assert_int_equal(fill(kv, a, 230), HY_OK);
    read_back(kv, a);
    free_seq(kv, a);
    free_seq(kv, b);
    hy_kv_swap_close(sw);
    hy_kv_close(kv);
}

static void full_file_and_full_pool(void **state)
{
    (void)state;
    const hy_kv_group g = { .n_layer = 1, .page_bytes = 40000, .part_bytes = 4000, .n_page = 12 };
    hy_kv *kv = NULL;
    assert_int_equal(hy_kv_open(&kv, &g, 1, NULL), HY_OK);
    hy_kv_swap *sw = open_swap(kv, 256 * HY_KIB); /* 4 blocks of 64 KiB: 6 pages of noise */
    seq *a = new_seq(kv), *b = new_seq(kv);
    fill(kv, a, 96);
    fill(kv, b, 96);
    for (uint32_t i = 0; i < 12; i++)
        for (uint32_t k = 0; k < 5000; k++) *word(kv, 0, i, k) = hy_rng_at(1, i, k);
    hy_err err = { 0 };
    uint32_t ta, tb;
    assert_int_equal(hy_kv_swap_out(sw, kv, &a->t, 96, &ta, NULL), HY_OK);
    assert_int_equal(hy_kv_swap_out(sw, kv, &b->t, 96, &tb, &err), HY_E_LIMIT);
    assert_non_null(strstr(err.msg, "262144"));
    assert_int_equal(b->t.n_tok, 96); /* nothing changed */
    assert_int_equal(hy_kv_free_pages(kv, 0), 6);
    assert_int_equal(fill(kv, b, 112), HY_OK);
    assert_int_equal(hy_kv_swap_in(sw, kv, &a->t, ta, NULL), HY_E_LIMIT); /* 5 free: the ticket stays */
    assert_int_equal(a->t.n_tok, 0);
    hy_kv_truncate(kv, &b->t, 0);
    assert_int_equal(hy_kv_swap_in(sw, kv, &a->t, ta, NULL), HY_OK);
    assert_int_equal(a->t.n_tok, 96);
    /* a dropped ticket gives its room back, again and again */
    for (int i = 0; i < 50; i++) {
        assert_int_equal(hy_kv_swap_out(sw, kv, &a->t, 96, &ta, NULL), HY_OK);
        hy_kv_swap_drop(sw, ta);
        hy_kv_swap_drop(sw, ta);
        fill(kv, a, 96);
        for (uint32_t k = 0; k < 6; k++)
            for (uint32_t p = 0; p < 10; p++)
                memcpy(hy_kv_part(kv, 0, a->t.page[0][k], p), hy_kv_part(kv, 0, 11, p), 4000);
    }
    assert_int_equal(hy_kv_swap_out(sw, kv, &a->t, 97, &ta, NULL), HY_E_ARG);
    assert_int_equal(hy_kv_swap_out(sw, kv, &a->t, 0, &ta, NULL), HY_E_ARG);
    hy_kv_swap_drop(sw, 77777);
    hy_kv_swap_drop(NULL, 0);
    free_seq(kv, a);
    free_seq(kv, b);
    hy_kv_swap_close(sw);
    hy_kv_close(kv);
}

/* The file of this process that is open under a deleted name. */
static int find_fd(void)
{
    for (int fd = 3; fd < 256; fd++) {
        struct stat sb;
        if (fstat(fd, &sb) == 0 && S_ISREG(sb.st_mode) && sb.st_nlink == 0 && sb.st_size >= 64) return fd;
    }
    return -1;
}

static void damage_is_seen(void **state)
{
    (void)state;
    hy_kv *kv = open_pool(8, 0);
    seq *a = new_seq(kv);
    count_up(a, 0, 200);
    fill(kv, a, 60);
    hy_kv_swap *sw = open_swap(kv, HY_MIB);
    uint32_t t;
    assert_int_equal(hy_kv_swap_out(sw, kv, &a->t, 60, &t, NULL), HY_OK);
    int fd = find_fd();
    assert_true(fd >= 0);
    struct stat sb;
    assert_int_equal(fstat(fd, &sb), 0);
    for (off_t at = 0; at < sb.st_size; at++) { /* every byte in turn */
        uint8_t c = 0, changed;
        assert_int_equal(pread(fd, &c, 1, at), 1);
        changed = c ^ 0x20;
        assert_int_equal(pwrite(fd, &changed, 1, at), 1);
        hy_err err = { 0 };
        assert_int_equal(hy_kv_swap_in(sw, kv, &a->t, t, &err), HY_E_IO);
        assert_true(strlen(err.msg) > 10);
        assert_int_equal(a->t.n_tok, 0);
        assert_int_equal(hy_kv_free_pages(kv, 0), 8);
        assert_int_equal(hy_kv_swap_in(sw, kv, &a->t, t, &err), HY_E_ARG); /* forgotten */
        fill(kv, a, 60);
        assert_int_equal(hy_kv_swap_out(sw, kv, &a->t, 60, &t, NULL), HY_OK);
    }
    assert_int_equal(ftruncate(fd, sb.st_size / 2), 0);
    assert_int_equal(hy_kv_swap_in(sw, kv, &a->t, t, NULL), HY_E_IO);
    sound(kv, a, NULL);
    hy_kv_swap_close(sw);
    free_seq(kv, a);
    hy_kv_close(kv);
}

/* The system refuses to write: nothing changes, and afterwards all goes on. */
static void disk_full(void **state)
{
    (void)state;
    hy_kv *kv = open_pool(8, 0);
    seq *a = new_seq(kv);
    count_up(a, 0, 200);
    fill(kv, a, 60);
    hy_kv_swap *sw = open_swap(kv, HY_MIB);
    struct rlimit old, none = { .rlim_cur = 0 };
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    none.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    uint32_t t;
    hy_err err = { 0 };
    hy_status st = hy_kv_swap_out(sw, kv, &a->t, 60, &t, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(st, HY_E_IO);
    assert_int_equal(a->t.n_tok, 60);
    read_back(kv, a);
    hy_kv_swap_stats stats;
    hy_kv_swap_stats_of(sw, &stats);
    assert_true(stats.used_bytes == 0 && stats.out_bytes == 0);
    assert_int_equal(hy_kv_swap_out(sw, kv, &a->t, 60, &t, NULL), HY_OK);
    assert_int_equal(hy_kv_swap_in(sw, kv, &a->t, t, NULL), HY_OK);
    read_back(kv, a);
    free_seq(kv, a);
    hy_kv_swap_close(sw);
    hy_kv_close(kv);
}

static void opening(void **state)
{
    (void)state;
    hy_kv *kv = open_pool(8, 40);
    hy_kv_swap *s = NULL;
    hy_err err = { 0 };
    char path[512];
    temp_path(path, sizeof path, "swap");
    assert_int_equal(hy_kv_swap_open(&s, kv, path, 100, &err), HY_E_ARG);
    assert_non_null(strstr(err.msg, "65536"));
    assert_int_equal(hy_kv_swap_open(&s, kv, "/proc/absent/swap", HY_MIB, &err), HY_E_IO);
    assert_non_null(strstr(err.msg, "/proc/absent/swap"));
    FILE *f = fopen(path, "w"); /* somebody's file is not taken */
    assert_non_null(f);
    fclose(f);
    assert_int_equal(hy_kv_swap_open(&s, kv, path, HY_MIB, &err), HY_E_IO);
    assert_int_equal(access(path, F_OK), 0);
    unlink(path);
    hy_status st = HY_E_MEMORY;
    for (int n = 0; st == HY_E_MEMORY; n++) {
        assert_true(n < 20);
        hy_alloc_fail_after(n);
        st = hy_kv_swap_open(&s, kv, path, HY_MIB, &err);
        hy_alloc_fail_after(-1);
    }
    assert_int_equal(st, HY_OK);
    hy_kv_swap_close(s);
    hy_kv_swap_close(NULL);
    hy_kv_close(kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(out_and_in),
        cmocka_unit_test(full_file_and_full_pool),
        cmocka_unit_test(damage_is_seen),
        cmocka_unit_test(disk_full),
        cmocka_unit_test(opening),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
