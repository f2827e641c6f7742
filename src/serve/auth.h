/* Private to serve/: who may ask, and how much.
 *
 * The keys' file has a line for each key (`hayate serve keygen NAME` writes it); # begins a comment:
 *
 *     NAME sha256:SALT:HASH [requests=N] [tokens=N] [parallel=N] [priority=N] [admin=1]
 *
 * SALT and HASH in hex; HASH = SHA-256(SALT's bytes, key). requests and tokens are per minute, parallel is at
 * once; 0 or absent: unlimited. priority as in hy_params: smaller is earlier. admin: may use /debug. */
#ifndef HY_SERVE_AUTH_H
#define HY_SERVE_AUTH_H

#include "base/base.h"

typedef struct hy_auth hy_auth;

/* What an exchange keeps of its key. Zeroed: nobody, without limits. */
typedef struct hy_tenant {
    char name[64];
    int32_t priority;
    uint32_t i_limit;          /* 1 + place in the limits; 0: none */
    bool entered;              /* counted as running */
    bool admin;                /* may use routes that show the server as a whole */
} hy_tenant;

/* What x-ratelimit-* headers say; limits of 0 are not there. */
typedef struct hy_rate {
    uint32_t limit_requests, limit_tokens;
    int64_t left_requests, left_tokens;
    double reset_requests_s, reset_tokens_s; /* until the full allowance is back */
} hy_rate;

/* path NULL: everybody may. */
hy_status hy_auth_open(hy_auth **out, const char *path, hy_err *err);
void hy_auth_close(hy_auth *a);                        /* accepts NULL */
/* Reads the file again (path: from now on; counts of keys that stay go on). A failure changes nothing. Thread: any. */
hy_status hy_auth_reload(hy_auth *a, const char *path, hy_err *err);
/* False: no such key. Compares with every key in the same time, whatever it holds. Thread: any. */
bool hy_auth_check(hy_auth *a, const char *key, hy_tenant *out);
bool hy_auth_needed(hy_auth *a);
/* Counts a request about to run; false: beyond a limit, *retry_s says when to come again and *why names it.
 * hy_auth_leave must follow a true. */
bool hy_auth_enter(hy_auth *a, hy_tenant *t, uint64_t now_us, double *retry_s, const char **why);
void hy_auth_leave(hy_auth *a, hy_tenant *t, uint64_t n_token);
bool hy_auth_rate(hy_auth *a, const hy_tenant *t, uint64_t now_us, hy_rate *out); /* false: no limits */

#endif
