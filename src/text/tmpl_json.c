/* tojson: json.dumps of Python as transformers calls it (no HTML escapes, no ASCII escapes). */
#include "text/tmpl.h"
#include <math.h>
#include <stdio.h>

static void dump_str(hy_sb *b, const hy_str *s, bool ascii)
{
    static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";
    char esc[16];
    hy_sb_str(b, "\"");
    for (size_t i = 0; i < s->n;) {
        uint32_t r;
        size_t k = hy_utf8_next(s->p + i, s->n - i, &r);
        const char *f = r && r < 0x80 ? strchr(from, (int)r) : NULL;
        if (f) {
            snprintf(esc, sizeof esc, "\\%c", to[f - from]);
            hy_sb_str(b, esc);
        } else if (r < 0x20 || (r >= 0x7F && ascii && r < 0x10000)) {
            snprintf(esc, sizeof esc, "\\u%04x", (unsigned)r);
            hy_sb_str(b, esc);
        } else if (ascii && r >= 0x10000 && r != HY_RUNE_BAD) {
            snprintf(esc, sizeof esc, "\\u%04x\\u%04x", (unsigned)(0xD800 + ((r - 0x10000) >> 10)),
                     (unsigned)(0xDC00 + ((r - 0x10000) & 0x3FF)));
            hy_sb_str(b, esc);
        } else {
            hy_sb_put(b, s->p + i, k);
        }
        i += k;
    }
    hy_sb_str(b, "\"");
}

static void newline(hy_sb *b, const hy_dump *o, int depth)
{
    if (!o->indent) return;
    hy_sb_str(b, "\n");
    for (int i = 0; i < depth; i++) hy_sb_put(b, o->indent->p, o->indent->n);
}

static void dump_list(hy_sb *b, const hy_list *l, const hy_dump *o, int depth)
{
    hy_sb_str(b, "[");
    for (size_t i = 0; i < l->n; i++) {
        if (i) hy_sb_put(b, o->item_sep->p, o->item_sep->n);
        newline(b, o, depth + 1);
        hy_json_dump(b, l->v[i], o, depth + 1);
    }
    if (l->n) newline(b, o, depth);
    hy_sb_str(b, "]");
}

/* The text of a key: numbers, booleans and None become strings. */
static hy_val key_text(hy_rt *rt, hy_val k)
{
    switch (k.type) {
    case HY_V_STR: return k;
    case HY_V_NONE: return hy_v_text(rt, "null");
    case HY_V_BOOL: return hy_v_text(rt, k.u.b ? "true" : "false");
    case HY_V_INT: case HY_V_FLOAT: return hy_v_to_str(rt, k);
    default:
        hy_rt_fail(rt, HY_E_FORMAT, "keys must be str, int, float, bool or None, not %s",
                   hy_v_type_name(k));
    }
}

/* Indices of a dict's entries in the order of the keys (merge sort: stable). */
static void sort_keys(hy_rt *rt, const hy_dict *d, uint32_t *idx, uint32_t *tmp, size_t n)
{
    if (n < 2) return;
    size_t h = n / 2, i = 0, j = h, k = 0;
    sort_keys(rt, d, idx, tmp, h);
    sort_keys(rt, d, idx + h, tmp, n - h);
    while (i < h || j < n) {
        bool right = i == h || (j < n && hy_v_order(rt, d->v[idx[j]].key, d->v[idx[i]].key, "<") < 0);
        tmp[k++] = right ? idx[j++] : idx[i++];
    }
    memcpy(idx, tmp, n * sizeof *idx);
}

static void dump_dict(hy_sb *b, const hy_dict *d, const hy_dump *o, int depth)
{
    uint32_t *idx = NULL;
    if (o->sort_keys && d->n > 1) {
        idx = HY_RT_NEW(b->rt, uint32_t, d->n * 2);
        for (size_t i = 0; i < d->n; i++) idx[i] = (uint32_t)i;
        sort_keys(b->rt, d, idx, idx + d->n, d->n);
    }
    hy_sb_str(b, "{");
    for (size_t i = 0; i < d->n; i++) {
        const hy_entry *e = &d->v[idx ? idx[i] : i];
        if (i) hy_sb_put(b, o->item_sep->p, o->item_sep->n);
        newline(b, o, depth + 1);
        dump_str(b, key_text(b->rt, e->key).u.s, o->ascii);
        hy_sb_put(b, o->key_sep->p, o->key_sep->n);
        hy_json_dump(b, e->value, o, depth + 1);
    }
    if (d->n) newline(b, o, depth);
    hy_sb_str(b, "}");
}

void hy_json_dump(hy_sb *b, hy_val v, const hy_dump *o, int depth)
{
    hy_rt_step(b->rt, 1);
    if (depth > HY_VALUE_DEPTH) hy_rt_fail(b->rt, HY_E_LIMIT, "values nest deeper than %d", depth);
    switch (v.type) {
    case HY_V_STR: dump_str(b, v.u.s, o->ascii); break;
    case HY_V_NONE: hy_sb_str(b, "null"); break;
    case HY_V_BOOL: hy_sb_str(b, v.u.b ? "true" : "false"); break;
    case HY_V_INT: hy_sb_val(b, v); break;
    case HY_V_FLOAT:
        if (isnan(v.u.f)) hy_sb_str(b, "NaN");
        else if (isinf(v.u.f)) hy_sb_str(b, v.u.f > 0 ? "Infinity" : "-Infinity");
        else hy_sb_val(b, v);
        break;
    case HY_V_LIST: case HY_V_TUPLE: dump_list(b, v.u.l, o, depth); break;
    case HY_V_DICT: dump_dict(b, v.u.d, o, depth); break;
    default:
        hy_rt_fail(b->rt, HY_E_FORMAT, "Object of type %s is not JSON serializable",
                   hy_v_type_name(v));
    }
}
