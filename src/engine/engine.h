/* engine: the loop. Requests come in by one bounded queue; the engine's thread makes batches, runs the
 * plan, samples and publishes tokens; hy_poll turns tokens into text on the caller's thread. May include
 * every room above. Its interface to the outside is include/hayate. This header is private. */
#ifndef HY_ENGINE_H
#define HY_ENGINE_H

#include "core.h"
#include "draft.h"
#include "gram/gram.h"
#include "sample/sample.h"
#include "sched/sched.h"
#include <pthread.h>
#include <stdatomic.h>

/* ---- waiting and queues (queue.c) ---------------------------------------------------------------- */

void hy_word_wait(_Atomic uint32_t *w, uint32_t seen, int64_t timeout_us); /* < 0: forever; may wake early */
void hy_word_wake(_Atomic uint32_t *w);            /* wakes all, changes nothing */
/* A word that only grows: wait until it differs from `seen`, or until the time is up. */
typedef _Atomic uint32_t hy_tick;
void hy_tick_wake(hy_tick *t);                     /* increments and wakes all */

/* Bounded queue, many producers, one consumer (Vyukov's array queue with sequence numbers). */
typedef struct hy_queue_cell {
    _Atomic uint32_t seq;
    void *item;
} hy_queue_cell;
typedef struct hy_queue {
    hy_queue_cell *cell;
    uint32_t mask;
    _Atomic uint32_t put;
    uint32_t take;
} hy_queue;
hy_status hy_queue_open(hy_queue *q, uint32_t n, hy_err *err); /* n is rounded up to a power of two */
bool hy_queue_put(hy_queue *q, void *item);        /* false: full. Thread: any */
void *hy_queue_take(hy_queue *q);                  /* NULL: empty. Thread: the consumer */
void hy_queue_close(hy_queue *q);

/* ---- numbers that one thread writes and any thread reads (hist.c) --------------------------------- */

typedef struct hy_live_hist {
    const double *bound;
    uint32_t n_bound;
    _Atomic uint64_t count[HY_HIST_BUCKETS + 1];
    _Atomic double sum;
} hy_live_hist;
typedef enum hy_hist_id {
    HY_H_TTFT, HY_H_ITL, HY_H_E2E, HY_H_QUEUE, HY_H_PREFILL, HY_H_DECODE, HY_H_STEP, HY_H_STEP_TOKENS,
    HY_H_PROMPT_TOKENS, HY_H_OUTPUT_TOKENS, HY_H_COUNT
} hy_hist_id;
void hy_hist_init(hy_live_hist h[HY_H_COUNT]);
void hy_hist_add(hy_live_hist *h, double v);
void hy_hist_read(const hy_live_hist *h, hy_hist *out);

/* For counters with a single writer: no locked instruction. */
#define HY_BUMP(counter, n)                                                                            \
    atomic_store_explicit(&(counter), atomic_load_explicit(&(counter), memory_order_relaxed) + (n),     \
                          memory_order_relaxed)
#define HY_SET(cell, v) atomic_store_explicit(&(cell), (v), memory_order_relaxed)
#define HY_GET(cell) atomic_load_explicit(&(cell), memory_order_relaxed)

/* ---- a request ------------------------------------------------------------------------------------ */

typedef struct hy_out_token {
    int32_t id;
    float logprob;
    uint64_t us;
} hy_out_token;

typedef enum hy_why { HY_WHY_NOT, HY_WHY_USER, HY_WHY_STOP } hy_why; /* STOP: a stop string, met by hy_poll */

#define HY_SPANS_MAX 128
#define HY_SPAN_CHUNKS 64
typedef struct hy_live_span {  /* hy_span */
    _Atomic uint64_t us_begin, us_end;
    _Atomic uint32_t kind, n_tok, n_beside;
    uint64_t sum_beside, n_step; /* engine thread */
} hy_live_span;

#define HY_GATE_RELEASED 1u
#define HY_GATE_CALLING 2u

/* Owner of each part is named; whoever drops the last of the two references frees it. */
struct hy_request {
    hy_engine *engine;
    _Atomic int n_ref;         /* the user's and the engine's */
    _Atomic int cancel;        /* hy_why */
    hy_tick tick;              /* moves on every publication */
    _Atomic uint32_t gate;     /* HY_GATE_*: a call of notify never outlives hy_release */
    _Atomic uint32_t n_out;    /* tokens published: out[0..n_out) and their logprobs are final */
    _Atomic int finish;        /* hy_finish; set after the last token */
    _Atomic bool has_prompt_logprobs;

    /* fixed at submit */
    uint32_t n_prompt, n_max;  /* prompt; most tokens to generate */
    uint32_t n_min;            /* tokens before the first end token */
    bool ignore_eos, show_special;
    int32_t top_logprobs, prompt_logprobs;
    hy_pool pool;
    hy_sampling sampling;
    hy_sample_bias *bias;
    char **stop;
    size_t *stop_len;
    uint32_t n_stop;
    size_t stop_max;
    uint64_t us_submit;
    void (*notify)(void *ctx); /* or NULL; called only through the gate */
    void *notify_ctx;
    uint64_t bytes;            /* memory held, for the ledger */

    /* engine thread */
    int32_t *ids;              /* [n_prompt + n_max] */
    hy_sched_req q;
    hy_gram_run *guide;        /* or NULL */
    uint32_t i_out, n_out_rows;/* of this step: first of its rows with outputs, how many */
    uint32_t at;               /* n_done before this step */
    hy_status status;          /* with HY_FINISH_ERROR */
    hy_err err;
    hy_out_token *out;         /* [n_max] */
    hy_sample_logprob *top;    /* [n_max, top_logprobs] */
    hy_token *plp;             /* [n_prompt], prompt logprobs */
    hy_sample_logprob *plp_top;/* [n_prompt, prompt_logprobs] */
    uint32_t n_plp;            /* entries computed */
    hy_draft_seq draft;
    double *pool_sum;          /* [n_embd], mean */
    float *embd;               /* [n_embd] */
    uint32_t n_pooled;

    /* written by the engine's thread, read by any */
    _Atomic uint64_t us_start, us_first, us_last, us_paused;
    _Atomic uint32_t n_cached, n_paused, n_chunk;
    _Atomic int32_t stop_id;
    _Atomic uint32_t n_span;
    hy_live_span span[HY_SPANS_MAX];

    /* polling thread */
    hy_detok detok;
    hy_buf held, text;         /* not yet sent; sent with this event */
    hy_token *ev_token;        /* [n_max] */
    uint32_t n_taken;
    int32_t stop_index;        /* which stop string was met; -1: none */
    bool ended, stopped;       /* DONE was given; a stop string was met */
};

/* ---- what is asked of the engine's thread (command.c) --------------------------------------------- */

typedef enum hy_command_kind { HY_CMD_SAVE, HY_CMD_LOAD } hy_command_kind;
typedef struct hy_command {    /* on the caller's stack until done */
    hy_command_kind kind;
    const char *path;
    uint64_t salt, identity;
    const int32_t *ids;
    uint32_t n;
    uint32_t n_done;           /* result */
    hy_status status;
    hy_err err;
    _Atomic uint32_t done;
} hy_command;
void hy_engine_do_commands(hy_engine *e, bool refuse);

/* ---- the engine ------------------------------------------------------------------------------------ */

#define HY_OUT_SPARE 16        /* rows of logits beside one for each sequence: for prompt logprobs */
uint32_t hy_engine_out_rows(const hy_engine *e);   /* these, and those of drafts */

struct hy_engine {
    hy_core *core;
    hy_kv_swap *swap;
    pthread_t thread;
    bool started;
    hy_queue queue;            /* of requests */
    hy_queue commands;
    hy_tick wake;
    _Atomic bool stop, drain;
    _Atomic uint32_t n_waiting_all; /* queued + waiting: bounded by n_queue */
    _Atomic uint64_t group_next;
    _Atomic(hy_profiling *) profiling; /* the one that is asked for or runs (profile_live.c) */
    _Atomic uint64_t us_profiled;  /* when it will be over */
    pthread_mutex_t vocab_lock;/* callers' threads: the guide's vocabulary is built once */
    hy_gram_vocab *vocab;

    /* engine thread */
    hy_sched sched;
    hy_row *row;               /* [n_seq] */
    hy_request **row_req;
    int32_t *token, *pos;      /* [n_step] */
    uint32_t *out_tok;         /* [n_step] */
    float *logits;             /* [hy_engine_out_rows, n_vocab] */
    float *fork_logits;        /* [n_vocab] */
    hy_logit_row *kept;        /* [hy_engine_out_rows]: what the plan kept of each row of logits */
    float *kept_blocks;        /* their maxima and sums */
    uint32_t *mask;            /* bits of the vocabulary */
    uint32_t *not_end;         /* the same: all but end tokens */
    hy_sampler *sampler;
    hy_drafts *drafts;         /* NULL: no speculation */
    uint64_t us_map;           /* when the page map was last published */
    bool map_stale;

    /* written by the engine's thread, read by any */
    hy_live_hist hist[HY_H_COUNT];
    _Atomic uint64_t c_step, c_token, c_request, c_cancelled, c_paused, c_alloc;
    _Atomic uint32_t c_running, c_run_prefill, c_run_decode, c_paused_now, c_page_used, c_page_all;
    _Atomic uint64_t c_slot_used, c_prompt_tok, c_output_tok, c_after_cancel;
    _Atomic uint64_t c_finished[8];
    _Atomic uint64_t c_query, c_hit, c_evicted, c_page_cached, c_cow, c_cascade;
    _Atomic uint64_t c_swap_out, c_swap_in;
    _Atomic double cost[4];    /* fixed, token, key, error */
    _Atomic double load[8];    /* hy_sched_load, see publish.c */
    _Atomic uint32_t load_n[4];
    _Atomic uint64_t op_ns[HY_STATS_OPS];
    _Atomic uint8_t *page_map; /* [pages of group 0] */
    /* written by callers' threads */
    _Atomic uint64_t c_refused_busy, c_refused_limit, c_refused_arg;
    _Atomic uint64_t c_request_bytes, c_guide_bytes;
};

void *hy_engine_main(void *engine);                /* the thread (step.c) */
hy_status hy_prompt_ids(const hy_core *c, const hy_params *p, hy_ids *ids, hy_err *err); /* prompt.c */
hy_status hy_guide_compile(hy_engine *e, const hy_guide *g, hy_gram **out, hy_err *err); /* NULL: none. guide.c */
uint64_t hy_engine_salt(const hy_engine *e, const char *tenant, uint32_t n_total);
void hy_request_unref(hy_request *r);
void hy_request_notify(hy_request *r);             /* wakes hy_poll, calls notify */

/* emit.c: what a step's rows give */
void hy_emit_step(hy_engine *e, uint32_t n_row);
/* The end of a request: pages back, counters right, then the caller hears of it. n_out: as hy_sched_remove. */
void hy_emit_finish(hy_engine *e, hy_request *r, hy_finish f);

/* publish.c */
void hy_publish_counts(hy_engine *e);
void hy_publish_step(hy_engine *e, double ms, uint32_t n_tok);
void hy_publish_map(hy_engine *e, bool now);

/* span.c; engine thread */
void hy_span_begin(hy_request *r, hy_span_kind kind, uint64_t us);
void hy_span_end(hy_request *r, uint64_t us);
void hy_span_step(hy_request *r, uint64_t us_begin, uint64_t us_end, uint32_t n_tok, uint32_t n_beside);

uint64_t hy_ledger(const hy_engine *e, hy_stats *out); /* ledger.c; appends to out, returns the sum */

#endif
