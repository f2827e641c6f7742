/* plan/to_gguf: a Hugging Face folder's model as a GGUF file would have it: the keys of its
 * architecture, the tensors under GGUF's names, their rows in GGUF's order. The reverse of what the
 * loader does, by the same tables of names, so that both forms load to the same model. */
#ifndef HY_PLAN_TO_GGUF_H
#define HY_PLAN_TO_GGUF_H

#include "plan/plan.h"

typedef struct hy_to_gguf hy_to_gguf;

typedef struct hy_out_tensor {
    char name[64];
    uint32_t n_dims;
    uint64_t dim[HY_DIMS_MAX], n_row;
    hy_qtype type;             /* of the source: a float type */
} hy_out_tensor;

/* The file must outlive it. HY_E_UNSUPPORTED names what GGUF has no words for. */
hy_status hy_to_gguf_open(hy_to_gguf **out, const hy_file *f, hy_err *err);
void hy_to_gguf_close(hy_to_gguf *c);              /* accepts NULL */
const hy_model *hy_to_gguf_model(const hy_to_gguf *c);
uint32_t hy_to_gguf_n(const hy_to_gguf *c);
const hy_out_tensor *hy_to_gguf_at(const hy_to_gguf *c, uint32_t i);
/* Row r of tensor i: dim[0] floats. Thread: any. */
void hy_to_gguf_row(const hy_to_gguf *c, uint32_t i, uint64_t r, float *dst);
/* general.architecture and the architecture's own keys. */
hy_status hy_to_gguf_keys(const hy_to_gguf *c, hy_gguf_writer *w, hy_err *err);

#endif
