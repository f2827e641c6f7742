/* The server's life: options, the loop, loading beside it, signals, the end. */
#include "serve/impl.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TICK_MS 1000
#define EVENTS 64
#define GOODBYE_US 2000000ull     /* for clients to read how their cancelled requests ended */

void hy_serve_options_init(hy_serve_options *o)
{
    memset(o, 0, sizeof *o);
    o->host = "127.0.0.1";
    o->port = 8080;
}

static hy_status check(hy_serve_options *o, hy_err *err)
{
    if (!o->tls_cert != !o->tls_key) return hy_fail(err, HY_E_ARG, "TLS wants a certificate and its key, not one of them");
    if (o->tls_cert && o->unix_path) return hy_fail(err, HY_E_ARG, "TLS and a Unix socket contradict each other");
    o->host = o->host ? o->host : "127.0.0.1";
    o->n_worker = o->n_worker ? o->n_worker : 2;
    o->n_connection = o->n_connection ? o->n_connection : 1024;
    o->idle_s = o->idle_s ? o->idle_s : 75;
    o->ping_s = o->ping_s ? o->ping_s : 15;
    o->body_max = o->body_max ? o->body_max : 32 * HY_MIB;
    o->drain_timeout_s = o->drain_timeout_s > 0 ? o->drain_timeout_s : 30;
    if (o->n_worker > 64) return hy_fail(err, HY_E_LIMIT, "%u workers; the limit is 64", o->n_worker);
    return HY_OK;
}

/* "dir/name.gguf" -> "name". */
static void name_model(hy_server *s)
{
    const char *path = s->engine_options.model ? s->engine_options.model : "model";
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    size_t first = n;
    while (first > 0 && path[first - 1] != '/') first--;
    if (n - first > 5 && memcmp(path + n - 5, ".gguf", 5) == 0) n -= 5;
    if (s->o.model_alias) snprintf(s->model_id, sizeof s->model_id, "%s", s->o.model_alias);
    else snprintf(s->model_id, sizeof s->model_id, "%.*s", (int)HY_MIN(n - first, 255), path + first);
    for (char *c = s->model_id; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '_';
    if (!hy_utf8_valid(s->model_id, strlen(s->model_id))) snprintf(s->model_id, sizeof s->model_id, "model");
    s->created = (int64_t)time(NULL);
    struct stat st;
    if (stat(path, &st) == 0) s->created = (int64_t)st.st_mtime;
}

void hy_server_counts(const hy_server *s, hy_http_counts *h)
{
    for (int i = 0; i < 6; i++) h->n_request[i] = atomic_load(&s->n_status[i]);
    h->n_unauthorised = atomic_load(&s->n_unauthorised);
    h->n_limited = atomic_load(&s->n_limited);
    h->n_connection = atomic_load(&s->n_conn);
    h->n_worker_busy = atomic_load(&s->n_busy);
    h->predict_wait_s = hy_server_predict_wait(s);
    pthread_mutex_lock((pthread_mutex_t *)&s->lock);
    h->n_exchange = s->n_live;
    pthread_mutex_unlock((pthread_mutex_t *)&s->lock);
}

/* ---- loading ----------------------------------------------------------------------------------- */

static void wake_loop(hy_server *s)
{
    uint64_t one = 1;
    if (write(s->event_fd, &one, sizeof one) < 0) hy_log(HY_LOG_ERROR, "serve: the loop cannot be woken", NULL);
}

static bool on_progress(void *ctx, uint64_t done, uint64_t all)
{
    hy_server *s = ctx;
    const hy_options *o = &s->engine_options;
    return atomic_load(&s->stop_loading) || (s->progress && s->progress(o->progress_ctx, done, all));
}

static void *load(void *arg)
{
    hy_server *s = arg;
    hy_options o = s->engine_options;
    o.progress = on_progress;
    o.progress_ctx = s;
    hy_engine *e = NULL;
    s->load_status = hy_open(&e, &o, &s->load_err);
    if (s->load_status == HY_OK && s->o.loaded) s->o.loaded(s->o.loaded_ctx, e);
    if (s->load_status == HY_OK) atomic_store(&s->engine, e);
    int loading = HY_LOADING;
    if (s->load_status == HY_OK) atomic_compare_exchange_strong(&s->state, &loading, HY_READY);
    atomic_store(&s->load_done, true);
    wake_loop(s);
    return NULL;
}

static uint32_t n_live(hy_server *s)
{
    pthread_mutex_lock(&s->lock);
    uint32_t n = s->n_live;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* ---- signals ----------------------------------------------------------------------------------- */

static void reload(hy_server *s)
{
    hy_err err;
    hy_serve_options o = s->o;
    hy_tls *tls = NULL;
    hy_status st = s->o.reload ? s->o.reload(s->o.reload_ctx, &o, &err) : HY_OK;
    if (st == HY_OK && s->tls) st = hy_tls_open(&tls, s->o.tls_cert, s->o.tls_key, &err);
    if (st == HY_OK) st = hy_auth_reload(s->auth, o.api_keys, &err);
    if (st != HY_OK) {
        hy_log(HY_LOG_ERROR, "serve: not reloaded", "%s", err.msg);
        hy_tls_unref(tls);
        return;
    }
    if (tls) {
        hy_tls_unref(s->tls);
        s->tls = tls;
    }
    s->o.api_keys = o.api_keys;
    s->o.cors_origin = o.cors_origin;
    s->o.drain_timeout_s = o.drain_timeout_s > 0 ? o.drain_timeout_s : 30;
    hy_log(HY_LOG_INFO, "serve: reloaded", NULL);
}

static void begin_drain(hy_server *s, int sig)
{
    if (atomic_load(&s->state) >= HY_DRAINING) return;
    hy_log(HY_LOG_INFO, "serve: stopping", "signal=%s running=%u timeout_s=%g", sig == SIGINT ? "INT" : "TERM", n_live(s),
           s->o.drain_timeout_s);
    atomic_store(&s->state, HY_DRAINING);
    atomic_store(&s->stop_loading, true);
    if (hy_server_engine(s)) hy_engine_drain(hy_server_engine(s));
    s->us_drain_end = hy_now_us() + (uint64_t)(s->o.drain_timeout_s * 1e6);
    /* a second one ends the process, as it would without us */
    sigset_t again;
    sigemptyset(&again);
    sigaddset(&again, SIGINT);
    sigaddset(&again, SIGTERM);
    pthread_sigmask(SIG_UNBLOCK, &again, NULL);
}

static void on_signal(hy_server *s)
{
    struct signalfd_siginfo si;
    while (read(s->signal_fd, &si, sizeof si) == sizeof si) {
        if (si.ssi_signo == SIGHUP) reload(s);
        else begin_drain(s, (int)si.ssi_signo);
    }
}

/* ---- the loop ---------------------------------------------------------------------------------- */

static void wake_exchanges(hy_server *s)
{
    uint64_t n;
    while (read(s->event_fd, &n, sizeof n) > 0) continue;
    hy_exchange *x = atomic_exchange(&s->wake, NULL);
    while (x) {
        hy_exchange *next = x->wake_next;
        atomic_store(&x->waking, false);
        hy_http_wake(x);
        hy_x_unref(x);
        x = next;
    }
}

static int wait_ms(hy_server *s)
{
    MHD_UNSIGNED_LONG_LONG ms;
    if (MHD_get_timeout(s->daemon, &ms) != MHD_YES) return TICK_MS;
    return (int)HY_MIN(ms, (MHD_UNSIGNED_LONG_LONG)TICK_MS);
}

/* What runs ends within a step, and its clients are told. */
static void cancel_all(hy_server *s)
{
    pthread_mutex_lock(&s->lock);
    for (hy_exchange *x = s->live; x; x = x->live_next) hy_x_cancel(x);
    pthread_mutex_unlock(&s->lock);
}

/* Clients that do not read are sent away. */
static void drop_all(hy_server *s)
{
    atomic_store(&s->state, HY_STOPPING);
    for (hy_conn *c = s->conns; c; c = c->next)
        if (c->x) hy_http_drop(c);
}

/* True when there is nothing more to wait for. */
static bool is_finished(hy_server *s, uint64_t now)
{
    int state = atomic_load(&s->state);
    bool loaded = atomic_load(&s->load_done);
    if (loaded && s->load_status != HY_OK && state < HY_STOPPING) {
        drop_all(s);
        state = HY_STOPPING;
    }
    if (state == HY_DRAINING && n_live(s) > 0 && now >= s->us_drain_end) {
        if (s->all_cancelled) {
            drop_all(s);
        } else {
            hy_log(HY_LOG_WARN, "serve: running requests are cancelled", "n=%u", n_live(s));
            s->all_cancelled = true;
            s->us_drain_end = now + GOODBYE_US;
            cancel_all(s);
        }
    }
    return state >= HY_DRAINING && loaded && n_live(s) == 0;
}

static void loop(hy_server *s)
{
    struct epoll_event ev[EVENTS];
    uint64_t swept = hy_now_us();
    for (;;) {
        int n = epoll_wait(s->epoll_fd, ev, EVENTS, wait_ms(s));
        for (int i = 0; i < n; i++) {
            void *p = ev[i].data.ptr;
            if (p == &s->signal_fd) on_signal(s);
            else if (p != &s->event_fd && p != &s->daemon) hy_http_hangup(p, ev[i].events);
        }
        wake_exchanges(s);
        MHD_run(s->daemon);
        uint64_t now = hy_now_us();
        if (now - swept > TICK_MS * 1000ull) {
            hy_http_sweep(s, now);
            swept = now;
        }
        if (is_finished(s, now)) return;
    }
}

static hy_status add(hy_server *s, int fd, void *tag, hy_err *err)
{
    struct epoll_event ev = { .events = EPOLLIN, .data.ptr = tag };
    if (fd >= 0 && epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0) return HY_OK;
    return hy_fail(err, HY_E_IO, "the loop cannot watch its own files: %s", strerror(errno));
}

static hy_status open_loop(hy_server *s, const sigset_t *signals, hy_err *err)
{
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    s->signal_fd = signalfd(-1, signals, SFD_NONBLOCK | SFD_CLOEXEC);
    HY_TRY(add(s, s->event_fd, &s->event_fd, err));
    HY_TRY(add(s, s->signal_fd, &s->signal_fd, err));
    const union MHD_DaemonInfo *i = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    return add(s, i ? i->epoll_fd : -1, &s->daemon, err);
}

/* A connection is a file; the soft limit is often 1024. */
static void raise_file_limit(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur == r.rlim_max) return;
    r.rlim_cur = r.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &r);
}

static hy_status open_server(hy_server *s, const sigset_t *signals, hy_err *err)
{
    HY_TRY(check(&s->o, err));
    raise_file_limit();
    name_model(s);
    if (getrandom(&s->id_key, sizeof s->id_key, 0) != sizeof s->id_key)
        return hy_fail(err, HY_E_IO, "no random numbers: %s", strerror(errno));
    HY_TRY(hy_auth_open(&s->auth, s->o.api_keys, err));
    HY_TRY(hy_records_open(&s->records, err));
    if (s->o.otlp_url) {
        HY_TRY(hy_otlp_open(&s->otlp, s->o.otlp_url, s->model_id, err));
        hy_records_listen(s->records, hy_otlp_add, s->otlp);
    }
    HY_TRY(hy_listen(&s->o, &s->listen_fd, s->url, sizeof s->url, err));
    HY_TRY(hy_http_open(s, err));
    HY_TRY(open_loop(s, signals, err));
    HY_TRY(hy_workers_open(&s->workers, s->o.n_worker, err));
    if (pthread_create(&s->loader, NULL, load, s) != 0) return hy_fail(err, HY_E_MEMORY, "no thread for loading");
    s->loading = true;
    return HY_OK;
}

static void close_server(hy_server *s)
{
    atomic_store(&s->stop_loading, true);
    if (s->loading) pthread_join(s->loader, NULL);
    hy_workers_close(s->workers);
    if (s->event_fd >= 0 && s->daemon) wake_exchanges(s);
    if (!s->daemon) hy_listen_close(&s->o, s->listen_fd);
    else if (s->o.unix_path) (void)unlink(s->o.unix_path);
    hy_http_close(s);
    hy_close(atomic_load(&s->engine));
    if (s->epoll_fd >= 0) close(s->epoll_fd);
    if (s->event_fd >= 0) close(s->event_fd);
    if (s->signal_fd >= 0) close(s->signal_fd);
    hy_otlp_close(s->otlp);
    hy_records_close(s->records);
    hy_auth_close(s->auth);
    pthread_mutex_destroy(&s->lock);
    hy_free(s);
}

hy_status hy_serve_run(const hy_options *engine, const hy_serve_options *o, void (*ready)(void *ctx, const char *url),
                       void *ctx, hy_err *err)
{
    hy_server *s = HY_NEW(hy_server);
    if (!s) return hy_fail_memory(err, "server", sizeof *s);
    s->o = *o;
    s->engine_options = *engine;
    s->progress = engine->progress;
    s->us_start = hy_now_us();
    s->listen_fd = s->epoll_fd = s->event_fd = s->signal_fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    sigset_t ours, before;
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ours, &before); /* threads made from here on inherit it */
    hy_status st = open_server(s, &ours, err);
    if (st == HY_OK) {
        if (ready) ready(ctx, s->url);
        loop(s);
        st = s->load_status;
        if (st != HY_OK && err) *err = s->load_err;
    }
    close_server(s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return st;
}
