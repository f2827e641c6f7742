/* The compile context: bounded memory, time and depth; failure by longjmp. */
#include "gram/gram_impl.h"
#include <stdarg.h>
#include <stdio.h>

void hy_gc_fail(hy_gc *gc, hy_status code, const char *fmt, ...)
{
    char msg[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    gc->code =
        hy_fail(gc->err, code, "%s%s%s", gc->what ? gc->what : "", gc->what ? ": " : "", msg);
    longjmp(gc->jmp, 1);
}

static void *take(hy_gc *gc, hy_arena *a, size_t max, size_t n, size_t size)
{
    if (size && n > max / size)
        hy_gc_fail(gc, HY_E_LIMIT, "too large: compiling needs more than %zu MiB", max >> 20);
    if (hy_arena_bytes(a) > max)
        hy_gc_fail(gc, HY_E_LIMIT, "too large: compiling needs more than %zu MiB", max >> 20);
    hy_gc_spend(gc, n * size / 8); /* fresh memory costs what it takes to clear it */
    void *p = hy_arena_alloc(a, n * size, 16);
    if (!p) hy_gc_fail(gc, HY_E_MEMORY, "out of memory");
    return p;
}

void *hy_gc_tmp(hy_gc *gc, size_t n, size_t size)
{
    return take(gc, gc->tmp, gc->tmp_max, n, size);
}

void *hy_gc_keep(hy_gc *gc, size_t n, size_t size)
{
    return take(gc, gc->keep, gc->keep_max, n, size);
}

void hy_gc_spend(hy_gc *gc, uint64_t units)
{
    if (units > gc->work)
        hy_gc_fail(gc, HY_E_LIMIT, "too complex: compiling takes more than %u million steps",
                   HY_GC_WORK / 1000000);
    gc->work -= units;
}

void hy_gc_enter(hy_gc *gc)
{
    if (++gc->depth > HY_GC_DEPTH)
        hy_gc_fail(gc, HY_E_LIMIT, "nested deeper than %d levels", HY_GC_DEPTH);
    hy_gc_spend(gc, 50);
}

void hy_gc_leave(hy_gc *gc) { gc->depth--; }

void *hy_gc_grow(hy_gc *gc, void *p, size_t n, size_t *cap, size_t size)
{
    if (n < *cap) return p;
    size_t more = HY_MAX(*cap * 2, (size_t)4);
    void *q = hy_gc_tmp(gc, more, size);
    if (n) memcpy(q, p, n * size);
    *cap = more;
    return q;
}
