/* compile: a model's recipe -> prims -> entries, and memory for slots, tables and scratch. */
#include "plan/instr.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- sizes ------------------------------------------------------------------------------------ */

uint32_t hy_slot_dim(const hy_hparams *hp, uint32_t i_layer, hy_slot s)
{
    static const hy_dim dims[] = {
        HY_D_NONE,
#define X(id, dim) HY_D_##dim,
        HY_SLOT_LIST(X)
#undef X
    };
    if (s == HY_S_E) return hp->n_ff_expert; /* a row of one chosen expert */
    return (uint32_t)hy_dim_size(hp, i_layer, dims[s]);
}

static bool is_out_slot(hy_slot s)
{
    return s == HY_S_Y || s == HY_S_L;
}

/* ---- prims ------------------------------------------------------------------------------------ */

static const hy_weight *find_weight(const hy_model *m, int32_t i_layer, hy_role r)
{
    if (r == HY_W_NONE) return NULL;
    if (r == HY_W_OUTPUT && (m->tied || !m->global[r].present)) r = HY_W_TOK_EMBD;
    const hy_weight *w;
    if (r < HY_W_FIRST_LAYER_ROLE) w = &m->global[r];
    else if (i_layer < 0) return NULL;
    else w = &m->layer[i_layer][r];
    return w->present ? w : NULL;
}

static bool wanted(const hy_model *m, const hy_recipe *r, int32_t i_layer)
{
    const hy_layer_params *lp = i_layer < 0 ? NULL : &m->hp.layer[i_layer];
    if (r->op == HY_OP_SOFTCAP && m->hp.logit_softcap == 0) return false;
    if (r->op == HY_OP_SCALE && m->hp.logit_scale == 1) return false;
    if ((r->when & HY_IF_W) && !find_weight(m, i_layer, r->w)) return false;
    if ((r->when & HY_IF_DENSE) && lp && lp->moe) return false;
    if ((r->when & HY_IF_MOE) && !(lp && lp->moe)) return false;
    if ((r->when & HY_IF_ROPE) && !(lp && lp->rope >= 0)) return false;
    if ((r->when & HY_IF_PARALLEL) && !m->hp.parallel) return false;
    if ((r->when & HY_IF_SEQUENTIAL) && m->hp.parallel) return false;
    return true;
}

static bool quantised(const hy_weight *w)
{
    return w && w->panels && !hy_quant(w->panels[0].type)->is_float;
}

/* Does the operator need its weight, and as what? */
static hy_status check_weight(const hy_plan *p, const hy_instr *in, hy_err *err)
{
    bool matrix = in->op == HY_OP_MATMUL || in->op == HY_OP_EMBED || in->op == HY_OP_MOE_ROUTE ||
                  in->op == HY_OP_MOE_UP || in->op == HY_OP_MOE_DOWN;
    if (matrix && !(in->w && in->w->panels))
        return hy_fail(err, HY_E_FORMAT, "layer %d: %s needs the matrix %s", in->i_layer,
                       hy_op_name(in->op), hy_role_name(in->role));
    if (in->op == HY_OP_HEAD_NORM) {
        if (!in->w || !in->w->vec || (in->w->n_vec != p->m->hp.d_k && in->w->n_vec != in->n))
            return hy_fail(err, HY_E_FORMAT, "layer %d: head norm %s must have %u or %u values",
                           in->i_layer, hy_role_name(in->role), p->m->hp.d_k, in->n);
        return HY_OK;
    }
    if (in->op == HY_OP_POS_ADD && !(in->w && (in->w->panels || in->w->vec)))
        return hy_fail(err, HY_E_FORMAT, "positions need %s", hy_role_name(in->role));
    if (in->op == HY_OP_NORM && in->w && in->w->vec && in->w->n_vec != in->n)
        return hy_fail(err, HY_E_FORMAT, "layer %d: norm %s has %" PRIu64 " values, its row %u",
                       in->i_layer, hy_role_name(in->role), in->w->n_vec, in->n);
    if (!matrix) return HY_OK;
    const hy_panels *w = &in->w->panels[0];
    uint64_t k = in->op == HY_OP_EMBED ? in->n : in->k;
    uint64_t n = in->op == HY_OP_EMBED       ? p->m->hp.n_vocab
                 : in->op == HY_OP_MOE_ROUTE ? p->m->hp.n_expert
                                             : in->n;
    if (w->k != k || w->n_row != n)
        return hy_fail(err, HY_E_FORMAT, "layer %d: %s is %" PRIu64 " x %" PRIu64
                       ", the plan has %" PRIu64 " x %" PRIu64, in->i_layer, hy_role_name(in->role),
                       w->n_row, w->k, n, k);
    return HY_OK;
}

/* The int8 form of n floats. */
static uint64_t int8_bytes(uint32_t n)
{
    return n / 32 * (uint64_t)sizeof(hy_act_group);
}

static uint64_t second_bytes(const hy_instr *in)
{
    return in->op == HY_OP_ADD || in->op == HY_OP_ACT_MUL ? 4ull * in->n : 0;
}

/* Does an earlier prim of the entry read or write the slot? */
static bool met(const hy_plan *p, const hy_entry *e, uint32_t i, hy_slot s)
{
    for (uint32_t k = 0; k < i; k++) {
        const hy_instr *in = &p->prim[e->first + k];
        if (in->out == s || in->a == s || in->b == s) return true;
    }
    return false;
}

uint64_t hy_prim_moves(const hy_plan *p, const hy_entry *e, uint32_t i)
{
    const hy_instr *in = &p->prim[e->first + i];
    uint64_t out = in->op == HY_OP_QUANT ? int8_bytes(in->n) : 4ull * in->n, second = second_bytes(in), all = in->a_bytes;
    if (met(p, e, i, in->a != HY_S_NONE ? in->a : in->out)) all -= in->a_bytes - second - out;
    if (second && met(p, e, i, in->b)) all -= second;
    /* a product that is only added goes straight to where it is added */
    if (in->op == HY_OP_MATMUL && i + 1 < e->n && in[1].op == HY_OP_ADD) all -= out;
    return all;
}

/* Bytes moved for one token. */
static void count_bytes(const hy_plan *p, hy_instr *in)
{
    const hy_hparams *hp = &p->m->hp;
    in->a_bytes = 4ull * (in->n + in->k) + second_bytes(in);
    if (!in->w || !in->w->panels) return;
    const hy_panels *w = &in->w->panels[0];
    in->w_bytes = w->n_panel * w->panel_bytes;
    if (in->op == HY_OP_EMBED || in->op == HY_OP_POS_ADD) in->w_bytes /= HY_MAX(1, w->n_row);
    if (in->op == HY_OP_MOE_UP) {
        const hy_weight *g = &p->m->layer[in->i_layer][HY_W_E_GATE];
        if (g->present) in->w_bytes += g->panels[0].n_panel * g->panels[0].panel_bytes;
    }
    if (in->op == HY_OP_MOE_UP || in->op == HY_OP_MOE_DOWN) in->w_bytes *= hp->n_expert_used;
    if (in->q8) in->a_bytes = 4ull * in->n + int8_bytes(in->k);
}

static hy_status make_prim(hy_plan *p, hy_instr *in, const hy_recipe *r, int32_t i_layer, hy_err *err)
{
    const hy_hparams *hp = &p->m->hp;
    uint32_t l = i_layer < 0 ? UINT32_MAX : (uint32_t)i_layer;
    *in = (hy_instr){
        .op = r->op, .out = r->out, .a = r->a, .b = r->b, .role = r->w, .i_layer = i_layer,
        .w = find_weight(p->m, i_layer, r->w), .lp = i_layer < 0 ? NULL : &hp->layer[i_layer],
        .n = hy_slot_dim(hp, l, r->out), .k = hy_slot_dim(hp, l, r->a),
        .on_out = is_out_slot(r->out),
    };
    bool of_layer = in->op == HY_OP_KV_PUT || in->op == HY_OP_ATTENTION || in->op == HY_OP_ROPE ||
                    in->op == HY_OP_HEAD_NORM || in->op == HY_OP_MOE_UP;
    if (of_layer && !in->lp)
        return hy_fail(err, HY_E_INTERNAL, "%s outside the layers", hy_op_name(in->op));
    HY_TRY(check_weight(p, in, err));
    if (in->op == HY_OP_MATMUL || in->op == HY_OP_MOE_UP || in->op == HY_OP_MOE_DOWN) {
        in->q8 = quantised(in->w) && !p->o.act_f32;
        if (in->op == HY_OP_MOE_UP && !p->o.act_f32)
            in->q8 |= quantised(find_weight(p->m, i_layer, HY_W_E_GATE));
    }
    if (in->op == HY_OP_MATMUL || in->op == HY_OP_MOE_ROUTE) {
        hy_qtype t = in->w->panels[0].type;
        in->mm = in->q8 ? p->k->mm_q8[t] : p->k->mm_f32[t];
        if (!in->mm)
            return hy_fail(err, HY_E_UNSUPPORTED, "%s: no %s matmul for %s", hy_role_name(in->role),
                           p->k->isa, hy_quant(t)->name);
    }
    count_bytes(p, in);
    return HY_OK;
}

/* Recipe rows that are kept, in order; counts only when `out` is NULL. */
static hy_status expand(hy_plan *p, hy_instr *out, uint32_t *n, hy_err *err)
{
    const hy_family *f = p->m->family;
    *n = 0;
    for (int64_t l = -1; l <= (int64_t)p->m->hp.n_layer; l++) {
        bool tail = l == p->m->hp.n_layer;
        const hy_recipe *r = l < 0 ? f->head : tail ? f->tail : f->block;
        uint32_t n_row = l < 0 ? f->n_head_rows : tail ? f->n_tail_rows : f->n_block_rows;
        int32_t i_layer = l < 0 || tail ? -1 : (int32_t)l;
        for (uint32_t i = 0; i < n_row; i++) {
            if (!wanted(p->m, &r[i], i_layer)) continue;
            if (out) HY_TRY(make_prim(p, &out[*n], &r[i], i_layer, err));
            ++*n;
        }
    }
    return HY_OK;
}

/* A QUANT after the last writer of each slot whose int8 form is read. */
static hy_status insert_quants(hy_plan *p, const hy_instr *in, uint32_t n, hy_instr *out,
                               uint32_t *n_out, bool *after, hy_err *err)
{
    int64_t writer[HY_S_COUNT];
    for (uint32_t s = 0; s < HY_S_COUNT; s++) writer[s] = -1;
    for (uint32_t i = 0; i < n; i++) {
        if (in[i].q8) {
            if (writer[in[i].a] < 0)
                return hy_fail(err, HY_E_INTERNAL, "%s reads slot %s before it is written",
                               hy_op_name(in[i].op), hy_slot_name(in[i].a));
            after[writer[in[i].a]] = true;
        }
        if (in[i].out != HY_S_NONE) writer[in[i].out] = i;
    }
    *n_out = 0;
    for (uint32_t i = 0; i < n; i++) {
        out[(*n_out)++] = in[i];
        if (!after[i]) continue;
        hy_instr q = { .op = HY_OP_QUANT, .out = in[i].out, .a = in[i].out, .i_layer = in[i].i_layer,
                       .lp = in[i].lp, .n = in[i].n, .k = in[i].n, .on_out = in[i].on_out };
        if (q.n % 32)
            return hy_fail(err, HY_E_UNSUPPORTED, "slot %s: rows of %u; int8 activations need a "
                           "multiple of 32", hy_slot_name(q.a), q.n);
        q.a_bytes = 4ull * q.n + int8_bytes(q.n);
        out[(*n_out)++] = q;
    }
    return HY_OK;
}

hy_status hy_plan_list(hy_plan *p, bool fuse, hy_err *err)
{
    uint32_t n = 0;
    HY_TRY(expand(p, NULL, &n, err));
    size_t room = 2 * (size_t)n;
    hy_instr *plain = HY_ARENA_NEW(p->arena, hy_instr, room / 2);
    bool *after = hy_arena_alloc(p->arena, n, 1);
    p->prim = HY_ARENA_NEW(p->arena, hy_instr, room);
    p->entry = HY_ARENA_NEW(p->arena, hy_entry, room);
    if (!plain || !after || !p->prim || !p->entry)
        return hy_fail_memory(err, "instructions", 3ull * n * sizeof(hy_instr));
    HY_TRY(expand(p, plain, &n, err));
    HY_TRY(insert_quants(p, plain, n, p->prim, &p->n_prim, after, err));
    p->n_entry = hy_plan_fuse(p, fuse, p->entry);
    return HY_OK;
}

/* ---- memory ----------------------------------------------------------------------------------- */

/* Run twice: with base NULL it only counts. */
typedef struct carver {
    uint8_t *base;
    uint64_t at;
    bool overflow;
} carver;

static void *carve(carver *c, uint64_t n, uint64_t size)
{
    uint64_t bytes, end;
    if (!hy_mul_u64(n, size, &bytes) || !hy_add_u64(c->at, bytes, &end) || end > INT64_MAX) {
        c->overflow = true;
        return NULL;
    }
    void *p = c->base ? c->base + c->at : NULL;
    c->at = HY_ROUND_UP(end, HY_ALIGN);
    return p;
}

static void carve_slot(hy_slot_mem *m, carver *c, uint64_t rows, uint64_t len, bool q8)
{
    /* an odd number of cache lines: a column of a block of rows must not fall into few sets of L1 */
    m->stride = HY_ROUND_UP(len, 16) | 16;
    m->f = carve(c, rows, m->stride * sizeof(float));
    if (!q8) return;
    m->x8.g = carve(c, rows, len / 32 * sizeof(hy_act_group));
}

static void carve_slots(hy_plan *p, carver *c)
{
    for (uint32_t s = 1; s < HY_S_COUNT; s++) {
        uint64_t len = p->slot_len[s], rows = p->o.n_tok_max;
        if (s == HY_S_Y) rows = p->o.n_out_max;
        if (s == HY_S_E) rows *= p->m->hp.n_expert_used;
        if (s == HY_S_L) p->slot[s].stride = p->m->hp.n_vocab; /* they go where the caller says */
        if (len == 0 || s == HY_S_L) continue;
        carve_slot(&p->slot[s], c, rows, len, p->slot_q8[s]);
        for (uint32_t i = 0; i < p->o.n_thread_max && p->local_ok[s]; i++)
            carve_slot(&p->scratch[i].slot[s], c, HY_MIN(rows, HY_LOCAL_ROWS), len, p->slot_q8[s]);
    }
}

static void carve_moe(hy_plan *p, carver *c)
{
    const hy_hparams *hp = &p->m->hp;
    if (!p->slot_len[HY_S_E]) return;
    uint64_t n_tok = p->o.n_tok_max, n = n_tok * hp->n_expert_used;
    hy_moe *o = &p->moe;
    o->logits = carve(c, n_tok, hp->n_expert * sizeof(float));
    o->expert = carve(c, n, sizeof(uint32_t));
    o->weight = carve(c, n, sizeof(float));
    o->first = carve(c, hp->n_expert + 1ull, sizeof(uint32_t));
    o->tok = carve(c, n, sizeof(uint32_t));
    o->entry = carve(c, n, sizeof(uint32_t));
    o->active = carve(c, hp->n_expert, sizeof(uint32_t));
    o->gate = carve(c, n, hp->n_ff_expert * sizeof(float));
    o->down = carve(c, n, hp->n_embd * sizeof(float));
    o->lane = carve(c, p->o.n_thread_max, hp->n_expert * sizeof(float));
}

/* The whole matrix of scores of a layer, and keys and values as the matrix products want them. */
static void carve_materialised(hy_plan *p, carver *c)
{
    if (!p->o.materialised) return;
    uint32_t d_k = p->m->hp.d_k, d_v = p->m->hp.d_v, lane = p->k->panel;
    p->mat_len = HY_ROUND_UP((uint64_t)p->o.n_ctx, HY_MAX(HY_PAGE_TOK, lane));
    p->mat_k_len = p->mat_len * d_k;
    p->mat_v_len = p->mat_len * HY_ROUND_UP((uint64_t)d_v, lane);
    p->mat_s = carve(c, (uint64_t)p->n_kv_max * p->head_per_kv * p->o.n_tok_max, p->mat_len * sizeof(float));
    p->mat_k = carve(c, p->n_kv_max, p->mat_k_len * sizeof(float));
    p->mat_v = carve(c, p->n_kv_max, p->mat_v_len * sizeof(float));
    for (uint32_t i = 0; i < p->o.n_thread_max; i++)
        p->scratch[i].mat = carve(c, HY_PAGE_TOK, HY_MAX(d_k, d_v) * sizeof(float));
}

static void carve_attention(hy_plan *p, carver *c)
{
    uint32_t d_k = p->m->hp.d_k, d_v = p->m->hp.d_v, n_q = p->att_block * p->head_per_kv;
    for (uint32_t g = 0; g < p->n_group; g++) {
        p->att[g].item = carve(c, p->o.n_tok_max, sizeof(hy_att_item));
        p->att[g].chunk = carve(c, p->o.n_tok_max, sizeof(hy_att_chunk));
        p->att[g].tok = carve(c, p->o.n_tok_max, sizeof(uint32_t));
    }
    p->att_meet = carve(c, (uint64_t)p->o.n_tok_max * p->n_kv_max, sizeof(hy_att_meet));
    p->att_m = carve(c, p->res_cap, sizeof(float));
    p->att_l = carve(c, p->res_cap, sizeof(float));
    p->att_o = carve(c, p->res_cap, d_v * sizeof(float));
    for (uint32_t i = 0; i < p->o.n_thread_max; i++) {
        hy_scratch *s = &p->scratch[i];
        s->q = carve(c, n_q, d_k * sizeof(float));
        s->o = carve(c, n_q, d_v * sizeof(float));
        s->work = carve(c, n_q, HY_ATT_TILE * sizeof(float));
        s->wide = carve(c, d_k + (uint64_t)d_v, HY_ATT_TILE * sizeof(float));
        s->m = carve(c, n_q, sizeof(float));
        s->l = carve(c, n_q, sizeof(float));
        s->m_acc = carve(c, n_q, sizeof(float));
        s->l_acc = carve(c, n_q, sizeof(float));
        s->o_acc = carve(c, n_q, d_v * sizeof(float));
        s->q_pos = carve(c, n_q, sizeof(int32_t));
        s->row = carve(c, p->m->hp.n_embd, sizeof(float));
    }
    for (uint32_t i = 0; i < 2; i++) {
        hy_rope_table *t = &p->rope[i];
        t->c = carve(c, p->o.n_tok_max, t->half * sizeof(float));
        t->s = carve(c, p->o.n_tok_max, t->half * sizeof(float));
    }
}

static hy_status place(hy_plan *p, hy_err *err)
{
    for (int pass = 0; pass < 2; pass++) {
        carver c = { .base = p->mem };
        carve_slots(p, &c);
        carve_moe(p, &c);
        carve_attention(p, &c);
        carve_materialised(p, &c);
        if (c.overflow) return hy_fail(err, HY_E_LIMIT, "the plan's memory overflows");
        if (pass == 0) {
            p->mem_bytes = c.at;
            p->mem = hy_alloc_big((size_t)c.at);
            if (!p->mem) return hy_fail_memory(err, "the plan's slots", c.at);
            if (p->o.small_pages) hy_big_small_pages(p->mem, (size_t)c.at);
        }
    }
    return HY_OK;
}

/* ---- tables ----------------------------------------------------------------------------------- */

static hy_status init_kv(hy_plan *p, hy_err *err)
{
    const hy_hparams *hp = &p->m->hp;
    hy_kv_group group[HY_KV_GROUPS_MAX];
    uint32_t at[HY_KV_GROUPS_MAX] = { 0 };
    p->layer_group = hy_arena_alloc(p->arena, hp->n_layer, 1);
    p->layer_part = HY_ARENA_NEW(p->arena, uint32_t, hp->n_layer);
    uint16_t *index = HY_ARENA_NEW(p->arena, uint16_t, hp->n_layer);
    if (!p->layer_group || !p->layer_part || !index)
        return hy_fail_memory(err, "layer table", hp->n_layer * 7ull);
    p->n_group = hy_model_kv_groups(p->m, p->o.kv_type, group, p->layer_group, index);
    if (p->n_group == 0)
        return hy_fail(err, HY_E_UNSUPPORTED, "layers with more than %u different windows",
                       HY_KV_GROUPS_MAX);
    p->k_bytes = hy_kv_k_bytes(p->o.kv_type, hp->d_k);
    p->v_bytes = hy_kv_v_bytes(p->o.kv_type, hp->d_v);
    for (uint32_t g = 0; g < p->n_group; g++) {
        p->group_window[g] = group[g].window;
        p->group_layers[g] = group[g].n_layer;
    }
    for (uint32_t l = 0; l < hp->n_layer; l++) {
        const hy_layer_params *lp = &hp->layer[l];
        if (lp->n_kv_head == 0 || lp->n_head % lp->n_kv_head)
            return hy_fail(err, HY_E_FORMAT, "layer %u: %u heads over %u KV heads", l, lp->n_head,
                           lp->n_kv_head);
        uint8_t g = p->layer_group[l];
        p->layer_part[l] = at[g];
        at[g] += lp->n_kv_head;
        p->head_per_kv = HY_MAX(p->head_per_kv, lp->n_head / lp->n_kv_head);
        p->n_kv_max = HY_MAX(p->n_kv_max, lp->n_kv_head);
    }
    if (p->o.kv_type == HY_KV_Q4 && (hp->d_k % 32 || hp->d_v % 32))
        return hy_fail(err, HY_E_UNSUPPORTED, "KV type q4 needs head sizes that are multiples of 32, "
                       "not %u and %u", hp->d_k, hp->d_v);
    p->att_block = HY_MIN(HY_MAX(64 / p->head_per_kv, 1), 16);
    uint64_t tiles = p->o.n_ctx / HY_ATT_TILE + 1;
    uint64_t per_tok = tiles * p->n_kv_max * p->head_per_kv;
    uint64_t most = 64 * HY_MIB / ((hp->d_v + 2ull) * sizeof(float));
    p->res_cap = HY_MIN(per_tok * HY_MIN(16, p->o.n_tok_max), HY_MAX(most, per_tok));
    return HY_OK;
}

static hy_status init_ropes(hy_plan *p, hy_err *err)
{
    bool used[2] = { false, false };
    for (uint32_t i = 0; i < p->n_prim; i++) {
        if (p->prim[i].op != HY_OP_ROPE) continue;
        if (p->prim[i].lp->rope > 1)
            return hy_fail(err, HY_E_INTERNAL, "layer %d: rope %d of 2", p->prim[i].i_layer,
                           p->prim[i].lp->rope);
        used[p->prim[i].lp->rope] = true;
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (!used[i]) continue;
        if (p->m->hp.rope[i].n_rot > p->m->hp.d_k)
            return hy_fail(err, HY_E_FORMAT, "rope: %u rotated dimensions of a head of %u",
                           p->m->hp.rope[i].n_rot, p->m->hp.d_k);
        HY_TRY(hy_rope_init(&p->rope[i], &p->m->hp.rope[i], p->arena, err));
    }
    return HY_OK;
}

static void use_slot(hy_plan *p, hy_slot s, uint32_t len)
{
    if (s != HY_S_NONE) p->slot_len[s] = HY_MAX(p->slot_len[s], len);
}

static hy_status check_opts(hy_plan_opts *o, const hy_model *m, hy_err *err)
{
    if (o->n_thread_max == 0) o->n_thread_max = HY_THREADS_MAX;
    if (o->n_ctx == 0 || o->n_ctx > INT32_MAX / 2)
        return hy_fail(err, HY_E_ARG, "context of %u tokens; 1 to %d are possible", o->n_ctx,
                       INT32_MAX / 2);
    if (o->n_tok_max == 0 || o->n_row_max == 0 || o->n_thread_max > HY_THREADS_MAX)
        return hy_fail(err, HY_E_ARG, "steps of %u tokens, %u sequences, %u threads", o->n_tok_max,
                       o->n_row_max, o->n_thread_max);
    o->n_out_max = HY_MIN(HY_MAX(o->n_out_max, 1), o->n_tok_max);
    if (o->kv_type >= HY_KV_TYPE_COUNT) return hy_fail(err, HY_E_ARG, "KV type %d", (int)o->kv_type);
    const hy_hparams *hp = &m->hp;
    if (hp->n_layer == 0 || !hp->layer || hp->n_embd == 0 || hp->d_k == 0 || hp->d_v == 0)
        return hy_fail(err, HY_E_FORMAT, "model without layers or sizes");
    const hy_weight *pos = &m->global[HY_W_POS_EMBD];
    if (pos->present) {
        uint64_t n = pos->panels ? pos->panels[0].n_row : pos->n_vec / hp->n_embd;
        if (o->n_ctx > n)
            return hy_fail(err, HY_E_LIMIT, "context of %u tokens; the model has %" PRIu64 " positions",
                           o->n_ctx, n);
    }
    return HY_OK;
}

static hy_status compile(hy_plan *p, hy_err *err)
{
    HY_TRY(check_opts(&p->o, p->m, err));
    HY_TRY(hy_plan_list(p, p->o.fuse, err));
    HY_TRY(init_kv(p, err));
    HY_TRY(init_ropes(p, err));
    for (uint32_t i = 0; i < p->n_prim; i++) {
        const hy_instr *in = &p->prim[i];
        use_slot(p, in->out, in->n);
        use_slot(p, in->a, in->k);
        if (in->op == HY_OP_QUANT) p->slot_q8[in->a] = true;
    }
    if (p->o.fuse) hy_plan_find_local(p);
    p->slot_len[HY_S_R] = 0; /* routing has its own arrays */
    p->scratch = HY_ARENA_NEW(p->arena, hy_scratch, p->o.n_thread_max);
    p->counter = HY_ARENA_NEW(p->arena, atomic_uint, 2 * (size_t)p->n_entry);
    if (!p->scratch || !p->counter) return hy_fail_memory(err, "scratch table", p->n_entry * 8ull);
    return place(p, err);
}

hy_status hy_plan_compile(hy_plan **out, const hy_model *m, const hy_plan_opts *o, hy_err *err)
{
    hy_plan *p = HY_NEW(hy_plan);
    if (!p) return hy_fail_memory(err, "plan", sizeof *p);
    p->m = m;
    p->k = &m->kern;
    p->o = *o;
    p->arena = hy_arena_new(64 * HY_KIB);
    hy_status st = p->arena ? compile(p, err) : hy_fail_memory(err, "plan", 64 * HY_KIB);
    if (st != HY_OK) {
        hy_plan_free(p);
        return st;
    }
    *out = p;
    return HY_OK;
}

void hy_plan_free(hy_plan *p)
{
    if (!p) return;
    if (p->mem) hy_free_big(p->mem, (size_t)p->mem_bytes);
    hy_arena_free(p->arena);
    hy_free(p);
}

uint64_t hy_plan_bytes(const hy_plan *p)
{
    return sizeof *p + p->mem_bytes + hy_arena_bytes(p->arena);
}
