/* hayate eval: perplexity and KL divergence. */
#include "cli.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static hy_status open_quietly(hy_session **s, const cli_args *a, const char *model, hy_err *err)
{
    cli_bar bar = { .what = "loading", .unit = "B", .quiet = a->quiet };
    hy_options o = a->engine;
    o.model = model;
    o.n_seq = 1;
    if (!o.n_ctx) o.n_ctx = (uint32_t)(a->window ? a->window : 512);
    o.kv_tokens = 0;
    o.progress = cli_bar_step;
    o.progress_ctx = &bar;
    hy_status st = hy_session_open(s, &o, err);
    cli_bar_end(&bar);
    return st;
}

static int report(const cli_args *a, const hy_ppl_result *r, bool kl)
{
    if (a->json) {
        printf("{\"perplexity\":%.6f,\"low\":%.6f,\"high\":%.6f,\"nll\":%.8f,\"scored\":%llu,\"windows\":%u", r->ppl,
               r->ppl_low, r->ppl_high, r->nll, (unsigned long long)r->n_scored, r->n_window);
        if (kl)
            printf(",\"base_perplexity\":%.6f,\"kl_mean\":%.8f,\"kl_p99\":%.8f,\"kl_max\":%.8f,\"same_top\":%.6f",
                   r->ppl_base, r->kl_mean, r->kl_p99, r->kl_max, r->same_top);
        puts("}");
        return 0;
    }
    printf("perplexity %.4f  (95 %%: %.4f .. %.4f; %llu tokens scored in %u windows)\n", r->ppl, r->ppl_low,
           r->ppl_high, (unsigned long long)r->n_scored, r->n_window);
    if (kl)
        printf("reference  %.4f\nKL divergence: mean %.6f, 99 %% below %.6f, largest %.6f nats\nsame best token: %.2f %%\n",
               r->ppl_base, r->kl_mean, r->kl_p99, r->kl_max, r->same_top * 100);
    return 0;
}

int cmd_eval(cli_args *a)
{
    hy_bias bias[CLI_LIST_MAX];
    bool kl = strcmp(a->pos[0], "kl") == 0;
    if (!kl && strcmp(a->pos[0], "perplexity") != 0)
        return cli_error("eval", "'%s' is neither perplexity nor kl", a->pos[0]), 2;
    if (kl != (a->base_model != NULL))
        return cli_error("eval", kl ? "kl needs --base MODEL" : "--base belongs to kl"), 2;
    if (!a->text_file) return cli_error("eval", "a text is needed: -f FILE"), 2;
    if (!cli_finish_options("eval", a, bias)) return 2;
    char *text;
    size_t n;
    if (!cli_read("eval", a->text_file, &text, &n)) return 1;
    cli_end_on_interrupt();
    hy_err err;
    hy_session *s = NULL, *base = NULL;
    hy_status st = open_quietly(&s, a, a->pos[1], &err);
    if (st == HY_OK && kl) st = open_quietly(&base, a, a->base_model, &err);
    hy_ppl_result r;
    if (st == HY_OK) {
        cli_bar bar = { .what = "scoring", .unit = "windows", .quiet = a->quiet };
        hy_ppl_params p = { .text = text, .n_text = n, .window = (uint32_t)a->window, .stride = (uint32_t)a->stride,
                            .score_first = (uint32_t)a->score_first, .n_window = (uint32_t)a->windows,
                            .progress = cli_bar_step, .progress_ctx = &bar };
        st = kl ? hy_session_kl(base, s, &p, &r, &err) : hy_session_perplexity(s, &p, &r, &err);
        cli_bar_end(&bar);
    }
    int rc = st == HY_OK ? report(a, &r, kl) : cli_fail("eval", &err);
    hy_session_close(s);
    hy_session_close(base);
    hy_free(text);
    return rc;
}
