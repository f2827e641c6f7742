/* Proposers against plain searches, shares against all possible ones, on random input. */
#include "spec/spec.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

static uint64_t bits(uint64_t stream, uint64_t i) { return hy_rng_at(2024, stream, i); }
static double unit(uint64_t stream, uint64_t i) { return hy_rng_unit(bits(stream, i)); }

/* Text with repetitions: now and then a stretch of what was before is copied. */
static void make_text(uint64_t seed, int32_t *ids, uint32_t n, uint32_t n_kind)
{
    for (uint32_t i = 0; i < n;) {
        uint32_t len = 1 + (uint32_t)(bits(seed, 3 * i) % 30);
        if (i > 10 && unit(seed, 3 * i + 1) < 0.3) {
            uint32_t from = (uint32_t)(bits(seed, 3 * i + 2) % (i - 1));
            for (uint32_t k = 0; k < len && i < n; k++) ids[i++] = ids[from + k];
        } else {
            ids[i] = (int32_t)(bits(seed, 3 * i + 2) % n_kind);
            i++;
        }
    }
}

/* The longest end of ids[0, n) that stands before with something behind it; how often ends of 4 stand there. */
static uint32_t longest(const int32_t *ids, uint32_t n, uint32_t *n_four)
{
    uint32_t best = 0;
    *n_four = 0;
    for (uint32_t end = 1; end < n; end++) {
        uint32_t k = 0;
        while (k < end && k < 64 && ids[end - 1 - k] == ids[n - 1 - k]) k++;
        best = HY_MAX(best, k);
        *n_four += k >= 4;
    }
    return best;
}

static bool is_end_before(const int32_t *ids, uint32_t n, uint32_t at, uint32_t k)
{
    return at >= k && memcmp(ids + at - k, ids + n - k, k * sizeof *ids) == 0;
}

/* Of a text that was read at once: the longest match, of equals the newest. */
static void check_first(const int32_t *ids, uint32_t n)
{
    hy_ngram g;
    int32_t out[HY_SPEC_MAX];
    uint32_t n_match, n_four, most = longest(ids, n, &n_four);
    assert_int_equal(hy_ngram_open(&g, 400, NULL), HY_OK);
    hy_ngram_add(&g, ids, n);
    uint32_t got = hy_ngram_propose(&g, ids, HY_SPEC_MAX, out, &n_match);
    hy_ngram_close(&g);
    assert_true(n_match <= most);
    if (most < 2) {
        assert_int_equal(got, 0);
        return;
    }
    if (most >= 4 && n_four <= 24) assert_int_equal(n_match, most);
    if (n_match == 0) return; /* a frequent pair, looked for only among the newest */
    assert_true(n_match >= 2);
    assert_int_equal(got, HY_SPEC_MAX);
    bool found = false; /* some place with such a match goes on like that */
    for (uint32_t at = n_match; at < n && !found; at++) {
        if (!is_end_before(ids, n, at, n_match)) continue;
        uint32_t k = 0;
        while (k < got && out[k] == (at + k < n ? ids[at + k] : out[k - (n - at)])) k++;
        found = k == got;
    }
    assert_true(found);
}

/* Of one that goes on: whatever is proposed is made of the text's tokens. */
static void check_proposal(hy_ngram *g, const int32_t *ids, uint32_t n)
{
    int32_t out[HY_SPEC_MAX];
    uint32_t n_match, got = hy_ngram_propose(g, ids, HY_SPEC_MAX, out, &n_match);
    assert_true(got <= HY_SPEC_MAX && n_match <= HY_COPY_SCORE && (got == 0) == (n_match == 0));
    for (uint32_t k = 0, i; k < got; k++) {
        for (i = 0; i < n && ids[i] != out[k]; i++) continue;
        assert_true(i < n);
    }
}

static void ngrams_are_real(void **state)
{
    int32_t ids[400];
    for (uint64_t seed = 0; seed < 60; seed++) {
        make_text(seed, ids, 400, seed % 3 == 0 ? 3 : seed % 3 == 1 ? 40 : 5000);
        hy_ngram g;
        assert_int_equal(hy_ngram_open(&g, 400, NULL), HY_OK);
        for (uint32_t n = 1; n <= 400; n += 1 + (uint32_t)(bits(99 + seed, n) % 5)) {
            hy_ngram_add(&g, ids, n);
            assert_int_equal(g.n, n);
            check_proposal(&g, ids, n);
            check_first(ids, n);
        }
        uint64_t before = hy_alloc_count_here();
        hy_ngram_add(&g, ids, 1000); /* no more than it has room for */
        assert_int_equal(g.n, 400);
        assert_int_equal(hy_alloc_count_here(), before);
        hy_ngram_close(&g);
    }
}

/* A copy of a text is proposed to its end, and a period goes round. */
static void copies_go_on(void **state)
{
    int32_t ids[300], out[HY_SPEC_MAX];
    uint32_t n_match, right = 0, all = 0;
    for (uint32_t i = 0; i < 300; i++) ids[i] = (int32_t)(i < 150 ? 1000 + bits(1, i) % 100000 : (uint64_t)ids[i - 150]);
    hy_ngram g;
    assert_int_equal(hy_ngram_open(&g, 300, NULL), HY_OK);
    for (uint32_t n = 154; n + HY_SPEC_MAX <= 300; n++) {
        hy_ngram_add(&g, ids, n);
        uint32_t got = hy_ngram_propose(&g, ids, HY_SPEC_MAX, out, &n_match);
        for (uint32_t k = 0; k < got; k++, all++) right += out[k] == ids[n + k];
        assert_int_equal(n_match, HY_MIN(n - 150, 64));
    }
    assert_true(all > 100 && right == all);
    hy_ngram_close(&g);
    for (uint32_t i = 0; i < 100; i++) ids[i] = (int32_t)(i % 3);
    assert_int_equal(hy_ngram_open(&g, 300, NULL), HY_OK);
    hy_ngram_add(&g, ids, 100);
    assert_int_equal(hy_ngram_propose(&g, ids, 8, out, &n_match), 8);
    for (uint32_t k = 0; k < 8; k++) assert_int_equal(out[k], (100 + k) % 3);
    hy_ngram_close(&g);
}

/* ---- a source of 200 tokens that are all different, and an edited copy of it ------------------------- */

typedef enum edit { REPLACE, REPLACE_BY_TWO, PUT_IN, LEAVE_OUT, RENAME } edit;

/* Every 20th token is edited; those of a name that comes back (RENAME) all become another one. Returns the length. */
static uint32_t edited(edit how, int32_t *ids)
{
    uint32_t n = 200;
    for (uint32_t i = 0; i < 200; i++) ids[i] = how == RENAME && i % 10 == 5 ? 99 : (int32_t)(1000 + i);
    for (uint32_t i = 0; i < 200; i++) {
        if (how == RENAME && i % 10 == 5) {
            ids[n++] = 7, ids[n++] = 8;
            continue;
        }
        bool here = how != RENAME && i % 20 == 15;
        if (!here) ids[n++] = ids[i];
        if (here && how == PUT_IN) ids[n++] = (int32_t)(5000 + i), ids[n++] = (int32_t)(6000 + i), ids[n++] = ids[i];
        if (here && how == REPLACE) ids[n++] = (int32_t)(5000 + i);
        if (here && how == REPLACE_BY_TWO) ids[n++] = (int32_t)(5000 + i), ids[n++] = (int32_t)(6000 + i);
    }
    return n;
}

/* Steps until the whole copy is written, with up to 8 drafted tokens each. */
static uint32_t steps_of(edit how)
{
    int32_t ids[700], out[8];
    uint32_t n_all = edited(how, ids), n = 203, steps = 0, n_match;
    hy_ngram g;
    assert_int_equal(hy_ngram_open(&g, 700, NULL), HY_OK);
    while (n < n_all) {
        hy_ngram_add(&g, ids, n);
        uint32_t got = hy_ngram_propose(&g, ids, 8, out, &n_match), k = 0;
        while (k < got && n + k < n_all && out[k] == ids[n + k]) k++;
        n += k + 1;
        steps++;
    }
    hy_ngram_close(&g);
    return steps;
}

/* Ten places are edited (a name: twenty); without edits 200 tokens take 22 steps. After each edit the copy goes on:
 * a few steps more for each, and for a name only for its first place. */
static void edits_go_on(void **state)
{
    const uint32_t most[] = { [REPLACE] = 40, [REPLACE_BY_TWO] = 50, [PUT_IN] = 50, [LEAVE_OUT] = 40, [RENAME] = 32 };
    for (edit how = REPLACE; how <= RENAME; how++) {
        uint32_t steps = steps_of(how);
        print_message("edit %d: %u steps\n", how, steps);
        if (steps > most[how]) fail_msg("edit %d: %u steps", how, steps);
    }
}

static void store_finds_answers(void **state)
{
    hy_spec_store *s;
    hy_err err;
    int32_t ids[120], out[HY_SPEC_MAX];
    uint32_t n_match;
    assert_int_equal(hy_spec_store_open(&s, 0, &err), HY_E_ARG);
    assert_int_equal(hy_spec_store_open(&s, 500, &err), HY_OK); /* rounded up to 512 */
    assert_true(hy_spec_store_bytes(s) >= 512 * 16);
    uint64_t before = hy_alloc_count_here();
    for (uint32_t a = 0; a < 40; a++) {
        for (uint32_t i = 0; i < 120; i++) ids[i] = (int32_t)(a * 1000 + i);
        hy_spec_store_add(s, a % 2, ids, 120);
        for (uint32_t old = 0; old <= a; old++) { /* the last four whole ones are there, for their own salt */
            const int32_t at[6] = { 7, (int32_t)(old * 1000 + 50), (int32_t)(old * 1000 + 51), (int32_t)(old * 1000 + 52),
                                    (int32_t)(old * 1000 + 53), (int32_t)(old * 1000 + 54) };
            uint32_t got = hy_spec_store_propose(s, old % 2, at, 6, 8, out, &n_match);
            if (a - old < 4) {
                assert_int_equal(got, 8);
                assert_int_equal(n_match, 5);
                for (uint32_t k = 0; k < 8; k++) assert_int_equal(out[k], old * 1000 + 55 + k);
            } else if (a - old > 4) {
                assert_int_equal(got, 0);
            }
            assert_int_equal(hy_spec_store_propose(s, 7, at, 6, 8, out, &n_match), 0);
            assert_int_equal(n_match, 0);
        }
    }
    /* an answer's end is no place to go on from into the next answer */
    const int32_t end[5] = { 39 * 1000 + 113, 39 * 1000 + 114, 39 * 1000 + 115, 39 * 1000 + 116, 39 * 1000 + 117 };
    assert_int_equal(hy_spec_store_propose(s, 1, end, 5, 8, out, &n_match), 2);
    assert_int_equal(out[1], 39 * 1000 + 119);
    int32_t many[2000];
    for (uint32_t i = 0; i < 2000; i++) many[i] = (int32_t)i;
    hy_spec_store_add(s, 0, many, 2000);
    assert_int_equal(hy_spec_store_propose(s, 0, many + 1900, 6, 4, out, &n_match), 4);
    assert_int_equal(out[0], 1906);
    assert_int_equal(hy_spec_store_propose(s, 0, many + 100, 6, 4, out, &n_match), 0);
    assert_int_equal(hy_alloc_count_here(), before);
    hy_spec_store_close(s);
}

/* ---- shares ------------------------------------------------------------------------------------ */

static double gain_of(const hy_spec_want *w, const uint32_t *n, uint32_t n_want, uint32_t n_plain, const hy_spec_cost *c)
{
    double tokens = n_want + n_plain;
    uint32_t rows = n_want + n_plain;
    for (uint32_t i = 0; i < n_want; i++) {
        double reach = 1;
        for (uint32_t k = 0; k < n[i]; k++) tokens += reach *= w[i].p[k];
        rows += n[i];
    }
    return tokens / hy_spec_cost_ms(c, rows) / ((n_want + n_plain) / hy_spec_cost_ms(c, n_want + n_plain));
}

static void best_of_all_shares(void **state)
{
    for (uint64_t seed = 0; seed < 300; seed++) {
        hy_spec_want w[3];
        hy_spec_cost c;
        double ms[HY_SPEC_KNOTS], t = 1 + 20 * unit(seed, 0), slope = unit(seed, 1) * 2 * t / 5;
        for (uint32_t i = 0; i < HY_SPEC_KNOTS; i++) ms[i] = t += slope * unit(seed, 10 + i) * (i % 3 == 0 ? 3 : 0.3);
        hy_spec_cost_set(&c, ms, HY_SPEC_KNOTS);
        uint32_t n_want = 1 + (uint32_t)(bits(seed, 2) % 3), n_plain = (uint32_t)(bits(seed, 3) % 4), room = 7;
        memset(w, 0, sizeof w);
        for (uint32_t i = 0; i < n_want; i++) {
            w[i].most = (uint32_t)(bits(seed, 4 + i) % 6);
            for (uint32_t k = 0; k < HY_SPEC_MAX; k++) w[i].p[k] = unit(seed, 40 + i);
        }
        double gain = hy_spec_share(w, n_want, n_plain, room, &c, NULL), best = 1;
        uint32_t n[3], got[3] = { w[0].n, w[1].n, w[2].n };
        for (n[0] = 0; n[0] <= w[0].most; n[0]++)
            for (n[1] = 0; n[1] <= (n_want > 1 ? w[1].most : 0); n[1]++)
                for (n[2] = 0; n[2] <= (n_want > 2 ? w[2].most : 0); n[2]++)
                    if (n[0] + n[1] + n[2] <= room) best = fmax(best, gain_of(w, n, n_want, n_plain, &c));
        if (best < HY_SPEC_LEAST) best = 1;
        assert_true(fabs(gain - best) < 1e-9 * best);
        if (gain > 1) assert_true(fabs(gain_of(w, got, n_want, n_plain, &c) - best) < 1e-9 * best);
        else assert_int_equal(got[0] + (n_want > 1 ? got[1] : 0) + (n_want > 2 ? got[2] : 0), 0);
    }
}

/* What a model drafts costs time: the dearer its steps, the fewer; too dear: none. */
static void dear_drafts_are_few(void **state)
{
    const double target_ms[3] = { 100, 101, 102 };
    hy_spec_cost target, draft;
    uint32_t last = HY_SPEC_MAX;
    hy_spec_cost_set(&target, target_ms, 3);
    for (double ms = 1; ms < 200; ms *= 1.3) {
        hy_spec_want w = { .most = HY_SPEC_MAX, .model = true };
        for (uint32_t k = 0; k < HY_SPEC_MAX; k++) w.p[k] = 0.8;
        hy_spec_cost_set(&draft, &ms, 1);
        double gain = hy_spec_share(&w, 1, 0, HY_SPEC_MAX, &target, &draft);
        assert_true(w.n <= last && gain >= 1);
        last = w.n;
        if (ms < 10) assert_true(w.n >= 4 && gain > 2);
        if (ms > 80) assert_int_equal(w.n, 0);
    }
}

static void costs_are_learnt(void **state)
{
    const double ms[4] = { 10, 11, 12, 20 };
    hy_spec_cost c;
    hy_spec_cost_set(&c, ms, 4);
    for (uint32_t i = 0; i < 4; i++) assert_true(fabs(hy_spec_cost_ms(&c, hy_spec_knot[i]) - ms[i]) < 1e-9);
    assert_true(fabs(hy_spec_cost_ms(&c, 6) - 36) < 1e-9); /* goes on as the last rows did */
    assert_true(fabs(hy_spec_cost_ms(&c, 20) - 148) < 1e-6);
    /* another machine, half as fast and with other steps: found again in a few hundred mixed steps */
    for (uint64_t i = 0; i < 1500; i++) {
        uint32_t n = 1 + (uint32_t)(bits(5, i) % 12);
        hy_spec_cost_add(&c, n, (20 + 2.0 * n) * (0.95 + 0.1 * unit(6, i)));
        for (uint32_t k = 1; k < 40; k++) assert_true(hy_spec_cost_ms(&c, k + 1) >= hy_spec_cost_ms(&c, k) - 1e-9);
    }
    for (uint32_t n = 1; n <= 12; n++) {
        double want = 20 + 2.0 * n, got = hy_spec_cost_ms(&c, n);
        if (fabs(got - want) > 0.12 * want) fail_msg("%u rows: %g ms, the machine takes %g", n, got, want);
    }
    hy_spec_cost_add(&c, 0, 1);
    hy_spec_cost_add(&c, 1, NAN);
    assert_true(isfinite(hy_spec_cost_ms(&c, 1)));
}

static void worth_follows_the_tokens(void **state)
{
    hy_spec_worth own, all;
    hy_spec_worth_init(&own, NULL);
    hy_spec_worth_init(&all, hy_spec_prior_match);
    for (uint32_t b = 0; b < HY_SPEC_BANDS; b++)
        assert_true(fabs(hy_spec_worth_of(&own, &all, b) - hy_spec_prior_match[b]) < 1e-9);
    uint32_t n = 0, hit = 0;
    for (uint64_t i = 0; i < 600; i++) {
        const uint8_t band[3] = { 7, 7, 2 };
        uint32_t ok = 0;
        while (ok < 3 && unit(8, 4 * i + ok) < (ok < 2 ? 0.25 : 0.9)) ok++;
        n++;
        hit += ok > 0;
        hy_spec_worth_add(&own, band, 3, ok);
        hy_spec_worth_add(&all, band, 3, ok);
    }
    assert_true(fabs(hy_spec_worth_of(&own, &all, 7) - (double)hit / n) < 0.12);
    assert_true(hy_spec_worth_of(&own, &all, 2) > 0.6);
    assert_true(fabs(hy_spec_worth_of(&own, &all, 5) - hy_spec_prior_match[5]) < 0.05); /* nothing said about it */
    double mean = hy_spec_worth_mean(&own, &all);
    assert_true(mean > 0.1 && mean < 0.6);
}

static void tries_grow_rare(void **state)
{
    hy_spec_pace p;
    hy_spec_pace_init(&p, NULL);
    uint32_t tries = 0, last = 0;
    for (uint32_t i = 0; i < 100000; i++)
        if (hy_spec_pace_step(&p)) {
            tries++;
            last = i;
            hy_spec_pace_tried(&p, false);
        }
    assert_true(tries > 50 && tries < 200 && last > 98000); /* about one in a thousand, for ever */
    hy_spec_pace_tried(&p, true);
    assert_true(hy_spec_pace_step(&p));
}

/* Who loses stops, pays off slowly and loses little of what it decodes; who wins may lose what it won. */
static void debts_are_bounded(void **state)
{
    hy_spec_pace p, all;
    hy_spec_pace_init(&p, NULL);
    double lost = 0;
    for (uint32_t i = 0; i < 5000; i++) {
        bool may = hy_spec_pace_may(&p, 0);
        hy_spec_pace_paid(&p, 1, 0, may ? 0.4 : 0);
        lost += may ? 0.4 : 0;
    }
    assert_true(lost > 20 && lost < 0.02 * 5000 + 2);
    for (uint32_t i = 0; i < 20; i++) hy_spec_pace_paid(&p, 1, 2, 0.5);
    assert_true(hy_spec_pace_may(&p, 0) && p.debt < -1);
    hy_spec_pace_init(&all, NULL);
    for (uint32_t i = 0; i < 100; i++) hy_spec_pace_paid(&all, 1, 0, 0.4);
    hy_spec_pace_init(&p, &all);
    assert_false(hy_spec_pace_may(&p, 0));
}

static void bands_grow(void **state)
{
    for (uint32_t k = 1; k < 100; k++) assert_true(hy_spec_band_of_match(k) >= hy_spec_band_of_match(k - 1));
    assert_int_equal(hy_spec_band_of_match(0), 0);
    assert_int_equal(hy_spec_band_of_match(64), HY_SPEC_BANDS - 1);
    assert_int_equal(hy_spec_band_of_lead(-5), 0);
    assert_int_equal(hy_spec_band_of_lead(INFINITY), HY_SPEC_BANDS - 1);
}

static void memory_runs_out(void **state)
{
    hy_ngram g;
    hy_spec_store *s;
    hy_err err;
    hy_alloc_fail_after(0);
    assert_int_equal(hy_ngram_open(&g, 100, &err), HY_E_MEMORY);
    for (int64_t n = 0; n < 3; n++) {
        hy_alloc_fail_after(n);
        assert_int_equal(hy_spec_store_open(&s, 100, &err), HY_E_MEMORY);
        assert_null(s);
    }
    hy_alloc_fail_after(-1);
    hy_spec_store_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ngrams_are_real), cmocka_unit_test(copies_go_on), cmocka_unit_test(edits_go_on), cmocka_unit_test(store_finds_answers),
        cmocka_unit_test(best_of_all_shares), cmocka_unit_test(dear_drafts_are_few), cmocka_unit_test(costs_are_learnt),
        cmocka_unit_test(worth_follows_the_tokens), cmocka_unit_test(tries_grow_rare), cmocka_unit_test(debts_are_bounded), cmocka_unit_test(bands_grow),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
