/* cli: the table of `hayate bench --ablation` with numbers and names that fill every column: 100 columns, and cells that
 * stand apart. */
#include "../../src/cli/ablation.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static json_t *row(const char *setting, double ttft, double itl, double tokens_s, double mib, double spread, json_t *quality)
{
    /* a spread of the median, as share; half of it to either side */
    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:i, s:{s:[ff], s:[ff], s:[ff]}, s:o, s:{s:s, s:f}, s:s, s:s}",
                     "technique", "weights", "setting", setting, "baseline", "best", "ttft_ms", ttft, "itl_ms", itl, "tokens_s",
                     tokens_s, "memory_mib", mib, "repeats", 3, "spread", "ttft_ms", ttft * (1 - spread), ttft * (1 + spread),
                     "itl_ms", itl * (1 - spread), itl * (1 + spread), "tokens_s", tokens_s * (1 - spread),
                     tokens_s * (1 + spread), "quality", quality, "gain", "what", "ttft", "ratio", 6.1, "when", "always",
                     "when_not", "never");
}

static uint32_t columns(const char *s, size_t n)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += ((unsigned char)s[i] & 0xC0) != 0x80;
    return sum;
}

static void test_width(void **state)
{
    static const double values[] = { 0.0004, 0.012, 0.059, 0.54, 7.6, 12.3, 999, 40541 };
    static const double spreads[] = { 0.04, 0.91, 5 };
    static const char *const settings[] = { "switched on", "a name of 19 letter", "one that is longer than its column" };
    for (size_t v = 0; v < HY_COUNT(values); v++) {
        for (size_t s = 0; s < HY_COUNT(spreads); s++) {
            for (size_t k = 0; k < HY_COUNT(settings); k++) {
                json_t *rows = json_array(), *o = json_pack("{s:o, s:b}", "rows", rows, "complete", true);
                json_t *quality = k ? json_pack("{s:f, s:f}", "ppl_delta_pct", -12.34, "kl", 0.0023) :
                                      json_pack("{s:b}", "same_bits", true);
                json_array_append_new(rows, row(settings[k], values[v], values[v], values[v], values[v], spreads[s], quality));
                hy_buf out = { 0 };
                ablation_table(o, &out);
                char start[16];
                snprintf(start, sizeof start, "\n  %.6s", settings[k]);
                const char *line = strstr(out.data, start);
                assert_non_null(line);
                size_t n = strcspn(++line, "\n");
                assert_true(columns(line, n) <= 100);
                /* every cell stands apart: "12.3 ±4%" or "12.3±>99%" three times, MiB, what is lost, "6.10 x first token" */
                char cells[256];
                snprintf(cells, sizeof cells, "%.*s", (int)(n - 21), line + 21);
                uint32_t found = 0, marks = 0;
                for (char *save, *t = strtok_r(cells, " ", &save); t; t = strtok_r(NULL, " ", &save)) {
                    found++;
                    marks += strstr(t, "±") && t[strlen(t) - 1] == '%';
                }
                assert_int_equal(marks, 3);
                assert_int_equal(found, (spreads[s] > 1 ? 3 : 6) + 1 + (k ? 4 : 2) + 4);
                assert_int_equal(line[n - 1], 'n');
                hy_buf_free(&out);
                json_decref(o);
            }
        }
    }
}

/* Everything around the rows: a processor's name may be long, and every curve shows all its columns. */
static void test_head_and_curves(void **state)
{
    json_t *o = json_pack(
        "{s:[], s:{s:s, s:s, s:s}, s:{s:s, s:s, s:i, s:i, s:f}, s:f, s:{s:i}, s:{s:[{s:i, s:f, s:f, s:f, s:f, s:f}], "
        "s:[{s:i, s:f, s:f, s:f, s:f}], s:[{s:s, s:f, s:f, s:f}]}}",
        "rows", "model", "file", "a-model-of-135M-weights.Q4_1.gguf", "family", "llama", "weights", "Q4_1", "machine", "model",
        "Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz, and some more words", "isa", "avx512bf16", "threads", 128,
        "threads_decode", 128, "load_before", 123.4, "seconds", 12345.6, "settings", "prompt", 100000, "curves", "attention", "n",
        131072, "materialised_ms", 1234567.8, "flash_ms", 123456.7, "ratio", 10.0, "materialised_mib", 123456.7, "flash_mib",
        98765.4, "kv_cache", "n", 131072, "off_ms", 1234567.8, "on_ms", 0.001, "ratio", 999999.0, "answer_ratio", 123456.0,
        "ladder", "step", "+ quantised weights", "ttft_ms", 1234567.8, "itl_ms", 123456.7, "tokens_s", 123456.7);
    assert_non_null(o);
    hy_buf out = { 0 };
    ablation_table(o, &out);
    for (const char *line = out.data; *line;) {
        size_t n = strcspn(line, "\n");
        if (columns(line, n) > 100) fail_msg("%u columns: %.*s", columns(line, n), (int)n, line);
        line += n + (line[n] != 0);
    }
    assert_non_null(strstr(out.data, "Platinum 8259CL"));
    assert_non_null(strstr(out.data, "load 123.4 before"));
    char number[32];
    assert_non_null(strstr(out.data, ablation_short(true, 98765.4, number))); /* the last column of the widest curve */
    hy_buf_free(&out);
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_width), cmocka_unit_test(test_head_and_curves) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
