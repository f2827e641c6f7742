/* hayate logits, hayate dequantize: raw numbers in and out, for checks. */
#include "cli.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int write_floats(const char *command, const char *path, const float *f, size_t n)
{
    FILE *out = fopen(path, "wb");
    if (!out) return cli_error(command, "%s: %s", path, strerror(errno));
    bool good = fwrite(f, sizeof *f, n, out) == n;
    good = fclose(out) == 0 && good;
    if (good) return 0;
    cli_error(command, "%s: %s", path, strerror(errno));
    if (hy_is_file(path)) (void)unlink(path); /* and not /dev/full */
    return 1;
}

int cmd_logits(cli_args *a)
{
    hy_bias bias[CLI_LIST_MAX];
    if (!cli_finish_options("logits", a, bias)) return 2;
    if (!a->tokens_file || !a->out) return cli_error("logits", "--tokens FILE and --out FILE are needed"), 2;
    int32_t *ids;
    uint32_t n;
    if (!cli_read_tokens("logits", a->tokens_file, &ids, &n)) return 1;
    hy_err err;
    hy_session *s = NULL;
    float *out = NULL;
    cli_end_on_interrupt();
    cli_bar bar = { .what = "loading", .unit = "B", .quiet = a->quiet };
    a->engine.model = a->pos[0];
    a->engine.n_seq = 1;
    if (!a->engine.n_ctx) a->engine.n_ctx = n;
    a->engine.progress = cli_bar_step;
    a->engine.progress_ctx = &bar;
    int rc;
    hy_status st = hy_session_open(&s, &a->engine, &err);
    cli_bar_end(&bar);
    if (st == HY_OK) {
        hy_facts f;
        hy_session_facts(s, &f);
        size_t rows = a->all ? n : 1;
        out = hy_alloc_array(rows * f.n_vocab, sizeof *out);
        if (!out) rc = cli_error("logits", "out of memory for %zu rows of %u logits", rows, f.n_vocab);
        else if (hy_session_logits(s, ids, n, (uint32_t)a->chunk, a->all, out, &err) != HY_OK)
            rc = cli_fail("logits", &err);
        else rc = write_floats("logits", a->out, out, rows * f.n_vocab);
    } else {
        rc = cli_fail("logits", &err);
    }
    hy_free(out);
    hy_free(ids);
    hy_session_close(s);
    return rc;
}

int cmd_dequantize(cli_args *a)
{
    char *in;
    size_t n_in, n_out;
    float *out;
    hy_err err;
    if (!cli_read("dequantize", "-", &in, &n_in)) return 1;
    hy_status s = hy_tool_dequantize(a->pos[0], in, n_in, &out, &n_out, &err);
    hy_free(in);
    if (s != HY_OK) return cli_fail("dequantize", &err);
    errno = 0;
    if (fwrite(out, sizeof *out, n_out, stdout) != n_out) (void)cli_flush(); /* keeps errno; main reports */
    hy_memory_free(out);
    return 0;
}
