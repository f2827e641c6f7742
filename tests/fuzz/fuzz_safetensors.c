/* room: file */
/* Opens the bytes as a safetensors file and reads every tensor. */
#include "file/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static volatile uint64_t sink; /* keeps the compiler from dropping reads */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    hy_file *f;
    hy_err err;
    if (hy_file_open_memory(&f, data, n, HY_FILE_SAFETENSORS, &err) != HY_OK) {
        sink += strlen(err.msg);
        return 0;
    }
    for (uint64_t i = 0; i < f->n_tensor; i++) {
        const hy_tensor *t = &f->tensor[i];
        if (hy_file_tensor(f, t->name) != t) __builtin_trap();
        for (uint64_t k = 0; k < t->bytes; k++) sink += t->data[k];
        uint64_t n_weight = 1, row_bytes;
        for (int k = 0; k < HY_DIMS_MAX; k++) n_weight *= t->dim[k];
        /* known promises whole rows of the type */
        if (t->known &&
            (!hy_quant_row_bytes(t->qtype, n_weight, &row_bytes) || row_bytes != t->bytes))
            __builtin_trap();
    }
    hy_file_close(f);
    return 0;
}
