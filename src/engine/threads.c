/* How many threads prompts and decode steps take, chosen by measuring. Reading memory is often as fast with half
 * of the cores, and a machine's slow cores can be worse than none; arithmetic wants them all. */
#include "threads.h"
#include "measured.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { n_cand_max = 6, n_round_max = 5, n_round_kept = 3, long_tok = 32, first_tok = 8 };
#define BUDGET_US 200000       /* of one kind of step */
#define BETTER 0.95            /* fewer threads must be faster by this */

uint32_t hy_threads_team(const hy_options *o, const hy_topology *top)
{
    return HY_MAX(o->n_threads ? o->n_threads : top->n_thread_default, o->n_threads_decode);
}

/* Steps of one sequence that is thrown away afterwards. */
typedef struct trial {
    hy_core *c;
    hy_page_table table;
    int32_t token[long_tok], pos[long_tok];
    float *logits;             /* [n_vocab] */
    uint32_t n_long;
} trial;

static hy_status one_step(trial *t, uint32_t n_tok, uint32_t pos0, uint64_t *us, hy_err *err)
{
    hy_core *c = t->c;
    HY_TRY(hy_kv_reserve(c->kv, &t->table, pos0 + n_tok, err));
    for (uint32_t i = 0; i < n_tok; i++) {
        t->token[i] = (int32_t)((pos0 + i) * 104729u % c->model->hp.n_vocab);
        t->pos[i] = (int32_t)(pos0 + i);
    }
    uint32_t last = n_tok - 1;
    hy_row row = { .table = &t->table, .n_tok = n_tok, .pos0 = pos0 };
    hy_batch b = { .n_tok = n_tok, .token = t->token, .pos = t->pos, .n_row = 1, .row = &row, .n_out = 1, .out_tok = &last };
    uint64_t t0 = hy_now_us();
    HY_TRY(hy_plan_run(c->plan, c->team, c->kv, &b, t->logits, err));
    *us = hy_now_us() - t0;
    hy_kv_truncate(c->kv, &t->table, pos0);
    return HY_OK;
}

/* All, three quarters, a half, ... of the team, and one. */
static uint32_t candidates(uint32_t n, uint32_t out[n_cand_max])
{
    uint32_t k = 0;
    out[k++] = n;
    if (n >= 4) out[k++] = n - n / 4;
    for (uint32_t half = n / 2; half > 1 && k < n_cand_max - 1; half /= 2) out[k++] = half;
    if (n > 1) out[k++] = 1;
    return k;
}

/* The fastest number for steps of n_tok tokens; *sure: measured often enough to be kept. Rounds go over all
 * candidates, so that a busy moment meets them alike; the best time of each counts. */
static hy_status fastest(trial *t, uint32_t n_tok, uint32_t pos0, uint32_t *out, bool *sure, hy_err *err)
{
    uint32_t n_all = hy_team_size(t->c->team), cand[n_cand_max], n = candidates(n_all, cand), round = 0;
    uint64_t best[n_cand_max], us, began = hy_now_us();
    memset(best, 0xff, sizeof best);
    *out = n_all;
    hy_plan_threads(t->c->plan, n_all, n_all, false);
    HY_TRY(one_step(t, n_tok, pos0, &us, err)); /* weights and threads wake up */
    for (; round < n_round_max; round++) {
        /* a round that would take too long is not begun: with large models all threads are right */
        uint64_t spent = hy_now_us() - began;
        if (spent + us * (n + 2) > BUDGET_US) break;
        for (uint32_t i = 0; i < n; i++) {
            hy_plan_threads(t->c->plan, cand[i], cand[i], false);
            uint64_t took;
            HY_TRY(one_step(t, n_tok, pos0, &took, err));
            best[i] = HY_MIN(best[i], took);
        }
    }
    *sure &= round >= n_round_kept;
    uint32_t at = 0;
    for (uint32_t i = 1; i < n && round >= 2; i++)
        if ((double)best[i] < BETTER * (double)best[at]) at = i;
    *out = cand[at];
    return HY_OK;
}

static hy_status try_all(trial *t, uint32_t *n_many, uint32_t *n_few, bool *sure, hy_err *err)
{
    hy_core *c = t->c;
    HY_TRY(hy_page_table_init(c->kv, &t->table, c->n_ctx, err));
    t->logits = hy_alloc_array(c->model->hp.n_vocab, sizeof *t->logits);
    hy_status s = t->logits ? HY_OK : hy_fail_memory(err, "logits", c->model->hp.n_vocab * 4ull);
    t->n_long = HY_MIN(HY_MIN((uint32_t)long_tok, c->n_step), c->n_ctx);
    uint32_t first = HY_MIN((uint32_t)first_tok, c->n_ctx - 1);
    if (s == HY_OK) s = fastest(t, t->n_long, 0, n_many, sure, err);
    if (s == HY_OK) s = hy_kv_reserve(c->kv, &t->table, first, err);
    if (s == HY_OK) s = fastest(t, 1, first, n_few, sure, err);
    hy_free(t->logits);
    hy_page_table_free(c->kv, &t->table);
    return s;
}

/* Is somebody else at work? Then what was measured is used, but not kept. */
static bool quiet_machine(uint32_t n_cpu)
{
    double load;
    return getloadavg(&load, 1) == 1 && load < 0.5 * n_cpu;
}

char *hy_threads_key(const hy_core *c)
{
    const hy_hparams *hp = &c->model->hp;
    char *machine = hy_machine_key(&c->top);
    hy_buf b = { 0 };
    if (machine)
        hy_buf_printf(&b, "%s; team %u; %s %u x %u, ff %u, vocabulary %u, %" PRIu64 " bytes; %s, kv %s, step %u%s%s", machine,
                      hy_team_size(c->team), c->model->family->name, hp->n_layer, hp->n_embd, hp->n_ff, hp->n_vocab,
                      c->model->weight_bytes, c->model->kern.isa, hy_kv_type_name(c->kv_type), c->n_step,
                      c->act_f32 ? ", f32" : "", c->fuse ? "" : ", not fused");
    hy_free(machine);
    if (machine && !b.failed) return b.data;
    hy_buf_free(&b);
    return NULL;
}

static bool kept(const char *key, uint32_t n_all, uint32_t *n_many, uint32_t *n_few)
{
    json_t *o = hy_cache_get("threads", key);
    json_int_t many = json_integer_value(json_object_get(o, "prefill")), few = json_integer_value(json_object_get(o, "decode"));
    json_decref(o);
    if (many < 1 || few < 1 || many > n_all || few > n_all) return false;
    *n_many = (uint32_t)many;
    *n_few = (uint32_t)few;
    return true;
}

static hy_status measure(hy_core *c, uint32_t *n_many, uint32_t *n_few, hy_err *err)
{
    char *key = hy_threads_key(c);
    if (!key) return hy_fail_memory(err, "machine", 256);
    hy_status s = HY_OK;
    if (!kept(key, hy_team_size(c->team), n_many, n_few)) {
        trial *t = HY_NEW(trial);
        bool sure = quiet_machine(c->top.n_cpu_online);
        if (t) t->c = c;
        s = t ? try_all(t, n_many, n_few, &sure, err) : hy_fail_memory(err, "trial", sizeof *t);
        hy_free(t);
        json_t *o = s == HY_OK && sure ? json_pack("{s:i, s:i}", "prefill", (int)*n_many, "decode", (int)*n_few) : NULL;
        if (o) (void)hy_cache_put("threads", key, o);
        json_decref(o);
    }
    hy_free(key);
    return s;
}

hy_status hy_threads_choose(hy_core *c, const hy_options *o, hy_err *err)
{
    uint32_t n_all = hy_team_size(c->team), n_many = o->n_threads ? o->n_threads : n_all;
    uint32_t n_few = o->n_threads_decode ? o->n_threads_decode : n_many;
    if (n_all > 1 && !o->n_threads && c->n_ctx >= 4) {
        uint32_t many = n_all, few = n_all;
        HY_TRY(measure(c, &many, &few, err));
        n_many = many;
        if (!o->n_threads_decode) n_few = few;
    }
    hy_plan_threads(c->plan, HY_MIN(n_many, n_all), HY_MIN(n_few, n_all), c->top.quota_cpus > 0);
    hy_team_use(c->team, n_many);
    return HY_OK;
}
