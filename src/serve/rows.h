/* Private to serve/: the functions of the rows in routes.c, by file. */
#ifndef HY_SERVE_ROWS_H
#define HY_SERVE_ROWS_H

#include "serve/http.h"

/* route_server.c */
void hy_route_health(hy_exchange *x);
void hy_route_ready(hy_exchange *x);
void hy_route_version(hy_exchange *x);
void hy_route_models(hy_exchange *x);
void hy_route_model(hy_exchange *x);
void hy_route_request(hy_exchange *x);
void hy_route_request_cancel(hy_exchange *x);

/* route_debug.c */
void hy_route_profile(hy_exchange *x);

/* route_chat.c, route_completions.c, route_embeddings.c */
void hy_route_chat(hy_exchange *x);
void hy_route_completions(hy_exchange *x);
void hy_route_embeddings(hy_exchange *x);

/* route_messages.c, route_responses.c */
void hy_route_messages(hy_exchange *x);
void hy_route_count_tokens(hy_exchange *x);
void hy_route_responses(hy_exchange *x);

/* route_tokenize.c */
void hy_route_tokenize(hy_exchange *x);
void hy_route_detokenize(hy_exchange *x);
void hy_route_apply_template(hy_exchange *x);

#endif
