/* Character classes and normal forms (over utf8proc), SentencePiece's precompiled charsmap. */
#include "tok/tok_impl.h"
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static utf8proc_category_t category(uint32_t c) { return utf8proc_category((utf8proc_int32_t)c); }

bool tok_is_space(uint32_t c)
{
    if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool tok_is_numeric(uint32_t c)
{
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

bool tok_is_punct(uint32_t c)
{
    if (c < 0x80)
        return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
               (c >= '{' && c <= '~');
    utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
}

bool tok_is_mark(uint32_t c)
{
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_ME;
}

bool tok_is_mn(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_MN; }

bool tok_is_other(uint32_t c)
{
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_CS ||
           k == UTF8PROC_CATEGORY_CO;
}

bool tok_is_letter(uint32_t c)
{
    utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

/* UTS #18, annex C: Alphabetic, M, Nd, Pc, Join_Control. Alphabetic is L, Nl, marks and the circled
 * and squared letters. */
bool tok_is_word(uint32_t c)
{
    utf8proc_category_t k = category(c);
    return tok_is_letter(c) || tok_is_mark(c) || k == UTF8PROC_CATEGORY_ND ||
           k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_PC || c == 0x200C || c == 0x200D ||
           (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
           (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

bool tok_is_digit(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }

/* The ranges that BERT calls Chinese, as the tokenizers library has them. */
bool tok_is_cjk(uint32_t c)
{
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
           (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

/* ---- normal forms ---- */

typedef struct marked {
    int32_t rune;
    uint32_t key; /* combining class << 24 would lose the order: class, then place */
    uint32_t place;
} marked;

static int by_class(const void *pa, const void *pb)
{
    const marked *a = pa, *b = pb;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    return (a->place > b->place) - (a->place < b->place);
}

/* Canonical ordering of one run of combining marks. Sorted, not bubbled: a text may be one long
 * run. */
static void order_run(tok_work *w, int32_t *rune, size_t n)
{
    bool sorted = true;
    for (size_t i = 1; i < n; i++)
        sorted &= utf8proc_get_property(rune[i - 1])->combining_class <=
                  utf8proc_get_property(rune[i])->combining_class;
    if (sorted) return;
    marked *m = hy_alloc_array(n, sizeof *m);
    if (!m) {
        w->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++)
        m[i] = (marked){rune[i], utf8proc_get_property(rune[i])->combining_class, (uint32_t)i};
    qsort(m, n, sizeof *m, by_class);
    for (size_t i = 0; i < n; i++) rune[i] = m[i].rune;
    hy_free(m);
}

static size_t decompose(tok_work *w, const char *s, size_t n, utf8proc_option_t options)
{
    size_t n_rune = 0;
    for (size_t at = 0; at < n && !w->failed;) {
        uint32_t c;
        at += hy_utf8_next(s + at, n - at, &c);
        if (c == HY_RUNE_BAD) c = 0xFFFD;
        if (n_rune + 32 > w->cap_rune &&
            !tok_grow(w, (void **)&w->rune, &w->cap_rune, n_rune + 32, sizeof *w->rune))
            return 0;
        int last = 0;
        utf8proc_ssize_t k =
            utf8proc_decompose_char((utf8proc_int32_t)c, w->rune + n_rune, 32, options, &last);
        if (k < 0 || k > 32) {
            w->rune[n_rune] = (int32_t)c;
            k = 1;
        }
        n_rune += (size_t)k;
    }
    for (size_t i = 0; i < n_rune;) {
        size_t end = i;
        while (end < n_rune && utf8proc_get_property(w->rune[end])->combining_class) end++;
        if (end > i + 1) order_run(w, w->rune + i, end - i);
        i = end + 1;
    }
    return n_rune;
}

void tok_normal_form(tok_work *w, const char *s, size_t n, tok_norm_kind form, hy_buf *out)
{
    bool plain = true; /* below U+00A0 every form is the text itself */
    for (size_t i = 0; i < n && plain; i++) plain = (unsigned char)s[i] < 0x80;
    if (plain) {
        hy_buf_put(out, s, n);
        return;
    }
    bool compat = form == TOK_N_NFKC || form == TOK_N_NFKD;
    bool compose = form == TOK_N_NFC || form == TOK_N_NFKC;
    utf8proc_option_t options = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE;
    if (compat) options |= UTF8PROC_COMPAT;
    size_t n_rune = decompose(w, s, n, options);
    if (w->failed) return;
    if (compose && n_rune) {
        utf8proc_ssize_t k = utf8proc_normalize_utf32(w->rune, (utf8proc_ssize_t)n_rune,
                                                      UTF8PROC_COMPOSE | UTF8PROC_STABLE);
        if (k >= 0) n_rune = (size_t)k;
    }
    for (size_t i = 0; i < n_rune; i++) {
        char c[4];
        hy_buf_put(out, c, hy_utf8_put((uint32_t)w->rune[i], c));
    }
}

/* ---- precompiled charsmap: 4 bytes of trie size, the trie (darts-clone units), the strings ----
 */

hy_status tok_charsmap_new(hy_tok *t, tok_charsmap **out, const uint8_t *data, size_t n,
                           bool longest, hy_err *err)
{
    if (n < 4)
        return hy_fail(err, HY_E_FORMAT, "precompiled charsmap: %zu bytes, at least 4 needed", n);
    uint32_t bytes = (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 |
                     (uint32_t)data[3] << 24;
    if (bytes > n - 4 || bytes % 4 || bytes < 4)
        return hy_fail(err, HY_E_FORMAT, "precompiled charsmap: trie of %u bytes in a map of %zu",
                       (unsigned)bytes, n);
    tok_charsmap *m = HY_ARENA_NEW(t->arena, tok_charsmap, 1);
    if (m) m->unit = HY_ARENA_NEW(t->arena, uint32_t, bytes / 4);
    if (m) m->text = hy_arena_strndup(t->arena, (const char *)data + 4 + bytes, n - 4 - bytes);
    if (!m || !m->unit || !m->text) return hy_fail_memory(err, "precompiled charsmap", n);
    m->n_unit = bytes / 4;
    m->n_text = n - 4 - bytes;
    m->longest = longest;
    for (size_t i = 0; i < m->n_unit; i++) {
        const uint8_t *p = data + 4 + i * 4;
        m->unit[i] =
            (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    }
    *out = m;
    return HY_OK;
}

static uint32_t unit_offset(uint32_t u) { return (u >> 10) << ((u & (1u << 9)) >> 6); }

/* The replacement of a prefix of s, or false. *used: bytes replaced. */
static bool map_prefix(const tok_charsmap *m, const char *s, size_t n, size_t *used, tok_str *to)
{
    bool found = false;
    size_t at = unit_offset(m->unit[0]);
    for (size_t i = 0; i < n; i++) {
        at ^= (uint8_t)s[i];
        if (at >= m->n_unit) break;
        uint32_t u = m->unit[at];
        if ((u & (1u << 31 | 0xFF)) != (uint8_t)s[i]) break;
        at ^= unit_offset(u);
        if (!(u >> 8 & 1)) continue;
        if (at >= m->n_unit) break;
        size_t text = m->unit[at] & 0x7FFFFFFF;
        if (text >= m->n_text) break;
        to->p = m->text + text;
        to->n = (uint32_t)strnlen(to->p, m->n_text - text);
        *used = i + 1;
        found = true;
        if (!m->longest) break;
    }
    return found;
}

/* SentencePiece: user-defined symbols are left as they are. */
static void run_longest(const tok_charsmap *m, const tok_trie *frozen, const char *s, size_t n,
                        hy_buf *out)
{
    for (size_t at = 0; at < n;) {
        uint32_t c;
        size_t used = hy_utf8_next(s + at, n - at, &c);
        bool kept = tok_trie_longest(frozen, s + at, n - at, &used) >= 0;
        tok_str to = {s + at, (uint32_t)used};
        if (!kept) map_prefix(m, s + at, n - at, &used, &to);
        hy_buf_put(out, to.p, to.n);
        at += used;
    }
}

/* The tokenizers library looks up whole graphemes below 6 bytes (any mapped prefix replaces all of
 * it), else single characters. */
static void run_grapheme(const tok_charsmap *m, const char *s, size_t n, hy_buf *out)
{
    if (n < 6) {
        size_t used;
        tok_str to;
        if (map_prefix(m, s, n, &used, &to)) {
            hy_buf_put(out, to.p, to.n);
            return;
        }
    }
    for (size_t at = 0; at < n;) {
        uint32_t c;
        size_t len = hy_utf8_next(s + at, n - at, &c), used;
        tok_str to = {s + at, (uint32_t)len};
        map_prefix(m, s + at, len, &used, &to);
        hy_buf_put(out, to.p, to.n);
        at += len;
    }
}

void tok_charsmap_run(tok_work *w, const tok_charsmap *m, const char *s, size_t n, hy_buf *out)
{
    if (m->longest) {
        run_longest(m, &w->t->bpe.frozen, s, n, out);
        return;
    }
    utf8proc_int32_t state = 0;
    uint32_t before = 0;
    size_t start = 0;
    for (size_t at = 0; at < n;) {
        uint32_t c;
        size_t len = hy_utf8_next(s + at, n - at, &c);
        if (at && utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)c,
                                                   &state)) {
            run_grapheme(m, s + start, at - start, out);
            start = at;
        }
        before = c;
        at += len;
    }
    if (n) run_grapheme(m, s + start, n - start, out);
}
