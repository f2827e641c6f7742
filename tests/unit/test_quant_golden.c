/* quant: reading blocks against values computed by the gguf package and by ggml
 * (tests/data/quants; both gave the same bits), halves against the compiler's own. */
#include "quant/quant.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { rows = 32, cols = 512 };

static char *load(const char *type, const char *ext, size_t want)
{
    char path[512], upper[16];
    size_t n, k = 0;
    for (; type[k]; k++) upper[k] = (char)toupper((unsigned char)type[k]);
    upper[k] = 0;
    snprintf(path, sizeof path, HY_DATA "/quants/%s.%s", upper, ext);
    hy_err err = {0};
    char *data = NULL;
    if (hy_read_file(path, HY_MIB, &data, &n, &err) != HY_OK) fail_msg("%s", err.msg);
    assert_int_equal(n, want);
    return data;
}

static void check_unpack(const hy_qtraits *q, const uint8_t *bin, size_t row_bytes)
{
    float *want = (float *)(void *)load(q->name, "f32", rows * cols * 4), got[cols];
    /* An odd address: mapped rows need not be aligned. */
    uint8_t *odd = hy_alloc(row_bytes + 1);
    for (size_t r = 0; r < rows; r++) {
        memcpy(odd + 1, bin + r * row_bytes, row_bytes);
        q->unpack(odd + 1, got, cols);
        for (size_t c = 0; c < cols; c++)
            if (hy_f32_bits(got[c]) != hy_f32_bits(want[r * cols + c]))
                fail_msg("%s row %zu column %zu: %.9g, not %.9g", q->name, r, c, (double)got[c],
                         (double)want[r * cols + c]);
    }
    hy_free(odd);
    hy_free(want);
}

static void check_dot(const hy_qtraits *q, const uint8_t *bin, size_t row_bytes)
{
    float *mv = (float *)(void *)load(q->name, "mv.f32", (cols + 2 * rows) * 4);
    const float *x = mv, *y = mv + cols, *size = mv + cols + rows;
    for (size_t r = 0; r < rows; r++) {
        double got = q->dot(bin + r * row_bytes, x, cols);
        /* The stored product was rounded to single: half an ulp of it, and nothing else. */
        double limit = 1e-7 * (double)fabsf(y[r]) + 1e-12 * (double)size[r] + 1e-40;
        if (!(fabs(got - (double)y[r]) <= limit))
            fail_msg("%s row %zu: dot %.9g, not %.9g", q->name, r, got, (double)y[r]);
    }
    hy_free(mv);
}

static void test_formats(void **state)
{
    int n_type = 0;
    for (int t = 0; t < HY_Q_COUNT; t++) {
        const hy_qtraits *q = hy_quant((hy_qtype)t);
        if (t == HY_Q_F32) continue;
        uint64_t row_bytes;
        assert_true(hy_quant_row_bytes((hy_qtype)t, cols, &row_bytes));
        char *bin = load(q->name, "bin", rows * row_bytes);
        check_unpack(q, (uint8_t *)bin, row_bytes);
        check_dot(q, (uint8_t *)bin, row_bytes);
        hy_free(bin);
        n_type++;
    }
    print_message("%d types, %d x %d weights each, to the bit\n", n_type, rows, cols);
}

static void test_f32(void **state)
{
    const float src[4] = {1, -2.5f, NAN, -INFINITY};
    const float x[2] = {3, 4};
    float back[4];
    uint8_t raw[16];
    const hy_qtraits *q = hy_quant(HY_Q_F32);
    q->pack(src, raw, 4, NULL);
    q->unpack(raw, back, 4);
    assert_memory_equal(src, back, sizeof src);
    assert_true(q->dot(src, x, 2) == 3.0 - 10.0);
}

#ifdef __FLT16_MAX__
static float half_value(uint16_t h)
{
    _Float16 f;
    memcpy(&f, &h, 2);
    return (float)f;
}
static uint16_t half_bits(float f)
{
    _Float16 h = (_Float16)f;
    uint16_t u;
    memcpy(&u, &h, 2);
    return u;
}

static void test_half(void **state)
{
    for (uint32_t h = 0; h < 65536; h++) {
        float want = half_value((uint16_t)h), got = hy_f16_f32((uint16_t)h);
        if (isnan(want)) assert_true(isnan(got));
        else assert_int_equal(hy_f32_bits(want), hy_f32_bits(got));
        if (!isnan(want)) assert_int_equal(hy_f32_f16(got), h);
        else assert_true(isnan(hy_f16_f32(hy_f32_f16(got))));
    }
    /* Every exponent and sign with random fractions, and the neighbours of every half's rounding
     * boundary. */
    uint64_t n = 0;
    for (uint64_t i = 0; i < 400000; i++) {
        uint32_t u = (uint32_t)hy_rng_at(1, 0, i);
        if (i % 2) u = (u & 0xffffe000u) + 0x1000u + (uint32_t)(i / 2 % 3) - 1;
        float f = hy_bits_f32(u);
        if (isnan(f)) continue;
        if (half_bits(f) != hy_f32_f16(f)) fail_msg("%a: %04x, not %04x", (double)f, hy_f32_f16(f), half_bits(f));
        n++;
    }
    assert_true(n > 390000);
    const float edges[] = {65504, 65519.996f, 65520, 1e30f, INFINITY, 0x1p-24f, 0x1p-25f,
                           0x1.000002p-25f, 0x1p-14f, 0x1.ffcp-15f, 0x1.ffep-15f, 0, -0.0f};
    for (size_t i = 0; i < HY_COUNT(edges); i++) {
        assert_int_equal(half_bits(edges[i]), hy_f32_f16(edges[i]));
        assert_int_equal(half_bits(-edges[i]), hy_f32_f16(-edges[i]));
    }
}
#endif

static void test_bf16_and_e8m0(void **state)
{
    assert_int_equal(hy_f32_bf16(1), 0x3f80);
    assert_int_equal(hy_f32_bf16(hy_bits_f32(0x3f808000)), 0x3f80); /* tie to even */
    assert_int_equal(hy_f32_bf16(hy_bits_f32(0x3f818000)), 0x3f82);
    assert_int_equal(hy_f32_bf16(hy_bits_f32(0x3f808001)), 0x3f81);
    assert_true(isnan(hy_bf16_f32(hy_f32_bf16(hy_bits_f32(0x7f800001)))));
    assert_int_equal(hy_f32_bf16(-INFINITY), 0xff80);
    for (int e = 0; e < 255; e++) assert_true(hy_e8m0_half((uint8_t)e) == (float)ldexp(1, e - 128));
}

static void test_names(void **state)
{
    hy_qtype t;
    assert_true(hy_quant_from_name("Q4_K", &t) && t == HY_Q_Q4_K);
    assert_true(hy_quant_from_name("iq4-xs", &t) && t == HY_Q_IQ4_XS);
    assert_false(hy_quant_from_name("q4", &t));
    assert_false(hy_quant_from_name("q4_k_m", &t));
    assert_false(hy_quant_from_name("", &t));
    for (int i = 0; i < HY_Q_COUNT; i++) {
        const hy_qtraits *q = hy_quant((hy_qtype)i);
        assert_true(hy_quant_from_ggml(q->ggml_type, &t) && (int)t == i);
        assert_true(hy_quant_from_name(hy_quant_ggml_name(q->ggml_type), &t) && (int)t == i);
        assert_true(q->is_float == (q->block == 1));
    }
    assert_false(hy_quant_from_ggml(16, &t));
    assert_string_equal(hy_quant_ggml_name(16), "IQ2_XXS");
    assert_null(hy_quant_ggml_name(4));
    assert_null(hy_quant_ggml_name(UINT32_MAX));
}

static void test_row_bytes(void **state)
{
    static const struct { hy_qtype t; uint64_t n, bytes; } good[] = {
#define X(id, name, ggml, block, bytes) {HY_Q_##id, (block) * 3, (bytes) * 3},
        HY_QUANT_LIST(X)
#undef X
    };
    uint64_t b = 7;
    for (size_t i = 0; i < HY_COUNT(good); i++) {
        assert_true(hy_quant_row_bytes(good[i].t, good[i].n, &b));
        assert_int_equal(b, good[i].bytes);
    }
    b = 7;
    assert_false(hy_quant_row_bytes(HY_Q_Q4_K, 255, &b));
    assert_false(hy_quant_row_bytes(HY_Q_Q8_0, UINT64_MAX - 31, &b));
    assert_false(hy_quant_row_bytes(HY_Q_F32, UINT64_MAX / 2, &b));
    assert_int_equal(b, 7);
    assert_true(hy_quant_row_bytes(HY_Q_Q4_K, 0, &b) && b == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats), cmocka_unit_test(test_f32),
#ifdef __FLT16_MAX__
        cmocka_unit_test(test_half),
#endif
        cmocka_unit_test(test_bf16_and_e8m0), cmocka_unit_test(test_names),
        cmocka_unit_test(test_row_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
