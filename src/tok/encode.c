/* Text to ids: added tokens cut out, the steps run on what lies between. */
#include "tok/tok_impl.h"
#include <string.h>

#define TEXT_MAX (1u << 30) /* bytes; positions are 32 bit, the byte alphabet doubles the text */

void tok_work_init(tok_work *w, const hy_tok *t) { *w = (tok_work){.t = t}; }

void tok_work_free(tok_work *w)
{
    hy_buf_free(&w->repaired);
    hy_buf_free(&w->a);
    hy_buf_free(&w->b);
    hy_free(w->span);
    hy_free(w->span2);
    hy_free(w->sym);
    hy_free(w->heap);
    hy_free(w->best);
    hy_free(w->back);
    hy_free(w->back_id);
    hy_free(w->rune);
    if (w->match) pcre2_match_data_free(w->match);
    if (w->context) pcre2_match_context_free(w->context);
    if (w->stack) pcre2_jit_stack_free(w->stack);
}

bool tok_grow(tok_work *w, void **p, size_t *cap, size_t n, size_t size)
{
    if (n <= *cap) return true;
    size_t more = *cap ? *cap : 64;
    while (more < n) more *= 2;
    void *q = hy_realloc_array(*p, more, size);
    if (!q) {
        w->failed = true;
        return false;
    }
    *p = q;
    *cap = more;
    return true;
}

void tok_span_put(tok_work *w, size_t from, size_t to)
{
    if (from >= to) return;
    if (w->n_span2 == w->cap_span2 &&
        !tok_grow(w, (void **)&w->span2, &w->cap_span2, w->n_span2 + 1, sizeof *w->span2))
        return;
    w->span2[w->n_span2++] = (tok_span){(uint32_t)from, (uint32_t)to};
}

void tok_put(tok_work *w, hy_ids *out, int32_t id)
{
    if (!hy_ids_put(out, id)) w->failed = true;
}

bool tok_put_bytes(tok_work *w, const char *s, size_t n, hy_ids *out)
{
    for (size_t i = 0; i < n; i++)
        if (w->t->byte_id[(uint8_t)s[i]] < 0) return false;
    for (size_t i = 0; i < n; i++) tok_put(w, out, w->t->byte_id[(uint8_t)s[i]]);
    return true;
}

/* ---- added tokens ---- */

static uint32_t rune_before(const char *s, size_t at)
{
    size_t start = at - 1;
    while (start && ((unsigned char)s[start] & 0xC0) == 0x80) start--;
    uint32_t c;
    hy_utf8_next(s + start, at - start, &c);
    return c;
}

static uint32_t rune_at(const char *s, size_t n, size_t at)
{
    uint32_t c;
    hy_utf8_next(s + at, n - at, &c);
    return c;
}

static bool stands_alone(const char *s, size_t n, size_t from, size_t to)
{
    return (from == 0 || !tok_is_word(rune_before(s, from))) &&
           (to == n || !tok_is_word(rune_at(s, n, to)));
}

/* The next added token from *scan on: its place, spaces taken in as it asks, but not before `at`.
 * The search goes on behind the token itself: spaces that it took may be a token as well. */
static const tok_added *next_added(const hy_tok *t, const tok_trie *trie, const char *s, size_t n,
                                   size_t at, size_t *scan, bool parse_special, size_t *from,
                                   size_t *to)
{
    if (!trie->node) return NULL;
    for (size_t i = *scan; i < n;) {
        size_t bytes = 0;
        int32_t k = tok_trie_longest(trie, s + i, n - i, &bytes);
        if (k < 0) {
            i++;
            continue;
        }
        const tok_added *a = &t->added[k];
        if ((a->special && !parse_special) ||
            (a->single_word && !stands_alone(s, n, i, i + bytes))) {
            i += bytes; /* seen, but text: nothing else may match inside it */
            continue;
        }
        *from = a->lstrip ? HY_MAX(i, at) : i;
        *scan = *to = i + bytes;
        while (a->lstrip && *from > at && tok_is_space(rune_before(s, *from))) {
            --*from;
            while (*from > at && ((unsigned char)s[*from] & 0xC0) == 0x80) --*from;
        }
        while (a->rstrip && *to < n && tok_is_space(rune_at(s, n, *to))) {
            uint32_t c;
            *to += hy_utf8_next(s + *to, n - *to, &c);
        }
        if (*from >= *to) { /* the token before took all of it */
            i = *scan;
            continue;
        }
        return a;
    }
    return NULL;
}

/* ---- what lies between ---- */

static void encode_word(tok_work *w, const char *s, size_t n, hy_ids *out)
{
    switch (w->t->model) {
    case TOK_M_BPE:
        tok_bpe_word(w, s, n, out);
        break;
    case TOK_M_UNIGRAM:
        tok_unigram_word(w, s, n, out);
        break;
    case TOK_M_WORDPIECE:
        tok_wordpiece_word(w, s, n, out);
        break;
    case TOK_M_WORDLEVEL: {
        int32_t id = tok_model_find(w->t, s, n);
        if (id < 0) id = w->t->unk;
        if (id >= 0) tok_put(w, out, id);
        break;
    }
    }
}

static void drop_marks(hy_buf *b, const char *mark)
{
    size_t to = 0;
    for (size_t at = 0; at < b->len;) {
        if (b->len - at >= HY_TOK_MARK && !memcmp(b->data + at, mark, HY_TOK_MARK)) at += HY_TOK_MARK;
        else b->data[to++] = b->data[at++];
    }
    b->len = to;
}

/* w->a is normalised text without added tokens. */
static void encode_plain(tok_work *w, hy_ids *out)
{
    if (w->mark) drop_marks(&w->a, w->mark);
    tok_pre_run(w, w->t->pre, w->t->n_pre);
    for (size_t i = 0; i < w->n_span && !w->failed; i++)
        encode_word(w, w->a.data + w->span[i].from, w->span[i].to - w->span[i].from, out);
}

static void encode_fragment(tok_work *w, const char *s, size_t n, bool parse_special, hy_ids *out)
{
    const hy_tok *t = w->t;
    hy_buf_reset(&w->a);
    hy_buf_put(&w->a, s, n);
    w->failed |= w->a.failed;
    tok_norm_run(w, t->norm, t->n_norm);
    if (!t->added_norm.node || w->failed) {
        encode_plain(w, out);
        return;
    }
    hy_buf whole = w->a; /* w->a is the scratch of the parts */
    w->a = (hy_buf){0};
    bool at_start = w->at_start;
    size_t at = 0, scan = 0, from, to;
    while (scan < whole.len && !w->failed) {
        const tok_added *a = next_added(t, &t->added_norm, whole.data, whole.len, at, &scan,
                                        parse_special, &from, &to);
        if (!a) scan = whole.len;
        if (!a) from = to = whole.len > at ? whole.len : at;
        w->at_start = at_start && at == 0;
        if (from > at) {
            hy_buf_reset(&w->a);
            hy_buf_put(&w->a, whole.data + at, from - at);
            w->failed |= w->a.failed;
            encode_plain(w, out);
        }
        if (a) tok_put(w, out, a->id);
        at = HY_MAX(at, to);
    }
    hy_buf_free(&whole);
}

static hy_status encode_text(const hy_tok *t, const char *text, size_t n, bool add_special,
                             bool parse_special, const char *mark, hy_ids *out, hy_err *err)
{
    if (n > TEXT_MAX) return hy_fail(err, HY_E_LIMIT, "text of %zu bytes, limit %u", n, TEXT_MAX);
    tok_work w;
    tok_work_init(&w, t);
    w.mark = mark;
    size_t n_before = out->n;
    if (n && !hy_utf8_valid(text, n)) {
        hy_utf8_repair(text, n, &w.repaired);
        w.failed |= w.repaired.failed;
        text = w.repaired.data;
        n = w.repaired.len;
    }
    for (size_t i = 0; add_special && i < t->first.n; i++) tok_put(&w, out, t->first.id[i]);
    size_t at = 0, scan = 0, from, to;
    while (scan < n && !w.failed) {
        const tok_added *a =
            next_added(t, &t->added_raw, text, n, at, &scan, parse_special, &from, &to);
        if (!a) scan = n;
        if (!a) from = to = n > at ? n : at;
        w.at_start = at == 0;
        if (from > at) encode_fragment(&w, text + at, from - at, parse_special, out);
        if (a) tok_put(&w, out, a->id);
        at = HY_MAX(at, to);
    }
    for (size_t i = 0; add_special && i < t->last.n; i++) tok_put(&w, out, t->last.id[i]);
    bool failed = w.failed;
    tok_work_free(&w);
    if (!failed) return HY_OK;
    out->n = n_before;
    return hy_fail_memory(err, "tokenizing", n);
}

hy_status hy_tok_encode(const hy_tok *t, const char *text, size_t n, bool add_special,
                        bool parse_special, hy_ids *out, hy_err *err)
{
    return encode_text(t, text, n, add_special, parse_special, NULL, out, err);
}

hy_status hy_tok_encode_marked(const hy_tok *t, const char *text, size_t n, const char *mark, hy_ids *out,
                               hy_err *err)
{
    return encode_text(t, text, n, false, true, mark, out, err);
}

static bool spells_control(const hy_tok *t, const tok_trie *trie, const char *s, size_t n)
{
    size_t bytes = 0;
    int32_t k = trie->node ? tok_trie_longest(trie, s, n, &bytes) : -1;
    return k >= 0 && t->added[k].special && bytes > 1;
}

bool hy_tok_mark(const hy_tok *t, const char *mark, const char *s, size_t n, hy_buf *out)
{
    bool any = false;
    size_t from = 0; /* bytes before it are written */
    for (size_t i = 0; i < n;) {
        uint32_t c;
        size_t k = hy_utf8_next(s + i, n - i, &c);
        bool hit = spells_control(t, &t->added_raw, s + i, n - i) || spells_control(t, &t->added_norm, s + i, n - i);
        i += k;
        if (!hit) continue;
        hy_buf_put(out, s + from, i - from);
        hy_buf_put(out, mark, HY_TOK_MARK);
        from = i;
        any = true;
    }
    hy_buf_put(out, s + from, n - from);
    return any;
}
