/* Random walks over random vocabularies: at every step the mask agrees with trying each token by
 * itself, something is always allowed until the text is whole, going back gives the same mask
 * again, and the finished text matches (as JSON, where the grammar is a schema). */
#include "../unit/gram_help.h"

enum {
    N_RANDOM = 900,
    N_VOCAB = 256 + N_RANDOM + 2,
    EOS = N_VOCAB - 1,
    TOOL = N_VOCAB - 2,
    STEPS = 160
};

static const char *const sources[] = {
    "{\"name\": \"Ada\", \"tags\": [\"red\", \"green\"], \"n\": -12.50, \"ok\": true, \"none\": "
    "null}",
    "a\\\"b\\\\c\\u00e9\\n\", \"é日本語🚀\": 1e5, [[1, 2], {}], {\"a\":{\"b\":[]}}",
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call><tool",
    "foo bar foofoo fo 2024-02-29T12:34:56Z ada@example.com",
    "((a+b)*c) - 17,\n  \"indented\": [\n    1,\n    2\n  ]\n}",
};

typedef struct words {
    char text[N_RANDOM][16];
    uint8_t n[N_RANDOM];
} words;

static hy_status piece(void *ctx, int32_t id, hy_buf *out, uint32_t *flags, hy_err *err)
{
    const words *w = ctx;
    if (id < 256)
        hy_buf_char(out, (char)id);
    else if (id < 256 + N_RANDOM)
        hy_buf_put(out, w->text[id - 256], w->n[id - 256]);
    else
        *flags |= HY_GRAM_TOK_CONTROL;
    if (id >= TOOL) hy_buf_str(out, id == EOS ? "<eos>" : "<|tool|>");
    return HY_OK;
}

static uint32_t below(uint64_t *seed, uint32_t n)
{
    return (uint32_t)(hy_rng_at(*seed, 3, ++seed[1]) % n);
}

/* Pieces of the sources, cut anywhere: also inside characters. */
static void make_words(words *w, uint64_t *seed)
{
    for (int i = 0; i < N_RANDOM; i++) {
        const char *s = sources[below(seed, HY_COUNT(sources))];
        size_t n = strlen(s), at = below(seed, (uint32_t)n), k = 1 + below(seed, 15);
        k = HY_MIN(k, n - at);
        memcpy(w->text[i], s + at, k);
        w->n[i] = (uint8_t)k;
    }
}

typedef struct grammar {
    hy_gram_kind kind;
    const char *text;
    bool json;
} grammar;
static const grammar grammars[] = {
    {HY_GRAM_JSON_OBJECT, "", true},
    {HY_GRAM_JSON_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"minLength\":2,"
     "\"maxLength\":9},"
     "\"tags\":{\"type\":\"array\",\"items\":{\"enum\":[\"red\",\"green\"]},\"minItems\":1,"
     "\"maxItems\":3},\"n\":{\"type\":\"number\","
     "\"minimum\":-20,\"maximum\":3.5},\"ok\":{\"type\":\"boolean\"}},\"required\":[\"name\",\"n\"]"
     "}",
     true},
    {HY_GRAM_JSON_SCHEMA,
     "{\"$defs\":{\"t\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{"
     "\"type\":\"array\","
     "\"items\":{\"$ref\":\"#/$defs/"
     "t\"}}},\"required\":[\"a\"],\"additionalProperties\":{\"type\":\"string\",\"pattern\":\"fo+"
     "\"}}},"
     "\"$ref\":\"#/$defs/t\"}",
     true},
    {HY_GRAM_JSON_SCHEMA,
     "{\"type\":\"array\",\"items\":{\"anyOf\":[{\"type\":\"string\",\"format\":\"email\"},{"
     "\"type\":\"string\","
     "\"format\":\"date-time\"},{\"type\":\"string\",\"pattern\":\"^[a-z]{2,300}$\"},{\"type\":"
     "\"integer\",\"multipleOf\":17}]},\"minItems\":2}",
     true},
    {HY_GRAM_JSON_SCHEMA, "{\"type\":\"string\",\"maxLength\":40,\"minLength\":30}", true},
    {HY_GRAM_JSON_SCHEMA, "{\"type\":\"string\",\"pattern\":\"^(é|日|🚀|a)+$\",\"maxLength\":7}",
     true},
    {HY_GRAM_JSON_SCHEMA, "{\"type\":\"string\",\"pattern\":\"foo.*bar\"}", true},
    {HY_GRAM_JSON_SCHEMA,
     "{\"oneOf\":[{\"type\":\"integer\",\"minimum\":0},{\"type\":\"integer\",\"maximum\":10}]}",
     true},
    {HY_GRAM_REGEX, "(foo|bar|fo){2,5} [a-zé]{1,120}", false},
    {HY_GRAM_REGEX, "[^<]*(<[a-z]+>[^<]*){0,3}", false},
    {HY_GRAM_GBNF,
     "root ::= @without(\"<tool\", \"foo\") (\"<tool_call>\" @until(\"</tool_call>\") "
     "@without(\"<tool\"))*",
     false},
    {HY_GRAM_GBNF,
     "root ::= expr\nexpr ::= term ([-+*] term){0,4}\nterm ::= [a-c]+ | [0-9]{1,3} | \"(\" expr "
     "\")\"",
     false},
    {HY_GRAM_GBNF,
     "root ::= (\"a\" | \"ab\" | \"aba\"){1,9} (\"\" | @token(\"<|tool|>\")) [ -~]{3}", false},
};

typedef struct walk {
    hy_gram_vocab *v;
    hy_gram *g;
    hy_gram_run *r;
    hy_buf text;
    uint64_t seed[2];
    bool token;
} walk;

static void check_mask(walk *w, uint32_t *bits, const char *name)
{
    uint32_t any = 0;
    memset(bits, 0xA5, HY_GRAM_WORDS(N_VOCAB) * sizeof *bits);
    hy_gram_mask(w->r, bits);
    for (int32_t id = 0; id < N_VOCAB; id++) {
        bool in = bits[id / 32] >> id % 32 & 1;
        any |= in;
        if (in != hy_gram_allows(w->r, id))
            fail_msg("%s after '%s': token %d: the mask says %d", name, w->text.data, id, in);
    }
    if (!any) fail_msg("%s after '%s': nothing is allowed", name, w->text.data ? w->text.data : "");
}

/* An allowed token; once the text may end, often the end, so that texts stay short. */
static int32_t choose(walk *w, const uint32_t *bits, int step)
{
    if (bits[EOS / 32] >> EOS % 32 & 1 && below(w->seed, 100) < 3u + (uint32_t)step) return EOS;
    bool single = below(w->seed, 3) == 0;
    for (uint32_t i = below(w->seed, N_VOCAB), k = 0; k < 2 * N_VOCAB; i = (i + 1) % N_VOCAB, k++) {
        if (!(bits[i / 32] >> i % 32 & 1) || i == EOS) continue;
        if (k < N_VOCAB && (single ? i >= 256 : i < 256)) continue; /* else the other sort */
        return (int32_t)i;
    }
    return EOS;
}

static void go_back(walk *w, const uint32_t *bits, const char *name)
{
    uint32_t again[HY_GRAM_WORDS(N_VOCAB)];
    uint64_t mark = hy_gram_mark(w->r);
    for (int i = 0; i < 3; i++) {
        hy_gram_mask(w->r, again);
        if (!hy_gram_accept(w->r, choose(w, again, 0))) break;
    }
    assert_true(hy_gram_rollback(w->r, mark));
    hy_gram_mask(w->r, again);
    if (memcmp(again, bits, sizeof again) != 0)
        fail_msg("%s after '%s': another mask after going back", name, w->text.data);
}

static void finished(walk *w, const grammar *g)
{
    bool match = false;
    hy_err err;
    assert_true(hy_gram_may_end(w->r));
    if (!w->token) {
        assert_int_equal(
            hy_gram_match(w->g, w->text.data ? w->text.data : "", w->text.len, &match, &err),
            HY_OK);
        if (!match) fail_msg("%s: '%s' does not match", g->text, w->text.data);
    }
    if (!g->json) return;
    json_error_t e;
    json_t *j = json_loadb(w->text.data, w->text.len,
                           JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &e);
    if (!j && json_error_code(&e) != json_error_numeric_overflow)
        fail_msg("%s: '%s': %s", g->text, w->text.data, e.text);
    json_decref(j);
}

static bool one_walk(walk *w, const grammar *g, words *all)
{
    uint32_t bits[HY_GRAM_WORDS(N_VOCAB)], flags = 0;
    hy_err err;
    bool whole = false;
    assert_int_equal(hy_gram_run_open(&w->r, w->g, w->v, &err), HY_OK);
    hy_buf_reset(&w->text);
    w->token = false;
    for (int step = 0; step < STEPS && !whole; step++) {
        check_mask(w, bits, g->text);
        if (step % 7 == 3) go_back(w, bits, g->text);
        int32_t id = choose(w, bits, step);
        assert_true(hy_gram_accept(w->r, id));
        if (id == TOOL)
            w->token = true;
        else if (id != EOS)
            piece(all, id, &w->text, &flags, &err);
        whole = hy_gram_done(w->r);
    }
    if (whole) finished(w, g);
    hy_gram_run_close(w->r);
    return whole;
}

static void walks(void **state)
{
    words *all = calloc(1, sizeof *all);
    walk w = {0};
    int whole = 0, n = 0;
    for (uint64_t round = 0; round < 3; round++) {
        static const int32_t end[] = {EOS};
        hy_gram_vocab_source src = {N_VOCAB, piece, all, end, 1};
        hy_err err;
        w.seed[0] = round + 1;
        make_words(all, w.seed);
        assert_int_equal(hy_gram_vocab_open(&w.v, &src, &err), HY_OK);
        for (size_t i = 0; i < HY_COUNT(grammars); i++) {
            if (gram_compile(&w.g, grammars[i].kind, grammars[i].text, NULL, &err) != HY_OK)
                fail_msg("%s: %s", grammars[i].text, err.msg);
            for (int k = 0; k < 3; k++, n++) whole += one_walk(&w, &grammars[i], all);
            hy_gram_unref(w.g);
        }
        hy_gram_vocab_close(w.v);
    }
    print_message("%d of %d texts came to an end\n", whole, n);
    assert_true(whole > n / 3);
    hy_buf_free(&w.text);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(walks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
