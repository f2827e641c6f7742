#!/usr/bin/env python3
"""Writes deploy/grafana/hayate.json, the Grafana dashboard, from the list of panels below.

usage: make_dashboard.py > hayate.json"""
import json

INSTANCE = '{instance=~"$instance"}'


def quantile(q, name):
    return 'histogram_quantile(%s, sum by (le) (rate(%s_bucket%s[$__rate_interval])))' % (q, name, INSTANCE)


def rate(name, by="instance"):
    return 'sum by (%s) (rate(%s%s[$__rate_interval]))' % (by, name, INSTANCE)


def gauge(name):
    return 'sum by (instance) (%s%s)' % (name, INSTANCE)


def share(limit, name="vllm:time_to_first_token_seconds"):
    below = 'sum(rate(%s_bucket{instance=~"$instance",le="%s"}[$__rate_interval]))' % (name, limit)
    return "%s / sum(rate(%s_count%s[$__rate_interval]))" % (below, name, INSTANCE)


def per(part, whole, by="instance"):
    """One counter's growth over another's."""
    return "%s / %s" % (rate(part, by), rate(whole, by))


def mean(name):
    return "sum(rate(%s_sum%s[$__rate_interval])) / sum(rate(%s_count%s[$__rate_interval]))" % (name, INSTANCE, name, INSTANCE)


def quantiles(name, *qs):
    return [("p%g" % (100 * q), quantile(q, name)) for q in qs]


TTFT, ITL, SPEC = "vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds", "vllm:spec_decode_num_"
# A title alone begins a row. Else: title, unit, width of 24, [(legend, expression)]
PANELS = [
    "What users feel",
    ("Time to first token: share within the classes", "percentunit", 12,
     [("≤ 200 ms, excellent", share("0.2")), ("≤ 500 ms, acceptable", share("0.5")), ("≤ 1 s", share("1"))]),
    ("Time to first token", "s", 12, quantiles(TTFT, 0.5, 0.95, 0.99) + [("target", "max(hayate_ttft_target_seconds%s)" % INSTANCE)]),
    ("Time between tokens", "s", 12, quantiles(ITL, 0.5, 0.95, 0.99) + [("target", "max(hayate_itl_target_seconds%s)" % INSTANCE)]),
    ("Tokens per second", "short", 12, [("output {{instance}}", rate("vllm:generation_tokens_total")),
                                        ("prompt {{instance}}", rate("vllm:prompt_tokens_total"))]),
    ("Where a request's time goes, mean", "s", 8, [(k, mean("vllm:request_%s_time_seconds" % k)) for k in ("queue", "prefill", "decode")]),
    ("From submit to the end", "s", 8, quantiles("vllm:e2e_request_latency_seconds", 0.5, 0.95, 0.99)),
    ("Sizes of requests, tokens", "short", 8,
     [("prompt " + n, e) for n, e in quantiles("vllm:request_prompt_tokens", 0.5, 0.95)] +
     [("answer " + n, e) for n, e in quantiles("vllm:request_generation_tokens", 0.5, 0.95)]),
    "Load",
    ("Requests", "short", 8, [("running {{instance}}", gauge("vllm:num_requests_running")),
                              ("waiting {{instance}}", gauge("vllm:num_requests_waiting")),
                              ("paused {{instance}}", gauge("hayate_requests_paused"))]),
    ("Running requests by what they do", "short", 8, [("prompts", gauge("hayate_requests_prefilling")),
                                                      ("answers", gauge("hayate_requests_decoding"))]),
    ("Predicted time to the first token of who comes now", "s", 8, [("{{instance}}", gauge("hayate_predicted_wait_seconds"))]),
    ("Finished by reason, a second", "short", 8, [("{{finished_reason}}", rate("vllm:request_success_total", "finished_reason"))]),
    ("Refused by reason, a second", "short", 8, [("{{reason}}", rate("hayate_requests_refused_total", "reason"))]),
    ("Clients that left, a second", "short", 8, [("requests", rate("hayate_requests_cancelled_total")),
                                                 ("tokens computed in vain", rate("hayate_tokens_after_cancel_total"))]),
    "Keys and values",
    ("KV pages", "short", 8, [("all", gauge("hayate_kv_pages")), ("used", gauge("hayate_kv_pages_used")),
                              ("prefix cache only", gauge("hayate_kv_pages_cached"))]),
    ("Share of the KV pool that requests hold, and of what they hold that holds tokens", "percentunit", 8,
     [("held", gauge("vllm:kv_cache_usage_perc")),
      ("holds tokens", "%s / (16 * (%s - %s))" % (gauge("hayate_kv_slots_used"), gauge("hayate_kv_pages_used"),
                                                  gauge("hayate_kv_pages_cached")))]),
    ("Prefix cache: share of prompt tokens found", "percentunit", 8,
     [("hits", per("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"))]),
    ("Pauses for want of pages, a second", "short", 8, [("pauses", rate("vllm:num_preemptions_total"))]),
    ("Swap file", "Bps", 8, [("out", rate("hayate_swap_out_bytes_total")), ("in", rate("hayate_swap_in_bytes_total"))]),
    ("Sharing pages, a second", "short", 8, [("cached tokens given up", rate("hayate_prefix_cache_evicted_tokens_total")),
                                             ("pages copied before a write", rate("hayate_copied_pages_total")),
                                             ("keys not read again", rate("hayate_cascade_tokens_total"))]),
    "Speculation",
    ("Share of drafted tokens accepted", "percentunit", 6,
     [("accepted", per(SPEC + "accepted_tokens_total", SPEC + "draft_tokens_total"))]),
    ("Accepted by place in the draft", "percentunit", 6,
     [("{{position}}", per(SPEC + "accepted_tokens_per_pos_total", "hayate_spec_decode_num_draft_tokens_per_pos_total", "position"))]),
    ("Drafts, a second", "short", 6, [("drafts", rate(SPEC + "drafts_total")), ("tokens drafted", rate(SPEC + "draft_tokens_total")),
                                      ("tokens accepted", rate(SPEC + "accepted_tokens_total"))]),
    ("Speed over plain decoding", "none", 6, [("promised by the last drafts", "max(hayate_speculation_gain_ratio%s)" % INSTANCE),
                                              ("since the start", "max(hayate_speculation_speedup_ratio%s)" % INSTANCE)]),
    "Engine",
    ("Where a step's time goes", "percentunit", 12,
     [("{{operator}}", "%s / ignoring(operator) group_left sum(rate(hayate_operator_seconds_total%s[$__rate_interval]))" %
       (rate("hayate_operator_seconds_total", "operator"), INSTANCE))]),
    ("Step", "s", 6, quantiles("hayate_step_seconds", 0.5, 0.95)),
    ("Tokens of a step", "short", 6, quantiles("vllm:iteration_tokens_total", 0.5, 0.95)),
    ("Steps, a second", "short", 6, [("steps", rate("hayate_steps_total")),
                                     ("allocations inside steps (0, or a bug)", rate("hayate_allocations_in_steps_total"))]),
    ("Error of the predicted step time", "percentunit", 6, [("{{instance}}", gauge("hayate_cost_model_error_ratio"))]),
    ("Memory by purpose", "bytes", 12, [("{{purpose}}", "sum by (purpose) (hayate_memory_bytes%s)" % INSTANCE),
                                        ("resident", gauge("process_resident_memory_bytes"))]),
    "HTTP",
    ("Answers by class, a second", "short", 8, [("{{status}}", rate("hayate_http_responses_total", "status"))]),
    ("Connections", "short", 8, [("open", gauge("hayate_http_connections")), ("answers not finished", gauge("hayate_http_exchanges")),
                                 ("workers busy", gauge("hayate_http_workers_busy"))]),
    ("Requests without a valid key, a second", "short", 8, [("{{instance}}", rate("hayate_http_unauthorised_total"))]),
]


def panel(i, x, y, title, unit, width, targets):
    return {
        "id": i, "title": title, "type": "timeseries", "gridPos": {"x": x, "y": y, "w": width, "h": 8},
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": {"fillOpacity": 8, "lineWidth": 2}}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [{"refId": chr(65 + k), "expr": e, "legendFormat": legend} for k, (legend, e) in enumerate(targets)],
    }


def all_panels():
    out, x, y = [], 0, 0
    for i, p in enumerate(PANELS):
        row = isinstance(p, str)
        if x and (row or x + p[2] > 24):
            x, y = 0, y + 8
        if row:
            out.append({"id": i + 1, "title": p, "type": "row", "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}, "collapsed": False,
                        "panels": [], "targets": []})
            y += 1
        else:
            out.append(panel(i + 1, x, y, *p))
            x += p[2]
    return out


def main():
    panels = all_panels()
    print(json.dumps({
        "title": "Hayate", "uid": "hayate", "schemaVersion": 38, "version": 1, "editable": True, "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"}, "tags": ["inference"], "panels": panels,
        "templating": {"list": [
            {"name": "source", "type": "datasource", "query": "prometheus"},
            {"name": "instance", "type": "query", "datasource": {"type": "prometheus", "uid": "${source}"},
             "query": "label_values(vllm:num_requests_running, instance)", "includeAll": True, "multi": True, "refresh": 2},
        ]},
    }, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
