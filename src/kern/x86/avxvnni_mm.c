/* kern/x86: matmul with AVX-VNNI, in the encoding of processors without AVX-512. */
#include <immintrin.h>
#define v_dpbusd _mm256_dpbusd_avx_epi32
#include "kern/x86/mm_vnni256.h"

void hy_mm_fill_avxvnni(hy_kernels *k, uint64_t cpu)
{
    fill_mm(k);
}
