/* Level 1: pages are written while others wait. F16 keys and values shrink by a tenth to a third. */
#include "kv/coder.h"
#include "kv/pool.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

hy_status hy_kv_coder_open(hy_kv_coder *k, const hy_kv *kv, hy_err *err)
{
    uint64_t most = 0;
    for (uint32_t g = 0; g < kv->n_group; g++) most = HY_MAX(most, kv->pool[g].g.page_bytes);
    *k = (hy_kv_coder){ .buf_bytes = ZSTD_compressBound((size_t)most) };
    k->c = ZSTD_createCCtx();
    k->d = ZSTD_createDCtx();
    k->buf = hy_alloc(k->buf_bytes);
    k->page = hy_alloc((size_t)most);
    if (k->c && k->d && k->buf && k->page) return HY_OK;
    uint64_t bytes = k->buf_bytes + most;
    hy_kv_coder_close(k);
    return hy_fail_memory(err, "compressed pages", bytes);
}

void hy_kv_coder_close(hy_kv_coder *k)
{
    ZSTD_freeCCtx(k->c);
    ZSTD_freeDCtx(k->d);
    hy_free(k->buf);
    hy_free(k->page);
    *k = (hy_kv_coder){ .buf = NULL };
}

size_t hy_kv_pack(hy_kv_coder *k, const uint8_t *page, size_t n, const uint8_t **out)
{
    size_t r = ZSTD_compressCCtx(k->c, k->buf, k->buf_bytes, page, n, 1);
    bool shorter = !ZSTD_isError(r) && r < n;
    *out = shorter ? k->buf : page;
    return shorter ? r : n;
}

bool hy_kv_unpack(hy_kv_coder *k, const uint8_t *in, size_t n_in, uint8_t *page, size_t n)
{
    if (n_in == n) {
        memcpy(page, in, n);
        return true;
    }
    size_t r = ZSTD_decompressDCtx(k->d, page, n, in, n_in);
    return !ZSTD_isError(r) && r == n;
}

bool hy_kv_write_at(int fd, const void *buf, size_t n, uint64_t at)
{
    for (size_t done = 0; done < n;) {
        ssize_t r = pwrite(fd, (const uint8_t *)buf + done, n - done, (off_t)(at + done));
        if (r < 0 && errno == EINTR) continue;
        if (r <= 0) return false;
        done += (size_t)r;
    }
    return true;
}

bool hy_kv_read_at(int fd, void *buf, size_t n, uint64_t at)
{
    for (size_t done = 0; done < n;) {
        ssize_t r = pread(fd, (uint8_t *)buf + done, n - done, (off_t)(at + done));
        if (r < 0 && errno == EINTR) continue;
        if (r == 0) errno = 0;
        if (r <= 0) return false;
        done += (size_t)r;
    }
    return true;
}
