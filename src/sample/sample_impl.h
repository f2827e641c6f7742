/* sample, private: the sampler's scratch, and the row of logits it works on.
 *
 * A row is taken in blocks of HY_LOGIT_BLOCK tokens of which the largest logit is known: most blocks cannot
 * hold what is looked for and are never read. What a rule changes in a block is measured again. */
#ifndef HY_SAMPLE_IMPL_H
#define HY_SAMPLE_IMPL_H

#include "sample/sample.h"
#include <math.h>

/* A surviving candidate. */
typedef struct hy_cand {
    float key;
    int32_t id;
} hy_cand;

/* Of a block. */
#define HY_SB_SAVED 1u         /* its logits as they came are in raw */
#define HY_SB_STALE 2u         /* changed since it was measured */
#define HY_SB_DEAD  4u         /* the mask takes all of it; its logits mean nothing */

struct hy_sampler {
    uint32_t n_vocab, n_history_max;
    hy_logit_block_fn *measure;
    const void *measure_ctx;
    hy_cand *cand, *other;     /* [n_vocab] */
    float *raw;                /* [n_vocab] */
    uint32_t *count;           /* [n_vocab], zero between calls: occurrences in the history */
    float *max, *sum;          /* [blocks] of this row; -inf: nothing left in it */
    uint8_t *state;            /* [blocks] HY_SB_* */
    /* the row at hand */
    float *x;
    uint32_t n, n_block;
    float t;                   /* keys are x / t */
    float sum_t;               /* the temperature that sums are of; 0: not known */
    bool listed;               /* candidates are cand[0 .. n_cand) rather than all */
    uint32_t n_cand;
};

/* chain.c: a heap, the largest key first, of equals the smallest id */
void hy_cand_heapify(hy_cand *h, uint32_t n);
hy_cand hy_cand_pop(hy_cand *h, uint32_t n);       /* it moves to h[n - 1]; the heap shrinks to n - 1 */

/* blocks.c */
void hy_blocks_begin(hy_sampler *w, float *logits, uint32_t n, const hy_logit_row *kept);
void hy_blocks_touch(hy_sampler *w, uint32_t id);  /* before logit id changes */
void hy_blocks_mask(hy_sampler *w, const uint32_t *mask);
void hy_blocks_refresh(hy_sampler *w);
float hy_blocks_raw(const hy_sampler *w, uint32_t id);
/* Sum of exp(key - *top) over everything left, *top the largest key at temperature t. */
double hy_blocks_mass(hy_sampler *w, float t, float *top);
uint32_t hy_blocks_argmax(const hy_sampler *w);    /* the first of equals */
/* The n-th largest of the blocks' largest keys, -inf when there are fewer: at least n keys are not below it. */
float hy_blocks_nth(hy_sampler *w, uint32_t n);
/* All keys from `least` up become the candidates, by id. */
void hy_blocks_gather(hy_sampler *w, double least);
HY_INLINE bool hy_block_alive(const hy_sampler *w, uint32_t b) { return w->max[b] > -INFINITY; }
HY_INLINE uint32_t hy_block_end(const hy_sampler *w, uint32_t b)
{
    return HY_MIN((b + 1) * HY_LOGIT_BLOCK, w->n);
}

/* cuts.c: fewer candidates */
void hy_cut_top_k(hy_sampler *w, uint32_t k);
void hy_cut_top_p(hy_sampler *w, double p);
void hy_cut_min_p(hy_sampler *w, double p);
void hy_cut_typical(hy_sampler *w, double p);

/* noise.c: the candidate with the largest key + noise, the smallest id of equals */
int32_t hy_noise_draw(const hy_sampler *w, uint64_t seed, uint64_t pos);

#endif
