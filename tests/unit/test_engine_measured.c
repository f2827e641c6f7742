/* engine: what was measured is kept, found again, and never trusted when it is broken. */
#include "engine/measured.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[64];

static int enter(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/hy-measured-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    return setenv("HAYATE_CACHE", folder, 1);
}

static int leave(void **state)
{
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", folder);
    return system(cmd);
}

static json_t *parse(const char *text)
{
    json_t *o = json_loads(text, 0, NULL);
    assert_non_null(o);
    return o;
}

static void test_keep(void **state)
{
    assert_null(hy_cache_get("thing", "a"));
    json_t *o = parse("{\"n\": 7}");
    assert_true(hy_cache_put("thing", "a", o));
    json_decref(o);
    o = hy_cache_get("thing", "a");
    assert_int_equal(json_integer_value(json_object_get(o, "n")), 7);
    json_decref(o);
    assert_null(hy_cache_get("thing", "b"));
    assert_null(hy_cache_get("other", "a"));
    hy_cache_drop_kind("thin"); /* another kind */
    o = hy_cache_get("thing", "a");
    assert_non_null(o);
    json_decref(o);
    hy_cache_drop_kind("thing");
    assert_null(hy_cache_get("thing", "a"));
}

static void overwrite(const char *kind, const char *key, const char *text)
{
    hy_buf path = { 0 };
    assert_true(hy_cache_path(kind, key, &path));
    FILE *f = fopen(path.data, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    hy_buf_free(&path);
}

static void test_broken(void **state)
{
    json_t *o = parse("{\"n\": 7}");
    assert_true(hy_cache_put("thing", "a", o));
    json_decref(o);
    const char *const bad[] = { "", "{", "[]", "{\"key\": \"a\"}", "{\"key\": \"b\", \"thing\": {}}",
                                "{\"key\": \"a\", \"thing\": 3}" };
    for (size_t i = 0; i < HY_COUNT(bad); i++) {
        overwrite("thing", "a", bad[i]);
        assert_null(hy_cache_get("thing", "a"));
    }
    setenv("HAYATE_CACHE", "/proc/nowhere", 1); /* nothing can be kept: no failure */
    o = parse("{}");
    assert_false(hy_cache_put("thing", "a", o));
    json_decref(o);
    assert_null(hy_cache_get("thing", "a"));
    setenv("HAYATE_CACHE", folder, 1);
}

static const char good[] = "{\"seconds\": 3, \"read\": [{\"threads\": 1, \"l1\": 100e9, \"l2\": 50e9, \"l3\": 0, "
                           "\"memory\": 12.5e9, \"copy\": 5e9, \"barrier_ns\": 0}], \"operations\": [{\"isa\": \"scalar\", "
                           "\"int8_one\": 2e9, \"int8_all\": 2e9, \"f32_one\": 1e9, \"f32_all\": 1e9}]}";

static char *machine_key(void)
{
    hy_topology top;
    hy_cpu_topology(&top);
    char *key = hy_machine_key(&top);
    assert_non_null(key);
    return key;
}

static void test_kept_machine(void **state)
{
    char *key = machine_key();
    json_t *o = parse(good);
    assert_true(hy_cache_put("machine", key, o));
    json_decref(o);
    hy_probe p;
    bool cached = false;
    hy_err err = { 0 };
    assert_int_equal(hy_machine_probe(&p, false, NULL, NULL, &cached, &err), HY_OK);
    assert_true(cached);
    assert_int_equal(p.n_point, 1);
    assert_true(p.point[0].read[HY_PROBE_MEM] == 12.5e9 && p.point[0].read[HY_PROBE_L3] == 0);
    assert_string_equal(p.level[0].isa, "scalar");
    char *text = NULL;
    assert_int_equal(hy_tool_cpu(false, false, NULL, NULL, &text, &err), HY_OK);
    assert_non_null(strstr(text, "12.5"));
    assert_non_null(strstr(text, "measured before"));
    hy_memory_free(text);
    assert_int_equal(hy_tool_cpu(false, true, NULL, NULL, &text, &err), HY_OK);
    o = parse(text);
    assert_true(json_is_true(json_object_get(o, "cached")));
    json_t *point = json_array_get(json_object_get(json_object_get(o, "limits"), "read"), 0);
    assert_true(json_number_value(json_object_get(point, "memory")) == 12.5e9);
    assert_string_equal(json_string_value(json_object_get(json_object_get(o, "machine"), "version")), HY_VERSION);
    json_decref(o);
    hy_memory_free(text);
    hy_free(key);
}

static bool give_up(void *ctx, uint64_t done, uint64_t all)
{
    return true;
}

/* Numbers that no machine has are measured again: seen by the cancel that only measuring meets. */
static void test_broken_machine(void **state)
{
    static const char *const swap[][2] = { { "\"memory\": 12.5e9", "\"memory\": -1" },
                                           { "\"memory\": 12.5e9", "\"memory\": \"much\"" },
                                           { "\"memory\": 12.5e9", "\"memory\": 0" },
                                           { "\"threads\": 1", "\"threads\": 0" },
                                           { "\"threads\": 1", "\"threads\": 1e9" },
                                           { "\"isa\": \"scalar\"", "\"isa\": \"a name of more than fifteen\"" },
                                           { "\"operations\"", "\"other\"" } };
    char *key = machine_key();
    for (size_t i = 0; i < HY_COUNT(swap); i++) {
        char text[1024];
        const char *at = strstr(good, swap[i][0]);
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, swap[i][1], at + strlen(swap[i][0]));
        json_t *o = parse(text);
        assert_true(hy_cache_put("machine", key, o));
        json_decref(o);
        hy_probe p;
        hy_err err = { 0 };
        assert_int_equal(hy_machine_probe(&p, false, give_up, NULL, NULL, &err), HY_E_CANCELLED);
    }
    hy_free(key);
}

static void test_measured_and_kept(void **state)
{
    hy_probe p, q;
    bool cached = true;
    hy_err err = { 0 };
    assert_int_equal(hy_machine_probe(&p, true, NULL, NULL, &cached, &err), HY_OK);
    assert_false(cached);
    assert_int_equal(hy_machine_probe(&q, false, NULL, NULL, &cached, &err), HY_OK);
    assert_true(cached);
    assert_memory_equal(&p, &q, sizeof p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keep),           cmocka_unit_test(test_broken),
        cmocka_unit_test(test_kept_machine),   cmocka_unit_test(test_broken_machine),
        cmocka_unit_test(test_measured_and_kept),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
