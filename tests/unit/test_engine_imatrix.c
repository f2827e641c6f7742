/* imatrix: the sums of one matrix against the same squares taken directly from the file's weights. */
#include "engine_tool_help.h"

#define N_CTX 32
#define MODEL HY_DATA "/models/llama3/model-bf16.gguf"

static const char text[] = "A text of some length, so that a few windows fit in it: the quick brown fox jumps over "
                           "the lazy dog, and the lazy dog, as ever, does not care. Numbers 1, 2, 3 and signs (+-*/).";

static hy_session *open_session(const char *model, bool no_fuse, uint32_t n_threads)
{
    hy_options o;
    hy_session *s;
    hy_options_init(&o);
    o.model = model;
    o.n_ctx = N_CTX;
    o.n_seq = 1;
    o.n_threads = n_threads;
    o.no_fuse = no_fuse;
    DRIVE_OK(hy_session_open(&s, &o, err));
    return s;
}

static void row(const hy_file *f, const char *tensor, uint64_t r, float *dst)
{
    const hy_tensor *t = hy_file_tensor(f, tensor);
    uint64_t bytes = 0;
    assert_true(t && hy_quant_row_bytes(t->qtype, t->dim[0], &bytes));
    hy_quant(t->qtype)->unpack(t->data + r * bytes, dst, t->dim[0]);
}

/* The first layer's Q, K and V see norm(embedding) of every token of every window. */
static void expect_first(const hy_file *f, const int32_t *ids, uint32_t n_window, int32_t bos, double sum[64])
{
    float x[64], w[64];
    row(f, "blk.0.attn_norm.weight", 0, w);
    memset(sum, 0, 64 * sizeof *sum);
    for (uint32_t i = 0; i < n_window * N_CTX; i++) {
        row(f, "token_embd.weight", (uint64_t)(i % N_CTX == 0 ? bos : ids[i]), x);
        double ss = 0;
        for (int k = 0; k < 64; k++) ss += (double)x[k] * x[k];
        for (int k = 0; k < 64; k++) {
            double y = x[k] / sqrt(ss / 64 + 1e-5) * w[k];
            sum[k] += y * y;
        }
    }
}

static void check_sums(const hy_file *im, const char *name, const double sum[64], float count)
{
    char key[128];
    float got[64], n;
    snprintf(key, sizeof key, "%s.in_sum2", name);
    row(im, key, 0, got);
    snprintf(key, sizeof key, "%s.counts", name);
    row(im, key, 0, &n);
    assert_true(n == count);
    for (int k = 0; k < 64; k++)
        if (fabs(got[k] - sum[k]) > 1e-4 * sum[k]) fail_msg("%s[%d] is %g, not %g", name, k, got[k], sum[k]);
}

static void test_first_layer(void **state)
{
    char path[128];
    int32_t *ids;
    size_t n;
    double sum[64];
    hy_session *s = open_session(MODEL, false, 2);
    DRIVE_OK(hy_session_tokenize(s, text, strlen(text), false, false, &ids, &n, err));
    assert_true(n >= 3 * N_CTX);
    DRIVE_OK(hy_tool_imatrix(s, text, strlen(text), 3, help_path(path, "i.gguf"), NULL, NULL, err));
    hy_session_close(s);
    hy_file *f, *im;
    DRIVE_OK(hy_file_open(&f, MODEL, err));
    DRIVE_OK(hy_file_open(&im, path, err));
    expect_first(f, ids, 3, 507, sum); /* BOS of this model */
    check_sums(im, "blk.0.attn_q.weight", sum, 3 * N_CTX);
    check_sums(im, "blk.0.attn_k.weight", sum, 3 * N_CTX);
    check_sums(im, "blk.0.attn_v.weight", sum, 3 * N_CTX);
    /* a pair for each matrix but the embedding: 7 a layer, and the output */
    assert_int_equal(im->n_tensor, 2 * (2 * 7 + 1));
    hy_str type;
    DRIVE_OK(hy_meta_string(im, "general.type", true, &type, err));
    assert_true(type.n == 7 && memcmp(type.p, "imatrix", 7) == 0);
    hy_file_close(f);
    hy_file_close(im);
    hy_memory_free(ids);
    help_sweep();
}

/* Experts: each is counted for the tokens that chose it, as many as there are choices. Neither fusion nor
 * threads change a byte. */
static void test_experts(void **state)
{
    const char *model = HY_DATA "/models/qwen2_moe/model-bf16.gguf";
    char path[128], *data[2];
    size_t n[2];
    for (int i = 0; i < 2; i++) {
        hy_session *s = open_session(model, i == 1, i == 1 ? 1 : 3);
        DRIVE_OK(hy_tool_imatrix(s, text, strlen(text), 2, help_path(path, "e.gguf"), NULL, NULL, err));
        hy_session_close(s);
        DRIVE_OK(hy_read_file(path, 1 << 24, &data[i], &n[i], err));
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(data[0], data[1], n[0]);
    hy_free(data[0]);
    hy_free(data[1]);
    hy_file *f, *im;
    DRIVE_OK(hy_file_open(&f, model, err));
    DRIVE_OK(hy_file_open(&im, path, err));
    uint64_t used = 0;
    DRIVE_OK(hy_meta_u64(f, "qwen2moe.expert_used_count", true, 1, 64, &used, err));
    static const char *const names[] = { "blk.0.ffn_up_exps", "blk.1.ffn_gate_exps", "blk.1.ffn_down_exps" };
    for (size_t i = 0; i < HY_COUNT(names); i++) {
        char key[128];
        snprintf(key, sizeof key, "%s.weight.counts", names[i]);
        const hy_tensor *t = hy_file_tensor(im, key);
        assert_non_null(t);
        double sum = 0;
        for (uint64_t e = 0; e < t->dim[1]; e++) {
            float c;
            row(im, key, e, &c);
            sum += c;
        }
        assert_true(sum == 2.0 * N_CTX * (double)used);
    }
    hy_file_close(f);
    hy_file_close(im);
    help_sweep();
}

static bool stop(void *ctx, uint64_t done, uint64_t all)
{
    return done >= 1;
}

static void test_faults(void **state)
{
    char path[128];
    hy_err why;
    hy_session *s = open_session(MODEL, false, 1);
    help_path(path, "f.gguf");
    assert_int_equal(hy_tool_imatrix(s, "short", 5, 0, path, NULL, NULL, &why), HY_E_ARG);
    assert_int_equal(hy_tool_imatrix(s, text, strlen(text), 0, path, stop, NULL, &why), HY_E_CANCELLED);
    assert_int_equal(hy_tool_imatrix(s, text, strlen(text), 1, "/nonexistent/x", NULL, NULL, &why), HY_E_IO);
    assert_int_equal(help_sweep(), 0);
    hy_session_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_layer),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, help_setup, help_teardown);
}
