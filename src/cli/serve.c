/* hayate serve: the flags become options, the server runs until it is told to stop. */
#include "cli.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SERVE_SEQ 32               /* requests at once, unless told */

/* What SIGHUP may change; the server holds the strings, so the ones in use are kept until the next change. */
typedef struct served {
    const cli_args *a;
    cli_bar bar;
    char *keys[2], *cors[2];
    bool failed;                   /* the URL could not be written */
} served;

static const char *const level_names[] = { "error", "warn", "info", "debug", "trace" };

static bool set_level(const cli_args *a)
{
    if (!a->log_level) {
        hy_log_set_level(a->quiet ? HY_LOG_ERROR : HY_LOG_INFO);
        return true;
    }
    for (size_t i = 0; i < HY_COUNT(level_names); i++)
        if (strcmp(a->log_level, level_names[i]) == 0) {
            hy_log_set_level((hy_log_level)i);
            return true;
        }
    return cli_error("serve", "--log: '%s' is not one of error, warn, info, debug, trace", a->log_level), false;
}

static bool bytes(const char *name, const char *text, uint64_t *out)
{
    hy_err err;
    if (!text || hy_parse_bytes(name, text, out, &err) == HY_OK) return true;
    cli_fail("serve", &err);
    return false;
}

static bool finish(cli_args *a)
{
    hy_serve_options *o = &a->serve;
    hy_bias none[1];
    if (!cli_use_tuned("serve", a) || !cli_finish_options("serve", a, none) || !set_level(a)) return false;
    if (!bytes("--body-max", a->body_max, &o->body_max) || !bytes("--kv-memory", a->kv_memory, &a->engine.kv_memory) ||
        !bytes("--kv-swap-max", a->kv_swap_max, &a->engine.kv_swap_bytes))
        return false;
    o->port = (uint16_t)a->port;
    o->n_worker = (uint32_t)a->n_worker;
    o->n_connection = (uint32_t)a->n_connection;
    o->idle_s = (uint32_t)a->idle_s;
    o->ping_s = (uint32_t)a->ping_s;
    a->engine.model = a->pos[0];
    a->engine.n_seq = a->engine.n_seq ? a->engine.n_seq : SERVE_SEQ;
    return true;
}

/* Appears whole or not at all: scripts wait for it. */
static bool write_url(const char *path, const char *url)
{
    hy_buf line = { 0 };
    hy_err err;
    hy_buf_printf(&line, "%s\n", url);
    hy_status s = line.failed ? hy_fail_memory(&err, path, strlen(url)) : hy_write_file(path, line.data, line.len, &err);
    hy_buf_free(&line);
    if (s != HY_OK) cli_error("serve", "--port-file %s", err.msg);
    return s == HY_OK;
}

static void on_ready(void *ctx, const char *url)
{
    served *s = ctx;
    printf("hayate: listening on %s\n", url);
    (void)cli_flush();
    if (s->a->port_file) s->failed = !write_url(s->a->port_file, url);
}

static void on_loaded(void *ctx, hy_engine *e)
{
    served *s = ctx;
    hy_facts f;
    cli_bar_end(&s->bar);
    hy_engine_facts(e, &f);
    hy_log(HY_LOG_INFO, "serve: model loaded", "model=%s family=%s ctx=%u parallel=%u threads=%u isa=%s kv=%s", s->a->pos[0],
           f.family, f.n_ctx, f.n_seq, f.n_threads, f.isa, f.kv_type);
}

/* Puts a copy of `text` where the server's own `used` is not. */
static bool keep(char *slot[2], const char *used, const char *text, const char **out)
{
    int i = slot[0] && slot[0] == used;
    hy_free(slot[i]);
    slot[i] = text ? hy_strdup(text) : NULL;
    *out = slot[i];
    return !text || slot[i];
}

static hy_status on_reload(void *ctx, hy_serve_options *o, hy_err *err)
{
    served *s = ctx;
    cli_args a;
    bool help;
    if (!cli_parse(cli_find("serve"), s->a->argc, s->a->argv, &a, &help) || !set_level(&a)) {
        hy_free(a.config_text);
        return hy_fail(err, HY_E_ARG, "the options are wrong now; the old ones stay");
    }
    bool kept = keep(s->keys, o->api_keys, a.serve.api_keys, &o->api_keys) &&
                keep(s->cors, o->cors_origin, a.serve.cors_origin, &o->cors_origin);
    o->drain_timeout_s = a.serve.drain_timeout_s;
    hy_free(a.config_text);
    return kept ? HY_OK : hy_fail_memory(err, "options", 0);
}

/* ---- keygen ------------------------------------------------------------------------------------ */

static bool append(const char *path, const char *line)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    bool good = fd >= 0 && dprintf(fd, "%s\n", line) > 0;
    int e = errno;
    if (fd >= 0 && close(fd) != 0 && good) {
        e = errno;
        good = false;
    }
    if (!good) cli_error("serve", "%s: %s", path, strerror(e));
    return good;
}

static int keygen(const cli_args *a)
{
    hy_err err;
    char *key, *line;
    if (a->n_pos != 2) return cli_error("serve", "usage: hayate serve keygen NAME [--api-keys FILE]"), 2;
    if (hy_serve_keygen(a->pos[1], &key, &line, &err) != HY_OK) return cli_fail("serve", &err);
    int rc = 0;
    if (!a->serve.api_keys) printf("key:  %s\nline: %s\n", key, line);
    else if (append(a->serve.api_keys, line)) printf("%s\n", key);
    else rc = 1;
    hy_free(key);
    hy_free(line);
    return rc;
}

int cmd_serve(cli_args *a)
{
    if (strcmp(a->pos[0], "keygen") == 0) return keygen(a);
    if (a->n_pos != 1) return cli_error("serve", "too much: '%s'; usage: hayate serve MODEL", a->pos[1]), 2;
    if (!finish(a)) return 2;
    served s = { .a = a, .bar = { .what = "loading", .unit = "B", .quiet = a->quiet } };
    hy_serve_options o = a->serve;
    o.reload = on_reload;
    o.reload_ctx = &s;
    o.loaded = on_loaded;
    o.loaded_ctx = &s;
    a->engine.progress = cli_bar_step;
    a->engine.progress_ctx = &s.bar;
    hy_err err;
    hy_status st = hy_serve_run(&a->engine, &o, on_ready, &s, &err);
    cli_bar_end(&s.bar);
    for (int i = 0; i < 2; i++) {
        hy_free(s.keys[i]);
        hy_free(s.cors[i]);
    }
    if (st != HY_OK && st != HY_E_CANCELLED) return cli_fail("serve", &err); /* stopped while loading: as asked */
    return s.failed ? 1 : 0;
}
