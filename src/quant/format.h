/* What the format files share; private to quant/. */
#ifndef HY_QUANT_FORMAT_H
#define HY_QUANT_FORMAT_H

#include "quant/quant.h"

/* One row for each format, defined in its own file. */
#define X(id, name, ggml, block, bytes) extern const hy_qtraits hy_quant_traits_##id;
HY_QUANT_LIST(X)
#undef X

/* Blocks are read byte by byte: mapped files promise no alignment. */
HY_INLINE uint16_t load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}
HY_INLINE uint32_t load_u32(const uint8_t *p)
{
    return (uint32_t)load_u16(p) | (uint32_t)load_u16(p + 2) << 16;
}
HY_INLINE float load_f16(const uint8_t *p)
{
    return hy_f16_f32(load_u16(p));
}
HY_INLINE void store_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v, p[1] = (uint8_t)(v >> 8);
}
HY_INLINE void store_u32(uint8_t *p, uint32_t v)
{
    store_u16(p, (uint16_t)v), store_u16(p + 2, (uint16_t)(v >> 16));
}

/* Sum of w[i] * x[i] in double, block after block. */
typedef void hy_unpack_fn(const void *src, float *dst, size_t n);
HY_INLINE double dot_by_blocks(hy_unpack_fn *unpack, size_t block, size_t block_bytes,
                               const void *w, const float *x, size_t n)
{
    float y[256];
    double sum = 0;
    for (size_t i = 0; i < n; i += block) {
        unpack((const uint8_t *)w + i / block * block_bytes, y, block);
        for (size_t k = 0; k < block; k++) sum += (double)y[k] * x[i + k];
    }
    return sum;
}

/* Closes a format's file, after its unpack, pack and the enums block_n and block_bytes. */
#define HY_QUANT_TRAITS_OF(id, text, number, floats)                                               \
    static double dot(const void *w, const float *x, size_t n)                                     \
    {                                                                                              \
        return dot_by_blocks(unpack, block_n, block_bytes, w, x, n);                               \
    }                                                                                              \
    const hy_qtraits hy_quant_traits_##id = {                                                      \
        .name = text, .ggml_type = number, .block = block_n, .block_bytes = block_bytes,           \
        .is_float = floats, .unpack = unpack, .pack = pack, .dot = dot}
#define HY_QUANT_TRAITS(id, text, number) HY_QUANT_TRAITS_OF(id, text, number, false)

#endif
