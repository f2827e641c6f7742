/* One sequence over a small vocabulary: masks, ends, control tokens, going back, forced bytes; the
 * words of GBNF that tool calls are built from. Expected values follow from the grammars by hand.
 */
#include "gram_help.h"

static const char *const vocabulary[] = {"a",    "b",    "ab",       "abc",   "<",   "<x", "<x>",
                                         "x>",   "\"",   "{",        "}",     "\":", "1",  "12",
                                         "true", " ",    "<|tool|>", "<eos>", "",    "tr", "ue",
                                         "\xC3", "\xA9", "\xC3\xA9", "n"};
enum {
    A,
    B,
    AB,
    ABC,
    LT,
    LTX,
    LTXGT,
    XGT,
    QUOTE,
    OPEN,
    CLOSE,
    COLON,
    ONE,
    TWELVE,
    TRUE_,
    SPACE,
    TOOL,
    EOS,
    EMPTY,
    TR,
    UE,
    C3,
    A9,
    EACUTE,
    N,
    N_VOCAB
};

static hy_status piece(void *ctx, int32_t id, hy_buf *out, uint32_t *flags, hy_err *err)
{
    hy_buf_str(out, vocabulary[id]);
    if (id == TOOL || id == EOS) *flags |= HY_GRAM_TOK_CONTROL;
    if (id == N) *flags |= HY_GRAM_TOK_NEVER;
    return HY_OK;
}

typedef struct fix {
    hy_gram_vocab *v;
    hy_gram *g;
    hy_gram_run *r;
} fix;

static fix begin(hy_gram_kind kind, const char *text, const char *schemas)
{
    static const int32_t end[] = {EOS};
    hy_gram_vocab_source src = {N_VOCAB, piece, NULL, end, 1};
    hy_err err;
    fix f;
    if (gram_compile(&f.g, kind, text, schemas, &err) != HY_OK) fail_msg("%s: %s", text, err.msg);
    assert_int_equal(hy_gram_vocab_open(&f.v, &src, &err), HY_OK);
    assert_int_equal(hy_gram_run_open(&f.r, f.g, f.v, &err), HY_OK);
    return f;
}

static void end(fix *f)
{
    hy_gram_run_close(f->r);
    hy_gram_unref(f->g);
    hy_gram_vocab_close(f->v);
}

/* The mask must allow exactly the ids listed (-1 ends the list). */
static void allowed(fix *f, ...)
{
    uint32_t bits[HY_GRAM_WORDS(N_VOCAB)], want[HY_GRAM_WORDS(N_VOCAB)] = {0};
    va_list ap;
    va_start(ap, f);
    for (int id = va_arg(ap, int); id >= 0; id = va_arg(ap, int)) want[id / 32] |= 1u << id % 32;
    va_end(ap);
    memset(bits, 0xFF, sizeof bits);
    hy_gram_mask(f->r, bits);
    for (int id = 0; id < N_VOCAB; id++) {
        bool is = bits[id / 32] >> id % 32 & 1, should = want[id / 32] >> id % 32 & 1;
        if (is != should)
            fail_msg("token '%s' is %s", vocabulary[id], is ? "allowed" : "not allowed");
        assert_int_equal(hy_gram_allows(f->r, id), should);
    }
}

static void take(fix *f, int id) { assert_true(hy_gram_accept(f->r, id)); }

static void ends(void **state)
{
    fix f = begin(HY_GRAM_REGEX, "(ab)+", NULL);
    allowed(&f, A, AB, -1);
    assert_false(hy_gram_may_end(f.r));
    assert_false(hy_gram_accept(f.r, EOS));
    assert_false(hy_gram_accept(f.r, B));
    take(&f, AB);
    assert_true(hy_gram_may_end(f.r));
    assert_false(hy_gram_done(f.r)); /* more could follow */
    allowed(&f, A, AB, EOS, -1);
    take(&f, A);
    assert_false(hy_gram_may_end(f.r));
    allowed(&f, B, -1);
    take(&f, B);
    take(&f, EOS);
    assert_true(hy_gram_done(f.r));
    assert_false(hy_gram_accept(f.r, A));
    end(&f);
    f = begin(HY_GRAM_REGEX, "abc", NULL);
    take(&f, ABC);
    assert_true(hy_gram_done(f.r)); /* nothing can follow */
    allowed(&f, EOS, -1);
    end(&f);
}

static void back(void **state)
{
    fix f = begin(HY_GRAM_REGEX, "[ab]*c?x>", NULL);
    take(&f, A);
    uint64_t mark = hy_gram_mark(f.r);
    assert_int_equal(mark, 1);
    take(&f, ABC);
    allowed(&f, XGT, -1);
    take(&f, XGT);
    assert_true(hy_gram_done(f.r));
    assert_true(hy_gram_rollback(f.r, mark));
    assert_false(hy_gram_done(f.r));
    allowed(&f, A, B, AB, ABC, XGT, -1);
    assert_false(hy_gram_rollback(f.r, 5));
    for (int i = 0; i < HY_GRAM_HISTORY; i++) take(&f, i % 2 ? A : B);
    assert_true(hy_gram_rollback(f.r, mark));
    for (int i = 0; i < HY_GRAM_HISTORY + 1; i++) take(&f, A);
    assert_false(hy_gram_rollback(f.r, mark)); /* too old: nothing changes */
    assert_int_equal(hy_gram_mark(f.r), mark + HY_GRAM_HISTORY + 1);
    take(&f, XGT);
    take(&f, EOS);
    assert_true(hy_gram_rollback(f.r, hy_gram_mark(f.r) - 1)); /* also behind an end token */
    assert_true(hy_gram_may_end(f.r));
    end(&f);
}

static void forced(void **state)
{
    char out[64];
    fix f = begin(HY_GRAM_JSON_SCHEMA,
                  "{\"type\":\"object\",\"properties\":{\"ab\":{\"enum\":[\"abc\"]}},\"required\":["
                  "\"ab\"],\"additionalProperties\":false}",
                  NULL);
    assert_int_equal(hy_gram_forced(f.r, out, sizeof out),
                     1); /* white space is free after the brace */
    assert_memory_equal(out, "{", 1);
    take(&f, OPEN);
    take(&f, QUOTE);
    size_t n = hy_gram_forced(f.r, out, sizeof out);
    assert_int_equal(n, strlen("ab\":"));
    assert_memory_equal(out, "ab\":", n);
    assert_int_equal(hy_gram_forced(f.r, out, 2), 2);
    take(&f, AB);
    take(&f, COLON);
    take(&f, QUOTE);
    n = hy_gram_forced(f.r, out, sizeof out);
    assert_int_equal(n, 4);
    assert_memory_equal(out, "abc\"", n);
    end(&f);
}

static void pieces_of_characters(void **state)
{
    fix f = begin(HY_GRAM_REGEX, "[^a]", NULL);
    allowed(&f, B, LT, QUOTE, OPEN, CLOSE, ONE, SPACE, C3, EACUTE,
            -1); /* every token of one character but a */
    take(&f, C3);
    allowed(&f, A9, -1);
    take(&f, A9);
    assert_true(hy_gram_done(f.r));
    end(&f);
}

static void tools(void **state)
{
    fix f = begin(HY_GRAM_GBNF,
                  "root ::= @without(\"<x>\") call*\n"
                  "call ::= \"<x>\" @schema(\"f\") \"x>\" # as tool calls are written\n",
                  "{\"f\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"boolean\"}},"
                  "\"required\":[\"a\"]}}");
    allowed(&f, A, B, AB, ABC, LT, LTX, LTXGT, XGT, QUOTE, OPEN, CLOSE, COLON, ONE, TWELVE, TRUE_,
            SPACE, TR, UE, C3, EACUTE, EOS, -1);
    take(&f, LTX);
    assert_true(hy_gram_may_end(f.r)); /* "<x" does not contain "<x>" */
    take(&f, A);
    take(&f, LTXGT);
    assert_false(hy_gram_may_end(f.r));
    allowed(&f, OPEN, -1);
    take(&f, OPEN);
    take(&f, QUOTE);
    take(&f, A);
    take(&f, COLON);
    allowed(&f, TRUE_, TR, SPACE, -1);
    take(&f, TR);
    allowed(&f, UE, -1);
    take(&f, UE);
    take(&f, CLOSE);
    allowed(&f, XGT, -1);
    take(&f, XGT);
    assert_true(hy_gram_may_end(f.r));
    allowed(&f, LT, LTX, LTXGT, EOS, -1);
    end(&f);
}

static void control(void **state)
{
    fix f = begin(HY_GRAM_GBNF, "root ::= @token(\"<|tool|>\") \"a\" @until(\"x>\") | \"<\"", NULL);
    allowed(&f, TOOL, LT, -1);
    take(&f, TOOL);
    take(&f, A);
    assert_false(hy_gram_may_end(f.r));
    take(&f, LTX);
    take(&f, AB);
    take(&f, XGT);
    assert_true(hy_gram_done(f.r)); /* up to the first occurrence and no further */
    end(&f);
    f = begin(HY_GRAM_REGEX, ".*", NULL); /* a control token is no text */
    assert_false(hy_gram_allows(f.r, TOOL));
    assert_false(hy_gram_allows(f.r, N));
    assert_true(hy_gram_allows(f.r, ABC));
    assert_false(hy_gram_accept(f.r, -1));
    assert_false(hy_gram_accept(f.r, N_VOCAB));
    end(&f);
}

static void words_matched(void **state)
{
    static const struct {
        const char *grammar, *text;
        bool match;
    } cases[] = {
        {"root ::= @until(\"END\")", "END", true},
        {"root ::= @until(\"END\")", "some ENEND", true},
        {"root ::= @until(\"END\")", "END END", false},
        {"root ::= @until(\"END\")", "EN", false},
        {"root ::= @until(\"aab\")", "aaab", true},
        {"root ::= @without(\"ab\", \"c\")", "", true},
        {"root ::= @without(\"ab\", \"c\")", "aaba", false},
        {"root ::= @without(\"ab\", \"c\")", "ba", true},
        {"root ::= @without(\"ab\", \"c\")", "bc", false},
        {"root ::= @without(\"ab\") \"b\"", "aab", true}, /* speaks of its own part alone */
        {"root ::= @without(\"ab\") \"b\"", "xb", true},
        {"root ::= [^a]{2,3} | \"\\u00e9\"", "\xC3\xA9", true},
        {"root ::= a{2} b{0,1} (a b){1,}\na ::= \"x\"\nb ::= \"y\"", "xxyxyxy", true},
        {"root ::= \"a\"\n | \"b\"", "b", true},
        {"root ::=\n  \"a\" \"b\"", "ab", true},
        {"root ::= \"(\" root \")\" | \"\"", "((()))", true},
        {"root ::= \"(\" root \")\" | \"\"", "((())", false},
        {"root ::= (\"a\"? \"b\"?){3}", "ab", true},
        {"root ::= x{2}\nx ::= \"a\"* | \"(\" x \")\"", "(aa)a", true},
    };
    for (size_t i = 0; i < HY_COUNT(cases); i++) {
        hy_gram *g;
        hy_err err;
        if (gram_compile(&g, HY_GRAM_GBNF, cases[i].grammar, NULL, &err) != HY_OK)
            fail_msg("%s: %s", cases[i].grammar, err.msg);
        if (gram_matches(g, cases[i].text) != cases[i].match)
            fail_msg("%s on '%s'", cases[i].grammar, cases[i].text);
        hy_gram_unref(g);
    }
}

static void kept(void **state)
{
    fix f = begin(HY_GRAM_REGEX, "a*", NULL);
    uint64_t before = hy_alloc_count();
    uint32_t bits[HY_GRAM_WORDS(N_VOCAB)];
    for (int i = 0; i < 2000; i++) {
        hy_gram_mask(f.r, bits);
        take(&f, A);
    }
    assert_int_equal(hy_alloc_count(), before); /* nothing is allocated in a step */
    assert_true(hy_gram_run_bytes(f.r) < 4 * HY_MIB);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends),          cmocka_unit_test(back),
        cmocka_unit_test(forced),        cmocka_unit_test(pieces_of_characters),
        cmocka_unit_test(tools),         cmocka_unit_test(control),
        cmocka_unit_test(words_matched), cmocka_unit_test(kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
