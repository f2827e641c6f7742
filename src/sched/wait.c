/* What a new request may expect: a fluid picture of the queue, with the cost model's numbers. */
#include "sched/sched.h"
#include <math.h>

/* Tokens of prompts that a step takes beside d decoding rows, and its time. */
static double chunk_of(const hy_sched_load *l, double d, double *ms)
{
    double fixed = l->w[0] + l->w[1] * d + l->w[2] * l->keys / 1000;
    double most = HY_MAX(l->n_step - d, HY_KV_PAGE_TOK), x = most;
    if (d > 0 && l->w[1] > 0) x = HY_MIN(HY_MAX((l->itl_ms - fixed) / l->w[1], HY_KV_PAGE_TOK), most);
    *ms = fixed + l->w[1] * x;
    return x;
}

/* Ends of running requests that must come first: for a slot, and for pages. */
static double ends_ahead(const hy_sched_load *l, uint32_t n_prompt)
{
    double slots = (double)l->n_run + l->n_wait + 1 - l->n_seq;
    double lack = l->tok_wait + n_prompt + l->out_mean - l->tok_free;
    double pages = l->n_run && l->tok_run > 0 ? ceil(lack * l->n_run / l->tok_run) : 0;
    return HY_MAX(slots, pages);
}

double hy_sched_predict_wait(const hy_sched_load *l, uint32_t n_prompt)
{
    double d = l->n_decode, wait = 0;
    /* answers end evenly over their rest */
    double ahead = ends_ahead(l, n_prompt);
    if (ahead > 0 && l->n_run > 0) {
        double step = l->w[0] + l->w[1] * l->n_run + l->w[2] * l->keys / 1000;
        double first = HY_MIN(ahead, l->n_run), rest = ahead - first;
        double each = l->out_left / l->n_run, next = l->n_wait ? l->out_wait / l->n_wait : each;
        wait += step * each * 2 * first / (l->n_run + 1);
        wait += step * next * rest / l->n_run;
        d = HY_MIN(l->n_run, l->n_seq - 1);
    }
    double ms, x = chunk_of(l, d, &ms), all = l->prompt_left + n_prompt;
    wait += ceil(all / x) > 1 ? all / x * ms : l->w[0] + l->w[1] * (d + all) + l->w[2] * l->keys / 1000;
    return wait;
}
