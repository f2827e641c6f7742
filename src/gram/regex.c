/* Regular expressions: ECMA 262 as JSON Schema's pattern has them (with the u flag's escapes), or
 * Python's re for a whole text. What is no regular language (references back) or looks at what is
 * around a place
 * (\b, lookbehind) is refused; lookahead stands in a branch of the whole expression, where it is
 * the intersection of two languages. */
#include "gram/gram_impl.h"

typedef struct parser {
    hy_gc *gc;
    const char *s;
    size_t n, i;
    hy_re_mode mode;
    bool fold, dot_all;
    uint32_t n_look;
} parser;

static hy_ast *alternatives(parser *p);

static bool more(const parser *p) { return p->i < p->n; }

static char peek(const parser *p, size_t k) { return p->i + k < p->n ? p->s[p->i + k] : 0; }

static bool take(parser *p, const char *z)
{
    size_t k = strlen(z);
    if (p->n - p->i < k || memcmp(p->s + p->i, z, k) != 0) return false;
    p->i += k;
    return true;
}

_Noreturn static void bad(parser *p, const char *why)
{
    hy_gc_fail(p->gc, HY_E_ARG, "invalid expression at byte %zu: %s", p->i, why);
}

_Noreturn static void cannot(parser *p, const char *what)
{
    hy_gc_fail(p->gc, HY_E_UNSUPPORTED, "%s at byte %zu is not supported in an expression", what,
               p->i);
}

static uint32_t rune(parser *p)
{
    uint32_t r;
    p->i += hy_utf8_next(p->s + p->i, p->n - p->i, &r);
    if (r == HY_RUNE_BAD) bad(p, "not valid UTF-8");
    return r;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static uint32_t hex(parser *p, int n)
{
    uint32_t v = 0;
    for (int k = 0; k < n; k++) {
        int d = hex_digit(peek(p, 0));
        if (d < 0) bad(p, "hexadecimal digit expected");
        v = v * 16 + (uint32_t)d;
        p->i++;
    }
    return v;
}

static uint32_t unicode_escape(parser *p) /* behind \u */
{
    if (peek(p, 0) == '{') {
        uint32_t v = 0;
        p->i++;
        do {
            v = v * 16 + hex(p, 1);
            if (v > HY_RUNE_MAX) bad(p, "code point beyond 10FFFF");
        } while (peek(p, 0) != '}');
        p->i++;
        return v;
    }
    uint32_t v = hex(p, 4);
    if (v >= 0xD800 && v < 0xDC00 && take(p, "\\u")) {
        uint32_t low = hex(p, 4);
        if (low < 0xDC00 || low > 0xDFFF) bad(p, "half a surrogate pair");
        return 0x10000 + ((v - 0xD800) << 10) + (low - 0xDC00);
    }
    return v;
}

static const hy_cset *property(parser *p, bool negative) /* behind \p */
{
    if (peek(p, 0) != '{') bad(p, "{ expected after \\p");
    size_t first = ++p->i;
    while (more(p) && p->s[p->i] != '}') p->i++;
    if (!more(p)) bad(p, "} missing after \\p{");
    const char *name = p->s + first;
    size_t n = p->i++ - first;
    static const char *const key[] = {"gc=", "General_Category="};
    for (size_t k = 0; k < HY_COUNT(key); k++)
        if (n > strlen(key[k]) && memcmp(name, key[k], strlen(key[k])) == 0) {
            name += strlen(key[k]);
            n -= strlen(key[k]);
        }
    const hy_cset *s = hy_cset_category(p->gc, name, n);
    if (!s)
        hy_gc_fail(p->gc, HY_E_UNSUPPORTED, "\\p{%.*s} is not a known general category",
                   (int)HY_MIN(n, 40), name);
    return negative ? hy_cset_not(p->gc, s) : s;
}

/* After a backslash: a class in *set, or (NULL) one code point. */
static uint32_t escape(parser *p, bool in_class, const hy_cset **set)
{
    *set = NULL;
    if (!more(p)) bad(p, "ends with a backslash");
    char c = p->s[p->i];
    switch (c) {
    case 'd':
    case 'D':
    case 'w':
    case 'W':
    case 's':
    case 'S':
        p->i++;
        *set = hy_cset_escape(p->gc, c);
        return 0;
    case 'p':
    case 'P':
        p->i++;
        *set = property(p, c == 'P');
        return 0;
    case 't':
        p->i++;
        return '\t';
    case 'n':
        p->i++;
        return '\n';
    case 'r':
        p->i++;
        return '\r';
    case 'f':
        p->i++;
        return '\f';
    case 'v':
        p->i++;
        return '\v';
    case 'a':
        if (p->mode == HY_RE_SEARCH) bad(p, "unknown escape \\a");
        p->i++;
        return 7;
    case 'x':
        p->i++;
        return hex(p, 2);
    case 'u':
        p->i++;
        return unicode_escape(p);
    case 'U':
        if (p->mode == HY_RE_SEARCH) bad(p, "unknown escape \\U");
        p->i++;
        return hex(p, 8);
    case 'c': {
        char l = peek(p, 1);
        if (!((l | 32) >= 'a' && (l | 32) <= 'z')) bad(p, "letter expected after \\c");
        p->i += 2;
        return (uint32_t)l & 31;
    }
    case 'b':
        if (!in_class) cannot(p, "\\b");
        p->i++;
        return 8;
    case 'B':
        cannot(p, "\\B");
    case 'k':
        cannot(p, "a reference to a group");
    case '0':
        if (peek(p, 1) >= '0' && peek(p, 1) <= '9') bad(p, "octal escapes are not supported");
        p->i++;
        return 0;
    default:
        break;
    }
    if (c >= '1' && c <= '9') cannot(p, "a reference to a group");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) bad(p, "unknown escape");
    return rune(p);
}

static const hy_cset *finish_set(parser *p, hy_cset *s, bool negative)
{
    hy_cset_norm(p->gc, s);
    if (p->fold) hy_cset_fold(p->gc, s);
    return negative ? hy_cset_not(p->gc, s) : s;
}

static const hy_cset *class(parser *p) /* behind [ */
{
    bool negative = take(p, "^");
    hy_cset *s = hy_cset_new(p->gc);
    for (bool first = true;; first = false) {
        if (!more(p)) bad(p, "] missing");
        if (peek(p, 0) == ']' && !(first && p->mode == HY_RE_FULL)) break;
        const hy_cset *set = NULL, *to = NULL;
        uint32_t lo = take(p, "\\") ? escape(p, true, &set) : rune(p);
        if (peek(p, 0) == '-' && peek(p, 1) != ']' && p->i + 1 < p->n) {
            size_t at = p->i++;
            uint32_t hi = take(p, "\\") ? escape(p, true, &to) : rune(p);
            if (!set && !to) {
                if (hi < lo) bad(p, "range out of order in a class");
                hy_cset_add(p->gc, s, lo, hi);
                continue;
            }
            p->i = at; /* a class beside it: the hyphen is itself */
            to = NULL;
        }
        if (set)
            hy_cset_add_set(p->gc, s, set);
        else
            hy_cset_add(p->gc, s, lo, lo);
    }
    p->i++;
    return finish_set(p, s, negative);
}

static hy_ast *one(parser *p, uint32_t r)
{
    hy_cset *s = hy_cset_new(p->gc);
    hy_cset_add(p->gc, s, r, r);
    return hy_ast_set(p->gc, finish_set(p, s, false));
}

static hy_ast *dot(parser *p)
{
    hy_cset *s = hy_cset_new(p->gc);
    if (!p->dot_all) hy_cset_add(p->gc, s, '\n', '\n');
    if (!p->dot_all && p->mode == HY_RE_SEARCH) {
        hy_cset_add(p->gc, s, '\r', '\r');
        hy_cset_add(p->gc, s, 0x2028, 0x2029);
    }
    hy_cset_norm(p->gc, s);
    return hy_ast_set(p->gc, hy_cset_not(p->gc, s));
}

static hy_ast *group(parser *p) /* behind ( */
{
    hy_ast *a;
    hy_gc_enter(p->gc);
    if (take(p, "?")) {
        if (take(p, "=") || take(p, "!")) {
            bool wanted = p->s[p->i - 1] == '=';
            a = hy_ast_new(p->gc, A_LOOK);
            a->min = wanted;
            p->n_look++;
            hy_ast_add(p->gc, a, alternatives(p));
        } else if (take(p, "<=") || take(p, "<!")) {
            cannot(p, "lookbehind");
        } else if (take(p, ":")) {
            a = alternatives(p);
        } else if (take(p, "P<") || take(p, "<")) {
            size_t first = p->i;
            while (more(p) && p->s[p->i] != '>') p->i++;
            if (!take(p, ">") || p->i == first + 1) bad(p, "name of a group expected");
            a = alternatives(p);
        } else {
            cannot(p, "this kind of group");
        }
    } else {
        a = alternatives(p);
    }
    if (!take(p, ")")) bad(p, ") missing");
    hy_gc_leave(p->gc);
    return a;
}

/* {m}, {m,}, {m,n}; Python also {,n}. False, and nothing taken: it is a plain brace. */
static bool braces(parser *p, uint32_t *min, uint32_t *max)
{
    size_t i = p->i + 1, digits = 0;
    uint64_t v[2] = {0, 0};
    bool has[2] = {false, false};
    int k = 0;
    for (; i < p->n && p->s[i] != '}'; i++) {
        char c = p->s[i];
        if (c == ',' && k == 0)
            k = 1;
        else if (c >= '0' && c <= '9') {
            has[k] = true;
            v[k] = HY_MIN(v[k] * 10 + (uint64_t)(c - '0'), (uint64_t)HY_NONE);
            if (++digits > 40) return false;
        } else
            return false;
    }
    if (i == p->n || (!has[0] && !(p->mode == HY_RE_FULL && has[1]))) return false;
    if (k == 0)
        v[1] = v[0];
    else if (!has[1])
        v[1] = HY_NONE;
    if (v[0] > v[1] || v[0] >= HY_NONE)
        bad(p, "bounds of a repetition are out of order or too large");
    *min = (uint32_t)v[0];
    *max = (uint32_t)v[1];
    p->i = i + 1;
    return true;
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
        return more(p) && braces(p, min, max);
    default:
        return false;
    }
    p->i++;
    return true;
}

static hy_ast *atom(parser *p)
{
    const hy_cset *set;
    char c = p->s[p->i];
    if (c == '(') {
        p->i++;
        return group(p);
    }
    if (c == '[') {
        p->i++;
        return hy_ast_set(p->gc, class(p));
    }
    if (c == '.') {
        p->i++;
        return dot(p);
    }
    if (c == '^' || c == '$') {
        p->i++;
        return hy_ast_new(p->gc, c == '^' ? A_BOL : A_EOL);
    }
    if (c == '\\') {
        p->i++;
        if (p->mode == HY_RE_FULL && take(p, "A")) return hy_ast_new(p->gc, A_BOL);
        if (p->mode == HY_RE_FULL && (take(p, "Z") || take(p, "z")))
            return hy_ast_new(p->gc, A_EOL);
        uint32_t r = escape(p, false, &set);
        return set ? hy_ast_set(p->gc, set) : one(p, r);
    }
    if (c == '*' || c == '+' || c == '?') bad(p, "nothing to repeat");
    return one(p, rune(p));
}

static hy_ast *branch(parser *p)
{
    hy_ast *a = hy_ast_new(p->gc, A_CAT);
    while (more(p) && p->s[p->i] != '|' && p->s[p->i] != ')') {
        uint32_t min, max;
        if (peek(p, 0) == '{' && braces(p, &min, &max)) bad(p, "nothing to repeat");
        hy_ast *x = atom(p);
        if (quantifier(p, &min, &max)) {
            if (x->kind == A_LOOK) cannot(p, "a repeated lookahead");
            if ((x->kind == A_BOL || x->kind == A_EOL) && p->mode == HY_RE_SEARCH)
                bad(p, "nothing to repeat");
            x = hy_ast_rep(p->gc, x, min, max);
            if (p->mode == HY_RE_FULL && peek(p, 0) == '+') cannot(p, "a possessive repetition");
            take(p, "?"); /* lazy: the same language */
            if (quantifier(p, &min, &max)) bad(p, "nothing to repeat");
        }
        hy_ast_add(p->gc, a, x);
    }
    return a;
}

static hy_ast *alternatives(parser *p)
{
    hy_ast *a = hy_ast_new(p->gc, A_ALT);
    do hy_ast_add(p->gc, a, branch(p));
    while (take(p, "|"));
    return a->n == 1 ? a->kid[0] : a;
}

static void inline_flags(parser *p) /* (?i) and the like, only in front */
{
    if (peek(p, 0) != '(' || peek(p, 1) != '?') return;
    size_t k = 2;
    while (peek(p, k) >= 'a' && peek(p, k) <= 'z') k++;
    if (k == 2 || peek(p, k) != ')') return;
    for (size_t i = 2; i < k; i++) {
        char c = peek(p, i);
        if (c == 'i')
            p->fold = true;
        else if (c == 's')
            p->dot_all = true;
        else if (c != 'u' && c != 'a')
            cannot(p, "this flag");
    }
    p->i += k + 1;
}

/* ---- from the expression to the language -------------------------------------------------------
 */

static bool has(const hy_ast *a, hy_akind kind)
{
    if (a->kind == kind) return true;
    for (size_t i = 0; i < a->n; i++)
        if (has(a->kid[i], kind)) return true;
    return false;
}

static hy_ast *tail(parser *p, hy_ast *a, hy_re_mode mode) /* a, then anything when searching */
{
    hy_ast *c = hy_ast_new(p->gc, A_CAT);
    hy_ast_add(p->gc, c, a);
    if (mode == HY_RE_SEARCH) hy_ast_add(p->gc, c, hy_ast_any(p->gc));
    return c;
}

/* A branch from item i on, with what may follow: every lookahead met narrows the rest. */
static hy_ast *looked(parser *p, const hy_ast *b, size_t i)
{
    hy_ast *c = hy_ast_new(p->gc, A_CAT);
    for (; i < b->n && b->kid[i]->kind != A_LOOK; i++) {
        if (has(b->kid[i], A_LOOK)) cannot(p, "lookahead inside a group");
        hy_ast_add(p->gc, c, b->kid[i]);
    }
    if (i == b->n) return tail(p, c, p->mode);
    const hy_ast *look = b->kid[i];
    if (has(look->kid[0], A_LOOK)) cannot(p, "lookahead inside a lookahead");
    hy_ast *rest = looked(p, b, i + 1);
    if (has(rest, A_BOL) || has(look->kid[0], A_BOL)) cannot(p, "^ behind a lookahead");
    hy_dfa *r = hy_dfa_from(p->gc, rest);
    hy_dfa *l = hy_dfa_from(p->gc, tail(p, look->kid[0], HY_RE_SEARCH));
    hy_ast_add(p->gc, c,
               hy_ast_dfa(p->gc, look->min ? hy_dfa_and(p->gc, r, l) : hy_dfa_minus(p->gc, r, l)));
    return c;
}

static hy_ast *parse(parser *p)
{
    if (p->n > HY_GC_TEXT) hy_gc_fail(p->gc, HY_E_LIMIT, "expression of %zu bytes", p->n);
    inline_flags(p);
    hy_ast *a = alternatives(p);
    if (more(p)) bad(p, "unmatched )");
    return a;
}

static hy_ast *whole(parser *p, hy_ast *a)
{
    hy_ast *out = hy_ast_new(p->gc, A_CAT);
    if (p->mode == HY_RE_SEARCH) hy_ast_add(p->gc, out, hy_ast_any(p->gc));
    if (!p->n_look) {
        hy_ast_add(p->gc, out, tail(p, a, p->mode));
        return out;
    }
    hy_ast *alt = hy_ast_new(p->gc, A_ALT);
    if (a->kind == A_ALT)
        for (size_t i = 0; i < a->n; i++) hy_ast_add(p->gc, alt, looked(p, a->kid[i], 0));
    else
        hy_ast_add(p->gc, alt, looked(p, a, 0));
    hy_ast_add(p->gc, out, alt);
    return out;
}

hy_dfa *hy_regex_dfa(hy_gc *gc, const char *what, const char *s, size_t n, hy_re_mode mode)
{
    const char *outer = gc->what;
    gc->what = what;
    parser p = {.gc = gc, .s = s, .n = n, .mode = mode};
    hy_dfa *d = hy_dfa_from(gc, whole(&p, parse(&p)));
    gc->what = outer;
    return d;
}

bool hy_regex_simple(hy_gc *gc, const char *what, const char *s, size_t n, hy_re_mode mode,
                     hy_dfa **dfa, uint32_t *min, uint32_t *max)
{
    const char *outer = gc->what;
    gc->what = what;
    parser p = {.gc = gc, .s = s, .n = n, .mode = mode};
    hy_ast *a = parse(&p);
    gc->what = outer;
    if (a->kind != A_CAT) return false;
    size_t i = 0, end = a->n;
    bool bol = i < end && a->kid[i]->kind == A_BOL, eol = end > i && a->kid[end - 1]->kind == A_EOL;
    if (mode == HY_RE_SEARCH && !(bol && eol)) return false;
    i += bol;
    end -= eol && end > i;
    if (end != i + 1 || a->kid[i]->kind != A_REP || a->kid[i]->kid[0]->kind != A_SET) return false;
    *min = a->kid[i]->min;
    *max = a->kid[i]->max;
    *dfa = hy_dfa_from(gc, hy_ast_rep(gc, a->kid[i]->kid[0], 0, HY_NONE));
    return true;
}
