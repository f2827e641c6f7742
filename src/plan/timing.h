/* plan/timing: what each operator took and moved. Private to run.c and timing.c. */
#ifndef HY_PLAN_TIMING_H
#define HY_PLAN_TIMING_H

#include "plan/instr.h"

typedef struct hy_op_clock {   /* a worker's share: divided by the threads of the step */
    double ns, wait_ns;
} hy_op_clock;

/* Made when timing is first switched on, from the plan's arena. */
struct hy_timing {
    bool on;
    hy_op_clock (*clock)[HY_OP_COUNT]; /* [n_thread_max]; each worker writes its own */
    hy_op_time work[HY_OP_COUNT];      /* worker 0: how often, bytes, operations */
    hy_plan_rings ring;                /* of spans; zeroed: none are kept */
    uint64_t i_step;                   /* moves between steps */
};

/* A worker's clock in one step. */
typedef struct hy_lap {
    struct hy_timing *t;       /* NULL: not timed */
    hy_op_clock *clock;
    uint64_t ns, wait_ns;      /* where the current entry began */
    hy_plan_span *ring;        /* or NULL */
} hy_lap;

void hy_lap_begin(hy_lap *l, const hy_plan *p, hy_worker *w);
/* Entry i is over, barrier and all; ns_done: when the worker's own share was. */
void hy_lap_entry(hy_lap *l, const hy_plan *p, uint32_t i, const hy_worker *w, uint64_t ns_done);
void hy_lap_end(hy_lap *l, hy_worker *w);

#endif
