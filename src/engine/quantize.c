#include "core.h"

const char *hy_tool_quantize_types(void)
{
    return "";
}

hy_status hy_tool_quantize(const char *in, const char *out, const hy_quantize_params *p, hy_err *err)
{
    return hy_fail(err, HY_E_UNSUPPORTED, "quantize: not built yet");
}
