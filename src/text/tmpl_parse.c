/* The parser of statements, and compiling as a whole. */
#include "text/tmpl.h"
#include <stdarg.h>
#include <stdio.h>

_Noreturn void hy_parse_fail(hy_parser *p, int32_t line, hy_status code, const char *fmt, ...)
{
    char msg[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    p->code = hy_fail(p->err, code, "line %d: %s", (int)line, msg);
    longjmp(p->jmp, 1);
}

void *hy_parse_alloc(hy_parser *p, size_t n)
{
    void *v = hy_arena_alloc(p->t->arena, n, _Alignof(max_align_t));
    if (!v) hy_parse_fail(p, 1, HY_E_MEMORY, "out of memory for the template");
    return v;
}

hy_str *hy_parse_name(hy_parser *p, const char *s, size_t n)
{
    if (p->n_names * 2 >= p->cap_names) {
        size_t cap = p->cap_names ? p->cap_names * 2 : 128;
        hy_str **v = hy_parse_alloc(p, cap * sizeof *v);
        for (size_t i = 0; i < p->cap_names; i++) {
            hy_str *o = p->names[i];
            if (!o) continue;
            size_t k = hy_hash64(o->p, o->n, 0) & (cap - 1);
            while (v[k]) k = (k + 1) & (cap - 1);
            v[k] = o;
        }
        p->names = v;
        p->cap_names = cap;
    }
    size_t k = hy_hash64(s, n, 0) & (p->cap_names - 1);
    for (; p->names[k]; k = (k + 1) & (p->cap_names - 1))
        if (p->names[k]->n == n && memcmp(p->names[k]->p, s, n) == 0) return p->names[k];
    hy_str *o = hy_parse_alloc(p, sizeof *o);
    *o = (hy_str){ s, n, SIZE_MAX };
    o->n_rune = hy_str_runes(o);
    p->names[k] = o;
    p->n_names++;
    return o;
}

hy_node *hy_parse_node(hy_parser *p, hy_nkind kind, int32_t line)
{
    hy_node *n = hy_parse_alloc(p, sizeof *n);
    n->kind = (uint8_t)kind;
    n->line = line;
    return n;
}

void hy_parse_push(hy_parser *p, hy_nodes *list, hy_node *n)
{
    if (list->n == list->cap) {
        uint32_t cap = list->cap ? list->cap * 2 : 4;
        hy_node **v = hy_parse_alloc(p, cap * sizeof *v);
        if (list->n) memcpy(v, list->v, list->n * sizeof *v);
        list->v = v;
        list->cap = cap;
    }
    list->v[list->n++] = n;
}

const hy_token *hy_parse_cur(hy_parser *p)
{
    return &p->tok[HY_MIN(p->i, p->n_tok - 1)];
}

static const char *describe_type(hy_tok t)
{
    static const char *const names[] = {
        [T_EOF] = "end of template", [T_DATA] = "template data / text",
        [T_VAR_BEGIN] = "begin of print statement", [T_VAR_END] = "end of print statement",
        [T_BLOCK_BEGIN] = "begin of statement block", [T_BLOCK_END] = "end of statement block",
        [T_NAME] = "name", [T_STRING] = "string", [T_INT] = "integer", [T_FLOAT] = "float",
        [T_ADD] = "+", [T_SUB] = "-", [T_DIV] = "/", [T_FLOORDIV] = "//", [T_MUL] = "*",
        [T_MOD] = "%", [T_POW] = "**", [T_TILDE] = "~", [T_LBRACKET] = "[", [T_RBRACKET] = "]",
        [T_LPAREN] = "(", [T_RPAREN] = ")", [T_LBRACE] = "{", [T_RBRACE] = "}", [T_EQ] = "==",
        [T_NE] = "!=", [T_GT] = ">", [T_GE] = ">=", [T_LT] = "<", [T_LE] = "<=", [T_ASSIGN] = "=",
        [T_DOT] = ".", [T_COLON] = ":", [T_PIPE] = "|", [T_COMMA] = ",", [T_SEMICOLON] = ";",
    };
    return names[t];
}

const char *hy_parse_describe(const hy_token *t, char buf[64])
{
    if (t->type != T_NAME) return describe_type((hy_tok)t->type);
    snprintf(buf, 64, "%.*s", (int)HY_MIN(t->n, 60u), t->p);
    return buf;
}

static _Noreturn void expected(hy_parser *p, const char *what)
{
    const hy_token *t = hy_parse_cur(p);
    char d[64];
    if (t->type == T_EOF)
        hy_parse_fail(p, t->line, HY_E_FORMAT, "unexpected end of template, expected '%s'.", what);
    hy_parse_fail(p, t->line, HY_E_FORMAT, "expected token '%s', got '%s'", what,
                  hy_parse_describe(t, d));
}

const hy_token *hy_parse_expect(hy_parser *p, hy_tok type)
{
    const hy_token *t = hy_parse_cur(p);
    if (t->type != type) expected(p, describe_type(type));
    p->i++;
    return t;
}

bool hy_parse_is(hy_parser *p, const char *name)
{
    const hy_token *t = hy_parse_cur(p);
    return t->type == T_NAME && t->n == strlen(name) && memcmp(t->p, name, t->n) == 0;
}

bool hy_parse_skip(hy_parser *p, const char *name)
{
    if (!hy_parse_is(p, name)) return false;
    p->i++;
    return true;
}

static void expect_name(hy_parser *p, const char *name)
{
    if (!hy_parse_skip(p, name)) expected(p, name);
}

static hy_node *parse_statement(hy_parser *p);

/* Is the current token one of the names in "a b c"? */
static bool is_one_of(hy_parser *p, const char *names)
{
    const hy_token *t = hy_parse_cur(p);
    if (t->type != T_NAME) return false;
    for (const char *s = names; *s;) {
        size_t k = strcspn(s, " ");
        if (k == t->n && memcmp(s, t->p, k) == 0) return true;
        s += k + (s[k] == ' ');
    }
    return false;
}

static _Noreturn void fail_open(hy_parser *p, const char *unknown, int32_t line)
{
    char tag[96] = "Unexpected end of template.", end[200] = "";
    if (unknown) snprintf(tag, sizeof tag, "Encountered unknown tag '%s'.", unknown);
    if (p->n_open)
        snprintf(end, sizeof end,
                 " Looking for one of the tags: %s. The innermost block that needs to be closed is "
                 "'%s'.", p->open[p->n_open - 1].ends, p->open[p->n_open - 1].tag);
    hy_parse_fail(p, line, HY_E_FORMAT, "%s%s", tag, end);
}

/* Data and statements up to one of `ends` (current token then), or to the end of the template. */
static void parse_body(hy_parser *p, hy_nodes *body, const char *ends)
{
    for (;;) {
        const hy_token *t = hy_parse_cur(p);
        switch (t->type) {
        case T_DATA: {
            hy_node *n = hy_parse_node(p, N_DATA, t->line);
            hy_str *s = hy_parse_alloc(p, sizeof *s);
            *s = (hy_str){ t->p, t->n, SIZE_MAX };
            n->value = hy_v_strs(s);
            hy_parse_push(p, body, n);
            p->i++;
            break;
        }
        case T_VAR_BEGIN: {
            hy_node *n = hy_parse_node(p, N_OUTPUT, t->line);
            p->i++;
            n->a = hy_parse_tuple(p, 0);
            hy_parse_check_unknown(p);
            hy_parse_expect(p, T_VAR_END);
            hy_parse_push(p, body, n);
            break;
        }
        case T_BLOCK_BEGIN:
            p->i++;
            if (ends && is_one_of(p, ends)) return;
            hy_parse_push(p, body, parse_statement(p));
            hy_parse_expect(p, T_BLOCK_END);
            break;
        default: /* T_EOF: nothing else is made outside tags */
            if (ends) fail_open(p, NULL, t->line);
            return;
        }
    }
}

/* The body of `tag`: the rest of its own {% %} has been read. */
static void parse_block_body(hy_parser *p, hy_nodes *body, const char *tag, const char *ends)
{
    if (hy_parse_cur(p)->type == T_COLON) p->i++;
    hy_parse_expect(p, T_BLOCK_END);
    if (p->n_open == HY_COUNT(p->open))
        hy_parse_fail(p, hy_parse_cur(p)->line, HY_E_LIMIT, "blocks nest deeper than %u",
                      p->n_open);
    p->open[p->n_open].tag = tag;
    p->open[p->n_open].ends = ends;
    p->n_open++;
    parse_body(p, body, ends);
    p->n_open--;
}

static hy_node *checked_expr(hy_parser *p)
{
    hy_node *n = hy_parse_expr(p);
    hy_parse_check_unknown(p);
    return n;
}

/* Set: a = target, b = value. Set block: a = target, b = filters (or NULL), body. */
static hy_node *parse_set(hy_parser *p, int32_t line)
{
    hy_node *target = hy_parse_target(p, HY_E_NS);
    if (p->loops && target->kind == N_NAME && target->value.u.s == p->t->n_loop)
        hy_parse_fail(p, line, HY_E_FORMAT, "Can't assign to special loop variable in for-loop "
                      "target");
    if (hy_parse_cur(p)->type == T_ASSIGN) {
        p->i++;
        hy_node *n = hy_parse_node(p, N_SET, line);
        n->a = target;
        n->b = hy_parse_tuple(p, 0);
        hy_parse_check_unknown(p);
        return n;
    }
    hy_node *n = hy_parse_node(p, N_SETBLOCK, line);
    n->a = target;
    uint32_t depth = p->depth;
    n->b = hy_parse_filters(p, NULL, false);
    p->depth = depth;
    hy_parse_check_unknown(p);
    parse_block_body(p, &n->body, "set", "endset");
    p->i++;
    return n;
}

/* For: a = target, b = what to walk, c = filter or NULL, flag = recursive, body, orelse. */
static hy_node *parse_for(hy_parser *p, int32_t line)
{
    hy_node *n = hy_parse_node(p, N_FOR, line);
    bool soft = p->soft;
    p->soft = false;
    n->a = hy_parse_target(p, HY_E_IN);
    if (n->a->kind == N_NAME && n->a->value.u.s == p->t->n_loop)
        hy_parse_fail(p, line, HY_E_FORMAT, "Can't assign to special loop variable in for-loop "
                      "target");
    expect_name(p, "in");
    n->b = hy_parse_tuple(p, HY_E_NOCOND | HY_E_RECUR);
    hy_parse_check_unknown(p);
    if (hy_parse_skip(p, "if")) n->c = checked_expr(p);
    n->flag = hy_parse_skip(p, "recursive");
    p->loops++;
    parse_block_body(p, &n->body, "for", "endfor else");
    p->loops--;
    if (hy_parse_skip(p, "else")) parse_block_body(p, &n->orelse, "for", "endfor");
    p->i++;
    p->soft = soft;
    return n;
}

/* If: list = conditions, list2 = one N_SCOPE each with the body; orelse. */
static hy_node *parse_if(hy_parser *p, int32_t line)
{
    hy_node *n = hy_parse_node(p, N_IF, line);
    bool soft = p->soft;
    p->soft = true;
    for (;;) {
        hy_parse_push(p, &n->list, hy_parse_tuple(p, HY_E_NOCOND));
        hy_parse_check_unknown(p);
        hy_node *b = hy_parse_node(p, N_SCOPE, line);
        parse_block_body(p, &b->body, "if", "elif else endif");
        hy_parse_push(p, &n->list2, b);
        if (hy_parse_skip(p, "elif")) continue;
        if (hy_parse_skip(p, "else")) parse_block_body(p, &n->orelse, "if", "endif");
        p->i++;
        p->soft = soft;
        return n;
    }
}

/* With: list = targets, list2 = values, body. */
static hy_node *parse_with(hy_parser *p, int32_t line)
{
    hy_node *n = hy_parse_node(p, N_WITH, line);
    while (hy_parse_cur(p)->type != T_BLOCK_END) {
        if (n->list.n) hy_parse_expect(p, T_COMMA);
        /* one target up to "=": a tuple would swallow the comma between two of them */
        hy_parse_push(p, &n->list, hy_parse_target(p, 0));
        hy_parse_expect(p, T_ASSIGN);
        hy_parse_push(p, &n->list2, checked_expr(p));
    }
    parse_block_body(p, &n->body, "with", "endwith");
    p->i++;
    return n;
}

/* Macro, call block: list = parameters, list2 = defaults of the last of them, body, uses. */
static void parse_signature(hy_parser *p, hy_node *n)
{
    hy_parse_expect(p, T_LPAREN);
    while (hy_parse_cur(p)->type != T_RPAREN) {
        if (n->list.n) hy_parse_expect(p, T_COMMA);
        const hy_token *t = hy_parse_expect(p, T_NAME);
        hy_node *arg = hy_parse_node(p, N_NAME, t->line);
        arg->value = hy_v_strs(hy_parse_name(p, t->p, t->n));
        for (uint32_t i = 0; i < n->list.n; i++)
            if (n->list.v[i]->value.u.s == arg->value.u.s)
                hy_parse_fail(p, t->line, HY_E_FORMAT, "duplicate argument '%.*s'",
                              (int)HY_MIN(t->n, 80u), t->p);
        if (hy_parse_cur(p)->type == T_ASSIGN) {
            p->i++;
            hy_parse_push(p, &n->list2, checked_expr(p));
        } else if (n->list2.n) {
            hy_parse_fail(p, t->line, HY_E_FORMAT, "non-default argument follows default argument");
        }
        hy_parse_push(p, &n->list, arg);
    }
    hy_parse_expect(p, T_RPAREN);
}

static void parse_macro_body(hy_parser *p, hy_node *n, const char *tag, const char *end)
{
    uint8_t uses = p->uses;
    uint32_t loops = p->loops;
    bool soft = p->soft;
    p->uses = 0;
    p->loops = 0;
    p->soft = false;
    parse_block_body(p, &n->body, tag, end);
    p->i++;
    n->uses = p->uses;
    p->uses |= uses;
    p->loops = loops;
    p->soft = soft;
}

static hy_node *parse_macro(hy_parser *p, int32_t line)
{
    hy_node *n = hy_parse_node(p, N_MACRO, line);
    const hy_token *t = hy_parse_expect(p, T_NAME);
    n->value = hy_v_strs(hy_parse_name(p, t->p, t->n));
    parse_signature(p, n);
    parse_macro_body(p, n, "macro", "endmacro");
    return n;
}

/* Call block: as a macro, and a = the call. */
static hy_node *parse_call_block(hy_parser *p, int32_t line)
{
    hy_node *n = hy_parse_node(p, N_CALLBLOCK, line);
    if (hy_parse_cur(p)->type == T_LPAREN) parse_signature(p, n);
    n->a = checked_expr(p);
    if (n->a->kind != N_CALL) hy_parse_fail(p, line, HY_E_FORMAT, "expected call");
    parse_macro_body(p, n, "call", "endcall");
    return n;
}

/* {% generation %} marks the assistant's part for training; the text itself is unchanged. It is a
 * call block in transformers, so what is set inside stays inside. */
static hy_node *parse_generation(hy_parser *p, int32_t line)
{
    hy_node *n = hy_parse_node(p, N_SCOPE, line);
    n->flag = true;
    uint32_t loops = p->loops;
    p->loops = 0;
    parse_block_body(p, &n->body, "generation", "endgeneration");
    p->loops = loops;
    p->i++;
    return n;
}

/* Filter block: a = filters over NULL, body. */
static hy_node *parse_filter_block(hy_parser *p, int32_t line)
{
    hy_node *n = hy_parse_node(p, N_FILTERBLOCK, line);
    uint32_t depth = p->depth;
    n->a = hy_parse_filters(p, NULL, true);
    p->depth = depth;
    hy_parse_check_unknown(p);
    parse_block_body(p, &n->body, "filter", "endfilter");
    p->i++;
    return n;
}

/* Block: attr = name, flag = scoped, body. */
static hy_node *parse_block(hy_parser *p, int32_t line)
{
    hy_node *n = hy_parse_node(p, N_BLOCK, line);
    const hy_token *t = hy_parse_expect(p, T_NAME);
    n->attr = hy_parse_name(p, t->p, t->n);
    for (uint32_t i = 0; i < p->t->blocks.n; i++)
        if (p->t->blocks.v[i]->attr == n->attr)
            hy_parse_fail(p, line, HY_E_FORMAT, "block '%.*s' defined twice",
                          (int)HY_MIN(t->n, 80u), t->p);
    n->flag = hy_parse_skip(p, "scoped");
    if (hy_parse_skip(p, "required"))
        hy_parse_fail(p, line, HY_E_UNSUPPORTED, "required blocks need template inheritance, which "
                      "is not supported");
    hy_parse_push(p, &p->t->blocks, n);
    uint32_t loops = p->loops;
    p->loops = 0;
    parse_block_body(p, &n->body, "block", "endblock");
    p->i++;
    p->loops = loops;
    if (hy_parse_cur(p)->type == T_NAME && hy_parse_cur(p)->n == t->n &&
        memcmp(hy_parse_cur(p)->p, t->p, t->n) == 0)
        p->i++;
    return n;
}

static hy_node *parse_autoescape(hy_parser *p, int32_t line)
{
    hy_node *n = hy_parse_node(p, N_SCOPE, line);
    n->flag = true;
    n->a = checked_expr(p);
    parse_block_body(p, &n->body, "autoescape", "endautoescape");
    p->i++;
    return n;
}

static hy_node *parse_print(hy_parser *p, int32_t line)
{
    hy_node *n = hy_parse_node(p, N_SCOPE, line); /* no scope of its own: flag stays false */
    while (hy_parse_cur(p)->type != T_BLOCK_END) {
        if (n->body.n) hy_parse_expect(p, T_COMMA);
        hy_node *o = hy_parse_node(p, N_OUTPUT, line);
        o->a = checked_expr(p);
        hy_parse_push(p, &n->body, o);
    }
    return n;
}

static hy_node *parse_jump(hy_parser *p, int32_t line, hy_nkind kind)
{
    if (!p->loops)
        hy_parse_fail(p, line, HY_E_FORMAT, "'%s' outside loop",
                      kind == N_BREAK ? "break" : "continue");
    return hy_parse_node(p, kind, line);
}

/* include, import, from, extends: value = the tag. An error only when it is reached. */
static hy_node *parse_foreign(hy_parser *p, const hy_token *tag)
{
    hy_node *n = hy_parse_node(p, N_UNSUPPORTED, tag->line);
    n->value = hy_v_strs(hy_parse_name(p, tag->p, tag->n));
    while (hy_parse_cur(p)->type != T_BLOCK_END && hy_parse_cur(p)->type != T_EOF) p->i++;
    return n;
}

static hy_node *dispatch(hy_parser *p, const hy_token *t)
{
    static const struct {
        const char *tag;
        hy_node *(*parse)(hy_parser *p, int32_t line);
    } tags[] = {
        { "set", parse_set }, { "for", parse_for }, { "if", parse_if }, { "with", parse_with },
        { "macro", parse_macro }, { "call", parse_call_block }, { "filter", parse_filter_block },
        { "block", parse_block }, { "autoescape", parse_autoescape }, { "print", parse_print },
        { "generation", parse_generation },
    };
    for (size_t i = 0; i < HY_COUNT(tags); i++) {
        if (!hy_parse_skip(p, tags[i].tag)) continue;
        return tags[i].parse(p, t->line);
    }
    if (hy_parse_skip(p, "break")) return parse_jump(p, t->line, N_BREAK);
    if (hy_parse_skip(p, "continue")) return parse_jump(p, t->line, N_CONTINUE);
    if (is_one_of(p, "include import from extends")) {
        p->i++;
        return parse_foreign(p, t);
    }
    char d[64];
    fail_open(p, hy_parse_describe(t, d), t->line);
}

static hy_node *parse_statement(hy_parser *p)
{
    const hy_token *t = hy_parse_cur(p);
    if (t->type != T_NAME) hy_parse_fail(p, t->line, HY_E_FORMAT, "tag name expected");
    uint32_t depth = p->depth;
    p->depth += 2; /* a statement costs more C stack than an expression */
    if (p->depth > HY_PARSE_DEPTH)
        hy_parse_fail(p, t->line, HY_E_LIMIT, "the template nests deeper than %d", HY_PARSE_DEPTH);
    hy_node *n = dispatch(p, t);
    p->depth = depth;
    return n;
}

hy_status hy_template_parse(hy_template **out, const char *src, size_t n, hy_err *err)
{
    if (n > INT32_MAX / 2)
        return hy_fail(err, HY_E_LIMIT, "template: %zu bytes, at most %d", n, INT32_MAX / 2);
    hy_template *t = HY_NEW(hy_template);
    hy_parser *p = HY_NEW(hy_parser);
    if (t) t->arena = hy_arena_new(16 * HY_KIB);
    if (!t || !p || !t->arena) {
        hy_free(p);
        hy_template_free(t);
        return hy_fail_memory(err, "template", n);
    }
    p->t = t;
    p->src = src;
    p->n_src = n;
    p->err = err;
    if (setjmp(p->jmp) == 0) {
        t->n_loop = hy_parse_name(p, "loop", 4);
        t->n_caller = hy_parse_name(p, "caller", 6);
        t->n_kwargs = hy_parse_name(p, "kwargs", 6);
        t->n_varargs = hy_parse_name(p, "varargs", 7);
        hy_parse_lex(p);
        parse_body(p, &t->body, NULL);
    }
    hy_status st = p->code;
    hy_free(p->tok);
    hy_free(p);
    if (st != HY_OK) {
        hy_template_free(t);
        return st;
    }
    *out = t;
    return HY_OK;
}

void hy_template_free(hy_template *t)
{
    if (!t) return;
    hy_arena_free(t->arena);
    hy_free(t);
}
