/* GET /openapi.json: the description of the API, made from the tables that the server itself runs by. */
#include "serve/openapi.h"
#include "serve/openai.h"
#include <string.h>

/* Bodies that are read by a table of fields; needed: names joined by "|". */
typedef struct body_row {
    const char *path;
    const hy_field *fields;
    const char *needed;
} body_row;

static const body_row bodies[] = {
    { "/v1/chat/completions", hy_chat_fields, "messages" },
    { "/v1/completions", hy_completion_fields, "prompt" },
};

static json_t *type_of(const char *type)
{
    return json_pack("{s:s}", "type", type);
}

static json_t *choices_of(const char *choices)
{
    json_t *list = json_array();
    for (const char *s = choices; *s;) {
        size_t n = strcspn(s, "|");
        json_array_append_new(list, json_stringn(s, n));
        s += n + (s[n] == '|');
    }
    return list;
}

static json_t *number_of(const hy_field *f)
{
    if (f->kind == HY_F_NUM) return json_pack("{s:s,s:f,s:f}", "type", "number", "minimum", f->min, "maximum", f->max);
    json_t *o = type_of("integer");
    if (f->min > -9e15) json_object_set_new(o, "minimum", json_integer((json_int_t)f->min));
    if (f->max < 9e15) json_object_set_new(o, "maximum", json_integer((json_int_t)f->max));
    return o;
}

static json_t *shape_of(const hy_field *f)
{
    switch (f->kind) {
    case HY_F_BOOL: return type_of("boolean");
    case HY_F_INT:
    case HY_F_NUM: return number_of(f);
    case HY_F_STR: return f->choices ? json_pack("{s:s,s:o}", "type", "string", "enum", choices_of(f->choices)) : type_of("string");
    case HY_F_STRS: return json_pack("{s:[{s:s},{s:s,s:{s:s},s:i}]}", "anyOf", "type", "string", "type", "array", "items", "type",
                                     "string", "maxItems", (int)f->max);
    case HY_F_INTS: return json_pack("{s:s,s:{s:s},s:i}", "type", "array", "items", "type", "integer", "maxItems", (int)f->max);
    case HY_F_OBJECT: return type_of("object");
    case HY_F_ARRAY: return json_pack("{s:s,s:{}}", "type", "array", "items");
    default: return json_object();
    }
}

/* null counts as absent, so each type may be null (OpenAPI 3.1: JSON Schema's own way to say so). */
static json_t *field_schema(const hy_field *f)
{
    json_t *o = shape_of(f), *type = json_object_get(o, "type");
    if (type) json_object_set_new(o, "type", json_pack("[O,s]", type, "null"));
    json_t *choices = json_object_get(o, "enum");
    if (choices) json_array_append_new(choices, json_null());
    json_t *any = json_object_get(o, "anyOf");
    if (any) json_array_append_new(any, type_of("null"));
    if (f->doc) json_object_set_new(o, "description", json_string(f->doc));
    return o;
}

static json_t *body_schema(const hy_route *r)
{
    for (size_t i = 0; i < HY_COUNT(bodies); i++) {
        if (strcmp(bodies[i].path, r->path) != 0) continue;
        json_t *fields = json_object();
        for (const hy_field *f = bodies[i].fields; f->name; f++)
            if (f->kind != HY_F_REFUSE) json_object_set_new(fields, f->name, field_schema(f));
        return json_pack("{s:s,s:o,s:o}", "type", "object", "properties", fields, "required", choices_of(bodies[i].needed));
    }
    return type_of("object");
}

static const char *media_of(const hy_route *r)
{
    if (strcmp(r->path, "/metrics") == 0) return "text/plain";
    if (strcmp(r->path, "/") == 0) return "text/html";
    return "application/json";
}

static json_t *content_of(const hy_route *r)
{
    if (strncmp(r->path, "/assets/", 8) == 0)
        return json_pack("{s:{},s:{},s:{},s:{}}", "text/css", "text/javascript", "image/svg+xml", "text/html");
    json_t *o = json_pack("{s:{}}", media_of(r));
    if (r->flags & HY_ROUTE_GENERATES) json_object_set_new(o, "text/event-stream", json_object());
    if (r->flags & HY_ROUTE_ADMIN) json_object_set_new(o, "text/plain", json_object());
    return o;
}

static json_t *error_answer(const hy_route *r, const char *what)
{
    const char *shape = r->flags & HY_ROUTE_ANTHROPIC ? "#/components/schemas/AnthropicError" : "#/components/schemas/Error";
    return json_pack("{s:s,s:{s:{s:{s:s}}}}", "description", what, "content", "application/json", "schema", "$ref", shape);
}

/* What stands behind "?". */
static json_t *queries(const hy_route *r)
{
    if (strcmp(r->path, "/debug/profile") != 0) return NULL;
    return json_pack("[{s:s,s:s,s:s,s:{s:s,s:i,s:i,s:i}},{s:s,s:s,s:s,s:{s:s,s:[s,s,s]}}]", "name", "seconds", "in", "query",
                     "description", "how long", "schema", "type", "number", "minimum", 1, "maximum", HY_PROFILE_SECONDS_MAX,
                     "default", 5, "name", "format", "in", "query", "description",
                     "absent: json, or text where Accept says text/plain; trace: for ui.perfetto.dev", "schema", "type", "string",
                     "enum", "json", "text", "trace");
}

static json_t *operation(const hy_route *r)
{
    json_t *answers = json_pack("{s:{s:s,s:o}}", "200", "description", r->doc, "content", content_of(r));
    json_object_set_new(answers, "400", error_answer(r, "a field is wrong: the message names it"));
    json_object_set_new(answers, "404", error_answer(r, "there is no such thing"));
    json_object_set_new(answers, "503", error_answer(r, "loading, draining, or out of memory"));
    if (!(r->flags & HY_ROUTE_OPEN)) json_object_set_new(answers, "401", error_answer(r, "the API key is missing or unknown"));
    if (r->flags & HY_ROUTE_ADMIN) {
        json_object_set_new(answers, "403", error_answer(r, "the key, or the client, may not"));
        json_object_set_new(answers, "409", error_answer(r, "another one runs: Retry-After says until when"));
    }
    if (r->body_max) {
        json_object_set_new(answers, "413", error_answer(r, "the body is too large"));
        json_object_set_new(answers, "415", error_answer(r, "the body is not JSON"));
    }
    if (r->flags & HY_ROUTE_GENERATES)
        json_object_set_new(answers, "429", error_answer(r, "the queue is full, or the key's limit is reached: Retry-After says when"));
    json_t *o = json_pack("{s:s,s:o}", "summary", r->doc, "responses", answers);
    if (r->body_max)
        json_object_set_new(o, "requestBody", json_pack("{s:b,s:{s:{s:o}}}", "required", 1, "content", "application/json", "schema",
                                                        body_schema(r)));
    json_t *query = queries(r);
    if (query) json_object_set_new(o, "parameters", query);
    if (r->flags & HY_ROUTE_OPEN) json_object_set_new(o, "security", json_array());
    return o;
}

/* Name between the braces of the path, as a parameter; NULL when there is none. */
static json_t *parameter(const char *path)
{
    const char *open = strchr(path, '{'), *close = open ? strchr(open, '}') : NULL;
    if (!close) return NULL;
    json_t *name = json_stringn(open + 1, (size_t)(close - open - 1));
    return json_pack("{s:o,s:s,s:b,s:{s:s,s:i}}", "name", name, "in", "path", "required", 1, "schema", "type", "string", "minLength", 1);
}

static json_t *components(void)
{
    json_t *error = json_pack("{s:s,s:[s],s:{s:{s:s,s:[s,s],s:{s:{s:s},s:{s:s}}}}}", "type", "object", "required", "error",
                              "properties", "error", "type", "object", "required", "message", "type", "properties", "message",
                              "type", "string", "type", "type", "string");
    json_t *anthropic = json_pack("{s:s,s:[s,s],s:{s:{s:s},s:{s:s}}}", "type", "object", "required", "type", "error", "properties",
                                  "type", "const", "error", "error", "type", "object");
    return json_pack("{s:{s:o,s:o},s:{s:{s:s,s:s}}}", "schemas", "Error", error, "AnthropicError", anthropic, "securitySchemes",
                     "key", "type", "http", "scheme", "bearer");
}

json_t *hy_openapi(bool with_keys)
{
    json_t *paths = json_object();
    for (const hy_route *r = hy_routes; r->method; r++) {
        json_t *item = json_object_get(paths, r->path);
        if (!item) {
            item = json_object();
            json_t *p = parameter(r->path);
            if (p) json_object_set_new(item, "parameters", json_pack("[o]", p));
            json_object_set_new(paths, r->path, item);
        }
        char method[16] = "";
        for (size_t i = 0; r->method[i] && i < sizeof method - 1; i++) method[i] = (char)(r->method[i] | 32);
        json_object_set_new(item, method, operation(r));
    }
    json_t *o = json_pack("{s:s,s:{s:s,s:s,s:s},s:o,s:o}", "openapi", "3.1.0", "info", "title", "Hayate", "version", HY_VERSION,
                          "description", "Inference server: the OpenAI and Anthropic shapes, and what monitors need.", "paths", paths,
                          "components", components());
    if (o && with_keys) json_object_set_new(o, "security", json_pack("[{s:[]}]", "key"));
    return o;
}

void hy_route_openapi(hy_exchange *x)
{
    json_t *o = hy_openapi(hy_server_options(hy_x_server(x))->api_keys != NULL);
    if (o) hy_x_reply_json(x, 200, o);
    else hy_x_error(x, 503, NULL, NULL, "out of memory");
}
