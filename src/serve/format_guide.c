/* From a choice of tools to the grammar (GBNF) that the answer follows: thoughts if the family has them, then
 * calls as the family writes them, with declared names and arguments by their schemas. The parser reads every
 * text of the grammar back.
 *
 * A mark may be a control token of the vocabulary or plain text, so each of its parts stands for both. */
#include "serve/format_impl.h"
#include <string.h>

typedef struct guide {
    const hy_chat_format *f;
    const call_form *form;
    const json_t *tools;
    const char *only;          /* the one tool, or NULL */
    bool parallel;
    hy_buf *out;
    json_t *schemas;
    uint32_t n_rule;           /* rules of optional arguments */
    hy_buf later;              /* rules that stand behind the ones that use them */
    bool failed;
} guide;

static const char space_rule[] = "w ::= [ \\n]{0,8}\n";

/* ---- pieces of grammar --------------------------------------------------------------------------------- */

static void put_literal(hy_buf *b, const char *s, size_t n)
{
    hy_buf_char(b, '"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\') hy_buf_printf(b, "\\%c", c);
        else if (c == '\n') hy_buf_str(b, "\\n");
        else if (c == '\t') hy_buf_str(b, "\\t");
        else if (c == '\r') hy_buf_str(b, "\\r");
        else if (c < 0x20 || c == 0x7f) hy_buf_printf(b, "\\x%02x", c);
        else hy_buf_char(b, (char)c);
    }
    hy_buf_str(b, "\" ");
}

static void put_text(hy_buf *b, const char *s)
{
    if (s && *s) put_literal(b, s, strlen(s));
}

/* Length of what may be a token of its own at s: <...>, [UPPER], ]<]...[>[; 0: no. */
static size_t token_at(const char *s)
{
    if (!strncmp(s, "]<]minimax[>[", 13)) return 13;
    char close = s[0] == '<' ? '>' : s[0] == '[' ? ']' : 0;
    if (!close) return 0;
    for (size_t i = 1; s[i]; i++) {
        if (s[i] == close) return i > 1 ? i + 1 : 0;
        bool upper = (s[i] >= 'A' && s[i] <= 'Z') || s[i] == '_' || s[i] == '/' || s[i] == ' ';
        if (s[0] == '[' ? !upper : strchr(" =\n<", s[i]) != NULL) return 0;
    }
    return 0;
}

static void put_mark(const guide *g, hy_buf *b, const char *mark)
{
    size_t from = 0, i = 0;
    if (!mark) return;
    bool special = g->f->flags & FORMAT_SPECIAL;
    while (mark[i]) {
        size_t n = special ? token_at(mark + i) : 0;
        if (!n) {
            i++;
            continue;
        }
        if (i > from) put_literal(b, mark + from, i - from);
        hy_buf_char(b, '(');
        put_literal(b, mark + i, n);
        hy_buf_str(b, "| @token(");
        put_literal(b, mark + i, n);
        hy_buf_str(b, ")) ");
        from = i += n;
    }
    if (i > from) put_literal(b, mark + from, i - from);
}

/* Strings one after the other, a NUL after each. */
static void add_string(hy_buf *list, const char *s)
{
    if (s && *s) hy_buf_put(list, s, strlen(s) + 1);
}

/* @without of a list; any text when it is empty. */
static void put_without(guide *g, hy_buf *b, const hy_buf *list)
{
    g->failed |= list->failed;
    for (size_t i = 0; i < list->len; i += strlen(list->data + i) + 1) {
        hy_buf_str(b, i ? ", " : "@without(");
        put_literal(b, list->data + i, strlen(list->data + i));
    }
    hy_buf_str(b, list->len ? ") " : ".* ");
}

/* ---- tools ---------------------------------------------------------------------------------------------- */

static const json_t *function_of(const json_t *tool)
{
    const json_t *f = json_object_get(tool, "function");
    return f ? f : tool;
}

static const char *name_of(const json_t *tool)
{
    const char *s = json_string_value(json_object_get(function_of(tool), "name"));
    return s ? s : "";
}

static bool wanted(const guide *g, const json_t *tool)
{
    return !g->only || !strcmp(g->only, name_of(tool));
}

static void keep_schema(guide *g, const char *key, json_t *take)
{
    if (!take || json_object_set_new(g->schemas, key, take)) g->failed = true;
}

/* The schema of a tool's arguments: an object, and where it names its members no others. */
static json_t *args_schema(const json_t *tool)
{
    const json_t *own = json_object_get(function_of(tool), "parameters");
    json_t *s = json_is_object(own) ? json_copy((json_t *)own) : json_object();
    if (!s) return NULL;
    static const char *const others[] = { "$ref", "anyOf", "oneOf", "allOf", "patternProperties" };
    bool plain = true;
    for (size_t i = 0; i < HY_COUNT(others); i++) plain &= !json_object_get(s, others[i]);
    if (!json_object_get(s, "type") && plain) json_object_set_new(s, "type", json_string("object"));
    if (!json_object_size(own)) json_object_set_new(s, "properties", json_object());
    if (json_object_get(s, "properties") && !json_object_get(s, "additionalProperties") && plain)
        json_object_set_new(s, "additionalProperties", json_false());
    return s;
}

static void put_args(guide *g, const json_t *tool)
{
    keep_schema(g, name_of(tool), args_schema(tool));
    hy_buf_str(g->out, "@schema(");
    put_text(g->out, name_of(tool));
    hy_buf_str(g->out, ") ");
}

/* ---- arguments one by one --------------------------------------------------------------------------------- */

static const json_t *params_of(const json_t *tool)
{
    return json_object_get(function_of(tool), "parameters");
}

/* The schema of one argument on its own: with the definitions that it may refer to. */
static void put_value_schema(guide *g, hy_buf *b, const json_t *tool, const char *key, const json_t *schema)
{
    hy_buf name = { 0 };
    json_t *s = json_is_object(schema) ? json_copy((json_t *)schema) : json_object();
    static const char *const defs[] = { "$defs", "definitions" };
    for (size_t i = 0; i < HY_COUNT(defs); i++) {
        json_t *d = json_object_get(params_of(tool), defs[i]);
        if (d && s) json_object_set(s, defs[i], d);
    }
    hy_buf_printf(&name, "%s/%s", name_of(tool), key);
    if (name.failed) g->failed = true;
    keep_schema(g, name.data ? name.data : "", s);
    hy_buf_str(b, "@schema(");
    put_text(b, name.data);
    hy_buf_str(b, ") ");
    hy_buf_free(&name);
}

static void put_choice(guide *g, hy_buf *b, const json_t *v, bool bare_strings)
{
    if (json_is_string(v) && bare_strings) {
        put_literal(b, json_string_value(v), json_string_length(v));
        return;
    }
    char *text = json_dumps(v, JSON_ENCODE_ANY);
    if (!text) g->failed = true;
    put_text(b, text);
    free(text);
}

/* "const" or "enum" of a schema as alternatives. */
static bool put_choices(guide *g, hy_buf *b, const json_t *schema, bool bare_strings)
{
    const json_t *one = json_object_get(schema, "const"), *all = json_object_get(schema, "enum"), *v;
    size_t i;
    if (!one && !json_array_size(all)) return false;
    hy_buf_str(b, "( ");
    if (one) put_choice(g, b, one, bare_strings);
    else json_array_foreach(all, i, v) {
        if (i) hy_buf_str(b, "| ");
        put_choice(g, b, v, bare_strings);
    }
    hy_buf_str(b, ") ");
    return true;
}

/* A string written bare, up to a mark. Lengths are kept by leaving out the mark's first character. */
static void put_bare_string(guide *g, hy_buf *b, const json_t *schema, const hy_buf *end)
{
    const json_t *lo = json_object_get(schema, "minLength"), *hi = json_object_get(schema, "maxLength");
    if (!lo && !hi) {
        put_without(g, b, end);
        return;
    }
    char first = end->len ? end->data[0] : '<';
    hy_buf_printf(b, "[^%s%c]{%lld,", first == ']' ? "\\" : "", first, (long long)HY_MAX(json_integer_value(lo), 0));
    if (json_is_integer(hi)) hy_buf_printf(b, "%lld", (long long)HY_MAX(json_integer_value(hi), 0));
    hy_buf_str(b, "} ");
}

static const char *type_name(unsigned types)
{
    return types & TYPE_STRING ? "string" : types & TYPE_OBJECT ? "object" : types & TYPE_ARRAY ? "array"
           : types & (TYPE_NUMBER | TYPE_INTEGER) ? "number" : types & TYPE_BOOLEAN ? "boolean" : "null";
}

/* One argument between marks. */
static void put_xml_arg(guide *g, hy_buf *b, const json_t *tool, const char *key, const json_t *schema)
{
    const call_form *f = g->form;
    const json_t *at = schema_deref(schema, params_of(tool));
    unsigned types = schema_types(schema, params_of(tool));
    bool text = types & TYPE_STRING;
    put_mark(g, b, f->p_open);
    put_text(b, key);
    put_mark(g, b, f->p_key_end);
    if (f->attr) {
        hy_buf attr = { 0 };
        bool flag = !strcmp(f->attr, " string");
        hy_buf_printf(&attr, "%s=\"%s\"", f->attr, !flag ? type_name(types) : text ? "true" : "false");
        put_text(b, attr.data);
        g->failed |= attr.failed;
        hy_buf_free(&attr);
    } else if (f->p_head_end && f->p_head_end[0] == '<') {
        hy_buf_str(b, "w ");
    }
    put_mark(g, b, f->p_head_end);
    if (f->flags & FORM_NEWLINES) hy_buf_str(b, "\"\\n\" ");
    hy_buf end = { 0 };
    for (const char *c = f->p_end; *c; c++) {
        if (*c == '%') hy_buf_str(&end, key);
        else hy_buf_char(&end, *c);
    }
    hy_buf stop = { 0 };
    add_string(&stop, f->flags & FORM_NESTED ? "]<]minimax[>[" : end.data);
    if (f->flags & FORM_CDATA) add_string(&stop, "<![CDATA[");
    g->failed |= end.failed;
    if (!put_choices(g, b, at, true)) {
        if (text) put_bare_string(g, b, at, &stop);
        else put_value_schema(g, b, tool, key, schema);
    }
    hy_buf_free(&stop);
    if (f->flags & FORM_NEWLINES) hy_buf_str(b, "\"\\n\" ");
    put_mark(g, b, end.data);
    hy_buf_str(b, "w ");
    hy_buf_free(&end);
}

/* One argument as Python or Gemma writes it. */
static void put_literal_arg(guide *g, hy_buf *b, const json_t *tool, const char *key, const json_t *schema)
{
    const json_t *at = schema_deref(schema, params_of(tool));
    const char *quote = g->form->quote;
    put_text(b, key);
    put_text(b, quote ? ":" : "=");
    if (!quote) {
        put_value_schema(g, b, tool, key, schema);
    } else if (schema_types(schema, params_of(tool)) == TYPE_STRING) {
        put_mark(g, b, quote);
        hy_buf stop = { 0 };
        add_string(&stop, quote);
        if (!put_choices(g, b, at, true)) put_bare_string(g, b, at, &stop);
        hy_buf_free(&stop);
        put_mark(g, b, quote);
    } else {
        put_value_schema(g, b, tool, key, schema);
    }
}

static bool is_required(const json_t *params, const char *key)
{
    size_t i;
    const json_t *v;
    json_array_foreach(json_object_get(params, "required"), i, v)
        if (json_is_string(v) && !strcmp(json_string_value(v), key)) return true;
    return false;
}

static void put_arg(guide *g, hy_buf *b, const json_t *tool, const char *key, const json_t *schema)
{
    if (g->form->shape == SHAPE_XML) put_xml_arg(g, b, tool, key, schema);
    else put_literal_arg(g, b, tool, key, schema);
}

/* Arguments in the order of the schema; those that are not required may be left out. With commas between them
 * each argument has a rule, "first" and "more" of what may follow. */
static void put_each_arg(guide *g, const json_t *tool)
{
    const json_t *params = schema_deref(params_of(tool), params_of(tool)),
                 *props = json_object_get(params, "properties");
    bool commas = g->form->shape != SHAPE_XML;
    const char *key;
    json_t *v;
    uint32_t base = g->n_rule, i = 0, n = (uint32_t)json_object_size(props);
    if (!n) return;
    g->n_rule += n + 1;
    if (!commas) {
        json_object_foreach((json_t *)props, key, v) {
            hy_buf_str(g->out, "( ");
            put_xml_arg(g, g->out, tool, key, v);
            hy_buf_str(g->out, is_required(params, key) ? ") " : ")? ");
        }
        return;
    }
    /* fK: no argument yet, argument K or a later one comes; mK: some were written */
    hy_buf_printf(g->out, "f%u ", base);
    json_object_foreach((json_t *)props, key, v) {
        bool must = is_required(params, key);
        hy_buf_printf(&g->later, "a%u ::= ", base + i);
        put_arg(g, &g->later, tool, key, v);
        hy_buf_printf(&g->later, "\nf%u ::= a%u m%u %s", base + i, base + i, base + i + 1, must ? "" : "| ");
        if (!must) hy_buf_printf(&g->later, "f%u", base + i + 1);
        hy_buf_printf(&g->later, "\nm%u ::= \",\" w a%u m%u ", base + i, base + i, base + i + 1);
        if (!must) hy_buf_printf(&g->later, "| m%u", base + i + 1);
        hy_buf_char(&g->later, '\n');
        i++;
    }
    hy_buf_printf(&g->later, "f%u ::= \"\"\nm%u ::= \"\"\n", base + n, base + n);
}

/* ---- calls ------------------------------------------------------------------------------------------------- */

static void put_quoted(guide *g, const char *s)
{
    hy_buf b = { 0 };
    hy_buf_printf(&b, "\"%s\"", s);
    g->failed |= b.failed;
    put_text(g->out, b.data);
    hy_buf_free(&b);
}

static void put_call(guide *g, const json_t *tool)
{
    const call_form *f = g->form;
    hy_buf *b = g->out;
    const char *name = name_of(tool);
    switch (f->shape) {
    case SHAPE_OBJECT:
        hy_buf_str(b, "\"{\" w ");
        if (!strcmp(f->key_name, "tool_name"))
            hy_buf_str(b, "( \"\\\"tool_call_id\\\": \\\"\" [0-9]{1,4} \"\\\",\" w )? ");
        put_quoted(g, f->key_name);
        hy_buf_str(b, "\":\" w ");
        put_quoted(g, name);
        hy_buf_str(b, "\",\" w ");
        put_quoted(g, f->key_args);
        hy_buf_str(b, "\":\" w ");
        put_args(g, tool);
        hy_buf_str(b, "w \"}\" ");
        break;
    case SHAPE_KEYED:
        hy_buf_str(b, "\"{\" w ");
        put_quoted(g, name);
        hy_buf_str(b, "\":\" w ");
        put_args(g, tool);
        hy_buf_str(b, "w \"}\" ");
        break;
    case SHAPE_PYTHON:
    case SHAPE_GEMMA:
        put_text(b, f->open);
        put_text(b, name);
        put_text(b, f->shape == SHAPE_PYTHON ? "(" : "{");
        put_each_arg(g, tool);
        put_text(b, f->shape == SHAPE_PYTHON ? ")" : "}");
        break;
    default:
        put_mark(g, b, f->open);
        if (f->flags & FORM_PREFIX_ID) put_text(b, "functions.");
        put_text(b, name);
        put_mark(g, b, f->name_end);
        if (f->head_end)
            hy_buf_str(b, f->flags & FORM_PREFIX_ID ? "[0-9]{1,4} " : "( \" index=\\\"\" [0-9]{1,4} \"\\\"\" )? ");
        put_mark(g, b, f->head_end);
        hy_buf_str(b, "w ");
        if (f->shape == SHAPE_XML) put_each_arg(g, tool);
        else put_args(g, tool);
        put_mark(g, b, f->close);
    }
}

static void put_call_rule(guide *g)
{
    size_t i;
    const json_t *t;
    bool any = false;
    hy_buf_str(g->out, "call ::= ");
    json_array_foreach(g->tools, i, t) {
        if (!wanted(g, t)) continue;
        if (any) hy_buf_str(g->out, "| ");
        put_call(g, t);
        any = true;
    }
    hy_buf_char(g->out, '\n');
}

/* calls: one, or more where the family and the request allow it. */
static void put_calls_rule(guide *g)
{
    const call_form *f = g->form;
    hy_buf *b = g->out;
    bool more = g->parallel && !(f->flags & FORM_ONE);
    bool list = f->flags & FORM_LIST;
    bool each = f->shape == SHAPE_OBJECT || f->shape == SHAPE_GEMMA || !f->begin || f->flags & FORM_BEGIN_OPTIONAL;
    hy_buf_str(b, "calls ::= ");
    if (f->flags & FORM_BARE && !list) { /* an object; several in a list */
        hy_buf_str(b, more ? "call | \"[\" w call ( w \",\" w call )* w \"]\" " : "call ");
    } else if (list) {
        put_mark(g, b, f->begin);
        hy_buf_str(b, more ? "w \"[\" w call ( w \",\" w call )* w \"]\" w " : "w \"[\" w call w \"]\" w ");
        put_mark(g, b, f->end);
    } else if (each) {         /* marks around every call */
        hy_buf_str(b, more ? "one ( w one )* " : "one ");
        hy_buf_str(b, "\none ::= ");
        put_mark(g, b, f->begin);
        hy_buf_str(b, "w call w ");
        put_mark(g, b, f->end);
    } else {                   /* marks around all */
        put_mark(g, b, f->begin);
        hy_buf_str(b, more ? "w call ( w call )* w " : "w call w ");
        put_mark(g, b, f->end);
    }
    hy_buf_char(b, '\n');
}

/* ---- the whole answer ---------------------------------------------------------------------------------------- */

static bool prompt_ends(const char *prompt, const char *mark)
{
    size_t n = prompt ? strlen(prompt) : 0, k = mark ? strlen(mark) : 0;
    while (n && is_space(prompt[n - 1])) n--;
    return k && n >= k && !memcmp(prompt + n - k, mark, k);
}

/* Thoughts before the answer, as far as the prompt has not begun or closed them. */
static void put_think_rule(guide *g, const char *prompt)
{
    const hy_chat_format *f = g->f;
    hy_buf *b = g->out;
    hy_buf_str(b, "think ::= ");
    bool open = prompt_ends(prompt, f->think_open) || f->flags & THINK_FIRST;
    if (!f->think_close || (!open && prompt_ends(prompt, f->think_close))) {
        hy_buf_str(b, "w\n");
        return;
    }
    hy_buf stop = { 0 };
    add_string(&stop, f->think_close);
    if (f->flags & THINK_CALLS) add_string(&stop, g->form->begin);
    if (!open) {
        hy_buf_str(b, "w ( ");
        put_mark(g, b, f->think_open);
    }
    put_without(g, b, &stop);
    hy_buf_free(&stop);
    put_mark(g, b, f->think_close);
    hy_buf_str(b, open ? "w\n" : "w )?\n");
}

/* What text may not hold: marks that begin a call, bare calls by their first bytes, marks that are not shown. */
static void list_triggers(const guide *g, hy_buf *list)
{
    size_t i;
    const json_t *t;
    for (int k = 0; k < FORMAT_FORMS && g->f->form[k].shape; k++) {
        const call_form *f = &g->f->form[k];
        add_string(list, f->begin);
        if (!f->begin || f->flags & FORM_BEGIN_OPTIONAL) add_string(list, f->open);
    }
    for (int k = 0; k < FORMAT_DROPS; k++) add_string(list, g->f->drop[k]);
    if (!(g->form->flags & FORM_BARE)) return;
    json_array_foreach(g->tools, i, t) {
        if (g->form->shape == SHAPE_PYTHON) {
            hy_buf_printf(list, "[%s(%c", name_of(t), 0);
        } else {
            hy_buf_printf(list, "{\"%s\": \"%s\"%c", g->form->key_name, name_of(t), 0);
            hy_buf_printf(list, "{\"%s\":\"%s\"%c", g->form->key_name, name_of(t), 0);
        }
    }
}

/* Text that holds no call, between marks that are not shown. */
static void put_free_rule(guide *g)
{
    hy_buf list = { 0 };
    list_triggers(g, &list);
    hy_buf_str(g->out, "text ::= ");
    put_without(g, g->out, &list);
    hy_buf_free(&list);
    hy_buf_str(g->out, "\nfree ::= text ");
    if (g->f->drop[0]) {
        hy_buf_str(g->out, "( ( ");
        for (int k = 0; k < FORMAT_DROPS && g->f->drop[k]; k++) {
            if (k) hy_buf_str(g->out, "| ");
            put_mark(g, g->out, g->f->drop[k]);
        }
        hy_buf_str(g->out, ") text )* ");
    }
    hy_buf_char(g->out, '\n');
}

/* gpt-oss: text, and the messages before the last. */
static void put_said_rule(guide *g, bool free_text)
{
    static const char *const stop[] = { "<|end|>", "<|start|>", "<|call|>", "<|return|>", "<|channel|>" };
    hy_buf *b = g->out;
    hy_buf list = { 0 };
    for (size_t k = 0; k < HY_COUNT(stop); k++) add_string(&list, stop[k]);
    hy_buf_str(b, "text ::= ");
    put_without(g, b, &list);
    hy_buf_free(&list);
    hy_buf_str(b, "\nsaid ::= ");
    put_mark(g, b, "<|channel|>");
    hy_buf_str(b, free_text ? "( \"analysis\" | \"commentary\" ) " : "\"analysis\" ");
    put_mark(g, b, "<|message|>");
    hy_buf_str(b, "text ");
    put_mark(g, b, "<|end|><|start|>assistant");
    hy_buf_char(b, '\n');
}

static void put_harmony_call(guide *g)
{
    hy_buf *b = g->out;
    hy_buf_str(b, "call ::= ");
    put_mark(g, b, "<|channel|>commentary to=functions.");
    hy_buf_str(b, "( ");
    size_t i;
    const json_t *t;
    bool any = false;
    json_array_foreach(g->tools, i, t) {
        if (!wanted(g, t)) continue;
        if (any) hy_buf_str(b, "| ");
        put_text(b, name_of(t));
        hy_buf_str(b, "( \" \" ");
        put_mark(g, b, "<|constrain|>");
        hy_buf_str(b, "\"json\" )? ");
        put_mark(g, b, "<|message|>");
        put_args(g, t);
        any = true;
    }
    hy_buf_str(b, ")\n");
}

/* The last message is a call, or with AUTO the answer. */
static void put_harmony(guide *g, bool free_text)
{
    hy_buf *b = g->out;
    hy_buf_str(b, free_text ? "root ::= ( said )* ( call | final )\n" : "root ::= ( said )? call\n");
    put_said_rule(g, free_text);
    hy_buf_str(b, "final ::= ");
    put_mark(g, b, "<|channel|>final<|message|>");
    hy_buf_str(b, "text\n");
    put_harmony_call(g);
}

static void put_grammar(guide *g, hy_tool_choice choice, const char *prompt)
{
    bool free_text = choice == HY_TOOLS_AUTO;
    if (g->f->flags & FORMAT_HARMONY) {
        put_harmony(g, free_text);
        return;
    }
    if (!free_text) hy_buf_str(g->out, "root ::= think calls\n");
    else if (g->form->flags & FORM_BARE) hy_buf_str(g->out, "root ::= think ( calls | free )\n");
    else hy_buf_str(g->out, "root ::= think free calls?\n");
    put_think_rule(g, prompt);
    if (free_text) put_free_rule(g);
    put_calls_rule(g);
    put_call_rule(g);
    hy_buf_put(g->out, g->later.data, g->later.len);
    hy_buf_str(g->out, space_rule);
}

/* An answer that follows a schema; with tools, or calls. The schema's name is no tool's. */
#define ANSWER "/answer"
static void put_answer(guide *g, const char *prompt)
{
    hy_buf *b = g->out;
    bool calls = g->tools != NULL, marks = g->f->drop[0] != NULL;
    if (g->f->flags & FORMAT_HARMONY) {
        hy_buf_str(b, calls ? "root ::= ( said )* ( call | answer )\nanswer ::= "
                            : "root ::= ( said )? answer\nanswer ::= ");
        put_mark(g, b, "<|channel|>final<|message|>");
        hy_buf_str(b, "@schema(\"" ANSWER "\")\n");
        put_said_rule(g, calls);
        if (calls) put_harmony_call(g);
        return;
    }
    hy_buf_str(b, calls ? "root ::= think ( answer | calls )\n" : "root ::= think answer\n");
    hy_buf_str(b, marks ? "answer ::= mark* @schema(\"" ANSWER "\") w mark*\nmark ::= "
                        : "answer ::= @schema(\"" ANSWER "\")");
    for (int k = 0; k < FORMAT_DROPS && g->f->drop[k]; k++) {
        if (k) hy_buf_str(b, "| ");
        put_mark(g, b, g->f->drop[k]);
        hy_buf_str(b, "w ");
    }
    hy_buf_char(b, '\n');
    put_think_rule(g, prompt);
    if (calls) put_calls_rule(g);
    if (calls) put_call_rule(g);
    hy_buf_put(b, g->later.data, g->later.len);
    hy_buf_str(b, space_rule);
}

static hy_status finish(guide *g, hy_buf *schemas, hy_guide *out, hy_err *err)
{
    char *text = g->failed ? NULL : json_dumps(g->schemas, JSON_COMPACT);
    if (text) hy_buf_str(schemas, text);
    free(text);
    if (!text || g->out->failed || schemas->failed || g->later.failed) return hy_fail_memory(err, "grammar", 0);
    *out = (hy_guide){ .kind = HY_GUIDE_GBNF, .text = g->out->data, .n_text = g->out->len, .schemas = schemas->data,
                       .n_schemas = schemas->len };
    return HY_OK;
}

hy_status hy_chat_guide(const hy_chat_format *f, const json_t *tools, hy_tool_choice choice, const char *name,
                        bool parallel, const char *generation_prompt, hy_buf *text, hy_buf *schemas, hy_guide *out,
                        hy_err *err)
{
    const json_t *schema;
    memset(out, 0, sizeof *out);
    if (choice == HY_TOOLS_NONE || !json_array_size(tools)) return HY_OK;
    if (choice == HY_TOOLS_NAMED && (!name || !tool_find(tools, name, strlen(name), &schema)))
        return hy_fail(err, HY_E_ARG, "tool_choice: no tool is named \"%.128s\"", name ? name : "");
    hy_buf_reset(text);
    hy_buf_reset(schemas);
    guide g = { .f = f, .form = &f->form[0], .tools = tools, .only = choice == HY_TOOLS_NAMED ? name : NULL,
                .parallel = parallel && choice != HY_TOOLS_NAMED, .out = text, .schemas = json_object() };
    if (!g.schemas) return hy_fail_memory(err, "grammar of the tools", 0);
    put_grammar(&g, choice, generation_prompt);
    hy_status st = finish(&g, schemas, out, err);
    json_decref(g.schemas);
    hy_buf_free(&g.later);
    return st;
}

hy_status hy_chat_guide_answer(const hy_chat_format *f, const hy_guide *in, const json_t *tools, bool parallel,
                               const char *generation_prompt, hy_buf *text, hy_buf *schemas, hy_guide *out, hy_err *err)
{
    *out = *in;
    bool json = in->kind == HY_GUIDE_JSON_OBJECT || in->kind == HY_GUIDE_JSON_SCHEMA;
    bool marks = f->think_close || f->drop[0] || f->flags & FORMAT_HARMONY;
    if (!json || (!marks && !json_array_size(tools))) return HY_OK;
    json_t *schema = NULL;
    if (in->kind == HY_GUIDE_JSON_OBJECT) schema = json_pack("{s:s}", "type", "object");
    else HY_TRY(hy_json_parse("schema", in->text, in->n_text, &schema, err));
    hy_buf_reset(text);
    hy_buf_reset(schemas);
    guide g = { .f = f,
                .form = &f->form[0],
                .tools = json_array_size(tools) ? tools : NULL,
                .parallel = parallel,
                .out = text,
                .schemas = json_object() };
    if (!g.schemas || !schema) {
        json_decref(schema);
        json_decref(g.schemas);
        return hy_fail_memory(err, "grammar of the answer", 0);
    }
    keep_schema(&g, ANSWER, schema);
    put_answer(&g, generation_prompt);
    hy_status st = finish(&g, schemas, out, err);
    json_decref(g.schemas);
    hy_buf_free(&g.later);
    return st;
}
