/* Ids to text: the bytes of a token, the streaming detokenizer, whole texts. */
#include "tok/tok_impl.h"
#include <inttypes.h>
#include <string.h>

static void put_replaced(const char *s, size_t n, tok_str from, tok_str to, hy_buf *out)
{
    for (size_t at = 0; at < n;) {
        if (from.n && n - at >= from.n && !memcmp(s + at, from.p, from.n)) {
            hy_buf_put(out, to.p, to.n);
            at += from.n;
        } else {
            hy_buf_char(out, s[at++]);
        }
    }
}

/* A token outside the byte-level alphabet stands for its own bytes. */
static void put_unmapped(const char *s, size_t n, hy_buf *out)
{
    uint32_t c;
    for (size_t at = 0; at < n;) {
        at += hy_utf8_next(s + at, n - at, &c);
        if (c == HY_RUNE_BAD || tok_bytes_unmap(c) < 0) {
            hy_buf_put(out, s, n);
            return;
        }
    }
    for (size_t at = 0; at < n;) {
        at += hy_utf8_next(s + at, n - at, &c);
        hy_buf_char(out, (char)tok_bytes_unmap(c));
    }
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The value of "<0xXX>", or -1. */
static int byte_token(const char *s, size_t n)
{
    if (n != 6 || memcmp(s, "<0x", 3) || s[5] != '>') return -1;
    int high = hex_digit(s[3]), low = hex_digit(s[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* WordPiece's clean-up of a space before punctuation and English endings, as in tokenizers. */
static void put_clean(hy_buf *in, hy_buf *out)
{
    static const char *const pair[][2] = {{" .", "."},     {" ?", "?"},           {" !", "!"},
                                          {" ,", ","},     {" ' ", "'"},          {" n't", "n't"},
                                          {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},
                                          {" 've", "'ve"}, {" 're", "'re"}};
    for (size_t i = 0; i < HY_COUNT(pair); i++) {
        hy_buf next = {0};
        put_replaced(in->data, in->len, (tok_str){pair[i][0], (uint32_t)strlen(pair[i][0])},
                     (tok_str){pair[i][1], (uint32_t)strlen(pair[i][1])}, &next);
        next.failed |= in->failed;
        hy_buf_free(in);
        *in = next;
    }
    hy_buf_put(out, in->data, in->len);
    out->failed |= in->failed;
}

static void put_word(const tok_dec *d, const char *s, size_t n, bool first, hy_buf *out)
{
    hy_buf word = {0};
    bool more = n >= d->from.n && d->from.n && !memcmp(s, d->from.p, d->from.n);
    if (d->kind == TOK_D_SP_WORD) {
        if (more && !first) hy_buf_char(&word, ' ');
        hy_buf_put(&word, more ? s + d->from.n : s, more ? n - d->from.n : n);
    } else if (first || !more) {
        if (!first) hy_buf_char(&word, ' ');
        hy_buf_put(&word, s, n);
    } else {
        hy_buf_put(&word, s + d->from.n, n - d->from.n);
    }
    if (d->cleanup && word.len)
        put_clean(&word, out);
    else
        hy_buf_put(out, word.data, word.len);
    out->failed |= word.failed;
    hy_buf_free(&word);
}

/* Metaspace: the replacement is a space; at the start of a text the added one is dropped. */
static void put_metaspace(const tok_dec *d, const char *s, size_t n, bool first, hy_buf *out)
{
    size_t skip =
        first && d->whole && n >= d->from.n && !memcmp(s, d->from.p, d->from.n) ? d->from.n : 0;
    put_replaced(s + skip, n - skip, d->from, d->to, out);
}

static void put_stripped(const tok_dec *d, const char *s, size_t n, hy_buf *out)
{
    size_t from = 0;
    for (uint32_t i = 0; i < d->n_start && n - from >= d->from.n && d->from.n; i++) {
        if (memcmp(s + from, d->from.p, d->from.n)) break;
        from += d->from.n;
    }
    for (uint32_t i = 0; i < d->n_stop && n - from >= d->from.n && d->from.n; i++) {
        if (memcmp(s + n - d->from.n, d->from.p, d->from.n)) break;
        n -= d->from.n;
    }
    hy_buf_put(out, s + from, n - from);
}

/* The token through the decoder's steps. `last` matters for suffixes only. */
static void put_token(const hy_tok *t, const char *s, size_t n, bool first, bool last, hy_buf *out)
{
    hy_buf now = {0}, next = {0};
    hy_buf_put(&now, s, n);
    for (uint32_t i = 0; i < t->n_dec; i++) {
        const tok_dec *d = &t->dec[i];
        hy_buf_reset(&next);
        switch (d->kind) {
        case TOK_D_BYTES:
            put_unmapped(now.data, now.len, &next);
            break;
        case TOK_D_REPLACE:
            put_replaced(now.data, now.len, d->from, d->to, &next);
            break;
        case TOK_D_METASPACE:
            put_metaspace(d, now.data, now.len, first, &next);
            break;
        case TOK_D_WORDPIECE:
        case TOK_D_SP_WORD:
            put_word(d, now.data, now.len, first, &next);
            break;
        case TOK_D_SUFFIX:
            put_replaced(now.data, now.len, d->from, last ? (tok_str){0} : d->to, &next);
            break;
        case TOK_D_STRIP:
            if (d->whole) continue;
            put_stripped(d, now.data, now.len, &next);
            break;
        case TOK_D_BYTE_FALLBACK: {
            int b = byte_token(now.data, now.len);
            if (b < 0) continue;
            hy_buf_char(&next, (char)b);
            break;
        }
        }
        hy_buf x = now;
        now = next;
        next = x;
        if (!now.data) hy_buf_reserve(&now, 1);
    }
    hy_buf_put(out, now.data, now.len);
    out->failed |= now.failed | next.failed;
    hy_buf_free(&now);
    hy_buf_free(&next);
}

static hy_status check_id(const hy_tok *t, int32_t id, hy_err *err)
{
    if (id >= 0 && (uint32_t)id < t->vocab.n) return HY_OK;
    return hy_fail(err, HY_E_ARG, "token id %" PRId32 " is outside the vocabulary of %" PRIu32, id,
                   t->vocab.n);
}

static bool is_hidden(const hy_tok *t, int32_t id, bool show_control)
{
    return !show_control && t->vocab.flags[id] & (HY_TOK_CONTROL | HY_TOK_UNKNOWN);
}

static hy_status piece(const hy_tok *t, int32_t id, bool show_control, bool first, bool last,
                       hy_buf *out, hy_err *err)
{
    HY_TRY(check_id(t, id, err));
    const tok_str *s = &t->vocab.str[id];
    if (!s->p || is_hidden(t, id, show_control)) return HY_OK;
    uint8_t flags = t->vocab.flags[id];
    /* in GGUF these are stored as they are written; so are user-defined ones in byte-level files */
    bool plain = !t->from_json && flags & (HY_TOK_CONTROL | HY_TOK_UNKNOWN);
    plain |= !t->from_json && flags & HY_TOK_USER && t->n_dec && t->dec[0].kind == TOK_D_BYTES;
    if (plain)
        hy_buf_put(out, s->p, s->n);
    else
        put_token(t, s->p, s->n, first, last, out);
    return out->failed ? hy_fail_memory(err, "decoding", out->len) : HY_OK;
}

hy_status hy_tok_piece(const hy_tok *t, int32_t id, bool show_control, hy_buf *out, hy_err *err)
{
    return piece(t, id, show_control, false, false, out, err);
}

/* ---- streaming ---- */

void hy_detok_init(hy_detok *d, const hy_tok *t, bool show_control)
{
    *d = (hy_detok){.tok = t, .show_control = show_control};
}

hy_status hy_detok_put(hy_detok *d, int32_t id, hy_buf *out, hy_err *err)
{
    hy_buf bytes = {0};
    hy_status s = piece(d->tok, id, d->show_control, false, false, &bytes, err);
    if (s == HY_OK && bytes.len) {
        d->started = true;
        hy_utf8_stream_put(&d->utf8, bytes.data, bytes.len, out);
    }
    hy_buf_free(&bytes);
    if (s == HY_OK && out->failed) s = hy_fail_memory(err, "decoding", out->len);
    return s;
}

void hy_detok_end(hy_detok *d, hy_buf *out) { hy_utf8_stream_end(&d->utf8, out); }

/* ---- whole texts ---- */

static bool has_step(const hy_tok *t, tok_dec_kind kind)
{
    for (uint32_t i = 0; i < t->n_dec; i++)
        if (t->dec[i].kind == kind) return true;
    return false;
}

/* tokenizers' ByteFallback: a run of byte tokens that is not UTF-8 gives one U+FFFD a byte. */
static void close_run(hy_buf *run, hy_buf *out)
{
    if (!run->len) return;
    if (hy_utf8_valid(run->data, run->len)) {
        hy_buf_put(out, run->data, run->len);
    } else {
        for (size_t i = 0; i < run->len; i++) hy_buf_str(out, "\xEF\xBF\xBD");
    }
    out->failed |= run->failed;
    hy_buf_reset(run);
}

static hy_status decode_all(const hy_tok *t, const int32_t *id, size_t n, bool show, hy_buf *out,
                            hy_err *err)
{
    bool runs = t->from_json && has_step(t, TOK_D_BYTE_FALLBACK), first = true;
    hy_buf run = {0};
    hy_status s = HY_OK;
    size_t last = n;
    while (last > 0 && check_id(t, id[last - 1], NULL) == HY_OK && is_hidden(t, id[last - 1], show))
        last--;
    for (size_t i = 0; i < n && s == HY_OK; i++) {
        s = check_id(t, id[i], err);
        if (s != HY_OK || is_hidden(t, id[i], show) || !t->vocab.str[id[i]].p) continue;
        const tok_str *str = &t->vocab.str[id[i]];
        int byte = runs ? byte_token(str->p, str->n) : -1;
        if (byte >= 0) {
            hy_buf_char(&run, (char)byte);
        } else {
            close_run(&run, out);
            s = piece(t, id[i], show, first, i + 1 == last, out, err);
        }
        first = false;
    }
    close_run(&run, out);
    hy_buf_free(&run);
    return s;
}

hy_status hy_tok_decode(const hy_tok *t, const int32_t *id, size_t n, bool show_control,
                        hy_buf *out, hy_err *err)
{
    hy_buf bytes = {0}, text = {0};
    hy_status s = decode_all(t, id, n, show_control, &bytes, err);
    if (s == HY_OK && bytes.len) hy_utf8_repair(bytes.data, bytes.len, &text);
    for (uint32_t i = 0; s == HY_OK && i < t->n_dec; i++) {
        if (t->dec[i].kind != TOK_D_STRIP || !t->dec[i].whole || !text.len) continue;
        hy_buf_reset(&bytes);
        put_stripped(&t->dec[i], text.data, text.len, &bytes);
        hy_buf x = text;
        text = bytes;
        bytes = x;
    }
    if (s == HY_OK) hy_buf_put(out, text.data, text.len);
    if (s == HY_OK && (bytes.failed || text.failed || out->failed))
        s = hy_fail_memory(err, "decoding", bytes.len);
    hy_buf_free(&bytes);
    hy_buf_free(&text);
    return s;
}
