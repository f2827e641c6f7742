/* "%..." % args, "{...}".format(args), strftime (Python's string formatting mini-languages). */
#include "text/tmpl.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MAX_WIDTH = 100000, MAX_PREC = 400 };

/* One conversion: of "%05.2f" or of "{:>10,}". */
typedef struct spec {
    uint32_t fill;
    char align; /* < > ^ = or 0 */
    char sign;  /* + - space or 0 */
    bool alt, zero;
    char group; /* , _ or 0 */
    int64_t width, prec; /* -1: none */
    char type;  /* 0: none */
} spec;

static void pad_to(hy_sb *out, const spec *s, const char *text, size_t n, size_t n_prefix, char dflt)
{
    hy_str t = { text, n, SIZE_MAX };
    int64_t gap = s->width - (int64_t)hy_str_runes(&t);
    char align = s->align ? s->align : dflt;
    if (gap < 0) gap = 0;
    int64_t left = align == '>' ? gap : align == '^' ? gap / 2 : 0;
    if (align == '=') { /* between the sign (or 0x) and the digits */
        hy_sb_put(out, text, n_prefix);
        hy_sb_fill(out, s->fill, gap);
        hy_sb_put(out, text + n_prefix, n - n_prefix);
        return;
    }
    hy_sb_fill(out, s->fill, left);
    hy_sb_put(out, text, n);
    hy_sb_fill(out, s->fill, gap - left);
}

/* Puts `sep` between groups of digits of the whole part, from the right. */
static void group_digits(hy_sb *b, const char *digits, char sep, int every)
{
    size_t n = strspn(digits, "0123456789abcdefABCDEF");
    if (every == 3) n = strspn(digits, "0123456789");
    for (size_t i = 0; i < n; i++) {
        if (sep && i && (n - i) % (size_t)every == 0) hy_sb_put(b, &sep, 1);
        hy_sb_put(b, digits + i, 1);
    }
    hy_sb_str(b, digits + n);
}

static void sign_of(hy_sb *b, bool neg, char sign)
{
    if (neg) hy_sb_str(b, "-");
    else if (sign == '+') hy_sb_str(b, "+");
    else if (sign == ' ') hy_sb_str(b, " ");
}

static void digits_of(uint64_t u, char type, char buf[72])
{
    int base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
    char rev[72];
    int n = 0;
    do {
        rev[n++] = (type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[u % (uint64_t)base];
        u /= (uint64_t)base;
    } while (u);
    for (int i = 0; i < n; i++) buf[i] = rev[n - 1 - i];
    buf[n] = 0;
}

static void put_int(hy_sb *out, const spec *s, int64_t v, bool percent)
{
    char digits[72];
    hy_sb b = { .rt = out->rt };
    digits_of(v < 0 ? -(uint64_t)v : (uint64_t)v, s->type, digits);
    sign_of(&b, v < 0, s->sign);
    if (s->alt && s->type && strchr("xXob", s->type)) {
        char pre[3] = { '0', s->type, 0 };
        hy_sb_str(&b, pre);
    }
    size_t n_prefix = b.n;
    if (percent && s->prec > (int64_t)strlen(digits))
        hy_sb_fill(&b, '0', s->prec - (int64_t)strlen(digits));
    group_digits(&b, digits, s->group, s->type && strchr("xXob", s->type) ? 4 : 3);
    pad_to(out, s, b.p, b.n, n_prefix, '>');
}

/* A float of no type but a precision: as g, yet always with a digit behind the point. */
static void general(char *buf, size_t cap, double x, int prec)
{
    if (prec < 1) prec = 1;
    snprintf(buf, cap, "%.*e", prec - 1, x);
    int exp = atoi(strchr(buf, 'e') + 1);
    if (exp >= -4 && exp < prec - 1) {
        snprintf(buf, cap, "%.*g", prec, x);
        if (!strchr(buf, '.')) strcat(buf, ".0");
        return;
    }
    if (exp >= -4 && exp < prec && !(exp >= prec - 1)) return;
    char *e = strchr(buf, 'e'), *z = e, tail[16];
    snprintf(tail, sizeof tail, "%s", e);
    if (memchr(buf, '.', (size_t)(e - buf))) {
        while (z > buf && z[-1] == '0') z--;
        if (z > buf && z[-1] == '.') z--;
    }
    memcpy(z, tail, strlen(tail) + 1);
}

static void put_float(hy_sb *out, const spec *s, double v)
{
    char buf[1000], f[16], type = s->type;
    double x = fabs(v);
    bool neg = signbit(v) && !isnan(v);
    int prec = s->prec < 0 ? 6 : (int)s->prec;
    bool pct = type == '%';
    if (pct) x *= 100;
    if (isnan(x) || isinf(x)) {
        const char *upper = type && strchr("EFG", type) ? "INF" : "inf";
        if (isnan(x)) upper = type && strchr("EFG", type) ? "NAN" : "nan";
        snprintf(buf, sizeof buf, "%s", upper);
    } else if (!type && s->prec < 0) {
        hy_float_repr(x, buf);
    } else if (!type) {
        general(buf, sizeof buf, x, prec);
    } else {
        snprintf(f, sizeof f, s->alt ? "%%#.*%c" : "%%.*%c", pct ? 'f' : type == 'n' ? 'g' : type);
        snprintf(buf, sizeof buf, f, prec, x);
    }
    hy_sb b = { .rt = out->rt };
    sign_of(&b, neg, s->sign);
    size_t n_prefix = b.n;
    group_digits(&b, buf, s->group, 3);
    if (pct) hy_sb_str(&b, "%");
    pad_to(out, s, b.p, b.n, n_prefix, '>');
}

static void put_text(hy_sb *out, const spec *s, hy_val v)
{
    hy_str t = *v.u.s;
    if (s->prec >= 0) t.n = hy_str_offset(v.u.s, (size_t)s->prec);
    pad_to(out, s, t.p, t.n, 0, '<');
}

static const hy_args *no_args(void)
{
    static const hy_args none;
    return &none;
}

/* ---- "%" ------------------------------------------------------------------------------------- */

typedef struct percent {
    hy_rt *rt;
    const hy_str *s;
    size_t i;
    hy_val args;
    size_t used;
    bool named, markup;
} percent;

static hy_val next_arg(percent *p)
{
    if (p->args.type == HY_V_TUPLE) {
        if (p->used >= p->args.u.l->n)
            hy_rt_fail(p->rt, HY_E_FORMAT, "not enough arguments for format string");
        return p->args.u.l->v[p->used++];
    }
    if (p->used++) hy_rt_fail(p->rt, HY_E_FORMAT, "not enough arguments for format string");
    return p->args;
}

static int64_t read_number(percent *p, int64_t max)
{
    int64_t v = 0;
    if (p->i < p->s->n && p->s->p[p->i] == '*') {
        p->i++;
        hy_val a = next_arg(p);
        if (!hy_is_int(a)) hy_rt_fail(p->rt, HY_E_FORMAT, "* wants int");
        v = hy_as_int(a);
    } else {
        while (p->i < p->s->n && p->s->p[p->i] >= '0' && p->s->p[p->i] <= '9' && v <= max)
            v = v * 10 + (p->s->p[p->i++] - '0');
    }
    if (v > max || v < -max) hy_rt_fail(p->rt, HY_E_LIMIT, "a format width beyond %lld",
                                        (long long)max);
    return v;
}

static hy_val named_arg(percent *p)
{
    size_t from = ++p->i, depth = 1;
    for (; p->i < p->s->n; p->i++) {
        if (p->s->p[p->i] == '(') depth++;
        if (p->s->p[p->i] == ')' && --depth == 0) break;
    }
    if (p->i >= p->s->n) hy_rt_fail(p->rt, HY_E_FORMAT, "incomplete format key");
    if (p->args.type != HY_V_DICT) hy_rt_fail(p->rt, HY_E_FORMAT, "format requires a mapping");
    hy_val key = hy_v_str(p->rt, p->s->p + from, p->i++ - from);
    const hy_val *v = hy_dict_get(p->rt, p->args.u.d, key);
    if (!v) hy_rt_fail(p->rt, HY_E_FORMAT, "%s", hy_v_repr_z(p->rt, key));
    p->named = true;
    p->used = 1;
    return *v;
}

static void convert(percent *p, hy_sb *out, spec *s, hy_val v)
{
    hy_rt *rt = p->rt;
    switch (s->type) {
    case 's': case 'r': case 'a': {
        hy_sb b = { .rt = rt };
        if (s->type == 's') hy_sb_val(&b, v);
        else hy_sb_repr(&b, v, 0);
        hy_val t = hy_sb_take(&b);
        if (v.type == HY_V_STR) t.markup = v.markup;
        s->fill = ' ';
        if (s->align == '=') s->align = '>';
        put_text(out, s, p->markup ? hy_v_escape(rt, t) : t);
        return;
    }
    case 'c': {
        char u[4];
        s->prec = -1;
        s->fill = ' ';
        if (hy_is_int(v) && (hy_as_int(v) < 0 || hy_as_int(v) > 0x10FFFF))
            hy_rt_fail(rt, HY_E_FORMAT, "%%c arg not in range(0x110000)");
        if (hy_is_int(v)) put_text(out, s, hy_v_str(rt, u, hy_utf8_put((uint32_t)hy_as_int(v), u)));
        else if (v.type == HY_V_STR && hy_str_runes(v.u.s) == 1) put_text(out, s, v);
        else hy_rt_fail(rt, HY_E_FORMAT, "%%c requires int or char");
        return;
    }
    default: break;
    }
    if (v.type == HY_V_UNDEF) hy_rt_fail_undef(rt, v);
    bool whole = strchr("diuxXo", s->type) != NULL;
    if (!hy_is_num(v) || (whole && v.type == HY_V_FLOAT && strchr("xXo", s->type)))
        hy_rt_fail(rt, HY_E_FORMAT, whole ? "%%%c format: a real number is required, not %s"
                                          : "%%%c format: must be real number, not %s",
                   s->type, hy_v_type_name(v));
    if (!whole) {
        put_float(out, s, hy_as_float(v));
        return;
    }
    if (v.type == HY_V_FLOAT) {
        if (!(fabs(v.u.f) < 9e18)) hy_rt_fail(rt, HY_E_UNSUPPORTED, "an integer beyond 64 bits");
        v = hy_v_int((int64_t)v.u.f);
    }
    if (strchr("iu", s->type)) s->type = 'd';
    put_int(out, s, hy_as_int(v), true);
}

static void directive(percent *p, hy_sb *out)
{
    spec s = { .fill = ' ', .prec = -1 };
    const hy_str *f = p->s;
    hy_val v = hy_v_missing;
    if (p->i < f->n && f->p[p->i] == '(') v = named_arg(p);
    bool left = false;
    for (; p->i < f->n && strchr("#0- +", f->p[p->i]) && f->p[p->i]; p->i++) {
        char c = f->p[p->i];
        if (c == '#') s.alt = true;
        else if (c == '0') s.zero = true;
        else if (c == '-') left = true;
        else if (s.sign != '+') s.sign = c;
    }
    s.width = read_number(p, MAX_WIDTH);
    if (s.width < 0) {
        left = true;
        s.width = -s.width;
    }
    if (p->i < f->n && f->p[p->i] == '.') {
        p->i++;
        s.prec = read_number(p, MAX_PREC);
        if (s.prec < 0) s.prec = 0;
    }
    while (p->i < f->n && strchr("hlL", f->p[p->i]) && f->p[p->i]) p->i++;
    if (p->i >= f->n) hy_rt_fail(p->rt, HY_E_FORMAT, "incomplete format");
    s.type = f->p[p->i++];
    if (s.type == '%') {
        hy_sb_str(out, "%");
        return;
    }
    if (!s.type || !strchr("sracdiuxXoeEfFgG", s.type))
        hy_rt_fail(p->rt, HY_E_FORMAT, "unsupported format character '%c'", s.type);
    s.align = left ? '<' : s.zero ? '=' : '>';
    if (s.zero && !left) s.fill = '0';
    convert(p, out, &s, v.type == HY_V_MISSING ? next_arg(p) : v);
}

hy_val hy_format_percent(hy_rt *rt, hy_val fmt, hy_val args)
{
    percent p = { .rt = rt, .s = fmt.u.s, .args = args, .markup = fmt.markup };
    hy_sb b = { .rt = rt };
    while (p.i < p.s->n) {
        const char *c = memchr(p.s->p + p.i, '%', p.s->n - p.i);
        size_t k = c ? (size_t)(c - p.s->p) - p.i : p.s->n - p.i;
        hy_sb_put(&b, p.s->p + p.i, k);
        p.i += k;
        if (!c) break;
        p.i++;
        directive(&p, &b);
    }
    /* what has items by key may be left unused */
    bool keyed = args.type == HY_V_DICT || args.type == HY_V_LIST || args.type == HY_V_RANGE ||
                 args.type == HY_V_UNDEF;
    bool rest = args.type == HY_V_TUPLE ? p.used < args.u.l->n : !p.used && !keyed;
    if (rest && !p.named)
        hy_rt_fail(rt, HY_E_FORMAT, "not all arguments converted during string formatting");
    hy_val v = hy_sb_take(&b);
    v.markup = fmt.markup;
    return v;
}

/* ---- "{}" ------------------------------------------------------------------------------------ */

typedef struct braces {
    hy_rt *rt;
    const hy_args *args;
    int64_t next; /* automatic numbering; -1: numbers were given */
    bool markup;
} braces;

static void parse_spec(hy_rt *rt, const hy_str *f, spec *s)
{
    uint32_t r = 0, r2 = 0;
    size_t i = 0, k = f->n ? hy_utf8_next(f->p, f->n, &r) : 0;
    *s = (spec){ .fill = ' ', .prec = -1 };
    if (k && k < f->n) hy_utf8_next(f->p + k, f->n - k, &r2);
    if (r2 && r2 < 0x80 && strchr("<>^=", (int)r2)) {
        s->fill = r;
        s->align = (char)r2;
        i = k + 1;
    } else if (r && r < 0x80 && strchr("<>^=", (int)r)) {
        s->align = (char)r;
        i = 1;
    }
    if (i < f->n && f->p[i] && strchr("+- ", f->p[i])) s->sign = f->p[i++];
    if (i < f->n && f->p[i] == 'z') i++;
    if (i < f->n && f->p[i] == '#') {
        s->alt = true;
        i++;
    }
    if (i < f->n && f->p[i] == '0') {
        s->zero = true;
        if (!s->align) {
            s->align = '=';
            s->fill = '0';
        }
        i++;
    }
    while (i < f->n && f->p[i] >= '0' && f->p[i] <= '9' && s->width <= MAX_WIDTH)
        s->width = s->width * 10 + (f->p[i++] - '0');
    if (i < f->n && (f->p[i] == ',' || f->p[i] == '_')) s->group = f->p[i++];
    if (i < f->n && f->p[i] == '.') {
        i++;
        s->prec = 0;
        if (i >= f->n || f->p[i] < '0' || f->p[i] > '9')
            hy_rt_fail(rt, HY_E_FORMAT, "Format specifier missing precision");
        while (i < f->n && f->p[i] >= '0' && f->p[i] <= '9' && s->prec <= MAX_PREC)
            s->prec = s->prec * 10 + (f->p[i++] - '0');
    }
    if (s->width > MAX_WIDTH || s->prec > MAX_PREC)
        hy_rt_fail(rt, HY_E_LIMIT, "a format width beyond %d or precision beyond %d", MAX_WIDTH,
                   MAX_PREC);
    if (i < f->n) s->type = f->p[i++];
    if (i < f->n) hy_rt_fail(rt, HY_E_FORMAT, "Invalid format specifier");
}

static void format_value(hy_rt *rt, hy_sb *out, hy_val v, const hy_str *f)
{
    spec s;
    if (f->n == 0) {
        hy_sb_val(out, v);
        return;
    }
    parse_spec(rt, f, &s);
    if (v.type == HY_V_BOOL && s.type) v = hy_v_int(v.u.b);
    bool ints = s.type && strchr("bcdoxXn", s.type), floats = s.type && strchr("eEfFgG%n", s.type);
    if (v.type == HY_V_STR && (!s.type || s.type == 's') && s.align != '=' && !s.sign && !s.group) {
        put_text(out, &s, v);
    } else if (v.type == HY_V_STR && s.zero && (!s.type || s.type == 's')) {
        s.align = '<'; /* "05" pads a string on the right with zeros */
        put_text(out, &s, v);
    } else if (v.type == HY_V_BOOL && s.prec < 0) {
        put_int(out, &s, v.u.b, false);
    } else if (v.type == HY_V_INT && s.type == 'c') {
        char u[4];
        if (v.u.i < 0 || v.u.i > 0x10FFFF)
            hy_rt_fail(rt, HY_E_FORMAT, "%%c arg not in range(0x110000)");
        put_text(out, &s, hy_v_str(rt, u, hy_utf8_put((uint32_t)v.u.i, u)));
    } else if (v.type == HY_V_INT && (!s.type || ints) && s.prec < 0) {
        put_int(out, &s, v.u.i, false);
    } else if ((v.type == HY_V_INT && floats) || (v.type == HY_V_FLOAT && (!s.type || floats))) {
        put_float(out, &s, hy_as_float(v));
    } else if (hy_is_int(v) && !floats && s.prec >= 0) {
        hy_rt_fail(rt, HY_E_FORMAT, "Precision not allowed in integer format specifier");
    } else if (hy_is_num(v) || v.type == HY_V_STR) {
        hy_rt_fail(rt, HY_E_FORMAT, "Unknown format code '%c' for object of type '%s'", s.type,
                   hy_v_type_name(v));
    } else {
        hy_rt_fail(rt, HY_E_FORMAT, "unsupported format string passed to %s.__format__",
                   hy_v_type_name(v));
    }
}

/* "name.attr[item]", or a number, or nothing. */
static hy_val field(braces *b, const char *s, size_t n)
{
    hy_rt *rt = b->rt;
    size_t i = 0;
    bool number = true;
    int64_t idx = 0;
    hy_val v = hy_v_missing;
    while (i < n && s[i] != '.' && s[i] != '[') {
        number &= s[i] >= '0' && s[i] <= '9';
        if (number && idx < INT32_MAX) idx = idx * 10 + (s[i] - '0');
        i++;
    }
    if (number) {
        if (i == 0 ? b->next < 0 : b->next > 0)
            hy_rt_fail(rt, HY_E_FORMAT, "cannot switch between automatic field numbering and manual "
                       "field specification");
        if (i == 0) idx = b->next++;
        else b->next = -1;
        if (idx >= (int64_t)b->args->n)
            hy_rt_fail(rt, HY_E_FORMAT, "Replacement index %lld out of range for positional args tuple",
                       (long long)idx);
        v = b->args->v[idx];
    } else {
        for (size_t k = 0; k < b->args->n_kw; k++)
            if (b->args->kw[k].name->n == i && memcmp(b->args->kw[k].name->p, s, i) == 0)
                v = b->args->kw[k].v;
        if (v.type == HY_V_MISSING)
            hy_rt_fail(rt, HY_E_FORMAT, "%s", hy_v_repr_z(rt, hy_v_str(rt, s, i)));
    }
    while (i < n) {
        size_t from = ++i;
        bool item = s[from - 1] == '[';
        while (i < n && (item ? s[i] != ']' : s[i] != '.' && s[i] != '[')) i++;
        hy_val key = hy_v_str(rt, s + from, i - from);
        int64_t k;
        bool big;
        if (item && i - from && strspn(hy_str_z(rt, key.u.s), "0123456789") == i - from &&
            hy_str_to_int(key.u.s, 10, &k, &big) && !big)
            v = hy_op_item(rt, v, hy_v_int(k));
        else v = item ? hy_op_item(rt, v, key) : hy_op_attr(rt, v, key.u.s);
        if (item && i < n) i++;
    }
    return v;
}

static hy_val format_text(braces *b, const char *s, size_t n, int depth);

static void replacement(braces *b, hy_sb *out, const char *s, size_t n, int depth)
{
    hy_rt *rt = b->rt;
    size_t name = 0, in = 0;
    while (name < n && (in || (s[name] != '!' && s[name] != ':'))) {
        if (s[name] == '[') in = 1;
        if (s[name] == ']') in = 0;
        name++;
    }
    size_t i = name;
    hy_val v = field(b, s, name);
    if (i < n && s[i] == '!') {
        char c = i + 1 < n ? s[i + 1] : 0;
        i += 2;
        hy_sb t = { .rt = rt };
        if (c == 's') hy_sb_val(&t, v);
        else if (c == 'r' || c == 'a') hy_sb_repr(&t, v, 0);
        else hy_rt_fail(rt, HY_E_FORMAT, "Unknown conversion specifier '%c'", c);
        v = hy_sb_take(&t);
        if (i < n && s[i] != ':')
            hy_rt_fail(rt, HY_E_FORMAT, "expected ':' after conversion specifier");
    }
    hy_val f = i < n ? format_text(b, s + i + 1, n - i - 1, depth + 1) : hy_v_text(rt, "");
    if (v.type == HY_V_UNDEF && f.u.s->n)
        hy_rt_fail(rt, HY_E_FORMAT, "unsupported format string passed to Undefined.__format__");
    if (b->markup && !f.u.s->n) v = hy_v_escape(rt, v);
    format_value(rt, out, v, f.u.s);
}

static hy_val format_text(braces *b, const char *s, size_t n, int depth)
{
    hy_rt *rt = b->rt;
    hy_sb out = { .rt = rt };
    if (depth > 2) hy_rt_fail(rt, HY_E_FORMAT, "Max string recursion exceeded");
    for (size_t i = 0; i < n;) {
        char c = s[i];
        if ((c == '{' || c == '}') && i + 1 < n && s[i + 1] == c && depth == 0) {
            hy_sb_put(&out, s + i, 1);
            i += 2;
        } else if (c == '}') {
            hy_rt_fail(rt, HY_E_FORMAT, "Single '}' encountered in format string");
        } else if (c == '{') {
            size_t from = ++i, open = 1;
            while (i < n && open) {
                if (s[i] == '{') open++;
                if (s[i] == '}') open--;
                i++;
            }
            if (open) hy_rt_fail(rt, HY_E_FORMAT, from >= n ? "Single '{' encountered in format string"
                                                            : "expected '}' before end of string");
            replacement(b, &out, s + from, i - 1 - from, depth);
        } else {
            hy_sb_put(&out, s + i++, 1);
        }
    }
    return hy_sb_take(&out);
}

hy_val hy_format_braces(hy_rt *rt, hy_val fmt, const hy_args *args)
{
    braces b = { rt, args ? args : no_args(), 0, fmt.markup };
    hy_val v = format_text(&b, fmt.u.s->p, fmt.u.s->n, 0);
    v.markup = fmt.markup;
    return v;
}

/* ---- strftime -------------------------------------------------------------------------------- */

hy_val hy_strftime(hy_rt *rt, const hy_str *fmt)
{
    struct tm tm;
    time_t t = rt->now < 0 ? time(NULL) : (time_t)rt->now;
    bool ok = rt->now < 0 ? localtime_r(&t, &tm) != NULL : gmtime_r(&t, &tm) != NULL;
    if (!ok) hy_rt_fail(rt, HY_E_ARG, "strftime_now: %lld is no time", (long long)t);
    hy_sb b = { .rt = rt };
    for (size_t i = 0; i < fmt->n;) {
        char c = fmt->p[i++];
        if (c != '%' || i >= fmt->n) {
            hy_sb_put(&b, &c, 1);
            continue;
        }
        char f[8] = "%", buf[256];
        size_t k = 1;
        while (i < fmt->n && strchr("-_0^#", fmt->p[i]) && fmt->p[i] && k < 4) f[k++] = fmt->p[i++];
        c = i < fmt->n ? fmt->p[i++] : 0;
        if (c == 'f') { /* Python's microseconds; our clock has whole seconds */
            hy_sb_str(&b, "000000");
        } else if (c == 'z' || c == 'Z') { /* datetime.now() knows no zone */
        } else if (c) {
            f[k++] = c;
            f[k] = 0;
            size_t n = strftime(buf, sizeof buf, f, &tm);
            hy_sb_put(&b, buf, n);
        }
    }
    return hy_sb_take(&b);
}
