/* Hostile metadata, failing allocations, long inputs, the names of pre-tokenizers. */
#include "tok_help.h"
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static char path[64];

static void put_array(hy_gguf_writer *w, const char *key, hy_meta_type item, uint64_t n,
                      const void *data, const hy_str *strs)
{
    hy_meta m = {.key = key, .type = HY_M_ARRAY, .item = item, .n = n, .data = data, .strs = strs};
    assert_int_equal(hy_gguf_put_meta(w, &m, NULL), HY_OK);
}

typedef struct vocab { /* what a file is made of; NULL parts are left out */
    const char *model, *pre;
    const char *const *token;
    uint64_t n;
    const float *score;
    uint64_t n_score;
    const int32_t *type;
    uint64_t n_type;
    const char *const *merge;
    uint64_t n_merge;
    uint32_t bos;
    const uint8_t *map;
    uint64_t n_map;
} vocab;

static hy_str *views(const char *const *s, uint64_t n)
{
    hy_str *v = calloc(n + 1, sizeof *v);
    assert_non_null(v);
    for (uint64_t i = 0; i < n; i++) v[i] = (hy_str){s[i], strlen(s[i])};
    return v;
}

static hy_status open_vocab(const vocab *v, hy_tok **t, hy_err *err)
{
    hy_gguf_writer *w = NULL;
    hy_str *tokens = views(v->token, v->n), *merges = views(v->merge, v->n_merge);
    snprintf(path, sizeof path, P_tmpdir "/hy-tok-%d.gguf", (int)getpid());
    assert_int_equal(hy_gguf_create(&w, path, NULL), HY_OK);
    hy_gguf_put_str(w, "general.architecture", "llama", NULL);
    if (v->model) hy_gguf_put_str(w, "tokenizer.ggml.model", v->model, NULL);
    if (v->pre) hy_gguf_put_str(w, "tokenizer.ggml.pre", v->pre, NULL);
    put_array(w, "tokenizer.ggml.tokens", HY_M_STR, v->n, NULL, tokens);
    if (v->score) put_array(w, "tokenizer.ggml.scores", HY_M_F32, v->n_score, v->score, NULL);
    if (v->type) put_array(w, "tokenizer.ggml.token_type", HY_M_I32, v->n_type, v->type, NULL);
    if (v->merge) put_array(w, "tokenizer.ggml.merges", HY_M_STR, v->n_merge, NULL, merges);
    if (v->map)
        put_array(w, "tokenizer.ggml.precompiled_charsmap", HY_M_U8, v->n_map, v->map, NULL);
    if (v->bos) hy_gguf_put_u32(w, "tokenizer.ggml.bos_token_id", v->bos, NULL);
    assert_int_equal(hy_gguf_finish(w, NULL), HY_OK);
    free(tokens);
    free(merges);
    *t = NULL;
    hy_status s = hy_tok_open(t, path, err);
    unlink(path);
    return s;
}

static const char *const spm[] = {"<unk>",
                                  "<s>",
                                  "</s>",
                                  "<0x0A>",
                                  "\xE2\x96\x81",
                                  "a",
                                  "b",
                                  "ab",
                                  "\xE2\x96\x81"
                                  "ab"};
static const float spm_score[] = {0, 0, 0, 0, -1, -2, -3, -4, -5};
static const int32_t spm_type[] = {2, 3, 3, 6, 1, 1, 1, 1, 1};
#define SPM                                                                                        \
    {                                                                                              \
        .model = "llama", .token = spm, .n = 9, .score = spm_score, .n_score = 9,                  \
        .type = spm_type, .n_type = 9, .bos = 1                                                    \
    }

static void expect(const hy_tok *t, const char *s, size_t n, size_t n_want, const int32_t *want)
{
    hy_ids ids = {0};
    assert_int_equal(hy_tok_encode(t, s, n, false, false, &ids, NULL), HY_OK);
    if (ids.n != n_want) print_ids(s, &ids);
    assert_int_equal(ids.n, n_want);
    for (size_t i = 0; i < n_want; i++) assert_int_equal(ids.id[i], want[i]);
    hy_ids_free(&ids);
}

static void test_plain(void **state)
{
    vocab v = SPM;
    hy_tok *t;
    hy_err err = {0};
    assert_int_equal(open_vocab(&v, &t, &err), HY_OK);
    expect(t, "ab", 2, 1, (int32_t[]){8});
    expect(t, "a\nq", 3, 4, (int32_t[]){4, 5, 3, 0}); /* a byte token, then no token at all */
    expect(t, "", 0, 0, NULL);
    hy_tok_free(t);
}

/* SentencePiece's rule: of all neighbours whose text is a piece the best score first, of equal ones the leftmost; the first of
 * two equal pieces counts, and pieces of other kinds never do. Words longer than 24 characters go another way. */
static void test_scores(void **state)
{
    enum { MARK, A, B, C, D, AB, BC, CD, ABC };
    static const char *const token[] = {"\xE2\x96\x81", "a", "b", "c", "d", "ab", "bc", "cd", "abc", "bc", "dd"};
    static const int32_t type[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3};
    static const struct {
        float ab, bc, cd, abc;
        int32_t want[5];
        size_t n;
    } cases[] = {
        {-1, -1, -9, -20, {MARK, AB, CD}, 3},         /* ab and bc are equal; then cd before abc */
        {-0.0f, 0.0f, -9, -20, {MARK, AB, CD}, 3},    /* equal as well */
        {-1, -1, -90, -20, {MARK, ABC, D}, 3},
        {-3, 1.5f, -9, -20, {MARK, ABC, D}, 3},       /* bc, then abc */
        {-3, -2, -1, -20, {MARK, AB, CD}, 3},         /* cd, then ab */
        {-3, 1e-40f, 1e-39f, 5, {MARK, AB, CD}, 3},
        {-3e38f, -INFINITY, -1e38f, INFINITY, {MARK, AB, CD}, 3},
    };
    for (size_t i = 0; i < HY_COUNT(cases); i++) {
        const float score[] = {0, 0, 0, 0, 0, cases[i].ab, cases[i].bc, cases[i].cd, cases[i].abc, 100, 100};
        vocab v = {.model = "llama", .token = token, .n = 11, .score = score, .n_score = 11, .type = type, .n_type = 11};
        hy_tok *t;
        hy_err err = {0};
        assert_int_equal(open_vocab(&v, &t, &err), HY_OK);
        expect(t, "abcd", 4, cases[i].n, cases[i].want);
        char many[44];
        int32_t want[34] = {MARK}; /* nothing joins over a d */
        for (size_t k = 0; k < 11; k++) memcpy(many + 4 * k, "abcd", 4);
        for (size_t k = 0; k < 11; k++) memcpy(want + 1 + 2 * k, cases[i].want + 1, 2 * sizeof *want);
        expect(t, many, 44, 23, want);
        expect(t, "dd", 2, 3, (int32_t[]){MARK, D, D});
        hy_tok_free(t);
    }
}

/* L11: byte tokens that are none are plain text. */
static void test_byte_tokens(void **state)
{
    static const char *const bad[] = {"<unk>", "<s>", "</s>",    "<0x-1>", "<0xZZ>",
                                      "<0x1",  "<0x", "<0x100>", ""};
    vocab v = SPM;
    v.token = bad;
    static const int32_t type[] = {2, 3, 3, 6, 6, 6, 6, 6, 6};
    v.type = type;
    hy_tok *t;
    hy_err err = {0};
    assert_int_equal(open_vocab(&v, &t, &err), HY_OK);
    expect(t, "\n", 1, 1, (int32_t[]){0});
    hy_buf out = {0};
    for (int32_t i = 0; i < 9; i++) assert_int_equal(hy_tok_piece(t, i, true, &out, &err), HY_OK);
    assert_string_equal(out.data, "<unk><s></s><0x-1><0xZZ><0x1<0x<0x100>");
    assert_int_equal(hy_tok_piece(t, 9, true, &out, &err), HY_E_ARG);
    assert_int_equal(hy_tok_piece(t, -1, true, &out, &err), HY_E_ARG);
    assert_int_equal(hy_tok_piece(t, INT32_MIN, true, &out, &err), HY_E_ARG);
    hy_buf_free(&out);
    hy_tok_free(t);
}

static void refuse(const vocab *v, hy_status want, const char *word)
{
    hy_tok *t;
    hy_err err = {0};
    hy_status s = open_vocab(v, &t, &err);
    if (s != want || !strstr(err.msg, word)) print_error("%d %s\n", (int)s, err.msg);
    assert_int_equal(s, want);
    assert_non_null(strstr(err.msg, word));
}

static void test_refused(void **state)
{
    static const uint8_t map[] = {255, 255, 255, 127, 0, 0, 0, 0};
    float nan_score[9] = {0};
    nan_score[4] = NAN;
    vocab v = SPM;
    v.score = nan_score;
    refuse(&v, HY_E_FORMAT, "item 4");
    v = (vocab)SPM;
    v.n_score = 8;
    refuse(&v, HY_E_FORMAT, "tokenizer.ggml.scores has 8 items for 9 tokens");
    v = (vocab)SPM;
    v.n_type = 3;
    refuse(&v, HY_E_FORMAT, "tokenizer.ggml.token_type has 3 items");
    v = (vocab)SPM;
    v.model = "wonder";
    refuse(&v, HY_E_UNSUPPORTED, "'wonder'");
    v.model = NULL;
    refuse(&v, HY_E_FORMAT, "tokenizer.ggml.model");
    v.model = "gpt2";
    refuse(&v, HY_E_FORMAT, "tokenizer.ggml.merges");
    v.pre = "no-such-pre";
    refuse(&v, HY_E_UNSUPPORTED, "'no-such-pre'");
    v = (vocab)SPM;
    v.map = map;
    v.n_map = 8;
    refuse(&v, HY_E_FORMAT, "charsmap");
    v.n_map = 2;
    refuse(&v, HY_E_FORMAT, "charsmap");
}

static void test_tolerated(void **state)
{
    static const char *const twice[] = {"<unk>", "<s>", "</s>", "a", "a", "a", "", "", "a"};
    static const char *const merge[] = {"", " ", "a", "a ", " a", "a b", "x y z", "  ", "a a"};
    hy_tok *t;
    hy_err err = {0};
    vocab v = SPM;
    v.bos = 4000000000u; /* outside: counts as absent */
    assert_int_equal(open_vocab(&v, &t, &err), HY_OK);
    assert_int_equal(hy_tok_bos(t), -1);
    assert_false(hy_tok_adds_bos(t));
    hy_tok_free(t);
    v = (vocab)SPM;
    v.token = twice;
    assert_int_equal(open_vocab(&v, &t, &err), HY_OK);
    expect(t, "aa", 2, 3, (int32_t[]){0, 4, 4}); /* id 3 is a byte token, no piece */
    hy_tok_free(t);
    v.model = "gpt2";
    v.merge = merge;
    v.n_merge = HY_COUNT(merge);
    assert_int_equal(open_vocab(&v, &t, &err), HY_OK);
    expect(t, "aaa b", 5, 3, (int32_t[]){3, 3, 3}); /* bytes without a token vanish */
    hy_tok_free(t);
    v.model = "t5";
    assert_int_equal(open_vocab(&v, &t, &err), HY_OK);
    hy_tok_free(t);
    v.model = "bert";
    assert_int_equal(open_vocab(&v, &t, &err), HY_OK);
    hy_tok_free(t);
}

/* ---- names ---- */

static void test_names(void **state)
{
    static const char *const names[] = {"default",
                                        "gpt-2",
                                        "llama-bpe",
                                        "llama3",
                                        "llama-v3",
                                        "falcon3",
                                        "falcon-h1",
                                        "pixtral",
                                        "lfm2",
                                        "qwen2",
                                        "qwen35",
                                        "deepseek-r1-qwen",
                                        "megrez",
                                        "deepseek-llm",
                                        "deepseek-coder",
                                        "deepseek-v3",
                                        "falcon",
                                        "mpt",
                                        "starcoder",
                                        "refact",
                                        "command-r",
                                        "olmo",
                                        "dbrx",
                                        "smollm",
                                        "smaug-bpe",
                                        "stablelm2",
                                        "poro-chat",
                                        "viking",
                                        "jais",
                                        "jais-2",
                                        "tekken",
                                        "chameleon",
                                        "gpt-4o",
                                        "llama4",
                                        "superbpe",
                                        "trillion",
                                        "granite-docling",
                                        "bailingmoe",
                                        "bailingmoe2",
                                        "llada-moe",
                                        "exaone",
                                        "exaone4",
                                        "exaone-moe",
                                        "chatglm-bpe",
                                        "glm4",
                                        "minerva-7b",
                                        "codeshell",
                                        "bloom",
                                        "gpt3-finnish",
                                        "gigachat",
                                        "seed-coder",
                                        "hunyuan",
                                        "hunyuan-dense",
                                        "kimi-k2",
                                        "grok-2",
                                        "afmoe",
                                        "minimax-m2",
                                        "solar-open",
                                        "youtu",
                                        "tiny_aya",
                                        "laguna",
                                        "modern-bert",
                                        "jina-v2-code",
                                        "roberta-bpe",
                                        "phi-2",
                                        "jina-v2-es",
                                        "jina-v2-de",
                                        "mellum",
                                        "mellum2",
                                        "kanana2",
                                        "gemma4"};
    static const char text[] =
        "Hi, I'LL take 1234567 \xE6\xBC\xA2\xE5\xAD\x97 \xC3\xA9!\r\n\n  ok \xF0\x9F\x98\x80   ";
    char name[256][3];
    const char *token[256], *merge[] = {"a a"};
    for (int i = 0; i < 256; i++) { /* the byte alphabet, in the order of the bytes */
        uint32_t c = (uint32_t)i;
        bool printable = (i >= 0x21 && i <= 0x7E) || (i >= 0xA1 && i <= 0xAC) || i >= 0xAE;
        if (!printable) c = i <= 0x20 ? 0x100 + c : i == 0xAD ? 0x143 : 0x121 + c - 0x7F;
        char s[4];
        size_t n = hy_utf8_put(c, s);
        memcpy(name[i], s, n);
        name[i][n] = 0;
        token[i] = name[i];
    }
    for (size_t k = 0; k < HY_COUNT(names); k++) {
        vocab v = {.model = "gpt2",
                   .pre = names[k],
                   .token = token,
                   .n = 256,
                   .merge = merge,
                   .n_merge = 1};
        hy_tok *t;
        hy_err err = {0};
        if (open_vocab(&v, &t, &err) != HY_OK) print_error("%s: %s\n", names[k], err.msg);
        assert_non_null(t);
        assert_string_equal(hy_tok_pre(t), names[k]);
        if (strcmp(names[k], "gemma4")) {
            int32_t want[sizeof text];
            for (size_t i = 0; i < sizeof text - 1; i++) want[i] = (unsigned char)text[i];
            expect(t, text, sizeof text - 1, sizeof text - 1,
                   want); /* nothing lost, nothing moved */
        }
        hy_tok_free(t);
    }
}

/* ---- long inputs ---- */

static char *repeat(const char *s, size_t n)
{
    char *p = malloc(n);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++) p[i] = s[i % strlen(s)];
    return p;
}

static void test_long(void **state)
{
    static const char *const unit[] = {
        "a", " ", "\n", "\xF0\x9F\x98\x80", "ab", "7", " \n", "A\xCC\x81\xCC\x96", ". "};
    static const char *const kind[] = {"llama3",    "qwen2",  "gpt2",     "falcon",
                                       "dsv3",      "gpt4o",  "cohere",   "spm_llama",
                                       "spm_gemma", "gemma4", "wordpiece"};
#ifdef __SANITIZE_ADDRESS__
    const size_t n = 200000;
#else
    const size_t n = 1000000;
#endif
    for (size_t k = 0; k < HY_COUNT(kind); k++) {
        char folder[256];
        snprintf(folder, sizeof folder, HY_DATA "/tok/golden/%s", kind[k]);
        hy_tok *t = open_tok(folder);
        for (size_t u = 0; u <= HY_COUNT(unit); u++) {
            char *s = repeat(u < HY_COUNT(unit) ? unit[u] : "a", n);
            for (size_t i = 0; u == HY_COUNT(unit) && i < n; i++) s[i] = (char)hy_rng_at(1, 2, i);
            hy_ids ids = {0};
            clock_t start = clock();
            assert_int_equal(hy_tok_encode(t, s, n, true, true, &ids, NULL), HY_OK);
            double took = (double)(clock() - start) / CLOCKS_PER_SEC;
            if (took > 1) print_message("%s, unit %zu: %.2f s\n", kind[k], u, took);
            assert_true(took < 30); /* quadratic would be minutes; sanitizers are slow */
            hy_ids_free(&ids);
            free(s);
        }
        hy_tok_free(t);
    }
}

/* ---- failing allocations ---- */

static void test_memory(void **state)
{
    static const char *const kind[] = {"qwen2", "spm_llama", "wordpiece"};
    static const char text[] = "A caf\xC3\xA9 e\xCC\x81 12345, \xE6\xBC\xA2\xE5\xAD\x97 "
                               "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xFF";
    for (size_t k = 0; k < HY_COUNT(kind); k++) {
        char folder[256];
        snprintf(folder, sizeof folder, HY_DATA "/tok/golden/%s", kind[k]);
        bool opened = false;
        for (int64_t n = 0; !opened && n < 100000; n += 1 + n / 20) {
            hy_tok *t = NULL;
            hy_err err = {0};
            hy_alloc_fail_after(n);
            hy_status s = hy_tok_open(&t, folder, &err);
            hy_alloc_fail_after(-1);
            opened = s == HY_OK && n > 1000;
            if (s != HY_OK) assert_null(t);
            hy_tok_free(t);
        }
        assert_true(opened);
        hy_tok *t = open_tok(folder);
        hy_ids want = {0}, ids = {0};
        assert_int_equal(hy_tok_encode(t, text, strlen(text), true, true, &want, NULL), HY_OK);
        for (int64_t n = 0; n < 60; n++) {
            hy_err err = {0};
            ids.n = 0;
            hy_alloc_fail_after(n);
            hy_status s = hy_tok_encode(t, text, strlen(text), true, true, &ids, &err);
            hy_alloc_fail_after(-1);
            assert_true(s == HY_OK || s == HY_E_MEMORY);
            if (s == HY_E_MEMORY) assert_int_equal(ids.n, 0);
            if (s == HY_OK)
                assert_true(ids.n == want.n && !memcmp(ids.id, want.id, want.n * sizeof *ids.id));
        }
        hy_ids_free(&ids);
        hy_ids_free(&want);
        hy_tok_free(t);
    }
}

/* Broken bytes, cut across tokens, come out as the WHATWG rule says; stream and whole agree. */
static void test_broken_stream(void **state)
{
    hy_tok *t = open_tok(HY_DATA "/tok/golden/qwen2");
    static const char *const cut[] = {"\xE6",     "\xBC",         "\xC3",     "\xA9", "\xF0\x9F",
                                      "\x98\x80", "\xED\xA0\x80", "\xC0\xAF", "z"};
    hy_ids ids = {0};
    for (size_t i = 0; i < HY_COUNT(cut); i++) {
        hy_buf mapped = {0};
        for (const char *p = cut[i]; *p; p++) { /* the token of each byte, by the byte alphabet */
            uint32_t b = (unsigned char)*p;
            bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
            char s[4];
            size_t n = hy_utf8_put(printable ? b : b == 0xAD ? 0x143 : 0x121 + b - 0x7F, s);
            int32_t id = hy_tok_find(t, s, n);
            assert_true(id >= 0);
            hy_ids_put(&ids, id);
        }
        hy_buf_free(&mapped);
    }
    hy_detok d;
    hy_buf stream = {0}, whole = {0};
    hy_detok_init(&d, t, true);
    for (size_t i = 0; i < ids.n; i++) {
        assert_int_equal(hy_detok_put(&d, ids.id[i], &stream, NULL), HY_OK);
        assert_true(!stream.len || hy_utf8_valid(stream.data, stream.len));
    }
    hy_detok_end(&d, &stream);
    assert_int_equal(hy_tok_decode(t, ids.id, ids.n, true, &whole, NULL), HY_OK);
    assert_string_equal(stream.data, whole.data);
    /* E6 BC | C3 A9 | F0 9F 98 80 | ED, A0, 80 | C0, AF | z */
    assert_string_equal(whole.data,
                        "\xEF\xBF\xBD\xC3\xA9\xF0\x9F\x98\x80\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
                        "\xEF\xBF\xBD\xEF\xBF\xBDz");
    hy_buf_free(&stream);
    hy_buf_free(&whole);
    hy_ids_free(&ids);
    hy_tok_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),   cmocka_unit_test(test_scores), cmocka_unit_test(test_byte_tokens),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_tolerated),
        cmocka_unit_test(test_names),   cmocka_unit_test(test_long),
        cmocka_unit_test(test_memory),  cmocka_unit_test(test_broken_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
