/* plan: how many threads a step takes, by its size and by what a quota does; same logits whatever it is. */
#include "../common/drive.h"
#include "plan/instr.h"

#define MODEL HY_DATA "/models/llama3/model-bf16.gguf"

static void by_size(void **state)
{
    hy_pace p = { .n_many = 8, .n_few = 3, .n_limit = 8 };
    assert_int_equal(hy_pace_threads(&p, 1), 3);
    assert_int_equal(hy_pace_threads(&p, HY_FEW_TOK), 3);
    assert_int_equal(hy_pace_threads(&p, HY_FEW_TOK + 1), 8);
}

/* Virtual time, in microseconds. */
static void by_quota(void **state)
{
    hy_pace p = { .n_many = 4, .n_few = 2, .watch = true, .n_limit = 4, .n_throttled = 10 };
    uint64_t now = 1000000;
    hy_pace_look(&p, now, 10); /* nothing new */
    assert_int_equal(p.n_limit, 4);
    for (uint32_t i = 1; i <= 6; i++) hy_pace_look(&p, now += 200000, 10 + i);
    assert_int_equal(p.n_limit, 1); /* never less than one */
    assert_int_equal(hy_pace_threads(&p, 100), 1);
    hy_pace_look(&p, now += 200000, 16);
    assert_int_equal(p.n_limit, 1); /* not quiet for long enough */
    hy_pace_look(&p, now += 5000000, 16);
    assert_int_equal(p.n_limit, 2);
    hy_pace_look(&p, now += 200000, 16);
    assert_int_equal(p.n_limit, 2); /* one more at a time */
    hy_pace_look(&p, now += 200000, 17);
    assert_int_equal(p.n_limit, 1);
    for (int i = 0; i < 10; i++) hy_pace_look(&p, now += 5000000, 17);
    assert_int_equal(p.n_limit, 4); /* never more than asked for */
}

static void steps(void **state)
{
    hy_model *m = NULL;
    DRIVE_OK(drive_load(&m, MODEL, NULL, -1, err));
    drive d;
    drive_over(&d, m, &(drive_opts){ .n_thread = 3, .n_ctx = 64, .n_tok_max = 32, .kv_type = HY_KV_F16 });
    size_t n = 8ul * d.n_vocab;
    float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
    int32_t tok[8] = { 3, 1, 4, 1, 5, 9, 2, 6 };
    drive_step(&d, 0, tok, 8, 0, 0, a);
    drive_step(&d, 0, tok, 2, 8, 0, a);
    assert_int_equal(hy_team_used(d.team), 3);
    hy_plan_threads(d.plan, 2, 1, false);
    drive_step(&d, 1, tok, 8, 0, 0, b);
    assert_int_equal(hy_team_used(d.team), 2);
    drive_step(&d, 1, tok, 2, 8, 0, b);
    assert_int_equal(hy_team_used(d.team), 1);
    assert_memory_equal(a, b, 2ul * d.n_vocab * sizeof *a);
    hy_plan_threads(d.plan, 1, 3, true); /* whatever the machine's quota says, it runs */
    drive_step(&d, 2, tok, 8, 0, 0, b);
    drive_step(&d, 2, tok, 2, 8, 0, b);
    assert_memory_equal(a, b, 2ul * d.n_vocab * sizeof *a);
    free(a);
    free(b);
    drive_close(&d);
    hy_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(by_size), cmocka_unit_test(by_quota), cmocka_unit_test(steps) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
