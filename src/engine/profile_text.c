/* The profile as text for people and as JSON for programs, both with the sentences of profile_prose.c. */
#include "ablate.h"
#include "profile.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 100              /* of the text's lines */

static double percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

/* ---- text --------------------------------------------------------------------------------------- */

/* Paragraphs, broken at blanks; those of a list ("1. ") hang. */
static void put_wrapped(const char *text, uint32_t indent, hy_buf *b)
{
    while (*text) {
        size_t left = strcspn(text, "\n"), hang = text[0] >= '1' && text[0] <= '9' && text[1] == '.' ? 3 : 0, in = indent;
        while (left) {
            size_t room = WIDTH - in, n = HY_MIN(left, room);
            if (n < left)
                while (n && text[n] != ' ') n--;
            if (n == 0) n = HY_MIN(left, room); /* one long word */
            hy_buf_printf(b, "%*s%.*s\n", (int)in, "", (int)n, text);
            text += n;
            left -= n;
            while (left && *text == ' ') text++, left--;
            in = indent + hang;
        }
        text += *text == '\n';
    }
}

static void put_row(const hy_prof_phase *f, const char *name, double ns, hy_buf *b)
{
    hy_buf_printf(b, "  %-28s %9.2f %7.1f %%", name, ns / 1e6, percent(ns, f->wall_ns));
}

static void put_op(const hy_prof_phase *f, const hy_prof_op *o, hy_buf *b)
{
    double ns = (double)HY_MAX(o->t.ns, 1u);
    put_row(f, hy_op_name(o->t.op), (double)o->t.ns, b);
    hy_buf_printf(b, " %8.1f %8.1f", (double)o->t.bytes / ns, (double)(o->t.ops_int8 + o->t.ops_f32) / ns);
    if (o->bound == HY_BOUND_NONE) hy_buf_str(b, "  -\n");
    else hy_buf_printf(b, "  %-10s %5.0f %%\n", hy_bound_name(o->bound), percent(o->best_ns, ns));
}

static void put_phase(const hy_profile *p, const hy_prof_phase *f, hy_buf *b)
{
    hy_buf prose = { 0 };
    hy_buf_printf(b, "\n%s: %llu tokens", f->name, (unsigned long long)f->n_tok);
    if (p->rows > 1) hy_buf_printf(b, " of each of %u sequences", p->rows);
    if (p->depth) hy_buf_printf(b, " after %u in the cache", p->depth);
    hy_buf_printf(b, ", %llu step%s, %u thread%s: %.1f ms, %.1f tokens/s\n", (unsigned long long)f->n_step,
                  f->n_step == 1 ? "" : "s", f->n_thread, f->n_thread == 1 ? "" : "s", f->wall_ns / 1e6, hy_prof_speed(p, f));
    hy_prof_prose(p, f, &prose);
    if (prose.failed) b->failed = true;
    else put_wrapped(prose.data, 2, b);
    hy_buf_free(&prose);
    hy_buf_str(b, "\n  operator                            ms    time       GB/s    Gop/s  limit      of limit\n");
    for (uint32_t i = 0; i < f->n_op; i++) put_op(f, &f->op[i], b);
    put_row(f, "waiting at barriers", f->wait_ns, b);
    hy_buf_char(b, '\n');
    put_row(f, "outside the operators", f->outside_ns, b);
    hy_buf_char(b, '\n');
}

static void put_load(const hy_profile *p, hy_buf *b)
{
    static const char *const names[HY_PROF_SIZES] = { "1", "2", "to 4", "to 8", "to 16", "to 32", "to 64", "more" };
    const hy_prof_load *l = p->load;
    hy_buf prose = { 0 };
    hy_prof_prose_load(p, &prose);
    if (prose.failed) b->failed = true;
    else put_wrapped(prose.data, 0, b);
    hy_buf_free(&prose);
    if (l->n_step == 0) return;
    hy_buf_str(b, "Requests in a step:");
    for (uint32_t i = 0; i < HY_PROF_SIZES; i++)
        if (l->by_row[i])
            hy_buf_printf(b, " %s: %.0f %% of the steps;", names[i], percent((double)l->by_row[i], (double)l->n_step));
    hy_buf_printf(b, " tokens in a step: %.1f in the mean, %u at most.\n", (double)l->sum_tok / (double)l->n_step, l->most_tok);
}

void hy_prof_text(const hy_profile *p, hy_buf *b)
{
    const hy_core *c = p->core;
    uint64_t all = 0;
    if (p->load) put_load(p, b);
    for (uint32_t i = 0; i < p->n_phase; i++) put_phase(p, &p->phase[i], b);
    for (int t = 0; t < HY_Q_COUNT; t++) all += p->type_bytes[t];
    hy_buf_printf(b, "\n%s, kernels %s, KV %s, %.1f MB of matrices a token:", c->model->family->name, c->model->kern.isa,
                  hy_kv_type_name(c->kv_type), (double)all / 1e6);
    for (int t = 0; t < HY_Q_COUNT; t++)
        if (p->type_bytes[t])
            hy_buf_printf(b, " %s %.0f %%", hy_quant((hy_qtype)t)->name, percent((double)p->type_bytes[t], (double)all));
    hy_buf_str(b, "\n\"limit\" is what this machine was measured to do (hayate cpu); \"of limit\" how near the operator comes.\n");
}

/* ---- JSON -------------------------------------------------------------------------------------- */

static json_t *op_json(const hy_prof_phase *f, const hy_prof_op *o)
{
    double ns = (double)o->t.ns;
    return json_pack("{s:s, s:I, s:f, s:f, s:I, s:I, s:I, s:I, s:f, s:s, s:f}", "op", hy_op_name(o->t.op), "n",
                     (json_int_t)o->t.n, "ms", ns / 1e6, "share", f->wall_ns > 0 ? ns / f->wall_ns : 0.0, "bytes",
                     (json_int_t)o->t.bytes, "memory_bytes", (json_int_t)o->t.mem_bytes, "ops_int8",
                     (json_int_t)o->t.ops_int8, "ops_f32", (json_int_t)o->t.ops_f32, "best_ms", o->best_ns / 1e6, "limit",
                     hy_bound_name(o->bound), "of_limit", ns > 0 ? o->best_ns / ns : 0.0);
}

static json_t *advice_json(const hy_profile *p, const hy_prof_phase *f)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < p->n_advice; i++) {
        const hy_advice *a = &p->advice[i];
        if (a->phase != f) continue;
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:f, s:b, s:b, s:s}", "technique", a->id, "what", a->what, "why",
                                              a->why, "gain", a->gain, "throughput", a->throughput, "sometimes", a->sometimes,
                                              "source", a->measured ? "measured" : "estimate"));
    }
    return list;
}

static json_t *prose_json(const hy_profile *p, const hy_prof_phase *f)
{
    hy_buf b = { 0 };
    if (f) hy_prof_prose(p, f, &b);
    else hy_prof_prose_load(p, &b);
    json_t *text = b.failed || !b.data ? NULL : json_stringn(b.data, b.len);
    hy_buf_free(&b);
    return text;
}

static json_t *phase_json(const hy_profile *p, const hy_prof_phase *f)
{
    static const char *const necks[] = { "memory", "arithmetic", "waiting", "operator", "unknown" };
    json_t *ops = json_array();
    for (uint32_t i = 0; i < f->n_op; i++) json_array_append_new(ops, op_json(f, &f->op[i]));
    return json_pack("{s:s, s:I, s:I, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:s, s:s, s:o, s:o, s:o}", "phase", f->name,
                     "tokens", (json_int_t)f->n_tok, "steps", (json_int_t)f->n_step, "threads", (int)f->n_thread, "rows",
                     f->rows, "ms", f->wall_ns / 1e6, "tokens_per_second", hy_prof_speed(p, f), "waiting_ms", f->wait_ns / 1e6,
                     "outside_ms", f->outside_ns / 1e6, "of_limit", f->wall_ns > 0 ? f->best_ns / f->wall_ns : 0.0,
                     "memory_rate", f->mem_rate, "in_cache", f->in_cache, "bottleneck", necks[f->neck], "bottleneck_op",
                     f->n_op ? hy_op_name(f->op[f->i_neck].t.op) : "", "operators", ops, "advice", advice_json(p, f), "prose",
                     prose_json(p, f));
}

static json_t *load_json(const hy_profile *p)
{
    const hy_prof_load *l = p->load;
    double busy = l->all_ns - l->idle_ns, most = HY_MAX(busy - l->run_ns - l->after_ns - l->draft_ns, 0);
    json_t *sizes = json_array();
    for (uint32_t i = 0; i < HY_PROF_SIZES; i++) {
        json_t *up_to = i + 1 < HY_PROF_SIZES ? json_integer(1 << i) : json_null();
        json_array_append_new(sizes, json_pack("{s:o, s:I}", "up_to", up_to, "steps", (json_int_t)l->by_row[i]));
    }
    double steps = (double)HY_MAX(l->n_step, 1u);
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:f, s:i, s:f, s:i, s:o, s:o}", "seconds",
                     l->all_ns / 1e9, "idle_seconds", l->idle_ns / 1e9, "model_seconds", l->run_ns / 1e9, "sampling_seconds",
                     l->after_ns / 1e9, "drafting_seconds", l->draft_ns / 1e9, "scheduling_seconds", most / 1e9, "steps",
                     (json_int_t)l->n_step, "output_tokens", (json_int_t)l->n_out, "prompt_tokens", (json_int_t)l->n_prompt,
                     "drafted_tokens", (json_int_t)l->n_drafted, "accepted_tokens", (json_int_t)l->n_accepted,
                     "requests_a_step", (double)l->sum_row / steps, "most_requests", (int)l->most_row, "tokens_a_step",
                     (double)l->sum_tok / steps, "most_tokens", (int)l->most_tok, "steps_by_requests", sizes, "prose",
                     prose_json(p, NULL));
}

/* What only a running load has, and the operator that takes most. */
static bool add_load(const hy_profile *p, json_t *all)
{
    hy_op op;
    double share;
    json_t *largest = hy_prof_largest(p, &op, &share)
                          ? json_pack("{s:s, s:f}", "operator", hy_op_name(op), "share", share) : json_null();
    bool good = json_object_set_new(all, "largest", largest) == 0;
    if (p->when[0]) good = json_object_set_new(all, "ablation", json_string(p->when)) == 0 && good;
    return p->load ? json_object_set_new(all, "load", load_json(p)) == 0 && good : good;
}

hy_status hy_prof_json(const hy_profile *p, hy_buf *out, hy_err *err)
{
    const hy_core *c = p->core;
    json_t *phases = json_array(), *types = json_object();
    for (uint32_t i = 0; i < p->n_phase; i++) json_array_append_new(phases, phase_json(p, &p->phase[i]));
    for (int t = 0; t < HY_Q_COUNT; t++)
        if (p->type_bytes[t])
            json_object_set_new(types, hy_quant((hy_qtype)t)->name, json_integer((json_int_t)p->type_bytes[t]));
    json_t *all = json_pack("{s:s, s:s, s:s, s:i, s:i, s:o, s:o, s:o}", "family", c->model->family->name, "isa",
                            c->model->kern.isa, "kv_type", hy_kv_type_name(c->kv_type), "rows", (int)p->rows, "depth",
                            (int)p->depth, "weight_bytes", types, "limits", p->probe.n_point ? hy_probe_json(&p->probe)
                                                                                             : json_null(),
                            "phases", phases);
    char *text = all && add_load(p, all) ? json_dumps(all, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(all);
    if (!text) return hy_fail_memory(err, "JSON", 4096);
    hy_buf_str(out, text);
    hy_buf_char(out, '\n');
    free(text);
    return HY_OK;
}

/* ---- both ---------------------------------------------------------------------------------------- */

hy_status hy_prof_report(hy_profile *p, hy_profile_form form, char **text, hy_err *err)
{
    hy_buf b = { 0 };
    if (!p->judged) {
        hy_prof_weights(p);
        for (uint32_t i = 0; i < p->n_phase; i++) hy_prof_roof(p, &p->phase[i]);
        json_t *ablation = hy_ablation_kept(p->core->file->path);
        hy_prof_advise(p, ablation);
        json_decref(ablation);
        p->judged = true;
    }
    hy_status s = HY_OK;
    if (form == HY_PROFILE_JSON) s = hy_prof_json(p, &b, err);
    else hy_prof_text(p, &b);
    if (s == HY_OK) s = hy_buf_take(&b, text, err);
    hy_buf_free(&b);
    return s;
}
