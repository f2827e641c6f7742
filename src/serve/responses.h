/* Private to serve/: OpenAI's Responses. */
#ifndef HY_SERVE_RESPONSES_H
#define HY_SERVE_RESPONSES_H

#include "serve/fields.h"
#include "serve/gen.h"

extern const hy_field hy_responses_fields[];

/* A body as its table reads it. */
typedef struct hy_responses_body {
    hy_ask ask;
    const char *model;
    const json_t *input, *instructions, *tools, *tool_choice, *text, *reasoning, *include;
    bool parallel;
    int64_t top_logprobs, max_tool_calls;
} hy_responses_body;

/* responses_in.c: "instructions" and "input" to OpenAI's list of chat messages. */
hy_status hy_responses_convert(const hy_responses_body *b, json_t **out, hy_err *err);
/* "tools" and "tool_choice" into the ask. */
hy_status hy_responses_tools(hy_responses_body *b, hy_err *err);

/* responses_out.c. body: the request, of which the answer repeats some fields (borrowed from the exchange). */
extern const hy_gen_sink hy_responses_whole, hy_responses_stream;
void *hy_responses_user(const json_t *body, bool logprobs); /* for hy_gen_start; NULL when out of memory */

#endif
