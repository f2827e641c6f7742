/* text: UTF-8, Unicode (over utf8proc), JSON helpers (over jansson), the chat-template language.
 * May include base. */
#ifndef HY_TEXT_H
#define HY_TEXT_H

#include "base/base.h"
#include <jansson.h>

/* ---- UTF-8 ----------------------------------------------------------------------------------- */

#define HY_RUNE_BAD 0xFFFFFFFFu

/* Decodes one code point at s (n > 0 bytes left). Returns the bytes consumed (>= 1) and the code
 * point, or HY_RUNE_BAD with the length of the maximal invalid part (WHATWG Encoding, "UTF-8
 * decoder": one U+FFFD for each). */
size_t hy_utf8_next(const char *s, size_t n, uint32_t *rune);
size_t hy_utf8_put(uint32_t rune, char out[4]);            /* bytes written, 1..4 */
bool hy_utf8_valid(const char *s, size_t n);
/* Appends s with every maximal invalid part replaced by U+FFFD. */
void hy_utf8_repair(const char *s, size_t n, hy_buf *out);

/* Streaming repair: feed bytes, take only whole characters; an incomplete tail is held back. */
typedef struct hy_utf8_stream {
    char held[4];
    uint8_t n_held;
} hy_utf8_stream;
void hy_utf8_stream_put(hy_utf8_stream *u, const char *s, size_t n, hy_buf *out);
void hy_utf8_stream_end(hy_utf8_stream *u, hy_buf *out);   /* an incomplete tail becomes U+FFFD */

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Parses one JSON text of n bytes; nothing but white space may follow. Depth is bounded by jansson.
 * The message says line and column, prefixed with `what`. Objects keep their order. Caller decrefs. */
hy_status hy_json_parse(const char *what, const char *s, size_t n, json_t **out, hy_err *err);
hy_status hy_json_load_file(const char *path, uint64_t limit, json_t **out, hy_err *err);
/* Appends a JSON string literal, quotes included; invalid UTF-8 is repaired. */
void hy_json_quote(const char *s, size_t n, hy_buf *out);

/* ---- chat templates: the Jinja language as Hugging Face runs it ------------------------------- */

typedef struct hy_template hy_template;

typedef struct hy_template_limits {
    uint64_t max_steps;        /* evaluated nodes; 0 = 20 million */
    uint64_t max_output;       /* bytes; 0 = 16 MiB */
    uint64_t max_memory;       /* bytes held by values; 0 = 256 MiB */
    uint32_t max_depth;        /* nesting of calls and expressions; 0 = 200 */
} hy_template_limits;

/* Compiles. trim_blocks, lstrip_blocks, loop controls, {% generation %} as in transformers.
 * Errors carry "line N". Free with hy_template_free. */
hy_status hy_template_parse(hy_template **out, const char *src, size_t n, hy_err *err);

/* Renders with the variables of a JSON object. `now`: the clock of strftime_now, seconds since the
 * epoch taken as local time, or < 0 for the real local time. A raise_exception(...) of the template gives HY_E_ARG with exactly
 * that message and *raised = true (raised may be NULL); other errors have "line N: ...".
 * Thread: any; a template is read-only while it renders. */
hy_status hy_template_render(const hy_template *t, const json_t *vars, int64_t now,
                             const hy_template_limits *limits, hy_buf *out, bool *raised,
                             hy_err *err);
void hy_template_free(hy_template *t);

#endif
