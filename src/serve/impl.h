/* Private to serve/: the server and an exchange from inside.
 *
 * Threads: the loop's (libmicrohttpd, watching, signals), the workers', the engine's (notify only). Fields
 * say whose they are; what two threads touch is under the exchange's lock or atomic. */
#ifndef HY_SERVE_IMPL_H
#define HY_SERVE_IMPL_H

#include "serve/auth.h"
#include "serve/http.h"
#include "serve/metrics.h"
#include "serve/otlp.h"
#include "serve/record.h"
#include "serve/tls.h"
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#define HY_X_HEADERS_MAX 8         /* that a route may set */

/* One TCP or Unix connection. Loop's. */
typedef struct hy_conn {
    hy_server *s;
    int fd;
    hy_tls *tls;               /* its certificate; NULL: the first one */
    bool half_closed;          /* the client sends no more, and may have left */
    uint32_t n_probe;          /* how often it was asked, of this request */
    uint64_t us_probe;         /* when last */
    bool watched;              /* fd is in the watching epoll */
    uint64_t us_since;         /* accepted, or the last answer done: a whole head must come within the idle time */
    uint64_t us_body;          /* when the head was whole; 0: none yet, or the body is whole */
    uint32_t n_answer;
    hy_exchange *x;            /* between head and end of answer */
    struct hy_conn *prev, *next;
} hy_conn;

typedef enum hy_x_mode { HY_X_OPEN, HY_X_REPLY, HY_X_STREAM } hy_x_mode;

struct hy_exchange {
    hy_server *s;
    _Atomic uint32_t refs;     /* the loop's, the workers', and one for each entry in the wake list */

    /* the request: written by the loop before a worker sees x */
    char id[32];
    uint64_t us;
    char *target, *path, *query, *param; /* target: owned, as sent; the others decoded, in one block */
    char method[16];
    const hy_route *route;     /* NULL: 404, 405, OPTIONS */
    hy_buf head;               /* names and values, NUL after each */
    hy_buf body;
    json_t *json;
    char *query_value;         /* the last answer of hy_x_query */
    hy_tenant tenant;
    bool dispatched;
    uint64_t body_max, n_body;

    /* the connection: loop's */
    struct MHD_Connection *conn;
    hy_conn *hc;
    bool seen, refused;        /* the head was looked at, and the answer is known without the body */
    bool http11, queued;       /* the answer's head is libmicrohttpd's */

    pthread_mutex_t lock;      /* --- from here to the next line */
    hy_x_mode mode;
    bool ended, gone, cancelled, cancel_sent, suspended, work_done, begun;
    int status;
    char type[96];
    char *set_name[HY_X_HEADERS_MAX], *set_value[HY_X_HEADERS_MAX];
    uint32_t n_set;
    hy_buf out;
    size_t sent;
    uint64_t us_write;         /* the stream's beginning, or its last write */
    bool frame_done;           /* an event ended there */
    hy_request **req;
    bool *req_done;
    uint32_t n_req, cap_req;   /* --- */

    /* waiting for the engine: the worker's that holds x */
    void *user;
    hy_x_event_fn *on_event;
    void (*on_close)(hy_exchange *x, void *user);
    bool (*on_turn)(hy_exchange *x, void *user); /* or NULL */
    bool started;
    pthread_mutex_t poll_lock; /* held in turns; and by "why was it slow" while x runs */
    hy_record record;          /* poll_lock */

    _Atomic int turn;          /* 0: at rest; 1: queued or on a worker; 2: again after that */
    hy_exchange *next;         /* in the workers' stack or list */
    _Atomic bool waking;
    hy_exchange *wake_next;
    hy_exchange *live_prev, *live_next; /* server's lock */
};

typedef enum hy_server_state { HY_LOADING, HY_READY, HY_DRAINING, HY_STOPPING } hy_server_state;

typedef struct hy_workers hy_workers;

struct hy_server {
    hy_serve_options o;
    hy_options engine_options;
    _Atomic(hy_engine *) engine;
    _Atomic int state;         /* hy_server_state */
    char model_id[256];
    int64_t created;           /* seconds since the epoch */
    uint64_t us_start, us_drain_end;
    bool all_cancelled;        /* the drain was too long */
    bool (*progress)(void *ctx, uint64_t done, uint64_t all); /* the caller's */
    char url[256];

    struct MHD_Daemon *daemon;
    int listen_fd, epoll_fd, event_fd, signal_fd;
    hy_tls *tls, *tls_first;   /* loop's: what new connections get; what libmicrohttpd was started with */
    hy_conn *conns;            /* loop's: newest first */
    _Atomic uint32_t n_conn;
    hy_auth *auth;
    uint64_t id_key;           /* random: request ids do not follow from the clock */
    _Atomic uint64_t n_id;
    _Atomic uint64_t n_status[6], n_unauthorised, n_limited; /* answers */
    _Atomic uint32_t n_busy;   /* workers at work */

    hy_workers *workers;
    _Atomic(hy_exchange *) wake; /* exchanges whose connection goes on */

    pthread_mutex_t lock;      /* live */
    hy_exchange *live;
    uint32_t n_live;
    hy_records *records;
    hy_otlp *otlp;             /* NULL: no traces */

    pthread_t loader;
    bool loading;              /* the loader must be joined */
    _Atomic bool load_done, stop_loading;
    hy_err load_err;
    hy_status load_status;
};

/* exchange.c */
hy_exchange *hy_x_new(hy_server *s, const char *target);
void hy_x_unref(hy_exchange *x);
void hy_x_run(hy_exchange *x);             /* a worker's turn */
void hy_x_wake(hy_exchange *x);            /* its connection goes on; any thread */
void hy_x_gone(hy_exchange *x);            /* loop: its client has left */
void hy_x_cancel(hy_exchange *x);          /* any thread; the answer ends as cancelled */
bool hy_x_anthropic(const hy_exchange *x);
void hy_admin_check(hy_exchange *x);       /* loop: sends the error where x may not use a route of HY_ROUTE_ADMIN (admin.c) */
void hy_x_enlist(hy_exchange *x);          /* into the live list */
hy_exchange *hy_server_find(hy_server *s, const char *id); /* with a reference, or NULL */

/* worker.c */
hy_status hy_workers_open(hy_workers **out, uint32_t n, hy_err *err);
void hy_workers_push(hy_workers *w, hy_exchange *x); /* any thread; no lock */
void hy_workers_close(hy_workers *w);
void hy_workers_schedule(hy_workers *w, hy_exchange *x); /* push unless it is there; then "again" */

/* http.c: libmicrohttpd's callbacks */
hy_status hy_http_open(hy_server *s, hy_err *err);
void hy_http_close(hy_server *s);
void hy_http_wake(hy_exchange *x);         /* its answer, or more of it, is there */
void hy_http_comment(hy_exchange *x);      /* into a stream of events that waits */
void hy_http_sweep(hy_server *s, uint64_t now_us); /* slow heads and bodies; idle connections near the limit */

/* watch.c: clients that leave; loop's */
void hy_http_watch(hy_conn *c);            /* from the head to the end of the answer */
void hy_http_hangup(hy_conn *c, uint32_t events); /* epoll: the client has closed, or its sending side */
void hy_http_ask_again(hy_conn *c, uint64_t now_us); /* one that sends no more may have left since */
void hy_http_drop(hy_conn *c);             /* we close */

/* listen.c */
hy_status hy_listen(const hy_serve_options *o, int *fd, char *url, size_t n_url, hy_err *err);
void hy_listen_close(const hy_serve_options *o, int fd);

/* routes.c */
typedef struct hy_match {
    const hy_route *route;     /* or NULL */
    char allow[64];            /* methods that the path knows; "": no such path */
    const char *param;         /* within path, or NULL */
    size_t n_param;
} hy_match;
void hy_route_find(const char *method, const char *path, hy_match *m);
/* "/a%20b" -> "/a b"; false: broken escape or NUL. In place. */
bool hy_url_decode(char *s, bool plus);

/* body.c */
hy_status hy_json_door(const char *s, size_t n, json_t **out, hy_err *err);

#endif
