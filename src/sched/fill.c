#include "sched/sched.h"

uint32_t hy_sched_fill(hy_sched_seq *seq, uint32_t n_seq, uint32_t budget)
{
    uint32_t left = budget;
    for (uint32_t i = 0; i < n_seq; i++) seq[i].n_give = 0;
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < n_seq && left > 0; i++) {
            uint32_t want = seq[i].n_known - seq[i].n_done;
            if ((want == 1) != (pass == 0)) continue;
            seq[i].n_give = HY_MIN(want, left);
            left -= seq[i].n_give;
        }
    }
    return budget - left;
}

uint32_t hy_sched_victim(const hy_sched_seq *seq, uint32_t n_seq, uint32_t keep)
{
    uint32_t best = n_seq;
    for (uint32_t i = 0; i < n_seq; i++) {
        if (i == keep) continue;
        if (best == n_seq || seq[i].n_done <= seq[best].n_done) best = i;
    }
    return best;
}

bool hy_sched_fits(const hy_kv *kv, uint32_t n_tok, uint32_t n_spare)
{
    for (uint32_t g = 0; g < hy_kv_n_group(kv); g++)
        if (hy_kv_need(kv, g, n_tok) + n_spare > hy_kv_free_pages(kv, g)) return false;
    return true;
}
