/* GBNF, the grammar notation of llama.cpp (grammars/README.md there), with four more words
 * (gram.h). Rules are parsed to expressions; whatever in them is a regular language becomes one
 * automaton. */
#include "gram/gram_impl.h"

enum { INLINE_MAX = 3000, DFA_MAX = 30000, DFA_WORK = 20000000, RULES_MAX = 20000 };

typedef struct rule {
    const char *name;
    size_t n_name;
    hy_ast *body;  /* NULL: not defined */
    uint8_t visit; /* 1: on the path, 2: done */
    bool pure;     /* no recursion, only text: can be put where it is used */
    uint64_t size; /* states it would take */
} rule;

typedef struct parser {
    hy_gc *gc;
    const char *s;
    size_t n, i;
    rule *rule;
    size_t n_rule, cap_rule;
    json_t *schemas;
    uint32_t *slot, n_slot;
    uint32_t *net; /* rule -> the network's */
} parser;

static hy_ast *alternatives(parser *p, bool nested);

_Noreturn static void bad(parser *p, const char *why)
{
    size_t line = 1, at = HY_MIN(p->i, p->n);
    for (size_t i = 0; i < at; i++) line += p->s[i] == '\n';
    hy_gc_fail(p->gc, HY_E_ARG, "line %zu: %s", line, why);
}

static char peek(const parser *p, size_t k) { return p->i + k < p->n ? p->s[p->i + k] : 0; }

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static void space(parser *p, bool newlines)
{
    while (p->i < p->n) {
        char c = p->s[p->i];
        if (c == '#')
            while (p->i < p->n && p->s[p->i] != '\n' && p->s[p->i] != '\r') p->i++;
        else if (c == ' ' || c == '\t' || (newlines && (c == '\n' || c == '\r')))
            p->i++;
        else
            break;
    }
}

static uint32_t hex(parser *p, int n)
{
    uint32_t v = 0;
    for (int k = 0; k < n; k++, p->i++) {
        char c = peek(p, 0);
        int d = c >= '0' && c <= '9'                 ? c - '0'
                : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                     : -1;
        if (d < 0) bad(p, "hexadecimal digit expected");
        v = v << 4 | (uint32_t)d;
    }
    return v;
}

/* One character of a literal or class, escapes undone. */
static uint32_t character(parser *p)
{
    uint32_t r;
    if (peek(p, 0) != '\\') {
        p->i += hy_utf8_next(p->s + p->i, p->n - p->i, &r);
        if (r == HY_RUNE_BAD) bad(p, "not valid UTF-8");
        return r;
    }
    char c = peek(p, 1);
    p->i += 2;
    switch (c) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'x':
        return hex(p, 2);
    case 'u':
        return hex(p, 4);
    case 'U':
        r = hex(p, 8);
        break;
    case '"':
    case '\\':
    case '[':
    case ']':
    case '-':
    case '^':
    case '/':
    case '\'':
        return (uint32_t)c;
    default:
        bad(p, "unknown escape");
    }
    if (r > HY_RUNE_MAX) bad(p, "code point beyond 10FFFF");
    return r;
}

static uint32_t scalar(parser *p)
{
    uint32_t r = character(p);
    if (r >= 0xD800 && r < 0xE000) bad(p, "a surrogate is no character");
    return r;
}

static hy_ast *literal(parser *p, hy_buf *utf8) /* at the quote; also the bytes, where asked for */
{
    hy_ast *a = hy_ast_new(p->gc, A_CAT);
    p->i++;
    while (peek(p, 0) != '"') {
        if (p->i >= p->n) bad(p, "\" missing");
        uint32_t r = scalar(p);
        hy_ast_add(p->gc, a, hy_ast_set(p->gc, hy_cset_one(p->gc, r, r)));
        if (!utf8) continue;
        char b[4];
        size_t k = hy_utf8_put(r, b);
        if (utf8->len + k > utf8->cap) bad(p, "string too long");
        memcpy(utf8->data + utf8->len, b, k);
        utf8->len += k;
    }
    p->i++;
    return a;
}

static hy_ast *class(parser *p) /* at the bracket */
{
    hy_cset *s = hy_cset_new(p->gc);
    p->i++;
    bool negative = peek(p, 0) == '^';
    p->i += negative;
    while (peek(p, 0) != ']') {
        if (p->i >= p->n) bad(p, "] missing");
        uint32_t lo = character(p), hi = lo;
        if (peek(p, 0) == '-' && peek(p, 1) != ']') {
            p->i++;
            if (p->i >= p->n) bad(p, "] missing");
            hi = character(p);
            if (hi < lo) bad(p, "range out of order");
        }
        hy_cset_add(p->gc, s, lo, hi);
    }
    p->i++;
    hy_cset_norm(p->gc, s);
    return hy_ast_set(p->gc, negative ? hy_cset_not(p->gc, s) : s);
}

static uint32_t find_rule(parser *p, const char *name, size_t n)
{
    if (p->n_rule * 2 >= p->n_slot) {
        uint32_t m = HY_MAX(64u, p->n_slot * 2);
        p->slot = HY_TMP(p->gc, uint32_t, m);
        p->n_slot = m;
        for (uint32_t i = 0; i < p->n_rule; i++) {
            uint32_t h = (uint32_t)hy_hash64(p->rule[i].name, p->rule[i].n_name, 1) & (m - 1);
            while (p->slot[h]) h = (h + 1) & (m - 1);
            p->slot[h] = i + 1;
        }
    }
    uint32_t h = (uint32_t)hy_hash64(name, n, 1) & (p->n_slot - 1);
    for (; p->slot[h]; h = (h + 1) & (p->n_slot - 1)) {
        const rule *r = &p->rule[p->slot[h] - 1];
        if (r->n_name == n && memcmp(r->name, name, n) == 0) return p->slot[h] - 1;
    }
    if (p->n_rule >= RULES_MAX) hy_gc_fail(p->gc, HY_E_LIMIT, "more than %d rules", RULES_MAX);
    p->rule = hy_gc_grow(p->gc, p->rule, p->n_rule, &p->cap_rule, sizeof *p->rule);
    p->rule[p->n_rule] = (rule){.name = name, .n_name = n};
    p->slot[h] = (uint32_t)++p->n_rule;
    return (uint32_t)p->n_rule - 1;
}

static const char *word(parser *p, size_t *n)
{
    size_t first = p->i;
    while (is_word(peek(p, 0))) p->i++;
    *n = p->i - first;
    if (!*n) bad(p, "name expected");
    return p->s + first;
}

/* ---- the words with @ ---------------------------------------------------------------------------
 */

static hy_ast *cat3(hy_gc *gc, hy_ast *a, hy_ast *b, hy_ast *c)
{
    hy_ast *x = hy_ast_new(gc, A_CAT);
    hy_ast_add(gc, x, a);
    hy_ast_add(gc, x, b);
    if (c) hy_ast_add(gc, x, c);
    return x;
}

static hy_ast *until(parser *p, hy_ast *stop)
{
    hy_gc *gc = p->gc;
    hy_ast *some = hy_ast_rep(gc, hy_ast_set(gc, hy_cset_one(gc, 0, HY_RUNE_MAX)), 1, HY_NONE);
    hy_dfa *met = hy_dfa_from(gc, cat3(gc, hy_ast_any(gc), stop, NULL));
    hy_dfa *late = hy_dfa_from(gc, cat3(gc, hy_ast_any(gc), stop, some));
    return hy_ast_dfa(gc, hy_dfa_minus(gc, met, late));
}

static hy_ast *without(parser *p, hy_ast *any_of)
{
    hy_gc *gc = p->gc;
    hy_dfa *has = hy_dfa_from(gc, cat3(gc, hy_ast_any(gc), any_of, hy_ast_any(gc)));
    return hy_ast_dfa(gc, hy_dfa_minus(gc, hy_dfa_any(gc), has));
}

static hy_ast *control(parser *p, const hy_buf *written)
{
    hy_ast *a = hy_ast_new(p->gc, A_BYTES);
    char *b = HY_TMP(p->gc, char, written->len + 2);
    b[0] = b[written->len + 1] =
        (char)0xFF; /* as in the vocabulary's trie; no text has this byte */
    memcpy(b + 1, written->data, written->len);
    a->bytes = b;
    a->n = written->len + 2;
    return a;
}

static hy_ast *schema(parser *p, const hy_buf *name)
{
    char *z = HY_TMP(p->gc, char, name->len + 1);
    memcpy(z, name->data, name->len);
    json_t *s = p->schemas ? json_object_get(p->schemas, z) : NULL;
    if (!s) hy_gc_fail(p->gc, HY_E_ARG, "@schema(\"%.80s\"): no schema of that name", z);
    hy_ast *a = hy_ast_new(p->gc, A_NET);
    a->min = hy_schema_rule(p->gc, s, s);
    return a;
}

static hy_ast *special(parser *p) /* at the @ */
{
    size_t n;
    p->i++;
    const char *w = word(p, &n);
    static const char *const words[] = {"schema", "token", "until", "without"};
    size_t k = 0;
    while (k < HY_COUNT(words) && (strlen(words[k]) != n || memcmp(words[k], w, n) != 0)) k++;
    if (k == HY_COUNT(words))
        bad(p, "unknown word after @; there are schema, token, until, without");
    space(p, true);
    if (peek(p, 0) != '(') bad(p, "( expected");
    hy_ast *list = hy_ast_new(p->gc, A_ALT);
    char data[1024];
    hy_buf first = {data, 0, sizeof data, false};
    do {
        p->i++;
        space(p, true);
        if (peek(p, 0) != '"') bad(p, "string expected");
        hy_ast *a = literal(p, list->n ? NULL : &first);
        if (!a->n) bad(p, "an empty string here");
        hy_ast_add(p->gc, list, a);
        space(p, true);
    } while (k == 3 && peek(p, 0) == ',');
    if (peek(p, 0) != ')') bad(p, ") expected");
    p->i++;
    switch (k) {
    case 0:
        return schema(p, &first);
    case 1:
        return control(p, &first);
    case 2:
        return until(p, list);
    default:
        return without(p, list);
    }
}

/* ---- parsing ------------------------------------------------------------------------------------
 */

static bool number(parser *p, uint32_t *v)
{
    uint64_t x = 0;
    size_t first = p->i;
    for (; peek(p, 0) >= '0' && peek(p, 0) <= '9'; p->i++) {
        x = x * 10 + (uint64_t)(peek(p, 0) - '0');
        if (x >= HY_NONE) bad(p, "bound of a repetition too large");
    }
    *v = (uint32_t)x;
    return p->i > first;
}

static bool quantifier(parser *p, uint32_t *min, uint32_t *max)
{
    *min = 0;
    *max = HY_NONE;
    switch (peek(p, 0)) {
    case '*':
        break;
    case '+':
        *min = 1;
        break;
    case '?':
        *max = 1;
        break;
    case '{':
        p->i++;
        space(p, false);
        if (!number(p, min)) bad(p, "number expected");
        space(p, false);
        *max = *min;
        if (peek(p, 0) == ',') {
            p->i++;
            space(p, false);
            if (!number(p, max)) *max = HY_NONE;
            space(p, false);
        }
        if (peek(p, 0) != '}') bad(p, "} expected");
        if (*min > *max) bad(p, "bounds of a repetition are out of order");
        break;
    default:
        return false;
    }
    p->i++;
    return true;
}

static hy_ast *item(parser *p)
{
    char c = peek(p, 0);
    if (c == '"') return literal(p, NULL);
    if (c == '[') return class(p);
    if (c == '@') return special(p);
    if (c == '.') {
        p->i++;
        return hy_ast_set(p->gc, hy_cset_one(p->gc, 0, HY_RUNE_MAX));
    }
    if (c == '(') {
        p->i++;
        hy_gc_enter(p->gc);
        hy_ast *a = alternatives(p, true);
        hy_gc_leave(p->gc);
        if (peek(p, 0) != ')') bad(p, ") expected");
        p->i++;
        return a;
    }
    if (!is_word(c)) return NULL;
    size_t n;
    const char *w = word(p, &n);
    hy_ast *a = hy_ast_new(p->gc, A_RULE);
    a->min = find_rule(p, w, n);
    return a;
}

static hy_ast *sequence(parser *p, bool nested)
{
    hy_ast *a = hy_ast_new(p->gc, A_CAT), *x;
    for (space(p, nested); p->i < p->n && (x = item(p)); space(p, nested)) {
        uint32_t min, max;
        space(p, nested);
        for (int k = 0; quantifier(p, &min, &max); k++) {
            if (k == 20) bad(p, "too many repetitions of one item");
            x = hy_ast_rep(p->gc, x, min, max);
            space(p, nested);
        }
        hy_ast_add(p->gc, a, x);
    }
    return a;
}

/* Behind the end of a line: does the next one go on with an alternative? */
static bool continued(parser *p)
{
    size_t at = p->i;
    space(p, true);
    if (peek(p, 0) == '|') return true;
    p->i = at;
    return false;
}

static hy_ast *alternatives(parser *p, bool nested)
{
    hy_ast *a = hy_ast_new(p->gc, A_ALT);
    do {
        if (a->n) p->i++;
        size_t at = p->i;
        space(p, true);
        if (a->n == 0 && !nested) p->i = at;
        hy_ast_add(p->gc, a, sequence(p, nested));
    } while (peek(p, 0) == '|' || continued(p));
    return a->n == 1 ? a->kid[0] : a;
}

static void parse(parser *p)
{
    for (space(p, true); p->i < p->n; space(p, true)) {
        size_t n;
        const char *w = word(p, &n);
        uint32_t r = find_rule(p, w, n);
        space(p, false);
        if (p->n - p->i < 3 || memcmp(p->s + p->i, "::=", 3) != 0) bad(p, "::= expected");
        p->i += 3;
        if (p->rule[r].body) bad(p, "a rule of that name stands above");
        size_t at = p->i;
        space(p, true); /* the body may begin on the next line, if that is no rule of its own */
        size_t k = 0;
        while (is_word(peek(p, k))) k++;
        while (peek(p, k) == ' ' || peek(p, k) == '\t') k++;
        if (k && peek(p, k) == ':' && peek(p, k + 1) == ':') p->i = at;
        hy_ast *body = alternatives(p, false);
        p->rule[r].body = body;
        space(p, false);
        if (p->i < p->n && peek(p, 0) != '\n' && peek(p, 0) != '\r')
            bad(p, "item or end of the line expected");
    }
}

/* ---- what is regular ----------------------------------------------------------------------------
 */

static void measure(parser *p, uint32_t r);

/* pure and size of an expression; walks into rules. */
static bool pure(parser *p, const hy_ast *a, uint64_t *size)
{
    bool ok = a->kind != A_BYTES && a->kind != A_NET;
    uint64_t sum = 1;
    hy_gc_enter(p->gc);
    if (a->kind == A_DFA) sum += (uint64_t)a->dfa->n_state * a->dfa->n_class;
    if (a->kind == A_RULE) {
        rule *r = &p->rule[a->min];
        if (!r->body)
            hy_gc_fail(p->gc, HY_E_ARG, "rule %.*s is not defined", (int)HY_MIN(r->n_name, 80),
                       r->name);
        if (r->visit == 1)
            ok = false;
        else {
            measure(p, a->min);
            r = &p->rule[a->min];
            ok = r->pure;
            sum += r->size;
        }
    } else if (a->kind != A_BYTES) {
        for (size_t i = 0; i < a->n; i++) {
            uint64_t s;
            ok &= pure(p, a->kid[i], &s);
            sum += s;
        }
    }
    if (a->kind == A_REP) sum *= HY_MAX(1u, a->max == HY_NONE ? a->min + 1 : a->max);
    *size = HY_MIN(sum, (uint64_t)HY_NONE);
    hy_gc_leave(p->gc);
    return ok;
}

static void measure(parser *p, uint32_t i)
{
    rule *r = &p->rule[i];
    if (r->visit) return;
    r->visit = 1;
    uint64_t size;
    bool ok = pure(p, r->body, &size);
    r->pure = ok && size <= INLINE_MAX;
    r->size = size;
    r->visit = 2;
}

/* The expression with the pure rules in their places. */
static hy_ast *in_place(parser *p, hy_ast *a)
{
    if (a->kind == A_RULE) {
        const rule *r = &p->rule[a->min];
        return r->pure ? in_place(p, r->body) : a;
    }
    if (a->kind == A_BYTES || a->n == 0) return a;
    hy_ast *b = hy_ast_new(p->gc, a->kind);
    b->min = a->min;
    b->max = a->max;
    hy_gc_enter(p->gc);
    for (size_t i = 0; i < a->n; i++) hy_ast_add(p->gc, b, in_place(p, a->kid[i]));
    hy_gc_leave(p->gc);
    return b;
}

/* ---- the network --------------------------------------------------------------------------------
 */

static uint32_t emit(parser *p, hy_ast *a, uint32_t next);

/* Asked of every part of every part: remembered. */
static bool regular(parser *p, hy_ast *a)
{
    if (a->regular) return a->regular == 2;
    bool yes = a->kind != A_RULE && a->kind != A_BYTES && a->kind != A_NET;
    hy_gc_spend(p->gc, 5 + a->n);
    for (size_t i = 0; yes && i < a->n; i++) yes = regular(p, a->kid[i]);
    a->regular = yes ? 2 : 1;
    return yes;
}

static uint32_t emit_cat(parser *p, hy_ast *a, uint32_t next)
{
    for (size_t i = a->n; i > 0;) {
        size_t first = i - 1;
        if (!regular(p, a->kid[first])) {
            next = emit(p, a->kid[--i], next);
            continue;
        }
        while (first > 0 && regular(p, a->kid[first - 1])) first--;
        if (first == 0 && i == a->n) { /* the whole was tried before: halves */
            if (a->n == 1) return emit(p, a->kid[0], next);
            first = i / 2;
        }
        hy_ast *run = hy_ast_new(p->gc, A_CAT);
        for (size_t k = first; k < i; k++) hy_ast_add(p->gc, run, a->kid[k]);
        next = emit(p, run, next);
        i = first;
    }
    return next;
}

static uint32_t emit_alt(parser *p, hy_ast *a, uint32_t next)
{
    uint32_t *to = HY_TMP(p->gc, uint32_t, a->n + 1);
    size_t n = 0;
    bool all = regular(p, a);
    hy_ast *text = hy_ast_new(p->gc, A_ALT);
    for (size_t i = 0; i < a->n; i++) {
        if (!all && regular(p, a->kid[i]))
            hy_ast_add(p->gc, text, a->kid[i]);
        else
            to[n++] = emit(p, a->kid[i], next);
    }
    if (text->n) to[n++] = emit(p, text->n == 1 ? text->kid[0] : text, next);
    return hy_net_split(p->gc, to, n);
}

static uint32_t emit_rep(parser *p, hy_ast *a, uint32_t next)
{
    hy_gc *gc = p->gc;
    uint32_t min = a->min, max = a->max;
    if (max == 0) return next;
    if (max == 1) {
        uint32_t to[2] = {emit(p, a->kid[0], next), next};
        return hy_net_split(gc, to, min ? 1 : 2);
    }
    if (max == HY_NONE && min <= 1) {
        uint32_t both[2] = {HY_NONE, next};
        uint32_t loop = hy_net_split(gc, both, 2), edge = gc->net->node[loop].a;
        uint32_t body = emit(p, a->kid[0], loop);
        gc->net->edge[edge] = body;
        return min ? body : loop;
    }
    uint32_t end, rep = hy_net_rep(gc, min, max, next, &end);
    hy_net_rep_body(gc, rep, emit(p, a->kid[0], end));
    return rep;
}

static uint32_t emit(parser *p, hy_ast *a, uint32_t next)
{
    hy_gc *gc = p->gc;
    if (regular(p, a)) {
        uint64_t size;
        pure(p, a, &size);
        hy_dfa *d = size <= DFA_MAX ? hy_dfa_try(gc, a, DFA_WORK) : NULL;
        if (d) return hy_net_term(gc, d, false, 0, HY_NONE, next);
        if (a->kind == A_SET || a->kind == A_DFA)
            hy_gc_fail(gc, HY_E_LIMIT, "too large: an automaton of a single item");
    }
    hy_gc_enter(gc);
    switch (a->kind) {
    case A_CAT:
        next = emit_cat(p, a, next);
        break;
    case A_ALT:
        next = emit_alt(p, a, next);
        break;
    case A_REP:
        next = emit_rep(p, a, next);
        break;
    case A_RULE:
        next = hy_net_call(gc, p->net[a->min], next);
        break;
    case A_NET:
        next = hy_net_call(gc, a->min, next);
        break;
    case A_BYTES:
        next = hy_net_lit(gc, a->bytes, a->n, next);
        break;
    default:
        hy_gc_fail(gc, HY_E_INTERNAL, "expression of kind %d in a grammar", a->kind);
    }
    hy_gc_leave(gc);
    return next;
}

void hy_gbnf_compile(hy_gc *gc, const char *s, size_t n, json_t *schemas)
{
    parser p = {.gc = gc, .s = s, .n = n, .schemas = schemas};
    uint32_t root = hy_net_rule(gc, "root"); /* rule 0 of the network calls it */
    parse(&p);
    uint32_t at = find_rule(&p, "root", 4);
    if (!p.rule[at].body) hy_gc_fail(gc, HY_E_ARG, "there is no rule named root");
    size_t n_rule = p.n_rule;
    for (uint32_t i = 0; i < n_rule; i++)
        if (!p.rule[i].body)
            hy_gc_fail(gc, HY_E_ARG, "rule %.*s is not defined", (int)HY_MIN(p.rule[i].n_name, 80),
                       p.rule[i].name);
    uint32_t *net = p.net = HY_TMP(gc, uint32_t, n_rule);
    for (uint32_t i = 0; i < n_rule; i++) {
        char *name = HY_TMP(gc, char, p.rule[i].n_name + 1);
        memcpy(name, p.rule[i].name, p.rule[i].n_name);
        net[i] = hy_net_rule(gc, name);
        measure(&p, i);
    }
    for (uint32_t i = 0; i < n_rule; i++) {
        hy_ast *body = in_place(&p, p.rule[i].body);
        p.rule[i].body = body;
    }
    for (uint32_t i = 0; i < n_rule; i++) {
        if (p.rule[i].pure && i != at) { /* nobody calls it */
            gc->net->rule[net[i]] = hy_net_fail(gc);
            continue;
        }
        uint32_t first = emit(&p, p.rule[i].body, hy_net_ret(gc));
        gc->net->rule[net[i]] = first;
    }
    uint32_t first = hy_net_call(gc, net[at], hy_net_ret(gc));
    gc->net->rule[root] = first;
}
