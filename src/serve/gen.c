/* Generation from ask to answers: submits, and turns engine events into calls of a route's sink. */
#include "serve/gen_impl.h"
#include <string.h>
#include <time.h>

#define OPEN_MAX 64                /* answers of one exchange that the engine has at once */

static void gen_free(hy_gen *g)
{
    if (g->sink->close) g->sink->close(g->user);
    for (uint32_t i = 0; i < g->n_answer; i++) {
        hy_answer *a = &g->answer[i];
        if (a->user && g->sink->close_answer) g->sink->close_answer(a->user);
        else hy_free(a->user);
        hy_answer_free(a);
    }
    hy_free(g->answer);
    for (uint32_t i = 0; i < g->n_prompt; i++) {
        hy_memory_free(g->prompt[i].ids);
        hy_memory_free(g->prompt[i].text);
    }
    hy_free(g->prompt);
    hy_free(g->stop);
    hy_free(g->bias);
    hy_buf_free(&g->guide_text);
    hy_buf_free(&g->guide_schemas);
    hy_buf_free(&g->tenant);
    hy_ask_free(&g->ask);
    hy_free(g);
}

static void on_close(hy_exchange *x, void *user)
{
    gen_free(user);
}

static void fail(hy_gen *g, const hy_err *err)
{
    g->over = true;
    if (g->sink->fail) g->sink->fail(g, err);
    else hy_x_fail(g->x, NULL, err);
}

/* Prompts go to the engine as earlier ones end; a full queue is waited for once something of ours runs. */
static hy_status submit_more(hy_gen *g, hy_err *err)
{
    uint32_t n = (uint32_t)g->ask.n;
    while (g->n_submitted < g->n_prompt && (g->n_open == 0 || g->n_open + n <= OPEN_MAX)) {
        const hy_gen_prompt_ids *p = &g->prompt[g->n_submitted];
        if (p->n == 0) return hy_fail(err, HY_E_ARG, "the prompt is empty");
        if (p->n > UINT32_MAX) return hy_fail(err, HY_E_LIMIT, "the prompt has %zu tokens", p->n);
        g->p.tokens = p->ids;
        g->p.n_tokens = (uint32_t)p->n;
        hy_status s = hy_x_submit(g->x, &g->p, n, err);
        if (s == HY_E_BUSY && g->n_open) return HY_OK;
        HY_TRY(s);
        g->n_submitted++;
        g->n_open += n;
    }
    return HY_OK;
}

static void all_done(hy_gen *g)
{
    g->over = true;
    if (g->sink->all) g->sink->all(g);
}

static hy_status take_event(hy_gen *g, hy_answer *a, const hy_event *ev, hy_err *err)
{
    if (ev->kind == HY_EV_TEXT) return hy_feed_event(g, a, ev, err);
    if (ev->finish == HY_FINISH_CANCELLED && a->feed->cut_id < 0)
        return hy_fail(err, HY_E_CANCELLED, "the server stopped the request before its end");
    HY_TRY(hy_feed_end(g, a, ev, err));
    g->n_open--;
    g->n_done++;
    if (g->n_done == g->n_answer) all_done(g);
    else return submit_more(g, err);
    return HY_OK;
}

static void on_event(hy_exchange *x, void *user, uint32_t i, const hy_event *ev, const hy_err *err)
{
    hy_gen *g = user;
    if (g->over || i >= g->n_answer || (ev->kind != HY_EV_TEXT && ev->kind != HY_EV_DONE)) return;
    hy_answer *a = &g->answer[i];
    if (a->done) return;
    hy_err mine;
    if (ev->kind == HY_EV_DONE && ev->finish == HY_FINISH_ERROR) {
        mine = err ? *err : (hy_err){ .code = HY_E_INTERNAL, .msg = "the engine failed" };
        fail(g, &mine);
        return;
    }
    if (take_event(g, a, ev, &mine) != HY_OK) fail(g, &mine);
}

static hy_status make_answers(hy_gen *g, hy_err *err)
{
    uint32_t n = g->n_prompt * (uint32_t)g->ask.n;
    g->answer = HY_NEW_ARRAY(hy_answer, n);
    if (!g->answer) return hy_fail_memory(err, "answers", n * sizeof *g->answer);
    g->n_answer = n;
    for (uint32_t i = 0; i < n; i++) {
        hy_answer *a = &g->answer[i];
        a->index = a->i_request = i; /* requests are submitted in the order of the answers */
        a->i_prompt = i / (uint32_t)g->ask.n;
        a->usage.stop_index = a->usage.stop_id = -1;
        a->usage.n_prompt = (uint32_t)g->prompt[a->i_prompt].n;
        HY_TRY(hy_feed_open(g, a, err));
    }
    return HY_OK;
}

/* Nothing has to be computed for max_tokens = 0 without logprobs. */
static void end_at_once(hy_gen *g)
{
    if (g->sink->started) g->sink->started(g);
    for (uint32_t i = 0; i < g->n_answer; i++) {
        hy_answer *a = &g->answer[i];
        a->i_request = UINT32_MAX;
        a->finish = HY_FINISH_LENGTH;
        a->done = true;
        if (g->sink->done) g->sink->done(g, a);
    }
    all_done(g);
    gen_free(g);
}

/* The engine's messages begin with the name of what is wrong: a field of the body, or NULL. */
static const char *named_field(hy_exchange *x, const hy_err *err, char out[64])
{
    size_t n = strspn(err->msg, "abcdefghijklmnopqrstuvwxyz_");
    if (n == 0 || n >= 64 || err->msg[n] != ':') return NULL;
    memcpy(out, err->msg, n);
    out[n] = 0;
    return json_object_get(hy_x_json(x), out) ? out : NULL;
}

bool hy_gen_start(hy_exchange *x, hy_ask *a, const hy_gen_sink *sink, void *user)
{
    hy_err err;
    const char *param = NULL;
    hy_gen *g = HY_NEW(hy_gen);
    if (!g) {
        hy_ask_free(a);
        if (sink->close) sink->close(user);
        hy_fail_memory(&err, "generation", sizeof *g);
        hy_x_fail(x, NULL, &err);
        return false;
    }
    g->x = x;
    g->e = hy_server_engine(hy_x_server(x));
    g->ask = *a;
    memset(a, 0, sizeof *a);
    g->sink = sink;
    g->user = user;
    g->created = (int64_t)time(NULL);
    hy_status s = hy_gen_prompts(g, &param, &err);
    const char *prompt_param = param;
    if (s == HY_OK) s = hy_gen_params(g, &param, &err);
    if (s == HY_OK) s = make_answers(g, &err);
    if (s != HY_OK) {
        hy_x_fail(x, param, &err);
        gen_free(g);
        return false;
    }
    if (g->ask.max_tokens == 0 && g->ask.prompt_logprobs < 0) {
        end_at_once(g);
        return true;
    }
    hy_x_await(x, g, on_event, on_close); /* from here on g is the exchange's */
    s = submit_more(g, &err);
    /* a tool's schema may hold what cannot be enforced; clients send what their tools have */
    hy_err again;
    bool refused = s == HY_E_UNSUPPORTED || s == HY_E_ARG || s == HY_E_LIMIT;
    if (refused && hy_gen_relax(g) && submit_more(g, &again) == HY_OK) s = HY_OK;
    if (s != HY_OK) {
        g->over = true;
        /* the guide is compiled at the door: what is wrong with it is its field's fault */
        bool guided = g->p.guide.kind != HY_GUIDE_NONE && param && err.code != HY_E_LIMIT;
        char named[64];
        const char *field = named_field(x, &err, named);
        hy_x_fail(x, field ? field : guided ? param : prompt_param, &err);
        return false;
    }
    if (g->ask.stream) hy_x_stream(x, "text/event-stream"); /* a long silence can be filled with comments */
    if (g->sink->started) g->sink->started(g);
    return true;
}

/* ---- what a sink asks ------------------------------------------------------------------------------- */

hy_exchange *hy_gen_exchange(const hy_gen *g)
{
    return g->x;
}

const hy_ask *hy_gen_ask(const hy_gen *g)
{
    return &g->ask;
}

void *hy_gen_user(const hy_gen *g)
{
    return g->user;
}

uint32_t hy_gen_n_answer(const hy_gen *g)
{
    return g->n_answer;
}

hy_answer *hy_gen_answer(const hy_gen *g, uint32_t i)
{
    return i < g->n_answer ? &g->answer[i] : NULL;
}

int64_t hy_gen_created(const hy_gen *g)
{
    return g->created;
}

const int32_t *hy_gen_prompt(const hy_gen *g, uint32_t i_prompt, uint32_t *n)
{
    *n = i_prompt < g->n_prompt ? (uint32_t)g->prompt[i_prompt].n : 0;
    return i_prompt < g->n_prompt ? g->prompt[i_prompt].ids : NULL;
}

void hy_gen_total(const hy_gen *g, hy_gen_totals *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < g->n_answer; i++) {
        const hy_answer *a = &g->answer[i];
        out->n_output += a->usage.n_output;
        out->n_reasoning += a->n_reasoning;
        if (i % (uint32_t)g->ask.n) continue;
        out->n_prompt += a->usage.n_prompt;
        out->n_cached += a->usage.n_cached;
    }
}
