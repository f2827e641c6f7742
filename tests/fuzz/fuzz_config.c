/* room: plan file */
/* The bytes as a folder's config.json, over a safetensors file without tensors: what family and shape. */
#include "plan/plan.h"
#include <jansson.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static volatile uint64_t sink; /* keeps the compiler from dropping reads */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const uint8_t nothing[] = { 2, 0, 0, 0, 0, 0, 0, 0, '{', '}' };
    json_t *config = json_loadb((const char *)data, n, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(config)) { /* hy_file_open takes objects only */
        json_decref(config);
        return 0;
    }
    hy_file *f;
    hy_err err = { HY_OK, "" };
    if (hy_file_open_memory(&f, nothing, sizeof nothing, HY_FILE_SAFETENSORS, &err) != HY_OK) __builtin_trap();
    json_decref(f->config);
    f->config = config; /* the file's from now on */
    hy_model *m = NULL;
    hy_status s = hy_model_describe(&m, f, &err);
    if (s == HY_E_INTERNAL || (s != HY_OK && (m || !err.msg[0]))) __builtin_trap();
    if (s == HY_OK) {
        const hy_hparams *hp = &m->hp;
        /* what the rest builds upon */
        if (!hp->n_layer || !hp->n_embd || !hp->n_head || !hp->n_kv_head || hp->n_head % hp->n_kv_head || !hp->d_k ||
            !hp->n_vocab || !m->family)
            __builtin_trap();
        for (uint32_t i = 0; i < hp->n_layer; i++) sink += hp->layer[i].window + (uint64_t)(hp->layer[i].rope + 1);
        hy_model_free(m);
    }
    hy_file_close(f);
    return 0;
}
