/* What `hayate tune` found, as JSON, as text, and as the config file. Text and config are made from the JSON, so that
 * a report that was kept reads as it did. */
#include "tune.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *const verdict_name[] = {
    [HY_TUNE_BETTER] = "kept",
    [HY_TUNE_WORSE] = "no better",
    [HY_TUNE_BEHIND] = "another value is better",
    [HY_TUNE_NOISE] = "within noise",
    [HY_TUNE_LIMIT] = "beyond a limit",
    [HY_TUNE_LOSS] = "loses too much quality",
    [HY_TUNE_FAILED] = "cannot run",
    [HY_TUNE_NO_TIME] = "no time",
    [HY_TUNE_DROPPED] = "did not hold at the end",
};

/* ---- JSON ---------------------------------------------------------------------------------------------------- */

static const char *unit_of(hy_tune_goal g)
{
    return g == HY_TUNE_TTFT ? "ms" : g == HY_TUNE_THROUGHPUT ? "tokens/s" : "MiB";
}

/* The goal's number as people read it. */
static double shown(hy_tune_goal g, double cost)
{
    if (g == HY_TUNE_TTFT) return cost;
    if (g == HY_TUNE_THROUGHPUT) return cost > 0 ? 1 / cost : 0;
    return cost / (double)HY_MIB;
}

static json_t *side(hy_tune_goal g, double cost, const hy_tune_sample *m)
{
    json_t *o = json_pack("{s:f}", "value", shown(g, cost));
    if (g != HY_TUNE_TTFT) json_object_set_new(o, "ttft_ms", json_real(m->guard[0]));
    if (g != HY_TUNE_TTFT) json_object_set_new(o, "tokens_s", json_real(m->guard[1] > 0 ? 1 / m->guard[1] : 0));
    return o;
}

static json_t *trial_json(const hy_tune_bench *b, const hy_tune_trial *t, bool lossy)
{
    hy_tune_goal g = b->place.goal;
    json_t *o = json_pack("{s:s, s:s, s:i}", "value", b->knob[t->knob].value[t->value], "verdict",
                          verdict_name[t->verdict], "rounds", (int)t->n_round);
    if (t->n_round) {
        json_object_set_new(o, "unit", json_string(t->nearer ? "ms to the first token" : unit_of(g)));
        json_object_set_new(o, "measured", json_real(t->nearer ? t->cost : shown(g, t->cost)));
        json_object_set_new(o, "against", json_real(t->nearer ? t->base_cost : shown(g, t->base_cost)));
        json_object_set_new(o, "ratio", json_real(t->ratio));
        json_object_set_new(o, "spread", json_real(t->spread));
    }
    if (lossy && isfinite(t->loss)) json_object_set_new(o, "quality_loss", json_real(t->loss));
    if (t->why[0]) {
        json_t *why = json_string(t->why);
        if (why) json_object_set_new(o, "why", why);
    }
    return o;
}

static json_t *setting_json(const hy_tune_bench *b, const hy_tune_search *s, uint32_t i)
{
    const hy_tune_knob *k = &b->knob[i];
    json_t *tried = json_array();
    for (uint32_t t = 0; t < s->n_trial; t++)
        if (s->trial[t].knob == i) json_array_append_new(tried, trial_json(b, &s->trial[t], s->lossy[i]));
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "name", k->name, "choice", k->value[s->best.at[i]], "default",
                     k->value[0], "closed", k->closed, "tried", tried);
}

static json_t *asked_json(const hy_tune_bench *b)
{
    const hy_tune_params *p = &b->params;
    return json_pack("{s:f, s:f, s:f, s:f, s:i, s:i, s:i}", "minutes", p->minutes, "quality_loss", p->quality_loss,
                     "speed_loss", p->speed_loss, "ttft_ms", p->ttft_ms, "prompt", (int)p->n_prompt, "gen",
                     (int)p->n_gen, "streams", (int)p->n_stream);
}

json_t *hy_tune_json(const hy_tune_bench *b, const hy_tune_search *s)
{
    char made[32] = "";
    time_t now = time(NULL);
    struct tm tm;
    if (gmtime_r(&now, &tm)) strftime(made, sizeof made, "%Y-%m-%dT%H:%M:%SZ", &tm);
    hy_tune_goal g = b->place.goal;
    char *machine = hy_machine_text(&b->place.top);
    json_t *settings = json_array();
    for (uint32_t i = 0; i < HY_TUNE_K_COUNT; i++) json_array_append_new(settings, setting_json(b, s, i));
    double load = -1;
    if (getloadavg(&load, 1) != 1) load = -1;
    json_t *o = json_pack("{s:s, s:s, s:s, s:s?, s:s, s:o, s:f, s:i, s:f, s:i, s:b, s:b, s:b}", "goal",
                          hy_tune_goal_name[g], "unit", unit_of(g), "version", HY_VERSION, "machine", machine, "made",
                          made, "asked", asked_json(b), "seconds", (double)(hy_now_us() - b->us_start) / 1e6,
                          "measurements", (int)s->n_measured, "load", load, "processors",
                          (int)b->place.top.n_cpu_online, "stopped", s->stopped, "out_of_time", s->out_of_time,
                          "in_limits", s->in_limits);
    hy_free(machine);
    json_t *more = json_pack("{s:o, s:o, s:f, s:f, s:i, s:f, s:o, s:b, s:i}", "default",
                             side(g, s->cost_default, &s->last_default), "tuned",
                             side(g, s->cost_best, &s->last_best), "ratio", s->ratio, "spread", s->spread,
                             "final_rounds", (int)s->n_final, "gain", s->ratio > 0 ? 1 / s->ratio : 1, "settings",
                             settings, "complete", !s->stopped, "scored_tokens", (int)b->n_scored);
    if (o && more) json_object_update(o, more);
    if (!more) {
        json_decref(o);
        o = NULL;
    }
    json_decref(more);
    return o;
}

/* ---- words ----------------------------------------------------------------------------------------------------- */

static double num(const json_t *o, const char *name)
{
    return json_number_value(json_object_get(o, name));
}

static const char *str(const json_t *o, const char *name)
{
    const char *s = json_string_value(json_object_get(o, name));
    return s ? s : "";
}

static void put_number(hy_buf *b, double v, const char *unit)
{
    hy_buf_printf(b, v < 10 ? "%.2f %s" : v < 1000 ? "%.1f %s" : "%.0f %s", v, unit);
}

/* "5.1 % less": of the cost; for a speed "5.4 % more". */
static void put_change(hy_buf *b, double ratio, bool speed)
{
    double change = speed ? 1 / ratio - 1 : ratio - 1;
    hy_buf_printf(b, "%.1f %% %s", 100 * fabs(change), change < 0 ? "less" : "more");
}

static void put_trial(hy_buf *b, const json_t *t)
{
    const char *unit = str(t, "unit"), *verdict = str(t, "verdict");
    bool speed = strcmp(unit, "tokens/s") == 0;
    hy_buf_printf(b, "%s: ", str(t, "value"));
    if (json_object_get(t, "measured")) {
        put_number(b, num(t, "measured"), unit);
        hy_buf_str(b, " against ");
        put_number(b, num(t, "against"), unit);
        hy_buf_str(b, " (");
        put_change(b, num(t, "ratio"), speed);
        hy_buf_printf(b, ", spread %.1f %%): ", 100 * num(t, "spread"));
    }
    hy_buf_str(b, verdict);
    if (json_object_get(t, "quality_loss")) hy_buf_printf(b, "; perplexity %+.2f %%", 100 * num(t, "quality_loss"));
    if (*str(t, "why")) hy_buf_printf(b, ": %s", str(t, "why"));
}

static const char *goal_words(const json_t *report, char out[160])
{
    const json_t *a = json_object_get(report, "asked");
    const char *g = str(report, "goal");
    int n = 0;
    if (strcmp(g, "ttft") == 0)
        n = snprintf(out, 160, "time to the first token of a prompt of %.0f tokens", num(a, "prompt"));
    else if (strcmp(g, "throughput") == 0)
        n = snprintf(out, 160, "tokens a second over %.0f streams", num(a, "streams"));
    else
        n = snprintf(out, 160, "memory, at most %.0f %% slower", 100 * num(a, "speed_loss"));
    if (num(a, "ttft_ms") > 0 && n > 0 && n < 120)
        snprintf(out + n, 160 - (size_t)n, ", first token within %.0f ms", num(a, "ttft_ms"));
    return out;
}

/* Is the same value in the list once more? The last word on it is what counts. */
static bool tried_again(const json_t *tried, size_t i)
{
    for (size_t k = i + 1; k < json_array_size(tried); k++)
        if (strcmp(str(json_array_get(tried, k), "value"), str(json_array_get(tried, i), "value")) == 0) return true;
    return false;
}

static void put_settings(hy_buf *b, const json_t *report)
{
    const json_t *all = json_object_get(report, "settings"), *k, *t;
    size_t i, n;
    hy_buf_printf(b, "\n%-15s %-15s %-15s why\n", "setting", "choice", "default");
    json_array_foreach((json_t *)(uintptr_t)all, i, k) {
        const json_t *tried = json_object_get(k, "tried");
        hy_buf_printf(b, "%-15s %-15s %-15s ", str(k, "name"), str(k, "choice"), str(k, "default"));
        if (json_array_size(tried) == 0)
            hy_buf_printf(b, "%s\n", *str(k, "closed") ? str(k, "closed") : "no time to try");
        uint32_t some = 0;
        json_array_foreach((json_t *)(uintptr_t)tried, n, t) {
            if (tried_again(tried, n)) continue;
            if (some++) hy_buf_printf(b, "%-47s ", "");
            put_trial(b, t);
            hy_buf_char(b, '\n');
        }
    }
}

static bool any_chosen(const json_t *report)
{
    const json_t *all = json_object_get(report, "settings"), *k;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)all, i, k)
        if (strcmp(str(k, "choice"), str(k, "default")) != 0) return true;
    return false;
}

static void put_outcome(hy_buf *b, const json_t *report)
{
    const json_t *d = json_object_get(report, "default"), *t = json_object_get(report, "tuned");
    const char *unit = str(report, "unit");
    bool chosen = any_chosen(report);
    hy_buf_str(b, "\n");
    if (!chosen) {
        hy_buf_str(b, "The defaults are as good as anything that was tried: ");
        put_number(b, num(d, "value"), unit);
        hy_buf_str(b, ". Nothing is set.\n");
    } else {
        hy_buf_str(b, "With these settings ");
        put_number(b, num(t, "value"), unit);
        hy_buf_str(b, ", with the defaults ");
        put_number(b, num(d, "value"), unit);
        hy_buf_str(b, ": ");
        put_change(b, num(report, "ratio"), strcmp(unit, "tokens/s") == 0);
        if (num(report, "final_rounds") > 0)
            hy_buf_printf(b, " (spread %.1f %%; both measured %.0f times more in turns at the end).\n",
                          100 * num(report, "spread"), num(report, "final_rounds"));
        else
            hy_buf_str(b, " (not measured against the defaults once more).\n");
    }
    if (json_object_get(t, "ttft_ms") && chosen)
        hy_buf_printf(b, "First token %.0f ms (defaults %.0f), %.1f tokens/s over the streams (defaults %.1f).\n",
                      num(t, "ttft_ms"), num(d, "ttft_ms"), num(t, "tokens_s"), num(d, "tokens_s"));
    if (json_is_false(json_object_get(report, "in_limits")))
        hy_buf_str(b, "No setting was found that keeps the limits; these come nearest.\n");
}

static void put_notes(hy_buf *b, const json_t *report)
{
    const json_t *a = json_object_get(report, "asked");
    if (json_is_true(json_object_get(report, "stopped")))
        hy_buf_str(b, "Stopped before the end: this is what was found by then.\n");
    else if (json_is_true(json_object_get(report, "out_of_time")))
        hy_buf_printf(b, "The time was over before everything was tried; --minutes %.0f would try more.\n",
                      ceil(2 * num(a, "minutes")));
    if (num(report, "scored_tokens") > 0)
        hy_buf_printf(b, "Perplexity is of %.0f tokens of one text (--text FILE takes yours).\n",
                      num(report, "scored_tokens"));
    if (strcmp(str(report, "goal"), "throughput") == 0)
        hy_buf_str(
            b,
            "Streams ask for prose, a copy, code and JSON in turn: how much drafts gain depends on what is asked.\n");
    if (num(report, "load") > 0.75 * num(report, "processors"))
        hy_buf_printf(b,
                      "The machine was busy (load %.1f with the search itself); on a quiet one more may be seen.\n",
                      num(report, "load"));
}

void hy_tune_text_of(const json_t *report, hy_buf *b)
{
    const json_t *m = json_object_get(report, "model");
    char goal[160];
    hy_buf_printf(b, "%s%s%s%s, on %.*s\nfor %s; ", str(m, "file"), *str(m, "name") ? " (" : "", str(m, "name"),
                  *str(m, "name") ? ")" : "", (int)strcspn(str(report, "machine"), ";"), str(report, "machine"),
                  goal_words(report, goal));
    hy_buf_printf(b, "%.0f measurements in %.0f s%s\n", num(report, "measurements"), num(report, "seconds"),
                  json_is_true(json_object_get(report, "kept")) ? " (kept from before; --fresh searches again)" : "");
    put_settings(b, report);
    put_outcome(b, report);
    put_notes(b, report);
    if (*str(report, "path"))
        hy_buf_printf(b, "Kept: %s; run, chat, serve and bench use it with this model (--no-tuned: not).\n",
                      str(report, "path"));
    else
        hy_buf_str(b, "Not kept: there is no cache folder that can be written to.\n");
    if (*str(report, "out")) hy_buf_printf(b, "Written: %s (--tuned FILE uses it).\n", str(report, "out"));
}

/* ---- the config ------------------------------------------------------------------------------------------------- */

/* Text out of a model file goes into one line. */
static void put_line(hy_buf *out, const char *name, const char *s)
{
    hy_buf_printf(out, "#! %s ", name);
    for (; *s; s++) hy_buf_char(out, (unsigned char)*s < 32 ? ' ' : *s);
    hy_buf_char(out, '\n');
}

void hy_tuned_write(const json_t *report, const char *lines, hy_buf *out)
{
    const json_t *m = json_object_get(report, "model"), *all = json_object_get(report, "settings"), *k, *t;
    char goal[160];
    size_t i, n;
    hy_buf_str(out, "#! hayate-tuned 1\n");
    put_line(out, "version", str(report, "version"));
    put_line(out, "machine", str(report, "machine"));
    hy_buf_printf(out, "#! model %s", str(m, "id"));
    for (const char *s = str(m, "file"); *s; s++)
        hy_buf_printf(out, s == str(m, "file") ? " %c" : "%c", (unsigned char)*s < 32 ? ' ' : *s);
    hy_buf_str(out, "\n");
    put_line(out, "goal", str(report, "goal"));
    hy_buf_printf(out, "#! gain %.4f\n", HY_MAX(0.001, HY_MIN(1000.0, num(report, "gain"))));
    hy_buf_printf(out, "# Found by `hayate tune` on %s, for: %s.\n", str(report, "made"), goal_words(report, goal));
    json_array_foreach((json_t *)(uintptr_t)all, i, k)
        json_array_foreach((json_t *)(uintptr_t)json_object_get(k, "tried"), n, t) {
            if (strcmp(str(t, "verdict"), "kept") != 0) continue;
            hy_buf_printf(out, "# %s ", str(k, "name"));
            put_trial(out, t);
            hy_buf_char(out, '\n');
        }
    if (!*lines) hy_buf_str(out, "# The defaults are as good as anything that was tried.\n");
    hy_buf_str(out, lines);
}
