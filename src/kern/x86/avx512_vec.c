/* AVX-512: everything but matmul and attention. */
#include "kern/x86/v16_avx512.h"
/* the body */
#include "kern/v16_vec.h"
