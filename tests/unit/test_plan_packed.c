/* plan: the packed form in a file: used when it is right, made again when it is stale or broken. */
#include "load_help.h"
#include "plan/load.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODEL HY_DATA "/models/llama3/model-bf16.gguf"

static char folder[64], model[96], packed[96];

static void copy(const char *from, const char *to)
{
    char *data;
    size_t n;
    hy_err err = { 0 };
    assert_int_equal(hy_read_file(from, HY_GIB, &data, &n, &err), HY_OK);
    FILE *f = fopen(to, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    hy_free(data);
}

static int enter(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/hy-packed-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(model, sizeof model, "%s/model.gguf", folder);
    snprintf(packed, sizeof packed, "%s/model.packed", folder);
    copy(MODEL, model);
    return 0;
}

static int leave(void **state)
{
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", folder);
    return system(cmd);
}

static hy_model *load_isa(const char *const *paths, uint32_t n, int quantise, const char *isa)
{
    hy_kernels k;
    hy_err err = { 0 };
    hy_file *f = NULL;
    hy_model *m = NULL;
    hy_team *team = NULL;
    assert_int_equal(hy_kern_fill(&k, hy_cpu_features(), isa, &err), HY_OK);
    assert_int_equal(hy_team_open(&team, 2, false, &err), HY_OK);
    if (hy_file_open(&f, model, &err) != HY_OK) fail_msg("%s", err.msg);
    hy_load_opts o = { .kern = &k, .team = team, .quantise = quantise, .packed = paths, .n_packed = n };
    if (hy_model_load(&m, f, &o, &err) != HY_OK) fail_msg("%s", err.msg);
    hy_file_close(f);
    hy_team_close(team);
    return m;
}

static hy_model *load_packed(int quantise)
{
    const char *const paths[] = { packed };
    return load_isa(paths, 1, quantise, NULL);
}

static bool mapped(const hy_model *m)
{
    return m->mem->map.data != NULL;
}

/* Loads twice: the first must pack, the second map, and both must hold the same. */
static void packs_then_maps(int quantise)
{
    hy_model *plain = load_isa(NULL, 0, quantise, NULL), *a = load_packed(quantise), *b = load_packed(quantise);
    assert_false(mapped(plain));
    assert_false(mapped(a));
    assert_true(mapped(b));
    assert_int_equal(a->weight_bytes, plain->weight_bytes);
    assert_int_equal(b->weight_bytes, plain->weight_bytes);
    assert_memory_equal(a->mem->data, plain->mem->data, plain->weight_bytes);
    assert_memory_equal(b->mem->data, plain->mem->data, plain->weight_bytes);
    assert_int_equal((uintptr_t)b->mem->data % HY_ALIGN, 0);
    assert_int_equal(b->all_float, plain->all_float);
    assert_int_equal(b->tied, plain->tied);
    /* places as well: the last layer's last matrix */
    const hy_weight *w = &b->layer[b->hp.n_layer - 1][HY_W_DOWN], *v = &plain->layer[b->hp.n_layer - 1][HY_W_DOWN];
    assert_int_equal(w->panels->data - b->mem->data, v->panels->data - plain->mem->data);
    hy_model_free(plain);
    hy_model_free(a);
    hy_model_free(b);
}

static void test_right(void **state)
{
    packs_then_maps(-1);
}

static bool now_mapped(void)
{
    hy_model *m = load_packed(-1);
    bool yes = mapped(m);
    hy_model_free(m);
    return yes;
}

static void flip(long at)
{
    FILE *f = fopen(packed, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    int c = fgetc(f);
    assert_int_equal(fseek(f, -1, SEEK_CUR), 0);
    fputc(c ^ 0x10, f);
    assert_int_equal(fclose(f), 0);
}

/* Whatever byte is wrong, it is packed again, and right afterwards. */
static void test_broken(void **state)
{
    assert_true(now_mapped());
    const long at[] = { 0, 8, 12, 16, 24, 32, 40, 48, 64, 70, 4096, 8192, -1, -5000 };
    for (size_t i = 0; i < HY_COUNT(at); i++) {
        flip(at[i]);
        if (now_mapped()) fail_msg("byte %ld is wrong, and the file was used", at[i]);
        assert_true(now_mapped());
    }
    const long lengths[] = { 0, 10, 64, 4095, 4096, 20000 };
    for (size_t i = 0; i < HY_COUNT(lengths); i++) {
        assert_int_equal(truncate(packed, lengths[i]), 0);
        assert_false(now_mapped());
        assert_true(now_mapped());
    }
    FILE *f = fopen(packed, "a"); /* longer than it should be */
    assert_non_null(f);
    fputc(0, f);
    fclose(f);
    assert_false(now_mapped());
    assert_true(now_mapped());
}

static void test_stale(void **state)
{
    assert_true(now_mapped());
    struct timespec t[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000, .tv_nsec = 5 } };
    assert_int_equal(utimensat(AT_FDCWD, model, t, 0), 0); /* the source's time */
    assert_false(now_mapped());
    assert_true(now_mapped());
    packs_then_maps(HY_Q_Q8_0); /* other types */
    assert_false(now_mapped());
    const char *const paths[] = { packed };
    hy_kernels best;
    hy_err err = { 0 };
    assert_int_equal(hy_kern_fill(&best, hy_cpu_features(), NULL, &err), HY_OK);
    hy_model *m = load_isa(paths, 1, -1, "scalar"); /* panels of 8 rows */
    assert_int_equal(mapped(m), best.panel == 8);
    hy_model_free(m);
}

static void test_places(void **state)
{
    char other[128];
    snprintf(other, sizeof other, "%s/other.packed", folder);
    unlink(packed);
    const char *const paths[] = { "/nonexistent/x.packed", other };
    hy_model *a = load_isa(paths, 2, -1, NULL), *b = load_isa(paths, 2, -1, NULL);
    assert_false(mapped(a));
    assert_true(mapped(b)); /* of the second place */
    assert_true(hy_is_file(other));
    hy_model_free(a);
    hy_model_free(b);
    const char *const nowhere[] = { "/nonexistent/x.packed" };
    a = load_isa(nowhere, 1, -1, NULL); /* cannot be kept: no failure */
    assert_false(mapped(a));
    hy_model_free(a);
}

static void test_no_memory(void **state)
{
    hy_kernels k;
    hy_err err = { 0 };
    hy_file *f = NULL;
    const char *const paths[] = { packed };
    assert_int_equal(hy_kern_fill(&k, hy_cpu_features(), NULL, &err), HY_OK);
    for (int round = 0; round < 2; round++) /* packing, then mapping */
        for (int64_t n = 0; n < 100; n++) {
            if (round == 0) unlink(packed);
            assert_int_equal(hy_file_open(&f, model, &err), HY_OK);
            hy_load_opts o = { .kern = &k, .quantise = -1, .packed = paths, .n_packed = 1 };
            hy_model *m = NULL;
            hy_alloc_fail_after(n);
            hy_status s = hy_model_load(&m, f, &o, &err);
            hy_alloc_fail_after(-1);
            assert_true(s == HY_OK || s == HY_E_MEMORY);
            hy_model_free(s == HY_OK ? m : NULL);
            hy_file_close(f);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right), cmocka_unit_test(test_broken), cmocka_unit_test(test_stale),
        cmocka_unit_test(test_places), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
