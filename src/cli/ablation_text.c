/* The ablation as a table of 100 columns, and as CSV. */
#include "ablation.h"
#include <stdio.h>
#include <string.h>

#define COLUMNS 98

/* Ends a line without blanks before its end. */
static void end_line(hy_buf *out)
{
    while (out->len && out->data[out->len - 1] == ' ') out->len--;
    hy_buf_char(out, '\n');
}

/* Words of text, each line behind `indent` blanks; the first line begins where the caller stands. */
static void wrap(hy_buf *out, const char *text, int at, int indent)
{
    while (*text) {
        size_t n = strcspn(text, " ");
        if (at + (int)n > COLUMNS) {
            end_line(out);
            hy_buf_printf(out, "%*s", indent, "");
            at = indent;
        }
        hy_buf_put(out, text, n);
        at += (int)n;
        text += n;
        if (*text) {
            hy_buf_char(out, ' ');
            at++;
            text++;
        }
    }
    hy_buf_char(out, '\n');
}

static const char *with_spread(const json_t *row, const char *key, char out[40])
{
    char path[32], m[32];
    double v, n, least, most;
    bool has = ablation_number(row, key, &v);
    ablation_short(has, v, m);
    if (has && v > 0 && v < 0.01) snprintf(m, sizeof m, "<0.01"); /* the column's width; the JSON has it all */
    snprintf(path, sizeof path, "spread.%s.0", key);
    bool spread = has && ablation_number(row, path, &least);
    path[strlen(path) - 1] = '1';
    spread = spread && ablation_number(row, path, &most) && v > 0 && ablation_number(row, "repeats", &n) && n > 1;
    double share = spread ? 50 * (most - least) / v : 0;
    if (share > 99) snprintf(out, 40, "%s±>99%%", m); /* a row of the widest cells still has 100 columns */
    else if (spread) snprintf(out, 40, "%s ±%.0f%%", m, share);
    else snprintf(out, 40, "%s", m);
    return out;
}

static int columns_of(const char *s, size_t n)
{
    int columns = 0;
    for (size_t i = 0; i < n; i++) columns += ((unsigned char)s[i] & 0xC0) != 0x80; /* ± is one column and two bytes */
    return columns;
}

/* Right-aligned to column `end` of the line that began at `line`; one that is too wide takes from the blanks of the next. */
static void cell(hy_buf *out, size_t line, const char *text, int end)
{
    int at = columns_of(out->data + line, out->len - line), room = end - at - columns_of(text, strlen(text));
    hy_buf_printf(out, "%*s%s", room > 1 ? room : 1, "", text);
}

static void put_row(const json_t *row, hy_buf *out)
{
    char a[40], b[40], c[40], m[32], q[64], g[48];
    double mib;
    bool has = ablation_number(row, "memory_mib", &mib);
    size_t line = out->len;
    hy_buf_printf(out, "  %-19.19s", ablation_string(row, "setting"));
    cell(out, line, with_spread(row, "ttft_ms", a), 31);
    cell(out, line, with_spread(row, "itl_ms", b), 42);
    cell(out, line, with_spread(row, "tokens_s", c), 54);
    cell(out, line, ablation_short(has, mib, m), 61);
    cell(out, line, ablation_quality(row, q), 80);
    cell(out, line, ablation_gain(row, g), 100);
    end_line(out);
    hy_buf extra = { 0 };
    ablation_extra(row, &extra);
    if (extra.len) {
        hy_buf_str(out, "      ");
        wrap(out, extra.data, 6, 6);
    }
    hy_buf_free(&extra);
}

/* A line that may be too long for one: a processor's or a file's name has any length. */
static void put_line(hy_buf *out, hy_buf *line)
{
    wrap(out, line->len ? line->data : "", 0, 2);
    out->failed = out->failed || line->failed;
    hy_buf_reset(line);
}

static void put_head(const json_t *o, hy_buf *out)
{
    double s, p = 0, load = 0, threads = 0, few = 0;
    ablation_number(o, "seconds", &s);
    ablation_number(o, "settings.prompt", &p);
    ablation_number(o, "machine.threads", &threads);
    ablation_number(o, "machine.threads_decode", &few);
    bool has = ablation_number(o, "machine.load_before", &load);
    char model[128];
    hy_buf line = { 0 };
    hy_buf_printf(&line, "%s (%s, %s)", cli_clean(ablation_string(o, "model.file"), model),
                  ablation_string(o, "model.family"), ablation_string(o, "model.weights"));
    put_line(out, &line);
    hy_buf_printf(&line, "%s, %s, %.0f threads for prompts, %.0f for decoding", ablation_string(o, "machine.model"),
                  ablation_string(o, "machine.isa"), threads, few);
    if (has) hy_buf_printf(&line, ", load %.1f before", load);
    put_line(out, &line);
    hy_buf_printf(&line, "prompts of %.0f tokens unless a row says else; medians with half the spread; %.0f s in all", p, s);
    put_line(out, &line);
    hy_buf_free(&line);
}

static void put_columns(hy_buf *out)
{
    hy_buf_printf(out, "\n  %-19s%10s%11s%12s%7s%19s%20s\n", "", "first, ms", "token, ms", "tokens/s", "MiB",
                  "quality lost", "gain");
}

static const char *baseline_words(const char *baseline)
{
    if (strcmp(baseline, "plain") == 0)
        return "on the plain baseline (no KV cache, primitive, F32, materialised scores)";
    if (strcmp(baseline, "gpt2") == 0) return "on the shape of GPT-2";
    return "";
}

static void put_technique(const json_t *rows, const char *technique, hy_buf *out)
{
    size_t i;
    const json_t *row, *first = NULL;
    const char *baseline = "best";
    double n;
    json_array_foreach((json_t *)(uintptr_t)rows, i, row) {
        if (strcmp(ablation_string(row, "technique"), technique) != 0) continue;
        if (!first) {
            hy_buf_str(out, ablation_title(technique));
            if (ablation_number(row, "extra.n", &n)) hy_buf_printf(out, ", %.0f tokens", n);
            hy_buf_char(out, '\n');
            first = row;
        }
        if (strcmp(ablation_string(row, "baseline"), baseline) != 0) {
            baseline = ablation_string(row, "baseline");
            hy_buf_printf(out, "  %s\n", baseline_words(baseline));
        }
        put_row(row, out);
    }
    if (!first) return;
    hy_buf_str(out, "  when: ");
    wrap(out, ablation_string(first, "when"), 8, 8);
    hy_buf_str(out, "  not:  ");
    wrap(out, ablation_string(first, "when_not"), 8, 8);
    hy_buf_char(out, '\n');
}

/* A curve's points as lines: its keys are the columns. */
static void put_curve(const json_t *o, const char *name, const char *title, const char *const *keys,
                      const char *const *heads, uint32_t n, hy_buf *out)
{
    char path[64], number[32];
    snprintf(path, sizeof path, "curves.%s", name);
    const json_t *curve = ablation_at(o, path);
    if (json_array_size(curve) == 0) return;
    hy_buf_printf(out, "%s\n  ", title);
    for (uint32_t k = 0; k < n; k++) hy_buf_printf(out, k ? "%15s" : "%-22s", heads[k]);
    hy_buf_char(out, '\n');
    for (size_t i = 0; i < json_array_size(curve); i++) {
        const json_t *p = json_array_get(curve, i);
        hy_buf_str(out, "  ");
        for (uint32_t k = 0; k < n; k++) {
            double v;
            bool has = ablation_number(p, keys[k], &v);
            const char *text = has ? (k ? ablation_short(true, v, number) : NULL) : ablation_string(p, keys[k]);
            if (!text) snprintf(number, sizeof number, "%.0f", v), text = number;
            hy_buf_printf(out, k ? "%15s" : "%-22s", text);
        }
        hy_buf_char(out, '\n');
    }
    hy_buf_char(out, '\n');
}

static void put_curves(const json_t *o, hy_buf *out)
{
    static const char *const kv[] = { "n", "off_ms", "on_ms", "ratio", "answer_ratio" };
    static const char *const kv_heads[] = { "tokens before", "without, ms", "cached, ms", "times", "whole answer" };
    put_curve(o, "kv_cache", "KV cache: one more token behind so many", kv, kv_heads, HY_COUNT(kv), out);
    static const char *const at[] = { "n", "materialised_ms", "flash_ms", "ratio", "materialised_mib", "flash_mib" };
    static const char *const at_heads[] = { "prompt", "scores, ms", "flash, ms", "times", "scores, MiB", "flash, MiB" };
    put_curve(o, "attention", "FlashAttention against scores in memory", at, at_heads, HY_COUNT(at), out);
    static const char *const st[] = { "streams", "tokens_s", "itl_ms", "ttft_ms" };
    static const char *const st_heads[] = { "streams", "tokens/s", "each token, ms", "first, ms" };
    put_curve(o, "streams", "Continuous batching", st, st_heads, HY_COUNT(st), out);
    static const char *const la[] = { "step", "ttft_ms", "itl_ms", "tokens_s" };
    static const char *const la_heads[] = { "with all before", "first, ms", "each token, ms", "tokens/s" };
    put_curve(o, "ladder", "Step by step, from the plain baseline", la, la_heads, HY_COUNT(la), out);
}

static void put_claims(const json_t *o, hy_buf *out)
{
    const json_t *claims = ablation_at(o, "claims");
    if (json_array_size(claims) == 0) return;
    hy_buf_str(out, "What is said of these techniques, and what was measured here\n");
    for (size_t i = 0; i < json_array_size(claims); i++) {
        const json_t *c = json_array_get(claims, i);
        hy_buf_printf(out, "  %-16s said: %s\n", ablation_string(c, "claim"), ablation_string(c, "said"));
        hy_buf_printf(out, "  %-16s ", json_is_true(json_object_get(c, "holds")) ? "holds here" : "not reached");
        wrap(out, ablation_string(c, "measured"), 19, 19);
        hy_buf_printf(out, "  %-16s ", "");
        wrap(out, ablation_string(c, "about"), 19, 19);
    }
    hy_buf_char(out, '\n');
}

void ablation_table(const json_t *o, hy_buf *out)
{
    put_head(o, out);
    put_columns(out);
    const json_t *rows = ablation_at(o, "rows");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const char *technique = ablation_string(json_array_get(rows, i), "technique");
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++)
            seen = strcmp(ablation_string(json_array_get(rows, k), "technique"), technique) == 0;
        if (!seen) put_technique(rows, technique, out);
    }
    put_curves(o, out);
    put_claims(o, out);
    hy_buf_str(out, "best: ");
    wrap(out, ablation_string(o, "settings.best"), 6, 6);
    hy_buf_str(out, "quality is against: ");
    wrap(out, ablation_string(o, "settings.reference"), 20, 6);
    const json_t *notes = ablation_at(o, "settings.notes");
    for (size_t i = 0; i < json_array_size(notes); i++) {
        hy_buf_str(out, "note: ");
        wrap(out, json_string_value(json_array_get(notes, i)), 6, 6);
    }
    if (!json_is_true(json_object_get(o, "complete"))) hy_buf_str(out, "interrupted: the rest was not measured\n");
}

/* ---- CSV --------------------------------------------------------------------------------------------------- */

static void put_field(hy_buf *out, const char *s)
{
    hy_buf_char(out, '"');
    for (; *s; s++) {
        if (*s == '"') hy_buf_char(out, '"');
        hy_buf_char(out, *s);
    }
    hy_buf_char(out, '"');
}

void ablation_csv(const json_t *o, hy_buf *out)
{
    static const char *const texts[] = { "technique", "setting", "baseline", "group" };
    static const char *const numbers[] = {
        "ttft_ms",
        "spread.ttft_ms.0",
        "spread.ttft_ms.1",
        "itl_ms",
        "spread.itl_ms.0",
        "spread.itl_ms.1",
        "tokens_s",
        "spread.tokens_s.0",
        "spread.tokens_s.1",
        "memory_mib",
        "quality.ppl_delta_pct",
        "quality.kl",
        "repeats",
        "gain.ratio",
    };
    hy_buf_str(
        out,
        "technique,setting,baseline,group,ttft_ms,ttft_least,ttft_most,itl_ms,itl_least,itl_most,tokens_s,"
        "tokens_s_least,tokens_s_most,memory_mib,ppl_delta_pct,kl,repeats,gain,gain_of,same_bits,when,when_not\n");
    const json_t *rows = ablation_at(o, "rows");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *same = ablation_at(row, "quality.same_bits");
        for (size_t k = 0; k < HY_COUNT(texts); k++) {
            if (k) hy_buf_char(out, ',');
            put_field(out, ablation_string(row, texts[k]));
        }
        for (size_t k = 0; k < HY_COUNT(numbers); k++) {
            double v;
            hy_buf_char(out, ',');
            if (ablation_number(row, numbers[k], &v)) hy_buf_printf(out, "%.6g", v);
        }
        hy_buf_printf(out, ",%s,%s,", ablation_string(row, "gain.what"), same ? json_is_true(same) ? "yes" : "no" : "");
        put_field(out, ablation_string(row, "when"));
        hy_buf_char(out, ',');
        put_field(out, ablation_string(row, "when_not"));
        hy_buf_char(out, '\n');
    }
}
