/* The prompts of an ask as tokens, and its fields as the engine's parameters. */
#include "serve/gen_impl.h"
#include "serve/fields.h"
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* ---- prompts --------------------------------------------------------------------------------------- */

static hy_status render(hy_engine *e, const hy_ask *a, const char *source, bool args_as_text, bool *has_calls,
                        char **text, int32_t **ids, size_t *n, hy_err *err)
{
    json_t *vars = NULL;
    HY_TRY(hy_messages_vars(a, source, args_as_text, has_calls, &vars, err));
    char *json = json_dumps(vars, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(vars);
    if (!json) return hy_fail_memory(err, "chat", 0);
    hy_status s = hy_engine_chat_tokens(e, json, a->chat_template, a->continue_final, text, ids, n, err);
    free(json);
    return s;
}

/* Models may have a template of their own for tools. */
static const char *source_of(hy_engine *e, const hy_ask *a)
{
    if (a->chat_template) return a->chat_template;
    bool tools = a->tools && a->choice != HY_TOOLS_NONE;
    const char *source = tools ? hy_engine_template(e, "tool_use") : NULL;
    return source ? source : hy_engine_template(e, NULL);
}

hy_status hy_ask_render(hy_engine *e, hy_ask *a, char **text, int32_t **ids, size_t *n, hy_err *err)
{
    const char *source = source_of(e, a), *own = hy_engine_template(e, NULL);
    bool has_calls;
    if (source != own) a->chat_template = source;
    hy_status s = render(e, a, source, false, &has_calls, text, ids, n, err);
    if (s == HY_OK || !has_calls) return s;
    /* some templates add the arguments to a string: those want them as text */
    return render(e, a, source, true, &has_calls, text, ids, n, NULL) == HY_OK ? HY_OK : s;
}

static hy_status chat_prompt(hy_gen *g, const char **param, hy_err *err)
{
    hy_gen_prompt_ids *p = &g->prompt[0];
    *param = "messages";
    HY_TRY(hy_ask_render(g->e, &g->ask, &p->text, &p->ids, &p->n, err));
    g->format = hy_chat_format_of(source_of(g->e, &g->ask));
    return HY_OK;
}

static hy_status one_prompt(hy_gen *g, const json_t *v, size_t i, bool many, hy_err *err)
{
    char at[48] = "prompt";
    if (many) snprintf(at, sizeof at, "prompt[%zu]", i);
    hy_gen_prompt_ids *p = &g->prompt[i];
    if (hy_json_is_ids(v)) return hy_json_ids(g->e, v, "prompt", at, &p->ids, &p->n, err);
    if (!json_is_string(v)) return hy_fail(err, HY_E_ARG, "%s: neither a string nor an array of token ids", at);
    return hy_engine_tokenize(g->e, json_string_value(v), json_string_length(v), !g->ask.no_special, true, &p->ids,
                              &p->n, err);
}

#define PROMPTS_MAX 2048

hy_status hy_gen_prompts(hy_gen *g, const char **param, hy_err *err)
{
    const json_t *v = g->ask.prompt;
    *param = "prompt";
    bool many = !g->ask.messages && json_is_array(v) && !hy_json_is_ids(v);
    size_t n = many ? json_array_size(v) : 1;
    if (n == 0) return hy_fail(err, HY_E_ARG, "prompt: an empty array");
    if (n > PROMPTS_MAX || n * (size_t)g->ask.n > PROMPTS_MAX)
        return hy_fail(err, HY_E_ARG, "prompt: %zu prompts with %d answers each are more than %d answers", n,
                       (int)g->ask.n, PROMPTS_MAX);
    g->prompt = HY_NEW_ARRAY(hy_gen_prompt_ids, n);
    if (!g->prompt) return hy_fail_memory(err, "prompts", n * sizeof *g->prompt);
    g->n_prompt = (uint32_t)n;
    if (g->ask.messages) return chat_prompt(g, param, err);
    for (size_t i = 0; i < n; i++) HY_TRY(one_prompt(g, many ? json_array_get(v, i) : v, i, many, err));
    return HY_OK;
}

/* ---- parameters ------------------------------------------------------------------------------------- */

static hy_status copy_bias(hy_gen *g, hy_err *err)
{
    const json_t *o = g->ask.logit_bias;
    const char *key;
    json_t *v;
    size_t n = json_object_size(o), k = 0;
    if (n == 0) return HY_OK;
    hy_facts facts;
    hy_engine_facts(g->e, &facts);
    g->bias = HY_NEW_ARRAY(hy_bias, n);
    if (!g->bias) return hy_fail_memory(err, "logit_bias", n * sizeof *g->bias);
    json_object_foreach((json_t *)o, key, v)
    {
        uint64_t id;
        if (hy_parse_u64("id", key, 0, facts.n_vocab - 1, &id, NULL) != HY_OK)
            return hy_fail(err, HY_E_ARG, "logit_bias: \"%.60s\" is no token id in 0..%u", key, facts.n_vocab - 1);
        double d = json_number_value(v);
        if (!json_is_number(v) || !(d >= -100 && d <= 100))
            return hy_fail(err, HY_E_ARG, "logit_bias: the value of %s is not a number from -100 to 100", key);
        g->bias[k++] = (hy_bias){ (int32_t)id, (float)d };
    }
    g->p.logit_bias = g->bias;
    g->p.n_logit_bias = (uint32_t)n;
    return HY_OK;
}

static hy_status copy_stops(hy_gen *g, hy_err *err)
{
    const json_t *v = g->ask.stop;
    size_t n = json_is_string(v) ? 1 : json_array_size(v);
    if (n == 0) return HY_OK;
    g->stop = HY_NEW_ARRAY(const char *, n);
    if (!g->stop) return hy_fail_memory(err, "stop", n * sizeof *g->stop);
    for (size_t i = 0; i < n; i++) {
        const json_t *s = json_is_string(v) ? v : json_array_get(v, i);
        if (json_string_length(s) == 0) return hy_fail(err, HY_E_ARG, "stop: string %zu is empty", i);
        if (strlen(json_string_value(s)) != json_string_length(s))
            return hy_fail(err, HY_E_ARG, "stop: string %zu holds U+0000", i);
        g->stop[i] = json_string_value(s);
    }
    g->p.stop = g->stop;
    g->p.n_stop = (uint32_t)n;
    return HY_OK;
}

static uint64_t random_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) seed = hy_now_ns();
    return seed;
}

/* The guide of an answer that may be calls of these tools. */
static hy_status guide_of(hy_gen *g, const json_t *tools, hy_err *err)
{
    const hy_ask *a = &g->ask;
    const char *prompt = g->prompt[0].text;
    if (a->guide.kind != HY_GUIDE_NONE)
        return hy_chat_guide_answer(g->format, &a->guide, tools, a->parallel, prompt, &g->guide_text, &g->guide_schemas,
                                    &g->p.guide, err);
    return hy_chat_guide(g->format, tools, a->choice, a->choice_name, a->parallel, prompt, &g->guide_text,
                         &g->guide_schemas, &g->p.guide, err);
}

/* The guide of the fields, or of the tools; after the family's thoughts. */
static hy_status set_guide(hy_gen *g, const char **param, hy_err *err)
{
    hy_ask *a = &g->ask;
    if (a->guide.kind == HY_GUIDE_NONE) HY_TRY(hy_ask_guide_fields(a, param, err));
    g->p.guide = a->guide;
    if (!a->messages) return HY_OK;
    bool tools = a->tools && a->choice != HY_TOOLS_NONE;
    if (a->guide.kind != HY_GUIDE_NONE) {
        if (tools && a->choice != HY_TOOLS_AUTO)
            return hy_fail(err, HY_E_ARG, "%s: the text cannot follow it and be a call, as tool_choice demands",
                           *param ? *param : "response_format");
        /* with "auto" the answer has this form, or is a call */
        if (a->no_split && !tools) return HY_OK;
        return guide_of(g, tools ? a->tools : NULL, err);
    }
    if (!tools) return HY_OK;
    *param = "tools";
    return guide_of(g, a->tools, err);
}

bool hy_gen_relax(hy_gen *g)
{
    const hy_ask *a = &g->ask;
    hy_err err;
    if (!a->messages || !a->tools || a->choice == HY_TOOLS_NONE || g->p.guide.kind == HY_GUIDE_NONE) return false;
    json_t *simple = hy_tools_simple(a->tools);
    bool ok = simple && guide_of(g, simple, &err) == HY_OK;
    json_decref(simple);
    return ok;
}

static int32_t who_drafts(const char *name)
{
    static const char *const names[] = { [HY_SPECULATE_OFF] = "off", [HY_SPECULATE_NGRAM] = "ngram",
                                         [HY_SPECULATE_DRAFT] = "draft", [HY_SPECULATE_SELF] = "self",
                                         [HY_SPECULATE_AUTO] = "auto" };
    for (int32_t i = 0; name && i < (int32_t)HY_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0) return i;
    return HY_SPECULATE_DEFAULT;
}

hy_status hy_gen_params(hy_gen *g, const char **param, hy_err *err)
{
    const hy_ask *a = &g->ask;
    hy_params *p = &g->p;
    hy_params_init(p);
    p->max_tokens = a->max_tokens > 0 ? (uint32_t)a->max_tokens : a->max_tokens == 0 ? 1 : 0;
    p->min_tokens = (uint32_t)a->min_tokens;
    p->ignore_eos = a->ignore_eos;
    p->temperature = a->temperature;
    p->top_k = (uint32_t)a->top_k;
    p->top_p = a->top_p;
    p->min_p = a->min_p;
    p->typical_p = a->typical_p;
    p->repeat_penalty = a->repeat_penalty;
    p->frequency_penalty = a->frequency_penalty;
    p->presence_penalty = a->presence_penalty;
    p->no_repeat_ngram = (uint32_t)a->no_repeat_ngram;
    p->seed = a->has_seed ? (uint64_t)a->seed : random_seed();
    p->top_logprobs = (int32_t)a->top_logprobs;
    p->prompt_logprobs = (int32_t)a->prompt_logprobs;
    p->show_special = a->show_special || (g->format && hy_chat_format_needs_special(g->format));
    p->priority = (int32_t)a->priority;
    p->deadline_ms = a->deadline_ms;
    p->no_cache = a->no_cache;
    p->speculate = who_drafts(a->speculate);
    if (a->cache_salt) { /* no tenant's name holds the separator */
        hy_buf_printf(&g->tenant, "%s\x1F%s", hy_x_tenant(g->x), a->cache_salt);
        if (g->tenant.failed) return hy_fail_memory(err, "cache_salt", g->tenant.len);
        p->tenant = g->tenant.data;
    }
    *param = "stop";
    HY_TRY(copy_stops(g, err));
    *param = "logit_bias";
    HY_TRY(copy_bias(g, err));
    *param = NULL;
    return set_guide(g, param, err);
}
