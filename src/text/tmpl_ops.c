/* Operators, attributes, subscripts, calls; the sandbox's rules. */
#include "text/tmpl.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* ---- arithmetic ------------------------------------------------------------------------------ */

static const char *const op_names[] = {
    [OP_ADD] = "+", [OP_SUB] = "-", [OP_MUL] = "*", [OP_DIV] = "/", [OP_FLOORDIV] = "//",
    [OP_MOD] = "%", [OP_POW] = "** or pow()", [OP_EQ] = "==", [OP_NE] = "!=", [OP_LT] = "<",
    [OP_LE] = "<=", [OP_GT] = ">", [OP_GE] = ">=", [OP_IN] = "in", [OP_NOTIN] = "not in",
};

static _Noreturn void fail_types(hy_rt *rt, hy_op op, hy_val a, hy_val b)
{
    if (op == OP_ADD && a.type == HY_V_STR)
        hy_rt_fail(rt, HY_E_FORMAT, "can only concatenate str (not \"%s\") to str",
                   hy_v_type_name(b));
    if (op == OP_ADD && (a.type == HY_V_LIST || a.type == HY_V_TUPLE))
        hy_rt_fail(rt, HY_E_FORMAT, "can only concatenate %s (not \"%s\") to %s", hy_v_type_name(a),
                   hy_v_type_name(b), hy_v_type_name(a));
    hy_rt_fail(rt, HY_E_FORMAT, "unsupported operand type(s) for %s: '%s' and '%s'", op_names[op],
               hy_v_type_name(a), hy_v_type_name(b));
}

static _Noreturn void fail_big(hy_rt *rt)
{
    hy_rt_fail(rt, HY_E_UNSUPPORTED, "an integer beyond 64 bits");
}

/* A string built by adding to it again and again is extended in place while nobody else has used
 * the bytes behind it; the shorter strings before stay valid, as they are prefixes. */
static hy_val concat(hy_rt *rt, const hy_str *a, const hy_str *b)
{
    size_t n = a->n + b->n;
    if (a->n && a->p + a->n == rt->cat_end && b->n <= rt->cat_room) {
        if (b->n) memcpy(rt->cat_end, b->p, b->n);
        rt->cat_end += b->n;
        rt->cat_room -= b->n;
        return hy_v_str(rt, a->p, n);
    }
    size_t room = a->n > 256 ? n : 0;
    char *p = hy_rt_alloc(rt, n + room, 1);
    if (a->n) memcpy(p, a->p, a->n);
    if (b->n) memcpy(p + a->n, b->p, b->n);
    if (room) {
        rt->cat_end = p + n;
        rt->cat_room = room;
    }
    return hy_v_str(rt, p, n);
}

static hy_val add(hy_rt *rt, hy_val a, hy_val b)
{
    if (a.type == HY_V_STR && b.type == HY_V_STR) {
        bool markup = a.markup || b.markup;
        if (markup) {
            a = hy_v_escape(rt, a);
            b = hy_v_escape(rt, b);
        }
        hy_val v = concat(rt, a.u.s, b.u.s);
        v.markup = markup;
        return v;
    }
    if (a.type == b.type && (a.type == HY_V_LIST || a.type == HY_V_TUPLE)) {
        hy_val v = hy_v_list(rt, (hy_vtype)a.type, a.u.l->n + b.u.l->n);
        for (size_t i = 0; i < a.u.l->n; i++) hy_list_push(rt, v.u.l, a.u.l->v[i]);
        for (size_t i = 0; i < b.u.l->n; i++) hy_list_push(rt, v.u.l, b.u.l->v[i]);
        return v;
    }
    fail_types(rt, OP_ADD, a, b);
}

static hy_val repeat(hy_rt *rt, hy_val seq, int64_t n)
{
    if (n < 0) n = 0;
    size_t len = seq.type == HY_V_STR ? seq.u.s->n : seq.u.l->n;
    uint64_t total;
    if (!hy_mul_u64(len, (uint64_t)n, &total) || total > rt->max_mem)
        hy_rt_fail(rt, HY_E_LIMIT, "a repetition of %zu * %lld is too long", len, (long long)n);
    if (len == 0) n = 0;
    if (seq.type == HY_V_STR) {
        char *p = hy_rt_alloc(rt, (size_t)total, 1);
        for (int64_t i = 0; i < n; i++) memcpy(p + (size_t)i * len, seq.u.s->p, len);
        hy_val v = hy_v_str(rt, p, (size_t)total);
        v.markup = seq.markup;
        return v;
    }
    hy_val v = hy_v_list(rt, (hy_vtype)seq.type, (size_t)total);
    for (int64_t i = 0; i < n; i++)
        for (size_t k = 0; k < len; k++) hy_list_push(rt, v.u.l, seq.u.l->v[k]);
    return v;
}

static bool is_seq(hy_val v)
{
    return v.type == HY_V_STR || v.type == HY_V_LIST || v.type == HY_V_TUPLE;
}

static hy_val int_pow(hy_rt *rt, int64_t a, int64_t e)
{
    if (e < 0) {
        if (a == 0) hy_rt_fail(rt, HY_E_FORMAT, "0.0 cannot be raised to a negative power");
        return hy_v_float(pow((double)a, (double)e));
    }
    int64_t r = 1;
    while (e) {
        if ((e & 1) && __builtin_mul_overflow(r, a, &r)) fail_big(rt);
        e >>= 1;
        if (e && __builtin_mul_overflow(a, a, &a)) {
            if (r == 0) return hy_v_int(0);
            fail_big(rt);
        }
    }
    return hy_v_int(r);
}

static hy_val int_op(hy_rt *rt, hy_op op, int64_t a, int64_t b)
{
    int64_t r;
    switch (op) {
    case OP_ADD:
        if (__builtin_add_overflow(a, b, &r)) fail_big(rt);
        return hy_v_int(r);
    case OP_SUB:
        if (__builtin_sub_overflow(a, b, &r)) fail_big(rt);
        return hy_v_int(r);
    case OP_MUL:
        if (__builtin_mul_overflow(a, b, &r)) fail_big(rt);
        return hy_v_int(r);
    case OP_DIV:
        if (b == 0) hy_rt_fail(rt, HY_E_FORMAT, "division by zero");
        return hy_v_float((double)((long double)a / (long double)b));
    case OP_FLOORDIV:
    case OP_MOD: {
        if (b == 0) hy_rt_fail(rt, HY_E_FORMAT, "integer division or modulo by zero");
        if (b == -1) {
            if (op == OP_MOD) return hy_v_int(0);
            if (a == INT64_MIN) fail_big(rt);
            return hy_v_int(-a);
        }
        int64_t q = a / b, m = a % b;
        if (m != 0 && (m < 0) != (b < 0)) {
            q--;
            m += b;
        }
        return hy_v_int(op == OP_MOD ? m : q);
    }
    default: return int_pow(rt, a, b);
    }
}

static hy_val float_op(hy_rt *rt, hy_op op, double a, double b)
{
    switch (op) {
    case OP_ADD: return hy_v_float(a + b);
    case OP_SUB: return hy_v_float(a - b);
    case OP_MUL: return hy_v_float(a * b);
    case OP_DIV:
        if (b == 0) hy_rt_fail(rt, HY_E_FORMAT, "float division by zero");
        return hy_v_float(a / b);
    case OP_FLOORDIV:
    case OP_MOD: {
        if (b == 0)
            hy_rt_fail(rt, HY_E_FORMAT, "float %s", op == OP_MOD ? "modulo" : "floor division by zero");
        double m = fmod(a, b), q = (a - m) / b;
        if (m != 0 && (m < 0) != (b < 0)) {
            m += b;
            q -= 1;
        } else if (m == 0) {
            m = copysign(0.0, b);
        }
        if (op == OP_MOD) return hy_v_float(m);
        double fl = q != 0 ? floor(q) : copysign(0.0, a / b);
        if (q - fl > 0.5) fl += 1;
        return hy_v_float(fl);
    }
    default:
        if (a == 0 && b < 0)
            hy_rt_fail(rt, HY_E_FORMAT, "0.0 cannot be raised to a negative power");
        if (a < 0 && b != floor(b) && isfinite(b))
            hy_rt_fail(rt, HY_E_UNSUPPORTED, "complex numbers are not supported");
        double r = pow(a, b);
        if (isinf(r) && isfinite(a) && isfinite(b))
            hy_rt_fail(rt, HY_E_FORMAT, "Numerical result out of range");
        return hy_v_float(r);
    }
}

hy_val hy_op_binary(hy_rt *rt, hy_op op, hy_val a, hy_val b)
{
    if (hy_is_int(a) && hy_is_int(b)) return int_op(rt, op, hy_as_int(a), hy_as_int(b));
    if (hy_is_num(a) && hy_is_num(b)) return float_op(rt, op, hy_as_float(a), hy_as_float(b));
    if (op == OP_MOD && a.type == HY_V_STR) return hy_format_percent(rt, a, b);
    if (a.type == HY_V_UNDEF) hy_rt_fail_undef(rt, a);
    if (b.type == HY_V_UNDEF) hy_rt_fail_undef(rt, b);
    if (op == OP_ADD) return add(rt, a, b);
    if (op == OP_MUL && is_seq(a) && hy_is_int(b)) return repeat(rt, a, hy_as_int(b));
    if (op == OP_MUL && is_seq(b) && hy_is_int(a)) return repeat(rt, b, hy_as_int(a));
    if (op == OP_MUL && (is_seq(a) || is_seq(b)))
        hy_rt_fail(rt, HY_E_FORMAT, "can't multiply sequence by non-int of type '%s'",
                   hy_v_type_name(is_seq(a) ? b : a));
    fail_types(rt, op, a, b);
}

bool hy_op_compare(hy_rt *rt, hy_op op, hy_val a, hy_val b)
{
    switch (op) {
    case OP_EQ: return hy_v_eq(rt, a, b);
    case OP_NE: return !hy_v_eq(rt, a, b);
    case OP_IN: return hy_v_contains(rt, b, a);
    case OP_NOTIN: return !hy_v_contains(rt, b, a);
    default: break;
    }
    int c = hy_v_order(rt, a, b, op_names[op]);
    if (c == 2) return false;
    return op == OP_LT ? c < 0 : op == OP_LE ? c <= 0 : op == OP_GT ? c > 0 : c >= 0;
}

/* ---- attributes and subscripts --------------------------------------------------------------- */

static const char *owner_name(hy_rt *rt, hy_val v)
{
    static const struct {
        uint8_t type;
        const char *name;
    } others[] = { { HY_V_NONE, "None" }, { HY_V_SPACE, "jinja2.utils.Namespace object" },
                   { HY_V_MACRO, "jinja2.runtime.Macro object" },
                   { HY_V_LOOP, "jinja2.runtime.LoopContext object" },
                   { HY_V_CYCLER, "jinja2.utils.Cycler object" },
                   { HY_V_JOINER, "jinja2.utils.Joiner object" } };
    for (size_t i = 0; i < HY_COUNT(others); i++)
        if (others[i].type == v.type) return others[i].name;
    if (v.type == HY_V_STR && v.markup) return "markupsafe.Markup object";
    hy_sb b = { .rt = rt };
    hy_sb_str(&b, hy_v_type_name(v));
    hy_sb_str(&b, " object");
    return hy_str_z(rt, hy_sb_take(&b).u.s);
}

static hy_val no_attr(hy_rt *rt, hy_val obj, hy_str *name)
{
    hy_val v = hy_v_undef_name(rt, name);
    hy_undef *u = (hy_undef *)(uintptr_t)v.u.undef;
    u->owner = owner_name(rt, obj);
    return v;
}

static hy_val no_item(hy_rt *rt, hy_val obj, hy_val key)
{
    if (key.type == HY_V_STR) return no_attr(rt, obj, key.u.s);
    hy_sb b = { .rt = rt };
    hy_sb_str(&b, owner_name(rt, obj));
    hy_sb_str(&b, " has no element ");
    hy_sb_str(&b, hy_v_repr_z(rt, key));
    return hy_v_undef(rt, hy_str_z(rt, hy_sb_take(&b).u.s));
}

static hy_val refused(hy_rt *rt, hy_val obj, const hy_str *name)
{
    hy_sb b = { .rt = rt };
    hy_sb_str(&b, "access to attribute ");
    hy_sb_repr(&b, hy_v_str(rt, name->p, name->n), 0);
    hy_sb_str(&b, " of '");
    hy_sb_str(&b, hy_v_type_name(obj));
    hy_sb_str(&b, "' object is unsafe.");
    hy_val v = hy_v_undef(rt, hy_str_z(rt, hy_sb_take(&b).u.s));
    ((hy_undef *)(uintptr_t)v.u.undef)->security = true;
    return v;
}

static bool one_of(const hy_str *s, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(names[i]) == s->n && memcmp(names[i], s->p, s->n) == 0) return true;
    return false;
}

/* What Python objects have and the sandbox refuses. Other names with underscores are only missing,
 * and may then be keys. */
static bool is_unsafe(hy_val obj, const hy_str *name)
{
    static const char *const dunder[] = {
        "__class__", "__delattr__", "__dir__", "__doc__", "__eq__", "__format__", "__ge__",
        "__getattribute__", "__getstate__", "__gt__", "__hash__", "__init__",
        "__init_subclass__", "__le__", "__lt__", "__ne__", "__new__", "__reduce__",
        "__reduce_ex__", "__repr__", "__setattr__", "__sizeof__", "__str__", "__subclasshook__" };
    static const char *const seq[] = { "__add__", "__contains__", "__getitem__", "__getnewargs__",
                                       "__iter__", "__len__", "__mul__", "__rmul__", "__mod__",
                                       "__rmod__" };
    static const char *const map[] = { "__contains__", "__delitem__", "__getitem__", "__iter__",
                                       "__len__", "__setitem__", "__or__", "__ror__", "__ior__",
                                       "__reversed__", "__class_getitem__" };
    static const char *const func[] = { "__call__", "__name__", "__self__", "__func__",
                                        "__globals__", "__code__", "__closure__", "__defaults__",
                                        "__dict__", "__module__", "__qualname__", "__wrapped__" };
    static const char *const mut_list[] = { "append", "clear", "pop", "reverse", "insert", "sort",
                                            "extend", "remove" };
    static const char *const mut_dict[] = { "clear", "pop", "popitem", "setdefault", "update" };
    if (obj.type == HY_V_LIST && one_of(name, mut_list, HY_COUNT(mut_list))) return true;
    if (obj.type == HY_V_DICT && one_of(name, mut_dict, HY_COUNT(mut_dict))) return true;
    if (name->n < 5 || name->p[0] != '_' || name->p[1] != '_') return false;
    if (obj.type == HY_V_SPACE) return name->n == 9 && memcmp(name->p, "__class__", 9) == 0;
    if (one_of(name, dunder, HY_COUNT(dunder))) return true;
    if (is_seq(obj)) return one_of(name, seq, HY_COUNT(seq));
    if (obj.type == HY_V_DICT) return one_of(name, map, HY_COUNT(map));
    if (obj.type >= HY_V_FUNC) return one_of(name, func, HY_COUNT(func));
    return false;
}

static bool name_is(const hy_str *s, const char *z)
{
    return s->n == strlen(z) && memcmp(s->p, z, s->n) == 0;
}

static hy_val macro_attr(hy_rt *rt, const hy_macro *m, const hy_str *name, bool *found)
{
    *found = true;
    if (name_is(name, "name"))
        return m->node->kind == N_MACRO ? m->node->value : hy_v_text(rt, "caller");
    if (name_is(name, "caller")) return hy_v_bool(m->node->uses & HY_M_CALLER);
    if (name_is(name, "catch_kwargs")) return hy_v_bool(m->node->uses & HY_M_KWARGS);
    if (name_is(name, "catch_varargs")) return hy_v_bool(m->node->uses & HY_M_VARARGS);
    if (name_is(name, "arguments")) {
        hy_val t = hy_v_list(rt, HY_V_TUPLE, m->node->list.n);
        for (uint32_t i = 0; i < m->node->list.n; i++)
            hy_list_push(rt, t.u.l, m->node->list.v[i]->value);
        return t;
    }
    *found = false;
    return hy_v_none;
}

static hy_val data_attr(hy_rt *rt, hy_val obj, const hy_str *name, bool *found)
{
    *found = true;
    switch (obj.type) {
    case HY_V_MACRO: return macro_attr(rt, obj.u.macro, name, found);
    case HY_V_LOOP: return hy_loop_attr(rt, obj.u.loop, name, found);
    case HY_V_SPACE: {
        const hy_val *v = hy_dict_get_str(rt, obj.u.d, name);
        if (v) return *v;
        break;
    }
    case HY_V_CYCLER:
        if (name_is(name, "current")) return obj.u.cycler->items->v[obj.u.cycler->pos];
        if (name_is(name, "pos")) return hy_v_int((int64_t)obj.u.cycler->pos);
        break;
    case HY_V_RANGE:
        if (name_is(name, "start")) return hy_v_int(obj.u.range->start);
        if (name_is(name, "stop")) return hy_v_int(obj.u.range->stop);
        if (name_is(name, "step")) return hy_v_int(obj.u.range->step);
        break;
    case HY_V_TUPLE:
        if (obj.u.l->grouped && name_is(name, "grouper")) return obj.u.l->v[0];
        if (obj.u.l->grouped && name_is(name, "list")) return obj.u.l->v[1];
        break;
    case HY_V_BOOL: case HY_V_INT:
        if (name_is(name, "real") || name_is(name, "numerator")) return hy_v_int(hy_as_int(obj));
        if (name_is(name, "imag")) return hy_v_int(0);
        if (name_is(name, "denominator")) return hy_v_int(1);
        break;
    case HY_V_FLOAT:
        if (name_is(name, "real")) return obj;
        if (name_is(name, "imag")) return hy_v_float(0);
        break;
    case HY_V_SELF:
        for (uint32_t i = 0; i < rt->t->blocks.n; i++)
            if (name_is(rt->t->blocks.v[i]->attr, hy_str_z(rt, name)))
                return (hy_val){ .type = HY_V_BLOCK, .u.block = rt->t->blocks.v[i] };
        break;
    default: break;
    }
    *found = false;
    return hy_v_none;
}

/* Attributes as Python has them: data, methods, and what the sandbox refuses. */
static bool get_attr(hy_rt *rt, hy_val obj, hy_str *name, hy_val *out)
{
    bool found;
    *out = data_attr(rt, obj, name, &found);
    if (found) return true;
    if (is_unsafe(obj, name)) {
        *out = refused(rt, obj, name);
        return true;
    }
    const hy_fn *fn = obj.type == HY_V_STR ? hy_find_str_method(name->p, name->n)
                                           : hy_find_method((hy_vtype)obj.type, name->p, name->n);
    if (!fn) return false;
    hy_bound *b = HY_RT_NEW(rt, hy_bound, 1);
    b->self = obj;
    b->fn = fn;
    *out = (hy_val){ .type = HY_V_BOUND, .u.bound = b };
    return true;
}

static int64_t wrap_index(int64_t i, int64_t n)
{
    return i < 0 ? i + n : i;
}

/* obj[key]; false: a TypeError or LookupError in Python. */
static bool get_item(hy_rt *rt, hy_val obj, hy_val key, hy_val *out)
{
    if (obj.type == HY_V_DICT) {
        if (key.type == HY_V_LIST || key.type == HY_V_DICT || key.type == HY_V_VIEW) return false;
        const hy_val *v = key.type == HY_V_STR ? hy_dict_get_str(rt, obj.u.d, key.u.s)
                                               : hy_dict_get(rt, obj.u.d, key);
        if (!v) return false;
        *out = *v;
        return true;
    }
    if (!hy_is_int(key)) return false;
    int64_t i = hy_as_int(key);
    switch (obj.type) {
    case HY_V_LIST: case HY_V_TUPLE:
        i = wrap_index(i, (int64_t)obj.u.l->n);
        if (i < 0 || i >= (int64_t)obj.u.l->n) return false;
        *out = obj.u.l->v[i];
        return true;
    case HY_V_RANGE:
        i = wrap_index(i, obj.u.range->n);
        if (i < 0 || i >= obj.u.range->n) return false;
        *out = hy_v_int(obj.u.range->start + i * obj.u.range->step);
        return true;
    case HY_V_STR: {
        i = wrap_index(i, hy_v_len(rt, obj));
        if (i < 0 || i >= hy_v_len(rt, obj)) return false;
        const hy_str *s = obj.u.s;
        size_t o = hy_str_offset(s, (size_t)i);
        if (o != (size_t)i) hy_rt_step(rt, o >> 8);
        uint32_t r;
        *out = hy_v_str(rt, s->p + o, hy_utf8_next(s->p + o, s->n - o, &r));
        out->markup = obj.markup;
        return true;
    }
    default: return false;
    }
}

hy_val hy_op_item(hy_rt *rt, hy_val obj, hy_val key)
{
    hy_val v;
    if (obj.type == HY_V_UNDEF) hy_rt_fail_undef(rt, obj);
    if (get_item(rt, obj, key, &v)) return v;
    if (key.type == HY_V_STR && get_attr(rt, obj, key.u.s, &v)) return v;
    return no_item(rt, obj, key);
}

hy_val hy_op_attr(hy_rt *rt, hy_val obj, hy_str *name)
{
    hy_val v;
    if (obj.type == HY_V_UNDEF) {
        /* Undefined has Python's own attributes, and they are refused as anywhere. */
        if (is_unsafe(obj, name)) return refused(rt, obj, name);
        if (!(name->n > 4 && memcmp(name->p, "__", 2) == 0 &&
              memcmp(name->p + name->n - 2, "__", 2) == 0))
            hy_rt_fail_undef(rt, obj);
        hy_rt_fail_undef(rt, obj);
    }
    if (get_attr(rt, obj, name, &v)) return v;
    if (obj.type == HY_V_DICT && get_item(rt, obj, hy_v_strs(name), &v)) return v;
    return no_attr(rt, obj, name);
}

/* "a.b.0" as the filters' attribute arguments have it; a whole number or missing is possible too. */
hy_val hy_path_get(hy_rt *rt, hy_val item, hy_val path, hy_val dflt)
{
    if (path.type == HY_V_MISSING || path.type == HY_V_NONE) return item;
    if (path.type != HY_V_STR) {
        item = hy_op_item(rt, item, path);
        return item.type == HY_V_UNDEF && dflt.type > HY_V_NONE ? dflt : item;
    }
    const hy_str *s = path.u.s;
    for (size_t i = 0; i <= s->n;) {
        size_t k = i;
        while (k < s->n && s->p[k] != '.') k++;
        bool number = k > i;
        int64_t idx = 0;
        for (size_t j = i; j < k; j++) {
            number &= s->p[j] >= '0' && s->p[j] <= '9';
            if (number && idx < INT32_MAX) idx = idx * 10 + (s->p[j] - '0');
        }
        item = hy_op_item(rt, item, number ? hy_v_int(idx) : hy_v_str(rt, s->p + i, k - i));
        if (item.type == HY_V_UNDEF && dflt.type > HY_V_NONE) item = dflt;
        i = k + 1;
    }
    return item;
}

/* Python's slice bounds for a sequence of n. */
static int64_t bound(hy_rt *rt, hy_val v, int64_t n, int64_t dflt, bool down)
{
    if (v.type == HY_V_NONE || v.type == HY_V_MISSING) return dflt;
    if (v.type == HY_V_UNDEF || !hy_is_int(v))
        hy_rt_fail(rt, HY_E_FORMAT,
                   "slice indices must be integers or None or have an __index__ method");
    int64_t i = hy_as_int(v);
    if (i < 0) {
        i += n;
        return i < 0 ? (down ? -1 : 0) : i;
    }
    return i >= n ? (down ? n - 1 : n) : i;
}

static hy_val slice_str(hy_rt *rt, hy_val obj, int64_t lo, int64_t step, int64_t count)
{
    const hy_str *s = obj.u.s;
    if (step == 1 || count <= 0) {
        size_t from = count > 0 ? hy_str_offset(s, (size_t)lo) : 0;
        hy_str rest = { s->p + from, s->n - from, s->n_rune == s->n ? s->n - from : SIZE_MAX };
        size_t to = count > 0 ? from + hy_str_offset(&rest, (size_t)count) : from;
        if (s->n_rune != s->n) hy_rt_step(rt, s->n >> 8);
        return hy_str_sub(rt, s, from, to, obj.markup);
    }
    hy_sb b = { .rt = rt };
    if (s->n_rune == s->n) {
        for (int64_t i = 0, at = lo; i < count; i++, at += step) hy_sb_put(&b, s->p + at, 1);
    } else { /* offsets of all characters, then picked */
        size_t n = s->n_rune, k = 0;
        size_t *off = HY_RT_NEW(rt, size_t, n + 1);
        for (size_t i = 0; i < s->n; i++)
            if (((uint8_t)s->p[i] & 0xC0) != 0x80 && k < n) off[k++] = i;
        off[k] = s->n;
        for (int64_t i = 0, at = lo; i < count; i++, at += step)
            hy_sb_put(&b, s->p + off[at], off[at + 1] - off[at]);
    }
    hy_val v = hy_sb_take(&b);
    v.markup = obj.markup;
    return v;
}

hy_val hy_op_slice(hy_rt *rt, hy_val obj, hy_val vlo, hy_val vhi, hy_val vstep)
{
    if (obj.type == HY_V_UNDEF) hy_rt_fail_undef(rt, obj);
    if (obj.type == HY_V_DICT) hy_rt_fail(rt, HY_E_FORMAT, "unhashable type: 'slice'");
    if (!is_seq(obj) && obj.type != HY_V_RANGE)
        hy_rt_fail(rt, HY_E_FORMAT, "'%s' object is not subscriptable", hy_v_type_name(obj));
    int64_t n = hy_v_len(rt, obj), step = 1;
    if (vstep.type != HY_V_NONE && vstep.type != HY_V_MISSING) {
        if (!hy_is_int(vstep))
            hy_rt_fail(rt, HY_E_FORMAT,
                       "slice indices must be integers or None or have an __index__ method");
        step = hy_as_int(vstep);
        if (step == 0) hy_rt_fail(rt, HY_E_FORMAT, "slice step cannot be zero");
        step = HY_MAX(step, -INT64_MAX);
    }
    bool down = step < 0;
    int64_t lo = bound(rt, vlo, n, down ? n - 1 : 0, down);
    int64_t hi = bound(rt, vhi, n, down ? -1 : n, down);
    int64_t count = 0;
    if (!down && lo < hi) count = (hi - lo - 1) / step + 1;
    if (down && lo > hi) count = (lo - hi - 1) / -step + 1;
    if (obj.type == HY_V_STR) return slice_str(rt, obj, lo, step, count);
    if (obj.type == HY_V_RANGE) {
        const hy_range *r = obj.u.range;
        hy_range *o = HY_RT_NEW(rt, hy_range, 1);
        __int128 st = (__int128)r->step * (count > 1 ? step : down ? -1 : 1);
        if (st > INT64_MAX || st < INT64_MIN) fail_big(rt);
        o->start = r->start + lo * r->step;
        o->step = (int64_t)st;
        o->n = count;
        o->stop = r->start + hi * r->step;
        return (hy_val){ .type = HY_V_RANGE, .u.range = o };
    }
    hy_val v = hy_v_list(rt, (hy_vtype)obj.type, step == 1 ? 0 : (size_t)count);
    if (step == 1) { /* lists never change: share the items (cap = n: a push would copy) */
        v.u.l->v = obj.u.l->v + (count ? lo : 0);
        v.u.l->n = v.u.l->cap = (size_t)count;
        return v;
    }
    for (int64_t i = 0, at = lo; i < count; i++, at += step)
        hy_list_push(rt, v.u.l, obj.u.l->v[at]);
    return v;
}

/* ---- calls ----------------------------------------------------------------------------------- */

const hy_fn *hy_fn_find(const hy_fn *table, size_t count, const char *name, size_t n)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(table[i].name) == n && memcmp(table[i].name, name, n) == 0) return &table[i];
    return NULL;
}

/* The i-th of comma-separated names; NULL when there are fewer. */
static const char *param(const char *names, size_t i, size_t *n)
{
    while (i > 0 && (names = strchr(names, ',')) != NULL) {
        names++;
        i--;
    }
    if (!names || !*names) return NULL;
    *n = strcspn(names, ",");
    return names;
}

hy_val hy_fn_call(hy_rt *rt, const hy_fn *fn, hy_val self, const hy_args *args)
{
    if (!fn->names) return fn->call(rt, self, NULL, args);
    hy_val a[HY_FN_ARGS];
    size_t n;
    for (size_t i = 0; i < HY_FN_ARGS; i++) {
        bool given = i < args->n;
        a[i] = given ? args->v[i] : hy_v_missing;
        if (given && !param(fn->names, i, &n))
            hy_rt_fail(rt, HY_E_FORMAT, "%s: %zu arguments are too many", fn->name, args->n);
    }
    if (args->n > HY_FN_ARGS)
        hy_rt_fail(rt, HY_E_FORMAT, "%s: %zu arguments are too many", fn->name, args->n);
    for (size_t k = 0; k < args->n_kw; k++) {
        const hy_str *name = args->kw[k].name;
        size_t i = 0;
        const char *pn;
        while ((pn = param(fn->names, i, &n)) && !(n == name->n && memcmp(pn, name->p, n) == 0)) i++;
        if (!pn || i >= HY_FN_ARGS)
            hy_rt_fail(rt, HY_E_FORMAT, "%s() got an unexpected keyword argument '%.80s'", fn->name,
                       hy_str_z(rt, name));
        if (a[i].type != HY_V_MISSING)
            hy_rt_fail(rt, HY_E_FORMAT, "%s() got multiple values for argument '%.80s'", fn->name,
                       hy_str_z(rt, name));
        a[i] = args->kw[k].v;
    }
    for (size_t i = 0; i < fn->n_need; i++) {
        const char *pn = param(fn->names, i, &n);
        if (a[i].type == HY_V_MISSING)
            hy_rt_fail(rt, HY_E_FORMAT, "%s() missing required argument '%.*s'", fn->name, (int)n, pn);
    }
    return fn->call(rt, self, a, args);
}

hy_val hy_op_call(hy_rt *rt, hy_val f, const hy_args *args)
{
    hy_rt_step(rt, 1);
    if (rt->depth >= rt->max_depth)
        hy_rt_fail(rt, HY_E_LIMIT, "calls nest deeper than %u", rt->max_depth);
    rt->depth++;
    hy_val v;
    switch (f.type) {
    case HY_V_UNDEF: hy_rt_fail_undef(rt, f);
    case HY_V_FUNC: v = hy_fn_call(rt, f.u.fn, hy_v_none, args); break;
    case HY_V_BOUND: v = hy_fn_call(rt, f.u.bound->fn, f.u.bound->self, args); break;
    case HY_V_MACRO: v = hy_macro_call(rt, f.u.macro, args); break;
    case HY_V_LOOP: v = hy_loop_call(rt, f.u.loop, args); break;
    case HY_V_BLOCK: v = hy_block_call(rt, f.u.block); break;
    case HY_V_JOINER:
        v = f.u.cycler->pos ? f.u.cycler->items->v[0] : hy_v_text(rt, "");
        f.u.cycler->pos = 1;
        break;
    default: hy_rt_fail(rt, HY_E_FORMAT, "'%s' object is not callable", hy_v_type_name(f));
    }
    rt->depth--;
    return v;
}
