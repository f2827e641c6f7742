/* The thread team.
 *
 * Two words are waited for: `turn`, which starts a run, and `phase`, which opens a barrier. A
 * waiter spins for some 20 us, because barriers of one step are closer together than a futex's
 * wake-up, and then sleeps. The end of a run is a barrier as well.
 *
 * A turn says how many workers take part. One that has no part in it sleeps at `park` and may miss
 * any number of such turns; a turn that it has a part in opens `park`, and cannot end without it. */
#include "cpu/cpu_room.h"
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define RELAX() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define RELAX() __asm__ volatile("yield")
#else
#define RELAX() ((void)0)
#endif

enum { spin_ns = 20000, spin_batch = 64 };

/* A word to wait for, and how many sleep on it. On cache lines of its own. */
typedef struct gate {
    _Alignas(2 * HY_ALIGN) _Atomic uint32_t value;
    _Atomic uint32_t n_sleep;
} gate;

/* turn: a number that differs from the one before, and how many take part */
#define TURN(number, n) ((uint32_t)(number) << 9 | (n))
#define TURN_N(turn) ((turn) & 511u)
_Static_assert(HY_THREADS_MAX < 512, "the count of a turn");

struct hy_team {
    gate turn, phase, park;
    _Alignas(2 * HY_ALIGN) _Atomic uint32_t n_arrived;
    _Alignas(2 * HY_ALIGN) uint32_t n;
    uint32_t n_use;     /* of the runs to come */
    uint32_t n_turn, n_last; /* turns so far; how many took part in the last */
    uint32_t n_spin;    /* up to so many may spin */
    bool pinned;
    uint32_t cpu_first; /* worker 0's processor, if pinned */
    bool stop;          /* fn, arg, stop: written before turn moves, read after */
    hy_team_fn *fn;
    void *arg;
    pthread_t *threads; /* [n]; [0] unused */
    hy_worker *workers; /* [n] */
};

static void futex(_Atomic uint32_t *word, int op, uint32_t value)
{
    syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

/* Waits until the gate's value is no longer `old`. */
static void gate_wait(gate *g, uint32_t old, bool spin)
{
    if (spin) {
        uint64_t end = 0;
        do {
            for (int i = 0; i < spin_batch; i++) {
                if (atomic_load_explicit(&g->value, memory_order_acquire) != old) return;
                RELAX();
            }
            uint64_t now = hy_now_ns();
            if (!end) end = now + spin_ns;
            else if (now >= end) break;
        } while (true);
    }
    /* Announced before the value is looked at again; the opener changes the value before it looks
     * for sleepers. Both in one total order (seq_cst), so one of the two sees the other. */
    atomic_fetch_add(&g->n_sleep, 1);
    while (atomic_load(&g->value) == old) futex(&g->value, FUTEX_WAIT_PRIVATE, old);
    atomic_fetch_sub(&g->n_sleep, 1);
}

static void gate_set(gate *g, uint32_t value)
{
    atomic_store(&g->value, value);
    if (atomic_load(&g->n_sleep)) futex(&g->value, FUTEX_WAKE_PRIVATE, INT32_MAX);
}

/* One thread at a time opens a gate. */
static void gate_open(gate *g)
{
    gate_set(g, atomic_load_explicit(&g->value, memory_order_relaxed) + 1);
}

static void meet(hy_team *t, const hy_worker *w)
{
    uint32_t phase = atomic_load_explicit(&t->phase.value, memory_order_acquire);
    if (atomic_fetch_add_explicit(&t->n_arrived, 1, memory_order_acq_rel) + 1 < w->n) {
        gate_wait(&t->phase, phase, w->n <= t->n_spin);
        return;
    }
    atomic_store_explicit(&t->n_arrived, 0, memory_order_relaxed);
    gate_open(&t->phase);
}

void hy_team_barrier(hy_worker *w)
{
    if (w->n == 1) return;
    if (!w->timed) {
        meet(w->team, w);
        return;
    }
    uint64_t t0 = hy_now_ns();
    meet(w->team, w);
    w->wait_ns += hy_now_ns() - t0;
}

/* Waits for the next turn after `seen` that worker i has a part in. */
static uint32_t next_turn(hy_team *t, const hy_worker *w, uint32_t seen)
{
    gate_wait(&t->turn, seen, w->n <= t->n_spin);
    for (;;) {
        /* in this order: the opener sets turn before it opens park */
        uint32_t parked = atomic_load(&t->park.value), turn = atomic_load(&t->turn.value);
        if (TURN_N(turn) > w->i) return turn;
        gate_wait(&t->park, parked, false);
    }
}

static void *worker_main(void *arg)
{
    hy_worker *w = arg;
    hy_team *t = w->team;
    for (uint32_t seen = 0;;) {
        seen = next_turn(t, w, seen);
        if (t->stop) return NULL;
        w->n = TURN_N(seen);
        t->fn(t->arg, w);
        hy_team_barrier(w);
    }
}

uint32_t hy_team_size(const hy_team *t)
{
    return t->n;
}

void hy_team_use(hy_team *t, uint32_t n)
{
    t->n_use = HY_MAX(1u, HY_MIN(n, t->n));
}

uint32_t hy_team_used(const hy_team *t)
{
    return t->n_use;
}

static void begin_turn(hy_team *t, uint32_t n)
{
    bool more = n > t->n_last;
    t->n_last = n;
    gate_set(&t->turn, TURN(++t->n_turn, n));
    if (more) gate_open(&t->park);
}

void hy_team_run(hy_team *t, hy_team_fn *fn, void *arg)
{
    t->workers[0].n = t->n_use;
    if (t->n_use > 1) {
        t->fn = fn;
        t->arg = arg;
        begin_turn(t, t->n_use);
    }
    fn(arg, &t->workers[0]);
    hy_team_barrier(&t->workers[0]);
}

/* Ends the first n_started threads and frees everything. */
static void close_started(hy_team *t, uint32_t n_started)
{
    t->stop = true;
    begin_turn(t, t->n);
    for (uint32_t i = 1; i < n_started; i++) pthread_join(t->threads[i], NULL);
    hy_free(t->threads);
    hy_free(t->workers);
    hy_free_big(t, sizeof *t);
}

void hy_team_close(hy_team *t)
{
    if (t) close_started(t, t->n);
}

static void pin_thread(pthread_t thread, uint32_t cpu)
{
    /* Failing only costs speed: the mask may have changed since it was read. */
    size_t bytes = CPU_ALLOC_SIZE(cpu + 1);
    cpu_set_t *set = hy_calloc(1, bytes);
    if (!set) return;
    CPU_SET_S(cpu, bytes, set);
    pthread_setaffinity_np(thread, bytes, set);
    hy_free(set);
}

_Static_assert(sizeof(cpu_set_t) == sizeof(hy_seat), "a seat holds an affinity mask");

bool hy_team_sit(const hy_team *t, hy_seat *before)
{
    if (!t->pinned || sched_getaffinity(0, sizeof *before, (cpu_set_t *)before->cpus) != 0) return false;
    pin_thread(pthread_self(), t->cpu_first);
    return true;
}

void hy_team_stand(const hy_seat *before)
{
    /* failing only costs speed */
    (void)sched_setaffinity(0, sizeof *before, (const cpu_set_t *)before->cpus);
}

/* Spinning with fewer processors than threads keeps from work the one that is waited for. */
static uint32_t most_that_spin(void)
{
    hy_cgroup group;
    hy_cgroup_read(&group, "");
    uint32_t n = hy_cpu_allowed(NULL, 0);
    return group.quota_cpus > 0 && group.quota_cpus < n ? (uint32_t)group.quota_cpus : n;
}

static hy_status start_threads(hy_team *t, bool pin, uint32_t *n_started, hy_err *err)
{
    uint32_t cpus[HY_THREADS_MAX], n_cpu = pin ? hy_topology_pin_order(cpus, HY_THREADS_MAX) : 0;
    t->pinned = n_cpu > 0;
    if (n_cpu) t->cpu_first = cpus[0];
    sigset_t all, old;
    /* Signals are for the program's own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = 0;
    for (*n_started = 1; *n_started < t->n; ++*n_started) {
        uint32_t i = *n_started;
        rc = pthread_create(&t->threads[i], NULL, worker_main, &t->workers[i]);
        if (rc) break;
        if (n_cpu) pin_thread(t->threads[i], cpus[i % n_cpu]);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc)
        return hy_fail(err, HY_E_LIMIT, "threads: cannot start thread %u of %u: %s",
                       (unsigned)*n_started + 1, (unsigned)t->n, strerror(rc));
    return HY_OK;
}

hy_status hy_team_open(hy_team **out, uint32_t n_threads, bool pin, hy_err *err)
{
    if (n_threads < 1 || n_threads > HY_THREADS_MAX)
        return hy_fail(err, HY_E_ARG, "threads: %u is not within 1 to %d", (unsigned)n_threads,
                       HY_THREADS_MAX);
    hy_team *t = hy_alloc_big(sizeof *t); /* aligned for its gates */
    if (!t) return hy_fail_memory(err, "thread team", sizeof *t);
    t->n = t->n_use = n_threads;
    t->threads = HY_NEW_ARRAY(pthread_t, n_threads);
    t->workers = HY_NEW_ARRAY(hy_worker, n_threads);
    if (!t->threads || !t->workers) {
        close_started(t, 1);
        return hy_fail_memory(err, "thread team", n_threads * sizeof(hy_worker));
    }
    t->n_spin = most_that_spin();
    for (uint32_t i = 0; i < n_threads; i++)
        t->workers[i] = (hy_worker){.team = t, .i = i, .n = n_threads};
    uint32_t n_started;
    hy_status s = start_threads(t, pin, &n_started, err);
    if (s != HY_OK) {
        close_started(t, n_started);
        return s;
    }
    *out = t;
    return HY_OK;
}
