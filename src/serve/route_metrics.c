/* GET /metrics (Prometheus) and GET /stats (JSON, for the page and `hayate top`). */
#include "serve/metrics.h"

typedef struct snapshot {
    hy_stats stats;
    hy_facts facts;
    hy_http_counts http;
} snapshot;

static snapshot *take(hy_exchange *x)
{
    snapshot *s = HY_NEW(snapshot);
    if (!s) {
        hy_x_error(x, 503, NULL, NULL, "out of memory");
        return NULL;
    }
    hy_server *server = hy_x_server(x);
    hy_engine_stats(hy_server_engine(server), &s->stats);
    hy_engine_facts(hy_server_engine(server), &s->facts);
    hy_server_counts(server, &s->http);
    return s;
}

void hy_route_metrics(hy_exchange *x)
{
    snapshot *s = take(x);
    if (!s) return;
    hy_buf text = { 0 };
    hy_metrics_text(&s->stats, &s->facts, &s->http, hy_server_model_id(hy_x_server(x)), &text);
    if (text.failed) hy_x_error(x, 503, NULL, NULL, "out of memory");
    else hy_x_reply(x, 200, "text/plain; version=0.0.4; charset=utf-8", text.data, text.len);
    hy_buf_free(&text);
    hy_free(s);
}

/* One digit a page: 0 free, 1 of one request, 2 shared, 3 held by the prefix cache alone. */
static json_t *page_map(const hy_engine *e)
{
    uint32_t n = hy_engine_page_map(e, NULL, 0);
    uint8_t *map = hy_alloc(n ? n : 1);
    if (!map) return NULL;
    n = HY_MIN(hy_engine_page_map(e, map, n), n);
    for (uint32_t i = 0; i < n; i++) map[i] = (uint8_t)('0' + map[i]);
    json_t *text = json_stringn((const char *)map, n);
    hy_free(map);
    return text;
}

void hy_route_stats(hy_exchange *x)
{
    snapshot *s = take(x);
    if (!s) return;
    json_t *o = hy_metrics_json(&s->stats, &s->facts, &s->http, hy_server_model_id(hy_x_server(x)));
    if (o) json_object_set_new(o, "page_map", page_map(hy_server_engine(hy_x_server(x))));
    if (o) hy_x_reply_json(x, 200, o);
    else hy_x_error(x, 503, NULL, NULL, "out of memory");
    hy_free(s);
}
