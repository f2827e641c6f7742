/* file: opening by kind, closing, the name index and what both readers share. */
#include "file/file_impl.h"
#include <stdlib.h>

hy_shown hy_file_show(const char *s, uint64_t n)
{
    hy_shown out;
    uint64_t take = HY_MIN(n, 80);
    for (uint64_t i = 0; i < take; i++) out.s[i] = s[i] >= 0x20 && s[i] < 0x7f ? s[i] : '?';
    strcpy(out.s + take, n > take ? "..." : "");
    return out;
}

/* ---- parts ----------------------------------------------------------------------------------- */

hy_status hy_file_reserve_parts(hy_file *f, uint64_t n, hy_err *err)
{
    f->part = HY_ARENA_NEW(f->arena, hy_map, n);
    f->n_part = 0;
    if (!f->part) return hy_fail_memory(err, "parts of a model file", n * sizeof(hy_map));
    return HY_OK;
}

hy_status hy_file_add_part(hy_file *f, const char *path, hy_err *err)
{
    HY_TRY(hy_map_open(&f->part[f->n_part], path, err));
    f->bytes += f->part[f->n_part].bytes;
    f->n_part++;
    return HY_OK;
}

bool hy_file_count(const uint64_t *dim, uint32_t n_dims, uint64_t *out)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < n_dims; i++) {
        if (!hy_mul_u64(n, dim[i], &n) || n > INT64_MAX) return false;
    }
    *out = n;
    return true;
}

/* ---- layout ---------------------------------------------------------------------------------- */

static int by_offset(const void *a, const void *b)
{
    const hy_tensor *x = *(const hy_tensor *const *)a, *y = *(const hy_tensor *const *)b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    /* empty ones first, so that they never seem to lie inside their neighbour */
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

hy_status hy_file_check_layout(const hy_file *f, uint64_t first, uint64_t n, bool dense,
                               uint64_t data_first, uint64_t data_last, hy_err *err)
{
    const hy_tensor **order = hy_alloc_array(n, sizeof(*order));
    if (!order) return hy_fail_memory(err, "tensor order", n * sizeof(*order));
    for (uint64_t i = 0; i < n; i++) order[i] = &f->tensor[first + i];
    if (n) qsort(order, n, sizeof(*order), by_offset);

    hy_status s = HY_OK;
    uint64_t at = data_first;
    const hy_tensor *last = NULL;
    for (uint64_t i = 0; i < n && s == HY_OK; i++) {
        const hy_tensor *t = order[i];
        if (t->offset < at) {
            s = hy_fail(err, HY_E_FORMAT,
                        "tensor %s at %" PRIu64 " overlaps tensor %s, which ends at %" PRIu64,
                        HY_SHOW(t->name), t->offset, last ? HY_SHOW(last->name) : "?", at);
        } else if (dense && t->offset > at) {
            s = hy_fail(err, HY_E_FORMAT,
                        "%" PRIu64 " bytes before tensor %s (at %" PRIu64 ") belong to no tensor",
                        t->offset - at, HY_SHOW(t->name), t->offset);
        }
        if (t->bytes) last = t;
        at = t->offset + t->bytes;
    }
    if (s == HY_OK && dense && at != data_last)
        s = hy_fail(err, HY_E_FORMAT, "the last tensor ends at %" PRIu64 ", the file at %" PRIu64,
                    at, data_last);
    hy_free(order);
    return s;
}

/* ---- index ----------------------------------------------------------------------------------- */

static const char *name_of(const hy_file *f, bool is_meta, uint64_t i)
{
    return is_meta ? f->meta[i].key : f->tensor[i].name;
}

/* Slot holding `name`, or the free one where it belongs. */
static uint64_t find_slot(const hy_file *f, bool is_meta, const char *name)
{
    const struct hy_file_index *x = f->index;
    const uint32_t *slot = is_meta ? x->meta : x->tensor;
    uint64_t mask = is_meta ? x->meta_mask : x->tensor_mask;
    uint64_t i = hy_hash64(name, strlen(name), x->seed) & mask;
    while (slot[i] && strcmp(name_of(f, is_meta, slot[i] - 1), name) != 0) i = (i + 1) & mask;
    return i;
}

static hy_status build_index(hy_file *f, bool is_meta, uint64_t n, hy_err *err)
{
    if (n > UINT32_MAX / 4)
        return hy_fail(err, HY_E_LIMIT, "%" PRIu64 " names are more than %u", n, UINT32_MAX / 4);
    uint64_t n_slot = 4;
    while (n_slot < 2 * n) n_slot *= 2;
    uint32_t *slot = HY_ARENA_NEW(f->arena, uint32_t, n_slot);
    if (!slot) return hy_fail_memory(err, "name index", n_slot * sizeof(*slot));
    *(is_meta ? &f->index->meta : &f->index->tensor) = slot;
    *(is_meta ? &f->index->meta_mask : &f->index->tensor_mask) = n_slot - 1;
    for (uint64_t i = 0; i < n; i++) {
        const char *name = name_of(f, is_meta, i);
        uint64_t at = find_slot(f, is_meta, name);
        if (slot[at])
            return hy_fail(err, HY_E_FORMAT, "%s %s occurs twice", is_meta ? "key" : "tensor",
                           HY_SHOW(name));
        slot[at] = (uint32_t)i + 1;
    }
    return HY_OK;
}

const hy_meta *hy_file_meta(const hy_file *f, const char *key)
{
    uint32_t i = f->index->meta[find_slot(f, true, key)];
    return i ? &f->meta[i - 1] : NULL;
}

const hy_tensor *hy_file_tensor(const hy_file *f, const char *name)
{
    uint32_t i = f->index->tensor[find_slot(f, false, name)];
    return i ? &f->tensor[i - 1] : NULL;
}

/* ---- opening, closing ------------------------------------------------------------------------ */

static hy_file *file_new(const char *path)
{
    hy_file *f = HY_NEW(hy_file);
    if (!f) return NULL;
    f->arena = hy_arena_new(64 * HY_KIB);
    if (f->arena) {
        f->index = HY_ARENA_NEW(f->arena, struct hy_file_index, 1);
        f->path = hy_arena_strndup(f->arena, path, strlen(path));
    }
    if (!f->arena || !f->index || !f->path) {
        hy_arena_free(f->arena);
        hy_free(f);
        return NULL;
    }
    f->index->seed = hy_now_ns() ^ (uintptr_t)f;
    return f;
}

void hy_file_close(hy_file *f)
{
    if (!f) return;
    if (!f->index->borrowed) {
        for (uint32_t i = 0; i < f->n_part; i++) hy_map_close(&f->part[i]);
    }
    json_decref(f->config);
    json_decref(f->generation_config);
    json_decref(f->tokenizer_config);
    hy_arena_free(f->index->strings);
    hy_arena_free(f->arena);
    hy_free(f);
}

void hy_file_done_with_strings(hy_file *f)
{
    for (uint64_t i = 0; i < f->n_meta; i++)
        if (f->meta[i].type == HY_M_ARRAY) f->meta[i].strs = NULL;
    hy_arena_free(f->index->strings);
    f->index->strings = NULL;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static bool looks_like_safetensors(const hy_map *m, const char *path)
{
    if (m->bytes >= 4 && memcmp(m->data, "GGUF", 4) == 0) return false;
    if (ends_with(path, ".safetensors")) return true;
    return !ends_with(path, ".gguf") && m->bytes > 8 && m->data[8] == '{' && m->data[7] == 0;
}

static hy_status read_any(hy_file *f, hy_err *err)
{
    if (hy_is_dir(f->path)) return hy_safetensors_read_folder(f, err);
    HY_TRY(hy_file_reserve_parts(f, 1, err));
    HY_TRY(hy_file_add_part(f, f->path, err));
    if (looks_like_safetensors(&f->part[0], f->path)) return hy_safetensors_read_one(f, err);
    return hy_gguf_read(f, err);
}

static hy_status finish_open(hy_file **out, hy_file *f, hy_status s, hy_err *err)
{
    if (s == HY_OK) s = build_index(f, true, f->n_meta, err);
    if (s == HY_OK) s = build_index(f, false, f->n_tensor, err);
    if (s == HY_OK) {
        *out = f;
        return HY_OK;
    }
    /* What base says about a file it could not open or map begins with the path already. */
    if (err && strncmp(err->msg, f->path, strlen(f->path)) != 0)
        hy_err_prefix(err, s, "%s", f->path);
    hy_file_close(f);
    return s;
}

hy_status hy_file_open(hy_file **out, const char *path, hy_err *err)
{
    *out = NULL;
    hy_file *f = file_new(path);
    if (!f) return hy_fail_memory(err, "model file", sizeof(*f));
    return finish_open(out, f, read_any(f, err), err);
}

hy_status hy_file_open_memory(hy_file **out, const void *data, uint64_t n, hy_file_kind kind,
                              hy_err *err)
{
    *out = NULL;
    hy_file *f = file_new("(memory)");
    if (!f) return hy_fail_memory(err, "model file", sizeof(*f));
    f->index->borrowed = true;
    hy_status s = hy_file_reserve_parts(f, 1, err);
    if (s == HY_OK) {
        f->part[0] = (hy_map){.data = data, .bytes = n, .fd = -1};
        f->n_part = 1;
        f->bytes = n;
        s = kind == HY_FILE_GGUF ? hy_gguf_read(f, err) : hy_safetensors_read_one(f, err);
    }
    return finish_open(out, f, s, err);
}

void hy_file_done_with(const hy_file *f, const hy_tensor *t)
{
    hy_file_done_with_bytes(f, t, 0, t->bytes);
}

void hy_file_done_with_bytes(const hy_file *f, const hy_tensor *t, uint64_t first, uint64_t n)
{
    if (f->index->borrowed || !t->data || first >= t->bytes) return;
    n = HY_MIN(n, t->bytes - first);
    if (n) hy_map_done_with(&f->part[t->i_part], t->offset + first, n);
}

void hy_file_peek(const hy_file *f, const hy_tensor *t, uint64_t first, size_t n, void *out)
{
    hy_map_peek(&f->part[t->i_part], t->offset + first, n, out);
}

void hy_file_need_bytes(const hy_file *f, const hy_tensor *t, uint64_t first, uint64_t n)
{
    if (f->index->borrowed || !t->data || first >= t->bytes) return;
    hy_map_need(&f->part[t->i_part], t->offset + first, HY_MIN(n, t->bytes - first));
}
