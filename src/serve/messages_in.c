/* Anthropic's messages and tools -> OpenAI's, which the rest of the server speaks. Paths in messages are written
 * as Anthropic's API writes them: "messages.0.content.1.type". */
#include "serve/anthropic.h"
#include "serve/turns.h"
#include <string.h>

static hy_status memory(hy_err *err)
{
    return hy_fail_memory(err, "messages", 0);
}

static void put_text(hy_turns *m, const char *s, size_t n)
{
    if (m->has_text) hy_buf_char(&m->text, '\n');
    hy_buf_put(&m->text, s, n);
    m->has_text = true;
}

static const char *str(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

/* The text of a block that stands for text, or NULL. */
static const json_t *block_text(const json_t *block)
{
    const char *type = str(block, "type");
    if (type && !strcmp(type, "text")) return json_object_get(block, "text");
    const json_t *source = json_object_get(block, "source");
    if (type && !strcmp(type, "document") && str(source, "type") && !strcmp(str(source, "type"), "text"))
        return json_object_get(source, "data");
    return NULL;
}

/* A string or an array of blocks of text. */
static hy_status read_text(const json_t *v, const char *path, hy_buf *out, hy_err *err)
{
    size_t i;
    const json_t *block;
    if (json_is_string(v)) {
        hy_buf_put(out, json_string_value(v), json_string_length(v));
        return HY_OK;
    }
    if (!json_is_array(v)) return hy_fail(err, HY_E_ARG, "%s: a string or an array of blocks is expected", path);
    json_array_foreach(v, i, block) {
        const char *type = str(block, "type");
        const json_t *text = block_text(block);
        if (!type) return hy_fail(err, HY_E_ARG, "%s.%zu.type: a string is expected", path, i);
        if (!text && strcmp(type, "text"))
            return hy_fail(err, HY_E_ARG, "%s.%zu.type: \"%.60s\" is not supported here; text is", path, i, type);
        if (!json_is_string(text)) return hy_fail(err, HY_E_ARG, "%s.%zu.text: a string is expected", path, i);
        if (i) hy_buf_char(out, '\n');
        hy_buf_put(out, json_string_value(text), json_string_length(text));
    }
    return HY_OK;
}

static hy_status tool_use(hy_turns *m, const json_t *block, const char *path, hy_err *err)
{
    const char *id = str(block, "id"), *name = str(block, "name");
    const json_t *input = json_object_get(block, "input");
    if (!id || !*id) return hy_fail(err, HY_E_ARG, "%s.id: a string is expected", path);
    if (!name || !*name) return hy_fail(err, HY_E_ARG, "%s.name: a string is expected", path);
    if (!json_is_object(input)) return hy_fail(err, HY_E_ARG, "%s.input: an object is expected", path);
    char *args = json_dumps(input, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_t *call = args ? json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", id, "type", "function", "function", "name", name,
                                    "arguments", args) : NULL;
    free(args);
    if (!m->calls) m->calls = json_array();
    if (!call || !m->calls || json_array_append_new(m->calls, call)) return memory(err);
    return json_object_set_new(m->names, id, json_string(name)) ? memory(err) : HY_OK;
}

static hy_status tool_result(hy_turns *m, const json_t *block, const char *path, hy_err *err)
{
    char at[160];
    const char *id = str(block, "tool_use_id");
    const json_t *content = json_object_get(block, "content"), *bad = json_object_get(block, "is_error");
    hy_buf text = { 0 };
    if (!id) return hy_fail(err, HY_E_ARG, "%s.tool_use_id: a string is expected", path);
    const char *name = str(m->names, id);
    if (!name)
        return hy_fail(err, HY_E_ARG, "%s.tool_use_id: no tool_use block before it has the id \"%.100s\"", path, id);
    if (bad && !json_is_null(bad) && !json_is_boolean(bad))
        return hy_fail(err, HY_E_ARG, "%s.is_error: true or false is expected", path);
    snprintf(at, sizeof at, "%s.content", path);
    if (json_is_true(bad)) hy_buf_str(&text, "Error: "); /* templates have no place for it but the text */
    hy_status st = content && !json_is_null(content) ? read_text(content, at, &text, err) : HY_OK;
    if (st == HY_OK) {
        hy_turns_flush(m);
        json_t *t = hy_turns_text(m, &text);
        hy_turns_add(m, t ? json_pack("{s:s, s:s, s:s, s:o}", "role", "tool", "tool_call_id", id, "name", name, "content", t)
                 : NULL);
    }
    hy_buf_free(&text);
    return st;
}

static hy_status user_block(hy_turns *m, const json_t *block, const char *type, const char *path, hy_err *err)
{
    if (!strcmp(type, "tool_result")) return tool_result(m, block, path, err);
    const json_t *text = block_text(block);
    if (!text && strcmp(type, "text"))
        return hy_fail(err, HY_E_ARG, "%s.type: \"%.60s\" is not supported in a user message; text and tool_result are",
                       path, type);
    if (!json_is_string(text)) return hy_fail(err, HY_E_ARG, "%s.text: a string is expected", path);
    put_text(m, json_string_value(text), json_string_length(text));
    return HY_OK;
}

static hy_status assistant_block(hy_turns *m, const json_t *block, const char *type, const char *path, hy_err *err)
{
    if (!strcmp(type, "tool_use")) return tool_use(m, block, path, err);
    if (!strcmp(type, "redacted_thinking")) return HY_OK; /* of another server; nothing to read in it */
    bool thinking = !strcmp(type, "thinking");
    const char *key = thinking ? "thinking" : "text";
    const json_t *text = json_object_get(block, key);
    if (!thinking && strcmp(type, "text"))
        return hy_fail(err, HY_E_ARG, "%s.type: \"%.60s\" is not supported in an assistant message; text, thinking and "
                       "tool_use are", path, type);
    if (!json_is_string(text)) return hy_fail(err, HY_E_ARG, "%s.%s: a string is expected", path, key);
    if (thinking) hy_buf_put(&m->thoughts, json_string_value(text), json_string_length(text));
    else put_text(m, json_string_value(text), json_string_length(text));
    return HY_OK;
}

static hy_status one_message(hy_turns *m, const json_t *msg, size_t i, bool last, hy_err *err)
{
    char path[96];
    size_t k;
    const json_t *block, *content = json_object_get(msg, "content");
    const char *role = str(msg, "role");
    if (!json_is_object(msg)) return hy_fail(err, HY_E_ARG, "messages.%zu: an object is expected", i);
    if (!role) return hy_fail(err, HY_E_ARG, "messages.%zu.role: \"user\" or \"assistant\" is expected", i);
    bool user = !strcmp(role, "user");
    if (!user && strcmp(role, "assistant"))
        return hy_fail(err, HY_E_ARG, "messages.%zu.role: \"%.60s\" is neither \"user\" nor \"assistant\"%s", i, role,
                       strcmp(role, "system") ? "" : "; the field \"system\" is for instructions");
    if (m->role && strcmp(m->role, role)) hy_turns_flush(m);
    m->role = user ? "user" : "assistant";
    if (!json_is_string(content) && !json_is_array(content))
        return hy_fail(err, HY_E_ARG, "messages.%zu.content: a string or an array of blocks is expected", i);
    bool empty = json_is_string(content) ? !json_string_length(content) : !json_array_size(content);
    if (empty && !(last && !user)) return hy_fail(err, HY_E_ARG, "messages.%zu.content: empty", i);
    if (empty) return HY_OK;
    if (json_is_string(content)) {
        put_text(m, json_string_value(content), json_string_length(content));
        return HY_OK;
    }
    json_array_foreach(content, k, block) {
        const char *type = str(block, "type");
        snprintf(path, sizeof path, "messages.%zu.content.%zu", i, k);
        if (!json_is_object(block)) return hy_fail(err, HY_E_ARG, "%s: an object is expected", path);
        if (!type) return hy_fail(err, HY_E_ARG, "%s.type: a string is expected", path);
        HY_TRY(user ? user_block(m, block, type, path, err) : assistant_block(m, block, type, path, err));
    }
    return HY_OK;
}

static hy_status put_system(hy_turns *m, const json_t *system, hy_err *err)
{
    hy_buf text = { 0 };
    if (!system) return HY_OK;
    hy_status st = read_text(system, "system", &text, err);
    if (st == HY_OK && text.len) {
        json_t *t = hy_turns_text(m, &text);
        hy_turns_add(m, t ? json_pack("{s:s, s:o}", "role", "system", "content", t) : NULL);
    }
    hy_buf_free(&text);
    return st;
}

static hy_status convert(hy_turns *m, const hy_messages_body *b, bool *prefill, hy_err *err)
{
    size_t i, n = json_array_size(b->messages);
    const json_t *msg;
    if (!json_is_array(b->messages)) return hy_fail(err, HY_E_ARG, "messages: an array is expected");
    if (n == 0) return hy_fail(err, HY_E_ARG, "messages: at least one message is required");
    HY_TRY(put_system(m, b->system, err));
    json_array_foreach(b->messages, i, msg) HY_TRY(one_message(m, msg, i, i + 1 == n, err));
    if (m->calls)
        return hy_fail(err, HY_E_ARG,
                       "messages.%zu: a tool_use block must be followed by a message with its tool_result", n - 1);
    *prefill = !strcmp(m->role, "assistant") && m->has_text;
    hy_turns_flush(m);
    return m->failed ? memory(err) : HY_OK;
}

hy_status hy_messages_convert(hy_messages_body *b, json_t **out, bool *prefill, hy_err *err)
{
    hy_turns m;
    *prefill = false;
    hy_status st = hy_turns_open(&m, NULL) ? convert(&m, b, prefill, err) : memory(err);
    hy_turns_close(&m);
    *out = m.list;
    if (st == HY_OK) return HY_OK;
    json_decref(m.list);
    *out = NULL;
    return st;
}

/* ---- tools -------------------------------------------------------------------------------------------- */

static hy_status one_tool(const json_t *t, size_t i, json_t *list, hy_err *err)
{
    const char *type = str(t, "type"), *name = str(t, "name");
    const json_t *schema = json_object_get(t, "input_schema"), *about = json_object_get(t, "description");
    if (!json_is_object(t)) return hy_fail(err, HY_E_ARG, "tools.%zu: an object is expected", i);
    if (type && strcmp(type, "custom"))
        return hy_fail(err, HY_E_ARG, "tools.%zu.type: \"%.60s\" is not supported; \"custom\" is", i, type);
    if (!name) return hy_fail(err, HY_E_ARG, "tools.%zu.name: a string is expected", i);
    if (about && !json_is_null(about) && !json_is_string(about))
        return hy_fail(err, HY_E_ARG, "tools.%zu.description: a string is expected", i);
    if (!json_is_object(schema)) return hy_fail(err, HY_E_ARG, "tools.%zu.input_schema: an object is expected", i);
    json_t *o = json_pack("{s:s, s:{s:s, s:s, s:O}}", "type", "function", "function", "name", name, "description",
                          json_is_string(about) ? json_string_value(about) : "", "parameters", schema);
    if (!o || json_array_append_new(list, o)) return memory(err);
    json_t *one = json_pack("[O]", o);
    hy_err why;
    hy_status st = one ? hy_tools_check(one, &why) : memory(&why);
    json_decref(one);
    if (st == HY_OK) return HY_OK;
    /* "tools[0].function.name: ..." */
    const char *at = strchr(why.msg, ' ');
    const char *field = strstr(why.msg, "name") && at && strstr(why.msg, "name") < at ? "name" : "input_schema";
    return hy_fail(err, st, "tools.%zu.%s:%s", i, field, at ? at : "");
}

static hy_status choose(hy_messages_body *b, hy_err *err)
{
    hy_ask *a = &b->ask;
    const json_t *c = b->tool_choice, *alone = json_object_get(c, "disable_parallel_tool_use");
    const char *type = str(c, "type"), *name = str(c, "name");
    a->choice = a->tools ? HY_TOOLS_AUTO : HY_TOOLS_NONE;
    if (!c) return HY_OK;
    if (!type) return hy_fail(err, HY_E_ARG, "tool_choice.type: a string is expected");
    if (alone && !json_is_null(alone) && !json_is_boolean(alone))
        return hy_fail(err, HY_E_ARG, "tool_choice.disable_parallel_tool_use: true or false is expected");
    a->parallel = !json_is_true(alone);
    if (!strcmp(type, "none")) {
        a->choice = HY_TOOLS_NONE;
        return HY_OK;
    }
    bool any = !strcmp(type, "any"), one = !strcmp(type, "tool");
    if (!any && !one && strcmp(type, "auto"))
        return hy_fail(err, HY_E_ARG, "tool_choice.type: \"%.60s\" is not auto, any, tool or none", type);
    if (!a->tools) return hy_fail(err, HY_E_ARG, "tool_choice: there are no tools to choose from");
    if (!one) {
        if (any) a->choice = HY_TOOLS_REQUIRED;
        return HY_OK;
    }
    if (!name) return hy_fail(err, HY_E_ARG, "tool_choice.name: a string is expected");
    size_t i;
    const json_t *t;
    json_array_foreach(a->tools, i, t)
        if (!strcmp(str(json_object_get(t, "function"), "name"), name)) {
            a->choice = HY_TOOLS_NAMED;
            a->choice_name = name;
            return HY_OK;
        }
    return hy_fail(err, HY_E_ARG, "tool_choice.name: no tool is named \"%.100s\"", name);
}

hy_status hy_messages_tools(hy_messages_body *b, hy_err *err)
{
    size_t i;
    const json_t *t;
    if (json_array_size(b->tools)) {
        json_t *list = json_array();
        if (!hy_ask_own(&b->ask, list)) return memory(err);
        json_array_foreach(b->tools, i, t) HY_TRY(one_tool(t, i, list, err));
        hy_err why;
        if (hy_tools_check(list, &why) != HY_OK) return hy_fail(err, why.code, "tools: %s", why.msg);
        b->ask.tools = list;
    }
    return choose(b, err);
}
