/* The sampler reads only blocks that can matter: what it draws must be what the definitions say of the whole row,
 * written down here once more without blocks; and the noise that it bounds by blocks must be Gumbel noise. */
#include "sample/sample.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VOCAB = 5000, MAX_HIST = 60 };

static uint64_t at_random;
static double unit(void)
{
    return hy_rng_unit(hy_rng_at(11, 5, at_random++));
}
static uint32_t below(uint32_t n)
{
    return (uint32_t)(unit() * n);
}

/* ---- the definitions, on whole rows -------------------------------------------------------------- */

typedef struct item {
    float key;
    int32_t id;
} item;

static int by_key(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static uint32_t sorted(const float *x, uint32_t n, item *out)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i < n; i++)
        if (x[i] > -INFINITY) out[k++] = (item){ x[i], (int32_t)i };
    qsort(out, k, sizeof *out, by_key);
    return k;
}

static void plain_edit(const hy_sampling *s, const int32_t *hist, uint32_t n_hist, float *x, uint32_t n)
{
    for (uint32_t i = 0; s->mask && i < n; i++)
        if (!(s->mask[i / 32] >> (i % 32) & 1)) x[i] = -INFINITY;
    for (uint32_t i = 0; i < s->n_bias; i++) x[s->bias[i].id] += s->bias[i].bias;
    for (int rule = 0; rule < 3; rule++)
        for (uint32_t id = 0; id < n; id++) {
            uint32_t c = 0;
            for (uint32_t k = 0; k < n_hist; k++) c += hist[k] == (int32_t)id;
            if (c == 0) continue;
            if (rule == 0 && s->repeat != 1) x[id] = x[id] < 0 ? x[id] * (float)s->repeat : x[id] / (float)s->repeat;
            if (rule == 1 && s->frequency != 0) x[id] -= (float)(s->frequency * c);
            if (rule == 2 && s->presence != 0) x[id] -= (float)s->presence;
        }
    uint32_t g = s->no_repeat_ngram;
    for (uint32_t i = 0; g && n_hist + 1 >= g && i + g <= n_hist; i++)
        if (!memcmp(hist + i, hist + n_hist - (g - 1), (g - 1) * sizeof *hist)) x[hist[i + g - 1]] = -INFINITY;
}

static void keep_best(float *x, uint32_t n, const item *it, uint32_t n_keep)
{
    float *y = malloc(n * sizeof *y);
    for (uint32_t i = 0; i < n; i++) y[i] = -INFINITY;
    for (uint32_t i = 0; i < n_keep; i++) y[it[i].id] = it[i].key;
    memcpy(x, y, n * sizeof *y);
    free(y);
}

static void plain_cuts(const hy_sampling *s, float *x, uint32_t n, item *it)
{
    uint32_t k = sorted(x, n, it), keep = s->top_k;
    if (s->top_k && s->top_k < k) {
        while (keep < k && it[keep].key == it[s->top_k - 1].key) keep++;
        keep_best(x, n, it, keep);
    }
    if (s->top_p < 1 && (k = sorted(x, n, it))) {
        double all = 0, mass = 0;
        for (uint32_t i = 0; i < k; i++) all += exp((double)it[i].key - it[0].key);
        for (keep = 0; keep < k && (keep == 0 || mass < s->top_p); keep++)
            mass += exp((double)it[keep].key - it[0].key) / all;
        keep_best(x, n, it, keep);
    }
    if (s->min_p > 0 && (k = sorted(x, n, it))) {
        for (keep = 0; keep < k && it[keep].key >= it[0].key + log(s->min_p);) keep++;
        keep_best(x, n, it, keep);
    }
}

static int32_t plain_sample(const hy_sampling *s, const int32_t *hist, uint32_t n_hist, float *x, uint32_t n,
                            uint64_t pos, item *it)
{
    plain_edit(s, hist, n_hist, x, n);
    if (s->temperature > 0) {
        for (uint32_t i = 0; i < n; i++) x[i] /= (float)s->temperature;
        plain_cuts(s, x, n, it);
    }
    int32_t best = 0;
    double most = -INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        if (!(x[i] > -INFINITY)) continue;
        double v = x[i] + (s->temperature > 0 ? hy_sample_gumbel(s->seed, pos, (int32_t)i) : 0);
        if (v > most) {
            most = v;
            best = (int32_t)i;
        }
    }
    return best;
}

/* ---- against them --------------------------------------------------------------------------------- */

typedef struct world {
    float logits[MAX_VOCAB], x[MAX_VOCAB], y[MAX_VOCAB], max[MAX_VOCAB], sum[MAX_VOCAB];
    item it[MAX_VOCAB];
    uint32_t mask[MAX_VOCAB / 32 + 1];
    hy_sample_bias bias[20];
    int32_t hist[MAX_HIST];
} world;

/* Neutral most of the time, so that rules meet in all combinations. */
static void any_rules(world *d, hy_sampling *s, uint32_t n)
{
    hy_sampling_init(s);
    s->seed = at_random;
    s->temperature = below(4) == 0 ? 0 : below(3) == 0 ? 1 : 0.2 + 2 * unit();
    if (below(2)) s->top_k = 1 + below(below(4) ? 60 : n + 10);
    if (below(2)) s->top_p = below(6) ? 0.3 + 0.69 * unit() : unit() * unit();
    if (below(4) == 0) s->min_p = unit() * 0.2;
    if (below(4) == 0) s->repeat = 0.8 + unit();
    if (below(4) == 0) s->frequency = unit() - 0.3;
    if (below(4) == 0) s->presence = 3 * unit();
    if (below(4) == 0) s->no_repeat_ngram = 1 + below(3);
    if (below(3) == 0) {
        uint32_t how = below(4); /* few, many, almost all, half a row */
        for (uint32_t i = 0; i < n / 32 + 1; i++) d->mask[i] = 0;
        for (uint32_t i = 0; i < n; i++) {
            bool in = how == 0 ? below(300) == 0 : how == 1 ? below(2) : how == 2 ? below(1000) != 0 : i < n / 2;
            if (in) d->mask[i / 32] |= 1u << i % 32;
        }
        d->mask[0] |= 1;
        d->mask[n / 32] |= n % 32 ? ~0u << n % 32 : 0; /* bits behind the vocabulary mean nothing */
        s->mask = d->mask;
    }
    if (below(3) == 0) {
        s->n_bias = 1 + below(20);
        for (uint32_t i = 0; i < s->n_bias; i++)
            d->bias[i] = (hy_sample_bias){ (int32_t)below(n), below(5) ? (float)(10 * unit() - 4) : -INFINITY };
        s->bias = d->bias;
    }
}

static void any_logits(world *d, uint32_t n)
{
    double width = 0.5 + 8 * unit();
    bool ties = below(4) == 0;
    for (uint32_t i = 0; i < n; i++) {
        double g = sqrt(-2 * log(unit())) * cos(6.283185307 * unit()) * width;
        d->logits[i] = (float)(ties ? floor(g) : g);
    }
}

static const hy_logit_row *measured(world *d, uint32_t n, float t, hy_logit_row *row)
{
    *row = (hy_logit_row){ t, d->max, d->sum };
    for (uint32_t b = 0; b < hy_logit_blocks(n); b++) {
        double sum = 0;
        float m = -INFINITY;
        uint32_t end = HY_MIN((b + 1) * HY_LOGIT_BLOCK, n);
        for (uint32_t i = b * HY_LOGIT_BLOCK; i < end; i++) m = fmaxf(m, d->logits[i]);
        for (uint32_t i = b * HY_LOGIT_BLOCK; t > 0 && i < end; i++)
            sum += exp((double)(d->logits[i] / t) - (double)(m / t));
        d->max[b] = m;
        d->sum[b] = t > 0 ? (float)sum : NAN; /* must not be read then */
    }
    return row;
}

static void as_defined(void **state)
{
    static const uint32_t sizes[] = { 1, 8, 31, 255, 256, 257, 511, 700, 1024, MAX_VOCAB };
    world *d = calloc(1, sizeof *d);
    for (uint32_t z = 0; z < HY_COUNT(sizes); z++) {
        uint32_t n = sizes[z];
        hy_sampler *w;
        assert_int_equal(hy_sampler_open(&w, n, MAX_HIST, NULL, NULL, NULL), HY_OK);
        for (uint32_t round = 0; round < 400; round++) {
            hy_sampling s;
            any_rules(d, &s, n);
            any_logits(d, n);
            uint32_t n_hist = below(MAX_HIST), pos = below(1000);
            for (uint32_t i = 0; i < n_hist; i++) d->hist[i] = (int32_t)below(HY_MIN(n, 9));
            bool logprobs = below(3) == 0;
            memcpy(d->x, d->logits, n * sizeof(float));
            int32_t want = plain_sample(&s, d->hist, n_hist, d->x, n, pos, d->it);
            float own[3] = { 0 };
            hy_sample_logprob top[3][3] = { { { 0 } } };
            for (int how = 0; how < 3; how++) { /* by itself; with sums that help; with sums that do not */
                hy_logit_row row;
                const hy_logit_row *kept = how ? measured(d, n, how == 1 ? hy_sample_sums(&s, logprobs) : 0, &row) : NULL;
                memcpy(d->y, d->logits, n * sizeof(float));
                int32_t id = hy_sample(w, &s, d->y, kept, n, d->hist, n_hist, pos, logprobs ? 3 : -1, &own[how], top[how]);
                if (id != want) fail_msg("vocabulary %u, round %u, way %d: %d, want %d", n, round, how, id, want);
            }
            assert_memory_equal(&own[0], &own[1], sizeof own[0]);
            assert_memory_equal(&own[0], &own[2], sizeof own[0]);
            assert_memory_equal(top[0], top[1], sizeof top[0]);
            if (!logprobs) continue;
            uint32_t k = sorted(d->logits, n, d->it);
            double all = 0;
            for (uint32_t i = 0; i < k; i++) all += exp((double)d->it[i].key - d->it[0].key);
            double lse = d->it[0].key + log(all);
            assert_float_equal(own[0], d->logits[want] - lse, 1e-5);
            for (uint32_t i = 0; i < HY_MIN(3, k); i++) {
                assert_int_equal(top[0][i].id, d->it[i].id);
                assert_float_equal(top[0][i].logprob, d->it[i].key - lse, 1e-5);
            }
        }
        hy_sampler_close(w);
    }
    free(d);
}

/* The lead over the best rival that could have been drawn. */
static void lead(void **state)
{
    float l[600];
    hy_sampler *w;
    hy_sampling s;
    hy_sampling_init(&s);
    assert_int_equal(hy_sampler_open(&w, 600, 4, NULL, NULL, NULL), HY_OK);
    for (int i = 0; i < 600; i++) l[i] = -1;
    l[300] = 5;
    l[301] = 3;
    l[10] = 4;
    s.temperature = 0;
    int32_t id = hy_sample(w, &s, l, NULL, 600, NULL, 0, 0, -1, NULL, NULL);
    assert_int_equal(id, 300);
    assert_float_equal(hy_sample_lead(w, id), 1, 0);
    s.temperature = 0.5;
    id = hy_sample(w, &s, l, NULL, 600, NULL, 0, 0, -1, NULL, NULL);
    assert_float_equal(hy_sample_lead(w, 301), -4, 0);
    s.top_k = 2;
    id = hy_sample(w, &s, l, NULL, 600, NULL, 0, 0, -1, NULL, NULL);
    assert_float_equal(hy_sample_lead(w, id), id == 300 ? 2 : -2, 0);
    s.top_k = 1;
    id = hy_sample(w, &s, l, NULL, 600, NULL, 0, 0, -1, NULL, NULL);
    assert_int_equal(id, 300);
    assert_true(isinf(hy_sample_lead(w, id)));
    hy_sampler_close(w);
}

/* ---- noise ---------------------------------------------------------------------------------------- */

/* Gumbel's distribution function at 9 of its quantiles, for ids in the same block and elsewhere, and neighbours that know
 * nothing of each other: counts over 40,000 positions are binomial. */
static void noise_is_gumbel(void **state)
{
    enum { N = 40000 };
    static const int32_t ids[] = { 0, 1, 255, 256, 700 };
    uint32_t under[5][9] = { { 0 } }, both = 0, apart = 0, first = 0;
    for (uint32_t pos = 0; pos < N; pos++) {
        double g[5];
        for (int k = 0; k < 5; k++) {
            g[k] = hy_sample_gumbel(42, pos, ids[k]);
            for (int q = 0; q < 9; q++) under[k][q] += exp(-exp(-g[k])) < (q + 1) / 10.0;
        }
        both += exp(-exp(-g[0])) > 0.5 && exp(-exp(-g[1])) > 0.5; /* of one block */
        apart += exp(-exp(-g[0])) > 0.5 && exp(-exp(-g[3])) > 0.5;
        first += g[0] > g[1];
    }
    for (int k = 0; k < 5; k++)
        for (int q = 0; q < 9; q++) {
            double p = (q + 1) / 10.0;
            assert_true(fabs(under[k][q] - N * p) < 5 * sqrt(N * p * (1 - p)));
        }
    assert_true(fabs(both - N * 0.25) < 5 * sqrt(N * 0.25 * 0.75));
    assert_true(fabs(apart - N * 0.25) < 5 * sqrt(N * 0.25 * 0.75));
    assert_true(fabs(first - N * 0.5) < 5 * sqrt(N * 0.25));
}

/* Draws over several blocks follow the softmax: chi-square over 40 classes of tokens, limit at 1e-6. */
static void draws_follow_the_softmax(void **state)
{
    enum { N = 40000, V = 1000, CLASS = 40 };
    static float base[V], l[V];
    double p[CLASS] = { 0 }, sum = 0, chi = 0;
    uint32_t seen[CLASS] = { 0 };
    for (uint32_t i = 0; i < V; i++) base[i] = (float)(3 * unit());
    for (uint32_t i = 0; i < V; i++) sum += exp(base[i] / 0.7f);
    for (uint32_t i = 0; i < V; i++) p[i % CLASS] += exp(base[i] / 0.7f) / sum;
    hy_sampler *w;
    hy_sampling s;
    hy_sampling_init(&s);
    s.seed = 99;
    s.temperature = 0.7;
    assert_int_equal(hy_sampler_open(&w, V, 4, NULL, NULL, NULL), HY_OK);
    for (uint32_t pos = 0; pos < N; pos++) {
        memcpy(l, base, sizeof l);
        seen[hy_sample(w, &s, l, NULL, V, NULL, 0, pos, -1, NULL, NULL) % CLASS]++;
    }
    for (int c = 0; c < CLASS; c++) chi += pow(seen[c] - N * p[c], 2) / (N * p[c]);
    assert_true(chi < 93.2); /* 39 degrees of freedom */
    hy_sampler_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(as_defined), cmocka_unit_test(lead),
                                        cmocka_unit_test(noise_is_gumbel), cmocka_unit_test(draws_follow_the_softmax) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
