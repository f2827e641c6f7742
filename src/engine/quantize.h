/* Private to engine/: what quantize's parts share. */
#ifndef HY_ENGINE_QUANTIZE_H
#define HY_ENGINE_QUANTIZE_H

#include "core.h"

/* One tensor of the output. */
typedef struct hy_q_item {
    const char *name;
    uint32_t n_dims;
    uint64_t dim[HY_DIMS_MAX], n_row;
    const hy_tensor *src;      /* of a GGUF; NULL: number i of the folder's */
    uint32_t i;
    hy_qtype have, want;
    uint64_t src_row_bytes, out_row_bytes;
    float *importance;         /* [n_importance][dim[0]], or NULL */
    uint32_t n_importance;     /* 1, or one an expert */
} hy_q_item;

/* A plain type, or a mix. */
typedef struct hy_q_mix hy_q_mix;
hy_status hy_q_mix_find(const hy_q_mix **out, const char *name, hy_err *err);
uint32_t hy_q_mix_file_type(const hy_q_mix *m);
/* The type of one tensor, by the mix and the overrides; what does not fit the row length falls back to
 * q8_0, then f16. */
hy_status hy_q_choose(const hy_q_mix *m, const hy_quantize_params *p, uint32_t n_layer, bool has_output,
                      hy_q_item *it, hy_err *err);

/* Importance of the items' columns from an imatrix file; err: nothing in it belongs to this model. */
hy_status hy_q_importance(hy_q_item *items, uint32_t n, const char *path, hy_err *err);

/* tokenizer.* keys of a folder. */
hy_status hy_q_tokenizer(hy_gguf_writer *w, const hy_file *f, uint32_t n_vocab, hy_err *err);

#endif
