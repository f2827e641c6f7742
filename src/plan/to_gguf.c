/* A folder's tensors under GGUF's names and in GGUF's layout. */
#include "plan/to_gguf_impl.h"
#include <stdio.h>

/* ---- names --------------------------------------------------------------------------------------- */

/* Families whose GGUF files go under another family's name. */
static hy_status find_target(hy_to_gguf *c, hy_err *err)
{
    static const struct { const char *family, *arch; } other[] = {
        { "mistral", "llama" }, { "mixtral", "llama" }, { "olmo3", "olmo2" },
    };
    const hy_family *fam = c->m->family;
    const char *arch = fam->gguf_arch;
    for (size_t i = 0; !arch && i < HY_COUNT(other); i++)
        if (strcmp(fam->name, other[i].family) == 0) arch = other[i].arch;
    if (!arch) return hy_fail(err, HY_E_UNSUPPORTED, "%s has no GGUF form", fam->name);
    snprintf(c->arch, sizeof c->arch, "%.*s", (int)strcspn(arch, ","), arch);
    return hy_family_by_gguf(&c->to, c->arch, err);
}

static void expand(const char *pattern, uint32_t i_layer, const char *suffix, char out[64])
{
    const char *u = strstr(pattern, "%u");
    if (u) snprintf(out, 64, "%.*s%u%s%s", (int)(u - pattern), pattern, i_layer, u + 2, suffix);
    else snprintf(out, 64, "%s%s", pattern, suffix);
}

/* The tensor that holds this role together with others in the target's files, or NULL. */
static const hy_name *fused_name(const hy_to_gguf *c, hy_role role)
{
    const hy_family_io *io = c->to->io;
    for (uint32_t i = 0; i < io->n_gguf; i++) {
        const hy_name *n = &io->gguf[i];
        const char *u = strstr(n->name, "%u");
        if (n->role == role && n->pick != HY_PICK_ALL && !(u && strstr(u + 2, "%u"))) return n;
    }
    return NULL;
}

/* ---- listing ------------------------------------------------------------------------------------- */

hy_out *hy_to_gguf_more(hy_to_gguf *c, hy_err *err)
{
    if (c->n == c->cap) {
        uint32_t cap = c->cap ? 2 * c->cap : 64;
        hy_out *p = hy_realloc_array(c->out, cap, sizeof *p);
        if (!p) {
            (void)hy_fail_memory(err, "tensor list", cap * sizeof *p);
            return NULL;
        }
        c->out = p;
        c->cap = cap;
    }
    hy_out *o = &c->out[c->n++];
    memset(o, 0, sizeof *o);
    for (uint32_t d = 0; d < HY_DIMS_MAX; d++) o->t.dim[d] = 1;
    return o;
}

static hy_status check(const hy_tensor *t, uint64_t d0, uint64_t d1, uint64_t d2, hy_err *err)
{
    if (!t->known || !hy_quant(t->qtype)->is_float || !t->data)
        return hy_fail(err, HY_E_UNSUPPORTED, "tensor %s holds no float weights", t->name);
    if (t->dim[0] == d0 && t->dim[1] == d1 && t->dim[2] == d2 && t->dim[3] == 1) return HY_OK;
    return hy_fail(err, HY_E_FORMAT, "tensor %s is [%llu, %llu, %llu]: must be [%llu, %llu, %llu]", t->name,
                   (unsigned long long)t->dim[0], (unsigned long long)t->dim[1], (unsigned long long)t->dim[2],
                   (unsigned long long)d0, (unsigned long long)d1, (unsigned long long)d2);
}

/* All of a part's tensors, weights or biases, have the size that rows are read by. */
static hy_status check_part(const hy_to_gguf *c, const hy_out_part *p, uint32_t i_layer, bool bias, bool vector,
                            uint64_t k, uint32_t n_part, hy_err *err)
{
    bool split = p->src.split, turned = p->src.how->flags & HY_TRANSPOSED;
    uint64_t stacked = split || vector ? 1 : n_part;
    for (uint32_t i = 0; i < (split ? n_part : 1); i++) {
        const hy_tensor *t = bias ? p->src.bias : p->src.tensor;
        if (split) t = hy_source_part(c->file, c->prefix, &p->src, i_layer, i, bias);
        if (!t)
            return hy_fail(err, HY_E_FORMAT, "tensor of %s %u in layer %u is missing", hy_role_name(p->role), i, i_layer);
        if (vector) HY_TRY(check(t, k, split ? 1 : p->n_row, 1, err));
        else if (bias) HY_TRY(check(t, p->total, stacked, 1, err));
        else HY_TRY(check(t, turned ? p->total : k, turned ? k : p->total, stacked, err));
    }
    return HY_OK;
}

static uint64_t size_of(const hy_to_gguf *c, uint32_t i_layer, hy_dim d)
{
    return d == HY_D_NONE ? 1 : hy_dim_size(&c->m->hp, i_layer, d);
}

static hy_status find_part(const hy_to_gguf *c, const hy_tensor_spec *s, uint32_t i_layer, hy_out_part *p)
{
    *p = (hy_out_part){ .role = s->role, .n_row = size_of(c, i_layer, s->dim[1]) };
    hy_source_find(c->file, c->m->family, c->prefix, s->role, i_layer, &p->src);
    if (!p->src.tensor) return HY_OK;
    p->total = hy_pick_total(p->src.how->pick, &c->m->hp, i_layer, p->n_row);
    bool q_or_k = s->role == HY_W_Q || s->role == HY_W_K || s->role == HY_W_Q_NORM || s->role == HY_W_K_NORM;
    p->turn = q_or_k && c->to->io->gguf_interleaved != c->m->hp.rope[0].interleaved;
    return HY_OK;
}

/* One output of these parts: the weights, or their biases. */
static hy_status put(hy_to_gguf *c, const hy_out_part *part, uint32_t n, const hy_tensor_spec *s, const char *name,
                     uint32_t i_layer, bool bias, hy_err *err)
{
    uint64_t k = size_of(c, i_layer, s->dim[0]), n_expert = size_of(c, i_layer, s->dim[2]);
    bool vector = hy_role_is_vector(s->role);
    hy_out *o = hy_to_gguf_more(c, err);
    if (!o) return HY_E_MEMORY;
    expand(name, i_layer, bias ? ".bias" : ".weight", o->t.name);
    o->i_layer = i_layer;
    o->bias = bias;
    o->vector = vector;
    o->n_part = n;
    o->t.type = bias ? part[0].src.bias->qtype : part[0].src.tensor->qtype;
    for (uint32_t i = 0; i < n; i++) {
        o->part[i] = part[i];
        o->n_row += part[i].n_row;
        HY_TRY(check_part(c, &part[i], i_layer, bias, vector, k, (uint32_t)(vector ? part[i].n_row : n_expert), err));
    }
    bool rows_are_items = bias && !vector; /* [rows] or [rows, experts] */
    o->t.dim[0] = rows_are_items ? o->n_row : k;
    o->t.dim[1] = rows_are_items ? n_expert : o->n_row;
    o->t.dim[2] = rows_are_items || vector ? 1 : n_expert;
    o->t.n_row = o->t.dim[1] * o->t.dim[2];
    o->t.n_dims = o->t.dim[2] > 1 ? 3 : o->t.dim[1] > 1 || s->dim[2] != HY_D_NONE ? 2 : 1;
    if (s->dim[2] != HY_D_NONE && !rows_are_items) o->t.n_dims = 3;
    return HY_OK;
}

static const hy_tensor_spec *spec_of(const hy_family *fam, hy_role role)
{
    for (uint32_t i = 0; i < fam->n_tensor; i++)
        if (fam->tensors[i].role == role) return &fam->tensors[i];
    return NULL;
}

/* The roles of a fused tensor in its order; put when the first comes. */
static hy_status put_fused(hy_to_gguf *c, const hy_name *fused, uint32_t i_layer, hy_err *err)
{
    const hy_family_io *io = c->to->io;
    hy_out_part part[3];
    uint32_t n = 0;
    bool bias = false;
    for (uint32_t i = 0; i < io->n_gguf && n < HY_COUNT(part); i++) {
        if (strcmp(io->gguf[i].name, fused->name) != 0) continue;
        const hy_tensor_spec *s = spec_of(c->m->family, io->gguf[i].role);
        if (!s) return hy_fail(err, HY_E_INTERNAL, "%s: %s has no such part", fused->name, c->m->family->name);
        HY_TRY(find_part(c, s, i_layer, &part[n]));
        if (!part[n].src.tensor)
            return hy_fail(err, HY_E_FORMAT, "%s of layer %u is missing", hy_role_name(s->role), i_layer);
        bias = part[n].src.bias != NULL;
        if (n && bias != (part[0].src.bias != NULL))
            return hy_fail(err, HY_E_UNSUPPORTED, "layer %u: only some of %s have a bias", i_layer, fused->name);
        n++;
    }
    const hy_tensor_spec *s = spec_of(c->m->family, fused->role);
    HY_TRY(put(c, part, n, s, fused->name, i_layer, false, err));
    return bias ? put(c, part, n, s, fused->name, i_layer, true, err) : HY_OK;
}

static bool is_tied(const hy_to_gguf *c)
{
    const json_t *text = json_object_get(c->file->config, "text_config");
    return json_is_true(json_object_get(c->file->config, "tie_word_embeddings")) ||
           json_is_true(json_object_get(text, "tie_word_embeddings"));
}

/* Experts belong to layers with a router, the plain feed-forward to the others. */
static bool belongs(const hy_to_gguf *c, hy_role role, uint32_t i_layer)
{
    bool moe = c->m->hp.layer[i_layer].moe;
    switch (role) {
    case HY_W_ROUTER: case HY_W_E_GATE: case HY_W_E_UP: case HY_W_E_DOWN:
    case HY_W_S_ROUTER: case HY_W_S_GATE: case HY_W_S_UP: case HY_W_S_DOWN:
        return moe || !hy_family_has(c->m->family, HY_W_GATE);
    case HY_W_GATE: case HY_W_UP: case HY_W_DOWN:
        return !moe;
    default:
        return true;
    }
}

static hy_status list_role(hy_to_gguf *c, const hy_tensor_spec *s, uint32_t i_layer, hy_err *err)
{
    if (!belongs(c, s->role, i_layer)) return HY_OK;
    if (s->role == HY_W_OUTPUT && s->need == HY_OPTIONAL && is_tied(c)) return HY_OK;
    hy_out_part part;
    HY_TRY(find_part(c, s, i_layer, &part));
    /* what stands together in the folder stays together, where GGUF has a name for it */
    const hy_name *fused = part.src.tensor && part.src.how->pick != HY_PICK_ALL ? fused_name(c, s->role) : NULL;
    if (fused) return fused->pick == HY_PICK_Q || fused->pick == HY_PICK_FIRST ? put_fused(c, fused, i_layer, err) : HY_OK;
    if (!part.src.tensor && s->need == HY_OPTIONAL) return HY_OK;
    char name[HY_NAME_MAX];
    hy_source_name(c->file, c->m->family, c->prefix, s->role, i_layer, name);
    if (!part.src.tensor) return hy_fail(err, HY_E_FORMAT, "tensor %s is missing", name);
    HY_TRY(put(c, &part, 1, s, hy_role_name(s->role), i_layer, false, err));
    if (s->bias && !part.src.bias) return hy_fail(err, HY_E_FORMAT, "tensor %s: its bias is missing", name);
    return part.src.bias ? put(c, &part, 1, s, hy_role_name(s->role), i_layer, true, err) : HY_OK;
}

static hy_status list(hy_to_gguf *c, hy_err *err)
{
    const hy_family *fam = c->m->family;
    for (uint32_t t = 0; t < fam->n_tensor; t++)
        if (fam->tensors[t].role < HY_W_FIRST_LAYER_ROLE) HY_TRY(list_role(c, &fam->tensors[t], 0, err));
    for (uint32_t i = 0; i < c->m->hp.n_layer; i++)
        for (uint32_t t = 0; t < fam->n_tensor; t++)
            if (fam->tensors[t].role >= HY_W_FIRST_LAYER_ROLE) HY_TRY(list_role(c, &fam->tensors[t], i, err));
    return hy_to_gguf_ropes(c, err);
}

/* ---- rows ---------------------------------------------------------------------------------------- */

static float item(const hy_tensor *t, uint64_t i)
{
    const hy_qtraits *q = hy_quant(t->qtype);
    float x;
    q->unpack(t->data + i * q->block_bytes, &x, 1);
    return x;
}

/* Row of the role that is row r of GGUF's: pairs (2i, 2i + 1) there are halves (i, i + n/2) here, or
 * the other way round. */
static uint64_t turn(const hy_to_gguf *c, const hy_out_part *p, uint64_t r)
{
    const hy_hparams *hp = &c->m->hp;
    uint64_t d = hp->d_k, n = hp->rope[0].n_rot, i = r % d;
    if (!p->turn || i >= n) return r;
    if (c->to->io->gguf_interleaved) return r - i + i / 2 + (i % 2) * (n / 2);
    return r - i + (i < n / 2 ? 2 * i : 2 * (i - n / 2) + 1);
}

/* The part that holds row *r; *r becomes the part's own. */
static const hy_out_part *part_of(const hy_out *o, uint64_t *r)
{
    const hy_out_part *p = o->part;
    while (*r >= p->n_row) *r -= p++->n_row;
    return p;
}

static const hy_tensor *tensor_of(const hy_to_gguf *c, const hy_out *o, const hy_out_part *p, uint64_t i)
{
    if (!p->src.split) return o->bias ? p->src.bias : p->src.tensor;
    return hy_source_part(c->file, c->prefix, &p->src, o->i_layer, (uint32_t)i, o->bias);
}

static void vector_row(const hy_to_gguf *c, const hy_out *o, uint64_t r, float *dst)
{
    const hy_out_part *p = o->part;
    const hy_tensor *t = tensor_of(c, o, p, r);
    uint64_t k = o->t.dim[0], first = p->src.split ? 0 : r * k;
    float plus = !o->bias && p->src.how->flags & HY_PLUS_ONE ? 1 : 0;
    for (uint64_t i = 0; i < k; i++) dst[i] = item(t, first + turn(c, p, i)) + plus;
}

static void bias_row(const hy_to_gguf *c, const hy_out *o, uint64_t e, float *dst)
{
    for (uint64_t i = 0; i < o->n_row; i++) {
        uint64_t r = i;
        const hy_out_part *p = part_of(o, &r);
        uint64_t row = hy_pick_row(p->src.how->pick, &c->m->hp, o->i_layer, p->n_row, turn(c, p, r));
        dst[i] = item(tensor_of(c, o, p, e), (p->src.split ? 0 : e * p->total) + row);
    }
}

void hy_to_gguf_row(const hy_to_gguf *c, uint32_t i_out, uint64_t r, float *dst)
{
    const hy_out *o = &c->out[i_out];
    uint64_t k = o->t.dim[0];
    if (o->values) {
        memcpy(dst, o->values, k * sizeof *dst);
        return;
    }
    if (o->vector || o->bias) {
        (o->vector ? vector_row : bias_row)(c, o, r, dst);
        return;
    }
    uint64_t e = r / o->n_row, local = r % o->n_row;
    const hy_out_part *p = part_of(o, &local);
    const hy_tensor *t = tensor_of(c, o, p, e);
    const hy_qtraits *q = hy_quant(t->qtype);
    uint64_t row = hy_pick_row(p->src.how->pick, &c->m->hp, o->i_layer, p->n_row, turn(c, p, local));
    uint64_t base = p->src.split ? 0 : e * p->total * k;
    if (!(p->src.how->flags & HY_TRANSPOSED)) {
        q->unpack(t->data + (base + row * k) * q->block_bytes, dst, k);
        return;
    }
    for (uint64_t i = 0; i < k; i++) dst[i] = item(t, base + i * p->total + row);
}

/* ---- public -------------------------------------------------------------------------------------- */

hy_status hy_to_gguf_open(hy_to_gguf **out, const hy_file *f, hy_err *err)
{
    *out = NULL;
    hy_to_gguf *c = HY_NEW(hy_to_gguf);
    if (!c) return hy_fail_memory(err, "conversion", sizeof *c);
    c->file = f;
    c->arena = hy_arena_new(16 * HY_KIB);
    hy_status s = c->arena ? hy_model_describe(&c->m, f, err) : hy_fail_memory(err, "conversion", 16 * HY_KIB);
    if (s == HY_OK) s = find_target(c, err);
    if (s == HY_OK) {
        hy_source_prefix(f, c->m->family, c->prefix);
        s = list(c, err);
    }
    if (s != HY_OK) {
        hy_to_gguf_close(c);
        return s;
    }
    *out = c;
    return HY_OK;
}

void hy_to_gguf_close(hy_to_gguf *c)
{
    if (!c) return;
    hy_model_free(c->m);
    hy_arena_free(c->arena);
    hy_free(c->out);
    hy_free(c);
}

const hy_model *hy_to_gguf_model(const hy_to_gguf *c)
{
    return c->m;
}

uint32_t hy_to_gguf_n(const hy_to_gguf *c)
{
    return c->n;
}

const hy_out_tensor *hy_to_gguf_at(const hy_to_gguf *c, uint32_t i)
{
    return &c->out[i].t;
}
