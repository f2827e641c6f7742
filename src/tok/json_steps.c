/* tokenizer.json: normalizer, pre_tokenizer, decoder, post_processor. */
#include "tok/tok_impl.h"
#include <string.h>

#define DEPTH_MAX 16 /* nested Sequences */

const char *tok_json_str(const json_t *obj, const char *key, size_t *n)
{
    const json_t *j = json_object_get(obj, key);
    if (!json_is_string(j)) return NULL;
    *n = json_string_length(j);
    return json_string_value(j);
}

bool tok_json_bool(const json_t *obj, const char *key, bool otherwise)
{
    const json_t *j = json_object_get(obj, key);
    return json_is_boolean(j) ? json_is_true(j) : otherwise;
}

static hy_status step_type(const json_t *j, const char *what, int depth, const char **type,
                           hy_err *err)
{
    if (depth > DEPTH_MAX)
        return hy_fail(err, HY_E_LIMIT, "%s nested deeper than %d", what, DEPTH_MAX);
    *type = json_string_value(json_object_get(j, "type"));
    if (*type) return HY_OK;
    return hy_fail(err, HY_E_FORMAT, "%s without a type", what);
}

static hy_status unknown_type(const char *what, const char *type, hy_err *err)
{
    return hy_fail(err, HY_E_UNSUPPORTED, "%s of type %.100s is not supported", what, type);
}

static hy_status text_of(hy_tok *t, const json_t *j, const char *key, tok_str *out, hy_err *err)
{
    size_t n = 0;
    const char *s = tok_json_str(j, key, &n);
    if (!s) return hy_fail(err, HY_E_FORMAT, "%s is not a string", key);
    *out = tok_copy(t, s, n);
    return out->p ? HY_OK : hy_fail_memory(err, key, n);
}

/* "pattern": "text", {"String": "text"} or {"Regex": "expression"} */
static hy_status pattern_of(hy_tok *t, const json_t *j, tok_regex **re, hy_err *err)
{
    const json_t *p = json_object_get(j, "pattern");
    size_t n = 0;
    const char *s = tok_json_str(p, "Regex", &n);
    if (s) return tok_regex_new(t, re, s, n, false, err);
    s = json_is_string(p) ? json_string_value(p) : tok_json_str(p, "String", &n);
    if (json_is_string(p)) n = json_string_length(p);
    if (!s) return hy_fail(err, HY_E_FORMAT, "pattern is neither String nor Regex");
    return tok_regex_new(t, re, s, n, true, err);
}

/* ---- normalizer ---- */

static const struct {
    const char *name;
    tok_norm_kind kind;
} norm_names[] = {{"NFC", TOK_N_NFC},
                  {"NFD", TOK_N_NFD},
                  {"NFKC", TOK_N_NFKC},
                  {"NFKD", TOK_N_NFKD},
                  {"Lowercase", TOK_N_LOWER},
                  {"Replace", TOK_N_REPLACE},
                  {"Prepend", TOK_N_PREPEND},
                  {"Strip", TOK_N_STRIP},
                  {"StripAccents", TOK_N_STRIP_ACCENTS},
                  {"BertNormalizer", TOK_N_BERT},
                  {"Nmt", TOK_N_NMT},
                  {"Precompiled", TOK_N_CHARSMAP},
                  {"ByteLevel", TOK_N_BYTES}};

static hy_status base64(hy_tok *t, const char *s, size_t n, uint8_t **out, size_t *n_out,
                        hy_err *err)
{
    uint8_t *p = hy_arena_alloc(t->arena, n / 4 * 3 + 4, 1);
    if (!p) return hy_fail_memory(err, "precompiled_charsmap", n);
    uint32_t bits = 0;
    int n_bit = 0;
    *n_out = 0;
    for (size_t i = 0; i < n && s[i] != '='; i++) {
        char c = s[i];
        int v = c >= 'A' && c <= 'Z'   ? c - 'A'
                : c >= 'a' && c <= 'z' ? c - 'a' + 26
                : c >= '0' && c <= '9' ? c - '0' + 52
                : c == '+'             ? 62
                : c == '/'             ? 63
                                       : -1;
        if (v < 0) return hy_fail(err, HY_E_FORMAT, "precompiled_charsmap is not base64");
        bits = bits << 6 | (uint32_t)v;
        n_bit += 6;
        if (n_bit >= 8) p[(*n_out)++] = (uint8_t)(bits >> (n_bit -= 8));
    }
    *out = p;
    return HY_OK;
}

static hy_status norm_args(hy_tok *t, tok_norm *m, const json_t *j, hy_err *err)
{
    switch (m->kind) {
    case TOK_N_REPLACE:
        HY_TRY(text_of(t, j, "content", &m->text, err));
        return pattern_of(t, j, &m->re, err);
    case TOK_N_PREPEND:
        return text_of(t, j, "prepend", &m->text, err);
    case TOK_N_STRIP:
        m->left = tok_json_bool(j, "strip_left", true);
        m->right = tok_json_bool(j, "strip_right", true);
        return HY_OK;
    case TOK_N_BERT:
        m->clean = tok_json_bool(j, "clean_text", true);
        m->cjk = tok_json_bool(j, "handle_chinese_chars", true);
        m->lower = tok_json_bool(j, "lowercase", true);
        m->accents = tok_json_bool(j, "strip_accents", m->lower);
        return HY_OK;
    case TOK_N_CHARSMAP: {
        size_t n = 0, n_raw = 0;
        const char *s = tok_json_str(j, "precompiled_charsmap", &n);
        uint8_t *raw = NULL;
        if (!s) return hy_fail(err, HY_E_FORMAT, "precompiled_charsmap is not a string");
        HY_TRY(base64(t, s, n, &raw, &n_raw, err));
        return tok_charsmap_new(t, &m->map, raw, n_raw, false, err);
    }
    default:
        return HY_OK;
    }
}

hy_status tok_json_norm(hy_tok *t, const json_t *j, int depth, hy_err *err)
{
    const char *type;
    if (!j || json_is_null(j)) return HY_OK;
    HY_TRY(step_type(j, "normalizer", depth, &type, err));
    if (!strcmp(type, "Sequence")) {
        const json_t *list = json_object_get(j, "normalizers");
        for (size_t i = 0; i < json_array_size(list); i++)
            HY_TRY(tok_json_norm(t, json_array_get(list, i), depth + 1, err));
        return HY_OK;
    }
    for (size_t i = 0; i < HY_COUNT(norm_names); i++) {
        if (strcmp(norm_names[i].name, type)) continue;
        tok_norm *m = tok_norm_add(t, norm_names[i].kind);
        if (!m) return tok_steps_fail(err);
        hy_status s = norm_args(t, m, j, err);
        if (s == HY_OK && m->kind == TOK_N_CHARSMAP && !m->map) s = HY_E_FORMAT;
        return s;
    }
    return unknown_type("normalizer", type, err);
}

/* ---- pre_tokenizer ---- */

static hy_status behavior_of(const json_t *j, tok_behavior *out, hy_err *err)
{
    static const char *const name[] = {"Removed", "Isolated", "Contiguous", "MergedWithPrevious",
                                       "MergedWithNext"};
    const json_t *b = json_object_get(j, "behavior");
    *out = TOK_ISOLATED;
    if (!b) return HY_OK;
    for (size_t i = 0; i < HY_COUNT(name); i++)
        if (json_is_string(b) && !strcmp(json_string_value(b), name[i])) {
            *out = (tok_behavior)i;
            return HY_OK;
        }
    return hy_fail(err, HY_E_FORMAT, "pre_tokenizer behavior is not known");
}

static hy_status metaspace_args(hy_tok *t, const json_t *j, tok_pre *p, hy_err *err)
{
    size_t n = 0;
    const char *scheme = tok_json_str(j, "prepend_scheme", &n);
    HY_TRY(text_of(t, j, "replacement", &p->text, err));
    p->split = tok_json_bool(j, "split", true);
    if (scheme) {
        p->prefix = !strcmp(scheme, "always");
        p->prefix_first = !strcmp(scheme, "first");
    } else {
        p->prefix = tok_json_bool(j, "add_prefix_space", true);
    }
    return tok_regex_new(t, &p->re, p->text.p, p->text.n, true, err);
}

static const struct {
    const char *name;
    tok_pre_kind kind;
} pre_names[] = {{"Split", TOK_P_SPLIT},
                 {"ByteLevel", TOK_P_BYTES},
                 {"Metaspace", TOK_P_METASPACE},
                 {"Digits", TOK_P_DIGITS},
                 {"Punctuation", TOK_P_PUNCT},
                 {"WhitespaceSplit", TOK_P_SPACE},
                 {"Whitespace", TOK_P_WHITESPACE},
                 {"BertPreTokenizer", TOK_P_BERT},
                 {"CharDelimiterSplit", TOK_P_SPLIT}};

static hy_status pre_args(hy_tok *t, tok_pre *p, const char *type, const json_t *j, hy_err *err)
{
    switch (p->kind) {
    case TOK_P_SPLIT:
        if (!strcmp(type, "CharDelimiterSplit")) {
            size_t n = 0;
            const char *s = tok_json_str(j, "delimiter", &n);
            p->behavior = TOK_REMOVED;
            if (!s) return hy_fail(err, HY_E_FORMAT, "delimiter is not a string");
            return tok_regex_new(t, &p->re, s, n, true, err);
        }
        p->invert = tok_json_bool(j, "invert", false);
        HY_TRY(behavior_of(j, &p->behavior, err));
        return pattern_of(t, j, &p->re, err);
    case TOK_P_BYTES:
        p->prefix = tok_json_bool(j, "add_prefix_space", true);
        return tok_json_bool(j, "use_regex", true) ? tok_gpt2_regex(t, &p->re, err) : HY_OK;
    case TOK_P_METASPACE:
        return metaspace_args(t, j, p, err);
    case TOK_P_DIGITS:
        p->behavior = tok_json_bool(j, "individual_digits", false) ? TOK_ISOLATED : TOK_CONTIGUOUS;
        return HY_OK;
    case TOK_P_PUNCT:
        return behavior_of(j, &p->behavior, err);
    default:
        return HY_OK;
    }
}

hy_status tok_json_pre(hy_tok *t, const json_t *j, int depth, hy_err *err)
{
    const char *type;
    if (!j || json_is_null(j)) return HY_OK;
    HY_TRY(step_type(j, "pre_tokenizer", depth, &type, err));
    if (!strcmp(type, "Sequence")) {
        const json_t *list = json_object_get(j, "pretokenizers");
        for (size_t i = 0; i < json_array_size(list); i++)
            HY_TRY(tok_json_pre(t, json_array_get(list, i), depth + 1, err));
        return HY_OK;
    }
    for (size_t i = 0; i < HY_COUNT(pre_names); i++) {
        if (strcmp(pre_names[i].name, type)) continue;
        tok_pre *p = tok_pre_add(t, pre_names[i].kind);
        return p ? pre_args(t, p, type, j, err) : tok_steps_fail(err);
    }
    return unknown_type("pre_tokenizer", type, err);
}

/* ---- decoder ---- */

static tok_str literal(const char *s) { return (tok_str){s, (uint32_t)strlen(s)}; }

static hy_status dec_replace(hy_tok *t, const json_t *j, hy_err *err)
{
    const json_t *p = json_object_get(j, "pattern");
    size_t n = 0;
    const char *s = tok_json_str(p, "String", &n);
    tok_dec *d = tok_dec_add(t, TOK_D_REPLACE);
    if (!d) return tok_steps_fail(err);
    if (!s) return hy_fail(err, HY_E_UNSUPPORTED, "decoder Replace with a regular expression");
    d->from = tok_copy(t, s, n);
    if (!d->from.p) return hy_fail_memory(err, "pattern", n);
    return text_of(t, j, "content", &d->to, err);
}

static hy_status dec_strip(hy_tok *t, const json_t *j, bool fused, hy_err *err)
{
    tok_dec *d = tok_dec_add(t, TOK_D_STRIP);
    if (!d) return tok_steps_fail(err);
    json_int_t start = json_integer_value(json_object_get(j, "start"));
    json_int_t stop = json_integer_value(json_object_get(j, "stop"));
    d->n_start = start > 0 ? (uint32_t)HY_MIN(start, 1000) : 0;
    d->n_stop = stop > 0 ? (uint32_t)HY_MIN(stop, 1000) : 0;
    d->whole = fused;
    return text_of(t, j, "content", &d->from, err);
}

static hy_status dec_metaspace(hy_tok *t, const json_t *j, hy_err *err)
{
    size_t n = 0;
    const char *scheme = tok_json_str(j, "prepend_scheme", &n);
    tok_dec *d = tok_dec_add(t, TOK_D_METASPACE);
    if (!d) return tok_steps_fail(err);
    d->to = literal(" ");
    d->whole = scheme ? strcmp(scheme, "never") != 0 : tok_json_bool(j, "add_prefix_space", true);
    return text_of(t, j, "replacement", &d->from, err);
}

hy_status tok_json_dec(hy_tok *t, const json_t *j, int depth, bool *fused, hy_err *err)
{
    const char *type;
    size_t n = 0;
    if (!j || json_is_null(j)) return HY_OK;
    HY_TRY(step_type(j, "decoder", depth, &type, err));
    if (!strcmp(type, "Sequence")) {
        const json_t *list = json_object_get(j, "decoders");
        for (size_t i = 0; i < json_array_size(list); i++)
            HY_TRY(tok_json_dec(t, json_array_get(list, i), depth + 1, fused, err));
        return HY_OK;
    }
    if (!strcmp(type, "Fuse")) {
        *fused = true;
        return HY_OK;
    }
    if (!strcmp(type, "Replace")) return dec_replace(t, j, err);
    if (!strcmp(type, "Strip")) return dec_strip(t, j, *fused, err);
    if (!strcmp(type, "Metaspace")) return dec_metaspace(t, j, err);
    if (!strcmp(type, "ByteLevel"))
        return tok_dec_add(t, TOK_D_BYTES) ? HY_OK : tok_steps_fail(err);
    if (!strcmp(type, "ByteFallback"))
        return tok_dec_add(t, TOK_D_BYTE_FALLBACK) ? HY_OK : tok_steps_fail(err);
    bool word = !strcmp(type, "WordPiece");
    if (!word && strcmp(type, "BPEDecoder")) return unknown_type("decoder", type, err);
    tok_dec *d = tok_dec_add(t, word ? TOK_D_WORDPIECE : TOK_D_SUFFIX);
    if (!d) return tok_steps_fail(err);
    const char *key = word ? "prefix" : "suffix";
    d->cleanup = tok_json_bool(j, "cleanup", true);
    d->to = literal(" ");
    d->from = literal(word ? "##" : "</w>");
    return tok_json_str(j, key, &n) ? text_of(t, j, key, &d->from, err) : HY_OK;
}

/* ---- post_processor: what goes around one text ---- */

static hy_status put_around(hy_tok *t, hy_ids *to, const json_t *id, hy_err *err)
{
    json_int_t x = json_is_integer(id) ? json_integer_value(id) : -1;
    if (x < 0 || x > TOK_ID_MAX)
        return hy_fail(err, HY_E_FORMAT, "post_processor: token id is not valid");
    return hy_ids_put(to, (int32_t)x) ? HY_OK : hy_fail_memory(err, "special tokens", 4);
}

static hy_status template_item(hy_tok *t, const json_t *specials, const json_t *item, bool *after,
                               hy_err *err)
{
    if (json_object_get(item, "Sequence")) {
        *after = true;
        return HY_OK;
    }
    const char *name =
        json_string_value(json_object_get(json_object_get(item, "SpecialToken"), "id"));
    const json_t *ids = name ? json_object_get(json_object_get(specials, name), "ids") : NULL;
    if (!json_is_array(ids))
        return hy_fail(err, HY_E_FORMAT, "post_processor: special token %.100s has no ids",
                       name ? name : "without a name");
    for (size_t i = 0; i < json_array_size(ids); i++)
        HY_TRY(put_around(t, *after ? &t->last : &t->first, json_array_get(ids, i), err));
    return HY_OK;
}

hy_status tok_json_post(hy_tok *t, const json_t *j, int depth, hy_err *err)
{
    const char *type;
    if (!j || json_is_null(j)) return HY_OK;
    HY_TRY(step_type(j, "post_processor", depth, &type, err));
    if (!strcmp(type, "Sequence")) {
        const json_t *list = json_object_get(j, "processors");
        for (size_t i = 0; i < json_array_size(list); i++)
            HY_TRY(tok_json_post(t, json_array_get(list, i), depth + 1, err));
        return HY_OK;
    }
    if (!strcmp(type, "TemplateProcessing")) {
        const json_t *single = json_object_get(j, "single");
        const json_t *specials = json_object_get(j, "special_tokens");
        bool after = false;
        for (size_t i = 0; i < json_array_size(single); i++)
            HY_TRY(template_item(t, specials, json_array_get(single, i), &after, err));
        return HY_OK;
    }
    if (!strcmp(type, "BertProcessing") || !strcmp(type, "RobertaProcessing")) {
        HY_TRY(put_around(t, &t->first, json_array_get(json_object_get(j, "cls"), 1), err));
        return put_around(t, &t->last, json_array_get(json_object_get(j, "sep"), 1), err);
    }
    return !strcmp(type, "ByteLevel") ? HY_OK : unknown_type("post_processor", type, err);
}
