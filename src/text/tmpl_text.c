/* Strings being built, str() and repr() of values, numbers to and from text. */
#include "text/tmpl.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void hy_sb_put(hy_sb *b, const char *s, size_t n)
{
    if (n > b->cap - b->n) {
        size_t cap = HY_MAX(b->cap * 2, HY_MAX(b->n + n, (size_t)64));
        if (cap < n) hy_rt_fail(b->rt, HY_E_LIMIT, "a string is too long");
        char *p = hy_rt_alloc(b->rt, cap, 1);
        if (b->n) memcpy(p, b->p, b->n);
        b->p = p;
        b->cap = cap;
    }
    if (n) memcpy(b->p + b->n, s, n);
    b->n += n;
}

void hy_sb_str(hy_sb *b, const char *z)
{
    hy_sb_put(b, z, strlen(z));
}

void hy_sb_rune(hy_sb *b, uint32_t r)
{
    char u[4];
    hy_sb_put(b, u, hy_utf8_put(r, u));
}

void hy_sb_fill(hy_sb *b, uint32_t rune, int64_t n)
{
    if (n <= 0) return;
    if ((uint64_t)n > b->rt->max_mem) hy_rt_fail(b->rt, HY_E_LIMIT, "a string is too long");
    for (; n > 0; n--) hy_sb_rune(b, rune);
}

hy_val hy_sb_take(hy_sb *b)
{
    return hy_v_str(b->rt, b->p ? b->p : "", b->n);
}

/* The shortest digits that read back as the same number, in the notation of Python's repr. */
void hy_float_repr(double f, char out[40])
{
    if (isnan(f)) {
        strcpy(out, "nan");
        return;
    }
    if (isinf(f)) {
        strcpy(out, f < 0 ? "-inf" : "inf");
        return;
    }
    char e[40];
    for (int prec = 0; prec < 18; prec++) {
        snprintf(e, sizeof e, "%.*e", prec, f);
        if (strtod(e, NULL) == f) break;
    }
    char digits[24];
    int nd = 0, exp = atoi(strchr(e, 'e') + 1);
    for (const char *c = e; *c != 'e'; c++)
        if (*c >= '0' && *c <= '9') digits[nd++] = *c;
    digits[nd] = 0;
    char *o = out;
    if (e[0] == '-') *o++ = '-';
    if (exp < -4 || exp >= 16) {
        *o++ = digits[0];
        if (nd > 1) o += sprintf(o, ".%s", digits + 1);
        sprintf(o, "e%c%02d", exp < 0 ? '-' : '+', abs(exp));
    } else if (exp < 0) {
        o += sprintf(o, "0.");
        for (int i = -1; i > exp; i--) *o++ = '0';
        strcpy(o, digits);
    } else {
        for (int i = 0; i <= exp; i++) *o++ = i < nd ? digits[i] : '0';
        *o++ = '.';
        strcpy(o, nd > exp + 1 ? digits + exp + 1 : "0");
    }
}

static void repr_str(hy_sb *b, const hy_str *s)
{
    bool single = memchr(s->p, '\'', s->n) != NULL, dbl = memchr(s->p, '"', s->n) != NULL;
    char q = single && !dbl ? '"' : '\'', esc[16];
    hy_sb_put(b, &q, 1);
    for (size_t i = 0; i < s->n;) {
        uint32_t r;
        size_t k = hy_utf8_next(s->p + i, s->n - i, &r);
        if (r == (uint32_t)q || r == '\\') {
            snprintf(esc, sizeof esc, "\\%c", (char)r);
            hy_sb_str(b, esc);
        } else if (r == '\n' || r == '\r' || r == '\t') {
            hy_sb_str(b, r == '\n' ? "\\n" : r == '\r' ? "\\r" : "\\t");
        } else if (r != HY_RUNE_BAD && hy_uc_printable(r)) {
            hy_sb_put(b, s->p + i, k);
        } else {
            if (r == HY_RUNE_BAD) r = 0xFFFD;
            snprintf(esc, sizeof esc, r < 0x100 ? "\\x%02x" : r < 0x10000 ? "\\u%04x" : "\\U%08x",
                     (unsigned)r);
            hy_sb_str(b, esc);
        }
        i += k;
    }
    hy_sb_put(b, &q, 1);
}

static void repr_list(hy_sb *b, const hy_list *l, bool tuple, int depth)
{
    hy_sb_str(b, tuple ? "(" : "[");
    for (size_t i = 0; i < l->n; i++) {
        if (i) hy_sb_str(b, ", ");
        hy_sb_repr(b, l->v[i], depth + 1);
    }
    hy_sb_str(b, tuple ? (l->n == 1 ? ",)" : ")") : "]");
}

static void repr_dict(hy_sb *b, const hy_dict *d, int depth)
{
    hy_sb_str(b, "{");
    for (size_t i = 0; i < d->n; i++) {
        if (i) hy_sb_str(b, ", ");
        hy_sb_repr(b, d->v[i].key, depth + 1);
        hy_sb_str(b, ": ");
        hy_sb_repr(b, d->v[i].value, depth + 1);
    }
    hy_sb_str(b, "}");
}

static void repr_view(hy_sb *b, hy_val v, int depth)
{
    hy_sb_str(b, hy_v_type_name(v));
    hy_sb_str(b, "(");
    repr_list(b, hy_v_to_list(b->rt, v), false, depth);
    hy_sb_str(b, ")");
}

static void repr_named(hy_sb *b, const char *what, const hy_str *name)
{
    hy_sb_str(b, what);
    repr_str(b, name);
    hy_sb_str(b, ">");
}

void hy_sb_repr(hy_sb *b, hy_val v, int depth)
{
    static const hy_str caller = { "caller", 6, 6 };
    char num[64];
    hy_rt_step(b->rt, 1);
    if (depth > HY_VALUE_DEPTH) hy_rt_fail(b->rt, HY_E_LIMIT, "values nest deeper than %d", depth);
    switch (v.type) {
    case HY_V_UNDEF: hy_sb_str(b, "Undefined"); break;
    case HY_V_NONE: hy_sb_str(b, "None"); break;
    case HY_V_BOOL: hy_sb_str(b, v.u.b ? "True" : "False"); break;
    case HY_V_INT:
        snprintf(num, sizeof num, "%" PRId64, v.u.i);
        hy_sb_str(b, num);
        break;
    case HY_V_FLOAT:
        hy_float_repr(v.u.f, num);
        hy_sb_str(b, num);
        break;
    case HY_V_STR:
        if (v.markup) hy_sb_str(b, "Markup(");
        repr_str(b, v.u.s);
        if (v.markup) hy_sb_str(b, ")");
        break;
    case HY_V_LIST: repr_list(b, v.u.l, false, depth); break;
    case HY_V_TUPLE: repr_list(b, v.u.l, true, depth); break;
    case HY_V_DICT: repr_dict(b, v.u.d, depth); break;
    case HY_V_VIEW: repr_view(b, v, depth); break;
    case HY_V_RANGE: {
        const hy_range *r = v.u.range;
        char t[96];
        if (r->step == 1) snprintf(t, sizeof t, "range(%" PRId64 ", %" PRId64 ")", r->start, r->stop);
        else snprintf(t, sizeof t, "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")", r->start, r->stop,
                      r->step);
        hy_sb_str(b, t);
        break;
    }
    case HY_V_SPACE:
        hy_sb_str(b, "<Namespace ");
        repr_dict(b, v.u.d, depth);
        hy_sb_str(b, ">");
        break;
    case HY_V_MACRO: {
        const hy_node *n = v.u.macro->node;
        repr_named(b, "<Macro ", n->kind == N_MACRO ? n->value.u.s : &caller);
        break;
    }
    case HY_V_LOOP: {
        int64_t len = hy_v_len(b->rt, v);
        snprintf(num, sizeof num, "<LoopContext %" PRId64 "/%" PRId64 ">", v.u.loop->index0 + 1, len);
        hy_sb_str(b, num);
        break;
    }
    case HY_V_SELF: hy_sb_str(b, "<TemplateReference None>"); break;
    default:
        hy_sb_str(b, "<");
        hy_sb_str(b, hy_v_type_name(v));
        hy_sb_str(b, ">");
    }
}

void hy_sb_val(hy_sb *b, hy_val v)
{
    if (v.type == HY_V_STR) hy_sb_put(b, v.u.s->p, v.u.s->n);
    else if (v.type != HY_V_UNDEF) hy_sb_repr(b, v, 0);
}

hy_val hy_v_to_str(hy_rt *rt, hy_val v)
{
    if (v.type == HY_V_STR) return v;
    hy_sb b = { .rt = rt };
    hy_sb_val(&b, v);
    return hy_sb_take(&b);
}

const char *hy_str_z(hy_rt *rt, const hy_str *s)
{
    char *z = hy_rt_alloc(rt, s->n + 1, 1);
    if (s->n) memcpy(z, s->p, s->n);
    z[s->n] = 0;
    return z;
}

const char *hy_v_repr_z(hy_rt *rt, hy_val v)
{
    hy_sb b = { .rt = rt };
    hy_sb_repr(&b, v, 0);
    hy_str s = { b.p, b.n, SIZE_MAX };
    if (s.n > 200) s.n = 200;
    return hy_str_z(rt, &s);
}

hy_val hy_v_escape(hy_rt *rt, hy_val v)
{
    if (v.type == HY_V_STR && v.markup) return v;
    hy_val s = hy_v_to_str(rt, v);
    hy_sb b = { .rt = rt };
    for (size_t i = 0; i < s.u.s->n; i++) {
        char c = s.u.s->p[i];
        switch (c) {
        case '&': hy_sb_str(&b, "&amp;"); break;
        case '<': hy_sb_str(&b, "&lt;"); break;
        case '>': hy_sb_str(&b, "&gt;"); break;
        case '"': hy_sb_str(&b, "&#34;"); break;
        case '\'': hy_sb_str(&b, "&#39;"); break;
        default: hy_sb_put(&b, &c, 1);
        }
    }
    hy_val r = hy_sb_take(&b);
    r.markup = true;
    return r;
}

/* ---- numbers from text ----------------------------------------------------------------------- */

/* Trims, and checks and drops the underscores that stand between digits. False: none of a number. */
static bool clean_number(const hy_str *s, char *buf, size_t cap)
{
    size_t i = 0, n = s->n, k = 0;
    uint32_t r;
    while (i < n) {
        size_t w = hy_utf8_next(s->p + i, n - i, &r);
        if (!hy_uc_space(r)) break;
        i += w;
    }
    while (n > i) {
        size_t w = 1;
        while (w < 4 && w < n - i && ((uint8_t)s->p[n - w] & 0xC0) == 0x80) w++;
        hy_utf8_next(s->p + n - w, w, &r);
        if (!hy_uc_space(r)) break;
        n -= w;
    }
    if (i == n || n - i >= cap) return false;
    for (size_t j = i; j < n; j++) {
        char c = s->p[j];
        if (c == 0) return false;
        if (c == '_') {
            if (j == i || j + 1 == n || s->p[j - 1] == '_' || s->p[j + 1] == '_') return false;
            char p = s->p[j - 1], q = s->p[j + 1];
            if (p == '.' || q == '.' || p == '+' || p == '-' || q == '+' || q == '-') return false;
            continue;
        }
        buf[k++] = c;
    }
    buf[k] = 0;
    return true;
}

bool hy_str_to_int(const hy_str *s, int base, int64_t *out, bool *too_big)
{
    char buf[4400];
    *too_big = false;
    if (!clean_number(s, buf, sizeof buf)) return false;
    const char *c = buf;
    bool neg = *c == '-';
    if (*c == '-' || *c == '+') c++;
    if (*c == '0' && c[1]) {
        char x = (char)(c[1] | 32);
        int b = x == 'x' ? 16 : x == 'o' ? 8 : x == 'b' ? 2 : 0;
        if (b && (base == b || base == 0)) {
            base = b;
            c += 2;
        } else if (base == 0 && strspn(c, "0") != strlen(c)) {
            return false;
        }
    }
    if (base == 0) base = 10;
    if (!*c) return false;
    uint64_t v = 0;
    for (; *c; c++) {
        int d = *c >= '0' && *c <= '9' ? *c - '0'
                : (*c | 32) >= 'a' && (*c | 32) <= 'z' ? (*c | 32) - 'a' + 10 : 99;
        if (d >= base) return false;
        if (v > (INT64_MAX - (uint64_t)d) / (uint64_t)base) *too_big = true;
        else v = v * (uint64_t)base + (uint64_t)d;
    }
    *out = neg ? -(int64_t)v : (int64_t)v;
    return true;
}

bool hy_str_to_float(hy_rt *rt, const hy_str *s, double *out)
{
    size_t cap = s->n + 2;
    char *buf = hy_rt_alloc(rt, cap, 1);
    if (!clean_number(s, buf, cap)) return false;
    const char *c = buf;
    if (*c == '-' || *c == '+') c++;
    static const char *const words[] = { "inf", "infinity", "nan" };
    bool word = false;
    for (size_t i = 0; i < HY_COUNT(words); i++) word |= strcasecmp(c, words[i]) == 0;
    if (!word && strspn(c, "0123456789.eE+-") != strlen(c)) return false;
    char *end;
    *out = strtod(buf, &end);
    return end != buf && *end == 0;
}
