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


TTFT, ITL = "vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds"
# title, unit, width of 24, [(legend, expression)]
PANELS = [
    ("Time to first token: share within the classes", "percentunit", 12,
     [("≤ 200 ms, excellent", share("0.2")), ("≤ 500 ms, acceptable", share("0.5")), ("≤ 1 s", share("1"))]),
    ("Time to first token", "s", 12, [("p50", quantile(0.5, TTFT)), ("p95", quantile(0.95, TTFT)), ("p99", quantile(0.99, TTFT))]),
    ("Time between tokens", "s", 12, [("p50", quantile(0.5, ITL)), ("p95", quantile(0.95, ITL)), ("p99", quantile(0.99, ITL)),
                                      ("target", "max(hayate_itl_target_seconds%s)" % INSTANCE)]),
    ("Tokens per second", "short", 12, [("output {{instance}}", rate("vllm:generation_tokens_total")),
                                        ("prompt {{instance}}", rate("vllm:prompt_tokens_total"))]),
    ("Requests", "short", 8, [("running {{instance}}", gauge("vllm:num_requests_running")),
                              ("waiting {{instance}}", gauge("vllm:num_requests_waiting")),
                              ("paused {{instance}}", gauge("hayate_requests_paused"))]),
    ("Finished by reason, a second", "short", 8, [("{{finished_reason}}", rate("vllm:request_success_total", "finished_reason"))]),
    ("Refused by reason, a second", "short", 8, [("{{reason}}", rate("hayate_requests_refused_total", "reason"))]),
    ("KV pages", "short", 8, [("all", gauge("hayate_kv_pages")), ("used", gauge("hayate_kv_pages_used")),
                              ("prefix cache only", gauge("hayate_kv_pages_cached"))]),
    ("Prefix cache: share of prompt tokens found", "percentunit", 8,
     [("hits", "%s / %s" % (rate("vllm:prefix_cache_hits_total"), rate("vllm:prefix_cache_queries_total")))]),
    ("Pauses and swaps, a second", "short", 8, [("pauses", rate("vllm:num_preemptions_total")),
                                                ("bytes out", rate("hayate_swap_out_bytes_total")),
                                                ("bytes in", rate("hayate_swap_in_bytes_total"))]),
    ("Where a step's time goes", "percentunit", 12,
     [("{{operator}}", "%s / ignoring(operator) group_left sum(rate(hayate_operator_seconds_total%s[$__rate_interval]))" %
       (rate("hayate_operator_seconds_total", "operator"), INSTANCE))]),
    ("Step", "s", 6, [("p50", quantile(0.5, "hayate_step_seconds")), ("p95", quantile(0.95, "hayate_step_seconds"))]),
    ("Tokens of a step", "short", 6, [("p50", quantile(0.5, "vllm:iteration_tokens_total")),
                                      ("p95", quantile(0.95, "vllm:iteration_tokens_total"))]),
    ("Memory by purpose", "bytes", 12, [("{{purpose}}", "sum by (purpose) (hayate_memory_bytes%s)" % INSTANCE),
                                        ("resident", gauge("process_resident_memory_bytes"))]),
    ("Speculation: share of drafted tokens accepted", "percentunit", 6,
     [("accepted", "%s / %s" % (rate("vllm:spec_decode_num_accepted_tokens_total"), rate("vllm:spec_decode_num_draft_tokens_total")))]),
    ("HTTP answers by class, a second", "short", 6, [("{{status}}", rate("hayate_http_responses_total", "status"))]),
]


def main():
    panels, x, y = [], 0, 0
    for i, (title, unit, width, targets) in enumerate(PANELS):
        if x + width > 24:
            x, y = 0, y + 8
        panels.append({
            "id": i + 1, "title": title, "type": "timeseries", "gridPos": {"x": x, "y": y, "w": width, "h": 8},
            "datasource": {"type": "prometheus", "uid": "${source}"},
            "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": {"fillOpacity": 8, "lineWidth": 2}}, "overrides": []},
            "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
            "targets": [{"refId": chr(65 + k), "expr": e, "legendFormat": legend} for k, (legend, e) in enumerate(targets)],
        })
        x += width
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
