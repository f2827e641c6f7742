/* Private to cli/: load on an OpenAI-compatible server, over libcurl's multi interface, from one thread. */
#ifndef HY_CLI_LOAD_H
#define HY_CLI_LOAD_H

#include "cli.h"

/* One request of the plan. */
typedef struct load_job {
    double at_s;               /* open loop: when it is due, from the start; closed loop: 0 */
    uint32_t n_prompt;         /* tokens wished, the shared beginning included */
    uint32_t n_output;         /* max_tokens */
    uint32_t i_prefix;         /* which shared beginning; UINT32_MAX: none */
} load_job;

typedef struct load_plan {
    const char *url, *key, *model;
    load_job *job;
    uint32_t n_job;
    uint32_t streams;          /* closed loop: so many at once; 0: open loop, by at_s */
    uint32_t n_prefix;         /* tokens of a shared beginning */
    uint64_t seed;
    bool chat;                 /* /v1/chat/completions instead of /v1/completions */
    bool until_end;            /* do not ask to ignore the end token */
    double words_per_token;    /* measured by load_calibrate */
} load_plan;

/* What came of a job; times in seconds. */
typedef struct load_result {
    bool good;
    long status;               /* of HTTP; 0: no answer */
    double begin, ttft, e2e;   /* begin: from the start of the run */
    double *gap;               /* [n_gap] between pieces */
    uint32_t n_gap, n_prompt, n_output, n_cached;
    char why[160];             /* when not good */
} load_result;

/* Asks the server for its first model (when plan->model is NULL; *model is owned by the caller then) and how
 * many of our words make a token. */
hy_status load_calibrate(load_plan *p, char **model, hy_err *err);
/* Runs the plan. result: [n_job], zeroed. progress as cli_bar_step; true stops early (HY_E_CANCELLED). */
hy_status load_run(const load_plan *p, load_result *result, bool (*progress)(void *, uint64_t, uint64_t), void *ctx,
                   double *took_s, hy_err *err);
void load_results_free(load_result *r, uint32_t n);

#endif
