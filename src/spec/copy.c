/* Copying with changes: where the source stands, where the copy goes on after a difference, and what was changed. */
#include "spec/spec.h"
#include <string.h>

#define BACK 4                 /* tokens before the place of a difference, and after it, where the copy may go on */
#define AHEAD 64
#define SURE 3                 /* agreeing tokens that end a difference */
#define NEAR 8                 /* agreeing tokens that are counted */
#define GIVE_UP 40             /* tokens of a difference */
#define WORTH_IT 4             /* agreeing tokens that make it worth looking where a copy goes on */
#define CHANGE 12              /* tokens of a change that may be made again */
#define BEFORE 2               /* agreeing tokens before what is only put in */

/* A text that goes on in an array of its own. */
typedef struct text {
    const int32_t *ids, *more;
    uint32_t n, n_more;
} text;

static bool same(const int32_t *ids, uint32_t a, uint32_t b, uint32_t n)
{
    return memcmp(ids + a, ids + b, n * sizeof *ids) == 0;
}

/* ---- changes ------------------------------------------------------------------------------------- */

/* Changes are numbered from 1 as they are found. */
static uint32_t slot(uint32_t number)
{
    return (number - 1) % HY_COPY_CHANGES;
}

/* The newest change that is made to what stands at `at`; 0: none. */
static uint32_t change_at(const hy_copy *c, const int32_t *ids, uint32_t n, uint32_t at, bool made)
{
    uint32_t oldest = c->n_change > HY_COPY_CHANGES ? c->n_change - HY_COPY_CHANGES : 0;
    for (uint32_t i = c->n_change; i > oldest; i--) {
        const hy_copy_change *g = &c->list[slot(i)];
        if (g->miss > g->hit || at + g->n_src > n || !same(ids, at, g->src, g->n_src)) continue;
        if (g->n_src == 0 && (made || at < BEFORE || !same(ids, at - BEFORE, g->src - BEFORE, BEFORE))) continue;
        return i;
    }
    return 0;
}

/* Kept to be made again, unless it is long. */
static void note_change(hy_copy *c, const int32_t *ids, hy_copy_change g)
{
    if (g.n_src > CHANGE || g.n_out > CHANGE || g.n_src + g.n_out == 0 || (g.n_src == 0 && g.src < BEFORE)) return;
    uint32_t oldest = c->n_change > HY_COPY_CHANGES ? c->n_change - HY_COPY_CHANGES : 0;
    for (uint32_t i = c->n_change; i > oldest; i--) {
        hy_copy_change *old = &c->list[slot(i)];
        if (old->n_src != g.n_src || old->n_out != g.n_out || !same(ids, old->src, g.src, g.n_src) ||
            !same(ids, old->out, g.out, g.n_out)) continue;
        old->hit++; /* made again after all */
        return;
    }
    c->list[slot(++c->n_change)] = g;
}

/* ---- one token ------------------------------------------------------------------------------------ */

/* What the copy says next at p: into *id, and p moves behind it. *began: the change that it is the first token of
 * (or that left something out before it), so that the source's own token can be tried instead. False: the source
 * ends. */
static bool next(const hy_copy *c, const text *t, hy_copy_place *p, int32_t *id, uint32_t *began)
{
    *began = 0;
    if (p->change == 0) {
        uint32_t i = change_at(c, t->ids, t->n, p->at, p->made);
        *began = i;
        if (i && c->list[slot(i)].n_out) {
            p->change = i;
            p->off = 0;
        } else if (i) {
            p->at += c->list[slot(i)].n_src;
        }
    }
    if (p->change) {
        const hy_copy_change *g = &c->list[slot(p->change)];
        *id = t->ids[g->out + p->off++];
        if (p->off < g->n_out) return true;
        p->at += g->n_src;
        p->made = g->n_src == 0;
        p->change = 0;
        return true;
    }
    if (p->at >= t->n + t->n_more) return false;
    *id = p->at < t->n ? t->ids[p->at] : t->more[p->at - t->n];
    p->at++;
    p->made = false;
    return true;
}

static void give_up(hy_copy *c)
{
    c->place = (hy_copy_place){ .at = 0 };
    c->score = c->left = c->n_near = 0;
}

/* The copy goes on at `at` again; what was between is a change. */
static void go_on(hy_copy *c, const int32_t *ids, uint32_t n, uint32_t at)
{
    uint32_t from = at - c->n_near, to = n - c->n_near, left = c->left, left_at = c->left_at;
    if (from < left_at) { /* what was put in ends as the source before it does */
        left -= left_at - from;
        left_at = from;
    }
    if (from - left_at <= CHANGE && to - left <= CHANGE)
        note_change(c, ids, (hy_copy_change){ .src = left_at, .out = left, .n_src = (uint16_t)(from - left_at),
                                              .n_out = (uint16_t)(to - left) });
    c->place = (hy_copy_place){ .at = at };
    c->score = HY_MIN(c->score + c->n_near, HY_COPY_SCORE);
    c->left = c->n_near = 0;
}

/* May n_near agreeing tokens bring the copy to a place so many tokens away? */
static bool near_enough(uint32_t n_near, uint32_t away)
{
    return n_near >= SURE || away <= (n_near == 1 ? 8u : 24u);
}

/* Where it may go on: the place that most of the last tokens agree with, of equals the nearest. */
static void find(hy_copy *c, const int32_t *ids, uint32_t n)
{
    uint32_t since = n - c->left, most = HY_MIN(since, NEAR), best = 0, best_away = 0;
    uint32_t first = c->left_at > BACK ? c->left_at - BACK : 1, last = HY_MIN(c->left_at + AHEAD, n - 1);
    c->place = (hy_copy_place){ .at = HY_MIN(c->left_at + 1, n - 1) }; /* one token was replaced */
    for (uint32_t at = first; at <= last; at++) {
        uint32_t k = 0;
        while (k < most && k < at && ids[at - 1 - k] == ids[n - 1 - k]) k++;
        uint32_t from = at - k, away = from > c->left_at ? from - c->left_at : c->left_at - from;
        if (k == 0 || k < best || (k == best && away >= best_away) || !near_enough(k, away)) continue;
        best = k;
        best_away = away;
        c->place.at = at;
    }
    c->n_near = best;
    if (best >= SURE) go_on(c, ids, n, c->place.at);
}

void hy_copy_begin(hy_copy *c, uint32_t at, uint32_t n_match)
{
    c->place = (hy_copy_place){ .at = at };
    c->score = HY_MIN(n_match, HY_COPY_SCORE);
    c->left = c->n_near = 0;
}

/* True: the token is what the copy says, with its changes or without them. */
static bool follows(hy_copy *c, const int32_t *ids, uint32_t n)
{
    const text t = { .ids = ids, .n = n - 1 };
    hy_copy_place p = c->place;
    uint32_t began;
    int32_t id;
    if (next(c, &t, &p, &id, &began) && id == ids[n - 1]) {
        if (began) c->list[slot(began)].hit++;
    } else if (began && ids[c->place.at] == ids[n - 1]) {
        c->list[slot(began)].miss++;
        p = (hy_copy_place){ .at = c->place.at + 1 };
    } else {
        return false;
    }
    c->place = p;
    c->score = HY_MIN(c->score + 1, HY_COPY_SCORE);
    return true;
}

void hy_copy_token(hy_copy *c, const int32_t *ids, uint32_t n)
{
    if (c->place.at == 0) return;
    if (!c->left) {
        if (follows(c, ids, n)) return;
        if (c->score < WORTH_IT) {
            give_up(c);
            return;
        }
        c->left = n - 1 - (c->place.change ? c->place.off : 0);
        c->left_at = c->place.at;
    }
    if (!c->n_near) c->score -= (c->score + 3) / 4;
    if (n - c->left > GIVE_UP || c->score == 0) give_up(c);
    else find(c, ids, n);
}

uint32_t hy_copy_propose(const hy_copy *c, const int32_t *ids, uint32_t n, uint32_t most, int32_t *out)
{
    text t = { .ids = ids, .more = out, .n = n };
    hy_copy_place p = c->place;
    uint32_t began;
    if (p.at == 0) return 0;
    while (t.n_more < most && next(c, &t, &p, &out[t.n_more], &began)) t.n_more++;
    return t.n_more;
}

uint32_t hy_copy_trust(const hy_copy *c)
{
    if (c->place.at == 0) return 0;
    return c->left ? 2 * c->n_near + c->score / 8 : c->score;
}
