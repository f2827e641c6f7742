/* AVX2: attention. */
#include "kern/x86/v16_avx2.h"
/* the body */
#include "kern/v16_att.h"
