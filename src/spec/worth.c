/* What drafted tokens turned out to be worth. */
#include "spec/spec.h"
#include <math.h>

#define FADE 0.97              /* weight of a token halves in 23 */
#define FADE_ALL 0.998         /* of everybody's: in 350 */
#define TRUST 4.0              /* tokens' weight of everybody's experience beside one's own */
#define PRIOR 8.0              /* and of the first guess beside everybody's */

/* First guesses: steps that were tried put them right. */
const double hy_spec_prior_match[HY_SPEC_BANDS] = { 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95 };
const double hy_spec_prior_model[HY_SPEC_BANDS] = { 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95 };

uint32_t hy_spec_band_of_match(uint32_t n_match)
{
    static const uint8_t least[HY_SPEC_BANDS] = { 0, 3, 4, 5, 7, 10, 16, 32 };
    uint32_t band = 0;
    while (band + 1 < HY_SPEC_BANDS && n_match >= least[band + 1]) band++;
    return band;
}

uint32_t hy_spec_band_of_lead(double lead)
{
    static const double least[HY_SPEC_BANDS] = { -HUGE_VAL, 0.25, 0.5, 1, 1.5, 2.5, 4, 6 };
    uint32_t band = 0;
    while (band + 1 < HY_SPEC_BANDS && lead >= least[band + 1]) band++;
    return band;
}

void hy_spec_worth_init(hy_spec_worth *w, const double prior[HY_SPEC_BANDS])
{
    for (uint32_t b = 0; b < HY_SPEC_BANDS; b++) {
        w->tried[b] = prior ? PRIOR : 0;
        w->hit[b] = prior ? PRIOR * prior[b] : 0;
    }
}

void hy_spec_worth_add(hy_spec_worth *w, const uint8_t *band, uint32_t n, uint32_t n_accepted)
{
    uint32_t n_told = HY_MIN(n, n_accepted + 1);
    for (uint32_t i = 0; i < n_told; i++) {
        uint32_t b = HY_MIN(band[i], HY_SPEC_BANDS - 1u);
        double fade = w->tried[b] > 60 ? FADE_ALL : FADE;
        w->tried[b] = fade * w->tried[b] + 1;
        w->hit[b] = fade * w->hit[b] + (i < n_accepted);
    }
}

double hy_spec_worth_of(const hy_spec_worth *own, const hy_spec_worth *all, uint32_t band)
{
    double p = all->tried[band] > 0 ? all->hit[band] / all->tried[band] : 0;
    return (own->hit[band] + TRUST * p) / (own->tried[band] + TRUST);
}

double hy_spec_worth_mean(const hy_spec_worth *own, const hy_spec_worth *all)
{
    double tried = 0, hit = 0, all_tried = 0, all_hit = 0;
    for (uint32_t b = 0; b < HY_SPEC_BANDS; b++) {
        tried += own->tried[b];
        hit += own->hit[b];
        all_tried += all->tried[b];
        all_hit += all->hit[b];
    }
    double p = all_tried > 0 ? all_hit / all_tried : 0;
    return (hit + TRUST * p) / (tried + TRUST);
}
