/* Cores, caches and NUMA nodes through hwloc. */
#include "cpu/cpu_room.h"

#if defined(HY_HWLOC)
#include <hwloc.h>

/* The machine as far as this process may use it; NULL when hwloc cannot tell. */
static hwloc_topology_t load(hwloc_bitmap_t *allowed)
{
    hwloc_topology_t topo;
    if (hwloc_topology_init(&topo) != 0) return NULL;
    *allowed = hwloc_bitmap_alloc();
    if (*allowed && hwloc_topology_load(topo) == 0) {
        uint32_t cpus[1024];
        uint32_t n = HY_MIN(hy_cpu_allowed(cpus, HY_COUNT(cpus)), (uint32_t)HY_COUNT(cpus));
        bool ok = true;
        for (uint32_t i = 0; i < n && ok; i++) ok = hwloc_bitmap_set(*allowed, cpus[i]) == 0;
        if (ok) return topo;
    }
    hwloc_bitmap_free(*allowed);
    hwloc_topology_destroy(topo);
    return NULL;
}

/* The size of the first cache of a kind that an allowed processor has. */
static uint64_t cache_bytes(hwloc_topology_t topo, hwloc_const_bitmap_t allowed,
                            hwloc_obj_type_t type)
{
    hwloc_obj_t o = NULL;
    while ((o = hwloc_get_next_obj_by_type(topo, type, o)))
        if (hwloc_bitmap_intersects(o->cpuset, allowed)) return o->attr->cache.size;
    return 0;
}

static uint32_t count_allowed(hwloc_topology_t topo, hwloc_const_bitmap_t allowed,
                              hwloc_obj_type_t type)
{
    uint32_t n = 0;
    hwloc_obj_t o = NULL;
    while ((o = hwloc_get_next_obj_by_type(topo, type, o)))
        n += o->cpuset && hwloc_bitmap_intersects(o->cpuset, allowed);
    return n;
}

void hy_topology_shape(hy_topology *t)
{
    hwloc_bitmap_t allowed;
    hwloc_topology_t topo = load(&allowed);
    if (!topo) return;
    t->n_core_allowed = count_allowed(topo, allowed, HWLOC_OBJ_CORE);
    t->n_numa = count_allowed(topo, allowed, HWLOC_OBJ_NUMANODE);
    t->l1d_bytes = cache_bytes(topo, allowed, HWLOC_OBJ_L1CACHE);
    t->l2_bytes = cache_bytes(topo, allowed, HWLOC_OBJ_L2CACHE);
    t->l3_bytes = cache_bytes(topo, allowed, HWLOC_OBJ_L3CACHE);
    hwloc_bitmap_free(allowed);
    hwloc_topology_destroy(topo);
}

/* The i-th allowed processor of a core, or -1. */
static int core_cpu(hwloc_obj_t core, hwloc_const_bitmap_t allowed, uint32_t i)
{
    int cpu = hwloc_bitmap_first(core->cpuset);
    for (; cpu >= 0; cpu = hwloc_bitmap_next(core->cpuset, cpu))
        if (hwloc_bitmap_isset(allowed, (unsigned)cpu) && i-- == 0) return cpu;
    return -1;
}

uint32_t hy_topology_pin_order(uint32_t *cpus, uint32_t cap)
{
    hwloc_bitmap_t allowed;
    hwloc_topology_t topo = load(&allowed);
    uint32_t n = 0;
    bool more = topo != NULL;
    for (uint32_t thread = 0; more && n < cap; thread++) {
        more = false;
        hwloc_obj_t core = NULL;
        while (n < cap && (core = hwloc_get_next_obj_by_type(topo, HWLOC_OBJ_CORE, core))) {
            int cpu = core_cpu(core, allowed, thread);
            if (cpu >= 0) {
                cpus[n++] = (uint32_t)cpu;
                more = true;
            }
        }
    }
    if (topo) {
        hwloc_bitmap_free(allowed);
        hwloc_topology_destroy(topo);
    }
    return n ? n : HY_MIN(hy_cpu_allowed(cpus, cap), cap);
}
#endif
