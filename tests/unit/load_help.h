/* What the loading tests share: opening, loading, bytes of a file that can be patched. */
#ifndef LOAD_HELP_H
#define LOAD_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "plan/plan.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Layouts are the same for every ISA with this panel. */
static inline void help_kernels(hy_kernels *k)
{
    *k = (hy_kernels){ 0 };
    hy_kern_fill_scalar(k, 8);
}

static inline hy_status help_load(hy_model **m, const char *path, int quantise, hy_team *team, hy_err *err)
{
    hy_kernels k;
    help_kernels(&k);
    hy_file *f = NULL;
    HY_TRY(hy_file_open(&f, path, err));
    hy_load_opts o = { .kern = &k, .team = team, .quantise = quantise };
    hy_status s = hy_model_load(m, f, &o, err);
    hy_file_close(f);
    return s;
}

static inline hy_model *help_must_load(const char *path)
{
    hy_model *m = NULL;
    hy_err err = { 0 };
    if (help_load(&m, path, -1, NULL, &err) != HY_OK) fail_msg("%s: %s", path, err.msg);
    return m;
}

/* The folder of a golden model: the clone's where it has that file, else the full set's. */
static inline bool help_path(char out[512], const char *model, const char *file)
{
    static const char *const roots[] = { HY_DATA "/models", HY_SHARED "/golden/models" };
    for (size_t i = 0; i < HY_COUNT(roots); i++) {
        snprintf(out, 512, "%s/%s/%s", roots[i], model, file);
        if (hy_is_file(out) || hy_is_dir(out)) return true;
    }
    return false;
}

static inline bool help_full_set(void)
{
    return hy_is_dir(HY_SHARED "/golden/models");
}

#endif
