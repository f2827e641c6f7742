/* Measuring points of `hayate tune`: an engine for each, opened when it is first asked for and kept as long as there is
 * room, so that two points are compared in turns without being loaded again. */
#include "tune.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_US 150000       /* a sample of short prompts repeats them for so long */
#define SAMPLE_MOST 7
#define WARM_TOKENS 64
#define SAMPLES 60             /* that a search should have time for */
#define TOO_LONG 1.25          /* times the time: what runs then is stopped */
#define PPL_WINDOWS 8

static bool over(hy_tune_bench *b)
{
    double s = (double)(hy_now_us() - b->us_start) / 1e6, all = b->params.minutes * 60;
    if (b->params.progress && b->params.progress(b->params.progress_ctx, (uint64_t)HY_MIN(s, all), (uint64_t)all))
        b->cancelled = true;
    if (!b->cancelled && s > TOO_LONG * all + 5) b->timed_out = true;
    return b->cancelled || b->timed_out;
}

/* hy_options.progress: loading shows nothing of its own, but it can be stopped. */
static bool while_loading(void *ctx, uint64_t done, uint64_t all)
{
    return over(ctx);
}

static hy_status stopped(hy_err *err)
{
    return hy_fail(err, HY_E_CANCELLED, "stopped");
}

/* ---- requests ------------------------------------------------------------------------------------------------ */

static void params_of(hy_params *p, const int32_t *ids, uint32_t n, uint32_t n_out)
{
    hy_params_init(p);
    p->tokens = ids;
    p->n_tokens = n;
    p->max_tokens = n_out;
    p->temperature = 0;
    p->ignore_eos = true;
    p->no_cache = true;
}

static hy_status wait(hy_tune_bench *b, hy_request *r, hy_usage *out, hy_err *err)
{
    hy_event ev;
    for (;;) {
        HY_TRY(hy_poll(r, 100, &ev, err));
        if (ev.kind == HY_EV_DONE) break;
        if (ev.kind == HY_EV_NONE && over(b)) hy_cancel(r);
    }
    *out = ev.usage;
    return ev.finish == HY_FINISH_CANCELLED || over(b) ? stopped(err) : HY_OK;
}

static hy_status one_prompt(hy_tune_bench *b, hy_engine *e, uint32_t n, double *ttft_ms, hy_err *err)
{
    hy_params p;
    hy_request *r;
    hy_usage u = { 0 };
    params_of(&p, b->text_ids, n, 1);
    HY_TRY(hy_submit(e, &p, &r, err));
    hy_status s = wait(b, r, &u, err);
    hy_release(r);
    *ttft_ms = u.ttft_ms;
    return s;
}

/* Median of as many prompts as fit into the time of a sample, at least one. */
static hy_status first_token(hy_tune_bench *b, hy_engine *e, double *ttft_ms, hy_err *err)
{
    double v[SAMPLE_MOST];
    uint32_t n = 0;
    uint64_t t0 = hy_now_us();
    while (n < SAMPLE_MOST && (n == 0 || hy_now_us() - t0 < SAMPLE_US))
        HY_TRY(one_prompt(b, e, b->params.n_prompt, &v[n++], err));
    *ttft_ms = hy_median(v, n);
    return HY_OK;
}

/* All streams at once, a prompt of each kind after the other. */
static hy_status together(hy_tune_bench *b, hy_engine *e, double *s_token, double *ttft_ms, hy_err *err)
{
    uint32_t n = b->params.n_stream, n_begun = 0;
    hy_request **r = HY_NEW_ARRAY(hy_request *, n);
    double *ttft = HY_NEW_ARRAY(double, n);
    hy_status s = r && ttft ? HY_OK : hy_fail_memory(err, "streams", n * sizeof *r);
    uint64_t t0 = hy_now_us(), n_out = 0;
    for (; s == HY_OK && n_begun < n; n_begun++) {
        hy_params p;
        uint32_t kind = n_begun % HY_COUNT(hy_tune_task), n_ctx = b->place.n_ctx;
        uint32_t n_in = (uint32_t)HY_MIN(b->n_task_ids[kind], n_ctx > b->params.n_gen ? n_ctx - b->params.n_gen : 1);
        n_in = HY_MIN(n_in, b->task_most);
        params_of(&p, b->task_ids[kind] + b->n_task_ids[kind] - n_in, n_in, b->params.n_gen);
        s = hy_submit(e, &p, &r[n_begun], err);
        if (s != HY_OK) break;
    }
    for (uint32_t i = 0; i < n_begun; i++) {
        hy_usage u = { 0 };
        if (s == HY_OK) s = wait(b, r[i], &u, err);
        ttft[i] = u.ttft_ms;
        n_out += u.n_output;
    }
    double took = (double)(hy_now_us() - t0) / 1e6;
    for (uint32_t i = 0; i < n_begun; i++) hy_release(r[i]);
    if (s == HY_OK) {
        *s_token = took / (double)HY_MAX(n_out, 1u);
        *ttft_ms = hy_median(ttft, n);
    }
    hy_free(r);
    hy_free(ttft);
    return s;
}

/* What an engine holds: all but the program's own files and the heap's slack, which two engines share. */
static double memory_of(const hy_engine *e)
{
    hy_stats st;
    double sum = 0;
    hy_engine_stats(e, &st);
    for (uint32_t i = 0; i < st.n_ledger; i++)
        if (strcmp(st.ledger[i].name, "files") != 0 && strcmp(st.ledger[i].name, "other") != 0)
            sum += (double)st.ledger[i].bytes;
    return sum;
}

/* ---- engines --------------------------------------------------------------------------------------------------- */

static void close_oldest(hy_tune_bench *b)
{
    uint32_t at = 0;
    for (uint32_t i = 1; i < b->n_open; i++)
        if (b->slot[i].last_used < b->slot[at].last_used) at = i;
    hy_close(b->slot[at].e);
    b->slot[at] = b->slot[--b->n_open];
}

static void options_of(const hy_tune_bench *b, const hy_tune_point *p, hy_options *o)
{
    *o = b->base;
    hy_tune_apply(&b->place, b->knob, p, o);
    o->progress = while_loading;
    o->progress_ctx = (void *)(uintptr_t)b;
}

/* Pages come in, the KV pool fills, drafts are tried. */
static hy_status warm(hy_tune_bench *b, hy_engine *e, hy_err *err)
{
    double ttft, token;
    HY_TRY(one_prompt(b, e, HY_MIN((uint32_t)WARM_TOKENS, b->params.n_prompt), &ttft, err));
    return b->place.goal == HY_TUNE_TTFT ? HY_OK : together(b, e, &token, &ttft, err);
}

static hy_status engine_of(hy_tune_bench *b, const hy_tune_point *p, hy_engine **out, hy_err *err)
{
    for (uint32_t i = 0; i < b->n_open; i++) {
        if (memcmp(b->slot[i].point.at, p->at, sizeof p->at) != 0) continue;
        b->slot[i].last_used = ++b->n_use;
        *out = b->slot[i].e;
        return HY_OK;
    }
    while (b->n_open >= b->n_slot) close_oldest(b);
    hy_options o;
    options_of(b, p, &o);
    hy_tune_engine *s = &b->slot[b->n_open];
    HY_TRY(hy_open(&s->e, &o, err));
    s->point = *p;
    s->last_used = ++b->n_use;
    b->n_open++;
    *out = s->e;
    return warm(b, s->e, err);
}

static hy_status measure(void *ctx, const hy_tune_point *p, hy_tune_sample *out, hy_err *err)
{
    hy_tune_bench *b = ctx;
    hy_engine *e;
    *out = (hy_tune_sample){ 0 };
    HY_TRY(engine_of(b, p, &e, err));
    if (b->place.goal == HY_TUNE_TTFT) return first_token(b, e, &out->cost, err);
    HY_TRY(together(b, e, &out->guard[1], &out->guard[0], err));
    out->cost = out->guard[1];
    if (b->place.goal == HY_TUNE_THROUGHPUT) return HY_OK;
    HY_TRY(first_token(b, e, &out->guard[0], err));
    out->cost = memory_of(e);
    return HY_OK;
}

/* ---- quality ---------------------------------------------------------------------------------------------------- */

static hy_status perplexity(hy_tune_bench *b, const hy_tune_point *p, double *out, hy_err *err)
{
    hy_options o;
    options_of(b, p, &o);
    if (b->n_slot < 2) while (b->n_open) close_oldest(b);
    uint32_t window = (uint32_t)HY_MIN(HY_MIN(512u, b->place.n_ctx), b->n_text_ids);
    hy_ppl_params pp = { .text = b->params.text, .n_text = b->params.n_text, .window = window, .n_window = PPL_WINDOWS,
                         .stride = HY_MAX(1u, window / 2), .progress = while_loading, .progress_ctx = b };
    hy_ppl_result r;
    hy_session *s;
    o.n_ctx = b->place.n_ctx;
    o.n_seq = 1;
    o.kv_tokens = 0;
    o.speculate = o.draft = NULL;
    HY_TRY(hy_session_open(&s, &o, err));
    hy_status st = hy_session_perplexity(s, &pp, &r, err);
    hy_session_close(s);
    if (st != HY_OK) return st;
    b->n_scored = r.n_scored;
    *out = r.ppl;
    return HY_OK;
}

/* The whole point against the defaults: losses add up. */
static hy_status loss(void *ctx, const hy_tune_point *p, double *out, hy_err *err)
{
    hy_tune_bench *b = ctx;
    const hy_tune_point none = { { 0 } };
    double ppl;
    if (!(b->ppl_base > 0)) HY_TRY(perplexity(b, &none, &b->ppl_base, err));
    HY_TRY(perplexity(b, p, &ppl, err));
    *out = isfinite(ppl) ? ppl / b->ppl_base - 1 : INFINITY;
    return HY_OK;
}

static double spent(void *ctx)
{
    hy_tune_bench *b = ctx;
    return (double)(hy_now_us() - b->us_start) / 1e6 / (b->params.minutes * 60);
}

static void trying(void *ctx, uint32_t knob, uint32_t value)
{
    hy_tune_bench *b = ctx;
    char what[80];
    snprintf(what, sizeof what, "%s %s", b->knob[knob].name, b->knob[knob].value[value]);
    if (b->params.trying) b->params.trying(b->params.progress_ctx, what);
}

hy_tune_field hy_tune_bench_field(hy_tune_bench *b)
{
    return (hy_tune_field){ .ctx = b, .measure = measure, .loss = loss, .spent = spent, .trying = trying };
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

/* Bytes that programs may still take; 0: not known. */
static uint64_t memory_left(void)
{
    FILE *f = fopen("/proc/meminfo", "re");
    char line[128];
    unsigned long long kib = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1) break;
    if (f) fclose(f);
    return (uint64_t)kib * 1024;
}

static bool huge_pages(void)
{
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    char line[128] = "";
    bool got = f && fgets(line, sizeof line, f);
    if (f) fclose(f);
    return got && !strstr(line, "[never]");
}

/* Mean bits of a weight in the matrices of a file, and the bytes of all. */
static hy_status weigh(hy_tune_bench *b, uint64_t *bytes, hy_err *err)
{
    hy_file *f;
    double bits = 0, n = 0;
    HY_TRY(hy_file_open(&f, b->base.model, err));
    for (uint64_t i = 0; i < f->n_tensor; i++) {
        const hy_tensor *t = &f->tensor[i];
        if (!t->known || t->n_dims < 2) continue;
        double weights = (double)t->dim[0] * (double)t->dim[1] * (double)t->dim[2] * (double)t->dim[3];
        const hy_qtraits *q = hy_quant(t->qtype);
        bits += weights * 8 * q->block_bytes / q->block;
        n += weights;
    }
    *bytes = f->bytes;
    b->place.bits = n > 0 ? bits / n : 0;
    hy_file_close(f);
    return HY_OK;
}

static hy_status prompts(hy_tune_bench *b, const hy_engine *e, hy_err *err)
{
    hy_tune_params *p = &b->params;
    HY_TRY(hy_engine_tokenize(e, p->text, p->n_text, true, false, &b->text_ids, &b->n_text_ids, err));
    if (b->n_text_ids < 2)
        return hy_fail(err, HY_E_ARG, "the text has %zu tokens; at least 2 are needed", b->n_text_ids);
    uint32_t n = (uint32_t)HY_MIN((uint64_t)p->n_prompt, b->place.n_ctx - 1);
    int32_t *ids = hy_realloc_array(b->text_ids, HY_MAX((size_t)n, b->n_text_ids), sizeof *ids);
    if (!ids) return hy_fail_memory(err, "prompt", n * sizeof *ids);
    b->text_ids = ids;
    for (size_t i = b->n_text_ids; i < n; i++)
        ids[i] = ids[1 + (i - 1) % (b->n_text_ids - 1)]; /* the first may be BOS */
    p->n_prompt = n;
    b->task_most = 0;
    for (size_t i = 0; i < HY_COUNT(hy_tune_task); i++) {
        HY_TRY(hy_engine_tokenize(e, hy_tune_task[i], strlen(hy_tune_task[i]), true, false, &b->task_ids[i],
                                  &b->n_task_ids[i], err));
        b->task_most = HY_MAX(b->task_most, (uint32_t)b->n_task_ids[i]);
    }
    return HY_OK;
}

static void learn(hy_tune_bench *b, const hy_engine *e)
{
    hy_facts f;
    hy_engine_facts(e, &f);
    hy_tune_place *p = &b->place;
    p->n_threads = f.n_threads;
    p->n_threads_decode = f.n_threads_decode;
    p->n_step = f.n_step;
    p->n_ctx = f.n_ctx;
    p->kv_type = f.kv_type; /* a literal of the kv types' table */
}

/* Prompts and answers so short that there is time for enough samples. Memory is no matter of a prompt's length; the
 * time to the first token is what its goal is about, and stays. */
static hy_status shorten(hy_tune_bench *b, hy_engine *e, hy_err *err)
{
    double token, ttft, most = b->params.minutes * 60 / SAMPLES;
    if (b->place.goal == HY_TUNE_TTFT) return HY_OK;
    HY_TRY(together(b, e, &token, &ttft, err));
    double share = most / (token * b->params.n_gen * b->params.n_stream);
    if (share < 1) {
        b->params.n_gen = HY_MAX(HY_MIN(16u, b->params.n_gen), (uint32_t)(b->params.n_gen * share));
        b->task_most = HY_MAX(24u, (uint32_t)(b->task_most * share));
    }
    if (b->place.goal != HY_TUNE_MEMORY) return HY_OK;
    HY_TRY(one_prompt(b, e, b->params.n_prompt, &ttft, err));
    if (ttft > 1e3 * most)
        b->params.n_prompt = HY_MAX(HY_MIN(96u, b->params.n_prompt),
                                    (uint32_t)(b->params.n_prompt * 1e3 * most / ttft));
    return HY_OK;
}

hy_status hy_tune_bench_open(hy_tune_bench *b, hy_err *err)
{
    uint64_t bytes, left = memory_left();
    hy_engine *e;
    const hy_tune_point none = { { 0 } };
    hy_tune_place *p = &b->place;
    b->us_start = hy_now_us();
    hy_cpu_topology(&p->top);
    p->o = &b->base;
    p->loss = b->params.quality_loss > 0;
    p->huge_pages = huge_pages();
    HY_TRY(weigh(b, &bytes, err));
    uint64_t each = bytes + bytes / 3 + 256 * HY_MIB;
    b->n_slot = left ? (uint32_t)HY_MAX(1, HY_MIN(left / 10 * 8 / each, HY_TUNE_ENGINES)) : 1;
    if (!b->base.n_seq) b->base.n_seq = HY_MAX(b->params.n_stream, 8u);
    hy_options o;
    options_of(b, &none, &o);
    HY_TRY(hy_open(&b->slot[0].e, &o, err));
    e = b->slot[0].e;
    b->n_open = 1; /* of point 0: the defaults */
    learn(b, e);
    if (p->n_ctx < 4) return hy_fail(err, HY_E_ARG, "a context of %u tokens is too short to measure with", p->n_ctx);
    b->params.n_gen = HY_MIN(b->params.n_gen, HY_MAX(1u, p->n_ctx / 2));
    HY_TRY(prompts(b, e, err));
    size_t all = b->n_task_ids[0] * b->params.n_stream;
    p->n_prompt = p->goal == HY_TUNE_TTFT ? b->params.n_prompt : (uint32_t)HY_MIN(all, 1u << 20);
    hy_tune_knobs(p, b->knob);
    HY_TRY(one_prompt(b, e, HY_MIN((uint32_t)WARM_TOKENS, b->params.n_prompt), &(double){ 0 }, err));
    return shorten(b, e, err);
}

void hy_tune_bench_close(hy_tune_bench *b)
{
    while (b->n_open) close_oldest(b);
    hy_memory_free(b->text_ids);
    for (size_t i = 0; i < HY_COUNT(hy_tune_task); i++) hy_memory_free(b->task_ids[i]);
}
