/* The lists, and a step from its shares to its end. */
#include "sched/sched.h"
#include <math.h>
#include <string.h>

hy_status hy_sched_open(hy_sched *s, const hy_sched_opts *o, hy_err *err)
{
    memset(s, 0, sizeof *s);
    s->o = *o;
    s->run = HY_NEW_ARRAY(hy_sched_req *, o->n_seq);
    s->seq = HY_NEW_ARRAY(hy_sched_seq, o->n_seq);
    s->hold = HY_NEW_ARRAY(hy_sched_hold, o->n_seq);
    if (!s->run || !s->seq || !s->hold) {
        hy_sched_close(s);
        return hy_fail_memory(err, "scheduler", (uint64_t)o->n_seq * sizeof(hy_sched_seq));
    }
    hy_sched_cost_init(&s->cost);
    hy_sched_shape_of(&s->shape, o->kv);
    return HY_OK;
}

void hy_sched_close(hy_sched *s)
{
    hy_free(s->run);
    hy_free(s->seq);
    hy_free(s->hold);
    memset(s, 0, sizeof *s);
}

/* ---- lists ------------------------------------------------------------------------------------ */

void hy_sched_add(hy_sched *s, hy_sched_req *r)
{
    r->state = HY_SQ_WAIT;
    r->next = NULL;
    if (s->wait_last) s->wait_last->next = r;
    else s->wait_first = r;
    s->wait_last = r;
    s->n_wait++;
}

void hy_sched_unlist(hy_sched *s, hy_sched_req *r)
{
    if (r->state == HY_SQ_WAIT) {
        hy_sched_req **at = &s->wait_first, *before = NULL;
        for (; *at != r; at = &before->next) before = *at;
        *at = r->next;
        if (s->wait_last == r) s->wait_last = before;
        s->n_wait--;
    } else if (r->state == HY_SQ_RUN) {
        uint32_t i = 0;
        while (i < s->n_run && s->run[i] != r) i++;
        if (i < s->n_run) {
            memmove(s->run + i, s->run + i + 1, (s->n_run - i - 1) * sizeof *s->run);
            s->n_run--;
        }
    }
    r->state = HY_SQ_NONE;
    r->next = NULL;
}

/* Its pages go: into the cache where that is wished, and out of the table. */
static void let_go(hy_sched *s, hy_sched_req *r)
{
    if (s->o.prefix_cache && r->put && r->n_done)
        hy_kv_cache_put(s->o.kv, &r->table, r->salt, r->ids, r->n_done);
    hy_kv_truncate(s->o.kv, &r->table, 0);
}

void hy_sched_remove(hy_sched *s, hy_sched_req *r, uint32_t n_out)
{
    let_go(s, r);
    if (r->ticket != HY_SCHED_NO_TICKET && s->o.swap) hy_kv_swap_drop(s->o.swap, r->ticket);
    r->ticket = HY_SCHED_NO_TICKET;
    hy_sched_unlist(s, r);
    r->lead = NULL;
    r->n_done = r->n_give = r->n_draft = r->n_hit = 0;
    hy_sched_unfollow(s, r);
    if (n_out != UINT32_MAX) s->out_mean = s->out_mean > 0 ? 0.9 * s->out_mean + 0.1 * n_out : HY_MAX(n_out, 1u);
}

void hy_sched_pause(hy_sched *s, uint32_t i, uint64_t now_us)
{
    hy_sched_req *r = s->run[i];
    if (s->o.prefix_cache && r->put && r->n_done)
        hy_kv_cache_put(s->o.kv, &r->table, r->salt, r->ids, r->n_done);
    uint32_t ticket;
    if (s->o.swap && r->n_done > HY_KV_PAGE_TOK &&
        hy_kv_swap_out(s->o.swap, s->o.kv, &r->table, r->n_done, &ticket, NULL) == HY_OK) {
        r->ticket = ticket;
        r->n_swapped = r->n_done;
    }
    hy_kv_truncate(s->o.kv, &r->table, 0);
    hy_sched_unlist(s, r);
    r->n_done = r->n_give = r->n_draft = r->n_hit = 0;
    r->lead = NULL;
    hy_sched_unfollow(s, r);
    r->n_paused++;
    r->us_paused_at = now_us;
    s->count.n_paused++;
    hy_sched_add(s, r);
    if (s->o.on_pause) s->o.on_pause(s->o.ctx, r, now_us);
}

/* ---- numbers ---------------------------------------------------------------------------------- */

static double left_ms(const hy_sched *s, const hy_sched_req *r)
{
    uint32_t n = r->n_known - r->n_done;
    return s->cost.w[1] * n + s->cost.w[2] * hy_sched_keys(&s->shape, r->n_done, n) / 1000;
}

double hy_sched_ms_since(uint64_t now_us, uint64_t then_us)
{
    return now_us > then_us ? (double)(now_us - then_us) / 1e3 : 0;
}

/* One that was paused comes before those of its class that never ran. */
double hy_sched_rank_of(const hy_sched *s, const hy_sched_req *r, uint64_t now_us)
{
    double left = left_ms(s, r), slack = HUGE_VAL;
    if (r->us_deadline) slack = hy_sched_ms_since(r->us_deadline, now_us) - hy_sched_ms_since(now_us, r->us_deadline) - left;
    double rank = hy_sched_rank(r->priority, hy_sched_ms_since(now_us, r->us_submit), left, slack);
    return r->state == HY_SQ_WAIT && r->started ? rank - HY_SCHED_CLASS_MS : rank;
}

uint32_t hy_sched_expect(const hy_sched *s, const hy_sched_req *r)
{
    uint32_t out = r->n_known - r->n_prompt, most = r->n_max - HY_MIN(out, r->n_max);
    double mean = s->out_mean > 0 ? s->out_mean : 128;
    double more = HY_MAX(mean - out, HY_KV_PAGE_TOK);
    return more < most ? (uint32_t)more : most;
}

void hy_sched_load_of(const hy_sched *s, hy_sched_load *out)
{
    memset(out, 0, sizeof *out);
    out->n_seq = s->o.n_seq;
    out->n_step = s->o.n_step;
    out->n_run = s->n_run;
    out->n_wait = s->n_wait;
    out->itl_ms = s->o.itl_ms;
    memcpy(out->w, s->cost.w, sizeof out->w);
    for (uint32_t i = 0; i < s->n_run; i++) {
        const hy_sched_req *r = s->run[i];
        uint32_t left = r->n_known - r->n_done;
        out->out_left += hy_sched_expect(s, r);
        if (left <= 1) {
            out->n_decode++;
            out->keys += hy_sched_keys(&s->shape, r->n_done, 1);
        } else if (!r->lead) {
            out->prompt_left += left;
        }
    }
    for (const hy_sched_req *r = s->wait_first; r; r = r->next) {
        out->prompt_left += r->n_known;
        out->out_wait += hy_sched_expect(s, r);
        out->tok_wait += r->n_known + hy_sched_expect(s, r);
    }
    uint32_t free = hy_kv_available(s->o.kv, 0), all = hy_kv_group_of(s->o.kv, 0)->n_page;
    out->tok_free = (double)free * HY_KV_PAGE_TOK;
    out->tok_run = (double)(all - free) * HY_KV_PAGE_TOK;
    out->out_mean = s->out_mean;
}

/* ---- a step ----------------------------------------------------------------------------------- */

static void shares(hy_sched *s, uint64_t now_us)
{
    const hy_sched_limits l = { s->o.n_step, s->o.n_out_spare, s->o.itl_ms, s->o.ttft_ms };
    for (uint32_t i = 0; i < s->n_run; i++) {
        const hy_sched_req *r = s->run[i];
        s->seq[i] = (hy_sched_seq){ .n_known = r->n_known, .n_done = r->n_done, .decoding = r->decoding,
                                    .blocked = r->lead != NULL, .each_out = r->each_out && !r->decoding,
                                    .rank = hy_sched_rank_of(s, r, now_us),
                                    .wait_ms = hy_sched_ms_since(now_us, r->us_submit), .n_draft = r->n_draft };
    }
    /* whoever is waited for is as urgent as those who wait */
    for (uint32_t i = 0; i < s->n_run; i++)
        for (const hy_sched_req *q = s->run[i]->lead; q; q = q->lead)
            for (uint32_t k = 0; k < s->n_run; k++)
                if (s->run[k] == q) s->seq[k].rank = HY_MIN(s->seq[k].rank, s->seq[i].rank);
    s->step_tok = hy_sched_fill(s->seq, s->n_run, &l, &s->cost, &s->shape);
}

/* The most urgent of those that got something: it is never paused, so that every step moves on. */
static uint32_t foremost(const hy_sched *s)
{
    uint32_t best = s->n_run;
    for (uint32_t i = 0; i < s->n_run; i++)
        if (s->seq[i].n_give && (best == s->n_run || s->run[i]->priority < s->run[best]->priority)) best = i;
    return best;
}

/* Pages that come back when r is paused, and the time it takes to compute their tokens again. */
hy_sched_hold hy_sched_hold_of(const hy_sched *s, const hy_sched_req *r)
{
    const hy_kv *kv = s->o.kv;
    hy_sched_hold h = { .priority = r->priority };
    uint32_t first_own = 0;
    for (uint32_t g = 0; g < hy_kv_n_group(kv); g++)
        for (uint32_t i = r->table.page_first[g]; i < r->table.n_page[g]; i++) {
            uint32_t page = r->table.page[g][i];
            if (page == HY_KV_NO_PAGE) continue;
            bool own = hy_kv_page_state(kv, g, page) == 1;
            h.n_free += own;
            if (g == 0 && !own) first_own = (i + 1) * HY_KV_PAGE_TOK;
        }
    uint32_t n = r->n_done > first_own ? r->n_done - first_own : 0;
    double ms = s->cost.w[1] * n + s->cost.w[2] * hy_sched_keys(&s->shape, first_own, n) / 1000;
    h.lose_ms = s->cost.n ? ms : n;
    return h;
}

static bool pause_somebody(hy_sched *s, uint32_t keep, uint64_t now_us)
{
    for (uint32_t i = 0; i < s->n_run; i++) s->hold[i] = hy_sched_hold_of(s, s->run[i]);
    uint32_t victim = hy_sched_victim(s->hold, s->n_run, keep);
    for (uint32_t i = 0; victim == s->n_run && i < s->n_run; i++)
        if (i != keep && s->run[s->n_run - 1 - i]->table.n_tok && s->n_run - 1 - i != keep)
            victim = s->n_run - 1 - i; /* holds only pages of others: they come free when all of these go */
    if (victim == s->n_run) return false;
    hy_sched_pause(s, victim, now_us);
    return true;
}

/* A chunk as long as the pages that are there; 0: not this time. */
static uint32_t shorter(hy_sched *s, hy_sched_req *r, uint32_t give)
{
    uint32_t pages = UINT32_MAX;
    for (uint32_t g = 0; g < hy_kv_n_group(s->o.kv); g++) pages = HY_MIN(pages, hy_kv_available(s->o.kv, g));
    uint64_t room = ((uint64_t)(r->n_done + HY_KV_PAGE_TOK - 1) / HY_KV_PAGE_TOK + pages) * HY_KV_PAGE_TOK;
    uint32_t n = room > r->n_done ? (uint32_t)HY_MIN(give, room - r->n_done) : 0;
    return n && hy_kv_reserve(s->o.kv, &r->table, r->n_done + n, NULL) == HY_OK ? n : 0;
}

/* Pages for every share; false in *again: somebody was paused, the shares are to be made anew. */
static hy_status reserve(hy_sched *s, uint64_t now_us, bool *again, hy_err *err)
{
    uint32_t keep = foremost(s);
    *again = false;
    for (uint32_t i = 0; i < s->n_run; i++) {
        hy_sched_req *r = s->run[i];
        uint32_t give = s->seq[i].n_give;
        if (give == 0) continue;
        uint32_t draft = s->seq[i].n_draft;
        if (draft && hy_kv_reserve(s->o.kv, &r->table, r->n_done + give + draft, NULL) == HY_OK) continue;
        s->step_tok -= draft; /* nobody is paused for drafts */
        s->seq[i].n_draft = 0;
        hy_status st = hy_kv_reserve(s->o.kv, &r->table, r->n_done + give, err);
        if (st == HY_OK) continue;
        if (st != HY_E_LIMIT) return st;
        if (i != keep && give > 1) {
            s->seq[i].n_give = shorter(s, r, give);
            s->step_tok -= give - s->seq[i].n_give;
            continue;
        }
        if (!pause_somebody(s, keep, now_us)) return st;
        *again = true;
        return HY_OK;
    }
    return HY_OK;
}

hy_status hy_sched_step(hy_sched *s, uint64_t now_us, uint32_t *n_tok, hy_err *err)
{
    *n_tok = 0;
    for (uint32_t i = 0; i < s->n_run; i++) hy_sched_follow(s, s->run[i]);
    for (bool again = true; again;) {
        shares(s, now_us);
        HY_TRY(reserve(s, now_us, &again, err));
    }
    s->step_keys = 0;
    for (uint32_t i = 0; i < s->n_run; i++) {
        s->run[i]->n_give = s->seq[i].n_give;
        s->run[i]->n_draft = s->seq[i].n_draft;
        s->step_keys += hy_sched_keys(&s->shape, s->run[i]->n_done, s->seq[i].n_give + s->seq[i].n_draft);
    }
    *n_tok = s->step_tok;
    return HY_OK;
}

void hy_sched_done(hy_sched *s)
{
    hy_kv *kv = s->o.kv;
    for (uint32_t i = 0; i < s->n_run; i++) {
        hy_sched_req *r = s->run[i];
        if (r->n_give == 0) continue;
        uint32_t before = r->n_done;
        r->n_done += r->n_give;
        if (before < r->n_prompt) r->n_chunk++;
        if (s->o.prefix_cache && r->put && before / HY_KV_PAGE_TOK != r->n_done / HY_KV_PAGE_TOK)
            hy_kv_cache_put(kv, &r->table, r->salt, r->ids, r->n_done);
        if (s->o.mode == HY_SCHED_PAGED) hy_kv_slide(kv, &r->table, r->n_done);
        if (s->o.mode == HY_SCHED_RECOMPUTE && r->n_done == r->n_known) {
            hy_kv_truncate(kv, &r->table, 0);
            r->n_done = 0;
        }
    }
}

void hy_sched_accept(hy_sched *s, hy_sched_req *r, uint32_t n)
{
    uint32_t before = r->n_done;
    r->n_done += n;
    r->n_draft = 0;
    if (s->o.mode == HY_SCHED_PAGED) hy_kv_truncate(s->o.kv, &r->table, r->n_done);
    if (n && s->o.prefix_cache && r->put && before / HY_KV_PAGE_TOK != r->n_done / HY_KV_PAGE_TOK)
        hy_kv_cache_put(s->o.kv, &r->table, r->salt, r->ids, r->n_done);
    if (s->o.mode == HY_SCHED_PAGED) hy_kv_slide(s->o.kv, &r->table, r->n_done);
}

void hy_sched_took(hy_sched *s, double ms)
{
    hy_sched_cost_add(&s->cost, s->step_tok, s->step_keys, ms);
}
