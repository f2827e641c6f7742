/* What all builders share: a new tokenizer, its lists, and the last step. */
#include "tok/tok_impl.h"
#include <stdio.h>
#include <string.h>

static void *pcre_alloc(PCRE2_SIZE n, void *ctx) { return hy_alloc(n); }

static void pcre_free(void *p, void *ctx) { hy_free(p); }

hy_status tok_new(hy_tok **out, hy_err *err)
{
    hy_tok *t = HY_NEW(hy_tok);
    if (!t) return hy_fail_memory(err, "tokenizer", sizeof *t);
    t->arena = hy_arena_new(256 * HY_KIB);
    t->pcre = pcre2_general_context_create(pcre_alloc, pcre_free, NULL);
    t->pcre_compile = t->pcre ? pcre2_compile_context_create(t->pcre) : NULL;
    if (!t->arena || !t->pcre_compile) {
        hy_tok_free(t);
        return hy_fail_memory(err, "tokenizer", 256 * HY_KIB);
    }
    pcre2_set_newline(t->pcre_compile, PCRE2_NEWLINE_LF);
    t->kind = t->pre_name = "";
    t->bos = t->eos = t->unk = t->sep = t->cls = t->pad = t->mask = -1;
    t->word_max = 100;
    for (int i = 0; i < 256; i++) t->byte_id[i] = -1;
    *out = t;
    return HY_OK;
}

void hy_tok_free(hy_tok *t)
{
    if (!t) return;
    for (uint32_t i = 0; i < t->n_norm; i++) tok_regex_free(t->norm[i].re);
    for (uint32_t i = 0; i < t->n_pre; i++) tok_regex_free(t->pre[i].re);
    hy_free(t->norm);
    hy_free(t->pre);
    hy_free(t->dec);
    hy_free(t->added);
    hy_free(t->end);
    hy_free(t->tmpl);
    hy_free(t->bpe.pair);
    hy_free(t->bpe.rune_id);
    tok_trie_free(&t->bpe.frozen);
    tok_trie_free(&t->trie);
    tok_trie_free(&t->added_raw);
    tok_trie_free(&t->added_norm);
    tok_vocab_free(&t->vocab);
    hy_ids_free(&t->first);
    hy_ids_free(&t->last);
    hy_template_free(t->own);
    if (t->pcre_compile) pcre2_compile_context_free(t->pcre_compile);
    if (t->pcre) pcre2_general_context_free(t->pcre);
    hy_arena_free(t->arena);
    hy_free(t);
}

tok_str tok_copy(hy_tok *t, const char *s, size_t n)
{
    return (tok_str){hy_arena_strndup(t->arena, n ? s : "", n), (uint32_t)n};
}

/* One more item at the end of a growing list. */
static void *more(void **list, uint32_t n, size_t size)
{
    if (n & (n - 1)) return (char *)*list + n * size; /* capacity: the next power of two */
    void *p = hy_realloc_array(*list, n ? (size_t)n * 2 : 1, size);
    if (!p) return NULL;
    *list = p;
    return (char *)p + n * size;
}

tok_norm *tok_norm_add(hy_tok *t, tok_norm_kind kind)
{
    tok_norm *s = more((void **)&t->norm, t->n_norm, sizeof *s);
    if (!s) return NULL;
    *s = (tok_norm){.kind = kind};
    t->n_norm++;
    return s;
}

tok_pre *tok_pre_add(hy_tok *t, tok_pre_kind kind)
{
    tok_pre *s = more((void **)&t->pre, t->n_pre, sizeof *s);
    if (!s) return NULL;
    *s = (tok_pre){.kind = kind};
    t->n_pre++;
    return s;
}

tok_dec *tok_dec_add(hy_tok *t, tok_dec_kind kind)
{
    tok_dec *s = more((void **)&t->dec, t->n_dec, sizeof *s);
    if (!s) return NULL;
    *s = (tok_dec){.kind = kind};
    t->n_dec++;
    return s;
}

hy_status tok_steps_fail(hy_err *err)
{
    return hy_fail_memory(err, "tokenizer steps", sizeof(tok_pre));
}

hy_status tok_added_put(hy_tok *t, const tok_added *a, hy_err *err)
{
    tok_added *p = more((void **)&t->added, t->n_added, sizeof *p);
    if (!p) return hy_fail_memory(err, "added tokens", (uint64_t)t->n_added * sizeof *p);
    *p = *a;
    t->n_added++;
    return HY_OK;
}

hy_status tok_end_put(hy_tok *t, int32_t id, hy_err *err)
{
    if (id < 0 || (uint32_t)id >= t->vocab.n || hy_tok_is_end(t, id)) return HY_OK;
    int32_t *p = more((void **)&t->end, t->n_end, sizeof *p);
    if (!p) return hy_fail_memory(err, "end tokens", (uint64_t)t->n_end * sizeof *p);
    *p = id;
    t->n_end++;
    return HY_OK;
}

hy_status tok_template_put(hy_tok *t, const char *name, size_t n_name, const char *s, size_t n,
                           hy_err *err)
{
    struct tok_template x = {tok_copy(t, name, n_name), hy_arena_strndup(t->arena, s, n)};
    if (!x.name.p || !x.source) return hy_fail_memory(err, "chat template", n);
    for (uint32_t i = 0; i < t->n_tmpl; i++)
        if (t->tmpl[i].name.n == n_name && !memcmp(t->tmpl[i].name.p, x.name.p, n_name)) {
            t->tmpl[i] = x; /* the later source counts: chat_template.jinja over the config */
            return HY_OK;
        }
    struct tok_template *p = more((void **)&t->tmpl, t->n_tmpl, sizeof *p);
    if (!p) return hy_fail_memory(err, "chat template", n);
    *p = x;
    t->n_tmpl++;
    return HY_OK;
}

/* ---- last step ---- */

/* Tokens that end a model's turn, by their usual names. */
static const char *const end_names[] = {"<|eot_id|>",
                                        "<|eom_id|>",
                                        "<|im_end|>",
                                        "<|end|>",
                                        "<end_of_turn>",
                                        "<|endoftext|>",
                                        "<|end_of_text|>",
                                        "<EOT>",
                                        "_<EOT>",
                                        "< EOT >",
                                        "<|return|>",
                                        "<|call|>",
                                        "<turn|>",
                                        "<|END_OF_TURN_TOKEN|>",
                                        "<|end_of_turn|>",
                                        "<|endofturn|>",
                                        "<|eot|>",
                                        "<end_of_utterance>",
                                        ("<\xEF\xBD\x9C"
                                         "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"),
                                        "[EOS]",
                                        "[e~[",
                                        "<|end_of_sentence|>",
                                        "<|role_end|>",
                                        "<|user|>"};

static hy_status add_ends(hy_tok *t, hy_err *err)
{
    HY_TRY(tok_end_put(t, t->eos, err));
    /* harmony: <|end|> closes one message of several, <|return|> and <|call|> the turn */
    bool harmony = hy_tok_find(t, "<|return|>", 10) >= 0;
    for (size_t i = 0; i < HY_COUNT(end_names); i++) {
        const char *s = end_names[i];
        int32_t id = hy_tok_find(t, s, strlen(s));
        if (id < 0 || !(t->vocab.flags[id] & (HY_TOK_CONTROL | HY_TOK_USER))) continue;
        if (harmony && !strcmp(s, "<|end|>")) continue;
        /* GLM hands the turn back by naming the user; elsewhere this token opens a message */
        if (!strcmp(s, "<|user|>") && hy_tok_find(t, "[gMASK]", 7) < 0) continue;
        HY_TRY(tok_end_put(t, id, err));
    }
    return HY_OK;
}

static hy_status normal_content(hy_tok *t, tok_str *s, hy_err *err)
{
    tok_work w;
    tok_work_init(&w, t);
    hy_buf_put(&w.a, s->p, s->n);
    w.failed |= w.a.failed;
    tok_norm_run(&w, t->norm, t->n_norm);
    tok_str to = w.failed ? (tok_str){0} : tok_copy(t, w.a.data, w.a.len);
    tok_work_free(&w);
    if (!to.p) return hy_fail_memory(err, "added token", s->n);
    *s = to;
    return HY_OK;
}

static hy_status build_added(hy_tok *t, bool normalized, tok_trie *trie, hy_err *err)
{
    tok_entry *e = hy_alloc_array(t->n_added ? t->n_added : 1, sizeof *e);
    if (!e) return hy_fail_memory(err, "added tokens", (uint64_t)t->n_added * sizeof *e);
    size_t n = 0;
    hy_status s = HY_OK;
    for (uint32_t i = 0; i < t->n_added && s == HY_OK; i++) {
        if (t->added[i].normalized != normalized) continue;
        e[n] = (tok_entry){t->added[i].text, (int32_t)i};
        if (normalized) s = normal_content(t, &e[n].str, err);
        n++;
    }
    if (s == HY_OK) s = tok_trie_build(trie, e, n, err);
    hy_free(e);
    return s;
}

hy_status tok_finish(hy_tok *t, hy_err *err)
{
    for (int i = 0; i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        t->byte_id[i] = hy_tok_find(t, name, 6);
    }
    HY_TRY(build_added(t, false, &t->added_raw, err));
    HY_TRY(build_added(t, true, &t->added_norm, err));
    HY_TRY(add_ends(t, err));
    const char *source = hy_tok_template(t, NULL);
    if (source && hy_template_parse(&t->own, source, strlen(source), NULL) != HY_OK)
        t->own = NULL; /* said when a chat needs it */
    return HY_OK;
}
