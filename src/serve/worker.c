/* The workers: a few threads that run exchanges' turns. Anybody may put an exchange on their queue without
 * a lock (the engine's thread does, for each token): a stack of pointers that workers take whole and turn round.
 * The queue is bounded by what may be on it: every exchange at most once, and there are no more exchanges
 * than connections. */
#include "serve/impl.h"
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

struct hy_workers {
    _Atomic(hy_exchange *) stack;
    _Atomic uint32_t tick;     /* changes with each push: what sleepers wait on */
    _Atomic uint32_t n_asleep;
    pthread_mutex_t lock;      /* first, last */
    hy_exchange *first, *last;
    bool closing;              /* under lock */
    uint32_t n;
    pthread_t thread[];
};

void hy_workers_push(hy_workers *w, hy_exchange *x)
{
    hy_exchange *top = atomic_load_explicit(&w->stack, memory_order_relaxed);
    do x->next = top;
    while (!atomic_compare_exchange_weak_explicit(&w->stack, &top, x, memory_order_release, memory_order_relaxed));
    atomic_fetch_add(&w->tick, 1);
    if (atomic_load(&w->n_asleep)) syscall(SYS_futex, (uint32_t *)&w->tick, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void hy_workers_schedule(hy_workers *w, hy_exchange *x)
{
    int turn = atomic_load(&x->turn);
    for (;;) {
        if (turn == 2) return;
        if (!atomic_compare_exchange_weak(&x->turn, &turn, turn + 1)) continue;
        if (turn == 0) hy_workers_push(w, x);
        return;
    }
}

/* The oldest of what was pushed, or NULL. With the lock. */
static hy_exchange *take(hy_workers *w)
{
    if (!w->first) {
        hy_exchange *x = atomic_exchange_explicit(&w->stack, NULL, memory_order_acquire);
        w->last = x;
        while (x) {
            hy_exchange *next = x->next;
            x->next = w->first;
            w->first = x;
            x = next;
        }
    }
    hy_exchange *x = w->first;
    if (x) w->first = x->next;
    return x;
}

static void run(hy_workers *w, hy_exchange *x)
{
    hy_exchange *held = x;
    atomic_fetch_add(&held->refs, 1); /* hy_x_run may drop the workers' own */
    atomic_fetch_add(&x->s->n_busy, 1);
    hy_x_run(x);
    atomic_fetch_sub(&held->s->n_busy, 1);
    int one = 1;
    if (!atomic_compare_exchange_strong(&held->turn, &one, 0)) {
        atomic_store(&held->turn, 1);
        bool done;
        pthread_mutex_lock(&held->lock);
        done = held->work_done;
        pthread_mutex_unlock(&held->lock);
        if (!done) hy_workers_push(w, held);
    }
    hy_x_unref(held);
}

static void *worker(void *arg)
{
    hy_workers *w = arg;
    for (;;) {
        atomic_fetch_add(&w->n_asleep, 1);
        uint32_t seen = atomic_load(&w->tick);
        pthread_mutex_lock(&w->lock);
        hy_exchange *x = take(w);
        bool more = w->first != NULL, closing = w->closing;
        pthread_mutex_unlock(&w->lock);
        if (!x && !closing) syscall(SYS_futex, (uint32_t *)&w->tick, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
        atomic_fetch_sub(&w->n_asleep, 1);
        if (!x && closing) return NULL;
        /* those pushed in one go woke one worker: it wakes the next */
        if (more && atomic_load(&w->n_asleep))
            syscall(SYS_futex, (uint32_t *)&w->tick, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        if (x) run(w, x);
    }
}

hy_status hy_workers_open(hy_workers **out, uint32_t n, hy_err *err)
{
    hy_workers *w = hy_calloc(1, sizeof *w + n * sizeof w->thread[0]);
    if (!w) return hy_fail_memory(err, "workers", sizeof *w);
    pthread_mutex_init(&w->lock, NULL);
    for (; w->n < n; w->n++)
        if (pthread_create(&w->thread[w->n], NULL, worker, w) != 0) {
            hy_workers_close(w);
            return hy_fail(err, HY_E_MEMORY, "no thread for worker %u of %u", w->n + 1, n);
        }
    *out = w;
    return HY_OK;
}

void hy_workers_close(hy_workers *w)
{
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    pthread_mutex_unlock(&w->lock);
    atomic_fetch_add(&w->tick, 1);
    syscall(SYS_futex, (uint32_t *)&w->tick, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    for (uint32_t i = 0; i < w->n; i++) pthread_join(w->thread[i], NULL);
    pthread_mutex_destroy(&w->lock);
    hy_free(w);
}
