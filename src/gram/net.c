/* The network: rules as graphs of literals, automata, calls and counted loops; built from the end
 * to the front. Checked as a whole at the end: what can finish, and that no rule begins with
 * itself. */
#include "gram/gram_impl.h"

enum { N_NODE_MAX = 2000000 };

static uint32_t node(hy_gc *gc, hy_node n)
{
    hy_net *t = gc->net;
    if (t->n_node >= N_NODE_MAX)
        hy_gc_fail(gc, HY_E_LIMIT, "too large: more than %d nodes", N_NODE_MAX);
    hy_gc_spend(gc, 20);
    t->node = hy_gc_grow(gc, t->node, t->n_node, &t->cap_node, sizeof *t->node);
    t->node[t->n_node] = n;
    return (uint32_t)t->n_node++;
}

uint32_t hy_net_lit(hy_gc *gc, const char *s, size_t n, uint32_t next)
{
    hy_net *t = gc->net;
    if (!n) return next;
    hy_gc_spend(gc, n);
    while (t->n_bytes + n > t->cap_bytes)
        t->bytes = hy_gc_grow(gc, t->bytes, t->cap_bytes, &t->cap_bytes, 1);
    memcpy(t->bytes + t->n_bytes, s, n);
    t->n_bytes += n;
    return node(
        gc,
        (hy_node){.kind = N_LIT, .a = (uint32_t)(t->n_bytes - n), .b = (uint32_t)n, .next = next});
}

/* The automaton less the empty text, so that an automaton in the network always reads something. */
static hy_dfa *not_empty(hy_gc *gc, hy_dfa *d)
{
    if (!d->full) d->full = hy_dfa_minus(gc, d, hy_dfa_from(gc, hy_ast_new(gc, A_CAT)));
    return (hy_dfa *)d->full;
}

uint32_t hy_net_term(hy_gc *gc, hy_dfa *d, bool json, uint32_t min, uint32_t max, uint32_t next)
{
    hy_net *t = gc->net;
    if (!d->n_state || min > max || max < d->len_min[0] || min > d->len_max[0])
        return hy_net_fail(gc);
    bool empty = !json && min == 0 && d->accept[0];
    if (empty) {
        d = not_empty(gc, d);
        if (!d->n_state || max == 0) return next;
        if (max != HY_NONE) min = 1;
    }
    hy_term x = {.dfa = hy_dfa_keep(gc, d), .json = json, .min = min, .max = max};
    x.counted = max != HY_NONE || min > d->len_min[0];
    if (!x.counted) x.min = 0;
    t->term = hy_gc_grow(gc, t->term, t->n_term, &t->cap_term, sizeof *t->term);
    t->term[t->n_term++] = x;
    uint32_t self = node(gc, (hy_node){.kind = N_TERM, .a = (uint32_t)t->n_term - 1, .next = next});
    uint32_t both[2] = {self, next};
    return empty ? hy_net_split(gc, both, 2) : self;
}

uint32_t hy_net_split(hy_gc *gc, const uint32_t *to, size_t n)
{
    hy_net *t = gc->net;
    if (n == 1) return to[0];
    if (n == 0) return hy_net_fail(gc);
    uint32_t first = (uint32_t)t->n_edge;
    for (size_t i = 0; i < n; i++) {
        t->edge = hy_gc_grow(gc, t->edge, t->n_edge, &t->cap_edge, sizeof *t->edge);
        t->edge[t->n_edge++] = to[i];
    }
    return node(gc, (hy_node){.kind = N_SPLIT, .a = first, .b = (uint32_t)n});
}

uint32_t hy_net_call(hy_gc *gc, uint32_t rule, uint32_t next)
{
    return node(gc, (hy_node){.kind = N_CALL, .a = rule, .next = next});
}

uint32_t hy_net_ret(hy_gc *gc) { return node(gc, (hy_node){.kind = N_RET}); }

uint32_t hy_net_fail(hy_gc *gc) { return node(gc, (hy_node){.kind = N_FAIL}); }

uint32_t hy_net_rule(hy_gc *gc, const char *name)
{
    hy_net *t = gc->net;
    t->rule = hy_gc_grow(gc, t->rule, t->n_rule, &t->cap_rule, sizeof *t->rule);
    t->name = hy_gc_grow(gc, t->name, t->n_rule, &t->cap_name, sizeof *t->name);
    t->name[t->n_rule] = name;
    t->rule[t->n_rule] = HY_NONE;
    return (uint32_t)t->n_rule++;
}

uint32_t hy_net_rep(hy_gc *gc, uint32_t min, uint32_t max, uint32_t next, uint32_t *end)
{
    uint32_t rep =
        node(gc, (hy_node){.kind = N_REP, .a = HY_NONE, .min = min, .max = max, .next = next});
    *end = node(gc, (hy_node){.kind = N_REPEND, .a = rep});
    return rep;
}

void hy_net_rep_body(hy_gc *gc, uint32_t rep, uint32_t body) { gc->net->node[rep].a = body; }

/* ---- checks -------------------------------------------------------------------------------------
 */

static bool any_edge(const hy_net *t, const hy_node *n, const uint8_t *bit)
{
    for (uint32_t i = 0; i < n->b; i++)
        if (bit[t->edge[n->a + i]]) return true;
    return false;
}

/* bit[i]: from node i the end of its rule can be reached; without reading anything when `empty`. */
static void reach(hy_gc *gc, uint8_t *bit, bool empty)
{
    const hy_net *t = gc->net;
    for (bool changed = true; changed;) {
        changed = false;
        hy_gc_spend(gc, 4 * t->n_node + t->n_edge);
        for (size_t i = 0; i < t->n_node; i++) {
            const hy_node *n = &t->node[i];
            bool b = false;
            if (bit[i]) continue;
            switch (n->kind) {
            case N_LIT:
            case N_TERM:
                b = !empty && bit[n->next];
                break;
            case N_SPLIT:
                b = any_edge(t, n, bit);
                break;
            case N_CALL:
                b = bit[n->next] && bit[t->rule[n->a]];
                break;
            case N_REP:
                b = bit[n->next] && (n->min == 0 || bit[n->a]);
                break;
            case N_RET:
            case N_REPEND:
                b = true;
                break;
            default:
                break;
            }
            if (b) bit[i] = changed = true;
        }
    }
}

typedef struct walk {
    hy_gc *gc;
    const uint8_t *empty;    /* [n_node] */
    uint32_t *seen;          /* [n_node] rule + 1 in whose walk */
    uint8_t *state;          /* [n_rule] 1: being walked, 2: done */
    uint32_t *stack, *rules; /* nodes; rules being walked */
    size_t n_rules;
} walk;

/* The rules that `rule` may begin with go to out. */
static size_t begins(walk *w, uint32_t rule, uint32_t *out)
{
    const hy_net *t = w->gc->net;
    size_t n_out = 0, n = 0;
    w->stack[n++] = t->rule[rule];
    while (n) {
        uint32_t i = w->stack[--n];
        const hy_node *x = &t->node[i];
        hy_gc_spend(w->gc, 5);
        if (w->seen[i] == rule + 1) continue;
        w->seen[i] = rule + 1;
        switch (x->kind) {
        case N_SPLIT:
            for (uint32_t e = 0; e < x->b; e++) w->stack[n++] = t->edge[x->a + e];
            break;
        case N_CALL:
            out[n_out++] = x->a;
            if (w->empty[t->rule[x->a]]) w->stack[n++] = x->next;
            break;
        case N_REP:
            w->stack[n++] = x->a;
            if (x->min == 0 || w->empty[x->a]) w->stack[n++] = x->next;
            break;
        case N_REPEND:
            w->stack[n++] = t->node[x->a].next;
            break;
        default:
            break;
        }
    }
    return n_out;
}

/* Depth first over the rules, without recursion: a rule met while it is being walked begins with
 * itself. */
static void no_left_recursion(walk *w)
{
    hy_gc *gc = w->gc;
    const hy_net *t = gc->net;
    typedef struct frame {
        uint32_t rule, n, i, *to;
    } frame;
    frame *f = HY_TMP(gc, frame, t->n_rule + 1);
    uint32_t *out = HY_TMP(gc, uint32_t, t->n_node + t->n_edge + 1);
    for (uint32_t r = 0; r < t->n_rule; r++) {
        if (w->state[r] || t->rule[r] == HY_NONE) continue;
        size_t d = 0;
        uint32_t enter = r;
        do {
            if (enter != HY_NONE) {
                w->state[enter] = 1;
                f[d] = (frame){enter, (uint32_t)begins(w, enter, out), 0, NULL};
                f[d].to = HY_TMP(gc, uint32_t, f[d].n + 1);
                memcpy(f[d].to, out, f[d].n * sizeof *out);
                d++;
                enter = HY_NONE;
            }
            frame *top = &f[d - 1];
            if (top->i == top->n) {
                w->state[top->rule] = 2;
                d--;
                continue;
            }
            uint32_t next = top->to[top->i++];
            if (w->state[next] == 1)
                hy_gc_fail(gc, HY_E_ARG, "left recursion: rule %.80s can begin with itself",
                           t->name[next] ? t->name[next] : "of a schema");
            if (w->state[next] == 0) enter = next;
        } while (d);
    }
}

static void *to_keep(hy_gc *gc, const void *p, size_t n, size_t size)
{
    void *k = hy_gc_keep(gc, n + 1, size);
    if (n) memcpy(k, p, n * size);
    return k;
}

void hy_net_finish(hy_gc *gc, const char *what)
{
    hy_net *t = gc->net;
    uint8_t *live = HY_TMP(gc, uint8_t, t->n_node), *empty = HY_TMP(gc, uint8_t, t->n_node);
    reach(gc, live, false);
    for (size_t i = 0; i < t->n_node; i++) t->node[i].live = live[i];
    reach(gc, empty, true);
    for (size_t i = 0; i < t->n_node; i++) /* turns that read nothing need not be counted */
        if (t->node[i].kind == N_REP && empty[t->node[i].a]) t->node[i].min = 0;
    walk w = {.gc = gc, .empty = empty};
    w.seen = HY_TMP(gc, uint32_t, t->n_node);
    w.state = HY_TMP(gc, uint8_t, t->n_rule);
    w.stack = HY_TMP(gc, uint32_t, 2 * t->n_node + t->n_edge + 2);
    no_left_recursion(&w);
    if (!live[t->rule[0]])
        hy_gc_fail(gc, HY_E_ARG, "%s allows no text at all: it contradicts itself or never ends",
                   what);
    t->node = to_keep(gc, t->node, t->n_node, sizeof *t->node);
    t->term = to_keep(gc, t->term, t->n_term, sizeof *t->term);
    for (size_t i = 0; i < t->n_term; i++) hy_term_first(&t->term[i]);
    t->edge = to_keep(gc, t->edge, t->n_edge, sizeof *t->edge);
    t->rule = to_keep(gc, t->rule, t->n_rule, sizeof *t->rule);
    t->bytes = to_keep(gc, t->bytes, t->n_bytes, 1);
    t->name = NULL;
}
