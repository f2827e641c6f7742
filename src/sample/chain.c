/* A chain's rules one by one: those that change logits, and the cuts on whole rows, for tests and odd orders. */
#include "sample/sample_impl.h"
#include <string.h>

/* ---- history ---------------------------------------------------------------------------------- */

typedef enum penalty { PEN_REPEAT, PEN_FREQUENCY, PEN_PRESENCE } penalty;

/* Each distinct token of the history once; ids outside the vocabulary are nobody's. */
static void penalise(hy_sampler *w, penalty kind, double v, const int32_t *hist, uint32_t n, float *logits, uint32_t n_vocab)
{
    for (uint32_t i = 0; i < n; i++)
        if ((uint32_t)hist[i] < n_vocab) w->count[hist[i]]++;
    for (uint32_t i = 0; i < n; i++) {
        if ((uint32_t)hist[i] >= n_vocab) continue;
        uint32_t c = w->count[hist[i]];
        if (c == 0) continue;
        w->count[hist[i]] = 0;
        float *l = &logits[hist[i]];
        if (kind == PEN_REPEAT) *l = *l < 0 ? *l * (float)v : *l / (float)v;
        else *l -= (float)(kind == PEN_FREQUENCY ? v * c : v);
    }
}

/* Tokens that would complete an n-gram already seen. */
static void no_repeat(uint32_t n_gram, const int32_t *hist, uint32_t n, float *logits, uint32_t n_vocab)
{
    if (n_gram == 0 || n + 1 < n_gram) return;
    const int32_t *tail = hist + n - (n_gram - 1);
    for (uint32_t i = 0; i + n_gram <= n; i++)
        if (memcmp(hist + i, tail, (n_gram - 1) * sizeof *hist) == 0 && (uint32_t)hist[i + n_gram - 1] < n_vocab)
            logits[hist[i + n_gram - 1]] = -INFINITY;
}

/* ---- a rule ----------------------------------------------------------------------------------- */

static void cut(hy_sampler *w, hy_sample_op op, double v, float *logits, uint32_t n_vocab)
{
    hy_blocks_begin(w, logits, n_vocab, NULL);
    if (op == HY_SA_TOP_K) hy_cut_top_k(w, (uint32_t)v);
    if (op == HY_SA_TOP_P) hy_cut_top_p(w, v);
    if (op == HY_SA_MIN_P) hy_cut_min_p(w, v);
    if (op == HY_SA_TYPICAL_P) hy_cut_typical(w, v);
    if (!w->listed) return;
    for (uint32_t i = 0; i < n_vocab; i++) logits[i] = -INFINITY;
    for (uint32_t i = 0; i < w->n_cand; i++) logits[w->cand[i].id] = w->cand[i].key;
}

void hy_sample_apply(hy_sampler *w, hy_sample_op op, double v, const hy_sampling *s, const int32_t *hist,
                     uint32_t n_hist, float *logits, uint32_t n_vocab)
{
    switch (op) {
    case HY_SA_LOGIT_BIAS:
        for (uint32_t i = 0; i < s->n_bias; i++) logits[s->bias[i].id] += s->bias[i].bias;
        break;
    case HY_SA_REPEAT: if (v != 1) penalise(w, PEN_REPEAT, v, hist, n_hist, logits, n_vocab); break;
    case HY_SA_FREQUENCY: if (v != 0) penalise(w, PEN_FREQUENCY, v, hist, n_hist, logits, n_vocab); break;
    case HY_SA_PRESENCE: if (v != 0) penalise(w, PEN_PRESENCE, v, hist, n_hist, logits, n_vocab); break;
    case HY_SA_NO_REPEAT_NGRAM: no_repeat((uint32_t)v, hist, n_hist, logits, n_vocab); break;
    case HY_SA_TEMPERATURE:
        if (v != 1 && v > 0)
            for (uint32_t i = 0; i < n_vocab; i++) logits[i] /= (float)v;
        break;
    case HY_SA_TOP_K:
    case HY_SA_TOP_P:
    case HY_SA_MIN_P:
    case HY_SA_TYPICAL_P: cut(w, op, v, logits, n_vocab); break;
    case HY_SA_COUNT: break;
    }
}

void hy_sample_softmax(float *logits, uint32_t n)
{
    float max = -INFINITY;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) max = logits[i] > max ? logits[i] : max;
    for (uint32_t i = 0; i < n; i++)
        if (logits[i] > -INFINITY) sum += exp((double)logits[i] - max);
    for (uint32_t i = 0; i < n; i++)
        logits[i] = logits[i] > -INFINITY ? (float)(exp((double)logits[i] - max) / sum) : 0;
}
