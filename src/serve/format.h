/* Private to serve/: what a model family writes around its thoughts and tool calls, both ways: from a finished
 * or streaming text to pieces, and from a tool choice to the grammar that the text must follow. Pure. */
#ifndef HY_SERVE_FORMAT_H
#define HY_SERVE_FORMAT_H

#include "base/base.h"
#include "text/text.h"
#include <hayate/hayate.h>

/* One row of a table (format.c): how a family writes them. Chosen by what the template's source contains. */
typedef struct hy_chat_format hy_chat_format;
/* source: the model's template (NULL: plain text). Never NULL: "plain" knows neither. */
const hy_chat_format *hy_chat_format_of(const char *source);
const char *hy_chat_format_name(const hy_chat_format *f); /* "hermes", "llama3", "mistral", "gpt-oss", ... */
bool hy_chat_format_reasons(const hy_chat_format *f);
bool hy_chat_format_calls(const hy_chat_format *f);
/* Control tokens must be seen in the text for this family (hy_params.show_special). */
bool hy_chat_format_needs_special(const hy_chat_format *f);

/* ---- text -> pieces ------------------------------------------------------------------------------ */

typedef enum hy_piece_kind {
    HY_PIECE_CONTENT,          /* text of the answer */
    HY_PIECE_REASONING,        /* text of the thoughts */
    HY_PIECE_CALL,             /* a call begins: i_call, name, id are set */
    HY_PIECE_ARGS              /* more of the JSON text of call i_call's arguments */
} hy_piece_kind;
typedef struct hy_piece {
    hy_piece_kind kind;
    const char *text; size_t n;        /* CONTENT, REASONING, ARGS; valid during the call only */
    uint32_t i_call;
    const char *name, *id;             /* CALL; id: "call_" and 24 letters or digits, or the family's own */
} hy_piece;
typedef void hy_piece_fn(void *ctx, const hy_piece *p);

typedef struct hy_chat_parser hy_chat_parser;
/* tools: the request's array (borrowed) or NULL: then calls are plain content. generation_prompt: the end of the
 * rendered prompt (a template may open the thoughts itself). id_seed: makes ids repeatable.
 * The same text gives the same pieces joined, however it is cut. Text that looks like a call and turns out
 * not to be one is content, nothing is lost. */
hy_status hy_chat_parser_open(hy_chat_parser **out, const hy_chat_format *f, const json_t *tools,
                              const char *generation_prompt, uint64_t id_seed, hy_err *err);
hy_status hy_chat_parser_put(hy_chat_parser *p, const char *text, size_t n, hy_piece_fn *fn, void *ctx, hy_err *err);
hy_status hy_chat_parser_end(hy_chat_parser *p, hy_piece_fn *fn, void *ctx, hy_err *err);
uint32_t hy_chat_parser_n_call(const hy_chat_parser *p);
void hy_chat_parser_close(hy_chat_parser *p);          /* accepts NULL */

/* ---- tool choice -> guide ------------------------------------------------------------------------ */

typedef enum hy_tool_choice { HY_TOOLS_NONE, HY_TOOLS_AUTO, HY_TOOLS_REQUIRED, HY_TOOLS_NAMED } hy_tool_choice;
/* Fills guide (text and schemas are appended to the two bufs, which must outlive it). AUTO: free text until a
 * call begins, then the family's form with a declared name and arguments by its schema. strict schemas and
 * others alike are enforced. parallel: more than one call. Families without calls use a plain JSON form, which
 * the parser knows as well. */
hy_status hy_chat_guide(const hy_chat_format *f, const json_t *tools, hy_tool_choice choice, const char *name,
                        bool parallel, const char *generation_prompt, hy_buf *text, hy_buf *schemas, hy_guide *guide,
                        hy_err *err);

/* The form of an answer (JSON_OBJECT or JSON_SCHEMA), after thoughts and marks of the family; with tools (or NULL)
 * calls may come instead. Other kinds keep the guide as it is, and so do families that have none of these. text
 * and schemas as above. */
hy_status hy_chat_guide_answer(const hy_chat_format *f, const hy_guide *in, const json_t *tools, bool parallel,
                               const char *generation_prompt, hy_buf *text, hy_buf *schemas, hy_guide *guide,
                               hy_err *err);

/* For families without calls of their own: what tells a model of the tools and of the plain JSON form, to stand in
 * the system message. One call or a list; appended to out. */
void hy_chat_tools_text(const json_t *tools, bool required, hy_buf *out);

/* A copy of the tools in which the parameters of those that are not "strict" have names, types, enums and what is
 * required, and no more: for schemas that cannot be enforced whole. NULL when out of memory. */
json_t *hy_tools_simple(const json_t *tools);

/* For families without calls: a history (contents are strings) without tool_calls and the role tool: calls as the text
 * of the assistant, results as the user's. In place; false when out of memory. */
bool hy_chat_plain_history(json_t *messages);

/* Checks a request's "tools" array in OpenAI's shape; the message names the path ("tools[1].function.name"). */
hy_status hy_tools_check(const json_t *tools, hy_err *err);

#endif
