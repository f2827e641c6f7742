/* room: kv */
/* Loads the bytes as a saved conversation, as they are and with the checksum of the head made right, so that
 * the fields behind it are reached; then the pool must be whole, and what was loaded can be taken. */
#include "kv/kv.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { HEAD = 8 + 4 * 4 + 8 + 4 * 24, IDENTITY = 0x1234 };

static void load(const void *data, size_t n)
{
    static const hy_kv_group g[2] = {
        { .window = 0, .n_layer = 2, .page_bytes = 256, .part_bytes = 64, .n_page = 16 },
        { .window = 40, .n_layer = 1, .page_bytes = 128, .part_bytes = 64, .n_page = 16 },
    };
    char path[64];
    int fd = memfd_create("kvfile", MFD_CLOEXEC);
    hy_kv *kv = NULL;
    hy_err err = { 0 };
    if (fd < 0 || write(fd, data, n) != (ssize_t)n || hy_kv_open(&kv, g, 2, &err) != HY_OK) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    uint32_t n_tok = 99;
    hy_status st = hy_kv_load(kv, path, IDENTITY, 1, 1000, &n_tok, &err);
    if (st != HY_OK && (err.msg[0] == 0 || n_tok != 0 || hy_kv_free_pages(kv, 0) != 16)) abort();
    if (st == HY_OK && (n_tok == 0 || n_tok > 256)) abort();
    if (hy_kv_check(kv, NULL, 0, &err) != HY_OK) abort();
    hy_kv_close(kv);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    load(data, n);
    if (n < HEAD + 8) return 0;
    uint8_t *copy = malloc(n);
    if (!copy) return 0;
    memcpy(copy, data, n);
    uint64_t hash = hy_hash64(copy, HEAD, 0);
    memcpy(copy + HEAD, &hash, sizeof hash);
    load(copy, n);
    free(copy);
    return 0;
}
