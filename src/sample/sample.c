/* sample: what is asked of a draw, and the draw. */
#include "sample/sample_impl.h"
#include <string.h>

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

/* What kern does with vectors: for a sampler without kernels. */
static void measure_plain(const void *ctx, const float *x, uint32_t n, float t, float *max, float *sum)
{
    float m = -INFINITY;
    for (uint32_t i = 0; i < n; i++) m = x[i] > m ? x[i] : m;
    *max = m;
    if (!sum) return;
    double s = 0;
    for (uint32_t i = 0; i < n; i++)
        if (x[i] > -INFINITY) s += exp((double)(x[i] / t) - (double)(m / t));
    *sum = (float)s;
}

hy_status hy_sampler_open(hy_sampler **out, uint32_t n_vocab, uint32_t n_history_max, hy_logit_block_fn *measure,
                          const void *measure_ctx, hy_err *err)
{
    hy_sampler *w = HY_NEW(hy_sampler);
    uint32_t n_block = hy_logit_blocks(n_vocab);
    if (w) {
        w->n_vocab = n_vocab;
        w->n_history_max = n_history_max;
        w->measure = measure ? measure : measure_plain;
        w->measure_ctx = measure_ctx;
        w->cand = HY_NEW_ARRAY(hy_cand, n_vocab);
        w->other = HY_NEW_ARRAY(hy_cand, n_vocab);
        w->count = HY_NEW_ARRAY(uint32_t, n_vocab);
        w->raw = HY_NEW_ARRAY(float, n_vocab);
        w->max = HY_NEW_ARRAY(float, n_block);
        w->sum = HY_NEW_ARRAY(float, n_block);
        w->state = HY_NEW_ARRAY(uint8_t, n_block);
    }
    if (!w || !w->cand || !w->other || !w->count || !w->raw || !w->max || !w->sum || !w->state) {
        hy_sampler_close(w);
        *out = NULL;
        return hy_fail_memory(err, "sampler", (uint64_t)n_vocab * 24);
    }
    *out = w;
    return HY_OK;
}

void hy_sampler_close(hy_sampler *w)
{
    if (!w) return;
    hy_free(w->cand);
    hy_free(w->other);
    hy_free(w->count);
    hy_free(w->raw);
    hy_free(w->max);
    hy_free(w->sum);
    hy_free(w->state);
    hy_free(w);
}

const void *hy_sampler_array(const hy_sampler *w, uint32_t i, uint64_t *n_bytes)
{
    const void *const all[] = { w->cand, w->other, w->raw, w->count };
    static const size_t each[] = { sizeof *w->cand, sizeof *w->other, sizeof *w->raw, sizeof *w->count };
    if (i >= HY_COUNT(all)) return NULL;
    *n_bytes = (uint64_t)w->n_vocab * each[i];
    return all[i];
}

/* ---- logprobs --------------------------------------------------------------------------------- */

static double log_sum_exp(hy_sampler *w)
{
    float top;
    double sum = hy_blocks_mass(w, 1, &top);
    return top + log(sum);
}

static void best_of(const hy_sampler *w, double lse, uint32_t n_top, hy_sample_logprob *top)
{
    uint32_t have = 0;
    for (uint32_t b = 0; b < w->n_block; b++) {
        if (have == n_top && !(w->max[b] > top[have - 1].logprob)) continue;
        for (uint32_t i = b * HY_LOGIT_BLOCK; i < hy_block_end(w, b); i++) {
            float x = w->x[i];
            if (have == n_top && !(x > top[have - 1].logprob)) continue;
            uint32_t at = have < n_top ? have++ : have - 1;
            for (; at > 0 && top[at - 1].logprob < x; at--) top[at] = top[at - 1];
            top[at] = (hy_sample_logprob){ (int32_t)i, x };
        }
    }
    for (uint32_t i = have; i < n_top; i++) top[i] = (hy_sample_logprob){ -1, -INFINITY };
    for (uint32_t i = 0; i < have; i++) top[i].logprob = (float)(top[i].logprob - lse);
}

void hy_sample_logprobs(hy_sampler *w, const float *logits, const hy_logit_row *kept, uint32_t n_vocab, int32_t id,
                        uint32_t n_top, float *own, hy_sample_logprob *top)
{
    hy_blocks_begin(w, (float *)(uintptr_t)logits, n_vocab, kept); /* nothing below writes them */
    double lse = log_sum_exp(w);
    if (n_top > 0) best_of(w, lse, n_top, top);
    *own = (float)(logits[id] - lse);
}

float hy_sample_sums(const hy_sampling *s, bool logprobs)
{
    if (logprobs) return 1;
    return s->temperature > 0 && s->top_p < 1 && s->top_k == 0 ? (float)s->temperature : 0;
}

/* ---- the draw --------------------------------------------------------------------------------- */

/* Mask, bias and what the history says. */
static void edit(hy_sampler *w, const hy_sampling *s, const int32_t *hist, uint32_t n_hist)
{
    bool past = s->repeat != 1 || s->frequency != 0 || s->presence != 0 || s->no_repeat_ngram != 0;
    if (!s->mask && !s->n_bias && !past) return;
    if (s->mask) hy_blocks_mask(w, s->mask);
    for (uint32_t i = 0; i < s->n_bias; i++) hy_blocks_touch(w, (uint32_t)s->bias[i].id);
    for (uint32_t i = 0; past && i < n_hist; i++) hy_blocks_touch(w, (uint32_t)hist[i]);
    const double value[HY_SA_TEMPERATURE] = { 0, s->repeat, s->frequency, s->presence, s->no_repeat_ngram };
    for (int op = 0; op < HY_SA_TEMPERATURE; op++)
        hy_sample_apply(w, (hy_sample_op)op, value[op], s, hist, n_hist, w->x, w->n);
    hy_blocks_refresh(w);
}

int32_t hy_sample(hy_sampler *w, const hy_sampling *s, float *logits, const hy_logit_row *kept, uint32_t n_vocab,
                  const int32_t *hist, uint32_t n_hist, uint64_t pos, int32_t top_logprobs, float *own,
                  hy_sample_logprob *top)
{
    double lse = 0;
    hy_blocks_begin(w, logits, n_vocab, kept);
    if (top_logprobs >= 0) {
        lse = log_sum_exp(w);
        if (top_logprobs > 0) best_of(w, lse, (uint32_t)top_logprobs, top);
    }
    edit(w, s, hist, n_hist);
    int32_t id;
    if (s->temperature == 0) {
        id = (int32_t)hy_blocks_argmax(w);
    } else {
        w->t = (float)s->temperature;
        hy_cut_top_k(w, s->top_k);
        hy_cut_top_p(w, s->top_p);
        hy_cut_min_p(w, s->min_p);
        hy_cut_typical(w, s->typical_p);
        id = hy_noise_draw(w, s->seed, pos);
    }
    if (top_logprobs >= 0) *own = (float)(hy_blocks_raw(w, (uint32_t)id) - lse);
    return id;
}

double hy_sample_lead(const hy_sampler *w, int32_t id)
{
    float best = -INFINITY, own = w->x[id] / w->t;
    if (w->listed) {
        for (uint32_t i = 0; i < w->n_cand; i++)
            if (w->cand[i].id != id) best = HY_MAX(best, w->cand[i].key);
        return (double)own - best;
    }
    uint32_t at = (uint32_t)id / HY_LOGIT_BLOCK;
    for (uint32_t b = 0; b < w->n_block; b++)
        if (b != at) best = HY_MAX(best, w->max[b] / w->t);
    for (uint32_t i = at * HY_LOGIT_BLOCK; i < hy_block_end(w, at); i++)
        if ((int32_t)i != id) best = HY_MAX(best, w->x[i] / w->t);
    return (double)own - best;
}
