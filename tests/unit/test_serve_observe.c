/* Prometheus text and OTLP/JSON: against what the formats' own documents say, with values set by hand. */
#include "serve/metrics.h"
#include "serve/otlp.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static hy_stats *stats(void)
{
    hy_stats *s = HY_NEW(hy_stats);
    assert_non_null(s);
    s->counters.n_running = 3;
    s->counters.page_all = 100;
    s->counters.page_used = 60;
    s->page_cached = 20;
    s->ttft.n_bound = 3;
    s->ttft.bound[0] = 0.2, s->ttft.bound[1] = 0.5, s->ttft.bound[2] = 1;
    s->ttft.count[0] = 4, s->ttft.count[1] = 2, s->ttft.count[2] = 1, s->ttft.count[3] = 5;
    s->ttft.sum = 12.5;
    s->n_finished[HY_FINISH_STOP] = 7;
    s->n_refused_busy = 9;
    s->n_ledger = 1;
    s->ledger[0].name = "weights";
    s->ledger[0].bytes = 1234;
    return s;
}

static const hy_facts facts = { .family = "llama", .name = "", .isa = "avx2", .kv_type = "f16", .n_ctx = 64, .n_threads = 2 };

static void assert_line(const char *text, const char *line)
{
    char whole[256];
    snprintf(whole, sizeof whole, "\n%s\n", line);
    if (!strstr(text, whole)) fail_msg("no line '%s' in:\n%s", line, text);
}

static void test_prometheus(void **state)
{
    hy_stats *s = stats();
    hy_http_counts h = { .n_request = { 0, 0, 11, 0, 2, 1 }, .n_limited = 4 };
    hy_buf out = { 0 };
    hy_metrics_text(s, &facts, &h, "a \"model\"\\\n", &out);
    assert_false(out.failed);
    const char *label = "model_name=\"a \\\"model\\\"\\\\\\n\",engine=\"0\""; /* the three escapes of a label value */
    char line[256];
    snprintf(line, sizeof line, "vllm:num_requests_running{%s} 3", label);
    assert_line(out.data, line);
    snprintf(line, sizeof line, "vllm:kv_cache_usage_perc{%s} 0.4", label); /* (60 - 20) / 100 */
    assert_line(out.data, line);
    /* buckets are cumulative; the last is all */
    static const char *const want[] = { "0.2\"} 4", "0.5\"} 6", "1\"} 7", "+Inf\"} 12" };
    for (size_t i = 0; i < HY_COUNT(want); i++) {
        snprintf(line, sizeof line, "vllm:time_to_first_token_seconds_bucket{%s,le=\"%s", label, want[i]);
        assert_line(out.data, line);
    }
    snprintf(line, sizeof line, "vllm:time_to_first_token_seconds_sum{%s} 12.5", label);
    assert_line(out.data, line);
    snprintf(line, sizeof line, "vllm:time_to_first_token_seconds_count{%s} 12", label);
    assert_line(out.data, line);
    snprintf(line, sizeof line, "vllm:request_success_total{%s,finished_reason=\"stop\"} 7", label);
    assert_line(out.data, line);
    snprintf(line, sizeof line, "hayate_requests_refused_total{%s,reason=\"busy\"} 9", label);
    assert_line(out.data, line);
    snprintf(line, sizeof line, "hayate_http_responses_total{%s,status=\"2xx\"} 11", label);
    assert_line(out.data, line);
    snprintf(line, sizeof line, "hayate_memory_bytes{%s,purpose=\"weights\"} 1234", label);
    assert_line(out.data, line);
    /* every sample belongs to the family that was announced last */
    char family[128] = "";
    for (char *p = out.data, *end; *p && (end = strchr(p, '\n')); p = end + 1) {
        if (sscanf(p, "# TYPE %127s", family) == 1 || *p == '#') continue;
        if (strncmp(p, family, strlen(family)) != 0) fail_msg("sample outside its family %s: %.80s", family, p);
    }
    hy_buf_free(&out);
    hy_free(s);
}

static void test_json(void **state)
{
    hy_stats *s = stats();
    hy_http_counts h = { 0 };
    json_t *o = hy_metrics_json(s, &facts, &h, "m");
    assert_non_null(o);
    json_t *hist = json_object_get(json_object_get(o, "hist"), "vllm:time_to_first_token_seconds");
    assert_int_equal(json_array_size(json_object_get(hist, "bound")), 3);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(hist, "count"), 3)), 5); /* not cumulative */
    assert_int_equal(json_integer_value(json_object_get(json_object_get(o, "memory"), "weights")), 1234);
    assert_string_equal(json_string_value(json_object_get(json_object_get(o, "model"), "id")), "m");
    json_decref(o);
    hy_free(s);
}

static hy_record record(void)
{
    hy_record r = { .method = "POST", .route = "/v1/chat/completions", .status = 200, .us_begin = 5000000, .us_end = 5900000,
                    .unix_us = 1700000000000000, .n_request = 1, .finish = HY_FINISH_LENGTH, .n_span = 2 };
    snprintf(r.id, sizeof r.id, "req-1");
    r.usage.n_prompt = 40;
    r.usage.n_output = 8;
    r.span[0] = (hy_span){ HY_SPAN_QUEUE, 5000000, 5100000, 0, 0 };
    r.span[1] = (hy_span){ HY_SPAN_CHUNK, 5100000, 5400000, 40, 3 };
    return r;
}

static const json_t *spans_of(const json_t *o)
{
    const json_t *scope = json_array_get(json_object_get(json_array_get(json_object_get(o, "resourceSpans"), 0), "scopeSpans"), 0);
    return json_object_get(scope, "spans");
}
static const char *text(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static void test_otlp(void **state)
{
    hy_record r = record();
    snprintf(r.traceparent, sizeof r.traceparent, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    json_t *o = hy_otlp_json(&r, 1, "m", 1);
    const json_t *spans = spans_of(o);
    assert_int_equal(json_array_size(spans), 3);
    const json_t *root = json_array_get(spans, 0), *queue = json_array_get(spans, 1), *chunk = json_array_get(spans, 2);
    assert_string_equal(text(root, "traceId"), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_string_equal(text(root, "parentSpanId"), "00f067aa0ba902b7");
    assert_string_equal(text(root, "name"), "POST /v1/chat/completions");
    assert_int_equal(json_integer_value(json_object_get(root, "kind")), 2);
    /* times are nanoseconds in decimal strings: the wall clock plus what the other clock says since */
    assert_string_equal(text(root, "startTimeUnixNano"), "1700000000000000000");
    assert_string_equal(text(root, "endTimeUnixNano"), "1700000000900000000");
    assert_string_equal(text(queue, "parentSpanId"), text(root, "spanId"));
    assert_string_equal(text(queue, "traceId"), text(root, "traceId"));
    assert_string_equal(text(chunk, "startTimeUnixNano"), "1700000000100000000");
    assert_string_equal(text(chunk, "name"), "prefill chunk");
    assert_int_equal(strlen(text(root, "spanId")), 16);
    assert_string_not_equal(text(queue, "spanId"), text(chunk, "spanId"));
    json_decref(o);
}

static void test_trace_ids(void **state)
{
    static const char *const bad[] = {
        "", "00", "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01", "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
    };
    for (size_t i = 0; i < HY_COUNT(bad); i++) {
        hy_record r = record();
        snprintf(r.traceparent, sizeof r.traceparent, "%s", bad[i]);
        json_t *o = hy_otlp_json(&r, 1, "m", 7);
        const json_t *root = json_array_get(spans_of(o), 0);
        assert_null(json_object_get(root, "parentSpanId"));
        assert_int_equal(strlen(text(root, "traceId")), 32);
        assert_string_not_equal(text(root, "traceId"), "4bf92f3577b34da6a3ce929d0e0e4736");
        json_decref(o);
    }
    hy_err err;
    hy_otlp *otlp;
    assert_int_equal(hy_otlp_open(&otlp, "collector:4318", "m", &err), HY_E_ARG);
    assert_non_null(strstr(err.msg, "collector:4318"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prometheus),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_otlp),
        cmocka_unit_test(test_trace_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
