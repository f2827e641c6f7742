/* Private to engine/: speculation. Which requests draft how many tokens in the next step, who drafts them, and what
 * became of them. spec/spec.h decides in numbers; here are the models, pages and requests.
 *
 *   hy_draft_propose   before a step: tokens into r->ids[n_known ...], their number into r->q.n_draft
 *   (the step)         the scheduler may take fewer; they are rows of the step behind the request's last token
 *   hy_draft_settle    after it: so many of them were accepted
 *
 * A draft model has a KV pool of its own, whose tables follow the target's. A self-draft (the target's weights at 4
 * bits) writes its keys into the target's pages, where the step then writes the right ones: it needs no prompt, no
 * memory but weights, and sees exact keys before the last token. Owner of everything: the engine's thread, but for
 * opening and closing. */
#ifndef HY_ENGINE_DRAFT_H
#define HY_ENGINE_DRAFT_H

#include "core.h"
#include "spec/spec.h"
#include <stdatomic.h>

typedef enum hy_draft_by { HY_BY_NGRAM = 1, HY_BY_DRAFT = 2, HY_BY_SELF = 4, HY_BY_AUTO = 8 } hy_draft_by;
#define HY_BY_MODEL (HY_BY_DRAFT | HY_BY_SELF)

/* Speed over plain decoding's: tokens of steps in which it could draft, over what those steps cost by the measured
 * curves, where a step without anybody's drafts costs 1. */
typedef struct hy_draft_gain {
    _Atomic double n_tok, cost;
} hy_draft_gain;

/* Of a request. */
typedef struct hy_draft_seq {
    uint32_t by;               /* hy_draft_by, several; 0: it does not draft */
    hy_ngram ngram;
    hy_page_table table;       /* of the draft model's pool */
    uint32_t n_done;           /* tokens in it */
    hy_spec_worth match, model;/* own experience */
    hy_spec_pace pace;
    bool paced;                /* pace has begun */
    uint64_t salt;             /* of its tenant, in the store */
    /* of this step */
    uint32_t now;              /* one of hy_draft_by */
    bool by_model;             /* a model drafts for it */
    uint32_t n;                /* drafted, at most */
    uint32_t n_share;          /* of these: its share; more where it is sure of every token so far */
    uint32_t known;            /* tokens before them */
    double reach;              /* chance that all so far are accepted */
    bool trial;
    uint64_t mark;             /* of its guide */
    uint8_t band[HY_SPEC_MAX];
    _Atomic uint32_t n_drafted[HY_SPEC_MAX], n_accepted[HY_SPEC_MAX]; /* by position */
    hy_draft_gain gain;
} hy_draft_seq;

struct hy_engine;
struct hy_request;

typedef struct hy_drafts {
    uint32_t by;               /* proposers that are there */
    uint32_t by_default;       /* of requests that do not say */
    uint32_t most;             /* drafted tokens of a request in a step */
    bool always;               /* whether it pays or not */
    uint32_t n_room;           /* of all: rows of logits beside the others */
    hy_spec_store *store;      /* or NULL */
    uint64_t secret;           /* tenants are told apart in it by a hash that nobody outside can aim at */
    /* the model that drafts, if any */
    hy_core *own;              /* of a file of its own */
    hy_model *self;            /* the target's, at 4 bits */
    hy_plan *self_plan;
    hy_plan *plan;             /* of either; runs on the target's team */
    hy_kv *kv;                 /* own's, or the target's */
    uint32_t n_vocab, n_step;  /* of the plan */
    float *logits;             /* [n_seq, n_vocab] */
    hy_logit_row *kept;        /* [n_seq]: what the plan kept of each row; NULL where the vocabularies differ in size */
    float *kept_blocks;
    float *whole;              /* [target's n_vocab], where the two differ */
    hy_row *row;               /* [n_seq] */
    struct hy_request **row_req, **active; /* [n_seq] */
    int32_t *token, *pos;      /* [n_step] */
    uint32_t *out_tok;         /* [n_seq] */

    hy_spec_want *want;        /* [n_seq] */
    struct hy_request **who;   /* [n_seq], of want */
    hy_spec_worth match, model;/* everybody's experience */
    hy_spec_pace pace;         /* and what drafts brought and cost all */
    hy_spec_cost target, cost;
    double ms_now;             /* that its model took before this step */
    /* of this step: ms of a plain token, of a drafted row, of a request's drafts */
    double token_ms, row_ms, draft_ms;
    double read_ms;            /* of a token that the draft model reads among others */
    uint32_t n_row;            /* of the step, so far: tokens and what is drafted */
    /* read by any thread */
    _Atomic double gain;       /* expected by the last share: tokens a ms over plain decoding's */
    _Atomic uint64_t n_drafted[HY_SPEC_MAX], n_accepted[HY_SPEC_MAX]; /* by position */
    hy_draft_gain all_gain;
} hy_drafts;

/* "off", "ngram", "draft", "self", "auto" -> bits; NULL is off. */
hy_status hy_draft_by_name(const char *name, uint32_t *by, hy_err *err);
/* *out: NULL where o asks for no speculation. The core is open and nothing runs. */
hy_status hy_drafts_open(hy_drafts **out, hy_core *c, const hy_options *o, hy_err *err);
void hy_drafts_close(hy_drafts *d);                /* accepts NULL */
void hy_drafts_stats(const hy_drafts *d, hy_stats *out); /* accepts NULL */
void hy_draft_usage(const hy_draft_seq *s, hy_usage *out);

/* Token by token, and where generations end: what one writes the other reads. */
hy_status hy_draft_check_vocab(const hy_core *target, const hy_core *draft, hy_err *err);

/* Caller's thread. */
hy_status hy_draft_seq_open(struct hy_request *r, const hy_params *p, hy_err *err);
void hy_draft_seq_close(struct hy_request *r);

/* Engine thread; all accept an engine without speculation. */
void hy_draft_propose(struct hy_engine *e);
void hy_draft_settle(struct hy_engine *e, struct hy_request *r, uint32_t n_drafted, uint32_t n_accepted);
void hy_draft_step_took(struct hy_engine *e, double ms, const hy_batch *b);
void hy_draft_pause(struct hy_engine *e, struct hy_request *r); /* pages back */
void hy_draft_end(struct hy_engine *e, struct hy_request *r);   /* the same, and the answer into the store */
hy_status hy_drafts_measure(struct hy_engine *e, hy_err *err);  /* what rows cost; before the thread starts */

/* private to draft_*.c */
void hy_draft_run(struct hy_engine *e, uint32_t n_active);
bool hy_draft_is_end(const struct hy_engine *e, const struct hy_request *r, int32_t id);

#endif
