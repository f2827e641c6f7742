/* Automata: trimming, merging equal states, intersection and difference, lengths. */
#include "gram/gram_impl.h"

enum { N_NEXT_MAX = 4000000, MERGE_WORK = 20000000 };

/* Back arcs: those into q are at from[first[q]] ... from[first[q + 1] - 1]. */
static void back(hy_gc *gc, const hy_dfa *d, uint32_t **first, uint32_t **from)
{
    size_t n = (size_t)d->n_state * d->n_class;
    uint32_t *f = HY_TMP(gc, uint32_t, d->n_state + 2), *b = HY_TMP(gc, uint32_t, n + 1);
    for (size_t i = 0; i < n; i++)
        if (d->next[i] != HY_NONE) f[d->next[i] + 2]++;
    for (uint32_t q = 0; q < d->n_state; q++) f[q + 2] += f[q + 1];
    for (size_t i = 0; i < n; i++)
        if (d->next[i] != HY_NONE) b[f[d->next[i] + 1]++] = (uint32_t)(i / d->n_class);
    *first = f;
    *from = b;
}

/* Fills len_min (HY_NONE: accepts nothing). */
static void shortest(hy_gc *gc, hy_dfa *d)
{
    uint32_t *first, *from, *queue = HY_TMP(gc, uint32_t, d->n_state + 1), n = 0;
    back(gc, d, &first, &from);
    d->len_min = HY_TMP(gc, uint32_t, d->n_state + 1);
    for (uint32_t q = 0; q < d->n_state; q++) {
        d->len_min[q] = d->accept[q] ? 0 : HY_NONE;
        if (d->accept[q]) queue[n++] = q;
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t e = first[queue[i]]; e < first[queue[i] + 1]; e++)
            if (d->len_min[from[e]] == HY_NONE) {
                d->len_min[from[e]] = d->len_min[queue[i]] + 1;
                queue[n++] = from[e];
            }
}

/* Fills len_max of an automaton whose states all reach an end: HY_NONE where a loop can be entered.
 */
static void longest(hy_gc *gc, hy_dfa *d)
{
    uint32_t *first, *from, *left = HY_TMP(gc, uint32_t, d->n_state + 1);
    uint32_t *queue = HY_TMP(gc, uint32_t, d->n_state + 1), n = 0;
    back(gc, d, &first, &from);
    d->len_max = HY_TMP(gc, uint32_t, d->n_state + 1);
    for (uint32_t q = 0; q < d->n_state; q++) {
        for (uint32_t c = 0; c < d->n_class; c++)
            left[q] += d->next[(size_t)q * d->n_class + c] != HY_NONE;
        if (!left[q]) queue[n++] = q;
    }
    uint32_t *deep = HY_TMP(gc, uint32_t, d->n_state + 1);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t e = first[queue[i]]; e < first[queue[i] + 1]; e++) {
            uint32_t q = from[e];
            deep[q] = HY_MAX(deep[q], deep[queue[i]] + 1);
            if (--left[q] == 0) queue[n++] = q;
        }
    for (uint32_t q = 0; q < d->n_state; q++) d->len_max[q] = left[q] ? HY_NONE : deep[q];
}

/* Renames states by `to` (HY_NONE: drop) to n new ones. */
static void rename_states(hy_gc *gc, hy_dfa *d, const uint32_t *to, uint32_t n)
{
    uint32_t *next = HY_TMP(gc, uint32_t, (size_t)n * d->n_class + 1);
    uint8_t *accept = HY_TMP(gc, uint8_t, n + 1);
    for (uint32_t q = 0; q < d->n_state; q++) {
        if (to[q] == HY_NONE) continue;
        accept[to[q]] = d->accept[q];
        for (uint32_t c = 0; c < d->n_class; c++) {
            uint32_t t = d->next[(size_t)q * d->n_class + c];
            next[(size_t)to[q] * d->n_class + c] = t == HY_NONE ? HY_NONE : to[t];
        }
    }
    d->next = next;
    d->accept = accept;
    d->n_state = n;
}

/* Moore's refinement, as far as it stays cheap. State 0 stays state 0. */
static void merge_states(hy_gc *gc, hy_dfa *d)
{
    uint32_t n = d->n_state, nc = d->n_class, n_part = 1, cap = 16;
    while (cap < 2 * n) cap *= 2;
    uint32_t *part = HY_TMP(gc, uint32_t, n), *now = HY_TMP(gc, uint32_t, n);
    uint32_t *slot = HY_TMP(gc, uint32_t, cap), *row = HY_TMP(gc, uint32_t, (size_t)nc + 1);
    uint32_t *other = HY_TMP(gc, uint32_t, (size_t)nc + 1);
    uint64_t work = 0;
    for (uint32_t q = 0; q < n; q++) part[q] = d->accept[q];
    for (uint32_t before = 0; n_part != before;) {
        work += (uint64_t)n * (nc + 4);
        if (work > MERGE_WORK) return;
        hy_gc_spend(gc, 3 * (uint64_t)n * (nc + 4));
        before = n_part;
        n_part = 0;
        memset(slot, 0, cap * sizeof *slot);
        for (uint32_t q = 0; q < n; q++) {
            const uint32_t *nx = d->next + (size_t)q * nc;
            row[0] = part[q];
            for (uint32_t c = 0; c < nc; c++) row[c + 1] = nx[c] == HY_NONE ? HY_NONE : part[nx[c]];
            uint32_t h = (uint32_t)hy_hash64(row, (nc + 1) * sizeof *row, 5) & (cap - 1);
            for (;; h = (h + 1) & (cap - 1)) {
                if (!slot[h]) {
                    slot[h] = q + 1;
                    now[q] = n_part++;
                    break;
                }
                uint32_t o = slot[h] - 1;
                const uint32_t *no = d->next + (size_t)o * nc;
                other[0] = part[o];
                for (uint32_t c = 0; c < nc; c++)
                    other[c + 1] = no[c] == HY_NONE ? HY_NONE : part[no[c]];
                if (memcmp(row, other, (nc + 1) * sizeof *row) == 0) {
                    now[q] = now[o];
                    break;
                }
            }
        }
        memcpy(part, now, n * sizeof *part);
    }
    if (n_part < n) rename_states(gc, d, part, n_part);
}

/* Classes that lead everywhere to the same become one; neighbouring ranges too. */
static void merge_classes(hy_gc *gc, hy_dfa *d)
{
    uint32_t nc = d->n_class, m = 0, cap = 16;
    while (cap < 2 * nc) cap *= 2;
    uint32_t *slot = HY_TMP(gc, uint32_t, cap), *to = HY_TMP(gc, uint32_t, nc),
             *keep = HY_TMP(gc, uint32_t, nc);
    hy_gc_spend(gc, 2 * (uint64_t)nc * d->n_state + nc);
    for (uint32_t c = 0; c < nc; c++) {
        uint64_t hash = 11;
        for (uint32_t q = 0; q < d->n_state; q++)
            hash = (hash ^ d->next[(size_t)q * nc + c]) * 0x9E3779B97F4A7C15ull + (hash >> 29);
        uint32_t h = (uint32_t)(hash >> 32) & (cap - 1);
        for (;; h = (h + 1) & (cap - 1)) {
            if (!slot[h]) {
                keep[m] = c;
                to[c] = m++;
                slot[h] = c + 1;
                break;
            }
            uint32_t o = slot[h] - 1, q = 0;
            while (q < d->n_state && d->next[(size_t)q * nc + c] == d->next[(size_t)q * nc + o])
                q++;
            if (q == d->n_state) {
                to[c] = to[o];
                break;
            }
        }
    }
    uint32_t *next = HY_TMP(gc, uint32_t, (size_t)d->n_state * m + 1),
             *from = HY_TMP(gc, uint32_t, d->n_range + 1);
    uint16_t *cls = HY_TMP(gc, uint16_t, d->n_range + 1);
    for (uint32_t q = 0; q < d->n_state; q++)
        for (uint32_t c = 0; c < m; c++)
            next[(size_t)q * m + c] = d->next[(size_t)q * nc + keep[c]];
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->n_range; i++) {
        uint16_t c = (uint16_t)to[d->cls[i]];
        if (n && cls[n - 1] == c) continue;
        from[n] = d->from[i];
        cls[n++] = c;
    }
    d->next = next;
    d->n_class = m;
    d->from = from;
    d->cls = cls;
    d->n_range = n;
}

hy_dfa *hy_dfa_none(hy_gc *gc)
{
    hy_dfa *d = HY_TMP(gc, hy_dfa, 1);
    d->n_class = d->n_range = 1;
    d->next = HY_TMP(gc, uint32_t, 1);
    d->from = HY_TMP(gc, uint32_t, 1);
    d->cls = HY_TMP(gc, uint16_t, 1);
    return d;
}

hy_dfa *hy_dfa_finish(hy_gc *gc, hy_dfa *d)
{
    hy_gc_spend(gc, 8 * (uint64_t)d->n_state * d->n_class);
    shortest(gc, d);
    if (d->n_state == 0 || d->len_min[0] == HY_NONE) return hy_dfa_none(gc);
    uint32_t n = 0, *to = HY_TMP(gc, uint32_t, d->n_state);
    for (uint32_t q = 0; q < d->n_state; q++) to[q] = d->len_min[q] == HY_NONE ? HY_NONE : n++;
    if (n < d->n_state) rename_states(gc, d, to, n);
    merge_states(gc, d);
    merge_classes(gc, d);
    shortest(gc, d);
    longest(gc, d);
    for (uint32_t c = 0; c < 128; c++) d->ascii[c] = d->cls[hy_dfa_range(d, c)];
    return d;
}

uint32_t hy_dfa_range(const hy_dfa *d, uint32_t rune)
{
    uint32_t lo = 0, hi = d->n_range;
    while (lo + 1 < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (d->from[mid] <= rune)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

hy_dfa *hy_dfa_any(hy_gc *gc) { return hy_dfa_from(gc, hy_ast_any(gc)); }

bool hy_dfa_is_any(const hy_dfa *d)
{
    if (d->n_state != 1) return false;
    for (uint32_t i = 0; i < d->n_range; i++)
        if (d->next[d->cls[i]] == HY_NONE && d->from[i] != 0xD800) return false;
    return true;
}

bool hy_dfa_match(const hy_dfa *d, const char *s, size_t n)
{
    uint32_t q = 0;
    if (!d->n_state) return false;
    for (size_t i = 0; i < n && q != HY_NONE;) {
        uint32_t rune;
        i += hy_utf8_next(s + i, n - i, &rune);
        if (rune == HY_RUNE_BAD) return false;
        q = hy_dfa_step(d, q, rune);
    }
    return q != HY_NONE && d->accept[q];
}

/* ---- two automata at once -----------------------------------------------------------------------
 */

typedef struct both {
    hy_gc *gc;
    const hy_dfa *a, *b;
    uint64_t *pair; /* state of a << 32 | state of b (HY_NONE: dead) */
    uint32_t *slot, n_slot;
    size_t n, cap;
} both;

static uint32_t number(both *p, uint64_t pair)
{
    if (p->n * 2 >= p->n_slot) {
        uint32_t n = HY_MAX(256u, p->n_slot * 2);
        p->slot = HY_TMP(p->gc, uint32_t, n);
        p->n_slot = n;
        for (uint32_t i = 0; i < p->n; i++) {
            uint32_t h = (uint32_t)((p->pair[i] * 0x9E3779B97F4A7C15ull) >> 32) & (n - 1);
            while (p->slot[h]) h = (h + 1) & (n - 1);
            p->slot[h] = i + 1;
        }
    }
    uint32_t h = (uint32_t)((pair * 0x9E3779B97F4A7C15ull) >> 32) & (p->n_slot - 1);
    for (; p->slot[h]; h = (h + 1) & (p->n_slot - 1))
        if (p->pair[p->slot[h] - 1] == pair) return p->slot[h] - 1;
    p->pair = hy_gc_grow(p->gc, p->pair, p->n, &p->cap, sizeof *p->pair);
    p->pair[p->n++] = pair;
    p->slot[h] = (uint32_t)p->n;
    return (uint32_t)p->n - 1;
}

/* Ranges of both; the classes of one range are remembered in ca, cb per new class. */
static uint32_t refine(hy_gc *gc, const hy_dfa *a, const hy_dfa *b, hy_dfa *d, uint16_t **ca,
                       uint16_t **cb)
{
    size_t most = (size_t)a->n_range + b->n_range;
    d->from = HY_TMP(gc, uint32_t, most + 1);
    d->cls = HY_TMP(gc, uint16_t, most + 1);
    *ca = HY_TMP(gc, uint16_t, most + 1);
    *cb = HY_TMP(gc, uint16_t, most + 1);
    both p = {.gc = gc};
    for (uint32_t i = 0, j = 0; i < a->n_range && j < b->n_range;) {
        uint32_t c = number(&p, (uint64_t)a->cls[i] << 32 | b->cls[j]);
        if (c >= UINT16_MAX) hy_gc_fail(gc, HY_E_LIMIT, "too many kinds of characters");
        (*ca)[c] = a->cls[i];
        (*cb)[c] = b->cls[j];
        d->from[d->n_range] = HY_MAX(a->from[i], b->from[j]);
        d->cls[d->n_range++] = (uint16_t)c;
        uint32_t ai = i + 1 < a->n_range ? a->from[i + 1] : HY_NONE;
        uint32_t bj = j + 1 < b->n_range ? b->from[j + 1] : HY_NONE;
        i += ai <= bj;
        j += bj <= ai;
    }
    return (uint32_t)p.n;
}

static hy_dfa *product(hy_gc *gc, const hy_dfa *a, const hy_dfa *b, bool minus)
{
    if (!a->n_state || (!b->n_state && !minus)) return hy_dfa_none(gc);
    hy_dfa *d = HY_TMP(gc, hy_dfa, 1);
    uint16_t *ca, *cb;
    d->n_class = refine(gc, a, b, d, &ca, &cb);
    both p = {.gc = gc, .a = a, .b = b};
    number(&p, b->n_state ? 0 : HY_NONE);
    size_t cap = 0, cap_acc = 0;
    for (uint32_t q = 0; q < p.n; q++) {
        if ((size_t)(q + 1) * d->n_class > N_NEXT_MAX)
            hy_gc_fail(gc, HY_E_LIMIT, "too large: an automaton of more than %u states", q);
        hy_gc_spend(gc, 20 * (uint64_t)d->n_class);
        while ((size_t)(q + 1) * d->n_class > cap)
            d->next = hy_gc_grow(gc, d->next, cap, &cap, sizeof *d->next);
        d->accept = hy_gc_grow(gc, d->accept, q, &cap_acc, 1);
        uint32_t x = (uint32_t)(p.pair[q] >> 32), y = (uint32_t)p.pair[q];
        bool in_b = y != HY_NONE && b->accept[y];
        d->accept[q] = a->accept[x] && in_b != minus;
        for (uint32_t c = 0; c < d->n_class; c++) {
            uint32_t nx = a->next[(size_t)x * a->n_class + ca[c]];
            uint32_t ny = y == HY_NONE ? HY_NONE : b->next[(size_t)y * b->n_class + cb[c]];
            bool dead = nx == HY_NONE || (ny == HY_NONE && !minus);
            uint32_t to = dead ? HY_NONE : number(&p, (uint64_t)nx << 32 | ny);
            d->next[(size_t)q * d->n_class + c] = to;
        }
    }
    d->n_state = (uint32_t)p.n;
    return hy_dfa_finish(gc, d);
}

hy_dfa *hy_dfa_and(hy_gc *gc, const hy_dfa *a, const hy_dfa *b) { return product(gc, a, b, false); }

hy_dfa *hy_dfa_minus(hy_gc *gc, const hy_dfa *a, const hy_dfa *b)
{
    return product(gc, a, b, true);
}

hy_dfa *hy_dfa_length(hy_gc *gc, const hy_dfa *a, uint32_t min, uint32_t max)
{
    hy_ast *any = hy_ast_set(gc, hy_cset_one(gc, 0, HY_RUNE_MAX));
    return hy_dfa_and(gc, a, hy_dfa_from(gc, hy_ast_rep(gc, any, min, max)));
}

const hy_dfa *hy_dfa_keep(hy_gc *gc, hy_dfa *d)
{
    if (d->kept) return d->kept;
    hy_dfa *k = hy_gc_keep(gc, 1, sizeof *k);
    *k = *d;
    size_t n = d->n_state, nc = (size_t)d->n_class;
#define KEEP(field, count)                                                                         \
    k->field = hy_gc_keep(gc, (count), sizeof *k->field);                                          \
    memcpy(k->field, d->field, (count) * sizeof *k->field)
    KEEP(next, n * nc);
    KEEP(accept, n);
    KEEP(from, (size_t)d->n_range);
    KEEP(cls, (size_t)d->n_range);
    KEEP(len_min, n);
    KEEP(len_max, n);
#undef KEEP
    d->kept = k;
    return k;
}

hy_dfa *hy_dfa_try(hy_gc *gc, const hy_ast *a, uint64_t work)
{
    hy_gc *sub = HY_TMP(gc, hy_gc, 1); /* its own place to jump to; the memory is the same */
    *sub = *gc;
    sub->work = HY_MIN(work, gc->work);
    sub->err = NULL;
    uint64_t given = sub->work;
    hy_dfa *d = NULL;
    if (setjmp(sub->jmp) == 0) {
        hy_dfa *made = hy_dfa_from(sub, a);
        gc->work -= given - sub->work;
        return made;
    }
    if (sub->code == HY_E_MEMORY) hy_gc_fail(gc, HY_E_MEMORY, "out of memory");
    gc->work -= given - sub->work;
    return d;
}
