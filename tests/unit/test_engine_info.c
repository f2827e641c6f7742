/* info: numbers against config.json's own, and against sums done by hand. */
#include "base/base.h"
#include <hayate/tools.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define CHECK_OK(call)                                                                             \
    do {                                                                                           \
        hy_err err_ = { 0 }, *err = &err_;                                                         \
        if ((call) != HY_OK) fail_msg("%s: %s", #call, err_.msg);                                  \
    } while (0)

static json_t *info(const char *path, uint32_t n_ctx)
{
    char *text;
    CHECK_OK(hy_tool_info(path, n_ctx, true, &text, err));
    json_t *j = json_loads(text, 0, NULL);
    hy_memory_free(text);
    assert_non_null(j);
    return j;
}

static long long num(const json_t *o, const char *key)
{
    if (!json_is_number(json_object_get(o, key))) fail_msg("%s is no number", key);
    return (long long)json_number_value(json_object_get(o, key));
}

static void check_shape(const json_t *j)
{
    const json_t *s = json_object_get(j, "shape"), *r = json_object_get(s, "rope");
    assert_string_equal(json_string_value(json_object_get(j, "family")), "llama");
    assert_int_equal(num(s, "layers"), 2);
    assert_int_equal(num(s, "width"), 64);
    assert_int_equal(num(s, "heads"), 4);
    assert_int_equal(num(s, "kv_heads"), 2);
    assert_int_equal(num(s, "head_size"), 16);
    assert_int_equal(num(s, "feed_forward"), 112);
    assert_int_equal(num(s, "vocabulary"), 512);
    assert_int_equal(num(s, "context_trained"), 512);
    assert_int_equal(num(r, "base"), 500000);
    assert_int_equal(num(r, "dimensions"), 16);
}

static void test_shape(void **state)
{
    /* embedding and output, Q, K, V, O, gate, up, down, norms */
    const long long n_weight = 2 * 512 * 64 + 2 * (64 * 64 + 2 * 32 * 64 + 64 * 64 + 3 * 112 * 64 + 2 * 64) + 64;
    json_t *j = info(HY_DATA "/models/llama3/hf", 4096);
    check_shape(j);
    assert_string_equal(json_string_value(json_object_get(json_object_get(json_object_get(j, "shape"), "rope"), "kind")),
                        "llama3");
    assert_int_equal(num(j, "weights"), n_weight);
    const json_t *m = json_object_get(j, "memory");
    assert_int_equal(num(m, "weights"), n_weight * 2); /* bf16 */
    /* keys and values, two layers, two heads of 16 */
    assert_int_equal(num(json_object_get(m, "kv"), "f32"), 4096ll * 2 * 2 * 2 * 16 * 4);
    assert_int_equal(num(json_object_get(m, "kv"), "f16"), 4096ll * 2 * 2 * 2 * 16 * 2);
    json_decref(j);
    j = info(HY_DATA "/models/llama3/model-bf16.gguf", 0);
    check_shape(j);
    assert_int_equal(num(j, "gguf_version"), 3);
    const json_t *t = json_object_get(j, "tokenizer");
    assert_string_equal(json_string_value(json_object_get(t, "pre")), "llama-bpe");
    assert_int_equal(num(t, "vocabulary"), 512);
    assert_int_equal(num(json_object_get(t, "bos"), "id"), 507);
    json_decref(j);
}

static void test_text(void **state)
{
    static const char *const want[] = { "family           gemma3 (gemma3_text)\n", "window           32, in 6 of 7 layers\n",
                                        "rope, windowed   plain", "bf16", "memory           for 64 tokens" };
    char *text;
    CHECK_OK(hy_tool_info(HY_DATA "/models/gemma3/hf", 64, false, &text, err));
    for (size_t i = 0; i < HY_COUNT(want); i++)
        if (!strstr(text, want[i])) fail_msg("'%s' is not in:\n%s", want[i], text);
    hy_memory_free(text);
    CHECK_OK(hy_tool_info(HY_DATA "/models/qwen2_moe/model-bf16.gguf", 64, false, &text, err));
    assert_non_null(strstr(text, "experts "));
    hy_memory_free(text);
}

static void test_without_weights_or_family(void **state)
{
    json_t *j = info(HY_DATA "/tok/vocabs/ggml-vocab-gpt-2.gguf", 0);
    assert_true(json_is_true(json_object_get(j, "vocabulary_only")));
    assert_int_equal(num(json_object_get(j, "tokenizer"), "vocabulary"), 50257);
    json_decref(j);
    if (hy_is_file(HY_SHARED "/golden/models/mamba2/model-bf16.gguf")) { /* not a family of ours */
        j = info(HY_SHARED "/golden/models/mamba2/model-bf16.gguf", 0);
        assert_null(json_object_get(j, "family"));
        assert_non_null(strstr(json_string_value(json_object_get(j, "not_runnable")), "mamba2"));
        assert_true(num(json_object_get(j, "parameters"), "block_count") > 0);
        assert_true(json_array_size(json_object_get(j, "weight_types")) > 0);
        json_decref(j);
    }
    char *text;
    hy_err err;
    assert_int_equal(hy_tool_info(HY_DATA "/none.gguf", 0, false, &text, &err), HY_E_IO);
    assert_int_equal(hy_tool_info(HY_DATA "/models/llama3/hf", UINT32_MAX, false, &text, &err), HY_E_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shape),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_without_weights_or_family),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
