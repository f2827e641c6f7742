/* Prometheus text: one table row a metric. Source: the text exposition format, version 0.0.4. */
#include "serve/metrics.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

uint64_t hy_rss_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    unsigned long long all = 0, resident = 0;
    int n = f ? fscanf(f, "%llu %llu", &all, &resident) : 0;
    if (f) fclose(f);
    return n == 2 ? resident * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* Everything that a row may read. */
typedef struct view {
    const hy_stats *s;
    const hy_facts *f;
    const hy_http_counts *h;
} view;

typedef struct number {
    const char *name, *type, *help;
    double (*value)(const view *v);
} number;

#define VALUE(name, expression)                                                                                    \
    static double name(const view *v)                                                                              \
    {                                                                                                              \
        return (double)(expression);                                                                               \
    }

static double share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

VALUE(running, v->s->counters.n_running)
VALUE(running_prefill, v->s->n_running_prefill)
VALUE(running_decode, v->s->n_running_decode)
VALUE(waiting, v->s->counters.n_waiting)
VALUE(paused_now, v->s->n_paused_now)
VALUE(kv_usage, share(v->s->counters.page_used - HY_MIN(v->s->page_cached, v->s->counters.page_used), v->s->counters.page_all))
VALUE(page_all, v->s->counters.page_all)
VALUE(page_used, v->s->counters.page_used)
VALUE(page_cached, v->s->page_cached)
VALUE(slot_used, v->s->counters.slot_used)
VALUE(prompt_tok, v->s->n_prompt_tok)
VALUE(output_tok, v->s->n_output_tok)
VALUE(cache_query, v->s->cache_query_tok)
VALUE(cache_hit, v->s->cache_hit_tok)
VALUE(cache_evicted, v->s->cache_evicted_tok)
VALUE(preempted, v->s->counters.n_paused)
VALUE(cow, v->s->n_cow)
VALUE(cascade, v->s->cascade_tok_saved)
VALUE(swap_out, v->s->swap_out_bytes)
VALUE(swap_in, v->s->swap_in_bytes)
VALUE(cancelled, v->s->counters.n_cancelled)
VALUE(after_cancel, v->s->n_after_cancel)
VALUE(steps, v->s->counters.n_step)
VALUE(alloc_in_step, v->s->counters.alloc_in_step)
VALUE(drafts, v->s->spec_drafted[0])
VALUE(drafted, v->s->n_drafted)
VALUE(accepted, v->s->n_accepted)
VALUE(spec_gain, v->s->spec_gain)
VALUE(spec_speedup, v->s->spec_speedup)
VALUE(itl_target, v->s->itl_target_ms / 1e3)
VALUE(ttft_target, v->s->ttft_target_ms / 1e3)
VALUE(cost_error, v->s->cost_error)
VALUE(resident, hy_rss_bytes())
VALUE(connections, v->h->n_connection)
VALUE(exchanges, v->h->n_exchange)
VALUE(workers_busy, v->h->n_worker_busy)
VALUE(unauthorised, v->h->n_unauthorised)
VALUE(predict_wait, v->h->predict_wait_s)

static const number numbers[] = {
    { "vllm:num_requests_running", "gauge", "Requests in the running batch.", running },
    { "vllm:num_requests_waiting", "gauge", "Requests that wait for their first step.", waiting },
    { "vllm:kv_cache_usage_perc", "gauge", "Share of the KV pages that running requests hold; 1 is all.", kv_usage },
    { "vllm:gpu_cache_usage_perc", "gauge", "The same under its older name.", kv_usage },
    { "vllm:prompt_tokens_total", "counter", "Prompt tokens taken in, cached ones included.", prompt_tok },
    { "vllm:generation_tokens_total", "counter", "Tokens given out.", output_tok },
    { "vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked up in the prefix cache.", cache_query },
    { "vllm:prefix_cache_hits_total", "counter", "Prompt tokens found there.", cache_hit },
    { "vllm:num_preemptions_total", "counter", "Times a request was paused for want of pages.", preempted },
    { "vllm:spec_decode_num_drafts_total", "counter", "Drafts: times that tokens of a request were drafted.", drafts },
    { "vllm:spec_decode_num_draft_tokens_total", "counter", "Tokens drafted by speculation.", drafted },
    { "vllm:spec_decode_num_accepted_tokens_total", "counter", "Drafted tokens that were accepted.", accepted },
    { "hayate_speculation_gain_ratio", "gauge", "Tokens a second that the last drafts promised, over plain decoding's.", spec_gain },
    { "hayate_speculation_speedup_ratio", "gauge", "Speed of requests that may draft over plain decoding's since the start, estimated.",
      spec_speedup },
    { "hayate_requests_prefilling", "gauge", "Running requests whose prompt is not computed yet.", running_prefill },
    { "hayate_requests_decoding", "gauge", "Running requests that give out tokens.", running_decode },
    { "hayate_requests_paused", "gauge", "Requests that are paused for want of pages.", paused_now },
    { "hayate_kv_pages", "gauge", "KV pages of the pool.", page_all },
    { "hayate_kv_pages_used", "gauge", "KV pages in use, by requests or by the prefix cache.", page_used },
    { "hayate_kv_pages_cached", "gauge", "KV pages that only the prefix cache holds.", page_cached },
    { "hayate_kv_slots_used", "gauge", "Tokens stored in the pages of running requests.", slot_used },
    { "hayate_prefix_cache_evicted_tokens_total", "counter", "Cached tokens given up for room.", cache_evicted },
    { "hayate_copied_pages_total", "counter", "Shared pages copied before a write.", cow },
    { "hayate_cascade_tokens_total", "counter", "Keys not read again because requests shared their page.", cascade },
    { "hayate_swap_out_bytes_total", "counter", "Bytes of paused requests written to the swap file.", swap_out },
    { "hayate_swap_in_bytes_total", "counter", "Bytes read back from the swap file.", swap_in },
    { "hayate_requests_cancelled_total", "counter", "Requests cancelled by their clients.", cancelled },
    { "hayate_tokens_after_cancel_total", "counter", "Tokens computed in the step that a cancel came into.", after_cancel },
    { "hayate_steps_total", "counter", "Steps of the engine.", steps },
    { "hayate_allocations_in_steps_total", "counter", "Memory allocations inside steps: stays 0.", alloc_in_step },
    { "hayate_itl_target_seconds", "gauge", "The inter-token latency aimed at.", itl_target },
    { "hayate_ttft_target_seconds", "gauge", "The time to first token aimed at.", ttft_target },
    { "hayate_predicted_wait_seconds", "gauge", "Predicted time to the first token of a request that comes now.", predict_wait },
    { "hayate_cost_model_error_ratio", "gauge", "Mean error of the predicted step time.", cost_error },
    { "hayate_http_connections", "gauge", "Open connections.", connections },
    { "hayate_http_exchanges", "gauge", "Requests whose answer is not finished.", exchanges },
    { "hayate_http_workers_busy", "gauge", "Workers that run a route.", workers_busy },
    { "hayate_http_unauthorised_total", "counter", "Requests without a valid key.", unauthorised },
    { "process_resident_memory_bytes", "gauge", "Resident memory of the process.", resident },
};

typedef struct hist_row {
    const char *name, *help;
    size_t offset;             /* in hy_stats */
} hist_row;
#define HIST(field) offsetof(hy_stats, field)

static const hist_row hists[] = {
    { "vllm:time_to_first_token_seconds", "From submit to the first token.", HIST(ttft) },
    { "vllm:inter_token_latency_seconds", "Between two tokens of an answer.", HIST(itl) },
    { "vllm:time_per_output_token_seconds", "The same under its older name.", HIST(itl) },
    { "vllm:e2e_request_latency_seconds", "From submit to the end.", HIST(e2e) },
    { "vllm:request_queue_time_seconds", "From submit to the first step.", HIST(queue) },
    { "vllm:request_prefill_time_seconds", "From the first step to the first token.", HIST(prefill) },
    { "vllm:request_decode_time_seconds", "From the first token to the last.", HIST(decode) },
    { "vllm:request_prompt_tokens", "Prompt tokens of finished requests.", HIST(prompt_tokens) },
    { "vllm:request_generation_tokens", "Output tokens of finished requests.", HIST(output_tokens) },
    { "vllm:iteration_tokens_total", "Tokens of a step.", HIST(step_tokens) },
    { "hayate_step_seconds", "Time of a step.", HIST(step) },
};

/* In the order of hy_finish; NULL: not a reason. */
static const char *const reasons[] = { NULL, "stop", "length", "abort", "error", "deadline" };

/* ---- Prometheus -------------------------------------------------------------------------------- */

/* \, " and newline are escaped in label values. */
static void put_label(hy_buf *out, const char *model)
{
    hy_buf_str(out, "model_name=\"");
    for (const char *c = model; *c; c++) {
        if (*c == '\n') hy_buf_str(out, "\\n");
        else if (*c == '\\' || *c == '"') hy_buf_printf(out, "\\%c", *c);
        else hy_buf_char(out, *c);
    }
    hy_buf_str(out, "\",engine=\"0\"");
}

static void put_head(hy_buf *out, const char *name, const char *type, const char *help)
{
    hy_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_hist(hy_buf *out, const hist_row *row, const hy_hist *h, const char *label)
{
    uint64_t n = 0;
    put_head(out, row->name, "histogram", row->help);
    for (uint32_t i = 0; i < h->n_bound; i++) {
        n += h->count[i];
        hy_buf_printf(out, "%s_bucket{%s,le=\"%.9g\"} %" PRIu64 "\n", row->name, label, h->bound[i], n);
    }
    n += h->count[h->n_bound];
    hy_buf_printf(out, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", row->name, label, n);
    hy_buf_printf(out, "%s_sum{%s} %.9g\n%s_count{%s} %" PRIu64 "\n", row->name, label, h->sum, row->name, label, n);
}

static void put_reasons(hy_buf *out, const view *v, const char *label)
{
    put_head(out, "vllm:request_success_total", "counter", "Finished requests by reason.");
    for (size_t i = 0; i < HY_COUNT(reasons); i++)
        if (reasons[i])
            hy_buf_printf(out, "vllm:request_success_total{%s,finished_reason=\"%s\"} %" PRIu64 "\n", label, reasons[i],
                          v->s->n_finished[i]);
    put_head(out, "hayate_requests_refused_total", "counter", "Requests refused at the door by reason.");
    const struct { const char *why; uint64_t n; } refused[] = {
        { "busy", v->s->n_refused_busy }, { "too_large", v->s->n_refused_limit }, { "invalid", v->s->n_refused_arg },
        { "key_limit", v->h->n_limited },
    };
    for (size_t i = 0; i < HY_COUNT(refused); i++)
        hy_buf_printf(out, "hayate_requests_refused_total{%s,reason=\"%s\"} %" PRIu64 "\n", label, refused[i].why,
                      refused[i].n);
    put_head(out, "hayate_http_responses_total", "counter", "Answers by class of status.");
    for (uint32_t i = 1; i < HY_COUNT(v->h->n_request); i++)
        hy_buf_printf(out, "hayate_http_responses_total{%s,status=\"%uxx\"} %" PRIu64 "\n", label, i, v->h->n_request[i]);
}

/* By place in the draft. */
static void put_drafts(hy_buf *out, const view *v, const char *label)
{
    static const char *const names[] = { "hayate_spec_decode_num_draft_tokens_per_pos_total",
                                         "vllm:spec_decode_num_accepted_tokens_per_pos_total" };
    static const char *const help[] = { "Tokens drafted by their place in the draft.",
                                        "Drafted tokens that were accepted by their place in the draft." };
    if (v->s->n_drafted == 0) return;
    for (int k = 0; k < 2; k++) {
        const uint64_t *n = k ? v->s->spec_accepted : v->s->spec_drafted;
        put_head(out, names[k], "counter", help[k]);
        for (size_t i = 0; i < HY_COUNT(v->s->spec_drafted) && v->s->spec_drafted[i]; i++)
            hy_buf_printf(out, "%s{%s,position=\"%zu\"} %" PRIu64 "\n", names[k], label, i, n[i]);
    }
}

static void put_lists(hy_buf *out, const view *v, const char *label)
{
    if (v->s->n_op)
        put_head(out, "hayate_operator_seconds_total", "counter", "Time of steps by operator.");
    for (uint32_t i = 0; i < v->s->n_op; i++)
        hy_buf_printf(out, "hayate_operator_seconds_total{%s,operator=\"%s\"} %.9g\n", label, v->s->op[i].name,
                      v->s->op[i].seconds);
    put_head(out, "hayate_memory_bytes", "gauge", "Memory by purpose.");
    for (uint32_t i = 0; i < v->s->n_ledger; i++)
        hy_buf_printf(out, "hayate_memory_bytes{%s,purpose=\"%s\"} %" PRIu64 "\n", label, v->s->ledger[i].name,
                      v->s->ledger[i].bytes);
    put_head(out, "vllm:cache_config_info", "gauge", "Shape of the KV cache.");
    hy_buf_printf(out, "vllm:cache_config_info{%s,block_size=\"16\",num_gpu_blocks=\"%" PRIu64 "\",cache_dtype=\"%s\"} 1\n",
                  label, v->s->counters.page_all, v->f->kv_type);
    put_head(out, "hayate_build_info", "gauge", "Version and kernels.");
    hy_buf_printf(out, "hayate_build_info{version=\"%s\",isa=\"%s\",threads=\"%u\"} 1\n", HY_VERSION, v->f->isa, v->f->n_threads);
}

void hy_metrics_text(const hy_stats *s, const hy_facts *f, const hy_http_counts *h, const char *model, hy_buf *out)
{
    view v = { s, f, h };
    hy_buf label = { 0 };
    put_label(&label, model);
    if (label.failed) {
        out->failed = true;
        hy_buf_free(&label);
        return;
    }
    for (size_t i = 0; i < HY_COUNT(numbers); i++) {
        put_head(out, numbers[i].name, numbers[i].type, numbers[i].help);
        hy_buf_printf(out, "%s{%s} %.15g\n", numbers[i].name, label.data, numbers[i].value(&v));
    }
    for (size_t i = 0; i < HY_COUNT(hists); i++)
        put_hist(out, &hists[i], (const hy_hist *)((const char *)s + hists[i].offset), label.data);
    put_reasons(out, &v, label.data);
    put_drafts(out, &v, label.data);
    put_lists(out, &v, label.data);
    hy_buf_free(&label);
}

/* ---- JSON -------------------------------------------------------------------------------------- */

static json_t *hist_json(const hy_hist *h)
{
    json_t *bound = json_array(), *count = json_array();
    for (uint32_t i = 0; i < h->n_bound; i++) json_array_append_new(bound, json_real(h->bound[i]));
    for (uint32_t i = 0; i <= h->n_bound; i++) json_array_append_new(count, json_integer((json_int_t)h->count[i]));
    return json_pack("{s:o,s:o,s:f}", "bound", bound, "count", count, "sum", h->sum);
}

json_t *hy_metrics_json(const hy_stats *s, const hy_facts *f, const hy_http_counts *h, const char *model)
{
    view v = { s, f, h };
    json_t *num = json_object(), *hist = json_object(), *finished = json_object(), *op = json_object(), *mem = json_object();
    for (size_t i = 0; i < HY_COUNT(numbers); i++)
        json_object_set_new(num, numbers[i].name, json_real(numbers[i].value(&v)));
    for (size_t i = 0; i < HY_COUNT(hists); i++)
        json_object_set_new(hist, hists[i].name, hist_json((const hy_hist *)((const char *)s + hists[i].offset)));
    for (size_t i = 0; i < HY_COUNT(reasons); i++)
        if (reasons[i]) json_object_set_new(finished, reasons[i], json_integer((json_int_t)s->n_finished[i]));
    for (uint32_t i = 0; i < s->n_op; i++) json_object_set_new(op, s->op[i].name, json_real(s->op[i].seconds));
    for (uint32_t i = 0; i < s->n_ledger; i++)
        json_object_set_new(mem, s->ledger[i].name, json_integer((json_int_t)s->ledger[i].bytes));
    json_t *drafted = json_array(), *accepted = json_array(), *who = json_array();
    for (size_t i = 0; i < HY_COUNT(s->spec_drafted) && s->spec_drafted[i]; i++) {
        json_array_append_new(drafted, json_integer((json_int_t)s->spec_drafted[i]));
        json_array_append_new(accepted, json_integer((json_int_t)s->spec_accepted[i]));
    }
    for (size_t i = 0; i < HY_COUNT(s->speculate) && s->speculate[i]; i++)
        json_array_append_new(who, json_string(s->speculate[i]));
    json_t *spec = json_pack("{s:o,s:o,s:o}", "proposers", who, "drafted", drafted, "accepted", accepted);
    json_t *refused = json_pack("{s:I,s:I,s:I,s:I}", "busy", (json_int_t)s->n_refused_busy, "too_large",
                                (json_int_t)s->n_refused_limit, "invalid", (json_int_t)s->n_refused_arg, "key_limit",
                                (json_int_t)h->n_limited);
    json_t *about = json_pack("{s:s,s:s,s:s,s:s,s:i,s:i,s:i,s:i,s:s}", "id", model, "family", f->family, "isa", f->isa,
                              "kv_type", f->kv_type, "n_ctx", (int)f->n_ctx, "n_threads", (int)f->n_threads, "n_seq",
                              (int)f->n_seq, "n_step", (int)f->n_step, "version", HY_VERSION);
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:f}", "speculation", spec, "model", about, "number", num, "hist", hist, "finished", finished,
                     "refused", refused, "operator", op, "memory", mem, "time", (double)hy_clock_us() / 1e6);
}
