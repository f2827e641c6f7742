/* Speculation changes no bit: every proposer, greedy and sampled, with penalties, biases, guides, stop strings and
 * logprobs, alone and at once, under pressure for pages, with cache hits and cancels: the same tokens, logprobs and
 * text as without. */
#include "engine_help.h"
#include <hayate/tools.h>
#include "base/base.h"

enum { N_CASE = 12, N_KIND = 4 };

typedef struct way {
    const char *name, *model, *draft, *speculate;
    uint32_t spec_max, spec_store;
} way;
static char draft_path[] = "/tmp/hayate-spec-XXXXXX";

/* A text that comes back: n-grams have something to find. */
static uint32_t prompt_of(unsigned i, int32_t ids[200])
{
    uint32_t n = 20 + i * 13 % 90;
    for (uint32_t k = 0; k < n; k++) ids[k] = (int32_t)(10 + (k % (7 + i % 5) * 31 + i * 17) % 470);
    return n;
}

static const char date[] = "[0-9]{4}-[0-9]{2}-[0-9]{2}( [a-z]{1,8}){3,9}";
static const hy_bias bias[3] = { { 30, 4 }, { 41, 4 }, { 77, -100 } };
static const char *const stops[2] = { "e", "th" };

/* Request i: a mixture of what may be asked for. */
static void params_of(hy_params *p, unsigned i, int32_t ids[200])
{
    hy_params_init(p);
    p->tokens = ids;
    p->n_tokens = prompt_of(i, ids);
    p->max_tokens = 30 + i % 4 * 10;
    p->seed = 500 + i;
    p->temperature = i % 2 ? 0.7 : 0;
    p->ignore_eos = i % 3 != 0;
    p->top_logprobs = (int32_t)(i % 3) - 1;
    if (i % 4 == 1) p->repeat_penalty = 1.3;
    if (i % 4 == 2) p->frequency_penalty = 0.5, p->presence_penalty = 0.4;
    if (i % 5 == 3) p->logit_bias = bias, p->n_logit_bias = 3;
    if (i % 6 == 4) p->stop = stops, p->n_stop = 2;
    if (i % 6 == 5) p->guide = (hy_guide){ .kind = HY_GUIDE_REGEX, .text = date, .n_text = sizeof date - 1 };
    if (i % 7 == 6) p->top_k = 20, p->top_p = 0.9, p->min_tokens = 12, p->ignore_eos = false;
    if (i % 8 == 7) p->prompt_logprobs = 1;
}

static const way *now;
static bool always;            /* the controller's judgement depends on the machine: once with it, once without */
static void speculating(hy_options *o)
{
    o->draft = now->draft;
    o->speculate = now->speculate;
    o->spec_max = now->spec_max;
    o->spec_store = now->spec_store;
    o->spec_always = always;
}
static void eight(hy_options *o) { o->n_seq = 8; speculating(o); }
static void pressure(hy_options *o) { o->n_seq = 6; o->kv_tokens = 256; speculating(o); }
static void small_steps(hy_options *o) { o->n_seq = 5; o->n_step = 9; speculating(o); }
static void contiguous(hy_options *o) { o->n_seq = 4; o->kv_mode = HY_KV_CONTIGUOUS; speculating(o); }
static void no_cache(hy_options *o) { o->n_seq = 3; o->no_prefix_cache = true; speculating(o); }

static void same_tops(unsigned i, const answer *a, const answer *b)
{
    same_answer(now->name, i, a, b);
    assert_int_equal(a->finish, b->finish);
    assert_int_equal(a->usage.stop_index, b->usage.stop_index);
    assert_int_equal(a->usage.stop_id, b->usage.stop_id);
    assert_int_equal(a->usage.n_output, b->usage.n_output);
}

static void check_stats(hy_engine *e, uint64_t *drafted, uint64_t *accepted)
{
    hy_stats s;
    hy_engine_stats(e, &s);
    assert_int_equal(s.counters.alloc_in_step, 0);
    *drafted += s.n_drafted;
    *accepted += s.n_accepted;
    uint64_t n = 0;
    for (int k = 0; k < 16; k++) {
        assert_true(s.spec_accepted[k] <= s.spec_drafted[k]);
        if (k) assert_true(s.spec_drafted[k] <= s.spec_drafted[k - 1]);
        n += s.spec_drafted[k];
    }
    assert_int_equal(n, s.n_drafted);
    assert_true(s.spec_gain >= 1);
}

static void all_at_once(hy_engine *e, const answer *want, bool cancels)
{
    hy_request *r[N_CASE], *gone[N_CASE];
    int32_t ids[200];
    hy_params p;
    for (unsigned i = 0; i < N_CASE; i++) {
        params_of(&p, i, ids);
        if (cancels) gone[i] = ask(e, &p);
        r[i] = ask(e, &p);
        if (cancels && i % 2) hy_cancel(gone[i]);
    }
    for (unsigned i = 0; i < N_CASE; i++) {
        answer a;
        finish(r[i], &a);
        same_tops(i, &a, &want[i]);
        assert_true(a.usage.n_accepted <= a.usage.n_drafted);
        if (cancels) hy_release(gone[i]);
    }
}

static void check_way(const way *w, const answer *want)
{
    static void (*const settings[])(hy_options *) = { eight, pressure, small_steps, contiguous, no_cache };
    uint64_t drafted = 0, accepted = 0;
    now = w;
    for (unsigned k = 0; k < sizeof settings / sizeof *settings; k++) {
        always = k != 0;
        hy_engine *e = open_model(w->model, settings[k]);
        all_at_once(e, want, false);
        all_at_once(e, want, true); /* beginnings are cached now, stores are full */
        check_stats(e, &drafted, &accepted);
        hy_close(e);
    }
    print_message("%s: %llu drafted, %llu accepted\n", w->name, (unsigned long long)drafted, (unsigned long long)accepted);
    assert_true(drafted > 100 && accepted > 20);
}

static void reference(const char *model, answer *want)
{
    int32_t ids[200];
    hy_params p;
    static const way none = { "plain", NULL, NULL, NULL, 0, 0 };
    now = &none;
    hy_engine *e = open_model(model, NULL);
    for (unsigned i = 0; i < N_CASE; i++) {
        params_of(&p, i, ids);
        finish(ask(e, &p), &want[i]);
        assert_int_equal(want[i].usage.n_drafted, 0);
    }
    hy_close(e);
}

static int make_draft(void **state)
{
    hy_quantize_params q;
    hy_err err;
    memset(&q, 0, sizeof q);
    q.type = "q8_0";
    int fd = mkstemp(draft_path);
    assert_true(fd >= 0);
    close(fd);
    if (hy_tool_quantize(LLAMA3, draft_path, &q, &err) != HY_OK) fail_msg("%s", err.msg);
    return 0;
}

static int remove_draft(void **state)
{
    unlink(draft_path);
    return 0;
}

static void bits_of_16_bit_model(void **state)
{
    static answer want[N_CASE];
    reference(LLAMA3, want);
    const way ways[] = {
        { "ngram", LLAMA3, NULL, "ngram", 0, 0 },
        { "ngram and store", LLAMA3, NULL, "ngram", 5, 4096 },
        { "draft", LLAMA3, draft_path, "draft", 0, 0 },
        { "the same model as draft", LLAMA3, LLAMA3, "draft", 16, 0 },
        { "self", LLAMA3, NULL, "self", 4, 0 },
        { "auto with draft", LLAMA3, draft_path, "auto", 8, 1024 },
        { "auto with self", LLAMA3, NULL, "auto", 3, 0 },
    };
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) check_way(&ways[i], want);
}

static void bits_of_8_bit_model(void **state)
{
    static answer want[N_CASE];
    reference(draft_path, want);
    const way ways[] = { { "8 bits: draft of 16", draft_path, LLAMA3, "draft", 8, 0 },
                         { "8 bits: self", draft_path, NULL, "self", 8, 0 } };
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) check_way(&ways[i], want);
}

/* Sliding windows: pages that slide out, rows that are taken back. Experts: rows of a step are sorted by them. */
static void bits_of_other_families(void **state)
{
    static answer want[N_CASE];
    static const char *const models[] = { HY_DATA "/models/gemma2/model-f32.gguf", HY_DATA "/models/gpt_oss/model-bf16.gguf",
                                          HY_DATA "/models/qwen2_moe/model-bf16.gguf" };
    for (unsigned i = 0; i < sizeof models / sizeof *models; i++) {
        if (access(models[i], R_OK) != 0) fail_msg("%s is missing", models[i]);
        reference(models[i], want);
        const way ways[] = { { "windows, experts: itself as draft", models[i], models[i], "draft", 6, 0 },
                             { "windows, experts: self", models[i], NULL, "self", 5, 0 } };
        for (unsigned k = 0; k < 2; k++) check_way(&ways[k], want);
    }
}

static void long_context(hy_options *o)
{
    o->n_ctx = 2048;
    o->n_seq = 1;
    o->n_step = 32;
    speculating(o);
}

/* The first layers see a window: their pages are fewer than those of a whole context. */
static void windows_in_a_long_context(void **state)
{
    static const char gemma2[] = HY_DATA "/models/gemma2/model-f32.gguf";
    static const way w = { "a long context", gemma2, gemma2, "draft", 4, 0 };
    now = &w;
    hy_engine *e = open_model(gemma2, long_context);
    int32_t ids[200];
    hy_params p;
    params_of(&p, 0, ids);
    answer a;
    finish(ask(e, &p), &a);
    assert_true(a.n > 0);
    hy_close(e);
}

static void refuse(const char *says, const char *model, const char *draft, const char *speculate, uint32_t spec_max)
{
    hy_options o;
    hy_err err;
    hy_engine *e;
    hy_options_init(&o);
    o.model = model;
    o.n_ctx = 64;
    o.draft = draft;
    o.speculate = speculate;
    o.spec_max = spec_max;
    if (hy_open(&e, &o, &err) == HY_OK) fail_msg("opened, but: %s", says);
    assert_null(e);
    if (!strstr(err.msg, says)) fail_msg("'%s' does not say '%s'", err.msg, says);
}

static void what_cannot_be(void **state)
{
    refuse("not one of off, ngram", LLAMA3, NULL, "guess", 0);
    refuse("needs the draft model's file", LLAMA3, NULL, "draft", 0);
    refuse("more than 16", LLAMA3, NULL, "ngram", 17);
    refuse("another vocabulary", LLAMA3, HY_DATA "/models/cohere/model-f32.gguf", "draft", 0);
    refuse("draft model", LLAMA3, HY_DATA "/models/llama3/none.gguf", "draft", 0);
    hy_engine *e = open_model(LLAMA3, NULL);
    int32_t ids[200];
    hy_params p;
    hy_err err;
    hy_request *r;
    params_of(&p, 0, ids);
    p.speculate = HY_SPECULATE_NGRAM;
    assert_int_equal(hy_submit(e, &p, &r, &err), HY_E_ARG);
    assert_non_null(strstr(err.msg, "was not opened with the engine"));
    p.speculate = 99;
    assert_int_equal(hy_submit(e, &p, &r, &err), HY_E_ARG);
    p.speculate = HY_SPECULATE_AUTO; /* whoever is there: nobody */
    answer a;
    finish(ask(e, &p), &a);
    assert_int_equal(a.usage.n_drafted, 0);
    hy_close(e);
}

/* A request may do without, or ask for one of those that are there. */
static void by_request(void **state)
{
    static const way w = { "by request", LLAMA3, draft_path, "auto", 4, 0 };
    now = &w;
    always = true;
    hy_engine *e = open_model(LLAMA3, eight);
    answer want, a;
    int32_t ids[200];
    hy_params p;
    params_of(&p, 8, ids); /* greedy: it comes to repeat itself */
    p.speculate = HY_SPECULATE_OFF;
    finish(ask(e, &p), &want);
    assert_int_equal(want.usage.n_drafted, 0);
    for (int32_t by = HY_SPECULATE_NGRAM; by <= HY_SPECULATE_AUTO; by++) {
        hy_err err;
        hy_request *r;
        p.speculate = by;
        hy_status s = hy_submit(e, &p, &r, &err);
        assert_int_equal(s, by == HY_SPECULATE_SELF ? HY_E_ARG : HY_OK);
        if (s != HY_OK) continue;
        finish(r, &a);
        same_answer("by request", (unsigned)by, &a, &want);
        if (a.usage.n_drafted == 0) fail_msg("proposer %d: nothing was drafted", by);
    }
    hy_close(e);
}

/* The n-th allocation of opening, and of a request, fails: an error, nothing lost. */
static void memory_runs_out(void **state)
{
    const way ways[] = { { "self", LLAMA3, NULL, "self", 4, 4096 }, { "draft", LLAMA3, draft_path, "draft", 4, 0 } };
    for (unsigned k = 0; k < 2; k++) {
        now = &ways[k];
        hy_engine *e = NULL;
        hy_err err;
        for (int64_t n = 0; !e; n += 1 + n / 6) { /* opening allocates a thousand times and more, mostly in the tokenizer */
            hy_options o;
            hy_options_init(&o);
            o.model = LLAMA3;
            o.n_ctx = 64;
            o.n_threads = 1;
            eight(&o);
            hy_alloc_fail_after(n);
            hy_status s = hy_open(&e, &o, &err);
            hy_alloc_fail_after(-1);
            if (s != HY_OK) assert_null(e);
        }
        hy_request *r = NULL;
        hy_params p;
        int32_t ids[200];
        params_of(&p, 1, ids);
        p.n_tokens = HY_MIN(p.n_tokens, 30u);
        for (int64_t n = 0; !r; n++) {
            hy_alloc_fail_after(n);
            hy_status s = hy_submit(e, &p, &r, &err);
            hy_alloc_fail_after(-1);
            if (s != HY_OK) assert_int_equal(s, HY_E_MEMORY);
        }
        answer a;
        finish(r, &a);
        hy_close(e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_of_16_bit_model), cmocka_unit_test(bits_of_8_bit_model),
        cmocka_unit_test(bits_of_other_families), cmocka_unit_test(windows_in_a_long_context),
        cmocka_unit_test(what_cannot_be), cmocka_unit_test(by_request), cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, make_draft, remove_draft);
}
