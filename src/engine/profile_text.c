/* The profile as text for people and as JSON for programs. */
#include "profile.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { n_shown = 3 };          /* things to try, a phase */

static double speed(const hy_profile *p, const hy_prof_phase *f)
{
    return f->wall_ns > 0 ? (double)f->n_tok * p->rows * 1e9 / f->wall_ns : 0;
}

static double percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

static void put_row(const hy_prof_phase *f, const char *name, double ns, hy_buf *b)
{
    hy_buf_printf(b, "  %-28s %9.2f %7.1f %%", name, ns / 1e6, percent(ns, f->wall_ns));
}

static void put_op(const hy_prof_phase *f, const hy_prof_op *o, hy_buf *b)
{
    double ns = (double)HY_MAX(o->t.ns, 1u);
    put_row(f, hy_op_name(o->t.op), (double)o->t.ns, b);
    hy_buf_printf(b, " %8.1f %8.1f", (double)o->t.bytes / ns, (double)(o->t.ops_int8 + o->t.ops_f32) / ns);
    if (o->bound == HY_BOUND_NONE) hy_buf_str(b, "  -\n");
    else hy_buf_printf(b, "  %-10s %5.0f %%\n", hy_bound_name(o->bound), percent(o->best_ns, ns));
}

static void put_neck(const hy_profile *p, const hy_prof_phase *f, hy_buf *b)
{
    double share = percent(f->best_ns, f->wall_ns);
    const hy_prof_op *o = &f->op[f->i_neck];
    hy_buf_str(b, "\n  Bottleneck: ");
    switch (f->neck) {
    case HY_NECK_MEMORY:
        hy_buf_printf(b, "the speed of %s. Reading what has to be read takes %.0f %% of the time at the\n"
                      "  %.1f GB/s measured with %u thread%s: it cannot get faster than %.0f tokens/s without reading less.\n",
                      f->in_cache ? "the last cache" : "memory", share, f->mem_rate / 1e9, f->n_thread,
                      f->n_thread == 1 ? "" : "s", speed(p, f) * 100 / HY_MAX(share, 1));
        break;
    case HY_NECK_ARITHMETIC:
        hy_buf_printf(b, "arithmetic. The operations alone take %.0f %% of the time at the peak measured with\n"
                      "  %u thread%s: it cannot get faster than %.0f tokens/s without computing less.\n", share, f->n_thread,
                      f->n_thread == 1 ? "" : "s", speed(p, f) * 100 / HY_MAX(share, 1));
        break;
    case HY_NECK_WAITING:
        hy_buf_printf(b, "threads wait for each other %.0f %% of the time. On a machine that does nothing else\n"
                      "  that is a few percent: something else wants the processors, or there are too many threads.\n",
                      percent(f->wait_ns, f->wall_ns));
        break;
    case HY_NECK_OPERATOR:
        hy_buf_printf(b, "no limit of the machine (%.0f %% of it is used). Most is lost in `%s`: %.0f %% of the time\n"
                      "  at %.0f %% of its limit. Small operators and short vectors leave a machine idle; more rows a step help.\n",
                      share, hy_op_name(o->t.op), percent((double)o->t.ns, f->wall_ns),
                      percent(o->best_ns, (double)HY_MAX(o->t.ns, 1u)));
        break;
    }
}

static void put_advice(const hy_profile *p, const hy_prof_phase *f, hy_buf *b)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_advice && n < n_shown; i++) {
        const hy_advice *a = &p->advice[i];
        if (a->phase != f) continue;
        if (n++ == 0) hy_buf_str(b, "  Worth trying:\n");
        hy_buf_printf(b, "    %.2fx%s  %s\n           %s\n", a->gain,
                      a->throughput ? " in all" : a->sometimes ? " at times" : "", a->what, a->why);
    }
    if (n == 0) hy_buf_str(b, "  Nothing known to hayate would make it 3 % faster here.\n");
}

static void put_phase(const hy_profile *p, const hy_prof_phase *f, hy_buf *b)
{
    hy_buf_printf(b, "\n%s: %u tokens", f->name, f->n_tok);
    if (p->rows > 1) hy_buf_printf(b, " of each of %u sequences", p->rows);
    if (p->depth) hy_buf_printf(b, " after %u in the cache", p->depth);
    hy_buf_printf(b, ", %u step%s, %u thread%s: %.1f ms, %.1f tokens/s\n", f->n_step, f->n_step == 1 ? "" : "s", f->n_thread,
                  f->n_thread == 1 ? "" : "s", f->wall_ns / 1e6, speed(p, f));
    hy_buf_str(b, "  operator                            ms    time       GB/s    Gop/s  limit      of limit\n");
    for (uint32_t i = 0; i < f->n_op; i++) put_op(f, &f->op[i], b);
    put_row(f, "waiting at barriers", f->wait_ns, b);
    hy_buf_char(b, '\n');
    put_row(f, "outside the operators", f->outside_ns, b);
    hy_buf_char(b, '\n');
    put_neck(p, f, b);
    put_advice(p, f, b);
}

void hy_prof_text(const hy_profile *p, hy_buf *b)
{
    const hy_core *c = p->core;
    hy_buf_printf(b, "%s, kernels %s, KV %s, ", c->model->family->name, c->model->kern.isa,
                  hy_kv_type_name(c->kv_type));
    uint64_t all = 0;
    for (int t = 0; t < HY_Q_COUNT; t++) all += p->type_bytes[t];
    hy_buf_printf(b, "%.1f MB of matrices a token:", (double)all / 1e6);
    for (int t = 0; t < HY_Q_COUNT; t++)
        if (p->type_bytes[t])
            hy_buf_printf(b, " %s %.0f %%", hy_quant((hy_qtype)t)->name, percent((double)p->type_bytes[t], (double)all));
    hy_buf_str(b, "\n\"limit\" is what this machine was measured to do (hayate cpu); \"of limit\" how near the operator comes.\n");
    for (uint32_t i = 0; i < p->n_phase; i++) put_phase(p, &p->phase[i], b);
}

/* ---- JSON -------------------------------------------------------------------------------------- */

static json_t *op_json(const hy_prof_phase *f, const hy_prof_op *o)
{
    double ns = (double)o->t.ns;
    return json_pack("{s:s, s:I, s:f, s:f, s:I, s:I, s:I, s:I, s:f, s:s, s:f}", "op", hy_op_name(o->t.op), "n",
                     (json_int_t)o->t.n, "ms", ns / 1e6, "share", f->wall_ns > 0 ? ns / f->wall_ns : 0.0, "bytes",
                     (json_int_t)o->t.bytes, "memory_bytes", (json_int_t)o->t.mem_bytes, "ops_int8",
                     (json_int_t)o->t.ops_int8, "ops_f32", (json_int_t)o->t.ops_f32, "best_ms", o->best_ns / 1e6, "limit",
                     hy_bound_name(o->bound), "of_limit", ns > 0 ? o->best_ns / ns : 0.0);
}

static json_t *phase_json(const hy_profile *p, const hy_prof_phase *f)
{
    static const char *const necks[] = { "memory", "arithmetic", "waiting", "operator" };
    json_t *ops = json_array(), *advice = json_array();
    for (uint32_t i = 0; i < f->n_op; i++) json_array_append_new(ops, op_json(f, &f->op[i]));
    for (uint32_t i = 0; i < p->n_advice; i++) {
        const hy_advice *a = &p->advice[i];
        if (a->phase == f)
            json_array_append_new(advice, json_pack("{s:s, s:s, s:f, s:b, s:b}", "what", a->what, "why", a->why, "gain",
                                                    a->gain, "throughput", a->throughput, "sometimes", a->sometimes));
    }
    return json_pack("{s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:s, s:s, s:o, s:o}", "phase", f->name, "tokens",
                     (int)f->n_tok, "steps", (int)f->n_step, "threads", (int)f->n_thread, "ms", f->wall_ns / 1e6,
                     "tokens_per_second", speed(p, f), "waiting_ms", f->wait_ns / 1e6, "outside_ms", f->outside_ns / 1e6,
                     "of_limit", f->wall_ns > 0 ? f->best_ns / f->wall_ns : 0.0, "memory_rate", f->mem_rate, "in_cache",
                     f->in_cache, "bottleneck", necks[f->neck], "bottleneck_op",
                     f->n_op ? hy_op_name(f->op[f->i_neck].t.op) : "", "operators", ops, "advice", advice);
}

hy_status hy_prof_json(const hy_profile *p, hy_buf *out, hy_err *err)
{
    const hy_core *c = p->core;
    json_t *phases = json_array(), *types = json_object();
    for (uint32_t i = 0; i < p->n_phase; i++) json_array_append_new(phases, phase_json(p, &p->phase[i]));
    for (int t = 0; t < HY_Q_COUNT; t++)
        if (p->type_bytes[t])
            json_object_set_new(types, hy_quant((hy_qtype)t)->name, json_integer((json_int_t)p->type_bytes[t]));
    json_t *all = json_pack("{s:s, s:s, s:s, s:i, s:i, s:o, s:o, s:o}", "family", c->model->family->name, "isa",
                            c->model->kern.isa, "kv_type", hy_kv_type_name(c->kv_type), "rows", (int)p->rows, "depth",
                            (int)p->depth, "weight_bytes", types, "limits", hy_probe_json(&p->probe), "phases", phases);
    char *text = all ? json_dumps(all, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(all);
    if (!text) return hy_fail_memory(err, "JSON", 4096);
    hy_buf_str(out, text);
    hy_buf_char(out, '\n');
    free(text);
    return HY_OK;
}
