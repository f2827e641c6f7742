/* Private to cli/: the shapes that `hayate bench` measures, and results that are kept (bench_keep.c). */
#ifndef HY_CLI_BENCH_H
#define HY_CLI_BENCH_H

#include "cli.h"
#include <jansson.h>

#define BENCH_REPEATS_MAX 1000
#define BENCH_SHAPES_MAX 64

typedef struct bench_change {
    bool known;                /* there is a base for this shape */
    hy_change change;
    double base, ratio, p;     /* median before; now / before; of the rank test */
    double floor;              /* the least change that counts */
    uint32_t n_base;
    bool doubted;              /* slower once, and not when measured again */
} bench_change;

typedef struct bench_shape {
    uint32_t n_prompt, n_gen, depth, rows;
    double tps[BENCH_REPEATS_MAX];
    bench_change change;
} bench_shape;

/* Results of this machine, model and options. */
typedef struct bench_keep {
    const cli_args *a;
    char *machine, *folder, *flags; /* owned */
    char model[17], at[24];
    uint32_t at_us;            /* within the second */
    json_t *kept;              /* array, the newest first */
    const json_t *base;        /* in kept; NULL: nothing to compare with */
    double floor;
    double load;               /* of the machine before measuring */
} bench_keep;

extern const char hy_commit[]; /* of the sources, made by the build: "unknown", or 12 hex digits, + when changed */

/* Does nothing but zero *k unless results are to be kept or compared. False and a message on error. */
bool bench_keep_open(bench_keep *k, const cli_args *a);
void bench_keep_close(bench_keep *k);
/* Fills s->change; n: repeats. */
void bench_keep_compare(const bench_keep *k, bench_shape *s, uint32_t n);
bool bench_keep_save(const bench_keep *k, const bench_shape *list, uint32_t n_shape, uint32_t n, const hy_facts *f);
/* "pp512 at depth 0, 1 row" */
void bench_shape_name(const bench_shape *s, char out[64]);
/* One line of a comparison, and what it all comes to; returns how many are slower. */
uint32_t bench_keep_report(const bench_keep *k, const bench_shape *list, uint32_t n_shape);

#endif
