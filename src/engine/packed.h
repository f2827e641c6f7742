/* Private to engine/: files that packed weights are kept in. */
#ifndef HY_ENGINE_PACKED_H
#define HY_ENGINE_PACKED_H

#include "core.h"

typedef struct hy_packed_list {
    const char *path[2];
    uint32_t n;                /* 0: nothing is kept */
} hy_packed_list;
void hy_packed_paths(hy_packed_list *out, const hy_options *o, uint32_t panel);
void hy_packed_paths_free(hy_packed_list *l);

#endif
