/* explain: the plan as text or JSON, before and after fusion, with what each moves for one token. */
#include "plan/instr.h"
#include <inttypes.h>

typedef struct totals {
    uint64_t n, w_bytes, a_bytes;
} totals;

static totals count(const hy_plan *p, const hy_entry *e)
{
    totals t = { 1, 0, 0 };
    for (uint32_t i = 0; i < e->n; i++) {
        t.w_bytes += p->prim[e->first + i].w_bytes;
        t.a_bytes += hy_prim_moves(p, e, i);
    }
    return t;
}

static totals all(const hy_plan *p)
{
    totals sum = { 0, 0, 0 };
    for (uint32_t i = 0; i < p->n_entry; i++) {
        totals t = count(p, &p->entry[i]);
        sum.n += t.n;
        sum.w_bytes += t.w_bytes;
        sum.a_bytes += t.a_bytes;
    }
    return sum;
}

static void prim_text(const hy_plan *p, const hy_instr *in, hy_buf *out)
{
    hy_buf_printf(out, "%s", hy_op_name(in->op));
    if (in->out != HY_S_NONE) hy_buf_printf(out, " %s", hy_slot_name(in->out));
    if (in->a != HY_S_NONE || in->b != HY_S_NONE) hy_buf_str(out, " <-");
    if (in->a != HY_S_NONE) hy_buf_printf(out, " %s", hy_slot_name(in->a));
    if (in->b != HY_S_NONE) hy_buf_printf(out, " %s", hy_slot_name(in->b));
    if (!in->w) return;
    const char *type = in->w->panels ? hy_quant(in->w->panels[0].type)->name : "f32";
    hy_buf_str(out, ", ");
    hy_buf_printf(out, hy_role_name(in->role), (unsigned)HY_MAX(in->i_layer, 0));
    hy_buf_printf(out, " (%s)", type);
}

static void entry_text(const hy_plan *p, uint32_t i, hy_buf *out)
{
    const hy_entry *e = &p->entry[i];
    totals t = count(p, e);
    hy_buf_printf(out, "%4u  %-20s %10" PRIu64 "  ", i, hy_op_name(e->op), t.w_bytes + t.a_bytes);
    for (uint32_t k = 0; k < e->n; k++) {
        if (k) hy_buf_str(out, "; ");
        prim_text(p, &p->prim[e->first + k], out);
    }
    hy_buf_char(out, '\n');
}

static int32_t layer_of(const hy_plan *p, uint32_t i)
{
    return p->prim[p->entry[i].first].i_layer;
}

static uint32_t layer_end(const hy_plan *p, uint32_t i)
{
    uint32_t end = i;
    while (end < p->n_entry && layer_of(p, end) == layer_of(p, i)) end++;
    return end;
}

static bool same_prim(const hy_instr *a, const hy_instr *b)
{
    bool typed = a->w && a->w->panels && b->w && b->w->panels;
    return a->op == b->op && a->out == b->out && a->a == b->a && a->b == b->b && a->role == b->role &&
           a->w_bytes == b->w_bytes && a->a_bytes == b->a_bytes && !a->w == !b->w &&
           (!typed || a->w->panels[0].type == b->w->panels[0].type);
}

/* Do the layers that begin at entries i and j hold the same? */
static bool same_layer(const hy_plan *p, uint32_t i, uint32_t j)
{
    uint32_t n = layer_end(p, i) - i;
    if (layer_of(p, j) < 0 || layer_end(p, j) - j != n) return false;
    for (uint32_t k = 0; k < n; k++) {
        const hy_entry *a = &p->entry[i + k], *b = &p->entry[j + k];
        if (a->op != b->op || a->n != b->n) return false;
        for (uint32_t m = 0; m < a->n; m++)
            if (!same_prim(&p->prim[a->first + m], &p->prim[b->first + m])) return false;
    }
    return true;
}

/* Layers that repeat the one before are named and not listed. */
static void entries_text(const hy_plan *p, hy_buf *out)
{
    for (uint32_t i = 0; i < p->n_entry;) {
        uint32_t end = layer_of(p, i) < 0 ? i + 1 : layer_end(p, i), next = end;
        for (uint32_t k = i; k < end; k++) entry_text(p, k, out);
        if (layer_of(p, i) >= 0)
            while (next < p->n_entry && same_layer(p, i, next)) next = layer_end(p, next);
        if (next > end) {
            int32_t first = layer_of(p, end), last = layer_of(p, next - 1);
            if (first == last) hy_buf_printf(out, "      layer %d: the same %u again\n", first, end - i);
            else hy_buf_printf(out, "      layers %d to %d: the same %u again\n", first, last, end - i);
        }
        i = next;
    }
}

static void by_operator(const hy_plan *plain, const hy_plan *fused, hy_buf *out)
{
    hy_buf_str(out, "\nBY OPERATOR              primitive: number, bytes       fused: number, bytes\n");
    for (uint32_t op = 0; op < HY_OP_COUNT; op++) {
        uint64_t n[2] = { 0, 0 }, bytes[2] = { 0, 0 };
        for (int k = 0; k < 2; k++) {
            const hy_plan *p = k ? fused : plain;
            for (uint32_t i = 0; i < p->n_entry; i++) {
                if (p->entry[i].op != (hy_op)op) continue;
                totals t = count(p, &p->entry[i]);
                n[k]++;
                bytes[k] += t.w_bytes + t.a_bytes;
            }
        }
        if (n[0] + n[1] == 0) continue;
        hy_buf_printf(out, "  %-22s", hy_op_name((hy_op)op));
        for (int k = 0; k < 2; k++) {
            if (n[k]) hy_buf_printf(out, " %12" PRIu64 " %14" PRIu64, n[k], bytes[k]);
            else hy_buf_printf(out, " %12s %14s", "-", "-");
        }
        hy_buf_char(out, '\n');
    }
}

static void text(const hy_plan *plain, const hy_plan *fused, hy_buf *out)
{
    const hy_hparams *hp = &plain->m->hp;
    totals a = all(plain), b = all(fused);
    hy_buf_printf(out, "%s: %u layers, %u wide, %u heads over %u, vocabulary %u\n", plain->m->family->name,
                  hp->n_layer, hp->n_embd, hp->n_head, hp->n_kv_head, hp->n_vocab);
    hy_buf_printf(out, "primitive: %" PRIu64 " instructions, for one token %" PRIu64
                  " bytes of weights and %" PRIu64 " of activations\n", a.n, a.w_bytes, a.a_bytes);
    hy_buf_printf(out, "fused:     %" PRIu64 " instructions, for one token %" PRIu64
                  " bytes of weights and %" PRIu64 " of activations\n", b.n, b.w_bytes, b.a_bytes);
    by_operator(plain, fused, out);
    hy_buf_str(out, "\nPRIMITIVE\n   #  instruction               bytes  does\n");
    entries_text(plain, out);
    hy_buf_str(out, "\nFUSED\n   #  instruction               bytes  does\n");
    entries_text(fused, out);
}

static void entries_json(const hy_plan *p, hy_buf *out)
{
    totals t = all(p);
    hy_buf_printf(out, "{\"instructions\": %" PRIu64 ", \"weight_bytes\": %" PRIu64
                  ", \"activation_bytes\": %" PRIu64 ", \"list\": [", t.n, t.w_bytes, t.a_bytes);
    for (uint32_t i = 0; i < p->n_entry; i++) {
        const hy_entry *e = &p->entry[i];
        t = count(p, e);
        hy_buf_printf(out, "%s\n{\"op\": \"%s\", \"layer\": %d, \"weight_bytes\": %" PRIu64
                      ", \"activation_bytes\": %" PRIu64 ", \"does\": [", i ? "," : "",
                      hy_op_name(e->op), (int)p->prim[e->first].i_layer, t.w_bytes, t.a_bytes);
        for (uint32_t k = 0; k < e->n; k++) {
            hy_buf_str(out, k ? ", \"" : "\"");
            prim_text(p, &p->prim[e->first + k], out);
            hy_buf_char(out, '"');
        }
        hy_buf_str(out, "]}");
    }
    hy_buf_str(out, "]}");
}

static void json(const hy_plan *plain, const hy_plan *fused, hy_buf *out)
{
    const hy_hparams *hp = &plain->m->hp;
    hy_buf_printf(out, "{\"family\": \"%s\", \"n_layer\": %u, \"n_embd\": %u, \"n_head\": %u, "
                  "\"n_kv_head\": %u, \"n_vocab\": %u,\n\"primitive\": ", plain->m->family->name,
                  hp->n_layer, hp->n_embd, hp->n_head, hp->n_kv_head, hp->n_vocab);
    entries_json(plain, out);
    hy_buf_str(out, ",\n\"fused\": ");
    entries_json(fused, out);
    hy_buf_str(out, "}\n");
}

static hy_status list(hy_plan *p, const hy_model *m, const hy_plan_opts *o, bool fuse, hy_err *err)
{
    p->m = m;
    p->k = &m->kern;
    p->o = *o;
    p->o.fuse = fuse;
    p->arena = hy_arena_new(64 * HY_KIB);
    if (!p->arena) return hy_fail_memory(err, "plan", 64 * HY_KIB);
    return hy_plan_list(p, fuse, err);
}

hy_status hy_plan_explain(const hy_model *m, const hy_plan_opts *o, bool as_json, hy_buf *out,
                          hy_err *err)
{
    hy_plan *p = HY_NEW_ARRAY(hy_plan, 2);
    if (!p) return hy_fail_memory(err, "plan", 2 * sizeof *p);
    hy_status st = list(&p[0], m, o, false, err);
    if (st == HY_OK) st = list(&p[1], m, o, true, err);
    if (st == HY_OK) {
        if (as_json) json(&p[0], &p[1], out);
        else text(&p[0], &p[1], out);
        if (out->failed) st = hy_fail_memory(err, "explanation", out->len);
    }
    hy_arena_free(p[0].arena);
    hy_arena_free(p[1].arena);
    hy_free(p);
    return st;
}
