/* Importance of columns from an imatrix file: "<tensor>.in_sum2" [k, experts] over "<tensor>.counts". */
#include "quantize.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const hy_tensor *find(const hy_file *f, const char *tensor, const char *what)
{
    char name[256];
    snprintf(name, sizeof name, "%.200s.%s", tensor, what);
    return hy_file_tensor(f, name);
}

/* Files measured on split matrices serve fused ones, which have the same inputs, and the token embedding
 * that is the output as well. */
static const hy_tensor *find_either(const hy_file *f, const char *tensor, const char *what)
{
    const hy_tensor *t = find(f, tensor, what);
    const char *fused = strstr(tensor, ".attn_qkv.");
    if (t) return t;
    if (strcmp(tensor, "token_embd.weight") == 0) return find(f, "output.weight", what);
    if (!fused) return NULL;
    char name[256];
    snprintf(name, sizeof name, "%.*s.attn_q.weight", (int)HY_MIN(fused - tensor, 150), tensor);
    return find(f, name, what);
}

static bool is_floats(const hy_tensor *t)
{
    return t && t->known && t->qtype == HY_Q_F32 && t->data;
}

static hy_status take(hy_q_item *it, const hy_tensor *sum, const hy_tensor *count, hy_err *err)
{
    uint64_t k = it->dim[0], n = sum->dim[1];
    if (!is_floats(sum) || !is_floats(count))
        return hy_fail(err, HY_E_FORMAT, "%s: importance is not f32", it->name);
    uint64_t n_count = count->dim[0] * count->dim[1];
    if (sum->dim[0] != k || (n != 1 && n != it->dim[2]) || n_count != n)
        return hy_fail(err, HY_E_FORMAT, "%s: importance is [%llu, %llu] with %llu counts: must be [%llu, %llu]",
                       it->name, (unsigned long long)sum->dim[0], (unsigned long long)n, (unsigned long long)n_count,
                       (unsigned long long)k, (unsigned long long)it->dim[2]);
    it->importance = hy_alloc_array(k * n, sizeof(float));
    if (!it->importance) return hy_fail_memory(err, "importance", k * n * sizeof(float));
    it->n_importance = (uint32_t)n;
    for (uint64_t e = 0; e < n; e++) {
        float c, x;
        memcpy(&c, count->data + e * sizeof c, sizeof c);
        for (uint64_t i = 0; i < k; i++) {
            memcpy(&x, sum->data + (e * k + i) * sizeof x, sizeof x);
            /* an expert that was never chosen says nothing: all columns alike */
            it->importance[e * k + i] = c > 0 && isfinite(x) && x >= 0 ? x / c : 1;
        }
    }
    return HY_OK;
}

static hy_status take_all(hy_q_item *items, uint32_t n, const hy_file *f, hy_err *err)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (hy_quant(items[i].want)->is_float) continue;
        const hy_tensor *sum = find_either(f, items[i].name, "in_sum2"), *count = find_either(f, items[i].name, "counts");
        if (!sum || !count) continue;
        HY_TRY(take(&items[i], sum, count, err));
        used++;
    }
    hy_log(HY_LOG_INFO, "quantize_importance", "tensors=%u", used);
    if (used) return HY_OK;
    return hy_fail(err, HY_E_ARG, "nothing in it belongs to this model's quantised tensors");
}

hy_status hy_q_importance(hy_q_item *items, uint32_t n, const char *path, hy_err *err)
{
    hy_file *f;
    HY_TRY(hy_file_open(&f, path, err));
    hy_status s = take_all(items, n, f, err);
    if (s != HY_OK) s = hy_err_prefix(err, s, "importance %.200s", path);
    hy_file_close(f);
    return s;
}
