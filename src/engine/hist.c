/* Histograms: one writer, any reader. The bounds are those of vLLM's metrics of the same meaning, as far as
 * HY_HIST_BUCKETS allows; time to first token has 0.2, 0.5 and 1 s, the classes users feel. */
#include "engine.h"

static const double ttft[] = { 0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.2, 0.25,
                               0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80 };
static const double itl[] = { 0.001, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3,
                              0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40 };
static const double latency[] = { 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920 };
static const double step_s[] = { 0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1,
                                 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2.5, 5, 10 };
static const double step_tok[] = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384 };
static const double request_tok[] = { 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000,
                                      100000, 200000, 500000, 1000000 };

void hy_hist_init(hy_live_hist h[HY_H_COUNT])
{
#define SET(i, b) h[i].bound = b, h[i].n_bound = HY_COUNT(b)
    SET(HY_H_TTFT, ttft);
    SET(HY_H_ITL, itl);
    SET(HY_H_E2E, latency);
    SET(HY_H_QUEUE, latency);
    SET(HY_H_PREFILL, latency);
    SET(HY_H_DECODE, latency);
    SET(HY_H_STEP, step_s);
    SET(HY_H_STEP_TOKENS, step_tok);
    SET(HY_H_PROMPT_TOKENS, request_tok);
    SET(HY_H_OUTPUT_TOKENS, request_tok);
#undef SET
}

void hy_hist_add(hy_live_hist *h, double v)
{
    uint32_t i = 0;
    while (i < h->n_bound && v > h->bound[i]) i++;
    HY_BUMP(h->count[i], 1);
    HY_BUMP(h->sum, v);
}

void hy_hist_read(const hy_live_hist *h, hy_hist *out)
{
    out->n_bound = h->n_bound;
    for (uint32_t i = 0; i < h->n_bound; i++) out->bound[i] = h->bound[i];
    for (uint32_t i = 0; i <= h->n_bound; i++) out->count[i] = HY_GET(h->count[i]);
    out->sum = HY_GET(h->sum);
}
