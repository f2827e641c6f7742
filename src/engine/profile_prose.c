/* A profile in sentences, for people who have not seen one before: what holds the machine back, how near it is to
 * what it was measured to do, and what is worth trying. */
#include "profile.h"
#include <string.h>

enum { n_shown = 3 };          /* things to try, a phase */

static double percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

static bool is_decode(const hy_prof_phase *f)
{
    return strcmp(f->name, "decode") == 0;
}

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* What an operator is for: goes on after "it". */
static const char *purpose(hy_op op)
{
    switch (op) {
    case HY_OP_EMBED: return "looks up a vector for each token";
    case HY_OP_NORM:
    case HY_OP_NORM_QUANT:
    case HY_OP_ADD_NORM: return "scales vectors to one size between the large products";
    case HY_OP_QKV: return "makes queries, keys and values out of each token: a product with three of the model's matrices";
    case HY_OP_ROPE:
    case HY_OP_ROPE_KV: return "tells keys and queries their place in the text, and stores the keys";
    case HY_OP_KV_PUT: return "stores keys and values";
    case HY_OP_ATTENTION: return "compares each token with all tokens before it; it grows with the length of the text";
    case HY_OP_GATED_UP: return "is the first half of the feed-forward part: a product with two of the model's largest matrices";
    case HY_OP_MATMUL_ADD: return "is a product with one of the model's matrices, added to what was there";
    case HY_OP_MATMUL: return "is a product with one of the model's matrices; the last one scores every word of the vocabulary";
    case HY_OP_MOE_ROUTE: return "chooses the experts";
    case HY_OP_MOE_UP:
    case HY_OP_MOE_DOWN: return "multiplies with the chosen experts' matrices";
    default: return "is a small operator between the large products";
    }
}

/* ---- the bottleneck ----------------------------------------------------------------------------- */

static void put_headline(const hy_profile *p, const hy_prof_phase *f, hy_buf *b)
{
    double ms = f->wall_ns / 1e6 / (double)HY_MAX(f->n_step, 1u);
    if (p->load) {
        hy_buf_printf(b, is_decode(f) ? "Giving out answers: %llu step%s of %.2f ms, with %.1f requests each in the mean.\n"
                                      : "Taking in prompts (answers that run go on beside them): %llu step%s of %.1f ms, with %.1f "
                                        "requests each in the mean.\n",
                      (unsigned long long)f->n_step, plural(f->n_step), ms, f->rows);
        return;
    }
    if (is_decode(f))
        hy_buf_printf(b, "Giving out an answer, token by token: %.1f tokens/s; a step takes %.2f ms.\n", hy_prof_speed(p, f), ms);
    else
        hy_buf_printf(b, "Taking in a prompt, many tokens in one step: %.1f tokens/s.\n", hy_prof_speed(p, f));
}

static void put_memory(const hy_profile *p, const hy_prof_phase *f, hy_buf *b)
{
    double share = percent(f->best_ns, f->wall_ns), mb = 0, steps = (double)HY_MAX(f->n_step, 1u);
    for (uint32_t i = 0; i < f->n_op; i++) mb += (double)f->op[i].t.mem_bytes / 1e6;
    hy_buf_printf(b, "Bottleneck: the speed of %s. Each step has to read %.1f MB: all weights once, and the keys and values of the "
                  "texts so far. At the %.1f GB/s that this machine was measured to read with %u thread%s, that alone takes %.2f of "
                  "the %.2f ms. With everything counted it runs at %.0f %% of the measured limit: no program can do more than %.0f "
                  "tokens/s here without reading less.\n",
                  f->in_cache ? "the processor's last cache" : "memory", mb / steps, f->mem_rate / 1e9, f->n_thread,
                  plural(f->n_thread), f->mem_rate > 0 ? mb / steps * 1e9 / f->mem_rate : 0, f->wall_ns / 1e6 / steps, share,
                  hy_prof_speed(p, f) * 100 / HY_MAX(share, 1));
}

static void put_arithmetic(const hy_profile *p, const hy_prof_phase *f, hy_buf *b)
{
    double share = percent(f->best_ns, f->wall_ns), gop = 0;
    for (uint32_t i = 0; i < f->n_op; i++) gop += (double)(f->op[i].t.ops_int8 + f->op[i].t.ops_f32) / 1e9;
    hy_buf_printf(b, "Bottleneck: arithmetic. The weights are read once for many tokens, so multiplying takes longer than reading: "
                  "%.1f thousand million operations, done at %.0f a nanosecond. That is %.0f %% of what %u thread%s of this machine "
                  "were measured to do: no program can do more than %.0f tokens/s here without computing less.\n",
                  gop, f->wall_ns > 0 ? gop * 1e9 / f->wall_ns : 0, share, f->n_thread, plural(f->n_thread),
                  hy_prof_speed(p, f) * 100 / HY_MAX(share, 1));
}

static void put_neck(const hy_profile *p, const hy_prof_phase *f, hy_buf *b)
{
    double share = percent(f->best_ns, f->wall_ns);
    const hy_prof_op *o = &f->op[f->i_neck];
    switch (f->neck) {
    case HY_NECK_MEMORY: put_memory(p, f, b); break;
    case HY_NECK_ARITHMETIC: put_arithmetic(p, f, b); break;
    case HY_NECK_WAITING:
        hy_buf_printf(b, "Bottleneck: the threads wait for each other, %.0f %% of the time. On a machine that does nothing else that "
                      "is a few percent: something else wants the processors, or there are too many threads.",
                      percent(f->wait_ns, f->wall_ns));
        if (f->mem_rate > 0) hy_buf_printf(b, " %.0f %% of the measured limit is reached.", share);
        hy_buf_char(b, '\n');
        break;
    case HY_NECK_OPERATOR:
        hy_buf_printf(b, "Bottleneck: no limit of the machine; %.0f %% of the measured limit is used. Most is lost in `%s`: %.0f %% "
                      "of the time, at %.0f %% of what it could do. Small operators and short vectors leave a machine idle; more "
                      "tokens in a step help.\n",
                      share, hy_op_name(o->t.op), percent((double)o->t.ns, f->wall_ns),
                      percent(o->best_ns, (double)HY_MAX(o->t.ns, 1u)));
        break;
    case HY_NECK_UNKNOWN:
        hy_buf_str(b, "Bottleneck: it cannot be told how near this is to what the machine can do, because that was never measured: "
                      "run `hayate cpu` once on a quiet machine (some seconds), then profile again.\n");
        break;
    }
}

static void put_most(const hy_prof_phase *f, hy_buf *b)
{
    const hy_prof_op *o = &f->op[0];
    if (f->n_op == 0) return;
    hy_buf_printf(b, "Of the operators `%s` takes most, %.0f %% of the time; it %s.\n", hy_op_name(o->t.op),
                  percent((double)o->t.ns, f->wall_ns), purpose(o->t.op));
}

/* ---- what to try -------------------------------------------------------------------------------- */

static void put_tries(const hy_profile *p, const hy_prof_phase *f, hy_buf *b)
{
    uint32_t n = 0, n_guess = 0;
    for (uint32_t i = 0; i < p->n_advice && n < n_shown; i++) {
        const hy_advice *a = &p->advice[i];
        if (a->phase != f) continue;
        if (n++ == 0) hy_buf_str(b, "Worth trying, the surest first:\n");
        n_guess += !a->measured;
        hy_buf_printf(b, "%u. %.2f times as fast%s (%s): %s; %s.\n", n, a->gain,
                      a->throughput ? " for all requests together" : a->sometimes ? " where the text allows" : "",
                      a->measured ? "measured here" : "an estimate", a->what, a->why);
    }
    if (n == 0 && p->probe.n_point == 0) return;
    if (n == 0) hy_buf_str(b, "Nothing known to hayate would make this 3 % faster here.\n");
    else if (n_guess && p->when[0])
        hy_buf_printf(b, "What was measured here is of %s (`hayate bench --ablation`); estimates follow from the times below.\n", p->when);
    else if (n_guess)
        hy_buf_str(b, "Estimates follow from the times below and the machine's limits. `hayate bench --ablation MODEL` measures on "
                      "this machine what each technique is worth; profiles then say those numbers.\n");
    else hy_buf_printf(b, "Measured here by `hayate bench --ablation`, %s.\n", p->when);
}

void hy_prof_prose(const hy_profile *p, const hy_prof_phase *f, hy_buf *b)
{
    put_headline(p, f, b);
    put_neck(p, f, b);
    if (p->probe.load > HY_MAX(p->top.n_cpu_online, 1u))
        hy_buf_str(b, "The limits were measured while the machine was busy, so they are too low: `hayate cpu --fresh` on a quiet one "
                      "measures them again.\n");
    put_most(f, b);
    put_tries(p, f, b);
}

/* ---- a running load ----------------------------------------------------------------------------- */

bool hy_prof_largest(const hy_profile *p, hy_op *op, double *share)
{
    double ns[HY_OP_COUNT] = { 0 }, wall = 0;
    for (uint32_t i = 0; i < p->n_phase; i++) {
        const hy_prof_phase *f = &p->phase[i];
        wall += f->wall_ns;
        for (uint32_t k = 0; k < f->n_op; k++) ns[f->op[k].t.op] += (double)f->op[k].t.ns;
    }
    uint32_t best = 0;
    for (uint32_t k = 1; k < HY_OP_COUNT; k++)
        if (ns[k] > ns[best]) best = k;
    *op = (hy_op)best;
    *share = wall > 0 ? ns[best] / wall : 0;
    return ns[best] > 0;
}

static void put_drafts(const hy_prof_load *l, hy_buf *b)
{
    if (l->n_drafted == 0) return;
    hy_buf_printf(b, "Speculation drafted %llu tokens, of which %llu (%.0f %%) were right.\n", (unsigned long long)l->n_drafted,
                  (unsigned long long)l->n_accepted, percent((double)l->n_accepted, (double)l->n_drafted));
}

void hy_prof_prose_load(const hy_profile *p, hy_buf *b)
{
    const hy_prof_load *l = p->load;
    double s = l->all_ns / 1e9, busy = l->all_ns - l->idle_ns, steps = (double)HY_MAX(l->n_step, 1u), share;
    hy_op op;
    if (l->n_step == 0) {
        hy_buf_printf(b, "Nothing ran in these %.1f seconds, so there is nothing to judge. Send requests, and profile again.\n", s);
        return;
    }
    hy_buf_printf(b, "In these %.1f seconds the engine made %llu step%s and gave out %.1f tokens a second, while it took in %.1f prompt "
                  "tokens a second. In a step %.1f requests ran together in the mean, %u at most.\n",
                  s, (unsigned long long)l->n_step, plural(l->n_step), (double)l->n_out / s, (double)l->n_prompt / s,
                  (double)l->sum_row / steps, l->most_row);
    hy_buf_printf(b, "It was at work %.0f %% of the time and waited for requests in the rest. Of its work %.1f %% was the model's steps, "
                  "%.1f %% sampling and giving out tokens,", percent(busy, l->all_ns), percent(l->run_ns, busy),
                  percent(l->after_ns, busy));
    if (p->drafting) hy_buf_printf(b, " %.1f %% drafting,", percent(l->draft_ns, busy));
    hy_buf_str(b, " the rest scheduling.\n");
    if (hy_prof_largest(p, &op, &share))
        hy_buf_printf(b, "The operator with the largest share of the steps is `%s`: %.0f %%. It %s.\n", hy_op_name(op), 100 * share,
                      purpose(op));
    put_drafts(l, b);
}
