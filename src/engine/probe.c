/* `hayate cpu`: the machine, what it can do, and what that means, as text or JSON. */
#include "measured.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct report {
    hy_topology top;
    hy_probe probe;
    char features[256];
    const char *isa;
    const char *can[8], *off[8];
    uint32_t n_can, n_off;
    bool cached;
} report;

static void put_bytes(hy_buf *b, uint64_t n)
{
    if (n == 0) hy_buf_str(b, "unknown");
    else if (n >= HY_GIB) hy_buf_printf(b, "%.1f GiB", (double)n / (double)HY_GIB);
    else if (n >= HY_MIB) hy_buf_printf(b, "%.0f MiB", (double)n / (double)HY_MIB);
    else hy_buf_printf(b, "%.0f KiB", (double)n / (double)HY_KIB);
}

static void put_machine(const report *r, hy_buf *b)
{
    const hy_topology *t = &r->top;
    hy_buf_printf(b, "%s\n", t->model);
    hy_buf_printf(b, "  processors  %u online; this process may use %u on %u core%s, %u NUMA node%s\n", t->n_cpu_online,
                  t->n_cpu_allowed, t->n_core_allowed, t->n_core_allowed == 1 ? "" : "s", t->n_numa,
                  t->n_numa == 1 ? "" : "s");
    if (t->quota_cpus > 0)
        hy_buf_printf(b, "  quota       %.2f processors (cgroup): work in the long run gets no more\n", t->quota_cpus);
    else
        hy_buf_str(b, "  quota       none\n");
    hy_buf_str(b, "  caches      L1 ");
    put_bytes(b, t->l1d_bytes);
    hy_buf_str(b, ", L2 ");
    put_bytes(b, t->l2_bytes);
    hy_buf_str(b, ", L3 ");
    put_bytes(b, t->l3_bytes);
    hy_buf_str(b, " each; memory ");
    put_bytes(b, t->mem_bytes);
    hy_buf_printf(b, "\n  features    %s\n  kernels     %s (of:", r->features[0] ? r->features : "none", r->isa);
    for (uint32_t i = 0; i < r->n_can; i++) hy_buf_printf(b, " %s", r->can[i]);
    hy_buf_str(b, ")\n");
    for (uint32_t i = 0; i < r->n_off; i++)
        hy_buf_printf(b, "              %s: %s: off; HAYATE_ISA=%s tries it\n", r->off[i], hy_kern_isa_off(r->off[i]), r->off[i]);
    hy_buf_printf(b, "  threads     %u unless told otherwise: cores allowed, no more than the quota\n",
                  t->n_thread_default);
}

static void put_rate(hy_buf *b, double v)
{
    if (v > 0) hy_buf_printf(b, " %9.1f", v / 1e9);
    else hy_buf_printf(b, " %9s", "-");
}

static void put_limits(const report *r, hy_buf *b)
{
    const hy_probe *p = &r->probe;
    hy_buf_str(b, "\nReading, GB/s\n  threads        L1        L2        L3    memory   (copy)   barrier\n");
    for (uint32_t i = 0; i < p->n_point; i++) {
        const hy_probe_point *t = &p->point[i];
        hy_buf_printf(b, "  %7u", t->n_thread);
        for (int k = 0; k < HY_PROBE_PLACES; k++) put_rate(b, t->read[k]);
        hy_buf_printf(b, " %8.1f", t->copy / 1e9);
        if (t->n_thread > 1) hy_buf_printf(b, " %6.2f us", t->barrier_ns / 1e3);
        hy_buf_char(b, '\n');
    }
    uint32_t n = p->point[p->n_point - 1].n_thread;
    hy_buf_printf(b, "\nArithmetic, billions of operations a second (a multiply-add is two)\n"
                  "              int8, 1 thread  %2u threads   f32, 1 thread  %2u threads\n", n, n);
    for (uint32_t i = 0; i < p->n_level; i++) {
        const hy_probe_level *l = &p->level[i];
        hy_buf_printf(b, "  %-10s %15.1f %12.1f %15.1f %11.1f%s\n", l->isa, l->int8_one / 1e9, l->int8_all / 1e9,
                      l->f32_one / 1e9, l->f32_all / 1e9, strcmp(l->isa, r->isa) == 0 ? "   <- in use" : "");
    }
}

static void put_meaning(const report *r, hy_buf *b)
{
    const hy_probe *p = &r->probe;
    const hy_probe_point *t = &p->point[p->n_point - 1];
    double mem = t->read[HY_PROBE_MEM], ops = hy_probe_ops(p, r->isa, true, t->n_thread);
    hy_buf_printf(b, "\nWhat it means: every token of an answer reads all weights once, so 1 GB of weights gives at most"
                  "\n%.0f tokens a second here.", mem / 1e9);
    if (ops > 0)
        hy_buf_printf(b, " A prompt is limited by arithmetic: a model of 1 billion weights takes at\nmost %.0f tokens"
                      " of it a second. Up to about %.0f sequences can share a pass over 4-bit weights before\n"
                      "arithmetic becomes the limit.", ops / 2e9, HY_MAX(1.0, ops / 2 / (mem / 0.5625)));
    hy_buf_str(b, "\n`hayate profile MODEL` shows how near a model comes.\n");
}

static void put_text(const report *r, hy_buf *b)
{
    put_machine(r, b);
    put_limits(r, b);
    put_meaning(r, b);
    if (r->probe.load > 0.5 * r->top.n_cpu_online)
        hy_buf_printf(b, "The machine was busy while this was measured (load %.1f): numbers may be too small; --fresh on a quiet one.\n",
                      r->probe.load);
    hy_buf_printf(b, r->cached ? "(measured before; --fresh measures again)\n" : "(measured in %.1f s)\n",
                  r->probe.seconds);
}

static json_t *machine_json(const report *r)
{
    const hy_topology *t = &r->top;
    json_t *can = json_array(), *off = json_array();
    for (uint32_t i = 0; i < r->n_can; i++) json_array_append_new(can, json_string(r->can[i]));
    for (uint32_t i = 0; i < r->n_off; i++) json_array_append_new(off, json_string(r->off[i]));
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:o, s:I, s:I, s:I, s:I, s:s, s:s, s:o, s:o, s:i, s:s}", "model", t->model,
                     "processors_online", (int)t->n_cpu_online, "processors_allowed", (int)t->n_cpu_allowed,
                     "cores_allowed", (int)t->n_core_allowed, "numa_nodes", (int)t->n_numa, "quota",
                     t->quota_cpus > 0 ? json_real(t->quota_cpus) : json_null(), "l1d_bytes", (json_int_t)t->l1d_bytes,
                     "l2_bytes", (json_int_t)t->l2_bytes, "l3_bytes", (json_int_t)t->l3_bytes, "memory_bytes",
                     (json_int_t)t->mem_bytes, "features", r->features, "isa", r->isa, "isas", can, "isas_off", off, "threads",
                     (int)t->n_thread_default, "version", HY_VERSION);
}

static hy_status put_json(const report *r, hy_buf *b, hy_err *err)
{
    json_t *all = json_pack("{s:o, s:o, s:b}", "machine", machine_json(r), "limits", hy_probe_json(&r->probe), "cached",
                            r->cached);
    char *text = all ? json_dumps(all, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(all);
    if (!text) return hy_fail_memory(err, "JSON", 4096);
    hy_buf_str(b, text);
    hy_buf_char(b, '\n');
    free(text);
    return HY_OK;
}

hy_status hy_tool_cpu(bool fresh, bool json, hy_progress_fn *progress, void *ctx, char **text, hy_err *err)
{
    report r = { 0 };
    hy_kernels kern;
    HY_TRY(hy_core_kernels(&kern, NULL, err));
    r.isa = kern.isa;
    hy_cpu_topology(&r.top);
    hy_cpu_features_str(hy_cpu_features(), r.features, sizeof r.features);
    r.n_can = hy_kern_isas(hy_cpu_features(), r.can);
    r.n_off = hy_kern_isas_off(hy_cpu_features(), r.off);
    if (fresh) hy_cache_drop_kind("threads"); /* chosen from older measurements */
    HY_TRY(hy_machine_probe(&r.probe, fresh, progress, ctx, &r.cached, err));
    hy_buf b = { 0 };
    hy_status s = HY_OK;
    if (json) s = put_json(&r, &b, err);
    else put_text(&r, &b);
    if (s == HY_OK) s = hy_buf_take(&b, text, err);
    hy_buf_free(&b);
    return s;
}
