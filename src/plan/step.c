/* A step's checks. */
#include "plan/instr.h"
#include <inttypes.h>

/* Pages for all tokens this row's queries see, and for those it writes. */
static hy_status check_pages(const hy_plan *p, const hy_row *r, uint32_t i, hy_err *err)
{
    uint32_t end = r->pos0 + r->n_tok;
    if (!r->table || r->table->n_tok < end)
        return hy_fail(err, HY_E_ARG, "row %u: %u tokens reserved, the step writes up to %u", i,
                       r->table ? r->table->n_tok : 0, end);
    for (uint32_t g = 0; g < p->n_group; g++) {
        uint32_t w = p->group_window[g];
        uint32_t first = w && r->pos0 + 1 > w ? r->pos0 + 1 - w : 0;
        if ((uint64_t)r->table->page_first[g] * HY_PAGE_TOK > first)
            return hy_fail(err, HY_E_ARG, "row %u: token %u has slid out of group %u's pages (first %u)",
                           i, first, g, r->table->page_first[g] * HY_PAGE_TOK);
    }
    return HY_OK;
}

static hy_status check_row(const hy_plan *p, const hy_batch *b, uint32_t i, uint32_t next, hy_err *err)
{
    const hy_row *r = &b->row[i];
    if (r->tok_first != next || r->n_tok == 0 || r->n_tok > b->n_tok - next)
        return hy_fail(err, HY_E_ARG, "row %u: tokens %u + %u; they must follow from %u, below %u", i,
                       r->tok_first, r->n_tok, next, b->n_tok);
    if (r->pos0 >= p->o.n_ctx || r->n_tok > p->o.n_ctx - r->pos0)
        return hy_fail(err, HY_E_LIMIT, "row %u: positions %u + %u are beyond the context of %u", i,
                       r->pos0, r->n_tok, p->o.n_ctx);
    HY_TRY(check_pages(p, r, i, err));
    for (uint32_t k = 0; k < r->n_tok; k++) {
        if (b->pos[next + k] != (int32_t)(r->pos0 + k))
            return hy_fail(err, HY_E_ARG, "row %u: position %d where %u is next", i,
                           b->pos[next + k], r->pos0 + k);
        if ((uint32_t)b->token[next + k] >= p->m->hp.n_vocab)
            return hy_fail(err, HY_E_ARG, "row %u: token %d; the vocabulary has %u", i,
                           b->token[next + k], p->m->hp.n_vocab);
    }
    return HY_OK;
}

hy_status hy_plan_check_batch(const hy_plan *p, uint32_t n_thread, const hy_kv *kv, const hy_batch *b,
                              const float *logits, hy_err *err)
{
    if (n_thread > p->o.n_thread_max)
        return hy_fail(err, HY_E_ARG, "a team of %u threads; the plan is for up to %u", n_thread,
                       p->o.n_thread_max);
    if (hy_kv_n_group(kv) != p->n_group)
        return hy_fail(err, HY_E_ARG, "%u kv groups; the model has %u", hy_kv_n_group(kv), p->n_group);
    if (b->n_tok == 0 || b->n_tok > p->o.n_tok_max)
        return hy_fail(err, HY_E_LIMIT, "a step of %u tokens; 1 to %u are possible", b->n_tok,
                       p->o.n_tok_max);
    if (b->n_row == 0 || b->n_row > p->o.n_row_max)
        return hy_fail(err, HY_E_LIMIT, "a step of %u sequences; 1 to %u are possible", b->n_row,
                       p->o.n_row_max);
    if (b->n_out > p->o.n_out_max)
        return hy_fail(err, HY_E_LIMIT, "logits for %u tokens; up to %u are possible", b->n_out,
                       p->o.n_out_max);
    if (b->n_hidden > b->n_out)
        return hy_fail(err, HY_E_ARG, "%u hidden states of %u rows", b->n_hidden, b->n_out);
    if (b->n_out > b->n_hidden && !logits) return hy_fail(err, HY_E_ARG, "logits wanted, but no room given");
    uint32_t next = 0;
    for (uint32_t i = 0; i < b->n_row; i++) {
        HY_TRY(check_row(p, b, i, next, err));
        next += b->row[i].n_tok;
    }
    if (next != b->n_tok)
        return hy_fail(err, HY_E_ARG, "rows hold %u tokens, the step %u", next, b->n_tok);
    for (uint32_t i = 0; i < b->n_out; i++)
        if (b->out_tok[i] >= b->n_tok || (i && b->out_tok[i] <= b->out_tok[i - 1]))
            return hy_fail(err, HY_E_ARG, "logits of token %u: ascending, below %u", b->out_tok[i],
                           b->n_tok);
    return HY_OK;
}
