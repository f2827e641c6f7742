/* The contract (docs/decisions, "same bits"): logits of a position depend on the tokens before it alone.
 * Each variant of a schedule must give the bits of the plain one: one sequence, one step, one thread. */
#include "../common/drive.h"

#define N_CTX 288
#define MAX_ROW 32

typedef struct base {
    const char *name;
    int quantise;              /* -1: as in the file */
    hy_model *m;
    uint32_t n, v;             /* tokens, vocabulary */
    int32_t tok[MAX_ROW][N_CTX];
    float *want;               /* [n, v] of tok[0], by the plain schedule */
    float *got;
} base;

static const drive_opts plain = { .n_thread = 1, .n_ctx = N_CTX, .n_tok_max = N_CTX };

static void same(const base *b, const float *got, const float *want, uint32_t n, const char *what,
                 uint32_t arg)
{
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t i = 0; i < b->v; i++) {
            size_t k = (size_t)t * b->v + i;
            if (memcmp(&got[k], &want[k], sizeof *got) == 0) continue;
            fail_msg("%s, %s %u: logit %u of token %u is %.9g, not %.9g", b->name, what, arg, i, t,
                     (double)got[k], (double)want[k]);
        }
}

/* Sequence i of the drive from token `from`, in chunks. */
static void run_chunks(drive *d, const base *b, uint32_t i, const int32_t *tok, uint32_t from,
                       uint32_t chunk, float *logits)
{
    for (uint32_t at = from; at < b->n; at += chunk) {
        uint32_t n = HY_MIN(chunk, b->n - at);
        drive_step(d, i, tok + at, n, at, b->n, logits + (size_t)at * b->v);
    }
}

static void variant(base *b, drive_opts o, uint32_t chunk, const char *what, uint32_t arg)
{
    drive d;
    drive_over(&d, b->m, &o);
    run_chunks(&d, b, 0, b->tok[0], 0, chunk, b->got);
    same(b, b->got, b->want, b->n, what, arg);
    drive_close(&d);
}

static void chunks_threads_fusion(base *b)
{
    static const uint32_t chunks[] = { 1, 5, 16, 64 }, threads[] = { 2, 3, 8 };
    for (uint32_t i = 0; i < HY_COUNT(chunks); i++) variant(b, plain, chunks[i], "chunk", chunks[i]);
    for (uint32_t i = 0; i < HY_COUNT(threads); i++) {
        drive_opts o = plain;
        o.n_thread = threads[i];
        variant(b, o, b->n, "threads", threads[i]);
        variant(b, o, 100, "chunks of 100, threads", threads[i]);
    }
    drive_opts o = plain;
    o.n_thread = 3; /* single tokens over a long context: tiles are shared between workers */
    variant(b, o, 1, "single tokens, threads", 3);
    o.no_fuse = true;
    variant(b, o, b->n, "no fusion, threads", 3);
    variant(b, o, 7, "no fusion, chunk", 7);
}

/* Each row of the batch grows at its own pace, so steps mix decode rows and chunks of prompts. */
static void together(base *b, uint32_t n_row)
{
    drive d;
    drive_opts o = plain;
    o.n_thread = 2;
    o.n_tok_max = 2048;
    o.n_page = n_row * (N_CTX / 16 + 1);
    drive_over(&d, b->m, &o);
    uint32_t done[MAX_ROW] = { 0 };
    float *out = malloc(2048 * sizeof *out * b->v);
    for (uint32_t step = 0;; step++) {
        int32_t tok[2048], pos[2048];
        uint32_t out_tok[2048];
        hy_row row[MAX_ROW];
        hy_batch batch = { .token = tok, .pos = pos, .row = row, .out_tok = out_tok };
        for (uint32_t r = 0; r < n_row; r++) {
            uint32_t n = (r + step) % 3 == 0 ? 1 : 1 + (r * 7 + step * 5) % 60;
            n = HY_MIN(n, b->n - done[r]);
            if (n == 0) continue;
            DRIVE_OK(hy_kv_reserve(d.kv, &d.t[r], done[r] + n, err));
            row[batch.n_row++] = (hy_row){ &d.t[r], batch.n_tok, n, done[r], b->n };
            for (uint32_t k = 0; k < n; k++, batch.n_tok++) {
                tok[batch.n_tok] = b->tok[r][done[r] + k];
                pos[batch.n_tok] = (int32_t)(done[r] + k);
                if (r == 0) out_tok[batch.n_out++] = batch.n_tok;
            }
            done[r] += n;
        }
        if (batch.n_tok == 0) break;
        uint32_t at = done[0] - batch.n_out;
        DRIVE_OK(hy_plan_run(d.plan, d.team, d.kv, &batch, out, err));
        memcpy(b->got + (size_t)at * b->v, out, (size_t)batch.n_out * b->v * sizeof *out);
    }
    same(b, b->got, b->want, b->n, "rows together", n_row);
    free(out);
    drive_close(&d);
}

static void shared_and_recomputed_pages(base *b)
{
    drive d;
    drive_opts o = plain;
    o.n_page = 4 * (N_CTX / 16 + 1);
    drive_over(&d, b->m, &o);
    /* pages far from where the plain schedule had them */
    run_chunks(&d, b, 1, b->tok[1], 0, 50, b->got);
    DRIVE_OK(hy_kv_reserve(d.kv, &d.t[2], 37, err));
    hy_kv_truncate(d.kv, &d.t[1], 20);
    run_chunks(&d, b, 0, b->tok[0], 0, b->n, b->got);
    same(b, b->got, b->want, b->n, "pages elsewhere", 0);
    /* forked in the middle of a page */
    DRIVE_OK(hy_kv_fork(d.kv, &d.t[3], &d.t[0], 37, err));
    run_chunks(&d, b, 3, b->tok[0], 37, 30, b->got);
    same(b, b->got, b->want, b->n, "forked at", 37);
    /* other tokens in the fork must not show in the one it came from */
    hy_kv_truncate(d.kv, &d.t[3], 0);
    hy_kv_truncate(d.kv, &d.t[0], b->n - 3);
    DRIVE_OK(hy_kv_fork(d.kv, &d.t[3], &d.t[0], b->n - 3, err));
    drive_step(&d, 3, b->tok[1], 3, b->n - 3, b->n, b->got);
    run_chunks(&d, b, 0, b->tok[0], b->n - 3, 2, b->got);
    same(b, b->got + (size_t)(b->n - 3) * b->v, b->want + (size_t)(b->n - 3) * b->v, 3, "beside a fork", 0);
    /* rejected drafts: wrong tokens, truncate, the right ones */
    hy_kv_truncate(d.kv, &d.t[0], 50);
    drive_step(&d, 0, b->tok[2], 20, 50, b->n, b->got);
    hy_kv_truncate(d.kv, &d.t[0], 50);
    run_chunks(&d, b, 0, b->tok[0], 50, 33, b->got);
    same(b, b->got + 50ul * b->v, b->want + 50ul * b->v, b->n - 50, "recomputed from", 50);
    drive_close(&d);
}

/* Pages that slide out of windows: the same bits, fewer pages. */
static void sliding(base *b)
{
    drive d;
    drive_over(&d, b->m, &plain);
    for (uint32_t at = 0; at < b->n; at += 9) {
        drive_step(&d, 0, b->tok[0] + at, HY_MIN(9, b->n - at), at, b->n, b->got + (size_t)at * b->v);
        hy_kv_slide(d.kv, &d.t[0], HY_MIN(at + 9, b->n));
    }
    same(b, b->got, b->want, b->n, "sliding", 9);
    drive_close(&d);
}

static void kv_types(base *b)
{
    for (hy_kv_type t = 0; t < HY_KV_TYPE_COUNT; t++) {
        if (t == HY_KV_Q4 && (b->m->hp.d_k % 32 || b->m->hp.d_v % 32)) continue;
        drive_opts o = plain;
        o.kv_type = t;
        float *keep = b->want, *want = malloc((size_t)b->n * b->v * sizeof *want);
        drive d;
        drive_over(&d, b->m, &o);
        run_chunks(&d, b, 0, b->tok[0], 0, b->n, want);
        drive_close(&d);
        b->want = want;
        variant(b, o, 5, "KV type, chunk 5", t);
        o.n_thread = 3;
        variant(b, o, 1, "KV type, single tokens", t);
        o.no_fuse = true;
        variant(b, o, 64, "KV type, no fusion", t);
        b->want = keep;
        free(want);
    }
}

static void isas(base *b, const char *path)
{
    const char *names[8];
    uint32_t n = hy_kern_isas(hy_cpu_features(), names);
    hy_model *keep = b->m;
    for (uint32_t i = 0; i < n; i++) {
        DRIVE_OK(drive_load(&b->m, path, names[i], b->quantise, err));
        print_message("%s with %s\n", b->name, b->m->kern.isa);
        variant(b, plain, b->n, names[i], 0);
        drive_opts o = plain;
        o.n_thread = 2;
        variant(b, o, 5, names[i], 5);
        hy_model_free(b->m);
    }
    b->m = keep;
}

static void run_model(const char *name, const char *path, int quantise)
{
    base *b = calloc(1, sizeof *b);
    b->name = name;
    b->quantise = quantise;
    DRIVE_OK(drive_load(&b->m, path, NULL, quantise, err));
    b->n = HY_MIN(N_CTX, b->m->hp.n_ctx_train) - 5;
    b->v = b->m->hp.n_vocab;
    for (uint32_t r = 0; r < MAX_ROW; r++)
        for (uint32_t k = 0; k < b->n; k++) b->tok[r][k] = (int32_t)(hy_rng_at(7, r, k) % b->v);
    b->want = malloc((size_t)b->n * b->v * sizeof(float));
    b->got = malloc((size_t)b->n * b->v * sizeof(float));
    drive d;
    drive_over(&d, b->m, &plain);
    run_chunks(&d, b, 0, b->tok[0], 0, b->n, b->want);
    drive_close(&d);
    chunks_threads_fusion(b);
    static const uint32_t rows[] = { 1, 2, 3, 7, 32 };
    for (uint32_t i = 0; i < HY_COUNT(rows); i++) together(b, rows[i]);
    shared_and_recomputed_pages(b);
    sliding(b);
    kv_types(b);
    isas(b, path);
    hy_model_free(b->m);
    free(b->want);
    free(b->got);
    free(b);
    print_message("%s: same bits\n", name);
}

static void same_bits(void **state)
{
    (void)state;
    static const char *const models[] = {
        "llama3/model-bf16.gguf", "qwen3/model-q8_0.gguf", "gemma2/model-f32.gguf",
        "gpt_oss/model-bf16.gguf", "qwen2_moe/model-bf16.gguf", "phi3_longrope/model-f32.gguf",
        "gpt2/model-f32.gguf", "Q4_K_M/model-q4_k_m.gguf", "Q3_K_M/model-q3_k_m.gguf",
        "IQ4_XS/model-iq4_xs.gguf",
    };
    static const char *const roots[] = { HY_DATA "/models", HY_SHARED "/golden/models",
                                         HY_DATA "/quantmodels", HY_SHARED "/golden/quantmodels" };
    uint32_t n = 0;
    for (uint32_t i = 0; i < HY_COUNT(models); i++) {
        const char *only = getenv("HY_TEST_MODEL");
        if (only && strncmp(only, models[i], strlen(only)) != 0) continue;
        for (uint32_t r = 0; r < HY_COUNT(roots); r++) {
            char path[512];
            snprintf(path, sizeof path, "%s/%s", roots[r], models[i]);
            if (!hy_is_file(path)) continue;
            run_model(models[i], path, -1);
            if (strstr(models[i], "moe") || strstr(models[i], "gemma2")) /* int8 beside windows, experts */
                run_model(models[i], path, HY_Q_Q8_0);
            n++;
            break;
        }
    }
    print_message("%u of %zu models were here\n", n, HY_COUNT(models));
    assert_true(n > 0);
}

/* Every family of the larger set, in one form each. Too slow under the sanitizers, which have the models above. */
static void every_family(void **state)
{
    (void)state;
    static const char *const names[] = {
        "llama2", "llama32_tied", "llama_linear", "llama_bias", "mistral_swa", "smollm3", "qwen2", "qwen2_yarn",
        "gemma", "gemma2_qscale", "gemma3", "phi2", "phi3", "pythia", "olmo2", "olmo3", "granite", "starcoder2",
        "falcon7b", "stablelm", "cohere", "cohere2", "glm4", "nemotron", "exaone4", "ernie4_5", "mixtral",
        "granitemoe", "qwen3_moe", "olmoe",
    };
    static const char *const forms[] = { "hf", "model-f32.gguf", "model-bf16.gguf" };
    uint32_t n = 0;
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    print_message("skipped: contract of every family: too slow with sanitizers\n");
    return;
#endif
    if (!hy_is_dir(HY_SHARED "/golden/models") || getenv("HY_TEST_MODEL")) {
        print_message("skipped: contract of every family: the larger set is not there\n");
        return;
    }
    for (uint32_t i = 0; i < HY_COUNT(names); i++)
        for (uint32_t k = 0; k < HY_COUNT(forms); k++) {
            char path[512];
            snprintf(path, sizeof path, HY_SHARED "/golden/models/%s/%s", names[i], forms[k]);
            if (!hy_is_file(path) && !hy_is_dir(path)) continue;
            run_model(names[i], path, -1);
            n++;
            break;
        }
    assert_int_equal(n, HY_COUNT(names));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(same_bits), cmocka_unit_test(every_family) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
