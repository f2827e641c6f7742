/* Chat templates: the model's own, and the variables that they expect. */
#include "tok/tok_impl.h"
#include <string.h>

const char *hy_tok_template(const hy_tok *t, const char *name)
{
    if (!name) name = "default";
    for (uint32_t i = 0; i < t->n_tmpl; i++)
        if (!strcmp(t->tmpl[i].name.p, name)) return t->tmpl[i].source;
    return NULL;
}

static hy_status add_token(const hy_tok *t, json_t *vars, const char *key, int32_t id, hy_err *err)
{
    if (id < 0 || json_object_get(vars, key)) return HY_OK;
    const tok_str *s = &t->vocab.str[id];
    json_t *j = json_stringn(s->p ? s->p : "", s->n);
    if (!j) j = json_string(""); /* not UTF-8 */
    if (!j || json_object_set_new(vars, key, j)) return hy_fail_memory(err, "chat variables", s->n);
    return HY_OK;
}

static hy_status add_tokens(const hy_tok *t, json_t *vars, hy_err *err)
{
    HY_TRY(add_token(t, vars, "bos_token", t->bos, err));
    HY_TRY(add_token(t, vars, "eos_token", t->eos, err));
    HY_TRY(add_token(t, vars, "unk_token", t->unk, err));
    HY_TRY(add_token(t, vars, "sep_token", t->sep, err));
    HY_TRY(add_token(t, vars, "pad_token", t->pad, err));
    HY_TRY(add_token(t, vars, "cls_token", t->cls, err));
    return add_token(t, vars, "mask_token", t->mask, err);
}

hy_status hy_tok_chat(const hy_tok *t, const char *source, const json_t *vars, hy_buf *out,
                      hy_err *err)
{
    hy_template *parsed = NULL;
    if (!source && !t->own) source = hy_tok_template(t, NULL);
    if (!source && !t->own)
        return hy_fail(err, HY_E_ARG, "this model has no chat template; give one");
    json_t *copy = vars ? json_copy((json_t *)vars) : json_object();
    if (!copy || !json_is_object(copy)) {
        json_decref(copy);
        return hy_fail(err, HY_E_ARG, "chat variables must be an object");
    }
    hy_status s = add_tokens(t, copy, err);
    if (s == HY_OK && source) s = hy_template_parse(&parsed, source, strlen(source), err);
    if (s == HY_OK)
        s = hy_template_render(source ? parsed : t->own, copy, -1, NULL, out, NULL, err);
    hy_template_free(parsed);
    json_decref(copy);
    return s;
}
