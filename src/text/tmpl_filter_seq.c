/* Filters over sequences and numbers. */
#include "text/tmpl.h"
#include <math.h>
#include <stdlib.h>

#define FN(name) static hy_val name(hy_rt *rt, hy_val self, const hy_val *a, const hy_args *raw)

static bool given(hy_val v)
{
    return v.type != HY_V_MISSING;
}

static bool flag(hy_rt *rt, hy_val v)
{
    return given(v) && hy_v_truth(rt, v);
}

static int64_t int_arg(hy_rt *rt, hy_val v, int64_t dflt)
{
    if (!given(v)) return dflt;
    if (v.type == HY_V_UNDEF) hy_rt_fail_undef(rt, v);
    if (!hy_is_int(v))
        hy_rt_fail(rt, HY_E_FORMAT, "'%s' object cannot be interpreted as an integer",
                   hy_v_type_name(v));
    return hy_as_int(v);
}

static hy_val gen(hy_rt *rt, size_t cap)
{
    return hy_v_list(rt, HY_V_GEN, cap);
}

/* The key of sort, unique, min, ...: an attribute, in lower case unless told otherwise. */
static hy_val key_of(hy_rt *rt, hy_val item, hy_val path, bool exact)
{
    hy_val k = hy_path_get(rt, item, path, hy_v_missing);
    return !exact && k.type == HY_V_STR ? hy_str_case(rt, k, 'l') : k;
}

/* ---- sorting --------------------------------------------------------------------------------- */

typedef struct keyed {
    hy_val key, item;
} keyed;

/* Merge sort: stable, and "reverse" keeps equal items in order as Python's does. */
static void merge_sort(hy_rt *rt, keyed *v, keyed *tmp, size_t n, bool down)
{
    if (n < 2) return;
    size_t h = n / 2, i = 0, j = h, k = 0;
    merge_sort(rt, v, tmp, h, down);
    merge_sort(rt, v + h, tmp, n - h, down);
    while (i < h || j < n) {
        bool right = i == h;
        if (!right && j < n)
            right = down ? hy_v_order(rt, v[i].key, v[j].key, "<") == -1
                         : hy_v_order(rt, v[j].key, v[i].key, "<") == -1;
        tmp[k++] = right ? v[j++] : v[i++];
    }
    memcpy(v, tmp, n * sizeof *v);
}

static keyed *sorted(hy_rt *rt, hy_list *l, hy_val (*key)(hy_rt *, hy_val, const void *),
                     const void *ctx, bool down)
{
    keyed *v = HY_RT_NEW(rt, keyed, l->n * 2);
    for (size_t i = 0; i < l->n; i++) v[i] = (keyed){ key(rt, l->v[i], ctx), l->v[i] };
    merge_sort(rt, v, v + l->n, l->n, down);
    return v;
}

typedef struct sort_by {
    hy_val path, dflt;
    bool exact, multi;
} sort_by;

static hy_val sort_key(hy_rt *rt, hy_val item, const void *ctx)
{
    const sort_by *by = ctx;
    if (!by->multi) {
        hy_val k = hy_path_get(rt, item, by->path, by->dflt);
        return !by->exact && k.type == HY_V_STR ? hy_str_case(rt, k, 'l') : k;
    }
    hy_val keys = hy_v_list(rt, HY_V_LIST, 1);
    if (by->path.type != HY_V_STR) {
        hy_list_push(rt, keys.u.l, key_of(rt, item, by->path, by->exact));
        return keys;
    }
    const hy_str *s = by->path.u.s;
    for (size_t i = 0; i <= s->n;) {
        size_t k = i;
        while (k < s->n && s->p[k] != ',') k++;
        hy_list_push(rt, keys.u.l, key_of(rt, item, hy_str_sub(rt, s, i, k, false), by->exact));
        i = k + 1;
    }
    return keys;
}

FN(f_sort)
{
    sort_by by = { given(a[2]) ? a[2] : hy_v_none, hy_v_missing, flag(rt, a[1]), true };
    hy_list *l = hy_v_to_list(rt, self);
    keyed *v = sorted(rt, l, sort_key, &by, flag(rt, a[0]));
    for (size_t i = 0; i < l->n; i++) l->v[i] = v[i].item;
    return (hy_val){ .type = HY_V_LIST, .u.l = l };
}

static hy_val pair_key(hy_rt *rt, hy_val item, const void *ctx)
{
    const sort_by *by = ctx;
    hy_val k = item.u.l->v[by->path.u.i];
    return !by->exact && k.type == HY_V_STR ? hy_str_case(rt, k, 'l') : k;
}

static hy_val need_items(hy_rt *rt, hy_val v, const char *what)
{
    if (v.type == HY_V_UNDEF) hy_rt_fail_undef(rt, v);
    if (v.type != HY_V_DICT)
        hy_rt_fail(rt, HY_E_FORMAT, "%s: '%s' object has no attribute 'items'", what,
                   hy_v_type_name(v));
    return (hy_val){ .type = HY_V_VIEW, .aux = 'i', .u.d = v.u.d };
}

static bool text_is(hy_val v, const char *z)
{
    return v.type == HY_V_STR && v.u.s->n == strlen(z) && memcmp(v.u.s->p, z, v.u.s->n) == 0;
}

FN(f_dictsort)
{
    int64_t pos = given(a[1]) && text_is(a[1], "value");
    if (given(a[1]) && !pos && !text_is(a[1], "key"))
        hy_rt_fail(rt, HY_E_FORMAT, "You can only sort by either \"key\" or \"value\"");
    sort_by by = { .path = hy_v_int(pos), .exact = flag(rt, a[0]) };
    hy_list *l = hy_v_to_list(rt, need_items(rt, self, "dictsort"));
    keyed *v = sorted(rt, l, pair_key, &by, flag(rt, a[2]));
    for (size_t i = 0; i < l->n; i++) l->v[i] = v[i].item;
    return (hy_val){ .type = HY_V_LIST, .u.l = l };
}

FN(f_groupby)
{
    sort_by by = { a[0], given(a[1]) ? a[1] : hy_v_missing, flag(rt, a[2]), false };
    hy_list *l = hy_v_to_list(rt, self);
    keyed *v = sorted(rt, l, sort_key, &by, false);
    hy_val out = hy_v_list(rt, HY_V_LIST, 0);
    for (size_t i = 0; i < l->n;) {
        hy_val items = hy_v_list(rt, HY_V_LIST, 0), t = hy_v_list(rt, HY_V_TUPLE, 2);
        hy_val key = by.exact ? v[i].key : hy_path_get(rt, v[i].item, by.path, by.dflt);
        size_t first = i;
        for (; i < l->n && hy_v_eq(rt, v[first].key, v[i].key); i++)
            hy_list_push(rt, items.u.l, v[i].item);
        if (i == first) hy_list_push(rt, items.u.l, v[i++].item); /* NaN equals nothing */
        t.u.l->grouped = true;
        hy_list_push(rt, t.u.l, key);
        hy_list_push(rt, t.u.l, items);
        hy_list_push(rt, out.u.l, t);
    }
    return out;
}

FN(f_unique)
{
    hy_val out = gen(rt, 0), seen = hy_v_dict(rt), v;
    hy_iter it;
    hy_iter_init(rt, &it, self);
    while (hy_iter_next(rt, &it, &v)) {
        hy_val k = key_of(rt, v, a[1], flag(rt, a[0]));
        if (hy_dict_get(rt, seen.u.d, k)) continue;
        hy_dict_set(rt, seen.u.d, k, hy_v_none);
        hy_list_push(rt, out.u.l, v);
    }
    return out;
}

static hy_val extreme(hy_rt *rt, hy_val self, const hy_val *a, bool max)
{
    hy_iter it;
    hy_val v, best, best_key;
    hy_iter_init(rt, &it, self);
    if (!hy_iter_next(rt, &it, &best))
        return hy_v_undef(rt, "No aggregated item, sequence was empty.");
    best_key = key_of(rt, best, a[1], flag(rt, a[0]));
    while (hy_iter_next(rt, &it, &v)) {
        hy_val k = key_of(rt, v, a[1], flag(rt, a[0]));
        int c = hy_v_order(rt, k, best_key, max ? ">" : "<");
        if (c != (max ? 1 : -1)) continue;
        best = v;
        best_key = k;
    }
    return best;
}

FN(f_min) { return extreme(rt, self, a, false); }
FN(f_max) { return extreme(rt, self, a, true); }

/* ---- map, select ----------------------------------------------------------------------------- */

static const hy_kwarg *kwarg(const hy_args *raw, const char *name)
{
    for (size_t i = 0; i < raw->n_kw; i++)
        if (raw->kw[i].name->n == strlen(name) &&
            memcmp(raw->kw[i].name->p, name, raw->kw[i].name->n) == 0)
            return &raw->kw[i];
    return NULL;
}

static const hy_fn *named(hy_rt *rt, hy_val name, const char *what,
                          const hy_fn *(*find)(const char *, size_t))
{
    const hy_fn *f = name.type == HY_V_STR ? find(name.u.s->p, name.u.s->n) : NULL;
    if (!f) hy_rt_fail(rt, HY_E_FORMAT, "No %s named %s.", what, hy_v_repr_z(rt, name));
    return f;
}

FN(f_map)
{
    hy_val out = gen(rt, 0), v;
    if (!hy_v_truth(rt, self)) return out;
    const hy_kwarg *attr = raw->n ? NULL : kwarg(raw, "attribute"), *dflt = kwarg(raw, "default");
    if (!raw->n && !attr) hy_rt_fail(rt, HY_E_FORMAT, "map requires a filter argument");
    if (attr && raw->n_kw > 1u + (dflt != NULL))
        hy_rt_fail(rt, HY_E_FORMAT, "map: unexpected keyword argument");
    const hy_fn *fn = attr ? NULL : named(rt, raw->v[0], "filter", hy_find_filter);
    hy_args rest = { attr ? NULL : raw->v + 1, attr ? 0 : raw->n - 1, raw->kw, raw->n_kw };
    hy_iter it;
    hy_iter_init(rt, &it, self);
    while (hy_iter_next(rt, &it, &v))
        hy_list_push(rt, out.u.l, fn ? hy_fn_call(rt, fn, v, &rest)
                                     : hy_path_get(rt, v, attr->v, dflt ? dflt->v : hy_v_missing));
    return out;
}

static hy_val select_if(hy_rt *rt, hy_val self, const hy_args *raw, bool want, bool by_attr)
{
    hy_val out = gen(rt, 0), v;
    if (!hy_v_truth(rt, self)) return out;
    size_t off = by_attr;
    if (raw->n < off) hy_rt_fail(rt, HY_E_FORMAT, "Missing parameter for attribute name");
    const hy_fn *fn = raw->n > off ? named(rt, raw->v[off], "test", hy_find_test) : NULL;
    hy_args rest = { fn ? raw->v + off + 1 : NULL, fn ? raw->n - off - 1 : 0, raw->kw, raw->n_kw };
    hy_iter it;
    hy_iter_init(rt, &it, self);
    while (hy_iter_next(rt, &it, &v)) {
        hy_val x = by_attr ? hy_path_get(rt, v, raw->v[0], hy_v_missing) : v;
        if (fn) x = hy_fn_call(rt, fn, x, &rest);
        if (hy_v_truth(rt, x) == want) hy_list_push(rt, out.u.l, v);
    }
    return out;
}

FN(f_select) { return select_if(rt, self, raw, true, false); }
FN(f_reject) { return select_if(rt, self, raw, false, false); }
FN(f_selectattr) { return select_if(rt, self, raw, true, true); }
FN(f_rejectattr) { return select_if(rt, self, raw, false, true); }

/* ---- shape ----------------------------------------------------------------------------------- */

FN(f_list) { return (hy_val){ .type = HY_V_LIST, .u.l = hy_v_to_list(rt, self) }; }
FN(f_length) { return hy_v_int(hy_v_len(rt, self)); }

FN(f_first)
{
    hy_iter it;
    hy_val v;
    hy_iter_init(rt, &it, self);
    return hy_iter_next(rt, &it, &v) ? v : hy_v_undef(rt, "No first item, sequence was empty.");
}

static void need_reversible(hy_rt *rt, hy_val v)
{
    if (v.type == HY_V_GEN || !hy_v_iterable(v))
        hy_rt_fail(rt, HY_E_FORMAT, "'%s' object is not reversible", hy_v_type_name(v));
}

FN(f_last)
{
    if (self.type == HY_V_UNDEF) return hy_v_undef(rt, "No last item, sequence was empty.");
    need_reversible(rt, self);
    if (self.type == HY_V_STR && self.u.s->n) return hy_op_item(rt, self, hy_v_int(-1));
    hy_list *l = hy_v_to_list(rt, self);
    return l->n ? l->v[l->n - 1] : hy_v_undef(rt, "No last item, sequence was empty.");
}

FN(f_random)
{
    if (!hy_v_has_len(self))
        hy_rt_fail(rt, HY_E_FORMAT, "object of type '%s' has no len()", hy_v_type_name(self));
    int64_t n = hy_v_len(rt, self);
    if (!n) return hy_v_undef(rt, "No random item, sequence was empty.");
    uint64_t bits = hy_rng_at(hy_now_ns(), 0, rt->steps);
    return hy_op_item(rt, self, hy_v_int((int64_t)(bits % (uint64_t)n)));
}

FN(f_reverse)
{
    if (self.type == HY_V_STR)
        return hy_op_slice(rt, self, hy_v_none, hy_v_none, hy_v_int(-1));
    hy_list *l = hy_v_to_list(rt, self);
    for (size_t i = 0; i < l->n / 2; i++) {
        hy_val t = l->v[i];
        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = t;
    }
    return (hy_val){ .type = self.type == HY_V_GEN ? HY_V_LIST : HY_V_GEN, .u.l = l };
}

FN(f_batch)
{
    hy_val out = gen(rt, 0), row = hy_v_list(rt, HY_V_LIST, 0), v;
    int64_t n = hy_is_int(a[0]) ? hy_as_int(a[0]) : -1; /* compared only: anything else is no length */
    hy_iter it;
    hy_iter_init(rt, &it, self);
    while (hy_iter_next(rt, &it, &v)) {
        if ((int64_t)row.u.l->n == n) {
            hy_list_push(rt, out.u.l, row);
            row = hy_v_list(rt, HY_V_LIST, 0);
        }
        hy_list_push(rt, row.u.l, v);
    }
    if (!row.u.l->n) return out;
    while (given(a[1]) && a[1].type != HY_V_NONE && (int64_t)row.u.l->n < n)
        hy_list_push(rt, row.u.l, a[1]);
    hy_list_push(rt, out.u.l, row);
    return out;
}

FN(f_slice)
{
    int64_t k = int_arg(rt, a[0], 0), at = 0;
    hy_list *l = hy_v_to_list(rt, self);
    hy_val out = gen(rt, 0);
    if (k == 0) hy_rt_fail(rt, HY_E_FORMAT, "integer division or modulo by zero");
    for (int64_t i = 0; i < k; i++) {
        int64_t n = (int64_t)l->n / k + (i < (int64_t)l->n % k);
        hy_val row = hy_v_list(rt, HY_V_LIST, 0);
        hy_rt_step(rt, 1);
        for (int64_t j = 0; j < n; j++) hy_list_push(rt, row.u.l, l->v[at++]);
        if (given(a[1]) && a[1].type != HY_V_NONE && i >= (int64_t)l->n % k)
            hy_list_push(rt, row.u.l, a[1]);
        hy_list_push(rt, out.u.l, row);
    }
    return out;
}

FN(f_items)
{
    if (self.type == HY_V_UNDEF) return gen(rt, 0);
    if (self.type != HY_V_DICT)
        hy_rt_fail(rt, HY_E_FORMAT, "Can only get item pairs from a mapping.");
    hy_list *l = hy_v_to_list(rt, need_items(rt, self, "items"));
    return (hy_val){ .type = HY_V_GEN, .u.l = l };
}

FN(f_join)
{
    hy_val sep = given(a[0]) ? hy_v_to_str(rt, a[0]) : hy_v_text(rt, ""), v;
    hy_sb b = { .rt = rt };
    hy_iter it;
    hy_iter_init(rt, &it, self);
    for (size_t i = 0; hy_iter_next(rt, &it, &v); i++) {
        if (i) hy_sb_put(&b, sep.u.s->p, sep.u.s->n);
        if (given(a[1]) && a[1].type != HY_V_NONE) v = hy_path_get(rt, v, a[1], hy_v_missing);
        hy_sb_val(&b, v);
    }
    return hy_sb_take(&b);
}

FN(f_sum)
{
    hy_val total = given(a[1]) ? a[1] : hy_v_int(0), v;
    hy_iter it;
    if (total.type == HY_V_STR)
        hy_rt_fail(rt, HY_E_FORMAT, "sum() can't sum strings [use ''.join(seq) instead]");
    hy_iter_init(rt, &it, self);
    while (hy_iter_next(rt, &it, &v)) {
        if (given(a[0]) && a[0].type != HY_V_NONE) v = hy_path_get(rt, v, a[0], hy_v_missing);
        total = hy_op_binary(rt, OP_ADD, total, v);
    }
    return total;
}

FN(f_default)
{
    bool use = self.type == HY_V_UNDEF || (flag(rt, a[1]) && !hy_v_truth(rt, self));
    if (!use) return self;
    return given(a[0]) ? a[0] : hy_v_text(rt, "");
}

FN(f_attr)
{
    if (a[0].type != HY_V_STR) hy_rt_fail(rt, HY_E_FORMAT, "attr: the name must be a string");
    if (self.type != HY_V_DICT) return hy_op_attr(rt, self, a[0].u.s);
    hy_val empty = hy_v_dict(rt); /* attributes only: the keys of a dict do not count */
    hy_val v = hy_op_attr(rt, empty, a[0].u.s);
    if (v.type != HY_V_BOUND) return v;
    return hy_op_attr(rt, self, a[0].u.s);
}

/* ---- numbers --------------------------------------------------------------------------------- */

FN(f_abs)
{
    if (self.type == HY_V_UNDEF || !hy_is_num(self))
        hy_rt_fail(rt, HY_E_FORMAT, "bad operand type for abs(): '%s'", hy_v_type_name(self));
    if (self.type == HY_V_FLOAT) return hy_v_float(fabs(self.u.f));
    int64_t i = hy_as_int(self);
    if (i == INT64_MIN) hy_rt_fail(rt, HY_E_UNSUPPORTED, "an integer beyond 64 bits");
    return hy_v_int(i < 0 ? -i : i);
}

/* Rounds the decimal text of the exact value, half to even only when the value is exactly half. */
static double round_digits(double x, int64_t digits)
{
    char buf[800];
    if (!isfinite(x) || digits > 400) return x;
    if (digits < 0) {
        if (digits < -308) return copysign(0.0, x);
        double p = pow(10.0, (double)-digits), q = x / p;
        double r = rint(q);
        return r * p;
    }
    snprintf(buf, sizeof buf, "%.*f", (int)digits, x);
    return strtod(buf, NULL);
}

static int64_t round_int(hy_rt *rt, int64_t i, int64_t digits)
{
    if (digits >= 0) return i;
    if (digits < -18) return 0;
    int64_t p = 1;
    for (int64_t k = 0; k < -digits; k++) p *= 10;
    int64_t m = i % p, base = i - m;
    if (m < 0) {
        m += p;
        if (__builtin_sub_overflow(base, p, &base))
            hy_rt_fail(rt, HY_E_UNSUPPORTED, "an integer beyond 64 bits");
    }
    bool up = m > p - m || (m == p - m && (base / p) % 2 != 0);
    if (up && __builtin_add_overflow(base, p, &base))
        hy_rt_fail(rt, HY_E_UNSUPPORTED, "an integer beyond 64 bits");
    return base;
}

FN(f_round)
{
    int64_t digits = int_arg(rt, a[0], 0);
    char how = !given(a[1]) || text_is(a[1], "common") ? 'r' : text_is(a[1], "ceil") ? 'c'
               : text_is(a[1], "floor")                                              ? 'f' : 0;
    if (!how) hy_rt_fail(rt, HY_E_FORMAT, "method must be common, ceil or floor");
    if (self.type == HY_V_UNDEF) hy_rt_fail_undef(rt, self);
    if (!hy_is_num(self))
        hy_rt_fail(rt, HY_E_FORMAT, "type %s doesn't define __round__ method", hy_v_type_name(self));
    if (how == 'r') {
        if (hy_is_int(self)) return hy_v_int(round_int(rt, hy_as_int(self), digits));
        return hy_v_float(round_digits(self.u.f, digits));
    }
    if (digits == 0 && hy_is_int(self)) return hy_v_float(hy_as_float(self));
    double p = pow(10.0, (double)digits), x = hy_as_float(self) * p;
    if (!isfinite(x)) hy_rt_fail(rt, HY_E_FORMAT, "cannot convert float infinity or NaN to integer");
    return hy_v_float((how == 'c' ? ceil(x) : floor(x)) / p);
}

static bool float_to_int(hy_rt *rt, double f, int64_t *out)
{
    if (!isfinite(f)) return false;
    f = trunc(f);
    if (f < -9223372036854775808.0 || f >= 9223372036854775808.0)
        hy_rt_fail(rt, HY_E_UNSUPPORTED, "an integer beyond 64 bits");
    *out = (int64_t)f;
    return true;
}

FN(f_int)
{
    hy_val dflt = given(a[0]) ? a[0] : hy_v_int(0);
    int64_t i = 0;
    double f;
    if (self.type == HY_V_UNDEF) hy_rt_fail_undef(rt, self);
    if (hy_is_int(self)) return hy_v_int(hy_as_int(self));
    if (self.type == HY_V_FLOAT) {
        if (isinf(self.u.f)) hy_rt_fail(rt, HY_E_FORMAT, "cannot convert float infinity to integer");
        return float_to_int(rt, self.u.f, &i) ? hy_v_int(i) : dflt;
    }
    if (self.type != HY_V_STR) return dflt;
    bool big = false;
    int64_t base = int_arg(rt, a[1], 10);
    if (base >= 0 && base <= 36 && base != 1 && hy_str_to_int(self.u.s, (int)base, &i, &big)) {
        if (big) hy_rt_fail(rt, HY_E_UNSUPPORTED, "an integer beyond 64 bits");
        return hy_v_int(i);
    }
    if (!hy_str_to_float(rt, self.u.s, &f) || !float_to_int(rt, f, &i)) return dflt;
    return hy_v_int(i);
}

FN(f_float)
{
    double f;
    if (self.type == HY_V_UNDEF) hy_rt_fail_undef(rt, self);
    if (hy_is_num(self)) return hy_v_float(hy_as_float(self));
    if (self.type == HY_V_STR && hy_str_to_float(rt, self.u.s, &f)) return hy_v_float(f);
    return given(a[0]) ? a[0] : hy_v_float(0);
}

const hy_fn hy_filters_seq[] = {
    { "length", f_length, "", 0 }, { "default", f_default, "default_value,boolean", 0 },
    { "d", f_default, "default_value,boolean", 0 }, { "join", f_join, "d,attribute", 0 },
    { "list", f_list, "", 0 }, { "items", f_items, "", 0 }, { "first", f_first, "", 0 },
    { "last", f_last, "", 0 }, { "count", f_length, "", 0 }, { "map", f_map, NULL, 0 },
    { "select", f_select, NULL, 0 }, { "reject", f_reject, NULL, 0 },
    { "selectattr", f_selectattr, NULL, 0 }, { "rejectattr", f_rejectattr, NULL, 0 },
    { "sort", f_sort, "reverse,case_sensitive,attribute", 0 },
    { "dictsort", f_dictsort, "case_sensitive,by,reverse", 0 },
    { "groupby", f_groupby, "attribute,default,case_sensitive", 1 },
    { "unique", f_unique, "case_sensitive,attribute", 0 },
    { "min", f_min, "case_sensitive,attribute", 0 }, { "max", f_max, "case_sensitive,attribute", 0 },
    { "random", f_random, "", 0 }, { "reverse", f_reverse, "", 0 },
    { "batch", f_batch, "linecount,fill_with", 1 }, { "slice", f_slice, "slices,fill_with", 1 },
    { "sum", f_sum, "attribute,start", 0 }, { "attr", f_attr, "name", 1 }, { "abs", f_abs, "", 0 },
    { "round", f_round, "precision,method", 0 }, { "int", f_int, "default,base", 0 },
    { "float", f_float, "default", 0 },
};
const size_t hy_n_filters_seq = HY_COUNT(hy_filters_seq);
