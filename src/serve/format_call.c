/* A call from its first mark to what follows it. */
#include "serve/format_impl.h"
#include <string.h>

#define NAME_MAX 128
#define ATTRIBUTES_MAX 256
#define EAGER (4 * HY_KIB)     /* undecided bytes up to which every new one is looked at */

step parser_wait(hy_chat_parser *p)
{
    size_t n = p->in.len - p->at;
    p->wait = n > EAGER ? n + n / 8 : 0;
    return STEP_MORE;
}

step parser_stop_call(hy_chat_parser *p)
{
    p->state = ST_TEXT;
    p->skip_space = p->blank = false;
    p->no_bare = true;
    return STEP_AGAIN;
}

/* ---- the head: everything up to the arguments ---------------------------------------------------------- */

typedef struct head {
    const char *s;
    size_t n, i;
    bool final;
    bool section, list;
    const char *name;
    const json_t *schema;
    bool has_args, args_text;  /* object: arguments were read: s[from .. to); they are a string literal */
    size_t from, to;
} head;

static json_state head_end(const head *h)
{
    return h->final ? JSON_BAD : JSON_MORE;
}

/* A mark here, white space before it skipped; none to match is fine. */
static json_state head_mark(head *h, const char *mark)
{
    if (!mark || !*mark) return JSON_DONE;
    while (is_space(*mark)) mark++;
    size_t i = skip_space(h->s, h->n, h->i);
    int r = mark_at(h->s, h->n, i, mark, h->final);
    if (r < 0) return JSON_MORE;
    if (r == 0) return JSON_BAD;
    h->i = i + strlen(mark); /* space after it is left: how much there is depends on the cut */
    return JSON_DONE;
}

static bool in_name(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' || c == '-' || c == '.';
}

static json_state head_name(const hy_chat_parser *p, head *h)
{
    size_t from = skip_space(h->s, h->n, h->i), to = from;
    while (to < h->n && to - from <= NAME_MAX && in_name(h->s[to])) to++;
    if (to - from > NAME_MAX) return JSON_BAD;
    if (to == h->n) return head_end(h);
    h->name = tool_find(p->tools, h->s + from, to - from, &h->schema);
    h->i = to;
    return h->name ? JSON_DONE : JSON_BAD;
}

/* Up to and with a mark that must come soon. */
static json_state head_attributes(head *h, const char *mark)
{
    if (!mark) return JSON_DONE;
    const char *at = memmem(h->s + h->i, h->n - h->i, mark, strlen(mark));
    if (at && (size_t)(at - h->s) - h->i <= ATTRIBUTES_MAX) {
        h->i = (size_t)(at - h->s) + strlen(mark);
        return JSON_DONE;
    }
    return !at && h->n - h->i <= ATTRIBUTES_MAX + strlen(mark) ? head_end(h) : JSON_BAD;
}

static json_state head_char(head *h, char c)
{
    h->i = skip_space(h->s, h->n, h->i);
    if (h->i == h->n) return head_end(h);
    return h->s[h->i] == c ? JSON_DONE : JSON_BAD;
}

#define NEED(call)                                                                                 \
    do {                                                                                           \
        json_state need_ = (call);                                                                 \
        if (need_ != JSON_DONE) return need_;                                                      \
    } while (0)

/* Is the key one of the words of a list? */
static bool key_is(const hy_buf *key, const char *list)
{
    while (*list) {
        size_t n = strcspn(list, " ");
        if (n == key->len && !memcmp(list, key->data, n)) return true;
        list += n + (list[n] == ' ');
    }
    return false;
}

/* "key": with the key in p->key. */
static json_state head_key(hy_chat_parser *p, head *h)
{
    size_t used;
    NEED(head_char(h, '"'));
    hy_buf_reset(&p->key);
    NEED(json_string_at(h->s + h->i, h->n - h->i, &p->key, &used));
    h->i += used;
    NEED(head_char(h, ':'));
    h->i = skip_space(h->s, h->n, h->i + 1);
    return h->i == h->n ? head_end(h) : JSON_DONE;
}

static json_state object_name(hy_chat_parser *p, head *h)
{
    size_t used;
    hy_buf_reset(&p->tmp);
    NEED(json_string_at(h->s + h->i, h->n - h->i, &p->tmp, &used));
    h->i += used;
    h->name = tool_find(p->tools, p->tmp.data ? p->tmp.data : "", p->tmp.len, &h->schema);
    return h->name ? JSON_DONE : JSON_BAD;
}

/* One member: JSON_DONE and *begun when the arguments begin here and may go out as they come. */
static json_state object_member(hy_chat_parser *p, head *h, bool bare, bool *begun)
{
    size_t used;
    NEED(head_key(p, h));
    if (key_is(&p->key, "name tool_name function recipient_name")) return object_name(p, h);
    bool args = key_is(&p->key, "arguments parameters args input");
    if (!args && bare && !key_is(&p->key, "id type tool_call_id index")) return JSON_BAD;
    char c = h->s[h->i];
    if (args && c != '{' && c != '"' && c != 'n') return JSON_BAD;
    if (args && c == '{' && h->name && !h->has_args) {
        *begun = true;
        return JSON_DONE;
    }
    NEED(json_skip(h->s + h->i, h->n - h->i, h->final, &used));
    if (args) {
        h->from = h->i;
        h->to = h->i + used;
        h->args_text = c == '"';
        h->has_args = c != 'n';
    }
    h->i += used;
    return JSON_DONE;
}

/* {"name": N, "arguments": ...: up to the arguments, or to the closing brace when they came before the name, as
 * a string, or not at all. */
static json_state head_object(hy_chat_parser *p, head *h, bool bare, bool *begun)
{
    NEED(head_char(h, '{'));
    h->i++;
    for (bool first = true;; first = false) {
        h->i = skip_space(h->s, h->n, h->i);
        if (h->i == h->n) return head_end(h);
        if (h->s[h->i] == '}') break;
        if (!first) NEED(head_char(h, ','));
        if (!first) h->i++;
        NEED(object_member(p, h, bare, begun));
        if (*begun) return JSON_DONE;
    }
    return h->name && (h->has_args || !bare) ? JSON_DONE : JSON_BAD;
}

static json_state head_keyed(hy_chat_parser *p, head *h)
{
    NEED(head_char(h, '{'));
    h->i++;
    NEED(head_key(p, h));
    h->name = tool_find(p->tools, p->key.data ? p->key.data : "", p->key.len, &h->schema);
    return h->name ? head_char(h, '{') : JSON_BAD;
}

/* Python: name( ; Llama's built-in tools: name.call( */
static json_state head_python(const hy_chat_parser *p, head *h, char open)
{
    size_t from = skip_space(h->s, h->n, h->i), to = from;
    while (to < h->n && to - from <= NAME_MAX && in_name(h->s[to])) to++;
    if (to == h->n && to - from <= NAME_MAX) return head_end(h);
    size_t n = to - from;
    if (h->s[to] != open) return JSON_BAD;
    h->name = tool_find(p->tools, h->s + from, n, &h->schema);
    if (!h->name && n > 5 && !memcmp(h->s + to - 5, ".call", 5))
        h->name = tool_find(p->tools, h->s + from, n - 5, &h->schema);
    h->i = to + 1;
    return h->name ? JSON_DONE : JSON_BAD;
}

static json_state head_named(hy_chat_parser *p, const call_form *f, head *h)
{
    NEED(head_mark(h, f->open));
    NEED(head_name(p, h));
    NEED(head_mark(h, f->name_end));
    NEED(head_attributes(h, f->head_end));
    if (f->shape == SHAPE_NAMED) return head_char(h, '{');
    if (f->name_end) return JSON_DONE;
    size_t i = skip_space(h->s, h->n, h->i); /* nothing ended the name: an argument or the close must follow */
    if (i == h->n) return head_end(h);
    int a = mark_at(h->s, h->n, i, f->p_open, h->final), b = mark_at(h->s, h->n, i, f->close, h->final);
    return a > 0 || b > 0 ? JSON_DONE : a < 0 || b < 0 ? JSON_MORE : JSON_BAD;
}

/* What stands before the first call of a form. */
static json_state head_begin(const call_form *f, head *h)
{
    if (f->begin) {
        json_state st = head_mark(h, f->begin);
        if (st != JSON_DONE && !(st == JSON_BAD && f->flags & FORM_BEGIN_OPTIONAL)) return st;
        h->section = st == JSON_DONE;
    }
    if (f->shape != SHAPE_OBJECT && f->shape != SHAPE_KEYED && f->shape != SHAPE_PYTHON) return JSON_DONE;
    h->i = skip_space(h->s, h->n, h->i);
    if (h->i == h->n) return head_end(h);
    if (h->s[h->i] == '[') {
        h->list = true;
        h->i++;
    } else if (f->shape == SHAPE_PYTHON && f->flags & FORM_BARE) {
        return JSON_BAD;
    }
    return JSON_DONE;
}

static json_state head_of(hy_chat_parser *p, const call_form *f, bool first, head *h, bool *begun)
{
    *begun = true;
    if (first) NEED(head_begin(f, h));
    switch (f->shape) {
    case SHAPE_OBJECT: *begun = false; return head_object(p, h, f->flags & FORM_BARE, begun);
    case SHAPE_KEYED: return head_keyed(p, h);
    case SHAPE_PYTHON: return head_python(p, h, '(');
    case SHAPE_GEMMA: NEED(head_mark(h, f->open)); return head_python(p, h, '{');
    default: return head_named(p, f, h);
    }
}

/* The call is one: says so, and goes on with its arguments. */
static void commit(hy_chat_parser *p, const call_form *f, const head *h, bool begun, size_t taken)
{
    p->form = f;
    p->in_section |= h->section;
    p->in_list |= h->list;
    parser_call(p, h->name, h->schema);
    if (begun) {
        json_scan_init(&p->scan);
        p->state = f->shape == SHAPE_XML ? ST_ARGS_XML
                   : f->shape == SHAPE_PYTHON || f->shape == SHAPE_GEMMA ? ST_ARGS_LITERAL : ST_ARGS_JSON;
    } else {
        size_t used;
        const char *s = h->s + h->from;
        if (h->args_text) {
            hy_buf_reset(&p->tmp);
            json_string_at(s, h->to - h->from, &p->tmp, &used);
            if (p->tmp.len) parser_args(p, p->tmp.data, p->tmp.len);
            else parser_args(p, "{}", 2);
        } else if (h->has_args) {
            parser_args(p, s, h->to - h->from);
        } else {
            parser_args(p, "{}", 2);
        }
        p->state = ST_TAIL;
    }
    parser_take(p, taken + h->i);
}

static bool form_fits(const hy_chat_parser *p, const call_form *f, const char *s, size_t n)
{
    if (f->flags & FORM_BARE) return p->blank && !p->no_bare && (s[0] == '{' || s[0] == '[');
    const char *mark = f->begin ? f->begin : f->open;
    if (mark_at(s, n, 0, mark, p->final) == 1) return true;
    return f->flags & FORM_BEGIN_OPTIONAL && mark_at(s, n, 0, f->open, p->final) == 1;
}

/* Not a call: the mark and the space before it are text. */
static step refuse(hy_chat_parser *p, const char *s, size_t n)
{
    size_t mark = 1;
    for (int k = 0; k < FORMAT_FORMS && p->f->form[k].shape; k++) {
        const call_form *f = &p->f->form[k];
        const char *at[2] = { f->begin ? f->begin : f->open, f->open };
        for (int j = 0; j < 2; j++)
            if (at[j] && *at[j] && mark_at(s, n, 0, at[j], true) == 1) mark = HY_MAX(mark, strlen(at[j]));
    }
    if (s[0] == '{' || s[0] == '[') p->no_bare = true;
    p->state = ST_TEXT;
    parser_show(p, p->head + mark);
    return STEP_AGAIN;
}

step step_head(hy_chat_parser *p)
{
    size_t n;
    const char *s = parser_text(p, &n) + p->head;
    n -= p->head;
    for (int k = 0; k < FORMAT_FORMS && p->f->form[k].shape; k++) {
        const call_form *f = &p->f->form[k];
        bool begun;
        head h = { .s = s, .n = n, .final = p->final };
        if (!form_fits(p, f, s, n)) continue;
        json_state st = head_of(p, f, true, &h, &begun);
        if (st == JSON_MORE) return p->final ? refuse(p, s, n) : parser_wait(p);
        if (st == JSON_BAD) continue;
        commit(p, f, &h, begun, p->head);
        return STEP_AGAIN;
    }
    return refuse(p, s, n);
}

/* ---- arguments as JSON ---------------------------------------------------------------------------------- */

step step_args_json(hy_chat_parser *p)
{
    size_t n, used;
    const char *s = parser_text(p, &n);
    if (n == 0) return STEP_MORE;
    hy_buf_reset(&p->tmp);
    json_state st = json_scan_put(&p->scan, s, n, false, &used, &p->tmp);
    parser_args(p, p->tmp.data, p->tmp.len);
    parser_take(p, used);
    if (st == JSON_MORE) return STEP_MORE;
    if (st == JSON_BAD) return parser_stop_call(p);
    p->state = ST_TAIL;
    return STEP_AGAIN;
}

/* ---- after the arguments -------------------------------------------------------------------------------- */

/* The rest of an object: other members and the brace. */
static json_state tail_object(hy_chat_parser *p, head *h)
{
    size_t used;
    for (;;) {
        h->i = skip_space(h->s, h->n, h->i);
        if (h->i == h->n) return JSON_MORE;
        if (h->s[h->i] == '}') break;
        if (h->s[h->i] != ',' || p->form->shape == SHAPE_KEYED) return JSON_BAD;
        h->i++;
        NEED(head_key(p, h));
        NEED(json_skip(h->s + h->i, h->n - h->i, false, &used));
        h->i += used;
    }
    h->i++;
    return JSON_DONE;
}

/* What remains when the text ends inside marks is theirs. */
static step drop_rest(hy_chat_parser *p)
{
    parser_take(p, p->in.len - p->at);
    p->state = ST_TEXT;
    return STEP_MORE;
}

step step_tail(hy_chat_parser *p)
{
    const call_form *f = p->form;
    head h = { 0 };
    h.s = parser_text(p, &h.n);
    json_state st = JSON_DONE;
    if (f->shape == SHAPE_OBJECT || f->shape == SHAPE_KEYED) st = tail_object(p, &h);
    if (st == JSON_DONE && f->close) {
        const char *mark = f->close + strspn(f->close, " \n");
        h.i = skip_space(h.s, h.n, h.i);
        int r = h.i == h.n ? -1 : mark_at(h.s, h.n, h.i, mark, false);
        if (r < 0) st = JSON_MORE;
        if (r > 0) h.i += strlen(mark);
    }
    if (st == JSON_MORE) return p->final ? drop_rest(p) : parser_wait(p);
    if (st == JSON_BAD) return parser_stop_call(p);
    parser_take(p, h.i);
    p->state = ST_NEXT;
    return STEP_AGAIN;
}

static step leave_calls(hy_chat_parser *p, size_t taken)
{
    parser_take(p, taken);
    parser_stop_call(p);
    p->skip_space = true;
    return STEP_AGAIN;
}

/* The end of a section at i: 1 taken, 0 not there, -1 undecided. */
static int section_end(hy_chat_parser *p, const char *s, size_t n, size_t i)
{
    if (!p->form->end) return 0;
    int r = mark_at(s, n, i, p->form->end, false);
    if (r > 0) leave_calls(p, i + strlen(p->form->end));
    return r;
}

step step_next(hy_chat_parser *p)
{
    const call_form *f = p->form;
    size_t n, i;
    const char *s = parser_text(p, &n);
    i = skip_space(s, n, 0);
    if (i == n) return p->final ? drop_rest(p) : STEP_MORE;
    if (p->in_list && s[i] == ']') {
        p->in_list = false;
        parser_take(p, i + 1);
        if (!p->in_section) return leave_calls(p, 0);
        return STEP_AGAIN;
    }
    int r = section_end(p, s, n, i);
    if (r) return r > 0 ? STEP_AGAIN : p->final ? drop_rest(p) : STEP_MORE;
    bool loose = f->shape == SHAPE_OBJECT && f->flags & FORM_BARE;
    if (!p->in_list && !p->in_section && !loose) return leave_calls(p, 0);
    head h = { .s = s, .n = n, .i = i, .final = p->final };
    if (s[i] == ',' || (s[i] == ';' && !p->in_list)) h.i++;
    else if (p->in_list) return parser_stop_call(p);
    bool begun;
    json_state st = head_of(p, f, false, &h, &begun);
    if (st == JSON_MORE) return p->final ? parser_stop_call(p) : parser_wait(p);
    if (st == JSON_BAD) return h.i > i + 1 || s[i] == '{' ? parser_stop_call(p) : leave_calls(p, 0);
    commit(p, f, &h, begun, 0);
    return STEP_AGAIN;
}
