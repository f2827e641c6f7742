/* room: serve */
/* The first byte chooses a family, the second says whether there are tools and thoughts were begun; the rest is an
 * answer. Whole and in parts it must give the same; arguments come after their call. */
#include "serve/format_impl.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"object\", \"properties\": {"
    "\"s\": {\"type\": \"string\"}, \"i\": {\"type\": \"integer\"}, \"o\": {\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"array\"}}}}}}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"g\"}}]";

typedef struct said {
    hy_buf text[3];            /* content, thoughts, calls with arguments */
    uint32_t n_call;
} said;

static void on_piece(void *ctx, const hy_piece *p)
{
    said *s = ctx;
    if (p->kind == HY_PIECE_CALL) {
        if (p->i_call != s->n_call++ || (strcmp(p->name, "f") && strcmp(p->name, "g"))) __builtin_trap();
        hy_buf_printf(&s->text[2], "\n%s %s ", p->name, p->id);
    } else if (p->kind == HY_PIECE_ARGS) {
        if (p->i_call + 1 != s->n_call) __builtin_trap();
        hy_buf_put(&s->text[2], p->text, p->n);
    } else {
        hy_buf_put(&s->text[p->kind == HY_PIECE_REASONING], p->text, p->n);
    }
}

static void read_all(said *s, const hy_chat_format *f, const json_t *tools, const char *prompt, const char *text, size_t n,
                     size_t part)
{
    hy_chat_parser *p;
    hy_err err;
    memset(s, 0, sizeof *s);
    if (hy_chat_parser_open(&p, f, tools, prompt, 1, &err) != HY_OK) __builtin_trap();
    for (size_t i = 0; i < n; i += part)
        if (hy_chat_parser_put(p, text + i, HY_MIN(part, n - i), on_piece, s, &err) != HY_OK) __builtin_trap();
    if (hy_chat_parser_end(p, on_piece, s, &err) != HY_OK) __builtin_trap();
    hy_chat_parser_close(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 2 || n > 65536) return 0;
    const hy_chat_format *f = &hy_format_rows[data[0] % hy_format_n_row];
    json_t *tools = data[1] & 1 ? json_loads(tools_text, 0, NULL) : NULL;
    const char *prompt = data[1] & 2 && f->think_open ? f->think_open : "";
    const size_t part[] = { n, 1, 1 + data[1] / 4 };
    said s[3];
    for (int i = 0; i < 3; i++) {
        read_all(&s[i], f, tools, prompt, (const char *)data + 2, n - 2, part[i]);
        for (int k = 0; k < 3; k++) {
            const hy_buf *a = &s[0].text[k], *b = &s[i].text[k];
            if (a->len != b->len || (a->len && memcmp(a->data, b->data, a->len))) __builtin_trap();
        }
    }
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) hy_buf_free(&s[i].text[k]);
    json_decref(tools);
    return 0;
}
