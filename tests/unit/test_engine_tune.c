/* engine: the search of `hayate tune` on machines that are made up, where the best settings are known; which values are
 * tried where; and the file that the settings are kept in. */
#include "engine/tune.h"
#include "cpu/cpu_room.h"
#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <cmocka.h>

/* ---- a machine that is made up ------------------------------------------------------------------------------- */

typedef struct fake {
    double factor[HY_TUNE_KNOBS][HY_TUNE_VALUES]; /* of the cost; 0: 1 */
    double guard[HY_TUNE_KNOBS][HY_TUNE_VALUES];  /* of guard 0 */
    double lost[HY_TUNE_KNOBS][HY_TUNE_VALUES];
    hy_status fails[HY_TUNE_KNOBS][HY_TUNE_VALUES];
    double noise;              /* share, uniform to both sides */
    double cross;              /* times, when knobs 0 and 1 both stand at 1 */
    double slow_down;          /* later measurements cost more: the share a measurement */
    uint64_t seed;
    uint32_t n, n_most;        /* measurements; those the time allows */
    uint32_t stop_at;          /* cancelled then; 0: never */
} fake;

static double cost_of(const fake *f, const hy_tune_point *p)
{
    double c = 100;
    for (int k = 0; k < HY_TUNE_KNOBS; k++)
        if (f->factor[k][p->at[k]] > 0) c *= f->factor[k][p->at[k]];
    return f->cross > 0 && p->at[0] == 1 && p->at[1] == 1 ? c * f->cross : c;
}

static hy_status measure(void *ctx, const hy_tune_point *p, hy_tune_sample *out, hy_err *err)
{
    fake *f = ctx;
    f->n++;
    if (f->stop_at && f->n >= f->stop_at) return hy_fail(err, HY_E_CANCELLED, "stopped");
    for (int k = 0; k < HY_TUNE_KNOBS; k++)
        if (f->fails[k][p->at[k]] != HY_OK) return hy_fail(err, f->fails[k][p->at[k]], "value %u cannot run", p->at[k]);
    double u = 2 * hy_rng_unit(hy_rng_at(f->seed, 1, f->n)) - 1;
    out->cost = cost_of(f, p) * (1 + f->noise * u) * (1 + f->slow_down * f->n);
    out->guard[0] = 10;
    out->guard[1] = 1;
    for (int k = 0; k < HY_TUNE_KNOBS; k++)
        if (f->guard[k][p->at[k]] > 0) out->guard[0] *= f->guard[k][p->at[k]];
    return HY_OK;
}

static hy_status loss(void *ctx, const hy_tune_point *p, double *out, hy_err *err)
{
    fake *f = ctx;
    *out = 0;
    for (int k = 0; k < HY_TUNE_KNOBS; k++) *out += f->lost[k][p->at[k]];
    return HY_OK;
}

static double spent(void *ctx)
{
    fake *f = ctx;
    return f->n_most ? (double)f->n / f->n_most : 0;
}

static hy_tune_search *begin(fake *f, uint32_t n_knob, uint32_t n_value)
{
    hy_tune_search *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->field = (hy_tune_field){ .ctx = f, .measure = measure, .loss = loss, .spent = spent };
    s->n_knob = n_knob;
    for (uint32_t i = 0; i < n_knob; i++) s->n_value[i] = n_value;
    s->floor = 0.02;
    return s;
}

static void run(hy_tune_search *s)
{
    hy_err err = { 0 };
    if (hy_tune_run(s, &err) != HY_OK) fail_msg("%s", err.msg);
}

static const hy_tune_trial *trial(const hy_tune_search *s, uint32_t knob, uint32_t value)
{
    for (uint32_t i = s->n_trial; i-- > 0;)
        if (s->trial[i].knob == knob && s->trial[i].value == value) return &s->trial[i];
    fail_msg("value %u of setting %u was not tried", value, knob);
    return NULL;
}

static void test_finds_the_best(void **state)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        fake f = { .seed = seed, .noise = 0.01 };
        f.factor[0][1] = 1.4, f.factor[0][2] = 0.8, f.factor[0][3] = 0.9;
        f.factor[1][1] = 1.05, f.factor[1][2] = 1.2, f.factor[1][3] = 1.01;
        f.factor[2][1] = 0.9, f.factor[2][2] = 0.97, f.factor[2][3] = 2;
        hy_tune_search *s = begin(&f, 3, 4);
        run(s);
        assert_int_equal(s->best.at[0], 2);
        assert_int_equal(s->best.at[1], 0);
        assert_int_equal(s->best.at[2], 1);
        assert_true(fabs(s->ratio - 0.72) < 0.02);
        assert_true(fabs(s->cost_default - 100) < 2 && fabs(s->cost_best - 72) < 2);
        assert_int_equal(trial(s, 0, 1)->n_round, 1); /* hopeless after one round */
        assert_true(s->n_measured == f.n && f.n < 3 + 2 * 3 * 7 * 4 + 14);
        free(s);
    }
}

/* Nothing helps: with any noise the defaults stay, or what is taken costs no more. */
static void test_equals_the_defaults(void **state)
{
    uint32_t moved = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        fake f = { .seed = seed, .noise = 0.002 * (double)(seed % 30) };
        hy_tune_search *s = begin(&f, 4, 3);
        run(s);
        moved += cost_of(&f, &s->best) > 100.0001;
        if (s->best.at[0] + s->best.at[1] + s->best.at[2] + s->best.at[3] == 0) assert_true(s->ratio == 1);
        free(s);
        fake g = { .seed = seed, .noise = 0.03 };
        for (int k = 0; k < 4; k++) g.factor[k][1] = 1.03, g.factor[k][2] = 1.06;
        s = begin(&g, 4, 3);
        run(s);
        moved += cost_of(&g, &s->best) > 100.0001;
        free(s);
    }
    assert_int_equal(moved, 0);
}

/* The machine gets slower while it is measured: comparisons in turns do not mind. */
static void test_drift(void **state)
{
    fake f = { .slow_down = 0.01 };
    f.factor[1][2] = 0.85;
    hy_tune_search *s = begin(&f, 2, 3);
    run(s);
    assert_int_equal(s->best.at[0], 0);
    assert_int_equal(s->best.at[1], 2);
    free(s);
}

static void test_time(void **state)
{
    for (uint32_t most = 1; most < 60; most += 3) {
        fake f = { .seed = most, .n_most = most, .noise = 0.005 };
        for (int k = 0; k < 5; k++) f.factor[k][1] = 0.9, f.factor[k][3] = 1.1;
        hy_tune_search *s = begin(&f, 5, 4);
        run(s);
        assert_true(f.n <= most + 3 + 6 + 5); /* the defaults, the final rounds, the end of a round */
        if (most < 40) assert_true(s->out_of_time);
        assert_true(cost_of(&f, &s->best) <= 100.0001);
        free(s);
    }
}

/* Two settings that help alone and hurt together: what was kept last is taken back. */
static void test_taken_back(void **state)
{
    fake f = { .noise = 0.001 };
    f.factor[0][1] = 0.9;
    hy_tune_search *s = begin(&f, 2, 2);
    run(s);
    assert_int_equal(s->best.at[0], 1);
    free(s);
    fake g = { .cross = 1.5 };
    g.factor[0][1] = 0.9, g.factor[1][1] = 0.8;
    s = begin(&g, 2, 2);
    run(s);
    assert_int_equal(s->best.at[0], 1);
    assert_int_equal(s->best.at[1], 0);
    assert_true(fabs(s->ratio - 0.9) < 1e-9);
    free(s);
}

static void test_limits(void **state)
{
    fake f = { 0 };
    f.factor[0][1] = 0.5, f.guard[0][1] = 2;     /* twice as fast, and the first token twice as late */
    f.factor[0][2] = 0.8, f.guard[0][2] = 1.05;
    hy_tune_search *s = begin(&f, 1, 3);
    s->guard_max[0] = 11;
    run(s);
    assert_int_equal(s->best.at[0], 2);
    assert_int_equal(trial(s, 0, 1)->verdict, HY_TUNE_LIMIT);
    assert_true(s->in_limits);
    free(s);
    s = begin(&f, 1, 3);
    s->guard_share[0] = 1.01;                     /* a share of the defaults' */
    run(s);
    assert_int_equal(s->best.at[0], 0);
    free(s);
    fake g = { 0 }; /* the defaults are beyond the limit: nearer is better, whatever it costs */
    g.factor[0][1] = 1.3, g.guard[0][1] = 0.5;
    g.factor[0][2] = 0.7, g.guard[0][2] = 1.2;
    s = begin(&g, 1, 3);
    s->guard_max[0] = 6;
    run(s);
    assert_int_equal(s->best.at[0], 1);
    assert_true(s->in_limits);
    s->guard_max[0] = 2;                          /* and where none keeps it, that is said */
    run(s);
    assert_int_equal(s->best.at[0], 1);
    assert_false(s->in_limits);
    free(s);
}

static void test_quality(void **state)
{
    fake f = { 0 };
    f.factor[0][1] = 0.8, f.lost[0][1] = 0.004;
    f.factor[0][2] = 0.5, f.lost[0][2] = 0.03;
    f.factor[1][1] = 0.9, f.lost[1][1] = 0.008;  /* would be allowed alone: losses add up */
    f.factor[2][1] = 0.9;
    hy_tune_search *s = begin(&f, 3, 3);
    s->lossy[0] = s->lossy[1] = true;
    run(s);                                       /* no loss allowed: not even tried */
    assert_int_equal(s->best.at[0], 0);
    assert_int_equal(s->best.at[2], 1);
    for (uint32_t i = 0; i < s->n_trial; i++) assert_int_equal(s->trial[i].knob, 2);
    s->loss_max = 0.01;
    run(s);
    assert_int_equal(s->best.at[0], 1);
    assert_int_equal(s->best.at[1], 0);
    assert_int_equal(trial(s, 0, 2)->verdict, HY_TUNE_LOSS);
    assert_int_equal(trial(s, 0, 2)->n_round, 0);
    assert_true(fabs(trial(s, 0, 2)->loss - 0.03) < 1e-12 && fabs(trial(s, 1, 1)->loss - 0.012) < 1e-12);
    free(s);
}

static void test_failures(void **state)
{
    fake f = { 0 };
    f.factor[0][2] = 0.8;
    f.fails[0][1] = HY_E_UNSUPPORTED;
    hy_tune_search *s = begin(&f, 1, 3);
    run(s);
    assert_int_equal(s->best.at[0], 2);
    assert_int_equal(trial(s, 0, 1)->verdict, HY_TUNE_FAILED);
    assert_string_equal(trial(s, 0, 1)->why, "value 1 cannot run");
    f.fails[0][1] = HY_E_MEMORY;                  /* no matter of the value */
    hy_err err;
    assert_int_equal(hy_tune_run(s, &err), HY_E_MEMORY);
    free(s);
}

static void test_stopped(void **state)
{
    for (uint32_t at = 4; at < 60; at++) {
        fake f = { .stop_at = at };
        f.factor[0][1] = 0.8;
        f.factor[2][2] = 0.9;
        hy_tune_search *s = begin(&f, 3, 3);
        run(s);
        if (f.n < at) {
            assert_false(s->stopped);
            free(s);
            break;
        }
        assert_true(s->stopped);
        assert_true(cost_of(&f, &s->best) <= 100);
        assert_true(fabs(cost_of(&f, &s->best) / 100 - s->ratio) < 1e-9); /* what was found by then is what is said */
        free(s);
    }
    fake f = { .stop_at = 1 };
    hy_tune_search *s = begin(&f, 3, 3);
    hy_err err;
    assert_int_equal(hy_tune_run(s, &err), HY_E_CANCELLED); /* nothing is known yet */
    free(s);
}

/* ---- which values -------------------------------------------------------------------------------------------- */

static bool tries(const hy_tune_knob *k, const char *value)
{
    for (uint32_t i = 1; i < k->n && !k->closed[0]; i++)
        if (strcmp(k->value[i], value) == 0) return true;
    return false;
}

static void test_threads(void **state)
{
    uint32_t v[HY_TUNE_VALUES];
    hy_topology t = { .n_cpu_online = 2, .n_cpu_allowed = 2, .n_core_allowed = 2, .n_thread_default = 2 };
    assert_int_equal(hy_tune_thread_values(&t, 2, v), 1);
    assert_int_equal(v[0], 1);
    assert_int_equal(hy_tune_thread_values(&t, 1, v), 1);
    assert_int_equal(v[0], 2);
    t = (hy_topology){ .n_cpu_online = 128, .n_cpu_allowed = 128, .n_core_allowed = 64, .n_thread_default = 64 };
    uint32_t n = hy_tune_thread_values(&t, 64, v);
    assert_int_equal(v[0], 128);
    assert_int_equal(v[1], 48);
    for (uint32_t i = 0; i < n; i++) assert_true(v[i] >= 1 && v[i] <= 128 && v[i] != 64);
    t.quota_cpus = 3.5, t.n_thread_default = 3;   /* a quota: never more than it */
    n = hy_tune_thread_values(&t, 3, v);
    for (uint32_t i = 0; i < n; i++) assert_true(v[i] < 3);
}

static void put(const char *root, const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s", root, path);
    assert_true(hy_make_folders(full));
    assert_int_equal(hy_write_file(full, text, strlen(text), NULL), HY_OK);
}

/* Half a processor by control group, on a machine of two: there is no second thread to choose. */
static void test_half_a_core(void **state)
{
    char root[] = "/tmp/hy-tune-XXXXXX", cmd[128];
    hy_cgroup group;
    assert_non_null(mkdtemp(root));
    put(root, "proc/self/cgroup", "0::/half\n");
    put(root, "sys/fs/cgroup/half/cpu.max", "50000 100000\n");
    hy_cgroup_read(&group, root);
    assert_true(group.quota_cpus == 0.5);
    hy_topology t = { .n_cpu_online = 2, .n_cpu_allowed = 2, .n_core_allowed = 2 };
    hy_topology_limit(&t, &group);
    assert_int_equal(t.n_thread_default, 1);
    hy_options o;
    hy_options_init(&o);
    for (int goal = 0; goal < HY_TUNE_GOALS; goal++) {
        hy_tune_place p = { .top = t,
                            .goal = (hy_tune_goal)goal,
                            .o = &o,
                            .n_threads = 1,
                            .n_threads_decode = 1,
                            .n_step = 256,
                            .n_ctx = 2048,
                            .n_prompt = 512,
                            .kv_type = "f16",
                            .bits = 4.5 };
        hy_tune_knob k[HY_TUNE_K_COUNT];
        hy_tune_knobs(&p, k);
        assert_int_equal(k[HY_TUNE_K_THREADS].n, 1);
        assert_string_equal(k[HY_TUNE_K_THREADS].value[0], "1");
        assert_non_null(strstr(k[HY_TUNE_K_THREADS].closed, "0.50"));
        assert_int_equal(k[HY_TUNE_K_DECODE].n, 1);
        assert_true(k[HY_TUNE_K_PIN].closed[0] != 0);
    }
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", root);
    assert_int_equal(system(cmd), 0);
}

static void test_values(void **state)
{
    hy_options o, out;
    hy_options_init(&o);
    hy_tune_place p = { .top = { .n_cpu_online = 8, .n_cpu_allowed = 8, .n_core_allowed = 8, .n_thread_default = 8 },
                        .goal = HY_TUNE_THROUGHPUT,
                        .o = &o,
                        .n_threads = 8,
                        .n_threads_decode = 4,
                        .n_step = 256,
                        .n_ctx = 4096,
                        .n_prompt = 1000,
                        .kv_type = "f16",
                        .bits = 8.5,
                        .huge_pages = true };
    hy_tune_knob k[HY_TUNE_K_COUNT];
    hy_tune_knobs(&p, k);
    assert_true(tries(&k[HY_TUNE_K_THREADS], "4") && tries(&k[HY_TUNE_K_THREADS], "6") &&
                !tries(&k[HY_TUNE_K_THREADS], "8"));
    assert_true(tries(&k[HY_TUNE_K_DECODE], "8") && tries(&k[HY_TUNE_K_DECODE], "2"));
    assert_true(tries(&k[HY_TUNE_K_STEP], "512") && tries(&k[HY_TUNE_K_STEP], "64") &&
                tries(&k[HY_TUNE_K_SPEC], "ngram"));
    assert_true(tries(&k[HY_TUNE_K_SPEC], "self") && !tries(&k[HY_TUNE_K_SPEC], "draft"));
    assert_true(tries(&k[HY_TUNE_K_PIN], "true") && tries(&k[HY_TUNE_K_HUGE], "true"));
    assert_true(k[HY_TUNE_K_WEIGHTS].closed[0] && k[HY_TUNE_K_KV].closed[0] && k[HY_TUNE_K_PAGE].closed[0]);
    p.loss = true;
    hy_tune_knobs(&p, k);
    assert_true(tries(&k[HY_TUNE_K_WEIGHTS], "q5_0") && tries(&k[HY_TUNE_K_WEIGHTS], "q4_0") &&
                !tries(&k[HY_TUNE_K_WEIGHTS], "q8_0"));
    assert_true(tries(&k[HY_TUNE_K_KV], "q8") && !tries(&k[HY_TUNE_K_KV], "f16"));

    hy_tune_point at = { { 0 } };
    out = o;
    hy_tune_apply(&p, k, &at, &out);
    assert_memory_equal(&out, &o, sizeof o);      /* the defaults are the defaults */
    at.at[HY_TUNE_K_DECODE] = 1;                  /* 8 */
    at.at[HY_TUNE_K_KV] = 1;
    at.at[HY_TUNE_K_WEIGHTS] = 1;
    hy_tune_apply(&p, k, &at, &out);
    assert_int_equal(out.n_threads, 8);
    assert_int_equal(out.n_threads_decode, 8);
    assert_string_equal(out.kv_type, "q8");
    assert_string_equal(out.weights, "q5_0");
    assert_true(out.weights_all);
    hy_buf b = { 0 };
    hy_tune_lines(&p, k, &at, &b);
    assert_string_equal(b.data, "weights = q5_0\nweights-all = true\nkv-type = q8\nthreads-decode = 8\nthreads = 8\n");
    hy_buf_free(&b);

    o.n_threads = 3, o.n_step = 128, o.kv_type = "q8", o.weights = "q8_0", o.speculate = "ngram",
    o.pin = o.no_huge_pages = true;
    hy_tune_knobs(&p, k);                         /* what was given is not touched */
    for (int i = 0; i < HY_TUNE_K_COUNT; i++) assert_true(k[i].closed[0] != 0);
    p.goal = HY_TUNE_TTFT;
    o.n_step = 0;
    p.n_prompt = 200;
    hy_tune_knobs(&p, k);
    assert_false(tries(&k[HY_TUNE_K_STEP], "512")); /* one step takes the whole prompt as it is */
    p.n_prompt = 512;
    hy_tune_knobs(&p, k);
    assert_true(tries(&k[HY_TUNE_K_STEP], "512") && !tries(&k[HY_TUNE_K_STEP], "1024")); /* the same step */
    p.n_prompt = 600;
    hy_tune_knobs(&p, k);
    assert_true(tries(&k[HY_TUNE_K_STEP], "512") && tries(&k[HY_TUNE_K_STEP], "1024"));
}

/* ---- the file -------------------------------------------------------------------------------------------------- */

#define MODEL HY_DATA "/models/llama3/model-bf16.gguf"

static char folder[64];

static int enter(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/hy-tuned-XXXXXX");
    return mkdtemp(folder) ? setenv("HAYATE_CACHE", folder, 1) : -1;
}

static int leave(void **state)
{
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", folder);
    return system(cmd);
}

static char *a_file(const char *machine, const char *version, const char *id, const char *lines)
{
    static char text[4096];
    snprintf(text, sizeof text,
             "#! hayate-tuned 1\n#! version %s\n#! machine %s\n#! model %s model.gguf\n#! goal ttft\n#! gain 1.25\n"
             "# why\n\n%s",
             version, machine, id, lines);
    return text;
}

static void test_file(void **state)
{
    char id[17], path[128], *machine;
    hy_err err = { 0 };
    hy_tuned t;
    assert_int_equal(hy_tool_model_id(MODEL, id, &err), HY_OK);
    assert_int_equal(hy_tool_machine(&machine, &err), HY_OK);
    assert_int_equal(hy_tool_tuned(MODEL, NULL, &t, &err), HY_OK);
    assert_int_equal(t.state, HY_TUNED_NONE);
    hy_topology top;
    char name[80];
    hy_cpu_topology(&top);
    assert_true(hy_tuned_name(id, &top, name));
    snprintf(path, sizeof path, "hayate/%s", name);
    put(folder, path, a_file(machine, HY_VERSION, id, "threads = 2\n  step=512 \r\npin = true\n"));
    assert_int_equal(hy_tool_tuned(MODEL, NULL, &t, &err), HY_OK);
    assert_int_equal(t.state, HY_TUNED_FITS);
    assert_int_equal(t.n, 3);
    assert_string_equal(t.item[0].name, "threads");
    assert_string_equal(t.item[0].value, "2");
    assert_string_equal(t.item[1].value, "512");
    assert_string_equal(t.goal, "ttft");
    assert_true(t.gain == 1.25);
    hy_tuned_free(&t);
    static const struct { const char *machine, *version, *id; hy_tuned_state want; } rows[] = {
        { "a PDP-11; quota 0.50", HY_VERSION, NULL, HY_TUNED_OTHER_MACHINE },
        { NULL, "0.0.9", NULL, HY_TUNED_OTHER_VERSION },
        { NULL, HY_VERSION, "0123456789abcdef", HY_TUNED_OTHER_MODEL },
    };
    for (size_t i = 0; i < HY_COUNT(rows); i++) {
        put(folder, path,
            a_file(rows[i].machine ? rows[i].machine : machine, rows[i].version, rows[i].id ? rows[i].id : id,
                   "threads = 2\n"));
        assert_int_equal(hy_tool_tuned(MODEL, NULL, &t, &err), HY_OK);
        assert_int_equal(t.state, rows[i].want);
        hy_tuned_free(&t);
    }
    /* what another machine left in a shared folder */
    char cmd[400];
    snprintf(cmd, sizeof cmd, "cd '%s/hayate' && mv '%s' tuned-%s-0000000000000000.conf", folder, name, id);
    assert_int_equal(system(cmd), 0);
    assert_int_equal(hy_tool_tuned(MODEL, NULL, &t, &err), HY_OK);
    assert_int_equal(t.state, HY_TUNED_OTHER_MACHINE);
    assert_null(t.path);
    assert_int_equal(hy_tool_tuned("/no/such/model", NULL, &t, &err), HY_OK); /* whoever opens it says so */
    assert_int_equal(t.state, HY_TUNED_NONE);
    hy_memory_free(machine);
}

static void refuse(const char *text, size_t n, const char *const words[4])
{
    char path[128];
    hy_err err = { 0 };
    hy_tuned t;
    snprintf(path, sizeof path, "%s/x.conf", folder);
    assert_int_equal(hy_write_file(path, text, n, NULL), HY_OK);
    hy_status s = hy_tool_tuned(MODEL, path, &t, &err);
    assert_int_not_equal(s, HY_OK);
    assert_null(t.text);
    for (int i = 0; i < 4 && words[i]; i++)
        if (!strstr(err.msg, words[i])) fail_msg("'%s' lacks '%s'", err.msg, words[i]);
}

static void test_file_is_checked(void **state)
{
    char id[17];
    hy_err err;
    assert_int_equal(hy_tool_model_id(MODEL, id, &err), HY_OK);
    static const struct { const char *lines; const char *words[4]; } rows[] = {
        { "threads = 0\n", { "x.conf", "line 9", "threads", "256" } },
        { "threads = 257\n", { "threads", "257", "256" } },
        { "threads = two\n", { "threads", "two" } },
        { "step = 16385\n", { "step", "16384" } },
        { "kv-type = f8\n", { "kv-type", "f8", "q4" } },
        { "kv-type =\n", { "kv-type", "q4" } },
        { "kv-type = f1\n", { "kv-type", "'f1'" } },
        { "weights = q9_9\n", { "weights", "q9_9" } },
        { "pin = perhaps\n", { "pin", "perhaps", "true" } },
        { "speculate = everybody\n", { "speculate", "everybody", "ngram" } },
        { "draft =\n", { "draft" } },
        { "threads 2\n", { "line 9", "name = value" } },
        { "host = 0.0.0.0\n", { "host", "tune" } },
        { "pin = true\nthreads = 2\npin = false\n", { "line 11", "pin", "twice" } },
    };
    for (size_t i = 0; i < HY_COUNT(rows); i++) {
        const char *text = a_file("m", HY_VERSION, id, rows[i].lines);
        refuse(text, strlen(text), rows[i].words);
    }
    refuse("", 0, (const char *const[4]){ "first line" });
    refuse("threads = 2\n", 12, (const char *const[4]){ "first line", "#! hayate-tuned 1" });
    refuse("#! hayate-tuned 1\nthreads = 2\n", 30, (const char *const[4]){ "head", "version" });
    refuse("#! hayate-tuned 1\n\0threads = 2\n", 31, (const char *const[4]){ "not a text" });
    const char *bad =
        "#! hayate-tuned 1\n#! version 1\n#! machine m\n#! model 0123456789abcdef x\n#! goal fun\n#! gain 1\n";
    refuse(bad, strlen(bad), (const char *const[4]){ "goal", "fun", "memory" });
    bad = "#! hayate-tuned 1\n#! version 1\n#! machine m\n#! model 0123456789abcdef x\n#! goal ttft\n#! gain inf\n";
    refuse(bad, strlen(bad), (const char *const[4]){ "gain" });
    hy_tuned t;
    assert_int_equal(hy_tool_tuned(MODEL, "/no/such/file", &t, &err), HY_E_IO);
}

static void test_params(void **state)
{
    hy_options o;
    hy_options_init(&o);
    o.model = MODEL;
    char *report;
    hy_err err;
    static const struct { hy_tune_params p; const char *word;
    } rows[] = {
        { { .goal = NULL }, "goal" },
        { { .goal = "speed" }, "speed" },
        { { .goal = "ttft", .minutes = -1 }, "minutes" },
        { { .goal = "ttft", .quality_loss = 2 }, "quality_loss" },
        { { .goal = "memory", .speed_loss = 1 }, "speed_loss" },
        { { .goal = "ttft", .ttft_ms = 200 }, "goal" },
        { { .goal = "throughput", .ttft_ms = -1 }, "ttft_ms" },
        { { .goal = "throughput", .n_stream = 300 }, "300" },
    };
    for (size_t i = 0; i < HY_COUNT(rows); i++) {
        assert_int_equal(hy_tool_tune(&o, &rows[i].p, &report, &err), HY_E_ARG);
        assert_non_null(strstr(err.msg, rows[i].word));
        assert_null(report);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_the_best), cmocka_unit_test(test_equals_the_defaults),
        cmocka_unit_test(test_drift),          cmocka_unit_test(test_time),
        cmocka_unit_test(test_taken_back),     cmocka_unit_test(test_limits),
        cmocka_unit_test(test_quality),        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_stopped),        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_half_a_core),    cmocka_unit_test(test_values),
        cmocka_unit_test(test_file),           cmocka_unit_test(test_file_is_checked),
        cmocka_unit_test(test_params),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
