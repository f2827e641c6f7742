/* Tools that need no loaded weights: tokenizer, template, dequantise, explain. */
#include "threads.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct hy_tokenizer {
    hy_tok *tok;
};

hy_status hy_tokenizer_open(hy_tokenizer **out, const char *path, hy_err *err)
{
    *out = NULL;
    hy_tokenizer *t = HY_NEW(hy_tokenizer);
    if (!t) return hy_fail_memory(err, "tokenizer", sizeof *t);
    hy_status s = hy_tok_open(&t->tok, path, err);
    if (s != HY_OK) {
        hy_free(t);
        return s;
    }
    *out = t;
    return HY_OK;
}

void hy_tokenizer_close(hy_tokenizer *t)
{
    if (!t) return;
    hy_tok_free(t->tok);
    hy_free(t);
}

hy_status hy_tokenizer_encode(const hy_tokenizer *t, const char *text, size_t n, bool add_special,
                              bool parse_special, int32_t **ids, size_t *n_ids, hy_err *err)
{
    hy_ids list = { 0 };
    hy_status s = hy_tok_encode(t->tok, text, n, add_special, parse_special, &list, err);
    if (s == HY_OK) s = hy_ids_take(&list, ids, n_ids, err);
    hy_ids_free(&list);
    return s;
}

hy_status hy_tokenizer_piece(const hy_tokenizer *t, int32_t id, char **bytes, size_t *n, hy_err *err)
{
    hy_buf b = { 0 };
    hy_status s = hy_tok_piece(t->tok, id, true, &b, err);
    *n = b.len;
    if (s == HY_OK) s = hy_buf_take(&b, bytes, err);
    hy_buf_free(&b);
    return s;
}

static void free_chunks(char **chunk, size_t n)
{
    for (size_t i = 0; chunk && i < n; i++) hy_free(chunk[i]);
    hy_free(chunk);
}

hy_status hy_tokenizer_stream(const hy_tokenizer *t, const int32_t *ids, size_t n, char ***chunks, char **flush,
                              hy_err *err)
{
    char **chunk = HY_NEW_ARRAY(char *, n ? n : 1);
    if (!chunk) return hy_fail_memory(err, "chunks", n * sizeof *chunk);
    hy_detok d;
    hy_detok_init(&d, t->tok, true);
    hy_buf b = { 0 };
    hy_status s = HY_OK;
    for (size_t i = 0; s == HY_OK && i < n; i++) {
        s = hy_detok_put(&d, ids[i], &b, err);
        if (s == HY_OK) s = hy_buf_take(&b, &chunk[i], err);
    }
    if (s == HY_OK) {
        hy_detok_end(&d, &b);
        s = hy_buf_take(&b, flush, err);
    }
    hy_buf_free(&b);
    if (s != HY_OK) {
        free_chunks(chunk, n);
        return s;
    }
    *chunks = chunk;
    return HY_OK;
}

/* "2026-01-15T12:34:56" as seconds since the epoch, taken as local time without a zone. */
static bool parse_now(const char *s, int64_t *out)
{
    struct tm tm;
    memset(&tm, 0, sizeof tm);
    const char *end = strptime(s, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!end || *end) return false;
    *out = timegm(&tm);
    return true;
}

hy_status hy_tool_template(const char *source, size_t n, const char *vars_json, char **text, hy_err *err)
{
    json_t *vars = NULL;
    HY_TRY(hy_json_parse("vars", vars_json, strlen(vars_json), &vars, err));
    hy_template *t = NULL;
    hy_buf b = { 0 };
    int64_t now = -1;
    hy_status s = json_is_object(vars) ? HY_OK : hy_fail(err, HY_E_ARG, "vars: not a JSON object");
    const char *iso = json_string_value(json_object_get(vars, "now"));
    if (s == HY_OK && iso) {
        if (!parse_now(iso, &now)) s = hy_fail(err, HY_E_ARG, "now: '%s' is no time like 2026-01-15T12:34:56", iso);
        (void)json_object_del(vars, "now");
    }
    if (s == HY_OK) s = hy_template_parse(&t, source, n, err);
    if (s == HY_OK) s = hy_template_render(t, vars, now, NULL, &b, NULL, err);
    if (s == HY_OK) s = hy_buf_take(&b, text, err);
    hy_buf_free(&b);
    hy_template_free(t);
    json_decref(vars);
    return s;
}

hy_status hy_tool_dequantize(const char *type, const void *in, size_t n_in, float **out, size_t *n_out, hy_err *err)
{
    hy_qtype t;
    if (!hy_quant_from_name(type, &t)) return hy_fail(err, HY_E_ARG, "type '%s' is not known", type);
    const hy_qtraits *q = hy_quant(t);
    if (n_in % q->block_bytes)
        return hy_fail(err, HY_E_ARG, "%zu bytes are no whole number of %s blocks (%u bytes)", n_in, q->name,
                       q->block_bytes);
    size_t n_block = n_in / q->block_bytes;
    float *f = hy_alloc_array(n_block * q->block, sizeof *f);
    if (!f) return hy_fail_memory(err, "floats", n_block * q->block * sizeof *f);
    q->unpack(in, f, n_block * q->block);
    *out = f;
    *n_out = n_block * q->block;
    return HY_OK;
}

hy_status hy_tool_explain(const hy_options *o, bool json, char **text, hy_err *err)
{
    HY_TRY(hy_options_check(o, err));
    hy_options one = *o;
    one.n_seq = 1;
    hy_topology top;
    hy_cpu_topology(&top);
    one.n_threads = hy_threads_team(o, &top); /* nothing runs: nothing to choose */
    hy_core *c;
    HY_TRY(hy_core_open(&c, &one, 1, err));
    hy_plan_opts po = { .fuse = c->fuse, .act_f32 = c->act_f32, .kv_type = c->kv_type, .n_ctx = c->n_ctx,
                        .n_tok_max = c->n_step, .n_out_max = 1, .n_row_max = 1 };
    hy_buf b = { 0 };
    hy_status s = hy_plan_explain(c->model, &po, json, &b, err);
    if (s == HY_OK) s = hy_buf_take(&b, text, err);
    hy_buf_free(&b);
    hy_core_close(c);
    return s;
}
