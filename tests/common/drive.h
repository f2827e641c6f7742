/* A small driver for tests: a model, a plan and a KV pool; steps of one sequence or several. */
#ifndef HY_TESTS_DRIVE_H
#define HY_TESTS_DRIVE_H

#include "plan/plan.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define DRIVE_SEQ 40

typedef struct drive_opts {
    const char *isa;           /* NULL: best */
    uint32_t n_thread, n_ctx, n_tok_max, n_page;
    bool no_fuse, act_f32, no_cascade, materialised;
    hy_kv_type kv_type;
} drive_opts;

typedef struct drive {
    hy_kernels kern;
    hy_team *team;
    hy_model *m;
    bool own_model;
    hy_plan *plan;
    hy_kv *kv;
    hy_page_table t[DRIVE_SEQ];
    uint32_t n_vocab;
} drive;

#define DRIVE_OK(call)                                                                             \
    do {                                                                                           \
        hy_err err_ = { 0 };                                                                       \
        hy_err *err = &err_;                                                                       \
        if ((call) != HY_OK) fail_msg("%s: %s", #call, err_.msg);                                  \
    } while (0)

/* Plan, pool and tables over a model (borrowed). */
static void drive_over(drive *d, hy_model *m, const drive_opts *o)
{
    memset(d, 0, sizeof *d);
    d->m = m;
    d->n_vocab = m->hp.n_vocab;
    DRIVE_OK(hy_team_open(&d->team, o->n_thread ? o->n_thread : 1, false, err));
    uint32_t n_ctx = m->hp.rope[0].kind == HY_ROPE_DYNAMIC ? o->n_ctx
                     : HY_MIN(o->n_ctx, m->hp.n_ctx_train); /* learned positions end there */
    hy_plan_opts po = { .fuse = !o->no_fuse, .act_f32 = o->act_f32, .kv_type = o->kv_type,
                        .no_cascade = o->no_cascade, .materialised = o->materialised,
                        .n_ctx = n_ctx, .n_tok_max = o->n_tok_max, .n_out_max = o->n_tok_max,
                        .n_row_max = DRIVE_SEQ };
    DRIVE_OK(hy_plan_compile(&d->plan, m, &po, err));
    hy_kv_group g[HY_KV_GROUPS_MAX];
    uint8_t *layer_group = malloc(m->hp.n_layer);
    uint16_t *layer_index = malloc(m->hp.n_layer * sizeof *layer_index);
    uint32_t n = hy_model_kv_groups(m, o->kv_type, g, layer_group, layer_index);
    free(layer_group);
    free(layer_index);
    for (uint32_t i = 0; i < n; i++) g[i].n_page = o->n_page ? o->n_page : n_ctx / 16 + 2;
    DRIVE_OK(hy_kv_open(&d->kv, g, n, err));
    for (uint32_t i = 0; i < DRIVE_SEQ; i++)
        DRIVE_OK(hy_page_table_init(d->kv, &d->t[i], n_ctx, err));
}

/* quantise: -1, or what float matrices become. */
static hy_status drive_load(hy_model **out, const char *path, const char *isa, int quantise, hy_err *err)
{
    hy_kernels k;
    HY_TRY(hy_kern_fill(&k, hy_cpu_features(), isa, err));
    hy_file *f = NULL;
    HY_TRY(hy_file_open(&f, path, err));
    hy_team *team = NULL;
    hy_status st = hy_team_open(&team, 2, false, err);
    hy_load_opts lo = { .kern = &k, .team = team, .quantise = quantise };
    if (st == HY_OK) st = hy_model_load(out, f, &lo, err);
    hy_team_close(team);
    hy_file_close(f);
    return st;
}

static void drive_close(drive *d)
{
    for (uint32_t i = 0; i < DRIVE_SEQ && d->kv; i++) hy_page_table_free(d->kv, &d->t[i]);
    hy_kv_close(d->kv);
    hy_plan_free(d->plan);
    hy_team_close(d->team);
}

/* One row: tokens [pos0, pos0 + n) of sequence i. logits: [n, n_vocab] for all of them, or NULL. */
static void drive_step(drive *d, uint32_t i, const int32_t *tok, uint32_t n, uint32_t pos0,
                       uint32_t n_total, float *logits)
{
    DRIVE_OK(hy_kv_reserve(d->kv, &d->t[i], pos0 + n, err));
    int32_t pos[2048];
    uint32_t out[2048];
    for (uint32_t k = 0; k < n; k++) {
        pos[k] = (int32_t)(pos0 + k);
        out[k] = k;
    }
    hy_row row = { .table = &d->t[i], .n_tok = n, .pos0 = pos0, .n_total = n_total };
    hy_batch b = { .n_tok = n, .token = tok, .pos = pos, .n_row = 1, .row = &row,
                   .n_out = logits ? n : 0, .out_tok = out };
    DRIVE_OK(hy_plan_run(d->plan, d->team, d->kv, &b, logits, err));
}

/* Furthest of the logits at n_pos positions, [*, n_vocab] in `got`, from those that the file holds, [n_pos, n_vocab]. */
__attribute__((unused)) static double drive_furthest(const char *path, const float *got, const int32_t *pos,
                                                     uint32_t n_pos, uint32_t n_vocab)
{
    char *data = NULL;
    size_t bytes = 0;
    DRIVE_OK(hy_read_file(path, 1 << 24, &data, &bytes, err));
    assert_int_equal(bytes, (size_t)n_pos * n_vocab * sizeof(float));
    double worst = 0;
    for (uint32_t i = 0; i < n_pos; i++)
        for (uint32_t k = 0; k < n_vocab; k++) {
            float want;
            memcpy(&want, data + ((size_t)i * n_vocab + k) * sizeof want, sizeof want);
            double diff = (double)got[(size_t)pos[i] * n_vocab + k] - want;
            diff = diff < 0 ? -diff : diff;
            if (!(diff <= worst)) worst = diff;
        }
    hy_free(data);
    return worst;
}

#endif
