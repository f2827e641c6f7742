/* Names of roles, operators and slots; sizes; finding a family. */
#include "arch/arch.h"
#include <string.h>

const char *hy_role_name(hy_role r)
{
    static const char *const names[] = {
        "none",
#define X(id, name) name,
        HY_ROLE_LIST(X)
#undef X
    };
    return (unsigned)r < HY_COUNT(names) ? names[r] : "unknown";
}

bool hy_role_is_vector(hy_role r)
{
    switch (r) {
    case HY_W_EMBD_NORM: case HY_W_OUT_NORM: case HY_W_ATTN_NORM: case HY_W_ATTN_NORM_2:
    case HY_W_ATTN_POST_NORM: case HY_W_FFN_NORM: case HY_W_FFN_POST_NORM: case HY_W_Q_NORM:
    case HY_W_K_NORM: case HY_W_SINKS: case HY_W_ROPE_FREQS: case HY_W_ROPE_LONG:
    case HY_W_ROPE_SHORT:
        return true;
    default:
        return false;
    }
}

const char *hy_op_name(hy_op op)
{
    static const char *const names[] = {
#define X(id, name) name,
        HY_OP_LIST(X)
#undef X
    };
    return (unsigned)op < HY_COUNT(names) ? names[op] : "unknown";
}

const char *hy_slot_name(hy_slot s)
{
    static const char *const names[] = {
        "none",
#define X(id, dim) #id,
        HY_SLOT_LIST(X)
#undef X
    };
    return (unsigned)s < HY_COUNT(names) ? names[s] : "unknown";
}

uint64_t hy_dim_size(const hy_hparams *hp, uint32_t i_layer, hy_dim d)
{
    uint64_t n_head = hp->n_head, n_kv = hp->n_kv_head, n_ff = hp->n_ff;
    uint32_t n_rot = hp->rope[0].n_rot;
    if (hp->layer && i_layer < hp->n_layer) {
        const hy_layer_params *l = &hp->layer[i_layer];
        n_head = l->n_head;
        n_kv = l->n_kv_head;
        n_ff = l->n_ff;
        if (l->rope >= 0) n_rot = hp->rope[l->rope].n_rot;
    }
    switch (d) {
    case HY_D_EMBD: return hp->n_embd;
    case HY_D_VOCAB: return hp->n_vocab;
    case HY_D_CTX: return hp->n_ctx_train;
    case HY_D_Q: return n_head * hp->d_k;
    case HY_D_K: return n_kv * hp->d_k;
    case HY_D_V: return n_kv * hp->d_v;
    case HY_D_O: return n_head * hp->d_v;
    case HY_D_HEAD_K: return hp->d_k;
    case HY_D_FF: return n_ff;
    case HY_D_EXPERT: return hp->n_expert;
    case HY_D_FF_EXPERT: return hp->n_ff_expert;
    case HY_D_FF_SHARED: return hp->n_ff_shared;
    case HY_D_N_HEAD: return n_head;
    case HY_D_N_KV_HEAD: return n_kv;
    case HY_D_ONE: return 1;
    case HY_D_ROT_HALF: return n_rot / 2;
    case HY_D_NONE: case HY_D_ANY: break;
    }
    return 0;
}

#define X(name) extern const hy_family hy_family_##name;
#include "arch/list.def"
#undef X

static const hy_family *const families[] = {
#define X(name) &hy_family_##name,
#include "arch/list.def"
#undef X
};

const hy_family *hy_family_at(uint32_t i)
{
    return i < HY_COUNT(families) ? families[i] : NULL;
}

/* Whether `name` is one of the comma-separated names. */
static bool listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    while (list && *list) {
        size_t len = strcspn(list, ",");
        if (len == n && memcmp(list, name, n) == 0) return true;
        list += len;
        if (*list == ',') list++;
    }
    return false;
}

static hy_status find(const hy_family **out, const char *name, bool hf, hy_err *err)
{
    for (uint32_t i = 0; i < HY_COUNT(families); i++) {
        if (!listed(hf ? families[i]->hf_type : families[i]->gguf_arch, name)) continue;
        *out = families[i];
        return HY_OK;
    }
    char known[360] = "";
    size_t n = 0;
    for (uint32_t i = 0; i < HY_COUNT(families); i++) {
        const char *names = hf ? families[i]->hf_type : families[i]->gguf_arch;
        size_t len = names ? strlen(names) : 0;
        if (len == 0 || n + len + 3 > sizeof known) continue;
        if (n) known[n++] = ',', known[n++] = ' ';
        memcpy(known + n, names, len + 1);
        n += len;
    }
    return hy_fail(err, HY_E_UNSUPPORTED, "model family not known: %.80s; known: %s", name, known);
}

hy_status hy_family_by_gguf(const hy_family **out, const char *arch, hy_err *err)
{
    return find(out, arch, false, err);
}

hy_status hy_family_by_hf(const hy_family **out, const char *model_type, hy_err *err)
{
    return find(out, model_type, true, err);
}
