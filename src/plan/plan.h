/* plan: recipe -> instructions for one model; fuse, place slots, bind kernels, run, explain. May
 * include base, cpu, quant, kern, file, arch, kv. */
#ifndef HY_PLAN_H
#define HY_PLAN_H

#include "arch/arch.h"
#include "base/base.h"
#include "cpu/cpu.h"
#include "file/file.h"
#include "kern/kern.h"
#include "kv/kv.h"

/* ---- a model: family, hyper-parameters, packed weights ---------------------------------------- */

typedef struct hy_weight {
    hy_role role;
    bool present;
    /* matrices: n_expert panels sets (1 for plain ones); vectors: vec */
    uint32_t n_expert;
    hy_panels *panels;         /* [n_expert] or NULL */
    float *vec;                /* norms, sinks, factors: F32, or NULL */
    uint64_t n_vec;
    float *bias;               /* [n_expert * n_row] or [n_vec], F32, or NULL */
    uint64_t bytes;            /* resident */
} hy_weight;

typedef struct hy_model {
    const hy_family *family;
    hy_hparams hp;
    hy_kernels kern;
    hy_weight global[HY_W_FIRST_LAYER_ROLE];
    hy_weight (*layer)[HY_W_COUNT]; /* [n_layer], indexed by role */
    bool tied;                 /* the output matrix is the token embedding */
    bool all_float;            /* no quantised matrix: activations stay F32 */
    uint64_t weight_bytes;     /* resident */
    hy_arena *arena;
    struct hy_model_mem *mem;  /* big allocations, private to weights.c */
} hy_model;

typedef struct hy_load_opts {
    const hy_kernels *kern;
    hy_team *team;             /* packs with all its threads */
    void (*progress)(void *ctx, uint64_t done_bytes, uint64_t all_bytes); /* or NULL */
    void *progress_ctx;
    volatile const int *cancel;/* not NULL and != 0: stop with HY_E_CANCELLED */
    int quantise;              /* -1: keep; else hy_qtype that float matrices become while loading */
    bool requantise;           /* and quantised ones that take more bits */
    bool every;                /* and all others, whatever they are: only to be measured */
    bool small_pages;          /* memory without huge pages: only to be measured */
    bool quick_start;          /* huge pages only where they come at once */
    /* Files that the packed form is looked for in, in this order; when none is right it is packed and kept in the
     * first that can be written. Owner: the caller. */
    const char *const *packed;
    uint32_t n_packed;
} hy_load_opts;

/* Family and hyper-parameters only: cheap, for `info`. Free with hy_model_free. */
hy_status hy_model_describe(hy_model **out, const hy_file *f, hy_err *err);
/* The whole: every tensor checked (presence, shape, type), packed by all threads, source pages let
 * go. The file may be closed afterwards. */
hy_status hy_model_load(hy_model **out, const hy_file *f, const hy_load_opts *o, hy_err *err);
void hy_model_free(hy_model *m);                   /* accepts NULL */
/* The one large region of the weights, for whoever asks how much of it is in memory. */
typedef struct hy_region { const void *p; uint64_t n_bytes; } hy_region;
hy_region hy_model_region(const hy_model *m);
bool hy_model_is_mapped(const hy_model *m);        /* it is a file's, which others may share */

/* KV groups by window (layers' order kept); fills group[] (n_page = 0) and for each layer its group and
 * index in it. Returns the number of groups, 0 when more than HY_KV_GROUPS_MAX. */
uint32_t hy_model_kv_groups(const hy_model *m, hy_kv_type type, hy_kv_group group[HY_KV_GROUPS_MAX],
                            uint8_t *layer_group, uint16_t *layer_index);

/* ---- plan ------------------------------------------------------------------------------------- */

typedef struct hy_plan_opts {
    bool fuse;                 /* default true */
    bool act_f32;              /* keep activations in F32 for quantised weights too */
    hy_kv_type kv_type;
    uint32_t n_ctx;            /* longest sequence */
    uint32_t n_tok_max;        /* tokens of the largest step */
    uint32_t n_out_max;        /* rows with logits of the largest step */
    uint32_t n_row_max;        /* sequences of the largest step */
    uint32_t n_thread_max;     /* largest team that runs it; 0: HY_THREADS_MAX */
    bool no_cascade;           /* read shared pages once for each sequence: only to be measured */
    bool materialised;         /* attention keeps whole rows of scores in memory: only to be measured */
    bool small_pages;          /* memory without huge pages: only to be measured */
} hy_plan_opts;

typedef struct hy_plan hy_plan;
hy_status hy_plan_compile(hy_plan **out, const hy_model *m, const hy_plan_opts *o, hy_err *err);
void hy_plan_free(hy_plan *p);                     /* accepts NULL */
uint64_t hy_plan_bytes(const hy_plan *p);          /* slots and tables */
/* Key tokens (mean over the layers) that steps so far did not read again because their page was shared. */
uint64_t hy_plan_cascade_saved(const hy_plan *p);
hy_region hy_plan_region(const hy_plan *p);        /* of these, the one large region */

/* One sequence's share of a step: tokens [tok_first, tok_first + n_tok) of the batch at positions
 * pos0 ... of that sequence. */
typedef struct hy_row {
    const hy_page_table *table;
    uint32_t tok_first, n_tok, pos0;
    /* Tokens the sequence had when it started (its prompt); 0: pos0 + n_tok. LongRoPE takes its long
     * factors when this is beyond the original context, so give the same value in every step of a
     * sequence: keys are cached rotated. Nothing else reads it. */
    uint32_t n_total;
} hy_row;

typedef struct hy_batch {
    uint32_t n_tok;
    const int32_t *token;      /* [n_tok], each < n_vocab: checked at the door */
    const int32_t *pos;        /* [n_tok] */
    uint32_t n_row;
    const hy_row *row;
    uint32_t n_out;
    const uint32_t *out_tok;   /* [n_out] indices of tokens that want logits, ascending */
    uint32_t n_hidden;         /* the last so many of these want no logits, only hy_plan_hidden */
    hy_logit_row *kept;        /* [n_out - n_hidden], filled: what is known of each row of logits; or NULL */
} hy_batch;

/* One step. logits: [n_out - n_hidden, n_vocab] (may be NULL when that is 0). No allocation. Pages must be reserved.
 * Thread: the team's owner. */
hy_status hy_plan_run(hy_plan *p, hy_team *team, const hy_kv *kv, const hy_batch *b, float *logits,
                      hy_err *err);
/* [n_embd]: out_tok[i_out]'s hidden state after the final norm, of the last step; valid until the next. */
const float *hy_plan_hidden(const hy_plan *p, uint32_t i_out);
/* Cached keys of equal tokens differ where this does: LongRoPE and dynamic NTK rotate by the length that a
 * sequence had at its start (hy_row.n_total). 0 for all other models. */
uint64_t hy_plan_cache_salt(const hy_plan *p, uint32_t n_total);

/* How many threads of its team a step takes: n_few for steps of up to HY_FEW_TOK tokens (decode), n_many for
 * longer ones. Until this is called a step takes what hy_team_use says. With a CPU quota, steps take one thread
 * less whenever the quota stopped the process since the last look, and try one more after some quiet time:
 * threads that are stopped together cost less than threads that wait for one that is stopped.
 * Thread: the team's owner. */
#define HY_FEW_TOK 4
void hy_plan_threads(hy_plan *p, uint32_t n_many, uint32_t n_few, bool watch_quota);
/* As set, not counting what the quota took away. */
uint32_t hy_plan_threads_many(const hy_plan *p);
uint32_t hy_plan_threads_few(const hy_plan *p);

/* What an operator took and did since timing began. ns: mean over the threads of the time they worked on
 * it; wait_ns: of the time they waited at its barriers. Both, over all operators, are the time of the steps. */
typedef struct hy_op_time {
    hy_op op;
    uint64_t n, ns, bytes;     /* bytes: weights, keys, values and activations */
    uint64_t wait_ns;
    uint64_t mem_bytes;        /* of bytes: weights, keys and values, each once a step */
    uint64_t ops_int8, ops_f32;/* of matrix products and attention; a multiply-add is two */
} hy_op_time;
/* Starts again from zero. False when there is no memory for it: then nothing is timed. Costs less than
 * 3 % while on and nothing while off. */
bool hy_plan_timing(hy_plan *p, bool on);
uint32_t hy_plan_times(const hy_plan *p, hy_op_time out[HY_OP_COUNT]);

/* Timing with spans for a trace: the last n_span of each of the first n_thread threads are kept. */
typedef struct hy_plan_span {
    uint64_t ns_first, ns_done, ns_last; /* began; own share done; all done */
    uint64_t i_step;
    hy_op op;
    int32_t i_layer;           /* -1: outside the layers */
} hy_plan_span;
hy_status hy_plan_trace(hy_plan *p, uint32_t n_thread, uint32_t n_span, hy_err *err);
/* [n_thread][n_span] spans, of which each thread wrote n_taken and the last n_span are there. */
typedef struct hy_plan_rings {
    hy_plan_span *span;
    uint64_t *n_taken;
    uint32_t n_thread, n_span;
} hy_plan_rings;
/* The same into memory of the caller's; a zeroed one ends it. Between steps, once timing has been on. */
void hy_plan_trace_into(hy_plan *p, hy_plan_rings r);
hy_plan_rings hy_plan_traced(const hy_plan *p);
typedef void hy_plan_span_fn(void *ctx, uint32_t i_thread, const hy_plan_span *s);
void hy_plan_each_span(const hy_plan_rings *r, hy_plan_span_fn *fn, void *ctx); /* by thread, oldest first */

/* Shows the inputs of every matrix multiplication, as floats, before it runs: n_tok rows of k, `stride`
 * floats apart. Experts' matrices are shown once for each token that chose them; expert is 0 for the
 * others. i_layer: -1 for the output matrix. From worker 0; fn NULL: off. */
typedef void hy_tap_fn(void *ctx, hy_role role, int32_t i_layer, uint32_t expert, const float *x,
                       uint32_t n_tok, size_t stride, uint64_t k);
void hy_plan_tap(hy_plan *p, hy_tap_fn *fn, void *ctx);

/* Text of the plan: instructions before and after fusion, operators' count, bytes each moves for one
 * decoded token. json: as a JSON object. */
hy_status hy_plan_explain(const hy_model *m, const hy_plan_opts *o, bool json, hy_buf *out, hy_err *err);

/* A Hugging Face folder's model as a GGUF would have it: for quantize. */
#include "plan/to_gguf.h"

#endif
