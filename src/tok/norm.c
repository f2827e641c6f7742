/* Normaliser steps: each reads w->a and leaves its result there. */
#include "tok/tok_impl.h"
#include <string.h>
#include <utf8proc.h>

static void put_rune(hy_buf *out, uint32_t c)
{
    char s[4];
    hy_buf_put(out, s, hy_utf8_put(c, s));
}

static uint32_t next_rune(const hy_buf *b, size_t *at)
{
    uint32_t c;
    *at += hy_utf8_next(b->data + *at, b->len - *at, &c);
    return c == HY_RUNE_BAD ? 0xFFFD : c;
}

/* Full lower-casing of one character; U+0130 is the only one that grows. */
static void put_lower(hy_buf *out, uint32_t c)
{
    if (c == 0x130) {
        put_rune(out, 'i');
        put_rune(out, 0x307);
    } else {
        put_rune(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
    }
}

static void replace(tok_work *w, const tok_norm *s)
{
    size_t at = 0, from, to;
    while (at <= w->a.len && tok_regex_find(s->re, w, w->a.data, w->a.len, at, &from, &to)) {
        hy_buf_put(&w->b, w->a.data + at, from - at);
        hy_buf_put(&w->b, s->text.p, s->text.n);
        if (to == from) { /* an empty match: one character on */
            if (from >= w->a.len) return;
            uint32_t c;
            size_t n = hy_utf8_next(w->a.data + from, w->a.len - from, &c);
            hy_buf_put(&w->b, w->a.data + from, n);
            to += n;
        }
        at = to;
    }
    hy_buf_put(&w->b, w->a.data + at, w->a.len - at);
}

static void strip(tok_work *w, const tok_norm *s)
{
    size_t from = 0, to = w->a.len;
    while (s->left && from < to) {
        size_t next = from;
        if (!tok_is_space(next_rune(&w->a, &next))) break;
        from = next;
    }
    while (s->right && to > from) {
        size_t start = to - 1;
        while (start > from && ((unsigned char)w->a.data[start] & 0xC0) == 0x80) start--;
        size_t next = start;
        if (!tok_is_space(next_rune(&w->a, &next))) break;
        to = start;
    }
    hy_buf_put(&w->b, w->a.data + from, to - from);
}

/* SentencePiece's remove_extra_whitespaces: U+0020; at the end U+2581 as well, since it looks there
 * after the spaces have been written so. */
static void squeeze(tok_work *w)
{
    bool space = true;
    for (size_t i = 0; i < w->a.len; i++) {
        char c = w->a.data[i];
        if (c == ' ' && space) continue;
        space = c == ' ';
        hy_buf_char(&w->b, c);
    }
    while (w->b.len && !w->b.failed) {
        const char *end = w->b.data + w->b.len;
        size_t n = end[-1] == ' '                                         ? 1
                   : w->b.len >= 3 && !memcmp(end - 3, "\xE2\x96\x81", 3) ? 3
                                                                          : 0;
        if (!n) break;
        w->b.len -= n;
        w->b.data[w->b.len] = 0;
    }
}

static void swap(tok_work *w)
{
    hy_buf x = w->a;
    w->a = w->b;
    w->b = x;
    hy_buf_reset(&w->b);
    w->failed |= w->a.failed;
}

static void bert(tok_work *w, const tok_norm *s)
{
    if (s->clean || s->cjk) {
        for (size_t at = 0; at < w->a.len;) {
            uint32_t c = next_rune(&w->a, &at);
            bool blank = c == '\t' || c == '\n' || c == '\r';
            if (s->clean && (!c || c == 0xFFFD || (!blank && tok_is_other(c)))) continue;
            if (s->clean && tok_is_space(c)) c = ' ';
            bool wide = s->cjk && tok_is_cjk(c);
            if (wide) hy_buf_char(&w->b, ' ');
            put_rune(&w->b, c);
            if (wide) hy_buf_char(&w->b, ' ');
        }
        swap(w);
    }
    if (s->accents) {
        tok_normal_form(w, w->a.data, w->a.len, TOK_N_NFD, &w->b);
        swap(w);
        for (size_t at = 0; at < w->a.len;) {
            uint32_t c = next_rune(&w->a, &at);
            if (!tok_is_mn(c)) put_rune(&w->b, c);
        }
        swap(w);
    }
    if (s->lower) {
        for (size_t at = 0; at < w->a.len;) put_lower(&w->b, next_rune(&w->a, &at));
        swap(w);
    }
}

/* The clean-up that SentencePiece's nmt rules and tokenizers' Nmt share. */
static void nmt(tok_work *w)
{
    for (size_t at = 0; at < w->a.len;) {
        uint32_t c = next_rune(&w->a, &at);
        if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
            c == 0x9F)
            continue;
        bool space = c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 ||
                     (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xFEFF || c == 0xFFFD;
        put_rune(&w->b, space ? ' ' : c);
    }
}

static void run_one(tok_work *w, const tok_norm *s)
{
    switch (s->kind) {
    case TOK_N_NFC:
    case TOK_N_NFD:
    case TOK_N_NFKC:
    case TOK_N_NFKD:
        tok_normal_form(w, w->a.data, w->a.len, s->kind, &w->b);
        break;
    case TOK_N_LOWER:
        for (size_t at = 0; at < w->a.len;) put_lower(&w->b, next_rune(&w->a, &at));
        break;
    case TOK_N_REPLACE:
        replace(w, s);
        break;
    case TOK_N_PREPEND:
        hy_buf_put(&w->b, s->text.p, s->text.n);
        hy_buf_put(&w->b, w->a.data, w->a.len);
        break;
    case TOK_N_STRIP:
        strip(w, s);
        break;
    case TOK_N_STRIP_ACCENTS:
        for (size_t at = 0; at < w->a.len;) {
            uint32_t c = next_rune(&w->a, &at);
            if (!tok_is_mark(c)) put_rune(&w->b, c);
        }
        break;
    case TOK_N_BERT:
        bert(w, s);
        return;
    case TOK_N_NMT:
        nmt(w);
        break;
    case TOK_N_CHARSMAP:
        tok_charsmap_run(w, s->map, w->a.data, w->a.len, &w->b);
        break;
    case TOK_N_BYTES:
        tok_bytes_map(w->a.data, w->a.len, &w->b);
        break;
    case TOK_N_SQUEEZE:
        squeeze(w);
        break;
    }
    swap(w);
}

void tok_norm_run(tok_work *w, const tok_norm *step, uint32_t n)
{
    hy_buf_reset(&w->b);
    for (uint32_t i = 0; i < n && !w->failed; i++)
        if (w->a.len || (step[i].kind == TOK_N_PREPEND && step[i].left)) run_one(w, &step[i]);
}
