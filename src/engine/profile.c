/* `hayate profile`: runs a prompt and decode steps with the plan's clocks on, and judges the times by what
 * the machine was measured to do. */
#include "profile.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { n_round = 3, n_warm = 2, trace_steps = 16, spans_max = 400000 }; /* spans: of each thread */

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
        *prefill = (hy_prof_phase){ .name = "prefill", .rows = p->rows, .n_tok = o->n_prompt, .n_step = (o->n_prompt + each - 1) / each };
    }
    if (o->n_gen) {
        decode = &p->phase[p->n_phase++];
        *decode = (hy_prof_phase){ .name = "decode", .rows = p->rows, .n_tok = o->n_gen, .n_step = o->n_gen };
    }
    r->all = n_round * p->n_phase;
    for (int k = 0; k < n_round; k++) HY_TRY(one_round(r, prefill, decode, err));
    return HY_OK;
}

/* ---- trace ------------------------------------------------------------------------------------- */

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
    hy_plan_rings rings = hy_plan_traced(c->plan);
    hy_trace t;
    HY_TRY(hy_trace_open(&t, r->o->trace, err));
    hy_prof_trace(&rings, &t);
    return hy_trace_close(&t, r->o->trace, err);
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
    return hy_prof_report(p, o->json ? HY_PROFILE_JSON : HY_PROFILE_TEXT, text, err);
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
