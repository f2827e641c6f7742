/* Qwen 1.5 and 2 with experts: beside those chosen, a shared one behind a sigmoid gate. */
#include "arch/rows.h"

static const hy_tensor_spec tensors[] = {
    HY_TENSORS_EMBD, HY_TENSORS_NORMS,
    HY_MAT_B(Q, EMBD, Q, NEEDED), HY_MAT_B(K, EMBD, K, NEEDED), HY_MAT_B(V, EMBD, V, NEEDED),
    HY_MAT(O, O, EMBD, NEEDED), HY_TENSORS_GATED, HY_TENSORS_MOE,
    HY_MAT(S_ROUTER, EMBD, ONE, NEEDED), HY_MAT(S_GATE, EMBD, FF_SHARED, NEEDED),
    HY_MAT(S_UP, EMBD, FF_SHARED, NEEDED), HY_MAT(S_DOWN, FF_SHARED, EMBD, NEEDED),
};

static const hy_recipe block[] = {
    HY_ROW(NORM, H, X, NONE, ATTN_NORM, 0),
    HY_ROWS_QKV(H),
    HY_ROWS_ROPE,
    HY_ROWS_ATTEND(NONE),
    HY_ROW(ADD, X, X, A, NONE, 0),
    HY_ROW(NORM, H, X, NONE, FFN_NORM, 0),
    HY_ROWS_GATED(A, H, HY_IF_DENSE),
    HY_ROWS_MOE(A, H),
    HY_ROW(MATMUL, SG, H, NONE, S_GATE, HY_IF_MOE),
    HY_ROW(MATMUL, SU, H, NONE, S_UP, HY_IF_MOE),
    HY_ROW(ACT_MUL, SU, SG, SU, NONE, HY_IF_MOE),
    HY_ROW(MATMUL, B, SU, NONE, S_DOWN, HY_IF_MOE),
    HY_ROW(MATMUL, SR, H, NONE, S_ROUTER, HY_IF_MOE),
    HY_ROW(SIGMOID_MUL, B, B, SR, NONE, HY_IF_MOE),
    HY_ROW(ADD, A, A, B, NONE, HY_IF_MOE),
    HY_ROW(ADD, X, X, A, NONE, 0),
};

static const hy_name hf[] = {
    HY_NAMES_HF_MOE,
    HY_NAME(S_ROUTER, "layers.%u.mlp.shared_expert_gate"),
    HY_NAME(S_GATE, "layers.%u.mlp.shared_expert.gate_proj"),
    HY_NAME(S_UP, "layers.%u.mlp.shared_expert.up_proj"),
    HY_NAME(S_DOWN, "layers.%u.mlp.shared_expert.down_proj"),
};

static const hy_family_io io = {
    .norm = HY_NORM_RMS, .act = HY_A_SILU,
    .gating = HY_GATE_SOFTMAX, .hf = HY_TABLE(hf),
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_qwen2_moe = {
    .name = "qwen2_moe", .gguf_arch = "qwen2moe", .hf_type = "qwen2_moe", .io = &io,
    .tensors = HY_TABLE(tensors), .head = HY_TABLE(hy_head_plain),
    .block = HY_TABLE(block), .tail = HY_TABLE(hy_tail_plain),
};
