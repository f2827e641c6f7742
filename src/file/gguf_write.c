/* GGUF v3 writer. The header counts its keys and tensors, so metadata and declarations are kept in
 * memory until the first data comes; tensor data goes straight to the file. */
#include "file/file_impl.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define GGUF_VERSION  3
#define OUT_BUF_BYTES HY_MIB

typedef struct decl {
    const char *name;
    uint32_t n_dims, ggml_type;
    uint64_t dim[HY_DIMS_MAX];
    uint64_t bytes;
} decl;

struct hy_gguf_writer {
    char *path, *tmp; /* in the arena */
    int fd;           /* -1 once closed */
    bool failed;      /* a write failed: nothing more is tried */
    bool started;     /* the header is written: no more keys or tensors */
    uint32_t alignment;
    hy_arena *arena;
    hy_buf meta; /* serialised */
    const char **key;
    uint64_t n_key, cap_key;
    decl *tensor;
    uint64_t n_tensor, cap_tensor;
    uint64_t i_tensor, n_done; /* the tensor being written, and its bytes so far */
    uint8_t *out;              /* [OUT_BUF_BYTES] */
    size_t n_out;
    uint64_t at; /* bytes handed to `emit` */
};

/* ---- bytes to the file ----------------------------------------------------------------------- */

static hy_status write_all(hy_gguf_writer *w, const uint8_t *p, uint64_t n, hy_err *err)
{
    while (n > 0) {
        ssize_t got = write(w->fd, p, HY_MIN(n, HY_GIB));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            int e = got < 0 ? errno : ENOSPC;
            w->failed = true;
            return hy_fail(err, HY_E_IO, "cannot write %s after %" PRIu64 " bytes: %s", w->tmp,
                           w->at - w->n_out, strerror(e));
        }
        p += got;
        n -= (uint64_t)got;
    }
    return HY_OK;
}

static hy_status flush(hy_gguf_writer *w, hy_err *err)
{
    HY_TRY(write_all(w, w->out, w->n_out, err));
    w->n_out = 0;
    return HY_OK;
}

static hy_status emit(hy_gguf_writer *w, const void *data, uint64_t n, hy_err *err)
{
    if (n > OUT_BUF_BYTES - w->n_out) HY_TRY(flush(w, err));
    if (n >= OUT_BUF_BYTES) {
        HY_TRY(write_all(w, data, n, err));
    } else if (n > 0) {
        memcpy(w->out + w->n_out, data, n);
        w->n_out += n;
    }
    w->at += n;
    return HY_OK;
}

static hy_status pad(hy_gguf_writer *w, hy_err *err)
{
    static const uint8_t zero[64];
    uint64_t n = HY_ROUND_UP(w->at, w->alignment) - w->at;
    for (; n > 0; n -= HY_MIN(n, sizeof(zero))) HY_TRY(emit(w, zero, HY_MIN(n, sizeof(zero)), err));
    return HY_OK;
}

/* ---- creating -------------------------------------------------------------------------------- */

static void writer_free(hy_gguf_writer *w)
{
    if (w->fd >= 0) close(w->fd);
    hy_buf_free(&w->meta);
    hy_free(w->key);
    hy_free(w->tensor);
    hy_free(w->out);
    hy_arena_free(w->arena);
    hy_free(w);
}

void hy_gguf_abort(hy_gguf_writer *w)
{
    if (!w) return;
    if (w->fd >= 0) unlink(w->tmp);
    writer_free(w);
}

hy_status hy_gguf_create(hy_gguf_writer **out, const char *path, hy_err *err)
{
    *out = NULL;
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) /* renaming would put a file in a device's place */
        return hy_fail(err, HY_E_IO, "%s is there and no regular file", path);
    size_t n_tmp = strlen(path) + 32;
    hy_gguf_writer *w = HY_NEW(hy_gguf_writer);
    if (!w) return hy_fail_memory(err, "GGUF writer", sizeof(*w));
    w->fd = -1;
    w->alignment = 32;
    w->arena = hy_arena_new(16 * HY_KIB);
    w->out = hy_alloc(OUT_BUF_BYTES);
    if (w->arena) {
        w->path = hy_arena_strndup(w->arena, path, strlen(path));
        w->tmp = hy_arena_alloc(w->arena, n_tmp, 1);
    }
    if (!w->out || !w->path || !w->tmp) {
        writer_free(w);
        return hy_fail_memory(err, "GGUF writer", OUT_BUF_BYTES);
    }
    snprintf(w->tmp, n_tmp, "%s.tmp-%ld", path, (long)getpid());
    w->fd = open(w->tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w->fd < 0) {
        hy_status s = hy_fail(err, HY_E_IO, "cannot create %s: %s", w->tmp, strerror(errno));
        writer_free(w);
        return s;
    }
    *out = w;
    return HY_OK;
}

/* ---- metadata -------------------------------------------------------------------------------- */

static hy_status check_name(const char *what, const char *name, hy_err *err)
{
    size_t n = strlen(name);
    if (n == 0 || n > HY_NAME_MAX)
        return hy_fail(err, HY_E_ARG, "a %s of %zu bytes, the limits are 1 and %u", what, n,
                       HY_NAME_MAX);
    return HY_OK;
}

static hy_status check_open(const hy_gguf_writer *w, const char *name, hy_err *err)
{
    if (w->failed) return hy_fail(err, HY_E_IO, "%s: an earlier write failed", w->tmp);
    if (w->started)
        return hy_fail(err, HY_E_ARG, "%s comes after tensor data has been written", HY_SHOW(name));
    return HY_OK;
}

/* Doubles *p when `n` items fill it. */
static bool grow(void **p, uint64_t n, uint64_t *cap, size_t size)
{
    if (n < *cap) return true;
    uint64_t want = HY_MAX(64, 2 * *cap);
    void *q = hy_realloc_array(*p, want, size);
    if (!q) return false;
    *p = q;
    *cap = want;
    return true;
}

static hy_status add_key(hy_gguf_writer *w, const char *key, hy_err *err)
{
    HY_TRY(check_open(w, key, err));
    HY_TRY(check_name("key", key, err));
    for (uint64_t i = 0; i < w->n_key; i++) {
        if (strcmp(w->key[i], key) == 0)
            return hy_fail(err, HY_E_ARG, "key %s is written twice", HY_SHOW(key));
    }
    char *copy = hy_arena_strndup(w->arena, key, strlen(key));
    if (!copy || !grow((void **)&w->key, w->n_key, &w->cap_key, sizeof(*w->key)))
        return hy_fail_memory(err, "keys", strlen(key));
    w->key[w->n_key++] = copy;
    return HY_OK;
}

static void put_u32(hy_buf *b, uint32_t v) { hy_buf_put(b, &v, 4); }

static void put_u64(hy_buf *b, uint64_t v) { hy_buf_put(b, &v, 8); }

static void put_bytes(hy_buf *b, const char *s, uint64_t n)
{
    put_u64(b, n);
    hy_buf_put(b, s, n);
}

/* general.alignment decides where the data lies, so the writer obeys it. */
static hy_status take_alignment(hy_gguf_writer *w, const hy_meta *m, hy_err *err)
{
    uint64_t a;
    if (m->type != HY_M_U32 || !hy_meta_item_u64(m, 0, &a) || a == 0 || (a & (a - 1)) != 0 ||
        a > HY_ALIGNMENT_MAX)
        return hy_fail(err, HY_E_ARG, "key general.alignment is no power of two from 1 to %u",
                       HY_ALIGNMENT_MAX);
    w->alignment = (uint32_t)a;
    return HY_OK;
}

hy_status hy_gguf_put_meta(hy_gguf_writer *w, const hy_meta *m, hy_err *err)
{
    hy_meta_type item = m->type == HY_M_ARRAY ? m->item : m->type;
    if (item == HY_M_ARRAY || (m->type != HY_M_ARRAY && m->n != 1))
        return hy_fail(err, HY_E_ARG, "key %s: neither one value nor a plain array",
                       HY_SHOW(m->key));
    if (strcmp(m->key, "general.alignment") == 0) HY_TRY(take_alignment(w, m, err));
    HY_TRY(add_key(w, m->key, err));

    hy_buf *b = &w->meta;
    put_bytes(b, m->key, strlen(m->key));
    put_u32(b, m->type);
    if (m->type == HY_M_ARRAY) {
        put_u32(b, m->item);
        put_u64(b, m->n);
    }
    if (item == HY_M_STR) {
        for (uint64_t i = 0; i < m->n; i++) put_bytes(b, m->strs[i].p, m->strs[i].n);
    } else {
        hy_buf_put(b, m->data, m->n * hy_meta_type_bytes(item));
    }
    return b->failed ? hy_fail_memory(err, "metadata", b->len) : HY_OK;
}

static hy_status put_scalar(hy_gguf_writer *w, const char *key, hy_meta_type type, const void *data,
                            const hy_str *str, hy_err *err)
{
    hy_meta m = {.key = key, .type = type, .item = type, .n = 1, .data = data, .strs = str};
    return hy_gguf_put_meta(w, &m, err);
}

hy_status hy_gguf_put_str(hy_gguf_writer *w, const char *key, const char *value, hy_err *err)
{
    hy_str s = {value, strlen(value)};
    return put_scalar(w, key, HY_M_STR, value, &s, err);
}

hy_status hy_gguf_put_u32(hy_gguf_writer *w, const char *key, uint32_t value, hy_err *err)
{
    return put_scalar(w, key, HY_M_U32, &value, NULL, err);
}

hy_status hy_gguf_put_f32(hy_gguf_writer *w, const char *key, float value, hy_err *err)
{
    return put_scalar(w, key, HY_M_F32, &value, NULL, err);
}

hy_status hy_gguf_put_bool(hy_gguf_writer *w, const char *key, bool value, hy_err *err)
{
    uint8_t v = value;
    return put_scalar(w, key, HY_M_BOOL, &v, NULL, err);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static hy_status size_decl(decl *d, hy_qtype type, hy_err *err)
{
    uint64_t n_weight, row_bytes;
    bool fits = d->n_dims >= 1 && d->n_dims <= HY_DIMS_MAX && d->dim[0] > 0;
    if (fits) fits = hy_file_count(d->dim, d->n_dims, &n_weight) && n_weight > 0;
    if (fits) fits = hy_quant_row_bytes(type, d->dim[0], &row_bytes);
    if (fits)
        fits = hy_mul_u64(n_weight / d->dim[0], row_bytes, &d->bytes) && d->bytes <= INT64_MAX;
    if (fits) return HY_OK;
    return hy_fail(err, HY_E_ARG, "tensor %s: %u dimensions, rows of %" PRIu64 " as %s do not work",
                   HY_SHOW(d->name), d->n_dims, d->dim[0], hy_quant(type)->name);
}

hy_status hy_gguf_declare(hy_gguf_writer *w, const char *name, uint32_t n_dims, const uint64_t *dim,
                          hy_qtype type, hy_err *err)
{
    HY_TRY(check_open(w, name, err));
    HY_TRY(check_name("tensor name", name, err));
    for (uint64_t i = 0; i < w->n_tensor; i++) {
        if (strcmp(w->tensor[i].name, name) == 0)
            return hy_fail(err, HY_E_ARG, "tensor %s is declared twice", HY_SHOW(name));
    }
    decl d = {.name = name, .n_dims = n_dims, .ggml_type = hy_quant(type)->ggml_type};
    for (uint32_t i = 0; i < HY_DIMS_MAX; i++) d.dim[i] = i < n_dims ? dim[i] : 1;
    HY_TRY(size_decl(&d, type, err));
    d.name = hy_arena_strndup(w->arena, name, strlen(name));
    if (!d.name || !grow((void **)&w->tensor, w->n_tensor, &w->cap_tensor, sizeof(*w->tensor)))
        return hy_fail_memory(err, "tensor declarations", sizeof(d));
    w->tensor[w->n_tensor++] = d;
    return HY_OK;
}

static hy_status write_header(hy_gguf_writer *w, hy_err *err)
{
    hy_buf b = {0};
    w->started = true;
    hy_buf_put(&b, "GGUF", 4);
    put_u32(&b, GGUF_VERSION);
    put_u64(&b, w->n_tensor);
    put_u64(&b, w->n_key);
    if (w->meta.len) hy_buf_put(&b, w->meta.data, w->meta.len);
    uint64_t offset = 0;
    for (uint64_t i = 0; i < w->n_tensor; i++) {
        const decl *d = &w->tensor[i];
        put_bytes(&b, d->name, strlen(d->name));
        put_u32(&b, d->n_dims);
        for (uint32_t k = 0; k < d->n_dims; k++) put_u64(&b, d->dim[k]);
        put_u32(&b, d->ggml_type);
        put_u64(&b, offset);
        if (!hy_add_u64(offset, HY_ROUND_UP(d->bytes, w->alignment), &offset)) b.failed = true;
    }
    hy_status s = b.failed ? hy_fail_memory(err, "header", b.len) : emit(w, b.data, b.len, err);
    if (s != HY_OK) w->failed = true;
    hy_buf_free(&b);
    return s == HY_OK ? pad(w, err) : s;
}

hy_status hy_gguf_put_data(hy_gguf_writer *w, const void *data, uint64_t n, hy_err *err)
{
    if (w->failed) return hy_fail(err, HY_E_IO, "%s: an earlier write failed", w->tmp);
    if (!w->started) HY_TRY(write_header(w, err));
    uint64_t left = w->i_tensor < w->n_tensor ? w->tensor[w->i_tensor].bytes - w->n_done : 0;
    if (n > left)
        return hy_fail(err, HY_E_ARG, "%" PRIu64 " bytes for tensor %s, which lacks %" PRIu64, n,
                       left ? HY_SHOW(w->tensor[w->i_tensor].name) : "(none)", left);
    HY_TRY(emit(w, data, n, err));
    w->n_done += n;
    if (n < left || left == 0) return HY_OK;
    w->i_tensor++;
    w->n_done = 0;
    return pad(w, err);
}

/* ---- finishing ------------------------------------------------------------------------------- */

static hy_status close_and_rename(hy_gguf_writer *w, hy_err *err)
{
    /* A full disk may show itself only here; some file systems cannot sync and say so. */
    if (fsync(w->fd) != 0 && errno != EINVAL && errno != ENOTSUP)
        return hy_fail(err, HY_E_IO, "cannot write %s: %s", w->tmp, strerror(errno));
    int fd = w->fd;
    w->fd = -1;
    if (close(fd) != 0 || rename(w->tmp, w->path) != 0) {
        hy_status s = hy_fail(err, HY_E_IO, "cannot finish %s: %s", w->path, strerror(errno));
        unlink(w->tmp);
        return s;
    }
    return HY_OK;
}

static hy_status finish(hy_gguf_writer *w, hy_err *err)
{
    if (w->failed) return hy_fail(err, HY_E_IO, "%s: an earlier write failed", w->tmp);
    if (!w->started) HY_TRY(write_header(w, err));
    if (w->i_tensor < w->n_tensor)
        return hy_fail(err, HY_E_ARG, "tensor %s (%" PRIu64 " of %" PRIu64 ") has no data yet",
                       HY_SHOW(w->tensor[w->i_tensor].name), w->i_tensor + 1, w->n_tensor);
    HY_TRY(flush(w, err));
    return close_and_rename(w, err);
}

hy_status hy_gguf_finish(hy_gguf_writer *w, hy_err *err)
{
    hy_status s = finish(w, err);
    hy_gguf_abort(w); /* the file is closed and renamed by now unless something failed */
    return s;
}
