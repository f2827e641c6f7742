/* NEON: everything but matmul and attention. */
#include "kern/arm/v16_neon.h"
/* the body */
#include "kern/v16_vec.h"

/* Their instructions help matmul alone. */
void hy_vec_fill_dotprod(hy_kernels *k, uint64_t cpu)
{
}

void hy_vec_fill_i8mm(hy_kernels *k, uint64_t cpu)
{
}
