/* POST /v1/responses: OpenAI's Responses without a store: every request brings its turns. */
#include "serve/openai.h"
#include "serve/responses.h"
#include "serve/rows.h"
#include <string.h>

#define AT(m) offsetof(hy_responses_body, m)
#define I64 9.3e18

const hy_field hy_responses_fields[] = {
    { "model", HY_F_STR, 0, 0, AT(model), NULL, "the model's id", 0 },
    { "input", HY_F_ANY, 0, 0, AT(input), "string or array of items",
      "the turns so far: messages, function_call, function_call_output, reasoning; required", 0 },
    { "instructions", HY_F_ANY, 0, 0, AT(instructions), "string", "a system message before the input", 0 },
    { "max_output_tokens", HY_F_INT, 1, 2147483647.0, AT(ask.max_tokens), NULL,
      "tokens of the answer at most, thoughts included", 0 },
    { "stream", HY_F_BOOL, 0, 0, AT(ask.stream), NULL, "server-sent events", 0 },
    { "temperature", HY_F_NUM, 0, 2, AT(ask.temperature), NULL, "0: greedy; default 1", 0 },
    { "top_p", HY_F_NUM, 0, 1, AT(ask.top_p), NULL, "nucleus; default 1 (off)", 0 },
    { "tools", HY_F_ARRAY, 0, 1024, AT(tools), NULL, "functions: type function, name, description, parameters", 0 },
    { "tool_choice", HY_F_ANY, 0, 0, AT(tool_choice), "string or object",
      "none, auto, required, {type function, name}, or {type allowed_tools, mode, tools}", 0 },
    { "parallel_tool_calls", HY_F_BOOL, 0, 0, AT(parallel), NULL, "more than one call in an answer; default true",
      0 },
    { "text", HY_F_OBJECT, 0, 0, AT(text), NULL,
      "format: type text, json_object, or json_schema with a schema that the text follows", 0 },
    { "reasoning", HY_F_OBJECT, 0, 0, AT(reasoning), NULL, "effort: a variable of the template", 0 },
    { "include", HY_F_ARRAY, 0, 64, AT(include), NULL, "message.output_text.logprobs", 0 },
    { "top_logprobs", HY_F_INT, 0, HY_TOP_LOGPROBS_MAX, AT(top_logprobs), NULL,
      "alternatives beside each token's log-probability", 0 },
    { "seed", HY_F_INT, -I64, I64, AT(ask.seed), NULL, "the same seed gives the same text (an extension)",
      AT(ask.has_seed) },
    { "cache_salt", HY_F_STR, 0, 0, AT(ask.cache_salt), NULL,
      "cached prefixes are shared only with requests of the same salt (an extension)", 0 },
    HY_FIELD_SPECULATE(AT(ask.speculate)),
    { "previous_response_id", HY_F_REFUSE, 0, 0, 0, "", "answers are not stored: give the turns in input", 0 },
    { "conversation", HY_F_REFUSE, 0, 0, 0, "", "conversations are not stored: give the turns in input", 0 },
    { "background", HY_F_REFUSE, 0, 0, 0, "false", "answers are not stored", 0 },
    { "prompt", HY_F_REFUSE, 0, 0, 0, "", "there are no stored prompts", 0 },
    { "store", HY_F_IGNORE, 0, 0, 0, NULL, "answers are not stored", 0 },
    { "metadata", HY_F_IGNORE, 0, 0, 0, NULL, "repeated in the answer", 0 },
    { "user", HY_F_IGNORE, 0, 0, 0, NULL, "for the caller's records", 0 },
    { "truncation", HY_F_IGNORE, 0, 0, 0, NULL, "a prompt that is too long is an error", 0 },
    { "service_tier", HY_F_IGNORE, 0, 0, 0, NULL, "there is one", 0 },
    { "stream_options", HY_F_IGNORE, 0, 0, 0, NULL, "nothing is obfuscated", 0 },
    { "prompt_cache_key", HY_F_IGNORE, 0, 0, 0, NULL, "every prefix is cached", 0 },
    { "max_tool_calls", HY_F_IGNORE, 0, 0, 0, NULL, "the server calls no tools itself", 0 },
    { "safety_identifier", HY_F_IGNORE, 0, 0, 0, NULL, "for the caller's records", 0 },
    { NULL, 0, 0, 0, 0, NULL, NULL, 0 }
};

static const char *str(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static hy_status text_format(hy_responses_body *b, hy_err *err)
{
    const json_t *f = json_object_get(b->text, "format");
    if (!f || json_is_null(f)) return HY_OK;
    const char *type = str(f, "type");
    if (!type) return hy_fail(err, HY_E_ARG, "text.format.type: a string is expected");
    if (!strcmp(type, "text")) return HY_OK;
    if (!strcmp(type, "json_object")) {
        hy_ask_guide_object(&b->ask);
        return HY_OK;
    }
    if (strcmp(type, "json_schema"))
        return hy_fail(err, HY_E_ARG, "text.format.type: \"%.60s\" is not text, json_object or json_schema", type);
    const json_t *schema = json_object_get(f, "schema");
    if (!json_is_object(schema)) return hy_fail(err, HY_E_ARG, "text.format.schema: an object is expected");
    return hy_ask_guide_schema(&b->ask, schema, err);
}

static hy_status reasoning(hy_responses_body *b, hy_err *err)
{
    const json_t *effort = json_object_get(b->reasoning, "effort");
    if (!effort || json_is_null(effort)) return HY_OK;
    if (!json_is_string(effort)) return hy_fail(err, HY_E_ARG, "reasoning.effort: a string is expected");
    b->ask.reasoning_effort = json_string_value(effort);
    return HY_OK;
}

static bool wants_logprobs(const hy_responses_body *b)
{
    size_t i;
    const json_t *v;
    json_array_foreach(b->include, i, v)
        if (json_is_string(v) && !strcmp(json_string_value(v), "message.output_text.logprobs")) return true;
    return b->top_logprobs > 0;
}

static hy_status finish(hy_responses_body *b, const char **param, hy_err *err)
{
    json_t *list = NULL;
    *param = "input";
    if (!b->input) return hy_fail(err, HY_E_ARG, "input: missing");
    HY_TRY(hy_responses_convert(b, &list, err));
    b->ask.messages = hy_ask_own(&b->ask, list);
    if (!b->ask.messages) return hy_fail_memory(err, "input", 0);
    *param = "tools";
    b->ask.parallel = b->parallel;
    HY_TRY(hy_responses_tools(b, err));
    *param = "text";
    HY_TRY(text_format(b, err));
    *param = "reasoning";
    HY_TRY(reasoning(b, err));
    if (wants_logprobs(b)) b->ask.top_logprobs = b->top_logprobs;
    return HY_OK;
}

void hy_route_responses(hy_exchange *x)
{
    hy_responses_body b = { .parallel = true };
    hy_err err;
    const char *param = NULL;
    hy_ask_init(&b.ask);
    const json_t *body = hy_x_json(x);
    if (!body || !hy_fields_read_x(x, hy_responses_fields, body, &b)) return;
    void *user = NULL;
    if (finish(&b, &param, &err) != HY_OK) {
        /* the path in the message is the field's full name */
        char path[96];
        size_t n = strcspn(err.msg, ": ");
        snprintf(path, sizeof path, "%.*s", (int)HY_MIN(n, sizeof path - 1), err.msg);
        hy_x_fail(x, err.code == HY_E_ARG && n ? path : param, &err);
    } else if (hy_model_check(x, b.model)) {
        user = hy_responses_user(body, b.ask.top_logprobs >= 0);
        if (!user) hy_openai_no_memory(x);
    }
    if (user) hy_gen_start(x, &b.ask, b.ask.stream ? &hy_responses_stream : &hy_responses_whole, user);
    else hy_ask_free(&b.ask);
}
