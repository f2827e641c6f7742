/* Server-sent events (HTML Living Standard, "Server-sent events"): one frame for one JSON value, which has no
 * line breaks of its own. */
#include "serve/impl.h"
#include <string.h>

static int put(const char *s, size_t n, void *ctx)
{
    hy_buf_put(ctx, s, n);
    return ((hy_buf *)ctx)->failed ? -1 : 0;
}

void hy_x_sse(hy_exchange *x, const char *event, json_t *take)
{
    hy_buf b = { 0 };
    if (event) hy_buf_printf(&b, "event: %s\n", event);
    hy_buf_str(&b, "data: ");
    bool whole = take && json_dump_callback(take, put, &b, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)) == 0;
    json_decref(take);
    hy_buf_str(&b, "\n\n");
    if (whole && !b.failed) {
        hy_x_write(x, b.data, b.len);
    } else {
        hy_log(HY_LOG_ERROR, "serve: out of memory for an event", "id=%s", x->id);
        hy_x_end(x);
    }
    hy_buf_free(&b);
}
