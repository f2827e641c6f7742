/* Pages of paused sequences in one file.
 *
 * The file is blocks of 64 KiB; a sequence is a chain of blocks, its ticket the first one's index. The chain
 * holds, written through one block of memory:
 *
 *   head   hash, n_tok, first page of each group
 *   then for every group, for every page from the first on:  hash, bytes | data (zstd, or the page itself)
 *
 * A page is part after part there, and goes through the coder's `page`. */
#include "kv/coder.h"
#include "kv/pool.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_BYTES (64 * HY_KIB)
#define NO_BLOCK UINT32_MAX

typedef struct swap_head {
    uint64_t hash;             /* of what follows */
    uint32_t n_tok, first[HY_KV_GROUPS_MAX], zero;
} swap_head;
typedef struct page_head {
    uint64_t hash;             /* of the page */
    uint64_t bytes;            /* that follow */
} page_head;

struct hy_kv_swap {
    int fd;
    uint32_t n_block, free;    /* free: first free block */
    uint32_t *next;            /* [n_block] */
    uint8_t *is_first;         /* [n_block]: a ticket */
    uint8_t *buf;              /* one block */
    hy_kv_coder coder;
    hy_kv_swap_stats stats;
};

typedef struct stream {
    hy_kv_swap *s;
    uint32_t first, block;
    size_t pos;                /* in the block */
} stream;

/* ---- opening ------------------------------------------------------------------------------------ */

static hy_status open_file(hy_kv_swap *s, const char *path, hy_err *err)
{
    s->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (s->fd < 0) return hy_fail(err, HY_E_IO, "swap file %s: %s", path, strerror(errno));
    if (unlink(path) != 0) return hy_fail(err, HY_E_IO, "swap file %s: %s", path, strerror(errno));
    return HY_OK;
}

hy_status hy_kv_swap_open(hy_kv_swap **out, const hy_kv *kv, const char *path, uint64_t max_bytes, hy_err *err)
{
    uint64_t n_block = max_bytes / BLOCK_BYTES;
    if (n_block == 0 || n_block >= NO_BLOCK)
        return hy_fail(err, HY_E_ARG, "swap file of %" PRIu64 " bytes: %llu to %llu are possible", max_bytes,
                       (unsigned long long)BLOCK_BYTES, (NO_BLOCK - 1) * BLOCK_BYTES);
    hy_kv_swap *s = HY_NEW(hy_kv_swap);
    if (!s) return hy_fail_memory(err, "swap file", sizeof *s);
    s->fd = -1;
    s->n_block = (uint32_t)n_block;
    s->next = hy_alloc_array(s->n_block, sizeof *s->next);
    s->is_first = HY_NEW_ARRAY(uint8_t, s->n_block);
    s->buf = HY_NEW_ARRAY(uint8_t, BLOCK_BYTES);
    hy_status st = s->next && s->is_first && s->buf ? hy_kv_coder_open(&s->coder, kv, err)
                                                     : hy_fail_memory(err, "swap file", n_block * 5);
    if (st == HY_OK) st = open_file(s, path, err);
    if (st != HY_OK) {
        hy_kv_swap_close(s);
        return st;
    }
    for (uint32_t i = 0; i < s->n_block; i++) s->next[i] = i + 1 < s->n_block ? i + 1 : NO_BLOCK;
    *out = s;
    return HY_OK;
}

void hy_kv_swap_close(hy_kv_swap *s)
{
    if (!s) return;
    if (s->fd >= 0) close(s->fd);
    hy_kv_coder_close(&s->coder);
    hy_free(s->next);
    hy_free(s->is_first);
    hy_free(s->buf);
    hy_free(s);
}

void hy_kv_swap_stats_of(const hy_kv_swap *s, hy_kv_swap_stats *out)
{
    *out = s->stats;
}

/* ---- chains ------------------------------------------------------------------------------------- */

static uint32_t take_block(hy_kv_swap *s)
{
    uint32_t b = s->free;
    if (b == NO_BLOCK) return b;
    s->free = s->next[b];
    s->next[b] = NO_BLOCK;
    s->stats.used_bytes += BLOCK_BYTES;
    return b;
}

static void give_chain(hy_kv_swap *s, uint32_t b)
{
    while (b != NO_BLOCK) {
        uint32_t next = s->next[b];
        s->next[b] = s->free;
        s->free = b;
        s->stats.used_bytes -= BLOCK_BYTES;
        b = next;
    }
}

static hy_status flush(stream *w, hy_err *err)
{
    if (hy_kv_write_at(w->s->fd, w->s->buf, w->pos, w->block * BLOCK_BYTES)) return HY_OK;
    return hy_fail(err, HY_E_IO, "swap file: %s", errno ? strerror(errno) : "nothing written");
}

static hy_status put(stream *w, const void *data, size_t n, hy_err *err)
{
    hy_kv_swap *s = w->s;
    for (const uint8_t *p = data; n;) {
        if (w->pos == BLOCK_BYTES) {
            HY_TRY(flush(w, err));
            uint32_t b = take_block(s);
            if (b == NO_BLOCK)
                return hy_fail(err, HY_E_LIMIT, "swap file: full (%llu bytes)", s->n_block * BLOCK_BYTES);
            s->next[w->block] = b;
            w->block = b;
            w->pos = 0;
        }
        size_t k = HY_MIN(n, BLOCK_BYTES - w->pos);
        memcpy(s->buf + w->pos, p, k);
        w->pos += k;
        p += k;
        n -= k;
    }
    return HY_OK;
}

static hy_status get(stream *r, void *data, size_t n, hy_err *err)
{
    hy_kv_swap *s = r->s;
    for (uint8_t *p = data; n;) {
        if (r->pos == BLOCK_BYTES) {
            r->block = s->next[r->block];
            r->pos = 0;
            if (r->block == NO_BLOCK) return hy_fail(err, HY_E_IO, "swap file: a sequence ends too early");
        }
        size_t k = HY_MIN(n, BLOCK_BYTES - r->pos);
        if (!hy_kv_read_at(s->fd, p, k, r->block * BLOCK_BYTES + r->pos))
            return hy_fail(err, HY_E_IO, "swap file: %s", errno ? strerror(errno) : "it ends too early");
        r->pos += k;
        p += k;
        n -= k;
    }
    return HY_OK;
}

/* ---- out ---------------------------------------------------------------------------------------- */

static uint64_t head_hash(const swap_head *h)
{
    return hy_hash64(&h->n_tok, sizeof *h - sizeof h->hash, 0);
}

static hy_status put_all(stream *w, const hy_kv *kv, const hy_page_table *t, uint32_t n_tok, hy_err *err)
{
    swap_head h = { .n_tok = n_tok };
    uint32_t n_page = hy_kv_pages_of(n_tok);
    for (uint32_t g = 0; g < kv->n_group; g++) h.first[g] = HY_MIN(t->page_first[g], n_page);
    h.hash = head_hash(&h);
    HY_TRY(put(w, &h, sizeof h, err));
    for (uint32_t g = 0; g < kv->n_group; g++) {
        size_t bytes = (size_t)kv->pool[g].g.page_bytes;
        for (uint32_t i = h.first[g]; i < n_page; i++) {
            uint8_t *page = w->s->coder.page;
            const uint8_t *data;
            hy_kv_gather(kv, g, t->page[g][i], page);
            page_head ph = { .hash = hy_hash64(page, bytes, 0) };
            ph.bytes = hy_kv_pack(&w->s->coder, page, bytes, &data);
            HY_TRY(put(w, &ph, sizeof ph, err));
            HY_TRY(put(w, data, (size_t)ph.bytes, err));
            w->s->stats.out_bytes += bytes;
        }
    }
    return flush(w, err);
}

hy_status hy_kv_swap_out(hy_kv_swap *s, hy_kv *kv, hy_page_table *t, uint32_t n_tok, uint32_t *ticket, hy_err *err)
{
    if (n_tok == 0 || n_tok > t->n_tok)
        return hy_fail(err, HY_E_ARG, "swap file: %u tokens of a sequence of %u", n_tok, t->n_tok);
    uint32_t first = take_block(s);
    if (first == NO_BLOCK)
        return hy_fail(err, HY_E_LIMIT, "swap file: full (%llu bytes)", s->n_block * BLOCK_BYTES);
    uint64_t out_bytes = s->stats.out_bytes;
    stream w = { .s = s, .first = first, .block = first };
    hy_status st = put_all(&w, kv, t, n_tok, err);
    if (st != HY_OK) {
        give_chain(s, first);
        s->stats.out_bytes = out_bytes;
        return st;
    }
    s->is_first[first] = 1;
    hy_kv_truncate(kv, t, 0);
    *ticket = first;
    return HY_OK;
}

/* ---- in ----------------------------------------------------------------------------------------- */

static hy_status get_head(stream *r, const hy_kv *kv, swap_head *h, hy_err *err)
{
    HY_TRY(get(r, h, sizeof *h, err));
    bool good = h->hash == head_hash(h);
    for (uint32_t g = 0; good && g < kv->n_group; g++) good = h->first[g] <= hy_kv_pages_of(h->n_tok);
    return good ? HY_OK : hy_fail(err, HY_E_IO, "swap file: wrong checksum of a sequence's head");
}

static hy_status get_page(stream *r, const hy_kv *kv, uint32_t g, uint32_t id, hy_err *err)
{
    size_t bytes = (size_t)kv->pool[g].g.page_bytes;
    uint8_t *page = r->s->coder.page;
    page_head ph;
    HY_TRY(get(r, &ph, sizeof ph, err));
    bool good = ph.bytes <= bytes;
    if (good) {
        HY_TRY(get(r, r->s->coder.buf, (size_t)ph.bytes, err));
        good = hy_kv_unpack(&r->s->coder, r->s->coder.buf, (size_t)ph.bytes, page, bytes) &&
               hy_hash64(page, bytes, 0) == ph.hash;
    }
    if (!good) return hy_fail(err, HY_E_IO, "swap file: wrong checksum of a page");
    hy_kv_scatter(kv, g, id, page);
    r->s->stats.in_bytes += bytes;
    return HY_OK;
}

static hy_status get_pages(stream *r, const hy_kv *kv, const hy_page_table *t, hy_err *err)
{
    for (uint32_t g = 0; g < kv->n_group; g++)
        for (uint32_t i = t->page_first[g]; i < t->n_page[g]; i++)
            HY_TRY(get_page(r, kv, g, t->page[g][i], err));
    return HY_OK;
}

hy_status hy_kv_swap_in(hy_kv_swap *s, hy_kv *kv, hy_page_table *t, uint32_t ticket, hy_err *err)
{
    if (ticket >= s->n_block || !s->is_first[ticket])
        return hy_fail(err, HY_E_ARG, "swap file: ticket %u names no sequence", ticket);
    if (t->n_tok) return hy_fail(err, HY_E_ARG, "kv: the sequence holds %u tokens already", t->n_tok);
    stream r = { .s = s, .first = ticket, .block = ticket };
    swap_head h;
    hy_status st = get_head(&r, kv, &h, err);
    if (st == HY_OK) {
        HY_TRY(hy_kv_place(kv, t, h.n_tok, h.first, err));
        st = get_pages(&r, kv, t, err);
        if (st != HY_OK) hy_kv_truncate(kv, t, 0);
    }
    hy_kv_swap_drop(s, ticket);
    return st;
}

void hy_kv_swap_drop(hy_kv_swap *s, uint32_t ticket)
{
    if (!s || ticket >= s->n_block || !s->is_first[ticket]) return;
    s->is_first[ticket] = 0;
    give_chain(s, ticket);
}
