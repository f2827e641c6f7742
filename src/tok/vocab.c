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

static bool grow_slots(tok_vocab *v, uint32_t n_slot)
{
    uint32_t *slot = hy_calloc(n_slot, sizeof *slot);
    if (!slot) return false;
    for (uint32_t i = 0; i < v->n_slot; i++) {
        if (!v->slot[i]) continue;
        const tok_str *s = &v->str[v->slot[i] - 1];
        uint32_t at = (uint32_t)hy_hash64(s->p, s->n, 0) & (n_slot - 1);
        while (slot[at]) at = (at + 1) & (n_slot - 1);
        slot[at] = v->slot[i];
    }
    hy_free(v->slot);
    v->slot = slot;
    v->n_slot = n_slot;
    return true;
}

hy_status tok_vocab_reserve(tok_vocab *v, uint32_t n, hy_err *err)
{
    if (n <= v->cap) return HY_OK;
    uint32_t cap = v->cap ? v->cap : 256;
    while (cap < n) cap = cap > TOK_ID_MAX ? n : cap * 2;
    tok_str *str = hy_realloc_array(v->str, cap, sizeof *str);
    if (str) v->str = str;
    double *score = str ? hy_realloc_array(v->score, cap, sizeof *score) : NULL;
    if (score) v->score = score;
    uint8_t *flags = score ? hy_realloc_array(v->flags, cap, sizeof *flags) : NULL;
    if (!flags) return hy_fail_memory(err, "vocabulary", (uint64_t)cap * sizeof *str);
    v->flags = flags;
    v->cap = cap;
    return HY_OK;
}

hy_status tok_vocab_put(hy_tok *t, uint32_t id, const char *s, size_t n, double score,
                        uint8_t flags, hy_err *err)
{
    tok_vocab *v = &t->vocab;
    if (id > TOK_ID_MAX)
        return hy_fail(err, HY_E_FORMAT, "token id %" PRIu32 " is above the limit %d", id,
                       TOK_ID_MAX);
    if (n > INT32_MAX)
        return hy_fail(err, HY_E_FORMAT, "token %" PRIu32 ": %zu bytes is too long", id, n);
    HY_TRY(tok_vocab_reserve(v, id + 1, err));
    tok_str str = tok_copy(t, s, n);
    if (!str.p) return hy_fail_memory(err, "token", n);
    while (v->n <= id) {
        v->str[v->n] = (tok_str){0};
        v->score[v->n] = 0;
        v->flags[v->n++] = 0;
    }
    v->str[id] = str;
    v->score[id] = score;
    v->flags[id] = flags;
    if (v->n_used >= v->n_slot / 2 && !grow_slots(v, v->n_slot ? v->n_slot * 2 : 1024))
        return hy_fail_memory(err, "vocabulary index", (uint64_t)v->n_slot * 8);
    uint32_t at = (uint32_t)hy_hash64(str.p, n, 0) & (v->n_slot - 1);
    while (v->slot[at]) {
        const tok_str *o = &v->str[v->slot[at] - 1];
        if (o->n == n && !memcmp(o->p, str.p, n)) return HY_OK;
        at = (at + 1) & (v->n_slot - 1);
    }
    v->slot[at] = id + 1;
    v->n_used++;
    return HY_OK;
}

int32_t tok_vocab_find(const tok_vocab *v, const char *s, size_t n)
{
    if (!v->n_slot || n > INT32_MAX) return -1;
    uint32_t at = (uint32_t)hy_hash64(s, n, 0) & (v->n_slot - 1);
    for (; v->slot[at]; at = (at + 1) & (v->n_slot - 1)) {
        const tok_str *o = &v->str[v->slot[at] - 1];
        if (o->n == n && !memcmp(o->p, s, n)) return (int32_t)(v->slot[at] - 1);
    }
    return -1;
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
