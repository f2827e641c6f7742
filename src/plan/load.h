/* plan/load: the loading half's own words. Private to params*.c and weights*.c. */
#ifndef HY_PLAN_LOAD_H
#define HY_PLAN_LOAD_H

#include "arch/arch.h"
#include "plan/plan.h"

/* ---- hyper-parameters ------------------------------------------------------------------------- */

#define HY_EMBD_MAX (1u << 20)
#define HY_VOCAB_MAX (1u << 24)
#define HY_CTX_MAX (1u << 30)
#define HY_HEADS_MAX 4096u
#define HY_HEAD_DIM_MAX 4096u
#define HY_FF_MAX (1u << 24)
#define HY_EXPERTS_MAX 4096u

/* What a file says, before it is spread over the layers. */
typedef struct hy_draft {
    const hy_file *file;
    const hy_family *family;
    hy_arena *arena;
    hy_hparams *hp;            /* layer[] allocated once n_layer is known */
    uint32_t window_every;     /* each n-th layer is full */
    uint8_t *windowed;         /* [n_layer], or NULL: by window_every */
    uint8_t *no_rope;          /* [n_layer], or NULL: by the family's rule */
    bool local_rope;           /* rope[1] holds the windowed layers' rope */
} hy_draft;

hy_status hy_params_gguf(hy_draft *d, hy_err *err);
hy_status hy_params_hf(hy_draft *d, hy_err *err);
/* Family, hp and layer[] of a model whose arena stands. */
hy_status hy_params_read(hy_model *m, const hy_file *f, hy_err *err);
hy_status hy_params_alloc_layers(hy_draft *d, hy_err *err);
/* sqrt(1 + ln(longer) / ln(original)) and 0.1 ln(factor) + 1: Phi-3's and YaRN's attention factors. */
double hy_longrope_attn_factor(double n_ctx, double n_ctx_orig);
double hy_yarn_attn_factor(double factor, double mscale);

/* ---- where a role's rows are ------------------------------------------------------------------ */

#define HY_NAME_MAX 192

/* A role in the file: one tensor, or one for each expert (or head). */
typedef struct hy_source {
    const hy_name *how;        /* pick and flags */
    const hy_tensor *tensor;   /* NULL: absent; of expert 0 where there is one each */
    const hy_tensor *bias;     /* or NULL */
    bool split;                /* one tensor an expert or head */
} hy_source;

/* Finds a role in the file; absence is no error (tensor is NULL). */
void hy_source_find(const hy_file *f, const hy_family *fam, const char *prefix, hy_role role,
                    uint32_t i_layer, hy_source *out);
/* Tensor (or bias) of the i-th expert or head of a split source; NULL when the file lacks it. */
const hy_tensor *hy_source_part(const hy_file *f, const char *prefix, const hy_source *s,
                                uint32_t i_layer, uint32_t i, bool bias);
/* The prefix of the folder's names, "" for GGUF. */
const char *hy_source_prefix(const hy_file *f, const hy_family *fam, char out[HY_NAME_MAX]);
/* The name a user would look for, for messages. */
void hy_source_name(const hy_file *f, const hy_family *fam, const char *prefix, hy_role role,
                    uint32_t i_layer, char out[HY_NAME_MAX]);

/* Row of the file's tensor that is row r of the role, and how many the tensor must have. n_row: the
 * role's rows. */
uint64_t hy_pick_row(hy_pick pick, const hy_hparams *hp, uint32_t i_layer, uint64_t n_row, uint64_t r);
uint64_t hy_pick_total(hy_pick pick, const hy_hparams *hp, uint32_t i_layer, uint64_t n_row);

/* ---- memory ----------------------------------------------------------------------------------- */

typedef struct hy_model_mem {
    uint8_t *data;             /* all panels, vectors, biases; never written after loading */
    uint64_t bytes, used;
    hy_map map;                /* map.data not NULL: data lies in this file */
} hy_model_mem;

#endif
