/* The methods of str. */
#include "text/tmpl.h"

#define FN(name) static hy_val name(hy_rt *rt, hy_val self, const hy_val *a, const hy_args *raw)

static const hy_str *need_str(hy_rt *rt, hy_val v, const char *what)
{
    if (v.type == HY_V_UNDEF) hy_rt_fail(rt, HY_E_FORMAT, "%s must be str, not Undefined", what);
    if (v.type != HY_V_STR)
        hy_rt_fail(rt, HY_E_FORMAT, "%s must be str, not %s", what, hy_v_type_name(v));
    return v.u.s;
}

static int64_t int_or(hy_rt *rt, hy_val v, int64_t dflt)
{
    if (v.type == HY_V_MISSING || v.type == HY_V_NONE) return dflt;
    if (!hy_is_int(v))
        hy_rt_fail(rt, HY_E_FORMAT, "'%s' object cannot be interpreted as an integer",
                   hy_v_type_name(v));
    return hy_as_int(v);
}

static hy_val keep(hy_val self, hy_val v)
{
    v.markup = self.markup;
    return v;
}

static hy_val list_val(hy_val self, hy_list *l, hy_vtype type)
{
    for (size_t i = 0; i < l->n; i++) l->v[i].markup = self.markup;
    return (hy_val){ .type = (uint8_t)type, .u.l = l };
}

FN(s_upper) { return hy_str_case(rt, self, 'u'); }
FN(s_lower) { return hy_str_case(rt, self, 'l'); }
FN(s_title) { return hy_str_case(rt, self, 't'); }
FN(s_capitalize) { return hy_str_case(rt, self, 'c'); }
FN(s_swapcase) { return hy_str_case(rt, self, 's'); }
FN(s_casefold) { return hy_str_case(rt, self, 'f'); }
FN(s_strip) { return hy_str_strip(rt, self, a[0], true, true); }
FN(s_lstrip) { return hy_str_strip(rt, self, a[0], true, false); }
FN(s_rstrip) { return hy_str_strip(rt, self, a[0], false, true); }

FN(s_replace)
{
    need_str(rt, a[0], "replace() argument 1");
    need_str(rt, a[1], "replace() argument 2");
    hy_val with = self.markup ? hy_v_escape(rt, a[1]) : a[1];
    return hy_str_replace(rt, self, a[0], with, int_or(rt, a[2], -1));
}

/* ---- searching within [start, end) given in code points --------------------------------------- */

typedef struct span {
    const char *p;
    size_t n;
    int64_t first; /* code point index of p */
    bool valid;    /* start is not past the end */
} span;

static span clip(hy_rt *rt, const hy_str *s, hy_val start, hy_val end)
{
    int64_t n = hy_v_len(rt, hy_v_strs((hy_str *)(uintptr_t)s));
    int64_t lo = int_or(rt, start, 0), hi = int_or(rt, end, n);
    if (lo < 0) lo = HY_MAX(lo + n, 0);
    if (hi < 0) hi = HY_MAX(hi + n, 0);
    hi = HY_MIN(hi, n);
    if (lo > hi) return (span){ s->p, 0, 0, false };
    size_t from = hy_str_offset(s, (size_t)lo), to = hy_str_offset(s, (size_t)hi);
    return (span){ s->p + from, to - from, lo, true };
}

static size_t find_last(const char *s, size_t n, const char *w, size_t m)
{
    if (m > n) return SIZE_MAX;
    for (size_t i = n - m + 1; i > 0; i--)
        if (memcmp(s + i - 1, w, m) == 0) return i - 1;
    return SIZE_MAX;
}

static int64_t find(hy_rt *rt, hy_val self, const hy_val *a, bool last)
{
    const hy_str *w = need_str(rt, a[0], "argument");
    span sp = clip(rt, self.u.s, a[1], a[2]);
    if (!sp.valid) return -1;
    hy_rt_step(rt, sp.n >> 5);
    size_t f = last ? find_last(sp.p, sp.n, w->p, w->n) : hy_bytes_find(sp.p, sp.n, w->p, w->n);
    if (f == SIZE_MAX) return -1;
    hy_str head = { sp.p, f, SIZE_MAX };
    return sp.first + (int64_t)hy_str_runes(&head);
}

FN(s_find) { return hy_v_int(find(rt, self, a, false)); }
FN(s_rfind) { return hy_v_int(find(rt, self, a, true)); }

static hy_val found_or_fail(hy_rt *rt, int64_t i)
{
    if (i < 0) hy_rt_fail(rt, HY_E_FORMAT, "substring not found");
    return hy_v_int(i);
}

FN(s_index) { return found_or_fail(rt, find(rt, self, a, false)); }
FN(s_rindex) { return found_or_fail(rt, find(rt, self, a, true)); }

FN(s_count)
{
    const hy_str *w = need_str(rt, a[0], "argument");
    span sp = clip(rt, self.u.s, a[1], a[2]);
    if (!sp.valid) return hy_v_int(0);
    hy_rt_step(rt, sp.n >> 5);
    if (w->n == 0) {
        hy_str s = { sp.p, sp.n, SIZE_MAX };
        return hy_v_int((int64_t)hy_str_runes(&s) + 1);
    }
    int64_t n = 0;
    for (size_t i = 0, f; (f = hy_bytes_find(sp.p + i, sp.n - i, w->p, w->n)) != SIZE_MAX; n++)
        i += f + w->n;
    return hy_v_int(n);
}

static bool affix(span sp, const hy_str *w, bool end)
{
    if (!sp.valid || w->n > sp.n) return false;
    return memcmp(end ? sp.p + sp.n - w->n : sp.p, w->p, w->n) == 0;
}

static hy_val has_affix(hy_rt *rt, hy_val self, const hy_val *a, bool end)
{
    span sp = clip(rt, self.u.s, a[1], a[2]);
    if (a[0].type == HY_V_TUPLE) {
        bool any = false;
        for (size_t i = 0; i < a[0].u.l->n; i++)
            any |= affix(sp, need_str(rt, a[0].u.l->v[i], "tuple item"), end);
        return hy_v_bool(any);
    }
    if (a[0].type != HY_V_STR)
        hy_rt_fail(rt, HY_E_FORMAT, "%s first arg must be str or a tuple of str, not %s",
                   end ? "endswith" : "startswith", hy_v_type_name(a[0]));
    return hy_v_bool(affix(sp, a[0].u.s, end));
}

FN(s_startswith) { return has_affix(rt, self, a, false); }
FN(s_endswith) { return has_affix(rt, self, a, true); }

FN(s_removeprefix)
{
    const hy_str *s = self.u.s, *w = need_str(rt, a[0], "removeprefix() argument");
    bool has = affix((span){ s->p, s->n, 0, true }, w, false);
    return hy_str_sub(rt, s, has ? w->n : 0, s->n, self.markup);
}

FN(s_removesuffix)
{
    const hy_str *s = self.u.s, *w = need_str(rt, a[0], "removesuffix() argument");
    bool has = affix((span){ s->p, s->n, 0, true }, w, true);
    return hy_str_sub(rt, s, 0, has ? s->n - w->n : s->n, self.markup);
}

/* ---- splitting and joining ------------------------------------------------------------------- */

static size_t space_before(const hy_str *s, size_t i)
{
    size_t k = 1;
    uint32_t r;
    while (k < 4 && k < i && ((uint8_t)s->p[i - k] & 0xC0) == 0x80) k++;
    hy_utf8_next(s->p + i - k, k, &r);
    return hy_uc_space(r) ? k : 0;
}

static size_t char_before(const hy_str *s, size_t i)
{
    size_t k = 1;
    while (k < 4 && k < i && ((uint8_t)s->p[i - k] & 0xC0) == 0x80) k++;
    return k;
}

static size_t space_after(const hy_str *s, size_t i, size_t *k)
{
    uint32_t r;
    *k = hy_utf8_next(s->p + i, s->n - i, &r);
    return hy_uc_space(r) ? *k : 0;
}

static void split_space(hy_rt *rt, hy_list *l, const hy_str *s, int64_t max)
{
    size_t i = 0, k;
    for (;;) {
        while (i < s->n && space_after(s, i, &k)) i += k;
        if (i >= s->n) return;
        size_t from = i;
        if (max-- == 0) {
            hy_list_push(rt, l, hy_str_sub(rt, s, from, s->n, false));
            return;
        }
        while (i < s->n && !space_after(s, i, &k)) i += k;
        hy_list_push(rt, l, hy_str_sub(rt, s, from, i, false));
    }
}

static void rsplit_space(hy_rt *rt, hy_list *l, const hy_str *s, int64_t max)
{
    size_t i = s->n, k;
    for (;;) {
        while (i > 0 && (k = space_before(s, i)) > 0) i -= k;
        if (i == 0) return;
        size_t to = i;
        if (max-- == 0) {
            hy_list_push(rt, l, hy_str_sub(rt, s, 0, to, false));
            return;
        }
        while (i > 0 && !space_before(s, i)) i -= char_before(s, i);
        hy_list_push(rt, l, hy_str_sub(rt, s, i, to, false));
    }
}

static void reverse(hy_list *l)
{
    for (size_t i = 0; i < l->n / 2; i++) {
        hy_val t = l->v[i];
        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = t;
    }
}

static hy_val split(hy_rt *rt, hy_val self, const hy_val *a, bool right)
{
    const hy_str *s = self.u.s;
    hy_list *l = hy_v_list(rt, HY_V_LIST, 0).u.l;
    int64_t max = int_or(rt, a[1], -1);
    hy_rt_step(rt, s->n >> 6);
    if (a[0].type == HY_V_MISSING || a[0].type == HY_V_NONE) {
        if (right) rsplit_space(rt, l, s, max);
        else split_space(rt, l, s, max);
    } else {
        const hy_str *w = need_str(rt, a[0], "separator");
        if (!w->n) hy_rt_fail(rt, HY_E_FORMAT, "empty separator");
        size_t lo = 0, hi = s->n, f;
        while (max != 0) {
            f = right ? find_last(s->p, hi, w->p, w->n)
                      : hy_bytes_find(s->p + lo, hi - lo, w->p, w->n);
            if (f == SIZE_MAX) break;
            if (right) {
                hy_list_push(rt, l, hy_str_sub(rt, s, f + w->n, hi, false));
                hi = f;
            } else {
                hy_list_push(rt, l, hy_str_sub(rt, s, lo, lo + f, false));
                lo += f + w->n;
            }
            max--;
        }
        hy_list_push(rt, l, hy_str_sub(rt, s, lo, hi, false));
    }
    if (right) reverse(l);
    return list_val(self, l, HY_V_LIST);
}

FN(s_split) { return split(rt, self, a, false); }
FN(s_rsplit) { return split(rt, self, a, true); }

FN(s_splitlines)
{
    bool ends = a[0].type != HY_V_MISSING && hy_v_truth(rt, a[0]);
    return list_val(self, hy_str_lines(rt, self.u.s, ends), HY_V_LIST);
}

static hy_val partition(hy_rt *rt, hy_val self, hy_val sep, bool last)
{
    const hy_str *s = self.u.s, *w = need_str(rt, sep, "separator");
    if (!w->n) hy_rt_fail(rt, HY_E_FORMAT, "empty separator");
    size_t f = last ? find_last(s->p, s->n, w->p, w->n) : hy_bytes_find(s->p, s->n, w->p, w->n);
    hy_list *l = hy_v_list(rt, HY_V_TUPLE, 3).u.l;
    bool found = f != SIZE_MAX;
    size_t a = found ? f : last ? 0 : s->n, b = found ? f + w->n : last ? 0 : s->n;
    hy_list_push(rt, l, hy_str_sub(rt, s, 0, a, false));
    hy_list_push(rt, l, hy_str_sub(rt, s, a, b, false));
    hy_list_push(rt, l, hy_str_sub(rt, s, b, s->n, false));
    return list_val(self, l, HY_V_TUPLE);
}

FN(s_partition) { return partition(rt, self, a[0], false); }
FN(s_rpartition) { return partition(rt, self, a[0], true); }

FN(s_join)
{
    hy_sb b = { .rt = rt };
    hy_iter it;
    hy_val v;
    if (!hy_v_iterable(a[0])) hy_rt_fail(rt, HY_E_FORMAT, "can only join an iterable");
    hy_iter_init(rt, &it, a[0]);
    for (size_t i = 0; hy_iter_next(rt, &it, &v); i++) {
        if (self.markup) v = hy_v_escape(rt, v);
        if (v.type != HY_V_STR)
            hy_rt_fail(rt, HY_E_FORMAT, "sequence item %zu: expected str instance, %s found", i,
                       hy_v_type_name(v));
        if (i) hy_sb_put(&b, self.u.s->p, self.u.s->n);
        hy_sb_put(&b, v.u.s->p, v.u.s->n);
    }
    return keep(self, hy_sb_take(&b));
}

/* ---- padding --------------------------------------------------------------------------------- */

static hy_val pad(hy_rt *rt, hy_val self, const hy_val *a, char how)
{
    uint32_t fill = ' ';
    if (a[1].type != HY_V_MISSING) {
        const hy_str *f = need_str(rt, a[1], "The fill character");
        if (hy_str_runes(f) != 1)
            hy_rt_fail(rt, HY_E_FORMAT, "The fill character must be exactly one character long");
        hy_utf8_next(f->p, f->n, &fill);
    }
    int64_t width = int_or(rt, a[0], 0), n = hy_v_len(rt, self), gap = width > n ? width - n : 0;
    int64_t left = how == 'r' ? gap : how == 'c' ? gap / 2 + (gap & width & 1) : 0;
    hy_sb b = { .rt = rt };
    hy_sb_fill(&b, fill, left);
    hy_sb_put(&b, self.u.s->p, self.u.s->n);
    hy_sb_fill(&b, fill, gap - left);
    return keep(self, hy_sb_take(&b));
}

FN(s_center) { return pad(rt, self, a, 'c'); }
FN(s_ljust) { return pad(rt, self, a, 'l'); }
FN(s_rjust) { return pad(rt, self, a, 'r'); }

FN(s_zfill)
{
    const hy_str *s = self.u.s;
    int64_t gap = int_or(rt, a[0], 0) - hy_v_len(rt, self);
    size_t sign = s->n && (s->p[0] == '-' || s->p[0] == '+');
    hy_sb b = { .rt = rt };
    hy_sb_put(&b, s->p, sign);
    hy_sb_fill(&b, '0', gap);
    hy_sb_put(&b, s->p + sign, s->n - sign);
    return keep(self, hy_sb_take(&b));
}

FN(s_expandtabs)
{
    int64_t tab = int_or(rt, a[0], 8), col = 0;
    hy_sb b = { .rt = rt };
    for (size_t i = 0; i < self.u.s->n;) {
        uint32_t r;
        size_t k = hy_utf8_next(self.u.s->p + i, self.u.s->n - i, &r);
        if (r == '\t') {
            int64_t n = tab > 0 ? tab - col % tab : 0;
            hy_sb_fill(&b, ' ', n);
            col += n;
        } else {
            hy_sb_put(&b, self.u.s->p + i, k);
            col = r == '\n' || r == '\r' ? 0 : col + 1;
        }
        i += k;
    }
    return keep(self, hy_sb_take(&b));
}

/* ---- asking ---------------------------------------------------------------------------------- */

static bool alnum(uint32_t c)
{
    return hy_uc_alpha(c) || hy_uc_digit(c) || hy_uc_numeric(c);
}

static hy_val all(hy_val self, bool (*is)(uint32_t), bool empty)
{
    const hy_str *s = self.u.s;
    for (size_t i = 0; i < s->n;) {
        uint32_t r;
        i += hy_utf8_next(s->p + i, s->n - i, &r);
        if (!is(r)) return hy_v_bool(false);
    }
    return hy_v_bool(s->n || empty);
}

static bool ascii(uint32_t c)
{
    return c < 0x80;
}

FN(s_isalpha) { return all(self, hy_uc_alpha, false); }
FN(s_isdigit) { return all(self, hy_uc_digit, false); }
FN(s_isdecimal) { return all(self, hy_uc_decimal, false); }
FN(s_isnumeric) { return all(self, hy_uc_numeric, false); }
FN(s_isalnum) { return all(self, alnum, false); }
FN(s_isspace) { return all(self, hy_uc_space, false); }
FN(s_isascii) { return all(self, ascii, true); }
FN(s_isprintable) { return all(self, hy_uc_printable, true); }

FN(s_islower)
{
    hy_args none = { 0 };
    return hy_fn_call(rt, hy_find_test("lower", 5), self, &none);
}

FN(s_isupper)
{
    hy_args none = { 0 };
    return hy_fn_call(rt, hy_find_test("upper", 5), self, &none);
}

FN(s_istitle)
{
    bool in_word = false, any = false;
    for (size_t i = 0; i < self.u.s->n;) {
        uint32_t r;
        i += hy_utf8_next(self.u.s->p + i, self.u.s->n - i, &r);
        if (hy_uc_upper(r) || hy_uc_title(r)) {
            if (in_word) return hy_v_bool(false);
            in_word = any = true;
        } else if (hy_uc_lower(r)) {
            if (!in_word) return hy_v_bool(false);
            any = true;
        } else {
            in_word = false;
        }
    }
    return hy_v_bool(any);
}

FN(s_isidentifier)
{
    const hy_str *s = self.u.s;
    for (size_t i = 0; i < s->n;) {
        uint32_t r;
        size_t k = hy_utf8_next(s->p + i, s->n - i, &r);
        if (r != '_' && !hy_uc_alpha(r) && (i == 0 || !hy_uc_decimal(r))) return hy_v_bool(false);
        i += k;
    }
    return hy_v_bool(s->n != 0);
}

/* ---- format, translate ----------------------------------------------------------------------- */

FN(s_format) { return hy_format_braces(rt, self, raw); }

FN(s_format_map)
{
    if (a[0].type != HY_V_DICT)
        hy_rt_fail(rt, HY_E_FORMAT, "format_map() needs a mapping, not %s", hy_v_type_name(a[0]));
    const hy_dict *d = a[0].u.d;
    hy_kwarg *kw = HY_RT_NEW(rt, hy_kwarg, d->n);
    hy_args args = { .kw = kw };
    for (size_t i = 0; i < d->n; i++)
        if (d->v[i].key.type == HY_V_STR)
            kw[args.n_kw++] = (hy_kwarg){ d->v[i].key.u.s, d->v[i].value };
    return hy_format_braces(rt, self, &args);
}

static hy_val rune_key(const hy_str *s, size_t *i)
{
    uint32_t r;
    *i += hy_utf8_next(s->p + *i, s->n - *i, &r);
    return hy_v_int(r);
}

FN(s_maketrans)
{
    hy_val d = hy_v_dict(rt);
    if (a[1].type == HY_V_MISSING) {
        if (a[0].type != HY_V_DICT)
            hy_rt_fail(rt, HY_E_FORMAT, "if you give only one argument to maketrans it must be a dict");
        for (size_t i = 0; i < a[0].u.d->n; i++) {
            hy_val k = a[0].u.d->v[i].key;
            size_t at = 0;
            if (k.type == HY_V_STR) {
                if (hy_str_runes(k.u.s) != 1)
                    hy_rt_fail(rt, HY_E_FORMAT, "string keys in translate table must be of length 1");
                k = rune_key(k.u.s, &at);
            }
            hy_dict_set(rt, d.u.d, k, a[0].u.d->v[i].value);
        }
        return d;
    }
    const hy_str *x = need_str(rt, a[0], "argument 1"), *y = need_str(rt, a[1], "argument 2");
    if (hy_str_runes(x) != hy_str_runes(y))
        hy_rt_fail(rt, HY_E_FORMAT, "the first two maketrans arguments must have equal length");
    for (size_t i = 0, k = 0; i < x->n;) {
        hy_val from = rune_key(x, &i);
        hy_dict_set(rt, d.u.d, from, rune_key(y, &k));
    }
    if (a[2].type != HY_V_MISSING) {
        const hy_str *z = need_str(rt, a[2], "argument 3");
        for (size_t i = 0; i < z->n;) hy_dict_set(rt, d.u.d, rune_key(z, &i), hy_v_none);
    }
    return d;
}

FN(s_translate)
{
    if (a[0].type != HY_V_DICT)
        hy_rt_fail(rt, HY_E_FORMAT, "'%s' object is not subscriptable", hy_v_type_name(a[0]));
    hy_sb b = { .rt = rt };
    for (size_t i = 0; i < self.u.s->n;) {
        hy_val k = rune_key(self.u.s, &i);
        const hy_val *v = hy_dict_get(rt, a[0].u.d, k);
        if (!v) hy_sb_rune(&b, (uint32_t)k.u.i);
        else if (v->type == HY_V_STR) hy_sb_put(&b, v->u.s->p, v->u.s->n);
        else if (hy_is_int(*v)) hy_sb_rune(&b, (uint32_t)hy_as_int(*v));
        else if (v->type != HY_V_NONE)
            hy_rt_fail(rt, HY_E_FORMAT, "character mapping must return integer, None or str");
    }
    return keep(self, hy_sb_take(&b));
}

FN(s_encode)
{
    hy_rt_fail(rt, HY_E_UNSUPPORTED, "bytes are not supported");
}

static const hy_fn methods[] = {
    { "split", s_split, "sep,maxsplit", 0 }, { "strip", s_strip, "chars", 0 },
    { "lstrip", s_lstrip, "chars", 0 }, { "rstrip", s_rstrip, "chars", 0 },
    { "startswith", s_startswith, "prefix,start,end", 1 },
    { "endswith", s_endswith, "suffix,start,end", 1 }, { "replace", s_replace, "old,new,count", 2 },
    { "upper", s_upper, "", 0 }, { "lower", s_lower, "", 0 }, { "title", s_title, "", 0 },
    { "capitalize", s_capitalize, "", 0 }, { "swapcase", s_swapcase, "", 0 },
    { "casefold", s_casefold, "", 0 }, { "join", s_join, "iterable", 1 },
    { "find", s_find, "sub,start,end", 1 }, { "rfind", s_rfind, "sub,start,end", 1 },
    { "index", s_index, "sub,start,end", 1 }, { "rindex", s_rindex, "sub,start,end", 1 },
    { "count", s_count, "sub,start,end", 1 }, { "removeprefix", s_removeprefix, "prefix", 1 },
    { "removesuffix", s_removesuffix, "suffix", 1 }, { "rsplit", s_rsplit, "sep,maxsplit", 0 },
    { "splitlines", s_splitlines, "keepends", 0 }, { "partition", s_partition, "sep", 1 },
    { "rpartition", s_rpartition, "sep", 1 }, { "center", s_center, "width,fillchar", 1 },
    { "ljust", s_ljust, "width,fillchar", 1 }, { "rjust", s_rjust, "width,fillchar", 1 },
    { "zfill", s_zfill, "width", 1 }, { "expandtabs", s_expandtabs, "tabsize", 0 },
    { "isalpha", s_isalpha, "", 0 }, { "isdigit", s_isdigit, "", 0 },
    { "isdecimal", s_isdecimal, "", 0 }, { "isnumeric", s_isnumeric, "", 0 },
    { "isalnum", s_isalnum, "", 0 }, { "isspace", s_isspace, "", 0 },
    { "isascii", s_isascii, "", 0 }, { "isprintable", s_isprintable, "", 0 },
    { "islower", s_islower, "", 0 }, { "isupper", s_isupper, "", 0 },
    { "istitle", s_istitle, "", 0 }, { "isidentifier", s_isidentifier, "", 0 },
    { "format", s_format, NULL, 0 }, { "format_map", s_format_map, "mapping", 1 },
    { "maketrans", s_maketrans, "x,y,z", 1 }, { "translate", s_translate, "table", 1 },
    { "encode", s_encode, "encoding,errors", 0 },
};

const hy_fn *hy_find_str_method(const char *name, size_t n)
{
    return hy_fn_find(methods, HY_COUNT(methods), name, n);
}
