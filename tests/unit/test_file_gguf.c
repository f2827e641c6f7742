/* Reading GGUF: every value type, tensors, splits and versions, against what ggml's own Python
 * library reads from the same bytes (tests/data/file/make.py). */
#include "file_help.h"
#include <math.h>

static void check_item(const hy_meta *m, uint64_t i, const json_t *want)
{
    hy_meta_type t = m->type == HY_M_ARRAY ? m->item : m->type;
    if (t == HY_M_STR) {
        assert_int_equal(m->strs[i].n, json_string_length(want));
        assert_memory_equal(m->strs[i].p, json_string_value(want), m->strs[i].n);
    } else if (t == HY_M_BOOL) {
        assert_int_equal(((const uint8_t *)m->data)[i], json_is_true(want));
    } else if (t == HY_M_F32 || t == HY_M_F64) {
        double v;
        assert_true(hy_meta_item_f64(m, i, &v));
        assert_true(v == json_real_value(want));
    } else if (json_is_string(want)) { /* scalars, as text because u64 exceeds JSON's */
        const char *s = json_string_value(want);
        uint64_t u;
        int64_t v;
        if (s[0] == '-') {
            assert_false(hy_meta_item_u64(m, i, &u));
            assert_true(hy_meta_item_i64(m, i, &v));
            assert_true(v == strtoll(s, NULL, 10));
        } else {
            assert_true(hy_meta_item_u64(m, i, &u));
            assert_true(u == strtoull(s, NULL, 10));
        }
    } else {
        int64_t v;
        assert_true(hy_meta_item_i64(m, i, &v));
        assert_true(v == json_integer_value(want));
    }
}

static void check_file(const hy_file *f, const json_t *want)
{
    const json_t *meta = json_object_get(want, "meta"), *tensors = json_object_get(want, "tensors");
    const char *key;
    json_t *e;
    json_object_foreach((json_t *)meta, key, e)
    {
        const hy_meta *m = hy_file_meta(f, key);
        assert_non_null(m);
        const json_t *value = json_object_get(e, "value");
        assert_int_equal(m->type, json_integer_value(json_object_get(e, "type")));
        assert_int_equal(m->item, json_integer_value(json_object_get(e, "item")));
        assert_int_equal(m->n, json_is_array(value) ? json_array_size(value) : 1);
        for (uint64_t i = 0; i < m->n; i++)
            check_item(m, i, json_is_array(value) ? json_array_get(value, i) : value);
    }
    assert_int_equal(f->n_tensor, json_array_size(tensors));
    for (uint64_t i = 0; i < f->n_tensor; i++) {
        e = json_array_get(tensors, i);
        const hy_tensor *t = hy_file_tensor(f, json_string_value(json_object_get(e, "name")));
        assert_non_null(t);
        assert_ptr_equal(t, &f->tensor[i]);
        const json_t *dims = json_object_get(e, "dims");
        assert_int_equal(t->n_dims, json_array_size(dims));
        for (uint32_t k = 0; k < HY_DIMS_MAX; k++)
            assert_int_equal(t->dim[k],
                             k < t->n_dims ? json_integer_value(json_array_get(dims, k)) : 1);
        assert_int_equal(t->ggml_type, json_integer_value(json_object_get(e, "type")));
        assert_int_equal(t->known, strcmp(t->name, "w.iq2_xxs") != 0);
        uint64_t bytes = (uint64_t)json_integer_value(json_object_get(e, "bytes"));
        if (t->known) assert_int_equal(t->bytes, bytes);
        assert_true(same_fnv(json_object_get(e, "fnv"), t->data, bytes));
        assert_ptr_equal(t->data, f->part[t->i_part].data + t->offset);
        hy_file_done_with(f, t);
        assert_true(same_fnv(json_object_get(e, "fnv"), t->data, bytes));
    }
}

static void values_and_tensors(void **state)
{
    hy_err err = {0};
    hy_file *f;
    json_t *want = expected("gguf");
    assert_int_equal(hy_file_open(&f, HY_DATA "/file/types.gguf", &err), HY_OK);
    assert_int_equal(f->kind, HY_FILE_GGUF);
    assert_int_equal(f->gguf_version, 3);
    assert_int_equal(f->alignment, 32);
    assert_int_equal(f->n_part, 1);
    assert_int_equal(f->n_meta, json_object_size(json_object_get(want, "meta")));
    check_file(f, want);
    for (uint64_t i = 0; i < f->n_tensor; i++) {
        if (i > 0)
            assert_int_equal(f->tensor[i].offset,
                             json_integer_value(json_object_get(
                                 json_array_get(json_object_get(want, "tensors"), i), "offset")));
    }
    assert_null(hy_file_meta(f, "t.absent"));
    assert_null(hy_file_tensor(f, "absent"));
    hy_file_close(f);
    json_decref(want);
}

static void version_2(void **state)
{
    hy_err err = {0};
    hy_file *f;
    char *data;
    size_t n;
    assert_int_equal(hy_read_file(HY_DATA "/file/types.gguf", HY_MIB, &data, &n, &err), HY_OK);
    data[4] = 2; /* the layout is that of version 3 */
    assert_int_equal(hy_file_open_memory(&f, data, n, HY_FILE_GGUF, &err), HY_OK);
    assert_int_equal(f->gguf_version, 2);
    json_t *want = expected("gguf");
    check_file(f, want);
    json_decref(want);
    hy_file_close(f);
    hy_free(data);
}

static void split_from_any_part(void **state)
{
    json_t *want = expected("gguf");
    for (int part = 1; part <= 3; part++) {
        hy_err err = {0};
        hy_file *f;
        char path[512];
        snprintf(path, sizeof(path), HY_DATA "/file/split-%05d-of-00003.gguf", part);
        if (hy_file_open(&f, path, &err) != HY_OK) fail_msg("%s", err.msg);
        assert_int_equal(f->n_part, 3);
        assert_int_equal(f->bytes, f->part[0].bytes + f->part[1].bytes + f->part[2].bytes);
        check_file(f, want);
        hy_file_close(f);
    }
    json_decref(want);
}

static void copy(const char *from, const char *folder, const char *name)
{
    hy_err err = {0};
    char *data, path[512];
    size_t n;
    snprintf(path, sizeof(path), HY_DATA "/file/%s", from);
    assert_int_equal(hy_read_file(path, HY_MIB, &data, &n, &err), HY_OK);
    write_file(folder, name, data, n);
    hy_free(data);
}

static void open_refused(const char *folder, const char *name, hy_status code, const char *part)
{
    hy_err err = {0};
    hy_file *f;
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    hy_status s = hy_file_open(&f, path, &err);
    if (s != code || !strstr(err.msg, part)) fail_msg("%s: %s", hy_status_name(s), err.msg);
    assert_null(f);
}

static void split_faults(void **state)
{
    char folder[64];
    make_folder(folder);
    copy("split-00001-of-00003.gguf", folder, "m-00001-of-00003.gguf");
    copy("split-00002-of-00003.gguf", folder, "m-00002-of-00003.gguf");
    open_refused(folder, "m-00001-of-00003.gguf", HY_E_IO, "part 3 of 3");
    open_refused(folder, "m-00003-of-00003.gguf", HY_E_IO, "m-00003");
    copy("split-00002-of-00003.gguf", folder, "m-00003-of-00003.gguf");
    open_refused(folder, "m-00001-of-00003.gguf", HY_E_FORMAT, "split.no: 1, expected 2");
    open_refused(folder, "m-00003-of-00003.gguf", HY_E_FORMAT, "split.no");
    copy("types.gguf", folder, "m-00003-of-00003.gguf");
    open_refused(folder, "m-00001-of-00003.gguf", HY_E_FORMAT, "split.count: 0, expected 3");
    copy("split-00001-of-00003.gguf", folder, "renamed.gguf");
    open_refused(folder, "renamed.gguf", HY_E_FORMAT, "one of 3 parts");
    copy("split-00001-of-00003.gguf", folder, "m-00001-of-00004.gguf");
    open_refused(folder, "m-00001-of-00004.gguf", HY_E_FORMAT, "one of 3 parts");
    copy("types.gguf", folder, "whole-00001-of-00003.gguf"); /* only its name is a part's */
    hy_file *f;
    char path[128];
    snprintf(path, sizeof(path), "%s/whole-00001-of-00003.gguf", folder);
    assert_int_equal(hy_file_open(&f, path, NULL), HY_OK);
    hy_file_close(f);
    remove_folder(folder);
}

static void split_tensor_total(void **state)
{
    char folder[64];
    hy_buf b = {0};
    make_folder(folder);
    for (uint16_t no = 0; no < 2; no++) {
        bhead(&b, 3, 0, 3);
        bkey(&b, "split.no", HY_M_U16);
        hy_buf_put(&b, &no, 2);
        bkey(&b, "split.count", HY_M_U16);
        hy_buf_put(&b, &(uint16_t){2}, 2);
        bkey(&b, "split.tensors.count", HY_M_I32);
        b32(&b, 5);
        write_file(folder, no ? "x-00002-of-00002.gguf" : "x-00001-of-00002.gguf", b.data, b.len);
    }
    open_refused(folder, "x-00002-of-00002.gguf", HY_E_FORMAT,
                 "split.tensors.count: 5, but the parts hold 0");
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_UNSUPPORTED, "split file");
    hy_buf_free(&b);
    remove_folder(folder);
}

/* Arrays of strings may go before the file does; their number, and single strings, stay. */
static void strings_let_go(void **state)
{
    hy_err err = {0};
    hy_file *f;
    uint64_t n_array = 0, n_string = 0, before[64];
    assert_int_equal(hy_file_open(&f, HY_DATA "/models/llama3/model-bf16.gguf", &err), HY_OK);
    assert_true(f->n_meta <= 64);
    for (uint64_t i = 0; i < f->n_meta; i++) before[i] = f->meta[i].n;
    hy_file_done_with_strings(f);
    hy_file_done_with_strings(f);
    for (uint64_t i = 0; i < f->n_meta; i++) {
        const hy_meta *m = &f->meta[i];
        assert_int_equal(m->n, before[i]);
        if (m->type == HY_M_ARRAY && m->item == HY_M_STR) n_array += !m->strs;
        if (m->type == HY_M_STR) n_string += m->strs && m->strs->p;
    }
    assert_true(n_array >= 1 && n_string >= 1);
    hy_str arch;
    assert_int_equal(hy_meta_string(f, "general.architecture", true, &arch, &err), HY_OK);
    assert_int_equal(arch.n, 5);
    assert_memory_equal(arch.p, "llama", 5);
    hy_file_close(f);
}

static void typed_reading(void **state)
{
    hy_err err = {0};
    hy_file *f;
    assert_int_equal(hy_file_open(&f, HY_DATA "/file/types.gguf", &err), HY_OK);
    uint64_t u = 7;
    assert_int_equal(hy_meta_u64(f, "t.absent", false, 0, 10, &u, &err), HY_OK);
    assert_int_equal(u, 7);
    assert_int_equal(hy_meta_u64(f, "t.absent", true, 0, 10, &u, &err), HY_E_FORMAT);
    assert_non_null(strstr(err.msg, "t.absent"));
    assert_int_equal(hy_meta_u64(f, "t.u8", true, 0, 255, &u, &err), HY_OK);
    assert_int_equal(u, 200);
    assert_int_equal(hy_meta_u64(f, "t.u8", true, 1, 199, &u, &err), HY_E_FORMAT);
    assert_non_null(strstr(err.msg, "key t.u8: 200 is not from 1 to 199"));
    assert_int_equal(hy_meta_u64(f, "t.i16", true, 0, 255, &u, &err), HY_E_FORMAT);
    assert_non_null(strstr(err.msg, "-30000"));
    assert_int_equal(hy_meta_u64(f, "t.u64", true, 0, UINT64_MAX, &u, &err), HY_OK);
    assert_true(u == UINT64_MAX);
    assert_int_equal(hy_meta_u64(f, "t.str", true, 0, 1, &u, &err), HY_E_FORMAT);
    assert_non_null(strstr(err.msg, "expected an integer, found string"));
    assert_int_equal(hy_meta_u64(f, "t.ints", true, 0, 1, &u, &err), HY_E_FORMAT);
    assert_non_null(strstr(err.msg, "an array of i32"));
    assert_int_equal(hy_meta_u64(f, "t.f32", true, 0, 1, &u, &err), HY_E_FORMAT);
    assert_int_equal(hy_meta_u64(f, "t.yes", true, 0, 1, &u, &err), HY_E_FORMAT);
    int64_t v;
    assert_false(hy_meta_item_i64(hy_file_meta(f, "t.u64"), 0, &v)); /* does not fit */
    assert_false(hy_meta_item_i64(hy_file_meta(f, "t.ints"), 3, &v));
    double d = 1.5;
    assert_int_equal(hy_meta_f64(f, "t.absent", false, &d, &err), HY_OK);
    assert_true(d == 1.5);
    assert_int_equal(hy_meta_f64(f, "t.f32", true, &d, &err), HY_OK);
    assert_true(d == (double)0.1f);
    assert_int_equal(hy_meta_f64(f, "t.i32", true, &d, &err), HY_OK);
    assert_true(d == -2e9);
    assert_int_equal(hy_meta_f64(f, "t.str", true, &d, &err), HY_E_FORMAT);
    bool yes = false;
    assert_int_equal(hy_meta_bool(f, "t.yes", true, &yes, &err), HY_OK);
    assert_true(yes);
    assert_int_equal(hy_meta_bool(f, "t.no", true, &yes, &err), HY_OK);
    assert_false(yes);
    assert_int_equal(hy_meta_bool(f, "t.u8", true, &yes, &err), HY_E_FORMAT);
    hy_str s = {0};
    assert_int_equal(hy_meta_string(f, "general.architecture", true, &s, &err), HY_OK);
    assert_int_equal(s.n, 4);
    assert_memory_equal(s.p, "test", 4);
    assert_int_equal(hy_meta_string(f, "t.u8", true, &s, &err), HY_E_FORMAT);
    assert_string_equal(hy_meta_type_name(HY_M_U32), "u32");
    hy_file_close(f);
}

static void not_finite(void **state)
{
    hy_buf b = {0};
    hy_err err = {0};
    hy_file *f;
    double d;
    bhead(&b, 3, 0, 1);
    bkey(&b, "x", HY_M_F32);
    b32(&b, 0x7fc00000);
    assert_int_equal(hy_file_open_memory(&f, b.data, b.len, HY_FILE_GGUF, &err), HY_OK);
    assert_int_equal(hy_meta_f64(f, "x", true, &d, &err), HY_E_FORMAT);
    assert_non_null(strstr(err.msg, "not finite"));
    hy_file_close(f);
    hy_buf_free(&b);
}

/* Both forms of a model hold the same embedding, so each reader checks the other. */
static bool compare_forms(const char *folder, const char *gguf)
{
    static const char *const names[] = {
        "model.embed_tokens.weight",  "transformer.wte.weight",
        "gpt_neox.embed_in.weight",   "transformer.word_embeddings.weight",
        "backbone.embeddings.weight", "model.language_model.embed_tokens.weight",
    };
    hy_err err = {0};
    hy_file *a, *b;
    char hf[600];
    snprintf(hf, sizeof(hf), "%s/hf", folder);
    if (hy_file_open(&a, gguf, &err) != HY_OK) fail_msg("%s", err.msg);
    if (hy_file_open(&b, hf, &err) != HY_OK) fail_msg("%s", err.msg);
    assert_non_null(b->config);
    const hy_tensor *x = hy_file_tensor(a, "token_embd.weight"), *y = NULL;
    for (size_t i = 0; i < HY_COUNT(names) && !y; i++) y = hy_file_tensor(b, names[i]);
    bool same = x && y && x->known && y->known && x->qtype == y->qtype;
    if (same) {
        assert_int_equal(x->dim[0], y->dim[0]);
        assert_int_equal(x->dim[1], y->dim[1]);
        assert_int_equal(x->bytes, y->bytes);
        assert_memory_equal(x->data, y->data, x->bytes);
    }
    hy_file_close(a);
    hy_file_close(b);
    return same;
}

/* Every GGUF of every model folder in `root`, as golden/README.md lays them out. */
static void check_models(const char *root, int *n_gguf, int *n_same)
{
    DIR *d = opendir(root);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) {
        char folder[512], path[1024];
        if (e->d_name[0] == '.') continue;
        snprintf(folder, sizeof(folder), "%s/%s", root, e->d_name);
        DIR *m = opendir(folder);
        if (!m) continue;
        for (struct dirent *g; (g = readdir(m));) {
            size_t n = strlen(g->d_name);
            snprintf(path, sizeof(path), "%s/hf/model.safetensors", folder);
            if (n < 5 || strcmp(g->d_name + n - 5, ".gguf") != 0 || !hy_is_file(path)) continue;
            snprintf(path, sizeof(path), "%s/%s", folder, g->d_name);
            ++*n_gguf;
            *n_same += compare_forms(folder, path);
        }
        closedir(m);
    }
    closedir(d);
}

static void golden_models(void **state)
{
    static const char *const roots[] = {HY_DATA "/models", HY_SHARED "/golden/models"};
    for (size_t i = 0; i < HY_COUNT(roots); i++) {
        int n_gguf = 0, n_same = 0;
        check_models(roots[i], &n_gguf, &n_same);
        print_message("%s: %d GGUFs, %d embeddings equal to the safetensors\n", roots[i], n_gguf,
                      n_same);
        if (i == 0) assert_true(n_gguf >= 1 && n_same >= 1);
        if (i == 1 && n_gguf > 0) assert_true(n_same >= n_gguf / 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_tensors),  cmocka_unit_test(version_2),
        cmocka_unit_test(split_from_any_part), cmocka_unit_test(split_faults),
        cmocka_unit_test(split_tensor_total),  cmocka_unit_test(typed_reading),  cmocka_unit_test(strings_let_go),
        cmocka_unit_test(not_finite),          cmocka_unit_test(golden_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
