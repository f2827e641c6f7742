/* What the last matrix product keeps of its outputs: the same bits as measuring the finished logits, whoever made them
 * and with whom, and the logits themselves are the same as without. */
#include "../common/drive.h"

enum { N_TOK = 12, N_SEQ = 3 };

static hy_model *model;
static float *plain;           /* [N_SEQ][N_TOK][n_vocab] */
static int32_t tok[N_SEQ][N_TOK];

static void measure(const hy_kernels *k, const float *x, uint32_t n, float t, hy_logit_row *to)
{
    for (uint32_t b = 0; b < hy_logit_blocks(n); b++) {
        uint32_t at = b * HY_LOGIT_BLOCK;
        hy_kern_logit_block(k, x + at, HY_MIN((uint32_t)HY_LOGIT_BLOCK, n - at), t, &to->max[b], t > 0 ? &to->sum[b] : NULL);
    }
}

/* Steps of n_tok tokens of each sequence together; logits of all of them. */
static void check(uint32_t n_thread, bool no_fuse, uint32_t n_tok)
{
    drive d;
    drive_over(&d, model, &(drive_opts){ .n_thread = n_thread, .no_fuse = no_fuse, .n_ctx = 64, .n_tok_max = N_SEQ * N_TOK,
                                         .n_page = 64 });
    hy_kernels scalar;
    hy_kern_fill_scalar(&scalar, d.m->kern.panel);
    uint32_t v = d.n_vocab, n_block = hy_logit_blocks(v), n_row = N_SEQ * n_tok;
    float *logits = malloc((size_t)n_row * v * sizeof *logits), *have = malloc((size_t)n_row * 2 * n_block * sizeof *have);
    float *want = malloc(2 * n_block * sizeof *want);
    hy_logit_row *kept = malloc(n_row * sizeof *kept);
    for (uint32_t at = 0; at < N_TOK; at += n_tok) {
        int32_t token[N_SEQ * N_TOK], pos[N_SEQ * N_TOK];
        uint32_t out[N_SEQ * N_TOK];
        hy_row row[N_SEQ];
        for (uint32_t s = 0; s < N_SEQ; s++) {
            DRIVE_OK(hy_kv_reserve(d.kv, &d.t[s], at + n_tok, err));
            row[s] = (hy_row){ &d.t[s], s * n_tok, n_tok, at, N_TOK };
            for (uint32_t k = 0; k < n_tok; k++) {
                token[s * n_tok + k] = tok[s][at + k];
                pos[s * n_tok + k] = (int32_t)(at + k);
            }
        }
        for (uint32_t i = 0; i < n_row; i++) {
            out[i] = i;
            kept[i] = (hy_logit_row){ i % 3 == 0 ? 0 : i % 3 == 1 ? 1 : 0.7f, have + i * 2ul * n_block, have + (i * 2ul + 1) * n_block };
        }
        memset(have, 0x7f, (size_t)n_row * 2 * n_block * sizeof *have);
        hy_batch b = { .n_tok = n_row, .token = token, .pos = pos, .n_row = N_SEQ, .row = row, .n_out = n_row,
                       .out_tok = out, .kept = kept };
        DRIVE_OK(hy_plan_run(d.plan, d.team, d.kv, &b, logits, err));
        for (uint32_t i = 0; i < n_row; i++) {
            uint32_t s = i / n_tok, p = at + i % n_tok;
            assert_memory_equal(logits + (size_t)i * v, plain + ((size_t)s * N_TOK + p) * v, v * sizeof *logits);
            hy_logit_row ref = { 0, want, want + n_block };
            measure(&scalar, logits + (size_t)i * v, v, kept[i].temperature, &ref);
            assert_memory_equal(kept[i].max, ref.max, n_block * sizeof(float));
            if (kept[i].temperature > 0) assert_memory_equal(kept[i].sum, ref.sum, n_block * sizeof(float));
        }
    }
    free(logits);
    free(have);
    free(want);
    free(kept);
    drive_close(&d);
}

static void run_model(const char *path)
{
    DRIVE_OK(drive_load(&model, path, NULL, -1, err));
    uint32_t v = model->hp.n_vocab;
    plain = malloc((size_t)N_SEQ * N_TOK * v * sizeof *plain);
    drive d;
    drive_over(&d, model, &(drive_opts){ .n_ctx = 64, .n_tok_max = N_TOK, .n_page = 64 });
    for (uint32_t s = 0; s < N_SEQ; s++) {
        for (uint32_t k = 0; k < N_TOK; k++) tok[s][k] = (int32_t)(hy_rng_at(3, s, k) % v);
        drive_step(&d, s, tok[s], N_TOK, 0, N_TOK, plain + (size_t)s * N_TOK * v);
    }
    drive_close(&d);
    for (uint32_t n_thread = 1; n_thread <= 5; n_thread += 2)
        for (int no_fuse = 0; no_fuse < 2; no_fuse++)
            for (uint32_t n_tok = 1; n_tok <= N_TOK; n_tok *= 12) check(n_thread, no_fuse, n_tok);
    free(plain);
    hy_model_free(model);
    print_message("%s: vocabulary %u\n", path, v);
}

/* gemma2 caps its logits, cohere and granite scale them: both after the product. */
static void small_models(void **state)
{
    static const char *const names[] = { "llama3/model-bf16", "gemma2/model-f32", "cohere/model-f32", "granite/model-bf16" };
    for (uint32_t i = 0; i < HY_COUNT(names); i++) {
        char path[512];
        snprintf(path, sizeof path, HY_DATA "/models/%s.gguf", names[i]);
        run_model(path);
    }
}

static void real_model(void **state)
{
    const char *path = getenv("HAYATE_SMOLLM2");
    if (path && *path) run_model(path);
    else print_message("skipped: real model: needs HAYATE_SMOLLM2\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(small_models), cmocka_unit_test(real_model) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
