/* aarch64: the kernel's hardware capability words (Documentation/arch/arm64/elf_hwcaps). */
#include "cpu/cpu_room.h"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

uint64_t hy_cpu_features_read(void)
{
    unsigned long h = getauxval(AT_HWCAP), h2 = getauxval(AT_HWCAP2);
    uint64_t f = 0;
    if (h & HWCAP_ASIMD) f |= HY_CPU_NEON;
    if (h & HWCAP_ASIMDDP) f |= HY_CPU_DOTPROD;
    if (h & HWCAP_SVE) f |= HY_CPU_SVE;
    if (h2 & HWCAP2_I8MM) f |= HY_CPU_I8MM;
    if (h2 & HWCAP2_BF16) f |= HY_CPU_BF16;
    return f;
}

bool hy_cpu_brand(char *out, size_t n)
{
    return false;
}
#endif
