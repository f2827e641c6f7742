/* The vocabulary: strings by id, ids by string; and lists of ids. */
#include "tok/tok_impl.h"
#include <inttypes.h>
#include <string.h>

void hy_ids_free(hy_ids *ids)
{
    hy_free(ids->id);
    *ids = (hy_ids){0};
}

bool hy_ids_put(hy_ids *ids, int32_t id)
{
    if (ids->n == ids->cap) {
        size_t cap = ids->cap ? ids->cap * 2 : 64;
        int32_t *p = hy_realloc_array(ids->id, cap, sizeof *p);
        if (!p) return false;
        ids->id = p;
        ids->cap = cap;
    }
    ids->id[ids->n++] = id;
    return true;
}

/* A slot keeps some bits of the hash that do not choose its place: most strings that are not the one looked for
 * are passed by without a look at them. */
#define SLOT_ID_BITS 23
_Static_assert(TOK_ID_MAX + 1 < 1 << SLOT_ID_BITS, "an id and one fits a slot");

static uint32_t tag_of(uint64_t hash)
{
    return (uint32_t)(hash >> (32 + SLOT_ID_BITS)) << SLOT_ID_BITS;
}

static uint32_t id_in(uint32_t slot)
{
    return (slot & ((1u << SLOT_ID_BITS) - 1)) - 1;
}

/* The slot that holds the string, or the free one where it belongs. */
static uint32_t find_slot(const tok_vocab *v, const char *s, size_t n, uint64_t hash)
{
    uint32_t at = (uint32_t)hash & (v->n_slot - 1), tag = tag_of(hash);
    for (; v->slot[at]; at = (at + 1) & (v->n_slot - 1)) {
        if ((v->slot[at] ^ tag) >> SLOT_ID_BITS) continue;
        const tok_str *o = &v->str[id_in(v->slot[at])];
        if (o->n == n && !memcmp(o->p, s, n)) return at;
    }
    return at;
}

static bool grow_slots(tok_vocab *v, uint32_t n_slot)
{
    uint32_t *slot = hy_calloc(n_slot, sizeof *slot);
    if (!slot) return false;
    for (uint32_t i = 0; i < v->n_slot; i++) {
        if (!v->slot[i]) continue;
        const tok_str *s = &v->str[id_in(v->slot[i])];
        uint64_t hash = hy_hash64(s->p, s->n, 0);
        uint32_t at = (uint32_t)hash & (n_slot - 1);
        while (slot[at]) at = (at + 1) & (n_slot - 1);
        slot[at] = tag_of(hash) | (id_in(v->slot[i]) + 1);
    }
    hy_free(v->slot);
    v->slot = slot;
    v->n_slot = n_slot;
    return true;
}

static hy_status grow(tok_vocab *v, uint32_t n, hy_err *err)
{
    if (n <= v->cap) return HY_OK;
    uint32_t cap = v->cap ? v->cap : 256;
    while (cap < n) cap = cap > TOK_ID_MAX ? n : cap * 2;
    tok_str *str = hy_realloc_array(v->str, cap, sizeof *str);
    if (str) v->str = str;
    double *score = str && v->score ? hy_realloc_array(v->score, cap, sizeof *score) : NULL;
    if (score) v->score = score;
    uint8_t *flags = str && !v->score == !score ? hy_realloc_array(v->flags, cap, sizeof *flags) : NULL;
    if (!flags) return hy_fail_memory(err, "vocabulary", (uint64_t)cap * sizeof *str);
    v->flags = flags;
    v->cap = cap;
    return HY_OK;
}

hy_status tok_vocab_reserve(tok_vocab *v, uint32_t n, hy_err *err)
{
    uint32_t n_slot = 1024;
    while (n_slot / 2 < n && n_slot < 1u << 31) n_slot *= 2;
    HY_TRY(grow(v, n, err));
    if (n_slot > v->n_slot && !grow_slots(v, n_slot))
        return hy_fail_memory(err, "vocabulary index", (uint64_t)n_slot * sizeof *v->slot);
    return HY_OK;
}

/* Scores are made room for when there is one. */
static hy_status put_score(tok_vocab *v, uint32_t id, double score, hy_err *err)
{
    if (!v->score && score == 0) return HY_OK;
    if (!v->score) v->score = hy_calloc(v->cap, sizeof *v->score);
    if (!v->score) return hy_fail_memory(err, "scores", (uint64_t)v->cap * sizeof *v->score);
    v->score[id] = score;
    return HY_OK;
}

hy_status tok_vocab_take(tok_vocab *v, uint32_t id, tok_str str, double score, uint8_t flags, hy_err *err)
{
    if (id > TOK_ID_MAX)
        return hy_fail(err, HY_E_FORMAT, "token id %" PRIu32 " is above the limit %d", id, TOK_ID_MAX);
    HY_TRY(grow(v, id + 1, err));
    while (v->n <= id) {
        v->str[v->n] = (tok_str){0};
        if (v->score) v->score[v->n] = 0;
        v->flags[v->n++] = 0;
    }
    HY_TRY(put_score(v, id, score, err));
    v->str[id] = str;
    v->flags[id] = flags;
    if (v->n_used >= v->n_slot / 2 && !grow_slots(v, v->n_slot ? v->n_slot * 2 : 1024))
        return hy_fail_memory(err, "vocabulary index", (uint64_t)v->n_slot * 8);
    uint64_t hash = hy_hash64(str.p, str.n, 0);
    uint32_t at = find_slot(v, str.p, str.n, hash);
    if (v->slot[at]) return HY_OK;
    v->slot[at] = tag_of(hash) | (id + 1);
    v->n_used++;
    return HY_OK;
}

hy_status tok_vocab_put(hy_tok *t, uint32_t id, const char *s, size_t n, double score,
                        uint8_t flags, hy_err *err)
{
    if (n > INT32_MAX)
        return hy_fail(err, HY_E_FORMAT, "token %" PRIu32 ": %zu bytes is too long", id, n);
    tok_str str = tok_copy(t, s, n);
    if (!str.p) return hy_fail_memory(err, "token", n);
    return tok_vocab_take(&t->vocab, id, str, score, flags, err);
}

int32_t tok_vocab_find(const tok_vocab *v, const char *s, size_t n)
{
    if (!v->n_slot || n > INT32_MAX) return -1;
    uint32_t slot = v->slot[find_slot(v, s, n, hy_hash64(s, n, 0))];
    return slot ? (int32_t)id_in(slot) : -1;
}

void tok_vocab_free(tok_vocab *v)
{
    hy_free(v->str);
    hy_free(v->score);
    hy_free(v->flags);
    hy_free(v->slot);
    *v = (tok_vocab){0};
}

int32_t tok_model_find(const hy_tok *t, const char *s, size_t n)
{
    int32_t id = tok_vocab_find(&t->vocab, s, n);
    if (id < 0) return -1;
    uint8_t hidden = t->from_json ? TOK_ADDED_ONLY : HY_TOK_CONTROL;
    return t->vocab.flags[id] & hidden ? -1 : id;
}

int32_t hy_tok_find(const hy_tok *t, const char *s, size_t n)
{
    return tok_vocab_find(&t->vocab, s, n);
}

uint32_t hy_tok_n_vocab(const hy_tok *t) { return t->vocab.n; }

uint32_t hy_tok_flags_of(const hy_tok *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->vocab.n ? t->vocab.flags[id] & ~TOK_ADDED_ONLY : 0;
}

const char *hy_tok_kind(const hy_tok *t) { return t->kind; }

const char *hy_tok_pre(const hy_tok *t) { return t->pre_name; }

int32_t hy_tok_bos(const hy_tok *t) { return t->bos; }

int32_t hy_tok_eos(const hy_tok *t) { return t->eos; }

bool hy_tok_adds_bos(const hy_tok *t) { return t->add_bos; }

bool hy_tok_adds_eos(const hy_tok *t) { return t->add_eos; }

bool hy_tok_is_end(const hy_tok *t, int32_t id)
{
    for (uint32_t i = 0; i < t->n_end; i++)
        if (t->end[i] == id) return true;
    return false;
}
