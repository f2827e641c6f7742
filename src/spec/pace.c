/* Whether a sequence goes on drafting: what it may lose, and when it tries again. */
#include "spec/spec.h"

#define SILENCE_FIRST 8        /* steps before the first try */
#define SILENCE_MIN 16
#define SILENCE_MAX 1024
#define CREDIT 1.0             /* tokens that may be lost at once ... */
#define RATE 0.012             /* ... and beside, of each decoded one */
#define SAVED 8.0              /* most tokens won that may be lost again */
#define SPENT 4.0              /* debt of all at which new sequences have no credit */

void hy_spec_pace_init(hy_spec_pace *p, const hy_spec_pace *all)
{
    p->wait = SILENCE_FIRST;
    p->silence = SILENCE_MIN;
    p->debt = all ? HY_MIN(HY_MAX(all->debt / SPENT, 0), 1) * CREDIT : 0;
}

bool hy_spec_pace_may(const hy_spec_pace *p, double cost)
{
    return p->debt + cost < CREDIT;
}

bool hy_spec_pace_step(hy_spec_pace *p)
{
    if (p->wait == 0) return true;
    p->wait--;
    return false;
}

void hy_spec_pace_tried(hy_spec_pace *p, bool good)
{
    p->wait = good ? 0 : p->silence;
    p->silence = good ? SILENCE_MIN : HY_MIN(2 * p->silence, SILENCE_MAX);
    if (good) p->debt = HY_MIN(p->debt, 0); /* the text has changed its nature */
}

void hy_spec_pace_paid(hy_spec_pace *p, uint32_t n_plain, double brought, double cost)
{
    p->debt = HY_MAX(p->debt + cost - brought - RATE * n_plain, -SAVED);
}
