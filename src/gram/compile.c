/* Source -> grammar. */
#include "gram/gram_impl.h"

enum { KEEP_BYTES = 64 << 20, TMP_BYTES = 256 << 20 };

static void regex(hy_gc *gc, const char *s, size_t n)
{
    uint32_t rule = hy_net_rule(gc, "root"), min, max;
    hy_dfa *d;
    uint32_t ret = hy_net_ret(gc), first;
    if (hy_regex_simple(gc, "regex", s, n, HY_RE_FULL, &d, &min, &max) &&
        (min > 100 || (max > 100 && max != HY_NONE)))
        first = hy_net_term(gc, d, false, min, max, ret);
    else
        first =
            hy_net_term(gc, hy_regex_dfa(gc, "regex", s, n, HY_RE_FULL), false, 0, HY_NONE, ret);
    gc->net->rule[rule] = first;
}

static void build(hy_gc *gc, const hy_gram_source *src, json_t *schema)
{
    switch (src->kind) {
    case HY_GRAM_JSON_OBJECT:
    case HY_GRAM_JSON_SCHEMA:
        hy_schema_rule(gc, schema, schema);
        break;
    case HY_GRAM_REGEX:
        regex(gc, src->text, src->n);
        break;
    default:
        gc->what = "grammar";
        hy_gbnf_compile(gc, src->text, src->n, schema);
    }
    hy_net_finish(gc, src->kind == HY_GRAM_REGEX  ? "the expression"
                      : src->kind == HY_GRAM_GBNF ? "the grammar"
                                                  : "the schema");
}

/* JSON of a schema; whole numbers too large for 64 bits are read as floating point. */
static hy_status parse_json(const char *what, const char *s, size_t n, json_t **out, hy_err *err)
{
    json_error_t e;
    if (hy_json_parse(what, s, n, out, err) == HY_OK) return HY_OK;
    *out =
        json_loadb(n ? s : "", n, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &e);
    if (*out) return HY_OK;
    hy_status st = hy_json_parse(what, s, n, out, err);
    return st == HY_E_FORMAT ? hy_fail(err, HY_E_ARG, "%s: not JSON: line %d, column %d: %s", what,
                                       e.line, e.column, e.text)
                             : st;
}

static hy_status read_schemas(const hy_gram_source *src, json_t **out, hy_err *err)
{
    *out = NULL;
    if (src->kind == HY_GRAM_JSON_OBJECT)
        return parse_json("schema", "{\"type\":\"object\"}", 17, out, err);
    if (src->kind == HY_GRAM_JSON_SCHEMA) return parse_json("schema", src->text, src->n, out, err);
    if (src->kind != HY_GRAM_GBNF || !src->schemas_json) return HY_OK;
    HY_TRY(parse_json("schemas", src->schemas_json, src->n_schemas, out, err));
    return json_is_object(*out)
               ? HY_OK
               : hy_fail(err, HY_E_ARG, "schemas: an object, name -> schema, is expected");
}

static hy_status compile(hy_gram *g, const hy_gram_source *src, hy_err *err)
{
    json_t *schema = NULL;
    hy_gc *gc = HY_NEW(hy_gc);
    hy_net *net = HY_NEW(hy_net);
    hy_status st = HY_OK;
    if (gc) {
        gc->tmp = hy_arena_new(256 * HY_KIB);
        gc->made = json_array();
    }
    if (!gc || !net || !gc->tmp || !gc->made) st = hy_fail_memory(err, "grammar", sizeof *gc);
    if (st == HY_OK) st = read_schemas(src, &schema, err);
    if (st == HY_OK) {
        gc->keep = g->arena;
        gc->keep_max = KEEP_BYTES;
        gc->tmp_max = TMP_BYTES;
        gc->work = HY_GC_WORK;
        gc->net = net;
        gc->err = err;
        if (setjmp(gc->jmp) == 0) {
            build(gc, src, schema);
            g->net = *net;
            g->n_step = HY_GC_WORK - gc->work;
        }
        st = gc->code;
    }
    json_decref(schema);
    if (gc) {
        json_decref(gc->made);
        hy_arena_free(gc->tmp);
    }
    hy_free(gc);
    hy_free(net);
    return st;
}

hy_status hy_gram_compile(hy_gram **out, const hy_gram_source *src, hy_err *err)
{
    if ((unsigned)src->kind > HY_GRAM_GBNF)
        return hy_fail(err, HY_E_ARG, "grammar of kind %d", (int)src->kind);
    if (src->n > HY_GC_TEXT || src->n_schemas > HY_GC_TEXT)
        return hy_fail(err, HY_E_LIMIT, "grammar of %zu bytes; the limit is %u",
                       HY_MAX(src->n, src->n_schemas), HY_GC_TEXT);
    hy_gram *g = HY_NEW(hy_gram);
    if (!g) return hy_fail_memory(err, "grammar", sizeof *g);
    atomic_init(&g->n_ref, 1);
    g->arena = hy_arena_new(64 * HY_KIB);
    hy_status st = g->arena ? compile(g, src, err) : hy_fail_memory(err, "grammar", 64 * HY_KIB);
    if (st != HY_OK) {
        hy_gram_unref(g);
        return st;
    }
    *out = g;
    return HY_OK;
}

uint64_t hy_gram_steps(const hy_gram *g) { return g->n_step; }

hy_gram *hy_gram_ref(hy_gram *g)
{
    atomic_fetch_add_explicit(&g->n_ref, 1, memory_order_relaxed);
    return g;
}

void hy_gram_unref(hy_gram *g)
{
    if (!g || atomic_fetch_sub_explicit(&g->n_ref, 1, memory_order_acq_rel) != 1) return;
    hy_arena_free(g->arena);
    hy_free(g);
}
