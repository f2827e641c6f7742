/* cpu: feature bits against /proc/cpuinfo, topology, control groups from made-up trees. */
#include "cpu/cpu_room.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* " flags " of the first processor, or "" where the kernel has no such line. */
static void read_flags(char *out, size_t n)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[8192];
    out[0] = 0;
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "flags", 5) == 0 || strncmp(line, "Features", 8) == 0) {
            snprintf(out, n, "%s ", strchr(line, ':') + 1);
            break;
        }
    for (char *c = out; *c; c++)
        if (*c == '\n') *c = ' ';
    if (f) fclose(f);
}

static void test_features(void **state)
{
    static const struct { uint64_t bit; const char *flag; } rows[] = {
#if defined(__x86_64__)
        {HY_CPU_AVX2, " avx2 "}, {HY_CPU_FMA, " fma "}, {HY_CPU_F16C, " f16c "},
        {HY_CPU_AVX512, " avx512vl "}, {HY_CPU_AVX512_VNNI, " avx512_vnni "},
        {HY_CPU_AVX512_BF16, " avx512_bf16 "}, {HY_CPU_AVX_VNNI, " avx_vnni "},
        {HY_CPU_AMX, " amx_tile "},
#else
        {HY_CPU_NEON, " asimd "}, {HY_CPU_DOTPROD, " asimddp "}, {HY_CPU_I8MM, " i8mm "},
        {HY_CPU_BF16, " bf16 "}, {HY_CPU_SVE, " sve "},
#endif
    };
    char flags[8300], text[200];
    read_flags(flags, sizeof flags);
    uint64_t f = hy_cpu_features();
    hy_cpu_features_str(f, text, sizeof text);
    print_message("features: %s\n", text);
    for (size_t i = 0; i < HY_COUNT(rows) && flags[0]; i++)
        if ((strstr(flags, rows[i].flag) != NULL) != ((f & rows[i].bit) != 0))
            fail_msg("the kernel and we disagree on%s", rows[i].flag);
    assert_true(hy_cpu_features() == f);
    hy_cpu_features_str(HY_CPU_AVX2 | HY_CPU_FMA | HY_CPU_F16C, text, sizeof text);
    assert_string_equal(text, "avx2 fma f16c");
    hy_cpu_features_str(~0ull, text, 9);
    assert_int_equal(strlen(text), 8);
    hy_cpu_features_str(0, text, sizeof text);
    assert_string_equal(text, "");
}

static void test_topology(void **state)
{
    hy_topology t;
    hy_cpu_topology(&t);
    print_message("%s: %u of %u processors, %u cores, %u nodes, quota %.2f, L1d %llu L2 %llu L3 %llu, "
                  "%llu MiB, %u threads\n", t.model, t.n_cpu_allowed, t.n_cpu_online,
                  t.n_core_allowed, t.n_numa, t.quota_cpus, (unsigned long long)t.l1d_bytes,
                  (unsigned long long)t.l2_bytes, (unsigned long long)t.l3_bytes,
                  (unsigned long long)(t.mem_bytes / HY_MIB), t.n_thread_default);
    assert_true(strlen(t.model) > 0);
    assert_true(t.n_core_allowed >= 1 && t.n_core_allowed <= t.n_cpu_allowed);
    assert_true(t.n_thread_default >= 1 && t.n_thread_default <= t.n_core_allowed);
    if (t.quota_cpus >= 1) assert_true(t.n_thread_default <= t.quota_cpus);
    assert_true(t.mem_bytes > HY_MIB && t.n_numa >= 1);
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) assert_int_equal(CPU_COUNT(&set), t.n_cpu_allowed);

    uint32_t cpus[64];
    uint32_t n = hy_topology_pin_order(cpus, 64);
    assert_int_equal(n, HY_MIN(t.n_cpu_allowed, 64u));
    for (uint32_t i = 0; i < n; i++) {
        assert_true(CPU_ISSET(cpus[i], &set));
        for (uint32_t k = 0; k < i; k++) assert_true(cpus[i] != cpus[k]);
    }
    assert_int_equal(hy_topology_pin_order(cpus, 1), 1);
}

/* With the mask narrowed to one processor everything follows. */
static void test_narrow_mask(void **state)
{
    cpu_set_t old, one;
    hy_topology t;
    uint32_t first;
    hy_cpu_allowed(&first, 1);
    if (sched_getaffinity(0, sizeof old, &old) != 0) skip();
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    hy_cpu_topology(&t);
    sched_setaffinity(0, sizeof old, &old);
    assert_int_equal(t.n_cpu_allowed, 1);
    assert_int_equal(t.n_core_allowed, 1);
    assert_int_equal(t.n_thread_default, 1);
}

static void put(const char *root, const char *path, const char *text)
{
    char full[512];
    int n = snprintf(full, sizeof full, "%s/%s", root, path);
    assert_true(n < (int)sizeof full);
    for (char *c = full + strlen(root) + 1; (c = strchr(c, '/')); c++) {
        *c = 0;
        mkdir(full, 0700);
        *c = '/';
    }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void test_cgroups(void **state)
{
    char root[] = P_tmpdir "/hy_cpu_XXXXXX", clean[64];
    hy_cgroup c;
    assert_non_null(mkdtemp(root));
    hy_cgroup_read(&c, root); /* no files at all */
    assert_true(c.quota_cpus == 0 && c.mem_bytes == 0);

    /* Version 2: the parent's quota is the smaller, the group's own memory limit too. */
    put(root, "proc/self/cgroup", "0::/a/b\n");
    put(root, "sys/fs/cgroup/a/cpu.max", "150000 100000\n");
    put(root, "sys/fs/cgroup/a/memory.max", "max\n");
    put(root, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    put(root, "sys/fs/cgroup/a/b/memory.max", "1073741824\n");
    hy_cgroup_read(&c, root);
    assert_true(c.quota_cpus == 1.5 && c.mem_bytes == HY_GIB);
    put(root, "sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
    hy_cgroup_read(&c, root);
    assert_true(c.quota_cpus == 0.5);

    /* In a container: the path is not there, the mount's root is the group. */
    put(root, "proc/self/cgroup", "0::/elsewhere/x\n");
    put(root, "sys/fs/cgroup/cpu.max", "400000 100000\n");
    hy_cgroup_read(&c, root);
    assert_true(c.quota_cpus == 4 && c.mem_bytes == 0);

    /* Version 1. */
    put(root, "proc/self/cgroup",
        "5:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n3:cpuset:/\nbroken\n1:name=systemd:/\n");
    put(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    hy_cgroup_read(&c, root);
    assert_true(c.quota_cpus == 0 && c.mem_bytes == 0);
    put(root, "sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "250000\n");
    put(root, "sys/fs/cgroup/cpu/docker/1/cpu.cfs_period_us", "100000\n");
    put(root, "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "536870912\n");
    hy_cgroup_read(&c, root);
    assert_true(c.quota_cpus == 2.5 && c.mem_bytes == 512 * HY_MIB);

    /* how often it was stopped: of the group and its parents, nothing where there is no such file */
    assert_true(hy_cgroup_throttled(root) == 0);
    put(root, "sys/fs/cgroup/cpu/docker/1/cpu.stat", "nr_periods 9\nnr_throttled 5\nthrottled_time 100\n");
    put(root, "sys/fs/cgroup/cpu/docker/cpu.stat", "nr_periods 9\nnr_throttled 2\nthrottled_time 100\n");
    assert_true(hy_cgroup_throttled(root) == 7);
    put(root, "proc/self/cgroup", "0::/a/b\n");
    put(root, "sys/fs/cgroup/a/b/cpu.stat", "usage_usec 12\nnr_throttled 31\n");
    assert_true(hy_cgroup_throttled(root) == 31);

    snprintf(clean, sizeof clean, "rm -r %s", root);
    assert_int_equal(system(clean), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_features),
        cmocka_unit_test(test_topology),
        cmocka_unit_test(test_narrow_mask),
        cmocka_unit_test(test_cgroups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
