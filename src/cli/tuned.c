/* Settings that `hayate tune` found, in the place of defaults; and the two kinds of values that it takes. */
#include "cli.h"
#include <stdio.h>
#include <string.h>

static const char *stale(hy_tuned_state s)
{
    switch (s) {
    case HY_TUNED_OTHER_MACHINE: return "of another machine (or of another quota)";
    case HY_TUNED_OTHER_VERSION: return "of another version of hayate";
    default: return "of another model";
    }
}

/* Would the file change what the user asked for by another option? */
static bool given_otherwise(const cli_args *a, const char *name)
{
    if (strcmp(name, "threads-decode") == 0 && cli_given(a, "threads", CLI_G_MODEL)) return true;
    if (strcmp(name, "weights-all") == 0 && cli_given(a, "weights", CLI_G_MODEL)) return true;
    if (strcmp(name, "draft") == 0 && cli_given(a, "speculate", ~0u)) return true;
    return cli_given(a, name, ~0u);
}

static bool apply(const cli_command *c, const hy_tuned *t, cli_args *a)
{
    hy_buf said = { 0 };
    bool good = true;
    for (uint32_t i = 0; i < t->n && good; i++) {
        const char *name = t->item[i].name, *value = t->item[i].value;
        if (given_otherwise(a, name)) continue;
        char from[1200];
        snprintf(from, sizeof from, "%.1000s: %s", t->path, name);
        good = cli_set(c, name, value, from, a);
        hy_buf_printf(&said, " %s=%s", name, value);
    }
    if (good && said.data && !a->quiet)
        fprintf(stderr, "tuned:%s (%s, %.2f times the defaults); --no-tuned ignores it\n", said.data, t->goal, t->gain);
    hy_buf_free(&said);
    return good;
}

bool cli_use_tuned(const char *command, cli_args *a)
{
    const cli_command *c = cli_find(command);
    hy_err err;
    if (a->no_tuned && a->tuned) return cli_error(command, "--tuned and --no-tuned exclude each other"), false;
    if (a->no_tuned) return true;
    hy_status s = hy_tool_tuned(a->pos[0], a->tuned, &a->found, &err);
    if (s != HY_OK && a->tuned) return cli_fail(command, &err), false;
    if (s != HY_OK)
        return cli_error(command, "%s; `hayate tune` writes it anew, --no-tuned ignores it", err.msg), false;
    if (a->found.state == HY_TUNED_NONE) return true;
    if (a->found.state == HY_TUNED_FITS) return apply(c, &a->found, a);
    if (!a->quiet)
        fprintf(stderr, "tuned: not used: %s%swhat was found is %s; `hayate tune` measures here\n",
                a->tuned ? a->tuned : "", a->tuned ? ": " : "", stale(a->found.state));
    return true;
}

/* ---- values ---------------------------------------------------------------------------------------------- */

/* Cuts a known end off; which one it was, or -1. */
static int cut(char *s, const char *const *ends, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(s), k = strlen(ends[i]);
        if (len <= k || strcmp(s + len - k, ends[i]) != 0) continue;
        s[len - k] = 0;
        return (int)i;
    }
    return -1;
}

bool cli_share(const char *command, const char *name, const char *text, double max, double *out)
{
    static const char *const ends[] = { " %", "%" };
    char number[64];
    hy_err err;
    if (!text) return true;
    snprintf(number, sizeof number, "%.60s", text);
    bool percent = cut(number, ends, HY_COUNT(ends)) >= 0;
    if (hy_parse_f64(name, number, 0, percent ? 100 * max : max, out, &err) != HY_OK)
        return cli_fail(command, &err), false;
    if (percent) *out /= 100;
    return true;
}

bool cli_milliseconds(const char *command, const char *name, const char *text, double *out)
{
    static const char *const ends[] = { "ms", "s" };
    char number[64];
    hy_err err;
    if (!text) return true;
    snprintf(number, sizeof number, "%.60s", text);
    double times = cut(number, ends, HY_COUNT(ends)) == 1 ? 1000 : 1;
    if (hy_parse_f64(name, number, 1 / times, 3.6e6 / times, out, &err) != HY_OK) return cli_fail(command, &err), false;
    *out *= times;
    return true;
}
