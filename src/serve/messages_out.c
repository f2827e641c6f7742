/* Answers in Anthropic's shape: a list of blocks, whole or as events. */
#include "serve/anthropic.h"
#include "serve/openai.h"
#include <string.h>

typedef enum block_kind { BLOCK_NONE, BLOCK_TEXT, BLOCK_THINKING, BLOCK_TOOL } block_kind;

typedef struct block {
    block_kind kind;
    hy_buf text;               /* text, thoughts, or the JSON text of the input */
    char *id, *name;
} block;

typedef struct messages {
    bool hide_thinking;
    bool begun;                /* message_start was sent */
    block_kind open;           /* streams: the block that is open */
    uint32_t index;            /* its number; before the first one 0 */
    uint32_t n_sent;           /* blocks begun */
    hy_buf space;              /* white space that may begin a text */
    hy_buf thoughts;           /* of the open block, for its signature */
    block *block;              /* whole answers */
    uint32_t n_block, cap_block;
    bool failed;
} messages;

void *hy_messages_user(bool hide_thinking)
{
    messages *m = HY_NEW(messages);
    if (m) m->hide_thinking = hide_thinking;
    return m;
}

static void messages_free(void *user)
{
    messages *m = user;
    for (uint32_t i = 0; i < m->n_block; i++) {
        hy_buf_free(&m->block[i].text);
        hy_free(m->block[i].id);
        hy_free(m->block[i].name);
    }
    hy_free(m->block);
    hy_buf_free(&m->space);
    hy_buf_free(&m->thoughts);
    hy_free(m);
}

static bool blank(const char *s, size_t n)
{
    return strspn(s, " \t\r\n") >= n;
}

/* ---- shared parts ---------------------------------------------------------------------------------------- */

static const char *stop_reason(const hy_answer *a)
{
    if (a->finish != HY_FINISH_STOP) return "max_tokens";
    if (a->stop) return "stop_sequence";
    return a->n_call ? "tool_use" : "end_turn";
}

static json_t *stop_sequence(const hy_answer *a)
{
    return a->stop ? hy_json_text(a->stop, strlen(a->stop)) : json_null();
}

/* Anthropic counts cached tokens apart from the others. */
static json_t *usage_json(const hy_usage *u, uint32_t n_output)
{
    uint32_t cached = HY_MIN(u->n_cached, u->n_prompt);
    return json_pack("{s:I, s:i, s:I, s:I, s:s}", "input_tokens", (json_int_t)(u->n_prompt - cached),
                     "cache_creation_input_tokens", 0, "cache_read_input_tokens", (json_int_t)cached, "output_tokens",
                     (json_int_t)n_output, "service_tier", "standard");
}

static json_t *message_json(const hy_gen *g, json_t *content, json_t *reason, json_t *sequence, json_t *usage)
{
    char id[64];
    json_t *o = json_pack("{s:s, s:s, s:s, s:s}", "id", hy_gen_id(g, "msg_", id), "type", "message", "role",
                          "assistant", "model", hy_server_model_id(hy_x_server(hy_gen_exchange(g))));
    bool ok = hy_set(o, "content", content);
    ok = hy_set(o, "stop_reason", reason) && ok;
    ok = hy_set(o, "stop_sequence", sequence) && ok;
    ok = hy_set(o, "usage", usage) && ok;
    if (ok) return o;
    json_decref(o);
    return NULL;
}

/* What stands for Anthropic's proof that thoughts are its model's own: this server does not check it. */
static json_t *signature(const hy_buf *thoughts)
{
    char hex[40];
    snprintf(hex, sizeof hex, "hayate-%016llx",
             (unsigned long long)hy_hash64(thoughts->len ? thoughts->data : "", thoughts->len, 1));
    return json_string(hex);
}

/* ---- whole answers ----------------------------------------------------------------------------------------- */

static block *new_block(messages *m, block_kind kind)
{
    if (m->n_block == m->cap_block) {
        uint32_t cap = m->cap_block * 2 + 4;
        void *q = hy_realloc_array(m->block, cap, sizeof *m->block);
        if (!q) return NULL;
        m->block = q;
        m->cap_block = cap;
    }
    block *b = &m->block[m->n_block++];
    *b = (block){ .kind = kind };
    return b;
}

static void collect(hy_gen *g, hy_answer *a, const hy_piece *p)
{
    messages *m = hy_gen_user(g);
    block *last = m->n_block ? &m->block[m->n_block - 1] : NULL;
    static const block_kind kinds[] = { [HY_PIECE_CONTENT] = BLOCK_TEXT, [HY_PIECE_REASONING] = BLOCK_THINKING,
                                        [HY_PIECE_CALL] = BLOCK_TOOL, [HY_PIECE_ARGS] = BLOCK_TOOL };
    block_kind kind = kinds[p->kind];
    if (!last || last->kind != kind || p->kind == HY_PIECE_CALL) last = new_block(m, kind);
    if (!last) {
        m->failed = true;
        return;
    }
    if (p->kind == HY_PIECE_CALL) {
        last->id = hy_strdup(p->id);
        last->name = hy_strdup(p->name);
        if (!last->id || !last->name) m->failed = true;
        return;
    }
    hy_buf_put(&last->text, p->text, p->n);
    m->failed |= last->text.failed;
}

/* The arguments as an object; a call that was cut short has none. */
static json_t *input_json(const hy_buf *text)
{
    json_t *v = text->len ? json_loadb(text->data, text->len, JSON_ALLOW_NUL, NULL) : NULL;
    if (json_is_object(v)) return v;
    json_decref(v);
    return json_object();
}

static json_t *block_json(const block *b)
{
    json_t *o = NULL, *v;
    switch (b->kind) {
    case BLOCK_TEXT:
        v = hy_json_text(b->text.data, b->text.len);
        return v ? json_pack("{s:s, s:o}", "type", "text", "text", v) : NULL;
    case BLOCK_THINKING:
        v = hy_json_text(b->text.data, b->text.len);
        o = v ? json_pack("{s:s, s:o, s:o}", "type", "thinking", "thinking", v, "signature", signature(&b->text))
              : NULL;
        return o;
    default:
        v = input_json(&b->text);
        return v ? json_pack("{s:s, s:s, s:s, s:o}", "type", "tool_use", "id", b->id, "name", b->name, "input", v)
                 : NULL;
    }
}

static json_t *content_json(const messages *m)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < m->n_block; i++) {
        const block *b = &m->block[i];
        if (b->kind == BLOCK_THINKING && m->hide_thinking) continue;
        if (b->kind != BLOCK_TOOL && blank(b->text.len ? b->text.data : "", b->text.len)) continue;
        json_t *o = block_json(b);
        if (list && o && json_array_append_new(list, o) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

static void reply(hy_gen *g)
{
    messages *m = hy_gen_user(g);
    const hy_answer *a = hy_gen_answer(g, 0);
    json_t *o = NULL;
    if (!m->failed)
        o = message_json(g, content_json(m), json_string(stop_reason(a)), stop_sequence(a),
                         usage_json(&a->usage, a->usage.n_output));
    hy_openai_reply(hy_gen_exchange(g), o);
}

/* ---- streams ------------------------------------------------------------------------------------------------ */

static void send(hy_gen *g, const char *event, json_t *o)
{
    json_t *all = o ? json_pack("{s:s}", "type", event) : NULL;
    bool ok = all && json_object_update(all, o) == 0;
    json_decref(o);
    if (ok) {
        hy_x_sse(hy_gen_exchange(g), event, all);
        return;
    }
    json_decref(all);
    messages *m = hy_gen_user(g);
    if (!m->failed) hy_openai_no_memory(hy_gen_exchange(g));
    m->failed = true;
}

static void begin(hy_gen *g, const hy_answer *a)
{
    messages *m = hy_gen_user(g);
    hy_exchange *x = hy_gen_exchange(g);
    hy_usage u = a->usage;
    if (m->begun) return;
    m->begun = true;
    if (a->i_request != UINT32_MAX) hy_request_usage(hy_x_request(x, a->i_request), &u);
    hy_x_stream(x, "text/event-stream");
    json_t *msg = message_json(g, json_array(), json_null(), json_null(), usage_json(&u, 1));
    send(g, "message_start", msg ? json_pack("{s:o}", "message", msg) : NULL);
    send(g, "ping", json_object());
}

static void send_delta(hy_gen *g, const char *type, const char *key, json_t *value)
{
    messages *m = hy_gen_user(g);
    send(g, "content_block_delta",
         value ? json_pack("{s:I, s:{s:s, s:o}}", "index", (json_int_t)m->index, "delta", "type", type, key, value)
               : NULL);
}

static void close_block(hy_gen *g)
{
    messages *m = hy_gen_user(g);
    if (m->open == BLOCK_NONE) return;
    if (m->open == BLOCK_THINKING) send_delta(g, "signature_delta", "signature", signature(&m->thoughts));
    send(g, "content_block_stop", json_pack("{s:I}", "index", (json_int_t)m->index));
    m->open = BLOCK_NONE;
    hy_buf_reset(&m->thoughts);
}

static void open_block(hy_gen *g, block_kind kind, json_t *content)
{
    messages *m = hy_gen_user(g);
    close_block(g);
    m->open = kind;
    m->index = m->n_sent++;
    send(g, "content_block_start",
         content ? json_pack("{s:I, s:o}", "index", (json_int_t)m->index, "content_block", content) : NULL);
}

static void stream_text(hy_gen *g, block_kind kind, const char *s, size_t n)
{
    messages *m = hy_gen_user(g);
    bool text = kind == BLOCK_TEXT;
    if (!text && m->hide_thinking) return;
    if (m->open != kind) {
        hy_buf_put(&m->space, s, n);
        if (blank(s, n)) return; /* a block of nothing is no block */
        open_block(g, kind, text ? json_pack("{s:s, s:s}", "type", "text", "text", "")
                                 : json_pack("{s:s, s:s, s:s}", "type", "thinking", "thinking", "", "signature", ""));
        s = m->space.data;
        n = m->space.len;
        m->failed |= m->space.failed;
    }
    if (n && s) send_delta(g, text ? "text_delta" : "thinking_delta", text ? "text" : "thinking", hy_json_text(s, n));
    if (!text) hy_buf_put(&m->thoughts, s, n);
    hy_buf_reset(&m->space);
}

static void on_piece(hy_gen *g, hy_answer *a, const hy_piece *p)
{
    messages *m = hy_gen_user(g);
    if (m->failed) return;
    begin(g, a);
    switch (p->kind) {
    case HY_PIECE_CONTENT: stream_text(g, BLOCK_TEXT, p->text, p->n); break;
    case HY_PIECE_REASONING: stream_text(g, BLOCK_THINKING, p->text, p->n); break;
    case HY_PIECE_CALL:
        hy_buf_reset(&m->space);
        open_block(g, BLOCK_TOOL,
                   json_pack("{s:s, s:s, s:s, s:{}}", "type", "tool_use", "id", p->id, "name", p->name, "input"));
        break;
    default: send_delta(g, "input_json_delta", "partial_json", hy_json_text(p->text, p->n));
    }
}

static void on_step(hy_gen *g, hy_answer *a, size_t first)
{
    begin(g, a);
}

static void on_all(hy_gen *g)
{
    messages *m = hy_gen_user(g);
    const hy_answer *a = hy_gen_answer(g, 0);
    if (m->failed) return;
    begin(g, a);
    close_block(g);
    json_t *o = json_object();
    bool ok = hy_set(o, "delta",
                     json_pack("{s:s, s:o}", "stop_reason", stop_reason(a), "stop_sequence", stop_sequence(a)));
    ok = hy_set(o, "usage", usage_json(&a->usage, a->usage.n_output)) && ok;
    if (!ok) json_decref(o);
    send(g, "message_delta", ok ? o : NULL);
    send(g, "message_stop", json_object());
    hy_x_end(hy_gen_exchange(g));
}

const hy_gen_sink hy_messages_whole = { .piece = collect, .all = reply, .close = messages_free };
const hy_gen_sink hy_messages_stream = { .piece = on_piece, .step = on_step, .all = on_all, .close = messages_free };
