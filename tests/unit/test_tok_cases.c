/* Exact ids and streaming detokenisation for vocabularies in GGUF files. The answers come from the
 * tokenizers and sentencepiece libraries; rows marked contested are counted, not failed on. */
#include "tok_help.h"
#include <dirent.h>
#include <stdlib.h>

static int n_row, n_bad, n_soft, n_file;

static size_t decode_base64(const char *s, char *out)
{
    static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    int n_bit = 0;
    size_t n = 0;
    for (; *s && *s != '='; s++) {
        bits = bits << 6 | (uint32_t)(strchr(set, *s) - set);
        n_bit += 6;
        if (n_bit >= 8) out[n++] = (char)(bits >> (n_bit -= 8));
    }
    return n;
}

static bool in_list(const hy_ids *ids, const json_t *lists)
{
    for (size_t i = 0; i < json_array_size(lists); i++)
        if (same_ids(ids, json_array_get(lists, i))) return true;
    return false;
}

static void check_ids(const hy_tok *t, const json_t *r)
{
    const json_t *text = json_object_get(r, "text"), *b64 = json_object_get(r, "b64");
    const json_t *want = json_object_get(r, "ids");
    size_t n = b64 ? json_string_length(b64) : json_string_length(text);
    char *s = malloc(n + 4);
    assert_non_null(s);
    if (b64)
        n = decode_base64(json_string_value(b64), s);
    else
        memcpy(s, json_string_value(text), n);
    bool special = json_is_true(json_object_get(r, "add_special"));
    bool parse = json_is_true(json_object_get(r, "parse_special"));
    bool good;
    if (json_is_null(want)) { /* invalid UTF-8: the replacement answer is ours */
        hy_ids ids = {0};
        good = hy_tok_encode(t, s, n, special, parse, &ids, NULL) == HY_OK &&
               same_ids(&ids, json_object_get(r, "replacement_ids")) &&
               in_list(&ids, json_object_get(r, "accept_any_of"));
        hy_ids_free(&ids);
    } else {
        good = check_encode(t, json_string_value(json_object_get(r, "id")), s, n, special, parse,
                            want);
    }
    free(s);
    n_row++;
    if (good) return;
    if (json_is_true(json_object_get(r, "contested")))
        n_soft++;
    else
        n_bad++;
}

static void check_stream(const hy_tok *t, const json_t *r)
{
    const json_t *ids = json_object_get(r, "ids"), *chunks = json_object_get(r, "chunks");
    hy_detok d;
    hy_buf all = {0};
    hy_err err = {0};
    bool good = true;
    hy_detok_init(&d, t, true);
    for (size_t i = 0; i < json_array_size(ids); i++) {
        size_t at = all.len;
        int32_t id = (int32_t)json_integer_value(json_array_get(ids, i));
        good &= hy_detok_put(&d, id, &all, &err) == HY_OK;
        const json_t *c = json_array_get(chunks, i); /* as early as can be */
        good &= all.len - at == json_string_length(c) &&
                (all.len == at || !memcmp(all.data + at, json_string_value(c), all.len - at));
    }
    hy_detok_end(&d, &all);
    good &= !strcmp(all.data ? all.data : "", json_string_value(json_object_get(r, "text")));
    if (!good)
        print_error("stream %s: \"%s\"\n", json_string_value(json_object_get(r, "id")), all.data);
    hy_buf_free(&all);
    n_row++;
    n_bad += !good;
}

static void run_file(const hy_tok *t, const char *path,
                     void (*check)(const hy_tok *, const json_t *))
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t cap = 0;
    if (!f) return;
    n_file++;
    for (ssize_t n; (n = getline(&line, &cap, f)) > 0;) {
        json_t *r = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, NULL);
        assert_non_null(r);
        check(t, r);
        json_decref(r);
    }
    free(line);
    fclose(f);
}

static void run_vocab(const char *vocab, const char *root, const char *name)
{
    char path[512];
    hy_tok *t = open_tok(vocab);
    snprintf(path, sizeof path, "%s/ids/%s.jsonl", root, name);
    run_file(t, path, check_ids);
    snprintf(path, sizeof path, "%s/stream/%s.jsonl", root, name);
    run_file(t, path, check_stream);
    hy_tok_free(t);
}

/* Vocabularies in `folder` that have cases below `root`. */
static void run_folder(const char *folder, const char *root)
{
    char path[512], name[128];
    DIR *d = opendir(folder);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) {
        size_t n = strlen(e->d_name);
        if (n < 17 || n > 100 || strncmp(e->d_name, "ggml-vocab-", 11) ||
            strcmp(e->d_name + n - 5, ".gguf"))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(n - 16), e->d_name + 11);
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        run_vocab(path, root, name);
    }
    closedir(d);
}

static void test_cases(void **state)
{
    const char *more = getenv("HAYATE_VOCABS"); /* a folder with further vocabularies */
    if (hy_is_dir(HY_SHARED "/cases/tokenizers")) {
        run_folder(HY_SHARED "/cases/tokenizers/vocabs", HY_SHARED "/cases/tokenizers");
        if (more) run_folder(more, HY_SHARED "/cases/tokenizers");
        print_message("the shared cases: ");
    } else {
        run_folder(HY_DATA "/tok/vocabs", HY_DATA "/tok");
        print_message("the cases of this repository: ");
    }
    print_message("%d files, %d rows, %d contested rows answered otherwise\n", n_file, n_row,
                  n_soft);
    assert_true(n_row > 1500);
    assert_int_equal(n_bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
