#include "cli.h"
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- Ctrl-C ------------------------------------------------------------------------------------ */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig)
{
    if (interrupted) _exit(130);
    interrupted = 1;
}

void cli_catch_interrupt(void)
{
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = on_interrupt;
    sigaction(SIGINT, &sa, NULL);
    signal(SIGPIPE, SIG_IGN);
}

bool cli_interrupted(void)
{
    return interrupted != 0;
}

void cli_interrupt_reset(void)
{
    interrupted = 0;
}

/* ---- progress bar ------------------------------------------------------------------------------ */

static void amount(char *out, size_t n, uint64_t v, const char *unit)
{
    if (!unit || strcmp(unit, "B") != 0) snprintf(out, n, "%llu", (unsigned long long)v);
    else if (v >= HY_GIB) snprintf(out, n, "%.2f GiB", (double)v / (double)HY_GIB);
    else snprintf(out, n, "%.1f MiB", (double)v / (double)HY_MIB);
}

bool cli_bar_step(void *bar, uint64_t done, uint64_t all)
{
    cli_bar *b = bar;
    if (b->quiet || !isatty(2)) return cli_interrupted();
    uint64_t now = hy_now_us();
    if (!b->us_start) b->us_start = now;
    if (now - b->us_shown < 80000 && done < all) return cli_interrupted();
    b->us_shown = now;
    b->shown = true;
    char bar_text[32], d[32], t[32], left[32] = "";
    int fill = all ? (int)(done * 24 / all) : 0;
    for (int i = 0; i < 24; i++) bar_text[i] = i < fill ? '#' : '.';
    bar_text[24] = 0;
    amount(d, sizeof d, done, b->unit);
    amount(t, sizeof t, all, b->unit);
    if (done && done < all && now - b->us_start > 500000) {
        double s = (double)(now - b->us_start) / 1e6 * (double)(all - done) / (double)done;
        snprintf(left, sizeof left, ", %d:%02d left", (int)s / 60, (int)s % 60);
    }
    fprintf(stderr, "\r\033[K%s [%s] %s of %s%s%s%s", b->what, bar_text, d, t,
            b->unit && strcmp(b->unit, "B") ? " " : "", b->unit && strcmp(b->unit, "B") ? b->unit : "", left);
    fflush(stderr);
    return cli_interrupted();
}

void cli_bar_end(cli_bar *b)
{
    if (b->shown) fprintf(stderr, "\r\033[K");
    b->shown = false;
}

/* ---- files ------------------------------------------------------------------------------------- */

static bool read_stdin(const char *command, char **data, size_t *n)
{
    hy_buf b = { 0 };
    char piece[65536];
    size_t k;
    while ((k = fread(piece, 1, sizeof piece, stdin)) > 0 && !b.failed && b.len < HY_GIB) hy_buf_put(&b, piece, k);
    if (b.failed || ferror(stdin)) {
        hy_buf_free(&b);
        return cli_error(command, "standard input: %s", b.failed ? "out of memory" : strerror(errno)), false;
    }
    *n = b.len;
    *data = b.data ? b.data : hy_strdup("");
    return *data != NULL;
}

bool cli_read(const char *command, const char *path, char **data, size_t *n)
{
    if (strcmp(path, "-") == 0) return read_stdin(command, data, n);
    hy_err err;
    if (hy_read_file(path, 4 * HY_GIB, data, n, &err) != HY_OK) return cli_fail(command, &err), false;
    return true;
}

bool cli_read_tokens(const char *command, const char *path, int32_t **ids, uint32_t *n)
{
    char *data;
    size_t bytes;
    if (!cli_read(command, path, &data, &bytes)) return false;
    json_error_t je;
    json_t *a = json_loadb(data, bytes, 0, &je);
    hy_free(data);
    if (!json_is_array(a)) {
        json_decref(a);
        return cli_error(command, "%s: not a JSON array of token ids%s%s", path, a ? "" : ": ", a ? "" : je.text), false;
    }
    *n = (uint32_t)json_array_size(a);
    *ids = hy_alloc_array(*n ? *n : 1, sizeof **ids);
    bool good = *ids != NULL;
    for (uint32_t i = 0; good && i < *n; i++) {
        json_t *v = json_array_get(a, i);
        json_int_t id = json_integer_value(v);
        if (!json_is_integer(v) || id < 0 || id > INT32_MAX) {
            cli_error(command, "%s: item %u is no token id", path, i);
            good = false;
        }
        (*ids)[i] = (int32_t)id;
    }
    json_decref(a);
    if (!good) hy_free(*ids);
    return good;
}

void cli_put_json_string(const char *s, size_t n)
{
    json_t *j = json_stringn(s, n);
    if (!j || json_dumpf(j, stdout, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) != 0) fputs("\"\"", stdout);
    json_decref(j);
}

/* ---- a request's text -------------------------------------------------------------------------- */

hy_status cli_stream(hy_request *r, bool print, hy_buf *text, int32_t *ids, uint32_t *n_ids, hy_event *done, hy_err *err)
{
    for (;;) {
        HY_TRY(hy_poll(r, 100, done, err));
        if (cli_interrupted()) hy_cancel(r);
        if (done->kind == HY_EV_DONE) return HY_OK;
        if (done->kind != HY_EV_TEXT) continue;
        if (print) {
            fwrite(done->text, 1, done->n_text, stdout);
            if (fflush(stdout) != 0) hy_cancel(r); /* the reader has gone */
        }
        if (text) hy_buf_put(text, done->text, done->n_text);
        for (uint32_t i = 0; ids && i < done->n_token; i++) ids[(*n_ids)++] = done->token[i].id;
    }
}
