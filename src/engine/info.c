/* What a model file holds: collected as a JSON object, printed as it is or as aligned text. */
#include "core.h"
#include "kern/kern.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOW_MAX 200           /* bytes of a name shown */

static json_t *text(const char *s, size_t n)
{
    json_t *j = json_stringn(s, n);
    if (j) return j;
    hy_buf b = { 0 };          /* not UTF-8 */
    for (size_t i = 0; i < n; i++) hy_buf_char(&b, (unsigned char)s[i] < 128 ? s[i] : '?');
    j = json_stringn(b.data ? b.data : "", b.len);
    hy_buf_free(&b);
    return j;
}

static void put(json_t *o, const char *key, json_t *v)
{
    (void)json_object_set_new(o, key, v); /* out of memory shows as an absent line */
}

static void put_meta(json_t *o, const char *key, const hy_file *f, const char *meta)
{
    hy_str s = { 0 };
    if (hy_meta_string(f, meta, false, &s, NULL) == HY_OK && s.n) put(o, key, text(s.p, HY_MIN(s.n, SHOW_MAX)));
}

/* ---- weights ------------------------------------------------------------------------------------- */

typedef struct usage {
    uint32_t ggml_type;
    uint64_t n, bytes, n_weight;
} usage;

static json_t *weights(const hy_file *f, uint64_t *bytes, uint64_t *n_weight)
{
    usage u[64];
    uint32_t n = 0;
    *bytes = *n_weight = 0;
    for (uint64_t i = 0; i < f->n_tensor; i++) {
        const hy_tensor *t = &f->tensor[i];
        uint32_t k = 0, type = t->known ? t->ggml_type : t->ggml_type | 1u << 31;
        while (k < n && u[k].ggml_type != type) k++;
        if (k == HY_COUNT(u)) continue;
        if (k == n) u[n++] = (usage){ .ggml_type = type };
        u[k].n++;
        u[k].bytes += t->bytes;
        u[k].n_weight += t->known ? t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3] : 0;
    }
    for (uint32_t i = 1; i < n; i++) /* by bytes */
        for (uint32_t k = i; k > 0 && u[k].bytes > u[k - 1].bytes; k--) {
            usage x = u[k];
            u[k] = u[k - 1];
            u[k - 1] = x;
        }
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++) {
        bool known = !(u[i].ggml_type >> 31);
        const char *name = hy_quant_ggml_name(u[i].ggml_type & INT32_MAX);
        hy_qtype q;
        if (known && hy_quant_from_ggml(u[i].ggml_type, &q)) name = hy_quant(q)->name;
        (void)json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:I, s:b}", "type", name ? name : "unknown",
            "tensors", (json_int_t)u[i].n, "bytes", (json_int_t)u[i].bytes, "weights", (json_int_t)u[i].n_weight,
            "readable", known));
        *bytes += u[i].bytes;
        *n_weight += u[i].n_weight;
    }
    return list;
}

/* ---- shape ---------------------------------------------------------------------------------------- */

static const char *rope_name(hy_rope_kind k)
{
    static const char *const name[] = { "plain", "linear", "llama3", "yarn", "dynamic", "longrope" };
    return name[k];
}

static json_t *rope(const hy_rope *r)
{
    json_t *o = json_pack("{s:s, s:i, s:f, s:b}", "kind", rope_name(r->kind), "dimensions", (int)r->n_rot, "base",
                          r->base, "interleaved", (int)r->interleaved);
    if (r->kind != HY_ROPE_PLAIN) {
        put(o, "factor", json_real(r->factor));
        put(o, "original_context", json_integer(r->n_ctx_orig));
    }
    return o;
}

static json_t *shape(const hy_hparams *hp)
{
    json_t *o = json_object();
    const struct { const char *key; uint32_t value; bool always; } n[] = {
        { "layers", hp->n_layer, true }, { "width", hp->n_embd, true }, { "heads", hp->n_head, true },
        { "kv_heads", hp->n_kv_head, true }, { "head_size", hp->d_k, true },
        { "value_head_size", hp->d_v, hp->d_v != hp->d_k }, { "feed_forward", hp->n_ff, true },
        { "experts", hp->n_expert, hp->n_expert != 0 }, { "experts_used", hp->n_expert_used, hp->n_expert != 0 },
        { "expert_feed_forward", hp->n_ff_expert, hp->n_expert != 0 },
        { "vocabulary", hp->n_vocab, true }, { "context_trained", hp->n_ctx_train, true },
    };
    for (size_t i = 0; i < HY_COUNT(n); i++)
        if (n[i].always) put(o, n[i].key, json_integer(n[i].value));
    uint32_t n_windowed = 0, n_rope[2] = { 0, 0 };
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        n_windowed += hp->layer[i].window != 0;
        if (hp->layer[i].rope >= 0) n_rope[hp->layer[i].rope]++;
    }
    if (n_windowed) {
        put(o, "window", json_integer(hp->window));
        put(o, "windowed_layers", json_integer(n_windowed));
    }
    if (n_rope[0]) put(o, "rope", rope(&hp->rope[0]));
    if (n_rope[1]) put(o, "rope_windowed", rope(&hp->rope[1]));
    if (n_rope[0] + n_rope[1] < hp->n_layer)
        put(o, "layers_without_rope", json_integer(hp->n_layer - n_rope[0] - n_rope[1]));
    return o;
}

/* Bytes of the pages that one sequence of n_ctx tokens takes; windowed layers keep their window and the
 * largest step. 0: cannot be said. */
static uint64_t kv_bytes(const hy_model *m, hy_kv_type type, uint32_t n_ctx, bool *no_memory)
{
    hy_kv_group group[HY_KV_GROUPS_MAX];
    memset(group, 0, sizeof group);
    uint8_t *layer_group = HY_NEW_ARRAY(uint8_t, m->hp.n_layer);
    uint16_t *layer_index = HY_NEW_ARRAY(uint16_t, m->hp.n_layer);
    *no_memory |= !layer_group || !layer_index;
    uint32_t n = layer_group && layer_index ? hy_model_kv_groups(m, type, group, layer_group, layer_index) : 0;
    hy_free(layer_group);
    hy_free(layer_index);
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < n; g++) {
        uint64_t page = ((uint64_t)n_ctx + HY_KV_PAGE_TOK - 1) / HY_KV_PAGE_TOK;
        if (group[g].window) page = HY_MIN(page, ((uint64_t)group[g].window + 256) / HY_KV_PAGE_TOK + 3);
        bytes += page * group[g].page_bytes;
    }
    return bytes;
}

static json_t *memory(const hy_model *m, uint64_t weight_bytes, uint32_t n_ctx, bool *no_memory)
{
    if (n_ctx == 0) n_ctx = HY_MIN(m->hp.n_ctx_train ? m->hp.n_ctx_train : 2048, 8192u);
    json_t *o = json_pack("{s:i, s:I}", "context", (int)n_ctx, "weights", (json_int_t)weight_bytes);
    json_t *kv = json_object();
    for (int t = 0; t < HY_KV_TYPE_COUNT; t++) {
        if (t == HY_KV_Q4 && (m->hp.d_k % 32 || m->hp.d_v % 32)) continue;
        uint64_t bytes = kv_bytes(m, (hy_kv_type)t, n_ctx, no_memory);
        put(kv, hy_kv_type_name((hy_kv_type)t), json_integer((json_int_t)bytes));
    }
    put(o, "kv", kv);
    return o;
}

/* ---- tokenizer ------------------------------------------------------------------------------------ */

static json_t *special(const hy_tok *t, int32_t id, bool *no_memory)
{
    hy_buf b = { 0 };
    if (id < 0) return json_null();
    (void)hy_tok_piece(t, id, true, &b, NULL);
    *no_memory |= b.failed;
    json_t *o = json_pack("{s:i, s:o}", "id", (int)id, "text", text(b.data ? b.data : "", b.len));
    hy_buf_free(&b);
    return o;
}

static json_t *tokenizer(const hy_file *f, bool *no_memory)
{
    hy_tok *t;
    hy_err err;
    hy_status s = hy_tok_from_file(&t, f, &err);
    *no_memory |= s == HY_E_MEMORY;
    if (s != HY_OK) return json_pack("{s:o}", "error", text(err.msg, strlen(err.msg)));
    json_t *o = json_pack("{s:s, s:s, s:i, s:o, s:o, s:b, s:b, s:b}", "kind", hy_tok_kind(t), "pre", hy_tok_pre(t),
        "vocabulary", (int)hy_tok_n_vocab(t), "bos", special(t, hy_tok_bos(t), no_memory), "eos", special(t, hy_tok_eos(t), no_memory),
        "adds_bos", (int)hy_tok_adds_bos(t), "adds_eos", (int)hy_tok_adds_eos(t), "chat_template",
        hy_tok_template(t, NULL) != NULL);
    hy_tok_free(t);
    return o;
}

/* ---- the whole ------------------------------------------------------------------------------------ */

static void put_family(json_t *o, const hy_file *f, const hy_model *m, const hy_err *why)
{
    const char *type = json_string_value(json_object_get(f->config, "model_type"));
    if (f->kind == HY_FILE_GGUF) put_meta(o, "architecture", f, "general.architecture");
    else if (type) put(o, "architecture", text(type, strlen(type)));
    if (m) put(o, "family", json_string(m->family->name));
    else put(o, "not_runnable", text(why->msg, strlen(why->msg)));
}

/* Of a family that is not known: what the file itself says about its shape, key by key. */
static json_t *raw_shape(const hy_file *f)
{
    json_t *o = json_object();
    hy_str arch = { 0 };
    if (hy_meta_string(f, "general.architecture", false, &arch, NULL) != HY_OK || !arch.n) return o;
    for (uint64_t i = 0; i < f->n_meta; i++) {
        const hy_meta *m = &f->meta[i];
        uint64_t u;
        double x;
        if (strlen(m->key) <= arch.n || strncmp(m->key, arch.p, arch.n) || m->key[arch.n] != '.') continue;
        if (m->type == HY_M_ARRAY || m->type == HY_M_STR) continue;
        if (hy_meta_item_u64(m, 0, &u) && u <= INT64_MAX) put(o, m->key + arch.n + 1, json_integer((json_int_t)u));
        else if (hy_meta_item_f64(m, 0, &x)) put(o, m->key + arch.n + 1, json_real(x));
    }
    return o;
}

/* What a file lacks or does wrong is part of the answer; memory that ran out is not. */
static json_t *collect(const hy_file *f, const char *path, uint32_t n_ctx, bool *no_memory)
{
    json_t *o = json_object();
    hy_err err = { 0 };
    hy_model *m = NULL;
    uint64_t bytes, n_weight;
    put(o, "file", text(path, strlen(path)));
    put(o, "kind", json_string(f->kind == HY_FILE_GGUF ? "gguf" : "safetensors"));
    if (f->kind == HY_FILE_GGUF) put(o, "gguf_version", json_integer(f->gguf_version));
    put(o, "bytes", json_integer((json_int_t)f->bytes));
    put(o, "parts", json_integer(f->n_part));
    put_meta(o, "name", f, "general.name");
    hy_status s = hy_model_describe(&m, f, &err);
    if (s != HY_OK) m = NULL;
    *no_memory |= s == HY_E_MEMORY;
    put_family(o, f, m, &err);
    if (m) put(o, "shape", shape(&m->hp));
    else put(o, "parameters", raw_shape(f));
    json_t *w = weights(f, &bytes, &n_weight);
    put(o, "tensors", json_integer((json_int_t)f->n_tensor));
    put(o, "weights", json_integer((json_int_t)n_weight));
    put(o, "weight_types", w);
    put(o, "vocabulary_only", json_boolean(f->n_tensor == 0));
    put(o, "tokenizer", tokenizer(f, no_memory));
    if (m && f->n_tensor) put(o, "memory", memory(m, bytes, n_ctx, no_memory));
    hy_model_free(m);
    return o;
}

/* ---- as text --------------------------------------------------------------------------------------- */

static void line(hy_buf *b, const char *name, const char *fmt, ...) HY_PRINTF(3, 4);
static void line(hy_buf *b, const char *name, const char *fmt, ...)
{
    char s[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s, sizeof s, fmt, ap);
    va_end(ap);
    for (char *c = s; *c; c++)
        if ((unsigned char)*c < 32 || *c == 127) *c = '?'; /* names come from the file; a terminal obeys such bytes */
    hy_buf_printf(b, "%-16s %s\n", name, s);
}

static const char *amount(char s[32], uint64_t bytes)
{
    if (bytes >= HY_GIB) snprintf(s, 32, "%.2f GiB", (double)bytes / (double)HY_GIB);
    else if (bytes >= HY_MIB) snprintf(s, 32, "%.1f MiB", (double)bytes / (double)HY_MIB);
    else snprintf(s, 32, "%.1f KiB", (double)bytes / (double)HY_KIB);
    return s;
}

static long long num(const json_t *o, const char *key)
{
    return (long long)json_integer_value(json_object_get(o, key));
}

static const char *str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static void rope_line(hy_buf *b, const char *name, const json_t *r)
{
    if (!r) return;
    char more[96] = "";
    if (json_object_get(r, "factor"))
        snprintf(more, sizeof more, ", factor %g, original context %lld",
                 json_number_value(json_object_get(r, "factor")), num(r, "original_context"));
    line(b, name, "%s, %lld dimensions, base %.10g, %s%s", str(r, "kind"), num(r, "dimensions"),
         json_number_value(json_object_get(r, "base")),
         json_is_true(json_object_get(r, "interleaved")) ? "pairs" : "halves", more);
}

static void shape_text(hy_buf *b, const json_t *s)
{
    line(b, "layers", "%lld", num(s, "layers"));
    line(b, "width", "%lld", num(s, "width"));
    if (json_object_get(s, "value_head_size"))
        line(b, "heads", "%lld of %lld (values %lld), %lld KV heads", num(s, "heads"), num(s, "head_size"),
             num(s, "value_head_size"), num(s, "kv_heads"));
    else
        line(b, "heads", "%lld of %lld, %lld KV heads", num(s, "heads"), num(s, "head_size"), num(s, "kv_heads"));
    line(b, "feed-forward", "%lld", num(s, "feed_forward"));
    if (json_object_get(s, "experts"))
        line(b, "experts", "%lld, %lld used, feed-forward %lld", num(s, "experts"), num(s, "experts_used"),
             num(s, "expert_feed_forward"));
    line(b, "vocabulary", "%lld", num(s, "vocabulary"));
    line(b, "context", "%lld (trained)", num(s, "context_trained"));
    if (json_object_get(s, "window"))
        line(b, "window", "%lld, in %lld of %lld layers", num(s, "window"), num(s, "windowed_layers"), num(s, "layers"));
    rope_line(b, "rope", json_object_get(s, "rope"));
    rope_line(b, "rope, windowed", json_object_get(s, "rope_windowed"));
    if (json_object_get(s, "layers_without_rope")) line(b, "no rope", "%lld layers", num(s, "layers_without_rope"));
}

static void weights_text(hy_buf *b, const json_t *o)
{
    json_t *list = json_object_get(o, "weight_types");
    uint64_t all = 0;
    for (size_t i = 0; i < json_array_size(list); i++) all += (uint64_t)num(json_array_get(list, i), "bytes");
    line(b, "weights", "%.4g million in %lld tensors", (double)num(o, "weights") / 1e6, num(o, "tensors"));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *u = json_array_get(list, i);
        char s[32];
        hy_buf_printf(b, "  %-14s %10s %5.1f %%  %6lld tensors%s\n", str(u, "type"), amount(s, (uint64_t)num(u, "bytes")),
                      all ? (double)num(u, "bytes") * 100 / (double)all : 0, num(u, "tensors"),
                      json_is_true(json_object_get(u, "readable")) ? "" : "  (not supported)");
    }
}

static void special_line(hy_buf *b, const char *name, const json_t *t, const char *key, const char *adds)
{
    const json_t *s = json_object_get(t, key);
    if (json_is_object(s))
        line(b, name, "%lld '%s'%s", num(s, "id"), str(s, "text"),
             json_is_true(json_object_get(t, adds)) ? ", added to texts" : "");
    else line(b, name, "none");
}

static void tokenizer_text(hy_buf *b, const json_t *t)
{
    if (json_object_get(t, "error")) {
        line(b, "tokenizer", "not usable: %s", str(t, "error"));
        return;
    }
    line(b, "tokenizer", "%s%s%s, %lld tokens", str(t, "kind"), *str(t, "pre") ? ", " : "", str(t, "pre"),
         num(t, "vocabulary"));
    special_line(b, "BOS", t, "bos", "adds_bos");
    special_line(b, "EOS", t, "eos", "adds_eos");
    line(b, "chat template", "%s", json_is_true(json_object_get(t, "chat_template")) ? "yes" : "no");
}

static void memory_text(hy_buf *b, const json_t *m)
{
    if (!m) return;
    char s[32], k[32];
    uint64_t w = (uint64_t)num(m, "weights");
    line(b, "memory", "for %lld tokens of one sequence: weights %s + KV cache", num(m, "context"), amount(s, w));
    const char *name;
    json_t *v;
    json_object_foreach(json_object_get(m, "kv"), name, v) {
        uint64_t bytes = (uint64_t)json_integer_value(v);
        hy_buf_printf(b, "  %-14s %10s = %s\n", name, amount(k, bytes), amount(s, w + bytes));
    }
}

static void as_text(hy_buf *b, const json_t *o)
{
    char s[32], parts[32] = "";
    if (num(o, "parts") > 1) snprintf(parts, sizeof parts, " in %lld parts", num(o, "parts"));
    line(b, "file", "%s", str(o, "file"));
    if (json_object_get(o, "gguf_version"))
        line(b, "kind", "GGUF version %lld, %s%s", num(o, "gguf_version"), amount(s, (uint64_t)num(o, "bytes")), parts);
    else line(b, "kind", "safetensors, %s%s", amount(s, (uint64_t)num(o, "bytes")), parts);
    if (json_object_get(o, "name")) line(b, "name", "%s", str(o, "name"));
    if (json_object_get(o, "family")) line(b, "family", "%s (%s)", str(o, "family"), str(o, "architecture"));
    else line(b, "family", "not supported: %s", str(o, "not_runnable"));
    if (json_object_get(o, "shape")) shape_text(b, json_object_get(o, "shape"));
    const char *key;
    json_t *v;
    json_object_foreach(json_object_get(o, "parameters"), key, v)
        hy_buf_printf(b, "  %-36s %.9g\n", key, json_number_value(v));
    if (json_is_true(json_object_get(o, "vocabulary_only"))) line(b, "weights", "none: a vocabulary only");
    else weights_text(b, o);
    tokenizer_text(b, json_object_get(o, "tokenizer"));
    memory_text(b, json_object_get(o, "memory"));
}

hy_status hy_tool_info(const char *path, uint32_t n_ctx, bool json, char **out, hy_err *err)
{
    *out = NULL;
    if (n_ctx > HY_CTX_MAX) return hy_fail(err, HY_E_ARG, "context %u is more than %u tokens", n_ctx, HY_CTX_MAX);
    hy_file *f;
    HY_TRY(hy_file_open(&f, path, err));
    bool no_memory = false;
    json_t *o = collect(f, path, n_ctx, &no_memory);
    hy_file_close(f);
    if (no_memory) {
        json_decref(o);
        return hy_fail_memory(err, "description of the model", 64 * HY_KIB);
    }
    hy_buf b = { 0 };
    if (json) {
        char *s = json_dumps(o, JSON_INDENT(2));
        if (s) hy_buf_str(&b, s);
        else b.failed = true;
        hy_buf_char(&b, '\n');
        free(s);
    } else {
        as_text(&b, o);
    }
    json_decref(o);
    hy_status st = hy_buf_take(&b, out, err);
    hy_buf_free(&b);
    return st;
}
