/* Private to tok/: one pipeline for every tokenizer kind.
 *
 * text -> added tokens cut out -> normaliser steps -> added tokens of normalised text cut out
 *      -> pre-tokenizer steps (spans) -> model (BPE, Unigram, WordPiece, words) -> ids
 *      -> special tokens around
 *
 * tokenizer.json names the steps; for GGUF and SentencePiece files the builders put down the steps
 * that the model's authors use. Everything is built once and then only read. */
#ifndef HY_TOK_IMPL_H
#define HY_TOK_IMPL_H

#include "tok/tok.h"
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define TOK_ADDED_ONLY 0x80 /* a flag beside hy_tok_flags: the model itself does not know the token */
#define TOK_ID_MAX 0x3FFFFF /* ids above are refused: no vocabulary comes near 4 million */

typedef struct tok_str {
    const char *p;
    uint32_t n;
} tok_str;

typedef struct tok_span {
    uint32_t from, to;          /* bytes of the working text */
} tok_span;

/* ---- vocabulary ------------------------------------------------------------------------------ */

typedef struct tok_vocab {
    uint32_t n;                 /* ids 0 .. n - 1; unused ids have str.p == NULL */
    uint32_t cap;
    tok_str *str;
    double *score;              /* NULL: all are 0 */
    uint8_t *flags;             /* hy_tok_flags */
    uint32_t *slot;             /* open addressing: id + 1 below 9 bits of the string's hash; 0 is free */
    uint32_t n_slot;            /* a power of two */
    uint32_t n_used;
} tok_vocab;

/* Room for n tokens and their index. */
hy_status tok_vocab_reserve(tok_vocab *v, uint32_t n, hy_err *err);
/* Puts the string at this id, growing the vocabulary; the first id of a string is the one found. */
hy_status tok_vocab_put(hy_tok *t, uint32_t id, const char *s, size_t n, double score, uint8_t flags,
                        hy_err *err);
/* The same with a string that lives as long as the tokenizer. */
hy_status tok_vocab_take(tok_vocab *v, uint32_t id, tok_str str, double score, uint8_t flags, hy_err *err);
HY_INLINE double tok_vocab_score(const tok_vocab *v, uint32_t id)
{
    return v->score ? v->score[id] : 0;
}
int32_t tok_vocab_find(const tok_vocab *v, const char *s, size_t n);
void tok_vocab_free(tok_vocab *v);

/* ---- trie ------------------------------------------------------------------------------------ */

typedef struct tok_node {
    uint32_t child;             /* children are neighbours, sorted by label */
    uint16_t n_child;
    uint8_t label;
    int32_t id;                 /* value of the string that ends here, or -1 */
} tok_node;

typedef struct tok_trie {
    tok_node *node;             /* node 0 is the root; NULL when empty */
    uint32_t n_node;
} tok_trie;

typedef struct tok_entry {
    tok_str str;
    int32_t id;
} tok_entry;

/* Sorts `entry` in place; of equal strings the lowest id stays. Empty strings are left out. */
hy_status tok_trie_build(tok_trie *trie, tok_entry *entry, size_t n, hy_err *err);
/* The child of `node` with this label, or 0. */
uint32_t tok_trie_step(const tok_trie *trie, uint32_t node, uint8_t label);
/* Longest string that starts at s; its value, or -1, and its bytes. */
int32_t tok_trie_longest(const tok_trie *trie, const char *s, size_t n, size_t *bytes);
void tok_trie_free(tok_trie *trie);

/* ---- regular expressions --------------------------------------------------------------------- */

typedef enum tok_regex_kind {
    TOK_RE_PCRE,
    TOK_RE_LITERAL,             /* a plain string */
    TOK_RE_SPACE_END,           /* \s+$ in linear time */
    TOK_RE_DIGITS3,             /* zero-width cuts, groups of three digits from the right */
    TOK_RE_DIGITS3_WORD         /* groups of up to three digits from the right, before a word's end */
} tok_regex_kind;

typedef struct tok_regex {
    tok_regex_kind kind;
    pcre2_code *code;
    char *text;                 /* literal */
    size_t n_text;
} tok_regex;

/* Oniguruma (Ruby) syntax as in tokenizer.json, or a literal. */
hy_status tok_regex_new(hy_tok *t, tok_regex **out, const char *pattern, size_t n, bool literal,
                        hy_err *err);
void tok_regex_free(tok_regex *re);
/* Leftmost match in s[at..n); false: none. May be empty. */
struct tok_work;
bool tok_regex_find(const tok_regex *re, struct tok_work *w, const char *s, size_t n, size_t at,
                    size_t *from, size_t *to);

/* ---- steps ----------------------------------------------------------------------------------- */

typedef enum tok_norm_kind {
    TOK_N_NFC, TOK_N_NFD, TOK_N_NFKC, TOK_N_NFKD, TOK_N_LOWER, TOK_N_REPLACE, TOK_N_PREPEND,
    TOK_N_STRIP, TOK_N_STRIP_ACCENTS, TOK_N_BERT, TOK_N_NMT, TOK_N_CHARSMAP, TOK_N_BYTES,
    TOK_N_SQUEEZE               /* SentencePiece: no leading, trailing or doubled spaces */
} tok_norm_kind;

typedef struct tok_charsmap {   /* SentencePiece precompiled_charsmap: a double array and strings */
    uint32_t *unit;
    size_t n_unit;
    char *text;
    size_t n_text;
    bool longest;               /* SentencePiece takes the longest prefix, tokenizers the shortest */
} tok_charsmap;

typedef struct tok_norm {
    tok_norm_kind kind;
    tok_regex *re;              /* REPLACE */
    tok_str text;               /* REPLACE, PREPEND */
    bool left, right;           /* STRIP; PREPEND with left: also where nothing remained */
    bool clean, cjk, accents, lower; /* BERT */
    tok_charsmap *map;          /* CHARSMAP */
} tok_norm;

typedef enum tok_behavior {
    TOK_REMOVED, TOK_ISOLATED, TOK_CONTIGUOUS, TOK_MERGED_PREVIOUS, TOK_MERGED_NEXT
} tok_behavior;

typedef enum tok_pre_kind {
    TOK_P_SPLIT, TOK_P_BYTES, TOK_P_METASPACE, TOK_P_DIGITS, TOK_P_PUNCT, TOK_P_SPACE,
    TOK_P_WHITESPACE, TOK_P_BERT
} tok_pre_kind;

typedef struct tok_pre {
    tok_pre_kind kind;
    tok_regex *re;              /* SPLIT; BYTES with use_regex; METASPACE's replacement */
    tok_behavior behavior;
    bool invert;
    bool prefix;                /* BYTES: add_prefix_space; METASPACE: always */
    bool prefix_first;          /* METASPACE: only at the very start of the text */
    bool split;                 /* METASPACE */
    tok_str text;               /* METASPACE's replacement */
} tok_pre;

typedef enum tok_dec_kind {
    TOK_D_BYTES,                /* ByteLevel alphabet back to bytes */
    TOK_D_REPLACE, TOK_D_BYTE_FALLBACK, TOK_D_METASPACE, TOK_D_WORDPIECE, TOK_D_SUFFIX,
    TOK_D_SP_WORD,              /* GGUF's WordPiece: U+2581 starts a word */
    TOK_D_STRIP
} tok_dec_kind;

typedef struct tok_dec {
    tok_dec_kind kind;
    tok_str from, to;
    bool cleanup;
    uint32_t n_start, n_stop;   /* STRIP */
    bool whole;                 /* STRIP after Fuse: of the whole text, else of each token */
} tok_dec;

/* ---- added tokens ---------------------------------------------------------------------------- */

typedef struct tok_added {
    tok_str text;
    int32_t id;
    bool special, lstrip, rstrip, single_word, normalized;
} tok_added;

/* ---- models ---------------------------------------------------------------------------------- */

typedef enum tok_model { TOK_M_BPE, TOK_M_UNIGRAM, TOK_M_WORDPIECE, TOK_M_WORDLEVEL } tok_model;

typedef struct tok_pair {       /* open addressing; id < 0 is free */
    uint32_t left, right;
    uint32_t rank;
    int32_t id;
} tok_pair;

typedef struct tok_bpe {
    tok_pair *pair;             /* none for SentencePiece: two symbols that make a token merge */
    uint32_t n_slot, n_pair;
    int32_t *rune_id;           /* [TOK_RUNES] id of a one-character token, or -1 */
    bool ignore_merges, fuse_unk;
    bool sentencepiece;         /* merges by score; unknown characters are resolved afterwards */
    tok_str prefix, suffix;     /* continuing_subword_prefix, end_of_word_suffix */
    tok_trie frozen;            /* SentencePiece user-defined symbols */
} tok_bpe;
#define TOK_RUNES 65536u

struct hy_tok {
    hy_arena *arena;
    tok_model model;
    const char *kind, *pre_name;
    bool from_json;             /* decode as the tokenizers library does */
    tok_vocab vocab;
    int32_t bos, eos, unk, sep, cls, pad, mask;
    bool add_bos, add_eos;
    bool byte_fallback;
    int32_t byte_id[256];       /* <0xXX> tokens, or -1 */
    tok_bpe bpe;
    tok_trie trie;              /* Unigram, WordPiece */
    double unk_score;
    double user_score;          /* unused unless a SentencePiece Unigram model */
    bool sp_unigram;
    tok_str word_start, word_more;  /* WordPiece: prefix of first and further pieces */
    uint32_t word_max;
    tok_norm *norm;
    uint32_t n_norm;
    tok_pre *pre;
    uint32_t n_pre;
    tok_dec *dec;
    uint32_t n_dec;
    tok_added *added;
    uint32_t n_added;
    tok_trie added_raw, added_norm; /* value: index into added */
    hy_ids first, last;         /* special tokens around a text */
    int32_t *end;               /* ids that end a generation */
    uint32_t n_end;
    struct tok_template { tok_str name; char *source; } *tmpl;
    uint32_t n_tmpl;
    hy_template *own;           /* the default template compiled, or NULL */
    pcre2_general_context *pcre;
    pcre2_compile_context *pcre_compile;
};

/* ---- one call's scratch ---------------------------------------------------------------------- */

typedef struct tok_sym {
    int32_t prev, next, id;
    uint32_t from, len;         /* bytes of the word; len 0: merged away */
} tok_sym;

typedef struct tok_merge {
    uint64_t key;               /* rank << 32 | left symbol */
    int32_t id;                 /* what it makes */
    uint32_t ref;               /* the pair's place in the table; SentencePiece: bytes of both symbols */
} tok_merge;

typedef struct tok_work {
    const hy_tok *t;
    hy_buf repaired, a, b;      /* a: the working text; b: the next one */
    tok_span *span, *span2;
    size_t n_span, cap_span, n_span2, cap_span2;
    bool failed;                /* an allocation failed */
    bool at_start;              /* the fragment starts the text */
    const char *mark;           /* HY_TOK_MARK bytes to drop from plain text, or NULL */
    tok_sym *sym;
    size_t n_sym, cap_sym;
    tok_merge *heap;
    size_t n_heap, cap_heap;
    double *best;
    uint32_t *back;
    int32_t *back_id;
    size_t cap_best;
    int32_t *rune;              /* normalising */
    size_t cap_rune;
    const char *digits;         /* the digit run counted last, so that long runs stay linear */
    size_t digit_from, digit_to, n_digit;
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
} tok_work;

void tok_work_init(tok_work *w, const hy_tok *t);
void tok_work_free(tok_work *w);
/* Room for n items of `size`; false: out of memory, noted in w->failed. */
bool tok_grow(tok_work *w, void **p, size_t *cap, size_t n, size_t size);
void tok_span_put(tok_work *w, size_t from, size_t to); /* into span2 */

/* Steps: w->a to w->a. */
void tok_norm_run(tok_work *w, const tok_norm *step, uint32_t n);
void tok_pre_run(tok_work *w, const tok_pre *step, uint32_t n); /* fills w->span over w->a */
/* Appends s in the byte-level alphabet. */
void tok_bytes_map(const char *s, size_t n, hy_buf *out);
/* The byte of a character of that alphabet, or -1. */
int tok_bytes_unmap(uint32_t rune);

/* Models: ids of one word. */
void tok_bpe_word(tok_work *w, const char *s, size_t n, hy_ids *out);
void tok_unigram_word(tok_work *w, const char *s, size_t n, hy_ids *out);
void tok_wordpiece_word(tok_work *w, const char *s, size_t n, hy_ids *out);
/* The model's token for a whole word, or -1: never one that stands only in the list of added tokens,
 * nor (GGUF, where that list is lost) a control token, which must not come out of plain text. */
int32_t tok_model_find(const hy_tok *t, const char *s, size_t n);
void tok_put(tok_work *w, hy_ids *out, int32_t id);
/* Ids of the bytes when all have one; else false and nothing is put. */
bool tok_put_bytes(tok_work *w, const char *s, size_t n, hy_ids *out);

/* ---- Unicode --------------------------------------------------------------------------------- */

bool tok_is_space(uint32_t c);   /* White_Space */
bool tok_is_numeric(uint32_t c); /* N */
bool tok_is_punct(uint32_t c);   /* ASCII punctuation or P */
bool tok_is_mark(uint32_t c);    /* M */
bool tok_is_mn(uint32_t c);      /* Mn */
bool tok_is_other(uint32_t c);   /* C */
bool tok_is_letter(uint32_t c);  /* L */
bool tok_is_word(uint32_t c);    /* \w of UTS #18, joiners included */
bool tok_is_digit(uint32_t c);   /* Nd */
bool tok_is_cjk(uint32_t c);
/* Appends the normal form; bytes must be valid UTF-8. */
void tok_normal_form(tok_work *w, const char *s, size_t n, tok_norm_kind form, hy_buf *out);
void tok_charsmap_run(tok_work *w, const tok_charsmap *m, const char *s, size_t n, hy_buf *out);
hy_status tok_charsmap_new(hy_tok *t, tok_charsmap **out, const uint8_t *data, size_t n,
                           bool longest, hy_err *err);

/* ---- building -------------------------------------------------------------------------------- */

hy_status tok_new(hy_tok **out, hy_err *err);
tok_str tok_copy(hy_tok *t, const char *s, size_t n);  /* p is NULL when out of memory */
hy_status tok_added_put(hy_tok *t, const tok_added *a, hy_err *err);
hy_status tok_end_put(hy_tok *t, int32_t id, hy_err *err);
hy_status tok_template_put(hy_tok *t, const char *name, size_t n_name, const char *s, size_t n,
                           hy_err *err);
tok_norm *tok_norm_add(hy_tok *t, tok_norm_kind kind); /* NULL: out of memory */
tok_pre *tok_pre_add(hy_tok *t, tok_pre_kind kind);
tok_dec *tok_dec_add(hy_tok *t, tok_dec_kind kind);
hy_status tok_steps_fail(hy_err *err);

hy_status tok_bpe_begin(hy_tok *t, uint64_t n_pair, hy_err *err);
hy_status tok_bpe_pair(hy_tok *t, uint32_t left, uint32_t right, uint32_t rank, int32_t id,
                       hy_err *err);
hy_status tok_bpe_runes(hy_tok *t, hy_err *err);       /* one-character tokens; once, before encoding */
hy_status tok_bpe_from_scores(hy_tok *t, hy_err *err); /* SentencePiece: the vocabulary is the merges */
hy_status tok_frozen_build(hy_tok *t, bool spaces, hy_err *err);
hy_status tok_unigram_build(hy_tok *t, hy_err *err);
hy_status tok_wordpiece_build(hy_tok *t, hy_err *err);
/* Byte tokens, added-token tries, end-of-generation ids, template. Last step of every builder. */
hy_status tok_finish(hy_tok *t, hy_err *err);

/* Steps of a `tokenizer.ggml.pre` name; HY_E_UNSUPPORTED when unknown. */
hy_status tok_pre_named(hy_tok *t, const char *name, size_t n, const char *arch, bool *adds_bos,
                        bool *adds_sep, hy_err *err);
hy_status tok_gpt2_regex(hy_tok *t, tok_regex **out, hy_err *err);
/* SentencePiece steps for a BPE or Unigram model. */
typedef struct tok_sp {
    bool space_prefix, squeeze, escape;
    const uint8_t *charsmap;
    size_t n_charsmap;
} tok_sp;
hy_status tok_sp_steps(hy_tok *t, const tok_sp *sp, hy_err *err);

hy_status tok_from_gguf(hy_tok *t, const hy_file *f, hy_err *err);
hy_status tok_from_json(hy_tok *t, const json_t *root, const json_t *config, hy_err *err);
hy_status tok_from_model_proto(hy_tok *t, const uint8_t *data, size_t n, const json_t *config,
                               hy_err *err);
hy_status tok_json_norm(hy_tok *t, const json_t *j, int depth, hy_err *err);
hy_status tok_json_pre(hy_tok *t, const json_t *j, int depth, hy_err *err);
hy_status tok_json_dec(hy_tok *t, const json_t *j, int depth, bool *fused, hy_err *err);
hy_status tok_json_post(hy_tok *t, const json_t *j, int depth, hy_err *err);
hy_status tok_json_model(hy_tok *t, const json_t *j, hy_err *err);
/* tokenizer_config.json: named special tokens, added tokens, chat templates. */
hy_status tok_config_tokens(hy_tok *t, const json_t *config, hy_err *err);
hy_status tok_config_templates(hy_tok *t, const json_t *config, hy_err *err);
const char *tok_json_str(const json_t *obj, const char *key, size_t *n); /* NULL when no string */
bool tok_json_bool(const json_t *obj, const char *key, bool otherwise);

#endif
