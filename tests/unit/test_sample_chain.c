/* Sampler chains against transformers' processors, and the noise against its distribution. */
#include "sample/sample.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float *read_floats(const char *dir, const char *name, size_t *n)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    char *data;
    size_t bytes;
    assert_int_equal(hy_read_file(path, 1 << 26, &data, &bytes, NULL), HY_OK);
    *n = bytes / sizeof(float);
    return (float *)data;
}

static hy_sample_op op_of(const char *name)
{
    static const char *names[HY_SA_COUNT] = { "logit_bias", "repetition_penalty", "frequency_penalty",
        "presence_penalty", "no_repeat_ngram", "temperature", "top_k", "top_p", "min_p", "typical_p" };
    for (int i = 0; i < HY_SA_COUNT; i++)
        if (strcmp(names[i], name) == 0) return (hy_sample_op)i;
    fail_msg("unknown op %s", name);
    return HY_SA_COUNT;
}

static void apply(hy_sampler *w, json_t *step, const int32_t *hist, uint32_t n_hist, float *logits, uint32_t n)
{
    hy_sample_bias bias[64];
    hy_sampling s;
    hy_sampling_init(&s);
    hy_sample_op op = op_of(json_string_value(json_object_get(step, "op")));
    json_t *v = json_object_get(step, "value");
    if (op == HY_SA_LOGIT_BIAS) {
        const char *key;
        json_t *val;
        json_object_foreach(v, key, val) bias[s.n_bias++] =
            (hy_sample_bias){ atoi(key), (float)json_number_value(val) };
        s.bias = bias;
    }
    hy_sample_apply(w, op, json_number_value(v), &s, hist, n_hist, logits, n);
}

static int compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

static void chains(void **state)
{
    const char *dir = HY_DATA "/samplers";
    json_error_t je;
    json_t *root = json_load_file(HY_DATA "/samplers/samplers.json", 0, &je);
    assert_non_null(root);
    size_t n_probs;
    float *probs = read_floats(dir, "probs.f32", &n_probs);
    size_t i;
    json_t *c;
    unsigned n_case = 0;
    json_array_foreach(json_object_get(root, "cases"), i, c)
    {
        const char *vec = json_string_value(json_object_get(c, "vector"));
        json_t *v = json_object_get(json_object_get(root, "vectors"), vec);
        size_t n;
        float *logits = read_floats(dir, json_string_value(json_object_get(v, "file")), &n);
        hy_sampler *w;
        assert_int_equal(hy_sampler_open(&w, (uint32_t)n, 64, NULL, NULL, NULL), HY_OK);
        int32_t hist[256];
        json_t *h = json_object_get(c, "history");
        uint32_t n_hist = (uint32_t)json_array_size(h);
        for (uint32_t k = 0; k < n_hist; k++) hist[k] = (int32_t)json_integer_value(json_array_get(h, k));
        size_t k;
        json_t *step;
        json_array_foreach(json_object_get(c, "chain"), k, step) apply(w, step, hist, n_hist, logits, (uint32_t)n);
        hy_sample_softmax(logits, (uint32_t)n);
        float *want = probs + json_integer_value(json_object_get(c, "offset"));
        bool ties = strcmp(vec, "v32_ties") == 0;
        if (ties) { /* which of equals are kept is the sort's choice: compare the multisets */
            qsort(logits, n, sizeof *logits, compare);
            qsort(want, n, sizeof *want, compare);
        }
        for (size_t t = 0; t < n; t++) {
            if (fabsf(logits[t] - want[t]) > 1e-6f || (logits[t] > 0) != (want[t] > 0))
                fail_msg("case %zu (%s), token %zu: %g, want %g: %s", i, vec, t, (double)logits[t],
                         (double)want[t], json_dumps(json_object_get(c, "chain"), 0));
        }
        hy_sampler_close(w);
        hy_free(logits);
        n_case++;
    }
    assert_int_equal(n_case, json_array_size(json_object_get(root, "cases")));
    hy_free(probs);
    json_decref(root);
}

/* Draws follow the softmax: chi-square over 40,000 positions, 7 degrees of freedom, limit at 1e-6. */
static void draws(void **state)
{
    const float base[8] = { 0.1f, 1.5f, -2.0f, 0.7f, 0.0f, 2.2f, -0.4f, 1.0f };
    enum { N = 40000 };
    unsigned seen[8] = { 0 };
    hy_sampler *w;
    assert_int_equal(hy_sampler_open(&w, 8, 8, NULL, NULL, NULL), HY_OK);
    hy_sampling s;
    hy_sampling_init(&s);
    s.seed = 7;
    for (unsigned i = 0; i < N; i++) {
        float l[8];
        memcpy(l, base, sizeof l);
        int32_t id = hy_sample(w, &s, l, NULL, 8, NULL, 0, i, -1, NULL, NULL);
        /* the shortcut must give what the definition gives */
        int32_t best = 0;
        for (int32_t k = 1; k < 8; k++)
            if (base[k] + hy_sample_gumbel(7, i, k) > base[best] + hy_sample_gumbel(7, i, best)) best = k;
        assert_int_equal(id, best);
        seen[id]++;
    }
    float p[8];
    memcpy(p, base, sizeof p);
    hy_sample_softmax(p, 8);
    double chi = 0;
    for (int k = 0; k < 8; k++) chi += pow(seen[k] - N * (double)p[k], 2) / (N * (double)p[k]);
    assert_true(chi < 41.0);
    hy_sampler_close(w);
}

static void logprobs(void **state)
{
    float l[5] = { 1, 3, 2, -1, 0 }, own;
    hy_sample_logprob top[3];
    hy_sampler *w;
    assert_int_equal(hy_sampler_open(&w, 5, 8, NULL, NULL, NULL), HY_OK);
    hy_sampling s;
    hy_sampling_init(&s);
    s.temperature = 0;
    assert_int_equal(hy_sample(w, &s, l, NULL, 5, NULL, 0, 0, 3, &own, top), 1);
    double lse = log(exp(1) + exp(3) + exp(2) + exp(-1) + exp(0));
    assert_float_equal(own, 3 - lse, 1e-6);
    assert_int_equal(top[0].id, 1);
    assert_int_equal(top[1].id, 2);
    assert_int_equal(top[2].id, 0);
    assert_float_equal(top[2].logprob, 1 - lse, 1e-6);
    hy_sampler_close(w);
}

static void door(void **state)
{
    hy_err e;
    hy_sampling s;
    hy_sampling_init(&s);
    assert_int_equal(hy_sampling_check(&s, 10, &e), HY_OK);
    s.temperature = 999999;
    assert_int_equal(hy_sampling_check(&s, 10, &e), HY_E_ARG);
    assert_non_null(strstr(e.msg, "temperature"));
    s.temperature = 1;
    s.top_p = -1;
    assert_int_equal(hy_sampling_check(&s, 10, &e), HY_E_ARG);
    s.top_p = NAN;
    assert_int_equal(hy_sampling_check(&s, 10, &e), HY_E_ARG);
    s.top_p = 1;
    s.repeat = 0;
    assert_int_equal(hy_sampling_check(&s, 10, &e), HY_E_ARG);
    s.repeat = 1;
    hy_sample_bias b = { 10, 1 };
    s.bias = &b;
    s.n_bias = 1;
    assert_int_equal(hy_sampling_check(&s, 10, &e), HY_E_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(chains), cmocka_unit_test(draws),
                                        cmocka_unit_test(logprobs), cmocka_unit_test(door) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
