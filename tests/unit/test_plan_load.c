/* Loading: every golden model opens in every form; hyper-parameters agree with config.json; GGUF and
 * safetensors of one model give the same rows. */
#include "load_help.h"
#include <jansson.h>
#include <math.h>

static const char *const models[] = {
    "llama2", "llama3", "llama32_tied", "llama_linear", "llama_bias", "mistral_swa", "mistral_nowin",
    "smollm3", "qwen2", "qwen2_yarn", "qwen3", "gemma", "gemma2", "gemma2_qscale", "gemma3", "phi2",
    "phi3", "phi3_longrope", "gpt2", "pythia", "olmo2", "olmo3", "granite", "starcoder2", "falcon7b",
    "stablelm", "cohere", "cohere2", "glm4", "nemotron", "exaone4", "ernie4_5", "mixtral",
    "granitemoe", "qwen2_moe", "qwen3_moe", "olmoe", "gpt_oss",
};
static const char *const forms[] = { "hf", "model-f32.gguf", "model-bf16.gguf", "model-f16.gguf",
                                     "model-q8_0.gguf" };

static void which_set(uint32_t n)
{
    print_message("%u files, %s\n", n, help_full_set() ? "the full set" : "the clone's");
}

/* ---- every form opens ------------------------------------------------------------------------- */

static void every_form_loads(void **state)
{
    (void)state;
    uint32_t n = 0;
    for (size_t i = 0; i < HY_COUNT(models); i++)
        for (size_t j = 0; j < HY_COUNT(forms); j++) {
            char path[512];
            if (!help_path(path, models[i], forms[j])) continue;
            hy_model *m = help_must_load(path);
            assert_int_equal(m->all_float, strcmp(forms[j], "model-q8_0.gguf") != 0);
            assert_true(m->weight_bytes > 0);
            hy_model_free(m);
            n++;
        }
    assert_true(n >= 5);
    which_set(n);
}

static void quantised_files_load(void **state)
{
    (void)state;
    static const char *const files[] = { "IQ4_XS/model-iq4_xs", "Q2_K/model-q2_k", "Q3_K_M/model-q3_k_m",
        "Q4_0/model-q4_0", "Q4_1/model-q4_1", "Q4_K_M/model-q4_k_m", "Q5_K_M/model-q5_k_m",
        "Q6_K/model-q6_k", "Q8_0/model-q8_0" };
    for (size_t i = 0; i < HY_COUNT(files); i++) {
        char path[512];
        snprintf(path, sizeof path, HY_SHARED "/golden/quantmodels/%s.gguf", files[i]);
        if (!hy_is_file(path)) continue;
        hy_model *m = help_must_load(path);
        assert_false(m->all_float);
        hy_model_free(m);
    }
}

/* ---- hyper-parameters against config.json ----------------------------------------------------- */

static json_t *config_of(const char *model)
{
    char path[512];
    if (!help_path(path, model, "hf/config.json")) return NULL;
    json_t *c = json_load_file(path, 0, NULL);
    assert_non_null(c);
    return c;
}

static void expect_int(const char *model, const json_t *c, const char *key, uint64_t have)
{
    const json_t *v = json_object_get(c, key);
    if (json_is_integer(v) && (uint64_t)json_integer_value(v) != have)
        fail_msg("%s: %s is %llu, config.json says %lld", model, key, (unsigned long long)have,
                 json_integer_value(v));
}

static void expect_near(const char *model, const json_t *c, const char *key, double have)
{
    const json_t *v = json_object_get(c, key);
    if (json_is_number(v) && fabs(json_number_value(v) - have) > 1e-6 * fabs(have))
        fail_msg("%s: %s is %g, config.json says %g", model, key, have, json_number_value(v));
}

static void compare_with_config(const char *model, const hy_hparams *hp, const json_t *c)
{
    expect_int(model, c, "hidden_size", hp->n_embd);
    expect_int(model, c, "n_embd", hp->n_embd);
    expect_int(model, c, "num_hidden_layers", hp->n_layer);
    expect_int(model, c, "n_layer", hp->n_layer);
    expect_int(model, c, "num_attention_heads", hp->n_head);
    expect_int(model, c, "n_head", hp->n_head);
    expect_int(model, c, "num_key_value_heads", hp->n_kv_head);
    expect_int(model, c, "num_kv_heads", hp->n_kv_head);
    expect_int(model, c, "head_dim", hp->d_k);
    expect_int(model, c, "intermediate_size", hp->n_ff);
    expect_int(model, c, "vocab_size", hp->n_vocab);
    expect_int(model, c, "max_position_embeddings", hp->n_ctx_train);
    expect_int(model, c, "n_positions", hp->n_ctx_train);
    expect_int(model, c, "num_local_experts", hp->n_expert);
    expect_int(model, c, "num_experts", hp->n_expert);
    if (hp->n_expert) expect_int(model, c, "num_experts_per_tok", hp->n_expert_used);
    expect_int(model, c, "moe_intermediate_size", hp->n_ff_expert);
    expect_int(model, c, "shared_expert_intermediate_size", hp->n_ff_shared);
    if (hp->norm == HY_NORM_RMS) expect_near(model, c, "rms_norm_eps", hp->norm_eps);
    else expect_near(model, c, "layer_norm_eps", hp->norm_eps);
    if (json_object_get(c, "rope_theta")) expect_near(model, c, "rope_theta", hp->rope[0].base);
    expect_near(model, c, "logit_scale", hp->logit_scale);
    expect_near(model, c, "embedding_multiplier", hp->embd_scale);
    expect_near(model, c, "attention_multiplier", hp->attn_scale);
    expect_near(model, c, "residual_multiplier", hp->residual_scale);
    expect_near(model, c, "attn_logit_softcapping", hp->attn_softcap);
    expect_near(model, c, "final_logit_softcapping", hp->logit_softcap);
    const json_t *scaling = json_object_get(c, "rope_scaling");
    if (hp->rope[0].kind != HY_ROPE_PLAIN) expect_near(model, scaling, "factor", hp->rope[0].factor);
}

static void hparams_agree_with_config(void **state)
{
    (void)state;
    uint32_t n = 0;
    for (size_t i = 0; i < HY_COUNT(models); i++) {
        json_t *c = config_of(models[i]);
        for (size_t j = 0; c && j < HY_COUNT(forms); j++) {
            char path[512];
            if (!help_path(path, models[i], forms[j])) continue;
            hy_file *f = NULL;
            hy_model *m = NULL;
            hy_err err = { 0 };
            assert_int_equal(hy_file_open(&f, path, &err), HY_OK);
            if (hy_model_describe(&m, f, &err) != HY_OK) fail_msg("%s", err.msg);
            compare_with_config(models[i], &m->hp, c);
            hy_model_free(m);
            hy_file_close(f);
            n++;
        }
        json_decref(c);
    }
    which_set(n);
}

/* Windows and ropes of each layer, as cases_given.py and the families' papers have them: one letter a
 * layer, w windowed, f full; capital where the layer has no rope. */
static void layers_are_told_apart(void **state)
{
    (void)state;
    static const struct { const char *model, *form, *layers; uint32_t window; } want[] = {
        { "gemma3", "hf", "wwwwwfw", 32 }, { "gemma3", "model-f32.gguf", "wwwwwfw", 32 },
        { "gemma2", "hf", "wfwf", 32 }, { "gemma2", "model-f32.gguf", "wfwf", 32 },
        { "mistral_swa", "hf", "ww", 32 }, { "mistral_swa", "model-f32.gguf", "ff", 0 },
        { "smollm3", "hf", "fffF", 0 }, { "smollm3", "model-f32.gguf", "fffF", 0 },
        { "cohere2", "hf", "wwwF", 32 }, { "cohere2", "model-bf16.gguf", "wwwF", 32 },
        { "exaone4", "hf", "wwwF", 32 }, { "exaone4", "model-bf16.gguf", "wwwF", 32 },
        { "olmo3", "hf", "wwwf", 32 }, { "olmo3", "model-bf16.gguf", "wwwf", 32 },
        { "gpt_oss", "hf", "wf", 32 }, { "gpt_oss", "model-bf16.gguf", "wf", 32 },
        { "gpt2", "hf", "FF", 0 }, { "qwen2_moe", "model-bf16.gguf", "ff", 0 },
    };
    for (size_t i = 0; i < HY_COUNT(want); i++) {
        char path[512], have[16] = "";
        if (!help_path(path, want[i].model, want[i].form)) continue;
        hy_model *m = help_must_load(path);
        assert_int_equal(m->hp.n_layer, strlen(want[i].layers));
        for (uint32_t l = 0; l < m->hp.n_layer; l++) {
            const hy_layer_params *lp = &m->hp.layer[l];
            if (lp->window) assert_int_equal(lp->window, want[i].window);
            have[l] = lp->window ? (lp->rope >= 0 ? 'w' : 'W') : lp->rope >= 0 ? 'f' : 'F';
        }
        assert_string_equal(have, want[i].layers);
        hy_model_free(m);
    }
}

static void gemma3_has_two_ropes(void **state)
{
    (void)state;
    char path[512];
    assert_true(help_path(path, "gemma3", "hf"));
    hy_model *m = help_must_load(path);
    const hy_hparams *hp = &m->hp;
    assert_int_equal(hp->rope[0].kind, HY_ROPE_LINEAR); /* config.json: rope_scaling */
    assert_true(hp->rope[0].base == 1e6 && hp->rope[0].factor == 8);
    assert_int_equal(hp->rope[1].kind, HY_ROPE_PLAIN);
    assert_true(hp->rope[1].base == 1e4);
    assert_int_equal(hp->layer[0].rope, 1);
    assert_int_equal(hp->layer[5].rope, 0);
    assert_true(hp->embd_scale == 8);                        /* sqrt(64) */
    assert_true(fabs(hp->attn_scale - 1 / sqrt(32)) < 1e-12); /* query_pre_attn_scalar */
    assert_true(m->tied);
    hy_model_free(m);
}

/* ---- rows of both kinds of files -------------------------------------------------------------- */

static const hy_weight *weight_of(const hy_model *m, uint32_t layer, hy_role role)
{
    return role < HY_W_FIRST_LAYER_ROLE ? &m->global[role] : &m->layer[layer][role];
}

/* Row of GGUF's Q or K that is row r of the safetensors': pairs side by side against halves. */
static uint64_t permuted(const hy_hparams *hp, uint64_t r)
{
    uint64_t d = hp->d_k, head = r / d, i = r % d, half = d / 2;
    return head * d + (i < half ? 2 * i : 2 * (i - half) + 1);
}

static void compare_weight(const char *model, const hy_model *hf, const hy_model *gg, uint32_t layer,
                           hy_role role, bool permute)
{
    const hy_weight *a = weight_of(hf, layer, role), *b = weight_of(gg, layer, role);
    if (a->present != b->present) fail_msg("%s: only one has %s", model, hy_role_name(role));
    if (!a->present) return;
    assert_int_equal(a->n_vec, b->n_vec);
    for (uint64_t i = 0; i < a->n_vec; i++) {
        if (a->vec[i] != b->vec[i]) fail_msg("%s: %s[%zu]", model, hy_role_name(role), (size_t)i);
        if (a->bias) assert_true(a->bias[i] == b->bias[i]);
    }
    assert_int_equal(a->n_expert, b->n_expert);
    assert_int_equal(a->bias != NULL, b->bias != NULL);
    for (uint32_t e = 0; e < a->n_expert; e++) {
        const hy_panels *p = &a->panels[e], *q = &b->panels[e];
        assert_int_equal(p->n_row, q->n_row);
        assert_int_equal(p->k, q->k);
        float *x = hy_alloc_array(p->k, sizeof *x), *y = hy_alloc_array(p->k, sizeof *y);
        for (uint64_t r = 0; r < p->n_row; r++) {
            uint64_t s = permute ? permuted(&hf->hp, r) : r;
            hy_panel_row(p, r, x);
            hy_panel_row(q, s, y);
            if (memcmp(x, y, p->k * sizeof *x) != 0)
                fail_msg("%s: layer %u %s expert %u row %zu", model, layer, hy_role_name(role), e, (size_t)r);
            if (a->bias) assert_true(a->bias[e * p->n_row + r] == b->bias[e * p->n_row + s]);
        }
        hy_free(x);
        hy_free(y);
    }
}

static uint32_t compare_forms(const char *model, const char *form)
{
    char hf_path[512], gg_path[512];
    if (!help_path(hf_path, model, "hf") || !help_path(gg_path, model, form)) return 0;
    hy_model *hf = help_must_load(hf_path), *gg = help_must_load(gg_path);
    bool permute = hf->hp.rope[0].interleaved != gg->hp.rope[0].interleaved;
    for (hy_role r = HY_W_NONE + 1; r < HY_W_FIRST_LAYER_ROLE; r++)
        compare_weight(model, hf, gg, 0, r, false);
    for (uint32_t l = 0; l < hf->hp.n_layer; l++)
        for (hy_role r = HY_W_FIRST_LAYER_ROLE; r < HY_W_COUNT; r++)
            compare_weight(model, hf, gg, l, r, permute && (r == HY_W_Q || r == HY_W_K));
    assert_int_equal(hf->tied, gg->tied);
    hy_model_free(hf);
    hy_model_free(gg);
    return 1;
}

static void both_kinds_give_the_same_rows(void **state)
{
    (void)state;
    uint32_t n = 0;
    for (size_t i = 0; i < HY_COUNT(models); i++) {
        n += compare_forms(models[i], "model-f32.gguf");
        n += compare_forms(models[i], "model-bf16.gguf");
    }
    assert_true(n > 0);
    which_set(n);
}

/* ---- options ---------------------------------------------------------------------------------- */

static void quantising_while_loading(void **state)
{
    (void)state;
    char path[512];
    assert_true(help_path(path, "llama3", "model-bf16.gguf"));
    hy_model *as_is = help_must_load(path), *m = NULL;
    hy_err err = { 0 };
    assert_int_equal(help_load(&m, path, HY_Q_Q8_0, NULL, &err), HY_OK);
    assert_false(m->all_float);
    const hy_panels *p = m->layer[0][HY_W_Q].panels, *q = as_is->layer[0][HY_W_Q].panels;
    assert_int_equal(p->type, HY_Q_Q8_0);
    assert_int_equal(m->layer[0][HY_W_DOWN].panels->type, HY_Q_BF16); /* 112 is no multiple of 32 */
    float x[64], y[64];
    for (uint64_t r = 0; r < p->n_row; r++) {
        hy_panel_row(p, r, x);
        hy_panel_row(q, r, y);
        for (int k = 0; k < 64; k++) { /* Q8_0: half a step of max / 127, and d in F16 */
            float max = 0;
            for (int i = k / 32 * 32; i < k / 32 * 32 + 32; i++) max = fmaxf(max, fabsf(y[i]));
            assert_true(fabsf(x[k] - y[k]) <= max / 127 * 0.5f + max * 0x1p-10f);
        }
    }
    assert_true(m->weight_bytes < as_is->weight_bytes);
    hy_model_free(m);
    assert_int_equal(help_load(&m, path, HY_Q_COUNT, NULL, &err), HY_E_ARG);
    hy_model_free(as_is);
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    char path[512];
    assert_true(help_path(path, "qwen2_moe", "model-bf16.gguf"));
    hy_team *team = NULL;
    hy_err err = { 0 };
    assert_int_equal(hy_team_open(&team, 3, false, &err), HY_OK);
    hy_model *one = help_must_load(path), *three = NULL;
    assert_int_equal(help_load(&three, path, -1, team, &err), HY_OK);
    for (hy_role r = HY_W_FIRST_LAYER_ROLE; r < HY_W_COUNT; r++)
        compare_weight("qwen2_moe", one, three, 1, r, false);
    compare_weight("qwen2_moe", one, three, 0, HY_W_TOK_EMBD, false);
    hy_model_free(one);
    hy_model_free(three);
    hy_team_close(team);
}

typedef struct seen { uint64_t n, last, all; bool fell; volatile int stop; uint64_t stop_after; } seen;

static void on_progress(void *ctx, uint64_t done, uint64_t all)
{
    seen *s = ctx;
    s->fell |= done < s->last;
    s->last = done;
    s->all = all;
    if (++s->n == s->stop_after) s->stop = 1;
}

static void progress_and_cancel(void **state)
{
    (void)state;
    char path[512];
    assert_true(help_path(path, "llama3", "model-bf16.gguf"));
    hy_kernels k;
    help_kernels(&k);
    for (int round = 0; round < 2; round++) {
        seen s = { .stop_after = round ? 5 : UINT64_MAX };
        hy_err err = { 0 };
        hy_file *f = NULL;
        hy_model *m = NULL;
        assert_int_equal(hy_file_open(&f, path, &err), HY_OK);
        hy_load_opts o = { .kern = &k, .quantise = -1, .progress = on_progress, .progress_ctx = &s,
                           .cancel = &s.stop };
        hy_status st = hy_model_load(&m, f, &o, &err);
        hy_file_close(f);
        assert_false(s.fell);
        if (round == 0) {
            assert_int_equal(st, HY_OK);
            assert_int_equal(s.last, s.all);
            assert_int_equal(s.all, m->weight_bytes);
            hy_model_free(m);
        } else {
            assert_int_equal(st, HY_E_CANCELLED);
            assert_int_equal(s.n, 5);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_loads),
        cmocka_unit_test(quantised_files_load),
        cmocka_unit_test(hparams_agree_with_config),
        cmocka_unit_test(layers_are_told_apart),
        cmocka_unit_test(gemma3_has_two_ropes),
        cmocka_unit_test(both_kinds_give_the_same_rows),
        cmocka_unit_test(quantising_while_loading),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(progress_and_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
