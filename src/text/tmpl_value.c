/* Values of the template language: making, comparing, walking. Semantics are Python's. */
#include "text/tmpl.h"
#include <math.h>

const hy_val hy_v_none = { .type = HY_V_NONE }, hy_v_missing = { .type = HY_V_MISSING };

hy_val hy_v_bool(bool b)
{
    return (hy_val){ .type = HY_V_BOOL, .u.b = b };
}

hy_val hy_v_int(int64_t i)
{
    return (hy_val){ .type = HY_V_INT, .u.i = i };
}

hy_val hy_v_float(double f)
{
    return (hy_val){ .type = HY_V_FLOAT, .u.f = f };
}

hy_val hy_v_strs(hy_str *s)
{
    return (hy_val){ .type = HY_V_STR, .u.s = s };
}

hy_val hy_v_str(hy_rt *rt, const char *p, size_t n)
{
    hy_str *s = HY_RT_NEW(rt, hy_str, 1);
    *s = (hy_str){ p, n, SIZE_MAX };
    return hy_v_strs(s);
}

hy_val hy_v_text(hy_rt *rt, const char *z)
{
    return hy_v_str(rt, z, strlen(z));
}

hy_val hy_v_undef(hy_rt *rt, const char *hint)
{
    hy_undef *u = HY_RT_NEW(rt, hy_undef, 1);
    u->hint = hint;
    return (hy_val){ .type = HY_V_UNDEF, .u.undef = u };
}

hy_val hy_v_undef_name(hy_rt *rt, const hy_str *name)
{
    hy_undef *u = HY_RT_NEW(rt, hy_undef, 1);
    u->name = name;
    return (hy_val){ .type = HY_V_UNDEF, .u.undef = u };
}

hy_val hy_v_list(hy_rt *rt, hy_vtype type, size_t cap)
{
    hy_list *l = HY_RT_NEW(rt, hy_list, 1);
    if (cap) l->v = HY_RT_NEW(rt, hy_val, cap);
    l->cap = cap;
    return (hy_val){ .type = (uint8_t)type, .u.l = l };
}

void hy_list_push(hy_rt *rt, hy_list *l, hy_val v)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 8;
        hy_val *p = HY_RT_NEW(rt, hy_val, cap);
        if (l->n) memcpy(p, l->v, l->n * sizeof *p);
        l->v = p;
        l->cap = cap;
    }
    l->v[l->n++] = v;
}

/* ---- dict ------------------------------------------------------------------------------------ */

enum { DICT_SMALL = 8 }; /* up to here entries are compared one by one, without an index */

hy_val hy_v_dict(hy_rt *rt)
{
    return (hy_val){ .type = HY_V_DICT, .u.d = HY_RT_NEW(rt, hy_dict, 1) };
}

static void dict_index(hy_rt *rt, hy_dict *d, size_t n_index)
{
    d->index = HY_RT_NEW(rt, uint32_t, n_index);
    d->n_index = n_index;
    for (size_t i = 0; i < d->n; i++) {
        size_t k = d->v[i].hash & (n_index - 1);
        while (d->index[k]) k = (k + 1) & (n_index - 1);
        d->index[k] = (uint32_t)i + 1;
    }
}

static bool key_eq(hy_rt *rt, hy_val a, hy_val b)
{
    if (a.type == HY_V_STR && b.type == HY_V_STR)
        return a.u.s->n == b.u.s->n && memcmp(a.u.s->p, b.u.s->p, a.u.s->n) == 0;
    return hy_v_eq(rt, a, b);
}

/* The place of a key, or d->n. */
static size_t dict_find(hy_rt *rt, const hy_dict *d, hy_val key, uint64_t hash)
{
    if (!d->index) {
        for (size_t i = 0; i < d->n; i++)
            if (d->v[i].hash == hash && key_eq(rt, d->v[i].key, key)) return i;
        return d->n;
    }
    for (size_t k = hash & (d->n_index - 1); d->index[k]; k = (k + 1) & (d->n_index - 1)) {
        size_t i = d->index[k] - 1;
        if (d->v[i].hash == hash && key_eq(rt, d->v[i].key, key)) return i;
    }
    return d->n;
}

void hy_dict_set(hy_rt *rt, hy_dict *d, hy_val key, hy_val v)
{
    uint64_t hash = hy_v_hash(rt, key);
    size_t i = dict_find(rt, d, key, hash);
    if (i < d->n) {
        d->v[i].value = v;
        return;
    }
    if (d->n == d->cap) {
        size_t cap = d->cap ? d->cap * 2 : 4;
        if (cap > UINT32_MAX / 4) hy_rt_fail(rt, HY_E_LIMIT, "a dict of more than %zu keys", d->n);
        hy_entry *e = HY_RT_NEW(rt, hy_entry, cap);
        if (d->n) memcpy(e, d->v, d->n * sizeof *e);
        d->v = e;
        d->cap = cap;
    }
    d->v[d->n++] = (hy_entry){ key, v, hash };
    if (d->n <= DICT_SMALL) return;
    if (d->n * 2 > d->n_index) {
        dict_index(rt, d, d->n_index ? d->n_index * 2 : 32);
    } else {
        size_t k = hash & (d->n_index - 1);
        while (d->index[k]) k = (k + 1) & (d->n_index - 1);
        d->index[k] = (uint32_t)d->n;
    }
}

const hy_val *hy_dict_get(hy_rt *rt, const hy_dict *d, hy_val key)
{
    size_t i = dict_find(rt, d, key, hy_v_hash(rt, key));
    return i < d->n ? &d->v[i].value : NULL;
}

const hy_val *hy_dict_get_str(hy_rt *rt, const hy_dict *d, const hy_str *key)
{
    if (!d->index) {
        for (size_t i = 0; i < d->n; i++) {
            const hy_val *k = &d->v[i].key;
            if (k->type == HY_V_STR && k->u.s->n == key->n &&
                memcmp(k->u.s->p, key->p, key->n) == 0)
                return &d->v[i].value;
        }
        return NULL;
    }
    return hy_dict_get(rt, d, (hy_val){ .type = HY_V_STR, .u.s = (hy_str *)(uintptr_t)key });
}

hy_val hy_v_from_json(hy_rt *rt, const json_t *j, int depth)
{
    if (depth > HY_VALUE_DEPTH) hy_rt_fail(rt, HY_E_LIMIT, "variables nest deeper than %d", depth);
    switch (json_typeof(j)) {
    case JSON_STRING: return hy_v_str(rt, json_string_value(j), json_string_length(j));
    case JSON_INTEGER: return hy_v_int(json_integer_value(j));
    case JSON_REAL: return hy_v_float(json_real_value(j));
    case JSON_TRUE: return hy_v_bool(true);
    case JSON_FALSE: return hy_v_bool(false);
    case JSON_NULL: return hy_v_none;
    case JSON_ARRAY: {
        size_t n = json_array_size(j);
        hy_val v = hy_v_list(rt, HY_V_LIST, n);
        for (size_t i = 0; i < n; i++)
            hy_list_push(rt, v.u.l, hy_v_from_json(rt, json_array_get(j, i), depth + 1));
        return v;
    }
    case JSON_OBJECT: {
        hy_val v = hy_v_dict(rt);
        json_t *o = (json_t *)(uintptr_t)j; /* jansson's iterator wants it writable; only reads */
        for (void *it = json_object_iter(o); it; it = json_object_iter_next(o, it)) {
            hy_val key = hy_v_str(rt, json_object_iter_key(it), json_object_iter_key_len(it));
            hy_dict_set(rt, v.u.d, key, hy_v_from_json(rt, json_object_iter_value(it), depth + 1));
        }
        return v;
    }
    }
    return hy_v_none;
}

/* ---- asking ---------------------------------------------------------------------------------- */

size_t hy_str_runes(const hy_str *s)
{
    if (s->n_rune != SIZE_MAX) return s->n_rune;
    size_t k = 0;
    for (size_t i = 0; i < s->n; i++) k += ((uint8_t)s->p[i] & 0xC0) != 0x80;
    return k;
}

static size_t runes(hy_str *s)
{
    if (s->n_rune == SIZE_MAX) s->n_rune = hy_str_runes(s);
    return s->n_rune;
}

size_t hy_str_offset(const hy_str *s, size_t i_rune)
{
    if (hy_str_runes(s) == s->n) return HY_MIN(i_rune, s->n);
    size_t i = 0;
    while (i < s->n && i_rune > 0) {
        i++;
        while (i < s->n && ((uint8_t)s->p[i] & 0xC0) == 0x80) i++;
        i_rune--;
    }
    return i;
}

bool hy_v_truth(hy_rt *rt, hy_val v)
{
    switch (v.type) {
    case HY_V_MISSING: case HY_V_UNDEF: case HY_V_NONE: return false;
    case HY_V_BOOL: return v.u.b;
    case HY_V_INT: return v.u.i != 0;
    case HY_V_FLOAT: return v.u.f != 0;
    case HY_V_STR: return v.u.s->n != 0;
    case HY_V_LIST: case HY_V_TUPLE: return v.u.l->n != 0;
    case HY_V_DICT: case HY_V_VIEW: return v.u.d->n != 0;
    case HY_V_RANGE: return v.u.range->n != 0;
    default: return true;
    }
}

static bool list_eq(hy_rt *rt, const hy_list *a, const hy_list *b)
{
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++)
        if (!hy_v_eq(rt, a->v[i], b->v[i])) return false;
    return true;
}

static bool dict_eq(hy_rt *rt, const hy_dict *a, const hy_dict *b)
{
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++) {
        const hy_val *o = hy_dict_get(rt, b, a->v[i].key);
        if (!o || !hy_v_eq(rt, a->v[i].value, *o)) return false;
    }
    return true;
}

static bool int_float_eq(int64_t i, double f)
{
    return f >= -9223372036854775808.0 && f < 9223372036854775808.0 && f == floor(f) &&
           (int64_t)f == i;
}

static bool values_eq(hy_rt *rt, hy_val a, hy_val b)
{
    if (hy_is_num(a) && hy_is_num(b)) {
        if (hy_is_int(a) && hy_is_int(b)) return hy_as_int(a) == hy_as_int(b);
        if (hy_is_int(a)) return int_float_eq(hy_as_int(a), b.u.f);
        if (hy_is_int(b)) return int_float_eq(hy_as_int(b), a.u.f);
        return a.u.f == b.u.f;
    }
    if (a.type != b.type) return false;
    switch (a.type) {
    case HY_V_UNDEF: case HY_V_NONE: case HY_V_MISSING: return true;
    case HY_V_STR:
        hy_rt_step(rt, a.u.s->n >> 8);
        return a.u.s->n == b.u.s->n && memcmp(a.u.s->p, b.u.s->p, a.u.s->n) == 0;
    case HY_V_LIST: case HY_V_TUPLE: return list_eq(rt, a.u.l, b.u.l);
    case HY_V_DICT: return dict_eq(rt, a.u.d, b.u.d);
    case HY_V_RANGE: {
        const hy_range *x = a.u.range, *y = b.u.range;
        return x->n == y->n && (x->n == 0 || (x->start == y->start &&
                                              (x->n == 1 || x->step == y->step)));
    }
    case HY_V_VIEW:
        if (a.aux != b.aux || a.aux == 'v') return a.u.d == b.u.d && a.aux == b.aux && a.aux != 'v';
        return dict_eq(rt, a.u.d, b.u.d);
    case HY_V_BOUND:
        return a.u.bound->fn == b.u.bound->fn && hy_v_is(a.u.bound->self, b.u.bound->self);
    default: return hy_v_is(a, b);
    }
}

bool hy_v_eq(hy_rt *rt, hy_val a, hy_val b)
{
    hy_rt_step(rt, 1);
    if (rt->nest > HY_NEST_MAX) hy_rt_fail(rt, HY_E_LIMIT, "values nest too deeply to compare");
    rt->nest++;
    bool eq = values_eq(rt, a, b);
    rt->nest--;
    return eq;
}

bool hy_v_is(hy_val a, hy_val b)
{
    if (a.type != b.type) return false;
    switch (a.type) {
    case HY_V_UNDEF: return a.u.undef == b.u.undef;
    case HY_V_NONE: case HY_V_MISSING: return true;
    case HY_V_BOOL: return a.u.b == b.u.b;
    case HY_V_INT: return a.u.i == b.u.i;
    case HY_V_FLOAT: return a.u.f == b.u.f;
    case HY_V_STR:
        return a.u.s == b.u.s || (a.u.s->n == b.u.s->n && a.u.s->p == b.u.s->p);
    default: return a.u.l == b.u.l;
    }
}

static _Noreturn void fail_order(hy_rt *rt, hy_val a, hy_val b, const char *op)
{
    if (a.type == HY_V_UNDEF) hy_rt_fail_undef(rt, a);
    if (b.type == HY_V_UNDEF) hy_rt_fail_undef(rt, b);
    hy_rt_fail(rt, HY_E_FORMAT, "'%s' not supported between instances of '%s' and '%s'", op,
               hy_v_type_name(a), hy_v_type_name(b));
}

static int order_numbers(hy_val a, hy_val b)
{
    if (hy_is_int(a) && hy_is_int(b)) {
        int64_t x = hy_as_int(a), y = hy_as_int(b);
        return (x > y) - (x < y);
    }
    double x = hy_as_float(a), y = hy_as_float(b);
    if (isnan(x) || isnan(y)) return 2;
    return (x > y) - (x < y);
}

int hy_v_order(hy_rt *rt, hy_val a, hy_val b, const char *op)
{
    hy_rt_step(rt, 1);
    if (hy_is_num(a) && hy_is_num(b)) return order_numbers(a, b);
    if (a.type == HY_V_STR && b.type == HY_V_STR) { /* code point order is the order of the bytes */
        size_t n = HY_MIN(a.u.s->n, b.u.s->n);
        int c = n ? memcmp(a.u.s->p, b.u.s->p, n) : 0;
        if (c) return c < 0 ? -1 : 1;
        return (a.u.s->n > b.u.s->n) - (a.u.s->n < b.u.s->n);
    }
    if (a.type == b.type && (a.type == HY_V_LIST || a.type == HY_V_TUPLE)) {
        if (rt->nest > HY_NEST_MAX) hy_rt_fail(rt, HY_E_LIMIT, "values nest too deeply to compare");
        rt->nest++;
        const hy_list *x = a.u.l, *y = b.u.l;
        size_t i = 0;
        while (i < x->n && i < y->n && hy_v_eq(rt, x->v[i], y->v[i])) i++;
        int c = i < x->n && i < y->n ? hy_v_order(rt, x->v[i], y->v[i], op)
                                     : (x->n > y->n) - (x->n < y->n);
        rt->nest--;
        return c;
    }
    fail_order(rt, a, b, op);
}

uint64_t hy_v_hash(hy_rt *rt, hy_val v)
{
    switch (v.type) {
    case HY_V_STR: return hy_hash64(v.u.s->p, v.u.s->n, 0);
    case HY_V_FLOAT:
        if (!(v.u.f >= -9223372036854775808.0 && v.u.f < 9223372036854775808.0 &&
              v.u.f == floor(v.u.f)))
            return hy_hash64(&v.u.f, sizeof v.u.f, 2);
        v = hy_v_int((int64_t)v.u.f); /* equal numbers hash alike */
        /* fall through */
    case HY_V_INT: case HY_V_BOOL: {
        int64_t i = hy_as_int(v);
        return hy_hash64(&i, sizeof i, 1);
    }
    case HY_V_TUPLE: {
        if (rt->nest > HY_NEST_MAX) hy_rt_fail(rt, HY_E_LIMIT, "a tuple nests too deeply");
        rt->nest++;
        uint64_t h = 3;
        for (size_t i = 0; i < v.u.l->n; i++) {
            uint64_t k = hy_v_hash(rt, v.u.l->v[i]);
            h = hy_hash64(&k, sizeof k, h);
        }
        rt->nest--;
        return h;
    }
    case HY_V_LIST: case HY_V_DICT: case HY_V_VIEW:
        hy_rt_fail(rt, HY_E_FORMAT, "unhashable type: '%s'", hy_v_type_name(v));
    default: return v.type;
    }
}

const char *hy_v_type_name(hy_val v)
{
    switch (v.type) {
    case HY_V_UNDEF: return "Undefined";
    case HY_V_NONE: return "NoneType";
    case HY_V_BOOL: return "bool";
    case HY_V_INT: return "int";
    case HY_V_FLOAT: return "float";
    case HY_V_STR: return v.markup ? "Markup" : "str";
    case HY_V_LIST: return "list";
    case HY_V_TUPLE: return v.u.l->grouped ? "_GroupTuple" : "tuple";
    case HY_V_DICT: return "dict";
    case HY_V_RANGE: return "range";
    case HY_V_VIEW: return v.aux == 'k' ? "dict_keys" : v.aux == 'v' ? "dict_values" : "dict_items";
    case HY_V_GEN: return "generator";
    case HY_V_SPACE: return "Namespace";
    case HY_V_BOUND: return "builtin_function_or_method";
    case HY_V_MACRO: return "Macro";
    case HY_V_LOOP: return "LoopContext";
    case HY_V_CYCLER: return "Cycler";
    case HY_V_JOINER: return "Joiner";
    case HY_V_SELF: return "TemplateReference";
    case HY_V_BLOCK: return "BlockReference";
    default: return "function";
    }
}

bool hy_v_has_len(hy_val v)
{
    switch (v.type) {
    case HY_V_UNDEF: case HY_V_STR: case HY_V_LIST: case HY_V_TUPLE: case HY_V_DICT: case HY_V_RANGE:
    case HY_V_VIEW: case HY_V_LOOP:
        return true;
    default: return false;
    }
}

int64_t hy_v_len(hy_rt *rt, hy_val v)
{
    switch (v.type) {
    case HY_V_UNDEF: return 0;
    case HY_V_STR: return (int64_t)runes(v.u.s);
    case HY_V_LIST: case HY_V_TUPLE: return (int64_t)v.u.l->n;
    case HY_V_DICT: case HY_V_VIEW: return (int64_t)v.u.d->n;
    case HY_V_RANGE: return v.u.range->n;
    case HY_V_LOOP: {
        static const hy_str name = { "length", 6, 6 };
        bool found;
        return hy_loop_attr(rt, v.u.loop, &name, &found).u.i;
    }
    default:
        hy_rt_fail(rt, HY_E_FORMAT, "object of type '%s' has no len()", hy_v_type_name(v));
    }
}

bool hy_v_contains(hy_rt *rt, hy_val in, hy_val item)
{
    switch (in.type) {
    case HY_V_STR:
        if (item.type != HY_V_STR)
            hy_rt_fail(rt, HY_E_FORMAT, "'in <string>' requires string as left operand, not %s",
                       hy_v_type_name(item));
        hy_rt_step(rt, in.u.s->n >> 6);
        return hy_bytes_find(in.u.s->p, in.u.s->n, item.u.s->p, item.u.s->n) != SIZE_MAX;
    case HY_V_DICT: return hy_dict_get(rt, in.u.d, item) != NULL;
    case HY_V_VIEW:
        if (in.aux == 'k') return hy_dict_get(rt, in.u.d, item) != NULL;
        break;
    case HY_V_RANGE: {
        const hy_range *r = in.u.range;
        if (item.type == HY_V_FLOAT && item.u.f == floor(item.u.f) && fabs(item.u.f) < 1e15)
            item = hy_v_int((int64_t)item.u.f);
        if (!hy_is_int(item) || r->n == 0) return false;
        int64_t x = hy_as_int(item);
        int64_t last = r->start + (r->n - 1) * r->step;
        if (x < HY_MIN(r->start, last) || x > HY_MAX(r->start, last)) return false;
        return ((__int128)x - r->start) % r->step == 0;
    }
    default: break;
    }
    if (!hy_v_iterable(in))
        hy_rt_fail(rt, HY_E_FORMAT, "argument of type '%s' is not iterable", hy_v_type_name(in));
    hy_iter it;
    hy_val v;
    hy_iter_init(rt, &it, in);
    while (hy_iter_next(rt, &it, &v))
        if (hy_v_is(v, item) || hy_v_eq(rt, v, item)) return true;
    return false;
}

/* ---- walking --------------------------------------------------------------------------------- */

bool hy_v_iterable(hy_val v)
{
    switch (v.type) {
    case HY_V_UNDEF: case HY_V_STR: case HY_V_LIST: case HY_V_TUPLE: case HY_V_DICT: case HY_V_RANGE:
    case HY_V_VIEW: case HY_V_GEN:
        return true;
    default: return false;
    }
}

void hy_iter_init(hy_rt *rt, hy_iter *it, hy_val v)
{
    if (!hy_v_iterable(v))
        hy_rt_fail(rt, HY_E_FORMAT, "'%s' object is not iterable", hy_v_type_name(v));
    *it = (hy_iter){ v, 0 };
}

static hy_val pair(hy_rt *rt, hy_val a, hy_val b)
{
    hy_val t = hy_v_list(rt, HY_V_TUPLE, 2);
    hy_list_push(rt, t.u.l, a);
    hy_list_push(rt, t.u.l, b);
    return t;
}

bool hy_iter_next(hy_rt *rt, hy_iter *it, hy_val *out)
{
    hy_rt_step(rt, 1);
    switch (it->src.type) {
    case HY_V_STR: {
        const hy_str *s = it->src.u.s;
        if (it->i >= s->n) return false;
        uint32_t r;
        size_t k = hy_utf8_next(s->p + it->i, s->n - it->i, &r);
        *out = hy_v_str(rt, s->p + it->i, k);
        it->i += k;
        return true;
    }
    case HY_V_LIST: case HY_V_TUPLE:
        if (it->i >= it->src.u.l->n) return false;
        *out = it->src.u.l->v[it->i++];
        return true;
    case HY_V_GEN:
        if (it->src.u.l->pos >= it->src.u.l->n) return false;
        *out = it->src.u.l->v[it->src.u.l->pos++];
        return true;
    case HY_V_DICT: case HY_V_VIEW: {
        if (it->i >= it->src.u.d->n) return false;
        const hy_entry *e = &it->src.u.d->v[it->i++];
        char kind = it->src.type == HY_V_DICT ? 'k' : (char)it->src.aux;
        *out = kind == 'k' ? e->key : kind == 'v' ? e->value : pair(rt, e->key, e->value);
        return true;
    }
    case HY_V_RANGE: {
        const hy_range *r = it->src.u.range;
        if ((int64_t)it->i >= r->n) return false;
        *out = hy_v_int(r->start + (int64_t)it->i++ * r->step);
        return true;
    }
    default: return false;
    }
}

hy_list *hy_v_to_list(hy_rt *rt, hy_val v)
{
    hy_iter it;
    hy_val x;
    hy_iter_init(rt, &it, v);
    hy_list *l = hy_v_list(rt, HY_V_LIST, v.type == HY_V_LIST ? v.u.l->n : 0).u.l;
    while (hy_iter_next(rt, &it, &x)) hy_list_push(rt, l, x);
    return l;
}
