/* What machine this is, and how much of it we may use. */
#include "cpu/cpu_room.h"
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { cpu_limit = 8192 }; /* logical processors; Linux builds stop there */

uint32_t hy_cpu_allowed(uint32_t *cpus, uint32_t cap)
{
    uint32_t n = 0;
    size_t bytes = CPU_ALLOC_SIZE(cpu_limit);
    cpu_set_t *set = hy_calloc(1, bytes);
    if (set && sched_getaffinity(0, bytes, set) == 0)
        for (uint32_t i = 0; i < cpu_limit; i++)
            if (CPU_ISSET_S(i, bytes, set)) {
                if (n < cap) cpus[n] = i;
                n++;
            }
    hy_free(set);
    if (n) return n;
    /* The mask could not be read: the first processor is always there. */
    if (cap) cpus[0] = 0;
    return 1;
}

/* The value of the first "key : value" line of /proc/cpuinfo with one of these keys. */
static bool cpuinfo_model(char *out, size_t n)
{
    static const char *const keys[] = {"model name", "Model", "Hardware", "cpu model", "uarch"};
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        for (size_t i = 0; colon && i < HY_COUNT(keys) && !found; i++) {
            size_t len = strlen(keys[i]);
            if (strncmp(line, keys[i], len) || !strchr(" \t:", line[len])) continue;
            colon[strcspn(colon, "\n")] = 0;
            snprintf(out, n, "%s", colon + 1 + strspn(colon + 1, " \t"));
            found = true;
        }
    }
    if (f) fclose(f);
    return found;
}

void hy_topology_limit(hy_topology *t, const hy_cgroup *group)
{
    uint32_t n = HY_MIN(t->n_core_allowed, (uint32_t)HY_THREADS_MAX);
    t->quota_cpus = group->quota_cpus;
    /* Rounded down: a thread too many is throttled, and all others wait for it at the barrier. */
    if (t->quota_cpus > 0 && t->quota_cpus < n) n = (uint32_t)t->quota_cpus;
    t->n_thread_default = HY_MAX(n, 1u);
}

/* Physical, or the control group's limit if lower; 0: unknown. */
static uint64_t memory_of(const hy_cgroup *group)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    uint64_t bytes = pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
    return group->mem_bytes && (!bytes || group->mem_bytes < bytes) ? group->mem_bytes : bytes;
}

uint64_t hy_cpu_memory(void)
{
    hy_cgroup group;
    hy_cgroup_read(&group, "");
    return memory_of(&group);
}

void hy_cpu_topology(hy_topology *out)
{
    hy_cgroup group;
    *out = (hy_topology){0};
    if (!hy_cpu_brand(out->model, sizeof out->model) &&
        !cpuinfo_model(out->model, sizeof out->model))
        snprintf(out->model, sizeof out->model, "unknown processor");
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    out->n_cpu_allowed = hy_cpu_allowed(NULL, 0);
    out->n_cpu_online = online > 0 ? (uint32_t)online : out->n_cpu_allowed;
    hy_cgroup_read(&group, "");
    out->mem_bytes = memory_of(&group);
    hy_topology_shape(out);
    if (!out->n_core_allowed || out->n_core_allowed > out->n_cpu_allowed)
        out->n_core_allowed = out->n_cpu_allowed;
    if (!out->n_numa) out->n_numa = 1;
    hy_topology_limit(out, &group);
}
