/* POST /tokenize, /detokenize, /apply-template: llama-server's shapes, and vLLM's fields where they differ. */
#include "serve/gen_impl.h"
#include "serve/openai.h"
#include "serve/rows.h"
#include <string.h>

typedef struct tokenize {
    hy_ask ask;                /* messages and what goes with them */
    const char *model;
    const json_t *content, *prompt, *messages;
    bool add_special, has_add_special, parse_special, with_pieces, return_token_strs;
    bool add_generation_prompt;
} tokenize;

#define AT(m) offsetof(tokenize, m)
const hy_field hy_tokenize_fields[] = {
    { "model", HY_F_STR, 0, 0, AT(model), NULL, "the model's id", 0 },
    { "content", HY_F_ANY, 0, 0, AT(content), "string", "the text (llama-server)", 0 },
    { "prompt", HY_F_ANY, 0, 0, AT(prompt), "string", "the text (vLLM)", 0 },
    { "messages", HY_F_ANY, 0, 0, AT(messages), "array of messages",
      "instead of a text: what the template makes of them", 0 },
    { "tools", HY_F_ARRAY, 0, 1024, AT(ask.tools), NULL, "with messages", 0 },
    { "chat_template_kwargs", HY_F_OBJECT, 0, 0, AT(ask.template_kwargs), NULL, "with messages", 0 },
    { "add_generation_prompt", HY_F_BOOL, 0, 0, AT(add_generation_prompt), NULL, "with messages; default true", 0 },
    { "continue_final_message", HY_F_BOOL, 0, 0, AT(ask.continue_final), NULL, "with messages", 0 },
    { "add_special", HY_F_BOOL, 0, 0, AT(add_special), NULL, "BOS and the like; default false", AT(has_add_special) },
    { "add_special_tokens", HY_F_BOOL, 0, 0, AT(add_special), NULL, "vLLM's name; with prompt the default is true",
      AT(has_add_special) },
    { "parse_special", HY_F_BOOL, 0, 0, AT(parse_special), NULL,
      "control tokens written out become such; default true", 0 },
    { "with_pieces", HY_F_BOOL, 0, 0, AT(with_pieces), NULL,
      "tokens as {id, piece}; a piece that is no UTF-8 as its bytes", 0 },
    { "return_token_strs", HY_F_BOOL, 0, 0, AT(return_token_strs), NULL, "token_strs beside the ids", 0 },
    { NULL, 0, 0, 0, 0, NULL, NULL, 0 }
};

const hy_field hy_template_fields[] = {
    { "model", HY_F_STR, 0, 0, AT(model), NULL, "the model's id", 0 },
    { "messages", HY_F_ANY, 0, 0, AT(messages), "array of messages", "as in /v1/chat/completions", 0 },
    { "tools", HY_F_ARRAY, 0, 1024, AT(ask.tools), NULL, "functions for the template", 0 },
    { "documents", HY_F_ARRAY, 0, 10000, AT(ask.documents), NULL, "documents for the template", 0 },
    { "chat_template_kwargs", HY_F_OBJECT, 0, 0, AT(ask.template_kwargs), NULL, "variables for the template", 0 },
    { "reasoning_effort", HY_F_STR, 0, 0, AT(ask.reasoning_effort), "none|minimal|low|medium|high|xhigh|max",
      "variable of the template", 0 },
    { "add_generation_prompt", HY_F_BOOL, 0, 0, AT(add_generation_prompt), NULL, "default true", 0 },
    { "continue_final_message", HY_F_BOOL, 0, 0, AT(ask.continue_final), NULL,
      "the text ends where the last message does", 0 },
    { NULL, 0, 0, 0, 0, NULL, NULL, 0 }
};

static hy_engine *engine_of(hy_exchange *x)
{
    return hy_server_engine(hy_x_server(x));
}

/* The template's text and ids. */
static hy_status render(hy_exchange *x, tokenize *t, char **text, int32_t **ids, size_t *n, hy_err *err)
{
    if (!t->messages) return hy_fail(err, HY_E_ARG, "messages: missing");
    HY_TRY(hy_messages_check(t->messages, err));
    if (t->ask.tools) HY_TRY(hy_tools_check(t->ask.tools, err));
    t->ask.messages = t->messages;
    t->ask.choice = json_array_size(t->ask.tools) ? HY_TOOLS_AUTO : HY_TOOLS_NONE;
    t->ask.no_generation_prompt = !t->add_generation_prompt;
    return hy_ask_render(engine_of(x), &t->ask, text, ids, n, err);
}

static json_t *piece_json(hy_engine *e, int32_t id, bool as_bytes)
{
    char *s = NULL;
    size_t n = 0;
    if (hy_engine_piece(e, id, &s, &n, NULL) != HY_OK) return NULL;
    json_t *v;
    if (as_bytes && !hy_utf8_valid(s, n)) {
        v = json_array();
        for (size_t i = 0; v && i < n; i++) json_array_append_new(v, json_integer((unsigned char)s[i]));
    } else {
        v = hy_json_text(s, n);
    }
    hy_memory_free(s);
    return v;
}

static json_t *pieces_json(hy_engine *e, const int32_t *ids, size_t n, bool with_ids)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *p = piece_json(e, ids[i], with_ids);
        json_t *one = !p || !with_ids ? p : json_pack("{s:i, s:o}", "id", (int)ids[i], "piece", p);
        if (list && one && json_array_append_new(list, one) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *tokens_reply(hy_exchange *x, const tokenize *t, const int32_t *ids, size_t n)
{
    hy_facts f;
    hy_engine_facts(engine_of(x), &f);
    json_t *o = json_object();
    bool ok = hy_set(o, "tokens", t->with_pieces ? pieces_json(engine_of(x), ids, n, true) : hy_ids_json(ids, n));
    ok = hy_set(o, "count", json_integer((json_int_t)n)) && ok;
    ok = hy_set(o, "max_model_len", json_integer(f.n_ctx)) && ok;
    if (t->return_token_strs) ok = hy_set(o, "token_strs", pieces_json(engine_of(x), ids, n, false)) && ok;
    if (ok) return o;
    json_decref(o);
    return NULL;
}

static hy_status tokens_of(hy_exchange *x, tokenize *t, const char **param, int32_t **ids, size_t *n, hy_err *err)
{
    *param = "messages";
    if (t->messages) return render(x, t, NULL, ids, n, err);
    const json_t *text = t->content ? t->content : t->prompt;
    *param = t->content || !t->prompt ? "content" : "prompt";
    if (!text) return hy_fail(err, HY_E_ARG, "content: missing");
    if (!json_is_string(text)) return hy_fail(err, HY_E_ARG, "%s: no string", *param);
    bool special = t->has_add_special ? t->add_special : !t->content;
    return hy_engine_tokenize(engine_of(x), json_string_value(text), json_string_length(text), special,
                              t->parse_special, ids, n, err);
}

void hy_route_tokenize(hy_exchange *x)
{
    tokenize t = { .parse_special = true, .add_generation_prompt = true };
    hy_ask_init(&t.ask);
    const json_t *body = hy_x_json(x);
    if (!body || !hy_fields_read_x(x, hy_tokenize_fields, body, &t) || !hy_model_check(x, t.model)) return;
    hy_err err;
    const char *param;
    int32_t *ids = NULL;
    size_t n = 0;
    if (tokens_of(x, &t, &param, &ids, &n, &err) != HY_OK) hy_x_fail(x, param, &err);
    else hy_openai_reply(x, tokens_reply(x, &t, ids, n));
    hy_memory_free(ids);
    hy_ask_free(&t.ask);
}

void hy_route_apply_template(hy_exchange *x)
{
    tokenize t = { .add_generation_prompt = true };
    hy_ask_init(&t.ask);
    const json_t *body = hy_x_json(x);
    if (!body || !hy_fields_read_x(x, hy_template_fields, body, &t) || !hy_model_check(x, t.model)) return;
    hy_err err;
    char *text = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    if (render(x, &t, &text, &ids, &n, &err) != HY_OK) {
        hy_x_fail(x, "messages", &err);
    } else {
        json_t *o = json_object();
        bool ok = hy_set(o, "prompt", hy_json_text(text, strlen(text)));
        ok = hy_set(o, "n_tokens", json_integer((json_int_t)n)) && ok;
        if (!ok) json_decref(o);
        hy_openai_reply(x, ok ? o : NULL);
    }
    hy_memory_free(ids);
    hy_memory_free(text);
    hy_ask_free(&t.ask);
}

/* ---- ids to text ------------------------------------------------------------------------------------- */

typedef struct detokenize {
    const char *model;
    const json_t *tokens;
    bool skip_special;
} detokenize;

const hy_field hy_detokenize_fields[] = {
    { "model", HY_F_STR, 0, 0, offsetof(detokenize, model), NULL, "the model's id", 0 },
    { "tokens", HY_F_INTS, 0, 0, offsetof(detokenize, tokens), NULL, "token ids", 0 },
    { "skip_special_tokens", HY_F_BOOL, 0, 0, offsetof(detokenize, skip_special), NULL,
      "leave out control tokens; default false", 0 },
    { NULL, 0, 0, 0, 0, NULL, NULL, 0 }
};

static hy_status ids_of(hy_exchange *x, const json_t *v, int32_t **out, hy_err *err)
{
    hy_facts f;
    hy_engine_facts(engine_of(x), &f);
    size_t i, n = json_array_size(v);
    json_t *m;
    int32_t *ids = hy_alloc_array(n + 1, sizeof *ids);
    if (!ids) return hy_fail_memory(err, "tokens", n * sizeof *ids);
    *out = ids;
    json_array_foreach(v, i, m)
    {
        json_int_t id = json_integer_value(m);
        if (id < 0 || id >= f.n_vocab)
            return hy_fail(err, HY_E_ARG, "tokens[%zu]: %" JSON_INTEGER_FORMAT " is not in 0..%u", i, id,
                           f.n_vocab - 1);
        ids[i] = (int32_t)id;
    }
    return HY_OK;
}

void hy_route_detokenize(hy_exchange *x)
{
    detokenize d = { 0 };
    const json_t *body = hy_x_json(x);
    if (!body || !hy_fields_read_x(x, hy_detokenize_fields, body, &d) || !hy_model_check(x, d.model)) return;
    hy_err err;
    int32_t *ids = NULL;
    char *text = NULL;
    hy_status s = d.tokens ? ids_of(x, d.tokens, &ids, &err) : hy_fail(&err, HY_E_ARG, "tokens: missing");
    if (s == HY_OK)
        s = hy_engine_detokenize(engine_of(x), ids, json_array_size(d.tokens), !d.skip_special, &text, &err);
    hy_free(ids);
    if (s != HY_OK) {
        hy_x_fail(x, "tokens", &err);
        return;
    }
    json_t *o = json_object();
    bool ok = hy_set(o, "content", hy_json_text(text, strlen(text)));
    ok = hy_set(o, "prompt", hy_json_text(text, strlen(text))) && ok; /* vLLM's name */
    hy_memory_free(text);
    if (!ok) json_decref(o);
    hy_openai_reply(x, ok ? o : NULL);
}
