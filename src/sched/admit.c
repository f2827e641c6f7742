/* Admission, and who waits for whose pages.
 *
 * A request whose beginning is just being computed by another one does not compute it too: it follows that
 * one (its lead), holds its slot, gets no tokens, and takes the pages once they are there. Its lead is as
 * urgent as the most urgent follower, so following is never later than computing. */
#include "sched/sched.h"
#include <math.h>
#include <string.h>

/* Pages that a sequence of n_tok tokens holds at most: windows give theirs back as they slide. */
uint32_t hy_sched_pages(const hy_kv *kv, uint32_t group, uint32_t n_tok, uint32_t n_step)
{
    uint32_t window = hy_kv_group_of(kv, group)->window, n = hy_kv_need(kv, group, n_tok);
    return window ? HY_MIN(n, (window + n_step) / HY_KV_PAGE_TOK + 2) : n;
}

/* ---- following -------------------------------------------------------------------------------- */

/* Whole pages with which both begin, of which the last token is not r's last. */
static uint32_t common(const hy_sched_req *r, const hy_sched_req *q)
{
    uint32_t most = HY_MIN(r->n_known - 1, q->n_known), n = 0;
    if (most < HY_KV_PAGE_TOK || memcmp(r->ids, q->ids, HY_KV_PAGE_TOK * sizeof *r->ids) != 0) return 0;
    while (n < most && r->ids[n] == q->ids[n]) n++;
    return n - n % HY_KV_PAGE_TOK;
}

static bool depends_on(const hy_sched_req *q, const hy_sched_req *r)
{
    for (; q; q = q->lead)
        if (q == r) return true;
    return false;
}

static void find_lead(hy_sched *s, hy_sched_req *r)
{
    r->lead = NULL;
    if (s->o.mode != HY_SCHED_PAGED) return;
    for (uint32_t i = 0; i < s->n_run; i++) {
        hy_sched_req *q = s->run[i];
        if (q == r || depends_on(q, r)) continue;
        bool fork = r->group && q->group == r->group && r->n_known == r->n_prompt && q->n_done < q->n_prompt;
        uint32_t n = fork ? r->n_prompt
                   : s->o.prefix_cache && r->take && q->put && q->salt == r->salt ? common(r, q) : 0;
        if (n <= r->n_done || q->n_done >= n || (r->lead && n <= r->lead_tok)) continue;
        r->lead = q;
        r->lead_tok = n;
        r->lead_fork = fork;
    }
}

/* The cached pages of its beginning. */
static void take_pages(hy_sched *s, hy_sched_req *r)
{
    hy_kv_truncate(s->o.kv, &r->table, 0);
    r->n_done = r->n_hit = 0;
    if (s->o.prefix_cache && r->take)
        r->n_done = r->n_hit = hy_kv_cache_take(s->o.kv, &r->table, r->salt, r->ids, r->n_known);
}

static void note_hit(hy_sched *s, hy_sched_req *r, uint32_t before)
{
    if (r->n_hit <= before || r->n_known != r->n_prompt) return;
    s->count.hit_tok += r->n_hit - before;
    if (!r->n_paused) r->n_cached = r->n_hit;
}

/* At the beginning of a step: has the lead got there, or gone? */
void hy_sched_follow(hy_sched *s, hy_sched_req *r)
{
    if (!r->lead && !r->lead_lost) return;
    if (r->lead && !r->lead_fork && r->lead->n_done < r->lead_tok) return;
    if (r->lead && r->lead_fork && r->lead->n_done < r->n_prompt) return;
    uint32_t before = r->n_hit;
    r->lead = NULL;
    r->lead_lost = false;
    take_pages(s, r);
    note_hit(s, r, before);
    find_lead(s, r);
}

void hy_sched_unfollow(hy_sched *s, const hy_sched_req *lead)
{
    for (uint32_t i = 0; i < s->n_run; i++)
        if (s->run[i]->lead == lead) {
            s->run[i]->lead = NULL;
            s->run[i]->lead_lost = true;
        }
}

hy_status hy_sched_fork(hy_sched *s, hy_sched_req *r, hy_err *err)
{
    hy_kv_truncate(s->o.kv, &r->table, 0);
    uint32_t before = r->n_hit;
    r->n_done = r->n_hit = 0;
    HY_TRY(hy_kv_fork(s->o.kv, &r->table, &r->lead->table, r->n_prompt, err));
    s->count.n_fork++;
    if (r->take) s->count.hit_tok += r->n_prompt - before;
    r->n_cached = r->lead->n_cached;
    r->n_done = r->n_prompt;
    r->lead = NULL;
    return HY_OK;
}

/* ---- admission -------------------------------------------------------------------------------- */

/* Pages that r will take from the pool until its expected end. */
static uint32_t to_come(const hy_sched *s, const hy_sched_req *r, uint32_t g)
{
    uint32_t all = hy_sched_pages(s->o.kv, g, r->n_known + hy_sched_expect(s, r), s->o.n_step);
    uint32_t have = r->table.n_page[g] - r->table.page_first[g];
    if (r->lead && r->lead_tok > r->n_done) have += (r->lead_tok - r->n_done) / HY_KV_PAGE_TOK;
    return all > have ? all - have : 0;
}

/* The whole of r beside the expected growth of those that run. */
static bool fits(const hy_sched *s, const hy_sched_req *r)
{
    for (uint32_t g = 0; g < hy_kv_n_group(s->o.kv); g++) {
        uint64_t need = to_come(s, r, g);
        for (uint32_t i = 0; i < s->n_run; i++) need += to_come(s, s->run[i], g);
        if (need > hy_kv_available(s->o.kv, g)) return false;
    }
    return true;
}

/* Back from the swap file. False: there is no room now. */
static bool swap_in(hy_sched *s, hy_sched_req *r)
{
    if (r->n_hit + HY_KV_PAGE_TOK >= r->n_swapped) { /* the cache still had all of it */
        hy_kv_swap_drop(s->o.swap, r->ticket);
        r->ticket = HY_SCHED_NO_TICKET;
        return true;
    }
    hy_kv_truncate(s->o.kv, &r->table, 0);
    r->n_done = r->n_hit = 0;
    hy_status st = hy_kv_swap_in(s->o.swap, s->o.kv, &r->table, r->ticket, NULL);
    if (st == HY_E_LIMIT) return false;
    r->ticket = HY_SCHED_NO_TICKET;
    if (st == HY_OK) {
        r->n_done = r->n_hit = r->n_swapped;
    } else { /* the file failed us: compute again */
        s->count.n_swap_failed++;
        take_pages(s, r);
    }
    return true;
}

static bool try_pages(hy_sched *s, hy_sched_req *r)
{
    if (s->o.mode == HY_SCHED_CONTIGUOUS) /* what an engine without pages does: the longest that may come */
        return hy_kv_reserve(s->o.kv, &r->table, s->o.n_ctx, NULL) == HY_OK;
    take_pages(s, r);
    find_lead(s, r);
    /* nobody runs: whatever was let in at the door fits alone */
    bool ok = s->n_run == 0 || fits(s, r);
    if (ok && r->ticket != HY_SCHED_NO_TICKET) {
        ok = swap_in(s, r);
        r->lead = NULL; /* what the file gave is more than a lead could */
    }
    if (ok) return true;
    hy_kv_truncate(s->o.kv, &r->table, 0);
    r->n_done = r->n_hit = 0;
    r->lead = NULL;
    return false;
}

static bool start(hy_sched *s, hy_sched_req *r, uint64_t now_us)
{
    if (!try_pages(s, r)) return false;
    hy_sched_unlist(s, r);
    r->state = HY_SQ_RUN;
    r->lead_lost = false;
    if (!r->started) {
        r->started = true;
        r->us_start = now_us;
        if (r->take && s->o.prefix_cache) s->count.query_tok += r->n_prompt;
        note_hit(s, r, 0);
    } else if (r->us_paused_at) {
        s->count.n_resumed++;
        r->us_paused += now_us - r->us_paused_at;
        r->us_paused_at = 0;
    }
    s->run[s->n_run++] = r;
    if (s->o.on_start) s->o.on_start(s->o.ctx, r, now_us);
    return true;
}

/* ---- urgent ones ------------------------------------------------------------------------------ */

/* Class and age as one number. Running is not waiting: only time in the queue and in pauses ages, so that whoever
 * is paused again and again becomes as urgent as those it is paused for. */
static double urgency(const hy_sched_req *r, uint64_t now_us)
{
    uint64_t since = r->started ? r->us_start : now_us;
    double waited = hy_sched_ms_since(since, r->us_submit) + (double)r->us_paused / 1e3;
    if (r->us_paused_at) waited += hy_sched_ms_since(now_us, r->us_paused_at);
    return HY_MIN(HY_MAX(r->priority, -HY_SCHED_CLASS_MAX), HY_SCHED_CLASS_MAX) * HY_SCHED_CLASS_MS - waited;
}

static bool gives_way(const hy_sched_req *q, const hy_sched_req *r, uint64_t now_us)
{
    return q->priority > r->priority && urgency(q, now_us) > urgency(r, now_us) + HY_SCHED_CLASS_MS / 2;
}

/* Would r fit if all that give way to it were paused? hold[i].n_free is left 0 for the others. */
static bool way_can_be_made(hy_sched *s, const hy_sched_req *r, uint64_t now_us)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_run; i++) {
        bool way = gives_way(s->run[i], r, now_us);
        s->hold[i] = way ? hy_sched_hold_of(s, s->run[i]) : (hy_sched_hold){ 0 };
        s->hold[i].n_free += way; /* its slot counts, whatever pages it holds */
        n += way;
    }
    for (uint32_t g = 0; n && n < s->n_run && g < hy_kv_n_group(s->o.kv); g++) {
        uint64_t need = to_come(s, r, g), have = hy_kv_available(s->o.kv, g);
        for (uint32_t i = 0; i < s->n_run; i++) {
            const hy_page_table *t = &s->run[i]->table;
            if (!s->hold[i].n_free) need += to_come(s, s->run[i], g);
            for (uint32_t k = t->page_first[g]; s->hold[i].n_free && k < t->n_page[g]; k++)
                have += t->page[g][k] != HY_KV_NO_PAGE && hy_kv_page_state(s->o.kv, g, t->page[g][k]) == 1;
        }
        if (need > have) return false;
    }
    return n > 0; /* all of them: then it runs alone, and fits */
}

static bool make_way(hy_sched *s, const hy_sched_req *r, uint64_t now_us)
{
    if (s->o.mode != HY_SCHED_PAGED || !way_can_be_made(s, r, now_us)) return false;
    uint32_t victim = hy_sched_victim(s->hold, s->n_run, s->n_run);
    if (victim == s->n_run) return false;
    hy_sched_pause(s, victim, now_us);
    return true;
}

/* In order of rank; whoever is first and does not fit is waited for, so that nobody is passed by for ever. */
void hy_sched_admit(hy_sched *s, uint64_t now_us)
{
    while (s->wait_first) {
        hy_sched_req *best = NULL;
        double least = INFINITY;
        for (hy_sched_req *r = s->wait_first; r; r = r->next) {
            double rank = hy_sched_rank_of(s, r, now_us);
            if (best && rank >= least) continue;
            best = r;
            least = rank;
        }
        while (s->n_run == s->o.n_seq || !start(s, best, now_us)) /* each way made is a less urgent one less */
            if (!make_way(s, best, now_us)) return;
    }
}
