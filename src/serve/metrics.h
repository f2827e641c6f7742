/* Private to serve/: what the engine counts, as Prometheus text and as JSON. Pure but for reading the process's
 * own resident size. Names are vLLM's where the meaning is the same (docs/monitoring.md has the list), so that
 * dashboards made for it work; our own begin with hayate_. */
#ifndef HY_SERVE_METRICS_H
#define HY_SERVE_METRICS_H

#include "base/base.h"
#include "serve/http.h"
#include <hayate/hayate.h>

/* What the HTTP side counts; the caller fills it. */
typedef struct hy_http_counts {
    uint64_t n_request[6];     /* answers by the first digit of the status: [2] = 2xx */
    uint64_t n_unauthorised, n_limited; /* 401; 429 by a key's limits */
    uint32_t n_connection, n_exchange, n_worker_busy; /* now */
    double predict_wait_s;     /* to the first token of a request that comes now */
} hy_http_counts;

/* Fills h: in the server, which counts. Thread: any. */
void hy_server_counts(const hy_server *s, hy_http_counts *h);

/* Prometheus text exposition format 0.0.4. model: the label model_name. */
void hy_metrics_text(const hy_stats *s, const hy_facts *f, const hy_http_counts *h, const char *model, hy_buf *out);
/* The same facts for the page and for `hayate top`: an object; NULL when out of memory. */
json_t *hy_metrics_json(const hy_stats *s, const hy_facts *f, const hy_http_counts *h, const char *model);
/* Bytes of this process in memory, 0 if the system does not say. */
uint64_t hy_rss_bytes(void);

void hy_route_metrics(hy_exchange *x);             /* GET /metrics */
void hy_route_stats(hy_exchange *x);               /* GET /stats */

#endif
