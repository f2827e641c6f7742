/* room: serve */
/* The bytes as the body of a chat and of a completion: fields, guides, messages and the template's variables. */
#include "serve/gen_impl.h"
#include "serve/openai.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* A refused field is named by its row, and the message is whole UTF-8 or cut at its end. */
static void check(hy_status s, const char *param, const hy_err *err)
{
    if (s == HY_OK) return;
    if (!err->msg[0] || err->code != s) __builtin_trap();
    if (s == HY_E_ARG && param && !strstr(err->msg, param) && strlen(err->msg) < 4) __builtin_trap();
}

static void as_chat(const json_t *body)
{
    hy_body b;
    memset(&b, 0, sizeof b);
    hy_ask_init(&b.ask);
    hy_err err = { 0 };
    const char *param = NULL;
    hy_status s = hy_fields_read(hy_chat_fields, body, &b, &param, &err);
    check(s, param, &err);
    if (s == HY_OK) check(hy_ask_guide_fields(&b.ask, &param, &err), param, &err);
    if (s == HY_OK && b.ask.tools) s = hy_tools_check(b.ask.tools, &err);
    if (s == HY_OK && b.ask.messages && hy_messages_check(b.ask.messages, &err) == HY_OK) {
        b.ask.choice = b.ask.tools ? HY_TOOLS_AUTO : HY_TOOLS_NONE;
        for (int i = 0; i < 4; i++) {
            json_t *vars = NULL;
            bool has_calls;
            s = hy_messages_vars(&b.ask, i & 1 ? "{{ tools }}{{ tool_calls }}developer" : NULL, i & 2, &has_calls,
                                 &vars, &err);
            if (s != HY_OK || !json_is_array(json_object_get(vars, "messages"))) __builtin_trap();
            json_decref(vars);
        }
    }
    hy_ask_free(&b.ask);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    hy_err err;
    json_t *body = NULL;
    if (hy_json_parse("body", (const char *)data, n, &body, &err) != HY_OK) return 0;
    if (json_is_object(body)) {
        as_chat(body);
        hy_body b;
        memset(&b, 0, sizeof b);
        hy_ask_init(&b.ask);
        const char *param = NULL;
        check(hy_fields_read(hy_completion_fields, body, &b, &param, &err), param, &err);
        hy_ask_free(&b.ask);
    }
    json_decref(body);
    return 0;
}
