/* arch/rows: runs of table rows that many families share. Used inside the tables of family files. */
#ifndef HY_ARCH_ROWS_H
#define HY_ARCH_ROWS_H

#include "arch/arch.h"
#include "arch/io.h"

#define HY_TABLE(array) (array), HY_COUNT(array)

/* ---- recipes: { op, out, a, b, weight, when } ---------------------------------------------- */

#define HY_ROW(op, out, a, b, w, when)                                                             \
    { HY_OP_##op, HY_S_##out, HY_S_##a, HY_S_##b, HY_W_##w, (when) }

#define HY_ROWS_QKV(in)                                                                            \
    HY_ROW(MATMUL, Q, in, NONE, Q, 0), HY_ROW(MATMUL, K, in, NONE, K, 0),                          \
    HY_ROW(MATMUL, V, in, NONE, V, 0)

#define HY_ROWS_ROPE                                                                               \
    HY_ROW(ROPE, Q, NONE, NONE, NONE, HY_IF_ROPE), HY_ROW(ROPE, K, NONE, NONE, NONE, HY_IF_ROPE)

/* norms of each head, where the file has them */
#define HY_ROWS_HEAD_NORM                                                                          \
    HY_ROW(HEAD_NORM, Q, Q, NONE, Q_NORM, HY_IF_W), HY_ROW(HEAD_NORM, K, K, NONE, K_NORM, HY_IF_W)

#define HY_ROWS_ATTEND(sinks)                                                                      \
    HY_ROW(KV_PUT, NONE, K, V, NONE, 0), HY_ROW(ATTENTION, T, Q, NONE, sinks, 0),                  \
    HY_ROW(MATMUL, A, T, NONE, O, 0)

/* out = DOWN (act(GATE in) * UP in) */
#define HY_ROWS_GATED(out, in, when)                                                               \
    HY_ROW(MATMUL, G, in, NONE, GATE, when), HY_ROW(MATMUL, U, in, NONE, UP, when),                \
    HY_ROW(ACT_MUL, U, G, U, NONE, when), HY_ROW(MATMUL, out, U, NONE, DOWN, when)

/* out = DOWN act(UP in) */
#define HY_ROWS_PLAIN_FFN(out, in)                                                                 \
    HY_ROW(MATMUL, U, in, NONE, UP, 0), HY_ROW(ACT, U, NONE, NONE, NONE, 0),                       \
    HY_ROW(MATMUL, out, U, NONE, DOWN, 0)

#define HY_ROWS_MOE(out, in)                                                                       \
    HY_ROW(MOE_ROUTE, R, in, NONE, ROUTER, HY_IF_MOE), HY_ROW(MOE_UP, E, in, R, E_UP, HY_IF_MOE),  \
    HY_ROW(MOE_DOWN, out, E, R, E_DOWN, HY_IF_MOE)

#define HY_ROWS_EMBED HY_ROW(EMBED, X, NONE, NONE, TOK_EMBD, 0)
#define HY_ROWS_LOGITS                                                                             \
    HY_ROW(SELECT, Y, X, NONE, NONE, 0), HY_ROW(NORM, Y, Y, NONE, OUT_NORM, 0),                    \
    HY_ROW(MATMUL, L, Y, NONE, OUTPUT, 0)

/* ---- tensors: { role, dims, need, bias } --------------------------------------------------- */

#define HY_VEC(role, d, need) { HY_W_##role, { HY_D_##d, HY_D_NONE, HY_D_NONE }, HY_##need, false }
#define HY_VEC_B(role, d, need) { HY_W_##role, { HY_D_##d, HY_D_NONE, HY_D_NONE }, HY_##need, true }
#define HY_MAT(role, in, out, need)                                                                \
    { HY_W_##role, { HY_D_##in, HY_D_##out, HY_D_NONE }, HY_##need, false }
#define HY_MAT_B(role, in, out, need)                                                              \
    { HY_W_##role, { HY_D_##in, HY_D_##out, HY_D_NONE }, HY_##need, true }
#define HY_EXP(role, in, out)                                                                      \
    { HY_W_##role, { HY_D_##in, HY_D_##out, HY_D_EXPERT }, HY_NEEDED, false }

/* an absent output matrix is the token embedding */
#define HY_TENSORS_EMBD                                                                            \
    HY_MAT(TOK_EMBD, EMBD, VOCAB, NEEDED), HY_MAT(OUTPUT, EMBD, VOCAB, OPTIONAL)
#define HY_TENSORS_ATTN                                                                            \
    HY_MAT(Q, EMBD, Q, NEEDED), HY_MAT(K, EMBD, K, NEEDED), HY_MAT(V, EMBD, V, NEEDED),            \
    HY_MAT(O, O, EMBD, NEEDED)
#define HY_TENSORS_ATTN_B                                                                          \
    HY_MAT_B(Q, EMBD, Q, NEEDED), HY_MAT_B(K, EMBD, K, NEEDED), HY_MAT_B(V, EMBD, V, NEEDED),      \
    HY_MAT_B(O, O, EMBD, NEEDED)
#define HY_TENSORS_GATED                                                                           \
    HY_MAT(GATE, EMBD, FF, NEEDED), HY_MAT(UP, EMBD, FF, NEEDED), HY_MAT(DOWN, FF, EMBD, NEEDED)
#define HY_TENSORS_PLAIN_FFN                                                                       \
    HY_MAT(UP, EMBD, FF, NEEDED), HY_MAT(DOWN, FF, EMBD, NEEDED)
#define HY_TENSORS_PLAIN_FFN_B                                                                     \
    HY_MAT_B(UP, EMBD, FF, NEEDED), HY_MAT_B(DOWN, FF, EMBD, NEEDED)
#define HY_TENSORS_MOE                                                                             \
    HY_MAT(ROUTER, EMBD, EXPERT, NEEDED), HY_EXP(E_GATE, EMBD, FF_EXPERT),                         \
    HY_EXP(E_UP, EMBD, FF_EXPERT), HY_EXP(E_DOWN, FF_EXPERT, EMBD)
#define HY_TENSORS_NORMS                                                                           \
    HY_VEC(OUT_NORM, EMBD, NEEDED), HY_VEC(ATTN_NORM, EMBD, NEEDED), HY_VEC(FFN_NORM, EMBD, NEEDED)
#define HY_TENSORS_NORMS_B                                                                         \
    HY_VEC_B(OUT_NORM, EMBD, NEEDED), HY_VEC_B(ATTN_NORM, EMBD, NEEDED),                           \
    HY_VEC_B(FFN_NORM, EMBD, NEEDED)

/* ---- names in files: { role, name, pick, flags } ------------------------------------------- */

#define HY_NAME(role, name) { HY_W_##role, name, HY_PICK_ALL, 0 }
#define HY_NAME_P1(role, name) { HY_W_##role, name, HY_PICK_ALL, HY_PLUS_ONE }

/* GGUF: Q, K, V in one tensor; gate and up in one */
#define HY_NAMES_GGUF_QKV                                                                          \
    { HY_W_Q, "blk.%u.attn_qkv", HY_PICK_Q, 0 }, { HY_W_K, "blk.%u.attn_qkv", HY_PICK_K, 0 },      \
    { HY_W_V, "blk.%u.attn_qkv", HY_PICK_V, 0 }
#define HY_NAMES_GGUF_GATE_UP                                                                      \
    { HY_W_GATE, "blk.%u.ffn_up", HY_PICK_FIRST, 0 },                                              \
    { HY_W_UP, "blk.%u.ffn_up", HY_PICK_SECOND, 0 }

/* safetensors: experts under mlp, one tensor an expert or stacked */
#define HY_NAMES_HF_MOE                                                                            \
    HY_NAME(ROUTER, "layers.%u.mlp.gate"),                                                         \
    HY_NAME(E_GATE, "layers.%u.mlp.experts.%u.gate_proj"),                                         \
    HY_NAME(E_UP, "layers.%u.mlp.experts.%u.up_proj"),                                             \
    HY_NAME(E_DOWN, "layers.%u.mlp.experts.%u.down_proj"),                                         \
    { HY_W_E_GATE, "layers.%u.mlp.experts.gate_up_proj", HY_PICK_FIRST, HY_BARE },                 \
    { HY_W_E_UP, "layers.%u.mlp.experts.gate_up_proj", HY_PICK_SECOND, HY_BARE },                  \
    { HY_W_E_DOWN, "layers.%u.mlp.experts.down_proj", HY_PICK_ALL, HY_BARE }

/* ---- shared tables (tables.c) -------------------------------------------------------------- */

extern const hy_recipe hy_head_plain[1];           /* EMBED */
extern const hy_recipe hy_tail_plain[3];           /* SELECT, NORM, MATMUL */
extern const hy_recipe hy_tail_scaled[4];          /* ... SCALE */
extern const hy_recipe hy_tail_capped[4];          /* ... SOFTCAP */

/* norm, attention, add, norm, gated FFN or experts, add */
#define HY_LLAMA_TENSORS 16
#define HY_LLAMA_BLOCK 19
extern const hy_tensor_spec hy_llama_tensors[HY_LLAMA_TENSORS];
extern const hy_recipe hy_llama_block[HY_LLAMA_BLOCK];
/* the same with norms of each head of Q and K (Qwen 3) */
#define HY_QWEN3_TENSORS 18
#define HY_QWEN3_BLOCK 21
extern const hy_tensor_spec hy_qwen3_tensors[HY_QWEN3_TENSORS];
extern const hy_recipe hy_qwen3_block[HY_QWEN3_BLOCK];
/* norms before and after each branch (Gemma 2, GLM 4; Gemma 3 with norms of each head) */
#define HY_SANDWICH_TENSORS 16
#define HY_SANDWICH_BLOCK 20
extern const hy_tensor_spec hy_sandwich_tensors[HY_SANDWICH_TENSORS];
extern const hy_recipe hy_sandwich_block[HY_SANDWICH_BLOCK];
/* norms after each branch only, Q and K normed as whole rows (OLMo 2 and 3) */
#define HY_OLMO2_TENSORS 14
#define HY_OLMO2_BLOCK 18
extern const hy_tensor_spec hy_olmo2_tensors[HY_OLMO2_TENSORS];
extern const hy_recipe hy_olmo2_block[HY_OLMO2_BLOCK];
/* attention and FFN of the same normed x, LayerNorm (Cohere) */
#define HY_COHERE_TENSORS 13
#define HY_COHERE_BLOCK 17
extern const hy_tensor_spec hy_cohere_tensors[HY_COHERE_TENSORS];
extern const hy_recipe hy_cohere_block[HY_COHERE_BLOCK];

/* GGUF with one tensor an expert */
extern const hy_name hy_gguf_experts[3];
/* the names that most checkpoints of the hub have; prefix "model." */
#define HY_HF_LLAMA 15
extern const hy_name hy_hf_llama[HY_HF_LLAMA];

/* A family with llama's recipe and tensors. */
#define HY_LLAMA_TABLES                                                                            \
    .tensors = HY_TABLE(hy_llama_tensors), .head = HY_TABLE(hy_head_plain),                        \
    .block = HY_TABLE(hy_llama_block), .tail = HY_TABLE(hy_tail_plain)

/* Gemma: embeddings times sqrt(n_embd). */
hy_status hy_derive_gemma(hy_hparams *hp, hy_err *err);
/* Granite: the file's logit scale divides. */
hy_status hy_derive_granite(hy_hparams *hp, hy_err *err);

#endif
