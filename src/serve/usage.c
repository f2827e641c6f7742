/* Small parts of answers: usage, timings, ids, texts. */
#include "serve/openai.h"
#include <string.h>

json_t *hy_json_text(const char *s, size_t n)
{
    json_t *t = json_stringn(n ? s : "", n);
    if (t) return t;
    hy_buf clean = { 0 }; /* not UTF-8 */
    hy_utf8_repair(s, n, &clean);
    t = clean.failed ? NULL : json_stringn(clean.data ? clean.data : "", clean.len);
    hy_buf_free(&clean);
    return t;
}

const char *hy_gen_id(const hy_gen *g, const char *prefix, char out[64])
{
    const char *id = hy_x_id(hy_gen_exchange(g));
    if (!strncmp(id, "req-", 4)) id += 4;
    snprintf(out, 64, "%s%s", prefix, id);
    return out;
}

bool hy_set(json_t *obj, const char *key, json_t *take)
{
    if (obj && take) return json_object_set_new(obj, key, take) == 0;
    json_decref(take);
    return false;
}

json_t *hy_gen_usage_json(const hy_gen *g)
{
    hy_gen_totals t;
    hy_gen_total(g, &t);
    return json_pack("{s:I, s:I, s:I, s:{s:I}, s:{s:I}}", "prompt_tokens", (json_int_t)t.n_prompt, "completion_tokens",
                     (json_int_t)t.n_output, "total_tokens", (json_int_t)(t.n_prompt + t.n_output),
                     "prompt_tokens_details", "cached_tokens", (json_int_t)t.n_cached, "completion_tokens_details",
                     "reasoning_tokens", (json_int_t)t.n_reasoning);
}

static double per_second(double n, double ms)
{
    return ms > 0 ? n * 1e3 / ms : 0;
}

/* Microseconds are what can be told apart. */
static double ms(double v)
{
    return (double)(int64_t)(v * 1e3 + 0.5) / 1e3;
}

/* The first n places. */
static json_t *places(const uint64_t *v, uint32_t n)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++) json_array_append_new(list, json_integer((json_int_t)v[i]));
    return list;
}

/* Speculation, beside llama-server's two numbers. */
static bool put_drafts(json_t *o, const hy_gen *g, const hy_answer *a)
{
    uint64_t drafted[HY_DRAFT_PLACES] = { 0 }, accepted[HY_DRAFT_PLACES] = { 0 }, n_drafted = 0, n_accepted = 0;
    double gain = 0;
    uint32_t n = 0, n_place = 0;
    for (uint32_t i = a ? a->index : 0; i < (a ? a->index + 1 : hy_gen_n_answer(g)); i++, n++) {
        const hy_usage *u = &hy_gen_answer(g, i)->usage;
        for (uint32_t k = 0; k < HY_DRAFT_PLACES; k++) {
            drafted[k] += u->drafted_at[k];
            accepted[k] += u->accepted_at[k];
        }
        gain += u->n_drafted ? u->draft_gain : 1;
    }
    for (uint32_t k = 0; k < HY_DRAFT_PLACES; k++) {
        n_drafted += drafted[k];
        n_accepted += accepted[k];
        if (drafted[k]) n_place = k + 1;
    }
    bool good = hy_set(o, "draft_n", json_integer((json_int_t)n_drafted));
    good = hy_set(o, "draft_n_accepted", json_integer((json_int_t)n_accepted)) && good;
    if (n_drafted == 0) return good;
    good = hy_set(o, "draft_n_at", places(drafted, n_place)) && good;
    good = hy_set(o, "draft_n_accepted_at", places(accepted, n_place)) && good;
    return hy_set(o, "draft_gain", json_real(ms(gain / n))) && good;
}

json_t *hy_gen_timings_json(const hy_gen *g, const hy_answer *a)
{
    uint64_t n_prompt = 0, n_cached = 0, n_out = 0;
    double prompt_ms = 0, decode_ms = 0, ttft = 0, queue = 0;
    uint32_t n = hy_gen_ask(g)->n > 0 ? (uint32_t)hy_gen_ask(g)->n : 1;
    for (uint32_t i = a ? a->index : 0; i < (a ? a->index + 1 : hy_gen_n_answer(g)); i++) {
        const hy_usage *u = &hy_gen_answer(g, i)->usage;
        if (a || i % n == 0) {
            n_prompt += u->n_prompt - HY_MIN(u->n_cached, u->n_prompt);
            n_cached += u->n_cached;
        }
        n_out += u->n_output;
        /* answers run side by side: the longest counts */
        prompt_ms = HY_MAX(prompt_ms, u->prompt_ms);
        decode_ms = HY_MAX(decode_ms, u->decode_ms);
        ttft = HY_MAX(ttft, u->ttft_ms);
        queue = HY_MAX(queue, u->queue_ms);
    }
    /* the first token of each answer comes with the prompt */
    uint64_t n_first = HY_MIN(n_out, a ? 1 : hy_gen_n_answer(g));
    json_t *o = json_pack("{s:I, s:f, s:f, s:I, s:f, s:f, s:I, s:f, s:f}", "prompt_n", (json_int_t)n_prompt, "prompt_ms",
                     ms(prompt_ms), "prompt_per_second", ms(per_second((double)n_prompt, prompt_ms)), "predicted_n",
                     (json_int_t)n_out, "predicted_ms", ms(decode_ms), "predicted_per_second",
                     ms(per_second((double)(n_out - n_first), decode_ms)), "cached_n", (json_int_t)n_cached, "ttft_ms",
                     ms(ttft), "queue_ms", ms(queue));
    if (o && put_drafts(o, g, a)) return o;
    json_decref(o);
    return NULL;
}

/* Changes with the model and the version, as OpenAI's does with its backend. */
static void fingerprint(const hy_gen *g, char out[32])
{
    const hy_server *s = hy_x_server(hy_gen_exchange(g));
    hy_facts f;
    hy_engine_facts(hy_server_engine(s), &f);
    uint64_t h = hy_hash64(HY_VERSION, strlen(HY_VERSION), 1);
    h = hy_hash64(hy_server_model_id(s), strlen(hy_server_model_id(s)), h);
    h = hy_hash64(&f.weight_bytes, sizeof f.weight_bytes, h);
    h = hy_hash64(f.isa, strlen(f.isa), h);
    h = hy_hash64(f.kv_type, strlen(f.kv_type), h);
    snprintf(out, 32, "fp_%010llx", (unsigned long long)(h & 0xFFFFFFFFFFull));
}

json_t *hy_openai_head(const hy_gen *g, const char *prefix, const char *object)
{
    char id[64], fp[32];
    fingerprint(g, fp);
    return json_pack("{s:s, s:s, s:I, s:s, s:s}", "id", hy_gen_id(g, prefix, id), "object", object, "created",
                     (json_int_t)hy_gen_created(g), "model", hy_server_model_id(hy_x_server(hy_gen_exchange(g))),
                     "system_fingerprint", fp);
}

const char *hy_openai_finish(const hy_answer *a)
{
    if (a->finish != HY_FINISH_STOP) return "length";
    return a->n_call ? "tool_calls" : "stop";
}

json_t *hy_openai_stop_reason(const hy_gen *g, const hy_answer *a)
{
    if (a->finish == HY_FINISH_DEADLINE) return json_string("deadline");
    if (a->stop) return hy_json_text(a->stop, strlen(a->stop));
    if (a->usage.stop_id >= 0 && hy_gen_ask(g)->stop_ids) {
        size_t i;
        json_t *v;
        json_array_foreach(hy_gen_ask(g)->stop_ids, i, v)
            if (json_integer_value(v) == a->usage.stop_id) return json_integer(a->usage.stop_id);
    }
    return json_null();
}

void hy_openai_reply(hy_exchange *x, json_t *take)
{
    if (take) hy_x_reply_json(x, 200, take);
    else hy_openai_no_memory(x);
}

void hy_openai_no_memory(hy_exchange *x)
{
    hy_err err;
    hy_fail_memory(&err, "answer", 0);
    hy_x_fail(x, NULL, &err);
}
