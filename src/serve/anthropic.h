/* Private to serve/: Anthropic's shapes: /v1/messages and /v1/messages/count_tokens. */
#ifndef HY_SERVE_ANTHROPIC_H
#define HY_SERVE_ANTHROPIC_H

#include "serve/fields.h"
#include "serve/gen.h"

extern const hy_field hy_messages_fields[], hy_count_fields[];

/* A body as its table reads it. */
typedef struct hy_messages_body {
    hy_ask ask;
    const char *model;
    const json_t *messages, *system, *stop, *tools, *tool_choice, *thinking, *output_config, *output_format;
    int64_t max_tokens;
    bool has_max;
    bool hide_thinking;        /* thinking.display is "omitted" */
} hy_messages_body;

/* Reads the body of x and brings it into the ask (messages in OpenAI's shape). False: the error was sent and
 * nothing is left to free. count: as count_tokens reads it. */
bool hy_messages_read(hy_exchange *x, bool count, hy_messages_body *b);
/* messages_in.c: "system" and "messages" to OpenAI's list; *prefill: the last one is to be continued. */
hy_status hy_messages_convert(hy_messages_body *b, json_t **out, bool *prefill, hy_err *err);
/* "tools" and "tool_choice" into the ask. */
hy_status hy_messages_tools(hy_messages_body *b, hy_err *err);

/* messages_out.c */
extern const hy_gen_sink hy_messages_whole, hy_messages_stream;
void *hy_messages_user(bool hide_thinking);    /* for hy_gen_start; NULL when out of memory */

#endif
