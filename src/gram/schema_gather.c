/* What a branch demands, put together per type. */
#include "gram/schema.h"
#include <float.h>

hy_dfa *hy_schema_pattern(hy_sc *sc, const char *key, const char *p)
{
    hy_gc *gc = sc->gc;
    for (size_t i = 0; i < sc->n_pattern; i++)
        if (strcmp(sc->pattern[i].p, p) == 0 && strcmp(sc->pattern[i].key, key) == 0)
            return sc->pattern[i].dfa;
    bool known;
    const char *re = strcmp(key, "format") == 0 ? hy_format_regex(p, &known) : p;
    hy_dfa *d = re ? hy_regex_dfa(gc, key, re, strlen(re), re == p ? HY_RE_SEARCH : HY_RE_FULL)
                   : hy_dfa_any(gc);
    sc->pattern = hy_gc_grow(gc, sc->pattern, sc->n_pattern, &sc->cap_pattern, sizeof *sc->pattern);
    sc->pattern[sc->n_pattern].key = key;
    sc->pattern[sc->n_pattern].p = p;
    sc->pattern[sc->n_pattern++].dfa = d;
    return d;
}

static hy_dfa *any(hy_sc *sc)
{
    if (!sc->any) sc->any = hy_dfa_any(sc->gc);
    return sc->any;
}

static void narrow(hy_sc *sc, hy_branch *b, hy_dfa *d)
{
    b->str = b->str ? hy_dfa_and(sc->gc, b->str, d) : d;
}

static void add_pattern(hy_sc *sc, hy_branch *b, const char *p)
{
    uint32_t min, max;
    hy_dfa *d;
    /* a long count becomes a counter */
    if (hy_regex_simple(sc->gc, "pattern", p, strlen(p), HY_RE_SEARCH, &d, &min, &max) &&
        (min > 100 || (max > 100 && max != HY_NONE))) {
        b->min_len = HY_MAX(b->min_len, min);
        b->max_len = HY_MIN(b->max_len, max);
    } else {
        d = hy_schema_pattern(sc, "pattern", p);
    }
    narrow(sc, b, d);
}

static hy_dfa *format_of(hy_sc *sc, const char *name)
{
    bool known;
    if (hy_format_regex(name, &known)) return hy_schema_pattern(sc, "format", name);
    if (known) hy_gc_fail(sc->gc, HY_E_UNSUPPORTED, "format: '%.40s' cannot be enforced", name);
    return NULL;
}

static uint32_t count_of(const json_t *n, uint32_t most)
{
    double v = json_number_value(n);
    return v >= (double)most ? most : (uint32_t)v;
}

static void lower(hy_sc *sc, hy_branch *b, json_t *n, bool open)
{
    if (json_number_value(n) <= -DBL_MAX) return; /* what generators write for "any finite number" */
    char text[40];
    hy_decimal d;
    hy_number_text(n, text);
    if (!hy_decimal_parse(&d, text)) hy_gc_fail(sc->gc, HY_E_LIMIT, "minimum: too many digits");
    int c = b->num.has_lo ? hy_decimal_cmp(&d, &b->num.lo) : 1;
    if (c > 0 || (c == 0 && open)) {
        b->num.lo = d;
        b->num.open_lo = open;
    }
    b->num.has_lo = true;
}

static void upper(hy_sc *sc, hy_branch *b, json_t *n, bool open)
{
    if (json_number_value(n) >= DBL_MAX) return;
    char text[40];
    hy_decimal d;
    hy_number_text(n, text);
    if (!hy_decimal_parse(&d, text)) hy_gc_fail(sc->gc, HY_E_LIMIT, "maximum: too many digits");
    int c = b->num.has_hi ? hy_decimal_cmp(&d, &b->num.hi) : -1;
    if (c < 0 || (c == 0 && open)) {
        b->num.hi = d;
        b->num.open_hi = open;
    }
    b->num.has_hi = true;
}

static void multiple(hy_sc *sc, hy_branch *b, json_t *n)
{
    char text[40];
    hy_number m = {.integer = true, .fraction = true, .has_mul = true};
    hy_number_text(n, text);
    if (!hy_decimal_parse(&m.mul, text)) hy_schema_cannot(sc, "multipleOf", "too many digits");
    if (!b->num.has_mul) {
        b->num.has_mul = true;
        b->num.mul = m.mul;
        return;
    }
    hy_dfa *d = hy_number_dfa(sc->gc, &m);
    b->num_more = b->num_more ? hy_dfa_and(sc->gc, b->num_more, d) : d;
}

static void exclude(hy_sc *sc, hy_branch *b, json_t *v)
{
    b->excluded =
        hy_gc_grow(sc->gc, b->excluded, b->n_excluded, &b->cap_excluded, sizeof *b->excluded);
    b->excluded[b->n_excluded++] = v;
}

static void families(hy_branch *b, json_t *s)
{
    static const struct {
        const char *word;
        uint32_t types;
    } words[] = {{"properties", T_OBJ},
                 {"required", T_OBJ},
                 {"additionalProperties", T_OBJ},
                 {"patternProperties", T_OBJ},
                 {"propertyNames", T_OBJ},
                 {"minProperties", T_OBJ},
                 {"maxProperties", T_OBJ},
                 {"unevaluatedProperties", T_OBJ},
                 {"dependentRequired", T_OBJ},
                 {"dependentSchemas", T_OBJ},
                 {"dependencies", T_OBJ},
                 {"items", T_ARR},
                 {"prefixItems", T_ARR},
                 {"minItems", T_ARR},
                 {"maxItems", T_ARR},
                 {"uniqueItems", T_ARR},
                 {"contains", T_ARR},
                 {"minLength", T_STR},
                 {"maxLength", T_STR},
                 {"pattern", T_STR},
                 {"format", T_STR},
                 {"minimum", T_INT | T_FRAC},
                 {"maximum", T_INT | T_FRAC},
                 {"exclusiveMinimum", T_INT | T_FRAC},
                 {"exclusiveMaximum", T_INT | T_FRAC},
                 {"multipleOf", T_INT | T_FRAC}};
    for (size_t i = 0; i < HY_COUNT(words); i++)
        if (json_object_get(s, words[i].word)) b->families |= words[i].types;
}

static void gather_is(hy_sc *sc, hy_branch *b, json_t *s)
{
    json_t *v;
    if (json_is_boolean(s)) return;
    families(b, s);
    if ((v = json_object_get(s, "type"))) {
        uint32_t mask = json_is_string(v) ? hy_type_mask(json_string_value(v)) : 0;
        for (size_t i = 0; i < json_array_size(v); i++)
            mask |= hy_type_mask(json_string_value(json_array_get(v, i)));
        b->types &= mask;
        b->typed = true;
    }
    if ((v = json_object_get(s, "const")) && !b->finite) b->finite = v;
    if ((v = json_object_get(s, "enum")) && !b->finite) {
        b->finite = v;
        b->finite_list = true;
    }
    if ((v = json_object_get(s, "minimum"))) lower(sc, b, v, false);
    if ((v = json_object_get(s, "exclusiveMinimum"))) lower(sc, b, v, true);
    if ((v = json_object_get(s, "maximum"))) upper(sc, b, v, false);
    if ((v = json_object_get(s, "exclusiveMaximum"))) upper(sc, b, v, true);
    if ((v = json_object_get(s, "multipleOf"))) multiple(sc, b, v);
    if ((v = json_object_get(s, "minLength")))
        b->min_len = HY_MAX(b->min_len, count_of(v, HY_NONE - 1));
    if ((v = json_object_get(s, "maxLength")))
        b->max_len = HY_MIN(b->max_len, count_of(v, HY_NONE));
    if ((v = json_object_get(s, "minItems")))
        b->min_items = HY_MAX(b->min_items, count_of(v, HY_NONE - 1));
    if ((v = json_object_get(s, "maxItems")))
        b->max_items = HY_MIN(b->max_items, count_of(v, HY_NONE));
    if ((v = json_object_get(s, "minProperties")))
        b->min_props = HY_MAX(b->min_props, count_of(v, HY_NONE - 1));
    if ((v = json_object_get(s, "maxProperties")))
        b->max_props = HY_MIN(b->max_props, count_of(v, HY_NONE));
    b->unique |= json_is_true(json_object_get(s, "uniqueItems"));
    if (b->types & T_STR || !b->typed) {
        if ((v = json_object_get(s, "pattern"))) add_pattern(sc, b, json_string_value(v));
        hy_dfa *d = (v = json_object_get(s, "format")) ? format_of(sc, json_string_value(v)) : NULL;
        if (d) narrow(sc, b, d);
        if (d && strcmp(json_string_value(v), "hostname") == 0)
            b->max_len = HY_MIN(b->max_len, 253u);
    }
}

static uint32_t minus_one(const json_t *n) { return count_of(n, HY_NONE - 1) - 1; }

/* False: the word cannot be broken (no length is below 0). */
static bool gather_break(hy_sc *sc, hy_branch *b, const hy_cond *c)
{
    json_t *v = json_object_get(c->s, c->key);
    const char *k = c->key;
    size_t i;
    json_t *x;
    if (strcmp(k, "enum") == 0) {
        json_array_foreach(v, i, x) exclude(sc, b, x);
        return true;
    }
    if (strcmp(k, "const") == 0) {
        exclude(sc, b, v);
        return true;
    }
    bool max = strstr(k, "ax") != NULL && (k[0] == 'm' || k[0] == 'e');
    if (strcmp(k, "minimum") == 0 || strcmp(k, "maximum") == 0 || strncmp(k, "exclusive", 9) == 0) {
        b->types &= T_INT | T_FRAC;
        (max ? lower : upper)(sc, b, v, k[0] == 'm');
        return true;
    }
    if (strcmp(k, "multipleOf") == 0) {
        char text[40];
        hy_number m = {.integer = true, .fraction = true, .has_mul = true};
        hy_number_text(v, text);
        if (!hy_decimal_parse(&m.mul, text)) hy_schema_cannot(sc, "multipleOf", "too many digits");
        b->types &= T_INT | T_FRAC;
        if (!b->num_not) b->num_not = hy_ast_new(sc->gc, A_ALT);
        hy_ast_add(sc->gc, b->num_not, hy_ast_dfa(sc->gc, hy_number_dfa(sc->gc, &m)));
        return true;
    }
    if (strcmp(k, "pattern") == 0 || strcmp(k, "format") == 0) {
        hy_dfa *d = k[0] == 'p' ? hy_schema_pattern(sc, "pattern", json_string_value(v))
                                : format_of(sc, json_string_value(v));
        b->types &= T_STR;
        if (!d) return false;
        narrow(sc, b, hy_dfa_minus(sc->gc, any(sc), d));
        return true;
    }
    if (strcmp(k, "properties") == 0) {
        b->types &= T_OBJ;
        return true;
    }
    uint32_t *lo = strstr(k, "Length")  ? &b->min_len
                   : strstr(k, "Items") ? &b->min_items
                                        : &b->min_props;
    uint32_t *hi = strstr(k, "Length")  ? &b->max_len
                   : strstr(k, "Items") ? &b->max_items
                                        : &b->max_props;
    b->types &= strstr(k, "Length") ? T_STR : strstr(k, "Items") ? T_ARR : T_OBJ;
    if (!max && json_number_value(v) < 1) return false;
    if (max)
        *lo = HY_MAX(*lo, count_of(v, HY_NONE - 2) + 1);
    else
        *hi = HY_MIN(*hi, minus_one(v));
    return true;
}

bool hy_schema_gather(hy_sc *sc, const hy_conds *c, hy_branch *b)
{
    *b = (hy_branch){
        .c = *c, .types = T_ALL, .max_len = HY_NONE, .max_items = HY_NONE, .max_props = HY_NONE};
    bool object = false;
    for (size_t i = 0; i < c->n; i++) /* types first, so that words of other types cost nothing */
        if (c->c[i].kind == C_TYPES) {
            b->types &= c->c[i].types;
            b->typed = true;
        }
    for (size_t i = 0; i < c->n; i++) {
        const hy_cond *k = &c->c[i];
        if (k->kind == C_IS) gather_is(sc, b, k->s);
        if (k->kind == C_BREAKS && !gather_break(sc, b, k)) return false;
        object |= k->kind == C_ABSENT || k->kind == C_PRESENT;
    }
    if (object) b->types &= T_OBJ;
    if (!b->typed && !b->finite && b->families)
        b->types &= b->families; /* the type its words speak of */
    if (b->min_len > b->max_len) b->types &= ~(uint32_t)T_STR;
    if (b->min_items > b->max_items) b->types &= ~(uint32_t)T_ARR;
    if (b->min_props > b->max_props) b->types &= ~(uint32_t)T_OBJ;
    return b->types != 0;
}

/* ---- languages ------------------------------------------------------------------------------- */

static hy_ast *number_forms(hy_sc *sc,
                            const json_t *v) /* every way to write it without an exponent */
{
    hy_gc *gc = sc->gc;
    char text[48];
    hy_number_text(v, text);
    if (strpbrk(text, "eE"))
        hy_schema_cannot(sc, "not", "a number too large or too small to exclude");
    hy_ast *cat = hy_ast_new(gc, A_CAT), *zeros = hy_ast_set(gc, hy_cset_one(gc, '0', '0'));
    if (strchr(text, '.')) {
        hy_ast_add(gc, cat, hy_ast_text(gc, text, strlen(text)));
        hy_ast_add(gc, cat, hy_ast_rep(gc, zeros, 0, HY_NONE));
        return cat;
    }
    hy_ast *frac = hy_ast_new(gc, A_CAT);
    if (strcmp(text, "0") == 0) hy_ast_add(gc, cat, hy_ast_rep(gc, hy_ast_text(gc, "-", 1), 0, 1));
    hy_ast_add(gc, cat, hy_ast_text(gc, text, strlen(text)));
    hy_ast_add(gc, frac, hy_ast_text(gc, ".", 1));
    hy_ast_add(gc, frac, hy_ast_rep(gc, zeros, 1, HY_NONE));
    hy_ast_add(gc, cat, hy_ast_rep(gc, frac, 0, 1));
    return cat;
}

hy_dfa *hy_schema_number(hy_sc *sc, const hy_branch *b)
{
    hy_number n = b->num;
    hy_gc *gc = sc->gc;
    n.integer = b->types & T_INT;
    n.fraction = b->types & T_FRAC;
    hy_ast *out = hy_ast_new(gc, A_ALT);
    for (size_t i = 0; i < b->n_excluded; i++)
        if (json_is_number(b->excluded[i])) hy_ast_add(gc, out, number_forms(sc, b->excluded[i]));
    if (b->num_not) hy_ast_add(gc, out, b->num_not);
    bool plain = !n.has_lo && !n.has_hi && !n.has_mul && n.integer && !out->n && !b->num_more;
    hy_dfa **kept = n.fraction ? &sc->number_any : &sc->integer_any;
    if (plain && *kept) return *kept;
    hy_dfa *d = hy_number_dfa(gc, &n);
    if (b->num_more) d = hy_dfa_and(gc, d, b->num_more);
    if (out->n) {
        /* without exponents, and without the second way to write zero */
        static const char form[] = "[0-9]+(\\.[0-9]+)?|-(?=[0-9.]*[1-9])[0-9]+(\\.[0-9]+)?";
        d = hy_dfa_and(gc, d, hy_regex_dfa(gc, NULL, form, sizeof form - 1, HY_RE_FULL));
        d = hy_dfa_minus(gc, d, hy_dfa_from(gc, out));
    }
    if (plain) *kept = d;
    return d;
}

hy_dfa *hy_schema_string(hy_sc *sc, hy_branch *b)
{
    hy_gc *gc = sc->gc;
    hy_dfa *d = b->str ? b->str : any(sc);
    hy_ast *out = hy_ast_new(gc, A_ALT);
    for (size_t i = 0; i < b->n_excluded; i++)
        if (json_is_string(b->excluded[i]))
            hy_ast_add(gc, out,
                       hy_ast_text(gc, json_string_value(b->excluded[i]),
                                   json_string_length(b->excluded[i])));
    if (out->n) d = hy_dfa_minus(gc, d, hy_dfa_from(gc, out));
    if (!d->n_state || b->min_len > b->max_len) return hy_dfa_none(gc);
    /* a window of lengths over an automaton: unrolled while small, so that no dead end can be
     * entered */
    uint64_t turns = b->max_len != HY_NONE ? b->max_len : 0;
    if (!hy_dfa_is_any(d) && turns && b->min_len > d->len_min[0] && turns * d->n_state <= 20000) {
        d = hy_dfa_length(gc, d, b->min_len, b->max_len);
        b->min_len = 0;
        b->max_len = HY_NONE;
    }
    return d;
}

hy_dfa *hy_schema_names(hy_sc *sc, json_t *s)
{
    hy_gc *gc = sc->gc;
    hy_conds c = {0}, *br;
    hy_cond_is(sc, &c, s);
    hy_cond_types(sc, &c, T_STR);
    hy_ast *alt = hy_ast_new(gc, A_ALT);
    size_t n = hy_schema_expand(sc, &c, false, &br);
    for (size_t i = 0; i < n; i++) {
        hy_branch b;
        if (!hy_schema_gather(sc, &br[i], &b) || !(b.types & T_STR)) continue;
        if (!b.finite) {
            hy_dfa *d = hy_schema_string(sc, &b);
            if (d->n_state && (b.min_len || b.max_len != HY_NONE))
                d = hy_dfa_length(gc, d, b.min_len, b.max_len);
            hy_ast_add(gc, alt, hy_ast_dfa(gc, d));
            continue;
        }
        size_t m = b.finite_list ? json_array_size(b.finite) : 1;
        for (size_t k = 0; k < m; k++) {
            json_t *v = b.finite_list ? json_array_get(b.finite, k) : b.finite;
            bool ok = json_is_string(v);
            for (size_t j = 0; ok && j < b.c.n; j++) ok = hy_cond_valid(sc, v, &b.c.c[j]);
            if (ok)
                hy_ast_add(gc, alt, hy_ast_text(gc, json_string_value(v), json_string_length(v)));
        }
    }
    return hy_dfa_from(gc, alt);
}

/* ---- the members of an object ---------------------------------------------------------------- */

void hy_schema_property(hy_sc *sc, const hy_conds *c, const char *name, hy_conds *out)
{
    bool anywhere = false; /* evaluated, in the words of the standard */
    for (size_t i = 0; i < c->n; i++) {
        const hy_cond *k = &c->c[i];
        if (k->kind == C_ABSENT && strcmp(k->name, name) == 0) hy_cond_types(sc, out, 0);
        if (k->kind == C_BREAKS && k->name && strcmp(k->name, name) == 0)
            hy_cond_put(sc, out, C_NOT,
                        json_object_get(json_object_get(k->s, "properties"), k->name), NULL, NULL);
        if (k->kind != C_IS || !json_is_object(k->s)) continue;
        json_t *v = json_object_get(json_object_get(k->s, "properties"), name), *w;
        const char *key;
        bool known = v != NULL;
        if (v) hy_cond_is(sc, out, v);
        json_object_foreach(json_object_get(k->s, "patternProperties"), key,
                            w) if (hy_dfa_match(hy_schema_pattern(sc, "patternProperties", key),
                                                name, strlen(name)))
        {
            known = true;
            hy_cond_is(sc, out, w);
        }
        if (!known && (v = json_object_get(k->s, "additionalProperties"))) {
            known = true;
            hy_cond_is(sc, out, v);
        }
        anywhere |= known;
        if ((v = json_object_get(k->s, "propertyNames")) &&
            !hy_dfa_match(hy_schema_names(sc, v), name, strlen(name)))
            hy_cond_types(sc, out, 0);
    }
    for (size_t i = 0; !anywhere && i < c->n; i++) {
        json_t *v =
            c->c[i].kind == C_IS ? json_object_get(c->c[i].s, "unevaluatedProperties") : NULL;
        if (v) hy_cond_is(sc, out, v);
    }
}
