/* POST /v1/messages and /v1/messages/count_tokens, as Anthropic's clients speak them. */
#include "serve/anthropic.h"
#include "serve/openai.h"
#include "serve/rows.h"
#include <string.h>

#define AT(m) offsetof(hy_messages_body, m)
#define I64 9.3e18

/* What the prompt is made of. */
#define PROMPT_FIELDS                                                                                                  \
    { "model", HY_F_STR, 0, 0, AT(model), NULL, "the model's id; required", 0 },                                       \
    { "messages", HY_F_ANY, 0, 0, AT(messages), "array of messages",                                                   \
      "roles user and assistant; contents are strings or blocks: text, tool_use, tool_result, thinking, documents of " \
      "plain text. A last message of the assistant is continued", 0 },                                                 \
    { "system", HY_F_ANY, 0, 0, AT(system), "string or array of text blocks", "instructions", 0 },                     \
    { "tools", HY_F_ARRAY, 0, 1024, AT(tools), NULL, "functions: name, description, input_schema", 0 },                \
    { "tool_choice", HY_F_OBJECT, 0, 0, AT(tool_choice), NULL,                                                         \
      "type auto, any, tool (with name) or none; disable_parallel_tool_use", 0 },                                      \
    { "thinking", HY_F_OBJECT, 0, 0, AT(thinking), NULL,                                                               \
      "type enabled (budget_tokens is checked, not enforced), adaptive or disabled, for templates that can be told; "  \
      "absent: as the model does by itself", 0 },                                                                      \
    { "output_config", HY_F_OBJECT, 0, 0, AT(output_config), NULL,                                                     \
      "format: {type json_schema, schema}, which the text follows; effort: a variable of the template", 0 },           \
    { "output_format", HY_F_OBJECT, 0, 0, AT(output_format), NULL, "output_config.format by its older name", 0 },      \
    { "mcp_servers", HY_F_REFUSE, 0, 0, 0, "[]", "the server calls no tools itself", 0 },                              \
    { "cache_control", HY_F_IGNORE, 0, 0, 0, NULL, "every prefix is cached", 0 }

const hy_field hy_count_fields[] = { PROMPT_FIELDS, { NULL, 0, 0, 0, 0, NULL, NULL, 0 } };

const hy_field hy_messages_fields[] = {
    PROMPT_FIELDS,
    { "max_tokens", HY_F_INT, 1, 2147483647.0, AT(max_tokens), NULL, "tokens of the answer at most; required",
      AT(has_max) },
    { "stop_sequences", HY_F_ARRAY, 0, 64, AT(stop), NULL, "the text ends before the first of these strings", 0 },
    { "stream", HY_F_BOOL, 0, 0, AT(ask.stream), NULL, "server-sent events", 0 },
    { "temperature", HY_F_NUM, 0, 1, AT(ask.temperature), NULL, "0: greedy; default 1", 0 },
    { "top_p", HY_F_NUM, 0, 1, AT(ask.top_p), NULL, "nucleus; default 1 (off)", 0 },
    { "top_k", HY_F_INT, 0, 2147483647.0, AT(ask.top_k), NULL, "the k most likely tokens; 0: off", 0 },
    { "seed", HY_F_INT, -I64, I64, AT(ask.seed), NULL, "the same seed gives the same text (an extension)",
      AT(ask.has_seed) },
    { "cache_salt", HY_F_STR, 0, 0, AT(ask.cache_salt), NULL,
      "cached prefixes are shared only with requests of the same salt (an extension)", 0 },
    HY_FIELD_SPECULATE(AT(ask.speculate)),
    { "metadata", HY_F_IGNORE, 0, 0, 0, NULL, "for the caller's records", 0 },
    { "service_tier", HY_F_IGNORE, 0, 0, 0, NULL, "there is one", 0 },
    { "container", HY_F_REFUSE, 0, 0, 0, "", "there are no containers", 0 },
    { NULL, 0, 0, 0, 0, NULL, NULL, 0 }
};

static hy_status set_kwarg(hy_messages_body *b, bool on, hy_err *err)
{
    json_t *o = json_pack("{s:b, s:b}", "enable_thinking", on, "thinking", on);
    b->ask.template_kwargs = hy_ask_own(&b->ask, o);
    return b->ask.template_kwargs ? HY_OK : hy_fail_memory(err, "thinking", 0);
}

static hy_status thinking(hy_messages_body *b, bool count, hy_err *err)
{
    const json_t *t = b->thinking, *budget = json_object_get(t, "budget_tokens");
    const char *type = json_string_value(json_object_get(t, "type")),
               *display = json_string_value(json_object_get(t, "display"));
    if (!t) return HY_OK;
    if (!type || (strcmp(type, "enabled") && strcmp(type, "disabled") && strcmp(type, "adaptive")))
        return hy_fail(err, HY_E_ARG, "thinking.type: \"%.60s\" is not enabled, adaptive or disabled",
                       type ? type : "");
    b->hide_thinking = display && !strcmp(display, "omitted");
    if (!strcmp(type, "enabled")) {
        if (!json_is_integer(budget) || json_integer_value(budget) < 1024)
            return hy_fail(err, HY_E_ARG, "thinking.budget_tokens: an integer of at least 1024 is expected");
        if (!count && json_integer_value(budget) >= b->max_tokens)
            return hy_fail(err, HY_E_ARG, "thinking.budget_tokens: %lld is not less than max_tokens, %lld",
                           (long long)json_integer_value(budget), (long long)b->max_tokens);
    }
    return set_kwarg(b, strcmp(type, "disabled") != 0, err);
}

static hy_status output(hy_messages_body *b, hy_err *err)
{
    const json_t *f = json_object_get(b->output_config, "format");
    const json_t *effort = json_object_get(b->output_config, "effort");
    const char *at = f ? "output_config.format" : "output_format";
    if (effort && !json_is_null(effort) && !json_is_string(effort))
        return hy_fail(err, HY_E_ARG, "output_config.effort: a string is expected");
    b->ask.reasoning_effort = json_string_value(effort);
    if (!f) f = b->output_format;
    if (!f || json_is_null(f)) return HY_OK;
    const char *type = json_string_value(json_object_get(f, "type"));
    const json_t *schema = json_object_get(f, "schema");
    if (!type || strcmp(type, "json_schema")) return hy_fail(err, HY_E_ARG, "%s.type: \"json_schema\" is expected", at);
    if (!json_is_object(schema)) return hy_fail(err, HY_E_ARG, "%s.schema: an object is expected", at);
    return hy_ask_guide_schema(&b->ask, schema, err);
}

static hy_status stops(const hy_messages_body *b, hy_err *err)
{
    size_t i;
    const json_t *s;
    json_array_foreach(b->stop, i, s) if (!json_string_length(s)) return hy_fail(
        err, HY_E_ARG, "stop_sequences.%zu: a string that is not empty is expected", i);
    return HY_OK;
}

static hy_status finish(hy_messages_body *b, bool count, hy_err *err)
{
    json_t *list = NULL;
    bool prefill;
    if (!b->model) return hy_fail(err, HY_E_ARG, "model: required");
    if (!count && !b->has_max) return hy_fail(err, HY_E_ARG, "max_tokens: required");
    if (!b->messages) return hy_fail(err, HY_E_ARG, "messages: required");
    HY_TRY(hy_messages_convert(b, &list, &prefill, err));
    b->ask.messages = hy_ask_own(&b->ask, list);
    if (!b->ask.messages) return hy_fail_memory(err, "messages", 0);
    b->ask.continue_final = prefill;
    b->ask.max_tokens = b->max_tokens;
    b->ask.stop = b->stop;
    HY_TRY(stops(b, err));
    HY_TRY(hy_messages_tools(b, err));
    HY_TRY(thinking(b, count, err));
    return output(b, err);
}

bool hy_messages_read(hy_exchange *x, bool count, hy_messages_body *b)
{
    hy_err err;
    memset(b, 0, sizeof *b);
    hy_ask_init(&b->ask);
    const json_t *body = hy_x_json(x);
    if (!body || !hy_fields_read_x(x, count ? hy_count_fields : hy_messages_fields, body, b)) return false;
    if (finish(b, count, &err) != HY_OK) hy_x_fail(x, NULL, &err);
    else if (hy_model_check(x, b->model)) return true;
    hy_ask_free(&b->ask);
    return false;
}

void hy_route_messages(hy_exchange *x)
{
    hy_messages_body b;
    if (!hy_messages_read(x, false, &b)) return;
    void *user = hy_messages_user(b.hide_thinking);
    if (!user) {
        hy_ask_free(&b.ask);
        hy_openai_no_memory(x);
        return;
    }
    hy_gen_start(x, &b.ask, b.ask.stream ? &hy_messages_stream : &hy_messages_whole, user);
}

void hy_route_count_tokens(hy_exchange *x)
{
    hy_messages_body b;
    hy_err err;
    int32_t *ids = NULL;
    size_t n = 0;
    if (!hy_messages_read(x, true, &b)) return;
    if (hy_ask_render(hy_server_engine(hy_x_server(x)), &b.ask, NULL, &ids, &n, &err) != HY_OK)
        hy_x_fail(x, NULL, &err);
    else hy_openai_reply(x, json_pack("{s:I}", "input_tokens", (json_int_t)n));
    hy_memory_free(ids);
    hy_ask_free(&b.ask);
}
