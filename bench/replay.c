/* What n-grams save on given answers, on the real model's clock: each task is a prompt and its answer
 * (tests/data/spec/tasks.json), the answer is what the model is taken to say, drafts are checked against it. Every
 * step is run, with one row and with drafted ones, in turns. So an edit can be measured without a model that edits
 * well; that the answer is given and not the model's own is the only difference to serving.
 *
 *   bench_replay MODEL.gguf TASKS.json [REPEATS] [KIND]
 *
 * Each line: kind, task, tokens, steps, tokens a step, drafted tokens that were right, and how many times as fast
 * (the median over the repeats, least and most); then for each kind the sum of times. Last: the same as JSON. */
#include "engine/core.h"
#include "spec/spec.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 2048, REPEATS_MAX = 32 };

typedef struct bench {
    hy_session *s;
    hy_core *c;
    float *logits;             /* [1 + HY_SPEC_MAX, n_vocab] */
    hy_page_table table;
    hy_spec_cost cost;
    float sum;                 /* of maxima: so that they are computed */
} bench;

typedef struct played {
    uint32_t tokens, steps, drafted, accepted;
    double ms;
} played;

static void check(hy_status s, const hy_err *err)
{
    if (s == HY_OK) return;
    fprintf(stderr, "bench_replay: %s\n", err->msg);
    exit(1);
}

/* One step of ids[pos0, pos0 + n) with logits of each; the pages stay. */
static double step(bench *b, const int32_t *ids, uint32_t pos0, uint32_t n, bool want)
{
    int32_t pos[CONTEXT];
    uint32_t out[1 + HY_SPEC_MAX];
    hy_err err;
    hy_row row = { .table = &b->table, .n_tok = n, .pos0 = pos0 };
    hy_batch batch = { .n_tok = n, .token = ids + pos0, .pos = pos, .n_row = 1, .row = &row, .n_out = want ? n : 1,
                       .out_tok = out };
    for (uint32_t i = 0; i < n; i++) pos[i] = (int32_t)(pos0 + i);
    for (uint32_t i = 0; i < batch.n_out; i++) out[i] = want ? i : n - 1;
    uint64_t us = hy_now_us();
    check(hy_kv_reserve(b->c->kv, &b->table, pos0 + n, &err), &err);
    check(hy_plan_run(b->c->plan, b->c->team, b->c->kv, &batch, b->logits, &err), &err);
    for (uint32_t i = 0; i < batch.n_out; i++) {
        const float *row_of = b->logits + (size_t)i * b->c->model->hp.n_vocab;
        float best = row_of[0];
        for (uint32_t k = 1; k < b->c->model->hp.n_vocab; k++) best = row_of[k] > best ? row_of[k] : best;
        b->sum += best;
    }
    return (double)(hy_now_us() - us) / 1e3;
}

/* Step times of 1, 2, 3 ... rows: the best of a few rounds. */
static void measure(bench *b)
{
    double best[HY_SPEC_KNOTS];
    int32_t ids[64];
    uint32_t n = 0;
    for (uint32_t i = 0; i < 64; i++) ids[i] = (int32_t)(1000 + i * 17);
    while (hy_spec_knot[n] <= 1 + HY_SPEC_MAX) best[n++] = 1e9;
    for (int round = 0; round < 9; round++)
        for (uint32_t i = 0; i < n; i++) {
            double ms = step(b, ids, 16, hy_spec_knot[i], true);
            best[i] = HY_MIN(best[i], ms);
        }
    hy_kv_truncate(b->c->kv, &b->table, 0);
    hy_spec_cost_set(&b->cost, best, n);
    double one = hy_spec_cost_ms(&b->cost, 1);
    for (uint32_t i = 0; i < n; i++)
        printf("%s%u:%.2f", i ? " " : "rows cost ", hy_spec_knot[i], hy_spec_cost_ms(&b->cost, hy_spec_knot[i]) / one);
    printf(" of %.2f ms\n", one);
}

static void prefill(bench *b, const int32_t *ids, uint32_t n)
{
    hy_kv_truncate(b->c->kv, &b->table, 0);
    for (uint32_t at = 0; at < n; at += b->c->n_step) step(b, ids, at, HY_MIN(b->c->n_step, n - at), false);
}

static played play(bench *b, const int32_t *ids, uint32_t n_prompt, uint32_t n_all, bool speculate)
{
    played p = { .tokens = n_all - n_prompt };
    hy_ngram g;
    hy_err err;
    hy_spec_worth own, all;
    hy_spec_pace pace;
    hy_spec_worth_init(&own, NULL);
    hy_spec_worth_init(&all, hy_spec_prior_match);
    hy_spec_pace_init(&pace, NULL);
    check(hy_ngram_open(&g, CONTEXT, &err), &err);
    hy_ngram_add(&g, ids, n_prompt);
    prefill(b, ids, n_prompt - 1);
    int32_t row[CONTEXT];
    memcpy(row, ids, n_all * sizeof *ids);
    for (uint32_t n = n_prompt; n < n_all; p.steps++) {
        hy_spec_want w = { .pace = &pace };
        uint8_t band[HY_SPEC_MAX];
        uint32_t match, k = 0;
        uint64_t us = hy_now_us();
        if (speculate) {
            hy_ngram_add(&g, ids, n);
            hy_spec_pace_paid(&pace, 1, 0, 0);
            w.most = hy_ngram_propose(&g, ids, HY_MIN(HY_SPEC_MAX, n_all - n), row + n, &match);
            for (uint32_t i = 0; i < w.most; i++) {
                band[i] = (uint8_t)hy_spec_band_of_match(match + i);
                w.p[i] = hy_spec_worth_of(&own, &all, band[i]);
            }
            hy_spec_share(&w, 1, 0, HY_SPEC_MAX, &b->cost, NULL);
        }
        double ms = step(b, row, n - 1, 1 + w.n, true), took = (double)(hy_now_us() - us) / 1e3;
        while (k < w.n && row[n + k] == ids[n + k]) k++;
        if (speculate) {
            double one = hy_spec_cost_ms(&b->cost, 1);
            hy_spec_pace_paid(&pace, 0, k, hy_spec_cost_ms(&b->cost, 1 + w.n) / one - 1);
            hy_spec_cost_add(&b->cost, 1 + w.n, ms);
            hy_spec_worth_add(&own, band, w.n, k);
            if (w.trial) hy_spec_pace_tried(&pace, k == w.n);
        }
        p.drafted += w.n;
        p.accepted += k;
        p.ms += took;
        n += HY_MIN(k + 1, n_all - n);
        hy_kv_truncate(b->c->kv, &b->table, n - 1);
        memcpy(row, ids, n_all * sizeof *ids);
    }
    hy_ngram_close(&g);
    return p;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Prompt and answer as tokens; the answer's own tokenization follows the prompt's. */
static uint32_t tokens_of(bench *b, const char *text, int32_t *ids, uint32_t n, bool first)
{
    int32_t *got;
    size_t n_got;
    hy_err err;
    check(hy_session_tokenize(b->s, text, strlen(text), first, false, &got, &n_got, &err), &err);
    if (n + n_got > CONTEXT) n_got = CONTEXT - n;
    memcpy(ids + n, got, n_got * sizeof *got);
    hy_free(got);
    return n + (uint32_t)n_got;
}

static json_t *one_task(bench *b, json_t *task, int repeats)
{
    int32_t ids[CONTEXT];
    double gain[REPEATS_MAX], off_ms = 0, on_ms = 0;
    played on = { 0 };
    uint32_t n_prompt = tokens_of(b, json_string_value(json_object_get(task, "prompt")), ids, 0, true);
    uint32_t n = tokens_of(b, json_string_value(json_object_get(task, "answer")), ids, n_prompt, false);
    for (int i = 0; i < repeats; i++) {
        played off = { 0 };
        for (int turn = 0; turn < 2; turn++) {
            if ((turn + i) % 2 == 0) off = play(b, ids, n_prompt, n, false);
            else on = play(b, ids, n_prompt, n, true);
        }
        gain[i] = off.ms / on.ms;
        off_ms += off.ms;
        on_ms += on.ms;
    }
    qsort(gain, (size_t)repeats, sizeof *gain, by_size);
    json_t *r = json_pack("{s:O, s:O, s:i, s:i, s:i, s:i}", "task", json_object_get(task, "name"), "kind",
                          json_object_get(task, "kind"), "tokens", (int)on.tokens, "steps", (int)on.steps, "drafted",
                          (int)on.drafted, "accepted", (int)on.accepted);
    json_object_set_new(r, "gain", json_real(gain[repeats / 2]));
    json_object_set_new(r, "gain_least", json_real(gain[0]));
    json_object_set_new(r, "gain_most", json_real(gain[repeats - 1]));
    json_object_set_new(r, "off_ms", json_real(off_ms / repeats));
    json_object_set_new(r, "on_ms", json_real(on_ms / repeats));
    return r;
}

static double number(const json_t *r, const char *key)
{
    return json_number_value(json_object_get(r, key));
}

static void print_task(const json_t *r)
{
    double drafted = number(r, "drafted");
    printf("%-8s %-22s %4.0f tokens %4.0f steps %5.2f a step  %.2f right  %.2f (%.2f, %.2f)\n",
           json_string_value(json_object_get(r, "kind")), json_string_value(json_object_get(r, "task")), number(r, "tokens"),
           number(r, "steps"), number(r, "tokens") / number(r, "steps"), drafted > 0 ? number(r, "accepted") / drafted : 0,
           number(r, "gain"), number(r, "gain_least"), number(r, "gain_most"));
    fflush(stdout);
}

static void print_kinds(const json_t *list)
{
    static const char *const kinds[] = { "copy", "edit", "summary", "json", "chat" };
    for (size_t k = 0; k < HY_COUNT(kinds); k++) {
        double off = 0, on = 0;
        size_t i;
        json_t *r;
        json_array_foreach(list, i, r) {
            if (strcmp(json_string_value(json_object_get(r, "kind")), kinds[k]) != 0) continue;
            off += number(r, "off_ms");
            on += number(r, "on_ms");
        }
        if (on > 0) printf("%-8s all: %.2f\n", kinds[k], off / on);
    }
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: bench_replay MODEL.gguf TASKS.json [REPEATS] [KIND]\n");
        return 2;
    }
    int repeats = argc > 3 ? atoi(argv[3]) : 3;
    repeats = HY_MIN(HY_MAX(repeats, 1), REPEATS_MAX);
    bench b = { 0 };
    hy_err err;
    hy_options o;
    json_error_t e;
    json_t *all = json_load_file(argv[2], 0, &e), *list = json_array(), *task;
    if (!json_is_array(json_object_get(all, "tasks"))) {
        fprintf(stderr, "bench_replay: %s: %s\n", argv[2], all ? "no tasks" : e.text);
        return 1;
    }
    hy_options_init(&o);
    o.model = argv[1];
    o.n_ctx = CONTEXT;
    o.n_seq = 1;
    check(hy_session_open(&b.s, &o, &err), &err);
    b.c = hy_session_core(b.s);
    b.logits = hy_alloc_array((size_t)(1 + HY_SPEC_MAX) * b.c->model->hp.n_vocab, sizeof(float));
    if (!b.logits) return 1;
    check(hy_page_table_init(b.c->kv, &b.table, CONTEXT, &err), &err);
    measure(&b);
    size_t i;
    json_array_foreach(json_object_get(all, "tasks"), i, task) {
        if (argc > 4 && strcmp(argv[4], json_string_value(json_object_get(task, "kind"))) != 0) continue;
        json_t *r = one_task(&b, task, repeats);
        print_task(r);
        json_array_append_new(list, r);
    }
    print_kinds(list);
    json_dumpf(list, stdout, JSON_INDENT(1) | JSON_SORT_KEYS);
    printf("\n");
    json_decref(list);
    json_decref(all);
    hy_page_table_free(b.c->kv, &b.table);
    hy_free(b.logits);
    hy_session_close(b.s);
    return 0;
}
