#include "serve/otlp.h"
#include <curl/curl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HELD 256               /* records that wait to be sent */
#define BATCH 64
#define WAIT_MS 1000           /* longest time a record waits for others */

struct hy_otlp {
    char *url, *model;
    uint64_t seed;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;      /* all below */
    pthread_cond_t more;
    hy_record *ring;           /* [HELD] */
    uint32_t first, n;
    uint64_t n_dropped;
    bool stop;
};

/* ---- the JSON form ----------------------------------------------------------------------------- */

static json_t *attribute(const char *key, const char *kind, json_t *value)
{
    return json_pack("{s:s,s:{s:o}}", "key", key, "value", kind, value);
}
static void put_text(json_t *list, const char *key, const char *value)
{
    if (value) json_array_append_new(list, attribute(key, "stringValue", json_string(value)));
}
/* 64-bit integers are decimal strings in this encoding. */
static json_t *big(uint64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, v);
    return json_string(text);
}
static void put_number(json_t *list, const char *key, uint64_t value)
{
    json_array_append_new(list, attribute(key, "intValue", big(value)));
}

/* version "00", 32 and 16 hex digits, not all zero, flags (W3C Trace Context, "traceparent"). */
static bool parent_of(const char *header, char trace[33], char parent[17])
{
    if (strlen(header) < 55 || header[2] != '-' || header[35] != '-' || header[52] != '-' || strncmp(header, "ff", 2) == 0)
        return false;
    if (strspn(header + 3, "0123456789abcdef") != 32 || strspn(header + 36, "0123456789abcdef") != 16) return false;
    memcpy(trace, header + 3, 32);
    memcpy(parent, header + 36, 16);
    trace[32] = parent[16] = 0;
    return strspn(trace, "0") != 32 && strspn(parent, "0") != 16;
}

static void put_id(char out[17], uint64_t seed, uint64_t a, uint64_t b)
{
    snprintf(out, 17, "%016" PRIx64, hy_rng_at(seed, a, b) | 1);
}

/* us on the monotonic clock -> ns since the epoch, by the record's own pair of clocks. */
static json_t *nano(const hy_record *r, uint64_t us)
{
    int64_t wall = r->unix_us + (int64_t)(us - r->us_begin);
    return big(wall > 0 ? (uint64_t)wall * 1000 : 0);
}

static json_t *span(const hy_record *r, const char *trace, const char *id, const char *parent, const char *name, int kind,
                    uint64_t begin, uint64_t end, json_t *attributes)
{
    json_t *s = json_pack("{s:s,s:s,s:s,s:i,s:o,s:o,s:o}", "traceId", trace, "spanId", id, "name", name, "kind", kind,
                          "startTimeUnixNano", nano(r, begin), "endTimeUnixNano", nano(r, HY_MAX(begin, end)), "attributes",
                          attributes);
    if (s && parent[0]) json_object_set_new(s, "parentSpanId", json_string(parent));
    return s;
}

static json_t *server_span(const hy_record *r, const char *trace, const char *id, const char *parent, const char *model)
{
    json_t *a = json_array();
    char name[96];
    snprintf(name, sizeof name, "%s %s", r->method, r->route ? r->route : "");
    put_text(a, "http.request.method", r->method);
    put_text(a, "http.route", r->route);
    put_number(a, "http.response.status_code", (uint64_t)HY_MAX(r->status, 0));
    put_text(a, "hayate.request.id", r->id);
    if (r->n_request) {
        put_text(a, "gen_ai.system", "hayate");
        put_text(a, "gen_ai.request.model", model);
        put_number(a, "gen_ai.usage.input_tokens", r->usage.n_prompt);
        put_number(a, "gen_ai.usage.output_tokens", r->usage.n_output);
        put_number(a, "hayate.cached_tokens", r->usage.n_cached);
        put_number(a, "hayate.paused", r->usage.n_paused);
        put_text(a, "gen_ai.response.finish_reason", hy_finish_name(r->finish));
        json_array_append_new(a, attribute("hayate.ttft_ms", "doubleValue", json_real(r->usage.ttft_ms)));
    }
    json_t *s = span(r, trace, id, parent, name, 2 /* SERVER */, r->us_begin, r->us_end, a);
    if (s && r->status >= 500) json_object_set_new(s, "status", json_pack("{s:i}", "code", 2 /* ERROR */));
    return s;
}

static void put_record(json_t *list, const hy_record *r, const char *model, uint64_t seed)
{
    static const char *const names[] = { "queue", "prefill chunk", "decode", "paused" };
    char trace[33], parent[17] = "", root[17];
    uint64_t key = hy_hash64(r->id, strlen(r->id), seed);
    if (!parent_of(r->traceparent, trace, parent)) {
        parent[0] = 0;
        put_id(trace, key, 0, 0);
        put_id(trace + 16, key, 0, 1);
    }
    put_id(root, key, 1, 0);
    json_array_append_new(list, server_span(r, trace, root, parent, model));
    for (uint32_t i = 0; i < r->n_span; i++) {
        const hy_span *s = &r->span[i];
        char id[17];
        put_id(id, key, 2, i);
        json_t *a = json_array();
        if (s->kind == HY_SPAN_CHUNK || s->kind == HY_SPAN_DECODE) {
            put_number(a, "hayate.tokens", s->n_tok);
            put_number(a, "hayate.tokens_beside", s->n_beside);
        }
        uint64_t end = s->us_end ? s->us_end : r->us_end;
        json_array_append_new(list, span(r, trace, id, root, names[s->kind], 1 /* INTERNAL */, s->us_begin, end, a));
    }
}

json_t *hy_otlp_json(const hy_record *r, uint32_t n, const char *model, uint64_t seed)
{
    json_t *spans = json_array(), *resource = json_array();
    put_text(resource, "service.name", "hayate");
    put_text(resource, "service.version", HY_VERSION);
    for (uint32_t i = 0; i < n; i++) put_record(spans, &r[i], model, seed);
    return json_pack("{s:[{s:{s:o},s:[{s:{s:s,s:s},s:o}]}]}", "resourceSpans", "resource", "attributes", resource, "scopeSpans",
                     "scope", "name", "hayate.serve", "version", HY_VERSION, "spans", spans);
}

/* ---- sending ----------------------------------------------------------------------------------- */

static size_t discard(char *data, size_t size, size_t n, void *user)
{
    return size * n;
}

static bool send_batch(hy_otlp *o, CURL *c, const hy_record *r, uint32_t n)
{
    json_t *body = hy_otlp_json(r, n, o->model, o->seed);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (!text) return false;
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    curl_easy_setopt(c, CURLOPT_URL, o->url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_POSTFIELDS, text);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, discard);
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, 2000L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    long status = 0;
    CURLcode rc = curl_easy_perform(c);
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(headers);
    free(text);
    if (rc != CURLE_OK || status / 100 != 2)
        hy_log(HY_LOG_WARN, "serve: traces not taken", "url=%s error=\"%s\" status=%ld", o->url, curl_easy_strerror(rc), status);
    return rc == CURLE_OK && status / 100 == 2;
}

/* Waits for a batch, or for the first record to be WAIT_MS old. Returns what was taken into out. */
static uint32_t next_batch(hy_otlp *o, hy_record *out, bool *stop)
{
    struct timespec until;
    pthread_mutex_lock(&o->lock);
    while (o->n == 0 && !o->stop) pthread_cond_wait(&o->more, &o->lock);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += WAIT_MS / 1000;
    while (o->n < BATCH && !o->stop)
        if (pthread_cond_timedwait(&o->more, &o->lock, &until) != 0) break;
    uint32_t n = HY_MIN(o->n, BATCH);
    for (uint32_t i = 0; i < n; i++) out[i] = o->ring[(o->first + i) % HELD];
    o->first = (o->first + n) % HELD;
    o->n -= n;
    *stop = o->stop && o->n == 0;
    pthread_mutex_unlock(&o->lock);
    return n;
}

static void *sender(void *ctx)
{
    hy_otlp *o = ctx;
    CURL *c = curl_easy_init();
    hy_record *batch = HY_NEW_ARRAY(hy_record, BATCH);
    bool stop = false;
    while (c && batch && !stop) {
        uint32_t n = next_batch(o, batch, &stop);
        if (n == 0 || send_batch(o, c, batch, n)) continue;
        pthread_mutex_lock(&o->lock);
        o->n_dropped += n;
        stop |= o->stop; /* a collector that is away must not hold up the end */
        pthread_mutex_unlock(&o->lock);
    }
    hy_free(batch);
    curl_easy_cleanup(c);
    return NULL;
}

void hy_otlp_add(void *ctx, const hy_record *r)
{
    hy_otlp *o = ctx;
    pthread_mutex_lock(&o->lock);
    if (o->n == HELD) {
        o->n_dropped++;
    } else {
        o->ring[(o->first + o->n++) % HELD] = *r;
        if (o->n == 1 || o->n == BATCH) pthread_cond_signal(&o->more);
    }
    pthread_mutex_unlock(&o->lock);
}

uint64_t hy_otlp_dropped(const hy_otlp *o)
{
    pthread_mutex_lock((pthread_mutex_t *)&o->lock);
    uint64_t n = o->n_dropped;
    pthread_mutex_unlock((pthread_mutex_t *)&o->lock);
    return n;
}

hy_status hy_otlp_open(hy_otlp **out, const char *url, const char *model, hy_err *err)
{
    *out = NULL;
    if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
        return hy_fail(err, HY_E_ARG, "otlp: '%s' is no http:// or https:// address", url);
    hy_otlp *o = HY_NEW(hy_otlp);
    if (!o) return hy_fail_memory(err, "otlp", sizeof *o);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&o->more, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&o->lock, NULL);
    const char *path = strchr(strstr(url, "//") + 2, '/');
    hy_buf whole = { 0 };
    hy_buf_str(&whole, url);
    if (!path) hy_buf_str(&whole, "/v1/traces");
    else if (!path[1]) hy_buf_str(&whole, "v1/traces");
    o->url = whole.failed ? NULL : whole.data;
    o->model = hy_strdup(model);
    o->ring = HY_NEW_ARRAY(hy_record, HELD);
    o->seed = hy_now_ns() ^ hy_hash64(url, strlen(url), (uint64_t)(uintptr_t)o);
    if (whole.failed) hy_buf_free(&whole);
    if (o->url && o->model && o->ring) o->started = pthread_create(&o->thread, NULL, sender, o) == 0;
    if (!o->started) {
        hy_otlp_close(o);
        return hy_fail_memory(err, "otlp", sizeof *o);
    }
    *out = o;
    return HY_OK;
}

void hy_otlp_close(hy_otlp *o)
{
    if (!o) return;
    pthread_mutex_lock(&o->lock);
    o->stop = true;
    pthread_cond_signal(&o->more);
    pthread_mutex_unlock(&o->lock);
    if (o->started) pthread_join(o->thread, NULL);
    pthread_cond_destroy(&o->more);
    pthread_mutex_destroy(&o->lock);
    hy_free(o->url);
    hy_free(o->model);
    hy_free(o->ring);
    hy_free(o);
}
