/* Advice by measurement: where `hayate bench --ablation` measured a technique with this model on this machine, its
 * numbers take the place of estimates (ablate.h describes its JSON). */
#include "ablate.h"
#include "profile.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* A setting's first word tells it: "8 at once", "q4_1 (file)". */
static bool is_row(const json_t *row, const char *technique, const char *setting)
{
    const char *have = text_of(row, "setting");
    size_t n = setting ? strlen(setting) : 0;
    return strcmp(text_of(row, "technique"), technique) == 0 && strcmp(text_of(row, "baseline"), "best") == 0 &&
           (!setting || (strncasecmp(have, setting, n) == 0 && (have[n] == 0 || have[n] == ' ')));
}

static const json_t *find_row(const json_t *rows, const char *technique, const char *setting)
{
    size_t i;
    const json_t *row;
    json_array_foreach(rows, i, row)
        if (is_row(row, technique, setting)) return row;
    return NULL;
}

/* How many times as good `to` is as `from` in a column where less is better (or more); 0: it was not measured. */
static double ratio(const json_t *from, const json_t *to, const char *column, bool less)
{
    double a = json_number_value(json_object_get(from, column)), b = json_number_value(json_object_get(to, column));
    return a > 0 && b > 0 ? (less ? a / b : b / a) : 0;
}

/* Of a phase: time to the first token, or between tokens. */
static double speed_ratio(const hy_prof_phase *f, const json_t *from, const json_t *to)
{
    return ratio(from, to, strcmp(f->name, "decode") == 0 ? "itl_ms" : "ttft_ms", true);
}

/* The type that most of a token's matrices have. */
static const char *weights_now(const hy_profile *p)
{
    uint32_t best = 0;
    for (uint32_t t = 1; t < HY_Q_COUNT; t++)
        if (p->type_bytes[t] > p->type_bytes[best]) best = t;
    return hy_quant((hy_qtype)best)->name;
}

static double of_weights(const hy_profile *p, const json_t *rows, const hy_advice *a)
{
    static const char *const four[] = { "q4_k_m", "q4_k", "q4_0", "q4_1", "iq4_nl", NULL }, *const eight[] = { "q8_0", NULL };
    const json_t *now = find_row(rows, "weights", weights_now(p));
    double best = 0;
    for (const char *const *to = strcmp(a->id, "weights-q4") == 0 ? four : eight; *to && best == 0; to++)
        best = speed_ratio(a->phase, now, find_row(rows, "weights", *to));
    return best;
}

static double of_threads(const hy_profile *p, const json_t *rows, const hy_advice *a)
{
    char now[16], more[16];
    snprintf(now, sizeof now, "%u", a->phase->n_thread);
    snprintf(more, sizeof more, "%u", p->top.n_thread_default);
    return speed_ratio(a->phase, find_row(rows, "threads", now), find_row(rows, "threads", more));
}

/* Drafting pays for some tasks and not for others: the best of them, and which. Rows with "(f16)" are of the model
 * with weights of 16 bits. */
static double of_speculation(const hy_profile *p, const json_t *rows, char *what, size_t n_what)
{
    size_t i;
    const json_t *row;
    double best = 0;
    json_array_foreach(rows, i, row) {
        double r = json_number_value(json_object_get(json_object_get(row, "gain"), "ratio"));
        const char *setting = text_of(row, "setting"), *type = strchr(setting, '('), *task = strchr(setting, ' ');
        if (!is_row(row, "speculation", NULL) || r <= best || !task) continue;
        size_t n = type ? strcspn(type + 1, ")") : 0;
        if (type && strncasecmp(type + 1, weights_now(p), n) != 0) continue;
        best = r;
        snprintf(what, n_what, "drafted tokens: --speculate %.*s%s (that much for the task \"%.*s\")", (int)(task - setting), setting,
                 strncmp(setting, "draft ", 6) == 0 ? " --draft FILE" : "", (int)((type ? type - 1 : task + strlen(task)) - task - 1),
                 task + 1);
    }
    return best;
}

/* Reasons that speak of an estimate. */
static void reason(hy_advice *a)
{
    static const char *const whys[][2] = {
        { "speculation", "the text stays the same; other tasks gained less, and where drafting does not pay it stops" },
        { "batching", "they share each reading of the weights; each answer by itself gets no faster" },
        { "prefix-cache", "hayate serve keeps the pages of earlier prompts: of one that begins like an earlier one only the end is computed" },
    };
    for (size_t i = 0; i < HY_COUNT(whys); i++)
        if (strcmp(a->id, whys[i][0]) == 0) snprintf(a->why, sizeof a->why, "%s", whys[i][1]);
}

/* 0: not measured. */
static double measured(const hy_profile *p, const json_t *rows, hy_advice *a)
{
    if (strncmp(a->id, "weights-", 8) == 0) return of_weights(p, rows, a);
    if (strcmp(a->id, "threads") == 0) return of_threads(p, rows, a);
    if (strcmp(a->id, "speculation") == 0) return of_speculation(p, rows, a->what, sizeof a->what);
    if (strcmp(a->id, "activations") == 0)
        return speed_ratio(a->phase, find_row(rows, "activations", "f32"), find_row(rows, "activations", "int8"));
    if (strcmp(a->id, "kv-type") == 0)
        return speed_ratio(a->phase, find_row(rows, "kv_type", hy_kv_type_name(p->core->kv_type)), find_row(rows, "kv_type", "q8"));
    if (strcmp(a->id, "batching") == 0)
        return ratio(find_row(rows, "batching", "one"), find_row(rows, "batching", "8"), "tokens_s", false);
    if (strcmp(a->id, "prefix-cache") == 0)
        return ratio(find_row(rows, "prefix_cache", "off"), find_row(rows, "prefix_cache", "on"), "ttft_ms", true);
    return 0;
}

void hy_prof_measured(hy_profile *p, const json_t *ablation)
{
    const json_t *rows = json_object_get(ablation, "rows");
    uint32_t n = 0;
    snprintf(p->when, sizeof p->when, "%.10s", text_of(ablation, "time")); /* the day */
    for (uint32_t i = 0; i < p->n_advice; i++) {
        hy_advice a = p->advice[i];
        double gain = measured(p, rows, &a);
        if (gain > 0) {
            a.gain = gain;
            a.measured = true;
            reason(&a);
        }
        if (!a.measured || gain >= HY_GAIN_MIN) p->advice[n++] = a; /* what was seen not to pay is not advised */
    }
    p->n_advice = n;
}
