/* Private to serve/: OpenTelemetry traces of finished exchanges, as OTLP/JSON over HTTP (OpenTelemetry protocol
 * 1.x, "OTLP/HTTP", JSON encoding of ExportTraceServiceRequest). Own thread; when the collector is slow or away,
 * spans are dropped and counted, nothing waits. */
#ifndef HY_SERVE_OTLP_H
#define HY_SERVE_OTLP_H

#include "serve/record.h"
#include "text/text.h"

typedef struct hy_otlp hy_otlp;
/* url: the collector's base ("http://127.0.0.1:4318": /v1/traces is added) or a whole one that has a path.
 * Strings are copied. */
hy_status hy_otlp_open(hy_otlp **out, const char *url, const char *model, hy_err *err);
/* A listener for hy_records_listen; ctx: the hy_otlp. Thread: any; never waits for the network. */
void hy_otlp_add(void *ctx, const hy_record *r);
uint64_t hy_otlp_dropped(const hy_otlp *o);
/* Sends what is left, for at most two seconds. Accepts NULL. */
void hy_otlp_close(hy_otlp *o);

/* The request body for n records. seed: makes trace and span ids; the client's traceparent, where it is well
 * formed, gives trace id and parent. New reference, or NULL when out of memory. Pure. */
json_t *hy_otlp_json(const hy_record *r, uint32_t n, const char *model, uint64_t seed);

#endif
