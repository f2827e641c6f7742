/* Private to engine/: how many threads prompts and decode steps take. */
#ifndef HY_ENGINE_THREADS_H
#define HY_ENGINE_THREADS_H

#include "core.h"

/* Threads of the team: what the options ask for, or what this process may use. */
uint32_t hy_threads_team(const hy_options *o, const hy_topology *top);

/* Tells the plan how many of the team's threads long and short steps take: as the options say; where they leave
 * it open, by measuring a few steps of each (under half a second, once a machine and shape of model: the result is
 * kept in the cache folder). The core must be ready to run and not run yet. */
hy_status hy_threads_choose(hy_core *c, const hy_options *o, hy_err *err);

/* What a choice is kept under in the cache folder: NULL when out of memory. Free with hy_free. */
char *hy_threads_key(const hy_core *c);

#endif
