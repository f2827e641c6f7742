/* Global functions, tests, and the methods of everything but strings. */
#include "text/tmpl.h"
#include <math.h>
#include <stdio.h>

#define FN(name) static hy_val name(hy_rt *rt, hy_val self, const hy_val *a, const hy_args *raw)

static int64_t need_int(hy_rt *rt, hy_val v)
{
    if (v.type == HY_V_UNDEF) hy_rt_fail_undef(rt, v);
    if (!hy_is_int(v))
        hy_rt_fail(rt, HY_E_FORMAT, "'%s' object cannot be interpreted as an integer",
                   hy_v_type_name(v));
    return hy_as_int(v);
}

/* ---- globals --------------------------------------------------------------------------------- */

FN(g_range)
{
    enum { MAX_RANGE = 100000 }; /* the sandbox's bound */
    hy_range *r = HY_RT_NEW(rt, hy_range, 1);
    r->step = 1;
    if (a[1].type == HY_V_MISSING) {
        r->stop = need_int(rt, a[0]);
    } else {
        r->start = need_int(rt, a[0]);
        r->stop = need_int(rt, a[1]);
        if (a[2].type != HY_V_MISSING) r->step = need_int(rt, a[2]);
    }
    if (r->step == 0) hy_rt_fail(rt, HY_E_FORMAT, "range() arg 3 must not be zero");
    __int128 span = (__int128)r->stop - r->start, step = r->step, n = 0;
    if ((step > 0) == (span > 0) && span != 0) n = (span - (step > 0 ? 1 : -1)) / step + 1;
    if (n > MAX_RANGE)
        hy_rt_fail(rt, HY_E_LIMIT, "Range too big. The sandbox blocks ranges larger than MAX_RANGE "
                   "(%d).", MAX_RANGE);
    r->n = (int64_t)n;
    return (hy_val){ .type = HY_V_RANGE, .u.range = r };
}

/* dict(mapping or pairs, **kw) */
static hy_val make_dict(hy_rt *rt, const hy_args *raw, const char *what)
{
    hy_val d = hy_v_dict(rt), v;
    if (raw->n > 1)
        hy_rt_fail(rt, HY_E_FORMAT, "%s expected at most 1 argument, got %zu", what, raw->n);
    if (raw->n && raw->v[0].type == HY_V_DICT) {
        const hy_dict *o = raw->v[0].u.d;
        for (size_t i = 0; i < o->n; i++) hy_dict_set(rt, d.u.d, o->v[i].key, o->v[i].value);
    } else if (raw->n) {
        hy_iter it;
        hy_iter_init(rt, &it, raw->v[0]);
        for (size_t i = 0; hy_iter_next(rt, &it, &v); i++) {
            hy_list *p = hy_v_to_list(rt, v);
            if (p->n != 2)
                hy_rt_fail(rt, HY_E_FORMAT, "dictionary update sequence element #%zu has length "
                           "%zu; 2 is required", i, p->n);
            hy_dict_set(rt, d.u.d, p->v[0], p->v[1]);
        }
    }
    for (size_t i = 0; i < raw->n_kw; i++)
        hy_dict_set(rt, d.u.d, hy_v_str(rt, raw->kw[i].name->p, raw->kw[i].name->n), raw->kw[i].v);
    return d;
}

FN(g_dict)
{
    return make_dict(rt, raw, "dict");
}

FN(g_namespace)
{
    hy_val v = make_dict(rt, raw, "namespace");
    v.type = HY_V_SPACE;
    return v;
}

FN(g_cycler)
{
    if (!raw->n) hy_rt_fail(rt, HY_E_FORMAT, "at least one item has to be provided");
    hy_cycler *c = HY_RT_NEW(rt, hy_cycler, 1);
    c->items = hy_v_list(rt, HY_V_LIST, raw->n).u.l;
    for (size_t i = 0; i < raw->n; i++) hy_list_push(rt, c->items, raw->v[i]);
    return (hy_val){ .type = HY_V_CYCLER, .u.cycler = c };
}

FN(g_joiner)
{
    hy_cycler *c = HY_RT_NEW(rt, hy_cycler, 1);
    c->items = hy_v_list(rt, HY_V_LIST, 1).u.l;
    hy_list_push(rt, c->items, a[0].type == HY_V_MISSING ? hy_v_text(rt, ", ") : a[0]);
    return (hy_val){ .type = HY_V_JOINER, .u.cycler = c };
}

/* Filler text for layouts. Jinja's is random; ours is the same few words each time. */
FN(g_lipsum)
{
    int64_t n = a[0].type == HY_V_MISSING ? 5 : need_int(rt, a[0]);
    bool html = a[1].type == HY_V_MISSING || hy_v_truth(rt, a[1]);
    hy_sb b = { .rt = rt };
    for (int64_t i = 0; i < n; i++) {
        hy_rt_step(rt, 1);
        if (i) hy_sb_str(&b, html ? "\n" : "\n\n");
        hy_sb_str(&b, html ? "<p>Lorem ipsum dolor sit amet.</p>" : "Lorem ipsum dolor sit amet.");
    }
    hy_val v = hy_sb_take(&b);
    v.markup = html;
    return v;
}

FN(g_raise_exception)
{
    hy_val s = hy_v_to_str(rt, a[0]);
    rt->raised = true;
    hy_rt_fail(rt, HY_E_ARG, "%s", hy_str_z(rt, s.u.s));
}

FN(g_strftime_now)
{
    if (a[0].type != HY_V_STR)
        hy_rt_fail(rt, HY_E_FORMAT, "strftime() argument 1 must be str, not %s",
                   hy_v_type_name(a[0]));
    return hy_strftime(rt, a[0].u.s);
}

static const hy_fn globals[] = {
    { "range", g_range, "start,stop,step", 1 },
    { "dict", g_dict, NULL, 0 },
    { "namespace", g_namespace, NULL, 0 },
    { "cycler", g_cycler, NULL, 0 },
    { "joiner", g_joiner, "sep", 0 },
    { "lipsum", g_lipsum, "n,html,min,max", 0 },
    { "raise_exception", g_raise_exception, "message", 1 },
    { "strftime_now", g_strftime_now, "format", 1 },
};

const hy_fn *hy_find_global(const char *name, size_t n)
{
    return hy_fn_find(globals, HY_COUNT(globals), name, n);
}

/* ---- methods --------------------------------------------------------------------------------- */

static hy_val view(hy_val d, char kind)
{
    return (hy_val){ .type = HY_V_VIEW, .aux = (uint16_t)kind, .u.d = d.u.d };
}

FN(d_keys) { return view(self, 'k'); }
FN(d_values) { return view(self, 'v'); }
FN(d_items) { return view(self, 'i'); }

FN(d_get)
{
    const hy_val *v = hy_dict_get(rt, self.u.d, a[0]);
    if (v) return *v;
    return a[1].type == HY_V_MISSING ? hy_v_none : a[1];
}

FN(d_copy)
{
    hy_args one = { &self, 1, NULL, 0 };
    return make_dict(rt, &one, "dict");
}

FN(d_fromkeys)
{
    hy_val d = hy_v_dict(rt), k;
    hy_iter it;
    hy_iter_init(rt, &it, a[0]);
    while (hy_iter_next(rt, &it, &k))
        hy_dict_set(rt, d.u.d, k, a[1].type == HY_V_MISSING ? hy_v_none : a[1]);
    return d;
}

FN(l_count)
{
    hy_iter it;
    hy_val v;
    int64_t n = 0;
    hy_iter_init(rt, &it, self);
    while (hy_iter_next(rt, &it, &v)) n += hy_v_eq(rt, v, a[0]);
    return hy_v_int(n);
}

FN(l_index)
{
    int64_t n = hy_v_len(rt, self);
    int64_t lo = a[1].type == HY_V_MISSING ? 0 : need_int(rt, a[1]);
    int64_t hi = a[2].type == HY_V_MISSING ? n : need_int(rt, a[2]);
    if (lo < 0) lo = HY_MAX(lo + n, 0);
    if (hi < 0) hi += n;
    for (int64_t i = lo; i < HY_MIN(hi, n); i++)
        if (hy_v_eq(rt, hy_op_item(rt, self, hy_v_int(i)), a[0])) return hy_v_int(i);
    hy_rt_fail(rt, HY_E_FORMAT, "%s is not in %s", hy_v_repr_z(rt, a[0]), hy_v_type_name(self));
}

FN(l_copy)
{
    return (hy_val){ .type = HY_V_LIST, .u.l = hy_v_to_list(rt, self) };
}

FN(c_next)
{
    hy_cycler *c = self.u.cycler;
    hy_val v = c->items->v[c->pos];
    c->pos = (c->pos + 1) % c->items->n;
    return v;
}

FN(c_reset)
{
    self.u.cycler->pos = 0;
    return hy_v_none;
}

FN(n_is_integer)
{
    return hy_v_bool(isfinite(self.u.f) && self.u.f == floor(self.u.f));
}

FN(n_bit_length)
{
    int64_t i = hy_as_int(self);
    uint64_t u = i < 0 ? -(uint64_t)i : (uint64_t)i;
    return hy_v_int(u ? 64 - __builtin_clzll(u) : 0);
}

static const hy_fn dict_methods[] = {
    { "get", d_get, "key,default", 1 }, { "items", d_items, "", 0 }, { "keys", d_keys, "", 0 },
    { "values", d_values, "", 0 }, { "copy", d_copy, "", 0 },
    { "fromkeys", d_fromkeys, "iterable,value", 1 },
};
static const hy_fn list_methods[] = { { "count", l_count, "value", 1 },
                                      { "index", l_index, "value,start,stop", 1 },
                                      { "copy", l_copy, "", 0 } };
static const hy_fn cycler_methods[] = { { "next", c_next, "", 0 }, { "reset", c_reset, "", 0 } };
static const hy_fn float_methods[] = { { "is_integer", n_is_integer, "", 0 } };
static const hy_fn int_methods[] = { { "bit_length", n_bit_length, "", 0 } };

const hy_fn *hy_find_method(hy_vtype type, const char *name, size_t n)
{
    switch (type) {
    case HY_V_DICT: return hy_fn_find(dict_methods, HY_COUNT(dict_methods), name, n);
    case HY_V_LIST: return hy_fn_find(list_methods, 3, name, n);
    case HY_V_TUPLE: case HY_V_RANGE: return hy_fn_find(list_methods, 2, name, n);
    case HY_V_CYCLER: return hy_fn_find(cycler_methods, HY_COUNT(cycler_methods), name, n);
    case HY_V_FLOAT: return hy_fn_find(float_methods, 1, name, n);
    case HY_V_INT: case HY_V_BOOL: return hy_fn_find(int_methods, 1, name, n);
    default: return NULL;
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

static bool mod_is(hy_rt *rt, hy_val v, hy_val by, int64_t want)
{
    return hy_v_eq(rt, hy_op_binary(rt, OP_MOD, v, by), hy_v_int(want));
}

FN(t_odd) { return hy_v_bool(mod_is(rt, self, hy_v_int(2), 1)); }
FN(t_even) { return hy_v_bool(mod_is(rt, self, hy_v_int(2), 0)); }
FN(t_divisibleby) { return hy_v_bool(mod_is(rt, self, a[0], 0)); }
FN(t_defined) { return hy_v_bool(self.type != HY_V_UNDEF); }
FN(t_undefined) { return hy_v_bool(self.type == HY_V_UNDEF); }
FN(t_none) { return hy_v_bool(self.type == HY_V_NONE); }
FN(t_boolean) { return hy_v_bool(self.type == HY_V_BOOL); }
FN(t_false) { return hy_v_bool(self.type == HY_V_BOOL && !self.u.b); }
FN(t_true) { return hy_v_bool(self.type == HY_V_BOOL && self.u.b); }
FN(t_integer) { return hy_v_bool(self.type == HY_V_INT); }
FN(t_float) { return hy_v_bool(self.type == HY_V_FLOAT); }
FN(t_string) { return hy_v_bool(self.type == HY_V_STR); }
FN(t_mapping) { return hy_v_bool(self.type == HY_V_DICT); }
FN(t_number) { return hy_v_bool(hy_is_num(self)); }
FN(t_iterable) { return hy_v_bool(hy_v_iterable(self) || self.type == HY_V_LOOP); }
FN(t_sameas) { return hy_v_bool(hy_v_is(self, a[0])); }
FN(t_escaped) { return hy_v_bool(self.type == HY_V_STR && self.markup); }
FN(t_in) { return hy_v_bool(hy_v_contains(rt, a[0], self)); }
FN(t_eq) { return hy_v_bool(hy_op_compare(rt, OP_EQ, self, a[0])); }
FN(t_ne) { return hy_v_bool(hy_op_compare(rt, OP_NE, self, a[0])); }
FN(t_lt) { return hy_v_bool(hy_op_compare(rt, OP_LT, self, a[0])); }
FN(t_le) { return hy_v_bool(hy_op_compare(rt, OP_LE, self, a[0])); }
FN(t_gt) { return hy_v_bool(hy_op_compare(rt, OP_GT, self, a[0])); }
FN(t_ge) { return hy_v_bool(hy_op_compare(rt, OP_GE, self, a[0])); }

FN(t_sequence)
{
    switch (self.type) {
    case HY_V_STR: case HY_V_LIST: case HY_V_TUPLE: case HY_V_DICT: case HY_V_RANGE:
    case HY_V_UNDEF: /* has a length, and an item access that fails only when used */
        return hy_v_bool(true);
    default: return hy_v_bool(false);
    }
}

FN(t_callable)
{
    return hy_v_bool(self.type == HY_V_UNDEF || self.type == HY_V_FUNC || self.type == HY_V_BOUND ||
                     self.type == HY_V_MACRO || self.type == HY_V_LOOP ||
                     self.type == HY_V_JOINER || self.type == HY_V_BLOCK);
}

static bool cased_all(hy_rt *rt, hy_val v, bool upper)
{
    hy_val s = hy_v_to_str(rt, v);
    bool any = false;
    for (size_t i = 0; i < s.u.s->n;) {
        uint32_t r;
        i += hy_utf8_next(s.u.s->p + i, s.u.s->n - i, &r);
        bool up = hy_uc_upper(r), lo = hy_uc_lower(r);
        if (hy_uc_title(r) || (upper ? lo : up)) return false;
        any |= up || lo;
    }
    return any;
}

FN(t_lower) { return hy_v_bool(cased_all(rt, self, false)); }
FN(t_upper) { return hy_v_bool(cased_all(rt, self, true)); }

FN(t_filter)
{
    return hy_v_bool(self.type == HY_V_STR && hy_find_filter(self.u.s->p, self.u.s->n));
}

FN(t_test)
{
    return hy_v_bool(self.type == HY_V_STR && hy_find_test(self.u.s->p, self.u.s->n));
}

static const hy_fn tests[] = {
    { "odd", t_odd, "", 0 }, { "even", t_even, "", 0 }, { "divisibleby", t_divisibleby, "num", 1 },
    { "defined", t_defined, "", 0 }, { "undefined", t_undefined, "", 0 },
    { "filter", t_filter, "", 0 }, { "test", t_test, "", 0 }, { "none", t_none, "", 0 },
    { "boolean", t_boolean, "", 0 }, { "false", t_false, "", 0 }, { "true", t_true, "", 0 },
    { "integer", t_integer, "", 0 }, { "float", t_float, "", 0 }, { "lower", t_lower, "", 0 },
    { "upper", t_upper, "", 0 }, { "string", t_string, "", 0 }, { "mapping", t_mapping, "", 0 },
    { "number", t_number, "", 0 }, { "sequence", t_sequence, "", 0 },
    { "iterable", t_iterable, "", 0 }, { "callable", t_callable, "", 0 },
    { "sameas", t_sameas, "other", 1 }, { "escaped", t_escaped, "", 0 }, { "in", t_in, "seq", 1 },
    { "==", t_eq, "other", 1 }, { "eq", t_eq, "other", 1 }, { "equalto", t_eq, "other", 1 },
    { "!=", t_ne, "other", 1 }, { "ne", t_ne, "other", 1 }, { ">", t_gt, "other", 1 },
    { "gt", t_gt, "other", 1 }, { "greaterthan", t_gt, "other", 1 }, { ">=", t_ge, "other", 1 },
    { "ge", t_ge, "other", 1 }, { "<", t_lt, "other", 1 }, { "lt", t_lt, "other", 1 },
    { "lessthan", t_lt, "other", 1 }, { "<=", t_le, "other", 1 }, { "le", t_le, "other", 1 },
};

const hy_fn *hy_find_test(const char *name, size_t n)
{
    return hy_fn_find(tests, HY_COUNT(tests), name, n);
}

const hy_fn *hy_find_filter(const char *name, size_t n)
{
    const hy_fn *f = hy_fn_find(hy_filters_seq, hy_n_filters_seq, name, n);
    return f ? f : hy_fn_find(hy_filters_text, hy_n_filters_text, name, n);
}
