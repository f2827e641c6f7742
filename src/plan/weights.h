/* plan/weights: the loader's state. Private to weights.c and fill_weights.c. */
#ifndef HY_PLAN_WEIGHTS_H
#define HY_PLAN_WEIGHTS_H

#include "plan/load.h"

/* One weight to fill. */
typedef struct hy_load_job {
    hy_weight *w;
    uint32_t i_layer;
    hy_source src;
    uint64_t k, n_row;         /* of the role */
    uint32_t n_part;           /* experts (or heads) */
    uint64_t src_total;        /* rows of the file's tensor, an expert */
    hy_qtype type;             /* packed */
    const hy_tensor **part;    /* [n_part] when src.split, else one that holds all */
    const hy_tensor **bias;    /* likewise, or NULL */
    uint64_t panels_bytes;     /* of one part; rounded to HY_ALIGN */
    uint64_t vec_bytes, bias_bytes;
} hy_load_job;

typedef struct hy_loader {
    hy_model *m;
    const hy_file *file;
    const hy_load_opts *opts;
    hy_arena *work;            /* gone after loading */
    char prefix[HY_NAME_MAX];
    hy_load_job *job;
    uint32_t n_job;
    uint32_t *uses;            /* [file's tensors]: jobs still to come */
    uint64_t all_bytes;
    bool packed;               /* packed_key is known */
    uint64_t packed_key;
} hy_loader;

#define HY_PANEL_ROWS_MAX 64

bool hy_family_has(const hy_family *fam, hy_role role); /* the role is in its tensor table */

/* Fills every job's memory with all threads; lets the file's pages go. */
hy_status hy_load_pack(hy_loader *l, hy_err *err);
/* Gives every job its place in memory that is filled already. */
void hy_load_place(hy_loader *l);

/* packed.c: takes the packed form from a file; false: there is none to be used. */
bool hy_packed_map(hy_loader *l);
/* Keeps what was packed. Failing costs nothing but the next start's time. */
void hy_packed_keep(const hy_loader *l);

#endif
