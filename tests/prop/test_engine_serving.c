/* Serving: many streams at once, with pages shared, pauses, swapping, cancels, priorities, groups: each gives
 * the tokens and the logprobs of its run alone, bit for bit. */
#include "engine_help.h"

enum { N_REQ = 32, N_GEN = 40 };

typedef struct model {
    const char *name, *path;
    uint32_t n_vocab;          /* ids below it are used */
} model;
static char dynamic_path[96]; /* made below: the variant has no tokenizer of its own */
static const model models[] = {
    { "llama3", LLAMA3, 480 },
    { "gemma2, windows", HY_DATA "/models/gemma2/model-f32.gguf", 480 },
    { "LongRoPE", HY_DATA "/models/phi3_longrope/model-f32.gguf", 480 },
    { "dynamic NTK", dynamic_path, 480 },
    { "gpt_oss, windows and sinks", HY_DATA "/models/gpt_oss/model-bf16.gguf", 480 },
};

static char swap_path[64];

/* Request i: one of four beginnings, cut somewhere, then its own tokens. Greedy and sampled, priorities. */
static void params_of(hy_params *p, unsigned i, int32_t ids[160])
{
    hy_params_init(p);
    p->tokens = ids;
    p->n_tokens = 5 + i * 37 % 150;
    uint32_t cut = i % 3 ? p->n_tokens * (i % 5) / 5 : p->n_tokens;
    for (uint32_t k = 0; k < p->n_tokens; k++)
        ids[k] = (int32_t)(10 + (k < cut ? i % 4 * 131 + k * 17 : i * 31 + k * 13) % 470);
    p->max_tokens = N_GEN;
    p->temperature = i % 2 ? 0.9 : 0;
    p->seed = 1000 + i;
    p->ignore_eos = true;
    p->top_logprobs = 0;
    p->priority = (int32_t)(i % 7 == 0) - (i % 5 == 0);
    p->tenant = i % 6 == 5 ? "another" : NULL;
    p->no_cache = i % 9 == 8;
}

static void alone_options(hy_options *o) { o->n_seq = 1; o->no_prefix_cache = true; }

static void alone(const char *path, answer *out)
{
    hy_engine *e = open_model(path, alone_options);
    for (unsigned i = 0; i < N_REQ; i++) {
        int32_t ids[160];
        hy_params p;
        params_of(&p, i, ids);
        finish(ask(e, &p), &out[i]);
        assert_int_equal(out[i].n, N_GEN);
        assert_int_equal(out[i].usage.n_cached, 0);
    }
    hy_close(e);
}

/* All at once, twice (the second time much is cached), every fourth with a twin that is cancelled midway. */
static void crowd(const char *what, hy_engine *e, const answer *want)
{
    for (int round = 0; round < 2; round++) {
        hy_request *r[N_REQ], *twin[N_REQ] = { 0 };
        for (unsigned i = 0; i < N_REQ; i++) {
            int32_t ids[160];
            hy_params p;
            params_of(&p, i, ids);
            r[i] = ask(e, &p);
            if (i % 4 == 0) twin[i] = ask(e, &p);
        }
        for (unsigned i = 0; i < N_REQ; i += 4) {
            hy_event ev;
            if (i % 8) assert_int_equal(hy_poll(twin[i], 600000, &ev, NULL), HY_OK);
            if (i % 3) hy_cancel(twin[i]);
            hy_release(twin[i]);
        }
        for (unsigned i = 0; i < N_REQ; i++) {
            answer a;
            finish(r[i], &a);
            assert_int_equal(a.finish, HY_FINISH_LENGTH);
            same_answer(what, i, &a, &want[i]);
        }
    }
}

static void many(hy_options *o) { o->n_seq = 32; o->n_queue = 256; }
static void few_slots(hy_options *o) { o->n_seq = 3; o->n_step = 20; o->n_threads = 3; }
static void no_sharing(hy_options *o) { o->n_seq = 16; o->no_prefix_cache = true; }
static void little_room(hy_options *o) { o->n_seq = 12; o->kv_tokens = 256; o->n_step = 48; }
static void swapping(hy_options *o)
{
    little_room(o);
    o->kv_swap = swap_path;
    o->kv_swap_bytes = 16 << 20;
}
static void only_swapping(hy_options *o)
{
    swapping(o);
    o->no_prefix_cache = true;
}
static void tight_targets(hy_options *o) { o->n_seq = 16; o->itl_target_ms = 1; o->ttft_target_ms = 1; }

/* Many short answers: the engine expects short ones, and lets in more than have room. */
static void look_harmless(hy_engine *e)
{
    for (unsigned i = 0; i < 20; i++) {
        int32_t ids[160];
        hy_params p;
        answer a;
        params_of(&p, i, ids);
        p.max_tokens = 1;
        finish(ask(e, &p), &a);
    }
}

static void settle(hy_engine *e, hy_stats *s)
{
    do hy_engine_stats(e, s); /* released ones end within a step */
    while (s->counters.n_running || s->counters.n_waiting);
}

static void streams(void **state)
{
    static answer want[N_REQ];
    for (unsigned m = 0; m < sizeof models / sizeof *models; m++) {
        void (*const ways[])(hy_options *) = { many, few_slots, no_sharing, little_room, swapping, only_swapping, tight_targets };
        uint64_t n_paused = 0, swapped = 0, hit = 0;
        alone(models[m].path, want);
        for (unsigned k = 0; k < sizeof ways / sizeof *ways; k++) {
            /* all ways on the first model; on the others those in which pages move */
            if (m && (ways[k] == few_slots || ways[k] == no_sharing || ways[k] == tight_targets)) continue;
            hy_engine *e = open_model(models[m].path, ways[k]);
            look_harmless(e);
            crowd(models[m].name, e, want);
            hy_stats s;
            settle(e, &s);
            n_paused += s.counters.n_paused;
            swapped += s.swap_in_bytes;
            hit += s.cache_hit_tok;
            assert_int_equal(s.counters.alloc_in_step, 0);
            assert_int_equal(s.counters.page_used, 0);
            if (ways[k] == no_sharing) assert_int_equal(s.cache_hit_tok, 0);
            hy_close(e);
        }
        print_message("%s: %llu pauses, %llu bytes back from the file, %llu tokens hit\n", models[m].name,
                      (unsigned long long)n_paused, (unsigned long long)swapped, (unsigned long long)hit);
        assert_true(n_paused > 0);
        assert_true(swapped > 0);
        assert_true(hit > 0);
    }
}

/* n answers to one prompt are those of n requests, and the prompt is computed once. */
static void groups(void **state)
{
    enum { N = 6 };
    void (*const ways[])(hy_options *) = { many, few_slots, no_sharing, little_room };
    for (unsigned m = 0; m < sizeof models / sizeof *models; m++) {
        answer want[2][N];
        hy_engine *e = open_model(models[m].path, alone_options);
        for (unsigned q = 0; q < 2; q++)
            for (unsigned i = 0; i < N; i++) {
                int32_t ids[160];
                hy_params p;
                params_of(&p, 3 + q, ids);
                p.temperature = 1;
                p.seed += i;
                finish(ask(e, &p), &want[q][i]);
            }
        hy_close(e);
        for (unsigned k = 0; k < sizeof ways / sizeof *ways; k++) {
            e = open_model(models[m].path, ways[k]);
            hy_request *r[2][N];
            for (unsigned q = 0; q < 2; q++) {
                int32_t ids[160];
                hy_params p;
                hy_err err;
                params_of(&p, 3 + q, ids);
                p.temperature = 1;
                p.no_cache = q == 1;
                if (hy_submit_n(e, &p, N, r[q], &err) != HY_OK) fail_msg("%s", err.msg);
            }
            for (unsigned q = 0; q < 2; q++)
                for (unsigned i = 0; i < N; i++) {
                    answer a;
                    finish(r[q][i], &a);
                    same_answer(models[m].name, i, &a, &want[q][i]);
                    if (ways[k] == many) assert_true(i == 0 ? a.usage.n_chunk > 0 : a.usage.n_chunk == 0);
                }
            hy_close(e);
        }
    }
}

/* The weights of a variant beside a tokenizer that knows the printable characters. */
static int make_dynamic(void **state)
{
    char path[160], from[512];
    const char *tmp = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    snprintf(swap_path, sizeof swap_path, "%s/hayate-swap-%d", tmp, (int)getpid());
    snprintf(dynamic_path, sizeof dynamic_path, "%s/hayate-model-XXXXXX", tmp);
    assert_non_null(mkdtemp(dynamic_path));
    const char *const names[] = { "config.json", "model.safetensors" };
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", dynamic_path, names[i]);
        snprintf(from, sizeof from, "%s/variants/llama_dynamic/hf/%s", HY_DATA, names[i]);
        assert_int_equal(symlink(from, path), 0);
    }
    snprintf(path, sizeof path, "%s/tokenizer.json", dynamic_path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{");
    for (int c = '!'; c <= '~'; c++)
        fprintf(f, "%s\"%s%c\":%d", c == '!' ? "" : ",", c == '"' || c == '\\' ? "\\" : "", c, c - '!');
    fprintf(f, "}},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
               "\"decoder\":{\"type\":\"ByteLevel\"}}");
    assert_int_equal(fclose(f), 0);
    return 0;
}

static int drop_dynamic(void **state)
{
    static const char *const names[] = { "config.json", "model.safetensors", "tokenizer.json" };
    char path[160];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dynamic_path, names[i]);
        unlink(path);
    }
    return rmdir(dynamic_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(streams), cmocka_unit_test(groups) };
    return cmocka_run_group_tests(tests, make_dynamic, drop_dynamic);
}
