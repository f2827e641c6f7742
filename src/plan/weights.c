/* Loading a model: what each role needs is looked up and checked first, then one region is taken
 * and filled (pack.c does the filling). */
#include "plan/weights.h"
#include <stdio.h>

/* ---- looking up and checking --------------------------------------------------------------- */

static hy_status missing(hy_loader *l, hy_role role, uint32_t i_layer, const char *what,
                         hy_err *err)
{
    char name[HY_NAME_MAX];
    hy_source_name(l->file, l->m->family, l->prefix, role, i_layer, name);
    return hy_fail(err, HY_E_FORMAT, "tensor %s%s is missing (needed by %s)", name, what,
                   l->m->family->name);
}

static void dims_text(const hy_tensor *t, char out[96])
{
    int n = 0;
    for (uint32_t i = 0; i < t->n_dims && i < HY_DIMS_MAX; i++)
        n += snprintf(out + n, (size_t)(96 - n), "%s%llu", i ? ", " : "",
                      (unsigned long long)t->dim[i]);
}

static hy_status check_tensor(const hy_tensor *t, const uint64_t want[3], hy_err *err)
{
    if (!t->known) {
        const char *type = hy_quant_ggml_name(t->ggml_type);
        return hy_fail(err, HY_E_UNSUPPORTED, "tensor %s has type %s (%u), which is not supported",
                       t->name, type ? type : "unknown", t->ggml_type);
    }
    if (!t->data) return hy_fail(err, HY_E_FORMAT, "tensor %s has no data in the file", t->name);
    bool same = true;
    for (uint32_t i = 0; i < HY_DIMS_MAX; i++) {
        uint64_t have = i < t->n_dims ? t->dim[i] : 1;
        if (have != (i < 3 ? want[i] : 1)) same = false;
    }
    if (same) return HY_OK;
    char have[96];
    dims_text(t, have);
    return hy_fail(err, HY_E_FORMAT, "tensor %s is [%s]: must be [%llu, %llu, %llu]", t->name, have,
                   (unsigned long long)want[0], (unsigned long long)want[1],
                   (unsigned long long)want[2]);
}

static void count_use(hy_loader *l, const hy_tensor *t) { l->uses[t - l->file->tensor]++; }

/* All tensors of one kind (weight or bias) of a job: found, checked, counted. */
static hy_status take_parts(hy_loader *l, hy_load_job *j, bool bias, const uint64_t want[3],
                            const hy_tensor ***out, hy_err *err)
{
    size_t n = j->src.split ? j->n_part : 1;
    const hy_tensor **parts = HY_ARENA_NEW(l->work, const hy_tensor *, n);
    if (!parts) return hy_fail_memory(err, "tensor list", n * sizeof *parts);
    for (uint32_t i = 0; i < n; i++) {
        parts[i] = bias ? j->src.bias : j->src.tensor;
        if (j->src.split)
            parts[i] = hy_source_part(l->file, l->prefix, &j->src, j->i_layer, i, bias);
        if (!parts[i]) {
            char what[64];
            snprintf(what, sizeof what, "%s of expert or head %u", bias ? " (bias)" : "", i);
            return missing(l, j->w->role, j->i_layer, what, err);
        }
        HY_TRY(check_tensor(parts[i], want, err));
        if (i > 0 && parts[i]->qtype != parts[0]->qtype)
            return hy_fail(err, HY_E_UNSUPPORTED, "tensors %s and %s differ in type",
                           parts[0]->name, parts[i]->name);
        count_use(l, parts[i]);
    }
    *out = parts;
    return HY_OK;
}

/* Norms, sinks: k numbers a part; [d_k, heads] where each head has its own. */
static hy_status prepare_vector(hy_loader *l, hy_load_job *j, const hy_tensor_spec *spec,
                                hy_err *err)
{
    uint64_t want[3] = {j->k, 1, 1};
    if (spec->dim[1] != HY_D_NONE) {
        j->n_part = (uint32_t)j->n_row;
        if (!j->src.split) want[1] = j->n_row;
    }
    HY_TRY(take_parts(l, j, false, want, &j->part, err));
    j->w->n_vec = j->k * j->n_row;
    j->vec_bytes = HY_ROUND_UP(j->w->n_vec * sizeof(float), HY_ALIGN);
    if (j->src.bias) {
        HY_TRY(take_parts(l, j, true, want, &j->bias, err));
        j->bias_bytes = j->vec_bytes;
    }
    return HY_OK;
}

/* Routers decide by small differences, and positions are few: they stay as they are. */
static bool may_quantise(hy_role role)
{
    return role != HY_W_ROUTER && role != HY_W_S_ROUTER && role != HY_W_POS_EMBD;
}

static bool may_become(const hy_load_opts *o, const hy_qtraits *q)
{
    const hy_qtraits *to = hy_quant((hy_qtype)o->quantise);
    uint64_t have = (uint64_t)q->block_bytes * to->block, want = (uint64_t)to->block_bytes * q->block;
    return o->every || q->is_float || (o->requantise && want < have);
}

static hy_status prepare_matrix(hy_loader *l, hy_load_job *j, const hy_tensor_spec *spec,
                                hy_err *err)
{
    const hy_hparams *hp = &l->m->hp;
    uint64_t total = hy_pick_total(j->src.how->pick, hp, j->i_layer, j->n_row);
    bool transposed = j->src.how->flags & HY_TRANSPOSED;
    uint64_t stacked = spec->dim[2] != HY_D_NONE && !j->src.split ? j->n_part : 1;
    uint64_t want[3] = {transposed ? total : j->k, transposed ? j->k : total, stacked};
    HY_TRY(take_parts(l, j, false, want, &j->part, err));
    j->src_total = total;
    const hy_tensor *t = j->part[0];
    const hy_qtraits *q = hy_quant(t->qtype);
    if (transposed && !q->is_float)
        return hy_fail(err, HY_E_UNSUPPORTED, "tensor %s: type %s cannot be transposed", t->name,
                       q->name);
    j->type = t->qtype;
    if (l->opts->quantise >= 0 && may_quantise(spec->role) && may_become(l->opts, q) &&
        j->k % hy_quant((hy_qtype)l->opts->quantise)->block == 0)
        j->type = (hy_qtype)l->opts->quantise;
    j->w->n_expert = j->n_part;
    j->w->panels = HY_ARENA_NEW(l->m->arena, hy_panels, j->n_part);
    if (!j->w->panels) return hy_fail_memory(err, "panel table", j->n_part * sizeof(hy_panels));
    for (uint32_t i = 0; i < j->n_part; i++)
        if (!hy_panels_shape(&j->w->panels[i], j->type, l->opts->kern->panel, j->n_row, j->k))
            return hy_fail(err, HY_E_FORMAT, "tensor %s: rows of %llu do not fit type %s", t->name,
                           (unsigned long long)j->k, hy_quant(j->type)->name);
    uint64_t one = 0;
    const hy_panels *p = &j->w->panels[0];
    if (!hy_mul_u64(p->n_panel, p->panel_bytes, &one) || one > UINT64_MAX / 2 / j->n_part)
        return hy_fail(err, HY_E_LIMIT, "tensor %s is too large", t->name);
    j->panels_bytes = HY_ROUND_UP(one, HY_ALIGN);
    if (j->src.bias) {
        uint64_t want_bias[3] = {total, stacked, 1};
        HY_TRY(take_parts(l, j, true, want_bias, &j->bias, err));
        j->bias_bytes = HY_ROUND_UP(j->n_part * j->n_row * sizeof(float), HY_ALIGN);
    }
    return HY_OK;
}

/* The output matrix is the token embedding where the file has none, or says so. */
static bool is_tied(const hy_loader *l, const hy_source *src)
{
    if (!src->tensor) return true;
    if (l->file->kind == HY_FILE_GGUF) return false;
    const json_t *text = json_object_get(l->file->config, "text_config");
    return json_is_true(json_object_get(l->file->config, "tie_word_embeddings")) ||
           json_is_true(json_object_get(text, "tie_word_embeddings"));
}

/* Experts belong to layers with a router, the plain FFN to the others. */
static bool belongs(const hy_hparams *hp, const hy_family *fam, hy_role role, uint32_t i_layer)
{
    switch (role) {
    case HY_W_ROUTER:
    case HY_W_E_GATE:
    case HY_W_E_UP:
    case HY_W_E_DOWN:
    case HY_W_S_ROUTER:
    case HY_W_S_GATE:
    case HY_W_S_UP:
    case HY_W_S_DOWN:
        return hp->layer[i_layer].moe || !hy_family_has(fam, HY_W_GATE);
    case HY_W_GATE:
    case HY_W_UP:
    case HY_W_DOWN:
        return !hp->layer[i_layer].moe;
    default:
        return true;
    }
}

static hy_status prepare(hy_loader *l, const hy_tensor_spec *spec, uint32_t i_layer, hy_err *err)
{
    hy_model *m = l->m;
    bool whole = spec->role < HY_W_FIRST_LAYER_ROLE;
    if (!whole && !belongs(&m->hp, m->family, spec->role, i_layer)) return HY_OK;
    hy_load_job *j = &l->job[l->n_job];
    *j = (hy_load_job){.i_layer = i_layer, .n_row = 1, .n_part = 1};
    hy_source_find(l->file, m->family, l->prefix, spec->role, i_layer, &j->src);
    if (spec->role == HY_W_OUTPUT && spec->need == HY_OPTIONAL && is_tied(l, &j->src)) {
        if (json_is_false(json_object_get(l->file->config, "tie_word_embeddings")))
            return missing(l, spec->role, i_layer, "", err);
        m->tied = true;
        return HY_OK;
    }
    if (!j->src.tensor)
        return spec->need == HY_NEEDED ? missing(l, spec->role, i_layer, "", err) : HY_OK;
    if (spec->bias && !j->src.bias) return missing(l, spec->role, i_layer, " (bias)", err);
    j->w = whole ? &m->global[spec->role] : &m->layer[i_layer][spec->role];
    j->w->role = spec->role;
    j->k = hy_dim_size(&m->hp, i_layer, spec->dim[0]);
    if (spec->dim[1] != HY_D_NONE) j->n_row = hy_dim_size(&m->hp, i_layer, spec->dim[1]);
    if (spec->dim[2] != HY_D_NONE) j->n_part = (uint32_t)hy_dim_size(&m->hp, i_layer, spec->dim[2]);
    if (j->k == 0 || j->n_row == 0 || j->n_part == 0)
        return hy_fail(err, HY_E_FORMAT, "tensor %s: the metadata gives it no size",
                       j->src.tensor->name);
    HY_TRY(hy_role_is_vector(spec->role) ? prepare_vector(l, j, spec, err)
                                         : prepare_matrix(l, j, spec, err));
    j->w->present = true;
    j->w->bytes = j->panels_bytes * j->n_part + j->vec_bytes + j->bias_bytes;
    if (!hy_add_u64(l->all_bytes, j->w->bytes, &l->all_bytes))
        return hy_fail(err, HY_E_LIMIT, "the weights' size overflows");
    l->n_job++;
    return HY_OK;
}

static hy_status prepare_all(hy_loader *l, hy_err *err)
{
    const hy_family *fam = l->m->family;
    uint64_t n_max = (uint64_t)fam->n_tensor * (l->m->hp.n_layer + 1);
    l->job = HY_ARENA_NEW(l->work, hy_load_job, n_max);
    l->uses = HY_ARENA_NEW(l->work, uint32_t, l->file->n_tensor + 1);
    if (!l->job || !l->uses) return hy_fail_memory(err, "load table", n_max * sizeof(hy_load_job));
    for (uint32_t t = 0; t < fam->n_tensor; t++)
        if (fam->tensors[t].role < HY_W_FIRST_LAYER_ROLE)
            HY_TRY(prepare(l, &fam->tensors[t], 0, err));
    for (uint32_t i = 0; i < l->m->hp.n_layer; i++)
        for (uint32_t t = 0; t < fam->n_tensor; t++)
            if (fam->tensors[t].role >= HY_W_FIRST_LAYER_ROLE)
                HY_TRY(prepare(l, &fam->tensors[t], i, err));
    return HY_OK;
}

/* ---- memory -------------------------------------------------------------------------------- */

/* The kernel promises memory it may not have; a model beyond the machine's is refused here. */
static hy_status check_memory(uint64_t bytes, hy_err *err)
{
    if (bytes < HY_GIB) return HY_OK;
    uint64_t has = hy_cpu_memory();
    if (has == 0 || bytes <= has) return HY_OK;
    return hy_fail(err, HY_E_MEMORY, "weights need %llu bytes of memory; the machine has %llu",
                   (unsigned long long)bytes, (unsigned long long)has);
}

static hy_status take_memory(hy_loader *l, hy_err *err)
{
    hy_model *m = l->m;
    HY_TRY(check_memory(l->all_bytes, err));
    uint64_t n = HY_MAX(l->all_bytes, HY_ALIGN);
    m->mem->data = n <= SIZE_MAX ? hy_alloc_big((size_t)n) : NULL;
    if (!m->mem->data) return hy_fail_memory(err, "weights", n);
    if (l->opts->small_pages) hy_big_small_pages(m->mem->data, (size_t)n);
    m->mem->bytes = n;
    return HY_OK;
}

/* Tensors nobody asked for hint at a variant that the recipe does not know. */
static void report_unused(const hy_loader *l)
{
    const char *first = NULL;
    uint32_t n = 0;
    for (uint64_t i = 0; i < l->file->n_tensor; i++) {
        const char *name = l->file->tensor[i].name;
        if (l->uses[i] || strncmp(name, "rope_", 5) == 0) continue;
        if (!first) first = name;
        n++;
    }
    if (n)
        hy_log(l->file->kind == HY_FILE_GGUF ? HY_LOG_WARN : HY_LOG_DEBUG, "tensors unused",
               "n=%u first=%s", n, first);
}

static void finish(hy_loader *l)
{
    hy_model *m = l->m;
    if (m->tied) {
        m->global[HY_W_OUTPUT] = m->global[HY_W_TOK_EMBD];
        m->global[HY_W_OUTPUT].role = HY_W_OUTPUT;
        m->global[HY_W_OUTPUT].bytes = 0;
    }
    m->all_float = true;
    for (uint32_t i = 0; i < l->n_job; i++)
        if (l->job[i].w->panels && !hy_quant(l->job[i].type)->is_float) m->all_float = false;
    report_unused(l);
}

static hy_status load(hy_loader *l, hy_err *err)
{
    hy_model *m = l->m;
    if (l->opts->quantise >= HY_Q_COUNT)
        return hy_fail(err, HY_E_ARG, "no weight type has number %d", l->opts->quantise);
    m->kern = *l->opts->kern;
    if (l->file->n_tensor == 0)
        return hy_fail(err, HY_E_FORMAT, "the file holds a vocabulary and no weights");
    m->layer = hy_arena_alloc(m->arena, sizeof(*m->layer) * m->hp.n_layer, _Alignof(hy_weight));
    if (!m->layer) return hy_fail_memory(err, "layers", sizeof(*m->layer) * m->hp.n_layer);
    hy_source_prefix(l->file, m->family, l->prefix);
    HY_TRY(prepare_all(l, err));
    m->mem = HY_ARENA_NEW(m->arena, hy_model_mem, 1);
    if (!m->mem) return hy_fail_memory(err, "model", sizeof *m->mem);
    m->weight_bytes = l->all_bytes;
    if (hy_packed_map(l)) {
        hy_load_place(l);
    } else {
        HY_TRY(take_memory(l, err));
        HY_TRY(hy_load_pack(l, err));
        if (!l->opts->small_pages) hy_big_huge_pages(m->mem->data, (size_t)m->mem->bytes);
        hy_packed_keep(l);
    }
    finish(l);
    return HY_OK;
}

/* ---- public -------------------------------------------------------------------------------- */

/* Puts the file's name in front, where the file room has not done so. */
static hy_status name_file(const hy_file *f, hy_status s, hy_err *err)
{
    const char *path = f->path ? f->path : "model";
    if (err && strncmp(err->msg, path, strlen(path)) == 0) return s;
    return hy_err_prefix(err, s, "%.200s", path);
}

hy_status hy_model_describe(hy_model **out, const hy_file *f, hy_err *err)
{
    hy_model *m = HY_NEW(hy_model);
    if (!m) return hy_fail_memory(err, "model", sizeof *m);
    m->arena = hy_arena_new(64 * HY_KIB);
    hy_status s = m->arena ? hy_params_read(m, f, err) : hy_fail_memory(err, "model", 64 * HY_KIB);
    if (s != HY_OK) {
        hy_model_free(m);
        return name_file(f, s, err);
    }
    *out = m;
    return HY_OK;
}

hy_status hy_model_load(hy_model **out, const hy_file *f, const hy_load_opts *o, hy_err *err)
{
    hy_model *m = NULL;
    HY_TRY(hy_model_describe(&m, f, err));
    hy_loader l = {.m = m, .file = f, .opts = o, .work = hy_arena_new(256 * HY_KIB)};
    hy_status s = l.work ? load(&l, err) : hy_fail_memory(err, "load table", 256 * HY_KIB);
    hy_arena_free(l.work);
    if (s != HY_OK) {
        hy_model_free(m);
        return name_file(f, s, err);
    }
    *out = m;
    return HY_OK;
}

void hy_model_free(hy_model *m)
{
    if (!m) return;
    if (m->mem && m->mem->map.data) hy_map_close(&m->mem->map);
    else if (m->mem) hy_free_big(m->mem->data, (size_t)m->mem->bytes);
    hy_arena_free(m->arena);
    hy_free(m);
}

bool hy_model_is_mapped(const hy_model *m)
{
    return m->mem && m->mem->map.data;
}

hy_region hy_model_region(const hy_model *m)
{
    return m->mem ? (hy_region){ m->mem->data, m->mem->bytes } : (hy_region){ NULL, 0 };
}
