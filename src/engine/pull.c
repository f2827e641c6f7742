#include "core.h"

hy_status hy_tool_pull(const char *source, const char *out, const char *sha256, hy_progress_fn *progress, void *ctx,
                       char **saved, hy_err *err)
{
    return hy_fail(err, HY_E_UNSUPPORTED, "pull: not built yet");
}
