/* Any other processor: nothing beyond plain C. */
#include "cpu/cpu_room.h"

#if !defined(__x86_64__) && !defined(__aarch64__)
uint64_t hy_cpu_features_read(void)
{
    return 0;
}

bool hy_cpu_brand(char *out, size_t n)
{
    return false;
}
#endif
