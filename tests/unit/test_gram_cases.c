/* Schemas, expressions and grammars against verdicts of Python's jsonschema and re, and against
 * verdicts written by hand (tests/data/structured; the full set where HY_SHARED has it). */
#include "gram_help.h"

static const char *id_of(const json_t *o)
{
    const char *id = json_string_value(json_object_get(o, "id"));
    return id ? id : "?";
}

static void reject_all(hy_gram *g, const json_t *o, const char *key, int *wrong)
{
    json_t *t;
    size_t i;
    json_array_foreach(json_object_get(o, key), i, t) if (gram_matches(g, json_string_value(t)))
    {
        print_message("%s: accepted %s\n", id_of(o), json_string_value(t));
        ++*wrong;
    }
}

/* An entry of accept is a text, or a list of ways to write one value, of which one must do. */
static void accept_all(hy_gram *g, const json_t *o, int *wrong)
{
    json_t *group;
    size_t i;
    json_array_foreach(json_object_get(o, "accept"), i, group)
    {
        bool any = json_is_string(group) && gram_matches(g, json_string_value(group));
        for (size_t k = 0; k < json_array_size(group); k++)
            any |= gram_matches(g, json_string_value(json_array_get(group, k)));
        if (any) continue;
        char *text = json_dumps(group, JSON_ENCODE_ANY);
        print_message("%s: rejected %s\n", id_of(o), text);
        free(text);
        ++*wrong;
    }
}

static hy_status compile_case(hy_gram **g, json_t *o, hy_err *err)
{
    const char *kind = json_string_value(json_object_get(o, "kind"));
    json_t *schema = json_object_get(o, "schema");
    if (schema) return gram_compile_json(g, schema, err);
    return gram_compile(g, kind && strcmp(kind, "regex") == 0 ? HY_GRAM_REGEX : HY_GRAM_GBNF,
                        json_string_value(json_object_get(o, "grammar")), NULL, err);
}

static void must_hold(json_t *o, void *ctx)
{
    hy_gram *g;
    hy_err err;
    if (compile_case(&g, o, &err) != HY_OK) {
        print_message("%s: %s\n", id_of(o), err.msg);
        ++*(int *)ctx;
        return;
    }
    accept_all(g, o, ctx);
    reject_all(g, o, "reject", ctx);
    reject_all(g, o, "reject_syntax", ctx);
    hy_gram_unref(g);
}

static void hold_or_name(json_t *o, void *ctx)
{
    hy_gram *g;
    hy_err err;
    const char *word = json_string_value(json_object_get(o, "keyword"));
    if (compile_case(&g, o, &err) != HY_OK) {
        if (!strstr(err.msg, word)) {
            print_message("%s: '%s' does not name %s\n", id_of(o), err.msg, word);
            ++*(int *)ctx;
        }
        return;
    }
    accept_all(g, o, ctx);
    reject_all(g, o, "reject", ctx);
    hy_gram_unref(g);
}

static void must_fail(json_t *o, void *ctx)
{
    hy_gram *g;
    hy_err err = {HY_OK, ""};
    hy_status st = compile_case(&g, o, &err);
    if (st == HY_OK) hy_gram_unref(g);
    if (st == HY_OK ? strcmp(json_string_value(json_object_get(o, "expect")), "400") == 0
                    : !err.msg[0]) {
        print_message("%s: compiled\n", id_of(o));
        ++*(int *)ctx;
    }
    assert_true(st == HY_OK || st == HY_E_ARG || st == HY_E_UNSUPPORTED || st == HY_E_LIMIT);
}

/* Verdicts of jsonschema on random schemas: nothing invalid is accepted; where every word of the
 * schema is one that must be supported, everything valid is. */
static void random_schema(json_t *o, void *ctx)
{
    hy_gram *g;
    hy_err err;
    bool complete = json_is_true(json_object_get(o, "complete"));
    hy_status st = compile_case(&g, o, &err);
    if (st != HY_OK) {
        if (complete || (st != HY_E_UNSUPPORTED && json_array_size(json_object_get(o, "accept")))) {
            char *text = json_dumps(json_object_get(o, "schema"), 0);
            print_message("%s: %s\n", text, err.msg);
            free(text);
            ++*(int *)ctx;
        }
        return;
    }
    int before = *(int *)ctx;
    if (complete) accept_all(g, o, ctx);
    reject_all(g, o, "reject", ctx);
    if (*(int *)ctx > before) {
        char *text = json_dumps(json_object_get(o, "schema"), 0);
        print_message("  in %s\n", text);
        free(text);
    }
    hy_gram_unref(g);
}

/* A text as a JSON string, the whole of it written with \u where `hard`. */
static json_t *quoted(const char *s, bool hard)
{
    json_t *t = json_string(s);
    char *text = json_dumps(t, JSON_ENCODE_ANY | (hard ? JSON_ENSURE_ASCII : 0));
    json_decref(t);
    t = json_string(text);
    free(text);
    return t;
}

static void random_regex(json_t *o, void *ctx)
{
    const char *re = json_string_value(json_object_get(o, "regex"));
    json_t *texts = json_object_get(o, "texts"),
           *schema = json_pack("{s:s, s:s}", "type", "string", "pattern", re);
    hy_gram *full, *search;
    hy_err err;
    if (gram_compile(&full, HY_GRAM_REGEX, re, NULL, &err) != HY_OK)
        fail_msg("%s: %s", re, err.msg);
    if (gram_compile_json(&search, schema, &err) != HY_OK) fail_msg("%s: %s", re, err.msg);
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const char *t = json_string_value(json_array_get(texts, i));
        json_t *q = quoted(t, i & 1);
        bool want_full = json_is_true(json_array_get(json_object_get(o, "full"), i));
        bool want_search = json_is_true(json_array_get(json_object_get(o, "search"), i));
        if (gram_matches(full, t) != want_full ||
            gram_matches(search, json_string_value(q)) != want_search) {
            print_message("%s on '%s'\n", re, t);
            ++*(int *)ctx;
        }
        json_decref(q);
    }
    json_decref(schema);
    hy_gram_unref(full);
    hy_gram_unref(search);
}

typedef struct set {
    const char *file;
    void (*fn)(json_t *o, void *ctx);
} set;
static const set sets[] = {
    {"schemas.jsonl", must_hold},
    {"words.jsonl", must_hold},
    {"grammars.jsonl", must_hold},
    {"unsupported_keywords.jsonl", hold_or_name},
    {"invalid_schemas.jsonl", must_fail},
    {"invalid_grammars.jsonl", must_fail},
    {"random_schemas.jsonl", random_schema},
    {"random_regex.jsonl", random_regex},
};

static void run_sets(const char *dir, bool optional)
{
    int wrong = 0;
    for (size_t i = 0; i < HY_COUNT(sets); i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", dir, sets[i].file);
        int n = each_line(path, sets[i].fn, &wrong);
        if (n < 0 && !optional) fail_msg("%s is not there", path);
        if (n >= 0) print_message("%s: %d cases\n", sets[i].file, n);
    }
    assert_int_equal(wrong, 0);
}

static void own(void **state) { run_sets(HY_DATA "/structured", false); }

static void shared(void **state)
{
    FILE *f = fopen(HY_SHARED "/cases/structured/schemas.jsonl", "rb");
    if (!f) {
        print_message("skipped: no shared cases beside the source\n");
        return;
    }
    fclose(f);
    run_sets(HY_SHARED "/cases/structured", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(own), cmocka_unit_test(shared)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
