/* hayate quantize, imatrix: converting weights, and measuring which of them matter. */
#include "cli.h"
#include <stdio.h>
#include <string.h>

/* "PATTERN=TYPE" cut at the last '='; the pieces are the caller's to free. */
static bool split_overrides(const cli_args *a, hy_quantize_override *over)
{
    for (uint32_t i = 0; i < a->n_over; i++) {
        const char *eq = strrchr(a->over[i], '=');
        if (!eq || eq == a->over[i] || !eq[1])
            return cli_error("quantize", "--override: '%s' is not PATTERN=TYPE", a->over[i]), false;
        over[i].pattern = hy_strndup(a->over[i], (size_t)(eq - a->over[i]));
        over[i].type = eq + 1;
        if (!over[i].pattern) return cli_error("quantize", "out of memory"), false;
    }
    return true;
}

int cmd_quantize(cli_args *a)
{
    hy_quantize_override over[CLI_LIST_MAX];
    memset(over, 0, sizeof over);
    cli_catch_interrupt();
    cli_bar bar = { .what = "quantizing", .unit = "B", .quiet = a->quiet };
    hy_quantize_params p = { .type = a->pos[2], .override = over, .n_override = a->n_over, .imatrix = a->imatrix,
                             .n_threads = (uint32_t)a->n_threads, .progress = cli_bar_step, .progress_ctx = &bar };
    int rc = 2;
    if (split_overrides(a, over)) {
        hy_err err;
        hy_status s = hy_tool_quantize(a->pos[0], a->pos[1], &p, &err);
        cli_bar_end(&bar);
        rc = s == HY_OK ? 0 : cli_fail("quantize", &err);
    }
    for (uint32_t i = 0; i < a->n_over; i++) hy_free((char *)over[i].pattern);
    return rc;
}

static hy_status measure(cli_args *a, const char *text, size_t n, hy_err *err)
{
    cli_bar load = { .what = "loading", .unit = "B", .quiet = a->quiet };
    hy_options *o = &a->engine;
    o->model = a->pos[0];
    o->n_seq = 1;
    if (!o->n_ctx) o->n_ctx = 512;
    o->kv_tokens = 0;
    o->progress = cli_bar_step;
    o->progress_ctx = &load;
    hy_session *s = NULL;
    hy_status st = hy_session_open(&s, o, err);
    cli_bar_end(&load);
    if (st != HY_OK) return st;
    cli_bar bar = { .what = "measuring", .unit = "windows", .quiet = a->quiet };
    st = hy_tool_imatrix(s, text, n, (uint32_t)a->windows, a->out, cli_bar_step, &bar, err);
    cli_bar_end(&bar);
    hy_session_close(s);
    return st;
}

int cmd_imatrix(cli_args *a)
{
    hy_bias bias[CLI_LIST_MAX];
    if (!a->text_file || !a->out)
        return cli_error("imatrix", "a text and a file to write are needed: -f FILE -o FILE"), 2;
    if (!cli_finish_options("imatrix", a, bias)) return 2;
    char *text;
    size_t n;
    if (!cli_read("imatrix", a->text_file, &text, &n)) return 1;
    cli_catch_interrupt();
    hy_err err;
    hy_status s = measure(a, text, n, &err);
    hy_free(text);
    return s == HY_OK ? 0 : cli_fail("imatrix", &err);
}
