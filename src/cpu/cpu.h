/* cpu: what machine this is, and the thread team. May include base. */
#ifndef HY_CPU_H
#define HY_CPU_H

#include "base/base.h"

/* ---- feature bits ---------------------------------------------------------------------------- */

#define HY_CPU_AVX2        (1ull << 0)
#define HY_CPU_FMA         (1ull << 1)
#define HY_CPU_F16C        (1ull << 2)
#define HY_CPU_AVX512      (1ull << 3) /* F + BW + DQ + VL + CD, and the OS saves zmm */
#define HY_CPU_AVX512_VNNI (1ull << 4)
#define HY_CPU_AVX512_BF16 (1ull << 5)
#define HY_CPU_AVX_VNNI    (1ull << 6)
#define HY_CPU_AMX         (1ull << 7) /* TILE + INT8 + BF16 */
#define HY_CPU_NEON        (1ull << 16)
#define HY_CPU_DOTPROD     (1ull << 17)
#define HY_CPU_I8MM        (1ull << 18)
#define HY_CPU_BF16        (1ull << 19)
#define HY_CPU_SVE         (1ull << 20)

uint64_t hy_cpu_features(void);                  /* of the machine at hand; computed once */
void hy_cpu_features_str(uint64_t f, char *out, size_t n); /* "avx2 fma f16c" */
/* Asks the system for the tile registers, for all threads of the process, now and to come. False: it does not give them. */
bool hy_cpu_allow_amx(void);

/* ---- topology (hwloc), affinity, cgroup quota ------------------------------------------------ */

typedef struct hy_topology {
    char model[96];            /* the processor's name */
    uint32_t n_cpu_online;     /* logical processors of the machine */
    uint32_t n_cpu_allowed;    /* in this process's affinity mask / cpuset */
    uint32_t n_core_allowed;   /* physical cores among them */
    uint32_t n_numa;
    double quota_cpus;         /* cgroup v2/v1 CPU quota in processors; 0 = none */
    uint64_t l1d_bytes, l2_bytes, l3_bytes; /* per instance; 0 = unknown */
    uint64_t mem_bytes;        /* physical, or the cgroup's limit if lower */
    uint32_t n_thread_default; /* what a team takes unless told: cores allowed, capped by quota */
} hy_topology;
void hy_cpu_topology(hy_topology *out);           /* looked up each time: some milliseconds */
uint64_t hy_cpu_memory(void);                    /* mem_bytes alone, which costs little */
/* How often the control group has been stopped because its quota was used up, since it exists; 0 without
 * a quota. A few small files are read: not for every step. */
uint64_t hy_cpu_throttled(void);

/* ---- thread team ----------------------------------------------------------------------------- */

/* A team that runs one function SPMD. The caller is worker 0. Workers spin some 20 us at a barrier,
 * then sleep on a futex, so that a busy neighbour or a quota costs its share and no cliff.
 * Owner: one thread at a time calls hy_team_run and hy_team_use. */
typedef struct hy_team hy_team;
typedef struct hy_worker {
    hy_team *team;
    uint32_t i, n;             /* this worker, and how many take part in the run */
    bool timed;                /* the worker's own switch: count what it waits at barriers */
    uint64_t wait_ns;          /* so far, while timed */
    uint8_t apart[96];         /* neighbours' counts lie on other cache lines */
} hy_worker;
typedef void hy_team_fn(void *arg, hy_worker *w);

#define HY_THREADS_MAX 256

/* pin: workers 1.. stay on one processor each, in the order of hwloc's cores; the caller's own
 * affinity is left alone. Workers take no signals. 1 to HY_THREADS_MAX threads, else HY_E_ARG. */
hy_status hy_team_open(hy_team **out, uint32_t n_threads, bool pin, hy_err *err);
/* The calling thread, who is worker 0, takes that worker's processor if the team is pinned, so that memory it
 * touches first lies near to where it is read. Returns whether it moved; `before` is then for hy_team_stand, which
 * gives the thread back its affinity. */
typedef struct hy_seat { uint64_t cpus[16]; } hy_seat; /* a cpu_set_t */
bool hy_team_sit(const hy_team *t, hy_seat *before);
void hy_team_stand(const hy_seat *before);
uint32_t hy_team_size(const hy_team *t);         /* all its threads */
/* How many take part in the runs to come, 1 to its size (more counts as all); the others sleep and cost
 * nothing. At first all. */
void hy_team_use(hy_team *t, uint32_t n);
uint32_t hy_team_used(const hy_team *t);
void hy_team_run(hy_team *t, hy_team_fn *fn, void *arg); /* returns when all workers have returned */
void hy_team_barrier(hy_worker *w);              /* every worker of the run must call it */
void hy_team_close(hy_team *t);                  /* accepts NULL */

/* Worker i's share of n items: [*first, *last), in units of `grain` items. */
HY_INLINE void hy_share(uint64_t n, uint64_t grain, const hy_worker *w, uint64_t *first,
                        uint64_t *last)
{
    uint64_t units = (n + grain - 1) / grain;
    *first = HY_MIN(n, units * w->i / w->n * grain);
    *last = HY_MIN(n, units * (w->i + 1) / w->n * grain);
}

#endif
