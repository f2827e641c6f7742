/* pace: how many threads a step takes. */
#include "plan/instr.h"

enum { look_us = 200000, calm_us = 5000000 };

void hy_plan_threads(hy_plan *p, uint32_t n_many, uint32_t n_few, bool watch_quota)
{
    uint32_t n_most = HY_MAX(n_many, n_few);
    p->pace = (hy_pace){ .n_many = n_many, .n_few = n_few, .watch = watch_quota && n_most > 1, .n_limit = n_most };
    if (p->pace.watch) p->pace.n_throttled = hy_cpu_throttled();
}

uint32_t hy_plan_threads_many(const hy_plan *p)
{
    return p->pace.n_many;
}

uint32_t hy_plan_threads_few(const hy_plan *p)
{
    return p->pace.n_few;
}

bool hy_pace_due(const hy_pace *p)
{
    return hy_now_us() - p->us_looked >= look_us;
}

void hy_pace_look(hy_pace *p, uint64_t now_us, uint64_t n_throttled)
{
    uint32_t n_most = HY_MAX(p->n_many, p->n_few);
    p->us_looked = now_us;
    if (n_throttled != p->n_throttled) {
        p->n_throttled = n_throttled;
        p->us_calm = now_us;
        if (p->n_limit > 1) p->n_limit--;
    } else if (now_us - p->us_calm >= calm_us && p->n_limit < n_most) {
        p->us_calm = now_us;
        p->n_limit++;
    }
}

uint32_t hy_pace_threads(const hy_pace *p, uint32_t n_tok)
{
    return HY_MIN(n_tok <= HY_FEW_TOK ? p->n_few : p->n_many, p->n_limit);
}
