/* docs/api.md shows the server's own tables. With HY_WRITE_DOCS=1 they are written anew. */
#include "serve/anthropic.h"
#include "serve/openai.h"
#include "serve/responses.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PAGE HY_DATA "/../../docs/api.md"

static const struct { const char *name; const hy_field *rows; } tables[] = {
    { "fields chat", hy_chat_fields },           { "fields completions", hy_completion_fields },
    { "fields embeddings", hy_embedding_fields }, { "fields tokenize", hy_tokenize_fields },
    { "fields detokenize", hy_detokenize_fields }, { "fields template", hy_template_fields },
    { "fields messages", hy_messages_fields },    { "fields count", hy_count_fields },
    { "fields responses", hy_responses_fields },
};

static void put_routes(hy_buf *out)
{
    hy_buf_str(out, "| method | path | what |\n| --- | --- | --- |\n");
    for (const hy_route *r = hy_routes; r->method; r++)
        hy_buf_printf(out, "| %s | `%s` | %s |\n", r->method, r->path, r->doc);
}

static void put_section(const char *name, size_t n, hy_buf *out)
{
    if (n == 6 && !strncmp(name, "routes", n)) put_routes(out);
    for (size_t i = 0; i < HY_COUNT(tables); i++)
        if (strlen(tables[i].name) == n && !strncmp(tables[i].name, name, n)) hy_fields_doc(tables[i].rows, out);
}

/* The page with every "<!-- NAME -->" ... "<!-- end -->" filled from the tables. */
static void fill(const char *page, hy_buf *out)
{
    for (const char *at = page;;) {
        const char *mark = strstr(at, "<!-- ");
        if (!mark) {
            hy_buf_str(out, at);
            return;
        }
        const char *name = mark + 5, *close = strstr(name, " -->\n"), *end = strstr(name, "<!-- end -->");
        assert_non_null(close);
        assert_non_null(end);
        hy_buf_put(out, at, (size_t)(close + 5 - at));
        put_section(name, (size_t)(close - name), out);
        hy_buf_str(out, "<!-- end -->");
        at = end + 12;
    }
}

static void test_page_shows_the_tables(void **state)
{
    char *page = NULL;
    size_t n;
    hy_err err;
    hy_buf want = { 0 };
    assert_int_equal(hy_read_file(PAGE, 1 << 20, &page, &n, &err), HY_OK);
    fill(page, &want);
    assert_false(want.failed);
    if (getenv("HY_WRITE_DOCS")) {
        FILE *f = fopen(PAGE, "w");
        assert_non_null(f);
        assert_int_equal(fwrite(want.data, 1, want.len, f), want.len);
        assert_int_equal(fclose(f), 0);
    } else if (strcmp(page, want.data)) {
        fail_msg("docs/api.md is older than the tables: run HY_WRITE_DOCS=1 test_serve_docs");
    }
    hy_buf_free(&want);
    hy_free(page);
}

static void test_page_has_every_table(void **state)
{
    char *page = NULL, mark[64];
    size_t n;
    hy_err err;
    assert_int_equal(hy_read_file(PAGE, 1 << 20, &page, &n, &err), HY_OK);
    for (size_t i = 0; i < HY_COUNT(tables); i++) {
        snprintf(mark, sizeof mark, "<!-- %s -->", tables[i].name);
        assert_non_null(strstr(page, mark));
    }
    hy_free(page);
}

static void test_rows_say_what_they_mean(void **state)
{
    for (size_t i = 0; i < HY_COUNT(tables); i++)
        for (const hy_field *f = tables[i].rows; f->name; f++) {
            if (!f->doc || !f->doc[0] || strchr(f->doc, '|')) fail_msg("%s: no text, or one with a bar", f->name);
            for (const hy_field *k = tables[i].rows; k != f; k++)
                if (!strcmp(k->name, f->name)) fail_msg("%s: two rows", f->name);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page_shows_the_tables),
        cmocka_unit_test(test_page_has_every_table),
        cmocka_unit_test(test_rows_say_what_they_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
