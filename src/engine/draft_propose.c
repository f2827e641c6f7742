/* Which requests draft, who drafts for them and how many tokens; and what became of the tokens. */
#include "draft.h"
#include "engine.h"
#include <string.h>

/* ---- a request ------------------------------------------------------------------------------------ */

static hy_status proposers(const hy_drafts *d, int32_t speculate, uint32_t *by, hy_err *err)
{
    static const uint32_t bits[] = { [HY_SPECULATE_OFF] = 0, [HY_SPECULATE_NGRAM] = HY_BY_NGRAM,
                                     [HY_SPECULATE_DRAFT] = HY_BY_DRAFT, [HY_SPECULATE_SELF] = HY_BY_SELF,
                                     [HY_SPECULATE_AUTO] = HY_BY_NGRAM | HY_BY_MODEL };
    static const char *const names[] = { "off", "ngram", "draft", "self", "auto" };
    if (speculate < HY_SPECULATE_DEFAULT || speculate > HY_SPECULATE_AUTO)
        return hy_fail(err, HY_E_ARG, "speculate: %d is not known", speculate);
    *by = speculate == HY_SPECULATE_DEFAULT ? (d ? d->by_default : 0) : bits[speculate];
    if (speculate <= HY_SPECULATE_OFF || speculate == HY_SPECULATE_AUTO) {
        *by &= d ? d->by : 0;
        return HY_OK;
    }
    if (!d || !(*by & d->by))
        return hy_fail(err, HY_E_ARG, "speculate: '%s' was not opened with the engine", names[speculate]);
    return HY_OK;
}

hy_status hy_draft_seq_open(hy_request *r, int32_t speculate, hy_err *err)
{
    hy_drafts *d = r->engine->drafts;
    hy_draft_seq *s = &r->draft;
    HY_TRY(proposers(d, speculate, &s->by, err));
    if (r->pool != HY_POOL_NONE || r->n_max < 2) s->by = 0;
    if (s->by == 0) return HY_OK;
    hy_spec_worth_init(&s->match, NULL);
    hy_spec_worth_init(&s->model, NULL);
    hy_spec_pace_init(&s->pace);
    uint32_t n = r->n_prompt + r->n_max;
    if (s->by & HY_BY_NGRAM) {
        HY_TRY(hy_ngram_open(&s->ngram, n, err));
        hy_ngram_add(&s->ngram, r->ids, r->n_prompt);
        r->bytes += s->ngram.bytes;
    }
    if (s->by & HY_BY_DRAFT) HY_TRY(hy_page_table_init(d->kv, &s->table, n, err));
    return HY_OK;
}

void hy_draft_seq_close(hy_request *r)
{
    hy_draft_seq *s = &r->draft;
    hy_ngram_close(&s->ngram);
    if (s->by & HY_BY_DRAFT) hy_page_table_free(r->engine->drafts->kv, &s->table);
    s->by = 0;
}

void hy_draft_pause(hy_engine *e, hy_request *r)
{
    r->q.n_draft = 0;
    r->draft.n = 0;
    if (!e->drafts || !(r->draft.by & HY_BY_DRAFT)) return;
    hy_kv_truncate(e->drafts->kv, &r->draft.table, 0);
    r->draft.n_done = 0;
}

#define STORE_BEFORE 8         /* tokens of the prompt that go before an answer in the store */

void hy_draft_end(hy_engine *e, hy_request *r)
{
    hy_draft_pause(e, r);
    if (!e->drafts || !e->drafts->store || !r->q.put || r->pool != HY_POOL_NONE) return;
    uint32_t first = r->n_prompt > STORE_BEFORE ? r->n_prompt - STORE_BEFORE : 0;
    if (r->q.n_known > r->n_prompt)
        hy_spec_store_add(e->drafts->store, r->q.salt, r->ids + first, r->q.n_known - first);
}

bool hy_draft_is_end(const hy_engine *e, const hy_request *r, int32_t id)
{
    return hy_tok_is_end(e->core->tok, id) && (!r->ignore_eos || r->guide);
}

/* ---- who could draft what -------------------------------------------------------------------------- */

/* Most tokens that r could draft now; 0: it is not at the end of its text, or near its last token. */
static uint32_t most_of(const hy_engine *e, const hy_request *r)
{
    const hy_sched_req *q = &r->q;
    if (r->draft.by == 0 || !q->decoding || q->lead || q->n_known - q->n_done != 1) return 0;
    if (atomic_load_explicit(&r->cancel, memory_order_relaxed)) return 0;
    uint32_t n_out = q->n_known - r->n_prompt;
    return r->n_max > n_out + 1 ? HY_MIN(e->drafts->most, r->n_max - n_out - 1) : 0;
}

/* n-grams of its own text, and of others' where that knows a longer match. */
static uint32_t look_up(hy_engine *e, hy_request *r, uint32_t most, int32_t *out, uint32_t *n_match)
{
    hy_draft_seq *s = &r->draft;
    hy_ngram_add(&s->ngram, r->ids, r->q.n_known);
    uint32_t n = hy_ngram_propose(&s->ngram, r->ids, most, out, n_match);
    if (!e->drafts->store || !r->q.put) return n;
    int32_t other[HY_SPEC_MAX];
    uint32_t other_match, m = hy_spec_store_propose(e->drafts->store, r->q.salt, r->ids, r->q.n_known, most, other,
                                                    &other_match);
    if (m == 0 || other_match <= *n_match) return n;
    memcpy(out, other, m * sizeof *out);
    *n_match = other_match;
    return m;
}

/* As many of the tokens as the guide allows and as lie before an end. The guide is left as it was. */
static uint32_t allowed(hy_engine *e, hy_request *r, const int32_t *id, uint32_t n)
{
    uint32_t k = 0;
    uint64_t mark = r->guide ? hy_gram_mark(r->guide) : 0;
    for (; k < n; k++) {
        if (hy_draft_is_end(e, r, id[k])) break;
        if (r->guide && (hy_gram_done(r->guide) || !hy_gram_accept(r->guide, id[k]))) break;
    }
    if (r->guide) (void)hy_gram_rollback(r->guide, mark);
    return k;
}

/* The chances of what the n-grams propose; the tokens go behind the text. */
static void want_match(hy_engine *e, hy_request *r, uint32_t most, hy_spec_want *w)
{
    int32_t *out = r->ids + r->q.n_known;
    uint32_t n_match;
    w->most = allowed(e, r, out, look_up(e, r, most, out, &n_match));
    for (uint32_t k = 0; k < w->most; k++) {
        r->draft.band[k] = (uint8_t)hy_spec_band_of_match(n_match + k);
        w->p[k] = hy_spec_worth_of(&r->draft.match, &e->drafts->match, r->draft.band[k]);
    }
}

static void want_of(hy_engine *e, hy_request *r, uint32_t most, hy_spec_want *w)
{
    hy_draft_seq *s = &r->draft;
    memset(w, 0, sizeof *w);
    s->now = HY_BY_NGRAM;
    if (s->by & HY_BY_NGRAM) want_match(e, r, most, w);
    if (!(s->by & HY_BY_MODEL)) return;
    double p = hy_spec_worth_mean(&s->model, &e->drafts->model);
    if (w->most && w->p[0] >= p) return;
    s->now = s->by & HY_BY_MODEL;
    w->model = true;
    w->most = most;
    for (uint32_t k = 0; k < most; k++) w->p[k] = p;
}

/* Would drafting pay if it were nearly always right? Then what it is worth is looked at again now and then. */
static bool could_pay(const hy_drafts *d, const hy_spec_want *w, uint32_t n_plain, uint32_t room)
{
    hy_spec_want dream = *w;
    for (uint32_t k = 0; k < HY_SPEC_MAX; k++) dream.p[k] = 0.95;
    return hy_spec_share(&dream, 1, n_plain, room, &d->target, &d->cost) > 1;
}

#define TRY 2                  /* tokens of a try */

static void try_again(hy_drafts *d, hy_spec_want *w, uint32_t n_want, uint32_t n_plain, uint32_t room)
{
    for (uint32_t i = 0; i < n_want; i++) room -= HY_MIN(room, w[i].n);
    for (uint32_t i = 0; i < n_want; i++) {
        hy_draft_seq *s = &d->who[i]->draft;
        if (w[i].n || w[i].most == 0 || room < TRY) continue;
        if (!could_pay(d, &w[i], n_plain + n_want - 1, room) || !hy_spec_pace_step(&s->pace)) continue;
        w[i].n = HY_MIN(w[i].most, TRY);
        s->trial = true;
        room -= w[i].n;
    }
}

static void give_all(hy_spec_want *w, uint32_t n_want, uint32_t room)
{
    for (uint32_t i = 0; i < n_want; i++) {
        w[i].n = HY_MIN(w[i].most, room);
        room -= w[i].n;
    }
}

/* Those that could draft, with what they promise; *n_plain: others that decode. */
static uint32_t gather(hy_engine *e, uint32_t *n_plain)
{
    hy_drafts *d = e->drafts;
    uint32_t n = 0;
    *n_plain = 0;
    for (uint32_t i = 0; i < e->sched.n_run; i++) {
        hy_request *r = e->sched.run[i]->owner;
        uint32_t most = most_of(e, r);
        r->q.n_draft = r->draft.n = 0;
        r->draft.trial = false;
        if (most == 0) {
            *n_plain += r->q.decoding;
            continue;
        }
        want_of(e, r, most, &d->want[n]);
        d->who[n++] = r;
    }
    return n;
}

void hy_draft_propose(hy_engine *e)
{
    hy_drafts *d = e->drafts;
    uint32_t n_plain, n_active = 0;
    if (!d) return;
    uint32_t n = gather(e, &n_plain);
    if (n == 0) return;
    uint32_t rows = e->sched.n_run, room = e->core->n_step > rows ? HY_MIN(d->n_room, e->core->n_step - rows) : 0;
    double gain = hy_spec_share(d->want, n, n_plain, room, &d->target, &d->cost);
    HY_SET(d->gain, gain);
    if (d->always) give_all(d->want, n, room);
    else try_again(d, d->want, n, n_plain, room);
    for (uint32_t i = 0; i < n; i++) {
        hy_request *r = d->who[i];
        hy_draft_seq *s = &r->draft;
        s->known = r->q.n_known;
        s->n = d->want[i].n;
        if (s->n && s->now & HY_BY_MODEL) d->active[n_active++] = r;
        else r->q.n_draft = s->n;
    }
    if (n_active) hy_draft_run(e, n_active);
}

/* ---- what became of them --------------------------------------------------------------------------- */

static void count(hy_drafts *d, hy_draft_seq *s, uint32_t n_drafted, uint32_t n_accepted)
{
    HY_BUMP(s->n_drafted, n_drafted);
    HY_BUMP(s->n_accepted, n_accepted);
    for (uint32_t k = 0; k < n_drafted; k++) {
        HY_BUMP(d->n_drafted[k], 1);
        if (k < n_accepted) HY_BUMP(d->n_accepted[k], 1);
    }
}

void hy_draft_settle(hy_engine *e, hy_request *r, uint32_t n_drafted, uint32_t n_accepted)
{
    hy_drafts *d = e->drafts;
    hy_draft_seq *s = &r->draft;
    if (!d || s->by == 0) return;
    if (s->by & HY_BY_DRAFT && s->n_done > s->known + n_accepted) { /* what was drafted wrong is forgotten */
        s->n_done = s->known + n_accepted;
        hy_kv_truncate(d->kv, &s->table, s->n_done);
    }
    if (s->by & HY_BY_DRAFT) hy_kv_slide(d->kv, &s->table, s->n_done);
    if (n_drafted == 0) return;
    count(d, s, n_drafted, n_accepted);
    bool model = s->now & HY_BY_MODEL;
    hy_spec_worth_add(model ? &s->model : &s->match, s->band, n_drafted, n_accepted);
    hy_spec_worth_add(model ? &d->model : &d->match, s->band, n_drafted, n_accepted);
    if (s->trial) hy_spec_pace_tried(&s->pace, n_accepted == n_drafted);
}

/* A step without parts of prompts tells what its rows cost. */
void hy_draft_step_took(hy_engine *e, double ms, const hy_batch *b)
{
    if (!e->drafts) return;
    for (uint32_t i = 0; i < b->n_row; i++)
        if (e->row_req[i]->q.n_give != 1) return;
    hy_spec_cost_add(&e->drafts->target, b->n_tok, ms);
}

void hy_drafts_stats(const hy_drafts *d, hy_stats *out)
{
    _Static_assert(HY_COUNT(((hy_stats *)0)->spec_drafted) == HY_SPEC_MAX, "one entry for each place");
    out->spec_gain = d ? HY_GET(d->gain) : 1;
    for (uint32_t k = 0; d && k < HY_SPEC_MAX; k++) {
        out->spec_drafted[k] = HY_GET(d->n_drafted[k]);
        out->spec_accepted[k] = HY_GET(d->n_accepted[k]);
        out->n_drafted += out->spec_drafted[k];
        out->n_accepted += out->spec_accepted[k];
    }
}
