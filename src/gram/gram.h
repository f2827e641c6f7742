/* gram: constrained decoding. A JSON schema, a regular expression or a GBNF grammar compiles to a network of
 * automata with counters and a stack; over a trie of the vocabulary it says which tokens may come next.
 * May include base, text. docs/structured.md tells what is supported.
 *
 *   hy_gram        compiled source         immutable, counted by reference, any thread
 *   hy_gram_vocab  trie of a vocabulary    immutable, any thread; must outlive the runs over it
 *   hy_gram_run    one sequence's state    one thread at a time; nothing is allocated after opening */
#ifndef HY_GRAM_H
#define HY_GRAM_H

#include "base/base.h"

/* ---- compiling ------------------------------------------------------------------------------- */

typedef enum hy_gram_kind {
    HY_GRAM_JSON_OBJECT,       /* any JSON object; text is not read */
    HY_GRAM_JSON_SCHEMA,       /* text: a JSON schema (2020-12, with the words of draft 7) */
    HY_GRAM_REGEX,             /* text: the whole answer matches, as with re.fullmatch */
    HY_GRAM_GBNF               /* text: rules; `root` is the first */
} hy_gram_kind;

/* GBNF knows beside the usual syntax:
 *   @schema("name")       a JSON value by that schema of schemas_json
 *   @token("<|x|>")       exactly the control token written so; control tokens never match text
 *   @until("stop")        any text up to and with the first occurrence of stop
 *   @without("a", "b")    any text, possibly empty, that contains none of the strings */
typedef struct hy_gram_source {
    hy_gram_kind kind;
    const char *text; size_t n;
    const char *schemas_json; size_t n_schemas; /* GBNF: an object, name -> schema; or NULL */
} hy_gram_source;

typedef struct hy_gram hy_gram;

/* Size, depth, states and time are bounded. HY_E_ARG: invalid or contradictory; HY_E_UNSUPPORTED: names the
 * keyword that cannot be enforced; HY_E_LIMIT: too large. The source is not needed afterwards. */
hy_status hy_gram_compile(hy_gram **out, const hy_gram_source *src, hy_err *err);
uint64_t hy_gram_steps(const hy_gram *g);      /* that compiling took, of those allowed */
hy_gram *hy_gram_ref(hy_gram *g);              /* returns g */
void hy_gram_unref(hy_gram *g);                /* accepts NULL */

/* Is the whole text in the language? HY_E_LIMIT where the text needs more parallel states than a run holds. */
hy_status hy_gram_match(hy_gram *g, const char *text, size_t n, bool *matches, hy_err *err);

/* ---- vocabulary ------------------------------------------------------------------------------ */

typedef enum hy_gram_tok {
    HY_GRAM_TOK_CONTROL = 1,   /* matches only @token; the piece is its written form */
    HY_GRAM_TOK_NEVER = 2      /* unused, unknown: never allowed */
} hy_gram_tok;

typedef struct hy_gram_vocab_source {
    uint32_t n_vocab;          /* = bits of a mask; ids without a token: HY_GRAM_TOK_NEVER */
    /* Appends the bytes of a token in the middle of a text; sets *flags (zeroed before). */
    hy_status (*piece)(void *ctx, int32_t id, hy_buf *out, uint32_t *flags, hy_err *err);
    void *ctx;
    const int32_t *end;        /* tokens that end a generation; copied */
    uint32_t n_end;
} hy_gram_vocab_source;

typedef struct hy_gram_vocab hy_gram_vocab;
hy_status hy_gram_vocab_open(hy_gram_vocab **out, const hy_gram_vocab_source *src, hy_err *err);
void hy_gram_vocab_close(hy_gram_vocab *v);    /* accepts NULL */
uint64_t hy_gram_vocab_bytes(const hy_gram_vocab *v); /* memory held */

/* ---- one sequence ---------------------------------------------------------------------------- */

typedef struct hy_gram_run hy_gram_run;
#define HY_GRAM_WORDS(n_vocab) (((size_t)(n_vocab) + 31) / 32)

/* Takes a reference of g. Start of the text. */
hy_status hy_gram_run_open(hy_gram_run **out, hy_gram *g, const hy_gram_vocab *v, hy_err *err);
void hy_gram_run_close(hy_gram_run *r);        /* accepts NULL */

/* bits[id / 32] >> (id % 32) & 1: may token id come next? All HY_GRAM_WORDS(n_vocab) words are written. End
 * tokens are allowed exactly where the text may end. All zero: nothing can follow and the text may not end
 * (a bound was reached); the caller ends the answer. */
void hy_gram_mask(hy_gram_run *r, uint32_t *bits);
bool hy_gram_allows(hy_gram_run *r, int32_t id); /* one bit of the mask, without computing the others */
/* Advances. False, and nothing changed, if the token is not allowed. */
bool hy_gram_accept(hy_gram_run *r, int32_t id);
bool hy_gram_may_end(const hy_gram_run *r);    /* the text so far is whole */
/* It is whole and nothing but an end may follow, or an end token was accepted. */
bool hy_gram_done(const hy_gram_run *r);
/* The bytes that must come next, where there is no choice: at most cap; returns how many. */
size_t hy_gram_forced(hy_gram_run *r, char *out, size_t cap);

/* For drafts: a mark is the number of tokens accepted; going back to it undoes later ones. Marks up to
 * HY_GRAM_HISTORY tokens old are kept; an older one gives false and changes nothing. */
#define HY_GRAM_HISTORY 64
uint64_t hy_gram_mark(const hy_gram_run *r);
bool hy_gram_rollback(hy_gram_run *r, uint64_t mark);

uint64_t hy_gram_run_bytes(const hy_gram_run *r); /* memory held */

#endif
