/* Arena: blocks in a list, filled from the front. */
#include "base/base.h"
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#endif

#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
enum { gap_bytes = 32, align_min = 8 }; /* ASan tracks 8-byte granules */
#define POISON(p, n) __asan_poison_memory_region((p), (n))
#define UNPOISON(p, n) __asan_unpoison_memory_region((p), (n))
#else
enum { gap_bytes = 0, align_min = 1 };
#define POISON(p, n) ((void)0)
#define UNPOISON(p, n) ((void)0)
#endif

/*  data   | allocation | gap | allocation | gap | free ...        |
 *         0                                       used           cap   */
typedef struct block {
    struct block *next;
    size_t cap, used;
    uint8_t *data; /* right behind this header */
} block;

struct hy_arena {
    block *first, *last;
    block *open;        /* blocks before this one are as good as full */
    size_t block_bytes;
    size_t held_bytes;
};

static block *block_new(size_t cap)
{
    block *b = hy_alloc(sizeof(block) + cap);
    if (!b) return NULL;
    *b = (block){.cap = cap, .data = (uint8_t *)(b + 1)};
    POISON(b->data, cap);
    return b;
}

hy_arena *hy_arena_new(size_t block_bytes)
{
    hy_arena *a = HY_NEW(hy_arena);
    if (!a) return NULL;
    a->block_bytes = HY_MIN(HY_MAX(block_bytes, (size_t)256), SIZE_MAX / 4);
    return a;
}

/* Takes n bytes of the block, or returns NULL when they do not fit. */
static void *block_take(block *b, size_t n, size_t align)
{
    uintptr_t at = (uintptr_t)b->data + b->used;
    size_t pad = (size_t)(-at & (align - 1));
    size_t room = b->cap - b->used;
    if (pad > room || n > room - pad) return NULL;
    uint8_t *p = b->data + b->used + pad;
    b->used += HY_MIN(room, pad + n + gap_bytes);
    UNPOISON(p, n);
    memset(p, 0, n);
    return p;
}

void *hy_arena_alloc(hy_arena *a, size_t n_bytes, size_t align)
{
    HY_ASSERT(align && (align & (align - 1)) == 0);
    if (n_bytes > SIZE_MAX / 4 || align > SIZE_MAX / 4) return NULL;
    align = HY_MAX(align, (size_t)align_min);
    for (block *b = a->open; b; b = b->next) {
        void *p = block_take(b, n_bytes, align);
        if (p) return p;
        /* Small rests are given up, so that a long list is not searched each time. */
        if (b == a->open && b->next && b->cap - b->used < b->cap / 16) a->open = b->next;
    }
    size_t need = n_bytes + align + gap_bytes;
    block *b = block_new(HY_MAX(need, a->block_bytes));
    if (!b) return NULL;
    if (a->last) a->last->next = b;
    else a->first = b;
    a->last = b;
    if (!a->open) a->open = b;
    a->held_bytes += sizeof(block) + b->cap;
    return block_take(b, n_bytes, align);
}

char *hy_arena_strndup(hy_arena *a, const char *s, size_t n)
{
    if (n == SIZE_MAX) return NULL;
    char *p = hy_arena_alloc(a, n + 1, 1);
    if (p && n) memcpy(p, s, n);
    return p;
}

void hy_arena_reset(hy_arena *a)
{
    for (block *b = a->first; b; b = b->next) {
        b->used = 0;
        POISON(b->data, b->cap);
    }
    a->open = a->first;
}

size_t hy_arena_bytes(const hy_arena *a)
{
    return a->held_bytes;
}

void hy_arena_free(hy_arena *a)
{
    if (!a) return;
    for (block *b = a->first, *next; b; b = next) {
        next = b->next;
        UNPOISON(b->data, b->cap);
        hy_free(b);
    }
    hy_free(a);
}
