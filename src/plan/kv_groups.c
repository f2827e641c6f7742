/* Layers with the same window share a KV group. */
#include "plan/plan.h"

uint32_t hy_model_kv_groups(const hy_model *m, hy_kv_type type, hy_kv_group group[HY_KV_GROUPS_MAX],
                            uint8_t *layer_group, uint16_t *layer_index)
{
    const hy_hparams *hp = &m->hp;
    uint64_t head_bytes = hy_kv_k_bytes(type, hp->d_k) + hy_kv_v_bytes(type, hp->d_v);
    uint32_t n = 0;
    for (uint32_t l = 0; l < hp->n_layer; l++) {
        const hy_layer_params *lp = &hp->layer[l];
        uint32_t g = 0;
        while (g < n && group[g].window != lp->window) g++;
        if (g == n) {
            if (n == HY_KV_GROUPS_MAX) return 0;
            group[n++] = (hy_kv_group){ .window = lp->window, .part_bytes = head_bytes };
        }
        layer_group[l] = (uint8_t)g;
        layer_index[l] = (uint16_t)group[g].n_layer++;
        group[g].page_bytes += lp->n_kv_head * head_bytes;
    }
    return n;
}
