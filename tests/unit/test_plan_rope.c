/* plan: rotary tables that no golden model reaches: dynamic NTK, LongRoPE's choice of factors, bad
 * values. (Plain, linear, Llama 3, YaRN and LongRoPE themselves: golden/test_plan_golden.) */
#include "plan/instr.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static hy_arena *arena;

static void init(hy_rope_table *t, const hy_rope *r, float *c, float *s)
{
    hy_err err = { 0 };
    if (hy_rope_init(t, r, arena, &err) != HY_OK) fail_msg("%s", err.msg);
    t->c = c;
    t->s = s;
}

static void one(const hy_rope_table *t, uint32_t pos, uint32_t n_total)
{
    hy_row row = { NULL, 0, 1, pos, n_total };
    hy_batch b = { .n_tok = 1, .n_row = 1, .row = &row };
    hy_rope_step(t, &b, 0, 1);
}

/* cos and sin at the last position of a pass of 64, 65 and 200 tokens, by the formula of transformers'
 * _compute_dynamic_ntk_parameters (base 10000, factor 4, original context 64, 16 dimensions), in
 * double but for the roundings torch makes to float32. */
static void dynamic_ntk(void **state)
{
    (void)state;
    static const uint32_t n[3] = { 64, 65, 200 };
    static const float want_c[3][8] = {
        { 0.98589658f, 0.47767145f, 0.99985863f, -0.40907373f, 0.80802751f, 0.98022055f, 0.99801616f, 0.99980156f },
        { 0.39185723f, 0.34880691f, 0.99997611f, -0.39048172f, 0.81491816f, 0.98127778f, 0.99815473f, 0.99981859f },
        { -0.47162571f, -0.06926846f, -0.5109196f, -0.73596465f, 0.85266266f, 0.99206854f, 0.9995826f, 0.99997806f },
    };
    static const float want_s[3][8] = {
        { 0.1673557f, 0.87853855f, 0.016814091f, 0.91250134f, 0.58914475f, 0.19790825f, 0.062958335f, 0.019921032f },
        { 0.92002604f, 0.93719461f, 0.0069128281f, 0.92061068f, 0.57957604f, 0.19259781f, 0.060721862f, 0.019046921f },
        { -0.88179884f, 0.99759806f, -0.8596285f, 0.67701997f, 0.52246186f, 0.12569811f, 0.028889754f, 0.0066240914f },
    };
    const hy_rope r = { .kind = HY_ROPE_DYNAMIC, .n_rot = 16, .base = 10000, .factor = 4, .n_ctx_orig = 64 };
    hy_rope_table t = { 0 };
    float c[8], s[8];
    init(&t, &r, c, s);
    for (uint32_t k = 0; k < 3; k++) {
        one(&t, n[k] - 1, 0);
        for (uint32_t i = 0; i < 8; i++) {
            /* an ulp of the frequency, times the position */
            assert_float_equal(c[i], want_c[k][i], 200 * 1.2e-7f);
            assert_float_equal(s[i], want_s[k][i], 200 * 1.2e-7f);
        }
    }
    /* a prompt of 200 tokens: its length decides for every position (golden: variants/llama_dynamic) */
    one(&t, 64, 200);
    float whole = c[1];
    one(&t, 64, 0);
    assert_true(fabsf(whole - c[1]) > 0.01f);
}

static void longrope_goes_by_the_sequence(void **state)
{
    (void)state;
    static const float one_f[2] = { 1, 1 }, two_f[2] = { 2, 2 };
    const hy_rope r = { .kind = HY_ROPE_LONGROPE, .n_rot = 4, .base = 1, .factor = 4, .n_ctx_orig = 16,
                        .attn_factor = 1, .short_factors = one_f, .long_factors = two_f };
    hy_rope_table t = { 0 };
    float c[2], s[2];
    init(&t, &r, c, s);
    one(&t, 4, 0); /* angle 4 */
    assert_float_equal(c[0], cosf(4), 1e-6f);
    one(&t, 4, 16);
    assert_float_equal(c[0], cosf(4), 1e-6f);
    one(&t, 4, 17); /* angle 4 / 2 */
    assert_float_equal(c[0], cosf(2), 1e-6f);
    one(&t, 16, 16); /* generated beyond: as it started */
    assert_float_equal(c[0], cosf(16), 1e-6f);
    one(&t, 16, 0);
    assert_float_equal(c[0], cosf(8), 1e-6f);
}

static void bad_ropes(void **state)
{
    (void)state;
    hy_rope_table t = { 0 };
    hy_rope r = { .kind = HY_ROPE_PLAIN, .n_rot = 5, .base = 10000 };
    assert_int_equal(hy_rope_init(&t, &r, arena, NULL), HY_E_FORMAT);
    r.n_rot = 0;
    assert_int_equal(hy_rope_init(&t, &r, arena, NULL), HY_E_FORMAT);
    r.n_rot = 8;
    assert_int_equal(hy_rope_init(&t, &r, arena, NULL), HY_OK);
    r.kind = HY_ROPE_YARN; /* without the original context */
    assert_int_equal(hy_rope_init(&t, &r, arena, NULL), HY_E_FORMAT);
}

int main(void)
{
    arena = hy_arena_new(1 << 16);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dynamic_ntk), cmocka_unit_test(longrope_goes_by_the_sequence),
        cmocka_unit_test(bad_ropes),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    hy_arena_free(arena);
    return rc;
}
