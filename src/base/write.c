/* Small files written whole, and the folders they lie in. */
#include "base.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool hy_make_folders(char *path)
{
    for (char *p = path + 1; *path && *p; p++) {
        if (*p != '/') continue;
        *p = 0;
        bool good = mkdir(path, 0755) == 0 || errno == EEXIST;
        *p = '/';
        if (!good) return false;
    }
    return true;
}

hy_status hy_write_file(const char *path, const char *data, size_t n, hy_err *err)
{
    hy_buf tmp = { 0 };
    hy_buf_printf(&tmp, "%s.%ld", path, (long)getpid());
    if (tmp.failed) {
        hy_buf_free(&tmp);
        return hy_fail_memory(err, path, n);
    }
    errno = 0;
    FILE *f = fopen(tmp.data, "we");
    bool good = f && fwrite(data, 1, n, f) == n;
    int e = errno;
    if (f && fclose(f) != 0 && good) {
        good = false;
        e = errno;
    }
    if (good && rename(tmp.data, path) != 0) {
        good = false;
        e = errno;
    }
    if (f && !good) unlink(tmp.data);
    hy_buf_free(&tmp);
    return good ? HY_OK : hy_fail(err, HY_E_IO, "%s: cannot write: %s", path, strerror(e));
}
