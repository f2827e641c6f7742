/* tok: tokenizers, the streaming detokenizer, the chat template's binding. May include base, text,
 * file. A tokenizer is immutable after opening; any thread may use it. */
#ifndef HY_TOK_H
#define HY_TOK_H

#include "base/base.h"
#include "file/file.h"
#include "text/text.h"

typedef struct hy_tok hy_tok;

typedef enum hy_tok_flags { /* GGUF token_type, less NORMAL */
    HY_TOK_CONTROL = 1, HY_TOK_USER = 2, HY_TOK_BYTE = 4, HY_TOK_UNKNOWN = 8, HY_TOK_UNUSED = 16
} hy_tok_flags;

typedef struct hy_ids {        /* a growing list of token ids */
    int32_t *id;
    size_t n, cap;
} hy_ids;
void hy_ids_free(hy_ids *ids);
bool hy_ids_put(hy_ids *ids, int32_t id);        /* false: out of memory */

/* From an opened model file (GGUF metadata, or a folder with tokenizer.json / tokenizer.model). */
hy_status hy_tok_from_file(hy_tok **out, const hy_file *f, hy_err *err);
/* Is there a tokenizer at all (be it right or wrong)? */
bool hy_tok_in_file(const hy_file *f);
/* From a path: GGUF (vocabulary-only too), tokenizer.json, or a Hugging Face folder (which need hold
 * no weights). */
hy_status hy_tok_open(hy_tok **out, const char *path, hy_err *err);
/* From the content of a tokenizer.json or a tokenizer.model (SentencePiece). */
hy_status hy_tok_from_memory(hy_tok **out, const void *data, size_t n, hy_err *err);
void hy_tok_free(hy_tok *t);                     /* accepts NULL */

uint32_t hy_tok_n_vocab(const hy_tok *t);
const char *hy_tok_kind(const hy_tok *t);        /* "bpe", "spm", "unigram", "wordpiece" */
const char *hy_tok_pre(const hy_tok *t);         /* pre-tokenizer's name, or "" */
int32_t hy_tok_bos(const hy_tok *t);             /* -1: none */
int32_t hy_tok_eos(const hy_tok *t);
bool hy_tok_adds_bos(const hy_tok *t);
bool hy_tok_adds_eos(const hy_tok *t);
/* Ends a generation: EOS, EOT, <|im_end|>, <end_of_turn>, and those of generation_config.json. */
bool hy_tok_is_end(const hy_tok *t, int32_t id);
uint32_t hy_tok_flags_of(const hy_tok *t, int32_t id);

/* Appends the ids of n bytes of text (any bytes; invalid UTF-8 is replaced by U+FFFD first where the
 * tokenizer works on characters). Linear in n. add_special: BOS/EOS/CLS/SEP as the model says;
 * parse_special: control tokens written out in the text become their ids. */
hy_status hy_tok_encode(const hy_tok *t, const char *text, size_t n, bool add_special,
                        bool parse_special, hy_ids *out, hy_err *err);

/* Texts from outside may spell control tokens that must not become ones. hy_tok_mark appends s with `mark` (a
 * noncharacter that occurs nowhere in the texts) inside each control token's spelling and tells whether any was
 * there; hy_tok_encode_marked then takes control tokens written without it as such (no BOS and the like), and drops
 * the marks from the rest. */
#define HY_TOK_MARK 3 /* bytes */
bool hy_tok_mark(const hy_tok *t, const char *mark, const char *s, size_t n, hy_buf *out);
hy_status hy_tok_encode_marked(const hy_tok *t, const char *text, size_t n, const char *mark, hy_ids *out,
                               hy_err *err);

/* The bytes of one token in the middle of a text (control tokens as written when show_control, else
 * nothing). Appends. Ids out of range give HY_E_ARG. */
hy_status hy_tok_piece(const hy_tok *t, int32_t id, bool show_control, hy_buf *out, hy_err *err);

/* Id of a token by its exact written form, or -1. */
int32_t hy_tok_find(const hy_tok *t, const char *s, size_t n);

/* ---- streaming detokenizer ------------------------------------------------------------------- */

/* The text of tokens in the middle of a text: emits only whole characters, as early as can be; broken
 * bytes become U+FFFD by the WHATWG rule. A leading space stays: it belongs to what a model continues. */
typedef struct hy_detok {
    const hy_tok *tok;
    hy_utf8_stream utf8;
    bool started, show_control;
} hy_detok;
void hy_detok_init(hy_detok *d, const hy_tok *t, bool show_control);
hy_status hy_detok_put(hy_detok *d, int32_t id, hy_buf *out, hy_err *err); /* appends what is ready */
void hy_detok_end(hy_detok *d, hy_buf *out);
/* A whole text at once, as the model's own library decodes it: a leading space that the tokenizer
 * added is dropped. Differs from the stream only there, and (tokenizer.json with byte fallback) in the
 * number of U+FFFD for broken bytes. */
hy_status hy_tok_decode(const hy_tok *t, const int32_t *id, size_t n, bool show_control, hy_buf *out,
                        hy_err *err);

/* ---- chat template --------------------------------------------------------------------------- */

/* The model's own template text, or NULL. name: NULL for the default, else "tool_use", "rag", ... */
const char *hy_tok_template(const hy_tok *t, const char *name);

/* vars: a JSON object with messages, tools, add_generation_prompt, ... ; bos_token, eos_token and the
 * like are added where absent. source: a template, or NULL for the model's own. */
hy_status hy_tok_chat(const hy_tok *t, const char *source, const json_t *vars, hy_buf *out,
                      hy_err *err);

#endif
