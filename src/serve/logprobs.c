/* Log-probabilities in the shapes of chat, of legacy completions, and of vLLM's prompt_logprobs. */
#include "serve/openai.h"
#include <math.h>
#include <string.h>

/* JSON has no infinities: what cannot happen gets a number that no softmax gives. */
static json_t *logprob_json(double v)
{
    return json_real(v >= -9999 ? v : -9999);
}

static json_t *bytes_json(const char *s, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        if (list && json_array_append_new(list, json_integer((unsigned char)s[i])) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

/* {"token", "logprob", "bytes"}: bytes are the token's own, also where a character spans tokens. */
static json_t *token_json(hy_engine *e, int32_t id, double logprob)
{
    char *s = NULL;
    size_t n = 0;
    if (hy_engine_piece(e, id, &s, &n, NULL) != HY_OK) {
        s = NULL; /* a model may have more logits than its tokenizer has tokens */
        n = 0;
    }
    json_t *o = json_object();
    bool ok = hy_set(o, "token", hy_json_text(s, n));
    ok = hy_set(o, "logprob", logprob_json(logprob)) && ok;
    ok = hy_set(o, "bytes", bytes_json(s, n)) && ok;
    hy_memory_free(s);
    if (ok) return o;
    json_decref(o);
    return NULL;
}

static json_t *chat_token(hy_engine *e, const hy_answer *a, const hy_gen_tok *t)
{
    json_t *o = token_json(e, t->id, (double)t->logprob), *top = json_array();
    bool ok = o && top;
    for (uint32_t k = 0; ok && k < t->n_top; k++) {
        const hy_logprob *l = &a->top[t->i_top + k];
        json_t *one = token_json(e, l->id, (double)l->logprob);
        ok = one && json_array_append_new(top, one) == 0;
    }
    if (ok && json_object_set(o, "top_logprobs", top) == 0) {
        json_decref(top);
        return o;
    }
    json_decref(top);
    json_decref(o);
    return NULL;
}

json_t *hy_logprobs_chat(const hy_gen *g, const hy_answer *a, size_t first, size_t last)
{
    hy_engine *e = hy_server_engine(hy_x_server(hy_gen_exchange(g)));
    json_t *list = json_array(), *o = json_object();
    bool ok = list && o;
    for (size_t i = first; ok && i < last; i++) {
        json_t *one = chat_token(e, a, &a->tok[i]);
        ok = one && json_array_append_new(list, one) == 0;
    }
    ok = hy_set(o, "content", list) && ok && hy_set(o, "refusal", json_null());
    if (ok) return o;
    json_decref(o);
    return NULL;
}

/* ---- legacy ---------------------------------------------------------------------------------------- */

bool hy_logprobs_legacy_open(hy_logprobs_legacy *l)
{
    *l = (hy_logprobs_legacy){ json_array(), json_array(), json_array(), json_array() };
    if (l->tokens && l->token_logprobs && l->top_logprobs && l->text_offset) return true;
    json_decref(hy_logprobs_legacy_take(l));
    return false;
}

/* Tokens that are no whole characters are written "bytes:\xe2\x80", as OpenAI does: no two look the same. */
static void legacy_text(hy_engine *e, int32_t id, hy_buf *out)
{
    char *s = NULL;
    size_t n = 0;
    if (hy_engine_piece(e, id, &s, &n, NULL) != HY_OK) return;
    if (hy_utf8_valid(s, n)) {
        hy_buf_put(out, s, n);
    } else {
        hy_buf_str(out, "bytes:");
        for (size_t i = 0; i < n; i++) hy_buf_printf(out, "\\x%02x", (unsigned char)s[i]);
    }
    hy_memory_free(s);
}

static bool put_top(json_t *o, hy_engine *e, int32_t id, double logprob)
{
    hy_buf b = { 0 };
    legacy_text(e, id, &b);
    bool ok = !b.failed && o;
    /* a NUL cannot stand in a key */
    const char *key = b.data ? b.data : "";
    if (ok && strlen(key) == b.len && !json_object_get(o, key)) ok = hy_set(o, key, logprob_json(logprob));
    hy_buf_free(&b);
    return ok;
}

bool hy_logprobs_legacy_put(hy_logprobs_legacy *l, hy_engine *e, int32_t id, double logprob, const hy_logprob *top,
                            uint32_t n_top, bool with_top, uint64_t at_char)
{
    hy_buf b = { 0 };
    legacy_text(e, id, &b);
    json_t *text = b.failed ? NULL : hy_json_text(b.data, b.len);
    hy_buf_free(&b);
    bool ok = text && json_array_append_new(l->tokens, text) == 0;
    json_t *value = isnan(logprob) ? json_null() : logprob_json(logprob);
    ok = ok && json_array_append_new(l->token_logprobs, value) == 0;
    ok = ok && json_array_append_new(l->text_offset, json_integer((json_int_t)at_char)) == 0;
    if (!ok || !with_top) return ok;
    if (isnan(logprob)) return json_array_append_new(l->top_logprobs, json_null()) == 0;
    json_t *o = json_object();
    for (uint32_t i = 0; ok && i < n_top; i++) ok = put_top(o, e, top[i].id, (double)top[i].logprob);
    /* the token that was drawn is there, also when it is none of the best */
    ok = ok && put_top(o, e, id, logprob);
    if (!ok) json_decref(o);
    return ok && json_array_append_new(l->top_logprobs, o) == 0;
}

json_t *hy_logprobs_legacy_take(hy_logprobs_legacy *l)
{
    json_t *o = json_object();
    bool with_top = json_array_size(l->top_logprobs) > 0 || json_array_size(l->tokens) == 0;
    bool ok = hy_set(o, "tokens", l->tokens);
    ok = hy_set(o, "token_logprobs", l->token_logprobs) && ok;
    if (with_top) {
        ok = hy_set(o, "top_logprobs", l->top_logprobs) && ok;
    } else {
        json_decref(l->top_logprobs);
        ok = hy_set(o, "top_logprobs", json_null()) && ok;
    }
    ok = hy_set(o, "text_offset", l->text_offset) && ok;
    memset(l, 0, sizeof *l);
    if (ok) return o;
    json_decref(o);
    return NULL;
}

/* ---- prompts --------------------------------------------------------------------------------------- */

static bool put_entry(json_t *o, hy_engine *e, int32_t id, double logprob, uint32_t rank)
{
    char key[16];
    snprintf(key, sizeof key, "%d", id);
    if (json_object_get(o, key)) return true;
    char *s = NULL;
    size_t n = 0;
    if (hy_engine_piece(e, id, &s, &n, NULL) != HY_OK) {
        s = NULL;
        n = 0;
    }
    json_t *one = json_object();
    bool ok = hy_set(one, "logprob", logprob_json(logprob));
    if (rank) ok = hy_set(one, "rank", json_integer(rank)) && ok; /* known among the alternatives only */
    ok = hy_set(one, "decoded_token", hy_json_text(s, n)) && ok;
    hy_memory_free(s);
    return hy_set(o, key, one) && ok;
}

json_t *hy_logprobs_prompt(const hy_gen *g, const hy_answer *a)
{
    hy_exchange *x = hy_gen_exchange(g);
    hy_engine *e = hy_server_engine(hy_x_server(x));
    uint32_t n = 0;
    hy_request *r = hy_x_request(x, a->i_request);
    const hy_token *t = r ? hy_request_prompt_logprobs(r, &n) : NULL;
    if (!t) return json_null();
    json_t *list = json_array();
    bool ok = list != NULL;
    for (uint32_t i = 0; ok && i < n; i++) {
        if (i == 0) {
            ok = json_array_append_new(list, json_null()) == 0;
            continue;
        }
        json_t *o = json_object();
        uint32_t rank = 0;
        for (uint32_t k = 0; k < t[i].n_top; k++)
            if (t[i].top[k].id == t[i].id) rank = k + 1;
        ok = o && put_entry(o, e, t[i].id, (double)t[i].logprob, rank);
        for (uint32_t k = 0; ok && k < t[i].n_top; k++)
            ok = put_entry(o, e, t[i].top[k].id, (double)t[i].top[k].logprob, k + 1);
        if (!ok) json_decref(o);
        ok = ok && json_array_append_new(list, o) == 0;
    }
    if (ok) return list;
    json_decref(list);
    return NULL;
}

json_t *hy_ids_json(const int32_t *ids, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        if (list && json_array_append_new(list, json_integer(ids[i])) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

json_t *hy_token_ids_json(const hy_answer *a, size_t first, size_t last)
{
    json_t *list = json_array();
    for (size_t i = first; i < last; i++) {
        if (list && json_array_append_new(list, json_integer(a->tok[i].id)) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}
