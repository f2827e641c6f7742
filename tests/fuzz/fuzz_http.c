/* room: serve */
/* The bytes as a JSON body, and as a path: what is accepted must be what was promised. */
#include "serve/impl.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void body(const char *s, size_t n)
{
    hy_err err;
    json_t *j = NULL;
    if (hy_json_door(s, n, &j, &err) == HY_OK) {
        if (!json_is_object(j) || !hy_utf8_valid(s, n) || memchr(s, 0, n)) __builtin_trap();
        json_decref(j);
    } else if (j) {
        __builtin_trap();
    }
}

static void path(const char *s, size_t n)
{
    char *copy = hy_strndup(s, n);
    if (!copy) return;
    hy_match m;
    hy_route_find("GET", copy, &m);
    if (m.route && !m.allow[0]) __builtin_trap();
    if (m.param && (m.param < copy || m.param + m.n_param > copy + strlen(copy))) __builtin_trap();
    size_t before = strlen(copy);
    if (hy_url_decode(copy, n & 1) && strlen(copy) > before) __builtin_trap();
    hy_free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    body((const char *)data, n);
    path((const char *)data, n);
    return 0;
}
