/* The end of the last matmul: the largest logit of each block of columns, and the sum of exponentials where the sampler
 * will want it, by the thread that made the columns and while they are in its cache. Sums of blocks are put together
 * by the sampler in the order of blocks, so threads and batches change no bit. */
#include "plan/instr.h"

bool hy_keeps_logits(const hy_plan *p, const hy_entry *e)
{
    return p->b->kept && e == &p->entry[p->n_entry - 1] && e->kind == HY_KIND_COLS && p->prim[e->first].out == HY_S_L;
}

void hy_op_keep(const hy_plan *p, uint32_t t0, uint32_t t1, uint32_t c0, uint32_t c1)
{
    for (uint32_t t = t0; t < t1; t++) {
        const hy_logit_row *to = &p->b->kept[t];
        const float *x = hy_slot_row(p, HY_S_L, t);
        for (uint32_t c = c0; c < c1; c += HY_LOGIT_BLOCK) {
            uint32_t b = c / HY_LOGIT_BLOCK, n = HY_MIN((uint32_t)HY_LOGIT_BLOCK, c1 - c);
            hy_kern_logit_block(p->k, x + c, n, to->temperature, &to->max[b], to->temperature > 0 ? &to->sum[b] : NULL);
        }
    }
}

void hy_op_keep_share(const hy_plan *p, const hy_worker *w)
{
    uint32_t n_vocab = p->m->hp.n_vocab;
    uint64_t first, last;
    hy_share(n_vocab, HY_LOGIT_BLOCK, w, &first, &last);
    hy_op_keep(p, 0, p->b->n_out - p->b->n_hidden, (uint32_t)first, (uint32_t)last);
}
