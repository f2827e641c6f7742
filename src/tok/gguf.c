/* Tokenizers from GGUF metadata. Nothing there is trusted: lengths must agree, ids that point
 * nowhere are left out, byte tokens are only those spelled <0xXX>. */
#include "tok/tok_impl.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER, TYPE_UNUSED, TYPE_BYTE };

static uint8_t flags_of(int64_t type)
{
    switch (type) {
    case TYPE_UNKNOWN:
        return HY_TOK_UNKNOWN;
    case TYPE_CONTROL:
        return HY_TOK_CONTROL;
    case TYPE_USER:
        return HY_TOK_USER;
    case TYPE_UNUSED:
        return HY_TOK_UNUSED;
    case TYPE_BYTE:
        return HY_TOK_BYTE;
    default:
        return 0;
    }
}

static hy_status array_of(const hy_file *f, const char *key, uint64_t n, const hy_meta **out,
                          hy_err *err)
{
    *out = hy_file_meta(f, key);
    if (!*out) return HY_OK;
    if ((*out)->type != HY_M_ARRAY || (*out)->item == HY_M_STR)
        return hy_fail(err, HY_E_FORMAT, "%s is not an array of numbers", key);
    if ((*out)->n != n)
        return hy_fail(err, HY_E_FORMAT, "%s has %" PRIu64 " items for %" PRIu64 " tokens", key,
                       (*out)->n, n);
    return HY_OK;
}

static hy_status read_tokens(hy_tok *t, const hy_file *f, hy_err *err)
{
    const hy_meta *tokens = hy_file_meta(f, "tokenizer.ggml.tokens"), *score, *type;
    if (!tokens || tokens->type != HY_M_ARRAY || tokens->item != HY_M_STR || !tokens->n || !tokens->strs)
        return hy_fail(err, HY_E_FORMAT, "tokenizer.ggml.tokens is not an array of strings");
    if (tokens->n > TOK_ID_MAX)
        return hy_fail(err, HY_E_LIMIT, "tokenizer.ggml.tokens has %" PRIu64 " items, limit %d",
                       tokens->n, TOK_ID_MAX);
    HY_TRY(array_of(f, "tokenizer.ggml.scores", tokens->n, &score, err));
    HY_TRY(array_of(f, "tokenizer.ggml.token_type", tokens->n, &type, err));
    HY_TRY(tok_vocab_reserve(&t->vocab, (uint32_t)tokens->n, err));
    uint64_t bytes = tokens->n; /* all strings in one piece, each with a NUL behind it */
    for (uint64_t i = 0; i < tokens->n; i++) bytes += tokens->strs[i].n;
    char *text = bytes <= SIZE_MAX ? hy_arena_alloc(t->arena, (size_t)bytes, 1) : NULL;
    if (!text) return hy_fail_memory(err, "tokens", bytes);
    for (uint64_t i = 0; i < tokens->n; i++) {
        double x = 0;
        int64_t kind = TYPE_NORMAL;
        if (score && (!hy_meta_item_f64(score, i, &x) || isnan(x)))
            return hy_fail(err, HY_E_FORMAT, "tokenizer.ggml.scores: item %" PRIu64 " is no number",
                           i);
        if (type && !hy_meta_item_i64(type, i, &kind)) kind = TYPE_NORMAL;
        const hy_str *s = &tokens->strs[i];
        if (s->n > INT32_MAX)
            return hy_fail(err, HY_E_FORMAT, "token %" PRIu64 ": %" PRIu64 " bytes is too long", i, s->n);
        memcpy(text, s->p, s->n);
        HY_TRY(tok_vocab_take(&t->vocab, (uint32_t)i, (tok_str){text, (uint32_t)s->n}, x, flags_of(kind), err));
        text += s->n + 1;
    }
    return HY_OK;
}

/* A special token's id; one outside the vocabulary counts as absent, as files with -1 are around.
 */
static int32_t special(const hy_tok *t, const hy_file *f, const char *key)
{
    const hy_meta *m = hy_file_meta(f, key);
    uint64_t id;
    if (!m || m->type == HY_M_ARRAY || !hy_meta_item_u64(m, 0, &id)) return -1;
    if (id < t->vocab.n) return (int32_t)id;
    hy_log(HY_LOG_WARN, "tok: special token outside the vocabulary", "key=%s id=%" PRIu64 " n=%u",
           key, id, t->vocab.n);
    return -1;
}

static void read_specials(hy_tok *t, const hy_file *f)
{
    t->bos = special(t, f, "tokenizer.ggml.bos_token_id");
    t->eos = special(t, f, "tokenizer.ggml.eos_token_id");
    t->unk = special(t, f, "tokenizer.ggml.unknown_token_id");
    t->sep = special(t, f, "tokenizer.ggml.seperator_token_id"); /* the key's own spelling */
    if (t->sep < 0) t->sep = special(t, f, "tokenizer.ggml.separator_token_id");
    t->pad = special(t, f, "tokenizer.ggml.padding_token_id");
    t->cls = special(t, f, "tokenizer.ggml.cls_token_id");
    t->mask = special(t, f, "tokenizer.ggml.mask_token_id");
}

static hy_status read_merges(hy_tok *t, const hy_file *f, hy_err *err)
{
    const hy_meta *m = hy_file_meta(f, "tokenizer.ggml.merges");
    if (!m || m->type != HY_M_ARRAY || m->item != HY_M_STR || !m->strs)
        return hy_fail(err, HY_E_FORMAT, "tokenizer.ggml.merges is not an array of strings");
    if (m->n > UINT32_MAX / 4)
        return hy_fail(err, HY_E_LIMIT, "tokenizer.ggml.merges has %" PRIu64 " items", m->n);
    HY_TRY(tok_bpe_begin(t, m->n, err));
    hy_buf both = {0};
    hy_status s = HY_OK;
    for (uint64_t i = 0; i < m->n && s == HY_OK; i++) {
        const hy_str *x = &m->strs[i];
        const char *cut = x->n > 1 ? memchr(x->p + 1, ' ', x->n - 1) : NULL;
        if (!cut) continue;
        size_t n_left = (size_t)(cut - x->p), n_right = x->n - n_left - 1;
        hy_buf_reset(&both);
        hy_buf_put(&both, x->p, n_left);
        hy_buf_put(&both, cut + 1, n_right);
        if (both.failed) s = hy_fail_memory(err, "merge", x->n);
        int32_t left = hy_tok_find(t, x->p, n_left), right = hy_tok_find(t, cut + 1, n_right);
        int32_t id = both.failed ? -1 : hy_tok_find(t, both.data, both.len);
        if (left >= 0 && right >= 0 && id >= 0)
            s = tok_bpe_pair(t, (uint32_t)left, (uint32_t)right, (uint32_t)i, id, err);
    }
    hy_buf_free(&both);
    return s == HY_OK ? tok_bpe_runes(t, err) : s;
}

/* Control and unknown tokens are cut out where asked for; user-defined ones always, unless the
 * SentencePiece model itself looks for them. */
static hy_status add_added(hy_tok *t, bool user, hy_err *err)
{
    for (uint32_t i = 0; i < t->vocab.n; i++) {
        uint8_t k = t->vocab.flags[i];
        bool control = k & (HY_TOK_CONTROL | HY_TOK_UNKNOWN);
        if (!t->vocab.str[i].n || !(control || (user && k & HY_TOK_USER))) continue;
        tok_added a = {.text = t->vocab.str[i], .id = (int32_t)i, .special = control};
        HY_TRY(tok_added_put(t, &a, err));
    }
    return HY_OK;
}

/* GGUF has no place for lstrip and rstrip. Phi-3's tokenizer.json takes the spaces after its
 * control tokens, but not after these. */
static hy_status restore_flags(hy_tok *t, const hy_file *f, hy_err *err)
{
    static const char *const kept[] = {"<unk>", "<s>", "</s>", "<|endoftext|>"};
    hy_str arch = {0};
    HY_TRY(hy_meta_string(f, "general.architecture", false, &arch, err));
    if (arch.n != 4 || memcmp(arch.p, "phi3", 4)) return HY_OK;
    for (uint32_t i = 0; i < t->n_added; i++) {
        bool strip = true;
        for (size_t k = 0; k < HY_COUNT(kept); k++)
            strip &= t->added[i].id != hy_tok_find(t, kept[k], strlen(kept[k]));
        t->added[i].rstrip = strip;
    }
    return HY_OK;
}

hy_status tok_sp_steps(hy_tok *t, const tok_sp *sp, hy_err *err)
{
    static const tok_str mark = {"\xE2\x96\x81", 3}, space = {" ", 1};
    if (sp->n_charsmap) {
        tok_norm *m = tok_norm_add(t, TOK_N_CHARSMAP);
        if (!m) return tok_steps_fail(err);
        HY_TRY(tok_charsmap_new(t, &m->map, sp->charsmap, sp->n_charsmap, true, err));
    }
    if (sp->squeeze && !tok_norm_add(t, TOK_N_SQUEEZE)) return tok_steps_fail(err);
    if (sp->space_prefix) {
        tok_norm *m = tok_norm_add(t, TOK_N_PREPEND);
        if (!m) return tok_steps_fail(err);
        m->text = sp->escape ? mark : space;
        m->left = !sp->squeeze;
    }
    if (sp->escape) {
        tok_norm *m = tok_norm_add(t, TOK_N_REPLACE);
        if (!m) return tok_steps_fail(err);
        m->text = mark;
        HY_TRY(tok_regex_new(t, &m->re, " ", 1, true, err));
    }
    tok_dec *d = tok_dec_add(t, TOK_D_REPLACE);
    if (!d || !tok_dec_add(t, TOK_D_BYTE_FALLBACK)) return tok_steps_fail(err);
    t->dec[t->n_dec - 2].from = mark;
    t->dec[t->n_dec - 2].to = space;
    if (!sp->space_prefix) return HY_OK;
    d = tok_dec_add(t, TOK_D_STRIP);
    if (!d) return tok_steps_fail(err);
    d->from = space;
    d->n_start = 1;
    d->whole = true;
    return HY_OK;
}

static hy_status charsmap_of(const hy_file *f, const uint8_t **data, size_t *n, hy_err *err)
{
    const hy_meta *m = hy_file_meta(f, "tokenizer.ggml.precompiled_charsmap");
    *n = 0;
    if (!m) return HY_OK;
    if (m->type != HY_M_ARRAY || (m->item != HY_M_U8 && m->item != HY_M_I8))
        return hy_fail(err, HY_E_FORMAT,
                       "tokenizer.ggml.precompiled_charsmap is not an array of bytes");
    *data = m->data;
    *n = m->n;
    return HY_OK;
}

static hy_status build_spm(hy_tok *t, const hy_file *f, hy_err *err)
{
    tok_sp sp = {.space_prefix = true, .escape = true};
    t->kind = "spm";
    t->model = TOK_M_BPE;
    t->byte_fallback = true;
    if (t->unk < 0) t->unk = t->vocab.n && t->vocab.flags[0] & HY_TOK_UNKNOWN ? 0 : -1;
    HY_TRY(hy_meta_bool(f, "tokenizer.ggml.add_space_prefix", false, &sp.space_prefix, err));
    HY_TRY(hy_meta_bool(f, "tokenizer.ggml.remove_extra_whitespaces", false, &sp.squeeze, err));
    HY_TRY(charsmap_of(f, &sp.charsmap, &sp.n_charsmap, err));
    HY_TRY(tok_sp_steps(t, &sp, err));
    HY_TRY(tok_frozen_build(t, true, err));
    HY_TRY(add_added(t, false, err));
    HY_TRY(restore_flags(t, f, err));
    t->add_bos = true;
    return tok_bpe_from_scores(t, err);
}

static hy_status build_unigram(hy_tok *t, const hy_file *f, hy_err *err)
{
    static const tok_str mark = {"\xE2\x96\x81", 3}, space = {" ", 1};
    bool prefix = true, squeeze = true;
    const uint8_t *map = NULL;
    size_t n_map;
    t->kind = "unigram";
    t->model = TOK_M_UNIGRAM;
    t->add_eos = true;
    HY_TRY(hy_meta_bool(f, "tokenizer.ggml.add_space_prefix", false, &prefix, err));
    HY_TRY(hy_meta_bool(f, "tokenizer.ggml.remove_extra_whitespaces", false, &squeeze, err));
    HY_TRY(charsmap_of(f, &map, &n_map, err));
    if (n_map) {
        tok_norm *m = tok_norm_add(t, TOK_N_CHARSMAP);
        if (!m) return tok_steps_fail(err);
        HY_TRY(tok_charsmap_new(t, &m->map, map, n_map, false, err));
    }
    if (squeeze && !tok_pre_add(t, TOK_P_SPACE)) return tok_steps_fail(err);
    tok_pre *p = tok_pre_add(t, TOK_P_METASPACE);
    tok_dec *d = tok_dec_add(t, TOK_D_METASPACE);
    if (!p || !d) return tok_steps_fail(err);
    p->prefix = prefix;
    p->split = true;
    p->text = d->from = mark;
    d->to = space;
    d->whole = prefix;
    HY_TRY(tok_regex_new(t, &p->re, mark.p, mark.n, true, err));
    HY_TRY(add_added(t, true, err));
    return tok_unigram_build(t, err);
}

/* GGUF stores "##ing" as "ing" and "word" as U+2581 "word". */
static hy_status build_wordpiece(hy_tok *t, const hy_file *f, hy_err *err)
{
    static const tok_str mark = {"\xE2\x96\x81", 3};
    bool lower = true;
    t->kind = "wordpiece";
    t->model = TOK_M_WORDPIECE;
    t->word_start = mark;
    if (t->unk < 0) t->unk = hy_tok_find(t, "[UNK]", 5);
    if (t->cls < 0) t->cls = t->bos;
    if (t->bos < 0) t->bos = t->cls;
    if (t->sep < 0) t->sep = t->eos;
    if (t->eos < 0) t->eos = t->sep;
    HY_TRY(hy_meta_bool(f, "tokenizer.ggml.normalizer.lowercase", false, &lower, err));
    bool accents = lower;
    HY_TRY(hy_meta_bool(f, "tokenizer.ggml.normalizer.strip_accents", false, &accents, err));
    tok_norm *m = tok_norm_add(t, TOK_N_BERT);
    tok_pre *p = tok_pre_add(t, TOK_P_BERT);
    tok_dec *d = tok_dec_add(t, TOK_D_SP_WORD);
    if (!m || !p || !d) return tok_steps_fail(err);
    m->clean = m->cjk = true;
    m->lower = lower;
    m->accents = accents;
    d->from = mark;
    d->cleanup = true;
    t->add_bos = t->add_eos = true;
    HY_TRY(add_added(t, true, err));
    return tok_wordpiece_build(t, err);
}

static hy_status build_bpe(hy_tok *t, const hy_file *f, bool gemma4, hy_err *err)
{
    hy_str pre = {0}, arch = {0};
    bool bos = false, sep = false;
    t->kind = "bpe";
    t->model = TOK_M_BPE;
    HY_TRY(hy_meta_string(f, "tokenizer.ggml.pre", false, &pre, err));
    HY_TRY(hy_meta_string(f, "general.architecture", false, &arch, err));
    tok_str name = tok_copy(t, arch.p, arch.n);
    if (!name.p) return hy_fail_memory(err, "name", arch.n);
    if (gemma4) pre = (hy_str){"gemma4", 6};
    HY_TRY(tok_pre_named(t, pre.p, pre.n, name.p, &bos, &sep, err));
    if (!t->n_pre) { /* SentencePiece-like: no byte alphabet */
        t->byte_fallback = true;
        t->bpe.fuse_unk = true;
        tok_sp sp = {0};
        HY_TRY(tok_sp_steps(t, &sp, err));
        bos |= gemma4;
    } else if (!tok_dec_add(t, TOK_D_BYTES)) {
        return tok_steps_fail(err);
    } else {
        t->unk = -1; /* every byte has a token; the files name one all the same */
    }
    t->add_bos = bos;
    t->add_eos = sep;
    if (sep && t->sep >= 0) t->eos = t->eos < 0 ? t->sep : t->eos;
    HY_TRY(read_merges(t, f, err));
    HY_TRY(add_added(t, true, err));
    bool roberta = sep || !strcmp(t->pre_name, "modern-bert");
    for (uint32_t i = 0; roberta && i < t->n_added; i++)
        t->added[i].lstrip = t->added[i].id == t->mask; /* as their tokenizer.json says */
    return HY_OK;
}

static hy_status read_templates(hy_tok *t, const hy_file *f, hy_err *err)
{
    static const char prefix[] = "tokenizer.chat_template";
    for (uint64_t i = 0; i < f->n_meta; i++) {
        const hy_meta *m = &f->meta[i];
        if (strncmp(m->key, prefix, sizeof prefix - 1) || m->type != HY_M_STR || !m->strs) continue;
        const char *name = m->key + sizeof prefix - 1;
        if (*name && *name != '.') continue;
        name = *name ? name + 1 : "default";
        HY_TRY(tok_template_put(t, name, strlen(name), m->strs[0].p, m->strs[0].n, err));
    }
    return HY_OK;
}

static hy_status put_around(hy_tok *t, const hy_file *f, hy_err *err)
{
    HY_TRY(hy_meta_bool(f, "tokenizer.ggml.add_bos_token", false, &t->add_bos, err));
    HY_TRY(hy_meta_bool(f, "tokenizer.ggml.add_eos_token", false, &t->add_eos, err));
    int32_t first = t->model == TOK_M_WORDPIECE ? t->cls : t->bos;
    int32_t last = t->model == TOK_M_WORDPIECE ? t->sep : t->eos;
    t->add_bos &= first >= 0;
    t->add_eos &= last >= 0;
    if ((t->add_bos && !hy_ids_put(&t->first, first)) ||
        (t->add_eos && !hy_ids_put(&t->last, last)))
        return hy_fail_memory(err, "special tokens", sizeof(int32_t));
    static const char *const ends[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id",
                                       "tokenizer.ggml.eog_token_id"};
    for (size_t i = 0; i < HY_COUNT(ends); i++) HY_TRY(tok_end_put(t, special(t, f, ends[i]), err));
    return HY_OK;
}

hy_status tok_from_gguf(hy_tok *t, const hy_file *f, hy_err *err)
{
    hy_str model = {0}, pre = {0};
    HY_TRY(hy_meta_string(f, "tokenizer.ggml.model", true, &model, err));
    HY_TRY(hy_meta_string(f, "tokenizer.ggml.pre", false, &pre, err));
    HY_TRY(read_tokens(t, f, err));
    read_specials(t, f);
    if (pre.n) {
        tok_str kept = tok_copy(t, pre.p, pre.n);
        if (!kept.p) return hy_fail_memory(err, "name", pre.n);
        t->pre_name = kept.p;
    }
    hy_status s;
    if (model.n == 4 && !memcmp(model.p, "gpt2", 4))
        s = build_bpe(t, f, false, err);
    else if (model.n == 6 && !memcmp(model.p, "gemma4", 6))
        s = build_bpe(t, f, true, err);
    else if (model.n == 5 && !memcmp(model.p, "llama", 5))
        s = build_spm(t, f, err);
    else if (model.n == 2 && !memcmp(model.p, "t5", 2))
        s = build_unigram(t, f, err);
    else if (model.n == 4 && !memcmp(model.p, "bert", 4))
        s = build_wordpiece(t, f, err);
    else
        s = hy_fail(err, HY_E_UNSUPPORTED, "tokenizer.ggml.model: '%.*s' is not known",
                    (int)HY_MIN(model.n, 100u), model.p ? model.p : "");
    if (s != HY_OK) return s;
    HY_TRY(put_around(t, f, err));
    HY_TRY(read_templates(t, f, err));
    return tok_finish(t, err);
}
