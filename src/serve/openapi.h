/* Private to serve/: the OpenAPI 3.1 description, from the tables of routes and fields. */
#ifndef HY_SERVE_OPENAPI_H
#define HY_SERVE_OPENAPI_H

#include "serve/http.h"

/* with_keys: routes that are not open need a bearer key. New reference, or NULL when out of memory. */
json_t *hy_openapi(bool with_keys);
void hy_route_openapi(hy_exchange *x);             /* GET /openapi.json */

#endif
