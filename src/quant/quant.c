/* The table of formats, and finding a row in it. */
#include "quant/format.h"
#include <ctype.h>

const int8_t hy_iq4nl_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113};
const int8_t hy_mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

const hy_qtraits *hy_quant(hy_qtype t)
{
    static const hy_qtraits *const table[HY_Q_COUNT] = {
#define X(id, name, ggml, block, bytes) &hy_quant_traits_##id,
        HY_QUANT_LIST(X)
#undef X
    };
    HY_ASSERT((unsigned)t < HY_Q_COUNT);
    return table[t];
}

bool hy_quant_from_ggml(uint32_t ggml_type, hy_qtype *out)
{
    for (int t = 0; t < HY_Q_COUNT; t++)
        if (hy_quant((hy_qtype)t)->ggml_type == ggml_type) {
            *out = (hy_qtype)t;
            return true;
        }
    return false;
}

static bool same_name(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        int ca = *a == '-' ? '_' : tolower((unsigned char)*a);
        int cb = *b == '-' ? '_' : tolower((unsigned char)*b);
        if (ca != cb) return false;
    }
    return *a == *b;
}

bool hy_quant_from_name(const char *name, hy_qtype *out)
{
    for (int t = 0; t < HY_Q_COUNT; t++)
        if (same_name(hy_quant((hy_qtype)t)->name, name)) {
            *out = (hy_qtype)t;
            return true;
        }
    return false;
}

/* Numbers 4, 5, 31..33, 36..38 are gone from the format. */
const char *hy_quant_ggml_name(uint32_t ggml_type)
{
    static const char *const names[] = {
        [0] = "F32",       [1] = "F16",      [2] = "Q4_0",    [3] = "Q4_1",     [6] = "Q5_0",
        [7] = "Q5_1",      [8] = "Q8_0",     [9] = "Q8_1",    [10] = "Q2_K",    [11] = "Q3_K",
        [12] = "Q4_K",     [13] = "Q5_K",    [14] = "Q6_K",   [15] = "Q8_K",    [16] = "IQ2_XXS",
        [17] = "IQ2_XS",   [18] = "IQ3_XXS", [19] = "IQ1_S",  [20] = "IQ4_NL",  [21] = "IQ3_S",
        [22] = "IQ2_S",    [23] = "IQ4_XS",  [24] = "I8",     [25] = "I16",     [26] = "I32",
        [27] = "I64",      [28] = "F64",     [29] = "IQ1_M",  [30] = "BF16",    [34] = "TQ1_0",
        [35] = "TQ2_0",    [39] = "MXFP4",   [40] = "NVFP4"};
    return ggml_type < HY_COUNT(names) ? names[ggml_type] : NULL;
}

bool hy_quant_row_bytes(hy_qtype t, uint64_t n, uint64_t *out)
{
    const hy_qtraits *q = hy_quant(t);
    return n % q->block == 0 && hy_mul_u64(n / q->block, q->block_bytes, out);
}
