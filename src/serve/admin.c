/* Routes that show the server as a whole: who may use them. With keys: a key whose line says admin=1. Without keys:
 * whoever sits on this machine, and with --debug everybody. */
#include "serve/impl.h"
#include <netinet/in.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

static bool is_loopback(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_UNIX) return true;
    if (a->ss_family == AF_INET) return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
    if (a->ss_family != AF_INET6) return false;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)a)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127);
}

/* A proxy on this machine speaks for others, and says so. */
static bool is_forwarded(const hy_exchange *x)
{
    return hy_x_header(x, "forwarded") || hy_x_header(x, "x-forwarded-for") || hy_x_header(x, "x-real-ip") ||
           hy_x_header(x, "via");
}

/* A page of another site can give its own name the address 127.0.0.1; the browser then asks us under that name. */
static bool names_this_machine(const hy_exchange *x)
{
    const char *host = hy_x_header(x, "host");
    if (!host || x->s->o.unix_path) return true;
    size_t n = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    return (n == 9 && strncasecmp(host, "localhost", 9) == 0) || (n == 5 && strncmp(host, "[::1]", 5) == 0) ||
           (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == n);
}

static bool is_local(const hy_exchange *x)
{
    struct sockaddr_storage a = { 0 };
    socklen_t n = sizeof a;
    return getpeername(x->hc->fd, (struct sockaddr *)&a, &n) == 0 && is_loopback(&a) && !is_forwarded(x) && names_this_machine(x);
}

void hy_admin_check(hy_exchange *x)
{
    const char *site = hy_x_header(x, "sec-fetch-site");
    if (site && !x->s->o.cors_origin && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0)
        hy_x_error(x, 403, "cross_site", NULL, "a page of another site asked; the server was started without --cors");
    else if (hy_auth_needed(x->s->auth)) {
        if (!x->tenant.admin)
            hy_x_error(x, 403, "not_allowed", NULL, "key %s may not: its line in the file of keys would have to say admin=1",
                       x->tenant.name);
    } else if (!x->s->o.debug && !is_local(x))
        hy_x_error(x, 403, "not_allowed", NULL,
                   "without keys only clients on the server's own machine may; start it with --api-keys, or with --debug");
}
