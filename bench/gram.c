/* What constrained decoding costs a step: time of hy_gram_mask at chosen places of a text, each for
 * a state seen for the first time and for one seen before.
 *
 *   bench_gram MODEL.gguf        (or a tokenizer.json)
 *
 * Each line: the place, then microseconds: median and worst of first masks, median of repeated
 * ones. */
#include "gram/gram.h"
#include "tok/tok.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS = 21 };

static hy_status piece(void *ctx, int32_t id, hy_buf *out, uint32_t *flags, hy_err *err)
{
    uint32_t f = hy_tok_flags_of(ctx, id);
    if (f & (HY_TOK_UNUSED | HY_TOK_UNKNOWN)) *flags |= HY_GRAM_TOK_NEVER;
    if (f & HY_TOK_CONTROL) *flags |= HY_GRAM_TOK_CONTROL;
    return hy_tok_piece(ctx, id, true, out, err);
}

static int by_time(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

typedef struct place {
    const char *name;
    hy_gram_kind kind;
    const char *grammar, *text; /* text: read before the mask is taken */
} place;

static const char object[] =
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":"
    "\"integer\"},"
    "\"mail\":{\"type\":\"string\",\"format\":\"email\"},\"note\":{\"type\":\"string\","
    "\"maxLength\":2000},"
    "\"tags\":{\"type\":\"array\",\"items\":{\"enum\":[\"red\",\"green\",\"blue\"]}},"
    "\"code\":{\"type\":\"string\",\"pattern\":\"^[A-Z]{3}-[0-9]+$\"}},\"additionalProperties\":"
    "false}";
static const place places[] = {
    {"string, start", HY_GRAM_JSON_SCHEMA, object, "{\"name\": \""},
    {"string, inside", HY_GRAM_JSON_SCHEMA, object, "{\"name\": \"Ada"},
    {"string with maxLength", HY_GRAM_JSON_SCHEMA, object, "{\"note\": \"Ada"},
    {"string, near maxLength", HY_GRAM_JSON_SCHEMA, "{\"type\":\"string\",\"maxLength\":20}",
     "\"0123456789"},
    {"string behind a backslash", HY_GRAM_JSON_SCHEMA, object, "{\"name\": \"Ada\\"},
    {"string with a format", HY_GRAM_JSON_SCHEMA, object, "{\"mail\": \"ada@ex"},
    {"string with a pattern", HY_GRAM_JSON_SCHEMA, object, "{\"code\": \"AB"},
    {"pattern, found anywhere", HY_GRAM_JSON_SCHEMA, "{\"type\":\"string\",\"pattern\":\"foo\"}",
     "\"some fo"},
    {"number", HY_GRAM_JSON_SCHEMA, object, "{\"age\": 4"},
    {"start of a key", HY_GRAM_JSON_SCHEMA, object, "{\"name\": \"Ada\","},
    {"inside a key", HY_GRAM_JSON_SCHEMA, object, "{\"na"},
    {"behind a colon", HY_GRAM_JSON_SCHEMA, object, "{\"name\":"},
    {"enum", HY_GRAM_JSON_SCHEMA, object, "{\"tags\": [\""},
    {"any value", HY_GRAM_JSON_OBJECT, "", "{\"a\": "},
    {"free key", HY_GRAM_JSON_OBJECT, "", "{\"a"},
    {"string in any object", HY_GRAM_JSON_OBJECT, "", "{\"a\": [{\"b\": \"hel"},
    {"regex: [a-z ]+", HY_GRAM_REGEX, "[a-z ]+", "hello"},
    {"regex: .*", HY_GRAM_REGEX, ".*", "hello"},
    {"text without a tag", HY_GRAM_GBNF,
     "root ::= @without(\"<tool>\") (\"<tool>\" @until(\"</tool>\") @without(\"<tool>\"))*",
     "Hello, I wi"},
    {"text until a tag", HY_GRAM_GBNF,
     "root ::= @without(\"<tool>\") (\"<tool>\" @until(\"</tool>\") @without(\"<tool>\"))*",
     "<tool>some"},
};

static bool feed(hy_gram_run *r, const hy_tok *tok, const char *text)
{
    hy_ids ids = {0};
    hy_err err;
    bool ok = hy_tok_encode(tok, text, strlen(text), false, false, &ids, &err) == HY_OK;
    for (size_t i = 0; ok && i < ids.n; i++) ok = hy_gram_accept(r, ids.id[i]);
    hy_ids_free(&ids);
    return ok;
}

static bool run_place(const place *p, const hy_tok *tok, const hy_gram_vocab *v, uint32_t n_vocab)
{
    hy_err err = {0};
    hy_gram *g;
    uint32_t *bits = malloc(HY_GRAM_WORDS(n_vocab) * 4);
    hy_gram_source src = {p->kind, p->grammar, strlen(p->grammar), NULL, 0};
    uint64_t t0 = hy_now_ns(), first[TURNS], again[TURNS], allowed = 0;
    if (hy_gram_compile(&g, &src, &err) != HY_OK) {
        printf("%-28s %s\n", p->name, err.msg);
        free(bits);
        return false;
    }
    uint64_t compiled = hy_now_ns() - t0;
    bool ok = true;
    for (int i = 0; ok && i < TURNS; i++) {
        hy_gram_run *r;
        ok = hy_gram_run_open(&r, g, v, &err) == HY_OK;
        if (!ok) break;
        if (!feed(r, tok, p->text)) {
            printf("%-28s does not lead there\n", p->name);
            ok = false;
        }
        t0 = hy_now_ns();
        hy_gram_mask(r, bits);
        uint64_t t1 = hy_now_ns();
        hy_gram_mask(r, bits);
        again[i] = hy_now_ns() - t1;
        first[i] = t1 - t0;
        hy_gram_run_close(r);
    }
    if (ok) {
        qsort(first, TURNS, sizeof *first, by_time);
        qsort(again, TURNS, sizeof *again, by_time);
        for (size_t i = 0; i < HY_GRAM_WORDS(n_vocab); i++)
            allowed += (uint64_t)__builtin_popcount(bits[i]);
        printf("%-28s %9.1f %9.1f %9.1f %8llu %9.1f\n", p->name, (double)first[TURNS / 2] / 1e3,
               (double)first[TURNS - 1] / 1e3, (double)again[TURNS / 2] / 1e3,
               (unsigned long long)allowed, (double)compiled / 1e3);
    }
    hy_gram_unref(g);
    free(bits);
    return ok;
}

int main(int argc, char **argv)
{
    hy_err err = {0};
    hy_tok *tok;
    if (argc != 2) {
        fprintf(stderr, "usage: bench_gram MODEL\n");
        return 2;
    }
    if (hy_tok_open(&tok, argv[1], &err) != HY_OK) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    int32_t eos = hy_tok_eos(tok);
    uint32_t n_vocab = hy_tok_n_vocab(tok);
    hy_gram_vocab *v;
    hy_gram_vocab_source vs = {n_vocab, piece, tok, &eos, 1};
    uint64_t t0 = hy_now_ns();
    if (hy_gram_vocab_open(&v, &vs, &err) != HY_OK) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    printf("%u tokens: trie of %.1f MB in %.0f ms\n", n_vocab, (double)hy_gram_vocab_bytes(v) / 1e6,
           (double)(hy_now_ns() - t0) / 1e6);
    printf("%-28s %9s %9s %9s %8s %9s\n", "place (microseconds)", "first", "worst", "again",
           "allowed", "compile");
    bool ok = true;
    for (size_t i = 0; i < HY_COUNT(places); i++) ok &= run_place(&places[i], tok, v, n_vocab);
    hy_gram_vocab_close(v);
    hy_tok_free(tok);
    return ok ? 0 : 1;
}
