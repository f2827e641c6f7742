/* gpt-oss: an answer is messages with a header (role, channel, recipient, type) and a body (OpenAI's "harmony"
 * format). Thoughts are in the channel analysis, the answer in final, calls in commentary with a recipient.
 *
 *   <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>...
 *   <|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{...}<|call|> */
#include "serve/format_impl.h"
#include <string.h>

#define HEADER_MAX 512
static const char start_mark[] = "<|start|>", message_mark[] = "<|message|>", channel_mark[] = "<|channel|>";
static const char *const end_marks[] = { "<|end|>", "<|return|>", "<|call|>", start_mark, channel_mark };
#define N_CLOSING 3            /* of end_marks: these are taken */

void harmony_start(hy_chat_parser *p, const char *prompt)
{
    static const char turn[] = "<|start|>assistant";
    const char *last = NULL, *at, *body = NULL;
    for (at = prompt; (at = strstr(at, turn)) != NULL; at++) last = at;
    p->state = ST_HEADER;
    if (!last) return;
    last += strlen(turn);
    /* what the prompt has begun is as if the model had; text of a body was not asked for again */
    for (at = last; (at = strstr(at, message_mark)) != NULL; at++) body = at + strlen(message_mark);
    hy_buf_put(&p->in, last, body ? (size_t)(body - last) : strlen(last));
}

/* Does the text at i begin like a header? 1, 0, -1. */
static int header_begins(const char *s, size_t n, size_t i, bool final)
{
    static const char *const first[] = { channel_mark, message_mark, "<|constrain|>", "to=", "assistant" };
    int best = 0;
    for (size_t k = 0; k < HY_COUNT(first); k++) {
        int r = mark_at(s, n, i, first[k], final);
        if (r > 0) return 1;
        if (r < 0) best = -1;
    }
    return best;
}

static const char *word_after(const char *s, size_t n, const char *mark, size_t *n_word)
{
    const char *at = memmem(s, n, mark, strlen(mark));
    if (!at) return NULL;
    at += strlen(mark);
    const char *to = at;
    while (to < s + n && !is_space(*to) && *to != '<') to++;
    *n_word = (size_t)(to - at);
    return at;
}

static step begin_body(hy_chat_parser *p, const char *s, size_t n)
{
    size_t n_channel = 0, n_to = 0;
    const char *channel = word_after(s, n, channel_mark, &n_channel), *to = word_after(s, n, "to=", &n_to);
    const json_t *schema = NULL;
    p->thinking = channel && n_channel == 8 && !memcmp(channel, "analysis", 8);
    const char *name = to && p->tools ? tool_find(p->tools, to, n_to, &schema) : NULL;
    parser_take(p, n + strlen(message_mark));
    p->state = ST_BODY;
    if (!name) return STEP_AGAIN;
    parser_call(p, name, schema);
    json_scan_init(&p->scan);
    p->state = ST_CALL_BODY;
    return STEP_AGAIN;
}

static step step_header(hy_chat_parser *p)
{
    size_t n;
    const char *s = parser_text(p, &n), *at;
    size_t i = skip_space(s, n, 0);
    if (i == n) return STEP_MORE;
    int r = mark_at(s, n, i, start_mark, p->final);
    if (r > 0) {
        parser_take(p, i + strlen(start_mark));
        return STEP_AGAIN;
    }
    if (r == 0) r = header_begins(s, n, i, p->final);
    if (r < 0) return STEP_MORE;
    at = memmem(s, n, message_mark, strlen(message_mark));
    if (r > 0 && at && at - s <= HEADER_MAX) return begin_body(p, s, (size_t)(at - s));
    if (r > 0 && !at && n <= HEADER_MAX + strlen(message_mark)) {
        if (p->final) parser_take(p, n); /* cut in a header: nothing was said */
        return STEP_MORE;
    }
    p->thinking = false;       /* no header: text as it is */
    p->state = ST_BODY;
    return STEP_AGAIN;
}

/* An end mark at i: its number + 1, 0 for none, -1. */
static int end_at(const char *s, size_t n, size_t i, bool final)
{
    int best = 0;
    for (size_t k = 0; k < HY_COUNT(end_marks); k++) {
        int r = mark_at(s, n, i, end_marks[k], final);
        if (r > 0) return (int)k + 1;
        if (r < 0) best = -1;
    }
    return best;
}

static step after_body(hy_chat_parser *p, int mark)
{
    if (mark <= N_CLOSING) parser_take(p, strlen(end_marks[mark - 1]));
    p->state = mark <= N_CLOSING ? ST_AFTER : ST_HEADER;
    return STEP_AGAIN;
}

static step step_body(hy_chat_parser *p)
{
    size_t n, i;
    const char *s = parser_text(p, &n);
    int r = 0;
    for (i = 0; i < n; i++)
        if (s[i] == '<' && (r = end_at(s, n, i, p->final)) != 0) break;
    parser_show(p, i);
    return i < n && r > 0 ? after_body(p, r) : STEP_MORE;
}

static step step_call_body(hy_chat_parser *p)
{
    size_t n, used;
    const char *s = parser_text(p, &n);
    size_t i = p->scan.depth ? n : skip_space(s, n, 0);
    if (i < n && s[i] != '{') { /* no arguments, or not JSON */
        int r = end_at(s, n, i, p->final);
        if (r < 0) return STEP_MORE;
        parser_args(p, "{}", 2);
        parser_take(p, i);
        p->state = ST_BODY;
        return r > 0 ? after_body(p, r) : STEP_AGAIN;
    }
    if (n == i && !p->scan.depth) {
        if (p->final) parser_args(p, "{}", 2);
        parser_take(p, n);
        return STEP_MORE;
    }
    hy_buf_reset(&p->tmp);
    json_state st = json_scan_put(&p->scan, s, n, false, &used, &p->tmp);
    parser_args(p, p->tmp.data, p->tmp.len);
    parser_take(p, used);
    if (st == JSON_MORE) return STEP_MORE;
    p->state = st == JSON_DONE ? ST_AFTER : ST_BODY;
    return STEP_AGAIN;
}

/* Between messages. */
static step step_after(hy_chat_parser *p)
{
    size_t n;
    const char *s = parser_text(p, &n);
    size_t i = skip_space(s, n, 0);
    if (i == n) return STEP_MORE;
    int r = end_at(s, n, i, p->final);
    if (r < 0) return STEP_MORE;
    parser_take(p, i);
    if (r > 0) return after_body(p, r);
    p->thinking = false;
    p->state = ST_BODY;
    return STEP_AGAIN;
}

step step_harmony(hy_chat_parser *p)
{
    switch (p->state) {
    case ST_HEADER: return step_header(p);
    case ST_BODY: return step_body(p);
    case ST_CALL_BODY: return step_call_body(p);
    default: return step_after(p);
    }
}
