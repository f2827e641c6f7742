/* room: text */
/* Compiles the bytes as a template and renders it with a few variables under small limits. */
#include "text/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static json_t *variables(void)
{
    return json_pack("{s:s, s:i, s:f, s:b, s:n, s:[i,i,i], s:[s,s], s:{s:i, s:[i,s]}, s:[{s:s,s:s},{s:s,s:s}]}",
                     "s", "Hello, W\xc3\xb6rld!", "n", 7, "f", 2.5, "t", 1, "none", "l", 3, 1, 2,
                     "ls", "b", "A\n\xf0\x9f\x98\x80", "d", "b", 1, "a", 1, "x", "m", "role", "user",
                     "content", "hi", "role", "assistant", "content", "yo");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const hy_template_limits limits = { 20000, 64 * HY_KIB, 4 * HY_MIB, 40 };
    hy_template *t = NULL;
    hy_err err = { 0 };
    if (hy_template_parse(&t, (const char *)data, n, &err) != HY_OK) return 0;
    json_t *vars = variables();
    hy_buf out = { 0 };
    bool raised = false;
    hy_status st = hy_template_render(t, vars, 1768480496, &limits, &out, &raised, &err);
    if (st == HY_OK && !hy_utf8_valid(out.data ? out.data : "", out.len)) __builtin_trap();
    if (st == HY_E_INTERNAL || (st != HY_OK && out.len)) __builtin_trap();
    hy_buf_free(&out);
    json_decref(vars);
    hy_template_free(t);
    return 0;
}
