/* A row of logits in blocks: what is known of each, and finding candidates by it. */
#include "sample/sample_impl.h"
#include <string.h>

static void measure(hy_sampler *w, uint32_t b, float t)
{
    uint32_t first = b * HY_LOGIT_BLOCK;
    w->measure(w->measure_ctx, w->x + first, hy_block_end(w, b) - first, t, &w->max[b], t > 0 ? &w->sum[b] : NULL);
}

void hy_blocks_begin(hy_sampler *w, float *logits, uint32_t n, const hy_logit_row *kept)
{
    w->x = logits;
    w->n = n;
    w->n_block = hy_logit_blocks(n);
    w->t = 1;
    w->sum_t = kept ? kept->temperature : 0;
    w->listed = false;
    w->n_cand = 0;
    memset(w->state, 0, w->n_block);
    if (!kept) {
        for (uint32_t b = 0; b < w->n_block; b++) measure(w, b, 0);
        return;
    }
    memcpy(w->max, kept->max, w->n_block * sizeof *w->max);
    if (w->sum_t > 0) memcpy(w->sum, kept->sum, w->n_block * sizeof *w->sum);
}

/* ---- changes ---------------------------------------------------------------------------------- */

static void touch_block(hy_sampler *w, uint32_t b)
{
    uint32_t first = b * HY_LOGIT_BLOCK;
    if (!(w->state[b] & HY_SB_SAVED))
        memcpy(w->raw + first, w->x + first, (hy_block_end(w, b) - first) * sizeof *w->x);
    w->state[b] |= HY_SB_SAVED | HY_SB_STALE;
}

void hy_blocks_touch(hy_sampler *w, uint32_t id)
{
    if (id < w->n) touch_block(w, id / HY_LOGIT_BLOCK);
}

float hy_blocks_raw(const hy_sampler *w, uint32_t id)
{
    return w->state[id / HY_LOGIT_BLOCK] & HY_SB_SAVED ? w->raw[id] : w->x[id];
}

void hy_blocks_mask(hy_sampler *w, const uint32_t *mask)
{
    for (uint32_t b = 0; b < w->n_block; b++) {
        uint32_t first = b * HY_LOGIT_BLOCK, end = hy_block_end(w, b), any = 0, all = UINT32_MAX;
        for (uint32_t i = first; i < end; i += 32) {
            uint32_t here = end - i < 32 ? (1u << (end - i)) - 1 : UINT32_MAX, m = mask[i / 32];
            any |= m & here;
            all &= m | ~here;
        }
        if (!any) {
            w->state[b] |= HY_SB_DEAD;
            w->max[b] = -INFINITY;
        } else if (all != UINT32_MAX) {
            touch_block(w, b);
            for (uint32_t i = first; i < end; i++)
                if (!(mask[i / 32] >> (i % 32) & 1)) w->x[i] = -INFINITY;
        }
    }
}

void hy_blocks_refresh(hy_sampler *w)
{
    for (uint32_t b = 0; b < w->n_block; b++) {
        if ((w->state[b] & (HY_SB_STALE | HY_SB_DEAD)) == HY_SB_STALE) measure(w, b, w->sum_t);
        w->state[b] &= (uint8_t)~HY_SB_STALE;
    }
}

/* ---- questions -------------------------------------------------------------------------------- */

double hy_blocks_mass(hy_sampler *w, float t, float *top)
{
    bool known = w->sum_t == t;
    *top = -INFINITY;
    for (uint32_t b = 0; b < w->n_block; b++) {
        if (!hy_block_alive(w, b)) continue;
        if (!known) measure(w, b, t);
        *top = w->max[b] / t > *top ? w->max[b] / t : *top;
    }
    w->sum_t = t;
    double sum = 0;
    for (uint32_t b = 0; b < w->n_block; b++) /* in this order whoever summed the blocks */
        if (hy_block_alive(w, b)) sum += w->sum[b] * exp((double)(w->max[b] / t) - *top);
    return sum;
}

uint32_t hy_blocks_argmax(const hy_sampler *w)
{
    uint32_t b = 0;
    for (uint32_t i = 1; i < w->n_block; i++)
        if (w->max[i] > w->max[b]) b = i;
    if (!hy_block_alive(w, b)) return 0;
    for (uint32_t i = b * HY_LOGIT_BLOCK; i < hy_block_end(w, b); i++)
        if (w->x[i] == w->max[b]) return i;
    return b * HY_LOGIT_BLOCK;
}

float hy_blocks_nth(hy_sampler *w, uint32_t n)
{
    uint32_t have = 0;
    if (n > w->n_block) return -INFINITY;
    for (uint32_t b = 0; b < w->n_block; b++)
        if (hy_block_alive(w, b)) w->cand[have++] = (hy_cand){ w->max[b] / w->t, (int32_t)b };
    if (n > have) return -INFINITY;
    hy_cand_heapify(w->cand, have);
    float key = 0;
    for (uint32_t i = 0; i < n; i++) key = hy_cand_pop(w->cand, have - i).key;
    return key;
}

void hy_blocks_gather(hy_sampler *w, double least)
{
    uint32_t n = 0;
    for (uint32_t b = 0; b < w->n_block; b++) {
        if (!hy_block_alive(w, b) || w->max[b] / w->t < least) continue;
        for (uint32_t i = b * HY_LOGIT_BLOCK; i < hy_block_end(w, b); i++) {
            float key = w->x[i] / w->t;
            if (key >= least && key > -INFINITY) w->cand[n++] = (hy_cand){ key, (int32_t)i };
        }
    }
    w->n_cand = n;
    w->listed = true;
}
