/* How much each sequence drafts: rows are given one by one to whoever's next token is likeliest to be accepted;
 * of all the totals that this passes the one with the most tokens a millisecond is taken. (The curve of costs has
 * steps, so the first row that does not pay is no reason to stop.) */
#include "spec/spec.h"

/* What a drafted row costs, in plain tokens. */
static double price(const hy_spec_want *w, uint32_t n_base, const hy_spec_cost *target, const hy_spec_cost *draft)
{
    double plain = hy_spec_cost_ms(target, n_base), row = (hy_spec_cost_ms(target, n_base + 4) - plain) / 4;
    return (row + (w->model && draft ? hy_spec_cost_ms(draft, 1) : 0)) * n_base / plain;
}

/* As many rows as it could lose half of. */
static bool may(const hy_spec_want *w, double row)
{
    return !w->pace || hy_spec_pace_may(w->pace, 0.5 * row * (w->n + 1));
}

static uint32_t next_row(hy_spec_want *w, uint32_t n_want, const double *reach, const double *row, double *chance)
{
    uint32_t best = n_want;
    *chance = 0;
    for (uint32_t i = 0; i < n_want; i++) {
        if (w[i].n >= w[i].most || !may(&w[i], row[w[i].model])) continue;
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
    const hy_spec_want of[2] = { { .model = false }, { .model = true } };
    const double row[2] = { price(&of[0], n_base, target, draft), price(&of[1], n_base, target, draft) };
    *gain = 1;
    n_want = HY_MIN(n_want, MANY);
    for (uint32_t i = 0; i < n_want; i++) {
        w[i].n = 0;
        reach[i] = 1;
    }
    for (uint32_t given = 1; given <= total; given++) {
        double chance;
        uint32_t i = next_row(w, n_want, reach, row, &chance);
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

#define SMALL 1.5              /* a gain that is compared with plain decoding more often */
#define TRY 2                  /* tokens of a try */
#define LATER 16               /* steps until somebody looks again whether a try could pay */

double hy_spec_gain_of_all(uint32_t n, double p, uint32_t room, const hy_spec_cost *target, const hy_spec_cost *draft)
{
    double reach = 1, tokens = n, best = 1, plain = hy_spec_cost_ms(target, n);
    for (uint32_t k = 1; k <= HY_SPEC_MAX && n * k <= room; k++) {
        reach *= p;
        tokens += n * reach;
        double ms = hy_spec_cost_ms(target, n * (1 + k)) + (draft ? k * hy_spec_cost_ms(draft, n) : 0);
        best = HY_MAX(best, tokens / n * plain / ms);
    }
    return best >= HY_SPEC_LEAST ? best : 1;
}

/* Would drafting pay if it were nearly always right? Then what it is worth is looked at again now and then. */
static bool could_pay(const hy_spec_want *w, uint32_t n_base, uint32_t room, const hy_spec_cost *target,
                      const hy_spec_cost *draft)
{
    hy_spec_want dream = *w;
    double gain;
    for (uint32_t k = 0; k < HY_SPEC_MAX; k++) dream.p[k] = 0.95;
    dream.pace = NULL;
    return pass(&dream, 1, n_base, room, target, draft, &gain) && gain >= HY_SPEC_LEAST;
}

/* One of those that draft nothing tries a few tokens, if its time has come. */
static void try_one(hy_spec_want *w, uint32_t n_want, uint32_t n_base, uint32_t room, const hy_spec_cost *target,
                    const hy_spec_cost *draft)
{
    if (room < TRY) return;
    for (uint32_t i = 0; i < n_want; i++) {
        if (!w[i].pace || w[i].n || w[i].most == 0 || !hy_spec_pace_step(w[i].pace)) continue;
        double cost = TRY * price(&w[i], n_base, target, draft);
        if (!hy_spec_pace_may(w[i].pace, cost) || !could_pay(&w[i], n_base, room, target, draft)) {
            w[i].pace->wait = LATER;
            continue;
        }
        w[i].n = HY_MIN(w[i].most, TRY);
        w[i].trial = true;
        return;
    }
}

double hy_spec_share(hy_spec_want *w, uint32_t n_want, uint32_t n_plain, uint32_t room, const hy_spec_cost *target,
                     const hy_spec_cost *draft)
{
    double gain = 1, again;
    uint32_t n_base = n_plain + n_want, best = n_want ? pass(w, n_want, n_base, room, target, draft, &gain) : 0;
    if (gain < HY_SPEC_LEAST || hy_spec_cost_stale(target, n_base, gain < SMALL ? 0.5 : 0.06)) best = 0;
    if (n_want) (void)pass(w, n_want, n_base, best, target, draft, &again);
    for (uint32_t i = 0; i < n_want; i++) w[i].trial = false;
    try_one(w, n_want, n_base + best, room - best, target, draft);
    return best ? gain : 1;
}
