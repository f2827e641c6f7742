/* arch: model families as data. May include base, quant.
 *
 * A family is a table of hyper-parameters, a table of tensors and a recipe: rows of operators over
 * slots. It may compute hyper-parameters in C (`derive`); it never computes activations. */
#ifndef HY_ARCH_H
#define HY_ARCH_H

#include "base/base.h"
#include "quant/quant.h"

/* ---- hyper-parameters ------------------------------------------------------------------------- */

typedef enum hy_norm_kind { HY_NORM_RMS, HY_NORM_LAYER } hy_norm_kind;
typedef enum hy_act_kind { /* same order as hy_act_fn_id in kern.h */
    HY_A_SILU, HY_A_GELU, HY_A_GELU_TANH, HY_A_RELU, HY_A_RELU2, HY_A_SIGMOID, HY_A_SWIGLU_OAI
} hy_act_kind;
typedef enum hy_rope_kind { HY_ROPE_PLAIN, HY_ROPE_LINEAR, HY_ROPE_LLAMA3, HY_ROPE_YARN,
    HY_ROPE_DYNAMIC, HY_ROPE_LONGROPE } hy_rope_kind;
typedef enum hy_gating { HY_GATE_SOFTMAX, /* softmax over all, then top-k */
    HY_GATE_TOPK_SOFTMAX,      /* top-k, then softmax over those */
    HY_GATE_SIGMOID } hy_gating;

typedef struct hy_rope {
    hy_rope_kind kind;
    bool interleaved;          /* pairs (2i, 2i+1), else (i, i + n_rot/2) */
    uint32_t n_rot;            /* rotated dimensions of a head */
    double base, factor;
    uint32_t n_ctx_orig;
    double low_freq, high_freq;                    /* llama3 */
    double beta_fast, beta_slow, ext_factor, attn_factor; /* yarn; attn_factor < 0: from factor */
    double mscale, mscale_all;                     /* yarn, DeepSeek; 0: absent */
    bool truncate;                                 /* yarn: round the correction range */
    const float *freq_factors; /* [n_rot/2] or NULL: divides each frequency (rope_freqs.weight) */
    const float *long_factors, *short_factors;     /* longrope; [n_rot/2] */
} hy_rope;

typedef struct hy_layer_params {
    uint32_t window;           /* 0: full attention */
    int8_t rope;               /* index into hy_hparams.rope, or -1: none */
    bool moe;
    uint32_t n_head, n_kv_head, n_ff;
} hy_layer_params;

#define HY_LAYERS_MAX 1024
typedef struct hy_hparams {
    uint32_t n_layer, n_embd, n_vocab, n_ctx_train;
    uint32_t n_head, n_kv_head, d_k, d_v;          /* d_k: query/key head size */
    uint32_t n_ff, n_expert, n_expert_used, n_ff_expert, n_ff_shared;
    hy_norm_kind norm;
    hy_act_kind act;
    double norm_eps;
    double embd_scale;         /* 1 */
    double attn_scale;         /* 0: 1/sqrt(d_k) */
    double residual_scale;     /* 1: branch * this is added to x */
    double logit_scale;        /* 1: logits * this */
    double attn_softcap, logit_softcap;            /* 0: none */
    hy_gating gating;
    bool norm_topk;            /* divide the chosen experts' weights by their sum */
    bool parallel;             /* attention and FFN read the same x: HY_IF_PARALLEL rows */
    double expert_scale;       /* 1 */
    uint32_t window;           /* of windowed layers; 0: none */
    hy_rope rope[2];           /* [0] main, [1] that of windowed layers where it differs */
    hy_layer_params *layer;    /* [n_layer] */
} hy_hparams;

/* ---- weights ---------------------------------------------------------------------------------- */

/* X(role, GGUF name without ".weight") - "%u" where it belongs to a layer. A bias is the same name
 * with ".bias" and belongs to the role. */
#define HY_ROLE_LIST(X)                                                                            \
    X(TOK_EMBD, "token_embd") X(POS_EMBD, "position_embd") X(EMBD_NORM, "token_embd_norm")         \
    X(OUT_NORM, "output_norm") X(OUTPUT, "output")                                                 \
    X(ROPE_FREQS, "rope_freqs") X(ROPE_LONG, "rope_factors_long") X(ROPE_SHORT, "rope_factors_short") \
    X(ATTN_NORM, "blk.%u.attn_norm") X(ATTN_NORM_2, "blk.%u.attn_norm_2")                          \
    X(Q, "blk.%u.attn_q") X(K, "blk.%u.attn_k") X(V, "blk.%u.attn_v") X(O, "blk.%u.attn_output")   \
    X(Q_NORM, "blk.%u.attn_q_norm") X(K_NORM, "blk.%u.attn_k_norm") X(SINKS, "blk.%u.attn_sinks")  \
    X(ATTN_POST_NORM, "blk.%u.post_attention_norm") X(FFN_NORM, "blk.%u.ffn_norm")                 \
    X(GATE, "blk.%u.ffn_gate") X(UP, "blk.%u.ffn_up") X(DOWN, "blk.%u.ffn_down")                   \
    X(FFN_POST_NORM, "blk.%u.post_ffw_norm")                                                       \
    X(ROUTER, "blk.%u.ffn_gate_inp") X(E_GATE, "blk.%u.ffn_gate_exps")                             \
    X(E_UP, "blk.%u.ffn_up_exps") X(E_DOWN, "blk.%u.ffn_down_exps")                                \
    X(S_ROUTER, "blk.%u.ffn_gate_inp_shexp") X(S_GATE, "blk.%u.ffn_gate_shexp")                    \
    X(S_UP, "blk.%u.ffn_up_shexp") X(S_DOWN, "blk.%u.ffn_down_shexp")

typedef enum hy_role {
    HY_W_NONE,
#define X(id, name) HY_W_##id,
    HY_ROLE_LIST(X)
#undef X
    HY_W_COUNT
} hy_role;
#define HY_W_FIRST_LAYER_ROLE HY_W_ATTN_NORM       /* roles before it belong to the whole model */
const char *hy_role_name(hy_role r);               /* the GGUF name pattern */
/* Norm weights, sinks and factors are kept as F32 vectors; every other role is packed in panels. */
bool hy_role_is_vector(hy_role r);

/* Dimensions by meaning, resolved from the hyper-parameters (of the layer). */
typedef enum hy_dim { HY_D_NONE, HY_D_EMBD, HY_D_VOCAB, HY_D_CTX, HY_D_Q /* n_head * d_k */,
    HY_D_K /* n_kv_head * d_k */, HY_D_V /* n_kv_head * d_v */, HY_D_O /* n_head * d_v */,
    HY_D_HEAD_K, HY_D_FF, HY_D_EXPERT, HY_D_FF_EXPERT, HY_D_FF_SHARED, HY_D_N_HEAD, HY_D_N_KV_HEAD,
    HY_D_ONE, HY_D_ROT_HALF, HY_D_ANY } hy_dim;
uint64_t hy_dim_size(const hy_hparams *hp, uint32_t i_layer, hy_dim d);

/* ---- operators and slots ---------------------------------------------------------------------- */

/* X(op, name). What each does is written in plan/op_*.c; formulas in docs/architecture.md.
 * out and a may be the same slot (NORM, HEAD_NORM, ACT_MUL, ADD, SIGMOID_MUL). "w (+ bias)": the bias
 * is added where the file has one. */
#define HY_OP_LIST(X)                                                                              \
    X(EMBED, "embed")          /* out[t] = row token[t] of w, * embd_scale */                      \
    X(POS_ADD, "pos_add")      /* out[t] += row pos[t] of w */                                     \
    X(NORM, "norm")            /* hp.norm over the whole row of slot a (also Q, K); w (+ bias) */  \
    X(HEAD_NORM, "head_norm")  /* over each head of d_k; w (+ bias) is [d_k] or [heads, d_k]: n_vec */ \
    X(MATMUL, "matmul")        /* out = w a (+ bias) */                                            \
    X(ROPE, "rope")            /* in place on out (Q or K), by the layer's rope */                 \
    X(KV_PUT, "kv_put")        /* K in a, V in b into the pages */                                 \
    X(ATTENTION, "attention")  /* out = softmax(q k) v over the pages; q in a; w: NONE, or SINKS   \
                                  [n_head]: one more logit a head in the softmax, without a value */ \
    X(ADD, "add")              /* out = a + b * residual_scale */                                  \
    X(ACT, "act")              /* in place on out: hp.act */                                       \
    X(ACT_MUL, "act_mul")      /* out = act(a) * b */                                              \
    X(MOE_ROUTE, "moe_route")  /* R = chosen experts and weights of a (router w) */                \
    X(MOE_UP, "moe_up")        /* out = act(E_GATE a) * (E_UP a), for each expert chosen in b = R;  \
                                  w = E_UP (E_GATE is implied), both (+ bias of the expert) */     \
    X(MOE_DOWN, "moe_down")    /* out = sum over the experts chosen in b = R, in rank order, of     \
                                  weight * (E_DOWN a + bias of the expert) */                      \
    X(SIGMOID_MUL, "sigmoid_mul") /* out = a * sigmoid(b[0]) (b is one number a token) */          \
    X(SELECT, "select")        /* out = the rows of a that want logits */                          \
    X(SCALE, "scale")          /* in place on out: * hp.logit_scale (1: nothing to do) */          \
    X(SOFTCAP, "softcap")      /* in place on out: hp.logit_softcap (0: nothing to do) */          \
    X(QUANT, "quant")          /* int8 form of slot a (inserted by the compiler, never in recipes) */ \
    /* fused forms: made by plan's rules, never written in recipes */                              \
    X(NORM_QUANT, "norm+quant") X(QKV, "qkv") X(GATED_UP, "gate+up+act") X(MATMUL_ADD, "matmul+add") \
    X(ADD_NORM, "add+norm") X(ROPE_KV, "head_norm+rope+kv_put")

typedef enum hy_op {
#define X(id, name) HY_OP_##id,
    HY_OP_LIST(X)
#undef X
    HY_OP_COUNT
} hy_op;
const char *hy_op_name(hy_op op);

/* X(slot, its row length) */
#define HY_SLOT_LIST(X)                                                                            \
    X(X, EMBD)     /* residual stream */                                                           \
    X(H, EMBD)     /* normed input */                                                              \
    X(H2, EMBD)                                                                                    \
    X(Q, Q) X(K, K) X(V, V)                                                                        \
    X(T, O)        /* attention's output */                                                        \
    X(A, EMBD)     /* a branch's output */                                                         \
    X(B, EMBD)                                                                                     \
    X(G, FF) X(U, FF)                                                                              \
    X(SG, FF_SHARED) X(SU, FF_SHARED) X(SR, ONE) /* shared expert */                               \
    X(R, ANY)      /* routing: plan's own struct */                                                \
    X(E, ANY)      /* experts' hidden rows: n_expert_used * n_ff_expert a token */                 \
    X(Y, EMBD)     /* rows that want logits */                                                     \
    X(L, VOCAB)    /* logits */

typedef enum hy_slot {
    HY_S_NONE,
#define X(id, dim) HY_S_##id,
    HY_SLOT_LIST(X)
#undef X
    HY_S_COUNT
} hy_slot;
const char *hy_slot_name(hy_slot s);

/* A row is kept for a layer when every condition holds. HY_IF_W: the weight exists in the file.
 * HY_IF_DENSE / MOE: hp.layer[].moe. HY_IF_ROPE: hp.layer[].rope >= 0. HY_IF_PARALLEL / SEQUENTIAL:
 * hp.parallel. */
enum { HY_IF_W = 1, HY_IF_DENSE = 2, HY_IF_MOE = 4, HY_IF_ROPE = 8, HY_IF_PARALLEL = 16,
       HY_IF_SEQUENTIAL = 32 };

typedef struct hy_recipe {
    hy_op op;
    hy_slot out, a, b;
    hy_role w;
    uint32_t when;
} hy_recipe;

/* ---- a family --------------------------------------------------------------------------------- */

typedef enum hy_need { HY_NEEDED, HY_OPTIONAL } hy_need;
/* One tensor of the family. dims in GGUF order: dim[0] = row length. */
typedef struct hy_tensor_spec {
    hy_role role;
    hy_dim dim[3];
    hy_need need;              /* of layers that have such a part: experts only where moe, and so on */
    bool bias;                 /* its bias is needed too; else it is taken where the file has one */
} hy_tensor_spec;

typedef struct hy_family {
    const char *name;          /* "qwen3" */
    const char *gguf_arch;     /* general.architecture values, comma-separated; NULL: none */
    const char *hf_type;       /* config.json model_type values, comma-separated; NULL: none */
    const hy_tensor_spec *tensors; uint32_t n_tensor;
    const hy_recipe *head; uint32_t n_head_rows;   /* once, before the layers */
    const hy_recipe *block; uint32_t n_block_rows; /* per layer */
    const hy_recipe *tail; uint32_t n_tail_rows;   /* once, after */
    const struct hy_family_io *io; /* how files name and lay out things: arch/io.h */
    /* After the file's values are in: fills what follows from them, checks what the family demands. */
    hy_status (*derive)(hy_hparams *hp, hy_err *err);
} hy_family;

const hy_family *hy_family_at(uint32_t i);         /* NULL past the last: arch/list.def's order */
/* "not known: NAME; known: a, b, c" with HY_E_UNSUPPORTED. */
hy_status hy_family_by_gguf(const hy_family **out, const char *arch, hy_err *err);
hy_status hy_family_by_hf(const hy_family **out, const char *model_type, hy_err *err);

/* How files name and lay out a family; read by plan's loader. */
#include "arch/io.h"

#endif
