/* The model that drafts: for all requests together, token by token.
 *
 *   level 0   each request's tokens that the draft model has not seen, up to its last one
 *   level k   the token drafted at level k - 1
 *
 * It draws as the target will: the same chain, mask and noise, over its own logits. A request leaves the levels when
 * it has its tokens, when the chance that all of them are accepted has become too small, or at an end. While it is
 * sure it may draft more than its share. */
#include "draft.h"
#include "engine.h"
#include <math.h>
#include <string.h>

#define CHUNK 128u             /* of a prompt, that a draft model takes beside a step */

/* Pages for n drafted tokens of r. A draft model's tables hold the drafted tokens but the last; a self-draft writes
 * where the step will. */
static bool has_room(hy_engine *e, hy_request *r, uint32_t n)
{
    hy_draft_seq *s = &r->draft;
    uint32_t n_tok = s->known + n - 1;
    if (s->now == HY_BY_SELF) return hy_kv_reserve(e->core->kv, &r->q.table, n_tok, NULL) == HY_OK;
    return hy_kv_reserve(e->drafts->kv, &s->table, n_tok, NULL) == HY_OK;
}

static void add_row(hy_drafts *d, hy_batch *b, hy_request *r, uint32_t pos0, uint32_t n, bool out)
{
    hy_draft_seq *s = &r->draft;
    d->row[b->n_row] = (hy_row){ .table = s->now == HY_BY_SELF ? &r->q.table : &s->table, .tok_first = b->n_tok,
                                 .n_tok = n, .pos0 = pos0, .n_total = r->n_prompt };
    d->row_req[b->n_row++] = r;
    for (uint32_t i = 0; i < n; i++) {
        d->token[b->n_tok] = r->ids[pos0 + i];
        d->pos[b->n_tok++] = (int32_t)(pos0 + i);
    }
    if (!out) return;
    if (d->kept) d->kept[b->n_out].temperature = hy_sample_sums(&r->sampling, false);
    d->out_tok[b->n_out++] = b->n_tok - 1;
}

/* Level 0. Whoever is too far behind catches up by a chunk, and drafts in a later step. */
static uint32_t first_rows(hy_drafts *d, hy_batch *b, uint32_t n_active)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_active; i++) {
        hy_request *r = d->active[i];
        hy_draft_seq *s = &r->draft;
        uint32_t pos0 = s->now == HY_BY_SELF ? s->known - 1 : s->n_done, want = s->known - pos0;
        uint32_t give = HY_MIN(HY_MIN(want, CHUNK), d->n_step - b->n_tok - (n_active - 1 - i));
        bool there = give == want;
        add_row(d, b, r, pos0, give, there);
        if (s->now == HY_BY_DRAFT) s->n_done += give;
        if (there) d->active[n++] = r;
        else s->n = 0;
    }
    return n;
}

static void next_rows(hy_drafts *d, hy_batch *b, uint32_t n_active, uint32_t level)
{
    for (uint32_t i = 0; i < n_active; i++) {
        hy_draft_seq *s = &d->active[i]->draft;
        add_row(d, b, d->active[i], s->known + level - 1, 1, true);
        if (s->now == HY_BY_DRAFT) s->n_done++;
    }
}

/* Logits of row i over the target's vocabulary. What only the draft model knows is nobody's token; what only the
 * target knows is never drafted. */
static float *logits_of(hy_engine *e, uint32_t i)
{
    hy_drafts *d = e->drafts;
    float *row = d->logits + (size_t)i * d->n_vocab;
    uint32_t n = e->core->model->hp.n_vocab;
    if (n == d->n_vocab) return row;
    memcpy(d->whole, row, HY_MIN(n, d->n_vocab) * sizeof *row);
    for (uint32_t k = d->n_vocab; k < n; k++) d->whole[k] = -INFINITY;
    return d->whole;
}

/* The mask of output i_out, as the target's draw will have it. False: nothing may follow. */
static bool mask_of(hy_engine *e, hy_request *r, uint32_t i_out)
{
    bool early = i_out < r->n_min;
    r->sampling.mask = early ? e->not_end : NULL;
    if (!r->guide) return true;
    if (hy_gram_done(r->guide)) return false;
    hy_gram_mask(r->guide, e->mask);
    r->sampling.mask = e->mask;
    for (size_t k = 0; k < HY_GRAM_WORDS(e->core->model->hp.n_vocab); k++)
        if (e->mask[k] & (early ? e->not_end[k] : UINT32_MAX)) return true;
    return false;
}

/* What a token behind those of this level costs, in tokens at the speed that is expected: below this chance it is not
 * worth drafting. */
static double least_chance(const hy_drafts *d, uint32_t n_active)
{
    uint32_t n = d->n_row + n_active;
    double rows = hy_spec_cost_ms(&d->target, n + n_active) - hy_spec_cost_ms(&d->target, n);
    return (rows + hy_spec_cost_ms(&d->cost, n_active)) / n_active * HY_GET(d->gain) / d->token_ms;
}

/* Draws r's token number `level` from row i. True: it goes on. */
static bool draw(hy_engine *e, hy_request *r, uint32_t i, uint32_t level, double least)
{
    hy_drafts *d = e->drafts;
    hy_draft_seq *s = &r->draft;
    uint32_t at = s->known + level, n_vocab = e->core->model->hp.n_vocab;
    if (!mask_of(e, r, at - r->n_prompt)) return false;
    float *logits = logits_of(e, i), own;
    const hy_logit_row *kept = d->kept ? &d->kept[i] : NULL;
    int32_t id = hy_sample(e->sampler, &r->sampling, logits, kept, n_vocab, r->ids, at, at, -1, &own, NULL);
    if (!(logits[id] > -INFINITY) || hy_draft_is_end(e, r, id)) return false;
    if (r->guide && !hy_gram_accept(r->guide, id)) return false;
    r->ids[at] = id;
    s->band[level] = (uint8_t)hy_spec_band_of_lead(hy_sample_lead(e->sampler, id));
    s->reach *= hy_spec_worth_of(&s->model, &d->model, s->band[level]);
    r->q.n_draft = level + 1;
    d->n_row++;
    return level + 1 < s->n && (s->trial || d->always || s->reach * hy_spec_worth_mean(&s->model, &d->model) > least);
}

static bool run(hy_engine *e, hy_batch *b, bool timed, double *took)
{
    hy_drafts *d = e->drafts;
    hy_err err;
    b->token = d->token;
    b->pos = d->pos;
    b->row = d->row;
    b->out_tok = d->out_tok;
    b->kept = d->kept;
    uint64_t us = hy_now_us();
    if (hy_plan_run(d->plan, e->core->team, d->kv, b, d->logits, &err) != HY_OK) {
        hy_log(HY_LOG_ERROR, "draft: step failed", "error=\"%s\"", err.msg);
        return false;
    }
    double ms = (double)(hy_now_us() - us) / 1e3;
    if (timed) {
        hy_spec_cost_add(&d->cost, b->n_tok, ms);
        *took += ms;
        return true;
    }
    d->read_ms += 0.2 * (ms / b->n_tok - d->read_ms);
    hy_spec_pace_paid(&d->pace, 0, 0, ms / d->token_ms); /* parts of prompts: no price of this step, but all owe it */
    return true;
}

static uint32_t begin(hy_engine *e, uint32_t n_active)
{
    hy_drafts *d = e->drafts;
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_active; i++) {
        hy_request *r = d->active[i];
        hy_draft_seq *s = &r->draft;
        s->reach = 1;
        bool room = has_room(e, r, s->n);
        if (!room) room = has_room(e, r, s->n = s->n_share);
        if (!room) {
            s->n = 0;
            continue;
        }
        if (r->guide) s->mark = hy_gram_mark(r->guide);
        d->active[n++] = r;
    }
    return n;
}

void hy_draft_run(hy_engine *e, uint32_t n_active)
{
    hy_drafts *d = e->drafts;
    double ms = 0;
    uint32_t n_all = n_active = begin(e, n_active);
    for (uint32_t level = 0; n_active; level++) {
        hy_batch b = { 0 };
        double least = least_chance(d, n_active);
        if (level == 0) n_active = first_rows(d, &b, n_active);
        else next_rows(d, &b, n_active, level);
        bool good = run(e, &b, b.n_tok <= 2 * n_active, &ms); /* two: the last drafted one, and what came behind it */
        uint32_t n = 0;
        for (uint32_t i = 0; i < n_active; i++) {
            hy_request *r = d->active[i];
            if (!good) hy_kv_truncate(d->kv, &r->draft.table, r->draft.n_done = 0);
            if (good && draw(e, r, i, level, least)) d->active[n++] = r;
            else if (r->guide) (void)hy_gram_rollback(r->guide, r->draft.mark);
        }
        n_active = n;
    }
    d->draft_ms = n_all ? ms / n_all : 0;
    d->ms_now = ms;
}
