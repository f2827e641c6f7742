/* Expression -> automaton: Thompson's construction over sets of code points, then subsets (Aho,
 * Sethi, Ullman, 3.7). Sets that behave alike become one class first, so that Unicode costs
 * nothing. */
#include "gram/gram_impl.h"
#include <stdlib.h>

enum { EPS = -1, BOL = -2, EOL = -3 };
enum { N_STATE_MAX = 400000, N_NEXT_MAX = 4000000 };

typedef struct edge {
    int32_t set;
    uint32_t to, next;
} edge;
typedef struct nfa {
    hy_gc *gc;
    uint32_t *first; /* [n] first edge */
    edge *e;
    const hy_cset **set;    /* [n_set] each once */
    uint32_t *slot, n_slot; /* hash of sets */
    size_t n, cap, n_e, cap_e, n_set, cap_set;
    uint32_t accept;
} nfa;

static uint32_t state(nfa *a)
{
    if (a->n >= N_STATE_MAX)
        hy_gc_fail(a->gc, HY_E_LIMIT, "too large: more than %d states", N_STATE_MAX);
    hy_gc_spend(a->gc, 10);
    a->first = hy_gc_grow(a->gc, a->first, a->n, &a->cap, sizeof *a->first);
    a->first[a->n] = HY_NONE;
    return (uint32_t)a->n++;
}

static void arc(nfa *a, uint32_t from, int32_t set, uint32_t to)
{
    hy_gc_spend(a->gc, 5);
    a->e = hy_gc_grow(a->gc, a->e, a->n_e, &a->cap_e, sizeof *a->e);
    a->e[a->n_e] = (edge){set, to, a->first[from]};
    a->first[from] = (uint32_t)a->n_e++;
}

static void rehash_sets(nfa *a)
{
    uint32_t n = HY_MAX(64u, a->n_slot * 2);
    uint32_t *slot = HY_TMP(a->gc, uint32_t, n);
    for (uint32_t i = 0; i < a->n_set; i++) {
        uint32_t h =
            (uint32_t)hy_hash64(a->set[i]->r, a->set[i]->n * sizeof(hy_range), 1) & (n - 1);
        while (slot[h]) h = (h + 1) & (n - 1);
        slot[h] = i + 1;
    }
    a->slot = slot;
    a->n_slot = n;
}

static int32_t intern(nfa *a, const hy_cset *s)
{
    if (a->n_set * 2 >= a->n_slot) rehash_sets(a);
    uint32_t h = (uint32_t)hy_hash64(s->r, s->n * sizeof(hy_range), 1) & (a->n_slot - 1);
    for (; a->slot[h]; h = (h + 1) & (a->n_slot - 1)) {
        const hy_cset *t = a->set[a->slot[h] - 1];
        if (t->n == s->n && (s->n == 0 || memcmp(t->r, s->r, s->n * sizeof(hy_range)) == 0))
            return (int32_t)a->slot[h] - 1;
    }
    a->set = hy_gc_grow(a->gc, a->set, a->n_set, &a->cap_set, sizeof *a->set);
    a->set[a->n_set++] = s;
    a->slot[h] = (uint32_t)a->n_set;
    return (int32_t)a->n_set - 1;
}

static uint32_t build_dfa(nfa *a, const hy_dfa *d, uint32_t from)
{
    uint32_t end = state(a), first = (uint32_t)a->n;
    hy_cset **s = HY_TMP(a->gc, hy_cset *, d->n_class);
    int32_t *id = HY_TMP(a->gc, int32_t, d->n_class);
    for (uint32_t c = 0; c < d->n_class; c++) s[c] = hy_cset_new(a->gc);
    for (uint32_t i = 0; i < d->n_range; i++)
        hy_cset_add(a->gc, s[d->cls[i]], d->from[i],
                    i + 1 < d->n_range ? d->from[i + 1] - 1 : HY_RUNE_MAX);
    for (uint32_t c = 0; c < d->n_class; c++) {
        hy_cset_norm(a->gc, s[c]);
        id[c] = intern(a, s[c]);
    }
    for (uint32_t q = 0; q < d->n_state; q++) state(a);
    for (uint32_t q = 0; q < d->n_state; q++) {
        for (uint32_t c = 0; c < d->n_class; c++) {
            uint32_t to = d->next[(size_t)q * d->n_class + c];
            if (to != HY_NONE && a->set[id[c]]->n) arc(a, first + q, id[c], first + to);
        }
        if (d->accept[q]) arc(a, first + q, EPS, end);
    }
    if (d->n_state) arc(a, from, EPS, first);
    return end;
}

/* Adds the texts of x between `from` and the state returned. */
static uint32_t build(nfa *a, const hy_ast *x, uint32_t from)
{
    uint32_t end;
    hy_gc_enter(a->gc);
    switch (x->kind) {
    case A_SET:
        end = state(a);
        if (x->set->n) arc(a, from, intern(a, x->set), end);
        break;
    case A_CAT:
        end = from;
        for (size_t i = 0; i < x->n; i++) end = build(a, x->kid[i], end);
        break;
    case A_ALT:
        end = state(a);
        for (size_t i = 0; i < x->n; i++) {
            uint32_t s = state(a);
            arc(a, from, EPS, s);
            arc(a, build(a, x->kid[i], s), EPS, end);
        }
        break;
    case A_REP:
        for (uint32_t i = 0; i < x->min; i++) from = build(a, x->kid[0], from);
        end = state(a);
        if (x->max == HY_NONE) {
            uint32_t s = state(a);
            arc(a, from, EPS, s);
            arc(a, build(a, x->kid[0], s), EPS, s);
            arc(a, s, EPS, end);
        } else {
            for (uint32_t i = x->min; i < x->max; i++) {
                arc(a, from, EPS, end);
                uint32_t s = state(a);
                arc(a, from, EPS, s);
                from = build(a, x->kid[0], s);
            }
            arc(a, from, EPS, end);
        }
        break;
    case A_DFA:
        end = build_dfa(a, x->dfa, from);
        break;
    case A_BOL:
    case A_EOL:
        end = state(a);
        arc(a, from, x->kind == A_BOL ? BOL : EOL, end);
        break;
    default:
        hy_gc_fail(a->gc, HY_E_INTERNAL, "expression of kind %d in an automaton", x->kind);
    }
    hy_gc_leave(a->gc);
    return end;
}

/* ---- classes ------------------------------------------------------------------------------------
 */

typedef struct cut {
    uint32_t at;
    uint64_t flip;
} cut;
typedef struct classes {
    uint32_t *from, n_range, n_class;
    uint16_t *cls;
    uint32_t **of_set, *n_of_set; /* classes of each set */
} classes;

static int by_at(const void *a, const void *b)
{
    const cut *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

static void sweep(nfa *a, classes *k, cut *c, size_t n)
{
    hy_gc *gc = a->gc;
    k->from = HY_TMP(gc, uint32_t, n + 1);
    k->cls = HY_TMP(gc, uint16_t, n + 1);
    uint64_t *sign = HY_TMP(gc, uint64_t, n + 2), now = 0;
    size_t cap = 16;
    while (cap < 4 * n) cap *= 2;
    uint32_t *slot = HY_TMP(gc, uint32_t, cap);
    for (size_t i = 0; i < n;) {
        uint32_t at = c[i].at;
        for (; i < n && c[i].at == at; i++) now ^= c[i].flip;
        if (at > HY_RUNE_MAX) break;
        size_t h = (now * 0x9E3779B97F4A7C15ull) >> 32 & (cap - 1);
        while (slot[h] && sign[slot[h] - 1] != now) h = (h + 1) & (cap - 1);
        if (!slot[h]) {
            if (k->n_class >= UINT16_MAX)
                hy_gc_fail(gc, HY_E_LIMIT, "too many kinds of characters");
            sign[k->n_class] = now;
            slot[h] = ++k->n_class;
        }
        k->from[k->n_range] = at;
        k->cls[k->n_range++] = (uint16_t)(slot[h] - 1);
    }
}

static void classify(nfa *a, classes *k)
{
    hy_gc *gc = a->gc;
    size_t n = 3;
    for (size_t i = 0; i < a->n_set; i++) n += 2 * a->set[i]->n;
    hy_gc_spend(gc, 40 * n);
    cut *c = HY_TMP(gc, cut, n);
    n = 0;
    c[n++] = (cut){0, 0};
    c[n++] = (cut){0xD800, hy_rng_at(7, 0, 0)}; /* surrogates are in no set */
    c[n++] = (cut){0xE000, hy_rng_at(7, 0, 0)};
    for (size_t i = 0; i < a->n_set; i++)
        for (size_t j = 0; j < a->set[i]->n; j++) {
            uint64_t flip = hy_rng_at(7, 1, i);
            c[n++] = (cut){a->set[i]->r[j].lo, flip};
            c[n++] = (cut){a->set[i]->r[j].hi + 1, flip};
        }
    qsort(c, n, sizeof *c, by_at);
    sweep(a, k, c, n);
    k->of_set = HY_TMP(gc, uint32_t *, a->n_set + 1);
    k->n_of_set = HY_TMP(gc, uint32_t, a->n_set + 1);
    uint32_t *stamp = HY_TMP(gc, uint32_t, k->n_class + 1);
    for (size_t i = 0; i < a->n_set; i++) {
        const hy_cset *s = a->set[i];
        uint32_t *list = HY_TMP(gc, uint32_t, k->n_class + 1), m = 0, r = 0;
        for (size_t j = 0; j < s->n; j++) {
            uint32_t lo = r, hi = k->n_range;
            while (lo + 1 < hi) {
                uint32_t mid = (lo + hi) / 2;
                if (k->from[mid] <= s->r[j].lo)
                    lo = mid;
                else
                    hi = mid;
            }
            for (r = lo; r < k->n_range && k->from[r] <= s->r[j].hi; r++) {
                hy_gc_spend(gc, 2);
                if (stamp[k->cls[r]] == i + 1) continue;
                stamp[k->cls[r]] = (uint32_t)i + 1;
                list[m++] = k->cls[r];
            }
            if (r) r--;
        }
        k->of_set[i] = list;
        k->n_of_set[i] = m;
    }
}

/* ---- subsets ------------------------------------------------------------------------------------
 */

typedef struct subsets {
    nfa *a;
    hy_gc *gc;
    uint32_t *stamp, now;   /* visited in this closure */
    uint32_t *stack, *list; /* work; the states with arcs of a set */
    uint32_t n_list;
    uint32_t *pool; /* lists of all states */
    size_t n_pool, cap_pool;
    struct {
        uint32_t first, n;
    } * st;
    uint8_t *accept;
    size_t n_st, cap_st, cap_acc;
    uint32_t *slot, n_slot;
} subsets;

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Closes the n states on the stack; fills list. Returns whether the end is reached. */
static bool closure(subsets *s, uint32_t n, bool first, bool at_end)
{
    bool accept = false, eol = false;
    const nfa *a = s->a;
    uint64_t cost = 0;
    s->n_list = 0;
    s->now++;
    uint32_t k = 0;
    for (uint32_t i = 0; i < n; i++)
        if (s->stamp[s->stack[i]] != s->now) {
            s->stamp[s->stack[i]] = s->now;
            s->stack[k++] = s->stack[i];
        }
    while (k) {
        uint32_t q = s->stack[--k];
        bool arcs = false;
        if (q == a->accept) accept = true;
        for (uint32_t e = a->first[q]; e != HY_NONE; e = a->e[e].next) {
            int32_t kind = a->e[e].set;
            uint32_t to = a->e[e].to;
            cost++;
            if (kind >= 0) arcs = true;
            eol |= kind == EOL;
            if (kind >= 0 || (kind == BOL && !first) || (kind == EOL && !at_end)) continue;
            if (s->stamp[to] == s->now) continue;
            s->stamp[to] = s->now;
            s->stack[k++] = to;
        }
        if (arcs) s->list[s->n_list++] = q;
    }
    hy_gc_spend(s->gc, 4 * cost + 10 * s->n_list);
    if (!at_end && !accept && eol) { /* the same once more, as if the text ended here */
        uint32_t kept = s->n_list;
        uint32_t *copy = HY_TMP(s->gc, uint32_t, n + kept);
        uint32_t m = 0;
        memcpy(copy, s->list, kept * sizeof *copy);
        for (uint32_t q = 0; q < a->n;
             q++) /* everything closed so far is where the second pass starts */
            if (s->stamp[q] == s->now) s->stack[m++] = q;
        hy_gc_spend(s->gc, a->n / 4);
        accept = closure(s, m, first, true);
        memcpy(s->list, copy, kept * sizeof *copy);
        s->n_list = kept;
    }
    return accept;
}

static uint64_t key(const uint32_t *list, uint32_t n, bool accept)
{
    return hy_hash64(list, n * sizeof *list, accept ? 3 : 2);
}

static void rehash(subsets *s)
{
    uint32_t n = HY_MAX(256u, s->n_slot * 2);
    s->slot = HY_TMP(s->gc, uint32_t, n);
    s->n_slot = n;
    for (uint32_t i = 0; i < s->n_st; i++) {
        uint32_t h = (uint32_t)key(s->pool + s->st[i].first, s->st[i].n, s->accept[i]) & (n - 1);
        while (s->slot[h]) h = (h + 1) & (n - 1);
        s->slot[h] = i + 1;
    }
}

/* The automaton's state for what closure() left in list. */
static uint32_t find(subsets *s, bool accept)
{
    if (s->n_list > 1) qsort(s->list, s->n_list, sizeof *s->list, by_number);
    if (s->n_st * 2 >= s->n_slot) rehash(s);
    uint32_t h = (uint32_t)key(s->list, s->n_list, accept) & (s->n_slot - 1);
    for (; s->slot[h]; h = (h + 1) & (s->n_slot - 1)) {
        uint32_t i = s->slot[h] - 1;
        if (s->st[i].n == s->n_list && s->accept[i] == accept &&
            memcmp(s->pool + s->st[i].first, s->list, s->n_list * sizeof *s->list) == 0)
            return i;
    }
    while (s->n_pool + s->n_list > s->cap_pool) {
        size_t cap = s->cap_pool;
        s->pool = hy_gc_grow(s->gc, s->pool, cap, &s->cap_pool, sizeof *s->pool);
    }
    if (s->n_list) memcpy(s->pool + s->n_pool, s->list, s->n_list * sizeof *s->list);
    s->st = hy_gc_grow(s->gc, s->st, s->n_st, &s->cap_st, sizeof *s->st);
    s->accept = hy_gc_grow(s->gc, s->accept, s->n_st, &s->cap_acc, 1);
    s->st[s->n_st].first = (uint32_t)s->n_pool;
    s->st[s->n_st].n = s->n_list;
    s->accept[s->n_st] = accept;
    s->n_pool += s->n_list;
    s->slot[h] = (uint32_t)++s->n_st;
    return (uint32_t)s->n_st - 1;
}

typedef struct pair {
    uint32_t cls, to;
} pair;

/* Where state q goes, sorted by class through counting. */
static size_t moves(subsets *s, const classes *k, uint32_t q, pair **buf, size_t *cap,
                    uint32_t *count)
{
    const nfa *a = s->a;
    size_t n = 0;
    for (uint32_t i = 0; i < s->st[q].n; i++)
        for (uint32_t e = a->first[s->pool[s->st[q].first + i]]; e != HY_NONE; e = a->e[e].next) {
            int32_t set = a->e[e].set;
            if (set < 0) continue;
            for (uint32_t c = 0; c < k->n_of_set[set]; c++) {
                *buf = hy_gc_grow(s->gc, *buf, n, cap, sizeof **buf);
                (*buf)[n++] = (pair){k->of_set[set][c], a->e[e].to};
                count[k->of_set[set][c]]++;
            }
        }
    hy_gc_spend(s->gc, 6 * n + k->n_class);
    return n;
}

static hy_dfa *determinise(nfa *a, const classes *k, uint32_t start)
{
    hy_gc *gc = a->gc;
    subsets s = {.a = a, .gc = gc};
    s.stamp = HY_TMP(gc, uint32_t, a->n);
    s.stack = HY_TMP(gc, uint32_t, a->n + 1);
    s.list = HY_TMP(gc, uint32_t, a->n + 1);
    s.stack[0] = start;
    find(&s, closure(&s, 1, true, false));
    uint32_t *next = NULL, nc = HY_MAX(k->n_class, 1u);
    size_t cap_next = 0, cap_buf = 0;
    pair *buf = NULL;
    uint32_t *count = HY_TMP(gc, uint32_t, nc + 1), *first = HY_TMP(gc, uint32_t, nc + 1),
             *to = NULL;
    size_t cap_to = 0;
    for (uint32_t q = 0; q < s.n_st; q++) {
        if ((size_t)(q + 1) * nc > N_NEXT_MAX)
            hy_gc_fail(gc, HY_E_LIMIT, "too large: an automaton of more than %u states", q);
        while ((size_t)(q + 1) * nc > cap_next)
            next = hy_gc_grow(gc, next, cap_next, &cap_next, sizeof *next);
        uint32_t *row = next + (size_t)q * nc;
        memset(count, 0, nc * sizeof *count);
        size_t n = moves(&s, k, q, &buf, &cap_buf, count);
        while (n > cap_to) to = hy_gc_grow(gc, to, cap_to, &cap_to, sizeof *to);
        uint32_t at = 0;
        for (uint32_t c = 0; c < nc; c++) {
            first[c] = at;
            at += count[c];
        }
        for (size_t i = 0; i < n; i++) to[first[buf[i].cls]++] = buf[i].to;
        for (uint32_t c = 0; c < nc; c++) {
            row[c] = HY_NONE;
            if (!count[c]) continue;
            uint32_t m = 0; /* the stack holds every state once: drop doubles */
            s.now++;
            for (uint32_t i = first[c] - count[c]; i < first[c]; i++)
                if (s.stamp[to[i]] != s.now) {
                    s.stamp[to[i]] = s.now;
                    s.stack[m++] = to[i];
                }
            bool accept = closure(&s, m, false, false);
            row[c] = find(&s, accept);
        }
    }
    hy_dfa *d = HY_TMP(gc, hy_dfa, 1);
    d->n_state = (uint32_t)s.n_st;
    d->n_class = nc;
    d->next = next;
    d->accept = s.accept;
    d->from = k->from;
    d->cls = k->cls;
    d->n_range = k->n_range;
    return hy_dfa_finish(gc, d);
}

hy_dfa *hy_dfa_from(hy_gc *gc, const hy_ast *x)
{
    nfa a = {.gc = gc};
    classes k = {0};
    uint32_t start = state(&a);
    a.accept = build(&a, x, start);
    uint32_t end = state(&a); /* nothing leaves the end */
    arc(&a, a.accept, EPS, end);
    a.accept = end;
    classify(&a, &k);
    return determinise(&a, &k, start);
}
