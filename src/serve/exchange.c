/* An exchange: its life between connection, worker and engine, and what routes call. */
#include "serve/impl.h"
#include <string.h>
#include <strings.h>
#include <sys/time.h>
#include <unistd.h>

/* ---- life -------------------------------------------------------------------------------------- */

hy_exchange *hy_x_new(hy_server *s, const char *target)
{
    hy_exchange *x = HY_NEW(hy_exchange);
    if (!x) return NULL;
    x->target = hy_strdup(target);
    if (!x->target) {
        hy_free(x);
        return NULL;
    }
    x->s = s;
    x->us = hy_clock_us();
    uint64_t n = atomic_fetch_add(&s->n_id, 1);
    snprintf(x->id, sizeof x->id, "req-%016llx%08llx", (unsigned long long)hy_rng_at(s->id_key, 1, n),
             (unsigned long long)(hy_rng_at(s->id_key, 2, n) >> 32));
    x->work_done = true; /* until a worker gets it */
    atomic_init(&x->refs, 1);
    pthread_mutex_init(&x->lock, NULL);
    pthread_mutex_init(&x->poll_lock, NULL);
    return x;
}

void hy_x_enlist(hy_exchange *x)
{
    hy_server *s = x->s;
    pthread_mutex_lock(&s->lock);
    x->live_next = s->live;
    if (s->live) s->live->live_prev = x;
    s->live = x;
    s->n_live++;
    pthread_mutex_unlock(&s->lock);
}

static void delist(hy_exchange *x)
{
    hy_server *s = x->s;
    pthread_mutex_lock(&s->lock);
    if (x->live_prev) x->live_prev->live_next = x->live_next;
    else s->live = x->live_next;
    if (x->live_next) x->live_next->live_prev = x->live_prev;
    s->n_live--;
    pthread_mutex_unlock(&s->lock);
}

hy_exchange *hy_server_find(hy_server *s, const char *id)
{
    pthread_mutex_lock(&s->lock);
    hy_exchange *x = s->live;
    while (x && strcmp(x->id, id) != 0) x = x->live_next;
    uint32_t refs = x ? atomic_load(&x->refs) : 0;
    while (refs && !atomic_compare_exchange_weak(&x->refs, &refs, refs + 1)) continue;
    pthread_mutex_unlock(&s->lock);
    return refs ? x : NULL;
}

/* One line in the log for each answer. The path as it was sent, where it has no spaces; no query, no prompt. */
static void log_answer(const hy_exchange *x)
{
    const hy_record *r = &x->record;
    double ms = (double)(r->us_end - r->us_begin) / 1e3;
    int n_path = (int)HY_MIN(strcspn(x->target, "?#"), 300);
    const char *key = r->tenant[0] ? " key=" : "";
    if (r->n_request)
        hy_log(HY_LOG_INFO, "serve: request",
               "id=%s method=%s path=%.*s status=%d ms=%.1f prompt=%u cached=%u output=%u ttft_ms=%.1f finish=%s%s%s%s", x->id,
               x->method, n_path, x->target, r->status, ms, r->usage.n_prompt, r->usage.n_cached, r->usage.n_output,
               r->usage.ttft_ms, hy_finish_name(r->finish), key, r->tenant, r->client_gone ? " gone=1" : "");
    else
        hy_log(x->route && x->route->flags & HY_ROUTE_INLINE ? HY_LOG_DEBUG : HY_LOG_INFO, "serve: request",
               "id=%s method=%s path=%.*s status=%d ms=%.1f%s%s%s", x->id, x->method, n_path, x->target, r->status, ms, key,
               r->tenant, r->client_gone ? " gone=1" : "");
}

/* Whoever lets go of it last. */
static void report(hy_exchange *x)
{
    hy_record *r = &x->record;
    r->us_end = hy_clock_us();
    r->client_gone = x->gone;
    r->cancelled = x->cancelled;
    r->status = x->gone && !x->begun && x->mode != HY_X_REPLY ? 499 : x->status;
    if (r->status >= 100 && r->status < 600) atomic_fetch_add(&x->s->n_status[r->status / 100], 1);
    log_answer(x);
    if (x->dispatched) {
        hy_auth_leave(x->s->auth, &x->tenant, r->usage.n_prompt + r->usage.n_output);
        hy_records_add(x->s->records, r);
        delist(x);
    }
}

void hy_x_unref(hy_exchange *x)
{
    if (atomic_fetch_sub(&x->refs, 1) != 1) return;
    if (x->seen) report(x);
    for (uint32_t i = 0; i < x->n_set; i++) {
        hy_free(x->set_name[i]);
        hy_free(x->set_value[i]);
    }
    json_decref(x->json);
    hy_buf_free(&x->head);
    hy_buf_free(&x->body);
    hy_buf_free(&x->out);
    hy_free(x->query_value);
    hy_free(x->param);
    hy_free(x->path);
    hy_free(x->target);
    hy_free(x->req);
    hy_free(x->req_done);
    pthread_mutex_destroy(&x->lock);
    pthread_mutex_destroy(&x->poll_lock);
    hy_free(x);
}

void hy_x_wake(hy_exchange *x)
{
    if (atomic_exchange(&x->waking, true)) return;
    atomic_fetch_add(&x->refs, 1);
    hy_server *s = x->s;
    hy_exchange *top = atomic_load(&s->wake);
    do x->wake_next = top;
    while (!atomic_compare_exchange_weak(&s->wake, &top, x));
    uint64_t one = 1;
    if (!top && write(s->event_fd, &one, sizeof one) < 0) hy_log(HY_LOG_ERROR, "serve: the loop cannot be woken", NULL);
}

/* With the lock. The engine calls notify, which takes none. */
static void cancel_all(hy_exchange *x)
{
    if (x->cancel_sent) return;
    x->cancel_sent = true;
    for (uint32_t i = 0; i < x->n_req; i++)
        if (!x->req_done[i]) hy_cancel(x->req[i]);
}

void hy_x_gone(hy_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    bool work = !x->work_done;
    x->gone = true;
    cancel_all(x);
    if (work) hy_workers_schedule(x->s->workers, x);
    pthread_mutex_unlock(&x->lock);
}

void hy_x_cancel(hy_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->cancelled = true;
    cancel_all(x);
    pthread_mutex_unlock(&x->lock);
}

/* ---- a worker's turn --------------------------------------------------------------------------- */

/* The route has nothing more to say, or nobody listens. With the lock. */
static bool over(const hy_exchange *x)
{
    return x->gone || x->ended;
}

static bool is_over(hy_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    bool r = over(x);
    pthread_mutex_unlock(&x->lock);
    return r;
}

/* What request i has to say by now. True when it is done. */
static bool poll_one(hy_exchange *x, uint32_t i)
{
    hy_request *r = x->req[i];
    for (;;) {
        hy_event ev;
        hy_err err = { .code = HY_OK };
        hy_status st = hy_poll(r, 0, &ev, &err);
        if (st == HY_OK && ev.kind == HY_EV_NONE) return false;
        if (st != HY_OK) {
            ev.kind = HY_EV_DONE;
            ev.finish = HY_FINISH_ERROR;
        }
        if (!is_over(x) && x->on_event) x->on_event(x, x->user, i, &ev, st == HY_OK ? NULL : &err);
        if (ev.kind != HY_EV_DONE) continue;
        hy_usage u;
        hy_request_usage(r, &u);
        hy_record_usage(&x->record, &u, ev.finish);
        if (i == 0) x->record.n_span = hy_request_spans(r, x->record.span, HY_RECORD_SPANS);
        return true;
    }
}

static uint32_t poll_all(hy_exchange *x)
{
    uint32_t n_left = 0;
    for (uint32_t i = 0; i < x->n_req; i++) {
        if (x->req_done[i]) continue;
        bool done = poll_one(x, i);
        pthread_mutex_lock(&x->lock); /* cancel_all reads it */
        x->req_done[i] = done;
        pthread_mutex_unlock(&x->lock);
        n_left += !done;
    }
    return n_left;
}

static void finish(hy_exchange *x)
{
    if (x->on_close) x->on_close(x, x->user);
    pthread_mutex_lock(&x->poll_lock);
    pthread_mutex_lock(&x->lock);
    for (uint32_t i = 0; i < x->n_req; i++) hy_release(x->req[i]);
    x->n_req = 0;
    x->work_done = true;
    pthread_mutex_unlock(&x->lock);
    pthread_mutex_unlock(&x->poll_lock);
    hy_x_unref(x);
}

void hy_x_run(hy_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    bool gone = x->gone, done = x->work_done;
    pthread_mutex_unlock(&x->lock);
    if (done) return;
    pthread_mutex_lock(&x->poll_lock);
    if (!x->started && !gone) x->route->run(x);
    x->started = true;
    uint32_t n_left = poll_all(x);
    if (x->on_turn && !is_over(x)) n_left += x->on_turn(x, x->user);
    pthread_mutex_unlock(&x->poll_lock);
    if (n_left == 0 && !is_over(x)) {
        hy_x_error(x, 500, "internal_error", NULL, "%s %s ended without an answer", x->route->method, x->route->path);
        if (hy_x_streaming(x)) hy_x_end(x);
    }
    if (!is_over(x)) return;
    if (n_left == 0) {
        finish(x);
        return;
    }
    pthread_mutex_lock(&x->lock);
    cancel_all(x); /* the engine's answer to that comes as another turn */
    pthread_mutex_unlock(&x->lock);
}

/* ---- waiting for the engine -------------------------------------------------------------------- */

void hy_x_turn(void *ctx)
{
    hy_exchange *x = ctx;
    hy_workers_schedule(x->s->workers, x);
}

void hy_x_await_turns(hy_exchange *x, void *user, bool (*on_turn)(hy_exchange *x, void *user),
                      void (*on_close)(hy_exchange *x, void *user))
{
    x->user = user;
    x->on_turn = on_turn;
    x->on_close = on_close;
}

void hy_x_await(hy_exchange *x, void *user, hy_x_event_fn *on_event, void (*on_close)(hy_exchange *x, void *user))
{
    x->user = user;
    x->on_event = on_event;
    x->on_close = on_close;
}

static bool make_room(hy_exchange *x, uint32_t n)
{
    if (x->cap_req - x->n_req >= n) return true;
    uint32_t cap = HY_MAX(x->cap_req * 2, x->n_req + n);
    hy_request **req = hy_realloc_array(x->req, cap, sizeof *req);
    if (req) x->req = req;
    bool *done = hy_realloc_array(x->req_done, cap, sizeof *done);
    if (done) x->req_done = done;
    if (!req || !done) return false;
    x->cap_req = cap;
    return true;
}

hy_status hy_x_submit(hy_exchange *x, const hy_params *p, uint32_t n, hy_err *err)
{
    hy_params q = *p;
    q.notify = hy_x_turn;
    q.notify_ctx = x;
    if (!q.tenant || !q.tenant[0]) q.tenant = x->tenant.name;
    q.priority += x->tenant.priority;
    pthread_mutex_lock(&x->lock);
    bool room = make_room(x, n);
    pthread_mutex_unlock(&x->lock);
    if (!room) return hy_fail_memory(err, "requests", n * sizeof *x->req);
    /* only this thread grows the list, so the place stays; submit takes long and is done without the lock */
    HY_TRY(hy_submit_n(hy_server_engine(x->s), &q, n, x->req + x->n_req, err));
    pthread_mutex_lock(&x->lock);
    memset(x->req_done + x->n_req, 0, n * sizeof *x->req_done);
    x->n_req += n;
    if (x->gone || x->cancelled || x->cancel_sent) {
        x->cancel_sent = false;
        cancel_all(x);
    }
    pthread_mutex_unlock(&x->lock);
    x->record.n_request += n;
    return HY_OK;
}

hy_request *hy_x_request(const hy_exchange *x, uint32_t i)
{
    return i < x->n_req ? x->req[i] : NULL;
}

uint32_t hy_x_n_request(const hy_exchange *x)
{
    return x->n_req;
}

/* ---- the answer -------------------------------------------------------------------------------- */

void hy_x_set_header(hy_exchange *x, const char *name, const char *value)
{
    if (x->n_set == HY_X_HEADERS_MAX) return;
    char *n = hy_strdup(name), *v = hy_strdup(value);
    if (n && v) {
        x->set_name[x->n_set] = n;
        x->set_value[x->n_set++] = v;
        return;
    }
    hy_free(n);
    hy_free(v);
}

void hy_x_reply(hy_exchange *x, int status, const char *type, const void *data, size_t n)
{
    pthread_mutex_lock(&x->lock);
    bool first = !x->ended && !x->begun;
    if (first) {
        x->mode = HY_X_REPLY;
        x->status = status;
        snprintf(x->type, sizeof x->type, "%s", type ? type : "");
        hy_buf_reset(&x->out);
        hy_buf_put(&x->out, data, n);
        x->ended = true;
    }
    pthread_mutex_unlock(&x->lock);
    if (first) hy_x_wake(x);
    else hy_log(HY_LOG_ERROR, "serve: a second answer was dropped", "id=%s status=%d", x->id, status);
}

void hy_x_reply_json(hy_exchange *x, int status, json_t *take)
{
    char *text = take ? json_dumps(take, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(take);
    static const char none[] = "{\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\",\"param\":null,"
                               "\"code\":\"out_of_memory\"}}";
    if (text) hy_x_reply(x, status, "application/json", text, strlen(text));
    else hy_x_reply(x, 500, "application/json", none, sizeof none - 1);
    free(text);
}

void hy_x_stream(hy_exchange *x, const char *type)
{
    pthread_mutex_lock(&x->lock);
    if (x->mode == HY_X_OPEN) {
        x->mode = HY_X_STREAM;
        x->us_write = hy_now_us();
        x->frame_done = true;
        x->status = 200;
        snprintf(x->type, sizeof x->type, "%s", type);
    }
    pthread_mutex_unlock(&x->lock);
}

void hy_x_write(hy_exchange *x, const void *data, size_t n)
{
    if (n == 0) return;
    pthread_mutex_lock(&x->lock);
    bool use = x->mode == HY_X_STREAM && !x->ended && !x->gone;
    if (use) {
        x->begun = true;
        hy_buf_put(&x->out, data, n);
        x->us_write = hy_now_us();
        x->frame_done = n >= 2 && memcmp((const char *)data + n - 2, "\n\n", 2) == 0;
        use = x->suspended;
    }
    pthread_mutex_unlock(&x->lock);
    if (use) hy_x_wake(x);
}

void hy_x_end(hy_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->ended = x->begun = true;
    pthread_mutex_unlock(&x->lock);
    hy_x_wake(x);
}

bool hy_x_streaming(const hy_exchange *x)
{
    return x->mode == HY_X_STREAM;
}

/* ---- the request ------------------------------------------------------------------------------- */

hy_server *hy_x_server(const hy_exchange *x)
{
    return x->s;
}

const char *hy_x_id(const hy_exchange *x)
{
    return x->id;
}

const char *hy_x_method(const hy_exchange *x)
{
    return x->method;
}

const char *hy_x_path(const hy_exchange *x)
{
    return x->path;
}

const char *hy_x_param(const hy_exchange *x)
{
    return x->param;
}

const char *hy_x_query(const hy_exchange *x, const char *key)
{
    size_t n = strlen(key);
    for (const char *q = x->query; q && *q;) {
        const char *end = strchrnul(q, '&');
        if ((size_t)(end - q) >= n && strncmp(q, key, n) == 0 && (q[n] == '=' || q + n == end)) {
            hy_exchange *w = (hy_exchange *)x; /* a place for the answer: x is on one thread here */
            hy_free(w->query_value);
            w->query_value = q + n == end ? hy_strdup("") : hy_strndup(q + n + 1, (size_t)(end - q) - n - 1);
            return w->query_value && hy_url_decode(w->query_value, true) ? w->query_value : NULL;
        }
        q = *end ? end + 1 : NULL;
    }
    return NULL;
}

const char *hy_x_header(const hy_exchange *x, const char *name)
{
    for (const char *h = x->head.data; h && h < x->head.data + x->head.len;) {
        const char *value = h + strlen(h) + 1;
        if (strcasecmp(h, name) == 0) return value;
        h = value + strlen(value) + 1;
    }
    return NULL;
}

const char *hy_x_body(const hy_exchange *x, size_t *n)
{
    *n = x->body.len;
    return x->body.data ? x->body.data : "";
}

const char *hy_x_tenant(const hy_exchange *x)
{
    return x->tenant.name;
}

uint64_t hy_x_us(const hy_exchange *x)
{
    return x->us;
}

json_t *hy_x_json(hy_exchange *x)
{
    if (x->json) return x->json;
    size_t n;
    const char *s = hy_x_body(x, &n);
    hy_err err;
    const char *type = hy_x_header(x, "content-type");
    if (type && strncasecmp(type, "multipart/", 10) == 0)
        hy_x_error(x, 415, "unsupported_media_type", NULL, "content type '%.100s': this route reads application/json", type);
    else if (hy_json_door(s, n, &x->json, &err) != HY_OK) hy_x_fail(x, NULL, &err);
    return x->json;
}

hy_engine *hy_server_engine(const hy_server *s)
{
    return atomic_load(&s->engine);
}

const hy_serve_options *hy_server_options(const hy_server *s)
{
    return &s->o;
}

const char *hy_server_model_id(const hy_server *s)
{
    return s->model_id;
}
