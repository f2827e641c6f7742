/* Helpers of the grammar tests: compiling, matching, lines of JSON. */
#ifndef HY_GRAM_HELP_H
#define HY_GRAM_HELP_H

#include "gram/gram.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline hy_status gram_compile(hy_gram **g, hy_gram_kind kind, const char *text,
                                     const char *schemas, hy_err *err)
{
    hy_gram_source s = {kind, text, strlen(text), schemas, schemas ? strlen(schemas) : 0};
    return hy_gram_compile(g, &s, err);
}

static inline hy_status gram_compile_json(hy_gram **g, const json_t *schema, hy_err *err)
{
    char *text = json_dumps(schema, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    assert_non_null(text);
    hy_status st = gram_compile(g, HY_GRAM_JSON_SCHEMA, text, NULL, err);
    free(text);
    return st;
}

static inline bool gram_matches(hy_gram *g, const char *text)
{
    bool m = false;
    hy_err err;
    hy_status st = hy_gram_match(g, text, strlen(text), &m, &err);
    if (st != HY_OK) fail_msg("matching %.200s: %s", text, err.msg);
    return m;
}

/* Calls fn for every line of a file; returns how many there were, or -1 if there is no file. */
static inline int each_line(const char *path, void (*fn)(json_t *o, void *ctx), void *ctx)
{
    FILE *f = fopen(path, "rb");
    if (!f) return -1;
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    int count = 0;
    while ((n = getline(&line, &cap, f)) >= 0) {
        json_error_t e;
        json_t *o = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, &e);
        if (!o) fail_msg("%s, line %d: %s", path, count + 1, e.text);
        fn(o, ctx);
        json_decref(o);
        count++;
    }
    free(line);
    fclose(f);
    return count;
}

#endif
