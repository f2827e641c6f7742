/* The shares of one step, and whom to pause. */
#include "sched/sched.h"
#include <math.h>

/* Found in virtual time (tests/unit/test_sched_pace.c): with 16 chats at once, beside steps of always twice the target, first
 * tokens come in half the time (p50) and times between tokens are half as long (p95). */
#define CHUNK_SHARE 6.0        /* a late step is so many times what it takes without its chunk */
#define OFF 3.0                /* the mean error of predictions that a step must stay clear of */

double hy_sched_rank(int32_t priority, double wait_ms, double left_ms, double slack_ms)
{
    double p = HY_MIN(HY_MAX(priority, -HY_SCHED_CLASS_MAX), HY_SCHED_CLASS_MAX);
    double rank = p * HY_SCHED_CLASS_MS + left_ms - wait_ms;
    return HY_MIN(rank, p * HY_SCHED_CLASS_MS + slack_ms);
}

/* Most tokens <= room of a chunk at pos0 whose step, with what it holds already, stays within limit_ms. */
static uint32_t within(const hy_sched_cost *c, const hy_sched_shape *sh, uint32_t n_tok, double keys,
                       uint32_t pos0, uint32_t room, double limit_ms)
{
    uint32_t lo = 0, hi = room;
    while (lo < hi) {
        uint32_t mid = hi - (hi - lo) / 2;
        if (hy_sched_cost_ms(c, n_tok + (double)mid, keys + hy_sched_keys(sh, pos0, mid)) <= limit_ms) lo = mid;
        else hi = mid - 1;
    }
    return lo;
}

static uint32_t first_chunk(const hy_sched_seq *seq, uint32_t n_seq)
{
    uint32_t best = n_seq;
    for (uint32_t i = 0; i < n_seq; i++)
        if (!seq[i].seen && (best == n_seq || seq[i].rank < seq[best].rank)) best = i;
    return best;
}

/* The time that this step may take. Where the first in line would miss its target, longer: until five sixths of the
 * step are the chunk's, for more would cost readers much and win little; never more than twice the readers' target,
 * less what predictions are off by. */
static double limit_of(const hy_sched_seq *q, const hy_sched_limits *l, const hy_sched_cost *c,
                       const hy_sched_shape *sh, uint32_t n_tok, double keys)
{
    if (q->decoding) return l->itl_ms; /* computed again after a pause: no first token waits */
    uint32_t want = q->n_known - q->n_done;
    uint32_t x = within(c, sh, n_tok, keys, q->n_done, HY_MIN(want, l->n_step - n_tok), l->itl_ms);
    x = HY_MAX(x, HY_KV_PAGE_TOK);
    double ms = ceil((double)want / x) * HY_MIN(l->itl_ms, hy_sched_cost_ms(c, n_tok + (double)x, keys));
    if (q->wait_ms + ms <= l->ttft_ms) return l->itl_ms;
    double beside = hy_sched_cost_ms(c, n_tok, keys), most = 2 * l->itl_ms / (1 + OFF * HY_MIN(c->error, 0.25));
    return HY_MAX(l->itl_ms, HY_MIN(CHUNK_SHARE * beside, most));
}

typedef struct share {
    uint32_t n_tok, n_out;     /* given; rows of logits left for each_out */
    double keys, limit_ms;
    bool first;                /* nobody has had a chunk yet */
} share;

static void give_chunk(hy_sched_seq *q, share *s, const hy_sched_limits *l, const hy_sched_cost *c,
                       const hy_sched_shape *sh)
{
    uint32_t want = q->n_known - q->n_done, room = HY_MIN(want, l->n_step - s->n_tok);
    if (q->each_out) room = HY_MIN(room, s->n_out);
    uint32_t x = within(c, sh, s->n_tok, s->keys, q->n_done, room, s->limit_ms);
    if (s->first) x = HY_MAX(x, HY_MIN(room, HY_KV_PAGE_TOK));
    uint32_t over = (q->n_done + x) % HY_KV_PAGE_TOK;
    if (x < room && x >= HY_KV_PAGE_TOK && over < x && !q->each_out) x -= over; /* end on a page */
    q->n_give = x;
    s->n_tok += x;
    s->keys += hy_sched_keys(sh, q->n_done, x);
    if (q->each_out) s->n_out -= x;
    if (x) s->first = false;
}

/* Whoever got its one token gets drafts behind it. */
static void give_drafts(hy_sched_seq *seq, uint32_t n_seq, share *s, const hy_sched_limits *l,
                        const hy_sched_shape *sh)
{
    uint32_t room = l->n_step - s->n_tok;
    if (first_chunk(seq, n_seq) < n_seq) room /= 2;
    for (uint32_t i = 0; i < n_seq; i++) {
        seq[i].n_draft = seq[i].n_give == 1 ? HY_MIN(seq[i].n_draft, room) : 0;
        room -= seq[i].n_draft;
        s->n_tok += seq[i].n_draft;
        s->keys += hy_sched_keys(sh, seq[i].n_done + 1, seq[i].n_draft);
    }
}

uint32_t hy_sched_fill(hy_sched_seq *seq, uint32_t n_seq, const hy_sched_limits *l, const hy_sched_cost *c,
                       const hy_sched_shape *sh)
{
    share s = { .n_out = l->n_out, .limit_ms = INFINITY, .first = true };
    bool decode = false;
    for (uint32_t i = 0; i < n_seq; i++) {
        uint32_t want = seq[i].n_known - seq[i].n_done;
        seq[i].n_give = 0;
        seq[i].seen = seq[i].blocked || want == 0;
        if (seq[i].seen || want > 1 || s.n_tok == l->n_step) continue;
        seq[i].n_give = 1;
        seq[i].seen = true;
        s.n_tok++;
        s.keys += hy_sched_keys(sh, seq[i].n_done, 1);
        decode |= seq[i].decoding;
    }
    give_drafts(seq, n_seq, &s, l, sh);
    uint32_t i = first_chunk(seq, n_seq);
    if (i < n_seq && decode && c->n) s.limit_ms = limit_of(&seq[i], l, c, sh, s.n_tok, s.keys);
    for (; i < n_seq && s.n_tok < l->n_step; i = first_chunk(seq, n_seq)) {
        give_chunk(&seq[i], &s, l, c, sh);
        seq[i].seen = true;
    }
    return s.n_tok;
}

uint32_t hy_sched_victim(const hy_sched_hold *h, uint32_t n, uint32_t keep)
{
    uint32_t best = n;
    double least = INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        if (i == keep || h[i].n_free == 0) continue;
        double lose = h[i].lose_ms / h[i].n_free;
        bool lower = best < n && h[i].priority > h[best].priority;
        bool higher = best < n && h[i].priority < h[best].priority;
        if (lower || (!higher && lose <= least)) {
            best = i;
            least = lose;
        }
    }
    return best;
}
