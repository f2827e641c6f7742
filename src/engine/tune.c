/* `hayate tune`: parameters checked, bench and search put together, what came of it kept. */
#include "tune.h"
#include <stdlib.h>
#include <string.h>

static hy_status check(hy_tune_params *p, hy_tune_goal *goal, hy_err *err)
{
    int at = -1;
    for (int i = 0; i < HY_TUNE_GOALS; i++)
        if (p->goal && strcmp(p->goal, hy_tune_goal_name[i]) == 0) at = i;
    if (at < 0)
        return hy_fail(err, HY_E_ARG, "goal '%.40s' is not one of ttft, throughput, memory", p->goal ? p->goal : "");
    *goal = (hy_tune_goal)at;
    if (p->minutes == 0) p->minutes = 3;
    if (p->speed_loss == 0) p->speed_loss = 0.1;
    if (!p->n_prompt) p->n_prompt = 512;
    if (!p->n_gen) p->n_gen = 32;
    if (!p->n_stream) p->n_stream = 8;
    if (!p->text) {
        p->text = hy_tune_text;
        p->n_text = strlen(hy_tune_text);
    }
    if (!(p->minutes > 0 && p->minutes <= 1440))
        return hy_fail(err, HY_E_ARG, "minutes: %g is not in 0..1440", p->minutes);
    if (!(p->quality_loss >= 0 && p->quality_loss <= 1))
        return hy_fail(err, HY_E_ARG, "quality_loss: %g is not in 0..1", p->quality_loss);
    if (!(p->speed_loss >= 0 && p->speed_loss <= 0.9))
        return hy_fail(err, HY_E_ARG, "speed_loss: %g is not in 0..0.9", p->speed_loss);
    if (!(p->ttft_ms >= 0 && p->ttft_ms <= 3.6e6))
        return hy_fail(err, HY_E_ARG, "ttft_ms: %g is not in 0..3600000", p->ttft_ms);
    if (p->n_stream > 256) return hy_fail(err, HY_E_ARG, "%u streams are more than 256", p->n_stream);
    if (p->ttft_ms > 0 && *goal == HY_TUNE_TTFT)
        return hy_fail(err, HY_E_ARG,
                       "a limit of the time to the first token is for the goals throughput and memory; this goal "
                       "makes it small");
    return HY_OK;
}

/* ---- what is kept --------------------------------------------------------------------------------------------- */

/* Everything that decides the outcome: another wish is another search. */
static char *key_of(const hy_tune_params *p, const hy_options *o, const char *model_id)
{
    hy_topology top;
    hy_cpu_topology(&top);
    char *machine = hy_machine_key(&top);
    hy_buf b = { 0 };
    if (machine)
        hy_buf_printf(&b,
                      "%s; model %s; %s, quality %g, speed %g, ttft %g, prompt %u, gen %u, streams %u, text %016llx; "
                      "threads %u %u, ctx %u, seq %u, step %u, kv %s %d %llu, isa %s, weights %s %d, draft %s, spec "
                      "%s %u, %d%d%d%d%d",
                      machine, model_id, p->goal, p->quality_loss, p->speed_loss, p->ttft_ms, p->n_prompt, p->n_gen,
                      p->n_stream, (unsigned long long)hy_hash64(p->text, p->n_text, 0), o->n_threads,
                      o->n_threads_decode, o->n_ctx, o->n_seq, o->n_step, o->kv_type ? o->kv_type : "",
                      (int)o->kv_mode, (unsigned long long)o->kv_tokens, o->isa ? o->isa : "",
                      o->weights ? o->weights : "", o->weights_all, o->draft ? o->draft : "",
                      o->speculate ? o->speculate : "", o->spec_max, o->act_f32, o->no_fuse, o->pin, o->no_huge_pages,
                      o->packed_cache);
    hy_free(machine);
    if (machine && !b.failed) return b.data;
    hy_buf_free(&b);
    return NULL;
}

/* The config into the cache folder, and where it was asked for. The report then says where. */
static hy_status put_config(json_t *report, const hy_tune_params *p, const char *model_id, hy_err *err)
{
    hy_topology top;
    char name[80];
    hy_buf path = { 0 };
    const char *text = json_string_value(json_object_get(report, "config"));
    hy_cpu_topology(&top);
    bool kept = text && hy_tuned_name(model_id, &top, name) && hy_cache_file(name, &path) &&
                hy_write_file(path.data, text, strlen(text), NULL) == HY_OK;
    json_object_set_new(report, "path", kept ? json_string(path.data) : json_null());
    hy_buf_free(&path);
    if (text && p->out) HY_TRY(hy_write_file(p->out, text, strlen(text), err));
    json_object_set_new(report, "out", p->out ? json_string(p->out) : json_null());
    return text ? HY_OK : hy_fail_memory(err, "config", 1024);
}

/* ---- the search ------------------------------------------------------------------------------------------------ */

static void set_up(hy_tune_search *s, hy_tune_bench *b)
{
    const hy_tune_params *p = &b->params;
    bool memory = b->place.goal == HY_TUNE_MEMORY;
    s->field = hy_tune_bench_field(b);
    s->n_knob = HY_TUNE_K_COUNT;
    for (int i = 0; i < HY_TUNE_K_COUNT; i++) {
        s->n_value[i] = b->knob[i].closed[0] ? 1 : b->knob[i].n;
        s->lossy[i] = i == HY_TUNE_K_WEIGHTS || i == HY_TUNE_K_KV;
    }
    s->floor = memory ? 0.005 : 0.02; /* bytes do not flicker */
    s->loss_max = p->quality_loss;
    if (p->ttft_ms > 0) s->guard_max[0] = p->ttft_ms;
    else if (memory) s->guard_share[0] = 1 + p->speed_loss;
    if (memory) s->guard_share[1] = 1 + p->speed_loss;
}

static void put_model(json_t *report, const char *path, const char *id, const hy_tune_bench *b)
{
    hy_facts f = { 0 };
    if (b->n_open) hy_engine_facts(b->slot[0].e, &f);
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    size_t from = n;
    while (from > 0 && path[from - 1] != '/') from--;
    json_t *name = json_stringn(path + from, n - from), *title = json_string(f.name && f.name[0] ? f.name : "");
    json_object_set_new(report, "model",
                        json_pack("{s:s, s:o, s:o, s:s}", "id", id, "file", name ? name : json_string("?"), "name",
                                  title ? title : json_string(""), "family", f.family ? f.family : ""));
}

static hy_status fresh(const hy_options *o, const hy_tune_params *p, hy_tune_goal goal, const char *id, json_t **out,
                       hy_err *err)
{
    hy_tune_bench *b = HY_NEW(hy_tune_bench);
    hy_tune_search *s = HY_NEW(hy_tune_search);
    hy_status st = b && s ? HY_OK : hy_fail_memory(err, "search", sizeof *b + sizeof *s);
    *out = NULL;
    if (st == HY_OK) {
        b->base = *o;
        b->params = *p;
        b->place.goal = goal;
        st = hy_tune_bench_open(b, err);
    }
    if (st == HY_OK) {
        set_up(s, b);
        st = hy_tune_run(s, err);
    }
    if (st == HY_E_CANCELLED && b->timed_out)
        st = hy_fail(err, HY_E_LIMIT, "%g minutes are too short for this model on this machine", p->minutes);
    if (st == HY_OK && b->timed_out) {
        s->stopped = false;
        s->out_of_time = true;
    }
    if (st == HY_OK) {
        hy_buf lines = { 0 }, config = { 0 };
        *out = hy_tune_json(b, s);
        hy_tune_lines(&b->place, b->knob, &s->best, &lines);
        if (*out) put_model(*out, o->model, id, b);
        if (*out && !lines.failed) hy_tuned_write(*out, lines.data ? lines.data : "", &config);
        json_t *text = config.data && !config.failed ? json_string(config.data) : NULL;
        if (!*out || !text || json_object_set_new(*out, "config", text) != 0) st = hy_fail_memory(err, "report", 4096);
        hy_buf_free(&lines);
        hy_buf_free(&config);
    }
    if (b) hy_tune_bench_close(b);
    hy_free(b);
    hy_free(s);
    return st;
}

static hy_status print(json_t *report, bool json, char **out, hy_err *err)
{
    hy_buf b = { 0 };
    if (json) {
        char *text = json_dumps(report, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
        hy_buf_str(&b, text ? text : "");
        hy_buf_char(&b, '\n');
        b.failed |= !text;
        free(text); /* jansson's */
    } else {
        hy_tune_text_of(report, &b);
    }
    return hy_buf_take(&b, out, err);
}

/* A search that ran out of time is no answer for who gives more. */
static bool wants_more(const json_t *kept, const hy_tune_params *p)
{
    double had = json_number_value(json_object_get(json_object_get(kept, "asked"), "minutes"));
    return json_is_true(json_object_get(kept, "out_of_time")) && p->minutes > had;
}

hy_status hy_tool_tune(const hy_options *o, const hy_tune_params *params, char **report, hy_err *err)
{
    hy_tune_params p = *params;
    hy_tune_goal goal = HY_TUNE_TTFT;
    char id[17];
    *report = NULL;
    HY_TRY(check(&p, &goal, err));
    HY_TRY(hy_options_check(o, err));
    HY_TRY(hy_tool_model_id(o->model, id, err));
    char *key = key_of(&p, o, id);
    if (!key) return hy_fail_memory(err, "machine", 256);
    json_t *all = p.fresh ? NULL : hy_cache_get("tune", key);
    hy_status s = HY_OK;
    bool kept = json_string_value(json_object_get(all, "config")) && !wants_more(all, &p);
    if (!kept) {
        json_decref(all);
        s = fresh(o, &p, goal, id, &all, err);
        if (s == HY_OK && json_is_true(json_object_get(all, "complete"))) (void)hy_cache_put("tune", key, all);
    }
    if (s == HY_OK) {
        json_object_set_new(all, "kept", json_boolean(kept));
        s = put_config(all, &p, id, err);
    }
    if (s == HY_OK) s = print(all, p.json, report, err);
    json_decref(all);
    hy_free(key);
    return s;
}
