/* Fields of bodies: what is taken, what is refused and how the message reads; guides; messages. */
#include "serve/gen_impl.h"
#include "serve/openai.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static json_t *json_of(const char *text)
{
    json_t *j = NULL;
    hy_err err;
    if (hy_json_parse("test", text, strlen(text), &j, &err) != HY_OK) fail_msg("%s: %s", text, err.msg);
    return j;
}

typedef struct all {
    bool flag, was_given;
    int64_t whole, wide;
    double number;
    const char *word, *any_word;
    const json_t *stop, *ids, *object, *array;
} all;
#define AT(m) offsetof(all, m)
static const hy_field rows[] = {
    { "flag", HY_F_BOOL, 0, 0, AT(flag), NULL, "", AT(was_given) },
    { "whole", HY_F_INT, 1, 128, AT(whole), NULL, "", 0 },
    { "wide", HY_F_INT, -9.3e18, 9.3e18, AT(wide), NULL, "", 0 },
    { "number", HY_F_NUM, 0, 1, AT(number), NULL, "", 0 },
    { "word", HY_F_STR, 0, 0, AT(word), "low|high", "", 0 },
    { "any_word", HY_F_STR, 0, 0, AT(any_word), NULL, "", 0 },
    { "stop", HY_F_STRS, 0, 3, AT(stop), NULL, "", 0 },
    { "ids", HY_F_INTS, 0, 3, AT(ids), NULL, "", 0 },
    { "object", HY_F_OBJECT, 0, 0, AT(object), NULL, "", 0 },
    { "array", HY_F_ARRAY, 0, 2, AT(array), NULL, "", 0 },
    { "old", HY_F_IGNORE, 0, 0, 0, NULL, "gone", 0 },
    { "never", HY_F_REFUSE, 0, 0, 0, "0|\"text\"|[\"a\"]", "the reason", 0 },
    { NULL, 0, 0, 0, 0, NULL, NULL, 0 }
};

static hy_status read_text(const char *text, all *out, const char **param, hy_err *err)
{
    json_t *j = json_of(text);
    memset(out, 0, sizeof *out);
    hy_status s = hy_fields_read(rows, j, out, param, err);
    json_decref(j);
    return s;
}

static void test_values_that_are_taken(void **state)
{
    static const char *const good[] = {
        "{}", "{\"flag\": null, \"whole\": null, \"never\": null, \"stop\": null}", "{\"unknown\": [1, {}]}",
        "{\"old\": {\"a\": 1}}", "{\"stop\": []}", "{\"stop\": \"\"}",
        "{\"stop\": [\"a\", \"b\", \"c\"]}", "{\"ids\": [1, -2]}",
        "{\"never\": 0}", "{\"never\": 0.0}", "{\"never\": \"text\"}", "{\"never\": [\"a\"]}", "{\"word\": \"high\"}",
        "{\"array\": [1, 2]}", "{\"object\": {}}"
    };
    all a;
    hy_err err;
    const char *param;
    for (size_t i = 0; i < HY_COUNT(good); i++)
        if (read_text(good[i], &a, &param, &err) != HY_OK) fail_msg("%s: %s", good[i], err.msg);
    assert_int_equal(read_text("{\"flag\": true, \"whole\": 3.0, \"number\": 1}", &a, &param, &err), HY_OK);
    assert_true(a.flag && a.was_given && a.whole == 3 && a.number == 1);
    assert_int_equal(read_text("{\"wide\": -9223372036854775808}", &a, &param, &err), HY_OK);
    assert_true(a.wide == INT64_MIN && !a.was_given);
    assert_int_equal(read_text("{\"wide\": 9223372036854775807}", &a, &param, &err), HY_OK);
    assert_true(a.wide == INT64_MAX);
}

static void test_values_that_are_refused(void **state)
{
    static const struct { const char *body, *param, *says; } bad[] = {
        { "{\"flag\": 1}", "flag", "flag: 1 is not true or false" },
        { "{\"flag\": \"yes\"}", "flag", "flag: \"yes\" is not true or false" },
        { "{\"whole\": 0}", "whole", "whole: 0 is not an integer from 1 to 128" },
        { "{\"whole\": 129}", "whole", "whole: 129 is not an integer from 1 to 128" },
        { "{\"whole\": 1.5}", "whole", "whole: 1.5 is not an integer from 1 to 128" },
        { "{\"whole\": \"ten\"}", "whole", "whole: \"ten\" is not an integer from 1 to 128" },
        { "{\"whole\": true}", "whole", "whole: true is not an integer from 1 to 128" },
        { "{\"wide\": \"abc\"}", "wide", "wide: \"abc\" is not a 64-bit integer" },
        { "{\"number\": 999999}", "number", "number: 999999 is not a number from 0 to 1" },
        { "{\"number\": -1}", "number", "number: -1 is not a number from 0 to 1" },
        { "{\"number\": 1e300}", "number", "is not a number from 0 to 1" },
        { "{\"number\": \"NaN\"}", "number", "number: \"NaN\" is not a number from 0 to 1" },
        { "{\"number\": [1]}", "number", "number: an array of 1 is not a number from 0 to 1" },
        { "{\"word\": \"middle\"}", "word", "word: \"middle\" is not one of low|high" },
        { "{\"word\": \"\"}", "word", "word: \"\" is not one of low|high" },
        { "{\"any_word\": 5}", "any_word", "any_word: 5 is not a string" },
        { "{\"any_word\": \"a\\u0000b\"}", "any_word", "is not a string without U+0000" },
        { "{\"stop\": 5}", "stop", "stop: 5 is not a string or an array of strings" },
        { "{\"stop\": {}}", "stop", "stop: an object is not a string or an array of strings" },
        { "{\"stop\": [\"a\", 1]}", "stop", "stop[1]: 1 is not a string" },
        { "{\"stop\": [\"a\", \"b\", \"c\", \"d\"]}", "stop",
          "stop: an array of 4 is not an array of at most 3 strings" },
        { "{\"ids\": [1, 1.5]}", "ids", "ids[1]: 1.5 is not an integer" },
        { "{\"ids\": 7}", "ids", "ids: 7 is not an array" },
        { "{\"object\": []}", "object", "object: an array of 0 is not an object" },
        { "{\"array\": [1, 2, 3]}", "array", "array: an array of 3 is not an array of at most 2 members" },
        { "{\"never\": 1}", "never", "never: 1 is not supported: the reason" },
        { "{\"never\": \"0\"}", "never", "never: \"0\" is not supported: the reason" },
    };
    all a;
    for (size_t i = 0; i < HY_COUNT(bad); i++) {
        hy_err err = { 0 };
        const char *param = NULL;
        assert_int_equal(read_text(bad[i].body, &a, &param, &err), HY_E_ARG);
        assert_string_equal(param, bad[i].param);
        if (!strstr(err.msg, bad[i].says)) fail_msg("%s: \"%s\"", bad[i].body, err.msg);
    }
}

static void test_long_values_are_cut(void **state)
{
    char body[600];
    all a;
    hy_err err = { 0 };
    const char *param;
    memset(body, 'x', sizeof body);
    memcpy(body, "{\"word\": \"", 10);
    memcpy(body + 500, "\"}", 3);
    assert_int_equal(read_text(body, &a, &param, &err), HY_E_ARG);
    assert_true(strlen(err.msg) < 200);
}

/* Every field with a range, in both tables: just outside is refused by name, the ends are taken. */
static void test_every_range(void **state)
{
    const hy_field *const tables[] = { hy_chat_fields, hy_completion_fields };
    for (size_t t = 0; t < HY_COUNT(tables); t++)
        for (const hy_field *f = tables[t]; f->name; f++) {
            if (f->kind != HY_F_INT && f->kind != HY_F_NUM) continue;
            const double ends[] = { f->min, f->max }, outside[] = { f->min - 1, f->max + 1 };
            for (int i = 0; i < 2; i++) {
                if (f->max > 9e18) continue; /* any 64-bit integer */
                hy_body b = { 0 };
                hy_err err = { 0 };
                const char *param = NULL;
                json_t *j = json_pack("{s:f}", f->name, ends[i]);
                assert_int_equal(hy_fields_read(tables[t], j, &b, &param, &err), HY_OK);
                json_decref(j);
                j = json_pack("{s:f}", f->name, outside[i]);
                assert_int_equal(hy_fields_read(tables[t], j, &b, &param, &err), HY_E_ARG);
                assert_string_equal(param, f->name);
                assert_ptr_equal(strstr(err.msg, f->name), err.msg);
                json_decref(j);
            }
        }
}

/* ---- guides ---------------------------------------------------------------------------------------- */

/* Reads guide fields from a chat body; the ask must be freed, the body lives as long as it. */
static hy_status guide_of(const char *text, hy_body *b, json_t **body, const char **param, hy_err *err)
{
    memset(b, 0, sizeof *b);
    hy_ask_init(&b->ask);
    *body = json_of(text);
    *param = NULL;
    HY_TRY(hy_fields_read(hy_chat_fields, *body, b, param, err));
    return hy_ask_guide_fields(&b->ask, param, err);
}

static void test_guides(void **state)
{
    static const struct { const char *body; hy_guide_kind kind; const char *text; } good[] = {
        { "{}", HY_GUIDE_NONE, NULL },
        { "{\"response_format\": {\"type\": \"text\"}}", HY_GUIDE_NONE, NULL },
        { "{\"response_format\": {\"type\": \"json_object\"}}", HY_GUIDE_JSON_OBJECT, NULL },
        { "{\"response_format\": {\"type\": \"json_object\", \"schema\": {\"type\": \"null\"}}}", HY_GUIDE_JSON_SCHEMA,
          "{\"type\":\"null\"}" },
        { "{\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"x\", \"schema\": "
          "{\"enum\": [1]}}}}",
          HY_GUIDE_JSON_SCHEMA, "{\"enum\":[1]}" },
        { "{\"response_format\": {\"type\": \"text\"}, \"guided_regex\": \"a+\"}", HY_GUIDE_REGEX, "a+" },
        { "{\"guided_json\": \"{\\\"type\\\": 1}\"}", HY_GUIDE_JSON_SCHEMA, "{\"type\": 1}" },
        { "{\"guided_choice\": [\"yes\", \"n\\\"o\\n\"]}", HY_GUIDE_GBNF, "root ::= \"yes\" | \"n\\\"o\\x0A\"\n" },
        { "{\"grammar\": \"root ::= \\\"a\\\"\"}", HY_GUIDE_GBNF, "root ::= \"a\"" },
        { "{\"structured_outputs\": {\"json\": {}}}", HY_GUIDE_JSON_SCHEMA, "{}" },
        { "{\"structured_outputs\": {\"regex\": \"[0-9]\", \"choice\": null}}", HY_GUIDE_REGEX, "[0-9]" },
        { "{\"structured_outputs\": {\"json_object\": true}}", HY_GUIDE_JSON_OBJECT, NULL },
        { "{\"structured_outputs\": {\"choice\": [\"a\"]}}", HY_GUIDE_GBNF, "root ::= \"a\"\n" },
    };
    for (size_t i = 0; i < HY_COUNT(good); i++) {
        hy_body b;
        json_t *body;
        const char *param;
        hy_err err = { 0 };
        if (guide_of(good[i].body, &b, &body, &param, &err) != HY_OK) fail_msg("%s: %s", good[i].body, err.msg);
        assert_int_equal(b.ask.guide.kind, good[i].kind);
        if (good[i].text) {
            assert_int_equal(b.ask.guide.n_text, strlen(good[i].text));
            assert_memory_equal(b.ask.guide.text, good[i].text, b.ask.guide.n_text);
        }
        hy_ask_free(&b.ask);
        json_decref(body);
    }
}

static void test_wrong_guides(void **state)
{
    static const struct { const char *body, *param, *says; } bad[] = {
        { "{\"response_format\": \"json\"}", "response_format", "is not an object" },
        { "{\"response_format\": {}}", "response_format", "response_format.type: missing" },
        { "{\"response_format\": {\"type\": \"nope\"}}", "response_format", "\"nope\"" },
        { "{\"response_format\": {\"type\": \"json_schema\"}}", "response_format", "response_format.json_schema" },
        { "{\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"a\"}}}", "response_format",
          "schema" },
        { "{\"guided_json\": 5}", "guided_json", "guided_json: " },
        { "{\"guided_choice\": []}", "guided_choice", "guided_choice: " },
        { "{\"guided_choice\": [1]}", "guided_choice", "choice 0" },
        { "{\"guided_regex\": \"a\", \"grammar\": \"root ::= \\\"a\\\"\"}", "guided_grammar",
          "not together with guided_regex" },
        { "{\"structured_outputs\": {}}", "structured_outputs", "none of" },
        { "{\"structured_outputs\": {\"json\": {}, \"regex\": \"a\"}}", "structured_outputs", "both json and regex" },
        { "{\"structured_outputs\": {\"structural_tag\": \"x\"}}", "structured_outputs", "structural_tag" },
    };
    for (size_t i = 0; i < HY_COUNT(bad); i++) {
        hy_body b;
        json_t *body;
        const char *param;
        hy_err err = { 0 };
        assert_int_equal(guide_of(bad[i].body, &b, &body, &param, &err), HY_E_ARG);
        assert_string_equal(param, bad[i].param);
        if (!strstr(err.msg, bad[i].says)) fail_msg("%s: \"%s\"", bad[i].body, err.msg);
        hy_ask_free(&b.ask);
        json_decref(body);
    }
}

/* ---- messages -------------------------------------------------------------------------------------- */

static void test_wrong_messages(void **state)
{
    static const struct { const char *messages, *says; } bad[] = {
        { "\"hi\"", "messages: \"hi\" is not an array" }, { "[]", "messages: an empty array" },
        { "[1]", "messages[0]: 1 is not an object" }, { "[{}]", "messages[0].role: missing" },
        { "[{\"role\": 1, \"content\": \"x\"}]", "messages[0].role" },
        { "[{\"role\": \"boss\", \"content\": \"x\"}]", "messages[0].role: \"boss\" is not" },
        { "[{\"role\": \"user\"}]", "messages[0].content: missing" },
        { "[{\"role\": \"user\", \"content\": null}]", "messages[0].content: missing" },
        { "[{\"role\": \"user\", \"content\": 5}]", "messages[0].content: 5 is not" },
        { "[{\"role\": \"user\", \"content\": []}]", "messages[0].content: an empty array" },
        { "[{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}]", "messages[0].content[0].text: missing" },
        { "[{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]",
          "messages[0].content[0].type: \"image_url\"" },
        { "[{\"role\": \"user\", \"content\": [\"x\"]}]", "messages[0].content[0]: \"x\" is not an object" },
        { "[{\"role\": \"assistant\", \"content\": null}]", "messages[0].content: missing" },
        { "[{\"role\": \"user\", \"content\": \"x\", \"tool_calls\": []}]", "only with the role assistant" },
        { "[{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"type\": \"custom\"}]}]",
          "tool_calls[0].type" },
        { "[{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"function\": {}}]}]",
          "messages[0].tool_calls[0].function.name" },
        { "[{\"role\": \"user\", \"content\": \"x\", \"name\": 7}]", "messages[0].name: 7" },
    };
    for (size_t i = 0; i < HY_COUNT(bad); i++) {
        hy_err err = { 0 };
        json_t *m = json_of(bad[i].messages);
        assert_int_equal(hy_messages_check(m, &err), HY_E_ARG);
        if (!strstr(err.msg, bad[i].says)) fail_msg("%s: \"%s\"", bad[i].messages, err.msg);
        json_decref(m);
    }
}

/* The template's variables for messages, as text. */
static void check_vars(const char *messages, const char *source, bool args_as_text, const char *want)
{
    hy_ask a;
    hy_err err = { 0 };
    bool has_calls;
    json_t *vars = NULL, *m = json_of(messages), *expected = json_of(want);
    hy_ask_init(&a);
    a.messages = m;
    assert_int_equal(hy_messages_check(m, &err), HY_OK);
    assert_int_equal(hy_messages_vars(&a, source, args_as_text, &has_calls, &vars, &err), HY_OK);
    const json_t *got = json_object_get(vars, "messages");
    if (!json_equal((json_t *)got, expected)) fail_msg("%s", json_dumps(got, 0));
    assert_true(json_is_null(json_object_get(vars, "tools")) && json_is_true(json_object_get(vars,
        "add_generation_prompt")));
    json_decref(vars);
    json_decref(m);
    json_decref(expected);
    hy_ask_free(&a);
}

static void test_messages_for_templates(void **state)
{
    check_vars("[{\"role\": \"developer\", \"content\": \"x\"}]", "system user", false,
               "[{\"role\": \"system\", \"content\": \"x\"}]");
    check_vars("[{\"role\": \"developer\", \"content\": \"x\"}]", "role == 'developer'", false,
               "[{\"role\": \"developer\", \"content\": \"x\"}]");
    check_vars("[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"A\"}, "
               "{\"type\": \"text\", \"text\": \"B\"}]}]",
               NULL, false, "[{\"role\": \"user\", \"content\": \"A\\nB\"}]");
    static const char call[] =
        "[{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"c\", \"type\": "
                               "\"function\", \"function\": {\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}}]}]";
    check_vars(call, "m.tool_calls", false,
               "[{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"id\": \"c\", \"type\": \"function\", "
               "\"function\": {\"name\": \"f\", \"arguments\": {\"a\": 1}}}]}]");
    check_vars(call, "m.tool_calls", true,
               "[{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"id\": \"c\", \"type\": \"function\", "
               "\"function\": {\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}}]}]");
    /* what a model wrote need not be JSON */
    check_vars("[{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"function\": "
               "{\"name\": \"f\", \"arguments\": \"{a\"}}]}]",
               "m.tool_calls", false,
               "[{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"type\": \"function\", \"function\": "
               "{\"name\": \"f\", \"arguments\": \"{a\"}}]}]");
    check_vars("[{\"role\": \"assistant\", \"content\": \"x\", \"reasoning\": \"hm\", \"tool_calls\": []}]", NULL,
               false,
               "[{\"role\": \"assistant\", \"content\": \"x\", \"reasoning\": \"hm\", \"reasoning_content\": \"hm\"}]");
    check_vars("[{\"role\": \"function\", \"name\": \"f\", \"content\": \"7\"}]", "m.tool_calls", false,
               "[{\"role\": \"tool\", \"name\": \"f\", \"content\": \"7\"}]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_that_are_taken),  cmocka_unit_test(test_values_that_are_refused),
        cmocka_unit_test(test_long_values_are_cut),    cmocka_unit_test(test_every_range),
        cmocka_unit_test(test_guides),                 cmocka_unit_test(test_wrong_guides),
        cmocka_unit_test(test_wrong_messages),         cmocka_unit_test(test_messages_for_templates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
