/* Converting weights: GGUF or safetensors folder -> GGUF, tensor by tensor, rows shared over the team. */
#include "quantize.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES (8 * HY_MIB) /* of F32 rows between two writes */

typedef struct quantizer {
    const hy_quantize_params *p;
    const hy_q_mix *mix;
    hy_file *file;
    hy_to_gguf *folder;        /* NULL: a GGUF */
    hy_team *team;
    hy_gguf_writer *w;
    hy_q_item *item;
    uint32_t n_item;
    uint64_t done, all;        /* bytes written of tensors */
    float *row;                /* [workers][longest row] */
    uint64_t k_max;
    uint8_t *out;
    uint64_t out_bytes;
} quantizer;

/* ---- listing ------------------------------------------------------------------------------------- */

static hy_status list_gguf(quantizer *q, hy_err *err)
{
    for (uint64_t i = 0; i < q->file->n_tensor; i++) {
        const hy_tensor *t = &q->file->tensor[i];
        const char *type = hy_quant_ggml_name(t->ggml_type);
        if (!t->known)
            return hy_fail(err, HY_E_UNSUPPORTED, "tensor %s has type %s (%u), which is not supported", t->name,
                           type ? type : "unknown", t->ggml_type);
        hy_q_item *it = &q->item[q->n_item++];
        *it = (hy_q_item){ .name = t->name, .n_dims = t->n_dims, .src = t, .have = t->qtype, .n_row = 1 };
        for (uint32_t d = 0; d < HY_DIMS_MAX; d++) it->dim[d] = d < t->n_dims ? t->dim[d] : 1;
    }
    return HY_OK;
}

static void list_folder(quantizer *q)
{
    for (uint32_t i = 0; i < hy_to_gguf_n(q->folder); i++) {
        const hy_out_tensor *t = hy_to_gguf_at(q->folder, i);
        hy_q_item *it = &q->item[q->n_item++];
        *it = (hy_q_item){ .name = t->name, .n_dims = t->n_dims, .i = i, .have = t->type };
        memcpy(it->dim, t->dim, sizeof it->dim);
    }
}

static uint32_t count_layers(const quantizer *q)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < q->n_item; i++) {
        const char *s = q->item[i].name;
        if (strncmp(s, "blk.", 4) == 0) n = HY_MAX(n, (uint32_t)HY_MIN(strtoul(s + 4, NULL, 10), 65535ul) + 1);
    }
    return n;
}

static hy_status size_item(quantizer *q, hy_q_item *it, hy_err *err)
{
    uint64_t bytes;
    it->n_row = it->dim[1];
    if (!hy_mul_u64(it->n_row, it->dim[2], &it->n_row) || !hy_mul_u64(it->n_row, it->dim[3], &it->n_row) ||
        !hy_quant_row_bytes(it->have, it->dim[0], &it->src_row_bytes) ||
        !hy_quant_row_bytes(it->want, it->dim[0], &it->out_row_bytes) ||
        !hy_mul_u64(it->n_row, it->out_row_bytes, &bytes) || !hy_add_u64(q->all, bytes, &q->all))
        return hy_fail(err, HY_E_FORMAT, "tensor %s: rows of %llu do not work as %s", it->name,
                       (unsigned long long)it->dim[0], hy_quant(it->want)->name);
    q->k_max = HY_MAX(q->k_max, it->dim[0]);
    return HY_OK;
}

static hy_status list(quantizer *q, hy_err *err)
{
    uint64_t n = q->folder ? hy_to_gguf_n(q->folder) : q->file->n_tensor;
    if (n == 0) return hy_fail(err, HY_E_FORMAT, "the file holds a vocabulary and no weights");
    q->item = n < UINT32_MAX ? HY_NEW_ARRAY(hy_q_item, n) : NULL;
    if (!q->item) return hy_fail_memory(err, "tensor list", n * sizeof *q->item);
    if (q->folder) list_folder(q);
    else HY_TRY(list_gguf(q, err));
    bool has_output = false;
    for (uint32_t i = 0; i < q->n_item; i++) has_output |= strcmp(q->item[i].name, "output.weight") == 0;
    uint32_t n_layer = count_layers(q);
    for (uint32_t i = 0; i < q->n_item; i++) {
        HY_TRY(hy_q_choose(q->mix, q->p, n_layer, has_output, &q->item[i], err));
        HY_TRY(size_item(q, &q->item[i], err));
    }
    return q->p->imatrix ? hy_q_importance(q->item, q->n_item, q->p->imatrix, err) : HY_OK;
}

/* ---- header -------------------------------------------------------------------------------------- */

static bool is_replaced(const char *key)
{
    return strncmp(key, "split.", 6) == 0 || strcmp(key, "general.file_type") == 0 ||
           strcmp(key, "general.quantization_version") == 0;
}

static hy_status folder_keys(quantizer *q, hy_err *err)
{
    HY_TRY(hy_to_gguf_keys(q->folder, q->w, err));
    HY_TRY(hy_gguf_put_str(q->w, "general.type", "model", err));
    const char *path = q->file->path ? q->file->path : "";
    size_t n = strlen(path);
    while (n && path[n - 1] == '/') n--;
    size_t from = n;
    while (from && path[from - 1] != '/') from--;
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)(n - from), path + from);
    if (name[0] && strcmp(name, ".") != 0) HY_TRY(hy_gguf_put_str(q->w, "general.name", name, err));
    return hy_q_tokenizer(q->w, q->file, hy_to_gguf_model(q->folder)->hp.n_vocab, err);
}

static hy_status header(quantizer *q, hy_err *err)
{
    if (q->folder) HY_TRY(folder_keys(q, err));
    for (uint64_t i = 0; !q->folder && i < q->file->n_meta; i++)
        if (!is_replaced(q->file->meta[i].key)) HY_TRY(hy_gguf_put_meta(q->w, &q->file->meta[i], err));
    HY_TRY(hy_gguf_put_u32(q->w, "general.file_type", hy_q_mix_file_type(q->mix), err));
    HY_TRY(hy_gguf_put_u32(q->w, "general.quantization_version", 2, err));
    for (uint32_t i = 0; i < q->n_item; i++) {
        const hy_q_item *it = &q->item[i];
        HY_TRY(hy_gguf_declare(q->w, it->name, it->n_dims, it->dim, it->want, err));
    }
    return HY_OK;
}

/* ---- rows ---------------------------------------------------------------------------------------- */

typedef struct chunk {
    const quantizer *q;
    const hy_q_item *it;
    uint64_t first, n;
} chunk;

static void convert_row(const chunk *c, uint64_t r, float *row, uint8_t *dst)
{
    const hy_q_item *it = c->it;
    uint64_t k = it->dim[0];
    if (it->src) hy_quant(it->have)->unpack(it->src->data + r * it->src_row_bytes, row, k);
    else hy_to_gguf_row(c->q->folder, it->i, r, row);
    const float *importance = it->importance;
    if (it->n_importance > 1) importance += r / it->dim[1] * k;
    hy_quant(it->want)->pack(row, dst, k, importance);
}

static void convert_share(void *arg, hy_worker *w)
{
    const chunk *c = arg;
    uint64_t first, last;
    hy_share(c->n, 1, w, &first, &last);
    for (uint64_t i = first; i < last; i++)
        convert_row(c, c->first + i, c->q->row + w->i * c->q->k_max, c->q->out + i * c->it->out_row_bytes);
}

static hy_status advance(quantizer *q, uint64_t bytes, hy_err *err)
{
    q->done += bytes;
    if (q->p->progress && q->p->progress(q->p->progress_ctx, q->done, q->all))
        return hy_fail(err, HY_E_CANCELLED, "cancelled after %llu of %llu bytes", (unsigned long long)q->done,
                       (unsigned long long)q->all);
    return HY_OK;
}

static uint64_t chunk_rows(const hy_q_item *it)
{
    uint64_t widest = HY_MAX(it->dim[0] * sizeof(float), it->out_row_bytes);
    return HY_MAX(1, HY_MIN(it->n_row, CHUNK_BYTES / widest));
}

static hy_status write_item(quantizer *q, const hy_q_item *it, hy_err *err)
{
    uint64_t rows = chunk_rows(it);
    bool copy = it->src && it->have == it->want;
    if (it->src && !it->src->data) return hy_fail(err, HY_E_FORMAT, "tensor %s has no data in the file", it->name);
    for (uint64_t r = 0; r < it->n_row; r += rows) {
        chunk c = { q, it, r, HY_MIN(rows, it->n_row - r) };
        uint64_t bytes = c.n * it->out_row_bytes;
        if (!copy) hy_team_run(q->team, convert_share, &c);
        HY_TRY(hy_gguf_put_data(q->w, copy ? it->src->data + r * it->src_row_bytes : q->out, bytes, err));
        HY_TRY(advance(q, bytes, err));
    }
    if (it->src) hy_file_done_with(q->file, it->src);
    return HY_OK;
}

static hy_status take_memory(quantizer *q, hy_err *err)
{
    hy_topology topo;
    hy_cpu_topology(&topo);
    HY_TRY(hy_team_open(&q->team, q->p->n_threads ? q->p->n_threads : topo.n_thread_default, false, err));
    for (uint32_t i = 0; i < q->n_item; i++)
        q->out_bytes = HY_MAX(q->out_bytes, chunk_rows(&q->item[i]) * q->item[i].out_row_bytes);
    q->row = hy_alloc_array(q->k_max * hy_team_size(q->team), sizeof *q->row);
    q->out = hy_alloc(q->out_bytes);
    if (!q->row || !q->out) return hy_fail_memory(err, "rows", q->out_bytes + q->k_max * sizeof *q->row);
    return HY_OK;
}

static hy_status run(quantizer *q, const char *in, const char *out, hy_err *err)
{
    HY_TRY(hy_q_mix_find(&q->mix, q->p->type ? q->p->type : "", err));
    HY_TRY(hy_file_open(&q->file, in, err));
    if (q->file->kind != HY_FILE_GGUF) HY_TRY(hy_to_gguf_open(&q->folder, q->file, err));
    HY_TRY(list(q, err));
    HY_TRY(take_memory(q, err));
    HY_TRY(hy_gguf_create(&q->w, out, err));
    HY_TRY(header(q, err));
    HY_TRY(advance(q, 0, err));
    for (uint32_t i = 0; i < q->n_item; i++) HY_TRY(write_item(q, &q->item[i], err));
    hy_gguf_writer *w = q->w;
    q->w = NULL;
    return hy_gguf_finish(w, err);
}

hy_status hy_tool_quantize(const char *in, const char *out, const hy_quantize_params *p, hy_err *err)
{
    quantizer q = { .p = p };
    if (p->n_threads > HY_THREADS_MAX)
        return hy_fail(err, HY_E_ARG, "%u threads are more than %u", p->n_threads, HY_THREADS_MAX);
    hy_status s = run(&q, in, out, err);
    hy_gguf_abort(q.w);
    hy_team_close(q.team);
    for (uint32_t i = 0; i < q.n_item; i++) hy_free(q.item[i].importance);
    hy_free(q.item);
    hy_free(q.row);
    hy_free(q.out);
    hy_to_gguf_close(q.folder);
    hy_file_close(q.file);
    return s;
}
