/* The "tools" of a request, as OpenAI writes them. */
#include "serve/format_impl.h"
#include <string.h>

#define TOOLS_MAX 1024
#define NAME_MAX 128

static bool name_ok(const char *s)
{
    size_t n = strlen(s);
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        if (!((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' || c == '-' || c == '.'))
            return false;
    }
    return n >= 1 && n <= NAME_MAX;
}

static bool string_or_none(const json_t *v)
{
    return !v || json_is_null(v) || json_is_string(v);
}

static hy_status check_function(const json_t *f, size_t i, hy_err *err)
{
    if (!json_is_object(f)) return hy_fail(err, HY_E_ARG, "tools[%zu].function: an object is expected", i);
    const char *name = json_string_value(json_object_get(f, "name"));
    const json_t *p = json_object_get(f, "parameters"), *strict = json_object_get(f, "strict");
    if (!name) return hy_fail(err, HY_E_ARG, "tools[%zu].function.name: a string is expected", i);
    if (!name_ok(name))
        return hy_fail(err, HY_E_ARG, "tools[%zu].function.name: \"%.140s\": 1 to %d letters, digits, '_', '-' or '.' "
                       "are expected", i, name, NAME_MAX);
    if (!string_or_none(json_object_get(f, "description")))
        return hy_fail(err, HY_E_ARG, "tools[%zu].function.description: a string is expected", i);
    if (p && !json_is_null(p) && !json_is_object(p))
        return hy_fail(err, HY_E_ARG, "tools[%zu].function.parameters: a JSON schema (an object) is expected", i);
    const json_t *type = json_object_get(p, "type");
    if (type && !(json_is_string(type) && !strcmp(json_string_value(type), "object")))
        return hy_fail(err, HY_E_ARG, "tools[%zu].function.parameters.type: \"object\" is expected", i);
    if (strict && !json_is_null(strict) && !json_is_boolean(strict))
        return hy_fail(err, HY_E_ARG, "tools[%zu].function.strict: true or false is expected", i);
    return HY_OK;
}

hy_status hy_tools_check(const json_t *tools, hy_err *err)
{
    size_t i, k;
    const json_t *t, *other;
    if (!json_is_array(tools)) return hy_fail(err, HY_E_ARG, "tools: an array is expected");
    if (json_array_size(tools) > TOOLS_MAX)
        return hy_fail(err, HY_E_ARG, "tools: %zu tools; at most %d", json_array_size(tools), TOOLS_MAX);
    json_t *seen = json_object();
    if (!seen) return hy_fail_memory(err, "tools", 0);
    hy_status st = HY_OK;
    json_array_foreach(tools, i, t) {
        const char *type = json_string_value(json_object_get(t, "type"));
        if (!json_is_object(t)) st = hy_fail(err, HY_E_ARG, "tools[%zu]: an object is expected", i);
        else if (!type) st = hy_fail(err, HY_E_ARG, "tools[%zu].type: \"function\" is expected", i);
        else if (strcmp(type, "function"))
            st = hy_fail(err, HY_E_ARG, "tools[%zu].type: \"%.60s\" is not supported; \"function\" is", i, type);
        else st = check_function(json_object_get(t, "function"), i, err);
        if (st != HY_OK) break;
        const char *name = json_string_value(json_object_get(json_object_get(t, "function"), "name"));
        other = json_object_get(seen, name);
        k = (size_t)json_integer_value(other);
        if (other)
            st = hy_fail(err, HY_E_ARG, "tools[%zu].function.name: \"%s\" is the name of tools[%zu], too", i, name,
                         k);
        else if (json_object_set_new(seen, name, json_integer((json_int_t)i))) st = hy_fail_memory(err, "tools", 0);
        if (st != HY_OK) break;
    }
    json_decref(seen);
    return st;
}

void hy_chat_tools_text(const json_t *tools, bool required, hy_buf *out)
{
    size_t i;
    const json_t *t;
    hy_buf_str(out, "You can call functions. Each line below describes one, with a JSON schema of its arguments:\n");
    json_array_foreach(tools, i, t) {
        const json_t *f = json_object_get(t, "function");
        char *text = json_dumps(f ? f : t, JSON_COMPACT | JSON_REAL_PRECISION(17));
        if (text) hy_buf_str(out, text);
        else out->failed = true;
        hy_buf_char(out, '\n');
        free(text);
    }
    hy_buf_str(out, "A call is an answer of nothing but this JSON, with the function's name and its arguments:\n"
                    "{\"name\": \"...\", \"arguments\": {...}}\nSeveral calls are a JSON list of such objects. ");
    hy_buf_str(out, required ? "Answer with a call." : "Answer in plain text when no function is needed.");
}

/* ---- histories for templates without calls ----------------------------------------------------------------- */

static bool set_text(json_t *m, const char *role, hy_buf *b)
{
    json_t *text = b->failed ? NULL : json_stringn(b->data ? b->data : "", b->len);
    bool ok = text && json_object_set_new(m, "content", text) == 0;
    return ok && json_object_set_new(m, "role", json_string(role)) == 0;
}

/* Calls become the text that the tools' text asks for. names: ids to functions, added to. */
static bool calls_as_text(json_t *m, json_t *names)
{
    const json_t *calls = json_object_get(m, "tool_calls"), *c, *own = json_object_get(m, "content");
    size_t i;
    hy_buf b = { 0 };
    bool ok = true, list = json_array_size(calls) > 1;
    hy_buf_put(&b, json_string_value(own), json_string_length(own));
    if (b.len) hy_buf_char(&b, '\n');
    if (list) hy_buf_char(&b, '[');
    json_array_foreach(calls, i, c) {
        const json_t *f = json_object_get(c, "function"), *args = json_object_get(f, "arguments");
        const char *name = json_string_value(json_object_get(f, "name")),
                   *id = json_string_value(json_object_get(c, "id"));
        char *text = json_is_string(args) ? NULL : json_dumps(args, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
        if (i) hy_buf_str(&b, ", ");
        hy_buf_str(&b, "{\"name\": ");
        hy_json_quote(name ? name : "", name ? strlen(name) : 0, &b);
        hy_buf_printf(&b, ", \"arguments\": %s}", text ? text : json_is_string(args) ? json_string_value(args) : "{}");
        free(text);
        if (id && name) ok = json_object_set_new(names, id, json_string(name)) == 0 && ok;
    }
    if (list) hy_buf_char(&b, ']');
    ok = set_text(m, "assistant", &b) && ok;
    json_object_del(m, "tool_calls");
    hy_buf_free(&b);
    return ok;
}

/* A result is a message of the user; results that follow one another are one. */
static bool result_as_text(json_t *list, size_t i, json_t *names, bool join)
{
    json_t *m = json_array_get(list, i), *before = i ? json_array_get(list, i - 1) : NULL;
    const json_t *own = json_object_get(m, "content");
    const char *name = json_string_value(json_object_get(m, "name")),
               *id = json_string_value(json_object_get(m, "tool_call_id"));
    if (!name && id) name = json_string_value(json_object_get(names, id));
    hy_buf b = { 0 };
    if (join) hy_buf_printf(&b, "%s\n", json_string_value(json_object_get(before, "content")));
    hy_buf_printf(&b, "Result of %s: ", name ? name : "the call");
    hy_buf_put(&b, json_string_value(own), json_string_length(own));
    bool ok = set_text(join ? before : m, "user", &b);
    if (join) ok = json_array_remove(list, i) == 0 && ok;
    hy_buf_free(&b);
    return ok;
}

bool hy_chat_plain_history(json_t *list)
{
    json_t *names = json_object();
    bool ok = names != NULL, after_result = false;
    for (size_t i = 0; ok && i < json_array_size(list);) {
        json_t *m = json_array_get(list, i);
        const char *role = json_string_value(json_object_get(m, "role"));
        bool result = role && !strcmp(role, "tool");
        if (result) ok = result_as_text(list, i, names, after_result);
        else if (json_array_size(json_object_get(m, "tool_calls"))) ok = calls_as_text(m, names);
        if (!(result && after_result)) i++;
        after_result = result;
    }
    json_decref(names);
    return ok;
}

/* ---- schemas that cannot be enforced whole ----------------------------------------------------------------- */

/* {"type", "properties": {K: {"type", "enum"}}, "required"} of a schema. */
static json_t *simple_schema(const json_t *schema)
{
    const json_t *own = schema_deref(schema, schema), *v;
    const char *key;
    json_t *props = json_object(), *required = json_object_get(own, "required");
    bool ok = props != NULL;
    json_object_foreach((json_t *)json_object_get(own, "properties"), key, v) {
        const json_t *at = schema_deref(v, schema);
        json_t *one = json_object(), *type = json_object_get(at, "type"), *choices = json_object_get(at, "enum");
        if (one && (json_is_string(type) || json_is_array(type))) ok = !json_object_set(one, "type", type) && ok;
        if (one && json_array_size(choices)) ok = !json_object_set(one, "enum", choices) && ok;
        ok = one && !json_object_set_new(props, key, one) && ok;
    }
    json_t *out = ok ? json_pack("{s:s, s:O}", "type", "object", "properties", props) : NULL;
    if (out && json_is_array(required)) ok = !json_object_set(out, "required", required);
    json_decref(props);
    if (ok) return out;
    json_decref(out);
    return NULL;
}

json_t *hy_tools_simple(const json_t *tools)
{
    json_t *out = json_array();
    size_t i;
    const json_t *t;
    json_array_foreach(tools, i, t) {
        json_t *copy = json_copy((json_t *)t), *f = json_copy(json_object_get(t, "function"));
        const json_t *own = json_object_get(f, "parameters");
        bool ok = out && copy && f;
        if (ok && json_is_object(own) && !json_is_true(json_object_get(f, "strict")))
            ok = !json_object_set_new(f, "parameters", simple_schema(own));
        ok = ok && !json_object_set(copy, "function", f) && !json_array_append(out, copy);
        json_decref(copy);
        json_decref(f);
        if (ok) continue;
        json_decref(out);
        return NULL;
    }
    return out;
}
