/* quant: weight formats. One file per format: block layout, traits row, scalar pack/unpack.
 * May include base. Block layouts follow ggml's GGUF types (docs/formats.md). */
#ifndef HY_QUANT_H
#define HY_QUANT_H

#include "base/base.h"
#include <string.h>

/* X(enum suffix, name as users write it, ggml type number, weights a block, bytes a block) */
#define HY_QUANT_LIST(X)                                                                           \
    X(F32, "f32", 0, 1, 4)                                                                         \
    X(F16, "f16", 1, 1, 2)                                                                         \
    X(BF16, "bf16", 30, 1, 2)                                                                      \
    X(Q8_0, "q8_0", 8, 32, 34)                                                                     \
    X(Q4_0, "q4_0", 2, 32, 18)                                                                     \
    X(Q4_1, "q4_1", 3, 32, 20)                                                                     \
    X(Q5_0, "q5_0", 6, 32, 22)                                                                     \
    X(Q5_1, "q5_1", 7, 32, 24)                                                                     \
    X(Q2_K, "q2_k", 10, 256, 84)                                                                   \
    X(Q3_K, "q3_k", 11, 256, 110)                                                                  \
    X(Q4_K, "q4_k", 12, 256, 144)                                                                  \
    X(Q5_K, "q5_k", 13, 256, 176)                                                                  \
    X(Q6_K, "q6_k", 14, 256, 210)                                                                  \
    X(IQ4_NL, "iq4_nl", 20, 32, 18)                                                                \
    X(IQ4_XS, "iq4_xs", 23, 256, 136)                                                              \
    X(MXFP4, "mxfp4", 39, 32, 17)

typedef enum hy_qtype {
#define X(id, name, ggml, block, bytes) HY_Q_##id,
    HY_QUANT_LIST(X)
#undef X
    HY_Q_COUNT
} hy_qtype;

typedef struct hy_qtraits {
    const char *name;          /* "q4_k" */
    uint32_t ggml_type;        /* number in GGUF files */
    uint32_t block;            /* weights a block */
    uint32_t block_bytes;
    bool is_float;             /* F32, F16, BF16: activations stay F32 */
    /* n is a multiple of `block`; src/dst need no alignment. Bit for bit as the format defines. */
    void (*unpack)(const void *src, float *dst, size_t n);
    /* Quantise one row. importance: [n] weights of the squared error, or NULL. */
    void (*pack)(const float *src, void *dst, size_t n, const float *importance);
    /* Plain scalar dot with F32 activations, summed in double: a slow reference. */
    double (*dot)(const void *w, const float *x, size_t n);
} hy_qtraits;

const hy_qtraits *hy_quant(hy_qtype t);                    /* t < HY_Q_COUNT */
bool hy_quant_from_ggml(uint32_t ggml_type, hy_qtype *out);/* false: a type we do not read */
bool hy_quant_from_name(const char *name, hy_qtype *out);  /* any case, '-' or '_' */
const char *hy_quant_ggml_name(uint32_t ggml_type);        /* also of types we do not read; or NULL */

/* Bytes of a row of n weights. False when n is no multiple of the block or the size overflows. */
bool hy_quant_row_bytes(hy_qtype t, uint64_t n, uint64_t *out);

/* Shared codebooks: value of a 4-bit code. MXFP4's are doubled (kvalues * 2 are integers), its block
 * scale is therefore halved: see hy_e8m0_half. */
extern const int8_t hy_iq4nl_values[16];
extern const int8_t hy_mxfp4_values[16];

/* ---- numbers of 16 and 8 bits ---------------------------------------------------------------- */

HY_INLINE float hy_bits_f32(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
HY_INLINE uint32_t hy_f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
/* IEEE half to single: exact, subnormals, infinities and NaN included (NaNs become quiet). */
float hy_f16_f32(uint16_t h);
/* Single to half, round to nearest even. */
uint16_t hy_f32_f16(float f);
HY_INLINE float hy_bf16_f32(uint16_t h)
{
    return hy_bits_f32((uint32_t)h << 16);
}
/* Single to bfloat16, round to nearest even; NaN stays NaN. */
HY_INLINE uint16_t hy_f32_bf16(float f)
{
    uint32_t u = hy_f32_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 64);
    return (uint16_t)((u + (0x7fffu + ((u >> 16) & 1))) >> 16);
}
/* MXFP4's block scale 2^(e-127), halved (OCP Microscaling v1.0, 5.1; e = 255 is NaN there). */
HY_INLINE float hy_e8m0_half(uint8_t e)
{
    return hy_bits_f32(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

#endif
