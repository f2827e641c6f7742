/* Hostile and contradictory sources: always an error that says why, or a right answer; never a
 * hang, a crash or an answer without bounds. The faults that users of other engines met (R5, R7,
 * R9) are among them. */
#include "gram_help.h"

static hy_gram *must(hy_gram_kind kind, const char *text)
{
    hy_gram *g;
    hy_err err;
    if (gram_compile(&g, kind, text, NULL, &err) != HY_OK) fail_msg("%.200s: %s", text, err.msg);
    return g;
}

typedef struct fault {
    hy_gram_kind kind;
    const char *text;
    hy_status status;
    const char *says;
} fault;
#define S HY_GRAM_JSON_SCHEMA
#define R HY_GRAM_REGEX
#define G HY_GRAM_GBNF
static const fault faults[] = {
    {S, "", HY_E_ARG, "JSON"},
    {S, "{\"type\":", HY_E_ARG, "JSON"},
    {S, "3", HY_E_ARG, "schema"},
    {S, "false", HY_E_ARG, "no text"},
    {S, "{\"type\":\"strnig\"}", HY_E_ARG, "strnig"},
    {S, "{\"$ref\":\"#\"}", HY_E_ARG, "$ref"},
    {S, "{\"allOf\":[{\"$ref\":\"#\"}]}", HY_E_ARG, "$ref"},
    {S, "{\"anyOf\":[{\"type\":\"null\"},{\"$ref\":\"#\"}]}", HY_E_ARG, "$ref"},
    {S, "{\"not\":{\"$ref\":\"#\"}}", HY_E_ARG, "$ref"},
    {S,
     "{\"$defs\":{\"a\":{\"$ref\":\"#/$defs/b\"},\"b\":{\"$ref\":\"#/$defs/a\"}},\"$ref\":\"#/"
     "$defs/a\"}",
     HY_E_ARG, "$ref"},
    {S, "{\"$ref\":\"#/$defs/nowhere\"}", HY_E_ARG, "nowhere"},
    {S, "{\"$ref\":\"#/properties/a/type\",\"properties\":{\"a\":{\"type\":\"string\"}}}", HY_E_ARG,
     "schema"},
    {S, "{\"$ref\":\"other.json\"}", HY_E_UNSUPPORTED, "$ref"},
    {S, "{\"$dynamicRef\":\"#x\"}", HY_E_UNSUPPORTED, "$dynamicRef"},
    {S, "{\"type\":\"object\",\"properties\":{\"x\":{\"$ref\":\"#\"}},\"required\":[\"x\"]}",
     HY_E_ARG, "no text"}, /* never ends */
    {S, "{\"minLength\":3,\"maxLength\":2}", HY_E_ARG, "minLength"},
    {S, "{\"minItems\":3,\"maxItems\":2}", HY_E_ARG, "minItems"},
    {S, "{\"minProperties\":3,\"maxProperties\":2}", HY_E_ARG, "minProperties"},
    {S, "{\"minimum\":3,\"maximum\":2}", HY_E_ARG, "minimum"},
    {S, "{\"minimum\":3,\"exclusiveMaximum\":3}", HY_E_ARG, "exclusiveMaximum"},
    {S, "{\"type\":\"integer\",\"minimum\":1.25,\"maximum\":1.75}", HY_E_ARG, "no text"},
    {S, "{\"type\":\"string\",\"enum\":[1,2]}", HY_E_ARG, "no text"},
    {S, "{\"type\":\"string\",\"pattern\":\"^abc$\",\"minLength\":4}", HY_E_ARG, "no text"},
    {S, "{\"allOf\":[{\"pattern\":\"^a\",\"type\":\"string\"},{\"pattern\":\"^b\"}]}", HY_E_ARG,
     "no text"},
    {S, "{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":false}}", HY_E_ARG,
     "no text"},
    {S, "{\"minLength\":-1}", HY_E_ARG, "minLength"},
    {S, "{\"maxItems\":1.5}", HY_E_ARG, "maxItems"},
    {S, "{\"multipleOf\":0}", HY_E_ARG, "multipleOf"},
    {S, "{\"required\":\"a\"}", HY_E_ARG, "required"},
    {S, "{\"properties\":[]}", HY_E_ARG, "properties"},
    {S, "{\"properties\":{\"a\":1}}", HY_E_ARG, "properties"},
    {S, "{\"anyOf\":{}}", HY_E_ARG, "anyOf"},
    {S, "{\"enum\":[]}", HY_E_ARG, "enum"},
    {S, "{\"pattern\":\"(\"}", HY_E_ARG, "pattern"},
    {S, "{\"pattern\":\"a{1000}{1000}\"}", HY_E_ARG, "pattern"},
    {S, "{\"type\":\"string\",\"pattern\":\"^((a{1,900}){1,900}){1,900}$\"}", HY_E_LIMIT,
     "pattern"},
    {S, "{\"pattern\":\"(a)\\\\1\"}", HY_E_UNSUPPORTED, "pattern"},
    {S, "{\"pattern\":\"(?<=a)b\"}", HY_E_UNSUPPORTED, "pattern"},
    {S, "{\"format\":\"iri\"}", HY_E_UNSUPPORTED, "format"},
    {S, "{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"uniqueItems\":true}",
     HY_E_UNSUPPORTED, "uniqueItems"},
    {S, "{\"type\":\"object\",\"minProperties\":2}", HY_E_UNSUPPORTED, "minProperties"},
    {S, "{\"oneOf\":[{\"type\":\"array\",\"items\":{\"type\":\"integer\"}},{\"type\":\"array\"}]}",
     HY_E_UNSUPPORTED, "oneOf"},
    {S, "{\"multipleOf\":0.123456789}", HY_E_UNSUPPORTED, "multipleOf"},
    {R, "(", HY_E_ARG, "regex"},
    {R, "a)", HY_E_ARG, "regex"},
    {R, "*a", HY_E_ARG, "repeat"},
    {R, "a**", HY_E_ARG, "repeat"},
    {R, "[b-a]", HY_E_ARG, "order"},
    {R, "[a", HY_E_ARG, "]"},
    {R, "a{3,2}", HY_E_ARG, "order"},
    {R, "\\", HY_E_ARG, "backslash"},
    {R, "\\bword", HY_E_UNSUPPORTED, "\\b"},
    {R, "(?P=name)", HY_E_UNSUPPORTED, "group"},
    {R, "\xFF", HY_E_ARG, "UTF-8"},
    {R, "a$b", HY_E_ARG, "no text"},
    {R, "(.*a){40}.{60}(.*b){40}", HY_E_LIMIT, "regex"},
    {G, "", HY_E_ARG, "root"},
    {G, "a ::= \"x\"", HY_E_ARG, "root"},
    {G, "root ::= root", HY_E_ARG, "left recursion"},
    {G, "root ::= a\na ::= b \"x\"\nb ::= a?", HY_E_ARG, "left recursion"},
    {G, "root ::= empty root \"a\" | \"b\"\nempty ::= \"\" | \"c\"", HY_E_ARG, "left recursion"},
    {G, "root ::= \"a\" root", HY_E_ARG, "no text"},
    {G, "root ::= nowhere", HY_E_ARG, "nowhere"},
    {G, "root ::= \"a", HY_E_ARG, "missing"},
    {G, "root ::= [a", HY_E_ARG, "]"},
    {G, "root ::= \"a\"{2,1}", HY_E_ARG, "order"},
    {G, "root ::= \"a\"{99999999999}", HY_E_ARG, "large"},
    {G, "root ::= \"\\ud800\"", HY_E_ARG, "surrogate"},
    {G, "root ::= \"a\"\nroot ::= \"b\"", HY_E_ARG, "above"},
    {G, "root ::= @schema(\"x\")", HY_E_ARG, "x"},
    {G, "root ::= @until(\"\")", HY_E_ARG, "empty"},
    {G, "root ::= @nothing(\"a\")", HY_E_ARG, "unknown word"},
    {G, "root ::= @until(\"a\"", HY_E_ARG, ")"},
    {G, "root : \"a\"", HY_E_ARG, "::="},
};

static void say_why(void **state)
{
    for (size_t i = 0; i < HY_COUNT(faults); i++) {
        const fault *f = &faults[i];
        hy_gram *g = NULL;
        hy_err err = {HY_OK, ""};
        hy_status st = gram_compile(&g, f->kind, f->text, NULL, &err);
        if (st == HY_OK) fail_msg("%s: compiled", f->text);
        if (st != f->status || !strstr(err.msg, f->says))
            fail_msg("%s: status %d, '%s'", f->text, (int)st, err.msg);
    }
}

static void large_counts(void **state)
{
    hy_gram *g = must(S, "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"object\","
                         "\"properties\":{\"b\":{\"type\":\"string\",\"maxLength\":65536,"
                         "\"minLength\":65535}},\"required\":[\"b\"]}},\"required\":[\"a\"]}");
    for (size_t n = 65534; n <= 65537; n++) {
        hy_buf b = {0};
        hy_buf_str(&b, "{\"a\":{\"b\":\"");
        for (size_t i = 0; i < n; i++)
            hy_buf_str(&b, i % 2 ? "\xC3\xA9" : "\\u00e9"); /* characters count, not bytes */
        hy_buf_str(&b, "\"}}");
        assert_int_equal(gram_matches(g, b.data), n == 65535 || n == 65536);
        hy_buf_free(&b);
    }
    hy_gram_unref(g);
    g = must(S, "{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"minItems\":2,\"maxItems\":"
                "18446744073709551615}");
    assert_true(gram_matches(g, "[null, null]"));
    assert_false(gram_matches(g, "[null]"));
    hy_gram_unref(g);
    g = must(S,
             "{\"type\":\"array\",\"items\":{\"const\":0},\"minItems\":70000,\"maxItems\":70001}");
    hy_buf b = {0};
    hy_buf_str(&b, "[0");
    for (int i = 1; i < 70000; i++) hy_buf_str(&b, ",0");
    size_t n = b.len;
    for (int i = -1; i <= 2; i++) {
        b.len = n - 2;
        for (int k = 0; k <= i; k++) hy_buf_str(&b, ",0");
        hy_buf_char(&b, ']');
        assert_int_equal(gram_matches(g, b.data), i == 0 || i == 1);
    }
    hy_buf_free(&b);
    hy_gram_unref(g);
    g = must(R, "[a-z]{2,2000000000}");
    assert_true(gram_matches(g, "ab"));
    assert_false(gram_matches(g, "a"));
    hy_gram_unref(g);
}

static void deep(void **state)
{
    hy_gram *g = must(HY_GRAM_JSON_OBJECT, "");
    hy_err err;
    for (int depth = 10; depth <= 100000; depth *= 10) {
        hy_buf b = {0};
        bool m = true;
        hy_buf_str(&b, "{\"a\":");
        for (int i = 0; i < depth; i++) hy_buf_char(&b, '[');
        for (int i = 0; i < depth; i++) hy_buf_char(&b, ']');
        hy_buf_char(&b, '}');
        hy_status st = hy_gram_match(g, b.data, b.len, &m, &err);
        if (depth <= 100 ? st != HY_OK || !m
                         : depth > 1000 && st != HY_E_LIMIT) /* a bound, and it is said */
            fail_msg("depth %d: status %d, match %d", depth, (int)st, m);
        hy_buf_free(&b);
    }
    hy_gram_unref(g);
    hy_buf b = {0}; /* groups, brackets, schemas inside each other */
    for (int i = 0; i < 100000; i++) hy_buf_char(&b, '(');
    assert_int_equal(gram_compile(&g, R, b.data, NULL, &err), HY_E_LIMIT);
    hy_buf_reset(&b);
    hy_buf_str(&b, "root ::= ");
    for (int i = 0; i < 100000; i++) hy_buf_char(&b, '(');
    assert_int_equal(gram_compile(&g, G, b.data, NULL, &err), HY_E_LIMIT);
    hy_buf_reset(&b);
    for (int i = 0; i < 1000; i++) hy_buf_str(&b, "{\"not\":");
    hy_buf_str(&b, "{}");
    for (int i = 0; i < 1000; i++) hy_buf_char(&b, '}');
    hy_status st = gram_compile(&g, S, b.data, NULL, &err);
    assert_true(st == HY_OK || st == HY_E_LIMIT);
    if (st == HY_OK) hy_gram_unref(g);
    hy_buf_reset(&b);
    for (int i = 0; i < 300; i++) hy_buf_str(&b, "{\"properties\":{\"a\":");
    hy_buf_str(&b, "{\"type\":\"null\"}");
    for (int i = 0; i < 300; i++) hy_buf_str(&b, "},\"required\":[\"a\"]}");
    st = gram_compile(&g, S, b.data, NULL, &err);
    assert_int_equal(st, HY_OK);
    hy_buf_reset(&b);
    for (int i = 0; i < 300; i++) hy_buf_str(&b, "{\"a\":");
    hy_buf_str(&b, "null");
    for (int i = 0; i < 300; i++) hy_buf_char(&b, '}');
    assert_true(gram_matches(g, b.data));
    hy_gram_unref(g);
    hy_buf_free(&b);
}

/* Many alternatives, combinations that multiply, long lists: bounded, with an answer. */
static void wide(void **state)
{
    hy_buf b = {0};
    hy_gram *g;
    hy_err err;
    hy_buf_str(&b, "{\"enum\":[0");
    for (int i = 1; i < 5000; i++) hy_buf_printf(&b, ",\"label number %d\"", i);
    hy_buf_str(&b, "]}");
    g = must(S, b.data);
    assert_true(gram_matches(g, "\"label number 4999\""));
    assert_false(gram_matches(g, "\"label number 5000\""));
    hy_gram_unref(g);
    hy_buf_reset(&b); /* 200 optional properties */
    hy_buf_str(&b, "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"null\"},"
                   "\"properties\":{\"p0\":{}");
    for (int i = 1; i < 200; i++) hy_buf_printf(&b, ",\"p%d\":{\"type\":\"integer\"}", i);
    hy_buf_str(&b, "}}");
    g = must(S, b.data);
    assert_true(gram_matches(g, "{\"p7\": 1, \"p199\": 2, \"q\": null}"));
    assert_false(gram_matches(g, "{\"p7\": null}"));
    hy_gram_unref(g);
    for (int n = 400; n <= 401; n++) { /* optional ones in a row, up to the bound and beyond */
        hy_buf_reset(&b);
        hy_buf_str(&b, "{\"properties\":{\"q0\":{}");
        for (int i = 1; i < n; i++) hy_buf_printf(&b, ",\"q%d\":{\"type\":\"integer\"}", i);
        hy_buf_str(&b, "}}");
        hy_status st = gram_compile(&g, S, b.data, NULL, &err);
        assert_int_equal(st, n == 400 ? HY_OK : HY_E_LIMIT);
        if (st != HY_OK) continue;
        assert_true(gram_matches(g, "{\"q399\": 1}"));
        hy_gram_unref(g);
    }
    hy_buf_reset(&b); /* 2^40 combinations */
    hy_buf_str(&b, "{\"allOf\":[true");
    for (int i = 0; i < 40; i++)
        hy_buf_printf(&b, ",{\"anyOf\":[{\"minLength\":%d},{\"maxLength\":%d}]}", i, i);
    hy_buf_str(&b, "]}");
    assert_int_equal(gram_compile(&g, S, b.data, NULL, &err), HY_E_LIMIT);
    hy_buf_reset(&b); /* rules that double */
    hy_buf_str(&b, "root ::= r40\nr0 ::= \"a\" | \"b\"\n");
    for (int i = 1; i <= 40; i++) hy_buf_printf(&b, "r%d ::= r%d r%d\n", i, i - 1, i - 1);
    g = must(G, b.data);
    assert_false(gram_matches(g, "abab"));
    hy_gram_unref(g);
    hy_buf_free(&b);
    g = must(G,
             "root ::= s s s s s s\ns ::= (\"a\" s) | \"\" | (\"a\" \"a\" s)"); /* very ambiguous */
    assert_true(gram_matches(g, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
    assert_false(gram_matches(g, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"));
    hy_gram_unref(g);
}

/* Digits come to an end, and every double and every integer of 128 bits can still be written. */
static void numbers(void **state)
{
    static const char *const any[] = {
        "{}", "{\"type\":\"number\"}", "{\"type\":\"number\",\"minimum\":-1e50}",
        "{\"type\":[\"number\",\"null\"]}",
    };
    static const char *const good[] = {
        "0", "-0.5", "1.7976931348623157e308", "-1.7976931348623157E+308", "5e-324",
        "2.2250738585072014e-308", "0.000001", "123456789012345680000",
        "0.30000000000000004", "-170141183460469231731687303715884105728",
        "340282366920938463463374607431768211455", "1e05", "0.0000000000000000000000000012345",
    };
    hy_buf b = {0};
    for (size_t k = 0; k < HY_COUNT(any); k++) {
        hy_gram *g = must(S, any[k]);
        for (size_t i = 0; i < HY_COUNT(good); i++) {
            if (strstr(any[k], "minimum") && strpbrk(good[i], "eE")) continue; /* has none */
            if (!gram_matches(g, good[i])) fail_msg("%s: %s is refused", any[k], good[i]);
        }
        static const char *const without_end[] = {"1", "0.3", "-0.3", "12.0"};
        for (size_t i = 0; i < HY_COUNT(without_end); i++) {
            hy_buf_reset(&b);
            hy_buf_str(&b, without_end[i]);
            char digit = without_end[i][strlen(without_end[i]) - 1];
            for (int n = 0; n < 200; n++) hy_buf_char(&b, digit);
            if (gram_matches(g, b.data)) fail_msg("%s: %s", any[k], b.data);
        }
        assert_false(gram_matches(g, "1e309"));
        assert_false(gram_matches(g, "1e-325"));
        assert_false(gram_matches(g, "1e99999999"));
        hy_gram_unref(g);
    }
    static const char *const bounded[] = {
        "{\"type\":\"integer\"}", "{\"type\":\"integer\",\"minimum\":1}",
        "{\"type\":\"number\",\"maximum\":100}", "{\"type\":\"number\",\"multipleOf\":7}",
        "{\"type\":\"number\",\"multipleOf\":0.01}", "{\"not\":{\"const\":3},\"type\":\"integer\"}",
    };
    for (size_t k = 0; k < HY_COUNT(bounded); k++) {
        hy_gram *g = must(S, bounded[k]);
        assert_true(gram_matches(g, "98") || strstr(bounded[k], "not") != NULL);
        for (int zeros = 0; zeros < 2; zeros++) { /* 7 * 10^n is a multiple of everything above */
            hy_buf_reset(&b);
            hy_buf_str(&b, zeros ? "7." : "7");
            for (int n = 0; n < 200; n++) hy_buf_char(&b, '0');
            if (gram_matches(g, b.data)) fail_msg("%s: %s", bounded[k], b.data);
        }
        hy_gram_unref(g);
    }
    /* a bound of 60 digits: the numbers below it have as many */
    hy_gram *g = must(S, "{\"type\":\"integer\",\"minimum\":1e55,\"maximum\":9e59}");
    hy_buf_reset(&b);
    for (int n = 0; n < 60; n++) hy_buf_char(&b, '8');
    assert_true(gram_matches(g, b.data));
    b.data[50] = 0;
    assert_false(gram_matches(g, b.data));
    hy_gram_unref(g);
    hy_buf_free(&b);
}

typedef struct big {
    hy_gram_kind kind;
    const char *begin, *each, *end; /* each: with one %u, or none */
} big;
static const big bigs[] = {
    {G, "root ::= \"x\"", " | \"w%u\"", "\n"},
    {G, "root ::= \"x\"", " \"a\"", "\n"},
    {G, "r ::= \"x\" r | \"y\"\nroot ::= r", " r \"z\" | r", "\n"},
    {G, "root ::= r1 | \"a\"\n", "r%u ::= \"a\" root | \"b\" root\n", "r1 ::= \"b\"\n"},
    {G, "root ::= (\"x\"", " | \"w%u\"", ")*\n"},
    {R, "x", "|w%u", ""},
    {R, "x", "a?b?", ""},
    {R, "x", ".*a", ""},
    {S, "{\"enum\":[0", ",\"w%u\"", "]}"},
    {S, "{\"enum\":[0", ",{\"a\":%u}", "]}"},
    {S, "{\"anyOf\":[{\"type\":\"null\"}", ",{\"const\":%u}", "]}"},
    {S, "{\"oneOf\":[{\"type\":\"null\"}", ",{\"const\":%u}", "]}"},
    {S, "{\"allOf\":[{\"type\":\"string\"}", ",{\"pattern\":\"a.*%u\"}", "]}"},
    {S, "{\"type\":\"object\",\"properties\":{\"a\":{}", ",\"p%u\":{\"type\":\"null\"}", "}}"},
    {S, "{\"type\":\"array\",\"prefixItems\":[{}", ",{\"const\":%u}", "]}"},
    {S, "{\"const\":[0", ",[%u]", "]}"},
    {S, "{\"anyOf\":[{\"type\":\"null\"}", ",{\"properties\":{\"k\":{\"const\":%u}},\"required\":[\"k\"]}", "]}"},
};

/* Steps that compiling a source of about n bytes takes; UINT64_MAX: too many, and the message says of what. */
static uint64_t steps_of(const big *x, size_t n)
{
    hy_buf b = {0};
    hy_gram *g = NULL;
    hy_err err = {HY_OK, ""};
    hy_buf_str(&b, x->begin);
    for (uint32_t i = 2; b.len < n; i++) {
        if (strchr(x->each, '%')) {
            const char *at = strchr(x->each, '%');
            hy_buf_put(&b, x->each, (size_t)(at - x->each));
            hy_buf_printf(&b, "%u%s", i, at + 2);
        } else {
            hy_buf_str(&b, x->each);
        }
    }
    hy_buf_str(&b, x->end);
    hy_status st = gram_compile(&g, x->kind, b.data, NULL, &err);
    hy_buf_free(&b);
    if (st == HY_OK) {
        uint64_t steps = hy_gram_steps(g);
        hy_gram_unref(g);
        return steps;
    }
    if (st != HY_E_LIMIT && st != HY_E_UNSUPPORTED) fail_msg("%s: %s", x->each, err.msg);
    if (st == HY_E_LIMIT && !strpbrk(err.msg, "0123456789")) fail_msg("no number: %s", err.msg);
    return UINT64_MAX;
}

/* A megabyte of anything: compiled or refused within the same number of steps, and they are counted: a longer
 * source takes more of them. */
static void megabytes(void **state)
{
    for (size_t i = 0; i < HY_COUNT(bigs); i++) {
        uint64_t a = steps_of(&bigs[i], 10000), b = steps_of(&bigs[i], 20000);
        if (a != UINT64_MAX && b <= a)
            fail_msg("%s: %llu steps, then %llu", bigs[i].each, (unsigned long long)a, (unsigned long long)b);
        uint64_t c = steps_of(&bigs[i], 1000000);
        assert_true(c == UINT64_MAX || c <= 400000000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(say_why), cmocka_unit_test(large_counts),
                                       cmocka_unit_test(deep), cmocka_unit_test(wide),
                                       cmocka_unit_test(numbers), cmocka_unit_test(megabytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
