/* Tokenizers against Hugging Face tokenizers and transformers: tokenizer.json, tokenizer.model, the
 * GGUFs of the same vocabularies, decoding, chat templates. */
#include "tok_help.h"
#include <dirent.h>
#include <stdlib.h>

static int n_checked;

static bool check_decode(const hy_tok *t, const char *name, const json_t *list, bool show,
                         const json_t *want)
{
    hy_ids ids = {0};
    hy_buf out = {0};
    hy_err err = {0};
    ids_of(list, &ids);
    hy_status s = hy_tok_decode(t, ids.id, ids.n, show, &out, &err);
    bool good = s == HY_OK && out.len == json_string_length(want) &&
                !memcmp(out.len ? out.data : "", json_string_value(want), out.len);
    if (!good)
        print_error("%s decode: got \"%s\" want \"%s\" %s\n", name, out.data ? out.data : "",
                    json_string_value(want), err.msg);
    hy_buf_free(&out);
    hy_ids_free(&ids);
    n_checked++;
    return good;
}

static int encode_all(const hy_tok *t, const char *name, const json_t *rows, bool decode)
{
    int bad = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *r = json_array_get(rows, i), *text = json_object_get(r, "text");
        const char *s = json_string_value(text);
        size_t n = json_string_length(text);
        bad += !check_encode(t, name, s, n, false, true, json_object_get(r, "ids"));
        bad += !check_encode(t, name, s, n, true, true, json_object_get(r, "ids_with_special"));
        n_checked += 2;
        if (!decode) continue;
        bad +=
            !check_decode(t, name, json_object_get(r, "ids"), true, json_object_get(r, "decoded"));
        bad += !check_decode(t, name, json_object_get(r, "ids"), false,
                             json_object_get(r, "decoded_skip_special"));
    }
    return bad;
}

static int chat_all(const hy_tok *t, const char *name, const json_t *rows)
{
    int bad = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *r = json_array_get(rows, i), *want = json_object_get(r, "text");
        json_t *vars =
            json_pack("{s:O,s:O}", "messages", json_object_get(r, "messages"),
                      "add_generation_prompt", json_object_get(r, "add_generation_prompt"));
        hy_buf out = {0};
        hy_err err = {0};
        hy_status s = hy_tok_chat(t, NULL, vars, &out, &err);
        bool good = want ? s == HY_OK && !strcmp(out.data ? out.data : "", json_string_value(want))
                         : s == HY_E_ARG;
        if (!good) print_error("%s chat %zu: %s\n%s\n", name, i, err.msg, out.data ? out.data : "");
        if (good && want)
            good = check_encode(t, name, out.data ? out.data : "", out.len, false, true,
                                json_object_get(r, "ids"));
        bad += !good;
        n_checked++;
        hy_buf_free(&out);
        json_decref(vars);
    }
    return bad;
}

static int check_kind(const char *folder)
{
    char path[512];
    snprintf(path, sizeof path, "%s/golden.json", folder);
    json_t *g = load(path);
    hy_tok *t = open_tok(folder);
    int bad = encode_all(t, folder, json_object_get(g, "encode"), true);
    const json_t *rows = json_object_get(g, "decode");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *r = json_array_get(rows, i);
        bad += !check_decode(t, folder, json_object_get(r, "ids"), true,
                             json_object_get(r, "decoded"));
        bad += !check_decode(t, folder, json_object_get(r, "ids"), false,
                             json_object_get(r, "decoded_skip_special"));
    }
    bad += chat_all(t, folder, json_object_get(g, "chat"));
    hy_tok_free(t);
    snprintf(path, sizeof path, "%s/tokenizer.model", folder);
    if (hy_is_file(path)) {
        t = open_tok(path);
        assert_string_equal(hy_tok_kind(t), "spm");
        bad += encode_all(t, path, json_object_get(g, "encode"), false);
        hy_tok_free(t);
    }
    json_decref(g);
    return bad;
}

static int for_folders(const char *root, int (*check)(const char *))
{
    int bad = 0;
    DIR *d = opendir(root);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char path[512];
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", root, e->d_name);
        if (hy_is_dir(path)) bad += check(path);
    }
    closedir(d);
    return bad;
}

static void test_kinds(void **state)
{
    const char *root = HY_SHARED "/golden/tokenizers";
    if (!hy_is_dir(root)) root = HY_DATA "/tok/golden";
    int bad = for_folders(root, check_kind);
    print_message("%s: %d checks\n", root, n_checked);
    assert_true(n_checked > 2000);
    assert_int_equal(bad, 0);
}

/* ---- GGUFs of the tiny models: their tokenizer.json equals one with goldens ---- */

static char *slurp(const char *folder, const char *name)
{
    char path[512], *s = NULL;
    size_t n;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return hy_is_file(path) && hy_read_file(path, 1 << 26, &s, &n, NULL) == HY_OK ? s : NULL;
}

static int n_model;

static int check_model(const char *folder)
{
    char path[512];
    int bad = 0;
    char *json = slurp(folder, "hf/tokenizer.json");
    DIR *d = opendir(HY_SHARED "/golden/tokenizers");
    for (struct dirent *e; json && (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, HY_SHARED "/golden/tokenizers/%s", e->d_name);
        char *other = slurp(path, "tokenizer.json");
        bool same = other && !strcmp(other, json);
        hy_free(other);
        if (!same) continue;
        snprintf(path, sizeof path, HY_SHARED "/golden/tokenizers/%s/golden.json", e->d_name);
        json_t *g = load(path);
        DIR *files = opendir(folder);
        for (struct dirent *f; (f = readdir(files));) {
            size_t n = strlen(f->d_name);
            if (n < 5 || strcmp(f->d_name + n - 5, ".gguf")) continue;
            snprintf(path, sizeof path, "%s/%s", folder, f->d_name);
            hy_tok *t = open_tok(path);
            bad += encode_all(t, path, json_object_get(g, "encode"), false);
            n_model++;
            hy_tok_free(t);
        }
        closedir(files);
        json_decref(g);
        break;
    }
    closedir(d);
    hy_free(json);
    return bad;
}

static void test_models(void **state)
{
    if (!hy_is_dir(HY_SHARED "/golden/models")) {
        print_message("no shared golden models: skipped\n");
        skip();
    }
    int bad = for_folders(HY_SHARED "/golden/models", check_model);
    print_message("%d GGUFs\n", n_model);
    assert_true(n_model > 40);
    assert_int_equal(bad, 0);
}

static void test_binding(void **state)
{
    hy_tok *t = open_tok(HY_DATA "/tok/golden/llama3");
    assert_true(hy_tok_is_end(t, hy_tok_find(t, "<|eot_id|>", 10)));
    assert_true(hy_tok_is_end(t, hy_tok_find(t, "<|end_of_text|>", 15)));
    assert_false(hy_tok_is_end(t, hy_tok_find(t, "<|begin_of_text|>", 17)));
    assert_int_equal(hy_tok_bos(t), hy_tok_find(t, "<|begin_of_text|>", 17));
    assert_int_equal(hy_tok_eos(t), hy_tok_find(t, "<|eot_id|>", 10));
    assert_true(hy_tok_adds_bos(t));
    assert_false(hy_tok_adds_eos(t));
    assert_int_equal(hy_tok_n_vocab(t), 512);
    json_t *vars = json_pack("{s:[]}", "messages");
    hy_buf out = {0};
    hy_err err = {0};
    assert_int_equal(hy_tok_chat(t, "{{ bos_token }}|{{ eos_token }}", vars, &out, &err), HY_OK);
    assert_string_equal(out.data, "<|begin_of_text|>|<|eot_id|>");
    hy_buf_reset(&out);
    assert_int_equal(hy_tok_chat(t, "{{ raise_exception('no such role') }}", vars, &out, &err),
                     HY_E_ARG);
    assert_string_equal(err.msg, "no such role");
    assert_null(json_object_get(vars, "bos_token")); /* the caller's object stays as it was */
    json_decref(vars);
    hy_buf_free(&out);
    hy_tok_free(t);
    t = open_tok(HY_DATA "/tok/golden/gpt2");
    assert_null(hy_tok_template(t, NULL));
    assert_int_equal(hy_tok_chat(t, NULL, NULL, &out, &err), HY_E_ARG);
    hy_tok_free(t);
    t = open_tok(HY_DATA "/tok/golden/gpt4o"); /* harmony: <|end|> closes only one message */
    assert_false(hy_tok_is_end(t, hy_tok_find(t, "<|end|>", 7)));
    assert_true(hy_tok_is_end(t, hy_tok_find(t, "<|return|>", 10)));
    hy_tok_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_binding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
