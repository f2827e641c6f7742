/* Operators that work on whole rows (tokens), and elementwise ones on a range of columns. */
#include "plan/instr.h"
#include <string.h>

static void embed(const hy_plan *p, const hy_instr *in, uint32_t row)
{
    float *y = hy_slot_row(p, in->out, row);
    hy_panel_row(&in->w->panels[0], (uint64_t)p->b->token[row], y);
    if (p->m->hp.embd_scale != 1) p->k->scale(y, (float)p->m->hp.embd_scale, in->n);
}

static void pos_add(const hy_plan *p, const hy_instr *in, uint32_t row, const hy_worker *w)
{
    float *y = hy_slot_row(p, in->out, row);
    uint64_t pos = (uint64_t)p->b->pos[row];
    const float *e = p->scratch[w->i].row;
    if (in->w->panels) hy_panel_row(&in->w->panels[0], pos, p->scratch[w->i].row);
    else e = in->w->vec + pos * in->n;
    p->k->add(y, e, 1, y, in->n);
}

static float *row_at(const hy_slot_mem *m, uint64_t row)
{
    return m->f + row * m->stride;
}

static void norm(const hy_plan *p, const hy_instr *in, uint32_t row, const hy_worker *w)
{
    const hy_hparams *hp = &p->m->hp;
    const float *x = row_at(hy_slot_of(p, in->a, w), row);
    float *y = row_at(hy_slot_of(p, in->out, w), row);
    const float *g = in->w ? in->w->vec : NULL, *b = in->w ? in->w->bias : NULL;
    if (hp->norm == HY_NORM_RMS) p->k->rmsnorm(x, g, y, in->n, (float)hp->norm_eps);
    else p->k->layernorm(x, g, b, y, in->n, (float)hp->norm_eps);
}

static void quant(const hy_plan *p, const hy_slot_mem *m, uint64_t row, uint64_t k, uint64_t c0,
                  uint64_t c1)
{
    hy_act8 x = m->x8;
    x.k = k;
    p->k->act8(row_at(m, row) + c0, c1 - c0, hy_act8_at(&x, row, c0));
}

/* out = a * sigmoid(b[0]) */
static void sigmoid_mul(const hy_plan *p, const hy_instr *in, uint32_t row)
{
    float g = hy_slot_row(p, in->b, row)[0];
    float *y = hy_slot_row(p, in->out, row);
    const float *a = hy_slot_row(p, in->a, row);
    p->k->act(HY_ACT_SIGMOID, &g, 1);
    if (y != a) memcpy(y, a, in->n * sizeof *y);
    p->k->scale(y, g, in->n);
}

void hy_op_elem(const hy_plan *p, const hy_instr *in, uint32_t row, uint32_t c0, uint32_t c1)
{
    const hy_hparams *hp = &p->m->hp;
    if (in->op == HY_OP_QUANT) {
        quant(p, &p->slot[in->a], row, in->n, c0, c1);
        return;
    }
    float *y = hy_slot_row(p, in->out, row) + c0;
    uint64_t n = c1 - c0;
    switch (in->op) {
    case HY_OP_ADD:
        p->k->add(hy_slot_row(p, in->a, row) + c0, hy_slot_row(p, in->b, row) + c0,
                  (float)hp->residual_scale, y, n);
        break;
    case HY_OP_ACT: p->k->act((hy_act_fn_id)hp->act, y, n); break;
    case HY_OP_ACT_MUL:
        p->k->act_mul((hy_act_fn_id)hp->act, hy_slot_row(p, in->a, row) + c0,
                      hy_slot_row(p, in->b, row) + c0, y, n);
        break;
    case HY_OP_SCALE: p->k->scale(y, (float)hp->logit_scale, n); break;
    case HY_OP_SOFTCAP: p->k->softcap(y, (float)hp->logit_softcap, n); break;
    default: break;
    }
}

void hy_op_row(const hy_plan *p, const hy_instr *in, uint32_t row, const hy_worker *w)
{
    switch (in->op) {
    case HY_OP_EMBED: embed(p, in, row); break;
    case HY_OP_POS_ADD: pos_add(p, in, row, w); break;
    case HY_OP_NORM: norm(p, in, row, w); break;
    case HY_OP_SIGMOID_MUL: sigmoid_mul(p, in, row); break;
    case HY_OP_SELECT:
        memcpy(row_at(hy_slot_of(p, in->out, w), row), hy_slot_row(p, in->a, p->b->out_tok[row]),
               in->n * sizeof(float));
        break;
    case HY_OP_QUANT:
        if (in->a == HY_S_E) { /* one row for each chosen expert */
            uint32_t n_used = p->m->hp.n_expert_used;
            for (uint32_t r = 0; r < n_used; r++)
                quant(p, &p->slot[in->a], (uint64_t)row * n_used + r, in->n, 0, in->n);
            break;
        }
        quant(p, hy_slot_of(p, in->a, w), row, in->n, 0, in->n);
        break;
    default: hy_op_elem(p, in, row, 0, in->n); break;
    }
}
