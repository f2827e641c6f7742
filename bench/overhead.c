/* What the clocks of `hayate profile` cost: steps of a session whose clocks were never on (twice a round: how far two
 * equal things differ), of one whose clocks were on and are off, are on, and are on with spans for a trace. All take
 * turns, step by step, in an order that rotates; ratios are to the mean of the two of the same round.
 *
 *   bench_overhead MODEL [seconds 20] [threads 0: chosen] [prompt 128]        a line of JSON for decode and for prefill */
#include "engine/measured.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEVER, AGAIN, OFF, ON, TRACE, SIDES };
enum { ROUNDS = 20000, DEPTH = 64, SPAN = 128, RING = 65536 };
static const char *const names[SIDES] = { "never", "again", "off", "on", "trace" };

typedef struct world {
    hy_session *s[2];          /* never timed; timed */
    hy_plan_rings rings;
    double *us[SIDES];         /* [ROUNDS] */
    uint32_t n;
} world;

static void must(hy_status st, const hy_err *err)
{
    if (st == HY_OK) return;
    fprintf(stderr, "bench_overhead: %s\n", err->msg);
    exit(1);
}

static void open_world(world *w, const char *model, uint32_t n_threads, uint32_t n_prompt)
{
    hy_err err = { 0 };
    hy_options o;
    hy_options_init(&o);
    o.model = model;
    o.n_threads = n_threads;
    o.n_seq = 1;
    o.n_step = HY_MAX(256u, n_prompt);
    o.n_ctx = HY_MAX((uint32_t)(DEPTH + SPAN), n_prompt) + 1;
    must(hy_session_open(&w->s[0], &o, &err), &err);
    hy_facts f;
    hy_session_facts(w->s[0], &f);
    o.n_threads = f.n_threads; /* chosen once, for both */
    o.n_threads_decode = f.n_threads_decode;
    must(hy_session_share(&w->s[1], w->s[0], &o, &err), &err);
    hy_core *c = hy_session_core(w->s[1]);
    must(hy_plan_trace(c->plan, hy_team_size(c->team), RING, &err), &err);
    w->rings = hy_plan_traced(c->plan);
    for (int i = 0; i < SIDES; i++) {
        w->us[i] = hy_alloc_array(ROUNDS, sizeof(double));
        if (!w->us[i]) exit(1);
    }
}

/* One step, or one prompt, of a side; its time. */
static double one(world *w, int side, uint32_t pos, uint32_t n_tok)
{
    hy_err err = { 0 };
    hy_session *s = w->s[side >= OFF];
    hy_plan *plan = hy_session_core(s)->plan;
    if (side >= OFF) {
        if (!hy_plan_timing(plan, side != OFF)) exit(1);
        hy_plan_trace_into(plan, side == TRACE ? w->rings : (hy_plan_rings){ 0 });
    }
    uint64_t t0 = hy_now_ns();
    must(hy_session_rows(s, 1, pos, n_tok, true, &err), &err);
    return (double)(hy_now_ns() - t0) / 1e3;
}

static void restart(world *w, uint32_t depth)
{
    hy_err err = { 0 };
    for (int i = 0; i < 2; i++) {
        must(hy_session_restart(w->s[i], 1, depth + 1ull, &err), &err);
        if (depth) must(hy_session_rows(w->s[i], 1, 0, depth, false, &err), &err);
    }
}

static void run(world *w, bool decode, uint32_t n_prompt, double seconds)
{
    uint64_t end = hy_now_us() + (uint64_t)(seconds * 1e6);
    w->n = 0;
    for (uint32_t i = 0; i < ROUNDS && (i < 8 || hy_now_us() < end); i++) {
        if (decode && i % SPAN == 0) restart(w, DEPTH);
        for (uint32_t k = 0; k < SIDES; k++) {
            int side = (int)((i + k) % SIDES);
            if (!decode) restart(w, 0);
            double us = decode ? one(w, side, DEPTH + i % SPAN, 1) : one(w, side, 0, n_prompt);
            if (i >= 3) w->us[side][w->n] = us; /* the first rounds warm up */
        }
        w->n += i >= 3;
    }
}

/* Median of the ratios and its 95 % interval by ranks, as percent more. */
static void put_side(const world *w, int side, double *ratio)
{
    for (uint32_t i = 0; i < w->n; i++) {
        double a = w->us[NEVER][i], b = w->us[AGAIN][i];
        ratio[i] = side == AGAIN ? b / a : w->us[side][i] / ((a + b) / 2);
    }
    double middle = hy_median(ratio, w->n), half = 0.98 * sqrt(w->n); /* sorts */
    uint32_t low = (uint32_t)HY_MAX(0, w->n / 2.0 - half), high = (uint32_t)HY_MIN(w->n - 1.0, w->n / 2.0 + half);
    printf(", \"%s\": {\"more_pct\": %.3f, \"low_pct\": %.3f, \"high_pct\": %.3f}", names[side], 100 * (middle - 1),
           100 * (ratio[low] - 1), 100 * (ratio[high] - 1));
}

static void put(const world *w, const char *phase, uint32_t n_tok)
{
    hy_facts f;
    hy_session_facts(w->s[0], &f);
    double *ratio = hy_alloc_array(ROUNDS, sizeof *ratio);
    if (!ratio) exit(1);
    memcpy(ratio, w->us[NEVER], w->n * sizeof *ratio);
    printf("{\"phase\": \"%s\", \"tokens\": %u, \"rounds\": %u, \"threads\": %u, \"isa\": \"%s\", \"never_us\": %.1f", phase,
           n_tok, w->n, n_tok > 1 ? f.n_threads : f.n_threads_decode, f.isa, hy_median(ratio, w->n));
    for (int side = AGAIN; side < SIDES; side++) put_side(w, side, ratio);
    printf("}\n");
    fflush(stdout);
    hy_free(ratio);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: bench_overhead MODEL [seconds] [threads] [prompt]\n");
        return 2;
    }
    double seconds = argc > 2 ? atof(argv[2]) : 20;
    uint32_t n_threads = argc > 3 ? (uint32_t)atoi(argv[3]) : 0;
    uint32_t n_prompt = argc > 4 ? (uint32_t)HY_MAX(2, HY_MIN(4096, atoi(argv[4]))) : 128;
    world w = { .n = 0 };
    open_world(&w, argv[1], n_threads, n_prompt);
    run(&w, true, 0, seconds / 2);
    put(&w, "decode", 1);
    run(&w, false, n_prompt, seconds / 2);
    put(&w, "prefill", n_prompt);
    for (int i = 0; i < SIDES; i++) hy_free(w.us[i]);
    hy_session_close(w.s[1]);
    hy_session_close(w.s[0]);
    return 0;
}
