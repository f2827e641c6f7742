/* AVX2: everything but matmul and attention. */
#include "kern/x86/v16_avx2.h"
/* the body */
#include "kern/v16_vec.h"
