/* Loading files that lie: sizes out of range, missing, unknown or misshapen tensors, broken configs,
 * failing allocations. Nothing crashes; the message names the thing and the value. */
#include "load_help.h"
#include <sys/stat.h>

typedef struct bytes { char *data; size_t n; char path[64]; } bytes;

static bytes take(const char *model, const char *file)
{
    bytes b = { .path = "hostile-XXXXXX.gguf" };
    char path[512];
    hy_err err = { 0 };
    assert_true(help_path(path, model, file));
    assert_int_equal(hy_read_file(path, 1 << 24, &b.data, &b.n, &err), HY_OK);
    int fd = mkstemps(b.path, 5);
    assert_true(fd >= 0);
    close(fd);
    return b;
}

static void put_back(bytes *b)
{
    hy_free(b->data);
    unlink(b->path);
}

static hy_status load_bytes(const bytes *b, hy_model **m, hy_err *err)
{
    FILE *f = fopen(b->path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b->data, 1, b->n, f), b->n);
    fclose(f);
    return help_load(m, b->path, -1, NULL, err);
}

/* The byte after a length-prefixed name, or NULL. */
static char *after(const bytes *b, const char *name)
{
    uint64_t len = strlen(name);
    for (size_t i = 0; i + 8 + len < b->n; i++)
        if (memcmp(b->data + i, &len, 8) == 0 && memcmp(b->data + i + 8, name, len) == 0)
            return b->data + i + 8 + len;
    return NULL;
}

static void set_u32(const bytes *b, const char *key, uint32_t v)
{
    char *p = after(b, key); /* type, value */
    assert_non_null(p);
    memcpy(p + 4, &v, 4);
}

static uint32_t get_u32(const bytes *b, const char *key)
{
    uint32_t v;
    char *p = after(b, key);
    assert_non_null(p);
    memcpy(&v, p + 4, 4);
    return v;
}

static void sizes_out_of_range(void **state)
{
    (void)state;
    static const struct { const char *key; uint32_t value; const char *text; } cases[] = {
        { "llama.attention.head_count", 0, "0" },
        { "llama.attention.head_count", 4000000000u, "4000000000" },
        { "llama.attention.head_count_kv", 0, "0" },
        { "llama.attention.head_count_kv", 3, "3" },
        { "llama.block_count", 4000000000u, "4000000000" },
        { "llama.block_count", 0, "0" },
        { "llama.embedding_length", 0, "0" },
        { "llama.embedding_length", UINT32_MAX, "4294967295" },
        { "llama.feed_forward_length", 0, "0" },
        { "llama.feed_forward_length", UINT32_MAX, "4294967295" },
        { "llama.context_length", 0, "0" },
        { "llama.attention.key_length", 0, "0" },
        { "llama.attention.key_length", 1u << 31, "2147483648" },
        { "llama.rope.dimension_count", 17, "17" },
        { "llama.rope.dimension_count", 200, "200" },
    };
    bytes b = take("llama3", "model-bf16.gguf");
    for (size_t i = 0; i < HY_COUNT(cases); i++) {
        uint32_t old = get_u32(&b, cases[i].key);
        set_u32(&b, cases[i].key, cases[i].value);
        hy_model *m = NULL;
        hy_err err = { 0 };
        hy_status s = load_bytes(&b, &m, &err);
        set_u32(&b, cases[i].key, old);
        if (s != HY_E_FORMAT) fail_msg("%s = %s: status %d", cases[i].key, cases[i].text, (int)s);
        if (!strstr(err.msg, cases[i].text)) fail_msg("%s: no value in: %s", cases[i].key, err.msg);
    }
    put_back(&b);
}

/* The two that a report of another engine's crash names: the message has key, value and limit. */
static void message_has_key_and_value(void **state)
{
    (void)state;
    bytes b = take("llama3", "model-bf16.gguf");
    hy_model *m = NULL;
    hy_err err = { 0 };
    set_u32(&b, "llama.block_count", 4000000000u);
    assert_int_equal(load_bytes(&b, &m, &err), HY_E_FORMAT);
    assert_non_null(strstr(err.msg, "llama.block_count"));
    assert_non_null(strstr(err.msg, "1024"));
    set_u32(&b, "llama.block_count", 2);
    set_u32(&b, "llama.attention.head_count", 0);
    assert_int_equal(load_bytes(&b, &m, &err), HY_E_FORMAT);
    assert_non_null(strstr(err.msg, "llama.attention.head_count"));
    put_back(&b);
}

/* Every numeric key with edge values: an error or a model, no crash, no leak. */
static void edge_values_everywhere(void **state)
{
    (void)state;
    static const char *const keys[] = { "qwen2moe.block_count", "qwen2moe.context_length",
        "qwen2moe.embedding_length", "qwen2moe.feed_forward_length", "qwen2moe.attention.head_count",
        "qwen2moe.attention.head_count_kv", "qwen2moe.rope.freq_base",
        "qwen2moe.attention.layer_norm_rms_epsilon", "qwen2moe.expert_count",
        "qwen2moe.expert_used_count", "qwen2moe.expert_feed_forward_length",
        "qwen2moe.expert_shared_feed_forward_length" };
    static const uint32_t values[] = { 0, 1, 3, 7, 64, 1000, 4096, 65537, 1u << 20, 1u << 24, 1u << 31,
        UINT32_MAX, 0x7fc00000 /* NaN */, 0x7f800000 /* infinity */, 0xbf800000 /* -1 */ };
    bytes b = take("qwen2_moe", "model-bf16.gguf");
    uint32_t n_refused = 0;
    for (size_t i = 0; i < HY_COUNT(keys); i++)
        for (size_t j = 0; j < HY_COUNT(values); j++) {
            uint32_t old = get_u32(&b, keys[i]);
            set_u32(&b, keys[i], values[j]);
            hy_model *m = NULL;
            hy_err err = { 0 };
            if (load_bytes(&b, &m, &err) != HY_OK) {
                assert_true(err.msg[0] != 0);
                n_refused++;
            }
            hy_model_free(m);
            set_u32(&b, keys[i], old);
        }
    assert_true(n_refused > 100);
    put_back(&b);
}

static void expect_error(const bytes *b, hy_status want, const char *text)
{
    hy_model *m = NULL;
    hy_err err = { 0 };
    assert_int_equal(load_bytes(b, &m, &err), want);
    if (!strstr(err.msg, text)) fail_msg("no \"%s\" in: %s", text, err.msg);
}

static void tensors_that_lie(void **state)
{
    (void)state;
    bytes b = take("llama3", "model-bf16.gguf");
    char *q = after(&b, "blk.1.attn_q.weight"); /* n_dims u32, dims u64, type u32, offset u64 */
    assert_non_null(q);
    char dims_type[24];
    memcpy(dims_type, q, sizeof dims_type);

    q[-8] = 'z'; /* attn_z.weight */
    expect_error(&b, HY_E_FORMAT, "blk.1.attn_q.weight is missing");
    q[-8] = 'q';

    uint64_t rows = 63;
    memcpy(q + 12, &rows, 8);
    expect_error(&b, HY_E_FORMAT, "blk.1.attn_q.weight is [64, 63]: must be [64, 64, 1]");
    memcpy(q, dims_type, sizeof dims_type);

    uint32_t type = 16; /* IQ2_XXS: 256 weights a block do not fit 64, so the reader may refuse first */
    memcpy(q + 20, &type, 4);
    hy_model *m = NULL;
    hy_err err = { 0 };
    assert_int_not_equal(load_bytes(&b, &m, &err), HY_OK);
    assert_non_null(strstr(err.msg, "blk.1.attn_q.weight"));
    memcpy(q, dims_type, sizeof dims_type);

    assert_int_equal(load_bytes(&b, &m, &err), HY_OK);
    hy_model_free(m);
    put_back(&b);
}

static void family_that_nobody_knows(void **state)
{
    (void)state;
    bytes b = take("llama3", "model-bf16.gguf");
    char *arch = after(&b, "general.architecture"); /* type u32, length u64, "llama" */
    assert_non_null(arch);
    memcpy(arch + 12, "lluma", 5);
    expect_error(&b, HY_E_UNSUPPORTED, "lluma");
    put_back(&b);
}

/* ---- config.json ------------------------------------------------------------------------------ */

static void config_that_lies(void **state)
{
    (void)state;
    static const struct { const char *key, *value; hy_status status; const char *text; } cases[] = {
        { "num_attention_heads", "0", HY_E_FORMAT, "num_attention_heads is 0" },
        { "num_hidden_layers", "4000000000", HY_E_FORMAT, "num_hidden_layers is 4000000000" },
        { "num_hidden_layers", "\"two\"", HY_E_FORMAT, "num_hidden_layers" },
        { "hidden_size", "-64", HY_E_FORMAT, "hidden_size is -64" },
        { "hidden_size", "null", HY_E_FORMAT, "hidden_size is absent" },
        { "vocab_size", "100", HY_E_FORMAT, "model.embed_tokens.weight" },
        { "num_key_value_heads", "3", HY_E_FORMAT, "3 KV heads" },
        { "rms_norm_eps", "\"x\"", HY_E_FORMAT, "rms_norm_eps" },
        { "hidden_act", "\"mish\"", HY_E_UNSUPPORTED, "mish" },
        { "model_type", "\"mamba9\"", HY_E_UNSUPPORTED, "mamba9" },
        { "rope_scaling", "{\"rope_type\": \"odd\"}", HY_E_UNSUPPORTED, "odd" },
        { "rope_scaling", "{\"rope_type\": \"longrope\", \"factor\": 4, \"long_factor\": [1]}",
          HY_E_FORMAT, "long_factor has 1 numbers: must be 8" },
        { "rope_scaling", "{\"rope_type\": \"linear\", \"factor\": 0}", HY_E_FORMAT, "factor" },
        { "rope_theta", "0", HY_E_FORMAT, "rope base is 0" },
        { "layer_types", "[\"sliding_attention\", 3]", HY_E_FORMAT, "layer_types[1]" },
        { "quantization_config", "{\"quant_method\": \"awq\"}", HY_E_UNSUPPORTED, "awq" },
    };
    char dir[] = "hostile-XXXXXX", path[512], source[512], config[64], weights[64];
    assert_non_null(mkdtemp(dir));
    snprintf(config, sizeof config, "%s/config.json", dir);
    snprintf(weights, sizeof weights, "%s/model.safetensors", dir);
    assert_true(help_path(source, "llama3", "hf/model.safetensors"));
    char *real = realpath(source, NULL);
    assert_non_null(real);
    assert_int_equal(symlink(real, weights), 0);
    free(real);
    assert_true(help_path(path, "llama3", "hf/config.json"));
    for (size_t i = 0; i < HY_COUNT(cases); i++) {
        json_t *c = json_load_file(path, 0, NULL);
        json_object_set_new(c, cases[i].key, json_loads(cases[i].value, JSON_DECODE_ANY, NULL));
        if (strcmp(cases[i].key, "layer_types") == 0) json_object_set_new(c, "sliding_window", json_integer(8));
        assert_int_equal(json_dump_file(c, config, 0), 0);
        json_decref(c);
        hy_model *m = NULL;
        hy_err err = { 0 };
        hy_status s = help_load(&m, dir, -1, NULL, &err);
        if (s != cases[i].status || !strstr(err.msg, cases[i].text))
            fail_msg("%s = %s: status %d, %s", cases[i].key, cases[i].value, (int)s, err.msg);
    }
    unlink(config);
    unlink(weights);
    rmdir(dir);
}

/* ---- allocations ------------------------------------------------------------------------------ */

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static const char *const files[][2] = { { "llama3", "model-bf16.gguf" }, { "gpt2", "hf" } };
    for (size_t i = 0; i < HY_COUNT(files); i++) {
        char path[512];
        assert_true(help_path(path, files[i][0], files[i][1]));
        hy_kernels k;
        help_kernels(&k);
        hy_err err = { 0 };
        hy_file *f = NULL;
        assert_int_equal(hy_file_open(&f, path, &err), HY_OK);
        hy_load_opts o = { .kern = &k, .quantise = -1 };
        hy_status s = HY_E_MEMORY;
        int64_t n = 0;
        for (; s != HY_OK && n < 1000; n++) {
            hy_model *m = NULL;
            hy_alloc_fail_after(n);
            s = hy_model_load(&m, f, &o, &err);
            hy_alloc_fail_after(-1);
            if (s != HY_OK) assert_int_equal(s, HY_E_MEMORY);
            hy_model_free(m);
        }
        assert_int_equal(s, HY_OK);
        assert_true(n > 3);
        hy_file_close(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_out_of_range),
        cmocka_unit_test(message_has_key_and_value),
        cmocka_unit_test(edge_values_everywhere),
        cmocka_unit_test(tensors_that_lie),
        cmocka_unit_test(family_that_nobody_knows),
        cmocka_unit_test(config_that_lies),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
