/* kern/x86: BF16 weights times activations rounded to BF16, two products an instruction. Other numbers than all other
 * kernels (docs/isa.md): its definition is scalar/mm_bf16.c, bit for bit. */
#include "kern/fill.h"
#include "kern/panel.h"
#include <immintrin.h>

#define P 16
#define NP 4                   /* panels and */
#define TILE 4                 /* tokens of a register tile */
#define NB 32                  /* tokens and */
#define KB 256                 /* values of k between two roundings of activations */

/* Rows k and k + 1 of a panel as pairs: row k in the low halves. */
static inline __m512i pairs(const uint8_t *row, __m512i order)
{
    return _mm512_permutexvar_epi16(order, _mm512_loadu_si512(row));
}

static inline __m512i last_pair(const uint8_t *row)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)row));
}

/* n values as BF16, nearest even, subnormals become zero; an odd last one gets a zero beside it. */
static void round_row(const float *x, uint32_t n, uint16_t *out)
{
    for (uint32_t i = 0; i < n; i += 16) {
        uint32_t left = n - i;
        __mmask16 m = left < 16 ? (__mmask16)((1u << left) - 1) : 0xffff;
        __m256bh h = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(m, x + i));
        _mm256_storeu_si256((__m256i *)(void *)(out + i), (__m256i)h);
    }
}

static inline __attribute__((always_inline)) void tile(const uint8_t *const *w, uint32_t n_k, const uint16_t *x, float *acc,
                                                       const int n_panel, const int n_tok)
{
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                           5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    __m512 a[TILE * NP];
    _Pragma("GCC unroll 16") for (int i = 0; i < n_tok * n_panel; i++)
        a[i] = _mm512_loadu_ps(acc + (i / n_panel * NP + i % n_panel) * P);
    for (uint32_t k = 0; k < n_k; k += 2) {
        __m512bh v[NP];
        _Pragma("GCC unroll 4") for (int p = 0; p < n_panel; p++)
            v[p] = (__m512bh)(k + 1 < n_k ? pairs(w[p] + k * 2 * P, order) : last_pair(w[p] + k * 2 * P));
        _Pragma("GCC unroll 4") for (int j = 0; j < n_tok; j++) {
            int32_t two;
            memcpy(&two, x + (size_t)j * KB + k, 4);
            __m512bh b = (__m512bh)_mm512_set1_epi32(two);
            _Pragma("GCC unroll 4") for (int p = 0; p < n_panel; p++)
                a[j * n_panel + p] = _mm512_dpbf16_ps(a[j * n_panel + p], v[p], b);
        }
    }
    _Pragma("GCC unroll 16") for (int i = 0; i < n_tok * n_panel; i++)
        _mm512_storeu_ps(acc + (i / n_panel * NP + i % n_panel) * P, a[i]);
}

static void tiles(const uint8_t *const *w, uint32_t n_k, const uint16_t *x, float *acc, uint32_t n_panel, uint32_t n_tok)
{
    uint32_t j = 0;
    for (; n_panel == NP && j + TILE <= n_tok; j += TILE) tile(w, n_k, x + j * KB, acc + j * NP * P, NP, TILE);
    for (; j < n_tok; j++)
        for (uint32_t p = 0; p < n_panel; p++) tile(w + p, n_k, x + j * KB, acc + (j * NP + p) * P, 1, 1);
}

static void put(const hy_mm *m, uint64_t i, uint32_t t, __m512 v)
{
    uint64_t r = i * P, left = m->w->n_row - r;
    size_t row = m->y_row ? m->y_row[t] : t;
    __mmask16 here = left < P ? (__mmask16)((1u << left) - 1) : 0xffff;
    if (m->bias) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(here, m->bias + r));
    if (m->add) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(here, m->add + row * m->add_stride + r));
    _mm512_mask_storeu_ps(m->y + row * m->y_stride + r, here, v);
}

static void mm_bf16(const hy_mm *m)
{
    float acc[NB * NP * P];
    uint16_t x[NB * KB];
    for (uint32_t t0 = 0; t0 < m->n_tok; t0 += NB) {
        uint32_t n = HY_MIN((uint32_t)NB, m->n_tok - t0);
        for (uint64_t i = m->panel_first; i < m->panel_last; i += NP) {
            uint32_t n_panel = (uint32_t)HY_MIN((uint64_t)NP, m->panel_last - i);
            memset(acc, 0, n * NP * P * sizeof *acc);
            for (uint64_t k = 0; k < m->w->k; k += KB) {
                uint32_t n_k = (uint32_t)HY_MIN((uint64_t)KB, m->w->k - k);
                const uint8_t *w[NP];
                for (uint32_t p = 0; p < n_panel; p++) w[p] = hy_panel_at(m->w, i + p) + k * 2 * P;
                for (uint32_t j = 0; j < n; j++)
                    round_row(m->x + (m->x_row ? m->x_row[t0 + j] : t0 + j) * m->x_stride + k, n_k, x + j * KB);
                tiles(w, n_k, x, acc, n_panel, n);
            }
            for (uint32_t j = 0; j < n; j++)
                for (uint32_t p = 0; p < n_panel; p++) put(m, i + p, t0 + j, _mm512_loadu_ps(acc + (j * NP + p) * P));
        }
    }
}

void hy_mm_fill_avx512bf16(hy_kernels *k, uint64_t cpu)
{
    k->mm_f32[HY_Q_BF16] = mm_bf16;
}
