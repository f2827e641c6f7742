/* JSON Schema: finding what $ref names, checking words, rules for sets of conditions. */
#include "gram/schema.h"
#include <stdlib.h>

enum { RULES_MAX = 50000 };

void hy_schema_cannot(hy_sc *sc, const char *key, const char *why)
{
    hy_gc_fail(sc->gc, HY_E_UNSUPPORTED, "%s: %s", key, why);
}

void hy_schema_bad(hy_sc *sc, const char *key, const char *why)
{
    hy_gc_fail(sc->gc, HY_E_ARG, "%s: %s", key, why);
}

void hy_cond_add(hy_sc *sc, hy_conds *l, hy_cond c)
{
    for (size_t i = 0; i < l->n; i++)
        if (memcmp(&l->c[i], &c, sizeof c) == 0) return;
    hy_gc_spend(sc->gc, 10 + l->n);
    l->c = hy_gc_grow(sc->gc, l->c, l->n, &l->cap, sizeof *l->c);
    l->c[l->n++] = c;
}

void hy_cond_put(hy_sc *sc, hy_conds *l, hy_ckind kind, json_t *s, const char *key,
                 const char *name)
{
    hy_cond c;
    memset(&c, 0, sizeof c); /* compared as bytes */
    c.kind = kind;
    c.s = s;
    c.key = key;
    c.name = name;
    hy_cond_add(sc, l, c);
}

void hy_cond_is(hy_sc *sc, hy_conds *l, json_t *s) { hy_cond_put(sc, l, C_IS, s, NULL, NULL); }

void hy_cond_types(hy_sc *sc, hy_conds *l, uint32_t types)
{
    hy_cond c;
    memset(&c, 0, sizeof c);
    c.kind = C_TYPES;
    c.types = types;
    hy_cond_add(sc, l, c);
}

/* ---- $ref ---------------------------------------------------------------------------------------
 */

static json_t *anchor(hy_sc *sc, json_t *s, const char *name)
{
    json_t *found = NULL, *v;
    const char *key;
    size_t i;
    hy_gc_enter(sc->gc);
    if (json_is_object(s)) {
        const char *a = json_string_value(json_object_get(s, "$anchor"));
        if (a && strcmp(a, name) == 0) found = s;
        if (!found) json_object_foreach(s, key, v)
            {
                hy_gc_spend(sc->gc, 10);
                if (strcmp(key, "enum") == 0 || strcmp(key, "const") == 0) continue;
                if ((found = anchor(sc, v, name))) break;
            }
    } else if (json_is_array(s)) {
        json_array_foreach(s, i, v) if ((found = anchor(sc, v, name))) break;
    }
    hy_gc_leave(sc->gc);
    return found;
}

/* One token of a JSON pointer (RFC 6901) in a URI fragment; advances *p behind it. */
static char *pointer_token(hy_sc *sc, const char **p)
{
    size_t n = strcspn(*p, "/");
    char *out = HY_TMP(sc->gc, char, n + 1), *o = out;
    for (const char *s = *p; s < *p + n; s++) {
        char hex[3] = {0};
        char *end;
        if (*s == '%' && s + 2 < *p + n + 1 && s[1] && s[2]) {
            memcpy(hex, s + 1, 2);
            char c = (char)strtol(hex, &end, 16);
            if (*end == 0) {
                *o++ = c;
                s += 2;
                continue;
            }
        }
        *o++ = *s;
    }
    *o = 0;
    char *w = out;
    for (o = out; *o; o++) {
        if (*o == '~' && (o[1] == '0' || o[1] == '1'))
            *w++ = *++o == '0' ? '~' : '/';
        else
            *w++ = *o;
    }
    *w = 0;
    *p += n;
    return out;
}

json_t *hy_schema_ref(hy_sc *sc, const char *ref)
{
    const char *id = json_string_value(json_object_get(sc->root, "$id")), *p = ref;
    size_t n = id ? strcspn(id, "#") : 0;
    if (*p != '#' && id && strncmp(p, id, n) == 0 && (p[n] == '#' || p[n] == 0)) p += n;
    if (*p == 0 && p != ref) return sc->root;
    if (*p != '#')
        hy_gc_fail(sc->gc, HY_E_UNSUPPORTED, "$ref: '%.100s' is not in this document (#/... is)",
                   ref);
    p++;
    json_t *at = sc->root;
    if (*p && *p != '/') {
        at = anchor(sc, at, p);
        if (!at) hy_gc_fail(sc->gc, HY_E_ARG, "$ref: there is no '%.100s'", ref);
        return at;
    }
    while (*p == '/') {
        p++;
        const char *key = pointer_token(sc, &p);
        if (json_is_array(at)) {
            char *end;
            unsigned long i = strtoul(key, &end, 10);
            at = *key && !*end ? json_array_get(at, i) : NULL;
        } else {
            at = json_object_get(at, key);
        }
        if (!at) hy_gc_fail(sc->gc, HY_E_ARG, "$ref: there is no '%.100s'", ref);
    }
    return at;
}

/* ---- words well formed ----------------------------------------------------------------------- */

static bool is_schema(const json_t *s) { return json_is_object(s) || json_is_boolean(s); }

static void check_map(hy_sc *sc, json_t *s, const char *word)
{
    json_t *m = json_object_get(s, word), *v;
    const char *key;
    if (!m) return;
    if (!json_is_object(m)) hy_schema_bad(sc, word, "an object is expected");
    json_object_foreach(m, key, v) if (!is_schema(v))
        hy_schema_bad(sc, word, "its members must be schemas");
}

static void check_list(hy_sc *sc, json_t *s, const char *word)
{
    json_t *m = json_object_get(s, word), *v;
    size_t i;
    if (!m) return;
    if (!json_is_array(m) || json_array_size(m) == 0)
        hy_schema_bad(sc, word, "an array, not empty, of schemas is expected");
    json_array_foreach(m, i, v) if (!is_schema(v))
        hy_schema_bad(sc, word, "its items must be schemas");
}

static void check_names(hy_sc *sc, json_t *m, const char *word)
{
    json_t *v;
    size_t i;
    if (!json_is_array(m)) hy_schema_bad(sc, word, "an array of strings is expected");
    json_array_foreach(m, i, v) if (!json_is_string(v))
        hy_schema_bad(sc, word, "an array of strings is expected");
}

static void check_counts(hy_sc *sc, json_t *s, const char *min, const char *max)
{
    const char *word[2] = {min, max};
    double v[2] = {0, 1e300};
    for (int i = 0; i < 2; i++) {
        json_t *n = json_object_get(s, word[i]);
        if (!n) continue;
        v[i] = json_number_value(n);
        if (!json_is_number(n) || v[i] < 0 || v[i] != (double)(uint64_t)HY_MIN(v[i], 1e18))
            if (!json_is_number(n) || v[i] < 1e18)
                hy_schema_bad(sc, word[i], "a whole number >= 0 is expected");
    }
    if (v[0] > v[1])
        hy_gc_fail(sc->gc, HY_E_ARG, "%s %.0f is more than %s %.0f", min, v[0], max, v[1]);
}

static void check_bounds(hy_sc *sc, json_t *s)
{
    static const char *const words[] = {"minimum", "exclusiveMinimum", "maximum",
                                        "exclusiveMaximum", "multipleOf"};
    json_t *n[5];
    for (int i = 0; i < 5; i++) {
        n[i] = json_object_get(s, words[i]);
        if (n[i] && json_is_boolean(n[i]) && (i == 1 || i == 3))
            hy_schema_cannot(sc, words[i],
                             "a number is expected (draft 4's form is not supported)");
        if (n[i] && !json_is_number(n[i])) hy_schema_bad(sc, words[i], "a number is expected");
    }
    if (n[4] && json_number_value(n[4]) <= 0) hy_schema_bad(sc, words[4], "must be greater than 0");
    for (int i = 0; i < 2; i++)
        for (int j = 2; j < 4; j++) {
            if (!n[i] || !n[j]) continue;
            char a[40], b[40];
            hy_decimal x, y;
            hy_number_text(n[i], a);
            hy_number_text(n[j], b);
            if (!hy_decimal_parse(&x, a) || !hy_decimal_parse(&y, b)) continue;
            int c = hy_decimal_cmp(&x, &y);
            if (c > 0 || (c == 0 && (i == 1 || j == 3)))
                hy_gc_fail(sc->gc, HY_E_ARG, "no number meets %s %s and %s %s", words[i], a,
                           words[j], b);
        }
}

static void check_type(hy_sc *sc, json_t *t)
{
    json_t *v;
    size_t i;
    if (json_is_string(t)) {
        if (!hy_type_mask(json_string_value(t)))
            hy_gc_fail(sc->gc, HY_E_ARG, "type: unknown type '%.40s'", json_string_value(t));
        return;
    }
    if (!json_is_array(t) || json_array_size(t) == 0)
        hy_schema_bad(sc, "type", "a name or an array of names is expected");
    json_array_foreach(t, i, v) if (!json_is_string(v) || !hy_type_mask(json_string_value(v)))
        hy_schema_bad(sc, "type", "unknown type in its array");
}

static void check_schemas(hy_sc *sc, json_t *s)
{
    static const char *const one[] = {"not",
                                      "if",
                                      "then",
                                      "else",
                                      "additionalProperties",
                                      "propertyNames",
                                      "contains",
                                      "unevaluatedProperties",
                                      "unevaluatedItems",
                                      "additionalItems"};
    static const char *const list[] = {"allOf", "anyOf", "oneOf", "prefixItems"};
    static const char *const map[] = {"properties", "patternProperties", "dependentSchemas",
                                      "$defs", "definitions"};
    for (size_t i = 0; i < HY_COUNT(one); i++) {
        json_t *v = json_object_get(s, one[i]);
        if (v && !is_schema(v))
            hy_schema_bad(sc, one[i], "a schema (an object or a boolean) is expected");
    }
    for (size_t i = 0; i < HY_COUNT(list); i++) check_list(sc, s, list[i]);
    for (size_t i = 0; i < HY_COUNT(map); i++) check_map(sc, s, map[i]);
    json_t *items = json_object_get(s, "items"), *v;
    size_t i;
    if (items && !is_schema(items) && !json_is_array(items))
        hy_schema_bad(sc, "items", "a schema or an array of schemas is expected");
    if (json_is_array(items))
        json_array_foreach(items, i, v) if (!is_schema(v))
            hy_schema_bad(sc, "items", "its items must be schemas");
}

static bool first_check(hy_sc *sc, json_t *s)
{
    if (sc->n_checked * 2 >= sc->n_checked_slot) {
        size_t n = HY_MAX((size_t)128, sc->n_checked_slot * 2);
        json_t **slot = HY_TMP(sc->gc, json_t *, n);
        for (size_t i = 0; i < sc->n_checked_slot; i++) {
            if (!sc->checked[i]) continue;
            size_t h = hy_hash64(&sc->checked[i], sizeof s, 1) & (n - 1);
            while (slot[h]) h = (h + 1) & (n - 1);
            slot[h] = sc->checked[i];
        }
        sc->checked = slot;
        sc->n_checked_slot = n;
    }
    size_t h = hy_hash64(&s, sizeof s, 1) & (sc->n_checked_slot - 1);
    for (; sc->checked[h]; h = (h + 1) & (sc->n_checked_slot - 1))
        if (sc->checked[h] == s) return false;
    sc->checked[h] = s;
    sc->n_checked++;
    return true;
}

void hy_schema_check(hy_sc *sc, json_t *s)
{
    static const char *const strings[] = {"$ref", "pattern", "format"};
    static const char *const cannot[] = {"$dynamicRef", "$recursiveRef"};
    if (json_is_boolean(s)) return;
    if (!json_is_object(s)) hy_gc_fail(sc->gc, HY_E_ARG, "schema must be an object or a boolean");
    if (!first_check(sc, s)) return;
    hy_gc_spend(sc->gc, 300);
    json_t *v = json_object_get(s, "type");
    if (v) check_type(sc, v);
    v = json_object_get(s, "enum");
    if (v && (!json_is_array(v) || json_array_size(v) == 0))
        hy_schema_bad(sc, "enum", "an array, not empty, is expected");
    v = json_object_get(s, "required");
    if (v) check_names(sc, v, "required");
    for (size_t i = 0; i < HY_COUNT(strings); i++) {
        v = json_object_get(s, strings[i]);
        if (v && !json_is_string(v)) hy_schema_bad(sc, strings[i], "a string is expected");
    }
    for (size_t i = 0; i < HY_COUNT(cannot); i++)
        if (json_object_get(s, cannot[i])) hy_schema_cannot(sc, cannot[i], "not supported");
    v = json_object_get(s, "uniqueItems");
    if (v && !json_is_boolean(v)) hy_schema_bad(sc, "uniqueItems", "a boolean is expected");
    check_counts(sc, s, "minLength", "maxLength");
    check_counts(sc, s, "minItems", "maxItems");
    check_counts(sc, s, "minProperties", "maxProperties");
    check_counts(sc, s, "minContains", "maxContains");
    check_bounds(sc, s);
    check_schemas(sc, s);
    const char *const deps[] = {"dependentRequired", "dependencies"};
    for (size_t i = 0; i < 2; i++) {
        json_t *m = json_object_get(s, deps[i]);
        const char *key;
        if (m && !json_is_object(m)) hy_schema_bad(sc, deps[i], "an object is expected");
        if (m)
            json_object_foreach(m, key, v) if (i == 0 || !is_schema(v)) check_names(sc, v, deps[i]);
    }
}

/* ---- rules ----------------------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b) { return memcmp(a, b, sizeof(hy_cond)); }

static uint64_t key_hash(const hy_conds *k) { return hy_hash64(k->c, k->n * sizeof *k->c, 1); }

uint32_t hy_schema_call(hy_sc *sc, const hy_conds *c, uint32_t next)
{
    hy_gc *gc = sc->gc;
    hy_conds k = {HY_TMP(gc, hy_cond, c->n + 1), c->n, c->n};
    if (c->n) memcpy(k.c, c->c, c->n * sizeof *c->c);
    if (k.n > 1) qsort(k.c, k.n, sizeof *k.c, by_bytes);
    if (sc->n_memo * 2 >= sc->n_slot) {
        uint32_t n = HY_MAX(128u, sc->n_slot * 2);
        sc->slot = HY_TMP(gc, uint32_t, n);
        sc->n_slot = n;
        for (uint32_t i = 0; i < sc->n_memo; i++) {
            uint32_t h = (uint32_t)key_hash(&sc->memo[i].key) & (n - 1);
            while (sc->slot[h]) h = (h + 1) & (n - 1);
            sc->slot[h] = i + 1;
        }
    }
    uint32_t h = (uint32_t)key_hash(&k) & (sc->n_slot - 1);
    for (; sc->slot[h]; h = (h + 1) & (sc->n_slot - 1)) {
        const hy_conds *o = &sc->memo[sc->slot[h] - 1].key;
        if (o->n == k.n && (k.n == 0 || memcmp(o->c, k.c, k.n * sizeof *k.c) == 0))
            return hy_net_call(gc, sc->memo[sc->slot[h] - 1].rule, next);
    }
    if (sc->n_memo >= RULES_MAX)
        hy_gc_fail(gc, HY_E_LIMIT, "schema: more than %d rules", RULES_MAX);
    sc->memo = hy_gc_grow(gc, sc->memo, sc->n_memo, &sc->cap_memo, sizeof *sc->memo);
    sc->memo[sc->n_memo].key = k;
    sc->memo[sc->n_memo].c = (hy_conds){HY_TMP(gc, hy_cond, c->n + 1), c->n, c->n};
    if (c->n) memcpy(sc->memo[sc->n_memo].c.c, c->c, c->n * sizeof *c->c);
    sc->memo[sc->n_memo].rule = hy_net_rule(gc, NULL);
    sc->slot[h] = (uint32_t)++sc->n_memo;
    return hy_net_call(gc, sc->memo[sc->n_memo - 1].rule, next);
}

uint32_t hy_schema_rule(hy_gc *gc, json_t *root, json_t *schema)
{
    hy_sc *sc = HY_TMP(gc, hy_sc, 1);
    const char *outer = gc->what;
    hy_conds c = {0};
    gc->what = NULL;
    sc->gc = gc;
    sc->root = root;
    hy_cond_is(sc, &c, schema);
    uint32_t rule = hy_net_rule(gc, NULL);
    uint32_t first = hy_schema_call(sc, &c, hy_net_ret(gc));
    gc->net->rule[rule] = first;
    while (sc->n_done < sc->n_memo) { /* rules are written one after the other: no recursion */
        size_t i = sc->n_done++;
        hy_conds all = sc->memo[i].c;
        uint32_t to = sc->memo[i].rule;
        first = hy_schema_emit(sc, &all, hy_net_ret(gc));
        gc->net->rule[to] = first;
    }
    gc->what = outer;
    return rule;
}
