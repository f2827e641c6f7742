/* Private to serve/: the files of web/, as tools/embed.c put them into the program. */
#ifndef HY_SERVE_PAGE_H
#define HY_SERVE_PAGE_H

#include "serve/http.h"

typedef struct hy_page_file {
    const char *name, *type;   /* "app.js", "text/javascript; charset=utf-8" */
    const unsigned char *data;
    size_t n;
} hy_page_file;
extern const hy_page_file hy_page_files[];         /* ends with a NULL name */

void hy_route_page(hy_exchange *x);                /* GET / */
void hy_route_asset(hy_exchange *x);               /* GET /assets/{name} */

#endif
