/* Who drafts: opening and closing, and whether a draft model speaks the target's language. */
#include "draft.h"
#include "engine.h"
#include "packed.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/random.h>

#define ROWS 64                /* most drafted rows of a step */
#define ROWS_BYTES (64 * HY_MIB) /* of their logits */
#define MOST 16                /* drafted tokens of a request, where the user does not say */

hy_status hy_draft_by_name(const char *name, uint32_t *by, hy_err *err)
{
    static const struct { const char *name; uint32_t by; } names[] = {
        { "off", 0 }, { "ngram", HY_BY_NGRAM }, { "draft", HY_BY_DRAFT }, { "self", HY_BY_SELF }, { "auto", HY_BY_AUTO },
    };
    *by = 0;
    if (!name) return HY_OK;
    for (size_t i = 0; i < HY_COUNT(names); i++)
        if (strcmp(name, names[i].name) == 0) {
            *by = names[i].by;
            return HY_OK;
        }
    return hy_fail(err, HY_E_ARG, "speculate: '%.40s' is not one of off, ngram, draft, self, auto", name);
}

/* ---- one language -------------------------------------------------------------------------------- */

static bool same_bytes(const hy_buf *a, const hy_buf *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

static hy_status check_tokens(const hy_tok *a, const hy_tok *b, hy_buf piece[2], hy_err *err)
{
    uint32_t n = hy_tok_n_vocab(a);
    for (uint32_t i = 0; i < n; i++) {
        hy_buf_reset(&piece[0]);
        hy_buf_reset(&piece[1]);
        HY_TRY(hy_tok_piece(a, (int32_t)i, true, &piece[0], err));
        HY_TRY(hy_tok_piece(b, (int32_t)i, true, &piece[1], err));
        if (piece[0].failed || piece[1].failed) return hy_fail_memory(err, "vocabulary", 64);
        if (!same_bytes(&piece[0], &piece[1]))
            return hy_fail(err, HY_E_ARG, "the draft model has another vocabulary: token %u is '%.40s', the model's '%.40s'",
                           i, piece[1].data ? piece[1].data : "", piece[0].data ? piece[0].data : "");
        if (hy_tok_is_end(a, (int32_t)i) != hy_tok_is_end(b, (int32_t)i))
            hy_log(HY_LOG_INFO, "draft: only one of the models ends with a token", "id=%u", i);
    }
    return HY_OK;
}

hy_status hy_draft_check_vocab(const hy_core *target, const hy_core *draft, hy_err *err)
{
    uint32_t n = hy_tok_n_vocab(target->tok), m = hy_tok_n_vocab(draft->tok);
    if (n != m)
        return hy_fail(err, HY_E_ARG, "the draft model has another vocabulary: %u tokens, the model has %u", m, n);
    hy_buf piece[2] = { { 0 }, { 0 } };
    hy_status s = check_tokens(target->tok, draft->tok, piece, err);
    hy_buf_free(&piece[0]);
    hy_buf_free(&piece[1]);
    return s;
}

/* ---- models -------------------------------------------------------------------------------------- */

/* Tokens of whole sequences that the pool holds: groups of windowed layers have fewer pages. */
static uint64_t pool_tokens(const hy_core *c)
{
    uint64_t n_page = 0;
    for (uint32_t g = 0; g < hy_kv_n_group(c->kv); g++) n_page = HY_MAX(n_page, hy_kv_group_of(c->kv, g)->n_page);
    return HY_MAX(n_page * HY_KV_PAGE_TOK, c->n_ctx);
}

static hy_status open_own(hy_drafts *d, const hy_core *c, const hy_options *o, hy_err *err)
{
    hy_options own = *o;
    own.model = o->draft;
    own.weights = NULL;
    own.kv_memory = 0;
    own.kv_swap = NULL;
    own.n_ctx = c->n_ctx;
    own.n_seq = c->n_seq;
    own.n_step = c->n_step;
    own.kv_tokens = pool_tokens(c);
    own.timing = false;
    hy_status s = hy_core_open(&d->own, &own, c->n_seq, err);
    if (s != HY_OK) return hy_err_prefix(err, s, "draft model");
    HY_TRY(hy_draft_check_vocab(c, d->own, err));
    hy_team_close(d->own->team); /* the target's team runs both */
    d->own->team = NULL;
    d->plan = d->own->plan;
    d->kv = d->own->kv;
    d->n_vocab = d->own->model->hp.n_vocab;
    return HY_OK;
}

/* IQ4_NL has the bytes of Q4_0 and is nearer to the weights: with SmolLM2 in BF16 60 % of its drafts were right
 * instead of 54 %, at about the same speed (2 cores, AVX2). */
static hy_status open_self(hy_drafts *d, hy_core *c, const hy_options *o, hy_err *err)
{
    hy_options own = *o;
    hy_packed_list packed;
    own.weights = "self-iq4_nl"; /* of the file's name: kept beside the model's own packed weights */
    hy_packed_paths(&packed, &own, c->model->kern.panel);
    hy_load_opts lo = { .kern = &c->model->kern, .team = c->team, .quantise = HY_Q_IQ4_NL, .requantise = true,
                        .packed = packed.path, .n_packed = packed.n };
    hy_status s = hy_model_load(&d->self, c->file, &lo, err);
    hy_packed_paths_free(&packed);
    if (s != HY_OK) return hy_err_prefix(err, s, "self-draft");
    hy_plan_opts po = { .fuse = c->fuse, .act_f32 = c->act_f32, .kv_type = c->kv_type, .n_ctx = c->n_ctx,
                        .n_tok_max = c->n_seq, .n_out_max = c->n_seq, .n_row_max = c->n_seq };
    HY_TRY(hy_plan_compile(&d->self_plan, d->self, &po, err));
    hy_plan_threads(d->self_plan, hy_plan_threads_many(c->plan), hy_plan_threads_few(c->plan), false);
    d->plan = d->self_plan;
    d->kv = c->kv;
    d->n_vocab = d->self->hp.n_vocab;
    return HY_OK;
}

/* Does the target keep its matrices in 16 bits or in 8? Bits that it has to read for each weight. */
static double bits_of(const hy_core *c)
{
    double bits = 0, n = 0;
    for (uint32_t i = 0; i < c->model->hp.n_layer; i++)
        for (uint32_t role = 0; role < HY_W_COUNT; role++) {
            const hy_weight *w = &c->model->layer[i][role];
            if (!w->present || !w->panels) continue;
            const hy_qtraits *q = hy_quant(w->panels[0].type);
            double weights = (double)w->panels[0].n_row * (double)w->panels[0].k * w->n_expert;
            bits += weights * 8 * q->block_bytes / q->block;
            n += weights;
        }
    return n > 0 ? bits / n : 0;
}

static hy_status choose(hy_drafts *d, hy_core *c, const hy_options *o, uint32_t by, hy_err *err)
{
    double bits = bits_of(c);
    if (by == HY_BY_AUTO) /* 8 bits to 4 wins too little to be chosen unasked */
        by = HY_BY_NGRAM | (o->draft ? HY_BY_DRAFT : bits >= 15 ? HY_BY_SELF : 0);
    else if (o->draft)
        by |= HY_BY_DRAFT; /* requests may ask for it */
    if (by & HY_BY_DRAFT && !o->draft) return hy_fail(err, HY_E_ARG, "speculate: 'draft' needs the draft model's file");
    if (by & HY_BY_SELF && bits < 7)
        return hy_fail(err, HY_E_ARG, "speculate: 'self' needs a model of 8 or 16 bits a weight; this one has %.1f", bits);
    if (by & HY_BY_DRAFT && by & HY_BY_SELF)
        return hy_fail(err, HY_E_ARG, "speculate: 'self' and a draft model exclude each other");
    if (by & HY_BY_DRAFT) HY_TRY(open_own(d, c, o, err));
    if (by & HY_BY_SELF) HY_TRY(open_self(d, c, o, err));
    d->by = by | HY_BY_NGRAM; /* costs nothing until a request asks */
    d->by_default = by;
    return HY_OK;
}

/* What the plan keeps of rows of logits spares the sampler most of them. */
static bool keep(hy_drafts *d, uint32_t n_seq)
{
    uint32_t n_block = hy_logit_blocks(d->n_vocab);
    d->kept = HY_NEW_ARRAY(hy_logit_row, n_seq);
    d->kept_blocks = hy_alloc_array((size_t)n_seq * 2 * n_block, sizeof(float));
    if (!d->kept || !d->kept_blocks) return false;
    for (uint32_t i = 0; i < n_seq; i++) {
        d->kept[i].max = d->kept_blocks + (size_t)i * 2 * n_block;
        d->kept[i].sum = d->kept[i].max + n_block;
    }
    return true;
}

static hy_status arrays(hy_drafts *d, const hy_core *c, hy_err *err)
{
    uint32_t n_seq = c->n_seq, n_vocab = c->model->hp.n_vocab;
    d->want = HY_NEW_ARRAY(hy_spec_want, n_seq);
    d->who = HY_NEW_ARRAY(hy_request *, n_seq);
    bool good = d->want && d->who;
    if (d->plan) {
        d->n_step = d->own ? d->own->n_step : n_seq;
        d->logits = hy_alloc_array((size_t)n_seq * d->n_vocab, sizeof(float));
        d->whole = hy_alloc_array(n_vocab, sizeof(float));
        d->row = HY_NEW_ARRAY(hy_row, n_seq);
        d->row_req = HY_NEW_ARRAY(hy_request *, n_seq);
        d->active = HY_NEW_ARRAY(hy_request *, n_seq);
        d->token = HY_NEW_ARRAY(int32_t, d->n_step);
        d->pos = HY_NEW_ARRAY(int32_t, d->n_step);
        d->out_tok = HY_NEW_ARRAY(uint32_t, n_seq);
        good = good && d->logits && d->whole && d->row && d->row_req && d->active && d->token && d->pos && d->out_tok;
        if (good && d->n_vocab == n_vocab) good = keep(d, n_seq);
    }
    return good ? HY_OK : hy_fail_memory(err, "drafts", (uint64_t)n_seq * d->n_vocab * sizeof(float));
}

hy_status hy_drafts_open(hy_drafts **out, hy_core *c, const hy_options *o, hy_err *err)
{
    *out = NULL;
    uint32_t by;
    HY_TRY(hy_draft_by_name(o->speculate, &by, err));
    if (by == 0 && !o->draft) return HY_OK;
    if (o->spec_max > HY_SPEC_MAX)
        return hy_fail(err, HY_E_ARG, "spec_max: %u tokens are more than %d", o->spec_max, HY_SPEC_MAX);
    if (c->kv_mode == HY_KV_OFF) return hy_fail(err, HY_E_ARG, "speculate needs a KV cache");
    hy_drafts *d = HY_NEW(hy_drafts);
    if (!d) return hy_fail_memory(err, "drafts", sizeof *d);
    if (getrandom(&d->secret, sizeof d->secret, 0) != sizeof d->secret) d->secret = hy_now_ns();
    d->always = o->spec_always;
    d->most = o->spec_max ? o->spec_max : MOST;
    d->n_room = (uint32_t)HY_MIN((uint64_t)ROWS, ROWS_BYTES / sizeof(float) / c->model->hp.n_vocab);
    d->n_room = HY_MAX(HY_MIN(d->n_room, c->n_seq * d->most), 1u);
    hy_spec_worth_init(&d->match, hy_spec_prior_match);
    hy_spec_worth_init(&d->model, hy_spec_prior_model);
    hy_spec_pace_init(&d->pace, NULL);
    d->token_ms = 1;
    atomic_store(&d->gain, 1);
    hy_status s = choose(d, c, o, by, err);
    if (s == HY_OK) s = arrays(d, c, err);
    if (s == HY_OK && o->spec_store) s = hy_spec_store_open(&d->store, o->spec_store, err);
    if (s == HY_OK) *out = d;
    else hy_drafts_close(d);
    return s;
}

void hy_drafts_close(hy_drafts *d)
{
    if (!d) return;
    hy_plan_free(d->self_plan);
    hy_model_free(d->self);
    hy_core_close(d->own);
    hy_spec_store_close(d->store);
    hy_free(d->logits);
    hy_free(d->kept);
    hy_free(d->kept_blocks);
    hy_free(d->whole);
    hy_free(d->row);
    hy_free(d->row_req);
    hy_free(d->active);
    hy_free(d->token);
    hy_free(d->pos);
    hy_free(d->out_tok);
    hy_free(d->want);
    hy_free(d->who);
    hy_free(d);
}

/* ---- what rows cost -------------------------------------------------------------------------------- */

#define BUDGET_US 400000       /* of each of the two curves, beyond the first round */

typedef struct trial {
    hy_engine *e;
    hy_plan *plan;
    hy_kv *kv;
    float *logits;
    uint32_t n_vocab, n_out;   /* n_out: most rows with logits */
    hy_page_table table;
    uint32_t pos0;
} trial;

static hy_status one_step(trial *t, uint32_t n, double *ms, hy_err *err)
{
    enum { MANY = 128 };
    int32_t token[MANY], pos[MANY];
    uint32_t out[MANY];
    HY_TRY(hy_kv_reserve(t->kv, &t->table, t->pos0 + n, err));
    for (uint32_t i = 0; i < n; i++) {
        token[i] = (int32_t)((i + 1) * 104729u % t->n_vocab);
        pos[i] = (int32_t)(t->pos0 + i);
    }
    uint32_t n_out = HY_MIN(n, t->n_out);
    for (uint32_t i = 0; i < n_out; i++) out[i] = n - n_out + i;
    hy_row row = { .table = &t->table, .n_tok = n, .pos0 = t->pos0 };
    hy_batch b = { .n_tok = n, .token = token, .pos = pos, .n_row = 1, .row = &row, .n_out = n_out,
                   .out_tok = out };
    uint64_t us = hy_now_us();
    HY_TRY(hy_plan_run(t->plan, t->e->core->team, t->kv, &b, t->logits, err));
    *ms = HY_MAX((double)(hy_now_us() - us), 1) / 1e3;
    hy_kv_truncate(t->kv, &t->table, t->pos0);
    return HY_OK;
}

/* The best of a few rounds over all knots, so that a busy moment meets them alike. */
static hy_status curve(trial *t, uint32_t most, hy_spec_cost *out, hy_err *err)
{
    double best[HY_SPEC_KNOTS], ms;
    uint32_t n = 0;
    while (n < HY_SPEC_KNOTS && hy_spec_knot[n] <= HY_MIN(most, 32u)) best[n++] = HUGE_VAL;
    HY_TRY(hy_page_table_init(t->kv, &t->table, t->pos0 + 128, err));
    hy_status s = one_step(t, 1, &ms, err); /* wakes the threads */
    uint64_t began = hy_now_us();
    for (int round = 0; s == HY_OK && round < 5 && (round == 0 || hy_now_us() - began < BUDGET_US); round++)
        for (uint32_t i = 0; i < n && s == HY_OK; i++) {
            s = one_step(t, hy_spec_knot[i], &ms, err);
            if (s == HY_OK) best[i] = HY_MIN(best[i], ms);
        }
    hy_page_table_free(t->kv, &t->table);
    if (s != HY_OK) return s;
    hy_spec_cost_set(out, best, n);
    hy_log(HY_LOG_DEBUG, "draft: rows cost",
           "who=%s ms=%.3f x2=%.2f x3=%.2f x4=%.2f x5=%.2f x6=%.2f x8=%.2f x16=%.2f x32=%.2f",
           t->plan == t->e->core->plan ? "model" : "drafter", out->scale, out->shape[1], out->shape[2], out->shape[3],
           out->shape[4], out->shape[5], out->shape[6], out->shape[9], out->shape[11]);
    return HY_OK;
}

hy_status hy_drafts_measure(hy_engine *e, hy_err *err)
{
    hy_drafts *d = e->drafts;
    if (!d) return HY_OK;
    hy_core *c = e->core;
    uint32_t pos0 = HY_MIN(16u, c->n_ctx / 2), fits = HY_MAX(c->n_ctx - pos0, 1u);
    uint32_t most = HY_MIN(HY_MIN(c->n_step, fits), c->n_seq + d->n_room);
    trial t = { .e = e, .plan = c->plan, .kv = c->kv, .logits = e->logits, .n_vocab = c->model->hp.n_vocab,
                .n_out = most, .pos0 = pos0 };
    HY_TRY(curve(&t, most, &d->target, err));
    if (!d->plan) return HY_OK;
    t = (trial){ .e = e, .plan = d->plan, .kv = d->kv, .logits = d->logits, .n_vocab = d->n_vocab, .n_out = c->n_seq,
                 .pos0 = pos0 };
    /* a draft model that was right to the end has two tokens to read before it drafts again */
    most = d->own ? HY_MIN(HY_MAX(c->n_seq, 2u), d->n_step) : c->n_seq;
    HY_TRY(curve(&t, HY_MIN(most, fits), &d->cost, err));
    d->read_ms = hy_spec_cost_ms(&d->cost, 1) / 4; /* until it is known */
    return HY_OK;
}
