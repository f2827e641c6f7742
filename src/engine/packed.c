/* Where the packed form of a model is kept: beside the model, or else in the cache folder. */
#include "packed.h"
#include "measured.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ".p16.q8_0.packed": the width of panels, and what float weights become. */
static void put_suffix(hy_buf *b, uint32_t panel, const char *weights)
{
    hy_buf_printf(b, ".p%u", panel);
    if (weights) hy_buf_printf(b, ".%s", weights);
    hy_buf_str(b, ".packed");
}

static char *beside(const char *model, uint32_t panel, const char *weights)
{
    hy_buf b = { 0 };
    size_t n = strlen(model);
    while (n > 1 && model[n - 1] == '/') n--;
    hy_buf_put(&b, model, n);
    put_suffix(&b, panel, weights);
    if (!b.failed) return b.data;
    hy_buf_free(&b);
    return NULL;
}

static char *in_cache(const char *model, uint32_t panel, const char *weights)
{
    char *real = realpath(model, NULL);
    hy_buf name = { 0 }, path = { 0 };
    if (real) hy_buf_printf(&name, "weights-%016" PRIx64, hy_hash64(real, strlen(real), 0));
    put_suffix(&name, panel, weights);
    bool good = real && !name.failed && hy_cache_file(name.data, &path);
    free(real); /* libc's */
    hy_buf_free(&name);
    if (good) return path.data;
    hy_buf_free(&path);
    return NULL;
}

void hy_packed_paths(hy_packed_list *out, const hy_options *o, uint32_t panel)
{
    *out = (hy_packed_list){ .n = 0 };
    if (!o->packed_cache) return;
    char *path[2] = { beside(o->model, panel, o->weights), in_cache(o->model, panel, o->weights) };
    for (int i = 0; i < 2; i++)
        if (path[i]) out->path[out->n++] = path[i];
}

void hy_packed_paths_free(hy_packed_list *l)
{
    for (uint32_t i = 0; i < l->n; i++) hy_free((void *)(uintptr_t)l->path[i]);
    l->n = 0;
}
