/* Which columns of each matrix matter: squares of their inputs, summed over a text. Written as GGUF, one
 * pair of tensors a matrix: "<tensor>.in_sum2" [k, experts] and "<tensor>.counts" [1, experts]. */
#include "core.h"
#include <stdio.h>
#include <string.h>

#define WINDOW 512

/* Sums of one matrix. */
typedef struct sums {
    double *sum2;              /* [n_expert][k]; NULL: the model has no such matrix */
    uint64_t *count;           /* [n_expert] */
    uint64_t k;
    uint32_t n_expert;
} sums;

typedef struct measure {
    const hy_model *m;
    hy_arena *arena;
    sums *all;                 /* [n_layer + 1][HY_W_COUNT]; the last row: the whole model's */
} measure;

static sums *sums_of(const measure *c, int32_t i_layer, hy_role role)
{
    uint32_t row = i_layer < 0 ? c->m->hp.n_layer : (uint32_t)i_layer;
    return &c->all[(size_t)row * HY_W_COUNT + role];
}

static void on_input(void *ctx, hy_role role, int32_t i_layer, uint32_t expert, const float *x, uint32_t n_tok,
                     size_t stride, uint64_t k)
{
    sums *s = sums_of(ctx, i_layer, role);
    if (!s->sum2 || k != s->k || expert >= s->n_expert) return;
    double *to = s->sum2 + expert * k;
    for (uint32_t t = 0; t < n_tok; t++, x += stride)
        for (uint64_t i = 0; i < k; i++) to[i] += (double)x[i] * x[i];
    s->count[expert] += n_tok;
}

static hy_status take(measure *c, int32_t i_layer, const hy_weight *w, hy_err *err)
{
    if (!w->present || !w->panels || w->role == HY_W_TOK_EMBD || w->role == HY_W_POS_EMBD) return HY_OK;
    sums *s = sums_of(c, i_layer, w->role);
    s->k = w->panels[0].k;
    s->n_expert = w->n_expert;
    s->sum2 = HY_ARENA_NEW(c->arena, double, s->k * s->n_expert);
    s->count = HY_ARENA_NEW(c->arena, uint64_t, (size_t)s->n_expert + 1);
    return s->sum2 && s->count ? HY_OK : hy_fail_memory(err, "sums", s->k * s->n_expert * sizeof(double));
}

static hy_status take_all(measure *c, hy_err *err)
{
    size_t n = ((size_t)c->m->hp.n_layer + 1) * HY_W_COUNT;
    c->all = HY_ARENA_NEW(c->arena, sums, n);
    if (!c->all) return hy_fail_memory(err, "sums", n * sizeof(sums));
    HY_TRY(take(c, -1, &c->m->global[HY_W_OUTPUT], err));
    for (uint32_t l = 0; l < c->m->hp.n_layer; l++)
        for (uint32_t r = HY_W_FIRST_LAYER_ROLE; r < HY_W_COUNT; r++)
            HY_TRY(take(c, (int32_t)l, &c->m->layer[l][r], err));
    return HY_OK;
}

/* ---- writing -------------------------------------------------------------------------------------- */

static void name_of(const measure *c, uint32_t row, uint32_t role, const char *what, char out[128])
{
    const char *pattern = hy_role_name((hy_role)role), *u = strstr(pattern, "%u");
    if (role == HY_W_OUTPUT && c->m->tied) pattern = hy_role_name(HY_W_TOK_EMBD);
    if (u) snprintf(out, 128, "%.*s%u%s.weight.%s", (int)(u - pattern), pattern, row, u + 2, what);
    else snprintf(out, 128, "%s.weight.%s", pattern, what);
}

static hy_status declare(const measure *c, hy_gguf_writer *w, hy_err *err)
{
    for (uint32_t l = 0; l <= c->m->hp.n_layer; l++)
        for (uint32_t r = 0; r < HY_W_COUNT; r++) {
            const sums *s = &c->all[(size_t)l * HY_W_COUNT + r];
            char name[128];
            if (!s->sum2) continue;
            name_of(c, l, r, "in_sum2", name);
            HY_TRY(hy_gguf_declare(w, name, 2, (uint64_t[]){ s->k, s->n_expert }, HY_Q_F32, err));
            name_of(c, l, r, "counts", name);
            HY_TRY(hy_gguf_declare(w, name, 2, (uint64_t[]){ 1, s->n_expert }, HY_Q_F32, err));
        }
    return HY_OK;
}

static hy_status put_data(const measure *c, hy_gguf_writer *w, hy_err *err)
{
    size_t n = ((size_t)c->m->hp.n_layer + 1) * HY_W_COUNT;
    for (size_t i = 0; i < n; i++) {
        const sums *s = &c->all[i];
        for (uint64_t j = 0; s->sum2 && j < s->k * s->n_expert; j++) {
            float f = (float)s->sum2[j];
            HY_TRY(hy_gguf_put_data(w, &f, sizeof f, err));
        }
        for (uint32_t e = 0; s->sum2 && e < s->n_expert; e++) {
            float f = (float)s->count[e];
            HY_TRY(hy_gguf_put_data(w, &f, sizeof f, err));
        }
    }
    return HY_OK;
}

static hy_status save(const measure *c, const char *out, const char *model, uint32_t n_window, uint32_t window,
                      hy_err *err)
{
    hy_gguf_writer *w;
    HY_TRY(hy_gguf_create(&w, out, err));
    hy_status s = hy_gguf_put_str(w, "general.type", "imatrix", err);
    if (s == HY_OK && model) s = hy_gguf_put_str(w, "general.name", model, err);
    if (s == HY_OK) s = hy_gguf_put_u32(w, "imatrix.chunk_count", n_window, err);
    if (s == HY_OK) s = hy_gguf_put_u32(w, "imatrix.chunk_size", window, err);
    if (s == HY_OK) s = declare(c, w, err);
    if (s == HY_OK) s = put_data(c, w, err);
    if (s == HY_OK) return hy_gguf_finish(w, err);
    hy_gguf_abort(w);
    return s;
}

hy_status hy_tool_imatrix(hy_session *s, const char *text, size_t n_text, uint32_t n_window, const char *out,
                          hy_progress_fn *progress, void *ctx, hy_err *err)
{
    hy_core *core = hy_session_core(s);
    measure c = { .m = core->model, .arena = hy_arena_new(HY_MIB) };
    hy_status st = c.arena ? take_all(&c, err) : hy_fail_memory(err, "sums", HY_MIB);
    uint32_t window = HY_MIN(core->n_ctx, WINDOW);
    /* every position wants its logits, so that the output matrix is measured on all */
    hy_ppl_params p = { .text = text, .n_text = n_text, .window = window, .score_first = 1, .n_window = n_window,
                        .progress = progress, .progress_ctx = ctx };
    hy_ppl_result r = { 0 };
    if (st == HY_OK) {
        hy_plan_tap(core->plan, on_input, &c);
        st = hy_session_perplexity(s, &p, &r, err);
        hy_plan_tap(core->plan, NULL, NULL);
    }
    if (st == HY_OK) st = save(&c, out, core->name, r.n_window, window, err);
    hy_arena_free(c.arena);
    return st;
}
