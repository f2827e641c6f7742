/* quantize: types and mixes against goldens' logits, importance, overrides, faults. */
#include "engine_tool_help.h"
#include <signal.h>
#include <sys/resource.h>

/* An ordinary model of width 256, whose golden logits come from its own dequantised weights. */
#define SOURCE HY_DATA "/quantmodels/Q4_K_M"

static hy_status quantize(const char *in, const char *out, const char *type, hy_err *err)
{
    hy_quantize_params p = { .type = type, .n_threads = 2 };
    return hy_tool_quantize(in, out, &p, err);
}

static const char *source(void)
{
    return SOURCE "/model-q4_k_m.gguf";
}

static hy_qtype type_of(const char *path, const char *tensor)
{
    hy_file *f;
    DRIVE_OK(hy_file_open(&f, path, err));
    const hy_tensor *t = hy_file_tensor(f, tensor);
    if (!t) fail_msg("%s is missing", tensor);
    hy_qtype q = t->qtype;
    hy_file_close(f);
    return q;
}

/* Bounds for the root mean square of the logits' error (their spread is 3). Reference files of a sister
 * model, made by the format's own quantiser, are off by 0.31 (q6_k), 0.50 (q5_k_m), 0.90 (q4_k_m), 0.97
 * (iq4_xs), 1.06 (q4_0), 0.96 (q4_1), 1.26 (q3_k_m), 2.40 (q2_k): a quarter more is let pass here. */
static void test_types(void **state)
{
    static const struct { const char *type; double rms; } cases[] = {
        { "f32", 1e-4 }, { "f16", 0.02 }, { "bf16", 0.1 }, { "q8_0", 0.2 }, { "q6_k", 0.39 }, { "q5_k_m", 0.62 },
        { "q5_0", 0.8 }, { "q5_1", 0.8 }, { "q4_k_m", 1.12 }, { "q4_k_s", 1.12 }, { "q4_0", 1.33 }, { "q4_1", 1.2 },
        { "iq4_nl", 1.21 }, { "iq4_xs", 1.21 }, { "q3_k_l", 1.57 }, { "q3_k_m", 1.57 }, { "q3_k_s", 2 }, { "mxfp4", 2 },
        { "q2_k", 3 },
    };
    char out[128];
    help_path(out, "t.gguf");
    for (size_t i = 0; i < HY_COUNT(cases); i++) {
        DRIVE_OK(quantize(source(), out, cases[i].type, err));
        help_error e = help_logits(out, SOURCE);
        print_message("%-7s rms %.4f max %.3f\n", cases[i].type, e.rms, e.max);
        if (!(e.rms < cases[i].rms)) fail_msg("%s: rms %g is not below %g", cases[i].type, e.rms, cases[i].rms);
    }
    help_sweep();
}

static void load_floats(const char *path, float **data, size_t *n)
{
    char *bytes;
    DRIVE_OK(hy_read_file(path, 1 << 24, &bytes, n, err));
    *data = (float *)bytes;
    *n /= sizeof(float);
}

/* The sister model in q8_0, quantised here and by the format's own quantiser: the logits of both against
 * the q8_0 model's. */
static void test_against_reference(void **state)
{
    static const char *const types[] = { "Q6_K", "Q5_K_M", "Q4_K_M", "IQ4_XS", "Q4_0", "Q4_1", "Q3_K_M", "Q2_K" };
    const char *root = HY_SHARED "/golden/quantmodels";
    if (!hy_is_dir(root)) {
        print_message("no shared goldens: skipped\n");
        return;
    }
    char path[512], out[128];
    float *q8, *ref;
    size_t n, n_ref;
    snprintf(path, sizeof path, "%s/Q8_0/p64.f32", root);
    load_floats(path, &q8, &n);
    for (size_t i = 0; i < HY_COUNT(types); i++) {
        snprintf(path, sizeof path, "%s/%s/p64.f32", root, types[i]);
        load_floats(path, &ref, &n_ref);
        assert_int_equal(n, n_ref);
        double sum = 0;
        for (size_t k = 0; k < n; k++) sum += (double)(ref[k] - q8[k]) * (ref[k] - q8[k]);
        double theirs = sqrt(sum / (double)n);
        hy_free(ref);
        DRIVE_OK(quantize(HY_SHARED "/golden/quantmodels/Q8_0/model-q8_0.gguf", help_path(out, "s.gguf"), types[i], err));
        help_error e = help_logits(out, HY_SHARED "/golden/quantmodels/Q8_0");
        print_message("%-7s rms %.4f, reference's %.4f\n", types[i], e.rms, theirs);
        if (!(e.rms < 1.25 * theirs)) fail_msg("%s: rms %g, the reference's is %g", types[i], e.rms, theirs);
    }
    hy_free(q8);
    help_sweep();
}

/* Every name that is offered works. */
static void test_all_names(void **state)
{
    char out[128], list[512];
    snprintf(list, sizeof list, "%s", hy_tool_quantize_types());
    int n = 0;
    for (char *save, *s = strtok_r(list, ", ", &save); s; s = strtok_r(NULL, ", ", &save), n++)
        DRIVE_OK(quantize(source(), help_path(out, "n.gguf"), s, err));
    assert_true(n >= 20);
    DRIVE_OK(quantize(source(), out, "Q4-K-M", err)); /* any case, '-' */
    help_sweep();
}

static void test_mix_and_metadata(void **state)
{
    char f32[128], out[128];
    hy_file *a, *b;
    DRIVE_OK(quantize(source(), help_path(f32, "f32.gguf"), "f32", err));
    DRIVE_OK(quantize(f32, help_path(out, "m.gguf"), "q4_k_m", err));
    assert_int_equal(type_of(out, "token_embd.weight"), HY_Q_Q6_K); /* the output too: there is no other */
    assert_int_equal(type_of(out, "output_norm.weight"), HY_Q_F32);
    assert_int_equal(type_of(out, "blk.0.attn_norm.weight"), HY_Q_F32);
    assert_int_equal(type_of(out, "blk.0.attn_q.weight"), HY_Q_Q4_K);
    assert_int_equal(type_of(out, "blk.1.ffn_down.weight"), HY_Q_Q6_K); /* the last layer is favoured */
    assert_int_equal(type_of(out, "blk.0.ffn_down.weight"), HY_Q_Q4_K);
    DRIVE_OK(hy_file_open(&a, f32, err));
    DRIVE_OK(hy_file_open(&b, out, err));
    assert_int_equal(a->n_meta, b->n_meta);
    for (uint64_t i = 0; i < a->n_meta; i++) {
        const hy_meta *x = &a->meta[i], *y = hy_file_meta(b, x->key);
        if (!y || x->type != y->type || x->n != y->n) fail_msg("key %s differs", x->key);
    }
    uint64_t type = 0;
    DRIVE_OK(hy_meta_u64(b, "general.file_type", true, 0, 100, &type, err));
    assert_int_equal(type, 15);
    hy_file_close(a);
    hy_file_close(b);
    help_sweep();
}

static void test_overrides_and_fallback(void **state)
{
    const hy_quantize_override over[] = { { "blk.?.attn_q.*", "q8_0" }, { "blk.*", "q5_k" }, { "*", "f16" } };
    hy_quantize_params p = { .type = "q4_0", .override = over, .n_override = 3, .n_threads = 1 };
    char out[128];
    hy_err why;
    DRIVE_OK(hy_tool_quantize(source(), help_path(out, "o.gguf"), &p, err));
    assert_int_equal(type_of(out, "blk.1.attn_q.weight"), HY_Q_Q8_0);
    assert_int_equal(type_of(out, "blk.1.attn_k.weight"), HY_Q_Q5_K);
    assert_int_equal(type_of(out, "token_embd.weight"), HY_Q_F16);
    assert_int_equal(type_of(out, "blk.1.attn_norm.weight"), HY_Q_F32); /* norms are left alone */
    const hy_quantize_override bad = { "*", "q7" };
    p.override = &bad;
    p.n_override = 1;
    assert_int_equal(hy_tool_quantize(source(), out, &p, &why), HY_E_ARG);
    assert_non_null(strstr(why.msg, "q7"));
    /* rows of 64 and 112 have no room for blocks of 256; 112 none for 32 */
    DRIVE_OK(quantize(HY_DATA "/models/llama3/model-bf16.gguf", out, "q4_k_m", err));
    assert_int_equal(type_of(out, "blk.0.attn_q.weight"), HY_Q_Q8_0);
    assert_int_equal(type_of(out, "blk.0.ffn_down.weight"), HY_Q_F16);
    assert_true(help_logits(out, HY_DATA "/models/llama3").rms < 0.05);
    DRIVE_OK(quantize(HY_DATA "/models/qwen2_moe/model-bf16.gguf", out, "q4_0", err)); /* experts, routers */
    assert_int_equal(type_of(out, "blk.0.ffn_gate_exps.weight"), HY_Q_Q4_0);
    assert_true(hy_quant(type_of(out, "blk.0.ffn_gate_inp.weight"))->is_float);
    help_sweep();
}

static void read_all(const char *path, char **data, size_t *n)
{
    DRIVE_OK(hy_read_file(path, 1 << 26, data, n, err));
}

static void test_threads_agree(void **state)
{
    char out[128], *a, *b;
    size_t na, nb;
    hy_quantize_params p = { .type = "q3_k_m", .n_threads = 1 };
    DRIVE_OK(hy_tool_quantize(source(), help_path(out, "p.gguf"), &p, err));
    read_all(out, &a, &na);
    p.n_threads = 5;
    DRIVE_OK(hy_tool_quantize(source(), out, &p, err));
    read_all(out, &b, &nb);
    assert_int_equal(na, nb);
    assert_memory_equal(a, b, na);
    hy_free(a);
    hy_free(b);
    DRIVE_OK(quantize(out, out, "q8_0", err)); /* onto itself */
    assert_int_equal(type_of(out, "blk.0.attn_q.weight"), HY_Q_Q8_0);
    assert_int_equal(help_sweep(), 1);
}

/* ---- importance ---------------------------------------------------------------------------------- */

static hy_session *open_session(const char *model, uint32_t n_ctx)
{
    hy_options o;
    hy_session *s;
    hy_options_init(&o);
    o.model = model;
    o.n_ctx = n_ctx;
    o.n_seq = 1;
    o.n_threads = 2;
    DRIVE_OK(hy_session_open(&s, &o, err));
    return s;
}

static const char text[] = "A text of some length, so that a few windows fit in it: the quick brown fox jumps over "
                           "the lazy dog, and the lazy dog, as ever, does not care. Numbers 1, 2, 3 and signs (+-*/).";

/* sum over a tensor of importance * (x - q)^2 */
static double weighted_error(const char *ref, const char *got, const char *im, const char *name)
{
    char key[128];
    hy_file *f[3];
    const char *const path[3] = { ref, got, im };
    for (int i = 0; i < 3; i++) DRIVE_OK(hy_file_open(&f[i], path[i], err));
    snprintf(key, sizeof key, "%s.in_sum2", name);
    const hy_tensor *x = hy_file_tensor(f[0], name), *q = hy_file_tensor(f[1], name), *w = hy_file_tensor(f[2], key);
    assert_true(x && q && w && w->dim[0] == x->dim[0]);
    uint64_t k = x->dim[0], rows = x->dim[1], n = k * rows;
    float *a = malloc(n * 4), *b = malloc(n * 4);
    hy_quant(x->qtype)->unpack(x->data, a, n);
    hy_quant(q->qtype)->unpack(q->data, b, n);
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        float c;
        memcpy(&c, w->data + i % k * 4, 4);
        sum += c * (double)(a[i] - b[i]) * (a[i] - b[i]);
    }
    free(a);
    free(b);
    for (int i = 0; i < 3; i++) hy_file_close(f[i]);
    return sum;
}

static void test_importance(void **state)
{
    char im[128], plain[128], out[128];
    hy_err why;
    hy_session *s = open_session(source(), 32);
    DRIVE_OK(hy_tool_imatrix(s, text, strlen(text), 0, help_path(im, "im.gguf"), NULL, NULL, err));
    hy_session_close(s);
    hy_quantize_params p = { .type = "q3_k_s", .n_threads = 2 };
    DRIVE_OK(hy_tool_quantize(source(), help_path(plain, "plain.gguf"), &p, err));
    p.imatrix = im;
    DRIVE_OK(hy_tool_quantize(source(), help_path(out, "im-q.gguf"), &p, err));
    static const char *const names[] = { "blk.0.attn_q.weight", "blk.1.ffn_down.weight", "blk.0.ffn_up.weight" };
    for (size_t i = 0; i < HY_COUNT(names); i++) {
        double a = weighted_error(source(), plain, im, names[i]), b = weighted_error(source(), out, im, names[i]);
        print_message("%s: weighted error %.4g without, %.4g with importance\n", names[i], a, b);
        assert_true(b < a);
    }
    /* of another model: other sizes, or nothing at all */
    p.type = "q4_0";
    assert_int_equal(hy_tool_quantize(HY_DATA "/models/llama3/model-bf16.gguf", out, &p, &why), HY_E_FORMAT);
    p.imatrix = plain;
    assert_int_equal(hy_tool_quantize(source(), out, &p, &why), HY_E_ARG);
    help_sweep();
}

/* ---- faults --------------------------------------------------------------------------------------- */

static bool stop_at_half(void *ctx, uint64_t done, uint64_t all)
{
    uint64_t *last = ctx;
    assert_true(done >= *last && done <= all);
    *last = done;
    return done > all / 2;
}

static void test_cancel(void **state)
{
    char out[128];
    hy_err why;
    uint64_t last = 0;
    hy_quantize_params p = { .type = "q8_0", .n_threads = 2, .progress = stop_at_half, .progress_ctx = &last };
    assert_int_equal(hy_tool_quantize(source(), help_path(out, "c.gguf"), &p, &why), HY_E_CANCELLED);
    assert_int_equal(help_sweep(), 0);
}

static void test_full_disk(void **state)
{
    char out[128];
    hy_err why;
    struct rlimit old, small = { 100000, 100000 };
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    hy_status s = quantize(source(), help_path(out, "d.gguf"), "q8_0", &why);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(s, HY_E_IO);
    assert_int_equal(help_sweep(), 0);
}

static void test_refused(void **state)
{
    char out[128];
    hy_err why;
    help_path(out, "r.gguf");
    assert_int_equal(quantize(HY_DATA "/tok/vocabs/ggml-vocab-gpt-2.gguf", out, "q8_0", &why), HY_E_FORMAT);
    assert_int_equal(quantize(source(), "/nonexistent-folder/x.gguf", "q8_0", &why), HY_E_IO);
    hy_quantize_params p = { .type = "q8_0", .n_threads = 100000 };
    assert_int_equal(hy_tool_quantize(source(), out, &p, &why), HY_E_ARG);
    p = (hy_quantize_params){ .type = "q8_0", .imatrix = "/nonexistent" };
    assert_int_equal(hy_tool_quantize(source(), out, &p, &why), HY_E_IO);
    assert_int_equal(help_sweep(), 0);
}

/* Each allocation fails once: an error, nothing left behind, nothing leaked (under ASan). */
static void test_out_of_memory(void **state)
{
    char out[128];
    help_path(out, "a.gguf");
    for (int64_t i = 0; i < 400; i++) {
        hy_err why;
        hy_alloc_fail_after(i);
        hy_status s = quantize(HY_DATA "/models/llama3/hf", out, "q8_0", &why);
        hy_alloc_fail_after(-1);
        if (s == HY_OK) {
            assert_int_equal(help_sweep(), 1);
            return;
        }
        assert_int_equal(s, HY_E_MEMORY);
        assert_int_equal(help_sweep(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types), cmocka_unit_test(test_against_reference), cmocka_unit_test(test_all_names),
        cmocka_unit_test(test_mix_and_metadata), cmocka_unit_test(test_overrides_and_fallback),
        cmocka_unit_test(test_threads_agree),
        cmocka_unit_test(test_importance), cmocka_unit_test(test_cancel), cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, help_setup, help_teardown);
}
