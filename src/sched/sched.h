/* sched: who runs, who gets how many tokens of a step, who is paused. Pure: time is an argument, the memory
 * is the caller's, the pages are kv's. May include base, kv, sample.
 *
 * There is no prefill phase and no decode phase: a sequence has n_known tokens, of which n_done are in the
 * cache; each step gives it part of one budget. Chunks, cache hits, pauses and forks are all "n_done changed".
 *
 *   add -> waiting --admit--> running --finish--> gone
 *             ^                  |
 *             +------ pause -----+     (pages run out: who loses least for each page it gives back)
 *
 * Owner of everything here: the engine's thread. */
#ifndef HY_SCHED_H
#define HY_SCHED_H

#include "base/base.h"
#include "kv/kv.h"

/* ---- how long a step takes (cost.c) -------------------------------------------------------------- */

/* Key tokens that queries read, averaged over the layers: windows differ between groups. */
typedef struct hy_sched_shape {
    uint32_t n_part;
    struct { uint32_t window; double share; } part[HY_KV_GROUPS_MAX]; /* window 0: full */
} hy_sched_shape;
void hy_sched_shape_of(hy_sched_shape *sh, const hy_kv *kv);
/* Read by the queries at positions pos0 ... pos0 + n - 1. */
double hy_sched_keys(const hy_sched_shape *sh, uint32_t pos0, uint32_t n);

/* ms = w[0] + w[1] tokens + w[2] key tokens / 1000, fitted by least squares over the steps seen, old ones
 * forgotten, relative errors, outliers held down (Huber), no coefficient below 0. */
typedef struct hy_sched_cost {
    double a[3][3], b[3];      /* decayed normal equations */
    double anchor[3];          /* how firmly a coefficient stays where steps say nothing about it */
    double w[3];
    double error;              /* decayed mean of |predicted - measured| / measured */
    uint64_t n;                /* steps seen */
} hy_sched_cost;
void hy_sched_cost_init(hy_sched_cost *c);
void hy_sched_cost_add(hy_sched_cost *c, uint32_t n_tok, double keys, double ms);
double hy_sched_cost_ms(const hy_sched_cost *c, double n_tok, double keys);

/* ---- a step's shares (fill.c) --------------------------------------------------------------------- */

typedef struct hy_sched_seq {
    uint32_t n_known, n_done;
    bool decoding;             /* has given out a token: its reader waits for the next one */
    bool blocked;              /* gets nothing now: another computes the same beginning */
    bool each_out;             /* every token of its chunk wants logits */
    double rank;               /* smaller is earlier */
    double wait_ms;            /* since submit */
    uint32_t n_draft;          /* drafted tokens it would like to have checked; out: may have */
    uint32_t n_give;           /* out: tokens of this step */
    bool seen;                 /* scratch */
} hy_sched_seq;

typedef struct hy_sched_limits {
    uint32_t n_step;           /* tokens of a step */
    uint32_t n_out;            /* rows with logits for each_out sequences */
    double itl_ms, ttft_ms;    /* targets */
} hy_sched_limits;

/* First every sequence with one token left, then drafts behind those (of half of the tokens that are left, where
 * chunks wait), then chunks in order of rank: while somebody decodes, as many
 * tokens as the predicted time allows (itl_ms; up to twice that while the first in line would miss ttft_ms), but
 * never less than a page for the first in line; else the whole step. Returns the tokens given. */
uint32_t hy_sched_fill(hy_sched_seq *seq, uint32_t n_seq, const hy_sched_limits *l, const hy_sched_cost *c,
                       const hy_sched_shape *sh);

#define HY_SCHED_CLASS_MS 2000.0 /* waiting so long counts as one class of priority */
#define HY_SCHED_CLASS_MAX 1000
/* Order of those who wait and of chunks. One number: priority, less the time waited (so nobody starves), plus
 * the work left (so a short prompt does not wait for a long one that came just before it); a deadline that
 * comes near moves ahead. slack_ms: time to the deadline less the work left; HUGE_VAL: no deadline. */
double hy_sched_rank(int32_t priority, double wait_ms, double left_ms, double slack_ms);

/* A running sequence as seen by who looks for a victim. */
typedef struct hy_sched_hold {
    uint32_t n_free;           /* pages that come back when it is paused */
    double lose_ms;            /* predicted time to compute them again */
    int32_t priority;
} hy_sched_hold;
/* Whom to pause: of the least urgent class among all but `keep` the one that loses least for each page;
 * of equals the last. n: nobody. */
uint32_t hy_sched_victim(const hy_sched_hold *h, uint32_t n, uint32_t keep);

/* ---- how long a new request would wait (wait.c) ---------------------------------------------------- */

typedef struct hy_sched_load {
    uint32_t n_seq, n_step;
    uint32_t n_run, n_wait;    /* requests */
    uint32_t n_decode;         /* of those that run */
    double prompt_left;        /* prompt tokens not computed, of all */
    double out_left;           /* expected tokens to come, of those that run */
    double out_wait;           /* and of those that wait */
    double keys;               /* key tokens that a decode step reads */
    double tok_free, tok_run;  /* tokens that free pages hold; that those of running sequences do */
    double tok_wait;           /* tokens that the waiting will need, their answers included */
    double out_mean;           /* length of an answer */
    double itl_ms;
    double w[3];               /* of the cost model */
} hy_sched_load;
/* Predicted ms to the first token of a request submitted now. */
double hy_sched_predict_wait(const hy_sched_load *l, uint32_t n_prompt);

/* ---- the state of all requests (sched.c, admit.c, memory.c) ---------------------------------------- */

typedef enum hy_sched_mode { HY_SCHED_PAGED, HY_SCHED_CONTIGUOUS, HY_SCHED_RECOMPUTE } hy_sched_mode;
typedef enum hy_sched_state { HY_SQ_NONE, HY_SQ_WAIT, HY_SQ_RUN } hy_sched_state;
#define HY_SCHED_NO_TICKET UINT32_MAX

/* Embedded in the caller's request. */
typedef struct hy_sched_req {
    /* set before hy_sched_add; the table is initialised for n_prompt + n_max tokens (contiguous: for n_ctx) */
    const int32_t *ids;        /* [n_known]; the caller appends and counts n_known up */
    uint32_t n_prompt, n_max, n_known;
    int32_t priority;
    uint64_t us_submit, us_deadline; /* deadline 0: none */
    uint64_t salt;             /* pages are shared only between equal salts */
    uint64_t group;            /* of requests with the same prompt; 0: none */
    bool take, put;            /* may start from cached pages; leaves its own */
    bool each_out;             /* wants logits of every prompt token */
    hy_page_table table;

    /* kept here */
    hy_sched_state state;
    uint32_t n_done, n_give;
    uint32_t n_draft;          /* set before a step: tokens behind ids[n_known - 1] to be checked in it; may come down */
    uint32_t n_hit;            /* tokens that came with its pages at the last start */
    uint32_t n_cached;         /* and at the first */
    uint32_t n_paused, n_chunk;
    bool decoding;             /* its first token was given out */
    bool started;              /* was admitted once */
    uint64_t us_start, us_paused_at, us_paused; /* paused: in all */
    uint32_t ticket, n_swapped;
    struct hy_sched_req *lead; /* computes the same beginning now; tokens of it in common: */
    uint32_t lead_tok;
    bool lead_fork;            /* of one group: the whole prompt, with its last partial page */
    bool lead_lost;            /* looks for another one at the next step */
    struct hy_sched_req *next;
    void *owner;               /* the caller's request */
} hy_sched_req;

typedef struct hy_sched_opts {
    hy_kv *kv;
    hy_kv_swap *swap;          /* or NULL */
    hy_sched_mode mode;
    uint32_t n_seq, n_step, n_ctx;
    uint32_t n_out_spare;      /* rows of logits beside one for each sequence; > 0 */
    double itl_ms, ttft_ms;
    bool prefix_cache;
    /* told when a request begins to run (again), and when it is paused; or NULL */
    void (*on_start)(void *ctx, struct hy_sched_req *r, uint64_t now_us);
    void (*on_pause)(void *ctx, struct hy_sched_req *r, uint64_t now_us);
    void *ctx;
} hy_sched_opts;

typedef struct hy_sched_counts {
    uint64_t n_paused, n_resumed, n_swap_failed;
    uint64_t query_tok, hit_tok; /* prompt tokens of requests that could hit; that did */
    uint64_t n_fork;
} hy_sched_counts;

typedef struct hy_sched {
    hy_sched_opts o;
    hy_sched_shape shape;
    hy_sched_cost cost;
    hy_sched_req **run;        /* [n_seq], in order of admission */
    uint32_t n_run;
    hy_sched_req *wait_first, *wait_last;
    uint32_t n_wait;
    hy_sched_seq *seq;         /* [n_seq], of run[] */
    hy_sched_hold *hold;       /* [n_seq] */
    double out_mean;           /* decayed mean length of finished answers; 0: none yet */
    uint32_t step_tok;         /* of the step in hand */
    double step_keys;
    hy_sched_counts count;
} hy_sched;

hy_status hy_sched_open(hy_sched *s, const hy_sched_opts *o, hy_err *err);
void hy_sched_close(hy_sched *s);                  /* all requests are gone by then */

void hy_sched_add(hy_sched *s, hy_sched_req *r);   /* to those that wait */
/* From either list; its pages stay in the cache (when it may) or go back. n_out: length of a whole answer, for
 * the expectation of others; UINT32_MAX: it did not end by itself. */
void hy_sched_remove(hy_sched *s, hy_sched_req *r, uint32_t n_out);
/* Waiting -> running where slots and pages allow: the whole prompt and the expected output, not the first
 * chunk. Where they do not, running ones of less urgent classes are paused for it, if that is enough. */
void hy_sched_admit(hy_sched *s, uint64_t now_us);
/* Shares of the next step in run[i]->n_give, pages reserved. Where they run out somebody is paused. *n_tok: 0
 * when nobody runs. */
hy_status hy_sched_step(hy_sched *s, uint64_t now_us, uint32_t *n_tok, hy_err *err);
/* The step was computed: n_done moves on, full pages become known, windows slide. */
void hy_sched_done(hy_sched *s);
/* How long it took, until its tokens were given out: for the cost model. */
void hy_sched_took(hy_sched *s, double ms);
/* n of r's drafted tokens turned out right: they are computed. What was drafted wrong is forgotten. */
void hy_sched_accept(hy_sched *s, hy_sched_req *r, uint32_t n);
/* r (running, nothing computed, r->lead_fork) takes over the pages of its lead, whose prompt is computed. */
hy_status hy_sched_fork(hy_sched *s, hy_sched_req *r, hy_err *err);

/* Tokens that an answer may be expected to have yet. */
uint32_t hy_sched_expect(const hy_sched *s, const hy_sched_req *r);
void hy_sched_load_of(const hy_sched *s, hy_sched_load *out);

/* private to the room */
void hy_sched_unlist(hy_sched *s, hy_sched_req *r); /* out of the list it is in */
uint32_t hy_sched_pages(const hy_kv *kv, uint32_t group, uint32_t n_tok, uint32_t n_step);
void hy_sched_follow(hy_sched *s, hy_sched_req *r);
void hy_sched_unfollow(hy_sched *s, const hy_sched_req *lead);
double hy_sched_rank_of(const hy_sched *s, const hy_sched_req *r, uint64_t now_us);
double hy_sched_ms_since(uint64_t now_us, uint64_t then_us); /* 0 when that is to come */
hy_sched_hold hy_sched_hold_of(const hy_sched *s, const hy_sched_req *r);
void hy_sched_pause(hy_sched *s, uint32_t i_run, uint64_t now_us); /* running -> waiting; its pages go */

#endif
