/* The cost model: three coefficients, least squares over a decaying memory of steps. */
#include "sched/sched.h"
#include <math.h>
#include <string.h>

#define DECAY 0.99             /* a step's weight halves in 69 steps */
#define ANCHOR 1e-3            /* weight of "as before" beside what the steps say */
#define HUBER 0.25             /* relative errors beyond it count linearly */

void hy_sched_shape_of(hy_sched_shape *sh, const hy_kv *kv)
{
    memset(sh, 0, sizeof *sh);
    sh->n_part = hy_kv_n_group(kv);
    double all = 0;
    for (uint32_t g = 0; g < sh->n_part; g++) all += hy_kv_group_of(kv, g)->n_layer;
    for (uint32_t g = 0; g < sh->n_part; g++) {
        sh->part[g].window = hy_kv_group_of(kv, g)->window;
        sh->part[g].share = all > 0 ? hy_kv_group_of(kv, g)->n_layer / all : 0;
    }
}

/* 1 + 2 + ... + n */
static double triangle(double n)
{
    return n * (n + 1) / 2;
}

double hy_sched_keys(const hy_sched_shape *sh, uint32_t pos0, uint32_t n)
{
    double sum = 0, first = pos0, last = (double)pos0 + n; /* a query at position p reads p + 1 keys */
    for (uint32_t i = 0; i < sh->n_part; i++) {
        double w = sh->part[i].window ? sh->part[i].window : INFINITY;
        double part = last <= w ? triangle(last) - triangle(first)
                    : first >= w ? w * n : triangle(w) - triangle(first) + w * (last - w);
        sum += sh->part[i].share * part;
    }
    return sum;
}

void hy_sched_cost_init(hy_sched_cost *c)
{
    memset(c, 0, sizeof *c);
}

double hy_sched_cost_ms(const hy_sched_cost *c, double n_tok, double keys)
{
    return c->w[0] + c->w[1] * n_tok + c->w[2] * keys / 1000;
}

/* Solves the equations of the coefficients in `set` (bits); the others are 0. False: singular. */
static bool solve(const double a[3][3], const double b[3], unsigned set, double w[3])
{
    double m[3][4];
    int idx[3], n = 0;
    for (int i = 0; i < 3; i++) {
        w[i] = 0;
        if (set >> i & 1) idx[n++] = i;
    }
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) m[i][j] = a[idx[i]][idx[j]];
        m[i][n] = b[idx[i]];
    }
    for (int i = 0; i < n; i++) { /* positive definite: no pivoting needed */
        if (!(m[i][i] > 0)) return false;
        for (int k = i + 1; k < n; k++) {
            double f = m[k][i] / m[i][i];
            for (int j = i; j <= n; j++) m[k][j] -= f * m[i][j];
        }
    }
    for (int i = n; i-- > 0;) {
        double v = m[i][n];
        for (int j = i + 1; j < n; j++) v -= m[i][j] * w[idx[j]];
        w[idx[i]] = v / m[i][i];
        if (!isfinite(w[idx[i]])) return false;
    }
    return true;
}

/* The best w >= 0 of w'Aw - 2b'w, by trying every set of coefficients that are not 0. */
static void fit(hy_sched_cost *c)
{
    double a[3][3], b[3], best[3] = { 0, 0, 0 }, least = 0;
    memcpy(a, c->a, sizeof a);
    memcpy(b, c->b, sizeof b);
    for (int i = 0; i < 3; i++) {
        a[i][i] += c->anchor[i];
        b[i] += c->anchor[i] * c->w[i];
    }
    for (unsigned set = 1; set < 8; set++) {
        double w[3], v = 0;
        if (!solve((const double(*)[3])a, b, set, w)) continue;
        if (w[0] < 0 || w[1] < 0 || w[2] < 0) continue;
        for (int i = 0; i < 3; i++) {
            v -= 2 * b[i] * w[i];
            for (int j = 0; j < 3; j++) v += w[i] * a[i][j] * w[j];
        }
        if (v < least) {
            least = v;
            memcpy(best, w, sizeof best);
        }
    }
    memcpy(c->w, best, sizeof best);
}

void hy_sched_cost_add(hy_sched_cost *c, uint32_t n_tok, double keys, double ms)
{
    if (n_tok == 0 || !(ms > 0) || !isfinite(ms)) return;
    const double x[3] = { 1, n_tok, keys / 1000 };
    double weight = 1 / (ms * ms), off = fabs(hy_sched_cost_ms(c, n_tok, keys) - ms) / ms;
    if (c->n >= 4) {
        c->error = c->error == 0 ? off : 0.95 * c->error + 0.05 * HY_MIN(off, 4);
        if (off > HUBER) weight *= HUBER / off;
    }
    /* Until steps tell the three apart the time is put down to the tokens: that errs on the side of shorter
     * steps for long chunks, and the anchor is firmest for the others. */
    const double firm[3] = { 10 * ANCHOR, ANCHOR, 10 * ANCHOR };
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) c->a[i][j] = DECAY * c->a[i][j] + weight * x[i] * x[j];
        c->b[i] = DECAY * c->b[i] + weight * x[i] * ms;
        double d = firm[i] * HY_MAX(c->a[i][i], weight * x[i] * x[i]);
        c->anchor[i] = HY_MAX(d, c->anchor[i] * 0.999);
    }
    c->n++;
    fit(c);
}
