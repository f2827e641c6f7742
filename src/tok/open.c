/* Opening: GGUF, tokenizer.json, tokenizer.model, Hugging Face folders. */
#include "tok/tok_impl.h"
#include <string.h>

#define JSON_MAX (512 * HY_MIB)

static hy_status load_optional(const char *folder, const char *name, json_t **out, hy_err *err)
{
    hy_buf path = {0};
    *out = NULL;
    hy_buf_printf(&path, "%s/%s", folder, name);
    hy_status s = path.failed ? hy_fail_memory(err, "path", strlen(folder)) : HY_OK;
    if (s == HY_OK && hy_is_file(path.data)) s = hy_json_load_file(path.data, JSON_MAX, out, err);
    hy_buf_free(&path);
    return s;
}

static hy_status load_jinja(hy_tok *t, const char *folder, hy_err *err)
{
    hy_buf path = {0};
    char *text = NULL;
    size_t n = 0;
    hy_buf_printf(&path, "%s/chat_template.jinja", folder);
    hy_status s = path.failed ? hy_fail_memory(err, "path", strlen(folder)) : HY_OK;
    if (s == HY_OK && hy_is_file(path.data)) {
        s = hy_read_file(path.data, 16 * HY_MIB, &text, &n, err);
        if (s == HY_OK) s = tok_template_put(t, "default", 7, text, n, err);
    }
    hy_free(text);
    hy_buf_free(&path);
    json_t *j;
    if (s == HY_OK) s = load_optional(folder, "chat_template.json", &j, err);
    if (s == HY_OK && j) {
        if (!hy_tok_template(t, NULL)) s = tok_config_templates(t, j, err);
        json_decref(j);
    }
    return s;
}

static hy_status add_generation_ends(hy_tok *t, const json_t *generation, hy_err *err)
{
    const json_t *j = json_object_get(generation, "eos_token_id");
    if (json_is_integer(j) && json_integer_value(j) >= 0 && json_integer_value(j) < t->vocab.n)
        return tok_end_put(t, (int32_t)json_integer_value(j), err);
    for (size_t i = 0; i < json_array_size(j); i++) {
        json_int_t id = json_integer_value(json_array_get(j, i));
        if (id >= 0 && id < t->vocab.n) HY_TRY(tok_end_put(t, (int32_t)id, err));
    }
    return HY_OK;
}

/* The files of one folder; `json` and `model` are paths of which one exists. */
static hy_status from_files(hy_tok *t, const char *json, const char *model, const json_t *config,
                            hy_err *err)
{
    hy_status s;
    if (json) {
        json_t *root = NULL;
        HY_TRY(hy_json_load_file(json, JSON_MAX, &root, err));
        s = tok_from_json(t, root, config, err);
        json_decref(root);
        return s;
    }
    char *data = NULL;
    size_t n = 0;
    HY_TRY(hy_read_file(model, JSON_MAX, &data, &n, err));
    s = tok_from_model_proto(t, (const uint8_t *)data, n, config, err);
    hy_free(data);
    return s;
}

static hy_status from_folder(hy_tok *t, const char *folder, const char *json, const char *model,
                             hy_err *err)
{
    json_t *config = NULL, *generation = NULL;
    hy_status s = load_optional(folder, "tokenizer_config.json", &config, err);
    if (s == HY_OK) s = load_optional(folder, "generation_config.json", &generation, err);
    if (s == HY_OK) s = from_files(t, json, model, config, err);
    if (s == HY_OK) s = load_jinja(t, folder, err);
    if (s == HY_OK) s = add_generation_ends(t, generation, err);
    if (s == HY_OK) s = tok_finish(t, err);
    json_decref(config);
    json_decref(generation);
    return s;
}

static hy_status open_folder(hy_tok *t, const char *folder, hy_err *err)
{
    hy_buf json = {0}, model = {0};
    hy_buf_printf(&json, "%s/tokenizer.json", folder);
    hy_buf_printf(&model, "%s/tokenizer.model", folder);
    hy_status s;
    if (json.failed || model.failed)
        s = hy_fail_memory(err, "path", strlen(folder));
    else if (hy_is_file(json.data))
        s = from_folder(t, folder, json.data, NULL, err);
    else if (hy_is_file(model.data))
        s = from_folder(t, folder, NULL, model.data, err);
    else
        s = hy_fail(err, HY_E_IO, "%s has neither tokenizer.json nor tokenizer.model", folder);
    hy_buf_free(&json);
    hy_buf_free(&model);
    return s;
}

/* The folder that a file lies in. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? hy_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : hy_strdup(".");
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && !strcmp(s + n - k, end);
}

static hy_status finish_open(hy_tok **out, hy_tok *t, hy_status s)
{
    if (s == HY_OK)
        *out = t;
    else
        hy_tok_free(t);
    return s;
}

hy_status hy_tok_from_file(hy_tok **out, const hy_file *f, hy_err *err)
{
    hy_tok *t;
    HY_TRY(tok_new(&t, err));
    if (f->kind == HY_FILE_GGUF) return finish_open(out, t, tok_from_gguf(t, f, err));
    if (hy_is_dir(f->path)) return finish_open(out, t, open_folder(t, f->path, err));
    char *folder = folder_of(f->path);
    hy_status s =
        folder ? open_folder(t, folder, err) : hy_fail_memory(err, "path", strlen(f->path));
    hy_free(folder);
    return finish_open(out, t, s);
}

bool hy_tok_in_file(const hy_file *f)
{
    if (f->kind == HY_FILE_GGUF) return hy_file_meta(f, "tokenizer.ggml.model") != NULL;
    char *folder = hy_is_dir(f->path) ? hy_strdup(f->path) : folder_of(f->path);
    hy_buf path = {0};
    bool found = !folder; /* out of memory: hy_tok_from_file will say so */
    static const char *const names[] = {"tokenizer.json", "tokenizer.model"};
    for (size_t i = 0; i < HY_COUNT(names) && !found; i++) {
        hy_buf_reset(&path);
        hy_buf_printf(&path, "%s/%s", folder, names[i]);
        found = path.failed || hy_is_file(path.data);
    }
    hy_buf_free(&path);
    hy_free(folder);
    return found;
}

hy_status hy_tok_from_memory(hy_tok **out, const void *data, size_t n, hy_err *err)
{
    hy_tok *t;
    json_t *root = NULL;
    const char *s = data;
    size_t at = 0;
    while (at < n && strchr(" \t\r\n", s[at]) && s[at]) at++;
    bool json = at < n && s[at] == '{';
    HY_TRY(tok_new(&t, err));
    hy_status st = json ? hy_json_parse("tokenizer.json", s, n, &root, err) : HY_OK;
    if (st == HY_OK)
        st = json ? tok_from_json(t, root, NULL, err) : tok_from_model_proto(t, data, n, NULL, err);
    if (st == HY_OK) st = tok_finish(t, err);
    json_decref(root);
    return finish_open(out, t, st);
}

static hy_status open_gguf(hy_tok *t, const char *path, hy_err *err)
{
    hy_file *f = NULL;
    HY_TRY(hy_file_open(&f, path, err));
    hy_status s = f->kind == HY_FILE_GGUF
                      ? tok_from_gguf(t, f, err)
                      : hy_fail(err, HY_E_FORMAT, "%s holds no tokenizer", path);
    hy_file_close(f);
    return s;
}

hy_status hy_tok_open(hy_tok **out, const char *path, hy_err *err)
{
    hy_tok *t;
    HY_TRY(tok_new(&t, err));
    hy_status s;
    bool json = ends_with(path, ".json"), model = ends_with(path, ".model");
    if (hy_is_dir(path)) {
        s = open_folder(t, path, err);
    } else if (json || model) {
        char *folder = folder_of(path);
        s = folder ? from_folder(t, folder, json ? path : NULL, json ? NULL : path, err)
                   : hy_fail_memory(err, "path", strlen(path));
        hy_free(folder);
    } else {
        s = open_gguf(t, path, err);
    }
    return finish_open(out, t, s);
}
