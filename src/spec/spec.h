/* spec: what to draft and how much. Proposers that read only tokens (n-grams of one sequence, a store of
 * finished answers), what drafted tokens turned out to be worth, and how many each sequence should draft.
 * Pure: times are arguments; nothing is allocated after opening. May include base, sample.
 *
 * A sequence drafts k tokens; the target's step computes them beside its last token, as 1 + k rows. The
 * target's own draw at each of these positions is compared with the drafted token: equal ones are accepted, the
 * first different one is replaced by the draw, what follows is dropped. So a step gives at least the token that
 * it would have given anyway, and the text is that of plain decoding (Leviathan et al. 2023 accept by a coin;
 * here target and proposer draw with the same noise, which needs no coin). */
#ifndef HY_SPEC_H
#define HY_SPEC_H

#include "base/base.h"

#define HY_SPEC_MAX 16         /* drafted tokens of a sequence in one step */
#define HY_SPEC_BANDS 8        /* how sure a proposer is of a token: 0 least */

/* ---- a copy that is being made (copy.c) ------------------------------------------------------------- */

/* A text goes on as another place of it does (its source), but for changes: tokens replaced, put in, left out.
 * Where the text differs from the source the copy is left, and found again near that place as soon as the text
 * agrees with the source there; what was between is a change. A change met again in the source is made again: of a
 * name that is replaced everywhere only the first place is a surprise. All is positions in ids: no memory. */
#define HY_COPY_CHANGES 8
typedef struct hy_copy_change {
    uint32_t src, out;         /* ids[src, src + n_src) became ids[out, out + n_out) */
    uint16_t n_src, n_out;
    uint16_t hit, miss;        /* met again: made again, or not */
} hy_copy_change;
typedef struct hy_copy_place {
    uint32_t at;               /* the source's next token; 0: nothing is copied */
    uint32_t change, off;      /* inside a change that is made again: its number + 1, and how much of it is written */
    bool made;                 /* what is put in before `at` was put in */
} hy_copy_place;
typedef struct hy_copy {
    hy_copy_place place;
    uint32_t score;            /* tokens that agreed lately, at most HY_COPY_SCORE */
    uint32_t left, left_at;    /* not 0: the copy was left at ids[left], where the source stood at left_at */
    uint32_t n_near;           /* then: tokens since that agree with the place which it may go on at */
    uint32_t n_change;         /* ever found; the last HY_COPY_CHANGES are kept */
    hy_copy_change list[HY_COPY_CHANGES];
} hy_copy;
#define HY_COPY_SCORE 64
/* The text goes on as ids[at ...] does, whose last n_match tokens before agree with the text's. */
void hy_copy_begin(hy_copy *c, uint32_t at, uint32_t n_match);
void hy_copy_token(hy_copy *c, const int32_t *ids, uint32_t n); /* ids[n - 1] is new */
/* The next tokens of the copy, up to `most` into out; fewer where a change is unfinished. */
uint32_t hy_copy_propose(const hy_copy *c, const int32_t *ids, uint32_t n, uint32_t most, int32_t *out);
/* How many agreeing tokens that is worth, as one would count them for a match elsewhere; 0: nothing is copied. */
uint32_t hy_copy_trust(const hy_copy *c);

/* ---- n-grams of one sequence (ngram.c) ------------------------------------------------------------ */

/* Finds where the last tokens stood before and proposes what followed there. Two chains of equal short grams,
 * newest first, of which a bounded number is looked at: O(1) a token, 16 bytes a token. A place that was found is
 * copied from until another one promises more. */
typedef struct hy_ngram {
    uint32_t cap, mask;
    uint32_t n;                /* tokens known */
    hy_copy copy;
    uint32_t *head[2], *prev[2]; /* [mask + 1], [cap]; of a long gram and a short one: its end + 1; 0: none */
    void *memory;
    uint64_t bytes;
} hy_ngram;
hy_status hy_ngram_open(hy_ngram *g, uint32_t cap, hy_err *err); /* sequences of up to cap tokens */
void hy_ngram_close(hy_ngram *g);                  /* accepts a zeroed one */
/* The sequence is ids[0, n): the same as before, and more tokens. */
void hy_ngram_add(hy_ngram *g, const int32_t *ids, uint32_t n);
/* Up to `most` tokens that may follow ids[0, g->n), into out; *n_match: how many of the last tokens agree with
 * the place they come from, or hy_copy_trust. Returns how many. */
uint32_t hy_ngram_propose(hy_ngram *g, const int32_t *ids, uint32_t most, int32_t *out, uint32_t *n_match);

/* ---- finished answers of all sequences (store.c) --------------------------------------------------- */

/* The last `cap` tokens of answers, with the prompts' ends before them. Answers are found again only by
 * sequences with an equal salt. */
typedef struct hy_spec_store hy_spec_store;
hy_status hy_spec_store_open(hy_spec_store **out, uint32_t cap, hy_err *err);
void hy_spec_store_close(hy_spec_store *s);        /* accepts NULL */
uint64_t hy_spec_store_bytes(const hy_spec_store *s);
void hy_spec_store_add(hy_spec_store *s, uint64_t salt, const int32_t *ids, uint32_t n);
/* As hy_ngram_propose, for any ids[0, n). */
uint32_t hy_spec_store_propose(const hy_spec_store *s, uint64_t salt, const int32_t *ids, uint32_t n, uint32_t most,
                               int32_t *out, uint32_t *n_match);

/* ---- what drafted tokens turned out to be worth (worth.c) ------------------------------------------- */

/* Tokens tried and accepted, by how sure the proposer was; old ones fade. */
typedef struct hy_spec_worth {
    double tried[HY_SPEC_BANDS], hit[HY_SPEC_BANDS];
} hy_spec_worth;
/* prior[band]: the chance before anything was tried. */
void hy_spec_worth_init(hy_spec_worth *w, const double prior[HY_SPEC_BANDS]);
/* The first n_accepted of n drafted tokens were accepted; those behind the first wrong one tell nothing. */
void hy_spec_worth_add(hy_spec_worth *w, const uint8_t *band, uint32_t n, uint32_t n_accepted);
/* Chance that a token of the band is accepted: own experience, and everybody's where there is little. */
double hy_spec_worth_of(const hy_spec_worth *own, const hy_spec_worth *all, uint32_t band);
/* The same over whatever bands it met: for proposers that know how sure they are only afterwards. */
double hy_spec_worth_mean(const hy_spec_worth *own, const hy_spec_worth *all);

extern const double hy_spec_prior_match[HY_SPEC_BANDS], hy_spec_prior_model[HY_SPEC_BANDS];
uint32_t hy_spec_band_of_match(uint32_t n_match);
/* lead: logit of the drafted token less the best other one. */
uint32_t hy_spec_band_of_lead(double lead);

/* ---- whether it goes on drafting (pace.c) ---------------------------------------------------------- */

/* What drafting brought and cost is kept as a debt, in tokens of plain decoding: estimates may be wrong, debts are
 * not. A sequence in debt drafts no more; a small part of what it decodes pays. When it does not draft it tries again
 * after ever longer silence, while that brings nothing. */
typedef struct hy_spec_pace {
    uint32_t wait;             /* steps until it may try */
    uint32_t silence;          /* and so many after the next failure */
    double debt;               /* < 0: it brought more than it cost */
} hy_spec_pace;
/* all: everybody's, or NULL. While all together are in debt a new sequence has no credit. */
void hy_spec_pace_init(hy_spec_pace *p, const hy_spec_pace *all);
bool hy_spec_pace_may(const hy_spec_pace *p, double cost); /* if that were lost its debt would not be too large */
bool hy_spec_pace_step(hy_spec_pace *p);           /* a step in which drafting does not pay: true: try all the same */
void hy_spec_pace_tried(hy_spec_pace *p, bool good);
/* A step gave n_plain tokens that it would have given anyway; drafts brought and cost so many beside. */
void hy_spec_pace_paid(hy_spec_pace *p, uint32_t n_plain, double brought, double cost);

/* ---- what rows cost (cost.c) ------------------------------------------------------------------------ */

#define HY_SPEC_KNOTS 14
/* Time of a step of n rows: a scale that follows the machine and the context, and a shape measured at knots. */
typedef struct hy_spec_cost {
    double shape[HY_SPEC_KNOTS];
    double scale;
    double seen[HY_SPEC_KNOTS]; /* steps near each knot; old ones fade */
    bool known;
} hy_spec_cost;
extern const uint32_t hy_spec_knot[HY_SPEC_KNOTS]; /* rows: 1, 2, 3, 4, ... */
/* ms[i]: measured for hy_spec_knot[i] rows, for the first n_knot of them; more rows never cost less. */
void hy_spec_cost_set(hy_spec_cost *c, const double *ms, uint32_t n_knot);
double hy_spec_cost_ms(const hy_spec_cost *c, uint32_t n_row);
void hy_spec_cost_add(hy_spec_cost *c, uint32_t n_row, double ms); /* a step that was run */
/* No step of about so many rows was seen lately: fade 0.5: of the last 35, 0.06: of the last 140. */
bool hy_spec_cost_stale(const hy_spec_cost *c, uint32_t n_row, double fade);

/* ---- how much each sequence drafts (share.c) --------------------------------------------------------- */

typedef struct hy_spec_want {
    double p[HY_SPEC_MAX];     /* chance that the i-th drafted token is accepted where those before it were */
    uint32_t most;             /* tokens it has, or could draft; <= HY_SPEC_MAX */
    bool model;                /* a model drafts them, which costs time */
    hy_spec_pace *pace;        /* NULL: it drafts whenever that seems to pay, and tries nothing */
    uint32_t n;                /* out */
    bool trial;                /* out: not because it seems to pay */
} hy_spec_want;
/* Drafted rows where they bring most, as many as make the expected tokens a millisecond largest; none unless that
 * beats plain decoding by HY_SPEC_LEAST. n_plain: rows of other sequences, a token each; room: most drafted
 * rows; draft: cost of the drafting model's steps, or NULL. Where the gain is small and no step without drafts was
 * seen for long, one is due, to compare with. Where rows are left one sequence that drafts nothing may try. Returns the expected gain: tokens a millisecond over those of plain decoding; 1: none. */
#define HY_SPEC_LEAST 1.06
/* The gain where each of n sequences drafts as many tokens as pay best and each of these is right with chance p; 1: it
 * does not pay. */
double hy_spec_gain_of_all(uint32_t n, double p, uint32_t room, const hy_spec_cost *target, const hy_spec_cost *draft);
double hy_spec_share(hy_spec_want *w, uint32_t n_want, uint32_t n_plain, uint32_t room, const hy_spec_cost *target,
                     const hy_spec_cost *draft);

#endif
