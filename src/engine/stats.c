/* Numbers for monitors. Every cell is read on its own: sums of them may be a step apart. */
#include "engine.h"
#include <string.h>

void hy_engine_counters(const hy_engine *e, hy_counters *out)
{
    *out = (hy_counters){
        .n_step = HY_GET(e->c_step), .n_token = HY_GET(e->c_token), .n_request = HY_GET(e->c_request),
        .n_cancelled = HY_GET(e->c_cancelled), .n_paused = HY_GET(e->c_paused),
        .n_running = HY_GET(e->c_running), .n_waiting = HY_GET(e->n_waiting_all),
        .page_used = HY_GET(e->c_page_used), .page_all = HY_GET(e->c_page_all),
        .slot_used = HY_GET(e->c_slot_used), .alloc_in_step = HY_GET(e->c_alloc),
    };
}

static void read_hists(const hy_engine *e, hy_stats *out)
{
    hy_hist *to[HY_H_COUNT] = { &out->ttft, &out->itl, &out->e2e, &out->queue, &out->prefill, &out->decode,
                                &out->step, &out->step_tokens, &out->prompt_tokens, &out->output_tokens };
    for (int i = 0; i < HY_H_COUNT; i++) hy_hist_read(&e->hist[i], to[i]);
}

static void read_ops(const hy_engine *e, hy_stats *out)
{
    for (uint32_t i = 0; i < HY_OP_COUNT && i < HY_STATS_OPS; i++) {
        uint64_t ns = HY_GET(e->op_ns[i]);
        if (ns == 0) continue;
        out->op[out->n_op].name = hy_op_name((hy_op)i);
        out->op[out->n_op++].seconds = (double)ns / 1e9;
    }
}

void hy_engine_stats(const hy_engine *e, hy_stats *out)
{
    memset(out, 0, sizeof *out);
    hy_engine_counters(e, &out->counters);
    read_hists(e, out);
    read_ops(e, out);
    out->n_prompt_tok = HY_GET(e->c_prompt_tok);
    out->n_output_tok = HY_GET(e->c_output_tok);
    for (uint32_t i = 0; i < HY_COUNT(out->n_finished); i++) out->n_finished[i] = HY_GET(e->c_finished[i]);
    out->n_refused_busy = HY_GET(e->c_refused_busy);
    out->n_refused_limit = HY_GET(e->c_refused_limit);
    out->n_refused_arg = HY_GET(e->c_refused_arg);
    out->n_after_cancel = HY_GET(e->c_after_cancel);
    out->n_paused_now = HY_GET(e->c_paused_now);
    out->n_running_prefill = HY_GET(e->c_run_prefill);
    out->n_running_decode = HY_GET(e->c_run_decode);
    out->cache_query_tok = HY_GET(e->c_query);
    out->cache_hit_tok = HY_GET(e->c_hit);
    out->cache_evicted_tok = HY_GET(e->c_evicted);
    out->page_cached = HY_GET(e->c_page_cached);
    out->n_cow = HY_GET(e->c_cow);
    out->cascade_tok_saved = HY_GET(e->c_cascade);
    out->swap_out_bytes = HY_GET(e->c_swap_out);
    out->swap_in_bytes = HY_GET(e->c_swap_in);
    out->itl_target_ms = e->core->itl_ms;
    out->ttft_target_ms = e->core->ttft_ms;
    out->cost_fixed_ms = HY_GET(e->cost[0]);
    out->cost_token_ms = HY_GET(e->cost[1]);
    out->cost_key_ms = HY_GET(e->cost[2]);
    out->cost_error = HY_GET(e->cost[3]);
    hy_drafts_stats(e->drafts, out);
    hy_ledger(e, out);
}

uint32_t hy_engine_page_map(const hy_engine *e, uint8_t *out, uint32_t cap)
{
    uint32_t n = hy_kv_group_of(e->core->kv, 0)->n_page;
    for (uint32_t i = 0; i < n && i < cap; i++) out[i] = HY_GET(e->page_map[i]);
    return n;
}
