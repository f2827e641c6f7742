/* Clients that leave. libmicrohttpd does not look at a connection while its answer is being computed; this does.
 *
 * The end of what a client sends (TCP's FIN) looks the same whether it has closed its connection or only its sending
 * side and waits for the answer (shutdown(SHUT_WR), `nc -N`). They differ when something is sent to them: a closed one
 * answers with a reset (RFC 9293, 3.5.2), at once on the same machine, after a round trip elsewhere, and epoll says HUP.
 * So they are asked, with bytes that change nothing: before an answer's head by the interim answer "100 Continue", which
 * whoever speaks HTTP/1.1 reads over (RFC 9110, 15.2); in a stream of events by a comment. HTTP/1.0 knows no interim
 * answers: there the end counts as leaving, as it does with most servers, since that is what proxies mean by it; and so it
 * does over TLS, where an end without its own notice is a broken connection (RFC 8446, 6.1). Unix sockets tell the two
 * apart by themselves. */
#include "serve/impl.h"
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define PROBES_MAX 5           /* interim answers to one request: some clients take few */

static void arm(hy_conn *c, uint32_t events)
{
    struct epoll_event ev = { .events = events | EPOLLONESHOT, .data.ptr = c };
    if (epoll_ctl(c->s->epoll_fd, c->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->fd, &ev) == 0) c->watched = true;
    else hy_log(HY_LOG_WARN, "serve: a connection cannot be watched", "fd=%d", c->fd);
}

void hy_http_watch(hy_conn *c)
{
    c->half_closed = false;
    c->n_probe = 0;
    arm(c, EPOLLRDHUP);
}

void hy_http_drop(hy_conn *c)
{
    hy_exchange *x = c->x;
    hy_x_gone(x);
    hy_http_wake(x);
}

static bool send_now(hy_conn *c, const char *s)
{
    size_t n = strlen(s);
    return send(c->fd, s, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n;
}

/* False: it has left for sure, or cannot be asked. */
static bool probe(hy_conn *c)
{
    hy_exchange *x = c->x;
    if (x->s->o.tls_cert) return false;
    if (x->queued) { /* the head is out: streams alone wait behind it */
        hy_http_comment(x);
        return true;
    }
    if (x->s->o.unix_path) return true;
    return x->http11 && (c->n_probe++ >= PROBES_MAX || send_now(c, "HTTP/1.1 100 Continue\r\n\r\n"));
}

void hy_http_hangup(hy_conn *c, uint32_t events)
{
    hy_exchange *x = c->x;
    if (!x || !x->dispatched) return; /* between requests, or in one: libmicrohttpd reads it */
    pthread_mutex_lock(&x->lock);
    bool answered = x->ended;
    pthread_mutex_unlock(&x->lock);
    if (answered) return; /* the rest goes out, or fails */
    c->half_closed = true;
    c->us_probe = hy_now_us();
    if (events & (EPOLLHUP | EPOLLERR) || !probe(c)) hy_http_drop(c);
    else arm(c, 0); /* HUP and ERR are told in any case */
}

void hy_http_ask_again(hy_conn *c, uint64_t now)
{
    if (!c->half_closed || !c->x || !c->x->dispatched || now < c->us_probe + (uint64_t)c->s->o.ping_s * 1000000) return;
    hy_http_hangup(c, 0);
}
