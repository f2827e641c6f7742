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

static volatile sig_atomic_t interrupted, cli_bar_on_screen;

static void on_interrupt(int sig)
{
    if (interrupted) _exit(130);
    interrupted = 1;
}

static void on_interrupt_end(int sig)
{
    static const char text[] = "hayate: interrupted\n";
    if (write(2, "\r\033[K", cli_bar_on_screen ? 4 : 0) >= 0 && write(2, text, sizeof text - 1) >= 0) _exit(130);
    _exit(130);
}

/* restart: a write in progress goes on (stdout would else keep an error for good); without it reading a
 * prompt ends. */
static void catch(void (*handler)(int), bool restart)
{
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = handler;
    sa.sa_flags = restart ? SA_RESTART : 0;
    sigaction(SIGINT, &sa, NULL);
}

void cli_catch_interrupt(void)
{
    catch(on_interrupt, false);
}

void cli_end_on_interrupt(void)
{
    catch(on_interrupt_end, false);
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
    cli_bar_on_screen = 1;
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
    bool bytes = !b->unit || strcmp(b->unit, "B") == 0;
    char text[512];
    snprintf(text, sizeof text, "%.60s [%s] %s of %s%s%s%s", b->what, bar_text, d, t, bytes ? "" : " ",
             bytes ? "" : b->unit, left);
    /* a line that wraps could not be wiped: what does not fit is cut */
    struct winsize w = { 0 };
    int columns = ioctl(2, TIOCGWINSZ, &w) == 0 && w.ws_col > 1 ? w.ws_col - 1 : 79;
    fprintf(stderr, "\r\033[K%.*s", columns, text);
    fflush(stderr);
    return cli_interrupted();
}

void cli_bar_end(cli_bar *b)
{
    if (b->shown) fprintf(stderr, "\r\033[K");
    b->shown = false;
    cli_bar_on_screen = 0;
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
        if (interrupted) _exit(130);
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

const char *cli_clean(const char *s, char out[128])
{
    size_t n = 0;
    for (; s[n] && n < 127; n++) out[n] = (unsigned char)s[n] < 32 || s[n] == 127 ? '?' : s[n];
    out[n] = 0;
    return out;
}

void cli_drafts(const hy_usage *u, char out[CLI_DRAFTS])
{
    out[0] = 0;
    if (!u->n_drafted) return;
    int n = snprintf(out, CLI_DRAFTS, ", %u of %u drafted right (", u->n_accepted, u->n_drafted);
    for (uint32_t k = 0; k < HY_DRAFT_PLACES && u->drafted_at[k]; k++)
        n += snprintf(out + n, (size_t)(CLI_DRAFTS - n), "%u ", (200 * u->accepted_at[k] / u->drafted_at[k] + 1) / 2);
    snprintf(out + n, (size_t)(CLI_DRAFTS - n), "%% by place), about %.2f times the plain speed", u->draft_gain);
}

static int flush_errno;

bool cli_flush(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return true;
    if (!flush_errno) flush_errno = errno;
    return false;
}

int cli_flush_errno(void)
{
    return flush_errno;
}

void cli_put_json_string(const char *s, size_t n)
{
    json_t *j = json_stringn(s, n);
    if (!j || json_dumpf(j, stdout, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) != 0) fputs("\"\"", stdout);
    json_decref(j);
}

/* ---- a request's text -------------------------------------------------------------------------- */

static hy_status stream(hy_request *r, hy_buf *text, hy_event *done, hy_err *err)
{
    for (;;) {
        HY_TRY(hy_poll(r, 100, done, err));
        if (cli_interrupted()) hy_cancel(r);
        if (done->kind == HY_EV_DONE) return HY_OK;
        if (done->kind != HY_EV_TEXT) continue;
        fwrite(done->text, 1, done->n_text, stdout);
        if (!cli_flush()) hy_cancel(r); /* the reader has gone */
        if (text) hy_buf_put(text, done->text, done->n_text);
    }
}

hy_status cli_stream(hy_request *r, hy_buf *text, hy_event *done, hy_err *err)
{
    catch(on_interrupt, true);
    hy_status s = stream(r, text, done, err);
    catch(on_interrupt, false);
    return s;
}

hy_status cli_open_session(cli_args *a, uint32_t deepest, uint32_t widest, hy_session **s, hy_err *err)
{
    cli_bar bar = { .what = "loading", .unit = "B", .quiet = a->quiet };
    a->engine.model = a->pos[0];
    if (!a->engine.n_ctx) a->engine.n_ctx = deepest;
    if (!a->engine.n_seq) a->engine.n_seq = widest;
    if (!a->engine.kv_tokens) a->engine.kv_tokens = HY_MAX((uint64_t)a->engine.n_ctx * a->engine.n_seq, 16);
    a->engine.progress = cli_bar_step;
    a->engine.progress_ctx = &bar;
    hy_status st = hy_session_open(s, &a->engine, err);
    cli_bar_end(&bar);
    return st;
}
