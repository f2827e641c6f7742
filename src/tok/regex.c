/* Pre-tokenizer expressions over PCRE2 with JIT.
 *
 * tokenizer.json holds Oniguruma (Ruby syntax) expressions. Where PCRE2 reads the same words
 * differently they are rewritten: \s and \w (other sets), script names (PCRE2 takes script
 * extensions), && in classes, nested classes, \h, \uHHHH, long names of general categories. A few
 * expressions that would take quadratic time on long runs are matched by hand. */
#include "tok/tok_impl.h"
#include <stdio.h>
#include <string.h>

#define SPACES                                                                                     \
    "\\t-\\r "                                                                                     \
    "\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
/* Latin-1 has its own table in Oniguruma: the superscripts and fractions there are word characters
 */
#define WORDS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"

static const struct {
    const char *from, *to;
} property_names[] = {{"Letter", "L"},
                      {"Lowercase_Letter", "Ll"},
                      {"Uppercase_Letter", "Lu"},
                      {"Titlecase_Letter", "Lt"},
                      {"Modifier_Letter", "Lm"},
                      {"Other_Letter", "Lo"},
                      {"Mark", "M"},
                      {"Nonspacing_Mark", "Mn"},
                      {"Number", "N"},
                      {"Decimal_Number", "Nd"},
                      {"Digit", "Nd"},
                      {"Punctuation", "P"},
                      {"Punct", "P"},
                      {"Symbol", "S"},
                      {"Separator", "Z"},
                      {"Space_Separator", "Zs"},
                      {"Other", "C"},
                      {"Control", "Cc"},
                      {"Space", "White_Space"},
                      {"Alpha", "Alphabetic"},
                      {"Upper", "Uppercase"},
                      {"Lower", "Lowercase"}};

static const char *const script_names[] = {
    "Han",        "Hiragana", "Katakana", "Hangul",   "Bopomofo", "Thai",      "Lao",
    "Khmer",      "Myanmar",  "Latin",    "Greek",    "Cyrillic", "Arabic",    "Hebrew",
    "Devanagari", "Bengali",  "Tamil",    "Telugu",   "Kannada",  "Malayalam", "Gujarati",
    "Gurmukhi",   "Oriya",    "Sinhala",  "Tibetan",  "Georgian", "Armenian",  "Ethiopic",
    "Mongolian",  "Yi",       "Common",   "Inherited"};

typedef struct translator {
    const char *p, *end;
    hy_buf out;
    hy_buf or_not; /* \S, \W and \H of the class being read, as "|[^...]" */
    int depth;
    bool bad;
} translator;

static bool same(const char *a, const char *b, size_t n_b)
{
    return strlen(a) == n_b && !strncasecmp(a, b, n_b);
}

/* \p{...}, \P{...}: p stands after the letter. */
static void property(translator *x, char letter)
{
    const char *close =
        x->p < x->end && *x->p == '{' ? memchr(x->p, '}', (size_t)(x->end - x->p)) : NULL;
    hy_buf_printf(&x->out, "\\%c", letter);
    if (!close) return;
    const char *name = x->p + 1;
    size_t n = (size_t)(close - name);
    hy_buf_char(&x->out, '{');
    if (n && *name == '^') {
        hy_buf_char(&x->out, '^');
        name++;
        n--;
    }
    const char *to = NULL;
    for (size_t i = 0; i < HY_COUNT(property_names); i++)
        if (same(property_names[i].from, name, n)) to = property_names[i].to;
    for (size_t i = 0; i < HY_COUNT(script_names); i++)
        if (same(script_names[i], name, n)) hy_buf_str(&x->out, "sc:");
    if (to)
        hy_buf_str(&x->out, to);
    else
        hy_buf_put(&x->out, name, n);
    hy_buf_char(&x->out, '}');
    x->p = close + 1;
}

/* One escape; p stands after the backslash. */
static void escape(translator *x, bool in_class)
{
    if (x->p >= x->end) {
        hy_buf_str(&x->out, "\\\\");
        return;
    }
    char c = *x->p++;
    if (c == 's' || c == 'w' || c == 'h') {
        const char *set = c == 's' ? SPACES : c == 'w' ? WORDS : "0-9A-Fa-f";
        hy_buf_printf(&x->out, in_class ? "%s" : "[%s]", set);
    } else if (c == 'S' || c == 'W' || c == 'H') {
        const char *set = c == 'S' ? SPACES : c == 'W' ? WORDS : "0-9A-Fa-f";
        hy_buf_printf(in_class ? &x->or_not : &x->out, in_class ? "|[^%s]" : "[^%s]", set);
    } else if ((c == 'b' || c == 'B') && !in_class) {
        const char *in = c == 'b' ? "!" : "=", *out = c == 'b' ? "=" : "!";
        hy_buf_printf(&x->out, "(?:(?<=[%s])(?%s[%s])|(?<![%s])(?%s[%s]))", WORDS, in, WORDS, WORDS,
                      out, WORDS);
    } else if (c == 'p' || c == 'P') {
        property(x, c);
    } else if (c == 'u' && x->end - x->p >= 4) {
        hy_buf_printf(&x->out, "\\x{%.4s}", x->p);
        x->p += 4;
    } else {
        hy_buf_char(&x->out, '\\');
        hy_buf_char(&x->out, c);
    }
}

/* The items of a class up to ] or &&, nested classes flattened, into `out`. */
static void class_items(translator *x)
{
    bool first = true;
    while (x->p < x->end && !x->bad) {
        char c = *x->p;
        if (c == ']' && !first) return;
        if (c == '&' && x->end - x->p > 1 && x->p[1] == '&') return;
        first = false;
        x->p++;
        if (c == '\\') {
            escape(x, true);
        } else if (c == '[' && x->p < x->end && *x->p == ':') {
            const char *close = memmem(x->p, (size_t)(x->end - x->p), ":]", 2);
            if (close && close - x->p == 6 && !memcmp(x->p, ":punct", 6)) {
                hy_buf_str(&x->out, "\\p{P}\\p{S}");
                x->p = close + 2;
            } else if (close) {
                hy_buf_put(&x->out, x->p - 1, (size_t)(close + 2 - (x->p - 1)));
                x->p = close + 2;
            } else {
                hy_buf_str(&x->out, "\\[");
            }
        } else if (c == '[') {
            if (++x->depth > 20 || (x->p < x->end && *x->p == '^')) {
                x->bad = true; /* a negated class inside a class */
                return;
            }
            class_items(x);
            if (x->p < x->end && *x->p == ']') x->p++;
            x->depth--;
        } else {
            hy_buf_char(&x->out, c);
        }
    }
}

/* Reads items up to ] or && and appends an expression for one character in (or not in) the set. */
static void class_part(translator *x, bool negated, hy_buf *to)
{
    hy_buf outer = x->out, outer_not = x->or_not;
    x->out = x->or_not = (hy_buf){0};
    class_items(x);
    hy_buf items = x->out, or_not = x->or_not;
    x->out = outer;
    x->or_not = outer_not;
    if (!items.len && !or_not.len) x->bad = true;
    if (negated && or_not.len) hy_buf_printf(to, "(?!%s)", or_not.data + 1);
    if (!negated && or_not.len) hy_buf_str(to, "(?:");
    if (items.len) {
        hy_buf_str(to, negated ? "[^" : "[");
        hy_buf_put(to, items.data, items.len);
        hy_buf_char(to, ']');
    } else {
        hy_buf_str(to, negated ? "(?s:.)" : "(?!)");
    }
    if (!negated && or_not.len) hy_buf_printf(to, "%s)", or_not.data);
    to->failed |= items.failed | or_not.failed;
    hy_buf_free(&items);
    hy_buf_free(&or_not);
}

/* [A&&B&&[^C]] becomes (?:(?=[B])(?=[^C])[A]); p stands after the bracket. */
static void class_set(translator *x)
{
    hy_buf main = {0}, ahead = {0};
    bool negated = x->p < x->end && *x->p == '^';
    if (negated) x->p++;
    class_part(x, negated, &main);
    while (x->p < x->end && *x->p == '&' && !x->bad) {
        x->p += 2;
        bool bracket = x->p < x->end && *x->p == '[';
        if (bracket) x->p++;
        bool not_in = bracket && x->p < x->end && *x->p == '^';
        if (not_in) x->p++;
        hy_buf_str(&ahead, "(?=");
        class_part(x, not_in, &ahead);
        hy_buf_char(&ahead, ')');
        if (bracket && x->p < x->end && *x->p == ']') x->p++;
    }
    x->bad |= negated && ahead.len;
    if (x->p < x->end && *x->p == ']')
        x->p++;
    else
        x->bad = true;
    bool bare =
        !ahead.len && main.len && main.data[0] == '['; /* the matcher is faster without groups */
    if (!bare) hy_buf_str(&x->out, "(?:");
    hy_buf_put(&x->out, ahead.data, ahead.len);
    hy_buf_put(&x->out, main.data, main.len);
    if (!bare) hy_buf_char(&x->out, ')');
    x->out.failed |= main.failed | ahead.failed;
    hy_buf_free(&main);
    hy_buf_free(&ahead);
}

static void translate(translator *x)
{
    while (x->p < x->end && !x->bad) {
        char c = *x->p++;
        if (c == '\\')
            escape(x, false);
        else if (c == '[')
            class_set(x);
        else
            hy_buf_char(&x->out, c);
    }
}

/* Expressions that backtrack quadratically over long runs, by their exact text. */
static bool by_hand(const char *s, size_t n, tok_regex_kind *kind)
{
    static const struct {
        const char *text;
        tok_regex_kind kind;
    } known[] = {
        {"\\s+$", TOK_RE_SPACE_END},
        {"(?=(\\d{3})+(?!\\d))", TOK_RE_DIGITS3},
        {"(?=(?:\\d{3})+(?!\\d))", TOK_RE_DIGITS3},
        {"\\d{1,3}(?=(?:\\d{3})*\\b)", TOK_RE_DIGITS3_WORD},
    };
    for (size_t i = 0; i < HY_COUNT(known); i++)
        if (strlen(known[i].text) == n && !memcmp(known[i].text, s, n)) {
            *kind = known[i].kind;
            return true;
        }
    return false;
}

static hy_status compile(hy_tok *t, tok_regex *re, const char *pattern, size_t n, hy_err *err)
{
    translator x = {.p = pattern, .end = pattern + n};
    translate(&x);
    if (x.out.failed || (!x.out.data && !hy_buf_reserve(&x.out, 1))) {
        hy_buf_free(&x.out);
        return hy_fail_memory(err, "regular expression", n);
    }
    if (x.bad) {
        hy_buf_free(&x.out);
        return hy_fail(err, HY_E_UNSUPPORTED, "regular expression %.*s: this character class",
                       (int)HY_MIN(n, 200u), pattern);
    }
    int code = 0;
    PCRE2_SIZE where = 0;
    re->code = pcre2_compile((PCRE2_SPTR)x.out.data, x.out.len,
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_UTF_CHECK, &code,
                             &where, t->pcre_compile);
    hy_buf_free(&x.out);
    if (!re->code && code == PCRE2_ERROR_HEAP_FAILED) return hy_fail_memory(err, "regular expression", n);
    if (!re->code) {
        PCRE2_UCHAR msg[128] = "";
        pcre2_get_error_message(code, msg, sizeof msg);
        return hy_fail(err, HY_E_FORMAT, "regular expression %.*s: %s", (int)HY_MIN(n, 200u),
                       pattern, (const char *)msg);
    }
    pcre2_jit_compile(re->code, PCRE2_JIT_COMPLETE); /* without JIT the interpreter matches */
    return HY_OK;
}

hy_status tok_regex_new(hy_tok *t, tok_regex **out, const char *pattern, size_t n, bool literal,
                        hy_err *err)
{
    tok_regex *re = HY_ARENA_NEW(t->arena, tok_regex, 1);
    if (!re) return hy_fail_memory(err, "regular expression", sizeof *re);
    *out = re;
    if (!hy_utf8_valid(pattern, n))
        return hy_fail(err, HY_E_FORMAT, "regular expression is not UTF-8");
    if (n > 65536)
        return hy_fail(err, HY_E_LIMIT, "regular expression of %zu bytes, limit 65536", n);
    if (literal) {
        re->kind = TOK_RE_LITERAL;
        re->text = hy_arena_strndup(t->arena, pattern, n);
        re->n_text = n;
        return re->text ? HY_OK : hy_fail_memory(err, "pattern", n);
    }
    if (by_hand(pattern, n, &re->kind)) return HY_OK;
    return compile(t, re, pattern, n, err);
}

void tok_regex_free(tok_regex *re)
{
    if (re && re->code) pcre2_code_free(re->code);
}

/* ---- matching ---- */

static bool find_space_end(const char *s, size_t n, size_t at, size_t *from, size_t *to)
{
    size_t start = SIZE_MAX, last = 0; /* start of the run; last place in it that ends a line */
    while (at < n) {
        uint32_t c;
        size_t k = hy_utf8_next(s + at, n - at, &c);
        if (!tok_is_space(c)) {
            if (start != SIZE_MAX && last > start) break;
            start = SIZE_MAX;
        } else {
            if (start == SIZE_MAX) start = last = at;
            if (at + k == n || s[at + k] == '\n') last = at + k;
        }
        at += k;
    }
    if (start == SIZE_MAX || last <= start) return false;
    *from = start;
    *to = last;
    return true;
}

static bool is_nd(const char *s, size_t n, size_t *bytes)
{
    uint32_t c;
    *bytes = hy_utf8_next(s, n, &c);
    if (c < 0x80) return c >= '0' && c <= '9';
    return tok_is_digit(c);
}

/* Next run of decimal digits from `at`; its end and its number of digits. A run that was counted
 * before is not counted again: callers walk it from its start, group by group. */
static bool digit_run(tok_work *w, const char *s, size_t n, size_t *at, size_t *end,
                      size_t *n_digit)
{
    size_t k, count = 0;
    if (w->digits == s && *at >= w->digit_from && *at <= w->digit_to) {
        for (size_t i = w->digit_from; i < *at; i += k, w->n_digit--) is_nd(s + i, n - i, &k);
        w->digit_from = *at;
        *end = w->digit_to;
        *n_digit = w->n_digit;
        if (*n_digit) return true;
    }
    while (*at < n && !is_nd(s + *at, n - *at, &k)) *at += k;
    *end = *at;
    while (*end < n && is_nd(s + *end, n - *end, &k)) {
        *end += k;
        count++;
    }
    w->digits = s;
    w->digit_from = *at;
    w->digit_to = *end;
    *n_digit = w->n_digit = count;
    return count > 0;
}

static size_t skip_digits(const char *s, size_t n, size_t at, size_t n_digit)
{
    while (n_digit--) {
        uint32_t c;
        at += hy_utf8_next(s + at, n - at, &c);
    }
    return at;
}

/* Groups of three, counted from the right end of a run: a zero-width cut in front of each, or the
 * group itself (the first may be shorter) where the run ends a word. */
static bool find_digits(tok_work *w, bool word, const char *s, size_t n, size_t at, size_t *from,
                        size_t *to)
{
    size_t end, n_digit;
    if (!at) w->digits = NULL; /* another text may lie at the same address */
    while (at < n && digit_run(w, s, n, &at, &end, &n_digit)) {
        size_t lead = n_digit % 3;
        if (word) {
            uint32_t c = ' ';
            if (end < n) hy_utf8_next(s + end, n - end, &c);
            if (!tok_is_word(c) || c == 0x200C || c == 0x200D) { /* Oniguruma's \w has no joiners */
                *from = at;
                *to = skip_digits(s, n, at, lead ? lead : 3);
                return true;
            }
        } else if (n_digit >= 3) {
            *from = *to = skip_digits(s, n, at, lead);
            return true;
        }
        at = end;
    }
    return false;
}

static bool ensure_match(tok_work *w)
{
    if (w->match) return true;
    w->match = pcre2_match_data_create(1, w->t->pcre);
    w->context = pcre2_match_context_create(w->t->pcre);
    if (!w->match || !w->context) {
        w->failed = true;
        return false;
    }
    pcre2_set_depth_limit(w->context, UINT32_MAX);
    pcre2_set_heap_limit(w->context, 1u << 20); /* KiB */
    w->stack = pcre2_jit_stack_create(32 * 1024, 64u << 20, w->t->pcre);
    if (w->stack) pcre2_jit_stack_assign(w->context, NULL, w->stack);
    return true;
}

static bool find_pcre(const tok_regex *re, tok_work *w, const char *s, size_t n, size_t at,
                      size_t *from, size_t *to)
{
    if (!ensure_match(w)) return false;
    /* room for any honest pattern over n bytes; an exponential one ends here */
    pcre2_set_match_limit(w->context, 10000000u + (uint32_t)HY_MIN(n, 1u << 24) * 64u);
    int rc = pcre2_match(re->code, (PCRE2_SPTR)s, n, at, PCRE2_NO_UTF_CHECK, w->match, w->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(re->code, (PCRE2_SPTR)s, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                         w->match, w->context);
    if (rc < 0) return false; /* no match, or beyond the limits: the rest stays one piece */
    const PCRE2_SIZE *v = pcre2_get_ovector_pointer(w->match);
    *from = v[0];
    *to = v[1];
    return v[0] <= v[1] && v[0] >= at && v[1] <= n;
}

bool tok_regex_find(const tok_regex *re, tok_work *w, const char *s, size_t n, size_t at,
                    size_t *from, size_t *to)
{
    switch (re->kind) {
    case TOK_RE_LITERAL: {
        if (!re->n_text || n < at) return false;
        const char *p = memmem(s + at, n - at, re->text, re->n_text);
        if (!p) return false;
        *from = (size_t)(p - s);
        *to = *from + re->n_text;
        return true;
    }
    case TOK_RE_SPACE_END:
        return find_space_end(s, n, at, from, to);
    case TOK_RE_DIGITS3:
        return find_digits(w, false, s, n, at, from, to);
    case TOK_RE_DIGITS3_WORD:
        return find_digits(w, true, s, n, at, from, to);
    case TOK_RE_PCRE:
        break;
    }
    return find_pcre(re, w, s, n, at, from, to);
}
