/* The listening socket: TCP on one address, or a Unix socket. */
#include "serve/impl.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 512

/* A socket file left by a server that is gone: nobody answers. */
static bool is_stale(const struct sockaddr_un *a)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool stale = fd >= 0 && connect(fd, (const struct sockaddr *)a, sizeof *a) != 0 && errno == ECONNREFUSED;
    if (fd >= 0) close(fd);
    return stale;
}

static hy_status listen_unix(const char *path, int *out, hy_err *err)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof a.sun_path)
        return hy_fail(err, HY_E_LIMIT, "socket path %.200s: longer than %zu characters", path, sizeof a.sun_path - 1);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct stat st;
    if (fd >= 0 && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) && is_stale(&a)) (void)unlink(path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) != 0 || chmod(path, 0660) != 0 || listen(fd, BACKLOG) != 0) {
        int e = errno;
        if (fd >= 0) close(fd);
        return hy_fail(err, HY_E_IO, "cannot listen on socket %s: %s", path, strerror(e));
    }
    *out = fd;
    return HY_OK;
}

static int listen_at(const struct addrinfo *ai)
{
    int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1, off = 0;
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (ai->ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off); /* "::" hears both */
    if (bind(fd, ai->ai_addr, ai->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) return fd;
    int e = errno;
    close(fd);
    errno = e;
    return -1;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    if (getsockname(fd, (struct sockaddr *)&a, &n) != 0) return 0;
    return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port : ((struct sockaddr_in *)&a)->sin_port);
}

hy_status hy_listen(const hy_serve_options *o, int *fd, char *url, size_t n_url, hy_err *err)
{
    if (o->unix_path) {
        HY_TRY(listen_unix(o->unix_path, fd, err));
        snprintf(url, n_url, "unix:%s", o->unix_path);
        return HY_OK;
    }
    char port[8];
    snprintf(port, sizeof port, "%u", o->port);
    struct addrinfo want = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV }, *found = NULL;
    int rc = getaddrinfo(o->host, port, &want, &found);
    if (rc != 0) return hy_fail(err, HY_E_ARG, "host '%s': %s", o->host, gai_strerror(rc));
    *fd = -1;
    int e = 0;
    for (struct addrinfo *ai = found; ai && *fd < 0; ai = ai->ai_next) {
        *fd = listen_at(ai);
        e = errno;
    }
    freeaddrinfo(found);
    if (*fd < 0) return hy_fail(err, HY_E_IO, "cannot listen on %s port %s: %s", o->host, port, strerror(e));
    bool v6 = strchr(o->host, ':') != NULL;
    snprintf(url, n_url, "%s://%s%s%s:%u", o->tls_cert ? "https" : "http", v6 ? "[" : "", o->host, v6 ? "]" : "", port_of(*fd));
    return HY_OK;
}

void hy_listen_close(const hy_serve_options *o, int fd)
{
    if (fd < 0) return;
    close(fd);
    if (o->unix_path) (void)unlink(o->unix_path);
}
