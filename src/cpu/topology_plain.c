/* Without hwloc (builds of the kernels alone, for other processors): what libc knows. */
#include "cpu/cpu_room.h"

#if !defined(HY_HWLOC)
#include <unistd.h>

static uint64_t size_or_0(int name)
{
    long v = sysconf(name);
    return v > 0 ? (uint64_t)v : 0;
}

void hy_topology_shape(hy_topology *t)
{
    t->n_core_allowed = t->n_cpu_allowed;
    t->n_numa = 1;
    t->l1d_bytes = size_or_0(_SC_LEVEL1_DCACHE_SIZE);
    t->l2_bytes = size_or_0(_SC_LEVEL2_CACHE_SIZE);
    t->l3_bytes = size_or_0(_SC_LEVEL3_CACHE_SIZE);
}

uint32_t hy_topology_pin_order(uint32_t *cpus, uint32_t cap)
{
    return HY_MIN(hy_cpu_allowed(cpus, cap), cap);
}
#endif
