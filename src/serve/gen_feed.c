/* One answer: engine events to pieces, tokens to their place in the text. */
#include "serve/gen_impl.h"
#include <string.h>

static bool keeps_tokens(const hy_ask *a)
{
    return a->top_logprobs >= 0 || a->keep_tokens;
}

hy_status hy_feed_open(hy_gen *g, hy_answer *a, hy_err *err)
{
    struct hy_gen_feed *f = HY_NEW(struct hy_gen_feed);
    if (!f) return hy_fail_memory(err, "answer", sizeof *f);
    a->feed = f;
    f->g = g;
    f->a = a;
    f->cut = SIZE_MAX;
    f->cut_id = -1;
    if (g->ask.max_tokens == 0) f->cut = 0; /* the prompt's logprobs alone were asked for */
    const hy_ask *ask = &g->ask;
    bool calls = ask->tools && ask->choice != HY_TOOLS_NONE;
    if (!g->format || (ask->no_split && !calls)) return HY_OK;
    /* the whole text is asked for: it holds no thoughts, whatever the prompt has begun */
    if (ask->guide.kind == HY_GUIDE_REGEX || ask->guide.kind == HY_GUIDE_GBNF) return HY_OK;
    const char *id = hy_x_id(g->x);
    uint64_t seed = hy_hash64(id, strlen(id), a->index);
    return hy_chat_parser_open(&f->parser, g->format, calls ? ask->tools : NULL, g->prompt[0].text, seed, err);
}

void hy_answer_free(hy_answer *a)
{
    if (a->feed) hy_chat_parser_close(a->feed->parser);
    hy_free(a->feed);
    for (uint32_t i = 0; i < a->n_call; i++) {
        hy_free((char *)a->call[i].id);
        hy_free((char *)a->call[i].name);
        hy_buf_free(&a->call[i].args);
    }
    hy_free(a->call);
    hy_buf_free(&a->content);
    hy_buf_free(&a->reasoning);
    hy_free(a->tok);
    hy_free(a->top);
}

/* ---- tokens ---------------------------------------------------------------------------------------- */

static bool grow(void **p, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap) return true;
    size_t n = HY_MAX(need, *cap * 2 + 16);
    void *q = hy_realloc_array(*p, n, size);
    if (!q) return false;
    *p = q;
    *cap = n;
    return true;
}

static hy_status keep_token(hy_answer *a, const hy_token *t, size_t from, hy_err *err)
{
    if (!grow((void **)&a->tok, &a->cap_tok, a->n_tok + 1, sizeof *a->tok) ||
        !grow((void **)&a->top, &a->cap_top, a->n_top + t->n_top, sizeof *a->top))
        return hy_fail_memory(err, "logprobs", (a->n_tok + 1) * sizeof *a->tok);
    a->tok[a->n_tok++] = (hy_gen_tok){ t->id, t->logprob, t->n_top, a->n_top, from };
    if (t->n_top) memcpy(a->top + a->n_top, t->top, t->n_top * sizeof *t->top);
    a->n_top += t->n_top;
    return HY_OK;
}

/* Adds what a token puts into the text: nothing for a control token that is not shown. */
static hy_status measure(struct hy_gen_feed *f, int32_t id, hy_err *err)
{
    hy_engine *e = f->g->e;
    char *bytes = NULL, *shown = NULL;
    size_t n = 0;
    hy_facts facts;
    hy_engine_facts(e, &facts);
    HY_TRY(hy_engine_piece(e, id, &bytes, &n, err));
    hy_status s = HY_OK;
    bool hidden = false;
    if (!f->g->p.show_special && n) { /* hidden: a whole text of it is empty, and is not when control tokens show */
        s = hy_engine_detokenize(e, &id, 1, false, &shown, err);
        if (s == HY_OK && !shown[0]) {
            hy_memory_free(shown);
            shown = NULL;
            s = hy_engine_detokenize(e, &id, 1, true, &shown, err);
            hidden = s == HY_OK && shown[0];
        }
    }
    hy_buf text = { 0 };
    if (s == HY_OK && !hidden) {
        hy_utf8_stream_put(&f->utf8, bytes, n, &text);
        f->n_made += text.len;
        if (text.failed) s = hy_fail_memory(err, "token", n);
    }
    hy_buf_free(&text);
    hy_memory_free(shown);
    hy_memory_free(bytes);
    return s;
}

static bool ends_text(const hy_ask *a, int32_t id)
{
    size_t i;
    json_t *v;
    json_array_foreach(a->stop_ids, i, v) if (json_integer_value(v) == id) return true;
    return false;
}

static hy_status take_tokens(hy_gen *g, hy_answer *a, const hy_event *ev, hy_err *err)
{
    struct hy_gen_feed *f = a->feed;
    bool keep = keeps_tokens(&g->ask), watch = json_array_size(g->ask.stop_ids) > 0;
    for (uint32_t i = 0; i < ev->n_token && f->cut == SIZE_MAX; i++) {
        const hy_token *t = &ev->token[i];
        if (watch && f->n_counted >= (size_t)g->ask.min_tokens && ends_text(&g->ask, t->id)) {
            f->cut = f->n_made;
            f->cut_id = t->id;
            hy_cancel(hy_x_request(g->x, a->i_request));
            break;
        }
        if (keep) HY_TRY(keep_token(a, t, f->n_made, err));
        if (keep || watch) HY_TRY(measure(f, t->id, err));
        f->n_counted++;
    }
    a->usage.n_output = (uint32_t)f->n_counted;
    return HY_OK;
}

/* ---- pieces ---------------------------------------------------------------------------------------- */

static bool put_call(hy_answer *a, const hy_piece *p)
{
    if (a->n_call == a->cap_call) {
        uint32_t cap = a->cap_call * 2 + 4;
        void *q = hy_realloc_array(a->call, cap, sizeof *a->call);
        if (!q) return false;
        a->call = q;
        a->cap_call = cap;
    }
    hy_gen_call c = { .id = hy_strdup(p->id ? p->id : ""), .name = hy_strdup(p->name ? p->name : "") };
    if (!c.id || !c.name) {
        hy_free((char *)c.id);
        hy_free((char *)c.name);
        return false;
    }
    a->call[a->n_call++] = c;
    return true;
}

static bool is_blank(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r\n", s[i]) || !s[i]) return false;
    return true;
}

static void on_piece(void *ctx, const hy_piece *p)
{
    struct hy_gen_feed *f = ctx;
    hy_answer *a = f->a;
    switch (p->kind) {
    case HY_PIECE_CONTENT:
        hy_buf_put(&a->content, p->text, p->n);
        if (!is_blank(p->text, p->n)) f->spoke = true;
        break;
    case HY_PIECE_REASONING: hy_buf_put(&a->reasoning, p->text, p->n); break;
    case HY_PIECE_CALL:
        f->spoke = true;
        if (!put_call(a, p)) {
            a->content.failed = true;
            return;
        }
        break;
    case HY_PIECE_ARGS:
        if (p->i_call < a->n_call) hy_buf_put(&a->call[p->i_call].args, p->text, p->n);
        break;
    }
    if (f->g->sink->piece) f->g->sink->piece(f->g, a, p);
}

static hy_status feed_text(hy_answer *a, const char *text, size_t n, hy_err *err)
{
    struct hy_gen_feed *f = a->feed;
    n = HY_MIN(n, f->cut - HY_MIN(f->cut, f->n_text));
    f->n_text += n;
    if (n == 0) return HY_OK;
    if (f->parser) return hy_chat_parser_put(f->parser, text, n, on_piece, f, err);
    on_piece(f, &(hy_piece){ .kind = HY_PIECE_CONTENT, .text = text, .n = n });
    return HY_OK;
}

static hy_status check_memory(const hy_answer *a, hy_err *err)
{
    bool failed = a->content.failed || a->reasoning.failed;
    for (uint32_t i = 0; i < a->n_call; i++) failed |= a->call[i].args.failed;
    return failed ? hy_fail_memory(err, "answer", a->content.len) : HY_OK;
}

hy_status hy_feed_event(hy_gen *g, hy_answer *a, const hy_event *ev, hy_err *err)
{
    struct hy_gen_feed *f = a->feed;
    HY_TRY(take_tokens(g, a, ev, err));
    HY_TRY(feed_text(a, ev->text, ev->n_text, err));
    HY_TRY(check_memory(a, err));
    if (!f->spoke && a->reasoning.len) a->n_reasoning = a->usage.n_output;
    size_t first = a->n_shown;
    while (a->n_shown < a->n_tok && a->tok[a->n_shown].from < f->n_text) a->n_shown++;
    if (g->sink->step) g->sink->step(g, a, first);
    return HY_OK;
}

hy_status hy_feed_end(hy_gen *g, hy_answer *a, const hy_event *ev, hy_err *err)
{
    struct hy_gen_feed *f = a->feed;
    bool by_id = f->cut_id >= 0, empty = g->ask.max_tokens == 0;
    if (f->parser) HY_TRY(hy_chat_parser_end(f->parser, on_piece, f, err));
    HY_TRY(check_memory(a, err));
    a->usage = ev->usage;
    a->usage.n_output = empty ? 0 : by_id ? (uint32_t)f->n_counted : ev->usage.n_output;
    a->finish = empty ? HY_FINISH_LENGTH : by_id ? HY_FINISH_STOP : ev->finish;
    if (by_id) a->usage.stop_id = f->cut_id;
    bool by_string = !by_id && !empty && ev->finish == HY_FINISH_STOP && ev->usage.stop_index >= 0;
    if (by_string && (uint32_t)ev->usage.stop_index < g->p.n_stop) a->stop = g->stop[ev->usage.stop_index];
    /* tokens of a stop string belong to no text that was given */
    size_t first = a->n_shown;
    if (by_string) a->n_tok = a->n_shown;
    a->n_shown = a->n_tok;
    a->done = true;
    if (g->sink->step) g->sink->step(g, a, first);
    if (g->sink->done) g->sink->done(g, a);
    return HY_OK;
}
