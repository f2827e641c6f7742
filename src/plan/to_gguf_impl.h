/* Private to to_gguf*.c. */
#ifndef HY_PLAN_TO_GGUF_IMPL_H
#define HY_PLAN_TO_GGUF_IMPL_H

#include "plan/to_gguf.h"
#include "plan/weights.h"

/* Rows of one role in an output tensor. */
typedef struct hy_out_part {
    hy_role role;
    hy_source src;
    uint64_t n_row, total;     /* of the role; of the source's tensor; an expert */
    bool turn;                 /* Q, K: rows change between halves and pairs */
} hy_out_part;

typedef struct hy_out {
    hy_out_tensor t;
    uint32_t i_layer;
    bool bias, vector;         /* vector: norms and the like */
    uint32_t n_part;           /* 1, or Q K V, or gate and up */
    hy_out_part part[3];
    uint64_t n_row;            /* of all parts, an expert */
    const float *values;       /* rotary factors: no source */
} hy_out;

struct hy_to_gguf {
    const hy_file *file;
    hy_model *m;
    const hy_family *to;       /* whose files the output follows */
    char arch[64];
    char prefix[HY_NAME_MAX];
    hy_arena *arena;
    hy_out *out;
    uint32_t n, cap;
};

hy_status hy_to_gguf_ropes(hy_to_gguf *c, hy_err *err); /* tensors of rotary factors */
hy_out *hy_to_gguf_more(hy_to_gguf *c, hy_err *err);     /* one more output, zeroed; NULL: out of memory */

#endif
