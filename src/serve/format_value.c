/* Argument values: what a schema allows, and from a model's notation to JSON. */
#include "serve/format_impl.h"
#include <string.h>

#define SCHEMA_DEPTH 16
#define LITERAL_DEPTH 64

/* ---- schemas --------------------------------------------------------------------------------------- */

const json_t *schema_deref(const json_t *schema, const json_t *root)
{
    for (int i = 0; i < SCHEMA_DEPTH; i++) {
        const char *ref = json_string_value(json_object_get(schema, "$ref"));
        if (!ref || ref[0] != '#') return schema;
        const json_t *at = root;
        for (ref++; at && *ref == '/';) {
            size_t n = strcspn(++ref, "/");
            at = json_object_getn(at, ref, n);
            ref += n;
        }
        if (!at) return schema;
        schema = at;
    }
    return schema;
}

static unsigned type_named(const char *s)
{
    static const char *const name[] = { "string", "number", "integer", "boolean", "null", "array", "object" };
    for (unsigned i = 0; s && i < HY_COUNT(name); i++)
        if (!strcmp(s, name[i])) return 1u << i;
    return s ? TYPE_ANY : 0;
}

static unsigned type_of(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_STRING: return TYPE_STRING;
    case JSON_INTEGER: return TYPE_INTEGER;
    case JSON_REAL: return TYPE_NUMBER;
    case JSON_TRUE: case JSON_FALSE: return TYPE_BOOLEAN;
    case JSON_NULL: return TYPE_NULL;
    case JSON_ARRAY: return TYPE_ARRAY;
    default: return TYPE_OBJECT;
    }
}

static unsigned types_at(const json_t *schema, const json_t *root, int depth)
{
    schema = schema_deref(schema, root);
    if (!json_is_object(schema) || depth == SCHEMA_DEPTH) return TYPE_ANY;
    const json_t *type = json_object_get(schema, "type"), *v;
    size_t i;
    unsigned got = 0, all = TYPE_ANY;
    if (json_is_string(type)) all &= type_named(json_string_value(type));
    json_array_foreach(type, i, v) got |= type_named(json_string_value(v));
    if (got) all &= got;
    const json_t *one = json_object_get(schema, "const");
    if (one) all &= type_of(one);
    got = 0;
    json_array_foreach(json_object_get(schema, "enum"), i, v) got |= type_of(v);
    if (got) all &= got;
    static const char *const either[] = { "anyOf", "oneOf" };
    for (size_t k = 0; k < HY_COUNT(either); k++) {
        got = 0;
        json_array_foreach(json_object_get(schema, either[k]), i, v) got |= types_at(v, root, depth + 1);
        if (got) all &= got;
    }
    json_array_foreach(json_object_get(schema, "allOf"), i, v) all &= types_at(v, root, depth + 1);
    return all ? all : TYPE_ANY;
}

unsigned schema_types(const json_t *schema, const json_t *root)
{
    return types_at(schema, root, 0);
}

const json_t *schema_property(const json_t *schema, const json_t *root, const char *key, size_t n_key)
{
    schema = schema_deref(schema, root);
    const json_t *found = json_object_getn(json_object_get(schema, "properties"), key, n_key);
    if (found) return found;
    size_t i;
    const json_t *v;
    json_array_foreach(json_object_get(schema, "allOf"), i, v) {
        v = schema_deref(v, root);
        found = json_object_getn(json_object_get(v, "properties"), key, n_key);
        if (found) return found;
    }
    return json_object_get(schema, "additionalProperties");
}

/* ---- Python's and Gemma's literals ------------------------------------------------------------------ */

typedef struct reader {
    const char *s;
    size_t n, at;
    const char *quote;         /* Gemma's */
    bool final;
    hy_buf *out;
} reader;

static json_state read_value(reader *r, uint32_t depth);

static json_state want(reader *r, char *c)
{
    r->at = skip_space(r->s, r->n, r->at);
    if (r->at == r->n) return r->final ? JSON_BAD : JSON_MORE;
    *c = r->s[r->at];
    return JSON_DONE;
}

static bool hex_value(const char *s, size_t n, uint32_t *v)
{
    *v = 0;
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        uint32_t d = c >= '0' && c <= '9' ? (uint32_t)(c - '0') : (uint32_t)((c | 32) - 'a') + 10;
        if (d > 15) return false;
        *v = *v << 4 | d;
    }
    return true;
}

/* "\..." at s inside a whole literal of n bytes. */
static size_t python_escape(const char *s, size_t n, hy_buf *out)
{
    /* "\/" is JSON's, and what models mean by it */
    static const char from[] = "abfnrtv\\'\"/\n", to[] = "\a\b\f\n\r\t\v\\'\"/";
    size_t hex = s[1] == 'x' ? 2 : s[1] == 'u' ? 4 : s[1] == 'U' ? 8 : 0;
    uint32_t v;
    if (hex && n >= 2 + hex && hex_value(s + 2, hex, &v)) {
        char utf8[4];
        uint32_t low;
        size_t used = 2 + hex;
        if (hex == 4 && v >= 0xd800 && v < 0xdc00 && n >= 12 && s[6] == '\\' && s[7] == 'u' &&
            hex_value(s + 8, 4, &low) && low >= 0xdc00 && low < 0xe000) {
            v = 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00);
            used = 12;
        }
        if (v > 0x10ffff || (v >= 0xd800 && v < 0xe000)) v = 0xfffd;
        json_escape(utf8, hy_utf8_put(v, utf8), out);
        return used;
    }
    const char *k = s[1] ? strchr(from, s[1]) : NULL;
    if (!k) json_escape(s, 1, out); /* Python keeps the backslash of what is no escape */
    else if (to[k - from]) json_escape(to + (k - from), 1, out);
    return k ? 2 : 1;
}

static json_state read_python_string(reader *r)
{
    char q = r->s[r->at];
    size_t n_q = 1;
    if (r->n - r->at < 3 && !r->final) return JSON_MORE;
    if (r->n - r->at >= 3 && r->s[r->at + 1] == q && r->s[r->at + 2] == q) n_q = 3;
    size_t from = r->at + n_q, i = from;
    for (;; i++) {
        if (i + n_q > r->n) return r->final ? JSON_BAD : JSON_MORE;
        if (r->s[i] == '\\') i++;
        else if (r->s[i] == q && (n_q == 1 || (r->s[i + 1] == q && r->s[i + 2] == q))) break;
    }
    hy_buf_char(r->out, '"');
    for (size_t k = from; k < i;) {
        if (r->s[k] == '\\') {
            k += python_escape(r->s + k, i - k, r->out);
            continue;
        }
        json_escape(r->s + k++, 1, r->out);
    }
    hy_buf_char(r->out, '"');
    r->at = i + n_q;
    return JSON_DONE;
}

static json_state read_gemma_string(reader *r)
{
    size_t n_q = strlen(r->quote), from = r->at + n_q;
    const char *end = from <= r->n ? memmem(r->s + from, r->n - from, r->quote, n_q) : NULL;
    if (!end) return r->final ? JSON_BAD : JSON_MORE;
    hy_buf_char(r->out, '"');
    json_escape(r->s + from, (size_t)(end - r->s) - from, r->out);
    hy_buf_char(r->out, '"');
    r->at = (size_t)(end - r->s) + n_q;
    return JSON_DONE;
}

static bool in_word(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || strchr("_.+-", c) ||
           (unsigned char)c >= 0x80;
}

static bool put_number(const char *s, size_t n, hy_buf *out)
{
    char b[64];
    size_t k = 0, used;
    for (size_t i = 0; i < n; i++) {
        if (k + 3 > sizeof b) return false;
        if (s[i] == '_' || (s[i] == '+' && i == 0)) continue;
        if (s[i] == '.' && (k == 0 || b[k - 1] == '-')) b[k++] = '0';
        b[k++] = s[i];
        bool digit_next = i + 1 < n && s[i + 1] >= '0' && s[i + 1] <= '9';
        if (s[i] == '.' && !digit_next) b[k++] = '0';
    }
    if (json_skip(b, k, true, &used) != JSON_DONE || used != k || k == 0) return false;
    if (b[0] != '-' && !(b[0] >= '0' && b[0] <= '9')) return false;
    hy_buf_put(out, b, k);
    return true;
}

static json_state read_word(reader *r)
{
    static const char *const word[][2] = {
        { "True", "true" }, { "False", "false" }, { "None", "null" },
        { "true", "true" }, { "false", "false" }, { "null", "null" },
    };
    size_t to = r->at;
    while (to < r->n && in_word(r->s[to])) to++;
    if (to == r->n && !r->final) return JSON_MORE;
    const char *s = r->s + r->at;
    size_t n = to - r->at;
    r->at = to;
    for (size_t i = 0; i < HY_COUNT(word); i++)
        if (strlen(word[i][0]) == n && !memcmp(s, word[i][0], n)) {
            hy_buf_str(r->out, word[i][1]);
            return JSON_DONE;
        }
    return n && put_number(s, n, r->out) ? JSON_DONE : JSON_BAD;
}

/* A key of an object: a string, or in Gemma's notation what stands before the colon. */
static json_state read_key(reader *r, uint32_t depth)
{
    char c = r->s[r->at];
    if (!r->quote || c == '"' || c == '\'') return c == '"' || c == '\'' ? read_python_string(r) : JSON_BAD;
    int q = mark_at(r->s, r->n, r->at, r->quote, r->final);
    if (q < 0) return JSON_MORE;
    if (q) return read_gemma_string(r);
    size_t to = r->at;
    while (to < r->n && r->s[to] != ':' && r->s[to] != ',' && r->s[to] != '}') to++;
    if (to == r->n) return r->final ? JSON_BAD : JSON_MORE;
    hy_buf_char(r->out, '"');
    json_escape(r->s + r->at, to - r->at, r->out);
    hy_buf_char(r->out, '"');
    r->at = to;
    return JSON_DONE;
}

static json_state read_items(reader *r, char close, uint32_t depth)
{
    char c;
    json_state st;
    r->at++;
    hy_buf_char(r->out, close == '}' ? '{' : '[');
    for (bool first = true;; first = false) {
        if ((st = want(r, &c)) != JSON_DONE) return st;
        if (!first && c == ',') {
            r->at++;
            if ((st = want(r, &c)) != JSON_DONE) return st;
        } else if (!first && c != close) {
            return JSON_BAD;
        }
        if (c == close) break; /* also after a last comma */
        if (!first) hy_buf_str(r->out, ", ");
        if (close == '}') {
            if ((st = read_key(r, depth)) != JSON_DONE || (st = want(r, &c)) != JSON_DONE) return st;
            if (c != ':') return JSON_BAD;
            r->at++;
            hy_buf_str(r->out, ": ");
        }
        if ((st = read_value(r, depth + 1)) != JSON_DONE) return st;
    }
    r->at++;
    hy_buf_char(r->out, close == '}' ? '}' : ']');
    return JSON_DONE;
}

static json_state read_value(reader *r, uint32_t depth)
{
    char c;
    json_state st = want(r, &c);
    if (st != JSON_DONE) return st;
    if (depth > LITERAL_DEPTH) return JSON_BAD;
    if (r->quote) {
        int q = mark_at(r->s, r->n, r->at, r->quote, r->final);
        if (q < 0) return JSON_MORE;
        if (q) return read_gemma_string(r);
    }
    if (c == '"' || c == '\'') return read_python_string(r);
    if (c == '{') return read_items(r, '}', depth);
    if (c == '[') return read_items(r, ']', depth);
    if (c == '(' && !r->quote) return read_items(r, ')', depth);
    return read_word(r);
}

json_state literal_to_json(const char *s, size_t n, const char *quote, bool final, uint32_t depth, hy_buf *out,
                           size_t *used)
{
    reader r = { .s = s, .n = n, .quote = quote, .final = final, .out = out };
    size_t len = out->len;
    json_state st = read_value(&r, depth);
    *used = r.at;
    if (st != JSON_DONE && out->data) {
        out->len = len;
        out->data[len] = 0;
    }
    return st;
}

/* ---- text between marks -> JSON ---------------------------------------------------------------------- */

static unsigned kind_of(const char *s, size_t n)
{
    if (n == 0) return 0;
    switch (s[0]) {
    case '{': return TYPE_OBJECT;
    case '[': return TYPE_ARRAY;
    case '"': return TYPE_STRING;
    case 't': case 'f': return TYPE_BOOLEAN;
    case 'n': return TYPE_NULL;
    default: return TYPE_NUMBER | TYPE_INTEGER;
    }
}

static void put_string(const char *s, size_t n, hy_buf *out)
{
    hy_buf_char(out, '"');
    json_escape(s, n, out);
    hy_buf_char(out, '"');
}

void value_to_json(const char *s, size_t n, unsigned types, hy_buf *out)
{
    if (types == TYPE_STRING) {
        put_string(s, n, out);
        return;
    }
    size_t from = skip_space(s, n, 0), to = n, used;
    while (to > from && is_space(s[to - 1])) to--;
    const char *t = s + from;
    size_t n_t = to - from, len = out->len;
    bool json = json_skip(t, n_t, true, &used) == JSON_DONE && used == n_t;
    unsigned kind = kind_of(t, n_t);
    if (json && kind & types && !(kind == TYPE_STRING && types & TYPE_STRING)) {
        hy_buf_put(out, t, n_t);
        return;
    }
    if (!json && n_t && literal_to_json(t, n_t, NULL, true, 0, out, &used) == JSON_DONE) {
        kind = out->data ? kind_of(out->data + len, out->len - len) : 0;
        if (used == n_t && kind & types && kind != TYPE_STRING) return;
        out->len = len;
    }
    if (json && !(types & TYPE_STRING)) hy_buf_put(out, t, n_t);
    else put_string(s, n, out);
}

/* ---- elements within elements ------------------------------------------------------------------------ */

typedef struct element {
    const char *tag, *body;
    size_t n_tag, n_body;
} element;

/* The next element at *i: mark<tag>body mark</tag>. */
static bool next_element(const char *s, size_t n, size_t *i, const char *mark, element *e)
{
    size_t n_mark = strlen(mark), at = skip_space(s, n, *i);
    if (n - at < n_mark + 3 || memcmp(s + at, mark, n_mark) || s[at + n_mark] != '<') return false;
    e->tag = s + at + n_mark + 1;
    const char *gt = memchr(e->tag, '>', (size_t)(s + n - e->tag));
    if (!gt || e->tag[0] == '/') return false;
    e->n_tag = (size_t)(gt - e->tag);
    e->body = gt + 1;
    uint32_t depth = 1;
    for (const char *k = e->body; (k = memmem(k, (size_t)(s + n - k), mark, n_mark)); ) {
        k += n_mark;
        size_t left = (size_t)(s + n - k);
        bool end = left >= 2 && k[0] == '<' && k[1] == '/';
        const char *name = k + (end ? 2 : 1);
        if (left < e->n_tag + (end ? 3u : 2u) || k[0] != '<' || memcmp(name, e->tag, e->n_tag) ||
            name[e->n_tag] != '>')
            continue;
        depth = end ? depth - 1 : depth + 1;
        if (depth) continue;
        e->n_body = (size_t)(k - n_mark - e->body);
        *i = (size_t)(name + e->n_tag + 1 - s);
        return true;
    }
    return false;
}

void nested_to_json(const char *s, size_t n, const char *mark, const json_t *schema, const json_t *root, uint32_t depth,
                    hy_buf *out)
{
    schema = schema_deref(schema, root);
    unsigned types = schema_types(schema, root);
    size_t i = 0, len = out->len;
    element e;
    if (depth > LITERAL_DEPTH || !next_element(s, n, &i, mark, &e)) {
        if (skip_space(s, n, 0) == n && !(types & TYPE_STRING) && types & (TYPE_ARRAY | TYPE_OBJECT))
            hy_buf_str(out, types & TYPE_ARRAY ? "[]" : "{}");
        else
            value_to_json(s, n, types, out);
        return;
    }
    bool list = e.n_tag == 4 && !memcmp(e.tag, "item", 4) && types & TYPE_ARRAY;
    hy_buf_char(out, list ? '[' : '{');
    for (bool first = true;; first = false) {
        if (!first) hy_buf_str(out, ", ");
        const json_t *sub = json_object_get(schema, "items");
        if (!list) {
            put_string(e.tag, e.n_tag, out);
            hy_buf_str(out, ": ");
            sub = schema_property(schema, root, e.tag, e.n_tag);
        }
        nested_to_json(e.body, e.n_body, mark, sub, root, depth + 1, out);
        if (skip_space(s, n, i) == n) break;
        if (!next_element(s, n, &i, mark, &e)) { /* text after elements: not elements at all */
            out->len = len;
            put_string(s, n, out);
            return;
        }
    }
    hy_buf_char(out, list ? ']' : '}');
}
