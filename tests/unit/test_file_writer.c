/* Writing GGUF: a file written from another reads the same, faults leave no file behind. */
#include "file_help.h"
#include <signal.h>
#include <sys/resource.h>

static char folder[64];

static const char *in_folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static int setup(void **state)
{
    make_folder(folder);
    return 0;
}

static int teardown(void **state)
{
    remove_folder(folder);
    return 0;
}

static int n_files(void)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* All of `f` that can be written: unknown tensor types cannot. */
static hy_status copy_all(const hy_file *f, const char *path, size_t piece, hy_err *err)
{
    hy_gguf_writer *w;
    HY_TRY(hy_gguf_create(&w, path, err));
    hy_status s = HY_OK;
    for (uint64_t i = 0; i < f->n_meta && s == HY_OK; i++)
        s = hy_gguf_put_meta(w, &f->meta[i], err);
    for (uint64_t i = 0; i < f->n_tensor && s == HY_OK; i++) {
        const hy_tensor *t = &f->tensor[i];
        if (t->known) s = hy_gguf_declare(w, t->name, t->n_dims, t->dim, t->qtype, err);
    }
    for (uint64_t i = 0; i < f->n_tensor; i++) {
        const hy_tensor *t = &f->tensor[i];
        for (uint64_t at = 0; t->known && at < t->bytes && s == HY_OK; at += piece)
            s = hy_gguf_put_data(w, t->data + at, HY_MIN(piece, t->bytes - at), err);
    }
    if (s == HY_OK) return hy_gguf_finish(w, err);
    hy_gguf_abort(w);
    return s;
}

static void check_same(const hy_file *a, const hy_file *b)
{
    assert_int_equal(a->n_meta, b->n_meta);
    for (uint64_t i = 0; i < a->n_meta; i++) {
        const hy_meta *x = &a->meta[i], *y = &b->meta[i];
        assert_string_equal(x->key, y->key);
        assert_int_equal(x->type, y->type);
        assert_int_equal(x->item, y->item);
        assert_int_equal(x->n, y->n);
        for (uint64_t k = 0; x->strs && k < x->n; k++) {
            assert_int_equal(x->strs[k].n, y->strs[k].n);
            assert_memory_equal(x->strs[k].p, y->strs[k].p, x->strs[k].n);
        }
        uint64_t u, v;
        for (uint64_t k = 0; !x->strs && k < x->n; k++) {
            if (hy_meta_item_u64(x, k, &u)) assert_true(hy_meta_item_u64(y, k, &v) && u == v);
        }
    }
    for (uint64_t i = 0; i < a->n_tensor; i++) {
        const hy_tensor *x = &a->tensor[i], *y = hy_file_tensor(b, x->name);
        if (!x->known) continue;
        assert_non_null(y);
        assert_int_equal(x->n_dims, y->n_dims);
        assert_memory_equal(x->dim, y->dim, sizeof(x->dim));
        assert_int_equal(x->ggml_type, y->ggml_type);
        assert_int_equal(x->bytes, y->bytes);
        assert_int_equal(y->offset % b->alignment, 0);
        assert_memory_equal(x->data, y->data, x->bytes);
    }
}

static void round_trip(void **state)
{
    static const size_t pieces[] = {1, 33, 1 << 20};
    hy_err err = {0};
    hy_file *a, *b;
    assert_int_equal(hy_file_open(&a, HY_DATA "/file/types.gguf", &err), HY_OK);
    for (size_t i = 0; i < HY_COUNT(pieces); i++) {
        if (copy_all(a, in_folder("copy.gguf"), pieces[i], &err) != HY_OK) fail_msg("%s", err.msg);
        assert_int_equal(n_files(), 1);
        if (hy_file_open(&b, in_folder("copy.gguf"), &err) != HY_OK) fail_msg("%s", err.msg);
        assert_int_equal(b->gguf_version, 3);
        assert_int_equal(b->n_tensor, a->n_tensor - 1);
        check_same(a, b);
        hy_file_close(b);
    }
    hy_file_close(a);
}

/* The bytes themselves, after ggml's docs/gguf.md. */
static void exact_bytes(void **state)
{
    hy_err err = {0};
    hy_gguf_writer *w;
    hy_buf want = {0};
    const uint64_t dim[] = {2, 3};
    const float data[6] = {1, 2, 3, 4, 5, 6};
    assert_int_equal(hy_gguf_create(&w, in_folder("x.gguf"), &err), HY_OK);
    assert_int_equal(hy_gguf_put_str(w, "general.architecture", "test", &err), HY_OK);
    assert_int_equal(hy_gguf_put_u32(w, "a", 7, &err), HY_OK);
    assert_int_equal(hy_gguf_put_f32(w, "b", 1.0f, &err), HY_OK);
    assert_int_equal(hy_gguf_put_bool(w, "c", true, &err), HY_OK);
    assert_int_equal(hy_gguf_declare(w, "t", 2, dim, HY_Q_F32, &err), HY_OK);
    assert_int_equal(hy_gguf_declare(w, "u", 1, dim, HY_Q_F16, &err), HY_OK);
    assert_int_equal(hy_gguf_put_data(w, data, sizeof(data), &err), HY_OK);
    assert_int_equal(hy_gguf_put_data(w, "abcd", 4, &err), HY_OK);
    assert_false(hy_is_file(in_folder("x.gguf"))); /* not before finish */
    assert_int_equal(hy_gguf_finish(w, &err), HY_OK);

    bhead(&want, 3, 2, 4);
    bkey(&want, "general.architecture", 8);
    bstr(&want, "test");
    bkey(&want, "a", 4);
    b32(&want, 7);
    bkey(&want, "b", 6);
    b32(&want, 0x3f800000);
    bkey(&want, "c", 7);
    hy_buf_char(&want, 1);
    btensor(&want, "t", 2, dim, 0, 0);
    btensor(&want, "u", 1, dim, 1, 32);
    bpad(&want, 32);
    hy_buf_put(&want, data, sizeof(data));
    bpad(&want, 32);
    hy_buf_put(&want, "abcd", 4);
    bpad(&want, 32);
    char *got;
    size_t n;
    assert_int_equal(hy_read_file(in_folder("x.gguf"), HY_MIB, &got, &n, &err), HY_OK);
    assert_int_equal(n, want.len);
    assert_memory_equal(got, want.data, n);
    hy_free(got);
    hy_buf_free(&want);
}

static void other_alignment(void **state)
{
    hy_gguf_writer *w;
    hy_file *f;
    const uint64_t dim[] = {1};
    assert_int_equal(hy_gguf_create(&w, in_folder("al.gguf"), NULL), HY_OK);
    assert_int_equal(hy_gguf_put_u32(w, "general.alignment", 100, NULL), HY_E_ARG);
    assert_int_equal(hy_gguf_put_u32(w, "general.alignment", 512, NULL), HY_OK);
    assert_int_equal(hy_gguf_declare(w, "a", 1, dim, HY_Q_F32, NULL), HY_OK);
    assert_int_equal(hy_gguf_declare(w, "b", 1, dim, HY_Q_F32, NULL), HY_OK);
    assert_int_equal(hy_gguf_put_data(w, "abcd", 4, NULL), HY_OK);
    assert_int_equal(hy_gguf_put_data(w, "efgh", 4, NULL), HY_OK);
    assert_int_equal(hy_gguf_finish(w, NULL), HY_OK);
    assert_int_equal(hy_file_open(&f, in_folder("al.gguf"), NULL), HY_OK);
    assert_int_equal(f->alignment, 512);
    assert_int_equal(hy_file_tensor(f, "b")->offset % 512, 0);
    assert_memory_equal(hy_file_tensor(f, "b")->data, "efgh", 4);
    hy_file_close(f);
}

static void wrong_use(void **state)
{
    hy_err err = {0};
    hy_gguf_writer *w;
    const uint64_t dim[] = {32}, odd[] = {31}, zero[] = {0};
    uint8_t data[128] = {0};
    int before = n_files();
    assert_int_equal(hy_gguf_create(&w, in_folder("absent/x.gguf"), &err), HY_E_IO);
    assert_null(w);
    assert_int_equal(hy_gguf_create(&w, in_folder("w.gguf"), &err), HY_OK);
    assert_int_equal(hy_gguf_put_u32(w, "k", 1, &err), HY_OK);
    assert_int_equal(hy_gguf_put_u32(w, "k", 2, &err), HY_E_ARG);
    assert_int_equal(hy_gguf_put_u32(w, "", 2, &err), HY_E_ARG);
    assert_int_equal(hy_gguf_declare(w, "odd", 1, odd, HY_Q_Q8_0, &err), HY_E_ARG);
    assert_int_equal(hy_gguf_declare(w, "zero", 1, zero, HY_Q_F32, &err), HY_E_ARG);
    assert_int_equal(hy_gguf_declare(w, "t", 1, dim, HY_Q_F32, &err), HY_OK);
    assert_int_equal(hy_gguf_declare(w, "t", 1, dim, HY_Q_F32, &err), HY_E_ARG);
    assert_int_equal(hy_gguf_put_data(w, data, 129, &err), HY_E_ARG);
    assert_int_equal(hy_gguf_put_data(w, data, 64, &err), HY_OK);
    assert_int_equal(hy_gguf_put_data(w, data, 65, &err), HY_E_ARG);
    assert_int_equal(hy_gguf_put_u32(w, "late", 1, &err), HY_E_ARG);
    assert_int_equal(hy_gguf_finish(w, &err), HY_E_ARG);
    assert_non_null(strstr(err.msg, "tensor t (1 of 1) has no data"));
    assert_int_equal(hy_gguf_create(&w, in_folder("w.gguf"), &err), HY_OK);
    hy_gguf_abort(w);
    hy_gguf_abort(NULL);
    assert_int_equal(n_files(), before);
}

/* A full disk, played by a limit on the size of files: an error, and no file, wherever it strikes.
 */
static void disk_full(void **state)
{
    hy_err err = {0};
    hy_file *a;
    struct rlimit old, limit;
    int before = n_files();
    assert_int_equal(hy_file_open(&a, HY_DATA "/file/types.gguf", &err), HY_OK);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    for (rlim_t n = 0; n < 12000; n += 4000) {
        limit = (struct rlimit){n, old.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        hy_status s = copy_all(a, in_folder("full.gguf"), 100, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(s, HY_E_IO);
        assert_non_null(strstr(err.msg, "cannot write"));
        assert_int_equal(n_files(), before);
    }
    /* Data larger than the buffer is written at once, so put_data itself fails, and so do all
     * that follow. */
    hy_gguf_writer *w;
    const uint64_t dim[] = {1 << 20};
    uint8_t *data = calloc(4, dim[0]);
    assert_int_equal(hy_gguf_create(&w, in_folder("full.gguf"), &err), HY_OK);
    assert_int_equal(hy_gguf_declare(w, "t", 1, dim, HY_Q_F32, &err), HY_OK);
    limit = (struct rlimit){100000, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(hy_gguf_put_data(w, data, 4 * dim[0], &err), HY_E_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(hy_gguf_put_data(w, data, 4, &err), HY_E_IO);
    assert_int_equal(hy_gguf_finish(w, &err), HY_E_IO);
    assert_int_equal(n_files(), before);
    free(data);
    hy_file_close(a);
}

static void allocations(void **state)
{
    hy_file *a;
    int before = n_files();
    assert_int_equal(hy_file_open(&a, HY_DATA "/file/types.gguf", NULL), HY_OK);
    int64_t n = 0;
    for (;; n++) {
        hy_alloc_fail_after(n);
        hy_status s = copy_all(a, in_folder("mem.gguf"), 1000, NULL);
        hy_alloc_fail_after(-1);
        if (s == HY_OK) break;
        assert_int_equal(s, HY_E_MEMORY);
        assert_int_equal(n_files(), before);
    }
    assert_true(n > 4);
    assert_int_equal(n_files(), before + 1);
    hy_file_close(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),      cmocka_unit_test(exact_bytes),
        cmocka_unit_test(other_alignment), cmocka_unit_test(wrong_use),
        cmocka_unit_test(disk_full),       cmocka_unit_test(allocations),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
