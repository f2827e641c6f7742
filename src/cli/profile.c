/* hayate profile: where the time goes, and what to try. */
#include "cli.h"
#include <stdio.h>

static int show(cli_args *a, hy_session *s, const hy_profile_params *p)
{
    char *text;
    hy_err err;
    hy_status st = hy_session_profile(s, p, &text, &err);
    cli_bar_end(p->progress_ctx);
    if (st != HY_OK) return cli_fail("profile", &err);
    fputs(text, stdout);
    hy_memory_free(text);
    if (p->trace && !a->quiet) fprintf(stderr, "trace: %s (open it at ui.perfetto.dev)\n", p->trace);
    return 0;
}

int cmd_profile(cli_args *a)
{
    hy_bias bias[CLI_LIST_MAX];
    hy_err err;
    uint64_t depth = 0, rows = 1;
    if (!cli_finish_options("profile", a, bias)) return 2;
    if (hy_parse_u64("--depth", a->depths ? a->depths : "0", 0, 16777216, &depth, &err) != HY_OK ||
        hy_parse_u64("--batch", a->batches ? a->batches : "1", 1, 256, &rows, &err) != HY_OK)
        return cli_fail("profile", &err), 2;
    if (!a->n_prompt && !a->n_gen) return cli_error("profile", "nothing to profile: -p 0 and -n 0"), 2;
    cli_end_on_interrupt();
    /* a few steps warm up before the ones that count */
    hy_session *s = NULL;
    hy_status st = cli_open_session(a, (uint32_t)(depth + a->n_prompt + a->n_gen + 2), (uint32_t)rows, &s, &err);
    cli_bar measuring = { .what = "measuring", .unit = "parts", .quiet = a->quiet };
    hy_profile_params p = { .n_prompt = (uint32_t)a->n_prompt, .n_gen = (uint32_t)a->n_gen, .depth = (uint32_t)depth,
                            .rows = (uint32_t)rows, .trace = a->trace, .json = a->json, .progress = cli_bar_step,
                            .progress_ctx = &measuring };
    int rc = st == HY_OK ? show(a, s, &p) : cli_fail("profile", &err);
    hy_session_close(s);
    return rc;
}
