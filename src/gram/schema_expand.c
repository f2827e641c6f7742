/* Conditions -> branches: a disjunctive form of the words that stand in the same place of the
 * value. */
#include "gram/schema.h"
#include <stdio.h>

enum { BRANCHES_MAX = 2000 };

typedef struct item item;
typedef struct alt {
    item *first, *last;
    struct alt *next;
} alt;
struct item {
    hy_cond c;
    alt *choice; /* not NULL: one of these instead of c */
    bool is_choice;
    const char *word; /* C_NOT: the word that asks for it */
    const hy_chain *chain;
    const item *next;
};
typedef struct done {
    hy_cond c;
    const struct done *up;
} done;
typedef struct expansion {
    hy_sc *sc;
    hy_gc *gc;
    bool loose;
    hy_conds *out;
    size_t n_out, cap_out;
} expansion;

static hy_cond cond(hy_ckind kind, json_t *s, const char *key, const char *name)
{
    hy_cond c;
    memset(&c, 0, sizeof c);
    c.kind = kind;
    c.s = s;
    c.key = key;
    c.name = name;
    return c;
}

static hy_cond cond_types(uint32_t types)
{
    hy_cond c = cond(C_TYPES, NULL, NULL, NULL);
    c.types = types;
    return c;
}

/* ---- alternatives ---------------------------------------------------------------------------- */

static void join(expansion *e, alt *a, hy_cond c, const char *word, const hy_chain *chain)
{
    item *i = HY_TMP(e->gc, item, 1);
    i->c = c;
    i->word = word;
    i->chain = chain;
    if (a->last)
        a->last->next = i;
    else
        a->first = i;
    a->last = i;
}

static alt *new_alt(expansion *e, alt **list)
{
    alt *a = HY_TMP(e->gc, alt, 1);
    uint64_t passed = 0;
    for (; *list; list = &(*list)->next) passed++;
    hy_gc_spend(e->gc, 50 + 3 * passed); /* a walk through memory */
    return *list = a;
}

static alt *one_alt(expansion *e, alt **list, hy_cond c, const char *word, const hy_chain *chain)
{
    alt *a = new_alt(e, list);
    join(e, a, c, word, chain);
    return a;
}

static const item *prepend(expansion *e, const alt *a, const item *rest)
{
    /* items are shared between branches: copied, so that each leads to its own rest */
    const item *first = rest;
    item *last = NULL;
    for (const item *i = a->first; i; i = i->next) {
        item *copy = HY_TMP(e->gc, item, 1);
        *copy = *i;
        copy->next = rest;
        if (last)
            last->next = copy;
        else
            first = copy;
        last = copy;
    }
    return first;
}

static const item *with_choice(expansion *e, alt *choice, const item *rest)
{
    item *i = HY_TMP(e->gc, item, 1);
    i->is_choice = true;
    i->choice = choice;
    i->next = rest;
    return i;
}

/* ---- words that are followed ----------------------------------------------------------------- */

static bool apart(expansion *e, json_t *a, json_t *b, int depth)
{
    hy_conds both = {0};
    hy_cond_is(e->sc, &both, a);
    hy_cond_is(e->sc, &both, b);
    return hy_schema_empty(e->sc, &both, depth);
}

static alt *choose_one(expansion *e, json_t *list, const hy_chain *chain)
{
    alt *choice = NULL;
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++) {
        json_t *s = json_array_get(list, i);
        alt *a = one_alt(e, &choice, cond(C_IS, s, NULL, NULL), NULL, chain);
        if (e->loose) continue;
        for (size_t j = 0; j < n; j++)
            if (j != i && !apart(e, s, json_array_get(list, j), 3))
                join(e, a, cond(C_NOT, json_array_get(list, j), NULL, NULL), "oneOf", chain);
    }
    return choice;
}

static alt *depends(expansion *e, const char *name, json_t *then, const hy_chain *chain)
{
    alt *choice = NULL;
    one_alt(e, &choice, cond(C_ABSENT, NULL, NULL, name), NULL, chain);
    alt *a = one_alt(e, &choice, cond(C_PRESENT, NULL, NULL, name), NULL, chain);
    if (json_is_array(then)) {
        for (size_t i = 0; i < json_array_size(then); i++)
            join(e, a, cond(C_PRESENT, NULL, NULL, json_string_value(json_array_get(then, i))),
                 NULL, chain);
    } else {
        join(e, a, cond(C_IS, then, NULL, NULL), NULL, chain);
    }
    one_alt(e, &choice, cond_types(T_ALL & ~(uint32_t)T_OBJ), NULL, chain);
    return choice;
}

static alt *conditional(expansion *e, json_t *s, const hy_chain *chain)
{
    json_t *cond_if = json_object_get(s, "if"), *then = json_object_get(s, "then"),
           *other = json_object_get(s, "else");
    alt *choice = NULL;
    alt *a = one_alt(e, &choice, cond(C_IS, cond_if, NULL, NULL), NULL, chain);
    if (then) join(e, a, cond(C_IS, then, NULL, NULL), NULL, chain);
    a = one_alt(e, &choice, cond(C_NOT, cond_if, NULL, NULL), "if", chain);
    if (other) join(e, a, cond(C_IS, other, NULL, NULL), NULL, chain);
    return choice;
}

static const item *follow(expansion *e, json_t *s, const hy_chain *chain, const item *rest)
{
    json_t *v, *sub;
    const char *key;
    size_t i;
    static const char *const deps[] = {"dependentRequired", "dependentSchemas", "dependencies"};
    for (size_t k = 0; k < HY_COUNT(deps); k++)
        if ((v = json_object_get(s, deps[k])))
            json_object_foreach(v, key, sub) rest =
                with_choice(e, depends(e, key, sub, chain), rest);
    if ((v = json_object_get(s, "if")) &&
        (json_object_get(s, "then") || json_object_get(s, "else")))
        rest = with_choice(e, conditional(e, s, chain), rest);
    if ((v = json_object_get(s, "oneOf"))) rest = with_choice(e, choose_one(e, v, chain), rest);
    if ((v = json_object_get(s, "anyOf"))) {
        alt *choice = NULL;
        json_array_foreach(v, i, sub) one_alt(e, &choice, cond(C_IS, sub, NULL, NULL), NULL, chain);
        rest = with_choice(e, choice, rest);
    }
    alt all = {0};
    if ((v = json_object_get(s, "$ref")))
        join(e, &all, cond(C_IS, hy_schema_ref(e->sc, json_string_value(v)), NULL, NULL), NULL,
             chain);
    if ((v = json_object_get(s, "allOf")))
        json_array_foreach(v, i, sub) join(e, &all, cond(C_IS, sub, NULL, NULL), NULL, chain);
    if ((v = json_object_get(s, "not"))) join(e, &all, cond(C_NOT, v, NULL, NULL), "not", chain);
    return prepend(e, &all, rest);
}

/* ---- negation: one way to break a word for each alternative ---------------------------------- */

static uint32_t types_of(json_t *t)
{
    uint32_t mask = 0;
    if (json_is_string(t)) return hy_type_mask(json_string_value(t));
    for (size_t i = 0; i < json_array_size(t); i++)
        mask |= hy_type_mask(json_string_value(json_array_get(t, i)));
    return mask;
}

static bool breakable(const char *key)
{
    static const char *const words[] = {"enum",
                                        "const",
                                        "minimum",
                                        "maximum",
                                        "exclusiveMinimum",
                                        "exclusiveMaximum",
                                        "minLength",
                                        "maxLength",
                                        "pattern",
                                        "format",
                                        "minItems",
                                        "maxItems",
                                        "minProperties",
                                        "maxProperties", "multipleOf"};
    for (size_t i = 0; i < HY_COUNT(words); i++)
        if (strcmp(words[i], key) == 0) return true;
    return false;
}

/* Words whose breach is no matter of the value itself; true: nothing else is known of the word. */
static bool ignorable(const char *key, json_t *v)
{
    static const char *const hard[] = {
        "items",         "prefixItems",           "additionalItems",
        "contains",      "minContains",           "maxContains",
        "uniqueItems",   "additionalProperties",  "patternProperties",
        "propertyNames", "unevaluatedProperties", "unevaluatedItems",    "dependentSchemas",      "dependencies"};
    for (size_t i = 0; i < HY_COUNT(hard); i++)
        if (strcmp(hard[i], key) == 0)
            return json_is_true(v) ? strcmp(key, "uniqueItems") != 0 && strcmp(key, "contains") != 0
                                   : json_is_false(v) && strcmp(key, "uniqueItems") == 0;
    return true;
}

static void break_word(expansion *e, alt **choice, json_t *s, const char *key, json_t *v,
                       const item *from)
{
    const hy_chain *chain = from->chain;
    const char *word = from->word, *name;
    json_t *sub;
    size_t i;
    if (strcmp(key, "$ref") == 0) {
        one_alt(e, choice, cond(C_NOT, hy_schema_ref(e->sc, json_string_value(v)), NULL, NULL),
                word, chain);
    } else if (strcmp(key, "allOf") == 0) {
        json_array_foreach(v, i, sub) one_alt(e, choice, cond(C_NOT, sub, NULL, NULL), word, chain);
    } else if (strcmp(key, "anyOf") == 0 || strcmp(key, "oneOf") == 0) {
        alt *a = new_alt(e, choice);
        json_array_foreach(v, i, sub)
        {
            join(e, a, cond(C_NOT, sub, NULL, NULL), word, chain);
            for (size_t j = 0; key[0] == 'o' && j < i; j++)
                if (!apart(e, sub, json_array_get(v, j), 3))
                    hy_schema_cannot(e->sc, word,
                                     "the negation of an overlapping oneOf cannot be enforced");
        }
    } else if (strcmp(key, "not") == 0) {
        one_alt(e, choice, cond(C_IS, v, NULL, NULL), NULL, chain);
    } else if (strcmp(key, "if") == 0) {
        json_t *then = json_object_get(s, "then"), *other = json_object_get(s, "else");
        if (then)
            join(e, one_alt(e, choice, cond(C_IS, v, NULL, NULL), NULL, chain),
                 cond(C_NOT, then, NULL, NULL), word, chain);
        if (other)
            join(e, one_alt(e, choice, cond(C_NOT, v, NULL, NULL), word, chain),
                 cond(C_NOT, other, NULL, NULL), word, chain);
    } else if (strcmp(key, "type") == 0) {
        one_alt(e, choice, cond_types(T_ALL & ~types_of(v)), NULL, chain);
    } else if (strcmp(key, "required") == 0) {
        json_array_foreach(v, i, sub)
            one_alt(e, choice, cond(C_ABSENT, NULL, NULL, json_string_value(sub)), NULL, chain);
    } else if (strcmp(key, "properties") == 0) {
        json_object_foreach(v, name, sub) if (!json_is_true(sub))
            one_alt(e, choice, cond(C_BREAKS, s, "properties", name), word, chain);
    } else if (strcmp(key, "dependentRequired") == 0) {
        json_object_foreach(v, name, sub) for (i = 0; i < json_array_size(sub); i++) join(
            e, one_alt(e, choice, cond(C_PRESENT, NULL, NULL, name), NULL, chain),
            cond(C_ABSENT, NULL, NULL, json_string_value(json_array_get(sub, i))), NULL, chain);
    } else if (breakable(key)) {
        one_alt(e, choice, cond(C_BREAKS, s, key, NULL), word, chain);
    } else if (!ignorable(key, v)) {
        char why[120];
        snprintf(why, sizeof why, "the negation of %s cannot be enforced", key);
        hy_schema_cannot(e->sc, word, why);
    }
}

/* ---- the walk -------------------------------------------------------------------------------- */

static void put_branch(expansion *e, const done *d)
{
    if (e->n_out >= BRANCHES_MAX)
        hy_gc_fail(e->gc, HY_E_LIMIT, "anyOf, oneOf, allOf: more than %d combinations",
                   BRANCHES_MAX);
    hy_conds c = {0}, r = {0};
    for (; d; d = d->up) hy_cond_add(e->sc, &r, d->c);
    for (size_t i = r.n; i-- > 0;) hy_cond_add(e->sc, &c, r.c[i]);
    e->out = hy_gc_grow(e->gc, e->out, e->n_out, &e->cap_out, sizeof *e->out);
    e->out[e->n_out++] = c;
}

static void enter_chain(expansion *e, json_t *s, const hy_chain *chain)
{
    size_t n = 0;
    for (; chain; chain = chain->up, n++)
        if (chain->s == s)
            hy_gc_fail(e->gc, HY_E_ARG,
                       "$ref: a schema refers to itself and never comes to an end");
    hy_gc_spend(e->gc, n);
}

static void walk(expansion *e, const item *todo, const done *d)
{
    hy_gc_enter(e->gc);
    for (; todo;) {
        const item *i = todo;
        hy_gc_spend(e->gc, 100);
        if (i->is_choice) {
            for (const alt *a = i->choice; a; a = a->next) walk(e, prepend(e, a, i->next), d);
            break;
        }
        if (i->c.kind != C_IS && i->c.kind != C_NOT) {
            done *more = HY_TMP(e->gc, done, 1);
            *more = (done){i->c, d};
            d = more;
            todo = i->next;
            continue;
        }
        json_t *s = i->c.s;
        bool negative = i->c.kind == C_NOT;
        hy_schema_check(e->sc, s);
        if (json_is_boolean(s)) {
            if (json_is_true(s) == negative) break; /* nothing meets this */
            todo = i->next;
            continue;
        }
        enter_chain(e, s, i->chain);
        hy_chain *chain = HY_TMP(e->gc, hy_chain, 1);
        *chain = (hy_chain){s, i->chain};
        if (!negative) {
            done *more = HY_TMP(e->gc, done, 1);
            *more = (done){i->c, d};
            more->c.types = i->chain == NULL; /* not reached through another */
            d = more;
            todo = follow(e, s, chain, i->next);
            continue;
        }
        if (e->loose) { /* leaving a condition out allows more */
            todo = i->next;
            continue;
        }
        item at = *i;
        at.chain = chain;
        alt *choice = NULL;
        const char *key;
        json_t *v;
        json_object_foreach(s, key, v) break_word(e, &choice, s, key, v, &at);
        todo = with_choice(e, choice, i->next);
    }
    if (!todo) put_branch(e, d);
    hy_gc_leave(e->gc);
}

size_t hy_schema_expand(hy_sc *sc, const hy_conds *c, bool loose, hy_conds **branches)
{
    expansion e = {.sc = sc, .gc = sc->gc, .loose = loose};
    alt all = {0};
    for (size_t i = 0; i < c->n; i++) join(&e, &all, c->c[i], "not", NULL);
    walk(&e, prepend(&e, &all, NULL), NULL);
    *branches = e.out;
    return e.n_out;
}

/* ---- surely empty ---------------------------------------------------------------------------- */

static bool required_fails(hy_sc *sc, const hy_branch *b, int depth)
{
    for (size_t i = 0; i < b->c.n; i++) {
        const hy_cond *c = &b->c.c[i];
        json_t *req = c->kind == C_IS ? json_object_get(c->s, "required") : NULL;
        size_t n =
            c->kind == C_PRESENT || (c->kind == C_BREAKS && c->name) ? 1 : json_array_size(req);
        for (size_t k = 0; k < n; k++) {
            const char *name =
                c->kind == C_IS ? json_string_value(json_array_get(req, k)) : c->name;
            hy_conds sub = {0};
            hy_schema_property(sc, &b->c, name, &sub);
            if (hy_schema_empty(sc, &sub, depth - 1)) return true;
        }
    }
    return false;
}

bool hy_schema_empty(hy_sc *sc, const hy_conds *c, int depth)
{
    hy_conds *br;
    if (depth <= 0) return false;
    size_t n = hy_schema_expand(sc, c, true, &br);
    for (size_t i = 0; i < n; i++) {
        hy_branch b;
        if (!hy_schema_gather(sc, &br[i], &b)) continue;
        uint32_t t = b.types;
        if (b.finite) {
            size_t m = b.finite_list ? json_array_size(b.finite) : 1;
            bool any = false;
            for (size_t k = 0; k < m && !any; k++) {
                json_t *v = b.finite_list ? json_array_get(b.finite, k) : b.finite;
                any = true;
                for (size_t j = 0; j < b.c.n; j++) any &= hy_cond_valid(sc, v, &b.c.c[j]);
            }
            if (any) return false;
            continue;
        }
        if (t & ~(uint32_t)(T_INT | T_FRAC | T_STR | T_OBJ)) return false;
        if (t & (T_INT | T_FRAC) && hy_schema_number(sc, &b)->n_state) return false;
        if (t & T_STR && hy_schema_string(sc, &b)->n_state) return false;
        if (t & T_OBJ && !required_fails(sc, &b, depth)) return false;
    }
    return true;
}
