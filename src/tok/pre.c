/* Pre-tokenizer steps: cut the working text into spans (words). */
#include "tok/tok_impl.h"
#include <string.h>

/* ---- the byte-level alphabet (GPT-2): printable bytes stand for themselves, the others for the
 * characters from U+0100 on ---- */

static bool is_printable(unsigned b)
{
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
}

static uint32_t byte_rune(unsigned b)
{
    if (is_printable(b)) return b;
    if (b <= 0x20) return 0x100 + b;            /* 33 bytes: 0 .. 0x20 */
    if (b <= 0xA0) return 0x100 + 0x21 + b - 0x7F;
    return 0x100 + 0x43;                        /* 0xAD */
}

void tok_bytes_map(const char *s, size_t n, hy_buf *out)
{
    if (!hy_buf_reserve(out, n * 2)) return;
    for (size_t i = 0; i < n; i++) {
        uint32_t c = byte_rune((unsigned char)s[i]);
        if (c >= 0x80) {
            out->data[out->len++] = (char)(0xC0 | c >> 6);
            out->data[out->len++] = (char)(0x80 | (c & 0x3F));
        } else {
            out->data[out->len++] = (char)c;
        }
    }
    out->data[out->len] = 0;
}

int tok_bytes_unmap(uint32_t rune)
{
    if (rune < 0x100) return is_printable(rune) ? (int)rune : -1;
    if (rune <= 0x120) return (int)rune - 0x100;
    if (rune <= 0x142) return (int)rune - 0x121 + 0x7F;
    return rune == 0x143 ? 0xAD : -1;
}

/* ---- splitting ---- */

/* Joins pieces of one span as the behaviour says. */
typedef struct splitter {
    tok_work *w;
    tok_behavior behavior;
    bool started, last_match;
    size_t from, to;            /* the span being built */
    bool held;                  /* one is being built */
} splitter;

static void flush(splitter *p)
{
    if (p->held && p->to > p->from) tok_span_put(p->w, p->from, p->to);
    p->held = false;
}

static void hold(splitter *p, size_t from, size_t to)
{
    flush(p);
    p->from = from;
    p->to = to;
    p->held = true;
}

static void piece(splitter *p, size_t from, size_t to, bool match)
{
    switch (p->behavior) {
    case TOK_REMOVED:
        flush(p);
        if (!match) hold(p, from, to);
        break;
    case TOK_ISOLATED:
        hold(p, from, to);
        break;
    case TOK_CONTIGUOUS:
        if (p->held && p->last_match == match)
            p->to = to;
        else
            hold(p, from, to);
        break;
    case TOK_MERGED_PREVIOUS:
        if (match && p->held && !p->last_match)
            p->to = to;
        else
            hold(p, from, to);
        break;
    case TOK_MERGED_NEXT:
        /* a match waits for its follower; a second match in a row stands alone */
        if (p->held && p->last_match && !match)
            p->to = to;
        else
            hold(p, from, to);
        break;
    }
    p->last_match = match;
}

/* Cuts the span at the matches of `re`. */
static void split_regex(tok_work *w, const tok_pre *s, tok_span span)
{
    splitter p = { .w = w, .behavior = s->behavior };
    const char *text = w->a.data + span.from;
    size_t n = span.to - span.from, done = 0, at = 0, from, to;
    while (at <= n && tok_regex_find(s->re, w, text, n, at, &from, &to)) {
        if (from > done) piece(&p, span.from + done, span.from + from, s->invert);
        if (to > from) piece(&p, span.from + from, span.from + to, !s->invert);
        if (to == from && from > done) flush(&p);
        done = to;
        at = to;
        if (to == from) {
            if (at >= n) break;
            uint32_t c;
            at += hy_utf8_next(text + at, n - at, &c);
        }
    }
    if (done < n) piece(&p, span.from + done, span.to, s->invert);
    flush(&p);
}

/* Cuts at characters of a class. */
static void split_class(tok_work *w, tok_behavior behavior, bool (*is)(uint32_t), tok_span span)
{
    splitter p = { .w = w, .behavior = behavior };
    size_t start = span.from;
    for (size_t at = span.from; at < span.to;) {
        uint32_t c;
        size_t n = hy_utf8_next(w->a.data + at, span.to - at, &c);
        if (is(c)) {
            if (at > start) piece(&p, start, at, false);
            piece(&p, at, at + n, true);
            start = at + n;
        }
        at += n;
    }
    if (span.to > start) piece(&p, start, span.to, false);
    flush(&p);
}

static void swap_spans(tok_work *w)
{
    tok_span *s = w->span;
    size_t cap = w->cap_span;
    w->span = w->span2;
    w->n_span = w->n_span2;
    w->cap_span = w->cap_span2;
    w->span2 = s;
    w->cap_span2 = cap;
    w->n_span2 = 0;
}

static void swap_text(tok_work *w)
{
    hy_buf x = w->a;
    w->a = w->b;
    w->b = x;
    w->failed |= w->a.failed;
    swap_spans(w);
}

/* ByteLevel: an optional space in front, GPT-2's cuts, then the alphabet. */
static void run_bytes(tok_work *w, const tok_pre *s)
{
    if (s->prefix) {
        hy_buf_reset(&w->b);
        for (size_t i = 0; i < w->n_span && !w->failed; i++) {
            tok_span x = w->span[i];
            size_t from = w->b.len;
            if (w->a.data[x.from] != ' ') hy_buf_char(&w->b, ' ');
            hy_buf_put(&w->b, w->a.data + x.from, x.to - x.from);
            tok_span_put(w, from, w->b.len);
        }
        swap_text(w);
    }
    if (s->re) {
        tok_pre split = { .kind = TOK_P_SPLIT, .re = s->re, .behavior = TOK_ISOLATED };
        for (size_t i = 0; i < w->n_span && !w->failed; i++) split_regex(w, &split, w->span[i]);
        swap_spans(w);
    }
    hy_buf_reset(&w->b);
    for (size_t i = 0; i < w->n_span && !w->failed; i++) {
        size_t from = w->b.len;
        tok_bytes_map(w->a.data + w->span[i].from, w->span[i].to - w->span[i].from, &w->b);
        tok_span_put(w, from, w->b.len);
    }
    swap_text(w);
}

static void run_metaspace(tok_work *w, const tok_pre *s)
{
    hy_buf_reset(&w->b);
    for (size_t i = 0; i < w->n_span && !w->failed; i++) {
        tok_span x = w->span[i];
        const char *p = w->a.data + x.from;
        size_t n = x.to - x.from, from = w->b.len;
        bool has = (n && *p == ' ') || (n >= s->text.n && !memcmp(p, s->text.p, s->text.n));
        bool want = s->prefix || (s->prefix_first && w->at_start && x.from == 0);
        if (want && !has) hy_buf_put(&w->b, s->text.p, s->text.n);
        for (size_t k = 0; k < n; k++) {
            if (p[k] == ' ')
                hy_buf_put(&w->b, s->text.p, s->text.n);
            else
                hy_buf_char(&w->b, p[k]);
        }
        tok_span_put(w, from, w->b.len);
    }
    swap_text(w);
    if (!s->split) return;
    tok_pre split = { .kind = TOK_P_SPLIT, .re = s->re, .behavior = TOK_MERGED_NEXT };
    for (size_t i = 0; i < w->n_span && !w->failed; i++) split_regex(w, &split, w->span[i]);
    swap_spans(w);
}

/* \w+|[^\w\s]+ : runs of word characters, runs of the rest, spaces dropped. */
static void split_whitespace(tok_work *w, tok_span span)
{
    size_t start = span.from;
    int last = 0;
    for (size_t at = span.from; at < span.to;) {
        uint32_t c;
        size_t n = hy_utf8_next(w->a.data + at, span.to - at, &c);
        int kind = tok_is_word(c) ? 1 : tok_is_space(c) ? 0 : 2;
        if (kind != last) {
            if (last && at > start) tok_span_put(w, start, at);
            start = at;
            last = kind;
        }
        at += n;
    }
    if (last && span.to > start) tok_span_put(w, start, span.to);
}

static void run_class(tok_work *w, const tok_pre *s)
{
    for (size_t i = 0; i < w->n_span && !w->failed; i++) {
        tok_span x = w->span[i];
        if (s->kind == TOK_P_DIGITS)
            split_class(w, s->behavior, tok_is_numeric, x);
        else if (s->kind == TOK_P_PUNCT)
            split_class(w, s->behavior, tok_is_punct, x);
        else if (s->kind == TOK_P_WHITESPACE)
            split_whitespace(w, x);
        else
            split_class(w, TOK_REMOVED, tok_is_space, x);
    }
    swap_spans(w);
    if (s->kind != TOK_P_BERT) return;
    for (size_t i = 0; i < w->n_span && !w->failed; i++)
        split_class(w, TOK_ISOLATED, tok_is_punct, w->span[i]);
    swap_spans(w);
}

void tok_pre_run(tok_work *w, const tok_pre *step, uint32_t n)
{
    w->n_span2 = 0;
    if (w->a.len) tok_span_put(w, 0, w->a.len);
    swap_spans(w);
    for (uint32_t i = 0; i < n && !w->failed; i++) {
        const tok_pre *s = &step[i];
        if (s->kind == TOK_P_SPLIT) {
            for (size_t k = 0; k < w->n_span && !w->failed; k++) split_regex(w, s, w->span[k]);
            swap_spans(w);
        } else if (s->kind == TOK_P_BYTES) {
            run_bytes(w, s);
        } else if (s->kind == TOK_P_METASPACE) {
            run_metaspace(w, s);
        } else {
            run_class(w, s);
        }
    }
}
