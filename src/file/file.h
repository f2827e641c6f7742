/* file: model files as a checked directory of metadata and tensors over mmap. May include base,
 * quant (and jansson for config.json). Every count, offset and length is checked against the file's
 * size before use; nothing here trusts a file. */
#ifndef HY_FILE_H
#define HY_FILE_H

#include "base/base.h"
#include "quant/quant.h"
#include <jansson.h>

typedef enum hy_meta_type { /* numbers as in GGUF */
    HY_M_U8, HY_M_I8, HY_M_U16, HY_M_I16, HY_M_U32, HY_M_I32, HY_M_F32, HY_M_BOOL, HY_M_STR,
    HY_M_ARRAY, HY_M_U64, HY_M_I64, HY_M_F64
} hy_meta_type;

typedef struct hy_str {        /* a view, not NUL-terminated */
    const char *p;
    uint64_t n;
} hy_str;

typedef struct hy_meta {
    const char *key;           /* NUL-terminated */
    hy_meta_type type;         /* of the value, or HY_M_ARRAY */
    hy_meta_type item;         /* of an array's items; nested arrays are refused */
    uint64_t n;                /* items of an array; else 1 */
    const void *data;          /* raw little-endian value(s), unaligned; for strings see hy_meta_str */
    const hy_str *strs;        /* strings: [n] views, until hy_file_done_with_strings; else NULL */
} hy_meta;

#define HY_DIMS_MAX 4
typedef struct hy_tensor {
    const char *name;          /* NUL-terminated */
    bool known;                /* false: not readable as weights (type, more than 4 dimensions, or
                                * empty: safetensors only); qtype is meaningless */
    hy_qtype qtype;
    uint32_t ggml_type;
    uint32_t n_dims;           /* 1..4 */
    uint64_t dim[HY_DIMS_MAX]; /* dim[0] is the row length (fastest), as in GGUF; unused ones are 1 */
    const uint8_t *data;       /* in the mapping; NULL for vocabulary-only files */
    uint64_t bytes;            /* GGUF: 0 when !known, since only the type tells the size */
    uint32_t i_part;           /* which mapped file, and where: for hy_file_done_with */
    uint64_t offset;
} hy_tensor;

typedef enum hy_file_kind { HY_FILE_GGUF, HY_FILE_SAFETENSORS } hy_file_kind;

/* A model: one GGUF, the parts of a split GGUF, or a Hugging Face folder. Immutable after opening;
 * any thread may read it. Strings and data live until hy_file_close. */
typedef struct hy_file {
    hy_file_kind kind;
    char *path;
    uint32_t gguf_version;
    uint64_t alignment;
    uint64_t n_meta;
    hy_meta *meta;             /* GGUF; none for a folder */
    uint64_t n_tensor;
    hy_tensor *tensor;         /* safetensors: dims reversed into GGUF order (dim[0] fastest) */
    uint64_t bytes;            /* all parts */
    uint32_t n_part;
    hy_map *part;
    /* folder only; NULL when the file is absent */
    json_t *config, *generation_config, *tokenizer_config;
    hy_arena *arena;
    struct hy_file_index *index;
} hy_file;

/* GGUF v2/v3 (any part of a split opens all parts), a folder with config.json and *.safetensors
 * (model.safetensors or the sharded index), or a lone .safetensors file. The error names file, key or
 * tensor, value and limit. Vocabulary-only GGUFs (no tensors) open too. */
hy_status hy_file_open(hy_file **out, const char *path, hy_err *err);
/* The same from memory that outlives the file (tests, fuzzing). A part of a split is refused. */
hy_status hy_file_open_memory(hy_file **out, const void *data, uint64_t n, hy_file_kind kind,
                              hy_err *err);
void hy_file_close(hy_file *f);                  /* accepts NULL */

const hy_meta *hy_file_meta(const hy_file *f, const char *key);       /* NULL when absent */
const hy_tensor *hy_file_tensor(const hy_file *f, const char *name);  /* NULL when absent */

/* Typed reading. Absent: *out keeps the caller's default and HY_OK is returned, unless `needed`.
 * Wrong type or out of [min, max]: HY_E_FORMAT naming key, value and limit. Integers of any width
 * are accepted where they fit; floats accept F32 and F64 and integers. */
hy_status hy_meta_u64(const hy_file *f, const char *key, bool needed, uint64_t min, uint64_t max,
                      uint64_t *out, hy_err *err);
hy_status hy_meta_f64(const hy_file *f, const char *key, bool needed, double *out, hy_err *err);
hy_status hy_meta_bool(const hy_file *f, const char *key, bool needed, bool *out, hy_err *err);
hy_status hy_meta_string(const hy_file *f, const char *key, bool needed, hy_str *out, hy_err *err);
/* Item i of an array (or of a scalar when i = 0) as a number; false when it is none. */
bool hy_meta_item_u64(const hy_meta *m, uint64_t i, uint64_t *out);
bool hy_meta_item_i64(const hy_meta *m, uint64_t i, int64_t *out);
bool hy_meta_item_f64(const hy_meta *m, uint64_t i, double *out);
const char *hy_meta_type_name(hy_meta_type t);   /* "u32", "string", ...; never NULL */

/* The kernel may drop the tensor's pages: its content has been packed elsewhere. */
void hy_file_done_with(const hy_file *f, const hy_tensor *t);
void hy_file_done_with_bytes(const hy_file *f, const hy_tensor *t, uint64_t first, uint64_t n); /* a part of it */
/* Frees the views of arrays of strings (16 bytes a token): a tokenizer has been made of them. Their number stays. The
 * caller sees to it that nobody else reads the file meanwhile. */
void hy_file_done_with_strings(hy_file *f);
/* n bytes of it from `first` on, copied; they must lie inside. */
void hy_file_peek(const hy_file *f, const hy_tensor *t, uint64_t first, size_t n, void *out);
/* A part of it is read next, by this thread. */
void hy_file_need_bytes(const hy_file *f, const hy_tensor *t, uint64_t first, uint64_t n);

/* ---- writing GGUF ---------------------------------------------------------------------------- */

/* Writes to `path`.tmp-<pid> and renames at finish, so that no half file is ever seen; abort (or a
 * failing finish) removes it. Order: metadata, tensor declarations, tensor data in the declared
 * order, finish. A tensor's data may come in pieces, none across two tensors. put_meta obeys
 * general.alignment (default 32); leave out split.* when copying from a split. Owner: one thread. */
typedef struct hy_gguf_writer hy_gguf_writer;
hy_status hy_gguf_create(hy_gguf_writer **out, const char *path, hy_err *err);
hy_status hy_gguf_put_meta(hy_gguf_writer *w, const hy_meta *m, hy_err *err);
hy_status hy_gguf_put_str(hy_gguf_writer *w, const char *key, const char *value, hy_err *err);
hy_status hy_gguf_put_u32(hy_gguf_writer *w, const char *key, uint32_t value, hy_err *err);
hy_status hy_gguf_put_f32(hy_gguf_writer *w, const char *key, float value, hy_err *err);
hy_status hy_gguf_put_bool(hy_gguf_writer *w, const char *key, bool value, hy_err *err);
hy_status hy_gguf_declare(hy_gguf_writer *w, const char *name, uint32_t n_dims, const uint64_t *dim,
                          hy_qtype type, hy_err *err);
hy_status hy_gguf_put_data(hy_gguf_writer *w, const void *data, uint64_t n, hy_err *err);
hy_status hy_gguf_finish(hy_gguf_writer *w, hy_err *err); /* frees w, also on failure */
void hy_gguf_abort(hy_gguf_writer *w);                    /* accepts NULL */

#endif
