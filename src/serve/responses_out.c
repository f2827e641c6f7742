/* Answers in the shape of OpenAI's Responses: a list of items, whole or as events. */
#include "serve/openai.h"
#include "serve/responses.h"
#include <string.h>

typedef enum item_kind { ITEM_REASONING, ITEM_MESSAGE, ITEM_CALL } item_kind;

typedef struct item {
    item_kind kind;
    char id[64];
    char *call_id, *name;
    hy_buf text;               /* text, thoughts, or arguments */
    size_t sent;               /* streams: bytes of it that went out */
    bool begun;                /* streams: output_item.added was sent */
    bool whole;
    bool forced;               /* shown although it is blank: the only one */
} item;

typedef struct responses {
    const json_t *body;
    bool logprobs;
    bool begun;
    int64_t sequence;
    item *item;
    uint32_t n_item, cap_item;
    bool failed;
} responses;

void *hy_responses_user(const json_t *body, bool logprobs)
{
    responses *r = HY_NEW(responses);
    if (r) *r = (responses){ .body = body, .logprobs = logprobs };
    return r;
}

static void responses_free(void *user)
{
    responses *r = user;
    for (uint32_t i = 0; i < r->n_item; i++) {
        hy_free(r->item[i].call_id);
        hy_free(r->item[i].name);
        hy_buf_free(&r->item[i].text);
    }
    hy_free(r->item);
    hy_free(r);
}

static bool blank(const hy_buf *b)
{
    return !b->len || strspn(b->data, " \t\r\n") >= b->len;
}

/* ---- items ------------------------------------------------------------------------------------------------- */

static item *new_item(hy_gen *g, item_kind kind, const hy_piece *p)
{
    static const char *const prefix[] = { "rs_", "msg_", "fc_" };
    responses *r = hy_gen_user(g);
    if (r->n_item == r->cap_item) {
        uint32_t cap = r->cap_item * 2 + 4;
        void *q = hy_realloc_array(r->item, cap, sizeof *r->item);
        if (!q) return NULL;
        r->item = q;
        r->cap_item = cap;
    }
    item *t = &r->item[r->n_item];
    *t = (item){ .kind = kind };
    hy_gen_id(g, prefix[kind], t->id);
    size_t n = strlen(t->id);
    snprintf(t->id + n, sizeof t->id - n, "%02x", r->n_item++);
    if (kind != ITEM_CALL) return t;
    t->call_id = hy_strdup(p->id);
    t->name = hy_strdup(p->name);
    return t->call_id && t->name ? t : NULL;
}

/* Blank text beside other items is white space between marks. */
static bool is_shown(const responses *r, const item *t)
{
    return t->kind == ITEM_CALL || t->forced || !blank(&t->text);
}

static uint32_t shown_before(const responses *r, const item *t)
{
    uint32_t n = 0;
    for (const item *i = r->item; i < t; i++) n += is_shown(r, i);
    return n;
}

static json_t *part_json(const hy_gen *g, const item *t, const char *text, size_t n, bool whole)
{
    const responses *r = hy_gen_user(g);
    json_t *v = hy_json_text(text, n), *logprobs = NULL;
    if (!v) return NULL;
    if (t->kind == ITEM_REASONING) return json_pack("{s:s, s:o}", "type", "reasoning_text", "text", v);
    if (r->logprobs && whole) {
        const hy_answer *a = hy_gen_answer(g, 0);
        json_t *all = hy_logprobs_chat(g, a, 0, a->n_tok);
        logprobs = json_incref(json_object_get(all, "content"));
        json_decref(all);
    }
    return json_pack("{s:s, s:o, s:[], s:o}", "type", "output_text", "text", v, "annotations", "logprobs",
                     logprobs ? logprobs : json_array());
}

static const char *status_of(const hy_gen *g, const item *t)
{
    const hy_answer *a = hy_gen_answer(g, 0);
    const responses *r = hy_gen_user(g);
    bool last = t == &r->item[r->n_item - 1];
    return a->done && last && a->finish != HY_FINISH_STOP ? "incomplete" : "completed";
}

/* begun: as it stands in output_item.added, still empty. */
static json_t *item_json(const hy_gen *g, const item *t, bool begun)
{
    const char *status = begun ? "in_progress" : status_of(g, t);
    const char *text = begun || !t->text.len ? "" : t->text.data;
    size_t n = begun ? 0 : t->text.len;
    if (t->kind == ITEM_CALL) {
        json_t *args = hy_json_text(text, n);
        return args ? json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "id", t->id, "type", "function_call", "status",
                                status, "call_id", t->call_id, "name", t->name, "arguments", args)
                    : NULL;
    }
    json_t *content = json_array(), *part = begun ? NULL : part_json(g, t, text, n, true);
    if (!content || (!begun && (!part || json_array_append_new(content, part)))) {
        json_decref(content);
        return NULL;
    }
    if (t->kind == ITEM_MESSAGE)
        return json_pack("{s:s, s:s, s:s, s:s, s:o}", "id", t->id, "type", "message", "status", status, "role",
                         "assistant", "content", content);
    return json_pack("{s:s, s:s, s:s, s:[], s:o}", "id", t->id, "type", "reasoning", "status", status, "summary",
                     "content", content);
}

static json_t *output_json(const hy_gen *g)
{
    const responses *r = hy_gen_user(g);
    json_t *list = json_array();
    for (uint32_t i = 0; i < r->n_item; i++) {
        if (!is_shown(r, &r->item[i])) continue;
        json_t *o = item_json(g, &r->item[i], false);
        if (list && o && json_array_append_new(list, o) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

/* ---- the response ------------------------------------------------------------------------------------------- */

static json_t *usage_json(const hy_gen *g)
{
    hy_gen_totals t;
    hy_gen_total(g, &t);
    return json_pack("{s:I, s:{s:I, s:i}, s:I, s:{s:I}, s:I}", "input_tokens", (json_int_t)t.n_prompt,
                     "input_tokens_details", "cached_tokens", (json_int_t)t.n_cached, "cache_write_tokens", 0,
                     "output_tokens", (json_int_t)t.n_output, "output_tokens_details", "reasoning_tokens",
                     (json_int_t)t.n_reasoning, "total_tokens", (json_int_t)(t.n_prompt + t.n_output));
}

/* obj[key] = the request's own value, or what it stands for when it was not given. */
static bool repeat(json_t *o, const json_t *body, const char *key, json_t *otherwise)
{
    json_t *own = json_object_get(body, key);
    if (!own || json_is_null(own)) return hy_set(o, key, otherwise);
    json_decref(otherwise);
    return json_object_set(o, key, own) == 0;
}

static bool put_request(json_t *o, const json_t *body)
{
    bool ok = repeat(o, body, "instructions", json_null());
    ok = repeat(o, body, "max_output_tokens", json_null()) && ok;
    ok = repeat(o, body, "max_tool_calls", json_null()) && ok;
    ok = repeat(o, body, "metadata", json_object()) && ok;
    ok = repeat(o, body, "parallel_tool_calls", json_true()) && ok;
    ok = repeat(o, body, "reasoning", json_pack("{s:n, s:n}", "effort", "summary")) && ok;
    ok = repeat(o, body, "temperature", json_real(1)) && ok;
    ok = repeat(o, body, "text", json_pack("{s:{s:s}}", "format", "type", "text")) && ok;
    ok = repeat(o, body, "tool_choice", json_string("auto")) && ok;
    ok = repeat(o, body, "tools", json_array()) && ok;
    ok = repeat(o, body, "top_p", json_real(1)) && ok;
    ok = repeat(o, body, "top_logprobs", json_integer(0)) && ok;
    ok = repeat(o, body, "truncation", json_string("disabled")) && ok;
    return repeat(o, body, "user", json_null()) && ok;
}

/* status: "in_progress" while nothing is known yet; err: of a failed one, or NULL. */
static json_t *response_json(const hy_gen *g, const char *status, const hy_err *err)
{
    const responses *r = hy_gen_user(g);
    bool begun = !strcmp(status, "in_progress"), cut = !strcmp(status, "incomplete");
    char id[64];
    json_t *o = json_pack("{s:s, s:s, s:I, s:s, s:b, s:s, s:n, s:b, s:s}", "id", hy_gen_id(g, "resp_", id), "object",
                          "response", "created_at", (json_int_t)hy_gen_created(g), "status", status, "background", 0,
                          "model", hy_server_model_id(hy_x_server(hy_gen_exchange(g))), "previous_response_id",
                          "store", 0, "service_tier", "default");
    bool ok = put_request(o, r->body);
    ok = hy_set(o, "error",
                err ? json_pack("{s:s, s:s}", "code", "server_error", "message", err->msg) : json_null()) &&
         ok;
    ok = hy_set(o, "incomplete_details", cut ? json_pack("{s:s}", "reason", "max_output_tokens") : json_null()) && ok;
    ok = hy_set(o, "output", begun ? json_array() : output_json(g)) && ok;
    ok = hy_set(o, "usage", begun ? json_null() : usage_json(g)) && ok;
    if (ok) return o;
    json_decref(o);
    return NULL;
}

static const char *end_status(const hy_gen *g)
{
    return hy_gen_answer(g, 0)->finish == HY_FINISH_STOP ? "completed" : "incomplete";
}

/* ---- streams --------------------------------------------------------------------------------------------------- */

static void send(hy_gen *g, const char *event, json_t *o)
{
    responses *r = hy_gen_user(g);
    json_t *all = o ? json_pack("{s:s, s:I}", "type", event, "sequence_number", (json_int_t)r->sequence++) : NULL;
    bool ok = all && json_object_update(all, o) == 0;
    json_decref(o);
    if (ok) {
        hy_x_sse(hy_gen_exchange(g), event, all);
        return;
    }
    json_decref(all);
    if (!r->failed) hy_openai_no_memory(hy_gen_exchange(g));
    r->failed = true;
}

static void send_response(hy_gen *g, const char *event, json_t *response)
{
    send(g, event, response ? json_pack("{s:o}", "response", response) : NULL);
}

static void begin(hy_gen *g)
{
    responses *r = hy_gen_user(g);
    if (r->begun) return;
    r->begun = true;
    hy_x_stream(hy_gen_exchange(g), "text/event-stream");
    send_response(g, "response.created", response_json(g, "in_progress", NULL));
    send_response(g, "response.in_progress", response_json(g, "in_progress", NULL));
}

/* {"item_id", "output_index", "content_index"} */
static json_t *place(const hy_gen *g, const item *t)
{
    const responses *r = hy_gen_user(g);
    json_t *o = json_pack("{s:s, s:I}", "item_id", t->id, "output_index", (json_int_t)shown_before(r, t));
    if (o && t->kind != ITEM_CALL) hy_set(o, "content_index", json_integer(0));
    return o;
}

static void send_item(hy_gen *g, const char *event, const item *t, bool begun)
{
    const responses *r = hy_gen_user(g);
    json_t *v = item_json(g, t, begun);
    send(g, event, v ? json_pack("{s:I, s:o}", "output_index", (json_int_t)shown_before(r, t), "item", v) : NULL);
}

static void send_placed(hy_gen *g, const char *event, const item *t, const char *key, json_t *value)
{
    json_t *o = place(g, t);
    bool ok = hy_set(o, key, value);
    bool text = ok && t->kind == ITEM_MESSAGE && !strncmp(event, "response.output_text", 20);
    if (text) ok = hy_set(o, "logprobs", json_array());
    if (ok && t->kind == ITEM_CALL && !strcmp(key, "arguments")) ok = hy_set(o, "name", json_string(t->name));
    if (!ok) json_decref(o);
    send(g, event, ok ? o : NULL);
}

static const char *const delta_event[] = { "response.reasoning_text.delta", "response.output_text.delta",
                                           "response.function_call_arguments.delta" };
static const char *const done_event[] = { "response.reasoning_text.done", "response.output_text.done",
                                          "response.function_call_arguments.done" };

/* Sends what item t has that was not sent. */
static void send_more(hy_gen *g, item *t)
{
    if (!t->begun) {
        t->begun = true;
        send_item(g, "response.output_item.added", t, true);
        if (t->kind != ITEM_CALL)
            send_placed(g, "response.content_part.added", t, "part", part_json(g, t, "", 0, false));
    }
    if (t->text.len == t->sent) return;
    send_placed(g, delta_event[t->kind], t, "delta", hy_json_text(t->text.data + t->sent, t->text.len - t->sent));
    t->sent = t->text.len;
}

static void send_end(hy_gen *g, item *t)
{
    const responses *r = hy_gen_user(g);
    if (t->whole || !is_shown(r, t)) return;
    t->whole = true;
    const char *text = t->text.len ? t->text.data : "";
    send_more(g, t);
    send_placed(g, done_event[t->kind], t, t->kind == ITEM_CALL ? "arguments" : "text",
                hy_json_text(text, t->text.len));
    if (t->kind != ITEM_CALL)
        send_placed(g, "response.content_part.done", t, "part", part_json(g, t, text, t->text.len, true));
    send_item(g, "response.output_item.done", t, false);
}

/* ---- the sinks ---------------------------------------------------------------------------------------------------- */

static void on_piece(hy_gen *g, hy_answer *a, const hy_piece *p)
{
    static const item_kind kinds[] = { [HY_PIECE_CONTENT] = ITEM_MESSAGE, [HY_PIECE_REASONING] = ITEM_REASONING,
                                       [HY_PIECE_CALL] = ITEM_CALL, [HY_PIECE_ARGS] = ITEM_CALL };
    responses *r = hy_gen_user(g);
    if (r->failed) return;
    bool stream = hy_gen_ask(g)->stream;
    item *last = r->n_item ? &r->item[r->n_item - 1] : NULL;
    if (stream) begin(g);
    if (!last || last->kind != kinds[p->kind] || p->kind == HY_PIECE_CALL) {
        if (last && stream) send_end(g, last);
        last = new_item(g, kinds[p->kind], p);
    }
    if (!last) {
        r->failed = true;
        hy_openai_no_memory(hy_gen_exchange(g));
        return;
    }
    if (p->kind != HY_PIECE_CALL) hy_buf_put(&last->text, p->text, p->n);
    if (stream && is_shown(r, last)) send_more(g, last);
}

static void on_step(hy_gen *g, hy_answer *a, size_t first)
{
    begin(g);
}

/* An answer of nothing has a message of nothing. */
static void never_empty(hy_gen *g)
{
    responses *r = hy_gen_user(g);
    for (uint32_t i = 0; i < r->n_item; i++)
        if (is_shown(r, &r->item[i])) return;
    item *t = new_item(g, ITEM_MESSAGE, NULL);
    if (t) t->forced = true;
}

static void on_all(hy_gen *g)
{
    responses *r = hy_gen_user(g);
    if (r->failed) return;
    never_empty(g);
    begin(g);
    if (r->n_item) send_end(g, &r->item[r->n_item - 1]);
    const char *status = end_status(g);
    send_response(g, strcmp(status, "completed") ? "response.incomplete" : "response.completed",
                  response_json(g, status, NULL));
    hy_x_end(hy_gen_exchange(g));
}

static void reply(hy_gen *g)
{
    responses *r = hy_gen_user(g);
    if (r->failed) return;
    never_empty(g);
    hy_openai_reply(hy_gen_exchange(g), response_json(g, end_status(g), NULL));
}

static void on_fail(hy_gen *g, const hy_err *err)
{
    responses *r = hy_gen_user(g);
    if (!r->begun || r->failed) {
        hy_x_fail(hy_gen_exchange(g), NULL, err);
        return;
    }
    send_response(g, "response.failed", response_json(g, "failed", err));
    hy_x_end(hy_gen_exchange(g));
}

const hy_gen_sink hy_responses_whole = { .piece = on_piece, .all = reply, .close = responses_free };
const hy_gen_sink hy_responses_stream = {
    .piece = on_piece, .step = on_step, .all = on_all, .fail = on_fail, .close = responses_free
};
