/* tokenizer.json (the tokenizers library's format) with tokenizer_config.json. */
#include "tok/tok_impl.h"
#include <math.h>
#include <string.h>

static hy_status read_vocab(hy_tok *t, const json_t *vocab, hy_err *err)
{
    const char *key;
    const json_t *value;
    if (!json_is_object(vocab)) return hy_fail(err, HY_E_FORMAT, "model.vocab is not an object");
    for (void *it = json_object_iter((json_t *)vocab); it;
         it = json_object_iter_next((json_t *)vocab, it)) {
        key = json_object_iter_key(it);
        value = json_object_iter_value(it);
        json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || id > TOK_ID_MAX)
            return hy_fail(err, HY_E_FORMAT, "model.vocab: id of %.100s is not in 0..%d", key,
                           TOK_ID_MAX);
        HY_TRY(tok_vocab_put(t, (uint32_t)id, key, json_object_iter_key_len(it), 0, 0, err));
    }
    return HY_OK;
}

static hy_status read_scored(hy_tok *t, const json_t *vocab, hy_err *err)
{
    size_t n = json_array_size(vocab);
    if (!json_is_array(vocab) || n > TOK_ID_MAX)
        return hy_fail(err, HY_E_FORMAT, "model.vocab is not an array of pairs");
    for (size_t i = 0; i < n; i++) {
        const json_t *pair = json_array_get(vocab, i), *s = json_array_get(pair, 0);
        const json_t *score = json_array_get(pair, 1);
        if (!json_is_string(s) || !json_is_number(score) || isnan(json_number_value(score)))
            return hy_fail(err, HY_E_FORMAT, "model.vocab: item %zu is not a string and a score",
                           i);
        HY_TRY(tok_vocab_put(t, (uint32_t)i, json_string_value(s), json_string_length(s),
                             json_number_value(score), 0, err));
    }
    return HY_OK;
}

/* "a b" or ["a", "b"] */
static bool merge_parts(const json_t *m, tok_str *left, tok_str *right)
{
    if (json_is_string(m)) {
        const char *s = json_string_value(m);
        size_t n = json_string_length(m);
        const char *cut = n > 1 ? memchr(s + 1, ' ', n - 1) : NULL;
        if (!cut) return false;
        *left = (tok_str){s, (uint32_t)(cut - s)};
        *right = (tok_str){cut + 1, (uint32_t)(n - (size_t)(cut - s) - 1)};
        return true;
    }
    const json_t *a = json_array_get(m, 0), *b = json_array_get(m, 1);
    if (!json_is_string(a) || !json_is_string(b)) return false;
    *left = (tok_str){json_string_value(a), (uint32_t)json_string_length(a)};
    *right = (tok_str){json_string_value(b), (uint32_t)json_string_length(b)};
    return true;
}

static hy_status read_merge(hy_tok *t, const json_t *m, uint32_t rank, hy_buf *both, hy_err *err)
{
    tok_str left, right;
    if (!merge_parts(m, &left, &right))
        return hy_fail(err, HY_E_FORMAT, "model.merges: item %u is not a pair", (unsigned)rank);
    uint32_t skip = right.n >= t->bpe.prefix.n ? t->bpe.prefix.n : 0;
    hy_buf_reset(both);
    hy_buf_put(both, left.p, left.n);
    hy_buf_put(both, right.p + skip, right.n - skip);
    if (both->failed) return hy_fail_memory(err, "merge", left.n);
    int32_t l = hy_tok_find(t, left.p, left.n), r = hy_tok_find(t, right.p, right.n);
    int32_t id = hy_tok_find(t, both->data ? both->data : "", both->len);
    if (l < 0 || r < 0 || id < 0)
        return hy_fail(err, HY_E_FORMAT,
                       "model.merges: item %u (%.60s, %.60s) is not in the vocabulary",
                       (unsigned)rank, left.p, right.p);
    return tok_bpe_pair(t, (uint32_t)l, (uint32_t)r, rank, id, err);
}

static hy_status model_bpe(hy_tok *t, const json_t *j, hy_err *err)
{
    const json_t *merges = json_object_get(j, "merges");
    size_t n = 0;
    const char *s;
    t->kind = "bpe";
    t->model = TOK_M_BPE;
    HY_TRY(read_vocab(t, json_object_get(j, "vocab"), err));
    t->byte_fallback = tok_json_bool(j, "byte_fallback", false);
    t->bpe.fuse_unk = tok_json_bool(j, "fuse_unk", false);
    t->bpe.ignore_merges = tok_json_bool(j, "ignore_merges", false);
    if ((s = tok_json_str(j, "continuing_subword_prefix", &n))) t->bpe.prefix = tok_copy(t, s, n);
    if ((s = tok_json_str(j, "end_of_word_suffix", &n))) t->bpe.suffix = tok_copy(t, s, n);
    if (json_array_size(merges) > UINT32_MAX / 4)
        return hy_fail(err, HY_E_LIMIT, "model.merges has %zu items", json_array_size(merges));
    HY_TRY(tok_bpe_begin(t, json_array_size(merges), err));
    hy_buf both = {0};
    hy_status st = HY_OK;
    for (size_t i = 0; i < json_array_size(merges) && st == HY_OK; i++)
        st = read_merge(t, json_array_get(merges, i), (uint32_t)i, &both, err);
    hy_buf_free(&both);
    return st;
}

static hy_status model_wordpiece(hy_tok *t, const json_t *j, hy_err *err)
{
    size_t n = 0;
    const char *s = tok_json_str(j, "continuing_subword_prefix", &n);
    t->kind = "wordpiece";
    t->model = TOK_M_WORDPIECE;
    t->word_more = s ? tok_copy(t, s, n) : (tok_str){"##", 2};
    if (!t->word_more.p) return hy_fail_memory(err, "prefix", n);
    json_int_t max = json_integer_value(json_object_get(j, "max_input_chars_per_word"));
    if (max > 0) t->word_max = (uint32_t)HY_MIN(max, INT32_MAX);
    return read_vocab(t, json_object_get(j, "vocab"), err);
}

static hy_status model_unigram(hy_tok *t, const json_t *j, hy_err *err)
{
    t->kind = "unigram";
    t->model = TOK_M_UNIGRAM;
    t->byte_fallback = tok_json_bool(j, "byte_fallback", false);
    HY_TRY(read_scored(t, json_object_get(j, "vocab"), err));
    const json_t *unk = json_object_get(j, "unk_id");
    if (json_is_integer(unk) && json_integer_value(unk) >= 0 &&
        json_integer_value(unk) < t->vocab.n)
        t->unk = (int32_t)json_integer_value(unk);
    return tok_unigram_build(t, err);
}

hy_status tok_json_model(hy_tok *t, const json_t *j, hy_err *err)
{
    const char *type = json_string_value(json_object_get(j, "type"));
    size_t n = 0;
    hy_status s;
    if (!type) /* old files: a model with merges is BPE */
        type = json_object_get(j, "merges")                 ? "BPE"
               : json_is_array(json_object_get(j, "vocab")) ? "Unigram"
                                                            : "WordPiece";
    if (!strcmp(type, "BPE"))
        s = model_bpe(t, j, err);
    else if (!strcmp(type, "Unigram"))
        return model_unigram(t, j, err);
    else if (!strcmp(type, "WordPiece"))
        s = model_wordpiece(t, j, err);
    else if (!strcmp(type, "WordLevel")) {
        t->kind = "wordlevel";
        t->model = TOK_M_WORDLEVEL;
        s = read_vocab(t, json_object_get(j, "vocab"), err);
    } else
        return hy_fail(err, HY_E_UNSUPPORTED, "model of type %.100s is not supported", type);
    if (s != HY_OK) return s;
    const char *unk = tok_json_str(j, "unk_token", &n);
    if (unk) t->unk = hy_tok_find(t, unk, n);
    if (t->model == TOK_M_WORDPIECE) return tok_wordpiece_build(t, err);
    return t->model == TOK_M_BPE ? tok_bpe_runes(t, err) : HY_OK;
}

/* ---- added tokens ---- */

static hy_status add_one(hy_tok *t, const json_t *j, json_int_t id, hy_err *err)
{
    size_t n = 0;
    const char *s = tok_json_str(j, "content", &n);
    if (!s || id < 0 || id > TOK_ID_MAX)
        return hy_fail(err, HY_E_FORMAT, "added_tokens: a token without content or valid id");
    int32_t known = hy_tok_find(t, s, n);
    for (uint32_t i = 0; i < t->n_added; i++)
        if (known >= 0 && t->added[i].id == known) return HY_OK;
    bool special = tok_json_bool(j, "special", false);
    if (known < 0) {
        if ((uint32_t)id < t->vocab.n && t->vocab.str[id].p) return HY_OK; /* the place is taken */
        HY_TRY(tok_vocab_put(t, (uint32_t)id, s, n, 0, TOK_ADDED_ONLY, err));
        known = (int32_t)id;
    }
    t->vocab.flags[known] |= special ? HY_TOK_CONTROL : HY_TOK_USER;
    tok_added a = {.text = t->vocab.str[known], .id = known, .special = special};
    a.lstrip = tok_json_bool(j, "lstrip", false);
    a.rstrip = tok_json_bool(j, "rstrip", false);
    a.single_word = tok_json_bool(j, "single_word", false);
    a.normalized = tok_json_bool(j, "normalized", !special);
    return tok_added_put(t, &a, err);
}

/* ---- tokenizer_config.json ---- */

static hy_status named_token(hy_tok *t, const json_t *config, const char *key, int32_t *id,
                             hy_err *err)
{
    const json_t *j = json_object_get(config, key);
    size_t n = 0;
    const char *s =
        json_is_object(j) ? tok_json_str(j, "content", &n) : tok_json_str(config, key, &n);
    int32_t found = s && n ? hy_tok_find(t, s, n) : -1;
    if (found < 0) return HY_OK;
    *id = found;
    for (uint32_t i = 0; i < t->n_added; i++)
        if (t->added[i].id == found) return HY_OK;
    t->vocab.flags[found] |=
        HY_TOK_CONTROL; /* a named token is special even where it is not listed */
    tok_added a = {.text = t->vocab.str[found], .id = found, .special = true};
    return tok_added_put(t, &a, err);
}

hy_status tok_config_tokens(hy_tok *t, const json_t *config, hy_err *err)
{
    const json_t *list = json_object_get(config, "added_tokens_decoder");
    for (void *it = json_object_iter((json_t *)list); it;
         it = json_object_iter_next((json_t *)list, it)) {
        uint64_t id;
        HY_TRY(hy_parse_u64("added_tokens_decoder: id", json_object_iter_key(it), 0, TOK_ID_MAX,
                            &id, err));
        HY_TRY(add_one(t, json_object_iter_value(it), (json_int_t)id, err));
    }
    HY_TRY(named_token(t, config, "bos_token", &t->bos, err));
    HY_TRY(named_token(t, config, "eos_token", &t->eos, err));
    HY_TRY(named_token(t, config, "unk_token", &t->unk, err));
    HY_TRY(named_token(t, config, "sep_token", &t->sep, err));
    HY_TRY(named_token(t, config, "cls_token", &t->cls, err));
    HY_TRY(named_token(t, config, "pad_token", &t->pad, err));
    return named_token(t, config, "mask_token", &t->mask, err);
}

hy_status tok_config_templates(hy_tok *t, const json_t *config, hy_err *err)
{
    const json_t *j = json_object_get(config, "chat_template");
    if (json_is_string(j))
        return tok_template_put(t, "default", 7, json_string_value(j), json_string_length(j), err);
    for (size_t i = 0; i < json_array_size(j); i++) {
        size_t n = 0, n_name = 0;
        const json_t *item = json_array_get(j, i);
        const char *name = tok_json_str(item, "name", &n_name),
                   *s = tok_json_str(item, "template", &n);
        if (name && s) HY_TRY(tok_template_put(t, name, n_name, s, n, err));
    }
    return HY_OK;
}

static hy_status put_config_around(hy_tok *t, const json_t *config, hy_err *err)
{
    /* the file's post_processor decides; the flags count where it adds nothing */
    bool silent = !t->first.n && !t->last.n;
    if (silent && t->bos >= 0 && tok_json_bool(config, "add_bos_token", false) &&
        !hy_ids_put(&t->first, t->bos))
        return hy_fail_memory(err, "special tokens", sizeof(int32_t));
    if (silent && t->eos >= 0 && tok_json_bool(config, "add_eos_token", false) &&
        !hy_ids_put(&t->last, t->eos))
        return hy_fail_memory(err, "special tokens", sizeof(int32_t));
    for (size_t i = 0; i < t->first.n; i++) t->add_bos |= t->first.id[i] == t->bos;
    for (size_t i = 0; i < t->last.n; i++) t->add_eos |= t->last.id[i] == t->eos;
    const hy_ids *both[] = {&t->first, &t->last};
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < both[k]->n; i++)
            if ((uint32_t)both[k]->id[i] >= t->vocab.n)
                return hy_fail(err, HY_E_FORMAT,
                               "post_processor: token id %d is outside the vocabulary of %u",
                               (int)both[k]->id[i], (unsigned)t->vocab.n);
    return HY_OK;
}

hy_status tok_from_json(hy_tok *t, const json_t *root, const json_t *config, hy_err *err)
{
    bool fused = false;
    t->from_json = true;
    if (!json_is_object(root)) return hy_fail(err, HY_E_FORMAT, "tokenizer.json is not an object");
    HY_TRY(tok_json_norm(t, json_object_get(root, "normalizer"), 0, err));
    HY_TRY(tok_json_pre(t, json_object_get(root, "pre_tokenizer"), 0, err));
    HY_TRY(tok_json_model(t, json_object_get(root, "model"), err));
    HY_TRY(tok_json_dec(t, json_object_get(root, "decoder"), 0, &fused, err));
    HY_TRY(tok_json_post(t, json_object_get(root, "post_processor"), 0, err));
    const json_t *added = json_object_get(root, "added_tokens");
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *j = json_array_get(added, i), *id = json_object_get(j, "id");
        HY_TRY(add_one(t, j, json_is_integer(id) ? json_integer_value(id) : -1, err));
    }
    HY_TRY(tok_config_tokens(t, config, err));
    HY_TRY(tok_config_templates(t, config, err));
    return put_config_around(t, config, err);
}
