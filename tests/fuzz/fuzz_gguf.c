/* room: file */
/* Opens the bytes as a GGUF and reads all that an open file offers. */
#include "file/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Keeps the compiler from dropping reads. */
static volatile uint64_t sink;

static void read_bytes(const void *p, uint64_t n)
{
    const uint8_t *b = p;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++) sum += b[i];
    sink += sum;
}

static void read_meta(const hy_file *f, const hy_meta *m)
{
    uint64_t u = 0;
    int64_t i64 = 0;
    double d = 0;
    bool b = false;
    hy_str s = {0};
    hy_err err;
    for (uint64_t i = 0; i < m->n; i++) {
        if (m->strs) read_bytes(m->strs[i].p, m->strs[i].n);
        if (hy_meta_item_u64(m, i, &u)) sink += u;
        if (hy_meta_item_i64(m, i, &i64)) sink += (uint64_t)i64;
        if (hy_meta_item_f64(m, i, &d)) sink += d != 0;
    }
    hy_meta_item_u64(m, m->n, &u);
    hy_meta_u64(f, m->key, true, 1, 1000, &u, &err);
    hy_meta_f64(f, m->key, true, &d, &err);
    hy_meta_bool(f, m->key, true, &b, &err);
    hy_meta_string(f, m->key, true, &s, &err);
    if (hy_file_meta(f, m->key) != m) __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    hy_file *f;
    hy_err err;
    if (hy_file_open_memory(&f, data, n, HY_FILE_GGUF, &err) != HY_OK) {
        read_bytes(err.msg, strlen(err.msg));
        return 0;
    }
    for (uint64_t i = 0; i < f->n_meta; i++) read_meta(f, &f->meta[i]);
    for (uint64_t i = 0; i < f->n_tensor; i++) {
        const hy_tensor *t = &f->tensor[i];
        if (hy_file_tensor(f, t->name) != t) __builtin_trap();
        read_bytes(t->data, t->bytes);
        hy_file_done_with(f, t);
    }
    if (hy_file_meta(f, "absent") && hy_file_tensor(f, "absent")) sink++;
    hy_file_close(f);
    return 0;
}
