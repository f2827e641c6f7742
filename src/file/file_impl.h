/* Private to file/: what the readers and the writer share. */
#ifndef HY_FILE_IMPL_H
#define HY_FILE_IMPL_H

#include "file/file.h"
#include <inttypes.h>

#define HY_NAME_MAX      65535u /* longest key or tensor name (GGUF spec: keys up to 2^16 - 1) */
#define HY_PART_MAX      65535u /* split.count is 16 bits wide */
#define HY_ALIGNMENT_MAX (1u << 20)
#define HY_JSON_MAX      (32 * HY_MIB) /* configs, shard indexes and safetensors headers */

struct hy_file_index {
    uint64_t seed;                   /* of the hash: differs from run to run */
    uint64_t meta_mask, tensor_mask; /* slots - 1 */
    uint32_t *meta, *tensor;         /* slot -> index + 1, 0 = free */
    uint64_t tensor_cap;             /* safetensors: room in f->tensor while shards are added */
    bool borrowed;                   /* part[0] is the caller's memory */
    hy_arena *strings;               /* views of arrays of strings, or NULL */
};

/* A name from a file, made safe to print: at most 80 bytes, others than printable ASCII as '?'. */
typedef struct hy_shown {
    char s[88];
} hy_shown;
hy_shown hy_file_show(const char *s, uint64_t n);
#define HY_SHOW(name) (hy_file_show((name), strlen(name)).s)

/* Makes room for n parts; f->n_part stays 0. */
hy_status hy_file_reserve_parts(hy_file *f, uint64_t n, hy_err *err);
/* Maps `path` as the next part. */
hy_status hy_file_add_part(hy_file *f, const char *path, hy_err *err);

/* Product of the dims; false on overflow of 63 bits. */
bool hy_file_count(const uint64_t *dim, uint32_t n_dims, uint64_t *out);

/* Tensors [first, first + n) of one part must not share bytes, and with `dense` (safetensors) must
 * fill [data_first, data_last) without a hole. */
hy_status hy_file_check_layout(const hy_file *f, uint64_t first, uint64_t n, bool dense,
                               uint64_t data_first, uint64_t data_last, hy_err *err);

bool hy_meta_is_int(hy_meta_type t);
uint32_t hy_meta_type_bytes(hy_meta_type t); /* 0 for strings and arrays */

/* Readers. f->path, f->arena and f->index are set; GGUF and lone safetensors have part[0] mapped.
 */
hy_status hy_gguf_read(hy_file *f, hy_err *err);
hy_status hy_safetensors_read_one(hy_file *f, hy_err *err);
hy_status hy_safetensors_read_folder(hy_file *f, hy_err *err);

#endif
