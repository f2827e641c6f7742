/* Which settings a machine and a model leave open, what values each may take, and what a point means as options. */
#include "tune.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const hy_tune_goal_name[HY_TUNE_GOALS] = { "ttft", "throughput", "memory" };

static void put(hy_tune_knob *k, const char *fmt, ...) HY_PRINTF(2, 3);
static void put(hy_tune_knob *k, const char *fmt, ...)
{
    if (k->n == HY_TUNE_VALUES) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(k->value[k->n++], sizeof k->value[0], fmt, ap);
    va_end(ap);
}

static void closed(hy_tune_knob *k, const char *fmt, ...) HY_PRINTF(2, 3);
static void closed(hy_tune_knob *k, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(k->closed, sizeof k->closed, fmt, ap);
    va_end(ap);
}

/* ---- threads ------------------------------------------------------------------------------------------------ */

uint32_t hy_tune_thread_values(const hy_topology *top, uint32_t chosen, uint32_t out[HY_TUNE_VALUES])
{
    const uint32_t most = top->n_thread_default; /* cores allowed, no more than the quota */
    uint32_t all[HY_TUNE_VALUES], n = 0, k = 0;
    /* two threads on a core share its units: seldom better, but it happens where memory is slow to answer */
    if (top->quota_cpus <= 0 && top->n_cpu_allowed > most)
        all[n++] = HY_MIN(top->n_cpu_allowed, (uint32_t)HY_THREADS_MAX);
    all[n++] = most;
    if (most >= 4) all[n++] = most - most / 4;
    for (uint32_t half = most / 2; half >= 1 && n < HY_TUNE_VALUES - 1; half /= 2) all[n++] = half;
    for (uint32_t i = 0; i < n; i++)
        if (all[i] != chosen) out[k++] = all[i];
    return k;
}

static void threads(const hy_tune_place *p, hy_tune_knob *k, bool decode)
{
    uint32_t chosen = decode ? p->n_threads_decode : p->n_threads, v[HY_TUNE_VALUES];
    put(k, "%u", chosen);
    if (decode ? p->o->n_threads_decode || p->o->n_threads : p->o->n_threads) {
        closed(k, "given");
        return;
    }
    if (decode && p->goal != HY_TUNE_THROUGHPUT) {
        closed(k, p->goal == HY_TUNE_TTFT ? "decides nothing before the first token" : "takes no memory worth naming");
        return;
    }
    uint32_t n = hy_tune_thread_values(&p->top, chosen, v);
    for (uint32_t i = 0; i < n; i++) put(k, "%u", v[i]);
    if (k->n > 1) return;
    if (p->top.quota_cpus > 0) closed(k, "the quota of %.2f processors leaves one thread", p->top.quota_cpus);
    else closed(k, "there is one processor");
}

/* ---- the others ----------------------------------------------------------------------------------------------- */

static void step(const hy_tune_place *p, hy_tune_knob *k)
{
    static const uint32_t sizes[HY_TUNE_GOALS][4] = { { 128, 512, 1024 }, { 64, 128, 512 }, { 128, 64, 32 } };
    put(k, "%u", p->n_step);
    if (p->o->n_step) {
        closed(k, "given");
        return;
    }
    uint32_t most = p->n_step;
    for (int i = 0; i < 4 && sizes[p->goal][i]; i++) {
        uint32_t n = sizes[p->goal][i];
        /* where a step that was there before takes all of it, a longer one is the same */
        bool longer = n > p->n_step && (n > p->n_ctx || most >= p->n_prompt);
        if (n == p->n_step || longer) continue;
        put(k, "%u", n);
        most = HY_MAX(most, n);
    }
    if (k->n == 1) closed(k, "a prompt fits into one step");
}

static void speculation(const hy_tune_place *p, hy_tune_knob *k)
{
    put(k, "off");
    if (p->o->speculate) {
        snprintf(k->value[0], sizeof k->value[0], "%.20s", p->o->speculate);
        closed(k, "given");
    } else if (p->goal != HY_TUNE_THROUGHPUT) {
        closed(k, p->goal == HY_TUNE_TTFT ? "decides nothing before the first token" : "can only take memory");
    } else {
        put(k, "ngram");
        if (p->o->draft) put(k, "draft");
        if (p->bits >= 7) put(k, "self");
    }
}

static void pin(const hy_tune_place *p, hy_tune_knob *k)
{
    put(k, p->o->pin ? "true" : "false");
    if (p->o->pin) closed(k, "given");
    else if (p->top.n_thread_default < 2) closed(k, "one thread has nothing to stay apart from");
    else if (p->goal == HY_TUNE_MEMORY) closed(k, "takes no memory");
    else put(k, "true");
}

static void huge_pages(const hy_tune_place *p, hy_tune_knob *k)
{
    put(k, p->o->no_huge_pages ? "true" : "false");
    if (p->o->no_huge_pages) closed(k, "given");
    else if (!p->huge_pages) closed(k, "the system gives no huge pages");
    else put(k, "true");
}

static void weights(const hy_tune_place *p, hy_tune_knob *k)
{
    static const struct {
        const char *name;
        double from;
    } types[] = { { "q8_0", 9 }, { "q5_0", 6.2 }, { "iq4_nl", 5.2 }, { "q4_0", 5.2 } };
    put(k, "as in the file");
    if (p->o->weights) {
        snprintf(k->value[0], sizeof k->value[0], "%.20s", p->o->weights);
        closed(k, "given");
        return;
    }
    for (size_t i = 0; i < HY_COUNT(types) && p->loss; i++)
        if (p->bits > types[i].from) put(k, "%s", types[i].name);
    if (!p->loss) closed(k, "changes the text: only with --quality-loss");
    else if (k->n == 1) closed(k, "%.1f bits a weight are few already", p->bits);
}

static void kv(const hy_tune_place *p, hy_tune_knob *k)
{
    put(k, "%s", p->kv_type);
    if (p->o->kv_type && strcmp(p->o->kv_type, "auto") != 0) {
        closed(k, "given");
        return;
    }
    if (!p->loss) {
        closed(k, "changes the text: only with --quality-loss");
        return;
    }
    if (strcmp(p->kv_type, "f32") == 0) put(k, "f16");
    put(k, "q8");
    put(k, "q4");
}

void hy_tune_knobs(const hy_tune_place *p, hy_tune_knob out[HY_TUNE_K_COUNT])
{
    static const char *const names[HY_TUNE_K_COUNT] = {
        [HY_TUNE_K_WEIGHTS] = "weights",
        [HY_TUNE_K_KV] = "kv-type",
        [HY_TUNE_K_SPEC] = "speculate",
        [HY_TUNE_K_STEP] = "step",
        [HY_TUNE_K_HUGE] = "no-huge-pages",
        [HY_TUNE_K_THREADS] = "threads",
        [HY_TUNE_K_DECODE] = "threads-decode",
        [HY_TUNE_K_PIN] = "pin",
        [HY_TUNE_K_PAGE] = "page",
    };
    memset(out, 0, HY_TUNE_K_COUNT * sizeof *out);
    for (int i = 0; i < HY_TUNE_K_COUNT; i++) out[i].name = names[i];
    weights(p, &out[HY_TUNE_K_WEIGHTS]);
    kv(p, &out[HY_TUNE_K_KV]);
    threads(p, &out[HY_TUNE_K_THREADS], false);
    threads(p, &out[HY_TUNE_K_DECODE], true);
    step(p, &out[HY_TUNE_K_STEP]);
    speculation(p, &out[HY_TUNE_K_SPEC]);
    pin(p, &out[HY_TUNE_K_PIN]);
    huge_pages(p, &out[HY_TUNE_K_HUGE]);
    put(&out[HY_TUNE_K_PAGE], "16");
    closed(&out[HY_TUNE_K_PAGE], "fixed: kernels take 16 keys at a time, and the layout of a page is theirs");
}

/* ---- a point -------------------------------------------------------------------------------------------------- */

static uint32_t number(const hy_tune_knob *k, uint32_t i)
{
    return (uint32_t)strtoul(k->value[i], NULL, 10);
}

void hy_tune_apply(const hy_tune_place *p, const hy_tune_knob knob[HY_TUNE_K_COUNT], const hy_tune_point *at,
                   hy_options *o)
{
    const uint8_t *v = at->at;
    bool any = false;
    for (int i = 0; i < HY_TUNE_K_COUNT; i++) any |= v[i] != 0;
    if (any && !p->o->n_threads) { /* a value is compared with the numbers that the defaults took, not with others */
        o->n_threads = number(&knob[HY_TUNE_K_THREADS], v[HY_TUNE_K_THREADS]);
        if (!p->o->n_threads_decode) o->n_threads_decode = number(&knob[HY_TUNE_K_DECODE], v[HY_TUNE_K_DECODE]);
    }
    if (v[HY_TUNE_K_STEP]) o->n_step = number(&knob[HY_TUNE_K_STEP], v[HY_TUNE_K_STEP]);
    if (v[HY_TUNE_K_WEIGHTS]) {
        o->weights = knob[HY_TUNE_K_WEIGHTS].value[v[HY_TUNE_K_WEIGHTS]];
        o->weights_all = true;
    }
    if (v[HY_TUNE_K_KV]) o->kv_type = knob[HY_TUNE_K_KV].value[v[HY_TUNE_K_KV]];
    if (v[HY_TUNE_K_SPEC]) o->speculate = knob[HY_TUNE_K_SPEC].value[v[HY_TUNE_K_SPEC]];
    if (o->speculate && strcmp(o->speculate, "draft") != 0 && v[HY_TUNE_K_SPEC]) o->draft = NULL;
    if (v[HY_TUNE_K_PIN]) o->pin = true;
    if (v[HY_TUNE_K_HUGE]) o->no_huge_pages = true;
}

void hy_tune_lines(const hy_tune_place *p, const hy_tune_knob knob[HY_TUNE_K_COUNT], const hy_tune_point *at,
                   hy_buf *out)
{
    for (int i = 0; i < HY_TUNE_K_COUNT; i++) {
        const char *value = knob[i].value[at->at[i]];
        if (!at->at[i]) continue;
        hy_buf_printf(out, "%s = %s\n", knob[i].name, value);
        if (i == HY_TUNE_K_WEIGHTS) hy_buf_str(out, "weights-all = true\n");
        if (i != HY_TUNE_K_SPEC || strcmp(value, "draft") != 0) continue;
        char *real = realpath(p->o->draft, NULL);
        hy_buf_printf(out, "draft = %s\n", real ? real : p->o->draft);
        free(real); /* libc's */
    }
    /* one number of threads without the other would mean something else than was measured */
    if (!at->at[HY_TUNE_K_THREADS] != !at->at[HY_TUNE_K_DECODE] && !p->o->n_threads && !p->o->n_threads_decode) {
        int other = at->at[HY_TUNE_K_THREADS] ? HY_TUNE_K_DECODE : HY_TUNE_K_THREADS;
        hy_buf_printf(out, "%s = %s\n", knob[other].name, knob[other].value[0]);
    }
}
