/* Branches -> network: scalars, values of enum and const, white space. */
#include "gram/schema.h"

/* A JSON string's text, as short as can be: only what must be escaped is. */
static void quote(hy_sc *sc, const char *s, size_t n, hy_buf *out)
{
    static const char hex[] = "0123456789abcdef";
    out->data = HY_TMP(sc->gc, char, 6 * n + 3);
    char *o = out->data;
    *o++ = '"';
    for (size_t i = 0; i < n; i++) {
        uint8_t c = (uint8_t)s[i];
        char brief = c == '"' || c == '\\' ? (char)c
                     : c == 8              ? 'b'
                     : c == 9              ? 't'
                     : c == 10             ? 'n'
                     : c == 12             ? 'f'
                     : c == 13             ? 'r'
                                           : 0;
        if (brief) {
            *o++ = '\\';
            *o++ = brief;
        } else if (c < 0x20) {
            memcpy(o, "\\u00", 4);
            o[4] = hex[c >> 4];
            o[5] = hex[c & 15];
            o += 6;
        } else {
            *o++ = (char)c;
        }
    }
    *o++ = '"';
    out->len = (size_t)(o - out->data);
}

static bool scalar_text(hy_sc *sc, const json_t *v, hy_buf *out)
{
    if (json_is_string(v)) {
        quote(sc, json_string_value(v), json_string_length(v), out);
        return true;
    }
    if (json_is_array(v) || json_is_object(v)) return false;
    out->data = HY_TMP(sc->gc, char, 40);
    if (json_is_number(v))
        hy_number_text(v, out->data);
    else
        strcpy(out->data, json_is_true(v) ? "true" : json_is_false(v) ? "false" : "null");
    out->len = strlen(out->data);
    return true;
}

uint32_t hy_emit_space(hy_sc *sc, uint32_t next)
{
    /* nothing, one space, or a new line with its indentation: never without end */
    static const char form[] = " |\r?\n(?: {0,64}|\t{0,16})|";
    if (!sc->space) sc->space = hy_regex_dfa(sc->gc, NULL, form, sizeof form - 1, HY_RE_FULL);
    return hy_net_term(sc->gc, sc->space, false, 0, HY_NONE, next);
}

uint32_t hy_emit_close(hy_sc *sc, char c, uint32_t next)
{
    return hy_emit_space(sc, hy_net_lit(sc->gc, &c, 1, next));
}

uint32_t hy_emit_more(hy_sc *sc, uint32_t min, uint32_t max, hy_emit_body *body, void *ctx,
                      uint32_t next)
{
    hy_gc *gc = sc->gc;
    uint32_t end;
    if (max == 0) return next;
    if (max == HY_NONE && min <= 1) {
        uint32_t both[2] = {HY_NONE, next};
        uint32_t loop = hy_net_split(gc, both, 2), edge = gc->net->node[loop].a;
        uint32_t first = hy_net_lit(gc, ",", 1, hy_emit_space(sc, body(sc, ctx, loop)));
        gc->net->edge[edge] = first;
        return min ? first : loop;
    }
    uint32_t rep = hy_net_rep(gc, min, max, next, &end);
    uint32_t first = hy_net_lit(gc, ",", 1, hy_emit_space(sc, body(sc, ctx, end)));
    hy_net_rep_body(gc, rep, first);
    return rep;
}

uint32_t hy_emit_key(hy_sc *sc, const char *name, uint32_t next)
{
    hy_gc *gc = sc->gc;
    hy_buf t = {0};
    uint32_t both[2] = {next, hy_net_lit(gc, " ", 1, next)};
    uint32_t colon = hy_net_lit(gc, ":", 1, hy_net_split(gc, both, 2));
    for (const char *c = name; *c; c++)
        if ((uint8_t)*c >= 0x80) {
            hy_dfa *d = hy_dfa_from(gc, hy_ast_text(gc, name, strlen(name)));
            return hy_net_lit(gc, "\"", 1, hy_net_term(gc, d, true, 0, HY_NONE, colon));
        }
    quote(sc, name, strlen(name), &t);
    return hy_net_lit(gc, t.data, t.len, colon);
}

/* ---- values of enum and const ---------------------------------------------------------------- */

static uint32_t emit_value(hy_sc *sc, const json_t *v, uint32_t next)
{
    hy_gc *gc = sc->gc;
    hy_buf t = {0};
    if (scalar_text(sc, v, &t)) return hy_net_lit(gc, t.data, t.len, next);
    hy_gc_enter(gc);
    size_t n = json_is_array(v) ? json_array_size(v) : json_object_size(v);
    const json_t **item = HY_TMP(gc, const json_t *, n + 1);
    const char **name = HY_TMP(gc, const char *, n + 1);
    if (json_is_array(v)) {
        for (size_t i = 0; i < n; i++) item[i] = json_array_get(v, i);
    } else {
        const char *key;
        json_t *x;
        size_t i = 0;
        json_object_foreach((json_t *)v, key, x)
        {
            name[i] = key;
            item[i++] = x;
        }
    }
    bool object = json_is_object(v);
    next = hy_emit_close(sc, object ? '}' : ']', next);
    for (size_t i = n; i-- > 0;) {
        next = emit_value(sc, item[i], next);
        if (object) next = hy_emit_key(sc, name[i], next);
        next = hy_emit_space(sc, next);
        if (i) next = hy_net_lit(gc, ",", 1, next);
    }
    next = hy_net_lit(gc, object ? "{" : "[", 1, next);
    hy_gc_leave(gc);
    return next;
}

/* ---- a branch -------------------------------------------------------------------------------- */

typedef struct outs {
    uint32_t *to, next;
    size_t n, cap;
    hy_ast *texts;   /* scalars with one text each: one automaton for all */
    hy_ast *strings; /* strings beyond ASCII, which may be written with \u as well */
} outs;

static bool beyond_ascii(const json_t *v)
{
    const char *s = json_string_value(v);
    for (size_t i = 0; s && i < json_string_length(v); i++)
        if ((uint8_t)s[i] >= 0x80) return true;
    return false;
}

static void add(hy_sc *sc, outs *o, uint32_t node)
{
    o->to = hy_gc_grow(sc->gc, o->to, o->n, &o->cap, sizeof *o->to);
    o->to[o->n++] = node;
}

static void add_text(hy_sc *sc, outs *o, const char *s, size_t n)
{
    hy_ast_add(sc->gc, o->texts, hy_ast_text(sc->gc, s, n));
}

static void emit_finite(hy_sc *sc, hy_branch *b, outs *o)
{
    size_t n = b->finite_list ? json_array_size(b->finite) : 1;
    for (size_t i = 0; i < n; i++) {
        json_t *v = b->finite_list ? json_array_get(b->finite, i) : b->finite;
        bool ok = true;
        sc->i_value = i;
        for (size_t j = 0; ok && j < b->c.n; j++) ok = hy_cond_valid(sc, v, &b->c.c[j]);
        for (size_t j = 0; ok && j < b->n_excluded; j++) ok = !hy_json_same(sc->gc, v, b->excluded[j]);
        hy_buf t = {0};
        if (!ok) continue;
        if (beyond_ascii(v))
            hy_ast_add(sc->gc, o->strings,
                       hy_ast_text(sc->gc, json_string_value(v), json_string_length(v)));
        else if (scalar_text(sc, v, &t))
            add_text(sc, o, t.data, t.len);
        else
            add(sc, o, emit_value(sc, v, o->next));
    }
}

static bool is_excluded(const hy_branch *b, json_type type)
{
    for (size_t i = 0; i < b->n_excluded; i++)
        if (json_typeof(b->excluded[i]) == type) return true;
    return false;
}

static void emit_branch(hy_sc *sc, hy_branch *b, outs *o)
{
    hy_gc *gc = sc->gc;
    if (b->finite) {
        emit_finite(sc, b, o);
        return;
    }
    if (b->types & T_NULL && !is_excluded(b, JSON_NULL)) add_text(sc, o, "null", 4);
    if (b->types & T_BOOL && !is_excluded(b, JSON_TRUE)) add_text(sc, o, "true", 4);
    if (b->types & T_BOOL && !is_excluded(b, JSON_FALSE)) add_text(sc, o, "false", 5);
    if (b->types & (T_INT | T_FRAC)) {
        hy_dfa *d = hy_schema_number(sc, b);
        uint32_t most = d->n_state ? HY_MAX(hy_number_len_max(&b->num), d->len_min[0]) : 0;
        if (d->n_state && d->len_max[0] <= most) most = HY_NONE; /* has an end of its own */
        add(sc, o, hy_net_term(gc, d, false, 0, most, o->next));
    }
    if (b->types & T_STR) {
        hy_dfa *d = hy_schema_string(sc, b);
        add(sc, o,
            hy_net_lit(gc, "\"", 1, hy_net_term(gc, d, true, b->min_len, b->max_len, o->next)));
    }
    if (b->types & T_ARR) {
        if (is_excluded(b, JSON_ARRAY)) hy_schema_cannot(sc, "not", "an array cannot be excluded");
        add(sc, o, hy_emit_array(sc, b, o->next));
    }
    if (b->types & T_OBJ) {
        if (is_excluded(b, JSON_OBJECT))
            hy_schema_cannot(sc, "not", "an object cannot be excluded");
        add(sc, o, hy_emit_object(sc, b, o->next));
    }
}

uint32_t hy_schema_emit(hy_sc *sc, const hy_conds *c, uint32_t next)
{
    hy_conds *br;
    outs o = {
        .next = next, .texts = hy_ast_new(sc->gc, A_ALT), .strings = hy_ast_new(sc->gc, A_ALT)};
    size_t n = hy_schema_expand(sc, c, false, &br);
    for (size_t i = 0; i < n; i++) {
        hy_branch b;
        if (hy_schema_gather(sc, &br[i], &b)) emit_branch(sc, &b, &o);
    }
    if (o.texts->n) {
        hy_dfa *d = hy_dfa_from(sc->gc, o.texts);
        add(sc, &o, hy_net_term(sc->gc, d, false, 0, HY_NONE, next));
    }
    if (o.strings->n) {
        hy_dfa *d = hy_dfa_from(sc->gc, o.strings);
        add(sc, &o, hy_net_lit(sc->gc, "\"", 1, hy_net_term(sc->gc, d, true, 0, HY_NONE, next)));
    }
    return hy_net_split(sc->gc, o.to, o.n);
}
