/* Arguments between marks, or as Python or Gemma write them -> JSON. */
#include "serve/format_impl.h"
#include <string.h>

#define KEY_MAX 512
#define CDATA "<![CDATA["
#define CDATA_END "]]>"

/* The object's brace; then the call goes on in `next`. */
static step close_args(hy_chat_parser *p, size_t taken, parse_state next)
{
    if (p->n_arg) parser_args(p, "}", 1);
    else parser_args(p, "{}", 2);
    parser_take(p, taken);
    p->state = next;
    return STEP_AGAIN;
}

static step broken(hy_chat_parser *p)
{
    close_args(p, 0, ST_TEXT);
    return parser_stop_call(p);
}

static void begin_arg(hy_chat_parser *p, const char *key, size_t n_key)
{
    hy_buf_reset(&p->tmp);
    hy_buf_str(&p->tmp, p->n_arg++ ? ", \"" : "{\"");
    json_escape(key, n_key, &p->tmp);
    hy_buf_str(&p->tmp, "\": ");
    parser_args(p, p->tmp.data, p->tmp.len);
    p->p_schema = schema_property(p->schema, p->schema, key, n_key);
    p->types = schema_types(p->p_schema, p->schema);
}

/* ---- between marks --------------------------------------------------------------------------------------- */

static const char *find(const char *s, size_t n, size_t from, const char *mark)
{
    return from <= n ? memmem(s + from, n - from, mark, strlen(mark)) : NULL;
}

static void make_p_end(hy_chat_parser *p, const char *key, size_t n_key)
{
    hy_buf_reset(&p->p_end);
    for (const char *c = p->form->p_end; *c; c++) {
        if (*c == '%') hy_buf_put(&p->p_end, key, n_key);
        else hy_buf_char(&p->p_end, *c);
    }
}

/* Attributes may say that a value is a string or that it is not (DeepSeek, Kimi K3). */
static void heed_attributes(hy_chat_parser *p, const char *s, size_t n)
{
    if (memmem(s, n, "\"true\"", 6) || memmem(s, n, "\"string\"", 8)) p->types = TYPE_STRING;
    else if ((memmem(s, n, "string=", 7) || memmem(s, n, "type=", 5)) && p->types & ~(unsigned)TYPE_STRING)
        p->types &= ~(unsigned)TYPE_STRING;
}

/* A key whose mark ends at i. */
static step begin_xml_arg(hy_chat_parser *p, const char *s, size_t n, size_t i)
{
    const call_form *f = p->form;
    i = skip_space(s, n, i);
    const char *end = find(s, n, i, f->p_key_end);
    if (!end) return n - i > KEY_MAX || p->final ? broken(p) : STEP_MORE;
    size_t n_key = (size_t)(end - s) - i, from = (size_t)(end - s) + strlen(f->p_key_end), value = from;
    while (n_key && is_space(s[i + n_key - 1])) n_key--;
    if (n_key > KEY_MAX || memchr(s + i, '\n', n_key)) return broken(p);
    if (f->p_head_end) {
        const char *at = find(s, n, from, f->p_head_end);
        if (!at) return n - from > KEY_MAX || p->final ? broken(p) : STEP_MORE;
        value = (size_t)(at - s) + strlen(f->p_head_end);
    }
    begin_arg(p, s + i, n_key);
    if (f->p_head_end) heed_attributes(p, s + from, value - from);
    make_p_end(p, s + i, n_key);
    p->streamed = p->types == TYPE_STRING && !(f->flags & FORM_NESTED);
    p->started = p->cdata = false;
    parser_take(p, value);
    p->state = ST_VALUE;
    return STEP_AGAIN;
}

step step_args_xml(hy_chat_parser *p)
{
    const call_form *f = p->form;
    size_t n, i;
    const char *s = parser_text(p, &n);
    i = skip_space(s, n, 0);
    if (i == n) return p->final ? close_args(p, n, ST_TEXT) : STEP_MORE;
    int close = mark_at(s, n, i, f->close, false);
    if (close > 0) return close_args(p, i + strlen(f->close), ST_NEXT);
    int end = f->end ? mark_at(s, n, i, f->end, false) : 0; /* the close was forgotten */
    if (end > 0) return close_args(p, i, ST_NEXT);
    int open = mark_at(s, n, i, f->p_open, false);
    if ((close < 0 || end < 0 || open < 0) && !p->final) return STEP_MORE;
    if (close < 0 || end < 0) return close_args(p, n, ST_TEXT);
    return open > 0 ? begin_xml_arg(p, s, n, i + strlen(f->p_open)) : broken(p);
}

/* Does a mark at e end the value? Only if what follows goes on with the call: a value may hold the mark, as a
 * file about such calls does. 1, 0, or -1: more text decides. */
static int ends_value(const hy_chat_parser *p, const char *s, size_t n, size_t e)
{
    const call_form *f = p->form;
    const char *next[] = { f->p_open, f->close, f->end };
    size_t i = skip_space(s, n, e + p->p_end.len);
    if (i == n) return p->final ? 1 : -1;
    int best = 0;
    for (size_t k = 0; k < HY_COUNT(next); k++) {
        int r = next[k] ? mark_at(s, n, i, next[k], p->final) : 0;
        if (r > 0) return 1;
        if (r < 0) best = -1;
    }
    return best;
}

/* The value's first byte: what belongs to its marks goes. False: more text decides. */
static bool start_value(hy_chat_parser *p, const char *s, size_t n)
{
    if (p->form->flags & FORM_NEWLINES) {
        if (n == 0) return p->final;
        if (s[0] == '\n') parser_take(p, 1);
    }
    if (p->form->flags & FORM_CDATA) {
        int r = n || p->final ? mark_at(s, n, 0, CDATA, p->final) : -1;
        if (r < 0) return false;
        if (r > 0) {
            p->cdata = true;
            parser_take(p, strlen(CDATA));
            hy_buf_reset(&p->tmp);
            hy_buf_str(&p->tmp, CDATA_END);
            hy_buf_put(&p->tmp, p->p_end.data, p->p_end.len);
            hy_buf_reset(&p->p_end);
            hy_buf_put(&p->p_end, p->tmp.data, p->tmp.len);
        }
    }
    p->started = true;
    if (p->streamed) parser_args(p, "\"", 1);
    return true;
}

/* Where the value ends: found (and then *whole), or the first byte that may belong to its end. */
static size_t value_end(hy_chat_parser *p, const char *s, size_t n, bool *whole)
{
    *whole = false;
    const char *mark = p->p_end.data ? p->p_end.data : "", *at;
    while ((at = find(s, n, p->looked, mark)) != NULL) {
        size_t e = (size_t)(at - s);
        int r = ends_value(p, s, n, e);
        if (r) {
            *whole = r > 0;
            return e;
        }
        p->looked = e + 1;
    }
    if (p->final) return n;
    size_t from = HY_MAX(p->looked, n - HY_MIN(n, p->p_end.len - 1));
    while (from < n && mark_at(s, n, from, mark, false) == 0) from++;
    p->looked = from;
    return from;
}

static void put_value(hy_chat_parser *p, const char *s, size_t n)
{
    hy_buf_reset(&p->tmp);
    if (p->streamed) json_escape(s, n, &p->tmp);
    else if (p->form->flags & FORM_NESTED) nested_to_json(s, n, "]<]minimax[>[", p->p_schema, p->schema, 0, &p->tmp);
    else value_to_json(s, n, p->cdata ? TYPE_STRING : p->types, &p->tmp);
    parser_args(p, p->tmp.data, p->tmp.len);
}

step step_value(hy_chat_parser *p)
{
    size_t n, end;
    bool whole;
    const char *s = parser_text(p, &n);
    if (!p->started) {
        if (!start_value(p, s, n)) return STEP_MORE;
        s = parser_text(p, &n);
    }
    end = value_end(p, s, n, &whole);
    bool newline = p->form->flags & FORM_NEWLINES && !p->cdata && end && s[end - 1] == '\n';
    size_t text = end - ((whole || !p->final) && newline);
    if (whole) {
        put_value(p, s, text);
        if (p->streamed) parser_args(p, "\"", 1);
        parser_take(p, end + p->p_end.len);
        p->state = ST_ARGS_XML;
        return STEP_AGAIN;
    }
    if (p->streamed) {
        put_value(p, s, text);
        size_t looked = p->looked;
        parser_take(p, text);
        p->looked = looked > text ? looked - text : 0;
    } else if (p->final) {     /* cut short: what there is, left open */
        parser_args(p, s, n);
        parser_take(p, n);
    }
    return STEP_MORE;
}

/* ---- literals ---------------------------------------------------------------------------------------------- */

/* The i-th declared parameter, for a value without a name. */
static const char *nth_parameter(const hy_chat_parser *p, uint32_t k)
{
    const json_t *props = json_object_get(schema_deref(p->schema, p->schema), "properties");
    void *it = json_object_iter((json_t *)props);
    while (it && k--) it = json_object_iter_next((json_t *)props, it);
    return it ? json_object_iter_key(it) : NULL;
}

/* A key and its '=' or ':' at *i. BAD: none. */
static json_state literal_key(const hy_chat_parser *p, const char *s, size_t n, size_t *i, size_t *from, size_t *to)
{
    bool gemma = p->form->shape == SHAPE_GEMMA;
    const char *quote = gemma ? p->form->quote : NULL;
    int q = quote ? mark_at(s, n, *i, quote, p->final) : 0;
    if (q < 0) return JSON_MORE;
    *from = *i + (q ? strlen(quote) : 0);
    if (q) {
        const char *end = find(s, n, *from, quote);
        if (!end) return JSON_MORE;
        *to = (size_t)(end - s);
    } else {
        for (*to = *from; *to < n; ++*to) {
            char c = s[*to];
            bool word = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' ||
                        (unsigned char)c >= 0x80 || (gemma && (c == '-' || c == '.' || c == '$'));
            if (!word) break;
        }
    }
    size_t k = skip_space(s, n, *to + (q ? strlen(quote) : 0));
    if (k >= n) return JSON_MORE;
    if (*to == *from || s[k] != (gemma ? ':' : '=')) return JSON_BAD;
    if (!gemma && k + 1 == n) return JSON_MORE;
    if (!gemma && s[k + 1] == '=') return JSON_BAD;
    *i = k + 1;
    return JSON_DONE;
}

step step_args_literal(hy_chat_parser *p)
{
    bool gemma = p->form->shape == SHAPE_GEMMA;
    char close = gemma ? '}' : ')';
    size_t n, used, from, to;
    const char *s = parser_text(p, &n), *key;
    size_t i = skip_space(s, n, 0);
    if (i < n && p->n_arg && s[i] == ',') i = skip_space(s, n, i + 1);
    if (i == n) return STEP_MORE;
    if (s[i] == close) return close_args(p, i + 1, ST_TAIL);
    json_state st = literal_key(p, s, n, &i, &from, &to);
    if (st == JSON_MORE) return p->final ? STEP_MORE : parser_wait(p);
    if (st == JSON_DONE) {
        key = s + from;
    } else {
        key = gemma ? NULL : nth_parameter(p, p->n_arg);
        if (!key) return broken(p);
        from = 0;
        to = strlen(key);
    }
    hy_buf_reset(&p->key);
    st = literal_to_json(s + i, n - i, gemma ? p->form->quote : NULL, false, 0, &p->key, &used);
    if (st == JSON_MORE) return p->final ? STEP_MORE : parser_wait(p);
    if (st == JSON_BAD) return broken(p);
    begin_arg(p, key, to - from);
    if (p->types == TYPE_STRING && p->key.len && p->key.data[0] != '"') { /* a string was asked for */
        hy_buf_reset(&p->tmp);
        hy_buf_char(&p->tmp, '"');
        json_escape(p->key.data, p->key.len, &p->tmp);
        hy_buf_char(&p->tmp, '"');
        parser_args(p, p->tmp.data, p->tmp.len);
    } else {
        parser_args(p, p->key.data, p->key.len);
    }
    parser_take(p, i + used);
    return STEP_AGAIN;
}
