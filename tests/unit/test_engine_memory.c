/* The most memory that a process ever holds, loading included, against the ledger when it runs: no model is in memory twice,
 * and nothing large is taken and given back on the way. Each case is a process of its own. */
#include "../common/engine_options.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* KiB of a line of /proc/self/status. */
static uint64_t status_kib(const char *name)
{
    char line[256];
    uint64_t kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, name, strlen(name))) sscanf(line + strlen(name), ": %" SCNu64, &kib);
    if (f) fclose(f);
    return kib;
}

static void die(const char *what)
{
    printf("%s\n", what);
    fflush(stdout);
    _exit(1);
}

static void answer(hy_engine *e)
{
    int32_t ids[64];
    for (int i = 0; i < 64; i++) ids[i] = 10 + i * 17 % 200;
    hy_params p;
    hy_params_init(&p);
    p.tokens = ids;
    p.n_tokens = 64;
    p.max_tokens = 4;
    p.temperature = 0.8;
    p.top_p = 0.95;
    p.ignore_eos = true;
    hy_request *r;
    hy_err err;
    hy_event ev = { 0 };
    if (hy_submit(e, &p, &r, &err) != HY_OK) die(err.msg);
    while (ev.kind != HY_EV_DONE)
        if (hy_poll(r, 600000, &ev, NULL) != HY_OK) die("no answer");
    hy_release(r);
}

/* In a child: 0 when the peak is within 5 % (and `spare` MiB) of what the ledger names. */
static int measure(const char *path, bool packed, uint64_t spare)
{
    hy_options o = engine_options(path, 2048, 2, 1);
    hy_err err;
    hy_engine *e;
    hy_stats s;
    o.packed_cache = packed;
    uint64_t before = status_kib("VmRSS");
    if (hy_open(&e, &o, &err) != HY_OK) die(err.msg);
    uint64_t loaded = status_kib("VmHWM");
    answer(e);
    hy_engine_stats(e, &s);
    uint64_t sum = 0, peak = status_kib("VmHWM"), weights = 0, kv = 0, plan = 0;
    for (uint32_t i = 0; i < s.n_ledger; i++) {
        if (strcmp(s.ledger[i].name, "other")) sum += s.ledger[i].bytes / 1024; /* what has a name */
        if (!strcmp(s.ledger[i].name, "weights")) weights = s.ledger[i].bytes / 1024;
        if (!strcmp(s.ledger[i].name, "kv_pool")) kv = s.ledger[i].bytes / 1024;
        if (!strcmp(s.ledger[i].name, "plan")) plan = s.ledger[i].bytes / 1024;
    }
    printf("%s%s: peak %.1f MiB (%.1f when loaded), ledger %.1f: %.3f; weights + KV + plan %.1f: %.3f; before it %.1f\n", path,
           packed ? ", packed" : "", peak / 1024.0, loaded / 1024.0, sum / 1024.0, (double)peak / (double)sum,
           (weights + kv + plan) / 1024.0, (double)peak / (double)(weights + kv + plan), before / 1024.0);
    for (uint32_t i = 0; i < s.n_ledger; i++) printf("  %s %.1f", s.ledger[i].name, (double)s.ledger[i].bytes / (1 << 20));
    printf("\n");
    hy_close(e);
    fflush(stdout);
    return peak <= sum + sum / 20 + spare * 1024 ? 0 : 1;
}

static void in_a_process(const char *path, bool packed, uint64_t spare)
{
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(measure(path, packed, spare));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("%s: more memory than 1.05 of the ledger", path);
}

static char folder[] = "/tmp/hy-memory-XXXXXX";

/* First without a packed form, then once to make one, then from it. It lies beside a link to the model. */
static void three_ways(const char *path, uint64_t spare)
{
    char link[64], real[4096];
    if (!realpath(path, real)) fail_msg("%s is not there", path);
    snprintf(link, sizeof link, "%s/model.gguf", folder);
    assert_int_equal(symlink(real, link), 0);
    print_message("%s\n", path);
    for (int i = 0; i < 3; i++) in_a_process(link, i > 0, spare);
    char cmd[64];
    snprintf(cmd, sizeof cmd, "rm -f '%s'/model*", folder);
    assert_int_equal(system(cmd), 0);
}

static void small_model(void **state)
{
    if (SANITIZED) {
        print_message("skipped: a sanitizer's own memory is not the program's\n");
        return;
    }
    three_ways(HY_DATA "/models/llama3/model-bf16.gguf", 4);
}

static void real_models(void **state)
{
    static const char *const env[] = { "HAYATE_SMOLLM2", "HAYATE_GEMMA3", "HAYATE_LARGE" };
    for (int i = 0; i < 3 && !SANITIZED; i++) {
        const char *path = getenv(env[i]);
        if (path && *path) three_ways(path, 0);
        else print_message("skipped: real model: needs %s\n", env[i]);
    }
}

int main(void)
{
    char cmd[64];
    if (!mkdtemp(folder)) return 1;
    setenv("HAYATE_CACHE", folder, 1);
    const struct CMUnitTest tests[] = { cmocka_unit_test(small_model), cmocka_unit_test(real_models) };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", folder);
    return system(cmd) ? 1 : failed;
}
