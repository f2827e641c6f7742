#include "serve/turns.h"
#include "serve/gen.h"
#include <string.h>

bool hy_turns_open(hy_turns *t, const char *role)
{
    *t = (hy_turns){ .list = json_array(), .role = role, .names = json_object() };
    return t->list && t->names;
}

void hy_turns_close(hy_turns *t)
{
    hy_buf_free(&t->text);
    hy_buf_free(&t->thoughts);
    json_decref(t->calls);
    json_decref(t->names);
}

void hy_turns_add(hy_turns *t, json_t *take)
{
    if (!take || json_array_append_new(t->list, take)) t->failed = true;
}

json_t *hy_turns_text(hy_turns *t, hy_buf *b)
{
    json_t *s = b->failed ? NULL : hy_json_text(b->data, b->len);
    if (!s) t->failed = true;
    hy_buf_reset(b);
    return s;
}

void hy_turns_flush(hy_turns *t)
{
    if (!t->has_text && !t->calls && !t->thoughts.len) return;
    json_t *o = json_object();
    bool ok = o && !json_object_set_new(o, "role", json_string(t->role));
    ok = ok && !json_object_set_new(o, "content", hy_turns_text(t, &t->text));
    if (ok && !strcmp(t->role, "assistant") && t->thoughts.len)
        ok = !json_object_set_new(o, "reasoning_content", hy_turns_text(t, &t->thoughts));
    if (ok && t->calls) ok = !json_object_set_new(o, "tool_calls", t->calls);
    else json_decref(t->calls);
    t->calls = NULL;
    t->has_text = false;
    if (!ok) t->failed = true;
    hy_turns_add(t, o);
}
