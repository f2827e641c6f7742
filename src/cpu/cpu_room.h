/* What the files of cpu/ share; private to the room. */
#ifndef HY_CPU_ROOM_H
#define HY_CPU_ROOM_H

#include "cpu/cpu.h"

/* Per instruction set: features_x86.c, features_arm.c, features_none.c. */
uint64_t hy_cpu_features_read(void);
/* The processor's name as the processor tells it; false when it does not. */
bool hy_cpu_brand(char *out, size_t n);

/* ---- limits of the control group ---- */

typedef struct hy_cgroup {
    double quota_cpus;  /* 0 = none */
    uint64_t mem_bytes; /* 0 = none */
    uint64_t n_throttled; /* of hy_cgroup_throttled */
} hy_cgroup;
/* root is "" outside tests: "/proc/self/cgroup" and "/sys/fs/cgroup" are looked up below it. The
 * smallest limit of the group and its parents holds. Versions 1 and 2, and both mounted at once. */
void hy_cgroup_read(hy_cgroup *out, const char *root);
uint64_t hy_cgroup_throttled(const char *root); /* nr_throttled of the group and its parents, summed */

/* ---- processors this process may use ---- */

/* Logical processors in the affinity mask, ascending; returns how many there are (at least 1), of
 * which at most `cap` are written. cpus may be NULL when cap is 0. */
uint32_t hy_cpu_allowed(uint32_t *cpus, uint32_t cap);

/* Fills n_core_allowed, n_numa and the cache sizes (topology_hwloc.c or topology_plain.c). */
void hy_topology_shape(hy_topology *t);
/* Quota and number of threads, from the cores allowed and the group's limits. */
void hy_topology_limit(hy_topology *t, const hy_cgroup *group);

/* The order in which a team takes processors: one of each allowed core, then the cores' other
 * threads. Returns how many were written. */
uint32_t hy_topology_pin_order(uint32_t *cpus, uint32_t cap);

#endif
