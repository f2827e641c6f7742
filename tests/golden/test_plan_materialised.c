/* Attention with the whole matrix of scores in memory: the logits of PyTorch, the same bits for any chunks and
 * threads, and nearly those of the other form for every KV type. Windows, soft-caps, sinks and groups of heads are
 * in the families below. */
#include "../common/drive.h"
#include <jansson.h>
#include <math.h>

#define MAX_TOK 400
#define BOUND 1e-3 /* F32 throughout: the limit that the goldens' README derives */

static const struct { const char *dir, *model; } cases[] = {
    { "llama3", "model-bf16.gguf" }, { "gemma2", "model-f32.gguf" }, { "gpt_oss", "model-bf16.gguf" },
    { "phi3_longrope", "model-f32.gguf" }, { "gpt2", "hf" }, { "gemma3", "hf" },
};

static uint32_t ints(const json_t *a, int32_t *out)
{
    uint32_t n = (uint32_t)json_array_size(a);
    assert_true(n > 0 && n <= MAX_TOK);
    for (uint32_t i = 0; i < n; i++) out[i] = (int32_t)json_integer_value(json_array_get(a, i));
    return n;
}

/* The longest case of at most 100 tokens. */
static const json_t *pick(const json_t *g)
{
    const json_t *best = NULL, *c;
    size_t i, n_best = 0;
    json_array_foreach(json_object_get(g, "cases"), i, c) {
        size_t n = json_array_size(json_object_get(c, "tokens"));
        if (n <= 100 && n > n_best) best = c, n_best = n;
    }
    assert_non_null(best);
    return best;
}

static void run(hy_model *m, drive_opts o, const int32_t *tok, uint32_t n, uint32_t chunk, float *out)
{
    drive d;
    o.n_ctx = 256;
    o.n_tok_max = 128;
    drive_over(&d, m, &o);
    for (uint32_t at = 0; at < n; at += chunk)
        drive_step(&d, 0, tok + at, HY_MIN(chunk, n - at), at, n, out + (size_t)at * d.n_vocab);
    drive_close(&d);
}

static double against_torch(const char *dir, const json_t *c, const float *got, uint32_t v)
{
    int32_t pos[MAX_TOK];
    uint32_t n_pos = ints(json_object_get(c, "positions"), pos);
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, json_string_value(json_object_get(json_object_get(c, "logits"), "file")));
    return drive_furthest(path, got, pos, n_pos, v);
}

static double furthest(const float *a, const float *b, size_t n)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double diff = fabs((double)a[i] - b[i]);
        if (!(diff <= worst)) worst = diff;
    }
    return worst;
}

static void one(size_t i)
{
    char dir[400], path[512];
    snprintf(dir, sizeof dir, HY_DATA "/models/%s", cases[i].dir);
    snprintf(path, sizeof path, "%s/golden.json", dir);
    json_t *g = json_load_file(path, 0, NULL);
    assert_non_null(g);
    const json_t *c = pick(g);
    int32_t tok[MAX_TOK];
    uint32_t n = ints(json_object_get(c, "tokens"), tok);
    snprintf(path, sizeof path, "%s/%s", dir, cases[i].model);
    hy_model *m = NULL;
    DRIVE_OK(drive_load(&m, path, NULL, -1, err));
    uint32_t v = m->hp.n_vocab;
    float *want = malloc((size_t)n * v * sizeof *want), *got = malloc((size_t)n * v * sizeof *got);
    float *ref = malloc((size_t)n * v * sizeof *ref); /* flash, F32 */
    const drive_opts base = { .materialised = true, .n_thread = 1 };
    run(m, base, tok, n, n, want);
    double worst = against_torch(dir, c, want, v);
    print_message("%-14s %u tokens, largest difference %.2e\n", cases[i].dir, n, worst);
    assert_true(worst < BOUND);
    static const uint32_t chunks[] = { 1, 7, 33 };
    for (size_t k = 0; k < HY_COUNT(chunks); k++) {
        drive_opts o = base;
        o.n_thread = 1 + (uint32_t)k;
        o.no_fuse = k == 2;
        run(m, o, tok, n, chunks[k], got);
        assert_memory_equal(got, want, (size_t)n * v * sizeof *got);
    }
    for (int t = HY_KV_F32; t <= HY_KV_Q4; t++) {
        if (t == HY_KV_Q4 && (m->hp.d_k % 32 || m->hp.d_v % 32)) continue;
        drive_opts o = { .kv_type = (hy_kv_type)t, .n_thread = 2 };
        run(m, o, tok, n, 50, want);
        o.materialised = true;
        run(m, o, tok, n, 50, got);
        /* rounding may turn a code of the next layer's keys: less than what the type itself costs */
        if (t == HY_KV_F32) memcpy(ref, want, (size_t)n * v * sizeof *ref);
        double far = furthest(got, want, (size_t)n * v), own = furthest(ref, want, (size_t)n * v);
        assert_true(far < (t == HY_KV_F32 ? BOUND : HY_MAX(own, BOUND)));
    }
    free(want);
    free(got);
    free(ref);
    hy_model_free(m);
    json_decref(g);
}

static void families(void **state)
{
    (void)state;
    for (size_t i = 0; i < HY_COUNT(cases); i++) one(i);
}

/* Several sequences in one step are those alone. */
static void together(void **state)
{
    (void)state;
    hy_model *m = NULL;
    DRIVE_OK(drive_load(&m, HY_DATA "/models/llama3/model-bf16.gguf", NULL, HY_Q_Q8_0, err));
    uint32_t v = m->hp.n_vocab;
    enum { N = 20, ROWS = 3 };
    int32_t tok[ROWS * N], pos[ROWS * N];
    uint32_t out_tok[ROWS * N];
    float *want = malloc(sizeof(float) * ROWS * N * v), *got = malloc(sizeof(float) * ROWS * N * v);
    for (int i = 0; i < ROWS * N; i++) {
        tok[i] = (i * 37 + 11) % (int32_t)v;
        pos[i] = i % N;
        out_tok[i] = (uint32_t)i;
    }
    const drive_opts o = { .materialised = true, .n_thread = 2, .n_ctx = 64, .n_tok_max = ROWS * N, .n_page = 20 };
    drive d;
    drive_over(&d, m, &o);
    hy_row row[ROWS];
    for (uint32_t r = 0; r < ROWS; r++) {
        drive_step(&d, r, tok + r * N, N, 0, N, want + (size_t)r * N * v);
        hy_kv_truncate(d.kv, &d.t[r], 0);
        DRIVE_OK(hy_kv_reserve(d.kv, &d.t[r], N, err));
        row[r] = (hy_row){ &d.t[r], r * N, N, 0, N };
    }
    hy_batch b = {
        .n_tok = ROWS * N, .token = tok, .pos = pos, .n_row = ROWS, .row = row, .n_out = ROWS * N, .out_tok = out_tok
    };
    DRIVE_OK(hy_plan_run(d.plan, d.team, d.kv, &b, got, err));
    assert_memory_equal(got, want, sizeof(float) * ROWS * N * v);
    drive_close(&d);
    hy_model_free(m);
    free(want);
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(families), cmocka_unit_test(together) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
