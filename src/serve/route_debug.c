/* GET /debug/profile: the running load, profiled for some seconds. No worker waits meanwhile. */
#include "serve/impl.h"
#include "serve/rows.h"
#include <math.h>
#include <string.h>

typedef struct profiling {
    hy_profiling *p;
    hy_profile_form form;
} profiling;

static bool read_form(hy_exchange *x, hy_profile_form *out)
{
    static const char *const names[] = { [HY_PROFILE_TEXT] = "text", [HY_PROFILE_JSON] = "json", [HY_PROFILE_TRACE] = "trace" };
    const char *name = hy_x_query(x, "format"), *accept = hy_x_header(x, "accept");
    *out = !name && accept && strncmp(accept, "text/plain", 10) == 0 ? HY_PROFILE_TEXT : HY_PROFILE_JSON;
    if (!name) return true;
    for (size_t i = 0; i < HY_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (hy_profile_form)i;
            return true;
        }
    hy_x_error(x, 400, "invalid_value", "format", "format: '%.40s' is not one of json, text, trace", name);
    return false;
}

static bool read_seconds(hy_exchange *x, double *out)
{
    const char *text = hy_x_query(x, "seconds");
    hy_err err;
    *out = 5;
    if (!text || hy_parse_f64("seconds", text, 1, HY_PROFILE_SECONDS_MAX, out, &err) == HY_OK) return true;
    hy_x_error(x, 400, "invalid_value", "seconds", "%s", err.msg);
    return false;
}

static void send_report(hy_exchange *x, profiling *g)
{
    char *text = NULL;
    hy_err err;
    if (hy_profiling_report(g->p, g->form, &text, &err) != HY_OK) {
        hy_x_fail(x, NULL, &err);
        return;
    }
    if (g->form == HY_PROFILE_TRACE) hy_x_set_header(x, "Content-Disposition", "attachment; filename=\"hayate-trace.json\"");
    hy_x_reply(x, 200, g->form == HY_PROFILE_TEXT ? "text/plain; charset=utf-8" : "application/json", text, strlen(text));
    hy_memory_free(text);
}

static bool on_turn(hy_exchange *x, void *user)
{
    profiling *g = user;
    if (!hy_profiling_done(g->p)) return true;
    send_report(x, g);
    return false;
}

static void on_close(hy_exchange *x, void *user)
{
    profiling *g = user;
    hy_profiling_close(g->p);
    hy_free(g);
}

static void refuse(hy_exchange *x, const hy_err *err)
{
    double left = hy_profiling_left(hy_server_engine(x->s));
    if (err->code != HY_E_BUSY || left <= 0) {
        hy_x_fail(x, NULL, err);
        return;
    }
    hy_x_retry_after(x, left);
    hy_x_error(x, 409, "profile_running", NULL, "another profile runs; it is over in %.0f s", ceil(left));
}

void hy_route_profile(hy_exchange *x)
{
    double seconds;
    hy_profile_form form;
    hy_err err;
    if (!read_form(x, &form) || !read_seconds(x, &seconds)) return;
    profiling *g = HY_NEW(profiling);
    if (!g) {
        hy_x_error(x, 503, "out_of_memory", NULL, "out of memory");
        return;
    }
    g->form = form;
    hy_x_await_turns(x, g, on_turn, on_close);
    if (hy_profiling_start(hy_server_engine(x->s), seconds, form == HY_PROFILE_TRACE, hy_x_turn, x, &g->p, &err) != HY_OK)
        refuse(x, &err);
}
