/* Private to serve/: what is remembered of each exchange that ran on a worker: for GET /v1/requests/{id},
 * metrics, traces and the log. The last HY_RECORDS finished ones are kept. */
#ifndef HY_SERVE_RECORD_H
#define HY_SERVE_RECORD_H

#include "base/base.h"
#include <hayate/hayate.h>
#include <jansson.h>

#define HY_RECORDS 1024
#define HY_RECORD_SPANS 72

typedef struct hy_record {
    char id[32];
    char tenant[64];
    const char *method, *route; /* the route's row: "POST", "/v1/chat/completions" */
    char traceparent[64];      /* the client's W3C trace context, or "" */
    int status;                /* 499: the client left before the status line */
    bool client_gone, cancelled;
    uint64_t us_begin, us_end; /* hy_clock_us; us_end 0: still running */
    int64_t unix_us;           /* us_begin on the wall clock */
    uint32_t n_request;        /* answers of the engine (n of them, prompts of a batch) */
    hy_usage usage;            /* sums of counts, largest of times, over them */
    hy_finish finish;          /* of the last one that ended */
    uint32_t n_span;
    hy_span span[HY_RECORD_SPANS]; /* of the first request */
} hy_record;

/* Ring of the finished ones, and those who want to hear of each (metrics, traces). Thread: any. */
typedef struct hy_records hy_records;
typedef void hy_record_fn(void *ctx, const hy_record *r);
hy_status hy_records_open(hy_records **out, hy_err *err);
void hy_records_close(hy_records *r);                  /* accepts NULL */
void hy_records_listen(hy_records *r, hy_record_fn *fn, void *ctx); /* before serving; at most 4 */
void hy_records_add(hy_records *r, const hy_record *rec);
bool hy_records_find(hy_records *r, const char *id, hy_record *out);

/* Adds one request's numbers as it ends. */
void hy_record_usage(hy_record *rec, const hy_usage *u, hy_finish finish);
const char *hy_finish_name(hy_finish f);
/* The answer of GET /v1/requests/{id}. New reference, or NULL when out of memory. */
json_t *hy_record_json(const hy_record *rec);

#endif
