/* `hayate profile`: runs a prompt and decode steps with the plan's clocks on, and judges the times by what
 * the machine was measured to do. */
#include "profile.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { n_round = 3, n_warm = 2, trace_steps = 16, spans_max = 400000 };

typedef struct run {
    hy_session *s;
    const hy_profile_params *o;
    hy_profile *p;
    uint64_t done, all;
} run;

static hy_status tick(run *r, hy_err *err)
{
    r->done++;
    if (r->o->progress && r->o->progress(r->o->progress_ctx, r->done, r->all))
        return hy_fail(err, HY_E_CANCELLED, "the profile was cancelled");
    return HY_OK;
}

/* Keeps a round's times when it was the fastest: a neighbour can only take away. */
static void keep(hy_plan *plan, hy_prof_phase *f, double wall_ns)
{
    if (f->wall_ns > 0 && f->wall_ns <= wall_ns) return;
    hy_op_time t[HY_OP_COUNT];
    f->n_op = hy_plan_times(plan, t);
    f->wall_ns = wall_ns;
    for (uint32_t i = 0; i < f->n_op; i++) f->op[i].t = t[i];
}

static hy_status timed(run *r, hy_prof_phase *f, uint32_t pos0, uint32_t n, uint32_t n_each, hy_err *err)
{
    hy_core *c = hy_session_core(r->s);
    if (!hy_plan_timing(c->plan, true)) return hy_fail_memory(err, "timing", sizeof(hy_op_time) * HY_OP_COUNT);
    uint64_t t0 = hy_now_ns();
    for (uint32_t at = 0; at < n; at += n_each)
        HY_TRY(hy_session_rows(r->s, r->p->rows, pos0 + at, HY_MIN(n_each, n - at), true, err));
    double wall = (double)(hy_now_ns() - t0);
    keep(c->plan, f, wall);
    (void)hy_plan_timing(c->plan, false);
    f->n_thread = hy_team_used(c->team);
    return tick(r, err);
}

/* One round: the depth, the prompt, the steps. */
static hy_status one_round(run *r, hy_prof_phase *prefill, hy_prof_phase *decode, hy_err *err)
{
    const hy_profile_params *o = r->o;
    hy_profile *p = r->p;
    HY_TRY(hy_session_restart(r->s, p->rows, (uint64_t)p->depth + o->n_prompt + n_warm + o->n_gen, err));
    HY_TRY(hy_session_rows(r->s, p->rows, 0, p->depth, false, err));
    if (prefill) HY_TRY(timed(r, prefill, p->depth, o->n_prompt, o->n_prompt, err));
    uint32_t pos = p->depth + o->n_prompt;
    if (!decode) return HY_OK;
    for (uint32_t i = 0; i < n_warm; i++) HY_TRY(hy_session_rows(r->s, p->rows, pos + i, 1, true, err));
    return timed(r, decode, pos + n_warm, o->n_gen, 1, err);
}

static hy_status measure(run *r, hy_err *err)
{
    hy_profile *p = r->p;
    const hy_profile_params *o = r->o;
    const hy_core *c = p->core;
    hy_prof_phase *prefill = NULL, *decode = NULL;
    uint32_t each = HY_MAX(1u, c->n_step / p->rows);
    if (o->n_prompt) {
        prefill = &p->phase[p->n_phase++];
        *prefill = (hy_prof_phase){ .name = "prefill", .n_tok = o->n_prompt, .n_step = (o->n_prompt + each - 1) / each };
    }
    if (o->n_gen) {
        decode = &p->phase[p->n_phase++];
        *decode = (hy_prof_phase){ .name = "decode", .n_tok = o->n_gen, .n_step = o->n_gen };
    }
    r->all = n_round * p->n_phase;
    for (int k = 0; k < n_round; k++) HY_TRY(one_round(r, prefill, decode, err));
    return HY_OK;
}

/* ---- trace ------------------------------------------------------------------------------------- */

typedef struct tracing {
    hy_trace t;
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
    hy_trace_span(&t->t, 0, name, "step", t->step_first - t->ns0, t->step_last - t->ns0, NULL);
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
    hy_trace_span(&t->t, i_thread + 1, hy_op_name(s->op), "operator", s->ns_first - t->ns0, s->ns_done - t->ns0, args);
    if (s->ns_last > s->ns_done)
        hy_trace_span(&t->t, i_thread + 1, "waiting", "barrier", s->ns_done - t->ns0, s->ns_last - t->ns0, NULL);
}

static hy_status write_trace(const hy_core *c, const char *path, hy_err *err)
{
    tracing t = { .any = false };
    HY_TRY(hy_trace_open(&t.t, path, err));
    hy_trace_thread(&t.t, 0, "steps");
    for (uint32_t i = 0; i < hy_team_size(c->team); i++) {
        char name[32];
        snprintf(name, sizeof name, "thread %u", i);
        hy_trace_thread(&t.t, i + 1, name);
    }
    hy_plan_each_span(c->plan, first_span, &t);
    t.any = false;
    hy_plan_each_span(c->plan, put_span, &t);
    end_step(&t);
    return hy_trace_close(&t.t, path, err);
}

/* A run of its own, so that the numbers are those without spans. */
static hy_status trace(run *r, hy_err *err)
{
    hy_profile *p = r->p;
    hy_core *c = hy_session_core(r->s);
    uint64_t n = 0;
    uint32_t steps = HY_MIN(r->o->n_gen, (uint32_t)trace_steps), pos = p->depth + r->o->n_prompt;
    for (uint32_t i = 0; i < p->n_phase; i++) {
        const hy_prof_phase *f = &p->phase[i];
        uint64_t each = 0;
        for (uint32_t k = 0; k < f->n_op; k++) each += f->op[k].t.n;
        n += strcmp(f->name, "decode") == 0 ? each * steps / f->n_step + each / f->n_step : each;
    }
    HY_TRY(hy_session_restart(r->s, p->rows, (uint64_t)pos + steps, err));
    HY_TRY(hy_session_rows(r->s, p->rows, 0, p->depth, false, err));
    HY_TRY(hy_plan_trace(c->plan, hy_team_size(c->team), (uint32_t)HY_MIN(n + 16, (uint64_t)spans_max), err));
    if (r->o->n_prompt) HY_TRY(hy_session_rows(r->s, p->rows, p->depth, r->o->n_prompt, true, err));
    for (uint32_t i = 0; i < steps; i++) HY_TRY(hy_session_rows(r->s, p->rows, pos + i, 1, true, err));
    (void)hy_plan_timing(c->plan, false);
    return write_trace(c, r->o->trace, err);
}

/* ---- all --------------------------------------------------------------------------------------- */

static hy_status profile(run *r, char **text, hy_err *err)
{
    hy_profile *p = r->p;
    const hy_profile_params *o = r->o;
    p->rows = o->rows ? o->rows : 1;
    p->depth = o->depth;
    if (!o->n_prompt && !o->n_gen) return hy_fail(err, HY_E_ARG, "neither a prompt nor tokens to decode: nothing to profile");
    HY_TRY(hy_session_restart(r->s, p->rows, (uint64_t)p->depth + o->n_prompt + (o->n_gen ? n_warm + o->n_gen : 0), err));
    HY_TRY(hy_machine_probe(&p->probe, false, o->progress, o->progress_ctx, NULL, err));
    HY_TRY(measure(r, err));
    if (o->trace) HY_TRY(trace(r, err));
    hy_prof_weights(p);
    for (uint32_t i = 0; i < p->n_phase; i++) hy_prof_roof(p, &p->phase[i]);
    hy_prof_advise(p);
    hy_buf b = { 0 };
    hy_status s = HY_OK;
    if (o->json) s = hy_prof_json(p, &b, err);
    else hy_prof_text(p, &b);
    if (s == HY_OK) s = hy_buf_take(&b, text, err);
    hy_buf_free(&b);
    return s;
}

hy_status hy_session_profile(hy_session *s, const hy_profile_params *o, char **text, hy_err *err)
{
    hy_profile *p = HY_NEW(hy_profile);
    if (!p) return hy_fail_memory(err, "profile", sizeof *p);
    hy_core *c = hy_session_core(s);
    p->core = c;
    hy_cpu_topology(&p->top);
    run r = { .s = s, .o = o, .p = p };
    hy_status st = profile(&r, text, err);
    (void)hy_plan_timing(c->plan, false);
    hy_free(p);
    return st;
}
