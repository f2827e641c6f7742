/* Where the last tokens stood before. A chain links the places of equal grams (of equal hashes: a place is
 * compared token by token before it counts), newest first. */
#include "spec/spec.h"
#include <string.h>

#define LONG 4                 /* tokens of a gram */
#define SHORT 2
#define LOOK 24                /* places of a chain that are looked at */
#define MATCH 64               /* tokens that are compared */
#define CLEAR 16               /* a copy that agreed so long is not looked beyond */

static const uint32_t gram[2] = { LONG, SHORT };

static uint32_t hash(const int32_t *end, uint32_t n, uint32_t mask)
{
    uint64_t h = 0x9e3779b97f4a7c15u * n;
    for (uint32_t i = 1; i <= n; i++) h = (h ^ (uint32_t)end[-(int64_t)i]) * 0xff51afd7ed558ccdu;
    return (uint32_t)(h >> 32 ^ h >> 13) & mask;
}

hy_status hy_ngram_open(hy_ngram *g, uint32_t cap, hy_err *err)
{
    memset(g, 0, sizeof *g);
    uint64_t n_head = 64;
    while (n_head < cap) n_head *= 2;
    uint64_t n = 2 * (n_head + cap);
    g->memory = hy_calloc((size_t)n, sizeof(uint32_t));
    if (!g->memory) return hy_fail_memory(err, "n-grams", n * sizeof(uint32_t));
    g->bytes = n * sizeof(uint32_t);
    g->cap = cap;
    g->mask = (uint32_t)n_head - 1;
    for (int i = 0; i < 2; i++) {
        g->head[i] = (uint32_t *)g->memory + i * (n_head + cap);
        g->prev[i] = g->head[i] + n_head;
    }
    return HY_OK;
}

void hy_ngram_close(hy_ngram *g)
{
    hy_free(g->memory);
    memset(g, 0, sizeof *g);
}

void hy_ngram_add(hy_ngram *g, const int32_t *ids, uint32_t n)
{
    n = HY_MIN(n, g->cap);
    for (; g->n < n; g->n++) {
        uint32_t end = g->n + 1;
        hy_copy_token(&g->copy, ids, end);
        for (int i = 0; i < 2; i++) {
            if (end < gram[i]) continue;
            uint32_t *head = &g->head[i][hash(ids + end, gram[i], g->mask)];
            g->prev[i][end - 1] = *head;
            *head = end;
        }
    }
}

/* How many tokens before `end` equal those before n. */
static uint32_t match(const int32_t *ids, uint32_t n, uint32_t end)
{
    uint32_t most = HY_MIN(end, MATCH), k = 0;
    while (k < most && ids[end - 1 - k] == ids[n - 1 - k]) k++;
    return k;
}

/* The place of the longest match on the chain, of equals the newest. */
static void look(const hy_ngram *g, const int32_t *ids, int i, uint32_t *best, uint32_t *at)
{
    uint32_t end = g->prev[i][g->n - 1];
    for (uint32_t tries = 0; end && tries < LOOK; tries++, end = g->prev[i][end - 1]) {
        uint32_t k = match(ids, g->n, end);
        if (k <= *best) continue;
        *best = k;
        *at = end;
        if (k == MATCH) return;
    }
}

uint32_t hy_ngram_propose(hy_ngram *g, const int32_t *ids, uint32_t most, int32_t *out, uint32_t *n_match)
{
    uint32_t trust = hy_copy_trust(&g->copy), best = 0, at = 0;
    *n_match = 0;
    if (g->n < SHORT) return 0;
    if (trust < CLEAR || g->copy.left) {
        if (g->n >= LONG) look(g, ids, 0, &best, &at);
        if (best < LONG) look(g, ids, 1, &best, &at);
        if (best >= SHORT && best > trust) {
            hy_copy_begin(&g->copy, at, best);
            trust = best;
        }
    }
    if (trust < SHORT) return 0;
    *n_match = trust;
    return hy_copy_propose(&g->copy, ids, g->n, most, out);
}
