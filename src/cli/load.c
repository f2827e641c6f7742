/* Requests over libcurl's multi interface: as many at once as the plan says, each stream timed piece by piece. */
#include "load.h"
#include <curl/curl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- prompts ----------------------------------------------------------------------------------- */

static const char *const words[] = {
    "river", "stone", "winter", "garden", "letter", "engine", "silver", "window", "market", "people", "answer", "number",
    "forest", "bridge", "summer", "travel", "morning", "history", "picture", "weather", "island", "copper", "planet",
    "village", "teacher", "harbour", "ticket", "signal", "machine", "library", "kitchen", "mountain",
};

static void put_words(hy_buf *b, uint64_t seed, uint64_t stream, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        hy_buf_char(b, ' ');
        hy_buf_str(b, words[hy_rng_at(seed, stream, i) % HY_COUNT(words)]);
    }
}

static uint32_t words_for(const load_plan *p, uint32_t n_tok)
{
    return (uint32_t)HY_MAX(1.0, (double)n_tok * p->words_per_token + 0.5);
}

/* The same job always has the same text; no two jobs share more than their prefix. */
static void put_prompt(const load_plan *p, uint32_t i_job, hy_buf *b)
{
    const load_job *j = &p->job[i_job];
    uint32_t n = j->n_prompt;
    if (j->i_prefix != UINT32_MAX) {
        put_words(b, p->seed, 1u << 20 | j->i_prefix, words_for(p, p->n_prefix));
        n = n > p->n_prefix ? n - p->n_prefix : 1;
    }
    put_words(b, p->seed, 2ull << 32 | i_job, words_for(p, n));
}

static json_t *body_of(const load_plan *p, const char *prompt, uint32_t n_output, bool stream)
{
    json_t *o = json_pack("{s:s,s:i,s:f,s:b}", "model", p->model, "max_tokens", (int)n_output, "temperature", 0.0, "stream",
                          stream);
    if (!o) return NULL;
    if (p->chat) json_object_set_new(o, "messages", json_pack("[{s:s,s:s}]", "role", "user", "content", prompt));
    else json_object_set_new(o, "prompt", json_string(prompt));
    if (!p->until_end) json_object_set_new(o, "ignore_eos", json_true());
    if (stream) json_object_set_new(o, "stream_options", json_pack("{s:b}", "include_usage", 1));
    return o;
}

/* ---- one request ------------------------------------------------------------------------------- */

typedef struct call {
    CURL *easy;
    struct curl_slist *headers;
    char *body;
    hy_buf held;               /* bytes of an unfinished line; or an error's body */
    load_result *r;
    uint64_t us_begin, us_last;
    uint32_t n_piece;
    bool done_seen, failed, stream;
} call;

static void take_event(call *c, const char *data)
{
    uint64_t now = hy_now_us();
    if (strcmp(data, "[DONE]") == 0) {
        c->done_seen = true;
        return;
    }
    json_t *o = json_loads(data, 0, NULL);
    const json_t *choice = json_array_get(json_object_get(o, "choices"), 0), *usage = json_object_get(o, "usage");
    const json_t *delta = json_object_get(choice, "delta");
    const char *text = json_string_value(json_object_get(choice, "text"));
    if (!text) text = json_string_value(json_object_get(delta, "content"));
    if (!text) text = json_string_value(json_object_get(delta, "reasoning_content"));
    if (json_object_get(o, "error")) c->failed = true;
    if (text && text[0]) {
        if (c->n_piece++ == 0) {
            c->r->ttft = (double)(now - c->us_begin) / 1e6;
        } else {
            double *gap = hy_realloc_array(c->r->gap, c->r->n_gap + 1, sizeof *gap);
            if (gap) {
                c->r->gap = gap;
                gap[c->r->n_gap++] = (double)(now - c->us_last) / 1e6;
            }
        }
        c->us_last = now;
    }
    if (json_is_object(usage)) {
        c->r->n_prompt = (uint32_t)json_integer_value(json_object_get(usage, "prompt_tokens"));
        c->r->n_output = (uint32_t)json_integer_value(json_object_get(usage, "completion_tokens"));
        c->r->n_cached = (uint32_t)json_integer_value(
            json_object_get(json_object_get(usage, "prompt_tokens_details"), "cached_tokens"));
    }
    json_decref(o);
}

/* Whole lines of the event stream; what is no stream is kept for the message. */
static size_t on_data(char *data, size_t size, size_t n, void *user)
{
    call *c = user;
    n *= size;
    if (c->held.len + n > 16 * HY_MIB) return 0;
    hy_buf_put(&c->held, data, n);
    if (c->held.failed) return 0;
    long status = 0;
    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    if (!c->stream || status != 200) return n;
    char *line = c->held.data, *end;
    while ((end = strchr(line, '\n'))) {
        *end = 0;
        if (end > line && end[-1] == '\r') end[-1] = 0;
        if (strncmp(line, "data:", 5) == 0) take_event(c, line + 5 + strspn(line + 5, " "));
        line = end + 1;
    }
    size_t left = c->held.len - (size_t)(line - c->held.data);
    memmove(c->held.data, line, left + 1);
    c->held.len = left;
    return n;
}

static bool call_open(call *c, const load_plan *p, const char *path, json_t *body, load_result *r)
{
    memset(c, 0, sizeof *c);
    c->r = r;
    c->stream = json_is_true(json_object_get(body, "stream"));
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    c->body = text ? hy_strdup(text) : NULL;
    free(text);
    c->easy = curl_easy_init();
    hy_buf at = { 0 };
    size_t n = strlen(p->url);
    hy_buf_put(&at, p->url, n && p->url[n - 1] == '/' ? n - 1 : n);
    hy_buf_str(&at, path);
    bool good = c->easy && at.data && !at.failed && (c->body || !body);
    if (good) {
        c->headers = curl_slist_append(NULL, "Content-Type: application/json");
        if (p->key) {
            hy_buf line = { 0 };
            hy_buf_printf(&line, "Authorization: Bearer %s", p->key);
            if (line.data) c->headers = curl_slist_append(c->headers, line.data);
            hy_buf_free(&line);
        }
        curl_easy_setopt(c->easy, CURLOPT_URL, at.data);
        curl_easy_setopt(c->easy, CURLOPT_PROTOCOLS_STR, "http,https");
        if (body) curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, c->body);
        curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->headers);
        curl_easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, on_data);
        curl_easy_setopt(c->easy, CURLOPT_WRITEDATA, c);
        curl_easy_setopt(c->easy, CURLOPT_PRIVATE, c);
        curl_easy_setopt(c->easy, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(c->easy, CURLOPT_CONNECTTIMEOUT_MS, 10000L);
        curl_easy_setopt(c->easy, CURLOPT_TIMEOUT, 1800L);
    }
    hy_buf_free(&at);
    return good;
}

static void call_close(call *c)
{
    curl_easy_cleanup(c->easy);
    curl_slist_free_all(c->headers);
    hy_free(c->body);
    hy_buf_free(&c->held);
    memset(c, 0, sizeof *c);
}

/* The end of a call: what of it counts. */
static void judge(call *c, CURLcode rc)
{
    load_result *r = c->r;
    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &r->status);
    r->e2e = (double)(hy_now_us() - c->us_begin) / 1e6;
    if (r->n_output == 0) r->n_output = c->n_piece; /* servers that give no usage: the pieces */
    r->good = rc == CURLE_OK && r->status == 200 && c->done_seen && !c->failed;
    if (r->good) return;
    if (rc != CURLE_OK) snprintf(r->why, sizeof r->why, "%s", curl_easy_strerror(rc));
    else if (r->status != 200) snprintf(r->why, sizeof r->why, "%ld: %.120s", r->status, c->held.data ? c->held.data : "");
    else snprintf(r->why, sizeof r->why, "the stream ended early");
}

/* ---- a small question before --------------------------------------------------------------------- */

static hy_status ask(const load_plan *p, const char *path, json_t *body, json_t **out, hy_err *err)
{
    call c;
    load_result r = { 0 };
    hy_status s = HY_OK;
    *out = NULL;
    if (!call_open(&c, p, path, body, &r)) {
        s = hy_fail_memory(err, "request", 4096);
    } else {
        CURLcode rc = curl_easy_perform(c.easy);
        long status = 0;
        curl_easy_getinfo(c.easy, CURLINFO_RESPONSE_CODE, &status);
        if (rc == CURLE_OK && status == 200) *out = json_loadb(c.held.data ? c.held.data : "", c.held.len, 0, NULL);
        if (rc != CURLE_OK) s = hy_fail(err, HY_E_IO, "%s%s: %s", p->url, path, curl_easy_strerror(rc));
        else if (!json_is_object(*out))
            s = hy_fail(err, HY_E_IO, "%s%s answers %ld: %.200s", p->url, path, status, c.held.data ? c.held.data : "");
    }
    if (s != HY_OK) json_decref(*out);
    call_close(&c);
    return s;
}

hy_status load_calibrate(load_plan *p, char **model, hy_err *err)
{
    *model = NULL;
    json_t *o;
    if (!p->model) {
        HY_TRY(ask(p, "/v1/models", NULL, &o, err));
        const char *id = json_string_value(json_object_get(json_array_get(json_object_get(o, "data"), 0), "id"));
        *model = id ? hy_strdup(id) : NULL;
        json_decref(o);
        if (!*model) return hy_fail(err, HY_E_FORMAT, "%s/v1/models lists no model", p->url);
        p->model = *model;
    }
    uint32_t count[2];
    for (uint32_t i = 0; i < 2; i++) { /* two lengths: the template's own tokens drop out of the difference */
        hy_buf prompt = { 0 };
        put_words(&prompt, p->seed ^ hy_now_us(), i, i ? 160 : 32);
        json_t *body = prompt.data ? body_of(p, prompt.data, 1, false) : NULL;
        hy_buf_free(&prompt);
        hy_status s = body ? ask(p, p->chat ? "/v1/chat/completions" : "/v1/completions", body, &o, err)
                           : hy_fail_memory(err, "request", 4096);
        json_decref(body);
        HY_TRY(s);
        count[i] = (uint32_t)json_integer_value(json_object_get(json_object_get(o, "usage"), "prompt_tokens"));
        json_decref(o);
    }
    p->words_per_token = count[1] > count[0] ? 128.0 / (count[1] - count[0]) : 0.7;
    return HY_OK;
}

/* ---- the run ----------------------------------------------------------------------------------- */

typedef struct runner {
    const load_plan *p;
    CURLM *multi;
    call *calls;               /* [n_job] */
    uint32_t n_begun, n_done, n_live;
    uint64_t us_start;
} runner;

static bool begin(runner *w, load_result *result, hy_err *err)
{
    uint32_t i = w->n_begun;
    hy_buf prompt = { 0 };
    put_prompt(w->p, i, &prompt);
    json_t *body = prompt.failed ? NULL : body_of(w->p, prompt.data, w->p->job[i].n_output, true);
    hy_buf_free(&prompt);
    call *c = &w->calls[i];
    bool good = body && call_open(c, w->p, w->p->chat ? "/v1/chat/completions" : "/v1/completions", body, &result[i]);
    json_decref(body);
    if (!good || curl_multi_add_handle(w->multi, c->easy) != CURLM_OK) {
        hy_fail_memory(err, "request", 4096);
        return false;
    }
    c->us_begin = hy_now_us();
    result[i].begin = (double)(c->us_begin - w->us_start) / 1e6;
    w->n_begun++;
    w->n_live++;
    return true;
}

static bool due(const runner *w)
{
    if (w->n_begun == w->p->n_job) return false;
    if (w->p->streams) return w->n_live < w->p->streams;
    return (double)(hy_now_us() - w->us_start) / 1e6 >= w->p->job[w->n_begun].at_s;
}

/* Milliseconds until the next one is due, at most 100. */
static int wait_ms(const runner *w)
{
    if (w->p->streams || w->n_begun == w->p->n_job) return 100;
    double left = w->p->job[w->n_begun].at_s - (double)(hy_now_us() - w->us_start) / 1e6;
    return (int)HY_MAX(0.0, HY_MIN(100.0, left * 1e3));
}

static void collect_done(runner *w)
{
    CURLMsg *m;
    int left;
    while ((m = curl_multi_info_read(w->multi, &left))) {
        if (m->msg != CURLMSG_DONE) continue;
        call *c = NULL;
        CURLcode rc = m->data.result;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&c);
        curl_multi_remove_handle(w->multi, m->easy_handle);
        judge(c, rc);
        call_close(c);
        w->n_done++;
        w->n_live--;
    }
}

hy_status load_run(const load_plan *p, load_result *result, bool (*progress)(void *, uint64_t, uint64_t), void *ctx,
                   double *took_s, hy_err *err)
{
    runner w = { .p = p, .multi = curl_multi_init(), .calls = HY_NEW_ARRAY(call, p->n_job), .us_start = hy_now_us() };
    hy_status s = w.multi && w.calls ? HY_OK : hy_fail_memory(err, "load", p->n_job * sizeof(call));
    if (s == HY_OK) curl_multi_setopt(w.multi, CURLMOPT_MAX_HOST_CONNECTIONS, 0L);
    while (s == HY_OK && w.n_done < p->n_job) {
        while (s == HY_OK && due(&w))
            if (!begin(&w, result, err)) s = HY_E_MEMORY;
        int live;
        if (curl_multi_perform(w.multi, &live) != CURLM_OK) s = hy_fail(err, HY_E_IO, "libcurl cannot go on");
        collect_done(&w);
        if (progress(ctx, w.n_done, p->n_job)) s = hy_fail(err, HY_E_CANCELLED, "stopped after %u of %u requests", w.n_done, p->n_job);
        if (s == HY_OK && w.n_done < p->n_job && !due(&w)) curl_multi_poll(w.multi, NULL, 0, wait_ms(&w), NULL);
    }
    *took_s = (double)(hy_now_us() - w.us_start) / 1e6;
    for (uint32_t i = 0; w.calls && i < w.n_begun; i++) {
        if (!w.calls[i].easy) continue;
        curl_multi_remove_handle(w.multi, w.calls[i].easy);
        call_close(&w.calls[i]);
    }
    hy_free(w.calls);
    curl_multi_cleanup(w.multi);
    return s;
}

void load_results_free(load_result *r, uint32_t n)
{
    for (uint32_t i = 0; r && i < n; i++) hy_free(r[i].gap);
    hy_free(r);
}
