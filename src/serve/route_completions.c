/* POST /v1/completions */
#include "serve/openai.h"
#include "serve/rows.h"
#include <math.h>
#include <string.h>

typedef struct completion {
    bool echo, logprobs, top, usage, usage_always, token_ids, prompt_logprobs;
    uint32_t n_keep;           /* of each prompt's answers so many are given: the likeliest */
    hy_buf *prompt_text;       /* echo: [n_prompt] */
    uint32_t n_prompt;
} completion;

/* Of one streamed answer: what the next chunk brings. */
typedef struct rest {
    hy_buf text;
    bool echoed;
    size_t n_bytes;            /* of content whose characters were counted */
    uint64_t n_chars;
} rest;

static void close_user(void *user)
{
    completion *c = user;
    for (uint32_t i = 0; c->prompt_text && i < c->n_prompt; i++) hy_buf_free(&c->prompt_text[i]);
    hy_free(c->prompt_text);
    hy_free(c);
}

static uint64_t n_chars(const char *s, size_t n)
{
    uint64_t k = 0;
    for (size_t i = 0; i < n; i++) k += ((unsigned char)s[i] & 0xC0) != 0x80;
    return k;
}

static hy_engine *engine_of(const hy_gen *g)
{
    return hy_server_engine(hy_x_server(hy_gen_exchange(g)));
}

/* ---- the prompt, repeated ------------------------------------------------------------------------------ */

static const json_t *prompt_json(const hy_gen *g, uint32_t i)
{
    const json_t *v = hy_gen_ask(g)->prompt;
    bool one = json_is_string(v) || json_is_integer(json_array_get(v, 0));
    return one ? v : json_array_get(v, i);
}

/* A text as it was given; tokens as their pieces. */
static bool prompt_text(hy_gen *g, uint32_t i, hy_buf *out)
{
    const json_t *v = prompt_json(g, i);
    if (json_is_string(v)) {
        hy_buf_put(out, json_string_value(v), json_string_length(v));
        return !out->failed;
    }
    uint32_t n;
    const int32_t *ids = hy_gen_prompt(g, i, &n);
    hy_buf raw = { 0 };
    for (uint32_t k = 0; k < n; k++) {
        char *s = NULL;
        size_t len = 0;
        if (hy_engine_piece(engine_of(g), ids[k], &s, &len, NULL) == HY_OK) hy_buf_put(&raw, s, len);
        hy_memory_free(s);
    }
    hy_utf8_repair(raw.data ? raw.data : "", raw.len, out);
    bool ok = !raw.failed && !out->failed;
    hy_buf_free(&raw);
    return ok;
}

static void on_started(hy_gen *g)
{
    completion *c = hy_gen_user(g);
    if (!c->echo) return;
    uint32_t n = hy_gen_n_answer(g) / (uint32_t)hy_gen_ask(g)->n;
    c->prompt_text = HY_NEW_ARRAY(hy_buf, n);
    if (!c->prompt_text) return;
    c->n_prompt = n;
    for (uint32_t i = 0; i < n; i++) prompt_text(g, i, &c->prompt_text[i]);
}

static hy_buf *echo_of(const completion *c, const hy_answer *a)
{
    return c->echo && a->i_prompt < c->n_prompt ? &c->prompt_text[a->i_prompt] : NULL;
}

/* Tokens that the engine put before a text prompt (BOS): they are not of the text. */
static uint32_t n_added(const hy_gen *g, const hy_answer *a, uint32_t n)
{
    const json_t *v = prompt_json(g, a->i_prompt);
    uint32_t n_all;
    const int32_t *all = hy_gen_prompt(g, a->i_prompt, &n_all);
    int32_t *ids = NULL;
    size_t n_ids = 0;
    if (!json_is_string(v) || hy_gen_ask(g)->no_special || n != n_all ||
        hy_engine_tokenize(engine_of(g), json_string_value(v), json_string_length(v), false, true, &ids, &n_ids,
                           NULL) != HY_OK)
        return 0;
    uint32_t k = 0;
    while (k + n_ids < n && memcmp(all + k, ids, n_ids * sizeof *ids) != 0) k++;
    bool found = k + n_ids <= n && memcmp(all + k, ids, n_ids * sizeof *ids) == 0;
    hy_memory_free(ids);
    return found ? k : 0;
}

static bool put_prompt_tokens(hy_gen *g, const completion *c, const hy_answer *a, hy_logprobs_legacy *l)
{
    uint32_t n = 0;
    hy_request *r = hy_x_request(hy_gen_exchange(g), a->i_request);
    const hy_token *t = r ? hy_request_prompt_logprobs(r, &n) : NULL;
    if (!t) return true;
    hy_utf8_stream u = { 0 };
    hy_buf text = { 0 };
    bool ok = true;
    uint64_t at = 0;
    uint32_t first = n_added(g, a, n);
    for (uint32_t i = first; ok && i < n; i++) {
        char *s = NULL;
        size_t len = 0;
        /* the first token of a text has none, also where BOS stands before it: clients count on that */
        ok = hy_logprobs_legacy_put(l, engine_of(g), t[i].id, i == first ? (double)NAN : (double)t[i].logprob,
                                    t[i].top, t[i].n_top, c->top, at);
        if (hy_engine_piece(engine_of(g), t[i].id, &s, &len, NULL) == HY_OK) hy_utf8_stream_put(&u, s, len, &text);
        hy_memory_free(s);
        at += n_chars(text.data, text.len);
        hy_buf_reset(&text);
    }
    ok = ok && !text.failed;
    hy_buf_free(&text);
    return ok;
}

/* Of tok[first .. last), which begin n_before characters into the choice's text and count on from r. */
static bool put_tokens(hy_gen *g, const completion *c, const hy_answer *a, size_t first, size_t last, uint64_t n_before,
                       rest *r, hy_logprobs_legacy *l)
{
    for (size_t i = first; i < last; i++) {
        const hy_gen_tok *t = &a->tok[i];
        if (t->from > r->n_bytes && t->from <= a->content.len) {
            r->n_chars += n_chars(a->content.data + r->n_bytes, t->from - r->n_bytes);
            r->n_bytes = t->from;
        }
        if (!hy_logprobs_legacy_put(l, engine_of(g), t->id, (double)t->logprob, a->top + t->i_top, t->n_top, c->top,
                                    n_before + r->n_chars))
            return false;
    }
    return true;
}

static json_t *logprobs_json(hy_gen *g, const completion *c, const hy_answer *a, size_t first, size_t last, bool echo,
                             rest *r)
{
    hy_logprobs_legacy l;
    if (!hy_logprobs_legacy_open(&l)) return NULL;
    const hy_buf *prompt = echo_of(c, a);
    bool ok = !echo || put_prompt_tokens(g, c, a, &l);
    ok = ok && put_tokens(g, c, a, first, last, prompt ? n_chars(prompt->data, prompt->len) : 0, r, &l);
    json_t *o = hy_logprobs_legacy_take(&l);
    if (ok) return o;
    json_decref(o);
    return NULL;
}

/* ---- whole answers -------------------------------------------------------------------------------------- */

static json_t *choice_json(hy_gen *g, const completion *c, const hy_answer *a, uint32_t index)
{
    const hy_buf *prompt = echo_of(c, a);
    hy_buf text = { 0 };
    rest r = { 0 };
    if (prompt) hy_buf_put(&text, prompt->data, prompt->len);
    hy_buf_put(&text, a->content.data, a->content.len);
    json_t *o = json_pack("{s:I}", "index", (json_int_t)index);
    bool ok = hy_set(o, "text", text.failed ? NULL : hy_json_text(text.data, text.len));
    hy_buf_free(&text);
    json_t *lp = c->logprobs ? logprobs_json(g, c, a, 0, a->n_tok, c->echo, &r) : json_null();
    ok = hy_set(o, "logprobs", lp) && ok;
    ok = hy_set(o, "finish_reason", json_string(hy_openai_finish(a))) && ok;
    ok = hy_set(o, "stop_reason", hy_openai_stop_reason(g, a)) && ok;
    if (c->prompt_logprobs) ok = hy_set(o, "prompt_logprobs", hy_logprobs_prompt(g, a)) && ok;
    if (c->token_ids) {
        uint32_t n;
        const int32_t *ids = hy_gen_prompt(g, a->i_prompt, &n);
        ok = hy_set(o, "token_ids", hy_token_ids_json(a, 0, a->n_tok)) && ok;
        ok = hy_set(o, "prompt_token_ids", hy_ids_json(ids, n)) && ok;
    }
    if (ok) return o;
    json_decref(o);
    return NULL;
}

static double mean_logprob(const hy_answer *a)
{
    double sum = 0;
    for (size_t i = 0; i < a->n_tok; i++) sum += (double)a->tok[i].logprob;
    return a->n_tok ? sum / (double)a->n_tok : -INFINITY;
}

/* Is answer i among the n_keep likeliest of its prompt? Equal ones: the earlier. */
static bool is_kept(const hy_gen *g, const completion *c, uint32_t i)
{
    uint32_t n = (uint32_t)hy_gen_ask(g)->n, first = i / n * n, better = 0;
    if (c->n_keep >= n) return true;
    double mine = mean_logprob(hy_gen_answer(g, i));
    for (uint32_t k = first; k < first + n; k++) {
        double other = mean_logprob(hy_gen_answer(g, k));
        if (k != i && (other > mine || (k < i && other >= mine))) better++;
    }
    return better < c->n_keep;
}

static void reply(hy_gen *g)
{
    const completion *c = hy_gen_user(g);
    json_t *o = hy_openai_head(g, "cmpl-", "text_completion"), *choices = json_array();
    bool ok = o && choices;
    uint32_t index = 0;
    for (uint32_t i = 0; ok && i < hy_gen_n_answer(g); i++) {
        if (!is_kept(g, c, i)) continue;
        json_t *one = choice_json(g, c, hy_gen_answer(g, i), index++);
        ok = one && json_array_append_new(choices, one) == 0;
    }
    ok = hy_set(o, "choices", choices) && ok;
    ok = hy_set(o, "usage", hy_gen_usage_json(g)) && ok;
    ok = hy_set(o, "timings", hy_gen_timings_json(g, NULL)) && ok;
    if (!ok) json_decref(o);
    hy_openai_reply(hy_gen_exchange(g), ok ? o : NULL);
}

/* ---- streams -------------------------------------------------------------------------------------------- */

static void send_chunk(hy_gen *g, json_t *choices, json_t *usage, json_t *timings)
{
    const completion *c = hy_gen_user(g);
    json_t *o = hy_openai_head(g, "cmpl-", "text_completion");
    bool ok = hy_set(o, "choices", choices);
    if (usage) ok = hy_set(o, "usage", usage) && ok;
    else if (c->usage) ok = hy_set(o, "usage", json_null()) && ok;
    if (timings) ok = hy_set(o, "timings", timings) && ok;
    if (ok) {
        hy_x_sse(hy_gen_exchange(g), NULL, o);
        return;
    }
    json_decref(o);
    hy_openai_no_memory(hy_gen_exchange(g));
}

/* One choice with the text that came, tokens from `first` on. */
static void send_text(hy_gen *g, hy_answer *a, size_t first, bool last)
{
    const completion *c = hy_gen_user(g);
    rest *r = a->user;
    json_t *o = json_pack("{s:I}", "index", (json_int_t)a->index), *choices = json_array();
    const hy_buf *prompt = echo_of(c, a);
    bool echo = c->echo && !r->echoed;
    hy_buf text = { 0 };
    if (echo && prompt) hy_buf_put(&text, prompt->data, prompt->len);
    hy_buf_put(&text, r->text.data, r->text.len);
    bool ok = hy_set(o, "text", text.failed ? NULL : hy_json_text(text.data, text.len));
    hy_buf_free(&text);
    hy_buf_reset(&r->text);
    r->echoed = true;
    bool tokens = a->n_shown > first || (echo && a->i_request != UINT32_MAX);
    ok = hy_set(o, "logprobs", c->logprobs && tokens ? logprobs_json(g, c, a, first, a->n_shown, echo,
                                                                     r) : json_null()) && ok;
    ok = hy_set(o, "finish_reason", last ? json_string(hy_openai_finish(a)) : json_null()) && ok;
    if (last) ok = hy_set(o, "stop_reason", hy_openai_stop_reason(g, a)) && ok;
    if (c->token_ids && a->n_shown > first) ok = hy_set(o, "token_ids", hy_token_ids_json(a, first, a->n_shown)) && ok;
    ok = ok && choices && json_array_append(choices, o) == 0;
    json_decref(o);
    if (!ok) {
        json_decref(choices);
        hy_openai_no_memory(hy_gen_exchange(g));
        return;
    }
    json_t *usage = c->usage_always ? hy_gen_usage_json(g) : NULL;
    send_chunk(g, choices, usage, last ? hy_gen_timings_json(g, a) : NULL);
}

static rest *rest_of(hy_gen *g, hy_answer *a)
{
    hy_exchange *x = hy_gen_exchange(g);
    if (!a->user) a->user = HY_NEW(rest);
    if (!a->user) hy_openai_no_memory(x);
    else if (!hy_x_streaming(x)) hy_x_stream(x, "text/event-stream");
    return a->user;
}

static void on_piece(hy_gen *g, hy_answer *a, const hy_piece *p)
{
    rest *r = rest_of(g, a);
    if (r && p->kind == HY_PIECE_CONTENT) hy_buf_put(&r->text, p->text, p->n);
}

static void on_step(hy_gen *g, hy_answer *a, size_t first)
{
    const completion *c = hy_gen_user(g);
    rest *r = rest_of(g, a);
    if (r && (r->text.len || (c->echo && !r->echoed) || a->n_shown > first)) send_text(g, a, first, false);
}

static void on_done(hy_gen *g, hy_answer *a)
{
    if (rest_of(g, a)) send_text(g, a, a->n_shown, true);
}

static void on_all(hy_gen *g)
{
    const completion *c = hy_gen_user(g);
    hy_exchange *x = hy_gen_exchange(g);
    if (c->usage) send_chunk(g, json_array(), hy_gen_usage_json(g), hy_gen_timings_json(g, NULL));
    hy_x_write(x, "data: [DONE]\n\n", 14);
    hy_x_end(x);
}

static void close_answer(void *user)
{
    rest *r = user;
    hy_buf_free(&r->text);
    hy_free(r);
}

/* ---- the route ------------------------------------------------------------------------------------------- */

static const hy_gen_sink plain = { .started = on_started, .all = reply, .close = close_user };
static const hy_gen_sink stream = { .started = on_started, .piece = on_piece, .step = on_step, .done = on_done,
                                    .all = on_all, .close = close_user, .close_answer = close_answer };

void hy_route_completions(hy_exchange *x)
{
    hy_body b;
    if (!hy_body_completion(x, &b)) return;
    completion *c = HY_NEW(completion);
    if (!c) {
        hy_ask_free(&b.ask);
        hy_openai_no_memory(x);
        return;
    }
    *c = (completion){ .echo = b.echo, .logprobs = b.ask.top_logprobs >= 0, .top = b.ask.top_logprobs > 0,
                       .usage = b.include_usage, .usage_always = b.usage_always && b.include_usage,
                       .token_ids = b.return_token_ids, .prompt_logprobs = b.prompt_logprobs,
                       .n_keep = (uint32_t)b.ask.n };
    if (b.has_best_of && b.best_of > b.ask.n) {
        b.ask.n = b.best_of;
        if (b.ask.top_logprobs < 0) b.ask.top_logprobs = 0; /* they are ranked by it */
    }
    hy_gen_start(x, &b.ask, b.ask.stream ? &stream : &plain, c);
}
