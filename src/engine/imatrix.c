#include "core.h"

hy_status hy_tool_imatrix(hy_session *s, const char *text, size_t n_text, uint32_t n_window, const char *out,
                          hy_progress_fn *progress, void *ctx, hy_err *err)
{
    return hy_fail(err, HY_E_UNSUPPORTED, "imatrix: not built yet");
}
