/* sample: logits -> token. Pure: no state, no clock. May include base, text.
 *
 * Definitions are those of transformers' LogitsProcessors (temperature, top-k, top-p, min-p, typical-p,
 * repetition penalty, no-repeat n-gram) and of OpenAI's API (frequency and presence penalty, bias). */
#ifndef HY_SAMPLE_H
#define HY_SAMPLE_H

#include "base/base.h"

typedef enum hy_sample_op {
    HY_SA_LOGIT_BIAS, HY_SA_REPEAT, HY_SA_FREQUENCY, HY_SA_PRESENCE, HY_SA_NO_REPEAT_NGRAM,
    HY_SA_TEMPERATURE, HY_SA_TOP_K, HY_SA_TOP_P, HY_SA_MIN_P, HY_SA_TYPICAL_P, HY_SA_COUNT
} hy_sample_op;

typedef struct hy_sample_bias { int32_t id; float bias; } hy_sample_bias;

typedef struct hy_sampling {
    double temperature;        /* 0: greedy (the first of equal maxima) */
    uint32_t top_k;            /* 0: off; ties at the k-th logit are all kept */
    double top_p, min_p, typical_p; /* 1, 0, 1: off */
    double repeat, frequency, presence; /* 1, 0, 0: off */
    uint32_t no_repeat_ngram;  /* 0: off */
    uint64_t seed;
    const hy_sample_bias *bias; uint32_t n_bias;
    const uint32_t *mask;      /* allowed tokens, bit id % 32 of word id / 32; applied first; NULL: all */
} hy_sampling;
void hy_sampling_init(hy_sampling *s);             /* neutral, temperature 1 */
/* Every field finite and in range; ids of biases < n_vocab. Message: field, value, limit. */
hy_status hy_sampling_check(const hy_sampling *s, uint32_t n_vocab, hy_err *err);

/* Scratch for one caller; sized once, no allocation afterwards. */
typedef struct hy_sampler hy_sampler;
/* measure: of a block of logits; kern's with vectors, or NULL for a plain one. */
hy_status hy_sampler_open(hy_sampler **out, uint32_t n_vocab, uint32_t n_history_max, hy_logit_block_fn *measure,
                          const void *measure_ctx, hy_err *err);
void hy_sampler_close(hy_sampler *s);              /* accepts NULL */
/* Its i-th large array, for whoever asks how much of it was ever touched; NULL: there are no more. */
const void *hy_sampler_array(const hy_sampler *s, uint32_t i, uint64_t *n_bytes);

/* One step of a chain on logits [n_vocab] in place; removed tokens become -inf. value as in the
 * fields above. For tests and odd orders; history: all earlier token ids. */
void hy_sample_apply(hy_sampler *w, hy_sample_op op, double value, const hy_sampling *s,
                     const int32_t *history, uint32_t n_history, float *logits, uint32_t n_vocab);
/* softmax of logits in place, in double inside; -inf gives 0. */
void hy_sample_softmax(float *logits, uint32_t n_vocab);

typedef struct hy_sample_logprob { int32_t id; float logprob; } hy_sample_logprob;

/* The token of position `pos` (its absolute index in the sequence): chain in the order of hy_sample_op,
 * then the maximum of logit + Gumbel noise, where the noise is a function of (seed, pos, id) only.
 * kept: what is known of the row's blocks, measured as the sampler would; NULL: it does so itself, to the same bits.
 * Only blocks that can matter are read; what is written into logits is the sampler's business. top_logprobs < 0: no
 * logprobs; else own (of the raw logits) and the best `top_logprobs` (<= 20) in top, best first. */
int32_t hy_sample(hy_sampler *w, const hy_sampling *s, float *logits, const hy_logit_row *kept, uint32_t n_vocab,
                  const int32_t *history, uint32_t n_history, uint64_t pos, int32_t top_logprobs, float *own,
                  hy_sample_logprob *top);
/* The temperature whose sums would help it (hy_logit_row.temperature); 0: none would. */
float hy_sample_sums(const hy_sampling *s, bool logprobs);
/* Right after hy_sample: by how much the key of `id` (logit / temperature) is above the best other candidate's; infinite
 * when there is none. Noise is not counted. */
double hy_sample_lead(const hy_sampler *w, int32_t id);

/* Gumbel noise for (seed, pos, id). */
double hy_sample_gumbel(uint64_t seed, uint64_t pos, int32_t id);

/* Of logits that stay as they are: the logprob of `id` and the n_top best, best first. kept: as above. */
void hy_sample_logprobs(hy_sampler *w, const float *logits, const hy_logit_row *kept, uint32_t n_vocab, int32_t id,
                        uint32_t n_top, float *own, hy_sample_logprob *top);

#endif
