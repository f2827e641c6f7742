/* POST /v1/chat/completions */
#include "serve/openai.h"
#include "serve/rows.h"
#include <string.h>

/* What the answer's shape depends on. */
typedef struct chat {
    bool logprobs, usage, usage_always, token_ids, no_reasoning, prompt_logprobs;
    bool first;                /* no chunk has been sent */
} chat;

/* Of one streamed answer: the delta that the next chunk brings. */
typedef struct delta {
    hy_buf content, reasoning;
    json_t *calls;             /* array, or NULL */
    bool role_sent;
} delta;

/* ---- whole answers ----------------------------------------------------------------------------------- */

static json_t *calls_json(const hy_answer *a)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < a->n_call; i++) {
        const hy_gen_call *c = &a->call[i];
        json_t *args = hy_json_text(c->args.data, c->args.len);
        json_t *one = args ? json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", c->id, "type", "function", "function", "name",
                                       c->name, "arguments", args)
                           : NULL;
        if (list && one && json_array_append_new(list, one) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *message_json(const chat *c, const hy_answer *a)
{
    json_t *m = json_pack("{s:s}", "role", "assistant");
    bool none = a->n_call && a->content.len == 0;
    bool ok = hy_set(m, "content", none ? json_null() : hy_json_text(a->content.data, a->content.len));
    ok = hy_set(m, "refusal", json_null()) && ok;
    if (a->reasoning.len && !c->no_reasoning)
        ok = hy_set(m, "reasoning_content", hy_json_text(a->reasoning.data, a->reasoning.len)) && ok;
    if (a->n_call) ok = hy_set(m, "tool_calls", calls_json(a)) && ok;
    if (ok) return m;
    json_decref(m);
    return NULL;
}

static json_t *choice_json(const hy_gen *g, const chat *c, const hy_answer *a)
{
    json_t *o = json_pack("{s:I}", "index", (json_int_t)a->index);
    bool ok = hy_set(o, "message", message_json(c, a));
    ok = hy_set(o, "logprobs", c->logprobs ? hy_logprobs_chat(g, a, 0, a->n_tok) : json_null()) && ok;
    ok = hy_set(o, "finish_reason", json_string(hy_openai_finish(a))) && ok;
    ok = hy_set(o, "stop_reason", hy_openai_stop_reason(g, a)) && ok;
    if (c->token_ids) ok = hy_set(o, "token_ids", hy_token_ids_json(a, 0, a->n_tok)) && ok;
    if (ok) return o;
    json_decref(o);
    return NULL;
}

/* What follows from the prompt: its ids and logprobs. */
static bool put_prompt(json_t *o, const hy_gen *g, const chat *c)
{
    uint32_t n;
    bool ok = true;
    const int32_t *ids = hy_gen_prompt(g, 0, &n);
    if (c->token_ids) ok = hy_set(o, "prompt_token_ids", hy_ids_json(ids, n));
    if (c->prompt_logprobs) ok = hy_set(o, "prompt_logprobs", hy_logprobs_prompt(g, hy_gen_answer(g, 0))) && ok;
    return ok;
}

static void reply(hy_gen *g)
{
    const chat *c = hy_gen_user(g);
    json_t *o = hy_openai_head(g, "chatcmpl-", "chat.completion"), *choices = json_array();
    bool ok = o && choices;
    for (uint32_t i = 0; ok && i < hy_gen_n_answer(g); i++) {
        json_t *one = choice_json(g, c, hy_gen_answer(g, i));
        ok = one && json_array_append_new(choices, one) == 0;
    }
    ok = hy_set(o, "choices", choices) && ok;
    ok = hy_set(o, "usage", hy_gen_usage_json(g)) && ok;
    ok = hy_set(o, "timings", hy_gen_timings_json(g, NULL)) && ok;
    ok = ok && put_prompt(o, g, c);
    if (!ok) json_decref(o);
    hy_openai_reply(hy_gen_exchange(g), ok ? o : NULL);
}

/* ---- streams ------------------------------------------------------------------------------------------ */

static void out_of_memory(hy_gen *g)
{
    hy_openai_no_memory(hy_gen_exchange(g));
}

/* Sends a chunk with these choices (takes the reference). */
static void send_chunk(hy_gen *g, json_t *choices, json_t *usage, json_t *timings)
{
    chat *c = hy_gen_user(g);
    json_t *o = hy_openai_head(g, "chatcmpl-", "chat.completion.chunk");
    bool ok = hy_set(o, "choices", choices);
    if (usage) ok = hy_set(o, "usage", usage) && ok;
    else if (c->usage) ok = hy_set(o, "usage", json_null()) && ok;
    if (timings) ok = hy_set(o, "timings", timings) && ok;
    if (ok && c->first) ok = put_prompt(o, g, c);
    c->first = false;
    if (ok) {
        hy_x_sse(hy_gen_exchange(g), NULL, o);
        return;
    }
    json_decref(o);
    out_of_memory(g);
}

static void send_delta(hy_gen *g, const hy_answer *a, json_t *d, json_t *logprobs, json_t *ids, bool last)
{
    const chat *c = hy_gen_user(g);
    json_t *o = json_pack("{s:I}", "index", (json_int_t)a->index), *choices = json_array();
    bool ok = hy_set(o, "delta", d);
    ok = hy_set(o, "logprobs", logprobs ? logprobs : json_null()) && ok;
    ok = hy_set(o, "finish_reason", last ? json_string(hy_openai_finish(a)) : json_null()) && ok;
    if (last) ok = hy_set(o, "stop_reason", hy_openai_stop_reason(g, a)) && ok;
    if (ids) ok = hy_set(o, "token_ids", ids) && ok;
    ok = ok && choices && json_array_append(choices, o) == 0;
    json_decref(o);
    if (!ok) {
        json_decref(choices);
        out_of_memory(g);
        return;
    }
    json_t *usage = c->usage_always ? hy_gen_usage_json(g) : NULL;
    send_chunk(g, choices, usage, last ? hy_gen_timings_json(g, a) : NULL);
}

static delta *delta_of(hy_gen *g, hy_answer *a)
{
    if (!a->user) a->user = HY_NEW(delta);
    if (!a->user) out_of_memory(g);
    return a->user;
}

static void send_role(hy_gen *g, const hy_answer *a, delta *d)
{
    if (d->role_sent) return;
    d->role_sent = true;
    send_delta(g, a, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), NULL, NULL, false);
}

/* {"index", "id", "type", "function": {"name", "arguments": ""}}, then {"index", "function": {"arguments"}} */
static bool put_call(delta *d, const hy_piece *p)
{
    json_t *one = NULL;
    if (p->kind == HY_PIECE_CALL) {
        one = json_pack("{s:i, s:s, s:s, s:{s:s, s:s}}", "index", (int)p->i_call, "id", p->id, "type", "function",
                        "function", "name", p->name, "arguments", "");
    } else {
        json_t *args = hy_json_text(p->text, p->n);
        one = args ? json_pack("{s:i, s:{s:o}}", "index", (int)p->i_call, "function", "arguments", args) : NULL;
    }
    if (!d->calls) d->calls = json_array();
    return one && d->calls && json_array_append_new(d->calls, one) == 0;
}

static void on_piece(hy_gen *g, hy_answer *a, const hy_piece *p)
{
    const chat *c = hy_gen_user(g);
    delta *d = delta_of(g, a);
    if (!d) return;
    switch (p->kind) {
    case HY_PIECE_CONTENT: hy_buf_put(&d->content, p->text, p->n); break;
    case HY_PIECE_REASONING:
        if (!c->no_reasoning) hy_buf_put(&d->reasoning, p->text, p->n);
        break;
    default:
        if (!put_call(d, p)) out_of_memory(g);
    }
}

/* What has come since the last chunk, or NULL when that is nothing. */
static json_t *take_delta(delta *d)
{
    if (!d->content.len && !d->reasoning.len && !d->calls) return NULL;
    json_t *o = json_object();
    if (d->reasoning.len) hy_set(o, "reasoning_content", hy_json_text(d->reasoning.data, d->reasoning.len));
    if (d->content.len) hy_set(o, "content", hy_json_text(d->content.data, d->content.len));
    if (d->calls) hy_set(o, "tool_calls", d->calls);
    d->calls = NULL;
    hy_buf_reset(&d->content);
    hy_buf_reset(&d->reasoning);
    return o;
}

static void on_step(hy_gen *g, hy_answer *a, size_t first)
{
    const chat *c = hy_gen_user(g);
    delta *d = delta_of(g, a);
    if (!d) return;
    if (d->content.failed || d->reasoning.failed) {
        out_of_memory(g);
        return;
    }
    if (!hy_x_streaming(hy_gen_exchange(g))) hy_x_stream(hy_gen_exchange(g), "text/event-stream");
    send_role(g, a, d);
    json_t *o = take_delta(d);
    bool tokens = (c->logprobs || c->token_ids) && a->n_shown > first;
    if (!o && !tokens) return;
    json_t *logprobs = c->logprobs && tokens ? hy_logprobs_chat(g, a, first, a->n_shown) : NULL;
    json_t *ids = c->token_ids && tokens ? hy_token_ids_json(a, first, a->n_shown) : NULL;
    send_delta(g, a, o ? o : json_object(), logprobs, ids, false);
}

static void on_done(hy_gen *g, hy_answer *a)
{
    send_delta(g, a, json_object(), NULL, NULL, true);
}

static void close_answer(void *user)
{
    delta *d = user;
    hy_buf_free(&d->content);
    hy_buf_free(&d->reasoning);
    json_decref(d->calls);
    hy_free(d);
}

static void on_all(hy_gen *g)
{
    const chat *c = hy_gen_user(g);
    hy_exchange *x = hy_gen_exchange(g);
    if (c->usage) send_chunk(g, json_array(), hy_gen_usage_json(g), hy_gen_timings_json(g, NULL));
    hy_x_write(x, "data: [DONE]\n\n", 14);
    hy_x_end(x);
}

/* ---- the route ---------------------------------------------------------------------------------------- */

static const hy_gen_sink plain = { .all = reply, .close = hy_free };
static const hy_gen_sink stream = { .piece = on_piece, .step = on_step, .done = on_done, .all = on_all,
                                 .close = hy_free, .close_answer = close_answer };

void hy_route_chat(hy_exchange *x)
{
    hy_body b;
    if (!hy_body_chat(x, &b)) return;
    chat *c = HY_NEW(chat);
    if (!c) {
        hy_ask_free(&b.ask);
        hy_openai_reply(x, NULL);
        return;
    }
    *c = (chat){ .logprobs = b.logprobs, .usage = b.include_usage, .usage_always = b.usage_always && b.include_usage,
                 .token_ids = b.return_token_ids, .no_reasoning = !b.include_reasoning,
                 .prompt_logprobs = b.prompt_logprobs, .first = true };
    hy_gen_start(x, &b.ask, b.ask.stream ? &stream : &plain, c);
}
