/* Shared by the tokenizer tests: files, ids from JSON, comparisons that say what differed. */
#ifndef TOK_HELP_H
#define TOK_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tok/tok.h"

static inline json_t *load(const char *path)
{
    json_error_t e;
    json_t *j = json_load_file(path, JSON_ALLOW_NUL, &e);
    if (!j) print_error("%s: %s\n", path, e.text);
    assert_non_null(j);
    return j;
}

static inline hy_tok *open_tok(const char *path)
{
    hy_tok *t = NULL;
    hy_err err = {0};
    if (hy_tok_open(&t, path, &err) != HY_OK) print_error("%s: %s\n", path, err.msg);
    assert_non_null(t);
    return t;
}

static inline bool same_ids(const hy_ids *got, const json_t *want)
{
    if (got->n != json_array_size(want)) return false;
    for (size_t i = 0; i < got->n; i++)
        if (got->id[i] != (int32_t)json_integer_value(json_array_get(want, i))) return false;
    return true;
}

static inline void print_ids(const char *what, const hy_ids *ids)
{
    print_error("%s:", what);
    for (size_t i = 0; i < ids->n && i < 60; i++) print_error(" %d", (int)ids->id[i]);
    print_error("\n");
}

/* Encodes; false (with a line) when the ids are not those wanted. */
static inline bool check_encode(const hy_tok *t, const char *name, const char *s, size_t n,
                                bool special, bool parse, const json_t *want)
{
    hy_ids ids = {0};
    hy_err err = {0};
    hy_status st = hy_tok_encode(t, s, n, special, parse, &ids, &err);
    bool good = st == HY_OK && same_ids(&ids, want);
    if (!good) {
        char *text = json_dumps(want, JSON_COMPACT);
        print_error("%s: special %d parse %d: %s\n  want %s\n", name, special, parse, err.msg,
                    text);
        print_ids("  got", &ids);
        free(text);
    }
    hy_ids_free(&ids);
    return good;
}

static inline void ids_of(const json_t *list, hy_ids *ids)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        assert_true(hy_ids_put(ids, (int32_t)json_integer_value(json_array_get(list, i))));
}

#endif
