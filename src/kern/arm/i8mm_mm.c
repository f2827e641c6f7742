/* kern/arm: matmul on machines with I8MM. SMMLA multiplies 2 x 8 by 8 x 2 and so wants eight
 * consecutive k of a row side by side; panels hold four. Until a layout for it has been measured on
 * hardware these machines keep the entries of SDOT, which give the same bits. */
#include "kern/fill.h"

void hy_mm_fill_i8mm(hy_kernels *k, uint64_t cpu)
{
    hy_mm_fill_dotprod(k, cpu);
}
