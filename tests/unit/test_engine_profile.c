/* engine: the profile: its arithmetic by hand-made numbers, and the whole on a tiny model. */
#include "engine/profile.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define MODEL HY_DATA "/models/llama3/model-bf16.gguf"

static char folder[64];

/* A kept machine, so that nothing has to be measured. */
static int enter(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/hy-profile-XXXXXX");
    if (!mkdtemp(folder) || setenv("HAYATE_CACHE", folder, 1)) return -1;
    hy_topology top;
    hy_cpu_topology(&top);
    char *key = hy_machine_key(&top);
    json_t *o = json_loads("{\"seconds\": 3, \"read\": [{\"threads\": 1, \"l1\": 1e11, \"l2\": 5e10, \"l3\": 3e10, \"memory\": 1e10,"
                           "\"copy\": 5e9, \"barrier_ns\": 0}], \"operations\": [{\"isa\": \"scalar\", \"int8_one\": 2e9,"
                           "\"int8_all\": 2e9, \"f32_one\": 1e9, \"f32_all\": 1e9}]}", 0, NULL);
    bool kept = key && o && hy_cache_put("machine", key, o);
    json_decref(o);
    hy_free(key);
    return kept ? 0 : -1;
}

static int leave(void **state)
{
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", folder);
    return system(cmd);
}

static void near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-9 * fabs(b))) fail_msg("%.12g is not %.12g", a, b);
}

/* A model of one Q8_0 matrix and an F16 cache on a machine of round numbers. */
typedef struct made {
    hy_model model;
    hy_panels panels;
    hy_layer_params lp;
    hy_core core;
    hy_profile p;
} made;

static made *make(void)
{
    static made m;
    memset(&m, 0, sizeof m);
    m.panels = (hy_panels){ .type = HY_Q_Q8_0, .p = 8, .n_row = 1000, .k = 1024, .n_panel = 125, .panel_bytes = 8 * 1088 };
    m.model.tied = true;
    m.model.global[HY_W_TOK_EMBD] = (hy_weight){ .present = true, .n_expert = 1, .panels = &m.panels };
    m.model.hp = (hy_hparams){ .d_k = 64, .d_v = 64, .layer = &m.lp };
    m.model.kern.isa = "scalar";
    m.core = (hy_core){ .model = &m.model, .kv_type = HY_KV_F16 };
    hy_profile *p = &m.p;
    p->core = &m.core;
    p->rows = 1;
    p->top = (hy_topology){ .l3_bytes = 1000, .n_thread_default = 2 };
    p->probe.n_point = 2;
    p->probe.point[0] = (hy_probe_point){ 1, { 0, 0, 20e9, 10e9 }, 5e9, 0 };
    p->probe.point[1] = (hy_probe_point){ 2, { 0, 0, 40e9, 15e9 }, 5e9, 100 };
    p->probe.n_level = 1;
    p->probe.level[0] = (hy_probe_level){ "scalar", 100e9, 200e9, 50e9, 100e9 };
    return &m;
}

static void test_roof(void **state)
{
    made *m = make();
    hy_prof_phase f = { .name = "decode", .n_tok = 1, .n_step = 1, .n_thread = 2, .wall_ns = 10000, .n_op = 3 };
    f.op[0].t = (hy_op_time){ .op = HY_OP_NORM, .n = 1, .ns = 500, .bytes = 4000 };               /* cache: 4000 / 40 = 100 */
    f.op[1].t = (hy_op_time){ .op = HY_OP_MATMUL, .n = 1, .ns = 6000, .bytes = 75400, .mem_bytes = 75000,
                              .ops_int8 = 200000, .wait_ns = 700 };                                /* memory: 5000; ops 1000 */
    f.op[2].t = (hy_op_time){ .op = HY_OP_ATTENTION, .n = 1, .ns = 2000, .ops_f32 = 100000 };      /* ops: 1000 */
    hy_prof_roof(&m->p, &f);
    assert_int_equal(f.op[0].t.op, HY_OP_MATMUL); /* most time first */
    near(f.op[0].best_ns, 5000);
    near(f.op[0].ops_ns, 1000);
    assert_int_equal(f.op[0].bound, HY_BOUND_MEMORY);
    near(f.op[1].best_ns, 1000);
    assert_int_equal(f.op[1].bound, HY_BOUND_OPS);
    near(f.op[2].best_ns, 100);
    assert_int_equal(f.op[2].bound, HY_BOUND_CACHE);
    near(f.best_ns, 6100);
    near(f.wait_ns, 700);
    near(f.outside_ns, 10000 - 500 - 6000 - 2000 - 700);
    assert_int_equal(f.neck, HY_NECK_MEMORY);
    assert_false(f.in_cache);
    f.wait_ns = f.best_ns = 0; /* again, with much waiting */
    f.op[0].t.wait_ns = 3000;
    hy_prof_roof(&m->p, &f);
    assert_int_equal(f.neck, HY_NECK_WAITING);
    /* slow, and no limit is near: the operator that loses most is named */
    hy_prof_phase g = { .name = "prefill", .n_tok = 1, .n_step = 1, .n_thread = 1, .wall_ns = 10000, .n_op = 2 };
    g.op[0].t = (hy_op_time){ .op = HY_OP_QKV, .n = 1, .ns = 4000, .ops_int8 = 200000 };
    g.op[1].t = (hy_op_time){ .op = HY_OP_MATMUL, .n = 1, .ns = 5000, .ops_int8 = 100000 };
    hy_prof_roof(&m->p, &g);
    assert_int_equal(g.neck, HY_NECK_OPERATOR);
    assert_int_equal(g.op[g.i_neck].t.op, HY_OP_MATMUL);
    near(g.op[g.i_neck].best_ns, 1000); /* one thread: 100 G a second */
    /* all that is read fits the last cache: its speed is the limit */
    m->p.top.l3_bytes = 1000000;
    hy_prof_phase h = { .name = "decode", .n_tok = 1, .n_step = 1, .n_thread = 2, .wall_ns = 10000, .n_op = 1 };
    h.op[0].t = (hy_op_time){ .op = HY_OP_MATMUL, .n = 1, .ns = 6000, .bytes = 80000, .mem_bytes = 80000 };
    hy_prof_roof(&m->p, &h);
    assert_true(h.in_cache);
    near(h.op[0].best_ns, 2000);
}

static const hy_advice *find(const hy_profile *p, const char *word)
{
    for (uint32_t i = 0; i < p->n_advice; i++)
        if (strstr(p->advice[i].what, word)) return &p->advice[i];
    return NULL;
}

static void test_advice(void **state)
{
    made *m = make();
    hy_profile *p = &m->p;
    p->n_phase = 1;
    hy_prof_phase *f = &p->phase[0];
    *f = (hy_prof_phase){ .name = "decode", .n_tok = 1, .n_step = 1, .n_thread = 1, .wall_ns = 10000, .n_op = 2 };
    f->op[0].t = (hy_op_time){ .op = HY_OP_MATMUL, .n = 1, .ns = 6000, .bytes = 50000, .mem_bytes = 50000, .ops_int8 = 50000 };
    f->op[1].t = (hy_op_time){ .op = HY_OP_ATTENTION, .n = 1, .ns = 4000, .bytes = 30000, .mem_bytes = 30000 };
    hy_prof_weights(p);
    assert_int_equal(p->type_bytes[HY_Q_Q8_0], 125 * 8 * 1088);
    assert_int_equal(p->type_weights[HY_Q_Q8_0], 1000 * 1024);
    hy_prof_roof(p, f);
    hy_prof_advise(p, NULL);
    /* 0.6 bytes a weight instead of 1.0625: products take 6000 * 0.5647; their operations far less */
    const hy_advice *a = find(p, "4 bits");
    assert_non_null(a);
    near(a->gain, 10000 / (4000 + 6000 * 0.6 / 1.0625));
    /* two threads read 1.5 times as fast; all is operators' time */
    a = find(p, "-t 2 instead of 1");
    assert_non_null(a);
    near(a->gain, 1.5);
    /* attention's 3000 ns of reading become 3000 * (64 + 4) / 128 a token, with their page scales */
    double have = 2.0 * 16 * 64 * 2, q8 = (double)(hy_kv_k_bytes(HY_KV_Q8, 64) + hy_kv_v_bytes(HY_KV_Q8, 64));
    assert_true(q8 > have / 2 && q8 < 0.6 * have);
    a = find(p, "--kv-type q8");
    assert_non_null(a);
    near(a->gain, 10000 / (10000 - 3000 * (1 - q8 / have)));
    /* eight rows: products 6000 (their operations, 8 * 500, hide behind 5000 of reading), attention 8 * 4000 */
    a = find(p, "8 at once");
    assert_non_null(a);
    assert_true(a->throughput);
    near(a->gain, 8 * 10000.0 / (6000 + 8 * 4000));
    assert_null(find(p, "--weights q8_0"));
    /* four drafts, two of them right: three tokens in a step of five rows */
    a = find(p, "--speculate");
    assert_non_null(a);
    assert_true(a->sometimes);
    near(a->gain, 3 * 10000.0 / (6000 + 5 * 4000));
    /* best first, then what depends on the text, those for throughput last */
    for (uint32_t i = 1; i < p->n_advice; i++) {
        const hy_advice *x = &p->advice[i - 1], *y = &p->advice[i];
        int rank_x = 2 * x->throughput + x->sometimes, rank_y = 2 * y->throughput + y->sometimes;
        assert_true(rank_x < rank_y || (rank_x == rank_y && x->gain >= y->gain));
    }
    /* four-bit weights, the last thread, an 8-bit cache: only more rows a step are left */
    m = make();
    m->panels.type = HY_Q_Q4_0;
    m->panels.panel_bytes = 8 * 576;
    m->core.kv_type = HY_KV_Q8;
    p->n_phase = 1;
    *f = (hy_prof_phase){ .name = "decode", .n_tok = 1, .n_step = 1, .n_thread = 2, .wall_ns = 10000, .n_op = 1 };
    f->op[0].t = (hy_op_time){ .op = HY_OP_MATMUL, .n = 1, .ns = 9000, .bytes = 50000, .mem_bytes = 50000, .ops_int8 = 50000 };
    hy_prof_weights(p);
    hy_prof_roof(p, f);
    hy_prof_advise(p, NULL);
    assert_int_equal(p->n_advice, 2);
    assert_non_null(find(p, "8 at once"));
    assert_non_null(find(p, "--speculate"));
}

/* One row of an ablation, with the columns that matter. */
static void put(json_t *o, const char *technique, const char *setting, const char *baseline, double ttft, double itl, double tps,
                double gain)
{
    json_t *row = json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:{s:s, s:f}}", "technique", technique, "setting", setting, "baseline",
                            baseline, "ttft_ms", ttft, "itl_ms", itl, "tokens_s", tps, "gain", "what", "itl", "ratio", gain);
    assert_int_equal(json_array_append_new(json_object_get(o, "rows"), row), 0);
}

/* Measured numbers take the place of estimates; what was seen not to pay goes. */
static void test_measured(void **state)
{
    made *m = make();
    hy_profile *p = &m->p;
    p->n_phase = 1;
    hy_prof_phase *f = &p->phase[0];
    *f = (hy_prof_phase){ .name = "decode", .n_tok = 1, .n_step = 1, .n_thread = 1, .wall_ns = 10000, .n_op = 2 };
    f->op[0].t = (hy_op_time){ .op = HY_OP_MATMUL, .n = 1, .ns = 6000, .bytes = 50000, .mem_bytes = 50000, .ops_int8 = 50000 };
    f->op[1].t = (hy_op_time){ .op = HY_OP_ATTENTION, .n = 1, .ns = 4000, .bytes = 30000, .mem_bytes = 30000 };
    hy_prof_weights(p);
    hy_prof_roof(p, f);
    json_t *o = json_pack("{s:s, s:[]}", "time", "2026-11-30T14:25:00Z", "rows");
    put(o, "weights", "F32", "best", 900, 40, 25, 1);
    put(o, "weights", "Q8_0", "plain", 1, 1, 1, 1); /* of another baseline: not looked at */
    put(o, "weights", "q8_0 (file)", "best", 300, 12, 83, 3.3);
    put(o, "weights", "q4_0", "best", 310, 8, 125, 5);
    put(o, "threads", "1", "best", 300, 12, 83, 1);
    put(o, "threads", "2", "best", 200, 12.1, 82, 1); /* slower here, whatever the roofline says */
    put(o, "batching", "one at a time", "best", 0, 12, 83, 1);
    put(o, "batching", "8 at once", "best", 0, 30, 249, 3);
    put(o, "speculation", "off chat", "best", 0, 12, 83, 1);
    put(o, "speculation", "ngram chat", "best", 0, 12, 83, 1.01);
    put(o, "speculation", "ngram copy", "best", 0, 5, 200, 2.4);
    put(o, "speculation", "self copy (f16)", "best", 0, 5, 200, 9); /* of other weights */
    hy_prof_advise(p, o);
    const hy_advice *a = find(p, "4 bits");
    assert_true(a && a->measured);
    near(a->gain, 12.0 / 8);
    assert_null(find(p, "-t 2"));
    a = find(p, "8 at once");
    assert_true(a && a->measured);
    near(a->gain, 3);
    a = find(p, "--speculate ngram");
    assert_true(a && a->measured && strstr(a->what, "copy"));
    near(a->gain, 2.4);
    a = find(p, "--kv-type"); /* it has no row */
    assert_true(a && !a->measured);
    assert_string_equal(p->when, "2026-11-30");
    hy_buf b = { 0 };
    hy_prof_prose(p, f, &b);
    assert_non_null(strstr(b.data, "1. 1.50 times as fast (measured here): weights in 4 bits"));
    assert_non_null(strstr(b.data, "(an estimate): keys and values in 8 bits"));
    assert_non_null(strstr(b.data, "2026-11-30"));
    assert_null(strstr(b.data, "4. ")); /* three things */
    hy_buf_free(&b);
    json_decref(o);
}

/* Sentences for each bottleneck, with the numbers that they are about. */
static void test_prose(void **state)
{
    made *m = make();
    hy_profile *p = &m->p;
    p->n_phase = 1;
    hy_prof_phase *f = &p->phase[0];
    *f = (hy_prof_phase){ .name = "decode", .n_tok = 10, .n_step = 10, .n_thread = 2, .wall_ns = 1e8, .n_op = 1 };
    f->op[0].t = (hy_op_time){ .op = HY_OP_MATMUL, .n = 1, .ns = 90000000, .bytes = 750000000, .mem_bytes = 750000000 };
    hy_prof_weights(p);
    hy_prof_roof(p, f);
    hy_prof_advise(p, NULL);
    hy_buf b = { 0 };
    hy_prof_prose(p, f, &b);
    /* 75 MB a step at 15 GB/s: 5 of 10 ms; so 50 %, and at most 200 tokens a second instead of 100 */
    static const char *const want[] = { "100.0 tokens/s; a step takes 10.00 ms", "Bottleneck: the speed of memory", "75.0 MB", "15.0 GB/s",
                                        "5.00 of the 10.00 ms", "50 % of the measured limit", "200 tokens/s", "`matmul` takes most, 90 % of the time",
                                        "hayate bench --ablation MODEL" };
    for (size_t i = 0; i < HY_COUNT(want); i++)
        if (!strstr(b.data, want[i])) fail_msg("no '%s' in: %s", want[i], b.data);
    hy_buf_free(&b);
    p->probe.n_point = 0; /* a machine that was never measured */
    f->neck = HY_NECK_UNKNOWN;
    p->n_advice = 0;
    hy_prof_prose(p, f, &b);
    assert_non_null(strstr(b.data, "hayate cpu"));
    assert_null(strstr(b.data, "Worth trying"));
    assert_null(strstr(b.data, "Nothing known"));
    hy_buf_free(&b);
}

static hy_session *open_tiny(uint32_t n_ctx)
{
    hy_options o;
    hy_options_init(&o);
    o.model = MODEL;
    o.n_ctx = n_ctx;
    o.n_threads = 2;
    o.n_seq = 2;
    hy_session *s = NULL;
    hy_err err = { 0 };
    if (hy_session_open(&s, &o, &err) != HY_OK) fail_msg("%s", err.msg);
    return s;
}

static double num(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    if (!json_is_number(v)) fail_msg("%s is no number", name);
    return json_number_value(v);
}

static void check_phase(const json_t *f)
{
    double sum = num(f, "waiting_ms") + num(f, "outside_ms");
    size_t i;
    json_t *op;
    json_array_foreach(json_object_get(f, "operators"), i, op) {
        sum += num(op, "ms");
        assert_true(num(op, "n") > 0 && num(op, "memory_bytes") <= num(op, "bytes"));
    }
    assert_true(i > 5);
    if (fabs(sum - num(f, "ms")) > 0.01 * num(f, "ms")) fail_msg("parts: %.4f ms, whole: %.4f ms", sum, num(f, "ms"));
}

static void test_whole(void **state)
{
    hy_session *s = open_tiny(128);
    char trace[128], *text = NULL;
    snprintf(trace, sizeof trace, "%s/trace.json", folder);
    hy_profile_params p = { .n_prompt = 32, .n_gen = 8, .depth = 16, .trace = trace, .json = true };
    hy_err err = { 0 };
    if (hy_session_profile(s, &p, &text, &err) != HY_OK) fail_msg("%s", err.msg);
    json_t *o = json_loads(text, 0, NULL), *phases = json_object_get(o, "phases");
    assert_int_equal(json_array_size(phases), 2);
    for (int i = 0; i < 2; i++) check_phase(json_array_get(phases, (size_t)i));
    assert_true(num(json_array_get(phases, 1), "steps") == 8);
    json_decref(o);
    hy_memory_free(text);
    o = json_load_file(trace, 0, NULL);
    size_t n_step = 0, i;
    json_t *e;
    json_array_foreach(json_object_get(o, "traceEvents"), i, e)
        n_step += strncmp(json_string_value(json_object_get(e, "name")), "step ", 5) == 0;
    assert_int_equal(n_step, 1 + 8);
    json_decref(o);
    /* as text, decode alone, two sequences */
    p = (hy_profile_params){ .n_gen = 4, .rows = 2 };
    if (hy_session_profile(s, &p, &text, &err) != HY_OK) fail_msg("%s", err.msg);
    assert_non_null(strstr(text, "decode: 4 tokens of each of 2 sequences"));
    assert_null(strstr(text, "prefill:"));
    assert_non_null(strstr(text, "Bottleneck:"));
    assert_non_null(strstr(text, "waiting at barriers"));
    hy_memory_free(text);
    hy_session_close(s);
}

static void test_refused(void **state)
{
    hy_session *s = open_tiny(64);
    char *text = NULL;
    hy_err err = { 0 };
    hy_profile_params p = { 0 };
    assert_int_equal(hy_session_profile(s, &p, &text, &err), HY_E_ARG);
    p = (hy_profile_params){ .n_gen = 60, .depth = 10 };
    assert_int_equal(hy_session_profile(s, &p, &text, &err), HY_E_LIMIT);
    assert_non_null(strstr(err.msg, "64"));
    p = (hy_profile_params){ .n_gen = 4, .rows = 3 };
    assert_int_equal(hy_session_profile(s, &p, &text, &err), HY_E_ARG);
    p = (hy_profile_params){ .n_gen = 4, .trace = "/nonexistent/t.json" };
    assert_int_equal(hy_session_profile(s, &p, &text, &err), HY_E_IO);
    assert_null(text);
    hy_session_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roof),  cmocka_unit_test(test_advice), cmocka_unit_test(test_measured), cmocka_unit_test(test_prose),
        cmocka_unit_test(test_whole), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
