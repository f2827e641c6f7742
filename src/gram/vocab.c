/* The vocabulary as a trie in order of breadth, with sets of tokens by kind of character and by
 * length. */
#include "gram/run.h"
#include <stdlib.h>

enum { N_VOCAB_MAX = 1 << 24 };

uint32_t hy_cat_of(uint8_t c)
{
    static const char single[] = "\"\\<>{}[](),.:;-_/'`*#|";
    const char *at;
    if (c >= 'a' && c <= 'z') return 0;
    if (c >= 'A' && c <= 'Z') return 1;
    if (c >= '0' && c <= '9') return 2;
    if (c == ' ') return 3;
    if (c == '\n') return 4;
    if (c == '\t' || c == '\r') return 6;
    if (c < 0x20) return 5;
    if (c < 0x80 && (at = strchr(single, c))) return 7 + (uint32_t)(at - single);
    return HY_CAT_OTHER;
}

static uint32_t kinds_of(const char *s, size_t n, uint32_t *runes)
{
    uint32_t kinds = 0, rune;
    *runes = 0;
    for (size_t i = 0; i < n; ++*runes) {
        uint8_t c = (uint8_t)s[i];
        if (c < 0x80) {
            kinds |= 1u << hy_cat_of(c);
            i++;
            continue;
        }
        size_t k = hy_utf8_next(s + i, n - i, &rune);
        if (rune == HY_RUNE_BAD)
            *runes += (uint32_t)k - 1; /* no fewer characters than it can be part of */
        kinds |= 1u << (rune == HY_RUNE_BAD ? HY_CAT_BROKEN : HY_CAT_WIDE);
        i += k;
    }
    return kinds;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static hy_status read_pieces(hy_gram_vocab *v, const hy_gram_vocab_source *src, hy_buf *text,
                             hy_err *err)
{
    for (uint32_t id = 0; id < src->n_vocab; id++) {
        uint32_t flags = 0;
        size_t at = text->len;
        v->text_at[id] = (uint32_t)at;
        hy_buf_char(text, (char)0xFF); /* control tokens: no text has this byte */
        HY_TRY(src->piece(src->ctx, (int32_t)id, text, &flags, err));
        if (text->failed) return hy_fail_memory(err, "vocabulary", text->len);
        if (text->len > UINT32_MAX - 1)
            return hy_fail(err, HY_E_LIMIT, "vocabulary: texts of more than 4 GiB");
        size_t n = text->len - at - 1;
        bool control = flags & HY_GRAM_TOK_CONTROL;
        /* an ordinary token with that byte would stand for the beginning of a control token */
        bool never =
            flags & HY_GRAM_TOK_NEVER || (!control && n && memchr(text->data + at + 1, 0xFF, n));
        if (n == 0 || n > HY_TOKEN_MAX - 2 || never) {
            text->len = at;
        } else if (control) {
            hy_buf_char(text, (char)0xFF);
        } else {
            memmove(text->data + at, text->data + at + 1, n);
            text->len--;
        }
    }
    v->text_at[src->n_vocab] = (uint32_t)text->len;
    return text->failed ? hy_fail_memory(err, "vocabulary", text->len) : HY_OK;
}

static int by_text(const void *a, const void *b, void *ctx)
{
    const hy_gram_vocab *v = ctx;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    uint32_t nx = v->text_at[x + 1] - v->text_at[x], ny = v->text_at[y + 1] - v->text_at[y];
    int c = memcmp(v->text + v->text_at[x], v->text + v->text_at[y], HY_MIN(nx, ny));
    if (c) return c;
    if (nx != ny) return nx < ny ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* ---- the trie -------------------------------------------------------------------------------- */

typedef struct range {
    uint32_t lo, hi, depth;
} range; /* of the sorted tokens: those below a node */
typedef struct growing {
    range *r;
    uint8_t *byte;
    uint32_t *child, *tok;
    size_t n, cap;
} growing;

static bool grow(growing *g)
{
    if (g->n + 2 < g->cap) return true;
    size_t cap = HY_MAX(g->cap * 2, (size_t)4096);
    range *r = hy_realloc_array(g->r, cap, sizeof *r);
    if (r) g->r = r;
    uint8_t *byte = hy_realloc_array(g->byte, cap, 1);
    if (byte) g->byte = byte;
    uint32_t *child = hy_realloc_array(g->child, cap, sizeof *child);
    if (child) g->child = child;
    uint32_t *tok = hy_realloc_array(g->tok, cap, sizeof *tok);
    if (tok) g->tok = tok;
    if (!r || !byte || !child || !tok) return false;
    g->cap = cap;
    return true;
}

static bool build_trie(hy_gram_vocab *v, growing *g, const uint32_t *sorted, uint32_t n)
{
    uint32_t n_tok = 0;
    if (!grow(g)) return false;
    g->r[0] = (range){0, n, 0};
    g->byte[0] = 0;
    g->n = 1;
    for (size_t i = 0; i < g->n; i++) {
        range x = g->r[i];
        g->child[i] = (uint32_t)g->n;
        g->tok[i] = n_tok;
        for (; x.lo < x.hi && v->text_at[sorted[x.lo] + 1] - v->text_at[sorted[x.lo]] == x.depth;
             x.lo++)
            v->token[n_tok++] = (int32_t)sorted[x.lo];
        while (x.lo < x.hi) {
            uint8_t b = (uint8_t)v->text[v->text_at[sorted[x.lo]] + x.depth];
            uint32_t end = x.lo + 1;
            while (end < x.hi && (uint8_t)v->text[v->text_at[sorted[end]] + x.depth] == b) end++;
            if (!grow(g)) return false;
            g->byte[g->n] = b;
            g->r[g->n++] = (range){x.lo, end, x.depth + 1};
            x.lo = end;
        }
    }
    g->child[g->n] = (uint32_t)g->n;
    g->tok[g->n] = n_tok;
    v->n_node = (uint32_t)g->n;
    return true;
}

static void set_bit(uint32_t *bits, uint32_t i) { bits[i / 32] |= 1u << i % 32; }

/* Sets of tokens by kind and by length; the kinds below every node. */
static void build_sets(hy_gram_vocab *v, const uint32_t *kinds, const uint8_t *runes)
{
    for (uint32_t i = 0; i < v->tok[v->n_node]; i++) {
        uint32_t id = (uint32_t)v->token[i];
        set_bit(v->known, id);
        for (uint32_t c = 0; c < HY_N_CAT; c++)
            if (kinds[id] >> c & 1) set_bit(v->with + (size_t)c * v->n_words, id);
        for (uint32_t k = 0; k < HY_LONG && k < runes[id]; k++)
            set_bit(v->longer + (size_t)k * v->n_words, id);
        v->max_runes = HY_MAX(v->max_runes, runes[id]);
    }
    for (uint32_t n = v->n_node; n-- > 0;) {
        for (uint32_t k = v->tok[n]; k < v->tok[n + 1]; k++) v->kinds[n] |= kinds[v->token[k]];
        for (uint32_t c = v->child[n]; c < v->child[n + 1]; c++) v->kinds[n] |= v->kinds[c];
    }
    for (uint32_t want = HY_LONG; want <= v->max_runes; want++)
        for (uint32_t i = 0; i < v->tok[v->n_node]; i++)
            if (runes[v->token[i]] == want) {
                v->long_token[v->n_long] = v->token[i];
                v->long_kinds[v->n_long] = kinds[v->token[i]];
                v->long_runes[v->n_long++] = (uint8_t)want;
            }
}

static bool take(void *pp, size_t n, size_t size, uint64_t *bytes)
{
    void **p = pp;
    *p = hy_calloc(n + 1, size);
    *bytes += (n + 1) * size;
    return *p != NULL;
}

static hy_status build(hy_gram_vocab *v, uint32_t *sorted, uint32_t *kinds, uint8_t *runes,
                       growing *g, hy_err *err)
{
    uint32_t n = 0;
    for (uint32_t id = 0; id < v->n_vocab; id++) {
        uint32_t len = v->text_at[id + 1] - v->text_at[id], r;
        if (!len) continue;
        kinds[id] = kinds_of(v->text + v->text_at[id], len, &r);
        runes[id] = (uint8_t)HY_MIN(r, 255u);
        sorted[n++] = id;
    }
    qsort_r(sorted, n, sizeof *sorted, by_text, v);
    if (!take(&v->token, n, sizeof *v->token, &v->bytes) || !build_trie(v, g, sorted, n) ||
        !take(&v->kinds, v->n_node, sizeof *v->kinds, &v->bytes) ||
        !take(&v->with, (size_t)HY_N_CAT * v->n_words, 4, &v->bytes) ||
        !take(&v->longer, (size_t)HY_LONG * v->n_words, 4, &v->bytes) ||
        !take(&v->known, v->n_words, 4, &v->bytes) || !take(&v->long_token, n, 4, &v->bytes) ||
        !take(&v->long_runes, n, 1, &v->bytes) || !take(&v->long_kinds, n, 4, &v->bytes))
        return hy_fail_memory(err, "vocabulary's trie", v->bytes);
    v->byte = g->byte;
    v->child = g->child;
    v->tok = g->tok;
    g->byte = NULL;
    g->child = g->tok = NULL;
    v->bytes += (uint64_t)g->cap * 9;
    build_sets(v, kinds, runes);
    return HY_OK;
}

static hy_status fill(hy_gram_vocab *v, const hy_gram_vocab_source *src, hy_err *err)
{
    hy_buf text = {0};
    uint64_t scratch = 0;
    v->n_vocab = src->n_vocab;
    v->n_words = (uint32_t)HY_GRAM_WORDS(src->n_vocab);
    if (!take(&v->text_at, src->n_vocab, 4, &v->bytes) || !take(&v->end, src->n_end, 4, &v->bytes))
        return hy_fail_memory(err, "vocabulary", v->bytes);
    if (src->n_end) memcpy(v->end, src->end, src->n_end * sizeof *src->end);
    v->n_end = src->n_end;
    hy_status st = read_pieces(v, src, &text, err);
    v->text = text.data;
    v->bytes += text.cap;
    if (st != HY_OK) return st;
    uint32_t *sorted = NULL, *kinds = NULL;
    uint8_t *runes = NULL;
    growing g = {0};
    if (take(&sorted, src->n_vocab, 4, &scratch) && take(&kinds, src->n_vocab, 4, &scratch) &&
        take(&runes, src->n_vocab, 1, &scratch))
        st = build(v, sorted, kinds, runes, &g, err);
    else
        st = hy_fail_memory(err, "vocabulary's trie", scratch);
    void *p[] = {sorted, kinds, runes, g.r, g.byte, g.child, g.tok};
    for (size_t i = 0; i < HY_COUNT(p); i++) hy_free(p[i]);
    return st;
}

hy_status hy_gram_vocab_open(hy_gram_vocab **out, const hy_gram_vocab_source *src, hy_err *err)
{
    if (src->n_vocab == 0 || src->n_vocab > N_VOCAB_MAX)
        return hy_fail(err, HY_E_LIMIT, "vocabulary of %u tokens; 1 to %d are possible",
                       src->n_vocab, N_VOCAB_MAX);
    hy_gram_vocab *v = HY_NEW(hy_gram_vocab);
    if (!v) return hy_fail_memory(err, "vocabulary", sizeof *v);
    v->bytes = sizeof *v;
    hy_status st = fill(v, src, err);
    if (st != HY_OK) {
        hy_gram_vocab_close(v);
        return st;
    }
    *out = v;
    return HY_OK;
}

void hy_gram_vocab_close(hy_gram_vocab *v)
{
    if (!v) return;
    void *p[] = {v->byte,       v->child,      v->tok,     v->kinds, v->token,
                 v->end,        v->with,       v->longer,  v->known, v->long_token,
                 v->long_runes, v->long_kinds, v->text_at, v->text};
    for (size_t i = 0; i < HY_COUNT(p); i++) hy_free(p[i]);
    hy_free(v);
}

uint64_t hy_gram_vocab_bytes(const hy_gram_vocab *v) { return v->bytes; }
