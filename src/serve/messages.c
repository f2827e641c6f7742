/* OpenAI's messages: checked, and brought into the form that chat templates expect: contents as strings, arguments
 * of calls as objects, roles that the template knows. */
#include "serve/fields.h"
#include "serve/gen_impl.h"
#include <string.h>

typedef struct path { char at[96]; } path;

static path path_of(size_t i_msg, const char *field)
{
    path p;
    snprintf(p.at, sizeof p.at, "messages[%zu]%s%s", i_msg, field ? "." : "", field ? field : "");
    return p;
}

static hy_status not_what(const char *at, const json_t *v, const char *want, hy_err *err)
{
    char got[128];
    hy_json_show(v, got, sizeof got);
    return hy_fail(err, HY_E_ARG, "%s: %s is not %s", at, got, want);
}

static hy_status check_part(const json_t *part, size_t i_msg, size_t i, hy_err *err)
{
    char at[128];
    snprintf(at, sizeof at, "messages[%zu].content[%zu]", i_msg, i);
    if (!json_is_object(part)) return not_what(at, part, "an object", err);
    const char *type = json_string_value(json_object_get(part, "type"));
    if (!type) return hy_fail(err, HY_E_ARG, "%s.type: missing, or no string", at);
    bool refusal = !strcmp(type, "refusal");
    if (strcmp(type, "text") && strcmp(type, "input_text") && strcmp(type, "output_text") && !refusal)
        return hy_fail(err, HY_E_ARG, "%s.type: \"%.60s\" is not supported: this model reads text only", at, type);
    if (!json_is_string(json_object_get(part, refusal ? "refusal" : "text")))
        return hy_fail(err, HY_E_ARG, "%s.%s: missing, or no string", at, refusal ? "refusal" : "text");
    return HY_OK;
}

static hy_status check_content(const json_t *m, size_t i_msg, bool may_be_null, hy_err *err)
{
    path at = path_of(i_msg, "content");
    const json_t *c = json_object_get(m, "content");
    if (json_is_string(c)) return HY_OK;
    if (!c || json_is_null(c)) return may_be_null ? HY_OK : hy_fail(err, HY_E_ARG, "%s: missing", at.at);
    if (!json_is_array(c)) return not_what(at.at, c, "a string or an array of parts", err);
    if (json_array_size(c) == 0 && !may_be_null) return hy_fail(err, HY_E_ARG, "%s: an empty array", at.at);
    size_t i;
    json_t *part;
    json_array_foreach(c, i, part) HY_TRY(check_part(part, i_msg, i, err));
    return HY_OK;
}

static hy_status check_calls(const json_t *calls, size_t i_msg, hy_err *err)
{
    path at = path_of(i_msg, "tool_calls");
    if (!json_is_array(calls)) return not_what(at.at, calls, "an array", err);
    size_t i;
    json_t *c;
    json_array_foreach(calls, i, c)
    {
        const json_t *type = json_object_get(c, "type"), *id = json_object_get(c, "id");
        const json_t *f = json_object_get(c, "function"), *args = json_object_get(f, "arguments");
        if (!json_is_object(c)) return hy_fail(err, HY_E_ARG, "%s[%zu]: no object", at.at, i);
        if (type && strcmp(json_is_string(type) ? json_string_value(type) : "", "function"))
            return hy_fail(err, HY_E_ARG, "%s[%zu].type: not \"function\"", at.at, i);
        if (id && !json_is_null(id) && !json_is_string(id))
            return hy_fail(err, HY_E_ARG, "%s[%zu].id: no string", at.at, i);
        if (!json_is_string(json_object_get(f, "name")))
            return hy_fail(err, HY_E_ARG, "%s[%zu].function.name: missing, or no string", at.at, i);
        if (args && !json_is_string(args) && !json_is_object(args) && !json_is_null(args))
            return hy_fail(err, HY_E_ARG, "%s[%zu].function.arguments: neither JSON text nor an object", at.at, i);
    }
    return HY_OK;
}

static hy_status check_string(const json_t *m, const char *key, size_t i_msg, hy_err *err)
{
    const json_t *v = json_object_get(m, key);
    if (!v || json_is_null(v) || json_is_string(v)) return HY_OK;
    return not_what(path_of(i_msg, key).at, v, "a string", err);
}

static hy_status check_message(const json_t *m, size_t i_msg, hy_err *err)
{
    static const char *const roles[] = { "system", "developer", "user", "assistant", "tool", "function" };
    static const char *const strings[] = { "name", "tool_call_id", "reasoning_content", "reasoning", "refusal" };
    if (!json_is_object(m)) return not_what(path_of(i_msg, NULL).at, m, "an object", err);
    const json_t *role = json_object_get(m, "role");
    if (!json_is_string(role)) return hy_fail(err, HY_E_ARG, "messages[%zu].role: missing, or no string", i_msg);
    size_t k = 0;
    while (k < HY_COUNT(roles) && strcmp(roles[k], json_string_value(role))) k++;
    if (k == HY_COUNT(roles))
        return not_what(path_of(i_msg, "role").at, role, "system, developer, user, assistant or tool", err);
    const json_t *calls = json_object_get(m, "tool_calls");
    bool has_calls = calls && !json_is_null(calls), assistant = !strcmp(roles[k], "assistant");
    if (has_calls && !assistant)
        return hy_fail(err, HY_E_ARG, "messages[%zu].tool_calls: only with the role assistant", i_msg);
    if (has_calls) HY_TRY(check_calls(calls, i_msg, err));
    for (k = 0; k < HY_COUNT(strings); k++) HY_TRY(check_string(m, strings[k], i_msg, err));
    bool refused = json_is_string(json_object_get(m, "refusal"));
    bool thought = json_is_string(json_object_get(m, "reasoning_content")) ||
                   json_is_string(json_object_get(m, "reasoning"));
    return check_content(m, i_msg, assistant && (has_calls || refused || thought), err);
}

hy_status hy_messages_check(const json_t *messages, hy_err *err)
{
    if (!json_is_array(messages)) return not_what("messages", messages, "an array", err);
    if (json_array_size(messages) == 0) return hy_fail(err, HY_E_ARG, "messages: an empty array");
    size_t i;
    json_t *m;
    json_array_foreach(messages, i, m) HY_TRY(check_message(m, i, err));
    return HY_OK;
}

/* ---- the template's form ---------------------------------------------------------------------------- */

static bool set_new(json_t *o, const char *key, json_t *take)
{
    return take && json_object_set_new(o, key, take) == 0;
}

/* Text parts joined by line ends, as the field does; null is an empty text. */
static json_t *content_text(const json_t *m)
{
    const json_t *c = json_object_get(m, "content");
    if (json_is_string(c)) return json_incref((json_t *)c);
    hy_buf b = { 0 };
    size_t i;
    json_t *part;
    json_array_foreach(c, i, part)
    {
        const json_t *t = json_object_get(part, "text");
        if (!t) t = json_object_get(part, "refusal");
        if (i) hy_buf_char(&b, '\n');
        hy_buf_put(&b, json_string_value(t), json_string_length(t));
    }
    if (!json_is_array(c) && json_is_string(json_object_get(m, "refusal")))
        hy_buf_str(&b, json_string_value(json_object_get(m, "refusal")));
    json_t *text = b.failed ? NULL : json_stringn(b.data ? b.data : "", b.len);
    hy_buf_free(&b);
    return text;
}

/* {"id", "type", "function": {"name", "arguments"}}, the arguments parsed where they are an object. */
static json_t *call_of(const json_t *call, bool args_as_text)
{
    const json_t *f = json_object_get(call, "function"), *args = json_object_get(f, "arguments");
    json_t *out = json_copy((json_t *)call), *fn = json_copy((json_t *)f), *parsed = NULL;
    bool ok = set_new(out, "type", json_string("function"));
    if (json_is_string(args) && !args_as_text) {
        const char *s = json_string_value(args);
        size_t n = json_string_length(args);
        if (n == 0) parsed = json_object();
        else if (hy_json_parse("arguments", s, n, &parsed, NULL) != HY_OK || !json_is_object(parsed)) {
            json_decref(parsed); /* what a model wrote need not be JSON: it stays text */
            parsed = json_incref((json_t *)args);
        }
        ok = ok && set_new(fn, "arguments", parsed);
    } else if (json_is_object(args) && args_as_text) {
        char *text = json_dumps(args, JSON_REAL_PRECISION(17));
        ok = ok && text && set_new(fn, "arguments", json_string(text));
        free(text);
    } else if (!args || json_is_null(args)) {
        ok = ok && set_new(fn, "arguments", args_as_text ? json_string("{}") : json_object());
    }
    ok = set_new(out, "function", fn) && ok;
    if (ok) return out;
    json_decref(out);
    return NULL;
}

static json_t *calls_of(const json_t *calls, bool args_as_text)
{
    json_t *out = json_array();
    size_t i;
    json_t *c;
    json_array_foreach(calls, i, c)
    {
        json_t *one = call_of(c, args_as_text);
        if (!one || json_array_append_new(out, one)) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

static json_t *message_of(const json_t *m, bool developer, bool args_as_text)
{
    json_t *out = json_copy((json_t *)m);
    const char *role = json_string_value(json_object_get(m, "role"));
    const json_t *calls = json_object_get(m, "tool_calls"), *thoughts = json_object_get(m, "reasoning");
    bool ok = out && set_new(out, "content", content_text(m));
    if (ok && !strcmp(role, "developer") && !developer) ok = set_new(out, "role", json_string("system"));
    if (ok && !strcmp(role, "function")) ok = set_new(out, "role", json_string("tool"));
    if (ok && json_is_array(calls) && json_array_size(calls)) ok = set_new(out, "tool_calls", calls_of(calls,
        args_as_text));
    else if (ok && calls) json_object_del(out, "tool_calls"); /* templates ask whether it is there */
    if (ok && json_is_string(thoughts) && !json_is_string(json_object_get(m, "reasoning_content")))
        ok = set_new(out, "reasoning_content", json_incref((json_t *)thoughts));
    if (ok) return out;
    json_decref(out);
    return NULL;
}

/* A family without calls of its own is told of the tools in the system message. */
static bool put_tools_text(json_t *list, const hy_ask *a)
{
    hy_buf b = { 0 };
    json_t *first = json_array_get(list, 0);
    bool system = !strcmp(json_string_value(json_object_get(first, "role")), "system");
    if (system) {
        const json_t *c = json_object_get(first, "content");
        hy_buf_put(&b, json_string_value(c), json_string_length(c));
        if (b.len) hy_buf_str(&b, "\n\n");
    }
    hy_chat_tools_text(a->tools, a->choice != HY_TOOLS_AUTO, &b);
    json_t *text = b.failed ? NULL : json_stringn(b.data ? b.data : "", b.len);
    hy_buf_free(&b);
    if (system) return set_new(first, "content", text);
    json_t *m = text ? json_pack("{s:s, s:o}", "role", "system", "content", text) : NULL;
    return m && json_array_insert_new(list, 0, m) == 0;
}

static bool put_messages(json_t *vars, const hy_ask *a, const char *source, bool args_as_text, bool *has_calls)
{
    json_t *list = json_array();
    bool developer = source && strstr(source, "developer"), ok = list != NULL;
    size_t i;
    json_t *m;
    *has_calls = false;
    json_array_foreach(a->messages, i, m)
    {
        if (json_array_size(json_object_get(m, "tool_calls"))) *has_calls = true;
        json_t *one = ok ? message_of(m, developer, args_as_text) : NULL;
        ok = ok && one && json_array_append_new(list, one) == 0;
    }
    bool tools = a->tools && a->choice != HY_TOOLS_NONE, plain = !hy_chat_format_calls(hy_chat_format_of(source));
    /* a template of an unknown family may still write calls and tools in its own way */
    if (plain && !(source && strstr(source, "tool_calls"))) ok = ok && hy_chat_plain_history(list);
    if (ok && tools && plain && !(source && strstr(source, "tools"))) ok = put_tools_text(list, a);
    ok = set_new(vars, "messages", list) && ok;
    return ok;
}

/* reasoning_effort for templates that know it; "none" for those that can be told not to think. */
static bool put_effort(json_t *vars, const char *effort)
{
    if (!effort) return true;
    if (!strcmp(effort, "none")) return set_new(vars, "enable_thinking", json_false());
    return set_new(vars, "reasoning_effort", json_string(effort));
}

hy_status hy_messages_vars(const hy_ask *a, const char *source, bool args_as_text, bool *has_calls, json_t **out,
                           hy_err *err)
{
    json_t *vars = json_object();
    bool tools = a->tools && a->choice != HY_TOOLS_NONE;
    bool ok = vars && put_effort(vars, a->reasoning_effort);
    if (ok && a->template_kwargs) ok = json_object_update(vars, (json_t *)a->template_kwargs) == 0;
    ok = ok && put_messages(vars, a, source, args_as_text, has_calls);
    ok = ok && set_new(vars, "tools", tools ? json_deep_copy(a->tools) : json_null());
    ok = ok && set_new(vars, "documents", a->documents ? json_incref((json_t *)a->documents) : json_null());
    ok = ok && set_new(vars, "add_generation_prompt", json_boolean(!a->no_generation_prompt && !a->continue_final));
    if (!ok) {
        json_decref(vars);
        return hy_fail_memory(err, "chat variables", 0);
    }
    *out = vars;
    return HY_OK;
}
