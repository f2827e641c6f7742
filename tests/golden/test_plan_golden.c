/* Logits, greedy continuations and top-5 lists of the golden models against transformers. */
#include "../common/drive.h"
#include <dirent.h>
#include <jansson.h>
#include <math.h>

static const char *const families[] = {
    "llama3", "llama2", "llama32_tied", "llama_linear", "llama_bias", "mistral_swa", "mistral_nowin",
    "smollm3", "qwen2", "qwen2_yarn", "qwen3", "gemma", "gemma2", "gemma2_qscale", "gemma3", "phi2",
    "phi3", "phi3_longrope", "gpt2", "pythia", "olmo2", "olmo3", "granite", "starcoder2", "falcon7b",
    "stablelm", "cohere", "cohere2", "glm4", "nemotron", "exaone4", "ernie4_5", "mixtral",
    "granitemoe", "qwen2_moe", "qwen3_moe", "olmoe", "gpt_oss",
};
#define MAX_TOK 400

typedef struct bounds {
    float diff;                /* largest |logit - reference| */
    double kl;                 /* mean over positions */
    bool act_f32;
    int quantise;              /* -1: as in the file */
} bounds;

typedef struct form {          /* one file of one model, run in one way */
    const char *dir, *what;
    drive d;
    bounds b;
    double worst, kl_sum, worst_top5;
    uint32_t n_pos, n_greedy, n_bad;
} form;

static float *read_f32(const char *dir, const char *name, size_t n)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    char *data = NULL;
    size_t bytes = 0;
    DRIVE_OK(hy_read_file(path, 1 << 28, &data, &bytes, err));
    if (bytes != n * sizeof(float)) fail_msg("%s: %zu bytes, %zu floats expected", path, bytes, n);
    return (float *)(void *)data;
}

static uint32_t ints(const json_t *a, int32_t *out)
{
    uint32_t n = (uint32_t)json_array_size(a);
    assert_true(n <= MAX_TOK);
    for (uint32_t i = 0; i < n; i++) out[i] = (int32_t)json_integer_value(json_array_get(a, i));
    return n;
}

/* KL divergence of the reference's distribution from ours. */
static double kl_of(const float *ref, const float *got, uint32_t n)
{
    double mr = -INFINITY, mg = -INFINITY, zr = 0, zg = 0, kl = 0;
    for (uint32_t i = 0; i < n; i++) {
        mr = fmax(mr, ref[i]);
        mg = fmax(mg, got[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        zr += exp(ref[i] - mr);
        zg += exp(got[i] - mg);
    }
    for (uint32_t i = 0; i < n; i++) {
        double lr = ref[i] - mr - log(zr), lg = got[i] - mg - log(zg);
        kl += exp(lr) * (lr - lg);
    }
    return kl;
}

static uint32_t argmax(const float *x, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

/* The logits of one step after the prompt against its five best. False: from here the quantised path
 * may go its own way (a margin below its error). */
static bool check_top5(form *f, const json_t *top5, const float *got, const char *id, uint32_t step)
{
    double v[5];
    int32_t ids[5];
    for (uint32_t k = 0; k < 5; k++) {
        const json_t *pair = json_array_get(top5, k);
        ids[k] = (int32_t)json_integer_value(json_array_get(pair, 0));
        v[k] = json_number_value(json_array_get(pair, 1));
        double diff = fabs(v[k] - got[ids[k]]);
        if (diff > f->worst_top5) f->worst_top5 = diff;
        if (diff > f->b.diff) {
            print_error("%s %s %s step %u: logit %d is %f, not %f\n", f->dir, f->what, id, step, ids[k],
                        got[ids[k]], v[k]);
            f->n_bad++;
            return false;
        }
    }
    if (v[0] - v[1] < 2 * f->worst) return f->b.diff < 0.01f;
    if (argmax(got, f->d.n_vocab) != (uint32_t)ids[0]) {
        print_error("%s %s %s step %u: best is %u, not %d\n", f->dir, f->what, id, step,
                    argmax(got, f->d.n_vocab), ids[0]);
        f->n_bad++;
        return false;
    }
    f->n_greedy++;
    return true;
}

static void run_case(form *f, const json_t *c)
{
    int32_t tok[MAX_TOK], pos[MAX_TOK], next[MAX_TOK];
    const char *id = json_string_value(json_object_get(c, "id"));
    uint32_t n = ints(json_object_get(c, "tokens"), tok);
    uint32_t n_pos = ints(json_object_get(c, "positions"), pos), v = f->d.n_vocab;
    float *ref = read_f32(f->dir, json_string_value(json_object_get(json_object_get(c, "logits"), "file")),
                          (size_t)n_pos * v);
    float *got = malloc((size_t)n * v * sizeof *got);
    drive_step(&f->d, 0, tok, n, 0, n, got);
    for (uint32_t i = 0; i < n_pos; i++) {
        const float *g = got + (size_t)pos[i] * v, *r = ref + (size_t)i * v;
        double worst = 0;
        for (uint32_t k = 0; k < v; k++) {
            double diff = fabs((double)g[k] - r[k]);
            if (!(diff <= worst)) worst = diff;
        }
        if (!(worst <= f->worst)) f->worst = worst;
        f->kl_sum += kl_of(r, g, v);
        if (!(worst <= f->b.diff)) f->n_bad++;
    }
    f->n_pos += n_pos;
    const json_t *greedy = json_object_get(c, "greedy");
    uint32_t n_next = greedy ? ints(json_object_get(greedy, "tokens"), next) : 0;
    memmove(got, got + (size_t)(n - 1) * v, v * sizeof *got);
    for (uint32_t k = 0; k < n_next; k++) {
        if (!check_top5(f, json_array_get(json_object_get(greedy, "top5"), k), got, id, k)) break;
        if (k + 1 < n_next) drive_step(&f->d, 0, &next[k], 1, n + k, n, got);
    }
    hy_kv_truncate(f->d.kv, &f->d.t[0], 0);
    free(got);
    hy_free(ref);
}

static uint32_t run_form(const char *dir, const char *file, const json_t *cases, bounds b)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    hy_model *m = NULL;
    hy_err err = { 0 };
    if (drive_load(&m, path, NULL, b.quantise, &err) != HY_OK) {
        print_error("%s: %s\n", path, err.msg);
        return 1;
    }
    form f = { .dir = dir, .what = file, .b = b };
    uint32_t n_ctx = HY_MIN(400, m->hp.n_ctx_train);
    drive_over(&f.d, m, &(drive_opts){ .n_thread = 2, .n_ctx = n_ctx, .n_tok_max = n_ctx, .act_f32 = b.act_f32 });
    size_t i;
    const json_t *c;
    json_array_foreach(cases, i, c) run_case(&f, c);
    double kl = f.kl_sum / HY_MAX(1, f.n_pos);
    if (kl > b.kl) f.n_bad++;
    print_message("%s %-40s %-18s%s %4u positions, largest difference %.2e, KL %.1e; %3u greedy, %.2e\n",
                  f.n_bad ? "BAD" : "ok ", strstr(dir, "models/"), file, b.act_f32 ? " act f32" : "",
                  f.n_pos, f.worst, kl, f.n_greedy, f.worst_top5);
    drive_close(&f.d);
    hy_model_free(m);
    return f.n_bad != 0;
}

static bool is_float_file(const char *name)
{
    return strcmp(name, "hf") == 0 || strstr(name, "f32") || strstr(name, "f16");
}

static uint32_t run_file(const char *dir, const char *file, const json_t *cases)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    if (!hy_is_file(path) && !hy_is_dir(path)) return 0; /* a subset has not all forms */
    uint32_t n_bad = run_form(dir, file, cases, (bounds){ 1e-3f, 1e-6, !is_float_file(file), -1 });
    if (!is_float_file(file)) n_bad += run_form(dir, file, cases, (bounds){ 0.6f, 5e-3, false, -1 });
    return n_bad;
}

static uint32_t run_model(const char *dir)
{
    char path[600];
    snprintf(path, sizeof path, "%s/golden.json", dir);
    json_error_t je;
    json_t *g = json_load_file(path, 0, &je);
    if (!g) {
        print_error("%s: %s\n", path, je.text);
        return 1;
    }
    const json_t *cases = json_object_get(g, "cases"), *e;
    uint32_t n_bad = 0;
    const char *hf = json_string_value(json_object_get(g, "safetensors"));
    if (hf) n_bad += run_file(dir, hf, cases);
    size_t i;
    json_array_foreach(json_object_get(g, "gguf"), i, e) {
        const json_t *own = json_object_get(e, "cases");
        n_bad += run_file(dir, json_string_value(json_object_get(e, "file")), own ? own : cases);
    }
    if (!json_object_get(g, "gguf")) { /* quantmodels: the one GGUF of the folder */
        DIR *list = opendir(dir);
        for (const struct dirent *f; list && (f = readdir(list));)
            if (strstr(f->d_name, ".gguf")) n_bad += run_file(dir, f->d_name, cases);
        if (list) closedir(list);
    }
    json_decref(g);
    return n_bad;
}

static uint32_t run_all(const char *root, const char *const *names, uint32_t n, uint32_t *n_run)
{
    uint32_t n_bad = 0;
    for (uint32_t i = 0; i < n; i++) {
        const char *only = getenv("HY_TEST_MODEL");
        if (only && strcmp(only, names[i]) != 0) continue;
        char dir[512];
        snprintf(dir, sizeof dir, "%s/%s", root, names[i]);
        char path[600];
        snprintf(path, sizeof path, "%s/golden.json", dir);
        if (!hy_is_file(path)) continue;
        ++*n_run;
        n_bad += run_model(dir);
    }
    return n_bad;
}

static void golden_models(void **state)
{
    (void)state;
    static const char *const quants[] = { "IQ4_XS", "Q2_K", "Q3_K_M", "Q4_0", "Q4_1", "Q4_K_M",
                                          "Q5_K_M", "Q6_K", "Q8_0" };
    uint32_t n = 0, n_bad = 0;
    n_bad += run_all(HY_DATA "/models", families, HY_COUNT(families), &n);
    n_bad += run_all(HY_DATA "/quantmodels", quants, HY_COUNT(quants), &n);
    print_message("models of tests/data: %u\n", n);
    if (hy_is_dir(HY_SHARED "/golden/models")) {
        uint32_t n_full = 0;
        n_bad += run_all(HY_SHARED "/golden/models", families, HY_COUNT(families), &n_full);
        n_bad += run_all(HY_SHARED "/golden/quantmodels", quants, HY_COUNT(quants), &n_full);
        print_message("models of the full set: %u\n", n_full);
    } else {
        print_message("the full set is not here\n");
    }
    assert_int_equal(n_bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(golden_models) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
