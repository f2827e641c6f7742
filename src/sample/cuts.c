/* The rules that take candidates away. Each sees those that the rules before it left: all of the row, of which blocks
 * tell where the best are, or a list. */
#include "sample/sample_impl.h"
#include <string.h>

/* ---- a heap of candidates: the largest key first, of equals the smallest id -------------------- */

static bool before(hy_cand a, hy_cand b)
{
    return a.key > b.key || (a.key == b.key && a.id < b.id);
}

static void sift(hy_cand *h, uint32_t n, uint32_t i)
{
    hy_cand c = h[i];
    for (;;) {
        uint32_t k = 2 * i + 1;
        if (k >= n) break;
        if (k + 1 < n && before(h[k + 1], h[k])) k++;
        if (!before(h[k], c)) break;
        h[i] = h[k];
        i = k;
    }
    h[i] = c;
}

void hy_cand_heapify(hy_cand *h, uint32_t n)
{
    for (uint32_t i = n / 2; i-- > 0;) sift(h, n, i);
}

hy_cand hy_cand_pop(hy_cand *h, uint32_t n)
{
    hy_cand top = h[0];
    h[0] = h[n - 1];
    h[n - 1] = top;
    if (n > 1) sift(h, n - 1, 0);
    return top;
}

/* ---- cuts ------------------------------------------------------------------------------------- */

static void keep_from(hy_sampler *w, double least)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n_cand; i++)
        if (w->cand[i].key >= least) w->cand[n++] = w->cand[i];
    w->n_cand = n;
}

static float top_key(const hy_sampler *w)
{
    float m = -INFINITY;
    for (uint32_t i = 0; w->listed && i < w->n_cand; i++) m = w->cand[i].key > m ? w->cand[i].key : m;
    for (uint32_t b = 0; !w->listed && b < w->n_block; b++) m = w->max[b] / w->t > m ? w->max[b] / w->t : m;
    return m;
}

/* Equals of the k-th are all kept. k blocks with a key from `least` up hold k keys from there up. */
void hy_cut_top_k(hy_sampler *w, uint32_t k)
{
    if (k == 0 || k >= w->n) return;
    if (!w->listed) hy_blocks_gather(w, hy_blocks_nth(w, k));
    if (k >= w->n_cand) return;
    hy_cand_heapify(w->cand, w->n_cand);
    float kth = 0;
    for (uint32_t i = 0; i < k; i++) kth = hy_cand_pop(w->cand, w->n_cand - i).key;
    keep_from(w, kth);
}

/* The smallest set of the best whose share of `all` reaches p. False: all of the list are too few. */
static bool share_of(hy_sampler *w, double p, float top, double all)
{
    uint32_t n = w->n_cand, kept = 0;
    double mass = 0;
    hy_cand_heapify(w->cand, n);
    while (kept < n && (kept == 0 || mass < p)) mass += exp((double)hy_cand_pop(w->cand, n - kept++).key - top) / all;
    if (mass < p) return false;
    memmove(w->cand, w->cand + n - kept, kept * sizeof *w->cand);
    w->n_cand = kept;
    return true;
}

/* A token stays while the mass of better ones is below p. */
void hy_cut_top_p(hy_sampler *w, double p)
{
    if (p >= 1) return;
    float top = top_key(w);
    double all = 0;
    if (w->listed) {
        for (uint32_t i = 0; i < w->n_cand; i++) all += exp((double)w->cand[i].key - top);
        (void)share_of(w, p, top, all);
        return;
    }
    all = hy_blocks_mass(w, w->t, &top);
    for (uint32_t n = 32;; n *= 8) { /* keys of ever more blocks, until they are enough */
        float least = hy_blocks_nth(w, n);
        hy_blocks_gather(w, least);
        if (share_of(w, p, top, all) || least == -INFINITY) return;
    }
}

void hy_cut_min_p(hy_sampler *w, double p)
{
    if (p <= 0) return;
    double least = top_key(w) + log(p);
    if (w->listed) keep_from(w, least);
    else hy_blocks_gather(w, least);
}

/* Locally typical sampling (Meister et al. 2022): the tokens whose surprise is nearest the entropy. */
void hy_cut_typical(hy_sampler *w, double p)
{
    if (p >= 1) return;
    if (!w->listed) hy_blocks_gather(w, -INFINITY);
    hy_cand *c = w->cand, *h = w->other;
    uint32_t n = w->n_cand, kept = 0;
    if (n == 0) return;
    double top = top_key(w), sum = 0, entropy = 0, mass = 0;
    for (uint32_t i = 0; i < n; i++) sum += exp(c[i].key - top);
    double lse = top + log(sum);
    for (uint32_t i = 0; i < n; i++) entropy -= (c[i].key - lse) * exp(c[i].key - lse);
    for (uint32_t i = 0; i < n; i++) h[i] = (hy_cand){ -(float)fabs(-(c[i].key - lse) - entropy), (int32_t)i };
    hy_cand_heapify(h, n);
    float last = -INFINITY;
    while (kept < n && (kept == 0 || mass < p)) {
        hy_cand best = hy_cand_pop(h, n - kept++);
        mass += exp(c[best.id].key - lse);
        last = best.key;
    }
    for (uint32_t i = 0; i < n - kept; i++)
        if (h[i].key < last) c[h[i].id].id = -1; /* equals of the last stay */
    w->n_cand = 0;
    for (uint32_t i = 0; i < n; i++)
        if (c[i].id >= 0) c[w->n_cand++] = c[i];
}
