/* kern/x86: matmul with AMX int8 tiles from 16 tokens up; everything else is avx512's.
 *
 * A group's decoded codes are a B tile as they lie: a vector is 16 rows of weights times four k, 4 vectors are a half of 16 k.
 * 16 tokens' codes of that half are an A tile, read where they are. So a tile sums 16 of the 64 values of k that it
 * could: activations have a step for every 16 (docs/decisions/003), and sums go on in F32, in the order of all
 * kernels. Tiles are set up for a call and given back after it: a thread that has them is slow to switch.
 *
 *   tile 0, 1   sums of half 0, 1: 16 tokens x 16 rows, int32
 *   tile 2, 3   activations: 16 tokens x 16 k, int8
 *   tile 4, 5   codes: 16 k x 16 rows, 4 k in a 32-bit lane, unsigned */
#include "kern/x86/mm_avx512.h"
#ifdef HY_EMU_AMX
#include "kern/x86/emu_amx.h"
#else
#define t_config(c) _tile_loadconfig(c)
#define t_release() _tile_release()
#define t_zero(t) _tile_zero(t)
#define t_load(t, p, stride) _tile_loadd(t, p, stride)
#define t_store(t, p, stride) _tile_stored(t, p, stride)
#define t_dots(sum, a, b) _tile_dpbsud(sum, a, b) /* signed a, unsigned b */
#endif

#define MM_TILE 8
#undef MM_FEW
#define MM_FEW 0
#define MM_TILE_F 4
#define MM_NP 4
#define MM_BIG 16

#pragma GCC diagnostic ignored "-Wunused-function" /* of the body only loops for many tokens are wanted */
#include "kern/mm_body.h"

typedef struct tile_config {   /* of LDTILECFG */
    uint8_t palette, start_row, none[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

static void take_tiles(void)
{
    static const tile_config c = { .palette = 1, .row_bytes = { 64, 64, 16, 16, 64, 64 }, .rows = { 16, 16, 16, 16, 4, 4 } };
    t_config(&c);
}

/* Integer sums of one token's halves, as they stand in the tiles, onto acc: what step() does with its own. */
HY_INLINE VF finish(hy_qtype t, const dec *w, const hy_act_group *x, const VI s[2], VF acc)
{
    VI a = v_sllv32(s[0], v_bcast32(x->e)), b = v_sllv32(s[1], v_bcast32(x->e + 1));
    if (!hy_pf_halves(t)) return onto(t, w, x, v_add32(a, b), acc);
    VF u = half_onto(t, w, x, 1, b, half_onto(t, w, x, 0, a, f_zero()));
    if (hy_pf_has_min(t)) u = minima_onto(w, x, u);
    return f_fma(u, f_set(&x->d), acc);
}

/* 16 tokens whose rows follow each other; false: they do not. */
HY_INLINE bool by_tiles(hy_qtype t, const dec *w, uint32_t n_group, const hy_act_group *x, const size_t *off, sums *to)
{
    const size_t row = (size_t)(to->m->x8.k / HY_GROUP) * sizeof(hy_act_group);
    for (uint32_t j = 1; j < MM_BIG; j++)
        if (off[j] != off[0] + j * row) return false;
    int32_t sum[2][MM_BIG * MM_P];
    float *acc = to->acc;
    if (to->first) memset(acc, 0, MM_BIG * MM_P * sizeof *acc);
    for (uint32_t g = 0; g < n_group; g++, x++) {
        const int8_t *q = x_at(x, off[0])->q;
        t_zero(0);
        t_zero(1);
        t_load(2, q, row);
        t_load(3, q + 16, row);
        t_load(4, w[g].c, VB);
        t_load(5, w[g].c + 4, VB);
        t_dots(0, 2, 4);
        t_dots(1, 3, 5);
        t_store(0, sum[0], VB);
        t_store(1, sum[1], VB);
        for (uint32_t j = 0; j < MM_BIG; j++) {
            VI s[2] = { v_load(sum[0] + j * MM_P), v_load(sum[1] + j * MM_P) };
            f_store(acc + j * MM_P, finish(t, w + g, x_at(x, off[j]), s, f_load(acc + j * MM_P)));
        }
    }
    for (uint32_t j = 0; to->last && j < MM_BIG; j++) put(to->m, to->i, to->t + j, f_load(acc + j * MM_P));
    to->acc += MM_BIG * MM_P;
    to->t += MM_BIG;
    return true;
}

#define BY_TILES(T)                                                                                                    \
    case HY_Q_##T: return by_tiles(HY_Q_##T, w, n_group, x, off, s);
static bool big_tile(hy_qtype t, const dec *w, uint32_t n_group, const hy_act_group *x, const size_t *off, sums *s)
{
    switch (t) {
        MM_CLASSES(BY_TILES)
    default: return false;
    }
}

/* Fewer tokens are avx512's: its table is asked for its kernel. */
#define WITH_TILES(T, CLASS)                                                                                           \
    static void amx_##T(const hy_mm *m)                                                                                \
    {                                                                                                                  \
        if (m->n_tok < MM_BIG) {                                                                                       \
            hy_kernels small;                                                                                          \
            hy_mm_fill_avx512(&small, 0);                                                                              \
            small.mm_q8[HY_Q_##T](m);                                                                                  \
            return;                                                                                                    \
        }                                                                                                              \
        take_tiles();                                                                                                  \
        many(HY_Q_##T, m, decode_##T, tiles_##CLASS);                                                                  \
        t_release();                                                                                                   \
    }
MM_TYPES(WITH_TILES)

#ifndef MM_FILL
#define MM_FILL hy_mm_fill_amx
#endif
void MM_FILL(hy_kernels *k, uint64_t cpu)
{
#define PUT(T, CLASS) k->mm_q8[HY_Q_##T] = amx_##T;
    MM_TYPES(PUT)
}
