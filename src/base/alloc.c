/* Allocation: every block of the program comes from here, so that tests can make one fail and can
 * count them. */
#include "base/base.h"
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_BYTES ((size_t)2 * 1024 * 1024)

static _Atomic int64_t fail_after = -1;
static _Atomic uint64_t n_alloc;
static _Thread_local uint64_t n_alloc_here;
static _Thread_local int64_t n_bytes_here;

void hy_alloc_fail_after(int64_t n)
{
    atomic_store(&fail_after, n < 0 ? -1 : n);
}

uint64_t hy_alloc_count(void)
{
    return atomic_load_explicit(&n_alloc, memory_order_relaxed);
}

uint64_t hy_alloc_count_here(void)
{
    return n_alloc_here;
}

int64_t hy_alloc_bytes_here(void)
{
    return n_bytes_here;
}

/* True when the test hook wants this allocation to fail. */
static bool must_fail(void)
{
    if (atomic_load_explicit(&fail_after, memory_order_relaxed) < 0) return false;
    return atomic_fetch_sub(&fail_after, 1) == 0;
}

static void *counted(void *p)
{
    if (p) {
        atomic_fetch_add_explicit(&n_alloc, 1, memory_order_relaxed);
        n_alloc_here++;
    }
    return p;
}

static void *heap(void *p)
{
    n_bytes_here += (int64_t)malloc_usable_size(p);
    return counted(p);
}

/* PTRDIFF_MAX: no object may be larger, and sanitizers report such requests as errors. */
static bool too_large(size_t n_bytes)
{
    return n_bytes > (size_t)PTRDIFF_MAX / 2;
}

void *hy_alloc(size_t n_bytes)
{
    if (too_large(n_bytes) || must_fail()) return NULL;
    return heap(malloc(n_bytes ? n_bytes : 1));
}

void *hy_calloc(size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || too_large(bytes) || must_fail()) return NULL;
    return heap(calloc(1, bytes ? bytes : 1));
}

void *hy_alloc_array(size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) return NULL;
    return hy_alloc(bytes);
}

void *hy_realloc(void *p, size_t n_bytes)
{
    if (too_large(n_bytes) || must_fail()) return NULL;
    size_t old = malloc_usable_size(p);
    void *q = heap(realloc(p, n_bytes ? n_bytes : 1));
    if (q) n_bytes_here -= (int64_t)old;
    return q;
}

void *hy_realloc_array(void *p, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) return NULL;
    return hy_realloc(p, bytes);
}

char *hy_strndup(const char *s, size_t n)
{
    if (n == SIZE_MAX) return NULL;
    char *p = hy_alloc(n + 1);
    if (!p) return NULL;
    if (n) memcpy(p, s, n);
    p[n] = 0;
    return p;
}

char *hy_strdup(const char *s)
{
    return hy_strndup(s, strlen(s));
}

void hy_free(void *p)
{
    n_bytes_here -= (int64_t)malloc_usable_size(p);
    free(p);
}

/* Whole pages, at least one; 0 when it overflows. */
static size_t big_bytes(size_t n_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (n_bytes == 0) return page;
    if (too_large(n_bytes)) return 0;
    return HY_ROUND_UP(n_bytes, page);
}

void *hy_alloc_big(size_t n_bytes)
{
    size_t bytes = big_bytes(n_bytes);
    if (!bytes || must_fail()) return NULL;
    /* A huge page needs its own alignment: map more and cut off both ends. */
    size_t extra = bytes >= HUGE_BYTES ? HUGE_BYTES : 0;
    uint8_t *raw = mmap(NULL, bytes + extra, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return NULL;
    uint8_t *p = raw;
    if (extra) {
        size_t head = (HUGE_BYTES - (uintptr_t)raw % HUGE_BYTES) % HUGE_BYTES;
        p = raw + head;
        if (head) munmap(raw, head);
        if (extra - head) munmap(p + bytes, extra - head);
        madvise(p, bytes, MADV_HUGEPAGE); /* advice: without it all is slower, not wrong */
    }
    return counted(p);
}

void hy_big_huge_pages(void *p, size_t n_bytes)
{
    madvise(p, big_bytes(n_bytes), MADV_HUGEPAGE);
}

void hy_big_need(void *p, size_t n_bytes)
{
#if defined(MADV_POPULATE_WRITE) /* Linux 5.14; an error only means that pages come one by one */
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)p / page * page;
    madvise((void *)first, (uintptr_t)p - first + n_bytes, MADV_POPULATE_WRITE);
#endif
}

void hy_free_big(void *p, size_t n_bytes)
{
    if (p) munmap(p, big_bytes(n_bytes));
}

void hy_big_small_pages(void *p, size_t n_bytes)
{
    madvise(p, big_bytes(n_bytes), MADV_NOHUGEPAGE);
}
