/* Vocabularies as GGUF has them, from tokenizer.json or a SentencePiece model. */
#include "quantize_tok.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_token(hy_q_vocab *v, uint64_t id, const char *s, size_t n, int32_t type)
{
    if (id >= v->n) return;    /* beyond the embedding: never produced by the model */
    v->token[id] = (hy_str){ s, n };
    v->type[id] = type;
}

static bool is_byte_token(const char *s, size_t n)
{
    return n == 6 && memcmp(s, "<0x", 3) == 0 && s[5] == '>';
}

/* ---- tokenizer.json ------------------------------------------------------------------------------- */

static bool contains_type(const json_t *step, const char *type, int depth)
{
    const char *t = json_string_value(json_object_get(step, "type"));
    if (!t || depth > 4) return false;
    if (strcmp(t, type) == 0) return true;
    static const char *const lists[] = { "pretokenizers", "normalizers", "decoders" };
    for (size_t k = 0; k < HY_COUNT(lists); k++) {
        const json_t *list = json_object_get(step, lists[k]);
        for (size_t i = 0; i < json_array_size(list); i++)
            if (contains_type(json_array_get(list, i), type, depth + 1)) return true;
    }
    return false;
}

static hy_status take_merge(hy_q_vocab *v, const json_t *m, hy_str *out, hy_err *err)
{
    const char *s = json_string_value(m);
    if (s) {
        *out = (hy_str){ s, json_string_length(m) };
        return HY_OK;
    }
    const json_t *a = json_array_get(m, 0), *b = json_array_get(m, 1);
    if (!json_is_string(a) || !json_is_string(b)) return hy_fail(err, HY_E_FORMAT, "tokenizer.json: a merge is no pair");
    size_t na = json_string_length(a), nb = json_string_length(b);
    char *p = hy_arena_alloc(v->arena, na + nb + 2, 1);
    if (!p) return hy_fail_memory(err, "merge", na + nb);
    memcpy(p, json_string_value(a), na);
    p[na] = ' ';
    memcpy(p + na + 1, json_string_value(b), nb);
    *out = (hy_str){ p, na + nb + 1 };
    return HY_OK;
}

static hy_status take_merges(hy_q_vocab *v, const json_t *merges, hy_err *err)
{
    v->n_merge = json_array_size(merges);
    v->merge = HY_ARENA_NEW(v->arena, hy_str, v->n_merge + 1);
    if (!v->merge) return hy_fail_memory(err, "merges", v->n_merge * sizeof *v->merge);
    for (size_t i = 0; i < v->n_merge; i++) HY_TRY(take_merge(v, json_array_get(merges, i), &v->merge[i], err));
    return HY_OK;
}

/* SentencePiece BPE ranks by score: the first merge that makes a token gives its rank. */
static hy_status scores_from_merges(hy_q_vocab *v, const json_t *vocab, hy_err *err)
{
    v->score = HY_ARENA_NEW(v->arena, float, v->n);
    if (!v->score) return hy_fail_memory(err, "scores", v->n * sizeof(float));
    hy_buf both = { 0 };
    for (uint32_t i = 0; i < v->n; i++) v->score[i] = -1e9f; /* made by no merge */
    for (uint64_t i = v->n_merge; i-- > 0;) {
        const hy_str *m = &v->merge[i];
        const char *cut = m->n > 1 ? memchr(m->p + 1, ' ', m->n - 1) : NULL;
        if (!cut) continue;
        hy_buf_reset(&both);
        hy_buf_put(&both, m->p, (size_t)(cut - m->p));
        hy_buf_put(&both, cut + 1, m->n - (size_t)(cut - m->p) - 1);
        const json_t *id = both.failed ? NULL : json_object_getn(vocab, both.data, both.len);
        if (json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) < v->n)
            v->score[json_integer_value(id)] = -(float)i;
    }
    bool failed = both.failed;
    hy_buf_free(&both);
    v->n_merge = 0;
    return failed ? hy_fail_memory(err, "merges", 0) : HY_OK;
}

static hy_status take_bpe(hy_q_vocab *v, const json_t *root, const json_t *model, hy_err *err)
{
    json_t *vocab = json_object_get(model, "vocab");
    bool bytes = contains_type(json_object_get(root, "pre_tokenizer"), "ByteLevel", 0) ||
                 contains_type(json_object_get(root, "decoder"), "ByteLevel", 0);
    const char *unk = json_string_value(json_object_get(model, "unk_token"));
    const char *key;
    json_t *id;
    size_t n;
    json_object_keylen_foreach(vocab, key, n, id) {
        if (!json_is_integer(id) || json_integer_value(id) < 0) return hy_fail(err, HY_E_FORMAT, "tokenizer.json: an id is no number");
        int32_t type = HY_GT_NORMAL;
        if (!bytes && is_byte_token(key, n)) type = HY_GT_BYTE;
        if (!bytes && unk && strcmp(key, unk) == 0) type = HY_GT_UNKNOWN;
        put_token(v, (uint64_t)json_integer_value(id), key, n, type);
    }
    HY_TRY(take_merges(v, json_object_get(model, "merges"), err));
    v->model = bytes ? "gpt2" : "llama";
    v->pre = bytes ? hy_q_pre_name(root) : "default";
    if (bytes) return HY_OK;
    const json_t *norm = json_object_get(root, "normalizer"), *pre = json_object_get(root, "pre_tokenizer");
    const char *scheme = json_string_value(json_object_get(pre, "prepend_scheme"));
    bool meta = contains_type(pre, "Metaspace", 0) && !(scheme && strcmp(scheme, "never") == 0);
    v->space_prefix = contains_type(norm, "Prepend", 0) || meta;
    return scores_from_merges(v, vocab, err);
}

static hy_status take_unigram(hy_q_vocab *v, const json_t *root, const json_t *model, hy_err *err)
{
    const json_t *vocab = json_object_get(model, "vocab");
    json_int_t unk = json_integer_value(json_object_get(model, "unk_id"));
    v->score = HY_ARENA_NEW(v->arena, float, v->n);
    if (!v->score) return hy_fail_memory(err, "scores", v->n * sizeof(float));
    for (size_t i = 0; i < json_array_size(vocab) && i < v->n; i++) {
        const json_t *s = json_array_get(json_array_get(vocab, i), 0);
        if (!json_is_string(s)) return hy_fail(err, HY_E_FORMAT, "tokenizer.json: item %zu of the vocabulary is no pair", i);
        put_token(v, i, json_string_value(s), json_string_length(s),
                  (json_int_t)i == unk && json_object_get(model, "unk_id") ? HY_GT_UNKNOWN : HY_GT_NORMAL);
        v->score[i] = (float)json_number_value(json_array_get(json_array_get(vocab, i), 1));
    }
    if (contains_type(json_object_get(root, "normalizer"), "Precompiled", 0))
        hy_log(HY_LOG_WARN, "quantize_tokenizer", "detail=\"the normaliser's character map is left out\"");
    v->model = "t5";
    v->pre = "default";
    v->space_prefix = 1;
    return HY_OK;
}

hy_status hy_q_vocab_json(hy_q_vocab *v, const json_t *root, hy_err *err)
{
    const json_t *model = json_object_get(root, "model");
    const char *type = json_string_value(json_object_get(model, "type"));
    if (!type) type = json_object_get(model, "merges") ? "BPE" : "Unigram";
    if (strcmp(type, "BPE") == 0) HY_TRY(take_bpe(v, root, model, err));
    else if (strcmp(type, "Unigram") == 0) HY_TRY(take_unigram(v, root, model, err));
    else return hy_fail(err, HY_E_UNSUPPORTED, "tokenizer.json: a model of type %.40s has no GGUF form here", type);
    const json_t *added = json_object_get(root, "added_tokens");
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *a = json_array_get(added, i), *s = json_object_get(a, "content");
        json_int_t id = json_integer_value(json_object_get(a, "id"));
        if (!json_is_string(s) || id < 0) return hy_fail(err, HY_E_FORMAT, "tokenizer.json: added token %zu has no text or id", i);
        if (id < v->n && v->type[id] == HY_GT_UNKNOWN) continue;
        put_token(v, (uint64_t)id, json_string_value(s), json_string_length(s),
                  json_is_true(json_object_get(a, "special")) ? HY_GT_CONTROL : HY_GT_USER);
    }
    return HY_OK;
}

/* ---- SentencePiece models (protobuf, sentencepiece_model.proto) ------------------------------------ */

typedef struct proto {
    const uint8_t *p, *end;
    uint32_t field, wire;
    uint64_t value;            /* varint; bytes of a string or message */
    const uint8_t *data;
} proto;

static bool varint(proto *r, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && r->p < r->end; shift += 7) {
        uint8_t b = *r->p++;
        *out |= (uint64_t)(b & 127) << shift;
        if (!(b & 128)) return true;
    }
    return false;
}

/* The next field; false at the end or where the text breaks. */
static bool next(proto *r)
{
    uint64_t key;
    if (!varint(r, &key)) return false;
    r->field = (uint32_t)(key >> 3);
    r->wire = key & 7;
    if (r->wire == 0) return varint(r, &r->value);
    if (r->wire == 2 && !varint(r, &r->value)) return false;
    if (r->wire == 1) r->value = 8;
    if (r->wire == 5) r->value = 4;
    if (r->wire == 3 || r->wire == 4 || r->wire > 5 || r->value > (uint64_t)(r->end - r->p)) return false;
    r->data = r->p;
    r->p += r->value;
    return true;
}

static proto inside(const proto *r)
{
    return (proto){ .p = r->data, .end = r->data + r->value };
}

static void take_piece(hy_q_vocab *v, proto r, uint32_t id)
{
    hy_str s = { "", 0 };
    float score = 0;
    int32_t type = HY_GT_NORMAL;
    while (next(&r)) {
        if (r.field == 1 && r.wire == 2) s = (hy_str){ (const char *)r.data, r.value };
        if (r.field == 2 && r.wire == 5) memcpy(&score, r.data, sizeof score);
        if (r.field == 3 && r.wire == 0 && r.value >= 1 && r.value <= 6) type = (int32_t)r.value;
    }
    put_token(v, id, s.p, s.n, type);
    if (id < v->n) v->score[id] = score;
}

hy_status hy_q_vocab_proto(hy_q_vocab *v, const uint8_t *data, size_t n, hy_err *err)
{
    proto r = { .p = data, .end = data + n };
    uint32_t id = 0;
    uint64_t kind = 1;
    v->score = HY_ARENA_NEW(v->arena, float, v->n);
    if (!v->score) return hy_fail_memory(err, "scores", v->n * sizeof(float));
    v->space_prefix = v->squeeze = 1;
    while (next(&r)) {
        if (r.wire != 2) continue;
        proto in = inside(&r);
        if (r.field == 1) take_piece(v, in, id++);
        while (r.field == 2 && next(&in)) /* trainer_spec.model_type */
            if (in.field == 3 && in.wire == 0) kind = in.value;
        while (r.field == 3 && next(&in)) { /* normalizer_spec */
            if (in.field == 3 && in.wire == 0) v->space_prefix = in.value != 0;
            if (in.field == 4 && in.wire == 0) v->squeeze = in.value != 0;
        }
    }
    if (id == 0) return hy_fail(err, HY_E_FORMAT, "tokenizer.model holds no pieces");
    v->model = kind == 2 ? "llama" : "t5";
    v->pre = "default";
    return HY_OK;
}
