/* probe: measuring gives plausible numbers, look-ups between them, trace files are JSON. */
#include "probe/probe.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>

/* No assertion on speed: only what must hold on any machine, however busy. */
static void test_measure(void **state)
{
    hy_probe p;
    hy_err err = { 0 };
    hy_probe_opts o = { .n_thread = 3, .slice_ms = 1, .mem_bytes = 16 * HY_MIB };
    if (hy_probe_run(&p, &o, &err) != HY_OK) fail_msg("%s", err.msg);
    const uint32_t counts[] = { 1, 2, 3 };
    assert_int_equal(p.n_point, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(p.point[i].n_thread, counts[i]);
        assert_true(p.point[i].read[HY_PROBE_MEM] > 0);
        assert_true(p.point[i].copy > 0);
        assert_true(i == 0 ? p.point[i].barrier_ns == 0 : p.point[i].barrier_ns > 0);
    }
    hy_topology top;
    hy_cpu_topology(&top);
    assert_int_equal(top.l1d_bytes > 0, p.point[0].read[HY_PROBE_L1] > 0);
    assert_true(p.n_level >= 1);
    assert_string_equal(p.level[0].isa, "scalar");
    for (uint32_t i = 0; i < p.n_level; i++) {
        assert_true(p.level[i].int8_one > 0 && p.level[i].int8_all > 0);
        assert_true(p.level[i].f32_one > 0 && p.level[i].f32_all > 0);
    }
    uint64_t f = hy_cpu_features();
    assert_int_equal(hy_probe_level_of(&p, "avx2") != NULL, (f & HY_CPU_AVX2) && (f & HY_CPU_FMA));
    assert_int_equal(hy_probe_level_of(&p, "dotprod") != NULL, (f & HY_CPU_DOTPROD) != 0);
    assert_null(hy_probe_level_of(&p, "nothing"));
    assert_true(p.seconds > 0);
}

static bool stop_at_once(void *ctx, uint64_t done, uint64_t all)
{
    assert_true(done <= all);
    ++*(int *)ctx;
    return true;
}

static void test_cancel(void **state)
{
    hy_probe p;
    hy_err err = { 0 };
    int n = 0;
    hy_probe_opts o = { .n_thread = 1, .slice_ms = 1, .mem_bytes = 16 * HY_MIB, .progress = stop_at_once, .progress_ctx = &n };
    assert_int_equal(hy_probe_run(&p, &o, &err), HY_E_CANCELLED);
    assert_int_equal(n, 1);
    /* every allocation fails once: an error, or done without it, never a crash */
    o.progress = NULL;
    uint32_t n_memory = 0;
    for (int64_t k = 0; k < 40; k++) {
        hy_alloc_fail_after(k);
        hy_status st = hy_probe_run(&p, &o, &err);
        assert_true(st == HY_OK || st == HY_E_MEMORY);
        n_memory += st == HY_E_MEMORY;
    }
    assert_true(n_memory >= 2); /* the measuring memory, the team */
    hy_alloc_fail_after(-1);
}

static void test_between(void **state)
{
    hy_probe p = { .n_point = 3, .n_level = 1 };
    p.point[0] = (hy_probe_point){ 1, { 100, 50, 0, 10 }, 5, 0 };
    p.point[1] = (hy_probe_point){ 2, { 200, 100, 0, 18 }, 9, 200 };
    p.point[2] = (hy_probe_point){ 6, { 600, 300, 0, 20 }, 10, 1000 };
    p.level[0] = (hy_probe_level){ "avx2", 100, 500, 50, 250 };
    hy_probe_point t = hy_probe_at(&p, 4);
    assert_int_equal(t.n_thread, 4);
    assert_true(t.read[HY_PROBE_L1] == 400 && t.read[HY_PROBE_MEM] == 19 && t.copy == 9.5);
    assert_true(t.read[HY_PROBE_L3] == 0 && t.barrier_ns == 600);
    t = hy_probe_at(&p, 64);
    assert_true(t.read[HY_PROBE_MEM] == 20 && t.barrier_ns == 1000);
    assert_true(hy_probe_at(&p, 1).read[HY_PROBE_MEM] == 10);
    assert_true(hy_probe_ops(&p, "avx2", true, 1) == 100);
    assert_true(hy_probe_ops(&p, "avx2", true, 6) == 500);
    assert_true(hy_probe_ops(&p, "avx2", false, 2) == 90); /* 50 + 200 * 1/5 */
    assert_true(hy_probe_ops(&p, "avx512", true, 2) == 0);
}

static void test_trace(void **state)
{
    char path[] = "/tmp/hy-trace-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    hy_trace t;
    hy_err err = { 0 };
    assert_int_equal(hy_trace_open(&t, path, &err), HY_OK);
    hy_trace_thread(&t, 3, "a \"name\"\\\n");
    hy_trace_span(&t, 3, "norm+quant", "op", 1234567, 1239999, "{\"layer\": 2}");
    hy_trace_span(&t, 3, "wait", "wait", 1239999, 1239999, NULL);
    assert_int_equal(hy_trace_close(&t, path, &err), HY_OK);
    json_t *all = json_load_file(path, 0, NULL), *events = json_object_get(all, "traceEvents");
    assert_int_equal(json_array_size(events), 3);
    json_t *name = json_array_get(events, 0), *span = json_array_get(events, 1);
    assert_string_equal(json_string_value(json_object_get(name, "ph")), "M");
    assert_string_equal(json_string_value(json_object_get(json_object_get(name, "args"), "name")), "a \"name\"\\\n");
    assert_string_equal(json_string_value(json_object_get(span, "ph")), "X");
    assert_string_equal(json_string_value(json_object_get(span, "name")), "norm+quant");
    assert_true(json_number_value(json_object_get(span, "ts")) == 1234.567);
    assert_true(json_number_value(json_object_get(span, "dur")) == 5.432);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(span, "args"), "layer")), 2);
    json_decref(all);
    unlink(path);
    assert_int_equal(hy_trace_open(&t, "/nonexistent/trace.json", &err), HY_E_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_measure),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_between),
        cmocka_unit_test(test_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
