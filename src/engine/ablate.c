/* `hayate bench --ablation`: every technique on and off in one run. This file: the run's time, its groups one after
 * the other, and the JSON (ablate.h). What cannot be measured here is said in the notes and ends nothing. */
#include "ablate_impl.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>

#define MINUTES 8.0
#define PROMPT 256             /* tokens of the shape, fewer where a model is slow or small */
#define ANSWER 16
#define CTX 4096               /* longest sequence that is measured */
#define UNITS 850.0            /* all of it once takes about so many prompts */

/* ---- time ---------------------------------------------------------------------------------------- */

hy_status ab_tick(ab *a, hy_err *err)
{
    double now = (double)(hy_now_us() - a->us_begin) / 1e6, all = HY_MAX(a->minutes * 60, now + 1);
    if (!a->p->progress || !a->p->progress(a->p->progress_ctx, (uint64_t)now, (uint64_t)all)) return HY_OK;
    a->cancelled = true;
    return hy_fail(err, HY_E_CANCELLED, "the ablation was cancelled in '%s'", a->group ? a->group : "loading");
}

void ab_begin(ab *a, const char *group, double weight)
{
    uint64_t now = hy_now_us(), left = a->us_end > now ? a->us_end - now : 0;
    a->group = group;
    a->us_group_end = now + (uint64_t)((double)left * weight / HY_MAX(a->weight_left, weight));
    a->weight_left -= weight;
}

bool ab_more(ab *a, uint32_t i_round, uint64_t us_first, hy_err *err, hy_status *st)
{
    if (*st == HY_OK) *st = ab_tick(a, err);
    if (*st != HY_OK) return false;
    uint64_t now = hy_now_us();
    return i_round == 0 || (i_round < a->n_round && now + (now - us_first) / i_round <= a->us_group_end);
}

void ab_end(ab *a, uint32_t n_round)
{
    a->n_group++;
    a->n_short += n_round < AB_GOOD;
}

bool ab_time_for(const ab *a, double ms)
{
    return hy_now_us() + (uint64_t)(ms * 1e3) <= a->us_group_end;
}

void ab_note(ab *a, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)json_array_append_new(a->notes, json_string(text));
}

/* ---- what is said of machine and model ----------------------------------------------------------- */

static json_t *load_now(void)
{
    double load;
    return getloadavg(&load, 1) == 1 ? ab_number(load) : json_null();
}

/* "madvise" out of "always [madvise] never". */
static json_t *huge_pages(void)
{
    char text[128] = "";
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    if (f && !fgets(text, sizeof text, f)) text[0] = 0;
    if (f) fclose(f);
    char *from = strchr(text, '['), *to = from ? strchr(from, ']') : NULL;
    return to ? json_stringn(from + 1, (size_t)(to - from) - 1) : json_null();
}

static json_t *machine(const hy_facts *f)
{
    hy_topology top;
    hy_cpu_topology(&top);
    struct utsname u;
    char kernel[160] = "";
    if (uname(&u) == 0) snprintf(kernel, sizeof kernel, "%.40s %.100s", u.sysname, u.release);
    return json_pack("{s:s, s:i, s:i, s:i, s:o, s:I, s:s, s:i, s:i, s:s, s:o, s:o}", "model", top.model, "processors",
                     (int)top.n_cpu_online, "processors_allowed", (int)top.n_cpu_allowed, "cores_allowed",
                     (int)top.n_core_allowed, "quota", top.quota_cpus > 0 ? json_real(top.quota_cpus) : json_null(),
                     "memory_bytes", (json_int_t)top.mem_bytes, "isa", f->isa, "threads", (int)f->n_threads,
                     "threads_decode", (int)f->n_threads_decode, "kernel", kernel, "huge_pages", huge_pages(),
                     "load_before", load_now());
}

/* A name out of a file or a path: what is no UTF-8 is repaired. */
static json_t *name_json(const char *s)
{
    hy_buf b = { 0 };
    hy_utf8_repair(s, strlen(s), &b);
    json_t *j = json_stringn(b.data ? b.data : "", b.len);
    hy_buf_free(&b);
    return j;
}

static hy_status text_of(const json_t *o, char **out, hy_err *err)
{
    char *text = json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    *out = text ? hy_strdup(text) : NULL;
    free(text); /* jansson's */
    return *out ? HY_OK : hy_fail_memory(err, "ablation", 65536);
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* The type that most weights of the file have; all of them counted in *n. */
static const char *main_type(const hy_core *c, uint64_t *n)
{
    uint64_t of[HY_Q_COUNT] = { 0 };
    int best = 0;
    *n = 0;
    for (uint64_t i = 0; i < c->file->n_tensor; i++) {
        const hy_tensor *t = &c->file->tensor[i];
        if (!t->known) continue;
        uint64_t k = t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
        *n += k;
        of[t->qtype] += k;
        if (of[t->qtype] > of[best]) best = t->qtype;
    }
    return hy_quant((hy_qtype)best)->name;
}

static json_t *model(const ab *a, const hy_core *c, const hy_facts *f)
{
    uint64_t n;
    const char *type = main_type(c, &n);
    return json_pack("{s:o, s:o, s:s, s:i, s:i, s:i, s:I, s:s, s:I}", "file",
                     name_json(last_part(a->p->options->model)), "name", name_json(f->name), "family", f->family,
                     "n_layer", (int)f->n_layer, "n_embd", (int)f->n_embd, "n_vocab", (int)f->n_vocab, "parameters",
                     (json_int_t)n, "weights", type, "file_bytes", (json_int_t)c->file->bytes);
}

/* ---- what is kept ---------------------------------------------------------------------------------- */

static char *kept_key(const char *path)
{
    hy_topology top;
    hy_cpu_topology(&top);
    char *machine_key = hy_machine_key(&top);
    struct stat st;
    hy_buf b = { 0 };
    if (machine_key && stat(path, &st) == 0)
        hy_buf_printf(&b, "%s; ablation of %s, %" PRIu64 " bytes", machine_key, last_part(path), (uint64_t)st.st_size);
    hy_free(machine_key);
    if (b.data && !b.failed) return b.data;
    hy_buf_free(&b);
    return NULL;
}

json_t *hy_ablation_kept(const char *model_path)
{
    char *key = kept_key(model_path);
    json_t *o = key ? hy_cache_get("ablation", key) : NULL;
    hy_free(key);
    return o;
}

hy_status hy_tool_ablation_kept(const char *model_path, char **json, hy_err *err)
{
    *json = NULL;
    json_t *o = hy_ablation_kept(model_path);
    if (!o) return HY_OK;
    hy_status s = text_of(o, json, err);
    json_decref(o);
    return s;
}

static void keep(const ab *a)
{
    char *key = kept_key(a->p->options->model);
    if (key) (void)hy_cache_put("ablation", key, a->root);
    hy_free(key);
}

/* ---- the run -------------------------------------------------------------------------------------- */

typedef struct group {
    const char *name, *technique;
    double weight;             /* of the time */
    hy_status (*run)(ab *a, hy_err *err);
} group;

static const group groups[AB_GROUPS] = {
    { "KV cache", "kv_cache", 1.2, ab_group_kv },
    { "attention", "attention", 0.8, ab_group_attention },
    { "fusion", "fusion", 0.6, ab_group_fusion },
    { "fusion, GPT-2", "fusion", 1.0, ab_group_gpt2 },
    { "weights", "weights", 2.0, ab_group_weights },
    { "activations", "activations", 0.8, ab_group_activations },
    { "KV types", "kv_type", 1.2, ab_group_kv_type },
    { "plain baseline", "plain", 1.5, ab_group_plain },
    { "threads", "threads", 0.5, ab_group_threads },
    { "huge pages", "huge_pages", 0.5, ab_group_huge },
    { "paged KV", "paged", 1.2, ab_group_paged },
    { "prefix cache", "prefix_cache", 0.5, ab_group_prefix },
    { "chunked prefill", "chunked_prefill", 0.6, ab_group_chunked },
    { "batching", "batching", 1.0, ab_group_batching },
    { "speculation", "speculation", 2.5, ab_group_speculation },
};

/* Which groups were asked for: names of techniques, separated by commas. */
static hy_status choose_groups(ab *a, hy_err *err)
{
    const char *only = a->p->only;
    a->n_round = only ? AB_ROUNDS_FEW : AB_ROUNDS;
    for (size_t i = 0; i < AB_GROUPS; i++) a->wanted[i] = !only;
    for (const char *s = only; s; s = strchr(s, ',') ? strchr(s, ',') + 1 : NULL) {
        size_t n = strcspn(s, ",");
        bool known = false;
        for (size_t i = 0; i < AB_GROUPS; i++) {
            if (strlen(groups[i].technique) != n || strncmp(groups[i].technique, s, n) != 0) continue;
            a->wanted[i] = known = true;
        }
        if (!known)
            return hy_fail(err, HY_E_ARG,
                           "only: '%.*s' is none of kv_cache, attention, fusion, weights, activations, kv_type, plain, "
                           "threads, huge_pages, paged, prefix_cache, chunked_prefill, batching, speculation",
                           (int)HY_MIN(n, 40u), s);
    }
    for (size_t i = 0; i < AB_GROUPS; i++) {
        a->weight_all += groups[i].weight;
        a->weight_left += a->wanted[i] ? groups[i].weight : 0;
    }
    return HY_OK;
}

/* How long the shape is: as much as the time allows, and the model's context. */
static hy_status choose_shape(ab *a, hy_err *err)
{
    hy_session *s;
    double ttft, itl;
    uint32_t few = HY_MIN(32u, a->n_ctx / 4);
    a->n_prompt = few;
    a->n_gen = HY_MAX(2u, HY_MIN((uint32_t)ANSWER, a->n_ctx / 8));
    HY_TRY(ab_variant(a, &a->best, HY_MIN(a->n_ctx, (uint32_t)PROMPT + ANSWER), 0, 1, &s, err));
    hy_status st = ab_shape(s, &a->best, few, 2, &ttft, &itl, err);
    if (st == HY_OK) st = ab_shape(s, &a->best, few, 2, &ttft, &itl, err); /* the first warmed up */
    hy_session_close(s);
    if (st != HY_OK) return st;
    double ms = a->minutes * 60e3 * a->weight_all / a->weight_left;
    while (a->n_prompt * 2 <= PROMPT && a->n_prompt * 3 + a->n_gen < a->n_ctx &&
           ttft * a->n_prompt * 2 / few * UNITS < ms)
        a->n_prompt *= 2;
    a->unit_ms = ttft * a->n_prompt / few;
    return HY_OK;
}

static hy_status prepare(ab *a, hy_err *err)
{
    ab_model *m;
    HY_TRY(ab_tick(a, err));
    HY_TRY(ab_model_get(a, NULL, false, &m, err));
    hy_core *c = hy_session_core(m->s);
    hy_facts f;
    hy_session_facts(m->s, &f);
    a->n_vocab = f.n_vocab;
    a->n_ctx = HY_MIN(f.n_ctx, (uint32_t)CTX);
    a->has_tok = c->tok != NULL;
    a->base.n_threads = f.n_threads; /* chosen once; all that is opened later runs alike */
    a->base.n_threads_decode = f.n_threads_decode;
    a->best = (ab_config){ .weights = c->model->all_float ? "q8_0" : NULL };
    a->reference = (ab_config){ .weights = "f32", .act_f32 = true, .kv_type = "f32" };
    a->plain = a->reference;
    a->plain.no_fuse = a->plain.materialised = a->plain.kv_off = true;
    uint64_t n;
    const char *type = main_type(c, &n);
    a->best_weights = a->best.weights ? a->best.weights : type;
    HY_TRY(choose_shape(a, err));
    char stamp[32];
    time_t now = time(NULL);
    struct tm tm;
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    a->root = json_pack("{s:s, s:s, s:o, s:o, s:o}", "hayate", HY_VERSION, "time", stamp, "machine", machine(&f),
                        "model", model(a, c, &f), "draft",
                        a->p->options->draft ? name_json(last_part(a->p->options->draft)) : json_null());
    return a->root ? HY_OK : hy_fail_memory(err, "ablation", 4096);
}

static hy_status run_groups(ab *a, hy_err *err)
{
    for (size_t i = 0; i < AB_GROUPS; i++) {
        hy_err why = { 0 };
        if (!a->wanted[i]) continue;
        ab_begin(a, groups[i].name, groups[i].weight);
        hy_status st = groups[i].run(a, &why);
        if (a->cancelled) {
            *err = why;
            return HY_E_CANCELLED;
        }
        if (st != HY_OK) ab_note(a, "%s: %s", groups[i].name, why.msg);
    }
    return HY_OK;
}

static hy_status finish(ab *a, bool complete, char **json, hy_err *err)
{
    char best[200], about[200];
    snprintf(best, sizeof best,
             "%s weights, int8 activations, F16 keys and values in pages, fused, flash attention, %u and %u threads",
             a->best_weights, a->base.n_threads, a->base.n_threads_decode);
    if (a->n_short)
        ab_note(a, "%u of %u measurements were repeated fewer than %d times: the time was short (--minutes)",
                a->n_short, a->n_group, AB_GOOD);
    snprintf(about, sizeof about,
             "the file's weights as F32 (widened where they are quantised), F32 activations, keys and values");
    json_t *settings =
        json_pack("{s:f, s:s?, s:i, s:i, s:i, s:s, s:s, s:s, s:O}", "minutes", a->minutes, "only", a->p->only, "prompt",
                  (int)a->n_prompt, "answer", (int)a->n_gen, "text_bytes", (int)a->n_text, "best", best, "plain",
                  "no KV cache, F32 weights and activations, primitive operators, materialised scores, one "
                  "sequence",
                  "reference", about, "notes", a->notes);
    json_object_set_new(a->root, "settings", settings);
    json_object_set(a->root, "rows", a->rows);
    json_object_set(a->root, "curves", a->curves);
    json_object_set(a->root, "claims", a->claims);
    json_object_set_new(a->root, "complete", json_boolean(complete));
    json_object_set_new(a->root, "seconds", ab_number((double)(hy_now_us() - a->us_begin) / 1e6));
    json_object_set_new(json_object_get(a->root, "machine"), "load_after", load_now());
    if (complete && !a->p->only) keep(a);
    return text_of(a->root, json, err);
}

hy_status hy_tool_ablation(const hy_ablation_params *p, char **json, hy_err *err)
{
    *json = NULL;
    if (!(p->minutes >= 0 && p->minutes <= 24 * 60))
        return hy_fail(err, HY_E_ARG, "minutes: %g is not in 0..1440", p->minutes);
    HY_TRY(hy_options_check(p->options, err));
    ab a = { .p = p, .minutes = p->minutes > 0 ? p->minutes : MINUTES, .us_begin = hy_now_us() };
    a.us_end = a.us_begin + (uint64_t)(a.minutes * 60e6);
    hy_options_init(&a.base);
    a.base.model = p->options->model;
    a.base.isa = p->options->isa;
    a.base.pin = p->options->pin;
    a.base.n_threads = p->options->n_threads;
    a.base.n_threads_decode = p->options->n_threads_decode;
    a.text = p->text ? p->text : ab_prose;
    a.n_text = p->text ? p->n_text : strlen(ab_prose);
    a.rows = json_array();
    a.curves = json_object();
    a.claims = json_array();
    a.notes = json_array();
    hy_status st = choose_groups(&a, err);
    if (st == HY_OK) st = prepare(&a, err);
    if (st == HY_OK) st = run_groups(&a, err);
    if (a.root && (st == HY_OK || a.cancelled)) {
        hy_err later;
        hy_status written = finish(&a, st == HY_OK, json, st == HY_OK ? err : &later);
        if (st == HY_OK) st = written;
    }
    ab_models_close(&a, true);
    json_decref(a.root);
    json_decref(a.rows);
    json_decref(a.curves);
    json_decref(a.claims);
    json_decref(a.notes);
    return st;
}
