/* Which tokens may come next: a walk down the trie with the threads of the state.
 *
 * Most tokens need no walk. Where an automaton stays in its state over whole kinds of characters
 * (the inside of a string, free text), all tokens made of those alone are set at once from the sets
 * of the vocabulary, and the walk passes over every node below which only such tokens lie. Masks of
 * recent states are kept. */
#include "gram/run.h"

typedef struct walker {
    hy_gram_run *r;
    const hy_gram_vocab *v;
    uint32_t *bits;
    uint32_t passed; /* kinds: tokens of these alone are already dealt with; 0: none */
    uint32_t top;    /* of r->walk */
} walker;

static void walk_set(walker *w, uint32_t node, const hy_thread *t, uint32_t n);

static void allow(walker *w, uint32_t node)
{
    const hy_gram_vocab *v = w->v;
    for (uint32_t k = v->tok[node]; k < v->tok[node + 1]; k++)
        w->bits[v->token[k] / 32] |= 1u << v->token[k] % 32;
}

/* The threads after byte b go on top of the walk's stack. */
static hy_set room(walker *w)
{
    uint32_t left = HY_RUN_WALK - w->top;
    return (hy_set){.t = w->r->walk + w->top, .cap = HY_MIN(left, (uint32_t)HY_RUN_THREADS)};
}

static void below(walker *w, uint32_t node, const hy_set *s)
{
    allow(w, node);
    if (!s->n || w->v->child[node] == w->v->child[node + 1]) return;
    w->top += s->n;
    walk_set(w, node, s->t, s->n);
    w->top -= s->n;
}

/* One thread inside an automaton: the common case, kept tight. */
static void walk_term(walker *w, uint32_t node, hy_thread t)
{
    const hy_gram_vocab *v = w->v;
    const hy_node *x = &w->r->net->node[t.pc];
    const hy_term *m = &w->r->net->term[x->a];
    const hy_follow *f = NULL;
    const bool plain = t.d == 0 && !m->counted;
    const uint32_t *row = m->dfa->next + (size_t)t.q * m->dfa->n_class;
    if (hy_term_may_end(m, &t)) f = hy_run_follow(w->r, x->next, t.frame);
    for (uint32_t c = v->child[node]; c < v->child[node + 1]; c++) {
        uint8_t b = v->byte[c];
        if (!(v->kinds[c] & ~w->passed)) continue;
        if (f &&
            f->bytes[b >> 6] >> (b & 63) & 1) { /* the text of the automaton may have ended here */
            hy_set s = room(w);
            hy_run_step(w->r, &t, 1, b, &s);
            if (s.n || s.may_end) below(w, c, &s);
            continue;
        }
        hy_thread to = t;
        hy_term_step step = HY_TS_IN;
        if (plain && b < 128 &&
            !(m->json && (b < 0x20 || b == '"' || b == '\\'))) { /* most bytes of most texts */
            to.q = row[m->dfa->ascii[b]];
            if (to.q == HY_NONE) continue;
        } else {
            step = hy_term_byte(m, &to, b);
            if (step == HY_TS_NO) continue;
        }
        allow(w, c);
        if (v->child[c] == v->child[c + 1]) continue;
        if (step == HY_TS_IN) {
            walk_term(w, c, to);
            continue;
        }
        const hy_follow *after = hy_run_follow(w->r, x->next, t.frame);
        if (after) walk_set(w, c, w->r->follow_thread + after->first, after->n);
    }
}

static void walk_set(walker *w, uint32_t node, const hy_thread *t, uint32_t n)
{
    const hy_gram_vocab *v = w->v;
    if (n == 1 && w->r->net->node[t->pc].kind == N_TERM) {
        walk_term(w, node, *t);
        return;
    }
    for (uint32_t c = v->child[node]; c < v->child[node + 1]; c++) {
        if (!(v->kinds[c] & ~w->passed)) continue;
        hy_set s = room(w);
        hy_run_step(w->r, t, n, v->byte[c], &s);
        if (s.n || s.may_end) below(w, c, &s);
    }
}

/* ---- many tokens at once --------------------------------------------------------------------- */

enum { CLOSED_MAX = 40 }; /* states */

typedef struct closed {
    uint32_t q[CLOSED_MAX], n, kinds;
} closed;

static bool go(closed *k, uint32_t q)
{
    for (uint32_t i = 0; i < k->n; i++)
        if (k->q[i] == q) return true;
    if (k->n == CLOSED_MAX) return false;
    k->q[k->n++] = q;
    return true;
}

/* Takes from k->kinds those with a character that leads nowhere from q; adds the states that the
 * others lead to. False: too many states. */
static bool close_state(closed *k, const hy_term *m, uint32_t q)
{
    const hy_dfa *d = m->dfa;
    const uint32_t *next = d->next + (size_t)q * d->n_class;
    for (uint32_t c = 0; c < 128; c++)
        if (next[d->ascii[c]] == HY_NONE) k->kinds &= ~(1u << hy_cat_of((uint8_t)c));
    for (uint32_t i = hy_dfa_range(d, 128); i < d->n_range; i++)
        if (next[d->cls[i]] == HY_NONE && d->from[i] != 0xD800) k->kinds &= ~(1u << HY_CAT_WIDE);
    for (uint32_t c = 0; c < 128; c++)
        if (k->kinds >> hy_cat_of((uint8_t)c) & 1 && !go(k, next[d->ascii[c]])) return false;
    for (uint32_t i = hy_dfa_range(d, 128); k->kinds >> HY_CAT_WIDE & 1 && i < d->n_range; i++)
        if (d->from[i] != 0xD800 && !go(k, next[d->cls[i]])) return false;
    return true;
}

/* Kinds of characters of which every text may follow state q: the states it leads through lie in a
 * small set that these kinds never leave. */
static closed closed_kinds(const hy_term *m, uint32_t q)
{
    closed k = {.q = {q}, .n = 1, .kinds = ~(1u << HY_CAT_BROKEN)};
    if (m->json)
        for (uint32_t c = 0; c < 128; c++)
            if (c < 0x20 || c == '"' || c == '\\') k.kinds &= ~(1u << hy_cat_of((uint8_t)c));
    for (uint32_t i = 0, before = k.kinds; i < k.n; i++) {
        if (!close_state(&k, m, k.q[i])) {
            k.kinds = 0;
            return k;
        }
        if (k.kinds != before) { /* fewer kinds reach fewer states */
            before = k.kinds;
            k.n = 1;
            i = HY_NONE;
        }
    }
    return k;
}

/* The kinds over which the automaton stays in state q. */
static uint32_t loop_kinds(const hy_term *m, uint32_t q)
{
    const hy_dfa *d = m->dfa;
    const uint32_t *next = d->next + (size_t)q * d->n_class;
    uint32_t kinds = ~(1u << HY_CAT_BROKEN);
    for (uint32_t c = 0; c < 128; c++)
        if (next[d->ascii[c]] != q || (m->json && (c < 0x20 || c == '"' || c == '\\')))
            kinds &= ~(1u << hy_cat_of((uint8_t)c));
    for (uint32_t i = hy_dfa_range(d, 128); i < d->n_range; i++)
        if (next[d->cls[i]] != q && d->from[i] != 0xD800) {
            kinds &= ~(1u << HY_CAT_WIDE);
            break;
        }
    return kinds;
}

/* Sets the tokens of `kinds` alone, of at most `most` characters. */
static void set_kinds(walker *w, uint32_t kinds, uint32_t most)
{
    const hy_gram_vocab *v = w->v;
    const uint32_t * not [HY_N_CAT + 1];
    uint32_t n = 0, block[1024];
    for (uint32_t c = 0; c < HY_N_CAT; c++)
        if (!(kinds >> c & 1)) not [n++] = v->with + (size_t)c * v->n_words;
    if (most < v->max_runes)
        not [n++] = v->longer + (size_t)HY_MIN(most, HY_LONG - 1u) * v->n_words;
    for (uint32_t at = 0; at < v->n_words; at += HY_COUNT(block)) {
        uint32_t k = HY_MIN(v->n_words - at, (uint32_t)HY_COUNT(block));
        memset(block, 0, k * sizeof *block);
        for (uint32_t j = 0; j < n; j++)
            for (uint32_t i = 0; i < k; i++) block[i] |= not [j][at + i];
        for (uint32_t i = 0; i < k; i++) w->bits[at + i] |= v->known[at + i] & ~block[i];
    }
    if (most >= v->max_runes) return;
    for (uint32_t i = 0; i < v->n_long && v->long_runes[i] <= most; i++)
        if (!(v->long_kinds[i] & ~kinds))
            w->bits[v->long_token[i] / 32] |= 1u << v->long_token[i] % 32;
}

static void bulk(walker *w, const hy_term *m, const hy_thread *t)
{
    uint32_t kinds, most = HY_NONE;
    if (m->counted) { /* in one state the room left tells exactly which lengths are allowed */
        kinds = loop_kinds(m, t->q);
        if (m->max != HY_NONE) most = m->max - t->count - m->dfa->len_min[t->q];
    } else {
        kinds = closed_kinds(m, t->q).kinds;
    }
    if (!(kinds & 1u) && !(kinds >> HY_CAT_WIDE & 1)) return; /* no letters: a walk is short */
    set_kinds(w, kinds, most);
    w->passed = kinds;
}

static void one_thread(walker *w, const hy_thread *t)
{
    const hy_node *x = &w->r->net->node[t->pc];
    uint32_t before = w->passed;
    if (x->kind == N_LIT) {
        walk_set(w, 0, t, 1);
        return;
    }
    const hy_term *m = &w->r->net->term[x->a];
    if (t->d == 0) bulk(w, m, t);
    walk_term(w, 0, *t);
    w->passed = before;
}

/* ---- masks kept ------------------------------------------------------------------------------ */

/* Counts far from their bounds are alike: no token reaches a bound from there. */
static hy_thread likeness(const hy_gram_run *r, hy_thread t)
{
    const hy_node *x = &r->net->node[t.pc];
    if (x->kind != N_TERM || !r->net->term[x->a].counted) return t;
    const hy_term *m = &r->net->term[x->a];
    uint32_t far = r->v->max_runes + 4;
    bool below_max = m->max == HY_NONE || m->max - t.count >= far + m->dfa->n_state;
    if (below_max && t.count >= m->min)
        t.count = HY_NONE;
    else if (below_max && m->min - t.count > far && m->dfa->n_state == 1)
        t.count = HY_NONE - 1;
    return t;
}

static hy_kept_mask *kept(hy_gram_run *r, const hy_thread *key, uint32_t n)
{
    for (uint32_t i = 0; i < HY_RUN_MASKS; i++) {
        hy_kept_mask *k = &r->mask[i];
        if (k->n == n && k->may_end == r->may_end && memcmp(k->key, key, n * sizeof *key) == 0)
            return k;
    }
    return NULL;
}

static void keep(hy_gram_run *r, const hy_thread *key, uint32_t n, const uint32_t *bits)
{
    hy_kept_mask *k = &r->mask[0];
    for (uint32_t i = 1; i < HY_RUN_MASKS; i++)
        if (r->mask[i].n == 0 || (k->n && r->mask[i].used < k->used)) k = &r->mask[i];
    k->n = n;
    k->may_end = r->may_end;
    k->used = ++r->clock;
    memcpy(k->key, key, n * sizeof *key);
    memcpy(k->bits, bits, r->v->n_words * sizeof *bits);
}

void hy_gram_mask(hy_gram_run *r, uint32_t *bits)
{
    const hy_gram_vocab *v = r->v;
    hy_thread key[HY_RUN_MASK_KEY];
    uint32_t n = r->cur.n;
    if (r->ended) {
        memset(bits, 0, v->n_words * sizeof *bits);
        return;
    }
    hy_run_tidy(r);
    bool keeps = n > 0 && n <= HY_RUN_MASK_KEY;
    for (uint32_t i = 0; keeps && i < n; i++) key[i] = likeness(r, r->cur.t[i]);
    hy_kept_mask *k = keeps ? kept(r, key, n) : NULL;
    if (k) {
        k->used = ++r->clock;
        memcpy(bits, k->bits, v->n_words * sizeof *bits);
        return;
    }
    memset(bits, 0, v->n_words * sizeof *bits);
    walker w = {.r = r, .v = v, .bits = bits};
    for (uint32_t i = 0; i < n; i++) one_thread(&w, &r->cur.t[i]);
    if (r->may_end)
        for (uint32_t i = 0; i < v->n_end; i++)
            if (v->end[i] >= 0 && (uint32_t)v->end[i] < v->n_vocab)
                bits[v->end[i] / 32] |= 1u << v->end[i] % 32;
    if (keeps) keep(r, key, n, bits);
}
