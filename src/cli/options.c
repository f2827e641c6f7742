/* The table of options, and how their values are found: flag, environment, config file. */
#include "cli.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OFF(field) offsetof(cli_args, field)
#define ANY 1e19
enum { MODEL = CLI_G_MODEL, SAMPLE = CLI_G_SAMPLE, RUN = CLI_G_RUN, CHAT = CLI_G_CHAT, SERVE = CLI_G_SERVE, TUNE = CLI_G_TUNE };

const cli_option cli_options[] = {
    /* model */
    { "threads", 't', MODEL | CLI_G_QUANT, CLI_NUM, OFF(n_threads), 1, 256, "N", "threads (default: chosen by measuring)", 0 },
    { "threads-decode", 0, MODEL, CLI_NUM, OFF(n_threads_decode), 1, 256, "N", "threads of decode steps (default: as -t, or chosen)", 0 },
    { "ctx", 'c', MODEL | CLI_G_CTX, CLI_NUM, OFF(n_ctx), 2, 16777216, "N", "context in tokens (default: the model's own, at most 8192)", 0 },
    { "kv-type", 0, MODEL, CLI_STR, OFF(engine.kv_type), 0, 0, "TYPE", "KV cache: auto, f32, f16, bf16, q8, q4", 0 },
    { "kv", 0, MODEL, CLI_STR, OFF(kv_mode), 0, 0, "MODE", "paged, contiguous (reserve the maximum) or off (recompute all)", 0 },
    { "kv-tokens", 0, MODEL, CLI_NUM, OFF(kv_tokens), 16, 1e10, "N", "room of the KV pool in tokens", 0 },
    { "step", 0, MODEL, CLI_NUM, OFF(n_step), 1, 16384, "N", "tokens of the largest step (default 256)", 0 },
    { "parallel", 0, MODEL, CLI_NUM, OFF(n_seq), 1, 1024, "N", "sequences at once", 0 },
    { "isa", 0, MODEL, CLI_STR, OFF(engine.isa), 0, 0, "NAME", "kernels to use: auto, scalar, avx2, avx512, neon, dotprod, i8mm", 0 },
    { "weights", 0, MODEL, CLI_STR, OFF(engine.weights), 0, 0, "TYPE", "quantise unquantised weights to TYPE while loading", 0 },
    { "weights-all", 0, MODEL, CLI_FLAG, OFF(engine.weights_all), 0, 0, NULL, "with --weights: quantised ones too (to be measured)", 0 },
    { "attention", 0, MODEL, CLI_STR, OFF(engine.attention), 0, 0, "HOW", "flash, or materialised: whole rows of scores (to be measured)", 0 },
    { "no-huge-pages", 0, MODEL, CLI_FLAG, OFF(engine.no_huge_pages), 0, 0, NULL, "weights in small pages: to be measured", 0 },
    { "activations", 0, MODEL, CLI_STR, OFF(activations), 0, 0, "TYPE", "int8 (default) or f32, with quantised weights", 0 },
    { "no-fuse", 0, MODEL, CLI_FLAG, OFF(engine.no_fuse), 0, 0, NULL, "run the primitive operators one by one", 0 },
    { "packed-cache", 0, MODEL, CLI_FLAG, OFF(engine.packed_cache), 0, 0, NULL, "keep the packed weights beside the model: the next start maps them", 0 },
    { "pin", 0, MODEL, CLI_FLAG, OFF(engine.pin), 0, 0, NULL, "pin threads to cores", 0 },
    { "quiet", 'q', MODEL | CLI_G_PULL | CLI_G_QUANT | CLI_G_CPU, CLI_FLAG, OFF(quiet), 0, 0, NULL, "no progress, no statistics", 0 },
    /* speculation */
    { "speculate", 0, RUN | CHAT | SERVE | TUNE, CLI_STR, OFF(engine.speculate), 0, 0, "WHO", "who drafts tokens: off (default), ngram, draft, self, auto", 0 },
    { "draft", 0, RUN | CHAT | SERVE | TUNE | CLI_G_BENCH, CLI_STR, OFF(engine.draft), 0, 0, "MODEL", "a smaller model with the same vocabulary, for --speculate draft and auto", 0 },
    { "spec-max", 0, RUN | CHAT | SERVE | TUNE, CLI_NUM, OFF(spec_max), 1, 16, "N", "most tokens drafted at a time (default 16)", 0 },
    { "spec-store", 0, RUN | CHAT | SERVE, CLI_NUM, OFF(spec_store), 1, 67108864, "N", "ngram also looks in the last N tokens of finished answers", 0 },
    { "spec-always", 0, RUN | CHAT | SERVE, CLI_FLAG, OFF(engine.spec_always), 0, 0, NULL, "draft whether it pays or not: to be measured", 0 },
    /* generation */
    { "predict", 'n', SAMPLE, CLI_NUM, OFF(n_predict), 1, 16777216, "N", "most tokens to generate", 0 },
    { "temp", 0, SAMPLE, CLI_REAL, OFF(params.temperature), 0, 100, "X", "temperature; 0 is greedy", 0 },
    { "top-k", 0, SAMPLE, CLI_NUM, OFF(top_k), 0, 1e9, "N", "keep the N best tokens; 0: off", 0 },
    { "top-p", 0, SAMPLE, CLI_REAL, OFF(params.top_p), 0, 1, "X", "keep the best tokens of mass X; 1: off", 0 },
    { "min-p", 0, SAMPLE, CLI_REAL, OFF(params.min_p), 0, 1, "X", "drop tokens below X times the best one's probability", 0 },
    { "typical-p", 0, SAMPLE, CLI_REAL, OFF(params.typical_p), 0, 1, "X", "locally typical sampling; 1: off", 0 },
    { "repeat-penalty", 0, SAMPLE, CLI_REAL, OFF(params.repeat_penalty), 0.01, 100, "X", "divide the logits of seen tokens; 1: off", 0 },
    { "frequency-penalty", 0, SAMPLE, CLI_REAL, OFF(params.frequency_penalty), -100, 100, "X", "subtract X for each time a token was seen", 0 },
    { "presence-penalty", 0, SAMPLE, CLI_REAL, OFF(params.presence_penalty), -100, 100, "X", "subtract X once from seen tokens", 0 },
    { "no-repeat-ngram", 0, SAMPLE, CLI_NUM, OFF(no_repeat_ngram), 0, 1000, "N", "never repeat an N-gram; 0: off", 0 },
    { "logit-bias", 0, SAMPLE, CLI_LIST, OFF(bias), 0, 0, "ID=X", "add X to a token's logit (may be repeated)", OFF(n_bias) },
    { "seed", 's', SAMPLE | CLI_G_LOAD, CLI_NUM, OFF(seed), 0, 1.8446744073709552e19, "N", "seed (default: from the clock)", OFF(has_seed) },
    { "logprobs", 0, RUN, CLI_NUM, OFF(top_logprobs), 0, 20, "N", "with --json: logprobs and the N best tokens", OFF(has_logprobs) },
    { "stop", 0, SAMPLE, CLI_LIST, OFF(stop), 0, 0, "TEXT", "end before this text (may be repeated)", OFF(n_stop) },
    { "ignore-eos", 0, SAMPLE, CLI_FLAG, OFF(params.ignore_eos), 0, 0, NULL, "go on after an end-of-text token", 0 },
    { "special", 0, SAMPLE, CLI_FLAG, OFF(params.show_special), 0, 0, NULL, "show control tokens", 0 },
    { "system", 0, RUN | CHAT, CLI_STR, OFF(system), 0, 0, "TEXT", "system message of a chat", 0 },
    { "template", 0, RUN | CHAT, CLI_STR, OFF(template_file), 0, 0, "FILE", "chat template instead of the model's own", 0 },
    { "chat", 0, RUN | CLI_G_LOAD, CLI_FLAG, OFF(chat), 0, 0, NULL, "through the chat template, as a user's message (bench serve: /v1/chat)", 0 },
    { "file", 'f', RUN, CLI_STR, OFF(prompt_file), 0, 0, "FILE", "read the prompt from a file; - is standard input", 0 },
    { "tokens", 0, RUN | CLI_G_LOGITS, CLI_STR, OFF(tokens_file), 0, 0, "FILE", "prompt as a JSON array of token ids", 0 },
    /* logits */
    { "all", 0, CLI_G_LOGITS, CLI_FLAG, OFF(all), 0, 0, NULL, "logits of every position, not only the last", 0 },
    { "out", 'o', CLI_G_LOGITS | CLI_G_PULL | CLI_G_IMATRIX | TUNE | CLI_G_BENCH, CLI_STR, OFF(out), 0, 0, "FILE", "where to write (bench --ablation: FILE.json, .csv, .html)", 0 },
    { "chunk", 0, CLI_G_LOGITS, CLI_NUM, OFF(chunk), 1, 16384, "N", "feed the prompt in chunks of N tokens", 0 },
    /* bench */
    { "prompt", 'p', CLI_G_BENCH | CLI_G_PROFILE | TUNE, CLI_NUM, OFF(n_prompt), 0, 1e6, "N", "prompt tokens (default 512; 0: no prefill test)", 0 },
    { "gen", 'n', CLI_G_BENCH | CLI_G_PROFILE | TUNE, CLI_NUM, OFF(n_gen), 0, 1e6, "N", "tokens to decode (default 64; 0: no decode test)", 0 },
    { "depth", 'd', CLI_G_BENCH | CLI_G_PROFILE, CLI_STR, OFF(depths), 0, 0, "LIST", "tokens already in the cache, comma-separated (default 0)", 0 },
    { "batch", 'b', CLI_G_BENCH | CLI_G_PROFILE, CLI_STR, OFF(batches), 0, 0, "LIST", "sequences at once, comma-separated (default 1)", 0 },
    { "ablation", 0, CLI_G_BENCH, CLI_FLAG, OFF(ablation), 0, 0, NULL, "every technique on and off: table, JSON, CSV and a report", 0 },
    { "only", 0, CLI_G_BENCH, CLI_STR, OFF(only), 0, 0, "LIST", "--ablation: these techniques alone, as fusion,kv_cache", 0 },
    { "repeats", 'r', CLI_G_BENCH, CLI_NUM, OFF(repeats), 1, 1000, "N", "repeats (default 5)", 0 },
    { "save", 0, CLI_G_BENCH, CLI_MAYBE, OFF(save), 0, 0, "NAME", "keep the results, with machine, model and commit", 0 },
    { "compare", 0, CLI_G_BENCH, CLI_MAYBE, OFF(compare), 0, 0, "BASE", "against the last kept (or a name, or a commit): 1 if slower", 0 },
    { "results", 0, CLI_G_BENCH, CLI_STR, OFF(results), 0, 0, "DIR", "where results are kept (default ~/.local/share/hayate/bench)", 0 },
    { "noise-floor", 0, CLI_G_BENCH, CLI_STR, OFF(noise_floor), 0, 0, "SHARE", "compare: a smaller change is none (default 3%)", 0 },
    /* tune, and what it found */
    { "goal", 'g', TUNE, CLI_STR, OFF(goal), 0, 0, "GOAL", "ttft, throughput or memory", 0 },
    { "quality-loss", 0, TUNE, CLI_STR, OFF(quality_loss), 0, 0, "SHARE", "perplexity may grow so much, as 1% (default: not at all)", 0 },
    { "speed-loss", 0, TUNE, CLI_STR, OFF(speed_loss), 0, 0, "SHARE", "memory: speeds may fall so much (default 10%)", 0 },
    { "ttft", 0, TUNE, CLI_STR, OFF(ttft_limit), 0, 0, "TIME", "throughput, memory: first token within TIME, as 200ms", 0 },
    { "minutes", 0, TUNE | CLI_G_BENCH, CLI_REAL, OFF(minutes), 0.01, 1440, "X", "about so long (tune: default 3; bench --ablation: 8)", 0 },
    { "streams", 0, TUNE, CLI_NUM, OFF(load_streams), 1, 256, "N", "throughput, memory: requests at once (default 8)", 0 },
    { "tuned", 0, CLI_G_TUNED, CLI_STR, OFF(tuned), 0, 0, "FILE", "settings of `hayate tune`, instead of those kept for the model", 0 },
    { "no-tuned", 0, CLI_G_TUNED, CLI_FLAG, OFF(no_tuned), 0, 0, NULL, "leave alone what `hayate tune` found", 0 },
    /* eval */
    { "text", 'f', CLI_G_EVAL | CLI_G_IMATRIX | TUNE | CLI_G_BENCH, CLI_STR, OFF(text_file), 0, 0, "FILE", "the text", 0 },
    { "base", 0, CLI_G_EVAL, CLI_STR, OFF(base_model), 0, 0, "MODEL", "kl: the reference model", 0 },
    { "window", 'w', CLI_G_EVAL, CLI_NUM, OFF(window), 2, 1e6, "N", "tokens a window (default 512)", 0 },
    { "stride", 0, CLI_G_EVAL, CLI_NUM, OFF(stride), 1, 1e6, "N", "tokens between windows (default: the window)", 0 },
    { "score-from", 0, CLI_G_EVAL, CLI_NUM, OFF(score_first), 1, 1e6, "N", "first scored position of a window (default: half)", 0 },
    { "windows", 0, CLI_G_EVAL | CLI_G_IMATRIX, CLI_NUM, OFF(windows), 1, 1e9, "N", "at most N windows (default: all)", 0 },
    /* tokenize */
    { "ids", 0, CLI_G_TOKENIZE, CLI_FLAG, OFF(ids), 0, 0, NULL, "print the ids only", 0 },
    { "no-bos", 0, CLI_G_TOKENIZE | RUN, CLI_FLAG, OFF(no_special), 0, 0, NULL, "do not add BOS, EOS and the like", 0 },
    { "no-parse-special", 0, CLI_G_TOKENIZE | RUN, CLI_FLAG, OFF(no_parse_special), 0, 0, NULL, "control tokens written out in the text stay text", 0 },
    { "input", 'f', CLI_G_TOKENIZE, CLI_STR, OFF(text_file), 0, 0, "FILE", "read the text from a file; - is standard input", 0 },
    /* pull, quantize */
    { "sha256", 0, CLI_G_PULL, CLI_STR, OFF(sha256), 0, 0, "HEX", "expected checksum", 0 },
    { "override", 0, CLI_G_QUANT, CLI_LIST, OFF(over), 0, 0, "PATTERN=TYPE", "type of the tensors whose name matches (* and ?; may be repeated)", OFF(n_over) },
    { "imatrix", 0, CLI_G_QUANT, CLI_STR, OFF(imatrix), 0, 0, "FILE", "importance weights from `hayate imatrix`", 0 },
    { "trace", 0, CLI_G_PROFILE, CLI_STR, OFF(trace), 0, 0, "FILE", "write a trace for ui.perfetto.dev", 0 },
    { "fresh", 0, CLI_G_CPU | TUNE, CLI_FLAG, OFF(fresh), 0, 0, NULL, "measure again, whatever is kept", 0 },
    /* bench serve */
    { "streams", 0, CLI_G_LOAD, CLI_NUM, OFF(load_streams), 1, 4096, "N", "serve: N requests at once, each followed by the next (default 4)", 0 },
    { "rate", 0, CLI_G_LOAD, CLI_REAL, OFF(load_rate), 0, 10000, "X", "serve: X requests a second arrive, whatever the server does", 0 },
    { "trace", 0, CLI_G_LOAD, CLI_STR, OFF(load_trace), 0, 0, "FILE", "serve: lines {\"at\": s, \"prompt\": tokens, \"output\": tokens, \"prefix\": which}", 0 },
    { "requests", 0, CLI_G_LOAD, CLI_NUM, OFF(load_requests), 1, 1000000, "N", "serve: requests in all (default 64)", 0 },
    { "prompt-tokens", 0, CLI_G_LOAD, CLI_NUM, OFF(load_prompt), 1, 1e6, "N", "serve: tokens of a prompt (default 256)", 0 },
    { "output-tokens", 0, CLI_G_LOAD, CLI_NUM, OFF(load_output), 1, 1e6, "N", "serve: tokens of an answer (default 64)", 0 },
    { "mixture", 0, CLI_G_LOAD, CLI_FLAG, OFF(load_mixture), 0, 0, NULL, "serve: lengths vary as in chats (log-normal; those above are medians)", 0 },
    { "shared-prefix", 0, CLI_G_LOAD, CLI_NUM, OFF(load_prefix), 0, 1e6, "N", "serve: N tokens that prompts begin with alike", 0 },
    { "prefixes", 0, CLI_G_LOAD, CLI_NUM, OFF(load_prefixes), 1, 1e6, "N", "serve: so many different beginnings (default 1)", 0 },
    { "until-end", 0, CLI_G_LOAD, CLI_FLAG, OFF(load_until_end), 0, 0, NULL, "serve: answers may end before --output-tokens", 0 },
    { "ttft-within", 0, CLI_G_LOAD, CLI_REAL, OFF(load_ttft), 0.001, 1e9, "MS", "serve: goodput's limit for the first token (default 500)", 0 },
    { "itl-within", 0, CLI_G_LOAD, CLI_REAL, OFF(load_itl), 0.001, 1e9, "MS", "serve: goodput's limit for a token after it (default 100)", 0 },
    { "model", 0, CLI_G_LOAD, CLI_STR, OFF(load_model), 0, 0, "NAME", "serve: the model to ask for (default: the first listed)", 0 },
    { "key", 0, CLI_G_TOP | CLI_G_LOAD, CLI_STR, OFF(key), 0, 0, "KEY", "the server's API key", 0 },
    { "once", 0, CLI_G_TOP, CLI_FLAG, OFF(once), 0, 0, NULL, "print once and end", 0 },
    /* serve */
    { "host", 0, SERVE, CLI_STR, OFF(serve.host), 0, 0, "ADDRESS", "where to listen (default 127.0.0.1; :: or 0.0.0.0 for everybody)", 0 },
    { "port", 'p', SERVE, CLI_NUM, OFF(port), 0, 65535, "N", "port (default 8080; 0: any free one)", 0 },
    { "port-file", 0, SERVE, CLI_STR, OFF(port_file), 0, 0, "FILE", "write the URL to FILE once the server listens", 0 },
    { "unix", 0, SERVE, CLI_STR, OFF(serve.unix_path), 0, 0, "PATH", "listen on a Unix socket instead", 0 },
    { "tls-cert", 0, SERVE, CLI_STR, OFF(serve.tls_cert), 0, 0, "FILE", "certificate chain (PEM); with --tls-key: https", 0 },
    { "tls-key", 0, SERVE, CLI_STR, OFF(serve.tls_key), 0, 0, "FILE", "the certificate's key (PEM)", 0 },
    { "api-keys", 0, SERVE, CLI_STR, OFF(serve.api_keys), 0, 0, "FILE", "ask for a key of this file (`hayate serve keygen NAME`)", 0 },
    { "cors", 0, SERVE, CLI_STR, OFF(serve.cors_origin), 0, 0, "ORIGIN", "let pages of ORIGIN (or '*') ask", 0 },
    { "alias", 0, SERVE, CLI_STR, OFF(serve.model_alias), 0, 0, "NAME", "the model's id (default: the file's name)", 0 },
    { "workers", 0, SERVE, CLI_NUM, OFF(n_worker), 1, 64, "N", "threads for parsing and formatting (default 2)", 0 },
    { "connections", 0, SERVE, CLI_NUM, OFF(n_connection), 4, 65536, "N", "most connections (default 1024)", 0 },
    { "idle", 0, SERVE, CLI_NUM, OFF(idle_s), 1, 86400, "SECONDS", "how long a quiet or slow connection lives (default 75)", 0 },
    { "ping", 0, SERVE, CLI_NUM, OFF(ping_s), 1, 86400, "SECONDS", "a silent stream gets a comment that often (default 15)", 0 },
    { "body-max", 0, SERVE, CLI_STR, OFF(body_max), 0, 0, "BYTES", "largest body (default 32M)", 0 },
    { "drain-timeout", 0, SERVE, CLI_REAL, OFF(serve.drain_timeout_s), 0.001, 1e6, "SECONDS", "after SIGTERM, running requests get this long (default 30)", 0 },
    { "queue", 0, SERVE, CLI_NUM, OFF(n_queue), 1, 1e6, "N", "requests that may wait; beyond that: 429 (default 256)", 0 },
    { "itl-target", 0, SERVE, CLI_REAL, OFF(engine.itl_target_ms), 1, 1e6, "MS", "longest wished gap between two tokens (default 100)", 0 },
    { "ttft-target", 0, SERVE, CLI_REAL, OFF(engine.ttft_target_ms), 1, 1e6, "MS", "wished time to the first token (default 500)", 0 },
    { "no-prefix-cache", 0, SERVE, CLI_FLAG, OFF(engine.no_prefix_cache), 0, 0, NULL, "do not share the pages of equal beginnings", 0 },
    { "kv-memory", 0, SERVE, CLI_STR, OFF(kv_memory), 0, 0, "BYTES", "size of the KV pool", 0 },
    { "kv-swap", 0, SERVE, CLI_STR, OFF(engine.kv_swap), 0, 0, "FILE", "where paused requests' pages go (default: computed again)", 0 },
    { "kv-swap-max", 0, SERVE, CLI_STR, OFF(kv_swap_max), 0, 0, "BYTES", "most of that (default 1G)", 0 },
    { "timing", 0, SERVE, CLI_FLAG, OFF(engine.timing), 0, 0, NULL, "measure each operator's share", 0 },
    { "otlp", 0, SERVE, CLI_STR, OFF(serve.otlp_url), 0, 0, "URL", "send OpenTelemetry traces there", 0 },
    { "strict-model", 0, SERVE, CLI_FLAG, OFF(serve.strict_model), 0, 0, NULL, "refuse requests that name another model (404)", 0 },
    { "allow-template", 0, SERVE, CLI_FLAG, OFF(serve.allow_template), 0, 0, NULL, "requests may bring a chat template", 0 },
    { "no-page", 0, SERVE, CLI_FLAG, OFF(serve.no_page), 0, 0, NULL, "no page at /", 0 },
    { "debug", 0, SERVE, CLI_FLAG, OFF(serve.debug), 0, 0, NULL, "without keys: /debug for every client, not only this machine's", 0 },
    { "log", 0, SERVE, CLI_STR, OFF(log_level), 0, 0, "LEVEL", "error, warn, info (default) or debug", 0 },
    { "config", 0, SERVE, CLI_STR, OFF(config), 0, 0, "FILE", "config file to read (default: HAYATE_CONFIG, or ~/.config/hayate/config)", 0 },
    { "json", 0, CLI_G_JSON, CLI_FLAG, OFF(json), 0, 0, NULL, "JSON on standard output", 0 },
    { NULL, 0, 0, CLI_FLAG, 0, 0, 0, NULL, NULL, 0 },
};
_Static_assert(HY_COUNT(cli_options) <= CLI_OPTIONS_MAX, "cli_args.given is too small");

int cli_error(const char *command, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "hayate%s%s: ", command ? " " : "", command ? command : "");
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    return 1;
}

int cli_fail(const char *command, const hy_err *err)
{
    cli_error(command, "%s", err->msg);
    return err->code == HY_E_CANCELLED ? 130 : 1;
}

/* Puts one value in its place; `from` says where it came from, for the message. */
static bool put(const char *command, const cli_option *o, const char *value, const char *from, cli_args *a)
{
    char *at = (char *)a + o->offset;
    char what[128];
    snprintf(what, sizeof what, "%s", from);
    hy_err err;
    switch (o->kind) {
    case CLI_FLAG:
        if (value && strcmp(value, "1") && strcmp(value, "true") && strcmp(value, "yes") &&
            strcmp(value, "0") && strcmp(value, "false") && strcmp(value, "no")) {
            cli_error(command, "%s: '%s' is neither true nor false", what, value);
            return false;
        }
        *(bool *)at = !value || *value == '1' || *value == 't' || *value == 'y';
        return true;
    case CLI_STR:
        *(const char **)at = value;
        return true;
    case CLI_MAYBE:
        *(const char **)at = value ? value : "";
        return true;
    case CLI_LIST: {
        uint32_t *n = (uint32_t *)((char *)a + o->extra);
        if (*n == CLI_LIST_MAX) {
            cli_error(command, "%s: given more than %d times", what, CLI_LIST_MAX);
            return false;
        }
        ((const char **)at)[(*n)++] = value;
        return true;
    }
    case CLI_NUM:
        if (hy_parse_u64(what, value, (uint64_t)o->min, o->max >= 1.8e19 ? UINT64_MAX : (uint64_t)o->max,
                         (uint64_t *)at, &err) != HY_OK)
            return cli_fail(command, &err), false;
        if (o->extra) *(bool *)((char *)a + o->extra) = true;
        return true;
    case CLI_REAL:
        if (hy_parse_f64(what, value, o->min, o->max, (double *)at, &err) != HY_OK)
            return cli_fail(command, &err), false;
        return true;
    }
    return false;
}

static bool set(const char *command, const cli_option *o, const char *value, const char *from, cli_args *a)
{
    a->given[o - cli_options] = true;
    return put(command, o, value, from, a);
}

static const cli_option *find_option(const cli_command *c, const char *name, size_t n, char letter)
{
    for (const cli_option *o = cli_options; o->name; o++) {
        if (!(o->groups & c->groups)) continue;
        if (letter ? o->letter == letter : strlen(o->name) == n && memcmp(o->name, name, n) == 0) return o;
    }
    return NULL;
}

bool cli_set(const cli_command *c, const char *name, const char *value, const char *from, cli_args *a)
{
    const cli_option *o = find_option(c, name, strlen(name), 0);
    return !o || put(c->name, o, value, from, a); /* what this command does not take does not concern it */
}

bool cli_given(const cli_args *a, const char *name, uint32_t groups)
{
    for (const cli_option *o = cli_options; o->name; o++)
        if (o->groups & groups && strcmp(o->name, name) == 0 && a->given[o - cli_options]) return true;
    return false;
}

/* HAYATE_KV_TYPE for kv-type. */
static void env_name(const char *name, char *out, size_t n)
{
    size_t at = (size_t)snprintf(out, n, "HAYATE_");
    for (; *name && at + 1 < n; name++) out[at++] = *name == '-' ? '_' : (char)toupper((unsigned char)*name);
    out[at] = 0;
}

static bool from_environment(const cli_command *c, cli_args *a)
{
    for (const cli_option *o = cli_options; o->name; o++) {
        if (!(o->groups & c->groups) || o->kind == CLI_LIST) continue;
        char name[64];
        env_name(o->name, name, sizeof name);
        const char *v = getenv(name);
        if (v && *v && !set(c->name, o, v, name, a)) return false;
    }
    return true;
}

static bool config_line(const cli_command *c, const char *path, int line, char *s, cli_args *a)
{
    while (isspace((unsigned char)*s)) s++;
    if (*s == 0 || *s == '#') return true;
    char *eq = strchr(s, '=');
    if (!eq) return cli_error(c->name, "%s: line %d: '%.60s' is not 'name = value'", path, line, s), false;
    char *end = eq;
    while (end > s && isspace((unsigned char)end[-1])) end--;
    *end = 0;
    char *v = eq + 1;
    while (isspace((unsigned char)*v)) v++;
    char *last = v + strlen(v);
    while (last > v && isspace((unsigned char)last[-1])) *--last = 0;
    if (*v == '"' && last > v + 1 && last[-1] == '"') {
        last[-1] = 0;
        v++;
    }
    bool known = false;
    for (const cli_option *o = cli_options; o->name; o++) {
        if (strcmp(o->name, s) != 0) continue;
        known = true;
        char from[1200];
        snprintf(from, sizeof from, "%s: %s", path, s);
        if ((o->groups & c->groups) && !set(c->name, o, v, from, a)) return false;
    }
    if (!known) return cli_error(c->name, "%s: line %d: '%s' is no option", path, line, s), false;
    return true;
}

/* The file that --config names: it must be known before the other flags are read. */
static const char *config_flag(const cli_command *c, int argc, char **argv)
{
    if (!find_option(c, "config", 6, 0)) return NULL;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strncmp(argv[i], "--config=", 9) == 0) return argv[i] + 9;
        if (strcmp(argv[i], "--config") == 0 && i + 1 < argc) return argv[i + 1];
    }
    return NULL;
}

static bool from_config(const cli_command *c, const char *named, cli_args *a)
{
    char path[1024];
    const char *from = named ? "--config" : "HAYATE_CONFIG";
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (!named) named = getenv("HAYATE_CONFIG");
    if (named && *named) snprintf(path, sizeof path, "%s", named);
    else if (xdg && *xdg) snprintf(path, sizeof path, "%s/hayate/config", xdg);
    else if (home && *home) snprintf(path, sizeof path, "%s/.config/hayate/config", home);
    else return true;
    if (!hy_is_file(path)) {
        if (!named || !*named) return true;
        return cli_error(c->name, "%s: no file at %s", from, path), false;
    }
    static char *first; /* the values keep pointing into it */
    size_t n;
    hy_err err;
    if (hy_read_file(path, HY_MIB, &a->config_text, &n, &err) != HY_OK) return cli_fail(c->name, &err), false;
    if (!first) first = a->config_text;
    int line = 1;
    for (char *s = a->config_text; s && *s; line++) {
        char *next = strchr(s, '\n');
        if (next) *next++ = 0;
        if (!config_line(c, path, line, s, a)) return false;
        s = next;
    }
    return true;
}

/* One argument that begins with '-'. Returns how many arguments it took, 0 on error. */
static int one_flag(const cli_command *c, int left, char **argv, cli_args *a)
{
    const char *s = argv[0];
    const char *eq = NULL, *value = NULL;
    const cli_option *o;
    if (s[1] == '-') {
        eq = strchr(s, '=');
        o = find_option(c, s + 2, eq ? (size_t)(eq - s) - 2 : strlen(s + 2), 0);
        if (eq) value = eq + 1;
    } else {
        o = find_option(c, NULL, 0, s[1]);
        if (o && s[2]) value = s + 2;
    }
    if (!o) {
        cli_error(c->name, "no option %s; `hayate help %s` lists them%s", s, c->name,
                  strchr(s, ' ') ? " (text that begins with - comes after --)" : "");
        return 0;
    }
    int used = 1;
    if (o->kind != CLI_FLAG && o->kind != CLI_MAYBE && !value) {
        if (left < 2) {
            cli_error(c->name, "%s wants a value: %s", s, o->arg);
            return 0;
        }
        value = argv[1];
        used = 2;
    }
    char from[80];
    snprintf(from, sizeof from, "--%s", o->name);
    return set(c->name, o, value, from, a) ? used : 0;
}

bool cli_parse(const cli_command *c, int argc, char **argv, cli_args *a, bool *help)
{
    memset(a, 0, sizeof *a);
    *help = false;
    hy_options_init(&a->engine);
    hy_params_init(&a->params);
    hy_serve_options_init(&a->serve);
    a->port = a->serve.port;
    a->argc = argc;
    a->argv = argv;
    a->n_prompt = 512;
    a->n_gen = 64;
    a->repeats = 5;
    a->load_requests = 64, a->load_prompt = 256, a->load_output = 64, a->load_prefixes = 1;
    a->load_ttft = 500, a->load_itl = 100;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            cli_print_help(c);
            *help = true;
            return true;
        }
    if (!from_config(c, config_flag(c, argc, argv), a) || !from_environment(c, a)) return false;
    bool only_pos = false;
    for (int i = 0; i < argc;) {
        if (!only_pos && strcmp(argv[i], "--") == 0) {
            only_pos = true;
            i++;
        } else if (!only_pos && argv[i][0] == '-' && argv[i][1]) {
            int used = one_flag(c, argc - i, argv + i, a);
            if (!used) return false;
            i += used;
        } else {
            if (a->n_pos == c->pos_max)
                return cli_error(c->name, "too much: '%s'; usage: hayate %s %s", argv[i], c->name, c->pos), false;
            a->pos[a->n_pos++] = argv[i++];
        }
    }
    if (a->n_pos < c->pos_min) return cli_error(c->name, "usage: hayate %s %s", c->name, c->pos), false;
    return true;
}

static bool finish_bias(const char *command, cli_args *a, hy_bias *bias)
{
    for (uint32_t i = 0; i < a->n_bias; i++) {
        const char *eq = strchr(a->bias[i], '=');
        uint64_t id;
        double x;
        char left[32];
        snprintf(left, sizeof left, "%.*s", (int)HY_MIN(eq ? eq - a->bias[i] : 0, 31), a->bias[i]);
        hy_err err;
        if (!eq) return cli_error(command, "--logit-bias: '%s' is not ID=X", a->bias[i]), false;
        if (hy_parse_u64("--logit-bias", left, 0, INT32_MAX, &id, &err) != HY_OK ||
            hy_parse_f64("--logit-bias", eq + 1, -1e6, 1e6, &x, &err) != HY_OK)
            return cli_fail(command, &err), false;
        bias[i] = (hy_bias){ (int32_t)id, (float)x };
    }
    a->params.logit_bias = bias;
    a->params.n_logit_bias = a->n_bias;
    return true;
}

bool cli_finish_options(const char *command, cli_args *a, hy_bias *bias)
{
    hy_options *e = &a->engine;
    e->n_ctx = (uint32_t)a->n_ctx;
    e->n_threads = (uint32_t)a->n_threads;
    e->n_threads_decode = (uint32_t)a->n_threads_decode;
    e->n_step = (uint32_t)a->n_step;
    e->n_seq = (uint32_t)a->n_seq;
    e->kv_tokens = a->kv_tokens;
    e->n_queue = (uint32_t)a->n_queue;
    e->spec_max = (uint32_t)a->spec_max;
    e->spec_store = (uint32_t)a->spec_store;
    const char *m = a->kv_mode ? a->kv_mode : "paged";
    if (strcmp(m, "paged") == 0) e->kv_mode = HY_KV_PAGED;
    else if (strcmp(m, "contiguous") == 0) e->kv_mode = HY_KV_CONTIGUOUS;
    else if (strcmp(m, "off") == 0) e->kv_mode = HY_KV_OFF;
    else return cli_error(command, "--kv: '%s' is not one of paged, contiguous, off", m), false;
    const char *act = a->activations ? a->activations : "int8";
    if (strcmp(act, "f32") == 0) e->act_f32 = true;
    else if (strcmp(act, "int8") != 0) return cli_error(command, "--activations: '%s' is not int8 or f32", act), false;
    hy_params *p = &a->params;
    p->max_tokens = (uint32_t)a->n_predict;
    p->top_k = (uint32_t)a->top_k;
    p->no_repeat_ngram = (uint32_t)a->no_repeat_ngram;
    p->seed = a->has_seed ? a->seed : hy_rng_at(hy_now_ns(), 1, 2);
    p->top_logprobs = a->has_logprobs ? (int32_t)a->top_logprobs : -1;
    p->stop = a->stop;
    p->n_stop = a->n_stop;
    p->no_special = a->no_special;
    p->no_parse_special = a->no_parse_special;
    return finish_bias(command, a, bias);
}
