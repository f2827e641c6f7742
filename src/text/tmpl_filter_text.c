/* Filters over text. */
#include "text/tmpl.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define FN(name) static hy_val name(hy_rt *rt, hy_val self, const hy_val *a, const hy_args *raw)

static bool given(hy_val v)
{
    return v.type != HY_V_MISSING;
}

static bool flag(hy_rt *rt, hy_val v, bool dflt)
{
    return given(v) ? hy_v_truth(rt, v) : dflt;
}

static int64_t int_arg(hy_rt *rt, hy_val v, int64_t dflt)
{
    if (!given(v) || v.type == HY_V_NONE) return dflt;
    if (v.type == HY_V_UNDEF) hy_rt_fail_undef(rt, v);
    if (!hy_is_int(v))
        hy_rt_fail(rt, HY_E_FORMAT, "'%s' object cannot be interpreted as an integer",
                   hy_v_type_name(v));
    return hy_as_int(v);
}

static hy_val need_text(hy_rt *rt, hy_val v, const char *what)
{
    if (v.type == HY_V_UNDEF) hy_rt_fail_undef(rt, v);
    if (v.type != HY_V_STR)
        hy_rt_fail(rt, HY_E_FORMAT, "%s: a str is needed, not %s", what, hy_v_type_name(v));
    return v;
}

static hy_val plain(hy_rt *rt, hy_val v)
{
    v = hy_v_to_str(rt, v);
    v.markup = false;
    return v;
}

FN(f_upper) { return hy_str_case(rt, hy_v_to_str(rt, self), 'u'); }
FN(f_lower) { return hy_str_case(rt, hy_v_to_str(rt, self), 'l'); }
FN(f_capitalize) { return hy_str_case(rt, hy_v_to_str(rt, self), 'c'); }
FN(f_trim) { return hy_str_strip(rt, hy_v_to_str(rt, self), a[0], true, true); }
FN(f_string) { return hy_v_to_str(rt, self); }
FN(f_escape) { return hy_v_escape(rt, self); }
FN(f_forceescape) { return hy_v_escape(rt, plain(rt, self)); }

FN(f_safe)
{
    hy_val v = hy_v_to_str(rt, self);
    v.markup = true;
    return v;
}

/* The first letter of each word up, the rest down; words begin after - ( { [ < and white space. */
FN(f_title)
{
    hy_val s = hy_v_to_str(rt, self);
    hy_sb b = { .rt = rt };
    bool start = true;
    size_t from = 0;
    for (size_t i = 0; i <= s.u.s->n;) {
        uint32_t r = 0;
        size_t k = i < s.u.s->n ? hy_utf8_next(s.u.s->p + i, s.u.s->n - i, &r) : 1;
        bool sep = i < s.u.s->n && (hy_uc_space(r) || (r < 0x80 && r && strchr("-({[<", (int)r)));
        if (i == s.u.s->n || sep) { /* what stands between from and i is the rest of a word */
            hy_val rest = hy_str_case(rt, hy_str_sub(rt, s.u.s, from, i, false), 'l');
            hy_sb_put(&b, rest.u.s->p, rest.u.s->n);
            if (sep) hy_sb_put(&b, s.u.s->p + i, k);
            from = i + k;
            start = true;
        } else if (start) {
            hy_val first = hy_str_case(rt, hy_str_sub(rt, s.u.s, i, i + k, false), 'u');
            hy_sb_put(&b, first.u.s->p, first.u.s->n);
            from = i + k;
            start = false;
        }
        i += k;
    }
    return hy_sb_take(&b);
}

FN(f_replace)
{
    return hy_str_replace(rt, plain(rt, self), plain(rt, a[0]), plain(rt, a[1]),
                          int_arg(rt, a[2], -1));
}

FN(f_center)
{
    hy_val s = hy_v_to_str(rt, self);
    hy_val width = given(a[0]) ? a[0] : hy_v_int(80);
    hy_args args = { &width, 1, NULL, 0 };
    return hy_fn_call(rt, hy_find_str_method("center", 6), s, &args);
}

FN(f_indent)
{
    hy_val s = need_text(rt, self, "indent");
    hy_sb pad = { .rt = rt }, b = { .rt = rt };
    if (given(a[0]) && a[0].type == HY_V_STR) hy_sb_put(&pad, a[0].u.s->p, a[0].u.s->n);
    else hy_sb_fill(&pad, ' ', int_arg(rt, a[0], 4));
    bool first = flag(rt, a[1], false), blank = flag(rt, a[2], false);
    hy_sb text = { .rt = rt }; /* one more newline, so that a last empty line counts */
    hy_sb_put(&text, s.u.s->p, s.u.s->n);
    hy_sb_str(&text, "\n");
    hy_list *l = hy_str_lines(rt, hy_sb_take(&text).u.s, false);
    for (size_t i = 0; i < l->n; i++) {
        const hy_str *line = l->v[i].u.s;
        if (i) hy_sb_str(&b, "\n");
        if (i == 0 ? first : line->n || blank) hy_sb_put(&b, pad.p, pad.n);
        hy_sb_put(&b, line->p, line->n);
    }
    hy_val v = hy_sb_take(&b);
    v.markup = s.markup;
    return v;
}

FN(f_truncate)
{
    int64_t length = int_arg(rt, a[0], 255), leeway = int_arg(rt, a[3], 5);
    hy_val end = given(a[2]) ? need_text(rt, a[2], "truncate") : hy_v_text(rt, "...");
    int64_t n_end = hy_v_len(rt, end), n = hy_v_len(rt, self);
    if (length < n_end)
        hy_rt_fail(rt, HY_E_FORMAT, "expected length >= %lld, got %lld", (long long)n_end,
                   (long long)length);
    if (leeway < 0) hy_rt_fail(rt, HY_E_FORMAT, "expected leeway >= 0, got %lld", (long long)leeway);
    if (n <= length || n - length <= leeway) return self;
    hy_val s = need_text(rt, self, "truncate");
    size_t cut = hy_str_offset(s.u.s, (size_t)(length - n_end));
    if (!flag(rt, a[1], false)) {
        size_t k = cut;
        while (k > 0 && s.u.s->p[k - 1] != ' ') k--;
        if (k > 0) cut = k - 1;
    }
    hy_sb b = { .rt = rt };
    hy_sb_put(&b, s.u.s->p, cut);
    hy_sb_put(&b, end.u.s->p, end.u.s->n);
    return hy_sb_take(&b);
}

FN(f_wordcount)
{
    hy_val s = hy_v_to_str(rt, self);
    int64_t n = 0;
    bool in = false;
    for (size_t i = 0; i < s.u.s->n;) {
        uint32_t r;
        i += hy_utf8_next(s.u.s->p + i, s.u.s->n - i, &r);
        bool w = r == '_' || hy_uc_alpha(r) || hy_uc_numeric(r);
        n += w && !in;
        in = w;
    }
    return hy_v_int(n);
}

FN(f_format)
{
    hy_val s = hy_v_to_str(rt, self), args;
    if (raw->n && raw->n_kw)
        hy_rt_fail(rt, HY_E_FORMAT, "can't handle positional and keyword arguments at the same time");
    if (raw->n_kw) {
        args = hy_v_dict(rt);
        for (size_t i = 0; i < raw->n_kw; i++)
            hy_dict_set(rt, args.u.d, hy_v_str(rt, raw->kw[i].name->p, raw->kw[i].name->n),
                        raw->kw[i].v);
    } else {
        args = hy_v_list(rt, HY_V_TUPLE, raw->n);
        for (size_t i = 0; i < raw->n; i++) hy_list_push(rt, args.u.l, raw->v[i]);
    }
    return hy_format_percent(rt, s, args);
}

/* ---- JSON, pretty print ---------------------------------------------------------------------- */

FN(f_tojson)
{
    static const hy_str comma_sp = { ", ", 2, 2 }, comma = { ",", 1, 1 }, colon = { ": ", 2, 2 };
    hy_dump o = { NULL, &comma_sp, &colon, flag(rt, a[3], false), flag(rt, a[0], false) };
    if (given(a[1]) && a[1].type != HY_V_NONE) {
        hy_val pad = a[1];
        if (pad.type != HY_V_STR) {
            hy_sb b = { .rt = rt };
            hy_sb_fill(&b, ' ', int_arg(rt, pad, 0));
            pad = hy_sb_take(&b);
        }
        o.indent = pad.u.s;
        o.item_sep = &comma;
    }
    if (given(a[2]) && a[2].type != HY_V_NONE) {
        hy_list *l = hy_v_to_list(rt, a[2]);
        if (l->n != 2)
            hy_rt_fail(rt, HY_E_FORMAT, "tojson: separators must be a pair, not %zu items", l->n);
        o.item_sep = need_text(rt, l->v[0], "separator").u.s;
        o.key_sep = need_text(rt, l->v[1], "separator").u.s;
    }
    hy_sb b = { .rt = rt };
    hy_json_dump(&b, self, &o, 0);
    return hy_sb_take(&b);
}

static hy_val sorted_keys(hy_rt *rt, hy_val v, int depth)
{
    if (depth > HY_VALUE_DEPTH) hy_rt_fail(rt, HY_E_LIMIT, "values nest deeper than %d", depth);
    if (v.type == HY_V_LIST || v.type == HY_V_TUPLE) {
        hy_val o = hy_v_list(rt, (hy_vtype)v.type, v.u.l->n);
        for (size_t i = 0; i < v.u.l->n; i++)
            hy_list_push(rt, o.u.l, sorted_keys(rt, v.u.l->v[i], depth + 1));
        return o;
    }
    if (v.type != HY_V_DICT) return v;
    hy_args none = { 0 };
    hy_val exact = hy_v_bool(true);
    none.v = &exact;
    none.n = 1;
    hy_val items = hy_fn_call(rt, hy_find_filter("dictsort", 8), v, &none), o = hy_v_dict(rt);
    for (size_t i = 0; i < items.u.l->n; i++) {
        const hy_list *p = items.u.l->v[i].u.l;
        hy_dict_set(rt, o.u.d, p->v[0], sorted_keys(rt, p->v[1], depth + 1));
    }
    return o;
}

/* As Python's pprint while one line of 80 is enough; longer containers take one line an item. */
static void pretty(hy_sb *b, hy_val v, size_t indent, size_t room, int depth)
{
    hy_sb one = { .rt = b->rt };
    hy_sb_repr(&one, v, depth);
    bool list = v.type == HY_V_LIST || v.type == HY_V_TUPLE, dict = v.type == HY_V_DICT;
    size_t n = list ? v.u.l->n : dict ? v.u.d->n : 0;
    hy_str s = { one.p, one.n, SIZE_MAX };
    if (!n || indent + hy_str_runes(&s) + room <= 80) {
        hy_sb_put(b, one.p, one.n);
        return;
    }
    hy_sb_str(b, dict ? "{" : v.type == HY_V_LIST ? "[" : "(");
    for (size_t i = 0; i < n; i++) {
        size_t in = indent + 1;
        if (i) {
            hy_sb_str(b, ",\n");
            hy_sb_fill(b, ' ', (int64_t)in);
        }
        if (dict) {
            hy_sb key = { .rt = b->rt };
            hy_sb_repr(&key, v.u.d->v[i].key, depth);
            hy_sb_put(b, key.p, key.n);
            hy_sb_str(b, ": ");
            in += key.n + 2;
        }
        pretty(b, dict ? v.u.d->v[i].value : v.u.l->v[i], in, i + 1 == n ? room + 1 : 1, depth + 1);
    }
    if (v.type == HY_V_TUPLE && n == 1) hy_sb_str(b, ",");
    hy_sb_str(b, dict ? "}" : v.type == HY_V_LIST ? "]" : ")");
}

FN(f_pprint)
{
    hy_sb b = { .rt = rt };
    pretty(&b, sorted_keys(rt, self, 0), 0, 0, 0);
    return hy_sb_take(&b);
}

/* ---- HTML and URLs --------------------------------------------------------------------------- */

static void quote_url(hy_sb *b, hy_val v, bool query)
{
    hy_val s = hy_v_to_str(b->rt, v);
    for (size_t i = 0; i < s.u.s->n; i++) {
        uint8_t c = (uint8_t)s.u.s->p[i];
        char esc[4];
        bool safe = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z' && c < 0x80) ||
                    (c && strchr("_.-~", c)) || (c == '/' && !query);
        if (safe) snprintf(esc, sizeof esc, "%c", c);
        else if (c == ' ' && query) snprintf(esc, sizeof esc, "+");
        else snprintf(esc, sizeof esc, "%%%02X", c);
        hy_sb_str(b, esc);
    }
}

FN(f_urlencode)
{
    hy_sb b = { .rt = rt };
    if (self.type == HY_V_STR || !hy_v_iterable(self)) {
        quote_url(&b, self, false);
        return hy_sb_take(&b);
    }
    if (self.type == HY_V_DICT) self = (hy_val){ .type = HY_V_VIEW, .aux = 'i', .u.d = self.u.d };
    hy_iter it;
    hy_val v;
    hy_iter_init(rt, &it, self);
    for (size_t i = 0; hy_iter_next(rt, &it, &v); i++) {
        hy_list *p = hy_v_to_list(rt, v);
        if (p->n != 2)
            hy_rt_fail(rt, HY_E_FORMAT, "urlencode: a pair is needed, not %zu items", p->n);
        if (i) hy_sb_str(&b, "&");
        quote_url(&b, p->v[0], true);
        hy_sb_str(&b, "=");
        quote_url(&b, p->v[1], true);
    }
    return hy_sb_take(&b);
}

FN(f_xmlattr)
{
    if (self.type != HY_V_DICT)
        hy_rt_fail(rt, HY_E_FORMAT, "xmlattr: '%s' object has no attribute 'items'",
                   hy_v_type_name(self));
    hy_sb b = { .rt = rt };
    for (size_t i = 0; i < self.u.d->n; i++) {
        const hy_entry *e = &self.u.d->v[i];
        if (e->value.type == HY_V_NONE || e->value.type == HY_V_UNDEF) continue;
        const hy_str *k = need_text(rt, e->key, "xmlattr").u.s;
        for (size_t j = 0; j < k->n; j++)
            if (k->p[j] && strchr(" \t\n\r\f\v/>=", k->p[j]))
                hy_rt_fail(rt, HY_E_FORMAT, "Invalid character in attribute name: %s",
                           hy_v_repr_z(rt, e->key));
        if (b.n || flag(rt, a[0], true)) hy_sb_str(&b, " ");
        hy_sb_val(&b, hy_v_escape(rt, e->key));
        hy_sb_str(&b, "=\"");
        hy_sb_val(&b, hy_v_escape(rt, e->value));
        hy_sb_str(&b, "\"");
    }
    return hy_sb_take(&b);
}

/* Cuts everything from `open` to `close`. */
static hy_val cut_between(hy_rt *rt, hy_val s, const char *open, const char *close)
{
    hy_sb b = { .rt = rt };
    size_t i = 0;
    for (;;) {
        size_t f = hy_bytes_find(s.u.s->p + i, s.u.s->n - i, open, strlen(open));
        if (f == SIZE_MAX) break;
        size_t g = hy_bytes_find(s.u.s->p + i + f, s.u.s->n - i - f, close, strlen(close));
        if (g == SIZE_MAX) break;
        hy_sb_put(&b, s.u.s->p + i, f);
        i += f + g + strlen(close);
    }
    hy_sb_put(&b, s.u.s->p + i, s.u.s->n - i);
    return hy_sb_take(&b);
}

/* &lt; &#39; &#x27; and the like; the named ones that escaping makes, and &nbsp;. */
static size_t entity(const char *s, size_t n, uint32_t *r)
{
    static const struct {
        const char *name;
        uint32_t rune;
    } names[] = { { "&lt;", '<' }, { "&gt;", '>' }, { "&amp;", '&' }, { "&quot;", '"' },
                  { "&apos;", '\'' }, { "&nbsp;", 0xA0 }, { "&copy;", 0xA9 } };
    for (size_t i = 0; i < HY_COUNT(names); i++) {
        size_t k = strlen(names[i].name);
        if (n < k || memcmp(s, names[i].name, k) != 0) continue;
        *r = names[i].rune;
        return k;
    }
    if (n < 4 || s[1] != '#') return 0;
    bool hex = (s[2] | 32) == 'x';
    size_t i = hex ? 3 : 2, from = i;
    uint32_t v = 0;
    for (; i < n && v < 0x110000; i++) {
        char c = s[i];
        uint32_t d = c >= '0' && c <= '9' ? (uint32_t)(c - '0')
                     : hex && (c | 32) >= 'a' && (c | 32) <= 'f' ? (uint32_t)((c | 32) - 'a' + 10) : 99;
        if (d == 99) break;
        v = v * (hex ? 16 : 10) + d;
    }
    if (i == from || i >= n || s[i] != ';') return 0;
    *r = v;
    return i + 1;
}

FN(f_striptags)
{
    hy_val s = cut_between(rt, cut_between(rt, plain(rt, self), "<!--", "-->"), "<", ">");
    hy_args none = { 0 };
    hy_val words = hy_fn_call(rt, hy_find_str_method("split", 5), s, &none), sp = hy_v_text(rt, " ");
    hy_args one = { &words, 1, NULL, 0 };
    s = hy_fn_call(rt, hy_find_str_method("join", 4), sp, &one);
    hy_sb b = { .rt = rt };
    for (size_t i = 0; i < s.u.s->n;) {
        uint32_t r;
        size_t k = s.u.s->p[i] == '&' ? entity(s.u.s->p + i, s.u.s->n - i, &r) : 0;
        if (k) hy_sb_rune(&b, r);
        else hy_sb_put(&b, s.u.s->p + i, 1);
        i += k ? k : 1;
    }
    return hy_sb_take(&b);
}

FN(f_urlize)
{
    hy_rt_fail(rt, HY_E_UNSUPPORTED, "the filter urlize is not supported: it makes HTML links");
}

FN(f_filesizeformat)
{
    static const char *const dec[] = { "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB" };
    static const char *const bin[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB" };
    bool binary = flag(rt, a[0], false);
    double base = binary ? 1024 : 1000, x = hy_as_float(hy_is_num(self) ? self : hy_v_int(0));
    char buf[400];
    if (self.type == HY_V_UNDEF) hy_rt_fail_undef(rt, self);
    if (self.type == HY_V_STR && !hy_str_to_float(rt, self.u.s, &x))
        hy_rt_fail(rt, HY_E_FORMAT, "could not convert string to float: %s", hy_v_repr_z(rt, self));
    if (!hy_is_num(self) && self.type != HY_V_STR)
        hy_rt_fail(rt, HY_E_FORMAT, "float() argument must be a string or a real number, not '%s'",
                   hy_v_type_name(self));
    if (x == 1) return hy_v_text(rt, "1 Byte");
    if (x < base) {
        snprintf(buf, sizeof buf, "%.0f Bytes", trunc(x) + 0.0); /* never "-0" */
    } else {
        double unit = base * base;
        int i = 0;
        while (i < 7 && x >= unit) {
            unit *= base;
            i++;
        }
        snprintf(buf, sizeof buf, "%.1f %s", base * x / unit, (binary ? bin : dec)[i]);
    }
    return plain(rt, hy_v_str(rt, hy_str_z(rt, &(hy_str){ buf, strlen(buf), 0 }), strlen(buf)));
}

/* ---- word wrap ------------------------------------------------------------------------------- */

typedef struct wrap {
    hy_rt *rt;
    const uint32_t *s; /* one line as code points */
    size_t n, width;
    bool break_words, break_hyphens;
    const hy_str *sep;
    bool any; /* a line has been written */
} wrap;

static bool w_space(uint32_t c)
{
    return c == ' ' || (c >= 9 && c <= 13);
}

static bool w_word(uint32_t c)
{
    return c == '_' || hy_uc_alpha(c) || hy_uc_numeric(c);
}

static bool w_letter(uint32_t c)
{
    return c == '_' || (w_word(c) && !hy_uc_decimal(c));
}

static bool w_punct(uint32_t c)
{
    return w_word(c) || (c < 0x80 && c && strchr("!\"'&.,?", (int)c));
}

/* Two or more dashes at i and then a word: where the dashes end, or 0. */
static size_t em_dash(const wrap *w, size_t i)
{
    size_t j = i;
    while (j < w->n && w->s[j] == '-') j++;
    return j - i >= 2 && j < w->n && w_word(w->s[j]) && i > 0 && w_punct(w->s[i - 1]) ? j : 0;
}

static bool hyphen_break(const wrap *w, size_t j)
{
    const uint32_t *s = w->s;
    if (s[j] != '-' || j < 2) return false;
    bool before = (w_letter(s[j - 1]) && w_letter(s[j - 2])) ||
                  (j >= 3 && w_letter(s[j - 3]) && s[j - 2] == '-' && w_punct(s[j - 1]));
    if (!before || j + 2 >= w->n || !w_letter(s[j + 1])) return false;
    return w_letter(s[j + 2]) || (s[j + 2] == '-' && j + 3 < w->n && w_letter(s[j + 3]));
}

/* The end of the chunk that begins at i: white space, dashes, or a word (Python's textwrap). */
static size_t chunk_end(const wrap *w, size_t i)
{
    size_t j = i;
    if (w_space(w->s[i])) {
        while (j < w->n && w_space(w->s[j])) j++;
        return j;
    }
    if (!w->break_hyphens) {
        while (j < w->n && !w_space(w->s[j])) j++;
        return j;
    }
    if ((j = em_dash(w, i)) > 0) return j;
    for (j = i + 1; j < w->n && !w_space(w->s[j]); j++) {
        if (hyphen_break(w, j)) return j + 1;
        if (em_dash(w, j)) return j;
    }
    return j;
}

static void emit_line(wrap *w, hy_sb *out, size_t from, size_t to)
{
    if (w->any) hy_sb_put(out, w->sep->p, w->sep->n);
    w->any = true;
    for (size_t i = from; i < to; i++) hy_sb_rune(out, w->s[i]);
}

/* How much of a word longer than the line goes into the `left` places of this one. */
static size_t long_word(const wrap *w, size_t from, size_t end, size_t left)
{
    size_t cut = from + left;
    if (!w->break_hyphens || end - from <= left) return cut;
    bool other = false;
    size_t h = SIZE_MAX;
    for (size_t i = from; i < cut; i++) {
        if (w->s[i] == '-' && i > from && other) h = i;
        other |= w->s[i] != '-';
    }
    for (size_t i = cut; i > from; i--) /* the last hyphen, if anything but hyphens stands before it */
        if (w->s[i - 1] == '-') return h == i - 1 ? i : cut;
    return cut;
}

static void wrap_line(wrap *w, hy_sb *out)
{
    size_t i = 0;
    bool lines = false;
    while (i < w->n) {
        size_t end = chunk_end(w, i);
        if (lines && w_space(w->s[i])) i = end;
        size_t from = i, last = i, tail = i; /* tail: start of the last chunk */
        while (last < w->n) {
            end = chunk_end(w, last);
            if (end - from > w->width) break;
            tail = last;
            last = end;
        }
        if (last < w->n && chunk_end(w, last) - last > w->width) {
            if (w->break_words) {
                tail = last;
                last = long_word(w, last, chunk_end(w, last), w->width - (last - from));
            } else if (last == from) {
                last = chunk_end(w, last);
                tail = from;
            }
        }
        i = last;
        size_t to = last;
        if (to > from && w_space(w->s[tail])) to = tail;
        if (to > from) {
            emit_line(w, out, from, to);
            lines = true;
        }
    }
}

FN(f_wordwrap)
{
    hy_val s = need_text(rt, self, "wordwrap");
    static const hy_str nl = { "\n", 1, 1 };
    int64_t width = int_arg(rt, a[0], 79);
    if (width <= 0) hy_rt_fail(rt, HY_E_FORMAT, "invalid width %lld (must be > 0)", (long long)width);
    wrap w = { .rt = rt, .width = (size_t)width, .break_words = flag(rt, a[1], true),
               .break_hyphens = flag(rt, a[3], true), .sep = &nl };
    if (given(a[2]) && a[2].type != HY_V_NONE) w.sep = need_text(rt, a[2], "wordwrap").u.s;
    hy_list *l = hy_str_lines(rt, s.u.s, false);
    hy_sb b = { .rt = rt };
    for (size_t i = 0; i < l->n; i++) {
        const hy_str *line = l->v[i].u.s;
        uint32_t *r = HY_RT_NEW(rt, uint32_t, line->n);
        w.n = 0;
        for (size_t k = 0; k < line->n;) k += hy_utf8_next(line->p + k, line->n - k, &r[w.n++]);
        hy_rt_step(rt, line->n);
        w.s = r;
        w.any = false;
        if (i) hy_sb_put(&b, w.sep->p, w.sep->n);
        wrap_line(&w, &b);
    }
    return hy_sb_take(&b);
}

const hy_fn hy_filters_text[] = {
    { "tojson", f_tojson, "ensure_ascii,indent,separators,sort_keys", 0 },
    { "trim", f_trim, "chars", 0 }, { "string", f_string, "", 0 }, { "lower", f_lower, "", 0 },
    { "upper", f_upper, "", 0 }, { "safe", f_safe, "", 0 },
    { "replace", f_replace, "old,new,count", 2 }, { "capitalize", f_capitalize, "", 0 },
    { "title", f_title, "", 0 }, { "indent", f_indent, "width,first,blank", 0 },
    { "center", f_center, "width", 0 }, { "truncate", f_truncate, "length,killwords,end,leeway", 0 },
    { "wordcount", f_wordcount, "", 0 },
    { "wordwrap", f_wordwrap, "width,break_long_words,wrapstring,break_on_hyphens", 0 },
    { "format", f_format, NULL, 0 }, { "e", f_escape, "", 0 }, { "escape", f_escape, "", 0 },
    { "forceescape", f_forceescape, "", 0 }, { "pprint", f_pprint, "", 0 },
    { "urlencode", f_urlencode, "", 0 }, { "xmlattr", f_xmlattr, "autospace", 0 },
    { "striptags", f_striptags, "", 0 },
    { "urlize", f_urlize, "trim_url_limit,nofollow,target,rel,extra_schemes", 0 },
    { "filesizeformat", f_filesizeformat, "binary", 0 },
};
const size_t hy_n_filters_text = HY_COUNT(hy_filters_text);
