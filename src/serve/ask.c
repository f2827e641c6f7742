/* What a request asks: its life, and what its text must follow. */
#include "serve/gen_impl.h"
#include <string.h>

void hy_ask_init(hy_ask *a)
{
    memset(a, 0, sizeof *a);
    a->temperature = a->top_p = a->typical_p = a->repeat_penalty = 1;
    a->max_tokens = a->top_logprobs = a->prompt_logprobs = -1;
    a->n = 1;
    a->parallel = true;
}

void hy_ask_free(hy_ask *a)
{
    hy_buf_free(&a->guide_text);
    hy_buf_free(&a->guide_schemas);
    json_decref(a->owned);
    memset(a, 0, sizeof *a);
}

const json_t *hy_ask_own(hy_ask *a, json_t *take)
{
    if (!take) return NULL;
    if (!a->owned) a->owned = json_array();
    if (a->owned && json_array_append(a->owned, take) == 0) {
        json_decref(take);
        return take;
    }
    json_decref(take);
    return NULL;
}

void hy_ask_guide_object(hy_ask *a)
{
    a->guide = (hy_guide){ .kind = HY_GUIDE_JSON_OBJECT };
}

/* The text is in guide_text; as a guide of that kind. */
static hy_status set_text(hy_ask *a, hy_guide_kind kind, hy_err *err)
{
    if (a->guide_text.failed) return hy_fail_memory(err, "guide", a->guide_text.len);
    a->guide = (hy_guide){ .kind = kind, .text = a->guide_text.data ? a->guide_text.data : "",
                           .n_text = a->guide_text.len };
    return HY_OK;
}

hy_status hy_ask_guide_schema(hy_ask *a, const json_t *schema, hy_err *err)
{
    hy_buf_reset(&a->guide_text);
    if (json_is_string(schema)) { /* vLLM takes the schema's text as well */
        hy_buf_put(&a->guide_text, json_string_value(schema), json_string_length(schema));
        return set_text(a, HY_GUIDE_JSON_SCHEMA, err);
    }
    if (!json_is_object(schema) && !json_is_boolean(schema))
        return hy_fail(err, HY_E_ARG, "the JSON schema is no object");
    char *text = json_dumps(schema, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (!text) return hy_fail_memory(err, "schema", 0);
    hy_buf_str(&a->guide_text, text);
    free(text);
    return set_text(a, HY_GUIDE_JSON_SCHEMA, err);
}

static hy_status guide_string(hy_ask *a, hy_guide_kind kind, const char *s, hy_err *err)
{
    hy_buf_reset(&a->guide_text);
    hy_buf_str(&a->guide_text, s);
    return set_text(a, kind, err);
}

/* A literal of a GBNF grammar. */
static void put_literal(hy_buf *b, const char *s, size_t n)
{
    hy_buf_char(b, '"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\') hy_buf_printf(b, "\\%c", c);
        else if (c < 0x20 || c == 0x7F) hy_buf_printf(b, "\\x%02X", c);
        else hy_buf_char(b, (char)c);
    }
    hy_buf_char(b, '"');
}

static hy_status guide_choice(hy_ask *a, const json_t *choices, hy_err *err)
{
    if (!json_is_array(choices) || json_array_size(choices) == 0)
        return hy_fail(err, HY_E_ARG, "choices are no array of strings, or none");
    hy_buf_reset(&a->guide_text);
    hy_buf_str(&a->guide_text, "root ::= ");
    size_t i;
    json_t *c;
    json_array_foreach(choices, i, c)
    {
        if (!json_is_string(c)) return hy_fail(err, HY_E_ARG, "choice %zu is no string", i);
        if (i) hy_buf_str(&a->guide_text, " | ");
        put_literal(&a->guide_text, json_string_value(c), json_string_length(c));
    }
    hy_buf_char(&a->guide_text, '\n');
    return set_text(a, HY_GUIDE_GBNF, err);
}

/* OpenAI's response_format; llama-server's {"type": "json_object", "schema": ...} as well. */
static hy_status response_format(hy_ask *a, hy_err *err)
{
    const json_t *f = a->response_format;
    const char *type = json_string_value(json_object_get(f, "type"));
    if (!type) return hy_fail(err, HY_E_ARG, "response_format.type: missing, or no string");
    if (!strcmp(type, "text")) return HY_OK;
    if (!strcmp(type, "json_object")) {
        const json_t *schema = json_object_get(f, "schema");
        if (schema && !json_is_null(schema)) return hy_ask_guide_schema(a, schema, err);
        hy_ask_guide_object(a);
        return HY_OK;
    }
    if (strcmp(type, "json_schema"))
        return hy_fail(err, HY_E_ARG, "response_format.type: \"%.60s\" is not text, json_object or json_schema", type);
    const json_t *in = json_object_get(f, "json_schema");
    if (!json_is_object(in)) return hy_fail(err, HY_E_ARG, "response_format.json_schema: missing, or no object");
    const json_t *schema = json_object_get(in, "schema");
    if (!json_is_object(schema) && !json_is_boolean(schema))
        return hy_fail(err, HY_E_ARG, "response_format.json_schema.schema: missing, or no object");
    return hy_ask_guide_schema(a, schema, err);
}

/* Members of vLLM's structured_outputs, of which one may be set. */
static hy_status structured_outputs(hy_ask *a, hy_err *err)
{
    const json_t *o = a->structured_outputs, *v;
    static const char *const known[] = { "json", "json_object", "regex", "choice", "grammar", "structural_tag" };
    const char *which = NULL;
    for (size_t i = 0; i < HY_COUNT(known); i++) {
        v = json_object_get(o, known[i]);
        if (!v || json_is_null(v) || json_is_false(v)) continue;
        if (which) return hy_fail(err, HY_E_ARG, "structured_outputs: both %s and %s", which, known[i]);
        which = known[i];
    }
    if (!which) return hy_fail(err, HY_E_ARG, "structured_outputs: none of json, json_object, regex, choice, grammar");
    v = json_object_get(o, which);
    if (!strcmp(which, "json")) return hy_ask_guide_schema(a, v, err);
    if (!strcmp(which, "choice")) return guide_choice(a, v, err);
    if (!strcmp(which, "json_object")) {
        if (!json_is_true(v)) return hy_fail(err, HY_E_ARG, "json_object is neither true nor false");
        hy_ask_guide_object(a);
        return HY_OK;
    }
    if (!strcmp(which, "structural_tag"))
        return hy_fail(err, HY_E_ARG, "structural_tag is not supported: use tools or grammar");
    if (!json_is_string(v)) return hy_fail(err, HY_E_ARG, "%s is no string", which);
    return guide_string(a, !strcmp(which, "regex") ? HY_GUIDE_REGEX : HY_GUIDE_GBNF, json_string_value(v), err);
}

hy_status hy_ask_guide_fields(hy_ask *a, const char **param, hy_err *err)
{
    const char *type = json_string_value(json_object_get(a->response_format, "type"));
    const struct { const char *name; bool given; } field[] = {
        { "response_format", a->response_format && !(type && !strcmp(type, "text")) },
        { "structured_outputs", a->structured_outputs }, { "guided_json", a->guided_json },
        { "guided_choice", a->guided_choice }, { "guided_regex", a->guided_regex },
        { "guided_grammar", a->guided_grammar }
    };
    const char *which = NULL;
    for (size_t i = 0; i < HY_COUNT(field); i++) {
        if (!field[i].given) continue;
        *param = field[i].name;
        if (which) return hy_fail(err, HY_E_ARG, "%s: not together with %s", field[i].name, which);
        which = field[i].name;
    }
    if (!which) return HY_OK;
    hy_status s;
    if (a->response_format && !strcmp(which, "response_format")) return response_format(a, err);
    if (a->structured_outputs) s = structured_outputs(a, err);
    else if (a->guided_json) s = hy_ask_guide_schema(a, a->guided_json, err);
    else if (a->guided_choice) s = guide_choice(a, a->guided_choice, err);
    else if (a->guided_regex) s = guide_string(a, HY_GUIDE_REGEX, a->guided_regex, err);
    else s = guide_string(a, HY_GUIDE_GBNF, a->guided_grammar, err);
    return s == HY_OK ? HY_OK : hy_err_prefix(err, s, "%s", which);
}
