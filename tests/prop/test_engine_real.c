/* Real models: the same bits whatever the schedule, perplexity against transformers, and what the fast
 * numeric paths cost. Models: HAYATE_SMOLLM2, HAYATE_GEMMA3; a test without them is skipped. */
#include <hayate/hayate.h>
#include <hayate/tools.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_LONG = 70, N_SHORT = 6, N_REQ = 7, N_GEN = 24 };

typedef struct real {
    const char *env;
    double ppl;                /* transformers, F32, on the dequantised weights */
    double kl_max;             /* most mean KL of the default path against F32, in nats */
} real;
static const real smollm2 = { "HAYATE_SMOLLM2", 14.624066, 2e-3 }, gemma3 = { "HAYATE_GEMMA3", 9.488680, 2e-3 };

static char *text; /* tests/data/text, shared by all */
static size_t n_text;

static const char *path_of(const real *m)
{
    const char *path = getenv(m->env);
    if (path && *path) return path;
    print_message("skipped: real models: needs %s\n", m->env);
    return NULL;
}

static hy_options options(const char *path)
{
    hy_options o;
    hy_options_init(&o);
    o.model = path;
    o.n_ctx = 512;
    o.n_threads = 2;
    o.n_seq = 1;
    return o;
}

static hy_session *open_session(const hy_options *o)
{
    hy_session *s;
    hy_err err;
    if (hy_session_open(&s, o, &err) != HY_OK) fail_msg("%s", err.msg);
    return s;
}

static int32_t *ids_of(hy_session *s, uint32_t n)
{
    int32_t *ids;
    size_t n_ids;
    hy_err err;
    if (hy_session_tokenize(s, text, 2000, true, false, &ids, &n_ids, &err) != HY_OK) fail_msg("%s", err.msg);
    assert_true(n_ids >= n);
    return ids;
}

/* Logits of every position (all) or the last one; malloc'd. */
static float *logits(hy_session *s, uint32_t n, uint32_t chunk, bool all, size_t *bytes)
{
    hy_facts f;
    hy_err err;
    hy_session_facts(s, &f);
    *bytes = (size_t)(all ? n : 1) * f.n_vocab * sizeof(float);
    float *out = malloc(*bytes);
    int32_t *ids = ids_of(s, n);
    assert_non_null(out);
    if (hy_session_logits(s, ids, n, chunk, all, out, &err) != HY_OK) fail_msg("%s", err.msg);
    hy_memory_free(ids);
    return out;
}

static void same(const char *what, unsigned value, const float *a, float *b, size_t bytes)
{
    if (memcmp(a, b, bytes) != 0) fail_msg("%s %u: other bits", what, value);
    free(b);
}

static void schedules(const real *m)
{
    const char *path = path_of(m);
    if (!path) return;
    hy_options o = options(path);
    hy_session *s = open_session(&o);
    size_t bytes, n_last;
    float *all = logits(s, N_LONG, 0, true, &bytes);
    const unsigned chunk[] = { 1, 5, 16, 64 };
    for (size_t i = 0; i < sizeof chunk / sizeof *chunk; i++)
        same("chunks of", chunk[i], all, logits(s, N_LONG, chunk[i], true, &n_last), bytes);
    float *last = logits(s, N_LONG, 0, false, &n_last);
    assert_memory_equal(last, (char *)all + bytes - n_last, n_last);
    hy_session_close(s);
    free(all);
    const unsigned threads[] = { 1, 3, 8 };
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        o.n_threads = threads[i];
        s = open_session(&o);
        same("threads", threads[i], last, logits(s, N_LONG, 0, false, &n_last), n_last);
        hy_session_close(s);
    }
    o.n_threads = 2;
    o.no_fuse = true;
    s = open_session(&o);
    same("unfused", 1, last, logits(s, N_LONG, 0, false, &n_last), n_last);
    hy_session_close(s);
    free(last);
}

/* Every instruction set of this machine; scalar too. A short prompt: scalar is slow. */
static void instruction_sets(const real *m)
{
    const char *path = path_of(m);
    if (!path) return;
    static const char *const isa[] = { "scalar", "avx2", "avx512", "neon", "dotprod", "i8mm" };
    float *first = NULL;
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof isa / sizeof *isa; i++) {
        hy_options o = options(path);
        o.isa = isa[i];
        hy_session *s;
        if (hy_session_open(&s, &o, NULL) != HY_OK) continue; /* not this machine's */
        float *got = logits(s, N_SHORT, 0, true, &bytes);
        if (!first) first = got;
        else same(isa[i], 0, first, got, bytes);
        hy_session_close(s);
        print_message("%s ", isa[i]);
    }
    print_message("\n");
    assert_non_null(first);
    free(first);
}

static void kv_types(const real *m)
{
    const char *path = path_of(m);
    if (!path) return;
    static const char *const type[] = { "f32", "f16", "bf16", "q8", "q4" };
    float *before = NULL;
    for (size_t i = 0; i < sizeof type / sizeof *type; i++) {
        hy_options o = options(path);
        o.kv_type = type[i];
        size_t bytes;
        hy_session *s = open_session(&o);
        float *a = logits(s, N_LONG, 0, false, &bytes);
        same(type[i], 7, a, logits(s, N_LONG, 7, false, &bytes), bytes);
        hy_session_close(s);
        o.n_threads = 3;
        s = open_session(&o);
        same(type[i], 1, a, logits(s, N_LONG, 1, false, &bytes), bytes);
        hy_session_close(s);
        if (before) assert_memory_not_equal(before, a, bytes); /* each type is in force */
        free(before);
        before = a;
    }
    free(before);
}

/* ---- the engine ------------------------------------------------------------------------------------ */

typedef struct answer {
    int32_t id[N_GEN];
    float logprob[N_GEN];
    uint32_t n;
} answer;

/* Request i: another piece of the text, another length; odd ones are sampled. */
static hy_request *submit(hy_engine *e, unsigned i)
{
    hy_params p;
    hy_request *r;
    hy_err err;
    hy_params_init(&p);
    p.prompt = text + 10 + i * 200;
    p.n_prompt = 30 + i * 60;
    p.max_tokens = N_GEN;
    p.temperature = i % 2 ? 0.9 : 0;
    p.seed = 40 + i;
    p.ignore_eos = true;
    p.top_logprobs = 0;
    if (hy_submit(e, &p, &r, &err) != HY_OK) fail_msg("%s", err.msg);
    return r;
}

static void collect(hy_request *r, answer *a)
{
    hy_event ev;
    hy_err err;
    memset(a, 0, sizeof *a);
    do {
        if (hy_poll(r, -1, &ev, &err) != HY_OK) fail_msg("%s", err.msg);
        for (uint32_t i = 0; i < ev.n_token; i++) {
            assert_true(a->n < N_GEN);
            a->id[a->n] = ev.token[i].id;
            a->logprob[a->n++] = ev.token[i].logprob;
        }
    } while (ev.kind != HY_EV_DONE);
    hy_release(r);
    assert_int_equal(a->n, N_GEN);
}

static void crowd(const hy_options *o, const answer *alone, hy_counters *n)
{
    hy_engine *e;
    hy_err err;
    if (hy_open(&e, o, &err) != HY_OK) fail_msg("%s", err.msg);
    hy_request *r[N_REQ];
    for (unsigned i = 0; i < N_REQ; i++) r[i] = submit(e, i);
    for (unsigned i = 0; i < N_REQ; i++) {
        answer a;
        collect(r[i], &a);
        assert_memory_equal(a.id, alone[i].id, sizeof a.id);
        assert_memory_equal(a.logprob, alone[i].logprob, sizeof a.logprob);
    }
    hy_engine_counters(e, n);
    assert_int_equal(n->alloc_in_step, 0);
    hy_close(e);
}

static void alone_and_in_a_crowd(const real *m)
{
    const char *path = path_of(m);
    if (!path) return;
    hy_options o = options(path);
    hy_engine *e;
    hy_err err;
    hy_counters n;
    answer alone[N_REQ];
    o.n_ctx = 224;
    if (hy_open(&e, &o, &err) != HY_OK) fail_msg("%s", err.msg);
    for (unsigned i = 0; i < N_REQ; i++) collect(submit(e, i), &alone[i]);
    hy_close(e);
    o.n_seq = N_REQ;
    crowd(&o, alone, &n);
    o.n_step = 13;
    o.n_threads = 3;
    o.kv_tokens = 224;
    crowd(&o, alone, &n);
    /* whether somebody is paused or all wait their turn is the scheduler's choice; test_engine_contract pauses */
    print_message("%llu pauses\n", (unsigned long long)n.n_paused);
}

/* ---- quality --------------------------------------------------------------------------------------- */

static double perplexity(const char *path, bool exact)
{
    hy_options o = options(path);
    if (exact) {
        o.act_f32 = true;
        o.kv_type = "f32";
    }
    hy_session *s = open_session(&o);
    hy_ppl_params p = { .text = text, .n_text = n_text, .n_window = 2 };
    hy_ppl_result r;
    hy_err err;
    if (hy_session_perplexity(s, &p, &r, &err) != HY_OK) fail_msg("%s", err.msg);
    assert_int_equal(r.n_scored, 512);
    hy_session_close(s);
    return r.ppl;
}

static void quality(const real *m)
{
    const char *path = path_of(m);
    if (!path) return;
    double exact = perplexity(path, true), fast = perplexity(path, false);
    print_message("perplexity %.6f in F32, %.6f by default; transformers %.6f\n", exact, fast, m->ppl);
    assert_true(fabs(exact / m->ppl - 1) < 1e-4);
    /* the mean of 512 log ratios whose variance is 2 KL: four standard errors at the KL allowed */
    assert_true(fabs(fast / m->ppl - 1) < 0.0112);
    hy_options o = options(path);
    hy_session *s = open_session(&o);
    o.act_f32 = true;
    o.kv_type = "f32";
    hy_session *base = open_session(&o);
    hy_ppl_params p = { .text = text, .n_text = n_text, .window = 256 };
    hy_ppl_result r;
    hy_err err;
    if (hy_session_kl(base, s, &p, &r, &err) != HY_OK) fail_msg("%s", err.msg);
    print_message("KL of int8 activations and F16 cache: mean %.6f (goal 0.002), largest %.6f, same best %.4f\n",
                  r.kl_mean, r.kl_max, r.same_top);
    assert_true(r.kl_mean >= 0 && r.kl_mean <= m->kl_max);
    hy_session_close(s);
    hy_session_close(base);
}

static int read_text(void **state)
{
    FILE *f = fopen(HY_DATA "/text/wikitext-2-head.txt", "rb");
    if (!f) return -1;
    text = calloc(1, 16384);
    n_text = text ? fread(text, 1, 16383, f) : 0;
    fclose(f);
    return n_text > 4000 ? 0 : -1;
}

static int free_text(void **state)
{
    free(text);
    return 0;
}

#define BOTH(name)                                                                                 \
    static void name##_smollm2(void **state) { name(&smollm2); }                                   \
    static void name##_gemma3(void **state) { name(&gemma3); }
BOTH(schedules)
BOTH(instruction_sets)
BOTH(kv_types)
BOTH(alone_and_in_a_crowd)
BOTH(quality)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_smollm2), cmocka_unit_test(schedules_gemma3),
        cmocka_unit_test(instruction_sets_smollm2), cmocka_unit_test(instruction_sets_gemma3),
        cmocka_unit_test(kv_types_smollm2), cmocka_unit_test(kv_types_gemma3),
        cmocka_unit_test(alone_and_in_a_crowd_smollm2), cmocka_unit_test(alone_and_in_a_crowd_gemma3),
        cmocka_unit_test(quality_smollm2), cmocka_unit_test(quality_gemma3),
    };
    return cmocka_run_group_tests(tests, read_text, free_text);
}
