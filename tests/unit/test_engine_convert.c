/* A safetensors folder becomes a GGUF: its logits against transformers', and its tensors and keys
 * against the GGUF that the formats' own converter made of the same folder. */
#include "engine_tool_help.h"

static hy_status convert(const char *in, const char *out, const char *type, hy_err *err)
{
    hy_quantize_params p = { .type = type, .n_threads = 2 };
    return hy_tool_quantize(in, out, &p, err);
}

static void unpack(const hy_tensor *t, float *dst, uint64_t n)
{
    assert_true(t->known);
    hy_quant(t->qtype)->unpack(t->data, dst, n);
}

static uint64_t items(const hy_tensor *t)
{
    return t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
}

/* Every tensor of the reference is here, with the same rows. */
static void compare_tensors(const hy_file *ours, const hy_file *ref, const char *name)
{
    assert_int_equal(ours->n_tensor, ref->n_tensor);
    for (uint64_t i = 0; i < ref->n_tensor; i++) {
        const hy_tensor *r = &ref->tensor[i], *o = hy_file_tensor(ours, r->name);
        if (!o) fail_msg("%s: %s is missing", name, r->name);
        uint64_t n = items(r);
        if (items(o) != n || o->dim[0] != r->dim[0]) fail_msg("%s: %s differs in shape", name, r->name);
        float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
        unpack(o, a, n);
        unpack(r, b, n);
        for (uint64_t k = 0; k < n; k++)
            if (fabsf(a[k] - b[k]) > 1e-6f * HY_MAX(1.f, fabsf(b[k])))
                fail_msg("%s: %s[%llu] is %.9g, not %.9g", name, r->name, (unsigned long long)k, a[k], b[k]);
        free(a);
        free(b);
    }
}

static bool number(const hy_meta *m, double *out)
{
    if (m->type != HY_M_BOOL) return hy_meta_item_f64(m, 0, out);
    *out = *(const uint8_t *)m->data;
    return true;
}

static void compare_key(const hy_file *ours, const hy_meta *r, const char *name)
{
    const hy_meta *o = hy_file_meta(ours, r->key);
    double x, y;
    if (!o || (r->type == HY_M_STR) != (o->type == HY_M_STR)) fail_msg("%s: key %s is missing", name, r->key);
    if (r->type == HY_M_STR) {
        if (o->strs[0].n != r->strs[0].n || memcmp(o->strs[0].p, r->strs[0].p, r->strs[0].n))
            fail_msg("%s: key %s is %.*s", name, r->key, (int)HY_MIN(o->strs[0].n, 80), o->strs[0].p);
        return;
    }
    if (!number(r, &x) || !number(o, &y)) fail_msg("%s: key %s is no number", name, r->key);
    if (fabs(x - y) > 1e-6 * fabs(x)) fail_msg("%s: key %s is %g, not %g", name, r->key, y, x);
}

/* Keys of the architecture that are numbers or texts, and those of the tokenizer that decide ids. */
static void compare_keys(const hy_file *ours, const hy_file *ref, const char *name, bool tokenizer)
{
    /* written by the converter for families that do not read them, or as a name for the absent */
    static const char *const not_ours[] = { "layer_norm_rms_epsilon", "rope.scaling.type", "tensor_data_layout",
                                            "sliding_window", "original_context_length",
                                            "use_parallel_residual" };
    hy_str arch = { 0 };
    assert_int_equal(hy_meta_string(ref, "general.architecture", true, &arch, NULL), HY_OK);
    for (uint64_t i = 0; i < ref->n_meta; i++) {
        const hy_meta *r = &ref->meta[i];
        bool own = strncmp(r->key, arch.p, arch.n) == 0, skip = r->type == HY_M_ARRAY;
        if (tokenizer && strcmp(r->key, "tokenizer.ggml.model") == 0) own = true;
        if (tokenizer && strcmp(r->key, "tokenizer.ggml.pre") == 0) own = true;
        if (tokenizer && strcmp(r->key, "tokenizer.chat_template") == 0) own = true;
        for (size_t k = 0; k < HY_COUNT(not_ours); k++)
            skip |= strstr(r->key, not_ours[k]) && !hy_file_meta(ours, r->key);
        if (own && !skip) compare_key(ours, r, name);
    }
}

static void check_folder(const char *dir, const char *name, bool tokenizer, int *n_done, int *n_ref)
{
    char hf[1024], out[128], path[1024];
    snprintf(hf, sizeof hf, "%s/hf", dir);
    hy_err why;
    hy_status s = convert(hf, help_path(out, "c.gguf"), "f32", &why);
    if (s == HY_E_UNSUPPORTED && strstr(why.msg, "not known")) return; /* a family of another day */
    if (strcmp(name, "llama_dynamic") == 0) { /* GGUF has no key for it: refused, not dropped */
        assert_int_equal(s, HY_E_UNSUPPORTED);
        assert_non_null(strstr(why.msg, "dynamic"));
        return;
    }
    if (s != HY_OK) fail_msg("%s: %s", name, why.msg);
    help_error e = help_logits(out, dir);
    /* granite and its like turn halves into pairs, so sums differ in their last bits */
    if (!(e.max < 1e-3)) fail_msg("%s: logits are off by %g", name, e.max);
    (*n_done)++;
    static const char *const refs[] = { "model-f32.gguf", "model-bf16.gguf" };
    for (size_t i = 0; i < HY_COUNT(refs); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, refs[i]);
        if (!hy_is_file(path)) continue;
        hy_file *ours, *ref;
        DRIVE_OK(hy_file_open(&ours, out, err));
        DRIVE_OK(hy_file_open(&ref, path, err));
        compare_tensors(ours, ref, name);
        compare_keys(ours, ref, name, tokenizer);
        hy_file_close(ours);
        hy_file_close(ref);
        (*n_ref)++;
    }
    help_sweep();
}

static void check_all(const char *root, bool tokenizer)
{
    int n_done = 0, n_ref = 0;
    DIR *d = opendir(root);
    for (struct dirent *e; d && (e = readdir(d));) {
        char dir[700], config[800];
        snprintf(dir, sizeof dir, "%s/%s", root, e->d_name);
        snprintf(config, sizeof config, "%s/hf/config.json", dir);
        if (e->d_name[0] != '.' && hy_is_file(config)) check_folder(dir, e->d_name, tokenizer, &n_done, &n_ref);
    }
    if (d) closedir(d);
    print_message("%s: %d folders, %d compared with a converter's GGUF\n", strrchr(root, '/') + 1, n_done, n_ref);
}

static void test_folders(void **state)
{
    check_all(HY_DATA "/models", false);
    check_all(HY_DATA "/variants", false);
    if (hy_is_dir(HY_SHARED "/golden/models")) check_all(HY_SHARED "/golden/models", true);
}

/* Tokenizers: ids of the converted file against those of the folder's own files, whose goldens
 * test_tok_golden checks. */
static void test_tokenizers(void **state)
{
    static const char *const names[] = { "llama3", "qwen2", "llama2", "gemma", "gpt2", "falcon7b", "glm4", "phi3" };
    static const char text[] = "Hello, w\xc3\xb6rld! 12345 it's <|im_start|>  two  spaces\n\n\xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x98\x80";
    int n = 0;
    for (size_t i = 0; i < HY_COUNT(names); i++) {
        char hf[512], out[128];
        snprintf(hf, sizeof hf, HY_SHARED "/golden/models/%s/hf", names[i]);
        if (!hy_is_dir(hf)) continue;
        DRIVE_OK(convert(hf, help_path(out, "t.gguf"), "f16", err));
        int32_t *ids[2];
        size_t n_ids[2];
        for (int k = 0; k < 2; k++) {
            hy_tokenizer *t;
            DRIVE_OK(hy_tokenizer_open(&t, k ? out : hf, err));
            DRIVE_OK(hy_tokenizer_encode(t, text, sizeof text - 1, true, true, &ids[k], &n_ids[k], err));
            hy_tokenizer_close(t);
        }
        assert_int_equal(n_ids[0], n_ids[1]);
        assert_memory_equal(ids[0], ids[1], n_ids[0] * sizeof *ids[0]);
        hy_memory_free(ids[0]);
        hy_memory_free(ids[1]);
        n++;
    }
    print_message("tokenizers: %d\n", n);
    help_sweep();
}

static void test_bad_folders(void **state)
{
    char out[128];
    hy_err err;
    help_path(out, "b.gguf");
    assert_int_equal(convert(HY_DATA "/none", out, "f16", &err), HY_E_IO);
    assert_int_equal(convert(HY_DATA "/models/gpt2/hf", out, "q9_x", &err), HY_E_ARG);
    assert_non_null(strstr(err.msg, "q9_x"));
    assert_int_equal(help_sweep(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_tokenizers),
        cmocka_unit_test(test_bad_folders),
    };
    return cmocka_run_group_tests(tests, help_setup, help_teardown);
}
