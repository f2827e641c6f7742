/* Numbers for monitors. */
#include "engine.h"
#include <string.h>

void hy_engine_stats(const hy_engine *e, hy_stats *out)
{
    memset(out, 0, sizeof *out);
    hy_engine_counters(e, &out->counters);
    out->itl_target_ms = 100;
    out->ttft_target_ms = 500;
}

uint32_t hy_engine_page_map(const hy_engine *e, uint8_t *out, uint32_t cap)
{
    uint32_t n = hy_kv_group_of(e->core->kv, 0)->n_page;
    memset(out, 0, HY_MIN(n, cap));
    return n;
}

double hy_engine_predict_wait(const hy_engine *e, uint32_t n_prompt)
{
    return n_prompt * 10.0 * (1 + atomic_load(&e->n_waiting_all));
}

hy_status hy_engine_cache_save(hy_engine *e, const char *path, const char *tenant, const int32_t *ids,
                               uint32_t n, uint32_t *n_saved, hy_err *err)
{
    (void)e, (void)tenant, (void)ids, (void)n, *n_saved = 0;
    return hy_fail(err, HY_E_UNSUPPORTED, "%s: the prefix cache is off", path);
}

hy_status hy_engine_cache_load(hy_engine *e, const char *path, const char *tenant, uint32_t *n_loaded, hy_err *err)
{
    (void)e, (void)tenant, *n_loaded = 0;
    return hy_fail(err, HY_E_UNSUPPORTED, "%s: the prefix cache is off", path);
}
