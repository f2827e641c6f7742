/* A conversation's pages in a file.
 *
 *   head     magic, version, identity, sizes, tokens, for each group its sizes and first page; hash
 *   tokens   int32 each
 *   pages    for every group, for every page from its first on:  bytes | data (zstd, or the page itself: part
 *            after part, whatever the pool's layout)
 *   hash     chained over tokens and pages
 *
 * Little-endian. Pages are read into a table of their own; only when the whole file has proved right does the
 * cache learn them, so a bad file changes nothing that anybody can be given. */
#include "kv/coder.h"
#include "kv/pool.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VERSION 1
static const char magic[8] = { 'h', 'a', 'y', 'a', 't', 'e', 'K', 'V' };

typedef struct file_head {
    char magic[8];
    uint32_t version, page_tok, n_group, n_tok;
    uint64_t identity;
    struct {
        uint32_t window, n_layer, first, zero;
        uint64_t page_bytes;
    } group[HY_KV_GROUPS_MAX];
    uint64_t hash;             /* of all before */
} file_head;

typedef struct kv_file {
    const char *path;
    int fd;
    uint64_t at, bytes;        /* position; reading: size */
    uint64_t hash;             /* chained */
    hy_kv_coder coder;
} kv_file;

static uint64_t head_hash(const file_head *h)
{
    return hy_hash64(h, offsetof(file_head, hash), 0);
}

static void chain(kv_file *f, const void *data, size_t n)
{
    f->hash = hy_hash64(data, n, f->hash);
}

/* ---- save --------------------------------------------------------------------------------------- */

static hy_status put(kv_file *f, const void *data, size_t n, hy_err *err)
{
    if (!hy_kv_write_at(f->fd, data, n, f->at))
        return hy_fail(err, HY_E_IO, "cannot write %s after %" PRIu64 " bytes: %s", f->path, f->at,
                       errno ? strerror(errno) : "nothing written");
    f->at += n;
    return HY_OK;
}

static hy_status put_page(kv_file *f, const hy_kv *kv, uint32_t g, uint32_t page, hy_err *err)
{
    const uint8_t *data;
    hy_kv_gather(kv, g, page, f->coder.page);
    uint64_t n = hy_kv_pack(&f->coder, f->coder.page, (size_t)kv->pool[g].g.page_bytes, &data);
    chain(f, &n, sizeof n);
    chain(f, data, (size_t)n);
    HY_TRY(put(f, &n, sizeof n, err));
    return put(f, data, (size_t)n, err);
}

/* node[i]: the node of page i. */
static hy_status put_all(kv_file *f, const hy_kv *kv, const file_head *h, const uint32_t *node, const int32_t *ids,
                         hy_err *err)
{
    HY_TRY(put(f, h, sizeof *h, err));
    chain(f, ids, h->n_tok * sizeof *ids);
    HY_TRY(put(f, ids, h->n_tok * sizeof *ids, err));
    for (uint32_t g = 0; g < kv->n_group; g++)
        for (uint32_t i = h->group[g].first; i < h->n_tok / HY_KV_PAGE_TOK; i++)
            HY_TRY(put_page(f, kv, g, kv->cache.node[node[i]].page[g], err));
    uint64_t hash = f->hash;
    HY_TRY(put(f, &hash, sizeof hash, err));
    if (fsync(f->fd) != 0) return hy_fail(err, HY_E_IO, "cannot write %s: %s", f->path, strerror(errno));
    return HY_OK;
}

static void fill_head(file_head *h, const hy_kv *kv, uint64_t identity, const uint32_t *node, uint32_t n_page)
{
    memset(h, 0, sizeof *h);
    memcpy(h->magic, magic, sizeof magic);
    h->version = VERSION;
    h->page_tok = HY_KV_PAGE_TOK;
    h->n_group = kv->n_group;
    h->n_tok = n_page * HY_KV_PAGE_TOK;
    h->identity = identity;
    for (uint32_t g = 0; g < kv->n_group; g++) {
        const hy_kv_group *grp = &kv->pool[g].g;
        uint32_t first = hy_kv_first_seen(grp, h->n_tok);
        /* one page more where there is one: then the same tokens again, less the last page, are a hit too */
        if (first > 0 && kv->cache.node[node[first - 1]].page[g] != HY_KV_NO_PAGE) first--;
        h->group[g].window = grp->window;
        h->group[g].n_layer = grp->n_layer;
        h->group[g].page_bytes = grp->page_bytes;
        h->group[g].first = first;
    }
    h->hash = head_hash(h);
}

static hy_status write_file(const hy_kv *kv, const char *path, const file_head *h, const uint32_t *node,
                            const int32_t *ids, hy_err *err)
{
    size_t n = strlen(path) + 8;
    char *tmp = hy_alloc(n);
    if (!tmp) return hy_fail_memory(err, "path", n);
    snprintf(tmp, n, "%s.XXXXXX", path);
    kv_file f = { .path = path, .fd = -1 };
    hy_status st = hy_kv_coder_open(&f.coder, kv, err);
    if (st == HY_OK && (f.fd = mkostemp(tmp, O_CLOEXEC)) < 0)
        st = hy_fail(err, HY_E_IO, "cannot create %s: %s", tmp, strerror(errno));
    if (st == HY_OK) st = put_all(&f, kv, h, node, ids, err);
    if (f.fd >= 0 && close(f.fd) != 0 && st == HY_OK)
        st = hy_fail(err, HY_E_IO, "cannot write %s: %s", path, strerror(errno));
    if (st == HY_OK && rename(tmp, path) != 0)
        st = hy_fail(err, HY_E_IO, "cannot rename %s to %s: %s", tmp, path, strerror(errno));
    if (f.fd >= 0 && st != HY_OK) unlink(tmp);
    hy_kv_coder_close(&f.coder);
    hy_free(tmp);
    return st;
}

hy_status hy_kv_save(hy_kv *kv, const char *path, uint64_t identity, uint64_t tenant, const int32_t *ids, uint32_t n,
                     uint32_t *n_saved, hy_err *err)
{
    uint32_t last, n_page = hy_kv_match(kv, tenant, ids, n / HY_KV_PAGE_TOK, &last);
    *n_saved = 0;
    if (n_page == 0) return hy_fail(err, HY_E_ARG, "%s: no page of these %u tokens is in the cache", path, n);
    uint32_t *node = hy_alloc_array(n_page, sizeof *node);
    if (!node) return hy_fail_memory(err, "pages", n_page * sizeof *node);
    for (uint32_t i = n_page; i-- > 0; last = kv->cache.node[last].parent) node[i] = last;
    file_head h;
    fill_head(&h, kv, identity, node, n_page);
    hy_status st = write_file(kv, path, &h, node, ids, err);
    hy_free(node);
    if (st == HY_OK) *n_saved = h.n_tok;
    return st;
}

/* ---- load --------------------------------------------------------------------------------------- */

static hy_status get(kv_file *f, void *data, size_t n, hy_err *err)
{
    if (n > f->bytes - f->at)
        return hy_fail(err, HY_E_FORMAT, "%s: ends after %" PRIu64 " bytes, %zu more were expected at %" PRIu64,
                       f->path, f->bytes, n, f->at);
    if (!hy_kv_read_at(f->fd, data, n, f->at))
        return hy_fail(err, HY_E_IO, "cannot read %s: %s", f->path, errno ? strerror(errno) : "it became shorter");
    f->at += n;
    return HY_OK;
}

static hy_status check_sizes(const kv_file *f, const file_head *h, const hy_kv *kv, hy_err *err)
{
    if (h->page_tok != HY_KV_PAGE_TOK || h->n_group != kv->n_group)
        return hy_fail(err, HY_E_ARG, "%s: %u groups of pages of %u tokens; the model has %u of %u", f->path,
                       h->n_group, h->page_tok, kv->n_group, HY_KV_PAGE_TOK);
    if (h->n_tok == 0 || h->n_tok % HY_KV_PAGE_TOK != 0)
        return hy_fail(err, HY_E_FORMAT, "%s: %u tokens are not whole pages", f->path, h->n_tok);
    for (uint32_t g = 0; g < kv->n_group; g++) {
        const hy_kv_group *grp = &kv->pool[g].g;
        if (h->group[g].window != grp->window || h->group[g].n_layer != grp->n_layer ||
            h->group[g].page_bytes != grp->page_bytes)
            return hy_fail(err, HY_E_ARG, "%s: group %u has pages of %" PRIu64 " bytes, %u layers, window %u; the "
                           "model's: %" PRIu64 ", %u, %u", f->path, g, h->group[g].page_bytes, h->group[g].n_layer,
                           h->group[g].window, grp->page_bytes, grp->n_layer, grp->window);
        uint32_t seen = hy_kv_first_seen(grp, h->n_tok), n_page = h->n_tok / HY_KV_PAGE_TOK;
        if (h->group[g].first > seen)
            return hy_fail(err, HY_E_FORMAT, "%s: group %u starts at page %u, page %u is needed", f->path, g,
                           h->group[g].first, seen);
        if (n_page - h->group[g].first > grp->n_page)
            return hy_fail(err, HY_E_LIMIT, "%s: %u pages of group %u; the KV cache has %u", f->path,
                           n_page - h->group[g].first, g, grp->n_page);
    }
    if ((uint64_t)h->n_tok * sizeof(int32_t) > f->bytes - f->at)
        return hy_fail(err, HY_E_FORMAT, "%s: %" PRIu64 " bytes are too few for %u tokens", f->path, f->bytes,
                       h->n_tok);
    return HY_OK;
}

static hy_status get_head(kv_file *f, file_head *h, const hy_kv *kv, uint64_t identity, hy_err *err)
{
    struct stat sb;
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0 || fstat(f->fd, &sb) != 0)
        return hy_fail(err, HY_E_IO, "cannot open %s: %s", f->path, strerror(errno));
    if (!S_ISREG(sb.st_mode)) return hy_fail(err, HY_E_IO, "%s: not a regular file", f->path);
    f->bytes = (uint64_t)sb.st_size;
    if (f->bytes < sizeof *h) return hy_fail(err, HY_E_FORMAT, "%s: not a saved conversation", f->path);
    HY_TRY(get(f, h, sizeof *h, err));
    if (memcmp(h->magic, magic, sizeof magic) != 0)
        return hy_fail(err, HY_E_FORMAT, "%s: not a saved conversation", f->path);
    if (h->version != VERSION)
        return hy_fail(err, HY_E_UNSUPPORTED, "%s: version %u; this program reads version %u", f->path, h->version,
                       VERSION);
    if (h->hash != head_hash(h)) return hy_fail(err, HY_E_FORMAT, "%s: wrong checksum of the head", f->path);
    if (h->identity != identity)
        return hy_fail(err, HY_E_ARG, "%s: saved with another model, KV type or layout", f->path);
    return check_sizes(f, h, kv, err);
}

static hy_status get_ids(kv_file *f, int32_t *ids, uint32_t n, uint32_t n_vocab, hy_err *err)
{
    HY_TRY(get(f, ids, n * sizeof *ids, err));
    chain(f, ids, n * sizeof *ids);
    for (uint32_t i = 0; i < n; i++)
        if ((uint32_t)ids[i] >= n_vocab)
            return hy_fail(err, HY_E_FORMAT, "%s: token %u is %d; the vocabulary has %u", f->path, i, ids[i], n_vocab);
    return HY_OK;
}

static hy_status get_page(kv_file *f, const hy_kv *kv, uint32_t g, uint32_t page, hy_err *err)
{
    size_t bytes = (size_t)kv->pool[g].g.page_bytes;
    uint64_t n;
    HY_TRY(get(f, &n, sizeof n, err));
    if (n > bytes)
        return hy_fail(err, HY_E_FORMAT, "%s: a page of %" PRIu64 " bytes; at most %zu are possible", f->path, n,
                       bytes);
    HY_TRY(get(f, f->coder.buf, (size_t)n, err));
    if (!hy_kv_unpack(&f->coder, f->coder.buf, (size_t)n, f->coder.page, bytes))
        return hy_fail(err, HY_E_FORMAT, "%s: a page before byte %" PRIu64 " cannot be decompressed", f->path, f->at);
    hy_kv_scatter(kv, g, page, f->coder.page);
    chain(f, &n, sizeof n);
    chain(f, f->coder.buf, (size_t)n);
    return HY_OK;
}

static hy_status get_pages(kv_file *f, const hy_kv *kv, const hy_page_table *t, hy_err *err)
{
    for (uint32_t g = 0; g < kv->n_group; g++)
        for (uint32_t i = t->page_first[g]; i < t->n_page[g]; i++)
            HY_TRY(get_page(f, kv, g, t->page[g][i], err));
    uint64_t hash = f->hash, want;
    HY_TRY(get(f, &want, sizeof want, err));
    if (hash != want) return hy_fail(err, HY_E_FORMAT, "%s: wrong checksum", f->path);
    if (f->at != f->bytes)
        return hy_fail(err, HY_E_FORMAT, "%s: %" PRIu64 " bytes too many", f->path, f->bytes - f->at);
    return HY_OK;
}

/* ids: room for the head's tokens; t: an empty table for them. */
static hy_status load(kv_file *f, hy_kv *kv, const file_head *h, uint32_t n_vocab, int32_t *ids, hy_page_table *t,
                      hy_err *err)
{
    uint32_t first[HY_KV_GROUPS_MAX];
    for (uint32_t g = 0; g < HY_KV_GROUPS_MAX; g++) first[g] = h->group[g].first;
    HY_TRY(get_ids(f, ids, h->n_tok, n_vocab, err));
    hy_status st = hy_kv_place(kv, t, h->n_tok, first, err);
    if (st != HY_OK) return hy_err_prefix(err, st, "%s", f->path);
    return get_pages(f, kv, t, err);
}

hy_status hy_kv_load(hy_kv *kv, const char *path, uint64_t identity, uint64_t tenant, uint32_t n_vocab,
                     uint32_t *n_loaded, hy_err *err)
{
    kv_file f = { .path = path, .fd = -1 };
    file_head h;
    hy_page_table t = { .n_tok = 0 };
    int32_t *ids = NULL;
    *n_loaded = 0;
    hy_status st = get_head(&f, &h, kv, identity, err);
    if (st == HY_OK) st = hy_kv_coder_open(&f.coder, kv, err);
    if (st == HY_OK && !(ids = hy_alloc_array(h.n_tok, sizeof *ids)))
        st = hy_fail_memory(err, "tokens", h.n_tok * sizeof *ids);
    if (st == HY_OK) st = hy_page_table_init(kv, &t, h.n_tok, err);
    if (st == HY_OK) st = load(&f, kv, &h, n_vocab, ids, &t, err);
    if (st == HY_OK) {
        uint32_t node;
        hy_kv_cache_put(kv, &t, tenant, ids, h.n_tok);
        *n_loaded = hy_kv_match(kv, tenant, ids, h.n_tok / HY_KV_PAGE_TOK, &node) * HY_KV_PAGE_TOK;
    }
    if (t.page[0]) hy_page_table_free(kv, &t);
    hy_free(ids);
    hy_kv_coder_close(&f.coder);
    if (f.fd >= 0) close(f.fd);
    return st;
}
