/* Guides: the grammar is compiled on the caller's thread; the vocabulary's trie is built by the first that
 * needs it. */
#include "engine.h"

static hy_status piece(void *ctx, int32_t id, hy_buf *out, uint32_t *flags, hy_err *err)
{
    const hy_core *c = ctx;
    if ((uint32_t)id >= hy_tok_n_vocab(c->tok)) { /* a model may have more logits than its tokenizer tokens */
        *flags = HY_GRAM_TOK_NEVER;
        return HY_OK;
    }
    uint32_t f = hy_tok_flags_of(c->tok, id);
    if (f & HY_TOK_CONTROL) *flags = HY_GRAM_TOK_CONTROL;
    if (f & (HY_TOK_UNKNOWN | HY_TOK_UNUSED)) *flags = HY_GRAM_TOK_NEVER;
    return hy_tok_piece(c->tok, id, true, out, err);
}

static hy_status open_vocab(hy_engine *e, hy_err *err)
{
    hy_core *c = e->core;
    uint32_t n_vocab = c->model->hp.n_vocab, n_end = 0;
    int32_t end[64];
    for (uint32_t i = 0; i < HY_MIN(n_vocab, hy_tok_n_vocab(c->tok)) && n_end < HY_COUNT(end); i++)
        if (hy_tok_is_end(c->tok, (int32_t)i)) end[n_end++] = (int32_t)i;
    const hy_gram_vocab_source src = { .n_vocab = n_vocab, .piece = piece, .ctx = c, .end = end, .n_end = n_end };
    HY_TRY(hy_gram_vocab_open(&e->vocab, &src, err));
    HY_SET(e->c_guide_bytes, hy_gram_vocab_bytes(e->vocab));
    return HY_OK;
}

hy_status hy_guide_compile(hy_engine *e, const hy_guide *g, hy_gram **out, hy_err *err)
{
    static const hy_gram_kind kinds[] = { [HY_GUIDE_JSON_OBJECT] = HY_GRAM_JSON_OBJECT,
                                          [HY_GUIDE_JSON_SCHEMA] = HY_GRAM_JSON_SCHEMA,
                                          [HY_GUIDE_REGEX] = HY_GRAM_REGEX, [HY_GUIDE_GBNF] = HY_GRAM_GBNF };
    *out = NULL;
    if (g->kind == HY_GUIDE_NONE) return HY_OK;
    if (g->kind < HY_GUIDE_NONE || g->kind > HY_GUIDE_GBNF)
        return hy_fail(err, HY_E_ARG, "guide: kind %d is not known", (int)g->kind);
    if (g->kind != HY_GUIDE_JSON_OBJECT && !g->text) return hy_fail(err, HY_E_ARG, "guide: no text");
    const hy_gram_source src = { .kind = kinds[g->kind], .text = g->text ? g->text : "", .n = g->text ? g->n_text : 0,
                                 .schemas_json = g->schemas, .n_schemas = g->schemas ? g->n_schemas : 0 };
    hy_status s = hy_gram_compile(out, &src, err);
    if (s == HY_E_LIMIT) { /* a guide too large; at the door this code speaks of the context */
        s = HY_E_UNSUPPORTED;
        if (err) err->code = s;
    }
    if (s != HY_OK) return s;
    pthread_mutex_lock(&e->vocab_lock);
    if (!e->vocab) s = open_vocab(e, err);
    pthread_mutex_unlock(&e->vocab_lock);
    if (s != HY_OK) {
        hy_gram_unref(*out);
        *out = NULL;
    }
    return s;
}
