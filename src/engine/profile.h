/* Private to engine/: what `hayate profile` measured, and what follows from it. */
#ifndef HY_ENGINE_PROFILE_H
#define HY_ENGINE_PROFILE_H

#include "measured.h"

typedef enum hy_bound { HY_BOUND_MEMORY, HY_BOUND_CACHE, HY_BOUND_OPS, HY_BOUND_NONE } hy_bound;
const char *hy_bound_name(hy_bound b);

/* One operator over a phase. best_ns: what its bytes and operations take at the measured limits. */
typedef struct hy_prof_op {
    hy_op_time t;
    double best_ns, mem_ns, ops_ns; /* ops_ns: of its operations alone */
    hy_bound bound;            /* which limit best_ns is; NONE: it moves and computes nothing */
} hy_prof_op;

typedef enum hy_bottleneck {
    HY_NECK_MEMORY,            /* operators run near the speed of memory */
    HY_NECK_ARITHMETIC,        /* near that of arithmetic */
    HY_NECK_WAITING,           /* threads wait for each other */
    HY_NECK_OPERATOR           /* neither: one operator is far from both */
} hy_bottleneck;

/* Prefill of a prompt, or decode steps. */
typedef struct hy_prof_phase {
    const char *name;          /* "prefill", "decode" */
    uint32_t n_tok;            /* of one sequence */
    uint32_t n_step;
    uint32_t n_thread;
    double wall_ns, wait_ns, outside_ns, best_ns;
    double mem_rate, cache_rate; /* bytes a second with these threads */
    bool in_cache;             /* weights and keys fit the last cache: mem_rate is its */
    uint32_t n_op;
    hy_prof_op op[HY_OP_COUNT];/* most time first */
    hy_bottleneck neck;
    uint32_t i_neck;           /* the operator with most to gain */
} hy_prof_phase;

#define HY_ADVICE_MAX 16
typedef struct hy_advice {
    double gain;               /* expected speed, 1.3: 30 % more; of the phase */
    const hy_prof_phase *phase;
    bool throughput;           /* of several requests together, not of one */
    bool sometimes;            /* depends on the text: why says on what */
    char what[160], why[240];
} hy_advice;

typedef struct hy_profile {
    const hy_core *core;
    hy_topology top;
    hy_probe probe;
    uint32_t rows, depth;
    hy_prof_phase phase[2];
    uint32_t n_phase;
    uint64_t type_bytes[HY_Q_COUNT]; /* of matrices that a decoded token reads */
    uint64_t type_weights[HY_Q_COUNT];
    hy_advice advice[HY_ADVICE_MAX];
    uint32_t n_advice;
} hy_profile;

/* profile_roof.c: limits and bottleneck of a phase whose times are in */
void hy_prof_weights(hy_profile *p);
void hy_prof_roof(hy_profile *p, hy_prof_phase *f);
/* profile_advice.c: what to try, best first */
void hy_prof_advise(hy_profile *p);
/* profile_text.c */
void hy_prof_text(const hy_profile *p, hy_buf *out);
hy_status hy_prof_json(const hy_profile *p, hy_buf *out, hy_err *err);

#endif
