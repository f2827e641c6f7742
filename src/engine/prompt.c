/* What was asked, as tokens: ids, chat messages or text. */
#include "engine.h"
#include <string.h>

static hy_status given_ids(const hy_core *c, const hy_params *p, hy_ids *ids, hy_err *err)
{
    for (uint32_t i = 0; i < p->n_tokens; i++) {
        if (p->tokens[i] < 0 || (uint32_t)p->tokens[i] >= c->model->hp.n_vocab)
            return hy_fail(err, HY_E_ARG, "tokens[%u]: id %d is not in 0..%u", i, p->tokens[i],
                           c->model->hp.n_vocab - 1);
        if (!hy_ids_put(ids, p->tokens[i])) return hy_fail_memory(err, "prompt", ids->n * 4ull);
    }
    return HY_OK;
}

hy_status hy_prompt_ids(const hy_core *c, const hy_params *p, hy_ids *ids, hy_err *err)
{
    if (p->tokens) return given_ids(c, p, ids, err);
    if (p->chat_json) {
        hy_buf text = { 0 };
        hy_status s = hy_core_chat_ids(c, p->chat_json, p->chat_template, false, &text, ids, err);
        hy_buf_free(&text);
        return s;
    }
    if (!p->prompt) return hy_fail(err, HY_E_ARG, "no prompt was given");
    size_t n = p->n_prompt ? p->n_prompt : strlen(p->prompt);
    return hy_tok_encode(c->tok, p->prompt, n, !p->no_special, !p->no_parse_special, ids, err);
}
