/* Private to ablate_engine.c and ablate_spec.c: requests to an engine, many at once, with the times of their tokens. */
#ifndef HY_ENGINE_ABLATE_ASK_H
#define HY_ENGINE_ABLATE_ASK_H

#include "ablate_impl.h"

typedef struct ab_ask {
    hy_params p;               /* what is asked: tokens, max_tokens */
    uint32_t n_before;         /* asked only after ask 0 has given so many tokens */
    /* results */
    hy_request *r;
    int32_t *id;               /* [p.max_tokens] */
    uint64_t *us;              /* [p.max_tokens]: when each token came */
    uint32_t n;                /* tokens */
    uint64_t us_asked;
    bool done;
    hy_usage usage;
} ab_ask;

typedef void ab_look_fn(void *ctx, hy_engine *e); /* every few milliseconds while they run */

/* n asks over one block of prompts and results; fills none of them in. NULL: out of memory. */
ab_ask *ab_asks_new(uint32_t n, uint32_t n_prompt, uint32_t n_answer);
void ab_asks_free(ab_ask *q, uint32_t n);
/* Forgets the results, not the questions. */
void ab_asks_reset(ab_ask *q, uint32_t n);
/* Prompt tokens of ask i: [n_prompt] of ab_asks_new, to be written. */
int32_t *ab_ask_prompt(ab_ask *q);
/* A prompt of n made-up tokens; the same for the same seed. */
void ab_ask_fill(const ab *a, ab_ask *q, uint32_t seed, uint32_t first, uint32_t n);
/* Greedy, to the full length. */
void ab_ask_set(ab_ask *q, uint32_t n_prompt, uint32_t n_answer);
/* All to their ends. */
hy_status ab_ask_all(ab *a, hy_engine *e, ab_ask *q, uint32_t n, ab_look_fn *look, void *ctx, hy_err *err);
bool ab_same_answers(const ab_ask *x, const ab_ask *y, uint32_t n);

double ab_ttft_ms(const ab_ask *q);
double ab_itl_ms(const ab_ask *q);                 /* mean gap; NAN with one token */
double ab_worst_gap_ms(const ab_ask *q, uint64_t us_from);
double ab_span_s(const ab_ask *q, uint32_t n);     /* from the first question to the last token */
/* An engine of the best configuration; n_seq requests at once. */
hy_options ab_engine_options(const ab *a, uint32_t n_ctx, uint32_t n_seq, uint64_t kv_tokens);
hy_status ab_engine_open(ab *a, hy_engine **out, hy_options *o, hy_err *err);
double ab_engine_memory(const hy_engine *e);

#endif
