/* hayate chat: a conversation in the terminal. Ctrl-C stops the answer and not the program. */
#include "cli.h"
#include <editline/readline.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct chat {
    hy_engine *engine;
    cli_args *a;
    json_t *messages;
    char *source;              /* template of the user's, or NULL */
    char history[1024];        /* file of typed lines, or "" */
    bool tty;
} chat;

static const char help_text[] =
    "/help             this list\n"
    "/clear            forget the conversation (the system message stays)\n"
    "/system TEXT      set the system message and start over\n"
    "/again            drop the last answer and answer again\n"
    "/undo             drop the last question and answer\n"
    "/set NAME VALUE   temp, top-p, top-k, min-p, predict, seed\n"
    "/show             the text that the model is given\n"
    "/save FILE        write the conversation as JSON, and beside it (FILE.kv) what was computed for it\n"
    "/load FILE        read one back; the next answer begins at once where FILE.kv fits\n"
    "/stats            model, memory, speed\n"
    "/quit             end (also Ctrl-D)\n"
    "A line that ends in \\ goes on in the next; \"\"\" begins and ends a text of several lines.\n";

/* False: the text is not valid UTF-8 (or memory ran out); nothing was added. */
static bool say(const char *role, const char *text, size_t n, json_t *messages)
{
    json_t *content = json_stringn(text, n);
    if (content &&
        json_array_append_new(messages, json_pack("{s:s, s:o}", "role", role, "content", content)) == 0)
        return true;
    cli_error("chat", "the %s message is not valid UTF-8 and is left out", role);
    return false;
}

static const char *role_at(const chat *c, size_t i)
{
    const char *role = json_string_value(json_object_get(json_array_get(c->messages, i), "role"));
    return role ? role : "";
}

static void drop_last(chat *c, const char *role)
{
    size_t n = json_array_size(c->messages);
    if (n && strcmp(role_at(c, n - 1), role) == 0) json_array_remove(c->messages, n - 1);
}

static void clear(chat *c)
{
    bool system = json_array_size(c->messages) && strcmp(role_at(c, 0), "system") == 0;
    json_t *first = system ? json_incref(json_array_get(c->messages, 0)) : NULL;
    json_array_clear(c->messages);
    if (first) json_array_append_new(c->messages, first);
}

static char *vars_of(const chat *c)
{
    json_t *vars = json_pack("{s:O}", "messages", c->messages);
    char *dump = vars ? json_dumps(vars, 0) : NULL;
    json_decref(vars);
    return dump;
}

/* Answers the conversation as it stands; the answer joins it. */
static void answer(chat *c)
{
    hy_err err;
    hy_request *r;
    char *vars = vars_of(c);
    c->a->params.chat_json = vars;
    c->a->params.chat_template = c->source;
    hy_status s = vars ? hy_submit(c->engine, &c->a->params, &r, &err) : HY_E_MEMORY;
    free(vars);
    if (s != HY_OK) {
        cli_error("chat", "%s%s", vars ? err.msg : "out of memory",
                  vars && s == HY_E_LIMIT ? "; /clear or /undo make room, --ctx gives more" : "");
        drop_last(c, "user");
        return;
    }
    hy_buf text = { 0 };
    hy_event done;
    s = cli_stream(r, &text, &done, &err);
    putchar('\n');
    if (s != HY_OK) cli_fail("chat", &err);
    else if (!c->a->quiet) {
        const hy_usage *u = &done.usage;
        double tps = u->n_output > 1 && u->decode_ms > 0 ? (u->n_output - 1) * 1000 / u->decode_ms : 0;
        char drafts[CLI_DRAFTS];
        cli_drafts(u, drafts);
        fprintf(stderr, "%s[first token %.0f ms, %u tokens, %.1f tokens/s%s%s]%s\n", isatty(2) ? "\033[2m" : "",
                u->ttft_ms, u->n_output, tps, drafts, done.finish == HY_FINISH_CANCELLED ? ", stopped" :
                done.finish == HY_FINISH_LENGTH ? ", length reached" : "", isatty(2) ? "\033[0m" : "");
    }
    if (s == HY_OK) (void)say("assistant", text.data ? text.data : "", text.len, c->messages);
    hy_buf_free(&text);
    hy_release(r);
}

/* ---- commands ---------------------------------------------------------------------------------- */

static void set_value(chat *c, char *rest)
{
    char *name = strtok(rest, " "), *value = strtok(NULL, " ");
    hy_params *p = &c->a->params;
    hy_err err;
    uint64_t u;
    double x;
    hy_status s = HY_E_ARG;
    if (!name || !value) {
        cli_error("chat", "/set NAME VALUE");
        return;
    }
    hy_fail(&err, HY_E_ARG, "'%s' cannot be set; /help lists what can", name);
    if (strcmp(name, "temp") == 0 && (s = hy_parse_f64(name, value, 0, 100, &x, &err)) == HY_OK) p->temperature = x;
    else if (strcmp(name, "top-p") == 0 && (s = hy_parse_f64(name, value, 0, 1, &x, &err)) == HY_OK) p->top_p = x;
    else if (strcmp(name, "min-p") == 0 && (s = hy_parse_f64(name, value, 0, 1, &x, &err)) == HY_OK) p->min_p = x;
    else if (strcmp(name, "top-k") == 0 && (s = hy_parse_u64(name, value, 0, 1000000, &u, &err)) == HY_OK) p->top_k = (uint32_t)u;
    else if (strcmp(name, "predict") == 0 && (s = hy_parse_u64(name, value, 1, 16777216, &u, &err)) == HY_OK) p->max_tokens = (uint32_t)u;
    else if (strcmp(name, "seed") == 0 && (s = hy_parse_u64(name, value, 0, UINT64_MAX, &u, &err)) == HY_OK) p->seed = u;
    if (s == HY_OK) printf("%s = %s\n", name, value);
    else cli_fail("chat", &err);
}

static void show(chat *c)
{
    char *vars = vars_of(c), *text;
    hy_err err;
    if (!vars) return;
    if (hy_engine_chat(c->engine, vars, c->source, &text, &err) == HY_OK) {
        printf("%s\n", text);
        hy_memory_free(text);
    } else {
        cli_fail("chat", &err);
    }
    free(vars);
}

/* FILE.kv holds the cached pages of the conversation's tokens. Without it the next answer only begins later. */
static char *kv_path(const char *path)
{
    hy_buf b = { 0 };
    hy_buf_printf(&b, "%s.kv", path);
    if (b.failed) hy_buf_free(&b);
    return b.data;
}

static void save_kv(chat *c, const char *path)
{
    json_t *vars = json_pack("{s:O,s:b}", "messages", c->messages, "add_generation_prompt", 0);
    char *dump = vars ? json_dumps(vars, 0) : NULL, *kv = kv_path(path);
    int32_t *ids = NULL;
    size_t n = 0;
    uint32_t n_saved = 0;
    hy_err err = { HY_OK, "out of memory" };
    hy_status s = dump && kv ? hy_engine_chat_tokens(c->engine, dump, c->source, false, NULL, &ids, &n, &err) : HY_E_MEMORY;
    if (s == HY_OK) s = hy_engine_cache_save(c->engine, kv, NULL, ids, (uint32_t)n, &n_saved, &err);
    if (s != HY_OK) cli_error("chat", "%s.kv: %s", path, err.msg);
    else if (n_saved) printf("%u computed tokens to %s\n", n_saved, kv);
    hy_memory_free(ids);
    hy_free(kv);
    free(dump);
    json_decref(vars);
}

static void load_kv(chat *c, const char *path)
{
    char *kv = kv_path(path);
    uint32_t n = 0;
    hy_err err;
    if (kv && hy_is_file(kv)) {
        if (hy_engine_cache_load(c->engine, kv, NULL, &n, &err) == HY_OK) printf("%u computed tokens\n", n);
        else cli_error("chat", "%s; the next answer computes them again", err.msg);
    }
    hy_free(kv);
}

static void save(chat *c, const char *path)
{
    if (!*path) cli_error("chat", "/save FILE");
    else if (json_dump_file(c->messages, path, JSON_INDENT(1)) != 0) cli_error("chat", "%s: %s", path, strerror(errno));
    else {
        printf("saved to %s\n", path);
        save_kv(c, path);
    }
}

static void load(chat *c, const char *path)
{
    json_error_t je;
    json_t *m = json_load_file(path, 0, &je);
    bool good = json_is_array(m);
    for (size_t i = 0; good && i < json_array_size(m); i++)
        good = json_is_string(json_object_get(json_array_get(m, i), "role"));
    if (good) {
        json_decref(c->messages);
        c->messages = json_incref(m);
        printf("%zu messages\n", json_array_size(m));
        load_kv(c, path);
    } else {
        cli_error("chat", "%s: %s", path, m ? "no list of messages" : je.text);
    }
    json_decref(m);
}

static void stats(chat *c)
{
    hy_facts f;
    hy_counters n;
    hy_engine_facts(c->engine, &f);
    hy_engine_counters(c->engine, &n);
    printf("%s (%s), %s, %u threads, context %u\nweights %.1f MiB, KV %s %.1f MiB, plan %.1f MiB\n"
           "%llu steps, %llu tokens\n", cli_clean(f.name, (char[128]){ 0 }), f.family, f.isa, f.n_threads, f.n_ctx,
           (double)f.weight_bytes / (double)HY_MIB, f.kv_type, (double)f.kv_bytes / (double)HY_MIB,
           (double)f.plan_bytes / (double)HY_MIB, (unsigned long long)n.n_step, (unsigned long long)n.n_token);
}

/* False: the conversation is over. */
static bool command(chat *c, char *line)
{
    char *rest = line + strcspn(line, " ");
    if (*rest) *rest++ = 0;
    if (strcmp(line, "/quit") == 0 || strcmp(line, "/exit") == 0) return false;
    if (strcmp(line, "/help") == 0) fputs(help_text, stdout);
    else if (strcmp(line, "/clear") == 0) clear(c);
    else if (strcmp(line, "/system") == 0) {
        json_array_clear(c->messages);
        if (*rest) (void)say("system", rest, strlen(rest), c->messages);
    } else if (strcmp(line, "/again") == 0) {
        drop_last(c, "assistant");
        size_t n = json_array_size(c->messages);
        if (n && strcmp(role_at(c, n - 1), "user") == 0) answer(c);
        else cli_error("chat", "nothing to answer yet");
    } else if (strcmp(line, "/undo") == 0) {
        drop_last(c, "assistant");
        drop_last(c, "user");
    } else if (strcmp(line, "/set") == 0) set_value(c, rest);
    else if (strcmp(line, "/show") == 0) show(c);
    else if (strcmp(line, "/save") == 0) save(c, rest);
    else if (strcmp(line, "/load") == 0) load(c, rest);
    else if (strcmp(line, "/stats") == 0) stats(c);
    else cli_error("chat", "no command %s; /help lists them", line);
    return true;
}

/* ---- input ------------------------------------------------------------------------------------- */

/* One line without its newline (malloc'd), or NULL at the end of input. */
static char *read_line(const chat *c, const char *prompt)
{
    if (c->tty) return readline(prompt);
    char *line = NULL;
    size_t cap = 0;
    ssize_t n = getline(&line, &cap, stdin);
    if (n < 0) {
        free(line);
        return NULL;
    }
    if (n && line[n - 1] == '\n') line[n - 1] = 0;
    return line;
}

/* A whole message: lines joined while they end in \, or between two lines of """. False at the end. */
static bool read_message(const chat *c, hy_buf *out)
{
    hy_buf_reset(out);
    cli_interrupt_reset(); /* it was for what is over; from here on one that comes after a message is for its answer */
    bool block = false, begun = false;
    for (;;) {
        char *line = read_line(c, begun ? ". " : "> ");
        begun = line != NULL;
        if (!line) {
            if (!cli_interrupted()) return out->len > 0;
            cli_interrupt_reset(); /* Ctrl-C at the prompt: begin again */
            hy_buf_reset(out);
            block = false;
            putchar('\n');
            continue;
        }
        size_t n = strlen(line);
        if (strcmp(line, "\"\"\"") == 0) {
            free(line);
            if (block) return true;
            block = true;
            continue;
        }
        bool more = block || (n && line[n - 1] == '\\');
        hy_buf_put(out, line, more && !block ? n - 1 : n);
        free(line);
        if (!more) return true;
        hy_buf_char(out, '\n');
    }
}

static void talk(chat *c)
{
    hy_buf in = { 0 };
    while (read_message(c, &in)) {
        if (in.failed) break;
        if (in.len == 0) continue;
        if (c->tty) {
            add_history(in.data);
            if (c->history[0]) write_history(c->history);
        }
        if (in.data[0] == '/') {
            if (!command(c, in.data)) break;
            continue;
        }
        if (say("user", in.data, in.len, c->messages)) answer(c);
    }
    hy_buf_free(&in);
}

static void open_history(chat *c)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (!c->tty) return;
    rl_initialize();
    if (state && *state) snprintf(c->history, sizeof c->history, "%s/hayate_history", state);
    else if (home && *home) snprintf(c->history, sizeof c->history, "%s/.hayate_history", home);
    if (c->history[0]) read_history(c->history);
    stifle_history(1000);
}

int cmd_chat(cli_args *a)
{
    hy_bias bias[CLI_LIST_MAX];
    if (!cli_use_tuned("chat", a) || !cli_finish_options("chat", a, bias)) return 2;
    chat c = { .a = a, .messages = json_array(), .tty = isatty(0) };
    size_t n;
    hy_err err;
    int rc = 0;
    if (a->template_file && !cli_read("chat", a->template_file, &c.source, &n)) rc = 1;
    cli_catch_interrupt();
    cli_bar bar = { .what = "loading", .unit = "B", .quiet = a->quiet };
    a->engine.model = a->pos[0];
    if (!a->engine.n_seq) a->engine.n_seq = 1;
    a->engine.progress = cli_bar_step;
    a->engine.progress_ctx = &bar;
    if (rc == 0 && hy_open(&c.engine, &a->engine, &err) != HY_OK) {
        cli_bar_end(&bar);
        rc = cli_fail("chat", &err);
    }
    cli_bar_end(&bar);
    hy_facts f;
    if (rc == 0) hy_engine_facts(c.engine, &f);
    if (rc == 0 && !f.has_template && !c.source)
        rc = cli_error("chat", "this model has no chat template: give one with --template, or use `hayate run`");
    if (rc == 0) {
        if (a->system) (void)say("system", a->system, strlen(a->system), c.messages);
        open_history(&c);
        if (c.tty && !a->quiet)
            printf("%s, %s, %u threads. /help lists the commands; Ctrl-D ends.\n",
                   cli_clean(f.name[0] ? f.name : f.family, (char[128]){ 0 }), f.isa, f.n_threads);
        talk(&c);
        if (c.tty) putchar('\n');
    }
    json_decref(c.messages);
    hy_free(c.source);
    hy_close(c.engine);
    return rc;
}
