/* The log: the one place with global state, a level and a sink. */
#include "base/base.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static _Atomic int level_max = HY_LOG_WARN;
static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static void (*sink_fn)(void *ctx, hy_log_level, const char *line);
static void *sink_ctx;

static const char *const level_names[] = {"error", "warn", "info", "debug", "trace"};

void hy_log_set_level(hy_log_level level)
{
    atomic_store_explicit(&level_max, (int)level, memory_order_relaxed);
}

void hy_log_set_sink(void (*sink)(void *ctx, hy_log_level, const char *line), void *ctx)
{
    pthread_mutex_lock(&sink_lock);
    sink_fn = sink;
    sink_ctx = ctx;
    pthread_mutex_unlock(&sink_lock);
}

/* "2026-01-31T12:00:00.123Z warn event " */
static size_t put_head(char *line, size_t cap, hy_log_level level, const char *event)
{
    struct timespec ts;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &ts);
    gmtime_r(&ts.tv_sec, &tm);
    size_t n = strftime(line, cap, "%Y-%m-%dT%H:%M:%S", &tm);
    int more = snprintf(line + n, cap - n, ".%03ldZ %s %s", ts.tv_nsec / 1000000,
                        level_names[level], event);
    return more < 0 ? n : HY_MIN(n + (size_t)more, cap - 1);
}

void hy_log(hy_log_level level, const char *event, const char *fmt, ...)
{
    if ((int)level < 0 || (int)level > atomic_load_explicit(&level_max, memory_order_relaxed) ||
        (size_t)level >= HY_COUNT(level_names))
        return;
    char line[2048];
    size_t n = put_head(line, sizeof line, level, event);
    if (fmt && n < sizeof line - 2) {
        line[n++] = ' ';
        line[n] = 0;
        va_list ap;
        va_start(ap, fmt);
        if (vsnprintf(line + n, sizeof line - n, fmt, ap) < 0) line[n] = 0;
        va_end(ap);
    }
    /* One event is one line, whatever a file's name or a client put into a value. */
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = ' ';
    pthread_mutex_lock(&sink_lock);
    if (sink_fn) sink_fn(sink_ctx, level, line);
    else fprintf(stderr, "%s\n", line);
    pthread_mutex_unlock(&sink_lock);
}
