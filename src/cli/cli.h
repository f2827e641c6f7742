/* cli: the program. May include base, serve and the public headers. Nothing below cli/ exits or prints.
 *
 * A command is a row in commands[] (main.c): its function, its positional arguments and the groups
 * of options it takes. --help, `hayate help`, completion and the config file come from these tables. */
#ifndef HY_CLI_H
#define HY_CLI_H

#include <hayate/hayate.h>
#include <hayate/tools.h>
#include "base/base.h"
#include "serve/serve.h"

#define CLI_POS_MAX 3
#define CLI_LIST_MAX 64
#define CLI_OPTIONS_MAX 192

/* Values of every option of every command; a command reads those of its groups. */
typedef struct cli_args {
    const char *pos[CLI_POS_MAX];
    int n_pos;
    /* model */
    hy_options engine;
    const char *kv_mode;
    uint64_t n_ctx, n_threads, n_threads_decode, n_step, n_seq, kv_tokens, spec_max, spec_store;
    /* generation */
    hy_params params;
    uint64_t n_predict, top_k, seed, top_logprobs, no_repeat_ngram;
    bool has_seed, has_logprobs;
    const char *stop[CLI_LIST_MAX]; uint32_t n_stop;
    const char *bias[CLI_LIST_MAX]; uint32_t n_bias;
    const char *system, *template_file, *prompt_file;
    bool chat, raw;
    /* shapes and files of single commands */
    const char *tokens_file, *out, *text_file, *base_model, *sha256, *imatrix, *activations;
    const char *over[CLI_LIST_MAX]; uint32_t n_over;
    const char *depths, *batches;
    bool ablation;             /* bench */
    const char *only;          /* --ablation: techniques */
    uint64_t chunk, n_prompt, n_gen, repeats, window, stride, windows, score_first;
    bool all, json, quiet, ids, pieces, no_special, no_parse_special;
    bool fresh;                /* cpu, tune */
    /* tune; who reads what it found */
    const char *goal, *quality_loss, *speed_loss, *ttft_limit, *tuned;
    double minutes;
    bool no_tuned;
    hy_tuned found;            /* what values point into */
    /* bench: results that are kept */
    const char *save, *compare, *results, *noise_floor;
    const char *trace;         /* profile */
    const char *key; bool once;/* top; bench serve */
    /* bench serve */
    uint64_t load_streams, load_requests, load_prompt, load_output, load_prefix, load_prefixes;
    double load_rate, load_ttft, load_itl;
    const char *load_trace, *load_model;
    bool load_mixture, load_until_end;
    /* serve */
    hy_serve_options serve;
    uint64_t port, n_worker, n_connection, idle_s, ping_s, n_queue;
    const char *body_max, *kv_memory, *kv_swap_max, *log_level, *port_file;
    const char *config;        /* the file that was read, or NULL */
    char *config_text;         /* what values point into; of the first parse it lives as long as the program */
    int argc; char **argv;     /* as cli_parse had them */
    bool given[CLI_OPTIONS_MAX]; /* by flag, environment or config; as cli_options */
} cli_args;

typedef struct cli_command {
    const char *name, *summary;
    const char *pos;           /* "MODEL [PROMPT]": words in brackets may be missing */
    int pos_min, pos_max;
    uint32_t groups;           /* CLI_G_* */
    int (*run)(cli_args *a);   /* exit status */
    const char *about;         /* paragraphs and examples for help */
} cli_command;

enum { CLI_G_MODEL = 1, CLI_G_SAMPLE = 2, CLI_G_RUN = 4, CLI_G_JSON = 8, CLI_G_LOGITS = 16, CLI_G_BENCH = 32,
       CLI_G_EVAL = 64, CLI_G_TOKENIZE = 128, CLI_G_PULL = 256, CLI_G_QUANT = 512, CLI_G_CHAT = 1024,
       CLI_G_CTX = 2048, CLI_G_IMATRIX = 4096, CLI_G_CPU = 8192, CLI_G_PROFILE = 16384,
       CLI_G_TOP = 32768, CLI_G_SERVE = 65536, CLI_G_LOAD = 1 << 20, CLI_G_TUNE = 1 << 21, CLI_G_TUNED = 1 << 22 };

/* MAYBE: a string that may be left out (""): --save, --save=NAME */
typedef enum cli_kind { CLI_FLAG, CLI_STR, CLI_NUM, CLI_REAL, CLI_LIST, CLI_MAYBE } cli_kind;
typedef struct cli_option {
    const char *name;          /* "threads": --threads, HAYATE_THREADS, threads = in the config file */
    char letter;               /* -t, or 0 */
    uint32_t groups;
    cli_kind kind;
    size_t offset;             /* into cli_args */
    double min, max;           /* numbers */
    const char *arg, *help;
    size_t extra;              /* LIST: offset of the count; NUM, FLAG: of a bool set with it, or 0 */
} cli_option;

extern const cli_command cli_commands[];           /* ends with name == NULL */
extern const cli_option cli_options[];             /* ends with name == NULL */
const cli_command *cli_find(const char *name);

/* Flags over environment over config file over defaults. Prints its message and returns false when
 * something is wrong; *help: help was asked for and printed. */
bool cli_parse(const cli_command *c, int argc, char **argv, cli_args *a, bool *help);
/* An option of a command by its name, as a flag would set it; false and a message when the value is wrong. */
bool cli_set(const cli_command *c, const char *name, const char *value, const char *from, cli_args *a);
bool cli_given(const cli_args *a, const char *name, uint32_t groups); /* did the user set it? */
/* Settings that `hayate tune` found for a->pos[0], where the user gave none: applied and said on stderr. False when
 * the file is wrong (message printed). Called by what runs a model for its user. */
bool cli_use_tuned(const char *command, cli_args *a);
/* "1%", "0.01": a share of 0..max. "200ms", "0.2s", "200": milliseconds. False and a message. */
bool cli_share(const char *command, const char *name, const char *text, double max, double *out);
bool cli_milliseconds(const char *command, const char *name, const char *text, double *out);
void cli_print_help(const cli_command *c);
void cli_print_usage(void);

/* "hayate COMMAND: message" on stderr; returns 1, and 130 for what Ctrl-C cancelled. */
int cli_fail(const char *command, const hy_err *err);
int cli_error(const char *command, const char *fmt, ...) HY_PRINTF(2, 3);

/* ---- progress bar on stderr; silent when stderr is no terminal -------------------------------- */
typedef struct cli_bar {
    const char *what, *unit;   /* unit "B": bytes */
    uint64_t us_start, us_shown;
    bool shown, quiet;
} cli_bar;
bool cli_bar_step(void *bar, uint64_t done, uint64_t all); /* hy_progress_fn; true after Ctrl-C */
void cli_bar_end(cli_bar *bar);

/* ---- Ctrl-C ----------------------------------------------------------------------------------- */
void cli_catch_interrupt(void);                    /* the first one only sets the flag, a second one ends */
void cli_end_on_interrupt(void);                   /* it ends the program: for commands that leave nothing half done */
bool cli_interrupted(void);
void cli_interrupt_reset(void);

/* A whole file, or standard input for "-". Free with hy_free. */
bool cli_read(const char *command, const char *path, char **data, size_t *n);
/* A JSON array of token ids from a file. */
bool cli_read_tokens(const char *command, const char *path, int32_t **ids, uint32_t *n);
/* Flushes stdout; false when it cannot be written. The first failure's errno is kept for main's message. */
bool cli_flush(void);
int cli_flush_errno(void);
/* A name out of a file, for a terminal: control characters become '?'; cut at 127 bytes. */
const char *cli_clean(const char *s, char out[128]);
/* ", 30 of 40 drafted right (90 60 % by place), about 1.4 times the plain speed"; "" where nothing was drafted. */
#define CLI_DRAFTS 192
void cli_drafts(const hy_usage *u, char out[CLI_DRAFTS]);
/* JSON string literal on stdout. */
void cli_put_json_string(const char *s, size_t n);
/* Fills a->params and the engine's options from the parsed values; a->bias gives bias[]. */
bool cli_finish_options(const char *command, cli_args *a, hy_bias *bias);
/* Waits for r and writes its text to stdout as it comes, and to text when not NULL; Ctrl-C cancels. */
hy_status cli_stream(hy_request *r, hy_buf *text, hy_event *done, hy_err *err);

/* A session on a->pos[0] for measuring, with a loading bar: unless options say otherwise, room for `widest` sequences
 * of `deepest` tokens. */
hy_status cli_open_session(cli_args *a, uint32_t deepest, uint32_t widest, hy_session **s, hy_err *err);

int cmd_run(cli_args *a);
int cmd_chat(cli_args *a);
int cmd_serve(cli_args *a);
int cmd_pipe(cli_args *a);
int cmd_logits(cli_args *a);
int cmd_eval(cli_args *a);
int cmd_bench(cli_args *a);
int cmd_ablation(cli_args *a);                     /* bench --ablation */
int cmd_explain(cli_args *a);
int cmd_cpu(cli_args *a);
int cmd_tune(cli_args *a);
int cmd_profile(cli_args *a);
int cmd_info(cli_args *a);
int cmd_tokenize(cli_args *a);
int cmd_quantize(cli_args *a);
int cmd_imatrix(cli_args *a);
int cmd_dequantize(cli_args *a);
int cmd_pull(cli_args *a);
int cmd_bench_serve(cli_args *a);
int cmd_top(cli_args *a);
int cmd_completion(cli_args *a);
int cmd_help(cli_args *a);
int cmd_version(cli_args *a);

#endif
