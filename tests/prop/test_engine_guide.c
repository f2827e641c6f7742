/* Guides: whatever the model would say, the answer is in the language; the same alone and in a crowd; and the
 * logprobs are still the model's own. */
#include "engine_help.h"
#include <ctype.h>
#include <jansson.h>
#include <math.h>

enum { N_PROMPT = 20, N_SEED = 12 };

static void many(hy_options *o) { o->n_seq = 16; }
static void alone_options(hy_options *o) { o->n_seq = 1; o->no_prefix_cache = true; }
static void little_room(hy_options *o) { o->n_seq = 8; o->kv_tokens = 256; }

static hy_params params(hy_guide_kind kind, const char *text, uint64_t seed)
{
    static int32_t ids[N_PROMPT];
    for (int i = 0; i < N_PROMPT; i++) ids[i] = 10 + i * 17 % 470;
    hy_params p;
    hy_params_init(&p);
    p.tokens = ids;
    p.n_tokens = N_PROMPT;
    p.max_tokens = MAX_GEN;
    p.seed = seed;
    p.top_logprobs = 0;
    p.guide.kind = kind;
    p.guide.text = text;
    p.guide.n_text = text ? strlen(text) : 0;
    return p;
}

static bool date_like(const char *s)
{
    return strlen(s) == 10 && s[4] == '-' && s[7] == '-' && isdigit((unsigned char)s[0]) && isdigit((unsigned char)s[9]);
}

static bool yes_or_no(const char *s)
{
    return !strcmp(s, "yes") || !strcmp(s, "no");
}

static bool object_of(const char *s)
{
    json_t *j = json_loads(s, JSON_REJECT_DUPLICATES, NULL);
    const json_t *colour = json_object_get(j, "colour"), *n = json_object_get(j, "n");
    const char *c = json_string_value(colour);
    bool ok = json_is_object(j) && json_object_size(j) == 2 && json_is_integer(n) && json_integer_value(n) >= 0 &&
              json_integer_value(n) <= 9 && c && (!strcmp(c, "red") || !strcmp(c, "green"));
    json_decref(j);
    return ok;
}

static const struct {
    hy_guide_kind kind;
    const char *text;
    bool (*holds)(const char *s);
} cases[] = {
    { HY_GUIDE_REGEX, "[0-9]{4}-[0-9]{2}-[0-9]{2}", date_like },
    { HY_GUIDE_GBNF, "root ::= \"yes\" | \"no\"", yes_or_no },
    { HY_GUIDE_JSON_SCHEMA,
      "{\"type\":\"object\",\"properties\":{\"colour\":{\"enum\":[\"red\",\"green\"]},"
      "\"n\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":9}},\"required\":[\"colour\",\"n\"],"
      "\"additionalProperties\":false}",
      object_of },
};
enum { N_CASE = sizeof cases / sizeof *cases };

static void in_the_language(void **state)
{
    static answer want[N_CASE][N_SEED];
    void (*const ways[])(hy_options *) = { alone_options, many, little_room };
    for (unsigned w = 0; w < 3; w++) {
        hy_engine *e = open_model(LLAMA3, ways[w]);
        hy_request *r[N_CASE][N_SEED];
        for (unsigned c = 0; c < N_CASE; c++)
            for (unsigned i = 0; i < N_SEED; i++) {
                hy_params p = params(cases[c].kind, cases[c].text, i);
                if (i == 0) p.temperature = 0;
                r[c][i] = ask(e, &p);
            }
        for (unsigned c = 0; c < N_CASE; c++)
            for (unsigned i = 0; i < N_SEED; i++) {
                answer a;
                finish(r[c][i], &a);
                if (w == 0) want[c][i] = a;
                assert_int_equal(a.finish, HY_FINISH_STOP);
                if (!cases[c].holds(a.text)) fail_msg("guide %u: '%s'", c, a.text);
                same_answer("guide", i, &a, &want[c][i]);
            }
        hy_counters n;
        hy_engine_counters(e, &n);
        assert_int_equal(n.alloc_in_step, 0);
        hy_close(e);
    }
}

static void objects(void **state)
{
    hy_engine *e = open_model(LLAMA3, many);
    for (unsigned i = 0; i < N_SEED; i++) {
        hy_params p = params(HY_GUIDE_JSON_OBJECT, NULL, i);
        answer a;
        finish(ask(e, &p), &a);
        assert_int_equal(a.text[0] == '{' || isspace((unsigned char)a.text[0]), 1);
        if (a.finish != HY_FINISH_STOP) continue; /* a long one, cut off */
        json_error_t why;
        json_t *j = json_loads(a.text, 0, &why);
        bool range = !j && (json_error_code(&why) == json_error_numeric_overflow); /* JSON, though no C number */
        if (!json_is_object(j) && !range) fail_msg("'%s'", a.text);
        json_decref(j);
    }
    hy_close(e);
}

/* n answers under a guide are n answers alone; a stop string, a bound on tokens and ignore_eos beside it. */
static void with_others(void **state)
{
    hy_engine *e = open_model(LLAMA3, many);
    hy_request *r[4];
    hy_err err;
    hy_params p = params(cases[0].kind, cases[0].text, 100);
    answer a, one;
    if (hy_submit_n(e, &p, 4, r, &err) != HY_OK) fail_msg("%s", err.msg);
    for (unsigned i = 0; i < 4; i++) {
        hy_params q = params(cases[0].kind, cases[0].text, 100 + i);
        finish(r[i], &a);
        finish(ask(e, &q), &one);
        same_answer("n answers", i, &a, &one);
        assert_true(date_like(a.text));
    }
    p.max_tokens = 3;
    finish(ask(e, &p), &a);
    assert_int_equal(a.finish, HY_FINISH_LENGTH);
    const char *const stop[] = { "-" };
    p.max_tokens = MAX_GEN;
    p.stop = stop;
    p.n_stop = 1;
    finish(ask(e, &p), &a);
    assert_int_equal(a.finish, HY_FINISH_STOP);
    assert_int_equal(strlen(a.text), 4);
    p.n_stop = 0;
    p.ignore_eos = true;
    p.no_repeat_ngram = 1; /* forbids what the guide demands: the guide holds */
    finish(ask(e, &p), &a);
    assert_true(date_like(a.text));
    hy_close(e);
}

/* The first token's logprob is that without a guide of the same token: from the model's own distribution. */
static void own_logprobs(void **state)
{
    hy_engine *e = open_model(LLAMA3, many);
    hy_params p = params(HY_GUIDE_REGEX, "[0-9]{4}", 5), q;
    answer a, b;
    finish(ask(e, &p), &a);
    q = params(HY_GUIDE_NONE, NULL, 5);
    hy_bias bias = { a.id[0], 1000 };
    q.logit_bias = &bias;
    q.n_logit_bias = 1;
    finish(ask(e, &q), &b);
    assert_int_equal(a.id[0], b.id[0]);
    assert_true(a.logprob[0] == b.logprob[0]);
    hy_close(e);
}

static void at_the_door(void **state)
{
    static const struct { hy_guide_kind kind; const char *text; hy_status status; } bad[] = {
        { HY_GUIDE_REGEX, "(", HY_E_ARG }, { HY_GUIDE_GBNF, "root ::= missing", HY_E_ARG },
        { HY_GUIDE_JSON_SCHEMA, "{", HY_E_ARG }, { (hy_guide_kind)77, "x", HY_E_ARG },
        { HY_GUIDE_REGEX, NULL, HY_E_ARG },
    };
    hy_engine *e = open_model(LLAMA3, NULL);
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        hy_params p = params(bad[i].kind, bad[i].text, 0);
        hy_request *r;
        hy_err err = { HY_OK, "" };
        assert_int_equal(hy_submit(e, &p, &r, &err), bad[i].status);
        assert_null(r);
        assert_int_not_equal(err.msg[0], 0);
    }
    hy_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_the_language), cmocka_unit_test(objects), cmocka_unit_test(with_others),
        cmocka_unit_test(own_logprobs), cmocka_unit_test(at_the_door),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
