/* Routes about the server itself: health, models, and running or finished requests. */
#include "serve/impl.h"
#include "serve/rows.h"
#include <string.h>
#include <time.h>

static const char *const state_names[] = { "loading", "ready", "draining", "stopping" };

void hy_route_health(hy_exchange *x)
{
    hy_x_reply_json(x, 200, json_pack("{s:s}", "status", "ok"));
}

void hy_route_ready(hy_exchange *x)
{
    int state = atomic_load(&x->s->state);
    if (state != HY_READY) hy_x_set_header(x, "Retry-After", "1");
    hy_x_reply_json(x, state == HY_READY ? 200 : 503, json_pack("{s:s}", "status", state_names[state]));
}

void hy_route_version(hy_exchange *x)
{
    hy_x_reply_json(x, 200, json_pack("{s:s}", "version", HY_VERSION));
}

/* OpenAI's model object; clients of Anthropic ask the same path and find their fields too. */
static json_t *model_json(const hy_server *s)
{
    hy_facts f;
    hy_engine_facts(hy_server_engine(s), &f);
    char when[32];
    time_t t = (time_t)s->created;
    struct tm tm;
    gmtime_r(&t, &tm);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:s, s:i}", "id", s->model_id, "object", "model", "created",
                     (json_int_t)s->created, "owned_by", "hayate", "type", "model", "display_name",
                     f.name[0] && hy_utf8_valid(f.name, strlen(f.name)) ? f.name : s->model_id, "created_at", when,
                     "max_model_len", (int)f.n_ctx);
}

void hy_route_models(hy_exchange *x)
{
    const hy_server *s = x->s;
    hy_x_reply_json(x, 200, json_pack("{s:s, s:[o], s:b, s:s, s:s}", "object", "list", "data", model_json(s), "has_more", 0,
                                      "first_id", s->model_id, "last_id", s->model_id));
}

void hy_route_model(hy_exchange *x)
{
    if (strcmp(hy_x_param(x), x->s->model_id) == 0) hy_x_reply_json(x, 200, model_json(x->s));
    else hy_x_error(x, 404, "model_not_found", "model", "the model '%.200s' does not exist; this server has '%s'",
                    hy_x_param(x), x->s->model_id);
}

/* A key sees its own requests only. Those that make nothing cannot be looked at while they run: two that look at
 * each other would wait for ever. */
static hy_exchange *find(hy_exchange *x)
{
    hy_exchange *other = hy_server_find(x->s, hy_x_param(x));
    if (other && (!(other->route->flags & HY_ROUTE_GENERATES) || strcmp(other->tenant.name, x->tenant.name) != 0)) {
        hy_x_unref(other);
        return NULL;
    }
    return other;
}

static void not_found(hy_exchange *x)
{
    hy_x_error(x, 404, "request_not_found", "id", "no request '%.100s'; running ones and the last %d finished are known",
               hy_x_param(x), HY_RECORDS);
}

/* A copy of what is known of a running exchange. */
static void look_at(hy_exchange *other, hy_record *r)
{
    pthread_mutex_lock(&other->poll_lock);
    *r = other->record;
    for (uint32_t i = 0; i < other->n_req; i++) {
        if (other->req_done[i]) continue;
        hy_usage u;
        hy_request_usage(other->req[i], &u);
        hy_record_usage(r, &u, HY_FINISH_NONE);
        if (i == 0) r->n_span = hy_request_spans(other->req[0], r->span, HY_RECORD_SPANS);
    }
    pthread_mutex_unlock(&other->poll_lock);
}

void hy_route_request(hy_exchange *x)
{
    hy_record *r = HY_NEW(hy_record);
    if (!r) {
        hy_x_error(x, 503, "out_of_memory", NULL, "out of memory");
        return;
    }
    hy_exchange *other = find(x);
    bool known = other != NULL;
    if (other) {
        look_at(other, r);
        hy_x_unref(other);
    } else {
        known = hy_records_find(x->s->records, hy_x_param(x), r) && strcmp(r->tenant, x->tenant.name) == 0;
    }
    if (known) hy_x_reply_json(x, 200, hy_record_json(r));
    else not_found(x);
    hy_free(r);
}

void hy_route_request_cancel(hy_exchange *x)
{
    hy_exchange *other = find(x);
    if (other) {
        hy_x_cancel(other);
        hy_x_unref(other);
        hy_x_reply_json(x, 200, json_pack("{s:s, s:s, s:b}", "id", hy_x_param(x), "object", "request", "cancelled", 1));
        return;
    }
    hy_record *r = HY_NEW(hy_record);
    if (r && hy_records_find(x->s->records, hy_x_param(x), r) && strcmp(r->tenant, x->tenant.name) == 0)
        hy_x_error(x, 409, "request_finished", "id", "request '%.100s' has already finished", hy_x_param(x));
    else not_found(x);
    hy_free(r);
}
