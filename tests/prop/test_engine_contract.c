/* The engine through its public interface: the same tokens alone and in a crowd, under pressure, with
 * every KV mode; cancelling, stop strings, limits; nothing allocated inside steps. */
#include <hayate/hayate.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODEL HY_DATA "/models/llama3/model-bf16.gguf"
enum { N_GEN = 40, N_REQ = 12 };

typedef struct answer {
    int32_t id[N_GEN];
    float logprob[N_GEN];
    uint32_t n;
    char text[4096];
    hy_event done;
} answer;

static hy_engine *open_engine(void (*change)(hy_options *))
{
    hy_options o;
    hy_err err;
    hy_engine *e;
    hy_options_init(&o);
    o.model = MODEL;
    o.n_ctx = 256;
    o.n_threads = 2;
    if (change) change(&o);
    if (hy_open(&e, &o, &err) != HY_OK) fail_msg("%s", err.msg);
    return e;
}

/* Prompt i: a different length and different tokens for each. */
static hy_request *submit(hy_engine *e, unsigned i, double temperature, uint32_t n_gen)
{
    int32_t ids[200];
    hy_params p;
    hy_params_init(&p);
    p.tokens = ids;
    p.n_tokens = 3 + i * 13 % 150;
    for (unsigned k = 0; k < p.n_tokens; k++) ids[k] = (int32_t)(10 + (i * 31 + k * 17) % 480);
    p.max_tokens = n_gen;
    p.temperature = temperature;
    p.seed = 1000 + i;
    p.ignore_eos = true;
    p.top_logprobs = 2;
    hy_request *r;
    hy_err err;
    if (hy_submit(e, &p, &r, &err) != HY_OK) fail_msg("%s", err.msg);
    return r;
}

static void collect(hy_request *r, answer *a)
{
    hy_err err;
    memset(a, 0, sizeof *a);
    size_t n = 0;
    do {
        if (hy_poll(r, 600000, &a->done, &err) != HY_OK) fail_msg("%s", err.msg);
        assert_int_not_equal(a->done.kind, HY_EV_NONE);
        for (uint32_t i = 0; i < a->done.n_token; i++) {
            assert_true(a->n < N_GEN);
            a->id[a->n] = a->done.token[i].id;
            a->logprob[a->n++] = a->done.token[i].logprob;
            assert_int_equal(a->done.token[i].n_top, 2);
        }
        assert_true(n + a->done.n_text < sizeof a->text);
        memcpy(a->text + n, a->done.text, a->done.n_text);
        n += a->done.n_text;
    } while (a->done.kind != HY_EV_DONE);
    hy_release(r);
}

static void same(const answer *a, const answer *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->id, b->id, a->n * sizeof *a->id);
    assert_memory_equal(a->logprob, b->logprob, a->n * sizeof *a->logprob);
    assert_string_equal(a->text, b->text);
}

static answer alone[2][N_REQ];
static double temperature_of(int t) { return t ? 0.9 : 0; }

static void one_at_a_time(hy_options *o) { o->n_seq = 1; }
static void endless(hy_options *o) { o->n_seq = 1; o->n_ctx = 30000; } /* an answer that nobody outruns */
static void small_steps(hy_options *o) { o->n_step = 16; o->n_threads = 3; }
static void one_thread(hy_options *o) { o->n_threads = 1; o->n_step = 7; o->n_seq = 7; }
static void pressure(hy_options *o) { o->kv_tokens = 256; o->n_seq = 6; }
static void contiguous(hy_options *o) { o->kv_mode = HY_KV_CONTIGUOUS; }
static void no_cache(hy_options *o) { o->kv_mode = HY_KV_OFF; }
static void unfused(hy_options *o) { o->no_fuse = true; }
static void scalar(hy_options *o) { o->isa = "scalar"; }

static int make_reference(void **state)
{
    hy_engine *e = open_engine(one_at_a_time);
    for (int t = 0; t < 2; t++)
        for (unsigned i = 0; i < N_REQ; i++) {
            collect(submit(e, i, temperature_of(t), N_GEN), &alone[t][i]);
            assert_int_equal(alone[t][i].n, N_GEN);
            assert_int_equal(alone[t][i].done.finish, HY_FINISH_LENGTH);
        }
    hy_close(e);
    return 0;
}

/* All prompts at once, greedy and sampled mixed. */
static void crowd_on(hy_engine *e, hy_counters *n)
{
    hy_request *r[2][N_REQ];
    for (unsigned i = 0; i < N_REQ; i++)
        for (int t = 0; t < 2; t++) r[t][i] = submit(e, i, temperature_of(t), N_GEN);
    for (unsigned i = 0; i < N_REQ; i++)
        for (int t = 0; t < 2; t++) {
            answer a;
            collect(r[t][i], &a);
            same(&a, &alone[t][i]);
        }
    hy_engine_counters(e, n);
    assert_int_equal(n->alloc_in_step, 0);
}

static void crowd(void (*change)(hy_options *), hy_counters *n)
{
    hy_engine *e = open_engine(change);
    crowd_on(e, n);
    hy_close(e);
}

static void crowds(void **state)
{
    hy_counters n;
    crowd(NULL, &n);
    crowd(small_steps, &n);
    crowd(one_thread, &n);
    crowd(contiguous, &n);
    crowd(unfused, &n);
    crowd(scalar, &n);
}

static void under_pressure(void **state)
{
    hy_counters n;
    hy_engine *e = open_engine(pressure);
    answer a;
    for (unsigned i = 0; i < 20; i++) collect(submit(e, i, 0, 1), &a); /* answers seem to be short */
    crowd_on(e, &n);
    assert_true(n.n_paused > 0); /* else the pool was no pressure */
    hy_close(e);
}

static void without_cache(void **state)
{
    hy_engine *e = open_engine(no_cache);
    for (unsigned i = 0; i < 3; i++) {
        answer a;
        collect(submit(e, i, 0, N_GEN), &a);
        same(&a, &alone[0][i]);
    }
    hy_close(e);
}

static void cancelling(void **state)
{
    hy_engine *e = open_engine(endless);
    hy_request *long_one = submit(e, 5, 0.9, 0), *waiting = submit(e, 6, 0, N_GEN), *last = submit(e, 7, 0, N_GEN);
    hy_event ev;
    assert_int_equal(hy_poll(long_one, 600000, &ev, NULL), HY_OK);
    hy_cancel(waiting); /* in the queue */
    hy_cancel(long_one); /* while it decodes */
    for (int i = 0; i < 2; i++) {
        hy_request *r = i ? waiting : long_one;
        do assert_int_equal(hy_poll(r, 600000, &ev, NULL), HY_OK);
        while (ev.kind == HY_EV_TEXT);
        assert_int_equal(ev.kind, HY_EV_DONE);
        assert_int_equal(ev.finish, HY_FINISH_CANCELLED);
        hy_release(r);
    }
    answer a;
    collect(last, &a); /* others are unharmed */
    same(&a, &alone[0][7]);
    hy_release(submit(e, 8, 0, 0)); /* released while it runs */
    hy_close(e);
}

/* The text of request 3 with a stop string cut out of its middle. */
static void stop_strings(void **state)
{
    const char *text = alone[0][3].text;
    size_t n = strlen(text);
    assert_true(n > 20);
    size_t at = n / 2;
    while ((text[at] & 0xC0) == 0x80) at++;
    char stop[16];
    size_t k = 0;
    while (k < 6 || (text[at + k] & 0xC0) == 0x80) k++;
    memcpy(stop, text + at, k);
    stop[k] = 0;
    const char *stops[2] = { "never in this text", stop };
    hy_engine *e = open_engine(NULL);
    int32_t ids[200];
    hy_params p;
    hy_params_init(&p);
    p.tokens = ids;
    p.n_tokens = 3 + 3 * 13 % 150;
    for (unsigned i = 0; i < p.n_tokens; i++) ids[i] = (int32_t)(10 + (3 * 31 + i * 17) % 480);
    p.max_tokens = N_GEN;
    p.temperature = 0;
    p.ignore_eos = true;
    p.top_logprobs = 2;
    p.stop = stops;
    p.n_stop = 2;
    hy_request *r;
    assert_int_equal(hy_submit(e, &p, &r, NULL), HY_OK);
    answer a;
    collect(r, &a);
    assert_int_equal(a.done.finish, HY_FINISH_STOP);
    size_t want = (size_t)(strstr(text, stop) - text);
    assert_int_equal(strlen(a.text), want);
    assert_memory_equal(a.text, text, want);
    hy_close(e);
}

static void refused(hy_engine *e, const hy_params *p, hy_status want, const char *word)
{
    hy_err err = { HY_OK, "" };
    hy_request *r = NULL;
    assert_int_equal(hy_submit(e, p, &r, &err), want);
    assert_null(r);
    if (!strstr(err.msg, word)) fail_msg("'%s' does not speak of '%s'", err.msg, word);
}

static void at_the_door(void **state)
{
    hy_engine *e = open_engine(NULL);
    static int32_t ids[300];
    hy_params p;
    hy_params_init(&p);
    p.tokens = ids;
    p.n_tokens = 256;
    refused(e, &p, HY_E_LIMIT, "256");
    p.n_tokens = 0;
    refused(e, &p, HY_E_ARG, "empty");
    p.n_tokens = 2;
    ids[1] = 100000;
    refused(e, &p, HY_E_ARG, "100000");
    ids[1] = -1;
    refused(e, &p, HY_E_ARG, "-1");
    ids[1] = 1;
    p.temperature = 1e9;
    refused(e, &p, HY_E_ARG, "temperature");
    p.temperature = 1;
    p.top_logprobs = 21;
    refused(e, &p, HY_E_ARG, "top_logprobs");
    hy_close(e);

    hy_options o;
    hy_err err;
    hy_options_init(&o);
    o.model = HY_DATA "/models/nowhere.gguf";
    assert_int_not_equal(hy_open(&e, &o, &err), HY_OK);
    assert_non_null(strstr(err.msg, "nowhere.gguf"));
    o.model = MODEL;
    o.kv_type = "q3";
    assert_int_equal(hy_open(&e, &o, &err), HY_E_ARG);
    assert_non_null(strstr(err.msg, "q3"));
}

static void short_queue(hy_options *o) { endless(o); o->n_queue = 2; } /* nobody is done meanwhile */

static void full_queue(void **state)
{
    hy_engine *e = open_engine(short_queue);
    hy_request *r[16] = { 0 };
    int n = 0;
    hy_err err;
    hy_params p;
    int32_t ids[2] = { 11, 12 };
    hy_params_init(&p);
    p.tokens = ids;
    p.n_tokens = 2;
    p.ignore_eos = true;
    hy_status s = HY_OK;
    while (n < 16 && (s = hy_submit(e, &p, &r[n], &err)) == HY_OK) n++;
    assert_int_equal(s, HY_E_BUSY); /* one runs, two wait, nearly: certainly not sixteen */
    assert_true(n >= 2);
    for (int i = 0; i < n; i++) hy_release(r[i]);
    hy_close(e);
}

/* A model with more logits than its tokenizer has tokens: such a token has no text and fails nothing. */
static void token_without_text(void **state)
{
    if (!access(HY_SHARED "/golden/models/qwen2_yarn/hf/config.json", R_OK)) {
        hy_options o;
        hy_err err;
        hy_engine *e;
        hy_options_init(&o);
        o.model = HY_SHARED "/golden/models/qwen2_yarn/hf"; /* 544 logits, 512 tokens */
        if (hy_open(&e, &o, &err) != HY_OK) fail_msg("%s", err.msg);
        int32_t ids[2] = { 11, 12 };
        hy_bias bias = { 540, 1000 };
        hy_params p;
        hy_params_init(&p);
        p.tokens = ids;
        p.n_tokens = 2;
        p.max_tokens = 5;
        p.temperature = 0;
        p.top_logprobs = 2;
        p.logit_bias = &bias;
        p.n_logit_bias = 1;
        hy_request *r;
        if (hy_submit(e, &p, &r, &err) != HY_OK) fail_msg("%s", err.msg);
        answer a;
        collect(r, &a);
        assert_int_equal(a.n, 5);
        assert_int_equal(a.id[4], 540);
        assert_string_equal(a.text, "");
        hy_close(e);
    } else {
        print_message("skipped: token without text: needs the larger set\n");
    }
}

static void two_models(void **state)
{
    hy_engine *a = open_engine(NULL), *b = open_engine(scalar);
    hy_request *x = submit(a, 1, 0, N_GEN), *y = submit(b, 1, 0, N_GEN);
    answer p, q;
    collect(x, &p);
    collect(y, &q);
    same(&p, &q);
    hy_close(a);
    hy_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crowds), cmocka_unit_test(under_pressure), cmocka_unit_test(without_cache),
        cmocka_unit_test(cancelling), cmocka_unit_test(stop_strings), cmocka_unit_test(at_the_door),
        cmocka_unit_test(full_queue), cmocka_unit_test(two_models), cmocka_unit_test(token_without_text),
    };
    return cmocka_run_group_tests(tests, make_reference, NULL);
}
