/* What the files of probe/ share; private to the room. */
#ifndef HY_PROBE_ROOM_H
#define HY_PROBE_ROOM_H

#include "probe/probe.h"

/* Reads `bytes` (a multiple of 512, 64-byte aligned) `n` times; what it returns keeps the reading alive. */
typedef uint64_t hy_probe_read_fn(const uint8_t *p, uint64_t bytes, uint64_t n);
/* `n` rounds of arithmetic in registers; returns the operations that makes. */
typedef uint64_t hy_probe_ops_fn(uint64_t n);

typedef struct hy_probe_isa {
    const char *name;
    uint64_t need;             /* feature bits */
    hy_probe_ops_fn *int8, *f32;
    hy_probe_read_fn *read;
} hy_probe_isa;

/* Of the processor the build is for, ascending: x86.c, arm.c, none.c. */
extern const hy_probe_isa hy_probe_isa_list[];
extern const uint32_t hy_probe_isa_count;

/* plain.c: on every processor */
uint64_t hy_probe_read_plain(const uint8_t *p, uint64_t bytes, uint64_t n);
uint64_t hy_probe_int8_plain(uint64_t n);
uint64_t hy_probe_f32_plain(uint64_t n);

#endif
