/* Variants of families that the shared golden models do not have (tests/data/variants/cases.py): the
 * logits of whole prompts against transformers. */
#include "../common/drive.h"
#include <jansson.h>
#include <math.h>

#define MAX_TOK 400
#define BOUND 1e-3 /* F32 throughout: the limit that the goldens' README derives */

static uint32_t ints(const json_t *a, int32_t *out)
{
    uint32_t n = (uint32_t)json_array_size(a);
    assert_true(n > 0 && n <= MAX_TOK);
    for (uint32_t i = 0; i < n; i++) out[i] = (int32_t)json_integer_value(json_array_get(a, i));
    return n;
}

static double run_case(drive *d, const char *dir, const json_t *c)
{
    int32_t tok[MAX_TOK], pos[MAX_TOK];
    uint32_t n = ints(json_object_get(c, "tokens"), tok), v = d->n_vocab;
    uint32_t n_pos = ints(json_object_get(c, "positions"), pos);
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir,
             json_string_value(json_object_get(json_object_get(c, "logits"), "file")));
    float *got = malloc((size_t)n * v * sizeof *got);
    drive_step(d, 0, tok, n, 0, n, got);
    double worst = drive_furthest(path, got, pos, n_pos, v);
    hy_kv_truncate(d->kv, &d->t[0], 0);
    free(got);
    return worst;
}

static void variants(void **state)
{
    (void)state;
    static const char *const names[] = { "falcon_new", "cohere_qk", "stablelm_par", "neox_seq",
                                         "qwen2_moe_mix", "llama_dynamic" };
    for (size_t i = 0; i < HY_COUNT(names); i++) {
        char dir[400], path[512];
        snprintf(dir, sizeof dir, HY_DATA "/variants/%s", names[i]);
        snprintf(path, sizeof path, "%s/golden.json", dir);
        json_t *g = json_load_file(path, 0, NULL);
        assert_non_null(g);
        hy_model *m = NULL;
        snprintf(path, sizeof path, "%s/hf", dir);
        DRIVE_OK(drive_load(&m, path, NULL, -1, err));
        drive d;
        drive_over(&d, m, &(drive_opts){ .n_thread = 2, .n_ctx = 256, .n_tok_max = 256 });
        double worst = 0;
        size_t k;
        const json_t *c;
        json_array_foreach(json_object_get(g, "cases"), k, c) worst = fmax(worst, run_case(&d, dir, c));
        print_message("%-14s largest difference %.2e\n", names[i], worst);
        assert_true(k > 0 && worst < BOUND);
        drive_close(&d);
        hy_model_free(m);
        json_decref(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(variants) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
