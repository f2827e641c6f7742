/* What rows cost: a curve through knots. */
#include "spec/spec.h"
#include <math.h>
#include <string.h>

const uint32_t hy_spec_knot[HY_SPEC_KNOTS] = { 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64, 128 };

/* Where nothing was measured a row costs what the last ones did; where only one was, as much as that one. */
static double beyond(const hy_spec_cost *c, uint32_t n_knot, uint32_t i)
{
    if (n_knot < 2) return hy_spec_knot[i];
    uint32_t b = n_knot - 1, a = b - 1;
    double slope = (c->shape[b] - c->shape[a]) / (hy_spec_knot[b] - hy_spec_knot[a]);
    return c->shape[b] + slope * (hy_spec_knot[i] - hy_spec_knot[b]);
}

void hy_spec_cost_set(hy_spec_cost *c, const double *ms, uint32_t n_knot)
{
    memset(c->seen, 0, sizeof c->seen);
    c->known = n_knot > 0 && ms[0] > 0 && isfinite(ms[0]);
    c->scale = c->known ? ms[0] : 1;
    n_knot = c->known ? HY_MIN(n_knot, HY_SPEC_KNOTS) : 0;
    for (uint32_t i = 0; i < HY_SPEC_KNOTS; i++) {
        double v = i < n_knot && isfinite(ms[i]) ? ms[i] / c->scale : beyond(c, n_knot, i);
        c->shape[i] = i ? HY_MAX(v, c->shape[i - 1]) : 1;
    }
}

/* The knot at or before n_row (not the last one), and how far n_row is towards the next. */
static uint32_t find(uint32_t n_row, double *part)
{
    uint32_t i = 0;
    while (i + 2 < HY_SPEC_KNOTS && hy_spec_knot[i + 1] <= n_row) i++;
    *part = ((double)n_row - hy_spec_knot[i]) / (hy_spec_knot[i + 1] - hy_spec_knot[i]);
    return i;
}

double hy_spec_cost_ms(const hy_spec_cost *c, uint32_t n_row)
{
    if (n_row == 0) return 0;
    double part;
    uint32_t i = find(n_row, &part);
    return c->scale * (c->shape[i] + part * (c->shape[i + 1] - c->shape[i]));
}

/* Where nearly all steps have as many rows as this one, it tells of the machine and the context, not of the shape. */
static double rare(hy_spec_cost *c, uint32_t i)
{
    double all = 0;
    for (uint32_t k = 0; k < HY_SPEC_KNOTS; k++) all += c->seen[k] *= 0.98;
    all += 1;
    c->seen[i] += 1;
    return 1 - c->seen[i] / all;
}

bool hy_spec_cost_stale(const hy_spec_cost *c, uint32_t n_row, double fade)
{
    double all = 0, part;
    for (uint32_t k = 0; k < HY_SPEC_KNOTS; k++) all += c->seen[k];
    uint32_t i = find(n_row, &part);
    return all > 3 && c->seen[part < 0.5 ? i : i + 1] < fade;
}

void hy_spec_cost_add(hy_spec_cost *c, uint32_t n_row, double ms)
{
    if (n_row == 0 || !(ms > 0) || !isfinite(ms)) return;
    double ratio = ms / hy_spec_cost_ms(c, n_row), part;
    ratio = HY_MIN(HY_MAX(ratio, 0.5), 2); /* a step that was interrupted says little */
    uint32_t i = find(n_row, &part);
    part = HY_MIN(part, 1);
    uint32_t at = part < 0.5 ? i : i + 1;
    double first = c->seen[at] < 4 ? 0.3 : 0.1; /* what was measured at start may be wrong */
    double rate = first * rare(c, at);
    c->scale *= 1 + 0.1 * (ratio - 1);
    c->shape[i] *= 1 + rate * (1 - part) * (ratio - 1);
    c->shape[i + 1] *= 1 + rate * part * (ratio - 1);
    for (uint32_t k = i + 1; k < HY_SPEC_KNOTS; k++) c->shape[k] = HY_MAX(c->shape[k], c->shape[k - 1]);
    for (uint32_t k = i + 1; k-- > 0;) c->shape[k] = HY_MIN(c->shape[k], c->shape[k + 1]);
}
