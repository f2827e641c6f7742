/* hayate bench: prefill and decode speed at depths and batches, interleaved repeats, medians. */
#include "cli.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHAPES_MAX 64

typedef struct shape {
    uint32_t n_prompt, n_gen, depth, rows;
    double tps[1000];
} shape;

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

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sorted(const shape *s, uint32_t n, double *out)
{
    memcpy(out, s->tps, n * sizeof *out);
    qsort(out, n, sizeof *out, by_value);
}

static double median(const double *v, uint32_t n)
{
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void print_shape(const shape *s, uint32_t repeats, const hy_facts *f, bool json)
{
    double v[1000];
    sorted(s, repeats, v);
    const char *test = s->n_prompt ? "pp" : "tg";
    uint32_t n = s->n_prompt ? s->n_prompt : s->n_gen;
    uint32_t threads = s->n_prompt || s->rows > 4 ? f->n_threads : f->n_threads_decode;
    if (!json) {
        printf("%s%-6u %7u %5u %8u %12.2f %12.2f .. %.2f\n", test, n, s->depth, s->rows, threads,
               median(v, repeats), v[0], v[repeats - 1]);
        return;
    }
    printf("{\"test\":\"%s\",\"n\":%u,\"depth\":%u,\"rows\":%u,\"threads\":%u,\"isa\":\"%s\",\"kv_type\":\"%s\",\"tps\":[",
           test, n, s->depth, s->rows, threads, f->isa, f->kv_type);
    for (uint32_t i = 0; i < repeats; i++) printf("%s%.3f", i ? "," : "", s->tps[i]);
    printf("],\"median\":%.3f}\n", median(v, repeats));
    fflush(stdout);
}

static bool make_shapes(const cli_args *a, shape *list, uint32_t *n, uint32_t *deepest, uint32_t *widest)
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
                if (*n == SHAPES_MAX) return cli_error("bench", "more than %d tests", SHAPES_MAX), false;
                list[(*n)++] = (shape){ .n_prompt = kind ? 0 : k, .n_gen = kind ? k : 0, .depth = depth[d], .rows = rows[b] };
                *deepest = HY_MAX(*deepest, depth[d] + k);
                *widest = HY_MAX(*widest, rows[b]);
            }
    return *n > 0 || (cli_error("bench", "nothing to measure: -p 0 and -n 0"), false);
}

static int run_all(hy_session *s, cli_args *a, shape *list, uint32_t n)
{
    hy_facts f;
    hy_err err;
    hy_session_facts(s, &f);
    cli_bar bar = { .what = "measuring", .unit = "runs", .quiet = a->quiet };
    uint32_t repeats = (uint32_t)a->repeats;
    uint64_t all = (uint64_t)repeats * n + n, done = 0;
    for (uint32_t r = 0; r <= repeats; r++) /* round 0 warms up and is not counted */
        for (uint32_t i = 0; i < n; i++) {
            shape *t = &list[i];
            uint64_t ns;
            /* a warm-up need not be long */
            if (hy_session_bench(s, r ? t->n_prompt : HY_MIN(t->n_prompt, 32u), r ? t->n_gen : HY_MIN(t->n_gen, 4u),
                                 r ? t->depth : 0, t->rows, &ns, &err) != HY_OK) {
                cli_bar_end(&bar);
                return cli_fail("bench", &err);
            }
            if (r) t->tps[r - 1] = (double)(t->n_prompt + t->n_gen) * t->rows * 1e9 / (double)ns;
            (void)cli_bar_step(&bar, ++done, all);
        }
    cli_bar_end(&bar);
    if (!a->json)
        printf("%s (%s), %s, KV %s, median of %u\n%-8s %7s %5s %8s %12s %s\n", a->pos[0], f.family, f.isa, f.kv_type,
               repeats, "test", "depth", "rows", "threads", "tokens/s", "       least .. most");
    for (uint32_t i = 0; i < n; i++) print_shape(&list[i], repeats, &f, a->json);
    return 0;
}

int cmd_bench(cli_args *a)
{
    if (a->n_pos == 2) {
        if (strcmp(a->pos[0], "serve") != 0)
            return cli_error("bench", "give one MODEL, or: serve URL (not '%s' and '%s')", a->pos[0], a->pos[1]), 2;
        return cmd_bench_serve(a);
    }
    hy_bias bias[CLI_LIST_MAX];
    uint32_t n, deepest = 0, widest = 1;
    shape *list = HY_NEW_ARRAY(shape, SHAPES_MAX);
    if (!list) return cli_error("bench", "out of memory");
    if (!cli_finish_options("bench", a, bias) || !make_shapes(a, list, &n, &deepest, &widest)) {
        hy_free(list);
        return 2;
    }
    cli_end_on_interrupt();
    hy_err err;
    hy_session *s = NULL;
    hy_status st = cli_open_session(a, deepest, widest, &s, &err);
    int rc = st == HY_OK ? run_all(s, a, list, n) : cli_fail("bench", &err);
    hy_session_close(s);
    hy_free(list);
    return rc;
}
