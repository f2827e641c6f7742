/* GET / and GET /assets/{name}: the page, out of the program itself: no path reaches the file system. */
#include "serve/page.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The page runs its own files only and talks to its own server only. */
static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
                             "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static const hy_page_file *find(const char *name)
{
    for (const hy_page_file *f = hy_page_files; f->name; f++)
        if (strcmp(f->name, name) == 0) return f;
    return NULL;
}

static void send_file(hy_exchange *x, const char *name)
{
    const hy_page_file *f = hy_server_options(hy_x_server(x))->no_page ? NULL : find(name);
    if (!f) {
        hy_x_error(x, 404, "not_found", NULL, "there is no page \"%.100s\"", name);
        return;
    }
    char tag[24];
    snprintf(tag, sizeof tag, "\"%016" PRIx64 "\"", hy_hash64(f->data, f->n, 0));
    hy_x_set_header(x, "Content-Security-Policy", policy);
    hy_x_set_header(x, "ETag", tag);
    hy_x_set_header(x, "Cache-Control", "no-cache"); /* kept, but asked about each time */
    const char *have = hy_x_header(x, "If-None-Match");
    if (have && strcmp(have, tag) == 0) hy_x_reply(x, 304, f->type, "", 0);
    else hy_x_reply(x, 200, f->type, f->data, f->n);
}

void hy_route_page(hy_exchange *x)
{
    send_file(x, "index.html");
}

void hy_route_asset(hy_exchange *x)
{
    send_file(x, hy_x_param(x) ? hy_x_param(x) : "");
}
