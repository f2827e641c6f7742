/* safetensors: one file, or a Hugging Face folder with one file or a sharded index.
 *
 *   n u64 | n bytes of JSON | data      {"name": {"dtype", "shape", "data_offsets": [first, last]}}
 *
 * Format: the safetensors README, "Format". Offsets count from the first byte after the JSON, and
 * the tensors must fill the data without hole or overlap. */
#include "file/file_impl.h"
#include <stdio.h>

/* A shard index names each tensor once; far more shards than any model has. */
#define SHARD_MAX    4096
#define NO_GGML_TYPE UINT32_MAX

static const struct {
    const char *name;
    uint32_t bytes;
    int qtype; /* -1: not read as weights */
    uint32_t ggml_type;
} dtypes[] = {
    {"F32", 4, HY_Q_F32, 0},
    {"F16", 2, HY_Q_F16, 1},
    {"BF16", 2, HY_Q_BF16, 30},
    {"F64", 8, -1, 28},
    {"I8", 1, -1, 24},
    {"I16", 2, -1, 25},
    {"I32", 4, -1, 26},
    {"I64", 8, -1, 27},
    {"U8", 1, -1, NO_GGML_TYPE},
    {"U16", 2, -1, NO_GGML_TYPE},
    {"U32", 4, -1, NO_GGML_TYPE},
    {"U64", 8, -1, NO_GGML_TYPE},
    {"BOOL", 1, -1, NO_GGML_TYPE},
    {"F8_E4M3", 1, -1, NO_GGML_TYPE},
    {"F8_E5M2", 1, -1, NO_GGML_TYPE},
};

static hy_status fail_json(const json_error_t *e, hy_err *err, const char *what)
{
    /* jansson reports running out of memory as its own code */
    if (json_error_code(e) == json_error_out_of_memory) return hy_fail_memory(err, what, 0);
    return hy_fail(err, HY_E_FORMAT, "%s is not valid JSON: line %d, column %d: %s", what, e->line,
                   e->column, hy_file_show(e->text, strlen(e->text)).s);
}

static hy_status parse_object(json_t **out, const char *data, size_t n, const char *what,
                              hy_err *err)
{
    json_error_t e;
    json_t *j = json_loadb(data, n, JSON_REJECT_DUPLICATES, &e);
    if (!j) return fail_json(&e, err, what);
    if (!json_is_object(j)) {
        json_decref(j);
        return hy_fail(err, HY_E_FORMAT, "%s is no JSON object", what);
    }
    *out = j;
    return HY_OK;
}

/* ---- one tensor ------------------------------------------------------------------------------ */

/* shape [a, b, c] (last fastest) -> dim[0] = c. Returns the number of elements. */
static hy_status read_shape(hy_tensor *t, const json_t *shape, uint64_t *n_weight, hy_err *err)
{
    size_t n = json_array_size(shape);
    if (!json_is_array(shape))
        return hy_fail(err, HY_E_FORMAT, "tensor %s: no shape", HY_SHOW(t->name));
    *n_weight = 1;
    for (uint32_t i = 0; i < HY_DIMS_MAX; i++) t->dim[i] = 1;
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(shape, n - 1 - i);
        if (!json_is_integer(v) || json_integer_value(v) < 0)
            return hy_fail(err, HY_E_FORMAT, "tensor %s: dimension %zu is no natural number",
                           HY_SHOW(t->name), n - 1 - i);
        uint64_t d = (uint64_t)json_integer_value(v);
        if (i < HY_DIMS_MAX) t->dim[i] = d;
        if (!hy_mul_u64(*n_weight, d, n_weight) || *n_weight > INT64_MAX)
            return hy_fail(err, HY_E_FORMAT, "tensor %s: the shape's %zu dimensions overflow",
                           HY_SHOW(t->name), n);
    }
    t->n_dims = (uint32_t)HY_MAX(1, HY_MIN(n, HY_DIMS_MAX));
    t->known = n <= HY_DIMS_MAX && *n_weight > 0;
    return HY_OK;
}

static hy_status read_dtype(hy_tensor *t, const json_t *dtype, uint64_t n_weight, hy_err *err)
{
    const char *name = json_string_value(dtype);
    if (!name) return hy_fail(err, HY_E_FORMAT, "tensor %s: no dtype", HY_SHOW(t->name));
    t->ggml_type = NO_GGML_TYPE;
    for (size_t i = 0; i < HY_COUNT(dtypes); i++) {
        if (strcmp(dtypes[i].name, name) != 0) continue;
        uint64_t want;
        if (!hy_mul_u64(n_weight, dtypes[i].bytes, &want) || want != t->bytes)
            return hy_fail(err, HY_E_FORMAT,
                           "tensor %s: %" PRIu64 " bytes of data for %" PRIu64
                           " weights of type %s",
                           HY_SHOW(t->name), t->bytes, n_weight, name);
        t->ggml_type = dtypes[i].ggml_type;
        if (dtypes[i].qtype < 0)
            t->known = false;
        else
            t->qtype = (hy_qtype)dtypes[i].qtype;
        return HY_OK;
    }
    t->known = false;
    return HY_OK;
}

static hy_status read_offsets(hy_tensor *t, const json_t *offsets, const hy_map *m,
                              uint64_t data_first, hy_err *err)
{
    const json_t *a = json_array_get(offsets, 0), *b = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(a) || !json_is_integer(b) ||
        json_integer_value(a) < 0 || json_integer_value(b) < json_integer_value(a))
        return hy_fail(err, HY_E_FORMAT, "tensor %s: data_offsets are no range", HY_SHOW(t->name));
    uint64_t first = (uint64_t)json_integer_value(a), last = (uint64_t)json_integer_value(b);
    if (last > m->bytes - data_first)
        return hy_fail(err, HY_E_FORMAT,
                       "tensor %s: data_offsets end at %" PRIu64
                       ", past the end of the data (%" PRIu64 " bytes)",
                       HY_SHOW(t->name), last, m->bytes - data_first);
    t->offset = data_first + first;
    t->bytes = last - first;
    t->data = m->data + t->offset;
    return HY_OK;
}

static hy_status read_tensor(hy_file *f, hy_tensor *t, uint32_t i_part, uint64_t data_first,
                             const char *name, const json_t *entry, hy_err *err)
{
    size_t n = strlen(name);
    uint64_t n_weight = 0;
    if (n == 0 || n > HY_NAME_MAX)
        return hy_fail(err, HY_E_FORMAT, "a tensor name of %zu bytes, the limits are 1 and %u", n,
                       HY_NAME_MAX);
    if (!json_is_object(entry))
        return hy_fail(err, HY_E_FORMAT, "tensor %s: its entry is no JSON object", HY_SHOW(name));
    t->name = hy_arena_strndup(f->arena, name, n);
    if (!t->name) return hy_fail_memory(err, "tensor name", n + 1);
    t->i_part = i_part;
    HY_TRY(
        read_offsets(t, json_object_get(entry, "data_offsets"), &f->part[i_part], data_first, err));
    HY_TRY(read_shape(t, json_object_get(entry, "shape"), &n_weight, err));
    return read_dtype(t, json_object_get(entry, "dtype"), n_weight, err);
}

/* ---- one file -------------------------------------------------------------------------------- */

/* Doubles when full: a model of 100 shards copies its tensors seven times, not a hundred. */
static hy_status reserve_tensors(hy_file *f, uint64_t n_more, hy_err *err)
{
    uint64_t n = f->n_tensor + n_more;
    if (f->tensor && n <= f->index->tensor_cap) return HY_OK;
    uint64_t cap = HY_MAX(HY_MAX(n, 2 * f->index->tensor_cap), 1);
    hy_tensor *all = HY_ARENA_NEW(f->arena, hy_tensor, cap);
    if (!all) return hy_fail_memory(err, "tensors", cap * sizeof(*all));
    if (f->n_tensor) memcpy(all, f->tensor, f->n_tensor * sizeof(*all));
    f->tensor = all;
    f->index->tensor_cap = cap;
    return HY_OK;
}

/* Appends the tensors of the header to f->tensor. */
static hy_status add_tensors(hy_file *f, json_t *header, uint32_t i_part, uint64_t data_first,
                             hy_err *err)
{
    uint64_t first = f->n_tensor, n = json_object_size(header);
    if (json_object_get(header, "__metadata__")) n--;
    HY_TRY(reserve_tensors(f, n, err));

    const char *name;
    json_t *entry;
    json_object_foreach(header, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0) continue;
        HY_TRY(read_tensor(f, &f->tensor[f->n_tensor], i_part, data_first, name, entry, err));
        f->n_tensor++;
    }
    return hy_file_check_layout(f, first, n, true, data_first, f->part[i_part].bytes, err);
}

static hy_status read_part(hy_file *f, uint32_t i_part, hy_err *err)
{
    const hy_map *m = &f->part[i_part];
    uint64_t n;
    if (m->bytes < 8)
        return hy_fail(err, HY_E_FORMAT, "truncated header: 8 bytes needed, the file has %" PRIu64,
                       m->bytes);
    memcpy(&n, m->data, 8);
    if (n > m->bytes - 8)
        return hy_fail(err, HY_E_FORMAT,
                       "truncated, or a wrong length: a header of %" PRIu64
                       " bytes in a file of %" PRIu64,
                       n, m->bytes);
    if (n > HY_JSON_MAX)
        return hy_fail(err, HY_E_LIMIT, "a header of %" PRIu64 " bytes, the limit is %llu", n,
                       HY_JSON_MAX);
    json_t *header;
    HY_TRY(parse_object(&header, (const char *)m->data + 8, n, "the header", err));
    hy_status s = add_tensors(f, header, i_part, 8 + n, err);
    json_decref(header);
    return s;
}

hy_status hy_safetensors_read_one(hy_file *f, hy_err *err)
{
    f->kind = HY_FILE_SAFETENSORS;
    f->alignment = 1;
    return read_part(f, 0, err);
}

/* ---- a folder -------------------------------------------------------------------------------- */

static char *join_path(hy_file *f, const char *name)
{
    size_t n = strlen(f->path) + 1 + strlen(name) + 1;
    char *p = hy_arena_alloc(f->arena, n, 1);
    if (p) snprintf(p, n, "%s/%s", f->path, name);
    return p;
}

/* *out stays NULL when the file is absent and not needed. */
static hy_status load_json(hy_file *f, const char *name, bool needed, json_t **out, hy_err *err)
{
    const char *path = join_path(f, name);
    if (!path) return hy_fail_memory(err, "path", strlen(name));
    if (!hy_is_file(path)) {
        if (!needed) return HY_OK;
        return hy_fail(err, HY_E_FORMAT, "no model folder: %s is missing", name);
    }
    char *data;
    size_t n;
    HY_TRY(hy_read_file(path, HY_JSON_MAX, &data, &n, err));
    hy_status s = parse_object(out, data, n, name, err);
    hy_free(data);
    return s;
}

static hy_status add_shard(hy_file *f, const char *name, hy_err *err)
{
    const char *path = join_path(f, name);
    if (!path) return hy_fail_memory(err, "path", strlen(name));
    HY_TRY(hy_file_add_part(f, path, err));
    hy_status s = read_part(f, f->n_part - 1, err);
    return s == HY_OK ? HY_OK : hy_err_prefix(err, s, "%s", HY_SHOW(name));
}

/* Different file names of weight_map, in the order they come; views into the JSON. */
static hy_status list_shards(json_t *map, const char **shard, uint32_t *n_shard, hy_err *err)
{
    const char *tensor;
    json_t *value;
    *n_shard = 0;
    json_object_foreach(map, tensor, value)
    {
        const char *name = json_string_value(value);
        if (!name || !*name || strchr(name, '/') || strcmp(name, "..") == 0 ||
            strcmp(name, ".") == 0)
            return hy_fail(err, HY_E_FORMAT, "weight_map of tensor %s: %s is no plain file name",
                           HY_SHOW(tensor), name ? HY_SHOW(name) : "the value");
        uint32_t i = *n_shard; /* most often the last one seen */
        while (i > 0 && strcmp(shard[i - 1], name) != 0) i--;
        if (i > 0) continue;
        if (*n_shard == SHARD_MAX)
            return hy_fail(err, HY_E_LIMIT, "weight_map names more than %d files", SHARD_MAX);
        shard[(*n_shard)++] = name;
    }
    return HY_OK;
}

/* Each tensor of weight_map must be in a shard. Tensors are sorted by nothing yet, so the names go
 * through a JSON object made of the tensors found. */
static hy_status check_weight_map(const hy_file *f, json_t *map, const char **shard, hy_err *err)
{
    json_t *found = json_object();
    if (!found) return hy_fail_memory(err, "tensor names", 0);
    hy_status s = HY_OK;
    for (uint64_t i = 0; i < f->n_tensor && s == HY_OK; i++) {
        json_t *part = json_integer(f->tensor[i].i_part);
        if (json_object_set_new(found, f->tensor[i].name, part) != 0)
            s = hy_fail_memory(err, "tensor names", 0);
    }
    const char *tensor;
    json_t *value;
    json_object_foreach(map, tensor, value)
    {
        if (s != HY_OK) break;
        json_t *part = json_object_get(found, tensor);
        if (!part || strcmp(shard[json_integer_value(part)], json_string_value(value)) != 0)
            s = hy_fail(err, HY_E_FORMAT, "tensor %s is not in %s, where weight_map puts it",
                        HY_SHOW(tensor), HY_SHOW(json_string_value(value)));
    }
    json_decref(found);
    return s;
}

static hy_status read_sharded(hy_file *f, json_t *index, hy_err *err)
{
    json_t *map = json_object_get(index, "weight_map");
    if (!json_is_object(map)) return hy_fail(err, HY_E_FORMAT, "no weight_map");
    const char **shard = HY_ARENA_NEW(f->arena, const char *, SHARD_MAX);
    if (!shard) return hy_fail_memory(err, "shard names", SHARD_MAX * sizeof(*shard));
    uint32_t n_shard;
    HY_TRY(list_shards(map, shard, &n_shard, err));
    HY_TRY(hy_file_reserve_parts(f, HY_MAX(n_shard, 1), err));
    for (uint32_t i = 0; i < n_shard; i++) HY_TRY(add_shard(f, shard[i], err));
    return check_weight_map(f, map, shard, err);
}

hy_status hy_safetensors_read_folder(hy_file *f, hy_err *err)
{
    static const char one[] = "model.safetensors", many[] = "model.safetensors.index.json";
    f->kind = HY_FILE_SAFETENSORS;
    f->alignment = 1;
    HY_TRY(load_json(f, "config.json", true, &f->config, err));
    HY_TRY(load_json(f, "generation_config.json", false, &f->generation_config, err));
    HY_TRY(load_json(f, "tokenizer_config.json", false, &f->tokenizer_config, err));
    const char *path = join_path(f, one);
    if (!path) return hy_fail_memory(err, "path", sizeof(one));
    if (hy_is_file(path)) {
        HY_TRY(hy_file_reserve_parts(f, 1, err));
        return add_shard(f, one, err);
    }
    json_t *index = NULL;
    HY_TRY(load_json(f, many, false, &index, err));
    if (!index) return hy_fail(err, HY_E_FORMAT, "neither %s nor %s is there", one, many);
    hy_status s = read_sharded(f, index, err);
    json_decref(index);
    return s == HY_OK ? HY_OK : hy_err_prefix(err, s, "%s", many);
}
