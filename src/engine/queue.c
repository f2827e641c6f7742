#include "engine.h"
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void hy_word_wait(_Atomic uint32_t *w, uint32_t seen, int64_t timeout_us)
{
    if (atomic_load(w) != seen) return;
    struct timespec ts = { timeout_us / 1000000, timeout_us % 1000000 * 1000 };
    syscall(SYS_futex, (uint32_t *)w, FUTEX_WAIT_PRIVATE, seen, timeout_us < 0 ? NULL : &ts, NULL, 0);
}

void hy_word_wake(_Atomic uint32_t *w)
{
    syscall(SYS_futex, (uint32_t *)w, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void hy_tick_wake(hy_tick *t)
{
    atomic_fetch_add(t, 1);
    hy_word_wake(t);
}

/* Cell i is free for round r when seq == i + r * size, and full when seq == that + 1. */
hy_status hy_queue_open(hy_queue *q, uint32_t n, hy_err *err)
{
    uint32_t size = 2;
    while (size < n) size *= 2;
    q->cell = HY_NEW_ARRAY(hy_queue_cell, size);
    if (!q->cell) return hy_fail_memory(err, "queue", size * sizeof *q->cell);
    for (uint32_t i = 0; i < size; i++) atomic_init(&q->cell[i].seq, i);
    q->mask = size - 1;
    atomic_init(&q->put, 0);
    q->take = 0;
    return HY_OK;
}

bool hy_queue_put(hy_queue *q, void *item)
{
    uint32_t at = atomic_load_explicit(&q->put, memory_order_relaxed);
    for (;;) {
        hy_queue_cell *c = &q->cell[at & q->mask];
        int32_t d = (int32_t)(atomic_load_explicit(&c->seq, memory_order_acquire) - at);
        if (d < 0) return false;
        if (d > 0) {
            at = atomic_load_explicit(&q->put, memory_order_relaxed);
        } else if (atomic_compare_exchange_weak_explicit(&q->put, &at, at + 1, memory_order_relaxed,
                                                         memory_order_relaxed)) {
            c->item = item;
            atomic_store_explicit(&c->seq, at + 1, memory_order_release);
            return true;
        }
    }
}

void *hy_queue_take(hy_queue *q)
{
    hy_queue_cell *c = &q->cell[q->take & q->mask];
    if (atomic_load_explicit(&c->seq, memory_order_acquire) != q->take + 1) return NULL;
    void *item = c->item;
    atomic_store_explicit(&c->seq, q->take + q->mask + 1, memory_order_release);
    q->take++;
    return item;
}

void hy_queue_close(hy_queue *q)
{
    hy_free(q->cell);
    q->cell = NULL;
}
