/* probe: what the machine at hand can do, measured: how fast memory and each cache can be read, how many
 * operations each instruction set does, what a barrier costs; and the writer of trace files. May include
 * base, cpu.
 *
 * Units: bytes a second and operations a second; a multiplication and its addition are two operations. */
#ifndef HY_PROBE_H
#define HY_PROBE_H

#include "base/base.h"
#include "cpu/cpu.h"
#include <stdio.h>

#define HY_PROBE_POINTS_MAX 12
#define HY_PROBE_LEVELS_MAX 8

typedef enum hy_probe_place { HY_PROBE_L1, HY_PROBE_L2, HY_PROBE_L3, HY_PROBE_MEM, HY_PROBE_PLACES } hy_probe_place;

/* With so many threads at once; 0: not measured (no such cache, or the threads' shares do not fit). */
typedef struct hy_probe_point {
    uint32_t n_thread;
    double read[HY_PROBE_PLACES];
    double copy;               /* memory to memory, bytes copied */
    double barrier_ns;         /* one barrier of the team; 0 for one thread */
} hy_probe_point;

/* Of one instruction set: with one thread and with all. 8-bit integer products summed in 32 bits, and
 * 32-bit floats. */
typedef struct hy_probe_level {
    char isa[16];              /* the kernels' names: "avx2", "dotprod"; and "avx_vnni" */
    double int8_one, int8_all, f32_one, f32_all;
} hy_probe_level;

typedef struct hy_probe {
    uint32_t n_point;
    hy_probe_point point[HY_PROBE_POINTS_MAX]; /* ascending; the last: all threads */
    uint32_t n_level;
    hy_probe_level level[HY_PROBE_LEVELS_MAX];
    double seconds;            /* that measuring took */
    double load;               /* of the system before it: a neighbour makes numbers smaller */
} hy_probe;

typedef struct hy_probe_opts {
    uint32_t n_thread;         /* most threads; 0: what a team takes unless told */
    uint32_t slice_ms;         /* of one measurement; 0: 40, less where there are very many */
    uint64_t mem_bytes;        /* read for the speed of memory; 0: well beyond the caches */
    bool (*progress)(void *ctx, uint64_t done, uint64_t all); /* true: stop with HY_E_CANCELLED; or NULL */
    void *progress_ctx;
} hy_probe_opts;

/* Each number is the best of three tries, because a neighbour can only take away. Seconds.
 * Thread: any; starts its own team. */
hy_status hy_probe_run(hy_probe *out, const hy_probe_opts *o, hy_err *err);

/* The numbers for a thread count that was not measured itself: straight lines between points, the last
 * one beyond. */
hy_probe_point hy_probe_at(const hy_probe *p, uint32_t n_thread);
/* NULL when that instruction set was not measured. */
const hy_probe_level *hy_probe_level_of(const hy_probe *p, const char *isa);
/* Operations a second of so many threads, by the share of the way from one to all. */
double hy_probe_ops(const hy_probe *p, const char *isa, bool int8, uint32_t n_thread);

/* ---- trace: the JSON that ui.perfetto.dev and chrome://tracing read ("Trace Event Format") ------ */

/* Owner: the caller. Everything is written at once to the file; write errors are kept till the end. */
typedef struct hy_trace {
    FILE *f;
    uint64_t n;
} hy_trace;
hy_status hy_trace_open(hy_trace *t, const char *path, hy_err *err);
/* Into memory: *text is there after hy_trace_close, also when that fails (free() it). */
hy_status hy_trace_open_text(hy_trace *t, char **text, size_t *n_text, hy_err *err);
void hy_trace_thread(hy_trace *t, uint32_t tid, const char *name);
/* A span on a thread's line, ns from a common start. detail: written as arguments, a JSON object or NULL. */
void hy_trace_span(hy_trace *t, uint32_t tid, const char *name, const char *category, uint64_t ns_first,
                   uint64_t ns_last, const char *detail);
hy_status hy_trace_close(hy_trace *t, const char *path, hy_err *err); /* path: for the message */

#endif
