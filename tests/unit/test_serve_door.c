/* What comes in before a route sees it: JSON bodies, paths, the route table; and what is remembered afterwards. */
#include "serve/impl.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void test_good_bodies(void **state)
{
    static const char *const good[] = { "{}", " {\"a\": [1, 2.5, true, null, \"x\"]}\n", "{\"a\": \"\\ud83d\\ude80\"}", "\xEF\xBB\xBF{}",
                                        "{\"a\": \"\xF0\x9F\x9A\x80\"}", "{\"a\": \"[[[{{{\\\"]\\\\\"}" };
    for (size_t i = 0; i < HY_COUNT(good); i++) {
        json_t *j = NULL;
        hy_err err;
        if (hy_json_door(good[i], strlen(good[i]), &j, &err) != HY_OK) fail_msg("%s: %s", good[i], err.msg);
        assert_true(json_is_object(j));
        json_decref(j);
    }
}

static void bad(const char *s, size_t n, const char *word)
{
    json_t *j = NULL;
    hy_err err = { .msg = "" };
    assert_int_equal(hy_json_door(s, n, &j, &err), HY_E_FORMAT);
    if (!strstr(err.msg, word)) fail_msg("'%s': %s", s, err.msg);
    assert_null(j);
}

static void test_bad_bodies(void **state)
{
    static const struct { const char *text, *word; } rows[] = {
        { "", "empty" },
        { "\xEF\xBB\xBF", "empty" },
        { "[]", "not a JSON object" },
        { "{", "line 1" },
        { "{\n\n\"a\": tru}", "line 3" },
        { "{} x", "line 1" },
        { "{\"a\": 1,\n \"a\": 2}", "line 2" },
        { "{\n\"a\": \"\xFF\"}", "line 2, column 7: not valid UTF-8" },
        { "{\"a\": \"\xC0\x80\"}", "column 8: not valid UTF-8" },
        { "{\"a\": \"\\\xFF\"}", "column 9: not valid UTF-8" },
        { "{\"a\": \"\\u0000\"}", "line 1" },
        { "{\"a\": \"\\udc00\"}", "line 1" },
        { "{\"a\": Infinity}", "line 1" },
        { "{\"a\": 1e999}", "line 1" },
    };
    for (size_t i = 0; i < HY_COUNT(rows); i++) bad(rows[i].text, strlen(rows[i].text), rows[i].word);
    bad("{\"a\": \0}", 8, "column 7: a NUL byte");
    bad("{\"a\": \"\\\0\"}", 11, "column 9: a NUL byte");
}

/* Its field says what it takes: a schema's bound may be any number, max_tokens may not. */
static void test_integers_beyond_64_bits(void **state)
{
    const char *s = "{\"a\": 18446744073709551615, \"b\": 7}";
    json_t *j = NULL;
    hy_err err = { .msg = "" };
    if (hy_json_door(s, strlen(s), &j, &err) != HY_OK) fail_msg("%s", err.msg);
    assert_true(json_number_value(json_object_get(j, "a")) == 18446744073709551616.0);
    assert_true(json_number_value(json_object_get(j, "b")) == 7);
    json_decref(j);
}

static void test_depth(void **state)
{
    for (int n = 199; n <= 200; n++) { /* and the object around them */
        hy_buf b = { 0 };
        hy_buf_str(&b, "{\"a\":");
        for (int i = 0; i < n; i++) hy_buf_char(&b, '[');
        for (int i = 0; i < n; i++) hy_buf_char(&b, ']');
        hy_buf_char(&b, '}');
        json_t *j = NULL;
        hy_err err;
        hy_status st = hy_json_door(b.data, b.len, &j, &err);
        assert_int_equal(st, n == 199 ? HY_OK : HY_E_FORMAT);
        json_decref(j);
        hy_buf_free(&b);
    }
}

static void test_decode(void **state)
{
    static const struct { const char *in, *out; bool plus; } rows[] = {
        { "/a%20b", "/a b", false },  { "a+b", "a+b", false }, { "a+b%2B", "a b+", true }, { "%C3%a9", "\xC3\xA9", false },
        { "", "", false },            { "%25", "%", false },   { "%", NULL, false },       { "%4", NULL, false },
        { "%g0", NULL, false },       { "%00", NULL, false },  { "a%2", NULL, false },
    };
    for (size_t i = 0; i < HY_COUNT(rows); i++) {
        char s[64];
        snprintf(s, sizeof s, "%s", rows[i].in);
        assert_int_equal(hy_url_decode(s, rows[i].plus), rows[i].out != NULL);
        if (rows[i].out) assert_string_equal(s, rows[i].out);
    }
}

static void test_routes(void **state)
{
    hy_match m;
    hy_route_find("GET", "/v1/models", &m);
    assert_string_equal(m.route->path, "/v1/models");
    assert_null(m.param);
    assert_string_equal(m.allow, "GET, HEAD, OPTIONS");
    hy_route_find("HEAD", "/v1/models/org/name", &m); /* an id at the end may hold slashes */
    assert_string_equal(m.route->path, "/v1/models/{id}");
    assert_int_equal(m.n_param, 8);
    assert_memory_equal(m.param, "org/name", 8);
    hy_route_find("DELETE", "/v1/requests/req-1", &m);
    assert_string_equal(m.route->method, "DELETE");
    assert_string_equal(m.allow, "GET, HEAD, DELETE, OPTIONS");
    hy_route_find("PUT", "/v1/requests/req-1", &m);
    assert_null(m.route);
    assert_string_equal(m.allow, "GET, HEAD, DELETE, OPTIONS");
    static const char *const none[] = { "", "/v1", "/v1/models/", "/v1/modelsx", "v1/models", "/V1/models", "/{id}" };
    for (size_t i = 0; i < HY_COUNT(none); i++) {
        hy_route_find("GET", none[i], &m);
        assert_null(m.route);
        assert_string_equal(m.allow, "");
    }
}

/* What every row promises: no two are the same, a body is read only where one is sent. */
static void test_table(void **state)
{
    for (const hy_route *r = hy_routes; r->method; r++) {
        assert_non_null(r->run);
        assert_non_null(r->doc);
        assert_int_equal(r->path[0], '/');
        assert_int_equal(r->body_max > 0, strcmp(r->method, "POST") == 0);
        if (r->flags & HY_ROUTE_GENERATES) assert_int_equal(r->flags & (HY_ROUTE_INLINE | HY_ROUTE_OPEN | HY_ROUTE_LOADING), 0);
        for (const hy_route *o = hy_routes; o < r; o++) assert_true(strcmp(o->path, r->path) || strcmp(o->method, r->method));
    }
}

static uint32_t n_heard;

static void hear(void *ctx, const hy_record *r)
{
    n_heard++;
}

static void test_records(void **state)
{
    hy_records *all;
    hy_err err;
    assert_int_equal(hy_records_open(&all, &err), HY_OK);
    hy_records_listen(all, hear, NULL);
    hy_record *r = HY_NEW(hy_record);
    assert_non_null(r);
    r->method = "POST";
    r->route = "/x";
    for (int i = 0; i < HY_RECORDS + 10; i++) {
        snprintf(r->id, sizeof r->id, "req-%d", i);
        r->status = i;
        hy_records_add(all, r);
    }
    assert_int_equal(n_heard, HY_RECORDS + 10);
    assert_false(hy_records_find(all, "req-9", r)); /* the oldest made room */
    assert_true(hy_records_find(all, "req-10", r));
    assert_int_equal(r->status, 10);
    assert_true(hy_records_find(all, "req-1033", r));
    assert_false(hy_records_find(all, "req-1034", r));
    hy_free(r);
    hy_records_close(all);
}

static void test_record_json(void **state)
{
    hy_record *r = HY_NEW(hy_record);
    assert_non_null(r);
    r->method = "POST", r->route = "/x", r->status = 200;
    snprintf(r->id, sizeof r->id, "req-1");
    r->us_begin = 1000000, r->us_end = 3500000;
    hy_usage a = { .n_prompt = 10, .n_output = 5, .n_cached = 4, .queue_ms = 3, .ttft_ms = 100, .n_chunk = 2 };
    hy_usage b = { .n_prompt = 10, .n_output = 7, .queue_ms = 9, .ttft_ms = 50, .n_paused = 1, .paused_ms = 8 };
    hy_record_usage(r, &a, HY_FINISH_STOP);
    hy_record_usage(r, &b, HY_FINISH_LENGTH);
    r->n_request = 2;
    r->n_span = 1;
    r->span[0] = (hy_span){ HY_SPAN_CHUNK, 1500000, 2000000, 64, 3 };
    json_t *j = hy_record_json(r);
    assert_non_null(j);
    const char *state_name, *finish, *kind;
    int prompt, cached, output, pauses, answers, tokens;
    double total, queue, ttft, begin, ms;
    assert_int_equal(json_unpack(j, "{s:s, s:s, s:i, s:{s:i, s:i, s:i, s:i}, s:{s:F, s:F, s:F}, s:[{s:s, s:F, s:F, s:i}]}", "state",
                                 &state_name, "finish", &finish, "answers", &answers, "usage", "prompt_tokens", &prompt,
                                 "cached_tokens", &cached, "output_tokens", &output, "pauses", &pauses, "times", "total_ms", &total,
                                 "queue_ms", &queue, "ttft_ms", &ttft, "spans", "kind", &kind, "begin_ms", &begin, "ms", &ms,
                                 "tokens", &tokens), 0);
    assert_string_equal(state_name, "finished");
    assert_string_equal(finish, "length");
    assert_string_equal(kind, "chunk");
    assert_int_equal(answers, 2);
    assert_int_equal(prompt, 20);
    assert_int_equal(cached, 4);
    assert_int_equal(output, 12);
    assert_int_equal(pauses, 1);
    assert_int_equal(tokens, 64);
    assert_float_equal(total, 2500, 0);
    assert_float_equal(queue, 9, 0);
    assert_float_equal(ttft, 100, 0);
    assert_float_equal(begin, 500, 0);
    assert_float_equal(ms, 500, 0);
    json_decref(j);
    hy_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_bodies), cmocka_unit_test(test_bad_bodies), cmocka_unit_test(test_depth),
        cmocka_unit_test(test_integers_beyond_64_bits),
        cmocka_unit_test(test_decode),      cmocka_unit_test(test_routes),     cmocka_unit_test(test_table),
        cmocka_unit_test(test_records),     cmocka_unit_test(test_record_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
