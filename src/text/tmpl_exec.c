/* Running statements, macros, loops; rendering as a whole. */
#include "text/tmpl.h"
#include <stdarg.h>
#include <stdio.h>

typedef enum flow { NEXT, BREAK, CONTINUE } flow;

static flow run(hy_rt *rt, hy_scope *sc, const hy_nodes *body);

/* ---- the runtime's own services -------------------------------------------------------------- */

_Noreturn void hy_rt_fail(hy_rt *rt, hy_status code, const char *fmt, ...)
{
    char msg[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    rt->code = rt->raised ? hy_fail(rt->err, code, "%s", msg)
                          : hy_fail(rt->err, code, "line %d: %s", (int)rt->line, msg);
    longjmp(rt->jmp, 1);
}

_Noreturn void hy_rt_fail_undef(hy_rt *rt, hy_val v)
{
    const hy_undef *u = v.u.undef;
    if (u->hint) hy_rt_fail(rt, HY_E_FORMAT, "%s", u->hint);
    const char *name = hy_v_repr_z(rt, hy_v_str(rt, u->name->p, u->name->n));
    if (u->owner) hy_rt_fail(rt, HY_E_FORMAT, "'%s' has no attribute %s", u->owner, name);
    hy_rt_fail(rt, HY_E_FORMAT, "%s is undefined", name);
}

void *hy_rt_alloc(hy_rt *rt, size_t n, size_t align)
{
    if (n > rt->max_mem || rt->mem > rt->max_mem - n)
        hy_rt_fail(rt, HY_E_LIMIT, "the template needs more than %llu bytes of memory",
                   (unsigned long long)rt->max_mem);
    rt->mem += n;
    void *p = hy_arena_alloc(rt->arena, n ? n : 1, align);
    if (!p) hy_rt_fail(rt, HY_E_MEMORY, "out of memory for %zu bytes", n);
    return p;
}

void *hy_rt_array(hy_rt *rt, size_t n, size_t size, size_t align)
{
    uint64_t total;
    if (!hy_mul_u64(n, size, &total)) total = UINT64_MAX;
    return hy_rt_alloc(rt, (size_t)total, align);
}

void hy_rt_step(hy_rt *rt, uint64_t n)
{
    rt->steps += n;
    if (rt->steps > rt->max_steps)
        hy_rt_fail(rt, HY_E_LIMIT, "the template runs for more than %llu steps",
                   (unsigned long long)rt->max_steps);
}

void hy_rt_put(hy_rt *rt, const char *s, size_t n)
{
    if (n > rt->max_out || rt->out->len - rt->out_start > rt->max_out - n)
        hy_rt_fail(rt, HY_E_LIMIT, "the output is longer than %llu bytes",
                   (unsigned long long)rt->max_out);
    if (n) hy_buf_put(rt->out, s, n);
    if (rt->out->failed) hy_rt_fail(rt, HY_E_MEMORY, "out of memory for the output");
}

hy_val hy_rt_take(hy_rt *rt, size_t mark)
{
    size_t n = rt->out->len - mark;
    char *p = hy_rt_alloc(rt, n, 1);
    if (n) memcpy(p, rt->out->data + mark, n);
    rt->out->len = mark;
    if (rt->out->data) rt->out->data[mark] = 0;
    return hy_v_str(rt, p, n);
}

/* ---- scopes ---------------------------------------------------------------------------------- */

static hy_scope *new_scope(hy_rt *rt, hy_scope *up)
{
    hy_scope *s = HY_RT_NEW(rt, hy_scope, 1);
    s->up = up;
    return s;
}

static void scope_set(hy_rt *rt, hy_scope *s, const hy_str *name, hy_val v)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->v[i].name != name) continue;
        s->v[i].v = v;
        return;
    }
    if (s->n == s->cap) {
        uint32_t cap = s->cap ? s->cap * 2 : 4;
        hy_slot *p = HY_RT_NEW(rt, hy_slot, cap);
        if (s->n) memcpy(p, s->v, s->n * sizeof *p);
        s->v = p;
        s->cap = cap;
    }
    s->v[s->n++] = (hy_slot){ name, v };
}

static void assign_namespace(hy_rt *rt, hy_scope *sc, const hy_node *target, hy_val v)
{
    hy_node name = { .kind = N_NAME, .line = target->line, .value = target->value };
    hy_val ns = hy_eval(rt, sc, &name);
    if (ns.type != HY_V_SPACE)
        hy_rt_fail(rt, HY_E_FORMAT, "cannot assign attribute on non-namespace object");
    hy_dict_set(rt, ns.u.d, hy_v_strs(target->attr), v);
}

static void assign(hy_rt *rt, hy_scope *sc, const hy_node *target, hy_val v)
{
    if (target->kind == N_NAME) {
        scope_set(rt, sc, target->value.u.s, v);
        return;
    }
    if (target->kind == N_NSREF) {
        assign_namespace(rt, sc, target, v);
        return;
    }
    uint32_t n = target->list.n, i = 0;
    if (!hy_v_iterable(v))
        hy_rt_fail(rt, HY_E_FORMAT, "cannot unpack non-iterable %s object", hy_v_type_name(v));
    hy_list *l = hy_v_to_list(rt, v);
    if (l->n < n)
        hy_rt_fail(rt, HY_E_FORMAT, "not enough values to unpack (expected %u, got %zu)", n, l->n);
    if (l->n > n) hy_rt_fail(rt, HY_E_FORMAT, "too many values to unpack (expected %u)", n);
    for (; i < n; i++) assign(rt, sc, target->list.v[i], l->v[i]);
}

/* ---- loops ----------------------------------------------------------------------------------- */

/* The next item that the loop's filter lets pass. */
static bool loop_pull(hy_rt *rt, hy_loop *l, hy_val *out)
{
    if (l->rest) {
        if (l->rest_pos >= l->rest->n) return false;
        *out = l->rest->v[l->rest_pos++];
        return true;
    }
    while (!l->ended && hy_iter_next(rt, &l->it, out)) {
        if (!l->node->c) return true;
        hy_scope *sc = new_scope(rt, l->outer);
        assign(rt, sc, l->node->a, *out);
        if (hy_v_truth(rt, hy_eval(rt, sc, l->node->c))) return true;
    }
    l->ended = true;
    return false;
}

static bool loop_peek(hy_rt *rt, hy_loop *l)
{
    if (!l->has_after) l->has_after = loop_pull(rt, l, &l->after);
    return l->has_after;
}

static bool loop_next(hy_rt *rt, hy_loop *l)
{
    hy_val v;
    if (l->has_after) {
        v = l->after;
        l->has_after = false;
    } else if (!loop_pull(rt, l, &v)) {
        return false;
    }
    l->index0++;
    l->before = l->current;
    l->current = v;
    return true;
}

static int64_t loop_length(hy_rt *rt, hy_loop *l)
{
    if (l->length >= 0) return l->length;
    if (!l->node->c && hy_v_has_len(l->it.src)) {
        l->length = hy_v_len(rt, l->it.src);
    } else {
        hy_list *rest = hy_v_list(rt, HY_V_LIST, 0).u.l;
        hy_val v;
        while (loop_pull(rt, l, &v)) hy_list_push(rt, rest, v);
        l->rest = rest;
        l->rest_pos = 0;
        l->length = (int64_t)rest->n + l->index0 + 1 + l->has_after;
    }
    return l->length;
}

static hy_val loop_cycle(hy_rt *rt, hy_val self, const hy_val *a, const hy_args *raw)
{
    if (!raw->n) hy_rt_fail(rt, HY_E_FORMAT, "no items for cycling given");
    return raw->v[(size_t)self.u.loop->index0 % raw->n];
}

static hy_val loop_changed(hy_rt *rt, hy_val self, const hy_val *a, const hy_args *raw)
{
    hy_loop *l = self.u.loop;
    bool same = l->changed && l->changed->n == raw->n;
    for (size_t i = 0; same && i < raw->n; i++) same = hy_v_eq(rt, l->changed->v[i], raw->v[i]);
    if (same) return hy_v_bool(false);
    l->changed = hy_v_list(rt, HY_V_LIST, raw->n).u.l;
    for (size_t i = 0; i < raw->n; i++) hy_list_push(rt, l->changed, raw->v[i]);
    return hy_v_bool(true);
}

static hy_val loop_method(hy_rt *rt, hy_loop *l, const hy_fn *fn)
{
    hy_bound *b = HY_RT_NEW(rt, hy_bound, 1);
    b->self = (hy_val){ .type = HY_V_LOOP, .u.loop = l };
    b->fn = fn;
    return (hy_val){ .type = HY_V_BOUND, .u.bound = b };
}

hy_val hy_loop_attr(hy_rt *rt, hy_loop *l, const hy_str *name, bool *found)
{
    static const hy_fn methods[] = { { "cycle", loop_cycle, NULL, 0 },
                                     { "changed", loop_changed, NULL, 0 } };
    static const char *const names[] = { "index", "index0", "revindex", "revindex0", "first", "last",
                                         "length", "depth", "depth0", "previtem", "nextitem" };
    *found = true;
    size_t k = 0;
    while (k < HY_COUNT(names) &&
           !(strlen(names[k]) == name->n && memcmp(names[k], name->p, name->n) == 0))
        k++;
    switch (k) {
    case 0: return hy_v_int(l->index0 + 1);
    case 1: return hy_v_int(l->index0);
    case 2: return hy_v_int(loop_length(rt, l) - l->index0);
    case 3: return hy_v_int(loop_length(rt, l) - l->index0 - 1);
    case 4: return hy_v_bool(l->index0 == 0);
    case 5: return hy_v_bool(!loop_peek(rt, l));
    case 6: return hy_v_int(loop_length(rt, l));
    case 7: return hy_v_int((int64_t)l->depth0 + 1);
    case 8: return hy_v_int(l->depth0);
    case 9: return l->index0 == 0 ? hy_v_undef(rt, "there is no previous item") : l->before;
    case 10: return loop_peek(rt, l) ? l->after : hy_v_undef(rt, "there is no next item");
    default: break;
    }
    const hy_fn *fn = hy_fn_find(methods, HY_COUNT(methods), name->p, name->n);
    *found = fn != NULL;
    return fn ? loop_method(rt, l, fn) : hy_v_none;
}

static flow run_loop(hy_rt *rt, hy_scope *outer, const hy_node *n, hy_val src, uint32_t depth0)
{
    hy_loop *l = HY_RT_NEW(rt, hy_loop, 1);
    l->node = n;
    l->outer = outer;
    l->index0 = -1;
    l->length = -1;
    l->depth0 = depth0;
    hy_iter_init(rt, &l->it, src);
    hy_scope *sc = new_scope(rt, outer);
    bool whole = false; /* a turn came to its end: else is then not run, as Jinja compiles it */
    while (loop_next(rt, l)) {
        sc->n = 0; /* what one turn sets is gone in the next */
        scope_set(rt, sc, rt->t->n_loop, (hy_val){ .type = HY_V_LOOP, .u.loop = l });
        assign(rt, sc, n->a, l->current);
        flow f = run(rt, sc, &n->body);
        if (f == BREAK) break;
        whole |= f == NEXT;
    }
    if (!whole && n->orelse.n) return run(rt, new_scope(rt, outer), &n->orelse);
    return NEXT;
}

hy_val hy_loop_call(hy_rt *rt, hy_loop *l, const hy_args *args)
{
    if (!l->node->flag)
        hy_rt_fail(rt, HY_E_FORMAT,
                   "The loop must have the 'recursive' marker to be called recursively.");
    if (args->n != 1 || args->n_kw)
        hy_rt_fail(rt, HY_E_FORMAT, "loop() takes one argument (%zu given)", args->n);
    size_t mark = rt->out->len;
    run_loop(rt, l->outer, l->node, args->v[0], l->depth0 + 1);
    return hy_rt_take(rt, mark);
}

/* ---- macros ---------------------------------------------------------------------------------- */

static const hy_kwarg *find_kwarg(const hy_args *a, const char *name, size_t n)
{
    for (size_t i = 0; i < a->n_kw; i++)
        if (a->kw[i].name->n == n && memcmp(a->kw[i].name->p, name, n) == 0) return &a->kw[i];
    return NULL;
}

static hy_val param_missing(hy_rt *rt, const hy_str *name)
{
    hy_sb b = { .rt = rt };
    hy_sb_str(&b, "parameter ");
    hy_sb_repr(&b, hy_v_str(rt, name->p, name->n), 0);
    hy_sb_str(&b, " was not provided");
    return hy_v_undef(rt, hy_str_z(rt, hy_sb_take(&b).u.s));
}

/* Parameters in order: a default may use the ones before it. used[i]: keyword i has been taken. */
static bool bind_params(hy_rt *rt, hy_scope *sc, const hy_node *n, const hy_args *args, bool *used)
{
    bool has_caller = false;
    for (uint32_t i = 0; i < n->list.n; i++) {
        const hy_str *name = n->list.v[i]->value.u.s;
        has_caller |= name == rt->t->n_caller;
        uint32_t first_default = n->list.n - n->list2.n;
        hy_val v;
        const hy_kwarg *k = i < args->n ? NULL : find_kwarg(args, name->p, name->n);
        if (i < args->n) v = args->v[i];
        else if (k) v = k->v;
        else if (i >= first_default) v = hy_eval(rt, sc, n->list2.v[i - first_default]);
        else v = param_missing(rt, name);
        if (k) used[k - args->kw] = true;
        scope_set(rt, sc, name, v);
    }
    return has_caller;
}

/* caller, kwargs and varargs: only a macro that names them gets them. */
static void bind_special(hy_rt *rt, hy_scope *sc, const hy_node *n, const hy_args *args, bool *used,
                         bool has_caller)
{
    hy_val kw = hy_v_dict(rt), caller = hy_v_none;
    bool wants = (n->uses & HY_M_CALLER) && !has_caller;
    for (size_t i = 0; i < args->n_kw; i++) {
        const hy_str *name = args->kw[i].name;
        if (used[i]) continue;
        if (wants && name->n == 6 && memcmp(name->p, "caller", 6) == 0) {
            caller = args->kw[i].v;
            continue;
        }
        if (!(n->uses & HY_M_KWARGS))
            hy_rt_fail(rt, HY_E_FORMAT, "macro takes no keyword argument '%.80s'",
                       hy_str_z(rt, name));
        hy_dict_set(rt, kw.u.d, hy_v_str(rt, name->p, name->n), args->kw[i].v);
    }
    if (wants) {
        if (caller.type == HY_V_NONE) caller = hy_v_undef(rt, "No caller defined");
        scope_set(rt, sc, rt->t->n_caller, caller);
    }
    if (n->uses & HY_M_KWARGS) scope_set(rt, sc, rt->t->n_kwargs, kw);
    if (n->uses & HY_M_VARARGS) {
        hy_val rest = hy_v_list(rt, HY_V_TUPLE, 0);
        for (size_t i = n->list.n; i < args->n; i++) hy_list_push(rt, rest.u.l, args->v[i]);
        scope_set(rt, sc, rt->t->n_varargs, rest);
    } else if (args->n > n->list.n) {
        hy_rt_fail(rt, HY_E_FORMAT, "macro '%.80s' takes not more than %u argument(s)",
                   n->kind == N_MACRO ? hy_str_z(rt, n->value.u.s) : "caller", n->list.n);
    }
}

hy_val hy_macro_call(hy_rt *rt, hy_macro *m, const hy_args *args)
{
    hy_scope *sc = new_scope(rt, m->scope);
    bool *used = HY_RT_NEW(rt, bool, args->n_kw);
    bool has_caller = bind_params(rt, sc, m->node, args, used);
    bind_special(rt, sc, m->node, args, used, has_caller);
    size_t mark = rt->out->len;
    run(rt, sc, &m->node->body);
    return hy_rt_take(rt, mark);
}

static hy_val make_macro(hy_rt *rt, hy_scope *sc, const hy_node *n)
{
    hy_macro *m = HY_RT_NEW(rt, hy_macro, 1);
    m->node = n;
    m->scope = sc;
    return (hy_val){ .type = HY_V_MACRO, .u.macro = m };
}

hy_val hy_block_call(hy_rt *rt, const hy_node *block)
{
    size_t mark = rt->out->len;
    run(rt, new_scope(rt, rt->root), &block->body);
    return hy_rt_take(rt, mark);
}

/* ---- statements ------------------------------------------------------------------------------ */

static void put_val(hy_rt *rt, hy_val v)
{
    hy_val s = hy_v_to_str(rt, v);
    hy_rt_put(rt, s.u.s->p, s.u.s->n);
}

static void run_call_block(hy_rt *rt, hy_scope *sc, const hy_node *n)
{
    hy_node caller = { .kind = N_CONST, .line = n->line, .value = make_macro(rt, sc, n) };
    const hy_cargs *old = n->a->args;
    hy_cargs args = *old;
    uint32_t k = old->kw.n;
    args.kw.v = HY_RT_NEW(rt, hy_node *, k + 1);
    args.kw_name = HY_RT_NEW(rt, hy_str *, k + 1);
    for (uint32_t i = 0; i < k; i++) {
        args.kw.v[i] = old->kw.v[i];
        args.kw_name[i] = old->kw_name[i];
    }
    args.kw.v[k] = &caller;
    args.kw_name[k] = (hy_str *)(uintptr_t)rt->t->n_caller;
    args.kw.n = args.kw.cap = k + 1;
    hy_node call = *n->a;
    call.args = &args;
    put_val(rt, hy_eval(rt, sc, &call));
}

/* A chain of filters over a text: the innermost has no input of its own. */
static hy_val filter_text(hy_rt *rt, hy_scope *sc, const hy_node *f, hy_val text)
{
    hy_node in = { .kind = N_CONST, .line = f->line, .value = text };
    hy_node copy = *f;
    if (f->a) text = filter_text(rt, sc, f->a, text);
    in.value = text;
    copy.a = &in;
    return hy_eval(rt, sc, &copy);
}

static void run_set_block(hy_rt *rt, hy_scope *sc, const hy_node *n, flow *f)
{
    size_t mark = rt->out->len;
    *f = run(rt, new_scope(rt, sc), &n->body);
    hy_val text = hy_rt_take(rt, mark);
    if (*f != NEXT) return;
    if (n->b) text = filter_text(rt, sc, n->b, text);
    assign(rt, sc, n->a, text);
}

static void run_filter_block(hy_rt *rt, hy_scope *sc, const hy_node *n, flow *f)
{
    size_t mark = rt->out->len;
    hy_scope *inner = new_scope(rt, sc);
    *f = run(rt, inner, &n->body);
    hy_val text = hy_rt_take(rt, mark);
    if (*f == NEXT) put_val(rt, filter_text(rt, inner, n->a, text));
}

static flow run_if(hy_rt *rt, hy_scope *sc, const hy_node *n)
{
    for (uint32_t i = 0; i < n->list.n; i++)
        if (hy_v_truth(rt, hy_eval(rt, sc, n->list.v[i]))) return run(rt, sc, &n->list2.v[i]->body);
    return run(rt, sc, &n->orelse);
}

static flow run_with(hy_rt *rt, hy_scope *sc, const hy_node *n)
{
    hy_scope *inner = new_scope(rt, sc);
    for (uint32_t i = 0; i < n->list.n; i++)
        assign(rt, inner, n->list.v[i], hy_eval(rt, sc, n->list2.v[i]));
    return run(rt, inner, &n->body);
}

static flow run_one(hy_rt *rt, hy_scope *sc, const hy_node *n)
{
    flow f = NEXT;
    switch (n->kind) {
    case N_DATA: hy_rt_put(rt, n->value.u.s->p, n->value.u.s->n); break;
    case N_OUTPUT: put_val(rt, hy_eval(rt, sc, n->a)); break;
    case N_SET: assign(rt, sc, n->a, hy_eval(rt, sc, n->b)); break;
    case N_SETBLOCK: run_set_block(rt, sc, n, &f); break;
    case N_FOR: f = run_loop(rt, sc, n, hy_eval(rt, sc, n->b), 0); break;
    case N_IF: f = run_if(rt, sc, n); break;
    case N_WITH: f = run_with(rt, sc, n); break;
    case N_SCOPE:
        if (n->a) hy_eval(rt, sc, n->a);
        f = run(rt, n->flag ? new_scope(rt, sc) : sc, &n->body);
        break;
    case N_BLOCK: f = run(rt, new_scope(rt, n->flag ? sc : rt->root), &n->body); break;
    case N_CALLBLOCK: run_call_block(rt, sc, n); break;
    case N_FILTERBLOCK: run_filter_block(rt, sc, n, &f); break;
    case N_MACRO: scope_set(rt, sc, n->value.u.s, make_macro(rt, sc, n)); break;
    case N_BREAK: f = BREAK; break;
    case N_CONTINUE: f = CONTINUE; break;
    default:
        hy_rt_fail(rt, HY_E_UNSUPPORTED, "{%% %.80s %%} is not supported: a chat template stands alone",
                   hy_str_z(rt, n->value.u.s));
    }
    return f;
}

static flow run(hy_rt *rt, hy_scope *sc, const hy_nodes *body)
{
    if (rt->nest >= HY_NEST_MAX)
        hy_rt_fail(rt, HY_E_LIMIT, "statements and calls nest deeper than %d", HY_NEST_MAX);
    rt->nest++;
    flow f = NEXT;
    for (uint32_t i = 0; i < body->n && f == NEXT; i++) {
        hy_rt_step(rt, 1);
        rt->line = body->v[i]->line;
        f = run_one(rt, sc, body->v[i]);
    }
    rt->nest--;
    return f;
}

hy_status hy_template_render(const hy_template *t, const json_t *vars, int64_t now,
                             const hy_template_limits *limits, hy_buf *out, bool *raised, hy_err *err)
{
    static const hy_template_limits none;
    if (!limits) limits = &none;
    if (raised) *raised = false;
    if (vars && !json_is_object(vars))
        return hy_fail(err, HY_E_ARG, "template: the variables must be a JSON object");
    hy_rt *rt = HY_NEW(hy_rt);
    hy_arena *arena = rt ? hy_arena_new(64 * HY_KIB) : NULL;
    if (!arena) {
        hy_free(rt);
        return hy_fail_memory(err, "template", 64 * HY_KIB);
    }
    rt->t = t;
    rt->arena = arena;
    rt->out = out;
    rt->out_start = out->len;
    rt->max_steps = limits->max_steps ? limits->max_steps : 20 * 1000 * 1000;
    rt->max_out = limits->max_output ? limits->max_output : 16 * HY_MIB;
    rt->max_mem = limits->max_memory ? limits->max_memory : 256 * HY_MIB;
    rt->max_depth = limits->max_depth ? limits->max_depth : 200;
    rt->now = now;
    rt->line = 1;
    rt->err = err;
    if (setjmp(rt->jmp) == 0) {
        rt->vars = vars ? hy_v_from_json(rt, vars, 0).u.d : hy_v_dict(rt).u.d;
        rt->root = new_scope(rt, NULL);
        run(rt, rt->root, &t->body);
    }
    hy_status st = rt->code;
    if (raised) *raised = rt->raised;
    if (st != HY_OK && out->data) { /* a failure leaves the buffer as it was */
        out->len = HY_MIN(out->len, rt->out_start);
        out->data[out->len] = 0;
    }
    hy_arena_free(arena);
    hy_free(rt);
    return st;
}
