/* serve: HTTP server over libmicrohttpd: routes, OpenAI and Anthropic shapes, server-sent events, metrics,
 * the page. May include base, text, and the public header. */
#ifndef HY_SERVE_H
#define HY_SERVE_H

#include "base/base.h"
#include <hayate/hayate.h>

/* Start from hy_serve_options_init. Strings are borrowed for the server's life. */
typedef struct hy_serve_options {
    const char *host;          /* "127.0.0.1"; "::" or "0.0.0.0" to be reachable from outside */
    uint16_t port;             /* 8080; 0: any free one (printed, and in port_file) */
    const char *unix_path;     /* a Unix socket instead of host and port */
    const char *tls_cert, *tls_key; /* PEM files; both or neither */
    const char *api_keys;      /* file of hashed keys with limits (auth.c has its form); NULL: no key is asked */
    const char *cors_origin;   /* NULL: off; "*" or an origin */
    const char *model_alias;   /* id in /v1/models; NULL: the model file's name */
    bool strict_model;         /* a request that names another model gets 404; else it is served by this one */
    bool allow_template;       /* requests may bring a chat_template of their own */
    uint32_t n_worker;         /* 0: 2 */
    uint32_t n_connection;     /* 0: 1024 */
    uint32_t idle_s;           /* seconds a quiet or slow connection lives; 0: 75 */
    uint32_t ping_s;           /* a silent event stream gets a comment that often; 0: 15 */
    uint64_t body_max;         /* bytes of the largest body; 0: 32 MiB */
    double drain_timeout_s;    /* SIGTERM: running requests get this long; 0: 30 */
    const char *otlp_url;      /* OpenTelemetry traces, OTLP/JSON over HTTP; NULL: off */
    bool no_page;              /* do not serve the page at / */
    bool debug;                /* without keys: /debug for everybody, not only for this machine */
    /* SIGHUP: fills in what may change while running (api_keys, cors_origin, drain_timeout_s); the keys' file is
     * read again in any case. Strings live as long as the server. A failure is logged and changes nothing. */
    hy_status (*reload)(void *ctx, struct hy_serve_options *o, hy_err *err);
    void *reload_ctx;
    /* Called once the model is loaded, from the thread that loaded it. May be NULL. */
    void (*loaded)(void *ctx, hy_engine *e);
    void *loaded_ctx;
} hy_serve_options;
void hy_serve_options_init(hy_serve_options *o);

/* Listens at once and opens the engine meanwhile (/health 200, /ready 503 until it is there); serves until
 * SIGTERM or SIGINT: then running requests may finish (drain_timeout_s); a second signal ends the process at once.
 * Calls ready(ctx, "http://...") when it listens. SIGINT, SIGTERM, SIGHUP are blocked while it runs.
 * Fails when it cannot listen, when the model does not load, or with HY_E_CANCELLED when stopped while loading. */
hy_status hy_serve_run(const hy_options *engine, const hy_serve_options *o, void (*ready)(void *ctx, const char *url),
                       void *ctx, hy_err *err);

/* Makes a new API key (256 random bits) and the line of the keys' file that lets it in: the file holds a salted
 * SHA-256 only, which cannot be turned back for a random key. Free both with hy_free. */
hy_status hy_serve_keygen(const char *name, char **key, char **line, hy_err *err);

#endif
