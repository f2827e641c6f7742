/* kern/x86: the matmul of avxvnni_mm.c in the encoding of AVX-512VL + VNNI, for processors that have it in that form. */
#include <immintrin.h>
#define v_dpbusd _mm256_dpbusd_epi32
#include "kern/x86/mm_vnni256.h"

void hy_mm_fill_evexvnni(hy_kernels *k, uint64_t cpu)
{
    fill_mm(k);
}
