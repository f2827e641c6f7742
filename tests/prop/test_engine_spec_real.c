/* Real models (HAYATE_SMOLLM2, HAYATE_GEMMA3; skipped without): 200 prompts, greedy and at temperature 0.8, with each
 * proposer, alone and eight at once: the same bits as without speculation. ./check takes the first 16 of them; all
 * with HAYATE_LONG set. In parts: HAYATE_SPEC_WHO names the proposers ("draft self"; all), HAYATE_SPEC_PROMPTS the
 * prompts ("64-127"; numbers of eight), and a model that is not named is left out. */
#include "../common/engine_options.h"
#include <hayate/tools.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_PROMPT = 200, N_GEN = 24, AT_ONCE = 8 };

typedef struct answer {
    int32_t id[N_GEN];
    float logprob[N_GEN];
    uint32_t n;
} answer;
static answer want[2][N_PROMPT];
static unsigned first_prompt, n_prompt = N_PROMPT; /* the first, and the one after the last */
static char *text;
static size_t n_text;
static char draft[] = "/tmp/hayate-spec-XXXXXX", large[] = "/tmp/hayate-spec-XXXXXX";

static int read_text(void **state)
{
    FILE *f = fopen(HY_DATA "/text/wikitext-2-head.txt", "rb");
    text = calloc(1, 1 << 20);
    assert_non_null(text);
    if (f) n_text = fread(text, 1, (1 << 20) - 1, f), fclose(f);
    assert_true(n_text > 400);
    int a = mkstemp(draft), b = mkstemp(large);
    assert_true(a >= 0 && b >= 0);
    close(a);
    close(b);
    return 0;
}

static int tidy(void **state)
{
    free(text);
    unlink(draft);
    unlink(large);
    return 0;
}

/* A piece of text, in every third one twice: something to be copied. */
static hy_request *ask(hy_engine *e, unsigned i, double temperature)
{
    char prompt[512];
    size_t at = (size_t)i * 97 % (n_text - 200), n = 40 + i % 5 * 20;
    while (at && ((unsigned char)text[at] & 0xC0) == 0x80) at--;
    while (((unsigned char)text[at + n] & 0xC0) == 0x80) n--;
    memcpy(prompt, text + at, n);
    if (i % 3 == 0) memcpy(prompt + n, prompt, n * 3 / 4), n += n * 3 / 4;
    while (n && ((unsigned char)prompt[n - 1] & 0x80)) n--;
    hy_params p;
    hy_params_init(&p);
    p.prompt = prompt;
    p.n_prompt = n;
    p.max_tokens = N_GEN;
    p.temperature = temperature;
    p.seed = i;
    p.top_logprobs = 0;
    hy_request *r;
    hy_err err;
    if (hy_submit(e, &p, &r, &err) != HY_OK) fail_msg("%s", err.msg);
    return r;
}

static void read_answer(hy_request *r, answer *a)
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
}

static void all_prompts(const char *what, hy_engine *e, unsigned at_once)
{
    for (int t = 0; t < 2; t++)
        for (unsigned i = first_prompt; i < n_prompt; i += at_once) {
            hy_request *r[AT_ONCE];
            answer a;
            for (unsigned k = 0; k < at_once; k++) r[k] = ask(e, i + k, t ? 0.8 : 0);
            for (unsigned k = 0; k < at_once; k++) {
                read_answer(r[k], what ? &a : &want[t][i + k]);
                if (what && memcmp(&a, &want[t][i + k], sizeof a) != 0)
                    fail_msg("%s, %u at once, temperature %g: prompt %u differs", what, at_once, t ? 0.8 : 0, i + k);
            }
        }
}

static hy_engine *open_engine(const char *model, const char *with, const char *speculate)
{
    hy_options o = engine_options(model, 256, 0, AT_ONCE);
    hy_err err;
    hy_engine *e;
    o.kv_type = "f16";
    o.draft = with;
    o.speculate = speculate;
    o.spec_max = 5;
    o.spec_always = true;
    if (hy_open(&e, &o, &err) != HY_OK) fail_msg("%s", err.msg);
    return e;
}

static bool wanted(const char *who)
{
    const char *only = getenv("HAYATE_SPEC_WHO");
    return !only || strstr(only, who);
}

/* target: the file, or the file with its weights in more bits, so that it can draft for itself. */
static void check(const char *target, const char *with, const char *const *who, unsigned n_who)
{
    bool known = false;        /* what is said without */
    for (unsigned i = 0; i < n_who; i++) {
        if (!wanted(who[i])) continue;
        hy_engine *e = known ? NULL : open_engine(target, NULL, NULL);
        if (!known) all_prompts(NULL, e, 1);
        hy_close(e);
        known = true;
        e = open_engine(target, strcmp(who[i], "draft") == 0 ? with : NULL, who[i]);
        all_prompts(who[i], e, 1);
        all_prompts(who[i], e, AT_ONCE);
        hy_stats s;
        hy_engine_stats(e, &s);
        print_message("%s, prompts %u to %u: the same; %llu drafted, %llu accepted\n", who[i], first_prompt + 1, n_prompt,
                      (unsigned long long)s.n_drafted, (unsigned long long)s.n_accepted);
        fflush(stdout);
        assert_true(s.n_accepted > 0 && s.n_accepted < s.n_drafted);
        assert_int_equal(s.counters.alloc_in_step, 0);
        hy_close(e);
    }
}

static void convert(const char *in, const char *out, const char *type)
{
    hy_quantize_params q;
    hy_err err;
    memset(&q, 0, sizeof q);
    q.type = type;
    if (hy_tool_quantize(in, out, &q, &err) != HY_OK) fail_msg("%s", err.msg);
}

static void real_model(const char *env)
{
    const char *path = getenv(env);
    if (!path || !*path) {
        print_message("skipped: real models: needs %s\n", env);
        return;
    }
    static const char *const plain[] = { "ngram", "draft" }, *const self[] = { "self" };
    if (wanted("draft")) convert(path, draft, "q4_0");
    check(path, draft, plain, 2);
    if (wanted("self")) convert(path, large, "q8_0");
    check(large, NULL, self, 1);
}

static void smollm2(void **state) { real_model("HAYATE_SMOLLM2"); }
static void gemma3(void **state) { real_model("HAYATE_GEMMA3"); }

int main(void)
{
    const char *part = getenv("HAYATE_SPEC_PROMPTS");
    unsigned a, b;
    if (part && sscanf(part, "%u-%u", &a, &b) == 2 && a < b && b < N_PROMPT) {
        first_prompt = a - a % AT_ONCE;
        n_prompt = b + 1 - (b + 1) % AT_ONCE;
    } else if (!getenv("HAYATE_LONG")) {
        n_prompt = 2 * AT_ONCE;
        printf("skipped: prompts 17 to 200 of real models: HAYATE_LONG is not set\n");
    }
    const struct CMUnitTest tests[] = { cmocka_unit_test(smollm2), cmocka_unit_test(gemma3) };
    return cmocka_run_group_tests(tests, read_text, tidy);
}
