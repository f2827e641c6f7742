/* Hyper-parameters: the family's defaults, the file's values, what follows from them, the checks.
 */
#include "plan/load.h"
#include <math.h>

double hy_longrope_attn_factor(double n_ctx, double n_ctx_orig)
{
    double factor = n_ctx / n_ctx_orig;
    if (!(factor > 1) || !(n_ctx_orig > 1)) return 1;
    return sqrt(1 + log(factor) / log(n_ctx_orig));
}

double hy_yarn_attn_factor(double factor, double mscale)
{
    return factor > 1 ? 0.1 * mscale * log(factor) + 1 : 1;
}

hy_status hy_params_alloc_layers(hy_draft *d, hy_err *err)
{
    hy_hparams *hp = d->hp;
    hp->layer = HY_ARENA_NEW(d->arena, hy_layer_params, hp->n_layer);
    if (!hp->layer)
        return hy_fail_memory(err, "layer table", hp->n_layer * sizeof(hy_layer_params));
    return HY_OK;
}

static void set_defaults(hy_hparams *hp, const hy_family_io *io)
{
    hp->norm = io->norm;
    hp->act = io->act;
    hp->gating = io->gating;
    hp->norm_topk = io->norm_topk;
    hp->parallel = io->parallel;
    hp->norm_eps = 1e-5;
    hp->embd_scale = hp->residual_scale = hp->logit_scale = hp->expert_scale = 1;
    for (int i = 0; i < 2; i++) {
        hy_rope *r = &hp->rope[i];
        r->kind = HY_ROPE_PLAIN;
        r->base = io->rope_base ? io->rope_base : 10000;
        r->factor = r->attn_factor = r->ext_factor = 1;
        r->beta_fast = 32;
        r->beta_slow = 1;
        r->low_freq = 1;
        r->high_freq = 4;
        r->truncate = true;
    }
}

/* The rope of windowed layers where the family says that it is a plain one. */
static void set_local_rope(hy_draft *d)
{
    const hy_family_io *io = d->family->io;
    hy_hparams *hp = d->hp;
    if (d->local_rope || !io->plain_local_rope) return;
    double base = io->rope_base_local ? io->rope_base_local : hp->rope[0].base;
    hy_rope *r = &hp->rope[1];
    r->kind = HY_ROPE_PLAIN;
    r->base = base;
    r->n_rot = hp->rope[0].n_rot;
    d->local_rope = true;
}

static void spread(hy_draft *d)
{
    const hy_family_io *io = d->family->io;
    hy_hparams *hp = d->hp;
    char prefix[HY_NAME_MAX];
    hy_source_prefix(d->file, d->family, prefix);
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        hy_layer_params *l = &hp->layer[i];
        bool windowed = hp->window != 0;
        if (windowed && d->windowed)
            windowed = d->windowed[i];
        else if (windowed && d->window_every)
            windowed = (i + 1) % d->window_every != 0;
        l->window = windowed ? hp->window : 0;
        bool rope = !io->no_rope;
        if (d->no_rope)
            rope = rope && !d->no_rope[i];
        else if (io->no_rope_every)
            rope = rope && (i + 1) % io->no_rope_every != 0;
        if (io->full_no_rope && hp->window && !windowed) rope = false;
        l->rope = (int8_t)(!rope ? -1 : windowed && d->local_rope ? 1 : 0);
        hy_source router;
        hy_source_find(d->file, d->family, prefix, HY_W_ROUTER, i, &router);
        l->moe = hp->n_expert > 0 && router.tensor;
    }
}

static hy_status bad(hy_err *err, const char *what, double value, const char *demand)
{
    return hy_fail(err, HY_E_FORMAT, "%s is %.9g: must be %s", what, value, demand);
}

static hy_status check_rope(const hy_rope *r, uint32_t d_k, hy_err *err)
{
    if (r->n_rot < 2 || r->n_rot % 2 || r->n_rot > d_k)
        return hy_fail(err, HY_E_FORMAT,
                       "rope dimension count is %u: must be even, 2..%u (head size)", r->n_rot,
                       d_k);
    if (!(r->base > 1) || !isfinite(r->base)) return bad(err, "rope base", r->base, "above 1");
    if (!(r->factor > 0) || !isfinite(r->factor))
        return bad(err, "rope scaling factor", r->factor, "above 0");
    if (!isfinite(r->attn_factor) || !isfinite(r->ext_factor))
        return bad(err, "rope attention factor", r->attn_factor, "finite");
    bool original = r->kind == HY_ROPE_LLAMA3 || r->kind == HY_ROPE_YARN ||
                    r->kind == HY_ROPE_DYNAMIC || r->kind == HY_ROPE_LONGROPE;
    if (original && r->n_ctx_orig == 0)
        return hy_fail(err, HY_E_FORMAT, "rope scaling needs the original context length");
    if (r->kind == HY_ROPE_LLAMA3 && !(r->low_freq > 0 && r->high_freq > r->low_freq))
        return hy_fail(err, HY_E_FORMAT,
                       "rope frequency factors are %.9g and %.9g: must be 0 < low < high",
                       r->low_freq, r->high_freq);
    if (r->kind == HY_ROPE_YARN && !(r->beta_slow > 0 && r->beta_fast > r->beta_slow))
        return hy_fail(err, HY_E_FORMAT,
                       "rope beta_slow and beta_fast are %.9g and %.9g: must be 0 < slow < fast",
                       r->beta_slow, r->beta_fast);
    if (r->kind == HY_ROPE_LONGROPE && (!r->long_factors || !r->short_factors))
        return hy_fail(err, HY_E_FORMAT, "longrope needs its long and short factors");
    return HY_OK;
}

static hy_status check_experts(const hy_hparams *hp, hy_err *err)
{
    if (hp->n_expert == 0) return HY_OK;
    if (hp->n_expert_used == 0 || hp->n_expert_used > hp->n_expert)
        return hy_fail(err, HY_E_FORMAT, "experts used a token is %u: must be 1..%u (experts)",
                       hp->n_expert_used, hp->n_expert);
    if (hp->n_ff_expert == 0)
        return hy_fail(err, HY_E_FORMAT, "feed-forward length of an expert is 0");
    return HY_OK;
}

static hy_status check(const hy_hparams *hp, hy_err *err)
{
    const struct {
        const char *name;
        double value;
    } finite[] = {
        {"embedding scale", hp->embd_scale},    {"attention scale", hp->attn_scale},
        {"residual scale", hp->residual_scale}, {"logit scale", hp->logit_scale},
        {"expert scale", hp->expert_scale},
    };
    for (size_t i = 0; i < HY_COUNT(finite); i++)
        if (!isfinite(finite[i].value)) return bad(err, finite[i].name, finite[i].value, "finite");
    if (!(hp->norm_eps >= 0 && hp->norm_eps < 1))
        return bad(err, "norm epsilon", hp->norm_eps, "0 or more, below 1");
    if (!(hp->attn_softcap >= 0) || !isfinite(hp->attn_softcap))
        return bad(err, "attention soft cap", hp->attn_softcap, "0 or more");
    if (!(hp->logit_softcap >= 0) || !isfinite(hp->logit_softcap))
        return bad(err, "logit soft cap", hp->logit_softcap, "0 or more");
    bool used[2] = {false, false};
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const hy_layer_params *l = &hp->layer[i];
        if (l->n_kv_head == 0 || l->n_head % l->n_kv_head)
            return hy_fail(err, HY_E_FORMAT,
                           "layer %u has %u heads and %u KV heads: the first must be a multiple", i,
                           l->n_head, l->n_kv_head);
        if (l->rope >= 0) used[l->rope] = true;
    }
    for (int i = 0; i < 2; i++)
        if (used[i]) HY_TRY(check_rope(&hp->rope[i], hp->d_k, err));
    return check_experts(hp, err);
}

static hy_status find_family(const hy_family **out, const hy_file *f, hy_err *err)
{
    char name[96];
    if (f->kind == HY_FILE_GGUF) {
        hy_str arch = {"", 0};
        HY_TRY(hy_meta_string(f, "general.architecture", true, &arch, err));
        snprintf(name, sizeof name, "%.*s", (int)HY_MIN(arch.n, sizeof name - 1), arch.p);
        return hy_family_by_gguf(out, name, err);
    }
    if (!f->config)
        return hy_fail(err, HY_E_FORMAT, "no config.json beside the safetensors: family unknown");
    const char *type = json_string_value(json_object_get(f->config, "model_type"));
    if (!type) return hy_fail(err, HY_E_FORMAT, "config.json: no model_type");
    return hy_family_by_hf(out, type, err);
}

hy_status hy_params_read(hy_model *m, const hy_file *f, hy_err *err)
{
    HY_TRY(find_family(&m->family, f, err));
    const hy_family_io *io = m->family->io;
    hy_draft d = {.file = f,
                  .family = m->family,
                  .arena = m->arena,
                  .hp = &m->hp,
                  .window_every = io->window_every};
    set_defaults(&m->hp, io);
    HY_TRY(f->kind == HY_FILE_GGUF ? hy_params_gguf(&d, err) : hy_params_hf(&d, err));
    hy_hparams *hp = &m->hp;
    if (hp->n_ff_expert == 0) hp->n_ff_expert = hp->n_ff;
    bool interleaved = f->kind == HY_FILE_GGUF ? io->gguf_interleaved : io->hf_interleaved;
    set_local_rope(&d);
    hp->rope[0].interleaved = hp->rope[1].interleaved = interleaved;
    spread(&d);
    if (m->family->derive) HY_TRY(m->family->derive(hp, err));
    return check(hp, err);
}
