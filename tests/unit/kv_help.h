/* A small pool whose places are filled with what belongs to the tokens so far, for tests of kv. */
#ifndef KV_HELP_H
#define KV_HELP_H

#include "kv/kv.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define PAGE HY_KV_PAGE_TOK

typedef struct seq {
    hy_page_table t;
    int32_t ids[1024];
} seq;

static inline hy_kv *open_pool(uint32_t n_page, uint32_t window)
{
    const hy_kv_group g[2] = {
        { .window = 0, .n_layer = 2, .page_bytes = 256, .part_bytes = 64, .n_page = n_page },
        { .window = window, .n_layer = 1, .page_bytes = 128, .part_bytes = 64, .n_page = n_page },
    };
    hy_kv *kv = NULL;
    assert_int_equal(hy_kv_open(&kv, g, window ? 2 : 1, NULL), HY_OK);
    return kv;
}

/* Tokens first, first + 1, ... */
static inline void count_up(seq *s, int32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) s->ids[i] = first + (int32_t)i;
}

/* Word i of a page, counted through its parts. */
static inline uint64_t *word(const hy_kv *kv, uint32_t g, uint32_t page, uint32_t i)
{
    uint32_t n = (uint32_t)(hy_kv_group_of(kv, g)->part_bytes / sizeof(uint64_t)); /* of a part */
    return (uint64_t *)(void *)hy_kv_part(kv, g, page, i / n) + i % n;
}

/* Bytes that belong nowhere, in all pages of the group. */
static inline void wipe(const hy_kv *kv, uint32_t g)
{
    const hy_kv_group *grp = hy_kv_group_of(kv, g);
    for (uint32_t k = 0; k < grp->n_page; k++)
        for (uint32_t i = 0; i < grp->page_bytes / grp->part_bytes; i++)
            memset(hy_kv_part(kv, g, k, i), 0xee, (size_t)grp->part_bytes);
}

/* A token's word: the pools here have pages whose tokens are spread over several parts. */
static inline uint64_t *cell(const hy_kv *kv, const seq *s, uint32_t g, uint32_t tok)
{
    return word(kv, g, s->t.page[g][tok / PAGE], tok % PAGE);
}

static inline uint64_t belongs(const seq *s, uint32_t tok)
{
    return hy_hash64(s->ids, (tok + 1) * sizeof *s->ids, 7);
}

/* Room up to n tokens, and what belongs there from `from` on. */
static inline hy_status fill(hy_kv *kv, seq *s, uint32_t n)
{
    uint32_t from = s->t.n_tok;
    HY_TRY(hy_kv_reserve(kv, &s->t, n, NULL));
    for (uint32_t g = 0; g < hy_kv_n_group(kv); g++)
        for (uint32_t i = from; i < n; i++) *cell(kv, s, g, i) = belongs(s, i);
    return HY_OK;
}

static inline void read_back(const hy_kv *kv, const seq *s)
{
    for (uint32_t g = 0; g < hy_kv_n_group(kv); g++)
        for (uint32_t i = s->t.page_first[g] * PAGE; i < s->t.n_tok; i++)
            assert_true(*cell(kv, s, g, i) == belongs(s, i));
}

static inline void sound(const hy_kv *kv, const seq *a, const seq *b)
{
    const hy_page_table *t[2];
    uint32_t n = 0;
    if (a) t[n++] = &a->t;
    if (b) t[n++] = &b->t;
    hy_err err = { 0 };
    if (hy_kv_check(kv, t, n, &err) != HY_OK) fail_msg("%s", err.msg);
}

static inline seq *new_seq(const hy_kv *kv)
{
    seq *s = HY_NEW(seq);
    assert_non_null(s);
    assert_int_equal(hy_page_table_init(kv, &s->t, 1000, NULL), HY_OK);
    return s;
}

static inline void free_seq(hy_kv *kv, seq *s)
{
    hy_page_table_free(kv, &s->t);
    hy_free(s);
}

/* Computes n tokens from `first` on, lets the cache know them, and ends. */
static inline void remember(hy_kv *kv, int32_t first, uint32_t n)
{
    seq *s = new_seq(kv);
    count_up(s, first, n);
    assert_int_equal(fill(kv, s, n), HY_OK);
    hy_kv_cache_put(kv, &s->t, 1, s->ids, n);
    free_seq(kv, s);
}

static inline uint32_t peek(const hy_kv *kv, int32_t first, uint32_t n)
{
    int32_t ids[1024];
    for (uint32_t i = 0; i < n; i++) ids[i] = first + (int32_t)i;
    return hy_kv_cache_peek(kv, 1, ids, n);
}

/* The path of a file that does not exist yet, in memory where the system has a folder for that. */
static inline void temp_path(char *path, size_t n, const char *name)
{
    const char *dir = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : P_tmpdir;
    snprintf(path, n, "%s/hayate-%s-%ld", dir, name, (long)getpid());
    unlink(path);
}

#endif
