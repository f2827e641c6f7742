/* String work shared by methods and filters: case, strip, replace, search, lines. All of it counts
 * code points where Python does. */
#include "text/tmpl.h"

size_t hy_bytes_find(const char *s, size_t n, const char *what, size_t m)
{
    if (m == 0) return 0;
    if (m > n) return SIZE_MAX;
    const char *f = memmem(s, n, what, m);
    return f ? (size_t)(f - s) : SIZE_MAX;
}

hy_val hy_str_sub(hy_rt *rt, const hy_str *s, size_t from, size_t to, bool markup)
{
    if (to < from) to = from;
    hy_val v = hy_v_str(rt, s->p + from, to - from);
    if (s->n_rune == s->n) v.u.s->n_rune = to - from; /* ASCII stays ASCII */
    v.markup = markup;
    return v;
}

static bool cased(uint32_t c)
{
    return hy_uc_upper(c) || hy_uc_lower(c) || hy_uc_title(c);
}

/* Capital sigma at byte i: at the end of a word its small form differs (SpecialCasing, Final_Sigma). */
static uint32_t small_sigma(const hy_str *s, size_t i, size_t k)
{
    bool before = false;
    for (size_t j = i; j > 0;) {
        uint32_t r;
        j--;
        while (j > 0 && ((uint8_t)s->p[j] & 0xC0) == 0x80) j--;
        hy_utf8_next(s->p + j, s->n - j, &r);
        if (hy_uc_ignorable(r)) continue;
        before = cased(r);
        break;
    }
    if (!before) return 0x3C3;
    for (size_t j = i + k; j < s->n;) {
        uint32_t r;
        j += hy_utf8_next(s->p + j, s->n - j, &r);
        if (hy_uc_ignorable(r)) continue;
        return cased(r) ? 0x3C3 : 0x3C2;
    }
    return 0x3C2;
}

static char how_here(char how, uint32_t r, bool first, bool in_word)
{
    switch (how) {
    case 'c': return first ? 't' : 'l';
    case 't': return in_word ? 'l' : 't';
    case 's': return hy_uc_upper(r) ? 'l' : hy_uc_lower(r) ? 'u' : ' ';
    default: return how;
    }
}

hy_val hy_str_case(hy_rt *rt, hy_val v, char how)
{
    const hy_str *s = v.u.s;
    hy_sb b = { .rt = rt };
    bool in_word = false;
    for (size_t i = 0; i < s->n;) {
        uint32_t r, out[3];
        size_t k = hy_utf8_next(s->p + i, s->n - i, &r);
        char h = how_here(how, r, i == 0, in_word);
        if (r < 0x80) {
            char c = (char)r;
            bool lo = r >= 'a' && r <= 'z', up = r >= 'A' && r <= 'Z';
            if (((h == 'u' || h == 't') && lo) || ((h == 'l' || h == 'f') && up)) c ^= 32;
            hy_sb_put(&b, &c, 1);
            in_word = lo || up;
        } else if (h == 'l' && r == 0x3A3) {
            hy_sb_rune(&b, small_sigma(s, i, k));
            in_word = true;
        } else {
            int n = hy_uc_to(r, h, out);
            for (int j = 0; j < n; j++) hy_sb_rune(&b, out[j]);
            if (how == 't') in_word = cased(r);
        }
        i += k;
    }
    hy_val o = hy_sb_take(&b);
    o.markup = v.markup;
    return o;
}

static bool in_set(const hy_str *set, uint32_t r)
{
    if (!set) return hy_uc_space(r);
    for (size_t i = 0; i < set->n;) {
        uint32_t c;
        i += hy_utf8_next(set->p + i, set->n - i, &c);
        if (c == r) return true;
    }
    return false;
}

hy_val hy_str_strip(hy_rt *rt, hy_val v, hy_val chars, bool left, bool right)
{
    const hy_str *s = v.u.s, *set = NULL;
    if (chars.type == HY_V_STR) set = chars.u.s;
    else if (chars.type != HY_V_MISSING && chars.type != HY_V_NONE)
        hy_rt_fail(rt, HY_E_FORMAT, "strip arg must be None or str");
    size_t i = 0, n = s->n;
    while (left && i < n) {
        uint32_t r;
        size_t k = hy_utf8_next(s->p + i, n - i, &r);
        if (!in_set(set, r)) break;
        i += k;
    }
    while (right && n > i) {
        uint32_t r;
        size_t k = 1;
        while (k < 4 && k < n - i && ((uint8_t)s->p[n - k] & 0xC0) == 0x80) k++;
        hy_utf8_next(s->p + n - k, k, &r);
        if (!in_set(set, r)) break;
        n -= k;
    }
    return hy_str_sub(rt, s, i, n, v.markup);
}

hy_val hy_str_replace(hy_rt *rt, hy_val v, hy_val old, hy_val with, int64_t count)
{
    const hy_str *s = v.u.s, *o = old.u.s, *w = with.u.s;
    hy_sb b = { .rt = rt };
    size_t i = 0;
    hy_rt_step(rt, s->n >> 6);
    if (o->n == 0) { /* between all characters */
        while (count != 0) {
            hy_sb_put(&b, w->p, w->n);
            count--;
            if (i >= s->n) break;
            uint32_t r;
            size_t k = hy_utf8_next(s->p + i, s->n - i, &r);
            hy_sb_put(&b, s->p + i, k);
            i += k;
        }
    } else {
        while (count != 0) {
            size_t f = hy_bytes_find(s->p + i, s->n - i, o->p, o->n);
            if (f == SIZE_MAX) break;
            hy_sb_put(&b, s->p + i, f);
            hy_sb_put(&b, w->p, w->n);
            i += f + o->n;
            count--;
        }
        if (i == 0) return v;
    }
    hy_sb_put(&b, s->p + i, s->n - i);
    hy_val r = hy_sb_take(&b);
    r.markup = v.markup;
    return r;
}

static bool is_break(uint32_t r)
{
    return (r >= 10 && r <= 13) || (r >= 0x1C && r <= 0x1E) || r == 0x85 || r == 0x2028 ||
           r == 0x2029;
}

hy_list *hy_str_lines(hy_rt *rt, const hy_str *s, bool keep)
{
    hy_list *l = hy_v_list(rt, HY_V_LIST, 0).u.l;
    size_t from = 0;
    for (size_t i = 0; i < s->n;) {
        uint32_t r;
        size_t k = hy_utf8_next(s->p + i, s->n - i, &r), end = i;
        i += k;
        if (!is_break(r)) continue;
        if (r == '\r' && i < s->n && s->p[i] == '\n') i++;
        hy_list_push(rt, l, hy_str_sub(rt, s, from, keep ? i : end, false));
        from = i;
    }
    if (from < s->n) hy_list_push(rt, l, hy_str_sub(rt, s, from, s->n, false));
    return l;
}
