/* The lexer: template text to tokens, with the white space rules of trim_blocks and lstrip_blocks
 * (Jinja 3.1 documentation, "Whitespace Control"). */
#include "text/tmpl.h"
#include <stdlib.h>

static void add_token(hy_parser *p, hy_tok type, int32_t line, const char *s, size_t n)
{
    if (p->n_tok == p->cap_tok) {
        size_t cap = p->cap_tok ? p->cap_tok * 2 : 256;
        hy_token *v = hy_realloc_array(p->tok, cap, sizeof *v);
        if (!v) hy_parse_fail(p, line, HY_E_MEMORY, "out of memory for %zu tokens", cap);
        p->tok = v;
        p->cap_tok = cap;
    }
    p->tok[p->n_tok++] = (hy_token){ .type = (uint8_t)type, .line = line, .p = s, .n = n };
}

typedef struct lexer {
    hy_parser *p;
    const char *s;
    size_t n, i;
    int32_t line;
    bool line_start; /* what was read last ended with a newline */
    char stack[HY_PARSE_DEPTH];
    uint32_t n_stack;
} lexer;

static size_t space_at(const lexer *x, size_t i)
{
    if (i >= x->n) return 0;
    uint8_t c = (uint8_t)x->s[i];
    if (c < 0x80) return hy_uc_space(c) ? 1 : 0;
    uint32_t r;
    size_t k = hy_utf8_next(x->s + i, x->n - i, &r);
    return r != HY_RUNE_BAD && hy_uc_space(r) ? k : 0;
}

static size_t skip_space(const lexer *x, size_t i)
{
    size_t k;
    while ((k = space_at(x, i)) > 0) i += k;
    return i;
}

static bool at(const lexer *x, size_t i, const char *z)
{
    size_t k = strlen(z);
    return i <= x->n && x->n - i >= k && memcmp(x->s + i, z, k) == 0;
}

static void move_to(lexer *x, size_t i)
{
    for (size_t k = x->i; k < i; k++) x->line += x->s[k] == '\n';
    if (i > x->i) x->line_start = x->s[i - 1] == '\n';
    x->i = i;
}

/* After an end mark at i ("%}" or "#}", sign before it already known): where the tag ends. */
static size_t tag_end(const lexer *x, size_t i, char sign, bool trim)
{
    i += 2;
    if (sign == '-') return skip_space(x, i);
    if (sign != '+' && trim && i < x->n && x->s[i] == '\n') i++;
    return i;
}

/* Is there an end mark at i, with an optional sign? Gives the end, or 0. */
static size_t match_end(const lexer *x, size_t i, const char *mark, bool trim)
{
    if (at(x, i, mark)) return tag_end(x, i, 0, trim);
    if (i < x->n && (x->s[i] == '-' || (x->s[i] == '+' && trim)) && at(x, i + 1, mark))
        return tag_end(x, i + 1, x->s[i], trim);
    return 0;
}

/* "{%", sign, `word`, an end mark. Gives the position of the end mark's sign or mark, or 0. */
static size_t match_word(const lexer *x, size_t i, const char *word, char *sign)
{
    i += 2;
    *sign = 0;
    if (i < x->n && (x->s[i] == '-' || x->s[i] == '+')) *sign = x->s[i++];
    i = skip_space(x, i);
    if (!at(x, i, word)) return 0;
    return skip_space(x, i + strlen(word));
}

/* Emits the text before a tag, with what the tag's sign (or lstrip_blocks) takes away. */
static void put_data(lexer *x, size_t from, size_t to, char sign, bool is_var)
{
    const char *s = x->s + from;
    size_t n = to - from;
    if (sign == '-') {
        while (n > 0) {
            size_t k = 1;
            while (k < n && k < 4 && ((uint8_t)s[n - k] & 0xC0) == 0x80) k++;
            lexer y = { .s = s, .n = n };
            if (space_at(&y, n - k) != k) break;
            n -= k;
        }
    } else if (sign != '+' && !is_var) {
        size_t l = n;
        while (l > 0 && s[l - 1] != '\n') l--;
        if ((l > 0 || x->line_start) && l < n) {
            lexer y = { .s = s, .n = n };
            if (skip_space(&y, l) == n) n = l;
        }
    }
    if (n) add_token(x->p, T_DATA, x->line, s, n);
}

static bool is_word(uint32_t c)
{
    if (c < 0x80) return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
    return hy_uc_alpha(c) || hy_uc_numeric(c);
}

static bool is_dec(char c)
{
    return c >= '0' && c <= '9';
}

/* digits with single underscores between them; 0 when none */
static size_t digits(const lexer *x, size_t i)
{
    size_t k = i;
    while (k < x->n && (is_dec(x->s[k]) || (x->s[k] == '_' && k > i && k + 1 < x->n &&
                                            is_dec(x->s[k + 1]) && is_dec(x->s[k - 1]))))
        k++;
    return k - i;
}

static size_t copy_digits(const lexer *x, size_t from, size_t to, char *buf, size_t cap)
{
    size_t k = 0;
    for (size_t i = from; i < to && k + 1 < cap; i++)
        if (x->s[i] != '_') buf[k++] = x->s[i];
    buf[k] = 0;
    return k;
}

static bool lex_float(lexer *x)
{
    if (x->i > 0 && x->s[x->i - 1] == '.') return false;
    size_t i = x->i, k = digits(x, i);
    if (!k) return false;
    i += k;
    bool ok = false;
    if (i < x->n && x->s[i] == '.' && (k = digits(x, i + 1)) > 0) {
        i += 1 + k;
        ok = true;
    }
    if (i < x->n && (x->s[i] == 'e' || x->s[i] == 'E')) {
        size_t j = i + 1;
        if (j < x->n && (x->s[j] == '+' || x->s[j] == '-')) j++;
        if ((k = digits(x, j)) > 0) {
            i = j + k;
            ok = true;
        }
    }
    if (!ok) return false;
    char buf[400];
    if (copy_digits(x, x->i, i, buf, sizeof buf) + 1 >= sizeof buf)
        hy_parse_fail(x->p, x->line, HY_E_LIMIT, "a number of more than %zu digits", sizeof buf);
    add_token(x->p, T_FLOAT, x->line, x->s + x->i, i - x->i);
    x->p->tok[x->p->n_tok - 1].num.f = strtod(buf, NULL);
    move_to(x, i);
    return true;
}

static int digit_of(char c)
{
    if (is_dec(c)) return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

static bool lex_int(lexer *x)
{
    size_t i = x->i;
    if (!is_dec(x->s[i])) return false;
    int base = 10;
    size_t from = i, to;
    if (x->s[i] == '0' && i + 1 < x->n) {
        char c = (char)(x->s[i + 1] | 32);
        int b = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
        size_t j = i + 2;
        if (b && j < x->n && x->s[j] == '_') j++;
        if (b && j < x->n && digit_of(x->s[j]) < b) {
            base = b;
            from = j;
        }
    }
    to = from;
    if (base == 10 && x->s[i] == '0') { /* only more zeros may follow a zero */
        while (to < x->n && (x->s[to] == '0' || (x->s[to] == '_' && to + 1 < x->n && x->s[to + 1] == '0')))
            to++;
    } else {
        while (to < x->n && (digit_of(x->s[to]) < base ||
                             (x->s[to] == '_' && to + 1 < x->n && digit_of(x->s[to + 1]) < base)))
            to++;
    }
    uint64_t v = 0;
    for (size_t k = from; k < to; k++) {
        if (x->s[k] == '_') continue;
        if (v > (INT64_MAX - (uint64_t)digit_of(x->s[k])) / (uint64_t)base)
            hy_parse_fail(x->p, x->line, HY_E_UNSUPPORTED, "an integer beyond 64 bits");
        v = v * (uint64_t)base + (uint64_t)digit_of(x->s[k]);
    }
    add_token(x->p, T_INT, x->line, x->s + i, to - i);
    x->p->tok[x->p->n_tok - 1].num.i = (int64_t)v;
    move_to(x, to);
    return true;
}

/* One backslash escape at s (after the backslash) into out; gives the bytes read. */
static size_t unescape(lexer *x, const char *s, size_t n, char **out)
{
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    char c = s[0];
    const char *f = c ? strchr(from, c) : NULL;
    if (f) {
        *(*out)++ = to[f - from];
        return 1;
    }
    if (c == '\n') return 1;
    uint32_t v = 0;
    size_t k = 0;
    if (c >= '0' && c <= '7') {
        while (k < 3 && k < n && s[k] >= '0' && s[k] <= '7') v = v * 8 + (uint32_t)(s[k++] - '0');
        *out += hy_utf8_put(v, *out);
        return k;
    }
    size_t want = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (want) {
        while (k < want && k + 1 < n && digit_of(s[k + 1]) < 16)
            v = v * 16 + (uint32_t)digit_of(s[1 + k++]);
        if (k < want || v > 0x10FFFF)
            hy_parse_fail(x->p, x->line, HY_E_FORMAT, "bad \\%c escape in a string", c);
        *out += hy_utf8_put(v, *out);
        return 1 + k;
    }
    if (c == 'N')
        hy_parse_fail(x->p, x->line, HY_E_UNSUPPORTED, "\\N{...} escapes are not supported");
    *(*out)++ = '\\'; /* an unknown escape keeps its backslash */
    return 0;
}

static bool lex_string(lexer *x)
{
    char q = x->s[x->i];
    if (q != '\'' && q != '"') return false;
    size_t i = x->i + 1;
    while (i < x->n && x->s[i] != q) i += x->s[i] == '\\' ? 2 : 1;
    if (i >= x->n) return false;
    size_t n = i - x->i - 1;
    const char *s = x->s + x->i + 1;
    char *buf = hy_parse_alloc(x->p, n + 5), *o = buf;
    for (size_t k = 0; k < n;) {
        if (s[k] == '\\' && k + 1 < n) {
            k++;
            k += unescape(x, s + k, n - k, &o);
        } else {
            *o++ = s[k++];
        }
    }
    add_token(x->p, T_STRING, x->line, buf, (size_t)(o - buf));
    move_to(x, i + 1);
    return true;
}

static bool lex_name(lexer *x)
{
    size_t i = x->i;
    while (i < x->n) {
        uint32_t r;
        size_t k = hy_utf8_next(x->s + i, x->n - i, &r);
        if (r == HY_RUNE_BAD || !is_word(r)) break;
        i += k;
    }
    if (i == x->i) return false;
    add_token(x->p, T_NAME, x->line, x->s + x->i, i - x->i);
    move_to(x, i);
    return true;
}

static void lex_operator(lexer *x)
{
    static const struct {
        char z[3];
        uint8_t type;
    } ops[] = {
        { "//", T_FLOORDIV }, { "**", T_POW }, { "==", T_EQ }, { "!=", T_NE }, { ">=", T_GE },
        { "<=", T_LE }, { "+", T_ADD }, { "-", T_SUB }, { "/", T_DIV }, { "*", T_MUL },
        { "%", T_MOD }, { "~", T_TILDE }, { "[", T_LBRACKET }, { "]", T_RBRACKET },
        { "(", T_LPAREN }, { ")", T_RPAREN }, { "{", T_LBRACE }, { "}", T_RBRACE }, { ">", T_GT },
        { "<", T_LT }, { "=", T_ASSIGN }, { ".", T_DOT }, { ":", T_COLON }, { "|", T_PIPE },
        { ",", T_COMMA }, { ";", T_SEMICOLON },
    };
    for (size_t k = 0; k < HY_COUNT(ops); k++) {
        if (!at(x, x->i, ops[k].z)) continue;
        char c = ops[k].z[0];
        if (c == '(' || c == '[' || c == '{') {
            if (x->n_stack == sizeof x->stack)
                hy_parse_fail(x->p, x->line, HY_E_LIMIT, "brackets nest deeper than %u",
                              x->n_stack);
            x->stack[x->n_stack++] = c == '(' ? ')' : c == '[' ? ']' : '}';
        } else if (c == ')' || c == ']' || c == '}') {
            if (!x->n_stack) hy_parse_fail(x->p, x->line, HY_E_FORMAT, "unexpected '%c'", c);
            char want = x->stack[--x->n_stack];
            if (want != c)
                hy_parse_fail(x->p, x->line, HY_E_FORMAT, "unexpected '%c', expected '%c'", c, want);
        }
        size_t n = strlen(ops[k].z);
        add_token(x->p, (hy_tok)ops[k].type, x->line, x->s + x->i, n);
        move_to(x, x->i + n);
        return;
    }
    uint32_t r;
    size_t k = hy_utf8_next(x->s + x->i, x->n - x->i, &r);
    hy_parse_fail(x->p, x->line, HY_E_FORMAT, "unexpected char '%.*s' at %zu", (int)k, x->s + x->i,
                  x->i);
}

/* Inside {{ }} or {% %} up to its end. */
static void lex_tag(lexer *x, bool is_var)
{
    x->n_stack = 0;
    while (x->i < x->n) {
        size_t e = 0;
        if (x->n_stack == 0) e = match_end(x, x->i, is_var ? "}}" : "%}", !is_var);
        if (e) {
            add_token(x->p, is_var ? T_VAR_END : T_BLOCK_END, x->line, x->s + x->i, 2);
            move_to(x, e);
            return;
        }
        size_t sp = skip_space(x, x->i);
        if (sp > x->i) {
            move_to(x, sp);
            continue;
        }
        if (lex_float(x) || lex_int(x) || lex_name(x) || lex_string(x)) continue;
        lex_operator(x);
    }
}

static void lex_comment(lexer *x)
{
    for (size_t i = x->i; i < x->n; i++) {
        size_t e = match_end(x, i, "#}", true);
        if (e) {
            move_to(x, e);
            return;
        }
    }
    if (x->i < x->n) hy_parse_fail(x->p, x->line, HY_E_FORMAT, "Missing end of comment tag");
}

static void lex_raw(lexer *x)
{
    for (size_t i = x->i; i < x->n; i++) {
        if (!at(x, i, "{%")) continue;
        char sign;
        size_t j = match_word(x, i, "endraw", &sign);
        size_t e = j ? match_end(x, j, "%}", true) : 0;
        if (!e) continue;
        put_data(x, x->i, i, sign, false);
        move_to(x, e);
        return;
    }
    if (x->i < x->n) hy_parse_fail(x->p, x->line, HY_E_FORMAT, "Missing end of raw directive");
}

/* \r\n and \r become \n; one newline at the very end goes; invalid UTF-8 is repaired. */
static void normalise(hy_parser *p)
{
    hy_buf raw = { 0 };
    if (!hy_utf8_valid(p->src, p->n_src)) {
        hy_utf8_repair(p->src, p->n_src, &raw);
        if (raw.failed) {
            hy_buf_free(&raw);
            hy_parse_fail(p, 1, HY_E_MEMORY, "out of memory for %zu bytes", p->n_src);
        }
    }
    const char *s = raw.data ? raw.data : p->src;
    size_t n = raw.data ? raw.len : p->n_src;
    char *buf = hy_arena_alloc(p->t->arena, n + 1, 1);
    size_t k = 0;
    for (size_t i = 0; buf && i < n; i++) {
        if (s[i] == '\r') {
            buf[k++] = '\n';
            if (i + 1 < n && s[i + 1] == '\n') i++;
        } else {
            buf[k++] = s[i];
        }
    }
    hy_buf_free(&raw);
    if (!buf) hy_parse_fail(p, 1, HY_E_MEMORY, "out of memory for %zu bytes", n);
    if (k > 0 && buf[k - 1] == '\n') k--;
    p->src = buf;
    p->n_src = k;
}

void hy_parse_lex(hy_parser *p)
{
    normalise(p);
    lexer x = { .p = p, .s = p->src, .n = p->n_src, .line = 1, .line_start = true };
    while (x.i < x.n) {
        size_t i = x.i;
        while (i < x.n && !(x.s[i] == '{' && i + 1 < x.n && strchr("%{#", x.s[i + 1]) && x.s[i + 1]))
            i++;
        if (i >= x.n) {
            add_token(p, T_DATA, x.line, x.s + x.i, x.n - x.i);
            move_to(&x, x.n);
            break;
        }
        char kind = x.s[i + 1], sign = 0;
        if (kind == '%') { /* {% raw %} does not take the newline after it */
            char rs;
            size_t j = match_word(&x, i, "raw", &rs), e = 0;
            if (j && at(&x, j, "%}")) e = j + 2;
            if (j && at(&x, j, "-%}")) e = skip_space(&x, j + 3);
            if (e) {
                put_data(&x, x.i, i, rs, false);
                move_to(&x, e);
                lex_raw(&x);
                continue;
            }
        }
        if (i + 2 < x.n && (x.s[i + 2] == '-' || x.s[i + 2] == '+')) sign = x.s[i + 2];
        put_data(&x, x.i, i, sign, kind == '{');
        move_to(&x, i + 2 + (sign != 0));
        if (kind == '#') {
            lex_comment(&x);
            continue;
        }
        add_token(p, kind == '{' ? T_VAR_BEGIN : T_BLOCK_BEGIN, x.line, x.s + i, 2);
        lex_tag(&x, kind == '{');
    }
    add_token(p, T_EOF, x.line, x.s + x.n, 0);
}
