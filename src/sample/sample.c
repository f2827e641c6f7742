#include "sample/sample.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* A surviving candidate while a step sorts. */
typedef struct cand {
    float key;
    int32_t id;
} cand;

struct hy_sampler {
    uint32_t n_vocab, n_history_max;
    cand *cand;                /* [n_vocab] */
    float *raw;                /* [n_vocab]: logits before the chain, for the logprob */
    uint32_t *count;           /* [n_vocab], zero between calls: occurrences in the history */
};

void hy_sampling_init(hy_sampling *s)
{
    memset(s, 0, sizeof *s);
    s->temperature = s->top_p = s->typical_p = s->repeat = 1;
}

static hy_status in_range(const char *what, double v, double min, double max, hy_err *err)
{
    if (isfinite(v) && v >= min && v <= max) return HY_OK;
    return hy_fail(err, HY_E_ARG, "%s: %g is not in %g..%g", what, v, min, max);
}

hy_status hy_sampling_check(const hy_sampling *s, uint32_t n_vocab, hy_err *err)
{
    HY_TRY(in_range("temperature", s->temperature, 0, 100, err));
    if (s->temperature > 0 && s->temperature < 1e-4)
        return hy_fail(err, HY_E_ARG, "temperature: %g is neither 0 (greedy) nor at least 0.0001", s->temperature);
    HY_TRY(in_range("top_p", s->top_p, 0, 1, err));
    HY_TRY(in_range("min_p", s->min_p, 0, 1, err));
    HY_TRY(in_range("typical_p", s->typical_p, 0, 1, err));
    HY_TRY(in_range("repeat_penalty", s->repeat, 0.01, 100, err));
    HY_TRY(in_range("frequency_penalty", s->frequency, -100, 100, err));
    HY_TRY(in_range("presence_penalty", s->presence, -100, 100, err));
    for (uint32_t i = 0; i < s->n_bias; i++) {
        if (s->bias[i].id < 0 || (uint32_t)s->bias[i].id >= n_vocab)
            return hy_fail(err, HY_E_ARG, "logit_bias: id %d is not in 0..%u", s->bias[i].id, n_vocab - 1);
        if (isnan(s->bias[i].bias) || s->bias[i].bias == INFINITY)
            return hy_fail(err, HY_E_ARG, "logit_bias: %g for id %d is no usable number",
                           (double)s->bias[i].bias, s->bias[i].id);
    }
    return HY_OK;
}

hy_status hy_sampler_open(hy_sampler **out, uint32_t n_vocab, uint32_t n_history_max, hy_err *err)
{
    hy_sampler *w = HY_NEW(hy_sampler);
    if (w) {
        w->n_vocab = n_vocab;
        w->n_history_max = n_history_max;
        w->cand = HY_NEW_ARRAY(cand, n_vocab);
        w->count = HY_NEW_ARRAY(uint32_t, n_vocab);
        w->raw = HY_NEW_ARRAY(float, n_vocab);
    }
    if (!w || !w->cand || !w->count || !w->raw) {
        hy_sampler_close(w);
        *out = NULL;
        return hy_fail_memory(err, "sampler", (uint64_t)n_vocab * 12);
    }
    *out = w;
    return HY_OK;
}

void hy_sampler_close(hy_sampler *w)
{
    if (!w) return;
    hy_free(w->cand);
    hy_free(w->count);
    hy_free(w->raw);
    hy_free(w);
}

/* ---- a heap of candidates: the largest key first, of equals the smallest id -------------------- */

static bool before(cand a, cand b)
{
    return a.key > b.key || (a.key == b.key && a.id < b.id);
}

static void sift(cand *h, uint32_t n, uint32_t i)
{
    cand c = h[i];
    for (;;) {
        uint32_t k = 2 * i + 1;
        if (k >= n) break;
        if (k + 1 < n && before(h[k + 1], h[k])) k++;
        if (!before(h[k], c)) break;
        h[i] = h[k];
        i = k;
    }
    h[i] = c;
}

static void heapify(cand *h, uint32_t n)
{
    for (uint32_t i = n / 2; i-- > 0;) sift(h, n, i);
}

/* The best moves to h[n - 1]; the heap shrinks to n - 1. */
static cand pop(cand *h, uint32_t n)
{
    cand top = h[0];
    h[0] = h[n - 1];
    h[n - 1] = top;
    if (n > 1) sift(h, n - 1, 0);
    return top;
}

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

/* ---- cuts ------------------------------------------------------------------------------------- */

static float max_of(const float *x, uint32_t n)
{
    float m = -INFINITY;
    for (uint32_t i = 0; i < n; i++) m = x[i] > m ? x[i] : m;
    return m;
}

static double exp_sum(const float *x, uint32_t n, float max)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        if (x[i] > -INFINITY) sum += exp((double)x[i] - max);
    return sum;
}

static uint32_t gather(hy_sampler *w, const float *logits, uint32_t n_vocab)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_vocab; i++)
        if (logits[i] > -INFINITY) w->cand[n++] = (cand){ logits[i], (int32_t)i };
    return n;
}

static void top_k(hy_sampler *w, uint32_t k, float *logits, uint32_t n_vocab)
{
    uint32_t n = gather(w, logits, n_vocab);
    if (k == 0 || k >= n) return;
    heapify(w->cand, n);
    float kth = 0;
    for (uint32_t i = 0; i < k; i++) kth = pop(w->cand, n - i).key;
    for (uint32_t i = 0; i < n_vocab; i++)
        if (logits[i] < kth) logits[i] = -INFINITY;
}

/* The smallest set whose mass reaches p: a token stays while the mass of better ones is below p. */
static void top_p(hy_sampler *w, double p, float *logits, uint32_t n_vocab)
{
    if (p >= 1) return;
    uint32_t n = gather(w, logits, n_vocab), kept = 0;
    if (n == 0) return;
    float max = max_of(logits, n_vocab);
    double sum = exp_sum(logits, n_vocab, max), mass = 0;
    heapify(w->cand, n);
    while (kept < n && (kept == 0 || mass < p)) mass += exp((double)pop(w->cand, n - kept++).key - max) / sum;
    for (uint32_t i = 0; i < n - kept; i++) logits[w->cand[i].id] = -INFINITY;
}

static void min_p(double p, float *logits, uint32_t n_vocab)
{
    if (p <= 0) return;
    double least = max_of(logits, n_vocab) + log(p);
    for (uint32_t i = 0; i < n_vocab; i++)
        if (logits[i] < least) logits[i] = -INFINITY;
}

/* Locally typical sampling (Meister et al. 2022): the tokens whose surprise is nearest the entropy. */
static void typical(hy_sampler *w, double p, float *logits, uint32_t n_vocab)
{
    if (p >= 1) return;
    float max = max_of(logits, n_vocab);
    double lse = max + log(exp_sum(logits, n_vocab, max)), entropy = 0;
    for (uint32_t i = 0; i < n_vocab; i++)
        if (logits[i] > -INFINITY) entropy -= (logits[i] - lse) * exp(logits[i] - lse);
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_vocab; i++)
        if (logits[i] > -INFINITY)
            w->cand[n++] = (cand){ -(float)fabs(-(logits[i] - lse) - entropy), (int32_t)i };
    if (n == 0) return;
    heapify(w->cand, n);
    double mass = 0;
    uint32_t kept = 0;
    float last = -INFINITY;
    while (kept < n && (kept == 0 || mass < p)) {
        cand c = pop(w->cand, n - kept++);
        mass += exp(logits[c.id] - lse);
        last = c.key;
    }
    for (uint32_t i = 0; i < n - kept; i++)
        if (w->cand[i].key < last) logits[w->cand[i].id] = -INFINITY; /* equals of the last stay */
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
    case HY_SA_TOP_K: top_k(w, (uint32_t)v, logits, n_vocab); break;
    case HY_SA_TOP_P: top_p(w, v, logits, n_vocab); break;
    case HY_SA_MIN_P: min_p(v, logits, n_vocab); break;
    case HY_SA_TYPICAL_P: typical(w, v, logits, n_vocab); break;
    case HY_SA_COUNT: break;
    }
}

void hy_sample_softmax(float *logits, uint32_t n)
{
    float max = max_of(logits, n);
    double sum = exp_sum(logits, n, max);
    for (uint32_t i = 0; i < n; i++)
        logits[i] = logits[i] > -INFINITY ? (float)(exp((double)logits[i] - max) / sum) : 0;
}

/* ---- the draw --------------------------------------------------------------------------------- */

static double gumbel_of(uint64_t bits)
{
    return -log(-log(hy_rng_unit(bits)));
}

double hy_sample_gumbel(uint64_t seed, uint64_t pos, int32_t id)
{
    return gumbel_of(hy_rng_at(seed, pos, (uint64_t)(uint32_t)id));
}

static uint32_t argmax(const float *x, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

/* The maximum of logit + noise. With u the uniform number, -log(-log u) < -log(1 - u) <= a bound read
 * off the leading ones of u's bits, so that only few candidates need the two logarithms. */
static int32_t draw(const float *logits, uint32_t n, uint64_t seed, uint64_t pos)
{
    uint32_t best = argmax(logits, n);
    double most = logits[best] + hy_sample_gumbel(seed, pos, (int32_t)best);
    for (uint32_t i = 0; i < n; i++) {
        if (!(logits[i] > -INFINITY)) continue;
        uint64_t bits = hy_rng_at(seed, pos, i);
        uint64_t rest = ~bits >> 1;   /* about (1 - u) * 2^63 */
        double bound = (rest ? __builtin_clzll(rest) + 1 : 65) * 0.6931471805599453;
        if (logits[i] + bound < most) continue;
        double v = logits[i] + gumbel_of(bits);
        if (v > most || (v == most && i < best)) {
            most = v;
            best = i;
        }
    }
    return (int32_t)best;
}

static double log_sum_exp(const float *x, uint32_t n)
{
    float max = max_of(x, n);
    return max + log(exp_sum(x, n, max));
}

static void best_of(const float *x, uint32_t n, double lse, uint32_t n_top, hy_sample_logprob *top)
{
    uint32_t have = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (have == n_top && !(x[i] > top[have - 1].logprob)) continue;
        uint32_t at = have < n_top ? have++ : have - 1;
        for (; at > 0 && top[at - 1].logprob < x[i]; at--) top[at] = top[at - 1];
        top[at] = (hy_sample_logprob){ (int32_t)i, x[i] };
    }
    for (uint32_t i = have; i < n_top; i++) top[i] = (hy_sample_logprob){ -1, -INFINITY };
    for (uint32_t i = 0; i < have; i++) top[i].logprob = (float)(top[i].logprob - lse);
}

void hy_sample_logprobs(const float *logits, uint32_t n_vocab, int32_t id, uint32_t n_top, float *own,
                        hy_sample_logprob *top)
{
    double lse = log_sum_exp(logits, n_vocab);
    if (n_top > 0) best_of(logits, n_vocab, lse, n_top, top);
    *own = (float)(logits[id] - lse);
}

static void apply_mask(const uint32_t *mask, float *logits, uint32_t n_vocab)
{
    for (uint32_t i = 0; i < n_vocab; i++)
        if (!(mask[i / 32] >> (i % 32) & 1)) logits[i] = -INFINITY;
}

int32_t hy_sample(hy_sampler *w, const hy_sampling *s, float *logits, uint32_t n_vocab, const int32_t *hist,
                  uint32_t n_hist, uint64_t pos, int32_t top_logprobs, float *own, hy_sample_logprob *top)
{
    double lse = 0;
    if (top_logprobs >= 0) {
        lse = log_sum_exp(logits, n_vocab);
        if (top_logprobs > 0) best_of(logits, n_vocab, lse, (uint32_t)top_logprobs, top);
        memcpy(w->raw, logits, n_vocab * sizeof *logits);
    }
    if (s->mask) apply_mask(s->mask, logits, n_vocab);
    const double value[HY_SA_COUNT] = { 0, s->repeat, s->frequency, s->presence, s->no_repeat_ngram,
                                        s->temperature, s->top_k, s->top_p, s->min_p, s->typical_p };
    bool greedy = s->temperature == 0;
    for (int op = 0; op < HY_SA_COUNT; op++) {
        if (greedy && op >= HY_SA_TEMPERATURE) break;
        hy_sample_apply(w, (hy_sample_op)op, value[op], s, hist, n_hist, logits, n_vocab);
    }
    int32_t id = greedy ? (int32_t)argmax(logits, n_vocab) : draw(logits, n_vocab, s->seed, pos);
    if (top_logprobs >= 0) *own = (float)(w->raw[id] - lse);
    return id;
}
