/* What every thread did when, as a trace that ui.perfetto.dev opens: a line for the steps, one for each thread. */
#include "profile.h"
#include <stdio.h>

typedef struct tracing {
    hy_trace *t;
    uint64_t ns0;              /* the first span's */
    uint64_t i_step, step_first, step_last; /* of thread 0's current step */
    bool any;
} tracing;

static void first_span(void *ctx, uint32_t i_thread, const hy_plan_span *s)
{
    tracing *t = ctx;
    if (!t->any || s->ns_first < t->ns0) t->ns0 = s->ns_first;
    t->any = true;
}

static void end_step(tracing *t)
{
    if (!t->any) return;
    char name[64];
    snprintf(name, sizeof name, "step %llu", (unsigned long long)t->i_step);
    hy_trace_span(t->t, 0, name, "step", t->step_first - t->ns0, t->step_last - t->ns0, NULL);
}

static void put_span(void *ctx, uint32_t i_thread, const hy_plan_span *s)
{
    tracing *t = ctx;
    if (i_thread == 0) {
        if (!t->any || s->i_step != t->i_step) {
            end_step(t);
            t->i_step = s->i_step;
            t->step_first = s->ns_first;
            t->any = true;
        }
        t->step_last = s->ns_last;
    }
    char args[64];
    snprintf(args, sizeof args, "{\"layer\": %d}", (int)s->i_layer);
    hy_trace_span(t->t, i_thread + 1, hy_op_name(s->op), "operator", s->ns_first - t->ns0, s->ns_done - t->ns0, args);
    if (s->ns_last > s->ns_done)
        hy_trace_span(t->t, i_thread + 1, "waiting", "barrier", s->ns_done - t->ns0, s->ns_last - t->ns0, NULL);
}

void hy_prof_trace(const hy_plan_rings *r, hy_trace *out)
{
    tracing t = { .t = out };
    hy_trace_thread(out, 0, "steps");
    for (uint32_t i = 0; i < r->n_thread; i++) {
        char name[32];
        snprintf(name, sizeof name, "thread %u", i);
        hy_trace_thread(out, i + 1, name);
    }
    hy_plan_each_span(r, first_span, &t);
    t.any = false;
    hy_plan_each_span(r, put_span, &t);
    end_step(&t);
}
