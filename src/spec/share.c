/* How much each sequence drafts: rows are given one by one to whoever's next token is likeliest to be accepted;
 * of all the totals that this passes the one with the most tokens a millisecond is taken. (The curve of costs has
 * steps, so the first row that does not pay is no reason to stop.) */
#include "spec/spec.h"
#include <string.h>


static uint32_t next_row(hy_spec_want *w, uint32_t n_want, const double *reach, double *chance)
{
    uint32_t best = n_want;
    *chance = 0;
    for (uint32_t i = 0; i < n_want; i++) {
        if (w[i].n >= w[i].most) continue;
        double v = reach[i] * w[i].p[w[i].n];
        if (v <= *chance) continue;
        *chance = v;
        best = i;
    }
    return best;
}

/* One pass: stops after `total` rows; the best total and its gain come out. */
static uint32_t pass(hy_spec_want *w, uint32_t n_want, uint32_t n_base, uint32_t total, const hy_spec_cost *target,
                     const hy_spec_cost *draft, double *gain)
{
    enum { MANY = 1024 };
    double reach[MANY], tokens = n_base, plain = n_base / hy_spec_cost_ms(target, n_base), draft_ms = 0;
    uint32_t level[HY_SPEC_MAX] = { 0 }, best = 0;
    *gain = 1;
    n_want = HY_MIN(n_want, MANY);
    for (uint32_t i = 0; i < n_want; i++) {
        w[i].n = 0;
        reach[i] = 1;
    }
    for (uint32_t given = 1; given <= total; given++) {
        double chance;
        uint32_t i = next_row(w, n_want, reach, &chance);
        if (i == n_want) break;
        if (w[i].model && draft) {
            uint32_t *at = &level[w[i].n];
            draft_ms += hy_spec_cost_ms(draft, *at + 1) - hy_spec_cost_ms(draft, *at);
            ++*at;
        }
        reach[i] = chance;
        w[i].n++;
        tokens += chance;
        double g = tokens / (hy_spec_cost_ms(target, n_base + given) + draft_ms) / plain;
        if (g <= *gain) continue;
        *gain = g;
        best = given;
    }
    return best;
}

double hy_spec_share(hy_spec_want *w, uint32_t n_want, uint32_t n_plain, uint32_t room, const hy_spec_cost *target,
                     const hy_spec_cost *draft)
{
    double gain = 1, again;
    uint32_t best = n_want ? pass(w, n_want, n_plain + n_want, room, target, draft, &gain) : 0;
    if (gain < HY_SPEC_LEAST) best = 0;
    if (n_want) (void)pass(w, n_want, n_plain + n_want, best, target, draft, &again);
    return best ? gain : 1;
}
