/* tokenizer.* keys of a folder's tokenizer. */
#include "quantize_tok.h"
#include <stdio.h>
#include <string.h>

#define JSON_MAX (512 * HY_MIB)

static hy_status put_array(hy_gguf_writer *w, const char *key, hy_meta_type item, uint64_t n, const void *data,
                           const hy_str *strs, hy_err *err)
{
    hy_meta m = { .key = key, .type = HY_M_ARRAY, .item = item, .n = n, .data = data, .strs = strs };
    return hy_gguf_put_meta(w, &m, err);
}

/* Ids that no tokenizer file names get a name of their own. */
static hy_status fill_gaps(hy_q_vocab *v, hy_err *err)
{
    for (uint32_t i = 0; i < v->n; i++) {
        if (v->token[i].p) continue;
        char name[32];
        int n = snprintf(name, sizeof name, "[PAD%u]", i);
        char *p = hy_arena_strndup(v->arena, name, (size_t)n);
        if (!p) return hy_fail_memory(err, "token", (uint64_t)n);
        v->token[i] = (hy_str){ p, (uint64_t)n };
        v->type[i] = HY_GT_UNUSED;
    }
    return HY_OK;
}

static hy_status put_vocab(hy_gguf_writer *w, const hy_q_vocab *v, hy_err *err)
{
    HY_TRY(hy_gguf_put_str(w, "tokenizer.ggml.model", v->model, err));
    HY_TRY(hy_gguf_put_str(w, "tokenizer.ggml.pre", v->pre, err));
    HY_TRY(put_array(w, "tokenizer.ggml.tokens", HY_M_STR, v->n, NULL, v->token, err));
    HY_TRY(put_array(w, "tokenizer.ggml.token_type", HY_M_I32, v->n, v->type, NULL, err));
    if (v->score) HY_TRY(put_array(w, "tokenizer.ggml.scores", HY_M_F32, v->n, v->score, NULL, err));
    if (v->n_merge) HY_TRY(put_array(w, "tokenizer.ggml.merges", HY_M_STR, v->n_merge, NULL, v->merge, err));
    if (v->space_prefix >= 0) HY_TRY(hy_gguf_put_bool(w, "tokenizer.ggml.add_space_prefix", v->space_prefix, err));
    if (v->squeeze >= 0) HY_TRY(hy_gguf_put_bool(w, "tokenizer.ggml.remove_extra_whitespaces", v->squeeze, err));
    return HY_OK;
}

static hy_status put_id(hy_gguf_writer *w, const char *key, int32_t id, uint32_t n_vocab, hy_err *err)
{
    return id < 0 || (uint32_t)id >= n_vocab ? HY_OK : hy_gguf_put_u32(w, key, (uint32_t)id, err);
}

/* A special token of tokenizer_config.json (its text, or an object with it), or config.json's id. */
static int32_t named_token(const hy_tok *t, const hy_file *f, const char *key)
{
    const json_t *v = json_object_get(f->tokenizer_config, key);
    if (json_is_object(v)) v = json_object_get(v, "content");
    if (json_is_string(v)) return hy_tok_find(t, json_string_value(v), json_string_length(v));
    char id[64];
    snprintf(id, sizeof id, "%s_id", key);
    v = json_object_get(f->config, id);
    json_int_t n = json_is_integer(v) ? json_integer_value(v) : -1;
    return n >= 0 && n <= INT32_MAX ? (int32_t)n : -1;
}

/* Ends of a generation beside EOS: generation_config.json lists them. */
static hy_status put_ends(hy_gguf_writer *w, const hy_tok *t, const hy_file *f, uint32_t n_vocab, hy_err *err)
{
    static const char *const key[] = { "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id" };
    const json_t *list = json_object_get(f->generation_config, "eos_token_id");
    if (!json_is_array(list)) list = json_object_get(f->config, "eos_token_id");
    size_t used = 0;
    for (size_t i = 0; i < json_array_size(list) && used < HY_COUNT(key); i++) {
        json_int_t id = json_integer_value(json_array_get(list, i));
        if (id < 0 || id >= n_vocab || id == hy_tok_eos(t)) continue;
        HY_TRY(put_id(w, key[used++], (int32_t)id, n_vocab, err));
    }
    return HY_OK;
}

static hy_status put_specials(hy_gguf_writer *w, const hy_tok *t, const hy_file *f, uint32_t n_vocab, hy_err *err)
{
    HY_TRY(put_id(w, "tokenizer.ggml.bos_token_id", hy_tok_bos(t), n_vocab, err));
    HY_TRY(put_id(w, "tokenizer.ggml.eos_token_id", hy_tok_eos(t), n_vocab, err));
    HY_TRY(put_id(w, "tokenizer.ggml.unknown_token_id", named_token(t, f, "unk_token"), n_vocab, err));
    HY_TRY(put_id(w, "tokenizer.ggml.padding_token_id", named_token(t, f, "pad_token"), n_vocab, err));
    HY_TRY(hy_gguf_put_bool(w, "tokenizer.ggml.add_bos_token", hy_tok_adds_bos(t), err));
    HY_TRY(hy_gguf_put_bool(w, "tokenizer.ggml.add_eos_token", hy_tok_adds_eos(t), err));
    HY_TRY(put_ends(w, t, f, n_vocab, err));
    static const char *const names[] = { "tool_use", "rag" };
    const char *own = hy_tok_template(t, NULL);
    if (own) HY_TRY(hy_gguf_put_str(w, "tokenizer.chat_template", own, err));
    for (size_t i = 0; i < HY_COUNT(names); i++) {
        char key[64];
        snprintf(key, sizeof key, "tokenizer.chat_template.%s", names[i]);
        const char *s = hy_tok_template(t, names[i]);
        if (s && s != own) HY_TRY(hy_gguf_put_str(w, key, s, err));
    }
    return HY_OK;
}

/* The vocabulary's texts point into the file read here, so all is written before it goes. */
static hy_status read_and_put(hy_gguf_writer *w, const hy_file *f, hy_q_vocab *v, const char *json, const char *model,
                              hy_err *err)
{
    json_t *root = NULL;
    char *data = NULL;
    size_t n = 0;
    hy_status s;
    if (hy_is_file(json)) {
        s = hy_json_load_file(json, JSON_MAX, &root, err);
        if (s == HY_OK) s = hy_q_vocab_json(v, root, err);
    } else {
        s = hy_read_file(model, JSON_MAX, &data, &n, err);
        if (s == HY_OK) s = hy_q_vocab_proto(v, (const uint8_t *)data, n, err);
    }
    if (s == HY_OK) s = fill_gaps(v, err);
    if (s == HY_OK) s = put_vocab(w, v, err);
    json_decref(root);
    hy_free(data);
    hy_tok *t = NULL;
    if (s == HY_OK) s = hy_tok_from_file(&t, f, err);
    if (s == HY_OK) s = put_specials(w, t, f, v->n, err);
    hy_tok_free(t);
    return s;
}

hy_status hy_q_tokenizer(hy_gguf_writer *w, const hy_file *f, uint32_t n_vocab, hy_err *err)
{
    hy_q_vocab v = { .n = n_vocab, .space_prefix = -1, .squeeze = -1, .arena = hy_arena_new(256 * HY_KIB) };
    hy_buf json = { 0 }, model = { 0 };
    hy_buf_printf(&json, "%s/tokenizer.json", f->path ? f->path : "");
    hy_buf_printf(&model, "%s/tokenizer.model", f->path ? f->path : "");
    if (v.arena) {
        v.token = hy_arena_alloc(v.arena, sizeof *v.token * (size_t)n_vocab, _Alignof(hy_str));
        v.type = hy_arena_alloc(v.arena, sizeof *v.type * (size_t)n_vocab, _Alignof(int32_t));
    }
    hy_status s = HY_OK;
    if (!v.token || !v.type || json.failed || model.failed) s = hy_fail_memory(err, "vocabulary", n_vocab * 24ull);
    else if (hy_is_file(json.data) || hy_is_file(model.data)) s = read_and_put(w, f, &v, json.data, model.data, err);
    else hy_log(HY_LOG_WARN, "quantize_tokenizer", "detail=\"the folder has no tokenizer\" path=%s", f->path);
    hy_buf_free(&json);
    hy_buf_free(&model);
    hy_arena_free(v.arena);
    return s;
}
