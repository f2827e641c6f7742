/* Arrays: items by place (prefixItems, or the older list form of items), then any number of equal
 * ones; contains as a small grid of counts. */
#include "gram/schema.h"

enum { GRID_MAX = 20000, PREFIX_MAX = 10000 };

typedef struct array {
    hy_sc *sc;
    hy_gc *gc;
    const hy_branch *b;
    size_t n_prefix;
    hy_conds rest;
} array;

static json_t *prefix_of(json_t *s)
{
    json_t *p = json_object_get(s, "prefixItems"), *items = json_object_get(s, "items");
    return p ? p : json_is_array(items) ? items : NULL;
}

static json_t *rest_of(json_t *s)
{
    json_t *items = json_object_get(s, "items");
    if (json_is_array(items)) items = json_object_get(s, "additionalItems");
    return items;
}

/* What the item at place i has to meet; i >= n_prefix: any further one. */
static void item_at(array *a, size_t i, hy_conds *out)
{
    const hy_conds *c = &a->b->c;
    bool anywhere = false;
    for (size_t k = 0; k < c->n; k++) {
        if (c->c[k].kind != C_IS) continue;
        json_t *p = prefix_of(c->c[k].s),
               *s = i < json_array_size(p) ? json_array_get(p, i) : rest_of(c->c[k].s);
        if (s) hy_cond_is(a->sc, out, s);
        anywhere |= s != NULL;
    }
    for (size_t k = 0; !anywhere && k < c->n; k++) {
        json_t *s = c->c[k].kind == C_IS ? json_object_get(c->c[k].s, "unevaluatedItems") : NULL;
        if (s && !c->c[k].types && c->n > 1)
            hy_schema_cannot(a->sc, "unevaluatedItems", "inside allOf, anyOf or $ref");
        if (s) hy_cond_is(a->sc, out, s);
    }
}

static uint32_t emit_item(hy_sc *sc, void *ctx, uint32_t next)
{
    return hy_schema_call(sc, &((array *)ctx)->rest, next);
}

static uint32_t emit_items(array *a, uint32_t next)
{
    hy_gc *gc = a->gc;
    uint32_t min = a->b->min_items, max = a->b->max_items, n = (uint32_t)a->n_prefix;
    uint32_t end = hy_emit_close(a->sc, ']', next), to[2];
    uint32_t open[2], n_open = 0; /* behind the bracket */
    if (n == 0) {
        if (min == 0) open[n_open++] = hy_net_lit(gc, "]", 1, next);
        if (max > 0)
            open[n_open++] =
                emit_item(a->sc, a,
                          hy_emit_more(a->sc, min ? min - 1 : 0, max == HY_NONE ? max : max - 1,
                                       emit_item, a, end));
        return hy_net_lit(gc, "[", 1, hy_emit_space(a->sc, hy_net_split(gc, open, n_open)));
    }
    /* after item n: more, or the end */
    uint32_t after = max < n ? hy_net_fail(gc)
                             : hy_emit_more(a->sc, min > n ? min - n : 0,
                                            max == HY_NONE ? max : max - n, emit_item, a, end);
    for (uint32_t i = n; i-- > 0;) {
        hy_conds c = {0};
        size_t k = 0;
        item_at(a, i, &c);
        uint32_t item = hy_schema_call(a->sc, &c, after);
        if (i == 0) {
            if (min == 0) open[n_open++] = hy_net_lit(gc, "]", 1, next);
            if (max > 0) open[n_open++] = item;
            break;
        }
        if (i >= min && i <= max) to[k++] = end;
        if (i < max) to[k++] = hy_net_lit(gc, ",", 1, hy_emit_space(a->sc, item));
        after = hy_net_split(gc, to, k);
    }
    return hy_net_lit(gc, "[", 1, hy_emit_space(a->sc, hy_net_split(gc, open, n_open)));
}

/* ---- contains -------------------------------------------------------------------------------- */

typedef struct contained {
    json_t *s;
    uint32_t min, max;
} contained;

static uint32_t whole(const json_t *n, uint32_t otherwise)
{
    if (!n) return otherwise;
    double v = json_number_value(n);
    return v >= HY_NONE ? HY_NONE : (uint32_t)v;
}

static bool find_contains(array *a, contained *out)
{
    bool found = false;
    for (size_t i = 0; i < a->b->c.n; i++) {
        if (a->b->c.c[i].kind != C_IS) continue;
        json_t *s = a->b->c.c[i].s, *v = json_object_get(s, "contains");
        if (!v) continue;
        contained c = {v, whole(json_object_get(s, "minContains"), 1),
                       whole(json_object_get(s, "maxContains"), HY_NONE)};
        if (c.min == 0 && c.max == HY_NONE) continue;
        if (found) hy_schema_cannot(a->sc, "contains", "more than one cannot be enforced");
        *out = c;
        found = true;
    }
    return found;
}

/* place(h, t): h hits among t items so far, each as far as it matters. */
static uint32_t emit_contains(array *a, const contained *k, uint32_t next)
{
    hy_gc *gc = a->gc;
    const char *word =
        k->max == HY_NONE && k->min == 1 ? "contains" : "contains (minContains, maxContains)";
    if (a->n_prefix) hy_schema_cannot(a->sc, word, "not together with prefixItems");
    uint32_t min = a->b->min_items, max = a->b->max_items;
    uint64_t nh = (k->max != HY_NONE ? (uint64_t)k->max : k->min) + 1,
             nt = (max != HY_NONE ? (uint64_t)max : min) + 1;
    if (nh * nt > GRID_MAX) hy_schema_cannot(a->sc, word, "counts this large cannot be enforced");
    hy_conds hit = {0}, miss = {0};
    for (size_t i = 0; i < a->rest.n; i++) {
        hy_cond_add(a->sc, &hit, a->rest.c[i]);
        hy_cond_add(a->sc, &miss, a->rest.c[i]);
    }
    hy_cond_is(a->sc, &hit, k->s);
    if (k->max != HY_NONE)
        hy_cond_put(a->sc, &miss, C_NOT, k->s, NULL, NULL); /* else a hit may stay uncounted */
    uint32_t *place = HY_TMP(gc, uint32_t, nh * nt), *edge = HY_TMP(gc, uint32_t, nh * nt);
    uint32_t end = hy_emit_close(a->sc, ']', next);
    for (size_t i = 0; i < nh * nt; i++) { /* first every place with its ways out, to be set */
        uint32_t to[3] = {end, end, end};
        place[i] = hy_net_split(gc, to, 3);
        edge[i] = gc->net->node[place[i]].a;
    }
    uint32_t open[3] = {0};
    for (uint32_t h = 0; h < nh; h++)
        for (uint32_t t = 0; t < nt; t++) {
            size_t i = h * nt + t;
            uint32_t h2 = h + 1 < nh ? h + 1 : k->max != HY_NONE ? HY_NONE : h;
            uint32_t t2 = t + 1 < nt ? t + 1 : max != HY_NONE ? HY_NONE : t;
            bool done = h >= k->min && t >= min;
            uint32_t fail = hy_net_fail(gc), way[2];
            way[0] = t2 == HY_NONE ? fail : hy_schema_call(a->sc, &miss, place[h * nt + t2]);
            way[1] = t2 == HY_NONE || h2 == HY_NONE
                         ? fail
                         : hy_schema_call(a->sc, &hit, place[h2 * nt + t2]);
            if (i == 0) {
                open[0] = done ? hy_net_lit(gc, "]", 1, next) : fail;
                open[1] = way[0];
                open[2] = way[1];
            }
            uint32_t more = hy_net_lit(gc, ",", 1, hy_emit_space(a->sc, hy_net_split(gc, way, 2)));
            uint32_t *e = gc->net->edge + edge[i];
            e[0] = done ? end : fail;
            e[1] = more;
            e[2] = fail;
        }
    return hy_net_lit(gc, "[", 1, hy_emit_space(a->sc, hy_net_split(gc, open, 3)));
}

/* ---- uniqueItems ----------------------------------------------------------------------------- */

enum { UNIQUE_MAX = 8 };

/* Adds v if it meets the branch and is not there yet; false: too many. */
static bool add_value(array *a, const hy_branch *b, json_t *v, json_t *out[UNIQUE_MAX], size_t *n)
{
    bool ok = true;
    for (size_t j = 0; ok && j < b->c.n; j++) ok = hy_cond_valid(a->sc, v, &b->c.c[j]);
    for (size_t j = 0; ok && j < *n; j++) ok = !hy_json_same(a->sc->gc, v, out[j]);
    if (!ok) return true;
    if (*n == UNIQUE_MAX) return false;
    out[(*n)++] = v;
    return true;
}

/* The values that an item may be, where they are few; 0: not known to be few. */
static size_t few_values(array *a, json_t *out[UNIQUE_MAX])
{
    hy_conds *br;
    size_t n = 0, n_br = hy_schema_expand(a->sc, &a->rest, false, &br);
    for (size_t i = 0; i < n_br; i++) {
        hy_branch b;
        bool ok = true;
        if (!hy_schema_gather(a->sc, &br[i], &b)) continue;
        if (!b.finite && b.types & ~(uint32_t)(T_NULL | T_BOOL)) return 0;
        if (!b.finite) {
            json_t *each[] = { json_null(), json_true(), json_false() };
            for (size_t k = 0; k < HY_COUNT(each); k++) ok &= add_value(a, &b, each[k], out, &n);
        }
        size_t m = b.finite_list ? json_array_size(b.finite) : b.finite != NULL;
        for (size_t k = 0; ok && k < m; k++)
            ok = add_value(a, &b, b.finite_list ? json_array_get(b.finite, k) : b.finite, out, &n);
        if (!ok) return 0;
    }
    return n;
}

/* One place for each set of values used. */
static uint32_t emit_unique(array *a, uint32_t next)
{
    hy_gc *gc = a->gc;
    json_t *v[UNIQUE_MAX];
    size_t n = a->n_prefix ? 0 : few_values(a, v);
    if (n == 0)
        hy_schema_cannot(a->sc, "uniqueItems",
                         "items that are not a few constants cannot be kept apart");
    uint32_t min = a->b->min_items, max = a->b->max_items, end = hy_emit_close(a->sc, ']', next);
    hy_conds *one = HY_TMP(gc, hy_conds, n);
    for (size_t i = 0; i < n; i++) {
        json_t *s = json_object();
        if (!s || json_array_append_new(gc->made, s) != 0 || json_object_set(s, "const", v[i]) != 0)
            hy_gc_fail(gc, HY_E_MEMORY, "out of memory");
        hy_cond_is(a->sc, &one[i], s);
    }
    uint32_t *after = HY_TMP(gc, uint32_t, (size_t)1 << n), items = 0;
    for (uint32_t set = 1u << n; set-- > 0;) { /* larger sets first */
        uint32_t used = (uint32_t)__builtin_popcount(set), way[UNIQUE_MAX], to[2], k = 0, m = 0;
        for (uint32_t i = 0; used < max && i < n; i++)
            if (!(set >> i & 1)) way[k++] = hy_schema_call(a->sc, &one[i], after[set | 1u << i]);
        items = hy_net_split(gc, way, k);
        if (used >= min && used <= max) to[m++] = end;
        to[m++] = hy_net_lit(gc, ",", 1, hy_emit_space(a->sc, items));
        after[set] = hy_net_split(gc, to, m);
    }
    uint32_t open[2] = {items, hy_net_lit(gc, "]", 1, next)};
    return hy_net_lit(gc, "[", 1, hy_emit_space(a->sc, hy_net_split(gc, open, min ? 1 : 2)));
}

uint32_t hy_emit_array(hy_sc *sc, hy_branch *b, uint32_t next)
{
    array a = {.sc = sc, .gc = sc->gc, .b = b};
    for (size_t i = 0; i < b->c.n; i++)
        if (b->c.c[i].kind == C_IS)
            a.n_prefix = HY_MAX(a.n_prefix, json_array_size(prefix_of(b->c.c[i].s)));
    if (a.n_prefix > PREFIX_MAX)
        hy_gc_fail(a.gc, HY_E_LIMIT, "prefixItems: more than %d", PREFIX_MAX);
    item_at(&a, a.n_prefix, &a.rest);
    contained k = {0};
    bool contains = find_contains(&a, &k);
    if (b->unique && b->max_items > 1) {
        if (contains) hy_schema_cannot(sc, "uniqueItems", "not together with contains");
        return emit_unique(&a, next);
    }
    return contains ? emit_contains(&a, &k, next) : emit_items(&a, next);
}
