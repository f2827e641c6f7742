/* A ring of the tokens of finished answers; grams of it are found by hash. Positions count for ever, 32 bits
 * of them are kept: a place further back than the ring is long does not count. */
#include "spec/spec.h"
#include <string.h>

#define GRAM 4
#define LOOK 16
#define MATCH 64

typedef struct cell {
    int32_t id;
    uint32_t prev;             /* where the same gram ended before; 0: nowhere */
    uint64_t salt;
    uint32_t left;             /* tokens of the same answer up to and with this one */
} cell;

struct hy_spec_store {
    uint32_t cap, mask;        /* cap: a power of two */
    uint32_t next;             /* position of the next token; begins at 1 */
    uint32_t n;                /* tokens held */
    cell *ring;                /* [cap] */
    uint32_t *head;            /* [cap] */
};

static uint32_t hash(uint64_t salt, const int32_t *end, uint32_t mask)
{
    uint64_t h = salt;
    for (uint32_t i = 1; i <= GRAM; i++) h = (h ^ (uint32_t)end[-(int64_t)i]) * 0xff51afd7ed558ccdu;
    return (uint32_t)(h >> 32 ^ h >> 13) & mask;
}

hy_status hy_spec_store_open(hy_spec_store **out, uint32_t cap, hy_err *err)
{
    *out = NULL;
    if (cap == 0 || cap > 1u << 26)
        return hy_fail(err, HY_E_ARG, "a store of %u tokens is not in 1..%u", cap, 1u << 26);
    hy_spec_store *s = HY_NEW(hy_spec_store);
    if (!s) return hy_fail_memory(err, "store of answers", sizeof *s);
    s->cap = 64;
    while (s->cap < cap) s->cap *= 2;
    s->mask = s->cap - 1;
    s->next = 1;
    s->ring = HY_NEW_ARRAY(cell, s->cap);
    s->head = HY_NEW_ARRAY(uint32_t, s->cap);
    if (!s->ring || !s->head) {
        uint64_t bytes = s->cap * (sizeof(cell) + sizeof(uint32_t));
        hy_spec_store_close(s);
        return hy_fail_memory(err, "store of answers", bytes);
    }
    *out = s;
    return HY_OK;
}

void hy_spec_store_close(hy_spec_store *s)
{
    if (!s) return;
    hy_free(s->ring);
    hy_free(s->head);
    hy_free(s);
}

uint64_t hy_spec_store_bytes(const hy_spec_store *s)
{
    return s ? sizeof *s + s->cap * (sizeof(cell) + sizeof(uint32_t)) : 0;
}

void hy_spec_store_add(hy_spec_store *s, uint64_t salt, const int32_t *ids, uint32_t n)
{
    uint32_t first = n > s->cap ? n - s->cap : 0;
    for (uint32_t i = first; i < n; i++) {
        if (s->next == UINT32_MAX) { /* after four thousand million tokens: begin anew */
            memset(s->head, 0, s->cap * sizeof *s->head);
            s->next = 1;
            s->n = 0;
        }
        uint32_t pos = s->next++, left = i - first + 1;
        cell *c = &s->ring[pos & s->mask];
        *c = (cell){ .id = ids[i], .salt = salt, .left = left };
        if (left >= GRAM) {
            uint32_t *head = &s->head[hash(salt, ids + i + 1, s->mask)];
            c->prev = *head;
            *head = pos;
        }
        if (s->n < s->cap) s->n++;
    }
}

static const cell *at(const hy_spec_store *s, uint32_t pos)
{
    return pos && pos < s->next && s->next - pos <= s->n ? &s->ring[pos & s->mask] : NULL;
}

static uint32_t match(const hy_spec_store *s, uint64_t salt, const int32_t *ids, uint32_t n, uint32_t pos)
{
    const cell *c = at(s, pos);
    if (!c || c->salt != salt) return 0;
    uint32_t most = HY_MIN(HY_MIN(c->left, n), MATCH), k = 0;
    for (; k < most && (c = at(s, pos - k)) && c->id == ids[n - 1 - k];) k++;
    return k;
}

uint32_t hy_spec_store_propose(const hy_spec_store *s, uint64_t salt, const int32_t *ids, uint32_t n, uint32_t most,
                               int32_t *out, uint32_t *n_match)
{
    uint32_t best = 0, from = 0;
    *n_match = 0;
    if (n < GRAM) return 0;
    uint32_t pos = s->head[hash(salt, ids + n, s->mask)];
    for (uint32_t tries = 0; tries < LOOK && at(s, pos); tries++) {
        uint32_t k = match(s, salt, ids, n, pos);
        if (k > best) {
            best = k;
            from = pos;
        }
        uint32_t prev = at(s, pos)->prev;
        if (prev >= pos) break; /* of a token that has been overwritten */
        pos = prev;
    }
    if (best < GRAM) return 0;
    *n_match = best;
    uint32_t got = 0;
    for (; got < most; got++) {
        const cell *c = at(s, from + 1 + got);
        if (!c || c->left == 1 || c->salt != salt) break; /* the next answer begins */
        out[got] = c->id;
    }
    return got;
}
