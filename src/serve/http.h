/* Private to serve/: one HTTP exchange, and how a route answers it.
 *
 * Threads. libmicrohttpd's event loop (one or two threads) reads requests and writes answers and never waits
 * for anything else. When a request's body is whole, its exchange goes to a small pool of workers, where the
 * route runs: parsing, templates, tokenising, hy_submit. Engine events (hy_params.notify) put the exchange
 * back on the workers' queue, where on_event formats them into the output buffer, which the event loop then
 * sends. An exchange is on one worker at a time, so routes take no locks of their own. Routes marked INLINE
 * run on the event loop itself: /health answers while every worker is busy.
 *
 * Life: route(x) -> hy_x_reply* (done), or hy_x_await after hy_submit: on_event for each event of each
 * request, in order for one request, until the route calls hy_x_end or hy_x_reply*. A client that goes away
 * (seen at once, also while nothing is being sent) cancels all awaited requests; on_close runs last, always,
 * once; then requests are released and the exchange is freed. */
#ifndef HY_SERVE_HTTP_H
#define HY_SERVE_HTTP_H

#include "base/base.h"
#include "serve/serve.h"
#include "text/text.h"
#include <hayate/hayate.h>

typedef struct hy_server hy_server;
typedef struct hy_exchange hy_exchange;

/* ---- the request ------------------------------------------------------------------------------- */

hy_server *hy_x_server(const hy_exchange *x);
hy_engine *hy_server_engine(const hy_server *s);       /* NULL only in routes marked LOADING, until it is loaded */
const hy_serve_options *hy_server_options(const hy_server *s);
const char *hy_server_model_id(const hy_server *s);    /* what /v1/models lists */
const char *hy_x_id(const hy_exchange *x);             /* "req-" and 24 hex digits: also the header x-request-id */
const char *hy_x_method(const hy_exchange *x);
const char *hy_x_path(const hy_exchange *x);
const char *hy_x_param(const hy_exchange *x);          /* what {id} in the route's path matched, decoded; or NULL */
const char *hy_x_query(const hy_exchange *x, const char *key);   /* or NULL */
const char *hy_x_header(const hy_exchange *x, const char *name); /* any case; or NULL */
const char *hy_x_body(const hy_exchange *x, size_t *n);
const char *hy_x_tenant(const hy_exchange *x);         /* the API key's name, or "" */
uint64_t hy_x_us(const hy_exchange *x);                /* when its first byte was seen, hy_clock_us */
/* The body as a JSON object (borrowed, lives as long as x). NULL: a 400 that says where has been sent. */
json_t *hy_x_json(hy_exchange *x);

/* ---- the answer -------------------------------------------------------------------------------- */

void hy_x_set_header(hy_exchange *x, const char *name, const char *value); /* before the reply */
void hy_x_reply(hy_exchange *x, int status, const char *type, const void *data, size_t n);
void hy_x_reply_json(hy_exchange *x, int status, json_t *take);          /* takes the reference */

/* Shape of error bodies: OpenAI's {"error": {message, type, param, code}} or Anthropic's
 * {"type": "error", "error": {type, message}, "request_id"}. By the route's flag. */
/* status 4xx/5xx; param, code may be NULL. */
void hy_x_error(hy_exchange *x, int status, const char *code, const char *param, const char *fmt, ...) HY_PRINTF(5, 6);
/* A failed engine call: HY_E_ARG, HY_E_FORMAT, HY_E_UNSUPPORTED -> 400; HY_E_LIMIT -> 400
 * context_length_exceeded (param as given); HY_E_BUSY -> 429 with Retry-After, 503 when draining;
 * HY_E_MEMORY -> 503; the rest -> 500. One table, in errors.c. */
void hy_x_fail(hy_exchange *x, const char *param, const hy_err *err);

/* Headers that say when to come again; before the error. */
void hy_x_retry_after(hy_exchange *x, double seconds);
double hy_server_predict_wait(const hy_server *s);     /* seconds to a first token, submitted now; 0 while loading */

/* Server-sent events (or any stream): the status line goes out with the first write. */
void hy_x_stream(hy_exchange *x, const char *type);
void hy_x_write(hy_exchange *x, const void *data, size_t n);
/* "data: <json>\n\n"; with event: "event: NAME\n" before it. Takes the reference. */
void hy_x_sse(hy_exchange *x, const char *event, json_t *take);
void hy_x_end(hy_exchange *x);
bool hy_x_streaming(const hy_exchange *x);             /* hy_x_stream was called: errors go into the stream */

/* ---- waiting for the engine ---------------------------------------------------------------------- */

typedef void hy_x_event_fn(hy_exchange *x, void *user, uint32_t i, const hy_event *ev, const hy_err *err);
/* Sets what follows: user's data, its events, and its end (frees user; may be NULL). Before hy_x_submit. */
void hy_x_await(hy_exchange *x, void *user, hy_x_event_fn *on_event, void (*on_close)(hy_exchange *x, void *user));
/* The same for what is no request of the engine: on_turn is called after each hy_x_turn, and says whether there is
 * more to wait for (it may reply). */
void hy_x_await_turns(hy_exchange *x, void *user, bool (*on_turn)(hy_exchange *x, void *user),
                      void (*on_close)(hy_exchange *x, void *user));
void hy_x_turn(void *x);                               /* asks for a turn of the exchange; any thread, until on_close */
/* hy_submit_n with notify, tenant, and priority of x filled in; request i of the exchange's growing list.
 * Failing: err is set and nothing was sent. ev->finish == ERROR comes with err in on_event. */
hy_status hy_x_submit(hy_exchange *x, const hy_params *p, uint32_t n, hy_err *err);
hy_request *hy_x_request(const hy_exchange *x, uint32_t i);
uint32_t hy_x_n_request(const hy_exchange *x);

/* ---- routes -------------------------------------------------------------------------------------- */

typedef enum hy_route_flags {
    HY_ROUTE_INLINE = 1,       /* on the event loop: quick, never waits */
    HY_ROUTE_OPEN = 2,         /* no API key needed */
    HY_ROUTE_ANTHROPIC = 4,    /* error bodies in Anthropic's shape; key in x-api-key as well */
    HY_ROUTE_GENERATES = 8,    /* refused with 503 while draining; counted against the key's limits */
    HY_ROUTE_LOADING = 16,     /* answers while the model is still loading; the others say 503 */
    HY_ROUTE_ADMIN = 32        /* shows the server as a whole: admin.c says who may */
} hy_route_flags;

typedef struct hy_route {
    const char *method, *path; /* path may end in {id}, or hold it between slashes */
    void (*run)(hy_exchange *x);
    uint64_t body_max;         /* bytes, also bounded by the server's; 0: none is read */
    uint32_t flags;
    const char *doc;           /* one line, for docs/api.md and the OpenAPI description */
} hy_route;
extern const hy_route hy_routes[];                     /* routes.c; ends with a NULL method */

#endif
