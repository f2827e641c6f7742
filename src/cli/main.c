#include "cli.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { G_MODEL = CLI_G_MODEL | CLI_G_JSON };

const cli_command cli_commands[] = {
    { "run", "complete a prompt", "MODEL [PROMPT]", 1, 2, G_MODEL | CLI_G_SAMPLE | CLI_G_RUN | CLI_G_TUNED, cmd_run,
      "Writes the continuation of a prompt as it comes. The prompt is the argument, a file (-f), or standard\n"
      "input. With --chat it goes through the model's chat template as a user's message.\n\n"
      "  hayate run smollm2.gguf --chat \"Why is the sky blue?\"\n"
      "  echo 'Once upon a time' | hayate run gemma.gguf -n 64 --temp 0\n"
      "  hayate run model.gguf --tokens ids.json -n 32 --temp 0 --ignore-eos --json\n" },
    { "chat", "talk to a model", "MODEL", 1, 1, CLI_G_MODEL | CLI_G_SAMPLE | CLI_G_CHAT | CLI_G_TUNED, cmd_chat,
      "A conversation in the terminal. Ctrl-C stops an answer, Ctrl-D ends. A line that ends in \\ goes on in\n"
      "the next; /help lists the commands.\n\n"
      "  hayate chat smollm2.gguf --system \"You answer briefly.\" --temp 0.7\n" },
    { "serve", "serve a model over HTTP", "MODEL | keygen NAME", 1, 2, CLI_G_MODEL | CLI_G_SERVE | CLI_G_TUNED, cmd_serve,
      "Speaks the APIs of OpenAI and Anthropic, streams, batches requests together. Ends on SIGTERM or Ctrl-C once\n"
      "the running requests are done; a second Ctrl-C ends at once. SIGHUP reads the config and the keys again.\n"
      "keygen makes an API key and prints it with the line for the file of keys (or appends that to --api-keys).\n\n"
      "  hayate serve smollm2.gguf\n"
      "  hayate serve model.gguf --host :: --port 443 --tls-cert cert.pem --tls-key key.pem --api-keys keys\n"
      "  hayate serve keygen alice --api-keys keys\n" },
    { "bench", "measure speed: of a model, or of a server under load", "MODEL | serve URL", 1, 2,
      G_MODEL | CLI_G_BENCH | CLI_G_LOAD | CLI_G_TUNED, cmd_bench,
      "Tests ppN (prefill of N tokens) and tgN (decode of N tokens) at each depth and batch, repeated and\n"
      "interleaved; medians with the spread. --save keeps the results with machine and commit, --compare measures and\n"
      "compares with kept ones: status 1 where a shape is slower beyond noise, twice.\n"
      "serve URL: load on any OpenAI-compatible server, in a closed loop (--streams), as a Poisson process (--rate)\n"
      "or from a file (--trace): percentiles of time to first token and between pieces, throughput, and goodput,\n"
      "the share of requests within --ttft-within and --itl-within.\n"
      "--ablation: every technique on and off in one run, against the best of the rest and against a plain baseline:\n"
      "a table, and FILE.json, FILE.csv and FILE.html beside it (--out). Ctrl-C leaves a report of what is done.\n"
      "--only: some techniques, each repeated more often.\n\n"
      "  hayate bench model.gguf\n"
      "  hayate bench model.gguf --save=before; hayate bench model.gguf --compare=before\n"
      "  hayate bench serve http://127.0.0.1:8080 --streams 16 --requests 128 --prompt-tokens 256 --output-tokens 64\n"
      "  hayate bench serve http://127.0.0.1:8080 --rate 2.5 --mixture --shared-prefix 512 --json\n"
      "  hayate bench model.gguf -p 512 -n 64 -d 0,4096 -b 1,8 -t 2 -r 5 --json\n"
      "  hayate bench model.gguf --ablation --minutes 8 --out report\n" },
    { "eval", "perplexity, or KL divergence against a reference", "perplexity|kl MODEL", 2, 2, G_MODEL | CLI_G_EVAL,
      cmd_eval,
      "perplexity: of a text file, in windows, the second half of each scored; 95 % confidence interval.\n"
      "kl: how far MODEL's predictions are from those of --base MODEL on the same text.\n\n"
      "  hayate eval perplexity model.gguf -f wiki.txt --windows 32\n"
      "  hayate eval kl model-q4.gguf --base model-f16.gguf -f wiki.txt --windows 16\n" },
    { "info", "what is in a model file", "MODEL", 1, 1, CLI_G_JSON | CLI_G_CTX, cmd_info,
      "Shape, weight types by bytes, tokenizer, template, and the memory needed for a context.\n\n"
      "  hayate info model.gguf --ctx 4096\n  hayate info folder/ --json\n" },
    { "explain", "the plan: operators before and after fusion", "MODEL", 1, 1, G_MODEL, cmd_explain,
      "Prints the instructions that a step runs, in the primitive form and fused, with the bytes each moves.\n\n"
      "  hayate explain model.gguf\n" },
    { "profile", "where the time goes, and what to try", "MODEL", 1, 1, G_MODEL | CLI_G_PROFILE, cmd_profile,
      "Runs a prompt and decode steps and shows for each operator its time, bytes and operations and how near it\n"
      "comes to what this machine was measured to do (hayate cpu); names the bottleneck, and what to try with the\n"
      "speed to expect from it.\n\n"
      "  hayate profile model.gguf\n"
      "  hayate profile model.gguf -p 512 -n 64 --depth 4096 --trace trace.json\n" },
    { "cpu", "what this machine can do, measured", "", 0, 0, CLI_G_CPU | CLI_G_JSON, cmd_cpu,
      "Measures once, in a few seconds, how fast memory and each cache can be read, how many operations each\n"
      "instruction set does and what a barrier of the threads costs; keeps that in ~/.cache/hayate and prints it\n"
      "with the processors, the quota and the kernels chosen.\n\n"
      "  hayate cpu\n  hayate cpu --fresh --json\n" },
    { "tune", "settings for a model on this machine, found by measuring", "MODEL", 1, 1, G_MODEL | CLI_G_TUNE, cmd_tune,
      "Measures settings in turns with the best so far: threads, step, pinning, huge pages; drafting for throughput;\n"
      "with --quality-loss types of weights and KV as well. What does not win against the defaults at the end is not\n"
      "written. run, chat, serve and bench use what was found (--no-tuned: not); options given here stay as given.\n\n"
      "  hayate tune model.gguf --goal ttft\n"
      "  hayate tune model.gguf --goal throughput --streams 16 --ttft 500ms --minutes 5\n"
      "  hayate tune model.gguf --goal memory --quality-loss 1% --speed-loss 20% --out model.conf\n" },
    { "top", "a server's live numbers", "[URL]", 0, 1, CLI_G_TOP | CLI_G_JSON, cmd_top,
      "Requests, time to first token by class, time between tokens, KV pages, prefix hits, where a step's time\n"
      "goes and memory, each second. URL: http://127.0.0.1:8080 unless given. --once prints one frame and ends,\n"
      "with status 1 when the server does not answer: fit for a health check.\n\n"
      "  hayate top\n  hayate top http://10.0.0.5:8080 --key KEY\n  hayate top --once --json | jq .number\n" },
    { "tokenize", "text to token ids", "MODEL [TEXT]", 1, 2, CLI_G_JSON | CLI_G_TOKENIZE, cmd_tokenize,
      "MODEL may be a GGUF (vocabulary-only too), a tokenizer.json or a Hugging Face folder.\n\n"
      "  hayate tokenize model.gguf \"Hello world\"\n  hayate tokenize tokenizer.json -f text.txt --json\n" },
    { "quantize", "convert a model to a weight type", "IN OUT TYPE", 3, 3, CLI_G_QUANT, cmd_quantize,
      "IN is a GGUF or a safetensors folder; OUT a GGUF. TYPE: a plain type (q8_0, q4_0, ...) or a mix\n"
      "(q4_k_m, ...). OUT appears only when it is whole.\n\n"
      "  hayate quantize model-f16.gguf model-q8.gguf q8_0\n"
      "  hayate quantize folder/ out.gguf q4_k_m --override 'output*=q8_0' --imatrix im.gguf\n" },
    { "imatrix", "importance weights from a text, for quantize", "MODEL", 1, 1, CLI_G_MODEL | CLI_G_IMATRIX, cmd_imatrix,
      "Mean squared inputs of every matrix over a text.\n\n"
      "  hayate imatrix model-f16.gguf -f text.txt -o imatrix.gguf\n" },
    { "pull", "download a model", "SOURCE", 1, 1, CLI_G_PULL | CLI_G_JSON, cmd_pull,
      "SOURCE: an http(s) URL, or hf:owner/repo/file. Resumes what was begun; checks --sha256.\n\n"
      "  hayate pull hf:owner/repo/model.gguf -o model.gguf\n" },
    { "logits", "raw logits of a token list", "MODEL", 1, 1, G_MODEL | CLI_G_LOGITS, cmd_logits,
      "Writes little-endian F32, [1][vocab] or, with --all, [n][vocab].\n\n"
      "  hayate logits model.gguf --tokens ids.json --all --out logits.f32\n" },
    { "pipe", "answer JSON lines: tokenize, stream, template", "[MODEL]", 0, 1, 0, cmd_pipe,
      "One JSON object a line on standard input, one answer a line, in order. MODEL may be a vocabulary-only\n"
      "GGUF, a tokenizer.json or a folder; `template` needs none.\n\n"
      "  {\"op\":\"tokenize\",\"b64\":\"SGk=\",\"add_special\":true,\"parse_special\":true} -> {\"ids\":[...]}\n"
      "  {\"op\":\"stream\",\"ids\":[1,2]} -> {\"chunks\":[...],\"flush\":\"...\"}\n"
      "  {\"op\":\"template\",\"template\":\"...\",\"vars\":{...}} -> {\"text\":\"...\"}\n" },
    { "dequantize", "raw blocks to raw floats", "TYPE", 1, 1, 0, cmd_dequantize,
      "Standard input: blocks of a type as files hold them; standard output: little-endian F32.\n\n"
      "  hayate dequantize q4_k < blocks.bin > floats.f32\n" },
    { "completion", "shell completion", "bash|zsh", 1, 1, 0, cmd_completion,
      "  source <(hayate completion bash)\n" },
    { "help", "this list, or a command's options and examples", "[COMMAND]", 0, 1, 0, cmd_help, "  hayate help run\n" },
    { "version", "the version", "", 0, 0, 0, cmd_version, "" },
    { NULL, NULL, NULL, 0, 0, 0, NULL, NULL },
};

const cli_command *cli_find(const char *name)
{
    for (const cli_command *c = cli_commands; c->name; c++)
        if (strcmp(c->name, name) == 0) return c;
    return NULL;
}

/* A closed stream's number must not go to the next file opened. */
static void hold_streams(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)open("/dev/null", fd == 2 ? O_WRONLY : O_RDONLY);
}

/* What a command printed must have arrived: a full disk is an error; a reader that has gone (| head)
 * needs no message. */
static int finish_output(const char *command, int rc)
{
    errno = 0;
    if (cli_flush()) return rc;
    int e = cli_flush_errno();
    if (e != EPIPE) cli_error(command, "standard output: %s", e ? strerror(e) : "not all could be written");
    return rc ? rc : 1;
}

/* hwloc's plugins look for graphics cards and load X11, OpenCL and XML for it: more than half of what asking for the processors
 * takes (4 ms). Who sets the variable gets them. */
static void no_plugins(void)
{
    (void)setenv("HWLOC_PLUGINS_PATH", "none", 0);
}

int main(int argc, char **argv)
{
    hold_streams();
    no_plugins();
    signal(SIGPIPE, SIG_IGN); /* these two then show as failed writes */
    signal(SIGXFSZ, SIG_IGN);
    const char *name = argc < 2 ? "help" : argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) name = "help";
    if (strcmp(name, "--version") == 0) name = "version";
    const cli_command *c = cli_find(name);
    if (!c) {
        cli_error(NULL, "no command '%s'; `hayate help` lists them", name);
        return 2;
    }
    cli_args a;
    bool help;
    int skip = argc < 2 ? 1 : 2;
    if (!cli_parse(c, argc - skip, argv + skip, &a, &help)) return 2;
    if (a.quiet) hy_log_set_level(HY_LOG_ERROR);
    int rc = finish_output(c->name, help ? 0 : c->run(&a));
    hy_tuned_free(&a.found);
    return argc < 2 && rc == 0 ? 2 : rc;
}
