/* SHA-256 (FIPS 180-4), for downloads. Private to engine/. */
#ifndef HY_ENGINE_SHA256_H
#define HY_ENGINE_SHA256_H

#include "base/base.h"

typedef struct hy_sha256 {
    uint32_t h[8];
    uint64_t n;                /* bytes so far */
    uint8_t block[64];
} hy_sha256;

void hy_sha256_init(hy_sha256 *s);
void hy_sha256_put(hy_sha256 *s, const void *data, size_t n);
/* 64 lower-case hex digits and a NUL. s must be initialised again before more is put. */
void hy_sha256_hex(hy_sha256 *s, char out[65]);

#endif
