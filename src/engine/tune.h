/* Private to engine/: `hayate tune`. A search over settings (tune_search.c) that knows nothing of models: it asks a
 * measurer for samples of points. The measurer (tune_measure.c) opens engines and times requests; tune_knobs.c says
 * which settings a machine and a model leave open, tune_report.c what came of it, tuned.c keeps it. */
#ifndef HY_ENGINE_TUNE_H
#define HY_ENGINE_TUNE_H

#include "measured.h"

/* ---- the search -------------------------------------------------------------------------------------- */

#define HY_TUNE_KNOBS 12
#define HY_TUNE_VALUES 8
#define HY_TUNE_ROUNDS 7       /* most rounds of a comparison */
#define HY_TUNE_TRIALS 96      /* most comparisons that are kept for the report */

/* For each setting the number of its value; 0 is the default of every setting. */
typedef struct hy_tune_point { uint8_t at[HY_TUNE_KNOBS]; } hy_tune_point;

/* What one measurement gives; less is better in all of it. */
typedef struct hy_tune_sample {
    double cost;               /* what the goal is about */
    double guard[2];           /* what must not get worse than a limit */
} hy_tune_sample;

typedef enum hy_tune_verdict {
    HY_TUNE_BETTER,            /* kept */
    HY_TUNE_WORSE,             /* costs more, or as much */
    HY_TUNE_BEHIND,            /* another value of the setting is better still */
    HY_TUNE_NOISE,             /* costs less, but not by more than the measurements differ among themselves */
    HY_TUNE_LIMIT,             /* a guard is above its limit */
    HY_TUNE_LOSS,              /* loses more quality than allowed: not measured further */
    HY_TUNE_FAILED,            /* could not run: why says it */
    HY_TUNE_NO_TIME,           /* the time was over before it was clear */
    HY_TUNE_DROPPED            /* was kept, and did not hold at the end */
} hy_tune_verdict;

/* A value against the best point then known, measured in turns. */
typedef struct hy_tune_trial {
    uint8_t knob, value;
    hy_tune_verdict verdict;
    uint32_t n_round;
    double cost, base_cost;    /* medians */
    double ratio, spread;      /* median of cost / base over the rounds, and the distance of its quartiles */
    double loss;               /* of quality, as a share; NAN: not measured */
    bool nearer;               /* the best point was beyond guard 0's limit: costs are guard 0, to come nearer to it */
    char why[160];
} hy_tune_trial;

/* The side that measures. Each may be called many times; cancel and errors of the machine (memory) end the search,
 * HY_E_ARG, HY_E_LIMIT and HY_E_UNSUPPORTED only strike the value out. */
typedef struct hy_tune_field {
    void *ctx;
    hy_status (*measure)(void *ctx, const hy_tune_point *p, hy_tune_sample *out, hy_err *err);
    hy_status (*loss)(void *ctx, const hy_tune_point *p, double *out,
                      hy_err *err); /* of quality, against the defaults */
    double (*spent)(void *ctx);/* share of the time that is over; 1 and more: all */
    void (*trying)(void *ctx, uint32_t knob, uint32_t value); /* or NULL */
} hy_tune_field;

typedef struct hy_tune_search {
    hy_tune_field field;
    uint32_t n_knob;
    uint32_t n_value[HY_TUNE_KNOBS];   /* with the default; 1: nothing to choose */
    bool lossy[HY_TUNE_KNOBS];         /* its values change the text */
    double floor;              /* least gain that counts, as a share */
    double loss_max;           /* of quality; lossy settings are left alone when it is 0 */
    double guard_max[2];       /* 0: none */
    double guard_share
        [2]; /* limits as shares of the defaults' (1.1: a tenth worse), 0: none; such a guard is compared in
                                  pairs, as costs are: machines change while they are measured */
    double best_share[2];      /* of the best point's guards to the defaults' */
    /* results */
    hy_tune_point best;
    hy_tune_trial trial[HY_TUNE_TRIALS];
    uint32_t n_trial, n_measured;
    double cost_default, cost_best;    /* medians of the last comparison */
    hy_tune_sample last_default, last_best; /* medians of it, guards too */
    double ratio, spread;      /* of it: best / default; 1 when the defaults won */
    uint32_t n_final;          /* its rounds */
    bool in_limits;            /* the best point keeps the limits */
    bool stopped, out_of_time; /* cancelled; not everything was tried */
} hy_tune_search;

/* Fills the results. HY_E_CANCELLED of the measurer is no failure: `stopped`, and the best that was found by then. */
hy_status hy_tune_run(hy_tune_search *s, hy_err *err);

/* ---- the settings (tune_knobs.c) -------------------------------------------------------------------- */

typedef enum hy_tune_goal { HY_TUNE_TTFT, HY_TUNE_THROUGHPUT, HY_TUNE_MEMORY, HY_TUNE_GOALS } hy_tune_goal;
extern const char *const hy_tune_goal_name[HY_TUNE_GOALS];

/* In the order of the search: what moves most comes first. Numbers of threads are mostly well chosen without one. */
typedef enum hy_tune_knob_id {
    HY_TUNE_K_WEIGHTS,
    HY_TUNE_K_KV,
    HY_TUNE_K_SPEC,
    HY_TUNE_K_STEP,
    HY_TUNE_K_HUGE,
    HY_TUNE_K_THREADS,
    HY_TUNE_K_DECODE,
    HY_TUNE_K_PIN,
    HY_TUNE_K_PAGE,
    HY_TUNE_K_COUNT
} hy_tune_knob_id;

typedef struct hy_tune_knob {
    const char *name;          /* the option's */
    uint32_t n;                /* values, with the default */
    char value[HY_TUNE_VALUES][24];
    char closed[160];          /* why there is nothing to choose; "" where there is */
} hy_tune_knob;

/* What decides which values there are. */
typedef struct hy_tune_place {
    hy_topology top;
    hy_tune_goal goal;
    const hy_options *o;       /* as given: what it sets is not touched */
    uint32_t n_threads, n_threads_decode, n_step, n_ctx; /* of the defaults, as the engine took them */
    uint32_t n_prompt;         /* tokens of the prompts measured */
    const char *kv_type;
    double bits;               /* mean bits of a weight in the file */
    bool huge_pages;           /* the system gives some */
    bool loss;                 /* some quality may be lost */
} hy_tune_place;

void hy_tune_knobs(const hy_tune_place *p, hy_tune_knob out[HY_TUNE_K_COUNT]);
/* Numbers of threads worth trying beside `chosen`, never more than the quota allows. Returns how many. */
uint32_t hy_tune_thread_values(const hy_topology *top, uint32_t chosen, uint32_t out[HY_TUNE_VALUES]);
/* The options of a point. Strings point into knobs. */
void hy_tune_apply(const hy_tune_place *p, const hy_tune_knob knob[HY_TUNE_K_COUNT], const hy_tune_point *at,
                   hy_options *o);
/* The lines of the config file for a point: "threads = 2\n". */
void hy_tune_lines(const hy_tune_place *p, const hy_tune_knob knob[HY_TUNE_K_COUNT], const hy_tune_point *at,
                   hy_buf *out);

/* ---- measuring (tune_measure.c) ----------------------------------------------------------------------- */

#define HY_TUNE_ENGINES 5      /* most that are open at once */

typedef struct hy_tune_engine {
    hy_tune_point point;
    hy_engine *e;
    uint64_t last_used;
} hy_tune_engine;

typedef struct hy_tune_bench {
    hy_options base;
    hy_tune_params params;
    hy_tune_place place;
    hy_tune_knob knob[HY_TUNE_K_COUNT];
    hy_tune_engine slot[HY_TUNE_ENGINES];
    uint32_t n_slot, n_open;   /* how many fit into memory; how many are open */
    uint64_t us_start, n_use;
    int32_t *text_ids;         /* the text in tokens, for prompts */
    size_t n_text_ids;
    int32_t *task_ids[4];      /* prompts of the kinds that people send */
    size_t n_task_ids[4];
    double ppl_base;           /* of the defaults; 0: not measured yet */
    uint64_t n_scored;
    uint32_t task_most;        /* tokens of a task's prompt: its end counts */
    bool cancelled;
    bool timed_out;            /* one measurement alone took far too long */
} hy_tune_bench;

/* Opens the defaults, learns what they took, and fills place and knobs. */
hy_status hy_tune_bench_open(hy_tune_bench *b, hy_err *err);
void hy_tune_bench_close(hy_tune_bench *b);
hy_tune_field hy_tune_bench_field(hy_tune_bench *b);

extern const char hy_tune_text[];      /* some prose for prompts and perplexity (tune_text.c) */
extern const char *const hy_tune_task[4];

/* ---- what came of it (tune_report.c, tuned.c) ----------------------------------------------------------- */

/* NULL when out of memory. Caller decrefs. */
json_t *hy_tune_json(const hy_tune_bench *b, const hy_tune_search *s);
void hy_tune_text_of(const json_t *report, hy_buf *out);
/* The config's text for a report and its lines. */
void hy_tuned_write(const json_t *report, const char *lines, hy_buf *out);
/* The name of the config of a model on this machine, in the cache folder; false when out of memory. */
bool hy_tuned_name(const char *model_id, const hy_topology *top, char name[80]);

#endif
