/* kern/x86: matmul with 256-bit VNNI: the panels of avx2, the arithmetic of avx512. The includer defines v_dpbusd, so that
 * one source is compiled in both encodings of the instruction: VEX (AVX-VNNI, processors without AVX-512) and EVEX
 * (AVX-512VL + VNNI), and what the second does on hardware speaks for the first. */
#include "kern/x86/mm_avx2.h"

#define MM_TILE 4
#define MM_FEW 8
#define MM_TILE_F 4
#define MM_NP 3
#define MM_PAIR 2
#define MM_PAIR_FROM 48

HY_INLINE VI v_fix_signed(hy_qtype t, VI a) { return _mm256_xor_si256(a, v_set8(-128)); }
#include "kern/x86/mm_dpbusd.h"
#include "kern/mm_body.h"
