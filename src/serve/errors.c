/* Errors as clients expect them: one table from status to the types of OpenAI and Anthropic, one from the
 * engine's codes to statuses. */
#include "serve/impl.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

static const struct kind {
    int status;
    const char *openai, *anthropic, *code;
} kinds[] = {
    { 400, "invalid_request_error", "invalid_request_error", "invalid_request" },
    { 401, "authentication_error", "authentication_error", "invalid_api_key" },
    { 403, "permission_error", "permission_error", "forbidden" },
    { 404, "not_found_error", "not_found_error", "not_found" },
    { 405, "invalid_request_error", "invalid_request_error", "method_not_allowed" },
    { 409, "invalid_request_error", "invalid_request_error", "conflict" },
    { 413, "invalid_request_error", "request_too_large", "request_too_large" },
    { 415, "invalid_request_error", "invalid_request_error", "unsupported_media_type" },
    { 429, "rate_limit_error", "rate_limit_error", "rate_limit_exceeded" },
    { 500, "server_error", "api_error", "internal_error" },
    { 501, "invalid_request_error", "invalid_request_error", "not_implemented" },
    { 503, "service_unavailable", "overloaded_error", "service_unavailable" },
};

static const struct kind *kind_of(int status)
{
    for (size_t i = 0; i < HY_COUNT(kinds); i++)
        if (kinds[i].status == status) return &kinds[i];
    return kind_of(status >= 500 ? 500 : 400);
}

static json_t *error_json(const hy_exchange *x, const struct kind *k, const char *code, const char *param,
                          const char *message)
{
    hy_buf clean = { 0 }; /* a message cut at its limit may end in half a character */
    hy_utf8_repair(message, strlen(message), &clean);
    json_t *text = json_stringn(clean.data ? clean.data : "", clean.len);
    hy_buf_free(&clean);
    if (hy_x_anthropic(x))
        return json_pack("{s:s, s:{s:s, s:o}, s:s}", "type", "error", "error", "type", k->anthropic, "message", text,
                         "request_id", x->id);
    return json_pack("{s:{s:o, s:s, s:s?, s:s}}", "error", "message", text, "type", k->openai, "param", param, "code",
                     code ? code : k->code);
}

bool hy_x_anthropic(const hy_exchange *x)
{
    return (x->route && x->route->flags & HY_ROUTE_ANTHROPIC) || hy_x_header(x, "anthropic-version");
}

void hy_x_error(hy_exchange *x, int status, const char *code, const char *param, const char *fmt, ...)
{
    char message[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    const struct kind *k = kind_of(status);
    pthread_mutex_lock(&x->lock);
    bool begun = x->begun;
    pthread_mutex_unlock(&x->lock);
    json_t *body = error_json(x, k, code, param, message);
    if (status >= 500) hy_log(HY_LOG_WARN, "serve: error", "id=%s status=%d message=\"%.300s\"", x->id, status, message);
    if (begun) {
        hy_x_sse(x, hy_x_anthropic(x) ? "error" : NULL, body);
        hy_x_end(x);
    } else {
        hy_x_reply_json(x, status, body);
    }
}

#define RETRY_MIN_S 0.1

void hy_x_retry_after(hy_exchange *x, double seconds)
{
    char text[24];
    double s = HY_MIN(HY_MAX(seconds, RETRY_MIN_S), 3600.0);
    snprintf(text, sizeof text, "%.0f", ceil(s)); /* RFC 9110, 10.2.3: whole seconds */
    hy_x_set_header(x, "Retry-After", text);
    snprintf(text, sizeof text, "%.0f", ceil(s * 1e3));
    hy_x_set_header(x, "retry-after-ms", text); /* finer: the clients of OpenAI and Anthropic read it */
}

double hy_server_predict_wait(const hy_server *s)
{
    const hy_engine *e = hy_server_engine(s);
    return e ? hy_engine_predict_wait(e, 0) / 1e3 : 0;
}

void hy_x_fail(hy_exchange *x, const char *param, const hy_err *err)
{
    double wait;
    switch (err->code) {
    case HY_E_ARG:
    case HY_E_FORMAT:
        hy_x_error(x, 400, "invalid_request", param, "%s", err->msg);
        return;
    case HY_E_UNSUPPORTED:
        hy_x_error(x, 400, "unsupported", param, "%s", err->msg);
        return;
    case HY_E_LIMIT:
        hy_x_error(x, 400, "context_length_exceeded", param, "%s", err->msg);
        return;
    case HY_E_BUSY:
        wait = hy_server_predict_wait(x->s);
        hy_x_retry_after(x, wait);
        if (atomic_load(&x->s->state) != HY_READY) hy_x_error(x, 503, "draining", NULL, "%s", err->msg);
        else hy_x_error(x, 429, "queue_full", NULL, "%s; a first token would take about %.2f s now", err->msg, wait);
        return;
    case HY_E_MEMORY:
        hy_x_retry_after(x, 1);
        hy_x_error(x, 503, "out_of_memory", NULL, "%s", err->msg);
        return;
    case HY_E_CANCELLED:
        hy_x_error(x, 503, "cancelled", NULL, "%s", err->msg);
        return;
    default:
        hy_x_error(x, 500, "internal_error", NULL, "%s", err->msg);
    }
}
