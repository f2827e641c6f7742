#include "core.h"

hy_status hy_tool_info(const char *path, uint32_t n_ctx, bool json, char **text, hy_err *err)
{
    return hy_fail(err, HY_E_UNSUPPORTED, "info: not built yet");
}
