/* For tests of the engine through its public interface. */
#ifndef ENGINE_HELP_H
#define ENGINE_HELP_H

#include "../common/engine_options.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LLAMA3 HY_DATA "/models/llama3/model-bf16.gguf"
enum { MAX_GEN = 64 };

typedef struct answer {
    int32_t id[MAX_GEN];
    float logprob[MAX_GEN];
    uint32_t n;
    char text[4096];
    hy_finish finish;
    hy_usage usage;
    hy_status status;
} answer;

static hy_engine *open_model(const char *model, void (*change)(hy_options *))
{
    hy_options o = engine_options(model, 256, 2, 0);
    hy_err err;
    hy_engine *e;
    if (change) change(&o);
    if (hy_open(&e, &o, &err) != HY_OK) fail_msg("%s", err.msg);
    return e;
}

static hy_request *ask(hy_engine *e, const hy_params *p)
{
    hy_request *r;
    hy_err err;
    if (hy_submit(e, p, &r, &err) != HY_OK) fail_msg("%s", err.msg);
    return r;
}

/* To the end; not released. */
static void read_answer(hy_request *r, answer *a)
{
    hy_event ev;
    hy_err err;
    size_t n = 0;
    memset(a, 0, sizeof *a);
    do {
        a->status = hy_poll(r, 600000, &ev, &err);
        assert_int_not_equal(ev.kind, HY_EV_NONE);
        for (uint32_t i = 0; i < ev.n_token; i++) {
            assert_true(a->n < MAX_GEN);
            a->id[a->n] = ev.token[i].id;
            a->logprob[a->n++] = ev.token[i].logprob;
        }
        assert_true(n + ev.n_text < sizeof a->text);
        memcpy(a->text + n, ev.text, ev.n_text);
        n += ev.n_text;
    } while (ev.kind != HY_EV_DONE);
    a->finish = ev.finish;
    a->usage = ev.usage;
}

static void finish(hy_request *r, answer *a)
{
    read_answer(r, a);
    hy_release(r);
}

static inline void same_answer(const char *what, unsigned i, const answer *a, const answer *b)
{
    if (a->n != b->n || memcmp(a->id, b->id, a->n * sizeof *a->id) ||
        memcmp(a->logprob, b->logprob, a->n * sizeof *a->logprob) || strcmp(a->text, b->text))
        fail_msg("%s: request %u: %u and %u tokens, not the same", what, i, a->n, b->n);
}

#endif
