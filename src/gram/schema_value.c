/* Does a value at hand meet a schema? For the values of enum and const, and for names. */
#include "gram/schema.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

uint32_t hy_type_mask(const char *name)
{
    static const struct {
        const char *name;
        uint32_t mask;
    } types[] = {{"null", T_NULL},           {"boolean", T_BOOL}, {"integer", T_INT},
                 {"number", T_INT | T_FRAC}, {"string", T_STR},   {"array", T_ARR},
                 {"object", T_OBJ}};
    for (size_t i = 0; i < HY_COUNT(types); i++)
        if (strcmp(types[i].name, name) == 0) return types[i].mask;
    return 0;
}

uint32_t hy_json_type(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_NULL:
        return T_NULL;
    case JSON_TRUE:
    case JSON_FALSE:
        return T_BOOL;
    case JSON_INTEGER:
        return T_INT;
    case JSON_REAL:
        return floor(json_real_value(v)) == json_real_value(v) ? T_INT : T_FRAC;
    case JSON_STRING:
        return T_STR;
    case JSON_ARRAY:
        return T_ARR;
    default:
        return T_OBJ;
    }
}

void hy_number_text(const json_t *v, char out[40])
{
    if (json_is_integer(v)) {
        snprintf(out, 40, "%lld", (long long)json_integer_value(v));
        return;
    }
    double d = json_real_value(v);
    for (int p = 1; p <= 17; p++) {
        snprintf(out, 40, "%.*g", p, d);
        if (strtod(out, NULL) == d) break;
    }
    for (char *c = out; *c; c++)
        if (*c == ',') *c = '.'; /* a locale's point */
}

static bool number_of(const json_t *v, hy_decimal *d)
{
    char text[40];
    hy_number_text(v, text);
    return hy_decimal_parse(d, text);
}

static bool same(hy_gc *gc, const json_t *a, const json_t *b, int depth)
{
    hy_gc_spend(gc, 10);
    if (depth > HY_GC_DEPTH) return false;
    if (json_is_number(a) && json_is_number(b)) {
        hy_decimal x, y;
        return number_of(a, &x) && number_of(b, &y) && hy_decimal_cmp(&x, &y) == 0;
    }
    if (json_typeof(a) != json_typeof(b)) return false;
    if (json_is_array(a)) {
        if (json_array_size(a) != json_array_size(b)) return false;
        for (size_t i = 0; i < json_array_size(a); i++)
            if (!same(gc, json_array_get(a, i), json_array_get(b, i), depth + 1)) return false;
        return true;
    }
    if (json_is_object(a)) {
        if (json_object_size(a) != json_object_size(b)) return false;
        const char *key;
        json_t *v;
        json_object_foreach((json_t *)a, key, v)
        {
            const json_t *o = json_object_get(b, key);
            if (!o || !same(gc, v, o, depth + 1)) return false;
        }
        return true;
    }
    return json_equal(a, b);
}

bool hy_json_same(hy_gc *gc, const json_t *a, const json_t *b) { return same(gc, a, b, 0); }

/* ---- by type --------------------------------------------------------------------------------- */

static bool compares(const json_t *v, const json_t *bound, int lowest)
{
    hy_decimal x, y;
    if (!number_of(v, &x) || !number_of(bound, &y)) return false;
    return hy_decimal_cmp(&x, &y) >= lowest;
}

static bool number_valid(hy_sc *sc, json_t *v, json_t *s)
{
    json_t *w;
    if ((w = json_object_get(s, "minimum")) && !compares(v, w, 0)) return false;
    if ((w = json_object_get(s, "exclusiveMinimum")) && !compares(v, w, 1)) return false;
    if ((w = json_object_get(s, "maximum")) && !compares(w, v, 0)) return false;
    if ((w = json_object_get(s, "exclusiveMaximum")) && !compares(w, v, 1)) return false;
    if ((w = json_object_get(s, "multipleOf"))) {
        char text[40];
        hy_number n = {.integer = true, .fraction = true, .has_mul = true};
        hy_number_text(v, text);
        if (strpbrk(text, "eE") || !number_of(w, &n.mul))
            hy_schema_cannot(sc, "multipleOf", "a number too large or too small");
        return hy_dfa_match(hy_number_dfa(sc->gc, &n), text, strlen(text));
    }
    return true;
}

static double bound_of(json_t *s, const char *word, double otherwise)
{
    json_t *w = json_object_get(s, word);
    return w ? json_number_value(w) : otherwise;
}

static bool count_in(json_t *s, const char *min, const char *max, size_t n)
{
    return (double)n >= bound_of(s, min, 0) && (double)n <= bound_of(s, max, 1e300);
}

static bool string_valid(hy_sc *sc, json_t *v, json_t *s)
{
    const char *z = json_string_value(v), *w;
    size_t n = json_string_length(v), runes = 0;
    bool known;
    for (size_t i = 0; i < n; i++) runes += ((uint8_t)z[i] & 0xC0) != 0x80;
    if (!count_in(s, "minLength", "maxLength", runes)) return false;
    if ((w = json_string_value(json_object_get(s, "pattern"))) &&
        !hy_dfa_match(hy_schema_pattern(sc, "pattern", w), z, n))
        return false;
    if ((w = json_string_value(json_object_get(s, "format")))) {
        const char *re = hy_format_regex(w, &known);
        if (re && !hy_dfa_match(hy_schema_pattern(sc, "format", w), z, n)) return false;
    }
    return true;
}

static bool array_valid(hy_sc *sc, json_t *v, json_t *s)
{
    size_t n = json_array_size(v), first = 0, hits = 0;
    if (!count_in(s, "minItems", "maxItems", n)) return false;
    json_t *items = json_object_get(s, "items"), *prefix = json_object_get(s, "prefixItems");
    json_t *rest = items;
    if (json_is_array(items)) {
        prefix = items;
        rest = json_object_get(s, "additionalItems");
    }
    for (; first < n && first < json_array_size(prefix); first++)
        if (!hy_schema_valid(sc, json_array_get(v, first), json_array_get(prefix, first)))
            return false;
    if (!rest) rest = json_object_get(s, "unevaluatedItems");
    for (size_t i = first; rest && i < n; i++)
        if (!hy_schema_valid(sc, json_array_get(v, i), rest)) return false;
    if (json_is_true(json_object_get(s, "uniqueItems")))
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < i; j++)
                if (hy_json_same(sc->gc, json_array_get(v, i), json_array_get(v, j))) return false;
    json_t *contains = json_object_get(s, "contains");
    if (!contains) return true;
    for (size_t i = 0; i < n; i++) hits += hy_schema_valid(sc, json_array_get(v, i), contains);
    return (double)hits >= bound_of(s, "minContains", 1) &&
           (double)hits <= bound_of(s, "maxContains", 1e300);
}

static bool member_valid(hy_sc *sc, const char *name, json_t *v, json_t *s)
{
    json_t *sub = json_object_get(json_object_get(s, "properties"), name), *w;
    const char *key;
    bool known = sub != NULL;
    if (sub && !hy_schema_valid(sc, v, sub)) return false;
    json_object_foreach(json_object_get(s, "patternProperties"), key, w)
    {
        if (!hy_dfa_match(hy_schema_pattern(sc, "patternProperties", key), name, strlen(name)))
            continue;
        known = true;
        if (!hy_schema_valid(sc, v, w)) return false;
    }
    sub = json_object_get(s, "additionalProperties");
    return known || !sub || hy_schema_valid(sc, v, sub);
}

static bool object_valid(hy_sc *sc, json_t *v, json_t *s)
{
    json_t *w, *x;
    const char *key;
    size_t i;
    if (!count_in(s, "minProperties", "maxProperties", json_object_size(v))) return false;
    json_array_foreach(json_object_get(s, "required"), i,
                       w) if (!json_object_get(v, json_string_value(w))) return false;
    json_object_foreach(v, key, x) if (!member_valid(sc, key, x, s)) return false;
    if ((w = json_object_get(s, "propertyNames"))) {
        json_object_foreach(v, key, x)
        {
            json_t *name = json_string(key);
            if (!name) hy_gc_fail(sc->gc, HY_E_MEMORY, "out of memory");
            /* handed to the list at once: a failure below must not leave it behind */
            if (json_array_append_new(sc->gc->made, name) != 0)
                hy_gc_fail(sc->gc, HY_E_MEMORY, "out of memory");
            if (!hy_schema_valid(sc, name, w)) return false;
        }
    }
    static const char *const deps[] = {"dependentRequired", "dependentSchemas", "dependencies"};
    for (size_t k = 0; k < HY_COUNT(deps); k++)
        json_object_foreach(json_object_get(s, deps[k]), key, w)
        {
            if (!json_object_get(v, key)) continue;
            if (!json_is_array(w)) {
                if (!hy_schema_valid(sc, v, w)) return false;
                continue;
            }
            json_array_foreach(w, i, x) if (!json_object_get(v, json_string_value(x))) return false;
        }
    if (json_object_get(s, "unevaluatedProperties") &&
        !json_is_true(json_object_get(s, "unevaluatedProperties")))
        hy_schema_cannot(sc, "unevaluatedProperties", "not together with enum or const");
    return true;
}

static bool combined_valid(hy_sc *sc, json_t *v, json_t *s)
{
    json_t *w, *x;
    size_t i, hits = 0;
    if ((w = json_object_get(s, "$ref")) &&
        !hy_schema_valid(sc, v, hy_schema_ref(sc, json_string_value(w))))
        return false;
    json_array_foreach(json_object_get(s, "allOf"), i,
                       x) if (!hy_schema_valid(sc, v, x)) return false;
    if ((w = json_object_get(s, "anyOf"))) {
        json_array_foreach(w, i, x) hits += hy_schema_valid(sc, v, x);
        if (!hits) return false;
    }
    if ((w = json_object_get(s, "oneOf"))) {
        hits = 0;
        json_array_foreach(w, i, x) hits += hy_schema_valid(sc, v, x);
        if (hits != 1) return false;
    }
    if ((w = json_object_get(s, "not")) && hy_schema_valid(sc, v, w)) return false;
    if ((w = json_object_get(s, "if"))) {
        x = json_object_get(s, hy_schema_valid(sc, v, w) ? "then" : "else");
        if (x && !hy_schema_valid(sc, v, x)) return false;
    }
    return true;
}

static bool listed(hy_sc *sc, json_t *v, json_t *s)
{
    json_t *w = json_object_get(s, "const");
    if (w && !hy_json_same(sc->gc, v, w)) return false;
    if (!(w = json_object_get(s, "enum"))) return true;
    if (json_array_get(w, sc->i_value) == v) return true; /* it comes from there */
    for (size_t i = 0; i < json_array_size(w); i++)
        if (hy_json_same(sc->gc, v, json_array_get(w, i))) return true;
    return false;
}

bool hy_schema_valid(hy_sc *sc, json_t *v, json_t *s)
{
    hy_schema_check(sc, s);
    if (json_is_boolean(s)) return json_is_true(s);
    hy_gc_enter(sc->gc);
    uint32_t type = hy_json_type(v), mask = 0;
    json_t *t = json_object_get(s, "type");
    bool ok = true;
    hy_gc_spend(sc->gc, 200);
    if (json_is_string(t)) mask = hy_type_mask(json_string_value(t));
    for (size_t i = 0; i < json_array_size(t); i++)
        mask |= hy_type_mask(json_string_value(json_array_get(t, i)));
    if (t && !(mask & type)) ok = false;
    ok = ok && listed(sc, v, s);
    if (ok && type & (T_INT | T_FRAC)) ok = number_valid(sc, v, s);
    if (ok && type == T_STR) ok = string_valid(sc, v, s);
    if (ok && type == T_ARR) ok = array_valid(sc, v, s);
    if (ok && type == T_OBJ) ok = object_valid(sc, v, s);
    ok = ok && combined_valid(sc, v, s);
    hy_gc_leave(sc->gc);
    return ok;
}

bool hy_cond_valid(hy_sc *sc, json_t *v, const hy_cond *c)
{
    switch (c->kind) {
    case C_IS:
        return hy_schema_valid(sc, v, c->s);
    case C_NOT:
        return !hy_schema_valid(sc, v, c->s);
    case C_TYPES:
        return c->types & hy_json_type(v);
    case C_ABSENT:
        return json_is_object(v) && !json_object_get(v, c->name);
    case C_PRESENT:
        return json_is_object(v) && json_object_get(v, c->name);
    default:
        break;
    }
    if (c->name) { /* the property is there and breaks its schema */
        json_t *x = json_object_get(v, c->name);
        return x && !hy_schema_valid(sc, x,
                                     json_object_get(json_object_get(c->s, "properties"), c->name));
    }
    json_t *only = json_object(); /* the schema of that word alone must not hold */
    if (!only || json_array_append_new(sc->gc->made, only) != 0 ||
        json_object_set(only, c->key, json_object_get(c->s, c->key)) != 0)
        hy_gc_fail(sc->gc, HY_E_MEMORY, "out of memory");
    return !hy_schema_valid(sc, v, only);
}
