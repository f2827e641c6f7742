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
        return hy_fail(err, HY_E_ARG, "speculate: '%s' was not opened with the engine; there is %s", names[speculate],
                       !d ? "nobody who drafts (the option --speculate)" : d->by & HY_BY_DRAFT ? "'ngram' and 'draft'"
                       : d->by & HY_BY_SELF ? "'ngram' and 'self'" : "'ngram'");
    return HY_OK;
}

hy_status hy_draft_seq_open(hy_request *r, const hy_params *p, hy_err *err)
{
    hy_drafts *d = r->engine->drafts;
    hy_draft_seq *s = &r->draft;
    HY_TRY(proposers(d, p->speculate, &s->by, err));
    if (d) s->salt = hy_hash64(p->tenant ? p->tenant : "", p->tenant ? strlen(p->tenant) : 0, d->secret);
    if (r->pool != HY_POOL_NONE || r->n_max < 2) s->by = 0;
    if (s->by == 0) return HY_OK;
    hy_spec_worth_init(&s->match, NULL);
    hy_spec_worth_init(&s->model, NULL);
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
        hy_spec_store_add(e->drafts->store, r->draft.salt, r->ids + first, r->q.n_known - first);
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
    uint32_t other_match, m = hy_spec_store_propose(e->drafts->store, s->salt, r->ids, r->q.n_known, most, other,
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

#define TIRED 256              /* steps of silence after which a draft model that lies behind is not asked again */
#define INVEST 0.1             /* of the time of the tokens that may still come: for reading what came before */
#define WON 0.5                /* of the time that drafts should save: so much may be spent on reading, too */
#define DREAM 0.9              /* chance of drafted tokens that would be good ones */
#define COMING 128

/* A draft model reads the text before it drafts. Is that worth it for what may still come, when all that are here
 * decode? As much as there was is what one may expect. What reading costs is owed by all together: while that is not
 * paid nobody reads to find out whether drafts are right. */
static bool worth_reading(const hy_engine *e, const hy_request *r)
{
    const hy_drafts *d = e->drafts;
    const hy_draft_seq *s = &r->draft;
    uint32_t behind = r->q.n_known - s->n_done, n_out = r->q.n_known - r->n_prompt;
    if (!(s->by & HY_BY_DRAFT) || behind <= 2 || d->always) return true;
    if (s->pace.silence > TIRED && behind > TIRED / 4) return false;
    uint32_t coming = HY_MIN(r->n_max - n_out, COMING + n_out);
    uint32_t n = HY_MIN(e->sched.n_run + e->sched.n_wait, e->core->n_seq);
    double cost = behind * d->read_ms, ms = coming * hy_spec_cost_ms(&d->target, n) / n;
    double p = hy_spec_pace_may(&d->pace, 0) ? DREAM : hy_spec_worth_mean(&s->model, &d->model);
    double gain = hy_spec_gain_of_all(n, p, d->n_room, &d->target, &d->cost);
    return cost <= INVEST * ms && cost <= WON * (1 - 1 / gain) * ms;
}

static void want_of(hy_engine *e, hy_request *r, uint32_t most, hy_spec_want *w)
{
    hy_draft_seq *s = &r->draft;
    memset(w, 0, sizeof *w);
    w->pace = e->drafts->always ? NULL : &s->pace;
    s->now = HY_BY_NGRAM;
    if (s->by & HY_BY_NGRAM) want_match(e, r, most, w);
    if (!(s->by & HY_BY_MODEL) || !worth_reading(e, r)) return;
    double p = hy_spec_worth_mean(&s->model, &e->drafts->model);
    if (w->most && w->p[0] >= p) return;
    s->now = s->by & HY_BY_MODEL;
    w->model = true;
    w->most = most;
    for (uint32_t k = 0; k < most; k++) w->p[k] = p;
}

static void give_all(hy_spec_want *w, uint32_t n_want, uint32_t room)
{
    for (uint32_t i = 0; i < n_want; i++) {
        w[i].n = HY_MIN(w[i].most, room);
        w[i].trial = false;
        room -= w[i].n;
    }
}

/* A share is what tokens of the usual chance are worth. A model tells how sure it is of each: it goes on while it is,
 * into rows that nobody's share took, up to what its request could lose half of. */
static void go_beyond(hy_drafts *d, uint32_t n, uint32_t more)
{
    double price = (d->row_ms + hy_spec_cost_ms(&d->cost, 1)) / d->token_ms;
    for (uint32_t i = 0; i < n; i++) {
        hy_draft_seq *s = &d->who[i]->draft;
        if (!s->by_model || s->trial) continue;
        uint32_t most = HY_MIN(s->n + more, d->want[i].most);
        while (s->n < most && hy_spec_pace_may(&s->pace, 0.5 * price * (s->n + 1))) s->n++;
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
        if (most == 0) {
            *n_plain += r->q.decoding;
            continue;
        }
        if (!r->draft.paced) hy_spec_pace_init(&r->draft.pace, &d->pace);
        r->draft.paced = true;
        hy_spec_pace_paid(&r->draft.pace, 1, 0, 0);
        hy_spec_pace_paid(&d->pace, 1, 0, 0);
        want_of(e, r, most, &d->want[n]);
        d->who[n++] = r;
    }
    return n;
}

void hy_draft_propose(hy_engine *e)
{
    hy_drafts *d = e->drafts;
    uint32_t n_plain, n_active = 0, n_row = 0;
    if (!d) return;
    d->ms_now = 0;
    uint32_t n = gather(e, &n_plain);
    if (n == 0) return;
    uint32_t rows = e->sched.n_run, room = e->core->n_step > rows ? HY_MIN(d->n_room, e->core->n_step - rows) : 0;
    double gain = hy_spec_share(d->want, n, n_plain, room, &d->target, &d->cost);
    HY_SET(d->gain, gain);
    if (d->always) give_all(d->want, n, room);
    d->n_row = n + n_plain;
    for (uint32_t i = 0; i < n; i++) {
        hy_request *r = d->who[i];
        hy_draft_seq *s = &r->draft;
        s->known = r->q.n_known;
        s->n = s->n_share = d->want[i].n;
        s->trial = d->want[i].trial;
        s->by_model = s->n && s->now & HY_BY_MODEL;
        n_row += s->n;
        if (s->by_model) d->active[n_active++] = r;
        else d->n_row += r->q.n_draft = s->n;
    }
    double plain = hy_spec_cost_ms(&d->target, n + n_plain);
    d->token_ms = plain / (n + n_plain);
    d->row_ms = n_row ? (hy_spec_cost_ms(&d->target, n + n_plain + n_row) - plain) / n_row : 0;
    d->draft_ms = 0;
    if (n_active == 0) return;
    go_beyond(d, n, (room - n_row) / n_active);
    hy_draft_run(e, n_active);
}

/* ---- what became of them --------------------------------------------------------------------------- */

static void count(hy_drafts *d, hy_draft_seq *s, uint32_t n_drafted, uint32_t n_accepted)
{
    for (uint32_t k = 0; k < n_drafted; k++) {
        HY_BUMP(s->n_drafted[k], 1);
        HY_BUMP(d->n_drafted[k], 1);
        if (k >= n_accepted) continue;
        HY_BUMP(s->n_accepted[k], 1);
        HY_BUMP(d->n_accepted[k], 1);
    }
    HY_BUMP(s->gain.n_tok, n_accepted);
    HY_BUMP(d->all_gain.n_tok, n_accepted);
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
    bool model = s->now & HY_BY_MODEL;
    double brought = n_accepted, cost = (n_drafted * d->row_ms + (s->by_model ? d->draft_ms : 0)) / d->token_ms;
    hy_spec_pace_paid(&s->pace, 0, brought, cost);
    hy_spec_pace_paid(&d->pace, 0, brought, cost);
    if (n_drafted == 0) return;
    count(d, s, n_drafted, n_accepted);
    hy_spec_worth_add(model ? &s->model : &s->match, s->band, n_drafted, n_accepted);
    hy_spec_worth_add(model ? &d->model : &d->match, s->band, n_drafted, n_accepted);
    if (s->trial) hy_spec_pace_tried(&s->pace, n_accepted == n_drafted);
}

/* The step's rows and what was drafted for it, by the measured curves; 1: nobody drafted. */
static double cost_of(const hy_engine *e, const hy_batch *b)
{
    const hy_drafts *d = e->drafts;
    uint32_t n_plain = 0, n_drafted = 0;
    for (uint32_t i = 0; i < b->n_row; i++) {
        n_plain += e->row_req[i]->q.decoding;
        n_drafted += e->row_req[i]->q.n_draft;
    }
    if (n_drafted == 0 && d->ms_now <= 0) return 1;
    double plain = hy_spec_cost_ms(&d->target, HY_MAX(n_plain, 1u));
    double with = hy_spec_cost_ms(&d->target, HY_MAX(n_plain + n_drafted, 1u)) + d->ms_now;
    return plain > 0 ? with / plain : 1;
}

static void count_step(hy_draft_gain *g, double cost)
{
    HY_BUMP(g->n_tok, 1);
    HY_BUMP(g->cost, cost);
}

/* A step without parts of prompts tells what its rows cost. What the drafted ones cost counts as it was, not as it
 * was thought to be. */
void hy_draft_step_took(hy_engine *e, double ms, const hy_batch *b)
{
    if (!e->drafts) return;
    double cost = cost_of(e, b);
    for (uint32_t i = 0; i < b->n_row; i++) {
        hy_request *r = e->row_req[i];
        if (!r->q.decoding || r->draft.by == 0) continue;
        count_step(&r->draft.gain, cost);
        count_step(&e->drafts->all_gain, cost);
    }
    for (uint32_t i = 0; i < b->n_row; i++)
        if (e->row_req[i]->q.n_give != 1) return;
    hy_drafts *d = e->drafts;
    if (b->n_tok > b->n_row) d->row_ms = HY_MAX(ms - hy_spec_cost_ms(&d->target, b->n_row), 0) / (b->n_tok - b->n_row);
    hy_spec_cost_add(&d->target, b->n_tok, ms);
}

static double gain_of(const hy_draft_gain *g)
{
    double cost = HY_GET(g->cost);
    return cost > 0 ? HY_GET(g->n_tok) / cost : 1;
}

void hy_draft_usage(const hy_draft_seq *s, hy_usage *out)
{
    for (uint32_t k = 0; k < HY_SPEC_MAX; k++) {
        out->drafted_at[k] = HY_GET(s->n_drafted[k]);
        out->accepted_at[k] = HY_GET(s->n_accepted[k]);
        out->n_drafted += out->drafted_at[k];
        out->n_accepted += out->accepted_at[k];
    }
    out->draft_gain = gain_of(&s->gain);
}

/* Who drafts, of those that are there. */
static void name_proposers(const hy_drafts *d, hy_stats *out)
{
    uint32_t n = 0;
    if (d->by & HY_BY_NGRAM) out->speculate[n++] = "ngram";
    if (d->by & HY_BY_DRAFT) out->speculate[n++] = "draft";
    if (d->by & HY_BY_SELF) out->speculate[n++] = "self";
}

void hy_drafts_stats(const hy_drafts *d, hy_stats *out)
{
    _Static_assert(HY_COUNT(((hy_stats *)0)->spec_drafted) == HY_SPEC_MAX, "one entry for each place");
    out->spec_gain = d ? HY_GET(d->gain) : 1;
    out->spec_speedup = d ? gain_of(&d->all_gain) : 1;
    if (d) name_proposers(d, out);
    for (uint32_t k = 0; d && k < HY_SPEC_MAX; k++) {
        out->spec_drafted[k] = HY_GET(d->n_drafted[k]);
        out->spec_accepted[k] = HY_GET(d->n_accepted[k]);
        out->n_drafted += out->spec_drafted[k];
        out->n_accepted += out->spec_accepted[k];
    }
}
