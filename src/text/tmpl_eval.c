/* Evaluating expressions: a walk over the tree. */
#include "text/tmpl.h"

static hy_val lookup(hy_rt *rt, hy_scope *sc, hy_str *name)
{
    for (; sc; sc = sc->up)
        for (uint32_t i = sc->n; i > 0; i--)
            if (sc->v[i - 1].name == name) return sc->v[i - 1].v;
    const hy_val *v = hy_dict_get_str(rt, rt->vars, name);
    if (v) return *v;
    const hy_fn *g = hy_find_global(name->p, name->n);
    if (g) return (hy_val){ .type = HY_V_FUNC, .u.fn = g };
    if (name->n == 4 && memcmp(name->p, "self", 4) == 0) return (hy_val){ .type = HY_V_SELF };
    return hy_v_undef_name(rt, name);
}

static hy_val eval_items(hy_rt *rt, hy_scope *sc, const hy_node *n)
{
    hy_val v = hy_v_list(rt, n->kind == N_LIST ? HY_V_LIST : HY_V_TUPLE, n->list.n);
    for (uint32_t i = 0; i < n->list.n; i++)
        hy_list_push(rt, v.u.l, hy_eval(rt, sc, n->list.v[i]));
    return v;
}

static hy_val eval_dict(hy_rt *rt, hy_scope *sc, const hy_node *n)
{
    hy_val v = hy_v_dict(rt);
    for (uint32_t i = 0; i < n->list.n; i++) {
        hy_val k = hy_eval(rt, sc, n->list.v[i]);
        hy_dict_set(rt, v.u.d, k, hy_eval(rt, sc, n->list2.v[i]));
    }
    return v;
}

static hy_val eval_cond(hy_rt *rt, hy_scope *sc, const hy_node *n)
{
    if (hy_v_truth(rt, hy_eval(rt, sc, n->a))) return hy_eval(rt, sc, n->b);
    if (n->c) return hy_eval(rt, sc, n->c);
    return hy_v_undef(rt, "the inline if-expression evaluated to false and no else section was "
                          "defined.");
}

static hy_val eval_chain(hy_rt *rt, hy_scope *sc, const hy_node *n)
{
    hy_val v = hy_v_none;
    for (uint32_t i = 0; i < n->list.n; i++) {
        v = hy_eval(rt, sc, n->list.v[i]);
        if (hy_v_truth(rt, v) == (n->kind == N_OR)) break;
    }
    return v;
}

static hy_val eval_compare(hy_rt *rt, hy_scope *sc, const hy_node *n)
{
    hy_val left = hy_eval(rt, sc, n->a);
    for (uint32_t i = 0; i < n->list.n; i++) {
        const hy_node *r = n->list.v[i];
        hy_val right = hy_eval(rt, sc, r->a);
        rt->line = n->line;
        if (!hy_op_compare(rt, (hy_op)r->op, left, right)) return hy_v_bool(false);
        left = right;
    }
    return hy_v_bool(true);
}

static hy_val eval_concat(hy_rt *rt, hy_scope *sc, const hy_node *n)
{
    hy_sb b = { .rt = rt };
    hy_val first = hy_eval(rt, sc, n->list.v[0]), rest;
    for (uint32_t i = 1; i < n->list.n; i++) {
        rest = hy_eval(rt, sc, n->list.v[i]);
        if (i == 1 && n->list.n == 2 && first.type == HY_V_STR && rest.type == HY_V_STR) {
            first.markup = rest.markup = false;
            return hy_op_binary(rt, OP_ADD, first, rest); /* grows in place */
        }
        if (i == 1) hy_sb_val(&b, first);
        hy_sb_val(&b, rest);
    }
    return hy_sb_take(&b);
}

static hy_val eval_sign(hy_rt *rt, hy_scope *sc, const hy_node *n)
{
    hy_val v = hy_eval(rt, sc, n->a);
    if (v.type == HY_V_UNDEF) hy_rt_fail_undef(rt, v);
    if (!hy_is_num(v))
        hy_rt_fail(rt, HY_E_FORMAT, "bad operand type for unary %c: '%s'",
                   n->kind == N_NEG ? '-' : '+', hy_v_type_name(v));
    if (v.type == HY_V_FLOAT) return n->kind == N_NEG ? hy_v_float(-v.u.f) : v;
    int64_t i = hy_as_int(v);
    if (n->kind == N_POS) return hy_v_int(i);
    if (i == INT64_MIN) hy_rt_fail(rt, HY_E_UNSUPPORTED, "an integer beyond 64 bits");
    return hy_v_int(-i);
}

static hy_val eval_slice(hy_rt *rt, hy_scope *sc, hy_val obj, const hy_node *n)
{
    hy_val part[3];
    const hy_node *const at[3] = { n->a, n->b, n->c };
    for (int i = 0; i < 3; i++) part[i] = at[i] ? hy_eval(rt, sc, at[i]) : hy_v_none;
    return hy_op_slice(rt, obj, part[0], part[1], part[2]);
}

static hy_val eval_item(hy_rt *rt, hy_scope *sc, const hy_node *n)
{
    hy_val obj = hy_eval(rt, sc, n->a);
    if (n->b->kind == N_SLICE) return eval_slice(rt, sc, obj, n->b);
    hy_val key = hy_eval(rt, sc, n->b);
    rt->line = n->line;
    return hy_op_item(rt, obj, key);
}

static void push_kwarg(hy_rt *rt, hy_args *a, size_t *cap, const hy_str *name, hy_val v)
{
    for (size_t i = 0; i < a->n_kw; i++)
        if (a->kw[i].name->n == name->n && memcmp(a->kw[i].name->p, name->p, name->n) == 0)
            hy_rt_fail(rt, HY_E_FORMAT, "got multiple values for keyword argument '%.80s'",
                       hy_str_z(rt, name));
    if (a->n_kw == *cap) {
        size_t c = *cap ? *cap * 2 : 4;
        hy_kwarg *k = HY_RT_NEW(rt, hy_kwarg, c);
        if (a->n_kw) memcpy(k, a->kw, a->n_kw * sizeof *k);
        a->kw = k;
        *cap = c;
    }
    ((hy_kwarg *)(uintptr_t)a->kw)[a->n_kw++] = (hy_kwarg){ name, v };
}

static void eval_args(hy_rt *rt, hy_scope *sc, const hy_cargs *c, hy_args *out)
{
    *out = (hy_args){ 0 };
    if (!c) return;
    hy_list *pos = hy_v_list(rt, HY_V_LIST, c->pos.n).u.l;
    for (uint32_t i = 0; i < c->pos.n; i++) hy_list_push(rt, pos, hy_eval(rt, sc, c->pos.v[i]));
    size_t cap = 0;
    for (uint32_t i = 0; i < c->kw.n; i++)
        push_kwarg(rt, out, &cap, c->kw_name[i], hy_eval(rt, sc, c->kw.v[i]));
    if (c->star) {
        hy_iter it;
        hy_val v;
        hy_iter_init(rt, &it, hy_eval(rt, sc, c->star));
        while (hy_iter_next(rt, &it, &v)) hy_list_push(rt, pos, v);
    }
    if (c->star2) {
        hy_val d = hy_eval(rt, sc, c->star2);
        if (d.type != HY_V_DICT)
            hy_rt_fail(rt, HY_E_FORMAT, "argument after ** must be a mapping, not %s",
                       hy_v_type_name(d));
        for (size_t i = 0; i < d.u.d->n; i++) {
            if (d.u.d->v[i].key.type != HY_V_STR)
                hy_rt_fail(rt, HY_E_FORMAT, "keywords must be strings");
            push_kwarg(rt, out, &cap, d.u.d->v[i].key.u.s, d.u.d->v[i].value);
        }
    }
    out->v = pos->v;
    out->n = pos->n;
}

static hy_val eval_call(hy_rt *rt, hy_scope *sc, const hy_node *n)
{
    hy_args args;
    hy_val f = hy_eval(rt, sc, n->a);
    eval_args(rt, sc, n->args, &args);
    rt->line = n->line;
    return hy_op_call(rt, f, &args);
}

static hy_val eval_filter(hy_rt *rt, hy_scope *sc, const hy_node *n)
{
    hy_args args;
    hy_val in = hy_eval(rt, sc, n->a);
    eval_args(rt, sc, n->args, &args);
    rt->line = n->line;
    if (!n->fn)
        hy_rt_fail(rt, HY_E_FORMAT, "No %s named '%.80s' found.",
                   n->kind == N_FILTER ? "filter" : "test", hy_str_z(rt, n->value.u.s));
    return hy_fn_call(rt, n->fn, in, &args);
}

static hy_val eval_kind(hy_rt *rt, hy_scope *sc, const hy_node *n)
{
    switch (n->kind) {
    case N_CONST: return n->value;
    case N_NAME: return lookup(rt, sc, n->value.u.s);
    case N_TUPLE: case N_LIST: return eval_items(rt, sc, n);
    case N_DICT: return eval_dict(rt, sc, n);
    case N_COND: return eval_cond(rt, sc, n);
    case N_OR: case N_AND: return eval_chain(rt, sc, n);
    case N_NOT: return hy_v_bool(!hy_v_truth(rt, hy_eval(rt, sc, n->a)));
    case N_COMPARE: return eval_compare(rt, sc, n);
    case N_BIN: {
        hy_val a = hy_eval(rt, sc, n->a), b = hy_eval(rt, sc, n->b);
        rt->line = n->line;
        return hy_op_binary(rt, (hy_op)n->op, a, b);
    }
    case N_CONCAT: return eval_concat(rt, sc, n);
    case N_NEG: case N_POS: return eval_sign(rt, sc, n);
    case N_ATTR: {
        hy_val obj = hy_eval(rt, sc, n->a);
        rt->line = n->line;
        return hy_op_attr(rt, obj, n->attr);
    }
    case N_ITEM: return eval_item(rt, sc, n);
    case N_CALL: return eval_call(rt, sc, n);
    case N_FILTER: case N_TEST: return eval_filter(rt, sc, n);
    default: hy_rt_fail(rt, HY_E_INTERNAL, "a node of kind %d is no expression", n->kind);
    }
}

hy_val hy_eval(hy_rt *rt, hy_scope *sc, const hy_node *n)
{
    hy_rt_step(rt, 1);
    if (rt->nest >= HY_NEST_MAX)
        hy_rt_fail(rt, HY_E_LIMIT, "expressions and calls nest deeper than %d", HY_NEST_MAX);
    rt->nest++;
    rt->line = n->line;
    hy_val v = eval_kind(rt, sc, n);
    rt->nest--;
    return v;
}
