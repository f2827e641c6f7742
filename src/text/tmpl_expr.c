/* The parser of expressions. Precedence, from loose to tight: conditional, or, and, not, comparison,
 * + -, ~, * / // %, **, unary, postfix, filters and tests (Jinja 3.1 documentation, "Expressions"). */
#include "text/tmpl.h"

static hy_node *parse_cond(hy_parser *p);
static hy_node *parse_or(hy_parser *p);
static hy_node *parse_unary(hy_parser *p, bool with_filter);

static void enter(hy_parser *p)
{
    if (++p->depth > HY_PARSE_DEPTH)
        hy_parse_fail(p, hy_parse_cur(p)->line, HY_E_LIMIT, "the template nests deeper than %d",
                      HY_PARSE_DEPTH);
}

static void leave(hy_parser *p)
{
    p->depth--;
}

static bool skip_tok(hy_parser *p, hy_tok type)
{
    if (hy_parse_cur(p)->type != type) return false;
    p->i++;
    return true;
}

static const hy_token *look(hy_parser *p)
{
    return &p->tok[HY_MIN(p->i + 1, p->n_tok - 1)];
}

static bool token_is(const hy_token *t, const char *name)
{
    return t->type == T_NAME && t->n == strlen(name) && memcmp(t->p, name, t->n) == 0;
}

static hy_val const_str(hy_parser *p, const char *s, size_t n)
{
    hy_str *v = hy_parse_alloc(p, sizeof *v);
    *v = (hy_str){ s, n, SIZE_MAX };
    v->n_rune = hy_str_runes(v); /* now: a template is shared and never written while it renders */
    return hy_v_strs(v);
}

static void must_be_identifier(hy_parser *p, const hy_token *t)
{
    uint32_t r;
    hy_utf8_next(t->p, t->n, &r);
    if (r != '_' && !hy_uc_alpha(r))
        hy_parse_fail(p, t->line, HY_E_FORMAT, "Invalid character in identifier");
}

/* Notes a filter or test that does not exist. Jinja forgives it (until it runs) inside an if. */
static void note_unknown(hy_parser *p, const char *what, const hy_str *name, int32_t line)
{
    if (p->unknown[0]) return;
    snprintf(p->unknown, sizeof p->unknown, "No %s named '%.*s'.", what, (int)HY_MIN(name->n, 80u),
             name->p);
    p->unknown_line = line;
}

void hy_parse_check_unknown(hy_parser *p)
{
    if (p->unknown[0] && !p->soft) hy_parse_fail(p, p->unknown_line, HY_E_FORMAT, "%s", p->unknown);
    p->unknown[0] = 0;
}

/* Filter: a = input (NULL: the block's text), value = name, args, fn. Test: the same. */
static hy_str *dotted_name(hy_parser *p)
{
    const hy_token *t = hy_parse_expect(p, T_NAME);
    if (hy_parse_cur(p)->type != T_DOT) return hy_parse_name(p, t->p, t->n);
    char *buf = hy_parse_alloc(p, 256);
    size_t n = HY_MIN(t->n, 100u);
    memcpy(buf, t->p, n);
    while (skip_tok(p, T_DOT)) {
        t = hy_parse_expect(p, T_NAME);
        size_t k = HY_MIN(t->n, 100u);
        if (n + k + 1 > 256) hy_parse_fail(p, t->line, HY_E_LIMIT, "a name longer than 256 bytes");
        buf[n++] = '.';
        memcpy(buf + n, t->p, k);
        n += k;
    }
    return hy_parse_name(p, buf, n);
}

hy_node *hy_parse_filters(hy_parser *p, hy_node *in, bool inline_first)
{
    while (inline_first || hy_parse_cur(p)->type == T_PIPE) {
        if (!inline_first) p->i++;
        inline_first = false;
        hy_node *n = hy_parse_node(p, N_FILTER, hy_parse_cur(p)->line);
        hy_str *name = dotted_name(p);
        n->value = hy_v_strs(name);
        if (hy_parse_cur(p)->type == T_LPAREN) n->args = hy_parse_args(p);
        n->a = in;
        n->fn = hy_find_filter(name->p, name->n);
        if (!n->fn) note_unknown(p, "filter", name, n->line);
        in = n;
        enter(p); /* a chain is as deep as it is long */
    }
    return in;
}

static bool starts_primary(const hy_token *t)
{
    switch (t->type) {
    case T_NAME: return !token_is(t, "else") && !token_is(t, "or") && !token_is(t, "and");
    case T_STRING: case T_INT: case T_FLOAT: case T_LPAREN: case T_LBRACKET: case T_LBRACE:
        return true;
    default: return false;
    }
}

static hy_node *parse_primary(hy_parser *p, bool ns, bool store);
static hy_node *parse_postfix(hy_parser *p, hy_node *n);

static hy_node *parse_test(hy_parser *p, hy_node *in)
{
    int32_t line = hy_parse_cur(p)->line;
    p->i++;
    bool negated = hy_parse_skip(p, "not");
    hy_node *n = hy_parse_node(p, N_TEST, line);
    hy_str *name = dotted_name(p);
    n->value = hy_v_strs(name);
    if (hy_parse_cur(p)->type == T_LPAREN) {
        n->args = hy_parse_args(p);
    } else if (starts_primary(hy_parse_cur(p))) {
        if (hy_parse_is(p, "is"))
            hy_parse_fail(p, line, HY_E_FORMAT, "You cannot chain multiple tests with is");
        n->args = hy_parse_alloc(p, sizeof *n->args);
        enter(p);
        hy_parse_push(p, &n->args->pos, parse_postfix(p, parse_primary(p, false, false)));
        leave(p);
    }
    n->a = in;
    n->fn = hy_find_test(name->p, name->n);
    if (!n->fn) note_unknown(p, "test", name, line);
    if (!negated) return n;
    hy_node *not = hy_parse_node(p, N_NOT, line);
    not->a = n;
    return not;
}

/* Call: a = what is called, args. */
static hy_node *parse_call(hy_parser *p, hy_node *f)
{
    hy_node *n = hy_parse_node(p, N_CALL, hy_parse_cur(p)->line);
    n->a = f;
    n->args = hy_parse_args(p);
    return n;
}

hy_cargs *hy_parse_args(hy_parser *p)
{
    static const char bad[] = "invalid syntax for function call expression";
    hy_cargs *c = hy_parse_alloc(p, sizeof *c);
    int32_t line = hy_parse_expect(p, T_LPAREN)->line;
    uint32_t cap = 0;
    bool comma = false;
    while (hy_parse_cur(p)->type != T_RPAREN) {
        if (comma) {
            hy_parse_expect(p, T_COMMA);
            if (hy_parse_cur(p)->type == T_RPAREN) break;
        }
        comma = true;
        if (skip_tok(p, T_MUL)) {
            if (c->star || c->star2) hy_parse_fail(p, line, HY_E_FORMAT, "%s", bad);
            c->star = hy_parse_expr(p);
        } else if (skip_tok(p, T_POW)) {
            if (c->star2) hy_parse_fail(p, line, HY_E_FORMAT, "%s", bad);
            c->star2 = hy_parse_expr(p);
        } else if (hy_parse_cur(p)->type == T_NAME && look(p)->type == T_ASSIGN) {
            if (c->star2) hy_parse_fail(p, line, HY_E_FORMAT, "%s", bad);
            if (c->kw.n == cap) {
                hy_str **v = hy_parse_alloc(p, sizeof *v * (cap ? cap * 2 : 4));
                if (cap) memcpy(v, c->kw_name, sizeof *v * cap);
                cap = cap ? cap * 2 : 4;
                c->kw_name = v;
            }
            hy_str *name = hy_parse_name(p, hy_parse_cur(p)->p, hy_parse_cur(p)->n);
            for (uint32_t i = 0; i < c->kw.n; i++)
                if (c->kw_name[i] == name)
                    hy_parse_fail(p, line, HY_E_FORMAT, "keyword argument repeated: %.*s",
                                  (int)HY_MIN(name->n, 80u), name->p);
            c->kw_name[c->kw.n] = name;
            p->i += 2;
            hy_parse_push(p, &c->kw, hy_parse_expr(p));
        } else {
            if (c->star || c->star2 || c->kw.n) hy_parse_fail(p, line, HY_E_FORMAT, "%s", bad);
            hy_parse_push(p, &c->pos, hy_parse_expr(p));
        }
    }
    hy_parse_expect(p, T_RPAREN);
    return c;
}

static hy_node *parse_name(hy_parser *p, bool ns, bool store)
{
    const hy_token *t = hy_parse_cur(p);
    p->i++;
    static const struct {
        const char *name;
        uint8_t type;
        bool b;
    } consts[] = { { "true", HY_V_BOOL, true }, { "True", HY_V_BOOL, true },
                   { "false", HY_V_BOOL, false }, { "False", HY_V_BOOL, false },
                   { "none", HY_V_NONE, false }, { "None", HY_V_NONE, false } };
    for (size_t i = 0; i < HY_COUNT(consts); i++) {
        if (!token_is(t, consts[i].name)) continue;
        hy_node *n = hy_parse_node(p, N_CONST, t->line);
        n->value = consts[i].type == HY_V_NONE ? hy_v_none : hy_v_bool(consts[i].b);
        return n;
    }
    must_be_identifier(p, t);
    hy_str *name = hy_parse_name(p, t->p, t->n);
    if (ns && hy_parse_cur(p)->type == T_DOT) { /* value = namespace, attr = its attribute */
        p->i++;
        const hy_token *at = hy_parse_expect(p, T_NAME);
        hy_node *n = hy_parse_node(p, N_NSREF, t->line);
        n->value = hy_v_strs(name);
        n->attr = hy_parse_name(p, at->p, at->n);
        return n;
    }
    if (!store) {
        if (token_is(t, "caller")) p->uses |= HY_M_CALLER;
        if (token_is(t, "kwargs")) p->uses |= HY_M_KWARGS;
        if (token_is(t, "varargs")) p->uses |= HY_M_VARARGS;
    }
    hy_node *n = hy_parse_node(p, N_NAME, t->line);
    n->value = hy_v_strs(name);
    return n;
}

/* "a" "b" is one string. */
static hy_node *parse_strings(hy_parser *p)
{
    const hy_token *t = hy_parse_cur(p);
    hy_node *n = hy_parse_node(p, N_CONST, t->line);
    p->i++;
    if (hy_parse_cur(p)->type != T_STRING) {
        n->value = const_str(p, t->p, t->n);
        return n;
    }
    size_t total = t->n, k = t->n, last = p->i;
    while (p->tok[last].type == T_STRING) total += p->tok[last++].n;
    char *buf = hy_parse_alloc(p, total + 1);
    memcpy(buf, t->p, t->n);
    for (; p->i < last; p->i++) {
        if (p->tok[p->i].n) memcpy(buf + k, p->tok[p->i].p, p->tok[p->i].n);
        k += p->tok[p->i].n;
    }
    n->value = const_str(p, buf, total);
    return n;
}

static hy_node *parse_list(hy_parser *p)
{
    hy_node *n = hy_parse_node(p, N_LIST, hy_parse_expect(p, T_LBRACKET)->line);
    while (hy_parse_cur(p)->type != T_RBRACKET) {
        if (n->list.n) hy_parse_expect(p, T_COMMA);
        if (hy_parse_cur(p)->type == T_RBRACKET) break;
        hy_parse_push(p, &n->list, hy_parse_expr(p));
    }
    hy_parse_expect(p, T_RBRACKET);
    return n;
}

/* Dict: list = keys, list2 = values. */
static hy_node *parse_dict(hy_parser *p)
{
    hy_node *n = hy_parse_node(p, N_DICT, hy_parse_expect(p, T_LBRACE)->line);
    while (hy_parse_cur(p)->type != T_RBRACE) {
        if (n->list.n) hy_parse_expect(p, T_COMMA);
        if (hy_parse_cur(p)->type == T_RBRACE) break;
        hy_parse_push(p, &n->list, hy_parse_expr(p));
        hy_parse_expect(p, T_COLON);
        hy_parse_push(p, &n->list2, hy_parse_expr(p));
    }
    hy_parse_expect(p, T_RBRACE);
    return n;
}

static hy_node *parse_primary(hy_parser *p, bool ns, bool store)
{
    const hy_token *t = hy_parse_cur(p);
    hy_node *n;
    char d[64];
    switch (t->type) {
    case T_NAME: return parse_name(p, ns, store);
    case T_STRING: return parse_strings(p);
    case T_INT:
        n = hy_parse_node(p, N_CONST, t->line);
        n->value = hy_v_int(t->num.i);
        p->i++;
        return n;
    case T_FLOAT:
        n = hy_parse_node(p, N_CONST, t->line);
        n->value = hy_v_float(t->num.f);
        p->i++;
        return n;
    case T_LPAREN:
        p->i++;
        n = hy_parse_tuple(p, HY_E_PAREN);
        hy_parse_expect(p, T_RPAREN);
        return n;
    case T_LBRACKET: return parse_list(p);
    case T_LBRACE: return parse_dict(p);
    default:
        hy_parse_fail(p, t->line, HY_E_FORMAT, "unexpected '%s'", hy_parse_describe(t, d));
    }
}

/* Slice: a : b : c, each may be NULL. */
static hy_node *parse_subscribed(hy_parser *p)
{
    int32_t line = hy_parse_cur(p)->line;
    hy_node *part[3] = { NULL, NULL, NULL };
    if (!skip_tok(p, T_COLON)) {
        part[0] = hy_parse_expr(p);
        if (!skip_tok(p, T_COLON)) return part[0];
    }
    uint8_t t = hy_parse_cur(p)->type;
    if (t != T_COLON && t != T_RBRACKET && t != T_COMMA) part[1] = hy_parse_expr(p);
    if (skip_tok(p, T_COLON)) {
        t = hy_parse_cur(p)->type;
        if (t != T_RBRACKET && t != T_COMMA) part[2] = hy_parse_expr(p);
    }
    hy_node *n = hy_parse_node(p, N_SLICE, line);
    n->a = part[0];
    n->b = part[1];
    n->c = part[2];
    return n;
}

/* Attr: a.attr; Item: a[b]. */
static hy_node *parse_subscript(hy_parser *p, hy_node *obj)
{
    const hy_token *t = hy_parse_cur(p);
    p->i++;
    if (t->type == T_DOT) {
        const hy_token *at = hy_parse_cur(p);
        p->i += at->type != T_EOF;
        if (at->type == T_NAME) {
            hy_node *n = hy_parse_node(p, N_ATTR, t->line);
            n->a = obj;
            n->attr = hy_parse_name(p, at->p, at->n);
            return n;
        }
        if (at->type != T_INT) hy_parse_fail(p, at->line, HY_E_FORMAT, "expected name or number");
        hy_node *n = hy_parse_node(p, N_ITEM, t->line);
        n->a = obj;
        n->b = hy_parse_node(p, N_CONST, at->line);
        n->b->value = hy_v_int(at->num.i);
        return n;
    }
    hy_node *n = hy_parse_node(p, N_ITEM, t->line);
    hy_node *tuple = hy_parse_node(p, N_TUPLE, t->line);
    n->a = obj;
    while (hy_parse_cur(p)->type != T_RBRACKET) {
        if (tuple->list.n) hy_parse_expect(p, T_COMMA);
        hy_parse_push(p, &tuple->list, parse_subscribed(p));
    }
    hy_parse_expect(p, T_RBRACKET);
    n->b = tuple->list.n == 1 ? tuple->list.v[0] : tuple;
    for (uint32_t i = 0; n->b == tuple && i < tuple->list.n; i++)
        if (tuple->list.v[i]->kind == N_SLICE)
            hy_parse_fail(p, t->line, HY_E_UNSUPPORTED, "slices in a tuple subscript");
    return n;
}

static hy_node *parse_postfix(hy_parser *p, hy_node *n)
{
    for (;;) {
        uint8_t t = hy_parse_cur(p)->type;
        if (t == T_DOT || t == T_LBRACKET) n = parse_subscript(p, n);
        else if (t == T_LPAREN) n = parse_call(p, n);
        else return n;
        enter(p);
    }
}

static hy_node *parse_filter_expr(hy_parser *p, hy_node *n)
{
    for (;;) {
        uint8_t t = hy_parse_cur(p)->type;
        if (t == T_PIPE) n = hy_parse_filters(p, n, false);
        else if (hy_parse_is(p, "is")) n = parse_test(p, n);
        else if (t == T_LPAREN) n = parse_call(p, n);
        else return n;
        enter(p);
    }
}

static hy_node *parse_unary(hy_parser *p, bool with_filter)
{
    uint32_t depth = p->depth;
    enter(p);
    const hy_token *t = hy_parse_cur(p);
    hy_node *n;
    if (t->type == T_SUB || t->type == T_ADD) {
        p->i++;
        n = hy_parse_node(p, t->type == T_SUB ? N_NEG : N_POS, t->line);
        n->a = parse_unary(p, false);
    } else {
        n = parse_primary(p, false, false);
    }
    n = parse_postfix(p, n);
    if (with_filter) n = parse_filter_expr(p, n);
    p->depth = depth;
    return n;
}

static hy_node *binary(hy_parser *p, hy_op op, hy_node *a, hy_node *b, int32_t line)
{
    hy_node *n = hy_parse_node(p, N_BIN, line);
    n->op = (uint8_t)op;
    n->a = a;
    n->b = b;
    enter(p); /* a + b + c leans left: as deep as it is long */
    return n;
}

static hy_node *parse_pow(hy_parser *p)
{
    uint32_t depth = p->depth;
    int32_t line = hy_parse_cur(p)->line;
    hy_node *n = parse_unary(p, true);
    while (skip_tok(p, T_POW)) n = binary(p, OP_POW, n, parse_unary(p, true), line);
    p->depth = depth;
    return n;
}

static hy_node *parse_product(hy_parser *p)
{
    uint32_t depth = p->depth;
    int32_t line = hy_parse_cur(p)->line;
    hy_node *n = parse_pow(p);
    for (;;) {
        hy_op op;
        switch (hy_parse_cur(p)->type) {
        case T_MUL: op = OP_MUL; break;
        case T_DIV: op = OP_DIV; break;
        case T_FLOORDIV: op = OP_FLOORDIV; break;
        case T_MOD: op = OP_MOD; break;
        default: p->depth = depth; return n;
        }
        p->i++;
        n = binary(p, op, n, parse_pow(p), line);
    }
}

static hy_node *parse_concat(hy_parser *p)
{
    int32_t line = hy_parse_cur(p)->line;
    hy_node *first = parse_product(p);
    if (hy_parse_cur(p)->type != T_TILDE) return first;
    hy_node *n = hy_parse_node(p, N_CONCAT, line);
    hy_parse_push(p, &n->list, first);
    while (skip_tok(p, T_TILDE)) hy_parse_push(p, &n->list, parse_product(p));
    return n;
}

static hy_node *parse_sum(hy_parser *p)
{
    uint32_t depth = p->depth;
    int32_t line = hy_parse_cur(p)->line;
    hy_node *n = parse_concat(p);
    for (;;) {
        if (skip_tok(p, T_ADD)) n = binary(p, OP_ADD, n, parse_concat(p), line);
        else if (skip_tok(p, T_SUB)) n = binary(p, OP_SUB, n, parse_concat(p), line);
        else break;
    }
    p->depth = depth;
    return n;
}

/* Compare: a, then list of right sides; the operator stands in each right side's wrapper (N_COMPARE
 * child with op and a). */
static hy_node *parse_compare(hy_parser *p)
{
    int32_t line = hy_parse_cur(p)->line;
    hy_node *first = parse_sum(p), *n = NULL;
    for (;;) {
        hy_op op;
        switch (hy_parse_cur(p)->type) {
        case T_EQ: op = OP_EQ; break;
        case T_NE: op = OP_NE; break;
        case T_LT: op = OP_LT; break;
        case T_LE: op = OP_LE; break;
        case T_GT: op = OP_GT; break;
        case T_GE: op = OP_GE; break;
        default:
            if (hy_parse_is(p, "in")) {
                op = OP_IN;
            } else if (hy_parse_is(p, "not") && token_is(look(p), "in")) {
                op = OP_NOTIN;
                p->i++;
            } else {
                return n ? n : first;
            }
        }
        p->i++;
        if (!n) {
            n = hy_parse_node(p, N_COMPARE, line);
            n->a = first;
        }
        hy_node *rhs = hy_parse_node(p, N_COMPARE, line);
        rhs->op = (uint8_t)op;
        rhs->a = parse_sum(p);
        hy_parse_push(p, &n->list, rhs);
    }
}

static hy_node *parse_not(hy_parser *p)
{
    if (!hy_parse_is(p, "not")) return parse_compare(p);
    hy_node *n = hy_parse_node(p, N_NOT, hy_parse_cur(p)->line);
    p->i++;
    enter(p);
    n->a = parse_not(p);
    leave(p);
    return n;
}

/* Or, And: list of operands (a chain is flat). */
static hy_node *parse_and(hy_parser *p)
{
    hy_node *first = parse_not(p), *n = NULL;
    while (hy_parse_skip(p, "and")) {
        if (!n) {
            n = hy_parse_node(p, N_AND, first->line);
            hy_parse_push(p, &n->list, first);
        }
        hy_parse_push(p, &n->list, parse_not(p));
    }
    return n ? n : first;
}

static hy_node *parse_or(hy_parser *p)
{
    hy_node *first = parse_and(p), *n = NULL;
    while (hy_parse_skip(p, "or")) {
        if (!n) {
            n = hy_parse_node(p, N_OR, first->line);
            hy_parse_push(p, &n->list, first);
        }
        hy_parse_push(p, &n->list, parse_and(p));
    }
    return n ? n : first;
}

/* Cond: b if a else c (c may be NULL). */
static hy_node *parse_cond(hy_parser *p)
{
    uint32_t depth = p->depth;
    enter(p);
    bool known = p->unknown[0] != 0;
    hy_node *n = parse_or(p);
    while (hy_parse_skip(p, "if")) {
        hy_node *c = hy_parse_node(p, N_COND, n->line);
        c->b = n;
        c->a = parse_or(p);
        if (hy_parse_skip(p, "else")) c->c = parse_cond(p);
        n = c;
        if (!known) p->unknown[0] = 0; /* a filter that does not exist may stand in here */
        enter(p);
    }
    p->depth = depth;
    return n;
}

hy_node *hy_parse_expr(hy_parser *p)
{
    return parse_cond(p);
}

static bool tuple_ends(hy_parser *p, int how)
{
    uint8_t t = hy_parse_cur(p)->type;
    if (t == T_VAR_END || t == T_BLOCK_END || t == T_RPAREN) return true;
    return ((how & HY_E_IN) && hy_parse_is(p, "in")) ||
           ((how & HY_E_RECUR) && hy_parse_is(p, "recursive"));
}

hy_node *hy_parse_tuple(hy_parser *p, int how)
{
    int32_t line = hy_parse_cur(p)->line;
    hy_nodes list = { 0 };
    bool is_tuple = false;
    char d[64];
    enter(p);
    for (;;) {
        if (list.n) hy_parse_expect(p, T_COMMA);
        if (tuple_ends(p, how)) break;
        hy_node *n = how & HY_E_TARGET ? parse_primary(p, how & HY_E_NS, true)
                     : how & HY_E_NOCOND ? parse_or(p)
                                         : parse_cond(p);
        hy_parse_push(p, &list, n);
        if (hy_parse_cur(p)->type != T_COMMA) break;
        is_tuple = true;
    }
    leave(p);
    if (!is_tuple) {
        if (list.n) return list.v[0];
        if (!(how & HY_E_PAREN))
            hy_parse_fail(p, hy_parse_cur(p)->line, HY_E_FORMAT, "Expected an expression, got '%s'",
                          hy_parse_describe(hy_parse_cur(p), d));
    }
    hy_node *n = hy_parse_node(p, N_TUPLE, line);
    n->list = list;
    return n;
}

static void check_target(hy_parser *p, const hy_node *n)
{
    static const char *const names[] = { "const", "name", "nsref", "tuple", "list", "dict" };
    if (n->kind == N_NAME || n->kind == N_NSREF) return;
    if (n->kind == N_TUPLE) {
        for (uint32_t i = 0; i < n->list.n; i++) check_target(p, n->list.v[i]);
        return;
    }
    hy_parse_fail(p, n->line, HY_E_FORMAT, "can't assign to '%s'",
                  n->kind < HY_COUNT(names) ? names[n->kind] : "expression");
}

hy_node *hy_parse_target(hy_parser *p, int how)
{
    hy_node *n = hy_parse_tuple(p, how | HY_E_TARGET);
    check_target(p, n);
    return n;
}
