/* libmicrohttpd's callbacks, all on the loop's thread: requests in, answers out, connections watched. */
#include "serve/impl.h"
#include <math.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define DRAIN_MAX (64 * HY_MIB)    /* of a refused body, read so that the client gets to see the answer */
#define PIECE 16384                /* bytes of a stream handed over at once */
#define CONNECTION_MEMORY 65536    /* head of a request */
#define FIRST_HEAD_S 20            /* a new connection's first head must be whole by then */
#define BODY_RATE (16 * HY_KIB)    /* slowest average of a body, bytes a second, beyond the idle time */

/* ---- a connection goes on ------------------------------------------------------------------------ */

void hy_http_wake(hy_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    bool resume = x->conn && x->suspended;
    if (resume) x->suspended = false;
    pthread_mutex_unlock(&x->lock);
    if (resume) MHD_resume_connection(x->conn);
}

/* With the lock. */
static void suspend(hy_exchange *x)
{
    x->suspended = true;
    MHD_suspend_connection(x->conn);
}

/* ---- answers ----------------------------------------------------------------------------------- */

static ssize_t read_stream(void *cls, uint64_t at, char *to, size_t max)
{
    hy_exchange *x = cls;
    ssize_t n = 0;
    pthread_mutex_lock(&x->lock);
    if (x->sent < x->out.len) {
        n = (ssize_t)HY_MIN(max, x->out.len - x->sent);
        memcpy(to, x->out.data + x->sent, (size_t)n);
        x->sent += (size_t)n;
        if (x->sent == x->out.len) {
            hy_buf_reset(&x->out);
            x->sent = 0;
        }
    } else if (x->gone || x->out.failed) {
        n = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (x->ended) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        suspend(x);
    }
    pthread_mutex_unlock(&x->lock);
    return n;
}

static bool is_set(const hy_exchange *x, const char *name)
{
    for (uint32_t i = 0; i < x->n_set; i++)
        if (strcasecmp(x->set_name[i], name) == 0) return true;
    return false;
}

static void add_cors(hy_exchange *x, struct MHD_Response *r)
{
    const char *allowed = x->s->o.cors_origin;
    if (!allowed) return;
    MHD_add_response_header(r, "Access-Control-Allow-Origin", allowed);
    MHD_add_response_header(r, "Access-Control-Expose-Headers",
                            "x-request-id, retry-after, retry-after-ms, x-ratelimit-limit-requests, x-ratelimit-limit-tokens, "
                            "x-ratelimit-remaining-requests, x-ratelimit-remaining-tokens");
    if (strcmp(allowed, "*") != 0) MHD_add_response_header(r, "Vary", "Origin");
}

static void add_rate(hy_exchange *x, struct MHD_Response *r)
{
    hy_rate rate;
    char v[32];
    if (!hy_auth_rate(x->s->auth, &x->tenant, hy_now_us(), &rate)) return;
    const struct { const char *name; double value; bool seconds; } rows[] = {
        { "x-ratelimit-limit-requests", rate.limit_requests, false },
        { "x-ratelimit-remaining-requests", (double)rate.left_requests, false },
        { "x-ratelimit-reset-requests", rate.reset_requests_s, true },
        { "x-ratelimit-limit-tokens", rate.limit_tokens, false },
        { "x-ratelimit-remaining-tokens", (double)rate.left_tokens, false },
        { "x-ratelimit-reset-tokens", rate.reset_tokens_s, true },
    };
    for (size_t i = 0; i < HY_COUNT(rows); i++) {
        if (!(i < 3 ? rate.limit_requests : rate.limit_tokens)) continue;
        snprintf(v, sizeof v, rows[i].seconds ? "%.3gs" : "%.0f", rows[i].value);
        MHD_add_response_header(r, rows[i].name, v);
    }
}

static void add_headers(hy_exchange *x, struct MHD_Response *r)
{
    static const char *const always[][2] = {
        { "X-Content-Type-Options", "nosniff" },
        { "Referrer-Policy", "no-referrer" },
        { "Cache-Control", "no-store" },
        { "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'" },
        { "X-Frame-Options", "DENY" },
    };
    if (x->mode == HY_X_STREAM && !is_set(x, "X-Accel-Buffering"))
        MHD_add_response_header(r, "X-Accel-Buffering", "no"); /* nginx would hold a stream back */
    if (x->type[0]) MHD_add_response_header(r, "Content-Type", x->type);
    MHD_add_response_header(r, "x-request-id", x->id);
    if (hy_x_anthropic(x)) MHD_add_response_header(r, "request-id", x->id);
    for (size_t i = 0; i < HY_COUNT(always); i++)
        if (!is_set(x, always[i][0])) MHD_add_response_header(r, always[i][0], always[i][1]);
    for (uint32_t i = 0; i < x->n_set; i++) MHD_add_response_header(r, x->set_name[i], x->set_value[i]);
    add_cors(x, r);
    add_rate(x, r);
}

/* Gives the answer to libmicrohttpd, or waits for it. */
static enum MHD_Result answer(hy_exchange *x)
{
    struct MHD_Response *r = NULL;
    pthread_mutex_lock(&x->lock);
    bool gone = x->gone || x->out.failed;
    bool ready = x->ended || (x->mode == HY_X_STREAM && x->begun);
    if (!gone && !ready) {
        suspend(x);
    } else if (!gone && x->mode != HY_X_STREAM) {
        char *data = x->out.data;
        r = data ? MHD_create_response_from_buffer_with_free_callback(x->out.len, data, hy_free)
                 : MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
        if (r) x->out = (hy_buf){ 0 };
    } else if (!gone) {
        r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, PIECE, read_stream, x, NULL);
    }
    pthread_mutex_unlock(&x->lock);
    if (!gone && !ready) return MHD_YES;
    if (!r) return MHD_NO;
    x->queued = true;
    add_headers(x, r);
    enum MHD_Result done = MHD_queue_response(x->conn, (unsigned)x->status, r);
    MHD_destroy_response(r);
    return done;
}

/* ---- the head ---------------------------------------------------------------------------------- */

static enum MHD_Result one_header(void *cls, enum MHD_ValueKind kind, const char *key, size_t n_key, const char *value,
                                  size_t n_value)
{
    hy_exchange *x = cls;
    hy_buf_put(&x->head, key, strlen(key) + 1);
    hy_buf_put(&x->head, value ? value : "", (value ? strlen(value) : 0) + 1);
    return MHD_YES;
}

/* Path and query out of the target; the path undecoded, for matching. */
static bool split_target(hy_exchange *x)
{
    const char *t = x->target;
    if (strncasecmp(t, "http://", 7) == 0 || strncasecmp(t, "https://", 8) == 0) /* absolute form, RFC 9112, 3.2.2 */
        t = strchrnul(strchr(t, ':') + 3, '/');
    size_t n = strcspn(t, "?#");
    x->path = n ? hy_strndup(t, n) : hy_strdup("/");
    x->query = t[n] == '?' ? x->target + (t - x->target) + n + 1 : NULL;
    return x->path != NULL;
}

static const char *key_of(const hy_exchange *x)
{
    const char *h = hy_x_header(x, "authorization");
    if (h && strncasecmp(h, "bearer ", 7) == 0) return h + 7 + strspn(h + 7, " ");
    return hy_x_header(x, "x-api-key");
}

/* A page of another site may send simple requests without asking first; browsers say that they do. */
static bool is_foreign_page(const hy_exchange *x)
{
    const char *site = hy_x_header(x, "sec-fetch-site");
    return site && strcmp(site, "cross-site") == 0 && !x->s->o.cors_origin && strcmp(x->method, "GET") != 0 &&
           strcmp(x->method, "HEAD") != 0;
}

static void preflight(hy_exchange *x, const char *allow)
{
    hy_x_set_header(x, "Allow", allow);
    if (x->s->o.cors_origin) {
        const char *wanted = hy_x_header(x, "access-control-request-headers");
        bool clean = wanted && wanted[0] && strlen(wanted) < 1000 &&
                     !wanted[strspn(wanted, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_, ")];
        hy_x_set_header(x, "Access-Control-Allow-Methods", allow);
        hy_x_set_header(x, "Access-Control-Allow-Headers",
                        clean ? wanted : "authorization, content-type, x-api-key, anthropic-version");
        hy_x_set_header(x, "Access-Control-Max-Age", "600");
    }
    hy_x_reply(x, 204, NULL, NULL, 0);
}

/* Finds the route, or answers. */
static void find_route(hy_exchange *x)
{
    hy_match m;
    hy_route_find(x->method, x->path, &m);
    x->route = m.route;
    if (m.param) {
        x->param = hy_strndup(m.param, m.n_param);
        if (!x->param || !hy_url_decode(x->param, false) || !hy_utf8_valid(x->param, strlen(x->param))) {
            hy_x_error(x, 400, "invalid_path", NULL, "the path is not valid percent-encoded UTF-8");
            return;
        }
    }
    if (!hy_url_decode(x->path, false) || !hy_utf8_valid(x->path, strlen(x->path))) {
        snprintf(x->path, 2, "?");
        hy_x_error(x, 400, "invalid_path", NULL, "the path is not valid percent-encoded UTF-8");
    } else if (!m.allow[0]) {
        hy_x_error(x, 404, "not_found", NULL, "nothing at %s %.300s", x->method, x->path);
    } else if (strcmp(x->method, "OPTIONS") == 0) {
        preflight(x, m.allow);
    } else if (!x->route) {
        hy_x_set_header(x, "Allow", m.allow);
        hy_x_error(x, 405, "method_not_allowed", NULL, "%s is not possible at %.300s; %s are", x->method, x->path, m.allow);
    }
}

static void check_access(hy_exchange *x)
{
    hy_server *s = x->s;
    int state = atomic_load(&s->state);
    const char *key = key_of(x);
    bool known = hy_auth_check(s->auth, key, &x->tenant);
    if (is_foreign_page(x)) {
        hy_x_error(x, 403, "cross_site", NULL, "a page of another site asked; the server was started without --cors");
    } else if (!known && !(x->route->flags & HY_ROUTE_OPEN)) {
        atomic_fetch_add(&s->n_unauthorised, 1);
        hy_x_set_header(x, "WWW-Authenticate", "Bearer");
        hy_x_error(x, 401, "invalid_api_key", NULL,
                   key && key[0] ? "the API key is not one of this server's"
                                 : "no API key; send one as Authorization: Bearer KEY");
    } else if (state == HY_LOADING && !(x->route->flags & HY_ROUTE_LOADING)) {
        hy_x_retry_after(x, 2);
        hy_x_error(x, 503, "loading", NULL, "the model is still loading");
    } else if (state >= HY_DRAINING && x->route->flags & HY_ROUTE_GENERATES) {
        hy_x_retry_after(x, 5);
        hy_x_error(x, 503, "draining", NULL, "the server is stopping and takes no more requests");
    } else if (x->route->flags & HY_ROUTE_ADMIN) {
        hy_admin_check(x);
    }
}

/* False: the head is wrong about its body. *length: 0 for a chunked body. */
static bool read_length(hy_exchange *x, uint64_t *length)
{
    const char *cl = hy_x_header(x, "content-length"), *te = hy_x_header(x, "transfer-encoding");
    hy_err err;
    *length = 0;
    if (cl && te) hy_x_error(x, 400, "invalid_request", NULL, "both Content-Length and Transfer-Encoding");
    else if (te && strcasecmp(te, "chunked") != 0)
        hy_x_error(x, 501, "not_implemented", NULL, "transfer encoding '%.60s'; chunked is known", te);
    else if (cl && hy_parse_u64("Content-Length", cl, 0, UINT64_MAX, length, &err) != HY_OK)
        hy_x_error(x, 400, "invalid_request", NULL, "%s", err.msg);
    return !x->ended;
}

static enum MHD_Result look_at_head(hy_exchange *x, const char *method, const char *version)
{
    x->seen = true;
    x->http11 = strcmp(version, "HTTP/1.1") == 0;
    x->hc->x = x;
    x->hc->us_body = hy_now_us();
    snprintf(x->method, sizeof x->method, "%s", method);
    x->record = (hy_record){ .us_begin = x->us, .method = "?", .route = "?" };
    memcpy(x->record.id, x->id, sizeof x->id);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    x->record.unix_us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 - (int64_t)(hy_clock_us() - x->us);
    MHD_get_connection_values_n(x->conn, MHD_HEADER_KIND, one_header, x);
    if (x->head.failed || !split_target(x)) return MHD_NO;
    uint64_t length;
    bool sound = read_length(x, &length);
    if (sound) find_route(x);
    if (x->route) {
        x->body_max = HY_MIN(x->route->body_max, x->s->o.body_max);
        x->record.method = x->route->method;
        x->record.route = x->route->path;
        const char *trace = hy_x_header(x, "traceparent");
        if (trace) snprintf(x->record.traceparent, sizeof x->record.traceparent, "%s", trace);
        if (!x->ended) check_access(x);
        memcpy(x->record.tenant, x->tenant.name, sizeof x->record.tenant);
    }
    if (!x->ended && x->route->body_max && length > x->body_max)
        hy_x_error(x, 413, "request_too_large", NULL, "a body of %llu bytes; the limit is %llu", (unsigned long long)length,
                   (unsigned long long)x->body_max);
    x->refused = x->ended;
    /* The body of a refused request is read all the same, or its client would see a broken connection instead of
     * the answer; not one that it is still waiting to send, and not any amount. */
    bool unread = x->refused && (!sound || hy_x_header(x, "expect") || length > DRAIN_MAX);
    return unread ? answer(x) : MHD_YES;
}

/* ---- the body ---------------------------------------------------------------------------------- */

static enum MHD_Result take_body(hy_exchange *x, const char *data, size_t n)
{
    x->n_body += n;
    if (!x->refused && x->n_body > x->body_max && x->route->body_max) {
        hy_x_error(x, 413, "request_too_large", NULL, "a body beyond the limit of %llu bytes",
                   (unsigned long long)x->body_max);
        x->refused = true;
        hy_buf_free(&x->body);
    }
    if (x->n_body > x->body_max + DRAIN_MAX) return MHD_NO;
    if (!x->refused && x->route->body_max) hy_buf_put(&x->body, data, n);
    return x->body.failed ? MHD_NO : MHD_YES;
}

static bool enter(hy_exchange *x)
{
    double wait;
    const char *why;
    if (!(x->route->flags & HY_ROUTE_GENERATES) || hy_auth_enter(x->s->auth, &x->tenant, hy_now_us(), &wait, &why))
        return true;
    atomic_fetch_add(&x->s->n_limited, 1);
    hy_x_retry_after(x, wait);
    hy_x_error(x, 429, "rate_limit_exceeded", NULL, "key %s is beyond its limit of %s; come again in %.0f s", x->tenant.name,
               why, ceil(HY_MAX(wait, 1.0)));
    return false;
}

static enum MHD_Result start(hy_exchange *x)
{
    x->hc->us_body = 0;
    if (x->refused || x->mode != HY_X_OPEN) return answer(x);
    if (x->route->flags & HY_ROUTE_INLINE) {
        x->route->run(x);
        return answer(x);
    }
    if (!enter(x)) return answer(x);
    x->dispatched = true;
    x->work_done = false;
    hy_x_enlist(x);
    atomic_fetch_add(&x->refs, 1);
    pthread_mutex_lock(&x->lock);
    suspend(x);
    pthread_mutex_unlock(&x->lock);
    hy_http_watch(x->hc);
    hy_workers_schedule(x->s->workers, x);
    return MHD_YES;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *conn, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *n_upload, void **con_cls)
{
    hy_exchange *x = *con_cls;
    if (!x || !x->hc) return MHD_NO;
    if (!x->seen) return look_at_head(x, method, version);
    if (*n_upload) {
        size_t n = *n_upload;
        *n_upload = 0;
        return take_body(x, upload, n);
    }
    return x->dispatched ? answer(x) : start(x);
}

/* ---- beginnings and ends ----------------------------------------------------------------------- */

static void *on_uri(void *cls, const char *uri, struct MHD_Connection *conn)
{
    hy_exchange *x = hy_x_new(cls, uri);
    if (!x) return NULL;
    const union MHD_ConnectionInfo *i = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    x->conn = conn;
    x->hc = i ? i->socket_context : NULL;
    return x;
}

static void on_completed(void *cls, struct MHD_Connection *conn, void **con_cls, enum MHD_RequestTerminationCode why)
{
    hy_exchange *x = *con_cls;
    if (!x) return;
    *con_cls = NULL;
    if (x->hc) {
        x->hc->x = NULL;
        x->hc->us_since = hy_now_us();
        x->hc->us_body = 0;
        x->hc->n_answer++;
    }
    pthread_mutex_lock(&x->lock);
    x->conn = NULL;
    x->suspended = false;
    bool left = why != MHD_REQUEST_TERMINATED_COMPLETED_OK;
    pthread_mutex_unlock(&x->lock);
    if (left) hy_x_gone(x);
    hy_x_unref(x);
}

/* The newest certificate: libmicrohttpd itself knows the first one only. */
static void use_certificate(hy_conn *c, struct MHD_Connection *conn)
{
    if (!c->s->tls) return;
    const union MHD_ConnectionInfo *i = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    hy_err err = { .msg = "no session" };
    void *session = i ? i->tls_session : NULL;
    if (!session || hy_tls_set(c->s->tls, session, &err) != HY_OK)
        hy_log(HY_LOG_ERROR, "serve: a connection uses the first certificate", "error=\"%s\"", err.msg);
    else
        c->tls = hy_tls_ref(c->s->tls);
}

static void on_connection(void *cls, struct MHD_Connection *conn, void **context, enum MHD_ConnectionNotificationCode what)
{
    hy_server *s = cls;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *i = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);
        hy_conn *c = i ? HY_NEW(hy_conn) : NULL;
        *context = c; /* without one its requests are turned away */
        if (!c) return;
        c->s = s;
        c->fd = i->connect_fd;
        use_certificate(c, conn);
        c->us_since = hy_now_us();
        c->next = s->conns;
        if (s->conns) s->conns->prev = c;
        s->conns = c;
        s->n_conn++;
        return;
    }
    hy_conn *c = *context;
    if (!c) return;
    if (c->watched) epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
    if (c->prev) c->prev->next = c->next;
    else s->conns = c->next;
    if (c->next) c->next->prev = c->prev;
    s->n_conn--;
    hy_tls_unref(c->tls);
    hy_free(c);
    *context = NULL;
}

/* Into a stream of events that waits and stands between two: clients skip comments. */
static void comment(hy_exchange *x, uint64_t quiet_us)
{
    static const char text[] = ": ping\n\n";
    uint64_t now = hy_now_us();
    pthread_mutex_lock(&x->lock);
    bool due = x->mode == HY_X_STREAM && x->suspended && !x->ended && x->frame_done && now >= x->us_write + quiet_us &&
               strncmp(x->type, "text/event-stream", 17) == 0;
    if (due) {
        hy_buf_put(&x->out, text, sizeof text - 1);
        x->begun = true;
        x->us_write = now;
    }
    pthread_mutex_unlock(&x->lock);
    if (due) hy_x_wake(x);
}

void hy_http_comment(hy_exchange *x)
{
    comment(x, 0);
}

/* libmicrohttpd drops a connection only when nothing comes; one that drips is dropped here. */
void hy_http_sweep(hy_server *s, uint64_t now)
{
    uint64_t idle = (uint64_t)s->o.idle_s * 1000000, first = HY_MIN(idle, FIRST_HEAD_S * 1000000ull);
    bool crowded = s->n_conn > s->o.n_connection - s->o.n_connection / 16;
    for (hy_conn *c = s->conns; c; c = c->next) {
        uint64_t quiet = now > c->us_since ? now - c->us_since : 0;
        bool slow_head = !c->x && quiet > (c->n_answer ? idle : first);
        bool slow_body = c->x && c->us_body && now > c->us_body + idle + c->x->n_body * 1000000 / BODY_RATE;
        if (slow_head || slow_body || (crowded && !c->x && quiet > 1000000)) shutdown(c->fd, SHUT_RDWR);
        else if (c->x) {
            /* a stream that has long said nothing (a long prompt, its turn not yet) says so: proxies cut silent ones */
            comment(c->x, (uint64_t)s->o.ping_s * 1000000);
            hy_http_ask_again(c, now);
        }
    }
}

static void on_log(void *cls, const char *fmt, va_list ap)
{
    char line[512];
    vsnprintf(line, sizeof line, fmt, ap);
    hy_log(HY_LOG_DEBUG, "serve: http", "%s", line);
}

hy_status hy_http_open(hy_server *s, hy_err *err)
{
    struct MHD_OptionItem tls[4] = { { MHD_OPTION_END, 0, NULL } };
    if (s->o.tls_cert) {
        if (!MHD_is_feature_supported(MHD_FEATURE_TLS)) return hy_fail(err, HY_E_UNSUPPORTED, "libmicrohttpd without TLS");
        HY_TRY(hy_tls_open(&s->tls, s->o.tls_cert, s->o.tls_key, err));
        s->tls_first = hy_tls_ref(s->tls);
        tls[0] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)hy_tls_cert(s->tls) };
        tls[1] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)hy_tls_key(s->tls) };
        tls[2] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_PRIORITIES, 0,
                                          (void *)"NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2" };
        tls[3] = (struct MHD_OptionItem){ MHD_OPTION_END, 0, NULL };
    }
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | (s->o.tls_cert ? MHD_USE_TLS : 0);
    s->daemon = MHD_start_daemon(flags, 0, NULL, NULL, on_request, s, MHD_OPTION_EXTERNAL_LOGGER, on_log, s,
                                 MHD_OPTION_LISTEN_SOCKET, s->listen_fd, MHD_OPTION_URI_LOG_CALLBACK, on_uri, s,
                                 MHD_OPTION_NOTIFY_COMPLETED, on_completed, s, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
                                 MHD_OPTION_CONNECTION_LIMIT, (unsigned)s->o.n_connection, MHD_OPTION_CONNECTION_TIMEOUT,
                                 (unsigned)s->o.idle_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
                                 MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
    if (!s->daemon)
        return hy_fail(err, HY_E_IO, "the HTTP server does not start");
    return HY_OK;
}

/* No connection is suspended any more. */
void hy_http_close(hy_server *s)
{
    if (s->daemon) MHD_stop_daemon(s->daemon); /* closes listen_fd */
    if (s->daemon) s->listen_fd = -1;
    s->daemon = NULL;
    hy_tls_unref(s->tls_first);
    hy_tls_unref(s->tls);
}
