/* Guides on their own: does a text follow one? */
#include "core.h"
#include "gram/gram.h"

hy_status hy_tool_match(const hy_guide *guide, const char *const *texts, const size_t *n, uint32_t n_texts,
                        bool *matches, hy_err *err)
{
    static const hy_gram_kind kinds[] = { [HY_GUIDE_JSON_OBJECT] = HY_GRAM_JSON_OBJECT,
                                          [HY_GUIDE_JSON_SCHEMA] = HY_GRAM_JSON_SCHEMA,
                                          [HY_GUIDE_REGEX] = HY_GRAM_REGEX, [HY_GUIDE_GBNF] = HY_GRAM_GBNF };
    if (guide->kind <= HY_GUIDE_NONE || guide->kind > HY_GUIDE_GBNF)
        return hy_fail(err, HY_E_ARG, "guide of kind %d", (int)guide->kind);
    hy_gram_source src = { kinds[guide->kind], guide->text, guide->n_text, guide->schemas, guide->n_schemas };
    hy_gram *g;
    HY_TRY(hy_gram_compile(&g, &src, err));
    hy_status st = HY_OK;
    for (uint32_t i = 0; st == HY_OK && i < n_texts; i++) st = hy_gram_match(g, texts[i], n[i], &matches[i], err);
    hy_gram_unref(g);
    return st;
}
