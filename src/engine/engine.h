/* engine: the loop. Requests come in by one bounded queue; the engine's thread makes batches, runs the
 * plan, samples and publishes tokens; hy_poll turns tokens into text on the caller's thread. May include
 * every room above. Its interface to the outside is include/hayate. This header is private. */
#ifndef HY_ENGINE_H
#define HY_ENGINE_H

#include "core.h"
#include "sample/sample.h"
#include "sched/sched.h"
#include <pthread.h>
#include <stdatomic.h>

/* A word to sleep on (futex): wait until it differs from `seen`, or until the time is up. */
typedef _Atomic uint32_t hy_tick;
void hy_tick_wait(hy_tick *t, uint32_t seen, int64_t timeout_us); /* < 0: forever; may wake early */
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

typedef struct hy_out_token {
    int32_t id;
    float logprob;
    uint64_t us;
} hy_out_token;

/* Owner of each part is named; whoever drops the last of the two references frees it. */
struct hy_request {
    hy_engine *engine;
    _Atomic int n_ref;         /* the user's and the engine's */
    _Atomic bool cancel;
    hy_tick tick;              /* moves on every publication */
    _Atomic uint32_t n_out;    /* tokens published: out[0..n_out) and their logprobs are final */
    _Atomic int finish;        /* hy_finish; set after the last token */

    /* fixed at submit */
    uint32_t n_prompt, n_max;  /* prompt; most tokens to generate */
    bool ignore_eos, show_special;
    int32_t top_logprobs;
    hy_sampling sampling;
    hy_sample_bias *bias;
    char **stop;
    size_t *stop_len;
    uint32_t n_stop;
    size_t stop_max;
    uint64_t us_submit;
    void (*notify)(void *ctx); /* or NULL; called only through the gate */
    void *notify_ctx;
    _Atomic uint32_t gate;     /* HY_GATE_*: a call never outlives hy_release */

    /* engine thread */
    int32_t *ids;              /* [n_prompt + n_max] */
    uint32_t n_known, n_done, n_give;
    hy_page_table table;
    hy_request *next;          /* waiting list */
    bool admitted;
    uint64_t us_start, us_first, us_last;
    uint32_t n_paused;
    hy_status status;          /* with HY_FINISH_ERROR */
    hy_err err;
    hy_out_token *out;         /* [n_max] */
    hy_sample_logprob *top;    /* [n_max, top_logprobs] */

    /* polling thread */
    hy_detok detok;
    hy_buf held, text;         /* not yet sent; sent with this event */
    hy_token *ev_token;        /* [n_max] */
    uint32_t n_taken;
    bool ended, stopped;       /* DONE was given; a stop string was met */
};

struct hy_engine {
    hy_core *core;
    pthread_t thread;
    bool started;
    hy_queue queue;
    hy_tick wake;
    _Atomic bool stop, drain;
    _Atomic uint32_t n_waiting_all; /* queued + waiting: bounded by n_queue */
    /* engine thread */
    hy_request **run;          /* [n_seq], in order of admission */
    uint32_t n_run;
    hy_request *wait_first, *wait_last;
    hy_sched_seq *seq;         /* [n_seq] */
    hy_row *row;
    hy_request **row_req;
    int32_t *token, *pos;      /* [n_step] */
    uint32_t *out_tok;
    float *logits;             /* [n_seq, n_vocab] */
    hy_sampler *sampler;
    /* counters: written by the engine thread, read by anyone */
    _Atomic uint64_t c_step, c_token, c_request, c_cancelled, c_paused, c_alloc;
    _Atomic uint32_t c_running, c_page_used, c_page_all;
    _Atomic uint64_t c_slot_used;
};

void *hy_engine_main(void *engine);                /* the thread */

#define HY_GATE_RELEASED 1u
#define HY_GATE_CALLING 2u
void hy_request_notify(hy_request *r);             /* wakes hy_poll, calls notify */
void hy_word_wait(_Atomic uint32_t *w, uint32_t seen, int64_t timeout_us);
void hy_word_wake(_Atomic uint32_t *w);            /* wakes all, changes nothing */
void hy_request_unref(hy_request *r);
void hy_request_publish_finish(hy_request *r, hy_finish f);

#endif
