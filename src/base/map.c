/* Files: mapped, or read whole. */
#include "base/base.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLIO_BYTES_MAX (2 * HY_MIB)

/* O_NONBLOCK: opening a FIFO must not wait for a writer; regular files do not notice. */
static hy_status open_read(int *fd, struct stat *st, const char *path, hy_err *err)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return hy_fail(err, HY_E_IO, "%s: cannot open: %s", path, strerror(errno));
    if (fstat(*fd, st) != 0) {
        hy_status s = hy_fail(err, HY_E_IO, "%s: cannot stat: %s", path, strerror(errno));
        close(*fd);
        return s;
    }
    if (!S_ISREG(st->st_mode)) {
        close(*fd);
        return hy_fail(err, HY_E_IO, "%s: not a regular file", path);
    }
    return HY_OK;
}

hy_status hy_map_open(hy_map *m, const char *path, hy_err *err)
{
    *m = (hy_map){.fd = -1};
    struct stat st;
    int fd;
    HY_TRY(open_read(&fd, &st, path, err));
    if (st.st_size == 0) {
        close(fd);
        return HY_OK;
    }
    void *p = MAP_FAILED;
    if ((uint64_t)st.st_size <= SIZE_MAX)
        p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        hy_status s = hy_fail(err, HY_E_IO, "%s: cannot map %" PRIu64 " bytes: %s", path,
                              (uint64_t)st.st_size, strerror(errno));
        close(fd);
        return s;
    }
    *m = (hy_map){.data = p, .bytes = (uint64_t)st.st_size, .fd = fd};
    return HY_OK;
}

void hy_map_done_with(const hy_map *m, uint64_t offset, uint64_t n)
{
    if (!m->data || offset >= m->bytes) return;
    n = HY_MIN(n, m->bytes - offset);
    /* Linux maps all of a large folio (2 MiB at most) around what is touched, neighbours that were let go before too, so
     * all that may have come goes; what is still wanted of it comes back by itself. */
    uint64_t first = offset / FOLIO_BYTES_MAX * FOLIO_BYTES_MAX;
    uint64_t last = HY_MIN(HY_ROUND_UP(offset + n, FOLIO_BYTES_MAX), m->bytes);
    madvise((void *)(uintptr_t)(m->data + first), (size_t)(last - first), MADV_DONTNEED);
}

void hy_map_need(const hy_map *m, uint64_t offset, uint64_t n)
{
#if defined(MADV_POPULATE_READ) /* Linux 5.14; an error only means that pages come one by one */
    if (!m->data || offset >= m->bytes) return;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), first = offset / page * page;
    n = HY_MIN(n, m->bytes - offset) + (offset - first);
    madvise((void *)(uintptr_t)(m->data + first), (size_t)n, MADV_POPULATE_READ);
#endif
}

void hy_map_peek(const hy_map *m, uint64_t offset, size_t n, void *out)
{
    ssize_t got = m->fd >= 0 ? pread(m->fd, out, n, (off_t)offset) : -1;
    if (got != (ssize_t)n) memcpy(out, m->data + offset, n);
}

void hy_map_close(hy_map *m)
{
    if (m->data) {
        munmap((void *)(uintptr_t)m->data, (size_t)m->bytes);
        close(m->fd);
    }
    *m = (hy_map){.fd = -1};
}

/* Reads to the end of the file, whatever its size said: it may be growing. */
static hy_status read_all(hy_buf *b, int fd, const char *path, uint64_t limit, hy_err *err)
{
    for (;;) {
        if (!hy_buf_reserve(b, 4096)) return hy_fail_memory(err, path, (uint64_t)b->len + 4096);
        ssize_t got = read(fd, b->data + b->len, b->cap - b->len - 1);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return hy_fail(err, HY_E_IO, "%s: cannot read: %s", path, strerror(errno));
        b->len += (size_t)got;
        b->data[b->len] = 0;
        if (b->len > limit)
            return hy_fail(err, HY_E_LIMIT, "%s: more than %" PRIu64 " bytes", path, limit);
        if (got == 0) return HY_OK;
    }
}

hy_status hy_read_file(const char *path, uint64_t limit, char **data, size_t *n, hy_err *err)
{
    struct stat st;
    int fd;
    HY_TRY(open_read(&fd, &st, path, err));
    hy_buf b = {0};
    hy_status s = HY_OK;
    uint64_t size = st.st_size < 0 ? 0 : (uint64_t)st.st_size;
    if (size > limit)
        s = hy_fail(err, HY_E_LIMIT, "%s: %" PRIu64 " bytes, the limit is %" PRIu64, path, size,
                    limit);
    else if (size > SIZE_MAX / 8 || !hy_buf_reserve(&b, (size_t)size + 4097))
        s = hy_fail_memory(err, path, size);
    else
        s = read_all(&b, fd, path, limit, err);
    close(fd);
    if (s != HY_OK) {
        hy_buf_free(&b);
        return s;
    }
    *data = b.data;
    *n = b.len;
    return HY_OK;
}

bool hy_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool hy_is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}
