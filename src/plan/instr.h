/* plan, private: instructions, entries, slots, and the state of a step.
 *
 * A *prim* is one recipe row of one layer (plus QUANTs). An *entry* is what the team runs between two
 * barriers: one prim, or several that the fuse rules put together. How an entry's work is split:
 *   ROWS   worker takes whole rows (tokens), all prims of a row in turn
 *   HEADS  the same over (token, KV head)
 *   COLS   matmuls over ranges of output columns (panels), then elementwise prims on these columns
 *   others have their own files (op_attention.c, op_moe.c)
 * No split changes a bit: see kern.h. For one or two rows every worker makes its own copy of a normed
 * slot (local_on) rather than wait for another's; and when every row is one token, attention's unit
 * (token, KV head) does that head's norm, rotation and KV write itself. Both save a barrier. */
#ifndef HY_PLAN_INSTR_H
#define HY_PLAN_INSTR_H

#include "plan/plan.h"
#include <stdatomic.h>

typedef enum hy_kind {
    HY_KIND_ROWS, HY_KIND_HEADS, HY_KIND_COLS, HY_KIND_ATTENTION, HY_KIND_ROUTE, HY_KIND_UP,
    HY_KIND_DOWN
} hy_kind;

typedef struct hy_instr {
    hy_op op;
    hy_slot out, a, b;
    hy_role role;
    const hy_weight *w;        /* or NULL */
    int32_t i_layer;           /* -1: before or after the layers */
    const hy_layer_params *lp; /* NULL there */
    uint32_t n, k;             /* row length of out, of a */
    bool on_out;               /* works on the rows that want logits (Y, L), not on all tokens */
    bool q8;                   /* reads a's int8 form */
    hy_mm_fn *mm;              /* MATMUL */
    uint64_t w_bytes, a_bytes; /* moved for one token: weights, activations */
} hy_instr;

typedef struct hy_entry {
    hy_op op;
    hy_kind kind;
    uint32_t first, n;         /* prims */
    uint32_t n_mm;             /* COLS: leading MATMULs */
    bool paired;               /* COLS: the matmuls have the same columns, combined by ACT_MUL */
    bool on_out;
    bool heads_first;          /* ATTENTION: the entry before is this layer's HEADS */
} hy_entry;

typedef struct hy_slot_mem {
    float *f;                  /* [rows][stride] */
    size_t stride;
    hy_act8 x8;                /* int8 form, but for k: that is the reader's row length */
} hy_slot_mem;

/* One rope's frequencies; long factors make a second set. */
typedef struct hy_rope_table {
    const hy_rope *r;
    uint32_t half;             /* n_rot / 2 */
    float *inv;                /* [half] */
    float *inv_long;           /* [half], LongRoPE; else NULL */
    float scale;               /* of cos and sin */
    float *c, *s;              /* [n_tok_max][half], of this step */
} hy_rope_table;

/* A block of tokens of one row and the tiles its queries see. */
typedef struct hy_att_item {
    const hy_page_table *table;
    uint32_t tok, n_tok, pos0; /* first token in the batch, its position */
    uint32_t tile_first, tile_last;
    uint32_t off;              /* its first token in the chunk */
} hy_att_item;
typedef struct hy_att_chunk {  /* items whose tiles are read together where they are the same */
    uint32_t item, n_item;
    uint32_t tok, n_tok;       /* of hy_att_work.tok; at most att_block */
    uint32_t tile_first, tile_last;
    /* when tiles are split: a tile's cost, that of all tiles of the chunks before, the first of its tiles' results */
    uint64_t cost, at, res;
} hy_att_chunk;
typedef struct hy_att_work {   /* of one KV group */
    hy_att_item *item;
    hy_att_chunk *chunk;
    uint32_t *tok;             /* the batch's tokens in the order of chunks */
    uint32_t n_item, n_chunk;
    bool split;                /* workers share the tiles of a chunk */
    uint64_t cost;             /* of all tiles, when they are split */
    uint64_t saved;            /* tiles that are not read again */
} hy_att_work;
typedef struct hy_att_meet {   /* workers that share a chunk's tiles for a KV head: the last to come folds them */
    atomic_uint n_done;        /* tiles; 0 between two entries */
    uint32_t n_folded;         /* the first ones, by who has them */
} hy_att_meet;

#define HY_LOCAL_ROWS 2        /* up to so many rows every worker norms for itself */
typedef struct hy_scratch {    /* one worker's */
    hy_slot_mem slot[HY_S_COUNT]; /* copies of slots that are cheap to make: local_ok */
    float *q, *m, *l, *o, *m_acc, *l_acc, *o_acc, *work, *wide, *row;
    float *mat;                /* a page of keys or values as floats: op_materialised.c */
    int32_t *q_pos;
} hy_scratch;

typedef struct hy_moe {
    float *logits;             /* [n_tok][n_expert] */
    uint32_t *expert;          /* [n_tok][n_used]; the pair's index is its "entry" below */
    float *weight;             /* [n_tok][n_used] */
    uint32_t *first;           /* [n_expert + 1]: where an expert's entries start in the next two */
    uint32_t *tok, *entry;     /* [n_tok * n_used], by expert, then token */
    uint32_t *active, n_active;/* experts with entries */
    float *gate;               /* [n_tok * n_used][n_ff_expert] */
    float *down;               /* [n_tok * n_used][n_embd] */
    float *lane;               /* [HY_THREADS][2 * n_expert] for choosing */
} hy_moe;

typedef struct hy_pace {       /* pace.c: threads of a step; all 0: the team's own number */
    uint32_t n_many, n_few;
    bool watch;                /* a quota */
    uint32_t n_limit;          /* at most so many since the quota stopped us */
    uint64_t n_throttled, us_looked, us_calm;
} hy_pace;
/* The limit that follows from a look at `now`, with the quota's count of stops. */
void hy_pace_look(hy_pace *p, uint64_t now_us, uint64_t n_throttled);
bool hy_pace_due(const hy_pace *p);
uint32_t hy_pace_threads(const hy_pace *p, uint32_t n_tok);

struct hy_plan {
    const hy_model *m;
    const hy_kernels *k;
    hy_plan_opts o;
    hy_arena *arena;
    hy_instr *prim;
    hy_entry *entry;
    uint32_t n_prim, n_entry;

    hy_slot_mem slot[HY_S_COUNT];
    uint32_t slot_len[HY_S_COUNT];      /* longest over the layers; 0: not used */
    bool slot_q8[HY_S_COUNT];
    bool local_ok[HY_S_COUNT];          /* written by norms alone, read by matmuls alone */
    hy_rope_table rope[2];
    uint32_t n_group;
    uint32_t group_window[HY_KV_GROUPS_MAX], group_layers[HY_KV_GROUPS_MAX];
    uint8_t *layer_group;
    uint32_t *layer_part;               /* of a page of its group: the part of the layer's KV head 0 */
    uint64_t k_bytes, v_bytes;
    uint32_t head_per_kv, n_kv_max;     /* largest over the layers */
    uint32_t att_block;                 /* tokens of a row stacked as queries */
    hy_att_work att[HY_KV_GROUPS_MAX];
    hy_att_meet *att_meet;              /* [n_kv_max][chunks] */
    float *att_m, *att_l, *att_o;       /* tiles' results */
    uint64_t res_cap;
    /* op_materialised.c, for one row of the batch and one layer at a time */
    float *mat_s;                       /* scores: [heads][n_tok_max][mat_len] */
    float *mat_k, *mat_v;               /* keys and values of a KV head as F32 panels, [n_kv_max] of each */
    uint64_t mat_len;                   /* n_ctx in whole pages */
    uint64_t mat_k_len, mat_v_len;      /* floats of one KV head's */
    uint64_t cascade_saved;             /* tokens of a layer each */
    hy_moe moe;
    hy_scratch *scratch;                /* [n_thread_max] */
    atomic_uint *counter;               /* [n_entry * 2]: next item of a shared list */

    uint8_t *mem;
    uint64_t mem_bytes;

    /* the step */
    const hy_batch *b;
    const hy_kv *kv;
    bool local_on[HY_S_COUNT];          /* this step, each worker has its own copy */
    bool decode_only;                   /* every row is one token */
    struct hy_timing *timing;           /* timing.h; NULL: never timed */
    hy_pace pace;
    hy_tap_fn *tap;
    void *tap_ctx;
};

/* The part of a page of its group that is the layer's KV head's. */
HY_INLINE uint32_t hy_part_of(const hy_plan *p, uint32_t i_layer, uint32_t i_kv)
{
    return p->layer_part[i_layer] + i_kv;
}

/* compile.c */
uint32_t hy_slot_dim(const hy_hparams *hp, uint32_t i_layer, hy_slot s);
hy_status hy_plan_list(hy_plan *p, bool fuse, hy_err *err); /* prims and entries, no memory for slots */
/* fuse.c */
void hy_plan_find_local(hy_plan *p);
hy_kind hy_instr_kind(hy_op op);
uint32_t hy_plan_fuse(const hy_plan *p, bool fuse, hy_entry *out); /* out: [n_prim] */
/* step.c */
hy_status hy_plan_check_batch(const hy_plan *p, uint32_t n_thread, const hy_kv *kv, const hy_batch *b,
                              const float *logits, hy_err *err);
/* att_work.c */
void hy_plan_att_work(hy_plan *p, uint32_t n_thread);
/* Items from `first` (which reads the tile) on that are one kernel call: the index after the last. Items between
 * that do not read the tile see no key of it. n_read: items that do. */
uint32_t hy_att_run_end(const hy_att_item *item, uint32_t n_item, uint32_t first, uint32_t g, uint32_t tile,
                        uint32_t *n_read);
/* tap.c */
void hy_tap_entry(const hy_plan *p, const hy_entry *e, const hy_worker *w);
/* rope.c */
hy_status hy_rope_init(hy_rope_table *t, const hy_rope *r, hy_arena *a, hy_err *err);
void hy_rope_step(const hy_rope_table *t, const hy_batch *b, uint32_t tok_first, uint32_t tok_last);

/* op_*.c: each runs one worker's share */
void hy_op_row(const hy_plan *p, const hy_instr *in, uint32_t i_row, const hy_worker *w);
void hy_op_head(const hy_plan *p, const hy_instr *in, uint32_t tok, uint32_t i_kv);
void hy_op_cols(const hy_plan *p, const hy_entry *e, const hy_worker *w);
/* op_logits.c: does this entry keep what is known of the rows of logits? */
bool hy_keeps_logits(const hy_plan *p, const hy_entry *e);
/* Rows [t0, t1), columns [c0, c1): whole blocks, but for the last of a row. */
void hy_op_keep(const hy_plan *p, uint32_t t0, uint32_t t1, uint32_t c0, uint32_t c1);
/* Worker w's share of all of it, where no entry keeps it. */
void hy_op_keep_share(const hy_plan *p, const hy_worker *w);
/* elementwise prims on columns [c0, c1) of row `row` of slot out */
void hy_op_elem(const hy_plan *p, const hy_instr *in, uint32_t row, uint32_t c0, uint32_t c1);
/* This step, the attention entry does the HEADS entry before it. */
bool hy_heads_inside(const hy_plan *p, uint32_t i_entry);
void hy_op_attention(const hy_plan *p, const hy_entry *e, uint32_t i_entry, hy_worker *w);
/* Asks for the keys that worker w will read first in an attention entry, if they are known. */
void hy_attention_ahead(const hy_plan *p, const hy_entry *e, const hy_worker *w);
void hy_op_materialised(const hy_plan *p, const hy_entry *e, hy_worker *w);
void hy_op_route(const hy_plan *p, const hy_entry *e, uint32_t i_entry, hy_worker *w);
void hy_op_moe_up(const hy_plan *p, const hy_entry *e, uint32_t i_entry, hy_worker *w);
void hy_op_moe_down(const hy_plan *p, const hy_entry *e, uint32_t i_entry, hy_worker *w);

/* The slot as worker w sees it. */
HY_INLINE const hy_slot_mem *hy_slot_of(const hy_plan *p, hy_slot s, const hy_worker *w)
{
    return p->local_on[s] ? &p->scratch[w->i].slot[s] : &p->slot[s];
}
HY_INLINE float *hy_slot_row(const hy_plan *p, hy_slot s, uint64_t row)
{
    return p->slot[s].f + row * p->slot[s].stride;
}
/* The next item of a list that all workers share. */
HY_INLINE uint32_t hy_next(const hy_plan *p, uint32_t i_entry, uint32_t which)
{
    return atomic_fetch_add_explicit(&p->counter[i_entry * 2 + which], 1, memory_order_relaxed);
}
/* Bytes of activations that prim i of an entry moves for one token (compile.c): what an earlier prim of the entry read
 * or wrote is still in a cache of the thread that did. */
uint64_t hy_prim_moves(const hy_plan *p, const hy_entry *e, uint32_t i);

HY_INLINE uint32_t hy_n_rows(const hy_plan *p, bool on_out)
{
    return on_out ? p->b->n_out : p->b->n_tok;
}
/* The same of an entry: rows that want only the hidden state get no logits. */
HY_INLINE uint32_t hy_entry_rows(const hy_plan *p, const hy_entry *e)
{
    return hy_n_rows(p, e->on_out) - (p->prim[e->first].out == HY_S_L ? p->b->n_hidden : 0);
}

#endif
