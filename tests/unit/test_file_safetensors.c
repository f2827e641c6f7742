/* Reading safetensors: against what its own Python library wrote (tests/data/file/make.py), and
 * headers and folders that must be refused. */
#include "file_help.h"

static void check_all(const hy_file *f)
{
    json_t *want = expected("safetensors"), *e;
    const char *name;
    assert_int_equal(f->kind, HY_FILE_SAFETENSORS);
    assert_int_equal(f->n_tensor, json_object_size(want));
    json_object_foreach(want, name, e)
    {
        const hy_tensor *t = hy_file_tensor(f, name);
        assert_non_null(t);
        const json_t *shape = json_object_get(e, "shape");
        size_t n = json_array_size(shape);
        assert_int_equal(t->bytes, json_integer_value(json_object_get(e, "bytes")));
        assert_true(same_fnv(json_object_get(e, "fnv"), t->data, t->bytes));
        assert_int_equal(t->known, strcmp(name, "i64") != 0 && strcmp(name, "five") != 0);
        if (n > HY_DIMS_MAX) continue;
        assert_int_equal(t->n_dims, HY_MAX(n, 1));
        for (size_t i = 0; i < HY_DIMS_MAX; i++) /* reversed: the last of the shape comes first */
            assert_int_equal(t->dim[i],
                             i < n ? json_integer_value(json_array_get(shape, n - 1 - i)) : 1);
        hy_file_done_with(f, t);
    }
    assert_int_equal(hy_file_tensor(f, "f32")->qtype, HY_Q_F32);
    assert_int_equal(hy_file_tensor(f, "f16")->qtype, HY_Q_F16);
    json_decref(want);
}

static void one_file(void **state)
{
    hy_err err = {0};
    hy_file *f;
    if (hy_file_open(&f, HY_DATA "/file/one.safetensors", &err) != HY_OK) fail_msg("%s", err.msg);
    check_all(f);
    assert_null(f->config);
    assert_null(hy_file_meta(f, "format"));
    hy_file_close(f);
}

static void sharded_folder(void **state)
{
    hy_err err = {0};
    hy_file *f;
    if (hy_file_open(&f, HY_DATA "/file/folder", &err) != HY_OK) fail_msg("%s", err.msg);
    check_all(f);
    assert_int_equal(f->n_part, 2);
    assert_string_equal(json_string_value(json_object_get(f->config, "model_type")), "test");
    assert_non_null(f->generation_config);
    assert_null(f->tokenizer_config);
    hy_file_close(f);
}

static void set(hy_buf *b, const char *json, size_t n_data)
{
    hy_buf_reset(b);
    bstr(b, json);
    for (size_t i = 0; i < n_data; i++) hy_buf_char(b, 7);
}

static void refuse_json(const char *json, size_t n_data, const char *part)
{
    hy_buf b = {0};
    set(&b, json, n_data);
    refuse(b.data, b.len, HY_FILE_SAFETENSORS, HY_E_FORMAT, part);
    hy_buf_free(&b);
}

#define ENTRY(name, type, shape, first, last)                                                      \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" first "," last   \
    "]}"

static void headers(void **state)
{
    hy_buf b = {0};
    refuse("", 0, HY_FILE_SAFETENSORS, HY_E_FORMAT, "truncated header");
    static const uint64_t lengths[] = {3, 1ull << 40, 1ull << 63, UINT64_MAX - 7, UINT64_MAX};
    for (size_t i = 0; i < HY_COUNT(lengths); i++) {
        hy_buf_reset(&b);
        b64(&b, lengths[i]);
        hy_buf_str(&b, "{}");
        refuse(b.data, b.len, HY_FILE_SAFETENSORS, HY_E_FORMAT, "truncated, or a wrong length");
    }
    refuse_json("", 0, "not valid JSON");
    refuse_json("[]", 0, "no JSON object");
    refuse_json("{\"a\":", 0, "not valid JSON");
    refuse_json("{\"a\":1}", 0, "its entry is no JSON object");
    refuse_json("{\"a\":{}}", 0, "data_offsets");
    refuse_json("{" ENTRY("a\\u0000b", "F32", "[1]", "0", "4") "}", 4, "not valid JSON");
    refuse_json("{" ENTRY("a", "F32", "[1]", "0", "4") "," ENTRY("a", "F32", "[1]", "4", "8") "}",
                8, "not valid JSON"); /* the same name twice */
    refuse_json("{" ENTRY("a", "F32", "[2]", "0", "4") "}", 4, "4 bytes of data for 2 weights");
    refuse_json("{" ENTRY("a", "F32", "[1]", "0", "4") "}", 3, "past the end");
    refuse_json("{" ENTRY("a", "F32", "[1]", "4", "0") "}", 4, "no range");
    refuse_json("{" ENTRY("a", "F32", "[1]", "-4", "0") "}", 4, "no range");
    refuse_json("{" ENTRY("a", "F32", "[1]", "0", "9223372036854775807") "}", 4, "past the end");
    refuse_json("{" ENTRY("a", "F32", "[1]", "0", "9223372036854775808") "}", 4, "not valid JSON");
    refuse_json("{" ENTRY("a", "F32", "[-1]", "0", "4") "}", 4, "no natural number");
    refuse_json("{" ENTRY("a", "F32", "[1.0]", "0", "4") "}", 4, "no natural number");
    refuse_json("{" ENTRY("a", "F32", "[4294967296,4294967296]", "0", "4") "}", 4, "overflow");
    refuse_json("{" ENTRY("a", "F32", "[4611686018427387905]", "0", "4") "}", 4, "bytes of data");
    refuse_json("{" ENTRY("a", "F32", "1", "0", "4") "}", 4, "no shape");
    refuse_json("{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no dtype");
    refuse_json("{" ENTRY("a", "F32", "[1]", "0", "4") "," ENTRY("b", "F32", "[1]", "2", "6") "}",
                6, "overlaps");
    refuse_json("{" ENTRY("a", "F32", "[1]", "0", "4") "," ENTRY("b", "F32", "[1]", "6", "10") "}",
                10, "2 bytes before tensor b");
    refuse_json("{" ENTRY("a", "F32", "[1]", "0", "4") "}", 5, "the last tensor ends");
    hy_buf_reset(&b); /* deep nesting ends in jansson's own limit */
    hy_buf c = {0};
    hy_buf_str(&c, "{\"a\":");
    for (int i = 0; i < 100000; i++) hy_buf_char(&c, '[');
    bstr(&b, c.data);
    refuse(b.data, b.len, HY_FILE_SAFETENSORS, HY_E_FORMAT, "not valid JSON");
    hy_buf_free(&c);
    hy_buf_free(&b);
}

static void allowed(void **state)
{
    hy_buf b = {0};
    hy_file *f;
    set(&b,
        "{\"__metadata__\":{\"a\":\"b\"}," ENTRY("x", "BF16", "[3]", "0", "6") "," ENTRY(
            "none", "F32", "[0,5]", "6", "6") "," ENTRY("new", "F4", "[4]", "6", "8") "}   ",
        8);
    hy_err err = {0};
    if (hy_file_open_memory(&f, b.data, b.len, HY_FILE_SAFETENSORS, &err) != HY_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(f->n_tensor, 3);
    assert_int_equal(hy_file_tensor(f, "x")->qtype, HY_Q_BF16);
    assert_true(hy_file_tensor(f, "x")->known);
    assert_false(hy_file_tensor(f, "none")->known);
    assert_false(hy_file_tensor(f, "new")->known);
    assert_int_equal(hy_file_tensor(f, "new")->bytes, 2);
    hy_file_close(f);
    set(&b, "{}", 0);
    assert_int_equal(hy_file_open_memory(&f, b.data, b.len, HY_FILE_SAFETENSORS, &err), HY_OK);
    assert_int_equal(f->n_tensor, 0);
    hy_file_close(f);
    hy_buf_free(&b);
}

static void open_folder(const char *folder, const char *index, hy_status code, const char *part)
{
    hy_err err = {0};
    hy_file *f;
    if (index) write_text(folder, "model.safetensors.index.json", index);
    hy_status s = hy_file_open(&f, folder, &err);
    if (s != code || !strstr(err.msg, part)) fail_msg("%s: %s", hy_status_name(s), err.msg);
    assert_null(f);
}

static void folders(void **state)
{
    char folder[64];
    hy_buf b = {0};
    make_folder(folder);
    open_folder(folder, NULL, HY_E_FORMAT, "config.json is missing");
    write_text(folder, "config.json", "[1]");
    open_folder(folder, NULL, HY_E_FORMAT, "config.json is no JSON object");
    write_text(folder, "config.json", "{\"a\":1");
    open_folder(folder, NULL, HY_E_FORMAT, "config.json is not valid JSON");
    write_text(folder, "config.json", "{}");
    open_folder(folder, NULL, HY_E_FORMAT, "neither model.safetensors nor");
    open_folder(folder, "{}", HY_E_FORMAT, "no weight_map");
    static const char *const names[] = {"../a.safetensors", "/etc/passwd", "..", ".", "", "x/y"};
    for (size_t i = 0; i < HY_COUNT(names); i++) {
        char json[128];
        snprintf(json, sizeof(json), "{\"weight_map\":{\"w\":\"%s\"}}", names[i]);
        open_folder(folder, json, HY_E_FORMAT, "no plain file name");
    }
    open_folder(folder, "{\"weight_map\":{\"w\":7}}", HY_E_FORMAT, "no plain file name");
    open_folder(folder, "{\"weight_map\":{\"w\":\"a.safetensors\"}}", HY_E_IO, "a.safetensors");
    set(&b, "{" ENTRY("v", "F32", "[1]", "0", "4") "}", 4);
    write_file(folder, "a.safetensors", b.data, b.len);
    open_folder(folder, "{\"weight_map\":{\"w\":\"a.safetensors\"}}", HY_E_FORMAT,
                "tensor w is not in a.safetensors");
    write_file(folder, "b.safetensors", b.data, b.len);
    open_folder(folder, "{\"weight_map\":{\"v\":\"a.safetensors\",\"w\":\"b.safetensors\"}}",
                HY_E_FORMAT, "tensor");
    set(&b, "{" ENTRY("w", "F32", "[1]", "0", "4") "}", 4);
    write_file(folder, "b.safetensors", b.data, b.len);
    hy_file *f;
    write_text(folder, "model.safetensors.index.json",
               "{\"weight_map\":{\"v\":\"a.safetensors\",\"w\":\"b.safetensors\"}}");
    assert_int_equal(hy_file_open(&f, folder, NULL), HY_OK);
    assert_int_equal(f->n_tensor, 2);
    assert_int_equal(hy_file_tensor(f, "w")->i_part, 1);
    hy_file_close(f);
    write_file(folder, "model.safetensors", b.data, b.len - 1);
    open_folder(folder, NULL, HY_E_FORMAT, "model.safetensors: tensor w");
    hy_buf_free(&b);
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_file), cmocka_unit_test(sharded_folder), cmocka_unit_test(headers),
        cmocka_unit_test(allowed),  cmocka_unit_test(folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
