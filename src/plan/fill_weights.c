/* Filling a model's memory: matrices into panels, shared over the team; vectors and biases to F32.
 */
#include "plan/weights.h"
#include <stdatomic.h>
#include <time.h>

#define SLAB_BYTES (8 * HY_MIB) /* of the file, packed between two looks */
#define NEED_BYTES (256 * HY_KIB) /* of memory, taken at once: its zeros are still in L2 when panels are written over them */

bool hy_family_has(const hy_family *fam, hy_role role)
{
    for (uint32_t i = 0; i < fam->n_tensor; i++)
        if (fam->tensors[i].role == role) return true;
    return false;
}

/* ---- vectors, biases ----------------------------------------------------------------------- */

static void fill_vector(const hy_load_job *j, const hy_tensor **parts, float *dst, float plus)
{
    uint32_t n = j->src.split ? j->n_part : 1;
    uint64_t each = j->w->n_vec / n;
    for (uint32_t i = 0; i < n; i++)
        hy_quant(parts[i]->qtype)->unpack(parts[i]->data, dst + i * each, each);
    if (plus != 0)
        for (uint64_t i = 0; i < j->w->n_vec; i++) dst[i] += plus;
}

static hy_status fill_bias(const hy_loader *l, const hy_load_job *j, float *dst, hy_err *err)
{
    uint64_t total = j->src_total;
    float *row = hy_alloc_array(total, sizeof *row);
    if (!row) return hy_fail_memory(err, "bias", total * sizeof *row);
    for (uint32_t e = 0; e < j->n_part; e++) {
        const hy_tensor *t = j->bias[j->src.split ? e : 0];
        const hy_qtraits *q = hy_quant(t->qtype);
        uint64_t bytes = 0, skip = j->src.split ? 0 : e;
        if (!hy_quant_row_bytes(t->qtype, total, &bytes)) {
            hy_free(row);
            return hy_fail(err, HY_E_FORMAT, "tensor %s: rows of %llu do not fit type %s", t->name,
                           (unsigned long long)total, q->name);
        }
        q->unpack(t->data + skip * bytes, row, total);
        for (uint64_t r = 0; r < j->n_row; r++)
            dst[e * j->n_row + r] =
                row[hy_pick_row(j->src.how->pick, &l->m->hp, j->i_layer, j->n_row, r)];
    }
    hy_free(row);
    return HY_OK;
}

/* ---- matrices ------------------------------------------------------------------------------ */

typedef struct packer {
    const hy_loader *l;
    const hy_load_job *j;
    uint8_t *scratch;              /* of all workers */
    uint64_t scratch_bytes;        /* of one: transposed rows, packed rows, one F32 row */
    uint64_t src_bytes, dst_bytes; /* of a row, in the file's type and the packed one */
    uint64_t slab, n_slab;         /* the one being packed: a piece of every worker's share */
    _Atomic uint64_t need_ns, need_bytes; /* what the slab's memory took, of all threads' time */
    bool small;                    /* huge pages turned out to be dear */
} packer;

static bool cancelled(const hy_load_opts *o) { return o->cancel && *o->cancel; }

/* Where row r of the role starts in expert e of the file. */
static const uint8_t *source_row(const packer *p, uint32_t e, uint64_t r)
{
    const hy_load_job *j = p->j;
    const hy_tensor *t = j->part[j->src.split ? e : 0];
    uint64_t row = hy_pick_row(j->src.how->pick, &p->l->m->hp, j->i_layer, j->n_row, r);
    uint64_t first = j->src.split ? 0 : (uint64_t)e * j->src_total;
    return t->data + (first + row) * p->src_bytes;
}

/* Columns [first, first + n) of the role's rows into dst, in the file's type. */
static void gather(const packer *p, uint32_t e, uint64_t first, uint64_t n, uint8_t *dst)
{
    const hy_load_job *j = p->j;
    const hy_tensor *t = j->part[j->src.split ? e : 0];
    size_t item = hy_quant(t->qtype)->block_bytes;
    const uint8_t *base = t->data + (j->src.split ? 0 : (uint64_t)e * j->k * j->src_total * item);
    uint64_t col[HY_PANEL_ROWS_MAX];
    for (uint64_t i = 0; i < n; i++)
        col[i] = hy_pick_row(j->src.how->pick, &p->l->m->hp, j->i_layer, j->n_row, first + i);
    for (uint64_t k = 0; k < j->k; k++)
        for (uint64_t i = 0; i < n; i++)
            memcpy(dst + i * p->src_bytes + k * item, base + (k * j->src_total + col[i]) * item,
                   item);
}

static void pack_one(const packer *p, uint32_t e, uint64_t i_panel, uint8_t *scratch)
{
    const hy_load_job *j = p->j;
    const hy_panels *w = &j->w->panels[e];
    uint64_t first = i_panel * w->p, n = HY_MIN((uint64_t)w->p, j->n_row - first);
    const void *rows[HY_PANEL_ROWS_MAX];
    uint8_t *turned = scratch, *packed = turned + w->p * p->src_bytes;
    bool transposed = j->src.how->flags & HY_TRANSPOSED;
    if (transposed) gather(p, e, first, n, turned);
    for (uint64_t i = 0; i < n; i++)
        rows[i] = transposed ? turned + i * p->src_bytes : source_row(p, e, first + i);
    hy_qtype have = j->part[0]->qtype;
    if (have != j->type) {
        float *row =
            (float *)(scratch + p->scratch_bytes - HY_ROUND_UP(j->k * sizeof(float), HY_ALIGN));
        for (uint64_t i = 0; i < n; i++) {
            hy_quant(have)->unpack(rows[i], row, j->k);
            hy_quant(j->type)->pack(row, packed + i * p->dst_bytes, j->k, NULL);
            rows[i] = packed + i * p->dst_bytes;
        }
    }
    uint8_t *dst = (uint8_t *)(uintptr_t)w->data + i_panel * w->panel_bytes;
    hy_panel_pack(w, dst, rows, (uint32_t)n);
}

typedef void pages_fn(const hy_file *f, const hy_tensor *t, uint64_t first, uint64_t n);

/* Calls fn for the bytes of the file that panels [first, last) are made of; nothing where rows are picked. */
static void with_pages(const packer *p, uint64_t first, uint64_t last, bool once, pages_fn *fn)
{
    const hy_load_job *j = p->j;
    const hy_panels *w = &j->w->panels[0];
    if (j->src.how->pick != HY_PICK_ALL || j->src.how->flags & HY_TRANSPOSED) return;
    while (first < last) {
        uint64_t e = first / w->n_panel, i = first % w->n_panel, n = HY_MIN(w->n_panel - i, last - first);
        const hy_tensor *t = j->part[j->src.split ? e : 0];
        uint64_t row = (j->src.split ? 0 : e * j->src_total) + i * w->p;
        uint64_t n_row = HY_MIN(n * w->p, j->n_row - i * w->p);
        if (!once || p->l->uses[t - p->l->file->tensor] == 1)
            fn(p->l->file, t, row * p->src_bytes, n_row * p->src_bytes);
        first += n;
    }
}

static uint64_t thread_ns(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0 ? (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec : 0;
}

/* The memory of panels [first, last); parts follow each other. */
static void need_panels(packer *p, uint64_t first, uint64_t last)
{
    const hy_panels *w = &p->j->w->panels[first / p->j->w->panels[0].n_panel];
    uint8_t *at = (uint8_t *)(uintptr_t)w->data + first % w->n_panel * w->panel_bytes;
    uint64_t n = (last - first) * w->panel_bytes, t0 = thread_ns();
    hy_big_need(at, (size_t)n);
    atomic_fetch_add(&p->need_ns, thread_ns() - t0);
    atomic_fetch_add(&p->need_bytes, n);
}

/* A worker's panels of this slab. It packs what it will read when the plan runs (op_matmul shares columns the same
 * way, but for those of joined matrices near the border): on machines with several memory nodes the first touch puts
 * them near it. *end: of all its panels. */
static void own_piece(const packer *p, const hy_worker *w, uint64_t *first, uint64_t *last, uint64_t *end)
{
    const hy_load_job *j = p->j;
    uint64_t a, b;
    hy_share(j->w->panels[0].n_panel * j->n_part, 1, w, &a, &b);
    *first = a + (b - a) * p->slab / p->n_slab;
    *last = a + (b - a) * (p->slab + 1) / p->n_slab;
    *end = b;
}

#define HUGE_BYTES (2 * HY_MIB)

/* The whole huge pages of [from, to) of the model's memory, which nobody has touched yet, come as small ones. */
static void small_pages(const hy_model_mem *mem, uint64_t from, uint64_t to)
{
    from = HY_ROUND_UP(from, HUGE_BYTES);
    to -= to % HUGE_BYTES;
    if (from < to) hy_big_small_pages(mem->data + from, (size_t)(to - from));
}

/* What is still to come of this matrix, in every worker's share, and everything behind it. */
static void rest_in_small_pages(const packer *p)
{
    const hy_model_mem *mem = p->l->m->mem;
    const hy_panels *w = &p->j->w->panels[0]; /* parts follow each other */
    uint64_t base = (uint64_t)(w->data - mem->data);
    uint32_t n = p->l->opts->team ? hy_team_used(p->l->opts->team) : 1;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t first, last, end;
        own_piece(p, &(hy_worker){.i = i, .n = n}, &first, &last, &end);
        small_pages(mem, base + last * w->panel_bytes, base + end * w->panel_bytes);
    }
    uint64_t next = HY_ROUND_UP(base + w->n_panel * p->j->n_part * w->panel_bytes, HUGE_BYTES);
    if (next < mem->bytes) hy_big_small_pages(mem->data + next, (size_t)(mem->bytes - next));
}

/* Huge pages are worth a few percent of decoding and cost less than small ones, where the memory is at hand: 0.1 ms for 2 MiB.
 * In a guest whose host has taken unused memory back each costs 512 faults of the host, 3.5 ms (Zen 4, Firecracker). Small pages
 * come from memory that was used lately more often, so whoever waits for a first token gets the rest in those. */
static void look_at_pages(packer *p)
{
    const uint64_t dear_ns = 1000000;
    if (p->small || !p->l->opts->quick_start || p->need_bytes < 2 * HUGE_BYTES) return;
    p->small = p->need_ns / (p->need_bytes / HUGE_BYTES) > dear_ns;
    p->need_ns = p->need_bytes = 0;
    if (p->small) rest_in_small_pages(p);
}

static void pack_share(void *arg, hy_worker *w)
{
    packer *p = arg;
    uint64_t n_panel = p->j->w->panels[0].n_panel, first, last, end;
    own_piece(p, w, &first, &last, &end);
    uint64_t step = HY_MAX(NEED_BYTES / p->j->w->panels[0].panel_bytes, 1);
    for (uint64_t i = first, ready = first; i < last; i++) {
        if (cancelled(p->l->opts)) return;
        if (i == ready) {
            ready = HY_MIN(i + step, last);
            with_pages(p, i, ready, false, hy_file_need_bytes);
            need_panels(p, i, ready);
        }
        pack_one(p, (uint32_t)(i / n_panel), i % n_panel, p->scratch + w->i * p->scratch_bytes);
    }
}

static uint64_t scratch_of(const hy_load_job *j, uint32_t panel, packer *p)
{
    hy_qtype have = j->part[0]->qtype;
    p->src_bytes = p->dst_bytes = 0;
    /* both were checked: k fits the blocks */
    (void)hy_quant_row_bytes(have, j->k, &p->src_bytes);
    (void)hy_quant_row_bytes(j->type, j->k, &p->dst_bytes);
    uint64_t n = panel * (p->src_bytes + p->dst_bytes) + j->k * sizeof(float) + HY_ALIGN;
    return HY_ROUND_UP(n, HY_ALIGN);
}

/* In slabs, by all threads. */
static void run_pack(packer *p)
{
    const hy_panels *w = &p->j->w->panels[0];
    uint64_t bytes = w->n_panel * p->j->n_part * w->p * p->src_bytes;
    hy_team *team = p->l->opts->team;
    hy_worker alone = {.n = 1};
    p->n_slab = HY_MAX((bytes + SLAB_BYTES - 1) / SLAB_BYTES, 1);
    for (p->slab = 0; p->slab < p->n_slab; p->slab++) {
        if (team) hy_team_run(team, pack_share, p);
        else pack_share(p, &alone);
        if (cancelled(p->l->opts)) return;
        look_at_pages(p);
        if (p->slab + 1 == p->n_slab) return;
        /* a model is never in memory twice; what is read more than once goes with the whole tensor */
        uint32_t n = team ? hy_team_used(team) : 1;
        for (uint32_t i = 0; i < n; i++) {
            uint64_t first, last, end;
            own_piece(p, &(hy_worker){.i = i, .n = n}, &first, &last, &end);
            with_pages(p, first, last, true, hy_file_done_with_bytes);
        }
    }
}

/* ---- all ----------------------------------------------------------------------------------- */

static uint8_t *bump(hy_model_mem *mem, uint64_t n)
{
    uint8_t *p = mem->data + mem->used;
    mem->used += n;
    return p;
}

/* Takes a job's memory in the order and sizes that were summed. */
static void place(hy_loader *l, hy_load_job *j)
{
    hy_weight *w = j->w;
    if (w->panels)
        for (uint32_t i = 0; i < j->n_part; i++)
            w->panels[i].data = bump(l->m->mem, j->panels_bytes);
    if (j->vec_bytes) w->vec = (float *)bump(l->m->mem, j->vec_bytes);
    if (j->bias_bytes) w->bias = (float *)bump(l->m->mem, j->bias_bytes);
}

static void let_go(hy_loader *l, const hy_load_job *j, const hy_tensor **parts)
{
    if (!parts) return;
    uint32_t n = j->src.split ? j->n_part : 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *uses = &l->uses[parts[i] - l->file->tensor];
        if (--*uses == 0) hy_file_done_with(l->file, parts[i]);
        if (*uses == 0) *uses = UINT32_MAX; /* used, for the report */
    }
}

static hy_status fill_job(hy_loader *l, packer *p, hy_load_job *j, hy_err *err)
{
    place(l, j);
    if (j->w->panels) {
        p->j = j;
        scratch_of(j, l->opts->kern->panel, p);
        run_pack(p);
        if (j->bias) HY_TRY(fill_bias(l, j, j->w->bias, err));
    } else {
        fill_vector(j, j->part, j->w->vec, j->src.how->flags & HY_PLUS_ONE ? 1 : 0);
        if (j->bias) fill_vector(j, j->bias, j->w->bias, 0);
    }
    let_go(l, j, j->part);
    let_go(l, j, j->bias);
    return HY_OK;
}

hy_status hy_load_pack(hy_loader *l, hy_err *err)
{
    const hy_load_opts *o = l->opts;
    uint32_t n_worker = o->team ? hy_team_size(o->team) : 1;
    if (o->kern->panel == 0 || o->kern->panel > HY_PANEL_ROWS_MAX)
        return hy_fail(err, HY_E_INTERNAL, "panels of %u rows", o->kern->panel);
    packer p = {.l = l};
    for (uint32_t i = 0; i < l->n_job; i++)
        if (l->job[i].w->panels)
            p.scratch_bytes = HY_MAX(p.scratch_bytes, scratch_of(&l->job[i], o->kern->panel, &p));
    size_t scratch = (size_t)HY_MAX(p.scratch_bytes * n_worker, HY_ALIGN);
    p.scratch = hy_alloc_big(scratch);
    if (!p.scratch) return hy_fail_memory(err, "scratch for packing", scratch);
    hy_status s = HY_OK;
    uint64_t done = 0;
    for (uint32_t i = 0; i < l->n_job && s == HY_OK; i++) {
        s = fill_job(l, &p, &l->job[i], err);
        if (s == HY_OK && cancelled(o)) s = hy_fail(err, HY_E_CANCELLED, "loading was cancelled");
        done += l->job[i].w->bytes;
        if (s == HY_OK && o->progress) o->progress(o->progress_ctx, done, l->all_bytes);
    }
    hy_free_big(p.scratch, scratch);
    return s;
}

void hy_load_place(hy_loader *l)
{
    for (uint32_t i = 0; i < l->n_job; i++) {
        hy_load_job *j = &l->job[i];
        place(l, j);
        let_go(l, j, j->part);
        let_go(l, j, j->bias);
    }
    if (l->opts->progress) l->opts->progress(l->opts->progress_ctx, l->all_bytes, l->all_bytes);
}
