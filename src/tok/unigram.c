/* Unigram: the most probable way to cut a word (Viterbi, as in Kudo 2018), and WordPiece. */
#include "tok/tok_impl.h"
#include <math.h>
#include <string.h>

#define UNK_PENALTY 10.0 /* below the lowest score, as in SentencePiece and tokenizers */

static hy_status build_trie(hy_tok *t, bool (*use)(const hy_tok *, uint32_t), hy_err *err)
{
    tok_entry *e = hy_alloc_array(t->vocab.n ? t->vocab.n : 1, sizeof *e);
    if (!e) return hy_fail_memory(err, "token list", (uint64_t)t->vocab.n * sizeof *e);
    size_t n = 0;
    for (uint32_t i = 0; i < t->vocab.n; i++)
        if (t->vocab.str[i].p && use(t, i)) e[n++] = (tok_entry){t->vocab.str[i], (int32_t)i};
    hy_status s = tok_trie_build(&t->trie, e, n, err);
    hy_free(e);
    return s;
}

static bool use_unigram(const hy_tok *t, uint32_t i)
{
    if (!t->sp_unigram) return true;
    return !(t->vocab.flags[i] & (HY_TOK_CONTROL | HY_TOK_UNKNOWN | HY_TOK_BYTE | HY_TOK_UNUSED));
}

hy_status tok_unigram_build(hy_tok *t, hy_err *err)
{
    double low = 0, high = 0;
    bool any = false;
    for (uint32_t i = 0; i < t->vocab.n; i++) {
        if (!t->vocab.str[i].p || !use_unigram(t, i)) continue;
        double s = tok_vocab_score(&t->vocab, i);
        low = !any || s < low ? s : low;
        high = !any || s > high ? s : high;
        any = true;
    }
    t->unk_score = low - UNK_PENALTY;
    t->user_score = high;
    return build_trie(t, use_unigram, err);
}

static bool use_word(const hy_tok *t, uint32_t i) { return t->vocab.str[i].n > 0; }

hy_status tok_wordpiece_build(hy_tok *t, hy_err *err) { return build_trie(t, use_word, err); }

static double score_of(const hy_tok *t, int32_t id, size_t bytes)
{
    if (t->sp_unigram && t->vocab.flags[id] & HY_TOK_USER)
        return (double)bytes * t->user_score - 0.1;
    return tok_vocab_score(&t->vocab, (uint32_t)id);
}

/* SentencePiece adds in single precision, tokenizers in double: it decides ties. */
static double add(const hy_tok *t, double a, double b)
{
    return t->sp_unigram ? (double)((float)a + (float)b) : a + b;
}

static bool reserve(tok_work *w, size_t n)
{
    size_t cap = w->cap_best, cap_back = cap, cap_id = cap;
    bool good = tok_grow(w, (void **)&w->best, &cap, n, sizeof *w->best) &&
                tok_grow(w, (void **)&w->back, &cap_back, n, sizeof *w->back) &&
                tok_grow(w, (void **)&w->back_id, &cap_id, n, sizeof *w->back_id);
    if (good) w->cap_best = cap;
    return good;
}

/* Fills best/back/back_id: for every byte position the best path that ends there. */
static void viterbi(tok_work *w, const char *s, size_t n)
{
    const hy_tok *t = w->t;
    for (size_t i = 0; i <= n; i++) w->back[i] = UINT32_MAX;
    w->best[0] = 0;
    for (size_t at = 0; at < n;) {
        uint32_t rune, node = 0;
        size_t one = hy_utf8_next(s + at, n - at, &rune);
        bool has_one = false;
        for (size_t i = at; t->trie.node && i < n; i++) {
            node = tok_trie_step(&t->trie, node, (uint8_t)s[i]);
            if (!node) break;
            int32_t id = t->trie.node[node].id;
            if (id < 0) continue;
            double x = add(t, w->best[at], score_of(t, id, i + 1 - at));
            has_one |= i + 1 - at == one;
            if (w->back[i + 1] != UINT32_MAX && !(x > w->best[i + 1])) continue;
            w->best[i + 1] = x;
            w->back[i + 1] = (uint32_t)at;
            w->back_id[i + 1] = id;
        }
        double x = add(t, w->best[at], t->unk_score);
        if (!has_one && (w->back[at + one] == UINT32_MAX || x > w->best[at + one])) {
            w->best[at + one] = x;
            w->back[at + one] = (uint32_t)at;
            w->back_id[at + one] = -1;
        }
        at += one;
    }
}

void tok_unigram_word(tok_work *w, const char *s, size_t n, hy_ids *out)
{
    const hy_tok *t = w->t;
    if (!n || !reserve(w, n + 1)) return;
    viterbi(w, s, n);
    /* the path backwards, then turned: back[] becomes the list of starts */
    size_t next = n;
    for (size_t at = n; at > 0;) {
        size_t from = w->back[at];
        w->best[at] = (double)next; /* where the piece after this one ends */
        next = at;
        at = from;
    }
    size_t unk_from = SIZE_MAX;
    for (size_t from = 0, to = next; from < n && !w->failed;) {
        int32_t id = w->back_id[to];
        bool unk = id < 0 || id == t->unk;
        if (unk && unk_from == SIZE_MAX) unk_from = from;
        size_t end = unk ? to : from;
        size_t after = to < n ? (size_t)w->best[to] : n;
        bool flush = unk_from != SIZE_MAX && (!unk || to == n);
        if (flush && !(t->byte_fallback && tok_put_bytes(w, s + unk_from, end - unk_from, out)) &&
            t->unk >= 0)
            tok_put(w, out, t->unk);
        if (flush) unk_from = SIZE_MAX;
        if (!unk) tok_put(w, out, id);
        from = to;
        to = after;
    }
}

/* ---- WordPiece: longest match first ---- */

static uint32_t walk(const tok_trie *trie, tok_str s)
{
    uint32_t node = 0;
    for (uint32_t i = 0; i < s.n; i++) {
        node = tok_trie_step(trie, node, (uint8_t)s.p[i]);
        if (!node) return UINT32_MAX;
    }
    return node;
}

static size_t longest_from(const tok_trie *trie, uint32_t node, const char *s, size_t n,
                           int32_t *id)
{
    size_t found = 0;
    if (node == UINT32_MAX) return 0;
    for (size_t i = 0; i < n; i++) {
        node = tok_trie_step(trie, node, (uint8_t)s[i]);
        if (!node) break;
        if (trie->node[node].id < 0) continue;
        found = i + 1;
        *id = trie->node[node].id;
    }
    return found;
}

void tok_wordpiece_word(tok_work *w, const char *s, size_t n, hy_ids *out)
{
    const hy_tok *t = w->t;
    size_t n_char = 0, mark = out->n;
    for (size_t i = 0; i < n; i++) n_char += ((unsigned char)s[i] & 0xC0) != 0x80;
    bool good = n_char <= t->word_max && t->trie.node;
    uint32_t first = good ? walk(&t->trie, t->word_start) : UINT32_MAX;
    uint32_t more = good ? walk(&t->trie, t->word_more) : UINT32_MAX;
    for (size_t at = 0; good && at < n;) {
        int32_t id = -1;
        size_t k = longest_from(&t->trie, at ? more : first, s + at, n - at, &id);
        good = k > 0;
        if (good) tok_put(w, out, id);
        at += k;
    }
    if (good) return;
    out->n = mark;
    if (t->unk >= 0) tok_put(w, out, t->unk);
}
