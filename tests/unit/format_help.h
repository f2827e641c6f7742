/* What a parser says of a text, as one string: adjacent pieces of one kind joined. */
#ifndef FORMAT_HELP_H
#define FORMAT_HELP_H

#include "serve/format.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct said {
    hy_buf all;                /* "C:text" "R:text" "K:name" "A:arguments", a \x1f before each */
    hy_buf content, reasoning;
    hy_buf args[16];
    char name[16][80], id[16][128];
    uint32_t n_call;
    int last;                  /* kind of the last piece, with its call */
} said;

static void said_piece(void *ctx, const hy_piece *p)
{
    static const char letter[] = "CRKA";
    said *s = ctx;
    int kind = (int)p->kind + 4 * (int)p->i_call * (p->kind >= HY_PIECE_CALL);
    if (kind != s->last || p->kind == HY_PIECE_CALL) hy_buf_printf(&s->all, "\x1f%c:", letter[p->kind]);
    s->last = kind;
    if (p->kind == HY_PIECE_CALL) {
        assert_int_equal(p->i_call, s->n_call);
        assert_true(s->n_call < 16);
        snprintf(s->name[s->n_call], sizeof s->name[0], "%s", p->name);
        snprintf(s->id[s->n_call++], sizeof s->id[0], "%s", p->id);
        hy_buf_printf(&s->all, "%s %s", p->name, p->id);
        return;
    }
    hy_buf_put(&s->all, p->text, p->n);
    if (p->kind == HY_PIECE_CONTENT) hy_buf_put(&s->content, p->text, p->n);
    if (p->kind == HY_PIECE_REASONING) hy_buf_put(&s->reasoning, p->text, p->n);
    if (p->kind == HY_PIECE_ARGS) {
        assert_true(p->i_call + 1 == s->n_call);
        hy_buf_put(&s->args[p->i_call], p->text, p->n);
    }
}

static void said_free(said *s)
{
    hy_buf_free(&s->all);
    hy_buf_free(&s->content);
    hy_buf_free(&s->reasoning);
    for (int i = 0; i < 16; i++) hy_buf_free(&s->args[i]);
}

/* Reads a text in parts of the given lengths; the rest at once. */
static void read_in_parts(said *s, const hy_chat_format *f, const json_t *tools, const char *prompt, const char *text,
                          size_t n, const size_t *part, size_t n_part)
{
    hy_err err = { 0 };
    hy_chat_parser *p = NULL;
    memset(s, 0, sizeof *s);
    s->last = -1;
    assert_int_equal(hy_chat_parser_open(&p, f, tools, prompt, 7, &err), HY_OK);
    size_t at = 0;
    for (size_t i = 0; i <= n_part; i++) {
        size_t k = i < n_part ? HY_MIN(part[i], n - at) : n - at;
        char *copy = malloc(k + 1); /* so that reading beyond a part is seen by the sanitizer */
        memcpy(copy, text + at, k);
        assert_int_equal(hy_chat_parser_put(p, copy, k, said_piece, s, &err), HY_OK);
        free(copy);
        at += k;
    }
    assert_int_equal(hy_chat_parser_end(p, said_piece, s, &err), HY_OK);
    assert_int_equal(hy_chat_parser_n_call(p), s->n_call);
    hy_chat_parser_close(p);
}

static const char *text_of(const hy_buf *b)
{
    return b->data ? b->data : "";
}

/* The same whatever the cuts: two parts at every place, byte by byte, and random parts. */
static inline void check_cuts(const hy_chat_format *f, const json_t *tools, const char *prompt, const char *text)
{
    said whole, cut;
    size_t n = strlen(text);
    read_in_parts(&whole, f, tools, prompt, text, n, NULL, 0);
    size_t *part = malloc((n + 1) * sizeof *part);
    for (size_t k = 0; k < n + 4; k++) {
        size_t n_part = 1;
        part[0] = k;
        if (k == n) { /* byte by byte */
            for (size_t i = 0; i < n; i++) part[i] = 1;
            n_part = n;
        } else if (k > n) {
            n_part = n;
            for (size_t i = 0; i < n; i++) part[i] = hy_rng_at(k, n, i) % (k == n + 1 ? 3 : 17);
        }
        read_in_parts(&cut, f, tools, prompt, text, n, part, n_part);
        if (strcmp(text_of(&whole.all), text_of(&cut.all)))
            fail_msg("%s: cut %zu of %zu of %s\n whole: %s\n cut:   %s", hy_chat_format_name(f), k, n, text,
                     text_of(&whole.all), text_of(&cut.all));
        said_free(&cut);
    }
    free(part);
    said_free(&whole);
}

#endif
