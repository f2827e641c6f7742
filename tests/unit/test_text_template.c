/* The chat-template language against Jinja2: whole templates, single features, bounds. */
#include "text/text.h"
#include <setjmp.h>
#include <stdarg.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const int64_t noon = 1768480496; /* 2026-01-15 12:34:56 */

static char *slurp(const char *path, size_t *n)
{
    hy_err err;
    char *data = NULL;
    if (hy_read_file(path, 64 * HY_MIB, &data, n, &err) != HY_OK) fail_msg("%s: %s", path, err.msg);
    return data;
}

static hy_status render(const char *src, size_t n, const json_t *vars, hy_buf *out, bool *raised,
                        hy_err *err)
{
    hy_template *t = NULL;
    *raised = false;
    hy_status st = hy_template_parse(&t, src, n, err);
    if (st == HY_OK) st = hy_template_render(t, vars, noon, NULL, out, raised, err);
    hy_template_free(t);
    return st;
}

static bool same_text(const hy_buf *out, const json_t *want)
{
    return json_is_string(want) && out->len == json_string_length(want) &&
           (out->len == 0 || memcmp(out->data, json_string_value(want), out->len) == 0);
}

/* The text, or an error where one is expected; a message of raise_exception word for word. */
static bool check(const json_t *row, const char *src, size_t n, const json_t *vars)
{
    hy_buf out = { 0 };
    hy_err err = { 0 };
    bool raised, ok;
    hy_status st = render(src, n, vars, &out, &raised, &err);
    const json_t *want = json_object_get(row, "expected");
    if (want) {
        const json_t *alias = json_object_get(row, "without_reasoning_alias");
        ok = st == HY_OK &&
             (same_text(&out, want) || same_text(&out, json_object_get(alias, "expected")));
    } else if (json_is_true(json_object_get(row, "raised_by_template"))) {
        ok = st == HY_E_ARG && raised &&
             strcmp(err.msg, json_string_value(json_object_get(row, "message"))) == 0;
    } else {
        ok = st != HY_OK;
    }
    if (!ok)
        print_error("%s: status %s %s\n  got:  %.300s\n  want: %.300s\n",
                    json_string_value(json_object_get(row, "id")), hy_status_name(st), err.msg,
                    out.data ? out.data : "", want ? json_string_value(want) : "an error");
    hy_buf_free(&out);
    return ok;
}

static json_t *chat_vars(const json_t *row)
{
    json_t *v = json_object();
    static const char *const names[] = { "messages", "tools", "add_generation_prompt", "bos_token",
                                         "eos_token" };
    for (size_t i = 0; i < HY_COUNT(names); i++)
        json_object_set(v, names[i], json_object_get(row, names[i]));
    json_object_set_new(v, "documents", json_null());
    json_object_update(v, json_object_get(row, "kwargs"));
    return v;
}

/* Calls `each` for every line of a .jsonl file; gives the number of failures. */
static size_t each_line(const char *path, size_t (*each)(void *ctx, json_t *row), void *ctx)
{
    size_t n, bad = 0;
    char *data = slurp(path, &n);
    for (char *s = data, *end = data + n; s < end;) {
        char *nl = memchr(s, '\n', (size_t)(end - s));
        size_t k = nl ? (size_t)(nl - s) : (size_t)(end - s);
        json_t *row = NULL;
        hy_err err;
        if (k && hy_json_parse(path, s, k, &row, &err) != HY_OK) fail_msg("%s", err.msg);
        if (row) bad += each(ctx, row);
        json_decref(row);
        s += k + 1;
    }
    hy_free(data);
    return bad;
}

typedef struct chat {
    const char *src;
    size_t n, count;
} chat;

static size_t chat_row(void *ctx, json_t *row)
{
    chat *c = ctx;
    if (json_is_true(json_object_get(row, "continue_final_message"))) return 0;
    json_t *vars = chat_vars(row);
    bool ok = check(row, c->src, c->n, vars);
    json_decref(vars);
    c->count++;
    return !ok;
}

static void chat_folder(const char *root)
{
    char path[1024];
    size_t bad = 0, count = 0;
    snprintf(path, sizeof path, "%s/expected", root);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char *dot = strstr(e->d_name, ".jsonl");
        if (!dot) continue;
        snprintf(path, sizeof path, "%s/templates/%.*s.jinja", root, (int)(dot - e->d_name), e->d_name);
        chat c = { NULL, 0, 0 };
        char *src = slurp(path, &c.n);
        c.src = src;
        snprintf(path, sizeof path, "%s/expected/%s", root, e->d_name);
        bad += each_line(path, chat_row, &c);
        count += c.count;
        hy_free(src);
    }
    closedir(dir);
    print_message("%s: %zu chats\n", root, count);
    assert_true(count > 300);
    assert_int_equal(bad, 0);
}

static void test_chat_templates(void **state)
{
    chat_folder(HY_DATA "/templates");
    if (hy_is_dir(HY_SHARED "/cases/chat_templates")) chat_folder(HY_SHARED "/cases/chat_templates");
}

static size_t snippet_row(void *ctx, json_t *row)
{
    json_t **vars = ctx;
    if (!*vars) {
        *vars = json_incref(json_object_get(row, "context"));
        return 0;
    }
    const json_t *t = json_object_get(row, "template");
    return !check(row, json_string_value(t), json_string_length(t), *vars);
}

static void snippets(const char *path)
{
    json_t *vars = NULL;
    assert_int_equal(each_line(path, snippet_row, &vars), 0);
    json_decref(vars);
}

static void test_language(void **state)
{
    snippets(HY_DATA "/templates/jinja_snippets.jsonl");
    snippets(HY_DATA "/templates/language.jsonl");
    snippets(HY_DATA "/templates/unicode.jsonl");
    snippets(HY_DATA "/templates/random.jsonl");
}

/* ---- errors and bounds ----------------------------------------------------------------------- */

static hy_status run(const char *src, const hy_template_limits *limits, hy_err *err)
{
    hy_template *t = NULL;
    hy_buf out = { 0 };
    hy_status st = hy_template_parse(&t, src, strlen(src), err);
    if (st == HY_OK) st = hy_template_render(t, NULL, noon, limits, &out, NULL, err);
    if (st != HY_OK) assert_int_equal(out.len, 0);
    hy_buf_free(&out);
    hy_template_free(t);
    return st;
}

static void test_messages(void **state)
{
    static const struct {
        const char *src, *msg;
    } cases[] = {
        { "a\n\n{{ 1 // 0 }}", "line 3: integer division or modulo by zero" },
        { "\n{% if true %}\n{{ x.y }}{% endif %}", "line 3: 'x' is undefined" },
        { "{% if %}", "line 1: Expected an expression, got 'end of statement block'" },
        { "\n\n{% nope %}", "line 3: Encountered unknown tag 'nope'." },
        { "{{ x|nope }}", "line 1: No filter named 'nope'." },
        { "{{ [].append(1) }}", "line 1: access to attribute 'append' of 'list' object is unsafe." },
        { "{{ {}.a.b }}", "line 1: 'dict object' has no attribute 'a'" },
        { "{{ raise_exception('no ' ~ 5) }}", "no 5" },
    };
    for (size_t i = 0; i < HY_COUNT(cases); i++) {
        hy_err err = { 0 };
        assert_int_not_equal(run(cases[i].src, NULL, &err), HY_OK);
        assert_string_equal(err.msg, cases[i].msg);
    }
}

static char *repeated(const char *head, const char *piece, size_t n, const char *tail)
{
    hy_buf b = { 0 };
    hy_buf_str(&b, head);
    for (size_t i = 0; i < n; i++) hy_buf_str(&b, piece);
    hy_buf_str(&b, tail);
    assert_false(b.failed);
    return b.data;
}

/* Whatever a template does, it ends: with a message, not with a crash. */
static void test_bounds(void **state)
{
    static const char *const greedy[] = {
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        "{% for a in range(100000) %}{{ 'x' * 10000 }}{% endfor %}",
        "{% set n = namespace(s='ab') %}{% for a in range(64) %}{% set n.s = n.s + n.s %}{% endfor %}",
        "{{ 'x' * 9000000000 }}",
        "{{ [0] * 900000000 }}",
        "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
        "{% macro f(x) %}{% for i in [1] %}{% if true %}{{ f([x]) }}{% endif %}{% endfor %}{% endmacro %}{{ f(1) }}",
        "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% set n = namespace() %}{% set n.n = n %}{{ n }}",
        "{% set n = namespace(l=[]) %}{% for a in range(9999) %}{% set n.l = [n.l] %}{% endfor %}{{ n.l }}",
        "{% set n = namespace(l=[]) %}{% for a in range(9999) %}{% set n.l = [n.l] %}{% endfor %}{{ n.l == [n.l] }}",
        "{% set n = namespace(l=[]) %}{% for a in range(9999) %}{% set n.l = [n.l] %}{% endfor %}{{ n.l|tojson }}",
        "{% set n = namespace(l=(1,)) %}{% for a in range(9999) %}{% set n.l = (n.l,) %}{% endfor %}{{ {n.l: 1} }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '{:999999999}'.format(1) }}",
        "{{ 'a'.center(9000000000) }}",
        "{{ range(0, 9223372036854775807) }}",
        "{{ 9223372036854775807 + 1 }}",
        "{{ -9223372036854775807 - 2 }}",
        "{{ 3 ** 999 }}",
        "{{ 9223372036854775808 }}",
        "{{ 1|lipsum }}",
    };
    for (size_t i = 0; i < HY_COUNT(greedy); i++) {
        hy_err err = { 0 };
        if (run(greedy[i], NULL, &err) == HY_OK) fail_msg("no error: %s", greedy[i]);
        assert_memory_equal(err.msg, "line ", 5);
    }
    static const struct {
        const char *head, *piece, *tail;
    } deep[] = {
        { "{{ ", "(", "" }, { "{{ ", "[", "" }, { "{{ ", "{1:", "" }, { "{{ ", "-", "1 }}" },
        { "{{ ", "not ", "1 }}" }, { "", "{% if 1 %}", "" }, { "", "{% for x in y %}", "" },
        { "{{ 1", " + 1", " }}" }, { "{{ 1", " if 1 else 1", " }}" }, { "{{ 1", "|abs", " }}" },
        { "{{ a", ".b", " }}" }, { "{{ a", "()", " }}" }, { "{{ 1", " is odd is odd", " }}" },
        { "{{ 1", "**1", " }}" }, { "{{ 1", "/1", " }}" }, { "{% set ", "(", "" },
        { "{% filter upper", "|upper", "%}{% endfilter %}" },
    };
    for (size_t i = 0; i < HY_COUNT(deep); i++) {
        hy_err err = { 0 };
        char *src = repeated(deep[i].head, deep[i].piece, 100000, deep[i].tail);
        assert_int_not_equal(run(src, NULL, &err), HY_OK);
        hy_free(src);
    }
}

static void test_limits(void **state)
{
    hy_err err = { 0 };
    hy_template_limits steps = { .max_steps = 100 }, output = { .max_output = 9 },
                       memory = { .max_memory = 64 * HY_KIB }, depth = { .max_depth = 3 };
    assert_int_equal(run("{% for a in range(10) %}{% endfor %}", &steps, &err), HY_OK);
    assert_int_equal(run("{% for a in range(200) %}{% endfor %}", &steps, &err), HY_E_LIMIT);
    assert_int_equal(run("123456789", &output, &err), HY_OK);
    assert_int_equal(run("1234567890", &output, &err), HY_E_LIMIT);
    assert_int_equal(run("{% set a = 'x' * 60000 %}", &memory, &err), HY_OK);
    assert_int_equal(run("{% set a = 'x' * 70000 %}", &memory, &err), HY_E_LIMIT);
    const char *m = "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(2) }}";
    assert_int_equal(run(m, &depth, &err), HY_OK);
    depth.max_depth = 2;
    assert_int_equal(run(m, &depth, &err), HY_E_LIMIT);
}

/* The n-th allocation fails, for every n: an error or the right text, nothing lost. */
static void test_out_of_memory(void **state)
{
    static const char src[] = "{% macro m(a, b=[1,2]) %}{{ a ~ b|join('-') }}{% endmacro %}"
                              "{% set x %}{{ m('é'|upper) }}{% endset %}{{ x * 50000 }}";
    json_t *vars = json_pack("{s:[s,i,b]}", "v", "text", 5, 1);
    bool done = false;
    for (int64_t i = 0; i < 2000 && !done; i++) {
        hy_buf out = { 0 };
        hy_err err = { 0 };
        bool raised;
        hy_alloc_fail_after(i);
        hy_status st = render(src, sizeof src - 1, vars, &out, &raised, &err);
        hy_alloc_fail_after(-1);
        if (st != HY_OK) assert_int_equal(st, HY_E_MEMORY);
        else if (i > 3) done = out.len == 50000 * 5;
        hy_buf_free(&out);
    }
    assert_true(done);
    json_decref(vars);
}

/* What was in the buffer stays before the text, and alone after a failure. */
static void test_appends(void **state)
{
    hy_template *t = NULL;
    hy_err err;
    hy_buf out = { 0 };
    hy_buf_str(&out, "before ");
    assert_int_equal(hy_template_parse(&t, "a{{ 1 // x }}", 13, &err), HY_OK);
    json_t *one = json_pack("{s:i}", "x", 1), *zero = json_pack("{s:i}", "x", 0);
    assert_int_equal(hy_template_render(t, zero, noon, NULL, &out, NULL, &err), HY_E_FORMAT);
    assert_string_equal(out.data, "before ");
    assert_int_equal(hy_template_render(t, one, noon, NULL, &out, NULL, &err), HY_OK);
    assert_string_equal(out.data, "before a1");
    assert_int_equal(hy_template_render(t, json_true(), noon, NULL, &out, NULL, &err), HY_E_ARG);
    json_decref(one);
    json_decref(zero);
    hy_buf_free(&out);
    hy_template_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat_templates), cmocka_unit_test(test_language),
        cmocka_unit_test(test_messages),       cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_limits),         cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_appends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
