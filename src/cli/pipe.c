/* hayate pipe: JSON lines in, JSON lines out. A line that makes no sense gets {"error": ...}; the next one
 * is served all the same. */
#include "cli.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *error(const char *fmt, const char *arg)
{
    char msg[700];
    snprintf(msg, sizeof msg, fmt, arg);
    json_t *s = json_string(msg);
    return json_pack("{s:o}", "error", s ? s : json_string("error (its text is not valid UTF-8)"));
}

static bool decode64(const char *s, hy_buf *out)
{
    static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t v = 0;
    int n = 0;
    for (; *s && *s != '='; s++) {
        const char *at = strchr(set, *s);
        if (!at) return false;
        v = v << 6 | (uint32_t)(at - set);
        if (++n % 4 == 0) {
            char b[3] = { (char)(v >> 16), (char)(v >> 8), (char)v };
            hy_buf_put(out, b, 3);
            v = 0;
        }
    }
    for (; *s; s++)
        if (*s != '=') return false;
    if (n % 4 == 1) return false;
    if (n % 4 == 2) hy_buf_char(out, (char)(v >> 4));
    if (n % 4 == 3) {
        hy_buf_char(out, (char)(v >> 10));
        hy_buf_char(out, (char)(v >> 2));
    }
    return !out->failed;
}

static json_t *do_tokenize(const hy_tokenizer *t, json_t *o)
{
    hy_buf text = { 0 };
    const char *b64 = json_string_value(json_object_get(o, "b64"));
    json_t *plain = json_object_get(o, "text");
    if (b64 && !decode64(b64, &text)) {
        hy_buf_free(&text);
        return error("b64: not valid base64%s", "");
    }
    if (!b64 && !json_is_string(plain)) return error("tokenize wants b64 or text%s", "");
    if (!b64) hy_buf_put(&text, json_string_value(plain), json_string_length(plain));
    int32_t *ids;
    size_t n;
    hy_err err;
    hy_status s = hy_tokenizer_encode(t, text.data ? text.data : "", text.len,
                                      json_is_true(json_object_get(o, "add_special")),
                                      json_is_true(json_object_get(o, "parse_special")), &ids, &n, &err);
    hy_buf_free(&text);
    if (s != HY_OK) return error("%s", err.msg);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, json_integer(ids[i]));
    hy_memory_free(ids);
    return json_pack("{s:o}", "ids", list);
}

static json_t *do_stream(const hy_tokenizer *t, json_t *o)
{
    json_t *list = json_object_get(o, "ids");
    if (!json_is_array(list)) return error("stream wants ids%s", "");
    size_t n = json_array_size(list);
    int32_t *ids = hy_alloc_array(n ? n : 1, sizeof *ids);
    if (!ids) return error("out of memory%s", "");
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t id = json_integer_value(v);
        ids[i] = !json_is_integer(v) || id < 0 || id > INT32_MAX ? -1 : (int32_t)id; /* -1 is no token's */
    }
    char **chunk, *flush;
    hy_err err;
    hy_status s = hy_tokenizer_stream(t, ids, n, &chunk, &flush, &err);
    hy_free(ids);
    if (s != HY_OK) return error("%s", err.msg);
    json_t *chunks = json_array();
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(chunks, json_string(chunk[i]));
        hy_memory_free(chunk[i]);
    }
    hy_memory_free(chunk);
    json_t *out = json_pack("{s:o, s:s}", "chunks", chunks, "flush", flush);
    hy_memory_free(flush);
    return out;
}

static json_t *do_template(json_t *o)
{
    json_t *t = json_object_get(o, "template"), *vars = json_object_get(o, "vars");
    if (!json_is_string(t) || !json_is_object(vars)) return error("template wants template and vars%s", "");
    char *dump = json_dumps(vars, JSON_REAL_PRECISION(17)), *text;
    if (!dump) return error("out of memory%s", "");
    hy_err err;
    hy_status s = hy_tool_template(json_string_value(t), json_string_length(t), dump, &text, &err);
    free(dump);
    if (s != HY_OK) return error("%s", err.msg);
    json_t *str = json_string(text);
    hy_memory_free(text);
    return str ? json_pack("{s:o}", "text", str) : error("the text is not valid UTF-8%s", "");
}

static json_t *match_all(const hy_guide *guide, json_t *texts)
{
    size_t n = json_array_size(texts);
    const char **text = hy_alloc_array(n + 1, sizeof *text);
    size_t *len = hy_alloc_array(n + 1, sizeof *len);
    bool *matches = hy_alloc_array(n + 1, sizeof *matches);
    json_t *out = NULL;
    bool ok = text && len && matches;
    if (!ok) out = error("out of memory%s", "");
    for (size_t i = 0; ok && i < n; i++) {
        text[i] = json_string_value(json_array_get(texts, i));
        len[i] = json_string_length(json_array_get(texts, i));
        if (!text[i]) {
            out = error("texts: an array of strings is wanted%s", "");
            ok = false;
        }
    }
    hy_err err;
    if (ok && hy_tool_match(guide, text, len, (uint32_t)n, matches, &err) != HY_OK) {
        out = error("%s", err.msg);
        ok = false;
    }
    if (ok) {
        json_t *list = json_array();
        for (size_t i = 0; i < n; i++) json_array_append_new(list, json_boolean(matches[i]));
        out = json_pack("{s:o}", "match", list);
    }
    hy_free(text);
    hy_free(len);
    hy_free(matches);
    return out;
}

static json_t *do_match(json_t *o)
{
    json_t *schema = json_object_get(o, "schema"), *texts = json_object_get(o, "texts");
    json_t *schemas = json_object_get(o, "schemas"), *gbnf = json_object_get(o, "gbnf"), *regex = json_object_get(o, "regex");
    json_t *plain = gbnf ? gbnf : regex;
    hy_guide guide = { .kind = gbnf ? HY_GUIDE_GBNF : regex ? HY_GUIDE_REGEX : HY_GUIDE_JSON_SCHEMA };
    if (!json_is_array(texts)) return error("match wants texts%s", "");
    if (schema ? plain != NULL : !json_is_string(plain)) return error("match wants one of schema, gbnf, regex%s", "");
    char *dump = schema ? json_dumps(schema, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)) : NULL;
    char *more = schemas ? json_dumps(schemas, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)) : NULL;
    json_t *out = NULL;
    if ((schema && !dump) || (schemas && !more)) {
        out = error("out of memory%s", "");
    } else {
        guide.text = dump ? dump : json_string_value(plain);
        guide.n_text = dump ? strlen(dump) : json_string_length(plain);
        guide.schemas = more;
        guide.n_schemas = more ? strlen(more) : 0;
        out = match_all(&guide, texts);
    }
    free(dump);
    free(more);
    return out;
}

static json_t *answer(const hy_tokenizer *t, json_t *o)
{
    const char *op = json_string_value(json_object_get(o, "op"));
    if (!op) return error("no op%s", "");
    if (strcmp(op, "template") == 0) return do_template(o);
    if (strcmp(op, "match") == 0) return do_match(o);
    bool stream = strcmp(op, "stream") == 0;
    if (!stream && strcmp(op, "tokenize") != 0) return error("no op '%.100s'; there are tokenize, stream, template, match", op);
    if (!t) return error("%s needs a MODEL on the command line", op);
    return stream ? do_stream(t, o) : do_tokenize(t, o);
}

int cmd_pipe(cli_args *a)
{
    hy_tokenizer *t = NULL;
    hy_err err;
    if (a->n_pos == 1 && hy_tokenizer_open(&t, a->pos[0], &err) != HY_OK) return cli_fail("pipe", &err);
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    int rc = 0;
    while (rc == 0 && (n = getline(&line, &cap, stdin)) >= 0) {
        json_error_t je;
        json_t *o = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, &je);
        if (!o && json_error_code(&je) == json_error_numeric_overflow)
            o = json_loadb(line, (size_t)n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &je);
        json_t *out = o ? answer(t, o) : error("not a JSON object: %s", je.text);
        if (!out) rc = cli_error("pipe", "out of memory");
        else if (json_dumpf(out, stdout, JSON_COMPACT) != 0 || putchar('\n') == EOF || !cli_flush()) rc = 1;
        json_decref(out);
        json_decref(o);
    }
    free(line);
    hy_tokenizer_close(t);
    return rc;
}
