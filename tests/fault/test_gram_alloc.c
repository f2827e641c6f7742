/* Every allocation of compiling, opening and matching fails once, in turn: always a status, never a
 * crash or a leak. */
#include "../unit/gram_help.h"

static hy_status piece(void *ctx, int32_t id, hy_buf *out, uint32_t *flags, hy_err *err)
{
    hy_buf_char(out, (char)('a' + id));
    return HY_OK;
}

static const struct {
    hy_gram_kind kind;
    const char *text, *schemas, *match;
} sources[] = {
    {HY_GRAM_JSON_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[1,{\"x\":[\"y\"]}]},\"b\":{\"type\":"
     "\"string\",\"pattern\":\"^a+$\","
     "\"maxLength\":5},\"c\":{\"type\":\"number\",\"minimum\":1}},\"patternProperties\":{\"^x\":{}}"
     ",\"propertyNames\":{\"maxLength\":3},"
     "\"not\":{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]}}",
     NULL, "{\"a\": {\"x\": [\"y\"]}}"},
    {HY_GRAM_REGEX, "(?=a)[a-c]{2,5}", NULL, "abc"},
    {HY_GRAM_GBNF, "root ::= \"a\" root | @schema(\"s\") x{0,3}\nx ::= @until(\"b\")",
     "{\"s\":{\"type\":\"integer\"}}", "aa12b"},
};

static hy_status whole(size_t i, bool *match, hy_err *err)
{
    static const int32_t end[] = {0};
    hy_gram_vocab_source vs = {26, piece, NULL, end, 1};
    hy_gram *g = NULL;
    hy_gram_vocab *v = NULL;
    hy_gram_run *r = NULL;
    uint32_t bits[1];
    hy_status st = gram_compile(&g, sources[i].kind, sources[i].text, sources[i].schemas, err);
    if (st == HY_OK) st = hy_gram_match(g, sources[i].match, strlen(sources[i].match), match, err);
    if (st == HY_OK) st = hy_gram_vocab_open(&v, &vs, err);
    if (st == HY_OK) st = hy_gram_run_open(&r, g, v, err);
    if (st == HY_OK) hy_gram_mask(r, bits);
    hy_gram_run_close(r);
    hy_gram_vocab_close(v);
    hy_gram_unref(g);
    return st;
}

static void fails_once(void **state)
{
    for (size_t i = 0; i < HY_COUNT(sources); i++) {
        hy_err err = {HY_OK, ""};
        bool match = false;
        if (whole(i, &match, &err) != HY_OK) fail_msg("%s: %s", sources[i].text, err.msg);
        assert_true(match);
        int failed = 0;
        for (int64_t n = 0;; n++) {
            hy_alloc_fail_after(n);
            hy_status st = whole(i, &match, &err);
            hy_alloc_fail_after(-1);
            if (st == HY_OK) break;
            if (st != HY_E_MEMORY)
                fail_msg("allocation %d: status %d: %s", (int)n, (int)st, err.msg);
            failed++;
        }
        assert_true(failed > 20);
        assert_true(whole(i, &match, &err) == HY_OK && match);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fails_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
