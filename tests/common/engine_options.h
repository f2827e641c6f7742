/* The options that tests of the engine begin with. */
#ifndef HY_TESTS_ENGINE_OPTIONS_H
#define HY_TESTS_ENGINE_OPTIONS_H

#include <hayate/hayate.h>

static inline hy_options engine_options(const char *model, uint32_t n_ctx, uint32_t n_threads, uint32_t n_seq)
{
    hy_options o;
    hy_options_init(&o);
    o.model = model;
    o.n_ctx = n_ctx;
    o.n_threads = n_threads;
    o.n_seq = n_seq;
    return o;
}

#endif
