/* Objects. The declared names come in the schema's order, optional ones may be left out, free names
 * follow:
 *
 *     {  keys(0) ... keys(i): name i, or (optional) keys(i + 1) ...  }      after(i): "," keys(i),
 * or "}"
 *
 * With minProperties or maxProperties the places are counted as well: keys(i, c), after(i, c). */
#include "gram/schema.h"

/* OPTIONAL_MAX: each is a thread where any of them may come next */
enum { PATTERNS_MAX = 4, GRID_MAX = 100000, OPTIONAL_MAX = 400 };

typedef struct member {
    const char *name;
    bool required;
    uint32_t *value;
} member;
typedef struct free_key {
    hy_dfa *key;
    hy_conds value;
} free_key;
typedef struct object {
    hy_sc *sc;
    hy_gc *gc;
    const hy_branch *b;
    member *m;
    size_t n, cap;
    hy_conds *value; /* [n] what each member has to meet */
    free_key *free;
    size_t n_free, cap_free;
    bool counted;
    uint32_t min, max, next;
} object;

static size_t find(object *o, const char *name)
{
    hy_gc_spend(o->gc, 5 * o->n);
    for (size_t i = 0; i < o->n; i++)
        if (strcmp(o->m[i].name, name) == 0) return i;
    o->m = hy_gc_grow(o->gc, o->m, o->n, &o->cap, sizeof *o->m);
    o->m[o->n] = (member){.name = name};
    return o->n++;
}

static void require(object *o, const char *name)
{
    size_t i = find(o, name);
    o->m[i].required = true;
}

/* The declared names: of the conditions in their order, or (backwards) of the last condition first.
 */
static void collect(object *o, bool backwards)
{
    const hy_conds *c = &o->b->c;
    const char *key;
    json_t *v;
    size_t k;
    for (size_t i = 0; i < c->n; i++) {
        const hy_cond *x = &c->c[backwards ? c->n - 1 - i : i];
        if (x->kind == C_IS)
            json_object_foreach(json_object_get(x->s, "properties"), key, v) find(o, key);
    }
    for (size_t i = 0; i < c->n; i++) {
        const hy_cond *x = &c->c[i];
        if (x->kind == C_PRESENT || (x->kind == C_BREAKS && x->name)) require(o, x->name);
        if (x->kind == C_ABSENT) find(o, x->name);
        if (x->kind == C_IS)
            json_array_foreach(json_object_get(x->s, "required"), k, v)
                require(o, json_string_value(v));
    }
    o->value = HY_TMP(o->gc, hy_conds, o->n + 1);
    for (size_t i = 0; i < o->n; i++) hy_schema_property(o->sc, c, o->m[i].name, &o->value[i]);
}

/* ---- names that are not declared ------------------------------------------------------------- */

static bool says(const hy_conds *c, const char *word)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->c[i].kind == C_IS && json_object_get(c->c[i].s, word)) return true;
    return false;
}

/* Nothing said about further names: closed where names are declared, as those who use schemas to get an
 * answer expect; open where none are, or where the declared ones are too few. */
static bool closed(const object *o)
{
    const hy_conds *c = &o->b->c;
    const char *key;
    json_t *v;
    size_t n = 0;
    if (says(c, "additionalProperties") || says(c, "unevaluatedProperties") ||
        says(c, "propertyNames"))
        return false;
    if (!says(c, "properties") && !says(c, "patternProperties")) return false;
    for (size_t i = 0; i < c->n; i++)
        if (c->c[i].kind == C_IS)
            json_object_foreach(json_object_get(c->c[i].s, "properties"), key, v) n++;
    return n >= o->min;
}

static void check_unevaluated(const object *o)
{
    static const char *const words[] = {"properties", "patternProperties", "additionalProperties",
                                        "unevaluatedProperties"};
    const hy_conds *c = &o->b->c;
    size_t with = 0;
    bool inner = false;
    for (size_t i = 0; i < c->n; i++) {
        if (c->c[i].kind != C_IS) continue;
        bool any = false;
        for (size_t k = 0; k < HY_COUNT(words); k++)
            any |= json_object_get(c->c[i].s, words[k]) != NULL;
        with += any;
        inner |= json_object_get(c->c[i].s, "unevaluatedProperties") && !c->c[i].types;
    }
    if (inner && with > 1)
        hy_schema_cannot(o->sc, "unevaluatedProperties",
                         "inside allOf, anyOf or $ref beside other properties");
}

/* The schemas for a free name that matches exactly the patterns of `set`. */
static void free_value(object *o, const char **pattern, size_t n, uint32_t set, hy_conds *out)
{
    const hy_conds *c = &o->b->c;
    const char *key;
    json_t *v, *w;
    bool anywhere = false;
    for (size_t i = 0; i < c->n; i++) {
        if (c->c[i].kind != C_IS) continue;
        bool known = false;
        json_object_foreach(json_object_get(c->c[i].s, "patternProperties"), key,
                            v) for (size_t k = 0; k < n;
                                    k++) if (set >> k & 1 && strcmp(pattern[k], key) == 0)
        {
            known = true;
            hy_cond_is(o->sc, out, v);
        }
        if (!known && (w = json_object_get(c->c[i].s, "additionalProperties"))) {
            known = true;
            hy_cond_is(o->sc, out, w);
        }
        anywhere |= known;
    }
    for (size_t i = 0; !anywhere && i < c->n; i++)
        if (c->c[i].kind == C_IS && (w = json_object_get(c->c[i].s, "unevaluatedProperties")))
            hy_cond_is(o->sc, out, w);
}

static bool hopeless(object *o, const hy_conds *c) /* contains the schema false */
{
    for (size_t i = 0; i < c->n; i++)
        if (c->c[i].kind == C_IS && json_is_false(c->c[i].s)) return true;
    return false;
}

static void free_names(object *o)
{
    hy_gc *gc = o->gc;
    const hy_conds *c = &o->b->c;
    const char *pattern[PATTERNS_MAX], *key;
    size_t n = 0;
    json_t *v;
    bool shut = closed(o);
    for (size_t i = 0; i < c->n; i++) {
        if (c->c[i].kind != C_IS) continue;
        json_object_foreach(json_object_get(c->c[i].s, "patternProperties"), key, v)
        {
            size_t k = 0;
            while (k < n && strcmp(pattern[k], key) != 0) k++;
            if (k < n) continue;
            if (n == PATTERNS_MAX)
                hy_schema_cannot(o->sc, "patternProperties", "more than 4 patterns");
            pattern[n++] = key;
        }
    }
    if (n == 0 && shut) return;
    hy_ast *names = hy_ast_new(gc, A_ALT);
    for (size_t i = 0; i < o->n; i++)
        hy_ast_add(gc, names, hy_ast_text(gc, o->m[i].name, strlen(o->m[i].name)));
    hy_dfa *rest = hy_dfa_any(gc);
    if (o->n) rest = hy_dfa_minus(gc, rest, hy_dfa_from(gc, names));
    for (size_t i = 0; i < c->n; i++)
        if (c->c[i].kind == C_IS && (v = json_object_get(c->c[i].s, "propertyNames")))
            rest = hy_dfa_and(gc, rest, hy_schema_names(o->sc, v));
    for (uint32_t set = shut; set < 1u << n; set++) {
        hy_conds value = {0};
        free_value(o, pattern, n, set, &value);
        if (hopeless(o, &value)) continue;
        hy_dfa *d = rest;
        for (size_t k = 0; k < n; k++) {
            hy_dfa *p = hy_schema_pattern(o->sc, "patternProperties", pattern[k]);
            d = set >> k & 1 ? hy_dfa_and(gc, d, p) : hy_dfa_minus(gc, d, p);
        }
        if (!d->n_state) continue;
        o->free = hy_gc_grow(gc, o->free, o->n_free, &o->cap_free, sizeof *o->free);
        o->free[o->n_free++] = (free_key){d, value};
    }
}

/* ---- the network ----------------------------------------------------------------------------- */

static uint32_t emit_free(hy_sc *sc, void *ctx, uint32_t next)
{
    object *o = ctx;
    uint32_t *to = HY_TMP(o->gc, uint32_t, o->n_free + 1);
    for (size_t i = 0; i < o->n_free; i++) {
        uint32_t value = hy_schema_call(sc, &o->free[i].value, next);
        uint32_t both[2] = {value, hy_net_lit(o->gc, " ", 1, value)};
        uint32_t colon = hy_net_lit(o->gc, ":", 1, hy_net_split(o->gc, both, 2));
        to[i] =
            hy_net_lit(o->gc, "\"", 1, hy_net_term(o->gc, o->free[i].key, true, 0, HY_NONE, colon));
    }
    return hy_net_split(o->gc, to, o->n_free);
}

/* keys(n, c): one free name and perhaps more, then the end. */
static uint32_t free_keys(object *o, uint32_t c)
{
    if (!o->n_free) return hy_net_fail(o->gc);
    uint32_t end = hy_emit_close(o->sc, '}', o->next), min = 0, max = HY_NONE;
    if (o->counted) {
        if (c >= o->max) return hy_net_fail(o->gc);
        min = o->min > c + 1 ? o->min - c - 1 : 0;
        if (o->max != HY_NONE) max = o->max - c - 1;
        /* a free name may be written twice, and then counts once */
        if (min)
            hy_schema_cannot(o->sc, "minProperties",
                             "more than one name that is not declared cannot be demanded");
    }
    return emit_free(o->sc, o, hy_emit_more(o->sc, min, max, emit_free, o, end));
}

static bool rest_optional(const object *o, size_t i)
{
    for (; i < o->n; i++)
        if (o->m[i].required) return false;
    return true;
}

static bool may_close(const object *o, size_t i, uint32_t c)
{
    return rest_optional(o, i) && (!o->counted || (c >= o->min && c <= o->max));
}

static uint32_t emit_members(object *o)
{
    hy_gc *gc = o->gc;
    size_t width = o->counted ? o->n + 1 : 1; /* column: names written so far */
    if ((o->n + 1) * width > GRID_MAX)
        hy_gc_fail(gc, HY_E_LIMIT, "minProperties, maxProperties: too many properties to count");
    uint32_t *keys = HY_TMP(gc, uint32_t, width), *after = HY_TMP(gc, uint32_t, width + 1);
    uint32_t *keys_up = HY_TMP(gc, uint32_t, width); /* row i + 1 */
    bool open = false;
    for (size_t i = o->n + 1; i-- > 0;) {
        for (size_t c = 0; c < width; c++) {
            uint32_t count = (uint32_t)c, up = o->counted ? (uint32_t)c + 1 : 0, to[2];
            size_t n = 0;
            if (i == o->n) {
                keys[c] = o->counted && c > i ? hy_net_fail(gc) : free_keys(o, count);
                continue;
            }
            if (!(o->counted && (count >= o->max || c >= o->n)))
                to[n++] = hy_emit_key(o->sc, o->m[i].name,
                                      hy_schema_call(o->sc, &o->value[i], after[up]));
            if (!o->m[i].required) to[n++] = keys_up[c];
            keys[c] = hy_net_split(gc, to, n);
        }
        /* after(i, c): name i - 1 or an earlier one was the last; used by row i - 1 */
        for (size_t c = 0; c < width; c++) {
            uint32_t to[2];
            size_t n = 0;
            if (may_close(o, i, (uint32_t)c)) to[n++] = hy_emit_close(o->sc, '}', o->next);
            if (i < o->n || o->n_free)
                to[n++] = hy_net_lit(gc, ",", 1, hy_emit_space(o->sc, keys[c]));
            after[c] = hy_net_split(gc, to, n);
        }
        after[width] = hy_net_fail(gc);
        memcpy(keys_up, keys, width * sizeof *keys);
        open = i == 0 && may_close(o, 0, 0);
    }
    uint32_t to[2], n = 0;
    if (open) to[n++] = hy_net_lit(gc, "}", 1, o->next);
    to[n++] = keys[0];
    return hy_net_lit(gc, "{", 1, hy_emit_space(o->sc, hy_net_split(gc, to, n)));
}

static object start(hy_sc *sc, hy_branch *b, bool backwards, uint32_t next)
{
    object o = {
        .sc = sc, .gc = sc->gc, .b = b, .min = b->min_props, .max = b->max_props, .next = next};
    collect(&o, backwards);
    return o;
}

static uint32_t emit_ordered(object *o)
{
    size_t required = 0, run = 0;
    for (size_t i = 0; i < o->n; i++) {
        required += o->m[i].required;
        run = o->m[i].required ? 0 : run + 1;
        if (run > OPTIONAL_MAX)
            hy_gc_fail(o->gc, HY_E_LIMIT, "properties: more than %d optional ones in a row",
                       OPTIONAL_MAX);
    }
    check_unevaluated(o);
    free_names(o);
    /* bounds that hold anyway need no counting */
    o->counted = o->min > required || (o->max != HY_NONE && (o->n_free || o->max < o->n));
    return emit_members(o);
}

/* Where several schemas (of allOf, $ref, then, ...) name properties, nobody says whose come first:
 * both orders are allowed. */
uint32_t hy_emit_object(hy_sc *sc, hy_branch *b, uint32_t next)
{
    object o = start(sc, b, false, next), back = start(sc, b, true, next);
    bool same = true;
    for (size_t i = 0; i < o.n; i++) same &= strcmp(o.m[i].name, back.m[i].name) == 0;
    uint32_t both[2] = {emit_ordered(&o), 0};
    if (same) return both[0];
    both[1] = emit_ordered(&back);
    return hy_net_split(sc->gc, both, 2);
}
