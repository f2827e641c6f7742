/* Pages compressed and back, for swap.c and file.c. */
#ifndef HY_KV_CODER_H
#define HY_KV_CODER_H

#include "kv/kv.h"

typedef struct hy_kv_coder {
    void *c, *d;               /* zstd's contexts */
    uint8_t *buf;              /* holds one compressed page */
    size_t buf_bytes;
    uint8_t *page;             /* holds one page in one piece, hy_kv_gather */
} hy_kv_coder;

hy_status hy_kv_coder_open(hy_kv_coder *k, const hy_kv *kv, hy_err *err);
void hy_kv_coder_close(hy_kv_coder *k);
/* Compressed form of n bytes: *out is page itself (and n returned) where it would not be shorter. */
size_t hy_kv_pack(hy_kv_coder *k, const uint8_t *page, size_t n, const uint8_t **out);
/* False when the n_in bytes are not n bytes compressed; n_in == n: a plain copy. */
bool hy_kv_unpack(hy_kv_coder *k, const uint8_t *in, size_t n_in, uint8_t *page, size_t n);

/* The whole of buf, in spite of signals and short counts; false with errno (0: end of file). */
bool hy_kv_write_at(int fd, const void *buf, size_t n, uint64_t at);
bool hy_kv_read_at(int fd, void *buf, size_t n, uint64_t at);

#endif
