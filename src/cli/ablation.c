/* hayate bench --ablation: runs it, and writes table, JSON, CSV and report. */
#include "ablation.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading the JSON ---------------------------------------------------------------------------------- */

const json_t *ablation_at(const json_t *o, const char *path)
{
    char key[64];
    while (o && *path) {
        size_t n = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)HY_MIN(n, sizeof key - 1), path);
        o = json_is_array(o) ? json_array_get(o, (size_t)strtoul(key, NULL, 10)) : json_object_get(o, key);
        path += n + (path[n] == '.');
    }
    return json_is_null(o) ? NULL : o;
}

bool ablation_number(const json_t *o, const char *path, double *out)
{
    const json_t *v = ablation_at(o, path);
    *out = json_number_value(v);
    return json_is_number(v);
}

const char *ablation_string(const json_t *o, const char *path)
{
    const char *s = json_string_value(ablation_at(o, path));
    return s ? s : "";
}

/* ---- words ----------------------------------------------------------------------------------------------- */

const char *ablation_title(const char *technique)
{
    static const char *const names[][2] = {
        { "kv_cache", "KV cache" },
        { "attention", "FlashAttention" },
        { "fusion", "Fusion" },
        { "weights", "Weight types" },
        { "activations", "INT8 activations" },
        { "kv_type", "KV types" },
        { "paged", "Paged KV memory" },
        { "prefix_cache", "Prefix cache" },
        { "chunked_prefill", "Chunked prefill" },
        { "batching", "Continuous batching" },
        { "speculation", "Speculation" },
        { "threads", "Threads" },
        { "huge_pages", "Huge pages" },
    };
    for (size_t i = 0; i < HY_COUNT(names); i++)
        if (strcmp(names[i][0], technique) == 0) return names[i][1];
    return technique;
}

const char *ablation_short(bool has, double v, char out[32])
{
    double size = v < 0 ? -v : v;
    if (!has) snprintf(out, 32, "-");
    else if (size >= 99.5) snprintf(out, 32, "%.0f", v);
    else if (size >= 9.95) snprintf(out, 32, "%.1f", v);
    else if (size >= 0.1 || v == 0) snprintf(out, 32, "%.2f", v);
    else snprintf(out, 32, "%.2g", v);
    return out;
}

const char *ablation_quality(const json_t *row, char out[64])
{
    double ppl, kl;
    const json_t *same = ablation_at(row, "quality.same_bits");
    out[0] = 0;
    if (same) snprintf(out, 64, json_is_true(same) ? "same bits" : "OTHER BITS");
    else if (ablation_number(row, "quality.ppl_delta_pct", &ppl) && ablation_number(row, "quality.kl", &kl))
        snprintf(out, 64, "%+.2f %%, KL %.1g", ppl > -0.005 && ppl < 0.005 ? 0 : ppl, kl);
    return out;
}

const char *ablation_gain(const json_t *row, char out[48])
{
    static const char *const words[][2] = {
        { "ttft", "first token" }, { "itl", "per token" }, { "tokens_s", "throughput" }, { "memory", "memory" },
        { "sequences", "at once" }, { "gap", "worst gap" },
    };
    double ratio;
    char number[32];
    out[0] = 0;
    if (!ablation_number(row, "gain.ratio", &ratio)) return out;
    const char *what = ablation_string(row, "gain.what");
    for (size_t i = 0; i < HY_COUNT(words); i++)
        if (strcmp(words[i][0], what) == 0) what = words[i][1];
    snprintf(out, 48, "%s x %.20s", ablation_short(true, ratio, number), what);
    return out;
}

void ablation_extra(const json_t *row, hy_buf *out)
{
    static const struct { const char *key, *form; double scale; } parts[] = {
        { "instructions", "%s operators", 1 },
        { "activation_bytes", "%s MB of activations a token", 1e-6 }, { "bytes_a_token", "%s KiB a token", 1 / 1024.0 },
        { "used_pct", "%s %% of the memory in use holds tokens", 1 }, { "sequences", "%s sequences at once", 1 },
        { "cached_tokens", "%s from the cache", 1 }, { "worst_gap_ms", "worst gap %s ms", 1 },
        { "over_one_stream", "%s x one stream", 1 }, { "acceptance", "%s %% of the drafts accepted", 100 },
        { "memory_saved_mib", "%s MiB of scores saved", 1 },
    };
    bool any = false;
    for (size_t i = 0; i < HY_COUNT(parts); i++) {
        double v;
        char number[32];
        if (!ablation_number(ablation_at(row, "extra"), parts[i].key, &v)) continue;
        bool whole = v == (double)(long long)v && parts[i].scale == 1;
        if (whole) snprintf(number, sizeof number, "%lld", (long long)v);
        else ablation_short(true, v * parts[i].scale, number);
        char text[96];
        /* forms are ours, each with one %s */
        const char *at = strstr(parts[i].form, "%s");
        snprintf(text, sizeof text, "%.*s%s", (int)(at - parts[i].form), parts[i].form, number);
        hy_buf_printf(out, "%s%s", any ? ", " : "", text);
        for (const char *s = at + 2; *s; s++)
            if (!(s[0] == '%' && s[1] == '%')) hy_buf_char(out, *s);
        any = true;
    }
}

/* ---- files ------------------------------------------------------------------------------------------------- */

static bool write_file(const char *base, const char *end, const char *text, size_t n, bool quiet)
{
    char path[1200];
    if (snprintf(path, sizeof path, "%s.%s", base, end) >= (int)sizeof path)
        return cli_error("bench", "--out: the name is too long"), false;
    FILE *f = fopen(path, "we");
    bool good = f && fwrite(text, 1, n, f) == n;
    int e = errno;
    if (f && fclose(f) != 0) good = false, e = errno;
    if (!good) return cli_error("bench", "%s: %s", path, strerror(e)), false;
    if (!quiet) fprintf(stderr, "wrote %s\n", path);
    return true;
}

/* "ablation-smollm2-q4" for ".../smollm2-q4.gguf": in the current folder. */
static void default_base(const char *model, char out[256])
{
    size_t n = strlen(model);
    while (n > 1 && model[n - 1] == '/') n--;
    size_t from = n;
    while (from > 0 && model[from - 1] != '/') from--;
    size_t len = n - from;
    if (len > 5 && strncmp(model + n - 5, ".gguf", 5) == 0) len -= 5;
    snprintf(out, 256, "ablation-%.*s", (int)HY_MIN(len, 200u), model + from);
}

typedef void make_fn(const json_t *o, hy_buf *out);

static bool make_file(const cli_args *a, const json_t *o, const char *base, const char *end, make_fn *make)
{
    hy_buf b = { 0 };
    make(o, &b);
    bool good = !b.failed && b.data ? write_file(base, end, b.data, b.len, a->quiet)
                                    : (cli_error("bench", "out of memory"), false);
    hy_buf_free(&b);
    return good;
}

static int show(const cli_args *a, const char *json)
{
    json_t *o = json_loads(json, 0, NULL);
    if (!o) return cli_error("bench", "the ablation's JSON cannot be read");
    bool good = true;
    if (a->json) {
        printf("%s\n", json);
    } else {
        hy_buf b = { 0 };
        ablation_table(o, &b);
        if (b.data) fwrite(b.data, 1, b.len, stdout);
        good = !b.failed;
        hy_buf_free(&b);
    }
    char base[256];
    default_base(a->pos[0], base);
    if (a->out || !a->json) {
        const char *to = a->out ? a->out : base;
        good = write_file(to, "json", json, strlen(json), a->quiet) && make_file(a, o, to, "csv", ablation_csv) &&
               make_file(a, o, to, "html", ablation_html) && good;
    }
    json_decref(o);
    return good ? 0 : 1;
}

int cmd_ablation(cli_args *a)
{
    hy_err err;
    char *text = NULL, *json = NULL;
    size_t n_text = 0;
    hy_bias bias[CLI_LIST_MAX];
    if (!cli_finish_options("bench", a, bias)) return 2;
    if (a->text_file && !cli_read("bench", a->text_file, &text, &n_text)) return 1;
    cli_catch_interrupt(); /* the first Ctrl-C leaves a report of what is done */
    cli_bar bar = { .what = "measuring", .unit = "s", .quiet = a->quiet };
    a->engine.model = a->pos[0];
    hy_ablation_params p = { .options = &a->engine, .text = text, .n_text = n_text, .only = a->only, .minutes = a->minutes,
                             .progress = cli_bar_step, .progress_ctx = &bar };
    hy_status st = hy_tool_ablation(&p, &json, &err);
    cli_bar_end(&bar);
    int rc = json ? show(a, json) : 0;
    if (st != HY_OK) rc = cli_fail("bench", &err);
    hy_memory_free(json);
    hy_free(text);
    return rc;
}
