/* Chat messages to a prompt in which only the template's own control tokens are control tokens. */
#include "engine.h"
#include <string.h>

/* Marks are noncharacters: U+FDD0 to U+FDEF, which Unicode keeps for internal use. */
#define N_MARK 32
static void mark_of(uint32_t i, char out[4])
{
    memcpy(out, "\xEF\xB7\x90", 4);
    out[2] = (char)(0x90 + i);
}

typedef struct marker {
    const hy_tok *tok;
    char mark[4];
    bool any;
} marker;

static hy_status mark_value(marker *m, json_t *v, uint32_t depth, json_t **out, hy_err *err);

static hy_status mark_string(marker *m, json_t *v, json_t **out, hy_err *err)
{
    hy_buf b = { 0 };
    bool any = hy_tok_mark(m->tok, m->mark, json_string_value(v), json_string_length(v), &b);
    hy_status s = HY_OK;
    if (b.failed) s = hy_fail_memory(err, "chat", b.len);
    else if (any && !(*out = json_stringn(b.data, b.len))) s = hy_fail_memory(err, "chat", b.len);
    if (any) m->any = true;
    hy_buf_free(&b);
    return s;
}

static hy_status mark_object(marker *m, json_t *v, uint32_t depth, hy_err *err)
{
    const char *key;
    json_t *member;
    json_object_foreach(v, key, member)
    {
        json_t *changed = NULL;
        HY_TRY(mark_value(m, member, depth, &changed, err));
        if (changed && json_object_set_new(v, key, changed)) return hy_fail_memory(err, "chat", 64);
    }
    return HY_OK;
}

static hy_status mark_array(marker *m, json_t *v, uint32_t depth, hy_err *err)
{
    size_t i;
    json_t *member;
    json_array_foreach(v, i, member)
    {
        json_t *changed = NULL;
        HY_TRY(mark_value(m, member, depth, &changed, err));
        if (changed && json_array_set_new(v, i, changed)) return hy_fail_memory(err, "chat", 64);
    }
    return HY_OK;
}

/* Strings inside v get marks; *out is a string's replacement, else NULL. */
static hy_status mark_value(marker *m, json_t *v, uint32_t depth, json_t **out, hy_err *err)
{
    if (depth > 256) return hy_fail(err, HY_E_LIMIT, "chat: nested deeper than 256");
    if (json_is_string(v)) return mark_string(m, v, out, err);
    if (json_is_object(v)) return mark_object(m, v, depth + 1, err);
    if (json_is_array(v)) return mark_array(m, v, depth + 1, err);
    return HY_OK;
}

/* Marks whatever came from outside, with the first mark that the text does not hold. */
static hy_status mark_vars(marker *m, const char *chat_json, json_t *vars, hy_err *err)
{
    static const char *const outside[] = { "messages", "tools", "documents" };
    uint32_t i = 1; /* 0 is the tag of continue_final */
    for (; i < N_MARK; i++) {
        mark_of(i, m->mark);
        if (!strstr(chat_json, m->mark)) break;
    }
    if (i == N_MARK) return hy_fail(err, HY_E_ARG, "chat: the text holds every noncharacter from U+FDD1 to U+FDEF");
    for (i = 0; i < HY_COUNT(outside); i++) {
        json_t *changed = NULL, *v = json_object_get(vars, outside[i]);
        if (v && !json_is_string(v)) HY_TRY(mark_value(m, v, 0, &changed, err));
    }
    return HY_OK;
}

/* As transformers does: a tag at the end of the last message's content shows where to cut; its space tells whether
 * the template trims. */
static hy_status tag_last(json_t *vars, const char *tag, hy_err *err)
{
    json_t *list = json_object_get(vars, "messages");
    json_t *last = json_array_get(list, json_array_size(list) - 1);
    const json_t *content = json_object_get(last, "content");
    if (!json_is_string(content)) return hy_fail(err, HY_E_ARG, "chat: the last message has no text to be continued");
    hy_buf b = { 0 };
    hy_buf_put(&b, json_string_value(content), json_string_length(content));
    hy_buf_str(&b, tag);
    hy_buf_char(&b, ' ');
    bool failed = b.failed || json_object_set_new(last, "content", json_stringn(b.data, b.len)) ||
                  json_object_set_new(vars, "add_generation_prompt", json_false());
    hy_buf_free(&b);
    return failed ? hy_fail_memory(err, "chat", 64) : HY_OK;
}

static hy_status cut_at_tag(hy_buf *text, const char *tag, hy_err *err)
{
    size_t at = text->len;
    while (at-- > 0)
        if (text->len - at >= HY_TOK_MARK && !memcmp(text->data + at, tag, HY_TOK_MARK)) break;
    if (at >= text->len) return hy_fail(err, HY_E_ARG, "chat: the template does not show the last message");
    bool kept = at + HY_TOK_MARK < text->len && text->data[at + HY_TOK_MARK] == ' ';
    while (!kept && at > 0 && strchr(" \t\r\n", text->data[at - 1])) at--;
    text->len = at;
    text->data[at] = 0;
    return HY_OK;
}

static void drop_mark(hy_buf *b, const char *mark)
{
    size_t to = 0;
    for (size_t at = 0; at < b->len;) {
        if (b->len - at >= HY_TOK_MARK && !memcmp(b->data + at, mark, HY_TOK_MARK)) at += HY_TOK_MARK;
        else b->data[to++] = b->data[at++];
    }
    b->len = to;
    if (b->data) b->data[to] = 0;
}

static hy_status render(const hy_core *c, json_t *vars, const char *source, bool continue_final, hy_buf *text,
                        hy_err *err)
{
    char tag[4];
    mark_of(0, tag);
    if (!json_object_get(vars, "add_generation_prompt") &&
        json_object_set_new(vars, "add_generation_prompt", json_true()))
        return hy_fail_memory(err, "chat", 64);
    if (continue_final) HY_TRY(tag_last(vars, tag, err));
    hy_status s = hy_tok_chat(c->tok, source, vars, text, err);
    if (s == HY_E_LIMIT) { /* steps or memory of the template, not the context */
        s = HY_E_ARG;
        if (err) err->code = s;
    }
    if (s != HY_OK) return s;
    if (text->failed) return hy_fail_memory(err, "chat text", text->len);
    return continue_final ? cut_at_tag(text, tag, err) : HY_OK;
}

hy_status hy_core_chat_ids(const hy_core *c, const char *chat_json, const char *source, bool continue_final,
                           hy_buf *text, hy_ids *ids, hy_err *err)
{
    if (!source && !hy_tok_template(c->tok, NULL))
        return hy_fail(err, HY_E_UNSUPPORTED, "the model has no chat template: give one, or a plain prompt");
    json_t *vars = NULL;
    HY_TRY(hy_json_parse("chat", chat_json, strlen(chat_json), &vars, err));
    hy_status s = HY_OK;
    marker m = { .tok = c->tok };
    if (!json_array_size(json_object_get(vars, "messages")))
        s = hy_fail(err, HY_E_ARG, "chat: 'messages' is missing, empty or no array");
    if (s == HY_OK) s = mark_vars(&m, chat_json, vars, err);
    if (s == HY_OK) s = render(c, vars, source, continue_final, text, err);
    if (s == HY_OK)
        s = hy_tok_encode_marked(c->tok, text->data ? text->data : "", text->len, m.any ? m.mark : NULL, ids, err);
    if (s == HY_OK && m.any) drop_mark(text, m.mark);
    json_decref(vars);
    return s;
}

hy_status hy_engine_chat_tokens(const hy_engine *e, const char *chat_json, const char *chat_template,
                                bool continue_final, char **text, int32_t **ids, size_t *n_ids, hy_err *err)
{
    hy_buf b = { 0 };
    hy_ids list = { 0 };
    if (text) *text = NULL;
    *ids = NULL;
    hy_status s = hy_core_chat_ids(e->core, chat_json, chat_template, continue_final, &b, &list, err);
    if (s == HY_OK && text) s = hy_buf_take(&b, text, err);
    if (s == HY_OK) s = hy_ids_take(&list, ids, n_ids, err);
    if (s != HY_OK && text) {
        hy_free(*text);
        *text = NULL;
    }
    hy_buf_free(&b);
    hy_ids_free(&list);
    return s;
}
