/* What callers ask of the engine's thread because the pages are its own: conversations to files and back. The
 * caller waits, the engine does not. */
#include "engine.h"
#include <string.h>

void hy_engine_do_commands(hy_engine *e, bool refuse)
{
    hy_command *c;
    while ((c = hy_queue_take(&e->commands))) {
        hy_kv *kv = e->core->kv;
        if (refuse) c->status = hy_fail(&c->err, HY_E_CANCELLED, "the engine is closing");
        else if (c->kind == HY_CMD_SAVE)
            c->status = hy_kv_save(kv, c->path, c->identity, c->salt, c->ids, c->n, &c->n_done, &c->err);
        else
            c->status = hy_kv_load(kv, c->path, c->identity, c->salt, e->core->model->hp.n_vocab, &c->n_done, &c->err);
        e->map_stale = true;
        hy_publish_counts(e);
        atomic_store(&c->done, 1);
        hy_word_wake(&c->done);
    }
}

static hy_status ask(hy_engine *e, hy_command *c, hy_err *err)
{
    const hy_core *core = e->core;
    if (!core->prefix_cache) return hy_fail(err, HY_E_UNSUPPORTED, "%s: the prefix cache is off", c->path);
    if (atomic_load(&e->stop) || !hy_queue_put(&e->commands, c))
        return hy_fail(err, HY_E_BUSY, "%s: too many files at once", c->path);
    hy_tick_wake(&e->wake);
    while (!atomic_load(&c->done)) hy_word_wait(&c->done, 0, -1);
    if (c->status != HY_OK && err) *err = c->err;
    return c->status;
}

/* Beside the tenant the salt holds what makes equal tokens rotate differently; that is known from the number of
 * tokens, which a file has to tell first: so the identity says which of the two sets its pages are of. */
static uint64_t identity_of(const hy_engine *e, uint64_t rope)
{
    return rope ? hy_hash64(&rope, sizeof rope, e->core->identity) : e->core->identity;
}

hy_status hy_engine_cache_save(hy_engine *e, const char *path, const char *tenant, const int32_t *ids, uint32_t n,
                               uint32_t *n_saved, hy_err *err)
{
    *n_saved = 0;
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= e->core->model->hp.n_vocab)
            return hy_fail(err, HY_E_ARG, "ids[%u]: %d is not in 0..%u", i, ids[i], e->core->model->hp.n_vocab - 1);
    hy_command c = { .kind = HY_CMD_SAVE, .path = path, .salt = hy_engine_salt(e, tenant, n), .ids = ids, .n = n,
                     .identity = identity_of(e, hy_plan_cache_salt(e->core->plan, n)) };
    hy_status s = ask(e, &c, err);
    *n_saved = c.n_done;
    return s;
}

hy_status hy_engine_cache_load(hy_engine *e, const char *path, const char *tenant, uint32_t *n_loaded, hy_err *err)
{
    *n_loaded = 0;
    hy_command c = { .kind = HY_CMD_LOAD, .path = path, .salt = hy_engine_salt(e, tenant, 1),
                     .identity = identity_of(e, 0) };
    hy_status s = ask(e, &c, err);
    uint64_t rope = hy_plan_cache_salt(e->core->plan, e->core->n_ctx);
    if (s != HY_OK && rope) { /* of a sequence beyond the original context? */
        hy_command again = { .kind = HY_CMD_LOAD, .path = path, .salt = hy_engine_salt(e, tenant, e->core->n_ctx),
                             .identity = identity_of(e, rope) };
        s = ask(e, &again, err);
        c.n_done = again.n_done;
    }
    *n_loaded = c.n_done;
    return s;
}
