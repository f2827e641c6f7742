/* What sampling costs beside a token of decoding: the last product's share (what it keeps of its logits), and the draw.
 *
 *   bench_sample MODEL [tokens 60] [threads 2] */
#include "plan/plan.h"
#include "sample/sample.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_MAX 1000

static void die(const char *what, const hy_err *err)
{
    fprintf(stderr, "%s: %s\n", what, err ? err->msg : "no memory");
    exit(1);
}

typedef struct world {
    hy_model *m;
    hy_team *team;
    hy_plan *plan;
    hy_kv *kv;
    hy_page_table table;
    float *logits, *copy;
    hy_logit_row kept;
} world;

static void open_world(world *w, const char *path, uint32_t n_thread)
{
    hy_err err = { 0 };
    hy_kernels k;
    hy_file *f;
    if (hy_kern_fill(&k, hy_cpu_features(), NULL, &err) != HY_OK) die("kernels", &err);
    if (hy_team_open(&w->team, n_thread, false, &err) != HY_OK) die("team", &err);
    if (hy_file_open(&f, path, &err) != HY_OK) die("file", &err);
    hy_load_opts lo = { .kern = &k, .team = w->team, .quantise = -1 };
    if (hy_model_load(&w->m, f, &lo, &err) != HY_OK) die("model", &err);
    hy_file_close(f);
    hy_plan_opts po = { .fuse = true, .kv_type = HY_KV_F16, .n_ctx = N_MAX + 1, .n_tok_max = 1, .n_out_max = 1, .n_row_max = 1 };
    if (hy_plan_compile(&w->plan, w->m, &po, &err) != HY_OK) die("plan", &err);
    hy_kv_group g[HY_KV_GROUPS_MAX];
    uint8_t *group = malloc(w->m->hp.n_layer);
    uint16_t *index = malloc(w->m->hp.n_layer * sizeof *index);
    if (!group || !index) die("layers", NULL);
    uint32_t n = hy_model_kv_groups(w->m, HY_KV_F16, g, group, index);
    free(group);
    free(index);
    for (uint32_t i = 0; i < n; i++) g[i].n_page = N_MAX / HY_KV_PAGE_TOK + 3;
    if (hy_kv_open(&w->kv, g, n, &err) != HY_OK) die("kv", &err);
    if (hy_page_table_init(w->kv, &w->table, N_MAX + 1, &err) != HY_OK) die("table", &err);
    uint32_t v = w->m->hp.n_vocab;
    w->logits = malloc(v * sizeof(float));
    w->copy = malloc(v * sizeof(float));
    w->kept.max = malloc(hy_logit_blocks(v) * sizeof(float));
    w->kept.sum = malloc(hy_logit_blocks(v) * sizeof(float));
    if (!w->logits || !w->copy || !w->kept.max || !w->kept.sum) die("logits", NULL);
}

static double step_us(world *w, int32_t tok, uint32_t at, bool keep)
{
    hy_err err = { 0 };
    int32_t pos = (int32_t)at;
    uint32_t out = 0;
    if (hy_kv_reserve(w->kv, &w->table, at + 1, &err) != HY_OK) die("reserve", &err);
    hy_row row = { .table = &w->table, .n_tok = 1, .pos0 = at };
    hy_batch b = { .n_tok = 1, .token = &tok, .pos = &pos, .n_row = 1, .row = &row, .n_out = 1, .out_tok = &out,
                   .kept = keep ? &w->kept : NULL };
    uint64_t t0 = hy_now_ns();
    if (hy_plan_run(w->plan, w->team, w->kv, &b, w->logits, &err) != HY_OK) die("step", &err);
    return (double)(hy_now_ns() - t0) / 1e3;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double middle(double *v, uint32_t n)
{
    qsort(v, n, sizeof *v, by_size);
    return v[n / 2];
}

typedef struct mode {
    const char *name;
    double temperature, top_p, min_p;
    uint32_t top_k;
    int32_t logprobs;
} mode;

static const mode modes[] = {
    { "greedy", 0, 1, 0, 0, -1 },
    { "temperature 0.8, top-k 40, top-p 0.95", 0.8, 0.95, 0, 40, -1 },
    { "temperature 1, no filter", 1, 1, 0, 0, -1 },
    { "temperature 1, top-p 0.9", 1, 0.9, 0, 0, -1 },
    { "temperature 1, min-p 0.05", 1, 1, 0.05, 0, -1 },
    { "greedy, 5 logprobs", 0, 1, 0, 0, 5 },
};

int main(int argc, char **argv)
{
    static double step[2][N_MAX], sums[N_MAX], draw[HY_COUNT(modes)][N_MAX];
    if (argc < 2) return fprintf(stderr, "usage: bench_sample MODEL [tokens] [threads]\n"), 2;
    uint32_t n = argc > 2 ? (uint32_t)atoi(argv[2]) : 60;
    n = HY_MAX(3, HY_MIN(n, N_MAX / 4));
    world w = { 0 };
    open_world(&w, argv[1], argc > 3 ? (uint32_t)atoi(argv[3]) : 2);
    uint32_t v = w.m->hp.n_vocab;
    hy_sampler *sampler;
    hy_err err;
    if (hy_sampler_open(&sampler, v, N_MAX, hy_kern_logit_block, &w.m->kern, &err) != HY_OK) die("sampler", &err);
    int32_t tok = 1;
    for (uint32_t i = 0; i < n; i++) {
        w.kept.temperature = 0;
        step[0][i] = step_us(&w, tok, i, false);
        step[1][i] = step_us(&w, tok, i, true);
        int32_t next = 0;
        for (uint32_t k = 0; k < HY_COUNT(modes); k++) {
            const mode *o = &modes[k];
            hy_sampling s;
            hy_sampling_init(&s);
            s.temperature = o->temperature;
            s.top_p = o->top_p;
            s.min_p = o->min_p;
            s.top_k = o->top_k;
            s.seed = i;
            w.kept.temperature = hy_sample_sums(&s, o->logprobs >= 0);
            double us = step_us(&w, tok, i, true);
            if (k == HY_COUNT(modes) - 1) sums[i] = us;
            memcpy(w.copy, w.logits, v * sizeof(float)); /* in cache or not, as after a step */
            float own;
            hy_sample_logprob top[20];
            uint64_t t0 = hy_now_ns();
            int32_t id = hy_sample(sampler, &s, w.copy, &w.kept, v, NULL, 0, i, o->logprobs, &own, top);
            draw[k][i] = (double)(hy_now_ns() - t0) / 1e3;
            if (k == 1) next = id;
        }
        tok = next;
    }
    double plain = middle(step[0], n);
    printf("%s: vocabulary %u, %u threads; a token takes %.0f us\n", argv[1], v, hy_team_size(w.team), plain);
    printf("keeping maxima: %+.0f us (%+.2f %%); with sums %+.0f us (%+.2f %%)\n", middle(step[1], n) - plain,
           100 * (middle(step[1], n) / plain - 1), middle(sums, n) - plain, 100 * (middle(sums, n) / plain - 1));
    for (uint32_t k = 0; k < HY_COUNT(modes); k++) {
        double us = middle(draw[k], n);
        printf("%-40s %8.1f us  %6.2f %%\n", modes[k].name, us, 100 * us / plain);
    }
    hy_sampler_close(sampler);
    return 0;
}
