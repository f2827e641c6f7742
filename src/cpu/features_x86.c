/* x86-64: CPUID and XGETBV (Intel SDM vol. 2A, CPUID; vol. 1, 13.3: what the system saves). */
#include "cpu/cpu_room.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct leaf {
    unsigned a, b, c, d;
} leaf;

static leaf read_leaf(unsigned i, unsigned sub)
{
    leaf l = {0};
    if (!__get_cpuid_count(i, sub, &l.a, &l.b, &l.c, &l.d)) l = (leaf){0};
    return l;
}

/* XCR0: which registers the system saves at a switch. */
static uint64_t read_xcr0(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool all_bits(uint64_t v, uint64_t bits)
{
    return (v & bits) == bits;
}

#define BIT(n) (1u << (n))

uint64_t hy_cpu_features_read(void)
{
    leaf l1 = read_leaf(1, 0), l7 = read_leaf(7, 0), l71 = {0};
    if (l7.a >= 1) l71 = read_leaf(7, 1);
    const uint64_t ymm = 0x6, zmm = 0xe6, tile = 0x60000;
    uint64_t f = 0, saved = 0;
    if (l1.c & BIT(27)) saved = read_xcr0();
    if (!all_bits(saved, ymm) || !(l1.c & BIT(28))) return 0;
    if (l7.b & BIT(5)) f |= HY_CPU_AVX2;
    if (l1.c & BIT(12)) f |= HY_CPU_FMA;
    if (l1.c & BIT(29)) f |= HY_CPU_F16C;
    if (l71.a & BIT(4)) f |= HY_CPU_AVX_VNNI;
    /* F, DQ, CD, BW, VL */
    if (all_bits(saved, zmm) && all_bits(l7.b, BIT(16) | BIT(17) | BIT(28) | BIT(30) | BIT(31))) {
        f |= HY_CPU_AVX512;
        if (l7.c & BIT(11)) f |= HY_CPU_AVX512_VNNI;
        if (l71.a & BIT(5)) f |= HY_CPU_AVX512_BF16;
    }
    /* BF16, TILE, INT8 */
    if (all_bits(saved, tile) && all_bits(l7.d, BIT(22) | BIT(24) | BIT(25))) f |= HY_CPU_AMX;
    return f;
}

/* Tiles take 8 KB more to save: Linux gives them to those that ask (Documentation/arch/x86/xstate.rst). */
bool hy_cpu_allow_amx(void)
{
    const long req_xcomp_perm = 0x1023, tile_data = 18;
    return (hy_cpu_features() & HY_CPU_AMX) && syscall(SYS_arch_prctl, req_xcomp_perm, tile_data) == 0;
}

bool hy_cpu_brand(char *out, size_t n)
{
    char text[49] = {0};
    if (__get_cpuid_max(0x80000000u, NULL) < 0x80000004u || !n) return false;
    for (unsigned i = 0; i < 3; i++) {
        leaf l = read_leaf(0x80000002u + i, 0);
        memcpy(text + 16 * i, &l, 16);
    }
    /* Names are padded with spaces, on either side. */
    const char *s = text + strspn(text, " ");
    size_t len = strlen(s);
    while (len && s[len - 1] == ' ') len--;
    len = HY_MIN(len, n - 1);
    memcpy(out, s, len);
    out[len] = 0;
    return len > 0;
}
#endif
