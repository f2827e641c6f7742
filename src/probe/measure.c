/* The measurements: a team runs one loop for a slice of time, each worker on its own share, and the rates
 * are added up. A try that a neighbour disturbed is slower, never faster, so the best of three counts. */
#include "probe/probe_room.h"
#include <stdlib.h>
#include <string.h>

enum { n_try = 3, slice_ms_usual = 40, total_ms = 6000 };
#define PIECE (1 * HY_MIB)     /* of a share between two looks at the clock */
#define LINE 512               /* shares are whole units of this */

typedef struct job {
    const hy_probe_isa *isa;
    hy_probe_ops_fn *ops;      /* or NULL: read, or copy */
    bool copy;
    uint8_t *data;
    uint64_t share;            /* bytes of a worker */
    uint64_t slice_ns;
    double rate[HY_THREADS_MAX];
    _Atomic uint64_t digest;
} job;

typedef struct prober {
    hy_probe *out;
    const hy_probe_opts *o;
    hy_topology top;
    const hy_probe_isa *best;  /* reads with the widest loads */
    uint8_t *data;
    uint64_t data_bytes, slice_ns;
    uint64_t done, all;
} prober;

/* One turn of a worker's loop: what it did, in bytes or operations. `at` walks over the share. */
static uint64_t turn(const job *j, uint8_t *share, uint64_t *at, uint64_t *digest)
{
    if (j->ops) return j->ops(4096);
    if (j->copy) {
        uint64_t half = j->share / 2 / LINE * LINE, n = HY_MIN(PIECE, half - *at);
        memcpy(share + half + *at, share + *at, n);
        *at = *at + n >= half ? 0 : *at + n;
        return n;
    }
    uint64_t n = HY_MIN(PIECE, j->share - *at), passes = j->share < PIECE / 4 ? PIECE / 4 / j->share : 1;
    *digest += j->isa->read(share + *at, n, passes);
    *at = *at + n >= j->share ? 0 : *at + n;
    return n * passes;
}

static void work(void *arg, hy_worker *w)
{
    job *j = arg;
    uint8_t *share = j->data ? j->data + w->i * j->share : NULL;
    uint64_t at = 0, digest = 0, did = 0;
    /* a cache must hold its share, and a core must have woken up, before the clock runs */
    if (j->share && j->share <= 64 * HY_MIB && !j->copy)
        for (uint64_t k = 0; k < j->share; k += PIECE) turn(j, share, &at, &digest);
    hy_team_barrier(w);
    uint64_t t0 = hy_now_ns(), now;
    do {
        did += turn(j, share, &at, &digest);
        now = hy_now_ns();
    } while (now - t0 < j->slice_ns);
    j->rate[w->i] = (double)did * 1e9 / (double)(now - t0);
    j->digest += digest;
}

static hy_status tick(prober *p, hy_err *err)
{
    p->done++;
    if (p->o->progress && p->o->progress(p->o->progress_ctx, p->done, p->all))
        return hy_fail(err, HY_E_CANCELLED, "measuring the machine was cancelled");
    return HY_OK;
}

static hy_status best_of(prober *p, hy_team *team, job *j, double *out, hy_err *err)
{
    j->slice_ns = p->slice_ns;
    *out = 0;
    for (int k = 0; k < n_try; k++) {
        hy_team_run(team, work, j);
        double sum = 0;
        for (uint32_t i = 0; i < hy_team_size(team); i++) sum += j->rate[i];
        *out = HY_MAX(*out, sum);
    }
    return tick(p, err);
}

/* ---- places ------------------------------------------------------------------------------------ */

/* Bytes of a worker's share that lies in a place and in none nearer; 0: there is no such size. A nearer
 * cache holds at most half of it. */
static uint64_t share_of(const prober *p, hy_probe_place place, uint32_t n)
{
    const hy_topology *t = &p->top;
    uint64_t all = p->data_bytes / n, share = 0;
    switch (place) {
    case HY_PROBE_L1: share = t->l1d_bytes / 2; break;
    case HY_PROBE_L2: share = t->l2_bytes / 2 > t->l1d_bytes ? t->l2_bytes / 2 : 0; break;
    case HY_PROBE_L3:
        share = t->l3_bytes / 2 / n;
        if (share < 2 * t->l2_bytes) share = 0;
        break;
    default: share = all; break;
    }
    return HY_MIN(share, all) / LINE * LINE;
}

typedef struct barriers {
    uint32_t n;
    uint64_t ns;
} barriers;

static void pass_barriers(void *arg, hy_worker *w)
{
    barriers *b = arg;
    hy_team_barrier(w);
    uint64_t t0 = hy_now_ns();
    for (uint32_t i = 0; i < b->n; i++) hy_team_barrier(w);
    if (w->i == 0) b->ns = hy_now_ns() - t0;
}

static double barrier_cost(hy_team *team)
{
    if (hy_team_size(team) == 1) return 0;
    double best = 0;
    uint64_t began = hy_now_ns();
    /* where others hold the processors one barrier may take milliseconds: not too many of those */
    for (int k = 0; k < 50 && (k == 0 || hy_now_ns() - began < 50000000); k++) {
        barriers b = { .n = 20 };
        hy_team_run(team, pass_barriers, &b);
        double ns = (double)b.ns / b.n;
        if (k == 0 || ns < best) best = ns;
    }
    return best;
}

static hy_status measure_point(prober *p, hy_team *team, job *j, hy_probe_point *out, hy_err *err)
{
    uint32_t n = hy_team_size(team);
    *out = (hy_probe_point){ .n_thread = n };
    for (int i = 0; i < HY_PROBE_PLACES; i++) {
        *j = (job){ .isa = p->best, .data = p->data, .share = share_of(p, (hy_probe_place)i, n) };
        if (j->share) HY_TRY(best_of(p, team, j, &out->read[i], err));
        else HY_TRY(tick(p, err));
    }
    *j = (job){ .copy = true, .data = p->data, .share = share_of(p, HY_PROBE_MEM, n) };
    HY_TRY(best_of(p, team, j, &out->copy, err));
    out->barrier_ns = barrier_cost(team);
    return tick(p, err);
}

/* ---- levels ------------------------------------------------------------------------------------ */

static bool runs(const hy_probe_isa *isa)
{
    return (hy_cpu_features() & isa->need) == isa->need;
}

static hy_status measure_levels(prober *p, hy_team *team, job *j, bool all, hy_err *err)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < hy_probe_isa_count && n < HY_PROBE_LEVELS_MAX; i++) {
        const hy_probe_isa *isa = &hy_probe_isa_list[i];
        if (!runs(isa)) continue;
        hy_probe_level *l = &p->out->level[n++];
        snprintf(l->isa, sizeof l->isa, "%s", isa->name);
        *j = (job){ .ops = isa->int8 };
        HY_TRY(best_of(p, team, j, all ? &l->int8_all : &l->int8_one, err));
        *j = (job){ .ops = isa->f32 };
        HY_TRY(best_of(p, team, j, all ? &l->f32_all : &l->f32_one, err));
    }
    p->out->n_level = n;
    return HY_OK;
}

/* ---- all --------------------------------------------------------------------------------------- */

static void choose(prober *p, uint32_t n_max)
{
    hy_probe *out = p->out;
    uint32_t n_isa = 0;
    for (uint32_t i = 0; i < hy_probe_isa_count; i++)
        if (runs(&hy_probe_isa_list[i])) {
            p->best = &hy_probe_isa_list[i];
            n_isa++;
        }
    for (uint32_t n = 1; n < n_max; n *= 2) out->point[out->n_point++].n_thread = n;
    out->point[out->n_point++].n_thread = n_max;
    p->all = out->n_point * (HY_PROBE_PLACES + 2ull) + (n_max > 1 ? 4 : 2) * n_isa;
    uint64_t ms = p->o->slice_ms ? p->o->slice_ms : HY_MIN((uint64_t)slice_ms_usual, total_ms / n_try / p->all);
    p->slice_ns = HY_MAX(ms, 1u) * 1000000;
}

/* Memory well beyond the caches, but a small part of what there is. */
static hy_status take_memory(prober *p, hy_err *err)
{
    uint64_t n = HY_MAX(256 * HY_MIB, 8 * p->top.l3_bytes);
    n = HY_MIN(n, HY_GIB);
    if (p->top.mem_bytes) n = HY_MIN(n, p->top.mem_bytes / 8);
    if (p->o->mem_bytes) n = p->o->mem_bytes;
    n = HY_MAX(n / HY_MIB * HY_MIB, 16 * HY_MIB);
    p->data = hy_alloc_big((size_t)n);
    if (!p->data) return hy_fail_memory(err, "measuring memory", n);
    p->data_bytes = n;
    return HY_OK;
}

static void touch(void *arg, hy_worker *w)
{
    const prober *p = arg;
    uint64_t first, last;
    hy_share(p->data_bytes, HY_MIB, w, &first, &last);
    memset(p->data + first, 1, last - first);
}

static hy_status measure(prober *p, job *j, hy_err *err)
{
    hy_probe *out = p->out;
    /* the largest team first: it touches the memory, each worker near its own */
    for (uint32_t i = out->n_point; i-- > 0;) {
        hy_team *team;
        HY_TRY(hy_team_open(&team, out->point[i].n_thread, false, err));
        bool largest = i + 1 == out->n_point;
        if (largest) hy_team_run(team, touch, p);
        hy_status s = measure_point(p, team, j, &out->point[i], err);
        if (s == HY_OK && largest) s = measure_levels(p, team, j, true, err);
        if (s == HY_OK && i == 0 && !largest) s = measure_levels(p, team, j, false, err);
        hy_team_close(team);
        if (s != HY_OK) return s;
    }
    for (uint32_t i = 0; i < out->n_level && out->n_point == 1; i++) {
        out->level[i].int8_one = out->level[i].int8_all;
        out->level[i].f32_one = out->level[i].f32_all;
    }
    return HY_OK;
}

hy_status hy_probe_run(hy_probe *out, const hy_probe_opts *o, hy_err *err)
{
    uint64_t t0 = hy_now_ns();
    prober p = { .out = out, .o = o };
    *out = (hy_probe){ 0 };
    if (getloadavg(&out->load, 1) != 1) out->load = 0;
    hy_cpu_topology(&p.top);
    uint32_t n = o->n_thread ? o->n_thread : p.top.n_thread_default;
    choose(&p, HY_MIN(n, (uint32_t)HY_THREADS_MAX));
    job *j = HY_NEW(job);
    hy_status s = j ? take_memory(&p, err) : hy_fail_memory(err, "measuring", sizeof *j);
    if (s == HY_OK) s = measure(&p, j, err);
    hy_free_big(p.data, (size_t)p.data_bytes);
    hy_free(j);
    out->seconds = (double)(hy_now_ns() - t0) / 1e9;
    return s;
}

/* ---- looking up -------------------------------------------------------------------------------- */

static double between(double a, double b, double x)
{
    return a > 0 && b > 0 ? a + (b - a) * x : 0;
}

hy_probe_point hy_probe_at(const hy_probe *p, uint32_t n_thread)
{
    hy_probe_point out = { .n_thread = n_thread };
    if (p->n_point == 0) return out;
    uint32_t i = 0;
    while (i + 1 < p->n_point && p->point[i + 1].n_thread <= n_thread) i++;
    const hy_probe_point *a = &p->point[i], *b = i + 1 < p->n_point ? a + 1 : a;
    double x = b == a ? 0 : (double)(n_thread - HY_MIN(n_thread, a->n_thread)) / (b->n_thread - a->n_thread);
    for (int k = 0; k < HY_PROBE_PLACES; k++) out.read[k] = between(a->read[k], b->read[k], x);
    out.copy = between(a->copy, b->copy, x);
    out.barrier_ns = a->barrier_ns + (b->barrier_ns - a->barrier_ns) * x;
    return out;
}

const hy_probe_level *hy_probe_level_of(const hy_probe *p, const char *isa)
{
    for (uint32_t i = 0; i < p->n_level; i++)
        if (strcmp(p->level[i].isa, isa) == 0) return &p->level[i];
    return NULL;
}

double hy_probe_ops(const hy_probe *p, const char *isa, bool int8, uint32_t n_thread)
{
    const hy_probe_level *l = hy_probe_level_of(p, isa);
    if (!l || p->n_point == 0) return 0;
    double one = int8 ? l->int8_one : l->f32_one, all = int8 ? l->int8_all : l->f32_all;
    uint32_t n_all = p->point[p->n_point - 1].n_thread;
    if (n_thread >= n_all) return all;
    return between(one, all, (double)(n_thread - 1) / (n_all - 1));
}
