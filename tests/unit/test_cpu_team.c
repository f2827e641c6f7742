/* cpu: the thread team and its barrier. */
#include "cpu/cpu.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct shared {
    int n_round;
    uint32_t values[HY_THREADS_MAX]; /* plain memory: only the barrier orders it */
    _Atomic uint32_t n_wrong, n_call;
    bool uneven;
} shared;

/* Each round everybody writes its slot, then reads all others'. */
static void rounds(void *arg, hy_worker *w)
{
    shared *s = arg;
    atomic_fetch_add(&s->n_call, 1);
    for (int r = 1; r <= s->n_round; r++) {
        if (s->uneven && (uint32_t)r % w->n == w->i) usleep(50); /* the others fall asleep */
        s->values[w->i] = (uint32_t)r * 1000 + w->i;
        hy_team_barrier(w);
        for (uint32_t i = 0; i < w->n; i++)
            if (s->values[i] != (uint32_t)r * 1000 + i) atomic_fetch_add(&s->n_wrong, 1);
        hy_team_barrier(w);
    }
}

static void check_rounds(uint32_t n, bool pin, int n_run, int n_round, bool uneven)
{
    hy_team *t = NULL;
    hy_err err = {0};
    if (hy_team_open(&t, n, pin, &err) != HY_OK) fail_msg("%s", err.msg);
    assert_int_equal(hy_team_size(t), n);
    shared s = {.n_round = n_round, .uneven = uneven};
    for (int k = 0; k < n_run; k++) hy_team_run(t, rounds, &s);
    assert_int_equal(s.n_wrong, 0);
    assert_int_equal(s.n_call, n * (uint32_t)n_run);
    hy_team_close(t);
}

static void test_barrier(void **state)
{
    const uint32_t sizes[] = {1, 2, 3, 8};
    for (size_t i = 0; i < HY_COUNT(sizes); i++) {
        check_rounds(sizes[i], false, 20, 200, false);
        check_rounds(sizes[i], true, 5, 50, true);
    }
}

/* Of the whole process, in seconds. */
static double processor_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void test_oversubscribed(void **state)
{
    double before = processor_time();
    check_rounds(64, false, 3, 20, false);
    /* 64 threads, 120 barriers: seconds of processor time would mean that those who wait do not let workers run. */
    assert_true(processor_time() - before < 20);
}

/* An idle team sleeps: no processor time goes by. */
static void test_idle(void **state)
{
    hy_team *t = NULL;
    assert_int_equal(hy_team_open(&t, 4, false, NULL), HY_OK);
    shared s = {.n_round = 3};
    hy_team_run(t, rounds, &s);
    usleep(20000);
    double before = processor_time();
    usleep(200000);
    assert_true(processor_time() - before < 0.05);
    hy_team_run(t, rounds, &s);
    assert_int_equal(s.n_wrong, 0);
    hy_team_close(t);
}

static void nothing(void *arg, hy_worker *w)
{
    atomic_fetch_add((_Atomic uint32_t *)arg, w->i + 1);
}

static void test_many_short_runs(void **state)
{
    hy_team *t = NULL;
    _Atomic uint32_t sum = 0;
    assert_int_equal(hy_team_open(&t, 3, false, NULL), HY_OK);
    uint64_t allocs = hy_alloc_count();
    for (int i = 0; i < 5000; i++) hy_team_run(t, nothing, (void *)&sum);
    assert_int_equal(sum, 5000 * 6);
    assert_true(hy_alloc_count() == allocs);
    hy_team_close(t);
}

typedef struct seen {
    uint32_t n[8];             /* what each worker saw of the run; 0: it had no part */
} seen;

static void look(void *arg, hy_worker *w)
{
    seen *s = arg;
    s->n[w->i] = w->n;
    hy_team_barrier(w);
}

/* Any order of counts, with many and few runs between; sleepers come back when they are wanted. */
static void test_use(void **state)
{
    hy_team *t = NULL;
    const uint32_t counts[] = {1, 5, 2, 3, 1, 4, 4, 2, 5, 1, 1, 5, 3};
    assert_int_equal(hy_team_open(&t, 5, false, NULL), HY_OK);
    assert_int_equal(hy_team_used(t), 5);
    for (int round = 0; round < 60; round++)
        for (size_t k = 0; k < HY_COUNT(counts); k++) {
            hy_team_use(t, counts[k]);
            assert_int_equal(hy_team_used(t), counts[k]);
            for (int i = 0; i <= round % 3; i++) {
                seen s = {{0}};
                hy_team_run(t, look, &s);
                for (uint32_t w = 0; w < 5; w++)
                    assert_int_equal(s.n[w], w < counts[k] ? counts[k] : 0);
            }
        }
    hy_team_use(t, 0);
    assert_int_equal(hy_team_used(t), 1);
    hy_team_use(t, 99);
    assert_int_equal(hy_team_used(t), 5);
    assert_int_equal(hy_team_size(t), 5);
    hy_team_use(t, 2); /* closed with some asleep */
    hy_team_close(t);
}

static void late(void *arg, hy_worker *w)
{
    w->timed = true;
    if (w->i == 1) usleep(5000);
    hy_team_barrier(w);
    ((uint64_t *)arg)[w->i] = w->wait_ns;
    w->timed = false;
    w->wait_ns = 0;
}

static void test_timed(void **state)
{
    hy_team *t = NULL;
    uint64_t wait[2] = {0, 0};
    assert_int_equal(hy_team_open(&t, 2, false, NULL), HY_OK);
    hy_team_run(t, nothing, (void *)&(uint64_t){0}); /* both are awake */
    for (int i = 0; i < 20 && wait[0] < 4000000; i++) hy_team_run(t, late, wait);
    assert_true(wait[0] >= 4000000); /* it waited for the one that slept */
    hy_team_close(t);
}

static void *run_elsewhere(void *arg)
{
    _Atomic uint32_t sum = 0;
    hy_team_run(arg, nothing, (void *)&sum);
    return (void *)(uintptr_t)sum;
}

static void test_other_caller(void **state)
{
    hy_team *t = NULL;
    pthread_t th;
    void *sum;
    assert_int_equal(hy_team_open(&t, 4, false, NULL), HY_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&th, NULL, run_elsewhere, t), 0);
        pthread_join(th, &sum);
        assert_int_equal((uintptr_t)sum, 10);
    }
    hy_team_close(t);
    hy_team_close(NULL);
}

static void test_refused(void **state)
{
    hy_team *t = NULL;
    hy_err err = {0};
    assert_int_equal(hy_team_open(&t, 0, false, &err), HY_E_ARG);
    assert_non_null(strstr(err.msg, "0 is not within 1 to 256"));
    assert_int_equal(hy_team_open(&t, HY_THREADS_MAX + 1, false, &err), HY_E_ARG);
    assert_non_null(strstr(err.msg, "257"));
    for (int n = 0; n < 3; n++) {
        hy_alloc_fail_after(n);
        assert_int_equal(hy_team_open(&t, 3, false, &err), HY_E_MEMORY);
        hy_alloc_fail_after(-1);
    }
    assert_null(t);
}

static void test_share(void **state)
{
    for (uint32_t n = 1; n < 9; n++)
        for (uint64_t items = 0; items < 100; items += 7)
            for (uint64_t grain = 1; grain < 20; grain += 3) {
                uint64_t at = 0, first, last;
                for (uint32_t i = 0; i < n; i++) {
                    hy_share(items, grain, &(hy_worker){.i = i, .n = n}, &first, &last);
                    assert_true(first == at && last >= first);
                    assert_true(first % grain == 0 || first == items);
                    at = last;
                }
                assert_true(at == items);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_barrier),         cmocka_unit_test(test_oversubscribed),
        cmocka_unit_test(test_idle),            cmocka_unit_test(test_many_short_runs),
        cmocka_unit_test(test_use),
        cmocka_unit_test(test_timed),
        cmocka_unit_test(test_other_caller),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
