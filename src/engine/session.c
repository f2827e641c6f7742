/* A model without the engine's thread: logits, perplexity, KL divergence, benchmarks. */
#include "measured.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct hy_session {
    hy_core *core;
    hy_page_table *table;      /* [n_seq] */
    hy_row *row;               /* [n_seq] */
    int32_t *token, *pos;      /* [n_step] */
    uint32_t *out_tok;         /* [n_out] */
    float *logits;             /* [n_out, n_vocab] */
};

/* from NULL: a model of its own. */
static hy_status open_session(hy_session **out, hy_session *from, const hy_options *o, hy_err *err)
{
    *out = NULL;
    hy_session *s = HY_NEW(hy_session);
    if (!s) return hy_fail_memory(err, "session", sizeof *s);
    hy_status st = from ? hy_core_share(&s->core, from->core, o, 0, err) : hy_core_open(&s->core, o, 0, err);
    if (st == HY_OK) {
        hy_core *c = s->core;
        s->table = HY_NEW_ARRAY(hy_page_table, c->n_seq);
        s->row = HY_NEW_ARRAY(hy_row, c->n_seq);
        s->token = HY_NEW_ARRAY(int32_t, c->n_step);
        s->pos = HY_NEW_ARRAY(int32_t, c->n_step);
        s->out_tok = HY_NEW_ARRAY(uint32_t, c->n_out);
        s->logits = hy_alloc_array((size_t)c->n_out * c->model->hp.n_vocab, sizeof(float));
        if (!s->table || !s->row || !s->token || !s->pos || !s->out_tok || !s->logits)
            st = hy_fail_memory(err, "session", (uint64_t)c->n_out * c->model->hp.n_vocab * sizeof(float));
        for (uint32_t i = 0; st == HY_OK && i < c->n_seq; i++)
            st = hy_page_table_init(c->kv, &s->table[i], c->n_ctx, err);
    }
    if (st != HY_OK) {
        hy_session_close(s);
        return st;
    }
    *out = s;
    return HY_OK;
}

hy_status hy_session_open(hy_session **out, const hy_options *o, hy_err *err)
{
    return open_session(out, NULL, o, err);
}

hy_status hy_session_share(hy_session **out, hy_session *from, const hy_options *o, hy_err *err)
{
    return open_session(out, from, o, err);
}

void hy_session_close(hy_session *s)
{
    if (!s) return;
    if (s->core && s->table)
        for (uint32_t i = 0; i < s->core->n_seq; i++) hy_page_table_free(s->core->kv, &s->table[i]);
    hy_free(s->table);
    hy_free(s->row);
    hy_free(s->token);
    hy_free(s->pos);
    hy_free(s->out_tok);
    hy_free(s->logits);
    hy_core_close(s->core);
    hy_free(s);
}

void hy_session_facts(const hy_session *s, hy_facts *out)
{
    hy_core_facts(s->core, out);
}

hy_core *hy_session_core(hy_session *s)
{
    return s->core;
}

hy_status hy_session_tokenize(const hy_session *s, const char *text, size_t n, bool add_special,
                              bool parse_special, int32_t **ids, size_t *n_ids, hy_err *err)
{
    hy_ids list = { 0 };
    if (!s->core->tok) return hy_fail(err, HY_E_UNSUPPORTED, "the model has no tokenizer: only token ids can be given");
    hy_status st = hy_tok_encode(s->core->tok, text, n, add_special, parse_special, &list, err);
    if (st == HY_OK) st = hy_ids_take(&list, ids, n_ids, err);
    hy_ids_free(&list);
    return st;
}

static hy_status check_tokens(const hy_core *c, const int32_t *tokens, uint32_t n, hy_err *err)
{
    if (n == 0) return hy_fail(err, HY_E_ARG, "no tokens were given");
    if (n > c->n_ctx)
        return hy_fail(err, HY_E_LIMIT, "%u tokens are more than the context of %u", n, c->n_ctx);
    for (uint32_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= c->model->hp.n_vocab)
            return hy_fail(err, HY_E_ARG, "token %u: id %d is not in 0..%u", i, tokens[i], c->model->hp.n_vocab - 1);
    return HY_OK;
}

/* One step of one sequence; logits for the last n_out of the tokens, into s->logits. */
static hy_status one_step(hy_session *s, uint32_t i_seq, const int32_t *tokens, uint32_t n, uint32_t pos0,
                          uint32_t n_out, uint32_t n_total, hy_err *err)
{
    hy_core *c = s->core;
    HY_TRY(hy_kv_reserve(c->kv, &s->table[i_seq], pos0 + n, err));
    for (uint32_t i = 0; i < n; i++) s->pos[i] = (int32_t)(pos0 + i);
    for (uint32_t i = 0; i < n_out; i++) s->out_tok[i] = n - n_out + i;
    s->row[0] = (hy_row){ .table = &s->table[i_seq], .tok_first = 0, .n_tok = n, .pos0 = pos0, .n_total = n_total };
    hy_batch b = { .n_tok = n, .token = tokens, .pos = s->pos, .n_row = 1, .row = s->row, .n_out = n_out,
                   .out_tok = s->out_tok };
    HY_TRY(hy_plan_run(c->plan, c->team, c->kv, &b, s->logits, err));
    hy_kv_slide(c->kv, &s->table[i_seq], pos0 + n);
    return HY_OK;
}

typedef hy_status logits_fn(void *ctx, uint32_t pos, const float *logits, hy_err *err);

/* Feeds one fresh sequence and hands over the logits of positions >= out_first, in order. */
static hy_status feed(hy_session *s, const int32_t *tokens, uint32_t n, uint32_t chunk, uint32_t out_first,
                      logits_fn *fn, void *ctx, hy_err *err)
{
    hy_core *c = s->core;
    HY_TRY(check_tokens(c, tokens, n, err));
    if (chunk == 0 || chunk > c->n_step) chunk = c->n_step;
    hy_kv_truncate(c->kv, &s->table[0], 0);
    for (uint32_t at = 0; at < n;) {
        uint32_t k = HY_MIN(chunk, n - at);
        /* a step yields at most n_out rows of logits: cut it where outputs begin, or shorten it */
        if (at < out_first) k = HY_MIN(k, out_first - at);
        else k = HY_MIN(k, c->n_out);
        bool outs = at >= out_first;
        if (c->kv_mode == HY_KV_OFF && at > 0) { /* no cache: everything before is computed again */
            hy_kv_truncate(c->kv, &s->table[0], 0);
            for (uint32_t i = 0; i < at;) {
                uint32_t m = HY_MIN(chunk, at - i);
                HY_TRY(one_step(s, 0, tokens + i, m, i, 0, n, err));
                i += m;
            }
        }
        HY_TRY(one_step(s, 0, tokens + at, k, at, outs ? k : 0, n, err));
        for (uint32_t i = 0; outs && i < k; i++)
            HY_TRY(fn(ctx, at + i, s->logits + (size_t)i * c->model->hp.n_vocab, err));
        at += k;
    }
    return HY_OK;
}

typedef struct copy_ctx {
    float *out;
    uint32_t n_vocab, first;
} copy_ctx;

static hy_status copy_logits(void *ctx, uint32_t pos, const float *logits, hy_err *err)
{
    copy_ctx *c = ctx;
    memcpy(c->out + (size_t)(pos - c->first) * c->n_vocab, logits, c->n_vocab * sizeof *logits);
    return HY_OK;
}

hy_status hy_session_logits(hy_session *s, const int32_t *tokens, uint32_t n, uint32_t chunk, bool all,
                            float *out, hy_err *err)
{
    copy_ctx c = { out, s->core->model->hp.n_vocab, all || n == 0 ? 0 : n - 1 };
    return feed(s, tokens, n, chunk, c.first, copy_logits, &c, err);
}

/* ---- perplexity and KL divergence -------------------------------------------------------------- */

typedef struct score {
    const int32_t *ids;        /* of the window */
    uint32_t n, n_vocab;
    uint32_t score_first;      /* first scored position: predicted from the one before */
    double sum, sum2;
    uint64_t n_scored;
    /* KL */
    float *base;               /* log-probabilities of the base, [n - score_first, n_vocab]; or NULL */
    bool fill_base;
    float *kl;                 /* every scored position's divergence */
    uint64_t n_kl, kl_cap;
    uint64_t n_same;
    double base_sum;
} score;

static double log_sum_exp(const float *x, uint32_t n, uint32_t *best)
{
    uint32_t b = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[b]) b = i;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += exp((double)x[i] - x[b]);
    *best = b;
    return x[b] + log(sum);
}

/* logits of position pos predict token pos + 1. */
static hy_status score_logits(void *ctx, uint32_t pos, const float *logits, hy_err *err)
{
    score *c = ctx;
    if (pos + 1 >= c->n || pos + 1 < c->score_first) return HY_OK;
    uint32_t best;
    double lse = log_sum_exp(logits, c->n_vocab, &best);
    double nll = lse - logits[c->ids[pos + 1]];
    float *base = c->base ? c->base + (size_t)(pos + 1 - c->score_first) * (c->n_vocab + 1) : NULL;
    if (c->fill_base) {
        for (uint32_t i = 0; i < c->n_vocab; i++) base[i] = (float)(logits[i] - lse);
        base[c->n_vocab] = (float)best;
        c->base_sum += nll;
        return HY_OK;
    }
    c->sum += nll;
    c->sum2 += nll * nll;
    c->n_scored++;
    if (!base) return HY_OK;
    double kl = 0;
    for (uint32_t i = 0; i < c->n_vocab; i++) kl += exp((double)base[i]) * ((double)base[i] - (logits[i] - lse));
    if (c->n_kl < c->kl_cap) c->kl[c->n_kl++] = (float)kl;
    if ((uint32_t)base[c->n_vocab] == best) c->n_same++;
    return HY_OK;
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void conclude(score *c, hy_ppl_result *out)
{
    double n = (double)c->n_scored, mean = c->sum / n;
    double var = n > 1 ? (c->sum2 / n - mean * mean) / (n - 1) : 0;
    double half = 1.959964 * sqrt(var > 0 ? var : 0);
    out->nll = mean;
    out->ppl = exp(mean);
    out->ppl_low = exp(mean - half);
    out->ppl_high = exp(mean + half);
    out->n_scored = c->n_scored;
    if (c->n_kl == 0) return;
    double sum = 0;
    for (uint64_t i = 0; i < c->n_kl; i++) sum += c->kl[i];
    qsort(c->kl, c->n_kl, sizeof *c->kl, by_value);
    out->kl_mean = sum / (double)c->n_kl;
    out->kl_p99 = c->kl[(c->n_kl - 1) * 99 / 100];
    out->kl_max = c->kl[c->n_kl - 1];
    out->same_top = (double)c->n_same / (double)c->n_kl;
    out->ppl_base = exp(c->base_sum / n);
}

typedef struct windows {
    uint32_t window, stride, score_first, n_window;
    int32_t *ids;
    size_t n_ids;
    bool bos;
} windows;

static hy_status plan_windows(hy_session *s, const hy_ppl_params *p, windows *w, hy_err *err)
{
    w->window = p->window ? p->window : 512;
    w->stride = p->stride ? p->stride : w->window;
    w->score_first = p->score_first ? p->score_first : w->window / 2;
    if (w->window < 2 || w->window > s->core->n_ctx)
        return hy_fail(err, HY_E_ARG, "window: %u is not in 2..%u (the context)", w->window, s->core->n_ctx);
    if (w->score_first < 1 || w->score_first >= w->window)
        return hy_fail(err, HY_E_ARG, "first scored position: %u is not in 1..%u", w->score_first, w->window - 1);
    HY_TRY(hy_session_tokenize(s, p->text, p->n_text, false, false, &w->ids, &w->n_ids, err));
    if (w->n_ids < w->window)
        return hy_fail(err, HY_E_ARG, "the text has %zu tokens; one window needs %u", w->n_ids, w->window);
    uint64_t n = (w->n_ids - w->window) / w->stride + 1;
    w->n_window = (uint32_t)HY_MIN(n, p->n_window ? p->n_window : UINT32_MAX);
    w->bos = hy_tok_adds_bos(s->core->tok) && hy_tok_bos(s->core->tok) >= 0;
    return HY_OK;
}

/* base NULL: perplexity alone. */
static hy_status evaluate(hy_session *base, hy_session *s, const hy_ppl_params *p, hy_ppl_result *out, hy_err *err)
{
    memset(out, 0, sizeof *out);
    windows w = { 0 };
    hy_status st = plan_windows(s, p, &w, err);
    if (st != HY_OK) {
        hy_free(w.ids);
        return st;
    }
    score c = { .n = w.window, .n_vocab = s->core->model->hp.n_vocab, .score_first = w.score_first };
    int32_t *ids = HY_NEW_ARRAY(int32_t, w.window);
    st = ids ? HY_OK : hy_fail_memory(err, "window", w.window * 4ull);
    if (st == HY_OK && base) {
        c.kl_cap = (uint64_t)w.n_window * (w.window - w.score_first);
        c.kl = HY_NEW_ARRAY(float, c.kl_cap);
        c.base = hy_alloc_array(((size_t)w.window - w.score_first) * (c.n_vocab + 1ull), sizeof(float));
        if (!c.kl || !c.base) st = hy_fail_memory(err, "base logits", (w.window - w.score_first) * (c.n_vocab * 4ull));
    }
    c.ids = ids;
    for (uint32_t i = 0; st == HY_OK && i < w.n_window; i++) {
        memcpy(ids, w.ids + (size_t)i * w.stride, w.window * sizeof *ids);
        if (w.bos) ids[0] = hy_tok_bos(s->core->tok);
        /* the last token predicts nothing; logits are wanted from score_first - 1 on */
        if (base) {
            c.fill_base = true;
            st = feed(base, ids, w.window, 0, w.score_first - 1, score_logits, &c, err);
            c.fill_base = false;
        }
        if (st == HY_OK) st = feed(s, ids, w.window, 0, w.score_first - 1, score_logits, &c, err);
        if (st == HY_OK && p->partial) p->partial(p->progress_ctx, i, exp(c.sum / (double)c.n_scored));
        if (st == HY_OK && p->progress && p->progress(p->progress_ctx, i + 1, w.n_window))
            st = hy_fail(err, HY_E_CANCELLED, "cancelled after %u of %u windows", i + 1, w.n_window);
    }
    out->n_window = w.n_window;
    if (st == HY_OK) conclude(&c, out);
    hy_free(ids);
    hy_free(c.kl);
    hy_free(c.base);
    hy_free(w.ids);
    return st;
}

hy_status hy_session_perplexity(hy_session *s, const hy_ppl_params *p, hy_ppl_result *out, hy_err *err)
{
    return evaluate(NULL, s, p, out, err);
}

hy_status hy_session_kl(hy_session *base, hy_session *s, const hy_ppl_params *p, hy_ppl_result *out, hy_err *err)
{
    uint32_t a = base->core->model->hp.n_vocab, b = s->core->model->hp.n_vocab;
    if (a != b) return hy_fail(err, HY_E_ARG, "the vocabularies differ: %u and %u tokens", a, b);
    return evaluate(base, s, p, out, err);
}

/* ---- benchmark --------------------------------------------------------------------------------- */

/* `n` tokens more for each of `rows` sequences standing at pos0, in steps as large as they may be. */
hy_status hy_session_rows(hy_session *s, uint32_t rows, uint32_t pos0, uint32_t n, bool logits, hy_err *err)
{
    hy_core *c = s->core;
    uint32_t each = HY_MAX(1u, c->n_step / rows);
    for (uint32_t at = 0; at < n;) {
        uint32_t k = HY_MIN(each, n - at);
        hy_batch b = { .token = s->token, .pos = s->pos, .row = s->row, .out_tok = s->out_tok, .n_row = rows };
        for (uint32_t r = 0; r < rows; r++) {
            HY_TRY(hy_kv_reserve(c->kv, &s->table[r], pos0 + at + k, err));
            s->row[r] = (hy_row){ .table = &s->table[r], .tok_first = b.n_tok, .n_tok = k, .pos0 = pos0 + at };
            for (uint32_t i = 0; i < k; i++, b.n_tok++) {
                s->token[b.n_tok] = (int32_t)((r * 7919u + (pos0 + at + i) * 104729u) % c->model->hp.n_vocab);
                s->pos[b.n_tok] = (int32_t)(pos0 + at + i);
            }
            if (logits && at + k == n) s->out_tok[b.n_out++] = b.n_tok - 1;
        }
        HY_TRY(hy_plan_run(c->plan, c->team, c->kv, &b, s->logits, err));
        for (uint32_t r = 0; r < rows; r++) hy_kv_slide(c->kv, &s->table[r], pos0 + at + k);
        at += k;
    }
    return HY_OK;
}

hy_status hy_session_restart(hy_session *s, uint32_t rows, uint64_t n_tok, hy_err *err)
{
    hy_core *c = s->core;
    if (rows < 1 || rows > c->n_seq || rows > c->n_out)
        return hy_fail(err, HY_E_ARG, "rows: %u is not in 1..%u", rows, HY_MIN(c->n_seq, c->n_out));
    if (n_tok > c->n_ctx)
        return hy_fail(err, HY_E_LIMIT, "depth and tokens, %llu in all, are more than the context of %u",
                       (unsigned long long)n_tok, c->n_ctx);
    for (uint32_t r = 0; r < c->n_seq; r++) hy_kv_truncate(c->kv, &s->table[r], 0);
    return HY_OK;
}

hy_status hy_session_bench(hy_session *s, uint32_t n_prompt, uint32_t n_gen, uint32_t depth, uint32_t rows,
                           uint64_t *ns, hy_err *err)
{
    HY_TRY(hy_session_restart(s, rows, (uint64_t)depth + n_prompt + n_gen, err));
    HY_TRY(hy_session_rows(s, rows, 0, depth, false, err));
    uint64_t t0 = hy_now_ns();
    if (n_prompt) HY_TRY(hy_session_rows(s, rows, depth, n_prompt, true, err));
    for (uint32_t i = 0; i < n_gen; i++) HY_TRY(hy_session_rows(s, rows, depth + n_prompt + i, 1, true, err));
    *ns = hy_now_ns() - t0;
    return HY_OK;
}
