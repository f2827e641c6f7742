/* GGUF v2 and v3, single or split. Format: ggml's docs/gguf.md; split naming and keys: gguf-split.
 *
 *   magic u32 | version u32 | n_tensor u64 | n_meta u64 | meta... | tensor infos... | pad | data
 *
 * Every field is read through a cursor that knows the file's end, and every count is compared with
 * what the rest of the file could hold before memory is asked for it: memory stays below about six
 * times the file's own size, whatever the counts say. */
#include "file/file_impl.h"
#include <stdio.h>

/* Smallest records: key length, 1 byte of key, type, 1 byte of value; and name length, 1 byte of
 * name, number of dims, 1 dim, type, offset. */
#define META_BYTES_MIN    (8 + 1 + 4 + 1)
#define TENSOR_BYTES_MIN  (8 + 1 + 4 + 8 + 4 + 8)
#define ALIGNMENT_DEFAULT 32

typedef struct cursor {
    const uint8_t *data;
    uint64_t n, at;
} cursor;

/* What one part declares. */
typedef struct part_dir {
    uint32_t version;
    uint64_t alignment;
    uint64_t n_meta, n_tensor;
    hy_meta *meta;
    hy_tensor *tensor;
} part_dir;

/* ---- cursor ---------------------------------------------------------------------------------- */

static hy_status need(const cursor *c, uint64_t n, const char *what, hy_err *err)
{
    if (n > c->n - c->at)
        return hy_fail(err, HY_E_FORMAT,
                       "truncated %s: %" PRIu64 " bytes needed at %" PRIu64
                       ", but the file ends at %" PRIu64,
                       what, n, c->at, c->n);
    return HY_OK;
}

static hy_status read_u32(cursor *c, const char *what, uint32_t *out, hy_err *err)
{
    HY_TRY(need(c, 4, what, err));
    memcpy(out, c->data + c->at, 4);
    c->at += 4;
    return HY_OK;
}

static hy_status read_u64(cursor *c, const char *what, uint64_t *out, hy_err *err)
{
    HY_TRY(need(c, 8, what, err));
    memcpy(out, c->data + c->at, 8);
    c->at += 8;
    return HY_OK;
}

static hy_status read_str(cursor *c, const char *what, hy_str *out, hy_err *err)
{
    uint64_t n;
    HY_TRY(read_u64(c, what, &n, err));
    HY_TRY(need(c, n, what, err));
    out->p = (const char *)c->data + c->at;
    out->n = n;
    c->at += n;
    return HY_OK;
}

/* A key or tensor name: 1 to HY_NAME_MAX bytes without control characters, copied. */
static hy_status read_name(hy_file *f, cursor *c, const char *what, const char **out, hy_err *err)
{
    uint64_t start = c->at;
    hy_str s;
    HY_TRY(read_str(c, what, &s, err));
    if (s.n == 0 || s.n > HY_NAME_MAX)
        return hy_fail(err, HY_E_FORMAT,
                       "%s at %" PRIu64 " has %" PRIu64 " bytes, the limits are 1 and %u", what,
                       start, s.n, HY_NAME_MAX);
    for (uint64_t i = 0; i < s.n; i++) {
        if ((uint8_t)s.p[i] < 0x20 || s.p[i] == 0x7f)
            return hy_fail(err, HY_E_FORMAT, "%s %s at %" PRIu64 " holds a control character", what,
                           hy_file_show(s.p, s.n).s, start);
    }
    *out = hy_arena_strndup(f->arena, s.p, s.n);
    return *out ? HY_OK : hy_fail_memory(err, what, s.n + 1);
}

/* ---- metadata -------------------------------------------------------------------------------- */

static hy_status check_bools(const hy_meta *m, hy_err *err)
{
    const uint8_t *b = m->data;
    for (uint64_t i = 0; i < m->n; i++) {
        if (b[i] > 1)
            return hy_fail(err, HY_E_FORMAT, "key %s: %u is no boolean, only 0 and 1 are",
                           HY_SHOW(m->key), b[i]);
    }
    return HY_OK;
}

static hy_status read_strings(hy_file *f, cursor *c, hy_meta *m, hy_err *err)
{
    if (m->n > (c->n - c->at) / 8)
        return hy_fail(err, HY_E_FORMAT,
                       "key %s: %" PRIu64 " strings cannot fit into the %" PRIu64
                       " bytes left in the file",
                       HY_SHOW(m->key), m->n, c->n - c->at);
    m->data = c->data + c->at;
    bool array = m->type == HY_M_ARRAY; /* those may be let go before the file is closed */
    if (array && !f->index->strings) f->index->strings = hy_arena_new(64 * HY_KIB);
    hy_arena *arena = array ? f->index->strings : f->arena;
    hy_str *strs = arena ? HY_ARENA_NEW(arena, hy_str, HY_MAX(m->n, 1)) : NULL;
    if (!strs) return hy_fail_memory(err, "strings of the metadata", m->n * sizeof(hy_str));
    for (uint64_t i = 0; i < m->n; i++) {
        hy_status s = read_str(c, "string", &strs[i], err);
        if (s != HY_OK) return hy_err_prefix(err, s, "key %s", HY_SHOW(m->key));
    }
    m->strs = strs;
    return HY_OK;
}

static hy_status read_values(hy_file *f, cursor *c, hy_meta *m, hy_err *err)
{
    hy_meta_type t = m->type == HY_M_ARRAY ? m->item : m->type;
    if (t == HY_M_STR) return read_strings(f, c, m, err);
    uint64_t bytes;
    if (!hy_mul_u64(m->n, hy_meta_type_bytes(t), &bytes) || bytes > c->n - c->at)
        return hy_fail(err, HY_E_FORMAT,
                       "truncated value of key %s: %" PRIu64 " items of %u bytes at %" PRIu64
                       ", but the file ends at %" PRIu64,
                       HY_SHOW(m->key), m->n, hy_meta_type_bytes(t), c->at, c->n);
    m->data = c->data + c->at;
    c->at += bytes;
    return t == HY_M_BOOL ? check_bools(m, err) : HY_OK;
}

static hy_status read_type(cursor *c, const char *key, hy_meta_type *out, hy_err *err)
{
    uint32_t type;
    HY_TRY(read_u32(c, "value type", &type, err));
    if (type > HY_M_F64)
        return hy_fail(err, HY_E_FORMAT, "key %s: value type %u, the largest is %d", HY_SHOW(key),
                       type, HY_M_F64);
    *out = (hy_meta_type)type;
    return HY_OK;
}

static hy_status read_meta(hy_file *f, cursor *c, hy_meta *m, hy_err *err)
{
    HY_TRY(read_name(f, c, "key", &m->key, err));
    HY_TRY(read_type(c, m->key, &m->type, err));
    m->item = m->type;
    m->n = 1;
    if (m->type == HY_M_ARRAY) {
        HY_TRY(read_type(c, m->key, &m->item, err));
        if (m->item == HY_M_ARRAY)
            return hy_fail(err, HY_E_UNSUPPORTED, "key %s: an array of arrays", HY_SHOW(m->key));
        HY_TRY(read_u64(c, "array length", &m->n, err));
    }
    return read_values(f, c, m, err);
}

static const hy_meta *find_meta(const part_dir *d, const char *key)
{
    for (uint64_t i = 0; i < d->n_meta; i++) {
        if (strcmp(d->meta[i].key, key) == 0) return &d->meta[i];
    }
    return NULL;
}

/* An integer scalar, before there is an index to look it up with. */
static hy_status dir_u64(const part_dir *d, const char *key, uint64_t *out, bool *found,
                         hy_err *err)
{
    const hy_meta *m = find_meta(d, key);
    *found = m != NULL;
    if (!m) return HY_OK;
    if (!hy_meta_is_int(m->type))
        return hy_fail(err, HY_E_FORMAT, "key %s: not an integer (value type %d)", key, m->type);
    if (!hy_meta_item_u64(m, 0, out)) return hy_fail(err, HY_E_FORMAT, "key %s: negative", key);
    return HY_OK;
}

static hy_status read_alignment(part_dir *d, hy_err *err)
{
    bool found;
    d->alignment = ALIGNMENT_DEFAULT;
    HY_TRY(dir_u64(d, "general.alignment", &d->alignment, &found, err));
    uint64_t a = d->alignment;
    if (a == 0 || (a & (a - 1)) != 0 || a > HY_ALIGNMENT_MAX)
        return hy_fail(err, HY_E_FORMAT,
                       "key general.alignment: %" PRIu64 " is no power of two from 1 to %u", a,
                       HY_ALIGNMENT_MAX);
    return HY_OK;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Sets the size from type and dims; leaves 0 for types we do not read. */
static hy_status size_tensor(hy_tensor *t, hy_err *err)
{
    uint64_t n_weight, row_bytes;
    if (!hy_file_count(t->dim, t->n_dims, &n_weight))
        return hy_fail(err, HY_E_FORMAT,
                       "tensor %s: dimensions [%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
                       "] overflow",
                       HY_SHOW(t->name), t->dim[0], t->dim[1], t->dim[2], t->dim[3]);
    t->known = hy_quant_from_ggml(t->ggml_type, &t->qtype);
    if (!t->known) return HY_OK;
    const hy_qtraits *q = hy_quant(t->qtype);
    if (t->dim[0] % q->block != 0)
        return hy_fail(err, HY_E_FORMAT,
                       "tensor %s: rows of %" PRIu64 " weights are no multiple of %s's block of %u",
                       HY_SHOW(t->name), t->dim[0], q->name, q->block);
    if (!hy_quant_row_bytes(t->qtype, t->dim[0], &row_bytes) ||
        !hy_mul_u64(n_weight / t->dim[0], row_bytes, &t->bytes))
        return hy_fail(err, HY_E_FORMAT, "tensor %s: %" PRIu64 " weights overflow",
                       HY_SHOW(t->name), n_weight);
    return HY_OK;
}

static hy_status read_tensor(hy_file *f, cursor *c, hy_tensor *t, hy_err *err)
{
    HY_TRY(read_name(f, c, "tensor name", &t->name, err));
    HY_TRY(read_u32(c, "tensor info", &t->n_dims, err));
    if (t->n_dims == 0 || t->n_dims > HY_DIMS_MAX)
        return hy_fail(err, HY_E_FORMAT, "tensor %s: %u dimensions, the limits are 1 and %d",
                       HY_SHOW(t->name), t->n_dims, HY_DIMS_MAX);
    for (uint32_t i = 0; i < HY_DIMS_MAX; i++) t->dim[i] = 1;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        HY_TRY(read_u64(c, "tensor info", &t->dim[i], err));
        if (t->dim[i] == 0)
            return hy_fail(err, HY_E_FORMAT, "tensor %s: dimension %u is 0", HY_SHOW(t->name), i);
    }
    HY_TRY(read_u32(c, "tensor info", &t->ggml_type, err));
    HY_TRY(read_u64(c, "tensor info", &t->offset, err));
    return size_tensor(t, err);
}

/* Turns offsets into the data section into offsets into the file, and checks them. */
static hy_status place_tensors(const part_dir *d, const cursor *c, hy_err *err)
{
    if (d->n_tensor == 0) return HY_OK;
    uint64_t first = HY_ROUND_UP(c->at, d->alignment);
    if (first > c->n)
        return hy_fail(err, HY_E_FORMAT,
                       "truncated: tensor data should start at %" PRIu64
                       ", but the file ends at %" PRIu64,
                       first, c->n);
    for (uint64_t i = 0; i < d->n_tensor; i++) {
        hy_tensor *t = &d->tensor[i];
        if (t->offset % d->alignment != 0)
            return hy_fail(err, HY_E_FORMAT,
                           "tensor %s: offset %" PRIu64 " is no multiple of the alignment %" PRIu64,
                           HY_SHOW(t->name), t->offset, d->alignment);
        if (t->offset > c->n - first || t->bytes > c->n - first - t->offset)
            return hy_fail(err, HY_E_FORMAT,
                           "tensor %s: %" PRIu64 " bytes at offset %" PRIu64
                           " of the data run past its end (%" PRIu64 " bytes)",
                           HY_SHOW(t->name), t->bytes, t->offset, c->n - first);
        t->offset += first;
        t->data = c->data + t->offset;
    }
    return HY_OK;
}

/* ---- one part -------------------------------------------------------------------------------- */

static hy_status read_header(cursor *c, part_dir *d, hy_err *err)
{
    HY_TRY(need(c, 4, "header", err));
    if (memcmp(c->data, "GGUF", 4) != 0)
        return hy_fail(err, HY_E_FORMAT,
                       "neither a GGUF nor a safetensors file (starts with %02x %02x %02x %02x)",
                       c->data[0], c->data[1], c->data[2], c->data[3]);
    c->at = 4;
    HY_TRY(read_u32(c, "header", &d->version, err));
    if (d->version != 0 && (d->version & 0xffff) == 0)
        return hy_fail(err, HY_E_UNSUPPORTED,
                       "a big-endian GGUF file; convert it to little-endian first");
    if (d->version != 2 && d->version != 3)
        return hy_fail(err, HY_E_UNSUPPORTED, "GGUF version %u; versions 2 and 3 are read",
                       d->version);
    HY_TRY(read_u64(c, "header", &d->n_tensor, err));
    HY_TRY(read_u64(c, "header", &d->n_meta, err));
    uint64_t left = c->n - c->at;
    if (d->n_meta > left / META_BYTES_MIN)
        return hy_fail(err, HY_E_FORMAT,
                       "truncated, or a wrong count: %" PRIu64
                       " metadata keys cannot fit into %" PRIu64 " bytes",
                       d->n_meta, left);
    if (d->n_tensor > (left - d->n_meta * META_BYTES_MIN) / TENSOR_BYTES_MIN)
        return hy_fail(err, HY_E_FORMAT,
                       "truncated, or a wrong count: %" PRIu64 " tensors cannot fit into %" PRIu64
                       " bytes",
                       d->n_tensor, left);
    return HY_OK;
}

static hy_status read_dir(hy_file *f, uint32_t i_part, part_dir *d, hy_err *err)
{
    cursor c = {f->part[i_part].data, f->part[i_part].bytes, 0};
    HY_TRY(read_header(&c, d, err));
    d->meta = HY_ARENA_NEW(f->arena, hy_meta, HY_MAX(d->n_meta, 1));
    d->tensor = HY_ARENA_NEW(f->arena, hy_tensor, HY_MAX(d->n_tensor, 1));
    if (!d->meta || !d->tensor)
        return hy_fail_memory(err, "directory of the file",
                              d->n_meta * sizeof(hy_meta) + d->n_tensor * sizeof(hy_tensor));
    for (uint64_t i = 0; i < d->n_meta; i++) HY_TRY(read_meta(f, &c, &d->meta[i], err));
    HY_TRY(read_alignment(d, err));
    for (uint64_t i = 0; i < d->n_tensor; i++) {
        d->tensor[i].i_part = i_part;
        HY_TRY(read_tensor(f, &c, &d->tensor[i], err));
    }
    return place_tensors(d, &c, err);
}

/* ---- splits ---------------------------------------------------------------------------------- */

static bool five_digits(const char *s, uint32_t *out)
{
    uint32_t v = 0;
    for (int i = 0; i < 5; i++) {
        if (s[i] < '0' || s[i] > '9') return false;
        v = v * 10 + (uint32_t)(s[i] - '0');
    }
    *out = v;
    return true;
}

/* "dir/name-00002-of-00003.gguf" -> length of "dir/name", 2, 3 */
static bool split_name(const char *path, size_t *n_prefix, uint32_t *no, uint32_t *of)
{
    static const char form[] = "-00000-of-00000.gguf";
    size_t n = strlen(path), m = sizeof(form) - 1;
    if (n <= m) return false;
    const char *s = path + n - m;
    if (s[0] != '-' || memcmp(s + 6, "-of-", 4) != 0 || strcmp(s + 15, ".gguf") != 0) return false;
    *n_prefix = n - m;
    return five_digits(s + 1, no) && five_digits(s + 10, of);
}

static hy_status check_split_keys(const part_dir *d, uint64_t no, uint64_t count, hy_err *err)
{
    bool has_no, has_count;
    uint64_t got_no = 0, got_count = 0;
    HY_TRY(dir_u64(d, "split.count", &got_count, &has_count, err));
    HY_TRY(dir_u64(d, "split.no", &got_no, &has_no, err));
    if (!has_count || got_count != count)
        return hy_fail(err, HY_E_FORMAT, "key split.count: %" PRIu64 ", expected %" PRIu64,
                       got_count, count);
    if (!has_no || got_no != no)
        return hy_fail(err, HY_E_FORMAT, "key split.no: %" PRIu64 ", expected %" PRIu64, got_no,
                       no);
    return HY_OK;
}

static hy_status open_parts(hy_file *f, part_dir *dirs, size_t n_prefix, uint32_t n, hy_err *err)
{
    size_t room = n_prefix + 32;
    char *path = hy_arena_alloc(f->arena, room, 1);
    if (!path) return hy_fail_memory(err, "path of a part", room);
    hy_map_close(&f->part[0]);
    f->bytes = 0;
    f->n_part = 0;
    HY_TRY(hy_file_reserve_parts(f, n, err));
    for (uint32_t i = 0; i < n; i++) {
        snprintf(path, room, "%.*s-%05u-of-%05u.gguf", (int)n_prefix, f->path, i + 1, n);
        hy_status s = hy_file_add_part(f, path, err);
        if (s == HY_OK) s = read_dir(f, i, &dirs[i], err);
        if (s == HY_OK) s = check_split_keys(&dirs[i], i, n, err);
        if (s != HY_OK) return hy_err_prefix(err, s, "part %u of %u", i + 1, n);
    }
    return HY_OK;
}

/* Metadata is that of the first part, tensors are those of all parts in order. */
static hy_status join_parts(hy_file *f, const part_dir *dirs, uint32_t n, part_dir *all,
                            hy_err *err)
{
    bool found;
    uint64_t want = 0, n_tensor = 0;
    for (uint32_t i = 0; i < n; i++) n_tensor += dirs[i].n_tensor;
    HY_TRY(dir_u64(&dirs[0], "split.tensors.count", &want, &found, err));
    if (found && want != n_tensor)
        return hy_fail(err, HY_E_FORMAT,
                       "key split.tensors.count: %" PRIu64 ", but the parts hold %" PRIu64, want,
                       n_tensor);
    *all = dirs[0];
    all->n_tensor = n_tensor;
    all->tensor = HY_ARENA_NEW(f->arena, hy_tensor, HY_MAX(n_tensor, 1));
    if (!all->tensor) return hy_fail_memory(err, "tensors", n_tensor * sizeof(hy_tensor));
    hy_tensor *to = all->tensor;
    for (uint32_t i = 0; i < n; i++) {
        memcpy(to, dirs[i].tensor, dirs[i].n_tensor * sizeof(hy_tensor));
        to += dirs[i].n_tensor;
    }
    return HY_OK;
}

static hy_status read_split(hy_file *f, part_dir *d, uint64_t count, hy_err *err)
{
    size_t n_prefix;
    uint32_t no, of;
    if (f->index->borrowed || count > HY_PART_MAX)
        return hy_fail(err, HY_E_UNSUPPORTED, "a split file of %" PRIu64 " parts", count);
    if (!split_name(f->path, &n_prefix, &no, &of) || of != count || no == 0 || no > of)
        return hy_fail(err, HY_E_FORMAT,
                       "one of %" PRIu64
                       " parts, but its name does not end in -<part>-of-%05" PRIu64
                       ".gguf, so the others cannot be found",
                       count, count);
    HY_TRY(check_split_keys(d, no - 1, count, err));
    part_dir *dirs = HY_ARENA_NEW(f->arena, part_dir, count);
    if (!dirs) return hy_fail_memory(err, "parts", count * sizeof(*dirs));
    HY_TRY(open_parts(f, dirs, n_prefix, of, err));
    return join_parts(f, dirs, of, d, err);
}

hy_status hy_gguf_read(hy_file *f, hy_err *err)
{
    part_dir d = {0};
    bool is_split;
    uint64_t count = 0;
    f->kind = HY_FILE_GGUF;
    HY_TRY(read_dir(f, 0, &d, err));
    HY_TRY(dir_u64(&d, "split.count", &count, &is_split, err));
    if (count > 1) HY_TRY(read_split(f, &d, count, err));

    f->gguf_version = d.version;
    f->alignment = d.alignment;
    f->n_meta = d.n_meta;
    f->meta = d.meta;
    f->n_tensor = d.n_tensor;
    f->tensor = d.tensor;
    uint64_t first = 0;
    for (uint32_t i = 0; i < f->n_part; i++) {
        uint64_t n = 0;
        while (first + n < f->n_tensor && f->tensor[first + n].i_part == i) n++;
        HY_TRY(hy_file_check_layout(f, first, n, false, 0, 0, err));
        first += n;
    }
    return HY_OK;
}
