/* Gumbel noise, -log E with E exponential, so that the largest logit + noise is a draw of the softmax
 * (Gumbel 1954; Maddison et al., "A* sampling", 2014).
 *
 * The E of a block of n tokens are made from the block's smallest one: the smallest of n exponentials is an exponential
 * over n, any of them is it with the same chance, and, since exponentials forget, the others are that one plus
 * fresh ones. So one random number bounds the noise of a whole block, and few blocks need any more. */
#include "sample/sample_impl.h"

#define BLOCK_STREAM (1ull << 32) /* counters of blocks; those below are tokens' */
#define LN2 0.6931471805599453

/* -log(unit): exponential. */
static double exponential(uint64_t bits)
{
    return -log(hy_rng_unit(bits));
}

/* The smallest E of a block; its token is the one whose place the low bits say, of which hy_rng_unit takes none. */
typedef struct block_noise {
    double least;
    uint32_t id;
} block_noise;

static uint64_t block_bits(uint64_t seed, uint64_t pos, uint32_t b)
{
    return hy_rng_at(seed, pos, BLOCK_STREAM | b);
}

static block_noise of_block(uint64_t bits, uint32_t b)
{
    return (block_noise){ exponential(bits) / HY_LOGIT_BLOCK, b * HY_LOGIT_BLOCK + (uint32_t)(bits % HY_LOGIT_BLOCK) };
}

static double of_token(block_noise m, uint64_t seed, uint64_t pos, uint32_t id)
{
    return -log(id == m.id ? m.least : m.least + exponential(hy_rng_at(seed, pos, id)));
}

double hy_sample_gumbel(uint64_t seed, uint64_t pos, int32_t id)
{
    uint32_t b = (uint32_t)id / HY_LOGIT_BLOCK;
    return of_token(of_block(block_bits(seed, pos, b), b), seed, pos, (uint32_t)id);
}

/* No noise of the block is larger. With u the uniform number, -log(-log u) < -log(1 - u) <= what the leading ones of
 * u's bits say: no logarithm. */
static double quick_bound(uint64_t bits)
{
    uint64_t rest = ~bits >> 1;    /* about (1 - u) * 2^63 */
    return ((rest ? __builtin_clzll(rest) + 1 : 65) + 8) * LN2; /* 8: log2 HY_LOGIT_BLOCK */
}
_Static_assert(HY_LOGIT_BLOCK == 1 << 8, "quick_bound");

typedef struct best {
    double v;
    uint32_t id;
} best;

static void try_token(best *b, float key, block_noise m, uint64_t seed, uint64_t pos, uint32_t id)
{
    if (key - log(m.least) < b->v) return;
    double v = key + of_token(m, seed, pos, id);
    if (v > b->v || (v == b->v && id < b->id)) *b = (best){ v, id };
}

static int32_t draw_listed(const hy_sampler *w, uint64_t seed, uint64_t pos)
{
    const hy_cand *c = w->cand;
    if (w->n_cand == 0) return 0;
    uint32_t at = 0;
    for (uint32_t i = 1; i < w->n_cand; i++)
        if (c[i].key > c[at].key) at = i;
    best b = { c[at].key + hy_sample_gumbel(seed, pos, c[at].id), (uint32_t)c[at].id };
    for (uint32_t i = 0; i < w->n_cand; i++) {
        uint32_t id = (uint32_t)c[i].id, block = id / HY_LOGIT_BLOCK;
        uint64_t bits = block_bits(seed, pos, block);
        if (c[i].key + quick_bound(bits) < b.v) continue;
        try_token(&b, c[i].key, of_block(bits, block), seed, pos, id);
    }
    return (int32_t)b.id;
}

static void draw_block(const hy_sampler *w, best *b, uint32_t block, block_noise m, uint64_t seed, uint64_t pos)
{
    double bound = -log(m.least);
    if (w->max[block] / w->t + bound < b->v) return;
    for (uint32_t id = block * HY_LOGIT_BLOCK; id < hy_block_end(w, block); id++) {
        float key = w->x[id] / w->t;
        if (key > -INFINITY && key + bound >= b->v) try_token(b, key, m, seed, pos, id);
    }
}

int32_t hy_noise_draw(const hy_sampler *w, uint64_t seed, uint64_t pos)
{
    if (w->listed) return draw_listed(w, seed, pos);
    uint32_t first = hy_blocks_argmax(w);
    if (!hy_block_alive(w, first / HY_LOGIT_BLOCK)) return (int32_t)first;
    best b = { w->x[first] / w->t + hy_sample_gumbel(seed, pos, (int32_t)first), first };
    for (uint32_t i = 0; i < w->n_block; i++) {
        if (!hy_block_alive(w, i)) continue;
        uint64_t bits = block_bits(seed, pos, i);
        if (w->max[i] / w->t + quick_bound(bits) < b.v) continue;
        draw_block(w, &b, i, of_block(bits, i), seed, pos);
    }
    return (int32_t)b.id;
}
