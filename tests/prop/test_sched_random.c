/* Ten thousand random schedules of the scheduler and the real page pool on a fake model in virtual time.
 *
 * The fake model's cache holds, for every token, a hash of all tokens up to it; computing a token reads the
 * hash of the token before it through the page table and writes its own. So a page that is lost, shared with
 * the wrong sequence or written while shared shows as a wrong token: an answer is a function of its prompt
 * and seed alone, and is compared with that. */
#include "sched/sched.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_SCHEDULE = 10000, MAX_REQ = 40, MAX_PROMPT = 300, MAX_OUT = 100, MAX_CTX = MAX_PROMPT + MAX_OUT };
#define SLOT_BYTES 8u
#define PART_TOK 4u            /* tokens' slots in a part of a page */
/* predicted / measured wait: up to a quarter, half, ... */
enum { N_OFF = 6 };
static const double off_bound[N_OFF] = { 0.25, 0.5, 1, 2, 4, INFINITY };

typedef struct job {
    hy_sched_req q;
    int32_t ids[MAX_CTX + 1];
    int32_t want[MAX_OUT + 1]; /* the answer, alone */
    uint32_t n_out_max;        /* ends by itself after so many */
    uint64_t seed, us_arrive, us_cancel;
    double predicted_ms;       /* wait for the first token, at arrival; 0: not asked */
    bool added, gone, whole;
} job;

typedef struct world {
    hy_kv *kv;
    hy_kv_swap *swap;
    hy_sched s;
    job *job;
    uint32_t n_job, n_left;
    uint64_t rnd, us;
    double a, b, c, noise;     /* the machine: ms = a + b tokens + c kilo-keys */
    uint32_t window[2], n_group;
    uint64_t n_step, n_tok, off[N_OFF];
    bool tight;                /* answers always seem to be short: too many are let in, some must pause */
} world;

static uint64_t draw(world *w, uint64_t n)
{
    w->rnd++;
    return n ? hy_rng_at(w->rnd, 1, 2) % n : 0;
}

static uint64_t next_hash(uint64_t h, int32_t token)
{
    return hy_hash64(&token, sizeof token, h);
}

static int32_t next_token(uint64_t h, uint64_t seed)
{
    return (int32_t)(hy_rng_at(seed, h, 7) % 50);
}

/* ---- the fake model --------------------------------------------------------------------------- */

static uint64_t *cell(const world *w, const hy_page_table *t, uint32_t g, uint32_t pos)
{
    uint32_t page = t->page[g][pos / HY_KV_PAGE_TOK];
    if (page == HY_KV_NO_PAGE) fail_msg("position %u of group %u has no page", pos, g);
    uint32_t i = pos % HY_KV_PAGE_TOK;
    return (uint64_t *)hy_kv_part(w->kv, g, page, i / PART_TOK) + i % PART_TOK;
}

/* Computes r's share; every group must hold what a query sees. Returns the last hash. */
static uint64_t compute(world *w, hy_sched_req *r)
{
    uint64_t h = 0;
    for (uint32_t pos = r->n_done; pos < r->n_done + r->n_give; pos++)
        for (uint32_t g = 0; g < w->n_group; g++) {
            if (r->table.n_tok <= pos) fail_msg("token %u was not reserved", pos);
            uint64_t before = pos ? *cell(w, &r->table, g, pos - 1) : r->salt;
            if (w->window[g] && pos > w->window[g]) (void)cell(w, &r->table, g, pos - w->window[g] + 1);
            if (hy_kv_page_state(w->kv, g, r->table.page[g][pos / HY_KV_PAGE_TOK]) != 1)
                fail_msg("token %u is written into a shared page", pos);
            h = next_hash(before, r->ids[pos]);
            *cell(w, &r->table, g, pos) = h;
        }
    return h;
}

static double machine_ms(world *w, uint32_t n_tok, double keys)
{
    double ms = w->a + w->b * n_tok + w->c * keys / 1000;
    return ms * (1 + w->noise * ((double)draw(w, 1000) / 500 - 1));
}

/* ---- a schedule ------------------------------------------------------------------------------- */

static void end_job(world *w, job *j, bool whole)
{
    hy_sched_remove(&w->s, &j->q, whole ? j->q.n_known - j->q.n_prompt : UINT32_MAX);
    assert_int_equal(j->q.table.n_tok, 0);
    j->gone = true;
    j->whole = whole;
    w->n_left--;
}

static void take_token(world *w, job *j, uint64_t h)
{
    uint32_t i = j->q.n_known - j->q.n_prompt;
    int32_t id = next_token(h, j->seed);
    if (id != j->want[i]) fail_msg("token %u of an answer is %d, alone it was %d", i, id, j->want[i]);
    j->ids[j->q.n_known++] = id;
    j->q.decoding = true;
    if (i == 0 && j->predicted_ms > 0) {
        double ms = (double)(w->us - j->us_arrive) / 1e3;
        uint32_t k = 0;
        while (k < N_OFF - 1 && j->predicted_ms > off_bound[k] * ms) k++;
        w->off[k]++;
    }
    if (i + 1 == HY_MIN(j->n_out_max, j->q.n_max)) end_job(w, j, true);
}

static void fork_followers(world *w, job *lead, uint64_t h)
{
    for (uint32_t i = 0; i < w->s.n_run; i++) {
        hy_sched_req *r = w->s.run[i];
        if (r->lead != &lead->q || !r->lead_fork) continue;
        assert_int_equal(hy_sched_fork(&w->s, r, NULL), HY_OK);
        take_token(w, r->owner, h);
        i = UINT32_MAX; /* the list may have changed */
    }
}

static void check_step(world *w, uint32_t n_tok)
{
    uint32_t sum = 0, chunks = 0, decodes = 0;
    double keys = 0;
    bool reader = false;
    for (uint32_t i = 0; i < w->s.n_run; i++) {
        const hy_sched_req *r = w->s.run[i];
        sum += r->n_give;
        if (r->n_give == 0) continue;
        bool one = r->n_known - r->n_done == 1;
        reader |= one && r->decoding;
        decodes += one;
        if (!one) chunks += r->n_give;
        else keys += hy_sched_keys(&w->s.shape, r->n_done, 1);
        assert_true(r->n_done + r->n_give <= r->n_known);
        assert_false(r->lead && r->n_give);
    }
    assert_int_equal(sum, n_tok);
    assert_true(n_tok > 0 && n_tok <= w->s.o.n_step);
    /* beside readers a chunk costs at most what the targets allow, or it is one page */
    if (reader && chunks > HY_KV_PAGE_TOK && w->s.cost.n) {
        double ms = hy_sched_cost_ms(&w->s.cost, n_tok, w->s.step_keys);
        double alone = hy_sched_cost_ms(&w->s.cost, decodes + HY_KV_PAGE_TOK, keys);
        if (ms > HY_MAX(2 * w->s.o.itl_ms, alone) * 1.5)
            fail_msg("a step of %u tokens beside readers: %g ms", n_tok, ms);
    }
}

static void check_pages(world *w)
{
    const hy_page_table *tables[MAX_REQ];
    uint32_t n = 0;
    hy_err err;
    for (uint32_t i = 0; i < w->n_job; i++)
        if (w->job[i].added) tables[n++] = &w->job[i].q.table;
    if (hy_kv_check(w->kv, tables, n, &err) != HY_OK) fail_msg("%s", err.msg);
}

static void one_step(world *w)
{
    uint32_t n_tok = 0;
    hy_err err = { HY_OK, "" };
    if (hy_sched_step(&w->s, w->us, &n_tok, &err) != HY_OK) fail_msg("step: %s", err.msg);
    check_step(w, n_tok);
    hy_sched_req *row[64];
    uint64_t hash[64];
    uint32_t n_row = 0;
    for (uint32_t i = 0; i < w->s.n_run; i++) {
        if (w->s.run[i]->n_give == 0) continue;
        row[n_row] = w->s.run[i];
        hash[n_row] = compute(w, row[n_row]);
        n_row++;
    }
    double ms = machine_ms(w, n_tok, w->s.step_keys);
    w->us += (uint64_t)(ms * 1e3) + 1;
    w->n_step++;
    w->n_tok += n_tok;
    bool out[64];
    for (uint32_t i = 0; i < n_row; i++) out[i] = row[i]->n_done + row[i]->n_give == row[i]->n_known;
    hy_sched_done(&w->s);
    hy_sched_took(&w->s, ms);
    for (uint32_t i = 0; i < n_row; i++) {
        job *j = row[i]->owner;
        if (!out[i]) continue;
        if (j->q.group && !j->q.decoding) fork_followers(w, j, hash[i]);
        take_token(w, j, hash[i]);
    }
}

static void arrivals(world *w)
{
    for (uint32_t i = 0; i < w->n_job; i++) {
        job *j = &w->job[i];
        if (!j->added && j->us_arrive <= w->us) {
            j->added = true;
            hy_sched_load load;
            hy_sched_load_of(&w->s, &load);
            if (w->s.cost.n > 20 && !w->tight && !j->q.group && j->q.priority == 0)
                j->predicted_ms = hy_sched_predict_wait(&load, j->q.n_prompt);
            hy_sched_add(&w->s, &j->q);
        }
        if (!j->added || j->gone) continue;
        bool late = j->q.us_deadline && w->us >= j->q.us_deadline;
        if (late || (j->us_cancel && w->us >= j->us_cancel)) end_job(w, j, false);
    }
}

static uint64_t next_arrival(const world *w)
{
    uint64_t us = UINT64_MAX;
    for (uint32_t i = 0; i < w->n_job; i++)
        if (!w->job[i].added) us = HY_MIN(us, w->job[i].us_arrive);
    return us;
}

/* Prompts with beginnings in common, with and without a group, of two tenants. */
static void make_jobs(world *w)
{
    uint64_t us = 0, group = 0;
    uint32_t in_group = 0;
    for (uint32_t i = 0; i < w->n_job; i++) {
        job *j = &w->job[i], *last = i ? j - 1 : NULL;
        memset(j, 0, sizeof *j);
        us += draw(w, 3) ? draw(w, 40000) : 0;
        bool same = in_group > 0;
        if (same) in_group--;
        else if (draw(w, 8) == 0) in_group = (uint32_t)draw(w, 4) + 1;
        if (!same) group = in_group ? group + 1 : group;
        hy_sched_req *q = &j->q;
        q->n_prompt = same ? last->q.n_prompt : 1 + (uint32_t)draw(w, draw(w, 3) ? 40 : MAX_PROMPT);
        uint64_t family = draw(w, 3), cut = draw(w, q->n_prompt + 1);
        for (uint32_t k = 0; k < q->n_prompt; k++)
            j->ids[k] = same ? last->ids[k] : (int32_t)(k < cut ? hy_rng_at(family, k, 3) % 50 : draw(w, 50));
        q->n_max = 1 + (uint32_t)draw(w, MAX_OUT);
        j->n_out_max = draw(w, 2) ? q->n_max : 1 + (uint32_t)draw(w, q->n_max);
        j->seed = w->rnd;
        j->us_arrive = same ? last->us_arrive : us;
        j->us_cancel = draw(w, 8) ? 0 : j->us_arrive + 1 + draw(w, 200000);
        q->us_submit = j->us_arrive;
        q->us_deadline = draw(w, 12) ? 0 : j->us_arrive + 1 + draw(w, 300000);
        q->priority = draw(w, 3) ? 0 : (int32_t)draw(w, 5) - 2;
        q->salt = same ? last->q.salt : draw(w, 4) == 0;
        q->put = same ? last->q.put : draw(w, 6) != 0;
        q->take = q->put && draw(w, 8) != 0;
        q->each_out = !q->take && draw(w, 2);
        q->group = same || in_group ? group : 0;
        q->ids = j->ids;
        q->n_known = q->n_prompt;
        q->owner = j;
        q->ticket = HY_SCHED_NO_TICKET;
        uint64_t h = q->salt;
        for (uint32_t k = 0; k < q->n_prompt; k++) h = next_hash(h, j->ids[k]);
        for (uint32_t k = 0; k < q->n_max; k++) {
            j->want[k] = next_token(h, j->seed);
            h = next_hash(h, j->want[k]);
        }
        assert_int_equal(hy_page_table_init(w->kv, &q->table, q->n_prompt + q->n_max, NULL), HY_OK);
    }
}

static void open_world(world *w, uint64_t seed, job *jobs)
{
    memset(w, 0, sizeof *w);
    w->rnd = seed * 1000003;
    w->job = jobs;
    w->n_job = w->n_left = 3 + (uint32_t)draw(w, MAX_REQ - 3);
    uint32_t n_seq = 1 + (uint32_t)draw(w, 12), n_step = HY_MAX(n_seq, 16 + (uint32_t)draw(w, 100));
    uint32_t need = MAX_CTX / HY_KV_PAGE_TOK + 1;
    hy_kv_group group[2] = { { .n_layer = 2, .page_bytes = HY_KV_PAGE_TOK * SLOT_BYTES,
                               .part_bytes = PART_TOK * SLOT_BYTES,
                               .n_page = need + 1 + (uint32_t)draw(w, draw(w, 2) ? 8 : 60) } };
    w->n_group = 1 + (draw(w, 4) == 0);
    group[1] = (hy_kv_group){ .n_layer = 3, .page_bytes = HY_KV_PAGE_TOK * SLOT_BYTES,
                              .part_bytes = PART_TOK * SLOT_BYTES, .window = 32 };
    group[1].n_page = HY_MIN(group[0].n_page, ((32 + n_step) / HY_KV_PAGE_TOK + 3) * n_seq);
    w->window[1] = 32;
    hy_err err;
    if (hy_kv_open(&w->kv, group, w->n_group, &err) != HY_OK) fail_msg("%s", err.msg);
    if (draw(w, 40) == 0) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/hayate-sched-%d", (int)getpid());
        if (hy_kv_swap_open(&w->swap, w->kv, path, HY_MIB, &err) != HY_OK) fail_msg("%s", err.msg);
    }
    w->a = (double)draw(w, 200) / 10 + 0.1;
    w->b = (double)draw(w, 40) / 10 + 0.05;
    w->c = (double)draw(w, 30) / 10;
    w->noise = draw(w, 2) ? 0.1 : 0;
    hy_sched_opts o = { .kv = w->kv, .swap = w->swap, .n_seq = n_seq, .n_step = n_step, .n_ctx = MAX_CTX,
                        .n_out_spare = 1 + (uint32_t)draw(w, 16), .itl_ms = 5 + (double)draw(w, 100),
                        .ttft_ms = 50 + (double)draw(w, 1000), .prefix_cache = draw(w, 5) != 0 };
    if (hy_sched_open(&w->s, &o, &err) != HY_OK) fail_msg("%s", err.msg);
    w->tight = draw(w, 3) == 0;
    make_jobs(w);
}

static void close_world(world *w)
{
    assert_int_equal(w->s.n_run, 0);
    assert_int_equal(w->s.n_wait, 0);
    for (uint32_t g = 0; g < w->n_group; g++)
        assert_int_equal(hy_kv_available(w->kv, g), hy_kv_group_of(w->kv, g)->n_page);
    hy_kv_cache_clear(w->kv);
    for (uint32_t g = 0; g < w->n_group; g++)
        assert_int_equal(hy_kv_free_pages(w->kv, g), hy_kv_group_of(w->kv, g)->n_page);
    for (uint32_t i = 0; i < w->n_job; i++) hy_page_table_free(w->kv, &w->job[i].q.table);
    hy_sched_close(&w->s);
    hy_kv_swap_close(w->swap);
    hy_kv_close(w->kv);
}

static void run_world(world *w)
{
    /* far more steps than any sound schedule needs: even one token a step, twice */
    uint64_t most = 0;
    for (uint32_t i = 0; i < w->n_job; i++) most += 2ull * (w->job[i].q.n_prompt + w->job[i].q.n_max);
    while (w->n_left) {
        arrivals(w);
        if (w->tight) w->s.out_mean = 1;
        hy_sched_admit(&w->s, w->us);
        if (w->s.n_run == 0) {
            assert_int_equal(w->s.n_wait, 0); /* the first always fits when nobody runs */
            if (w->n_left) w->us = HY_MAX(w->us, next_arrival(w));
            continue;
        }
        one_step(w);
        if (w->n_step % 16 == 0) check_pages(w);
        if (w->n_step > most + 100) fail_msg("%llu steps and no end", (unsigned long long)w->n_step);
    }
    check_pages(w);
    for (uint32_t i = 0; i < w->n_job; i++) {
        const job *j = &w->job[i];
        if (!j->us_cancel && !j->q.us_deadline) assert_true(j->whole);
    }
}

static void schedules(void **state)
{
    job *jobs = malloc(MAX_REQ * sizeof *jobs);
    hy_sched_counts sum = { 0 };
    uint64_t n_step = 0, n_tok = 0, swapped = 0, off[N_OFF] = { 0 }, n_wait = 0;
    for (uint64_t i = 0; i < N_SCHEDULE; i++) {
        world w;
        open_world(&w, i, jobs);
        run_world(&w);
        sum.n_paused += w.s.count.n_paused;
        sum.hit_tok += w.s.count.hit_tok;
        sum.n_fork += w.s.count.n_fork;
        hy_kv_swap_stats swap = { 0 };
        if (w.swap) hy_kv_swap_stats_of(w.swap, &swap);
        swapped += swap.in_bytes;
        n_step += w.n_step;
        n_tok += w.n_tok;
        for (int k = 0; k < N_OFF; k++) off[k] += w.off[k], n_wait += w.off[k];
        close_world(&w);
    }
    free(jobs);
    print_message("%d schedules: %llu steps, %llu tokens, %llu pauses, %llu tokens hit, %llu forks\n", N_SCHEDULE,
                  (unsigned long long)n_step, (unsigned long long)n_tok, (unsigned long long)sum.n_paused,
                  (unsigned long long)sum.hit_tok, (unsigned long long)sum.n_fork);
    /* else the schedules were too tame to test anything */
    assert_true(sum.n_paused > 1000);
    assert_true(sum.hit_tok > 100000);
    assert_true(sum.n_fork > 1000);
    assert_true(swapped > 0);
    print_message("%llu waits; predicted / measured up to 1/4, 1/2, 1, 2, 4, more: %llu %llu %llu %llu %llu %llu\n",
                  (unsigned long long)n_wait, (unsigned long long)off[0], (unsigned long long)off[1],
                  (unsigned long long)off[2], (unsigned long long)off[3], (unsigned long long)off[4],
                  (unsigned long long)off[5]);
    /* who waits is told about how long: most are right within a factor of two */
    assert_true(off[2] + off[3] > n_wait / 2);
    assert_true(off[1] + off[2] + off[3] + off[4] > n_wait * 8 / 10);
}

/* A steady stream of urgent requests, more than the machine can do: the ordinary one among them starts once it has
 * waited as long as the classes between them are worth, and ends. */
static void nobody_starves(void **state)
{
    job *jobs = calloc(MAX_REQ, sizeof *jobs);
    world w = { .job = jobs, .a = 5, .b = 1, .c = 0.1, .n_group = 1 };
    hy_kv_group group = { .n_layer = 1, .page_bytes = HY_KV_PAGE_TOK * SLOT_BYTES,
                          .part_bytes = PART_TOK * SLOT_BYTES, .n_page = 200 };
    assert_int_equal(hy_kv_open(&w.kv, &group, 1, NULL), HY_OK);
    hy_sched_opts o = { .kv = w.kv, .n_seq = 2, .n_step = 64, .n_ctx = MAX_CTX, .n_out_spare = 1, .itl_ms = 50,
                        .ttft_ms = 500 };
    assert_int_equal(hy_sched_open(&w.s, &o, NULL), HY_OK);
    uint64_t us_first = 0;
    uint32_t n_more = 0;
    w.n_job = MAX_REQ;
    while (!jobs[0].gone) {
        for (uint32_t i = 0; i < w.n_job; i++) { /* four urgent ones wait at any time */
            job *j = &jobs[i];
            if (j->added && !j->gone) continue;
            if (i > 4) break;
            hy_page_table_free(w.kv, &j->q.table);
            memset(j, 0, sizeof *j);
            j->q = (hy_sched_req){ .ids = j->ids, .n_prompt = 40, .n_known = 40, .n_max = 20, .salt = 1000 + n_more++,
                                   .us_submit = w.us, .priority = i == 0 ? 0 : -1, .owner = j,
                                   .ticket = HY_SCHED_NO_TICKET };
            j->n_out_max = 20;
            uint64_t h = j->q.salt;
            for (uint32_t k = 0; k < 40; k++) h = next_hash(h, 0);
            for (uint32_t k = 0; k < 20; k++) h = next_hash(h, j->want[k] = next_token(h, 0));
            assert_int_equal(hy_page_table_init(w.kv, &j->q.table, 60, NULL), HY_OK);
            j->added = true;
            w.n_left++;
            hy_sched_add(&w.s, &j->q);
        }
        hy_sched_admit(&w.s, w.us);
        one_step(&w);
        if (!us_first && jobs[0].q.n_known > 40) us_first = w.us;
        assert_true(w.us < 60000000);
    }
    print_message("the ordinary one began after %.2f s\n", (double)us_first / 1e6);
    /* one class, and what was ahead in those two places */
    assert_true((double)us_first / 1e3 > HY_SCHED_CLASS_MS / 2);
    assert_true((double)us_first / 1e3 < 2 * HY_SCHED_CLASS_MS);
    for (uint32_t i = 0; i < w.n_job; i++) {
        if (jobs[i].added && !jobs[i].gone) end_job(&w, &jobs[i], false);
        hy_page_table_free(w.kv, &jobs[i].q.table);
    }
    hy_sched_close(&w.s);
    hy_kv_close(w.kv);
    free(jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(schedules), cmocka_unit_test(nobody_starves) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
