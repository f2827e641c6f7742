/* Byte-pair encoding. Words are merged with a heap over a linked list of symbols, O(n log n)
 * (a word may be a whole megabyte); ties in rank go to the leftmost pair, as in the tokenizers
 * library and in SentencePiece. Short words are scanned instead, which is faster. */
#include "tok/tok_impl.h"
#include <string.h>

#define SCAN_MAX 24 /* symbols: below this a plain scan for the best pair beats the heap */

static uint32_t pair_hash(uint32_t left, uint32_t right)
{
    uint64_t x = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15ull;
    return (uint32_t)(x >> 32);
}

/* What two neighbours make. */
typedef struct merge {
    uint32_t rank;
    int32_t id;                 /* -1: nothing */
    uint32_t ref;               /* of tok_merge */
} merge;

static const tok_pair *find_pair(const tok_bpe *b, int32_t left, int32_t right)
{
    if (!b->n_slot || left < 0 || right < 0) return NULL;
    uint32_t at = pair_hash((uint32_t)left, (uint32_t)right) & (b->n_slot - 1);
    for (; b->pair[at].id >= 0; at = (at + 1) & (b->n_slot - 1))
        if (b->pair[at].left == (uint32_t)left && b->pair[at].right == (uint32_t)right)
            return &b->pair[at];
    return NULL;
}

static hy_status resize(tok_bpe *b, uint64_t n_slot, hy_err *err)
{
    if (n_slot > UINT32_MAX / 2) return hy_fail(err, HY_E_LIMIT, "too many merges");
    tok_pair *pair = hy_alloc_array((size_t)n_slot, sizeof *pair);
    if (!pair) return hy_fail_memory(err, "merges", n_slot * sizeof *pair);
    for (uint64_t i = 0; i < n_slot; i++) pair[i].id = -1;
    for (uint32_t i = 0; i < b->n_slot; i++) {
        if (b->pair[i].id < 0) continue;
        uint32_t at = pair_hash(b->pair[i].left, b->pair[i].right) & ((uint32_t)n_slot - 1);
        while (pair[at].id >= 0) at = (at + 1) & ((uint32_t)n_slot - 1);
        pair[at] = b->pair[i];
    }
    hy_free(b->pair);
    b->pair = pair;
    b->n_slot = (uint32_t)n_slot;
    return HY_OK;
}

hy_status tok_bpe_begin(hy_tok *t, uint64_t n_pair, hy_err *err)
{
    uint64_t n_slot = 64;
    while (n_slot < n_pair * 2 && n_slot <= UINT32_MAX) n_slot *= 2;
    return resize(&t->bpe, n_slot, err);
}

hy_status tok_bpe_pair(hy_tok *t, uint32_t left, uint32_t right, uint32_t rank, int32_t id,
                       hy_err *err)
{
    tok_bpe *b = &t->bpe;
    if (b->n_pair + 1 > b->n_slot / 2) HY_TRY(resize(b, (uint64_t)b->n_slot * 2, err));
    uint32_t at = pair_hash(left, right) & (b->n_slot - 1);
    for (; b->pair[at].id >= 0; at = (at + 1) & (b->n_slot - 1)) {
        if (b->pair[at].left != left || b->pair[at].right != right) continue;
        b->pair[at].rank = rank; /* the later of two equal merges counts, as in tokenizers */
        b->pair[at].id = id;
        return HY_OK;
    }
    b->pair[at] = (tok_pair){left, right, rank, id};
    b->n_pair++;
    return HY_OK;
}

static bool one_rune(const tok_str *s, uint32_t *rune)
{
    return s->p && s->n && s->n <= 4 && hy_utf8_next(s->p, s->n, rune) == s->n && *rune != HY_RUNE_BAD;
}

/* SentencePiece matches only these kinds of pieces while merging. */
static bool is_merged_kind(uint8_t flags)
{
    return !(flags & (HY_TOK_CONTROL | HY_TOK_BYTE | HY_TOK_UNKNOWN));
}

hy_status tok_bpe_runes(hy_tok *t, hy_err *err)
{
    tok_bpe *b = &t->bpe;
    if (!b->rune_id) b->rune_id = hy_alloc_array(TOK_RUNES, sizeof *b->rune_id);
    if (!b->rune_id) return hy_fail_memory(err, "character index", TOK_RUNES * sizeof(int32_t));
    for (uint32_t i = 0; i < TOK_RUNES; i++) b->rune_id[i] = -1;
    for (uint32_t i = t->vocab.n; i-- > 0;) {
        uint32_t rune;
        if (b->sentencepiece && !is_merged_kind(t->vocab.flags[i])) continue;
        if (one_rune(&t->vocab.str[i], &rune) && rune < TOK_RUNES) b->rune_id[rune] = (int32_t)i;
    }
    return HY_OK;
}

/* Long junk in a hostile vocabulary must not cost quadratic time. */
#define SP_PIECE_MAX 4096

/* Any two symbols whose text is a token merge, the better score first: a table of such pairs would only repeat the
 * vocabulary (262,144 tokens, Zen 4: 16 MiB, and 0.5 s until it is read instead of 0.05; long texts are encoded a fifth
 * faster with it). */
hy_status tok_bpe_from_scores(hy_tok *t, hy_err *err)
{
    t->bpe.sentencepiece = true;
    return tok_bpe_runes(t, err);
}

/* Scores (32 bits in the files) as ranks: the better, the smaller. */
static uint32_t rank_of(double score)
{
    float x = (float)score + 0.0f; /* -0 is 0 */
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 31 ? bits : ~(bits | 1u << 31);
}

static merge find_token(const hy_tok *t, const char *s, const tok_sym *a, const tok_sym *b)
{
    uint32_t n = a->len + b->len;
    if (a->id < -1 || b->id < -1 || n > SP_PIECE_MAX) return (merge){.id = -1};
    int32_t id = tok_vocab_find(&t->vocab, s + a->from, n);
    if (id < 0 || !is_merged_kind(t->vocab.flags[id])) return (merge){.id = -1};
    return (merge){rank_of(tok_vocab_score(&t->vocab, (uint32_t)id)), id, n};
}

/* s: the word. */
static merge find_merge(const hy_tok *t, const char *s, const tok_sym *a, const tok_sym *b)
{
    if (t->bpe.sentencepiece) return find_token(t, s, a, b);
    const tok_pair *p = find_pair(&t->bpe, a->id, b->id);
    return p ? (merge){p->rank, p->id, (uint32_t)(p - t->bpe.pair)} : (merge){.id = -1};
}

/* User-defined symbols as they look after normalising: GGUF stores U+2581 as a space in them. */
hy_status tok_frozen_build(hy_tok *t, bool spaces, hy_err *err)
{
    tok_entry *e = hy_alloc_array(t->vocab.n ? t->vocab.n : 1, sizeof *e);
    hy_status s = e ? HY_OK : hy_fail_memory(err, "user-defined tokens", t->vocab.n * sizeof *e);
    hy_buf text = {0};
    size_t n = 0;
    for (uint32_t i = 0; s == HY_OK && i < t->vocab.n; i++) {
        const tok_str *str = &t->vocab.str[i];
        if (!(t->vocab.flags[i] & HY_TOK_USER)) continue;
        hy_buf_reset(&text);
        for (uint32_t k = 0; k < str->n; k++) {
            if (spaces && str->p[k] == ' ')
                hy_buf_str(&text, "\xE2\x96\x81");
            else
                hy_buf_char(&text, str->p[k]);
        }
        e[n].str = text.failed ? (tok_str){0} : tok_copy(t, text.data, text.len);
        if (!e[n].str.p) s = hy_fail_memory(err, "user-defined token", str->n);
        e[n++].id = (int32_t)i;
    }
    if (s == HY_OK) s = tok_trie_build(&t->bpe.frozen, e, n, err);
    hy_buf_free(&text);
    hy_free(e);
    return s;
}

/* ---- encoding ---- */

static tok_sym *put_sym(tok_work *w, int32_t id, size_t from, size_t len)
{
    if (w->n_sym == w->cap_sym &&
        !tok_grow(w, (void **)&w->sym, &w->cap_sym, w->n_sym + 1, sizeof *w->sym))
        return NULL;
    int32_t i = (int32_t)w->n_sym++;
    w->sym[i] = (tok_sym){i - 1, i + 1, id, (uint32_t)from, (uint32_t)len};
    return &w->sym[i];
}

static int32_t char_id(const hy_tok *t, const char *s, size_t n, uint32_t rune)
{
    if (rune < TOK_RUNES) return t->bpe.rune_id[rune];
    int32_t id = tok_model_find(t, s, n);
    return id >= 0 && (!t->bpe.sentencepiece || is_merged_kind(t->vocab.flags[id])) ? id : -1;
}

/* With prefixes or suffixes the symbol of a character depends on its place in the word. */
static int32_t affixed_id(tok_work *w, const char *s, size_t n, bool first, bool last)
{
    const tok_bpe *b = &w->t->bpe;
    hy_buf name = {0};
    if (!first) hy_buf_put(&name, b->prefix.p, b->prefix.n);
    hy_buf_put(&name, s, n);
    if (last) hy_buf_put(&name, b->suffix.p, b->suffix.n);
    int32_t id = name.failed ? -1 : tok_model_find(w->t, name.data, name.len);
    w->failed |= name.failed;
    hy_buf_free(&name);
    return id;
}

/* An unknown character in a tokenizers BPE model: its bytes, or unk, or nothing. */
static void put_unknown(tok_work *w, const char *s, size_t from, size_t n, int32_t *last_unk)
{
    const hy_tok *t = w->t;
    bool bytes = t->byte_fallback;
    for (size_t i = 0; bytes && i < n; i++) bytes = t->byte_id[(uint8_t)s[from + i]] >= 0;
    if (bytes) {
        for (size_t i = 0; i < n; i++) put_sym(w, t->byte_id[(uint8_t)s[from + i]], from + i, 1);
        return;
    }
    if (t->unk < 0) return;
    if (t->bpe.fuse_unk && *last_unk >= 0 && *last_unk == (int32_t)w->n_sym - 1) {
        w->sym[*last_unk].len += (uint32_t)n;
        return;
    }
    if (put_sym(w, t->unk, from, n)) *last_unk = (int32_t)w->n_sym - 1;
}

static void make_symbols(tok_work *w, const char *s, size_t n)
{
    const hy_tok *t = w->t;
    bool affixes = t->bpe.prefix.n || t->bpe.suffix.n;
    int32_t last_unk = -1;
    w->n_sym = 0;
    for (size_t at = 0; at < n && !w->failed;) {
        size_t bytes = 0;
        int32_t frozen = tok_trie_longest(&t->bpe.frozen, s + at, n - at, &bytes);
        if (frozen >= 0) {
            put_sym(w, -2 - frozen, at, bytes); /* below -1: takes part in no merge */
            at += bytes;
            continue;
        }
        uint32_t rune;
        size_t len = hy_utf8_next(s + at, n - at, &rune);
        int32_t id = affixes ? affixed_id(w, s + at, len, at == 0, at + len == n)
                             : char_id(t, s + at, len, rune);
        if (id >= 0 || t->bpe.sentencepiece)
            put_sym(w, id, at, len);
        else
            put_unknown(w, s, at, len, &last_unk);
        at += len;
    }
    if (w->n_sym) w->sym[w->n_sym - 1].next = -1;
}

static void join(tok_work *w, int32_t left, int32_t id)
{
    tok_sym *a = &w->sym[left], *b = &w->sym[a->next];
    a->id = id;
    a->len += b->len;
    b->len = 0;
    a->next = b->next;
    if (b->next >= 0) w->sym[b->next].prev = left;
}

static void merge_scan(tok_work *w, const char *s)
{
    merge cand[SCAN_MAX];
    int n = (int)w->n_sym;
    for (int i = 0; i + 1 < n; i++) cand[i] = find_merge(w->t, s, &w->sym[i], &w->sym[i + 1]);
    cand[n - 1].id = -1;
    for (;;) {
        int best = -1;
        for (int i = 0; i >= 0; i = w->sym[i].next)
            if (cand[i].id >= 0 && (best < 0 || cand[i].rank < cand[best].rank)) best = i;
        if (best < 0) return;
        join(w, best, cand[best].id);
        const tok_sym *a = &w->sym[best];
        if (a->next < 0) cand[best].id = -1;
        else cand[best] = find_merge(w->t, s, a, &w->sym[a->next]);
        if (a->prev >= 0) cand[a->prev] = find_merge(w->t, s, &w->sym[a->prev], a);
    }
}

/* A heap of four children: half the levels, and the children share a cache line. */
static void sift_down(tok_merge *h, size_t n, size_t i)
{
    tok_merge x = h[i];
    for (size_t c; (c = 4 * i + 1) < n; i = c) {
        size_t end = HY_MIN(c + 4, n);
        for (size_t k = c + 1; k < end; k++)
            if (h[k].key < h[c].key) c = k;
        if (x.key <= h[c].key) break;
        h[i] = h[c];
    }
    h[i] = x;
}

static void push(tok_work *w, const char *s, int32_t left)
{
    if (left < 0 || w->sym[left].next < 0) return;
    merge x = find_merge(w->t, s, &w->sym[left], &w->sym[w->sym[left].next]);
    if (x.id < 0) return;
    if (w->n_heap == w->cap_heap &&
        !tok_grow(w, (void **)&w->heap, &w->cap_heap, w->n_heap + 1, sizeof *w->heap))
        return;
    tok_merge m = {(uint64_t)x.rank << 32 | (uint32_t)left, x.id, x.ref};
    size_t i = w->n_heap++;
    for (; i && w->heap[(i - 1) / 4].key > m.key; i = (i - 1) / 4)
        w->heap[i] = w->heap[(i - 1) / 4];
    w->heap[i] = m;
}

/* One of the two symbols was merged since. Then (SentencePiece) both together have become longer. */
static bool out_of_date(const tok_work *w, const tok_merge *m, const tok_sym *a)
{
    if (!a->len || a->next < 0) return true;
    const tok_sym *b = &w->sym[a->next];
    if (w->t->bpe.sentencepiece) return a->len + b->len != m->ref;
    const tok_pair *p = &w->t->bpe.pair[m->ref];
    return (uint32_t)a->id != p->left || (uint32_t)b->id != p->right;
}

static void merge_heap(tok_work *w, const char *s)
{
    w->n_heap = 0;
    for (size_t i = 0; i + 1 < w->n_sym && !w->failed; i++) push(w, s, (int32_t)i);
    while (w->n_heap && !w->failed) {
        tok_merge m = w->heap[0];
        w->heap[0] = w->heap[--w->n_heap];
        if (w->n_heap) sift_down(w->heap, w->n_heap, 0);
        int32_t left = (int32_t)(uint32_t)m.key;
        if (out_of_date(w, &m, &w->sym[left])) continue;
        join(w, left, m.id);
        push(w, s, w->sym[left].prev);
        push(w, s, left);
    }
}

/* SentencePiece resolves unknown characters last: bytes, else one unk for a run of them. */
static void put_sentencepiece(tok_work *w, const char *s, hy_ids *out)
{
    const hy_tok *t = w->t;
    bool was_unk = false;
    for (int32_t i = w->n_sym ? 0 : -1; i >= 0; i = w->sym[i].next) {
        const tok_sym *a = &w->sym[i];
        int32_t id = a->id < -1 ? -2 - a->id : a->id;
        bool unk = id < 0;
        if (!unk)
            tok_put(w, out, id);
        else if (t->byte_fallback && tok_put_bytes(w, s + a->from, a->len, out))
            unk = false;
        else if (!was_unk && t->unk >= 0)
            tok_put(w, out, t->unk);
        was_unk = unk;
    }
}

void tok_bpe_word(tok_work *w, const char *s, size_t n, hy_ids *out)
{
    const hy_tok *t = w->t;
    if (!n) return;
    if (t->bpe.ignore_merges) {
        int32_t id = tok_model_find(t, s, n);
        if (id >= 0) {
            tok_put(w, out, id);
            return;
        }
    }
    make_symbols(w, s, n);
    if (w->failed || !w->n_sym) return;
    if (w->n_sym <= SCAN_MAX)
        merge_scan(w, s);
    else
        merge_heap(w, s);
    if (t->bpe.sentencepiece) {
        put_sentencepiece(w, s, out);
        return;
    }
    for (int32_t i = 0; i >= 0; i = w->sym[i].next) tok_put(w, out, w->sym[i].id);
}
