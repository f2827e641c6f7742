/* What the tests of file/ share: a byte builder for hostile GGUFs, and opening from memory. */
#ifndef FILE_HELP_H
#define FILE_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "file/file.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static inline void b32(hy_buf *b, uint32_t v) { hy_buf_put(b, &v, 4); }

static inline void b64(hy_buf *b, uint64_t v) { hy_buf_put(b, &v, 8); }

static inline void bstr(hy_buf *b, const char *s)
{
    b64(b, strlen(s));
    hy_buf_str(b, s);
}

static inline void bhead(hy_buf *b, uint32_t version, uint64_t n_tensor, uint64_t n_meta)
{
    hy_buf_reset(b);
    hy_buf_put(b, "GGUF", 4);
    b32(b, version);
    b64(b, n_tensor);
    b64(b, n_meta);
}

static inline void bkey(hy_buf *b, const char *key, uint32_t type)
{
    bstr(b, key);
    b32(b, type);
}

static inline void btensor(hy_buf *b, const char *name, uint32_t n_dims, const uint64_t *dim,
                           uint32_t type, uint64_t offset)
{
    bstr(b, name);
    b32(b, n_dims);
    for (uint32_t i = 0; i < n_dims; i++) b64(b, dim[i]);
    b32(b, type);
    b64(b, offset);
}

static inline void bpad(hy_buf *b, size_t align)
{
    while (b->len % align) hy_buf_char(b, 0);
}

/* The bytes go into a block of exactly their size, so that ASan sees a read past the end. */
static inline hy_status open_exact(hy_file **f, const void *data, size_t n, hy_file_kind kind,
                                   void **block, hy_err *err)
{
    *block = malloc(n ? n : 1);
    assert_non_null(*block);
    if (n) memcpy(*block, data, n);
    return hy_file_open_memory(f, *block, n, kind, err);
}

/* Opening must fail with `code` and a message that contains `part`. */
static inline void refuse(const void *data, size_t n, hy_file_kind kind, hy_status code,
                          const char *part)
{
    hy_file *f = NULL;
    hy_err err = {0};
    void *block;
    hy_status s = open_exact(&f, data, n, kind, &block, &err);
    if (s != code || !strstr(err.msg, part))
        print_error("expected %s \"%s\", found %s \"%s\"\n", hy_status_name(code), part,
                    hy_status_name(s), err.msg);
    assert_int_equal(s, code);
    assert_null(f);
    assert_non_null(strstr(err.msg, part));
    hy_file_close(f);
    free(block);
}

static inline uint64_t fnv(const uint8_t *p, uint64_t n)
{
    uint64_t h = 0xCBF29CE484222325u;
    for (uint64_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001B3u;
    return h;
}

static inline bool same_fnv(const json_t *hex, const uint8_t *p, uint64_t n)
{
    return strtoull(json_string_value(hex), NULL, 16) == fnv(p, n);
}

/* A folder of its own, removed with what is in it. */
static inline void make_folder(char path[64])
{
    strcpy(path, P_tmpdir "/hy-file-XXXXXX");
    assert_non_null(mkdtemp(path));
}

static inline void remove_folder(const char *path)
{
    char name[512];
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
        unlink(name);
    }
    closedir(d);
    assert_int_equal(rmdir(path), 0);
}

static inline void write_file(const char *folder, const char *name, const void *data, size_t n)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *o = fopen(path, "wb");
    assert_non_null(o);
    assert_int_equal(fwrite(data, 1, n, o), n);
    assert_int_equal(fclose(o), 0);
}

static inline void write_text(const char *folder, const char *name, const char *text)
{
    write_file(folder, name, text, strlen(text));
}

static inline json_t *expected(const char *part)
{
    json_error_t e;
    json_t *j = json_load_file(HY_DATA "/file/expected.json", 0, &e);
    assert_non_null(j);
    json_t *sub = json_incref(json_object_get(j, part));
    assert_non_null(sub);
    json_decref(j);
    return sub;
}

#endif
