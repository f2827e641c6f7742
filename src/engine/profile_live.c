/* The running load, profiled: the plan's clocks are on for some seconds, and the engine's thread adds up what they say
 * after each step. A caller asks by putting itself into the engine; nobody waits for anybody. */
#include "engine.h"
#include "profile.h"
#include <stdlib.h>
#include <string.h>

#define SPANS_ALL 65536        /* kept for a trace, over all threads: the last ones */

struct hy_profiling {
    hy_engine *engine;
    _Atomic int n_ref;         /* the caller's and the engine's */
    _Atomic uint32_t gate;     /* HY_GATE_*, as a request's */
    _Atomic bool stop, done;
    void (*notify)(void *ctx);
    void *notify_ctx;
    double seconds;
    _Atomic uint64_t ns_end;   /* set once it runs */

    /* engine thread until done, then the caller's */
    bool running, timed;
    hy_op_time last[HY_OP_COUNT]; /* what the clocks said after the step before, by operator */
    hy_profile prof;
    hy_prof_load load;
    uint64_t ns_begin, ns_ran, n_out, n_drafted, n_accepted;
    hy_plan_rings rings;
};

static void unref(hy_profiling *p)
{
    if (atomic_fetch_sub(&p->n_ref, 1) != 1) return;
    hy_free(p->rings.span);
    hy_free(p->rings.n_taken);
    hy_free(p);
}

/* ---- the engine's thread ------------------------------------------------------------------------ */

static hy_profiling *current(hy_engine *e)
{
    return atomic_load_explicit(&e->profiling, memory_order_acquire);
}

static void drafts_so_far(const hy_engine *e, uint64_t *drafted, uint64_t *accepted)
{
    *drafted = *accepted = 0;
    for (uint32_t k = 0; e->drafts && k < HY_SPEC_MAX; k++) {
        *drafted += HY_GET(e->drafts->n_drafted[k]);
        *accepted += HY_GET(e->drafts->n_accepted[k]);
    }
}

/* What the clocks moved since the last look goes to a phase (NULL: nowhere). */
static void take_times(hy_engine *e, hy_profiling *p, hy_prof_phase *f)
{
    hy_op_time t[HY_OP_COUNT];
    uint32_t n = hy_plan_times(e->core->plan, t);
    for (uint32_t i = 0; i < n; i++) {
        hy_op_time *was = &p->last[t[i].op];
        if (f) {
            hy_op_time *to = &f->op[t[i].op].t; /* by operator until the end */
            to->op = t[i].op;
            to->n += t[i].n - was->n;
            to->ns += t[i].ns - was->ns;
            to->wait_ns += t[i].wait_ns - was->wait_ns;
            to->bytes += t[i].bytes - was->bytes;
            to->mem_bytes += t[i].mem_bytes - was->mem_bytes;
            to->ops_int8 += t[i].ops_int8 - was->ops_int8;
            to->ops_f32 += t[i].ops_f32 - was->ops_f32;
        }
        *was = t[i];
    }
}

static void begin(hy_engine *e, hy_profiling *p, uint64_t now)
{
    hy_plan *plan = e->core->plan;
    p->running = true;
    p->timed = e->core->timing || hy_plan_timing(plan, true);
    if (p->timed && p->rings.span) hy_plan_trace_into(plan, p->rings);
    take_times(e, p, NULL);
    drafts_so_far(e, &p->n_drafted, &p->n_accepted);
    p->n_out = HY_GET(e->c_output_tok);
    p->ns_begin = now;
    atomic_store(&p->ns_end, now + (uint64_t)(p->seconds * 1e9));
}

static void end(hy_engine *e, hy_profiling *p, uint64_t now)
{
    hy_plan *plan = e->core->plan;
    if (p->running) {
        if (p->rings.span) hy_plan_trace_into(plan, (hy_plan_rings){ 0 });
        if (!e->core->timing) (void)hy_plan_timing(plan, false);
        uint64_t drafted, accepted;
        drafts_so_far(e, &drafted, &accepted);
        p->load.n_drafted = drafted - p->n_drafted;
        p->load.n_accepted = accepted - p->n_accepted;
        p->load.n_out = HY_GET(e->c_output_tok) - p->n_out;
        p->load.all_ns = (double)(now - p->ns_begin);
    }
    atomic_store(&e->profiling, NULL);
    atomic_store(&p->done, true);
    uint32_t open = 0;
    if (p->notify && atomic_compare_exchange_strong(&p->gate, &open, HY_GATE_CALLING)) {
        p->notify(p->notify_ctx);
        if (atomic_fetch_and(&p->gate, ~HY_GATE_CALLING) & HY_GATE_RELEASED) hy_word_wake(&p->gate);
    }
    unref(p);
}

/* What followed the plan's run: sampling, giving out. */
static void step_over(hy_profiling *p, uint64_t now)
{
    if (p->ns_ran) p->load.after_ns += (double)(now - p->ns_ran);
    p->ns_ran = 0;
}

void hy_profiling_look(hy_engine *e)
{
    hy_profiling *p = current(e);
    if (!p) return;
    uint64_t now = hy_now_ns();
    step_over(p, now);
    if (!p->running && !atomic_load(&p->stop)) begin(e, p, now);
    if (atomic_load(&p->stop) || atomic_load(&e->drain) || !p->timed || now >= atomic_load(&p->ns_end)) end(e, p, now);
}

void hy_profiling_leave(hy_engine *e)
{
    hy_profiling *p = current(e);
    if (p) end(e, p, hy_now_ns());
}

void hy_profiling_wait(hy_engine *e, uint32_t seen, int64_t timeout_us)
{
    hy_profiling *p = current(e);
    if (!p || !p->running) {
        hy_word_wait(&e->wake, seen, p ? 0 : timeout_us);
        return;
    }
    uint64_t now = hy_now_ns(), last = atomic_load(&p->ns_end);
    step_over(p, now);
    int64_t left = last > now ? (int64_t)((last - now) / 1000) + 1 : 0;
    hy_word_wait(&e->wake, seen, timeout_us < 0 ? left : HY_MIN(timeout_us, left));
    p->load.idle_ns += (double)(hy_now_ns() - now);
}

static void count_sizes(hy_engine *e, hy_prof_load *l, const hy_batch *b)
{
    uint32_t k = 0;
    while (k + 1 < HY_PROF_SIZES && b->n_row > 1u << k) k++;
    l->by_row[k]++;
    l->n_step++;
    l->sum_row += b->n_row;
    l->sum_tok += b->n_tok;
    l->most_row = HY_MAX(l->most_row, b->n_row);
    l->most_tok = HY_MAX(l->most_tok, b->n_tok);
    for (uint32_t i = 0; i < b->n_row; i++)
        if (!e->row_req[i]->q.decoding) l->n_prompt += e->row_req[i]->q.n_give;
}

/* A step that gives every row one known token only decodes; drafts stand behind it. */
static bool only_decodes(const hy_engine *e, const hy_batch *b)
{
    for (uint32_t i = 0; i < b->n_row; i++)
        if (e->row_req[i]->q.n_give != 1 || !e->row_req[i]->q.decoding) return false;
    return true;
}

void hy_profiling_step(hy_engine *e, const hy_batch *b, const hy_prof_moments *m)
{
    hy_profiling *p = current(e);
    if (!p || !p->running || b->n_tok == 0) return;
    hy_prof_phase *f = &p->prof.phase[only_decodes(e, b)];
    take_times(e, p, f);
    count_sizes(e, &p->load, b);
    f->n_step++;
    f->n_tok += b->n_tok;
    f->rows += b->n_row; /* the sum until the end */
    f->n_thread = HY_MAX(f->n_thread, hy_team_used(e->core->team));
    f->wall_ns += (double)(m->ran - m->run);
    p->load.run_ns += (double)(m->ran - m->run);
    p->load.draft_ns += (double)(m->drafted - m->begin);
    p->ns_ran = m->ran;
}

/* ---- the caller --------------------------------------------------------------------------------- */

static bool make_rings(hy_profiling *p)
{
    uint32_t n_thread = hy_team_size(p->engine->core->team);
    hy_plan_rings *r = &p->rings;
    r->n_thread = n_thread;
    r->n_span = HY_MAX(SPANS_ALL / n_thread, 1u);
    r->span = HY_NEW_ARRAY(hy_plan_span, (size_t)n_thread * r->n_span);
    r->n_taken = HY_NEW_ARRAY(uint64_t, n_thread);
    return r->span && r->n_taken;
}

hy_status hy_profiling_start(hy_engine *e, double seconds, bool trace, void (*notify)(void *ctx), void *ctx,
                             hy_profiling **out, hy_err *err)
{
    *out = NULL;
    if (!(seconds > 0 && seconds <= HY_PROFILE_SECONDS_MAX))
        return hy_fail(err, HY_E_ARG, "seconds: %g is not above 0 and at most %d", seconds, HY_PROFILE_SECONDS_MAX);
    if (atomic_load(&e->drain)) return hy_fail(err, HY_E_BUSY, "draining");
    hy_profiling *p = HY_NEW(hy_profiling), *none = NULL;
    if (!p) return hy_fail_memory(err, "profile", sizeof *p);
    atomic_init(&p->n_ref, 2);
    p->engine = e;
    p->seconds = seconds;
    p->notify = notify;
    p->notify_ctx = ctx;
    p->prof.phase[0].name = "prefill";
    p->prof.phase[1].name = "decode";
    hy_status s = trace && !make_rings(p) ? hy_fail_memory(err, "trace", SPANS_ALL * sizeof(hy_plan_span)) : HY_OK;
    if (s == HY_OK && !atomic_compare_exchange_strong(&e->profiling, &none, p))
        s = hy_fail(err, HY_E_BUSY, "another profile runs");
    if (s != HY_OK) {
        atomic_store(&p->n_ref, 1);
        unref(p);
        return s;
    }
    HY_SET(e->us_profiled, hy_now_us() + (uint64_t)(seconds * 1e6));
    hy_tick_wake(&e->wake);
    *out = p;
    return HY_OK;
}

bool hy_profiling_done(const hy_profiling *p)
{
    return atomic_load(&p->done);
}

void hy_profiling_stop(hy_profiling *p)
{
    atomic_store(&p->stop, true);
    hy_tick_wake(&p->engine->wake);
}

double hy_profiling_left(const hy_engine *e)
{
    return HY_GET(e->profiling) ? (double)HY_MAX((int64_t)(HY_GET(e->us_profiled) - hy_now_us()), 1) / 1e6 : 0;
}

void hy_profiling_close(hy_profiling *p)
{
    if (!p) return;
    uint32_t gate = atomic_fetch_or(&p->gate, HY_GATE_RELEASED) | HY_GATE_RELEASED;
    for (; gate & HY_GATE_CALLING; gate = atomic_load(&p->gate)) hy_word_wait(&p->gate, gate, -1);
    if (!atomic_load(&p->done)) hy_profiling_stop(p);
    unref(p);
}

/* Times by operator -> those that ran, and phases that were met. */
static void settle(hy_profiling *p)
{
    hy_profile *o = &p->prof;
    for (uint32_t i = 0; i < HY_COUNT(o->phase); i++) {
        hy_prof_phase *f = &o->phase[i];
        if (f->n_step == 0) continue;
        for (uint32_t k = 0; k < HY_OP_COUNT; k++)
            if (f->op[k].t.n) f->op[f->n_op++] = f->op[k];
        f->rows /= (double)f->n_step;
        if (o->n_phase != i) o->phase[o->n_phase] = *f;
        o->n_phase++;
    }
    o->core = p->engine->core;
    o->rows = 1;
    o->load = &p->load;
    o->drafting = p->engine->drafts != NULL;
    hy_cpu_topology(&o->top);
    (void)hy_machine_kept(&o->probe);
}

static hy_status as_trace(const hy_profiling *p, char **text, hy_err *err)
{
    hy_trace t;
    char *made = NULL;
    size_t n = 0;
    if (!p->rings.span) return hy_fail(err, HY_E_ARG, "the profile was started without a trace");
    HY_TRY(hy_trace_open_text(&t, &made, &n, err));
    hy_prof_trace(&p->rings, &t);
    hy_status s = hy_trace_close(&t, "trace", err);
    *text = s == HY_OK ? hy_strndup(made, n) : NULL;
    free(made); /* the C library's */
    return s != HY_OK ? s : *text ? HY_OK : hy_fail_memory(err, "trace", n);
}

hy_status hy_profiling_report(hy_profiling *p, hy_profile_form form, char **text, hy_err *err)
{
    *text = NULL;
    if (!atomic_load(&p->done)) return hy_fail(err, HY_E_ARG, "the profile still runs");
    if (p->running && !p->timed) return hy_fail_memory(err, "timing", sizeof(hy_op_time) * HY_OP_COUNT);
    if (form == HY_PROFILE_TRACE) return as_trace(p, text, err);
    if (!p->prof.core) settle(p);
    return hy_prof_report(&p->prof, form, text, err);
}
