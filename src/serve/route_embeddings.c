/* POST /v1/embeddings: the model's last hidden states, pooled and brought to length 1. */
#include "serve/openai.h"
#include "serve/rows.h"
#include <math.h>
#include <string.h>

#define INPUTS_MAX 2048
#define OPEN_MAX 32                /* inputs that the engine has at once */

typedef struct embed_fields {
    const char *model, *encoding, *pooling, *cache_salt;
    const json_t *input;
    int64_t dimensions, priority;
    bool has_dimensions, add_special;
} embed_fields;

#define AT(m) offsetof(embed_fields, m)
const hy_field hy_embedding_fields[] = {
    { "model", HY_F_STR, 0, 0, AT(model), NULL, "the model's id; absent: the one that is served", 0 },
    { "input", HY_F_ANY, 0, 0, AT(input), "string, array of strings, token ids, or arrays of them", "up to 2048 texts",
      0 },
    { "encoding_format", HY_F_STR, 0, 0, AT(encoding), "float|base64", "base64: 32-bit floats, little-endian", 0 },
    { "dimensions", HY_F_INT, 1, 1e9, AT(dimensions), NULL, "only the model's own number", AT(has_dimensions) },
    { "pooling", HY_F_STR, 0, 0, AT(pooling), "last|mean", "of the tokens' states; default mean", 0 },
    { "add_special_tokens", HY_F_BOOL, 0, 0, AT(add_special), NULL, "texts get BOS and the like; default true", 0 },
    { "priority", HY_F_INT, -1000000, 1000000, AT(priority), NULL, "smaller is earlier; 0 is ordinary", 0 },
    { "cache_salt", HY_F_STR, 0, 0, AT(cache_salt), NULL,
      "cached prefixes are shared only with requests of the same salt", 0 },
    { "user", HY_F_IGNORE, 0, 0, 0, NULL, "for the caller's records", 0 },
    { "truncate_prompt_tokens", HY_F_REFUSE, 0, 0, 0, NULL, "an input that is too long is an error", 0 },
    { NULL, 0, 0, 0, 0, NULL, NULL, 0 }
};

typedef struct input {
    int32_t *ids;
    size_t n;
    float *vec;                /* of length 1; NULL until it is there */
} input;

typedef struct embed {
    hy_exchange *x;
    hy_engine *e;
    bool base64, over;
    hy_params p;
    hy_buf tenant;
    uint32_t n_embd;
    input *in;
    uint32_t n_in, n_submitted, n_done;
    uint64_t n_tokens;
} embed;

static void embed_free(embed *m)
{
    for (uint32_t i = 0; m->in && i < m->n_in; i++) {
        hy_memory_free(m->in[i].ids);
        hy_free(m->in[i].vec);
    }
    hy_free(m->in);
    hy_buf_free(&m->tenant);
    hy_free(m);
}

/* ---- inputs -------------------------------------------------------------------------------------------- */

static hy_status read_input(embed *m, const json_t *v, const char *at, bool add_special, input *in, hy_err *err)
{
    if (json_is_string(v)) {
        if (json_string_length(v) == 0) return hy_fail(err, HY_E_ARG, "%s: an empty text", at);
        return hy_engine_tokenize(m->e, json_string_value(v), json_string_length(v), add_special, false, &in->ids,
                                  &in->n, err);
    }
    if (!hy_json_is_ids(v)) return hy_fail(err, HY_E_ARG, "%s: neither a string nor an array of token ids", at);
    return hy_json_ids(m->e, v, "input", at, &in->ids, &in->n, err);
}

static hy_status read_inputs(embed *m, const embed_fields *f, hy_err *err)
{
    const json_t *v = f->input;
    if (!v) return hy_fail(err, HY_E_ARG, "input: missing");
    bool many = json_is_array(v) && !hy_json_is_ids(v);
    size_t n = many ? json_array_size(v) : 1;
    if (n == 0) return hy_fail(err, HY_E_ARG, "input: an empty array");
    if (n > INPUTS_MAX) return hy_fail(err, HY_E_ARG, "input: %zu texts are more than %d", n, INPUTS_MAX);
    m->in = HY_NEW_ARRAY(input, n);
    if (!m->in) return hy_fail_memory(err, "inputs", n * sizeof *m->in);
    m->n_in = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        char at[48] = "input";
        if (many) snprintf(at, sizeof at, "input[%zu]", i);
        HY_TRY(read_input(m, many ? json_array_get(v, i) : v, at, f->add_special, &m->in[i], err));
        if (m->in[i].n == 0) return hy_fail(err, HY_E_ARG, "%s: no tokens", at);
        m->n_tokens += m->in[i].n;
    }
    return HY_OK;
}

/* ---- the answer ----------------------------------------------------------------------------------------- */

static void put_base64(hy_buf *b, const float *v, uint32_t n)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t n_bytes = n * 4, held = 0, k = 0;
    for (uint32_t i = 0; i < n_bytes; i++) {
        uint32_t bits;
        memcpy(&bits, &v[i / 4], 4);
        held = held << 8 | (bits >> 8 * (i % 4) & 0xFF);
        if (++k < 3) continue;
        for (int s = 18; s >= 0; s -= 6) hy_buf_char(b, digit[held >> s & 63]);
        held = k = 0;
    }
    if (k == 1) {
        hy_buf_char(b, digit[held >> 2]);
        hy_buf_char(b, digit[held << 4 & 63]);
        hy_buf_str(b, "==");
    } else if (k == 2) {
        hy_buf_char(b, digit[held >> 10]);
        hy_buf_char(b, digit[held >> 4 & 63]);
        hy_buf_char(b, digit[held << 2 & 63]);
        hy_buf_char(b, '=');
    }
}

static void put_vector(hy_buf *b, const embed *m, const float *v)
{
    if (m->base64) {
        hy_buf_char(b, '"');
        put_base64(b, v, m->n_embd);
        hy_buf_char(b, '"');
        return;
    }
    for (uint32_t i = 0; i < m->n_embd; i++) hy_buf_printf(b, "%c%.9g", i ? ',' : '[', (double)v[i]);
    hy_buf_char(b, ']');
}

static void reply(embed *m)
{
    hy_buf b = { 0 };
    const char *id = hy_server_model_id(hy_x_server(m->x));
    hy_buf_str(&b, "{\"object\":\"list\",\"data\":[");
    for (uint32_t i = 0; i < m->n_in; i++) {
        hy_buf_printf(&b, "%s{\"object\":\"embedding\",\"index\":%u,\"embedding\":", i ? "," : "", i);
        put_vector(&b, m, m->in[i].vec);
        hy_buf_char(&b, '}');
    }
    hy_buf_str(&b, "],\"model\":");
    hy_json_quote(id, strlen(id), &b);
    hy_buf_printf(&b, ",\"usage\":{\"prompt_tokens\":%llu,\"total_tokens\":%llu}}", (unsigned long long)m->n_tokens,
                  (unsigned long long)m->n_tokens);
    if (b.failed) hy_openai_no_memory(m->x);
    else hy_x_reply(m->x, 200, "application/json", b.data, b.len);
    hy_buf_free(&b);
}

/* Brought to length 1; a vector of zeros stays one. */
static hy_status keep_vector(embed *m, uint32_t i, hy_err *err)
{
    uint32_t n = 0;
    const float *v = hy_request_embedding(hy_x_request(m->x, i), &n);
    if (!v || n != m->n_embd) return hy_fail(err, HY_E_INTERNAL, "input[%u]: the engine gave no embedding", i);
    float *out = hy_alloc_array(n, sizeof *out);
    if (!out) return hy_fail_memory(err, "embedding", n * sizeof *out);
    double sum = 0;
    for (uint32_t k = 0; k < n; k++) sum += (double)v[k] * (double)v[k];
    double scale = sum > 0 ? 1 / sqrt(sum) : 0;
    for (uint32_t k = 0; k < n; k++) out[k] = (float)((double)v[k] * scale);
    m->in[i].vec = out;
    return HY_OK;
}

static hy_status submit_more(embed *m, hy_err *err)
{
    while (m->n_submitted < m->n_in && m->n_submitted - m->n_done < OPEN_MAX) {
        const input *in = &m->in[m->n_submitted];
        m->p.tokens = in->ids;
        m->p.n_tokens = (uint32_t)HY_MIN(in->n, UINT32_MAX);
        hy_status s = hy_x_submit(m->x, &m->p, 1, err);
        if (s == HY_E_BUSY && m->n_submitted > m->n_done) return HY_OK; /* goes on when one of ours is done */
        if (s != HY_OK) return m->n_in > 1 ? hy_err_prefix(err, s, "input[%u]", m->n_submitted) : s;
        m->n_submitted++;
    }
    return HY_OK;
}

static hy_status take_done(embed *m, uint32_t i, const hy_event *ev, const hy_err *why, hy_err *err)
{
    if (ev->finish == HY_FINISH_ERROR) {
        if (why) *err = *why;
        return why ? why->code : hy_fail(err, HY_E_INTERNAL, "the engine failed");
    }
    if (ev->finish == HY_FINISH_CANCELLED)
        return hy_fail(err, HY_E_CANCELLED, "the server stopped the request before its end");
    HY_TRY(keep_vector(m, i, err));
    m->n_done++;
    return submit_more(m, err);
}

static void on_event(hy_exchange *x, void *user, uint32_t i, const hy_event *ev, const hy_err *why)
{
    embed *m = user;
    if (m->over || ev->kind != HY_EV_DONE || i >= m->n_submitted || m->in[i].vec) return;
    hy_err err;
    if (take_done(m, i, ev, why, &err) != HY_OK) {
        m->over = true;
        hy_x_fail(x, "input", &err);
    } else if (m->n_done == m->n_in) {
        m->over = true;
        reply(m);
    }
}

static void on_close(hy_exchange *x, void *user)
{
    embed_free(user);
}

static hy_status prepare(embed *m, const embed_fields *f, const char **param, hy_err *err)
{
    hy_facts facts;
    hy_engine_facts(m->e, &facts);
    m->n_embd = facts.n_embd;
    *param = "dimensions";
    if (f->has_dimensions && f->dimensions != (int64_t)m->n_embd)
        return hy_fail(err, HY_E_ARG, "dimensions: %lld is not the model's %u, and it was not trained to be cut",
                       (long long)f->dimensions, m->n_embd);
    *param = "cache_salt";
    hy_params_init(&m->p);
    m->p.pool = f->pooling && !strcmp(f->pooling, "last") ? HY_POOL_LAST : HY_POOL_MEAN;
    m->p.max_tokens = 1;
    m->p.priority = (int32_t)f->priority;
    if (f->cache_salt) {
        hy_buf_printf(&m->tenant, "%s\x1F%s", hy_x_tenant(m->x), f->cache_salt);
        if (m->tenant.failed) return hy_fail_memory(err, "cache_salt", m->tenant.len);
        m->p.tenant = m->tenant.data;
    }
    *param = "input";
    return read_inputs(m, f, err);
}

void hy_route_embeddings(hy_exchange *x)
{
    embed_fields f = { .add_special = true };
    const json_t *body = hy_x_json(x);
    if (!body || !hy_fields_read_x(x, hy_embedding_fields, body, &f) || !hy_model_check(x, f.model)) return;
    embed *m = HY_NEW(embed);
    if (!m) {
        hy_openai_no_memory(x);
        return;
    }
    m->x = x;
    m->e = hy_server_engine(hy_x_server(x));
    m->base64 = f.encoding && !strcmp(f.encoding, "base64");
    hy_err err;
    const char *param;
    if (prepare(m, &f, &param, &err) != HY_OK) {
        hy_x_fail(x, param, &err);
        embed_free(m);
        return;
    }
    hy_x_await(x, m, on_event, on_close);
    if (submit_more(m, &err) == HY_OK) return;
    m->over = true;
    hy_x_fail(x, "input", &err);
}
