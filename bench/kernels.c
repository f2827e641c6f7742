/* Matrix products by themselves: for every weight type, with one row of activations (weights from memory), a
 * few, and many (arithmetic). One JSON line each: GB/s of weights, 10^9 multiply-adds a second, and the share of
 * what this machine was measured to do (hayate cpu's numbers, measured here).
 *
 *   bench_kernels [threads: all] [isa: best] [milliseconds a line: 60] */
#include "kern/kern.h"
#include "probe/probe.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { k_len = 2048, panel_max = 16, tok_max = 128, n_try = 3 };
#define BIG_BYTES (192 * HY_MIB) /* of weights, beyond any cache here */
#define TOK_BLOCK 64             /* panels that a worker keeps in its cache for all rows */

static const uint32_t rows[] = { 1, 2, 4, 8, 128 };

typedef struct job {
    const hy_kernels *k;
    hy_panels w;
    hy_mm_fn *fn;
    bool q8;
    uint32_t n_tok;
    hy_act8 x8;
    float *x, *y;              /* y: [workers][tok_max][n_row of a share] */
    uint64_t y_each, slice_ns;
    double macs[HY_THREADS_MAX], seconds[HY_THREADS_MAX];
} job;

static void die(const char *what, const hy_err *err)
{
    fprintf(stderr, "bench_kernels: %s%s%s\n", what, err ? ": " : "", err ? err->msg : "");
    exit(1);
}

static void *big(uint64_t n)
{
    void *p = hy_alloc_big((size_t)n);
    if (!p) die("out of memory", NULL);
    return p;
}

/* A worker walks over its share of the panels again and again until the time is over. */
static void work(void *arg, hy_worker *w)
{
    job *j = arg;
    uint64_t first, last, done = 0;
    hy_share(j->w.n_panel, 1, w, &first, &last);
    uint64_t step = HY_MIN((uint64_t)TOK_BLOCK, last - first), at = first;
    hy_mm m = { .w = &j->w, .n_tok = j->n_tok, .x8 = j->x8, .x = j->x, .x_stride = k_len, .y_stride = TOK_BLOCK * panel_max };
    hy_team_barrier(w);
    uint64_t t0 = hy_now_ns(), now;
    do {
        m.panel_first = at;
        m.panel_last = HY_MIN(at + step, last);
        m.y = j->y + w->i * j->y_each - at * j->w.p; /* its rows begin at 0 */
        j->fn(&m);
        done += (m.panel_last - at) * j->w.p;
        at = m.panel_last == last ? first : m.panel_last;
        now = hy_now_ns();
    } while (now - t0 < j->slice_ns);
    j->macs[w->i] = (double)done * k_len * j->n_tok;
    j->seconds[w->i] = (double)(now - t0) / 1e9;
}

static double run(hy_team *team, job *j)
{
    double best = 0;
    for (int i = 0; i < n_try; i++) {
        double rate = 0;
        hy_team_run(team, work, j);
        for (uint32_t t = 0; t < hy_team_size(team); t++) rate += j->macs[t] / j->seconds[t];
        best = HY_MAX(best, rate);
    }
    return best;
}

static void fill(job *j, hy_qtype type)
{
    uint64_t row_bytes, total;
    if (!hy_panels_shape(&j->w, type, j->k->panel, panel_max, k_len) || !hy_quant_row_bytes(type, k_len, &row_bytes))
        die("a type does not fit", NULL);
    uint64_t n_panel = BIG_BYTES / j->w.panel_bytes;
    if (!hy_panels_shape(&j->w, type, j->k->panel, n_panel * j->k->panel, k_len)) die("a type does not fit", NULL);
    total = j->w.n_panel * j->w.panel_bytes;
    uint8_t *data = big(total);
    float row[k_len];
    uint8_t packed[panel_max][k_len * 4];
    const void *src[panel_max];
    for (uint32_t r = 0; r < j->w.p; r++) {
        for (uint32_t i = 0; i < k_len; i++) row[i] = (float)(hy_rng_unit(hy_rng_at(1, r, i)) - 0.5);
        hy_quant(type)->pack(row, packed[r], k_len, NULL);
        src[r] = packed[r];
    }
    hy_panel_pack(&j->w, data, src, j->w.p);
    for (uint64_t i = 1; i < j->w.n_panel; i++) memcpy(data + i * j->w.panel_bytes, data, j->w.panel_bytes);
    j->w.data = data;
}

static void print(const job *j, const hy_probe *probe, uint32_t n_thread, double macs)
{
    hy_probe_point at = hy_probe_at(probe, n_thread);
    double bytes = (double)(j->w.n_panel * j->w.panel_bytes) / ((double)j->w.n_panel * j->w.p * k_len);
    double read = macs / j->n_tok * bytes, peak = hy_probe_ops(probe, j->k->isa, j->q8, n_thread);
    double of_mem = read / at.read[HY_PROBE_MEM], of_ops = peak > 0 ? 2 * macs / peak : 0;
    printf("{\"type\": \"%s\", \"activations\": \"%s\", \"rows\": %u, \"isa\": \"%s\", \"threads\": %u, \"gbs\": %.2f, "
           "\"gmacs\": %.2f, \"of_memory\": %.3f, \"of_arithmetic\": %.3f}\n", hy_quant(j->w.type)->name,
           j->q8 ? "int8" : "f32", j->n_tok, j->k->isa, n_thread, read / 1e9, macs / 1e9, of_mem, of_ops);
    fflush(stdout);
}

static void measure(job *j, hy_team *team, const hy_probe *probe, hy_qtype type)
{
    fill(j, type);
    for (int q8 = 1; q8 >= 0; q8--) {
        j->q8 = q8;
        j->fn = q8 ? j->k->mm_q8[type] : j->k->mm_f32[type];
        if (!j->fn || (!q8 && j->k->mm_q8[type])) continue; /* the usual path of each type */
        for (size_t i = 0; i < HY_COUNT(rows); i++) {
            j->n_tok = rows[i];
            print(j, probe, hy_team_size(team), run(team, j));
        }
    }
    hy_free_big((void *)(uintptr_t)j->w.data, (size_t)(j->w.n_panel * j->w.panel_bytes));
}

int main(int argc, char **argv)
{
    hy_err err;
    hy_kernels k;
    hy_probe probe;
    hy_team *team;
    hy_topology top;
    uint64_t n_thread = 0, ms = 60;
    hy_cpu_topology(&top);
    if (argc > 1 && hy_parse_u64("threads", argv[1], 1, HY_THREADS_MAX, &n_thread, &err) != HY_OK) die("", &err);
    if (argc > 3 && hy_parse_u64("milliseconds", argv[3], 1, 10000, &ms, &err) != HY_OK) die("", &err);
    if (hy_kern_fill(&k, hy_cpu_features(), argc > 2 ? argv[2] : NULL, &err) != HY_OK) die("isa", &err);
    if (!n_thread) n_thread = top.n_thread_default;
    hy_probe_opts po = { .n_thread = (uint32_t)n_thread };
    if (hy_probe_run(&probe, &po, &err) != HY_OK) die("limits", &err);
    if (hy_team_open(&team, (uint32_t)n_thread, false, &err) != HY_OK) die("threads", &err);
    job *j = HY_NEW(job);
    if (!j) die("out of memory", NULL);
    *j = (job){ .k = &k, .slice_ns = ms * 1000000, .y_each = (uint64_t)tok_max * TOK_BLOCK * panel_max };
    j->x = big((uint64_t)tok_max * k_len * sizeof(float));
    j->y = big(n_thread * j->y_each * sizeof(float));
    j->x8 = (hy_act8){ big((uint64_t)tok_max * k_len / 32 * sizeof(hy_act_group)), k_len };
    for (uint64_t i = 0; i < (uint64_t)tok_max * k_len; i++) j->x[i] = (float)(hy_rng_unit(hy_rng_at(2, 0, i)) - 0.5);
    for (uint64_t t = 0; t < tok_max; t++) k.act8(j->x + t * k_len, k_len, hy_act8_at(&j->x8, t, 0));
    for (int t = 0; t < HY_Q_COUNT; t++) measure(j, team, &probe, (hy_qtype)t);
    hy_team_close(team);
    return 0;
}
