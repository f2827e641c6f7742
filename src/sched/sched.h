/* sched: who gets how many tokens of a step, and who is paused. Pure: no clock, no memory of its own.
 * May include base, kv, sample.
 *
 * There is no prefill phase and no decode phase: a sequence has n_known tokens, of which n_done are in
 * the cache; each step gives it part of the budget. Sequences stand in the order of admission. */
#ifndef HY_SCHED_H
#define HY_SCHED_H

#include "base/base.h"
#include "kv/kv.h"

typedef struct hy_sched_seq {
    uint32_t n_known, n_done;
    uint32_t n_give;           /* out: tokens of this step */
} hy_sched_seq;

/* Sequences with one token left (decoding) are served first, then the rest in order of admission, each
 * with as much as the budget holds. Returns the tokens given. */
uint32_t hy_sched_fill(hy_sched_seq *seq, uint32_t n_seq, uint32_t budget);

/* Whom to pause when pages run out: of all but `keep`, the one that loses the least computed work
 * (smallest n_done); of equals the youngest. Returns n_seq when there is nobody else. */
uint32_t hy_sched_victim(const hy_sched_seq *seq, uint32_t n_seq, uint32_t keep);

/* True when the pool has room for n_tok tokens of a fresh sequence besides `n_spare` pages a group
 * kept for the growth of those that run. */
bool hy_sched_fits(const hy_kv *kv, uint32_t n_tok, uint32_t n_spare);

#endif
