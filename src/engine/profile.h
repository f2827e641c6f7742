/* Private to engine/: what a profile measured, and what follows from it. Of steps that were run to be measured
 * (`hayate profile`: profile.c), or of the running load (profile_live.c). */
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
    HY_NECK_OPERATOR,          /* neither: one operator is far from both */
    HY_NECK_UNKNOWN            /* the machine's limits are not known */
} hy_bottleneck;

/* Prefill of a prompt, or decode steps. Of a running load: steps that take in parts of prompts, and those that
 * only decode. */
typedef struct hy_prof_phase {
    const char *name;          /* "prefill", "decode" */
    double rows;               /* sequences in a step, mean; 0: one */
    uint64_t n_tok;            /* of one sequence; of a running load: of all */
    uint64_t n_step;
    uint32_t n_thread;
    double wall_ns, wait_ns, outside_ns, best_ns;
    double mem_rate, cache_rate; /* bytes a second with these threads */
    bool in_cache;             /* weights and keys fit the last cache: mem_rate is its */
    uint32_t n_op;
    hy_prof_op op[HY_OP_COUNT];/* most time first */
    hy_bottleneck neck;
    uint32_t i_neck;           /* the operator with most to gain */
} hy_prof_phase;

/* A running load: what the engine's thread did with the time, and the sizes of its steps. */
#define HY_PROF_SIZES 8
typedef struct hy_prof_load {
    double all_ns, idle_ns;    /* idle: there was nothing to do */
    double run_ns, draft_ns, after_ns; /* the plan; drafting; sampling and giving out. The rest: scheduling */
    uint64_t n_step, n_out, n_prompt; /* tokens given out; tokens of prompts computed */
    uint64_t n_drafted, n_accepted;
    uint64_t sum_row, sum_tok;
    uint32_t most_row, most_tok;
    uint64_t by_row[HY_PROF_SIZES]; /* steps of 1, 2, up to 4, 8, 16, 32, 64, more requests */
} hy_prof_load;

#define HY_ADVICE_MAX 16
typedef struct hy_advice {
    const char *id;            /* "weights-q4", "threads", ... */
    double gain;               /* expected speed, 1.3: 30 % more; of the phase */
    const hy_prof_phase *phase;
    bool throughput;           /* of several requests together, not of one */
    bool sometimes;            /* depends on the text: why says on what */
    bool measured;             /* by the ablation on this machine; else an estimate from the times */
    char what[160], why[240];
} hy_advice;

typedef struct hy_profile {
    const hy_core *core;
    hy_topology top;
    hy_probe probe;            /* n_point 0: nothing is known of the machine */
    uint32_t rows, depth;
    const hy_prof_load *load;  /* NULL: steps that were run to be measured */
    bool drafting;             /* drafts are on already */
    hy_prof_phase phase[2];
    uint32_t n_phase;
    uint64_t type_bytes[HY_Q_COUNT]; /* of matrices that a decoded token reads */
    uint64_t type_weights[HY_Q_COUNT];
    hy_advice advice[HY_ADVICE_MAX];
    uint32_t n_advice;
    bool judged;               /* roofs, bottlenecks and advice are there */
    char when[32];             /* the ablation that advice is taken from; "": none */
} hy_profile;

/* profile_roof.c: limits and bottleneck of a phase whose times are in */
void hy_prof_weights(hy_profile *p);
void hy_prof_roof(hy_profile *p, hy_prof_phase *f);
double hy_prof_speed(const hy_profile *p, const hy_prof_phase *f); /* tokens a second */
/* profile_advice.c: what to try, best first. ablation (or NULL): hy_ablation_kept's */
#define HY_GAIN_MIN 1.03       /* less is not worth trying */
void hy_prof_advise(hy_profile *p, const json_t *ablation);
/* profile_measured.c: the ablation's numbers take the place of estimates */
void hy_prof_measured(hy_profile *p, const json_t *ablation);
/* profile_prose.c: sentences for people who have not seen a profile before. Paragraphs end with a newline. */
void hy_prof_prose(const hy_profile *p, const hy_prof_phase *f, hy_buf *out);
void hy_prof_prose_load(const hy_profile *p, hy_buf *out); /* the load as a whole */
/* The operator with the largest share of all phases' time; false: nothing ran. */
bool hy_prof_largest(const hy_profile *p, hy_op *op, double *share);
/* profile_text.c. The times are in; judges them first. */
hy_status hy_prof_report(hy_profile *p, hy_profile_form form, char **text, hy_err *err);
void hy_prof_text(const hy_profile *p, hy_buf *out);
hy_status hy_prof_json(const hy_profile *p, hy_buf *out, hy_err *err);
/* profile_trace.c: spans of the plan into an open trace */
void hy_prof_trace(const hy_plan_rings *r, hy_trace *out);

/* profile_live.c; engine thread */
struct hy_engine;
typedef struct hy_prof_moments { uint64_t begin, drafted, run, ran; } hy_prof_moments; /* of a step, ns */
void hy_profiling_look(struct hy_engine *e);           /* between steps: begins and ends */
void hy_profiling_step(struct hy_engine *e, const hy_batch *b, const hy_prof_moments *m);
/* hy_word_wait on e->wake, no longer than the profile lasts. */
void hy_profiling_wait(struct hy_engine *e, uint32_t seen, int64_t timeout_us);
void hy_profiling_leave(struct hy_engine *e);          /* the thread ends */

#endif
