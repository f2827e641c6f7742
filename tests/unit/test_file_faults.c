/* Hostile and damaged files: every one is refused with a message, none is read past its end (ASan
 * watches), none costs memory out of proportion, and no failing allocation leaks. */
#include "file_help.h"
#include <sys/resource.h>

static const uint64_t d4[4] = {4, 1, 1, 1};

static void read_data(const char *name, char **data, size_t *n)
{
    char path[512];
    snprintf(path, sizeof(path), HY_DATA "/file/%s", name);
    assert_int_equal(hy_read_file(path, HY_MIB, data, n, NULL), HY_OK);
}

/* One tensor of 4 F32 after no metadata, whose info `change` may spoil. */
static void one_tensor(hy_buf *b, uint32_t n_dims, const uint64_t *dim, uint32_t type,
                       uint64_t offset, size_t data_bytes)
{
    bhead(b, 3, 1, 0);
    btensor(b, "blk.0.w", n_dims, dim, type, offset);
    bpad(b, 32);
    for (size_t i = 0; i < data_bytes; i++) hy_buf_char(b, 1);
}

static void truncated_everywhere(void **state)
{
    static const struct {
        const char *name;
        hy_file_kind kind;
    } files[] = {{"types.gguf", HY_FILE_GGUF}, {"one.safetensors", HY_FILE_SAFETENSORS}};
    for (size_t k = 0; k < HY_COUNT(files); k++) {
        char *data;
        size_t n;
        read_data(files[k].name, &data, &n);
        for (size_t i = 0; i < n; i++) {
            hy_file *f;
            hy_err err = {0};
            void *block;
            hy_status s = open_exact(&f, data, i, files[k].kind, &block, &err);
            /* Only the padding behind the last tensor may be missing. */
            if (s == HY_OK) {
                assert_true(files[k].kind == HY_FILE_GGUF && i + 32 > n);
                hy_file_close(f);
            } else {
                assert_int_equal(s, HY_E_FORMAT);
                assert_true(strlen(err.msg) > 10);
                assert_null(f);
            }
            free(block);
        }
        hy_free(data);
    }
}

static void header(void **state)
{
    hy_buf b = {0};
    refuse("", 0, HY_FILE_GGUF, HY_E_FORMAT, "truncated header");
    refuse("GGUF", 4, HY_FILE_GGUF, HY_E_FORMAT, "truncated header"); /* L1 */
    refuse("GGML\3\0\0\0", 8, HY_FILE_GGUF, HY_E_FORMAT, "neither a GGUF");
    bhead(&b, 1, 0, 0);
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_UNSUPPORTED, "version 1");
    bhead(&b, 4, 0, 0);
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_UNSUPPORTED, "version 4");
    bhead(&b, 0, 0, 0);
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_UNSUPPORTED, "version 0");
    bhead(&b, 0x03000000, 0, 0);
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_UNSUPPORTED, "big-endian");
    static const uint64_t counts[] = {1, 1000, 1ull << 32, 1ull << 60, 1ull << 63, UINT64_MAX};
    for (size_t i = 0; i < HY_COUNT(counts); i++) {
        bhead(&b, 3, counts[i], 0);
        refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "tensors cannot fit");
        bhead(&b, 3, 0, counts[i]);
        refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "metadata keys cannot fit");
    }
    bhead(&b, 3, 0, 0); /* nothing inside, and no fault */
    hy_file *f;
    assert_int_equal(hy_file_open_memory(&f, b.data, b.len, HY_FILE_GGUF, NULL), HY_OK);
    hy_file_close(f);
    hy_buf_free(&b);
}

static void strings_and_arrays(void **state)
{
    hy_buf b = {0};
    static const uint64_t lengths[] = {100, 1ull << 31, 1ull << 63, UINT64_MAX - 7, UINT64_MAX};
    for (size_t i = 0; i < HY_COUNT(lengths); i++) { /* L13: keys, strings, items, names */
        bhead(&b, 3, 0, 1);
        b64(&b, lengths[i]);
        for (int k = 0; k < 40; k++) hy_buf_char(&b, 'a');
        refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "truncated key");
        bhead(&b, 3, 0, 1);
        bkey(&b, "k", HY_M_STR);
        b64(&b, lengths[i]);
        refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "truncated string");
        bhead(&b, 3, 0, 1);
        bkey(&b, "k", HY_M_ARRAY);
        b32(&b, HY_M_STR);
        b64(&b, lengths[i]);
        bstr(&b, "one");
        refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "strings cannot fit");
        bhead(&b, 3, 0, 1);
        bkey(&b, "k", HY_M_ARRAY);
        b32(&b, HY_M_U64);
        b64(&b, lengths[i]);
        refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "truncated value of key k");
        bhead(&b, 3, 1, 0);
        b64(&b, lengths[i]);
        for (int k = 0; k < 40; k++) hy_buf_char(&b, 'a');
        refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "truncated tensor name");
    }
    bhead(&b, 3, 0, 1);
    bkey(&b, "deep", HY_M_ARRAY);
    for (int i = 0; i < 1000; i++) { /* L13: arrays of arrays */
        b32(&b, HY_M_ARRAY);
        b64(&b, 1);
    }
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_UNSUPPORTED, "array of arrays");
    bhead(&b, 3, 0, 1);
    bkey(&b, "k", 13);
    b64(&b, 0);
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "value type 13");
    bhead(&b, 3, 0, 1);
    bkey(&b, "k", HY_M_BOOL);
    hy_buf_char(&b, 2);
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "no boolean");
    bhead(&b, 3, 0, 1);
    bkey(&b, "", HY_M_U64);
    b64(&b, 0);
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "has 0 bytes");
    bhead(&b, 3, 0, 1);
    b64(&b, 3);
    hy_buf_put(&b, "a\0b", 3);
    b32(&b, HY_M_U64);
    b64(&b, 0);
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "control character");
    bhead(&b, 3, 0, 2);
    for (int i = 0; i < 2; i++) {
        bkey(&b, "twin", HY_M_U32);
        b32(&b, 1);
    }
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "key twin occurs twice");
    hy_buf_free(&b);
}

static void alignment(void **state)
{
    hy_buf b = {0};
    static const uint32_t bad[] = {0, 3, 33, 48, 1u << 21, 1u << 31, UINT32_MAX};
    for (size_t i = 0; i < HY_COUNT(bad); i++) {
        bhead(&b, 3, 0, 1);
        bkey(&b, "general.alignment", HY_M_U32);
        b32(&b, bad[i]);
        refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "general.alignment");
    }
    bhead(&b, 3, 0, 1); /* L5 */
    bkey(&b, "general.alignment", HY_M_STR);
    bstr(&b, "32");
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "general.alignment: not an integer");
    bhead(&b, 3, 0, 1);
    bkey(&b, "general.alignment", HY_M_I32);
    b32(&b, (uint32_t)-32);
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "negative");
    bhead(&b, 3, 1, 1); /* another alignment is obeyed */
    bkey(&b, "general.alignment", HY_M_U32);
    b32(&b, 256);
    btensor(&b, "w", 1, d4, 0, 0);
    bpad(&b, 256);
    b64(&b, 0x3f8000003f800000);
    b64(&b, 0x3f8000003f800000);
    hy_file *f;
    assert_int_equal(hy_file_open_memory(&f, b.data, b.len, HY_FILE_GGUF, NULL), HY_OK);
    assert_int_equal(f->alignment, 256);
    assert_int_equal(f->tensor[0].offset, 256);
    hy_file_close(f);
    hy_buf_free(&b);
}

static void dimensions(void **state)
{
    hy_buf b = {0};
    const uint64_t zero[] = {256, 0}, huge[] = {1ull << 32, 1ull << 32}, top[] = {UINT64_MAX},
                   odd[] = {33}, big[] = {1ull << 61}, five[] = {1, 1, 1, 1, 1};
    one_tensor(&b, 2, zero, 0, 0, 64);
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "tensor blk.0.w: dimension 1 is 0"); /* L3 */
    one_tensor(&b, 2, huge, 0, 0, 64);
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "overflow");
    one_tensor(&b, 1, top, 0, 0, 64);
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "overflow");
    one_tensor(&b, 1, big, 0, 0, 64);
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "tensor blk.0.w");
    one_tensor(&b, 1, odd, 8, 0, 64);
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "no multiple of q8_0's block of 32");
    one_tensor(&b, 5, five, 0, 0, 64);
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "5 dimensions");
    one_tensor(&b, 0, five, 0, 0, 64);
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "0 dimensions");
    hy_buf_free(&b);
}

static void offsets(void **state)
{
    hy_buf b = {0};
    hy_file *f;
    one_tensor(&b, 1, d4, 0, 0, 16);
    assert_int_equal(hy_file_open_memory(&f, b.data, b.len, HY_FILE_GGUF, NULL), HY_OK);
    hy_file_close(f);
    one_tensor(&b, 1, d4, 0, 0, 15); /* L7: by one byte, by 2^63 */
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "run past its end");
    one_tensor(&b, 1, d4, 0, 32, 32);
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "run past its end");
    one_tensor(&b, 1, d4, 0, 1ull << 63, 32);
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "run past its end");
    one_tensor(&b, 1, d4, 0, UINT64_MAX - 31, 32);
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "run past its end");
    one_tensor(&b, 1, d4, 0, 4, 32);
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "no multiple of the alignment");
    one_tensor(&b, 1, d4, 4711, 1ull << 62, 32); /* also where the type tells no size */
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "run past its end");
    one_tensor(&b, 1, d4, 4711, 0, 32);
    assert_int_equal(hy_file_open_memory(&f, b.data, b.len, HY_FILE_GGUF, NULL), HY_OK);
    assert_false(f->tensor[0].known);
    hy_file_close(f);

    const uint64_t d16[] = {16};
    bhead(&b, 3, 2, 0);
    btensor(&b, "a", 1, d16, 0, 0);
    btensor(&b, "b", 1, d16, 0, 32);
    bpad(&b, 32);
    for (int i = 0; i < 16; i++) b64(&b, 0);
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "tensor b at 128 overlaps tensor a");
    bhead(&b, 3, 2, 0);
    btensor(&b, "a", 1, d16, 0, 0);
    btensor(&b, "a", 1, d16, 0, 64);
    bpad(&b, 32);
    for (int i = 0; i < 16; i++) b64(&b, 0);
    refuse(b.data, b.len, HY_FILE_GGUF, HY_E_FORMAT, "tensor a occurs twice");
    hy_buf_free(&b);
}

/* Each byte of the header takes hostile values: opening ends, and what opens stays inside. */
static void every_byte_spoiled(void **state)
{
    static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    static const struct {
        const char *name;
        hy_file_kind kind;
        size_t head;
    } files[] = {{"types.gguf", HY_FILE_GGUF, 2400}, {"one.safetensors", HY_FILE_SAFETENSORS, 420}};
    for (size_t k = 0; k < HY_COUNT(files); k++) {
        char *data;
        size_t n;
        read_data(files[k].name, &data, &n);
        for (size_t i = 0; i < HY_MIN(files[k].head, n); i++) {
            char old = data[i];
            for (size_t v = 0; v < HY_COUNT(values); v++) {
                hy_file *f;
                data[i] = (char)values[v];
                if (hy_file_open_memory(&f, data, n, files[k].kind, NULL) != HY_OK) continue;
                for (uint64_t t = 0; t < f->n_tensor; t++) {
                    assert_true(f->tensor[t].offset <= n);
                    assert_true(f->tensor[t].bytes <= n - f->tensor[t].offset);
                }
                hy_file_close(f);
            }
            data[i] = old;
        }
        hy_free(data);
    }
}

/* 1 MiB that claims as much as it can: a string array, then keys of one byte. */
static void memory_bounded(void **state)
{
    hy_buf b = {0};
    uint64_t n = HY_MIB / 8;
    bhead(&b, 3, 0, 1);
    bkey(&b, "k", HY_M_ARRAY);
    b32(&b, HY_M_STR);
    b64(&b, n);
    for (uint64_t i = 0; i < n; i++) b64(&b, 0);
    hy_file *f;
    assert_int_equal(hy_file_open_memory(&f, b.data, b.len, HY_FILE_GGUF, NULL), HY_OK);
    assert_int_equal(hy_file_meta(f, "k")->n, n);
    assert_true(hy_arena_bytes(f->arena) < 3 * HY_MIB);
    hy_file_close(f);

    bhead(&b, 3, 0, 20000);
    char key[16];
    for (int i = 0; i < 20000; i++) {
        snprintf(key, sizeof(key), "%d", i);
        bkey(&b, key, HY_M_U8);
        hy_buf_char(&b, 1);
    }
    assert_int_equal(hy_file_open_memory(&f, b.data, b.len, HY_FILE_GGUF, NULL), HY_OK);
    assert_true(hy_arena_bytes(f->arena) < 10 * b.len);
    for (int i = 0; i < 20000; i++) {
        snprintf(key, sizeof(key), "%d", i);
        assert_ptr_equal(hy_file_meta(f, key), &f->meta[i]);
    }
    hy_file_close(f);
    hy_buf_free(&b);
}

/* Every allocation of an open fails once. */
static void allocations(void **state)
{
    static const char *const paths[] = {HY_DATA "/file/types.gguf",
                                        HY_DATA "/file/split-00002-of-00003.gguf",
                                        HY_DATA "/file/one.safetensors", HY_DATA "/file/folder"};
    for (size_t k = 0; k < HY_COUNT(paths); k++) {
        int64_t n = 0;
        for (;; n++) {
            hy_file *f;
            hy_err err = {0};
            hy_alloc_fail_after(n);
            hy_status s = hy_file_open(&f, paths[k], &err);
            hy_alloc_fail_after(-1);
            if (s == HY_OK) {
                hy_file_close(f);
                break;
            }
            assert_int_equal(s, HY_E_MEMORY);
            assert_null(f);
        }
        assert_true(n > 2);
    }
}

static void no_file(void **state)
{
    hy_err err = {0};
    hy_file *f;
    assert_int_equal(hy_file_open(&f, HY_DATA "/file/absent.gguf", &err), HY_E_IO);
    assert_non_null(strstr(err.msg, "absent.gguf"));
    assert_int_equal(hy_file_open(&f, "", &err), HY_E_IO);
    assert_int_equal(hy_file_open(&f, "/dev/zero", &err), HY_E_IO);
    assert_int_equal(hy_file_open(&f, HY_DATA "/file/make.py", &err), HY_E_FORMAT);
    assert_int_equal(hy_file_open(&f, HY_DATA "/file", &err), HY_E_FORMAT);
    assert_non_null(strstr(err.msg, "config.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truncated_everywhere), cmocka_unit_test(header),
        cmocka_unit_test(strings_and_arrays),   cmocka_unit_test(alignment),
        cmocka_unit_test(dimensions),           cmocka_unit_test(offsets),
        cmocka_unit_test(every_byte_spoiled),   cmocka_unit_test(memory_bounded),
        cmocka_unit_test(allocations),          cmocka_unit_test(no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
