/* The input of a response -> chat messages. Items that follow one another and are one turn of the assistant
 * (thoughts, text, calls) become one message. */
#include "serve/responses.h"
#include "serve/turns.h"
#include <string.h>

static hy_status memory(hy_err *err)
{
    return hy_fail_memory(err, "input", 0);
}

static const char *str(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

/* A string, or parts of text; kinds: their types. */
static hy_status read_parts(const json_t *v, const char *path, const char *kinds, hy_buf *out, hy_err *err)
{
    size_t i;
    const json_t *part;
    if (json_is_string(v)) {
        hy_buf_put(out, json_string_value(v), json_string_length(v));
        return HY_OK;
    }
    if (!json_is_array(v)) return hy_fail(err, HY_E_ARG, "%s: a string or an array of parts is expected", path);
    json_array_foreach(v, i, part) {
        const char *type = str(part, "type");
        const json_t *text = json_object_get(part, type && !strcmp(type, "refusal") ? "refusal" : "text");
        if (!type) return hy_fail(err, HY_E_ARG, "%s[%zu].type: a string is expected", path, i);
        const char *at = strstr(kinds, type);
        size_t n = strlen(type);
        if (!n || !at || (at != kinds && at[-1] != ' ') || (at[n] && at[n] != ' '))
            return hy_fail(err, HY_E_ARG, "%s[%zu].type: \"%.60s\" is not supported here (%s)", path, i, type, kinds);
        if (!json_is_string(text)) return hy_fail(err, HY_E_ARG, "%s[%zu].text: a string is expected", path, i);
        if (i) hy_buf_char(out, '\n');
        hy_buf_put(out, json_string_value(text), json_string_length(text));
    }
    return HY_OK;
}

static hy_status message(hy_turns *m, const json_t *item, const char *path, hy_err *err)
{
    char at[96];
    const char *role = str(item, "role");
    if (!role) return hy_fail(err, HY_E_ARG, "%s.role: a string is expected", path);
    bool assistant = !strcmp(role, "assistant");
    if (!assistant && strcmp(role, "user") && strcmp(role, "system") && strcmp(role, "developer"))
        return hy_fail(err, HY_E_ARG, "%s.role: \"%.60s\" is not user, assistant, system or developer", path, role);
    snprintf(at, sizeof at, "%s.content", path);
    const json_t *content = json_object_get(item, "content");
    if (assistant) {
        if (m->has_text || m->calls) hy_turns_flush(m);
        m->has_text = true;
        return read_parts(content, at, "output_text refusal text input_text", &m->text, err);
    }
    hy_turns_flush(m);
    hy_buf text = { 0 };
    hy_status st = read_parts(content, at, "input_text text output_text", &text, err);
    if (st == HY_OK) {
        json_t *t = hy_turns_text(m, &text);
        hy_turns_add(m, t ? json_pack("{s:s, s:o}", "role", role, "content", t) : NULL);
    }
    hy_buf_free(&text);
    return st;
}

static hy_status function_call(hy_turns *m, const json_t *item, const char *path, hy_err *err)
{
    const char *id = str(item, "call_id"), *name = str(item, "name"), *args = str(item, "arguments");
    if (!id) return hy_fail(err, HY_E_ARG, "%s.call_id: a string is expected", path);
    if (!name) return hy_fail(err, HY_E_ARG, "%s.name: a string is expected", path);
    if (!args) return hy_fail(err, HY_E_ARG, "%s.arguments: JSON text is expected", path);
    json_t *call = json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", id, "type", "function", "function", "name", name,
                             "arguments", args);
    if (!m->calls) m->calls = json_array();
    if (!call || !m->calls || json_array_append_new(m->calls, call)) return memory(err);
    return json_object_set_new(m->names, id, json_string(name)) ? memory(err) : HY_OK;
}

static hy_status call_output(hy_turns *m, const json_t *item, const char *path, hy_err *err)
{
    char at[96];
    const char *id = str(item, "call_id"), *name;
    hy_buf text = { 0 };
    if (!id) return hy_fail(err, HY_E_ARG, "%s.call_id: a string is expected", path);
    name = str(m->names, id);
    if (!name)
        return hy_fail(err, HY_E_ARG, "%s.call_id: no function_call before it has the call_id \"%.100s\"", path, id);
    snprintf(at, sizeof at, "%s.output", path);
    hy_status st = read_parts(json_object_get(item, "output"), at, "input_text output_text text", &text, err);
    if (st == HY_OK) {
        hy_turns_flush(m);
        json_t *t = hy_turns_text(m, &text);
        hy_turns_add(m, t ? json_pack("{s:s, s:s, s:s, s:o}", "role", "tool", "tool_call_id", id, "name", name, "content", t)
                 : NULL);
    }
    hy_buf_free(&text);
    return st;
}

static hy_status thoughts(hy_turns *m, const json_t *item, const char *path, hy_err *err)
{
    char at[96];
    if (m->has_text || m->calls) hy_turns_flush(m);
    snprintf(at, sizeof at, "%s.content", path);
    const json_t *content = json_object_get(item, "content");
    if (!content || json_is_null(content)) return HY_OK; /* a summary, or closed thoughts of another server */
    return read_parts(content, at, "reasoning_text text", &m->thoughts, err);
}

static hy_status one_item(hy_turns *m, const json_t *item, size_t i, hy_err *err)
{
    char path[64];
    snprintf(path, sizeof path, "input[%zu]", i);
    if (!json_is_object(item)) return hy_fail(err, HY_E_ARG, "%s: an object is expected", path);
    const json_t *kind = json_object_get(item, "type");
    const char *type = json_string_value(kind);
    if (kind && !type && !json_is_null(kind)) return hy_fail(err, HY_E_ARG, "%s.type: a string is expected", path);
    if (!type || !strcmp(type, "message")) return message(m, item, path, err);
    if (!strcmp(type, "function_call")) return function_call(m, item, path, err);
    if (!strcmp(type, "function_call_output")) return call_output(m, item, path, err);
    if (!strcmp(type, "reasoning")) return thoughts(m, item, path, err);
    if (!strcmp(type, "item_reference"))
        return hy_fail(err, HY_E_ARG, "%s.type: \"item_reference\": answers are not stored; give the item itself",
                       path);
    return hy_fail(err, HY_E_ARG,
                   "%s.type: \"%.60s\" is not message, function_call, function_call_output or reasoning", path, type);
}

static hy_status convert(hy_turns *m, const hy_responses_body *b, hy_err *err)
{
    size_t i;
    const json_t *item;
    hy_buf text = { 0 };
    if (b->instructions) {
        hy_status st = read_parts(b->instructions, "instructions", "input_text text", &text, err);
        json_t *t = st == HY_OK && text.len ? hy_turns_text(m, &text) : NULL;
        if (t) hy_turns_add(m, json_pack("{s:s, s:o}", "role", "system", "content", t));
        hy_buf_free(&text);
        HY_TRY(st);
    }
    if (json_is_string(b->input)) {
        hy_turns_add(m, json_pack("{s:s, s:O}", "role", "user", "content", b->input));
        return m->failed ? memory(err) : HY_OK;
    }
    if (!json_is_array(b->input)) return hy_fail(err, HY_E_ARG, "input: a string or an array of items is expected");
    if (json_array_size(b->input) == 0) return hy_fail(err, HY_E_ARG, "input: an empty array");
    json_array_foreach(b->input, i, item) HY_TRY(one_item(m, item, i, err));
    if (m->calls) return hy_fail(err, HY_E_ARG, "input: a function_call is not followed by its function_call_output");
    hy_turns_flush(m);
    return m->failed ? memory(err) : HY_OK;
}

hy_status hy_responses_convert(const hy_responses_body *b, json_t **out, hy_err *err)
{
    hy_turns m;
    hy_status st = hy_turns_open(&m, "assistant") ? convert(&m, b, err) : memory(err);
    hy_turns_close(&m);
    *out = m.list;
    if (st == HY_OK) return HY_OK;
    json_decref(m.list);
    *out = NULL;
    return st;
}

/* ---- tools -------------------------------------------------------------------------------------------- */

/* {"type": "function", "name", ...} with the members beside the type, or inside "function" as in chat. */
static hy_status one_tool(const json_t *t, size_t i, json_t *list, hy_err *err)
{
    static const char *const keys[] = { "name", "description", "parameters", "strict" };
    const char *type = str(t, "type");
    if (!json_is_object(t)) return hy_fail(err, HY_E_ARG, "tools[%zu]: an object is expected", i);
    if (!type) return hy_fail(err, HY_E_ARG, "tools[%zu].type: a string is expected", i);
    if (strcmp(type, "function"))
        return hy_fail(err, HY_E_ARG, "tools[%zu].type: \"%.60s\" is not supported; \"function\" is", i, type);
    json_t *f = json_object_get(t, "function") ? json_copy(json_object_get(t, "function")) : json_object();
    for (size_t k = 0; f && k < HY_COUNT(keys); k++) {
        json_t *v = json_object_get(t, keys[k]);
        if (v && !json_is_null(v) && json_object_set(f, keys[k], v)) return memory(err);
    }
    json_t *o = f ? json_pack("{s:s, s:o}", "type", "function", "function", f) : NULL;
    return !o || json_array_append_new(list, o) ? memory(err) : HY_OK;
}

static bool has_tool(const json_t *tools, const char *name)
{
    size_t i;
    const json_t *t;
    json_array_foreach(tools, i, t)
        if (!strcmp(str(json_object_get(t, "function"), "name"), name)) return true;
    return false;
}

/* {"type": "allowed_tools", "mode", "tools": [{"name"}...]} */
static hy_status choose_among(hy_ask *a, const json_t *c, hy_err *err)
{
    const char *mode = str(c, "mode");
    const json_t *names = json_object_get(c, "tools"), *w, *t;
    size_t i, k;
    if (!mode || (strcmp(mode, "auto") && strcmp(mode, "required")))
        return hy_fail(err, HY_E_ARG, "tool_choice.mode: neither \"auto\" nor \"required\"");
    if (!json_array_size(names)) return hy_fail(err, HY_E_ARG, "tool_choice.tools: missing or empty");
    json_t *some = json_array();
    if (!hy_ask_own(a, some)) return memory(err);
    json_array_foreach(names, i, w) {
        const char *name = str(w, "name");
        if (!name || !has_tool(a->tools, name))
            return hy_fail(err, HY_E_ARG, "tool_choice.tools[%zu].name: not among the tools", i);
        json_array_foreach(a->tools, k, t)
            if (!strcmp(str(json_object_get(t, "function"), "name"), name) && json_array_append(some, (json_t *)t))
                return memory(err);
    }
    a->tools = some;
    a->choice = !strcmp(mode, "auto") ? HY_TOOLS_AUTO : HY_TOOLS_REQUIRED;
    return HY_OK;
}

static hy_status choose(hy_responses_body *b, hy_err *err)
{
    hy_ask *a = &b->ask;
    const json_t *c = b->tool_choice;
    const char *word = json_string_value(c), *type = str(c, "type");
    a->choice = a->tools ? HY_TOOLS_AUTO : HY_TOOLS_NONE;
    if (!c || (word && !strcmp(word, "auto"))) return HY_OK;
    if (word && !strcmp(word, "none")) {
        a->choice = HY_TOOLS_NONE;
        return HY_OK;
    }
    bool required = word && !strcmp(word, "required");
    if (!required && !type)
        return hy_fail(err, HY_E_ARG, "tool_choice: \"%.60s\" is not none, auto, required, or an object with a type",
                       word ? word : "");
    if (!required && strcmp(type, "function") && strcmp(type, "allowed_tools"))
        return hy_fail(err, HY_E_ARG, "tool_choice.type: \"%.60s\" is neither function nor allowed_tools", type);
    if (!a->tools) return hy_fail(err, HY_E_ARG, "tool_choice: there are no tools to choose from");
    if (required) {
        a->choice = HY_TOOLS_REQUIRED;
        return HY_OK;
    }
    if (!strcmp(type, "allowed_tools")) return choose_among(a, c, err);
    const char *name = str(c, "name");
    if (!name) return hy_fail(err, HY_E_ARG, "tool_choice.name: a string is expected");
    if (!has_tool(a->tools, name)) return hy_fail(err, HY_E_ARG, "tool_choice.name: no tool is named \"%.100s\"", name);
    a->choice = HY_TOOLS_NAMED;
    a->choice_name = name;
    return HY_OK;
}

hy_status hy_responses_tools(hy_responses_body *b, hy_err *err)
{
    size_t i;
    const json_t *t;
    if (json_array_size(b->tools)) {
        json_t *list = json_array();
        hy_err why;
        if (!hy_ask_own(&b->ask, list)) return memory(err);
        json_array_foreach(b->tools, i, t) HY_TRY(one_tool(t, i, list, err));
        hy_status st = hy_tools_check(list, &why);
        char *in = strstr(why.msg, ".function."); /* the path as it stands in this body */
        if (st != HY_OK && in) memmove(in, in + 9, strlen(in + 9) + 1);
        if (st != HY_OK) return hy_fail(err, st, "%s", why.msg);
        b->ask.tools = list;
    }
    return choose(b, err);
}
