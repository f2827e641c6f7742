/* What to try, with the speed to expect: from the measured times, by changing one thing in the roofline.
 * Nothing here is a rule of thumb but how many bytes a type takes. */
#include "profile.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define Q4_BYTES 0.6           /* a weight in a q4_k_m file, with the few matrices that it keeps in q6_k */
#define Q8_BYTES (34.0 / 32)

/* Sums over a phase's matrix products, and its attention. */
typedef struct split {
    double mm_ns, mm_mem, mm_ops;
    double att_ns, att_mem;
} split;

static bool is_product(hy_op op)
{
    return op == HY_OP_MATMUL || op == HY_OP_QKV || op == HY_OP_GATED_UP || op == HY_OP_MATMUL_ADD ||
           op == HY_OP_MOE_UP || op == HY_OP_MOE_DOWN;
}

static split split_of(const hy_prof_phase *f)
{
    split s = { 0 };
    for (uint32_t i = 0; i < f->n_op; i++) {
        const hy_prof_op *o = &f->op[i];
        if (o->t.op == HY_OP_ATTENTION) {
            s.att_ns += (double)o->t.ns;
            s.att_mem += o->mem_ns;
        } else if (is_product(o->t.op)) {
            s.mm_ns += (double)o->t.ns;
            s.mm_mem += o->mem_ns;
            s.mm_ops += o->ops_ns;
        }
    }
    return s;
}

static hy_advice *add(hy_profile *p, const hy_prof_phase *f, const char *id, double gain)
{
    if (!(gain >= HY_GAIN_MIN) || p->n_advice == HY_ADVICE_MAX) return NULL;
    hy_advice *a = &p->advice[p->n_advice++];
    *a = (hy_advice){ .id = id, .gain = gain, .phase = f };
    return a;
}

static bool is_decode(const hy_prof_phase *f)
{
    return strcmp(f->name, "decode") == 0;
}

/* Products' time when each weight takes `ratio` of its bytes: no less than their operations take. */
static double fewer_bytes(const split *s, double ratio)
{
    return s->mm_ns * HY_MAX(ratio, s->mm_ns > 0 ? HY_MIN(1, s->mm_ops / s->mm_ns) : 1);
}

static void weights(hy_profile *p, const hy_prof_phase *f)
{
    split s = split_of(f);
    double all = 0, q4 = 0, q8 = 0, floats = 0;
    for (int t = 0; t < HY_Q_COUNT; t++) {
        double b = (double)p->type_bytes[t], n = (double)p->type_weights[t];
        bool is_float = hy_quant((hy_qtype)t)->is_float;
        all += b;
        floats += is_float ? b : 0;
        q8 += is_float ? HY_MIN(b, n * Q8_BYTES) : b;
        q4 += HY_MIN(b, n * Q4_BYTES);
    }
    if (all <= 0) return;
    if (is_decode(f)) {
        hy_advice *a = add(p, f, "weights-q4", f->wall_ns / (f->wall_ns - s.mm_ns + fewer_bytes(&s, q4 / all)));
        if (a) {
            snprintf(a->what, sizeof a->what, "weights in 4 bits: hayate quantize MODEL OUT q4_k_m (from the original where there is one)");
            snprintf(a->why, sizeof a->why, "a token then reads %.0f MB of weights instead of %.0f; costs some quality: hayate eval kl shows how much",
                     q4 / 1e6, all / 1e6);
        }
        a = floats > 0.05 * all ? add(p, f, "weights-q8", f->wall_ns / (f->wall_ns - s.mm_ns + fewer_bytes(&s, q8 / all))) : NULL;
        if (!a) return;
        snprintf(a->what, sizeof a->what, "weights in 8 bits: --weights q8_0 (while loading)");
        snprintf(a->why, sizeof a->why, "a token then reads %.0f MB of weights instead of %.0f; nearly lossless", q8 / 1e6, all / 1e6);
        return;
    }
    const hy_probe_level *l = hy_probe_level_of(&p->probe, p->core->model->kern.isa);
    if (!l || l->int8_all <= 0 || floats < 0.5 * all) return;
    double left = s.mm_ns * HY_MIN(1, l->f32_all / l->int8_all);
    hy_advice *a = add(p, f, "weights-q8", f->wall_ns / (f->wall_ns - s.mm_ns + left));
    if (!a) return;
    snprintf(a->what, sizeof a->what, "8-bit arithmetic: --weights q8_0 (while loading)");
    snprintf(a->why, sizeof a->why, "unquantised weights are multiplied in floats; this machine does %.1f times as many 8-bit products",
             l->int8_all / l->f32_all);
}

static void activations(hy_profile *p, const hy_prof_phase *f)
{
    const hy_probe_level *l = hy_probe_level_of(&p->probe, p->core->model->kern.isa);
    if (!p->core->act_f32 || p->core->model->all_float || !l || l->int8_all <= 0 || is_decode(f)) return;
    split s = split_of(f);
    hy_advice *a = add(p, f, "activations", f->wall_ns / (f->wall_ns - s.mm_ns * (1 - HY_MIN(1, l->f32_all / l->int8_all))));
    if (!a) return;
    snprintf(a->what, sizeof a->what, "int8 activations: leave out --activations f32");
    snprintf(a->why, sizeof a->why, "this machine does %.1f times as many 8-bit products as float ones", l->int8_all / l->f32_all);
}

static void more_threads(hy_profile *p, const hy_prof_phase *f)
{
    uint32_t n = p->top.n_thread_default;
    if (f->n_thread >= n) return;
    const char *isa = p->core->model->kern.isa;
    hy_probe_point more = hy_probe_at(&p->probe, n), now = hy_probe_at(&p->probe, f->n_thread);
    double peak_now = hy_probe_ops(&p->probe, isa, true, f->n_thread);
    double ratio = is_decode(f) ? more.read[HY_PROBE_MEM] / now.read[HY_PROBE_MEM]
                   : peak_now > 0 ? hy_probe_ops(&p->probe, isa, true, n) / peak_now : 1;
    double work = f->wall_ns - f->outside_ns;
    hy_advice *a = add(p, f, "threads", f->wall_ns / (f->outside_ns + work / ratio));
    if (!a) return;
    snprintf(a->what, sizeof a->what, "more threads: -t %u instead of %u", n, f->n_thread);
    snprintf(a->why, sizeof a->why, "%u threads together %s %.2f times as fast here", n, is_decode(f) ? "read memory" : "compute", ratio);
}

static void waiting(hy_profile *p, const hy_prof_phase *f)
{
    if (f->n_thread < 2 || f->wait_ns < 0.2 * f->wall_ns) return;
    hy_advice *a = add(p, f, "waiting", f->wall_ns / (f->wall_ns - f->wait_ns));
    if (!a) return;
    snprintf(a->what, sizeof a->what, "leave the processors to it, or take a thread less (%s %u)", is_decode(f) ? "--threads-decode" : "-t",
             f->n_thread - 1);
    snprintf(a->why, sizeof a->why, "threads wait %.0f %% of the time for the slowest of them: usually because something else runs on its core; "
             "without that at most this much", 100 * f->wait_ns / f->wall_ns);
}

static void kv_type(hy_profile *p, const hy_prof_phase *f)
{
    const hy_core *c = p->core;
    const hy_hparams *hp = &c->model->hp;
    if (!is_decode(f) || c->kv_type == HY_KV_Q8 || c->kv_type == HY_KV_Q4) return;
    double have = (double)(hy_kv_k_bytes(c->kv_type, hp->d_k) + hy_kv_v_bytes(c->kv_type, hp->d_v));
    double q8 = (double)(hy_kv_k_bytes(HY_KV_Q8, hp->d_k) + hy_kv_v_bytes(HY_KV_Q8, hp->d_v));
    split s = split_of(f);
    hy_advice *a = add(p, f, "kv-type", f->wall_ns / (f->wall_ns - HY_MIN(s.att_mem, s.att_ns) * (1 - q8 / have)));
    if (!a) return;
    snprintf(a->what, sizeof a->what, "keys and values in 8 bits: --kv-type q8");
    snprintf(a->why, sizeof a->why, "attention takes %.0f %% of a step at this depth and would read %.0f %% of its bytes; memory for %.1f times as many tokens",
             100 * s.att_ns / f->wall_ns, 100 * q8 / have, have / q8);
}

/* A step with `rows` sequences instead of this one: products read their weights once for all of them. */
static double step_with(const hy_prof_phase *f, double rows)
{
    double ns = f->wait_ns + f->outside_ns;
    for (uint32_t i = 0; i < f->n_op; i++) {
        const hy_prof_op *o = &f->op[i];
        double one = (double)o->t.ns;
        if (is_product(o->t.op)) ns += HY_MAX(one, one - o->mem_ns + HY_MAX(o->mem_ns, rows * o->ops_ns));
        else ns += rows * one;
    }
    return ns;
}

static void batch(hy_profile *p, const hy_prof_phase *f)
{
    if (!is_decode(f) || f->rows > 1.5) return;
    double one = f->wall_ns, eight = step_with(f, 8);
    hy_advice *a = add(p, f, "batching", 8 * one / eight);
    if (!a) return;
    a->throughput = true;
    snprintf(a->what, sizeof a->what, "requests together: 8 at once (hayate bench -b 8 measures it)");
    snprintf(a->why, sizeof a->why, "they share each reading of the weights: a step of 8 takes about %.1f times as long as one of 1; each answer by "
             "itself gets no faster", eight / one);
}

/* Drafted tokens are rows of the same sequence: checking four takes a step of five. */
static void drafts(hy_profile *p, const hy_prof_phase *f)
{
    if (!is_decode(f) || f->rows > 1.5 || p->drafting) return;
    double one = f->wall_ns, five = step_with(f, 5);
    hy_advice *a = add(p, f, "speculation", 3 * one / five);
    if (!a) return;
    a->sometimes = true;
    snprintf(a->what, sizeof a->what, "drafted tokens: --speculate ngram, where an answer repeats words of its prompt");
    snprintf(a->why, sizeof a->why, "a step that checks 4 drafted tokens takes about %.1f times as long as one of 1 token: this much when half of "
             "them are right; the text stays the same", five / one);
}

static void isa(hy_profile *p, const hy_prof_phase *f)
{
    const char *can[8], *have = p->core->model->kern.isa;
    uint32_t n = hy_kern_isas(hy_cpu_features(), can);
    double now = hy_probe_ops(&p->probe, have, true, f->n_thread);
    if (is_decode(f) || n == 0 || now <= 0 || strcmp(can[n - 1], have) == 0) return;
    double ratio = hy_probe_ops(&p->probe, can[n - 1], true, f->n_thread) / now;
    split s = split_of(f);
    if (ratio <= 1) return;
    hy_advice *a = add(p, f, "isa", f->wall_ns / (f->wall_ns - s.mm_ns + s.mm_ns / ratio));
    if (!a) return;
    snprintf(a->what, sizeof a->what, "this machine's best kernels: --isa %s instead of %s", can[n - 1], have);
    snprintf(a->why, sizeof a->why, "they do %.1f times as many products at their peak", ratio);
}

static void prefix(hy_profile *p, const hy_prof_phase *f)
{
    if (is_decode(f) || f->n_tok < 64) return;
    hy_advice *a = add(p, f, "prefix-cache", 2);
    if (!a) return;
    a->sometimes = true;
    snprintf(a->what, sizeof a->what, "prompts that begin alike: put what stays the same first");
    snprintf(a->why, sizeof a->why, "hayate serve keeps the pages of earlier prompts; where the first half of a prompt was seen before, half the "
             "work is left");
}

static int by_gain(const void *a, const void *b)
{
    const hy_advice *x = a, *y = b;
    if (x->phase != y->phase) return (x->phase > y->phase) - (x->phase < y->phase);
    int rank_x = 2 * x->throughput + x->sometimes, rank_y = 2 * y->throughput + y->sometimes;
    if (rank_x != rank_y) return rank_x - rank_y;
    return (x->gain < y->gain) - (x->gain > y->gain);
}

void hy_prof_advise(hy_profile *p, const json_t *ablation)
{
    for (uint32_t i = 0; i < p->n_phase; i++) {
        const hy_prof_phase *f = &p->phase[i];
        waiting(p, f);
        prefix(p, f);
        if (p->probe.n_point == 0) continue; /* the rest is judged by the machine's limits */
        weights(p, f);
        activations(p, f);
        more_threads(p, f);
        kv_type(p, f);
        isa(p, f);
        drafts(p, f);
        batch(p, f);
    }
    if (ablation) hy_prof_measured(p, ablation);
    qsort(p->advice, p->n_advice, sizeof *p->advice, by_gain);
}
