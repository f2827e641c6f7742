/* hayate bench: prefill and decode speed at depths and batches, interleaved repeats, medians. */
#include "bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parse_list(const char *what, const char *text, uint64_t min, uint64_t max, uint32_t out[16], uint32_t *n)
{
    *n = 0;
    hy_err err;
    char item[32];
    for (const char *s = text; *s;) {
        size_t k = strcspn(s, ",");
        snprintf(item, sizeof item, "%.*s", (int)HY_MIN(k, sizeof item - 1), s);
        uint64_t v;
        if (*n == 16) return cli_error("bench", "%s: more than 16 values", what), false;
        if (hy_parse_u64(what, item, min, max, &v, &err) != HY_OK) return cli_fail("bench", &err), false;
        out[(*n)++] = (uint32_t)v;
        s += k + (s[k] == ',');
    }
    return *n > 0 || (cli_error("bench", "%s: an empty list", what), false);
}

static void print_shape(const bench_shape *s, uint32_t repeats, const hy_facts *f, bool json)
{
    double v[BENCH_REPEATS_MAX];
    memcpy(v, s->tps, repeats * sizeof *v);
    double middle = hy_median(v, repeats); /* sorts */
    const char *test = s->n_prompt ? "pp" : "tg";
    uint32_t n = s->n_prompt ? s->n_prompt : s->n_gen;
    uint32_t threads = s->n_prompt || s->rows > 4 ? f->n_threads : f->n_threads_decode;
    if (!json) {
        printf("%s%-6u %7u %5u %8u %12.2f %12.2f .. %.2f\n", test, n, s->depth, s->rows, threads,
               middle, v[0], v[repeats - 1]);
        return;
    }
    printf("{\"test\":\"%s\",\"n\":%u,\"depth\":%u,\"rows\":%u,\"threads\":%u,\"isa\":\"%s\",\"kv_type\":\"%s\","
           "\"tps\":[",
           test, n, s->depth, s->rows, threads, f->isa, f->kv_type);
    for (uint32_t i = 0; i < repeats; i++) printf("%s%.3f", i ? "," : "", s->tps[i]);
    printf("],\"median\":%.3f}\n", middle);
    fflush(stdout);
}

static bool make_shapes(const cli_args *a, bench_shape *list, uint32_t *n, uint32_t *deepest, uint32_t *widest)
{
    uint32_t depth[16], rows[16], n_depth, n_rows;
    if (!parse_list("--depth", a->depths ? a->depths : "0", 0, 16777216, depth, &n_depth) ||
        !parse_list("--batch", a->batches ? a->batches : "1", 1, 256, rows, &n_rows))
        return false;
    *n = 0;
    for (uint32_t d = 0; d < n_depth; d++)
        for (uint32_t b = 0; b < n_rows; b++)
            for (int kind = 0; kind < 2; kind++) {
                uint32_t k = (uint32_t)(kind ? a->n_gen : a->n_prompt);
                if (k == 0) continue;
                if (*n == BENCH_SHAPES_MAX) return cli_error("bench", "more than %d tests", BENCH_SHAPES_MAX), false;
                list[(*n)++] = (bench_shape){ .n_prompt = kind ? 0 : k,
                                              .n_gen = kind ? k : 0,
                                              .depth = depth[d],
                                              .rows = rows[b] };
                *deepest = HY_MAX(*deepest, depth[d] + k);
                *widest = HY_MAX(*widest, rows[b]);
            }
    return *n > 0 || (cli_error("bench", "nothing to measure: -p 0 and -n 0"), false);
}

/* All shapes, or those judged slower once more. */
static hy_status measure(hy_session *s, const cli_args *a, bench_shape *list, uint32_t n, bool again, hy_err *err)
{
    cli_bar bar = { .what = again ? "measuring again" : "measuring", .unit = "runs", .quiet = a->quiet };
    uint32_t repeats = (uint32_t)a->repeats;
    uint64_t all = 0, done = 0;
    hy_status st = HY_OK;
    for (uint32_t i = 0; i < n; i++) all += again && list[i].change.change != HY_CHANGE_SLOWER ? 0 : repeats + 1;
    for (uint32_t r = 0; r <= repeats && st == HY_OK; r++) /* round 0 warms up and is not counted */
        for (uint32_t i = 0; i < n && st == HY_OK; i++) {
            bench_shape *t = &list[i];
            uint64_t ns = 1;
            if (again && t->change.change != HY_CHANGE_SLOWER) continue;
            /* a warm-up need not be long */
            st = hy_session_bench(s, r ? t->n_prompt : HY_MIN(t->n_prompt, 32u), r ? t->n_gen : HY_MIN(t->n_gen, 4u),
                                  r ? t->depth : 0, t->rows, &ns, err);
            if (r) t->tps[r - 1] = (double)(t->n_prompt + t->n_gen) * t->rows * 1e9 / (double)HY_MAX(ns, 1u);
            (void)cli_bar_step(&bar, ++done, all);
        }
    cli_bar_end(&bar);
    return st;
}

/* What looks slower is measured once more: only what is slower both times is. */
static hy_status compare(hy_session *s, const bench_keep *k, bench_shape *list, uint32_t n, hy_err *err)
{
    uint32_t repeats = (uint32_t)k->a->repeats, slower = 0;
    for (uint32_t i = 0; i < n; i++) {
        bench_keep_compare(k, &list[i], repeats);
        slower += list[i].change.change == HY_CHANGE_SLOWER;
    }
    if (!slower) return HY_OK;
    HY_TRY(measure(s, k->a, list, n, true, err));
    for (uint32_t i = 0; i < n; i++) {
        if (list[i].change.change != HY_CHANGE_SLOWER) continue;
        bench_keep_compare(k, &list[i], repeats);
        list[i].change.doubted = list[i].change.change != HY_CHANGE_SLOWER;
    }
    return HY_OK;
}

static int run_all(hy_session *s, cli_args *a, const bench_keep *k, bench_shape *list, uint32_t n)
{
    hy_facts f;
    hy_err err;
    uint32_t repeats = (uint32_t)a->repeats;
    hy_session_facts(s, &f);
    if (measure(s, a, list, n, false, &err) != HY_OK) return cli_fail("bench", &err);
    if (k->base && compare(s, k, list, n, &err) != HY_OK) return cli_fail("bench", &err);
    if (!a->json)
        printf("%s (%s), %s, KV %s, median of %u\n%-8s %7s %5s %8s %12s %s\n", a->pos[0], f.family, f.isa, f.kv_type,
               repeats, "test", "depth", "rows", "threads", "tokens/s", "       least .. most");
    for (uint32_t i = 0; i < n; i++) print_shape(&list[i], repeats, &f, a->json);
    int rc = bench_keep_report(k, list, n) ? 1 : 0;
    if (a->save && !bench_keep_save(k, list, n, repeats, &f)) rc = 1;
    return rc;
}

int cmd_bench(cli_args *a)
{
    if (a->n_pos == 2) {
        if (strcmp(a->pos[0], "serve") != 0)
            return cli_error("bench", "give one MODEL, or: serve URL (not '%s' and '%s')", a->pos[0], a->pos[1]), 2;
        return cmd_bench_serve(a);
    }
    if (a->ablation) return cmd_ablation(a);
    hy_bias bias[CLI_LIST_MAX];
    uint32_t n, deepest = 0, widest = 1;
    bench_keep keep;
    bench_shape *list = HY_NEW_ARRAY(bench_shape, BENCH_SHAPES_MAX);
    if (!list) return cli_error("bench", "out of memory");
    memset(&keep, 0, sizeof keep);
    int rc = 2;
    if (cli_use_tuned("bench", a) && cli_finish_options("bench", a, bias) &&
        make_shapes(a, list, &n, &deepest, &widest) && bench_keep_open(&keep, a)) {
        hy_err err;
        hy_session *s = NULL;
        cli_end_on_interrupt();
        hy_status st = cli_open_session(a, deepest, widest, &s, &err);
        rc = st == HY_OK ? run_all(s, a, &keep, list, n) : cli_fail("bench", &err);
        hy_session_close(s);
    }
    bench_keep_close(&keep);
    hy_free(list);
    return rc;
}
