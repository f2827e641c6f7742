/* The search of `hayate tune`: one setting after the other, its values and the best point so far measured in turns, the
 * worse half of the values struck out after every round. A value is kept only when it wins by more than its spread. At
 * the end the whole is measured once more against the defaults, and what does not win there is taken back: the result
 * is never worse than the defaults. */
#include "tune.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define ROUNDS_LEAST 3         /* before a value may be kept */
#define FOR_FINAL 0.78         /* of the time: from there on nothing new is begun */
#define FOR_BEGIN 0.2          /* of the time: from there on one sample of the defaults must do */
#define HOPELESS 1.25          /* one round is enough to strike such a ratio out */
#define PASSES 2

/* One value in the race against the best point. */
typedef struct runner {
    hy_tune_point point;
    hy_tune_trial *trial;
    hy_tune_sample sample[HY_TUNE_ROUNDS], base[HY_TUNE_ROUNDS]; /* of the same rounds */
    double ratio[HY_TUNE_ROUNDS];
    double beyond;             /* how far its worst guard is beyond the limit */
    uint32_t n;
    bool out;
} runner;

static bool time_left(const hy_tune_search *s)
{
    return s->field.spent(s->field.ctx) < FOR_FINAL;
}

/* Does this failure concern one value only? */
static bool of_value(hy_status st)
{
    return st == HY_E_ARG || st == HY_E_LIMIT || st == HY_E_UNSUPPORTED;
}

static void note(hy_tune_trial *t, const hy_err *why)
{
    snprintf(t->why, sizeof t->why, "%.*s", (int)sizeof t->why - 1, why->msg);
}

static hy_status take(hy_tune_search *s, const hy_tune_point *p, hy_tune_sample *out, hy_err *err)
{
    HY_TRY(s->field.measure(s->field.ctx, p, out, err));
    s->n_measured++;
    return HY_OK;
}

static double median_of(const hy_tune_sample *v, uint32_t n, int which)
{
    double x[HY_TUNE_ROUNDS];
    for (uint32_t i = 0; i < n; i++) x[i] = which < 0 ? v[i].cost : v[i].guard[which];
    return hy_median(x, n);
}

static void medians(const hy_tune_sample *v, uint32_t n, hy_tune_sample *out)
{
    out->cost = median_of(v, n, -1);
    for (int i = 0; i < 2; i++) out->guard[i] = median_of(v, n, i);
}

/* How far the worst guard is beyond a limit that was given as such; 1 or less: within all. */
static double beyond(const hy_tune_search *s, const hy_tune_sample *m)
{
    double most = 0;
    for (int i = 0; i < 2; i++)
        if (s->guard_max[i] > 0) most = HY_MAX(most, m->guard[i] / s->guard_max[i]);
    return most;
}

/* Guards as shares of the defaults'; base_share: those of the point that r is compared with. Returns how far the worst
 * is beyond its limit. */
static double shares(const hy_tune_search *s, const runner *r, const double base_share[2], double out[2])
{
    double most = 0;
    for (int i = 0; i < 2; i++) {
        double x[HY_TUNE_ROUNDS];
        out[i] = 1;
        if (!(s->guard_share[i] > 0)) continue;
        for (uint32_t k = 0; k < r->n; k++)
            x[k] = r->base[k].guard[i] > 0 ? r->sample[k].guard[i] / r->base[k].guard[i] : 1;
        out[i] = base_share[i] * hy_median(x, r->n);
        most = HY_MAX(most, out[i] / s->guard_share[i]);
    }
    return most;
}

/* Ratio and spread of the rounds so far. Where the best point itself is beyond a limit, the goal is to come nearer. */
static void judge(const hy_tune_search *s, runner *r, const double base_share[2])
{
    hy_tune_sample mine, base;
    double share[2];
    medians(r->sample, r->n, &mine);
    medians(r->base, r->n, &base);
    hy_tune_trial *t = r->trial;
    t->nearer = beyond(s, &base) > 1;
    for (uint32_t i = 0; i < r->n; i++)
        r->ratio[i] = t->nearer ? beyond(s, &r->sample[i]) / beyond(s, &r->base[i])
                                : r->sample[i].cost / r->base[i].cost;
    t->n_round = r->n;
    t->cost = t->nearer ? mine.guard[0] : mine.cost;
    t->base_cost = t->nearer ? base.guard[0] : base.cost;
    t->ratio = hy_median(r->ratio, r->n);
    t->spread = hy_quantile(r->ratio, r->n, 0.75) - hy_quantile(r->ratio, r->n, 0.25);
    double gain = 1 - t->ratio;
    r->beyond = HY_MAX(shares(s, r, base_share, share), t->nearer ? 0 : beyond(s, &mine));
    if (r->beyond > 1) t->verdict = HY_TUNE_LIMIT;
    else if (gain <= 0) t->verdict = HY_TUNE_WORSE;
    else if (gain <= s->floor || gain <= t->spread) t->verdict = HY_TUNE_NOISE;
    else t->verdict = r->n < ROUNDS_LEAST ? HY_TUNE_NO_TIME : HY_TUNE_BETTER;
}

/* A round: the best point, then every value that is still in. The order turns, so that what changes on the machine
 * meets them alike. */
static hy_status one_round(hy_tune_search *s, runner *r, uint32_t n, uint32_t i_round, hy_err *err)
{
    hy_tune_sample base = { 0 };
    if (i_round % 2 == 0) HY_TRY(take(s, &s->best, &base, err));
    for (uint32_t k = 0; k < n; k++) {
        runner *x = &r[i_round % 2 ? n - 1 - k : k];
        if (x->out) continue;
        if (s->field.trying) s->field.trying(s->field.ctx, x->trial->knob, x->trial->value);
        hy_err why;
        hy_status st = take(s, &x->point, &x->sample[x->n], &why);
        if (st == HY_OK) continue;
        if (!of_value(st)) return hy_fail(err, st, "%s", why.msg);
        x->out = true;
        x->trial->verdict = HY_TUNE_FAILED;
        note(x->trial, &why);
    }
    if (i_round % 2) HY_TRY(take(s, &s->best, &base, err));
    for (uint32_t k = 0; k < n; k++) {
        if (r[k].out) continue;
        r[k].base[r[k].n++] = base;
        judge(s, &r[k], s->best_share);
    }
    return HY_OK;
}

static uint32_t count_in(const runner *r, uint32_t n)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i < n; i++) k += !r[i].out;
    return k;
}

/* The worse the higher: what is beyond a limit is worse than what is not. */
static double rank(const runner *r)
{
    return r->beyond > 1 ? HOPELESS + r->beyond : r->trial->ratio;
}

/* Strikes out what cannot win any more: the clearly worse at once, from the second round on the worse half too. */
static void halve(runner *r, uint32_t n, bool half)
{
    for (uint32_t i = 0; i < n; i++)
        if (!r[i].out && (r[i].trial->ratio > HOPELESS || (r[i].n >= 2 && r[i].trial->ratio >= 1) ||
                          (r[i].trial->verdict == HY_TUNE_LIMIT && (r[i].n >= ROUNDS_LEAST || r[i].beyond > HOPELESS))))
            r[i].out = true;
    for (uint32_t leave = half ? count_in(r, n) / 2 : 0; leave > 0; leave--) {
        uint32_t worst = n;
        for (uint32_t i = 0; i < n; i++)
            if (!r[i].out && (worst == n || rank(&r[i]) > rank(&r[worst]))) worst = i;
        r[worst].out = true;
    }
}

/* Settled: it won so clearly that more rounds would not change it. */
static bool clear_win(const hy_tune_search *s, const hy_tune_trial *t)
{
    return t->verdict == HY_TUNE_BETTER && 1 - t->ratio > 2 * t->spread + s->floor;
}

static hy_status race(hy_tune_search *s, runner *r, uint32_t n, hy_err *err)
{
    for (uint32_t i = 0; i < HY_TUNE_ROUNDS && count_in(r, n) && time_left(s); i++) {
        HY_TRY(one_round(s, r, n, i, err));
        halve(r, n, i > 0);
        for (uint32_t k = 0; k < n; k++)
            if (clear_win(s, r[k].trial)) r[k].out = true;
    }
    return HY_OK;
}

/* May this value be measured at all? Its loss of quality is asked for first. */
static hy_status admit(hy_tune_search *s, runner *r, hy_err *err)
{
    hy_tune_trial *t = r->trial;
    if (!s->lossy[t->knob]) return HY_OK;
    if (s->field.trying) s->field.trying(s->field.ctx, t->knob, t->value);
    hy_err why;
    hy_status st = s->field.loss(s->field.ctx, &r->point, &t->loss, &why);
    if (st == HY_OK && t->loss <= s->loss_max) return HY_OK;
    r->out = true;
    t->verdict = st == HY_OK ? HY_TUNE_LOSS : HY_TUNE_FAILED;
    if (st == HY_OK || of_value(st)) {
        if (st != HY_OK) note(t, &why);
        return HY_OK;
    }
    return hy_fail(err, st, "%s", why.msg);
}

static hy_status one_knob(hy_tune_search *s, uint32_t knob, bool *changed, hy_err *err)
{
    runner r[HY_TUNE_VALUES];
    uint32_t n = 0;
    if (s->lossy[knob] && s->loss_max <= 0) return HY_OK;
    for (uint32_t v = 0; v < s->n_value[knob]; v++) {
        if (v == s->best.at[knob] || s->n_trial == HY_TUNE_TRIALS) continue;
        hy_tune_trial *t = &s->trial[s->n_trial++];
        *t = (hy_tune_trial){ .knob = (uint8_t)knob, .value = (uint8_t)v, .verdict = HY_TUNE_NO_TIME, .loss = NAN };
        r[n] = (runner){ .point = s->best, .trial = t };
        r[n++].point.at[knob] = (uint8_t)v;
    }
    for (uint32_t i = 0; i < n && time_left(s); i++) HY_TRY(admit(s, &r[i], err));
    HY_TRY(race(s, r, n, err));
    runner *first = NULL;
    for (uint32_t i = 0; i < n; i++)
        if (r[i].trial->verdict == HY_TUNE_BETTER && (!first || r[i].trial->ratio < first->trial->ratio)) first = &r[i];
    for (uint32_t i = 0; i < n; i++) /* struck out while it led the best point, or beaten at the end */
        if (&r[i] != first && (r[i].trial->verdict == HY_TUNE_BETTER ||
                               (r[i].out && r[i].n && r[i].trial->verdict == HY_TUNE_NO_TIME)))
            r[i].trial->verdict = HY_TUNE_BEHIND;
    if (first) {
        s->best = first->point;
        (void)shares(s, first, (const double[2]){ s->best_share[0], s->best_share[1] }, s->best_share);
    }
    *changed |= first != NULL;
    return HY_OK;
}

static hy_status search(hy_tune_search *s, hy_err *err)
{
    for (uint32_t pass = 0; pass < PASSES; pass++) {
        bool changed = false;
        for (uint32_t k = 0; k < s->n_knob; k++) {
            if (s->n_value[k] < 2) continue;
            if (!time_left(s)) {
                s->out_of_time |= pass == 0; /* the second pass is a luxury */
                return HY_OK;
            }
            HY_TRY(one_knob(s, k, &changed, err));
        }
        if (!changed) break;
    }
    return HY_OK;
}

/* ---- the end -------------------------------------------------------------------------------------------- */

static bool same_point(const hy_tune_search *s, const hy_tune_point *a, const hy_tune_point *b)
{
    return memcmp(a->at, b->at, s->n_knob) == 0;
}

/* The best point against the defaults, in turns; *holds: it won. */
static hy_status compare(hy_tune_search *s, bool *holds, hy_err *err)
{
    hy_tune_trial t = { .verdict = HY_TUNE_NO_TIME };
    runner r = { .point = s->best, .trial = &t };
    const hy_tune_point best = s->best, none = { { 0 } };
    const double alone[2] = { 1, 1 };
    *holds = false;
    for (uint32_t i = 0; i < HY_TUNE_ROUNDS; i++) {
        if (i >= ROUNDS_LEAST && s->field.spent(s->field.ctx) >= 1) break;
        hy_tune_sample *pair[2] = { &r.base[i], &r.sample[i] };
        for (uint32_t k = 0; k < 2; k++) {
            uint32_t who = (i + k) % 2;
            HY_TRY(take(s, who ? &best : &none, pair[who], err));
        }
        r.n = i + 1;
        judge(s, &r, alone);
        if (i + 1 >= ROUNDS_LEAST && clear_win(s, &t)) break;
        if (i + 1 >= ROUNDS_LEAST && t.ratio >= 1) break;
    }
    medians(r.base, r.n, &s->last_default);
    medians(r.sample, r.n, &s->last_best);
    s->cost_default = s->last_default.cost;
    s->cost_best = s->last_best.cost;
    s->ratio = t.nearer ? s->cost_best / s->cost_default : t.ratio;
    s->spread = t.spread;
    s->n_final = r.n;
    *holds = t.verdict == HY_TUNE_BETTER;
    return HY_OK;
}

/* The trial that was kept last. */
static hy_tune_trial *last_kept(hy_tune_search *s)
{
    for (uint32_t i = s->n_trial; i-- > 0;)
        if (s->trial[i].verdict == HY_TUNE_BETTER) return &s->trial[i];
    return NULL;
}

/* What stood for this setting before a trial was kept. */
static uint8_t before(const hy_tune_search *s, const hy_tune_trial *t)
{
    for (const hy_tune_trial *x = t; x-- > s->trial;)
        if (x->knob == t->knob && x->verdict == HY_TUNE_BETTER) return x->value;
    return 0;
}

static void back_to_defaults(hy_tune_search *s)
{
    memset(&s->best, 0, sizeof s->best);
    for (uint32_t i = 0; i < s->n_trial; i++)
        if (s->trial[i].verdict == HY_TUNE_BETTER) s->trial[i].verdict = HY_TUNE_DROPPED;
    s->ratio = 1;
    s->last_best = s->last_default;
    s->cost_best = s->cost_default;
}

static hy_status confirm(hy_tune_search *s, hy_err *err)
{
    const hy_tune_point none = { { 0 } };
    bool holds = false;
    while (!same_point(s, &s->best, &none)) {
        hy_status st = compare(s, &holds, err);
        if (st != HY_OK && !of_value(st)) return st;
        if (st == HY_OK && holds) break;
        hy_tune_trial *t = last_kept(s);
        if (!t || s->field.spent(s->field.ctx) >= 1) break;
        t->verdict = HY_TUNE_DROPPED;
        s->best.at[t->knob] = before(s, t);
    }
    if (!holds) back_to_defaults(s);
    s->in_limits = beyond(s, &s->last_best) <= 1;
    return HY_OK;
}

/* The defaults first: what limits as shares of theirs mean, and that they run at all. */
static hy_status begin(hy_tune_search *s, hy_err *err)
{
    hy_tune_sample v[ROUNDS_LEAST];
    const hy_tune_point none = { { 0 } };
    hy_status st = HY_OK;
    for (uint32_t i = 0; i < ROUNDS_LEAST && st == HY_OK; i++) {
        if (i && s->field.spent(s->field.ctx) > FOR_BEGIN) break;
        st = take(s, &none, &v[i], err);
        if (st == HY_OK) medians(v, i + 1, &s->last_default);
    }
    s->cost_default = s->last_default.cost;
    back_to_defaults(s);
    s->in_limits = beyond(s, &s->last_default) <= 1;
    return st;
}

/* Stopped before the end: the comparisons so far are what is known. */
static void as_it_stands(hy_tune_search *s)
{
    s->stopped = true;
    s->ratio = 1;
    s->spread = 0;
    s->n_final = 0;
    for (uint32_t i = 0; i < s->n_trial; i++)
        if (s->trial[i].verdict == HY_TUNE_BETTER) s->ratio *= s->trial[i].ratio;
    s->cost_best = s->ratio * s->cost_default;
}

hy_status hy_tune_run(hy_tune_search *s, hy_err *err)
{
    hy_tune_point none = { { 0 } };
    s->best = none;
    s->best_share[0] = s->best_share[1] = 1;
    s->n_trial = s->n_measured = s->n_final = 0;
    s->stopped = s->out_of_time = false;
    hy_status st = begin(s, err);
    if (st != HY_OK && s->n_measured == 0) return st;
    if (st == HY_OK) st = search(s, err);
    if (st == HY_OK) st = confirm(s, err);
    if (st != HY_E_CANCELLED) return st;
    as_it_stands(s);
    return HY_OK;
}
