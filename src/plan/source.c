/* Where a role's rows are in the file: names and picks, by the family's tables. */
#include "plan/load.h"
#include <stdio.h>

/* name with its %u replaced: the first by `a`, the second by `b`. False when it does not fit. */
static bool expand(const char *pattern, uint32_t a, uint32_t b, char *out, size_t cap)
{
    size_t n = 0;
    uint32_t arg = a;
    while (*pattern) {
        if (pattern[0] == '%' && pattern[1] == 'u') {
            int w = snprintf(out + n, cap - n, "%u", arg);
            if (w < 0 || (size_t)w >= cap - n) return false;
            n += (size_t)w;
            arg = b;
            pattern += 2;
            continue;
        }
        if (n + 1 >= cap) return false;
        out[n++] = *pattern++;
    }
    out[n] = 0;
    return true;
}

static bool has_second_index(const char *pattern)
{
    const char *first = strstr(pattern, "%u");
    return first && strstr(first + 2, "%u");
}

/* The tensor of one naming row; suffix by its flags. */
static const hy_tensor *look(const hy_file *f, const char *prefix, const hy_name *how,
                             uint32_t i_layer, uint32_t i, bool bias)
{
    char name[HY_NAME_MAX], full[2 * HY_NAME_MAX];
    const char *pattern = how->name;
    if (*pattern == '/') {
        prefix = "";
        pattern++;
    }
    if (!expand(pattern, i_layer, i, name, sizeof name)) return NULL;
    const char *suffix = how->flags & HY_BARE ? (bias ? "_bias" : "") : bias ? ".bias" : ".weight";
    snprintf(full, sizeof full, "%s%s%s", prefix, name, suffix);
    return hy_file_tensor(f, full);
}

static bool try_row(const hy_file *f, const char *prefix, const hy_name *how, uint32_t i_layer,
                    hy_source *out)
{
    const hy_tensor *t = look(f, prefix, how, i_layer, 0, false);
    if (!t) return false;
    out->how = how;
    out->tensor = t;
    out->bias = look(f, prefix, how, i_layer, 0, true);
    out->split = has_second_index(how->name);
    return true;
}

/* Rows of GGUF's own names: what hy_role_name says, whole. */
static const hy_name canonical[] = {{HY_W_NONE, "", HY_PICK_ALL, 0},
#define X(id, name) {HY_W_##id, name, HY_PICK_ALL, 0},
                                    HY_ROLE_LIST(X)
#undef X
};

static bool try_table(const hy_file *f, const char *prefix, const hy_name *rows, uint32_t n,
                      hy_role role, uint32_t i_layer, hy_source *out, bool *named)
{
    for (uint32_t i = 0; i < n; i++) {
        if (rows[i].role != role) continue;
        *named = true;
        if (try_row(f, prefix, &rows[i], i_layer, out)) return true;
    }
    return false;
}

void hy_source_find(const hy_file *f, const hy_family *fam, const char *prefix, hy_role role,
                    uint32_t i_layer, hy_source *out)
{
    const hy_family_io *io = fam->io;
    bool named = false;
    *out = (hy_source){0};
    if (f->kind == HY_FILE_GGUF) {
        if (try_table(f, "", io->gguf, io->n_gguf, role, i_layer, out, &named)) return;
        try_row(f, "", &canonical[role], i_layer, out);
        return;
    }
    if (try_table(f, prefix, io->hf, io->n_hf, role, i_layer, out, &named) || named) return;
    try_table(f, prefix, io->hf_base, io->n_hf_base, role, i_layer, out, &named);
}

const hy_tensor *hy_source_part(const hy_file *f, const char *prefix, const hy_source *s,
                                uint32_t i_layer, uint32_t i, bool bias)
{
    return look(f, prefix, s->how, i_layer, i, bias);
}

const char *hy_source_prefix(const hy_file *f, const hy_family *fam, char out[HY_NAME_MAX])
{
    out[0] = 0;
    const char *list = f->kind == HY_FILE_GGUF ? NULL : fam->io->hf_prefix;
    while (list) {
        size_t n = strcspn(list, ",");
        snprintf(out, HY_NAME_MAX, "%.*s", (int)n, list);
        hy_source s;
        hy_source_find(f, fam, out, HY_W_TOK_EMBD, 0, &s);
        if (s.tensor || !list[n]) return out;
        list += n + 1;
    }
    return out;
}

void hy_source_name(const hy_file *f, const hy_family *fam, const char *prefix, hy_role role,
                    uint32_t i_layer, char out[HY_NAME_MAX])
{
    const hy_family_io *io = fam->io;
    const hy_name *how = &canonical[role];
    if (f->kind != HY_FILE_GGUF) {
        for (uint32_t i = io->n_hf_base; i-- > 0;)
            if (io->hf_base[i].role == role) how = &io->hf_base[i];
        for (uint32_t i = io->n_hf; i-- > 0;)
            if (io->hf[i].role == role) how = &io->hf[i];
    }
    const char *pattern = how->name;
    if (*pattern == '/') {
        prefix = "";
        pattern++;
    }
    char name[HY_NAME_MAX];
    if (!expand(pattern, i_layer, 0, name, sizeof name)) name[0] = 0;
    size_t n = strlen(prefix), k = strlen(name);
    const char *suffix = how->flags & HY_BARE ? "" : ".weight";
    if (n + k + strlen(suffix) + 1 > HY_NAME_MAX) n = k = 0;
    memcpy(out, prefix, n);
    memcpy(out + n, name, k);
    strcpy(out + n + k, suffix);
}

uint64_t hy_pick_row(hy_pick pick, const hy_hparams *hp, uint32_t i_layer, uint64_t n_row,
                     uint64_t r)
{
    uint64_t n_q = hy_dim_size(hp, i_layer, HY_D_Q), n_k = hy_dim_size(hp, i_layer, HY_D_K);
    uint64_t d = hp->d_k, head = r / d, group = n_k ? n_q / n_k : 1;
    switch (pick) {
    case HY_PICK_ALL:
    case HY_PICK_Q:
    case HY_PICK_FIRST:
        return r;
    case HY_PICK_K:
        return n_q + r;
    case HY_PICK_V:
        return n_q + n_k + r;
    case HY_PICK_GROUP_Q:
        return (head / group * (group + 2) + head % group) * d + r % d;
    case HY_PICK_GROUP_K:
        return (head * (group + 2) + group) * d + r % d;
    case HY_PICK_GROUP_V:
        return (head * (group + 2) + group + 1) * d + r % d;
    case HY_PICK_SECOND:
        return n_row + r;
    case HY_PICK_EVEN:
        return 2 * r;
    case HY_PICK_ODD:
        return 2 * r + 1;
    }
    return r;
}

uint64_t hy_pick_total(hy_pick pick, const hy_hparams *hp, uint32_t i_layer, uint64_t n_row)
{
    switch (pick) {
    case HY_PICK_ALL:
        return n_row;
    case HY_PICK_Q:
    case HY_PICK_K:
    case HY_PICK_V:
    case HY_PICK_GROUP_Q:
    case HY_PICK_GROUP_K:
    case HY_PICK_GROUP_V:
        return hy_dim_size(hp, i_layer, HY_D_Q) + hy_dim_size(hp, i_layer, HY_D_K) +
               hy_dim_size(hp, i_layer, HY_D_V);
    case HY_PICK_FIRST:
    case HY_PICK_SECOND:
    case HY_PICK_EVEN:
    case HY_PICK_ODD:
        return 2 * n_row;
    }
    return n_row;
}
