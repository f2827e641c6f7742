/* plan: what a step refuses, what it allocates (nothing), what compile does without memory, explain. */
#include "../common/drive.h"

#define MODEL HY_DATA "/models/qwen2_moe/model-bf16.gguf"
#define WINDOWED HY_DATA "/models/gpt_oss/model-bf16.gguf"

static void load(hy_model **m, const char *path)
{
    DRIVE_OK(drive_load(m, path, NULL, -1, err));
}

typedef struct step {          /* a good step of two rows, to be spoilt */
    int32_t tok[8], pos[8];
    uint32_t out[8];
    hy_row row[2];
    hy_batch b;
} step;

static void good(step *s, drive *d)
{
    *s = (step){ .tok = { 1, 2, 3, 4, 5 }, .pos = { 0, 1, 2, 0, 1 }, .out = { 2, 4 },
                 .row = { { &d->t[0], 0, 3, 0, 0 }, { &d->t[1], 3, 2, 0, 0 } } };
    s->b = (hy_batch){ .n_tok = 5, .token = s->tok, .pos = s->pos, .n_row = 2, .row = s->row, .n_out = 2, .out_tok = s->out };
}

static void refused(drive *d, step *s, float *logits, hy_status code, const char *word)
{
    hy_err err = { 0 };
    assert_int_equal(hy_plan_run(d->plan, d->team, d->kv, &s->b, logits, &err), code);
    if (!strstr(err.msg, word)) fail_msg("\"%s\" does not say \"%s\"", err.msg, word);
    good(s, d);
}

static void bad_steps_are_refused(void **state)
{
    (void)state;
    hy_model *m = NULL;
    load(&m, MODEL);
    drive d;
    drive_over(&d, m, &(drive_opts){ .n_thread = 2, .n_ctx = 64, .n_tok_max = 8 });
    float *logits = malloc(8ul * d.n_vocab * sizeof *logits);
    for (uint32_t i = 0; i < 2; i++) DRIVE_OK(hy_kv_reserve(d.kv, &d.t[i], 3, err));
    step s;
    good(&s, &d);
    DRIVE_OK(hy_plan_run(d.plan, d.team, d.kv, &s.b, logits, err));
    s.tok[1] = (int32_t)d.n_vocab;
    refused(&d, &s, logits, HY_E_ARG, "vocabulary");
    s.tok[4] = -1;
    refused(&d, &s, logits, HY_E_ARG, "token -1");
    s.pos[2] = 5;
    refused(&d, &s, logits, HY_E_ARG, "position 5");
    s.row[1].pos0 = 3;
    refused(&d, &s, logits, HY_E_ARG, "reserved");
    s.row[1].pos0 = UINT32_MAX;
    refused(&d, &s, logits, HY_E_LIMIT, "context of 64");
    s.row[1].tok_first = 2;
    refused(&d, &s, logits, HY_E_ARG, "row 1");
    s.row[1].n_tok = UINT32_MAX;
    refused(&d, &s, logits, HY_E_ARG, "row 1");
    s.row[1].n_tok = 1;
    refused(&d, &s, logits, HY_E_ARG, "rows hold 4");
    s.row[0].table = NULL;
    refused(&d, &s, logits, HY_E_ARG, "row 0");
    s.b.n_tok = 9;
    refused(&d, &s, logits, HY_E_LIMIT, "9 tokens");
    s.b.n_tok = 0;
    refused(&d, &s, logits, HY_E_LIMIT, "0 tokens");
    s.b.n_row = 0;
    refused(&d, &s, logits, HY_E_LIMIT, "0 sequences");
    s.out[1] = 2;
    refused(&d, &s, logits, HY_E_ARG, "ascending");
    s.out[1] = 5;
    refused(&d, &s, logits, HY_E_ARG, "below 5");
    s.b.n_out = 9;
    refused(&d, &s, logits, HY_E_LIMIT, "9 tokens");
    refused(&d, &s, NULL, HY_E_ARG, "no room");
    s.b.n_out = 0; /* nothing wanted: no room needed */
    DRIVE_OK(hy_plan_run(d.plan, d.team, d.kv, &s.b, NULL, err));
    free(logits);
    drive_close(&d);
    hy_model_free(m);
}

static void slid_pages_are_refused(void **state)
{
    (void)state;
    hy_model *m = NULL;
    load(&m, WINDOWED);
    drive d;
    drive_over(&d, m, &(drive_opts){ .n_thread = 1, .n_ctx = 256, .n_tok_max = 100 });
    int32_t tok[100] = { 0 }, pos = 40;
    drive_step(&d, 0, tok, 100, 0, 0, NULL);
    hy_kv_slide(d.kv, &d.t[0], 100);
    hy_kv_truncate(d.kv, &d.t[0], 40);
    DRIVE_OK(hy_kv_reserve(d.kv, &d.t[0], 41, err));
    hy_row row = { &d.t[0], 0, 1, 40, 0 };
    hy_batch b = { .n_tok = 1, .token = tok, .pos = &pos, .n_row = 1, .row = &row };
    hy_err err = { 0 };
    assert_int_equal(hy_plan_run(d.plan, d.team, d.kv, &b, NULL, &err), HY_E_ARG);
    assert_non_null(strstr(err.msg, "slid out"));
    drive_close(&d);
    hy_model_free(m);
}

static void steps_allocate_nothing(void **state)
{
    (void)state;
    hy_model *m = NULL;
    load(&m, MODEL);
    drive d;
    drive_over(&d, m, &(drive_opts){ .n_thread = 3, .n_ctx = 128, .n_tok_max = 64 });
    hy_plan_timing(d.plan, true);
    float *logits = malloc(64ul * d.n_vocab * sizeof *logits);
    int32_t tok[64];
    for (int32_t i = 0; i < 64; i++) tok[i] = i;
    uint64_t before = hy_alloc_count();
    drive_step(&d, 0, tok, 64, 0, 0, logits);
    for (uint32_t i = 0; i < 20; i++) drive_step(&d, 0, tok, 1, 64 + i, 0, logits);
    assert_int_equal(hy_alloc_count(), before);
    hy_op_time t[HY_OP_COUNT];
    uint32_t n = hy_plan_times(d.plan, t);
    assert_true(n > 5);
    for (uint32_t i = 0; i < n; i++) assert_true(t[i].n >= 2 && t[i].bytes > 0);
    assert_true(hy_plan_bytes(d.plan) > 64ul * m->hp.n_embd * sizeof(float));
    free(logits);
    drive_close(&d);
    hy_model_free(m);
}

static void compile_without_memory(void **state)
{
    (void)state;
    hy_model *m = NULL;
    load(&m, MODEL);
    hy_plan_opts o = { .fuse = true, .n_ctx = 64, .n_tok_max = 8, .n_out_max = 8, .n_row_max = 2 };
    uint32_t n_failed = 0;
    for (int64_t n = 0;; n++) {
        hy_plan *p = NULL;
        hy_err err = { 0 };
        hy_alloc_fail_after(n);
        hy_status st = hy_plan_compile(&p, m, &o, &err);
        hy_alloc_fail_after(-1);
        hy_plan_free(p);
        if (st == HY_OK) break;
        assert_int_equal(st, HY_E_MEMORY);
        n_failed++;
    }
    assert_true(n_failed >= 3);
    hy_plan *p = NULL;
    hy_plan_opts bad = o;
    bad.n_ctx = 0;
    assert_int_equal(hy_plan_compile(&p, m, &bad, NULL), HY_E_ARG);
    bad = o;
    bad.n_tok_max = 0;
    assert_int_equal(hy_plan_compile(&p, m, &bad, NULL), HY_E_ARG);
    bad = o;
    bad.kv_type = HY_KV_Q4; /* heads of 16 */
    assert_int_equal(hy_plan_compile(&p, m, &bad, NULL), HY_E_UNSUPPORTED);
    bad = o;
    bad.n_tok_max = UINT32_MAX;
    assert_true(hy_plan_compile(&p, m, &bad, NULL) != HY_OK);
    hy_plan_free(NULL);
    hy_model_free(m);
}

static void explains(void **state)
{
    (void)state;
    hy_model *m = NULL;
    load(&m, MODEL);
    hy_plan_opts o = { .fuse = true, .n_ctx = 64, .n_tok_max = 8, .n_row_max = 1 };
    hy_buf text = { 0 }, js = { 0 };
    DRIVE_OK(hy_plan_explain(m, &o, false, &text, err));
    assert_non_null(strstr(text.data, "qkv"));
    assert_non_null(strstr(text.data, "blk.0.ffn_down_exps (bf16)"));
    /* in the primitive form layer 1 is layer 0 again: named, not listed; the JSON lists all */
    char *fused_text = strstr(text.data, "\nFUSED");
    assert_non_null(fused_text);
    *fused_text = 0;
    assert_non_null(strstr(text.data, "layer 1: the same 22 again"));
    assert_null(strstr(text.data, "blk.1."));
    DRIVE_OK(hy_plan_explain(m, &o, true, &js, err));
    assert_non_null(strstr(js.data, "blk.1.ffn_down_exps (bf16)"));
    json_t *root = json_loads(js.data, 0, NULL);
    assert_non_null(root);
    json_int_t plain = json_integer_value(json_object_get(json_object_get(root, "primitive"), "instructions"));
    const json_t *fused = json_object_get(root, "fused");
    /* 1 + 2 * 22 + 3 recipe rows of this family's layers; fusion takes some away */
    assert_int_equal(plain, 48);
    assert_true(json_integer_value(json_object_get(fused, "instructions")) < 30);
    assert_int_equal(json_array_size(json_object_get(fused, "list")),
                     json_integer_value(json_object_get(fused, "instructions")));
    json_decref(root);
    hy_buf_free(&text);
    hy_buf_free(&js);
    hy_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_steps_are_refused), cmocka_unit_test(slid_pages_are_refused),
        cmocka_unit_test(steps_allocate_nothing), cmocka_unit_test(compile_without_memory),
        cmocka_unit_test(explains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
