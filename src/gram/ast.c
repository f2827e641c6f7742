/* Expressions: what regular expressions, grammars and formats are parsed to. */
#include "gram/gram_impl.h"

hy_ast *hy_ast_new(hy_gc *gc, hy_akind kind)
{
    hy_gc_spend(gc, 20);
    hy_ast *a = HY_TMP(gc, hy_ast, 1);
    a->kind = kind;
    return a;
}

void hy_ast_add(hy_gc *gc, hy_ast *a, hy_ast *kid)
{
    a->kid = hy_gc_grow(gc, a->kid, a->n, &a->cap, sizeof *a->kid);
    a->kid[a->n++] = kid;
}

hy_ast *hy_ast_set(hy_gc *gc, const hy_cset *set)
{
    hy_ast *a = hy_ast_new(gc, A_SET);
    a->set = set;
    return a;
}

hy_ast *hy_ast_rep(hy_gc *gc, hy_ast *kid, uint32_t min, uint32_t max)
{
    hy_ast *a = hy_ast_new(gc, A_REP);
    a->min = min;
    a->max = max;
    hy_ast_add(gc, a, kid);
    return a;
}

hy_ast *hy_ast_any(hy_gc *gc)
{
    return hy_ast_rep(gc, hy_ast_set(gc, hy_cset_one(gc, 0, HY_RUNE_MAX)), 0, HY_NONE);
}

hy_ast *hy_ast_text(hy_gc *gc, const char *s, size_t n)
{
    hy_ast *a = hy_ast_new(gc, A_CAT);
    for (size_t i = 0; i < n;) {
        uint32_t rune;
        i += hy_utf8_next(s + i, n - i, &rune);
        if (rune == HY_RUNE_BAD) hy_gc_fail(gc, HY_E_ARG, "not valid UTF-8");
        hy_ast_add(gc, a, hy_ast_set(gc, hy_cset_one(gc, rune, rune)));
    }
    return a;
}

hy_ast *hy_ast_dfa(hy_gc *gc, const hy_dfa *d)
{
    hy_ast *a = hy_ast_new(gc, A_DFA);
    a->dfa = d;
    return a;
}
