/* The packed form of a model's weights in a file of its own, so that the next start maps it: nothing is packed
 * again, and several processes share the memory.
 *
 *   | head | a hash for each chunk of the data | to a whole page | data: what hy_load_pack fills |
 *
 * The head's key is a hash of everything that decides the data: the source's size, time and header (metadata and
 * tensor table), the list of weights with their types and sizes, the width of panels, and how each type is laid
 * out, which is found by packing a few made-up rows. A file of another key is stale; one whose size or hashes
 * are not right is broken. Neither is used; both are written again. */
#include "plan/weights.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define VERSION 2 /* 2: scales of a few groups before their codes */
#define CHUNK (4 * HY_MIB)
#define PAGE 4096ull
#define PROBE_K 256

typedef struct head {
    char magic[8];
    uint32_t version, head_bytes;
    uint64_t key, data_bytes, n_chunk, data_at, chunks_hash, spare;
} head;
static const char magic[8] = "HYPACKED";

/* ---- the key ----------------------------------------------------------------------------------- */

static uint64_t add(uint64_t h, const void *data, size_t n)
{
    return hy_hash64(data, n, h);
}

static uint64_t add_u64(uint64_t h, uint64_t v)
{
    return add(h, &v, sizeof v);
}

/* What packing makes of 16 made-up rows: changes when the layout does. */
static uint64_t add_layout(uint64_t h, hy_qtype type, uint32_t panel)
{
    uint8_t row[HY_PANEL_ROWS_MAX][PROBE_K * 4], out[HY_PANEL_ROWS_MAX * PROBE_K * 4 + 8192];
    const void *rows[HY_PANEL_ROWS_MAX];
    hy_panels w;
    if (!hy_panels_shape(&w, type, panel, panel, PROBE_K) || w.panel_bytes > sizeof out) return add_u64(h, type);
    for (uint32_t r = 0; r < panel; r++) {
        for (uint32_t i = 0; i < sizeof row[r]; i++) row[r][i] = (uint8_t)hy_rng_at(type, r, i);
        rows[r] = row[r];
    }
    memset(out, 0, sizeof out);
    hy_panel_pack(&w, out, rows, panel);
    return add(add_u64(h, type), out, w.panel_bytes);
}

/* The parts' sizes, times and what stands before their first tensor. False: a file without a time. */
static bool add_source(uint64_t *h, const hy_file *f)
{
    for (uint32_t i = 0; i < f->n_part; i++) {
        const hy_map *m = &f->part[i];
        struct stat st;
        if (m->fd < 0 || fstat(m->fd, &st) != 0) return false;
        uint64_t first = m->bytes;
        for (uint64_t t = 0; t < f->n_tensor; t++)
            if (f->tensor[t].i_part == i && f->tensor[t].data) first = HY_MIN(first, f->tensor[t].offset);
        *h = add_u64(*h, m->bytes);
        *h = add_u64(*h, (uint64_t)st.st_mtim.tv_sec);
        *h = add_u64(*h, (uint64_t)st.st_mtim.tv_nsec);
        *h = add(*h, m->data, (size_t)first);
    }
    return f->n_part > 0;
}

static bool key_of(const hy_loader *l, uint64_t *out)
{
    bool seen[HY_Q_COUNT] = { false };
    uint32_t panel = l->opts->kern->panel;
    uint64_t h = add_u64(VERSION, panel);
    h = add(h, l->m->family->name, strlen(l->m->family->name));
    h = add_u64(h, (uint64_t)(int64_t)l->opts->quantise + ((uint64_t)l->opts->requantise << 32));
    if (!add_source(&h, l->file)) return false;
    for (uint32_t i = 0; i < l->n_job; i++) {
        const hy_load_job *j = &l->job[i];
        const uint64_t what[] = { j->w->role, j->i_layer, j->n_part, j->k, j->n_row, j->type, j->panels_bytes,
                                  j->vec_bytes, j->bias_bytes, (uint64_t)j->src.how->pick, (uint64_t)j->src.how->flags };
        h = add(h, what, sizeof what);
        if (!j->w->panels) continue;
        if (!seen[j->type]) h = add_layout(h, j->type, panel);
        seen[j->type] = true;
        h = add_u64(h, j->part[0]->qtype);
    }
    *out = h;
    return true;
}

/* ---- hashes of the data ------------------------------------------------------------------------ */

typedef struct hashing {
    const uint8_t *data;
    uint64_t bytes, n_chunk;
    const hy_map *map;         /* data lies in this file, or NULL */
    uint64_t *hash;            /* [n_chunk], to fill ... */
    const uint64_t *want;      /* ... or to compare with */
    _Atomic bool differs;
} hashing;

static void hash_share(void *arg, hy_worker *w)
{
    hashing *h = arg;
    uint64_t first, last;
    hy_share(h->n_chunk, 1, w, &first, &last);
    for (uint64_t i = first; i < last && !h->differs; i++) {
        uint64_t at = i * CHUNK, n = HY_MIN(CHUNK, h->bytes - at);
        if (h->map) hy_map_need(h->map, (uint64_t)(h->data - h->map->data) + at, n);
        uint64_t v = hy_hash64(h->data + at, (size_t)n, i);
        if (h->hash) h->hash[i] = v;
        else if (v != h->want[i]) h->differs = true;
    }
}

static bool run_hashes(const hy_loader *l, hashing *h)
{
    hy_worker alone = { .n = 1 };
    if (l->opts->team) hy_team_run(l->opts->team, hash_share, h);
    else hash_share(h, &alone);
    return !h->differs;
}

static uint64_t data_start(uint64_t n_chunk)
{
    return HY_ROUND_UP(sizeof(head) + n_chunk * sizeof(uint64_t), PAGE);
}

/* ---- reading ----------------------------------------------------------------------------------- */

/* NULL when the mapped file is what this model needs; else why not. */
static const char *wrong(const hy_loader *l, const hy_map *m, uint64_t key)
{
    head h;
    if (m->bytes < sizeof h) return "too short";
    memcpy(&h, m->data, sizeof h);
    uint64_t n_chunk = (l->all_bytes + CHUNK - 1) / CHUNK;
    if (memcmp(h.magic, magic, sizeof magic) != 0) return "no packed model";
    if (h.version != VERSION || h.head_bytes != sizeof h) return "another version of the format";
    if (h.key != key || h.data_bytes != l->all_bytes || h.n_chunk != n_chunk) return "of another model, or stale";
    if (h.data_at != data_start(n_chunk) || m->bytes != h.data_at + h.data_bytes) return "cut short";
    const uint64_t *chunks = (const uint64_t *)(const void *)(m->data + sizeof h);
    if (hy_hash64(chunks, (size_t)n_chunk * sizeof *chunks, key) != h.chunks_hash) return "broken";
    hashing sum = { .data = m->data + h.data_at, .bytes = h.data_bytes, .n_chunk = n_chunk, .map = m, .want = chunks };
    return run_hashes(l, &sum) ? NULL : "broken";
}

static bool try_map(hy_loader *l, const char *path, uint64_t key)
{
    hy_map map;
    if (!hy_is_file(path) || hy_map_open(&map, path, NULL) != HY_OK) return false;
    const char *why = wrong(l, &map, key);
    if (why) {
        hy_log(HY_LOG_INFO, "packed weights not used", "file=%s why=\"%s\"", path, why);
        hy_map_close(&map);
        return false;
    }
    hy_model_mem *mem = l->m->mem;
    mem->map = map;
    mem->data = (uint8_t *)(uintptr_t)(map.data + data_start((l->all_bytes + CHUNK - 1) / CHUNK));
    mem->bytes = l->all_bytes;
    return true;
}

/* ---- writing ----------------------------------------------------------------------------------- */

static bool put(int fd, const void *data, uint64_t n)
{
    const uint8_t *p = data;
    while (n) {
        ssize_t k = write(fd, p, (size_t)HY_MIN(n, HY_GIB));
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        p += k;
        n -= (uint64_t)k;
    }
    return true;
}

static bool has_room(int fd, uint64_t n)
{
    struct statvfs v;
    return fstatvfs(fd, &v) != 0 || (uint64_t)v.f_bavail * v.f_frsize > n + n / 16;
}

/* Under a temporary name first; what a power cut leaves half written does not match its hashes. */
static bool write_file(const hy_loader *l, const char *path, const head *h, const uint64_t *chunks)
{
    static const uint8_t zeros[PAGE];
    hy_buf tmp = { 0 };
    hy_buf_printf(&tmp, "%s.%ld", path, (long)getpid());
    int fd = tmp.failed ? -1 : open(tmp.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    uint64_t n_table = h->n_chunk * sizeof *chunks, pad = h->data_at - sizeof *h - n_table;
    bool good = fd >= 0 && has_room(fd, h->data_at + h->data_bytes) && put(fd, h, sizeof *h) && put(fd, chunks, n_table) &&
                put(fd, zeros, pad) && put(fd, l->m->mem->data, h->data_bytes);
    if (fd >= 0) good = close(fd) == 0 && good;
    good = good && rename(tmp.data, path) == 0;
    if (fd >= 0 && !good) unlink(tmp.data);
    hy_buf_free(&tmp);
    return good;
}

/* ---- for the loader ---------------------------------------------------------------------------- */

bool hy_packed_map(hy_loader *l)
{
    if (l->opts->n_packed == 0 || l->all_bytes == 0 || !key_of(l, &l->packed_key)) return false;
    l->packed = true;
    for (uint32_t i = 0; i < l->opts->n_packed; i++)
        if (try_map(l, l->opts->packed[i], l->packed_key)) return true;
    return false;
}

void hy_packed_keep(const hy_loader *l)
{
    if (!l->packed) return;
    uint64_t n_chunk = (l->all_bytes + CHUNK - 1) / CHUNK;
    uint64_t *chunks = hy_alloc_array((size_t)n_chunk, sizeof *chunks);
    if (!chunks) return;
    hashing sum = { .data = l->m->mem->data, .bytes = l->all_bytes, .n_chunk = n_chunk, .hash = chunks };
    run_hashes(l, &sum);
    head h = { .version = VERSION, .head_bytes = sizeof h, .key = l->packed_key, .data_bytes = l->all_bytes,
               .n_chunk = n_chunk, .data_at = data_start(n_chunk) };
    memcpy(h.magic, magic, sizeof magic);
    h.chunks_hash = hy_hash64(chunks, (size_t)n_chunk * sizeof *chunks, h.key);
    bool kept = false;
    for (uint32_t i = 0; i < l->opts->n_packed && !kept; i++) kept = write_file(l, l->opts->packed[i], &h, chunks);
    if (!kept) hy_log(HY_LOG_WARN, "packed weights could not be kept", "file=%s", l->opts->packed[0]);
    hy_free(chunks);
}
