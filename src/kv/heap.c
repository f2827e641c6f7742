/* A binary heap of nodes by last use. All memory is taken at opening. */
#include "kv/pool.h"

hy_status hy_kv_heap_open(hy_kv_heap *h, uint32_t n_node, hy_err *err)
{
    h->node = hy_alloc_array(n_node, sizeof *h->node);
    h->pos = hy_alloc_array(n_node, sizeof *h->pos);
    h->tick = HY_NEW_ARRAY(uint64_t, n_node);
    if (!h->node || !h->pos || !h->tick) return hy_fail_memory(err, "prefix cache", n_node * 16ull);
    for (uint32_t i = 0; i < n_node; i++) h->pos[i] = UINT32_MAX;
    return HY_OK;
}

void hy_kv_heap_close(hy_kv_heap *h)
{
    hy_free(h->node);
    hy_free(h->pos);
    hy_free(h->tick);
}

static bool before(const hy_kv *kv, const hy_kv_heap *h, uint32_t a, uint32_t b)
{
    if (h->tick[a] != h->tick[b]) return h->tick[a] < h->tick[b];
    const hy_kv_node *na = &kv->cache.node[a], *nb = &kv->cache.node[b];
    return na->depth != nb->depth ? na->depth < nb->depth : a < b;
}

static void place(hy_kv_heap *h, uint32_t i, uint32_t node)
{
    h->node[i] = node;
    h->pos[node] = i;
}

/* Node belongs near i: moves others until it may stay. */
static void settle(const hy_kv *kv, hy_kv_heap *h, uint32_t i, uint32_t node)
{
    while (i > 0 && before(kv, h, node, h->node[(i - 1) / 2])) {
        place(h, i, h->node[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    for (;;) {
        uint32_t k = 2 * i + 1;
        if (k >= h->n) break;
        if (k + 1 < h->n && before(kv, h, h->node[k + 1], h->node[k])) k++;
        if (!before(kv, h, h->node[k], node)) break;
        place(h, i, h->node[k]);
        i = k;
    }
    place(h, i, node);
}

void hy_kv_heap_set(const hy_kv *kv, hy_kv_heap *h, uint32_t node, bool in)
{
    uint32_t i = h->pos[node];
    if (in == (i != UINT32_MAX)) return;
    if (in) {
        h->n++;
        settle(kv, h, h->n - 1, node);
        return;
    }
    uint32_t last = h->node[--h->n];
    h->pos[node] = UINT32_MAX;
    if (last != node) settle(kv, h, i, last);
}

void hy_kv_heap_touch(const hy_kv *kv, hy_kv_heap *h, uint32_t node, uint64_t tick)
{
    h->tick[node] = tick;
    if (h->pos[node] != UINT32_MAX) settle(kv, h, h->pos[node], node);
}
