/* A decode step of several sequences that share a prefix: pages shared and read once (cascade), shared and read
 * for each sequence, not shared. The three take turns; the logits must be the same bits.
 *
 *   bench_cascade MODEL [sequences 16] [prefix 2048] [rounds 9] [threads 2] */
#include "plan/plan.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SEQ 64
#define CHUNK 512

typedef struct world {
    const char *name;
    hy_plan *plan;
    hy_kv *kv;
    hy_page_table t[MAX_SEQ];
    double ms[99], att_ms[99];
    float *logits;
} world;

static void die(const char *what, const hy_err *err)
{
    fprintf(stderr, "%s: %s\n", what, err->msg);
    exit(1);
}

static void open_world(world *w, const hy_model *m, uint32_t n_seq, uint32_t n_ctx, bool cascade)
{
    hy_err err = { 0 };
    hy_plan_opts po = { .fuse = true, .kv_type = HY_KV_F16, .n_ctx = n_ctx, .n_tok_max = CHUNK, .n_out_max = n_seq,
                        .n_row_max = n_seq, .no_cascade = !cascade };
    if (hy_plan_compile(&w->plan, m, &po, &err) != HY_OK) die("plan", &err);
    hy_kv_group g[HY_KV_GROUPS_MAX];
    uint8_t *layer_group = malloc(m->hp.n_layer);
    uint16_t *layer_index = malloc(m->hp.n_layer * sizeof *layer_index);
    if (!layer_group || !layer_index) exit(1);
    uint32_t n = hy_model_kv_groups(m, HY_KV_F16, g, layer_group, layer_index);
    free(layer_group);
    free(layer_index);
    for (uint32_t i = 0; i < n; i++) g[i].n_page = n_seq * (n_ctx / HY_KV_PAGE_TOK + 2);
    if (hy_kv_open(&w->kv, g, n, &err) != HY_OK) die("kv", &err);
    for (uint32_t i = 0; i < n_seq; i++)
        if (hy_page_table_init(w->kv, &w->t[i], n_ctx, &err) != HY_OK) die("table", &err);
    w->logits = malloc((size_t)n_seq * m->hp.n_vocab * sizeof(float));
    if (!w->logits) exit(1);
}

static void prefill(world *w, hy_team *team, const int32_t *tok, uint32_t n)
{
    hy_err err = { 0 };
    int32_t pos[CHUNK];
    if (hy_kv_reserve(w->kv, &w->t[0], n, &err) != HY_OK) die("reserve", &err);
    for (uint32_t at = 0; at < n; at += CHUNK) {
        uint32_t k = HY_MIN(CHUNK, n - at);
        for (uint32_t i = 0; i < k; i++) pos[i] = (int32_t)(at + i);
        hy_row row = { .table = &w->t[0], .n_tok = k, .pos0 = at, .n_total = n };
        hy_batch b = { .n_tok = k, .token = tok + at, .pos = pos, .n_row = 1, .row = &row };
        if (hy_plan_run(w->plan, team, w->kv, &b, NULL, &err) != HY_OK) die("prefill", &err);
    }
}

static void copy_page(const hy_kv *kv, uint32_t g, uint32_t to, uint32_t from)
{
    const hy_kv_group *grp = hy_kv_group_of(kv, g);
    for (uint32_t i = 0; i < grp->page_bytes / grp->part_bytes; i++)
        memcpy(hy_kv_part(kv, g, to, i), hy_kv_part(kv, g, from, i), (size_t)grp->part_bytes);
}

/* The others' first n tokens: the first one's pages, or copies. */
static void spread(world *w, uint32_t n_seq, uint32_t n, bool share)
{
    hy_err err = { 0 };
    for (uint32_t i = 1; i < n_seq; i++) {
        hy_status st = share ? hy_kv_fork(w->kv, &w->t[i], &w->t[0], n, &err)
                             : hy_kv_reserve(w->kv, &w->t[i], n, &err);
        if (st != HY_OK) die("pages", &err);
        for (uint32_t g = 0; g < hy_kv_n_group(w->kv); g++)
            for (uint32_t k = 0; !share && k < w->t[0].n_page[g]; k++)
                copy_page(w->kv, g, w->t[i].page[g][k], w->t[0].page[g][k]);
    }
}

static void decode(world *w, hy_team *team, uint32_t n_seq, uint32_t at, uint32_t n_total, uint32_t round)
{
    hy_err err = { 0 };
    hy_row row[MAX_SEQ];
    int32_t tok[MAX_SEQ], pos[MAX_SEQ];
    uint32_t out[MAX_SEQ];
    for (uint32_t i = 0; i < n_seq; i++) {
        if (hy_kv_reserve(w->kv, &w->t[i], at + 1, &err) != HY_OK) die("reserve", &err);
        row[i] = (hy_row){ .table = &w->t[i], .tok_first = i, .n_tok = 1, .pos0 = at, .n_total = n_total };
        tok[i] = (int32_t)(100 + i * 7 + at % 13);
        pos[i] = (int32_t)at;
        out[i] = i;
    }
    hy_batch b = { .n_tok = n_seq, .token = tok, .pos = pos, .n_row = n_seq, .row = row, .n_out = n_seq,
                   .out_tok = out };
    hy_plan_timing(w->plan, true);
    uint64_t t0 = hy_now_ns();
    if (hy_plan_run(w->plan, team, w->kv, &b, w->logits, &err) != HY_OK) die("step", &err);
    w->ms[round] = (double)(hy_now_ns() - t0) / 1e6;
    hy_op_time t[HY_OP_COUNT];
    for (uint32_t i = 0, n = hy_plan_times(w->plan, t); i < n; i++)
        if (t[i].op == HY_OP_ATTENTION) w->att_ms[round] = (double)t[i].ns / 1e6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    uint32_t n_seq = argc > 2 ? (uint32_t)atoi(argv[2]) : 16, n = argc > 3 ? (uint32_t)atoi(argv[3]) : 2048;
    uint32_t rounds = argc > 4 ? (uint32_t)atoi(argv[4]) : 9, n_thread = argc > 5 ? (uint32_t)atoi(argv[5]) : 2;
    if (argc < 2 || n_seq < 2 || n_seq > MAX_SEQ || n < 64 || rounds < 1 || rounds > 99) {
        fprintf(stderr, "bench_cascade MODEL [sequences 2-64] [prefix from 64] [rounds 1-99] [threads]\n");
        return 2;
    }
    hy_err err = { 0 };
    hy_kernels k;
    hy_file *f;
    hy_model *m;
    hy_team *team;
    if (hy_kern_fill(&k, hy_cpu_features(), NULL, &err) != HY_OK) die("kernels", &err);
    if (hy_file_open(&f, argv[1], &err) != HY_OK) die(argv[1], &err);
    if (hy_team_open(&team, n_thread, false, &err) != HY_OK) die("threads", &err);
    hy_load_opts lo = { .kern = &k, .team = team, .quantise = -1 };
    if (hy_model_load(&m, f, &lo, &err) != HY_OK) die(argv[1], &err);
    hy_file_close(f);
    int32_t *tok = malloc(n * sizeof *tok);
    if (!tok) return 1;
    for (uint32_t i = 0; i < n; i++) tok[i] = (int32_t)(hy_rng_at(1, 2, i) % m->hp.n_vocab);
    static world w[3] = { { .name = "shared, read once" }, { .name = "shared, read for each" },
                          { .name = "not shared" } };
    uint32_t n_ctx = n + rounds + 1;
    for (int i = 0; i < 3; i++) {
        open_world(&w[i], m, n_seq, n_ctx, i == 0);
        prefill(&w[i], team, tok, n);
        spread(&w[i], n_seq, n, i < 2);
    }
    int bad = 0;
    for (uint32_t r = 0; r < rounds; r++) {
        for (int i = 0; i < 3; i++) decode(&w[i], team, n_seq, n + r, n, r);
        for (int i = 1; i < 3; i++)
            bad |= memcmp(w[0].logits, w[i].logits, (size_t)n_seq * m->hp.n_vocab * sizeof(float)) != 0;
    }
    printf("%u sequences, %u common tokens, %u threads, %s; ms a step (of it attention): median, least\n", n_seq, n,
           n_thread, k.isa);
    for (int i = 0; i < 3; i++) {
        qsort(w[i].ms, rounds, sizeof *w[i].ms, by_value);
        qsort(w[i].att_ms, rounds, sizeof *w[i].att_ms, by_value);
        printf("%-22s %8.2f %8.2f  (%.2f %.2f)\n", w[i].name, w[i].ms[rounds / 2], w[i].ms[0], w[i].att_ms[rounds / 2],
               w[i].att_ms[0]);
        for (uint32_t s = 0; s < n_seq; s++) hy_page_table_free(w[i].kv, &w[i].t[s]);
        hy_kv_close(w[i].kv);
        hy_plan_free(w[i].plan);
        free(w[i].logits);
    }
    printf("logits: %s\n", bad ? "DIFFERENT" : "the same bits");
    free(tok);
    hy_model_free(m);
    hy_team_close(team);
    return bad;
}
