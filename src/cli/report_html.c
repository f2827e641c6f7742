/* The ablation as one page: no script, no outside request, light and dark by the reader's setting, fit for a phone
 * and for printing. */
#include "ablation.h"
#include "report_svg.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char head[] =
    "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n"
    "<style>\n"
    ":root{--bg:#fbfbf9;--card:#fff;--ink:#1d2330;--soft:#5d6675;--line:#dfe2e8;--a:#2563a8;--b:#c2571a;--c:#2f7d4f;"
    "--d:#7b4fa3;--good:#2f7d4f;--bad:#b3362b;--base:#8b95a5}\n"
    "@media "
    "(prefers-color-scheme:dark){:root{--bg:#14171d;--card:#1c2028;--ink:#e7eaf0;--soft:#9aa4b4;--line:#323845;"
    "--a:#6ea8e6;--b:#eb9360;--c:#6cc493;--d:#b994df;--good:#6cc493;--bad:#ec8177;--base:#7c8797}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.5 system-ui,-apple-system,\"Segoe "
    "UI\",sans-serif}\n"
    "main{max-width:1080px;margin:0 auto;padding:24px 16px 64px}\n"
    "h1{font-size:1.7rem;line-height:1.2;margin:8px 0}h2{font-size:1.25rem;margin:44px 0 "
    "8px}h3{font-size:1.05rem;margin:0 0 6px}\n"
    "p{margin:6px 0}.soft{color:var(--soft)}small,.soft{font-size:.9rem}\n"
    ".cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,290px),1fr));gap:12px;margin:12px 0}\n"
    ".wide{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));gap:12px;margin:12px 0}\n"
    ".card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px 16px;min-width:0}\n"
    ".big{font-size:1.3rem;font-weight:650;margin:2px "
    "0}.tag{font-size:.8rem;font-weight:600;border-radius:99px;padding:1px 9px;"
    "border:1px solid currentColor;white-space:nowrap}.yes{color:var(--good)}.no{color:var(--b)}\n"
    ".scroll{overflow-x:auto}\n"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:.9rem}\n"
    "th,td{text-align:right;padding:5px 9px;border-bottom:1px solid "
    "var(--line);vertical-align:top;white-space:nowrap}\n"
    "th{color:var(--soft);font-weight:600}th:first-child,td:first-child{text-align:left;white-space:normal;min-width:"
    "130px}\n"
    "td.q{white-space:normal;min-width:110px}td small{color:var(--soft);display:block}\n"
    "table.guide{font-size:.82rem}table.guide th,table.guide td{white-space:normal;padding:5px 6px}"
    "table.guide td.n{white-space:nowrap}td.w,th.w{text-align:left;min-width:150px}\n"
    "@media (max-width:760px){table.guide tr:first-child,table.guide td:first-child::before{display:none!important}table.guide tr{display:block;padding:8px 0;border-bottom:1px "
    "solid var(--line)}table.guide td{display:flex;justify-content:space-between;gap:14px;border:0;padding:2px 0;"
    "text-align:right;font-size:.92rem}table.guide td::before{content:attr(data-k);color:var(--soft);flex:none}"
    "table.guide td:first-child{justify-content:flex-start}}\n"
    "tr.part td{color:var(--soft);font-style:italic;white-space:normal;text-align:left}\n"
    ".up{color:var(--good);font-weight:600}.down{color:var(--bad);font-weight:600}\n"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 14px;margin:8px 0 "
    "12px}dt{color:var(--soft)}dd{margin:0}\n"
    "svg{display:block;width:100%;height:auto;font:15px system-ui,-apple-system,\"Segoe UI\",sans-serif}\n"
    "svg text{fill:var(--soft)}svg text.k{fill:var(--ink)}svg text.n{fill:var(--soft);font-style:italic}\n"
    "svg path.g{stroke:var(--line);fill:none}svg path.o{stroke:var(--ink);stroke-dasharray:3 4;fill:none}\n"
    "path.s0,path.s1,path.s2,path.s3{fill:none;stroke-width:2.5}path.s0{stroke:var(--b)}path.s1{stroke:var(--a)}"
    "path.s2{stroke:var(--c)}path.s3{stroke:var(--d)}\n"
    "circle.s0{fill:var(--b)}circle.s1{fill:var(--a)}circle.s2{fill:var(--c)}circle.s3{fill:var(--d)}\n"
    ".key{display:flex;flex-wrap:wrap;gap:2px 18px;font-size:.9rem}.key "
    "span::before{content:\"\";display:inline-block;width:.7em;"
    "height:.7em;border-radius:50%;margin-right:.45em;background:currentColor}.key .s0::before{color:var(--b)}"
    ".key .s1::before{color:var(--a)}.key .s2::before{color:var(--c)}.key .s3::before{color:var(--d)}\n"
    "svg.bars{max-width:660px}@media (max-width:600px){svg{font-size:19px}.card{padding:12px 10px}"
    "th{white-space:normal}th,td{padding:5px}th:first-child,td:first-child{min-width:92px}}\n"
    "rect.b0{fill:var(--base)}rect.b1{fill:var(--a)}rect.b2{fill:var(--b)}\n"
    "@media print{body{background:#fff}.card{break-inside:avoid}}\n"
    "</style>\n";

static void put(hy_buf *out, const char *tag, const char *text)
{
    hy_buf_printf(out, "<%s>", tag);
    html_put(out, text);
    hy_buf_printf(out, "</%.*s>\n", (int)strcspn(tag, " "), tag);
}

/* What stands at a path, between two pieces of markup. */
static void put_at(hy_buf *out, const char *before, const json_t *o, const char *path, const char *after)
{
    hy_buf_str(out, before);
    html_put(out, ablation_string(o, path));
    hy_buf_str(out, after);
}

/* ---- the head of the page -------------------------------------------------------------------------------- */

static void put_facts(const json_t *o, hy_buf *out)
{
    double threads = 0, few = 0, before = 0, after = 0, s = 0, cores = 0, mem = 0;
    ablation_number(o, "machine.threads", &threads);
    ablation_number(o, "machine.threads_decode", &few);
    ablation_number(o, "machine.cores_allowed", &cores);
    ablation_number(o, "machine.memory_bytes", &mem);
    ablation_number(o, "machine.load_before", &before);
    ablation_number(o, "machine.load_after", &after);
    ablation_number(o, "seconds", &s);
    put_at(out, "<title>What each technique is worth: ", o, "model.file", "</title>\n<main>\n<p class=\"soft\">");
    put_at(out, "hayate ", o, "hayate", " · ");
    put_at(out, "", o, "time", "</p>\n<h1>What each technique is worth here</h1>\n<p>");
    put_at(out, "", o, "model.file", " (");
    put_at(out, "", o, "model.family", ", ");
    put_at(out, "", o, "model.weights", ") on ");
    put_at(out, "", o, "machine.model", "");
    hy_buf_printf(out, ", %.0f core%s, %.0f GiB, %s kernels, %.0f thread%s for prompts and %.0f for decoding.</p>\n",
                  cores, cores == 1 ? "" : "s", mem / (1024.0 * 1024 * 1024), ablation_string(o, "machine.isa"),
                  threads, threads == 1 ? "" : "s", few);
    hy_buf_printf(
        out,
        "<p class=\"soft\">All in one run of %.0f s: each technique off and on in turns, medians with the least and "
        "the most. Load of the machine: %.1f before, %.1f after.%s</p>\n",
        s, before, after,
        json_is_true(json_object_get(o, "complete")) ? "" : " <b>Interrupted: the rest was not measured.</b>");
}

static void put_claims(const json_t *o, hy_buf *out)
{
    const json_t *claims = ablation_at(o, "claims");
    if (json_array_size(claims) == 0) return;
    put(out, "h2", "What is said, and what was measured");
    hy_buf_str(out, "<div class=\"cards\">\n");
    for (size_t i = 0; i < json_array_size(claims); i++) {
        const json_t *c = json_array_get(claims, i);
        bool holds = json_is_true(json_object_get(c, "holds"));
        put_at(out, "<div class=\"card\"><h3>", c, "claim", "</h3>\n");
        put_at(out, "<p class=\"soft\">said: ", c, "said", "</p>");
        put_at(out, "<p class=\"big\">", c, "measured", "</p>");
        hy_buf_printf(out, "<p><span class=\"tag %s\">%s</span></p>", holds ? "yes" : "no", holds ? "holds here" :
                      "not reached here");
        put_at(out, "<p class=\"soft\">", c, "about", "</p></div>\n");
    }
    hy_buf_str(out, "</div>\n");
}

/* ---- which technique, when ----------------------------------------------------------------------------------- */

static bool is_row(const json_t *row, const char *technique)
{
    return strcmp(ablation_string(row, "technique"), technique) == 0;
}

/* The row that stands for a technique: of those that lose at most a hundredth of perplexity the one that gains most.
 * off: what it is compared with. */
static const json_t *chosen(const json_t *rows, const char *technique, const json_t **off)
{
    const json_t *best = NULL, *base = NULL;
    double most = 0, ratio, lost;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (!is_row(row, technique) || strcmp(ablation_string(row, "baseline"), "best") != 0) continue;
        if (!ablation_number(row, "gain.ratio", &ratio)) {
            base = row;
            continue;
        }
        if ((ablation_number(row, "quality.ppl_delta_pct", &lost) && lost > 1) || (best && ratio <= most)) continue;
        best = row;
        most = ratio;
        *off = base;
    }
    return best;
}

/* Better and worse are coloured only where it is worth saying. */
static const char *change_class(double ratio)
{
    return ratio >= 1.02 ? "up" : ratio < 0.98 ? "down" : "";
}

/* "1449 → 951": off and on. */
static void put_pair(const json_t *off, const json_t *on, const char *key, const char *name, hy_buf *out)
{
    double v;
    char from[32], to[32];
    bool both = ablation_number(off, key, &v);
    ablation_short(both, v, from);
    bool has = ablation_number(on, key, &v);
    ablation_short(has, v, to);
    hy_buf_printf(out, "<td class=\"n\" data-k=\"%s\">%s%s%s</td>", name, both && has && strcmp(from, to) != 0 ? from : "",
                  both && has && strcmp(from, to) != 0 ? " → " : "", has ? to : "–");
}

static const struct {
    const char *key, *name;
} pairs[] = { { "ttft_ms", "first token, ms" }, { "itl_ms", "each token, ms" }, { "tokens_s", "tokens/s" },
              { "memory_mib", "MiB" } };

static void put_choice(const json_t *off, const json_t *on, const char *technique, hy_buf *out)
{
    char q[64], g[48];
    double ratio = 0;
    (void)ablation_number(on, "gain.ratio", &ratio);
    hy_buf_str(out, "<tr><td><b>");
    html_put(out, ablation_title(technique));
    put_at(out, "</b><small>", on, "setting", "</small></td>");
    hy_buf_printf(out, "<td class=\"%s\" data-k=\"gain\">", change_class(ratio));
    html_put(out, ablation_gain(on, g));
    hy_buf_str(out, "</td>");
    for (size_t k = 0; k < HY_COUNT(pairs); k++) put_pair(off, on, pairs[k].key, pairs[k].name, out);
    hy_buf_str(out, "<td data-k=\"quality lost\">");
    html_put(out, ablation_quality(on, q));
    put_at(out, "</td><td class=\"w\" data-k=\"use it when\">", on, "when", "</td>");
    put_at(out, "<td class=\"w\" data-k=\"not when\">", on, "when_not", "</td></tr>\n");
}

static void put_guide(const json_t *o, hy_buf *out)
{
    const json_t *rows = ablation_at(o, "rows");
    hy_buf_str(out, "<h2>Which technique, when</h2>\n<p class=\"soft\">Off → on, everything else on; of several settings "
                    "the one that gains most and loses at most 1 % of perplexity. All of them stand below.</p>\n"
                    "<div class=\"card scroll\"><table class=\"guide\"><tr><th>technique</th><th>gain</th>");
    for (size_t k = 0; k < HY_COUNT(pairs); k++) hy_buf_printf(out, "<th>%s</th>", pairs[k].name);
    hy_buf_str(out, "<th>quality lost</th><th class=\"w\">use it when</th><th class=\"w\">not when</th></tr>\n");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const char *technique = ablation_string(json_array_get(rows, i), "technique");
        const json_t *off = NULL, *on = NULL;
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++) seen = is_row(json_array_get(rows, k), technique);
        if (!seen) on = chosen(rows, technique, &off);
        if (on) put_choice(off, on, technique, out);
    }
    hy_buf_str(out, "</table></div>\n");
}

/* ---- charts ------------------------------------------------------------------------------------------------ */

/* Points of one key of a curve; those without a number are left out. */
static void fill(const json_t *curve, const char *x, const char *y, const char *name, svg_series *s)
{
    *s = (svg_series){ .name = name };
    for (size_t i = 0; i < json_array_size(curve) && s->n < SVG_POINTS; i++) {
        const json_t *p = json_array_get(curve, i);
        double vx, vy;
        if (!ablation_number(p, x, &vx) || !ablation_number(p, y, &vy) || vx <= 0 || vy <= 0) continue;
        s->x[s->n] = vx;
        s->y[s->n++] = vy;
    }
}

static void put_chart(const svg_lines *l, const char *about, hy_buf *out)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (l->series[i].n < 2) return;
    hy_buf_str(out, "<div class=\"card\">");
    put(out, "h3", l->title);
    svg_put_lines(l, out);
    put(out, "p class=\"soft\"", about);
    hy_buf_str(out, "</div>\n");
}

/* One chart: where its points are, and what is said of it. */
typedef struct curve {
    const char *of, *title, *x, *x_name, *y_name;
    bool log_y;
    double y_unit;             /* values are divided by it */
    struct { const char *key, *name; } line[2];
    const char *about;
} curve;

static const curve curves[] = {
    { "curves.kv_cache", "One more token behind a text", "n", "tokens before", "ms", true, 1,
      { { "off_ms", "without a cache" }, { "on_ms", "KV cache" } },
      "Without a cache every token costs as much as the whole text before it, so an answer of n tokens costs n²; with one it "
      "costs a step." },
    { "curves.kv_cache", "A whole answer", "n", "tokens of the answer", "seconds", true, 1000,
      { { "answer_off_ms", "without a cache" }, { "answer_on_ms", "KV cache" } },
      "The sum over all tokens, between the measured lengths by straight lines: the lines' slopes are n² and n." },
    { "curves.attention", "A prompt with scores in memory, and with FlashAttention", "n", "tokens of the prompt", "ms", true, 1,
      { { "materialised_ms", "materialised" }, { "flash_ms", "flash" } },
      "The whole matrix of scores is written and read, or stays in the caches tile by tile." },
    { "curves.attention", "Memory for that", "n", "tokens of the prompt", "MiB", false, 1,
      { { "materialised_mib", "materialised" }, { "flash_mib", "flash" } }, "Weights, keys and values, working memory." },
    { "curves.streams", "Continuous batching", "streams", "answers at once", "tokens a second, all together", false, 1,
      { { "tokens_s", "all together" } }, "The weights are read once a step for all of them." },
    { "curves.streams", "What each of them waits", "streams", "answers at once", "ms", true, 1,
      { { "ttft_ms", "first token" }, { "itl_ms", "each token after" } },
      "The price of sharing: every answer is a little slower." },
};

static void put_charts(const json_t *o, hy_buf *out)
{
    put(out, "h2", "Curves");
    hy_buf_str(out, "<div class=\"wide\">\n");
    for (size_t i = 0; i < HY_COUNT(curves); i++) {
        const curve *c = &curves[i];
        svg_lines l = { .title = c->title, .x_name = c->x_name, .y_name = c->y_name, .log_x = true, .log_y = c->log_y };
        for (; l.n < HY_COUNT(c->line) && c->line[l.n].key; l.n++) {
            svg_series *s = &l.series[l.n];
            fill(ablation_at(o, c->of), c->x, c->line[l.n].key, c->line[l.n].name, s);
            for (uint32_t k = 0; k < s->n; k++) s->y[k] /= c->y_unit;
        }
        put_chart(&l, c->about, out);
    }
    hy_buf_str(out, "</div>\n");
}

static void put_ladder(const json_t *o, hy_buf *out)
{
    const json_t *c = ablation_at(o, "curves.ladder");
    svg_bar bar[SVG_POINTS];
    uint32_t n = 0;
    double first = 0;
    for (size_t i = 0; i < json_array_size(c) && n < SVG_POINTS; i++) {
        const json_t *p = json_array_get(c, i);
        double v;
        char number[32], times[32];
        if (!ablation_number(p, "tokens_s", &v)) continue;
        if (n == 0) first = v;
        svg_bar *b = &bar[n++];
        *b = (svg_bar){ .v = v, .style = n > 1 };
        snprintf(b->name, sizeof b->name, "%.40s", ablation_string(p, "step"));
        snprintf(b->label, sizeof b->label, "%s (%s ×)", ablation_short(true, v, number),
                 ablation_short(true, v / first, times));
    }
    if (n < 2) return;
    put(out, "h2", "Step by step");
    hy_buf_str(out, "<div class=\"card\">");
    put(out, "h3", "Tokens a second of one answer, each step with all before it");
    svg_put_bars("Tokens a second, step by step", bar, n, 0, out);
    put_at(out, "<p class=\"soft\">plain: ", o, "settings.plain", "</p></div>\n");
}

/* ---- each technique ------------------------------------------------------------------------------------------ */

static void put_number(const json_t *row, const char *key, hy_buf *out)
{
    char path[40], m[32], a[32], b[32];
    double v, n, least, most;
    bool has = ablation_number(row, key, &v);
    hy_buf_printf(out, "<td>%s", has ? ablation_short(true, v, m) : "–");
    snprintf(path, sizeof path, "spread.%s.0", key);
    bool spread = has && ablation_number(row, path, &least) && ablation_number(row, "repeats", &n) && n > 1;
    path[strlen(path) - 1] = '1';
    if (spread && ablation_number(row, path, &most))
        hy_buf_printf(out, "<small>%s … %s</small>", ablation_short(true, least, a), ablation_short(true, most, b));
    hy_buf_str(out, "</td>");
}

static void put_row(const json_t *row, hy_buf *out)
{
    char q[64], g[48], m[32];
    double mib, ratio;
    hy_buf extra = { 0 };
    hy_buf_str(out, "<tr><td>");
    html_put(out, ablation_string(row, "setting"));
    ablation_extra(row, &extra);
    if (extra.len) {
        hy_buf_str(out, "<small>");
        html_put(out, extra.data);
        hy_buf_str(out, "</small>");
    }
    hy_buf_free(&extra);
    hy_buf_str(out, "</td>");
    put_number(row, "ttft_ms", out);
    put_number(row, "itl_ms", out);
    put_number(row, "tokens_s", out);
    bool has = ablation_number(row, "memory_mib", &mib);
    hy_buf_printf(out, "<td>%s</td><td class=\"q\">", has ? ablation_short(true, mib, m) : "–");
    html_put(out, ablation_quality(row, q));
    bool gained = ablation_number(row, "gain.ratio", &ratio);
    hy_buf_printf(out, "</td><td class=\"%s\">", gained ? change_class(ratio) : "");
    html_put(out, ablation_gain(row, g));
    hy_buf_str(out, "</td></tr>\n");
}

static void put_gains(const json_t *rows, const char *technique, hy_buf *out)
{
    svg_bar bar[SVG_POINTS];
    uint32_t n = 0;
    for (size_t i = 0; i < json_array_size(rows) && n < SVG_POINTS; i++) {
        const json_t *row = json_array_get(rows, i);
        double v;
        const char *on = ablation_string(row, "baseline");
        if (!is_row(row, technique) || !ablation_number(row, "gain.ratio", &v)) continue;
        svg_bar *b = &bar[n++];
        *b = (svg_bar){ .v = v, .style = v >= 1 ? 1 : 2 };
        snprintf(b->name, sizeof b->name, "%.20s%s", ablation_string(row, "setting"),
                 strcmp(on, "plain") == 0  ? ", plain"
                 : strcmp(on, "gpt2") == 0 ? ", GPT-2"
                                           : "");
        char gain[48];
        snprintf(b->label, sizeof b->label, "%.*s", (int)strcspn(ablation_gain(row, gain), "x"), gain);
        snprintf(b->label + strlen(b->label), sizeof b->label - strlen(b->label), "×");
    }
    if (n) svg_put_bars("Gain over the technique off", bar, n, 1, out);
}

static void put_technique(const json_t *rows, const char *technique, hy_buf *out)
{
    const json_t *first = NULL;
    const char *baseline = "best";
    double n;
    for (size_t i = 0; i < json_array_size(rows) && !first; i++)
        if (is_row(json_array_get(rows, i), technique)) first = json_array_get(rows, i);
    hy_buf_str(out, "<h2>");
    html_put(out, ablation_title(technique));
    if (ablation_number(first, "extra.n", &n)) hy_buf_printf(out, " <small class=\"soft\">at %.0f tokens</small>", n);
    hy_buf_str(out, "</h2>\n<div class=\"card\">\n");
    put_at(out, "<dl><dt>when</dt><dd>", first, "when", "</dd>");
    put_at(out, "<dt>when not</dt><dd>", first, "when_not", "</dd></dl>\n");
    put_gains(rows, technique, out);
    hy_buf_str(out, "<div class=\"scroll\"><table><tr><th>setting</th><th>first token, ms</th><th>each token, ms</th>"
                    "<th>tokens/s</th><th>MiB</th><th>quality lost</th><th>gain</th></tr>\n");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (!is_row(row, technique)) continue;
        const char *on = ablation_string(row, "baseline");
        if (strcmp(on, baseline) != 0)
            hy_buf_printf(out, "<tr class=\"part\"><td colspan=\"7\">%s</td></tr>\n", strcmp(on, "gpt2") == 0 ?
                          "on the shape of GPT-2" : "on the plain baseline, everything else off");
        baseline = on;
        put_row(row, out);
    }
    hy_buf_str(out, "</table></div></div>\n");
}

static void put_end(const json_t *o, hy_buf *out)
{
    put(out, "h2", "How it was measured");
    put_at(out, "<dl><dt>best</dt><dd>", o, "settings.best", "</dd>");
    put_at(out, "<dt>plain</dt><dd>", o, "settings.plain", "</dd>");
    put_at(out, "<dt>quality</dt><dd>against: ", o, "settings.reference",
           "; perplexity's difference, and KL divergence in "
           "nats. Where bits must be the same they were compared.</dd>");
    hy_buf_str(out, "<dt>gain</dt><dd>over the technique off, everything else alike; above 1 (the dashed line) is better</dd></dl>\n");
    const json_t *notes = ablation_at(o, "settings.notes");
    if (json_array_size(notes)) hy_buf_str(out, "<ul>\n");
    for (size_t i = 0; i < json_array_size(notes); i++) put(out, "li", json_string_value(json_array_get(notes, i)));
    if (json_array_size(notes)) hy_buf_str(out, "</ul>\n");
    hy_buf_str(out, "</main>\n</html>\n");
}

void ablation_html(const json_t *o, hy_buf *out)
{
    hy_buf_str(out, head);
    put_facts(o, out);
    put_guide(o, out);
    put_claims(o, out);
    put_ladder(o, out);
    put_charts(o, out);
    const json_t *rows = ablation_at(o, "rows");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const char *technique = ablation_string(json_array_get(rows, i), "technique");
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++) seen = is_row(json_array_get(rows, k), technique);
        if (!seen) put_technique(rows, technique, out);
    }
    put_end(o, out);
}
