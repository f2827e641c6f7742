/* From a text as it comes to pieces: content, thoughts, and where calls begin. */
#include "serve/format_impl.h"
#include <string.h>

bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

size_t skip_space(const char *s, size_t n, size_t i)
{
    while (i < n && is_space(s[i])) i++;
    return i;
}

int mark_at(const char *s, size_t n, size_t i, const char *mark, bool final)
{
    size_t n_mark = strlen(mark), left = n - i, m = HY_MIN(n_mark, left);
    if (memcmp(s + i, mark, m)) return 0;
    return m == n_mark ? 1 : final ? 0 : -1;
}

const char *parser_text(const hy_chat_parser *p, size_t *n)
{
    *n = p->in.len - p->at;
    return p->in.data ? p->in.data + p->at : "";
}

void parser_take(hy_chat_parser *p, size_t n)
{
    p->at += n;
    p->wait = 0;
    p->looked = 0;
}

static void put(hy_chat_parser *p, const hy_piece *piece)
{
    if (p->fn) p->fn(p->ctx, piece);
}

void parser_show(hy_chat_parser *p, size_t n)
{
    size_t all;
    const char *s = parser_text(p, &all);
    if (n == 0) return;
    put(p, &(hy_piece){ .kind = p->thinking ? HY_PIECE_REASONING : HY_PIECE_CONTENT, .text = s, .n = n });
    if (skip_space(s, n, 0) < n) p->blank = false;
    parser_take(p, n);
}

void parser_args(hy_chat_parser *p, const char *s, size_t n)
{
    if (n) put(p, &(hy_piece){ .kind = HY_PIECE_ARGS, .text = s, .n = n, .i_call = p->n_call - 1 });
}

static void make_id(const hy_chat_parser *p, const char *name, char *id, size_t n_id)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    if (p->form && p->form->flags & FORM_PREFIX_ID) {
        snprintf(id, n_id, "functions.%.180s:%u", name, p->n_call);
        return;
    }
    bool mistral = p->f->flags & FORMAT_MISTRAL_ID;
    size_t at = mistral ? 0 : 5, n = mistral ? 9 : 24;
    memcpy(id, "call_", 5);
    for (size_t i = 0; i < n; i++) id[at + i] = letters[hy_rng_at(p->id_seed, p->n_call, i) % 62];
    id[at + n] = 0;
}

void parser_call(hy_chat_parser *p, const char *name, const json_t *schema)
{
    char id[256];
    make_id(p, name, id, sizeof id);
    uint32_t i = p->n_call++;
    p->schema = schema;
    p->n_arg = 0;
    p->thinking = false;
    put(p, &(hy_piece){ .kind = HY_PIECE_CALL, .i_call = i, .name = name, .id = id });
}

static bool name_is(const json_t *j, const char *name, size_t n)
{
    return json_is_string(j) && json_string_length(j) == n && !memcmp(json_string_value(j), name, n);
}

const char *tool_find(const json_t *tools, const char *name, size_t n, const json_t **schema)
{
    size_t i;
    const json_t *t;
    while (n && is_space(name[0])) name++, n--;
    while (n && is_space(name[n - 1])) n--;
    for (int pass = 0; pass < 2; pass++) {
        json_array_foreach(tools, i, t) {
            const json_t *f = json_object_get(t, "function");
            if (!f) f = t;
            const json_t *own = json_object_get(f, "name");
            if (!name_is(own, name, n)) continue;
            *schema = json_object_get(f, "parameters");
            return json_string_value(own);
        }
        if (n <= 10 || memcmp(name, "functions.", 10)) break; /* a name in its namespace */
        name += 10;
        n -= 10;
    }
    return NULL;
}

/* ---- marks in the text ------------------------------------------------------------------------------ */

typedef enum mark_kind { MARK_NONE, MARK_OPEN, MARK_CLOSE, MARK_CALL, MARK_DROP } mark_kind;
typedef struct found {
    mark_kind kind;
    size_t n;
} found;

/* Tries one mark at i; keeps the longest. -1: more text decides. */
static int try_mark(const char *s, size_t n, size_t i, const char *mark, mark_kind kind, bool final, found *best)
{
    if (!mark || !*mark || s[i] != mark[0]) return 0;
    int r = mark_at(s, n, i, mark, final);
    if (r == 1 && strlen(mark) > best->n) *best = (found){ kind, strlen(mark) };
    return r;
}

/* What stands at byte i; blank: only white space is before it in the answer. -1: undecided. */
static int marks_here(const hy_chat_parser *p, const char *s, size_t n, size_t i, bool blank, found *best)
{
    const hy_chat_format *f = p->f;
    int more = 0;
    best->kind = MARK_NONE;
    best->n = 0;
    if (p->thinking || blank || f->flags & THINK_ANYWHERE)
        more |= try_mark(s, n, i, f->think_close, MARK_CLOSE, p->final, best) < 0;
    if (!p->thinking && (blank || f->flags & THINK_ANYWHERE))
        more |= try_mark(s, n, i, f->think_open, MARK_OPEN, p->final, best) < 0;
    if (p->thinking && blank) /* opened by the prompt and by the model again */
        more |= try_mark(s, n, i, f->think_open, MARK_DROP, p->final, best) < 0;
    for (int k = 0; k < FORMAT_DROPS && f->drop[k]; k++)
        more |= try_mark(s, n, i, f->drop[k], MARK_DROP, p->final, best) < 0;
    if (p->tools && (!p->thinking || f->flags & THINK_CALLS))
        for (int k = 0; k < FORMAT_FORMS && f->form[k].shape; k++) {
            const call_form *form = &f->form[k];
            more |= try_mark(s, n, i, form->begin ? form->begin : form->open, MARK_CALL, p->final, best) < 0;
            if (form->flags & FORM_BEGIN_OPTIONAL)
                more |= try_mark(s, n, i, form->open, MARK_CALL, p->final, best) < 0;
        }
    return more ? -1 : 0;
}

static void enter_thinking(hy_chat_parser *p, bool on)
{
    p->thinking = on;
    p->skip_space = p->blank = true;
}

static bool has_bare(const hy_chat_parser *p)
{
    for (int k = 0; k < FORMAT_FORMS; k++)
        if (p->f->form[k].flags & FORM_BARE) return true;
    return false;
}

static void call_begins(hy_chat_parser *p, size_t head)
{
    p->state = ST_HEAD;
    p->head = head;
    p->in_section = p->in_list = false;
}

/* Acts on the mark at i. */
static void at_mark(hy_chat_parser *p, const char *s, size_t i, found m)
{
    size_t text = i;
    while (text && is_space(s[text - 1])) text--;
    parser_show(p, text);
    if (m.kind == MARK_CALL) {
        call_begins(p, i - text);
        return;
    }
    parser_take(p, i - text + m.n);
    if (m.kind == MARK_DROP) p->skip_space = true;
    else enter_thinking(p, m.kind == MARK_OPEN);
}

static step step_text(hy_chat_parser *p)
{
    size_t n;
    const char *s = parser_text(p, &n);
    if (p->skip_space) {
        parser_take(p, skip_space(s, n, 0));
        s = parser_text(p, &n);
        if (n == 0) return STEP_MORE;
        p->skip_space = false;
    }
    if (n == 0) return STEP_MORE;
    size_t first = p->blank ? skip_space(s, n, 0) : 0;
    if (p->blank && !p->thinking && !p->no_bare && p->tools && has_bare(p) && first < n &&
        (s[first] == '{' || s[first] == '[')) {
        call_begins(p, first);
        return STEP_AGAIN;
    }
    size_t i = 0, show = 0; /* show: end of what is neither white space nor undecided */
    for (; i < n; i++) {
        found m;
        int more = marks_here(p, s, n, i, p->blank && i <= first, &m);
        if (more < 0) break;
        if (m.kind != MARK_NONE) {
            at_mark(p, s, i, m);
            return STEP_AGAIN;
        }
        if (!is_space(s[i])) show = i + 1;
    }
    /* white space waits: it is not shown when a mark follows */
    bool plain = !p->f->think_open && !p->tools && !p->f->drop[0];
    parser_show(p, p->final || plain ? i : show);
    return STEP_MORE;
}

/* ---- the outside ------------------------------------------------------------------------------------ */

static step take_step(hy_chat_parser *p)
{
    switch (p->state) {
    case ST_TEXT: return step_text(p);
    case ST_HEAD: return step_head(p);
    case ST_ARGS_JSON: return step_args_json(p);
    case ST_ARGS_XML: return step_args_xml(p);
    case ST_VALUE: return step_value(p);
    case ST_ARGS_LITERAL: return step_args_literal(p);
    case ST_TAIL: return step_tail(p);
    case ST_NEXT: return step_next(p);
    default: return step_harmony(p);
    }
}

static hy_status run(hy_chat_parser *p, hy_piece_fn *fn, void *ctx, hy_err *err)
{
    p->fn = fn;
    p->ctx = ctx;
    while (p->in.len - p->at >= p->wait || p->final)
        if (take_step(p) == STEP_MORE) break;
    p->fn = NULL;
    if (p->at) {
        memmove(p->in.data, p->in.data + p->at, p->in.len - p->at);
        p->in.len -= p->at;
        p->in.data[p->in.len] = 0;
        p->at = 0;
    }
    if (p->in.failed || p->tmp.failed || p->key.failed || p->p_end.failed)
        return hy_fail_memory(err, "text of an answer", p->in.len);
    return HY_OK;
}

hy_status hy_chat_parser_put(hy_chat_parser *p, const char *text, size_t n, hy_piece_fn *fn, void *ctx, hy_err *err)
{
    hy_buf_put(&p->in, text, n);
    return run(p, fn, ctx, err);
}

hy_status hy_chat_parser_end(hy_chat_parser *p, hy_piece_fn *fn, void *ctx, hy_err *err)
{
    p->final = true;
    p->wait = 0;
    return run(p, fn, ctx, err);
}

uint32_t hy_chat_parser_n_call(const hy_chat_parser *p)
{
    return p->n_call;
}

static bool ends_with(const char *s, size_t n, const char *mark)
{
    size_t n_mark = mark ? strlen(mark) : 0;
    return n_mark && n >= n_mark && !memcmp(s + n - n_mark, mark, n_mark);
}

/* A prompt that ends in the mark of thoughts, or of their end, has begun the answer. */
static void start(hy_chat_parser *p, const char *prompt)
{
    size_t n = prompt ? strlen(prompt) : 0;
    p->blank = true;
    p->state = ST_TEXT;
    if (p->f->flags & FORMAT_HARMONY) {
        harmony_start(p, prompt ? prompt : "");
        return;
    }
    while (n && is_space(prompt[n - 1])) n--;
    if (ends_with(prompt, n, p->f->think_close)) p->skip_space = true;
    else if (ends_with(prompt, n, p->f->think_open) || p->f->flags & THINK_FIRST) enter_thinking(p, true);
}

hy_status hy_chat_parser_open(hy_chat_parser **out, const hy_chat_format *f, const json_t *tools,
                              const char *generation_prompt, uint64_t id_seed, hy_err *err)
{
    *out = NULL;
    hy_chat_parser *p = HY_NEW(hy_chat_parser);
    if (!p) return hy_fail_memory(err, "parser of an answer", sizeof *p);
    p->f = f;
    p->tools = json_array_size(tools) ? tools : NULL;
    p->id_seed = id_seed;
    start(p, generation_prompt);
    *out = p;
    return HY_OK;
}

void hy_chat_parser_close(hy_chat_parser *p)
{
    if (!p) return;
    hy_buf_free(&p->in);
    hy_buf_free(&p->p_end);
    hy_buf_free(&p->key);
    hy_buf_free(&p->tmp);
    hy_free(p);
}
