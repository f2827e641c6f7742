/* Error messages. */
#include "base/base.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

hy_status hy_fail(hy_err *err, hy_status code, const char *fmt, ...)
{
    if (!err) return code;
    /* By way of a local buffer: the arguments may point into err->msg itself. */
    char msg[sizeof err->msg];
    va_list ap;
    va_start(ap, fmt);
    if (vsnprintf(msg, sizeof msg, fmt, ap) < 0) msg[0] = 0;
    va_end(ap);
    err->code = code;
    memcpy(err->msg, msg, sizeof msg);
    return code;
}

hy_status hy_err_prefix(hy_err *err, hy_status code, const char *fmt, ...)
{
    if (!err) return code;
    char msg[sizeof err->msg];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    size_t at = n < 0 ? 0 : HY_MIN((size_t)n, sizeof msg - 1);
    /* The old message is cut, not refused, where both do not fit. */
    const char *rest = err->msg;
    for (const char *sep = ": "; *sep && at < sizeof msg - 1; sep++) msg[at++] = *sep;
    while (*rest && at < sizeof msg - 1) msg[at++] = *rest++;
    msg[at] = 0;
    err->code = code;
    memcpy(err->msg, msg, at + 1);
    return code;
}

hy_status hy_fail_memory(hy_err *err, const char *what, uint64_t n_bytes)
{
    return hy_fail(err, HY_E_MEMORY, "%s: out of memory (%" PRIu64 " bytes)", what, n_bytes);
}

const char *hy_status_name(hy_status code)
{
    switch (code) {
    case HY_OK: return "ok";
    case HY_E_ARG: return "argument";
    case HY_E_FORMAT: return "format";
    case HY_E_LIMIT: return "limit";
    case HY_E_MEMORY: return "memory";
    case HY_E_IO: return "io";
    case HY_E_UNSUPPORTED: return "unsupported";
    case HY_E_CANCELLED: return "cancelled";
    case HY_E_BUSY: return "busy";
    case HY_E_INTERNAL: return "internal";
    }
    return "unknown";
}

void hy_assert_failed(const char *cond, const char *file, int line)
{
    fprintf(stderr, "hayate: broken promise at %s:%d: %s\n", file, line, cond);
    abort();
}
