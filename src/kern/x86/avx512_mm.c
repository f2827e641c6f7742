/* kern/x86: matmul on AVX-512 with VNNI: 16 rows a vector. */
#include "kern/x86/mm_avx512.h"

#define MM_TILE 8
#define MM_PAIR 2
#ifndef MM_FEW
#define MM_FEW 32
#endif
#define MM_TILE_F 6
#define MM_NP 4

#include "kern/mm_body.h"

void hy_mm_fill_avx512(hy_kernels *k, uint64_t cpu)
{
    fill_mm(k);
}
