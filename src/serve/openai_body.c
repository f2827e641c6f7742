/* From the fields of a body to an ask: what depends on more than one field. */
#include "serve/openai.h"
#include <string.h>

static void body_init(hy_body *b)
{
    memset(b, 0, sizeof *b);
    hy_ask_init(&b->ask);
    b->skip_special = b->add_special = b->cache_prompt = b->include_reasoning = b->add_generation_prompt = true;
}

static bool refuse(hy_exchange *x, hy_body *b, const char *param, const hy_err *err)
{
    hy_ask_free(&b->ask);
    hy_x_fail(x, param, err);
    return false;
}

bool hy_model_check(hy_exchange *x, const char *name)
{
    const hy_server *s = hy_x_server(x);
    const char *id = hy_server_model_id(s);
    if (!name || !hy_server_options(s)->strict_model || !strcmp(name, id)) return true;
    hy_x_error(x, 404, "model_not_found", "model", "model: \"%.200s\" is not served here; \"%.200s\" is", name, id);
    return false;
}

static hy_status stream_options(hy_body *b, hy_err *err)
{
    static const hy_field rows[] = {
        { "include_usage", HY_F_BOOL, 0, 0, offsetof(hy_body, include_usage), NULL, "", 0 },
        { "continuous_usage_stats", HY_F_BOOL, 0, 0, offsetof(hy_body, usage_always), NULL, "", 0 },
        { NULL, 0, 0, 0, 0, NULL, NULL, 0 }
    };
    if (!b->stream_options) return HY_OK;
    if (!b->ask.stream) return hy_fail(err, HY_E_ARG, "stream_options: only with \"stream\": true");
    const char *param;
    hy_status s = hy_fields_read(rows, b->stream_options, b, &param, err);
    return s == HY_OK ? HY_OK : hy_err_prefix(err, s, "stream_options");
}

/* What both routes share. *param names the field on failure. */
static hy_status finish(hy_body *b, const char **param, hy_err *err)
{
    hy_ask *a = &b->ask;
    b->prompt_logprobs = a->prompt_logprobs >= 0;
    *param = "stream_options";
    HY_TRY(stream_options(b, err));
    if (b->has_n_predict && !b->has_max_tokens) {
        a->max_tokens = b->n_predict;
        b->has_max_tokens = true;
    }
    if (a->top_k < 0) a->top_k = 0;
    /* sampling needs numbers that can be divided by; below them the most likely token always wins */
    if (a->temperature > 0 && a->temperature < 1e-4) a->temperature = 0;
    a->show_special = !b->skip_special;
    a->no_special = !b->add_special;
    a->no_cache = !b->cache_prompt;
    a->keep_tokens = b->return_token_ids;
    *param = "cache_salt";
    if (a->cache_salt && !a->cache_salt[0]) return hy_fail(err, HY_E_ARG, "cache_salt: an empty string is no salt");
    *param = NULL;
    return HY_OK;
}

/* ---- chat ------------------------------------------------------------------------------------------ */

static bool has_tool(const json_t *tools, const char *name)
{
    size_t i;
    json_t *t;
    json_array_foreach(tools, i, t)
    {
        const char *n = json_string_value(json_object_get(json_object_get(t, "function"), "name"));
        if (n && !strcmp(n, name)) return true;
    }
    return false;
}

static hy_status choose_named(hy_ask *a, const json_t *choice, hy_err *err)
{
    const char *name = json_string_value(json_object_get(json_object_get(choice, "function"), "name"));
    if (!name) name = json_string_value(json_object_get(choice, "name"));
    if (!name) return hy_fail(err, HY_E_ARG, "tool_choice.function.name: missing, or no string");
    if (!has_tool(a->tools, name))
        return hy_fail(err, HY_E_ARG, "tool_choice: \"%.100s\" is not among the tools", name);
    a->choice = HY_TOOLS_NAMED;
    a->choice_name = name;
    return HY_OK;
}

/* {"type": "allowed_tools", "allowed_tools": {"mode": ..., "tools": [...]}}: a smaller set of tools. */
static hy_status choose_among(hy_ask *a, const json_t *choice, hy_err *err)
{
    const json_t *in = json_object_get(choice, "allowed_tools");
    if (!in) in = choice;
    const char *mode = json_string_value(json_object_get(in, "mode"));
    const json_t *names = json_object_get(in, "tools");
    if (!mode || (strcmp(mode, "auto") && strcmp(mode, "required")))
        return hy_fail(err, HY_E_ARG, "tool_choice.allowed_tools.mode: neither \"auto\" nor \"required\"");
    if (!json_array_size(names)) return hy_fail(err, HY_E_ARG, "tool_choice.allowed_tools.tools: missing or empty");
    json_t *some = json_array();
    if (!hy_ask_own(a, some)) return hy_fail_memory(err, "tools", 64);
    size_t i, k;
    json_t *want, *t;
    json_array_foreach(names, i, want)
    {
        const char *name = json_string_value(json_object_get(json_object_get(want, "function"), "name"));
        if (!name) name = json_string_value(json_object_get(want, "name"));
        if (!name || !has_tool(a->tools, name))
            return hy_fail(err, HY_E_ARG, "tool_choice.allowed_tools.tools[%zu]: not among the tools", i);
        json_array_foreach(a->tools, k, t)
        {
            const char *n = json_string_value(json_object_get(json_object_get(t, "function"), "name"));
            if (n && !strcmp(n, name) && json_array_append(some, t)) return hy_fail_memory(err, "tools", 64);
        }
    }
    a->tools = some;
    a->choice = !strcmp(mode, "auto") ? HY_TOOLS_AUTO : HY_TOOLS_REQUIRED;
    return HY_OK;
}

static hy_status tool_choice(hy_body *b, hy_err *err)
{
    hy_ask *a = &b->ask;
    if (a->tools && json_array_size(a->tools) == 0) a->tools = NULL;
    a->choice = a->tools ? HY_TOOLS_AUTO : HY_TOOLS_NONE;
    const json_t *c = b->tool_choice;
    const char *word = json_string_value(c), *type = json_string_value(json_object_get(c, "type"));
    if (!c) return HY_OK;
    if (word && !strcmp(word, "none")) {
        a->choice = HY_TOOLS_NONE;
        return HY_OK;
    }
    if (word && !strcmp(word, "auto")) return HY_OK;
    bool required = word && !strcmp(word, "required");
    if (!required && !json_is_object(c)) {
        char got[128];
        hy_json_show(c, got, sizeof got);
        return hy_fail(err, HY_E_ARG, "tool_choice: %s is not none, auto, required, or an object", got);
    }
    if (!required && (!type || (strcmp(type, "function") && strcmp(type, "allowed_tools"))))
        return hy_fail(err, HY_E_ARG, "tool_choice.type: \"%.60s\" is neither function nor allowed_tools",
                       type ? type : "");
    if (!a->tools) return hy_fail(err, HY_E_ARG, "tool_choice: there are no tools to choose from");
    if (!required) return !strcmp(type, "function") ? choose_named(a, c, err) : choose_among(a, c, err);
    a->choice = HY_TOOLS_REQUIRED;
    return HY_OK;
}

/* enable_thinking stands beside the template's variables. */
static hy_status thinking(hy_body *b, hy_err *err)
{
    if (!b->has_thinking) return HY_OK;
    json_t *kwargs = b->ask.template_kwargs ? json_copy((json_t *)b->ask.template_kwargs) : json_object();
    if (!hy_ask_own(&b->ask, kwargs) ||
        json_object_set_new(kwargs, "enable_thinking", json_boolean(b->enable_thinking)))
        return hy_fail_memory(err, "chat_template_kwargs", 64);
    b->ask.template_kwargs = kwargs;
    return HY_OK;
}

static hy_status finish_chat(hy_body *b, const char **param, hy_err *err)
{
    hy_ask *a = &b->ask;
    *param = "messages";
    if (!a->messages) return hy_fail(err, HY_E_ARG, "messages: missing");
    HY_TRY(hy_messages_check(a->messages, err));
    *param = "tools";
    if (a->tools) HY_TRY(hy_tools_check(a->tools, err));
    *param = "tool_choice";
    HY_TRY(tool_choice(b, err));
    HY_TRY(finish(b, param, err));
    *param = "max_completion_tokens";
    if (b->has_max_completion) a->max_tokens = b->max_completion_tokens;
    else *param = "max_tokens";
    if (a->max_tokens == 0) return hy_fail(err, HY_E_ARG, "%s: 0 is not at least 1 (or -1 for no limit)", *param);
    *param = "top_logprobs";
    if (b->has_top_logprobs && !b->logprobs) {
        /* 0 asks for nothing */
        if (b->top_logprobs) return hy_fail(err, HY_E_ARG, "top_logprobs: only with \"logprobs\": true");
    }
    if (b->logprobs) a->top_logprobs = b->top_logprobs;
    *param = "continue_final_message";
    a->continue_final = b->continue_final;
    a->no_generation_prompt = !b->add_generation_prompt;
    if (a->continue_final && b->has_generation_prompt && b->add_generation_prompt)
        return hy_fail(err, HY_E_ARG, "continue_final_message: not together with add_generation_prompt");
    a->no_split = b->reasoning_format && !strcmp(b->reasoning_format, "none");
    *param = NULL;
    return thinking(b, err);
}

bool hy_body_chat(hy_exchange *x, hy_body *b)
{
    hy_err err;
    const char *param = NULL;
    body_init(b);
    const json_t *body = hy_x_json(x);
    if (!body) return false;
    hy_status s = hy_fields_read(hy_chat_fields, body, b, &param, &err);
    if (s == HY_OK && b->ask.chat_template && !hy_server_options(hy_x_server(x))->allow_template) {
        param = "chat_template";
        s = hy_fail(&err, HY_E_ARG,
                    "chat_template: this server uses the model's own (it was started without --allow-template)");
    }
    if (s == HY_OK) s = finish_chat(b, &param, &err);
    if (s != HY_OK) return refuse(x, b, param, &err);
    if (hy_model_check(x, b->model)) return true;
    hy_ask_free(&b->ask);
    return false;
}

/* ---- completions ----------------------------------------------------------------------------------- */

static hy_status legacy_logprobs(hy_body *b, hy_err *err)
{
    const json_t *l = b->legacy_logprobs;
    if (!l || json_is_false(l)) return HY_OK;
    double d = json_is_true(l) ? 0 : json_number_value(l);
    if ((!json_is_number(l) && !json_is_true(l)) || !(d >= 0 && d <= HY_TOP_LOGPROBS_MAX) || d != (double)(int)d) {
        char got[128];
        hy_json_show(l, got, sizeof got);
        return hy_fail(err, HY_E_ARG, "logprobs: %s is not an integer from 0 to %d", got, HY_TOP_LOGPROBS_MAX);
    }
    b->ask.top_logprobs = (int64_t)d;
    if (b->echo && b->ask.prompt_logprobs < b->ask.top_logprobs) b->ask.prompt_logprobs = b->ask.top_logprobs;
    return HY_OK;
}

static hy_status finish_completion(hy_body *b, const char **param, hy_err *err)
{
    hy_ask *a = &b->ask;
    *param = "prompt";
    if (!a->prompt) return hy_fail(err, HY_E_ARG, "prompt: missing");
    HY_TRY(finish(b, param, err));
    if (!b->has_max_tokens) a->max_tokens = 16;
    *param = "logprobs";
    HY_TRY(legacy_logprobs(b, err));
    *param = "best_of";
    if (b->has_best_of && b->best_of < a->n)
        return hy_fail(err, HY_E_ARG, "best_of: %d is less than n, %d", (int)b->best_of, (int)a->n);
    if (b->has_best_of && b->best_of > a->n && a->stream)
        return hy_fail(err, HY_E_ARG, "best_of: %d, more than n, cannot be streamed", (int)b->best_of);
    *param = NULL;
    return HY_OK;
}

bool hy_body_completion(hy_exchange *x, hy_body *b)
{
    hy_err err;
    const char *param = NULL;
    body_init(b);
    const json_t *body = hy_x_json(x);
    if (!body) return false;
    hy_status s = hy_fields_read(hy_completion_fields, body, b, &param, &err);
    if (s == HY_OK) s = finish_completion(b, &param, &err);
    if (s != HY_OK) return refuse(x, b, param, &err);
    if (hy_model_check(x, b->model)) return true;
    hy_ask_free(&b->ask);
    return false;
}
