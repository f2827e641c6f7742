/* plan: clocks, bytes and operations of operators, and spans. Expected numbers are counted here from the
 * model's sizes. */
#include "../common/drive.h"
#include "plan/instr.h"

#define MODEL HY_DATA "/models/llama3/model-bf16.gguf"
#define MOE HY_DATA "/models/qwen2_moe/model-bf16.gguf"

typedef struct sums {
    uint64_t n, int8, f32, ns, wait, bytes, mem;
} sums;

static sums sum_up(const hy_plan *p, hy_op only)
{
    hy_op_time t[HY_OP_COUNT];
    uint32_t n = hy_plan_times(p, t);
    sums s = { 0 };
    for (uint32_t i = 0; i < n; i++) {
        if (only != HY_OP_COUNT && t[i].op != only) continue;
        assert_true(t[i].mem_bytes <= t[i].bytes);
        s.n += t[i].n;
        s.int8 += t[i].ops_int8;
        s.f32 += t[i].ops_f32;
        s.ns += t[i].ns;
        s.wait += t[i].wait_ns;
        s.bytes += t[i].bytes;
        s.mem += t[i].mem_bytes;
    }
    return s;
}

/* Operations of one token's products, by the definition of a Llama layer. */
static uint64_t products(const hy_hparams *hp, uint64_t n_tok, uint64_t n_out)
{
    uint64_t e = hp->n_embd, q = (uint64_t)hp->n_head * hp->d_k, kv = (uint64_t)hp->n_kv_head * hp->d_k;
    uint64_t layer = e * q + 2 * e * kv + q * e + 3 * e * hp->n_ff;
    return 2 * (n_tok * hp->n_layer * layer + n_out * e * hp->n_vocab);
}

/* q.k and p.v of every pair that the causal mask lets through. */
static uint64_t attention(const hy_hparams *hp, uint64_t pos0, uint64_t n_tok)
{
    uint64_t pairs = 0;
    for (uint64_t i = 0; i < n_tok; i++) pairs += pos0 + i + 1;
    return pairs * hp->n_layer * hp->n_head * 2 * 2 * hp->d_k;
}

static void load(hy_model **m, const char *path, int quantise)
{
    DRIVE_OK(drive_load(m, path, NULL, quantise, err));
}

static void counts(void **state)
{
    hy_model *m = NULL;
    load(&m, MODEL, -1);
    drive d;
    drive_over(&d, m, &(drive_opts){ .n_thread = 2, .n_ctx = 128, .n_tok_max = 64, .kv_type = HY_KV_F16 });
    int32_t tok[64];
    for (int32_t i = 0; i < 64; i++) tok[i] = i;
    float *logits = malloc(64ul * d.n_vocab * sizeof *logits);
    drive_step(&d, 0, tok, 40, 0, 0, NULL);
    assert_int_equal(sum_up(d.plan, HY_OP_COUNT).n, 0); /* off */
    assert_true(hy_plan_timing(d.plan, true));
    drive_step(&d, 0, tok, 17, 40, 0, logits);
    sums s = sum_up(d.plan, HY_OP_COUNT), a = sum_up(d.plan, HY_OP_ATTENTION);
    assert_int_equal(s.int8, 0); /* bf16 weights: activations stay floats */
    assert_int_equal(a.f32, attention(&m->hp, 40, 17));
    assert_int_equal(s.f32 - a.f32, products(&m->hp, 17, 17));
    assert_int_equal(a.n, m->hp.n_layer);
    /* keys and values of 57 tokens in two bytes each */
    assert_int_equal(a.mem, 57ull * m->hp.n_layer * m->hp.n_kv_head * m->hp.d_k * 2 * 2);
    assert_true(s.ns > 0);
    /* every matrix once, whatever the rows; the embedding's rows and, where it is tied, the whole of it */
    uint64_t w = 0;
    for (uint32_t l = 0; l < m->hp.n_layer; l++)
        for (uint32_t r = HY_W_FIRST_LAYER_ROLE; r < HY_W_COUNT; r++)
            if (m->layer[l][r].present && m->layer[l][r].panels) w += m->layer[l][r].panels->n_panel * m->layer[l][r].panels->panel_bytes;
    const hy_panels *out = m->global[m->tied ? HY_W_TOK_EMBD : HY_W_OUTPUT].panels;
    const hy_panels *in = m->global[HY_W_TOK_EMBD].panels;
    w += out->n_panel * out->panel_bytes + 17 * (in->n_panel * in->panel_bytes / in->n_row);
    assert_int_equal(s.mem - a.mem, w);
    /* on again: from zero; off: nothing more */
    hy_plan_timing(d.plan, true);
    assert_int_equal(sum_up(d.plan, HY_OP_COUNT).n, 0);
    hy_plan_timing(d.plan, false);
    drive_step(&d, 0, tok, 1, 57, 0, logits);
    assert_int_equal(sum_up(d.plan, HY_OP_COUNT).n, 0);
    free(logits);
    drive_close(&d);
    hy_model_free(m);
}

static void quantised_counts(void **state)
{
    hy_model *m = NULL;
    load(&m, MODEL, HY_Q_Q8_0);
    drive d;
    drive_over(&d, m, &(drive_opts){ .n_thread = 3, .n_ctx = 64, .n_tok_max = 16, .kv_type = HY_KV_F16 });
    int32_t tok[1] = { 5 };
    hy_plan_timing(d.plan, true);
    drive_step(&d, 0, tok, 1, 0, 0, NULL); /* no logits: the output matrix rests */
    sums s = sum_up(d.plan, HY_OP_COUNT);
    uint64_t q8 = 0; /* matrices whose rows are no whole number of blocks stayed floats */
    for (uint32_t l = 0; l < m->hp.n_layer; l++)
        for (uint32_t r = HY_W_FIRST_LAYER_ROLE; r < HY_W_COUNT; r++) {
            const hy_panels *w = m->layer[l][r].present ? m->layer[l][r].panels : NULL;
            if (w && w->type == HY_Q_Q8_0) q8 += 2 * w->n_row * w->k;
        }
    assert_true(q8 > 0);
    assert_int_equal(s.int8, q8);
    assert_int_equal(s.int8 + s.f32, products(&m->hp, 1, 0) + attention(&m->hp, 0, 1));
    drive_close(&d);
    hy_model_free(m);
}

static void expert_counts(void **state)
{
    hy_model *m = NULL;
    load(&m, MOE, -1);
    drive d;
    drive_over(&d, m, &(drive_opts){ .n_thread = 2, .n_ctx = 64, .n_tok_max = 16, .kv_type = HY_KV_F32 });
    int32_t tok[2] = { 5, 9 };
    hy_plan_timing(d.plan, true);
    drive_step(&d, 0, tok, 2, 0, 0, NULL);
    const hy_hparams *hp = &m->hp;
    uint32_t n_moe = 0;
    for (uint32_t l = 0; l < hp->n_layer; l++) n_moe += hp->layer[l].moe;
    uint64_t one = 2ull * hp->n_embd * hp->n_ff_expert * hp->n_expert_used * n_moe;
    sums up = sum_up(d.plan, HY_OP_MOE_UP), down = sum_up(d.plan, HY_OP_MOE_DOWN);
    assert_int_equal(up.f32, 2 * 2 * one); /* two tokens; gate and up */
    assert_int_equal(down.f32, 2 * one);
    /* between one and two tokens' experts were read */
    uint64_t most = 0;
    for (uint32_t l = 0; l < hp->n_layer; l++)
        if (hp->layer[l].moe) most += m->layer[l][HY_W_E_DOWN].panels->n_panel * m->layer[l][HY_W_E_DOWN].panels->panel_bytes * hp->n_expert_used;
    assert_in_range(down.mem, most, 2 * most);
    drive_close(&d);
    hy_model_free(m);
}

typedef struct spans {
    uint32_t n[4];
    uint64_t last[4], step[4];
    uint64_t first_step;
} spans;

static void take(void *ctx, uint32_t i, const hy_plan_span *s)
{
    spans *c = ctx;
    assert_in_range(i, 0, 3);
    assert_true(s->ns_first <= s->ns_done && s->ns_done <= s->ns_last);
    assert_true(s->ns_first >= c->last[i] && s->i_step >= c->step[i]);
    if (c->n[i] == 0) c->first_step = s->i_step;
    c->last[i] = s->ns_last;
    c->step[i] = s->i_step;
    c->n[i]++;
}

static void traces(void **state)
{
    hy_model *m = NULL;
    load(&m, MODEL, -1);
    drive d;
    drive_over(&d, m, &(drive_opts){ .n_thread = 3, .n_ctx = 64, .n_tok_max = 16, .kv_type = HY_KV_F16 });
    int32_t tok[1] = { 5 };
    DRIVE_OK(hy_plan_trace(d.plan, 2, 1000, err)); /* of the third thread none */
    drive_step(&d, 0, tok, 1, 0, 0, NULL);
    uint32_t each = (uint32_t)sum_up(d.plan, HY_OP_COUNT).n;
    drive_step(&d, 0, tok, 1, 1, 0, NULL);
    spans c = { .first_step = 0 };
    hy_plan_rings rings = hy_plan_traced(d.plan);
    hy_plan_each_span(&rings, take, &c);
    assert_int_equal(c.n[0], 2 * each);
    assert_int_equal(c.n[1], 2 * each);
    assert_int_equal(c.n[2], 0);
    assert_int_equal(c.step[0], c.first_step + 1);
    /* a small ring keeps the newest */
    DRIVE_OK(hy_plan_trace(d.plan, 3, each + 1, err));
    for (uint32_t i = 2; i < 6; i++) drive_step(&d, 0, tok, 1, i, 0, NULL);
    uint64_t newest = c.step[0] + 4;
    memset(&c, 0, sizeof c);
    rings = hy_plan_traced(d.plan);
    hy_plan_each_span(&rings, take, &c);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(c.n[i], each + 1);
        assert_int_equal(c.step[i], newest);
    }
    assert_int_equal(c.first_step, newest - 1);
    drive_close(&d);
    hy_model_free(m);
}

static void without_memory(void **state)
{
    hy_model *m = NULL;
    load(&m, MODEL, -1);
    drive d;
    drive_over(&d, m, &(drive_opts){ .n_thread = 1, .n_ctx = 64, .n_tok_max = 16, .kv_type = HY_KV_F16 });
    hy_alloc_fail_after(0);
    assert_false(hy_plan_timing(d.plan, true));
    hy_alloc_fail_after(-1);
    int32_t tok[1] = { 5 };
    drive_step(&d, 0, tok, 1, 0, 0, NULL);
    assert_int_equal(sum_up(d.plan, HY_OP_COUNT).n, 0);
    hy_err e = { 0 };
    assert_true(hy_plan_timing(d.plan, true));
    hy_alloc_fail_after(0);
    assert_int_equal(hy_plan_trace(d.plan, 1, 100000, &e), HY_E_MEMORY);
    hy_alloc_fail_after(-1);
    drive_step(&d, 0, tok, 1, 1, 0, NULL);
    assert_true(sum_up(d.plan, HY_OP_COUNT).n > 0);
    drive_close(&d);
    hy_model_free(m);
}

/* What each prim of an entry moves, counted by hand: floats are 4 bytes, the int8 form of 32 is 64. */
static void entries_move(void **state)
{
    (void)state;
    enum { N = 64, F = 4 * N, Q = 2 * N };
    const hy_instr norm = { .op = HY_OP_NORM, .out = HY_S_H, .a = HY_S_X, .b = HY_S_NONE, .n = N, .k = N, .a_bytes = 2 * F },
                   quant = { .op = HY_OP_QUANT, .out = HY_S_H, .a = HY_S_H, .b = HY_S_NONE, .n = N, .k = N, .a_bytes = F + Q },
                   mm = { .op = HY_OP_MATMUL, .out = HY_S_A, .a = HY_S_H, .b = HY_S_NONE, .n = N, .k = N, .q8 = true, .a_bytes = F + Q },
                   add = { .op = HY_OP_ADD, .out = HY_S_X, .a = HY_S_X, .b = HY_S_A, .n = N, .k = N, .a_bytes = 3 * F };
    const struct {
        hy_instr prim[2];
        uint32_t n;
        uint64_t want[2];
    } cases[] = {
        { { norm }, 1, { 2 * F } },              /* alone: reads and writes */
        { { norm, quant }, 2, { 2 * F, Q } },    /* the norm's row is still there */
        { { mm, add }, 2, { Q, 2 * F } },        /* the product goes into the sum: X is read and written */
        { { add, norm }, 2, { 3 * F, F } },
        { { add, quant }, 2, { 3 * F, F + Q } }, /* of another slot: read */
    };
    for (size_t i = 0; i < HY_COUNT(cases); i++) {
        hy_instr prim[2];
        memcpy(prim, cases[i].prim, sizeof prim);
        hy_plan p = { .prim = prim, .n_prim = cases[i].n };
        hy_entry e = { .first = 0, .n = cases[i].n };
        for (uint32_t k = 0; k < e.n; k++) assert_int_equal(hy_prim_moves(&p, &e, k), cases[i].want[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_move),
        cmocka_unit_test(counts), cmocka_unit_test(quantised_counts), cmocka_unit_test(expert_counts),
        cmocka_unit_test(traces), cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
