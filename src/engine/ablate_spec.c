/* Speculation: each proposer on each kind of task, with and without in turns, of one engine. */
#include "ablate_ask.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_TOKENS = 64, CTX_TOKENS = 1024, TASKS = 5 };

typedef struct task {
    const char *name;
    const char *chat;          /* a user's message, or NULL */
    char *prompt;              /* a text; owned */
    double temperature;
    bool json;
} task;

typedef struct who {
    const char *name;
    int32_t id;
    const char *weights;       /* of the engine; NULL: the best's */
} who;

static char *text_of(const char *a, const char *b, const char *c, const char *d)
{
    hy_buf t = { 0 };
    hy_buf_printf(&t, "%s%s%s%s", a, b, c, d);
    if (!t.failed) return t.data;
    hy_buf_free(&t);
    return NULL;
}

/* The code with another name for the shape: how the answer to "edit" begins. */
static char *edited_code(uint32_t n)
{
    hy_buf t = { 0 };
    for (const char *s = ab_code_text; *s && t.len < n;) {
        if (strncmp(s, "shape", 5) == 0) {
            hy_buf_str(&t, "figure");
            s += 5;
        } else {
            hy_buf_char(&t, *s++);
        }
    }
    if (!t.failed) return t.data;
    hy_buf_free(&t);
    return NULL;
}

static bool make_tasks(task t[TASKS])
{
    static const char asked[] = "What should one pack for a week in the mountains?";
    char *begun = edited_code(60);
    t[0] = (task){ .name = "chat", .chat = asked };
    t[1] = (task){ .name = "chat t=1", .chat = asked, .temperature = 1 };
    t[2] = (task){ .name = "copy", .prompt = text_of("1.\n", ab_copy_text, "\n\nThe same text again:\n\n1.\n", "") };
    t[3] = (task){ .name = "edit", .prompt = begun ? text_of("# version 1\n", ab_code_text,
                   "# the same with `figure` for `shape`\n", begun) : NULL };
    t[4] = (task){ .name = "JSON", .chat = "Describe a person as JSON.", .json = true };
    hy_free(begun);
    return t[2].prompt && t[3].prompt;
}

/* The chat template's prompt where there is one, else a plain text. */
static bool set_task(const hy_engine *e, ab_ask *q, const task *t, char **held)
{
    *held = NULL;
    hy_params_init(&q->p);
    if (t->chat) {
        hy_buf b = { 0 };
        bool templated = hy_engine_template(e, NULL) != NULL;
        if (templated) hy_buf_str(&b, "{\"messages\":[{\"role\":\"user\",\"content\":");
        else hy_buf_str(&b, "Question: ");
        if (templated) hy_json_quote(t->chat, strlen(t->chat), &b);
        else hy_buf_str(&b, t->chat);
        hy_buf_str(&b, templated ? "}]}" : "\nAnswer:");
        if (b.failed) {
            hy_buf_free(&b);
            return false;
        }
        *held = b.data;
        if (templated) q->p.chat_json = b.data;
        else q->p.prompt = b.data;
    } else {
        q->p.prompt = t->prompt;
    }
    q->p.temperature = t->temperature;
    q->p.seed = 7;
    q->p.max_tokens = ANSWER_TOKENS;
    q->p.ignore_eos = !t->json;
    if (t->json)
        q->p.guide =
            (hy_guide){ .kind = HY_GUIDE_JSON_SCHEMA, .text = ab_json_schema, .n_text = strlen(ab_json_schema) };
    return true;
}

typedef struct pair {
    ab_row off, on;
    ab_stat ratio;
    uint32_t n_drafted, n_accepted;
    bool same;
} pair;

static void take(ab_row *r, const ab_ask *q)
{
    double itl = ab_itl_ms(q);
    ab_put(&r->ttft, ab_ttft_ms(q));
    ab_put(&r->itl, itl);
    ab_put(&r->tps, 1000 / itl);
}

static hy_status one_pair(ab *a, hy_engine *e, ab_ask q[2], int32_t who_id, bool on_first, pair *p, hy_err *err)
{
    for (int k = 0; k < 2; k++) {
        int on = on_first ? !k : k;
        q[on].p.speculate = on ? who_id : HY_SPECULATE_OFF;
        q[on].p.no_cache = true; /* the prompt costs the same both times */
        HY_TRY(ab_ask_all(a, e, &q[on], 1, NULL, NULL, err));
    }
    take(&p->off, &q[0]);
    take(&p->on, &q[1]);
    ab_put(&p->ratio, ab_itl_ms(&q[0]) / ab_itl_ms(&q[1]));
    p->n_drafted += q[1].usage.n_drafted;
    p->n_accepted += q[1].usage.n_accepted;
    p->same &= ab_same_answers(&q[0], &q[1], 1);
    return HY_OK;
}

static hy_status run_pairs(ab *a, hy_engine *e, const task *t, const who *w, pair *p, hy_err *err)
{
    ab_ask *q[TASKS] = { NULL };
    char *held[TASKS][2] = { { NULL } };
    bool skip[TASKS] = { false };
    hy_status st = HY_OK;
    for (uint32_t i = 0; i < TASKS && st == HY_OK; i++) {
        q[i] = ab_asks_new(2, 1, ANSWER_TOKENS);
        bool good = q[i] != NULL;
        for (int k = 0; k < 2 && good; k++) {
            hy_free((void *)(uintptr_t)q[i][k].p.tokens);
            q[i][k].p.tokens = NULL;
            good = set_task(e, &q[i][k], &t[i], &held[i][k]);
        }
        if (!good) st = hy_fail_memory(err, "tasks", sizeof(ab_ask));
    }
    uint32_t round = 0;
    for (uint64_t us = hy_now_us(); ab_more(a, round, us, err, &st); round++)
        for (uint32_t i = 0; i < TASKS && st == HY_OK; i++) {
            if (skip[i]) continue;
            st = one_pair(a, e, q[i], w->id, round % 2, &p[i], err);
            if (st == HY_OK || a->cancelled) continue;
            ab_note(a, "speculation, %s: %s", t[i].name, err->msg); /* a context too short, a guide that cannot be */
            skip[i] = true;
            st = HY_OK;
        }
    ab_end(a, round);
    for (uint32_t i = 0; i < TASKS; i++) {
        ab_asks_free(q[i], 2);
        for (int k = 0; k < 2; k++) hy_free(held[i][k]);
    }
    return st;
}

typedef struct best {
    double high, low;
    char at_high[64], at_low[64];
} best;

static void tell(ab *a, const task *t, const who *w, pair *p, double memory, best *b)
{
    for (uint32_t i = 0; i < TASKS; i++) {
        pair *x = &p[i];
        if (x->ratio.n == 0) continue;
        double ratio = ab_median(&x->ratio), share = x->n_drafted ? (double)x->n_accepted / x->n_drafted : NAN;
        char name[64];
        snprintf(name, sizeof name, "%s, %s", w->name, t[i].name);
        if (ratio > b->high) snprintf(b->at_high, sizeof b->at_high, "%s", name), b->high = ratio;
        if (ratio < b->low) snprintf(b->at_low, sizeof b->at_low, "%s", name), b->low = ratio;
        x->on.same_bits = x->same;
        x->off.memory_mib = x->on.memory_mib = memory;
        x->off.extra = json_pack("{s:s, s:s}", "who", "off", "task", t[i].name);
        x->on.extra = json_pack("{s:s, s:s, s:i, s:i, s:o, s:o}", "who", w->name, "task", t[i].name, "drafted",
                                (int)x->n_drafted, "accepted", (int)x->n_accepted, "acceptance", ab_number(share),
                                "ratio_range", ab_range(&x->ratio));
        if (w->weights) {
            json_object_set_new(x->off.extra, "weights", json_string(w->weights));
            json_object_set_new(x->on.extra, "weights", json_string(w->weights));
        }
        ab_row_gain(&x->on, "itl", ratio);
        ab_row_add(a, &x->off);
        ab_row_add(a, &x->on);
    }
}

/* One proposer on all tasks. */
static hy_status run_who(ab *a, const task *t, const who *w, const char *opened, best *b, hy_err *err)
{
    pair p[TASKS];
    for (uint32_t i = 0; i < TASKS; i++) {
        char off[48], on[48];
        snprintf(off, sizeof off, "off %.24s%s", t[i].name, w->weights ? " (f16)" : "");
        snprintf(on, sizeof on, "%.8s %.24s%s", w->name, t[i].name, w->weights ? " (f16)" : "");
        p[i] = (pair){ .off = ab_row_make("speculation", "best", off),
                       .on = ab_row_make("speculation", "best", on),
                       .same = true };
    }
    uint32_t n_ctx = HY_MIN((uint32_t)CTX_TOKENS, a->n_ctx);
    hy_options o = ab_engine_options(a, n_ctx, 1, n_ctx);
    if (w->weights) {
        o.weights = w->weights;
        o.weights_all = true;
    }
    o.speculate = opened;
    o.draft = w->id == HY_SPECULATE_DRAFT ? a->p->options->draft : NULL;
    hy_engine *e = NULL;
    hy_status st = ab_engine_open(a, &e, &o, err);
    if (st == HY_OK) st = run_pairs(a, e, t, w, p, err);
    double memory = e ? ab_engine_memory(e) : NAN;
    hy_close(e);
    if (st == HY_OK) tell(a, t, w, p, memory, b);
    return st;
}

static hy_status run_all(ab *a, const task *t, hy_err *err)
{
    static const who list[] = { { "ngram", HY_SPECULATE_NGRAM, NULL }, { "draft", HY_SPECULATE_DRAFT, NULL },
                                { "self", HY_SPECULATE_SELF, "f16" } };
    uint64_t us_end = a->us_group_end, now = hy_now_us();
    best b = { .high = 0, .low = INFINITY };
    uint32_t n = a->p->options->draft ? 3 : 2, k = 0;
    for (size_t i = 0; i < HY_COUNT(list); i++) {
        if (list[i].id == HY_SPECULATE_DRAFT && !a->p->options->draft) {
            ab_note(a, "speculation: no draft model was given (--draft)");
            continue;
        }
        now = hy_now_us(); /* each proposer has its part of the group's time */
        a->us_group_end = us_end > now ? now + (us_end - now) / (n - k++) : now;
        hy_err why = { 0 };
        hy_status st = run_who(a, t, &list[i], list[i].name, &b, &why);
        if (a->cancelled) return *err = why, HY_E_CANCELLED;
        if (st != HY_OK) ab_note(a, "speculation, %s: %s", list[i].name, why.msg);
    }
    if (b.high > 0)
        ab_claim(a, "speculation", "2 to 3 times", b.high, b.low, b.high, "ratio", b.high >= 2,
                 "tokens a second of one request with drafts against without, over all proposers and tasks",
                 "%.2f times (%s) to %.2f times (%s)", b.high, b.at_high, b.low, b.at_low);
    return HY_OK;
}

hy_status ab_group_speculation(ab *a, hy_err *err)
{
    task t[TASKS];
    hy_status st = make_tasks(t) ? run_all(a, t, err) : hy_fail_memory(err, "tasks", 1024);
    hy_free(t[2].prompt);
    hy_free(t[3].prompt);
    return st;
}
