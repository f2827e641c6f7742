/* Limits of the control group (Linux, admin-guide/cgroup-v1 and cgroup-v2). A group is limited by
 * its own files and by those of every parent. In a container the path of the group is often not
 * visible; then the mount's root is the group. */
#include "cpu/cpu_room.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { path_max = 1024 };

/* The file's first line without its newline. Not hy_read_file: a missing file is the usual case. */
static bool read_line(const char *dir, const char *name, char *out, size_t n)
{
    char path[path_max + 64];
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path) return false;
    FILE *f = fopen(path, "re");
    if (!f) return false;
    bool got = fgets(out, (int)n, f) != NULL;
    fclose(f);
    if (got) out[strcspn(out, "\n")] = 0;
    return got;
}

static void lower_quota(hy_cgroup *c, double quota, double period)
{
    if (!(quota > 0) || !(period > 0)) return;
    double cpus = quota / period;
    if (c->quota_cpus == 0 || cpus < c->quota_cpus) c->quota_cpus = cpus;
}

/* Version 1 says "no limit" with the largest whole number of pages: nothing real is above 2^60. */
static void lower_mem(hy_cgroup *c, const char *text)
{
    uint64_t v;
    if (hy_parse_u64("memory limit", text, 1, (uint64_t)1 << 60, &v, NULL) != HY_OK) return;
    if (c->mem_bytes == 0 || v < c->mem_bytes) c->mem_bytes = v;
}

static void read_v2(hy_cgroup *c, const char *dir)
{
    char line[64];
    double quota, period;
    if (read_line(dir, "cpu.max", line, sizeof line) &&
        sscanf(line, "%lf %lf", &quota, &period) == 2) /* "max 100000" does not match */
        lower_quota(c, quota, period);
    if (read_line(dir, "memory.max", line, sizeof line)) lower_mem(c, line);
}

static void read_v1_cpu(hy_cgroup *c, const char *dir)
{
    char quota[64], period[64];
    if (read_line(dir, "cpu.cfs_quota_us", quota, sizeof quota) &&
        read_line(dir, "cpu.cfs_period_us", period, sizeof period))
        lower_quota(c, strtod(quota, NULL), strtod(period, NULL)); /* -1: none */
}

/* Both versions have the line "nr_throttled N" in cpu.stat. */
static void read_throttled(hy_cgroup *c, const char *dir)
{
    char path[path_max + 64], line[128];
    if (snprintf(path, sizeof path, "%s/cpu.stat", dir) >= (int)sizeof path) return;
    FILE *f = fopen(path, "re");
    unsigned long long n;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "nr_throttled %llu", &n) == 1) c->n_throttled += n;
    if (f) fclose(f);
}

static void read_v1_mem(hy_cgroup *c, const char *dir)
{
    char line[64];
    if (read_line(dir, "memory.limit_in_bytes", line, sizeof line)) lower_mem(c, line);
}

/* mount, then mount/a, then mount/a/b for a group "/a/b". */
static void walk(hy_cgroup *c, const char *mount, const char *group,
                 void (*read)(hy_cgroup *, const char *dir))
{
    char dir[path_max];
    int n = snprintf(dir, sizeof dir, "%s%s", mount, group);
    if (n < 0 || n >= (int)sizeof dir) return;
    for (size_t at = strlen(mount), len = (size_t)n; at <= len; at++)
        if (dir[at] == '/' || !dir[at]) {
            char kept = dir[at];
            dir[at] = 0;
            read(c, dir);
            dir[at] = kept;
        }
}

/* Is `name` one of "cpu,cpuacct"? */
static bool has_controller(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = list; p; p = strchr(p, ','), p = p ? p + 1 : NULL)
        if (strncmp(p, name, n) == 0 && (p[n] == ',' || !p[n])) return true;
    return false;
}

static void read_group_throttled(hy_cgroup *out, const char *root, const char *controllers,
                                 const char *group)
{
    char mount[path_max];
    if (!*controllers) {
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup", root);
        walk(out, mount, group, read_throttled);
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/unified", root);
        walk(out, mount, group, read_throttled);
    } else if (has_controller(controllers, "cpu")) {
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/cpu", root);
        walk(out, mount, group, read_throttled);
    }
}

static void read_group(hy_cgroup *out, const char *root, const char *controllers, const char *group)
{
    char mount[path_max];
    if (!*controllers) {
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup", root);
        walk(out, mount, group, read_v2);
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/unified", root);
        walk(out, mount, group, read_v2);
    }
    /* "cpu" is a link to "cpu,cpuacct" wherever the two are mounted together. */
    if (has_controller(controllers, "cpu")) {
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/cpu", root);
        walk(out, mount, group, read_v1_cpu);
    }
    if (has_controller(controllers, "memory")) {
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/memory", root);
        walk(out, mount, group, read_v1_mem);
    }
}

typedef void group_fn(hy_cgroup *out, const char *root, const char *controllers, const char *group);

static void each_group(hy_cgroup *out, const char *root, group_fn *fn)
{
    char path[path_max], line[path_max];
    *out = (hy_cgroup){0};
    if (snprintf(path, sizeof path, "%s/proc/self/cgroup", root) >= (int)sizeof path) return;
    FILE *f = fopen(path, "re");
    if (!f) return;
    while (fgets(line, sizeof line, f)) { /* "4:cpu,cpuacct:/group" or "0::/group" */
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *controllers++ = 0;
        *group++ = 0;
        fn(out, root, controllers, strcmp(group, "/") ? group : "");
    }
    fclose(f);
}

void hy_cgroup_read(hy_cgroup *out, const char *root)
{
    each_group(out, root, read_group);
}

uint64_t hy_cgroup_throttled(const char *root)
{
    hy_cgroup c;
    each_group(&c, root, read_group_throttled);
    return c.n_throttled;
}

uint64_t hy_cpu_throttled(void)
{
    return hy_cgroup_throttled("");
}
