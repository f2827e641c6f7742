/* hayate tune: settings for a model on this machine, found by measuring. */
#include "cli.h"
#include <stdio.h>
#include <string.h>

typedef struct watch {
    cli_bar bar;
    char what[96];
} watch;

static bool on_progress(void *ctx, uint64_t done, uint64_t all)
{
    watch *w = ctx;
    return cli_bar_step(&w->bar, done, all);
}

static void on_trying(void *ctx, const char *what)
{
    watch *w = ctx;
    snprintf(w->what, sizeof w->what, "trying %.80s", what);
}

static bool finish(cli_args *a, hy_tune_params *p, char **text)
{
    hy_bias none[1];
    if (!cli_finish_options("tune", a, none)) return false;
    if (!a->goal) return cli_error("tune", "what for? --goal ttft, throughput or memory"), false;
    *p = (hy_tune_params){ .goal = a->goal, .minutes = a->minutes, .n_stream = (uint32_t)a->load_streams, .out = a->out,
                           .fresh = a->fresh, .json = a->json };
    if (cli_given(a, "prompt", CLI_G_TUNE)) p->n_prompt = (uint32_t)HY_MAX(a->n_prompt, 1u);
    if (cli_given(a, "gen", CLI_G_TUNE)) p->n_gen = (uint32_t)HY_MAX(a->n_gen, 1u);
    if (!cli_share("tune", "--quality-loss", a->quality_loss, 1, &p->quality_loss) ||
        !cli_share("tune", "--speed-loss", a->speed_loss, 0.9, &p->speed_loss) ||
        !cli_milliseconds("tune", "--ttft", a->ttft_limit, &p->ttft_ms))
        return false;
    if (a->text_file && !cli_read("tune", a->text_file, text, &p->n_text)) return false;
    p->text = *text;
    return true;
}

int cmd_tune(cli_args *a)
{
    hy_tune_params p;
    char *text = NULL, *report = NULL;
    hy_err err;
    if (!finish(a, &p, &text)) {
        hy_free(text);
        return 2;
    }
    watch w = { .bar = { .what = w.what, .unit = "s", .quiet = a->quiet }, .what = "tuning" };
    a->engine.model = a->pos[0];
    p.progress = on_progress;
    p.progress_ctx = &w;
    p.trying = on_trying;
    cli_catch_interrupt();
    hy_status s = hy_tool_tune(&a->engine, &p, &report, &err);
    cli_bar_end(&w.bar);
    if (s == HY_OK) fputs(report, stdout);
    int rc = s == HY_OK ? 0 : cli_fail("tune", &err);
    if (s == HY_OK && cli_interrupted()) rc = 130;
    hy_memory_free(report);
    hy_free(text);
    return rc;
}
