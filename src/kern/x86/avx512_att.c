/* AVX-512: attention. */
#include "kern/x86/v16_avx512.h"
/* the body */
#include "kern/v16_att.h"
