/* serve: HTTP server over libmicrohttpd: routes, OpenAI and Anthropic shapes, server-sent events, metrics,
 * the page. May include base, text, and the public header. */
#ifndef HY_SERVE_H
#define HY_SERVE_H

#include <hayate/hayate.h>

/* Start from hy_serve_options_init. Strings are borrowed for the server's life. */
typedef struct hy_serve_options {
    const char *host;          /* "127.0.0.1"; "::" or "0.0.0.0" to be reachable from outside */
    uint16_t port;             /* 8080; 0: any free one (printed, and in port_file) */
    const char *unix_path;     /* a Unix socket instead of host and port */
    const char *tls_cert, *tls_key; /* PEM files; both or neither */
    const char *api_keys;      /* JSON or line file of hashed keys with limits; NULL: no key is asked */
    const char *cors_origin;   /* NULL: off; "*" or an origin */
    const char *model_alias;   /* id in /v1/models; NULL: the model file's name */
    uint32_t n_worker;         /* 0: 2 */
    uint32_t n_connection;     /* 0: 1024 */
    uint32_t idle_s;           /* seconds a quiet or slow connection lives; 0: 75 */
    uint64_t body_max;         /* bytes of the largest body; 0: 32 MiB */
    double drain_timeout_s;    /* SIGTERM: running requests get this long; 0: 30 */
    const char *otlp_url;      /* OpenTelemetry traces, OTLP/JSON over HTTP; NULL: off */
    const char *config_path;   /* re-read on SIGHUP: keys, limits, log level, targets */
    bool no_page;              /* do not serve the page at / */
    bool debug;                /* /debug/... routes (behind a key when keys are set) */
} hy_serve_options;
void hy_serve_options_init(hy_serve_options *o);

/* Serves until SIGTERM or SIGINT (a second one ends at once). Calls ready(ctx, "http://...") when it listens. */
hy_status hy_serve_run(hy_engine *e, const hy_serve_options *o, void (*ready)(void *ctx, const char *url), void *ctx,
                       hy_err *err);

#endif
