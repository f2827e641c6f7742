/* hayate run: complete a prompt. */
#include "cli.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct prompt {
    char *text;                /* owned */
    size_t n;
    int32_t *ids;              /* owned */
    uint32_t n_ids;
    char *chat, *source;       /* owned: JSON, template */
} prompt;

static void prompt_free(prompt *p)
{
    hy_free(p->text);
    hy_free(p->ids);
    hy_free(p->source);
    hy_memory_free(p->chat);
}

static bool make_chat(const cli_args *a, prompt *p)
{
    json_t *messages = json_array();
    if (a->system)
        json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "system", "content", a->system));
    json_t *content = json_stringn(p->text, p->n);
    bool valid = content && (!a->system || json_array_size(messages) == 1);
    if (valid) json_array_append_new(messages, json_pack("{s:s, s:o}", "role", "user", "content", content));
    json_t *vars = json_pack("{s:o}", "messages", messages);
    char *dump = vars && valid ? json_dumps(vars, 0) : NULL;
    json_decref(vars);
    if (!valid) return cli_error("run", "the %s is not valid UTF-8", content ? "system message" : "prompt"), false;
    if (!dump) return cli_error("run", "out of memory"), false;
    p->chat = hy_strdup(dump);
    free(dump);
    return p->chat != NULL;
}

static bool read_prompt(cli_args *a, prompt *p)
{
    int given = (a->n_pos == 2) + (a->prompt_file != NULL) + (a->tokens_file != NULL);
    if (given > 1) return cli_error("run", "give the prompt once: as an argument, with -f, or with --tokens"), false;
    if (a->tokens_file && (a->chat || a->system))
        return cli_error("run", "--tokens and --chat contradict each other"), false;
    if (a->tokens_file) {
        if (!cli_read_tokens("run", a->tokens_file, &p->ids, &p->n_ids)) return false;
        a->params.tokens = p->ids;
        a->params.n_tokens = p->n_ids;
        return true;
    }
    if (a->n_pos == 2) {
        p->text = hy_strdup(a->pos[1]);
        p->n = p->text ? strlen(p->text) : 0;
    } else {
        if (!a->prompt_file && isatty(0))
            return cli_error("run", "no prompt: give one as an argument, with -f FILE, or through a pipe"), false;
        if (!cli_read("run", a->prompt_file ? a->prompt_file : "-", &p->text, &p->n)) return false;
    }
    if (!p->text) return cli_error("run", "out of memory"), false;
    if (a->chat || a->system || a->template_file) {
        size_t n;
        if (!make_chat(a, p)) return false;
        if (a->template_file && !cli_read("run", a->template_file, &p->source, &n)) return false;
        a->params.chat_json = p->chat;
        a->params.chat_template = p->source;
    }
    a->params.prompt = p->text;
    a->params.n_prompt = p->n;
    return true;
}

static double rate(double n, double ms)
{
    return ms > 0 ? n * 1000 / ms : 0;
}

static const char *finish_name(hy_finish f)
{
    switch (f) {
    case HY_FINISH_STOP: return "stop";
    case HY_FINISH_LENGTH: return "length";
    case HY_FINISH_CANCELLED: return "cancelled";
    default: return "error";
    }
}

typedef struct result {
    hy_buf text;
    json_t *ids, *logprobs;
    hy_event done;
} result;

static hy_status collect(hy_request *r, const cli_args *a, result *out, hy_err *err)
{
    out->ids = json_array();
    out->logprobs = a->has_logprobs ? json_array() : NULL;
    for (;;) {
        HY_TRY(hy_poll(r, 100, &out->done, err));
        if (cli_interrupted()) hy_cancel(r);
        if (out->done.kind == HY_EV_DONE) return HY_OK;
        if (out->done.kind != HY_EV_TEXT) continue;
        hy_buf_put(&out->text, out->done.text, out->done.n_text);
        for (uint32_t i = 0; i < out->done.n_token; i++) {
            const hy_token *t = &out->done.token[i];
            json_array_append_new(out->ids, json_integer(t->id));
            if (!out->logprobs) continue;
            json_t *top = json_array();
            for (uint32_t k = 0; k < t->n_top; k++)
                json_array_append_new(top, json_pack("[i, f]", t->top[k].id, (double)t->top[k].logprob));
            json_array_append_new(out->logprobs, json_pack("{s:i, s:f, s:o}", "id", t->id, "logprob",
                                                           (double)t->logprob, "top", top));
        }
    }
}

static int print_json(result *r)
{
    const hy_usage *u = &r->done.usage;
    json_t *o = json_pack("{s:o, s:s%, s:s, s:{s:f, s:f, s:f, s:i, s:i, s:i, s:i, s:f}}", "ids", r->ids, "text",
                          r->text.data ? r->text.data : "", r->text.len, "finish", finish_name(r->done.finish),
                          "timings", "ttft_ms", u->ttft_ms, "prompt_tps", rate(u->n_prompt, u->prompt_ms),
                          "decode_tps", rate(u->n_output > 1 ? u->n_output - 1 : 0, u->decode_ms),
                          "n_prompt", (int)u->n_prompt, "n_output", (int)u->n_output, "n_drafted", (int)u->n_drafted,
                          "n_accepted", (int)u->n_accepted, "draft_gain", u->draft_gain);
    r->ids = NULL;
    if (o && r->logprobs) json_object_set(o, "logprobs", r->logprobs);
    if (!o) return cli_error("run", "out of memory");
    (void)json_dumpf(o, stdout, JSON_REAL_PRECISION(9)); /* main looks whether all of stdout was written */
    putchar('\n');
    json_decref(o);
    return 0;
}

static void print_timings(const hy_usage *u)
{
    fprintf(stderr, "\n[%u prompt tokens, first token after %.0f ms; %u tokens, %.1f tokens/s", u->n_prompt,
            u->ttft_ms, u->n_output, rate(u->n_output > 1 ? u->n_output - 1 : 0, u->decode_ms));
    char drafts[CLI_DRAFTS];
    cli_drafts(u, drafts);
    fprintf(stderr, "%s]\n", drafts);
}

static int generate(hy_engine *e, cli_args *a)
{
    hy_err err;
    hy_request *r;
    if (hy_submit(e, &a->params, &r, &err) != HY_OK) return cli_fail("run", &err);
    result res = { .text = { 0 } };
    int rc;
    hy_status s = a->json ? collect(r, a, &res, &err) : cli_stream(r, NULL, &res.done, &err);
    if (s != HY_OK) rc = cli_fail("run", &err);
    else if (a->json) rc = print_json(&res);
    else {
        if (isatty(1)) putchar('\n');
        if (!a->quiet && isatty(2)) print_timings(&res.done.usage);
        rc = 0;
    }
    if (res.done.finish == HY_FINISH_CANCELLED && rc == 0) rc = cli_interrupted() ? 130 : 1;
    json_decref(res.ids);
    json_decref(res.logprobs);
    hy_buf_free(&res.text);
    hy_release(r);
    return rc;
}

int cmd_run(cli_args *a)
{
    hy_bias bias[CLI_LIST_MAX];
    hy_err err;
    prompt p = { 0 };
    if (!cli_use_tuned("run", a) || !cli_finish_options("run", a, bias)) return 2;
    if (a->has_logprobs && !a->json) return cli_error("run", "--logprobs needs --json"), 2;
    int rc = 1;
    cli_catch_interrupt();
    if (read_prompt(a, &p)) {
        cli_bar bar = { .what = "loading", .unit = "B", .quiet = a->quiet };
        a->engine.model = a->pos[0];
        a->engine.n_seq = a->engine.n_seq ? a->engine.n_seq : 1;
        a->engine.progress = cli_bar_step;
        a->engine.progress_ctx = &bar;
        hy_engine *e;
        hy_status s = hy_open(&e, &a->engine, &err);
        cli_bar_end(&bar);
        rc = s == HY_OK ? generate(e, a) : cli_fail("run", &err);
        hy_close(s == HY_OK ? e : NULL);
    }
    prompt_free(&p);
    return rc;
}
