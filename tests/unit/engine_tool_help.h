/* What the tests of engine's tools share: a folder of their own, and logits against goldens. */
#ifndef HY_TESTS_ENGINE_TOOL_HELP_H
#define HY_TESTS_ENGINE_TOOL_HELP_H

#include "../common/drive.h"
#include <dirent.h>
#include <hayate/tools.h>
#include <jansson.h>
#include <math.h>
#include <unistd.h>

static char help_dir[64];

__attribute__((unused)) static int help_setup(void **state)
{
    strcpy(help_dir, "/tmp/hayate-tool-XXXXXX");
    return mkdtemp(help_dir) ? 0 : -1;
}

/* Files in the folder; each is removed. */
static int help_sweep(void)
{
    int n = 0;
    DIR *d = opendir(help_dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[400];
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", help_dir, e->d_name);
        (void)unlink(path);
        n++;
    }
    if (d) closedir(d);
    return n;
}

__attribute__((unused)) static int help_teardown(void **state)
{
    help_sweep();
    return rmdir(help_dir);
}

__attribute__((unused)) static const char *help_path(char out[128], const char *name)
{
    snprintf(out, 128, "%s/%s", help_dir, name);
    return out;
}

static uint32_t help_ints(const json_t *a, int32_t *out, uint32_t cap)
{
    uint32_t n = (uint32_t)json_array_size(a);
    assert_true(n > 0 && n <= cap);
    for (uint32_t i = 0; i < n; i++) out[i] = (int32_t)json_integer_value(json_array_get(a, i));
    return n;
}

typedef struct help_error {
    double max, rms;
} help_error;

/* Logits of the longest case of DIR/golden.json of at most 80 tokens, with F32 activations, against
 * the stored ones. */
__attribute__((unused)) static help_error help_logits(const char *model, const char *dir)
{
    char path[1024], *data = NULL;
    size_t bytes = 0;
    int32_t tok[80], pos[80];
    snprintf(path, sizeof path, "%s/golden.json", dir);
    json_t *g = json_load_file(path, 0, NULL), *c = NULL;
    assert_non_null(g);
    json_t *cases = json_object_get(g, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++) {
        json_t *x = json_array_get(cases, i);
        if (json_array_size(json_object_get(x, "tokens")) <= 80) c = x;
    }
    assert_non_null(c);
    uint32_t n = help_ints(json_object_get(c, "tokens"), tok, 80);
    uint32_t n_pos = help_ints(json_object_get(c, "positions"), pos, 80);
    snprintf(path, sizeof path, "%s/%s", dir, json_string_value(json_object_get(json_object_get(c, "logits"), "file")));
    DRIVE_OK(hy_read_file(path, 1 << 24, &data, &bytes, err));
    hy_model *m = NULL;
    DRIVE_OK(drive_load(&m, model, NULL, -1, err));
    drive d;
    drive_over(&d, m, &(drive_opts){ .n_thread = 1, .n_ctx = 96, .n_tok_max = 96, .act_f32 = true });
    uint32_t v = d.n_vocab;
    assert_int_equal(bytes, (size_t)n_pos * v * sizeof(float));
    float *got = malloc((size_t)n * v * sizeof *got);
    drive_step(&d, 0, tok, n, 0, n, got);
    help_error e = { 0, 0 };
    for (uint32_t i = 0; i < n_pos; i++)
        for (uint32_t k = 0; k < v; k++) {
            float want;
            memcpy(&want, data + ((size_t)i * v + k) * sizeof want, sizeof want);
            double diff = fabs((double)got[(size_t)pos[i] * v + k] - want);
            e.rms += diff * diff;
            if (!(diff <= e.max)) e.max = diff;
        }
    e.rms = sqrt(e.rms / ((double)n_pos * v));
    free(got);
    hy_free(data);
    json_decref(g);
    drive_close(&d);
    hy_model_free(m);
    return e;
}

#endif
